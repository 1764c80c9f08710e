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

from .fisher import Evaluation, SpectralInformation
from .inputs import DrivenSpectrum
from .matrices import check_time, definite_inverses, hermitian
from .partition import diagonal_blocks

_PIECE = 2**18  # complex numbers in the matrices of the frequencies that are taken together


def midpoints(n_frequencies):
    """Midpoints ``(k + 1/2) pi / n`` of a half circle."""
    return (np.arange(n_frequencies) + 0.5) * np.pi / n_frequencies


def frequencies_of_states(A, least, most=400, aliased=0.01):
    """How many midpoints integrate the spectrum of the states of a plant.

    What such a spectrum has at lag l comes back at a distance of ``2 n`` lags on n midpoints, and falls as
    ``A^l``.

    A is (..., n, n).
    """
    n_frequencies = least
    while n_frequencies < most:
        left = np.linalg.matrix_power(A, 2 * n_frequencies)
        if np.square(left).sum(axis=-2).max(initial=0.0) <= aliased**2:
            return n_frequencies
        n_frequencies = min(3 * n_frequencies // 2 + 1, most)
    return most


def transfer(A, rotation):
    """``Z = exp(i w) I - A`` at some frequencies.

    A is (..., n, c), `rotation` (n_frequencies, 1, 1), Z (..., n_frequencies, n, n).
    """
    n = A.shape[-2]
    return rotation * np.eye(n) - A[..., None, :, :n]


class WhittleLikelihood:
    """Whittle likelihood as a function of (A, Q), given lag covariances of the scores.

    `moments` are those of the centred scores' transitions, with inputs beside them if there are any; `N`
    (..., n, n) is the covariance of the scores around the states.
    """

    budget = None  # of the search that evaluates it

    def __init__(self, moments, N):
        self.N, self.n_samples = N, moments.n_transitions
        n = N.shape[-1]
        self.n_covariances = len(moments.late) - 1
        self._n_frequencies = max(self.n_covariances, 1)
        frequencies = midpoints(self._n_frequencies)
        self._rotation = np.exp(1j * frequencies)[:, None, None]
        late, cross, early = moments.spectra(frequencies)
        self._late, self._cross, self._early = late[..., :n, :n], cross[..., :n, :], early
        self._back = np.ascontiguousarray(hermitian(self._cross))
        self._inputs = moments.early if early.shape[-1] > n else None
        self._driven = {}  # by number of frequencies

    @property
    def work(self):
        """Operations of an evaluation, about, and what its calls cost."""
        return 2e5 + 6 * self._n_frequencies * self.N.shape[-1] ** 3

    def evaluate(self, A, Q):
        """Value and gradients at (A, Q), A with the columns of B appended where there are inputs."""
        n = Q.shape[-1]
        value = grad_A = grad_E = np.zeros(())
        at_once = max(_PIECE // n**2, 1) if self.N.ndim == 2 else self._n_frequencies
        for first in range(0, self._n_frequencies, at_once):
            check_time()
            of_piece = self._sums(A, Q, slice(first, first + at_once))
            value, grad_A, grad_E = value + of_piece[0], grad_A + of_piece[1], grad_E + of_piece[2]
        grad_Q = 0.5 * (grad_E / self._n_frequencies)
        value, grad_A = -0.5 * (value / self._n_frequencies), grad_A / self._n_frequencies
        return Evaluation(value, grad_A, (grad_Q + np.swapaxes(grad_Q, -1, -2)) / 2)

    def _sums(self, A, Q, chosen):
        """Sums over a slice of frequencies of log-determinant and trace, their gradient in A, and of E."""
        n = Q.shape[-1]
        late, cross, back, early = (x[..., chosen, :, :] for x in (self._late, self._cross, self._back, self._early))
        Z, ZN = _filters(A, self.N, self._rotation[chosen])
        X, logdet = definite_inverses(Q[..., None, :, :] + ZN @ hermitian(Z))
        A = A[..., None, :, :]
        early = cross - _real_times(A, early)  # residuals with the regressors
        residual = late - hermitian(_real_times(A, back)) - _real_times(A, hermitian(early))
        XM = X @ residual
        trace = np.einsum("...ii->...", XM).real
        E = XM @ X - X
        grad_A = (X @ early).real.sum(axis=-3)
        grad_A[..., :n] -= (E @ ZN).real.sum(axis=-3)
        return (logdet + trace).sum(axis=-1), grad_A, E.real.sum(axis=-3)

    def information(self, A, Q, n_later=0):
        """Expected information at (A, Q), a :class:`SpectralInformation`, fine enough for more lags."""
        rotation, S = self._of_states(A, Q.shape[-1], n_later)
        U, H = self._inverse_and_filter(A, Q, self.N, rotation)
        return SpectralInformation(U, H, S)

    def unit_information(self, A, Q, partition):
        """The diagonal blocks of :meth:`information` at a plant whose units are not coupled."""
        n, p = Q.shape[-1], partition.padded.shape[1]
        rotation, S = self._of_states(A, n)
        U, H = np.zeros((2, partition.n_units, len(rotation), p, p), dtype=complex)
        for size, units in partition.groups.items():
            rows = partition.padded[units, :size]
            own = rows[:, :, None], rows[:, None, :]
            at = units, slice(None), slice(size), slice(size)
            U[at], H[at] = self._inverse_and_filter(A[own], Q[own], self.N[own], rotation)
        return SpectralInformation(U, H, None if S is None else diagonal_blocks(S[..., :n, :n], partition))

    def _of_states(self, A, n, n_later=0):
        """``exp(i w)`` at as many frequencies as the states need, and what inputs make of the regressors."""
        A, B = A[..., :n], A[..., n:]
        frequencies = midpoints(frequencies_of_states(A, self._n_frequencies) + n_later)
        rotation = np.exp(1j * frequencies)[:, None, None]
        if self._inputs is None:
            return rotation, None
        if len(frequencies) not in self._driven:
            self._driven[len(frequencies)] = DrivenSpectrum(self._inputs, n, frequencies)
        return rotation, self._driven[len(frequencies)].at(A, B)

    def _inverse_and_filter(self, A, Q, N, rotation):
        """``Phi^-1`` and ``Z^-1 Q``, shape (..., n_frequencies, n, n)."""
        (Z, ZN), Q = _filters(A, N, rotation), Q[..., None, :, :]
        return definite_inverses(Q + ZN @ hermitian(Z))[0], np.linalg.solve(Z, np.broadcast_to(Q, Z.shape))


def _filters(A, N, rotation):
    """``Z`` and ``Z N``, the second with a real product only.

    A is (..., n, c), N (..., n, n), the two (..., n_frequencies, n, n).
    """
    return transfer(A, rotation), rotation * N[..., None, :, :] - (A[..., : A.shape[-2]] @ N)[..., None, :, :]


def _real_times(A, x):
    """``A @ x`` of real and complex matrices as one real product. A is (..., n, k), `x` (..., k, m)."""
    x = np.ascontiguousarray(x)
    return (A @ x.view(float)).view(complex)
