"""Networks whose links act after several rows: links, false ones and delays, beside other tools."""

from functools import partial
from importlib.util import find_spec

import numpy as np
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from skfedcausal import FederatedGrangerEstimator

from .._networks import PUBLISHED, dead_times, published
from .._rivals import LEVEL, Autoregression, pcmci

TITLE = "Links of several lags"
TEXT = (
    "Published networks ({sources}), {published_rows} rows, one sensor a node or four noisy ones with the variance of"
    " the node; and eight units behind four sensors each, {late_rows} rows, twelve links with dead times of up to ten"
    " rows. Seeds from 0 on (PCMCI: the first {pcmci_records}). The estimator is the default one and is told nothing."
    " Other tools are pooled and take the best one-number summary of every unit's sensors (true loadings); PCMCI is "
    "told the largest lag. The limit sees the nodes without noise and knows the other causes of each node and the "
    "largest lag. F1 counts links at a family-wise level of 5 % (Bonferroni's rule elsewhere), false pairs are absent"
    " ones with a p-value below 5 %, in per cent. Of the links found: share whose delay is right, within a row, in "
    "its 90 % set."
)
_MOST_LAGS = 15
_LONGEST = {True: 3, False: 11}  # lags of published networks, of units with dead time
_LATE = {
    "second order, dead times 1-10": {},
    "first order, dead times 1-10": {"second_order": False},
    "first order, all two rows late": {"second_order": False, "delays": (1, 1)},
}
LIMIT = "limit: nodes without noise, other causes known"


def ours(units, is_published):
    """p-values, decisions and delays [effect, cause] of the default estimator."""
    estimator = FederatedGrangerEstimator().fit(units.X)
    names, n = list(estimator.client_names_), len(units.X)
    p, decided, delays = np.ones((n, n)), np.zeros((n, n), dtype=bool), np.full((3, n, n), np.nan)
    for link in estimator.links_.itertuples():
        at = names.index(link.effect), names.index(link.cause)
        p[at], decided[at] = link.p_value, link.p_adjusted <= LEVEL
        delays[(slice(None), *at)] = link.delay, link.delay_low, link.delay_high
    return p, decided, delays


def bonferroni(p):
    """p-values with decisions, no delays."""
    return p, p * (len(p) * (len(p) - 1)) <= LEVEL, None


def var(units, is_published):
    """Vector autoregression of the units' summaries, order by AIC."""
    return bonferroni(
        Autoregression(np.split(units.scores, units.scores.shape[1], axis=1), None, _MOST_LAGS).p_values()
    )


def knowing(units, is_published):
    """Tests by someone who sees the nodes without noise and knows the other causes of each: best lag, Bonferroni."""
    x, n_lags = units.states - units.states.mean(axis=0), _LONGEST[is_published]
    past = np.stack([x[n_lags - k : len(x) - k] for k in range(1, n_lags + 1)])
    n = x.shape[1]
    p, delays = np.ones((n, n)), np.full((3, n, n), np.nan)
    for effect, cause in np.ndindex(n, n):
        if effect != cause:
            others = [k for k in range(n) if k == effect or (units.linked[effect, k] and k != cause)]
            known = np.hstack(list(past[:, :, others]))
            seen = np.column_stack([x[n_lags:, effect], past[:, :, cause].T])
            y, *lags = (seen - known @ np.linalg.lstsq(known, seen, rcond=None)[0]).T
            r = np.array([np.corrcoef(y, z)[0, 1] for z in lags])
            each = 2 * norm.sf(np.abs(np.arctanh(r)) * np.sqrt(len(y) - known.shape[1] - 3))
            p[effect, cause], delays[:2, effect, cause] = min(1.0, each.min() * n_lags), each.argmin() + 1
    return *bonferroni(p)[:2], delays


def by_pcmci(units, is_published):
    """PCMCI of the units' summaries, told the largest lag."""
    series = np.split(units.scores, units.scores.shape[1], axis=1)
    return bonferroni(pcmci(series, _LONGEST[is_published])[0])


METHODS = {
    "skfedcausal, default": ours,
    "VAR(AIC) of summaries, Wald (statsmodels)": var,
    "PCMCI of summaries (tigramite)": by_pcmci,
    LIMIT: knowing,
}


def networks(s):
    """Name, whether it is published, and a function of a seed."""
    for network in PUBLISHED:
        for n_sensors, words in ((1, "one sensor"), (4, "four noisy sensors")):
            yield (
                f"{network.name}, {words}",
                True,
                partial(published, network, s["published_rows"], n_sensors=n_sensors),
            )
    for name, settings in _LATE.items():
        yield name, False, partial(dead_times, 8, s["late_rows"], **settings)


def links_found(p, decided, linked):
    """AUROC, F1 of decisions, share of absent pairs below 5 %."""
    off = ~np.eye(len(p), dtype=bool)
    truth, p, decided = linked[off], p[off], decided[off]
    f1 = 2 * (decided & truth).sum() / max(1, decided.sum() + truth.sum())
    return roc_auc_score(truth, -p), f1, 100 * np.mean(p[~truth] < LEVEL)


def timing(delays, decided, units):
    """Of links that were found: whether the delay is right, within a row, in its 90 % set."""
    at = decided & units.linked
    delay, low, high = (x[at] for x in delays)
    true = units.delay[at]
    return np.array([delay == true, np.abs(delay - true) <= 1, (low <= true) & (true <= high)]).T


def rows_of(name, is_published, make, s):
    """Rows of all methods on one network."""
    values: dict = {method: [] for method in METHODS}
    timings: dict = {method: [] for method in METHODS}
    for seed in range(s["records"]):
        units = make(seed=seed)
        for method, find in METHODS.items():
            if find is by_pcmci and (seed >= s["pcmci_records"] or not find_spec("tigramite")):
                continue
            p, decided, delays = find(units, is_published)
            values[method].append(links_found(p, decided, units.linked))
            if delays is not None:
                timings[method].append(timing(delays, decided, units))
    for method, found in values.items():
        if found:
            auroc, f1, false = np.mean(found, axis=0)
            row = {"network": name, "method": method, "records": len(found), "AUROC": auroc, "F1": f1}
            row |= {"standard error of F1": np.std([x[1] for x in found], ddof=1) / np.sqrt(len(found))}
            row |= {"false pairs below 5 %": false}
            if timings[method]:
                right, near, inside = np.concatenate(timings[method]).mean(axis=0)
                row |= {"delay right": right, "within a row": near}
                row |= {"in its 90 % set": inside} if METHODS[method] is ours else {}
            yield row


def figures(s):
    """Rows of every network and method."""
    chosen = s.get("networks")
    rows = (rows_of(*network, s) for network in networks(s) if chosen is None or network[0] in chosen)
    return {"Links and delays": [row for part in rows for row in part]}
