"""Posterior over the units that may be the root of a fault."""

from itertools import combinations

import numpy as np

_LESS = 1e-13  # share by which a unit ranks below another of the same probability


def log_bayes_factor(ratio, n_params, n_steps):
    """Log Bayes factor of a fault with its size integrated out under a unit-information prior [1]_.

    The prior of the size carries as much information as one of the `n_steps` rows of the window:
    ``ratio n / (2 (n + 1)) - n_params / 2 log(n + 1)``.

    References
    ----------
    .. [1] Kass, Wasserman (1995), A reference Bayesian test for nested hypotheses, Journal of the American
           Statistical Association 90(431).
    """
    return ratio * n_steps / (2 * (n_steps + 1.0)) - n_params / 2 * np.log(n_steps + 1.0)


def root_sets(n_units, max_roots=2):
    """Candidate sets of roots: single units first, then pairs, ..."""
    return [roots for k in range(1, max_roots + 1) for roots in combinations(range(n_units), k)]


def log_prior_of_sets(sets, prior, extra):
    """Log prior of every set: product of the units' shares, times `extra` for every root after the first."""
    prior = np.asarray(prior)
    with np.errstate(divide="ignore"):
        logs = np.log(prior)
    n = len(prior)
    return np.array([logs[list(s)].sum() + (len(s) - 1) * np.log(extra / max(n - 1, 1) * n) for s in sets])


def inclusion(members, log_weights, alone):
    """Probability that each unit is among the roots.

    Parameters
    ----------
    members : ndarray of bool, shape (n_sets, n_units)
        Units of each set.
    log_weights : ndarray of shape (n_sets,)
        Log posterior weight of each set up to a constant.
    alone : ndarray of shape (n_units,)
        How much each unit explains on its own, which orders units of nearly the same probability.

    Returns
    -------
    probability : ndarray of shape (n_units,)
    weights : ndarray of shape (n_sets,)
        Normalised weights.
    """
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    probability = np.minimum(weights @ members, 1.0)  # sums of shares exceed one by rounding
    shares, alone = probability.tolist(), alone.tolist()
    order = sorted(range(len(shares)), key=lambda m: (-round(100 * shares[m]), -alone[m]))
    probability[order] = _decreasing([shares[m] for m in order])
    return probability, weights


def _decreasing(values):
    """The values, each lowered below the one before by more than rounding."""
    lowered = values[:1]
    for value in values[1:]:
        lowered.append(min(value, lowered[-1] * (1 - _LESS)))
    return lowered


def log_sum(logs):
    """Logarithm of a sum of exponentials."""
    top = logs.max()
    return float(top + np.log(np.exp(logs - top).sum()))


def log_scale_factor(excess, dof, n_rows):
    """Log Bayes factor of a variance that is `excess` times the nominal one, one or no free parameter [1]_.

    ``n_rows dof / 2 (excess - 1 - log excess) - log(n_rows + 1) / 2`` where the excess is above one: the
    likelihood ratio of a chi-square scale, with the Schwarz penalty of its parameter.

    References
    ----------
    .. [1] Kass, Wasserman (1995), see :func:`log_bayes_factor`.
    """
    above = np.maximum(excess, 1.0)
    return (n_rows * dof / 2) * (above - 1 - np.log(above)) - 0.5 * np.log(n_rows + 1.0)


def tempered(scores, n_steps, sharpness, prior=None):
    """``softmax(sharpness scores / n_steps)`` times the prior: scores whose steps are not independent."""
    logs = sharpness * scores / n_steps
    if prior is not None:
        with np.errstate(divide="ignore"):
            logs = logs + np.log(prior)
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()
