"""Many units on disk: wall time and peak memory of a fit of 200 units, 10,000 rows, 64 sensors each.

``python -m benchmarks.many_units [--units 200] [--folder F] [--jobs 1 2]``. Records lie on disk as ``.npy``
files and are mapped into memory; every setting runs in a process of its own, so that peak memory is its own.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from skfedcausal import FederatedGrangerEstimator, LikelihoodServer
from skfedcausal.client.kalman import KalmanClient
from skfedcausal.client.worker import UnitWorker
from skfedcausal.federation.exchange import Exchange
from skfedcausal.federation.ledger import Ledger
from skfedcausal.federation.transport import InProcessTransport
from skfedcausal.message import StateMessage
from skfedcausal.message.requests import FitRequest

from ._report import table, write

ROWS, SENSORS, STATES = 10_000, 64, 2
REPEATS = 4
SERVERS = {"likelihood": LikelihoodServer}


def simulate(folder, n_units, seed=0):
    """Records of units in a sparse network, one file per unit."""
    rng = np.random.default_rng(seed)
    n = STATES * n_units
    A = np.kron(np.eye(n_units), [[0.7, 0.2], [-0.2, 0.7]])
    for unit in range(n_units):  # every unit is driven by one other
        cause = int(rng.integers(n_units - 1))
        cause += cause >= unit
        A[2 * unit, 2 * cause] = 0.2
    states = np.empty((ROWS, n))
    h = np.zeros(n)
    for t in range(ROWS):
        h = A @ h + rng.standard_normal(n)
        states[t] = h
    for unit in range(n_units):
        C = rng.standard_normal((SENSORS, STATES))
        Y = states[:, 2 * unit : 2 * unit + 2] @ C.T + rng.standard_normal((ROWS, SENSORS))
        np.save(folder / f"unit{unit:03d}.npy", Y)


def records(folder):
    """Mapped records by name."""
    return {path.stem: np.load(path, mmap_mode="r") for path in sorted(folder.glob("*.npy"))}


def peak():
    """Peak resident memory of this process in GiB, mapped pages of the records included."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def clients_part(folder, n_jobs, backend):
    """Seconds until all messages are there, the best of some times; the first one starts the processes."""
    seconds = []
    for _ in range(1 + REPEATS):
        workers = {
            name: UnitWorker(name, Y, None, (0,), None, KalmanClient(n_states=STATES))
            for name, Y in records(folder).items()
        }
        transport = InProcessTransport(workers, n_jobs=n_jobs, backend=backend)
        started = time.perf_counter()
        Exchange(transport, Ledger()).ask_all(FitRequest(), StateMessage)
        seconds.append(time.perf_counter() - started)
    return {"seconds": min(seconds[1:]), "first": seconds[0], "peak GiB": peak()}


def whole_fit(folder, n_jobs, server):
    """Seconds and peak memory of a fit."""
    X = records(folder)
    estimator = FederatedGrangerEstimator(KalmanClient(n_states=STATES), server=SERVERS[server](), n_jobs=n_jobs)
    started = time.perf_counter()
    estimator.fit(X)
    sent = estimator.communication_
    return {
        "seconds": time.perf_counter() - started,
        "peak GiB": peak(),
        "bytes up of raw": sent["bytes_up"] / sent["raw_bytes"],
    }


def apart(folder, part, *arguments):
    """Result of a part of the work done in a new process, whose peak memory is its own."""
    command = [sys.executable, "-m", "benchmarks.many_units", "--folder", str(folder), "--part", part]
    done = subprocess.run([*command, *map(str, arguments)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    """Print and write the tables."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--units", type=int, default=200)
    reader.add_argument("--folder", type=Path)
    reader.add_argument("--jobs", type=int, nargs="+", default=[1, 2])
    reader.add_argument("--backends", nargs="+", default=["threading", "multiprocessing", "loky"])
    reader.add_argument("--servers", nargs="+", default=["likelihood"])
    reader.add_argument("--part", nargs=3, help="clients JOBS BACKEND, or fit JOBS SERVER: only that")
    reader.add_argument("--dry", action="store_true", help="do not write the results")
    options = reader.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    if options.part:
        part, n_jobs, how = options.part
        work = {"clients": clients_part, "fit": whole_fit}[part]
        print(json.dumps(work(folder, int(n_jobs), how)))
        return
    if len(list(folder.glob("*.npy"))) != options.units:
        simulate(folder, options.units)
    clients, fits, alone = [], [], None
    for backend in options.backends:
        for n_jobs in options.jobs:
            result = apart(folder, "clients", n_jobs, backend)
            alone = result["seconds"] if n_jobs == options.jobs[0] else alone
            result["faster"] = alone / result["seconds"]
            clients.append({"backend": backend, "workers": n_jobs, **_rounded(result)})
            print(json.dumps(clients[-1]), flush=True)
    for server in options.servers:
        result = apart(folder, "fit", options.jobs[-1], server)
        fits.append({"server": server, "workers": options.jobs[-1], **_rounded(result)})
        print(json.dumps(fits[-1]), flush=True)
    size = f"{options.units} units, {ROWS} rows, {SENSORS} sensors, {STATES} states"
    if not options.dry:
        sections = ["Units' part: all messages.", table(clients), "Whole fits.", table(fits)]
        write("many_units", f"Many units on disk: {size}", *sections)


def _rounded(result):
    return {name: float(f"{value:.3g}") for name, value in result.items()}


if __name__ == "__main__":
    main()
