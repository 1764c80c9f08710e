"""Whittle likelihood of a plant of several lags seen through unit scores, and its expected information."""

from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
from scipy.fft import next_fast_len
from scipy.linalg import solve_triangular
from scipy.sparse.csgraph import connected_components

from ..episodes import episodes, lag_covariances
from ..matrices import definite_inverses, hermitian
from .tuning import TUNING

# Whittle likelihood of a plant of several lags seen through unit scores.
#
# The scores ``s = h + e`` of a plant ``h[t] = sum_k A_k h[t-k] + sum_k B_k u[t-k] + w[t]`` leave the
# residuals ``r[t] = s[t] - sum_k A_k s[t-k] - sum_k B_k u[t-k]``, a moving average with the spectrum ``Phi = Q
# + Z N Z^H``, ``Z = I - sum_k A_k exp(-i w k)``, ``N = Cov e``. With the Fourier sum I_r(w) of the lag
# covariances of r
#
#     log-likelihood / T = -1/2 mean_w [ log det Phi + tr Phi^-1 I_r ],
#
# as for one lag (:mod:`skfedcausal.statespace.whittle`), whose only poles are those of the filter. All sums
# over time are functions of the lag covariances of `[s; u]` and of a few rows at the ends of episodes, so that
# a value and its gradient cost the same whatever the length of the record.


class LagSums(NamedTuple):
    """Sums over a record of `[s; u]`, states' scores first, for plants of up to `n_lags` lags.

    The likelihood of rows from `n_lags` on of each episode needs of the rows only their lag sums, and those
    within `n_lags + memory` rows of an episode's ends: `r[t] = sum_k Z_k x[t-k]`, formed as if the series
    were zero outside the episode, is a convolution whose first and last rows are then taken off again.
    """

    sums: np.ndarray  # (n_lags + memory + 1, c, c): sum_t x[t+m] x[t]'
    heads: np.ndarray  # (n_episodes, window, c): first rows, window = n_lags + memory
    tails: np.ndarray  # (n_episodes, window, c): last rows
    short: np.ndarray  # (n_short, rows, c): episodes too short to have both, zero behind their ends
    lengths: np.ndarray  # (n_short,)
    n_lags: int
    memory: int
    n_rows: int  # of the likelihood

    @classmethod
    def of(cls, series, starts, n_lags, memory, known=None):
        """Of a series (T, c); `known` are its lag sums as far as somebody has them."""
        window, c = n_lags + memory, series.shape[1]
        bounds = np.array(episodes(starts, len(series)))
        long = bounds[:, 1] - bounds[:, 0] >= 2 * window
        needed = window + 1
        if known is not None and long.all():
            sums = known[:needed]
            if len(sums) < needed:
                sums = np.concatenate([sums, lag_covariances(series, range(len(sums), needed), starts)])
        else:
            sums = np.zeros((needed, c, c))
            for start, stop in bounds[long]:
                sums += lag_covariances(series[start:stop], range(needed))
        heads = np.array([series[a : a + window] for a, _ in bounds[long]]).reshape(-1, window, c)
        tails = np.array([series[b - window : b] for _, b in bounds[long]]).reshape(-1, window, c)
        kept = bounds[~long & (bounds[:, 1] - bounds[:, 0] > n_lags)]
        short = np.zeros((len(kept), 2 * window, c))
        for rows, (a, b) in zip(short, kept, strict=True):
            rows[: b - a] = series[a:b]
        lengths = kept[:, 1] - kept[:, 0] if len(kept) else np.zeros(0, dtype=int)
        n_rows = int((bounds[long, 1] - bounds[long, 0] - n_lags).sum() + (lengths - n_lags).sum())
        if n_rows <= 0:
            raise ValueError(f"No episode is longer than the {n_lags} lags of the plant.")
        return cls(sums, heads, tails, short, lengths, n_lags, memory, n_rows)

    def transformed(self, T):
        """Those of the series ``T x``."""
        rows = {name: getattr(self, name) @ T.T for name in ("heads", "tails", "short")}
        return self._replace(sums=T @ self.sums @ T.T, **rows)


class LaggedPoint:
    """Value per row of the likelihood at a plant; its gradients, and what information is made of, when asked for."""

    def __init__(self, likelihood, filtered, Q):
        self._likelihood, self._filtered = likelihood, filtered
        # Phi^-1, (n_frequencies, n, n), and log |Phi|
        self.inverse, self._logdet = definite_inverses(Q + filtered.noise)

    @cached_property
    def value(self):
        """Log-likelihood per row, up to a constant."""
        fit = np.einsum("fij,fji->f", self.inverse, self._filtered.products).real
        return -0.5 * float(self._likelihood.weights @ (self._logdet + fit))

    @cached_property
    def _misfit(self):
        X = self.inverse
        return X @ self._filtered.products @ X - X

    @cached_property
    def grad_Q(self):
        """Gradient with respect to Q, (n, n)."""
        grad = 0.5 * np.tensordot(self._likelihood.weights, self._misfit.real, 1)
        return (grad + grad.T) / 2

    @cached_property
    def grad(self):
        """Gradient with respect to the coefficients of `[s; u]` by lag, (n_lags + 1, n, c)."""
        likelihood, filtered = self._likelihood, self._filtered
        kept, n_fft = slice(likelihood.n_lags + 1), likelihood.n_fft
        near = likelihood.near(self.inverse)
        grad = np.fft.irfft(near @ filtered.with_regressors, n_fft, axis=0)[kept]
        for end in filtered.ends:
            grad -= end.outside(near)
        if filtered.short is not None:
            grad -= filtered.short.outside(near)
        grad /= likelihood.n_rows
        # mean_w of exp(iwk) E Z N
        grad[:, :, : likelihood.n] -= np.fft.irfft(self._misfit @ filtered.ZN, n_fft, axis=0)[kept]
        return grad

    @cached_property
    def grad_N(self):
        """Gradient with respect to the noise of the scores, (n, n)."""
        Z = self._filtered.F[..., : self._likelihood.n]
        grad = 0.5 * np.tensordot(self._likelihood.weights, (hermitian(Z) @ self._misfit @ Z).real, 1)
        return (grad + grad.T) / 2


class _Filtered:
    """What the likelihood of a record needs of the coefficients of a plant, whatever its process noise."""

    def __init__(self, likelihood, coefficients):
        n = likelihood.n
        self.coefficients = coefficients.copy()
        self.F = likelihood.residual_filter(coefficients)
        Z = self.F[..., :n]
        self.ZN = Z @ likelihood.N
        self.noise = self.ZN @ hermitian(Z)
        self._crossed = self.F @ likelihood.spectrum
        products = self._crossed @ hermitian(self.F)
        self.ends, self.short = [_EndResiduals(end, self.F) for end in likelihood.ends], None
        for end in self.ends:
            products -= end.products()
        if likelihood.short is not None:
            rows, lengths = likelihood.short
            self.short = _ShortResiduals(coefficients, rows, lengths, n, likelihood.n_lags, likelihood.n_fft)
            products += self.short.products()
        self.products = likelihood.near(products) / likelihood.n_rows  # I_r

    @cached_property
    def with_regressors(self):
        """Products of the residuals with the regressors, over the record."""
        crossed = self._crossed
        for end in self.ends:
            crossed -= end.with_regressors()
        if self.short is not None:
            crossed += self.short.with_regressors()
        return crossed


class LaggedLikelihood:
    """Likelihood as a function of the coefficients (n_lags + 1, n, c) and Q (n, n), from `LagSums`."""

    def __init__(self, sums, N):
        self.N, self.n = N, len(N)
        self.n_lags, self.memory, self.n_rows = sums.n_lags, sums.memory, sums.n_rows
        self.c = sums.sums.shape[1]
        p, L = self.n_lags, self.memory
        # products of X (L lags either way), of Z (p) and of the covariances (L + p) do not overlap
        self.n_fft = next_fast_len(max(2 * L + 3 * p + 1, 64), real=True)
        self.weights = np.full(self.n_fft // 2 + 1, 2.0 / self.n_fft)
        self.weights[0] = 1.0 / self.n_fft
        if self.n_fft % 2 == 0:
            self.weights[-1] = 1.0 / self.n_fft
        circle = np.zeros((self.n_fft, self.c, self.c))
        circle[: p + L + 1] = sums.sums
        circle[-(p + L) :] = np.swapaxes(sums.sums[:0:-1], 1, 2)
        self.spectrum = np.fft.rfft(circle, axis=0)
        self._window = np.zeros(self.n_fft)
        self._window[: L + 1] = 1.0
        self._window[self.n_fft - L :] = 1.0
        ends = (sums.heads, slice(p)), (sums.tails, slice(p + L, 2 * p + L))
        self.ends = [_Ends(rows, self, slice(p, p + L), outside) for rows, outside in ends if len(rows)]
        self.short = (sums.short, sums.lengths) if len(sums.short) else None
        self._last = None

    def residual_filter(self, coefficients, n_fft=None):
        """``[Z | -B]`` at the frequencies, shape (n_frequencies, n, c)."""
        z = -coefficients
        z[0, :, : self.n] += np.eye(self.n)
        return np.fft.rfft(z, n_fft or self.n_fft, axis=0)

    def evaluate(self, coefficients, Q):
        """The :class:`LaggedPoint` of a plant; another Q at the coefficients asked for last costs half."""
        if self._last is None or not np.array_equal(self._last.coefficients, coefficients):
            self._last = _Filtered(self, coefficients)
        return LaggedPoint(self, self._last, Q)

    def near(self, x):
        """A spectrum without what it has beyond the lags that the likelihood remembers."""
        lags = np.fft.irfft(x, self.n_fft, axis=0)
        lags *= self._window[:, None, None]
        return np.fft.rfft(lags, axis=0)

    def winds(self, coefficients, n_fft=1024):
        """Whether some root of the plant lies outside the circle: the phase of det Z winds.

        det Z is the product of those of the groups of states that act on one another.
        """
        A = coefficients[..., : self.n]
        n_groups, group = connected_components(A.any(axis=0), connection="strong")
        phase = 0.0
        for own in (np.flatnonzero(group == k) for k in range(n_groups)):
            z = -A[:, own[:, None], own]
            z[0] += np.eye(len(own))
            turn = np.unwrap(np.angle(np.linalg.slogdet(np.fft.rfft(z, n_fft, axis=0))[0]))
            phase += turn[-1] - turn[0]
        return bool(abs(phase) > 1.0)


class _Ends:
    """Rows at the beginning or the end of episodes, by which a convolution over all rows errs."""

    def __init__(self, rows, likelihood, inside, outside):
        self.n_fft, self.p, self.inside, self.outside = likelihood.n_fft, likelihood.n_lags, inside, outside
        self.spectrum = np.fft.rfft(rows, self.n_fft, axis=1)  # (episodes, f, c)


class _EndResiduals:
    """The residuals of the rows inside the likelihood, and of the convolution outside."""

    def __init__(self, ends, F):
        self._ends = ends
        full = np.fft.irfft(np.einsum("fij,efj->efi", F, ends.spectrum), ends.n_fft, axis=1)
        self.r, self.e = (self._of_rows(full, rows) for rows in (ends.inside, ends.outside))

    def _of_rows(self, series, rows):
        """The spectrum of some rows alone."""
        kept = np.zeros_like(series)
        kept[:, rows] = series[:, rows]
        return np.fft.rfft(kept, axis=1)

    def products(self):
        """What the products of the convolution have too much."""
        cross = _spectra(self.r, self.e)
        return cross + hermitian(cross) + _spectra(self.e, self.e)

    def with_regressors(self):
        """Products of the residuals outside the likelihood with the regressors."""
        return _spectra(self.e, self._ends.spectrum)

    def outside(self, near):
        """Products of the whitened residuals of rows outside the likelihood with the regressors, by lag."""
        n_fft = self._ends.n_fft
        y = np.fft.irfft(np.einsum("fij,efj->efi", near, self.r), n_fft, axis=1)
        products = _spectra(self._of_rows(y, self._ends.outside), self._ends.spectrum)
        return np.fft.irfft(products, n_fft, axis=0)[: self._ends.p + 1]


def _spectra(x, y):
    """Sum over episodes of cross-spectra, shape (f, i, j)."""
    return np.einsum("efi,efj->fij", x, np.conj(y))


class _ShortResiduals:
    """Residuals of short episodes, formed row by row."""

    def __init__(self, coefficients, rows, lengths, n, p, n_fft):
        self._p, self._n_fft = p, n_fft
        size = next_fast_len(2 * (rows.shape[1] + p) + n_fft, real=True)
        z = -coefficients
        z[0, :, :n] += np.eye(n)
        F = np.fft.rfft(z, size, axis=0)
        self._x = np.fft.rfft(rows, size, axis=1)
        r = np.fft.irfft(np.einsum("fij,efj->efi", F, self._x), size, axis=1)
        t = np.arange(size)
        self._inside = ((t >= p) & (t < lengths[:, None]))[..., None]
        self._size = size
        self._r = np.fft.rfft(np.where(self._inside, r, 0.0), axis=1)

    def _by_lag(self, spectra, behind, ahead):
        """Spectra on the grid of the likelihood of products at the lags from -behind to ahead."""
        lags = np.fft.irfft(spectra, self._size, axis=0)
        kept = np.zeros((self._n_fft, *lags.shape[1:]))
        kept[: ahead + 1] = lags[: ahead + 1]
        kept[self._n_fft - behind :] = lags[self._size - behind :]
        return np.fft.rfft(kept, axis=0)

    def products(self):
        reach = (self._n_fft - 1) // 2
        return self._by_lag(_spectra(self._r, self._r), reach, reach)

    def with_regressors(self):
        reach = (self._n_fft - 1 - self._p) // 2
        return self._by_lag(_spectra(self._r, self._x), reach, reach + self._p)

    def outside(self, near):
        lags = np.fft.irfft(near, self._n_fft, axis=0)
        half = self._n_fft // 2
        longer = np.zeros((self._size, *lags.shape[1:]))
        longer[: half + 1], longer[-(self._n_fft - half - 1) :] = lags[: half + 1], lags[half + 1 :]
        y = np.fft.irfft(np.einsum("fij,efj->efi", np.fft.rfft(longer, axis=0), self._r), self._size, axis=1)
        kept = np.where(self._inside, 0.0, y)
        products = _spectra(np.fft.rfft(kept, axis=1), self._x)
        return np.fft.irfft(products, self._size, axis=0)[: self._p + 1]


# Expected information of the coefficients of a plant of several lags, one unit's rows at a time.
#
# Of the coefficients ``(i, c, k)``, row i, regressor c, lag k, of one unit
#
#     I[(i, c, k), (i', c', l)] = T mean_w Re exp(iw(l - k)) U_i'i V_cc'
#
# with ``U`` the unit's block of ``Phi^-1`` and V the spectrum of the regressors as the plant smooths them, plus
# the further term ``T mean_w Re exp(-iw(k + l)) W_ci' W_c'i``, ``W = Z^-1 Q Phi^-1``, of states that the noise
# of the unit's rows reaches: its own, and those that follow them.

WINDOW = 1 << 13  # rows that a periodogram is taken of at once
_CELLS = 128  # frequencies over the half circle into which a record's periodogram is averaged


def averaged_periodogram(series, starts):
    """Spectrum of a series on `_CELLS` + 1 frequencies from 0 to pi, each the mean over its neighbourhood.

    Averages of a periodogram are positive at every frequency, which Fourier sums of a few lag covariances are
    not; of shape (n_frequencies, c, c). Of episodes of more than `WINDOW` rows it is that of windows of so many, as
    they can be taken while an episode goes on.
    """
    total = np.zeros((_CELLS + 1, *series.shape[1:] * 2), dtype=complex)
    for start, stop in episodes(starts, len(series)):
        for first in range(start, stop, WINDOW):
            total += window_spectrum(series[first : min(first + WINDOW, stop)])
    return total / len(series)


def window_spectrum(rows):
    """The same of a window of rows, times their number."""
    F, edges = np.fft.rfft(rows, max(len(rows), 2 * _CELLS), axis=0), _edges(len(rows))
    return np.array([F[a:b].T @ np.conj(F[a:b]) / (b - a) for a, b in zip(edges[:-1], edges[1:], strict=True)])


def of_lowest(n_rows):
    """Frequencies that the lowest of a window's spectrum is the mean over."""
    return _edges(n_rows)[1]


@cache
def _edges(n_rows):
    n = max(n_rows, 2 * _CELLS) // 2 + 1
    cell = np.rint(np.arange(n) * (_CELLS / (n - 1))).astype(int)
    return np.searchsorted(cell, np.arange(_CELLS + 2)).tolist()


class Elements(NamedTuple):
    """Coefficients of a unit's rows, one after another: where they are in an array (lag, row, column)."""

    lag: np.ndarray
    row: np.ndarray
    col: np.ndarray

    @classmethod
    def of(cls, rows, columns):
        """Those of the rows, a slice, and of columns with their lags, pairs (col, lags); row by row."""
        n_rows, sizes = rows.stop - rows.start, [len(lags) for _, lags in columns]
        lags, cols = np.concatenate([lags for _, lags in columns]), np.repeat([col for col, _ in columns], sizes)
        return cls(np.tile(lags, n_rows), np.repeat(np.arange(rows.start, rows.stop), len(lags)), np.tile(cols, n_rows))

    @classmethod
    def joined(cls, parts):
        """Those of several."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))


class RowInformation:
    """Information at a plant, from the periodogram (n_cells + 1, c, c) of the record's `[s; u]`."""

    def __init__(self, likelihood, coefficients, Q, periodogram):
        self._n_rows, n = likelihood.n_rows, likelihood.n
        self.n_fft = 2 * (len(periodogram) - 1)
        F = likelihood.residual_filter(coefficients, self.n_fft)
        Z, N = F[..., :n], likelihood.N
        ZN = Z @ N
        self.U = np.linalg.inv(Q + ZN @ hermitian(Z))
        if N.any():
            M = -(hermitian(ZN) @ self.U) @ F
            M[..., :n] += np.eye(n)
            smoothed = M @ periodogram
            self.V = np.empty_like(periodogram)
            self.V[:, :n, :n] = smoothed @ hermitian(M)
            self.V[:, :n, n:] = smoothed[..., n:]
            self.V[:, n:, :n] = hermitian(smoothed[..., n:])
            self.V[:, n:, n:] = periodogram[:, n:, n:]
        else:
            self.V = periodogram
        # by which the noise of rows reaches the regressors, so that the states tell of the noise as well
        self.W = np.zeros((len(F), *F.shape[:0:-1]), dtype=complex)
        if N.any():
            self.W[:, :n] = np.linalg.solve(Z, Q @ self.U)

    def of_rows(self, rows, elements):
        """Information of :class:`Elements` of the rows, a slice, (n, n), made positive where it is not."""
        H, term = self._terms(rows, elements, elements)
        return H if term is None else floored_sum(H, term)

    def between(self, rows, first, second):
        """Information of some :class:`Elements` of the rows with others, (n_first, n_second)."""
        found, term = self._terms(rows, first, second)
        return found if term is None else found + term

    def of_each(self, rows, columns, lags):
        """Information of several sets of columns (m, k) of the same lags (k lists), each with itself: (m, e, e)."""
        lag, at, m = np.concatenate(lags), np.repeat(np.arange(len(lags)), list(map(len, lags))), len(columns)
        U = np.swapaxes(self.U[:, rows, rows], 1, 2)
        p = U.shape[1]
        V = self.V[:, columns[:, :, None], columns[:, None]]
        products = U.reshape(-1, 1, p, p, 1, 1) * V[:, :, None, None]
        moments = np.fft.irfft(products, self.n_fft, axis=0)
        found = moments[lag - lag[:, None], :, :, :, at[:, None], at]  # (first, second, m, i, i')
        W = self.W[:, columns, rows]
        if np.abs(W).max() >= TUNING.information_not_reached:
            products = np.conj(np.einsum("fxaj,fxci->fxijac", W, W))
            moments = np.fft.irfft(products, self.n_fft, axis=0)
            found = found + moments[lag + lag[:, None], :, :, :, at[:, None], at]
        return np.transpose(found, (2, 3, 0, 4, 1)).reshape(m, p * len(at), p * len(at)) * self._n_rows

    def _terms(self, rows, first, second):
        """Information of regressors that the noise of the rows does not reach, and what it adds; None where nothing."""
        p, (cols1, at1), (cols2, at2) = rows.stop - rows.start, *(_columns(part) for part in (first, second))
        at1, at2 = (first.row - rows.start) * len(cols1) + at1, (second.row - rows.start) * len(cols2) + at2
        sides = p * len(cols1), p * len(cols2)
        # with themselves the products of a place with a later one say all
        pairs = np.triu_indices(sides[0]) if first is second else np.indices(sides).reshape(2, -1)
        (i, c), (j, d) = (divmod(places, len(cols)) for places, cols in zip(pairs, (cols1, cols2), strict=True))
        U, V = self.U[:, rows, rows], self.V[:, cols1[:, None], cols2]
        products = _elements(U, j, i) * _elements(V, c, d)
        # E x_c[t-k] x_d[t-l] is a covariance at lag l - k
        found = self._at_lags(products, (pairs, sides), (at1, first.lag), (at2, second.lag), sign=-1)
        W1, W2 = (self.W[:, cols, rows] for cols in (cols1, cols2))
        if min(np.abs(W1).max(), np.abs(W2).max()) < TUNING.information_not_reached:
            return found, None
        products = np.conj(_elements(W1, c, j) * _elements(W2, d, i))
        return found, self._at_lags(products, (pairs, sides), (at1, first.lag), (at2, second.lag), sign=1)

    def _at_lags(self, products, places, first, second, *, sign):
        """Covariances of spectra (f, n_pairs) at lags, the first ones by a sign added to the second.

        Of pairs of places out of so many on either side; `first` and `second` are the places and lags that are asked
        for.
        """
        (pairs, sides), (at1, lag1), (at2, lag2) = places, first, second
        is_symmetric, lag1 = lag1 is lag2, sign * lag1
        least, most = int(lag1.min() + lag2.min()), int(lag1.max() + lag2.max())
        known = np.concatenate([products.real, products.imag]).T @ _of_lags(self.n_fft, least, most)
        moments = np.empty((*sides, known.shape[1]))
        if is_symmetric:  # but for rounding on the diagonal
            moments[pairs[::-1]] = known[:, ::sign]
        moments[tuple(pairs)] = known
        n_lags = moments.shape[2]
        first, second = at1 * sides[1] * n_lags + lag1 - least, at2 * n_lags + lag2
        return moments.ravel().take(first[:, None] + second) * self._n_rows


def _elements(x, rows, cols):
    """Elements of matrices (f, n, m) at rows and columns, (f, n_elements)."""
    return x.reshape(len(x), -1).take(rows * x.shape[2] + cols, axis=1)


def _columns(elements):
    """The columns of some elements, each once, and which of these an element has."""
    return np.unique(elements.col, return_inverse=True)


@cache
def _of_lags(n_fft, least, most):
    """What turns the real and imaginary parts of a half spectrum into the covariances at some lags."""
    angles = 2 * np.pi / n_fft * np.outer(np.arange(n_fft // 2 + 1), np.arange(least, most + 1))
    turns = np.concatenate([np.cos(angles), -np.sin(angles)]) * (2 / n_fft)
    turns[[0, n_fft // 2]] /= 2
    turns[[n_fft // 2 + 1, n_fft + 1]] = 0.0
    return turns


def floored_sum(H, term):
    """``H + term``, at least `TUNING.information_least` times H in every direction."""
    diagonal = np.maximum(H.diagonal(), TUNING.information_rounding * H.diagonal().max())
    H = H + TUNING.information_rounding * np.diag(diagonal)
    try:
        np.linalg.cholesky(term + (1 - TUNING.information_least) * H)
    except np.linalg.LinAlgError:
        scale = 1 / np.sqrt(diagonal)
        H, term = (scale[:, None] * x * scale for x in (H, term))
        L = np.linalg.cholesky(H)
        half = solve_triangular(L, term, lower=True, check_finite=False)
        share, along = np.linalg.eigh(solve_triangular(L, half.T, lower=True, check_finite=False))
        root = (L @ along) / scale[:, None]
        return (root * np.maximum(1 + share, TUNING.information_least)) @ root.T
    return H + term
