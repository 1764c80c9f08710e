"""Rows of a record: when they were taken, episodes one below the other, arrays of clients side by side."""

import re
import warnings
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from numbers import Integral
from reprlib import repr as short
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..arguments import Inputs, Lengths, cut_by_scikit_learn, warn
from .arrays import as_native, as_table, check_unit_names, listed, names_units
from .tuning import TUNING

# The clock of a record: when its rows were taken, whatever kind of index tells it.

_DATE = re.compile(r"\s*\d{1,4}[-./ ](?:\d{1,2}|[^\W\d]{3,9})[-./ ]\d{1,4}")
_OFFSET = r"(?:Z|[+-]\d{2}:?\d{2})$"


class Clock(NamedTuple):
    """Times or numbers of rows, and the rows of each run where the index names several, else None."""

    times: pd.Index | None
    runs: tuple[int, ...] | None = None


def read_clock(index):
    """Clock that the index of a frame tells.

    Parameters
    ----------
    index : Index
        Times, periods (which begin at their times), spans, numbers, or texts and objects of those. In a MultiIndex
        the last level that holds any of these is the clock, and the others name runs of rows.

    Returns
    -------
    Clock
        The index as DatetimeIndex, TimedeltaIndex or numbers; as it came where it tells none of them.

    Raises
    ------
    ValueError
        If rows of several runs are interleaved.

    Examples
    --------
    >>> import pandas as pd
    >>> from skfedcausal.containers.rows import read_clock
    >>> read_clock(pd.period_range("2026-03-01", periods=2, freq="M")).times.tolist()
    [Timestamp('2026-03-01 00:00:00'), Timestamp('2026-04-01 00:00:00')]
    >>> read_clock(pd.MultiIndex.from_product([["run 1", "run 2"], [0, 1, 2]]))
    Clock(times=Index([0, 1, 2, 0, 1, 2], dtype='int64'), runs=(3, 3))
    """
    if not isinstance(index, pd.MultiIndex):
        return Clock(_index_times(index))
    for level in reversed(range(index.nlevels)):
        times = _index_times(index.get_level_values(level))
        if ticks(times) is not None:
            return Clock(times, _runs(index.droplevel(level)))
    return Clock(index)


def ticks(index):
    """Whole or real numbers that tell the order of rows, None of an index that tells none.

    Examples
    --------
    >>> import pandas as pd
    >>> from skfedcausal.containers.rows import ticks
    >>> ticks(pd.to_timedelta([0, 2], unit="s").as_unit("s")), ticks(pd.Index(["a", "b"]))
    (array([0, 2]), None)
    """
    if isinstance(index, (pd.DatetimeIndex, pd.TimedeltaIndex)):
        return index.asi8
    is_numbers = index is not None and getattr(index.dtype, "kind", "O") in "iuf"
    return index.to_numpy(dtype=float if index.dtype.kind == "f" else np.int64) if is_numbers else None


def unit_since_1970(number):
    """Unit in which a number tells a time since 1970, by its size, of dates after 1973."""
    return next(unit for least, unit in ((1e17, "ns"), (1e14, "us"), (1e11, "ms"), (0, "s")) if number >= least)


def is_numbering(index):
    """Whether an index only counts rows from 0."""
    return isinstance(index, pd.RangeIndex) and index.start == 0 and index.step == 1


def same_times(index, other):
    """Whether two clocks tell the same, whatever zones they are of."""
    zones = getattr(index, "tz", None), getattr(other, "tz", None)
    if None not in zones and zones[0] != zones[1]:
        return index.tz_convert("UTC").equals(other.tz_convert("UTC"))
    return index.equals(other)


def _index_times(index):
    """An index as times, spans or numbers; as it came where it tells none."""
    if isinstance(index, (pd.DatetimeIndex, pd.TimedeltaIndex, pd.RangeIndex)):
        return index
    if isinstance(index, pd.PeriodIndex):
        return index.to_timestamp(how="start")
    if isinstance(index, pd.CategoricalIndex):
        return _index_times(pd.Index(index.to_numpy()))
    kind = pd.api.types.infer_dtype(index, skipna=True) if index.dtype.kind in "OTUmM" else ""  # of Arrow, too
    if kind in ("datetime", "date", "datetime64"):
        return pd.DatetimeIndex(pd.to_datetime(index, utc=len({getattr(t, "tzinfo", None) for t in index}) > 1))
    if kind in ("timedelta", "timedelta64"):
        return pd.TimedeltaIndex(index)
    if kind == "period":
        return pd.PeriodIndex(index).to_timestamp(how="start")
    if kind in ("integer", "floating", "mixed-integer-float"):
        return pd.Index(pd.to_numeric(index))
    return _of_texts(index) if kind == "string" else index


def _of_texts(index):
    """Texts as times or numbers, as they came where they are none."""
    if (numbers := pd.to_numeric(index, errors="coerce")).notna().all():
        return pd.Index(numbers)
    if not len(index) or not all(isinstance(text, str) and _DATE.match(text) for text in (index[0], index[-1])):
        return index
    texts = pd.Series(index.astype(str)).str.strip()
    mixed = texts.str.extract(f"({_OFFSET})", expand=False).nunique(dropna=False) > 1
    readings = []
    ways = (True, False) if "." in texts[0][:3] else (False, True)
    for dayfirst in ways[:1] if (texts.str.match(r"\d{4}")).all() else ways:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                readings.append(pd.DatetimeIndex(pd.to_datetime(texts, dayfirst=dayfirst, utc=bool(mixed))))
        except ValueError:  # of another order of day and month, or no times at all
            continue
    # of two ways to read day and month the right one has rows at even distances
    return min(readings, key=lambda times: len(np.unique(np.diff(times.asi8))), default=index)


def _runs(labels):
    """Rows of each run by their labels, None of one run."""
    codes = pd.factorize(labels)[0]
    cuts = np.flatnonzero(np.diff(codes)) + 1
    if not len(cuts):
        return None
    if len(cuts) + 1 > codes.max() + 1:
        raise ValueError(
            f"The index of X names {codes.max() + 1} runs, and their rows are interleaved. Sort them, "
            "X.sort_index(), or give each unit its own rows: {unit: frame, ...}."
        )
    return tuple(np.diff([0, *cuts.tolist(), len(codes)]).tolist())


# Episodes: several records of one plant, one below the other in a table.


def check_lengths(lengths: Lengths, n_samples: int) -> tuple[int, ...]:
    """Check the lengths of episodes.

    Parameters
    ----------
    lengths : array-like of int of shape (n_episodes,) or None
        Number of rows of each episode; None for a single episode.
    n_samples : int
        Number of rows of the record.

    Returns
    -------
    tuple of int

    Raises
    ------
    ValueError
        If lengths are not positive integers that sum to `n_samples`.

    Examples
    --------
    >>> from skfedcausal.containers import check_lengths
    >>> check_lengths([2, 3], 5), check_lengths(None, 5)
    ((2, 3), (5,))
    """
    if lengths is None:
        return (n_samples,)
    try:
        array = np.asarray(lengths)
    except ValueError:  # lists of unequal length
        array = np.empty(0)
    if array.ndim != 1 or array.dtype.kind not in "iu" or array.size == 0 or array.min() < 1:
        raise ValueError(
            f"Got lengths={short(lengths)}; give one positive integer per episode, for example lengths=[{n_samples}]."
        )
    if array.sum() != n_samples:
        raise ValueError(
            f"Got `lengths` that sum to {array.sum()} for {n_samples} rows; give the number of "
            "rows of every episode, in order."
        )
    return tuple(array.tolist())


def episode_starts(lengths: Sequence[int]) -> tuple[int, ...]:
    """First row of each episode.

    Parameters
    ----------
    lengths : sequence of int

    Returns
    -------
    tuple of int

    Examples
    --------
    >>> from skfedcausal.containers import episode_starts
    >>> episode_starts((2, 3))
    (0, 2)
    """
    return tuple(accumulate((int(length) for length in lengths[:-1]), initial=0))


def repeated_stretch(times):
    """First and last of the times that occur twice or lie before an earlier row, None if there are none."""
    if times.is_monotonic_increasing and times.is_unique:
        return None
    latest = pd.Series(times).cummax().to_numpy()
    again = times[1:][times[1:] <= latest[:-1]]
    return again.min(), again.max()


_HOUR = pd.Timedelta("1h")


def times_back(times):
    """How rows go back in time: None, "hour" (a clock was put back), "episodes" (one record below another) or
    "no order"; and the rows at which they do."""
    steps = np.diff(ticks(times))
    back = np.flatnonzero(steps < 0) + 1
    if not len(back):
        return None, back
    if len(back) > max(TUNING.rows_shuffled * len(steps), 1) and len(steps) > 2:
        return "no order", back
    return ("hour" if _are_hours(times, steps, back) else "episodes"), back


def _are_hours(times, steps, back):
    """Whether times go back by an hour wherever they do, as a clock that is put back."""
    if not isinstance(times, pd.DatetimeIndex):
        return False
    usual = pd.Timedelta(np.median(steps[steps > 0]), unit=times.unit) if (steps > 0).any() else pd.Timedelta(0)
    jumps = (times[back - 1] - times[back]) + usual
    return bool((abs(jumps - _HOUR) <= usual).all())


def episodes_text(times, back):
    """Sentence on records that stand below each other, and the rows of each."""
    lengths = np.diff([0, *back, len(times)]).tolist()
    shown = ", ".join(map(str, lengths[:5])) + (", ..." if len(lengths) > 5 else "")
    return f"{len(lengths)} records stand below each other, of {shown} rows: times go back at row {back[0]}."


def repeated_text(times):
    """Sentence that names the repeated stretch of a record, None if there is none."""
    stretch = repeated_stretch(times)
    if stretch is None:
        return None
    first, last = stretch
    kind, back = times_back(times)
    if kind == "no order":
        return f"Rows are not in time order: {len(back)} of {len(times)} go back."
    if kind == "episodes":
        return episodes_text(times, back)
    if kind is None and _are_stacked(times):
        return f"{len(times)} rows have {times.nunique()} times: several rows of each, from {first} to {last}."
    if not isinstance(times, pd.DatetimeIndex):
        return f"Rows from {first} to {last} occur twice or go back."
    step = pd.Series(times).diff().abs().median()
    day = f"{first.day} {first:%B %Y}"
    if first.date() == last.date():
        return f"{first:%H:%M} to {last + step:%H:%M} occurs twice on {day}."
    return f"Times from {first} to {last} occur twice or go back."


def _are_stacked(times):
    return times.duplicated(keep=False).mean() > TUNING.rows_stacked


_ZONED = "A clock that is put forward or back for summer time does this: give the index the zone of that clock."
_PUT_BACK = (
    "Clocks put back in autumn do this: read exports with read_historian(..., tz=...), or give the index a "
    "zone by tz_localize(..., ambiguous='infer')."
)
_REMEDIES = {
    "hour": _PUT_BACK,
    "episodes": "Say where each begins: lengths=[...], or read them by PlantTable.read(X, fix='episodes').",
    "no order": "What was an effect is taken for a cause: sort them, X.sort_index().",
    "stacked": "Tables of several units below each other do this: give each its own rows, {unit: frame, ...}.",
}


def _remedy(times):
    """What to do about times that repeat or go back."""
    kind = times_back(times)[0]
    if kind is None:
        kind = "stacked" if _are_stacked(times) else "hour"
    return _ZONED if kind == "hour" and getattr(times, "tz", None) is not None else _REMEDIES[kind]


def check_times(index, lengths):
    """Refuse episodes that run backwards and warn of times or numbers that repeat or go back inside one."""
    if ticks(index) is None or is_numbering(index):
        return
    for start, length in zip(episode_starts(lengths), lengths, strict=True):
        times = index[start : start + length]
        if times.hasnans:
            missing = np.flatnonzero(times.isna())
            raise ValueError(
                f"{len(missing)} of {length} rows of X have no time (NaT), row {start + missing[0]} first. Fill in "
                "their times, or leave the rows out."
            )
        if times.is_monotonic_decreasing and times[-1] < times[0]:
            raise ValueError(
                f"The rows of X run backwards in time, from {times[0]} to {times[-1]}: what was an effect would be "
                "taken for a cause. Sort them by time."
            )
        text = repeated_text(times)
        if text is not None:
            warn(
                f"{text} Rows are taken in the order they came; nothing was dropped. {_remedy(times)}",
            )


def sampling_period(index):
    """Median time between rows as a Timedelta; None without times or with one row."""
    if not isinstance(index, (pd.DatetimeIndex, pd.TimedeltaIndex)) or len(index) < 2:
        return None
    steps: Any = (index[1:] - index[:-1]).to_numpy()
    return pd.Timedelta(np.median(steps))  # times with a zone are slow as an array


def check_sampling(index, period):
    """Refuse rows at another sampling period than in `fit`."""
    came = sampling_period(index)
    if came is not None and period is not None and abs(came / period - 1) > TUNING.rows_same:
        raise ValueError(
            f"X has a row every {came}, the nominal record had one every {period}. Dynamics are learned per "
            "row: resample X, or fit to a nominal record of that sampling."
        )


def warn_of_gaps(index, starts):
    """Warn where rows of an episode are further apart than one sampling period."""
    places = ticks(index)
    if places is None or len(places) < 2 or isinstance(index, pd.RangeIndex):
        return
    steps = np.diff(places)
    far = steps > 1.5 * np.median(steps)
    far[[start - 1 for start in starts if start > 0]] = False
    gaps = np.flatnonzero(far)
    if len(gaps):
        more = f" and {len(gaps) - 1} times more" if len(gaps) > 1 else ""
        warn(
            f"X has no rows between {index[gaps[0]]} and {index[gaps[0] + 1]}{more}; its rows are taken as "
            "one step apart. Give missing rows as NaN, or cut there by `lengths`"
            f"{f'. {SHUFFLE}' if len(gaps) > _MANY * len(index) else '; PlantTable.read(X) does both.'}",
        )


_MANY = 0.05  # share of the rows after which some are missing, as cross-validation with shuffle leaves them
SHUFFLE = (
    "Cross-validation with shuffle=True takes rows out of their order like that: split time series by "
    "TimeSeriesSplit, or KFold without shuffle."
)


def is_in_pieces(lengths):
    """Whether episodes are so many for their rows that rows were left out everywhere."""
    return len(lengths) > 2 and len(lengths) > 1 + _MANY * sum(lengths)


def at_gaps(index, n_samples):
    """Lengths of the episodes between which numbers of rows that count up leave some out, with a warning.

    One episode where the index has times, which are told of otherwise, or its numbers do not count up. If rows are
    missing everywhere, they are taken as one step apart, and a warning says that as well.
    """
    whole = (n_samples,)
    if index is None or len(index) < 3 or index.dtype.kind not in "iu" or isinstance(index, pd.RangeIndex):
        return whole
    steps = np.diff(index.to_numpy())
    gaps = np.flatnonzero(steps > np.median(steps))
    if (steps < 1).any() or not len(gaps):
        return whole
    lengths = tuple(np.diff([0, *(gaps + 1), n_samples]).tolist())
    if is_in_pieces(lengths):
        warn(f"X lacks rows in {len(gaps)} places; its rows are taken as one step apart. {SHUFFLE}")
        return whole
    more = f" and {len(gaps) - 1} times more" if len(gaps) > 1 else ""
    warn(
        f"The index of X has no rows between {index[gaps[0]]} and {index[gaps[0] + 1]}{more}: another episode begins "
        "there. Give missing rows as NaN, or reset_index(drop=True) if none are missing.",
    )
    return lengths


class StreamTimes:
    """Times of the last rows of a stream by their positions, and of earlier ones that somebody may ask for."""

    def __init__(self, n_kept):
        self._n_kept, self._first, self._held = n_kept, 0, {}
        self._parts: list[pd.DatetimeIndex] = []
        self._ends: list[int] = []  # positions after the last row of each part

    def extend(self, index):
        """Take note of the times of the next rows."""
        if len(index):
            self._parts.append(index)
            self._ends.append((self._ends[-1] if self._ends else self._first) + len(index))
        if len(self._parts) > TUNING.rows_few_parts or (self._ends and self._ends[-1] - self._first > 8 * self._n_kept):
            self._forget()

    def _forget(self):
        """Join what is kept of the parts: of the last one all rows, any of which may be asked for yet."""
        joined = pd.DatetimeIndex(self._parts[0].append([*self._parts[1:]]))
        gone = max(len(joined) - self._n_kept - len(self._parts[-1]), 0)
        self._first, self._parts, self._ends = self._first + gone, [joined[gone:]], self._ends[-1:]

    def hold(self, rows):
        """Remember the times of some of the last rows."""
        self._held |= {row: self[row] for row in rows if row not in self._held}

    @property
    def dtype(self):
        """Of the times; None before the first."""
        return self._parts[-1].dtype if self._parts else None

    def __getitem__(self, row):
        if row in self._held:
            return self._held[row]
        part = bisect_right(self._ends, row)
        return self._parts[part][row - (self._ends[part - 1] if part else self._first)]


def times_of(X):
    """Times of the rows of a frame, or of the first frame of a dict or list of units; None without any."""
    parts = X.values() if isinstance(X, dict) else X if isinstance(X, list) else [X]
    clocks = (read_clock(part.index).times for part in parts if isinstance(part, pd.DataFrame))
    return next((index for index in clocks if isinstance(index, (pd.DatetimeIndex, pd.TimedeltaIndex))), None)


def check_zone(index, last):
    """Refuse times of a batch that have a zone where those before had none, or the reverse."""
    if isinstance(index, pd.DatetimeIndex) and isinstance(last, pd.Timestamp):
        zones = index.tz, last.tz
        if (zones[0] is None) != (zones[1] is None):
            came, before = (f"zone {zone}" if zone is not None else "no zone" for zone in zones)
            zone = None if last.tz is None else str(last.tz)
            raise ValueError(
                f"The times of the batch have {came}, those before have {before}: one clock cannot follow the other. "
                f"Give the batch the clock of the stream, index.tz_localize({zone!r})."
            )


def has_stopped(index, last, period):
    """Whether a batch begins so long after the row before that what was known of the states there is of no use."""
    if last is None or period is None or not _follows(index, last):
        return False
    return index[0] - last > _multiple(LONG, period)


LONG = 200  # sampling periods


def _follows(index, last):
    """Whether rows have a clock of the kind of the last row of a stream."""
    return index is not None and len(index) > 0 and ticks(index) is not None and _kind(index[0]) == _kind(last)


def comes_after(index, last):
    """Whether rows have a clock of the kind of the last row of a stream, and come later by it."""
    if not _follows(index, last) or (getattr(index, "tz", None) is None) != (getattr(last, "tz", None) is None):
        return False
    return bool(index[0] > last)


def _kind(time):
    return next((kind for kind in (pd.Timestamp, pd.Timedelta) if isinstance(time, kind)), float)


@lru_cache(64)
def _multiple(factor, period):
    return factor * period


def check_following(index, last, period):
    """Time or number of the last row of a batch that follows another; numbers from 0 on are no clock of a stream."""
    if index is None or not len(index) or ticks(index) is None or is_numbering(index):
        return last
    if last is None or not _follows(index, last):
        return index[-1]
    if index[0] <= last:
        raise ValueError(
            f"The batch starts at {index[0]}, but the stream has been followed up to {last} already. Give "
            "the rows after that, or reset() for another stream."
        )
    if period is not None and _kind(last) is not float and index[0] - last > _multiple(1.5, period):
        warn(
            f"There are no rows between {last} and {index[0]}; the stream goes on as if none had been left "
            "out. Give missing rows as NaN, or reset().",
        )
    return index[-1]


def position(row, index, default=None):
    """Position of a row that is given as a position or a time; `default` for None."""
    if row is None:
        return default
    if isinstance(row, Integral) and not isinstance(row, bool | np.timedelta64):
        return int(row)
    if isinstance(index, pd.DatetimeIndex) and not isinstance(row, float):
        if not index.is_monotonic_increasing:  # records below each other: the first row of that time
            there = np.flatnonzero(index == pd.Timestamp(row))
            if len(there):
                return int(there[0])
        return int(index.searchsorted(pd.Timestamp(row)))
    times = " or a time" if isinstance(index, pd.DatetimeIndex) else "; the record has no times"
    raise TypeError(f"Got {row!r} as a row; give a position{times}.")


def at_one_level(plant, levels=None):
    """A record whose episodes all have the level of the first one.

    `levels` are the numbers of their levels, from 0 on in the order in which they come, None for one of each its own.
    """
    rows = np.repeat(np.arange(len(plant.lengths)) if levels is None else list(levels), plant.lengths)
    return replace(plant, outputs=tuple(_at_first_level(Y, rows) for Y in plant.outputs))


def _at_first_level(Y, levels):
    """Measurements of a unit with the mean of each sensor at the first level at which it is there."""
    moved, first = np.array(Y, dtype=float), np.full(Y.shape[1], np.nan)
    for k in range(levels.max() + 1):
        here = levels == k
        there = np.isfinite(Y[here])
        level = np.where(there, Y[here], 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
        first = np.where(np.isnan(first) & there.any(axis=0), level, first)
        moved[here] += np.nan_to_num(first) - level
    return moved


# Arrays of clients as one record of rows, which scikit-learn cuts by time and never between units.


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
