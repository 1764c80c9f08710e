"""Rows of a stream that came one by one in the container before: read without all checks being made again."""

from collections.abc import Mapping
from math import inf, isnan

import numpy as np
import pandas as pd

from .clock import read_clock
from .plant import PlantData


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
