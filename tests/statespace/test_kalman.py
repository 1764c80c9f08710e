"""The filter with settling covariances gives the moments of the joint Gaussian."""

import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

from skfedcausal.statespace.kalman import (
    NotStationaryError,
    covariance_schedule,
    filtered_states,
    log_likelihood_terms,
    predicted_states,
)
from skfedcausal.statespace.observation import information

from ._reference import (
    assert_within,
    brute_force,
    brute_force_rounding,
    radius,
    random_covariance,
    random_plant,
    rounding,
    simulate,
    statsmodels_moments,
)


def run(plant, Y, drive=None, starts=(0,)):
    """Filtered and predicted states and log-density of each row."""
    schedule = covariance_schedule(plant.A, plant.Q, plant.J, plant.P0)
    info = information(Y, plant.C, plant.R, with_const=True)
    filtered = filtered_states(schedule, info.z, exogenous=drive, starts=starts)
    predicted = predicted_states(plant.A, filtered, exogenous=drive, starts=starts)
    return filtered, predicted, log_likelihood_terms(schedule, info.z, info.const, predicted, starts)


def assert_run(plant, Y, expected, error, **options):
    filtered, predicted, log_density = run(plant, Y, **options)
    scale = 1 + np.abs(Y).max()
    assert_within(filtered, expected.filtered, error * scale)
    assert_within(predicted, expected.predicted, error * scale)
    # a quadratic form in measurements whitened by their covariance
    assert_within(log_density, expected.log_density, error * scale**2)


@pytest.mark.parametrize("starts", [(0,), (0, 3, 4), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("with_drive", [False, True])
@pytest.mark.parametrize(("n_states", "n_sensors"), [(1, 1), (2, 4), (3, 1)])
def test_filter_gives_the_moments_of_the_joint_gaussian(n_states, n_sensors, with_drive, starts):
    plant = random_plant(n_states, n_states, n_sensors)
    Y = simulate(plant, 9, 1)
    drive = np.random.default_rng(2).normal(size=(9, n_states)) if with_drive else None
    expected = brute_force(plant, Y, drive, starts)
    assert_run(plant, Y, expected, brute_force_rounding(plant, Y), drive=drive, starts=starts)


@pytest.mark.parametrize("first", ["known", "wide", "steady"])
def test_first_state_may_have_any_covariance(first):
    plant = random_plant(0, 2, 3)
    P0 = {"known": np.zeros((2, 2)), "wide": 1e3 * np.eye(2), "steady": plant.predicted_cov}[first]
    plant = random_plant(0, 2, 3, P0=P0)
    Y = simulate(plant, 8, 1)
    assert_run(plant, Y, brute_force(plant, Y), brute_force_rounding(plant, Y))


@pytest.mark.parametrize("radius_", [0.5, 0.95, 1.0, 1.05])
def test_filter_agrees_with_statsmodels_on_long_episodes(radius_):
    # settles within the first episode, so the loop, the recurrence and the change between them all count
    plant = random_plant(3, 3, 4, radius_, P0=np.eye(3))
    Y = simulate(plant, 220, 1)
    drive = np.random.default_rng(2).normal(size=(220, 3))
    options = {"drive": drive, "starts": (0, 150, 155)}
    assert covariance_schedule(plant.A, plant.Q, plant.J, plant.P0).n_transient < 100
    assert_run(plant, Y, statsmodels_moments(plant, Y, **options), plant.filter_rounding, **options)


@pytest.mark.parametrize("extra", [-2, -1, 0, 1, 2])
def test_filter_agrees_with_statsmodels_where_the_covariances_settle(extra):
    plant = random_plant(3, 2, 3)
    n_transient = covariance_schedule(plant.A, plant.Q, plant.J, plant.P0).n_transient
    assert n_transient > 3
    Y = simulate(plant, 2 * (n_transient + extra), 1)
    options = {"starts": (0, n_transient + extra)}
    assert_run(plant, Y, statsmodels_moments(plant, Y, **options), plant.filter_rounding, **options)


def test_predictions_from_the_past_do_not_change_when_the_future_arrives():
    plant = random_plant(0, 3, 3)
    Y = simulate(plant, 400, 1)
    whole = run(plant, Y)
    for n_rows in (1, 5, 37, 399):
        for part, all_rows in zip(run(plant, Y[:n_rows]), whole, strict=True):
            scale = np.abs(Y).max() ** 2
            assert_within(part, all_rows[:n_rows], plant.filter_rounding * scale)


def test_a_known_term_acts_in_its_own_row_and_starts_an_episode_as_its_mean():
    plant = random_plant(0, 2, 2)
    drive = np.zeros((6, 2))
    drive[0], drive[4] = (1.0, 2.0), (3.0, -1.0)
    schedule = covariance_schedule(plant.A, plant.Q, plant.J, plant.P0)
    h0 = drive[0] - schedule.filtered[0] @ plant.J @ drive[0]
    filtered = filtered_states(schedule, np.zeros((6, 2)), exogenous=drive)
    predicted = predicted_states(plant.A, filtered, exogenous=drive)
    error = plant.filter_rounding * 10
    assert_within(filtered[0], h0, error)
    assert_within(predicted[0], drive[0], error)
    assert_within(predicted[4], plant.A @ filtered[3] + drive[4], error)


@pytest.mark.parametrize("n_states", [1, 2, 4])
def test_schedule_follows_the_covariances_of_the_joint_gaussian_until_they_settle(n_states):
    plant = random_plant(n_states, n_states, n_states)
    schedule = covariance_schedule(plant.A, plant.Q, plant.J)
    Y = simulate(plant, 10, 0)
    expected = brute_force(plant, Y)
    error = brute_force_rounding(plant, Y)
    for t in range(10):
        predicted, filtered = schedule.at(t)
        assert_within(predicted, expected.predicted_cov[t], error * np.abs(predicted).max())
        assert_within(filtered, expected.filtered_cov[t], error * np.abs(predicted).max())
    settled, _ = schedule.at(10_000)
    amplification = 1 / (1 - radius(plant.filter_matrix) ** 2)
    error = plant.filter_rounding * amplification * np.abs(settled).max()
    assert_within(settled, plant.predicted_cov, error)


def test_an_episode_that_starts_settled_has_no_transient():
    plant = random_plant(0, 2, 2)
    settled = covariance_schedule(plant.A, plant.Q, plant.J).predicted[-1]
    assert covariance_schedule(plant.A, plant.Q, plant.J, settled).n_transient == 0


def steps_to_settle(plant):
    """Steps after which covariances differ by 1e-14 from the settled ones: they close in like the filter
    squared; ten more for the start of a filter that is not normal."""
    return 10 + np.log(1e-14) / (2 * np.log(radius(plant.filter_matrix)))


def test_transient_lasts_as_long_as_the_filter_needs_to_forget():
    plant = random_plant(0, 4, 6, noise=10.0)
    schedule = covariance_schedule(plant.A, plant.Q, plant.J)
    assert schedule.n_transient < 1.5 * steps_to_settle(plant)


@pytest.mark.parametrize("noise", [1e-4, 1e-6])
def test_transient_ends_when_there_are_fewer_good_sensors_than_states(noise):
    lengths, limits = [], []
    for seed in range(10):
        plant = random_plant(seed, 4, 1, noise=noise)
        lengths.append(covariance_schedule(plant.A, plant.Q, plant.J, max_steps=2000).n_transient)
        limits.append(3 * steps_to_settle(plant))
    assert np.all(np.array(lengths) < limits)


def test_a_plant_that_is_not_stationary_needs_a_first_covariance():
    A, Q, J = np.diag([1.0, 0.5]), np.eye(2), np.eye(2)
    with pytest.raises(NotStationaryError, match="not stationary"):
        covariance_schedule(A, Q, J)
    p = covariance_schedule(A, Q, J, np.eye(2)).predicted[-1][0, 0]
    assert p == pytest.approx((1 + np.sqrt(5)) / 2, rel=rounding(1))  # p = p / (1 + p) + 1


def test_first_covariance_is_the_stationary_one_unless_given():
    plant = random_plant(0, 3, 3)
    first = covariance_schedule(plant.A, plant.Q, plant.J).predicted[0]
    expected = solve_discrete_lyapunov(plant.A, plant.Q)
    assert_within(first, expected, plant.filter_rounding * np.abs(expected).max())
    given = random_covariance(np.random.default_rng(0), 3)
    np.testing.assert_array_equal(covariance_schedule(plant.A, plant.Q, plant.J, given).predicted[0], given)
