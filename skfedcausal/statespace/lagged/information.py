"""Expected information of the coefficients of a plant of several lags, one unit's rows at a time.

Of the coefficients ``(i, c, k)``, row i, regressor c, lag k, of one unit

    I[(i, c, k), (i', c', l)] = T mean_w Re exp(iw(l - k)) U_i'i V_cc'

with ``U`` the unit's block of ``Phi^-1`` and V the spectrum of the regressors as the plant smooths them, plus
the further term ``T mean_w Re exp(-iw(k + l)) W_ci' W_c'i``, ``W = Z^-1 Q Phi^-1``, of states that the noise
of the unit's rows reaches: its own, and those that follow them.
"""

from functools import cache

import numpy as np
from scipy.linalg import solve_triangular

from ..episodes import episodes
from ..matrices import hermitian

WINDOW = 1 << 13  # rows that a periodogram is taken of at once
_CELLS = 128  # frequencies over the half circle into which a record's periodogram is averaged
_LEAST = 0.25  # to which the further term may shrink a direction
_NOT_REACHED = 1e-9
_ROUNDING = 1e-10


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

    def of_rows(self, rows, columns):
        """Information of the rows' coefficients, (n, n), made positive where it is not."""
        size = (rows.stop - rows.start) * sum(len(lags) for _, lags in columns)
        H = self.expected(rows, columns, columns).reshape(size, size)
        H = (H + H.T) / 2
        term = self.further(rows, columns, columns)
        if term is None:
            return H
        term = term.reshape(size, size)
        return floored_sum(H, (term + term.T) / 2)

    def between(self, rows, first, second):
        """Information of columns with their lags, two lists of pairs (col, lags), with each other.

        Of shape (n_rows, n_first, n_rows, n_second), the lags of each column in a row.
        """
        found, term = self.expected(rows, first, second), self.further(rows, first, second)
        return found if term is None else found + term

    def of_each(self, rows, columns, lags):
        """Information of several sets of columns (m, k) of the same lags (k lists), each with itself: (m, e, e)."""
        (_, lag, at), m = _places(list(enumerate(lags))), len(columns)
        U = np.swapaxes(self.U[:, rows, rows], 1, 2)
        p = U.shape[1]
        V = self.V[:, columns[:, :, None], columns[:, None]]
        products = U.reshape(-1, 1, p, p, 1, 1) * V[:, :, None, None]
        moments = np.fft.irfft(products, self.n_fft, axis=0)
        found = moments[lag - lag[:, None], :, :, :, at[:, None], at]  # (first, second, m, i, i')
        W = self.W[:, columns, rows]
        if np.abs(W).max() >= _NOT_REACHED:
            products = np.conj(np.einsum("fxaj,fxci->fxijac", W, W))
            moments = np.fft.irfft(products, self.n_fft, axis=0)
            found = found + moments[lag + lag[:, None], :, :, :, at[:, None], at]
        return np.transpose(found, (2, 3, 0, 4, 1)).reshape(m, p * len(at), p * len(at)) * self._n_rows

    def expected(self, rows, first, second):
        """The same without further terms: of regressors that the noise of the rows does not reach."""
        (col1, lag1, at1), (col2, lag2, at2) = _places(first), _places(second)
        U = np.swapaxes(self.U[:, rows, rows], 1, 2)
        p = U.shape[1]
        V = self.V[:, col1[:, None], col2]
        products = U.reshape(len(U), p, p, 1, 1) * V[:, None, None]
        moments = np.fft.irfft(products, self.n_fft, axis=0) * self._n_rows
        shift = lag2 - lag1[:, None]  # E x_c[t-k] x_d[t-l] is a covariance at lag l - k
        found = moments[shift, :, :, at1[:, None], at2]  # (first, second, i, i')
        return np.transpose(found, (2, 0, 3, 1))

    def further(self, rows, first, second):
        """The terms of regressors that the noise of the rows reaches, None where there are none."""
        (col1, lag1, at1), (col2, lag2, at2) = _places(first), _places(second)
        W = [self.W[:, cols, rows] for cols in (col1, col2)]
        if min(np.abs(w).max() for w in W) < _NOT_REACHED:
            return None
        products = np.conj(np.einsum("faj,fci->fiajc", *W))
        moments = np.fft.irfft(products, self.n_fft, axis=0) * self._n_rows
        found = moments[lag1[:, None] + lag2, :, at1[:, None], :, at2]  # (first, second, i, i')
        return np.transpose(found, (2, 0, 3, 1))


def _places(columns):
    """Columns, and the lag and the number of the column of every coefficient."""
    sizes = [len(lags) for _, lags in columns]
    return (
        np.array([col for col, _ in columns]),
        np.concatenate([lags for _, lags in columns]),
        np.repeat(np.arange(len(columns)), sizes),
    )


def floored_sum(H, term):
    """``H + term``, at least `_LEAST` times H in every direction."""
    scale = 1 / np.sqrt(np.maximum(H.diagonal(), _ROUNDING * H.diagonal().max()))
    H, term = (scale[:, None] * x * scale for x in (H, term))
    H = H + _ROUNDING * np.eye(len(H))
    try:
        np.linalg.cholesky(term + (1 - _LEAST) * H)
    except np.linalg.LinAlgError:
        L = np.linalg.cholesky(H)
        half = solve_triangular(L, term, lower=True, check_finite=False)
        share, along = np.linalg.eigh(solve_triangular(L, half.T, lower=True, check_finite=False))
        root = L @ along
        total = (root * np.maximum(1 + share, _LEAST)) @ root.T
    else:
        total = H + term
    return total / scale[:, None] / scale
