"""Sensors that wander: units that say so, and links with ``levels="wander"``, by size of the walks and rows.

Run ``python -m benchmarks.wander``. The user guide quotes it (pages "Valid or silent" and "Seasons, trends and modes").
"""

import argparse
import json
import warnings
from pathlib import Path

import numpy as np

from skfedcausal import FederatedGrangerEstimator, KalmanClient

from ._report import table, write
from ._situations import LINK, wander

_STEPS, _ROWS = (0.0, 0.02, 0.05, 0.1), (1000, 2000, 5000)
_LEVEL = 0.05


def judged(step, n_samples, seed):
    """What is told of one record with levels that move, and how many of its units say that their sensors wander."""
    scene = wander(np.random.default_rng([seed, n_samples]), n_samples, step)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = FederatedGrangerEstimator(KalmanClient(levels="wander")).fit(scene.X)
    links = estimator.links_
    pairs = list(zip(links["cause"], links["effect"], strict=True))
    absent = np.array([pair not in LINK for pair in pairs])
    told = (links["verdict"] == "influence").to_numpy()
    return {
        "said": np.mean([client.baseline_.moves for client in estimator.clients_.values()]),
        "below": float((links["p_value"][absent] < _LEVEL).mean()),
        "false": bool((told & absent).any()),
        "true": bool((told & ~absent).any()),
        "withheld": float((links["because"] != "").mean()),
    }


def row(step, n_samples, records):
    """A row of the table."""
    shares = {key: f"{np.mean([record[key] for record in records]):.3f}" for key in records[0]}
    return {
        "step": step,
        "rows": n_samples,
        "records": len(records),
        "units that wander, it says": shares["said"],
        "absent pairs with p < .05": shares["below"],
        "a false link told": shares["false"],
        "the true one told": shares["true"],
        "verdicts withheld": shares["withheld"],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=24)
    parser.add_argument("--first", type=int, default=0, help="seed of the first record")
    parser.add_argument("--save", type=Path)
    asked = parser.parse_args()
    rows = []
    for step in _STEPS:
        for n_samples in _ROWS:
            seeds = range(asked.first, asked.first + asked.records)
            rows.append(row(step, n_samples, [judged(step, n_samples, seed) for seed in seeds]))
            print(rows[-1], flush=True)
            if asked.save:
                asked.save.write_text(json.dumps(rows))
    write(
        "wander",
        "Sensors that wander",
        "Four units of two states behind six sensors; every sensor has white noise of deviation 1 and a random walk of "
        'its own of the step given, and u0 acts on u1. With `KalmanClient(levels="wander")`, shares of units whose '
        "level moves, of absent pairs with a p value below .05, of records with a false link told and with the true "
        "one, and of verdicts withheld.",
        table(rows),
    )


if __name__ == "__main__":
    main()
