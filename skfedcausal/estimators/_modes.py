"""Operating modes that a column tells: inputs of the plant, an indicator for every mode but the first.

The column is read as codes, among the inputs of the unit that it belongs to, and becomes indicators where units see it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ..containers.arrays import as_native, as_table, column_names, names_units
from ..containers.layout import SEPARATOR, listed
from ..containers.modes import is_called, mode_codes, mode_indicators, modes_in, plain_modes, warn_of_mode
from ._declared import each_input, levels_of


@dataclass(frozen=True)
class PlantModes:
    """The columns that tell modes, by flat name, and the modes of each; inputs that are words are such columns too.

    `column` is what the user calls them, None of words alone, and `owner` the unit that a column of the whole plant is
    given to, None where every column is of its unit. A column that was always as an earlier one follows that one, its
    leader, and tells nothing new.
    """

    column: str | None
    labels: dict
    owner: str | None
    leaders: dict

    @classmethod
    def learn(cls, column, X, inputs, input_columns=None):
        """Modes of a nominal record, with those of its inputs that are words."""
        X, owner = (X, None) if column is None else _owned(X, column)
        found: dict[str, list] = {}

        def collected(name, values):
            if is_called(name, column):
                found.setdefault(name, []).append(values.astype(object))

        def words(name, values):
            if not (column and is_called(name, column)) and levels_of(values) is not None:
                found.setdefault(name, []).append(values.astype(object))

        if column is not None:
            each_input(X, inputs, None if inputs is not None else (lambda name: True), None, collected)
        if column is not None and not found:
            where = "X" if inputs is None else "`inputs`, where it is with the others"
            raise ValueError(
                f"mode={column!r} is no column of {where}. Give the name of a column that says in which mode the plant "
                f"is: 'unit{SEPARATOR}tag', the tag alone if several units have it, or that of a column without a unit."
            )
        each_input(X, inputs, input_columns, None, words)
        told = {name: plain_modes(pd.concat(parts, ignore_index=True)) for name, parts in found.items()}
        labels = {name: modes_in(values, name) for name, values in told.items()}
        first = {name: next(other for other in told if told[other].equals(told[name])) for name in told}
        return cls(column, labels, owner, {name: other for name, other in first.items() if other != name})

    def check_settings(self, mode, evidence, levels):
        """Refuse settings of a detector that have no use for modes."""
        if evidence == "flags" or levels == "episode":
            what = f"Inputs of words ({listed(self.labels)})" if mode is None else f"mode={mode!r}"
            other = "evidence='flags'" if evidence == "flags" else "levels='episode'"
            raise ValueError(f"{what} and {other} do not go together; give one of them.")

    def input_columns(self, others):
        """What the record is read with: these columns beside `others` that are inputs."""
        if callable(others):
            return lambda name: name in self.labels or others(name)
        return list(dict.fromkeys([*self.labels, *(others or ())]))

    def coded(self, X, inputs=None, units=None):
        """A record with codes in place of modes; a mode that is not known has the next code, and is told."""
        X = X if self.column is None else _owned(X, self.column, self.owner)[0]
        new: dict = {}  # modes that are not known, and where

        def codes(name, values):
            if name not in self.labels:
                return None
            found, unknown = mode_codes(values, self.labels[name])
            new.update({(value, name): None for value in unknown})
            return found

        X, inputs = each_input(X, inputs, self.labels.__contains__, units, codes)
        for value, name in new:
            what = "nothing is known of the plant in it, and its level is learned before monitoring resumes"
            if self.owner is None:
                what = f"rows of unit {name.partition(SEPARATOR)[0]!r} in it are taken as missing measurements"
            warn_of_mode(value, name, self.labels[name], what)
        return X, inputs

    def without_unknown(self, plant, before):
        """A record of codes without measurements of units in modes of their own that are not known.

        Their mode counts as the one before, that of the row `before` for the first one, or the first mode of all.
        """
        if self.owner is not None:
            return plant
        unseen: dict = {}
        inputs = list(plant.inputs)
        units = zip(inputs, plant.layout.inputs, strict=True)
        codes = {name: U[:, j] for U, own in units for j, name in enumerate(own)}
        for m, own in enumerate(plant.layout.inputs):
            for j, name in enumerate(own):
                unknown = self._unknown(name, codes)
                if not unknown.any():
                    continue
                unseen[m] = unseen.get(m, False) | unknown
                inputs[m] = np.array(inputs[m])
                inputs[m][unknown, j] = np.nan
                begins = [row for row in plant.starts if unknown[row] and (row > 0 or before is None)]
                inputs[m][begins, j] = 0.0
        return replace(plant.without(unseen), inputs=tuple(inputs))

    def _unknown(self, name, codes):
        """Rows in which a column tells a mode that is not known, or not that of the column that it always followed."""
        if name not in self.labels:
            return np.zeros(1, dtype=bool)
        own, leader = codes[name], codes.get(self.leaders.get(name, name))
        return (own == len(self.labels[name])) | ((own != leader) & np.isfinite(own + leader))

    def indicators(self, plant):
        """A record of codes as units see it."""
        inputs = []
        for U, own in zip(plant.inputs, plant.layout.inputs, strict=True):
            parts = [self._indicators_of(name, U[:, [j]]) for j, name in enumerate(own)]
            joined = np.hstack([np.zeros((plant.n_samples, 0)), *parts])
            inputs.append(joined if joined.shape[1] else None)
        return replace(plant, inputs=tuple(inputs))

    def _indicators_of(self, name, column):
        """Indicators of a column of codes, anything else as it is.

        Modes of the whole plant have one more, which never moves in what is nominal: where it does, nothing is known.
        """
        if name not in self.labels:
            return column
        if name in self.leaders:
            return column[:, :0]
        return mode_indicators(column, len(self.labels[name]) + (self.owner is not None))


def _owned(X, column, owner=None):
    """A record in which a column of the whole plant is one of a unit, `owner` or the first, and that unit."""
    X = as_native(X)
    if isinstance(X, (list, tuple)) and X and all(isinstance(part, (Mapping, pd.DataFrame)) for part in X):
        parts = []
        for part in X:
            part, owner = _owned(part, column, owner)
            parts.append(part)
        return parts, owner
    if isinstance(X, pd.DataFrame) and SEPARATOR not in column and column in (column_names(X) or ()) and names_units(X):
        unit = owner or next(name for name in X.columns if SEPARATOR in name).partition(SEPARATOR)[0]
        return X.rename(columns={column: f"{unit}{SEPARATOR}{column}"}), unit
    is_units = isinstance(X, Mapping) and not any(isinstance(part, Mapping) for part in X.values())
    if is_units and (column in X or owner is not None):
        return _with_column(X, column, owner or str(next(name for name in X if name != column)))
    return X, owner


def _with_column(X, column, owner):
    """A dict of units in which what stands beside them is a column of one of them, missing where it is not there."""
    tables = {name: table for name, table in X.items() if name != column}
    unit = next((name for name in tables if str(name) == owner), None)
    if unit is None:
        return tables, owner
    table = as_table(tables[unit])
    if not isinstance(table, pd.DataFrame):
        table = pd.DataFrame(table, columns=[f"x{k}" for k in range(table.shape[1])])
    if any(is_called(name, column) for name in map(str, table.columns)):
        return tables, owner
    values = np.ravel(np.asarray(X.get(column, np.nan), dtype=object))
    if len(values) not in (1, len(table)):
        raise ValueError(f"{column!r} has {len(values)} rows, and unit {owner!r} {len(table)}; give one mode per row.")
    return tables | {unit: table.assign(**{column: np.broadcast_to(values, len(table))})}, owner
