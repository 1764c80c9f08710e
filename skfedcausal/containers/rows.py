"""Episodes: several records of one plant, one below the other in a table."""

import warnings
from bisect import bisect_right
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from numbers import Integral

import numpy as np
import pandas as pd


def check_lengths(lengths, n_samples):
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
    array = np.asarray(lengths)
    if array.ndim != 1 or array.dtype.kind not in "iu" or array.size == 0 or array.min() < 1:
        raise ValueError(f"Got {lengths=}; give one positive integer per episode, for example lengths=[{n_samples}].")
    if array.sum() != n_samples:
        raise ValueError(
            f"Got `lengths` that sum to {array.sum()} for {n_samples} rows; give the number of "
            "rows of every episode, in order."
        )
    return tuple(array.tolist())


def episode_starts(lengths):
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


_SHUFFLED = 0.05  # share of the steps that go back where rows are in no order
_HOUR = pd.Timedelta("1h")


def times_back(times):
    """How rows go back in time: None, "hour" (a clock was put back), "episodes" (one record below another) or
    "no order"; and the rows at which they do."""
    steps = np.diff(times.asi8)
    back = np.flatnonzero(steps < 0) + 1
    if not len(back):
        return None, back
    if len(back) > max(_SHUFFLED * len(steps), 1) and len(steps) > 2:
        return "no order", back
    usual = pd.Timedelta(np.median(steps[steps > 0]), unit=times.unit) if (steps > 0).any() else pd.Timedelta(0)
    jumps = (times[back - 1] - times[back]) + usual
    return ("hour" if (abs(jumps - _HOUR) <= usual).all() else "episodes"), back


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
        return f"Rows are in no order of time: {len(back)} of {len(times)} go back."
    if kind == "episodes":
        return episodes_text(times, back)
    step = pd.Series(times).diff().abs().median()
    day = f"{first.day} {first:%B %Y}"
    if first.date() == last.date():
        return f"{first:%H:%M} to {last + step:%H:%M} occurs twice on {day}."
    return f"Times from {first} to {last} occur twice or go back."


_PUT_BACK = (
    "Clocks put back in autumn do this: read exports with read_historian(..., tz=...), or give the index a "
    "zone by tz_localize(..., ambiguous='infer')."
)
_REMEDIES = {
    None: _PUT_BACK,
    "hour": _PUT_BACK,
    "episodes": "Say where each begins: lengths=[...], or read them by PlantTable.read(X, fix='episodes').",
    "no order": "What was an effect is taken for a cause: sort them, X.sort_index().",
}


def check_times(index, lengths):
    """Refuse episodes that run backwards and warn of times that repeat or go back inside one."""
    if not isinstance(index, pd.DatetimeIndex):
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
            warnings.warn(
                f"{text} Rows are taken in the order they came; nothing was dropped. {_REMEDIES[times_back(times)[0]]}",
                stacklevel=5,
            )


_SAME = 0.01  # relative difference of two sampling periods that is jitter


def sampling_period(index):
    """Median time between rows as a Timedelta; None without times or with one row."""
    if not isinstance(index, pd.DatetimeIndex) or len(index) < 2:
        return None
    return pd.Timedelta(np.median((index[1:] - index[:-1]).to_numpy()))  # times with a zone are slow as an array


def check_sampling(index, period):
    """Refuse rows at another sampling period than in `fit`."""
    came = sampling_period(index)
    if came is not None and period is not None and abs(came / period - 1) > _SAME:
        raise ValueError(
            f"X has a row every {came}, the nominal record had one every {period}. Dynamics are learned per "
            "row: resample X, or fit to a nominal record of that sampling."
        )


def warn_of_gaps(index, starts):
    """Warn where rows of an episode are further apart than one sampling period."""
    period = sampling_period(index)
    if period is None:
        _warn_of_missing_numbers(index, starts)
        return
    far = np.array(index[1:] - index[:-1] > 1.5 * period)
    far[[start - 1 for start in starts if start > 0]] = False
    gaps = np.flatnonzero(far)
    if len(gaps):
        more = f" and {len(gaps) - 1} times more" if len(gaps) > 1 else ""
        warnings.warn(
            f"X has no rows between {index[gaps[0]]} and {index[gaps[0] + 1]}{more}; its rows are taken as "
            "one step apart. Give missing rows as NaN, or cut there by `lengths`"
            f"{f'. {_SHUFFLE}' if len(gaps) > _MANY * len(index) else '; PlantTable.read(X) does both.'}",
            stacklevel=4,
        )


_MANY = 0.05  # share of the rows after which some are missing, as cross-validation with shuffle leaves them
_SHUFFLE = (
    "Cross-validation with shuffle=True takes rows out of their order like that: split time series by "
    "TimeSeriesSplit, or KFold without shuffle."
)


def _warn_of_missing_numbers(index, starts):
    """Warn where numbers of rows that count up leave out many."""
    if index is None or len(index) < 3 or index.dtype.kind not in "iu" or isinstance(index, pd.RangeIndex):
        return
    steps = np.delete(np.diff(index.to_numpy()), [start - 1 for start in starts if start > 0])
    if len(steps) and (steps > 0).all() and (steps > 1).mean() > _MANY:
        n = int((steps > 1).sum())
        warnings.warn(f"X lacks rows in {n} places; its rows are taken as one step apart. {_SHUFFLE}", stacklevel=5)


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
        if len(self._parts) > _FEW_PARTS or (self._ends and self._ends[-1] - self._first > 8 * self._n_kept):
            self._forget()

    def _forget(self):
        """Join what is kept of the parts: of the last one all rows, any of which may be asked for yet."""
        joined = self._parts[0].append(self._parts[1:])
        gone = max(len(joined) - self._n_kept - len(self._parts[-1]), 0)
        self._first, self._parts, self._ends = self._first + gone, [joined[gone:]], self._ends[-1:]

    def hold(self, rows):
        """Remember the times of some of the last rows."""
        self._held |= {row: self[row] for row in rows if row not in self._held}

    def __getitem__(self, row):
        if row in self._held:
            return self._held[row]
        part = bisect_right(self._ends, row)
        return self._parts[part][row - (self._ends[part - 1] if part else self._first)]


_FEW_PARTS = 256


def times_of(X):
    """Times of the rows of a frame, or of the first frame of a dict or list of units; None without any."""
    parts = X.values() if isinstance(X, dict) else X if isinstance(X, list) else [X]
    indexes = (part.index for part in parts if isinstance(part, pd.DataFrame))
    return next((index for index in indexes if isinstance(index, pd.DatetimeIndex)), None)


def has_stopped(index, last, period):
    """Whether a batch begins so long after the row before that what was known of the states there is of no use."""
    if last is None or period is None or not isinstance(index, pd.DatetimeIndex) or len(index) == 0:
        return False
    return index[0] - last > _times(LONG, period)


LONG = 200  # sampling periods


@lru_cache(64)
def _times(factor, period):
    return factor * period


def check_following(index, last, period):
    """Time of the last row of a batch that follows another."""
    if not isinstance(index, pd.DatetimeIndex) or len(index) == 0:
        return last
    if last is not None and index[0] <= last:
        raise ValueError(
            f"The batch starts at {index[0]}, but the stream has been followed up to {last} already. Give "
            "the rows after that, or reset() for another stream."
        )
    if last is not None and period is not None and index[0] - last > _times(1.5, period):
        warnings.warn(
            f"There are no rows between {last} and {index[0]}; the stream goes on as if none had been left "
            "out. Give missing rows as NaN, or reset().",
            stacklevel=3,
        )
    return index[-1]


def position(row, index, default=None):
    """Position of a row that is given as a position or a time; `default` for None."""
    if row is None:
        return default
    if isinstance(row, Integral) and not isinstance(row, bool):
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
