"""Where a model starts for a unit that reports in every k-th row only.

Its scores have no products at lags that are not multiples of k, so nothing follows from their lag covariances
at the rate of the record. At the unit's own rate it is an ordinary unit with ``A^k`` for A, whose model
has a k-th root at the rate of the record. The root is not unique (the unit alone cannot tell A from -A where
k is even): the principal one, which turns least from row to row, is taken.
"""

import numpy as np
from scipy.linalg import fractional_matrix_power

from .episodes import episodes
from .lagcov import TransitionMoments, lag_covariances
from .positive import cap_radius, floor_eigenvalues
from .riccati import stationary_covariance
from .units import fit_units

_MAX_RADIUS = 0.999
_NOISE_FLOOR = 1e-3  # share of the states' variance that is process noise at least


def lag_shares(present, n_lags):
    """Share of products ``s_m[t+l] s_n[t]`` that are there.

    Parameters
    ----------
    present : ndarray of shape (n_samples, n_units)
        One where a unit's score is there.
    n_lags : int

    Returns
    -------
    ndarray of shape (n_lags + 1, n_units, n_units)
        One at lags that the record is too short for.
    """
    T = len(present)
    shares = np.ones((n_lags + 1, *present.shape[1:] * 2))
    for lag in range(min(n_lags, T - 1) + 1):
        shares[lag] = present[lag:].T @ present[: T - lag] / (T - lag)
    return shares


def slow_start(scores, present, N, starts, period, n_lags):
    """Model (A, Q) at the rate of the record of a unit that reports in every `period`-th row.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, p)
        Centred, zero where missing.
    present : ndarray of shape (n_samples,)
    N : ndarray of shape (p, p)
        Covariance of the scores around the states.
    starts : sequence of int
        First row of each episode.
    period, n_lags : int
        Lags of `period` rows each.
    """
    chosen = []
    for start, stop in episodes(starts, len(scores)):
        offset = np.argmax([present[start + k : stop : period].sum() for k in range(period)])
        chosen.append(np.arange(start + offset, stop, period))
    first = np.cumsum([0, *(len(rows) for rows in chosen[:-1])])
    rows = np.concatenate(chosen)
    own = scores[rows]
    mask = np.repeat(present[rows, None], own.shape[1], axis=1)
    sums = lag_covariances(own, range(n_lags + 2), first, mask)
    moments = TransitionMoments.from_sums(sums, own, first)
    fit = fit_units(moments.blocks([slice(0, own.shape[1])]), N[None])
    A = cap_radius(fractional_matrix_power(fit.A[0], 1 / period).real, _MAX_RADIUS)
    states = stationary_covariance(fit.A[0], fit.Q[0])
    Q = floor_eigenvalues(states - A @ states @ A.T, _NOISE_FLOOR * np.trace(states) / len(states))
    return A, Q
