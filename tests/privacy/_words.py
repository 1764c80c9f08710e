"""Numbers in sentences, and what they should be by calculations that share no code with the package."""

import re

import numpy as np
from scipy import stats
from scipy.optimize import brentq


def number(text, before):
    """The number that follows some words, once for all places they stand at."""
    found = re.findall(re.escape(before) + r"(inf|\d+(?:\.\d+)?(?:e[+-]?\d+)?)", text)
    assert len(set(found)) == 1, (before, text)
    return float(found[0])


def gaussian_epsilon(mu, delta):
    """Smallest epsilon of N(0, 1) against N(mu, 1): densities summed up on a grid."""
    x, step = np.linspace(mu - 12, mu + 12, 60_001, retstep=True)
    log_p, log_q = stats.norm.logpdf(x - mu), stats.norm.logpdf(x)

    def excess(epsilon):
        return np.maximum(np.exp(log_p) - np.exp(np.minimum(epsilon + log_q, 50)), 0).sum() * step - delta

    return brentq(excess, 0.0, mu**2 + 12 * mu, xtol=1e-10)


def response_epsilon(epsilon, n_categories, count, delta):
    """Smallest epsilon of `count` randomised responses: every loss with its probability."""
    p = np.ones(n_categories)
    p[0] = np.exp(epsilon)  # probabilities of the answers if the truth is the first category
    p /= p.sum()
    single = np.zeros(3)
    for k in range(n_categories):  # against the truth being the second
        single[round(np.log(p[k] / np.roll(p, 1)[k]) / epsilon) + 1] += p[k]
    weights = np.ones(1)
    for _ in range(count):
        weights = np.convolve(weights, single)
    losses = epsilon * np.arange(-count, count + 1)

    def excess(total):
        return (weights * np.maximum(-np.expm1(total - losses), 0)).sum() - delta

    return brentq(excess, 0.0, count * epsilon, xtol=1e-12) if excess(0.0) > 0 else 0.0
