"""Batches of a stream: what may come as one, and what is done with one that does not fit the plant."""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from ..callers import warn
from ..containers.arrays import column_names
from ..containers.layout import SEPARATOR, flat_name, listed
from ..containers.rows import LONG, times_of


class StreamWarning(UserWarning):
    """Something was wrong with a batch of a stream; the watch goes on with what is right."""


def is_stream(X):
    """Whether batches are to come one after the other."""
    return isinstance(X, (Iterator, AsyncIterator))


def batch_of(batch):
    """Measurements and inputs of a batch, which is a container or a pair of both; single rows are made tables."""
    X, inputs = batch if isinstance(batch, tuple) and len(batch) == 2 else (batch, None)
    return _as_table(X), None if inputs is None else _as_table(inputs)


def _as_table(X):
    if isinstance(X, pd.Series):
        return X.to_frame().T.infer_objects()
    if isinstance(X, Mapping) and X and all(SEPARATOR in str(name) for name in X):  # one row by flat names, or columns
        return pd.DataFrame({name: [value] if np.ndim(value) == 0 else value for name, value in X.items()})
    if isinstance(X, Mapping):
        return {name: _as_row(part) for name, part in X.items()}
    if isinstance(X, list) and X and all(map(np.isscalar, X)):
        return np.asarray(X)[None]
    if isinstance(X, list):
        return [_as_row(part) for part in X]
    return _as_row(X)


def _as_row(part):
    """Measurements of a unit as a table; a flat sequence of numbers is one row."""
    if part is None or isinstance(part, (pd.DataFrame, Mapping)):
        return part
    return np.asarray(part)[None] if np.ndim(part) == 1 else part


def fitting(X, layout, last):
    """A batch without what the plant does not have, NaN where something is missing, rows after a time only, in order.

    And the positions of its rows in what came, None if they are all there and in order. The batch is None if no row is
    left. What is wrong is named by a StreamWarning.
    """
    if isinstance(X, Mapping):
        X = _fitting_units(X, layout)
    elif isinstance(X, pd.DataFrame):
        X = _numbers(_fitting_columns(X, layout.columns, "the batch"), "the batch")
    if n_rows_of(X) == 0:
        return None, None
    times = times_of(X)
    if times is None:
        return X, None
    rows = np.flatnonzero(~times.isna())
    if len(rows) < len(times):
        say_and_go_on(f"{len(times) - len(rows)} rows of a batch have no time: they are left out")
        if not len(rows):
            return None, None
    if last is not None and (times.tz is None) != (last.tz is None):
        say_and_go_on(
            "Times of a batch have a zone and those before have none, or the reverse: they are taken as of one clock"
        )
        times = times.tz_localize(None if last.tz is None else last.tz)
        X = _each(X, lambda part: part.set_axis(times, axis=0))
    if not times[rows].is_monotonic_increasing:
        say_and_go_on(f"Rows of a batch from {times.min()} on are not in time order: they are sorted")
        rows = rows[np.argsort(times[rows].asi8, kind="stable")]
    if last is not None and times[rows[0]] <= last:
        late = times[rows] > last
        say_and_go_on(
            f"{int((~late).sum())} rows go back to {times[rows[0]]}, and the stream has been followed up to {last} "
            "already: they are left out"
        )
        rows = rows[late]
    if np.array_equal(rows, np.arange(len(times))):
        return X, None
    return (_each(X, lambda part: part.iloc[rows]), rows) if len(rows) else (None, None)


def n_rows_of(X):
    parts = list(X.values()) if isinstance(X, Mapping) else [X]
    return len(parts[0]) if parts and hasattr(parts[0], "__len__") else 1


def _each(X, change):
    """A container with a change made to the frames in it, and to arrays where it is one of rows."""
    return {name: change(part) for name, part in X.items()} if isinstance(X, Mapping) else change(X)


def left_out(error):
    """Name a batch that cannot be read."""
    say_and_go_on(f"A batch cannot be read and is left out. {error}".rstrip(". "))


def stops(X, period):
    """Lengths of the parts of a batch between which there are no rows for long; None for one part."""
    times = times_of(X)
    if times is None or period is None or len(times) < 2:
        return None
    cuts = np.flatnonzero(times[1:] - times[:-1] > LONG * period) + 1
    return np.diff([0, *cuts, len(times)]).tolist() if len(cuts) else None


def _fitting_units(X, layout):
    unknown = [name for name in X if str(name) not in layout.names]
    known = {str(name): part for name, part in X.items() if str(name) in layout.names and part is not None}
    missing = [name for name in layout.names if name not in known]
    if unknown:
        say_and_go_on(f"Units {listed(unknown)} are not known since the fit: their rows are left out")
    if not known:
        raise ValueError(f"A batch has none of the units {listed(layout.names)}: it is of another plant.")
    if missing:
        say_and_go_on(f"Units {listed(missing)} are missing from a batch: their rows are taken as missing measurements")
    found = next(iter(known.values()))
    parts: dict[str, Any] = {}
    for k, name in enumerate(layout.names):
        own = [layout.columns[position] for position in layout.unit_columns(k)]
        part: Any = known.get(name)
        if isinstance(part, pd.DataFrame) and column_names(part) is not None:
            named = part.set_axis([flat_name(name, str(column), own) for column in part.columns], axis=1)
            part = _fitting_columns(named, own, f"unit {name!r}")
        elif part is not None and len(part) != len(found):
            say_and_go_on(
                f"Unit {name!r} came with {len(part)} rows in place of {len(found)}: they are taken as missing"
            )
            part = None
        elif part is not None and part.shape[1] != len(own):
            came = f"Unit {name!r} came with {part.shape[1]} columns in place of {len(own)}"
            say_and_go_on(f"{came}: its rows are taken as missing")
            part = None
        if part is None:
            part = np.full((len(found), len(own)), np.nan)
            part = pd.DataFrame(part, columns=own, index=found.index) if isinstance(found, pd.DataFrame) else part
        parts[name] = _numbers(part, f"unit {name!r}")
    return parts


def _numbers(part, what):
    """A table without words and infinite numbers."""
    if isinstance(part, pd.DataFrame):
        words = [column for column, kind in part.dtypes.items() if kind.kind not in "fiub"]
        if words:
            numbers = part[words].apply(_as_numbers)
            lost = [column for column in words if numbers[column].isna().sum() > part[column].isna().sum()]
            if lost:
                say_and_go_on(f"Columns {listed(lost)} of {what} hold something other than numbers: taken as missing")
            part = part.assign(**{str(name): numbers[name].astype(float) for name in words})
        values = part.to_numpy()
    else:
        values = part if isinstance(part, np.ndarray) and part.dtype.kind == "f" else np.zeros(0)
    infinite = np.isinf(values)
    if not infinite.any():
        return part
    say_and_go_on(f"{int(infinite.sum())} values of {what} are infinite: taken as missing")
    return part.mask(infinite) if isinstance(part, pd.DataFrame) else np.where(infinite, np.nan, part)


def _as_numbers(column):
    """A column with NaN for what is no number; of times pandas would make nanoseconds."""
    if column.dtype.kind in "mM":
        return pd.Series(np.nan, column.index)
    return pd.to_numeric(column, errors="coerce")


def _fitting_columns(X, columns, what):
    came = [SEPARATOR.join(map(str, parts)) for parts in X.columns.to_frame().itertuples(index=False)]
    if came == list(columns):
        return X
    if len(set(came)) < len(came):
        again = sorted({name for name in came if came.count(name) > 1})
        say_and_go_on(f"Columns {listed(again)} of {what} came more than once: the first of each is taken")
        first = [came.index(name) == k for k, name in enumerate(came)]
        X, came = X.loc[:, first], list(dict.fromkeys(came))
    unknown = [name for name in came if name not in columns]
    missing = [name for name in columns if name not in came]
    if len(missing) == len(columns):
        raise ValueError(f"A batch has none of the columns of {what}, {listed(columns)}: it is of another plant.")
    if unknown:
        say_and_go_on(f"Columns {listed(unknown)} of {what} were not there in `fit`: they are left out")
    if missing:
        say_and_go_on(f"Columns {listed(missing)} are missing from {what}: their values are taken as missing")
    return X.set_axis(came, axis=1).reindex(columns=list(columns))


def rows_of(inputs, rows, n_rows):
    """The inputs of some rows of a batch of so many; what has another number of them is left for who reads it."""

    def chosen(part):
        if part is None or np.ndim(part) == 0 or len(part) != n_rows:
            return part
        return part.iloc[rows] if hasattr(part, "iloc") else np.asarray(part)[rows]

    if isinstance(inputs, Mapping):
        return {name: chosen(part) for name, part in inputs.items()}
    return [chosen(part) for part in inputs] if isinstance(inputs, (list, tuple)) else chosen(inputs)


def say_and_go_on(text):
    """Name what was wrong with rows of a stream that is followed all the same."""
    warn(f"{text}. Monitoring continues.", StreamWarning)
