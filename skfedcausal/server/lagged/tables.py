"""Tables of plants of several lags: links with their delays, and intervals of how strong they are."""

import numpy as np
import pandas as pd
from scipy.stats import norm

from ..estimation.evidence import holm
from ..links.intervals import intervals_from_moments, rows_to_decide
from ..links.tables import COLUMNS, named_pairs


def lagged_links_table(names, partition, lagged, geweke, *, alpha, margin):
    """Table of links of a plant of several lags: all ordered pairs of units, then inputs.

    Without Geweke's measures where `geweke` is None.
    """
    tables = []
    for kind, found in lagged.links.items():
        pairs = (partition if kind == "state" else partition.input_pairs).pairs
        blocks = lagged.blocks[kind]
        columns = named_pairs(names, pairs) | found
        columns |= {"kind": kind, "norm": blocks.strength, "stderr": blocks.stderr}
        has_measure = geweke is not None and kind == "state"
        columns["geweke"] = geweke[pairs[:, 0], pairs[:, 1]] if has_measure else np.nan
        columns["verdict"] = _verdicts(blocks, found["p_adjusted"], alpha, margin)
        columns["because"] = ""
        tables.append(pd.DataFrame(columns, columns=list(COLUMNS)))
    return pd.concat([table for table in tables if len(table)] or tables, ignore_index=True)


def _verdicts(blocks, p_adjusted, alpha, margin):
    """ "influence", "no influence" where the strength is hardly above the margin, or "cannot tell"."""
    mean = blocks.squares + blocks.mean
    spread = np.sqrt(blocks.spread + 4 * blocks.squares * blocks.along)
    below = mean + norm.isf(alpha) * spread < margin**2
    verdict = np.where(below, "no influence", "cannot tell").astype(object)
    verdict[np.asarray(p_adjusted) <= alpha] = "influence"
    return verdict


def lagged_tests_table(names, partition, lagged, method):
    """One row per ordered pair: ``cause, effect, in_model, statistic, dof, p_value, p_holm, p_fdr``.

    The statistic is twice the log evidence of the link; kernels of several decays have no degrees of freedom.
    """
    if method != "score":
        raise ValueError(
            f"Got method={method!r}; the plant has {lagged.dynamics.n_lags} lags (see `misfit_`), over all of which "
            "links are tested by their score at once. Ask with method='score'."
        )
    from statsmodels.stats.multitest import multipletests  # slow to import, and no unit needs it

    found, (effect, cause) = lagged.links["state"], partition.pairs.T
    columns = named_pairs(names, partition.pairs) | {
        "in_model": lagged.active[effect, cause],
        "statistic": found["statistic"],
        "dof": np.nan,
        "p_value": found["p_value"],
        "p_holm": holm(found["p_value"]),
        "p_fdr": multipletests(found["p_value"], method="fdr_bh")[1],
    }
    return pd.DataFrame(columns)


def lagged_intervals_table(names, partition, lagged, n_rows, geweke=None, *, level, alpha, margin):
    """One row per ordered pair: ``cause, effect, norm, low, high, deciding_rows``.

    With Geweke's measure of every pair also ``geweke, geweke_low, geweke_high``: it goes with the strength's square.
    """
    blocks = lagged.blocks["state"]
    low, high = intervals_from_moments(blocks.squares, blocks.mean, blocks.spread, blocks.along, level)
    rows = rows_to_decide(blocks.worst, np.ones(len(low), dtype=int), n_rows, alpha, margin).astype(int)
    columns = {"norm": blocks.strength, "low": low, "high": high, "deciding_rows": rows}
    if geweke is not None:
        size = np.maximum(blocks.strength, np.finfo(float).tiny)
        columns["geweke"] = geweke
        columns |= {f"geweke_{end}": geweke * (columns[end] / size) ** 2 for end in ("low", "high")}
    return pd.DataFrame(named_pairs(names, partition.pairs) | columns)
