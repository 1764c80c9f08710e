"""Sensitivity against what the clients really compute from neighbouring records."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import block_diag

from skfedcausal import KalmanClient
from skfedcausal.privacy import (
    SensitivityUnboundedError,
    augmented_message_sensitivity,
    client_sensitivity,
    event_sensitivity,
    residual_sensitivity,
    server_gradient_sensitivity,
    window_sensitivity,
)
from skfedcausal.statespace.kalman import predicted_covariance

P, D = 2, 4


def make_client(seed, persistence=0.95, noise=1.0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(P, P))
    A *= persistence / np.abs(np.linalg.eigvals(A)).max()
    C = rng.normal(size=(D, P))
    return KalmanClient(A=A, C=C, Q=0.05 * np.eye(P), R=noise * np.ones(D))


def steady_filter(client):
    """F and K of ``h[t] = F h[t-1] + K y[t]``."""
    A, C, Q, R = client.A, client.C, client.Q, np.diag(client.R)
    J = C.T @ np.linalg.solve(R, C)
    Pp = predicted_covariance(A, J, Q)
    K = Pp @ C.T @ np.linalg.inv(C @ Pp @ C.T + R)
    return (np.eye(P) - K @ C) @ A, K


def changed_trajectory(client, change, at=500, after=1500):
    """Difference of the client's filtered states when its measurements differ by `change` from `at` on."""
    rng = np.random.default_rng(1)
    Y = rng.normal(size=(at + after, D))
    other = Y.copy()
    other[at : at + len(change)] += change
    return client.transform(other) - client.transform(Y)


CASES = [(seed, persistence, noise) for seed in range(4) for persistence, noise in ((0.3, 1.0), (0.97, 30.0))]


@pytest.mark.parametrize(("seed", "persistence", "noise"), CASES)
def test_event_sensitivity_is_attained_by_the_client_and_never_exceeded(seed, persistence, noise):
    client = make_client(seed, persistence, noise)
    F, K = steady_filter(client)
    bound = event_sensitivity(F, K, radius=2.0)
    X = sum(np.linalg.matrix_power(F, j).T @ np.linalg.matrix_power(F, j) for j in range(3000))
    worst = np.linalg.eigh(K.T @ X @ K)[1][:, -1]
    attained = np.linalg.norm(changed_trajectory(client, 2.0 * worst[None]))
    assert_allclose(attained, bound, rtol=1e-6)
    rng = np.random.default_rng(seed)
    for _ in range(30):
        direction = rng.normal(size=(1, D))
        direction *= 2.0 / np.linalg.norm(direction)
        assert np.linalg.norm(changed_trajectory(client, direction)) <= bound * (1 + 1e-6)


def test_the_gain_alone_is_no_bound_for_a_filter_that_remembers():
    """The papers' ``rho ||K||`` covers the message of the same step and none of the later ones."""
    F, K = steady_filter(make_client(0, 0.999, 300.0))
    assert np.abs(np.linalg.eigvals(F)).max() > 0.95
    assert event_sensitivity(F, K) > 2.5 * np.linalg.norm(K, 2)


@pytest.mark.parametrize("n_steps", [1, 3, 50])
def test_short_records_have_less_to_change(n_steps):
    F, K = steady_filter(make_client(1, 0.97, 10.0))
    stacked = np.vstack([np.linalg.matrix_power(F, j) @ K for j in range(n_steps)])
    assert_allclose(event_sensitivity(F, K, n_steps=n_steps), np.linalg.norm(stacked, 2), rtol=1e-12)


def power_search(operator, d, window, rng, n_steps=200):
    """Largest change found when every step of a window may change by one: ascent, step by step normed."""
    V = rng.normal(size=(window, d))
    V /= np.linalg.norm(V, axis=1, keepdims=True)
    gram = operator.T @ operator
    for _ in range(n_steps):
        V = (gram @ V.ravel()).reshape(window, d)
        V /= np.linalg.norm(V, axis=1, keepdims=True)
    return np.linalg.norm(operator @ V.ravel()), V


def window_operator(F, K, window, horizon):
    powers = [K]
    for _ in range(horizon - 1):
        powers.append(F @ powers[-1])
    T = np.zeros((horizon, P, window, D))
    for t in range(horizon):
        for s in range(min(window, t + 1)):
            T[t, :, s] = powers[t - s]
    return T.reshape(horizon * P, window * D)


@pytest.mark.parametrize("window", [1, 5, 20])
@pytest.mark.parametrize(("seed", "persistence", "noise"), CASES[:4])
def test_window_sensitivity_holds_for_every_window_found_by_search(seed, persistence, noise, window):
    client = make_client(seed, persistence, noise)
    F, K = steady_filter(client)
    bound = window_sensitivity(F, K, window)
    operator = window_operator(F, K, window, window + 400)
    rng = np.random.default_rng(seed)
    found, V = max((power_search(operator, D, window, rng) for _ in range(5)), key=lambda pair: pair[0])
    assert found <= bound * (1 + 1e-9)
    assert found >= 0.9 * bound  # close to what it bounds
    assert_allclose(np.linalg.norm(changed_trajectory(client, V)), found, rtol=1e-6)
    if window == 1:
        assert_allclose(bound, event_sensitivity(F, K), rtol=1e-9)


@pytest.mark.parametrize(("seed", "persistence", "noise"), CASES[:2])
def test_client_sensitivity_holds_for_constant_and_alternating_changes(seed, persistence, noise):
    client = make_client(seed, persistence, noise)
    F, K = steady_filter(client)
    n_steps = 250
    bound = client_sensitivity(F, K, n_steps)
    rng = np.random.default_rng(seed)
    operator = window_operator(F, K, n_steps, n_steps)
    found = max(power_search(operator, D, n_steps, rng, 50)[0] for _ in range(2))
    assert found <= bound * (1 + 1e-9)
    assert found >= bound / np.sqrt(2) * 0.95
    assert np.linalg.norm(operator, 2) * np.sqrt(n_steps) <= bound * (1 + 1e-9)


@pytest.mark.parametrize("n_steps", [None, 4])
def test_sensitivity_of_the_papers_messages_equals_brute_force(n_steps):
    client = make_client(2, 0.9, 5.0)
    A, (F, K) = client.A, steady_filter(client)
    theta = np.random.default_rng(0).normal(size=K.shape) * 0.1
    columns = []
    for dy in np.eye(D):
        h, parts = K @ dy, []
        for step in range(4 if n_steps else 800):
            filtered = h + (theta @ dy if step == 0 else 0)
            parts += [h, filtered, A @ filtered]
            h = F @ h
        columns.append(np.concatenate(parts))
    exact = np.linalg.norm(np.column_stack(columns), 2)
    assert_allclose(augmented_message_sensitivity(A, F, K, theta, n_steps=n_steps), exact, rtol=1e-9)


def test_gradient_sensitivity_equals_brute_force_and_the_papers_lemma_fails():
    rng = np.random.default_rng(3)
    client = make_client(3, 0.8, 2.0)
    F, K = steady_filter(client)
    theta = 0.1 * rng.normal(size=K.shape)
    A = block_diag(client.A, 0.5 * np.eye(P))
    A[P:, :P] = rng.normal(size=(P, P))
    slices, T = [slice(0, P), slice(P, 2 * P)], 400
    columns = []
    for dy in np.eye(D):
        h, parts = K @ dy, []
        for step in range(T):  # change of h_a - h_s of the next step, all recipients
            own = client.A @ theta @ dy if step == 0 else np.zeros(P)
            parts += [own, -A[P:, :P] @ h]
            h = F @ h
        columns.append(2 / T * np.concatenate(parts))
    exact = np.linalg.norm(np.column_stack(columns), 2)
    assert_allclose(server_gradient_sensitivity(A, F, K, theta, 0, slices, T), exact, rtol=1e-9)


@pytest.mark.parametrize("cap", [np.inf, 0.5])
def test_residual_sensitivity_bounds_the_scores_of_neighbouring_records(cap):
    client = make_client(4, 0.9, 2.0)
    F, K = steady_filter(client)
    A, C, R = client.A, client.C, np.diag(client.R)
    Pp = predicted_covariance(A, C.T @ np.linalg.solve(R, C), client.Q)
    S = C @ Pp @ C.T + R
    L = np.linalg.cholesky(np.linalg.inv(S))
    bound = residual_sensitivity(A, C, F, K, S, radius=2.0, cap=cap)
    rng = np.random.default_rng(0)

    def scores(Y):
        residuals = Y[1:] - client.transform(Y)[:-1] @ (C @ A).T
        return np.minimum(np.linalg.norm(residuals @ L, axis=1), cap)

    largest = 0.0
    for _ in range(100):
        Y = rng.normal(size=(900, D)) * 0.1
        other = Y.copy()
        change = rng.normal(size=D)
        other[300] += 2.0 * change / np.linalg.norm(change)
        largest = max(largest, np.linalg.norm(scores(other) - scores(Y)))
    assert largest <= bound * (1 + 1e-9)
    assert largest >= 0.5 * bound


@pytest.mark.parametrize("cap", [0.3, 1.5, 50.0])
def test_a_cap_bounds_the_step_itself_and_not_those_after_it(cap):
    """One state, one sensor: residuals ``y[t] - a h[t-1]`` of variance S, measurement moved by `radius`."""
    a, k, S, radius, one = 0.9, 0.4, 4.0, 3.0, np.eye(1)
    f = (1 - k) * a
    later = radius**2 * (a * k) ** 2 / S / (1 - f**2)
    found = residual_sensitivity(a * one, one, f * one, k * one, S * one, radius=radius, cap=cap)
    assert_allclose(found, np.sqrt(min(cap**2, radius**2 / S) + later), rtol=1e-12)
    plain = residual_sensitivity(a * one, one, f * one, k * one, S * one)
    assert_allclose(plain, np.sqrt(1 / S + later / radius**2), rtol=1e-12)


@pytest.mark.parametrize(
    "sensitivity",
    [event_sensitivity, lambda F, K: window_sensitivity(F, K, 3), lambda F, K: client_sensitivity(F, K, 9)],
)
def test_a_filter_that_never_forgets_has_no_bound(sensitivity):
    with pytest.raises(SensitivityUnboundedError, match="never forgets"):
        sensitivity(np.eye(2), np.ones((2, 3)))


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="F has shape"):
        event_sensitivity(np.eye(2), np.ones((3, 2)))


@pytest.mark.parametrize("n_steps", [1, 3, 40])
def test_a_window_is_never_more_than_its_events_and_counts_all_of_them(n_steps):
    """Without memory the steps of a window lie in different states; with a long one they add up."""
    one = np.eye(1)
    assert_allclose(window_sensitivity(0 * one, one, n_steps, radius=0.5), 0.5 * np.sqrt(n_steps))
    joint = window_sensitivity(0.999 * one, one, n_steps)
    events = n_steps * event_sensitivity(0.999 * one, one)
    assert 0.97 * events < joint <= events * (1 + 1e-12)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_client_is_hidden_at_the_frequency_that_it_shows_at(sign):
    """Constant changes add up in a slow filter, alternating ones in one that turns."""
    F = sign * 0.8 * np.eye(1)
    assert_allclose(client_sensitivity(F, np.eye(1), 25, radius=2.0), 2 * 5 / 0.2, rtol=1e-9)


@pytest.mark.parametrize("angle", [0.7, 0.7008, 2.9])
def test_a_resonance_is_found_between_the_frequencies_that_are_tried(angle):
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    K = np.array([[1.0], [0.0]])
    near = np.exp(-1j * (angle + np.linspace(-0.02, 0.02, 4001)))
    gains = [np.linalg.norm(np.linalg.solve(np.eye(2) - 0.95 * turn * w, K)) for w in near]
    assert_allclose(client_sensitivity(0.95 * turn, K, 1), max(gains), rtol=1e-7)


def test_gradients_of_others_and_the_own_shift_scale_with_radius_and_steps():
    one, slices = np.eye(1), [slice(0, 1), slice(1, 2), slice(2, 3)]
    A = np.array([[0.5, 0.0, 0.0], [0.3, 0.5, 0.0], [0.4, 0.0, 0.5]])
    found = server_gradient_sensitivity(A, 0.6 * one, 2.0 * one, 0.8 * one, 0, slices, 50, radius=3.0)
    others = 0.5 * 2.0 / np.sqrt(1 - 0.36)  # of all later steps, both recipients together
    assert_allclose(found, 3.0 * 2 / 50 * np.hypot(others, 0.5 * 0.8))


@pytest.mark.parametrize("persistence", [1.0, 1 - 1e-13, 1 - 1e-9])
def test_a_filter_must_forget_at_last(persistence):
    if persistence < 1 - 1e-12:
        assert np.isfinite(event_sensitivity([[persistence]], [[1.0]]))
        return
    with pytest.raises(SensitivityUnboundedError, match="spectral radius 1"):
        event_sensitivity([[persistence]], [[1.0]])
    assert_allclose(event_sensitivity([[1.0]], [[1.0]], n_steps=9), 3.0)


@pytest.mark.parametrize(
    ("F", "K"),
    [
        (np.eye(2), np.ones((3, 2))),
        (np.ones((2, 3)), np.ones((2, 2))),
        (np.ones(2), np.ones((2, 2))),
        (np.eye(2) / 2, np.ones(2)),
    ],
)
def test_matrices_of_a_filter_fit_together(F, K):
    with pytest.raises(ValueError, match="F has shape"):
        event_sensitivity(F, K)
