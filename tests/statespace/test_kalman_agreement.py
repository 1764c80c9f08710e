"""The three filters give the same states and likelihoods, each by its own way."""

import numpy as np
import pytest

from skfedcausal.statespace.kalman import (
    covariance_schedule,
    filter_missing,
    filter_rows,
    filtered_states,
    log_likelihood_terms,
    predicted_states,
)
from skfedcausal.statespace.observation import information

from ._reference import assert_within, random_plant, simulate, with_gaps


def by_settling(plant, info, starts):
    schedule = covariance_schedule(plant.A, plant.Q, plant.J, plant.P0)
    filtered = filtered_states(schedule, info.z, starts=starts)
    predicted = predicted_states(plant.A, filtered, starts=starts)
    return filtered, predicted, log_likelihood_terms(schedule, info.z, 0.0, predicted, starts)


def by_varying(plant, info, starts):
    parts = filter_rows(plant.A, plant.Q, plant.P0, info.z, info.matrices, starts=starts)
    columns = zip(*((part.filtered, part.predicted, part.terms) for part in parts), strict=True)
    return tuple(np.concatenate(column) for column in columns)


def by_missing(plant, info, starts):
    run = filter_missing(plant.A, plant.Q, plant.P0, info, starts=starts)
    return run.filtered, run.predicted, run.log_likelihood


@pytest.mark.parametrize("starts", [(0,), (0, 1, 300, 302)], ids=str)
@pytest.mark.parametrize(("n_states", "n_sensors"), [(1, 3), (3, 1), (4, 8)])
@pytest.mark.parametrize(
    ("methods", "gaps"),
    [((by_settling, by_varying), None), ((by_settling, by_missing), None), ((by_varying, by_missing), 0.3)],
    ids=["settling = varying", "settling = missing", "varying = missing, with gaps"],
)
def test_filters_agree(methods, gaps, n_states, n_sensors, starts):
    plant = random_plant(n_states, n_states, n_sensors, radius_=0.95)
    Y = simulate(plant, 400, 1)
    if gaps is not None:
        Y = with_gaps(Y, 2, share=gaps, rows=range(50, 80))
    info = information(Y, plant.C, plant.R)
    scale = 1 + np.abs(info.z).max()
    for a, b in zip(*(method(plant, info, starts) for method in methods), strict=True):
        assert_within(a, b, plant.filter_rounding * scale)
