"""Estimates of every off-diagonal block, inside the model or not, with their covariances."""

import numpy as np
from scipy.linalg import eigh

from ...statespace.fisher import SpectralInformation
from ...statespace.partition import (
    coefficient_pair_information,
    covariance_pair_information,
    pair_blocks,
    uncoupled_pair_information,
)
from .evidence import PADDED_VARIANCE, BlockEstimates, benjamini_hochberg

_KNOWN = 1e-10  # share of a block's largest information below which there is none


def link_estimates(scoring, *, screen=None):
    """One-step-corrected estimate of every off-diagonal block of the transition matrix.

    Blocks in the model get their Wald estimate; the others the efficient score estimate
    ``(I_bb - I_bS I_SS^-1 I_Sb)^-1 (g_b - I_bS I_SS^-1 g_S)`` given the free elements S.
    """
    structure = scoring.structure

    def estimates():
        own = coefficient_pair_information(scoring.info, structure.partition, structure.partition)
        return _coefficient_estimates(scoring, structure.partition, structure.linked, own, screen=screen)

    return estimates() if _screens(scoring, screen) else _kept(scoring, "links", estimates)


def input_estimates(scoring):
    """The same for the blocks of the input matrix between different units."""

    def estimates():
        family = scoring.structure.partition.input_pairs
        own = coefficient_pair_information(scoring.info, scoring.structure.partition, family)
        return _coefficient_estimates(scoring, family, scoring.structure.driven, own)

    return _kept(scoring, "inputs", estimates)


def _kept(scoring, name, estimates):
    """Estimates of a family at a point, made when they are asked for first."""
    if name not in scoring.estimates:
        scoring.estimates[name] = estimates()
    return scoring.estimates[name]


def _screens(scoring, screen):
    """Whether the plant is so large that pairs no test rejects are to be told by bounds."""
    return screen is not None and scoring.columns.is_large


def step_estimates(scoring):
    """The same for every unit's coefficients of every step."""
    family = scoring.structure.partition.step_pairs
    own = coefficient_pair_information(scoring.info, scoring.structure.partition, family)
    return _coefficient_estimates(scoring, family, scoring.structure.shifted, own)


def _coefficient_estimates(scoring, family, inside, own, *, screen=None):
    """Estimates of a family of blocks of ``[A | B]``."""
    return _estimates(
        scoring,
        family,
        inside,
        "transition",
        scoring.point.evaluation.grad_A,
        own,
        scoring.structure.transition_positions,
        scoring.matrices(scoring.vector + scoring.step)[0],
        screen=screen,
    )


def correlation_estimates(scoring, *, only_inside=False, screen=None):
    """The same for the off-diagonal blocks of the process covariance.

    A block and its transpose are one parameter and get the same estimate. With `only_inside`, pairs outside
    the model are left at zero with a huge variance.
    """
    structure = scoring.structure
    return _estimates(
        scoring,
        structure.partition.without_inputs,
        structure.correlated,
        "covariance",
        2 * scoring.point.evaluation.grad_Q,
        covariance_pair_information(scoring.info, structure.partition.without_inputs),
        structure.covariance_positions,
        scoring.matrices(scoring.vector + scoring.step)[1],
        only_inside=only_inside,
        screen=screen,
        mirrored=structure.partition.reverse_pairs,
    )


def _estimates(
    scoring,
    family,
    inside,
    of,
    gradient,
    own,
    positions,
    stepped,
    *,
    only_inside=False,
    screen=None,
    mirrored=None,
):
    """Estimates of a family of blocks.

    `family` says where its pairs' elements lie in the flat matrix, `of` is that matrix: "transition" or
    "covariance". `mirrored` gives the number of the pair that is the same parameter.
    """
    elements = family.pair_elements
    estimate, covariance = np.zeros(elements.shape), np.zeros((*elements.shape, elements.shape[1]))
    if inside.any():
        position = positions[elements[inside]]  # (pairs, e), -1 where padded
        padded = position < 0
        estimate[inside] = np.append(stepped.ravel(), 0.0)[elements[inside]]
        blocks = scoring.covariance[position[:, :, None], position[:, None, :]]
        blocks[padded[:, :, None] | padded[:, None, :]] = 0.0
        covariance[inside] = blocks
    outside = np.flatnonzero(~inside)
    if only_inside:
        covariance[outside] = PADDED_VARIANCE * np.eye(elements.shape[1])
        return BlockEstimates.padded(estimate, covariance, family)
    if _screens(scoring, screen) and len(outside):
        least = _Screen(scoring, of, gradient)
        estimate[outside], covariance[outside] = least.bounds(family, outside, own[outside])
        bounds = BlockEstimates.padded(estimate.copy(), covariance.copy(), family)
        outside = np.intersect1d(outside, _rejectable(bounds.p_value, screen, mirrored))
        groups = _by_number(outside, elements, family.n_elements, gradient.shape[1], scoring.columns, of)
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
        score[padded] = 0.0
        rest = own[pairs] - gathered @ np.swapaxes(gathered, 1, 2)
        inverse, known = _inverses(rest)
        covariance[pairs] = inverse / scoring.n_samples
        estimate[pairs] = np.einsum("xij,xj->xi", known, score)
    scoring.forget()
    return BlockEstimates.padded(estimate, covariance, family)


class _Screen:
    """Bounds on the statistics of all pairs outside the model, at the price of a pass over its columns.

    What the free elements explain of a block, ``C' I^-1 C``, is at most ``trace(C' D^-1 C) / l`` with the
    diagonal D of I and the smallest eigenvalue l of ``D^-1/2 I D^-1/2``.
    """

    def __init__(self, scoring, of, gradient):
        information = scoring.precision / scoring.n_samples
        diagonal = information.diagonal().copy()
        scale = np.sqrt(diagonal)
        smallest = eigh(
            information / np.outer(scale, scale),
            eigvals_only=True,
            subset_by_index=[0, 0],
            check_finite=False,
        )[0]
        self._n_samples = scoring.n_samples
        self._score, explained = gradient.copy(), np.zeros_like(gradient)
        for chosen, piece in scoring.columns.pieces():
            columns = getattr(piece, of)()
            self._score -= np.tensordot(scoring.step[chosen], columns, 1)
            explained += np.einsum("fij,fij,f->ij", columns, columns, 1 / diagonal[chosen])
        self._explained = explained / max(smallest, np.finfo(float).tiny)

    def bounds(self, family, pairs, own):
        """Estimates and covariances of pairs, whose statistics are at least the true ones."""
        at = family.pair_elements[pairs]
        score = np.append(self._score.ravel(), 0.0)[np.minimum(at, self._score.size)]
        explained = np.append(self._explained.ravel(), 0.0)[np.minimum(at, self._score.size)].sum(axis=1)
        least = own - explained[:, None, None] * np.eye(own.shape[1])
        values, vectors = np.linalg.eigh(least)
        variances = 1 / np.maximum(values, _KNOWN * np.abs(own).max())
        covariance = (vectors * variances[:, None, :]) @ np.swapaxes(vectors, 1, 2)
        return np.einsum("xij,xj->xi", covariance, score), covariance / self._n_samples


def _rejectable(p_values, alpha, mirrored):
    """Pairs that false discovery control may reject if true p-values are at least the given ones.

    Its rejections only become fewer as p-values grow.
    """
    if mirrored is None:
        return np.flatnonzero(benjamini_hochberg(p_values, alpha))
    first = np.flatnonzero(np.arange(len(mirrored)) < mirrored)
    chosen = first[benjamini_hochberg(np.minimum(p_values, p_values[mirrored])[first], alpha)]
    return np.union1d(chosen, mirrored[chosen])


def _by_number(pairs, elements, n_elements, width, columns, of):
    """Chosen pairs in groups, with the columns against their elements."""
    at_once = max(columns.rows_at_once * width // elements.shape[1], 1)
    gather = columns.transition_at if of == "transition" else columns.covariance_at
    for start in range(0, len(pairs), at_once):
        chosen = pairs[start : start + at_once]
        at = np.where(elements[chosen] == n_elements, 0, elements[chosen]).ravel()
        yield chosen, gather(*np.divmod(at, width))


def grouped_columns(scoring, family, pairs, of):
    """Chosen pairs in groups of the same effects, with the columns against their elements."""
    if len(pairs) == 0:
        return
    columns, elements = scoring.columns, family.pair_elements
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
        yield pairs[chosen], np.take(block.reshape(len(block), -1), at, axis=1, mode="clip")


def _inverses(information):
    """Inverses of information matrices, and the same with zeros for what they leave undetermined.

    What other free elements explain of a block is computed from moments of finite records. Where inputs
    follow the states almost exactly it can exceed the block's own information: the record then says nothing
    about that combination of its elements, which gets an estimate of zero and a huge variance.
    """
    values, vectors = np.linalg.eigh(information)
    known = values > _KNOWN * values[:, -1:]
    if known.all():
        inverse = np.linalg.inv(information)
        return inverse, inverse
    turned = np.swapaxes(vectors, 1, 2)
    variances = np.where(known, 1 / np.where(known, values, 1.0), 0.0)
    pseudo = vectors * variances[:, None] @ turned
    return pseudo + vectors * np.where(known, 0.0, PADDED_VARIANCE)[:, None] @ turned, pseudo


def uncoupled_estimates(objective, partition, point):
    """One-step estimates of all blocks at the uncoupled plant.

    Of the first lag. Everything decouples there: the only cross information is between the two directions of
    a pair and the correlation of their noise.
    """
    partition = partition.without_inputs if partition.n_lags > 1 else partition
    joint, score_A = _uncoupled_links(objective, partition, point)
    e = joint.shape[1] // 3
    both = np.concatenate([score_A, score_A[partition.reverse_pairs]], axis=1)
    score_Q = pair_blocks(2 * point.evaluation.grad_Q, partition)
    correlations = _profiled(joint, score_Q, both, slice(2 * e, 3 * e), slice(0, 2 * e))
    links = _links_alone(joint, score_A, partition)
    return tuple(_per_record(each, objective, partition) for each in (links, correlations))


def uncoupled_link_estimates(objective, partition, point):
    """The links of :func:`uncoupled_estimates` alone."""
    partition = partition.without_inputs if partition.n_lags > 1 else partition
    links = _links_alone(*_uncoupled_links(objective, partition, point), partition)
    return _per_record(links, objective, partition)


def _uncoupled_links(objective, partition, point):
    """Joint information of every pair at the uncoupled plant and the scores of its transitions."""
    info = objective.unit_information(point.A, point.Q, partition)
    if partition.n_steps and not partition.n_inputs:
        info = SpectralInformation(
            info.U, info.H
        )  # what steps make of states says nothing beside the steps themselves
    score_A = pair_blocks(point.evaluation.grad_A[:, : partition.n_states], partition)
    return uncoupled_pair_information(info, partition), score_A


def _links_alone(joint, score_A, partition):
    e = joint.shape[1] // 3
    return _profiled(joint, score_A, score_A[partition.reverse_pairs], slice(0, e), slice(e, 2 * e))


def _per_record(estimate_and_covariance, objective, partition):
    estimate, covariance = estimate_and_covariance
    return BlockEstimates.padded(estimate, covariance / objective.n_samples, partition)


def _profiled(joint, score, nuisance_score, block, nuisance):
    """Estimate and covariance (for one time step) of a block with nuisance elements profiled out."""
    cross = joint[:, block, nuisance]
    right = np.concatenate([np.swapaxes(cross, 1, 2), nuisance_score[..., None]], axis=-1)
    solved = np.linalg.solve(joint[:, nuisance, nuisance], right)
    covariance = np.linalg.inv(joint[:, block, block] - cross @ solved[..., :-1])
    residual = score - np.einsum("xij,xj->xi", cross, solved[..., -1])
    return np.einsum("xij,xj->xi", covariance, residual), covariance
