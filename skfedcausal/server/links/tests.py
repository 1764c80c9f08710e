"""The three classical tests of every link: likelihood ratio, Wald, score."""

import numpy as np
import pandas as pd
from scipy import stats

from ...arguments import check_choice
from ..estimation.covariance import estimated_links
from ..estimation.estimate import fitted_likelihood
from ..estimation.evidence import false_discovery_rates, holm
from ..estimation.scoring import Scoring, ascend
from ..estimation.search import dropped
from .tables import named_pairs

METHODS = ("lr", "wald", "score")
_GAIN = 1e-8  # log-likelihood that an ascent may leave; statistics are of the order of one


def check_method(method, covariance):
    """Refuse a test that does not exist, or that does not hold for the covariance of the estimates."""
    check_choice("method", method, METHODS)
    if method == "lr" and covariance != "information":
        raise ValueError(
            f"Got method='lr' with covariance={covariance!r}: a likelihood ratio is chi-squared only under Gaussian "
            "noise of constant variance. Choose 'wald' or 'score', which take the covariance into account."
        )


def classical_tests(record, settings, method, counted=None):
    """The table of tests of all links of a record by one of the three methods.

    `counted` says what statistics are worth, from these and from which pairs are linked.
    """
    plant, maximum = fitted_likelihood(record, settings)
    partition = maximum.scoring.structure.partition
    statistic = pair_statistics(plant, maximum, method, settings.covariance)
    if counted is not None:
        statistic = counted(statistic, maximum.scoring.structure.linked)
    tested = statistic, partition.pair_dof, stats.chi2.sf(statistic, partition.pair_dof)
    return tests_table(record.names, partition.pairs, maximum.scoring.structure.linked, *tested)


def tests_table(names, pairs, in_model, statistic, dof, p_value):
    """One row per ordered pair: ``cause, effect, in_model, statistic, dof, p_value, p_holm, p_fdr``."""
    columns = {"in_model": in_model, "statistic": statistic, "dof": dof, "p_value": p_value}
    adjusted = {"p_holm": holm(p_value), "p_fdr": false_discovery_rates(p_value)}
    return pd.DataFrame(named_pairs(names, pairs) | columns | adjusted)


def pair_statistics(plant, maximum, method, covariance):
    """Test statistic of every ordered pair, given all other links of the model, shape (n_pairs,)."""
    scoring, linked = maximum.scoring, maximum.scoring.structure.linked
    statistic = estimated_links(plant, scoring, covariance).statistic  # Wald inside the model, score outside
    refitted = {"lr": np.ones_like(linked), "wald": ~linked, "score": linked}[method]
    for pair in np.flatnonzero(refitted):
        other = _without_or_with(maximum.objective, scoring, pair)
        if method == "lr":
            gain = scoring.point.evaluation.value - other.point.evaluation.value
            statistic[pair] = 2 * scoring.n_samples * (gain if linked[pair] else -gain)
        else:
            statistic[pair] = estimated_links(plant, other, covariance).statistic[pair]
    statistic[~scoring.structure.allowed] = 0.0
    return statistic


def _without_or_with(objective, scoring, pair):
    """The maximum without the link if it is in the model, otherwise with it."""
    linked = scoring.structure.linked.copy()
    linked[pair] = ~linked[pair]
    structure = scoring.structure.with_masks(linked=linked)
    start = scoring.point if linked[pair] else dropped(objective, scoring, structure)
    ascent = ascend(objective, Scoring(objective, structure, start), gain_tol=_GAIN)
    return Scoring(objective, structure, ascent.point)
