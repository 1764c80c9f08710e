"""A plant's record unit by unit, each on the clock it came with."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ..containers.arrays import as_native
from ..containers.clock import is_numbering, read_clock, ticks
from ..containers.plant import read_plant
from .tuning import TUNING


@dataclass(frozen=True, eq=False)
class UnitRecord:
    """Tags of one unit, `values` of shape (n_samples, n_columns); a gap or an episode ends at `breaks`.

    `times` are the clock that its rows came with, of any kind, and `index` is that without rows that have a time twice.
    """

    name: str
    columns: tuple[str, ...]
    values: np.ndarray
    index: pd.DatetimeIndex | None
    times: pd.Index | None
    breaks: np.ndarray

    @cached_property
    def step(self):
        """Median distance of two rows, None where rows have no times."""
        if self.index is None or len(self.index) < 2:
            return None
        return pd.Timedelta(np.median(np.diff(self.index.asi8)), unit=self.index.unit)

    def time(self, row):
        """Time of a row, or its number."""
        return int(row) if self.index is None else self.index[int(row)]

    def span(self, n_rows):
        """Length of a segment of rows, in words."""
        return f"{n_rows:.0f} rows" if self.step is None else duration(n_rows * self.step)


def duration(delta, digits=".3g"):
    """A time difference as a person would say it: ``58 s``, ``2.5 h``."""
    seconds = abs(delta.total_seconds())
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:{digits}} {name}"
    return f"{seconds:{digits}} s"


def read_units(X, client_labels, lengths):
    """List of UnitRecord, of a dict each on its own clock, and whether all units have the same rows."""
    X = as_native(X)
    tables = _tables_with_clocks(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what they say is found below
        if tables is None:
            plants = [read_plant(X, client_labels=client_labels, lengths=lengths, by_rows=False)]
        else:
            plants = [read_plant({name: table}, by_rows=False) for name, table in tables.items()]
    return [_unit(unit, data) for data in plants for unit in data.units()], tables is None


def _tables_with_clocks(X):
    """Frames by unit where each has times of its own, else None."""
    if not isinstance(X, Mapping) or not X:
        return None
    tables = {str(name): as_native(table) for name, table in X.items()}
    if not all(isinstance(table, (pd.DataFrame, pd.Series)) for table in tables.values()):
        return None
    times: list[Any] = [read_clock(table.index).times for table in tables.values()]
    if not all(isinstance(index, pd.DatetimeIndex) for index in times):
        return None
    return None if all(index.equals(times[0]) for index in times) else tables


def _unit(unit, data):
    name, columns, values = unit
    breaks = set(data.starts)
    times = None if ticks(data.index) is None or is_numbering(data.index) else data.index
    index = times if isinstance(times, pd.DatetimeIndex) else None
    if index is not None and index.is_monotonic_increasing and not index.is_unique:
        first = ~index.duplicated()  # two series in turns
        values, index = values[first], index[first]
    clock = times if index is None else index
    if clock is not None and len(clock) > 2:
        steps = np.diff(ticks(clock))
        breaks |= set(np.flatnonzero((steps > TUNING.record_gap * np.median(steps)) | (steps < 0)) + 1)
    return UnitRecord(name, tuple(columns), values, index, times, np.array(sorted(breaks)))
