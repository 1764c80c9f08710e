"""Coherent shift statistic against generalised least squares on the whole joint Gaussian."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skfedcausal.statespace.detection.shift import (
    InnovationModel,
    Signatures,
    bias_information,
    likelihood_ratios,
    ramp_ratios,
    step_and_bias_scores,
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


def settled_innovations(plant):
    """Model, scaled innovations of a filter that has settled from the first row on, and its first covariance."""
    A, Q, C, R, Y = plant
    J = C.T @ np.linalg.solve(R, C)
    z = Y @ np.linalg.solve(R, C)
    model = InnovationModel(A, Q, J)
    P = model.schedule.predicted[-1]
    settled = type(model.schedule)(A, J, P[None], model.schedule.filtered[-1:])
    return model, model.scaled(z, predicted_states(A, filtered_states(settled, z))), P


@pytest.mark.parametrize("kind", ["process", "sensor"])
@pytest.mark.parametrize("columns", [[0, 1], [2, 3], [0, 1, 2, 3]])
def test_ratio_is_that_of_the_whole_joint_gaussian(plant, kind, columns):
    Y = plant[-1]
    model, scaled, P = settled_innovations(plant)
    if kind == "process":
        scores, information = step_scores(model, scaled), model.step_information(T)
    else:
        scores, information = step_and_bias_scores(model, scaled)[1], bias_information(model, T)
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


def test_ratio_of_a_ramp_is_that_of_the_whole_joint_gaussian(plant):
    """A ramp is a step more in every row."""
    Y, blocks = plant[-1], (slice(0, 1), slice(1, 3), slice(3, 4))
    model, scaled, P = settled_innovations(plant)
    inverse = np.linalg.inv(steady_covariance(plant, P))
    expected = []
    for kind in ("process", "sensor"):
        for at in blocks:
            paths = [sum(mean_path(plant, t, k, kind) for t in range(T)) for k in range(N)[at]]
            D = np.column_stack(paths)
            b = D.T @ inverse @ Y.ravel()
            expected.append(b @ np.linalg.solve(D.T @ inverse @ D, b))
    found = ramp_ratios(model, *step_and_bias_scores(model, scaled), blocks)
    assert_allclose(found, expected, rtol=1e-8)


def test_held_shift_is_the_limit_of_the_signature(plant):
    A, Q, C, R, _ = plant
    model = InnovationModel(A, Q, C.T @ np.linalg.solve(R, C))
    G = np.zeros((N, N))
    for _ in range(300):
        G = np.eye(N) + model.carry @ G
    assert_allclose(model.held, G, rtol=1e-9)


def innovation_model(plant):
    A, Q, C, R, _ = plant
    return InnovationModel(A, Q, C.T @ np.linalg.solve(R, C))


def test_whitened_innovations_have_unit_covariance(plant):
    """Also where the measurements say nothing about some direction, which is left out."""
    A, Q, _, _, _ = plant
    model = innovation_model(plant)
    assert_allclose(model.whitening.T @ model.weight @ model.whitening, np.eye(N), atol=1e-10)
    half = InnovationModel(A, Q, np.diag([2.0, 1.0, 0.0, 0.0]))
    assert half.whitening.shape == (N, 2)
    assert_allclose(half.whitening.T @ half.weight @ half.whitening, np.eye(2), atol=1e-10)


def test_a_plant_without_memory_has_the_scaling_of_its_noise(plant):
    """Its filter has settled from the first row on."""
    _, Q, C, R, _ = plant
    J = C.T @ np.linalg.solve(R, C)
    model = InnovationModel(np.zeros((N, N)), Q, J)
    assert_allclose(model.scaling, np.linalg.inv(np.eye(N) + J @ Q), rtol=1e-10)
    assert_allclose(model.held, np.eye(N), atol=1e-12)


def test_scores_of_several_windows_are_those_of_each(plant):
    model = innovation_model(plant)
    u = np.random.default_rng(0).standard_normal((3, T, N))
    for together, alone in zip(zip(*step_and_bias_scores(model, u), strict=True), u, strict=True):
        for one, other in zip(together, step_and_bias_scores(model, alone), strict=True):
            assert_allclose(one, other, atol=1e-12)


def test_faults_that_start_early_in_a_longer_window_have_its_ratios(plant):
    """Signatures prepared for longer windows answer shorter ones, and onsets that stop before the end."""
    model = innovation_model(plant)
    candidates = [np.array([0, 1]), np.array([2]), np.array([0, 1, 3])]
    long = Signatures.prepare(model.step_information(T + 5), candidates)
    scores = step_scores(model, np.random.default_rng(1).standard_normal((T, N)))
    information = model.step_information(T)[::-1]
    assert long.n_rows == T + 5
    assert long.n_params.tolist() == [2, 1, 3]
    ratios = long.ratios(scores[:7], n_after=T - 7)
    for k, columns in enumerate(candidates):
        assert_allclose(ratios[k], likelihood_ratios(scores, information, columns)[:7], rtol=1e-9)


def test_candidates_of_one_number_of_states_have_windows_as_long_as_any(plant):
    model = InnovationModel(plant[0], plant[1], plant[2].T @ np.linalg.solve(plant[3], plant[2]))
    candidates = [np.array([0]), np.array([2])]
    assert Signatures.prepare(model.step_information(T), candidates).n_rows == T


def test_scaled_innovations_are_white_in_as_many_directions_as_are_seen():
    """A direction is seen from 1e-12 of the largest on."""
    A, Q = np.zeros((3, 3)), np.eye(3)  # predictions vary by one, innovations j in z by j**2 / (1 + j)
    for unit in (1.0, 1e-3):
        seen = [InnovationModel(A, Q / unit, unit * np.diag([1.0, 1.0, j])).whitening for j in (1e-13, 1e-11)]
        assert [W.shape for W in seen] == [(3, 2), (3, 3)]
    model = InnovationModel(0.5 * np.eye(3), Q, np.diag([1.0, 2.0, 0.5]))
    assert_allclose(model.whitening.T @ model.weight @ model.whitening, np.eye(3), atol=1e-12)
