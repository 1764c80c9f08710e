"""Checks of the generator's arguments: what came, what was expected, what to do."""

from collections.abc import Iterable
from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_random_state


def as_generator(random_state):
    """Numpy Generator from None, an int, a RandomState or a Generator (used as it is)."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    seed = check_random_state(random_state).randint(2**32, size=4, dtype=np.uint32)
    return np.random.default_rng(seed)


def require(holds, name, wanted, value):
    """Refuse an argument that is not as wanted."""
    if not holds:
        raise ValueError(f"{name} must be {wanted}. Got {value!r}.")


def _is_whole(value):
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_count(value, name, low):
    """An integer of at least `low`."""
    require(_is_whole(value) and value >= low, name, f"an integer of at least {low}", value)
    return int(value)


def check_share(value, name):
    """A number in [0, 1)."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    require(is_number and 0 <= float(value) < 1, name, "a number in [0, 1)", value)
    return float(value)


def check_known(value, known, name):
    """One of the strings `known`."""
    require(value in known, name, f"one of {', '.join(map(repr, known))}", value)
    return value


def check_interval(value, name, high=np.inf):
    """A pair ``0 < low <= high``, from a pair or from one number (both ends)."""
    ends = np.asarray(value, dtype=float)
    low, top = (ends, ends) if ends.ndim == 0 else ends if ends.shape == (2,) else (np.nan, np.nan)
    bound = "0 < low <= high" + ("" if np.isinf(high) else f" < {high}")
    require(0 < low <= top < high, name, f"a number or a pair (low, high) with {bound}", value)
    return float(low), float(top)


def per_unit(value, n_units, name):
    """One entry per unit, from one entry for all units or a sequence of them."""
    if not isinstance(value, Iterable) or isinstance(value, str):
        return [value] * n_units
    values = list(value)
    if len(values) != n_units:
        raise ValueError(f"{name} has {len(values)} entries for {n_units} units; give one, or one per unit.")
    return values


def per_unit_counts(value, n_units, name, low):
    """One integer of at least `low` per unit."""
    return [check_count(v, name, low) for v in per_unit(value, n_units, name)]


def per_unit_scales(value, n_units, name, *, positive):
    """One finite standard deviation per unit, above zero when `positive`."""
    scales = np.asarray(per_unit(value, n_units, name), dtype=float)
    bound = "above zero" if positive else "of at least zero"
    holds = np.isfinite(scales).all() and not (scales < 0).any() and (scales.all() or not positive)
    require(holds, name, f"finite standard deviations {bound}", value)
    return scales


def check_names(names, n_units):
    """Unit names, ``unit0``, ``unit1``, ... by default."""
    if names is None:
        return [f"unit{m}" for m in range(n_units)]
    names = list(names)
    if len(names) != n_units:
        raise ValueError(f"Got {len(names)} names for {n_units} units; give one name per unit.")
    good = all(isinstance(name, str) and name and "__" not in name for name in names)
    wanted = "different non-empty strings without '__', which separates unit and sensor in column names"
    require(good and len(set(names)) == n_units, "names", wanted, names)
    return names


def unit_position(unit, names):
    """Position of a unit given by name or position."""
    if isinstance(unit, str) and unit in names:
        return names.index(unit)
    if _is_whole(unit) and 0 <= int(unit) < len(names):
        return int(unit)
    raise ValueError(f"Unknown unit {unit!r}; give a position from 0 to {len(names) - 1} or one of {names}.")


def row_range(start, stop, n_samples, name):
    """Rows ``start:stop``, not empty, each end a row number (int) or a share of the rows (float in [0, 1])."""
    wanted, rows = f"a row from 0 to {n_samples} (int) or a share of the rows from 0.0 to 1.0 (float)", []
    for end, value in ((f"Start of {name}", start), (f"End of {name}", stop)):
        is_share = isinstance(value, Real) and not isinstance(value, Integral) and 0 <= float(value) <= 1
        require(is_share or (_is_whole(value) and 0 <= int(value) <= n_samples), end, wanted, value)
        rows.append(round(float(value) * n_samples) if is_share else int(value))
    if rows[0] >= rows[1]:
        raise ValueError(f"{name} must cover at least one row. Got rows {rows[0]} to {rows[1]}.")
    return tuple(rows)
