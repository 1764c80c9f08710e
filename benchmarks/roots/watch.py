"""A watch that goes on: faults that stay, drift, modes, set points that move, beside EWMA charts."""

import numpy as np
import pandas as pd

from skfedcausal import Baseline, FederatedRCADetector

from .._rivals import Charts

TITLE = "A watch that goes on"
TEXT = (
    "Networks of six units of two states, four sensors and a valve, each in a loop of its own where nothing else is "
    "said; nominal records of {n_nominal} rows, {n_loops} where set points move and are given as inputs. Default "
    "detectors, one false alarm per 1000 rows asked for; beside them EWMA charts of what an autoregression of every "
    "column of the pooled table leaves, whose limits the nominal record gives. Named: share of faults whose unit the "
    "first alarm after their begin names (more is better, the limit is 1). False alarms: in 1000 rows without a fault."
)
NAMED, FALSE = "named", "false alarms"
TOOLS = {"skfedcausal": FederatedRCADetector, "EWMA charts": Charts}
N_UNITS, P, D = 6, 2, 4


class Network:
    """Units of two states, four sensors and a valve, each in a loop of its own that follows a set point."""

    def __init__(self, seed, control=True):
        self.seed = seed
        for attempt in range(50):
            rng = np.random.default_rng([seed, attempt])
            self.A, self.order = _transition(rng), rng.permutation(N_UNITS)
            self._link(rng)
            self.C = rng.standard_normal((N_UNITS, D, P))
            self.B = rng.standard_normal((N_UNITS, P))
            self.B /= np.linalg.norm(self.B, axis=1, keepdims=True)
            self.gains = self._gains() if control else np.zeros((2, N_UNITS))
            if self._radius() < 0.985:
                break
        self.root, self.second = rng.choice(self.order[:-1], 2, replace=False).tolist()
        self.push = rng.standard_normal((2, P))
        self.push /= np.linalg.norm(self.push, axis=1, keepdims=True)
        self.shift = 0.5 * rng.standard_normal((N_UNITS, P))

    def _link(self, rng):
        for k in range(1, N_UNITS):
            for cause in self.order[rng.choice(k, min(k, int(rng.integers(1, 3))), replace=False)]:
                block, i = rng.standard_normal((P, P)), self.order[k]
                block *= rng.uniform(0.4, 0.9) / np.linalg.norm(block, 2)
                self.A[P * i : P * i + P, P * cause : P * cause + P] = block

    def _gains(self):
        own = [self.A[P * m : P * m + P, P * m : P * m + P] for m in range(N_UNITS)]
        steady = [np.linalg.solve(np.eye(P) - A, b) for A, b in zip(own, self.B, strict=True)]
        sign = np.sign([C[0] @ x for C, x in zip(self.C, steady, strict=True)])
        return np.outer([0.15, 0.05], sign)

    def _radius(self):
        n, first = P * N_UNITS, np.zeros((N_UNITS, P * N_UNITS))
        valve = np.zeros((n, N_UNITS))
        for m in range(N_UNITS):
            first[m, P * m : P * m + P], valve[P * m : P * m + P, m] = self.C[m, 0], self.B[m]
        kp, ki = map(np.diag, self.gains)
        closed = np.block([[self.A - valve @ kp @ first, -valve @ ki], [first, np.eye(N_UNITS)]])
        return np.abs(np.linalg.eigvals(closed)).max()

    def run(self, n_rows, seed, *, faults=(), bias=None, points=None, drift=0.0, modes=None, burn=300):
        """Measurements of every unit; faults are (unit, row, size) of steps, bias is (unit, row, size) of a sensor."""
        rng = np.random.default_rng([seed, 77, self.seed])  # of every network its own
        noise, rough = rng.standard_normal((2, n_rows + burn, N_UNITS, D)) * 0.5
        slow = np.cumsum(rng.standard_normal((n_rows + burn, N_UNITS, D)), axis=0) * drift
        x, total, out = np.zeros((N_UNITS, P)), np.zeros(N_UNITS), np.empty((n_rows, N_UNITS, D + 1))
        for t in range(-burn, n_rows):
            y = np.einsum("mdp,mp->md", self.C, x) + noise[t + burn] + slow[t + burn] - slow[burn] * (t >= 0)
            if bias is not None and t >= bias[1]:
                y[bias[0], 0] += bias[2]
            error = y[:, 0] - (points[t] if points is not None and t >= 0 else 0.0)
            valve, total = -(self.gains[0] * error + self.gains[1] * total), total + error
            if t >= 0:
                out[t] = np.column_stack([y, valve + 0.05 * rough[t + burn, :, 0]])
            extra = np.zeros((N_UNITS, P))
            for k, (unit, row, size) in enumerate(faults):
                extra[unit] += size * self.push[k] * (t >= row)
            if modes is not None and t >= 0:
                extra += modes[t] * self.shift
            x = (self.A @ x.ravel()).reshape(N_UNITS, P) + self.B * valve[:, None]
            x += rough[t + burn, :, 1 : 1 + P] + extra
        kept = D + 1 if self.gains.any() else D
        return {f"u{m}": out[:, m, :kept] for m in range(N_UNITS)}


def _transition(rng):
    A = np.zeros((P * N_UNITS, P * N_UNITS))
    for m in range(N_UNITS):
        radius, angle = rng.uniform(0.6, 0.9), rng.uniform(0.1, 1.0)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        A[P * m : P * m + P, P * m : P * m + P] = radius * turn
    return A


def set_points(n_rows, every, seed):
    """Set points that jump about once in `every` rows, and as inputs of the units."""
    rng = np.random.default_rng([seed, 99])
    jumps = rng.random((n_rows, N_UNITS)) < 1 / every
    values = np.where(jumps, 2 * rng.standard_normal((n_rows, N_UNITS)), np.nan)
    values[0] = 0.0
    values = pd.DataFrame(values).ffill().to_numpy()
    return values, as_inputs(values)


def as_inputs(points):
    """Set points by unit."""
    return {f"u{m}": points[:, [m]] for m in range(N_UNITS)}


def switched(n_rows, every, rng):
    """Which of two modes a plant is in, switched about once in so many rows."""
    return np.cumsum(rng.random(n_rows) < 1 / every) % 2


# -- what is asked of a detector ----------------------------------------------------------------------------


def alarms(found, row=0):
    """Incidents that were alarms, from a row on."""
    return found[(found.kind != "drift") & (found.detected >= row)]


def named(found, row, unit):
    """Whether the first alarm from a row on names a unit."""
    later = alarms(found, row)
    return bool(len(later)) and later.root.iloc[0] == f"u{unit}"


def per_1000(found, n_rows):
    """Alarms per 1000 rows."""
    return 1000 * len(alarms(found)) / n_rows


def lasting(make, seed, s):
    """A fault that stays from row 300 on, a second one from row 500 on."""
    network = Network(seed)
    detector = make().fit(network.run(s["n_nominal"], 1))
    record = network.run(900, 2, faults=[(network.root, 300, 1.0), (network.second, 500, 1.0)])
    found = detector.incidents(record)
    second = (alarms(found, 500).root == f"u{network.second}").any()
    return {
        "fault that stays": {NAMED: named(found, 300, network.root)},
        "a second one 200 rows later": {NAMED: second},
    }


def quiet(make, seed, s):
    """Nominal operation: neither, levels that drift, and two modes of which the nominal record may have one."""
    network, n, n_rows = Network(seed, control=False), s["n_nominal"], s["n_quiet"]
    drifts = {"steady, no loops": 0.0, "slow drift": 0.5 / np.sqrt(5000), "two modes, not told": 0.0}
    out = {}
    for what, drift in drifts.items():
        modes = switched(n + n_rows, 1500, np.random.default_rng(seed)) if "modes" in what else None
        record = network.run(n + n_rows, 3, drift=drift, modes=modes)
        detector = make().fit({name: Y[:n] for name, Y in record.items()})
        out[what] = {FALSE: per_1000(detector.incidents({name: Y[n:] for name, Y in record.items()}), n_rows)}
    return out


def told_modes(make, seed, s):
    """Two modes that are switched every 100 rows and told in a column, and a step of 0.5 after a switch."""
    network, rng, n_rows = Network(seed), np.random.default_rng(seed + 500), s["n_quiet"]
    nominal = switched(s["n_nominal"], 100, rng)
    modes = switched(n_rows, 100, np.random.default_rng(seed))
    second = np.arange(900) >= 200
    records = [
        (network.run(s["n_nominal"], 1, modes=nominal), nominal),
        (network.run(n_rows, 3, modes=modes), modes),
        (network.run(900, 4, modes=second, faults=[(network.root, 450, 0.5)]), second),
    ]
    if make is FederatedRCADetector:  # a chart has no word for a mode
        detector, given = make(baseline=Baseline(mode="mode")), [X | {"mode": told} for X, told in records]
    else:
        detector, given = make(), [X for X, _ in records]
    detector.fit(given[0])
    false = per_1000(detector.incidents(given[1]), n_rows)
    return {"two modes, told": {NAMED: named(detector.incidents(given[2]), 450, network.root), FALSE: false}}


def elsewhere(make, seed, s):
    """Records that begin far from the nominal level and are half as lively there; a step from row 600 on."""
    network = Network(seed, control=False)
    detector = make().fit(network.run(s["n_nominal"], 1))
    network.shift = 4 * network.shift
    record = network.run(1160, 2, modes=np.ones(1160), faults=[(network.root, 660, 0.5)])
    settled = {name: Y[60:] for name, Y in record.items()}
    found = detector.incidents({name: 0.5 * (Y[:600].mean(axis=0) + Y) for name, Y in settled.items()})
    early = len(alarms(found)) - len(alarms(found, 600))
    return {"far from the nominal level": {NAMED: named(found, 600, network.root), FALSE: early / 0.6}}


def moving(make, seed, s, every):
    """Faults at row 300 while given set points move, false alarms without one, and a step to where none has been."""
    network, (points, inputs) = Network(seed), set_points(s["n_loops"], every, seed)
    detector, far = make().fit(network.run(s["n_loops"], 1, points=points), inputs=inputs), np.abs(points).max(axis=0)
    points, inputs = set_points(600, every, seed + 1000)
    deviation = network.run(1500, 5)[f"u{network.root}"][:, 0].std()
    faults = {"step": {"faults": [(network.root, 300, 0.5)]}, "bias": {"bias": (network.root, 300, 1.5 * deviation)}}
    right = {
        name: named(detector.incidents(network.run(600, 2, points=points, **fault), inputs=inputs), 300, network.root)
        for name, fault in faults.items()
    }
    points, inputs = set_points(s["n_moving"], every, seed + 2000)
    false = per_1000(detector.incidents(network.run(s["n_moving"], 3, points=points), inputs=inputs), s["n_moving"])
    moves = f"set points move every {every} rows"
    out = {f"{moves}, step": {NAMED: right["step"], FALSE: false}, f"{moves}, sensor bias": {NAMED: right["bias"]}}
    return out | (unseen(detector, network, far) if every == max(s["every"]) else {})


def unseen(detector, network, far):
    """A set point goes 2.5 times as far as it ever did at row 300, another unit has a fault 150 rows later."""
    points = np.zeros((700, N_UNITS))
    points[300:, network.root] = 2.5 * far[network.root]
    record = network.run(700, 2, points=points, faults=[(network.second, 450, 1.0)])
    found = detector.incidents(record, inputs=as_inputs(points))
    false = 1000 * ((alarms(found, 300).detected < 450).sum()) / 150
    right = (alarms(found, 450).root == f"u{network.second}").any()
    return {"set point 2.5 times as far as seen": {NAMED: right, FALSE: false}}


def asked(make, seed, s):
    """Everything that is asked on one network, by situation."""
    parts = [part(make, seed, s) for part in (lasting, quiet, told_modes, elsewhere)]
    parts += [moving(make, seed, s, every) for every in s["every"]]
    return {situation: told for part in parts for situation, told in part.items()}


def figures(s):
    """A row of every situation."""
    told = {tool: [asked(make, seed, s) for seed in s["seeds"]] for tool, make in TOOLS.items()}
    rows = []
    for situation in told["skfedcausal"][0]:
        row = {"situation": situation}
        for what in (NAMED, FALSE):
            for tool, networks in told.items():
                found = [one[situation][what] for one in networks if what in one[situation]]
                row[f"{what}: {tool}"] = float(np.mean(found)) if found else None
            if what == FALSE and found:
                row["false alarms: asked"] = 1.0
        rows.append(row)
    return {"Situations": rows}
