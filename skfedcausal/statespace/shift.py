"""Coherent shift statistic: likelihood ratio of a fault that stays, on the innovations of a Kalman filter.

A fault at unit m adds a constant f to the unit's rows of the state equation from onset tau on. Through the
plant and the filter it moves the mean of every later innovation in a known way, so the likelihood ratio
against "no fault" is that of a linear regression of innovations on signatures (Willsky & Jones 1976). With
the scaled innovations ``u = S^-1 (s - predicted)`` (S their covariance before scaling) the regression needs
only the smoothing scores r of the record (de Jong & Penzer 1998):

    r_t = u_t + F' r_(t+1),   b_tau = r_tau + ... + r_end,   ratio_m = b_m' M_mm^-1 b_m,

for every unit and every onset in one pass backwards. ``F = A (I - Pf J)`` carries a prediction error to the
next step. The ratio is twice the gain in log-likelihood, chi-square with P_m degrees of freedom without a
fault.

References
----------
.. [1] Willsky, Jones (1976), A generalized likelihood ratio approach to the detection and estimation of
       jumps in linear systems, IEEE Transactions on Automatic Control 21(1).
.. [2] de Jong, Penzer (1998), Diagnosing shocks in time series, Journal of the American Statistical
       Association 93(442).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .filter import covariance_schedule
from .recurrence import driven_recurrence


@dataclass(frozen=True)
class InnovationModel:
    """Steady Kalman filter of a plant seen through its innovations.

    Attributes
    ----------
    A, Q, J : ndarray of shape (n, n)
        Transition matrix, process covariance, information matrix of one step's measurements.
    """

    A: np.ndarray
    Q: np.ndarray
    J: np.ndarray

    @cached_property
    def schedule(self):
        """Covariances of the filter, see :func:`~skfedcausal.statespace.filter.covariance_schedule`."""
        return covariance_schedule(self.A, self.Q, self.J)

    @cached_property
    def scaling(self):
        """``(I + J P)^-1``, which turns ``z - J predicted`` into scaled innovations."""
        return np.linalg.inv(np.eye(len(self.A)) + self.J @ self.schedule.predicted[-1])

    @cached_property
    def weight(self):
        """Covariance of the scaled innovations, shape (n, n)."""
        W = self.scaling @ self.J
        return (W + W.T) / 2

    @cached_property
    def carry(self):
        """``F = A (I - Pf J)``."""
        return self.A - self.A @ self.schedule.filtered[-1] @ self.J

    @cached_property
    def held(self):
        """Shift of the mean innovation, once settled, per unit of a fault that stays: ``(I - F)^-1``."""
        return np.linalg.inv(np.eye(len(self.A)) - self.carry)

    def scaled(self, z, predicted):
        """Scaled innovations of rows whose information matrix is J.

        Parameters
        ----------
        z, predicted : ndarray of shape (n_samples, n)
            Information vectors and one-step-ahead states.

        Returns
        -------
        ndarray of shape (n_samples, n)
        """
        return (z - predicted @ self.J) @ self.scaling.T


def smoothing_scores(F, u):
    """``r_t = u_t + F' r_(t+1)`` with nothing after the last row, shape (n_samples, n)."""
    return driven_recurrence(F.T, (u[::-1], None))[::-1]


def step_scores(F, u):
    """Score of a fault that starts in each row and lasts to the end, shape (n_samples, n).

    Row tau is ``sum_(t >= tau) G_(t - tau)' u_t`` with ``G_k = I + F + ... + F^k``.
    """
    return np.cumsum(smoothing_scores(F, u)[::-1], axis=0)[::-1]


def step_information(F, W, n_steps):
    """Covariance of the step scores for windows of 1, ..., n_steps rows.

    Parameters
    ----------
    F, W : ndarray of shape (n, n)
        `carry` and `weight` of the model.
    n_steps : int

    Returns
    -------
    ndarray of shape (n_steps, n, n)
        Entry k - 1 is ``sum_(j < k) G_j' W G_j``.
    """
    n = len(F)
    G, total = np.zeros((n, n)), np.zeros((n, n))
    table = np.empty((n_steps, n, n))
    for k in range(n_steps):
        G = np.eye(n) + F @ G
        total = total + G.T @ W @ G
        table[k] = total
    return table


def bias_scores(model, u):
    """Score of a constant added to the unit's states as its sensors show them, from each row to the end.

    A sensor fault moves the innovation at once and is then taken back as far as the filter follows the
    sensor: ``b_tau = sum_(t >= tau) u_t - (A Pf J)' sum_(t > tau) r_t``.
    """
    r = smoothing_scores(model.carry, u)
    after = np.cumsum(r[::-1], axis=0)[::-1] - r
    gain = model.A @ model.schedule.filtered[-1] @ model.J
    return np.cumsum(u[::-1], axis=0)[::-1] - after @ gain


def bias_information(model, n_steps):
    """Covariance of the bias scores for windows of 1, ..., n_steps rows, shape (n_steps, n, n)."""
    n = len(model.A)
    gain = model.A @ model.schedule.filtered[-1] @ model.J
    error, total = np.zeros((n, n)), np.zeros((n, n))
    table = np.empty((n_steps, n, n))
    for k in range(n_steps):
        G = np.eye(n) + error
        total = total + G.T @ model.weight @ G
        table[k] = total
        error = model.carry @ error - gain
    return table


def likelihood_ratios(scores, information, columns):
    """Likelihood ratio of a fault in some of the states.

    Parameters
    ----------
    scores : ndarray of shape (k, n)
    information : ndarray of shape (k, n, n)
        Covariance of each row of scores.
    columns : sequence of int or slice
        States of the unit or units.

    Returns
    -------
    ndarray of shape (k,)
    """
    b = scores[:, columns]
    M = information[:, columns][:, :, columns]
    return np.einsum("ki,ki->k", b, np.linalg.solve(M, b[..., None])[..., 0])
