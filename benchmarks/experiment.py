"""How many rows an experiment needs to decide a link, beside random moves of equal power.

Two units of two sensors each, the first with an input; a weak link from its state to the other unit is not decided by
the record so far. Either the schedule of `experiment` or random moves between the same bounds, a new one in every row,
are put behind the record, and the plant is learned again after every further stretch of rows until the link is found.
Run ``python -m benchmarks.experiment``.
"""

import argparse
import warnings

import numpy as np
import pandas as pd

from skfedcausal import FederatedCounterfactualEstimator

from ._report import table, write

_KNOWN, _STRETCH, _MOST = 300, 50, 3000
_UNITS, _INPUT = {"a": ["a__s0", "a__s1"], "b": ["b__s0", "b__s1"]}, "a__u"


class Pair:
    """A unit with an input, and a weak link from its state to that of the other."""

    def __init__(self, seed):
        rng = np.random.default_rng([seed, 5])
        self.memory, self.link = rng.uniform(0.8, 0.92), rng.uniform(0.02, 0.04)
        self.noise = (
            rng.standard_normal((_KNOWN + _MOST, 2)) * [0.1, 0.3],
            0.1 * rng.standard_normal((_KNOWN + _MOST, 4)),
        )
        self.past = rng.uniform(-0.3, 0.3, _KNOWN)
        self.random = rng.integers(0, 2, _MOST) * 2.0 - 1.0

    def record(self, moves):
        """Of the rows so far and those under further moves."""
        u, x, rows = np.concatenate([self.past, moves]), np.zeros(2), []
        A = np.array([[self.memory, 0.0], [self.link, 0.6]])
        for t, value in enumerate(u):
            rows.append(np.kron(x, [1.0, 0.6]) + self.noise[1][t])
            x = A @ x + np.array([0.4, 0.0]) * value + self.noise[0][t]
        data = pd.DataFrame(rows, columns=[name for own in _UNITS.values() for name in own])
        return data.assign(**{_INPUT: u})[["a__s0", "a__s1", _INPUT, "b__s0", "b__s1"]]


def learned(data):
    """The estimator of a record, and whether it found the link."""
    estimator = FederatedCounterfactualEstimator(input_columns=[_INPUT]).fit(data)
    link = estimator.links_.query("cause == 'a' and effect == 'b' and kind == 'state'")
    return estimator, link["verdict"].iloc[0] == "influence"


def rows_until(pair, moves):
    """Rows after which the link is found, for two stretches in a row."""
    found = 0
    for n_rows in range(_STRETCH, _MOST + 1, _STRETCH):
        found = found + 1 if learned(pair.record(moves[:n_rows]))[1] else 0
        if found == 2:
            return n_rows - _STRETCH
    return _MOST


def measured(seed):
    """Rows that either excitation needs; None for records that show the link already."""
    pair = Pair(seed)
    estimator, there = learned(pair.record(np.zeros(0)))
    if there:
        return None
    plan = estimator.experiment("a", "b", inputs=[_INPUT], bounds={_INPUT: (-1.0, 1.0)}, rows=500)
    moves = np.tile(plan.schedule[_INPUT].to_numpy(), _MOST // 500)
    rows = {"seed": seed, "experiment": rows_until(pair, moves), "random": rows_until(pair, pair.random)}
    power = np.square(moves).mean() / np.square(pair.random).mean()
    return rows | {"power": power, "said": plan.rows_needed, "said of random": plan.random_rows_needed}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="seed of the first draw")
    arguments = parser.parse_args()
    rows, seed = [], arguments.first
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while len(rows) < arguments.draws:
            row = measured(seed)
            rows += [] if row is None else [row]
            print(seed, row, flush=True)
            seed += 1
    found = pd.DataFrame(rows)
    found["share"] = found["experiment"] / found["random"]
    median = found.median(numeric_only=True)
    write(
        "experiment",
        "Experiments that decide a link",
        f"{len(found)} draws whose first {_KNOWN} rows do not show the link; rows after them until it is found, looked "
        f"at every {_STRETCH} rows, at most {_MOST}. Power: mean square of the moves beside that of the random ones. "
        "Said: rows that `experiment` expects for an influence of the smallest strength that counts.",
        f"- median share of the rows of random moves: {median['share']:.2f}",
        table(
            [
                {
                    "rows": name,
                    "median": f"{median[name]:.0f}",
                    "least": f"{found[name].min():.0f}",
                    "most": f"{found[name].max():.0f}",
                }
                for name in ("experiment", "random", "said", "said of random")
            ]
        ),
        f"- power, mean: {found['power'].mean():.3f}",
    )


if __name__ == "__main__":
    main()
