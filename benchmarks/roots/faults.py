"""Eighteen kinds of faults in plants under control, weak ones and ones behind dead times: who is named."""

import numpy as np
import pandas as pd

from skfedcausal import FederatedRCADetector, KalmanClient, LikelihoodServer
from skfedcausal.datasets import FAULT_KINDS, make_fault_plant

from .._limits import KnownPlant
from .._networks import dead_times

TITLE = "Faults of eighteen kinds"
TEXT = (
    "Networks of {units} units under control (`make_fault_plant`, as many of each as seeds), {n_nominal} nominal "
    "rows, a fault from row {onset} of 600 on. Told rows {onset} to {told}: skfedcausal (`attribute`), a pooled VAR "
    "(largest log energy of the residuals of all raw columns, two lags) and, as the limit, an oracle that knows the "
    "plant and tries steady faults and more noise of every unit (no changed dynamics: there it is no limit). Told "
    "nothing: the first incident after the fault, right, undecided, wrong or silent, and its delay in rows (median). "
    "Shares of the faults; where there are two the first one is right. Weak ones have sizes of {weak_sizes}. Dead "
    "times: {lagged} networks of {lagged_units} units whose links act 2 to 11 rows late, steps of {lagged_sizes} "
    "standard deviations of the noise in one that moves others."
)
OURS, OTHER, LIMIT = "skfedcausal, told rows", "pooled VAR, told rows", "oracle, told rows"


def pooled_var(usual, data, s, lags=2):
    """Unit with the largest log energy of the residuals of a pooled VAR of all columns in the told rows."""
    N, W = (np.hstack(list(record.values())) for record in (usual, data))
    mean, spread = N.mean(axis=0), N.std(axis=0)
    N, W = (N - mean) / spread, (W[s["onset"] - lags : s["told"]] - mean) / spread

    def past(Y):
        return np.hstack([Y[lags - 1 - k : len(Y) - 1 - k] for k in range(lags)])

    Z = past(N)
    B = np.linalg.solve(Z.T @ Z + 1e-3 * len(Z) * np.eye(Z.shape[1]), Z.T @ N[lags:])
    rN, rW = N[lags:] - Z @ B, W[lags:] - past(W) @ B
    width, scores = N.shape[1] // len(usual), []
    for k in range(len(usual)):
        a, b = (r[:, width * k : width * (k + 1)] for r in (rN, rW))
        S = np.linalg.inv(np.cov(a.T) + 1e-6 * np.eye(width))
        qa, qb = (np.einsum("ti,ij,tj->t", r, S, r) for r in (a, b))
        scores.append(np.log1p(qb / qa.mean()).sum())
    return int(np.argmax(scores))


def answered(detector, data, truth, s):
    """What told rows and the first incident say of a record."""
    window = detector.attribute(data, start=s["onset"], end=s["told"])["client"][0]
    found = detector.incidents(data).query(f"detected >= {s['onset']}")
    first = None if found.empty else found.iloc[0]
    root = "silent" if first is None else first["root"]
    said = {"right": root == truth, "undecided": root == "undecided", "silent": root == "silent"}
    said["wrong"] = not any(said.values())
    delay = np.nan if first is None else first["detected"] - s["onset"]
    return {OURS: window == truth, **{f"incident {k}": v for k, v in said.items()}, "delay": delay}


def under_control(n_units, seed, s):
    """A row of every fault of a plant."""
    usual = make_fault_plant(n_units, n_samples=s["n_nominal"], plant_state=seed, random_state=1000 + seed).data
    detector, known = FederatedRCADetector().fit(usual), None
    asked = [(kind, kind, None) for kind in s["kinds"]]
    asked += [(f"{kind} of {size:g}", kind, size) for kind in s["weak"] for size in s["weak_sizes"]]
    for name, kind, size in asked:
        draw = (5000 + seed) * 50 + list(FAULT_KINDS).index(kind)
        given = {"onset": s["onset"], "plant_state": seed, "random_state": draw}
        plant = make_fault_plant(n_units, kind, size=size, **given)
        known = KnownPlant(plant.network) if known is None else known
        root = plant.network.root
        row = {"fault": name, LIMIT: known.root(plant.data, s["onset"], s["told"]) == root}
        row |= {OTHER: pooled_var(usual, plant.data, s) == root}
        yield row | answered(detector, plant.data, plant.faults[0][2], s)


def behind_dead_times(seed, s):
    """A row of every size of fault and every server."""
    n, n_units = s["n_nominal"], s["lagged_units"]
    rows, rng = n + s["told"], np.random.default_rng([seed, 3])
    network = dead_times(n_units, rows, seed)
    usual = {name: Y[:n] for name, Y in network.X.items()}
    servers = {"default": None, "LikelihoodServer": LikelihoodServer()}
    client = KalmanClient(n_states=1)
    detectors = {name: FederatedRCADetector(client=client, server=one).fit(usual) for name, one in servers.items()}
    root = int(rng.choice(np.flatnonzero(network.linked.any(axis=0))))
    for size in s["lagged_sizes"]:
        X = dead_times(n_units, rows, seed, fault=(root, n + s["onset"], size)).X
        data = {name: Y[n:] for name, Y in X.items()}
        other = pooled_var(usual, data, s) == root
        for name, detector in detectors.items():
            told = {"fault": f"dead times, step of {size:g}, {name}", OTHER: other}
            yield told | answered(detector, data, f"unit{root}", s)


def figures(s):
    """A row of every kind of fault, and the mean of the eighteen."""
    plants = [(n_units, seed) for n_units in s["units"] for seed in s["seeds"]]
    rows = [row for plant in plants for row in under_control(*plant, s)]
    rows += [row for seed in range(s["lagged"]) for row in behind_dead_times(seed, s)]
    rows = pd.DataFrame(rows)
    kinds = pd.DataFrame([summed(part) for _, part in rows.groupby("fault", sort=False)])
    mean = kinds[kinds["fault"].isin(s["kinds"])].mean(numeric_only=True).to_dict()
    return {"Faults": [{"fault": "mean of the kinds", **mean}, *kinds.to_dict("records")]}


def summed(rows):
    """Figures of one kind of fault."""
    incident = [f"incident {said}" for said in ("right", "undecided", "wrong", "silent")]
    shares = rows[[OURS, OTHER, LIMIT, *incident]].astype(float).mean().to_dict()
    return {"fault": rows["fault"].iloc[0], **shares, "delay": rows["delay"].median()}
