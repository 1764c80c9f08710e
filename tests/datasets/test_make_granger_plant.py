"""The simulated plant obeys its equations, and its truth describes it.

Tolerances of statistical checks are five standard errors.
"""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import solve_discrete_lyapunov

from skfedcausal.datasets import make_granger_plant

QUIET = 1e-9  # process noise that leaves the deterministic part of the state equation


def stationary_covariance(truth):
    drive = truth.process_cov
    if truth.input is not None:
        drive = drive + truth.input @ truth.input.T
    return solve_discrete_lyapunov(truth.transition, drive)


def assert_covariance(samples, expected):
    """Sample covariance (known zero mean) within five standard errors of a Gaussian's."""
    error = samples.T @ samples / len(samples) - expected
    variance = np.diag(expected)
    stderr = np.sqrt((np.outer(variance, variance) + expected**2) / len(samples))
    assert (np.abs(error) <= 5 * stderr + 1e-12).all()


def state_residuals(truth):
    """Process noise, from states and matrices."""
    h, A = truth.states, truth.transition
    w = h[1:] - h[:-1] @ A.T
    if truth.inputs is not None:
        w -= np.hstack([u for u in truth.inputs if u is not None])[:-1] @ truth.input.T
    return w


# --- the equations ---------------------------------------------------------------------------


def test_regression_on_lagged_states_recovers_transition_and_input():
    _, truth = make_granger_plant(3, n_inputs=[1, 0, 2], n_samples=20_000, random_state=0)
    u = np.hstack([u for u in truth.inputs if u is not None])
    past = np.hstack([truth.states, u])[:-1]
    estimate = np.linalg.lstsq(past, truth.states[1:], rcond=None)[0].T
    error = estimate - np.hstack([truth.transition, truth.input])
    spread = np.diag(np.linalg.inv(past.T @ past))
    assert (np.abs(error) < 5 * np.sqrt(np.outer(np.diag(truth.process_cov), spread))).all()


def test_process_noise_has_the_stated_covariance_and_is_white():
    _, truth = make_granger_plant(3, process_noise=[0.5, 1.0, 3.0], n_inputs=1, random_state=0)
    w = state_residuals(truth)
    assert_array_equal(np.diag(truth.process_cov), np.repeat([0.25, 1.0, 9.0], 2))
    assert_covariance(w, truth.process_cov)
    z = w / np.sqrt(np.diag(truth.process_cov))
    assert np.abs(z[1:].T @ z[:-1] / len(z)).max() < 5 / np.sqrt(len(z))


def test_inputs_of_a_row_act_on_the_next_row():
    _, truth = make_granger_plant(2, n_inputs=1, process_noise=QUIET, random_state=1)
    assert np.abs(state_residuals(truth)).max() < 1e-7
    u = np.hstack(truth.inputs)
    same_time = truth.states[1:] - truth.states[:-1] @ truth.transition.T - u[1:] @ truth.input.T
    assert np.abs(same_time).max() > 0.1


def test_measurement_noise_has_the_stated_covariance():
    X, truth = make_granger_plant(2, n_sensors=[3, 5], measurement_noise=[0.5, 2], random_state=0)
    for m, (name, y) in enumerate(X.items()):
        v = y - truth.states[:, truth.state_slices[name]] @ truth.observation[m].T
        assert_allclose(truth.measurement_cov[m], [0.25, 4.0][m] * np.eye(3 + 2 * m))
        assert_covariance(v, truth.measurement_cov[m])


def test_without_measurement_noise_sensors_are_exact():
    X, truth = make_granger_plant(1, measurement_noise=0.0, n_samples=10, random_state=0)
    assert_allclose(X["unit0"], truth.states @ truth.observation[0].T)


def test_units_may_have_states_of_different_number():
    _, truth = make_granger_plant(3, n_states=[1, 2, 3], n_samples=50, random_state=0)
    assert truth.transition.shape == (6, 6)
    assert_covariance(state_residuals(truth), truth.process_cov)


# --- stationarity and episodes -----------------------------------------------------------------


@pytest.mark.parametrize("n_inputs", [0, 1])
def test_every_episode_starts_in_the_stationary_distribution(n_inputs):
    episodes = 4000
    _, truth = make_granger_plant(2, n_inputs=n_inputs, n_samples=2 * episodes, episodes=episodes, random_state=0)
    expected = stationary_covariance(truth)
    assert_covariance(truth.states[::2], expected)
    assert_covariance(truth.states[1::2], expected)


def test_episodes_are_independent():
    _, truth = make_granger_plant(2, n_samples=4000, episodes=2000, random_state=0)
    scaled = truth.states / np.sqrt(np.diag(stationary_covariance(truth)))
    before, start = scaled[1:-1:2], scaled[2::2]
    assert np.abs(before.T @ start / len(start)).max() < 5 / np.sqrt(len(start))


def test_lengths_divide_the_rows():
    X, truth = make_granger_plant(2, n_samples=11, episodes=3, random_state=0)
    assert truth.lengths == [4, 4, 3]
    assert len(X["unit0"]) == 11


# --- level shifts and missing values -------------------------------------------------------------


def test_level_shift_adds_its_response_to_the_states():
    plant = {"n_units": 3, "n_samples": 200, "process_noise": 2.0, "random_state": 0}
    _, before = make_granger_plant(**plant)
    _, after = make_granger_plant(**plant, level_shift={"unit": "unit1", "size": 5.0, "at": 0.25})
    assert_array_equal(after.transition, before.transition)
    offset = np.zeros(6)
    offset[after.state_slices["unit1"]] = 10.0
    response = np.zeros(6)
    for t in range(200):
        response = after.transition @ response + (offset if t >= 50 else 0)
        assert_allclose(after.states[t] - before.states[t], response, atol=1e-9)
    (shift,) = after.level_shift
    assert (shift.unit, shift.start, shift.stop) == ("unit1", 50, 200)
    assert_array_equal(shift.offset, [10.0, 10.0])


def test_several_level_shifts_may_overlap_and_end():
    shifts = [
        {"unit": 0, "size": [1.0, 0.0], "at": 5, "until": 10},
        {"unit": 1, "size": -2, "at": 7},
    ]
    _, truth = make_granger_plant(2, level_shift=shifts, n_samples=20, process_noise=QUIET, random_state=0)
    drive = state_residuals(truth) / QUIET
    expected = np.zeros((19, 4))
    expected[4:9, 0] = 1
    expected[6:, 2:] = -2
    _, calm = make_granger_plant(2, n_samples=20, process_noise=QUIET, random_state=0)
    assert_allclose(drive - state_residuals(calm) / QUIET, expected, atol=1e-6)


def test_an_episode_inside_a_level_shift_starts_around_the_shifted_steady_state():
    plant = {"n_units": 2, "n_samples": 20, "episodes": 2, "random_state": 0}
    _, calm = make_granger_plant(**plant)
    _, shifted = make_granger_plant(**plant, level_shift={"unit": 0, "size": 1.0, "at": 5})
    steady = np.linalg.solve(np.eye(4) - calm.transition, [1.0, 1.0, 0.0, 0.0])
    assert_allclose((shifted.states - calm.states)[10:], np.tile(steady, (10, 1)))


def test_share_of_missing_cells():
    X, truth = make_granger_plant(3, missing=0.1, random_state=0)
    cells = np.hstack([np.isnan(y) for y in X.values()])
    assert abs(cells.mean() - 0.1) < 5 * np.sqrt(0.1 * 0.9 / cells.size)
    assert_array_equal(cells, np.hstack(truth.missing))


def test_missing_cells_leave_the_others_as_they_were():
    full = make_granger_plant(2, random_state=0, return_truth=False)
    gappy = make_granger_plant(2, missing=0.2, random_state=0, return_truth=False)
    for name, y in gappy.items():
        assert_array_equal(y, np.where(np.isnan(y), np.nan, full[name]))


def test_missing_blocks_are_stretches_without_a_unit():
    blocks = [("unit0", 10, 20), (1, 0.5, 1.0)]
    X, truth = make_granger_plant(2, n_samples=100, missing_blocks=blocks, random_state=0)
    absent = [np.isnan(y).all(axis=1) for y in X.values()]
    assert_array_equal(np.flatnonzero(absent[0]), np.arange(10, 20))
    assert_array_equal(np.flatnonzero(absent[1]), np.arange(50, 100))
    assert sum(mask.sum() for mask in truth.missing) == 8 * 60


# --- containers and randomness -------------------------------------------------------------------


def test_containers_hold_the_same_numbers():
    plant = {"n_sensors": [2, 3], "n_inputs": [1, 0], "n_samples": 30, "random_state": 0}
    as_dict, truth = make_granger_plant(2, **plant)
    as_list, _ = make_granger_plant(2, container="list", **plant)
    frame, _ = make_granger_plant(2, container="frame", **plant)
    assert list(as_dict) == truth.names == ["unit0", "unit1"]
    for a, b in zip(as_dict.values(), as_list, strict=True):
        assert_array_equal(a, b)
    assert isinstance(frame, pd.DataFrame)
    assert frame.columns.tolist() == [
        *["unit0__s0", "unit0__s1", "unit0__u0"],
        *["unit1__s0", "unit1__s1", "unit1__s2"],
    ]
    sensors = frame.drop(columns=truth.input_columns)
    assert_array_equal(sensors, np.hstack(as_list))
    assert truth.input_columns == ["unit0__u0"]
    assert_array_equal(frame[truth.input_columns], truth.inputs[0])
    assert truth.inputs[1] is None


def test_without_inputs_there_are_none():
    _, truth = make_granger_plant(2, n_samples=1, random_state=0)
    assert truth.inputs is None
    assert truth.input is None
    assert truth.input_columns == []


@pytest.mark.parametrize(
    "make_state",
    [lambda: 3, lambda: np.random.RandomState(3), lambda: np.random.default_rng(3)],
    ids=["int", "RandomState", "Generator"],
)
def test_same_random_state_same_data(make_state):
    first = make_granger_plant(2, random_state=make_state(), return_truth=False)
    second = make_granger_plant(2, random_state=make_state(), return_truth=False)
    other = make_granger_plant(2, random_state=4, return_truth=False)
    assert_array_equal(first["unit0"], second["unit0"])
    assert np.abs(first["unit0"] - other["unit0"]).max() > 0.1
