"""Exact Kalman filter in information form for a constant information matrix.

The covariances do not depend on the data and settle after a few steps. They are computed step by step
until they have settled; from there on the filter is a linear recurrence with constant matrices, solved
without a loop over time (:mod:`~skfedcausal.statespace.recurrence`).
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dgesv

from .episodes import episodes
from .recurrence import driven_recurrence
from .riccati import filtered_covariance, predicted_covariance, stationary_covariance

_SETTLED = 1e-13  # relative distance to the steady covariance that is rounding
_NEARLY_SETTLED = 1e-9  # distance at which standing still means that rounding is in the way


@dataclass(frozen=True)
class CovarianceSchedule:
    """Predicted and filtered covariances of the first steps; the last entry holds ever after.

    Attributes
    ----------
    A, J : ndarray of shape (n, n)
        Transition matrix and information matrix they belong to.
    predicted, filtered : ndarray of shape (n_steps, n, n)
    """

    A: np.ndarray
    J: np.ndarray
    predicted: np.ndarray
    filtered: np.ndarray

    @property
    def n_transient(self):
        """Number of leading steps whose covariances have not settled."""
        return len(self.predicted) - 1

    def at(self, t):
        """Predicted and filtered covariance at step `t` of an episode."""
        k = min(t, self.n_transient)
        return self.predicted[k], self.filtered[k]


def covariance_schedule(A, Q, J, P0=None, max_steps=100_000):
    """Covariances of the filter from the first step until they settle.

    Parameters
    ----------
    A, Q, J : ndarray of shape (n, n)
    P0 : ndarray of shape (n, n), default=None
        Covariance of the first state before its measurement; None stands for the stationary one.
    max_steps : int
        Longest episode the schedule is for.

    Raises
    ------
    NotStationaryError
        If the filter has no steady state, or `P0` is None and the plant is not stationary.
    """
    settled = predicted_covariance(A, J, Q)
    P = stationary_covariance(A, Q) if P0 is None else P0
    eye = np.eye(len(A))
    scale = np.sqrt(np.maximum(settled.diagonal(), np.finfo(float).tiny))
    scale = np.outer(scale, scale)
    predicted, filtered = [], []
    distance, previous = np.abs((P - settled) / scale).max(), np.inf
    while distance > _SETTLED and len(predicted) < max_steps:
        if distance < _NEARLY_SETTLED and distance >= previous:
            break
        _, _, Pf, _ = dgesv(eye + P @ J, P)
        predicted.append(P)
        filtered.append(Pf)
        P = A @ Pf @ A.T + Q
        P = (P + P.T) / 2
        previous, distance = distance, np.abs((P - settled) / scale).max()
    predicted.append(settled)
    filtered.append(filtered_covariance(settled, J))
    return CovarianceSchedule(A, J, np.array(predicted), np.array(filtered))


def filtered_states(schedule, drive, *, exogenous=None, offset=None, starts=(0,), out=None):
    """Filtered states ``E[h_t | y_1..y_t]`` of one or several episodes.

    Parameters
    ----------
    schedule : CovarianceSchedule
    drive : tuple (Y, W)
        The information vectors are the rows of ``Y @ W``; ``W=None`` when `Y` holds them already.
    exogenous : ndarray of shape (n_samples, n), default=None
        Known term added to the state at each step (``B u[t-1]``); the first row of an episode is the
        mean of its first state.
    offset : ndarray of shape (n,), default=None
        Constant added to every information vector.
    starts : sequence of int
        First row of each episode.
    out : ndarray of shape (n_samples, n), default=None
        Array to write to, which may be Y itself.

    Returns
    -------
    H : ndarray of shape (n_samples, n)
    """
    Y, W = drive
    A, J = schedule.A, schedule.J
    n_samples, n = len(Y), len(A)
    H = np.empty((n_samples, n)) if out is None else out
    settled = schedule.filtered[-1]
    F = A - settled @ J @ A
    K = settled if W is None else settled @ W.T
    keep = None if exogenous is None else np.eye(n) - settled @ J
    shift = None if offset is None else settled @ offset
    for start, stop in episodes(starts, n_samples):
        first = min(stop, start + schedule.n_transient)
        h = _transient(schedule, drive, exogenous, offset, start, first, H)
        if first < stop:
            drives = [(Y[first:stop], K)]
            if exogenous is not None:
                drives.append((exogenous[first:stop], keep))
            driven_recurrence(F, *drives, offset=shift, x0=h, out=H[first:stop])
    return H


def _transient(schedule, drive, exogenous, offset, start, first, H):
    """Filter rows `start` to `first` with their own covariances; returns the last filtered state."""
    Y, W = drive
    A, J = schedule.A, schedule.J
    Z = Y[start:first] if W is None else Y[start:first] @ W
    h = None
    for k in range(first - start):
        t = start + k
        prediction = np.zeros(len(A)) if h is None else A @ h
        if exogenous is not None:
            prediction = prediction + exogenous[t]
        z = Z[k] if offset is None else Z[k] + offset
        h = H[t] = prediction + schedule.filtered[k] @ (z - J @ prediction)
    return h


def predicted_states(A, H, *, exogenous=None, starts=(0,)):
    """One-step-ahead predicted states from filtered ones; zero mean at the start of an episode."""
    predicted = np.empty_like(H)
    np.dot(H[:-1], A.T, out=predicted[1:])
    predicted[list(starts)] = 0.0
    if exogenous is not None:
        predicted += exogenous
    return predicted


def log_likelihood_terms(schedule, z, const, predicted, starts=(0,)):
    """Log-density of each measurement given its past, shape (n_samples,).

    Notes
    -----
    With innovation ``r = z - J h`` of the predicted state h, predicted covariance P and filtered
    covariance Pf: ``const - 1/2 (log|I + P J| - 2 h' z + h' J h - r' Pf r)``.
    """
    n_samples, n = z.shape
    J = schedule.J
    logdet = np.linalg.slogdet(np.eye(n) + schedule.predicted @ J)[1]
    Jh = predicted @ J
    r = z - Jh
    quadratic = np.einsum("ti,ti->t", predicted, Jh - 2 * z)
    gained = np.einsum("ti,ti->t", r @ schedule.filtered[-1], r)
    logdets = np.full(n_samples, logdet[-1])
    for start, stop in episodes(starts, n_samples):
        k = min(stop - start, schedule.n_transient)
        rows = slice(start, start + k)
        logdets[rows] = logdet[:k]
        gained[rows] = np.einsum("ti,tij,tj->t", r[rows], schedule.filtered[:k], r[rows])
    return const - 0.5 * (logdets + quadratic - gained)
