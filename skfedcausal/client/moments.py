"""Lag covariances of one unit's measurements and inputs: all that a unit's own identification works on."""

from functools import cached_property

import numpy as np

from ..statespace.episodes import block_toeplitz, column_mean, episodes, lag_covariances, lagged_rows
from ..statespace.matrices import floor_eigenvalues
from .own_past import OwnPast
from .records import MAX_LAGS, column_means
from .tuning import TUNING

_MIN_LAGS = 2  # of the past that identification looks at
RIDGE = 1e-3  # added to scaled covariances before they are inverted


class Moments:
    """Lag covariances of a unit's measurements scaled to unit variance, NaN standing for missing ones.

    With zeros for missing cells a complete record ``y`` becomes ``x = y + e``, where e, the effect of the
    gaps, is white noise if cells are missing at random. Lagged products of x and of y have the same mean,
    so the number of states and the space of C can be read from either, but it is the variance of x
    that says how accurate the products are. Taking the variance of y instead makes noise look like
    further states. e is white but not independent of the past (large where y is large): see `inflation`.
    """

    def __init__(self, Y, mean, starts, U=None, input_mean=None, noise=None):
        (n, d), self.starts = Y.shape, starts
        longest = max(stop - start for start, stop in episodes(starts, n))
        n_lags = min(max(-(-TUNING.moments_past // d), _MIN_LAGS), MAX_LAGS, max(n // 4, 1), longest - 1)
        self.n_samples, self.n_sensors, self.n_lags = n, d, n_lags  # that identification looks back
        self.mean = column_means(Y) if mean is None else mean
        present = ~np.isnan(Y)
        self.complete, joint = bool(present.all()), Y - self.mean
        joint[~present] = 0.0
        self.scale = np.sqrt(np.einsum("ti,ti->i", joint, joint) / (n * present.mean(axis=0)))
        joint /= self.scale
        self._input_scale, self.input_mean = np.ones(0), input_mean
        if U is not None:
            self.input_mean = column_mean(U) if input_mean is None else input_mean
            scale = np.sqrt(((U - self.input_mean) ** 2).mean(axis=0))
            self._input_scale = np.where(scale == 0, 1.0, scale)  # one that never moves gets the coefficient zero
            joint = np.hstack([joint, (U - self.input_mean) / self._input_scale])
        self.n_past = n_lags * joint.shape[1]
        self._G = self._V = lag_covariances(joint, range(n_lags + 1), starts) / n
        self._joint = joint  # scaled measurements and inputs side by side
        self.products = self._G[0, :d, :d] * n * np.outer(self.scale, self.scale) if self.complete else None
        if not self.complete:
            self._make_up_for_gaps(present)
        self.added = np.zeros(d) if noise is None else noise / self.scale**2
        self.G, self.V = self._G[:, :d, :d], self._V[:, :d, :d]
        self.inputs = None if U is None else _InputMoments(self._input_scale, self._G, d)

    def _make_up_for_gaps(self, present):
        """Divide products by how many there are, in the series that `V` belongs to factors by how many are there."""
        joint, share, lags = self._joint, present.mean(axis=0), range(self.n_lags + 1)
        mask, n_inputs = present.astype(float), joint.shape[1] - self.n_sensors
        there = np.hstack([mask, np.ones((self.n_samples, n_inputs))])
        self._G = lag_covariances(joint, lags, self.starts, there) / self.n_samples
        if np.linalg.eigvalsh(self._G[0])[0] < 0:  # products of different rows need not be a covariance
            self._G[0] = floor_eigenvalues(self._G[0], 0.0)
        both = np.append(share, np.ones(n_inputs))
        self._V, self._joint = self._V / np.outer(both, both), joint / both
        overlap = lag_covariances(mask, lags[1:], self.starts)
        self._overlap = overlap / np.outer(share, share) / self.n_samples

    @property
    def series(self):
        """Scaled measurements; with missing cells the series that `V` belongs to."""
        return self._joint[:, : self.n_sensors]

    @property
    def input_series(self):
        """Scaled inputs, None without inputs."""
        return None if self.inputs is None else self._joint[:, self.n_sensors :]

    def own_past(self):
        """Sums that say how the measurements follow the rows before them, of a complete record."""
        scales = self.scale, self._input_scale, self.input_mean
        return OwnPast.of(self._joint, self.n_lags, self.starts, scales)

    @cached_property
    def past(self):
        """Covariance of the present with the past lags, and of the past lags with each other.

        The past are measurements and inputs side by side, lag by lag.
        """
        return np.hstack(list(self._G[1:, : self.n_sensors])), block_toeplitz(self._V[: self.n_lags])

    @cached_property
    def explained(self):
        """Covariance of what the past predicts of the present."""
        cross, past = self.past
        return cross @ np.linalg.solve(past + RIDGE * np.eye(len(past)), cross.T)

    @property
    def unexplained(self):
        """Covariance of what the past leaves unpredicted, with the divisor that makes it unbiased."""
        spent = min(self.n_lags * self.n_sensors / self.n_samples, 0.5)
        return (self.G[0] - self.explained) / (1 - spent)

    @cached_property
    def canonical(self):
        """Squared canonical correlations of the present with the past, and the loadings of the variates."""
        L = np.linalg.cholesky(self.V[0] + RIDGE * np.eye(self.n_sensors))
        half = np.linalg.solve(L, self.explained)
        squared, axes = np.linalg.eigh(np.linalg.solve(L, half.T))
        return squared[::-1].clip(0, 1 - 1e-12), np.linalg.solve(L.T, axes[:, ::-1])

    @cached_property
    def inflation(self):
        """Variance of each canonical variate's covariance with the past, over what white noise would give.

        One for a complete record. Gaps that come alone make it larger, since what they take away is large
        where the past was large. Gaps that come together leave more products than `V` lets expect.
        """
        if self.complete:
            return np.ones(self.n_sensors)
        past = self.past[1]
        Z = lagged_rows(self._joint, self.n_lags, self.starts)
        whitened = np.linalg.solve(np.linalg.cholesky(past + RIDGE * np.eye(len(past))), Z.T)
        size = np.einsum("it,it->t", whitened, whitened) / len(past)
        dependence = size @ (self.series @ self.canonical[1]) ** 2 / self.n_samples
        there = self._overlap[self._overlap > 0]  # joint presence over what independence would give
        return dependence / there.mean() * (1 / there).mean()

    def autoregression(self):
        """Coefficients of the lags in a long autoregression with the inputs.

        Shape (n_lags, n_sensors, n_sensors + n_inputs).
        """
        cross, past = self.past
        flat = np.linalg.solve(past + RIDGE * np.eye(len(past)), cross.T).T
        return np.swapaxes(flat.reshape(self.n_sensors, self.n_lags, -1), 0, 1)


class _InputMoments:
    """Covariances of the scaled inputs with the scaled measurements of the same and the next step."""

    def __init__(self, scale, joint, d):
        self.scale = scale
        self.same, self.previous = joint[0, :d, d:], joint[1, :d, d:]
        self.covariance = joint[0, d:, d:]
