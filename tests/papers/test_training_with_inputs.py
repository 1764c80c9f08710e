"""Training of a plant with inputs over the seam: constants, input blocks, the second paper's penalty."""

import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from skfedcausal import GradientServer, KalmanClient
from skfedcausal.bases import configured
from skfedcausal.client.worker import UnitWorker
from skfedcausal.datasets import make_granger_plant
from skfedcausal.federation.exchange import Exchange, InProcessTransport
from skfedcausal.federation.ledger import Ledger
from skfedcausal.message.training import GradientReply
from skfedcausal.papers.numerics.descent import Rates, WarmUp, augmented_problem, fixed_point, from_delta, recurrence
from skfedcausal.theory.descent import descend, descend_step
from skfedcausal.theory.disentanglement import disentanglement
from skfedcausal.theory.training_costs import numbers_sent

SETTINGS = {
    "plain": {},
    "penalty": {"xi": 3.0},
    "own rates": {"gamma1": 1e-3, "gamma2": 2e-3, "alpha_B": 0.01},
}
SCHEDULES = {
    "augmented Lagrangian": {"xi": 30.0, "constraint": "augmented_lagrangian"},
    "hybrid": {"xi": 30.0, "constraint": "hybrid", "n_warm_up": 12},
}
ALL = SETTINGS | SCHEDULES
UNCONVERGED = "ignore:Training did not converge:sklearn.exceptions.ConvergenceWarning"
pytestmark = pytest.mark.filterwarnings(UNCONVERGED)


def trained(wrap=lambda transport: transport, level=0.0, **settings):
    """Server, units' parameters and the plant, trained over an in-process transport."""
    X, truth = make_granger_plant(3, n_states=[2, 1, 2], n_sensors=4, n_inputs=[2, 0, 1], n_samples=150, random_state=3)
    inputs = [U + level if U is not None and U.shape[1] else None for U in truth.inputs]
    workers = {}
    for (name, Y), U, model in zip(X.items(), inputs, truth.clients().values(), strict=True):
        columns = tuple(f"s{k}" for k in range(4))
        workers[name] = UnitWorker(name, Y, U, (0,), columns, KalmanClient(**model))
    transport = InProcessTransport(workers)
    server = configured(GradientServer, settings)
    Exchange(wrap(transport), Ledger(), names=list(X)).learn(server, inputs=True)
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
    inputs = [None if U is None else U - c.input_mean_ for c, U in zip(clients, inputs, strict=True)]
    V = np.hstack([*states, *(U for U in inputs if U is not None)])
    kept = [c for k, (s, _) in enumerate(places) if k != m for c in s]
    n_inputs = len([c for k, (_, u) in enumerate(places) if k != m for c in u])
    kept += [c for k, (_, u) in enumerate(places) if k != m for c in u]
    model, y, U = clients[m].model, X[names[m]] - clients[m].mean_, inputs[m]
    own = states[m][:-1] @ model.A.T + (0 if U is None else U[:-1] @ model.B.T)
    series = y[:-1], V[:-1, kept], y[1:] - own @ model.C.T
    problem = augmented_problem(model.A, model.C, *series, n_inputs=n_inputs, constant=True, xi=server.xi)
    rates = rates_of(m, server.step_sizes_, len(kept) - n_inputs, n_inputs)
    return problem, rates, (places[m][0], kept), series


def rates_of(m, sizes, n_states, n_inputs):
    """Step sizes by column."""
    client, pulled, (alpha_A, alpha_B) = sizes.client[m], sizes.server[m], sizes.blocks[m]
    return Rates(
        np.array([[client[0]] * 4 + [client[1]]]),
        np.array([[pulled[0]] * 4 + [pulled[1]]]),
        np.array([[alpha_A] * n_states + [alpha_B] * n_inputs]),
    )


def learned(m, server, sites, place):
    """Blocks and ``[theta, phi]`` of unit m as the protocol left them."""
    augmenter = list(sites.values())[m]["augmenter"]
    joint = np.hstack([server.transition_, server.input_])
    return joint[np.ix_(*place)], np.column_stack([augmenter.theta_, augmenter.phi_])


@pytest.mark.parametrize("settings", ALL.values(), ids=ALL.keys())
@pytest.mark.parametrize("exchange", ["series", "moments"])
def test_rounds_are_the_numerics(exchange, settings):
    server, sites, X, inputs = trained(exchange=exchange, max_iter=30, **settings)
    by_schedule, sizes, warm = "constraint" in settings, server.step_sizes_, None
    for m in range(3):
        problem, rates, place, _ = problem_of(m, server, sites, X, inputs)
        zeros = np.zeros((len(place[0]), 5)), np.zeros((len(place[0]), len(place[1])))
        if by_schedule:
            k = problem.n_states
            warm = WarmUp(sizes.warm_up, rates_of(m, sizes.warm, k, problem.n_drivers - k))
        end = descend(problem, rates, *zeros, max_iter=30, warm_up=warm)
        blocks, parameters = learned(m, server, sites, place)
        assert_allclose(blocks, end.blocks, rtol=0, atol=1e-9 * np.abs(end.blocks).max())
        assert_allclose(parameters, end.parameters, rtol=0, atol=1e-9 * np.abs(end.parameters).max())
        history = server.loss_history_[("penalty", list(X)[m])]
        assert_allclose(history, end.history.penalty, rtol=1e-7 if by_schedule else 1e-8, atol=1e-12)


@pytest.mark.parametrize("settings", ALL.values(), ids=ALL.keys())
def test_both_exchanges_make_the_same_iterates_from_a_random_start(settings):
    start = {"start_scale": 0.3, "random_state": 4, "max_iter": 25}
    series, moments = (trained(exchange=way, **start, **settings) for way in ("series", "moments"))
    for name in ("transition_", "input_"):
        one, other = getattr(series[0], name), getattr(moments[0], name)
        assert_allclose(one, other, rtol=0, atol=1e-9 * np.abs(one).max())
    one, other = series[0].loss_history_, moments[0].loss_history_
    assert list(one.columns) == list(other.columns)
    assert_allclose(one, other, rtol=1e-8, atol=1e-10)


class Forgetful:
    """A transport whose units lose their series once they have their moments."""

    def __init__(self, transport):
        self._behind, self.sizes = transport, []
        self.clients, self.state, self.close = transport.clients, transport.state, transport.close

    def exchange(self, out, *, timeout=None):
        answers = self._behind.exchange(out, timeout=timeout)
        if next(iter(out.values())).op == "blocks":
            packets = [*out.values(), *answers.values()]
            self.sizes += [array.size for packet in packets for array in packet.arrays.values()]
        if next(iter(out.values())).op == "plan":
            for name in out:
                site = self.state(name)
                gone = dict.fromkeys(("filtered", "measurements", "seen", "inputs"))
                lost = replace(site["training"].series, **gone)
                site["training"] = replace(site["training"], series=lost, residuals=None)
        return answers


@pytest.mark.parametrize("settings", [{"xi": 3.0}, SCHEDULES["hybrid"]], ids=["penalty", "hybrid"])
def test_rounds_on_moments_make_no_pass_over_the_data(settings):
    wrapped = []

    def wrap(transport):
        wrapped.append(Forgetful(transport))
        return wrapped[0]

    with pytest.raises(TypeError, match="not subscriptable"):  # rounds on series go over them
        trained(wrap, exchange="series", max_iter=2, **settings)
    wrapped.clear()
    server, *_ = trained(wrap, exchange="moments", max_iter=25, **settings)
    assert_allclose(server.input_, trained(exchange="moments", max_iter=25, **settings)[0].input_, rtol=0)
    assert max(wrapped[0].sizes) <= 2 * (3 + 3)  # a block row: no more than states times drivers


def test_the_history_of_delta_d_is_the_distance_of_phi_to_the_mean_effect_of_inputs():
    """From the round before: what the units knew and the server had when the last round began."""
    for exchange in ("series", "moments"):
        settings = {"exchange": exchange, "xi": 3.0, "start_scale": 0.5, "random_state": 0, "level": 0.4}
        server, *_ = trained(max_iter=7, **settings)
        before, sites, X, inputs = trained(max_iter=6, **settings)
        for m, name in enumerate(X):
            problem, _, place, _ = problem_of(m, before, sites, X, inputs)
            blocks, parameters = learned(m, before, sites, place)
            told = disentanglement(problem, parameters, blocks)
            assert server.loss_history_[("delta_d", name)].iloc[-1] == pytest.approx(told["delta_d"])
            assert server.loss_history_[("penalty", name)].iloc[-1] == pytest.approx(told["penalty"])


def test_a_start_is_drawn_by_name_and_seed():
    first, again, other = (trained(max_iter=1, start_scale=1.0, random_state=seed)[0] for seed in (1, 1, 2))
    assert np.array_equal(first.transition_, again.transition_)
    assert not np.allclose(first.transition_, other.transition_)


def test_phi_is_told_in_absolute_inputs():
    """The units train on inputs less their level; what they keep counts the level."""
    server, sites, X, inputs = trained(max_iter=20, level=2.0)
    for m, name in enumerate(X):
        _, _, place, _ = problem_of(m, server, sites, X, inputs)
        foreign = server.input_[place[0]].copy()
        foreign[:, server.input_slices_[name]] = 0.0
        levels = np.concatenate([U.mean(axis=0) for U in inputs if U is not None])
        site = sites[name]
        assert_allclose(site["phi"], site["augmenter"].phi_ + foreign @ levels, rtol=1e-12)


# --- Algorithm 1 -------------------------------------------------------------------------------------


class Spy:
    """Keeps what crosses."""

    def __init__(self, transport):
        self._behind, self.rounds = transport, []
        self.clients, self.state, self.close = transport.clients, transport.state, transport.close

    def exchange(self, out, *, timeout=None):
        answers = self._behind.exchange(out, timeout=timeout)
        self.rounds.append((out, answers))
        return answers


def test_messages_of_algorithm_1():
    """States and inputs in the first round, ``h_a`` (and phi) after it, both gradients back."""
    spies = []
    trained(lambda t: spies.append(Spy(t)) or spies[0], xi=2.0, max_iter=3)
    first, *later = [answers for _, answers in spies[0].rounds[1:-1]]
    states = {"filtered", "augmented", "predicted"}
    assert set(first["unit0"].arrays) == states | {"inputs", "constant", "progress"}
    assert set(first["unit1"].arrays) == states | {"constant", "progress"}  # has no inputs
    for answers in later:
        for packet in answers.values():
            assert set(packet.arrays) == {"predicted", "constant", "progress"}
    gradients = [out for out, _ in spies[0].rounds if next(iter(out.values())).op == "gradient"]
    assert len(gradients) == 3
    for packet in gradients[0].values():
        assert set(packet.arrays) == {"predicted", "augmented"}


@pytest.mark.parametrize("xi", [0.0, 2.0])
def test_communication_counts_of_section_5_4(xi):
    spies = []
    _, _, X, inputs = trained(lambda t: spies.append(Spy(t)) or spies[0], xi=xi, max_iter=3)
    states, n_inputs = [2, 1, 2], [0 if U is None else U.shape[1] for U in inputs]

    def counted(packets, progress=0):
        sizes = [sum(a.size for a in packets[name].arrays.values()) for name in X]
        return np.array(sizes) - progress

    for k, (out, answers) in enumerate(spies[0].rounds[2:-1]):
        told = numbers_sent(states, n_inputs, 149, first=False, penalty=xi > 0)
        assert (counted(out) == told["down"]).all(), k
        assert (counted(answers, progress=2) == told["up"]).all()
    told = numbers_sent(states, n_inputs, 149, first=True, penalty=xi > 0)
    assert (counted(spies[0].rounds[1][1], progress=2) == told["up"]).all()


def test_both_gradients_of_equation_7_are_differences_of_the_server_loss():
    """What the server sends and the unit makes of it, against finite differences over the series."""
    xi, spies = 2.0, []
    settings = {"xi": xi, "max_iter": 1, "start_scale": 0.5, "random_state": 3}
    server, sites, X, inputs = trained(lambda t: spies.append(Spy(t)) or spies[0], **settings)
    sent = next(out for out, _ in spies[0].rounds if next(iter(out.values())).op == "gradient")
    first = spies[0].rounds[1][1]
    n = server.transition_.shape[0]
    for m, name in enumerate(X):
        _, rates, place, (y, v, _) = problem_of(m, server, sites, X, inputs)
        model = sites[name]["client"].model
        parameters = first_parameters(first[name], y)
        blocks = before_step(server, place, v, first[name], model, parameters, rates, xi, n)
        k = sum(column < n for column in place[1])

        def loss(point, y=y, v=v, model=model, blocks=blocks, k=k):
            turned = y @ point[:, :4].T @ model.A.T
            residual = v @ blocks.T - turned - point[:, 4]
            constraint = turned - v[:, :k] @ blocks[:, :k].T
            return np.mean((residual**2 + xi * constraint**2).sum(axis=1))

        reply = GradientReply.from_packet(sent[name])
        theta = (reply.predicted @ model.A + reply.augmented).T @ y  # equation 7
        phi = reply.predicted.sum(axis=0)  # equation 8
        found = np.column_stack([theta, phi])
        for place_ in np.ndindex(parameters.shape):
            step = np.zeros_like(parameters)
            step[place_] = 1e-5
            slope = (loss(parameters + step) - loss(parameters - step)) / 2e-5
            assert found[place_] == pytest.approx(slope, rel=1e-5, abs=1e-7)


def first_parameters(packet, y):
    """theta and phi that a unit began with, from its first message."""
    told = packet.arrays
    theta = np.linalg.lstsq(y, told["augmented"] - told["filtered"], rcond=None)[0].T
    return np.column_stack([theta, told["constant"]])


def before_step(server, place, v, packet, model, parameters, rates, xi, n):
    """Blocks before the server's only step: those after it are ``W - rates * slope(W)``, linear in W."""
    after = np.hstack([server.transition_, server.input_])[np.ix_(*place)]
    told = packet.arrays
    inputs = told["inputs"] @ model.B.T if "inputs" in told else 0.0
    e = told["predicted"] - told["filtered"] @ model.A.T - inputs
    turned = e - parameters[:, 4]
    is_state = np.array([c < n for c in place[1]])
    S = v.T @ v / len(v)
    weighted = S * (1 + xi * np.outer(is_state, is_state))
    pull = 2 * (e.T @ v + xi * (turned.T @ v) * is_state) / len(v)
    # after = W - rates * (2 W weighted - pull)
    matrix = np.eye(len(S)) - 2 * weighted * rates.blocks
    return np.linalg.solve(matrix.T, (after - rates.blocks * pull).T).T


# --- stationary, step by step ------------------------------------------------------------------------


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


@pytest.mark.parametrize("constraint", ["augmented_lagrangian", "hybrid"])
def test_multipliers_need_batch_rounds_and_a_weight(constraint):
    with pytest.raises(ValueError, match="needs a weight xi"):
        trained(constraint=constraint)
    for other in ({"update": "online"}, {"solve": "stationary"}):
        with pytest.raises(ValueError, match="make batch rounds"):
            trained(constraint=constraint, xi=1.0, **other)


@pytest.mark.medium
@pytest.mark.parametrize("settings", [{}, {"xi": 3.0}, SCHEDULES["augmented Lagrangian"], SCHEDULES["hybrid"]])
def test_the_largest_sizes_of_the_warning_hold(settings):
    """For all five groups of step sizes, in every phase."""
    with pytest.warns(ConvergenceWarning, match="not sure to converge") as caught:
        trained(max_iter=1, gamma2=1e3, gamma1=1e3, **settings)
    told = re.findall(r"(\w+) <= (\d\S*\d)", str(next(w.message for w in caught if "sure" in str(w.message))))
    assert [name for name, _ in told] == ["eta1", "eta2", "gamma", "gamma1", "gamma2", "alpha_B"]
    sizes = {name: 0.999 * float(value) for name, value in told}
    server, *_ = trained(max_iter=300, start_scale=1.0, random_state=0, exchange="moments", **sizes, **settings)
    assert not server.diverged_
