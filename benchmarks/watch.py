"""A watch that goes on: a second fault after one that stays, drift, modes, moving set-points.

Run ``python -m benchmarks.watch --networks 24``.
"""

import argparse
import warnings

import numpy as np

from skfedcausal import FederatedRCADetector, KalmanClient

from ._report import table, write

N_UNITS, NOMINAL, LOOPS_NOMINAL = 6, 1500, 5000
P, D = 2, 4
MODES_TOLD = (
    *((how, None) for how in ("nothing", "nothing, levels=None", "mode= of the units", "campaigns", "mode=")),
    *((how, 100) for how in ("nothing", "mode= of the units", "mode=")),
)


class Network:
    """Units of two states, four sensors and a valve, each in a loop of its own that follows a set-point."""

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
    """Set-points that jump about once in `every` rows, and as inputs of the units."""
    rng = np.random.default_rng([seed, 99])
    jumps = rng.random((n_rows, N_UNITS)) < 1 / every
    values = np.where(jumps, 2 * rng.standard_normal((n_rows, N_UNITS)), np.nan)
    values[0] = 0.0
    for t in range(1, n_rows):
        values[t] = np.where(np.isnan(values[t]), values[t - 1], values[t])
    return values, {f"u{m}": values[:, [m]] for m in range(N_UNITS)}


def alarms(found, row=0):
    """Incidents that were alarms, from a row on."""
    return found[(found.kind != "drift") & (found.detected >= row)]


def first_is(found, unit):
    """Whether the first of some incidents names a unit."""
    return bool(len(found)) and found.root.iloc[0] == f"u{unit}"


def lasting(n_networks):
    """A fault that stays from row 300 on, a second one from row 500 on."""
    told = []
    for seed in range(n_networks):
        network = Network(seed)
        detector = FederatedRCADetector().fit(network.run(NOMINAL, 1))
        record = network.run(900, 2, faults=[(network.root, 300, 1.0), (network.second, 500, 1.0)])
        found = detector.incidents(record)
        later = alarms(found, 500)
        named = (later.root == f"u{network.second}").any()
        told.append((first_is(alarms(found, 300), network.root), named, len(alarms(found, 300)) / 2))
    names = ("first named by the first incident", "second named", "incidents per lasting fault")
    return dict(zip(names, np.mean(told, axis=0).round(3), strict=True))


def quiet(n_networks, what, n_rows=6000):
    """Rows of the table on nominal operation with levels that drift, two modes, or neither."""
    told, knows_both = [], []
    for seed in range(n_networks):
        network, switches = (
            Network(seed, control=False),
            np.random.default_rng(seed).random(NOMINAL + n_rows) < 1 / 1500,
        )
        modes = np.cumsum(switches) % 2 if what == "two modes" else None
        drift = 0.5 / np.sqrt(5000) if what == "slow drift" else 0.0
        record = network.run(NOMINAL + n_rows, 3, drift=drift, modes=modes)
        detector = FederatedRCADetector().fit({name: Y[:NOMINAL] for name, Y in record.items()})
        later = {name: Y[NOMINAL:] for name, Y in record.items()}
        found = detector.incidents(later)
        knows_both.append(modes is not None and 0 < modes[:NOMINAL].mean() < 1)
        told.append(((detector.predict(later) == -1).mean(), 1000 * len(alarms(found)) / n_rows, len(found)))
    groups = {what: np.ones(n_networks, dtype=bool)}
    if any(knows_both):
        groups[f"{what}, both in the nominal record"] = np.array(knows_both)
        groups[f"{what}, one in the nominal record"] = ~np.array(knows_both)
    return [_operation(name, np.array(told)[chosen]) for name, chosen in groups.items()]


def _operation(name, told):
    share, rate, _ = told.mean(axis=0)
    return {
        "operation": name,
        "networks": len(told),
        "rows in alarm": f"{share:.4f}",
        "alarms per 1000 rows": f"{rate:.2f}",
    }


def modes_told(n_networks, how, every=None, n_rows=6000, first=0):
    """Two nominal modes that are told, and a step of 0.5 in each of them; the nominal record has both.

    They are switched about once in `every` rows of the nominal record, or once.
    """
    told = []
    for seed in range(first, first + n_networks):
        network, rng = Network(seed), np.random.default_rng(seed + 500)
        nominal = np.arange(NOMINAL) >= 2 * NOMINAL // 3
        if every:
            nominal = np.cumsum(rng.random(NOMINAL) < 1 / every) % 2
        modes = np.cumsum(np.random.default_rng(seed).random(n_rows) < 1 / (every or 1500)) % 2
        detector = _told(how, network.run(NOMINAL, 1, modes=nominal), nominal)
        later = _with_mode(how, network.run(n_rows, 3, modes=modes), modes)
        found = detector.incidents(later)
        row = [(detector.predict(later) == -1).mean(), 1000 * len(alarms(found)) / n_rows]
        for second in (np.arange(900) >= 200, np.arange(900) < 200):
            X = network.run(900, 4, modes=second, faults=[(network.root, 450, 0.5)])
            row.append(first_is(alarms(detector.incidents(_with_mode(how, X, second)), 450), network.root))
        told.append(row)
    share, rate, later, earlier = np.mean(told, axis=0)
    shares = {"rows in alarm": f"{share:.4f}", "alarms per 1000 rows": f"{rate:.2f}"}
    named = {"step 0.5 named, second mode": f"{later:.3f}", "first mode": f"{earlier:.3f}"}
    return {"told": how, "nominal record switches": f"every {every}" if every else "once", **shares, **named}


def _told(how, X, modes):
    """A detector fitted to a nominal record that says in one way or another which modes it has."""
    X = _with_mode(how, X, modes)
    if how == "mode=":
        return FederatedRCADetector(mode="mode").fit(X)
    if how == "mode= of the units":
        return FederatedRCADetector(client=KalmanClient(n_states="auto", mode=D + 1)).fit(X)
    if how == "campaigns":
        bounds = [0, *(np.flatnonzero(np.diff(modes.astype(int))) + 1).tolist(), len(modes)]
        return FederatedRCADetector(levels="episode").fit(X, lengths=np.diff(bounds).tolist())
    return FederatedRCADetector(levels=None if how == "nothing, levels=None" else "auto").fit(X)


def _with_mode(how, X, modes):
    """A record with a column of modes, of the plant or of every unit."""
    if how == "mode=":
        return X | {"mode": modes}
    return {name: np.column_stack([Y, modes]) for name, Y in X.items()} if how == "mode= of the units" else X


def elsewhere(n_networks, spread, first=0):
    """Records that begin far from the nominal level, `spread` times as lively there; a step from row 600 on."""
    told = []
    for seed in range(first, first + n_networks):
        network = Network(seed, control=False)
        detector = FederatedRCADetector().fit(network.run(NOMINAL, 1))
        network.shift = 4 * network.shift
        record = network.run(1160, 2, modes=np.ones(1160), faults=[(network.root, 660, 0.5)])
        settled = {name: Y[60:] for name, Y in record.items()}
        found = detector.incidents(
            {name: Y[:600].mean(axis=0) * (1 - spread) + spread * Y for name, Y in settled.items()}
        )
        later = alarms(found, 600)
        told.append((first_is(later, network.root), len(alarms(found)) - len(later)))
    named, early = np.mean(told, axis=0)
    return {"spread": spread, "step 0.5 named": f"{named:.3f}", "alarms per 1000 rows before it": f"{early / 0.6:.2f}"}


def moving(n_networks, every, first=0):
    """Faults at row 300 while given set-points move, and false alarms without one."""
    told = []
    for seed in range(first, first + n_networks):
        network, (points, inputs) = Network(seed), set_points(LOOPS_NOMINAL, every, seed)
        detector = FederatedRCADetector().fit(network.run(LOOPS_NOMINAL, 1, points=points), inputs=inputs)
        row, (points, inputs) = [], set_points(600, every, seed + 1000)
        deviation = network.run(1500, 5)[f"u{network.root}"][:, 0].std()
        for fault in ({"faults": [(network.root, 300, 0.5)]}, {"bias": (network.root, 300, 1.5 * deviation)}):
            found = detector.incidents(network.run(600, 2, points=points, **fault), inputs=inputs)
            row.append(first_is(alarms(found, 300), network.root))
        points, inputs = set_points(3000, every, seed + 2000)
        row.append(len(alarms(detector.incidents(network.run(3000, 3, points=points), inputs=inputs))) / 3)
        told.append(row)
    step, bias, false = np.mean(told, axis=0).round(3)
    return {
        "moves every": every,
        "step 0.5 named": step,
        "sensor bias named": bias,
        "false alarms per 1000 rows": false,
    }


def unseen(n_networks, times=(0.0, 1.3, 2.5), every=600, first=0):
    """A step of the root's set-point to so many times its farthest nominal value at row 300, a fault 150 rows later.

    The records with and without a step have the same noise. Thresholds are higher beyond what was seen: alarms that a
    step takes away are counted beside those that it adds.
    """
    told = {far: [] for far in times}
    for seed in range(first, first + n_networks):
        network, (points, inputs) = Network(seed), set_points(LOOPS_NOMINAL, every, seed)
        detector = FederatedRCADetector().fit(network.run(LOOPS_NOMINAL, 1, points=points), inputs=inputs)
        without = None
        for far in times:
            moved = np.zeros((700, N_UNITS))
            moved[300:, network.root] = far * np.abs(points[:, network.root]).max()
            record = network.run(700, 2, points=moved, faults=[(network.second, 450, 1.0)])
            found = detector.incidents(record, inputs={f"u{m}": moved[:, [m]] for m in range(N_UNITS)})
            alarm = (alarms(found, 300).detected < 450).any()
            without = alarm if without is None else without
            named = (alarms(found, 450).root == f"u{network.second}").any()
            told[far].append((alarm, alarm and not without, without and not alarm, named))
    names = "alarm within 150 rows", "and none without the step", "none and one without it", "fault named"
    shares = {far: np.mean(rows, axis=0).round(3).tolist() for far, rows in told.items()}
    return [{"times as far as seen": far, **dict(zip(names, row, strict=True))} for far, row in shares.items()]


def main():
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", type=int, default=24)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    n, few = options.networks, max(options.networks // 2, 2)
    sections = [
        f"{n} networks of {N_UNITS} units of two states, four sensors and a valve, each in a loop of its own, nominal "
        f"for {NOMINAL} rows, {LOOPS_NOMINAL} where set-points move; default settings, a budget of one false alarm per "
        "1000 rows. Named: by the first incident after the fault began.",
        "## A second fault 200 rows after one that stays\n\n" + table([lasting(n)]),
        "## Nominal operation\n\nTwo modes: a switch about every 1500 rows, also of the nominal record, some of which "
        "have none and know one mode only.\n\n"
        + table([row for w in ("steady", "slow drift", "two modes") for row in quiet(n, w)]),
        "## Two modes that the nominal record has\n\nThe second mode from row 1000 of the nominal record on and a "
        "switch about every 1500 rows later, or a switch about every 100 rows of all records. `mode=` of the detector, "
        "of its units (`KalmanClient`), or a campaign for each (`levels` of episodes). "
        f"{few} networks in this table.\n\n" + table([modes_told(few, *told) for told in MODES_TOLD]),
        "## Records that begin far from the nominal level\n\nStates and noise there are so many times as large, and "
        "so is what the step does.\n\n" + table([elsewhere(n, spread) for spread in (1.0, 0.5)]),
        "## Set-points that are given as inputs\n\n" + table([moving(n, every) for every in (150, 600)]),
        f"## A set-point step never seen\n\n{2 * n} networks; a fault of 1.0 in another unit 150 rows after the step. "
        "The same noise with and without a step; the budget lets 0.14 of such windows have an alarm, beyond the range "
        "that the nominal record has of a set-point as little as an eighth of that.\n\n"
        + table(unseen(2 * n))
        + f"\n\n{10 * n} others.\n\n"
        + table(unseen(10 * n, first=2 * n)),
    ]
    write("watch", "A watch that goes on", "\n\n".join(sections))


if __name__ == "__main__":
    main()
