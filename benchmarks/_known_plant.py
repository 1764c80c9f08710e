"""What knowing a plant under control names as the root of its fault: an upper bound for methods that learn."""

from functools import cached_property

import numpy as np
from scipy.linalg import solve_discrete_are

from skfedcausal.datasets._faults import N_SENSORS, PROCESS_NOISE, SENSOR_NOISE, VALVE_NOISE, states_of

_TIMES = (3.0, 20.0)  # by which noise of a unit may have grown
_SUMS = 4e-3  # noise of the sums of controllers, so that the filter forgets where they began


class KnownPlant:
    """The true matrices of a FaultNetwork and the true onset.

    A unit's score is the best of a steady fault of its states, valve or one sensor, and of more process or sensor
    noise, with the Schwarz penalty. There is no candidate for changed dynamics, so that it is no bound for these.
    """

    def __init__(self, network):
        self.network, self.m, self.n = network, network.n_units, len(network.A)
        p, i = network.gains.T
        self.F = network.closed_loop[:-1, :-1]
        read = N_SENSORS * np.arange(self.m)  # the sensors in the loops
        self.into = np.zeros((len(self.F), N_SENSORS * self.m))  # noise of sensors into states and sums
        self.into[: self.n, read], self.into[self.n + np.arange(self.m), read] = -network.B * p, 1.0
        rows = [np.r_[k * (N_SENSORS + 1) : k * (N_SENSORS + 1) + N_SENSORS] for k in range(self.m)]
        self.H = np.zeros((self.m * (N_SENSORS + 1), len(self.F)))
        self.shown = np.zeros((len(self.H), N_SENSORS * self.m))  # noise of sensors in what is shown
        valve = np.zeros((len(self.H), self.m))
        for k in range(self.m):
            at, last = states_of(k), rows[k][-1] + 1
            self.H[rows[k], at], self.H[last, at] = network.C[k], -p[k] * network.C[k, 0]
            self.H[last, self.n + k] = -i[k]
            self.shown[rows[k], N_SENSORS * k + np.arange(N_SENSORS)] = 1.0
            self.shown[last, read[k]] = -p[k]
            valve[last, k] = 1.0
        self.R0 = VALVE_NOISE**2 * valve @ valve.T

    def gain(self, process, sensors):
        """Filter gain and innovation covariance from variances of the noise of states and of sensors."""
        Q = self.into * sensors @ self.into.T + 1e-9 * np.eye(len(self.F))
        Q[: self.n, : self.n] += np.diag(process)
        Q[self.n :, self.n :] += _SUMS * np.eye(self.m)
        R, S = self.R0 + self.shown * sensors @ self.shown.T, self.into * sensors @ self.shown.T
        P = solve_discrete_are(self.F.T, self.H.T, Q, R, s=S)
        covariance = self.H @ P @ self.H.T + R
        return np.linalg.solve(covariance, (self.F @ P @ self.H.T + S).T).T, covariance

    @cached_property
    def usual(self):
        """Variances of noise in nominal operation."""
        return np.full(self.n, PROCESS_NOISE**2), np.full(N_SENSORS * self.m, SENSOR_NOISE**2)

    @cached_property
    def filters(self):
        """By unit: filters under more noise of its states, or of its sensors."""
        found = []
        for k in range(self.m):
            here = []
            for factor in _TIMES:
                for part, at in ((0, states_of(k)), (1, slice(N_SENSORS * k, N_SENSORS * (k + 1)))):
                    noise = [values.copy() for values in self.usual]
                    noise[part][at] *= 1 + factor
                    here.append(self.gain(*noise))
            found.append(here)
        return found

    def innovations(self, Y, K):
        """Errors of one-step predictions."""
        x, errors, step = np.zeros(len(self.F)), np.empty_like(Y), self.F - K @ self.H
        for t, y in enumerate(Y):
            errors[t] = y - self.H @ x
            x = step @ x + K @ y
        return errors

    def root(self, data, onset, stop):
        """Unit with the best candidate, as a position."""
        Y = np.hstack(list(data.values()))[:stop]
        K, covariance = self.gain(*self.usual)
        white = np.linalg.cholesky(np.linalg.inv(covariance))
        e = self.innovations(Y, K)[onset:] @ white
        usual = (e**2).sum() + len(e) * np.linalg.slogdet(covariance)[1]
        steps = self._steps(K, white, len(e))
        scores = np.zeros(self.m)
        for k in range(self.m):
            found = [ratio(part, e) for part in self._of(steps, k)]
            for gain, other in self.filters[k]:
                errors = self.innovations(Y, gain)[onset:]
                cost = (errors * np.linalg.solve(other, errors.T).T).sum() + len(e) * np.linalg.slogdet(other)[1]
                found.append(usual - cost - np.log(len(e)))
            scores[k] = max(found)
        return int(scores.argmax())

    def _steps(self, K, white, n_rows):
        """Mean of whitened innovations after steps of every state, valve and sensor, (n_rows, n_outputs, n_steps)."""
        G = np.zeros((len(self.F), self.n + self.m))
        G[: self.n, : self.n], G[: self.n, self.n :] = np.eye(self.n), self.network.B
        G = np.hstack([G, self.into])
        shown = np.hstack([np.zeros((len(self.H), self.n)), self._valves_shown, self.shown])
        x, step, answers = np.zeros_like(G), self.F - K @ self.H, np.empty((n_rows, len(self.H), G.shape[1]))
        for t in range(n_rows):
            answers[t] = white.T @ (self.H @ x + shown)
            x = step @ x + G - K @ shown
        return answers

    @property
    def _valves_shown(self):
        """A step of a valve shows in its position."""
        shown = np.zeros((len(self.H), self.m))
        shown[(N_SENSORS + 1) * np.arange(self.m) + N_SENSORS, np.arange(self.m)] = 1.0
        return shown

    def _of(self, steps, k):
        """Answers to steps of the states, valve and each sensor of one unit."""
        first = self.n + self.m + N_SENSORS * k
        columns = [states_of(k), [self.n + k], *([first + j] for j in range(N_SENSORS))]
        return [steps[:, :, each].reshape(steps.shape[0] * steps.shape[1], -1) for each in columns]


def ratio(signature, e):
    """Likelihood ratio of signatures in whitened innovations, with the Schwarz penalty."""
    b, J = signature.T @ e.ravel(), signature.T @ signature
    return float(b @ np.linalg.solve(J + 1e-9 * np.eye(len(b)), b) - len(b) * np.log(len(e)))
