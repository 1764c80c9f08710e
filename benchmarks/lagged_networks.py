"""Networks whose links act after several rows: links, false ones and delays, beside other tools.

Run ``python -m benchmarks.lagged_networks`` for the tables. PCMCI and LPCMCI are run where ``tigramite`` is
installed, VAR-LiNGAM where ``lingam`` is; the table says what was missing.
"""

import argparse
import warnings
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from itertools import chain
from time import process_time

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import chi2
from sklearn.metrics import roc_auc_score
from statsmodels.tsa.api import VAR

from skfedcausal import FederatedGrangerEstimator

from ._networks import PUBLISHED, dead_times, published
from ._report import mean_and_error, table, write

_LEVEL = 0.05
_MOST_LAGS = 15
_OF_PUBLISHED, _OF_LATE = 3, 11  # lags that searches which take minutes for more are told that there are
_CASES = {
    "second order, dead times 1-10": {},
    "first order, dead times 1-10": {"second_order": False},
    "first order, all two rows late": {"second_order": False, "delays": (1, 1)},
}


class Found:
    """Ranks [effect, cause], small where there is a link, decisions, delays, seconds; whether ranks are p values."""

    def __init__(self, p, decided, seconds, delays=None, has_lags=True, is_tested=True):
        self.p, self.decided, self.seconds, self.delays, self.has_lags = p, decided, seconds, delays, has_lags
        self.is_tested = is_tested


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


def _frame(units):
    from tigramite.data_processing import DataFrame
    from tigramite.independence_tests.parcorr import ParCorr

    return {"dataframe": DataFrame(units.scores), "cond_ind_test": ParCorr(), "verbosity": 0}


def _of_best_lag(p_matrix):
    """P values of pairs [effect, cause] from those of lags [cause, effect, lag], with Bonferroni's rule."""
    lags = p_matrix[:, :, 1:]
    return np.minimum(lags.min(axis=2) * lags.shape[2], 1.0).T


def pcmci(units, n_lags):
    """PCMCI with partial correlations on the same summaries, told the largest lag."""
    from tigramite.pcmci import PCMCI

    start, n = process_time(), units.scores.shape[1]
    p = _of_best_lag(PCMCI(**_frame(units)).run_pcmci(tau_max=n_lags, pc_alpha=0.05)["p_matrix"])
    return Found(p, p * n * (n - 1) <= _LEVEL, process_time() - start)


def lpcmci(units):
    """LPCMCI, which allows for hidden causes, told the largest lag; links are arrows out of earlier rows."""
    from tigramite.lpcmci import LPCMCI

    start = process_time()
    found = LPCMCI(**_frame(units)).run_lpcmci(tau_max=_OF_PUBLISHED, pc_alpha=0.01)
    arrows = np.isin(found["graph"][:, :, 1:], ("-->", "o->")).any(axis=2).T
    return Found(_of_best_lag(found["p_matrix"]), arrows, process_time() - start, is_tested=False)


def var_lingam(units):
    """VAR-LiNGAM, its order by BIC; links are coefficients of earlier rows that are not pruned."""
    import lingam

    start = process_time()
    model = lingam.VARLiNGAM(lags=_MOST_LAGS, criterion="bic", random_state=0).fit(units.scores)
    size = np.abs(model.adjacency_matrices_[1:]).max(axis=0)
    return Found(-size, size > 0, process_time() - start, is_tested=False)


def others(is_published):
    """Other tools as far as they are installed, and whether they are slow."""
    found = {}
    if find_spec("tigramite"):
        found["PCMCI"] = partial(pcmci, n_lags=_OF_PUBLISHED if is_published else _OF_LATE), True
        if is_published:
            found["LPCMCI"] = lpcmci, True
    if find_spec("lingam"):
        found["VAR-LiNGAM"] = var_lingam, False
    return found


def scores_of(found, units):
    """AUROC, F1 of decisions, false pairs below 5 %, seconds."""
    off = ~np.eye(len(found.p), dtype=bool)
    truth, p, decided = units.linked[off], found.p[off], found.decided[off]
    hits = (decided & truth).sum()
    return (
        roc_auc_score(truth, -p),
        2 * hits / max(1, decided.sum() + truth.sum()),
        np.mean(p[~truth] < _LEVEL) if found.is_tested else np.nan,
        found.seconds,
    )


def timing_of(found, units):
    """Of links that were found: whether the delay is right, within a row, in its 90 % set; the set's rows."""
    at = found.decided & units.linked
    delay, low, high = (x[at] for x in found.delays)
    true = units.delay[at]
    inside = (low <= true) & (true <= high)
    return np.array([delay == true, np.abs(delay - true) <= 1, inside, high - low + 1]).T


def compare(name, make, seeds, n_slow, *, is_published):
    """Rows of the methods over networks; slow ones see the first few."""
    warnings.simplefilter("ignore")
    methods = {"default": (default, False), "VAR(AIC), pooled": (autoregression, False), **others(is_published)}
    values: dict = {method: [] for method in methods}
    timings, lagged = [], []
    for number, seed in enumerate(seeds):
        units = make(seed)
        for method, (find, is_slow) in methods.items():
            if is_slow and number >= n_slow:
                continue
            found = find(units)
            values[method].append(scores_of(found, units))
            if found.delays is not None:
                timings.append(timing_of(found, units))
                lagged.append(found.has_lags)
    rows = []
    for method, found in values.items():
        if not found:
            continue
        auroc, f1, false, seconds = np.array(found).T
        row = {
            "network": name,
            "method": method,
            "records": len(found),
            "AUROC": mean_and_error(auroc),
            "F1": mean_and_error(f1),
            "false pairs below 5 %": "" if np.isnan(false).any() else mean_and_error(100 * false, 1),
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
    parser.add_argument("--slow-sets", type=int, default=6, help="records that PCMCI and LPCMCI see")
    parser.add_argument("--n-jobs", type=int, default=1, help="networks that are run at a time")
    options = parser.parse_args()
    seeds = range(options.sets)
    columns = ["network", "method", "records", "AUROC", "F1", "false pairs below 5 %", "seconds", "several lags"]
    columns += ["delay right", "within a row", "in its 90 % set", "rows of the set"]
    cases = []
    for network in PUBLISHED:
        for n_sensors, label in ((1, "one sensor"), (4, "four noisy sensors")):
            make = partial(published, network, 2000, n_sensors=n_sensors)
            cases.append((f"{network.name}, {label}", make, True))
    sources = "\n".join(f"- {network.name}: {network.source}" for network in PUBLISHED)
    n_published = len(cases)
    for name, settings in _CASES.items():
        make = partial(dead_times, 8, 3000, **settings)
        cases.append((name, make, False))
    found = Parallel(options.n_jobs)(
        delayed(compare)(name, make, seeds, options.slow_sets, is_published=early) for name, make, early in cases
    )
    rows, late = (list(chain.from_iterable(part)) for part in (found[:n_published], found[n_published:]))
    first = f"## Published networks, 2000 rows, noisy sensors with the variance of the node\n\n{sources}"
    second = "## Eight units behind four sensors each, 3000 rows, twelve links"
    tables = [table(part, columns) for part in (rows, late)]
    write("lagged_networks", "Networks of several lags", _text(), first, tables[0], second, tables[1])


def _text():
    there = [f"{name} {version(name)}" for name in ("tigramite", "lingam") if find_spec(name)]
    missing = [name for name in ("tigramite", "lingam") if not find_spec(name)]
    return (
        "Mean ± standard error. The estimator is the default one and is told nothing; the other tools are pooled "
        "and take the best one-number summary of every unit's sensors (true loadings), with up to "
        f"{_MOST_LAGS} lags; PCMCI and LPCMCI are told that there are at most {_OF_PUBLISHED}, or {_OF_LATE} in the "
        "second table, in which LPCMCI would take hours. F1 counts links at a family-wise "
        "level of 5 %; p values of PCMCI are those of the best lag times the number of lags; LPCMCI (level 1 %) and "
        "VAR-LiNGAM decide by their own graphs and have no p value of a pair. Delays are those of links that were "
        f"found. With {', '.join(there) or 'no other tool'}"
        + (f"; not installed: {', '.join(missing)}." if missing else ".")
    )


if __name__ == "__main__":
    main()
