"""Tables of links: tests, verdicts, intervals of strengths, and which unit acts within a row."""

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from scipy.optimize import brentq
from scipy.special import chdtrc, chdtri, chndtr, gammainc
from scipy.stats import chi2, ncx2, norm

from ...arguments import check_choice
from ...statespace.geweke import geweke_gradients, geweke_measures, geweke_spectrum
from ...statespace.whittle import FreeElements, midpoints
from ..estimation.covariance import estimated_links
from ..estimation.estimate import dropped, fitted_likelihood
from ..estimation.evidence import adjusted_p_values, false_discovery_rates, holm
from ..estimation.scoring import Scoring, ascend
from ..joint import part_scores
from .tuning import TUNING

# Tables of links, one labelled row per ordered pair of units, and of correlated units.

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


# How large an influence may be: intervals of the strength of links and of Geweke's measures.

_BISECTIONS = 60
_NO_MEASURE = 1e-12  # up to which Geweke's measure is the rounding of a zero


def pair_of(names, cause, effect):
    """Positions (effect, cause) of two units among the names."""
    for name in (cause, effect):
        if name not in names:
            raise ValueError(f"There is no unit {name!r}; the units are {', '.join(names)}.")
    if cause == effect:
        raise ValueError(f"Cause and effect are both {cause!r}; give two units.")
    return names.index(effect), names.index(cause)


def intervals_table(names, pairs, blocks, n_rows, *, confidence, alpha, margin):
    """One row per ordered pair: ``cause, effect, norm, low, high, deciding_rows``."""
    low, high = strength_intervals(blocks, confidence)
    rows = deciding_rows(blocks, n_rows, alpha, margin).astype(int)
    columns = {"norm": blocks.strength, "low": low, "high": high, "deciding_rows": rows}
    return pd.DataFrame(named_pairs(names, pairs) | columns)


def scaled_ends(measure, strength, low, high):
    """Ends of intervals of measures that go with the square of a strength, from that and its own ends."""
    size = np.maximum(strength, np.finfo(float).tiny)
    return measure * (low / size) ** 2, measure * (high / size) ** 2


def strength_intervals(blocks, confidence=0.95):
    """Confidence intervals of the Frobenius norm of every block.

    The squared norm of an estimate with covariance V around a block of norm s is compared with the gamma
    distribution of its mean ``tr V + s^2`` and variance ``2 tr V^2 + 4 s^2 v`` [1]_, v the variance along
    the estimate. A norm s is in the interval if neither tail beyond the observed one is too thin: the upper
    tail gets the whole ``1 - confidence`` at s = 0, where there is nothing to miss below, and half of it where
    s is large against V. The lower end is zero exactly where the squared norm is not significant.

    Exact to a per cent where the standard errors of a block's elements are alike; where they differ several
    times the variance along the estimate is not that along the truth, and a nominal 95 % is between 91
    and 99.5 %.

    .. [1] Patnaik (1949), The non-central chi-square and F-distributions and their applications,
           Biometrika 36.
    """
    squared, mean, spread, variance = blocks.moments
    alpha = 1 - confidence

    def tails(s):
        """Probabilities below and above the observed squared norm, and what each may be at least."""
        m, v = mean + s**2, spread + 4 * s**2 * variance
        below = gammainc(m**2 / v, squared * m / v)
        lower = alpha / 2 * -np.expm1(-(s**2) / mean)
        return below, 1 - below, lower, alpha - lower

    top = np.sqrt(squared) + 10 * np.sqrt(mean)
    low = _root(lambda s: tails(s)[1] < tails(s)[3], top)
    high = _root(lambda s: tails(s)[0] >= tails(s)[2], top)
    return np.where(tails(np.zeros_like(top))[1] < alpha, low, 0.0), high


def _root(holds, top):
    """Largest s up to which a condition that holds at first, holds."""
    low, high = np.zeros_like(top), top.copy()
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        inside = holds(middle)
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return low


def deciding_rows(blocks, n_rows, alpha, margin):
    """Rows with which every pair would be decided four times in five.

    So many that a test at level `alpha` finds an influence of strength `margin`, in the direction that is
    known worst, with probability 0.8; then nearly as often an absent one is told from it.
    """
    return rows_to_decide(blocks.worst, blocks.dof, n_rows, alpha, margin)


def rows_to_decide(worst, dofs, n_rows, alpha, margin):
    """The same from the largest variance and the degrees of freedom of every pair."""
    needed = {
        int(dof): brentq(lambda d, k=dof: ncx2.sf(chi2.isf(alpha, k), k, d) - TUNING.intervals_power, 1e-6, 1e4)
        for dof in np.unique(dofs)
    }
    return np.ceil(n_rows * worst * np.array([needed[int(k)] for k in dofs]) / margin**2)


def _of_states(parameters, information, partition):
    """The plant of the states alone, standardised: A, Q, free elements, their covariance, J, partition.

    `information` (n, n) is that of the measurements in the units' own states.
    """
    A, Q, free, covariance, state_scale = parameters
    n = len(Q)
    kept = np.concatenate([free.cols < n, np.ones(len(free.first), dtype=bool)])
    states = kept[: free.n_transition]
    own = FreeElements(free.rows[states], free.cols[states], free.first, free.second)
    J = state_scale.T @ information @ state_scale
    return A[:, :n], Q, own, covariance[np.ix_(kept, kept)], J, partition.without_inputs


def measure_intervals(parameters, information, partition, confidence):
    """Geweke's measure of every pair and the ends of its interval, each of shape (n_units, n_units).

    Normal on the scale of the measure's root. NaN where the measure is zero because the plant has no way from
    cause to effect.
    """
    A, Q, free, covariance, J, partition = _of_states(parameters, information, partition)
    measures = geweke_measures(A, Q, J, partition)
    stderr = np.zeros_like(measures)
    for effect, cause, grad_A, grad_Q in geweke_gradients(A, Q, J, partition, measures > _NO_MEASURE):
        gradient = free.gradient(grad_A, grad_Q)
        variance = gradient @ covariance @ gradient
        stderr[effect, cause] = np.sqrt(variance) / (2 * np.sqrt(measures[effect, cause]))
    return measures, *root_intervals(measures, stderr, confidence)


def spectrum_table(plant, information, partition, pair, *, conditional=True, n_frequencies=None):
    """Geweke's measure of a pair (effect, cause) by ``frequency``, as a table and as it was found."""
    matrices = plant.transition, plant.process_cov, plant.padded_matrix(information)
    settings = {"conditional": conditional, "n_frequencies": n_frequencies}
    found = geweke_spectrum(*matrices, partition, *pair, **settings)
    table = pd.DataFrame({"frequency": found.frequency, "measure": found.measure})
    table.attrs = {"total": found.total, "averages_to_total": found.has_roots_inside}
    return table, found


def spectrum_intervals(parameters, information, partition, pair, found, conditional, confidence):
    """Ends of the interval of a spectrum at every frequency, on the scale of its root.

    Derivatives are differences over two standard errors, along independent combinations of the estimates, and
    interpolated between frequencies where there are many.
    """
    A, Q, free, covariance, J, partition = _of_states(parameters, information, partition)
    n_frequencies = min(len(found.frequency), TUNING.intervals_most_frequencies)
    settings = {"conditional": conditional, "n_frequencies": n_frequencies}

    def root(A, Q):
        measure = geweke_spectrum(A, Q, J, partition, pair[0], pair[1], **settings).measure
        return np.sqrt(np.maximum(measure, 0.0))

    variance = 0
    for direction in np.linalg.cholesky(covariance + 1e-14 * np.diag(covariance.diagonal())).T:
        dA, dQ = free.scatter(direction, A.shape)
        variance = variance + ((root(A + dA, Q + dQ) - root(A - dA, Q - dQ)) / 2) ** 2
    stderr = np.interp(found.frequency, midpoints(n_frequencies), np.sqrt(variance))
    return root_intervals(np.maximum(found.measure, 0.0), stderr, confidence)


def root_intervals(measure, stderr_of_root, confidence):
    """Intervals of non-negative measures that are normal on the scale of their square roots.

    A measure of influence grows with the square of what causes it; its root is what the delta method is good
    for. NaN where the measure is zero because the plant has no way from cause to effect.
    """
    reach = norm.ppf((1 + confidence) / 2) * stderr_of_root
    root = np.sqrt(measure)
    low, high = np.maximum(root - reach, 0.0) ** 2, (root + reach) ** 2
    return np.where(measure > _NO_MEASURE, low, np.nan), np.where(measure > _NO_MEASURE, high, np.nan)


# The three classical tests of every link: likelihood ratio, Wald, score.

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


# Which of two units acts on the other within a row, where their noise is not Gaussian.
#
# Noise of two units that goes together may be a cause in the same row or one that nobody measures. If unit 1 acts on
# unit 2, ``w_2 = B w_1 + n`` with n independent of w_1, and what regression leaves of unit 2 is independent of unit 1;
# the other way round it is uncorrelated, but dependent unless all is Gaussian [1]_. What is left is tested for
# dependence in both directions. A cause that nobody measures leaves dependence in both.
#
# Innovations hold noise of the sensors as well. It is nearly Gaussian, and for Gaussian m independent of s
# ``E[g(s + m) m] = var(m) E[g'(s + m)]`` (Stein), so that ``E[g(x) r] - cov(x, r) E[g'(x)]`` is zero for any bounded g
# where s and r are independent, whatever part of x and r is noise of the sensors.
#
# References
# ----------
# .. [1] Shimizu, Hoyer, Hyvarinen and Kerminen (2006), A linear non-Gaussian acyclic model for causal discovery,
#        Journal of Machine Learning Research 7, 2003-2030.

REFUTED = 1e-3  # p value of a direction that the record speaks against, divided by the number of pairs
KEPT = 0.05  # p value from which on it does not speak against the other one


def with_directions(table, run, record, Q):
    """The table of correlated pairs with p values of both directions, and the one that alone is left standing.

    Parameters
    ----------
    table : DataFrame
        As of :func:`~skfedcausal.server.links.tables.correlation_table`.
    run : PlantFilter
        Over the record.
    record : JointRecord
        Without gaps and with units whose sensors determine their states; of others nothing is said.
    Q : ndarray of shape (n, n)
        Covariance of process noise.

    Returns
    -------
    DataFrame
        With columns ``p_first_acts``, ``p_second_acts`` and ``direction``.
    """
    if not (record.is_constant and record.determined.all()):
        return table
    slices = dict(zip(record.names, record.partition.slices, strict=True))
    parts = dict(zip(record.names, record.parts, strict=True))
    innovations: dict = {}
    forward, backward, words = [], [], []
    for first, second in zip(table["first"].tolist(), table["second"].tolist(), strict=True):
        for name in {first, second} - innovations.keys():
            innovations[name] = part_scores(parts[name], slice(None)) - run.predicted[:, slices[name]]
        acts, is_acted_on = (
            independence(innovations[a], innovations[b], Q[slices[a], slices[a]], Q[slices[b], slices[a]])
            for a, b in ((first, second), (second, first))
        )
        forward.append(acts)
        backward.append(is_acted_on)
        words.append(_direction(first, second, acts, is_acted_on, REFUTED / len(table)))
    return table.assign(p_first_acts=forward, p_second_acts=backward, direction=words)


def _direction(first, second, forward, backward, level):
    if forward > KEPT and backward < level:
        return f"{first} -> {second}"
    if backward > KEPT and forward < level:
        return f"{second} -> {first}"
    return UNDIRECTED["direction"]


def independence(cause, effect, Q_cause, Q_both):
    """Test that an effect within the row is a linear function of a cause and of noise independent of it.

    Parameters
    ----------
    cause, effect : ndarray of shape (n_samples, p) and (n_samples, q)
        Innovations.
    Q_cause : ndarray of shape (p, p)
        Process covariance of the cause.
    Q_both : ndarray of shape (q, p)
        Process covariance of effect and cause.

    Returns
    -------
    float
        The p value of four moments that are zero then; they are those of the direction of the effect that goes along
        with the cause most.
    """
    cause, effect = (np.ascontiguousarray(w.T) for w in (cause, effect))  # sums over rows are faster so
    cause, effect = (w - w.mean(axis=1, keepdims=True) for w in (cause, effect))
    slope = np.linalg.solve(Q_cause, Q_both.T).T  # (q, p)
    left = np.linalg.svd(slope @ np.linalg.cholesky(Q_cause), full_matrices=False)[0][:, 0]
    weights = slope.T @ left
    x = weights @ cause
    r = left @ effect - x
    if not (x.std() > 0 and r.std() > TUNING.same_row_same * (left @ effect).std()):  # a copy leaves rounding
        return np.nan
    scale = x.std(), r.std()
    x, r, cause = x / scale[0], r / scale[1], cause / scale[0]
    ratio = scale[0] / scale[1]  # what an error of the weights moves: r, in units of its own scale
    g, slopes = _shapes(x, r)
    common, products = x * r, cause * r
    mean_g, mean_slopes, of_common = g.mean(axis=1), slopes.mean(axis=1), ratio * (cause @ x) / len(x)
    pushed = np.stack([g[0], slopes[1] * x, g[2], slopes[3] * x])  # r is what moves
    by_weights = np.outer(of_common, mean_slopes) - ratio * (cause @ pushed.T) / len(x)  # (p, 4)
    of_weights = np.linalg.solve(Q_cause / scale[0] ** 2, by_weights).T / ratio
    # each moment is a sum of few series: what it is of, then what its estimated means and weights add
    values = g - mean_g[:, None]
    values[::2] *= r
    values[1::2] *= x
    values -= np.outer(mean_slopes, common)
    values -= common.mean() * (slopes - mean_slopes[:, None])
    values += of_weights @ (products - products.mean(axis=1)[:, None])
    mean = values.mean(axis=1)
    statistic = len(x) * mean @ np.linalg.pinv(np.cov(values), hermitian=True) @ mean
    return float(chdtrc(len(values), statistic))


def _shapes(x, r):
    """Bounded functions of x, r, x and r, one for tails and one for skewness, and their slopes: (4, n_samples) each."""
    both = np.stack([x, r])
    tails, bell = np.tanh(both), np.exp(-0.5 * both * both)
    return np.concatenate([tails, bell]), np.concatenate([1 - tails * tails, -both * bell])
