"""The observation step maximises the expected log-density of what was measured."""

import numpy as np
import pytest

from skfedcausal.statespace.em import observation_step
from skfedcausal.statespace.observation import information
from skfedcausal.statespace.smoother import smooth_varying

from ._reference import (
    EPS,
    Plant,
    assert_within,
    derivatives,
    random_covariance,
    random_plant,
    rounding,
    simulate,
    statsmodels_moments,
    with_gaps,
)

T, N_STATES, N_SENSORS = 80, 2, 4
NO_FLOOR = np.zeros(N_SENSORS)


def case(share=0.0):
    """Measurements with a level, states and their covariances at each step."""
    rng = np.random.default_rng(0)
    states, C = rng.normal(size=(T, N_STATES)), rng.normal(size=(N_SENSORS, N_STATES))
    Y = states @ C.T + 3.0 + 0.5 * rng.normal(size=(T, N_SENSORS))
    covariances = np.array([random_covariance(rng, N_STATES) for _ in range(T)])
    return with_gaps(Y, 1, share=share), states, covariances


def expected_log_density(y, states, covariances, loading, variance, mean):
    """Of one sensor over the time steps at which it is there."""
    seen = ~np.isnan(y)
    h, V = states[seen], covariances[seen]
    squares = (y[seen] - h @ loading - mean) ** 2 + np.einsum("i,tij,j->t", loading, V, loading)
    return -0.5 * np.sum(np.log(2 * np.pi * variance) + squares / variance)


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_step_maximises_the_expected_log_density(share):
    Y, states, covariances = case(share)
    rng = np.random.default_rng(2)
    for y, *best in zip(Y.T, *observation_step(Y, states, covariances, NO_FLOOR), strict=True):

        def function(vector, y=y, best=best):
            loading, variance, mean = best
            d = vector[0]
            return expected_log_density(
                y, states, covariances, loading + d[:N_STATES], variance * np.exp(d[-2]), mean + d[-1]
            )

        origin = np.zeros((1, N_STATES + 2))
        slopes, error = derivatives(function, origin)
        assert error < 1e-6
        assert_within(slopes, 0, error)
        for scale in (1e-3, 0.1, 1.0):
            for change in scale * rng.normal(size=(20, 1, N_STATES + 2)):
                assert function(change) < function(origin)


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_step_is_least_squares_of_each_sensor_when_states_are_known(share):
    Y, states, _ = case(share)
    C, R, mean = observation_step(Y, states, np.zeros((N_STATES, N_STATES)), NO_FLOOR)
    for y, *result in zip(Y.T, C, R, mean, strict=True):
        seen = ~np.isnan(y)
        X = np.column_stack([states, np.ones(T)])[seen]
        theta, squares, *_ = np.linalg.lstsq(X, y[seen])
        error = rounding(T, np.linalg.cond(X) ** 2) * np.abs(y[seen]).max() ** 2
        assert_within(np.append(result[0], result[2]), theta, error)
        assert result[1] == pytest.approx(squares[0] / seen.sum(), abs=error)


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_one_covariance_stands_for_the_same_at_each_step(share):
    Y, states, covariances = case(share)
    V = covariances[0]
    once = observation_step(Y, states, V, NO_FLOOR)
    each = observation_step(Y, states, np.broadcast_to(V, (T, *V.shape)), NO_FLOOR)
    for a, b in zip(once, each, strict=True):
        np.testing.assert_allclose(a, b, rtol=rounding(T, 100))


def test_noise_variances_are_not_below_their_floor():
    Y, states, covariances = case()
    free = observation_step(Y, states, covariances, NO_FLOOR)
    floor = free[1] * [0.5, 2.0, 1.0, 3.0]
    C, R, mean = observation_step(Y, states, covariances, floor)
    np.testing.assert_array_equal(R, np.maximum(free[1], floor))
    np.testing.assert_array_equal(C, free[0])
    np.testing.assert_array_equal(mean, free[2])


def test_with_smoothed_states_the_step_raises_the_likelihood():
    """The property that makes it expectation maximisation; the transition stays as it is."""
    model = random_plant(0, N_STATES, N_SENSORS)
    R = np.diag(model.R)
    Y = with_gaps(simulate(Plant(model.A, model.Q, model.C, np.diag(R), model.P0), 200, 1), 2)
    rng = np.random.default_rng(3)
    C, R, mean = model.C + 0.3 * rng.normal(size=model.C.shape), 2 * R, np.full(N_SENSORS, 0.5)
    values = []
    for _ in range(6):
        plant = Plant(model.A, model.Q, C, np.diag(R), model.P0)
        values.append(statsmodels_moments(plant, Y - mean).log_density.sum())
        info = information(Y - mean, C, R)
        keep = [slice(0, N_STATES)]
        kept = smooth_varying(model.A, model.Q, model.P0, info.z, info.matrices, keep=keep)
        C, R, mean = observation_step(Y, kept.states, kept.covariances[0], NO_FLOOR)
    gains = np.diff(values)
    assert np.all(gains > 0)
    assert gains[0] > 10  # the start was far off


@pytest.mark.parametrize("level", [1e6, 1e8])
def test_noise_of_a_sensor_does_not_depend_on_its_level(level):
    Y, states, covariances = case()
    expected = observation_step(Y, states, covariances, NO_FLOOR)[1]
    shifted = observation_step(Y + level, states, covariances, NO_FLOOR)[1]
    # Y is rounded to eps * level, a sum of T squares of residuals of size 0.5 no worse than T times that
    np.testing.assert_allclose(shifted, expected, rtol=10 * T * EPS * level)
