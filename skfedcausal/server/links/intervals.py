"""How large an influence may be: intervals of the strength of links, and the rows that would decide."""

import numpy as np
import pandas as pd
from scipy import special
from scipy.optimize import brentq
from scipy.stats import chi2, ncx2

_POWER = 0.8
_BISECTIONS = 60


def strength_intervals(blocks, level=0.95):
    """Confidence intervals of the Frobenius norm of every block.

    The squared norm of an estimate with covariance V around a block of norm s is compared with the gamma
    distribution of its mean ``tr V + s^2`` and variance ``2 tr V^2 + 4 s^2 v`` [1]_, v the variance along
    the estimate. A norm s is in the interval if neither tail beyond the observed one is too thin: the upper
    tail gets the whole ``1 - level`` at s = 0, where there is nothing to miss below, and half of it where
    s is large against V. The lower end is zero exactly where the squared norm is not significant.

    Exact to a per cent where the standard errors of a block's elements are alike; where they differ several
    times the variance along the estimate is not that along the truth, and a nominal 95 % is between 91
    and 99.5 %.

    .. [1] Patnaik (1949), The non-central chi-square and F-distributions and their applications,
           Biometrika 36.
    """
    real = np.arange(blocks.estimate.shape[1]) < blocks.dof[:, None]
    values, axes = blocks.spectra
    values = np.where(real, values, 0.0)  # padded elements have the largest variances, the last ones
    along = np.einsum("xij,xi->xj", axes, blocks.estimate)
    along = np.where(real, along, 0.0) ** 2
    squared = along.sum(axis=1)
    variance = (along * values).sum(axis=1) / np.maximum(squared, 1e-300)
    mean, spread = values.sum(axis=1), 2 * (values**2).sum(axis=1)
    alpha = 1 - level

    def tails(s):
        """Probabilities below and above the observed squared norm, and what each may be at least."""
        m, v = mean + s**2, spread + 4 * s**2 * variance
        below = special.gammainc(m**2 / v, squared * m / v)
        lower = alpha / 2 * -np.expm1(-(s**2) / mean)
        return below, 1 - below, lower, alpha - lower

    top = np.sqrt(squared) + 10 * np.sqrt(mean)
    low = _root(lambda s: tails(s)[1] < tails(s)[3], top)
    high = _root(lambda s: tails(s)[0] >= tails(s)[2], top)
    return np.where(tails(np.zeros_like(top))[1] < alpha, low, 0.0), high


def _root(holds, top):
    """Largest s up to which a condition that holds at first, holds."""
    low, high = np.zeros_like(top), top.copy()
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        inside = holds(middle)
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return low


def deciding_rows(blocks, n_rows, alpha, margin):
    """Rows with which every pair would be decided four times in five.

    So many that a test at level `alpha` finds an influence of strength `margin`, in the direction that is
    known worst, with probability 0.8; then nearly as often an absent one is told from it.
    """
    needed = {
        int(dof): brentq(lambda d, k=dof: ncx2.sf(chi2.isf(alpha, k), k, d) - _POWER, 1e-6, 1e4)
        for dof in np.unique(blocks.dof)
    }
    values = blocks.spectra[0]
    worst = values[np.arange(len(values)), blocks.dof - 1]
    return np.ceil(n_rows * worst * np.array([needed[int(k)] for k in blocks.dof]) / margin**2)


def intervals_table(names, pairs, blocks, n_rows, *, level, alpha, margin):
    """One row per ordered pair: ``cause, effect, strength, low, high, deciding_rows``."""
    effect, cause = pairs.T
    low, high = strength_intervals(blocks, level)
    return pd.DataFrame(
        {
            "cause": np.asarray(names, dtype=object)[cause],
            "effect": np.asarray(names, dtype=object)[effect],
            "strength": blocks.strength,
            "low": low,
            "high": high,
            "deciding_rows": deciding_rows(blocks, n_rows, alpha, margin).astype(int),
        }
    )
