"""Roots of weak faults: many windows of every network, so that a difference of 0.02 to the oracle shows.

Run ``python -m benchmarks.weak_faults --networks 40 --faults 10``.
"""

import argparse
import warnings

import numpy as np

from skfedcausal import FederatedRCADetector

from ._report import table, write
from .root_cause import BEFORE, Network, P, oracle, vector_autoregression

SIZES = (0.2, 0.1)
PLANTS = ((12, "linear", True), (12, "linear", False), (12, "tanh", True), (6, "linear", True))


def weak_faults(n_units, kind, loop, n_networks, n_faults):
    """Rows of the table of one kind of plant, one per size."""
    hits = {size: [] for size in SIZES}
    for seed in range(n_networks):
        network = Network(n_units, seed, kind, loop)
        nominal, _ = network.record(0.0)
        detector = FederatedRCADetector().fit(nominal)
        rng = np.random.default_rng([seed, n_units, 0])
        for draw in range(2, 2 + n_faults):
            root, push = int(rng.integers(n_units)), np.zeros(P * n_units)
            direction = rng.standard_normal(P)
            push[P * root : P * root + P] = direction / np.linalg.norm(direction)
            for size in SIZES:
                _, record = network.record(size, push, draw)
                first = detector.attribute(record, start=BEFORE).client[0]
                answers = oracle(network, nominal, record), vector_autoregression(nominal, record)
                hits[size].append((answers[0] == root, answers[1] == root, first == f"client{root}"))
    rows = []
    for size in SIZES:
        shares = np.array(hits[size], dtype=float)
        less = shares[:, 2] - shares[:, 0]
        per_network = less.reshape(n_networks, n_faults).mean(axis=1)  # windows of one network are alike
        told = dict(zip(("oracle", "pooled VAR", "attribute"), shares.mean(axis=0), strict=True))
        rows.append(
            {
                "plant": f"{n_units} units, {kind}{', loop' if loop else ''}",
                "windows": len(less),
                "size": size,
                **{name: f"{share:.3f}" for name, share in told.items()},
                "attribute less oracle": f"{less.mean():+.3f} ± {per_network.std() / n_networks**0.5:.3f}",
            }
        )
        print(rows[-1], flush=True)
    return rows


def main():
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", type=int, default=40)
    parser.add_argument("--faults", type=int, default=10)
    args = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    rows = [row for plant in PLANTS for row in weak_faults(*plant, args.networks, args.faults)]
    write(
        "weak_faults",
        "Roots of weak faults",
        f"{args.networks} networks of each kind as in `benchmarks.root_cause`, {args.faults} faults of each "
        "in a unit and direction drawn anew. Oracle (a Kalman filter with the true transition matrix), VAR "
        "and `attribute` are told the window. Standard errors are those of means over networks.",
        table(rows),
    )


if __name__ == "__main__":
    main()
