"""The smoother without a loop over time gives what the one that steps through it gives."""

import numpy as np
import pytest

from skfedcausal.statespace.observation import information
from skfedcausal.statespace.timedomain import smooth_constant, smooth_varying

from ._reference import assert_within, random_covariance, random_plant, simulate

STARTS = pytest.mark.parametrize("starts", [(0,), (0, 1, 2, 60), (0, 5, 130)], ids=str)


def results(plant, Y, **options):
    """What both smoothers find."""
    info = information(Y, plant.C, plant.R)
    keep = [slice(0, 1), slice(0, plant.n_states)]
    for run, J in ((smooth_constant, plant.J), (smooth_varying, info.matrices)):
        yield run(plant.A, plant.Q, plant.P0, info.z, J, keep=keep, **options)


def assert_same(plant, Y, **options):
    sums, expected = results(plant, Y, **options)
    size = plant.filter_rounding * (1 + np.abs(Y).max())
    assert_within(sums.states, expected.states, size * (1 + np.abs(expected.states).max()))
    for a, b in zip(sums.covariances, expected.covariances, strict=True):
        assert_within(a, b, plant.filter_rounding * np.abs(plant.P0).max())
    assert_within(sums.levels, expected.levels, size * (1 + np.abs(expected.levels).max()))
    for name in ("value", "grad_A", "grad_B", "grad_Q", "grad_P0"):
        a, b = getattr(sums, name), getattr(expected, name)
        assert_within(a, b, len(Y) * size * (1 + np.abs(b).max(initial=0.0)))


@STARTS
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("n_states", "n_sensors"), [(1, 3), (2, 2), (3, 1), (4, 8)])
def test_same_as_step_by_step(n_states, n_sensors, intercept, starts):
    plant = random_plant(n_states, n_states, n_sensors, radius_=0.9)
    Y = simulate(plant, 200, 1) + (2.0 if intercept else 0.0)
    assert_same(plant, Y, starts=starts, intercept=intercept)


@STARTS
@pytest.mark.parametrize("intercept", [False, True])
def test_same_with_inputs(intercept, starts):
    plant = random_plant(3, 3, 4)
    rng = np.random.default_rng(0)
    known, inputs = rng.normal(size=(200, 3)), rng.normal(size=(200, 2))
    Y = simulate(plant, 200, 1, known)
    assert_same(plant, Y, starts=starts, intercept=intercept, exogenous=known, inputs=inputs)


@pytest.mark.parametrize("n_samples", [1, 2, 3, 10])
def test_same_in_episodes_too_short_to_settle(n_samples):
    plant = random_plant(0, 3, 4, noise=50.0)
    assert_same(plant, simulate(plant, n_samples, 1), intercept=False)


@pytest.mark.parametrize("scale", [0.0, 100.0])
def test_same_from_a_start_that_is_not_stationary(scale):
    P0 = scale * random_covariance(np.random.default_rng(0), 3)
    plant = random_plant(0, 3, 4, P0=P0)
    sums = list(results(plant, simulate(plant, 100, 1), intercept=True))
    np.testing.assert_allclose(sums[0].grad_A, sums[1].grad_A, rtol=0, atol=1e-9 * np.abs(sums[1].grad_A).max())
    assert sums[0].value == pytest.approx(sums[1].value, abs=1e-9 * (1 + abs(sums[1].value)))


def test_same_when_sensors_do_not_see_all_states():
    plant = random_plant(0, 3, 1)
    assert_same(plant, simulate(plant, 300, 1), intercept=True)
