"""Runs of several models of lags at once."""

import numpy as np

from ...statespace.matrices import companion, spectral_radius
from .tuning import TUNING

STABLE = 1.005  # radius up to which a plant is a stable one whose levels drift


def run(A, C, moves, history=None, level=0.0):
    """What models make of inputs, from a history on.

    Parameters
    ----------
    A : ndarray of shape (m, p * n, n)
    C : ndarray of shape (m, (b + 1) * q, n)
    moves : ndarray of shape (b + n_steps, s, q)
        Inputs of s runs, `b` rows before the first step first.
    history : ndarray of shape (p, s, n), default=None
        Scores of the rows before; None for zero.
    level : float or ndarray of shape (n,), default=0
        What every row adds.

    Returns
    -------
    ndarray of shape (m, n_steps, s, n)
    """
    m, n = len(A), A.shape[2]
    p, (n_rows, s, q) = A.shape[1] // n, moves.shape
    before = C.shape[1] // q - 1
    found = np.zeros((m, p + n_rows - before, s, n))
    for k in range(before + 1):
        if C[:, k * q : (k + 1) * q].any():
            found[:, p:] += moves[before - k : n_rows - k] @ C[:, None, k * q : (k + 1) * q]
    found[:, p:] += level
    if history is not None:
        found[:, :p] = history
    for t in range(p, found.shape[1]):
        past = found[:, t - p : t][:, ::-1].transpose(0, 2, 1, 3).reshape(m, s, p * n)
        found[:, t] += past @ A
    return found[:, p:]


def run_plants(plants, change):
    """Effects of a change (n_steps, k) one row after each of its rows, (n_steps, n) for every plant.

    Of plants ``(A, B)`` of the same lags, (p, n, n) from 1 on and (b + 1, n, k) from 0 on.
    """
    A, B = (np.array(part).swapaxes(2, 3) for part in zip(*plants, strict=True))
    n, k = A.shape[3], change.shape[1]
    A, B = A.reshape(len(A), -1, n), B.reshape(len(B), -1, n)
    before = np.zeros((B.shape[1] // k - 1, k))
    moves = np.vstack([before, change, np.zeros_like(change[:1])])[:, None]  # what follows the last row is not known
    together = max(TUNING.runs_numbers // (len(moves) * n), 1)
    found = []
    with np.errstate(over="ignore", invalid="ignore"):
        for first in range(0, len(A), together):
            found += list(run(A[first : first + together], B[first : first + together], moves)[:, 1:, 0])
    return found


def settled(A, plant=0.0):
    """Transition matrices (p * n, n) with which every effect ends, or grows as those of a plant that is not stable."""
    p, n = len(A) // A.shape[1], A.shape[1]
    radius, most = radius_of(A.reshape(p, n, n).transpose(0, 2, 1)), plant if plant > STABLE else TUNING.runs_settles
    return A if radius <= most else A * np.repeat((most / radius) ** np.arange(1, p + 1), n)[:, None]


def radius_of(lags):
    """Spectral radius of a plant with transition matrices (p, n, n) of lags 1 to p."""
    return float(spectral_radius(companion(np.hstack(list(lags)), len(lags))))


def rows_until_far(radius):
    """Rows in which an effect of a plant that is not stable grows by the factor e."""
    return max(int(1 / np.log(radius)), 1)
