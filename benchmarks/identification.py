"""Orders that ``n_states="auto"`` finds, and seconds to identify the units of a plant at home.

Run ``python -m benchmarks.identification`` for the tables.
"""

import argparse
from time import process_time

from skfedcausal import KalmanClient
from skfedcausal.client.identification import METHODS
from skfedcausal.datasets import make_granger_plant

from ._report import table, write
from ._timing import side_by_side

SENSORS, STATES, MISSING = (4, 8, 16, 32), (1, 2, 3, 4), (0.0, 0.1, 0.3)
GOAL = 0.06  # seconds for 16 units


def found(seeds, n_samples, **how):
    """Number of seeds for which the true number of states is found."""
    right = 0
    for seed in range(seeds):
        X, truth = make_granger_plant(1, n_samples=n_samples, random_state=seed, **how)
        right += KalmanClient().fit(X["unit0"]).n_states_ == len(truth.clients()["unit0"]["A"])
    return right


def orders(seeds, n_samples):
    """Rows of the table of orders."""
    return [
        {
            "missing cells": f"{missing:.0%}",
            "D": d,
            **{f"P = {p}": found(seeds, n_samples, n_sensors=d, n_states=p, missing=missing) for p in STATES},
        }
        for missing in MISSING
        for d in SENSORS
    ]


def seconds(repeats):
    """Rows of the table of times."""
    X, _ = make_granger_plant(16, n_samples=5000, random_state=0)

    def identify(method):
        for Y in X.values():
            KalmanClient(identify=method).fit_arrays(Y)

    def processor_seconds(method):
        start = process_time()
        identify(method)
        return process_time() - start

    best = side_by_side({m: lambda m=m: identify(m) for m in METHODS}, repeats=repeats)
    busy = {m: min(processor_seconds(m) for _ in range(repeats)) for m in METHODS}
    return [
        {
            "identify": m + (" (default)" if m == KalmanClient().identify else ""),
            "s": f"{best[m]:.4f}",
            "processor s": f"{busy[m]:.4f}",
            f"processor s <= {GOAL}": "met" if busy[m] <= GOAL else "missed",
        }
        for m in METHODS
    ]


def main():
    """Measure and write ``results/identification.md``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--samples", type=int, default=5000)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    write(
        "identification",
        "Identification of units at home",
        f"## Order\n\nOf {options.seeds} simulated units (`make_granger_plant`, sensor noise as large as "
        f'state noise) with {options.samples} rows, those for which `n_states="auto"` found the true '
        "number of states P from D sensors.",
        table(orders(options.seeds, options.samples)),
        "With as many sensors as states the noise and the weakest state are hardest to tell apart.",
        f"## Time\n\n16 units, D = 8, P = 2, T = 5000, order included; best of {options.repeats} turns side "
        "by side. Seconds on the clock grow with what else runs on the machine, processor seconds hardly.",
        table(seconds(options.repeats)),
        'The autoregressions of "pca-var" and "subspace" are fitted by statsmodels.',
    )


if __name__ == "__main__":
    main()
