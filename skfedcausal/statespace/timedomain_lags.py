"""Exact likelihood of a plant of several lags from information series, missing data included.

``h[t] = A_1 h[t-1] + ... + A_L h[t-L] + w[t-1]`` is a plant of one lag of the states ``[h[t]; h[t-1]; ...;
h[t-L+1]]``, of which the measurements see the first: everything is that plant's, with the information
matrices padded by zeros [1]_. Unlike a regression on earlier rows it needs none of them, so that plants of
different lags are likelihoods of the same record.

References
----------
.. [1] Durbin, Koopman (2012), Time series analysis by state space methods, Oxford University Press, section
       3.4.
"""

import numpy as np

from .lagcov import frequencies_of_states, midpoints
from .likelihood import Evaluation, SpectralInformation, hermitian
from .pairs import diagonal_blocks
from .positive import companion
from .timedomain import TimeDomainLikelihood


class LaggedTimeDomainLikelihood:
    """Exact likelihood as a function of ``[A_1 | A_2 | ...]`` and Q, given the information series.

    Parameters
    ----------
    z, matrices, regimes, starts, n_frequencies
        See :class:`~skfedcausal.statespace.timedomain.TimeDomainLikelihood`.
    n_lags : int
    """

    def __init__(self, z, matrices, regimes, starts, n_frequencies, n_lags):
        self.n_samples, self.n_lags = len(z), n_lags
        self._regimes, self._n_frequencies, self._n = regimes, n_frequencies, z.shape[1]
        behind = [(0, 0), (0, self._n * (n_lags - 1))]

        def padded(rows):
            return np.pad(matrices(rows), [(0, 0), behind[1], behind[1]])

        self._augmented = TimeDomainLikelihood(np.pad(z, behind), padded, regimes, starts, n_frequencies)

    def evaluate(self, A, Q):
        """Value and gradients per time step at (A, Q)."""
        found, n = self._augmented.evaluate(*self._companion(A, Q)), self._n
        return Evaluation(found.value, found.grad_A[:n], found.grad_Q[:n, :n])

    def smoothed(self, A, Q, blocks):
        """See :meth:`TimeDomainLikelihood.smoothed`."""
        states, covariances = self._augmented.smoothed(*self._companion(A, Q), blocks)
        return states[:, : self._n], covariances

    def _companion(self, A, Q):
        noise = np.zeros((self._n * self.n_lags,) * 2)
        noise[: self._n, : self._n] = Q
        return companion(A, self.n_lags), noise

    def information(self, A, Q):
        """Expected information, each regime taken as if it lasted for ever."""
        n, states = len(Q), companion(A, self.n_lags)
        frequencies = midpoints(frequencies_of_states(states, self._n_frequencies))
        rotation = np.exp(1j * frequencies)[:, None, None]
        delays = [rotation ** (-lag) for lag in range(self.n_lags)]
        acts = sum(delay * A[:, lag * n : (lag + 1) * n] for lag, delay in enumerate(delays))
        inverse = np.linalg.inv(rotation * np.eye(n) - acts)
        H = inverse @ Q
        S = H @ hermitian(inverse)
        U = []
        for share, J in self._regimes:
            middle = np.linalg.solve(np.eye(n) + J @ S, np.broadcast_to(J, S.shape))
            weight = np.sqrt(share * len(self._regimes))
            U.append(weight * hermitian(inverse) @ middle @ inverse)
        lagged = np.concatenate([delay * H for delay in delays], axis=-2)
        return SpectralInformation(np.concatenate(U), np.concatenate([lagged] * len(U)))

    def unit_information(self, A, Q, partition):
        """The diagonal blocks of :meth:`information`, of the first lag."""
        info, n = self.information(A, Q), len(Q)
        return SpectralInformation(*(diagonal_blocks(x, partition) for x in (info.U, info.H[..., :n, :])))
