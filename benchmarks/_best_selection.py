"""What the best selection of links could do: estimates as precise as the known links', among all pairs of units.

Every link is seen with the error of its Cramér-Rao bound, every other pair with that of some link. The best estimate is
the posterior mean of someone who knows how many links there are and how strong they are; only which pairs are linked is
unknown. Nothing that looks at pairs one by one can err less, whatever it costs.
"""

import numpy as np
from scipy.stats import chi2

from skfedcausal.server.estimation.evidence import BlockEstimates, corrected, shrink

_LEAST = 6.0  # statistic below which a pair is as good as empty
_DRAWS, _CELLS = 1000, 15


def best_selection(blocks, covariances, n_pairs, level, n_repeats=4, seed=0):
    """Mean errors over the bound of the posterior mean and of empirical Bayes, and F1 at a level of two corrections."""
    rng = np.random.default_rng(seed)
    found = [_one(rng, blocks, covariances, n_pairs, level) for _ in range(n_repeats)]
    names = "best error / bound", "shrunk error / bound", "F1 at the false discovery rate", "F1 family-wise"
    return dict(zip(names, np.mean(found, axis=0).tolist(), strict=True))


def _one(rng, blocks, covariances, n_pairs, level):
    n_links, e = blocks.shape
    roots = np.linalg.cholesky(covariances)
    noise = rng.standard_normal((n_pairs, e))
    seen = np.square(noise).sum(axis=1) > _LEAST
    seen[:n_links] = True
    which = np.concatenate([np.arange(n_links), rng.integers(n_links, size=n_pairs - n_links)])[seen]
    estimate = np.einsum("kij,kj->ki", roots[which], noise[seen])
    estimate[:n_links] += blocks
    truth = np.zeros_like(estimate)
    truth[:n_links] = blocks
    V = covariances[which]
    statistic = np.einsum("ki,ki->k", estimate, np.linalg.solve(V, estimate[..., None])[..., 0])
    p = np.concatenate([chi2.sf(statistic, e), np.ones(n_pairs - len(which))])
    shrunk = shrink(BlockEstimates(estimate, V, np.full(len(V), e)), n_empty=n_pairs - len(V)).posterior_mean
    best = _posterior_means(rng, estimate, V, statistic, np.linalg.norm(blocks, axis=1), n_links / n_pairs)
    size = np.trace(covariances, axis1=1, axis2=2).sum()
    errors = (np.sqrt(np.square(x - truth).sum() / size) for x in (best, shrunk))
    return *errors, *(_f1(corrected(p, how) < level, n_links) for how in ("fdr", "family-wise"))


def _posterior_means(rng, estimate, V, statistic, strengths, share):
    """Under a share of links of these strengths in any direction, by draws around every estimate."""
    density, edges = np.histogram(strengths, bins=_CELLS, density=True)
    e = estimate.shape[1]
    sphere = chi2.pdf(1.0, e) / (np.exp(-0.5) / (2 * np.pi) ** (e / 2)) * 2  # surface of the unit ball
    means, roots = np.zeros_like(estimate), np.linalg.cholesky(V)
    empty = np.exp(-0.5 * statistic) / np.sqrt((2 * np.pi) ** e) / np.prod(np.diagonal(roots, axis1=1, axis2=2), axis=1)
    for k in np.flatnonzero(statistic > _LEAST):
        draws = estimate[k] + rng.standard_normal((_DRAWS, e)) @ roots[k].T
        norm = np.linalg.norm(draws, axis=1)
        cell = np.clip(np.searchsorted(edges, norm) - 1, 0, _CELLS - 1)
        weight = np.where((norm >= edges[0]) & (norm <= edges[-1]), density[cell], 0.0) / (sphere * norm ** (e - 1))
        if weight.any():
            linked = share * weight.mean()
            means[k] = linked / (linked + (1 - share) * empty[k]) * (weight @ draws) / weight.sum()
    return means


def _f1(decided, n_links):
    return float(2 * decided[:n_links].sum() / max(1, decided.sum() + n_links))
