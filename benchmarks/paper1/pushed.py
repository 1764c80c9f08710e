"""A driver that is pushed to another level and stays there: links back, told and by p value, the true one, its error.

Two units with eight sensors and two states each, models identified at home, ``T = 5000``, pushed from half time on by
0 to 2 standard deviations of the process noise per row. Run ``python -m benchmarks.paper1.pushed [n_records]``.
"""

import sys
import warnings

import numpy as np

from skfedcausal import FederatedGrangerEstimator
from skfedcausal.datasets import make_granger_plant

from .._report import table, write

RADII, PUSHES, N_ROWS = (0.7, 0.9, 0.95, 0.98, 0.99), (0.0, 0.2, 0.5, 1.0, 2.0), 5000


def plant(radius, push, seed):
    """Record and truth of one draw."""
    A = np.kron(np.diag([radius, 0.5]), np.eye(2))
    A[2:, :2] = 0.25
    shift = {"unit": "unit0", "size": push, "at": N_ROWS // 2, "until": N_ROWS}
    return make_granger_plant(
        2, transition=A, n_samples=N_ROWS, random_state=seed, level_shift=[shift] if push else None
    )


def outcome(radius, push, seed):
    """Whether a link back is told, and is by its p value; whether the true one is; its error in the true basis."""
    X, truth = plant(radius, push, seed)
    est = FederatedGrangerEstimator().fit(X)
    links = est.links_.set_index(["cause", "effect"])
    low, told = links["p_adjusted"] < 0.05, links["verdict"] == "influence"
    back, there = ("unit1", "unit0"), ("unit0", "unit1")
    own = [client.observation_ for client in est.clients_.values()]
    error = np.nan
    if all(C.shape == true.shape for C, true in zip(own, truth.observation, strict=True)):
        first, second = (np.linalg.pinv(true) @ C for C, true in zip(own, truth.observation, strict=True))
        gain = second @ est.transition_[2:, :2] @ np.linalg.inv(first)
        error = np.linalg.norm(gain - 0.25) / 0.5
    return told[back], low[back], told[there], low[there], error


def rows(n_records):
    """One row per radius, one cell per push."""
    for radius in RADII:
        row = {"A11": radius}
        for push in PUSHES:
            *counts, errors = zip(*(outcome(radius, push, seed) for seed in range(n_records)), strict=True)
            row[f"push {push:g}"] = f"{' / '.join(str(sum(each)) for each in counts)} / {np.nanmedian(errors):.3f}"
            print(radius, push, row[f"push {push:g}"], flush=True)
        yield row


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    write(
        "paper1/pushed",
        "A driver that is pushed and stays there",
        f"Links back told / by p value below 0.05 / true links told / by p value / median error, of {count}. Told are "
        'those with the verdict "influence": where a unit has a trend, or its level may have shifted, nobody can tell.',
        table(list(rows(count))),
    )
