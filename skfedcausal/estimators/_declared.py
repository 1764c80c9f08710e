"""Inputs that are no numbers: words, on and off, grades. One column of codes at home, indicators for the plant.

The first level is the reference: every other one has a column of its own, whose coefficients say what this
level does that the reference does not. Questions name levels, as the record does.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..containers.arrays import as_native, column_names, names_units
from ..containers.layout import SEPARATOR, flat_name, input_mask, listed, split_flat_names

_MOST = 20  # levels that an input may have; more are names, notes or numbers that were not read as such
_COMMA = re.compile(r"[-+]?\d+,\d+$")  # a decimal comma, of which the reader of numbers says what to do


@dataclass(frozen=True)
class Levels:
    """Levels of an input, the reference first; as a basis, indicators of the others."""

    levels: tuple

    def __call__(self, codes):
        return (np.asarray(codes)[:, None] == np.arange(1, len(self.levels))).astype(float)

    @property
    def names(self):
        """Levels as words."""
        return tuple(map(str, self.levels))

    def code(self, value, name):
        """Code of a level that somebody gave."""
        for k, level in enumerate(self.levels):
            if str(value) == str(level) or (np.isscalar(value) and value == level):
                return float(k)
        raise ValueError(f"Got {value!r} for input {name!r}, whose levels are {listed(self.names)}; give one of these.")

    def codes(self, values, name):
        """Codes of a series, NaN where it is missing."""
        values = np.asarray(values, dtype=object)
        missing = pd.isna(values)
        found = {value: self.code(value, name) for value in dict.fromkeys(values[~missing].tolist())}
        return np.array([np.nan if gap else found[value] for value, gap in zip(values, missing, strict=True)])

    def words(self, codes):
        """Levels of a series of codes."""
        return np.array(self.levels, dtype=object)[np.asarray(codes, dtype=int)]


def coded_record(X, inputs, input_columns=None, *, units=None, known=None):
    """A record with codes in place of words among its inputs, and the :class:`Levels` of these by flat name.

    With the `units` and levels `known` that were learned in `fit` these are looked for.
    """
    seen: dict[str, list] = {}

    def collected(name, column):
        levels = levels_of(column)
        if levels is not None:
            seen.setdefault(name, []).append((isinstance(column.dtype, pd.CategoricalDtype), levels))

    if known is None:
        each_input(X, inputs, input_columns, units, collected)
        known = {name: Levels(_joined(parts)) for name, parts in seen.items()}
        if not known:
            return X, inputs, known

    def coded(name, column):
        return known[name].codes(column, name) if name in known else None

    columns = input_columns if units is None else lambda name: name in known
    return (*each_input(X, inputs, columns, units, coded), known)


def levels_of(column):
    """Levels of a column in order, None for one of numbers or of anything else."""
    present = column.dropna()
    if isinstance(column.dtype, pd.CategoricalDtype):
        there = set(present.unique())
        return [level for level in column.cat.categories if level in there]
    if not (pd.api.types.is_object_dtype(column.dtype) or pd.api.types.is_string_dtype(column.dtype)):
        return None
    levels = present.unique().tolist()
    if not levels or not all(isinstance(level, (str, bool)) for level in levels) or len(levels) > _MOST:
        return None
    if all(map(_is_number, levels)) or any(_COMMA.match(str(level)) for level in levels):
        return None
    return levels


def _is_number(level):
    try:
        float(level)
    except ValueError:
        return False
    return True


def _joined(parts):
    """Levels of all episodes: in the order of their categories, words in that of the alphabet."""
    levels = list(dict.fromkeys(level for _, own in parts for level in own))
    return tuple(levels if all(ordered for ordered, _ in parts) else sorted(levels, key=str))


# --- over the columns of a container ------------------------------------------------------------


def each_input(X, inputs, input_columns, units, function):
    """Containers with the columns of inputs that `function` of name and column makes of them, None for as it is."""
    X = as_native(X)
    if isinstance(X, (list, tuple)) and X:
        parts = [as_native(part) for part in X]
        if all(isinstance(part, Mapping) or names_units(part) for part in parts):  # episodes
            beside = [None] * len(parts) if inputs is None else inputs
            both = [
                each_input(part, own, input_columns, units, function) for part, own in zip(parts, beside, strict=True)
            ]
            return [part for part, _ in both], None if inputs is None else [own for _, own in both]
        X = parts
    names = units or _unit_names(X)
    if input_columns is not None:
        X = _columns_inside(X, input_columns, function)
    return X, inputs if inputs is None else _columns_beside(inputs, names, function)


def _unit_names(X):
    if isinstance(X, Mapping):
        return [str(name) for name in X]
    if isinstance(X, list):
        return [f"client{k}" for k in range(len(X))]
    return list(dict.fromkeys(split_flat_names(column_names(X)))) if names_units(X) else None


def _columns_inside(X, input_columns, function):
    """The same for inputs among the columns of X."""
    is_table = not isinstance(X, (Mapping, list))
    tables = (
        {None: X} if is_table else dict(zip(_unit_names(X), X.values() if isinstance(X, Mapping) else X, strict=True))
    )
    tables = {unit: _framed(table) for unit, table in tables.items()}
    flat = {unit: [_flat(unit, column) for column in _names(table)] for unit, table in tables.items()}
    mask = iter(input_mask(input_columns, [name for own in flat.values() for name in own]))
    changed = {}
    for unit, table in tables.items():
        chosen = [name if next(mask) else None for name in flat[unit]]
        changed[unit] = _replaced(table, chosen, function)
    if is_table:
        return changed[None]
    return dict(zip(X, changed.values(), strict=True)) if isinstance(X, Mapping) else list(changed.values())


def _columns_beside(inputs, names, function):
    """The same for inputs beside X."""
    if not isinstance(inputs, Mapping) and names is None:
        raise ValueError("Inputs that are no numbers need the names of their units here: give `inputs` as a dict.")
    by_unit = list(inputs.items()) if isinstance(inputs, Mapping) else list(zip(names, inputs, strict=True))
    changed = []
    for unit, table in by_unit:
        framed = None if table is None else _framed(table)
        if framed is not None:
            flat = [_flat(unit, name) or f"{unit}{SEPARATOR}u{k}" for k, name in enumerate(_names(framed))]
            framed = _replaced(framed, flat, function)
        changed.append(framed)
    if isinstance(inputs, Mapping):
        return dict(zip(inputs, changed, strict=True))
    return changed


def _framed(table):
    """A table as a frame, or an array that it is."""
    table = as_native(table)
    return table.to_frame() if isinstance(table, pd.Series) else table


def _names(table):
    names = column_names(table)
    return [None] * (table.shape[1] if np.ndim(table) > 1 else 1) if names is None else names


def _flat(unit, column):
    return column if unit is None or column is None else flat_name(str(unit), column)


def _replaced(table, names, function):
    """A table with the columns that `function` changes; names are None where nothing is to be changed."""
    columns = pd.DataFrame(table) if not isinstance(table, pd.DataFrame) else table
    changed = {}
    for k, name in enumerate(names):
        found = None if name is None else function(name, columns.iloc[:, k])
        if found is not None:
            changed[k] = found
    if not changed:
        return table
    copy = [changed.get(k, columns.iloc[:, k].to_numpy()) for k in range(columns.shape[1])]
    if isinstance(table, pd.DataFrame):
        return pd.DataFrame(dict(enumerate(copy)), index=table.index).set_axis(table.columns, axis=1)
    return np.column_stack([np.asarray(column, dtype=object) for column in copy])


# --- questions ----------------------------------------------------------------------------------


def coded_values(value, levels, names):
    """Constants or a trajectory of some inputs with codes for levels; `levels` has None for one of numbers."""
    array, k = np.asarray(value, dtype=object), len(names)
    if array.ndim == 1:
        table = array[None] if len(array) == k else array[:, None]
    else:
        table = np.atleast_2d(array)
    if table.ndim != 2 or table.shape[1] != k:
        return value  # of a shape that is refused later
    columns = [
        column if own is None else own.codes(column, name)
        for column, own, name in zip(table.T, levels, names, strict=True)
    ]
    return np.column_stack(columns).reshape(array.shape)
