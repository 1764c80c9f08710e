"""Factor analysis by maximum likelihood: ``S = C C' + diag(R)`` with free loadings."""

from typing import NamedTuple

import numpy as np

_MAX_STEPS = 50
_TOLERANCE = 1e-4  # in log R, far below a standard error
_MAX_LOG_STEP = 2.0


class FactorFit(NamedTuple):
    """Loadings, noise variances, and how far S is from what they give: a likelihood ratio per row."""

    C: np.ndarray  # (n_sensors, n_factors), S^-1 orthogonal
    R: np.ndarray  # (n_sensors,)
    misfit: float  # 2 (max. log-likelihood of any covariance - that of this one) / n_rows


def factor_analysis(S, n_factors, floor):
    """Maximum likelihood over C and R >= floor of a covariance of Gaussian rows.

    Given R the best C is made of the leading eigenvectors of ``R^-1/2 S R^-1/2``; what the others leave is
    minimised over log R by Newton steps with an approximate second derivative [1]_.

    .. [1] Joreskog (1967), Some contributions to maximum likelihood factor analysis, Psychometrika 32(4);
           Clarke (1970), British Journal of Mathematical and Statistical Psychology 23(1).
    """
    low, high = np.log(floor), np.log(np.maximum(np.diag(S), floor))
    theta = np.clip(-np.log(np.diag(np.linalg.pinv(S, hermitian=True))), low, high)
    value, slope, curvature = _profile(theta, S, n_factors)
    damping = 1e-3
    for _ in range(_MAX_STEPS):
        free = ~(((theta <= low) & (slope > 0)) | ((theta >= high) & (slope < 0)))
        step = np.zeros_like(theta)
        if free.any():
            H = curvature[np.ix_(free, free)] + damping * np.eye(free.sum())
            step[free] = -np.linalg.solve(H, slope[free]).clip(-_MAX_LOG_STEP, _MAX_LOG_STEP)
        step = np.clip(theta + step, low, high) - theta
        if np.abs(step).max() < _TOLERANCE:
            break
        trial = _profile(theta + step, S, n_factors)
        if trial[0] <= value:
            theta, (value, slope, curvature) = theta + step, trial
            damping /= 10
        else:
            damping *= 10
    root = np.exp(theta / 2)
    vectors = np.linalg.eigh(S / np.outer(root, root))[1][:, ::-1]
    return FactorFit(vectors[:, :n_factors] * root[:, None], np.exp(theta), float(value))


def _profile(theta, S, n_factors):
    """The misfit with the best loadings, its derivative by log R and a positive second one."""
    root = np.exp(theta / 2)
    values, vectors = np.linalg.eigh(S / np.outer(root, root))
    n_rest = len(S) - n_factors
    rest, left = np.maximum(values[:n_rest], np.finfo(float).tiny), vectors[:, :n_rest]
    return (rest - np.log(rest) - 1).sum(), left**2 @ (1 - rest), (left @ left.T) ** 2


def degrees_of_freedom(n_sensors, n_factors):
    """Of the likelihood ratio between any covariance and a factor model, zero where that fits any."""
    return max(((n_sensors - n_factors) ** 2 - n_sensors - n_factors) // 2, 0)
