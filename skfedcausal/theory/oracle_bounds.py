"""What the first paper says about the distance to a central Kalman filter, computed beside what is so.

The paper's bounds rest on ``E |r| = 0`` for residuals of which only ``E r = 0`` holds (its proof of Theorem
6.1), and a triangle inequality pulled apart as if ``|sum_n A_mn delta_n|`` bounded ``sum_n |A_mn| delta_n``
(Theorem 6.3). So they are reported, in the printed and in the repaired form, next to the measured errors.
"""

from itertools import combinations

import numpy as np
from scipy.linalg import solve_discrete_lyapunov


def oracle_gaps(A, learned, partition, oracle_filtered, unit_filtered, augmented=None):
    """Proposition 6.2, Theorem 6.3 and Corollary 6.4 for every unit.

    Parameters
    ----------
    A, learned : ndarray of shape (n, n)
        True and learned transition matrix.
    partition : Partition
    oracle_filtered, unit_filtered : ndarray of shape (n_samples, n)
        Filtered states of a central filter with the true matrix and of the units' own filters.
    augmented : ndarray of shape (n_samples, n), default=None
        Augmented predictions ``h_a``; rows for which none exists are left out by the caller.

    Returns
    -------
    list of dict
        Per unit: ``delta``, mean distance of its own to the oracle's filtered states (Proposition 6.2);
        ``coupling``, mean norm of ``sum_n (learned - A)_mn h_n`` (left side of Theorem 6.3); ``bound``,
        ``|A_mm| delta_m + sum_n |learned_mn| delta_n``; ``printed_bound``, with the norm of the sum as
        printed; ``error``, Frobenius norm of ``sum_n (learned - A)_mn`` and ``error_bound``, `printed_bound`
        over the smallest mean norm of another unit's states (Corollary 6.4; both NaN where units differ in
        size); ``prediction_gap``, mean distance of `augmented` to the oracle's prediction (Theorem 6.1 says
        zero).
    """
    slices = partition.slices
    distance = oracle_filtered - unit_filtered
    delta = np.array([np.linalg.norm(distance[:, rows], axis=1).mean() for rows in slices])
    size = np.array([np.linalg.norm(oracle_filtered[:, rows], axis=1).mean() for rows in slices])
    same = len(set(partition.sizes)) == 1
    predicted = oracle_filtered @ A.T
    out = []
    for m, rows in enumerate(slices):
        others = [n for n in range(len(slices)) if n != m]
        wrong = (learned - A)[rows].copy()
        wrong[:, rows] = 0.0
        own = np.linalg.norm(A[rows, rows], 2) * delta[m]
        figures = {
            "delta": float(delta[m]),
            "coupling": float(np.linalg.norm(oracle_filtered @ wrong.T, axis=1).mean()),
            "bound": float(own + sum(np.linalg.norm(learned[rows, slices[n]], 2) * delta[n] for n in others)),
            **dict.fromkeys(("printed_bound", "error", "error_bound", "prediction_gap"), np.nan),
        }
        if same and others:
            weighted = sum(learned[rows, slices[n]] * delta[n] for n in others)
            figures["printed_bound"] = float(own + np.linalg.norm(weighted, 2))
            figures["error"] = float(np.linalg.norm(sum(wrong[:, slices[n]] for n in others)))
            figures["error_bound"] = figures["printed_bound"] / float(size[others].min())
        if augmented is not None:
            gap = augmented[1:, rows] - predicted[:-1, rows]
            figures["prediction_gap"] = float(np.linalg.norm(gap, axis=1).mean())
        out.append(figures)
    return out


def filter_radius(A, C, gain):
    """``rho(A - A K C)``: the condition below one of Proposition 6.2 and Theorem 6.3 on a unit's filter."""
    return float(np.abs(np.linalg.eigvals(A - A @ gain @ C)).max())


def unit_dependence(A, Q, partition):
    """Theorem A.14: in the steady state, units' states are neither identically distributed nor independent.

    From the Lyapunov equation ``S = A S A' + Q``; the paper's eq. 71 to 73 leave out the terms in ``S_12``
    and put one in q too many.

    Parameters
    ----------
    A, Q : ndarray of shape (n, n)
    partition : Partition

    Returns
    -------
    list of dict
        Per pair ``first < second``: ``covariance_difference``, Frobenius norm of the difference of the units'
        covariances (NaN where their sizes differ), and ``cross_covariance``, Frobenius norm.
    """
    S = solve_discrete_lyapunov(A, Q)
    out = []
    for (m, own), (n, other) in combinations(enumerate(partition.slices), 2):
        first, second = S[own, own], S[other, other]
        differs = float(np.linalg.norm(first - second)) if first.shape == second.shape else np.nan
        cross = float(np.linalg.norm(S[own, other]))
        out.append({"first": m, "second": n, "covariance_difference": differs, "cross_covariance": cross})
    return out
