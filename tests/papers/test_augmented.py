"""The quadratic of the augmented models: its losses and derivatives against the series themselves."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skfedcausal.papers.numerics.descent import Products, gradients, losses

from ._training import make_record, random_point, stack_problems

KINDS = {
    "first paper": {},
    "with phi": {"constant": True},
    "with inputs and phi": {"n_inputs": 2, "constant": True},
    "with penalty": {"n_inputs": 2, "constant": True, "xi": 3.0},
}


@pytest.fixture(params=KINDS.values(), ids=KINDS.keys())
def record(request):
    return make_record(**request.param)


def losses_at(problem, parameters, blocks):
    now = losses(problem, Products.at(problem, parameters, blocks))
    return [float(now.client), float(now.server), float(now.penalty)]


def test_losses_from_moments_are_those_of_the_series(record):
    problem = record.problem()
    point = random_point(problem)
    assert_allclose(losses_at(problem, *point), record.losses(*point), rtol=1e-12)


def central_difference(function, x, h=1e-5):
    """Exact for a quadratic up to rounding, about 1e-16 / h of its value."""
    slope = np.empty_like(x)
    for index in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[index] = h
        slope[index] = (function(x + step) - function(x - step)) / (2 * h)
    return slope


def test_gradients_are_differences_of_the_losses(record):
    problem = record.problem()
    parameters, blocks = random_point(problem)
    slope = gradients(problem, Products.at(problem, parameters, blocks))

    def client(x):
        return record.losses(x, blocks)[0]

    def server(x, W):
        _, loss, penalty = record.losses(x, W)
        return loss + record.xi * penalty

    tolerance = {"rtol": 1e-7, "atol": 1e-7}
    assert_allclose(slope.client, central_difference(client, parameters), **tolerance)
    assert_allclose(slope.server, central_difference(lambda x: server(x, blocks), parameters), **tolerance)
    assert_allclose(slope.blocks, central_difference(lambda W: server(parameters, W), blocks), **tolerance)


def test_multipliers_add_their_inner_product_with_the_constraint():
    record = make_record(n_inputs=2, constant=True, xi=1.5)
    problem = record.problem()
    parameters, blocks = random_point(problem)
    rng = np.random.default_rng(5)
    dual = rng.standard_normal((2, problem.n_local + problem.n_drivers)) * problem.in_penalty
    S = np.hstack([record.measurements, np.ones((60, 1)), record.drivers])
    multipliers = S @ dual.T  # lambda^t

    def term(x, W):
        turned = record.measurements @ x[:, :3].T @ record.A.T
        D = turned - record.drivers[:, :3] @ W[:, :3].T
        return np.mean((multipliers * D).sum(axis=1))

    at = Products.at(problem, parameters, blocks)
    plain, pulled = gradients(problem, at), gradients(problem, at, dual)
    difference = central_difference(lambda x: term(x, blocks), parameters)
    assert_allclose(pulled.server - plain.server, difference, rtol=1e-7, atol=1e-7)
    difference = central_difference(lambda W: term(parameters, W), blocks)
    assert_allclose(pulled.blocks - plain.blocks, difference, rtol=1e-7, atol=1e-7)
    assert_allclose(pulled.client, plain.client)


def test_a_stack_of_unequal_problems_gives_what_each_gives_alone():
    kinds = [
        {"p": 2, "d": 3, "n_states": 3, "n_inputs": 1},
        {"p": 1, "d": 4, "n_states": 4, "n_inputs": 2},
        {"p": 3, "d": 3, "n_states": 2, "n_inputs": 0},
    ]
    problems = [make_record(k, constant=True, xi=0.5, **kind).problem() for k, kind in enumerate(kinds)]
    stack = stack_problems(problems)
    parameters = np.zeros((3, 3, stack.n_local))
    blocks = np.zeros((3, 3, stack.n_drivers))
    expected = []
    for m, problem in enumerate(problems):
        theta_phi, W = random_point(problem, m)
        d, k, states = problem.n_outputs, len(problem.transition), problem.n_states
        parameters[m, :k, :d], parameters[m, :k, 4] = theta_phi[:, :d], theta_phi[:, d]
        blocks[m, :k, :states] = W[:, :states]
        blocks[m, :k, 4 : 4 + problem.n_drivers - states] = W[:, states:]
        expected.append((losses_at(problem, theta_phi, W), gradients(problem, Products.at(problem, theta_phi, W))))
    at = Products.at(stack, parameters, blocks)
    now, slope = losses(stack, at), gradients(stack, at)
    for m, (problem, (alone, one)) in enumerate(zip(problems, expected, strict=True)):
        assert_allclose([now.client[m], now.server[m], now.penalty[m]], alone, rtol=1e-12)
        d, k, states = problem.n_outputs, len(problem.transition), problem.n_states
        assert_allclose(slope.client[m, :k, :d], one.client[:, :d], atol=1e-12)
        assert_allclose(slope.server[m, :k, 4], one.server[:, d], atol=1e-12)
        assert_allclose(slope.blocks[m, :k, :states], one.blocks[:, :states], atol=1e-12)
        assert not slope.client[m, k:].any()
        assert not slope.blocks[m, :, 4 + problem.n_drivers - states :].any()
