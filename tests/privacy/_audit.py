"""Attacks: what somebody who knows both neighbouring records can conclude from a release."""

import numpy as np
from scipy import stats

CONFIDENCE = 0.999


def tradeoff_mu(scores, neighbour_scores):
    """Lower confidence bound on mu from the errors of the likelihood-ratio test.

    Half of the draws choose the threshold, the other half bound both error probabilities (Clopper-Pearson);
    a mu-GDP release has ``mu >= Phi^-1(1 - FPR) - Phi^-1(FNR)``.
    """
    (choose0, held0), (choose1, held1) = np.array_split(scores, 2), np.array_split(neighbour_scores, 2)
    grid = np.quantile(np.concatenate([choose0, choose1]), np.linspace(0.01, 0.99, 99))
    fpr = (choose0[:, None] > grid).mean(axis=0)
    fnr = (choose1[:, None] <= grid).mean(axis=0)
    threshold = grid[np.argmax(stats.norm.isf(fpr.clip(1e-3)) - stats.norm.ppf(fnr.clip(1e-3)))]
    most_fpr = upper_bound((held0 > threshold).sum(), len(held0))
    most_fnr = upper_bound((held1 <= threshold).sum(), len(held1))
    return stats.norm.isf(most_fpr) - stats.norm.ppf(most_fnr)


def parametric_mu(scores, neighbour_scores):
    """Lower confidence bound on mu from means and standard deviations, for scores that are normal."""
    n = len(scores)
    std = np.sqrt((scores.var(ddof=1) + neighbour_scores.var(ddof=1)) / 2)
    mu = (neighbour_scores.mean() - scores.mean()) / std
    return mu - stats.norm.ppf(CONFIDENCE) * np.sqrt(2 / n + mu**2 / (4 * n))


def upper_bound(count, n):
    """Clopper-Pearson bound on a probability; half of the error allowed for each of the two bounds."""
    return stats.beta.ppf(1 - (1 - CONFIDENCE) / 2, count + 1, n - count) if count < n else 1.0


def gaussian_mu(scores, neighbour_scores):
    """The better of both attacks; the scores must look normal for the second."""
    for values in (scores, neighbour_scores):
        assert stats.kstest(stats.zscore(values, ddof=1), "norm").pvalue > 1e-4
    return max(tradeoff_mu(scores, neighbour_scores), parametric_mu(scores, neighbour_scores))


def response_epsilon(received, neighbour_received, n_values):
    """Lower confidence bound on the largest log ratio of the probabilities of an answer."""
    n = len(received)
    bounds = []
    for first, second in ((received, neighbour_received), (neighbour_received, received)):
        counts = np.bincount(first, minlength=n_values), np.bincount(second, minlength=n_values)
        least = stats.beta.ppf((1 - CONFIDENCE) / (2 * n_values), counts[0], n - counts[0] + 1)
        most = stats.beta.ppf(1 - (1 - CONFIDENCE) / (2 * n_values), counts[1] + 1, n - counts[1])
        bounds.append(np.log(least / most).max())
    return max(bounds)
