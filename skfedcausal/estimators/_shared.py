"""Inputs that act on several units and are declared once: which unit sends them, and whom they belong to.

The plant has one column for such an input, which the first unit sends; another column for the next unit would be
the same numbers again, and no record could tell the two apart.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from ..containers.arrays import as_native, as_table, column_names, names_units
from ..containers.layout import SEPARATOR, flat_name, listed, split_flat_names


def labels_of_shared(X, input_columns, client_labels):
    """Unit of each column of a table, those of inputs by the first of the units that they act on."""
    X = as_native(X)
    if isinstance(X, (list, tuple, Mapping)) or column_names(X) is None or not isinstance(client_labels, str):
        return client_labels
    if not names_units(X):
        return client_labels
    columns = column_names(X)
    prefixes = dict(zip(columns, split_flat_names([c for c in columns if SEPARATOR in c] or columns), strict=True))
    sensors = {unit for column, unit in prefixes.items() if column not in input_columns}
    return [
        prefixes[column]
        if column not in input_columns or prefixes[column] in sensors
        else _sender(input_columns[column], column, sorted(sensors))
        for column in columns
    ]


def declared_columns(input_columns, layout):
    """Units that each input acts on beside its own, by flat name, from a dict by column."""
    shared = {}
    for column, units in input_columns.items():
        units = _units(units)
        _check_units(units, layout.names, column)
        owner = layout.owner(column)
        others = tuple(unit for unit in units if unit != owner)
        if others:
            shared[column] = others
    return shared


def _units(units):
    if units is None:
        return []
    return [units] if isinstance(units, str) else list(units)


def _sender(units, column, names):
    """The unit that sends an input whose column names none of the plant."""
    units = _units(units)
    if not units:
        raise ValueError(
            f"`input_columns` does not say on which units {column!r} acts; give their names, of {listed(names)}."
        )
    return units[0]


def _check_units(units, names, what):
    unknown = [unit for unit in units if unit not in names]
    if unknown:
        raise ValueError(f"Input {what!r} is said to act on {listed(unknown)}; units are {listed(names)}.")


def merged_inputs(inputs):
    """Inputs beside the record with those of several units at the first of them, and what was moved there.

    That is, for each, the units, and its positions among the inputs of the first.
    """
    if isinstance(inputs, (list, tuple)) and any(isinstance(part, Mapping) for part in inputs):  # episodes
        parts = [merged_inputs(part) for part in inputs]
        return [own for own, _ in parts], parts[0][1]
    if not isinstance(inputs, Mapping):
        return inputs, []
    merged = {unit: table for unit, table in inputs.items() if not isinstance(unit, tuple)}
    moved = []
    for units, table in inputs.items():
        if isinstance(units, tuple):
            if not units or not all(isinstance(unit, str) for unit in units):
                raise ValueError(f"Got {units!r} among the units in `inputs`; give names of units.")
            table = as_table(table)
            before = merged.get(units[0])
            n_own = 0 if before is None else np.shape(as_table(before))[1]
            moved.append((units, range(n_own, n_own + table.shape[1])))
            merged[units[0]] = table if before is None else _beside(as_table(before), table, units)
    return merged, moved


def moved_inputs(moved, layout):
    """Units that each input acts on beside its own, by flat name, of inputs that were moved to one of them."""
    shared: dict[str, tuple] = {}
    for units, positions in moved:
        _check_units(units, layout.names, units)
        own = layout.inputs[layout.names.index(units[0])]
        shared |= {own[k]: tuple(units[1:]) for k in positions if len(units) > 1}
    return shared


def _beside(before, table, units):
    if isinstance(before, pd.DataFrame) and isinstance(table, pd.DataFrame):
        known = [flat_name(units[0], str(column)) for column in before.columns]
        names = [flat_name(units[0], str(column)) for column in table.columns]
        if set(known) & set(names):
            raise ValueError(
                f"Inputs {listed(set(known) & set(names))} came twice; give an input of several units once."
            )
        return pd.concat([before, table], axis=1)
    if isinstance(before, pd.DataFrame) or isinstance(table, pd.DataFrame):
        raise ValueError(
            f"The inputs of {units[0]!r} and those of {listed(units)} together are a frame and an array; give both as "
            "the same."
        )
    return np.hstack([before, table])
