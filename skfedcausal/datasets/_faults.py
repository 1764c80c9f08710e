"""Simulated plants under control with faults of many kinds."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_discrete_lyapunov

from ..bases import MadePlant
from ._records import as_generator, check_count, require
from .tuning import TUNING

N_STATES, N_SENSORS = 2, 4  # of every unit, whose fifth column is the position of its valve
PROCESS_NOISE, SENSOR_NOISE, VALVE_NOISE = 0.5, 0.5, 0.05
_LATER = {"two overlapping": 40, "second in open incident": 200}  # rows after which the second fault begins

FAULT_KINDS = {  # usual sizes; None where there is none
    "step": 0.5,
    "large step": 1.0,
    "sensor bias": 1.5,
    "sensor drift": 3.0,
    "sensor freeze": None,
    "unit held": None,
    "sensor gain": 1.7,
    "sensor noise": 1.0,
    "stuck valve": None,
    "valve loss": 0.3,
    "valve stiction": 2.5,
    "ramp": 1.0,
    "oscillation": 1.0,
    "changed dynamics": 0.6,
    "variance": 1.6,
    "link loss": None,
    "two overlapping": 1.0,
    "second in open incident": 1.0,
}


def make_fault_plant(
    n_units: int = 6,
    fault: str | None = None,
    *,
    size: float | None = None,
    n_samples: int = 600,
    onset: int = 200,
    duration: int | None = None,
    set_points: int | ArrayLike | None = None,
    weather: float = 0.0,
    plant_state: int = 0,
    random_state: Any = None,
) -> MadePlant:
    """Simulate units under control that act on each other, with a fault of one of eighteen kinds.

    Every unit has two states, four sensors and a valve. A controller of its own moves the valve by what the
    first sensor shows (proportional and integral), and the position of the valve is the fifth column. Units
    act on each other in a graph that is closed by a link back.

    Parameters
    ----------
    n_units : int, default=6
        At least 2.
    fault : str or None, default=None
        Kind of fault, one of ``FAULT_KINDS``. None: nominal operation.
    size : float, default=None
        Of the fault; None for ``FAULT_KINDS[fault]``, see Notes.
    n_samples : int, default=600
    onset : int, default=200
        First row with the fault.
    duration : int, default=None
        Rows that the fault lasts; None: to the end of the record.
    set_points : int or array-like of shape (n_samples, n_units), default=None
        None: all at zero. An int: each moves to a new value, normal with standard deviation 2, about once in so
        many rows.
    weather : float, default=0.0
        Strength of an unmeasured cause of slow change that all units have in common.
    plant_state : int, default=0
        Draws the plant, and unit, sensor and direction of its fault; records with the same one are of the same
        plant.
    random_state : int, RandomState instance, Generator or None, default=None
        Draws the record.

    Returns
    -------
    plant : Bunch
        With ``data``, a dict of unit name to array (n_samples, 5); ``inputs``, the set-points by unit name,
        arrays (n_samples, 1), or None without any; ``target``, per row the unit in which the fault that is
        there began, "" without one; ``faults``, tuples (first row, row after the last, unit) in the order of
        their onsets; ``kind``, "sensor" or "process", "" without a fault; ``links``, pairs of names; and
        ``network``, the true matrices.

    Raises
    ------
    ValueError
        If an argument is invalid.

    Notes
    -----
    What the sizes measure, and what the faults do to unit m:

    ========================= =================================================================
    step, large step, ramp    push of a state equation, over 1; a ramp takes 300 rows
    sensor bias, drift        standard deviations of the sensor; a drift takes 300 rows
    sensor freeze             one sensor keeps its first value
    unit held                 all five columns keep their first values, and the loop winds up
    sensor gain, sensor noise factor of a sensor; noise in its standard deviations
    stuck valve               keeps its position
    valve loss                factor of what the controller asks for
    valve stiction            moves by at least so many of its standard deviations
    oscillation               amplitude of a push with a period of 25 rows
    changed dynamics          factor of the unit's own block of the transition matrix
    variance                  factor of the standard deviation of the process noise
    link loss                 another unit acts on m no more
    two overlapping           steps at two units, 40 rows apart
    second in open incident   the same, 200 rows apart
    ========================= =================================================================

    Standard deviations are those of the plant in nominal operation with all set-points at zero. States and
    sensors have noise of standard deviation 0.5, valves of 0.05.

    Examples
    --------
    >>> from skfedcausal.datasets import make_fault_plant
    >>> plant = make_fault_plant(fault="stuck valve", random_state=0)
    >>> plant.data["unit0"].shape, plant.kind, len(plant.faults)
    ((600, 5), 'process', 1)
    """
    n_units, n_samples = check_count(n_units, "n_units", 2), check_count(n_samples, "n_samples", 1)
    kinds = f"None or one of {', '.join(map(repr, FAULT_KINDS))}"
    require(fault is None or fault in FAULT_KINDS, "fault", kinds, fault)
    onset = check_count(onset, "onset", 0)
    stop = n_samples if duration is None else min(onset + check_count(duration, "duration", 1), n_samples)
    network = FaultNetwork.drawn(n_units, plant_state, float(weather))
    rng, names = as_generator(random_state), [f"unit{m}" for m in range(n_units)]
    moves = _set_points(set_points, n_samples, n_units, rng)
    acting = _Fault(network, fault, FAULT_KINDS.get(fault or "") if size is None else float(size), onset, stop)
    readings = network.record(n_samples, rng, acting, moves)
    faults = acting.faults(names)
    target = np.full(n_samples, "", dtype=object)
    for first, last, unit in reversed(faults):
        target[first:last] = unit
    kind = "" if fault is None else "sensor" if fault in _SENSOR_FAULTS else "process"
    return MadePlant(
        data={name: readings[:, m] for m, name in enumerate(names)},
        inputs=None if set_points is None else {name: moves[:, m : m + 1] for m, name in enumerate(names)},
        target=target.astype(str),
        faults=faults,
        kind=kind,
        links=[(names[cause], names[effect]) for cause, effect in network.links],
        network=network,
    )


def _set_points(wanted, n_samples, n_units, rng):
    """Set-points of all units in every row, shape (n_samples, n_units)."""
    if wanted is None:
        return np.zeros((n_samples, n_units))
    if np.ndim(wanted) == 0:
        every = check_count(wanted, "set_points", 1)
        moves = rng.random((n_samples, n_units)) < 1 / every
        values, last = 2 * rng.standard_normal((n_samples, n_units)), np.zeros(n_units)
        for t, row in enumerate(moves):
            values[t] = last = np.where(row, values[t], last)
        return values
    given = np.asarray(wanted, dtype=float)
    require(given.shape == (n_samples, n_units), "set_points", f"an array ({n_samples}, {n_units})", given.shape)
    return given


# -- plant -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FaultNetwork:
    """True matrices of a plant under control, and where its faults strike.

    A, (n, n), B, (n, n_units), C, (n_units, N_SENSORS, N_STATES); `gains` are the proportional and the integral
    one of every unit, (n_units, 2); `weather` is how the weather acts on the states, (n,).
    """

    A: np.ndarray
    B: np.ndarray
    C: np.ndarray
    gains: np.ndarray
    weather: np.ndarray
    links: tuple[tuple[int, int], ...]
    root: int
    second: int
    sensor: int
    pushes: np.ndarray  # directions of the two faults, (2, N_STATES)

    @classmethod
    def drawn(cls, n_units, plant_state, weather=0.0):
        """A plant whose slowest mode dies out; after many tries its links are drawn weaker from try to try."""
        n = N_STATES * n_units + n_units
        for attempt in range(TUNING.faults_most_draws):
            rng = np.random.default_rng([plant_state, n_units, attempt])
            share = TUNING.faults_weaker ** max(0, attempt + 1 - TUNING.faults_draws)
            network = cls._draw(n_units, rng, weather, share)
            if np.abs(np.linalg.eigvals(network.closed_loop[:n, :n])).max() < TUNING.faults_stable:
                return network
        raise ValueError(
            f"No stable plant of {n_units} units was found in {TUNING.faults_most_draws} draws; ask for fewer units."
        )

    @classmethod
    def _draw(cls, n_units, rng, weather, share):
        n = N_STATES * n_units
        A, B, links, order = np.zeros((n, n)), np.zeros((n, n_units)), [], rng.permutation(n_units).tolist()
        for m in range(n_units):
            radius, angle = rng.uniform(0.6, 0.9), rng.uniform(0.1, 1.0)
            turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            A[states_of(m), states_of(m)] = radius * turn

        def link(cause, effect, low, high):
            block = rng.standard_normal((N_STATES, N_STATES))
            A[states_of(effect), states_of(cause)] = share * rng.uniform(low, high) * block / np.linalg.norm(block, 2)
            links.append((cause, effect))

        for k in range(1, n_units):
            for j in rng.choice(k, min(k, rng.integers(1, 3)), replace=False):
                link(order[j], order[k], 0.4, 0.9)
        link(order[-1], order[0], 0.2, 0.4)
        C = rng.standard_normal((n_units, N_SENSORS, N_STATES))
        gains = np.empty((n_units, 2))
        for m in range(n_units):
            b, own = rng.standard_normal(N_STATES), A[states_of(m), states_of(m)]
            B[states_of(m), m] = b / np.linalg.norm(b)
            answer = C[m, 0] @ np.linalg.solve(np.eye(N_STATES) - own, B[states_of(m), m])
            gains[m] = np.array([0.15, 0.05]) * np.sign(answer)
        root = int(order[rng.integers(0, n_units - 1)])
        second = int(rng.choice([m for m in range(n_units) if m != root]))
        pushes = rng.standard_normal((2, N_STATES))
        pushes /= np.linalg.norm(pushes, axis=1, keepdims=True)
        gust = weather * rng.standard_normal(n) / np.sqrt(2)
        return cls(A, B, C, gains, gust, tuple(links), root, second, int(rng.integers(N_SENSORS)), pushes)

    @property
    def n_units(self):
        """Number of units."""
        return len(self.C)

    @property
    def cause(self):
        """Unit whose link to the root is lost."""
        return next(cause for cause, effect in self.links if effect == self.root)

    @cached_property
    def first_sensor(self):
        """Rows of C that controllers read, shape (n_units, n)."""
        rows = np.zeros((self.n_units, len(self.A)))
        for m in range(self.n_units):
            rows[m, states_of(m)] = self.C[m, 0]
        return rows

    @cached_property
    def closed_loop(self):
        """Transition matrix of states, sums of the controllers and weather, whose last entry it is."""
        read, (p, i) = self.first_sensor, self.gains.T
        F = np.block([[self.A - self.B * p @ read, -self.B * i], [read, np.eye(self.n_units)]])
        gust = np.concatenate([self.weather, np.zeros(self.n_units)])
        return np.block([[F, gust[:, None]], [np.zeros((1, len(F))), np.array([[TUNING.faults_weather]])]])

    @cached_property
    def spread(self):
        """Standard deviations of all columns in nominal operation, shape (n_units, N_SENSORS + 1)."""
        n, m, (p, i) = len(self.A), self.n_units, self.gains.T
        into = np.vstack([-self.B * p, np.eye(m), np.zeros((1, m))])  # noise of the sensors that are read
        noise = SENSOR_NOISE**2 * into @ into.T
        noise[:n, :n] += PROCESS_NOISE**2 * np.eye(n)
        noise[-1, -1] += 1 - TUNING.faults_weather**2
        P = solve_discrete_lyapunov(self.closed_loop, noise)
        spread = np.empty((m, N_SENSORS + 1))
        for k in range(m):
            at = states_of(k)
            spread[k, :-1] = np.diag(self.C[k] @ P[at, at] @ self.C[k].T) + SENSOR_NOISE**2
            row = np.zeros(len(P))
            row[at], row[n + k] = -p[k] * self.C[k, 0], -i[k]
            spread[k, -1] = row @ P @ row + (p[k] * SENSOR_NOISE) ** 2
        return np.sqrt(spread)

    def record(self, n_samples, rng, fault, set_points):
        """Readings of all columns, shape (n_samples, n_units, N_SENSORS + 1)."""
        m, n, (p, i) = self.n_units, len(self.A), self.gains.T
        w = PROCESS_NOISE * rng.standard_normal((n_samples + TUNING.faults_burn, n))
        v = SENSOR_NOISE * rng.standard_normal((n_samples + TUNING.faults_burn, m, N_SENSORS))
        positions = VALVE_NOISE * rng.standard_normal((n_samples + TUNING.faults_burn, m))
        gusts = np.sqrt(1 - TUNING.faults_weather**2) * rng.standard_normal(n_samples + TUNING.faults_burn)
        x, sums, valves, weather = np.zeros(n), np.zeros(m), np.zeros(m), 0.0
        found = np.empty((n_samples + TUNING.faults_burn, m, N_SENSORS + 1))
        for t in range(len(found)):
            row = t - TUNING.faults_burn
            wanted = set_points[max(row, 0)]
            y = np.einsum("mdp,mp->md", self.C, x.reshape(m, N_STATES)) + v[t]
            y = fault.sensors(y, row, rng)
            error = y[:, 0] - wanted
            command = -(p * error + i * sums)
            sums = sums + error
            valves = fault.valves(command, valves, row)
            found[t, :, :-1], found[t, :, -1] = y, valves + positions[t]
            fault.hold(found, t, row)
            weather = TUNING.faults_weather * weather + gusts[t]
            A, push, noise = fault.dynamics(row)
            x = A @ x + self.B @ valves + noise * w[t] + push + self.weather * weather
        return found[TUNING.faults_burn :]


def states_of(unit):
    """Where the states of a unit are."""
    return slice(N_STATES * unit, N_STATES * (unit + 1))


# -- faults ----------------------------------------------------------------------------------------------


def _kept(value, fault, at, _):
    """The first value for good."""
    return fault.first("sensors", value)


_SENSOR_FAULTS = {
    "sensor bias": lambda value, fault, at, rng: value + fault.size * fault.sensor_spread,
    "sensor drift": lambda value, fault, at, rng: (
        value + fault.size * fault.sensor_spread * min(at / TUNING.faults_ramp, 1)
    ),
    "sensor freeze": _kept,
    "unit held": _kept,
    "sensor gain": lambda value, fault, at, rng: value * fault.size,
    "sensor noise": lambda value, fault, at, rng: value + fault.size * fault.sensor_spread * rng.standard_normal(),
}
_SHAPES = {  # of pushes over time
    "step": lambda at: 1.0,
    "large step": lambda at: 1.0,
    "two overlapping": lambda at: 1.0,
    "second in open incident": lambda at: 1.0,
    "ramp": lambda at: min(at / TUNING.faults_ramp, 1.0),
    "oscillation": lambda at: np.sin(2 * np.pi * at / TUNING.faults_period),
}


class _Fault:
    """A fault in the rows from `onset` to `stop`; nothing where `kind` is None."""

    def __init__(self, network, kind, size, onset, stop):
        self.network, self.kind, self.size, self.onset, self.stop = network, kind, size, onset, stop
        self._first = {}

    def faults(self, names):
        """Tuples (first row, row after the last, unit)."""
        if self.kind is None or self.onset >= self.stop:
            return []
        found = [(self.onset, self.stop, names[self.network.root])]
        second = self.onset + _LATER.get(self.kind, self.stop)
        return found + ([(second, self.stop, names[self.network.second])] if second < self.stop else [])

    @property
    def sensor_spread(self):
        """Standard deviation of the sensor at fault."""
        return self.network.spread[self.network.root, self.network.sensor]

    def first(self, what, value):
        """The value that something had when the fault began."""
        return self._first.setdefault(what, np.copy(value))

    def _acts(self, row, kinds):
        return self.kind in kinds and self.onset <= row < self.stop

    def sensors(self, y, row, rng):
        """Readings of the sensors in a row, (n_units, N_SENSORS)."""
        if self._acts(row, _SENSOR_FAULTS):
            at = self.network.root if self.kind == "unit held" else (self.network.root, self.network.sensor)
            y[at] = _SENSOR_FAULTS[self.kind](y[at], self, row - self.onset, rng)
        return y

    def valves(self, command, last, row):
        """Positions of the valves from what the controllers ask for and the last positions, (n_units,)."""
        m, valves = self.network.root, command.copy()
        if self._acts(row, ("stuck valve",)):
            valves[m] = self.first("valve", last[m])
        elif self._acts(row, ("valve loss",)):
            valves[m] = self.size * command[m]
        elif self._acts(row, ("valve stiction",)):
            least = self.size * self.network.spread[m, -1]
            valves[m] = last[m] if abs(command[m] - last[m]) < least else command[m]
        return valves

    def hold(self, found, t, row):
        """Hold the reported position of the valve too where the whole unit is held."""
        if self._acts(row, ("unit held",)):
            m = self.network.root
            found[t, m, -1] = self.first("position", found[t, m, -1])

    def dynamics(self, row):
        """Transition matrix, push of the states and factor of their noise in a row."""
        A, push, noise = self.network.A, np.zeros(len(self.network.A)), np.ones(len(self.network.A))
        at, m = row - self.onset, self.network.root
        here = states_of(m)
        if self._acts(row, _SHAPES):
            push[here] = self.size * _SHAPES[self.kind](at) * self.network.pushes[0]
            if at >= _LATER.get(self.kind, self.stop):
                push[states_of(self.network.second)] = self.size * self.network.pushes[1]
        elif self._acts(row, ("changed dynamics",)):
            A = A.copy()
            A[here, here] *= self.size
        elif self._acts(row, ("variance",)):
            noise[here] = self.size
        elif self._acts(row, ("link loss",)):
            A = A.copy()
            A[here, states_of(self.network.cause)] = 0.0
        return A, push, noise
