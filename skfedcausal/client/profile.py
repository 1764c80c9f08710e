"""What the clock alone tells of a unit: a profile by time of day and kind of day, the year, and seasons nobody named.

Each is kept only where it pays on stretches that it was not learned from: the news that the unit's own past leaves is
predicted better with it than without.
"""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from ..statespace.episodes import lagged_rows
from ..statespace.seasons import season_columns

_DAY = pd.Timedelta(days=1)
_YEAR = pd.Timedelta(days=365.25)
_BIN = pd.Timedelta(minutes=15)  # of a profile, where rows come faster
_FEWEST_DAYS = 5
_FEWEST_WEEKS = 2  # from which on a weekend has a profile of its own
_FEWEST_YEARS = 2
_OVERTONES = 4
_LAGS = 2  # rows of a sensor's own past whose news the clock has to tell more of
_FOLDS = 10
_LEVEL = 0.995  # of the gain on stretches left out, one-sided
_MOST_LINES = 3
_SHARP = 20.0  # power of a line over the median of its neighbourhood, and
_ALONE = 10.0  # over the largest power beside it
_BESIDE = (3, 8)  # frequencies on either side that a line is alone among
_NEAR = 40  # frequencies of the neighbourhood on either side
_TINY = np.finfo(float).tiny
_CYCLES = 8  # of a season in the record, at least


@dataclass(frozen=True, eq=False)
class DayProfile:
    """Level of each sensor by time of day, apart on weekends where there were enough of them."""

    origin: pd.Timestamp
    step: pd.Timedelta
    n_bins: int
    has_weekends: bool
    levels: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # (n_groups, n_sensors)

    @property
    def name(self):
        """What it is in words."""
        return "profile by time of day" + (" and weekend" if self.has_weekends else "")

    def groups(self, rows):
        """Group of each row, by its number."""
        since = np.round(np.asarray(rows, dtype=float) * (self.step / pd.Timedelta(1, "ns")))
        times = self.origin + pd.to_timedelta(since.astype("int64"), unit="ns")
        share = (times - times.normalize()) / _DAY
        groups = np.minimum((np.asarray(share) * self.n_bins + 1e-6).astype(int), self.n_bins - 1)
        return groups + self.n_bins * (self.has_weekends * (np.asarray(times.day_of_week) >= 5))

    def learned(self, Y, rows):
        """The profile of a record, NaN where missing; a group without rows keeps the mean."""
        groups = self.groups(rows)
        levels = _group_means(Y, groups, self.n_bins * (1 + self.has_weekends))
        return DayProfile(self.origin, self.step, self.n_bins, self.has_weekends, levels)

    def of(self, rows):
        """Level of each sensor in each row, (n_rows, n_sensors)."""
        return self.levels[self.groups(rows)]

    def told(self, news, rows, kept):
        """What it tells of news in all rows, learned from those that are kept."""
        groups = self.groups(rows)
        return _group_means(news[kept], groups[kept], self.n_bins * (1 + self.has_weekends))[groups]


@dataclass(frozen=True, eq=False)
class Line:
    """A season of so many rows with a few overtones."""

    period: float
    effects: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # (n_columns, n_sensors)
    centre: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @property
    def name(self):
        """What it is in words."""
        return f"season of {self.period:.4g} rows"

    def columns(self, rows):
        """Cosines and sines."""
        return season_columns(rows, self.period, max(1, min(_OVERTONES, int(self.period / 2))))

    def learned(self, Y, rows):
        """The season of a record, NaN where missing."""
        X = self.columns(rows)
        centre = X.mean(axis=0)
        return Line(self.period, _regression(X - centre, Y), centre)

    def of(self, rows):
        """What it adds to each sensor in each row, (n_rows, n_sensors)."""
        return (self.columns(rows) - self.centre) @ self.effects

    def told(self, news, rows, kept):
        """What it tells of news in all rows, learned from those that are kept."""
        X = self.columns(rows)
        return X @ _regression(X[kept], news[kept])


def learned_profile(Y, clock, rows, starts, active):
    """Terms of a record that pay, in the order in which they are taken off; `active` are the columns that vary."""
    found = []
    rest = Y
    for term in _of_the_calendar(clock, rows):
        if _pays(term, rest[:, active], rows, starts):
            found.append(term.learned(rest, rows))
            rest = rest - found[-1].of(rows)
    while len(found) < _MOST_LINES and (period := sharp_period(rest[:, active], rows)) is not None:
        term = Line(period)
        if not _pays(term, rest[:, active], rows, starts):
            break
        found.append(term.learned(rest, rows))
        rest = rest - found[-1].of(rows)
    return tuple(found)


def _of_the_calendar(clock, rows):
    """What the times of the rows may tell: nothing without times."""
    if not isinstance(clock.origin, pd.Timestamp) or clock.step <= pd.Timedelta(0):
        return
    length = (rows.max() - rows.min() + 1) * clock.step
    if clock.step < _DAY and length >= _FEWEST_DAYS * _DAY:
        n_bins = max(2, int(_DAY / max(clock.step, _BIN)))
        yield DayProfile(clock.origin, clock.step, n_bins, bool(length >= 7 * _FEWEST_WEEKS * _DAY))
    if clock.step >= _DAY and length >= _FEWEST_YEARS * _YEAR:
        yield Line(_YEAR / clock.step)


def _pays(term, Y, rows, starts):
    """Whether a term tells more of the news of the unit's own past than it costs, on stretches left out in turn."""
    news, at = _news(Y, starts)
    if len(news) < 4 * _FOLDS:
        return False
    gains = []
    for fold in np.array_split(np.arange(len(news)), _FOLDS):
        kept = np.ones(len(news), dtype=bool)
        kept[fold] = False
        told = term.told(news, rows[at], kept)[fold]
        gains.append(np.nanmean(np.square(news[fold]) - np.square(news[fold] - told)))
    mean, error = np.mean(gains), np.std(gains, ddof=1) / np.sqrt(_FOLDS)
    return bool(mean > stdtrit(_FOLDS - 1, _LEVEL) * error)


def _news(Y, starts):
    """What a few rows of its own past leave of each sensor, standardised, and the numbers of the rows."""
    seen = np.isfinite(Y)
    count = np.maximum(seen.sum(axis=0), 1)
    centred = np.where(seen, Y - np.where(seen, Y, 0.0).sum(axis=0) / count, 0.0)
    scale = np.sqrt(np.square(centred).sum(axis=0) / count)
    centred = centred[:, scale > 0] / scale[scale > 0]
    news = np.empty_like(centred)
    for k, column in enumerate(centred.T):
        X = lagged_rows(column[:, None], _LAGS, starts)
        news[:, k] = column - X @ np.linalg.lstsq(X, column, rcond=1e-10)[0]
    news[~seen[:, scale > 0]] = np.nan
    size = np.sqrt(np.nanmean(np.square(news), axis=0)) if len(news) else np.zeros(0)
    there = size > 0
    return news[:, there] / size[there], np.arange(len(Y))


def _group_means(Y, groups, n_groups):
    """Mean of each column by group less the mean of all rows, zero where a group has none, (n_groups, k)."""
    seen = np.isfinite(Y)
    values = np.where(seen, Y, 0.0)
    out = np.empty((n_groups, Y.shape[1]))
    for k in range(Y.shape[1]):
        count = np.bincount(groups, seen[:, k], n_groups)
        total = np.bincount(groups, values[:, k], n_groups)
        mean = total.sum() / max(count.sum(), 1)
        out[:, k] = np.where(count > 0, total / np.maximum(count, 1) - mean, 0.0)
    return out


def _regression(X, Y):
    """Coefficients of every column of Y on X, of the rows in which it is there."""
    out = np.zeros((X.shape[1], Y.shape[1]))
    seen = np.isfinite(Y)
    for k, column in enumerate(Y.T):
        rows = seen[:, k]
        if rows.sum() > X.shape[1]:
            side = column[rows] - column[rows].mean()
            out[:, k] = np.linalg.lstsq(X[rows], side, rcond=1e-10)[0]
    return out


def sharp_period(Y, rows):
    """Period in rows of a line of the mean spectrum that stands alone above its neighbourhood; None without one."""
    series = _evenly(Y, rows)
    n = len(series)
    power = (np.abs(np.fft.rfft(series * np.hanning(n)[:, None], axis=0)) ** 2).mean(axis=1) if series.size else []
    if len(power) < _CYCLES + 2 * _NEAR:
        return None
    k = _CYCLES + np.arange(len(power) - _CYCLES - _BESIDE[1])
    around = np.lib.stride_tricks.sliding_window_view(power, _BESIDE[1] - _BESIDE[0] + 1).max(axis=1)
    beside = np.maximum(around[np.maximum(k - _BESIDE[1], 0)], around[k + _BESIDE[0]])
    k = k[power[k] > _ALONE * beside]
    ratio = np.array([power[j] / max(np.median(power[max(1, j - _NEAR) : j + _NEAR + 1]), _TINY) for j in k])
    if not (ratio > _SHARP).any():
        return None
    k = int(k[ratio.argmax()])
    fine = np.arange(k - 1, k + 1.01, 0.05)
    waves = np.exp(-2j * np.pi * np.outer(fine, np.arange(n)) / n)
    return float(n / fine[int((np.abs(waves @ series) ** 2).sum(axis=1).argmax())])


def _evenly(Y, rows):
    """Standardised sensors at every row number, zero where there is nothing."""
    places = np.round(rows - rows.min()).astype(int) if len(rows) else np.zeros(0, dtype=int)
    seen = np.isfinite(Y)
    count = np.maximum(seen.sum(axis=0), 1)
    centred = np.where(seen, Y - np.where(seen, Y, 0.0).sum(axis=0) / count, 0.0)
    scale = np.sqrt(np.square(centred).sum(axis=0) / count)
    centred = centred[:, scale > 0] / scale[scale > 0]
    n = int(places.max()) + 1 if len(places) else 0
    if n == len(places):
        return centred
    out = np.zeros((min(n, 4 * len(places)), centred.shape[1]))
    inside = places < len(out)
    out[places[inside]] = centred[inside]
    return out
