"""Eighteen kinds of faults in plants under control: who is named, how surely, and by whom else.

Run ``python -m benchmarks.faults``; ``--networks 1`` is a quick look.
"""

import argparse
import warnings

import numpy as np
import pandas as pd

from skfedcausal import FederatedRCADetector
from skfedcausal.datasets import FAULT_KINDS, make_fault_plant
from skfedcausal.metrics import expected_calibration_error

from ._known_plant import KnownPlant
from ._report import table, write

UNITS, NOMINAL, ONSET, TOLD = (6, 8, 10), 3000, 200, 400  # rows of the record; TOLD ends the window that is told
SWEPT, SIZES = ("step", "sensor bias", "oscillation"), (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


def nominal(n_units, seed):
    """Nominal record of a plant."""
    return make_fault_plant(n_units, n_samples=NOMINAL, plant_state=seed, random_state=1000 + seed).data


def faulty(n_units, seed, kind, size=None):
    """Record with a fault from row 200 of 600 on."""
    draw = (5000 + seed) * 50 + list(FAULT_KINDS).index(kind)
    return make_fault_plant(n_units, kind, size=size, onset=ONSET, plant_state=seed, random_state=draw)


def vector_autoregression(usual, data, lags=2):
    """Unit with the largest log energy of the residuals of a pooled VAR of all columns in the told window."""
    N, W = (np.hstack(list(record.values())) for record in (usual, data))
    mean, spread = N.mean(axis=0), N.std(axis=0)
    N, W = (N - mean) / spread, (W[ONSET - lags : TOLD] - mean) / spread

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


def answered(detector, plant):
    """How the first incident and a told window answer about one record."""
    truth = plant.faults[0][2]
    found = detector.incidents(plant.data)
    found, window = found[found["detected"] >= ONSET], detector.attribute(plant.data, start=ONSET, end=TOLD)
    row = {"attribute": window["client"][0] == truth, "p": window["probability"][0], "incidents": len(found)}
    if found.empty:
        return row | {"right": False, "undecided": False, "wrong": False, "silent": True}
    first = found.iloc[0]
    undecided, right = first["root"] == "undecided", first["root"] == truth
    said = {"right": right, "undecided": undecided, "wrong": not right and not undecided, "silent": False}
    best = first["ranking"][0]
    return row | said | {
        "delay": first["detected"] - ONSET, "kind said": first["kind"], "q": best[1], "best": best[0] == truth,
    }  # fmt: skip


def cases(n_networks, kinds=tuple(FAULT_KINDS)):
    """One row per network and kind, and per size of some kinds."""
    rows, swept = [], []
    for n_units in UNITS:
        for seed in range(n_networks):
            usual = nominal(n_units, seed)
            detector, known = FederatedRCADetector().fit(usual), None
            for kind in kinds:
                plant = faulty(n_units, seed, kind)
                known = KnownPlant(plant.network) if known is None else known
                root = plant.network.root
                row = {"oracle": known.root(plant.data, ONSET, TOLD) == root}
                row |= {"VAR": vector_autoregression(usual, plant.data) == root}
                rows.append({"fault": kind, **row, **answered(detector, plant)})
            for kind in SWEPT:
                for size in SIZES:
                    swept.append({"fault": kind, "size": size, **answered(detector, faulty(n_units, seed, kind, size))})
        print(f"{n_units} units done", flush=True)
    return pd.DataFrame(rows), pd.DataFrame(swept)


def summed(rows):
    """One row of the table."""
    sure = rows["p"] >= 0.5
    calibration = expected_calibration_error(rows["p"], rows["attribute"])
    said = rows.dropna(subset=["q"]) if "q" in rows else rows[:0]
    return {
        "oracle": rows["oracle"].mean(),
        "pooled VAR": rows["VAR"].mean(),
        "attribute": rows["attribute"].mean(),
        "decided and right": (sure & rows["attribute"]).mean(),
        "decided and wrong": (sure & ~rows["attribute"]).mean(),
        "calibration error": calibration,
        "first incident right": rows["right"].mean(),
        "undecided": rows["undecided"].mean(),
        "wrong": rows["wrong"].mean(),
        "silent": rows["silent"].mean(),
        "its calibration error": expected_calibration_error(said["q"], said["best"]) if len(said) else np.nan,
        "delay": rows["delay"].median(),
        "incidents": rows["incidents"].mean(),
    }


def shown(row):
    """Numbers as text."""
    places = {"delay": ".0f", "incidents": ".1f"}
    return {k: v if isinstance(v, str) else format(v, places.get(k, ".2f")) for k, v in row.items()}


def kinds_said(rows):
    """How often each kind is said of a fault."""
    counts = rows.dropna(subset=["kind said"]).groupby("fault", sort=False)["kind said"].value_counts()
    return [
        {"fault": fault, "kind said": ", ".join(f"{kind} {n}" for kind, n in counts[fault].items())}
        for fault in dict.fromkeys(counts.index.get_level_values(0))
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", type=int, default=22, help="of each number of units")
    n_networks = parser.parse_args().networks
    warnings.simplefilter("ignore", UserWarning)
    rows, swept = cases(n_networks)
    summaries = [{"fault": kind, **summed(part)} for kind, part in rows.groupby("fault", sort=False)]
    mean = pd.DataFrame(summaries).mean(numeric_only=True).to_dict()
    sizes = [
        {"fault": kind, "size": str(size), "attribute": part["attribute"].mean(), "right": part["right"].mean(),
         "wrong": part["wrong"].mean(), "silent": part["silent"].mean()}
        for (kind, size), part in swept.groupby(["fault", "size"], sort=False)
    ]  # fmt: skip
    write(
        "faults",
        "Eighteen kinds of faults in plants under control",
        f"{n_networks} networks each of {', '.join(map(str, UNITS))} units from `make_fault_plant`, {NOMINAL} nominal "
        f"rows, a fault from row {ONSET} of 600 on, default detector. Oracle, pooled VAR and `attribute` are told rows "
        f"{ONSET} to {TOLD}, incidents are not. The oracle knows the plant and tries steady faults and more noise of "
        "every unit: no changed dynamics. Pooled VAR: largest log energy of residuals of all raw columns. Shares; "
        "delay is the median in rows. Where there are two faults the first one is right.",
        table([shown(row) for row in [*summaries, {"fault": "mean", **mean}]]),
        "## Size\n\n" + table([shown(row) for row in sizes]),
        "## Kind\n\n" + table(kinds_said(rows)),
    )


if __name__ == "__main__":
    main()
