"""Training of a plant with inputs over the seam: constants, input blocks, the second paper's penalty."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skfedcausal import GradientServer, KalmanClient
from skfedcausal.client.worker import UnitWorker
from skfedcausal.datasets import make_granger_plant
from skfedcausal.federation.training import train_plant
from skfedcausal.federation.transport import InProcessTransport
from skfedcausal.statespace.augmented import augmented_problem
from skfedcausal.statespace.descent import Rates, descend, descend_step
from skfedcausal.statespace.unified import fixed_point, from_delta, recurrence

SETTINGS = {
    "plain": {},
    "penalty": {"xi": 3.0},
    "own rates": {"gamma1": 1e-3, "gamma2": 2e-3, "alpha_B": 0.01},
}
UNCONVERGED = "ignore:Training did not converge:sklearn.exceptions.ConvergenceWarning"
pytestmark = pytest.mark.filterwarnings(UNCONVERGED)


def trained(**settings):
    """Server, units' parameters and the plant, trained over an in-process transport."""
    X, truth = make_granger_plant(
        3, n_states=[2, 1, 2], n_sensors=4, n_inputs=[2, 0, 1], n_samples=150, random_state=3
    )
    inputs = [U if U is not None and U.shape[1] else None for U in truth.inputs]
    workers = {}
    for (name, Y), U, model in zip(X.items(), inputs, truth.clients().values(), strict=True):
        columns = tuple(f"s{k}" for k in range(4))
        workers[name] = UnitWorker(name, Y, U, (0,), columns, KalmanClient(**model))
    transport = InProcessTransport(workers)
    server = GradientServer(**settings)
    train_plant(transport, server, list(X), inputs=True)
    sites = {name: transport.state(name) for name in X}
    return server, sites, X, inputs


def problem_of(m, server, sites, X, inputs):
    """Unit m's problem from pooled series, its rates and where its blocks lie in ``[A, B]``."""
    names, clients = list(X), [site["client"] for site in sites.values()]
    states = [client.model.filter(Y, U) for client, Y, U in zip(clients, X.values(), inputs, strict=True)]
    n = sum(client.n_states_ for client in clients)
    places, first, first_input = [], 0, n
    for client, U in zip(clients, inputs, strict=True):
        own_inputs = [] if U is None else list(range(first_input, first_input + U.shape[1]))
        places.append((list(range(first, first + client.n_states_)), own_inputs))
        first, first_input = first + client.n_states_, first_input + len(own_inputs)
    V = np.hstack([*states, *(U for U in inputs if U is not None)])
    kept = [c for k, (s, _) in enumerate(places) if k != m for c in s]
    n_inputs = len([c for k, (_, u) in enumerate(places) if k != m for c in u])
    kept += [c for k, (_, u) in enumerate(places) if k != m for c in u]
    model, y, U = clients[m].model, X[names[m]] - clients[m].mean_, inputs[m]
    own = states[m][:-1] @ model.A.T + (0 if U is None else U[:-1] @ model.B.T)
    series = y[:-1], V[:-1, kept], y[1:] - own @ model.C.T
    problem = augmented_problem(model.A, model.C, *series, n_inputs=n_inputs, constant=True, xi=server.xi)
    told = server.rates_.iloc[m]
    rates = Rates(
        np.array([[told.eta1] * 4 + [told.gamma1]]),
        np.array([[told.eta2] * 4 + [told.gamma2]]),
        np.array([[told.gamma] * (len(kept) - n_inputs) + [told.alpha_B] * n_inputs]),
    )
    return problem, rates, (places[m][0], kept), series


def learned(m, server, sites, place):
    """Blocks and ``[theta, phi]`` of unit m as the protocol left them."""
    augmenter = list(sites.values())[m]["augmenter"]
    joint = np.hstack([server.transition_, server.input_])
    return joint[np.ix_(*place)], np.column_stack([augmenter.theta_, augmenter.phi_])


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
@pytest.mark.parametrize("exchange", ["series", "moments"])
def test_rounds_are_the_numerics(exchange, settings):
    server, sites, X, inputs = trained(exchange=exchange, max_iter=30, **settings)
    for m in range(3):
        problem, rates, place, _ = problem_of(m, server, sites, X, inputs)
        zeros = np.zeros((len(place[0]), 5)), np.zeros((len(place[0]), len(place[1])))
        end = descend(problem, rates, *zeros, max_iter=30)
        blocks, parameters = learned(m, server, sites, place)
        assert_allclose(blocks, end.blocks, rtol=0, atol=1e-9 * np.abs(end.blocks).max())
        assert_allclose(parameters, end.parameters, rtol=0, atol=1e-9 * np.abs(end.parameters).max())
        assert_allclose(
            server.loss_history_[("penalty", list(X)[m])], end.history.penalty, rtol=1e-8, atol=1e-12
        )


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
def test_the_stationary_solve_is_the_numerics_fixed_point(settings):
    server, sites, X, inputs = trained(solve="stationary", **settings)
    for m in range(3):
        problem, rates, place, _ = problem_of(m, server, sites, X, inputs)
        parameters, blocks = from_delta(problem, fixed_point(recurrence(problem, rates)))
        found = learned(m, server, sites, place)
        assert_allclose(found[0], blocks, rtol=0, atol=1e-8 * np.abs(blocks).max())
        assert_allclose(found[1], parameters, rtol=0, atol=1e-8 * np.abs(parameters).max())


def test_steps_are_the_numerics():
    server, sites, X, inputs = trained(update="online", max_iter=1)
    for m in range(3):
        _, rates, place, series = problem_of(m, server, sites, X, inputs)
        model = list(sites.values())[m]["client"].model
        point = np.zeros((len(place[0]), 5)), np.zeros((len(place[0]), len(place[1])))
        for y, v, c in zip(*series, strict=True):
            *point, _, _ = descend_step(model.A, model.C, rates, *point, y=y, v=v, c=c, constant=True)
        blocks, parameters = learned(m, server, sites, place)
        assert_allclose(blocks, point[1], rtol=0, atol=1e-9 * np.abs(point[1]).max())
        assert_allclose(parameters, point[0], rtol=0, atol=1e-9 * np.abs(point[0]).max())


def test_steps_with_a_penalty_pull_at_the_augmented_state_too():
    """Every step against one batch round on two rows, where both are the same."""
    server, sites, X, inputs = trained(update="online", max_iter=1, xi=3.0)
    for m in range(3):
        problem, rates, place, series = problem_of(m, server, sites, X, inputs)
        model = list(sites.values())[m]["client"].model
        point = np.zeros((len(place[0]), 5)), np.zeros((len(place[0]), len(place[1])))
        for y, v, c in zip(*series, strict=True):
            one = augmented_problem(
                model.A,
                model.C,
                y[None],
                v[None],
                c[None],
                n_inputs=problem.n_drivers - problem.n_states,
                constant=True,
                xi=3.0,
            )
            end = descend(one, rates, *point, max_iter=1)
            point = end.parameters, end.blocks
        blocks, parameters = learned(m, server, sites, place)
        assert_allclose(blocks, point[1], rtol=0, atol=1e-9 * np.abs(point[1]).max())
        assert_allclose(parameters, point[0], rtol=0, atol=1e-9 * np.abs(point[0]).max())
