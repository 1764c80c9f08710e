"""The filter of one unit with missing measurements gives the moments of the joint Gaussian."""

import numpy as np
import pytest

from skfedcausal.statespace import kalman
from skfedcausal.statespace.kalman import filter_missing, pseudo_measurements
from skfedcausal.statespace.observation import Information, information

from ._reference import (
    assert_within,
    brute_force,
    brute_force_rounding,
    random_covariance,
    random_plant,
    rounding,
    simulate,
    statsmodels_moments,
    with_gaps,
)


def assert_filtered(plant, Y, expected, error, **options):
    info = information(Y, plant.C, plant.R, with_const=True)
    result = filter_missing(plant.A, plant.Q, plant.P0, info, **options)
    scale = 1 + np.nanmax(np.abs(Y))
    assert_within(result.filtered, expected.filtered, error * scale)
    assert_within(result.predicted, expected.predicted, error * scale)
    log_density = info.const + result.log_likelihood
    assert_within(log_density, expected.log_density, error * scale**2)


@pytest.mark.parametrize("starts", [(0,), (0, 4, 5), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("with_drive", [False, True])
@pytest.mark.parametrize(("n_states", "n_sensors"), [(1, 1), (2, 4), (3, 1), (3, 3)])
def test_filter_gives_the_moments_of_the_joint_gaussian(n_states, n_sensors, with_drive, starts):
    plant = random_plant(n_states, n_states, n_sensors)
    Y = with_gaps(simulate(plant, 9, 1), 2, rows=(0, 3, 8))
    drive = np.random.default_rng(3).normal(size=(9, n_states)) if with_drive else None
    expected = brute_force(plant, Y, drive, starts)
    assert_filtered(plant, Y, expected, brute_force_rounding(plant, Y), exogenous=drive, starts=starts)


@pytest.mark.parametrize("n_samples", [1, 2, 3, 4])
def test_episodes_may_be_as_short_as_one_row(n_samples):
    plant = random_plant(0, 3, 3)  # three rows of three pseudo-measurements look the same either way round
    Y = with_gaps(simulate(plant, n_samples, 1), 2, share=0.2)
    assert_filtered(plant, Y, brute_force(plant, Y), brute_force_rounding(plant, Y))


@pytest.mark.parametrize("with_drive", [False, True])
@pytest.mark.parametrize("chunk", [1, 5, 49, 50, 51, 1000])
def test_chunks_hand_the_state_on(chunk, with_drive, monkeypatch):
    monkeypatch.setattr(kalman, "_CHUNK", chunk)
    plant = random_plant(1, 3, 4, radius_=0.95)
    Y = with_gaps(simulate(plant, 100, 1), 2, rows=(49, 50, 51))
    drive = np.random.default_rng(3).normal(size=(100, 3)) if with_drive else None
    expected = statsmodels_moments(plant, Y, drive, starts=(0, 33))
    assert_filtered(plant, Y, expected, plant.filter_rounding, exogenous=drive, starts=(0, 33))


def test_an_absent_unit_is_predicted_by_its_model_alone():
    plant = random_plant(0, 2, 3)
    Y = simulate(plant, 40, 1)
    Y[20:] = np.nan
    result = filter_missing(plant.A, plant.Q, plant.P0, information(Y, plant.C, plant.R))
    expected = [np.linalg.matrix_power(plant.A, k) @ result.filtered[19] for k in range(1, 21)]
    error = plant.filter_rounding * (1 + np.abs(result.filtered).max())
    assert_within(result.filtered[20:], expected, error)
    assert_within(result.log_likelihood[20:], 0, error)


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_pseudo_measurements_carry_the_information_of_the_measurements(rank):
    rng = np.random.default_rng(rank)
    C = rng.normal(size=(rank, 3))
    noise = random_covariance(rng, rank)
    J = C.T @ np.linalg.solve(noise, C)
    z = rng.normal(size=(20, rank)) @ C
    designs, series = pseudo_measurements(Information(z, J[None]))
    assert designs.shape == (1, 3, 3)
    error = rounding(3) * (1 + np.abs(J).max())
    assert_within(designs[0].T @ designs[0], J, error)
    # whitening divides by the square root of the smallest eigenvalue there is
    condition = np.sqrt(np.linalg.cond(C @ C.T) * np.linalg.cond(noise)) if rank else 1.0
    assert_within(series @ designs[0], z, error * condition * (1 + np.abs(z).max()))
    measured = np.abs(designs[0]).max(axis=1) > 0
    assert measured.sum() == rank
    np.testing.assert_array_equal(series[:, ~measured], 0)


def test_each_time_step_gets_the_pseudo_measurements_of_its_pattern():
    rng = np.random.default_rng(0)
    patterns = np.array([random_covariance(rng, 2), np.zeros((2, 2)), np.diag([4.0, 0.0])])
    index = np.array([0, 2, 1, 2])
    z = np.array([patterns[k] @ rng.normal(size=2) for k in index])
    designs, series = pseudo_measurements(Information(z, patterns, index))
    error = rounding(2, np.sqrt(np.linalg.cond(patterns[0]))) * (1 + np.abs(z).max())
    assert_within(np.einsum("tji,tj->ti", designs[index], series), z, error)
