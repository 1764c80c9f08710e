"""Expected information of the coefficients of a plant of several lags, one unit's rows at a time.

Of the coefficients ``(i, c, k)``, row i, regressor c, lag k, of one unit

    I[(i, c, k), (i', c', l)] = T mean_w Re exp(iw(l - k)) U_i'i V_cc'

with ``U`` the unit's block of ``Phi^-1`` and V the spectrum of the regressors as the plant smooths them; the
unit's own coefficients have the further term ``T mean_w Re exp(-iw(k + l)) W_ci' W_c'i``, ``W = Z^-1 Q X`` of
the unit alone. Links to other units are small where they matter, and their further terms are left out.
"""

import numpy as np

from ..episodes import episodes
from ..matrices import hermitian

_CELLS = 128  # frequencies over the half circle into which a record's periodogram is averaged
_LEAST = 0.25  # by which the further term may shrink a direction


def averaged_periodogram(series, starts):
    """Spectrum of a series on `_CELLS` + 1 frequencies from 0 to pi, each the mean over its neighbourhood.

    Averages of a periodogram are positive at every frequency, which Fourier sums of a few lag covariances are
    not; of shape (n_frequencies, c, c).
    """
    c = series.shape[1]
    total, weight = np.zeros((_CELLS + 1, c, c), dtype=complex), np.zeros(_CELLS + 1)
    for start, stop in episodes(starts, len(series)):
        rows = series[start:stop]
        F = np.fft.rfft(rows, max(len(rows), 2 * _CELLS), axis=0)
        cell = np.rint(np.arange(len(F)) * (_CELLS / (len(F) - 1))).astype(int)
        edges = np.searchsorted(cell, np.arange(_CELLS + 2))
        for k, (a, b) in enumerate(zip(edges[:-1], edges[1:], strict=True)):
            total[k] += F[a:b].T @ np.conj(F[a:b]) / (b - a)
        weight += len(rows)
    return total / weight[:, None, None]


class RowInformation:
    """Information at a plant, from the periodogram (n_cells + 1, c, c) of the record's `[s; u]`."""

    def __init__(self, likelihood, coefficients, Q, periodogram):
        self._n_rows, n = likelihood.n_rows, likelihood.n
        self.n_fft = 2 * (len(periodogram) - 1)
        F = likelihood.residual_filter(coefficients, self.n_fft)
        Z, N = F[..., :n], likelihood.N
        self.U = np.linalg.inv(Q + Z @ N @ hermitian(Z))
        if N.any():
            M = -(N @ hermitian(Z) @ self.U) @ F
            M[..., :n] += np.eye(n)
            smoothed = M @ periodogram
            self.V = np.empty_like(periodogram)
            self.V[:, :n, :n] = smoothed @ hermitian(M)
            self.V[:, :n, n:] = smoothed[..., n:]
            self.V[:, n:, :n] = hermitian(smoothed[..., n:])
            self.V[:, n:, n:] = periodogram[:, n:, n:]
        else:
            self.V = periodogram
        self._Z, self._Q, self._N = Z, Q, N

    def between(self, rows, first, second):
        """Information of columns with their lags, two lists of pairs (col, lags), with each other.

        Of shape (n_rows, n_first, n_rows, n_second), the lags of each column in a row.
        """
        cols = [[col for col, _ in of] for of in (first, second)]
        U = np.swapaxes(self.U[:, rows, rows], 1, 2)
        p = U.shape[1]
        V = self.V[:, np.array(cols[0])[:, None], np.array(cols[1])]
        products = U.reshape(len(U), p, p, 1, 1) * V[:, None, None]
        moments = np.fft.irfft(products, self.n_fft, axis=0) * self._n_rows
        lags, columns = [], []
        for of in (first, second):
            lags.append(np.concatenate([k for _, k in of]))
            columns.append(np.repeat(np.arange(len(of)), [len(k) for _, k in of]))
        shift = lags[1] - lags[0][:, None]  # E x_c[t-k] x_d[t-l] is a covariance at lag l - k
        found = moments[shift, :, :, columns[0][:, None], columns[1]]  # (first, second, i, i')
        return np.transpose(found, (2, 0, 3, 1))

    def of_rows(self, rows, columns, own):
        """Information of the rows' coefficients, (n, n), with the further term of the `own` columns."""
        p = rows.stop - rows.start
        H = self.between(rows, columns, columns)
        size = H.shape[1]
        H = H.reshape(p * size, p * size)
        H = (H + H.T) / 2
        if not self._N.any():
            return H
        return _stretched(H, *self._own_term(rows, columns, own, size))

    def _own_term(self, rows, columns, own, size):
        Z, Q, N = self._Z[:, rows, rows], self._Q[rows, rows], self._N[rows, rows]
        p = len(Q)
        W = np.linalg.solve(Z, Q @ np.linalg.inv(Q + Z @ N @ hermitian(Z)))
        W = np.conj(W)
        ends = np.cumsum([0] + [len(k) for _, k in columns])
        lags = columns[own[0]][1]
        moments = np.fft.irfft(np.einsum("fab,fcd->fabcd", W, W), self.n_fft, axis=0) * self._n_rows
        found = moments[(lags[:, None] + lags) % self.n_fft]  # (k, l, c, i', c', i)
        term = np.transpose(found, (5, 2, 0, 3, 4, 1))  # (i, c, k, i', c', l)
        order = [columns[k][0] - rows.start for k in own]
        term = term[:, order][:, :, :, :, order]
        n_own = len(own) * len(lags)
        term = term.reshape(p * n_own, p * n_own)
        index = np.concatenate([i * size + np.arange(ends[k], ends[k + 1]) for i in range(p) for k in own])
        return index, (term + term.T) / 2


def _stretched(H, index, term):
    """H with a term added to some of its elements, as a congruence that leaves it positive."""
    values, axes = np.linalg.eigh(H[np.ix_(index, index)])
    values = np.maximum(values, 1e-7 * values[-1])
    root, inverse = (axes * np.sqrt(values)) @ axes.T, (axes / np.sqrt(values)) @ axes.T
    share, along = np.linalg.eigh(inverse @ term @ inverse)
    factor = root @ (along * np.sqrt(np.maximum(1 + share, _LEAST))) @ along.T @ inverse
    H = H.copy()
    H[index] = factor @ H[index]
    H[:, index] = H[:, index] @ factor.T
    return H
