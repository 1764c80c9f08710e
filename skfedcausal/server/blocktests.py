"""Estimates of every off-diagonal block, inside the model or not, with their covariances."""

from dataclasses import replace

import numpy as np

from ..statespace.pairs import (
    covariance_pair_information,
    input_pair_information,
    pair_blocks,
    transition_pair_information,
    uncoupled_pair_information,
)
from .evidence import PADDED_VARIANCE, BlockEstimates

_KNOWN = 1e-10  # share of a block's largest information below which there is none


def link_estimates(scoring):
    """One-step-corrected estimate of every off-diagonal block of the transition matrix.

    Blocks in the model get their Wald estimate; the others the efficient score estimate
    ``(I_bb - I_bS I_SS^-1 I_Sb)^-1 (g_b - I_bS I_SS^-1 g_S)`` given the free elements S.

    Parameters
    ----------
    scoring : Scoring

    Returns
    -------
    BlockEstimates
    """
    structure = scoring.structure
    own = transition_pair_information(scoring.info, structure.partition)
    return _coefficient_estimates(scoring, structure.partition, structure.linked, own)


def input_estimates(scoring):
    """The same for the blocks of the input matrix between different units."""
    family = scoring.structure.partition.input_pairs
    own = input_pair_information(scoring.info, scoring.structure.partition, family)
    return _coefficient_estimates(scoring, family, scoring.structure.driven, own)


def step_estimates(scoring):
    """The same for every unit's coefficients of every step."""
    family = scoring.structure.partition.step_pairs
    own = input_pair_information(scoring.info, scoring.structure.partition, family)
    return _coefficient_estimates(scoring, family, scoring.structure.shifted, own)


def _coefficient_estimates(scoring, family, inside, own):
    """Estimates of a family of blocks of ``[A | B]``."""
    return _estimates(
        scoring,
        family,
        inside,
        scoring.columns.transition_rows,
        scoring.point.evaluation.grad_A,
        own,
        scoring.structure.transition_positions,
        scoring.matrices(scoring.vector + scoring.step)[0],
    )


def correlation_estimates(scoring, *, only_inside=False):
    """The same for the off-diagonal blocks of the process covariance.

    A block and its transpose are one parameter and get the same estimate. With `only_inside`, pairs outside
    the model are left at zero with a huge variance.
    """
    structure = scoring.structure
    return _estimates(
        scoring,
        structure.partition.without_inputs,
        structure.correlated,
        scoring.columns.covariance_rows,
        2 * scoring.point.evaluation.grad_Q,
        covariance_pair_information(scoring.info, structure.partition),
        structure.covariance_positions,
        scoring.matrices(scoring.vector + scoring.step)[1],
        only_inside=only_inside,
    )


def _estimates(scoring, family, inside, columns, gradient, own, positions, stepped, *, only_inside=False):
    """Estimates of a family of blocks.

    `family` says where its pairs' elements lie in the flat matrix, `columns` gives the columns of the
    information against all elements in a slice of rows of that matrix, one per free element.
    """
    elements = family.pair_elements
    estimate, covariance = np.zeros(elements.shape), np.zeros((*elements.shape, elements.shape[1]))
    outside = np.flatnonzero(~inside)
    if only_inside:
        covariance[outside] = PADDED_VARIANCE * np.eye(elements.shape[1])
        outside = outside[:0]
    width = gradient.shape[1]
    whitened_gradient = scoring.whitened(scoring.gradient)
    for pairs, rows in _by_rows(outside, elements, family.n_elements, width, scoring.columns.rows_at_once):
        at = elements[pairs]
        padded = at == family.n_elements
        at = np.where(padded, rows.start * width, at)
        block = columns(rows)
        half = block.reshape(len(block), -1)[:, at.ravel() - rows.start * width]
        del block
        gathered = scoring.whitened(half).T.reshape(*at.shape, -1)  # (pairs, e, free)
        gathered[padded] = 0.0
        score = gradient.ravel()[at] - gathered @ whitened_gradient
        score[padded] = 0.0
        rest = own[pairs] - gathered @ np.swapaxes(gathered, 1, 2)
        inverse, known = _inverses(rest)
        covariance[pairs] = inverse / scoring.n_samples
        estimate[pairs] = np.einsum("xij,xj->xi", known, score)
    if inside.any():
        position = positions[elements[inside]]  # (pairs, e), -1 where padded
        padded = position < 0
        estimate[inside] = np.append(stepped.ravel(), 0.0)[elements[inside]]
        blocks = scoring.covariance[position[:, :, None], position[:, None, :]]
        blocks[padded[:, :, None] | padded[:, None, :]] = 0.0
        covariance[inside] = blocks
    return BlockEstimates.padded(estimate, covariance, family)


def _by_rows(pairs, elements, n_elements, width, at_once):
    """Pairs in groups of the same effects, with the slice of rows of the flat matrix they lie in.

    A slice has about `at_once` rows.
    """
    if len(pairs) == 0:
        return
    rows = np.where(elements == n_elements, -1, elements // width)[pairs]
    last = rows.max(axis=1)
    first = np.where(rows < 0, last[:, None], rows).min(axis=1)
    group = first // at_once
    for number in np.unique(group):
        chosen = group == number
        yield pairs[chosen], slice(int(first[chosen].min()), int(last[chosen].max()) + 1)


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

    Everything decouples there: the only cross information is between the two directions of a pair and
    the correlation of their noise.

    Returns
    -------
    links : BlockEstimates
        With the opposite direction profiled out, noise taken as independent.
    correlations : BlockEstimates
        With both directions profiled out.
    """
    info = objective.information(point.A, point.Q)
    if partition.n_steps and not partition.n_inputs:
        info = replace(info, S=None)  # what steps make of states says nothing beside the steps themselves
    joint = uncoupled_pair_information(info, partition)
    e = joint.shape[1] // 3
    score_A = pair_blocks(point.evaluation.grad_A[:, : partition.n_states], partition)
    score_Q = pair_blocks(2 * point.evaluation.grad_Q, partition)
    reverse = partition.reverse_pairs
    both = np.concatenate([score_A, score_A[reverse]], axis=1)
    links = _profiled(joint, score_A, score_A[reverse], slice(0, e), slice(e, 2 * e))
    correlations = _profiled(joint, score_Q, both, slice(2 * e, 3 * e), slice(0, 2 * e))
    return tuple(
        BlockEstimates.padded(estimate, covariance / objective.n_samples, partition)
        for estimate, covariance in (links, correlations)
    )


def _profiled(joint, score, nuisance_score, block, nuisance):
    """Estimate and covariance (for one time step) of a block with nuisance elements profiled out."""
    cross = joint[:, block, nuisance]
    right = np.concatenate([np.swapaxes(cross, 1, 2), nuisance_score[..., None]], axis=-1)
    solved = np.linalg.solve(joint[:, nuisance, nuisance], right)
    covariance = np.linalg.inv(joint[:, block, block] - cross @ solved[..., :-1])
    residual = score - np.einsum("xij,xj->xi", cross, solved[..., -1])
    return np.einsum("xij,xj->xi", covariance, residual), covariance
