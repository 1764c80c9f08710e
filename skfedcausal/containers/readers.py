"""Readers of one table, of a collection of units, and of the inputs beside them.

The functions without underscore serve `containers`; they return a `PlantLayout`, arrays per unit
and clocks: what each table is, its number of rows and its time index.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.utils.validation import validate_data

from ..callers import warn
from .arrays import as_native, column_names, columns_apart, is_fine, n_columns, names_units, pick_columns, to_floats
from .clients import unit_inputs
from .clock import Clock, is_numbering, read_clock, same_times
from .layout import (
    SEPARATOR,
    check_known,
    check_unique,
    check_unit_names,
    column_order,
    flat_name,
    input_mask,
    learn_layout,
    listed,
    split_flat_names,
    with_separate_inputs,
)


@dataclass(frozen=True)
class Reading:
    """Settings with which the record of a plant is read."""

    client_labels: Any
    input_columns: Any
    estimator: Any
    min_samples: int
    by_rows: bool = True


def read_table(X, layout, how):
    """Read one table."""
    if isinstance(X, (list, tuple)):
        X = np.asarray(X)
    columns, width = column_names(X), n_columns(X)
    order = None
    as_learned = layout is not None and layout.named and columns == layout.columns
    if width and not as_learned:  # what has no columns is refused by `to_floats` below
        if how.estimator is not None:
            _check_names(how.estimator, X, columns, layout)
        if layout is None:
            layout = _learn_table(X, columns, width, how)
        else:
            order = column_order(columns, width, layout.columns, "X", by_name=layout.named)

    def name_column(position):
        name = (layout.columns if order is None else columns)[position]
        return f"column {name!r} of unit {layout.owner(name)!r}"

    units = list(zip(layout.output_positions, layout.input_positions, strict=True)) if layout is not None else []
    index = X.index if isinstance(X, pd.DataFrame) else None
    arrays = _stacked_by_unit(columns_apart(X), order, units, how.min_samples)
    if arrays is not None:
        return layout, arrays, [("X", len(X), index)]
    checks = {"ensure_min_samples": how.min_samples, "estimator": how.estimator}
    values = to_floats(X, name_column=name_column, input_name="X", **checks)
    if order is not None:
        values = values[:, order]
    arrays = [_outputs_and_inputs(values, *positions) for positions in units]
    return layout, arrays, [("X", len(values), index)]


def _stacked_by_unit(columns, order, units, min_samples):
    """Arrays of each unit from columns that lie apart, the only copy; None where checks have to be made."""
    if columns is None:
        return None
    columns = columns if order is None else [columns[k] for k in order]

    def stacked(positions):
        return np.stack([columns[k] for k in positions], axis=1) if positions else None

    arrays = [(stacked(outputs), stacked(inputs)) for outputs, inputs in units]
    tables = [table for pair in arrays for table in pair if table is not None]
    return arrays if all(is_fine(table, min_samples, 1) for table in tables) else None


def _check_names(estimator, X, columns, layout):
    """scikit-learn's check of a table's columns; where only their order is wrong, say how to put it right."""
    try:
        validate_data(estimator, X, reset=layout is None, skip_check_array=True)
    except ValueError as error:
        if layout is None or not layout.named or sorted(columns or ()) != sorted(layout.columns):
            raise
        came, learned = next((a, b) for a, b in zip(columns, layout.columns, strict=True) if a != b)
        raise ValueError(
            f"{error}{came!r} came where `fit` had {learned!r}: give X[list(estimator.feature_names_in_)]."
        ) from error


def _learn_table(X, columns, width, how):
    """Layout of a table from its columns' names or labels."""
    client_labels, flat_names, named = how.client_labels, columns or [None] * width, True
    is_input = input_mask(how.input_columns, flat_names)
    if not isinstance(client_labels, str):
        labels = _read_labels(client_labels, flat_names)
    elif client_labels != "from_columns":
        raise ValueError(f"Got {client_labels=}; give 'from_columns', one label per column, or a callable.")
    elif names_units(X):
        labels = split_flat_names(columns)
    else:
        named = columns is not None
        labels = flat_names = columns or [f"client{k}" for k in range(width)]
        if isinstance(X, pd.DataFrame):
            warn(
                f"No column name of X has '{SEPARATOR}': every column becomes a unit of its own "
                f"({listed(labels, limit=5)}). Name columns 'client{SEPARATOR}sensor' or give "
                "`client_labels`, if units have several sensors.",
            )
    return learn_layout(labels, flat_names, is_input, named=named)


def _read_labels(client_labels, columns):
    """Unit of each column from labels or a callable."""
    if callable(client_labels):
        labels = [client_labels(position if name is None else name) for position, name in enumerate(columns)]
    elif np.ndim(client_labels) != 1:
        raise ValueError(
            f"Got `client_labels` with {np.ndim(client_labels)} dimension(s); give a list, one per column."
        )
    else:
        labels = list(client_labels)
    if len(labels) != len(columns):
        raise ValueError(
            f"Got {len(labels)} labels in `client_labels` for {len(columns)} columns; give one label per column."
        )
    missing = [position for position, label in enumerate(labels) if pd.isna(label)]
    if missing:
        raise ValueError(f"Got no label in `client_labels` for column(s) at position {listed(missing)}; give all.")
    return [str(label) for label in labels]


def read_units(X, layout, how):
    """Read a list or dict of units, as `read_table` does; labels are refused."""
    known: list[list[str] | None]
    if layout is None:
        if not isinstance(how.client_labels, str) or how.client_labels != "from_columns":
            raise ValueError(
                "Got `client_labels` with a list or dict of units; leave them out, they are for one table."
            )
        names = [str(name) for name in X] if isinstance(X, Mapping) else [f"client{k}" for k in range(len(X))]
        check_unit_names(names)
        tables = list(X.values() if isinstance(X, Mapping) else X)
        known = [None] * len(names)
    else:
        names, tables = layout.names, _tables_in_order(X, layout.names, "X")
        owned = map(layout.unit_columns, range(layout.n_units))
        known = [[layout.columns[position] for position in unit] for unit in owned]
    checks = {"input_name": "X", "ensure_min_samples": how.min_samples, "estimator": how.estimator}
    units = zip(names, tables, known, strict=True)
    blocks = [_read_block(name, table, own, f"unit {name!r}", **checks) for name, table, own in units]
    if layout is None:
        flat_names = [name for block in blocks for name in block.columns]
        labels = [name for name, block in zip(names, blocks, strict=True) for _ in block.columns]
        is_input = input_mask(how.input_columns, flat_names)
        layout = learn_layout(labels, flat_names, is_input, named=isinstance(X, Mapping))
        if how.estimator is not None:
            _set_features(how.estimator, layout)
    arrays = []
    for unit, (block, *kinds) in enumerate(zip(blocks, layout.output_positions, layout.input_positions, strict=True)):
        place = layout.unit_columns(unit).index
        arrays.append(_outputs_and_inputs(block.values, *(list(map(place, positions)) for positions in kinds)))
    return layout, arrays, [block.clock for block in blocks]


def _set_features(estimator, layout):
    """Set what scikit-learn sets for a table."""
    estimator.n_features_in_ = layout.n_columns
    if layout.named:
        estimator.feature_names_in_ = np.array(layout.columns, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):  # of an earlier fit
        del estimator.feature_names_in_


def _outputs_and_inputs(values, outputs, inputs):
    return pick_columns(values, outputs), pick_columns(values, inputs) if inputs else None


# --- inputs beside the table --------------------------------------------------------------------


def read_inputs(inputs, layout, *, learned):
    """Read inputs handed over separately, shape (n_samples, n_inputs_m)."""
    if inputs is None:
        if learned and layout.has_separate_inputs:
            had = [name for name, own in zip(layout.names, layout.inputs, strict=True) if own]
            raise ValueError(f"Got no `inputs`, but unit(s) {listed(had)} had some in `fit`; give them for these rows.")
        return layout, None, []
    if learned and any(layout.input_positions):
        raise ValueError("Got `inputs`, but in `fit` the inputs were columns of X; give them as columns of X.")
    sizes = [len(own) for own in layout.inputs] if learned else None
    tables = _tables_in_order(unit_inputs(inputs, layout.names, sizes), layout.names, "`inputs`", complete=False)
    names: list[tuple] = []
    arrays, clocks = [], []
    for unit, table, had in zip(layout.names, tables, layout.inputs, strict=True):
        known, block = had if learned else None, None
        if table is not None:
            what = f"the inputs of unit {unit!r}"
            block = _read_block(unit, table, known, what, min_features=0, input_name="inputs")
        elif known:
            raise ValueError(f"Got no inputs for unit {unit!r}, expected {listed(known)} as in `fit`.")
        own = block.columns if block else ()
        names.append(tuple(name or f"{unit}{SEPARATOR}u{k}" for k, name in enumerate(own)))
        arrays.append(block.values if block and own else None)
        clocks += [block.clock] if block and own else []
    return layout if learned else with_separate_inputs(layout, names), tuple(arrays), clocks


# --- parts --------------------------------------------------------------------------------------


class _Block(NamedTuple):
    """Table of one unit: values, flat column names (None where there are none), name, rows, time index."""

    values: np.ndarray
    columns: tuple[str | None, ...]
    clock: tuple[str, int, pd.Index | None]


def _read_block(unit, table, known, what, **checks):
    """Read the table of one unit and bring it into the order of the `known` columns, if any."""
    X = as_native(table)
    if isinstance(X, pd.Series):
        X = as_native(X.to_frame())
    if isinstance(X, tuple) and len(X) == 2 and all(hasattr(part, "shape") for part in X):
        raise ValueError(
            f"Got a pair of arrays for {what}. Give measurements alone, and the units' inputs as `inputs`."
        )
    columns = column_names(X, what)
    if columns is not None:
        columns = tuple(flat_name(unit, column, known or ()) for column in columns)
        check_unique(columns, f"columns of {what}")

    def name_column(position):
        return f"column {(columns[position] if columns else position)!r} of {what}"

    values = to_floats(X, name_column=name_column, where=what, **checks)
    if known is not None:
        order = column_order(columns, values.shape[1], known, what)
        values = values if order is None else values[:, order]
        columns = tuple(known)
    index = X.index if isinstance(X, pd.DataFrame) else None
    return _Block(values, columns or (None,) * values.shape[1], (what, len(values), index))


def _tables_in_order(tables, names, what, *, complete=True):
    """Tables of a list or dict in the order of the units' names, None where one is left out."""
    if isinstance(tables, Mapping):
        check_unique([str(name) for name in tables], f"units in {what}")
        tables = {str(name): table for name, table in tables.items()}
        came = list(tables) if complete else list(dict.fromkeys([*names, *tables]))
        check_known(came, names, f"units in {what}")
        return [tables.get(name) for name in names]
    if not isinstance(tables, (list, tuple)):
        raise TypeError(f"Got {what} of type {type(tables).__name__}; give a list with one array per unit, or a dict.")
    if len(tables) != len(names):
        advice = " Cross-validation splits a list between units: use ClientArrays(X), or one table, stack_clients(X)."
        raise ValueError(
            f"Got {len(tables)} element(s) in {what}, expected {len(names)}; give one per unit: {listed(names)}."
            f"{advice if what == 'X' else ''}"
        )
    return list(tables)


def common_index(clocks):
    """Clock that all tables share."""
    if len({rows for _, rows, _ in clocks}) > 1:
        lengths = listed([f"{what}: {rows} rows" for what, rows, _ in clocks], quoted=False)
        raise ValueError(
            f"Got tables of different length: {lengths}. Give every unit one row per time step, with NaN "
            "where it has no value."
        )
    indexes = {id(index): index for _, _, index in clocks if index is not None}
    read = {key: read_clock(index) for key, index in indexes.items()}  # once where several tables share it
    clocked = [(what, read[id(index)]) for what, _, index in clocks if index is not None]
    timed = [(what, clock) for what, clock in clocked if not is_numbering(clock.times)]
    numbered = [(what, clock) for what, clock in clocked if is_numbering(clock.times)]
    if timed and timed[0][1].times.dtype.kind in "iuf":  # numbers of rows say which is which
        timed += numbered
    for what, clock in timed[1:]:
        if not (same_times(clock.times, timed[0][1].times) and clock.runs == timed[0][1].runs):
            raise ValueError(
                f"Got different time indexes in {timed[0][0]} and {what}; align the tables, for "
                "example with reindex, NaN where there is no value."
            )
    return next((clock for _, clock in timed + numbered), Clock(None))
