"""Which units are linked, and whose noise is correlated: score tests at the uncoupled plant, then a search.

The search goes forward and backward with false discovery control.
"""

from typing import NamedTuple

import numpy as np

from ...statespace.matrices import spectral_radius
from .block_tests import correlation_estimates, link_estimates, uncoupled_estimates
from .evidence import benjamini_hochberg, unordered_benjamini_hochberg
from .scoring import Point, Scoring, ascend, is_spent, is_valid, made_valid
from .tuning import TUNING


class StructureSearch(NamedTuple):
    """Outcome of a search, whether the structure repeated, and iterations towards `finish` on the way."""

    scoring: Scoring  # at the end of the search, with the structure found
    settled: bool
    n_further: int = 0


def search_structure(objective, structure, point, *, alpha=0.05, near=10.0, tol=0.1, finish=None, tests=None):
    """Forward/backward search for links and noise correlations at false discovery rate `alpha`.

    A round takes one scoring step. While the step is small it also re-tests every pair at the corrected
    point (Wald inside the model, efficient score outside) and adds or drops what Benjamini-Hochberg says;
    correlations of the process noise are tested when the links have settled. Without links and correlations
    to start from, the score tests at the uncoupled plant, `tests` if they were made, give the first ones.

    `near` is the gain in log-likelihood below which a point is close enough to the maximum to change the
    structure. A settled search ends at gains below `tol`, and goes on to the goal `finish` while that is fast.
    With ``alpha=None`` every block is free, of the process noise too: a part of it that units share would
    otherwise be taken for links.
    """
    if alpha is None:
        structure = with_all_links(structure)
        ascent = ascend(objective, Scoring(objective, structure, point), gain_tol=tol)
        return StructureSearch(Scoring(objective, structure, ascent.point), True)  # nothing comes or goes
    if not (structure.linked.any() or structure.correlated.any()):
        structure, point = _first_structure(objective, structure, point, alpha, near, tests)
    seen = {structure.key}
    left, n_further = np.inf, 0
    for n_rounds in range(1, TUNING.search_max_rounds + 1):
        scoring = Scoring(objective, structure, point)
        if is_spent(objective):
            return StructureSearch(scoring, False, n_further)
        # where the likelihood bends more than the expected information says, a scoring step promises more
        # than the ascent, which has felt the bend, knows to be left
        left = min(scoring.gain, left)
        proposed = _proposal(scoring, alpha) if left < near else structure
        if proposed.key in seen:  # a structure that was left before: from here on only drop
            proposed = structure.within(proposed)
        if proposed.key == structure.key and left < tol:
            return StructureSearch(scoring, True, n_further)
        seen.add(proposed.key)
        goal = tol / 2 if proposed.key == structure.key and left < near else max(near / 10, tol / 2)
        before = point
        aim = finish if n_rounds > 1 else None  # the first guess rarely stays
        point, left, n_further = _next_point(objective, scoring, proposed, goal, aim)
        if point is before and proposed.key == structure.key:  # nowhere to climb
            return StructureSearch(scoring, False)
        structure = proposed
    return StructureSearch(Scoring(objective, structure, point), False)


def with_all_links(structure):
    """The structure with every block free, of the process noise too."""
    every = np.ones(len(structure.partition.pairs), dtype=bool)
    return structure.with_masks(linked=every, correlated=every)


def is_degenerate(point, correlations, partition, alpha):
    """Whether the uncoupled plant shows correlated or nearly singular process noise, or a unit root.

    Correlations with ``alpha=None`` say nothing: those of all units are estimated.
    """
    correlated = alpha is not None and unordered_benjamini_hochberg(correlations.p_value, alpha, partition).any()
    radius = spectral_radius(point.A[:, : len(point.Q)])
    return bool(correlated or is_singular(point.Q) or radius > TUNING.search_unit_root)


def is_singular(Q):
    """Whether a process covariance in standardised states is nearly singular."""
    return bool(np.linalg.eigvalsh(Q)[0] < TUNING.search_singular)


def _first_structure(objective, structure, point, alpha, near, tests):
    """Links, inputs and correlations that the tests at the plant with uncoupled states suggest."""
    partition = structure.partition
    links, correlations = tests or uncoupled_estimates(objective, partition, point)
    correlated = unordered_benjamini_hochberg(correlations.p_value, alpha, partition)
    if correlated.any():  # they disturb the tests of the links, so they come first
        structure = structure.with_masks(correlated=correlated)
    if correlated.any() or partition.n_known:  # nothing decouples any more, or not all is tested
        scoring = Scoring(objective, structure, point)
        if correlated.any():
            scoring = _climbed(objective, scoring, near)
        if scoring.gain > near:  # units whose inputs are under feedback may not have settled
            scoring = _climbed(objective, scoring, near)
        point = scoring.point
        links = link_estimates(scoring, screen=alpha)
    A = point.A
    if partition.n_inputs:
        driven = benjamini_hochberg(link_estimates(scoring, "input").p_value, alpha)
        structure = structure.with_masks(driven=driven)
        A = A.copy()
        idle = partition.mask(partition.input_pairs.pairs[~driven], of_inputs=True)
        A[:, partition.n_states :][:, : partition.n_inputs][idle] = 0.0
    p_values = _of_allowed(links.p_value, structure)
    linked = _capped(benjamini_hochberg(p_values, alpha), p_values, partition)
    if linked.any():
        flat = np.append(A.ravel(), 0.0)
        flat[partition.pair_elements[linked]] = links.estimate[linked]
        A, _ = made_valid(flat[:-1].reshape(A.shape), np.eye(len(A)), partition)
    if A is not point.A:
        point = Point.at(objective, A, point.Q)
    return structure.with_masks(linked=linked), point


def _climbed(objective, scoring, near):
    """The information where a climb ends: what is known of the start where it gets nowhere, as with no time left."""
    point = ascend(objective, scoring, gain_tol=near).point
    return scoring if point is scoring.point else Scoring(objective, scoring.structure, point)


def _proposal(scoring, alpha):
    """Structure that the tests at the current point suggest.

    Families of blocks are tested in turn. What one of them adds has to settle before another adds something,
    but blocks that explain nothing hide nothing either: they go at once.
    """
    structure, partition = scoring.structure, scoring.structure.partition
    p_values = _of_allowed(link_estimates(scoring, screen=alpha).p_value, structure)
    linked = _wanted(p_values, structure.linked, partition, alpha)
    proposed = structure.with_masks(linked=linked)
    if (linked & ~structure.linked).any():
        return _without_idle_correlations(scoring, proposed, alpha)
    if partition.n_inputs:
        p_values = link_estimates(scoring, "input").p_value
        driven = _wanted(p_values, structure.driven, partition.input_pairs, alpha)
        proposed = proposed.with_masks(driven=driven)
        if (driven & ~structure.driven).any():
            return _without_idle_correlations(scoring, proposed, alpha)
    if partition.n_steps:
        shifted = structure.shifted & (link_estimates(scoring, "step").p_value <= TUNING.search_step_level)
        proposed = proposed.with_masks(shifted=shifted)
    if proposed.key != structure.key:
        return _without_idle_correlations(scoring, proposed, alpha)
    p_values = correlation_estimates(scoring, screen=alpha).p_value
    return structure.with_masks(correlated=unordered_benjamini_hochberg(p_values, alpha, partition))


def _without_idle_correlations(scoring, proposed, alpha):
    """The proposed structure without correlations that no false discovery control at this level keeps."""
    if not proposed.correlated.any():
        return proposed
    p_values = correlation_estimates(scoring, only_inside=True).p_value
    either = np.minimum(p_values, p_values[scoring.structure.partition.reverse_pairs])  # rounded differently
    return proposed.with_masks(correlated=proposed.correlated & (either <= alpha))


def _wanted(p_values, inside, family, alpha):
    """Pairs that false discovery control keeps, and a few that it adds."""
    significant = benjamini_hochberg(p_values, alpha)
    return inside & significant | _capped(significant & ~inside, p_values, family)


def _of_allowed(p_values, structure):
    """P-values of links, of those that there cannot be one."""
    return np.where(structure.allowed, p_values, 1.0)


def _capped(additions, p_values, family):
    """At most a few additions per effect, the most significant ones."""
    kept = np.zeros_like(additions)
    effect = family.pairs[:, 0]
    for m in np.unique(effect[additions]):
        candidates = np.flatnonzero(additions & (effect == m))
        kept[candidates[np.argsort(p_values[candidates], kind="stable")[: TUNING.search_max_additions]]] = True
    return kept


def _next_point(objective, scoring, proposed, goal, finish):
    """Higher up with the same structure, then with the blocks that are dropped set to zero.

    With the gain that is left there, infinite where the structure changed, and iterations towards `finish`.
    """
    structure = scoring.structure
    stays = proposed.key == structure.key
    ascent = ascend(objective, scoring, gain_tol=goal, further=finish if stays else None)
    if structure.within(proposed).key == structure.key:  # nothing is dropped
        return ascent.point, ascent.gain if stays else np.inf, ascent.n_further
    if ascent.n_iter:
        scoring = Scoring(objective, structure, ascent.point)
    return dropped(objective, scoring, proposed), np.inf, 0


def dropped(objective, scoring, proposed, max_steps=8):
    """Plant without the blocks that `proposed` does not have.

    The other elements follow to first order, or stay if that is better. Where either leaves the valid
    plants, the blocks go in several steps, each followed by an ascent of the others. If even those end,
    the other blocks between units shrink.
    """
    structure = scoring.structure
    for _ in range(max_steps):
        share, point = _partly_dropped(objective, scoring, proposed)
        if share == 1.0:
            return point
        if point is None:
            break
        ascent = ascend(objective, Scoring(objective, proposed, point), gain_tol=1.0)
        scoring = Scoring(objective, structure, ascent.point)
    A, Q = _zeroed(scoring, proposed)
    return Point.at(objective, *made_valid(A, Q, structure.partition))


def _partly_dropped(objective, scoring, proposed):
    """The largest share of the way to a plant without the dropped blocks that is valid, and the plant."""
    A, Q = scoring.point.A, scoring.point.Q
    goals = scoring.without(proposed), _zeroed(scoring, proposed)
    for share in (1.0, 0.5, 0.25, 0.1):
        trials = [(A + share * (to_A - A), Q + share * (to_Q - Q)) for to_A, to_Q in goals]
        points = [Point.at(objective, *trial) for trial in trials if is_valid(*trial)]
        if points:
            return share, max(points, key=lambda point: point.evaluation.value)
    return 0.0, None


def _zeroed(scoring, proposed):
    """Plant matrices without the blocks that `proposed` does not have, the others as they are."""
    structure, point = scoring.structure, scoring.point
    A = np.where(structure.transition_mask & ~proposed.transition_mask, 0.0, point.A)
    return A, np.where(structure.covariance_mask & ~proposed.covariance_mask, 0.0, point.Q)
