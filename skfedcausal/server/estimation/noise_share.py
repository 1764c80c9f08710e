"""How much of the measurements is sensor noise, in units whose measurements alone do not tell it from states.

With as many states as sensors every split of the variance explains the present. Forecasts tell: noise that is
taken for states, as slow disturbances are, makes the plant forget too soon what its inputs did to it. A share
above one is more noise than the past leaves unpredicted: the plant then explains what the inputs do over many
steps and leaves everything else to the noise, like an output-error model.
"""

import numpy as np

from ...statespace.episodes import episodes
from ..prediction import InputDrive, PlantFilter

SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 2.0, 5.0, 20.0)  # of what the past leaves unpredicted
_TOLERANCE = 0.001  # relative rise of the error over the best that a smaller share may have
_LONGEST = 10  # parts of an episode that forecasts reach at most one of: fewer say too little of them
_MAX_ORIGINS = 2000  # time steps that forecasts start from, evenly spread


def choose_noise_share(record, estimate, horizon):
    """Share of noise whose plant forecasts its own record best, the smallest of those that are as good."""
    plants, errors = [], []
    for share in SHARES:
        other = record.with_noise_share(share)
        plants.append(estimate(other))
        errors.append(forecast_error(other, plants[-1], horizon))
        if share > 1 and errors[-1] > min(errors):  # still more noise takes longest
            break
    best = smallest(SHARES[: len(errors)], errors)
    return best, plants[SHARES.index(best)]


def smallest(shares, errors):
    """The first share whose error is as good as the best."""
    enough = (1 + _TOLERANCE) * min(errors)
    return next(share for share, error in zip(shares, errors, strict=True) if error <= enough)


def forecast_error(record, plant, horizon):
    """Root mean square of forecasts 1 to `horizon` steps ahead of the scores ``J^-1 z`` under their inputs.

    Scores of the units that have a choice, each unit's in the metric of their covariance.
    """
    horizon = min(horizon, max(np.diff([*record.starts, record.n_samples])) // _LONGEST)
    S = plant.coefficients.state_scale
    drive = InputDrive(plant.shrunk_B, record.input_level, S @ S.T)
    run = PlantFilter(plant.shrunk_A, plant.Q, record, drive)
    origins = np.concatenate(
        [np.arange(a, b - horizon) for a, b in episodes(record.starts, record.n_samples)]
    )
    origins = origins[:: max(len(origins) // _MAX_ORIGINS, 1)]
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
