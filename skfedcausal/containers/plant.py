"""The one reader of containers: whatever holds a plant's record becomes arrays, one per unit.

Rows are time steps, columns are sensors (outputs) or inputs, and every column belongs to a unit.
A container is one table or a collection of units; a `PlantLayout` describes both as columns of
one flat table, units side by side.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Self, cast

import numpy as np
import pandas as pd
from scipy.sparse import issparse

from ..callers import warn
from ..given import Inputs, Lengths, Record
from .arrays import as_native, constant_columns, names_units, same_kind
from .clients import opened
from .layout import SEPARATOR, PlantLayout, listed, split_flat_names
from .readers import Reading, common_index, read_inputs, read_table, read_units
from .rows import at_gaps, check_lengths, check_times, episode_starts, sampling_period


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
