"""Periods in a unit's own record: lines that its autoregression leaves."""

import numpy as np
from scipy.special import chdtrc

from ..statespace.episodes import lagged_rows
from ..statespace.seasons import overtones, season_columns

_LEVEL = 1e-3  # chance of a period in a record without one
_MOST_PERIODS = 4
_LAGS = 12
_FINER = 4  # frequencies between two of the Fourier transform
_FEWEST_PERIODS = 3  # in the record: what is slower is a trend
_ROUNDED = 1e-12  # of the largest value, what an autoregression leaves by rounding
_AS_GOOD = 4.0  # less of the statistic at which a period of whole rows is taken as well


def found_periods(Y, rows):
    """Periods in rows, the strongest line first.

    Each sensor is regressed on its last twelve values and a cosine and a sine of each frequency; the score
    statistic of the latter is chi-squared of two degrees where there is no line. The level is divided by the
    number of sensors and frequencies.
    """
    first = np.floor(rows.min())
    places = np.round(rows - first).astype(int)
    series = np.zeros((places.max() + 1, Y.shape[1]))
    series[places] = np.nan_to_num(Y - np.nanmean(Y, axis=0))
    series = series[:, series.std(axis=0) > 0]
    periods: list[float] = []
    while len(periods) < _MOST_PERIODS:
        period = _strongest(series)
        if period is None:
            break
        periods.append(period)
        X = season_columns(np.arange(len(series)), period, overtones(period))
        series = series - X @ np.linalg.lstsq(X, series, rcond=1e-10)[0]
    return periods


def _strongest(series):
    """Period of the strongest line that is significant, None without one."""
    n, d = series.shape
    if n <= 4 * _LAGS:
        return None
    frequencies = np.arange(1, _FINER * n // 2) / (_FINER * n)
    slow = frequencies < _FEWEST_PERIODS / n
    statistics = np.array([_scores(column, frequencies) for column in series.T])
    statistics[:, slow] = 0
    j, k = np.unravel_index(statistics.argmax(), statistics.shape)
    if chdtrc(2, statistics[j, k]) * d * n * _FINER / 2 > _LEVEL:
        return None
    near = np.linspace(frequencies[k] - 1 / (_FINER * n), frequencies[k] + 1 / (_FINER * n), 41)
    best = _scores(series[:, j], near)
    found, whole = 1 / near[best.argmax()], np.round(1 / near[best.argmax()])
    if _scores(series[:, j], np.array([1 / whole]))[0] > best.max() - _AS_GOOD:
        found = whole
    return float(found)


def _scores(y, frequencies):
    """Score statistic of a line at each frequency beside an autoregression."""
    n = len(y)
    Z = np.column_stack([np.ones(n), lagged_rows(y[:, None], _LAGS)])[_LAGS:]
    rest = y[_LAGS:] - Z @ np.linalg.lstsq(Z, y[_LAGS:], rcond=None)[0]
    if rest.std() <= _ROUNDED * np.abs(y).max():
        return np.zeros(len(frequencies))  # the autoregression says all of it, lines and all
    basis = np.linalg.svd(Z, full_matrices=False)[0]
    both = _transform(np.column_stack([rest, basis]), frequencies)
    twice = _transform(np.ones((n - _LAGS, 1)), 2 * frequencies)[:, 0]
    score = np.stack([both[:, 0].real, both[:, 0].imag], axis=1)
    shared = np.stack([both[:, 1:].real, both[:, 1:].imag], axis=1)
    M = np.empty((len(frequencies), 2, 2))
    M[:, 0, 0], M[:, 1, 1] = (n - _LAGS + twice.real) / 2, (n - _LAGS - twice.real) / 2
    M[:, 0, 1] = M[:, 1, 0] = twice.imag / 2
    M -= shared @ np.swapaxes(shared, 1, 2)
    M += 1e-9 * n * np.eye(2)
    statistic = np.einsum("fi,fi->f", score, np.linalg.solve(M, score[..., None])[..., 0])
    return statistic / rest.var()


def _transform(series, frequencies):
    """``sum_t s[t] exp(i 2 pi f t)`` at each frequency, shape (n_frequencies, n_columns)."""
    n, m = len(series), _FINER * (len(series) + _LAGS)
    places = frequencies * m
    if len(frequencies) > 100 and np.allclose(places, np.round(places)):
        whole = np.conj(np.fft.fft(series, m, axis=0))
        return whole[np.round(places).astype(int) % m]
    return np.exp(2j * np.pi * np.outer(frequencies, np.arange(n))) @ series
