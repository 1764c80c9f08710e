"""Sensor noise of a factor model with known loadings, ``y = C h + v`` with independent noise per sensor."""

from dataclasses import dataclass

import numpy as np

_MAX_STEPS = 200
_TOLERANCE = 1e-6  # relative change of a noise variance, far below its standard error
_MAX_LOG_STEP = 2.0
_MAX_DAMPING = 1e12


@dataclass(frozen=True)
class NoiseFit:
    """Noise variances and whether the search for them ended at a maximum.

    Attributes
    ----------
    R : ndarray of shape (n_sensors,)
    converged : bool
    n_steps : int
    """

    R: np.ndarray
    converged: bool
    n_steps: int


def sensor_noise(G, C, floor, max_steps=_MAX_STEPS):
    """Noise variances of maximum likelihood when the loadings are known and the states' covariance is not.

    Parameters
    ----------
    G : ndarray of shape (n_sensors, n_sensors)
        Covariance of the measurements, positive definite.
    C : ndarray of shape (n_sensors, n_states)
        Loadings of full column rank, fewer columns than rows.
    floor : ndarray of shape (n_sensors,)
        Smallest variances allowed; the largest are those of the sensors.
    max_steps : int

    Returns
    -------
    NoiseFit

    Notes
    -----
    The states' covariance is concentrated out: with ``W = R^-1 C (C' R^-1 C)^-1`` its maximum, given R, is
    ``M - (C' R^-1 C)^-1`` with ``M = W' G W``. What is left of -2 log-likelihood per row is

        log|R| + log|C' R^-1 C| + log|M| + tr(P G),    P = R^-1 - W C' R^-1,

    whose Fisher information for R is ``1/2 P * (P + 2 W M^-1 W')`` (elementwise). Scoring in log R with
    Levenberg's damping reaches the maximum in a few steps, however strong the signal; EM takes about as
    many steps as the signal is times stronger than the noise [1]_.

    References
    ----------
    .. [1] Rubin, Thayer (1982), EM algorithms for ML factor analysis, Psychometrika 47(1).
    """
    low, high = np.log(floor), np.log(np.maximum(np.diag(G), floor))
    theta = np.clip(np.log(_projected_noise(G, C)), low, high)
    value, score, fisher = _profile(theta, G, C)
    damping = 1e-3
    for n_steps in range(1, max_steps + 1):
        step = _scoring_step(theta, score, fisher, damping, low, high)
        if np.abs(step).max(initial=0.0) < _TOLERANCE:
            return NoiseFit(np.exp(theta), True, n_steps)
        trial = _profile(theta + step, G, C)
        if trial[0] <= value:
            theta, (value, score, fisher) = theta + step, trial
            damping = max(damping / 10, 1e-12)
        elif damping < _MAX_DAMPING:
            damping *= 10
        else:  # no step of any length lowers the value any more: rounding is in the way
            return NoiseFit(np.exp(theta), True, n_steps)
    return NoiseFit(np.exp(theta), False, max_steps)


def _projected_noise(G, C):
    """Variance that the projection on the space of C leaves over, scaled to all dimensions."""
    d, p = C.shape
    basis = np.linalg.qr(C)[0]
    rest = np.eye(d) - basis @ basis.T
    return np.maximum(np.einsum("ij,jk,ki->i", rest, G, rest) * d / (d - p), np.finfo(float).tiny)


def _profile(theta, G, C):
    """-2 log-likelihood per row, and score and information of the log-likelihood in log R."""
    R = np.exp(theta)
    scaled = C / R[:, None]
    J = C.T @ scaled
    W = np.linalg.solve(J, scaled.T).T
    P = np.diag(1 / R) - W @ scaled.T
    GW = G @ W
    M = W.T @ GW
    states = W @ np.linalg.solve(M, W.T)
    PG = P @ G
    value = theta.sum() + _logdet(J) + _logdet(M) + np.trace(PG)
    score = np.einsum("ij,ji->i", PG, P + 2 * states) - np.diag(P)
    fisher = P * (P + 2 * states) * np.outer(R, R)
    return value, 0.5 * R * score, 0.5 * (fisher + fisher.T) / 2


def _logdet(S):
    return np.linalg.slogdet(S)[1]


def _scoring_step(theta, score, fisher, damping, low, high):
    """Damped step over the variances that are not held at a bound."""
    free = ~(((theta <= low) & (score < 0)) | ((theta >= high) & (score > 0)))
    step = np.zeros_like(theta)
    if free.any():
        H = fisher[np.ix_(free, free)]
        scale = np.diag(H) + 1e-12 * max(np.trace(H), np.finfo(float).tiny)
        step[free] = np.linalg.solve(H + damping * np.diag(scale), score[free])
    step = np.clip(step, -_MAX_LOG_STEP, _MAX_LOG_STEP)
    return np.clip(theta + step, low, high) - theta
