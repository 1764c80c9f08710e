"""Sensors that wander: how far, not where states do what is slow, and levels that move."""

import numpy as np
import pytest
from scipy.fft import dct
from scipy.signal import lfilter

from skfedcausal.statespace.observation import cut_of, moving_level, walk_step


def states(rng, n, poles=(0.5, 0.6)):
    return np.column_stack([lfilter([1.0], [1.0, -pole], rng.standard_normal(n)) for pole in poles])


def sensors(seed, n=2000, d=6, poles=(0.5, 0.6), step=0.0, slow=0.0):
    """Two states behind d sensors with white noise; `slow` is added to the states, the walk to the sensors."""
    rng = np.random.default_rng(seed)
    C = rng.standard_normal((d, 2))
    walk = step * rng.standard_normal((n, d)).cumsum(axis=0)
    return (states(rng, n, poles) + slow) @ C.T + rng.standard_normal((n, d)) + walk


@pytest.mark.parametrize(("step", "n"), [(0.02, 2000), (0.05, 1000), (0.05, 5000), (0.1, 2000)])
def test_the_step_is_found(step, n):
    """Four standard errors of it: Whittle's information of three directions at the frequencies where the walk shows."""
    error = 4 / np.sqrt(2 * 3 * step * n / np.pi)
    for seed in range(5):
        assert abs(np.log(walk_step(sensors(seed, n, step=step)) / step)) < error


def test_it_is_that_of_any_mixture_of_the_sensors():
    Y, G = sensors(0, step=0.05), np.random.default_rng(1).standard_normal((6, 6))
    np.testing.assert_allclose(walk_step(Y @ G + 7.0), walk_step(Y), rtol=1e-3)  # as exactly as it is sought


@pytest.mark.parametrize("poles", [(0.5, 0.6), (0.95, 0.97), (0.99, 0.99), (0.99, 0.3)])
def test_slow_states_are_no_wandering(poles):
    assert not any(walk_step(sensors(seed, poles=poles)) for seed in range(20))


@pytest.mark.parametrize(
    "slow",
    [
        np.linspace(0, 6, 2000)[:, None],
        3 * np.sin(2 * np.pi * np.arange(2000) / 288)[:, None],
        np.where(np.arange(2000) // 180 % 2, 3.0, 0.0)[:, None],
        states(np.random.default_rng(0), 2000, (0.98, 0.999)),
    ],
    ids=["trend", "season", "steps", "driver"],
)
def test_what_moves_states_is_no_wandering(slow):
    assert not any(walk_step(sensors(seed, slow=slow)) for seed in range(20))


def test_too_few_sensors_or_rows_tell_nothing():
    assert walk_step(sensors(0, d=2, step=0.05)) == 0
    assert walk_step(sensors(0, n=250, step=0.1)) == 0
    one = sensors(0)
    one[:, 0] += 0.05 * np.random.default_rng(3).standard_normal(2000).cumsum()
    assert walk_step(one) == 0  # as a state that is slow would


def test_nothing_wanders_of_twins_and_constants_of_rounding():
    Y = sensors(0, step=0.05)
    np.testing.assert_allclose(walk_step(np.column_stack([Y, Y[:, :2]])), walk_step(Y), rtol=1e-3)


def test_the_cut_is_beyond_where_the_walk_is_as_large_as_the_noise():
    assert cut_of(0.0) == np.inf
    assert cut_of(0.05) == pytest.approx(2 * np.pi / 0.05 / 1.5)


def test_what_is_left_has_no_gap_in_its_spectrum():
    Y = np.random.default_rng(0).standard_normal((1000, 3)) + np.linspace(0, 50, 1000)[:, None]
    rest = dct(Y - moving_level(Y, 100.0), axis=0, norm="ortho")
    whole = dct(Y, axis=0, norm="ortho")
    np.testing.assert_allclose(rest[0], 0, atol=1e-9)
    np.testing.assert_allclose(rest[1:21], whole[40:20:-1], atol=1e-9)
    np.testing.assert_allclose(rest[21:], whole[21:], atol=1e-9)


def test_a_level_that_moves_is_linear_and_that_of_a_slow_curve():
    t = np.arange(1000)[:, None]
    slow, fast = np.cos(2 * np.pi * (t + 0.5) / 500), np.cos(2 * np.pi * (t + 0.5) / 10)
    np.testing.assert_allclose(moving_level(3 + 2 * slow + fast, 100.0), 3 + 2 * slow, atol=1e-9)
    np.testing.assert_allclose(moving_level(fast[:7], 100.0), fast[:7].mean(), atol=1e-12)
