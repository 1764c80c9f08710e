"""The augmented Lagrangian of the second paper and its implicit-explicit step."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import null_space

from skfedcausal.papers.numerics.descent import (
    ImplicitStep,
    Products,
    Rates,
    WarmUp,
    fixed_point,
    from_delta,
    gradients,
    losses,
    recurrence,
)
from skfedcausal.theory.descent import LagrangianSteps, descend

from ._training import make_record, random_point, safe_rates, stack_problems


def make_problem(seed=0, xi=10.0, **how):
    """A problem with inputs and a constant, its safe rates without and with penalty."""
    settings = {"n_inputs": 2, "constant": True, "n_pairs": 80, **how}
    free = make_record(seed, **settings).problem()
    problem = make_record(seed, **settings, xi=xi).problem()
    return problem, safe_rates(free), safe_rates(problem)


def test_an_implicit_step_solves_its_equation():
    rng = np.random.default_rng(0)
    L, R = (F @ F.T for F in (rng.standard_normal((3, 2)), rng.standard_normal((5, 5))))
    step = rng.standard_normal((3, 5))
    x = ImplicitStep(L, R, 7.0)(step)
    assert_allclose(x + 7.0 * L @ x @ R, step, atol=1e-12)


def test_a_round_is_its_update_equations_written_out():
    """theta, phi, A_mn, B_mn and multipliers of every time step, straight from series."""
    xi = 4.0
    record = make_record(3, n_inputs=2, constant=True, xi=xi)
    problem, rates = record.problem(), safe_rates(make_record(3, n_inputs=2, constant=True).problem())
    parameters, blocks = random_point(problem)
    steps = LagrangianSteps(problem, rates)
    y, v, c, A, C = record.measurements, record.drivers, record.residuals, record.A, record.C
    T, d = y.shape
    h = v[:, : problem.n_states]
    dual = np.zeros((T, len(A)))
    eta1, eta2, gamma = rates.client[0, 0], rates.server[0, 0], rates.blocks[0, 0]
    for k in range(4):
        theta, phi = parameters[:, :d], parameters[:, d]
        W_A = blocks[:, : problem.n_states]
        e = y @ theta.T @ A.T + phi
        D = y @ theta.T @ A.T - h @ W_A.T
        dual += 2 * xi * D if k else 0.0
        r_a, r_s = c - e @ C.T, v @ blocks.T - e
        own, pull, past = -2 * r_a @ C / T, -2 * r_s / T, (2 * xi * D + dual) @ A / T
        d_theta = eta1 * A.T @ own.T @ y + eta2 * (A.T @ pull.T @ y + past.T @ y)
        d_phi = eta1 * own.sum(axis=0) + eta2 * pull.sum(axis=0)
        d_A = gamma * (2 * r_s.T @ h - (2 * xi * D + dual).T @ h) / T
        d_B = gamma * 2 * r_s.T @ v[:, problem.n_states :] / T
        curvature = np.kron(y.T @ y / T, A.T @ A)
        d_theta = np.linalg.solve(np.eye(len(curvature)) + 4 * eta2 * xi * curvature, d_theta.ravel(order="F"))
        d_A = np.linalg.solve(np.eye(h.shape[1]) + 4 * gamma * xi * h.T @ h / T, d_A.T).T
        step, turn = steps.at(Products.at(problem, parameters, blocks), parameters, blocks)
        assert_allclose(step, np.column_stack([d_theta.reshape(theta.shape, order="F"), d_phi]), atol=1e-11)
        assert_allclose(turn, np.hstack([d_A, d_B]), atol=1e-11)
        parameters, blocks = parameters - step, blocks - turn


def constrained_minimum(problem, weight):
    """Minimiser of ``weight L_m + L_s`` where ``D = 0``: a linear least-squares problem in a null space."""
    unified = recurrence(problem, Rates.constant(problem, weight, 1.0, 1.0))
    n = len(unified.H)
    rows = []
    for k in range(n):
        at = Products.at(problem, *from_delta(problem, np.eye(n)[k]))
        rows.append(((at.E * problem.in_penalty) @ problem.moments).ravel())
    N = null_space(np.array(rows).T)
    B = np.eye(n) - unified.H
    x = N @ np.linalg.lstsq(N.T @ B @ N, N.T @ unified.J, rcond=None)[0]
    return from_delta(problem, x)


@pytest.mark.parametrize("xi", [1.0, 100.0, 1e4])
def test_the_limit_minimises_the_loss_under_the_constraint_whatever_rho_is(xi):
    problem, rates, _ = make_problem(2, xi)
    end = descend(problem, rates, *random_point(problem), max_iter=30_000, tol=1e-13, warm_up=WarmUp(30_000, rates))
    free = make_problem(2, 0.0)[0]
    at = losses(free, Products.at(free, *constrained_minimum(free, 1.0)))
    assert end.history.penalty[-1] < 1e-12 * end.history.penalty[0]
    assert_allclose([end.history.client[-1], end.history.server[-1]], [at.client, at.server], rtol=1e-6, atol=1e-10)


def test_the_constraint_at_every_step_leaves_no_blocks_between_states():
    """Measurements and other states that are not collinear can only agree at zero."""
    problem, rates, _ = make_problem(2, 100.0)
    warm = WarmUp(3000, rates)
    end = descend(problem, rates, *random_point(problem), max_iter=3000, warm_up=warm)
    assert np.abs(end.blocks[:, : problem.n_states]).max() < 1e-6
    assert np.abs(problem.transition @ end.parameters[:, : problem.n_outputs]).max() < 1e-6


def test_large_weights_that_explicit_steps_cannot_take_do_not_make_it_diverge():
    problem, rates, _ = make_problem(0, 1e4)
    start = random_point(problem)
    assert descend(problem, rates, *start, max_iter=500).diverged
    end = descend(problem, rates, *start, max_iter=500, warm_up=WarmUp(500, rates))
    assert not end.diverged
    assert end.history.penalty[-1] < 1e-8


@pytest.mark.medium
def test_the_hybrid_schedule_ends_where_the_penalty_does():
    problem, rates, penalised = make_problem(3, 2.0)
    start = random_point(problem)
    end = descend(problem, penalised, *start, max_iter=200_000, tol=1e-12, warm_up=WarmUp(50, rates))
    unified = recurrence(problem, penalised)
    parameters, blocks = from_delta(problem, fixed_point(unified))
    assert end.history.penalty[50] < 0.1 * end.history.penalty[0]
    assert end.converged
    assert_allclose(problem.transition @ end.parameters[:, :3], problem.transition @ parameters[:, :3], atol=1e-5)
    assert_allclose(end.blocks, blocks, atol=1e-5)


def test_a_stack_warms_up_as_each_problem_alone():
    problems, rates = zip(*[make_problem(seed, 10.0)[:2] for seed in (0, 1)], strict=True)
    stacked = Rates(*[np.stack([getattr(r, name) for r in rates]) for name in ("client", "server", "blocks")])
    starts = [random_point(problem, seed) for seed, problem in enumerate(problems)]
    both = descend(
        stack_problems(problems),
        stacked,
        *[np.stack(part) for part in zip(*starts, strict=True)],
        max_iter=40,
        warm_up=WarmUp(40, stacked),
    )
    for m, problem in enumerate(problems):
        alone = descend(problem, rates[m], *starts[m], max_iter=40, warm_up=WarmUp(40, rates[m]))
        assert_allclose(both.parameters[m], alone.parameters, rtol=1e-9, atol=1e-12)
        assert_allclose(both.blocks[m], alone.blocks, rtol=1e-9, atol=1e-12)


def test_without_a_weight_it_is_gradient_descent():
    problem, rates, _ = make_problem(0, 0.0)
    start = random_point(problem)
    step, turn = LagrangianSteps(problem, rates).at(Products.at(problem, *start), *start)
    slope = gradients(problem, Products.at(problem, *start))
    assert_allclose(step, rates.client * slope.client + rates.server * slope.server, rtol=1e-12)
    assert_allclose(turn, rates.blocks * slope.blocks, rtol=1e-12)
