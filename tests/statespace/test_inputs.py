"""Known inputs: convention, likelihoods, deterministic part of the information, responses."""

import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

from skfedcausal.statespace.episodes import TransitionMoments, lag_covariances, remove_episode_means
from skfedcausal.statespace.inputs import (
    DrivenSpectrum,
    FeedbackGains,
    input_response,
    input_term,
    response_covariances,
)
from skfedcausal.statespace.matrices import Partition, coefficient_pair_information
from skfedcausal.statespace.observation import information
from skfedcausal.statespace.timedomain import KnownInputs, TimeDomainLikelihood
from skfedcausal.statespace.whittle import FreeElements, InformationColumns, WhittleLikelihood, midpoints

N, K, STARTS = 3, 2, (0, 130)
RNG = np.random.default_rng(0)
A = np.array([[0.6, 0.2, 0.0], [-0.1, 0.7, 0.1], [0.0, 0.0, 0.5]])
B = RNG.standard_normal((N, K))
THETA = np.hstack([A, B])
Q = np.diag([1.0, 0.5, 0.8]) + 0.1
NOISE = np.diag([0.5, 1.0, 0.7])


def driven_record(n_samples=300, seed=0, noise=True):
    """Scores of a driven plant, episode by episode, and its inputs."""
    rng = np.random.default_rng(seed)
    u = rng.standard_normal((n_samples, K)).cumsum(axis=0) * 0.1 + rng.standard_normal((n_samples, K))
    w = rng.standard_normal((n_samples, N)) @ np.linalg.cholesky(Q).T * noise
    e = rng.standard_normal((n_samples, N)) @ np.sqrt(NOISE) * noise
    h = np.zeros((n_samples, N))
    for t in range(1, n_samples):
        h[t] = w[t] if t in STARTS else A @ h[t - 1] + B @ u[t - 1] + w[t]
    return h + e, u


def likelihoods():
    s, u = driven_record()
    s, u = (remove_episode_means(x, STARTS) for x in (s, u))
    sums = lag_covariances(np.hstack([s, u]), range(14), STARTS)
    moments = TransitionMoments.from_sums(sums, np.hstack([s, u]), STARTS)
    yield WhittleLikelihood(moments, NOISE)
    J = np.linalg.inv(NOISE)
    for constant in (True, False):
        info = information(s, np.eye(N), np.diag(NOISE))
        known = KnownInputs(u, moments.early, np.eye(N))
        matrices = info.matrices
        yield TimeDomainLikelihood(info.z, matrices, [(1.0, J)], STARTS, 12, is_constant=constant, inputs=known)


@pytest.mark.parametrize("likelihood", list(likelihoods()), ids=["whittle", "steady", "varying"])
def test_gradients_are_derivatives_of_the_value(likelihood):
    rng = np.random.default_rng(1)
    dA, dQ = rng.standard_normal(THETA.shape), rng.standard_normal((N, N))
    dQ, step = dQ + dQ.T, 1e-5
    ahead, behind = (likelihood.evaluate(THETA + s * dA, Q + s * dQ).value for s in (step, -step))
    at = likelihood.evaluate(THETA, Q)
    expected = (at.grad_A * dA).sum() + (at.grad_Q * dQ).sum()
    assert (ahead - behind) / (2 * step) == pytest.approx(expected, rel=1e-6)


def test_the_two_exact_smoothers_agree_and_whittle_differs_by_edges_only():
    whittle, steady, varying = likelihoods()
    assert steady.evaluate(THETA, Q).value == pytest.approx(varying.evaluate(THETA, Q).value, rel=1e-12)
    a, b = (x.evaluate(THETA, Q).grad_A for x in (whittle, steady))
    scale = np.sqrt(np.diag(np.einsum("fii->i", whittle.information(THETA, Q).V.real)))
    assert np.abs(a - b).max() < 20 / steady.n_samples * max(1, scale.max())


@pytest.mark.parametrize(
    "partition",
    [Partition((1, 2), (1, 1)), Partition((2, 1), (2, 0)), Partition((1, 2), n_steps=2)],
    ids=["alike", "one", "steps"],
)
def test_information_of_blocks_of_inputs_and_steps_is_that_of_their_elements(partition):
    """Padded elements have an information of one that has nothing to do with anything."""
    info = next(likelihoods()).information(THETA, Q)
    every = FreeElements.from_masks(np.ones(THETA.shape), np.zeros((N, N)))
    matrix = InformationColumns(info, every).square()
    for family in (partition, partition.input_pairs, partition.step_pairs):
        found = coefficient_pair_information(info, partition, family)
        for block, elements in zip(found, family.pair_elements, strict=True):
            real = elements < family.n_elements
            expected = np.eye(len(elements))
            expected[np.ix_(real, real)] = matrix[np.ix_(elements[real], elements[real])]
            np.testing.assert_allclose(block, expected, rtol=1e-10, atol=1e-10 * np.abs(matrix).max())


def test_inputs_of_a_row_act_on_the_next_row_and_never_on_another_episode():
    u = np.arange(12.0).reshape(6, 2)
    term = input_term(B, u, (0, 3))
    np.testing.assert_array_equal(term[[0, 3]], 0)
    np.testing.assert_allclose(term[[1, 2, 4, 5]], u[[0, 1, 3, 4]] @ B.T)


def test_the_driven_part_has_the_covariance_of_a_run_without_noise():
    """Whatever the inputs did: here they are a random walk in noise."""
    T = 20_000
    h, u = driven_record(T, noise=False)
    x = np.hstack([h, u])[STARTS[1] : -1]
    moments = np.array([x[lag:].T @ x[: len(x) - lag] / len(x) for lag in range(13)])
    found = DrivenSpectrum(moments, N, midpoints(12)).covariance(A, B)
    expected = h[STARTS[1] :].T @ h[STARTS[1] :] / (T - STARTS[1])
    # the recursion neglects one row of T at either end
    np.testing.assert_allclose(found, expected, atol=10 * np.abs(x).max() ** 2 / T)


def test_white_inputs_add_their_lyapunov_solution():
    moments = np.zeros((13, N + K, N + K))
    moments[0, N:, N:] = np.eye(K)
    S = solve_discrete_lyapunov(A, B @ B.T)
    moments[0, :N, :N] = S
    for lag in range(1, 13):  # E h[t+l] u[t]' = A^(l-1) B
        moments[lag, :N, N:] = np.linalg.matrix_power(A, lag - 1) @ B
    spectrum = DrivenSpectrum(moments, N, midpoints(200)).at(A, B)
    np.testing.assert_allclose(DrivenSpectrum(moments, N, midpoints(12)).covariance(A, B), S, atol=1e-12)
    np.testing.assert_allclose(spectrum[:, :N, :N].mean(axis=0).real, S, atol=1e-10)


# --- responses ----------------------------------------------------------------------------------------


def test_a_held_change_sums_the_powers_of_the_plant():
    change = np.tile([1.0, -0.5], (6, 1))
    response = input_response(A, B, change)
    for k in range(6):
        expected = sum(np.linalg.matrix_power(A, j) for j in range(k + 1)) @ B @ change[0]
        np.testing.assert_allclose(response.effect[k], expected, rtol=1e-12)


def test_closed_loops_are_the_plant_run_with_the_controllers_in_it():
    rng = np.random.default_rng(2)
    gains = FeedbackGains(0.2 * rng.standard_normal((K, N)), 0.1 * rng.standard_normal((K, N)), 0.3 * np.eye(K))
    change = rng.standard_normal((8, K))
    h, before, last, expected = np.zeros(N), np.zeros(N), np.zeros(K), []
    for delta in change:
        last = gains.present @ h + gains.previous @ before + gains.persistence @ last + delta
        h, before = A @ h + B @ last, h
        expected.append(h)
    np.testing.assert_allclose(input_response(A, B, change, gains).effect, expected, atol=1e-12)


def test_laws_in_other_units_close_the_same_loops():
    rng = np.random.default_rng(4)
    gains = FeedbackGains(0.2 * rng.standard_normal((K, N)), 0.1 * rng.standard_normal((K, N)), 0.3 * np.eye(K))
    S, D = np.diag([2.0, 0.5, 3.0, 4.0][:N]), np.array([5.0, 0.1, 3.0][:K])
    change = rng.standard_normal((8, K))
    inside = input_response(np.linalg.solve(S, A @ S), np.linalg.solve(S, B * D), change / D, gains.scaled(S, D)).effect
    np.testing.assert_allclose(inside @ S, input_response(A, B, change, gains).effect, atol=1e-12)


@pytest.mark.parametrize("closed", [False, True])
def test_covariances_of_effects_are_those_of_numerical_derivatives(closed):
    rng = np.random.default_rng(3)
    gains = None
    if closed:
        gains = FeedbackGains(0.2 * rng.standard_normal((K, N)), np.zeros((K, N)), 0.2 * np.eye(K))
    change = rng.standard_normal((7, K))
    rows, cols = np.nonzero(rng.random(THETA.shape) < 0.7)
    factor = rng.standard_normal((len(rows), len(rows)))
    covariance = factor @ factor.T
    derivative = []
    for i, j in zip(rows, cols, strict=True):
        ahead, behind = THETA.copy(), THETA.copy()
        ahead[i, j] += 1e-6
        behind[i, j] -= 1e-6
        runs = [input_response(x[:, :N], x[:, N:], change, gains).effect for x in (ahead, behind)]
        derivative.append((runs[0] - runs[1]) / 2e-6)
    derivative = np.array(derivative)
    blocks = (slice(0, 2), slice(2, 3))
    found = response_covariances(input_response(A, B, change, gains), rows, cols, covariance, blocks)
    for V, block in zip(found, blocks, strict=True):
        D = derivative[:, :, block]
        expected = np.einsum("qti,qr,rtj->tij", D, covariance, D)
        np.testing.assert_allclose(V, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


def test_nothing_estimated_nothing_uncertain():
    none = np.zeros(0, dtype=int)
    found = response_covariances(input_response(A, B, np.ones((4, K))), none, none, np.zeros((0, 0)), (slice(0, N),))
    np.testing.assert_array_equal(found[0], np.zeros((4, N, N)))
