"""Seconds of a fit: one lag, with the test whether that is enough, and with several lags.

Run ``python -m benchmarks.lagged_speed`` for the tables.
"""

import argparse
import warnings
from time import process_time

import numpy as np

from skfedcausal import KalmanClient
from skfedcausal.server.estimation.estimate import Settings, estimate_plant
from skfedcausal.server.estimation.scoring import Budget
from skfedcausal.server.joint import JointRecord
from skfedcausal.server.lagged.misfit import lag_tests
from skfedcausal.server.lagged.stage import learn_lags

from ._networks import dead_times
from ._plants import weak_links
from ._report import table, write


def seconds(call, repeats=3):
    """Smallest processor time of a few calls, and the last answer."""
    times = []
    for _ in range(repeats):
        start = process_time()
        answer = call()
        times.append(process_time() - start)
    return min(times), answer


def record_of(X, loadings=None):
    """Joint record of units whose loadings are known or not."""
    messages = {}
    for m, (name, Y) in enumerate(X.items()):
        client = KalmanClient() if loadings is None else KalmanClient(C=loadings[m])
        messages[name] = client.fit(Y).message(Y)
    return JointRecord.from_messages(messages)


def one_lag(n_units):
    """A row about a plant of one lag, two states a unit: the fit, and the test of misfit after it."""
    X, truth = weak_links(n_units, seed=300)
    record = record_of(X, truth.observation)
    settings = Settings(local=(None,) * n_units)

    def fit():
        record.forget_scores()
        return estimate_plant(record, settings)

    repeats = 3 if n_units <= 32 else 1
    fitted, estimate = seconds(fit, repeats)
    tested, found = seconds(lambda: lag_tests(estimate.plant, estimate.scoring), repeats)
    least = min(1.0, np.nanmin(found.p_values) * np.isfinite(found.p_values).sum())
    return {
        "units": n_units,
        "states": record.partition.n_states,
        "fit of one lag": f"{fitted:.3f}",
        "test of misfit": f"{tested:.3f}",
        "both over the fit": f"{(fitted + tested) / fitted:.2f}",
        "smallest p, adjusted": f"{least:.2f}",
    }


def several_lags(n_units, n_samples=5000):
    """A row about a plant of several lags: two states a unit, half of the links with dead time."""
    X, truth = weak_links(n_units, seed=300)
    rng = np.random.default_rng(n_units)
    delayed = {}
    for name, Y in X.items():
        late = int(rng.integers(0, 6))
        delayed[name] = np.roll(Y, late, axis=0)[10 : n_samples + 10] if late else Y[10 : n_samples + 10]
    return _lagged_row(n_units, record_of(delayed, truth.observation))


def by_rows(n_samples):
    """A row about eight units with dead times behind four sensors each."""
    return _lagged_row(8, record_of(dead_times(8, n_samples, 0).X))


def _lagged_row(n_units, record):
    settings = Settings(local=(None,) * n_units)
    estimate = estimate_plant(record, settings)
    budget = Budget(1e6)
    spent, lagged = seconds(lambda: learn_lags(estimate, settings, budget), 1)
    counted = 1e6 - budget._left / 2e9
    return {
        "units": n_units,
        "states": record.partition.n_states,
        "rows": record.n_samples,
        "seconds": f"{spent:.2f}",
        "seconds counted": f"{counted:.2f}",
        "lags": "one is enough" if lagged is None else lagged.dynamics.n_lags,
    }


def main():
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, nargs="+", default=[8, 16, 32, 64])
    units = parser.parse_args().units
    warnings.simplefilter("ignore")
    tests = table([one_lag(n) for n in units])
    lags = table([several_lags(n) for n in units if n <= 32])
    rows = table([by_rows(n) for n in (1000, 5000, 25_000, 100_000)])
    text = "Processor seconds of the server, messages at hand; 5000 rows, two states and eight sensors a unit."
    first = "## One lag, and the test whether it is enough"
    second = "## Several lags: the same plants with units whose clocks are 0 to 5 rows late"
    third = "## Several lags by rows: eight units of one state with dead times"
    write("lagged_speed", "Seconds of plants of several lags", text, first, tests, second, lags, third, rows)


if __name__ == "__main__":
    main()
