"""What known inputs make of the states: their deterministic part, its lag covariances and spectrum."""

import numpy as np

from .episodes import episodes
from .likelihood import hermitian
from .riccati import adjoint_lyapunov


def input_term(B, u, starts=(0,)):
    """Known term ``B u[t-1]`` of the state equation at each row, zero in the first row of an episode.

    Parameters
    ----------
    B : ndarray of shape (n, k)
    u : ndarray of shape (n_samples, k)
        Inputs of each row; those of row t act on the states of row t + 1.
    starts : sequence of int

    Returns
    -------
    ndarray of shape (n_samples, n)
    """
    term = np.zeros((len(u), len(B)))
    np.dot(u[:-1], B.T, out=term[1:])
    term[list(starts)] = 0.0
    return term


def regressor_moments(series, n_lags, starts=(0,)):
    """Lag covariances ``mean x[t+l] x[t]'`` of the rows that start a transition, lags 0 to `n_lags`.

    Parameters
    ----------
    series : ndarray of shape (n_samples, c)
    n_lags : int
    starts : sequence of int

    Returns
    -------
    ndarray of shape (n_lags + 1, c, c)
    """
    sums = np.zeros((n_lags + 1, series.shape[1], series.shape[1]))
    for start, stop in episodes(starts, len(series)):
        rows = series[start : stop - 1]
        for lag in range(min(n_lags + 1, len(rows))):
            sums[lag] += rows[lag:].T @ rows[: len(rows) - lag]
    return sums / max(len(series) - len(starts), 1)


class DrivenSpectrum:
    """Spectrum of the regressors ``[h; u]`` as far as the inputs determine it.

    The lag covariances of the inputs, and those of the states with the inputs, are taken from the record;
    those of the driven states with themselves follow from the state equation, whatever the inputs did
    before the lags that are kept:

        ``X(0) = A X(0) A' + A G_hu(0) B' + B G_uh(0) A' + B G_uu(0) B'``,  ``X(l) = A X(l-1) + B G_uh(l-1)``.

    Parameters
    ----------
    moments : ndarray of shape (n_lags + 1, ..., c, c)
        Lag covariances ``mean x[t+l] x[t]'`` of the regressors, states or their scores first.
    n : int
        Number of states.
    frequencies : ndarray of shape (n_frequencies,)
    """

    def __init__(self, moments, n, frequencies):
        self._moments, self._n = moments, n
        self._phase = np.exp(-1j * np.outer(frequencies, np.arange(1, len(moments))))

    def covariance(self, A, B):
        """Covariance of the driven states, ``X(0)``."""
        n, first = self._n, self._moments[0]
        cross = A @ first[..., :n, n:] @ np.swapaxes(B, -1, -2)
        own = B @ first[..., n:, n:] @ np.swapaxes(B, -1, -2)
        return adjoint_lyapunov(np.swapaxes(A, -1, -2), own + cross + np.swapaxes(cross, -1, -2))

    def at(self, A, B):
        """Spectrum for one plant or a stack of plants, shape (..., n_frequencies, c, c)."""
        n = self._n
        G = self._moments.copy()
        G[0, ..., :n, :n] = self.covariance(A, B)
        for lag in range(1, len(G)):
            G[lag, ..., :n, :n] = A @ G[lag - 1, ..., :n, :n] + B @ G[lag - 1, ..., n:, :n]
        forward = np.moveaxis(np.tensordot(self._phase, G[1:], 1), 0, -3)
        return G[0][..., None, :, :] + forward + hermitian(forward)
