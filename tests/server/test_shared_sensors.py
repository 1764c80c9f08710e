"""Sensors that another unit reads as well become states; what is nobody else's stays what it was."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from skfedcausal import FederatedGrangerEstimator, KalmanClient, LikelihoodServer, inspection
from skfedcausal.client.orders import client_with_sensors, noiseless, signed_sums, sketch
from skfedcausal.client.records import UnitRows
from skfedcausal.client.worker import UnitWorker
from skfedcausal.federation import SitePolicy
from skfedcausal.federation.gate import Answered, PolicyError
from skfedcausal.message import StateMessage
from skfedcausal.message.packet import PacketError
from skfedcausal.message.requests import FitRequest, SensorsAsStates
from skfedcausal.message.states import SensorStates
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
    def _rounds(self, came):
        return super()._rounds({name: replace(message, sketch=None) for name, message in came.items()})


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
    assert inspection.oracle_gap(plant, X) < 1e-8
    sent = plant.ledger_.table.query("op in ('sensors', 'sensor states')")
    assert sent.groupby("op")["packets"].sum().to_dict() == {"sensors": 2, "sensor states": 2}
    assert plant.communication_["rounds"] == plant.server_.n_rounds_
    assert plant.predict(X).shape == (450, 12)
    assert "at most two per unit" in plant.privacy_statement_
    assert "at most two per unit" not in alone.privacy_statement_


@pytest.mark.medium
def test_units_that_share_nothing_keep_their_model():
    X, _ = _plant(shared=False)
    alone, plant = FederatedGrangerEstimator(server=_Alone()).fit(X), FederatedGrangerEstimator().fit(X)
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


def _first_message(Y):
    worker = UnitWorker("mill", Y, None, (0,), None, KalmanClient())
    answer, state = worker.handle(FitRequest(own_past=True, sharp=True, sketch=True).to_packet(1), {})
    return worker, StateMessage.from_packet(answer), state


def test_a_sensor_that_becomes_a_state_has_hardly_any_noise():
    Y = _plant()[0]["mill"]
    client = KalmanClient().fit(UnitRows(Y))
    model = client_with_sensors(client, Y, (0,), None, np.array([5])).model
    assert model.n_states == client.model.n_states + 1
    J = model.C.T @ model.weights
    assert np.linalg.eigvalsh(np.linalg.inv(J))[-1] < 2e-6  # of states of unit variance
    states = np.linalg.solve(model.C.T @ model.weights, (model.weights.T @ (Y - model.mean).T)).T
    assert np.abs(states @ model.C[5] - (Y[:, 5] - model.mean[5])).max() < 1e-8
    for wrong in ([], [6], [0, 1, 2]):
        with pytest.raises(PacketError, match="states of their own"):
            client_with_sensors(client, Y, (0,), None, np.array(wrong, dtype=int))


def test_states_have_no_noise_where_the_own_past_says_more():
    """The scores stay, the message is as sharp as if they were measured, and the density is still one of the rows."""
    Y = _plant()[0]["mill"]
    before = KalmanClient().fit(UnitRows(Y))
    after = noiseless(before, Y, (0,), None)
    old, new = (client.message_about(Y, (0,), const=True) for client in (before, after))
    one, other = (np.linalg.solve(message.J, message.z.T).T for message in (old, new))
    basis = np.linalg.lstsq(one, other, rcond=None)[0]
    np.testing.assert_allclose(one @ basis, other, atol=1e-9 * np.abs(other).max())
    noise = np.linalg.eigvalsh(np.linalg.inv(new.J))
    assert noise.max() < 1e-5
    # what a message adds to the density is that of what states leave: the same but for the volume of the states
    left = []
    for message in (old, new):
        scores = np.linalg.solve(message.J, message.z.T).T
        value = message.const + 0.5 * np.einsum("ti,ti->t", scores, message.z)
        left.append(value + 0.5 * (len(message.J) * np.log(2 * np.pi) - np.linalg.slogdet(message.J)[1]))
    np.testing.assert_allclose(left[1][2:] - np.linalg.slogdet(basis)[1], left[0][2:], atol=1e-4)  # of terms of 1e6


def test_only_the_sensors_leave_a_unit_and_its_message_follows_from_them():
    Y = _plant()[0]["mill"]
    worker, before, state = _first_message(Y)
    answer, state = worker.handle(SensorsAsStates(np.array([5])).to_packet(2), state)
    told = SensorStates.from_packet(answer)
    assert told.sensors.shape == (450, 1)
    whole = state["client"].message_about(Y, (0,))
    after = told.after(before)
    np.testing.assert_allclose(after.z, whole.z, atol=1e-9 * np.abs(whole.z).max())
    np.testing.assert_allclose(after.J, whole.J, atol=1e-9 * np.abs(whole.J).max())
    assert (after.lengths, after.gain_alone) == (before.lengths, told.gain_alone)
    with pytest.raises(PacketError, match="does not fit"):
        replace(told, sensors=told.sensors[:-1]).after(before)


def test_a_sketch_is_a_few_sums_of_what_is_left_and_the_same_for_all():
    Y = _plant()[0]["mill"]
    _, message, state = _first_message(Y)
    sums = message.sketch
    assert sums.shape == (45, 6)  # ten rows a sum
    # sums of white rows of unit variance have unit variance: of 45 x 6 of them the mean square is within 4 sd of 1
    assert abs((sums**2).mean() - 1) < 4 * np.sqrt(2 / sums.size)
    twin = sketch(state["client"], Y, (0,))
    np.testing.assert_array_equal(twin, sums)
    assert _first_message(Y[:190])[1].sketch is None  # fewer than 20 sums


def test_a_sketch_tells_rows_by_no_more_than_its_share():
    """R2 of the best guess of what was added up is k / T, as for white noise: what the policy counts with."""
    weights = signed_sums(np.eye(450), (0,))  # of every row in every sum
    np.testing.assert_allclose(weights @ weights.T, np.eye(45), atol=1e-12)
    assert ((weights != 0).sum(axis=1) >= 9).all()
    rows = np.random.default_rng(0).standard_normal((450, 200))
    guess = weights.T @ signed_sums(rows, (0,))
    explained = 1 - ((rows - guess) ** 2).sum() / (rows**2).sum()
    # the share of 45 of 450 squares of independent numbers, 200 times: its sd is sqrt(2 x .1 x .9 / 90,000)
    assert abs(explained - 0.1) < 4 * np.sqrt(2 * 0.1 * 0.9 / rows.size)


def test_units_that_sent_no_sketch_refuse():
    Y = _plant()[0]["mill"]
    worker = UnitWorker("mill", Y, None, (0,), None, KalmanClient(n_states=2))
    _, state = worker.handle(FitRequest(own_past=True, sharp=True, sketch=True).to_packet(1), {})
    with pytest.raises(PacketError, match="sent no sketch"):
        worker.handle(SensorsAsStates(np.array([5])).to_packet(2), state)


def test_sensors_are_named_once_and_counted():
    policy = SitePolicy()
    known = policy.worst_case(n_states=3, n_sensors=8)
    assert (known.rank, known.exact, known.sums) == (5, False, 50)
    assert "5 of 8 projections" in known.in_words()
    assert policy.worst_case(n_states=6, n_sensors=8).rank == 7
    assert policy.worst_case(n_states=7, n_sensors=8).sums == 0  # none to spare
    answered, question = Answered(), SensorsAsStates(np.array([5])).to_packet(2)
    answered["fit"] = 1
    policy.check_question("mill", question, answered)
    answered["sensors"] = 1
    with pytest.raises(PolicyError, match="once"):
        policy.check_question("mill", question, answered)
    assert SitePolicy(operations=("sensors",)).worst_case(n_states=3, n_sensors=8).exact
