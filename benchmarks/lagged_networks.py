"""Networks whose links act after several rows: links, false ones and delays, beside an autoregression.

Run ``python -m benchmarks.lagged_networks`` for the tables.
"""

import argparse
import warnings
from time import process_time

import numpy as np
from scipy.stats import chi2
from sklearn.metrics import roc_auc_score
from statsmodels.tsa.api import VAR

from skfedcausal import FederatedGrangerEstimator

from ._networks import PUBLISHED, dead_times, published
from ._report import mean_and_error, table, write

_LEVEL = 0.05
_MOST_LAGS = 15
_CASES = {
    "second order, dead times 1-10": {},
    "first order, dead times 1-10": {"second_order": False},
    "first order, all two rows late": {"second_order": False, "delays": (1, 1)},
}


class Found:
    """P values [effect, cause], decisions, delays and seconds."""

    def __init__(self, p, decided, seconds, delays=None, has_lags=True):
        self.p, self.decided, self.seconds, self.delays, self.has_lags = p, decided, seconds, delays, has_lags


def default(units):
    """The default estimator; nothing is told to it."""
    start = process_time()
    estimator = FederatedGrangerEstimator().fit(units.X)
    seconds, n = process_time() - start, len(units.X)
    names = list(estimator.client_names_)
    p, decided, delays = np.ones((n, n)), np.zeros((n, n), dtype=bool), np.full((3, n, n), np.nan)
    for row in estimator.links_.itertuples():
        at = names.index(row.effect), names.index(row.cause)
        p[at], decided[at] = row.p_value, row.p_adjusted <= _LEVEL
        delays[(slice(None), *at)] = row.delay, row.delay_low, row.delay_high
    return Found(p, decided, seconds, delays, len(estimator.server_.lag_transitions_) > 1)


def autoregression(units):
    """Pooled vector autoregression of the best summaries of units' sensors, order by AIC, Wald tests."""
    start = process_time()
    n = units.scores.shape[1]
    fit = VAR(units.scores).fit(maxlags=_MOST_LAGS, ic="aic")
    p, n_lags = np.ones((n, n)), fit.k_ar
    if n_lags:
        covariance = np.asarray(fit.cov_params())
        size = covariance.shape[0] // n

        for effect in range(n):
            for cause in range(n):
                if effect != cause:
                    # coefficients of one equation are n_regressors apart, a constant first
                    at = np.array([1 + k * n + cause for k in range(n_lags)])
                    b = np.asarray(fit.params)[at, effect]
                    V = covariance[np.ix_(at * n + effect, at * n + effect)]
                    p[effect, cause] = chi2.sf(b @ np.linalg.solve(V, b), n_lags)
        assert size * n == len(covariance)
    n_pairs = n * (n - 1)
    return Found(p, p * n_pairs <= _LEVEL, process_time() - start)


def scores_of(found, units):
    """AUROC, F1 of decisions, false pairs below 5 %, seconds."""
    off = ~np.eye(len(found.p), dtype=bool)
    truth, p, decided = units.linked[off], found.p[off], found.decided[off]
    hits = (decided & truth).sum()
    return (
        roc_auc_score(truth, -p),
        2 * hits / max(1, decided.sum() + truth.sum()),
        np.mean(p[~truth] < _LEVEL),
        found.seconds,
    )


def timing_of(found, units):
    """Of links that were found: whether the delay is right, within a row, in its 90 % set; the set's rows."""
    at = found.decided & units.linked
    delay, low, high = (x[at] for x in found.delays)
    true = units.delay[at]
    inside = (low <= true) & (true <= high)
    return np.array([delay == true, np.abs(delay - true) <= 1, inside, high - low + 1]).T


def compare(name, make, seeds):
    """Rows of the two methods over networks."""
    methods = {"default": default, "VAR(AIC), pooled": autoregression}
    values: dict = {method: [] for method in methods}
    timings, lagged = [], []
    for seed in seeds:
        units = make(seed)
        for method, find in methods.items():
            found = find(units)
            values[method].append(scores_of(found, units))
            if found.delays is not None:
                timings.append(timing_of(found, units))
                lagged.append(found.has_lags)
    rows = []
    for method, found in values.items():
        auroc, f1, false, seconds = np.array(found).T
        row = {
            "network": name,
            "method": method,
            "AUROC": mean_and_error(auroc),
            "F1": mean_and_error(f1),
            "false pairs below 5 %": mean_and_error(100 * false, 1),
            "seconds": f"{np.median(seconds):.2f}",
        }
        if method == "default":
            exact, near, inside, width = np.concatenate(timings).mean(axis=0)
            row |= {
                "several lags": f"{100 * np.mean(lagged):.0f} %",
                "delay right": f"{100 * exact:.0f} %",
                "within a row": f"{100 * near:.0f} %",
                "in its 90 % set": f"{100 * inside:.0f} %",
                "rows of the set": f"{width:.1f}",
            }
        rows.append(row)
    return rows


def main():
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=20)
    seeds = range(parser.parse_args().sets)
    warnings.simplefilter("ignore")
    columns = ["network", "method", "AUROC", "F1", "false pairs below 5 %", "seconds", "several lags"]
    columns += ["delay right", "within a row", "in its 90 % set", "rows of the set"]
    rows = []
    for network in PUBLISHED:
        for n_sensors, label in ((1, "one sensor"), (4, "four noisy sensors")):

            def make(seed, network=network, n_sensors=n_sensors):
                return published(network, 2000, seed, n_sensors)

            rows += compare(f"{network.name}, {label}", make, seeds)
    sources = "\n".join(f"- {network.name}: {network.source}" for network in PUBLISHED)
    others = []
    for name, settings in _CASES.items():

        def make(seed, settings=settings):
            return dead_times(8, 3000, seed, **settings)

        others += compare(name, make, seeds)
    text = (
        f"{len(seeds)} records a row, mean ± standard error. The estimator is the default one and is told "
        "nothing; the autoregression is pooled, takes the best one-number summary of every unit's sensors "
        f"(true loadings) and up to {_MOST_LAGS} lags. F1 counts links at a family-wise level of 5 %. Delays "
        "are those of links that were found."
    )
    first = f"## Published networks, 2000 rows, noisy sensors with the variance of the node\n\n{sources}"
    second = "## Eight units behind four sensors each, 3000 rows, twelve links"
    tables = [table(part, columns) for part in (rows, others)]
    write("lagged_networks", "Networks of several lags", text, first, tables[0], second, tables[1])


if __name__ == "__main__":
    main()
