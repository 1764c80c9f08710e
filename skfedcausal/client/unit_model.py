"""A unit's state-space model as plain arrays, and what can be computed with it from raw measurements."""

from dataclasses import dataclass, replace

import numpy as np

from ..statespace.inputs import input_term
from ..statespace.kalman import (
    CovarianceSchedule,
    covariance_schedule,
    filter_missing,
    filtered_states,
    log_likelihood_terms,
    predicted_states,
)
from ..statespace.observation import information, weights
from ..statespace.riccati import NotStationaryError, predicted_covariance, stationary_covariance


@dataclass(frozen=True)
class UnitModel:
    """``h[t] = A h[t-1] + B u[t-1] + w[t-1]``, ``y[t] = mean + C h[t] + v[t]`` of one unit.

    Attributes
    ----------
    A, Q : ndarray of shape (n_states, n_states)
    C : ndarray of shape (n_sensors, n_states)
    R : ndarray of shape (n_sensors,) or (n_sensors, n_sensors)
        Covariance of the measurement noise, or its diagonal.
    mean : ndarray of shape (n_sensors,)
    B : ndarray of shape (n_states, n_inputs) or None
    input_mean : ndarray of shape (n_inputs,) or None
        Level of the inputs that belongs to `mean`; None stands for zero.
    unpredicted : ndarray of shape (n_sensors,) or None
        Variance of the measurements that their past leaves unpredicted, at least R, in a model with as many
        states as sensors whose R is a convention; None where R is known.
    products : ndarray of shape (n_sensors, n_sensors) or None
        Sums of products of the measurements less `mean` over the record that the model was identified from,
        where that is complete. They stay with the unit.
    """

    A: np.ndarray
    C: np.ndarray
    Q: np.ndarray
    R: np.ndarray
    mean: np.ndarray
    B: np.ndarray | None = None
    input_mean: np.ndarray | None = None
    unpredicted: np.ndarray | None = None
    products: np.ndarray | None = None

    @property
    def n_states(self):
        """Number of states."""
        return len(self.A)

    @property
    def weights(self):
        """``R^-1 C``, shape (n_sensors, n_states)."""
        return weights(self.C, self.R)

    def with_noise_share(self, share):
        """The model with R part of the way to `unpredicted`, and no choice any more."""
        return replace(self, R=self.R + share * (self.unpredicted - self.R), unpredicted=None)

    def unpredicted_states(self):
        """`unpredicted` as a covariance of states, shape (n_states, n_states); None where R is known."""
        if self.unpredicted is None:
            return None
        back = np.linalg.solve(self.C.T @ self.weights, self.weights.T)
        return (back * self.unpredicted) @ back.T

    def initial_covariance(self):
        """Covariance of the first state of an episode: stationary, or the steady prediction error
        covariance of a plant that has no stationary one."""
        try:
            return stationary_covariance(self.A, self.Q)
        except NotStationaryError:
            return predicted_covariance(self.A, self.C.T @ self.weights, self.Q)

    def schedule(self, J=None) -> CovarianceSchedule:
        """Filter covariances while the same sensors are there: all, or those with information `J`."""
        J = self.C.T @ self.weights if J is None else J
        return covariance_schedule(self.A, self.Q, J, self.initial_covariance())

    def information(self, Y, with_const=False):
        """Sufficient statistic of measurements."""
        return information(Y, self.C, self.R, mean=self.mean, with_const=with_const)

    def exogenous(self, U, starts):
        """Known term ``B (u[t-1] - input_mean)`` of each row, zero in the first row of an episode.

        None without inputs.
        """
        if self.B is None or U is None:
            return None
        if self.input_mean is not None:
            U = U - self.input_mean
        return input_term(self.B, U, starts)

    def filter(self, Y, U=None, starts=(0,)):
        """Filtered states, shape (n_samples, n_states); exact for missing measurements."""
        exogenous = self.exogenous(U, starts)
        if np.isfinite(Y.sum()):  # a NaN or infinity anywhere reaches the sum
            W = self.weights
            return filtered_states(
                self.schedule(),
                (Y, W),
                exogenous=exogenous,
                offset=-self.mean @ W if self.mean.any() else None,
                starts=starts,
            )
        info = self.information(Y)
        return filter_missing(
            self.A, self.Q, self.initial_covariance(), info, exogenous=exogenous, starts=starts
        ).filtered

    def predict(self, Y, U=None, starts=(0,)):
        """States predicted one step ahead, shape (n_samples, n_states)."""
        H = self.filter(Y, U, starts)
        return predicted_states(self.A, H, exogenous=self.exogenous(U, starts), starts=starts)

    def measurements(self, states):
        """Expected measurements of given states, shape (n_samples, n_sensors)."""
        return states @ self.C.T + self.mean

    def log_likelihood(self, Y, U=None, starts=(0,)):
        """Log-density of each row given the past, shape (n_samples,)."""
        info = self.information(Y, with_const=True)
        exogenous = self.exogenous(U, starts)
        if not info.is_constant:
            run = filter_missing(
                self.A, self.Q, self.initial_covariance(), info, exogenous=exogenous, starts=starts
            )
            return info.const + run.log_likelihood
        schedule = self.schedule(info.patterns[0])
        H = filtered_states(schedule, (info.z, None), exogenous=exogenous, starts=starts)
        predicted = predicted_states(self.A, H, exogenous=exogenous, starts=starts)
        return log_likelihood_terms(schedule, info.z, info.const, predicted, starts)
