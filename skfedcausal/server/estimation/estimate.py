"""Maximum-likelihood estimation of the coupled plant from a joint record, step by step.

1. Scores ``s = J^-1 z`` and their lag covariances; states scaled to unit variance.
2. Each unit's own model by maximum likelihood.
3. Score tests of every pair at the uncoupled plant, forward/backward search for links and correlated
   noise, refit.
4. The maximum approached until the gradient vanishes: of the Whittle likelihood for complete records, of
   the exact time-domain likelihood where measurements are missing or a unit's sensors see next to nothing.
5. Block estimates with covariances, empirical-Bayes shrinkage.
"""

from dataclasses import dataclass

import numpy as np

from ..links.geweke_intervals import FittedParameters
from .blocktests import (
    correlation_estimates,
    input_estimates,
    link_estimates,
    uncoupled_estimates,
)
from .evidence import BlockEstimates
from .exact_information import ExactInformation
from .level_shifts import LevelShifts, find_level_shifts
from .prior import Prior, WithPrior
from .sandwich import Sandwich, lags_of
from .scoring import Goal, Point, Scoring, ascend
from .search import StructureSearch, first_links, is_degenerate, is_singular, search_structure
from .shrinkage import shrunk_transition
from .standardised import StandardisedPlant
from .structure import Structure
from .unit_states import in_unit_states, unit_state_roots

_GOALS = {"near": 10.0, "tol": 0.1}
_DEGENERATE_GOALS = {"near": 0.1, "tol": 0.1}  # first-order corrections do not reach far there


@dataclass(frozen=True)
class Coefficients:
    """Estimated ``[A | B]`` in standardised states and inputs, with its sampling covariance."""

    matrix: np.ndarray  # (n, c)
    rows: np.ndarray  # (n_free,)
    cols: np.ndarray  # (n_free,)
    covariance: np.ndarray  # (n_free, n_free)
    state_scale: np.ndarray  # (n, n)
    input_scale: np.ndarray  # (k,)
    regressors: np.ndarray  # (c, c)


@dataclass(frozen=True)
class PlantEstimate:
    """Fitted plant."""

    A: np.ndarray  # (n, n)
    Q: np.ndarray  # (n, n)
    B: np.ndarray  # (n, k)
    shrunk_A: np.ndarray
    shrunk_B: np.ndarray
    structure: Structure
    blocks: BlockEstimates
    correlations: BlockEstimates
    input_blocks: BlockEstimates
    coefficients: Coefficients
    parameters: FittedParameters
    shifts: LevelShifts
    n_rounds: int
    n_iter: int
    converged: bool
    gradient_norm: float
    has_prior: bool


def estimate_plant(
    record,
    *,
    local=None,
    fix_local=False,
    sparsity="fdr",
    alpha=0.05,
    shrinkage=True,
    time_domain=False,
    feedback=False,
    level_shifts="auto",
    covariance="information",
    max_iter,
    tol,
):
    """Fit transition matrix, input matrix and process covariance to a joint record."""
    plant = StandardisedPlant(record, local, fix_local)
    if level_shifts is not None and not record.steps:
        steps = find_level_shifts(plant.unit_records(), sum(record.determined))
        if steps:
            plant = StandardisedPlant(record.at_steps(steps), local, fix_local)
    settings = {
        "sparsity": sparsity,
        "alpha": alpha,
        "shrinkage": shrinkage,
        "time_domain": time_domain,
        "feedback": feedback,
        "covariance": covariance,
        "max_iter": max_iter,
        "tol": tol,
    }
    estimate = _estimate(plant, **settings)
    lasting = estimate.shifts.certain
    while len(lasting) < len(plant.steps):
        plant = StandardisedPlant(record.at_steps(lasting), local, fix_local)
        estimate = _estimate(plant, **settings)
        lasting = estimate.shifts.certain
    return estimate


def _estimate(plant, *, sparsity, alpha, shrinkage, time_domain, feedback, covariance, max_iter, tol):
    """Estimate of a plant whose level shifts are known."""
    goal = {"gain_tol": plant.n_samples * tol**2, "max_iter": max_iter}
    settings = {"sparsity": sparsity, "alpha": alpha, "time_domain": time_domain}
    objective, search, ascent, degenerate = _maximum(plant, goal, **settings)
    scoring = _scoring_at(objective, search, ascent)
    blocks = link_estimates(scoring)
    input_blocks = input_estimates(scoring) if plant.partition.n_inputs else None
    theta = shrunk = ascent.point.A
    if shrinkage and sparsity:
        shrunk = shrunk_transition(objective, scoring, blocks, input_blocks)
    curvature = scoring
    if feedback:
        curvature = Scoring(objective, scoring.structure, ascent.point, observed=True)
    n, c, free = (
        len(ascent.point.Q),
        plant.partition.n_states + plant.partition.n_inputs,
        scoring.structure.free,
    )
    kept = np.flatnonzero(free.cols < c)
    blocks, input_blocks, source = assessed_blocks(plant, scoring, blocks, input_blocks, covariance)
    of_coefficients = curvature.covariance if source is None else source.covariance(curvature)
    A, B, levels = np.hsplit(plant.unscaled(theta), [n, c])
    shrunk_A, shrunk_B, _ = np.hsplit(plant.unscaled(shrunk), [n, c])
    Q = plant.unscaled_covariance(ascent.point.Q)
    return PlantEstimate(
        A,
        Q,
        B,
        shrunk_A,
        shrunk_B,
        scoring.structure,
        blocks,
        correlation_estimates(scoring, only_inside=True),
        input_blocks,
        Coefficients(
            theta[:, :c],
            free.rows[kept],
            free.cols[kept],
            of_coefficients[np.ix_(kept, kept)],
            plant.state_scale,
            plant.known_scale[: c - n],
            plant.regressor_covariance[:c, :c],
        ),
        FittedParameters.of(ascent.point, free, of_coefficients, plant.state_scale),
        LevelShifts.of(plant.steps, levels, Q, scoring),
        search.n_rounds,
        search.n_further + ascent.n_iter,
        search.settled and ascent.converged,
        float(np.sqrt(ascent.gain / plant.n_samples)),
        degenerate,
    )


def process_covariance(record, estimate, *, local=None, fix_local=False, max_iter, tol):
    """Process covariance that is most likely for known coefficients, shape (n, n)."""
    plant = StandardisedPlant(record.at_steps(estimate.shifts.steps), local, fix_local)
    Q = plant.uncoupled[1]  # sets the number of lags of the likelihood
    objective = plant.first_likelihood()
    A = plant.scaled(np.hstack([estimate.shrunk_A, estimate.shrunk_B, estimate.shifts.levels]))
    structure = estimate.structure.of_noise_alone()
    scoring = Scoring(objective, structure, Point.at(objective, A, Q))
    ascent = ascend(objective, scoring, gain_tol=plant.n_samples * tol**2, max_iter=max_iter)
    return plant.unscaled_covariance(ascent.point.Q)


def estimated_links(plant, scoring, covariance):
    """Estimates of the links at a maximum, with the covariances asked for, in states of unit variance."""
    return assessed_blocks(plant, scoring, link_estimates(scoring), None, covariance)[0]


def assessed_blocks(plant, scoring, blocks, input_blocks, covariance):
    """The estimates of blocks with the covariances that hold for the record, in states of unit variance."""
    partition, structure, source = plant.partition, scoring.structure, None
    families, known = [partition], [blocks]
    if input_blocks is not None:
        families, known = [partition, partition.input_pairs], [blocks, input_blocks]
    if covariance != "information":
        n_lags = lags_of(covariance, plant.n_samples)
        source = Sandwich(scoring, plant.contributions(scoring.point), families, known, n_lags)
    elif not plant.has_all_lags:
        source = ExactInformation(scoring, plant, families)
    if source is not None:
        inside = structure.linked, structure.driven
        known = [source.blocks(*each) for each in zip(families, inside, known, strict=False)]
    roots = unit_state_roots(plant, scoring.point)
    turned = [
        in_unit_states(each, family, roots, causes=family is partition)
        for each, family in zip(known, families, strict=True)
    ]
    return turned[0], turned[1] if input_blocks is not None else None, source


def _maximum(plant, goal, **settings):
    """What :func:`_climb` finds, with as many lags as its end needs where it failed."""
    climb = _climb(plant, goal, **settings)
    ascent = climb[2]
    if not ascent.converged and plant.lengthen(ascent.point.A, ascent.point.Q):
        climb = _climb(plant, goal, **settings)
    return climb


def fitted_likelihood(record, *, local, fix_local, sparsity, alpha, time_domain, max_iter, tol):
    """The likelihood that :func:`estimate_plant` maximised, and the :class:`Scoring` at its maximum.

    Shifts of levels are those of the record.
    """
    plant = StandardisedPlant(record, local, fix_local)
    goal = {"gain_tol": plant.n_samples * tol**2, "max_iter": max_iter}
    objective, search, ascent, _ = _maximum(
        plant, goal, sparsity=sparsity, alpha=alpha, time_domain=time_domain
    )
    return objective, _scoring_at(objective, search, ascent), plant


def _scoring_at(objective, search, ascent):
    """Information at the maximum: that of the search where it ended there."""
    if ascent.point is search.scoring.point:
        return search.scoring
    return Scoring(objective, search.scoring.structure, ascent.point)


def _climb(plant, goal, **settings):
    """Likelihood, structure and maximum of a plant, and whether it needed a prior."""
    first = Uncoupled.of(plant)
    alpha = settings["alpha"]
    degenerate = is_degenerate(first.likelihood, plant.partition, first.point, alpha, tests=first.tests)
    settings |= {"finish": Goal(goal["gain_tol"], goal["max_iter"])}
    objective, search = _learn_structure(plant, first, degenerate, **settings)
    ascent = ascend(objective, search.scoring, **goal)
    if not degenerate and is_singular(ascent.point.Q):  # the likelihood rises towards the boundary
        degenerate = True
        objective, search = _learn_structure(plant, first, degenerate, **settings)
        ascent = ascend(objective, search.scoring, **goal)
    return objective, search, ascent, degenerate


def screen_plant(record):
    """Score tests of every pair at the uncoupled plant, the first step of :func:`estimate_plant`."""
    plant = StandardisedPlant(record)
    objective, point = _uncoupled(plant)
    return first_links(objective, plant.structure(), point)


@dataclass(frozen=True)
class Uncoupled:
    """Where every estimate starts: the units' own models, with a likelihood and its tests of every pair."""

    likelihood: object
    point: Point
    tests: tuple

    @classmethod
    def of(cls, plant):
        """The uncoupled plant of a :class:`StandardisedPlant`."""
        likelihood, point = _uncoupled(plant)
        return cls(likelihood, point, uncoupled_estimates(likelihood, plant.partition, point))


def _uncoupled(plant):
    """Likelihood to start with and the best plant without links."""
    start = plant.uncoupled  # sets the number of lags of the likelihood
    likelihood = plant.first_likelihood()
    point = Point.at(likelihood, *start)
    if not plant.has_all_lags:  # the units' own models are only near their maxima
        scoring = Scoring(likelihood, plant.structure(), point)
        point = ascend(likelihood, scoring, gain_tol=_GOALS["tol"]).point
        plant.uncoupled = point.A, point.Q
    return likelihood, point


def _learn_structure(plant, first, degenerate, *, sparsity, alpha, time_domain, finish):
    """Structure of the plant and the likelihood it was learned from, with a prior if it is degenerate.

    Where measurements are missing, or the exact likelihood is asked for, the Whittle likelihood of the
    scores that exist gives the start of the search with the exact one; where they are not clear enough for
    it, the search starts with that. Only where it is the last and cheap is `finish` aimed at on the way.
    """
    structure, prior = plant.structure(), None
    is_start = plant.has_clear_scores and (time_domain or not plant.is_complete)
    aim = finish if plant.has_clear_scores and not is_start else None
    objective, point, tests = first.likelihood, first.point, first.tests
    if degenerate:
        prior = Prior.for_units(*plant.uncoupled, plant.partition, plant.n_samples)
        objective, tests = WithPrior(objective, prior), None
        point = Point.at(objective, *plant.uncoupled)
    search = _search(objective, structure, point, sparsity, alpha, tests, aim)
    needs_prior = prior is None and is_singular(search.scoring.point.Q)  # the caller starts anew with one
    if is_start and not needs_prior:
        objective = WithPrior.of(plant.time_domain(), prior)
        found = search.scoring
        point = Point.at(objective, found.point.A, found.point.Q)
        search = _search(objective, found.structure, point, sparsity, alpha)
    return objective, search


def _search(objective, structure, point, sparsity, alpha, tests=None, finish=None):
    """Search for the structure, or every block free."""
    goals = _DEGENERATE_GOALS if isinstance(objective, WithPrior) else _GOALS
    if sparsity is not None:
        settings = {"alpha": alpha, "finish": finish, "tests": tests}
        return search_structure(objective, structure, point, **settings, **goals)
    every = np.ones(len(structure.partition.pairs), dtype=bool)
    scoring = Scoring(objective, structure.with_links(every), point)
    ascent = ascend(objective, scoring, gain_tol=goals["tol"])
    return StructureSearch(Scoring(objective, scoring.structure, ascent.point), 1, ascent.converged)
