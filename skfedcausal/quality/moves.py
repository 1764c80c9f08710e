"""What units do that a plant around one level does not: seasons, trends, shifts, modes, wandering, common spikes."""

from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.fft import dct, idct

from ..client.baseline import wander_period
from ..client.shifts import common_changes
from ..statespace.episodes import lagged_rows
from ..statespace.lines import found_periods, overtones, season_columns

_LEVEL = 1e-3  # chance of any finding of a kind in a unit that stays where it is
_FEWEST_ROWS = 300
_MOST_ROWS = 10_000  # that movements of levels are looked for in
_BANDWIDTH = 12.0  # lags of the long-run variance of 100 rows
_TAILS = {"level": (0.4, np.pi**2 / 2), "line": (0.9, 2 * np.pi**2)}  # P(statistic > x) = a exp(-b x) about
_SMOOTHED = 15  # rows over which scores are averaged before modes are looked for
_TWO = 0.8  # share of the variance that two levels explain; of a normal distribution it is 0.64
_VISITS = 4  # to modes, fewer are shifts
_SURE = 0.25  # of the distance of two levels, from their middle, at which a row is in one of them
_DWELL = 20  # rows in a mode on average
_SPIKE = 8.0  # robust deviations
_LAGS = 8
_ROUNDING = 0.02  # of a column's deviation: what a smooth curve leaves of another is no season
_CHANCE = 5  # times as many common spikes as chance would give


class Move(NamedTuple):
    """A kind of finding with its value and words."""

    kind: str
    value: float
    words: dict


def moves_of(Y):
    """Seasons, modes, and movements of the level of a unit's measured columns, and the rows of its spikes."""
    if len(Y) < _FEWEST_ROWS or not Y.shape[1]:
        return [], np.zeros(0, dtype=int)
    filled = pd.DataFrame(Y).interpolate(limit_direction="both").to_numpy()
    filled = filled[:, np.isfinite(filled).all(axis=0) & (filled.std(axis=0) > 0)]
    if not filled.shape[1]:
        return [], np.zeros(0, dtype=int)
    series = (filled - filled.mean(axis=0)) / filled.std(axis=0)
    spikes, series = _without_spikes(series)
    apart = -(-len(series) // _MOST_ROWS)
    if apart > 1:  # what moves a level is slow: means of a few rows show it as well
        series = series[: len(series) // apart * apart].reshape(-1, apart, series.shape[1]).mean(axis=1)
    return _of_level(series, apart), spikes


def _of_level(series, apart):
    """Seasons, modes and movements of the level of series of which one row stands for so many of the record."""
    found, rows = [], np.arange(len(series), dtype=float)
    level = _level_move(series)
    rest = series if level is None else series - _smooth(series)
    rest = rest[:, rest.std(axis=0) > _ROUNDING]
    periods = found_periods(rest, rows) if rest.shape[1] else []
    if periods:
        shown = [float(period) * apart for period in periods]
        words = {"periods": " and ".join(f"{period:g}" for period in shown), "list": shown}
        found.append(Move("season", shown[0], words))
        series = _without_seasons(series, periods)
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
        if both >= 3 and both > _CHANCE * len(spikes[first]) * len(spikes[second]) / n_rows:
            found.append((first, second, both))
    return found


# -- spikes and seasons ----------------------------------------------------------------------------


def _without_spikes(series):
    """Rows in which some column jumps by far more than it usually does, and the columns clipped there."""
    n = len(series)
    Z = np.hstack([np.ones((n, 1)), lagged_rows(series, 1)])
    rest = series - Z @ np.linalg.lstsq(Z, series, rcond=None)[0]
    scale = np.median(np.abs(rest), axis=0) / 0.6745
    large = np.abs(rest) > _SPIKE * np.maximum(scale, 1e-12)
    rows = np.flatnonzero(large.any(axis=1))
    if not len(rows):
        return rows, series
    middle = np.median(series, axis=0)
    width = 4.0 * np.median(np.abs(series - middle), axis=0) / 0.6745
    return rows, np.clip(series, middle - width, middle + width)


def _without_seasons(series, periods):
    rows = np.arange(len(series))
    seasons = [season_columns(rows, period, overtones(period)) for period in periods]
    design = np.hstack([np.ones((len(series), 1)), *seasons])
    return series - design @ np.linalg.lstsq(design, series, rcond=1e-10)[0]


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
    n_lags = int(_BANDWIDTH * (n / 100) ** 0.25)
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
    if _stationarity(series) > _LEVEL:
        return None
    n = len(series)
    line = np.column_stack([np.ones(n), np.linspace(-1, 1, n)])
    if _stationarity(series - line @ np.linalg.lstsq(line, series, rcond=None)[0], "line") > _LEVEL:
        return Move("trend", 0.0, {})
    changes = common_changes(series, (0,))
    paths = np.column_stack([np.ones(n), *(change.path(np.arange(n)) for change in changes)])
    if not changes or _stationarity(series - paths @ np.linalg.lstsq(paths, series, rcond=None)[0]) <= _LEVEL:
        return Move("wandering", 0.0, {})
    return Move("level shift", float(len(changes)), {"rows": [change.start for change in changes]})


def _modes(series):
    """Two levels that a record keeps changing between, None without."""
    axis = np.linalg.eigh(series.T @ series)[1][:, -1]
    score = series @ axis
    slow = np.convolve(score, np.ones(_SMOOTHED) / _SMOOTHED, mode="same")
    low, high = np.percentile(slow, [10, 90])
    for _ in range(20):
        up = slow > (low + high) / 2
        if up.all() or not up.any():
            return None
        low, high = slow[~up].mean(), slow[up].mean()
    explained = 1 - np.where(up, slow - high, slow - low).var() / max(slow.var(), 1e-12)
    sure = np.abs(slow - (low + high) / 2) > _SURE * (high - low)
    visits = 1 + int((np.diff(up[sure].astype(int)) != 0).sum())
    if explained < _TWO or visits < _VISITS or len(slow) / visits < _DWELL:
        return None
    return Move("modes", float(visits), {"count": visits})
