"""Geweke's measure of linear feedback from the innovations form of a state-space model."""

import numpy as np

from .riccati import adjoint_lyapunov, filtered_covariance, predicted_covariance


def geweke_measures(A, Q, J, partition):
    """Conditional Granger-Geweke measure between every ordered pair of units, in the time domain.

    How much better unit m's measurements are predicted from the past of all units than from the past of
    all but unit n, ``log |V_m without n| / |V_m|`` with V_m the one-step prediction error covariance of
    unit m's measurements [1]_. One Riccati equation for each unit left out.

    Parameters
    ----------
    A, Q, J : ndarray of shape (n, n)
        Transition matrix, process covariance, block-diagonal information matrix of the measurements.
    partition : Partition

    Returns
    -------
    measures : ndarray of shape (n_units, n_units)
        ``measures[m, n]`` is the measure from cause n to effect m; the diagonal is zero.

    Raises
    ------
    NotStationaryError
        If the plant without the measurements of some unit has a mode that nobody sees and that does not
        decay.

    Notes
    -----
    With noisy sensors the measure is above zero also for some pairs without a link: unit n's
    measurements then help to know the states of other units (indirect paths, the reverse direction) better
    than those units' own sensors do. Tests and verdicts are about the blocks of A.

    References
    ----------
    .. [1] Barnett, Seth (2015), Granger causality for state-space models, Physical Review E 91(4).
    """
    full = _log_innovations(predicted_covariance(A, J, Q), J, partition)
    measures = np.zeros((partition.n_units, partition.n_units))
    for n, rows in enumerate(partition.slices):
        reduced = J.copy()
        reduced[rows, rows] = 0.0
        without = _log_innovations(predicted_covariance(A, reduced, Q), J, partition)
        measures[:, n] = np.maximum(without - full, 0.0)
    np.fill_diagonal(measures, 0.0)
    return measures


def _log_innovations(P, J, partition):
    """``log |I + P_mm J_mm|``, the log-determinant of V_m less that of R_m, per unit."""
    product = P @ J
    logs = np.empty(partition.n_units)
    for p, units in partition.groups.items():
        states = partition.padded[units, :p]
        blocks = product[states[:, :, None], states[:, None, :]]
        logs[units] = np.linalg.slogdet(np.eye(p) + blocks)[1]
    return logs


def geweke_gradients(A, Q, J, partition, wanted):
    """Derivatives of the measures of :func:`geweke_measures` with respect to A and Q.

    Parameters
    ----------
    A, Q, J : ndarray of shape (n, n)
    partition : Partition
    wanted : ndarray of bool, shape (n_units, n_units)
        Which measures, effects in rows.

    Yields
    ------
    effect, cause : int
    grad_A, grad_Q : ndarray of shape (n, n)
        That in Q as a symmetric matrix.

    Notes
    -----
    A change of the plant moves the predicted covariance P by ``dP = F dP F' + dA Pf A' + A Pf dA' + dQ`` with
    the filtered covariance Pf and ``F = A (I - Pf J)``; derivatives go back through it by an adjoint Lyapunov
    equation.
    """
    if not wanted.any():
        return
    full = _innovation_gradients(A, Q, J, J, partition, wanted.any(axis=1))
    for cause, rows in enumerate(partition.slices):
        if wanted[:, cause].any():
            reduced = J.copy()
            reduced[rows, rows] = 0.0
            without = _innovation_gradients(A, Q, reduced, J, partition, wanted[:, cause])
            for effect, (grad_A, grad_Q) in without.items():
                yield effect, cause, grad_A - full[effect][0], grad_Q - full[effect][1]


def _innovation_gradients(A, Q, seen, J, partition, units):
    """Derivatives of ``log |I + P_mm J_mm|`` of units m with the covariance P that information
    `seen` leaves."""
    P = predicted_covariance(A, seen, Q)
    Pf = filtered_covariance(P, seen)
    units = np.flatnonzero(units)
    G = np.zeros((len(units), *A.shape))
    for of_P, m in zip(G, units, strict=True):
        rows = partition.slices[m]
        own = J[rows, rows]
        of_P[rows, rows] = np.linalg.solve(np.eye(len(own)) + own @ P[rows, rows], own)
    through = adjoint_lyapunov(A - A @ Pf @ seen, G)
    return {int(m): (2 * X @ A @ Pf, X) for m, X in zip(units, through, strict=True)}
