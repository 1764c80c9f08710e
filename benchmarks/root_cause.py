"""Root causes on simulated networks, benchmark records and the nonlinear two-unit task.

Run ``python -m benchmarks.root_cause --cases 40`` with SKFEDCAUSAL_DATA set to the folder that holds
``tep`` and ``batadal`` (sections without their data are left out).
"""

import argparse
import os
import warnings
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import pandas as pd
from scipy.linalg import block_diag
from scipy.stats import poisson

from skfedcausal import FederatedRCADetector
from skfedcausal.datasets import load_batadal, load_skab, load_tep, make_nonlinear_plant
from skfedcausal.metrics import expected_calibration_error, incident_report
from skfedcausal.statespace.kalman import covariance_schedule, filtered_states, predicted_states

from ._report import table, write

P, D, NOMINAL, BEFORE, FAULTY = 2, 4, 3000, 200, 200
SIZES = (0.5, 0.2, 0.1)
TEP_FAULTS = (1, 3, 4, 6, 7, 9, 10, 12, 13, 15, 16, 18)


class Network:
    """Units of two states on a random acyclic graph, optionally closed by a link back to the first."""

    def __init__(self, n_units, seed, kind, loop=False):
        rng = self.rng = np.random.default_rng([seed, n_units])
        self.n_units, self.kind, n = n_units, kind, P * n_units
        self.A, order = np.zeros((n, n)), rng.permutation(n_units)
        for m in range(n_units):
            radius, angle = rng.uniform(0.6, 0.85), rng.uniform(0.1, 1.0)
            turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            self.A[P * m : P * m + P, P * m : P * m + P] = radius * turn
        for k in range(1, n_units):
            for cause in order[rng.choice(k, min(k, rng.integers(1, 3)), replace=False)]:
                self._link(cause, order[k], rng.uniform(0.4, 0.9))
        if loop:
            self._close(order[-1], order[0])
        self.C = [rng.standard_normal((D, P)) for _ in range(n_units)]
        self.root = int(order[rng.integers(0, n_units - 1)])
        others = [int(m) for m in order[:-1] if m != self.root]
        self.second = others[rng.integers(len(others))]
        self.push, self.both = np.zeros(n), np.zeros(n)
        self._push(self.push, self.root)
        self.both += self.push
        self._push(self.both, self.second)
        self.seed = seed

    def _push(self, fault, unit):
        push = self.rng.standard_normal(P)
        fault[P * unit : P * unit + P] = push / np.linalg.norm(push)

    def _close(self, cause, effect):
        """A link back, as strong as a spectral radius of 0.95 allows."""
        B, gain = self.rng.standard_normal((P, P)), self.rng.uniform(0.3, 0.6)
        rows, columns = slice(P * effect, P * effect + P), slice(P * cause, P * cause + P)
        self.A[rows, columns] = gain * B / np.linalg.norm(B, 2)
        while np.abs(np.linalg.eigvals(self.A)).max() >= 0.95:
            self.A[rows, columns] *= 0.7

    def _link(self, cause, effect, gain):
        B = self.rng.standard_normal((P, P))
        rows, columns = slice(P * effect, P * effect + P), slice(P * cause, P * cause + P)
        self.A[rows, columns] = gain * B / np.linalg.norm(B, 2)

    def record(self, size, push=None, draw=1):
        """Nominal stretch and the record whose last rows are faulty; every draw has its own noise."""
        rng = np.random.default_rng([self.seed, self.n_units, draw])
        T, n = NOMINAL + BEFORE + FAULTY, len(self.A)
        w, v = 0.5 * rng.standard_normal((T + 100, n)), 0.5 * rng.standard_normal((T, self.n_units, D))
        x, push = np.zeros((T + 100, n)), self.push if push is None else push
        for t in range(1, T + 100):
            last = x[t - 1] if self.kind == "linear" else 2 * np.tanh(x[t - 1] / 2)
            x[t] = self.A @ last + w[t] + size * push * (t >= T + 100 - FAULTY)
        x = x[100:]
        Y = [x[:, P * m : P * m + P] @ C.T + v[:, m] for m, C in enumerate(self.C)]
        if self.kind != "linear":
            Y = [y + 0.1 * y**2 / (1 + np.abs(y)) for y in Y]
        return [y[:NOMINAL] for y in Y], [y[NOMINAL:] for y in Y]


def oracle(network, nominal, record):
    """Largest shift of the mean innovation, of a Kalman filter with the true transition matrix."""
    states, noise = [], []
    for y0, y, C in zip(nominal, record, network.C, strict=True):
        projection = np.linalg.pinv(C).T
        both = np.concatenate([y0, y]) - y0.mean(axis=0)
        s = both @ projection
        rest = ((both - s @ C.T)[:NOMINAL] ** 2).sum() / (NOMINAL * (D - P))
        states.append(s)
        noise.append(rest * projection.T @ projection)
    s, N = np.hstack(states), block_diag(*noise)
    J = np.linalg.inv(N)
    schedule = covariance_schedule(network.A, 0.25 * np.eye(len(N)), J)
    e = s - predicted_states(network.A, filtered_states(schedule, (s @ J, None)))
    return largest_shift(e, P)


def vector_autoregression(nominal, record, lags=2):
    """Largest shift of the mean residual of a pooled VAR of all sensors."""
    Y = np.hstack([np.concatenate([a, b]) for a, b in zip(nominal, record, strict=True)])
    Y = Y - Y[:NOMINAL].mean(axis=0)
    Z = np.hstack([Y[lags - 1 - k : len(Y) - 1 - k] for k in range(lags)])
    B = np.linalg.lstsq(Z[: NOMINAL - lags], Y[lags:NOMINAL], rcond=None)[0]
    return largest_shift(np.concatenate([np.zeros((lags, Y.shape[1])), Y[lags:] - Z @ B]), D)


def largest_shift(e, size):
    """Unit whose residuals' mean moved most in the faulty stretch."""
    shifts = []
    for first in range(0, e.shape[1], size):
        nominal, faulty = e[:NOMINAL, first : first + size], e[-FAULTY:, first : first + size]
        d = faulty.mean(axis=0) - nominal.mean(axis=0)
        shifts.append(d @ np.linalg.solve(np.cov(nominal.T), d))
    return int(np.argmax(shifts))


def networks(n_units, kind, loop, cases):
    """Rows of the table of simulated networks, and (probability, right) of every window."""
    answers, stated, pairs = {size: [] for size in SIZES}, [], []
    for seed in range(cases):
        network = Network(n_units, seed, kind, loop)
        nominal, _ = network.record(0.0)
        detector = FederatedRCADetector().fit(nominal)
        truth = f"client{network.root}"
        for size in SIZES:
            _, record = network.record(size)
            window = detector.attribute(record, start=BEFORE)
            found = detector.incidents(record).query("detected >= @BEFORE")
            stated.append((window.probability[0], window.client[0] == truth))
            answers[size].append(
                (
                    oracle(network, nominal, record) == network.root,
                    vector_autoregression(nominal, record) == network.root,
                    window.client[0] == truth,
                    len(found) > 0,
                    len(found) > 0 and found.root.iloc[0] == truth,
                    len(found) > 0 and found.root.iloc[0] not in {truth, "undecided"},
                )
            )
        _, record = network.record(SIZES[0], network.both)
        first_two = set(detector.attribute(record, start=BEFORE).client[:2])
        pairs.append(first_two == {truth, f"client{network.second}"})
    columns = ("oracle", "pooled VAR", "attribute", "detected", "found and named", "wrong name")
    plant = f"{n_units} units, {kind}{', loop' if loop else ''}"
    rows = []
    for size in SIZES:
        shares = np.mean(answers[size], axis=0)
        named = {name: f"{share:.2f}" for name, share in zip(columns, shares, strict=True)}
        less = np.array([float(a[2]) - float(a[0]) for a in answers[size]])
        named["attribute less oracle"] = f"{less.mean():+.3f} ± {less.std() / np.sqrt(cases):.3f}"
        two = f"{np.mean(pairs):.2f}" if size == SIZES[0] else ""
        rows.append({"plant": plant, "size": size, **named, "two roots both first": two})
    return rows, stated


def unseen_causes(cases):
    """Rows of the table of faults of a state that no sensor sees and that drives one unit or two."""
    rows = []
    for n_driven in (1, 2):
        for size in (0.3, 1.0):
            answers = [_unseen_cause(seed, n_driven, size) for seed in range(cases)]
            shares = np.mean(answers, axis=0)
            columns = ("attribute: a unit it enters", "incidents: a unit it enters", "another", "undecided")
            told = {name: f"{share:.2f}" for name, share in zip(columns, shares, strict=True)}
            rows.append({"units it enters": n_driven, "size": size, **told})
    return rows


def _unseen_cause(seed, n_driven, size, n_units=6):
    """Whether a fault outside every sensor is put where it enters."""
    rng, network = np.random.default_rng([seed, 77]), Network(n_units, seed, "linear")
    n, T = P * n_units, NOMINAL + BEFORE + FAULTY
    A = np.zeros((n + 1, n + 1))
    A[:n, :n], A[n, n] = network.A, 0.8
    driven = rng.choice(n_units, n_driven, replace=False)
    for unit in driven:
        b = rng.standard_normal(P)
        A[P * unit : P * unit + P, n] = 0.7 * b / np.linalg.norm(b)
    x, w = np.zeros((T + 100, n + 1)), 0.5 * rng.standard_normal((T + 100, n + 1))
    for t in range(1, T + 100):
        x[t] = A @ x[t - 1] + w[t]
        x[t, n] += size * (t >= T + 100 - FAULTY)
    noise = 0.5 * rng.standard_normal((n_units, T, D))
    Y = [x[100:, P * m : P * m + P] @ C.T + v for m, (C, v) in enumerate(zip(network.C, noise, strict=True))]
    detector = FederatedRCADetector().fit([y[:NOMINAL] for y in Y])
    record, truth = [y[NOMINAL:] for y in Y], {f"client{unit}" for unit in driven}
    found = detector.incidents(record).query("detected >= @BEFORE")
    first = found.root.iloc[0] if len(found) else None
    return (
        detector.attribute(record, start=BEFORE).client[0] in truth,
        first in truth,
        first is not None and first not in truth | {"undecided"},
        first == "undecided",
    )


def false_alarms(folder):
    """Rows of the table of incidents on nominal stretches that were held out."""
    normal = load_batadal(folder / "batadal", "train_normal").data
    rig = load_skab(folder / "skab")
    rig = rig.data.iloc[: rig.lengths[0]].reset_index(drop=True)
    tep = load_tep(folder / "tep", ["d00", "d00_te"])
    third, quarter = len(rig) // 3, len(normal) // 4
    long, short = tep.data.iloc[tep.lengths[0] :], tep.data.iloc[: tep.lengths[0]]
    outer = pd.concat([rig.iloc[:third], rig.iloc[2 * third :]])
    cases = {
        "SKAB, first third": (rig.iloc[third:], None, rig.iloc[:third]),
        "SKAB, middle third": (outer, [third, len(outer) - third], rig.iloc[third : 2 * third]),
        "SKAB, last third": (rig.iloc[: 2 * third], None, rig.iloc[2 * third :]),
        "BATADAL, first quarter": (normal.iloc[quarter:], None, normal.iloc[:quarter]),
        "BATADAL, last quarter": (normal.iloc[:-quarter], None, normal.iloc[-quarter:]),
        "TEP, the shorter record": (long, None, short),
        "TEP, the longer record": (short, None, long),
    }
    rows = []
    for name, (nominal, lengths, held_out) in cases.items():
        detector = FederatedRCADetector().fit(nominal, lengths=lengths)
        expected = 1e-3 * len(held_out)
        low, high = (int(poisson.ppf(p, expected)) for p in (0.025, 0.975))
        rows.append(
            {
                "held out": name,
                "nominal rows": len(nominal),
                "rows": len(held_out),
                "incidents": len(detector.incidents(held_out)),
                "asked": f"{expected:.1f} ({low} to {high})",
            }
        )
    return rows


def nonlinear(strength, size, noise, n_test=10_000):
    """Row of the two-unit task: the default detector beside the paper's flags."""
    settings = {"strength": strength, "process_noise": noise}
    nominal = make_nonlinear_plant(n_samples=40_000, size=0, random_state=1, **settings).data
    record = make_nonlinear_plant(n_samples=n_test, size=size, random_state=5, **settings)
    detector = FederatedRCADetector(false_alarm_rate=1 / 2000).fit(nominal)
    report = incident_report(detector.incidents(record.data), record.faults, n_test)
    flags = FederatedRCADetector(evidence="flags").fit({k: y[:6000] for k, y in nominal.items()})
    roots = flags.predict_root_cause(record.data)
    named = ~np.isin(roots, ["", "undecided"])
    right = (named & (roots == record.target)).sum()
    precision, recall = right / max(named.sum(), 1), right / (record.target != "").sum()
    harmonic = 2 * precision * recall / max(precision + recall, 1e-12)
    shown = ("f1", "precision", "recall", "detected", "top1", "delay")
    return {
        "alpha, size, process noise": f"{strength}, {size}, {noise}",
        **{name: f"{report[name]:.2f}" for name in shown},
        "nominal steps per false alarm": f"{report['arl0']:.0f}",
        "flags F1 per step": f"{harmonic:.2f}",
    }


def records(folder):
    """Rows of the table of benchmark records for every statistic."""
    rows = []
    for statistic in ("both", "energy", "shift"):
        tep_rows, tep_alarms = tep(folder, statistic)
        zones, zone_alarms = batadal(folder, statistic)
        rows.append(
            {
                "statistic": statistic,
                "TEP right": tep_rows.count("right"),
                "wrong": tep_rows.count("wrong"),
                "undecided or silent": tep_rows.count("undecided"),
                "false alarms in 1908 steps": tep_alarms,
                "BATADAL right": zones.count("right"),
                "wrong ": zones.count("wrong"),
                "undecided or silent ": zones.count("undecided"),
                "false alarms in the free hours": zone_alarms,
            }
        )
    return rows


def tep(folder, statistic):
    """Verdict on every single-unit fault and the false alarms before the onsets."""
    nominal = load_tep(folder / "tep", ["d00", "d00_te"])
    detector = FederatedRCADetector(statistic=statistic).fit(nominal.data, lengths=nominal.lengths)
    verdicts, alarms = [], 0
    for fault in TEP_FAULTS:
        record = load_tep(folder / "tep", [f"d{fault:02d}_te"])
        first = int(np.flatnonzero(record.target != "")[0])
        found = detector.incidents(record.data)
        alarms += int((found.detected < first).sum())
        verdicts.append(judged(found[found.detected >= first], record.target[first]))
    return verdicts, alarms


def batadal(folder, statistic):
    """Verdict on every attack by the first incident that goes on during it, and alarms in attack-free hours.

    Two attacks are noticed an hour or two before they begin by their labels.
    """
    nominal, attacked = (load_batadal(folder / "batadal", s) for s in ("train_normal", "train_attacks"))
    found = FederatedRCADetector(statistic=statistic).fit(nominal.data).incidents(attacked.data)
    free, verdicts, answering = np.ones(len(attacked.data), dtype=bool), [], set()
    for attack in attacked.attacks.to_dict("records"):
        inside = found[~(found.end < attack["start"]) & (found.detected <= attack["end"])]
        verdicts.append(judged(inside, attack["root_zone"]))
        answering.update(inside.index)
        first, last = attacked.data.index.searchsorted([attack["start"], attack["end"]])
        free[first : last + 61] = False
    others = found.drop(index=list(answering))
    alarms = int(free[attacked.data.index.get_indexer(others.detected)].sum())
    return verdicts, alarms


def judged(found, truth):
    """Whether the first incident names the root."""
    if found.empty or found.root.iloc[0] == "undecided":
        return "undecided"
    return "right" if found.root.iloc[0] == truth else "wrong"


def speed(n_plants=8, calls=60):
    """Rows of the table of processor and wall time: calls on 400 steps of six units, rows of a stream."""
    times = {}
    for seed in range(n_plants):
        network = Network(6, seed, "linear")
        nominal, record = network.record(SIZES[0] if seed % 4 else 0.0)
        detector = FederatedRCADetector().fit(nominal)
        n_incidents = len(detector.incidents(record))
        measured = [_timed(detector.incidents, record) for _ in range(calls)]
        times.setdefault(n_incidents, []).append(np.median(measured, axis=0))
    rows = []
    for n_incidents in sorted(times):
        wall, cpu = 1e3 * np.median(times[n_incidents], axis=0)
        what = f"incidents, 400 steps, {n_incidents} found ({len(times[n_incidents])} records)"
        rows.append({"what": what, "wall": f"{wall:.2f} ms", "processor": f"{cpu:.2f} ms"})
    for n_rows in (1, 10, 100):
        detector.reset()
        batches = [[y[first : first + n_rows] for y in record] for first in range(0, 400, n_rows)]
        wall, cpu = 1e6 * np.array(_timed(lambda rows: [*map(detector.update, rows)], batches)) / 400
        what = f"update in batches of {n_rows}, per row"
        rows.append({"what": what, "wall": f"{wall:.0f} µs", "processor": f"{cpu:.0f} µs"})
    return rows


def _timed(call, argument):
    """Wall and processor time of a call in seconds."""
    start, cpu = perf_counter(), process_time()
    call(argument)
    return perf_counter() - start, process_time() - cpu


def main():
    """Run everything and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--units", type=int, nargs="+", default=[6, 12])
    cases, units = parser.parse_args().cases, parser.parse_args().units
    warnings.simplefilter("ignore", UserWarning)
    rows, stated = [], []
    for n_units in units:
        for kind in ("linear", "tanh"):
            for loop in (False, True):
                more, answers = networks(n_units, kind, loop, cases)
                rows += more
                stated += answers
    error = expected_calibration_error(*zip(*stated, strict=True))
    sections = [
        f"## Simulated networks\n\nTop-1 shares of {cases} cases; state and sensor noise of standard "
        "deviation 0.5, a step in one unit's state equation in the last 200 of 400 steps. "
        "Oracle, VAR and `attribute` are "
        "told the window, incidents are not. Standard error of a share near 0.9: "
        f"{np.sqrt(0.09 / cases):.2f}.\n\n" + table(rows),
        f"Expected calibration error of `attribute` over {len(stated)} windows: {error:.3f}.",
        "## Causes that no sensor sees\n\nA step in an unseen state that drives one unit or two of six; the "
        "answers that are right name a unit that it enters.\n\n" + table(unseen_causes(cases)),
        "## Nonlinear two-unit task\n\nRoots drawn from both units, ten-step faults, one false alarm per 2000 nominal "
        "steps asked for, default (linear) detector. F1, precision and recall per incident; delay in steps given "
        "detection.\n\n" + table([nonlinear(0.5, 2.0, 0.3), nonlinear(3.0, 0.5, 0.1), nonlinear(0.5, 0.6, 0.3)]),
        "## Speed\n\n" + table(speed()),
    ]
    folder = Path(os.environ.get("SKFEDCAUSAL_DATA", ""))
    if (folder / "tep").is_dir():
        sections.insert(
            1,
            "## Benchmark records\n\nRoot of the first incident after onset, default settings; 12 single-"
            "unit faults of the Tennessee Eastman process and 7 attacks on a water network.\n\n"
            + table(records(folder))
            + "\n\n## False alarms\n\nIncidents on nominal stretches that were held out, one per 1000 rows "
            "asked for, with the 95 % interval of a Poisson count.\n\n" + table(false_alarms(folder)),
        )
    write("root_cause", "Where did it start", *sections)


if __name__ == "__main__":
    main()
