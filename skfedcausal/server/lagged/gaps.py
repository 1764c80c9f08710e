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
    """Filter the episodes of a record, in pieces of rows."""
    n, size = dynamics.n_states, len(P0)
    for start, stop in episodes(starts, record.n_samples):
        run = RowFilter(dynamics, np.zeros(size) if exogenous is None else exogenous[start], P0)
        for first in range(start, stop, _ROWS):
            rows = slice(first, min(first + _ROWS, stop))
            z, J = record.z[rows], record.matrices(rows)
            predicted, filtered = np.empty((2, len(z), size))
            terms, own = np.empty(len(z)), np.empty((len(z), n, n))
            for k, t in enumerate(range(first, rows.stop)):
                predicted[k] = run.mean
                step, residual, filtered[k] = run.row(z[k], J[k])
                own[k], before = step.own, predicted[k, :n]
                terms[k] = -0.5 * (step.logdet - before @ (z[k] + residual) - residual @ (step.gain[:n] @ residual))
                if exogenous is not None and t + 1 < stop:
                    run.mean = run.mean + exogenous[t + 1]
            yield FilteredRows(rows, predicted, filtered, terms, Covariances(J, own, own, None, None))


class RowFilter:
    """The filter row by row: mean and covariance of the states and their lags before the next one."""

    def __init__(self, dynamics, mean, P):
        self._dynamics, self._step = dynamics, None
        self.mean, self.P = mean, P

    def row(self, z, J):
        """The :class:`RowStep` of one row, what the mean misses of it, and the filtered states; on to the next."""
        dynamics, n = self._dynamics, self._dynamics.n_states
        if self._step is None or not self._step.holds(J):
            self._step = RowStep(dynamics, self.P, J)
        step, mean = self._step, self.mean
        residual = z - J @ mean[:n]
        filtered = mean + step.gain @ residual
        self.mean = np.concatenate([dynamics.top @ filtered, filtered[:-n]])
        self.P, self._step = step.following(dynamics), step.settled()
        return step, residual, filtered


class RowStep:
    """Covariances of one row."""

    def __init__(self, dynamics, P, J):
        n = dynamics.n_states
        self.P, self.own, self._J, self._is_settled = P, P[:n, :n], J, False
        right = P[:, :n]
        inner = np.eye(n) + J @ self.own
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
