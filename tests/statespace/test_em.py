"""The observation step maximises the expected log-density of what was measured."""

import numpy as np
import pytest

from skfedcausal.statespace.em import (
    _expected_moments,
    block_statistics,
    expectation_maximisation,
    observation_step,
)
from skfedcausal.statespace.kalman import filtered_covariance, predicted_covariance
from skfedcausal.statespace.observation import information
from skfedcausal.statespace.timedomain import smooth_varying

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


# --- plants from scores -----------------------------------------------------------------------------

A = np.array([[0.6, 0.2, 0.0], [-0.1, 0.7, 0.1], [0.0, 0.3, 0.5]])
Q = np.diag([1.0, 0.5, 0.8]) + 0.1
N = np.diag([0.5, 1.0, 0.7]) + 0.05
STARTS = (0, 40, 43)


def scores(n_samples=90, seed=0):
    rng = np.random.default_rng(seed)
    h = np.zeros((n_samples, 3))
    for t in range(1, n_samples):
        h[t] = A @ h[t - 1] + np.linalg.cholesky(Q) @ rng.normal(size=3)
    return h + rng.normal(size=h.shape) @ np.linalg.cholesky(N).T


def settled_filter(s, starts):
    """Filtered states of the settled filter, which starts every episode from what it expects before it."""
    P = predicted_covariance(A, np.linalg.inv(N), Q)
    gain, filtered = P @ np.linalg.inv(P + N), np.zeros_like(s)
    for t in range(len(s)):
        before = np.zeros(3) if t in starts else A @ filtered[t - 1]
        filtered[t] = before + gain @ (s[t] - before)
    return P, filtered


def expected_moments(s, starts):
    """Means of products of the smoothed states of either end of a transition, with their covariances."""
    P, filtered = settled_filter(s, starts)
    Pf = filtered_covariance(P, np.linalg.inv(N))
    G = Pf @ A.T @ np.linalg.inv(P)
    V = np.linalg.solve(np.eye(9) - np.kron(G, G), (Pf - G @ P @ G.T).ravel()).reshape(3, 3)
    h, last, total = filtered.copy(), {start - 1 for start in [*starts, len(s)]}, [0, 0, 0]
    for t in range(len(s) - 2, -1, -1):
        if t not in last:
            h[t] = filtered[t] + G @ (h[t + 1] - A @ filtered[t])
            pairs = (h[t + 1], h[t + 1]), (h[t], h[t]), (h[t + 1], h[t])
            total = [sum_ + np.outer(*pair) for sum_, pair in zip(total, pairs, strict=True)]
    n_transitions = len(s) - len(starts)
    return [x / n_transitions + spread for x, spread in zip(total, (V, V, V @ G.T), strict=True)]


@pytest.mark.parametrize("starts", [(0,), STARTS])
def test_expected_moments_are_those_of_smoothed_states_and_their_covariances(starts):
    s, J = scores(), np.linalg.inv(N)
    for found, expected in zip(_expected_moments(s @ J, J, A, Q, starts), expected_moments(s, starts), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("support", [None, np.array([[1, 1, 0], [1, 1, 0], [0, 1, 1]], dtype=bool)])
def test_a_round_regresses_the_states_on_those_before_as_far_as_they_may_act(support):
    s = scores()
    now, before, cross = expected_moments(s, STARTS)
    new_A, new_Q = expectation_maximisation(s, N, A, Q, STARTS, n_steps=1, support=support)
    expected = np.zeros((3, 3))
    for i in range(3):
        may = np.ones(3, dtype=bool) if support is None else support[i]
        expected[i, may] = np.linalg.solve(before[np.ix_(may, may)], cross[i, may])
    np.testing.assert_allclose(new_A, expected, rtol=0, atol=1e-10)
    rest = now - expected @ cross.T - cross @ expected.T + expected @ before @ expected.T
    np.testing.assert_allclose(new_Q, rest, rtol=0, atol=1e-10)


def test_twenty_rounds_are_made_unless_told_and_records_are_one_episode():
    s = scores()
    for found, expected in zip(
        expectation_maximisation(s, N, A, Q), expectation_maximisation(s, N, A, Q, (0,), 20), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
    once, again = (expectation_maximisation(s, N, A, Q, n_steps=n)[0] for n in (19, 20))
    assert np.abs(once - again).max() > 1e-6  # it has not ended by itself


def test_random_walks_stay_just_stable():
    walk = np.random.default_rng(0).normal(size=(200, 1)).cumsum(axis=0) + np.arange(200)[:, None]
    found = expectation_maximisation(walk, np.eye(1), 0.9 * np.eye(1), np.eye(1))[0]
    assert found[0, 0] == pytest.approx(0.999)


@pytest.mark.parametrize("starts", [(0,), STARTS])
def test_statistics_of_blocks_are_those_of_a_regression_on_filtered_states(starts):
    """Of the block (b, c): ``tr(V_b^-1 A_bc W_c A_bc')``, W_c what the other states leave of the sums of squares."""
    s, blocks = scores(), (slice(0, 2), slice(2, 3))
    P, filtered = settled_filter(s, starts)
    squares, innovations = np.linalg.inv(filtered.T @ filtered), P + N
    expected = [
        [
            np.trace(np.linalg.inv(innovations[b, b]) @ A[b, c] @ np.linalg.inv(squares[c, c]) @ A[b, c].T)
            for c in blocks
        ]
        for b in blocks
    ]
    np.testing.assert_allclose(block_statistics(s, N, A, Q, blocks, starts), expected, rtol=1e-9)
    if starts == (0,):
        np.testing.assert_allclose(block_statistics(s, N, A, Q, blocks), expected, rtol=1e-9)


def test_fewer_rows_than_states_have_statistics_too():
    found = block_statistics(scores(2), N, A, Q, (slice(0, 2), slice(2, 3)))
    assert np.isfinite(found).all()
    assert (found >= 0).all()
