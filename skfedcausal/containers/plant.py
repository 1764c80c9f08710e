"""The one reader of containers: whatever holds a plant's record becomes arrays, one per unit."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf, isnan
from typing import Any, NamedTuple, Self, cast

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from sklearn.utils.validation import validate_data

from ..arguments import Inputs, Lengths, Record, warn
from .arrays import (
    SEPARATOR,
    PlantLayout,
    as_native,
    check_known,
    check_unique,
    check_unit_names,
    column_names,
    column_order,
    columns_apart,
    constant_columns,
    flat_name,
    input_mask,
    is_fine,
    learn_layout,
    listed,
    n_columns,
    names_units,
    pick_columns,
    same_kind,
    split_flat_names,
    to_floats,
    with_separate_inputs,
)
from .rows import (
    Clock,
    at_gaps,
    check_lengths,
    check_times,
    episode_starts,
    is_numbering,
    opened,
    read_clock,
    same_times,
    sampling_period,
    unit_inputs,
)

# Readers of one table, of a collection of units, and of the inputs beside them.
#
# The functions without underscore serve `containers`; they return a `PlantLayout`, arrays per unit
# and clocks: what each table is, its number of rows and its time index.


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


# The one reader of containers: whatever holds a plant's record becomes arrays, one per unit.
#
# Rows are time steps, columns are sensors (outputs) or inputs, and every column belongs to a unit.
# A container is one table or a collection of units; a `PlantLayout` describes both as columns of
# one flat table, units side by side.


@dataclass(frozen=True, eq=False)
class PlantData:
    """Record of a plant, one array per unit.

    Parameters
    ----------
    layout : PlantLayout
        Units and columns.
    outputs : tuple of ndarray of shape (n_samples, n_outputs_m)
        Measurements of each unit, float64, NaN where missing. Views of what the user gave where
        dtype and order of the columns allow it: do not write into them.
    inputs : tuple of (ndarray of shape (n_samples, n_inputs_m) or None)
        Inputs of each unit, None for a unit without inputs.
    index : pandas.Index or None
        Time index of the rows where the container had one.
    lengths : tuple of int
        Number of rows of each episode.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.containers import read_plant
    >>> data = read_plant({'mill': np.zeros((3, 2)), 'kiln': np.ones((3, 1))})
    >>> data.n_units, data.n_samples, data.raw_bytes
    (2, 3, 72)
    """

    layout: PlantLayout
    outputs: tuple[np.ndarray, ...]
    inputs: tuple[np.ndarray | None, ...]
    index: pd.Index | None
    lengths: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Units, in order."""
        return self.layout.names

    @property
    def n_units(self) -> int:
        """Number of units."""
        return self.layout.n_units

    @property
    def n_samples(self) -> int:
        """Number of time steps of all episodes together."""
        return self.outputs[0].shape[0]

    @property
    def starts(self) -> tuple[int, ...]:
        """First row of each episode."""
        return (0,) if len(self.lengths) == 1 else episode_starts(self.lengths)

    @property
    def row_time(self) -> Any:
        """Median time between rows as a Timedelta; None where rows have no times."""
        return None if self.index is None else sampling_period(self.index)

    def only(self, names: Collection[str]) -> Self:
        """The record of some of the units.

        Parameters
        ----------
        names : collection of str
            Units to keep.

        Returns
        -------
        PlantData
        """
        if set(self.names) <= set(names):
            return self
        kept = [k for k, name in enumerate(self.names) if name in names]
        series: dict[str, Any] = {part: tuple(getattr(self, part)[k] for k in kept) for part in ("outputs", "inputs")}
        return replace(self, layout=self.layout.only(names), **series)

    def moving(self) -> Self:
        """The record without units none of whose columns ever changes, which a warning names; all if none does.

        Returns
        -------
        PlantData
        """
        moving = [name for name, Y in zip(self.names, self.outputs, strict=True) if not constant_columns(Y).all()]
        still = [name for name in self.names if name not in moving]
        if not (still and moving):
            return self
        warn(
            f"Every column of {listed(still)} is constant or missing throughout: nothing can be said about such a "
            "unit, which is left out.",
        )
        return self.only(moving)

    def without(self, unseen: Mapping[int, np.ndarray]) -> Self:
        """The record with rows of some units missing.

        Parameters
        ----------
        unseen : dict of int to ndarray of bool, shape (n_samples,)
            By position of the unit, the rows without any measurement of it.

        Returns
        -------
        PlantData
        """
        outputs = list(self.outputs)
        for unit, rows in unseen.items():
            outputs[unit] = np.where(rows[:, None], np.nan, outputs[unit])
        return replace(self, outputs=tuple(outputs)) if unseen else self

    def stretches(self, kept: Sequence[tuple[int, int]]) -> Self:
        """Some runs of rows as episodes.

        Parameters
        ----------
        kept : list of (int, int)
            First row of each, and the row behind its last; a stretch over several episodes is cut between them.

        Returns
        -------
        PlantData
        """
        cut = sorted({row for stretch in kept for row in stretch} | set(self.starts))
        parts = [(a, b) for start, stop in kept for a, b in pairwise([r for r in cut if start <= r <= stop])]
        return self._at(np.concatenate([np.arange(*part) for part in parts]), tuple(b - a for a, b in parts))

    def _at(self, rows, lengths):
        """The record of some rows, a slice or positions, that make up episodes of `lengths`."""
        outputs = tuple(Y[rows] for Y in self.outputs)
        inputs = tuple(None if U is None else U[rows] for U in self.inputs)
        index = None if self.index is None else self.index[rows]
        return PlantData(self.layout, outputs, inputs, index, lengths)

    def units(self) -> Iterator[tuple[str, tuple[str, ...], np.ndarray]]:
        """Units one after the other.

        Returns
        -------
        iterator of (str, tuple of str, ndarray of shape (n_samples, n_outputs_m))
            Name of each unit, names of its columns and its measurements.

        Examples
        --------
        >>> import numpy as np
        >>> from skfedcausal.containers import read_plant
        >>> data = read_plant({'mill': np.zeros((3, 2)), 'kiln': np.ones((3, 1))})
        >>> [(name, columns, Y.shape) for name, columns, Y in data.units()]
        [('mill', ('mill__x0', 'mill__x1'), (3, 2)), ('kiln', ('kiln__x0',), (3, 1))]
        """
        return zip(self.names, self.layout.outputs, self.outputs, strict=True)

    def table(self) -> np.ndarray:
        """Measurements of all units side by side, in the order of the table that came in, inputs left out.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs)
        """
        positions, columns = self.layout.output_places()
        table = np.empty((self.n_samples, len(columns)))
        for where, Y in zip(positions, self.outputs, strict=True):
            table[:, where] = Y
        return table

    @property
    def unit_bytes(self) -> dict[str, int]:
        """Bytes of each unit's outputs and inputs, a dict by unit."""
        units = zip(self.names, self.outputs, self.inputs, strict=True)
        return {name: Y.nbytes + (0 if U is None else U.nbytes) for name, Y, U in units}

    @property
    def input_sizes(self) -> dict[str, int]:
        """Number of inputs of each unit, a dict by unit."""
        return {name: 0 if U is None else U.shape[1] for name, U in zip(self.names, self.inputs, strict=True)}

    def episodes(self) -> "list[PlantData]":
        """Each episode as a record of its own; the record itself where it is one.

        Returns
        -------
        list of PlantData
        """
        if len(self.lengths) == 1:
            return [self]
        ends = [*self.starts[1:], self.n_samples]
        return [self._at(slice(a, b), (b - a,)) for a, b in zip(self.starts, ends, strict=True)]

    @property
    def raw_bytes(self) -> int:
        """Bytes of all outputs and inputs: what pooling the record would cost."""
        return sum(self.unit_bytes.values())


def read_plant(
    X: Record,
    *,
    client_labels: Any = "from_columns",
    input_columns: Sequence[tuple[str | int]] | Callable[..., Any] | None = None,
    inputs: Inputs = None,
    lengths: Lengths = None,
    layout: PlantLayout | None = None,
    min_samples: int = 2,
    estimator: Any = None,
    by_rows: bool = True,
) -> PlantData:
    """Read the record of a plant from any of the accepted containers.

    Parameters
    ----------
    X : list, tuple, dict, DataFrame or array-like
        One of

        - :class:`~skfedcausal.ClientArrays`, which scikit-learn cuts by rows;
        - list or tuple of arrays or frames of shape (n_samples, n_columns_m), one per unit; units
          are called ``client0, client1, ...``;
        - dict name -> array, frame or Series;
        - frame with flat ``client__sensor`` column names (split at the first ``__``) or with
          two column levels (client, sensor). A frame in which no name has ``__`` makes every
          column its own unit, with a warning. Anything with ``to_pandas`` is converted;
        - array of shape (n_samples, n_columns) with `client_labels`; without labels every column
          is its own unit;
        - list of episodes: dicts, or frames with client structure, all with the same columns.
          A list of anything else is a list of units.

        NaN means missing.
    client_labels : "from_columns", array-like of shape (n_columns,) or callable, \
            default="from_columns"
        Unit of each column of a table. A callable takes the name of the column, or its position
        where columns have no names, and returns the unit's name.
    input_columns : list of (str or int) or callable, default=None
        Columns inside X that are inputs of the unit they belong to: flat names, positions in the
        flat table (units side by side), or ``f(name_or_position) -> bool``.
    inputs : list, dict, DataFrame, ndarray or ClientArrays, default=None
        Inputs beside X: one array of shape (n_samples, n_inputs_m) or None per unit, or dict
        name -> array, frame or None, where units left out have none; or a table of all, a frame with
        ``client__input`` names or an array with as many columns for every unit. If X is a list of episodes,
        a list with one such list or dict (or None) per episode. NaN means missing. Where there are more rows than
        X has, those of :class:`~skfedcausal.ClientArrays` or of the index of a frame are taken.
    lengths : array-like of int of shape (n_episodes,), default=None
        Number of rows of each episode; None for a single episode.
    layout : PlantLayout, default=None
        What was learned in `fit`. X must then have the same units and columns: dicts and named
        frames are matched by name, lists and arrays by position. `client_labels` and
        `input_columns` are not used.
    min_samples : int, default=2
        Smallest number of rows.
    estimator : estimator instance, default=None
        Where to set (`layout` is None) or check ``n_features_in_`` and ``feature_names_in_``, so
        that an estimator fitted on a dict accepts the stacked table and the other way round.
    by_rows : bool, default=True
        Whether arrays are brought to lie in memory row by row, as every computation on rows wants them. False leaves
        columns of a frame where they are, without a copy.

    Returns
    -------
    PlantData

    Raises
    ------
    TypeError
        If X or `inputs` is none of the containers, is sparse, or holds objects that are not
        numbers.
    ValueError
        If names are duplicated, missing or unknown, units differ in length or time index, a unit
        has no sensor, values are infinite, complex or not numbers, there are too few rows, or
        labels or lengths do not fit the table.

    See Also
    --------
    skfedcausal.stack_clients : The flat table of a list or dict.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.containers import read_plant
    >>> record = {"mill": np.ones((5, 2)), "kiln": np.zeros((5, 3))}
    >>> data = read_plant(record, inputs={"kiln": np.ones((5, 1))}, lengths=[2, 3])
    >>> data.names, data.n_samples, data.starts
    (('mill', 'kiln'), 5, (0, 2))
    >>> data.layout.outputs[0], data.layout.inputs[1]
    (('mill__x0', 'mill__x1'), ('kiln__u0',))

    Later records are brought into the order that was learned:

    >>> later = {"kiln": np.ones((4, 3)), "mill": np.ones((4, 2))}
    >>> data = read_plant(later, inputs=[None, np.ones((4, 1))], layout=data.layout)
    >>> [array.shape for array in data.outputs]
    [(4, 2), (4, 3)]
    """
    if inputs is not None and input_columns is not None:
        raise ValueError("Got both `inputs` and `input_columns`; give inputs either beside X or as columns inside X.")
    X, inputs, lengths = opened(X, inputs, lengths)
    how = Reading(client_labels, input_columns, estimator, min_samples, by_rows)
    X = cast(Any, X).to_episodes() if hasattr(X, "to_episodes") else as_native(X)  # a PlantTable knows where it is cut
    if isinstance(X, (list, tuple)):
        X = [as_native(part) for part in X]
        apart = _units_apart(X)
        if apart is None and _are_episodes(X):
            return _read_episodes(X, inputs, lengths, layout, how)
        X = X if apart is None else apart
    return _read_record(X, inputs, lengths, layout, how)


def stack_clients(clients: list[Any] | dict[str, Any], inputs: Inputs = None) -> pd.DataFrame:
    """Put units side by side in one table, the form that travels best through scikit-learn.

    A list or dict of arrays cannot be split along time by :class:`~sklearn.model_selection.GridSearchCV`; a
    table can.

    Parameters
    ----------
    clients : list or dict
        One array or frame of shape (n_samples, n_sensors_m) per unit, as in `read_plant`.
    inputs : list or dict, default=None
        Inputs of the units, as in `read_plant`.

    Returns
    -------
    DataFrame of shape (n_samples, n_columns)
        Sensors of all units, then inputs of all units. Columns are called ``client__sensor``:
        frames keep their own names, columns of arrays are called ``client__x0, client__x1, ...``
        and inputs from arrays ``client__u0, client__u1, ...``.

    Raises
    ------
    TypeError, ValueError
        As in `read_plant`, and if `clients` is a list of episodes.

    See Also
    --------
    skfedcausal.containers.read_plant : The way back.

    Notes
    -----
    Inputs are the last columns; their names are also in ``read_plant(clients,
    inputs=inputs).layout.inputs``.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.containers import read_plant, stack_clients
    >>> clients = {"mill": np.ones((3, 2)), "kiln": np.zeros((3, 1))}
    >>> frame = stack_clients(clients, inputs={"mill": np.full((3, 1), 5.0)})
    >>> list(frame)
    ['mill__x0', 'mill__x1', 'kiln__x0', 'mill__u0']
    >>> data = read_plant(frame, input_columns=["mill__u0"])
    >>> data.inputs[0].ravel(), data.inputs[1]
    (array([5., 5., 5.]), None)
    """
    if isinstance(clients, (list, tuple)) and _are_episodes([as_native(part) for part in clients]):
        raise ValueError(f"Got a list of {len(clients)} episodes; stack every episode and list the frames.")
    data = read_plant(clients, inputs=inputs, min_samples=1)
    arrays = [*data.outputs, *(array for array in data.inputs if array is not None)]
    columns = [name for names in (*data.layout.outputs, *data.layout.inputs) for name in names]
    return pd.DataFrame(np.hstack(arrays), columns=columns, index=data.index)


# --- episodes -----------------------------------------------------------------------------------


def _are_episodes(parts):
    """Whether the elements of a list are episodes rather than units."""
    structured = [isinstance(part, Mapping) or names_units(part) for part in parts]
    if any(structured) and not all(structured):
        raise ValueError(
            f"In a list element(s) {listed(np.flatnonzero(structured))} name their units (dict, or columns "
            f"'client{SEPARATOR}sensor') and the others do not; give one array per unit, or name them in all."
        )
    return bool(parts) and all(structured)


def _units_apart(parts):
    """Units of several frames each of which names its own, a dict; None where they are no such frames."""
    if len(parts) < 2 or not all(isinstance(part, pd.DataFrame) and names_units(part) for part in parts):
        return None
    owners = [split_flat_names(list(part.columns)) for part in parts]
    if len(set().union(*owners)) < sum(len(set(own)) for own in owners):
        return None
    tags = [part.rename(columns=lambda name: name.partition(SEPARATOR)[2]) for part in parts]
    pairs = zip(owners, tags, strict=True)
    return {unit: table.loc[:, np.array(own) == unit] for own, table in pairs for unit in dict.fromkeys(own)}


def _read_episodes(episodes, inputs, lengths, layout, how):
    """Read episodes one by one and join them along time."""
    if lengths is not None:
        raise ValueError("Got `lengths` together with a list of episodes; leave one of them out.")
    if inputs is None:
        inputs = [None] * len(episodes)
    if not isinstance(inputs, (list, tuple)) or len(inputs) != len(episodes):
        raise ValueError(f"X is a list of {len(episodes)} episode(s): list `inputs`, one list, dict or None each.")
    records = []
    for k, (episode, episode_inputs) in enumerate(zip(episodes, inputs, strict=True)):
        try:
            record = _read_record(episode, episode_inputs, None, layout, replace(how, min_samples=1))
        except (TypeError, ValueError) as error:
            raise same_kind(error, f"Episode {k}: {error}") from error
        layout = record.layout
        records.append(record)
    indexes = [record.index for record in records]
    joined = PlantData(
        layout=layout,
        outputs=_join([record.outputs for record in records]),
        inputs=_join([record.inputs for record in records]),
        index=None if any(index is None for index in indexes) else indexes[0].append(indexes[1:]),
        lengths=tuple(record.n_samples for record in records),
    )
    if joined.n_samples < how.min_samples:
        found = f"Found {len(records)} episode(s) with {joined.n_samples} sample(s) in total"
        raise ValueError(f"{found} while a minimum of {how.min_samples} is required.")
    return joined


def _join(episodes):
    """Join every unit's arrays along time."""
    if len(episodes) == 1:
        return episodes[0]
    units = zip(*episodes, strict=True)
    return tuple(None if parts[0] is None else np.concatenate(parts) for parts in units)


# --- one record ---------------------------------------------------------------------------------


def _read_record(X, inputs, lengths, layout, how):
    """Read a table or a collection of units, and the inputs beside it."""
    read = read_units if _is_collection(X) else read_table
    inner_layout, arrays, clocks = read(X, layout, how)
    outputs, inputs_inside = zip(*arrays, strict=True)
    full_layout, inputs_beside, input_clocks = read_inputs(inputs, inner_layout, learned=layout is not None)
    index, runs = common_index(clocks + input_clocks)
    n_samples = len(outputs[0])
    if lengths is None and runs is not None:
        warn(f"The index of X names {len(runs)} runs: each is taken as an episode of its own.")
        lengths = runs
    lengths = at_gaps(index, n_samples) if lengths is None else check_lengths(lengths, n_samples)
    if index is not None:
        check_times(index, lengths)
    laid = row_by_row if how.by_rows else tuple
    return PlantData(
        layout=full_layout,
        outputs=laid(outputs),
        inputs=laid(inputs_inside if inputs_beside is None else inputs_beside),
        index=index,
        lengths=lengths,
    )


def row_by_row(arrays):
    """Arrays that lie in memory row by row; None for those that are None.

    Products and sums of arrays that lie differently round differently; one record shall give the identical plant
    whatever container it came in.
    """
    return tuple(None if array is None else np.ascontiguousarray(array) for array in arrays)


def _is_collection(X):
    """Whether X is a collection of units rather than one table."""
    if issparse(X):  # refused by `read_table`; in old SciPy some formats are dicts
        return False
    if isinstance(X, pd.Series):
        raise ValueError(
            f"Got a Series of {len(X)} values as X, which is one column; a plant has several units. Give a frame with "
            f"'client{SEPARATOR}sensor' columns, or a dict with a table per unit."
        )
    if not isinstance(X, (Mapping, list, tuple, pd.DataFrame, np.ndarray)):
        raise TypeError(
            f"Got X of type {type(X).__name__}; give a list or dict with one array per unit, a "
            f"frame with 'client{SEPARATOR}sensor' columns, or a 2-D array."
        )
    if isinstance(X, (Mapping, list, tuple)) and len(X) == 0:
        raise ValueError(f"Got an empty {type(X).__name__} as X; give one array per unit.")
    # a list of rows of numbers is a table, as everywhere in scikit-learn
    return isinstance(X, Mapping) or (isinstance(X, (list, tuple)) and not all(_is_row(part) for part in X))


def _is_row(part):
    if isinstance(part, (list, tuple)):
        return len(part) == 0 or np.ndim(part[0]) == 0
    return part is None or np.isscalar(part) or getattr(part, "shape", None) == ()


# Rows of a stream that came one by one in the container before: read without all checks being made again.


class UsualRows:
    """Reads single rows of float64 that look like those before; what looks otherwise is left to the reader of all.

    Parameters
    ----------
    layout : PlantLayout
        Of a plant without inputs.
    """

    def __init__(self, layout):
        self._layout = layout
        self._widths = [len(columns) for columns in layout.output_positions]
        edges = np.cumsum([0, *self._widths]).tolist()
        self._places = list(zip(edges[:-1], edges[1:], strict=True))
        in_order = [k for columns in layout.output_positions for k in columns] == list(range(layout.n_columns))
        self._is_plain = in_order and not layout.has_inputs
        self._columns: dict = {}  # of frames that were found to be as in `fit`, by unit, None of the whole plant

    def learn(self, X):
        """Take note of the columns of a container that was read."""
        if isinstance(X, (pd.Series, pd.DataFrame)):
            names = X.index if isinstance(X, pd.Series) else X.columns
            self._columns[None] = names if tuple(names) == self._layout.columns else None
        elif isinstance(X, Mapping):
            for k, (name, part) in enumerate(X.items()):
                flat = self._layout.outputs[k] if k < len(self._widths) else ()
                own = flat, tuple(name.split("__", 1)[-1] for name in flat)  # as its columns may be called in its frame
                if isinstance(part, pd.DataFrame) and tuple(part.columns) in own:
                    self._columns[name] = part.columns

    def read(self, X):
        """The row as PlantData, None if it has to be looked at."""
        if not self._is_plain:
            return None
        if isinstance(X, Mapping):
            found = self._of_units(X)
        else:
            values, index = self._of_table(X, None)
            found = None
            if values is not None and values.shape[1] == self._places[-1][1]:
                found = [values[:, start:stop] for start, stop in self._places], index
        if found is None:
            return None
        return PlantData(self._layout, tuple(found[0]), (None,) * len(found[0]), found[1], (1,))

    def _of_units(self, X):
        if tuple(X) != self._layout.names:
            return None
        arrays, index = [], None
        for (name, part), width in zip(X.items(), self._widths, strict=True):
            values, times = self._of_table(part, name)
            if values is None or values.shape[1] != width:
                return None
            if times is not None and index is not None and times is not index and not times.equals(index):
                return None
            arrays.append(values)
            index = times if index is None else index
        return arrays, index

    def _of_table(self, X, name):
        """One row of a table and its time; None of what has to be looked at."""
        index = None
        if isinstance(X, pd.DataFrame):
            if len(X) != 1 or not _are(X.columns, self._columns.get(name)):
                return None, None
            X, index = X.to_numpy(), read_clock(X.index).times
        elif isinstance(X, pd.Series):
            if not (isinstance(X.name, pd.Timestamp) and _are(X.index, self._columns.get(name))):
                return None, None
            X, index = X.to_numpy()[None], pd.DatetimeIndex([X.name])
        if type(X) is not np.ndarray or X.dtype != np.float64 or X.ndim != 2 or len(X) != 1:
            return None, None
        return (X, index) if _is_finite(X) else (None, None)


def _are(columns, known):
    """Whether columns are the known ones, None if none are."""
    return known is not None and (columns.is_(known) or columns.equals(known))


def _is_finite(row):
    """Whether no value is infinite; where values are missing they are looked at one by one."""
    values = row[0].tolist()
    total = sum(values)
    return -inf < total < inf or not any(abs(value) == inf for value in values if not isnan(value))
