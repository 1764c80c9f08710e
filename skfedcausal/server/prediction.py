"""Running the learned plant over a record: filtered and predicted states, log-likelihood."""

from functools import cached_property

import numpy as np

from ..statespace.filter import (
    covariance_schedule,
    filtered_states,
    log_likelihood_terms,
    predicted_states,
)
from ..statespace.riccati import stationary_covariance
from ..statespace.timedomain import smooth_series
from ..statespace.varying import filter_rows


class PlantFilter:
    """Kalman filter of the whole plant over the units' messages, exact for missing measurements.

    Parameters
    ----------
    A, Q : ndarray of shape (n, n)
    record : JointRecord
    """

    def __init__(self, A, Q, record):
        self._A, self._Q, self._record = A, Q, record

    @cached_property
    def _states(self):
        """Filtered and predicted states, and the log-likelihood terms that came with them (or None)."""
        record = self._record
        if record.is_constant:
            filtered = filtered_states(self._schedule, (record.z, None), starts=record.starts)
            return filtered, predicted_states(self._A, filtered, starts=record.starts), None
        n_samples, n = record.z.shape
        filtered, predicted = np.empty((n_samples, n)), np.empty((n_samples, n))
        terms = np.empty(n_samples)
        P0 = stationary_covariance(self._A, self._Q)
        for part in filter_rows(self._A, self._Q, P0, record.z, record.matrices, starts=record.starts):
            predicted[part.rows], filtered[part.rows] = part.predicted, part.filtered
            terms[part.rows] = part.terms
        return filtered, predicted, terms

    @cached_property
    def _schedule(self):
        J = self._record.block_diagonal([part.patterns[0] for part in self._record.parts])
        return covariance_schedule(self._A, self._Q, J)

    @property
    def filtered(self):
        """``E[h_t | messages up to t]``, shape (n_samples, n)."""
        return self._states[0]

    @property
    def predicted(self):
        """``E[h_t | messages up to t - 1]``, shape (n_samples, n)."""
        return self._states[1]

    def carried(self, matrix):
        """``matrix @ E[h_(t-1) | messages up to t - 1]`` per row, zero in the first row of an episode."""
        terms = np.zeros_like(self.filtered)
        np.dot(self.filtered[:-1], matrix.T, out=terms[1:])
        terms[list(self._record.starts)] = 0.0
        return terms

    def log_likelihood(self):
        """Log-density of all measurements at each step given the past, shape (n_samples,).

        Raises
        ------
        ValueError
            If a message came without the constants of its density.
        """
        record = self._record
        const = record.const()
        if const is None:
            raise ValueError("Likelihood values need messages with their constants (const=True).")
        _, predicted, terms = self._states
        if terms is not None:
            return const + terms
        return log_likelihood_terms(self._schedule, record.z, const, predicted, record.starts)


def smooth_plant(A, Q, record):
    """States of the plant given a whole record.

    Parameters
    ----------
    A, Q : ndarray of shape (n, n)
    record : JointRecord

    Returns
    -------
    states : ndarray of shape (n_samples, n)
        Less the constant level of each episode.
    covariances : list of ndarray of shape (n_samples or 1, p, p)
        Of each unit's states: per time step, or averaged over time for a unit whose sensors are always
        there (only the sum enters its estimates then).
    """
    J = record.block_diagonal([part.patterns[0] for part in record.parts]) if record.is_constant else None
    _, _, smoothed = smooth_series(
        A, Q, record.z, record.matrices, J=J, starts=record.starts, keep=record.partition.slices
    )
    covariances = [
        covariance.mean(axis=0, keepdims=True) if part.is_constant else covariance
        for part, covariance in zip(record.parts, smoothed.covariances, strict=True)
    ]
    return smoothed.states, covariances
