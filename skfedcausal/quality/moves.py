"""What units do that a plant around one level does not: seasons, trends, shifts, modes, wandering, common spikes."""

from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.fft import dct, idct

from ..client.baseline import wander_period
from ..client.moments import common_changes
from ..statespace.episodes import lagged_rows
from ..statespace.lines import found_periods, overtones, season_columns
from .tuning import TUNING

_MOST_ROWS = 10_000  # that movements of levels are looked for in
_CELLS = 2**20  # of a stretch of a long record
_TAILS = {"level": (0.4, np.pi**2 / 2), "line": (0.9, 2 * np.pi**2)}  # P(statistic > x) = a exp(-b x) about
_LAGS = 8


class Move(NamedTuple):
    """A kind of finding with its value and words."""

    kind: str
    value: float
    words: dict


def moves_of(Y, columns=None):
    """Seasons, modes, and movements of the level of some columns of a unit, by default all, and the rows of its spikes.

    Spikes of a long record are what stands out of its pieces.
    """
    series = _standardised(Y if columns is None else Y[:, columns])
    if len(Y) < TUNING.moves_fewest_rows or not series.shape[1]:
        return [], np.zeros(0, dtype=int)
    apart = -(-len(Y) // _MOST_ROWS)  # what moves a level is slow: means of a few rows show it as well
    most = max(_CELLS // series.shape[1], 2 * _MOST_ROWS, apart) // apart * apart
    starts = range(0, len(Y), most)
    law = _spike_law([series[start : start + most // len(starts)] for start in starts])
    rows = law.rows(series)
    return _of_level(_means(np.clip(series, law.low, law.high) if len(rows) else series, apart), apart), rows


def _standardised(Y):
    """Columns that move, of mean zero and unit variance, missing values on the line between those around them."""
    rows, found = np.arange(len(Y)), [np.empty((len(Y), 0))]
    for y in Y.T:
        there = np.flatnonzero(~np.isnan(y))
        series = np.interp(rows, there, y[there]) if len(there) else y
        scale = series.std() if len(there) else 0.0
        if np.isfinite(scale) and scale > 0:
            found.append((series - series.mean()) / scale)
    return np.column_stack(found)


def _means(series, apart):
    """Means of so many rows."""
    return series if apart == 1 else series[: len(series) // apart * apart].reshape(-1, apart, series.shape[1]).mean(1)


def _of_level(series, apart):
    """Seasons, modes and movements of the level of series of which one row stands for so many of the record."""
    found, rows = [], np.arange(len(series), dtype=float)
    level = _level_move(series)
    rest = series if level is None else series - _smooth(series)
    rest = rest[:, rest.std(axis=0) > TUNING.moves_rounding]
    periods = found_periods(rest, rows) if rest.shape[1] else []
    if periods:
        shown = [float(period) * apart for period in periods]
        words = {"periods": " and ".join(f"{period:g}" for period in shown), "list": shown}
        found.append(Move("season", shown[0], words))
        series = _left([season_columns(rows, period, overtones(period)) for period in periods], series, 1e-10)
        level = _level_move(series)
    modes = _modes(series)
    if modes is not None:
        found.append(modes)
    elif level is not None:
        found.append(_told(level, apart))
    return found


def _told(level, apart):
    """A movement of the level in words."""
    if "rows" not in level.words:
        return level
    rows = [row * apart for row in level.words["rows"]]
    shown = ", ".join(map(str, rows[:5])) + (", ..." if len(rows) > 5 else "")
    return level._replace(words={"count": len(rows), "where": shown})


def common_spikes(spikes, n_rows):
    """Pairs of units with spikes in the same rows far more often than by chance, and how many."""
    found = []
    for first, second in combinations(spikes, 2):
        both = len(np.intersect1d(spikes[first], spikes[second]))
        if both >= 3 and both > TUNING.moves_chance * len(spikes[first]) * len(spikes[second]) / n_rows:
            found.append((first, second, both))
    return found


# -- spikes and seasons ----------------------------------------------------------------------------


class _SpikeLaw(NamedTuple):
    """How columns go on from row to row, beyond which they jump, and where they are clipped if some do."""

    weights: np.ndarray
    most: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def rows(self, series):
        """Rows in which some column jumps by far more than it usually does; `before` is the row before the first."""
        rest = series - _design(lagged_rows(series, 1)) @ self.weights
        return np.flatnonzero((np.abs(rest) > self.most).any(axis=1))


def _spike_law(stretches):
    """The law of some pieces of a record."""
    Z, series = _design(np.vstack([lagged_rows(part, 1) for part in stretches])), np.vstack(stretches)
    weights = np.linalg.lstsq(Z, series, rcond=None)[0]
    scale = np.median(np.abs(series - Z @ weights), axis=0) / 0.6745
    middle = np.median(series, axis=0)
    width = 4.0 * np.median(np.abs(series - middle), axis=0) / 0.6745
    return _SpikeLaw(weights, TUNING.moves_spike * np.maximum(scale, 1e-12), middle - width, middle + width)


def _design(before):
    return np.hstack([np.ones((len(before), 1)), before])


def _left(columns, series, rcond=None):
    """What a constant and columns, by least squares, leave of series (n, d)."""
    design = np.column_stack([np.ones(len(series)), *columns])
    return series - design @ np.linalg.lstsq(design, series, rcond=rcond)[0]


def _smooth(series):
    """Slow part of a record, of as many degrees of freedom as catch its movements."""
    waves = dct(series, axis=0)
    waves[max(len(series) // 100, 3) :] = 0.0
    return idct(waves, axis=0)


# -- levels ----------------------------------------------------------------------------------------


def _stationarity(series, around="level"):
    """P-value of the largest statistic of Kwiatkowski, Phillips, Schmidt and Shin of the columns, by Bonferroni."""
    n, d = series.shape
    centred = series - series.mean(axis=0)
    n_lags = int(TUNING.moves_bandwidth * (n / 100) ** 0.25)
    long_run = (centred**2).mean(axis=0)
    for lag in range(1, n_lags + 1):
        long_run = long_run + 2 * (1 - lag / (n_lags + 1)) * (centred[lag:] * centred[:-lag]).sum(axis=0) / n
    statistic = (np.cumsum(centred, axis=0) ** 2).sum(axis=0) / n**2 / np.maximum(long_run, 1e-12)
    share, rate = _TAILS[around]
    return float(min(d * share * np.exp(-rate * statistic.max()), 1.0))


def _level_move(series):
    """A trend, shifts or wandering of a record that does not stay around one level; None for one that does."""
    if np.isfinite(wander_period(series, (0,))):
        return Move("wandering", 0.0, {})
    if _stationarity(series) > TUNING.moves_level:
        return None
    n = len(series)
    if _stationarity(_left([np.linspace(-1, 1, n)], series), "line") > TUNING.moves_level:
        return Move("trend", 0.0, {})
    changes = common_changes(series, (0,))
    paths = [change.path(np.arange(n)) for change in changes]
    if not changes or _stationarity(_left(paths, series)) <= TUNING.moves_level:
        return Move("wandering", 0.0, {})
    return Move("level shift", float(len(changes)), {"rows": [change.start for change in changes]})


def _modes(series):
    """Two levels that a record keeps changing between, None without."""
    axis = np.linalg.eigh(series.T @ series)[1][:, -1]
    score = series @ axis
    slow = np.convolve(score, np.ones(TUNING.moves_smoothed) / TUNING.moves_smoothed, mode="same")
    low, high = np.percentile(slow, [10, 90])
    for _ in range(20):
        up = slow > (low + high) / 2
        if up.all() or not up.any():
            return None
        low, high = slow[~up].mean(), slow[up].mean()
    explained = 1 - np.where(up, slow - high, slow - low).var() / max(slow.var(), 1e-12)
    sure = np.abs(slow - (low + high) / 2) > TUNING.moves_sure * (high - low)
    visits = 1 + int((np.diff(up[sure].astype(int)) != 0).sum())
    if explained < TUNING.moves_two or visits < TUNING.moves_visits or len(slow) / visits < TUNING.moves_dwell:
        return None
    return Move("modes", float(visits), {"count": visits})
