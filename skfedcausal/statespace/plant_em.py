"""Expectation maximisation of a plant on complete data: maximum likelihood by smoothing, a step at a time.

With the same sensors in every row the covariances of filter and smoother are steady, so that a step costs two
linear recurrences over the record and one regression [1]_. The first steps gain the most: a few of them from
the closed-form moments are nearly as good as the maximum, at a cost that is known beforehand.

References
----------
.. [1] Shumway, Stoffer (1982), An approach to time series smoothing and forecasting using the EM algorithm,
       Journal of Time Series Analysis 3(4).
"""

import numpy as np

from .episodes import episodes
from .positive import cap_radius
from .recurrence import driven_recurrence
from .riccati import filtered_covariance, predicted_covariance, stationary_covariance

_RADIUS = 0.999


def expectation_maximisation(s, N, A, Q, starts=(0,), n_steps=20):
    """Climb from a plant towards the likeliest one.

    Parameters
    ----------
    s : ndarray of shape (n_samples, n)
        Centred scores ``h + e`` with ``Cov e = N``.
    N : ndarray of shape (n, n)
        Positive definite.
    A, Q : ndarray of shape (n, n)
        Plant to start from, stable.
    starts : sequence of int
        First row of each episode.
    n_steps : int

    Returns
    -------
    A, Q : ndarray of shape (n, n)
    """
    J = np.linalg.inv(N)
    for _ in range(n_steps):
        A, Q = _step(s @ J, J, A, Q, starts)
    return A, Q


def _step(z, J, A, Q, starts):
    """One step of expectation maximisation, rows taken as if the filter had always run."""
    P = predicted_covariance(A, J, Q)
    Pf = filtered_covariance(P, J)
    G = np.linalg.solve(P, A @ Pf).T  # smoother gain
    spread = stationary_covariance(G, Pf - G @ P @ G.T)
    n = len(A)
    now, before, cross = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n))
    n_pairs = 0
    for start, stop in episodes(starts, len(z)):
        filtered = driven_recurrence(A - Pf @ J @ A, (z[start:stop], Pf))
        h = np.empty_like(filtered)
        h[-1] = filtered[-1]
        h[:-1] = driven_recurrence(G, (filtered[-2::-1], np.eye(n) - G @ A), x0=h[-1])[::-1]
        now += h[1:].T @ h[1:]
        before += h[:-1].T @ h[:-1]
        cross += h[1:].T @ h[:-1]
        n_pairs += stop - start - 1
    now, before, cross = now / n_pairs + spread, before / n_pairs + spread, cross / n_pairs + spread @ G.T
    A = cap_radius(np.linalg.solve(before, cross.T).T, _RADIUS)
    Q = now - A @ cross.T - cross @ A.T + A @ before @ A.T
    return A, (Q + Q.T) / 2
