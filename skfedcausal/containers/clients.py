"""Arrays of clients as one record of rows, which scikit-learn cuts by time and never between units."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from ..callers import cut_by_scikit_learn, warn
from ..given import Inputs, Lengths
from .arrays import as_native, as_table, names_units
from .layout import check_unit_names, listed
from .rows import SHUFFLE, check_lengths, is_in_pieces


class ClientArrays:
    """Tables of several units as one record, with a shape and rows like a single table.

    A list of arrays cannot be cut along time by :class:`~sklearn.model_selection.GridSearchCV`,
    :func:`~sklearn.model_selection.cross_val_score` and the like, which would cut between units. These cut by
    rows, whatever the width of the units; names, times and episodes stay, and rows that were cut out of the middle
    are another episode.

    Parameters
    ----------
    clients : list or dict
        One array, frame or Series of shape (n_samples, n_columns_m) per unit, as in `fit`; inputs of units, too.
    lengths : sequence of int, default=None
        Number of rows of each episode; None for one.

    Attributes
    ----------
    tables : list or dict
        The tables as they came, or some of their rows.
    names : tuple of str
        Units.
    shape : tuple of (int, int)
        Rows, and columns of all units together.
    lengths : tuple of int
        Rows of each episode.
    rows : ndarray of int of shape (n_samples,)
        Which rows of the whole record these are.
    n_whole : int
        Number of rows of the whole record.

    Raises
    ------
    TypeError
        If `clients` is no list or dict of tables.
    ValueError
        If tables differ in their number of rows, or `lengths` do not add up to it.

    See Also
    --------
    stack_clients : One table in place of several.
    UnitScaler : Scales columns and gives back the same container.

    Notes
    -----
    Inputs that are given beside it may be such a container, too, or any other: where they have the rows of the whole
    record, those of its rows are taken. So they need no care in ``cross_val_score(..., params={"inputs": U})``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import KFold, cross_val_score
    >>> from skfedcausal import ClientArrays, FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> X = ClientArrays(make_granger_plant(3, n_samples=600, random_state=0)[0])
    >>> X
    ClientArrays(600 rows of 3 units)
    >>> X[np.r_[0:200, 400:600]].lengths
    (200, 200)
    >>> cross_val_score(FederatedGrangerEstimator(), X, cv=KFold(2)).shape
    (2,)
    """

    def __init__(self, clients: Inputs, *, lengths: Lengths = None):
        clients = as_native(clients)
        if not isinstance(clients, (Mapping, list, tuple)) or len(clients) == 0:
            kind = type(clients).__name__ + (f" of shape {clients.shape}" if hasattr(clients, "shape") else "")
            raise TypeError(f"Got {kind}; give a list or dict with one array per unit.")
        refuse_pairs(clients)
        by_name = clients if isinstance(clients, Mapping) else None
        self.names = tuple(map(str, by_name or (f"client{k}" for k in range(len(clients)))))
        check_unit_names(self.names)
        tables = [as_table(table) for table in (clients if by_name is None else by_name.values())]
        deep = [name for name, table in zip(self.names, tables, strict=True) if table.ndim != 2]
        if deep:
            raise TypeError(f"The tables of {listed(deep)} do not have rows and columns; give one table per unit.")
        n_rows = {len(table) for table in tables}
        if len(n_rows) > 1:
            counts = zip(self.names, map(len, tables), strict=True)
            found = listed([f"unit {name!r}: {count} rows" for name, count in counts], quoted=False)
            raise ValueError(f"Got tables of different length: {found}. Give NaN where a unit has no value.")
        self.tables = tables if by_name is None else dict(zip(by_name, tables, strict=True))
        self.shape = (n_rows.pop(), sum(table.shape[1] for table in tables))
        self.lengths = check_lengths(lengths, len(self))
        self.rows, self.n_whole = np.arange(len(self)), len(self)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self):
        several = f" in {len(self.lengths)} episodes" if len(self.lengths) > 1 else ""
        return f"{type(self).__name__}({len(self)} rows of {len(self.names)} units{several})"

    __iter__ = None  # neither rows nor units are meant by it

    def __array__(self, dtype=None, copy=None):
        raise TypeError(
            f"{self} hold a table for each unit and are no array: scale them with UnitScaler, which knows them, or "
            "give one table, stack_clients(clients)."
        )

    def __getitem__(self, key: Any) -> "ClientArrays":
        """Some rows, by a slice, positions or truth values, in order of time."""
        key = key[0] if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis else key
        if isinstance(key, (str, tuple)):
            raise TypeError(f"Got {key!r} as rows of {self}; give a slice or positions. Units are in `tables`.")
        taken = np.atleast_1d(np.arange(len(self))[list(key) if isinstance(key, range) else key])
        if (np.diff(taken) < 1).any():
            raise ValueError(
                f"Rows of {self} are asked for out of their order, and what was an effect would be taken for a cause. "
                f"{SHUFFLE}"
            )
        part = object.__new__(type(self))
        part.names, part.rows, part.n_whole = self.names, self.rows[taken], self.n_whole
        part.tables = each_table(self.tables, lambda table: rows_of(table, taken))
        part.shape = (len(taken), self.shape[1])
        part.lengths = _pieces(taken, self.lengths)
        if is_in_pieces(part.lengths):
            warn(f"These rows are in {len(part.lengths)} pieces. {SHUFFLE}")
        return part

    def replaced(self, values: np.ndarray) -> "ClientArrays":
        """The same rows with other values in the tables.

        Parameters
        ----------
        values : ndarray of shape (n_samples, n_columns)
            Of all units side by side.

        Returns
        -------
        ClientArrays
        """
        tables = self.tables.values() if isinstance(self.tables, dict) else self.tables
        ends = np.cumsum([table.shape[1] for table in tables])
        parts = iter(np.split(values, ends[:-1], axis=1))
        other = object.__new__(type(self))
        other.__dict__ |= self.__dict__
        other.tables = each_table(self.tables, lambda table: _like(table, next(parts)))
        return other

    def beside(self, inputs: Any) -> Any:
        """Inputs of the same rows, where they came with those of the whole record.

        Parameters
        ----------
        inputs : list, dict, DataFrame, ndarray, ClientArrays or None

        Returns
        -------
        list, dict, DataFrame, ndarray or None
        """
        if isinstance(inputs, ClientArrays):
            if len(inputs) == len(self) or inputs.n_whole != len(inputs):
                return inputs.tables
            inputs = inputs.tables
        if len(self) == self.n_whole:
            return inputs
        return each_table(inputs, lambda table: rows_of(table, self.rows) if len(table) == self.n_whole else table)


def opened(X, inputs=None, lengths=None):
    """A record with its inputs and the lengths of its episodes, in containers that have no rows of their own.

    Parameters
    ----------
    X : object
        Any container.
    inputs : object
        Beside it.
    lengths : sequence of int or None

    Returns
    -------
    X, inputs, lengths
        A list or dict in place of :class:`ClientArrays`.

    Raises
    ------
    TypeError
        If the inputs are none of the containers, or units have pairs of measurements and inputs.
    ValueError
        If scikit-learn has cut a list between units, or X is an array of arrays.
    """
    if not isinstance(inputs, (Mapping, list, tuple, ClientArrays, type(None))):
        came, inputs = type(inputs).__name__, as_native(inputs)
        if not isinstance(inputs, (pd.DataFrame, np.ndarray)) or inputs.ndim == 0:
            raise TypeError(
                f"Got `inputs` of type {came}; give a list with one array per unit, or a dict, a frame with "
                "'client__input' columns, or ClientArrays."
            )
    _refuse_no_tables(inputs)
    if isinstance(X, ClientArrays):
        if lengths is not None:
            raise ValueError("Got `lengths` beside ClientArrays, which know their episodes; leave them out.")
        return X.tables, X.beside(inputs), None if len(X.lengths) == 1 else X.lengths
    inputs = inputs.tables if isinstance(inputs, ClientArrays) else _at_index(inputs, X)
    if isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1:
        raise ValueError(f"Got an array of {len(X)} objects as X; give a list with one array per unit: list(X).")
    refuse_pairs(X)
    if isinstance(X, (list, tuple)) and cut_by_scikit_learn(X) and is_of_units(X):
        raise ValueError(
            f"scikit-learn has cut a list between units, and {len(X)} of them came here: units would be learned and "
            "others scored. Give ClientArrays(clients), which it cuts along time, or one table, stack_clients(clients)."
        )
    return X, inputs, lengths


def _refuse_no_tables(inputs):
    """Refuse inputs of a unit that are no table."""
    tables = inputs if isinstance(inputs, (list, tuple)) else ()
    for unit, part in inputs.items() if isinstance(inputs, Mapping) else enumerate(tables):
        if part is None or isinstance(part, (Mapping, list, tuple)) or n_dimensions(as_native(part)) > 0:
            continue
        raise TypeError(
            f"Got `inputs` of type {type(part).__name__} for unit {unit!r}; give one array of shape (n_samples, "
            "n_inputs) per unit, or None for a unit without."
        )


def n_dimensions(part):
    """Number of dimensions of an array, or of lists in lists by the first of them."""
    if isinstance(part, (list, tuple)):
        return 1 + (n_dimensions(part[0]) if part else 0)
    return getattr(part, "ndim", 0)


def is_of_units(parts):
    """Whether a list has a table for each unit, not episodes, which name them, or rows of numbers."""
    if any(isinstance(part, Mapping) or names_units(as_native(part)) for part in parts):
        return False
    return any(n_dimensions(part) == 2 or isinstance(part, pd.Series) for part in parts)


def refuse_pairs(clients):
    """Refuse measurements and inputs in one element for each unit."""
    parts = clients.values() if isinstance(clients, Mapping) else clients if isinstance(clients, (list, tuple)) else ()
    if any(isinstance(part, (list, tuple)) and any(getattr(own, "ndim", 0) == 2 for own in part) for part in parts):
        raise TypeError(
            "Got a pair of tables in place of a unit. Give measurements alone, one table per unit, and the units' "
            "inputs as `inputs`: fit([Y for Y, U in pairs], inputs=[U for Y, U in pairs])."
        )


def unit_inputs(inputs, names, sizes=None):
    """Inputs in one table as a dict or list with one for each unit; a dict or list as it is.

    Parameters
    ----------
    inputs : dict, list, DataFrame or ndarray
        Columns of a frame are called ``unit__input``. An array has those of all units side by side.
    names : sequence of str
        Units.
    sizes : sequence of int, default=None
        Number of inputs of each unit where it is known; else all have the same.

    Returns
    -------
    dict or list

    Raises
    ------
    ValueError
        If columns cannot be given to units.
    """
    inputs = as_native(inputs)
    if isinstance(inputs, pd.DataFrame) and names_units(inputs):
        owners = [str(column).partition("__")[0] for column in inputs.columns]
        return {unit: inputs.loc[:, [owner == unit for owner in owners]] for unit in dict.fromkeys(owners)}
    if not isinstance(inputs, (pd.DataFrame, np.ndarray)):
        return inputs
    table = as_table(inputs)
    width = table.shape[1] if table.ndim == 2 else 0
    if sizes is None and width % len(names) == 0:
        sizes = [width // len(names)] * len(names)
    if table.ndim != 2 or sizes is None or sum(sizes) != width:
        expected = f"as many columns for each of {len(names)} units" if sizes is None else f"{sum(sizes)} columns"
        raise ValueError(
            f"Got `inputs` of shape {table.shape}, expected {expected}; give a dict with one array per unit, "
            "or a frame with 'client__input' columns."
        )
    ends = np.cumsum([0, *sizes])
    return [columns_of(table, slice(a, b)) if b > a else None for a, b in zip(ends[:-1], ends[1:], strict=True)]


def columns_of(table, columns):
    """Some columns of a frame or array."""
    return table.iloc[:, columns] if isinstance(table, pd.DataFrame) else table[:, columns]


def rows_of(table, rows):
    """Some rows of a frame or array."""
    return table.iloc[rows] if isinstance(table, (pd.DataFrame, pd.Series)) else table[rows]


def each_table(tables, change):
    """A single table, or every one of a dict or list, changed; None as it is."""
    if isinstance(tables, Mapping):
        return {name: each_table(table, change) for name, table in tables.items()}
    if isinstance(tables, (list, tuple)):
        return [None if table is None else change(as_table(table)) for table in tables]
    return None if tables is None else change(as_table(tables))


def _at_index(inputs, X):
    """Inputs of the rows of a frame, found by its index where there are more of them than rows in the frame."""
    if inputs is None or not isinstance(X, pd.DataFrame) or not X.index.is_unique:
        return inputs

    def there(table):
        index = table.index if isinstance(table, pd.DataFrame) else pd.RangeIndex(len(table))
        if len(index) <= len(X) or not index.is_unique or type(index.dtype) is not type(X.index.dtype):
            return table
        rows = index.get_indexer(X.index)
        return table if (rows < 0).any() else rows_of(table, rows)

    return each_table(inputs, there)


def _like(table, values):
    """Values with the names and times of a table."""
    return pd.DataFrame(values, table.index, table.columns) if isinstance(table, pd.DataFrame) else values


def _pieces(taken, lengths):
    """Lengths of episodes of some rows: where a row is left out, or an episode ends, another one begins."""
    if not len(taken):
        return ()
    episode = np.searchsorted(np.cumsum(lengths), taken, side="right")
    borders = np.flatnonzero((np.diff(taken) > 1) | (np.diff(episode) > 0)) + 1
    return tuple(np.diff([0, *borders, len(taken)]).tolist())
