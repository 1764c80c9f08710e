"""Covariances of block estimates that hold whatever the distribution of the noise: the sandwich.

The estimate moves by ``I^-1 g`` with the gradient g of the log-likelihood. Gaussian noise of constant
variance makes the covariance of g the information I itself, so that the estimate's is ``I^-1``. Otherwise it
is ``I^-1 M I^-1`` with M estimated from what each time step contributes to g: their outer products where they
are uncorrelated [1]_, with Bartlett weights over lags where they are not [2]_.

References
----------
.. [1] White (1982), Maximum likelihood estimation of misspecified models, Econometrica 50(1).
.. [2] Newey, West (1987), A simple, positive semi-definite, heteroskedasticity and autocorrelation
       consistent covariance matrix, Econometrica 55(3).
"""

from dataclasses import replace

import numpy as np
from scipy import stats

from .blocktests import grouped_columns
from .evidence import PADDED_VARIANCE

_LEVEL = 0.05  # family-wise, at which Hotelling's statistic and chi-squared reject alike
COVARIANCES = ("information", "sandwich", "hac")


def lags_of(covariance, n_samples):
    """Lags over which contributions may be correlated; for "hac" the rule of Newey and West (1994)."""
    return int(4 * (n_samples / 100) ** (2 / 9)) if covariance == "hac" else 0


class ScoreProducts:
    """Sums of products of the gradients of time steps: with one another, of free elements and of blocks."""

    def __init__(self, structure, contributions, families, n_lags=0, metrics=()):
        free = structure.free
        self.inside = np.zeros((free.n_elements, free.n_elements))
        self.mixed = np.zeros((structure.partition.n_elements + 1, free.n_elements))
        shapes = [family.pair_elements.shape for family in families]
        self.own = [np.zeros((*shape, shape[1])) for shape in shapes]
        self.sizes = [np.zeros((shape[0], 2)) for shape in shapes]
        for grad_A, grad_Q in _summed(contributions, n_lags):
            flat = np.pad(grad_A.reshape(len(grad_A), -1), [(0, 0), (0, 1)])
            covariance = 2 * free.half_on_diagonal * grad_Q[:, free.first, free.second]
            inside = np.hstack([grad_A[:, free.rows, free.cols], covariance])
            self.inside += inside.T @ inside
            self.mixed += flat.T @ inside
            for family, own in zip(families, self.own, strict=True):
                for pair, at in enumerate(family.pair_elements):
                    own[pair] += flat[:, at].T @ flat[:, at]
            for family, metric, sizes in zip(families, metrics, self.sizes, strict=False):
                for pair, at in enumerate(family.pair_elements):
                    squared = np.einsum("ti,ij,tj->t", flat[:, at], metric[pair], flat[:, at])
                    sizes[pair] += squared.sum(), (squared**2).sum()


class Sandwich:
    """Covariance of the gradient from the contributions of time steps, and what follows for estimates.

    The middle of the sandwich is a sum of few large squares where noise comes in bursts. Like the covariance
    of so many normal vectors as have squares as uneven (:func:`effective_rows`), it makes the statistic
    Hotelling's instead of chi-squared. Covariances of blocks are larger by the ratio of these two's quantiles
    at the level of a family-wise verdict.
    """

    def __init__(self, scoring, contributions, families, blocks, n_lags=0):
        self._scoring, self._families = scoring, families
        metrics = [each.covariance for each in blocks]
        products = ScoreProducts(scoring.structure, contributions, families, n_lags, metrics)
        self._inside, self._mixed, self._own = products.inside, products.mixed, products.own
        self._rows = [
            effective_rows(sizes, family.pair_dof, n_lags)
            for sizes, family in zip(products.sizes, families, strict=True)
        ]

    def covariance(self, scoring=None):
        """Covariance of the free elements."""
        scoring = self._scoring if scoring is None else scoring
        both = scoring.solved(scoring.solved(self._inside).T)
        return (both + both.T) / (2 * scoring.n_samples**2)

    def blocks(self, family, inside, blocks):
        """The same estimates of a family of blocks with their covariances by the sandwich."""
        scoring, all_own = self._scoring, self._own[self._families.index(family)]
        elements = family.pair_elements
        padded = elements == family.n_elements
        covariance = blocks.covariance.copy()
        if inside.any():
            position = scoring.structure.transition_positions[elements[inside]]
            covariance[inside] = self.covariance()[position[:, :, None], position[:, None, :]]
        outside = np.flatnonzero(~inside)
        for pairs, half in grouped_columns(scoring, family, outside, "transition"):
            weights = scoring.solved(half).T
            weights = weights.reshape(*elements[pairs].shape, -1)  # (pairs, e, free)
            crossed = self._mixed[elements[pairs]] @ np.swapaxes(weights, 1, 2)
            meat = all_own[pairs] - crossed - np.swapaxes(crossed, 1, 2)
            meat += weights @ self._inside @ np.swapaxes(weights, 1, 2)
            model = blocks.covariance[pairs]
            covariance[pairs] = model @ meat @ model
        scoring.forget()
        rows = self._rows[self._families.index(family)]
        covariance *= _hotelling(rows, family.pair_dof, _LEVEL / max(len(rows), 1))[:, None, None]
        covariance[padded[:, :, None] | padded[:, None, :]] = 0.0
        pair, element = np.nonzero(padded)
        covariance[pair, element, element] = PADDED_VARIANCE
        return replace(blocks, covariance=(covariance + np.swapaxes(covariance, 1, 2)) / 2)


def effective_rows(sizes, dof, n_lags=0):
    """Number of normal vectors whose squared lengths q are as uneven: ``(d + 2) / d (sum q)^2 / sum q^2``."""
    rows = (dof + 2) / dof * sizes[:, 0] ** 2 / np.maximum(sizes[:, 1], np.finfo(float).tiny)
    return rows * min(1.5 / (n_lags + 1), 1.0)


def _hotelling(rows, dof, level):
    """Quantile of Hotelling's statistic over that of chi-squared."""
    left = np.maximum(rows - dof + 1, 1.0)
    hotelling = rows * dof / left * stats.f.isf(level, dof, left)
    return hotelling / stats.chi2.isf(level, dof)


def _summed(contributions, n_lags):
    """Contributions so weighted that their outer products have Bartlett's weights at lags up to `n_lags`.

    Outer products of sums over `n_lags` + 1 consecutive rows, divided by that number, hold those of rows l
    apart ``1 - l / (n_lags + 1)`` times.
    """
    width = n_lags + 1
    tail = None
    for part in contributions:
        whole = [part.grad_A, part.grad_Q]
        if n_lags:
            before = [np.zeros((n_lags, *x.shape[1:])) for x in whole] if tail is None else tail
            whole = [np.concatenate(two) for two in zip(before, whole, strict=True)]
            tail = [x[-n_lags:] for x in whole]
            whole = [_moving_sums(x, width) for x in whole]
        yield [x / np.sqrt(width) for x in whole]
    if tail is not None:
        ends = [np.concatenate([x, np.zeros_like(x)]) for x in tail]
        yield [_moving_sums(x, width) / np.sqrt(width) for x in ends]


def _moving_sums(x, width):
    sums = np.cumsum(x, axis=0)
    sums[width:] -= sums[:-width].copy()
    return sums[width - 1 :]
