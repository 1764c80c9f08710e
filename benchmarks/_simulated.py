"""Simulated plants with known effects of their inputs, most of them outside the library's model class.

A plant has units, inputs and `simulate(U, noise)`: measurements of row t are read before the inputs of row t
act, unless `before` says otherwise.
"""

import numpy as np
import pandas as pd

from ._records import InputRecord


def _held(rng, n_samples, k, mean_hold):
    """Levels held for random times."""
    x = np.zeros((n_samples, k))
    for j in range(k):
        t = 0
        while t < n_samples:
            rows = 1 + rng.integers(mean_hold // 2, mean_hold * 2)
            x[t : t + rows, j] = rng.uniform(-1, 1)
            t += rows
    return x


def _coloured(rng, n_samples, k, a, scale=1.0):
    x, e = np.zeros((n_samples, k)), rng.standard_normal((n_samples, k)) * scale * np.sqrt(1 - a * a)
    for t in range(1, n_samples):
        x[t] = a * x[t - 1] + e[t]
    return x


class _Plant:
    units: dict[str, list[str]]
    inputs: dict[str, list[str]]
    process = measured = 0.05
    two_sensors = np.array([1.0, 0.6])
    before, basis = False, "linear"
    n_samples = 3000

    def drive(self, rng):
        raise NotImplementedError

    def simulate(self, U, noise):
        raise NotImplementedError

    def noise(self, rng):
        n, d = len(self.units), sum(map(len, self.units.values()))
        parts = {"w": (n, self.process), "v": (d, self.measured)}
        return {key: s * rng.standard_normal((self.n_samples, k)) for key, (k, s) in parts.items()}

    def closed(self, U, noise):
        """Inputs as they were set and measurements."""
        return U, self.simulate(U, noise)

    def effect(self, U, noise, set_, first, last):
        """What other inputs do in the rows from `first` on."""
        return (self.simulate(set_, noise) - self.simulate(U, noise))[first:last]


class HeatChain(_Plant):
    """Three exchangers in a line, dead times of 3, 8 and 15 rows, a wall in each."""

    units, inputs = {"e1": ["T"], "e2": ["T"], "e3": ["T"]}, {"e1": ["valve"], "e3": ["valve"]}
    gain, n_sensors = np.ones((3, 1)), 1

    def drive(self, rng):
        return 0.5 * _held(rng, self.n_samples, 2, 25)

    def noise(self, rng):
        d = 3 * self.n_sensors
        v = 0.05 * rng.standard_normal((self.n_samples, d))
        return {"w": _coloured(rng, self.n_samples, 3, 0.7, 0.05), "v": v}

    def simulate(self, U, noise):
        n, wall = len(U), np.zeros(3)
        x, Y = np.zeros((n + 1, 3)), np.zeros((n, 3 * self.n_sensors))
        for t in range(n):
            Y[t] = (x[t][:, None] * self.gain).ravel() + noise["v"][t]
            early = [0.0 if t < d else z[t - d] for z, d in ((U[:, 0], 3), (x[:, 0], 8), (x[:, 1], 15))]
            last = 0.8 * U[t - 1, 1] if t else 0.0
            drive = np.array([early[0], 0.9 * early[1], 0.9 * early[2] + last])
            wall = wall + 0.25 * (drive - wall)
            x[t + 1] = x[t] + 0.15 * (wall - x[t]) + 0.15 * noise["w"][t]
        return Y


class HeatChainManySensors(HeatChain):
    """The same with six sensors in every unit."""

    units = {e: [f"s{k}" for k in range(6)] for e in ("e1", "e2", "e3")}
    n_sensors, gain = 6, np.array([[1, 0.8, 1.2, 0.6, 0.9, 1.1]] * 3)


class SameRow(_Plant):
    """Three units of first order; actuators act within the row."""

    units, inputs = {u: ["s0", "s1"] for u in "abc"}, {"a": ["u"], "b": ["u"]}
    process = measured = 0.1
    before = True

    def drive(self, rng):
        return rng.standard_normal((self.n_samples, 2))

    def simulate(self, U, noise):
        A = np.array([[0.7, 0, 0], [0.25, 0.6, 0], [0, 0.3, 0.5]])
        B = np.array([[1, 0], [0, 0.8], [0, 0]])
        x, Y = np.zeros(3), np.zeros((len(U), 6))
        for t in range(len(U)):
            x = A @ x + B @ U[t] + noise["w"][t]
            Y[t] = np.kron(x, self.two_sensors) + noise["v"][t]
        return Y


class Controlled(_Plant):
    """Two coupled units of second order, one sensor each; PI controllers move the valves."""

    units, inputs = {"a": ["y"], "b": ["y"]}, {"a": ["valve"], "b": ["valve"]}

    def drive(self, rng):
        return _held(rng, self.n_samples, 2, 60)  # set points

    def noise(self, rng):
        v = 0.05 * rng.standard_normal((self.n_samples, 2))
        return {"w": 0.05 * _coloured(rng, self.n_samples, 2, 0.8), "v": v}

    def _run(self, set_points, noise, forced=None):
        n, x, summed = len(set_points), np.zeros((2, 2)), np.zeros(2)
        Y, V = np.zeros((n, 2)), np.zeros((n, 2))
        for t in range(n):
            Y[t] = x[:, 1] + noise["v"][t]
            error = set_points[t] - Y[t]
            summed = summed + 0.08 * error
            V[t] = 0.8 * error + summed if forced is None or np.isnan(forced[t, 0]) else forced[t]
            x[:, 0] += 0.2 * (V[t] - x[:, 0]) + np.array([0, 0.06 * x[0, 1]])
            x[:, 1] += 0.15 * (x[:, 0] - x[:, 1]) + noise["w"][t]
        return V, Y

    def closed(self, U, noise):
        self._set_points = U
        return self._run(U, noise)

    def effect(self, U, noise, set_, first, last):
        runs = []
        for series in (set_, U):
            forced = np.full_like(U, np.nan)
            forced[first:last] = series[first:last]
            runs.append(self._run(self._set_points, noise, forced)[1])
        return (runs[0] - runs[1])[first:last]


class Tanks(_Plant):
    """Four tanks, the upper ones not measured; flows follow square roots."""

    units, inputs = {"left": ["h1"], "right": ["h2"]}, {"left": ["v1"], "right": ["v2"]}

    def drive(self, rng):
        return 3 + 0.6 * _held(rng, self.n_samples, 2, 40)

    def noise(self, rng):
        w, v = (s * rng.standard_normal((self.n_samples, k)) for s, k in ((0.02, 4), (0.05, 2)))
        return {"w": w, "v": v}

    def simulate(self, U, noise):
        area, hole = np.array([28, 32, 28, 32.0]), np.array([0.071, 0.057, 0.071, 0.057])
        h, Y = np.array([12.4, 12.7, 1.8, 1.4]), np.zeros((len(U), 2))
        for t, (v1, v2) in enumerate(U):
            Y[t] = h[:2] + noise["v"][t]
            pumped = np.array([0.7 * 3.33 * v1, 0.6 * 3.35 * v2, 0.4 * 3.35 * v2, 0.3 * 3.33 * v1])
            for _ in range(5):
                flow = hole * np.sqrt(2 * 981 * np.maximum(h, 1e-3))
                h = np.maximum(h + (np.array([flow[2], flow[3], 0, 0]) - flow + pumped) / area, 1e-3)
            h = np.maximum(h + noise["w"][t], 1e-3)
        return Y


class Reactors(_Plant):
    """Two exothermic stirred tanks in series, coolant temperatures as inputs."""

    units, inputs = {"r1": ["c", "T"], "r2": ["c", "T"]}, {"r1": ["Tc"], "r2": ["Tc"]}

    def drive(self, rng):
        return 298 + 4 * _held(rng, self.n_samples, 2, 30)

    def noise(self, rng):
        v = rng.standard_normal((self.n_samples, 4)) * [0.003, 0.1, 0.003, 0.1]
        return {"f": _coloured(rng, self.n_samples, 1, 0.95, 0.03)[:, 0], "v": v}

    def simulate(self, U, noise):
        x, Y = np.array([0.88, 323, 0.8, 322.0]), np.zeros((len(U), 4))
        for t in range(len(U)):
            Y[t] = x + noise["v"][t]
            flow = 1 + noise["f"][t]
            for _ in range(4):
                c1, T1, c2, T2 = x
                r1, r2 = (7.2e10 * np.exp(-8750 / T) * c for c, T in ((c1, T1), (c2, T2)))
                heat = 5e4 / 239.0
                first = [flow * (1 - c1) - r1, flow * (350 - T1) + heat * r1 + 5e2 / 239.0 * (U[t, 0] - T1)]
                then = [flow * (c1 - c2) - r2, flow * (T1 - T2) + heat * r2 + 5e2 / 239.0 * (U[t, 1] - T2)]
                x = x + np.array(first + then) * 0.1 / 4
        return Y


class _TwoStates(_Plant):
    A = np.array([[0.85, 0], [0.12, 0.8]])
    units, inputs = {u: ["s0", "s1"] for u in "ab"}, {"a": ["valve"], "b": ["valve"]}

    def pushed(self, u):
        raise NotImplementedError

    def simulate(self, U, noise):
        x, Y = np.zeros(len(self.A)), np.zeros((len(U), 2 * len(self.A)))
        for t in range(len(U)):
            Y[t] = np.kron(x, self.two_sensors) + noise["v"][t]
            x = self.A @ x + self.pushed(U[t]) + noise["w"][t]
        return Y


class Saturating(_TwoStates):
    """Valves that saturate, with a quadratic gain."""

    basis = "spline"

    def drive(self, rng):
        return 1.3 * _held(rng, self.n_samples, 2, 6)

    def pushed(self, u):
        e = np.clip(u, -0.7, 0.7)
        return 0.3 * (e + 0.8 * e**2 - 0.1)


class OnOff(_TwoStates):
    """A pump that is on or off and acts on three units, and a valve."""

    A = np.array([[0.85, 0, 0], [0, 0.7, 0], [0, 0.2, 0.9]])
    units, inputs = {u: ["s0", "s1"] for u in "abc"}, {"a": ["pump"], "c": ["valve"]}
    process = measured = 0.1

    def drive(self, rng):
        pump = _held(rng, self.n_samples, 1, 20) > 0
        return np.hstack([pump, _held(rng, self.n_samples, 1, 10)]).astype(float)

    def pushed(self, u):
        return np.array([[0.5, 0], [0.4, 0], [0.2, 0.3]]) @ u


PLANTS = {
    "dead time": HeatChain,
    "dead time, six sensors": HeatChainManySensors,
    "same row": SameRow,
    "PI loops": Controlled,
    "four tanks, upper hidden": Tanks,
    "two reactors": Reactors,
    "saturating valves": Saturating,
    "on/off pump of three units": OnOff,
}


def moved(U, n_known, n_moved):
    """Inputs with the first one moved after the known rows: a switch is turned, others move by 1.2 deviations."""
    other, u, rows = U.copy(), U[:, 0], slice(n_known, n_known + n_moved)
    if set(np.unique(u)) <= {0.0, 1.0}:
        other[rows, 0] = 1 - u[rows]
        return other
    low, high = u.min(), u.max()
    step = u.std() if u[rows].mean() < (low + high) / 2 else -u.std()
    other[rows, 0] = np.clip(u[rows] + 1.2 * step, low, high)
    return other


def record_of(kind, plant, Y, U, n_known):
    """A simulated record, its columns in the order of the units."""
    outputs, inputs = ([f"{u}__{c}" for u, own in part.items() for c in own] for part in (plant.units, plant.inputs))
    data = pd.DataFrame(np.hstack([Y, U]), columns=outputs + inputs)
    data = data[sorted(data, key=lambda c: list(plant.units).index(c.split("__")[0]))]
    told = "before" if plant.before else "after", plant.basis
    return InputRecord(kind, data.iloc[:n_known], data, inputs, *told)


def relative_error(found, truth, scale):
    """Error of an effect over its size, Frobenius norms in standard deviations of the sensors."""
    return float(np.linalg.norm((found - truth) / scale) / np.linalg.norm(truth / scale))


def share_inside(low, high, truth, negligible):
    """Share of bands that hold the effect, of sensors and rows where it is not a negligible share of the largest."""
    counts = np.abs(truth) > negligible * np.abs(truth).max(axis=0)
    return float(((low <= truth) & (truth <= high))[counts].mean())
