"""Seasons of a record: their columns, periods beside its autoregression, and sharp lines that pay.

A period is found as the line that an autoregression leaves. Seasons that nobody asked for are sharp lines of the
spectrum, each kept where it pays on segments it was not learned from: the innovations that the past of a series leaves
are predicted better with it than without.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.special import chdtrc, stdtrit

from .episodes import lagged_rows
from .tuning import TUNING

_LAGS = 2  # rows of a sensor's own past whose innovations the clock has to predict more of
_BESIDE = (3, 8)  # frequencies on either side that a line is alone among
_TINY = np.finfo(float).tiny


def overtones(period):
    """Overtones of a season, as many as its period in rows resolves."""
    return max(min(int(period / 2), TUNING.lines_most_overtones), 1)


def season_columns(rows, period, n_overtones):
    """Cosines and sines of a period and its overtones in rows, shape (n_rows, 2 n_overtones)."""
    angles = 2 * np.pi / period * rows[:, None] * np.arange(1, n_overtones + 1)
    return np.hstack([np.cos(angles), np.sin(angles)])


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
        return season_columns(rows, self.period, max(1, min(TUNING.lines_overtones, int(self.period / 2))))

    def learned(self, Y, rows):
        """The season of a record, NaN where missing."""
        X = self.columns(rows)
        centre = X.mean(axis=0)
        return Line(self.period, _regression(X - centre, Y), centre)

    def of(self, rows):
        """What it adds to each sensor in each row, (n_rows, n_sensors)."""
        return (self.columns(rows) - self.centre) @ self.effects

    def predicted(self, innovations, rows, kept):
        """What it predicts of innovations (n_rows, n_sensors) in all rows, learned from those that are kept."""
        X = self.columns(rows)
        return X @ _regression(X[kept], innovations[kept])


def without_lines(series, slices, starts):
    """The series less the seasons of each unit that nobody named, which tell of each other as long as they last."""
    rows = np.arange(float(len(series)))
    out = series.copy()
    for own in slices:
        active = np.ones(own.stop - own.start, dtype=bool)
        for line in sharp_lines(series[:, own], rows, starts, active):
            out[:, own] -= line.of(rows)
    return out


def sharp_lines(Y, rows, starts, active):
    """Lines of a record that pay, in the order in which they are taken off; `active` are the columns that vary."""
    found: list[Line] = []
    rest = Y
    while len(found) < TUNING.lines_most_lines and (period := sharp_period(rest[:, active], rows)) is not None:
        term = Line(period)
        if not pays(term, rest[:, active], rows, starts):
            break
        found.append(term.learned(rest, rows))
        rest = rest - found[-1].of(rows)
    return tuple(found)


def pays(term, Y, rows, starts):
    """Whether a term predicts more of the innovations of the unit's own past than it costs, on segments left out."""
    innovations = _innovations(Y, starts)
    if len(innovations) < 4 * TUNING.lines_folds:
        return False
    gains = []
    for fold in np.array_split(np.arange(len(innovations)), TUNING.lines_folds):
        kept = np.ones(len(innovations), dtype=bool)
        kept[fold] = False
        predicted = term.predicted(innovations, rows, kept)[fold]
        gains.append(np.nanmean(np.square(innovations[fold]) - np.square(innovations[fold] - predicted)))
    mean, error = np.mean(gains), np.std(gains, ddof=1) / np.sqrt(TUNING.lines_folds)
    return bool(mean > stdtrit(TUNING.lines_folds - 1, TUNING.lines_level) * error)


def _innovations(Y, starts):
    """What a few rows of its own past leave of each sensor that moves, standardised, NaN where it is missing."""
    series, seen = _standard(Y)
    innovations = np.empty_like(series)
    for k, column in enumerate(series.T):
        X = lagged_rows(column[:, None], _LAGS, starts)
        innovations[:, k] = column - X @ np.linalg.lstsq(X, column, rcond=1e-10)[0]
    innovations[~seen] = np.nan
    size = np.sqrt(np.nanmean(np.square(innovations), axis=0)) if len(innovations) else np.zeros(0)
    there = size > 0
    return innovations[:, there] / size[there]


def _standard(Y):
    """Sensors that move, standardised, zero where they are missing, and where they are there."""
    seen = np.isfinite(Y)
    count = np.maximum(seen.sum(axis=0), 1)
    centred = np.where(seen, Y - np.where(seen, Y, 0.0).sum(axis=0) / count, 0.0)
    scale = np.sqrt(np.square(centred).sum(axis=0) / count)
    moves = scale > 0
    return centred[:, moves] / scale[moves], seen[:, moves]


def _regression(X, Y):
    """Coefficients of every column of Y on X, of the rows in which it is there."""
    out = np.zeros((X.shape[1], Y.shape[1]))
    seen = np.isfinite(Y)
    for k, column in enumerate(Y.T):
        rows = seen[:, k]
        if rows.sum() > X.shape[1]:
            out[:, k] = np.linalg.lstsq(X[rows], column[rows] - column[rows].mean(), rcond=1e-10)[0]
    return out


def sharp_period(Y, rows):
    """Period in rows of a line of the mean spectrum that stands alone above its neighbourhood; None without one."""
    series = _evenly(Y, rows)
    n = len(series)
    power = (np.abs(np.fft.rfft(series * np.hanning(n)[:, None], axis=0)) ** 2).mean(axis=1) if series.size else []
    if len(power) < TUNING.lines_cycles + 2 * TUNING.lines_near:
        return None
    k = TUNING.lines_cycles + np.arange(len(power) - TUNING.lines_cycles - _BESIDE[1])
    around = np.lib.stride_tricks.sliding_window_view(power, _BESIDE[1] - _BESIDE[0] + 1).max(axis=1)
    beside = np.maximum(around[np.maximum(k - _BESIDE[1], 0)], around[k + _BESIDE[0]])
    k = k[power[k] > TUNING.lines_alone * beside]
    ratio = np.array(
        [power[j] / max(np.median(power[max(1, j - TUNING.lines_near) : j + TUNING.lines_near + 1]), _TINY) for j in k]
    )
    if not (ratio > TUNING.lines_sharp).any():
        return None
    sharpest = int(k[ratio.argmax()])
    fine = np.arange(sharpest - 1, sharpest + 1.01, 0.05)
    waves = np.exp(-2j * np.pi * np.outer(fine, np.arange(n)) / n)
    return float(n / fine[int((np.abs(waves @ series) ** 2).sum(axis=1).argmax())])


def _evenly(Y, rows):
    """Standardised sensors at every row number, zero where there is nothing."""
    places = np.round(rows - rows.min()).astype(int) if len(rows) else np.zeros(0, dtype=int)
    series = _standard(Y)[0]
    n = int(places.max()) + 1 if len(places) else 0
    if n == len(places):
        return series
    out = np.zeros((min(n, 4 * len(places)), series.shape[1]))
    inside = places < len(out)
    out[places[inside]] = series[inside]
    return out


def found_periods(Y, rows):
    """Periods in rows, the strongest line first.

    Each sensor is regressed on its last twelve values and a cosine and a sine of each frequency; the score
    statistic of the latter is chi-squared of two degrees where there is no line. The level is divided by the
    number of sensors and frequencies.
    """
    places = np.round(rows - np.floor(rows.min())).astype(int)
    series = np.zeros((places.max() + 1, Y.shape[1]))
    series[places] = np.nan_to_num(Y - np.nanmean(Y, axis=0))
    series = series[:, series.std(axis=0) > 0]
    periods: list[float] = []
    while len(periods) < TUNING.lines_most_periods:
        if (period := _strongest(series)) is None:
            break
        periods.append(period)
        X = season_columns(np.arange(len(series)), period, overtones(period))
        series = series - X @ np.linalg.lstsq(X, series, rcond=1e-10)[0]
    return periods


def _strongest(series):
    """Period of the strongest line that is significant, None without one."""
    n, d = series.shape
    if n <= 4 * TUNING.lines_period_lags:
        return None
    frequencies = np.arange(1, TUNING.lines_finer * n // 2) / (TUNING.lines_finer * n)
    slow = frequencies < TUNING.lines_fewest_periods / n
    statistics = np.array([_scores(column, frequencies) for column in series.T])
    statistics[:, slow] = 0
    j, k = np.unravel_index(statistics.argmax(), statistics.shape)
    if chdtrc(2, statistics[j, k]) * d * n * TUNING.lines_finer / 2 > TUNING.lines_period_level:
        return None
    near = np.linspace(frequencies[k] - 1 / (TUNING.lines_finer * n), frequencies[k] + 1 / (TUNING.lines_finer * n), 41)
    best = _scores(series[:, j], near)
    found, whole = 1 / near[best.argmax()], np.round(1 / near[best.argmax()])
    if _scores(series[:, j], np.array([1 / whole]))[0] > best.max() - TUNING.lines_as_good:
        found = whole
    return float(found)


def _scores(y, frequencies):
    """Score statistic of a line at each frequency beside an autoregression."""
    n = len(y)
    Z = np.column_stack([np.ones(n), lagged_rows(y[:, None], TUNING.lines_period_lags)])[TUNING.lines_period_lags :]
    rest = y[TUNING.lines_period_lags :] - Z @ np.linalg.lstsq(Z, y[TUNING.lines_period_lags :], rcond=None)[0]
    if rest.std() <= TUNING.lines_rounded * np.abs(y).max():
        return np.zeros(len(frequencies))  # the autoregression says all of it, lines and all
    basis = np.linalg.svd(Z, full_matrices=False)[0]
    both = _transform(np.column_stack([rest, basis]), frequencies)
    twice = _transform(np.ones((n - TUNING.lines_period_lags, 1)), 2 * frequencies)[:, 0]
    score = np.stack([both[:, 0].real, both[:, 0].imag], axis=1)
    shared = np.stack([both[:, 1:].real, both[:, 1:].imag], axis=1)
    M, n_rows = np.empty((len(frequencies), 2, 2)), n - TUNING.lines_period_lags
    M[:, 0, 0], M[:, 1, 1] = (n_rows + twice.real) / 2, (n_rows - twice.real) / 2
    M[:, 0, 1] = M[:, 1, 0] = twice.imag / 2
    M -= shared @ np.swapaxes(shared, 1, 2)
    M += 1e-9 * n * np.eye(2)
    statistic = np.einsum("fi,fi->f", score, np.linalg.solve(M, score[..., None])[..., 0])
    return statistic / rest.var()


def _transform(series, frequencies):
    """``sum_t s[t] exp(i 2 pi f t)`` at each frequency, shape (n_frequencies, n_columns)."""
    n, m = len(series), TUNING.lines_finer * (len(series) + TUNING.lines_period_lags)
    places = frequencies * m
    if len(frequencies) > 100 and np.allclose(places, np.round(places)):
        return np.conj(np.fft.fft(series, m, axis=0))[np.round(places).astype(int) % m]
    return np.exp(2j * np.pi * np.outer(frequencies, np.arange(n))) @ series
