"""The table of links: one labelled row per ordered pair of units."""

import numpy as np
import pandas as pd
from scipy.special import chdtri, chndtr

from ..estimation.evidence import adjusted_p_values

COLUMNS = (
    "cause",
    "effect",
    "kind",
    "strength",
    "stderr",
    "statistic",
    "p_value",
    "p_adjusted",
    "geweke",
    "verdict",
)


def links_table(names, partition, blocks, geweke, *, alpha, margin, kind="state"):
    """Table of all ordered pairs."""
    effect, cause = partition.pairs.T
    p_adjusted = adjusted_p_values(blocks) if len(effect) else np.zeros(0)
    return pd.DataFrame(
        {
            "cause": np.asarray(names, dtype=object)[cause],
            "effect": np.asarray(names, dtype=object)[effect],
            "kind": kind,
            "strength": blocks.strength,
            "stderr": blocks.stderr,
            "statistic": blocks.statistic,
            "p_value": blocks.p_value,
            "p_adjusted": p_adjusted,
            "geweke": geweke[effect, cause],
            "verdict": verdicts(blocks, p_adjusted, alpha, margin),
        },
        columns=list(COLUMNS),
    )


def verdicts(blocks, p_adjusted, alpha, margin):
    """ "influence", "no influence" or "cannot tell" for every pair.

    An influence is one whose adjusted p-value is below `alpha`. No influence is claimed where two things
    hold: a test of the hypothesis that the strength is at least `margin` rejects at level `alpha` (under
    it the statistic is noncentral chi-squared with noncentrality at least ``margin**2 / largest
    variance``), and the record is precise enough for it (the confidence region of an estimate of zero lies
    within the margin), so that an imprecise estimate that happens to be small decides nothing.
    """
    top = np.take_along_axis(blocks.spectra[0], blocks.dof[:, None] - 1, axis=1)[:, 0]
    precise = margin**2 / top >= chdtri(blocks.dof, alpha)
    below = chndtr(blocks.statistic, blocks.dof, margin**2 / top) <= alpha
    verdict = np.where(below & precise, "no influence", "cannot tell").astype(object)
    verdict[np.asarray(p_adjusted) <= alpha] = "influence"
    return verdict


def correlation_table(names, estimate):
    """Pairs of units in the model whose process noise is correlated."""
    structure = estimate.structure
    partition = structure.partition
    rows = []
    for pair in np.flatnonzero(structure.correlated):
        m, n = partition.pairs[pair]
        if m > n:
            correlation = _canonical(estimate.Q, partition.slices[m], partition.slices[n])
            rows.append((names[n], names[m], correlation, pair))
    statistic, p_value = estimate.correlations.statistic, estimate.correlations.p_value
    table = pd.DataFrame(
        {
            "first": [row[0] for row in rows],
            "second": [row[1] for row in rows],
            "correlation": [row[2] for row in rows],
            "statistic": [statistic[row[3]] for row in rows],
            "p_value": [p_value[row[3]] for row in rows],
        }
    )
    return table.sort_values("correlation", ascending=False, ignore_index=True)


def _canonical(Q, first, second):
    """Largest canonical correlation between two blocks of a covariance."""
    left, right = (np.linalg.cholesky(Q[rows, rows]) for rows in (first, second))
    cross = np.linalg.solve(left, np.linalg.solve(right, Q[second, first]).T)
    return float(np.linalg.svd(cross, compute_uv=False)[0])
