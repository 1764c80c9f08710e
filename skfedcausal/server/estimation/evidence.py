"""Estimates of every off-diagonal block with their covariances, and what they say: order, multiplicity, shrinkage."""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.special import chdtrc, ndtr

from ...statespace.matrices import (
    coefficient_pair_information,
    covariance_pair_information,
    pair_blocks,
    power_of_two,
    spectral_radius,
    uncoupled_pair_information,
)
from ...statespace.whittle import SpectralInformation
from .scoring import MAX_RADIUS
from .tuning import TUNING

# What block estimates say: multiplicity control, evidence ordering, empirical-Bayes shrinkage.
#
# Every function works on estimates in standardised states (unit variance), one row per ordered pair of
# units. Rows of blocks smaller than the largest are padded with zeros and a huge variance, which changes
# nothing.

PADDED_VARIANCE = 1e8
_ROWS_AT_ONCE = 256  # of tails, so that all their terms stay in the cache
_MIN_SLAB = 0.03  # shrinkage never believes in links smaller than this
_EXTRA_EMPTY_PAIRS = 10  # pulls the share of real links towards zero


def benjamini_hochberg(p_values, alpha):
    """Boolean mask of the hypotheses rejected at false discovery rate `alpha`."""
    return false_discovery_rates(np.nan_to_num(p_values, nan=1.0)) <= alpha


def unordered_benjamini_hochberg(p_values, alpha, partition):
    """The same over unordered pairs by the smaller one of two p-values, answered for both ordered pairs."""
    mirrored = partition.reverse_pairs
    first = np.arange(len(mirrored)) < mirrored
    rejected = np.zeros(len(mirrored), dtype=bool)
    rejected[first] = benjamini_hochberg(np.minimum(p_values, p_values[mirrored])[first], alpha)
    return rejected | rejected[mirrored]


def false_discovery_rates(p_values):
    """P-values adjusted as Benjamini and Hochberg's rule does: the level from which on each is rejected."""
    order = np.argsort(p_values, kind="stable")
    ranked = p_values[order] * len(p_values) / np.arange(1, len(p_values) + 1)
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(np.minimum.accumulate(ranked[::-1])[::-1], 1.0)
    return adjusted


def holm(p_values):
    """P-values adjusted for their number by Holm's rule."""
    order = np.argsort(p_values, kind="stable")
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(np.maximum.accumulate(p_values[order] * np.arange(len(p_values), 0, -1)), 1.0)
    return adjusted


def corrected(p_values, correction):
    """P-values adjusted for the "family-wise" rate of false ones, or for the rate of false discoveries, "fdr"."""
    return false_discovery_rates(p_values) if correction == "fdr" else holm(p_values)


@dataclass(frozen=True)
class BlockEstimates:
    """Estimates of off-diagonal blocks with their covariances."""

    estimate: np.ndarray  # (n_pairs, e)
    covariance: np.ndarray  # (n_pairs, e, e)
    dof: np.ndarray  # (n_pairs,)

    @classmethod
    def padded(cls, estimate, covariance, family):
        """Estimates of a family of pairs whose padded elements get zero mean and a huge variance."""
        return cls.masked(estimate, covariance, family.pair_elements == family.n_elements, family.pair_dof)

    @classmethod
    def masked(cls, estimate, covariance, padded, dof):
        """The same from a mask (n_pairs, e) of the padded elements; both arrays are overwritten."""
        covariance[padded[:, :, None] | padded[:, None, :]] = 0.0
        rows, cols = np.nonzero(padded)
        covariance[rows, cols, cols] = PADDED_VARIANCE
        estimate[padded] = 0.0
        return cls(estimate, covariance, dof)

    @property
    def strength(self):
        """Norm of every block, shape (n_pairs,)."""
        return np.linalg.norm(self.estimate, axis=1)

    @property
    def direction(self):
        """Every block over its norm, shape (n_pairs, e)."""
        return self.estimate / np.maximum(self.strength, np.finfo(float).tiny)[:, None]

    @property
    def stderr(self):
        """Standard error of the norm of every block by the delta method, shape (n_pairs,)."""
        direction = self.direction
        return np.sqrt(np.maximum(np.einsum("xi,xij,xj->x", direction, self.covariance, direction), 0.0))

    @property
    def statistic(self):
        """Wald statistic of every block, shape (n_pairs,); zero where no covariance is known."""
        try:
            solved = np.linalg.solve(self.covariance, self.estimate[..., None])[..., 0]
        except np.linalg.LinAlgError:  # a sandwich of too few rows with weight
            solved = (np.linalg.pinv(self.covariance, hermitian=True) @ self.estimate[..., None])[..., 0]
        return np.where(self.is_known, np.einsum("xi,xi->x", self.estimate, solved), 0.0)

    @property
    def is_known(self):
        """Whether the covariance of every block is one, not indefinite as where a likelihood is hardly curved."""
        return self.spectra[2]

    @property
    def p_value(self):
        """Chi-squared tail probability of the statistics."""
        return chdtrc(self.dof, self.statistic)

    @property
    def moments(self):
        """Squared norms, traces of the covariances, twice those of their squares, variances along, (n_pairs,) each."""
        real = np.arange(self.estimate.shape[1]) < self.dof[:, None]
        values, axes, _ = self.spectra
        values = np.where(real, values, 0.0)  # padded elements have the largest variances, the last ones
        along = np.einsum("xij,xi->xj", axes, self.estimate)
        along = np.where(real, along, 0.0) ** 2
        squared = along.sum(axis=1)
        variance = (along * values).sum(axis=1) / np.maximum(squared, 1e-300)
        return squared, values.sum(axis=1), 2 * (values**2).sum(axis=1), variance

    @property
    def worst(self):
        """Largest variance of every block, shape (n_pairs,)."""
        return np.take_along_axis(self.spectra[0], self.dof[:, None] - 1, axis=1)[:, 0]

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name != "spectra"}

    @cached_property
    def spectra(self):
        """Eigenvalues (ascending, of at least what rounding makes of the largest) and axes of each covariance.

        Huge ones where no covariance is known, which then says nothing of other pairs either; and where one is.
        """
        values, axes = np.linalg.eigh(self.covariance)
        largest = np.take_along_axis(values, self.dof[:, None] - 1, axis=1)
        is_known = values[:, :1] > -TUNING.evidence_indefinite * largest
        values = np.maximum(values, np.finfo(float).eps * largest)
        return np.where(is_known, values, PADDED_VARIANCE), axes, is_known[:, 0]

    def rotated(self):
        """Estimates, variances (infinite where padded) and the axes of each covariance."""
        variances, axes, _ = self.spectra
        c = np.einsum("xij,xi->xj", axes, self.estimate)
        padded = np.arange(c.shape[1]) >= self.dof[:, None]
        return np.where(padded, 0.0, c), np.where(padded, np.inf, variances), axes


def log_bayes_factors(c, v, tau):
    """Log Bayes factor of ``N(0, tau^2 I)`` against zero, from rotated estimates and variances."""
    ratio = tau**2 / (tau**2 + v)
    return 0.5 * (c**2 / v * ratio - np.log1p(tau**2 / v)).sum(axis=-1)


def adjusted_p_values(blocks, tau=TUNING.evidence_slab):
    """Family-wise adjusted p-values in the order of the evidence.

    Pairs are ordered by their Bayes factor B against a normal slab. With ``E = sum_b P0(B_b >= B)``, the
    expected number of empty pairs with as much evidence, the adjusted p-value is ``1 - exp(-E)`` for
    E <= 1: the probability that at least one empty pair shows as much, for independent pairs. It plays the
    part of Bonferroni's bound ``min(1, E)``, but lets precisely measured pairs go first. Beyond E = 1 it
    only keeps the order (``1 - exp(-1) / E``).
    """
    c, v, _ = blocks.rotated()
    evidence = log_bayes_factors(c, v, tau)
    low, high = evidence.min(), evidence.max()
    is_one = high - low < 1e-12 * max(1.0, abs(high))
    thresholds = np.array([low]) if is_one else np.linspace(low, high, TUNING.evidence_n_thresholds)
    weights = tau**2 / (tau**2 + v)
    shift = np.log1p(tau**2 / v).sum(axis=-1)
    bounds = 2 * thresholds[None, :] + shift[:, None]
    expected = np.exp(weighted_chi2_logsf(bounds, weights)).sum(axis=0)
    expected_here = np.exp(np.interp(evidence, thresholds, np.log(np.maximum(expected, 1e-300))))
    return np.where(
        expected_here <= 1, -np.expm1(-np.minimum(expected_here, 1.0)), 1 - np.exp(-1) / np.maximum(expected_here, 1.0)
    )


def weighted_chi2_logsf(x, weights):
    """Log tail probability of ``sum_i w_i chi2_1`` by the Lugannani-Rice saddlepoint formula.

    At x (n_rows, n_thresholds), of weights (n_rows, k).
    """
    logsf = np.empty(x.shape)
    for first in range(0, len(x), _ROWS_AT_ONCE):
        rows = slice(first, first + _ROWS_AT_ONCE)
        w = np.ascontiguousarray(weights[rows].T)[:, :, None]  # sums over the first axis are the fast ones
        unit = power_of_two(w.max(axis=0))
        w = w / unit  # of which squares and cubes are numbers
        positive = np.maximum(np.clip(x[rows], 0.0, TUNING.evidence_farthest * unit) / unit, TUNING.evidence_nearest)
        s = _saddlepoint(positive, w)
        slack = 1 - 2 * s * w
        cumulant = -0.5 * np.log(slack).sum(axis=0)  # the product of many would overflow
        curvature = 2 * np.square(w / slack).sum(axis=0)
        r = np.sign(s) * np.sqrt(np.maximum(2 * (s * positive - cumulant), 0.0))
        q = s * np.sqrt(curvature)
        near_mean = np.abs(r) < 1e-4
        safe_r, safe_q = np.where(near_mean, 1.0, r), np.where(near_mean, 1.0, q)
        skewness = (8 * w**3).sum(axis=0) / (2 * w**2).sum(axis=0) ** 1.5
        correction = np.where(near_mean, -skewness / 6, 1 / safe_q - 1 / safe_r)
        tail = ndtr(-r) + np.exp(-0.5 * r * r) / np.sqrt(2 * np.pi) * correction
        logsf[rows] = np.where(x[rows] > 0, np.log(np.clip(tail, 1e-300, 1.0)), 0.0)
    return logsf


def _saddlepoint(x, w, n_steps=60):
    """Root s of ``f(s) = sum_i w_i / (1 - 2 s w_i) = x`` below ``1 / (2 max w)``.

    Newton's method on 1 / f, which is linear for equal weights, kept within a shrinking bracket; it starts
    where the root of weights that all equal their mean would be.
    """
    k, top = len(w), w.max(axis=0)
    low = 0.5 / top * (1 - k * top / x)  # there f is at most x
    high = 0.5 / top * (1 - top / x)  # there f is at least x
    s = 0.5 / w.mean(axis=0) - 0.5 * k / x
    s = np.where((s >= low) & (s <= high), s, 0.5 * (low + high))
    for _ in range(n_steps):
        terms = w / (1 - 2 * s * w)
        f = terms.sum(axis=0)
        low, high = np.where(f < x, s, low), np.where(f < x, high, s)
        newton = s + f * (1 - f / x) / (2 * np.square(terms).sum(axis=0))
        rounding = TUNING.evidence_converged * (np.abs(s) + 1 / top)
        if (np.abs(newton - s) <= rounding).all():
            return newton
        inside = (newton >= low - rounding) & (newton <= high + rounding)
        s = np.where(inside, newton, 0.5 * (low + high))
    return s


class Shrinkage(NamedTuple):
    """Two-group prior fitted to the blocks, and the posterior means."""

    posterior_mean: np.ndarray  # (n_pairs, e)
    inclusion: np.ndarray  # (n_pairs,)
    share: float
    slab: float


def shrink(blocks, *, n_empty=0, max_iter=500, tol=1e-12):
    """Empirical-Bayes shrinkage of block estimates, ``(1 - pi) delta_0 + pi N(0, tau^2 I)``.

    The share pi and the slab tau are fitted by EM over all pairs; tau is kept above a floor and pi pulled
    towards zero, as if ten more pairs were known to be empty, and `n_empty` further ones.
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
        new_share = np.clip(inclusion.sum() / (len(c) + n_empty + _EXTRA_EMPTY_PAIRS), 1e-6, 1 - 1e-6)
        change = max(abs(new_tau2 - tau2) / tau2, abs(new_share - share))
        share, tau2 = new_share, new_tau2
        if change <= tol:
            break
    mean = np.einsum("xij,xj->xi", axes, tau2 / (tau2 + v) * c) * inclusion[:, None]
    return Shrinkage(mean, inclusion, float(share), float(np.sqrt(tau2)))


def shrunk_transition(objective, scoring, blocks):
    """Posterior mean of the coefficients ``[A | B]`` under two-group priors, given block estimates by kind.

    Links between states have one prior, inputs acting on other units another. Blocks in the model are
    shrunk jointly, through their precision matrix, so that combinations of them that the data determine
    well keep their value even if each block alone is not determined; the other blocks get their own
    posterior means. All blocks of a kind are zero if none of them was kept.
    """
    structure, point = scoring.structure, scoring.point
    families = {kind: structure.family(kind) for kind in blocks}
    priors = {kind: shrink(blocks[kind]) for kind, (_, inside) in families.items() if inside.any()}
    A = point.A
    if priors:
        A = scoring.matrices(_joint_posterior(scoring, families, blocks, priors))[0]
    flat = np.append(A.ravel(), 0.0)
    for kind, (family, inside) in families.items():
        outside = family.pair_elements[~inside]
        flat[outside] = priors[kind].posterior_mean[~inside] if kind in priors else 0.0
        if kind == "state":
            flat[family.pair_elements[~structure.allowed]] = 0.0
    if not priors:
        return flat[:-1].reshape(A.shape)
    shrunk = flat[:-1].reshape(A.shape)
    allowed = max(structure.free.n_transition, 10) / objective.n_samples
    for share in 0.5 ** np.arange(30):
        trial = point.A + share * (shrunk - point.A)
        # a climb that was given up may end where there is no posterior
        if np.isfinite(trial).all() and spectral_radius(trial[:, : len(point.Q)]) < MAX_RADIUS:
            value = objective.evaluate(trial, point.Q).value
            if value >= point.evaluation.value - allowed:
                return trial
    return point.A


def _joint_posterior(scoring, families, blocks, priors):
    """Posterior mean of the free elements.

    The prior precision of a block is the one that would shrink it, were it alone, by its inclusion
    probability and the slab: ``V^-1 (1/r - 1) + I / (r tau^2)`` for a block with covariance V.
    """
    position, _ = scoring.structure.free.positions(scoring.point.A.shape)
    precision = np.zeros((len(scoring.vector),) * 2)
    for kind, prior in priors.items():
        family, inside = families[kind]
        for pair in np.flatnonzero(inside):
            elements = family.pair_elements[pair]
            real = elements < family.n_elements
            where = position[elements[real]]
            r = max(prior.inclusion[pair], 1e-6)
            V = blocks[kind].covariance[pair][np.ix_(real, real)]
            block = np.linalg.inv(V) * (1 / r - 1) + np.eye(len(where)) / (r * prior.slab**2)
            precision[np.ix_(where, where)] = block
    x = scoring.vector
    return x - np.linalg.solve(scoring.precision + precision, precision @ x)


# Estimates of every off-diagonal block, inside the model or not, with their covariances.


def link_estimates(scoring, kind="state", *, screen=None):
    """One-step-corrected estimates of every block of a kind, "state", "input" or "step", made once.

    Blocks in the model get their Wald estimate; the others the efficient score estimate ``(I_bb - I_bS
    I_SS^-1 I_Sb)^-1 (g_b - I_bS I_SS^-1 g_S)`` given the free elements S. With a level `screen` only the
    decisions of false discovery control at it are asked for: in large plants a pair that it rejects in no
    case gets a p-value that is too small, but not small enough.
    """
    screens = screen is not None and scoring.is_large
    if screens or kind not in scoring.estimates:
        family, inside = scoring.structure.family(kind)
        own = coefficient_pair_information(scoring.form().info, scoring.structure.partition, family)
        found = _estimates(scoring, "transition", family, inside, own, screen=screen if screens else None)
        if screens:
            return found
        scoring.estimates[kind] = found
    return scoring.estimates[kind]


def correlation_estimates(scoring, *, only_inside=False, screen=None):
    """The same for the off-diagonal blocks of the process covariance, or only those inside the model."""
    structure = scoring.structure
    family = structure.partition.without_inputs
    own = covariance_pair_information(scoring.form().info, family)
    reject = partial(unordered_benjamini_hochberg, partition=family)  # both orders are one hypothesis
    settings = {"only_inside": only_inside, "screen": screen if scoring.is_large else None, "reject": reject}
    return _estimates(scoring, "covariance", family, structure.correlated, own, **settings)


def _estimates(scoring, of, family, inside, own, *, only_inside=False, screen=None, reject=benjamini_hochberg):
    """Estimates of a family of blocks of the matrix `of`, whose information with themselves is `own`."""
    transition = of == "transition"
    scoring.form().info.forget_products()
    evaluation, elements = scoring.point.evaluation, family.pair_elements
    gradient = evaluation.grad_A if transition else 2 * evaluation.grad_Q
    estimate, covariance = np.zeros(elements.shape), np.zeros((*elements.shape, elements.shape[1]))
    if inside.any():
        positions = scoring.structure.free.positions(scoring.point.A.shape)[0 if transition else 1]
        stepped = scoring.matrices(scoring.vector + scoring.step)[0 if transition else 1]
        position = positions[elements[inside]]  # (pairs, e), -1 where padded
        estimate[inside] = np.append(stepped.ravel(), 0.0)[elements[inside]]
        covariance[inside] = scoring.covariance[position[:, :, None], position[:, None, :]]
    outside = np.flatnonzero(~inside)
    if only_inside:
        covariance[outside] = PADDED_VARIANCE * np.eye(elements.shape[1])
        return BlockEstimates.padded(estimate, covariance, family)
    if screen is not None and len(outside):
        estimate[outside], covariance[outside] = _bounds(scoring, of, gradient, family, outside, own)
        bounds = BlockEstimates.padded(estimate.copy(), covariance.copy(), family)
        outside = np.flatnonzero(~inside & reject(bounds.p_value, screen))  # true p-values are not smaller
        groups = _by_number(outside, family, gradient.shape[1], scoring.form(), of)
    else:
        groups = grouped_columns(scoring, family, outside, of)
    whitened_gradient = scoring.whitened(scoring.gradient)
    for pairs, half in groups:
        at = elements[pairs]
        padded = at == family.n_elements
        at = np.where(padded, 0, at)
        gathered = scoring.whitened(half).T.reshape(*at.shape, -1)  # (pairs, e, free)
        gathered[padded] = 0.0
        score = gradient.ravel()[at] - gathered @ whitened_gradient
        inverse, known = _inverses(own[pairs] - gathered @ np.swapaxes(gathered, 1, 2))
        covariance[pairs] = inverse / scoring.n_samples
        estimate[pairs] = np.einsum("xij,xj->xi", known, score)
    scoring.forget()
    return BlockEstimates.padded(estimate, covariance, family)


def _bounds(scoring, of, gradient, family, pairs, own):
    """Estimates and covariances of pairs whose statistics are at least the true ones, by a pass over columns.

    What the free elements explain of a block, ``C' I^-1 C``, is at most ``trace(C' D^-1 C) / l`` with the
    diagonal D of I and the smallest eigenvalue l of ``D^-1/2 I D^-1/2``.
    """
    information = scoring.precision / scoring.n_samples
    diagonal = information.diagonal().copy()
    scale = np.sqrt(diagonal)
    correlations = information / np.outer(scale, scale)
    smallest = eigh(correlations, eigvals_only=True, subset_by_index=[0, 0], check_finite=False)[0]
    score, explained = gradient.copy(), np.zeros_like(gradient)
    for chosen, piece in scoring.form().pieces():
        columns = piece.transition() if of == "transition" else piece.covariance()
        score -= np.tensordot(scoring.step[chosen], columns, 1)
        explained += np.einsum("fij,fij,f->ij", columns, columns, 1 / diagonal[chosen])
    explained = explained / max(smallest, np.finfo(float).tiny)
    at = np.minimum(family.pair_elements[pairs], score.size)
    score = np.append(score.ravel(), 0.0)[at]
    explained = np.append(explained.ravel(), 0.0)[at].sum(axis=1)
    own = own[pairs]
    least = own - explained[:, None, None] * np.eye(own.shape[1])
    values, vectors = np.linalg.eigh(least)
    variances = 1 / np.maximum(values, TUNING.block_tests_known * np.abs(own).max())
    covariance = (vectors * variances[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    return np.einsum("xij,xj->xi", covariance, score), covariance / scoring.n_samples


def _by_number(pairs, family, width, columns, of):
    """Chosen pairs in groups, with the columns against their elements."""
    elements = family.pair_elements
    at_once = max(columns.rows_at_once * width // elements.shape[1], 1)
    gather = columns.transition_at if of == "transition" else columns.covariance_at
    for start in range(0, len(pairs), at_once):
        chosen = pairs[start : start + at_once]
        at = np.where(elements[chosen] == family.n_elements, 0, elements[chosen]).ravel()
        yield chosen, gather(*np.divmod(at, width))


def grouped_columns(scoring, family, pairs, of):
    """Chosen pairs in groups of the same effects, with the columns against their elements."""
    if len(pairs) == 0:
        return
    columns, elements = scoring.form(), family.pair_elements
    transition = of == "transition"
    take = columns.transition if transition else columns.covariance
    width = scoring.point.A.shape[1] if transition else len(scoring.point.Q)
    rows = np.where(elements == family.n_elements, -1, elements // width)[pairs]
    last = rows.max(axis=1)
    first = np.where(rows < 0, last[:, None], rows).min(axis=1)
    group = first // columns.rows_at_once
    for number in np.unique(group):
        chosen = group == number
        begin, end = int(first[chosen].min()), int(last[chosen].max()) + 1
        at = elements[pairs[chosen]]
        at = np.where(at == family.n_elements, begin * width, at).ravel() - begin * width
        block = take(slice(begin, end))
        yield pairs[chosen], np.take(block.reshape(len(block), (end - begin) * width), at, axis=1, mode="clip")


def inverse_of(information):
    """Inverse of an information matrix, and the same with zeros for what it leaves undetermined."""
    try:
        return [np.linalg.inv(information)] * 2
    except np.linalg.LinAlgError:  # of a unit that is hardly ever there
        return [part[0] for part in _inverses(information[None])]


def _inverses(information):
    """Inverses of information matrices, and the same with zeros for what they leave undetermined."""
    values, vectors = np.linalg.eigh(information)
    known = values > TUNING.block_tests_known * values[:, -1:]
    if known.all():
        inverse = np.linalg.inv(information)
        return inverse, inverse
    turned = np.swapaxes(vectors, 1, 2)
    variances = np.where(known, 1 / np.where(known, values, 1.0), 0.0)
    pseudo = vectors * variances[:, None] @ turned
    return pseudo + vectors * np.where(known, 0.0, PADDED_VARIANCE)[:, None] @ turned, pseudo


def uncoupled_estimates(objective, partition, point, *, correlations=True):
    """One-step estimates of all links and correlations at the uncoupled plant; None for unwanted ones.

    Everything decouples there: the only cross information is between the two directions of a pair and the
    correlation of their noise. Of a link the opposite direction is profiled out, noise taken as independent,
    of a correlation both directions.
    """
    info = objective.unit_information(point.A, point.Q, partition)
    if partition.n_steps and not partition.n_inputs:
        info = SpectralInformation(info.U, info.H)  # what steps make of states says nothing beside themselves
    joint = uncoupled_pair_information(partition.pairs, info, partition.sizes)
    e, reverse = joint.shape[1] // 3, partition.reverse_pairs
    of_links = pair_blocks(point.evaluation.grad_A[:, : partition.n_states], partition)
    links = _profiled(joint, of_links, of_links[reverse], slice(0, e), slice(e, 2 * e))
    links = BlockEstimates.padded(links[0], links[1] / objective.n_samples, partition)
    if not correlations:
        return links, None
    of_noise = pair_blocks(2 * point.evaluation.grad_Q, partition)
    both = np.concatenate([of_links, of_links[reverse]], axis=1)
    found = _profiled(joint, of_noise, both, slice(2 * e, 3 * e), slice(0, 2 * e))
    return links, BlockEstimates.padded(found[0], found[1] / objective.n_samples, partition)


def _profiled(joint, score, nuisance_score, block, nuisance):
    """Estimate and covariance (for one time step) of a block with nuisance elements profiled out."""
    cross = joint[:, block, nuisance]
    right = np.concatenate([np.swapaxes(cross, 1, 2), nuisance_score[..., None]], axis=-1)
    try:
        solved = np.linalg.solve(joint[:, nuisance, nuisance], right)
        covariance = known = np.linalg.inv(joint[:, block, block] - cross @ solved[..., :-1])
    except np.linalg.LinAlgError:  # sensors that say nothing of some direction of the states
        solved = _inverses(joint[:, nuisance, nuisance])[1] @ right
        left = joint[:, block, block] - cross @ solved[..., :-1]
        covariance, known = _inverses((left + np.swapaxes(left, 1, 2)) / 2)
    residual = score - np.einsum("xij,xj->xi", cross, solved[..., -1])
    return np.einsum("xij,xj->xi", known, residual), covariance
