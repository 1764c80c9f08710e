"""How often tests find links where there are none, and how often intervals hold the true strength."""

import numpy as np
from scipy import stats
from scipy.linalg import solve_discrete_lyapunov

from skfedcausal import FederatedGrangerEstimator, KalmanClient, inspection

from .._networks import links_of, weak_links
from .._rivals import Autoregression, components, holm
from .network import known_sensors

TITLE = "Tests and intervals of links"
TEXT = (
    "{n_units} units of two states behind eight sensors, sensor noise as large as state noise; a new plant and record"
    " for every seed. Above, no unit acts on another: shares of pairs, in per cent, with a p-value below 5 % and 1 %,"
    " and of records in which any pair is below 5 % after the family-wise correction (`p_adjusted`; Holm's rule for "
    "the VAR). Below, 1.5 links a unit of norm {strengths[0]} to {strengths[1]}: shares of 95 % intervals of "
    "`link_intervals` that hold the true strength (norm of the block in states of unit variance), and of the normal "
    "interval, strength ± 1.96 standard errors, which has no meaning where there is no link. The limit of an exact "
    "test or interval is the nominal share, give or take two standard errors of as many independent draws (columns "
    "±)."
)
KNOWN, HOME, AUTO = "sensors known", "at home, n_states=2", "told nothing"
CLIENTS = {KNOWN: known_sensors, HOME: lambda truth: KalmanClient(n_states=2), AUTO: lambda truth: None}
OURS, VAR = "skfedcausal, default", "VAR(1) on components, Wald (statsmodels)"
LEVEL = 0.95
# what an exact test and an exact interval have
TEST = {"records": "limit", "units": "exact test", "below 5 %": 5.0, "below 1 %": 1.0, "any, adjusted": 5.0}
INTERVAL = {"records": "limit", "units": "exact interval", "of links": 100 * LEVEL, "of no links": 100 * LEVEL}


def fitted(X, truth, told):
    """The default estimator with what its units are told."""
    return FederatedGrangerEstimator(CLIENTS[told](truth)).fit(X)


def band(level, n):
    """Two standard errors of a share of n independent draws, in per cent."""
    return 200 * np.sqrt(level * (1 - level) / n)


def p_values(X, truth, told):
    """p-values of all pairs and whether any is significant family-wise: ours, a VAR's."""
    links = fitted(X, truth, told).links_
    found = {OURS: (links.p_value.to_numpy(), links.p_adjusted.min() < 0.05)}
    if told == KNOWN:
        p = Autoregression(components(X, 2)[0], 1).p_values()
        found[VAR] = p[~np.eye(len(p), dtype=bool)], holm(p).any()
    return found


def false_links(s):
    """Rows of rejections on records without links."""
    for n_samples, missing, told, n_sets in s["sizes"]:
        of_plant = {"n_samples": n_samples, "n_links": 0, "missing": missing}
        draws = [p_values(*weak_links(s["n_units"], seed=k, **of_plant), told) for k in range(n_sets)]
        for method in draws[0]:
            p = np.concatenate([found[method][0] for found in draws])
            family = [found[method][1] for found in draws]
            yield {
                "records": text(n_samples, missing),
                "units": told,
                "method": method,
                "data sets": n_sets,
                "tests": len(p),
                "below 5 %": 100 * np.mean(p < 0.05),
                "± at 5": band(0.05, len(p)),
                "below 1 %": 100 * np.mean(p < 0.01),
                "± at 1": band(0.01, len(p)),
                "any, adjusted": 100 * np.mean(family),
                "± at 5, any": band(0.05, n_sets),
            }


def text(n_samples, missing):
    """Words for a record."""
    return f"{n_samples} rows" + (f", {missing:.0%} missing" if missing else "")


def true_strengths(truth):
    """Frobenius norms of the blocks in states of unit variance, in the order of ``links_``, in any basis of a unit."""
    covariance = solve_discrete_lyapunov(truth.transition, truth.process_cov)
    slices = list(truth.state_slices.values())
    roots = []
    for rows in slices:
        values, vectors = np.linalg.eigh(covariance[rows, rows])
        roots.append((vectors * np.sqrt(values)) @ vectors.T)
    pairs = [(e, c) for e in range(len(slices)) for c in range(len(slices)) if e != c]
    scaled = (np.linalg.solve(roots[e], truth.transition[slices[e], slices[c]] @ roots[c]) for e, c in pairs)
    return np.array([np.linalg.norm(block) for block in scaled])


def covered(X, truth, told):
    """Per pair: whether the interval, and the normal one, hold the truth; the width; whether there is a link."""
    estimator, strength = fitted(X, truth, told), true_strengths(truth)
    intervals, links = inspection.link_intervals(estimator, LEVEL), estimator.links_
    inside = (intervals["low"] <= strength) & (strength <= intervals["high"])
    near = np.abs(links["norm"] - strength) <= stats.norm.ppf((1 + LEVEL) / 2) * links["stderr"]
    return np.array([inside, near, intervals["high"] - intervals["low"], links_of(truth)], dtype=float)


def intervals(s):
    """Rows of coverage."""
    for n_samples, missing, told, n_sets in s["coverages"]:
        of_plant = {"n_samples": n_samples, "link_strength": tuple(s["strengths"]), "missing": missing}
        draws = [covered(*weak_links(s["n_units"], seed=k, **of_plant), told) for k in range(n_sets)]
        inside, near, width, linked = np.hstack(draws)
        linked = linked.astype(bool)
        yield {
            "records": text(n_samples, missing),
            "units": told,
            "data sets": n_sets,
            "intervals": len(linked),
            "of links": 100 * inside[linked].mean(),
            "± links": band(LEVEL, linked.sum()),
            "of no links": 100 * inside[~linked].mean(),
            "± no links": band(LEVEL, (~linked).sum()),
            "normal, of links": 100 * near[linked].mean(),
            "mean width": width.mean(),
        }


def figures(s):
    """Both sections."""
    return {
        "False links where there are none (per cent)": [*false_links(s), TEST],
        "Intervals that hold the truth (per cent)": [*intervals(s), INTERVAL],
    }
