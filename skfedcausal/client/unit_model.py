"""A unit's state-space model as plain arrays, and what can be computed with it from raw measurements."""

from dataclasses import dataclass, replace

import numpy as np

from ..message.states import StateMessage
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
    """``h[t] = A h[t-1] + B u[t-1] + w[t-1]``, ``y[t] = mean + C h[t] + v[t]`` of one unit."""

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

    def message(self, Y, starts, *, inputs=None, const=False, local_model=False):
        """Message about measurements, and the unit's inputs."""
        info = self.information(Y, with_const=const)
        local_model = local_model or not info.determines_states  # the server needs a start
        message = StateMessage(
            info.z,
            info.patterns,
            info.index,
            tuple(int(k) for k in np.diff([*starts, len(Y)])),
            info.const,
            self.A if local_model else None,
            self.Q if local_model else None,
            unpredicted=self.unpredicted_states() if info.is_constant else None,
        )
        return message.with_inputs(inputs, self.B)

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


GIVEN = ("A", "B", "C", "Q", "R")
COMPLETE = frozenset("ACQR")  # with these there is nothing left to identify
_ASYMMETRY = 1e-8  # relative difference of a covariance and its transpose that is rounding
_NEGATIVE = 1e-10  # eigenvalue below zero, relative to the largest, that is rounding


def with_diagonal(R, added):
    """Noise covariance (or the diagonal of one) with independent noise of variances `added` on top."""
    return R + (added if R.ndim == 1 else np.diag(added))


def given_matrices(client, n_features=None):
    """The matrices the user gave as checked arrays."""
    return check_matrices({name: getattr(client, name) for name in GIVEN}, n_features)


def check_matrices(values, n_features=None):
    """Matrices by name as checked arrays, without those that are None."""
    given = {name: _as_floats(value, name) for name, value in values.items() if value is not None}
    if not given:
        return given
    if "C" not in given:
        raise ValueError(
            f"Matrices {sorted(given)} were given without C. Give C too (the states are defined by it), or "
            "none of them."
        )
    if given["C"].ndim != 2 or given["C"].shape[1] == 0:
        raise ValueError(f"C has shape {given['C'].shape}, expected (n_features, n_states).")
    _check_shapes(given, len(given["C"]) if n_features is None else n_features)
    if "A" in given and "Q" not in given:
        raise ValueError("A was given without Q. Give Q too, or leave A to be identified.")
    for name in given.keys() & {"A", "B", "C", "Q"}:
        if not np.isfinite(given[name]).all():
            raise ValueError(f"{name} has values that are not finite.")
    if "Q" in given:
        _check_process_covariance(given["Q"])
    if "R" in given:
        _check_noise_covariance(given["R"])
    return given


def _as_floats(value, name):
    try:
        array = np.asarray(value)
        if array.dtype.kind == "c":
            raise TypeError
        return array.astype(float, copy=False)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} is not a table of real numbers; give a 2-D array, or one list per row."
        ) from None


def _check_shapes(given, n_features):
    p = given["C"].shape[1]
    shapes = {"C": (n_features, p), "A": (p, p), "Q": (p, p)}
    for name, shape in shapes.items():
        if name in given and given[name].shape != shape:
            raise ValueError(
                f"{name} has shape {given[name].shape}, expected {shape} for {n_features} columns and {p} "
                "states."
            )
    if "R" in given and given["R"].shape not in {(n_features,), (n_features, n_features)}:
        raise ValueError(
            f"R has shape {given['R'].shape}, expected ({n_features},) or ({n_features}, {n_features})."
        )
    if "B" in given and (given["B"].ndim != 2 or len(given["B"]) != p):
        raise ValueError(f"B has shape {given['B'].shape}, expected ({p}, n_inputs).")


def _check_symmetric(S, name):
    off = np.abs(S - S.T)
    if off.max() > _ASYMMETRY * np.abs(S).max():
        i, j = np.unravel_index(off.argmax(), off.shape)
        raise ValueError(
            f"{name} must be symmetric; elements ({i}, {j}) and ({j}, {i}) are {S[i, j]:.3g} and "
            f"{S[j, i]:.3g}. For a small asymmetry give ({name} + {name}') / 2."
        )


def _check_process_covariance(Q):
    _check_symmetric(Q, "Q")
    values = np.linalg.eigvalsh(Q)
    if values[0] < -_NEGATIVE * np.abs(values).max():
        raise ValueError(
            f"Q must be positive semidefinite; its smallest eigenvalue is {values[0]:.3g}. Give a covariance."
        )


def _check_noise_covariance(R):
    if not np.isfinite(R).all():
        raise ValueError("R must be positive definite, but has values that are not finite.")
    if R.ndim == 2:
        _check_symmetric(R, "R")
    smallest = R.min() if R.ndim == 1 else np.linalg.eigvalsh(R)[0]
    if not smallest > 0:
        raise ValueError(
            f"R must be positive definite; its smallest eigenvalue is {smallest:.3g}. A sensor without "
            "noise still has a resolution: give its square over 12."
        )


def restricted(given, active):
    """Given matrices for the active columns only."""
    if active.all() or not given:
        return given
    given = {**given, "C": given["C"][active]}
    if "R" in given:
        R = given["R"]
        given["R"] = R[active] if R.ndim == 1 else R[np.ix_(active, active)]
    return given
