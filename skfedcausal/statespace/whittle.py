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
from .positive import companion

_PIECE = 2**18  # complex numbers in the matrices of the frequencies that are taken together


class WhittleLikelihood:
    """Whittle likelihood as a function of (A, Q), given lag covariances of the scores.

    Parameters
    ----------
    moments : TransitionMoments
        Lag covariances of the centred scores' transitions, or of scores and inputs side by side: c columns.
    N : ndarray of shape (..., n, n)
        Covariance of the scores around the states.
    n_lags : int, default=1
        Lags of the plant: the moments are those of ``[s[t]; s[t-1]; ...; s[t-n_lags+1]]``, and A is
        ``[A_1 | A_2 | ...]``. Without inputs then.

    Notes
    -----
    With several lags r is a moving average of their number, ``Z = exp(i w) I - A E`` with ``E = [I; exp(-i w)
    I; ...]``; all else stays.
    """

    def __init__(self, moments, N, n_lags=1):
        self.N, self.n_lags = N, n_lags
        self.n_samples = moments.n_transitions
        n = N.shape[-1]
        self.n_covariances = len(moments.late) - 1
        self._n_frequencies = max(self.n_covariances, 1)
        frequencies = midpoints(self._n_frequencies)
        self._rotation = np.exp(1j * frequencies)[:, None, None]
        late, cross, early = moments.spectra(frequencies)
        self._late, self._cross, self._early = late[..., :n, :n], cross[..., :n, :], early
        self._back = np.ascontiguousarray(hermitian(self._cross))
        self._inputs = moments.early if early.shape[-1] > n * n_lags else None
        self._driven = {}  # by number of frequencies

    def _Z(self, A, rotation):
        n = A.shape[-2]
        acts = A[..., None, :, :n]
        for lag, delay in enumerate(self._delays(rotation), 1):
            acts = acts + delay * A[..., None, :, lag * n : (lag + 1) * n]
        return rotation * np.eye(n) - acts

    def _delays(self, rotation):
        """``exp(-i w l)`` for the lags l after the first."""
        return [rotation ** (-lag) for lag in range(1, self.n_lags)]

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
        Z = self._Z(A, rotation)
        ZN = Z @ self.N[..., None, :, :]
        Phi = Q[..., None, :, :] + ZN @ hermitian(Z)
        logdet = np.linalg.slogdet(Phi)[1]
        X = np.linalg.inv(Phi)
        A = A[..., None, :, :]
        early = cross - _real_times(A, early)  # residuals with the regressors
        residual = late - hermitian(_real_times(A, back)) - _real_times(A, hermitian(early))
        XM = X @ residual
        trace = np.trace(XM, axis1=-2, axis2=-1).real
        E = XM @ X - X
        grad_A = (X @ early).real.sum(axis=-3)
        through_Z = E @ ZN
        grad_A[..., :n] -= through_Z.real.sum(axis=-3)
        for lag, delay in enumerate(self._delays(rotation), 1):
            grad_A[..., lag * n : (lag + 1) * n] -= (delay * np.conj(through_Z)).real.sum(axis=-3)
        return (logdet + trace).sum(axis=-1), grad_A, E.real.sum(axis=-3)

    def information(self, A, Q):
        """Expected information at (A, Q) as a :class:`SpectralInformation`.

        It holds the spectrum of the states, whose poles are those of A: slow states need more frequencies
        than the likelihood.
        """
        n = Q.shape[-1]
        A, B = A[..., : n * self.n_lags], A[..., n * self.n_lags :]
        frequencies = self._frequencies(A)
        rotation = np.exp(1j * frequencies)[:, None, None]
        U, H = self._inverse_and_filter(A, Q, self.N, rotation)
        lagged = [delay * H for delay in self._delays(rotation)]
        return SpectralInformation(
            U, np.concatenate([H, *lagged], axis=-2), self._spectrum(A, B, frequencies)
        )

    def unit_information(self, A, Q, partition):
        """The diagonal blocks of :meth:`information` at a plant whose units are not coupled.

        Of the first lag: arrays of shape (n_units, n_frequencies, p, p), zero where units have fewer states
        than others.
        """
        n, p = Q.shape[-1], partition.padded.shape[1]
        A, B = A[:, : n * self.n_lags], A[:, n * self.n_lags :]
        frequencies = self._frequencies(A)
        rotation = np.exp(1j * frequencies)[:, None, None]
        U, H = np.zeros((2, partition.n_units, len(frequencies), p, p), dtype=complex)
        for size, units in partition.groups.items():
            rows = partition.padded[units, :size]
            own = rows[:, :, None], rows[:, None, :]
            own_A = [A[own[0], own[1] + lag * n] for lag in range(self.n_lags)]
            U[units, :, :size, :size], H[units, :, :size, :size] = self._inverse_and_filter(
                np.concatenate(own_A, axis=-1), Q[own], self.N[own], rotation
            )
        S = self._spectrum(A, B, frequencies)
        return SpectralInformation(U, H, None if S is None else diagonal_blocks(S[..., :n, :n], partition))

    def _frequencies(self, A):
        states = A if self.n_lags == 1 else companion(A, self.n_lags)
        return midpoints(frequencies_of_states(states, self._n_frequencies))

    def _inverse_and_filter(self, A, Q, N, rotation):
        """``Phi^-1`` and ``Z^-1 Q``, shape (..., n_frequencies, n, n)."""
        Z, Q = self._Z(A, rotation), Q[..., None, :, :]
        Phi = Q + Z @ N[..., None, :, :] @ hermitian(Z)
        return np.linalg.inv(Phi), np.linalg.solve(Z, np.broadcast_to(Q, Z.shape))

    def _spectrum(self, A, B, frequencies):
        """Spectrum of the regressors as far as inputs determine them."""
        if self._inputs is None:
            return None
        if len(frequencies) not in self._driven:
            self._driven[len(frequencies)] = DrivenSpectrum(self._inputs, A.shape[-2], frequencies)
        return self._driven[len(frequencies)].at(A, B)


def _real_times(A, x):
    """``A @ x`` of real and complex matrices as one real product."""
    x = np.ascontiguousarray(x)
    return (A @ x.view(float)).view(complex)
