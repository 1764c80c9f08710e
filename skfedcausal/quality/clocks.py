"""How far apart the clocks of two units are, judged by when their innovations coincide.

Innovations of units that are coupled or hit by one disturbance are correlated at lags of a step or so;
where clocks differ by k steps, at lags of about k. Where no single lag shows anything, a score test collects
the influence on the states from all lags of its response, at the price of a blunter peak.
"""

import warnings
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri
from scipy.stats import chi2, rankdata

from ..client.kalman import KalmanClient
from .tuning import TUNING

NEAR = 2  # lags that couplings and common disturbances explain


class UnitSeries(NamedTuple):
    """White innovations (n_samples, p) of a unit, and states (n_samples, q), None where slow or of means."""

    innovations: np.ndarray
    states: np.ndarray | None


def unit_series(Y, rows=1):
    """Innovations and states of a unit from means over so many rows, None where no model can be found."""
    if not Y.shape[1] or len(Y) < TUNING.clocks_fewest_rows * rows:
        return None
    # the last value for a missing one, the first before that; the check of clocks can afford it
    filled = np.ascontiguousarray(pd.DataFrame(Y).ffill().bfill().fillna(0.0))
    filled, present = _means(filled, rows), _means(~np.isnan(Y), rows) > 0
    moving = (np.diff(filled, axis=0) != 0).sum(axis=0) >= TUNING.clocks_fewest_moves
    if not moving.any() or present.any(axis=1).sum() < TUNING.clocks_fewest_rows:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a blunt model will do
        client = KalmanClient().fit(filled[:, moving])
        h = client.filter(filled[:, moving])
    e = np.zeros_like(h)
    e[1:] = h[1:] - h[:-1] @ client.transition_.T
    known = present.any(axis=1)
    known[0] = False
    e[known] = ndtri((rankdata(e[known], axis=0) - 0.5) / known.sum())  # single upsets count like others
    values, vectors = np.linalg.eigh(e.T @ e / len(e))
    kept = values > 1e-9 * values[-1]
    slowest = np.abs(np.linalg.eigvals(client.transition_)).max()
    states = h - h.mean(axis=0) if slowest < TUNING.clocks_slow and rows == 1 else None
    return UnitSeries(e @ (vectors[:, kept] / np.sqrt(values[kept])), states)


def _means(Y, rows):
    return Y if rows == 1 else Y[: len(Y) // rows * rows].reshape(-1, rows, Y.shape[1]).mean(axis=1)


def evidence_by_lag(e, f, n_lags):
    """Chi-squared (p q) of no correlation at lags -n_lags, ..., n_lags; at positive ones `e` follows."""
    squares = (_cross_covariances(e, f, n_lags) ** 2).sum(axis=(1, 2))
    return _as_usual(squares, len(e), e.shape[1] * f.shape[1])


def score_by_lag(effect, cause, n_lags):
    """Score test of no influence of one unit's states on another, by lag as in :func:`evidence_by_lag`.

    An influence on a slow state, which no single lag shows, adds up over its response.
    """
    e, own, other = effect.innovations[1:], effect.states[:-1], cause.states[:-1]
    moments, shared = _cross_covariances(e, other, n_lags), _cross_covariances(own, other, n_lags)
    own_cov, cov = own.T @ own / len(own), other.T @ other / len(other)
    explained = np.linalg.lstsq(own_cov, own.T @ e / len(e), rcond=None)[0]
    moments = moments - explained.T @ shared
    beside = shared.transpose(1, 0, 2)  # one solution for the matrices of all lags beside each other
    solved = np.linalg.lstsq(own_cov, beside.reshape(len(own_cov), -1), rcond=None)[0].reshape(beside.shape)
    left = cov - np.swapaxes(shared, 1, 2) @ solved.transpose(1, 0, 2)
    values, vectors = np.linalg.eigh(left)
    rotated = moments @ vectors
    enough = values > TUNING.clocks_left * np.trace(cov) / len(cov)
    squares = np.where(enough[:, None, :], rotated**2 / np.where(enough, values, 1.0)[:, None, :], 0.0)
    return _as_usual(squares.sum(axis=(1, 2)), len(e), e.shape[1] * other.shape[1])


def _cross_covariances(x, y, n_lags):
    """Mean of x(t) y(t - k)' at lags -n_lags, ..., n_lags."""
    n = len(x)
    size = next_fast_len(n + n_lags + 1)
    spectra = rfft(x, size, axis=0)[:, :, None] * rfft(y, size, axis=0)[:, None, :].conj()
    lags = np.arange(-n_lags, n_lags + 1)
    return irfft(spectra, size, axis=0)[lags] / (n - np.abs(lags))[:, None, None]


def _as_usual(squares, n, degrees):
    """Statistic of sums of squares by lag over `n` rows, scaled down where its median is above chi-squared's."""
    statistic = (n - np.abs(np.arange(len(squares)) - len(squares) // 2)) * squares
    return statistic / max(np.median(statistic) / _median(degrees), 1.0)


@lru_cache
def _median(degrees):
    return float(chi2.median(degrees))


class Tie(NamedTuple):
    """How far one unit's clock is ahead of another's: `offset` steps, give or take `slack`."""

    offset: int
    slack: int
    strength: float


def pair_tie(first, second, n_lags):
    """Tie of the first unit's clock to the second's, None where nothing clear ties them."""
    e, f = first.innovations, second.innovations
    degrees = e.shape[1] * f.shape[1]
    S = evidence_by_lag(e, f, n_lags)
    lags = np.arange(-n_lags, n_lags + 1)
    near = np.abs(lags) <= NEAR
    excess = np.maximum(S - degrees, 0.0)
    top = int(np.argmax(S))
    if (
        S[near].max() > chi2.isf(TUNING.clocks_level / near.sum(), degrees)
        and excess[near].max() >= TUNING.clocks_keeps * excess[top]
    ):
        return Tie(0, NEAR, float(excess[near].max()))
    if S[top] <= chi2.isf(TUNING.clocks_level / len(S), degrees):
        slow = first.states is None or second.states is None
        return None if slow else _tie_of_states(first, second, n_lags)
    if near[top] or abs(lags[top]) == n_lags:  # the peak may lie beyond
        return None
    spread = np.abs(lags[excess > 0.5 * excess[top]] - lags[top]).max()
    elsewhere = np.abs(lags - lags[top]) > max(spread, TUNING.clocks_width)
    if spread > TUNING.clocks_widest or excess[elsewhere].max(initial=0) > 0.5 * excess[top]:
        return None
    lag = int(lags[top])  # one that may well be zero is as uncertain as it is large
    slack = NEAR + 1 if _begins_away_from_zero(S, lags, top, excess, degrees) else abs(lag)
    return Tie(lag, slack, float(excess[top]))


def _tie_of_states(first, second, n_lags):
    """The same from the score tests of both directions, where no single lag shows anything."""
    lags = np.arange(-n_lags, n_lags + 1)
    near = np.abs(lags) <= NEAR
    scores = (
        (score_by_lag(first, second, n_lags), first.innovations.shape[1] * second.states.shape[1]),
        (score_by_lag(second, first, n_lags)[::-1], second.innovations.shape[1] * first.states.shape[1]),
    )
    S, degrees = min(scores, key=lambda score: chi2.logsf(score[0].max(), score[1]))
    excess = np.maximum(S - degrees, 0.0)
    top = int(np.argmax(S))
    if S[top] <= chi2.isf(TUNING.clocks_level / (2 * len(S)), degrees):
        return None
    wide = lags[excess > 0.5 * excess[top]]
    if excess[near].max() >= TUNING.clocks_keeps * excess[top]:
        return Tie(0, 2 * NEAR, TUNING.clocks_faint * float(excess[near].max()))
    if (
        np.ptp(wide) > TUNING.clocks_widest
        or abs(lags[top]) == n_lags
        or excess[near].max() > TUNING.clocks_remains * excess[top]
    ):
        return None
    return Tie(int(lags[top]), 2 * NEAR, TUNING.clocks_faint * float(excess[top]))


def _begins_away_from_zero(S, lags, top, excess, degrees):
    """Whether a response with its peak at position `top` cannot begin within two steps.

    Responses begin sharply and die out slowly: a sharp edge away from zero is an offset, on either side.
    """
    near = np.abs(lags) <= NEAR
    least = max(chi2.isf(TUNING.clocks_pointwise, degrees), degrees + TUNING.clocks_foot * excess[top])
    outward = int(np.sign(lags[top]))
    rise, fall = (_reach(S, top, step, least) for step in (-outward, outward))
    onset = abs(lags[top]) - rise
    little_near = excess[near].max() <= TUNING.clocks_remains * excess[top]
    nothing_near = S[near].max() <= chi2.isf(TUNING.clocks_level / near.sum(), degrees)
    if rise <= NEAR and nothing_near:
        return True
    if rise <= NEAR or onset > TUNING.clocks_gradual:
        return onset > NEAR and (little_near or nothing_near)
    return fall <= NEAR and little_near and abs(lags[top]) > 2 * NEAR


def _reach(S, top, step, least):
    """Lags from the peak over which the evidence stays above a level, in one direction."""
    side = S[top::step]
    below = np.flatnonzero(side <= least)
    return int(below[0]) - 1 if len(below) else len(side)
