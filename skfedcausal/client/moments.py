"""Lag covariances of one unit's measurements and inputs: all that a unit's own identification works on."""

from functools import cached_property

import numpy as np

from ..statespace.episodes import (
    PIECE,
    add_lag_products,
    block_toeplitz,
    column_mean,
    episodes,
    lag_covariances,
    lagged_rows,
    recentre_lag_sums,
    rows_in_cache,
    symmetric,
)
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
        self._d, self.n_samples, self.starts = Y.shape[1], len(Y), starts
        longest = max(stop - start for start, stop in episodes(starts, len(Y)))
        n_lags = min(max(-(-TUNING.moments_past // self._d), _MIN_LAGS), MAX_LAGS, max(len(Y) // 4, 1), longest - 1)
        lags = range(n_lags + 1)
        self._raw, self.products = (Y, U), None
        self._parts = (Y,) if U is None else (Y, U)  # measurements, and inputs where there are any
        self.n_sensors, self.n_lags = self._d, n_lags  # that identification looks back
        self.n_past = n_lags * sum(part.shape[1] for part in self._parts)
        self.mean, self.input_mean = mean, input_mean
        self.complete = self._complete_sums(lags)
        if not self.complete:
            self._sums_with_gaps(lags)
        self.added = np.zeros(Y.shape[1]) if noise is None else noise / self.scale**2
        self.G, self.V = self._G[:, : self._d, : self._d], self._V[:, : self._d, : self._d]
        self.inputs = None if U is None else _InputMoments(self._input_scale, self._G, self._d)

    def _complete_sums(self, lags):
        """Lag covariances of a complete record: one pass, centred piece by piece and scaled at the end.

        Whether it is one; the pass ends at the first piece that is not. A mean that is not known yet is
        first taken from one piece: what it is off it is so in every row of that piece, which bounds its
        square by the variance times the number of pieces.
        """
        n_columns = sum(part.shape[1] for part in self._parts)
        sums = np.zeros((len(lags), n_columns, n_columns))
        size = rows_in_cache(n_columns)
        buffer, ones = np.empty((size + lags[-1], n_columns)), np.ones(size)
        near = self._level(slice(0, PIECE))
        level, totals = np.tile(near, (len(buffer), 1)), []
        for start, stop in episodes(self.starts, self.n_samples):
            totals.append(np.zeros(n_columns))
            for first in range(start, stop, size):
                rows = slice(first, min(first + len(buffer), stop))
                piece, n_early = buffer[: rows.stop - first], min(size, stop - first)
                self._rows_of_both(rows, out=piece)
                piece -= level[: len(piece)]  # row by row it takes twice as long
                add_lag_products(sums, piece, lags, n_early)
                if not np.isfinite(np.trace(sums[0])):
                    return False
                totals[-1] += ones[:n_early] @ piece[:n_early]
        self._take_off_means(sums, lags, near, totals)
        sums[0] = symmetric(sums[0])
        d = self._d
        self.products = sums[0][:d, :d]
        scale = np.sqrt(np.diag(sums[0]) / self.n_samples)
        scale[d:][scale[d:] == 0] = 1.0  # an input that never moves gets the coefficient zero
        self.scale, self._input_scale = scale[:d], scale[d:]
        self._G = self._V = sums / np.outer(scale, scale) / self.n_samples
        return True

    def _rows_of_both(self, rows, out=None):
        """Some rows of measurements and inputs side by side."""
        return np.concatenate([part[rows] for part in self._parts], axis=1, out=out)

    def _level(self, rows):
        """Means of measurements and inputs side by side, those that are not known of some rows."""
        means = zip(self._parts, (self.mean, self.input_mean), strict=False)
        return np.concatenate([column_mean(part[rows]) if mean is None else mean for part, mean in means])

    def _take_off_means(self, sums, lags, near, totals):
        """Take what is left of means that are not known off the sums of rows less the level `near`.

        `totals` are the sums of the rows of each episode.
        """
        known = [self.mean is not None] * self._d + [self.input_mean is not None] * (len(near) - self._d)
        shift = np.where(known, 0.0, sum(totals) / self.n_samples)
        self.mean = (near + shift)[: self._d]
        if self._raw[1] is not None:
            self.input_mean = (near + shift)[self._d :]
        for (start, stop), total in zip(episodes(self.starts, self.n_samples), totals, strict=True):
            n_ends = min(lags[-1], stop - start)
            head = self._rows_of_both(slice(start, start + n_ends)) - near
            tail = self._rows_of_both(slice(stop - n_ends, stop)) - near
            recentre_lag_sums(sums, shift, total, stop - start, head, tail)

    def _sums_with_gaps(self, lags):
        Y, U = self._raw
        if self.mean is None:
            self.mean = column_means(Y)
        if U is not None and self.input_mean is None:
            self.input_mean = column_mean(U)
        present = ~np.isnan(Y)
        centred = Y - self.mean
        centred[~present] = 0.0
        share = present.mean(axis=0)
        self.scale = np.sqrt(np.einsum("ti,ti->i", centred, centred) / (len(Y) * share))
        centred /= self.scale
        self._input_scale = np.ones(0 if U is None else U.shape[1])
        joint = centred
        if U is not None:
            moved = U - self.input_mean
            scale = np.sqrt((moved**2).mean(axis=0))
            self._input_scale = np.where(scale == 0, 1.0, scale)
            joint = np.hstack([centred, moved / self._input_scale])
        mask = present.astype(float)
        there = np.ones(joint.shape)
        there[:, : self._d] = mask
        both = np.append(share, np.ones(joint.shape[1] - self._d))
        self._G = lag_covariances(joint, lags, self.starts, there) / len(Y)
        if np.linalg.eigvalsh(self._G[0])[0] < 0:  # products of different rows need not be a covariance
            self._G[0] = floor_eigenvalues(self._G[0], 0.0)
        self._V = lag_covariances(joint, lags, self.starts) / len(Y) / np.outer(both, both)
        self._joint = joint / both
        self._overlap = lag_covariances(mask, lags[1:], self.starts) / np.outer(share, share) / len(Y)

    @cached_property
    def _joint(self):
        """Scaled measurements and inputs side by side."""
        Y, U = self._raw
        scaled = (Y - self.mean) / self.scale
        return scaled if U is None else np.hstack([scaled, (U - self.input_mean) / self._input_scale])

    @property
    def series(self):
        """Scaled measurements; with missing cells the series that `V` belongs to."""
        return self._joint[:, : self._d]

    @property
    def input_series(self):
        """Scaled inputs, None without inputs."""
        return None if self.inputs is None else self._joint[:, self._d :]

    def own_past(self):
        """Sums that say how the measurements follow the rows before them, of a complete record."""
        scales = self.scale, self._input_scale, self.input_mean
        return OwnPast.of(self._joint, self.n_lags, self.starts, scales)

    @cached_property
    def past(self):
        """Covariance of the present with the past lags, and of the past lags with each other.

        The past are measurements and inputs side by side, lag by lag.
        """
        return np.hstack(list(self._G[1:, : self._d])), block_toeplitz(self._V[: self.n_lags])

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
