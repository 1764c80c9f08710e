"""Episodes: several records of one plant, one below the other in a table."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from numbers import Integral
from reprlib import repr as short
from typing import Any

import numpy as np
import pandas as pd

from ..callers import warn
from ..given import Lengths
from .clock import is_numbering, read_clock, ticks
from .tuning import TUNING


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
