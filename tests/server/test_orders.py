"""States that only the inputs of other units move are found once these are told."""

import numpy as np
import pytest

from skfedcausal import FederatedCounterfactualEstimator, KalmanClient, LikelihoodOptions, LikelihoodServer, inspection
from skfedcausal.client.orders import client_with_inputs
from skfedcausal.client.records import UnitRows
from skfedcausal.client.worker import UnitWorker

pytestmark = pytest.mark.medium


def _plant(seed=0, n=4000, d=20, gain=0.3, noise=2.0):
    """Unit b has a state of pole 0.03 that hardly anything but a's input moves."""
    rng = np.random.default_rng(seed)
    Ca, Cb = rng.standard_normal((4, 1)), rng.standard_normal((d, 3))
    u = np.repeat(rng.standard_normal(n // 2), 2)
    poles, drive = np.array([0.8, 0.9, 0.6, 0.03]), np.array([1.0, 0.0, 0.0, gain])
    size = np.array([0.5, 0.5, 0.5, 0.05])
    h, rows = np.zeros(4), np.empty((n, 4 + d))
    for t in range(n):
        h = poles * h + drive * (u[t - 1] if t else 0.0) + size * rng.standard_normal(4)
        rows[t] = np.concatenate([Ca @ h[:1], Cb @ h[1:]]) + noise * rng.standard_normal(4 + d)
    first = gain * Cb[:, 2]
    return {"a": rows[:, :4], "b": rows[:, 4:]}, {"a": u[:, None]}, first


class _Alone(LikelihoodServer):
    relays_inputs = False


def _error(plant, first):
    effect = plant.counterfactual("a", 0.0, 1.0).filter(like="b__").to_numpy()[0]
    return np.linalg.norm(effect - first) / np.linalg.norm(first)


@pytest.fixture(scope="module")
def record():
    return _plant(gain=0.2)


def test_a_state_that_only_inputs_of_others_move_is_found(record):
    X, inputs, first = record
    alone = FederatedCounterfactualEstimator(server=_Alone()).fit(X, inputs=inputs)
    plant = FederatedCounterfactualEstimator(server=LikelihoodServer(options=LikelihoodOptions(n_rounds="auto"))).fit(
        X, inputs=inputs
    )
    assert alone.clients_["b"].n_states_ == 2
    assert plant.clients_["b"].n_states_ == 3
    assert _error(alone, first) > 0.8
    assert _error(plant, first) < 0.3
    assert inspection.oracle_gap(plant, X, inputs=inputs) < 1e-8
    assert plant.predict(X, inputs=inputs).shape == (4000, 24)
    told = plant.ledger_.table.query("op == 'inputs'")
    assert told["client"].tolist() == ["b"]
    assert told["bytes"].iloc[0] > 4000 * 4  # a series twice over, packed
    assert plant.ledger_.table.query("op == 'order'")["packets"].tolist() == [1]


def test_loadings_of_as_many_states_are_found_with_inputs_of_others():
    X, inputs, first = _plant(seed=1, gain=1.0, noise=1.0)
    alone = FederatedCounterfactualEstimator(server=_Alone()).fit(X, inputs=inputs)
    plant = FederatedCounterfactualEstimator(server=LikelihoodServer(options=LikelihoodOptions(n_rounds="auto"))).fit(
        X, inputs=inputs
    )
    assert alone.clients_["b"].n_states_ == plant.clients_["b"].n_states_ == 3
    # with loadings known, an input of variance one over 4000 rows tells the state that it moves within
    # sqrt(0.05^2 + 1 / |C_b|^2) / sqrt(4000) < 1 %, and those that it does not move within 0.5 / sqrt(4000) each
    others = 0.008 * np.sqrt(2 * 20) / np.linalg.norm(first)
    assert _error(plant, first) < 3 * others
    assert _error(plant, first) < 0.8 * _error(alone, first)


def test_units_that_gain_nothing_keep_their_model():
    X, inputs, _ = _plant(gain=0.0)
    alone = FederatedCounterfactualEstimator(server=_Alone()).fit(X, inputs=inputs)
    plant = FederatedCounterfactualEstimator(server=LikelihoodServer(options=LikelihoodOptions(n_rounds="auto"))).fit(
        X, inputs=inputs
    )
    np.testing.assert_array_equal(plant.transition_, alone.transition_)
    np.testing.assert_array_equal(plant.input_, alone.input_)
    assert plant.ledger_.table.query("op == 'message'").empty


def test_an_order_that_was_given_is_not_asked_about(record):
    X, inputs, _ = record
    plant = FederatedCounterfactualEstimator(KalmanClient(n_states=2)).fit(X, inputs=inputs)
    assert plant.ledger_.table.query("op == 'inputs'").empty
    assert plant.clients_["b"].n_states_ == 2


@pytest.mark.parametrize(("size", "is_taken"), [(1.0, True), (0.02, False)])
def test_a_state_too_faint_for_the_record_is_not_taken(size, is_taken):
    rng, n = np.random.default_rng(0), 3000
    C, u = np.array([[1.0, 0.8, -0.6, 1.2, 0.5], [0.5, -1.0, 0.9, 0.3, -0.7]]).T, rng.standard_normal((n, 1))
    h, Y = np.zeros(2), np.empty((n, 5))
    for t in range(n):
        h = [0.9, 0.5] * h + rng.standard_normal(2) + np.array([0.0, 1.0]) * (u[t - 1] if t else 0.0)
        Y[t] = C @ (h * [1.0, size]) + 0.5 * rng.standard_normal(5)
    unit = UnitWorker("unit", Y, None, (0,), None, KalmanClient(n_states=2))
    before = KalmanClient(n_states=1).fit(UnitRows(Y))
    found = client_with_inputs(unit, before, u)
    # in a row the second state's noise is 0.25 / (3 size^2) of a state of variance two or so: 0.04, or 100
    assert (found is not None) == is_taken
