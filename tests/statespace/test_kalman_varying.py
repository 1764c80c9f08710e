"""Filter and smoother with an information matrix of its own at each step, against the joint Gaussian."""

import numpy as np
import pytest

from skfedcausal.statespace import kalman
from skfedcausal.statespace.kalman import covariance_rows, filter_rows, predicted_means
from skfedcausal.statespace.observation import information
from skfedcausal.statespace.timedomain import smooth_varying

from ._reference import (
    assert_gradient,
    assert_within,
    brute_force,
    brute_force_rounding,
    episode_slices,
    generalised_least_squares,
    random_plant,
    rounding,
    simulate,
    statsmodels_moments,
    with_gaps,
)

STARTS = pytest.mark.parametrize("starts", [(0,), (0, 4, 5), (0, 1, 2)], ids=str)
SIZES = pytest.mark.parametrize(("n_states", "n_sensors"), [(1, 1), (2, 3), (3, 2)])


def short_case(n_states, n_sensors, n_samples=8):
    """A plant and a few rows of it with gaps, the first and two later rows missing altogether."""
    plant = random_plant(n_states, n_states, n_sensors)
    Y = with_gaps(simulate(plant, n_samples, 1), 2, share=0.25, rows=(0, 3, n_samples - 1))
    return plant, Y, information(Y, plant.C, plant.R, with_const=True)


def long_case(n_samples=64 * 3 + 5):
    """Rows for several of the shortest chunks (64 rows)."""
    plant = random_plant(4, 3, 4, radius_=0.9)
    Y = with_gaps(simulate(plant, 200, 1), 2, rows=(0, 63, 64, 65, 127, 196))[:n_samples]
    return plant, Y, information(Y, plant.C, plant.R, with_const=True)


def smoothed(plant, info, *, blocks=(), **options):
    """Sums over time, and the states with the covariances of some blocks."""
    return smooth_varying(plant.A, plant.Q, plant.P0, info.z, info.matrices, keep=blocks, **options)


def use_short_chunks(monkeypatch):
    monkeypatch.setattr(kalman, "_CHUNK_BYTES", 1)
    monkeypatch.setattr(kalman, "FILTERED_BYTES", 1)


@STARTS
@SIZES
def test_filter_gives_the_moments_of_the_joint_gaussian(n_states, n_sensors, starts):
    plant, Y, info = short_case(n_states, n_sensors)
    expected = brute_force(plant, Y, starts=starts)
    error = brute_force_rounding(plant, Y) * (1 + np.nanmax(np.abs(Y)))
    for part in filter_rows(plant.A, plant.Q, plant.P0, info.z, info.matrices, starts=starts):
        rows = part.rows
        assert_within(part.predicted, expected.predicted[rows], error)
        assert_within(part.filtered, expected.filtered[rows], error)
        assert_within(info.const[rows] + part.terms, expected.log_density[rows], error * 10)


@SIZES
def test_covariances_are_those_of_the_joint_gaussian(n_states, n_sensors):
    plant, Y, info = short_case(n_states, n_sensors)
    expected = brute_force(plant, Y)
    error = brute_force_rounding(plant, Y) * (1 + np.nanmax(np.abs(Y)))
    J = info.matrices()
    covariances, following = covariance_rows(plant.A, plant.Q, J, plant.P0)
    last = expected.filtered_cov[-1]
    assert_within(covariances.predicted, expected.predicted_cov, error)
    assert_within(covariances.filtered, expected.filtered_cov, error)
    assert_within(covariances.carried, plant.A @ expected.filtered_cov, error)
    assert_within(covariances.step, plant.A - plant.A @ expected.filtered_cov @ J, error * np.abs(J).max())
    gained = np.linalg.slogdet(np.eye(len(plant.A)) + expected.predicted_cov @ J)[1]
    assert_within(covariances.logdet, gained, error * (1 + np.abs(J).max()))
    assert_within(following, plant.A @ last @ plant.A.T + plant.Q, error)


@pytest.mark.parametrize("intercept", [True, False])
def test_states_alone_are_those_with_covariances(intercept):
    plant, _, info = long_case()
    own = {"starts": (0, len(info.z) // 3), "intercept": intercept, "n_bytes": 1}
    z, J = info.z, info.matrices()
    n = len(plant.A)
    whole, alone = (
        smooth_varying(plant.A, plant.Q, plant.P0, z, lambda rows: J[rows], keep=keep, **own)
        for keep in ([slice(0, n)], ())
    )
    assert_within(alone.states, whole.states, plant.filter_rounding * np.abs(whole.states).max())
    assert alone.covariances == []


def test_series_that_share_their_covariances_are_filtered_together():
    plant, Y, info = long_case()
    rng = np.random.default_rng(0)
    T = len(Y)
    z, drive = rng.normal(size=(T, 3, 4)), rng.normal(size=(T, 3, 4))
    mean = rng.normal(size=(3, 4))
    covariances, _ = covariance_rows(plant.A, plant.Q, info.matrices(), plant.P0)
    together, after = predicted_means(covariances, z, mean, drive)
    for k in range(4):
        one = np.s_[..., k : k + 1]
        alone, after_one = predicted_means(covariances, z[one], mean[one], drive[one])
        error = plant.filter_rounding * np.abs(together).max()
        assert_within(together[one], alone, error)
        assert_within(after[one], after_one, error)


@STARTS
def test_a_known_term_acts_on_the_step_into_its_row(starts):
    plant, Y, info = short_case(2, 3)
    known = np.random.default_rng(3).normal(size=(len(Y), 2))
    expected = brute_force(plant, Y, known, starts)
    error = brute_force_rounding(plant, Y) * (1 + np.nanmax(np.abs(Y)))
    for part in filter_rows(plant.A, plant.Q, plant.P0, info.z, info.matrices, starts=starts, exogenous=known):
        assert_within(part.filtered, expected.filtered[part.rows], error)
        assert_within(part.predicted, expected.predicted[part.rows], error)
    kept = smoothed(plant, info, starts=starts, exogenous=known)
    assert_within(kept.states, expected.smoothed, error)


def assert_smoothed(kept, expected, blocks, error):
    assert_within(kept.states, expected.smoothed, error)
    for block, covariances in zip(blocks, kept.covariances, strict=True):
        assert_within(covariances, expected.smoothed_cov[:, block, block], error)


@STARTS
@SIZES
def test_smoother_gives_the_moments_of_the_joint_gaussian(n_states, n_sensors, starts):
    plant, Y, info = short_case(n_states, n_sensors)
    blocks = [slice(0, 1), slice(1, n_states)] if n_states > 1 else [slice(0, 1)]
    kept = smoothed(plant, info, starts=starts, blocks=blocks)
    expected = brute_force(plant, Y, starts=starts)
    error = brute_force_rounding(plant, Y) * (1 + np.nanmax(np.abs(Y)))
    assert_smoothed(kept, expected, blocks, error)
    value = kept.value + info.const.sum()
    assert value == pytest.approx(expected.log_density.sum(), abs=10 * len(Y) * error)
    np.testing.assert_array_equal(kept.levels, 0)


@pytest.mark.parametrize("starts", [(0,), (0, 64, 130, 131)], ids=str)
def test_smoother_agrees_with_statsmodels_on_raw_measurements(starts, monkeypatch):
    use_short_chunks(monkeypatch)
    plant, Y, info = long_case()
    blocks = [slice(0, 2), slice(2, 3)]
    kept = smoothed(plant, info, starts=starts, blocks=blocks)
    expected = statsmodels_moments(plant, Y, starts=starts)
    error = plant.filter_rounding * (1 + np.nanmax(np.abs(Y)))
    assert_smoothed(kept, expected, blocks, error)
    value = kept.value + info.const.sum()
    assert value == pytest.approx(expected.log_density.sum(), abs=10 * len(Y) * error)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("starts", [(0,), (0, 40)], ids=str)
@pytest.mark.parametrize("n_samples", [63, 64, 65, 128, 129, 197])
def test_results_do_not_depend_on_the_chunks(n_samples, starts, intercept, monkeypatch):
    plant, Y, info = long_case(n_samples)
    options = {"starts": starts, "intercept": intercept, "blocks": [slice(0, 3)]}
    whole = smoothed(plant, info, **options)
    use_short_chunks(monkeypatch)
    parts = smoothed(plant, info, **options)
    # the operations are the same but for the order of sums over time
    error = plant.filter_rounding * (1 + np.nanmax(np.abs(Y)))
    assert_within(parts.levels, whole.levels, error)
    assert_within(parts.states, whole.states, error)
    assert_within(parts.covariances[0], whole.covariances[0], error)
    for name in ("value", "grad_A", "grad_Q", "grad_P0"):
        a, b = getattr(parts, name), getattr(whole, name)
        assert_within(a, b, n_samples * error * (1 + np.abs(b).max()))


@pytest.mark.parametrize("starts", [(0,), (0, 8)], ids=str)
@pytest.mark.parametrize(("n_states", "n_sensors"), [(1, 1), (2, 3)])
def test_level_of_an_episode_is_that_of_generalised_least_squares(n_states, n_sensors, starts):
    plant, Y, _ = short_case(n_states, n_sensors, n_samples=16)
    Y = Y + np.linspace(3, 5, n_sensors)
    info = information(Y, plant.C, plant.R, with_const=True)
    kept = smoothed(plant, info, starts=starts, intercept=True, blocks=[slice(0, n_states)])
    total = 0.0
    for e, level in zip(episode_slices(starts, len(Y)), kept.levels, strict=True):
        expected, log_density, error = generalised_least_squares(plant, Y[e])
        assert_within(level, expected, error)
        # the states are what is left once the level is taken out of the measurements
        rest = brute_force(plant, Y[e] - plant.C @ expected)
        assert_within(kept.states[e], rest.smoothed, error)
        assert_within(kept.covariances[0][e], rest.smoothed_cov, error)
        total += log_density
    assert kept.value + info.const.sum() == pytest.approx(total, abs=100 * error)


def test_level_of_a_state_that_no_sensor_sees_is_zero():
    plant = random_plant(0, 2, 2)
    info = information(np.full((20, 2), 3.0), plant.C * [1.0, 0.0], plant.R)
    level = smoothed(plant, info, intercept=True).levels[0]
    assert level[1] == pytest.approx(0, abs=plant.filter_rounding)
    assert level[0] != 0


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("starts", [(0,), (0, 5, 6)], ids=str)
def test_gradients_are_those_of_the_value(starts, intercept):
    plant, _, info = short_case(2, 3, n_samples=14)
    inputs = np.random.default_rng(5).normal(size=(14, 2))
    B = np.array([[1.0, -0.5], [0.0, 2.0]])

    def sums(A=plant.A, Q=plant.Q, P0=plant.P0, B=B):
        """The input of a row acts on the next; episodes start around zero."""
        known = np.vstack([np.zeros(2), inputs[:-1] @ B.T])
        known[list(starts)] = 0.0
        options = {"starts": starts, "intercept": intercept, "exogenous": known, "inputs": inputs}
        return smooth_varying(A, Q, P0, info.z, info.matrices, **options)

    result = sums()
    assert_gradient(result.grad_A, lambda A: sums(A=A).value, plant.A)
    assert_gradient(result.grad_B, lambda B: sums(B=B).value, B)
    step = 1e-3 * np.trace(plant.Q)
    assert_gradient(result.grad_Q, lambda Q: sums(Q=Q).value, plant.Q, symmetric=True, step=step)
    assert_gradient(result.grad_P0, lambda P0: sums(P0=P0).value, plant.P0, symmetric=True)


@pytest.mark.medium
def test_gradients_are_those_of_the_value_across_chunks(monkeypatch):
    use_short_chunks(monkeypatch)
    plant, _, info = long_case()

    def sums(A):
        return smooth_varying(A, plant.Q, plant.P0, info.z, info.matrices, starts=(0, 150), intercept=True)

    assert_gradient(sums(plant.A).grad_A, lambda A: sums(A).value, plant.A)


def test_the_data_may_be_absent_altogether():
    plant = random_plant(0, 2, 3)
    info = information(np.full((10, 3), np.nan), plant.C, plant.R)
    kept = smoothed(plant, info, intercept=True, blocks=[slice(0, 2)])
    assert kept.value == 0
    np.testing.assert_array_equal(kept.grad_A, 0)
    np.testing.assert_array_equal(kept.states, 0)
    error = rounding(2) * np.abs(plant.P0).max()
    assert_within(kept.covariances[0][-1], plant.P0, 10 * error)


@pytest.mark.parametrize("n", [1, 8, 50])
def test_chunks_hold_six_matrices_a_row_in_a_quarter_of_a_gibibyte(n):
    longest, bytes_of_row = kalman.chunks(5, 10**7, n)[0], 6 * 8 * n**2
    assert longest.start == 5
    assert (longest.stop - 5) * bytes_of_row <= 2**28 < (longest.stop - 4) * bytes_of_row


def test_chunks_have_64_rows_at_least():
    assert kalman.chunks(0, 100, 2000) == [slice(0, 64), slice(64, 100)]
