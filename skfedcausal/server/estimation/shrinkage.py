"""Empirical-Bayes shrinkage of the off-diagonal blocks."""

from dataclasses import dataclass

import numpy as np

from ...statespace.matrices import spectral_radius
from .evidence import log_bayes_factors
from .scoring import MAX_RADIUS

_MIN_SLAB = 0.03  # shrinkage never believes in links smaller than this
_EXTRA_EMPTY_PAIRS = 10  # pulls the share of real links towards zero


@dataclass(frozen=True)
class Shrinkage:
    """Two-group prior fitted to the blocks, and the posterior means."""

    posterior_mean: np.ndarray  # (n_pairs, e)
    inclusion: np.ndarray  # (n_pairs,)
    share: float
    slab: float


def shrink(blocks, *, max_iter=500, tol=1e-12):
    """Empirical-Bayes shrinkage of block estimates, ``(1 - pi) delta_0 + pi N(0, tau^2 I)``.

    The share pi and the slab tau are fitted by EM over all pairs; tau is kept above a floor and pi pulled
    towards zero, as if ten more pairs were known to be empty.
    """
    c, v, axes = blocks.rotated()
    share, tau2 = 0.1, 0.1**2
    inclusion = np.full(len(c), share)
    for _ in range(max_iter):
        odds = np.log(share) - np.log1p(-share) + log_bayes_factors(c, v, np.sqrt(tau2))
        inclusion = 1 / (1 + np.exp(-odds))
        gain = tau2 / (tau2 + v)
        second_moment = (gain**2 * c**2 + np.where(gain > 0, tau2 * (1 - gain), 0)).sum(axis=-1)
        new_tau2 = (inclusion @ second_moment) / max(inclusion @ blocks.dof, 1e-12)
        new_tau2 = max(new_tau2, _MIN_SLAB**2)
        new_share = np.clip(inclusion.sum() / (len(c) + _EXTRA_EMPTY_PAIRS), 1e-6, 1 - 1e-6)
        change = max(abs(new_tau2 - tau2) / tau2, abs(new_share - share))
        share, tau2 = new_share, new_tau2
        if change <= tol:
            break
    mean = np.einsum("xij,xj->xi", axes, tau2 / (tau2 + v) * c) * inclusion[:, None]
    return Shrinkage(mean, inclusion, float(share), float(np.sqrt(tau2)))


def shrunk_transition(objective, scoring, blocks, input_blocks=None):
    """Posterior mean of the coefficients ``[A | B]`` under two-group priors.

    Links between states have one prior, inputs acting on other units another. Blocks in the model are
    shrunk jointly, through their precision matrix, so that combinations of them that the data determine
    well keep their value even if each block alone is not determined; the other blocks get their own
    posterior means. All blocks of a kind are zero if none of them was kept.
    """
    structure, point = scoring.structure, scoring.point
    partition = structure.partition
    kinds = [(partition, structure.linked, blocks)]
    if input_blocks is not None:
        kinds.append((partition.input_pairs, structure.driven, input_blocks))
    families = [(*kind, shrink(kind[2])) for kind in kinds if kind[1].any()]
    A = scoring.matrices(_joint_posterior(scoring, families))[0] if families else point.A
    flat = np.append(A.ravel(), 0.0)
    for family, inside, _ in kinds:
        flat[family.pair_elements[~inside]] = 0.0
    for family, inside, _, prior in families:
        flat[family.pair_elements[~inside]] = prior.posterior_mean[~inside]
    if not families:
        return flat[:-1].reshape(A.shape)
    shrunk, share = flat[:-1].reshape(A.shape), 1.0
    allowed = max(structure.free.n_transition, 10) / objective.n_samples
    for _ in range(30):
        trial = point.A + share * (shrunk - point.A)
        if spectral_radius(trial[:, : len(point.Q)]) < MAX_RADIUS:
            value = objective.evaluate(trial, point.Q).value
            if value >= point.evaluation.value - allowed:
                return trial
        share /= 2
    return point.A


def _joint_posterior(scoring, families):
    """Posterior mean of the free elements.

    The prior precision of a block is the one that would shrink it, were it alone, by its inclusion
    probability and the slab: ``V^-1 (1/r - 1) + I / (r tau^2)`` for a block with covariance V.
    """
    position = scoring.structure.transition_positions
    precision = np.zeros((len(scoring.vector),) * 2)
    for family, inside, blocks, prior in families:
        for pair in np.flatnonzero(inside):
            elements = family.pair_elements[pair]
            real = elements < family.n_elements
            where = position[elements[real]]
            r = max(prior.inclusion[pair], 1e-6)
            V = blocks.covariance[pair][np.ix_(real, real)]
            block = np.linalg.inv(V) * (1 / r - 1) + np.eye(len(where)) / (r * prior.slab**2)
            precision[np.ix_(where, where)] = block
    x = scoring.vector
    return x - np.linalg.solve(scoring.precision + precision, precision @ x)
