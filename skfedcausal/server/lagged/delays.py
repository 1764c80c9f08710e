"""When a link acts first: the probability of every dead time, and a set of likely ones."""

from functools import cache

import numpy as np

from ...statespace.lagged.kernels import CHANNEL_SCALES, ChannelEvidence
from .misfit import lag_bases
from .tuning import TUNING

_DECAYS = (0.02, 0.3, 0.65, 0.88)  # of the kernels that begin at the first lag that acts


def first_lag_probabilities(S, q, n_lags):
    """Probability of each lag to be the first that acts, from a channel's efficient information and score.

    The evidence of kernels that begin at that lag, averaged over their decays and scales; beforehand all lags
    are as likely.
    """
    of_roots = ChannelEvidence(S, q, len(q) // n_lags)
    of_lags: list = [[] for _ in range(n_lags)]
    for first, roots in _first_roots(n_lags):
        for lag, values in zip(first, of_roots(roots), strict=True):
            of_lags[lag].append(values)
    evidence = np.logaddexp.reduce(np.array(of_lags).reshape(n_lags, -1), axis=1)
    probability = np.exp(evidence - evidence.max())
    return probability / probability.sum()


@cache
def _first_roots(n_lags):
    """Roots of kernels that begin at each lag, those of as many columns together: the lags, and (m, n_lags, k)."""
    groups: dict = {}
    for first in range(n_lags):
        for basis in lag_bases(n_lags - first, _DECAYS):
            root = np.zeros((n_lags, basis.shape[1]))
            root[first:] = basis
            groups.setdefault(basis.shape[1], []).append((first, root))
    return [([first for first, _ in group], np.stack([root for _, root in group])) for group in groups.values()]


def likely_lags(probability, lags):
    """The most probable first lag, and the ends of the smallest set that holds 90 % of the probability."""
    order = np.argsort(-probability, kind="stable")
    n_kept = int(np.searchsorted(np.cumsum(probability[order]), TUNING.delays_probability)) + 1
    kept = np.asarray(lags)[order[:n_kept]]
    return float(lags[order[0]]), float(kept.min()), float(kept.max())


def channel_posterior(S, q, n_lags, prior=None):
    """Mean and covariance of a channel's coefficients, twice its log evidence.

    Under its own prior root (n_lags, k), or under the test kernel and scale of the largest evidence.
    """
    n_vectors, best = len(q) // n_lags, 0.0
    if prior is None:
        best, of_roots = -np.inf, ChannelEvidence(S, q, n_vectors)
        for basis in lag_bases(n_lags):
            (values,) = of_roots(basis[None])
            if values.max() > best:
                best, prior = values.max(), np.sqrt(CHANNEL_SCALES[values.argmax()]) * basis
    R = np.kron(np.eye(n_vectors), prior)
    M = R.T @ S @ R
    M[np.diag_indices(len(M))] += 1.0
    right = np.linalg.solve(M, R.T)
    white = R.T @ q
    evidence = white @ (right @ q) - np.linalg.slogdet(M)[1]
    return R @ (right @ q), R @ right, evidence
