"""Expected information of the coefficients of a plant of several lags, one unit's rows at a time.

Of the coefficients ``(i, c, k)``, row i, regressor c, lag k, of one unit

    I[(i, c, k), (i', c', l)] = T mean_w Re exp(iw(l - k)) U_i'i V_cc'

with ``U`` the unit's block of ``Phi^-1`` and V the spectrum of the regressors as the plant smooths them, plus
the further term ``T mean_w Re exp(-iw(k + l)) W_ci' W_c'i``, ``W = Z^-1 Q Phi^-1``, of states that the noise
of the unit's rows reaches: its own, and those that follow them.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from ..episodes import episodes
from ..matrices import hermitian
from .tuning import TUNING

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
