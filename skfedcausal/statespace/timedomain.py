"""Exact Gaussian likelihood of a plant from information series, missing data included."""

import numpy as np

from .lagcov import midpoints
from .likelihood import Evaluation, SpectralInformation, hermitian
from .riccati import adjoint_lyapunov, stationary_covariance
from .smoothed import SmoothedStates
from .steady import smooth_constant
from .varying import smooth


def smooth_series(A, Q, z, matrices, *, J=None, starts=(0,), keep=None):
    """Smoother over information series, every episode from the stationary distribution around a level.

    Parameters
    ----------
    A, Q : ndarray of shape (n, n)
    z : ndarray of shape (n_samples, n)
    matrices : callable
        ``matrices(rows)`` gives the information matrices of a slice of rows.
    J : ndarray of shape (n, n), default=None
        The information matrix, if it is the same at every step.
    starts : sequence of int
    keep : sequence of slice, default=None
        Blocks of states to keep with their covariances at every time step.

    Returns
    -------
    P0 : ndarray of shape (n, n)
        Stationary covariance.
    sums : SmoothedSums
    states : SmoothedStates or None
    """
    P0 = stationary_covariance(A, Q)
    states = None if keep is None else SmoothedStates(len(z), len(A), keep)
    settings = {"starts": starts, "intercept": True, "keep": states}
    if J is None:
        return P0, smooth(A, Q, P0, z, matrices, **settings), states
    return P0, smooth_constant(A, Q, P0, z, J, **settings), states


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
    """

    def __init__(self, z, matrices, regimes, starts, n_frequencies, is_constant=False):
        self.n_samples = len(z)
        self._z, self._matrices, self._starts = z, matrices, starts
        self._regimes = regimes
        self._J = regimes[0][1] if is_constant else None
        self._rotation = np.exp(1j * midpoints(n_frequencies))[:, None, None]

    def evaluate(self, A, Q):
        """Value and gradients per time step at (A, Q)."""
        P0, sums, _ = smooth_series(A, Q, self._z, self._matrices, J=self._J, starts=self._starts)
        through_start = adjoint_lyapunov(A, sums.grad_P0)
        grad_A = sums.grad_A + 2 * through_start @ A @ P0
        grad_Q = sums.grad_Q + through_start
        T = self.n_samples
        return Evaluation(sums.value / T, grad_A / T, (grad_Q + grad_Q.T) / (2 * T))

    def information(self, A, Q):
        """Expected information, each regime taken as if it lasted for ever."""
        n = len(A)
        inverse = np.linalg.inv(self._rotation * np.eye(n) - A)
        H = inverse @ Q
        S = H @ hermitian(inverse)
        U = []
        for share, J in self._regimes:
            middle = np.linalg.solve(np.eye(n) + J @ S, np.broadcast_to(J, S.shape))
            weight = np.sqrt(share * len(self._regimes))
            U.append(weight * hermitian(inverse) @ middle @ inverse)
        return SpectralInformation(np.concatenate(U), np.concatenate([H] * len(U)))
