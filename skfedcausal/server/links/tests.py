"""The three classical tests of every link: likelihood ratio, Wald, score."""

import numpy as np
import pandas as pd
from scipy import stats

from ..estimation.blocktests import link_estimates
from ..estimation.scoring import Scoring, ascend
from ..estimation.search import dropped

METHODS = ("lr", "wald", "score")
_ADJUSTED = {"p_holm": "holm", "p_fdr": "fdr_bh"}  # column and name in statsmodels
_GAIN = 1e-8  # log-likelihood that an ascent may leave; statistics are of the order of one


def pair_statistics(objective, scoring, method, estimates=link_estimates):
    """Test statistic of every ordered pair, given all other links of the model, shape (n_pairs,)."""
    linked = scoring.structure.linked
    statistic = estimates(scoring).statistic  # Wald inside the model, score outside
    refitted = {"lr": np.ones_like(linked), "wald": ~linked, "score": linked}[method]
    for pair in np.flatnonzero(refitted):
        other = _without_or_with(objective, scoring, pair)
        if method == "lr":
            gain = scoring.point.evaluation.value - other.point.evaluation.value
            statistic[pair] = 2 * scoring.n_samples * (gain if linked[pair] else -gain)
        else:
            statistic[pair] = estimates(other).statistic[pair]
    return statistic


def _without_or_with(objective, scoring, pair):
    """The maximum without the link if it is in the model, otherwise with it."""
    linked = scoring.structure.linked.copy()
    linked[pair] = ~linked[pair]
    structure = scoring.structure.with_links(linked)
    start = scoring.point if linked[pair] else dropped(objective, scoring, structure)
    ascent = ascend(objective, Scoring(objective, structure, start), gain_tol=_GAIN)
    return Scoring(objective, structure, ascent.point)


def tests_table(names, scoring, statistic):
    """One row per ordered pair: ``cause, effect, in_model, statistic, dof, p_value, p_holm, p_fdr``."""
    from statsmodels.stats.multitest import multipletests  # slow to import, and no unit needs it

    partition = scoring.structure.partition
    effect, cause = partition.pairs.T
    p = stats.chi2.sf(statistic, partition.pair_dof)
    adjusted = {name: multipletests(p, method=method)[1] for name, method in _ADJUSTED.items()}
    columns = {
        "cause": np.asarray(names, dtype=object)[cause],
        "effect": np.asarray(names, dtype=object)[effect],
        "in_model": scoring.structure.linked,
        "statistic": statistic,
        "dof": partition.pair_dof,
        "p_value": p,
    }
    return pd.DataFrame(columns | adjusted)
