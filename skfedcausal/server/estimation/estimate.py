"""Maximum-likelihood estimation of the coupled plant: score tests, a search for links, step by step."""

from dataclasses import dataclass, replace
from functools import partial
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from ...statespace.kalman import NotStationaryError
from ...statespace.matrices import spectral_radius
from ...statespace.segments import Change
from ...statespace.timedomain import row_by_row
from ...statespace.whittle import FreeElements
from ..dynamics import OperatingPoint, Plant, smooth_record
from .covariance import assessed_blocks
from .evidence import (
    BlockEstimates,
    benjamini_hochberg,
    correlation_estimates,
    link_estimates,
    shrunk_transition,
    uncoupled_estimates,
    unordered_benjamini_hochberg,
)
from .scoring import (
    RATE,
    Budget,
    Goal,
    Point,
    Prior,
    Scoring,
    Structure,
    WithPrior,
    ascend,
    is_spent,
    is_valid,
    made_valid,
    spend,
)
from .standardised import LevelShifts, StandardisedPlant, find_level_shifts
from .tuning import TUNING

# Which units are linked, and whose noise is correlated: score tests at the uncoupled plant, then a search.
#
# The search goes forward and backward with false discovery control.


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


# Maximum-likelihood estimation of the coupled plant from a joint record, step by step.
#
# 1. Scores ``s = J^-1 z`` and their lag covariances; states scaled to unit variance.
# 2. Each unit's own model by maximum likelihood.
# 3. Score tests of every pair at the uncoupled plant, forward/backward search for links and correlated
#    noise, refit.
# 4. The maximum approached until the gradient vanishes: of the Whittle likelihood for complete records, of
#    the exact time-domain likelihood where measurements are missing or a unit's sensors see next to nothing.
# 5. Block estimates with covariances, empirical-Bayes shrinkage.

LARGE = 32  # units, beyond which plants are learned in blocks
_GOALS = {"near": 10.0, "tol": 0.1}
FEW, _NO_NOISE = 32, 1e-4  # states of a plant learned as a whole, and share of noise that is none to speak of
UNITS_WORK = 5e7  # operations of a unit's own model and its tests, about
_DEGENERATE_GOALS = {"near": 0.1, "tol": 0.1}  # first-order corrections do not reach far there


@dataclass(frozen=True)
class Settings:
    """How a plant is estimated; see the parameters of `LikelihoodServer`.

    `local` are the units' own models (A, Q, B or None) or None, in the order of the record; with `feedback`
    the covariance of coefficients is that of the likelihood's own curvature; `edges` says whether those of the record
    count, and `scores_alone` whether Whittle's likelihood of scores stands for the exact one, whatever that costs.
    """

    local: tuple | None = None
    fix_local: bool = False
    sparsity: str | None = "fdr"
    alpha: float = 0.05
    correction: str = "family-wise"
    shrink: bool = True
    time_domain: bool = False
    feedback: bool = False
    level_shifts: str | None = "auto"
    covariance: str = "information"
    max_iter: int = 300
    tol: float = 1e-10
    budget: Any = None  # of work, a `Budget`, or None
    known_links: Any = None  # a `LinkKnowledge`, or None
    edges: bool = True
    scores_alone: bool = False


class FittedParameters(NamedTuple):
    """Estimated plant in standardised states with the covariance of its free elements."""

    A: np.ndarray  # (n, c)
    Q: np.ndarray  # (n, n)
    free: FreeElements
    covariance: np.ndarray  # (n_free, n_free)
    state_scale: np.ndarray  # (n, n)


class Coefficients(NamedTuple):
    """Estimated ``[A | B]`` in standardised states and inputs, with its sampling covariance."""

    matrix: np.ndarray  # (n, c)
    rows: np.ndarray  # (n_free,)
    cols: np.ndarray  # (n_free,)
    covariance: Any  # (n_free, n_free), or a `BlockCovariance`
    state_scale: np.ndarray  # (n, n)
    input_scale: np.ndarray  # (k,)
    regressors: np.ndarray  # (c, c)


class Climb(NamedTuple):
    """How the climb to the maximum of a likelihood went."""

    n_iter: int
    converged: bool
    gradient_norm: float  # per time step, in the metric of the curvature
    has_prior: bool
    prior_weight: float = 0.0  # time steps that the prior is worth


@dataclass(frozen=True)
class PlantEstimate:
    """Fitted plant in the units' own states; blocks, coefficients and parameters in standardised ones."""

    A: np.ndarray  # (n, n)
    Q: np.ndarray  # (n, n)
    B: np.ndarray  # (n, k)
    shrunk_A: np.ndarray
    shrunk_B: np.ndarray
    structure: Structure
    blocks: dict[str, BlockEstimates]
    correlations: BlockEstimates
    coefficients: Coefficients | None  # None without inputs
    parameters: FittedParameters
    steps: tuple[Change, ...]  # at which levels shift
    levels: np.ndarray  # what the steps add to the state equation, (n, n_steps)
    shifts: LevelShifts
    climb: Climb
    plant: StandardisedPlant  # the record it was learned from
    scoring: Scoring  # at the maximum
    doubtful: np.ndarray | None = None  # pairs that look linked, and not where a level shifts that may


def estimate_plant(record, settings):
    """Fit transition matrix, input matrix and process covariance to a joint record, a `PlantEstimate`.

    Level shifts are looked for in records without steps; those the plant can do without are taken out.
    """
    plant, budget = _standardised(record, settings), settings.budget
    steps, doubtful = record.steps, ()
    if settings.level_shifts is not None and not steps:
        beside = plant.budget = None if budget is None else budget.beside(TUNING.estimate_shifts)
        steps, doubtful = find_level_shifts(plant.unit_records(), record.determined.sum())
        if beside is not None and beside.is_spent:
            budget.short_of.append("level shifts")
    while True:
        if steps != plant.steps:
            plant = _standardised(record.at_steps(steps), settings)
        plant.budget = budget
        # whether nobody will ask for the lags of a plant, whatever noise is supposed
        keeps_one_lag = record.u is None and record.is_constant and not plant.has_clear_scores
        if budget is not None and keeps_one_lag:
            budget.widen(TUNING.estimate_all)
        estimate = _assessed(plant, maximise(plant, settings), settings)
        settings = replace(settings, scores_alone=plant.stands_in)
        steps = estimate.shifts.kept
        if steps == plant.steps or is_spent(plant):
            break
    if not doubtful or is_spent(plant) or not estimate.structure.linked.any():
        return estimate
    shifted = _standardised(record.at_steps(tuple(sorted((*steps, *doubtful)))), settings)
    shifted.budget = budget
    return _likelier(record, estimate, _assessed(shifted, maximise(shifted, settings), settings), settings.alpha)


def _standardised(record, settings):
    """The record in standardised states, and whether Whittle's likelihood stands for the exact one."""
    plant = StandardisedPlant(record, settings.local, settings.fix_local, settings.edges and not settings.scores_alone)
    plant.may_stand_in = may_stand_in(record, settings)
    plant.stands_in = settings.scores_alone
    if plant.may_stand_in and not (plant.stands_in or plant.has_clear_scores) and settings.budget is not None:
        work = TUNING.estimate_evaluations * row_by_row(plant.n_samples, plant.partition.n_states)
        if work > RATE * settings.budget.left:  # the exact one would not come to its end
            return _standardised(record, replace(settings, scores_alone=True))
    return plant


def _likelier(record, estimate, shifted, alpha):
    """The likelier one of a plant and of one with further shifts of levels, if these explain links of it.

    By the Bayesian information criterion, where a place counts as much as two coefficients. Links that the other
    one does not have are doubtful.
    """
    explained = estimate.structure.linked & (shifted.blocks["state"].p_value > alpha)
    if not explained.any():
        return estimate
    return max(replace(estimate, doubtful=explained), shifted, key=partial(_criterion, record))


def _criterion(record, estimate):
    """Log-density of a record under a plant, less what its coefficients and the places of its steps cost.

    There is none under a plant without a steady filter, where a climb that was ended early may have left it.
    """
    A, plant = estimate.A, estimate.parameters
    point = OperatingPoint.of(record, A, estimate.steps, estimate.levels, plant.state_scale)
    try:
        drive = Plant.of_one_lag(A, estimate.B, estimate.Q, point=point).drive()
        value = smooth_record(A, estimate.Q, point.placed(record), drive)[2]
    except NotStationaryError:
        return -np.inf
    cost = estimate.structure.free.n_elements / 2 + len(estimate.steps)
    return value - np.log(record.n_samples) * cost


def may_stand_in(record, settings):
    """Whether the gaps of a record are so few that Whittle's likelihood may stand in for the exact one."""
    is_plain = not settings.time_domain and not settings.fix_local and settings.covariance == "information"
    if record.is_constant or record.u is not None or record.most_lags is not None or not is_plain:
        return False
    seen = min(part.determined_rows.mean() for part in record.parts)
    return bool(record.determined.all() and seen >= TUNING.estimate_least_seen)


class Maximum(NamedTuple):
    """A likelihood, the information at its maximum, and how the climb there went."""

    objective: object
    scoring: Scoring
    climb: Climb


def maximise(plant, settings, may_lengthen=True):
    """The :class:`Maximum` of the likelihood of a plant: its structure, and the climb to the top.

    Starts anew with a prior where the likelihood rises towards the boundary, and with as many lags as the end
    needs where the climb failed.
    """
    whole = plant.budget
    if whole is not None:
        plant.budget = whole.part(TUNING.estimate_search)
    plant.is_whole = settings.sparsity is None
    likelihood, point = uncoupled_plant(plant)
    spend(likelihood, UNITS_WORK * len(plant.names))
    tests = uncoupled_estimates(likelihood, plant.partition, point)
    climb = {"gain_tol": plant.n_samples * settings.tol**2, "max_iter": settings.max_iter}
    alpha = None if settings.sparsity is None else settings.alpha
    has_prior = is_degenerate(point, tests[1], plant.partition, alpha)
    objective, search = _learn_structure(plant, likelihood, point, tests, has_prior, settings)
    if whole is not None and plant.budget.is_spent and not plant.is_whole:
        search = _with_all_links(plant, settings, objective, search)
        if not plant.is_whole and "links" not in whole.short_of:
            whole.short_of.append("links")
    plant.budget = objective.budget = whole
    ascent = ascend(objective, search.scoring, **climb)
    if not has_prior and is_singular(ascent.point.Q) and not is_spent(objective):
        has_prior = True
        likelihood.budget = plant.budget
        objective, search = _learn_structure(plant, likelihood, point, tests, has_prior, settings)
        ascent = ascend(objective, search.scoring, **climb)
    is_stopped = ascent.converged or is_spent(objective)
    if may_lengthen and not is_stopped and plant.lengthen(ascent.point.A, ascent.point.Q):
        return maximise(plant, settings, may_lengthen=False)
    scoring = search.scoring
    if ascent.point is not scoring.point:
        scoring = Scoring(objective, scoring.structure, ascent.point)
    n_iter, converged = search.n_further + ascent.n_iter, search.settled and ascent.converged
    gradient_norm = float(np.sqrt(ascent.gain / plant.n_samples))
    return Maximum(objective, scoring, Climb(n_iter, converged, gradient_norm, has_prior, has_prior * Prior.weight))


def forecasting(plant, maximum, settings):
    """The :class:`Maximum` with that weight of the prior whose plant is best on rows left out.

    The last rows are left out, then the first. A lighter prior must be ahead, and its climbs must arrive. Where not
    all scores of a record are at hand and clear, nothing is decided.
    """
    scoring, objective, climb = maximum.scoring, maximum.objective, maximum.climb
    is_told = plant.is_complete and plant.has_clear_scores and plant.record.has_rows
    if not (climb.has_prior and climb.converged and is_told):
        return maximum
    # of its own: what it takes says nothing of how dear several lags may be
    budget = None if plant.budget is None else Budget(TUNING.estimate_prior * plant.budget.max_time)
    points, gains = _left_out(plant, maximum, budget)
    if not (best := int(np.argmax(gains - TUNING.prior_ahead * np.minimum(np.arange(len(gains)), 1)))):
        return maximum
    lighter = objective.with_weight(TUNING.prior_weights[best])
    lighter.budget = None  # what a step costs is paid for below
    start = Scoring(lighter, scoring.structure, Point.at(lighter, points[best].A, points[best].Q))
    lighter.budget = budget
    ascent = ascend(lighter, start, gain_tol=plant.n_samples * settings.tol**2, max_iter=settings.max_iter)
    if not ascent.converged:
        return maximum
    climb = climb._replace(prior_weight=lighter.prior.weight)
    return Maximum(lighter, Scoring(lighter, scoring.structure, ascent.point), climb)


def _left_out(plant, maximum, budget):
    """Points of the plant by weight of the prior, and log-densities of the rows that each was not learned from.

    They are minus infinity where a climb does not arrive.
    """
    scoring, prior, n = maximum.scoring, maximum.objective.prior, plant.n_samples
    points = [scoring.point] * len(TUNING.prior_weights)
    gains, last = np.zeros(len(points)), n - n // TUNING.prior_left_out
    for learned, others in ((slice(last), slice(last, n)), (slice(n - last, n), slice(n - last))):
        held_out = plant.time_domain(plant.standard_record.part(others), rows=others)
        likelihood = plant.whittle(learned)
        likelihood.budget = budget
        for k, weight in enumerate(TUNING.prior_weights):
            backed = WithPrior(likelihood, replace(prior, weight=weight, n_samples=likelihood.n_samples))
            start = scoring.start_of(backed, Point.at(backed, points[k].A, points[k].Q))
            ascent = ascend(backed, start, gain_tol=_GOALS["tol"])
            value = held_out.evaluate(ascent.point.A, ascent.point.Q).value if ascent.converged else -np.inf
            points[k], gains[k] = ascent.point, gains[k] + held_out.n_samples * value
    return points, gains


def _with_all_links(plant, settings, objective, search):
    """What a search that was ended leaves, with all links where these are quickly learned.

    Of a plant of few states that sensors show without noise to speak of: it is then a regression.
    """
    few = plant.partition.n_states <= FEW and plant.partition.n_known == 0 and settings.known_links is None
    if not (few and plant.has_clear_scores and plant.score_noise.max() < _NO_NOISE):
        return search
    plant.is_whole = True
    structure = with_all_links(search.scoring.structure)
    return search._replace(scoring=Scoring(objective, structure, search.scoring.point), settled=True)


def uncoupled_plant(plant):
    """Likelihood to start with and the best plant without links, a `Point`."""
    A, Q = plant.uncoupled  # sets the number of lags of the likelihood
    likelihood = plant.first_likelihood()
    point = Point.at(likelihood, A, Q)
    if not plant.has_all_lags:  # the units' own models are only near their maxima
        scoring = Scoring(likelihood, plant.structure(), point)
        point = ascend(likelihood, scoring, gain_tol=_GOALS["tol"]).point
        plant.uncoupled = point.A, point.Q
    return likelihood, point


def _learn_structure(plant, likelihood, point, tests, has_prior, settings):
    """Structure of the plant and the likelihood it was learned from, with a prior if it is degenerate.

    Where the Whittle likelihood only stands in for the exact one, the search starts with it and goes on with
    the other.
    """
    alpha = None if settings.sparsity is None else settings.alpha
    is_start = plant.has_clear_scores and (settings.time_domain or not plant.scores_suffice)
    aim = None
    if plant.has_clear_scores and not is_start:
        aim = Goal(plant.n_samples * settings.tol**2, settings.max_iter)
    objective, prior, goals = likelihood, None, _GOALS
    if has_prior:
        A, Q = plant.uncoupled
        prior = Prior.for_units(A, Q, plant.partition, plant.n_samples)
        objective, tests, goals = WithPrior(likelihood, prior), None, _DEGENERATE_GOALS
        point = Point.at(objective, A, Q)
    structure = plant.structure()
    search = search_structure(objective, structure, point, alpha=alpha, finish=aim, tests=tests, **goals)
    needs_prior = prior is None and is_singular(search.scoring.point.Q)  # the caller starts anew with one
    if is_start and not needs_prior:
        objective = plant.budgeted(plant.time_domain())
        objective = objective if prior is None else WithPrior(objective, prior)
        found = search.scoring
        if not settings.time_domain and _takes_too_long(plant, found.point):
            plant.stands_in = True
            return likelihood if prior is None else WithPrior(likelihood, prior), search
        point = Point.at(objective, found.point.A, found.point.Q)
        search = search_structure(objective, found.structure, point, alpha=alpha, **goals)
    return objective, search


def _takes_too_long(plant, point):
    """Whether a climb of the exact likelihood takes more than is left, by the clock on a first few rows.

    Where little is lost without it, whether it is more than a small share of what is left, by count.
    """
    if plant.budget is None:
        return False
    if plant.loses_little:
        work = TUNING.estimate_evaluations * row_by_row(plant.n_samples, plant.partition.n_states)
        return work > TUNING.estimate_for_little * RATE * plant.budget.left
    if not plant.may_stand_in:
        return False
    piece, began = plant.standard_record.part(slice(TUNING.estimate_first_rows)), process_time()
    plant.time_domain(piece).evaluate(point.A, point.Q)
    seconds = (process_time() - began) * plant.n_samples / piece.n_samples
    return TUNING.estimate_evaluations * seconds > plant.budget.left


def _assessed(plant, maximum, settings):
    """The plant at a maximum with all that is to be said of it, a `PlantEstimate`.

    Links are tested under the usual prior, and the plant is that of the prior with the best forecasts.
    """
    scoring, point = maximum.scoring, maximum.scoring.point
    partition, free = plant.partition, scoring.structure.free
    blocks = {"state": link_estimates(scoring)}
    if plant.scores_suffice and not plant.is_complete:  # some products of rows are not there
        links, shares = blocks["state"], plant.pair_shares
        blocks["state"] = BlockEstimates.padded(links.estimate, links.covariance / shares[:, None, None], partition)
    if partition.n_inputs:
        blocks["input"] = link_estimates(scoring, "input")
    run, curvature, source = forecasting(plant, maximum, settings), scoring, None
    fitted = shrunk = run.scoring.point.A
    if settings.shrink and settings.sparsity:
        tests = blocks if run is maximum else {kind: link_estimates(run.scoring, kind) for kind in blocks}
        shrunk = shrunk_transition(run.objective, run.scoring, tests)
    if settings.feedback:
        curvature = _observed(plant, maximum)
    has_usual_information = plant.scores_suffice and plant.has_all_lags
    if settings.covariance != "information" or not has_usual_information:
        blocks, source = assessed_blocks(plant, scoring, blocks, settings.covariance)
    covariance = curvature.covariance if source is None else source.covariance(curvature)
    n, c = partition.n_states, partition.n_states + partition.n_inputs
    A, B, levels = np.hsplit(plant.unscaled(fitted), [n, c])
    shrunk_A, shrunk_B, _ = np.hsplit(plant.unscaled(shrunk), [n, c])
    Q = plant.unscaled_covariance(run.scoring.point.Q)
    coefficients = None
    if partition.n_inputs:
        kept = np.flatnonzero(free.cols < c)
        coefficients = Coefficients(
            point.A[:, :c],
            free.rows[kept],
            free.cols[kept],
            covariance[np.ix_(kept, kept)],
            plant.state_scale,
            plant.known_scale[: c - n],
            plant.regressor_covariance()[:c, :c],
        )
    return PlantEstimate(
        A,
        Q,
        B,
        shrunk_A,
        shrunk_B,
        scoring.structure,
        blocks,
        correlation_estimates(scoring, only_inside=True),
        coefficients,
        FittedParameters(point.A, point.Q, free, covariance, plant.state_scale),
        plant.steps,
        levels,
        LevelShifts.of(plant.names, plant.steps, levels, Q, scoring),
        run.climb,
        plant,
        scoring,
    )


def _observed(plant, maximum):
    """Observed information at a maximum, of Whittle's likelihood where differences of the exact one take too long."""
    objective, (structure, point) = maximum.objective, (maximum.scoring.structure, maximum.scoring.point)
    evaluations = 2 * structure.free.n_elements
    if plant.budget is not None and evaluations * objective.work > RATE * plant.budget.left:
        stand_in, prior = plant.whittle(), getattr(objective, "prior", None)
        objective = stand_in if prior is None else WithPrior(stand_in, prior)
        point = Point.at(objective, point.A, point.Q)
    elif not plant.scores_suffice:
        spend(objective, evaluations * objective.work)
    return Scoring(objective, structure, point, observed=True)


def fitted_likelihood(record, settings):
    """The standardised plant of a record and the :class:`Maximum` of its likelihood."""
    plant = StandardisedPlant(record, settings.local, settings.fix_local)
    return plant, maximise(plant, settings)


def screen_plant(record):
    """Score tests of every pair at the uncoupled plant, the first step of :func:`estimate_plant`."""
    plant = StandardisedPlant(record)
    likelihood, point = uncoupled_plant(plant)
    if plant.partition.n_known:  # the same inputs drive the states of all units: nothing decouples
        return link_estimates(Scoring(likelihood, plant.structure(), point))
    return uncoupled_estimates(likelihood, plant.partition, point, correlations=False)[0]
