"""Designs of experiments against brute force."""

import numpy as np
import pytest

from skfedcausal.server.planning import LinkDesign, best_moves, square_waves

ROWS = 40
A, B = np.array([[0.8, 0.0, 0.1], [0.1, 0.5, 0.0], [0.0, 0.2, 0.6]]), np.array([[1.0, 0.0], [0.0, 0.4], [0.2, 0.0]])


def design(of_input=False, early=(False, False), n_rows=ROWS, noise=0.3):
    """State 0 (or input 0) acts on state 1, beside states 1 and 2 and the inputs."""
    responses = np.zeros((3, n_rows, 2))
    for lag in range(n_rows - 1):
        responses[:, lag + 1] = np.linalg.matrix_power(A, lag) @ B
    early = np.array(early)
    responses[:, :-1, early] = responses[:, 1:, early]
    states, direct = np.array([0, 1, 2]), np.array([0, 1])
    return LinkDesign(responses, noise * np.eye(3), states, direct, early, 1, of_input, np.eye(1))


def simulated(u, early):
    """Regressors of state 1 row by row."""
    x, rows = np.zeros(3), []
    sent = u.copy()
    sent[:-1, early] = u[1:, early]
    before = np.zeros(2)
    before[early] = u[0, early]
    x = B @ before
    rows = [np.concatenate([np.zeros(3), before])]
    for t in range(1, len(u)):
        rows.append(np.concatenate([x, sent[t - 1]]))
        x = A @ x + B @ sent[t - 1]
    return np.array(rows)


@pytest.mark.parametrize("early", [(False, False), (True, False)])
@pytest.mark.parametrize("of_input", [False, True])
def test_regressors_are_those_of_a_simulation(of_input, early):
    u = np.random.default_rng(0).uniform(-1, 1, (ROWS, 2))
    expected = simulated(u, np.array(early))
    expected = expected[:, [3, 4, 0, 1, 2]] if of_input else expected
    found = design(of_input, early).regressors(u)
    np.testing.assert_allclose(found, expected - expected.mean(axis=0), atol=1e-12)


@pytest.mark.parametrize("of_input", [False, True])
def test_the_information_is_that_of_a_regression(of_input):
    u = np.random.default_rng(1).uniform(-1, 1, (ROWS, 2))
    plan = design(of_input, noise=0.0)
    X = plan.regressors(u)
    covariance = np.linalg.inv(X.T @ X + 1e-9 * ROWS * np.eye(5))
    np.testing.assert_allclose(plan.information(u)[0], 1 / covariance[0, 0], rtol=1e-8)


@pytest.mark.parametrize("early", [(False, False), (False, True)])
@pytest.mark.parametrize("of_input", [False, True])
def test_the_gradient_is_the_slope(of_input, early):
    plan, u = design(of_input, early), np.random.default_rng(2).uniform(-1, 1, (ROWS, 2))
    slopes = np.zeros_like(u)
    for place in np.ndindex(*u.shape):
        step = np.zeros_like(u)
        step[place] = 1e-5
        slopes[place] = (plan.value(u + step) - plan.value(u - step)) / 2e-5
    np.testing.assert_allclose(plan.gradient(u), slopes, atol=1e-6)


def test_the_best_moves_of_a_few_rows_are_nearly_the_best_of_all():
    """All 2^10 ways of going from bound to bound."""
    n_rows = 10
    plan = design(n_rows=n_rows)
    plan = LinkDesign(
        plan.responses[:, :, :1],
        *(getattr(plan, name) for name in ("noise", "states")),
        np.array([0]),
        np.array([False]),
        1,
        False,
        plan.rest,
    )
    ways = 2.0 * (np.arange(2**n_rows)[:, None] >> np.arange(n_rows) & 1) - 1.0
    values = np.array([plan.value(way[:, None]) for way in ways])
    found = plan.value(best_moves(plan, n_rows, lambda u: np.clip(u, -1, 1)))
    assert (values > found).mean() < 0.05


def test_slow_moves_tell_more_of_a_slow_unit_than_white_ones():
    plan, rng = design(n_rows=400, noise=0.0), np.random.default_rng(0)
    moves = best_moves(plan, 400, lambda u: np.clip(u, -1, 1))
    white = [plan.information(square_waves(400, 2, 1, rng))[0].item() for _ in range(5)]
    assert plan.information(moves)[0].item() > 2 * np.median(white)
