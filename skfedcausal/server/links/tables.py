"""Tables of links, one labelled row per ordered pair of units, and of correlated units."""

from typing import Any

import numpy as np
import pandas as pd
from scipy.special import chdtri, chndtr

from ..estimation.evidence import adjusted_p_values, false_discovery_rates

_TESTED = ("norm", "stderr", "statistic", "p_value", "p_adjusted", "geweke", "verdict", "because")
UNKNOWN = "the likelihood is not curved downwards there: nothing is known of its error"
# of pairs in the same row
UNDIRECTED: dict[str, Any] = {"p_first_acts": np.nan, "p_second_acts": np.nan, "direction": "cannot tell"}
COLUMNS = ("cause", "effect", "kind", *_TESTED, "delay", "delay_low", "delay_high")


def links_table(names, family, blocks, geweke=None, *, alpha, margin, kind="state", correction="family-wise"):
    """Table of all pairs of a family; Geweke's measure (n_units, n_units) is NaN if it is not given."""
    effect, cause = family.pairs.T
    if correction == "fdr":
        p_adjusted = false_discovery_rates(blocks.p_value)
    else:
        p_adjusted = adjusted_p_values(blocks) if len(effect) else np.zeros(0)
    p_adjusted = np.where(blocks.is_known, p_adjusted, 1.0)
    delay = np.where(p_adjusted <= alpha, 1.0, np.nan)  # the only lag there is
    return pd.DataFrame(
        named_pairs(names, family.pairs)
        | {
            "kind": kind,
            "norm": blocks.strength,
            "stderr": blocks.stderr,
            "statistic": blocks.statistic,
            "p_value": blocks.p_value,
            "p_adjusted": p_adjusted,
            "geweke": np.full(len(effect), np.nan) if geweke is None else geweke[effect, cause],
            "verdict": verdicts(blocks, p_adjusted, alpha, margin),
            "because": np.where(blocks.is_known, "", UNKNOWN).astype(object),
            "delay": delay,
            "delay_low": delay,
            "delay_high": delay,
        }
    )


def named_pairs(names, pairs):
    """Columns ``cause, effect`` of pairs (effect, cause)."""
    names = np.asarray(names, dtype=object)
    return {"cause": names[pairs[:, 1]], "effect": names[pairs[:, 0]]}


def verdicts(blocks, p_adjusted, alpha, margin):
    """ "influence", "no influence" or "cannot tell" for every pair.

    An influence is one whose adjusted p-value is below `alpha`. No influence is claimed where two things
    hold: a test of the hypothesis that the strength is at least `margin` rejects at level `alpha` (under
    it the statistic is noncentral chi-squared with noncentrality at least ``margin**2 / largest
    variance``), and the record is precise enough for it (the confidence region of an estimate of zero lies
    within the margin), so that an imprecise estimate that happens to be small decides nothing.
    """
    top = blocks.worst
    precise = margin**2 / top >= chdtri(blocks.dof, alpha)
    below = chndtr(blocks.statistic, blocks.dof, margin**2 / top) <= alpha
    verdict = np.where(below & precise, "no influence", "cannot tell").astype(object)
    verdict[np.asarray(p_adjusted) <= alpha] = "influence"
    return verdict


def correlation_table(names, estimate):
    """Pairs of units in the model whose process noise is correlated, the most correlated ones first.

    ``first, second, correlation`` (the largest canonical one), ``statistic, p_value`` of Wald's test, and which of them
    acts on the other within the row, of which nothing is known yet.
    """
    partition, estimates = estimate.structure.partition, estimate.correlations
    pairs = np.flatnonzero(estimate.structure.correlated & (partition.pairs[:, 0] > partition.pairs[:, 1]))
    correlations = []
    for m, n in partition.pairs[pairs]:
        own, other = partition.slices[m], partition.slices[n]
        left, right = (np.linalg.cholesky(estimate.Q[rows, rows]) for rows in (own, other))
        cross = np.linalg.solve(left, np.linalg.solve(right, estimate.Q[other, own]).T)
        correlations.append(float(np.linalg.svd(cross, compute_uv=False)[0]))
    table = pd.DataFrame(
        {
            "first": [names[n] for n in partition.pairs[pairs, 1]],
            "second": [names[m] for m in partition.pairs[pairs, 0]],
            "correlation": correlations,
            "statistic": estimates.statistic[pairs],
            "p_value": estimates.p_value[pairs],
        }
    ).assign(**UNDIRECTED)
    return table.sort_values("correlation", ascending=False, ignore_index=True) if len(table) else table
