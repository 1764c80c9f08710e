"""Rounds and steps of training: the paper's update equations, written out, and what must not happen."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skfedcausal.papers.numerics.descent import Rates, correction_curvature, safe_step
from skfedcausal.theory.descent import descend, descend_online, descend_step

from ..papers._training import make_record, random_point, safe_rates, stack_problems


def paper_step(record, t, rates, theta, blocks):
    """Equations 17 and 24 of the first paper at one pair of time steps."""
    A, C = record.A, record.C
    y, h, c = record.measurements[t], record.drivers[t], record.residuals[t]
    cross = blocks @ h
    new_blocks = blocks + 2 * rates.blocks[0, 0] * np.outer(A @ theta @ y - cross, h)
    # c is y^t - C A h_c^(t-1), so y^t - C A (h_c + theta y)^(t-1) = c - C A theta y
    new_theta = (
        theta
        + 2 * rates.client[0, 0] * (C @ A).T @ np.outer(c - C @ A @ theta @ y, y)
        - 2 * rates.server[0, 0] * A.T @ np.outer(A @ theta @ y - cross, y)
    )
    return new_theta, new_blocks


RATES = (0.01, 0.02, 0.03)


def test_a_step_is_the_papers_equations_17_and_24():
    record = make_record()
    rates = Rates.constant(record.problem(), *RATES)
    theta, blocks = random_point(record.problem())
    expected = paper_step(record, 7, rates, theta, blocks)
    y, v, c = record.measurements[7], record.drivers[7], record.residuals[7]
    step = descend_step(record.A, record.C, rates, theta, blocks, y=y, v=v, c=c)
    assert_allclose(step[0], expected[0], rtol=1e-13)
    assert_allclose(step[1], expected[1], rtol=1e-13)
    assert_allclose(step[2:], one_row_losses(record, 7, theta, blocks))


def one_row_losses(record, t, theta, blocks):
    e = record.A @ theta @ record.measurements[t]
    own, server = record.residuals[t] - record.C @ e, blocks @ record.drivers[t] - e
    return [own @ own, server @ server]


@pytest.mark.parametrize("constant", [False, True])
def test_a_batch_round_is_the_mean_of_the_steps_from_one_point(constant):
    record = make_record(constant=constant)
    problem = record.problem()
    rates = Rates.constant(problem, *RATES, ridge=0.1)
    point = random_point(problem)
    steps = [
        descend_step(record.A, record.C, rates, *point, y=y, v=v, c=c, constant=constant)[:2]
        for y, v, c in zip(record.measurements, record.drivers, record.residuals, strict=True)
    ]
    end = descend(problem, rates, *point, max_iter=1)
    assert_allclose(end.parameters, np.mean([s[0] for s in steps], axis=0), rtol=1e-12)
    assert_allclose(end.blocks, np.mean([s[1] for s in steps], axis=0), rtol=1e-12)


def test_a_pass_is_the_paper_step_after_step():
    record = make_record()
    rates = Rates.constant(record.problem(), 0.001, 0.002, 0.003)
    theta, blocks = start = random_point(record.problem())
    seen = []
    for t in range(60):
        seen.append(one_row_losses(record, t, theta, blocks))
        theta, blocks = paper_step(record, t, rates, theta, blocks)
    series = {name: getattr(record, name) for name in ("measurements", "drivers", "residuals")}
    end = descend_online(record.A, record.C, rates, *start, **series)
    assert_allclose(end[0], theta, rtol=1e-12)
    assert_allclose(end[1], blocks, rtol=1e-12)
    assert_allclose(end[2:], np.mean(seen, axis=0), rtol=1e-12)


def test_rounds_of_a_stack_are_the_rounds_of_each_problem():
    problems = [make_record(0).problem(), make_record(1, n_states=3).problem()]
    rates = [safe_rates(problem) for problem in problems]
    stacked = Rates(*[np.stack([getattr(r, name) for r in rates]) for name in ("client", "server", "blocks")])
    zeros = np.zeros((2, 2, 3))
    both = descend(stack_problems(problems), stacked, zeros, zeros, max_iter=50)
    for m, problem in enumerate(problems):
        alone = descend(problem, rates[m], zeros[m], zeros[m], max_iter=50)
        assert_allclose(both.parameters[m], alone.parameters, rtol=1e-11, atol=1e-14)
        assert_allclose(both.history.server[:, m], alone.history.server, rtol=1e-11, atol=1e-14)


def test_the_weighted_loss_never_rises_with_the_default_steps():
    for seed in range(10):
        record = make_record(seed, d=4, n_states=5)
        problem = record.problem()
        top = np.linalg.eigvalsh(problem.moments[:4, :4])[-1]
        client, server = correction_curvature(record.A, problem.gram, top)
        eta = safe_step(2.0 * client + server)
        gamma = safe_step(2 * np.linalg.eigvalsh(problem.moments[4:, 4:])[-1])
        rates = Rates.constant(problem, 2.0 * eta, eta, gamma)
        end = descend(problem, rates, *random_point(problem), max_iter=300)
        total = 2.0 * end.history.client + end.history.server
        assert not end.diverged
        assert (np.diff(total) <= 1e-12 * total[0]).all()


def test_divergence_is_reported_and_the_last_finite_point_kept():
    problem = make_record().problem()
    rates = safe_rates(problem, share=0.9 * 20)
    end = descend(problem, rates, *random_point(problem), max_iter=100_000)
    assert end.diverged
    assert not end.converged
    assert np.isfinite(end.parameters).all()
    assert end.n_iter < 5000


def test_training_stops_when_nothing_moves():
    problem = make_record().problem()
    end = descend(problem, safe_rates(problem), *random_point(problem), max_iter=10**6, tol=1e-10)
    assert end.converged
    assert end.n_iter == len(end.history.client) < 10**6
