"""Posterior over the units that may be the root of a fault."""

from itertools import combinations

import numpy as np


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


def inclusion(sets, log_weights, n_units):
    """Probability that each unit is among the roots.

    Parameters
    ----------
    sets : list of tuple of int
    log_weights : ndarray of shape (n_sets,)
        Log posterior weight of each set up to a constant.
    n_units : int

    Returns
    -------
    probability : ndarray of shape (n_units,)
        Units of one pair have nearly the same; the one that explains more on its own comes first.
    sets : ndarray of shape (n_sets,)
        Normalised weights.
    """
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    probability = np.zeros(n_units)
    for s, weight in zip(sets, weights, strict=True):
        probability[list(s)] += weight
    alone = {s[0]: w for s, w in zip(sets, log_weights, strict=True) if len(s) == 1}
    order = sorted(range(n_units), key=lambda m: (-round(probability[m], 2), -alone[m]))
    probability[order] = np.minimum.accumulate(probability[order])
    for better, worse in zip(order[:-1], order[1:], strict=True):  # keep the order where they are equal
        probability[worse] = min(probability[worse], np.nextafter(probability[better], 0.0))
    return probability, weights


def tempered(scores, n_steps, sharpness, prior=None):
    """``softmax(sharpness scores / n_steps)`` times the prior: scores whose steps are not independent."""
    logs = sharpness * scores / n_steps
    if prior is not None:
        with np.errstate(divide="ignore"):
            logs = logs + np.log(prior)
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()
