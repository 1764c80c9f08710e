"""What known inputs make of the states: their deterministic part, its lag covariances and spectrum."""

import numpy as np

from .likelihood import hermitian
from .positive import floor_eigenvalues
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
    term = np.empty((len(u), len(B)))
    np.dot(u[:-1], B.T, out=term[1:])
    term[list(starts)] = 0.0
    return term


def _phase(frequencies, n_lags):
    return np.exp(-1j * np.outer(frequencies, np.arange(1, n_lags)))


def _fourier(G, phase):
    """Sum over positive and negative lags, frequencies before the last two axes."""
    forward = np.moveaxis(np.tensordot(phase, G[1:], 1), 0, -3)
    return G[0][..., None, :, :] + forward + hermitian(forward)


class DrivenSpectrum:
    """Spectrum of the regressors ``[h; u]`` as far as the inputs determine it.

    The lag covariances of the inputs, and those of the states with the inputs, are taken from the record;
    those of the driven states with themselves follow from the state equation, whatever the inputs did
    before the lags that are kept:

        ``X(0) = A X(0) A' + A G_hu(0) B' + B G_uh(0) A' + B G_uu(0) B'``,  ``X(l) = A X(l-1) + B G_uh(l-1)``.

    Inputs that depend on the noise (feedback) correlate with the states beyond what they drive; X(0) is kept
    at least at what the inputs of the same time step explain.

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
        self._phase = _phase(frequencies, len(moments))

    def covariance(self, A, B):
        """Covariance of the driven states, ``X(0)``."""
        n, first = self._n, self._moments[0]
        same, inputs = first[..., :n, n:], first[..., n:, n:]
        cross = A @ same @ np.swapaxes(B, -1, -2)
        own = B @ inputs @ np.swapaxes(B, -1, -2)
        X = adjoint_lyapunov(np.swapaxes(A, -1, -2), own + cross + np.swapaxes(cross, -1, -2))
        explained = same @ np.linalg.solve(inputs, np.swapaxes(same, -1, -2))
        return explained + floor_eigenvalues(X - explained, 0.0)

    def at(self, A, B):
        """Spectrum for one plant or a stack of plants, shape (..., n_frequencies, c, c)."""
        n = self._n
        G = self._moments.copy()
        G[0, ..., :n, :n] = self.covariance(A, B)
        for lag in range(1, len(G)):
            G[lag, ..., :n, :n] = A @ G[lag - 1, ..., :n, :n] + B @ G[lag - 1, ..., n:, :n]
        return _fourier(G, self._phase)
