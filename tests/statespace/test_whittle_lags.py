"""Whittle likelihood of plants of several lags."""

import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

from skfedcausal.statespace.episodes import TransitionMoments
from skfedcausal.statespace.fisher import FreeElements, InformationColumns
from skfedcausal.statespace.matrices import companion, spectral_radius
from skfedcausal.statespace.whittle import WhittleLikelihood

N, N_LAGS, N_COVARIANCES = 2, 3, 60


def plant(seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(N, N * N_LAGS))
    smaller = 0.6 / spectral_radius(companion(A, N_LAGS))
    A *= np.repeat(smaller ** np.arange(1, N_LAGS + 1), N)  # all roots of the plant become that much smaller
    L, K = rng.normal(size=(2, N, N))
    return A, np.eye(N) + L @ L.T / 2, np.eye(N) + K @ K.T / 2


def expected_moments(A, Q, noise):
    """Of the scores of a plant of several lags, stacked, for a record without end."""
    n = N * N_LAGS
    own, driven = companion(A, N_LAGS), np.zeros((n, n))
    driven[:N, :N] = Q
    S = solve_discrete_lyapunov(own, driven)
    gamma = [np.linalg.matrix_power(own, lag) @ S for lag in range(N_COVARIANCES + 2)]
    for lag in range(N_LAGS):  # a row holds the noise of the last rows
        gamma[lag] = gamma[lag] + np.kron(np.eye(N_LAGS, k=-lag), noise)
    gamma = np.array(gamma)
    back = np.array([gamma[1].T, *gamma[:N_COVARIANCES]])
    return TransitionMoments(gamma[:-1], gamma[1:], gamma[:-1], back, 1000)


@pytest.fixture(scope="module", params=[0, 1])
def at_truth(request):
    A, Q, noise = plant(request.param)
    return A, Q, WhittleLikelihood(expected_moments(A, Q, noise), noise, N_LAGS)


def test_gradient_is_that_of_differences(at_truth):
    A, Q, likelihood = at_truth
    A, Q, step = 0.9 * A, 1.2 * Q, 1e-6
    found = likelihood.evaluate(A, Q)
    for index in np.ndindex(A.shape):
        E = np.zeros_like(A)
        E[index] = step
        ahead, behind = (likelihood.evaluate(A + s * E, Q).value for s in (1, -1))
        assert found.grad_A[index] == pytest.approx((ahead - behind) / (2 * step), abs=1e-8)


def test_the_truth_is_the_maximum_of_the_expected_likelihood(at_truth):
    A, Q, likelihood = at_truth
    found = likelihood.evaluate(A, Q)
    # what is cut off at the last covariance
    left = 0.6**N_COVARIANCES + 1e-12
    assert np.abs(found.grad_A).max() < left
    assert np.abs(found.grad_Q).max() < left


def test_information_is_the_curvature_of_the_expected_likelihood(at_truth):
    A, Q, likelihood = at_truth
    free = FreeElements.from_masks(np.ones(A.shape, dtype=bool), np.ones(Q.shape, dtype=bool))
    information = InformationColumns(likelihood.information(A, Q), free).square()
    step, curvature = 1e-5, []
    for direction in np.eye(free.n_elements):
        dA, dQ = free.scatter(step * direction, A.shape)
        sides = [likelihood.evaluate(A + s * dA, Q + s * dQ) for s in (1, -1)]
        ahead, behind = (free.gradient(side.grad_A, side.grad_Q) for side in sides)
        curvature.append((behind - ahead) / (2 * step))
    np.testing.assert_allclose(information, curvature, atol=1e-7)
