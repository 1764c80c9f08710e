"""Coherent shift statistic against generalised least squares on the whole joint Gaussian."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skfedcausal.statespace.detection.shift import (
    InnovationModel,
    Signatures,
    bias_information,
    bias_scores,
    likelihood_ratios,
    step_information,
    step_scores,
)
from skfedcausal.statespace.kalman import filtered_states, predicted_states

T, N = 12, 4


@pytest.fixture
def plant():
    rng = np.random.default_rng(3)
    A = rng.standard_normal((N, N))
    A *= 0.8 / np.abs(np.linalg.eigvals(A)).max()
    root = rng.standard_normal((N, N))
    C = rng.standard_normal((6, N))
    R = np.diag(rng.uniform(0.2, 1, 6))
    Q = root @ root.T / N + 0.1 * np.eye(N)
    return A, Q, C, R, rng.standard_normal((T, 6))


def steady_covariance(plant, P0):
    """Covariance of all measurements stacked, the first state with covariance P0 and mean zero."""
    A, Q, C, R, _ = plant
    states = np.zeros((T, N, T, N))
    P = P0
    for t in range(T):
        power = P
        for k in range(t, T):
            states[k, :, t] = power
            states[t, :, k] = power.T
            power = A @ power
        P = A @ P @ A.T + Q
    full = np.einsum("ai,tisj,bj->tasb", C, states, C).reshape(6 * T, 6 * T)
    return full + np.kron(np.eye(T), R)


def mean_path(plant, onset, column, kind):
    """Mean of the measurements of a unit fault in one state from `onset` on."""
    A, _, C, _, _ = plant
    unit = np.eye(N)[column]
    h, path = np.zeros(N), np.zeros((T, 6))
    for t in range(T):
        h = A @ h + (unit if kind == "process" and t >= onset else 0)
        path[t] = C @ (h + (unit if kind == "sensor" and t >= onset else 0))
    return path.ravel()


@pytest.mark.parametrize("kind", ["process", "sensor"])
@pytest.mark.parametrize("columns", [[0, 1], [2, 3], [0, 1, 2, 3]])
def test_ratio_is_that_of_the_whole_joint_gaussian(plant, kind, columns):
    A, Q, C, R, Y = plant
    J = C.T @ np.linalg.solve(R, C)
    z = Y @ np.linalg.solve(R, C)
    model = InnovationModel(A, Q, J)
    P = model.schedule.predicted[-1]
    settled = type(model.schedule)(A, J, P[None], model.schedule.filtered[-1:])
    scaled = model.scaled(z, predicted_states(A, filtered_states(settled, (z, None))))
    if kind == "process":
        scores, information = step_scores(model, scaled), step_information(model.carry, model.weight, T)
    else:
        scores, information = bias_scores(model, scaled), bias_information(model, T)
    ratios = likelihood_ratios(scores, information[::-1], columns)
    candidates = [np.array(columns), np.array([1]), np.array([0, 3])]
    together = Signatures.prepare(information, candidates).ratios(scores).T
    for k, chosen in enumerate(candidates):
        assert_allclose(together[:, k], likelihood_ratios(scores, information[::-1], chosen), rtol=1e-9)
    inverse = np.linalg.inv(steady_covariance(plant, P))
    for onset in (0, 4, T - 1):
        D = np.column_stack([mean_path(plant, onset, k, kind) for k in columns])
        b = D.T @ inverse @ Y.ravel()
        assert_allclose(scores[onset, columns], b, rtol=1e-8, atol=1e-10)
        expected = b @ np.linalg.solve(D.T @ inverse @ D, b)
        assert_allclose(ratios[onset], expected, rtol=1e-8)


def test_held_shift_is_the_limit_of_the_signature(plant):
    A, Q, C, R, _ = plant
    model = InnovationModel(A, Q, C.T @ np.linalg.solve(R, C))
    G = np.zeros((N, N))
    for _ in range(300):
        G = np.eye(N) + model.carry @ G
    assert_allclose(model.held, G, rtol=1e-9)
