"""How often the intervals of links on fitted plants contain the truth.

Run ``python -m benchmarks.coverage`` for the table, with ``--unequal`` for that of two units whose sensors load
unequally and that are told nothing.
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


def unequal(n_samples, seed):
    """Two units of two states and six sensors with loadings from the normal distribution, one link of norm 0.3.

    Records and the strength of the link in states of unit variance.
    """
    rng = np.random.default_rng([seed, 991])
    A = np.zeros((4, 4))
    for m in (0, 2):
        G = rng.standard_normal((2, 2))
        A[m : m + 2, m : m + 2] = G / np.abs(np.linalg.eigvals(G)).max() * rng.uniform(0.4, 0.7)
    link = rng.standard_normal((2, 2))
    A[2:, :2] = 0.3 * link / np.linalg.norm(link)
    h, w = np.zeros((n_samples + 300, 4)), rng.standard_normal((n_samples + 300, 4))
    for t in range(1, len(h)):
        h[t] = A @ h[t - 1] + w[t]
    h, loadings = h[300:], [rng.standard_normal((6, 2)) for _ in range(2)]
    X = {
        f"unit{m}": h[:, 2 * m : 2 * m + 2] @ C.T + rng.standard_normal((n_samples, 6)) for m, C in enumerate(loadings)
    }
    covariance = solve_discrete_lyapunov(A, np.eye(4))
    cause, effect = (np.linalg.cholesky(covariance[rows, rows]) for rows in (slice(0, 2), slice(2, 4)))
    return X, np.linalg.norm(np.linalg.solve(effect, A[2:, :2] @ cause))


def covered_unequal(n_samples, seed):
    """Whether intervals hold the strength of the link and of the absent one, the width of the first, true orders."""
    X, strength = unequal(n_samples, seed)
    estimator = FederatedGrangerEstimator().fit(X)
    intervals = estimator.link_intervals(LEVEL).set_index(["cause", "effect"])
    link, none = intervals.loc[("unit0", "unit1")], intervals.loc[("unit1", "unit0")]
    right = all(client.n_states_ == 2 for client in estimator.clients_.values())
    return link.low <= strength <= link.high, none.low <= 0, link.high - link.low, right


def unequal_rows(n_sets):
    """Rows of the table of unequal loadings."""
    for n_samples, share_of_sets in ((2000, 1.0), (20_000, 0.5), (100_000, 0.25)):
        answers = [covered_unequal(n_samples, seed) for seed in range(int(n_sets * share_of_sets))]
        inside, none, width, right = np.array(answers, dtype=float).T
        yield {
            "rows": n_samples,
            "data sets": len(answers),
            "units with the true order": f"{right.mean():.0%}",
            "link": share(inside),
            "no link": share(none),
            "mean width": f"{width.mean():.3f}",
        }


CLIENTS = {
    "known": known_sensors,
    "identified at home, n_states=2": lambda truth: KalmanClient(n_states=2),
    'identified at home, n_states="auto"': lambda truth: None,
}


def covered(X, truth, *, loadings="known", sparsity="fdr"):
    """Per pair: whether the interval, and ``strength ± 1.96 stderr``, contain the truth; its width; linked.

    The last rows say whether both units were given their true number of states, and whether the fit converged.
    """
    clients, server = CLIENTS[loadings](truth), LikelihoodServer(sparsity=sparsity)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # counted
        estimator = FederatedGrangerEstimator(clients, server=server).fit(X)
    intervals, links, strength = estimator.link_intervals(LEVEL), estimator.links_, true_strengths(truth)
    inside = (intervals["low"] <= strength) & (strength <= intervals["high"])
    far = np.abs(links["strength"] - strength) > stats.norm.ppf((1 + LEVEL) / 2) * links["stderr"]
    sizes = zip(truth.names, truth.observation, strict=True)
    right = {name: estimator.clients_[name].n_states_ == C.shape[1] for name, C in sizes}
    both = [right[cause] and right[effect] for cause, effect in zip(links.cause, links.effect, strict=True)]
    width = intervals["high"] - intervals["low"]
    converged = np.full(len(both), estimator.server_.converged_)
    return np.array([inside, ~far, width, links_of(truth), both, converged], dtype=float)


def share(inside):
    """Coverage as text, with two standard errors."""
    n, mean = len(inside), np.mean(inside)
    error = 2 * np.sqrt(mean * (1 - mean) / n)
    verdict = "within" if LOW <= mean <= HIGH else "outside"
    return f"{100 * mean:.1f} ± {100 * error:.1f}, {verdict}"


def row_of(setting, answers):
    """One row of the table; `answers` has shape (data sets, 6, pairs)."""
    inside, normal, width, linked, right, converged = np.moveaxis(answers, 1, 0)
    linked = linked.astype(bool)
    return {
        **setting,
        "data sets": len(answers),
        "not converged": int((converged[:, 0] == 0).sum()),
        "pairs with the true orders": f"{right.mean():.0%}",
        "no link": share(inside[~linked]),
        "link": share(inside[linked]),
        "link, strength ± 1.96 stderr": share(normal[linked]),
        "mean width": f"{width.mean():.3f}",
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
    parser.add_argument("--unequal", action="store_true", help="the table of unequal loadings alone")
    options = parser.parse_args()
    if options.unequal:
        report_unequal(options.sets)
        return
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


def report_unequal(n_sets):
    """Write the table of unequal loadings."""
    warnings.simplefilter("ignore")
    write(
        "coverage_unequal",
        "Coverage of 95 % intervals of `strength`: two units, 2 states and 6 sensors of unequal loading each",
        "`FederatedGrangerEstimator().fit(X).link_intervals()`, a new plant and record for every seed: one link of "
        "norm 0.3, own eigenvalues up to 0.4 to 0.7, unit noise of states and sensors, loadings from the standard "
        "normal distribution. Nothing is told, no pair left out. The truth is the Frobenius norm of the true block in "
        "states of unit (population) variance. Coverage in per cent ± two standard errors; within: 93 to 97 %.",
        table(list(unequal_rows(n_sets))),
    )


def report(rows, n_units):
    """Write what is there; a long run may be stopped."""
    write(
        "coverage",
        f"Coverage of 95 % intervals of `strength`: {n_units} units, 2 states and 8 sensors each",
        "`est.link_intervals()` on plants fitted from their records, a new plant and record for every seed. "
        f"About 1.5 links per unit of norm {STRENGTHS[0]} to {STRENGTHS[1]} (before a plant is scaled to a "
        "radius of at most 0.95), sensor noise as large as the state noise. The truth is the Frobenius norm "
        "of the true block in states of unit (population) variance. Coverage in per cent ± two standard "
        'errors; within: 93 to 97 %. No pair is left out, also where `n_states="auto"` found another number of '
        "states than the truth has. The last but one column is the normal "
        "interval from `links_`, which has no meaning where there is no link. Shares do not depend on the "
        "machine.",
        table(rows),
    )


if __name__ == "__main__":
    main()
