"""A Kalman filter as textbooks print it, and a unit to run it on."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_discrete_lyapunov

EPS = np.finfo(float).eps


@dataclass(frozen=True)
class Moments:
    """Means and covariances before and after each measurement, and its log-density given the past."""

    prior: np.ndarray
    prior_cov: np.ndarray
    posterior: np.ndarray
    posterior_cov: np.ndarray
    log_density: np.ndarray


@dataclass(frozen=True)
class Unit:
    """``h[t] = A h[t-1] + B u[t-1] + w``, ``y[t] = mean + C h[t] + v`` with full covariances."""

    A: np.ndarray
    B: np.ndarray
    C: np.ndarray
    Q: np.ndarray
    R: np.ndarray
    mean: np.ndarray

    @property
    def matrices(self):
        """Keywords of a KalmanClient."""
        return {"A": self.A, "B": self.B, "C": self.C, "Q": self.Q, "R": self.R}

    def simulate(self, n_samples, rng, *, missing=0.0):
        """Measurements and inputs."""
        p, d, k = len(self.A), len(self.C), self.B.shape[1]
        U = rng.normal(size=(n_samples, k))
        W = rng.normal(size=(n_samples, p)) @ np.linalg.cholesky(self.Q).T
        V = rng.normal(size=(n_samples, d)) @ np.linalg.cholesky(self.R).T
        H = np.zeros((n_samples, p))
        for t in range(1, n_samples):
            H[t] = self.A @ H[t - 1] + self.B @ U[t - 1] + W[t]
        Y = self.mean + H @ self.C.T + V
        Y[rng.random(Y.shape) < missing] = np.nan
        return Y, U

    def filter(self, Y, U=None, starts=(0,)):
        """Moments of every time step by the covariance form of the filter."""
        rows = []
        for t, y in enumerate(Y):
            if t in starts:
                h, P = np.zeros(len(self.A)), solve_discrete_lyapunov(self.A, self.Q)
            else:
                h, P = self.A @ h, self.A @ P @ self.A.T + self.Q
                if U is not None:
                    h = h + self.B @ U[t - 1]
            prior = h, P
            h, P, log_density = self._update(h, P, y)
            rows.append((*prior, h, P, log_density))
        return Moments(*(np.array(column) for column in zip(*rows, strict=True)))

    def _update(self, h, P, y):
        seen = np.flatnonzero(~np.isnan(y))
        C, S = self.C[seen], self.R[np.ix_(seen, seen)]
        S = C @ P @ C.T + S
        error = y[seen] - self.mean[seen] - C @ h
        gain = np.linalg.solve(S, C @ P).T
        log_density = -0.5 * (
            len(seen) * np.log(2 * np.pi) + np.linalg.slogdet(S)[1] + error @ np.linalg.solve(S, error)
        )
        return h + gain @ error, P - gain @ C @ P, log_density


def random_unit(rng, *, n_states=2, n_sensors=5, n_inputs=2, diagonal=True, level=0.0):
    """A stable unit; with `diagonal` the sensors' noises are independent and unequal."""
    A = rng.normal(size=(n_states, n_states))
    A *= 0.8 / np.abs(np.linalg.eigvals(A)).max()
    root = rng.normal(size=(n_states, n_states))
    noise = rng.normal(size=(n_sensors, n_sensors)) / 3
    return Unit(
        A,
        rng.normal(size=(n_states, n_inputs)),
        rng.normal(size=(n_sensors, n_states)),
        root @ root.T + np.eye(n_states),
        np.diag(rng.uniform(0.5, 2, n_sensors)) if diagonal else noise @ noise.T + np.eye(n_sensors),
        np.full(n_sensors, float(level)),
    )
