"""How much of an effect is real: what moves in rows left out say of it."""

import numpy as np

from .tuning import TUNING


def slopes(pairs):
    """Slopes of what was seen on what was foretold, and their standard errors by the jackknife over stretches.

    Parameters
    ----------
    pairs : list of (ndarray of shape (h, s, n), ndarray of shape (k, h, s, n))
        Of every stretch what was seen, and what each of k causes was foretold to do.

    Returns
    -------
    slope, error : ndarray of shape (k, n)
    """
    squares = np.array([np.einsum("jhsd,khsd->djk", x, x) for _, x in pairs])
    products = np.array([np.einsum("jhsd,hsd->dj", x, y) for y, x in pairs])
    k, whole, right = squares.shape[2], squares.sum(axis=0), products.sum(axis=0)
    ridge = (1e-4 * np.trace(whole, axis1=1, axis2=2) / k + 1e-9)[:, None, None] * np.eye(k)
    slope = np.linalg.solve(whole + ridge, right[:, :, None])[:, :, 0]
    without = np.linalg.solve(whole - squares + ridge, (right - products)[..., None])[..., 0]
    n_folds = len(pairs)
    spread = np.square(without - without.mean(axis=0)).sum(axis=0)
    return slope.T, np.sqrt((n_folds - 1) / n_folds * spread).T


def probability_real(slope, error):
    """Probability of every slope that it is about one and not zero.

    Notes
    -----
    Two groups: real effects have slopes of 1 with a standard deviation of 0.25 around it, others 0, each seen with
    its error. The share of real ones is that which all slopes together make most likely (EM).
    """
    error = np.clip(error, TUNING.trust_floor, 1e3)
    real = _density(slope - 1, np.hypot(error, TUNING.trust_tau))
    nothing, share = _density(slope, error), 0.5
    probability = np.full(slope.shape, share)
    for _ in range(TUNING.trust_rounds):
        probability = share * real / (share * real + (1 - share) * nothing)
        share = (probability.sum() + 1) / (probability.size + 2)
    return probability


def _density(x, std):
    return np.exp(-0.5 * np.square(x / std)) / std + 1e-30
