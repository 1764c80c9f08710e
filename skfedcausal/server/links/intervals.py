"""How large an influence may be: intervals of the strength of links and of Geweke's measures."""

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import gammainc
from scipy.stats import chi2, ncx2, norm

from ...statespace.fisher import FreeElements
from ...statespace.geweke import geweke_gradients, geweke_measures, geweke_spectrum
from ...statespace.whittle import midpoints
from .tables import named_pairs
from .tuning import TUNING

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
