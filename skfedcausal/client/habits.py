"""Habits of a unit's columns: values that never change, how long others repeat theirs, and stops at which they rest.

Stops are those of valves, full and empty tanks: the end of a sensor's range at which it comes to rest again and again.
"""

from dataclasses import dataclass
from functools import cached_property
from operator import eq

import numpy as np

from ..containers import constant_columns
from ..statespace.episodes import episodes
from .tuning import TUNING

_TOGETHER = 8  # repetitions of all columns at once that coarser logs hardly have
CHANGED, HELD, ALL_HELD = range(3)  # what the three bits of a row say
N_BITS = 3
_VISITS, _ROWS, _APART = 3, 3, 10  # visits, rows of each at least, and rows from one to the next


@dataclass(frozen=True)
class Habits:
    """What the columns of a unit do in nominal operation, to notice what Gaussian models of them cannot.

    constant, values : columns that had one value, and these values
    moving : the other columns; allowed : repetitions of a value that each may have
    step : decimals that matter in each moving column that never repeated, zero for the others
    coarse : repetitions allowed where such a column has just one decimal more
    """

    constant: np.ndarray
    values: np.ndarray
    moving: np.ndarray
    allowed: np.ndarray
    step: np.ndarray
    coarse: np.ndarray

    @classmethod
    def learn(cls, Y, starts, known=()):
        """Habits of nominal measurements, shape (n_samples, n_columns), columns that are `known` left out."""
        looked_at = ~np.isnan(Y).all(axis=0)
        looked_at[list(known)] = False
        same = constant_columns(Y)
        constant, moving = np.flatnonzero(same & looked_at), np.flatnonzero(~same & looked_at)
        values = np.nanmax(Y[:, constant], axis=0) if len(constant) else np.zeros(0)
        longest = _longest(Y[:, moving], starts)
        allowed = TUNING.habits_least + TUNING.habits_margin * longest
        spread = np.array([np.abs(np.diff(y[~np.isnan(y)])).mean() for y in Y[:, moving].T])
        step = np.zeros(len(moving))
        never = (longest < TUNING.habits_least) & (spread > 0)
        step[never] = 10.0 ** np.ceil(np.log10(TUNING.habits_fine * spread[never]))
        rounded = np.round(10 * Y[:, moving[never]] / step[never])
        coarse = allowed.copy()
        coarse[never] += TUNING.habits_margin * _longest(rounded, starts)
        return cls(constant, values, moving, allowed, step, coarse)

    def events(self, Y, starts, before=None):
        """Bits of every row, (n_samples, N_BITS), None where none is set, and where a stream stands after them."""
        if before is not None and len(Y) == 1 and self._is_usual(Y[0], before[0]):
            return None, (Y[0].take(self.moving), self._no_repetition)
        bits = np.zeros((len(Y), N_BITS), dtype=bool)
        if len(self.constant):
            shown = Y[:, self.constant]
            bits[:, CHANGED] = ((shown != self.values) & ~np.isnan(shown)).any(axis=1)
        moving = Y[:, self.moving]
        count = np.zeros(moving.shape, dtype=int)
        for start, stop in episodes(starts, len(Y)):
            last = before if start == 0 and before is not None else ()
            count[start:stop] = _repetitions(moving[start:stop], *last)
        held = count >= self.allowed
        if held.any():
            together = (held & (count >= _TOGETHER)).all(axis=1)
            held &= self._is_fine(moving, self.step) & (self._is_fine(moving, self.step / 10) | (count >= self.coarse))
            bits[:, HELD] = held.any(axis=1)
            bits[:, ALL_HELD] = (held.all(axis=1) | together) & (held.shape[1] > 1)
        after = None if not len(Y) else (moving[-1], count[-1])
        return (bits if bits.any() else None), after

    def _is_usual(self, row, last):
        """Whether no constant has another value and no value is that of the row before."""
        if len(self.constant) and row.take(self.constant).tolist() != self._values:
            return False
        return not any(map(eq, row.take(self.moving).tolist(), last.tolist()))  # of few numbers faster than arrays

    @cached_property
    def _values(self):
        return self.values.tolist()

    @cached_property
    def _no_repetition(self):
        return np.zeros(len(self.moving), dtype=int)

    @staticmethod
    def _is_fine(Y, step):
        """Whether values have decimals beyond these: a record that is logged more coarsely repeats more values."""
        scaled = Y / np.where(step > 0, step, 1.0)
        return (step == 0) | (np.abs(scaled - np.round(scaled)) > 1e-6 * np.maximum(np.abs(scaled), 1.0))


def _longest(Y, starts):
    """Longest repetition in each column of a record. `Y` is (n_samples, n_columns), the result (n_columns,)."""
    longest = np.zeros(Y.shape[1], dtype=int)
    for start, stop in episodes(starts, len(Y)):
        longest = np.maximum(longest, _repetitions(Y[start:stop]).max(axis=0))
    return longest


def _repetitions(Y, last=None, repeated=0):
    """How often the value of each cell came right before it, shape of `Y`, from the row before and its counts."""
    first = np.full((1, Y.shape[1]), np.nan) if last is None else last[None]
    same, rows = np.vstack([first, Y[:-1]])[: len(Y)] == Y, np.arange(1, len(Y) + 1)[:, None]
    begun = np.maximum.accumulate(np.where(same, 0, rows), axis=0)
    return np.where(same, rows - begun + np.where(begun == 0, repeated, 0), 0)


def stops_of(Y):
    """Stops that a record shows.

    Strict, since an answer that is cut off where there is no stop is worse than one that is not: an extreme value is a
    stop where the sensor rests three times, and where values are the denser the nearer they are to it.

    Parameters
    ----------
    Y : ndarray of shape (n_samples, n_sensors)
        Measurements, NaN where missing.

    Returns
    -------
    ndarray of shape (3, n_stops)
        Position of the sensor, -1 for its lowest value and 1 for its highest, value of the stop.
    """
    found = [
        (k, side, side * stop)
        for k in np.flatnonzero(np.isfinite(Y).any(axis=0))
        for side in (TUNING.habits_low, TUNING.habits_high)
        if (stop := _highest(side * Y[:, k])) is not None
    ]
    return np.array(found, dtype=float).reshape(-1, 3).T


def _highest(y):
    """Where the highest values of a series pile up, or None. `y` is (n_samples,)."""
    top, width = np.nanmax(y), TUNING.habits_width * np.nanstd(y)
    at = np.flatnonzero(y >= top - width)
    visits = np.split(at, np.flatnonzero(np.diff(at) > _APART) + 1)
    outer = (y >= top - width / 2).sum()
    below = ((y < top - width) & (y >= top - 2 * width)).sum()
    is_pile = len(at) >= max(TUNING.habits_pile * below, TUNING.habits_share * len(y)) and outer > len(at) - outer
    is_fine = len(np.unique(y[(y < top - width) & (y >= top - TUNING.habits_near * width)])) >= TUNING.habits_values
    is_stop = is_pile and is_fine and sum(len(rows) >= _ROWS for rows in visits) >= _VISITS
    return np.median(y[at]) if is_stop else None


def ends_of(stops, n_sensors):
    """Lowest and highest value of every sensor, (2, n_sensors), infinite where there is no stop."""
    ends = np.repeat([[-np.inf], [np.inf]], n_sensors, axis=1)
    sensors, sides, values = stops
    ends[(sides == TUNING.habits_high).astype(int), sensors.astype(int)] = values
    return ends
