"""Maximum-likelihood estimation of the coupled plant from a joint record, step by step.

1. Scores ``s = J^-1 z`` and their lag covariances; states scaled to unit variance.
2. Each unit's own model by maximum likelihood.
3. Score tests of every pair at the uncoupled plant, forward/backward search for links and correlated
   noise, refit.
4. The maximum approached until the gradient vanishes: of the Whittle likelihood for complete records, of
   the exact time-domain likelihood where measurements are missing or a unit's sensors see next to nothing.
5. Block estimates with covariances, empirical-Bayes shrinkage.
"""

from dataclasses import dataclass, replace
from functools import partial
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from ...statespace.fisher import FreeElements
from ...statespace.riccati import NotStationaryError
from ...statespace.segments import Change
from ...statespace.timedomain import row_by_row
from ..dynamics import Plant
from ..prediction import OperatingPoint, smooth_record
from .block_tests import correlation_estimates, link_estimates, uncoupled_estimates
from .covariance import assessed_blocks
from .evidence import BlockEstimates, shrunk_transition
from .level_shifts import LevelShifts, find_level_shifts
from .prior import Prior, WithPrior
from .scoring import RATE, Goal, Point, Scoring, Structure, ascend, is_spent, spend
from .search import is_degenerate, is_singular, search_structure, with_all_links
from .standardised import StandardisedPlant
from .tuning import TUNING

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
    return Maximum(objective, scoring, Climb(n_iter, converged, gradient_norm, has_prior))


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
    """The plant at a maximum with all that is to be said of it, a `PlantEstimate`."""
    scoring, point = maximum.scoring, maximum.scoring.point
    partition, free = plant.partition, scoring.structure.free
    blocks = {"state": link_estimates(scoring)}
    if plant.scores_suffice and not plant.is_complete:  # some products of rows are not there
        links, shares = blocks["state"], plant.pair_shares
        blocks["state"] = BlockEstimates.padded(links.estimate, links.covariance / shares[:, None, None], partition)
    if partition.n_inputs:
        blocks["input"] = link_estimates(scoring, "input")
    shrunk, curvature, source = point.A, scoring, None
    if settings.shrink and settings.sparsity:
        shrunk = shrunk_transition(maximum.objective, scoring, blocks)
    if settings.feedback:
        curvature = _observed(plant, maximum)
    has_usual_information = plant.scores_suffice and plant.has_all_lags
    if settings.covariance != "information" or not has_usual_information:
        blocks, source = assessed_blocks(plant, scoring, blocks, settings.covariance)
    covariance = curvature.covariance if source is None else source.covariance(curvature)
    n, c = partition.n_states, partition.n_states + partition.n_inputs
    A, B, levels = np.hsplit(plant.unscaled(point.A), [n, c])
    shrunk_A, shrunk_B, _ = np.hsplit(plant.unscaled(shrunk), [n, c])
    Q = plant.unscaled_covariance(point.Q)
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
        maximum.climb,
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
