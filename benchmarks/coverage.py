"""How often the intervals of links on fitted plants contain the truth.

Run ``python -m benchmarks.coverage`` for the table.
"""

import argparse
import warnings

import numpy as np
from scipy import stats
from scipy.linalg import solve_discrete_lyapunov
from sklearn.exceptions import ConvergenceWarning

from skfedcausal import FederatedGrangerEstimator, KalmanClient, LikelihoodServer

from ._plants import links_of, weak_links
from ._report import table, write
from .links import known_sensors

LEVEL, LOW, HIGH = 0.95, 0.93, 0.97
STRENGTHS = (0.05, 0.5)  # from hardly visible to plain


def plant(n_units, n_samples, missing, seed):
    """A plant whose links are of all sizes."""
    return weak_links(n_units, n_samples, seed=seed, missing=missing, link_strength=STRENGTHS)


def true_strengths(truth):
    """Frobenius norms of the blocks in states of unit variance, pairs in the order of ``links_``.

    They do not depend on the basis of a unit's states.
    """
    covariance = solve_discrete_lyapunov(truth.transition, truth.process_cov)
    roots = []
    for rows in truth.state_slices.values():
        values, vectors = np.linalg.eigh(covariance[rows, rows])
        roots.append((vectors * np.sqrt(values)) @ vectors.T)
    slices = list(truth.state_slices.values())
    return np.array(
        [
            np.linalg.norm(np.linalg.solve(roots[e], truth.transition[slices[e], slices[c]] @ roots[c]))
            for e in range(len(slices))
            for c in range(len(slices))
            if e != c
        ]
    )


CLIENTS = {
    "known": known_sensors,
    "identified at home, n_states=2": lambda truth: KalmanClient(n_states=2),
    'identified at home, n_states="auto"': lambda truth: None,
}


def covered(X, truth, *, loadings="known", sparsity="fdr"):
    """Per pair: whether the interval, and ``strength ± 1.96 stderr``, contain the truth; its width; linked.

    The last row says whether both units were given their true number of states.
    """
    clients, server = CLIENTS[loadings](truth), LikelihoodServer(sparsity=sparsity)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        estimator = FederatedGrangerEstimator(clients, server=server).fit(X)
    intervals, links, strength = estimator.link_intervals(LEVEL), estimator.links_, true_strengths(truth)
    inside = (intervals["low"] <= strength) & (strength <= intervals["high"])
    far = np.abs(links["strength"] - strength) > stats.norm.ppf((1 + LEVEL) / 2) * links["stderr"]
    sizes = zip(truth.names, truth.observation, strict=True)
    right = {name: estimator.clients_[name].n_states_ == C.shape[1] for name, C in sizes}
    both = [right[cause] and right[effect] for cause, effect in zip(links.cause, links.effect, strict=True)]
    width = intervals["high"] - intervals["low"]
    return np.array([inside, ~far, width, links_of(truth), both], dtype=float)


def share(inside):
    """Coverage as text, with two standard errors."""
    n, mean = len(inside), np.mean(inside)
    error = 2 * np.sqrt(mean * (1 - mean) / n)
    verdict = "within" if LOW <= mean <= HIGH else "outside"
    return f"{100 * mean:.1f} ± {100 * error:.1f}, {verdict}"


def row_of(setting, answers):
    """One row of the table; `answers` has shape (data sets, 5, pairs)."""
    inside, normal, width, linked, right = np.moveaxis(answers, 1, 0)
    linked, right = linked.astype(bool), right.astype(bool)
    return {
        **setting,
        "data sets": len(answers),
        "pairs with the true orders": f"{right.mean():.0%}",
        "no link": share(inside[right & ~linked]),
        "link": share(inside[right & linked]),
        "link, strength ± 1.96 stderr": share(normal[right & linked]),
        "mean width": f"{width[right].mean():.3f}",
    }


def settings():
    """Rows, share missing, loadings and sparsity, those that take longest last."""
    for n_samples, missing in ((500, 0.0), (5000, 0.0), (500, 0.1), (5000, 0.1)):
        for sparsity in ("fdr", None):
            for loadings in CLIENTS:
                if not missing or "auto" not in loadings:
                    yield n_samples, missing, loadings, sparsity


class CoverageSuite:
    """Coverage for asv."""

    params = [500, 5000]
    param_names = ("n_samples",)

    def track_coverage(self, n_samples):
        sets = [plant(4, n_samples, 0.0, seed) for seed in range(20)]
        return float(np.mean([covered(*each)[0] for each in sets]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=4)
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--missing", type=float, nargs="+", default=[0.0, 0.1], help="shares to run")
    options = parser.parse_args()
    rows = []
    for n_samples, missing, loadings, sparsity in settings():
        if missing not in options.missing:
            continue
        answers = [
            covered(*plant(options.units, n_samples, missing, seed), loadings=loadings, sparsity=sparsity)
            for seed in range(options.sets)
        ]
        setting = {
            "rows": n_samples,
            "missing": f"{missing:.0%}",
            "loadings": loadings,
            "sparsity": repr(sparsity),
        }
        rows.append(row_of(setting, np.array(answers)))
        report(rows, options.units)


def report(rows, n_units):
    """Write what is there; a long run may be stopped."""
    write(
        "coverage",
        f"Coverage of 95 % intervals of `strength`: {n_units} units, 2 states and 8 sensors each",
        "`est.link_intervals()` on plants fitted from their records, a new plant and record for every seed. "
        f"About 1.5 links per unit of norm {STRENGTHS[0]} to {STRENGTHS[1]} (before a plant is scaled to a "
        "radius of at most 0.95), sensor noise as large as the state noise. The truth is the Frobenius norm "
        "of the true block in states of unit (population) variance. Coverage in per cent ± two standard "
        'errors; within: 93 to 97 %. Pairs in which `n_states="auto"` found another number of states than '
        "the truth has are left out: their block is another quantity. The last but one column is the normal "
        "interval from `links_`, which has no meaning where there is no link. Shares do not depend on the "
        "machine.",
        table(rows),
    )


if __name__ == "__main__":
    main()
