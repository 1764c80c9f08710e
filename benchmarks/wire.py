"""Bytes on the wire of fits over files, beside the raw data and the sites' ledgers.

``python -m benchmarks.wire``
"""

import tempfile
from pathlib import Path

import numpy as np

from skfedcausal import FederatedGrangerEstimator, GradientServer, KalmanClient
from skfedcausal.datasets import make_granger_plant
from skfedcausal.federation import FileLoopback, verify_ledger

from ._report import table


def row(X, states, dtype, server=None):
    """One fit over files: bytes up and in all, and whether all accounts agree."""
    folder = Path(tempfile.mkdtemp())
    settings = {"client": KalmanClient(n_states=states), "server": server, "wire_dtype": dtype}
    there = FederatedGrangerEstimator(**settings, transport=FileLoopback(folder)).fit(X)
    here = FederatedGrangerEstimator(**settings).fit(X)
    accounts = [verify_ledger(path) for path in folder.glob("home/*/ledger.jsonl")]
    files = {
        box: sum(path.stat().st_size for path in folder.glob(f"exchange/*/{box}/*.packet"))
        for box in ("outbox", "inbox")
    }
    up, down = (sum(account[key] for account in accounts) for key in ("bytes_up", "bytes_down"))
    raw = sum(Y.nbytes for Y in X.values())
    sensors = next(iter(X.values())).shape[1]
    return {
        "server": "one-shot" if server is None else "gradient, moments, 100 rounds",
        "wire_dtype": dtype,
        "D/P": f"{sensors}/{states} = {sensors / states:g}",
        "raw/up": f"{raw / up:.2f}",
        "raw/(up + down)": f"{raw / (up + down):.2f}",
        "ledgers = files": (up, down) == (files["outbox"], files["inbox"]),
        "bitwise as in-process": bool(np.array_equal(there.transition_, here.transition_)),
    }


def main():
    """Print the table."""
    rows = []
    for sensors in (8, 64):
        X, _ = make_granger_plant(3, n_samples=10_000, n_sensors=sensors, random_state=0)
        rows += [row(X, 2, dtype) for dtype in ("float64", "float32", "float16")]
        rows.append(row(X, 2, "float32", GradientServer(exchange="moments", max_iter=100, tol=0.0)))
    print(table(rows))


if __name__ == "__main__":
    main()
