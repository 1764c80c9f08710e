"""Whittle likelihood of a plant seen through unit scores, in its MA(1) form.

The scores ``s = J^-1 z = h + e`` of a plant ``h[t] = A h[t-1] + w[t]`` satisfy ``r[t] = s[t] - A s[t-1] =
w[t] + e[t] - A e[t-1]``, a moving average of order one with spectrum ``Phi = Q + Z N Z^H``, where ``Z =
exp(i w) I - A`` and ``N = Cov e = J^-1``. With the Fourier sum I_r(w) of a dozen lag covariances of r

    log-likelihood / T = -1/2 mean_w [ log det Phi + tr Phi^-1 I_r ],

because ``log |det Z|`` integrates to zero for a stable A. Its only poles are those of the *filter*, never
those of A, so few lags and frequencies are enough and an evaluation does not depend on the length of the
record [1]_. With known inputs ``r[t] = s[t] - A s[t-1] - B u[t-1]`` has the same spectrum; A and B are then
one matrix of coefficients ``[A | B]`` of the regressors ``[s; u]``. The residuals enter through their own
sample covariances, so the value is the sum of squares of the one-step prediction errors whatever u
depends on: like the prediction error method it stays consistent under feedback, ``u[t]`` a function of
measurements up to t. The *expected* information does suppose inputs without feedback. All functions take
stacks of problems of equal size (leading axes).

References
----------
.. [1] Whittle (1953), Estimation and information in stationary time series, Arkiv för Matematik 2.
"""

import numpy as np

from .inputs import DrivenSpectrum
from .lagcov import frequencies_of_states, midpoints
from .likelihood import Evaluation, SpectralInformation, hermitian
from .pairs import diagonal_blocks

_PIECE = 2**18  # complex numbers in the matrices of the frequencies that are taken together


class WhittleLikelihood:
    """Whittle likelihood as a function of (A, Q), given lag covariances of the scores.

    Parameters
    ----------
    moments : TransitionMoments
        Lag covariances of the centred scores' transitions, or of scores and inputs side by side: c columns.
    N : ndarray of shape (..., n, n)
        Covariance of the scores around the states.
    """

    def __init__(self, moments, N):
        self.N = N
        self.n_samples = moments.n_transitions
        n = N.shape[-1]
        self._n_frequencies = max(len(moments.late) - 1, 1)
        frequencies = midpoints(self._n_frequencies)
        self._rotation = np.exp(1j * frequencies)[:, None, None]
        late, cross, early = moments.spectra(frequencies)
        self._late, self._cross, self._early = late[..., :n, :n], cross[..., :n, :], early
        self._back = np.ascontiguousarray(hermitian(self._cross))
        self._inputs = moments.early if early.shape[-1] > n else None
        self._driven = {}  # by number of frequencies

    def evaluate(self, A, Q):
        """Value and gradients at (A, Q), A with the columns of B appended where there are inputs."""
        n = Q.shape[-1]
        value, grad_A, grad_E = 0.0, 0.0, 0.0
        for chosen in self._pieces(n):
            of_piece = self._evaluate(A, Q, chosen)
            value, grad_A, grad_E = value + of_piece[0], grad_A + of_piece[1], grad_E + of_piece[2]
        grad_Q = 0.5 * (grad_E / self._n_frequencies)
        value, grad_A = -0.5 * (value / self._n_frequencies), grad_A / self._n_frequencies
        return Evaluation(value, grad_A, (grad_Q + np.swapaxes(grad_Q, -1, -2)) / 2)

    def _pieces(self, n):
        """Frequencies in pieces whose matrices stay small."""
        at_once = max(_PIECE // n**2, 1) if self.N.ndim == 2 else self._n_frequencies
        return [slice(k, k + at_once) for k in range(0, self._n_frequencies, at_once)]

    def _evaluate(self, A, Q, chosen):
        """Sums over a slice of frequencies of log-determinant and trace, their gradient in A, and of E."""
        n = Q.shape[-1]
        late, cross, back, early = (
            x[..., chosen, :, :] for x in (self._late, self._cross, self._back, self._early)
        )
        rotation = self._rotation[chosen]
        own = A[..., :n]
        AN = own @ self.N
        # Phi = Q + Z N Z^H, multiplied out: no product at every frequency
        turned = rotation * np.swapaxes(AN, -1, -2)[..., None, :, :]
        steady = Q + self.N + AN @ np.swapaxes(own, -1, -2)
        Phi = steady[..., None, :, :] - (turned + hermitian(turned))
        logdet = np.linalg.slogdet(Phi)[1]
        X = np.linalg.inv(Phi)
        A = A[..., None, :, :]
        early = cross - _real_times(A, early)  # residuals with the regressors
        residual = late - hermitian(_real_times(A, back)) - _real_times(A, hermitian(early))
        XM = X @ residual
        trace = np.trace(XM, axis1=-2, axis2=-1).real
        E = XM @ X - X
        grad_A = (X @ early).real.sum(axis=-3)
        grad_A[..., :n] -= (E * rotation).real.sum(axis=-3) @ self.N - E.real.sum(axis=-3) @ AN
        return (logdet + trace).sum(axis=-1), grad_A, E.real.sum(axis=-3)

    def information(self, A, Q):
        """Expected information at (A, Q) as a :class:`SpectralInformation`.

        It holds the spectrum of the states, whose poles are those of A: slow states need more frequencies
        than the likelihood.
        """
        n = Q.shape[-1]
        A, B = A[..., :n], A[..., n:]
        frequencies = midpoints(frequencies_of_states(A, self._n_frequencies))
        return SpectralInformation(
            *_inverse_and_filter(A, Q, self.N, frequencies), self._spectrum(A, B, frequencies)
        )

    def unit_information(self, A, Q, partition):
        """The diagonal blocks of :meth:`information` at a plant whose units are not coupled.

        Arrays of shape (n_units, n_frequencies, p, p), zero where units have fewer states than others.
        """
        n, p = Q.shape[-1], partition.padded.shape[1]
        A, B = A[:, :n], A[:, n:]
        frequencies = midpoints(frequencies_of_states(A, self._n_frequencies))
        U, H = np.zeros((2, partition.n_units, len(frequencies), p, p), dtype=complex)
        for size, units in partition.groups.items():
            rows = partition.padded[units, :size]
            own = rows[:, :, None], rows[:, None, :]
            U[units, :, :size, :size], H[units, :, :size, :size] = _inverse_and_filter(
                A[own], Q[own], self.N[own], frequencies
            )
        S = self._spectrum(A, B, frequencies)
        return SpectralInformation(U, H, None if S is None else diagonal_blocks(S[..., :n, :n], partition))

    def _spectrum(self, A, B, frequencies):
        """Spectrum of the regressors as far as inputs determine them."""
        if self._inputs is None:
            return None
        if len(frequencies) not in self._driven:
            self._driven[len(frequencies)] = DrivenSpectrum(self._inputs, A.shape[-1], frequencies)
        return self._driven[len(frequencies)].at(A, B)


def _inverse_and_filter(A, Q, N, frequencies):
    """``Phi^-1`` and ``Z^-1 Q``, shape (..., n_frequencies, n, n)."""
    A, Q, N = (x[..., None, :, :] for x in (A, Q, N))
    Z = np.exp(1j * frequencies)[:, None, None] * np.eye(A.shape[-1]) - A
    Phi = Q + Z @ N @ hermitian(Z)
    return np.linalg.inv(Phi), np.linalg.solve(Z, np.broadcast_to(Q, Z.shape))


def _real_times(A, x):
    """``A @ x`` of real and complex matrices as one real product."""
    x = np.ascontiguousarray(x)
    return (A @ x.view(float)).view(complex)
