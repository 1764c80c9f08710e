"""The sufficient statistic says about the states what the measurements say, whatever is missing."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from skfedcausal.statespace.observation import (
    Information,
    information,
    information_from_filter,
    is_regular,
    patterns_of,
    rows_of_patterns,
    weights,
)

from ._reference import EPS, assert_within, random_plant, rounding, simulate, statsmodels_moments, with_gaps

N_STATES, N_SENSORS, T = 2, 5, 40
GAPS = {
    "nothing": {"share": 0.0},
    "cells": {"share": 0.3},
    "rows": {"share": 0.0, "rows": (0, 7, 8, T - 1)},
    "a column": {"share": 0.0, "column": 2},
    "cells, rows and a column": {"share": 0.3, "rows": (0, 7, 8, T - 1), "column": 2},
    "everything": {"share": 1.0},
}


def case(gaps, noise):
    plant = random_plant(0, N_STATES, N_SENSORS)
    Y = with_gaps(simulate(plant, T, 1), 2, **GAPS[gaps])
    R = plant.R if noise == "full" else np.diag(plant.R)
    return plant.C, R, Y


def full(R):
    return np.diag(R) if R.ndim == 1 else R


def log_density(y, state, C, R):
    """Of the sensors that are there, given the state."""
    seen = ~np.isnan(y)
    if not seen.any():
        return 0.0
    return multivariate_normal.logpdf(y[seen], C[seen] @ state, full(R)[np.ix_(seen, seen)])


@pytest.mark.parametrize("noise", ["full", "diagonal"])
@pytest.mark.parametrize("gaps", GAPS)
def test_statistic_gives_the_log_density_of_the_sensors_that_are_there(gaps, noise):
    C, R, Y = case(gaps, noise)
    info = information(Y, C, R, with_const=True)
    for h in np.random.default_rng(3).normal(size=(4, N_STATES)):
        quadratic = np.einsum("i,tij,j->t", h, info.matrices(), h)
        expected = np.array([log_density(y, h, C, R) for y in Y])
        terms = np.abs(info.const) + np.abs(info.z @ h) + quadratic  # they cancel in part
        error = rounding(N_SENSORS, np.linalg.cond(full(R))) * (1 + terms)
        assert np.all(np.abs(info.const + info.z @ h - quadratic / 2 - expected) <= error)


@pytest.mark.parametrize("noise", ["full", "diagonal"])
@pytest.mark.parametrize("gaps", GAPS)
def test_statistic_is_that_of_the_formulas(gaps, noise):
    C, R, Y = case(gaps, noise)
    info = information(Y, C, R)
    assert info.const is None
    error = rounding(N_SENSORS, np.linalg.cond(full(R)))
    for y, z, J in zip(Y, info.z, info.matrices(), strict=True):
        seen = ~np.isnan(y)
        W = np.linalg.inv(full(R)[np.ix_(seen, seen)]) @ C[seen]
        assert_within(z, W.T @ y[seen], error * np.abs(W).sum() * np.abs(y[seen]).sum())
        assert_within(J, C[seen].T @ W, error * np.abs(W).sum() * np.abs(C).sum())


@pytest.mark.parametrize("gaps", GAPS)
def test_diagonal_noise_may_be_given_either_way(gaps):
    C, R, Y = case(gaps, "diagonal")
    short, long = (information(Y, C, r, with_const=True) for r in (R, np.diag(R)))
    for x, y in ((short.z, long.z), (short.matrices(), long.matrices()), (short.const, long.const)):
        assert_within(x, y, rounding(N_SENSORS) * (1 + np.abs(x).max()))


def test_weights_are_the_same_for_both_forms_of_diagonal_noise():
    C, R, _ = case("nothing", "diagonal")
    np.testing.assert_allclose(weights(C, R), weights(C, np.diag(R)), rtol=4 * EPS)


def test_complete_measurements_have_one_information_matrix():
    C, R, Y = case("nothing", "full")
    info = information(Y, C, R)
    assert info.is_constant
    assert info.patterns.shape == (1, N_STATES, N_STATES)
    assert info.matrices(slice(3, 9)).shape == (6, N_STATES, N_STATES)
    np.testing.assert_array_equal(info.mean_information, info.patterns[0])


def test_each_pattern_of_missing_sensors_has_its_information_matrix_once():
    C, R, Y = case("rows", "full")
    info = information(Y, C, R)
    assert not info.is_constant
    assert len(info.patterns) == 2
    np.testing.assert_array_equal(info.matrices(slice(6, 10)), info.matrices()[6:10])
    np.testing.assert_array_equal(info.matrices([0, 7]), np.zeros((2, N_STATES, N_STATES)))


def test_a_sensor_that_is_never_there_leaves_the_information_constant():
    C, R, Y = case("a column", "full")
    assert information(Y, C, R).is_constant


@pytest.mark.parametrize("gaps", GAPS)
def test_mean_information_is_the_average_over_time(gaps):
    C, R, Y = case(gaps, "full")
    info = information(Y, C, R)
    expected = info.matrices().mean(axis=0)
    assert_within(info.mean_information, expected, T * EPS * np.abs(info.patterns).max())


def test_states_are_determined_when_sensors_of_different_times_see_them_together():
    C, R = np.eye(2), np.ones(2)
    Y = np.full((6, 2), np.nan)
    Y[:3, 0] = 1.0
    assert not information(Y, C, R).determines_states
    Y[3:, 1] = 1.0
    assert information(Y, C, R).determines_states


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
@pytest.mark.parametrize(
    ("eigenvalues", "regular"),
    [([1, 1], True), ([1, 1.1e-12], True), ([1, 0.9e-12], False), ([1, 0], False), ([1, -1], False)],
)
def test_regular_means_positive_definite_with_a_bounded_condition_in_any_units(eigenvalues, regular, scale):
    J = scale * np.diag(np.array(eigenvalues, dtype=float))
    assert is_regular(J) is regular


def recovered_rounding(plant, prior_cov, posterior_cov, *states):
    """Error of differences of inverses (times states): the filter's rounding, magnified by its condition."""
    error = sum(
        plant.filter_rounding * np.linalg.cond(cov).max() * np.abs(np.linalg.inv(cov)).max()
        for cov in (prior_cov, posterior_cov)
    )
    assert error < 1e-6 * np.abs(plant.J).max()
    return error * (1 + sum(np.abs(h).max() for h in states))


def constant_gain_filter(plant, Y):
    """The textbook filter with the gain it settles on; returns priors and posteriors."""
    P = plant.predicted_cov
    K = P @ plant.C.T @ np.linalg.inv(plant.C @ P @ plant.C.T + plant.R)
    h, prior, posterior = np.zeros(plant.n_states), [], []
    for y in Y:
        prior.append(plant.A @ h)
        h = prior[-1] + K @ (y - plant.C @ prior[-1])
        posterior.append(h)
    return np.array(prior), P, np.array(posterior), P - K @ plant.C @ P


def test_statistic_is_recovered_from_a_filter_with_constant_gain():
    plant = random_plant(0, N_STATES, N_SENSORS)
    Y = simulate(plant, T, 1)
    run = constant_gain_filter(plant, Y)
    info = information_from_filter(*run)
    error = recovered_rounding(plant, run[1], run[3], run[0], run[2])
    assert info.is_constant
    assert_within(info.patterns[0], plant.J, error)
    assert_within(info.z, Y @ plant.W, error)


@pytest.mark.parametrize("gaps", ["nothing", "rows", "cells, rows and a column"])
def test_statistic_is_recovered_from_a_filter_with_its_own_gain_at_each_step(gaps):
    plant = random_plant(0, N_STATES, N_SENSORS)
    Y = with_gaps(simulate(plant, T, 1), 2, **GAPS[gaps])
    run = statsmodels_moments(plant, Y)
    info = information_from_filter(run.predicted, run.predicted_cov, run.filtered, run.filtered_cov)
    expected = information(Y, plant.C, plant.R)
    error = recovered_rounding(plant, run.predicted_cov, run.filtered_cov, run.predicted, run.filtered)
    assert info.is_constant == expected.is_constant
    assert_within(info.matrices(), expected.matrices(), error)
    assert_within(info.z, expected.z, error)


def filtered_by(prior_cov, posterior_cov):
    states = np.zeros((3, len(prior_cov)))
    return information_from_filter(states, np.asarray(prior_cov), states, np.asarray(posterior_cov))


@pytest.mark.parametrize("which", ["predicted", "filtered"])
def test_states_known_to_the_last_bit_cannot_be_read_from_a_filter(which):
    good, flat = np.eye(2), np.diag([1.0, 0.9 * EPS])
    covariances = (flat, good) if which == "predicted" else (good, flat)
    with pytest.raises(ValueError, match=f"covariance of the {which} states is not positive definite"):
        filtered_by(*covariances)
    with pytest.raises(ValueError, match="is not positive definite"):  # one row of several
        filtered_by(*(np.array([good, x, good]) for x in covariances))
    fine = np.diag([1.0, 1.1 * EPS])
    assert np.abs(filtered_by(fine, fine).patterns).max() == 0


@pytest.mark.parametrize("stacked", [False, True])
def test_directions_that_a_measurement_does_not_see_are_taken_out_of_what_it_says(stacked):
    """One sensor along ``seen``; what rounding puts into another direction of z is no information."""
    seen, unseen = np.array([0.48, 0.6, 0.64]), np.array([0.64, 0.0, -0.48])
    after = np.linalg.inv(np.eye(3) + np.outer(seen, seen))
    prior, posterior = np.zeros((4, 3)), after @ (2.0 * seen + 1e-13 * unseen) * np.ones((4, 1))
    before, after = (np.tile(x, (4, 1, 1)) if stacked else x for x in (np.eye(3), after))
    info = information_from_filter(prior, before, posterior, after)
    np.testing.assert_allclose(info.patterns, [np.outer(seen, seen)], atol=8 * EPS)
    np.testing.assert_allclose(info.z, np.tile(2.0 * seen, (4, 1)), rtol=1e-12)
    assert np.abs(info.z @ unseen).max() < 4e-15


@pytest.mark.parametrize("unit", [1.0, 1e3, 1e-3])
def test_a_filter_that_is_less_certain_after_a_measurement_is_refused_beyond_a_millionth(unit):
    before, after = np.eye(2) * unit, np.diag([0.5, 1 / (1 - 2 * 1.2e-6)]) * unit  # precision 2 at most
    with pytest.raises(ValueError, match="larger than the predicted one"):
        filtered_by(before, after)
    rounded = np.diag([0.5, 1 / (1 - 2 * 0.8e-6)]) * unit
    np.testing.assert_allclose(filtered_by(before, rounded).patterns[0] * unit, np.diag([1.0, 0.0]), atol=1e-12)


def test_a_statistic_holds_what_it_was_given():
    z, patterns, index = np.zeros((3, 2)), np.array([np.eye(2), np.zeros((2, 2))]), np.array([0, 1, 1])
    info = Information(z, patterns, index)
    np.testing.assert_array_equal(info.matrices(slice(1, None)), np.zeros((2, 2, 2)))
    np.testing.assert_allclose(info.mean_information, np.eye(2) / 3, rtol=2 * EPS)


def test_every_row_has_the_pattern_of_the_row_that_shows_it_first():
    present = np.random.default_rng(0).random((200, 11)) < 0.8
    first, index = patterns_of(present)
    np.testing.assert_array_equal(present[first[index]], present)
    assert len(np.unique(present, axis=0)) == len(first)
    for k, rows in enumerate(rows_of_patterns(index, len(first))):
        np.testing.assert_array_equal(rows, np.flatnonzero(index == k))
        assert rows[0] == first[k]


@pytest.mark.parametrize("unit", [1e-10, 1.0, 1e10])
def test_what_a_filter_made_of_measurements_has_the_same_patterns_in_any_units_of_the_states(unit):
    plant = random_plant(0, N_STATES, N_SENSORS)
    Y = simulate(plant, T, 1)
    Y[::2, 0] = np.nan
    run = statsmodels_moments(plant, Y)
    moments = run.predicted, run.predicted_cov, run.filtered, run.filtered_cov
    plain = information_from_filter(*moments)
    scaled = information_from_filter(*(x * unit ** (x.ndim - 1) for x in moments))
    assert len(plain.patterns) == len(scaled.patterns) == 2
    np.testing.assert_allclose(scaled.matrices() * unit**2, plain.matrices(), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(scaled.z * unit, plain.z, rtol=1e-6, atol=1e-9)
