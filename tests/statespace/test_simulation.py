"""Simulated states and what measurements of given information say of them, against their covariances."""

import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

from skfedcausal.statespace.kalman import simulated_information, simulated_states

A = np.array([[0.7, 0.2], [0.0, 0.5]])
Q = np.array([[1.0, 0.3], [0.3, 0.5]])
N = 40_000


@pytest.mark.medium
def test_every_episode_starts_from_the_stationary_distribution():
    """Episodes of two rows: covariances of both rows and across them, within five standard errors."""
    x = simulated_states(A, Q, range(0, 2 * N, 2), 2 * N, np.random.default_rng(0)).reshape(N, 4)
    S = solve_discrete_lyapunov(A, Q)
    expected = np.block([[S, S @ A.T], [A @ S, S]])
    spread = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / N)
    assert (np.abs(x.T @ x / N - expected) < 5 * spread).all()


@pytest.mark.medium
def test_known_terms_and_the_spread_of_the_first_state_are_added():
    known = np.zeros((6, 2))
    known[[2, 5]] = [[1.0, -2.0], [3.0, 0.0]]
    plain, driven = (
        simulated_states(A, Q, (0, 3), 6, np.random.default_rng(1), exogenous=term) for term in (None, known)
    )
    np.testing.assert_allclose(driven - plain, known, atol=1e-14)
    wide = simulated_states(A, Q, range(N), N, np.random.default_rng(2), spread=9 * np.eye(2))
    expected = np.diag(solve_discrete_lyapunov(A, Q)) + 9
    assert (np.abs(wide.var(axis=0) / expected - 1) < 5 * np.sqrt(2 / N)).all()


def test_information_has_the_mean_and_noise_of_its_pattern():
    patterns = np.array([[[2.0, 0.5], [0.5, 1.0]], [[1.0, 0.0], [0.0, 0.0]]])
    index, states = np.tile([0, 1], N), np.tile([[1.0, -1.0], [3.0, 2.0]], (N, 1))
    z = simulated_information(patterns, index, states, np.random.default_rng(3))
    for k, J in enumerate(patterns):
        rows = z[k::2]
        scale = np.sqrt(np.diag(J))
        assert (np.abs(rows.mean(axis=0) - J @ states[k]) <= 5 * scale / np.sqrt(N)).all()
        noise = rows - J @ states[k]
        assert (np.abs(noise.T @ noise / N - J) <= 5 * np.sqrt(2 / N) * np.outer(scale, scale)).all()
