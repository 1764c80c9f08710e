"""What a unit's own identification works on: lag covariances, level shifts taken off, and its own autoregression."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import null_space, solve, solve_triangular
from scipy.signal import lfilter

from ..statespace.episodes import block_toeplitz, column_mean, episodes, lag_covariances, lagged_rows
from ..statespace.matrices import floor_eigenvalues
from ..statespace.observation import weights
from ..statespace.segments import find_changes
from ..statespace.timedomain import heavy_tails
from .records import MAX_LAGS, column_means
from .tuning import TUNING

# A unit's own autoregression: of what its message leaves of its measurements, or of all of them.
#
# The message about a row is as good as the least-squares states s of that row; a factor model takes the other
# D - P combinations r of the measurements for independent sensor noise. Valves that follow their controller,
# columns that nearly determine each other and sensors with a memory of their own are not that. As
#
#     p(y | past of all units) = p(s | past of all units) p(r | s, past of all units),
#
# a unit may replace the second factor by what it knows better, ``r[t] = B [s[t], y[t-1], ..., y[t-p], u[t-1],
# ..., u[t-p]] + e[t]`` with a full covariance of e: still a density of y, and no other message. Where no plant knows
# better, the autoregression of all measurements is the unit's density.

FLOOR = 1e-8  # share of a column's variance that is left unpredicted at least
_OWN_RIDGE = 1e-9  # share of a regressor's sum of squares added to it: columns may determine each other
_LOG_2PI = np.log(2 * np.pi)
_PIECE = 2**14  # rows that are looked at together


@dataclass(frozen=True)
class OwnPast:
    """Sums of products of scaled rows ``[y, u]`` with themselves and the rows before them inside the unit only."""

    products: np.ndarray  # ((n_lags + 1) n_columns, the same), lag by lag
    n_lags: int
    n_rows: int  # that have so many before them
    scale: np.ndarray
    input_scale: np.ndarray
    input_mean: np.ndarray | None = None

    @classmethod
    def of(cls, x, n_lags, starts, scales):
        """Of a complete scaled record x (n_samples, n_columns), `n_lags` at most; `scales`: the last three fields."""
        n_lags = min(TUNING.own_past_most_lags, n_lags)
        at = np.concatenate([np.arange(start + n_lags, stop) for start, stop in episodes(starts, len(x))])
        products = np.zeros(((n_lags + 1) * x.shape[1],) * 2)
        for rows in np.array_split(at, len(at) // _PIECE + 1):  # copies of a long record would take memory
            together = np.hstack([x[rows], rows_before(x, rows, n_lags)])
            products += together.T @ together
        return cls(products, n_lags, len(at), *scales)

    @property
    def n_columns(self):
        """Measurements and inputs of a row."""
        return len(self.products) // (self.n_lags + 1)

    def scaled(self, Y, U, mean):
        """Rows ``[y, u]`` as they enter the products.

        `Y` is (n_samples, d), `U` (n_samples, k), the rows (n_samples, d + k).
        """
        rows = [(Y - mean) / self.scale]
        if len(self.input_scale):
            rows.append((U - self.input_mean) / self.input_scale)
        return np.hstack(rows)

    def evidence(self):
        """Log-likelihood of the best autoregression of the measurements per row, by BIC, less its penalty."""
        return max(self.evidences(), default=-np.inf)

    def evidences(self):
        """The same by number of lags."""
        d, found = len(self.scale), []
        for n_lags in range(1, self.n_lags + 1):
            B, S = self.autoregression(n_lags)
            value = -0.5 * (d * (_LOG_2PI + 1) + np.linalg.slogdet(S)[1]) - np.log(self.scale).sum()
            found.append(value - bic_penalty(B.size + d * (d + 1) / 2, self.n_rows))
        return found

    def autoregression(self, n_lags):
        """Coefficients of the measurements on the rows before them, and the covariance of what is left.

        The coefficients are (d, n_lags (d + k)), the covariance (d, d).
        """
        d = len(self.scale)
        return self.regression(np.zeros((0, d)), np.eye(d), n_lags)

    def regression(self, G, K, n_lags):
        """Coefficients of ``K y`` on ``G y`` and the rows before, and the covariance of what is left.

        G is (p, d), K (r, d); the coefficients are (r, p + n_lags (d + k)), the covariance (r, r).
        """
        (p, d), c, products = G.shape, self.n_columns, self.products
        n_past = n_lags * c
        past = slice(c, c + n_past)
        X = np.empty((p + n_past, p + n_past))
        X[:p, :p] = G @ products[:d, :d] @ G.T
        X[:p, p:] = G @ products[:d, past]
        X[p:, :p] = X[:p, p:].T
        X[p:, p:] = products[past, past]
        X[np.diag_indices(len(X))] *= 1 + _OWN_RIDGE
        X[np.diag_indices(len(X))] += self.n_rows * np.finfo(float).eps  # inputs that never move
        cross = np.hstack([K @ products[:d, :d] @ G.T, K @ products[:d, past]])
        size = np.sqrt(np.diag(X))
        B = solve(X / np.outer(size, size), (cross / size).T, assume_a="pos").T / size
        S = (K @ products[:d, :d] @ K.T - B @ cross.T - cross @ B.T + B @ X @ B.T) / self.n_rows
        return B, floor_eigenvalues(S, FLOOR)


class _Errors(NamedTuple):
    """Errors e of a :class:`ResidualModel` and what they were computed with."""

    white: np.ndarray  # (n_sensors - n_states, n_rows), standardised
    states: np.ndarray  # (n_rows, n_states)
    factor: np.ndarray  # Cholesky factor of the covariance of e
    rows: np.ndarray  # (n_rows,), positions in the record


@dataclass(frozen=True)
class ResidualModel:
    """``r[t] = B [s[t], past rows] + e[t]`` in scaled columns, where ``[s; r] = [G; K] y``."""

    to_states: np.ndarray  # G, (n_states, n_sensors)
    complement: np.ndarray  # K, (n_sensors - n_states, n_sensors)
    coefficients: np.ndarray  # B
    noise: np.ndarray  # covariance of e
    n_lags: int
    own_past: OwnPast
    mean: np.ndarray
    information: np.ndarray  # of the states in a row
    tails: Any = None  # of e

    @classmethod
    def learned(cls, own_past, C, R, mean):
        """The number of lags that most improves on independent sensor noise by BIC; None where none does."""
        scale, n = own_past.scale, own_past.n_rows
        C, R = C / scale[:, None], (np.diag(R) if R.ndim == 1 else R) / np.outer(scale, scale)
        d, p = C.shape
        W = weights(C, R)
        J = C.T @ W
        G = solve(J, W.T, assume_a="pos")
        K = null_space(G).T
        present = own_past.products[:d, :d]
        states = G @ present @ G.T
        best = -0.5 * (n * (d * _LOG_2PI + np.linalg.slogdet(R)[1]) + np.trace(np.linalg.solve(R, present)))
        best += 0.5 * (np.vdot(J, states) + n * (p * _LOG_2PI - np.linalg.slogdet(J)[1]))
        found, volume = None, np.linalg.slogdet(np.vstack([G, K]))[1]
        for n_lags in range(own_past.n_lags + 1):
            B, S = own_past.regression(G, K, n_lags)
            gain = n * (volume - 0.5 * (len(K) * (_LOG_2PI + 1) + np.linalg.slogdet(S)[1]))
            gain -= 0.5 * np.log(n) * (B.size + len(K) * (len(K) + 1) / 2)
            if gain > best:
                best, found = gain, cls(G, K, B, S, n_lags, own_past, mean, J)
        return found

    @property
    def _transform(self):
        """From scaled measurements to states and what they leave."""
        return np.vstack([self.to_states, self.complement])

    def const(self, Y, U, starts, const):
        """What a message about measurements adds to their log-density, shape (n_samples,).

        `const` is what the factor model gives: it stays where a measurement or one before it is missing.
        """
        errors = self._errors(Y, U, starts)
        white, s, L = errors.white, errors.states, errors.factor
        volume = np.linalg.slogdet(self._transform)[1] - np.log(self.own_past.scale).sum()
        found = const.copy()
        found[errors.rows] = (
            volume
            - 0.5 * ((white**2).sum(axis=0) + len(L) * _LOG_2PI)
            - np.log(np.diag(L)).sum()
            - 0.5 * (np.einsum("ti,ij,tj->t", s, self.information, s) + len(self.information) * _LOG_2PI)
            + 0.5 * np.linalg.slogdet(self.information)[1]
        )
        if self.tails is not None:
            found[errors.rows] += self.tails.gain(white.T)
        return found

    def errors(self, Y, U, starts):
        """Standardised e of the rows with all of their past. Shape (n_rows, n_sensors - n_states)."""
        return self._errors(Y, U, starts).white.T

    def left(self, Y, starts):
        """What states and past leave of each scaled sensor, and the rows that have all of their past."""
        rest, known = self._rest(Y, None, starts)
        s, r = np.hsplit(((Y[known] - self.mean) / self.own_past.scale) @ self._transform.T, [len(self.to_states)])
        return (r - rest(s)) @ np.linalg.inv(self._transform)[:, len(self.to_states) :].T, known

    def _errors(self, Y, U, starts):
        """Standardised e of the rows with all of their past, a `_Errors`."""
        rest, known = self._rest(Y, U, starts)
        scaled = (Y[known] - self.mean) / self.own_past.scale
        s = scaled @ self.to_states.T
        errors = scaled @ self.complement.T - rest(s)
        L = np.linalg.cholesky(self.noise)
        return _Errors(np.linalg.solve(L, errors.T), s, L, known)

    def expected(self, states, Y, U, starts, expected):
        """Measurements of predicted states, given the rows before each.

        `expected` is what the factor model gives: it stays where a measurement before a row is missing.
        """
        rest, known = self._rest(Y, U, starts, present=False)
        both = np.hstack([states[known], rest(states[known])])
        found = expected.copy()
        found[known] = np.linalg.solve(self._transform, both.T).T * self.own_past.scale + self.mean
        return found

    def _rest(self, Y, U, starts, present=True):
        """Expected r of the rows with all of their past, as a function of their states; the rows."""
        x = self.own_past.scaled(Y, U, self.mean)
        known = complete_before(x, starts) >= self.n_lags
        at = np.flatnonzero(known & np.isfinite(x).all(axis=1) if present else known)
        p = len(self.to_states)
        by_past = rows_before(x, at, self.n_lags) @ self.coefficients[:, p:].T
        return lambda states: states @ self.coefficients[:, :p].T + by_past, at


def bic_penalty(n_free, n_rows):
    """What free numbers have to gain per row."""
    return 0.5 * n_free * np.log(n_rows) / n_rows


def rows_before(x, at, n_lags):
    """The rows before some rows side by side, the last one first.

    `x` is (n_samples, c), `at` (n_rows,), the result (n_rows, n_lags c).
    """
    return np.hstack([x[at - lag] for lag in range(1, n_lags + 1)] or [np.zeros((len(at), 0))])


@dataclass(frozen=True)
class OwnDensity:
    """``y[t] = B [y[t-1], u[t-1], ..., y[t-k], u[t-k]] + e[t]`` in scaled columns, of as many rows as there are."""

    orders: tuple  # (B, Cholesky factor of the covariance of e) of 0, 1, ..., p rows before
    own_past: OwnPast
    mean: np.ndarray
    tails: Any = None  # of e given p rows

    @classmethod
    def learned(cls, own_past, mean):
        """The number of lags that BIC prefers."""
        best = int(np.argmax(own_past.evidences())) + 1
        return cls(tuple(_order(own_past, k) for k in range(best + 1)), own_past, mean)

    @property
    def penalty(self):
        """Log-likelihood per row that its coefficients have to gain by BIC."""
        B, L = self.orders[-1]
        return bic_penalty(B.size + len(L) * (len(L) + 1) / 2, self.own_past.n_rows)

    def with_tails(self, Y, U, starts):
        """The same with the tails of a record."""
        errors = self._errors(Y, U, starts)[-1][1]
        complete = errors[np.isfinite(errors).all(axis=1)]
        return replace(self, tails=heavy_tails(solve_triangular(self.orders[-1][1], complete.T, lower=True).T))

    def log_density(self, Y, U, starts):
        """Log-density of each row given the unit's own rows before, shape (n_samples,)."""
        found = np.zeros(len(Y))
        for at, errors, L in self._errors(Y, U, starts):
            seen = np.isfinite(errors)
            for pattern in np.unique(seen, axis=0):
                rows = (seen == pattern).all(axis=1)
                tails = self.tails if pattern.all() and L is self.orders[-1][1] else None
                found[at[rows]] = self._density(errors[np.ix_(rows, pattern)], pattern, L, tails)
        return found

    def _density(self, errors, pattern, L, tails):
        """Log-density of the errors of some columns."""
        if not pattern.all():
            L = np.linalg.cholesky((L @ L.T)[np.ix_(pattern, pattern)])
        white = solve_triangular(L, errors.T, lower=True).T
        size = np.log(np.diag(L)).sum() + np.log(self.own_past.scale[pattern]).sum()
        value = -0.5 * ((white**2).sum(axis=1) + len(L) * _LOG_2PI) - size
        return value if tails is None else value + tails.gain(white)

    def _errors(self, Y, U, starts):
        """Rows, their errors and the factor of those, by the number of complete rows before them."""
        x = self.own_past.scaled(Y, U, self.mean)
        before, most = complete_before(x, starts), len(self.orders) - 1
        found = []
        for k, (B, L) in enumerate(self.orders):
            at = np.flatnonzero(np.minimum(before, most) == k)
            found.append((at, x[at, : len(B)] - rows_before(x, at, k) @ B.T, L))
        return found


def complete_before(x, starts):
    """How many rows of its episode right before each row are complete.

    `x` is (n_samples, c), the result (n_samples,).
    """
    complete = np.isfinite(x).all(axis=1)
    begins = np.zeros(len(x), dtype=int)
    begins[1:] = np.where(complete[:-1], 0, np.arange(1, len(x)))
    begins[list(starts)] = starts
    return np.arange(len(x)) - np.maximum.accumulate(begins)


def _order(own_past, k):
    """Coefficients of k rows before, and the Cholesky factor of what they leave."""
    if k == 0:
        d = len(own_past.scale)
        S = floor_eigenvalues(own_past.products[:d, :d] / own_past.n_rows, FLOOR)
        return np.zeros((d, 0)), np.linalg.cholesky(S)
    B, S = own_past.autoregression(k)
    return B, np.linalg.cholesky(S)


# Lag covariances of one unit's measurements and inputs: all that a unit's own identification works on.

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
        self._raw = Y, U
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
        """Lag covariances of a complete record; whether it is one."""
        x, d = np.hstack(self._parts), self._d
        if not np.isfinite(x.sum()):
            return False
        level = column_mean(x)
        for mean, own in ((self.mean, slice(d)), (self.input_mean, slice(d, None))):
            level[own] = level[own] if mean is None else mean
        x -= level
        sums = lag_covariances(x, lags, self.starts)
        if not np.isfinite(np.trace(sums[0])):
            return False
        self.mean = level[:d]
        if self._raw[1] is not None:
            self.input_mean = level[d:]
        scale = np.sqrt(np.diag(sums[0]) / self.n_samples)
        scale[d:][scale[d:] == 0] = 1.0  # an input that never moves gets the coefficient zero
        self.scale, self._input_scale = scale[:d], scale[d:]
        self._G = self._V = sums / np.outer(scale, scale) / self.n_samples
        return True

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


# Level shifts of a unit's record, taken off before its sensors are identified.
#
# What counts as noise of a sensor is judged against its variance, and a level that shifts looks like one more state
# with a pole near one: C and R must be learned from the rest. Messages keep the shift: which units it acts on is the
# business of the server.

_RATES = (0.0, 0.8, 0.95, 0.98, 0.99)  # at which a unit may settle at its new level


def without_shifts(Y, starts, least=0.0):
    """Measurements (n_samples, n_sensors) less their shifts of level; `Y` itself without any, or with gaps.

    With a `least` share they are left where they are as well if they take no more than that of the variance of any
    column, or if there are more than a few: these are modes, whose levels are usual.
    """
    if not (len(Y) and np.isfinite(Y.sum())):
        return Y
    changes = common_changes(Y, starts)
    if not changes or (least and len(changes) > TUNING.shifts_few):
        return Y
    level = column_mean(Y)
    followed = np.column_stack([np.ones(len(Y)), *(_followed(change, starts, len(Y)) for change in changes)])
    rest = Y - level - followed @ np.linalg.lstsq(followed, Y - level, rcond=TUNING.shifts_alike)[0]
    left = np.square(rest).sum(axis=0) / np.maximum(np.square(Y - level).sum(axis=0), np.finfo(float).tiny)
    return rest + level if 1 - left.min() > least else Y


def common_changes(Y, starts):
    """Changes of level of complete series (n_samples, k) in the directions in which they vary most together."""
    around = Y - column_mean(Y)
    squares = around.T @ around
    size = np.sqrt(np.maximum(squares.diagonal(), np.finfo(float).tiny))
    axes = np.linalg.eigh(squares / np.outer(size, size))[1][:, -TUNING.shifts_axes :]
    return find_changes(around @ (axes / size[:, None]), starts)


def _followed(change, starts, n_samples):
    """A change of level as units of several rates follow it, to the end of its episode, (n_samples, n_rates)."""
    columns = np.zeros((n_samples, len(_RATES)))
    stop = min((start for start in starts if start > change.start), default=n_samples)
    path = change.path(np.arange(change.start, stop))
    for column, rate in zip(columns.T, _RATES, strict=True):
        column[change.start : stop] = lfilter([1 - rate], [1, -rate], path)
    return columns
