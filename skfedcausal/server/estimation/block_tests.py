"""Estimates of every off-diagonal block, inside the model or not, with their covariances."""

from functools import partial

import numpy as np
from scipy.linalg import eigh

from ...statespace.fisher import SpectralInformation
from ...statespace.partition import (
    coefficient_pair_information,
    covariance_pair_information,
    pair_blocks,
    uncoupled_pair_information,
)
from .evidence import PADDED_VARIANCE, BlockEstimates, benjamini_hochberg, unordered_benjamini_hochberg
from .tuning import TUNING


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
