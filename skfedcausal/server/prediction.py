"""Running the learned plant over a record: filtered and predicted states, log-likelihood."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..statespace.filter import (
    covariance_schedule,
    filtered_states,
    log_likelihood_terms,
    predicted_states,
)
from ..statespace.inputs import input_term
from ..statespace.riccati import stationary_covariance
from ..statespace.timedomain import smooth_series
from ..statespace.varying import filter_rows


class PlantFilter:
    """Kalman filter of the whole plant over the units' messages, exact for missing measurements.

    Parameters
    ----------
    A, Q : ndarray of shape (n, n)
    record : JointRecord
    drive : InputDrive, default=None
        How the inputs act; None for a plant without inputs.
    """

    def __init__(self, A, Q, record, drive=None):
        self._A, self._Q, self._record = A, Q, record
        self._exogenous = None if drive is None else drive.exogenous(record)
        self._P0 = stationary_covariance(A, Q)
        if drive is not None:
            self._P0 = self._P0 + drive.spread

    def is_about(self, record):
        """Whether it ran over the same messages."""
        return len(record.parts) == len(self._record.parts) and all(
            ours.z is theirs.z for ours, theirs in zip(self._record.parts, record.parts, strict=True)
        )

    @cached_property
    def _states(self):
        """Filtered and predicted states, and the log-likelihood terms that came with them (or None)."""
        record = self._record
        settings = {"starts": record.starts, "exogenous": self._exogenous}
        if record.is_constant:
            filtered = filtered_states(self._schedule, (record.z, None), **settings)
            return filtered, predicted_states(self._A, filtered, **settings), None
        n_samples, n = record.z.shape
        filtered, predicted = np.empty((n_samples, n)), np.empty((n_samples, n))
        terms = np.empty(n_samples)
        for part in filter_rows(self._A, self._Q, self._P0, record.z, record.matrices, **settings):
            predicted[part.rows], filtered[part.rows] = part.predicted, part.filtered
            terms[part.rows] = part.terms
        return filtered, predicted, terms

    @cached_property
    def _schedule(self):
        J = self._record.block_diagonal([part.patterns[0] for part in self._record.parts])
        return covariance_schedule(self._A, self._Q, J, self._P0)

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


@dataclass(frozen=True)
class InputDrive:
    """How the inputs and steps of a record act on the states.

    Attributes
    ----------
    B : ndarray of shape (n, k)
        With the columns of the steps behind those of the inputs.
    level : ndarray of shape (k,)
        Level of the inputs and steps at which the states have theirs.
    spread : ndarray of shape (n, n)
        Covariance that unknown inputs before an episode add to its first state.
    held : ndarray of shape (n, k)
        What an input or step makes of the states that has been there before an episode: the new level for a
        step, zero for inputs, which vary.
    """

    B: np.ndarray
    level: np.ndarray
    spread: np.ndarray
    held: np.ndarray

    def inputs(self, record):
        """Inputs and steps less their level, shape (n_samples, k)."""
        return record.known - self.level

    def term(self, record):
        """What they add to the state equation, ``B u[t-1]`` of each row, shape (n_samples, n)."""
        return input_term(self.B, self.inputs(record), record.starts)

    def exogenous(self, record):
        """The same with the mean of the first state in the first row of each episode."""
        term, starts = self.term(record), list(record.starts)
        term[starts] = self.inputs(record)[starts] @ self.held.T
        return term


def smooth_plant(A, Q, record, drive=None, *, intercept=True):
    """States of the plant given a whole record.

    Parameters
    ----------
    A, Q : ndarray of shape (n, n)
    record : JointRecord
    drive : InputDrive, default=None
    intercept : bool, default=True
        Estimate a level of the states in each episode and leave it out.

    Returns
    -------
    states : ndarray of shape (n_samples, n)
        Less the level of each episode, if one was estimated.
    covariances : list of ndarray of shape (n_samples or 1, p, p)
        Of each unit's states: per time step, or averaged over time for a unit whose sensors are always
        there (only the sum enters its estimates then).
    """
    J = record.block_diagonal([part.patterns[0] for part in record.parts]) if record.is_constant else None
    settings = {"J": J, "starts": record.starts, "keep": record.partition.slices, "intercept": intercept}
    if drive is not None:
        A = np.hstack([A, drive.B])
        settings |= {"inputs": drive.inputs(record), "spread": drive.spread}
    _, _, smoothed = smooth_series(A, Q, record.z, record.matrices, **settings)
    covariances = [
        covariance.mean(axis=0, keepdims=True) if part.is_constant else covariance
        for part, covariance in zip(record.parts, smoothed.covariances, strict=True)
    ]
    return smoothed.states, covariances
