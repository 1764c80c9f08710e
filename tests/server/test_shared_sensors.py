"""Sensors that another unit reads as well become states; what is nobody else's stays what it was."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from skfedcausal import FederatedGrangerEstimator, KalmanClient, LikelihoodServer
from skfedcausal.client.orders import client_with_sensors, unexplained
from skfedcausal.client.worker import UnitWorker
from skfedcausal.federation import SitePolicy
from skfedcausal.message import FitRequest, SensorsAsStates, UnexplainedRequest
from skfedcausal.message.packet import PacketError
from skfedcausal.server.orders import shared_sensors


def _plant(seed=0, n=900, shared=True):
    """Two units with more memory than a record of 450 rows lets them have states for; the last sensor of the second
    copies that of the first."""
    rng = np.random.default_rng(seed)
    X = {}
    for name in ("mill", "kiln"):
        h, rows = np.zeros(5), np.empty((n, 6))
        for t in range(n):
            h = [0.9, 0.8, 0.7, 0.6, 0.5] * h + rng.standard_normal(5)
            rows[t, :5] = h + 0.1 * rng.standard_normal(5)
        rows[:, 5] = rng.standard_normal(n)
        X[name] = rows
    if shared:
        X["kiln"][:, 5] = X["mill"][:, 5] + 0.05 * rng.standard_normal(n)
    return {name: Y[:450] for name, Y in X.items()}, {name: Y[450:] for name, Y in X.items()}


class _Alone(LikelihoodServer):
    def _first_request(self):
        return super()._first_request().__class__(refine=True, orders=False)


@pytest.mark.medium
def test_what_two_units_read_becomes_a_state_of_both():
    X, later = _plant()
    alone = FederatedGrangerEstimator(server=_Alone()).fit(X)
    plant = FederatedGrangerEstimator().fit(X)
    for name in X:
        assert plant.clients_[name].n_states_ == alone.clients_[name].n_states_ + 1
    # a copy with a twentieth of the noise, beside the thousandth of the variance that every sensor has at least, tells
    # 1/2 log(1 / (0.0025 + 0.002)) = 2.7 nats a row if nothing else is learned for it
    assert plant.score(later) > alone.score(later) + 2.7 / 2
    assert plant.oracle_gap(X) < 1e-8
    sent = plant.ledger_.table.query("op in ('ask unexplained', 'unexplained', 'sensors')")
    assert sent.groupby("op")["packets"].sum().to_dict() == {"ask unexplained": 2, "unexplained": 2, "sensors": 2}
    assert plant.communication_["rounds"] == plant.server_.n_rounds_
    assert plant.predict(X).shape == (450, 12)
    assert "all of their record up to its scales" in plant.privacy_statement_
    assert "all of their record" not in alone.privacy_statement_


@pytest.mark.medium
def test_units_that_share_nothing_keep_their_model():
    X, _ = _plant(shared=False)
    alone, plant = FederatedGrangerEstimator(server=_Alone()).fit(X), FederatedGrangerEstimator().fit(X)
    assert len(plant.ledger_.table.query("op == 'unexplained'")) == 2
    np.testing.assert_array_equal(plant.transition_, alone.transition_)
    assert plant.ledger_.table.query("op == 'sensors'").empty


def _of(rng, *pairs, n=400):
    """Series of three units, white but for pairs of (unit, column, unit, column, correlation)."""
    series = {name: rng.standard_normal((n, 4)) for name in ("a", "b", "c")}
    for one, i, other, j, rho in pairs:
        series[other][:, j] = rho * series[one][:, i] + np.sqrt(1 - rho**2) * series[other][:, j]
    return {name: Y / Y.std(axis=0) for name, Y in series.items()}


def test_gain_of_shared_sensors_is_that_of_the_joint_density():
    """By brute force: a pair is taken where its held-out density beats that of two columns apart by its price."""
    rng, sizes = np.random.default_rng(0), {"a": 2, "b": 1, "c": 2}
    price = 1.5 * (3 + 2) * np.log(400) / 400  # of a state in a and one in b
    taken = []
    for rho in np.linspace(0.3, 0.7, 9):
        series = _of(rng, ("a", 1, "b", 2, rho))
        pair = np.column_stack([series["a"][:, 1], series["b"][:, 2]])
        S = pair[:300].T @ pair[:300] / 300
        apart = multivariate_normal.logpdf(pair[300:], cov=np.diag(np.diag(S))).mean()
        gain = multivariate_normal.logpdf(pair[300:], cov=S).mean() - apart
        found = {name: sensors.tolist() for name, sensors in shared_sensors(series, sizes, (400,)).items()}
        assert found == ({"a": [1], "b": [2]} if gain > price else {})
        taken.append(bool(found))
    assert 0 < sum(taken) < 9


def test_a_third_reading_is_taken_by_itself_and_copies_are_not():
    rng, sizes = np.random.default_rng(1), dict.fromkeys("abc", 2)
    three = _of(rng, ("a", 0, "b", 1, 0.95), ("a", 0, "c", 3, 0.95))
    found = shared_sensors(three, sizes, (200, 200))
    assert {name: sensors.tolist() for name, sensors in found.items()} == {"a": [0], "b": [1], "c": [3]}
    assert shared_sensors(_of(rng, ("a", 0, "b", 1, 1.0)), sizes, (400,)) == {}
    silent = {name: Y * [1.0, 0.0, 1.0, 1.0] for name, Y in three.items()}  # whose second sensors tell nothing
    assert set(shared_sensors(silent, sizes, (400,))) == {"a", "c"}
    assert shared_sensors({}, {}, (400,)) == shared_sensors({"a": three["a"]}, sizes, (400,)) == {}
    assert shared_sensors(three, sizes, (1,) * 400) == {}  # no row is left to judge by
    full = shared_sensors(three, {"a": 3, "b": 2, "c": 2}, (400,))  # a has no sensor to spare
    assert set(full) == {"b", "c"}


def test_a_sensor_that_becomes_a_state_has_hardly_any_noise():
    Y = _plant()[0]["mill"]
    client = KalmanClient().fit_arrays(Y)
    model = client_with_sensors(client, Y, (0,), np.array([5])).model
    assert model.n_states == client.model.n_states + 1
    assert model.R[5] == pytest.approx(1e-3 * Y[:, 5].var())
    np.testing.assert_array_equal(model.R[:5], client.model.R[:5])
    states = np.linalg.solve(model.C.T @ model.weights, (model.weights.T @ (Y - model.mean).T)).T
    assert np.abs(states @ model.C[5] - (Y[:, 5] - model.mean[5])).max() < 1e-8
    left = unexplained(client, Y, (0,))
    np.testing.assert_allclose((left[2:] ** 2).mean(axis=0), 1.0, rtol=0.01)
    for wrong in ([], [6], [0, 1, 2]):
        with pytest.raises(PacketError, match="states of their own"):
            client_with_sensors(client, Y, (0,), np.array(wrong, dtype=int))


def test_units_that_did_not_offer_it_refuse():
    Y = _plant()[0]["mill"]
    worker = UnitWorker("mill", Y, None, (0,), None, KalmanClient(n_states=2))
    _, state = worker.handle(FitRequest(refine=True).to_packet(1), {})
    for question in (UnexplainedRequest(), SensorsAsStates(np.array([5]))):
        with pytest.raises(PacketError, match="did not say that its number of states is open"):
            worker.handle(question.to_packet(2), state)


@pytest.mark.parametrize(
    ("policy", "is_asked"),
    [
        (SitePolicy.unlimited(), True),
        (SitePolicy(operations=("refine", "sensors"), rounds=None), True),
        (SitePolicy(operations=("refine",), rounds=None), False),
        (SitePolicy(operations=("refine", "sensors"), rounds=None, states=3), False),
        (SitePolicy(operations=("refine", "sensors"), rounds=3), False),
    ],
)
def test_a_site_offers_it_only_if_its_policy_lets_it_answer(policy, is_asked):
    Y = _plant()[0]["mill"]
    worker = UnitWorker("mill", Y, None, (0,), None, KalmanClient())
    answer, state = worker.handle(policy.narrowed(FitRequest(refine=True).to_packet(1)), {})
    assert answer.scalars.get("open_order", False) == is_asked
    known = policy.worst_case(state["n_states"], 6)
    assert known.exact or not is_asked
