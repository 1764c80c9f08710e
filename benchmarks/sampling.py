"""Units that report at different rates: false links and true ones, by what stands in the empty rows.

Run ``python -m benchmarks.sampling`` for the table.
"""

import argparse
import warnings

import numpy as np

from skfedcausal import FederatedGrangerEstimator, KalmanClient
from skfedcausal.datasets import make_granger_plant

from ._report import table, write
from .size import rate

_RADIUS = (0.8, 0.9)  # slow enough that a report in five rows still tells of the states
PERIODS = ((1, 1), (1, 5), (2, 2), (2, 3), (3, 7))  # rows from a report to the next, of cause and effect
FILLS = ("missing", "held", "interpolated", "shorter record")


def thinned(Y, period, offset):
    """NaN in all rows but every `period`-th one, from `offset` on."""
    kept = np.full_like(Y, np.nan)
    kept[offset::period] = Y[offset::period]
    return kept


def held(Y):
    """The last report repeated until the next one, as a historian shows it."""
    last = np.maximum.accumulate(np.where(np.isnan(Y[:, 0]), 0, np.arange(len(Y))))
    return Y[last]


def interpolated(Y):
    """Straight lines between reports."""
    rows = np.flatnonzero(~np.isnan(Y[:, 0]))
    t = np.arange(len(Y))
    return np.column_stack([np.interp(t, rows, y[rows]) for y in Y.T])


def record(seed, n_samples, periods, gain, fill):
    """Measurements of units "cause" and "effect" at their rates; never in one row if both take two."""
    X, _ = make_granger_plant(
        2,
        n_samples=n_samples,
        links=[(0, 1)] if gain else [],
        link_strength=gain or 0.1,
        radius=_RADIUS,
        names=("cause", "effect"),
        random_state=seed,
    )
    if fill == "shorter record":  # every unit in the rows of the slowest
        return {name: Y[:: max(periods)] for name, Y in X.items()}
    offsets = (0, 1) if periods == (2, 2) else (0, 0)
    X = {
        name: thinned(Y, period, offset) for (name, Y), period, offset in zip(X.items(), periods, offsets, strict=True)
    }
    if fill != "missing":
        trim = slice(max(offsets), None)
        X = {name: {"held": held, "interpolated": interpolated}[fill](Y[trim]) for name, Y in X.items()}
    return X


def p_values(seed, n_samples, periods, gain, fill):
    """p-values of cause to effect and of effect to cause, and whether any warning came."""
    X = record(seed, n_samples, periods, gain, fill)
    clients = [KalmanClient(n_states=2) for _ in X]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        links = FederatedGrangerEstimator(clients).fit(X).links_
    p = links.set_index(["cause", "effect"])["p_value"]
    return p["cause", "effect"], p["effect", "cause"], bool(caught)


def row_of(setting, without, with_link):
    """One row of the table."""
    without, with_link = np.array(without), np.array(with_link)
    return {
        **setting,
        "data sets": len(without),
        "false, no link": rate(without[:, :2].ravel() < 0.05, 0.05),
        "cause to effect found": f"{np.mean(with_link[:, 0] < 0.05):.2f}",
        "effect to cause, false": f"{np.mean(with_link[:, 1] < 0.05):.2f}",
        "warned": f"{np.mean(without[:, 2]):.2f}",
    }


class SamplingSuite:
    """Share of false links at 5 % for asv."""

    params = [list(FILLS)]
    param_names = ("fill",)

    def track_false_links(self, fill):
        draws = [p_values(seed, 500, (2, 3), 0.0, fill)[:2] for seed in range(10)]
        return float(np.mean(np.array(draws) < 0.05))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--sets", type=int, default=100)
    options = parser.parse_args()
    rows = []
    for periods in PERIODS:
        for fill in FILLS if periods != (1, 1) else FILLS[:1]:
            draws = [
                [p_values(seed, options.rows, periods, gain, fill) for seed in range(options.sets)]
                for gain in (0.0, 0.3)
            ]
            setting = {
                "a report every": f"{periods[0]} and {periods[1]} rows" + ", never both" * (periods == (2, 2)),
                "empty rows": fill,
            }
            rows.append(row_of(setting, *draws))
            print(table(rows[-1:]), flush=True)
    write(
        "sampling",
        f"Units that report at different rates: 2 units, 2 states and 8 sensors each, {options.rows} rows",
        "Cause and effect report every so many rows of one clock; sensors are identified at home with "
        "`n_states=2`. Empty rows are left missing, hold the last report, are filled with straight lines, or "
        "the record has only every k-th row, k of the slower unit (for 2 and 3, 3 and 7 this supposes "
        "measurements that the record of reports does not have). No link: both directions at 5 %, `±` is "
        "two standard errors of a share if the tests are independent. The other columns: a link of gain 0.3 "
        "from cause to effect. Warned: any warning, without a link.",
        table(rows),
    )


if __name__ == "__main__":
    main()
