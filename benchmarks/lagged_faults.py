"""Roots of steady faults in networks with dead times: a plant of one lag against one of several.

Run ``python -m benchmarks.lagged_faults --networks 20 --faults 4``.
"""

import argparse
import warnings
from time import process_time

import numpy as np

from skfedcausal import FederatedRCADetector, KalmanClient, LikelihoodServer

from ._networks import dead_times
from ._report import table, write

N_UNITS, NOMINAL, QUIET, BEFORE, FAULTY = 8, 3000, 6000, 200, 200
SIZES = (0.2, 0.4, 0.8)  # in standard deviations of the noise, added in every row
RATE = 1e-3
NETWORKS = {
    "second order, gains .04-.2": {"second_order": True},
    "first order, gains .1-.4": {"second_order": False, "gain": (0.1, 0.4)},
}


class OneLag(LikelihoodServer):
    """The server that learns one lag whatever the record asks for."""

    frees_lags = False


SERVERS = {
    "MomentServer (default)": None,
    "LikelihoodServer, one lag": OneLag(),
    "LikelihoodServer": LikelihoodServer(),
}


def part(X, start, stop):
    """Some rows of every unit."""
    return {name: Y[start:stop] for name, Y in X.items()}


def answers(detector, X, root):
    """Whether a named window names the root, there is an alarm, its incident names the root, or not."""
    window = detector.attribute(X, start=BEFORE)
    found = detector.incidents(X).query("detected >= @BEFORE")
    first = None if found.empty else found.iloc[0]
    named = first is not None and first.root == root
    return window.client[0] == root, first is not None, named, first is not None and not named


def judged(kind, n_networks, n_faults):
    """Rows of the table of one kind of network."""
    settings, rows_in_all = NETWORKS[kind], NOMINAL + QUIET + BEFORE + FAULTY
    told = {name: {size: [] for size in SIZES} for name in SERVERS}
    costs, alarms = {name: [] for name in SERVERS}, {name: [] for name in SERVERS}
    for seed in range(n_networks):
        network = dead_times(N_UNITS, rows_in_all, seed, **settings)
        detectors = {}
        for name, server in SERVERS.items():
            start = process_time()
            detector = FederatedRCADetector(client=KalmanClient(n_states=1), server=server, false_alarm_rate=RATE)
            detectors[name] = detector.fit(part(network.X, 0, NOMINAL))
            n_lags = len(getattr(detector.server_, "lag_transitions_", [1]))
            costs[name].append((process_time() - start, n_lags))
            alarms[name].append(len(detector.incidents(part(network.X, NOMINAL, NOMINAL + QUIET))) / QUIET)
        rng = np.random.default_rng([seed, 3])
        causes = np.flatnonzero(network.linked.any(axis=0))
        for _ in range(n_faults):
            root = int(rng.choice(causes))
            for size in SIZES:
                fault = (root, rows_in_all - FAULTY, size)
                X = part(dead_times(N_UNITS, rows_in_all, seed, fault=fault, **settings).X, NOMINAL + QUIET, None)
                for name, detector in detectors.items():
                    told[name][size].append(answers(detector, X, f"unit{root}"))
    rows = []
    for name in SERVERS:
        seconds, lags = np.mean(costs[name], axis=0)
        for size in SIZES:
            shares = np.mean(told[name][size], axis=0)
            columns = ("window", "detected", "named", "other or undecided")
            row = {"networks": kind, "server": name, "size": size}
            row |= {column: f"{share:.2f}" for column, share in zip(columns, shares, strict=True)}
            row |= {"false alarms per 1000 rows": f"{1000 * np.mean(alarms[name]):.2f}"}
            rows.append(row | {"lags": f"{lags:.0f}", "seconds": f"{seconds:.1f}"})
            print(rows[-1], flush=True)
    return rows


def main():
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", type=int, default=20)
    parser.add_argument("--faults", type=int, default=4)
    args = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    rows = [row for kind in NETWORKS for row in judged(kind, args.networks, args.faults)]
    write(
        "lagged_faults",
        "Roots of steady faults behind dead times",
        f"{args.networks} networks of {N_UNITS} units with links that act 2 to 11 rows late (`benchmarks._networks`, "
        f"{NOMINAL} nominal rows, one state a unit), {args.faults} faults of each size in a unit that moves others. "
        "Window: `attribute`, told when, names the root. Detected, named, other or undecided: share with an "
        f"alarm, and what its first incident names. Budget: {1000 * RATE:g} false alarm per 1000 rows, on {QUIET} new "
        "nominal rows of every network. Seconds: CPU, of a fit. A share has a standard error of up to .06.",
        table(rows),
    )


if __name__ == "__main__":
    main()
