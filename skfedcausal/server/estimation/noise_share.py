"""How much of the measurements is sensor noise, and long records whose gaps the plant itself fills."""

from dataclasses import replace
from functools import partial

import numpy as np

from ...statespace.episodes import episode_lengths, episodes
from ...statespace.timedomain import smooth
from ..dynamics import InputDrive, PlantFilter
from ..lagged.misfit import filled_record
from .estimate import UNITS_WORK, estimate_plant
from .scoring import Budget, Point, Scoring, ascend, spend
from .standardised import StandardisedPlant
from .tuning import TUNING

# How much of the measurements is sensor noise, in units whose measurements alone do not tell it from states.
#
# With as many states as sensors every split of the variance explains the present. Forecasts tell: noise that is
# taken for states, as slow disturbances are, makes the plant forget too soon what its inputs did to it. A share
# above one is more noise than the past leaves unpredicted: the plant then explains what the inputs do over many
# steps and leaves everything else to the noise, like an output-error model.

SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 2.0, 5.0, 20.0)  # of what the past leaves unpredicted
FILTERED = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)  # the same for the filter of a known plant
_TOLERANCE = 0.001  # relative rise of the error over the best that a smaller share may have
_LONGEST = 10  # parts of an episode that forecasts reach at most one of: fewer say too little of them


def choose_noise_share(record, settings, horizon):
    """Share of noise whose plant forecasts its own record best, the smallest of those that are as good."""
    return _best_of(SHARES, record, partial(estimate_plant, settings=settings), horizon, settings.budget)


def choose_filter(record, estimate, settings):
    """Share of noise with which a plant predicts a single step of its own record best.

    Forecasts over many steps ask for coefficients that carry what the inputs do, which a large share of
    noise gives; a single step is told best by following whatever else moves the measurements, as
    disturbances do that the states have no room for. So the coefficients stay, and the process noise is
    learned anew with other shares.
    """

    def relearned(noisy):
        return replace(estimate, Q=process_covariance(noisy, estimate, settings))

    return _best_of(FILTERED, record, relearned, 1, settings.budget)


def _best_of(shares, record, learn, horizon, budget):
    """The first share whose plant forecasts as well as the best, and the plant; of those the budget allows."""
    plants, errors = [], []
    for share in shares:
        noisy = record.with_noise_share(share)
        plants.append(learn(noisy))
        errors.append(forecast_error(noisy, plants[-1], horizon))
        if share > 1 and errors[-1] > min(errors):  # still more noise takes longest
            break
        if budget is not None and budget.is_spent:
            shares = shares[: len(plants)]
            break
    best = int(np.argmax(np.array(errors) <= (1 + _TOLERANCE) * min(errors)))
    return shares[best], plants[best]


def process_covariance(record, estimate, settings):
    """Process covariance that is most likely for known coefficients, the shrunk ones of an estimate.

    The estimate is of another share of noise in the same, complete record.
    """
    plant = StandardisedPlant(record.at_steps(estimate.steps), settings.local, settings.fix_local)
    Q = plant.uncoupled[1]  # sets the number of lags of the likelihood
    plant.budget = settings.budget
    objective = plant.first_likelihood()
    spend(objective, UNITS_WORK * len(plant.names))
    A = plant.scaled(np.hstack([estimate.shrunk_A, estimate.shrunk_B, estimate.levels]))
    known = ("linked", "driven", "shifted", "free_dynamics", "own_inputs")
    masks = {name: np.zeros_like(getattr(estimate.structure, name)) for name in known}
    scoring = Scoring(objective, estimate.structure.with_masks(**masks), Point.at(objective, A, Q))
    gain_tol = plant.n_samples * settings.tol**2
    ascent = ascend(objective, scoring, gain_tol=gain_tol, max_iter=settings.max_iter)
    return plant.unscaled_covariance(ascent.point.Q)


def forecast_error(record, plant, horizon):
    """Root mean square of forecasts 1 to `horizon` steps ahead of the scores ``J^-1 z`` under their inputs.

    Scores of the units that have a choice, each unit's in the metric of their covariance.
    """
    horizon = min(horizon, max(episode_lengths(record.starts, record.n_samples)) // _LONGEST)
    S = plant.parameters.state_scale
    drive = InputDrive(plant.shrunk_B, record.input_level, S @ S.T)
    run = PlantFilter(plant.shrunk_A, plant.Q, record, drive)
    origins = np.concatenate([np.arange(a, b - horizon) for a, b in episodes(record.starts, record.n_samples)])
    origins = origins[:: max(len(origins) // TUNING.noise_share_max_origins, 1)]
    scores = [
        (rows, part.z @ np.linalg.inv(part.patterns[0]))
        for part, rows, choice in zip(record.parts, record.partition.slices, record.unpredicted, strict=True)
        if choice is not None
    ]
    weights = [np.linalg.inv(np.atleast_2d(np.cov(s, rowvar=False))) for _, s in scores]
    states, total = run.filtered[origins], 0.0
    for ahead in range(1, horizon + 1):
        states = states @ plant.shrunk_A.T + run.inputs[origins + ahead - 1] @ plant.shrunk_B.T
        for (rows, s), weight in zip(scores, weights, strict=True):
            error = s[origins + ahead] - states[:, rows]
            total += np.einsum("ti,ij,tj->", error, weight, error) / len(weight)
    return float(np.sqrt(total / (horizon * len(origins) * len(scores))))


# Plants of long records with gaps, learned from what the plant itself expects in the gaps.
#
# The exact likelihood of a record with gaps goes through it row by row, at every step of a search. Where there is no
# time for that, every row is taken as if it were seen as the best one, with what the states expected of the plant so
# far would have shown. States that were rarely missing are hardly changed by it.

_PASSES = 3, 6  # over the record, of each filling
_SETTLED = 1e-3  # change of the states in a pass, of their standard deviation


def estimate_filled(record, settings):
    """Estimate from a record filled twice, and this record.

    First as the units on their own expect, then as the plant does that this gives.
    """
    plant = StandardisedPlant(record, settings.local, settings.fix_local)
    A, Q = plant.uncoupled
    A, Q, centred = plant.unscaled(A), plant.unscaled_covariance(Q), record.centred()
    states = np.zeros((record.n_samples, len(Q)))
    estimate, filled, settings = None, centred, replace(settings, edges=False)
    seconds = settings.budget.max_time
    for n_passes in _PASSES:
        states = _expected(A, Q, centred, states, n_passes)
        filled = filled_record(centred, states)
        estimate = estimate_plant(filled, replace(settings, budget=Budget(seconds)))  # of the clock, too
        A, Q = estimate.A, estimate.Q
    return estimate, filled


def _expected(A, Q, record, states, n_passes):
    """States expected given a record with gaps, by some passes over the record with the gaps filled.

    They solve ``(P^-1 + J_t) h = z_t`` row by row, P the states' covariance: with the best rows' information J the
    right side gains ``(J - J_t) h``, which is the step that is repeated.
    """
    for _ in range(n_passes):
        before, filled = states, filled_record(record, states)
        about = {"J": filled.mean_information(), "starts": filled.starts, "keep": (), "intercept": False}
        states = smooth(A, Q, filled.z, filled.matrices, **about)[1].states
        if np.sqrt(np.mean((states - before) ** 2)) < _SETTLED * np.sqrt(np.mean(states**2)):
            break
    return states
