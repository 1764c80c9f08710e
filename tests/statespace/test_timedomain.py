"""The exact likelihood, its gradient through the stationary start, and its expected information."""

import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

from skfedcausal.statespace.observation import information
from skfedcausal.statespace.timedomain import TimeDomainLikelihood, smooth
from skfedcausal.statespace.whittle import FreeElements, InformationColumns

from ._reference import (
    Plant,
    assert_gradient,
    assert_within,
    brute_force,
    brute_force_rounding,
    generalised_least_squares,
    random_covariance,
    random_plant,
    random_transition,
    rounding,
    simulate,
    unit_directions,
    whittle_information,
    with_gaps,
)

STARTS = (0, 12)


def case(n_states=2, n_sensors=3):
    """Two episodes with gaps and a level; rows enough to determine the level of each."""
    plant = random_plant(n_states, n_states, n_sensors)
    Y = with_gaps(simulate(plant, 24, 1) + 2.0, 2, share=0.25, rows=(0, 5, 23))
    info = information(Y, plant.C, plant.R, with_const=True)
    return plant, Y, info, TimeDomainLikelihood(info.z, info.matrices, [(1.0, plant.J)], STARTS, 8)


def with_parameters(plant, A, Q):
    """The plant with other parameters, starting from their stationary distribution."""
    return Plant(A, Q, plant.C, plant.R, solve_discrete_lyapunov(A, Q))


def far_parameters(n):
    rng = np.random.default_rng(7)
    return random_transition(rng, n, 0.7), random_covariance(rng, n)


def test_value_is_the_log_density_of_stationary_episodes_at_their_best_levels():
    plant, Y, info, likelihood = case()
    A, Q = far_parameters(2)
    other = with_parameters(plant, A, Q)
    parts = [generalised_least_squares(other, Y[rows]) for rows in (slice(0, 12), slice(12, 24))]
    total, error = sum(p[1] for p in parts), sum(p[2] for p in parts)
    value = likelihood.evaluate(A, Q).value
    assert likelihood.n_samples == 24
    assert 24 * value + info.const.sum() == pytest.approx(total, abs=100 * error)


@pytest.mark.parametrize("n_states", [1, 2])
def test_gradients_are_those_of_the_value(n_states):
    *_, likelihood = case(n_states)
    A, Q = far_parameters(n_states)
    result = likelihood.evaluate(A, Q)
    step = 1e-3 * np.linalg.eigvalsh(Q)[0]
    assert_gradient(result.grad_A, lambda a: likelihood.evaluate(a, Q).value, A)
    assert_gradient(result.grad_Q, lambda q: likelihood.evaluate(A, q).value, Q, symmetric=True, step=step)
    np.testing.assert_array_equal(result.grad_Q, result.grad_Q.T)


def test_smoothed_blocks_are_those_of_the_joint_gaussian_less_the_level():
    plant, Y, info, _ = case()
    A, Q = far_parameters(2)
    blocks = [slice(0, 1), slice(1, 2)]
    P0, kept = smooth(A, Q, info.z, info.matrices, starts=STARTS, keep=blocks)
    other = with_parameters(plant, A, Q)
    assert_within(P0, other.P0, other.filter_rounding * np.abs(other.P0).max())
    for rows, level in zip((slice(0, 12), slice(12, 24)), kept.levels, strict=True):
        expected = brute_force(other, Y[rows] - plant.C @ level)
        error = brute_force_rounding(other, Y[rows]) * (1 + np.nanmax(np.abs(Y)))
        assert_within(kept.states[rows], expected.smoothed, error)
        for k in range(2):
            variance = expected.smoothed_cov[:, k : k + 1, k : k + 1]
            assert_within(kept.covariances[k][rows], variance, error)


# -- expected information -----------------------------------------------------------------------------


def every_element(n):
    return FreeElements.from_masks(np.ones((n, n)), np.ones((n, n)))


def expected_information(plant, regimes, n_frequencies=20):
    """Information of all elements of A and Q in a record made of the given regimes."""
    likelihood = TimeDomainLikelihood(np.zeros((1, plant.n_states)), None, regimes, (0,), n_frequencies)
    info = likelihood.information(plant.A, plant.Q)
    return InformationColumns(info, every_element(plant.n_states)).square()


def whittle(plant, N, n_frequencies=20):
    free = every_element(plant.n_states)
    return whittle_information(
        plant.A,
        plant.Q,
        N,
        n_frequencies,
        unit_directions(plant.n_states, zip(free.rows, free.cols, strict=True)),
        unit_directions(plant.n_states, zip(free.first, free.second, strict=True), symmetric=True),
    )


def test_information_of_one_regime_is_that_of_whittles_formula():
    plant = random_plant(0, 3, 5)
    expected, error = whittle(plant, np.linalg.inv(plant.J))
    result = expected_information(plant, [(1.0, plant.J)])
    assert_within(result, expected, error * np.linalg.cond(plant.J))


def test_information_of_several_regimes_is_their_average_over_time():
    plant = random_plant(0, 3, 5)
    regimes = [(0.2, plant.J), (0.5, np.diag([1.0, 2.0, 0.0])), (0.3, np.zeros((3, 3)))]
    parts = [share * expected_information(plant, [(1.0, J)]) for share, J in regimes]
    result = expected_information(plant, regimes)
    assert_within(result, sum(parts), rounding(3) * np.abs(result).max() * 10)
    np.testing.assert_array_equal(parts[2], 0)  # no sensor, no information


def test_information_of_states_without_sensors_is_the_limit_of_bad_sensors():
    plant = random_plant(0, 2, 3)
    result = expected_information(plant, [(1.0, np.diag([2.0, 0.0]))])
    far, near = (np.abs(whittle(plant, np.diag([0.5, noise]))[0] - result).max() for noise in (1e5, 1e6))
    # what a sensor of variance v adds is of order 1 / v, with a next term of 1e-5 or so relative to it
    assert near < 1e-4 * np.abs(result).max()
    assert far / near == pytest.approx(10, rel=0.01)


@pytest.mark.slow
def test_the_exact_score_has_the_expected_information_as_its_covariance():
    plant = random_plant(0, 2, 3)
    n_records, T = 300, 400
    free = every_element(2)
    scores = []
    for seed in range(n_records):
        Y = simulate(plant, T, seed)
        info = information(Y, plant.C, plant.R)
        likelihood = TimeDomainLikelihood(info.z, info.matrices, [(1.0, plant.J)], (0,), 60)
        result = likelihood.evaluate(plant.A, plant.Q)
        scores.append(np.sqrt(T) * free.gradient(result.grad_A, result.grad_Q))
    expected = InformationColumns(likelihood.information(plant.A, plant.Q), free).square()
    whitened = np.linalg.solve(np.linalg.cholesky(expected), np.transpose(scores))
    # elements of a covariance of 300 whitened draws have standard errors of sqrt(2 / 300) = 0.08 at most; the
    # ends of the record (a few rows of 400) and the profiled level add about 0.02
    covariance = whitened @ whitened.T / n_records
    assert_within(covariance, np.eye(len(expected)), 4.5 * np.sqrt(2 / n_records) + 0.02)


def test_of_complete_records_the_settled_covariances_give_the_same():
    plant = random_plant(0, 2, 3)
    info = information(simulate(plant, 24, 1), plant.C, plant.R)
    settings = info.z, info.matrices, [(1.0, plant.J)], STARTS, 8
    steady, varying = (
        TimeDomainLikelihood(*settings, is_constant=constant).evaluate(0.5 * plant.A, plant.Q)
        for constant in (True, False)
    )
    assert steady.value == pytest.approx(varying.value, rel=1e-10)
    np.testing.assert_allclose(steady.grad_A, varying.grad_A, atol=1e-9)
    np.testing.assert_allclose(steady.grad_Q, varying.grad_Q, atol=1e-9)
