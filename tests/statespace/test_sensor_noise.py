"""The noise of sensors with known loadings is the maximum of the likelihood, and says when it is not."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime, minimize

from skfedcausal.statespace.observation import _profile, _scoring_step, sensor_noise


def sample(seed, d, p, *, signal=1.0, n_samples=2000):
    """Covariance of a record, loadings and noise."""
    rng = np.random.default_rng(seed)
    C, R = signal * rng.normal(size=(d, p)), rng.uniform(0.5, 2, d)
    Y = rng.normal(size=(n_samples, p)) @ C.T + rng.normal(size=(n_samples, d)) * np.sqrt(R)
    return Y.T @ Y / n_samples, C, R


def deviance(G, C, S, R):
    """-2 log-likelihood per row as it is defined."""
    cov = C @ S @ C.T + np.diag(R)
    return np.linalg.slogdet(cov)[1] + np.trace(np.linalg.solve(cov, G))


@pytest.mark.parametrize(("d", "p"), [(3, 1), (6, 2), (4, 3)])
def test_the_concentrated_likelihood_is_the_likelihood_at_the_best_covariance_of_the_states(d, p):
    G, C, R = sample(0, d, p)
    J = C.T @ (C / R[:, None])
    W = (C / R[:, None]) @ np.linalg.inv(J)
    S = W.T @ G @ W - np.linalg.inv(J)
    value, *_ = _profile(np.log(R), G, C)
    assert_allclose(value + p, deviance(G, C, S, R), rtol=1e-10)
    rng = np.random.default_rng(1)
    for _ in range(10):  # no other covariance of the states is likelier
        other = S + 0.01 * (X := rng.normal(size=(p, p))) @ X.T
        assert deviance(G, C, other, R) > value + p


@pytest.mark.parametrize(("d", "p"), [(3, 1), (6, 2), (4, 3)])
def test_the_score_is_the_derivative(d, p):
    G, C, _ = sample(0, d, p)
    theta = np.random.default_rng(1).normal(size=d) / 3
    _, score, _ = _profile(theta, G, C)
    slope = approx_fprime(theta, lambda x: _profile(x, G, C)[0], 1e-7)
    assert_allclose(-slope / 2, score, atol=1e-5)


def test_the_information_is_the_expected_curvature():
    _, C, R = sample(0, 6, 2)
    G, theta = C @ C.T + np.diag(R), np.log(R)  # at the truth, expectation and value are the same
    _, score, fisher = _profile(theta, G, C)
    assert_allclose(score, 0, atol=1e-12)
    curvature = approx_fprime(theta, lambda x: -_profile(x, G, C)[1], 1e-6)
    assert_allclose(curvature, fisher, atol=1e-5)


def test_variances_at_a_bound_stay_if_the_score_points_outwards_and_leave_if_inwards():
    fisher = np.full((5, 5), 0.2) + np.diag([1.0, 2.0, 3.0, 4.0, 5.0])
    low, high, damping = -1.0, np.ones(5), 0.1
    theta, score = np.array([-1.0, -1.0, 1.0, 1.0, 0.0]), np.array([-0.1, 0.2, 0.3, -0.4, 0.5])
    step = _scoring_step(theta, score, fisher, damping, low, high)
    free = [1, 3, 4]
    H = fisher[np.ix_(free, free)]
    assert_allclose(step[free], np.linalg.solve(H + damping * np.diag(np.diag(H)), score[free]), rtol=1e-9)
    assert_allclose(step[[0, 2]], 0)
    held = _scoring_step(theta[[0, 2]], score[[0, 2]], fisher[:2, :2], damping, low, high[:2])
    assert_allclose(held, 0)


@pytest.mark.parametrize("signal", [1.0, 10.0, 100.0])
@pytest.mark.parametrize(("d", "p"), [(3, 1), (8, 2), (8, 4), (32, 4)])
def test_no_other_noise_is_likelier(d, p, signal):
    for seed in range(3):
        G, C, _ = sample(seed, d, p, signal=signal)
        floor = 1e-6 * np.diag(G)
        fit = sensor_noise(G, C, floor)
        assert fit.converged
        assert fit.n_steps < 60
        value, score, _ = _profile(np.log(fit.R), G, C)
        assert np.abs(score[1.001 * floor < fit.R]).max() < 1e-5
        bounds = list(zip(np.log(floor), np.log(np.diag(G)), strict=True))
        start = np.log(fit.R)
        other = minimize(lambda x: _profile(x, G, C)[0], start, bounds=bounds, method="L-BFGS-B")  # noqa: B023
        assert other.fun > value - 1e-6


def test_the_noise_found_has_the_standard_errors_of_the_information():
    errors = []
    for seed in range(40):
        G, C, R = sample(seed, 8, 2)
        _, _, fisher = _profile(np.log(R), C @ C.T + np.diag(R), C)
        stderr = np.sqrt(np.diag(np.linalg.inv(fisher)) / 2000)
        errors.append((np.log(sensor_noise(G, C, 1e-6 * np.diag(G)).R) - np.log(R)) / stderr)
    # the variance of 320 standard normal numbers varies by sqrt(2 / 320)
    assert abs(np.var(errors) - 1) < 4 * np.sqrt(2 / 320)


def test_a_noise_below_the_floor_is_put_there():
    G, C, _ = sample(0, 8, 2)
    floor = np.full(8, 1e-9)
    floor[3] = 1.5 * sensor_noise(G, C, floor).R[3]
    assert sensor_noise(G, C, floor).R[3] == pytest.approx(floor[3])


def test_a_search_that_ends_by_count_says_so():
    G, C, _ = sample(0, 8, 2, signal=10.0)
    assert not sensor_noise(G, C, 1e-6 * np.diag(G), max_steps=2).converged
