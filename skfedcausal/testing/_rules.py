"""How rules are checked: a rule is a sentence, and whether it holds for what was seen of a part."""

import io
import pickle
import warnings
from types import FunctionType

import numpy as np

from ..seeding import seeded


class Broken(Exception):
    """What was seen that a rule forbids, in words."""


class Seen:
    """A part, and what was seen of it; subclasses have one example of everything that rules look at."""

    def __init__(self, given):
        self.given = given

    def new(self):
        """An unfitted copy with a seed."""
        return seeded(self.given, 0)


def check_rules(rules, seen):
    """Check rules in order; AssertionError at the first that does not hold or in which the part fails."""
    name = getattr(seen.given, "__name__", type(seen.given).__name__)
    for rule, holds in rules.items():
        why, cause = "", None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if holds(seen):
                    continue
        except Broken as broken:
            why = f" {broken}"
        except Exception as error:
            why, cause = f" It raised {type(error).__name__}: {error}", error
        raise AssertionError(f"{name} breaks the rule: {rule}.{why}") from cause


def require(holds, why):
    """True if it holds; otherwise the rule is broken, for this reason."""
    if not holds:
        raise Broken(why)
    return True


# -- what holds for parts of every kind --------------------------------------------------------------

FITTED = {
    "a fit leaves the parameters alone": lambda seen: keeps_parameters(seen.new(), seen.one),
    "a fit draws from `random_state` only and starts afresh: the same data give the same result": (
        lambda seen: same(seen.learned(seen.again()), seen.learned(seen.one))
    ),
    "what was fitted can be pickled and keeps no rows": lambda seen: keeps_no_rows(seen.one, seen.series),
}


def keeps_parameters(template, used):
    """Whether a fitted copy still has the parameters of the unfitted one."""
    names = template.get_params(deep=False) if hasattr(used, "get_params") else ()
    changed = [name for name in names if not same(getattr(template, name), getattr(used, name))]
    return require(not changed, f"{changed} are others. Learned names end with `_`; clone before a fit.")


def asked(what, method, *arguments):
    """Whether a method leaves its arguments alone and gives the same again."""
    before, known = bits(arguments), bits(method(*arguments))
    again = bits(method(*arguments))
    require(bits(arguments) == before, f"`{what}` changed an argument in place. Work on a copy.")
    return require(again == known, f"`{what}` gave something else the second time: it learns or draws.")


def unmoved(what, method, Y, changed, rows):
    """Whether what a method gives for some rows stays as it is when the measurements of others change."""
    other = Y.copy()
    other[changed] = 60.0 - 2 * other[changed]
    stays = np.allclose(method(other)[rows], method(Y)[rows], rtol=1e-6, atol=1e-6, equal_nan=True)
    return require(stays, f"`{what}` of the rows {rows} changed with the measurements of the rows {changed}.")


def looks_back(what, method, Y, ahead=0):
    """Whether what a method gives for a row rests on that row and earlier ones, or on earlier ones only."""
    return all(unmoved(what, method, Y, slice(t, None), slice(0, t + ahead)) for t in (1, 40, len(Y) - 1))


def real(value, shape, what):
    """Whether `value` is an array of finite real numbers of this shape."""
    is_real = isinstance(value, np.ndarray) and value.dtype.kind in "fiu"
    came = f"an ndarray of {value.dtype}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
    require(is_real, f"{what} is {came}; give an ndarray of floats.")
    require(value.shape == shape, f"{what} has shape {value.shape}, expected {shape}.")
    return require(np.isfinite(value).all(), f"{what} has values that are not finite.")


def covariance(value, what, scale=None):
    """Whether matrices are symmetric and positive semidefinite, up to a share of their size or of another."""
    scale = np.abs(value if scale is None else scale).max()
    off = np.abs(value - np.swapaxes(value, -1, -2)).max()
    require(off <= 1e-8 * scale, f"{what} is not symmetric, by up to {off:.3g}.")
    least = np.linalg.eigvalsh(value).min()
    return require(least >= -1e-8 * scale, f"{what} is not positive semidefinite: eigenvalue {least:.3g}.")


def keeps_no_rows(thing, series):
    """Whether the pickle of a thing is without rows, and without neighbours in a column, of series."""
    data = pickled(thing)
    for table in series:
        rows = range(5, len(table) - 3, max(len(table) // 20, 1))
        pieces = [table[t : t + 3, j] for t in rows for j in range(table.shape[1])]
        pieces += [table[t] for t in rows] if table.shape[1] > 1 else []
        found = [one for one in pieces if np.isfinite(one).all() and one.any() and one.tobytes() in data]
        require(not found, f"Its pickle holds the numbers {found[:1]}. Keep what was learned, no series.")
    return True


def pickled(thing):
    """Pickle of a thing, without the classes and functions in it, which may be of a notebook or a test."""
    file = io.BytesIO()
    writer = pickle.Pickler(file)
    writer.persistent_id = (  # type: ignore[method-assign]
        lambda value: str(id(value)) if isinstance(value, type | FunctionType) else None
    )
    writer.dump(thing)
    return file.getvalue()


# -- equal and close -------------------------------------------------------------------------


def same(first, second):
    """Whether two parameters or results are equal, bit for bit where they hold arrays."""
    return first is second or bits(first) == bits(second)


def bits(value):
    """Something that is equal for equal values: the bytes of arrays, recursively through objects."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.shape, str(value.dtype), value.tobytes()
    if isinstance(value, dict):
        return [(bits(key), bits(one)) for key, one in value.items()]
    if isinstance(value, list | tuple | np.ndarray):
        return [bits(one) for one in value]
    if hasattr(value, "to_packet"):
        return value.to_packet().encode()
    if hasattr(value, "get_params") and not isinstance(value, type):
        return type(value).__qualname__, bits(vars(value))
    return repr(value)


def close(first, second, tolerance=1e-6):
    """Whether two arrays agree up to a share of the size of the second."""
    size = tolerance * max(np.abs(second).max(initial=0.0), 1e-12)
    return np.shape(first) == np.shape(second) and np.allclose(first, second, rtol=0, atol=size)
