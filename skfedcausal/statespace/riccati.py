"""Covariances a linear filter settles on: Riccati and Lyapunov equations by structured doubling.

The measurements enter only through the information matrix ``J = C' R^-1 C``, so the cost does not
depend on the number of sensors. The solvers of both equations take one matrix or a stack of them.
"""

import numpy as np
from scipy.linalg.lapack import dgesv

from .matrices import spectral_radius

_MAX_DOUBLINGS = 60
_SETTLED = 1e-9  # convergence is quadratic: an update of this size leaves an error of its square


class NotStationaryError(ValueError):
    """The model has no steady state: an unstable or undetectable mode."""


_RICCATI_MESSAGE = (
    "The filter has no steady state: the transition matrix has an unstable or marginal mode that the "
    "sensors do not see or that no noise excites. Check A, C and R, or detrend the data."
)


def predicted_covariance(A, J, Q):
    """Steady-state covariance of the one-step-ahead state prediction.

    Solves ``P = A (P^-1 + J)^-1 A' + Q`` by the structure-preserving doubling algorithm [1]_.

    .. [1] Chu, Fan, Lin, Wang (2004), Structure-preserving algorithms for periodic discrete-time
           algebraic Riccati equations, International Journal of Control 77(8).
    """
    _require_finite(A=A, J=J, Q=Q)
    with np.errstate(over="ignore", invalid="ignore"):
        P, F = _doubled(A, J, Q)
    # F is a power of the filter's transition matrix: it has vanished unless the filter is not stable
    if np.abs(F).max(initial=0.0) >= 1:
        step = A - A @ filtered_covariance(P, J) @ J  # which carries a prediction error to the next step
        if spectral_radius(step).max() >= 1:
            raise NotStationaryError(_RICCATI_MESSAGE)
    return P


def _doubled(A, J, Q):
    """Solution of the Riccati equation, and a high power of the transition matrix of its filter.

    All are (..., n, n).
    """
    n = A.shape[-1]
    eye, right = np.eye(n), np.empty((n, 2 * n), order="F")
    F, G, P = np.swapaxes(A, -1, -2), J, Q
    for _ in range(_MAX_DOUBLINGS):
        if A.ndim == 2:  # of small matrices, for which the way to LAPACK is what counts
            right[:, :n], right[:, n:] = F, G
            _, _, solved, info = dgesv(eye + G @ P, right)
        else:
            solved, info = np.linalg.solve(eye + G @ P, np.concatenate([F, G], axis=-1)), 0
        WF, WG, FT = solved[..., :n], solved[..., n:], np.swapaxes(F, -1, -2)
        update = FT @ P @ WF
        P = P + update
        growth = np.diagonal(update, axis1=-2, axis2=-1)
        if info or not growth.max(initial=0.0) < np.inf:
            break
        settled = (growth <= _SETTLED * np.diagonal(P, axis1=-2, axis2=-1)).all()
        G = G + F @ WG @ FT
        F = F @ WF
        if settled:
            return (P + np.swapaxes(P, -1, -2)) / 2, F
    raise NotStationaryError(_RICCATI_MESSAGE)


def stationary_covariance(A, Q):
    """Covariance of the stationary states, ``S = A S A' + Q``, by doubling. All are (..., n, n)."""
    _require_finite(A=A, Q=Q)
    F, S = A, Q
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(_MAX_DOUBLINGS):
            update = F @ S @ np.swapaxes(F, -1, -2)
            S = S + update
            growth = np.diagonal(update, axis1=-2, axis2=-1)
            if not growth.max(initial=0.0) < np.inf:
                break
            F = F @ F
            if (growth <= _SETTLED * np.diagonal(S, axis1=-2, axis2=-1)).all():
                if np.abs(F).max(initial=0.0) >= 1 and spectral_radius(A).max() >= 1:
                    break  # an unstable mode that no noise excites
                return (S + np.swapaxes(S, -1, -2)) / 2
    raise NotStationaryError(
        f"The plant is not stationary: the spectral radius of the transition matrix is "
        f"{np.max(spectral_radius(A)):.4g}, it must be below 1."
    )


def adjoint_lyapunov(A, G):
    """Solve ``X = A' X A + G`` for a stable A and a symmetric G that need not be definite, by doubling.

    If G is the derivative of a function of the stationary covariance S, X is its derivative with respect
    to Q and ``2 X A S`` that with respect to A.
    """
    F, X = A, (G + np.swapaxes(G, -1, -2)) / 2
    for _ in range(_MAX_DOUBLINGS):
        update = np.swapaxes(F, -1, -2) @ X @ F
        X = X + update
        if not np.abs(update).max() > _SETTLED * np.abs(X).max():
            break
        F = F @ F
    return X


def filtered_covariance(P, J):
    """Covariance after the measurement, ``(P^-1 + J)^-1``, without inverting `P` or `J`. Both are (..., n, n)."""
    Pf = np.linalg.solve(np.eye(P.shape[-1]) + P @ J, P)
    return (Pf + np.swapaxes(Pf, -1, -2)) / 2


def filter_radius(A, J, Q):
    """Spectral radius of a filter that has settled, by which it forgets from row to row; of several the largest."""
    n = J.shape[-1]
    P = predicted_covariance(A[..., :n], J, Q)
    return float(spectral_radius(A[..., :n] @ np.linalg.inv(np.eye(n) + P @ J)).max())


def _require_finite(**matrices):
    for name, matrix in matrices.items():
        if not np.isfinite(matrix).all():
            raise ValueError(f"{name} has values that are not finite; there is no steady state to find.")
