"""Exact Gaussian likelihood of a plant from information series, missing data included."""

from typing import NamedTuple

import numpy as np

from .fisher import Evaluation, SpectralInformation
from .inputs import DrivenSpectrum
from .matrices import check_time, hermitian
from .partition import diagonal_blocks
from .riccati import adjoint_lyapunov
from .smoother import smooth
from .whittle import frequencies_of_states, midpoints, transfer


class KnownInputs(NamedTuple):
    """Inputs of a record and what the likelihood needs to know about them."""

    series: np.ndarray | None = None  # (n_samples, k) or None
    moments: np.ndarray | None = None  # (n_lags + 1, c, c) or None
    spread: np.ndarray | None = None  # (n, n) or None


def row_by_row(n_samples, n_states, n_steps=None):
    """Operations of an evaluation that goes through so many steps, of all rows unless said otherwise."""
    n_steps = n_samples if n_steps is None else n_steps
    return n_steps * (1e5 + 12 * n_states**3) + n_samples * 300 * n_states


class TimeDomainLikelihood:
    """Exact likelihood as a function of (A, Q), given the information series of all units.

    Every episode starts from the stationary distribution; a constant level of the states in each episode
    is profiled out. Inputs may depend on measurements up to their own time step: each factor of the
    likelihood is a density given the past, inputs included.
    """

    budget = None  # of the search that evaluates it

    def __init__(self, z, matrices, regimes, starts, n_frequencies, *, is_constant=False, inputs=None, levels=True):
        self.n_samples = len(z)
        self._z, self._matrices, self._regimes = z, matrices, regimes
        self._n_frequencies, self._n_steps = n_frequencies, len(z)
        self._inputs = KnownInputs() if inputs is None else inputs
        self._settings = {
            "J": regimes[0][1] if is_constant else None,
            "starts": starts,
            "inputs": self._inputs.series,
            "spread": self._inputs.spread,
            "intercept": levels,
        }

    @property
    def work(self):
        """Operations of the last evaluation, about: of rows one after the other it is calls that count."""
        return row_by_row(self.n_samples, self._z.shape[1], self._n_steps)

    def evaluate(self, A, Q):
        """Value and gradients per time step at (A, Q), A with the columns of B appended. A is (n, n + k), Q (n, n)."""
        check_time()
        P0, found = smooth(A, Q, self._z, self._matrices, **self._settings)
        self._n_steps = found.n_steps
        own = A[:, : len(Q)]
        through_start = adjoint_lyapunov(own, found.grad_P0)
        grad_A = np.hstack([found.grad_A + 2 * through_start @ own @ P0, found.grad_B])
        grad_Q = found.grad_Q + through_start
        T = self.n_samples
        return Evaluation(found.value / T, grad_A / T, (grad_Q + grad_Q.T) / (2 * T))

    def smoothed(self, A, Q, blocks):
        """States given the whole record and covariances of chosen blocks of them.

        States are (n_samples, n), covariances (n_samples, p, p) each.
        """
        _, found = smooth(A, Q, self._z, self._matrices, keep=blocks, **self._settings)
        return found.states, found.covariances

    def information(self, A, Q):
        """Expected information, each regime taken as if it lasted for ever."""
        return SpectralInformation(*self._factors(A, Q))

    def unit_information(self, A, Q, partition):
        """The diagonal blocks of :meth:`information`, (n_units, n_frequencies, p, p)."""
        n = len(Q)
        U, H, S = self._factors(A, Q)
        S = None if S is None else diagonal_blocks(S[..., :n, :n], partition)
        U, H = diagonal_blocks(U, partition), diagonal_blocks(H[..., :n, :], partition)
        return SpectralInformation(U, H, S)

    def _factors(self, A, Q):
        """U, H and S of the information, regimes one after the other."""
        n = len(Q)
        A, B = A[:, :n], A[:, n:]
        frequencies = midpoints(frequencies_of_states(A, self._n_frequencies))
        rotation = np.exp(1j * frequencies)[:, None, None]
        inverse = np.linalg.inv(transfer(A, rotation))
        H = inverse @ Q
        states = H @ hermitian(inverse)
        driven = DrivenSpectrum(self._inputs.moments, n, frequencies).at(A, B) if B.shape[1] else None
        U, spectra = [], []
        for share, J in self._regimes:
            middle = np.linalg.solve(np.eye(n) + J @ states, np.broadcast_to(J, states.shape))
            weight = np.sqrt(share * len(self._regimes))
            U.append(weight * hermitian(inverse) @ middle @ inverse)
            if driven is not None:
                spectra.append(weight * driven)  # its products with U have the weight once more
        return np.concatenate(U), np.concatenate([H] * len(U)), np.concatenate(spectra) if spectra else None
