"""A plant that is learned month by month, against fits of each month alone and one fit of all of them.

Run ``python -m benchmarks.months`` for the table.
"""

import argparse
import pickle
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from skfedcausal import FederatedGrangerEstimator, KalmanClient
from skfedcausal.datasets import make_granger_plant

from ._report import table, write

GOAL, SAME = 1.2, 1e-8  # times the cost of the month alone, largest difference from one fit
_TIMES = 10  # the memory that a process may take
_WIDTH, _UNITS = 256, 2  # sensors of a unit, units of the large record


def seconds(work):
    """Processor time of some work, and what it gives."""
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def given(estimator):
    """The units' models as a fit is given them."""
    models = {name: client.model for name, client in estimator.clients_.items()}
    return {name: KalmanClient(A=m.A, C=m.C, Q=m.Q, R=m.R) for name, m in models.items()}


def month_files(folder, n_months, rows, n_units):
    """Files with the record of each month, written the first time."""
    files = [Path(folder) / f"month{k:02d}.npz" for k in range(n_months)]
    if not files[-1].exists():
        X, _ = make_granger_plant(n_units, n_samples=n_months * rows, random_state=0)
        for k, file in enumerate(files):
            np.savez(file, **{name: Y[k * rows : (k + 1) * rows] for name, Y in X.items()})
    return files


def months(folder, files):
    """Costs of every month, as a batch and alone, and the estimator; what is known already is in the folder."""
    kept = Path(folder) / "kept.pickle"
    estimator, costs = FederatedGrangerEstimator(), []
    if kept.exists():
        estimator, costs = pickle.loads(kept.read_bytes())
    for k in range(len(costs), len(files)):
        month = dict(np.load(files[k]))
        turns = {"batch": lambda month=month: estimator.partial_fit(month)}
        turns["alone"] = lambda month=month: FederatedGrangerEstimator().fit(month)
        found = {name: seconds(turns[name])[0] for name in sorted(turns, reverse=bool(k % 2))}
        costs.append((found["batch"], found["alone"]))
        kept.write_bytes(pickle.dumps((estimator, costs)))
        print(f"month {k + 1}: {found['batch']:.2f} s, alone {found['alone']:.2f} s", flush=True)
    return costs, estimator


def whole(estimator, files):
    """Cost of one fit to all months with the same models of the units, and the distance of the plant from it."""
    parts = [dict(np.load(file)) for file in files]
    lengths = [len(next(iter(part.values()))) for part in parts]
    X = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    cost, one = seconds(lambda: FederatedGrangerEstimator(given(estimator)).fit(X, lengths=lengths))
    pairs = [(getattr(estimator, name), getattr(one, name)) for name in ("lag_transitions_", "process_cov_")]
    pairs.append((estimator.links_["strength"].to_numpy(), one.links_["strength"].to_numpy()))
    same = all(a.shape == b.shape for a, b in pairs)
    return cost, max(float(np.abs(a - b).max()) for a, b in pairs) if same else np.inf


WORKER = """
import resource, sys, time
import numpy as np
from skfedcausal import FederatedGrangerEstimator
from skfedcausal.containers import read_batches
limit, rows, width, n_units, *files = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_AS, (int(limit), int(limit)))
width, n_units = int(width), int(n_units)
columns = [f"unit{k // width}__x{k % width}" for k in range(width * n_units)]
estimator, start = FederatedGrangerEstimator(), time.process_time()
for batch in read_batches(files, int(rows), columns=columns):
    estimator.partial_fit(batch)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(estimator.server_.n_samples_, estimator.n_batches_, peak, time.process_time() - start)
"""


def ten_times(limit, rows):
    """A record of ten times the address space that a process may have, learned by that process; a row of the table."""
    width = _WIDTH * _UNITS
    n_samples = -(-_TIMES * limit // (8 * width))
    X, _ = make_granger_plant(_UNITS, n_sensors=_WIDTH, n_samples=4 * rows, random_state=1)
    block = np.hstack(list(X.values()))
    with tempfile.TemporaryDirectory() as folder:
        files, left, size = [], n_samples, 0
        while left > 0:  # rows of one stretch after the other, scaled anew, so that no two files are the same
            path = Path(folder) / f"{len(files):04d}.npy"
            np.save(path, block[:left] * (1 + 1e-6 * len(files)))
            files.append(str(path))
            left, size = left - len(block), size + path.stat().st_size
        how = [sys.executable, "-c", WORKER, str(limit), str(rows), str(_WIDTH), str(_UNITS), *files]
        found = subprocess.run(how, capture_output=True, text=True, check=False)
    if found.returncode:
        raise RuntimeError(found.stderr[-2000:])
    learned, n_batches, peak, spent = found.stdout.split()
    values = f"{size / 1e9:.2f}", f"{limit / 1e9:.2f}", learned, n_batches, f"{float(peak) / 1e9:.2f}", spent[:6]
    names = "record, GB", "address space, GB", "rows learned", "batches", "peak resident, GB", "processor time, s"
    return dict(zip(names, values, strict=True))


def cost_row(month, batch, alone):
    """A row of the table of costs."""
    return {"month": month, "partial_fit, s": f"{batch:.2f}", "fit, s": f"{alone:.2f}", "ratio": f"{batch / alone:.2f}"}


def report(n_units, n_rows, costs, cost, distance, large):
    """Write the tables."""
    total = np.sum(costs, axis=0)
    rows = [cost_row(k + 1, *cost_of) for k, cost_of in enumerate(costs)] + [cost_row("all", *total)]
    met = "met" if total[0] <= GOAL * total[1] and distance <= SAME else "missed"
    print(f"one fit {cost:.1f} s, distance {distance:.1e}: {met}", flush=True)
    text = (
        f"{n_units} units, {n_rows} rows a month, processor seconds. Goals: every month at most {GOAL} "
        f"times the cost of the month alone, the plant of all months within {SAME:g} of one fit with the same models "
        f"of the units. One fit of all months took {cost:.1f} s; largest difference of coefficients, process noise and "
        f"strengths from it: {distance:.1e} ({met})."
    )
    parts = [text, table(rows)]
    if large is not None:
        parts += ["## A record ten times the memory of the process", table([large])]
    write("months", "A plant month by month", *parts)


def main():
    """Measure, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--months", type=int, default=24)
    parser.add_argument("--rows", type=int, default=43_200)
    parser.add_argument("--units", type=int, default=16)
    parser.add_argument(
        "--limit", type=int, default=500_000_000, help="bytes of address space of the last table, 0: none"
    )
    parser.add_argument("--folder", help="where months and what was measured are kept, for a run that was stopped")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as own:
        folder = own if arguments.folder is None else arguments.folder
        files = month_files(folder, arguments.months, arguments.rows, arguments.units)
        costs, estimator = months(folder, files)
        cost, distance = whole(estimator, files)
    large = ten_times(arguments.limit, 2500) if arguments.limit else None
    report(arguments.units, arguments.rows, costs, cost, distance, large)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
