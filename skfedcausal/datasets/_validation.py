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


def check_count(value, name, low):
    """An integer of at least `low`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < low:
        raise ValueError(f"{name} must be an integer of at least {low}. Got {value!r}.")
    return int(value)


def check_share(value, name):
    """A number in [0, 1)."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < 1:
        raise ValueError(f"{name} must be a number in [0, 1). Got {value!r}.")
    return float(value)


def check_known(value, known, name):
    """One of the strings `known`."""
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}. Got {value!r}.")
    return value


def check_interval(value, name, high=np.inf):
    """A pair ``0 < low <= high``, from a pair or from one number (both ends)."""
    ends = np.asarray(value, dtype=float)
    low, top = (ends, ends) if ends.ndim == 0 else ends if ends.shape == (2,) else (np.nan, np.nan)
    if not 0 < low <= top < high:
        bound = "0 < low <= high" + ("" if np.isinf(high) else f" < {high}")
        raise ValueError(f"{name} must be a number or a pair (low, high) with {bound}. Got {value!r}.")
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
    if not np.isfinite(scales).all() or (scales < 0).any() or (positive and (scales == 0).any()):
        wanted = "above zero" if positive else "of at least zero"
        raise ValueError(f"{name} must be finite standard deviations {wanted}. Got {value!r}.")
    return scales


def check_names(names, n_units):
    """Unit names, ``unit0``, ``unit1``, ... by default."""
    if names is None:
        return [f"unit{m}" for m in range(n_units)]
    names = list(names)
    if len(names) != n_units:
        raise ValueError(f"Got {len(names)} names for {n_units} units; give one name per unit.")
    bad = [name for name in names if not isinstance(name, str) or not name or "__" in name]
    if bad or len(set(names)) < n_units:
        wanted = "different non-empty strings without '__', which separates unit and sensor in column names"
        raise ValueError(f"names must be {wanted}. Got {names!r}.")
    return names


def unit_position(unit, names):
    """Position of a unit given by name or position."""
    if isinstance(unit, str) and unit in names:
        return names.index(unit)
    if isinstance(unit, Integral) and not isinstance(unit, bool) and 0 <= int(unit) < len(names):
        return int(unit)
    raise ValueError(f"Unknown unit {unit!r}; give a position from 0 to {len(names) - 1} or one of {names}.")


def row_position(value, n_samples, name):
    """Row number from a row number (int) or a share of the rows (float in [0, 1])."""
    if isinstance(value, Integral) and not isinstance(value, bool) and 0 <= int(value) <= n_samples:
        return int(value)
    if isinstance(value, Real) and not isinstance(value, Integral) and 0 <= float(value) <= 1:
        return round(float(value) * n_samples)
    wanted = f"a row from 0 to {n_samples} (int) or a share of the rows from 0.0 to 1.0 (float)"
    raise ValueError(f"{name} must be {wanted}. Got {value!r}.")


def row_range(start, stop, n_samples, name):
    """Rows ``start:stop``, not empty, each end a row number or a share of the rows."""
    first = row_position(start, n_samples, f"Start of {name}")
    last = row_position(stop, n_samples, f"End of {name}")
    if first >= last:
        raise ValueError(f"{name} must cover at least one row. Got rows {first} to {last}.")
    return first, last
