"""Exact Gaussian likelihood of a plant from information series, missing data included."""

from dataclasses import dataclass

import numpy as np

from .inputs import DrivenSpectrum, input_term
from .lagcov import frequencies_of_states, midpoints
from .likelihood import Evaluation, SpectralInformation, hermitian
from .pairs import diagonal_blocks
from .riccati import adjoint_lyapunov, stationary_covariance
from .smoothed import SmoothedStates
from .steady import smooth_constant
from .varying import smooth


@dataclass(frozen=True)
class KnownInputs:
    """Inputs of a record and what the likelihood needs to know about them.

    Attributes
    ----------
    series : ndarray of shape (n_samples, k) or None
        Inputs less their level in each episode.
    moments : ndarray of shape (n_lags + 1, c, c) or None
        Lag covariances of scores and inputs, for the expected information.
    spread : ndarray of shape (n, n) or None
        Covariance that unknown inputs before an episode add to its first state.
    """

    series: np.ndarray | None = None
    moments: np.ndarray | None = None
    spread: np.ndarray | None = None


def smooth_series(
    A, Q, z, matrices, *, J=None, starts=(0,), keep=None, inputs=None, spread=None, intercept=True
):
    """Smoother over information series, every episode from the stationary distribution around a level.

    Parameters
    ----------
    A : ndarray of shape (n, n + k)
        Transition matrix, with the columns of B appended where there are inputs.
    Q : ndarray of shape (n, n)
    z : ndarray of shape (n_samples, n)
    matrices : callable
        ``matrices(rows)`` gives the information matrices of a slice of rows.
    J : ndarray of shape (n, n), default=None
        The information matrix, if it is the same at every step.
    starts : sequence of int
    keep : sequence of slice, default=None
        Blocks of states to keep with their covariances at every time step.
    inputs : ndarray of shape (n_samples, k), default=None
        Known inputs, less their level.
    spread : ndarray of shape (n, n), default=None
        Covariance added to the first state of an episode: what inputs before the record made of it.
    intercept : bool
        Profile a constant level of the states out of each episode.

    Returns
    -------
    P0 : ndarray of shape (n, n)
        Stationary covariance.
    sums : SmoothedSums
    states : SmoothedStates or None
    """
    n = len(Q)
    A, B = A[:, :n], A[:, n:]
    P0 = stationary_covariance(A, Q)
    start = P0 if spread is None else P0 + spread
    states = None if keep is None else SmoothedStates(len(z), n, keep)
    settings = {"starts": starts, "intercept": intercept, "keep": states}
    if inputs is not None:
        settings |= {"exogenous": input_term(B, inputs, starts), "inputs": inputs}
    if J is None:
        return P0, smooth(A, Q, start, z, matrices, **settings), states
    return P0, smooth_constant(A, Q, start, z, J, **settings), states


class TimeDomainLikelihood:
    """Exact likelihood as a function of (A, Q), given the information series of all units.

    Every episode starts from the stationary distribution; a constant level of the states in each episode
    is profiled out.

    Parameters
    ----------
    z : ndarray of shape (n_samples, n)
        Information vectors.
    matrices : callable
        ``matrices(rows)`` gives the information matrices of a slice of rows, shape (n_rows, n, n).
    regimes : list of tuple (share, J)
        Information matrices that stand for the record in the *expected* information, with the share of
        time each one holds. A single one holds at every step.
    starts : sequence of int
        First row of each episode.
    n_frequencies : int
        Frequencies at which the expected information is evaluated.
    is_constant : bool, default=False
        Whether the only regime holds exactly at every step.
    inputs : KnownInputs, default=None
    levels : bool, default=True
        Whether to profile a level out of each episode.

    Notes
    -----
    Inputs may depend on measurements up to their own time step: each factor of the likelihood is a density
    given the past, inputs included.
    """

    def __init__(
        self, z, matrices, regimes, starts, n_frequencies, is_constant=False, inputs=None, levels=True
    ):
        self.n_samples = len(z)
        self._z, self._matrices, self._starts = z, matrices, starts
        self._regimes = regimes
        self._J = regimes[0][1] if is_constant else None
        self._n_frequencies = n_frequencies
        self._inputs = KnownInputs() if inputs is None else inputs
        self._levels = levels

    def evaluate(self, A, Q):
        """Value and gradients per time step at (A, Q), A with the columns of B appended."""
        P0, sums, _ = smooth_series(A, Q, self._z, self._matrices, **self._settings)
        own = A[:, : len(Q)]
        through_start = adjoint_lyapunov(own, sums.grad_P0)
        grad_A = np.hstack([sums.grad_A + 2 * through_start @ own @ P0, sums.grad_B])
        grad_Q = sums.grad_Q + through_start
        T = self.n_samples
        return Evaluation(sums.value / T, grad_A / T, (grad_Q + grad_Q.T) / (2 * T))

    def smoothed(self, A, Q, blocks):
        """States given the whole record and covariances of chosen blocks of them.

        Returns
        -------
        states : ndarray of shape (n_samples, n)
            Less the level of their episode.
        covariances : list of ndarray of shape (n_samples, p, p)
        """
        found = smooth_series(A, Q, self._z, self._matrices, keep=blocks, **self._settings)[2]
        return found.states, found.covariances

    @property
    def _settings(self):
        return {
            "J": self._J,
            "starts": self._starts,
            "inputs": self._inputs.series,
            "spread": self._inputs.spread,
            "intercept": self._levels,
        }

    def information(self, A, Q):
        """Expected information, each regime taken as if it lasted for ever."""
        n = len(Q)
        A, B = A[:, :n], A[:, n:]
        frequencies = midpoints(frequencies_of_states(A, self._n_frequencies))
        inverse = np.linalg.inv(np.exp(1j * frequencies)[:, None, None] * np.eye(n) - A)
        H = inverse @ Q
        S = H @ hermitian(inverse)
        driven = None
        if B.shape[1]:
            driven = DrivenSpectrum(self._inputs.moments, n, frequencies).at(A, B)
        U, spectra = [], []
        for share, J in self._regimes:
            middle = np.linalg.solve(np.eye(n) + J @ S, np.broadcast_to(J, S.shape))
            weight = np.sqrt(share * len(self._regimes))
            U.append(weight * hermitian(inverse) @ middle @ inverse)
            if driven is not None:
                spectra.append(weight * driven)  # its products with U have the weight once more
        spectra = np.concatenate(spectra) if spectra else None
        return SpectralInformation(np.concatenate(U), np.concatenate([H] * len(U)), spectra)

    def unit_information(self, A, Q, partition):
        """The diagonal blocks of :meth:`information`, arrays of shape (n_units, n_frequencies, p, p)."""
        info, n = self.information(A, Q), len(Q)
        S = None if info.S is None else diagonal_blocks(info.S[..., :n, :n], partition)
        return SpectralInformation(*(diagonal_blocks(x, partition) for x in (info.U, info.H)), S)
