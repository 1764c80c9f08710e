"""How rules are checked: one function a rule, which gives what is wrong in words, or None."""

import io
import pickle
import warnings
from copy import deepcopy
from types import FunctionType

import numpy as np
from sklearn.base import clone


class Broken(Exception):
    """A rule is broken; the text says what was seen and what to do."""


def check_rules(part, rules, *case):
    """Check rules by their sentence, in order.

    Raises
    ------
    AssertionError
        At the first rule that is broken, or in whose check the part raises an error.
    """
    name = part if isinstance(part, str) else type(part).__name__
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for rule, check in rules.items():
            try:
                check(*case)
            except Broken as broken:
                raise AssertionError(f"{name} breaks the rule: {rule}. {broken}") from None
            except Exception as error:
                raise AssertionError(
                    f"{name} breaks the rule: {rule}. It raised {type(error).__name__}: {error}"
                ) from error


def require(holds, *sentences):
    """Raise `Broken` with what was seen and what to do, unless it holds."""
    if not holds:
        raise Broken(" ".join(sentences))


def copy_of(part):
    """An unfitted copy; of an object without parameters a deep one."""
    return clone(part) if hasattr(part, "get_params") else deepcopy(part)


def check_parameters(part, used=None):
    """Parameters are stored as given, and `used`, a copy that was fitted, still has them."""
    if not hasattr(part, "get_params"):
        return
    try:
        twin = clone(part)
    except Exception as error:
        raise Broken(
            f"`sklearn.base.clone` raised {type(error).__name__}: {error} Store every argument of `__init__` "
            "unchanged under its own name, and nothing else."
        ) from error
    for what, other in (("a clone", twin), ("the copy that was fitted", used)):
        if other is None:
            continue
        for name, value in part.get_params(deep=False).items():
            require(
                same(value, other.get_params(deep=False)[name]),
                f"Parameter `{name}` is another one in {what}. Keep what is learned in names that end with "
                "an underscore, and clone objects before they are fitted.",
            )


def same(first, second):
    """Whether two parameters or results are equal, bit for bit where they hold arrays."""
    return first is second or bits(first) == bits(second)


def bits(value):
    """Something that is equal for equal values: the bytes of arrays, recursively through objects."""
    if isinstance(value, np.ndarray):
        return value.shape, str(value.dtype), value.tobytes() if value.dtype != object else bits(list(value))
    if isinstance(value, dict):
        return [(bits(key), bits(one)) for key, one in value.items()]
    if isinstance(value, list | tuple):
        return [bits(one) for one in value]
    if hasattr(value, "get_params") and not isinstance(value, type):
        return type(value).__qualname__, bits(vars(value))
    if hasattr(value, "encode") and hasattr(value, "arrays"):
        return value.encode()
    if hasattr(value, "to_packet"):
        return value.to_packet().encode()
    if hasattr(value, "to_numpy"):
        return bits(value.to_numpy())
    return value if isinstance(value, int | float | str | bool | slice | type(None)) else repr(value)


def frozen(*values):
    """Bytes of arguments before a call, to see afterwards whether they changed."""
    return [bits(value) for value in values]


def real(value, shape, what):
    """`value` is an array of finite real numbers of this shape."""
    require(
        isinstance(value, np.ndarray) and value.dtype.kind == "f",
        f"{what} is a {_kind(value)}; give an ndarray of floats.",
    )
    require(value.shape == shape, f"{what} has shape {value.shape}, expected {shape}.")
    require(np.isfinite(value).all(), f"{what} has values that are not finite.")


def covariance(value, what):
    """Matrices are symmetric and positive semidefinite."""
    off = np.abs(value - np.swapaxes(value, -1, -2)).max()
    scale = np.abs(value).max()
    require(
        off <= 1e-8 * scale, f"{what} is not symmetric: elements and their mirror images differ by {off:.3g}."
    )
    least = np.linalg.eigvalsh(value).min()
    require(
        least >= -1e-8 * scale,
        f"{what} is not positive semidefinite: its smallest eigenvalue is {least:.3g}.",
    )


def close(first, second, tolerance=1e-6):
    """Whether two arrays agree up to a share of the size of the second."""
    first, second = np.asarray(first), np.asarray(second)
    return first.shape == second.shape and np.allclose(
        first, second, rtol=0, atol=tolerance * max(np.abs(second).max(initial=0.0), 1e-12), equal_nan=True
    )


def holds_rows(thing, series):
    """Whether the pickle of a thing holds some row, or some neighbours of a column, of series."""
    data = pickled(thing)[0]
    for table in series:
        rows = range(5, len(table) - 3, max(len(table) // 20, 1))
        pairs = [table[t : t + 3, j] for t in rows for j in range(table.shape[1])]
        found = [table[t] for t in rows] if table.shape[1] > 1 else []
        seen = [np.ascontiguousarray(one) for one in (*found, *pairs) if np.isfinite(one).all()]
        if any(one.any() and one.tobytes() in data for one in seen):
            return True
    return False


def sent(thing):
    """Copy of a thing as it comes to another process."""
    data, known = pickled(thing)
    reader = pickle.Unpickler(io.BytesIO(data))
    reader.persistent_load = known.__getitem__  # type: ignore[method-assign]
    return reader.load()


def pickled(thing):
    """Pickle of a thing, and the classes and functions in it, which may be of a notebook or a test."""
    file, known = io.BytesIO(), {}

    def name_of(value):
        if not isinstance(value, type | FunctionType):
            return None
        name = f"{value.__module__} {value.__qualname__} {id(value)}"
        known[name] = value
        return name

    writer = pickle.Pickler(file)
    writer.persistent_id = name_of  # type: ignore[method-assign]
    writer.dump(thing)
    return file.getvalue(), known


def _kind(value):
    return (
        f"{type(value).__name__} of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
    )
