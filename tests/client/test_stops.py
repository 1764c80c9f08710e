"""Stops of valves and full tanks are found where a sensor rests at the end of its range, and nowhere else."""

import numpy as np
import pytest
from scipy.signal import lfilter

from skfedcausal.client.records import ends_of, stops_of

N = 3000


def wandering(seed, n_sensors=5, keeps=0.95):
    return lfilter([1], [1, -keeps], np.random.default_rng(seed).standard_normal((N, n_sensors)), axis=0)


def test_a_valve_that_is_cut_off_has_its_stops():
    Y = wandering(0)
    Y[:, 1], Y[:, 3] = np.clip(Y[:, 1], -4.0, None), np.clip(Y[:, 3], -3.0, 3.0)
    found = stops_of(Y)
    assert found[:2].T.tolist() == [[1, -1], [3, -1], [3, 1]]
    # the median of the values within a tenth of a deviation, of which most are the stop itself
    np.testing.assert_array_equal(found[2], [-4.0, -3.0, 3.0])


def test_a_full_tank_is_found_beneath_sensor_noise_and_gaps():
    Y = wandering(1)
    Y[:, 0] = np.minimum(Y[:, 0], 2.0) + 0.02 * np.random.default_rng(2).standard_normal(N)
    Y[::7, 0] = np.nan
    sensor, side, value = stops_of(Y)[:, 0]
    assert (sensor, side) == (0, 1)
    assert abs(value - 2.0) < 0.06  # three deviations of the noise


@pytest.mark.parametrize("keeps", [0.0, 0.9, 0.99])
def test_what_wanders_freely_has_no_stops(keeps):
    assert stops_of(wandering(3, n_sensors=100, keeps=keeps)).shape == (3, 0)


@pytest.mark.parametrize("step", [0.1, 0.5, 2.0])
def test_coarse_rounding_and_status_bits_are_no_stops(step):
    Y = wandering(4, n_sensors=40)
    Y = np.round(Y / Y.std(axis=0) / step) * step
    assert stops_of(np.column_stack([Y, Y > 0, np.zeros(N)])).shape == (3, 0)


@pytest.mark.parametrize("periods", [4, 12, 100])
def test_a_rhythm_has_no_stops_and_is_cut_off_at_one(periods):
    day = np.sin(np.linspace(0, 2 * np.pi * periods, N))
    assert stops_of(day[:, None]).shape == (3, 0)
    assert stops_of(np.minimum(day, 0.5)[:, None]).tolist() == [[0.0], [1.0], [0.5]]


def test_two_visits_are_not_enough():
    day = np.sin(np.linspace(0, 4 * np.pi, N))
    assert stops_of(np.minimum(day, 0.5)[:, None]).shape == (3, 0)


def test_ends_are_those_of_the_stops():
    low, high = ends_of(np.array([[0, 2], [1, -1], [5.0, -2.0]]), 3)
    assert low.tolist() == [-np.inf, -np.inf, -2.0]
    assert high.tolist() == [5.0, np.inf, np.inf]


def test_sensors_that_never_report_have_none():
    assert stops_of(np.full((N, 2), np.nan)).shape == (3, 0)
