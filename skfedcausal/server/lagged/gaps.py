"""Kalman filter of states with their lags, row by row, where measurements are missing.

Only the newest states are measured and only they have noise: a step costs n (n p)^2, and nothing once the
covariances of a stretch with the same sensors have settled.
"""

import numpy as np

from ...statespace.episodes import episodes
from ...statespace.kalman import Covariances, FilteredRows

_SETTLED = 1e-12  # relative change of the predicted covariance that is rounding
_ROWS = 256


def filtered_with_gaps(dynamics, P0, record, *, starts, exogenous):
    """Filter the episodes of a padded record, in pieces of rows."""
    n, size = dynamics.n_states, len(P0)
    z = record.z[:, :n]
    for start, stop in episodes(starts, len(z)):
        P, mean = P0, np.zeros(size) if exogenous is None else exogenous[start]
        step = None
        for first in range(start, stop, _ROWS):
            rows = slice(first, min(first + _ROWS, stop))
            J = record._record.matrices(rows)
            predicted, filtered = np.empty((2, rows.stop - first, size))
            terms, own = np.empty(rows.stop - first), np.empty((rows.stop - first, n, n))
            for k, t in enumerate(range(first, rows.stop)):
                if step is None or not step.holds(J[k]):
                    step = RowStep(dynamics, P, J[k])
                predicted[k], own[k] = mean, step.P[:n, :n]
                residual = z[t] - J[k] @ mean[:n]
                filtered[k] = mean + step.gain @ residual
                terms[k] = -0.5 * (step.logdet - mean[:n] @ (z[t] + residual) - residual @ (step.gain[:n] @ residual))
                following = np.concatenate([dynamics.top @ filtered[k], filtered[k][:-n]])
                mean = following if exogenous is None or t + 1 == stop else following + exogenous[t + 1]
                P, step = step.following(dynamics), step.settled()
            yield FilteredRows(rows, predicted, filtered, terms, Covariances(J, own, own, None, None))


class RowStep:
    """Covariances of one row."""

    def __init__(self, dynamics, P, J):
        n = dynamics.n_states
        self.P, self._J, self._is_settled = P, J, False
        right = P[:, :n]
        inner = np.eye(n) + J @ P[:n, :n]
        # P_f = P - P_1 (I + J P_11)^-1 J P_1', whose first columns are the gain
        self.filtered = P - right @ np.linalg.solve(inner, J @ right.T)
        self.gain = self.filtered[:, :n]
        self.logdet = np.linalg.slogdet(inner)[1]
        self._next = None

    def holds(self, J):
        """Whether a row of these sensors, next to this one, has the same covariances."""
        return self._is_settled and np.array_equal(J, self._J)

    def following(self, dynamics):
        """Predicted covariance of the next row."""
        if self._next is None:
            n = dynamics.n_states
            carried = dynamics.top @ self.filtered
            P = np.empty_like(self.P)
            P[:n, :n] = carried @ dynamics.top.T + dynamics.Q
            P[:n, n:] = carried[:, :-n]
            P[n:, :n] = carried[:, :-n].T
            P[n:, n:] = self.filtered[:-n, :-n]
            P = (P + P.T) / 2
            self._is_settled = bool(np.abs(P - self.P).max() <= _SETTLED * np.abs(P).max())
            self._next = P
        return self._next

    def settled(self):
        """This step if it may serve the next row."""
        return self if self._is_settled else None
