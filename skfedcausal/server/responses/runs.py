"""Runs of several models of lags at once."""

import numpy as np
from scipy import linalg

_SETTLES = 0.999  # most that a model may keep of an effect from row to row
_LARGE, _ITERATIONS = 150, 60


def run(A, C, moves, history=None, level=0.0):
    """What models make of inputs, from a history on.

    Parameters
    ----------
    A : ndarray of shape (m, p * n, n)
    C : ndarray of shape (m, (p + 1) * q, n)
    moves : ndarray of shape (p + n_steps, s, q)
        Inputs of s runs, `p` rows before the first step first.
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
    found = np.zeros((m, n_rows, s, n))
    for k in range(p + 1):
        if C[:, k * q : (k + 1) * q].any():
            found[:, p:] += moves[p - k : n_rows - k] @ C[:, None, k * q : (k + 1) * q]
    found[:, p:] += level
    if history is not None:
        found[:, :p] = history
    for t in range(p, n_rows):
        past = found[:, t - p : t][:, ::-1].transpose(0, 2, 1, 3).reshape(m, s, p * n)
        found[:, t] += past @ A
    return found[:, p:]


def settled(A):
    """Transition matrices (p * n, n) with which every effect ends, and the radius that they had."""
    p, n = len(A) // A.shape[1], A.shape[1]
    companion = np.vstack([np.hstack([block.T for block in A.reshape(p, n, n)]), np.eye(n * (p - 1), n * p)])
    radius = np.abs(linalg.eigvals(companion)).max() if len(companion) <= _LARGE else _largest(companion)
    if radius <= _SETTLES:
        return A, radius
    return A * np.repeat((_SETTLES / radius) ** np.arange(1, p + 1), n)[:, None], radius


def _largest(matrix):
    """Absolute value of the largest eigenvalue, by powers."""
    x = np.random.default_rng(0).normal(size=(len(matrix), 4))
    growth = []
    for _ in range(_ITERATIONS):
        x = matrix @ x
        growth.append(np.linalg.norm(x))
        if not growth[-1]:
            return 0.0
        x /= growth[-1]
    return float(np.exp(np.log(growth[_ITERATIONS // 2 :]).mean()))
