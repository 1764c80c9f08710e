"""How much is sensor noise in units with as many states as sensors: forecasts choose, units are told."""

import numpy as np
import pytest

from skfedcausal import FederatedCounterfactualEstimator, KalmanClient, LikelihoodServer
from skfedcausal.datasets import make_granger_plant
from skfedcausal.message.states import PacketError, StateMessage, StateReply
from skfedcausal.server.estimation.estimate import Settings, estimate_plant
from skfedcausal.server.estimation.noise_share import FILTERED, SHARES, process_covariance
from skfedcausal.server.joint import JointRecord
from skfedcausal.server.prediction import InputDrive, PlantFilter

SQUARE = {"n_inputs": 1, "links": [(0, 1)], "input_links": [(0, 1)], "n_states": 1, "n_sensors": 1}


def noisy_plant(**settings):
    defaults = {"n_samples": 3000, "measurement_noise": 1.0, "random_state": 0}
    return make_granger_plant(2, **SQUARE | defaults | settings)


@pytest.fixture(scope="module")
def fitted():
    X, truth = noisy_plant()
    return FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs), X, truth


def test_with_more_noise_the_record_is_that_of_units_with_that_noise():
    X, truth = noisy_plant()
    messages, expected = {}, {}
    for (name, Y), U in zip(X.items(), truth.inputs, strict=True):
        client = KalmanClient().fit(Y, inputs=U)
        messages[name] = client.message(Y, inputs=U)
        expected[name] = client.with_noise_share(0.5).message(Y, inputs=U)
        assert expected[name].unpredicted is None
    record = JointRecord.from_messages(messages).with_noise_share(0.5)
    for part, message in zip(record.parts, expected.values(), strict=True):
        np.testing.assert_allclose(part.z, message.z, rtol=1e-10)
        np.testing.assert_allclose(part.patterns, message.patterns, rtol=1e-10)


def test_units_with_more_sensors_than_states_leave_nothing_open():
    X, truth = noisy_plant(n_sensors=4)
    message = KalmanClient(n_states=1).fit(X["unit0"]).message(X["unit0"])
    assert message.unpredicted is None
    est = FederatedCounterfactualEstimator(KalmanClient(n_states=1)).fit(X, inputs=truth.inputs)
    assert est.server_.noise_share_ is None


def test_noise_in_square_units_is_found_and_the_effect_with_it(fitted):
    est, X, truth = fitted
    floor = FederatedCounterfactualEstimator(server=LikelihoodServer(horizon=1)).fit(X, inputs=truth.inputs)
    assert est.server_.noise_share_ >= 0.5
    assert floor.server_.noise_share_ is None
    true = np.linalg.eigvals(truth.transition).real
    error, error_of_floor = (
        np.abs(np.sort(np.linalg.eigvals(e.transition_).real) - np.sort(true)).max() for e in (est, floor)
    )
    assert error < error_of_floor / 2


def test_units_speak_with_the_chosen_noise_from_then_on_and_filter_as_before(fitted):
    est, X, _ = fitted
    for name, client in est.clients_.items():
        share = est.server_.filter_noise_share_
        R = client.model.R + share * (client.model.unpredicted - client.model.R)
        np.testing.assert_allclose(client.message_model.R, R)
        message = client.message(X[name])
        rows = est.state_slices_[name]
        np.testing.assert_allclose(message.J, est.server_.information_[rows, rows])
        assert message.unpredicted is None


def test_federated_and_pooled_agree_with_a_choice_of_noise(fitted):
    est, X, truth = fitted
    assert est.oracle(X, inputs=truth.inputs).server_.noise_share_ == est.server_.noise_share_
    assert est.oracle_gap(X, inputs=truth.inputs) < 1e-8


def test_inputs_as_they_were_give_back_the_record_with_a_choice_of_noise(fitted):
    est, X, truth = fitted
    answer = est.whatif(X, {"unit0__u0": truth.inputs[0][:, 0]}, inputs=truth.inputs)
    np.testing.assert_allclose(answer["counterfactual"], answer["factual"], rtol=0, atol=1e-10)


def test_permuting_units_permutes_the_plant_with_a_choice_of_noise(fitted):
    est, X, truth = fitted
    other = FederatedCounterfactualEstimator().fit(
        {name: X[name] for name in ("unit1", "unit0")}, inputs=truth.inputs[::-1]
    )
    assert other.server_.noise_share_ == est.server_.noise_share_
    np.testing.assert_allclose(other.transition_[::-1, ::-1], est.transition_, rtol=1e-6, atol=1e-8)


def test_noise_stays_as_the_units_say_without_inputs_or_with_gaps():
    X, truth = noisy_plant()
    messages = {name: KalmanClient().fit(Y).message(Y) for name, Y in X.items()}
    assert LikelihoodServer().fit(messages).noise_share_ is None
    gaps = {name: Y.copy() for name, Y in X.items()}
    gaps["unit0"][10:20] = np.nan
    est = FederatedCounterfactualEstimator().fit(gaps, inputs=truth.inputs)
    assert est.server_.noise_share_ is None


def test_noise_stays_as_the_units_say_in_episodes_too_short_for_forecasts():
    X, truth = noisy_plant(n_samples=60)
    est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs, lengths=[3] * 20)
    assert est.server_.noise_share_ is None


def test_shares_cross_the_border_and_nonsense_does_not():
    reply = StateReply(np.zeros((4, 1)), np.eye(1) / 2, np.eye(1), noise_share=np.array([FILTERED[-1]]))
    assert StateReply.from_packet(reply.to_packet()).noise_share == FILTERED[-1]
    with pytest.raises(PacketError, match="no share"):
        StateReply.from_packet(
            StateReply(np.zeros((4, 1)), np.eye(1), np.eye(1), noise_share=np.array([1.5])).to_packet()
        )
    message = StateMessage(np.zeros((4, 1)), np.eye(1)[None], None, (4,), unpredicted=np.eye(1))
    assert StateMessage.from_packet(message.to_packet()).unpredicted == 1.0


def coloured_noise(n_samples=3000, seed=0):
    """A plant of one state whose sensor noise lasts for more than a step; its pole."""
    rng = np.random.default_rng(seed)
    u, w, shocks = rng.standard_normal((3, n_samples))
    h, noise = np.zeros((2, n_samples))
    for t in range(1, n_samples):
        h[t] = 0.9 * h[t - 1] + u[t - 1] + 0.1 * w[t]
        noise[t] = 0.5 * noise[t - 1] + shocks[t]
    return {"unit0": (h + noise)[:, None]}, [u[:, None]], 0.9


def test_coefficients_are_learned_for_forecasts_and_filters_for_the_next_step():
    X, inputs, pole = coloured_noise()
    est, single = (
        FederatedCounterfactualEstimator(server=LikelihoodServer(horizon=horizon)).fit(X, inputs=inputs)
        for horizon in (50, 1)
    )
    assert est.server_.noise_share_ > 1 > est.server_.filter_noise_share_
    assert abs(est.transition_[0, 0] - pole) < abs(single.transition_[0, 0] - pole) / 10
    errors = [(e.predict(X, inputs=inputs, model="server") - X["unit0"]).std() for e in (est, single)]
    assert errors[0] < errors[1]


def test_process_noise_for_known_coefficients_is_at_the_top_of_the_likelihood():
    X, truth = noisy_plant(n_samples=1000)
    messages = {
        name: KalmanClient().fit(Y, inputs=U).message(Y, inputs=U)
        for (name, Y), U in zip(X.items(), truth.inputs, strict=True)
    }
    record = JointRecord.from_messages(messages)
    estimate = estimate_plant(record.with_noise_share(0.75), Settings(max_iter=300, tol=1e-10))
    record = record.with_noise_share(0.5)
    Q = process_covariance(record, estimate, Settings(max_iter=300, tol=1e-10))
    drive = InputDrive(estimate.shrunk_B, record.input_level, np.zeros_like(Q))

    def value(Q):
        return PlantFilter(estimate.shrunk_A, Q, record, drive).unit_log_densities().sum()

    assert value(Q) > max(value(0.9 * Q), value(1.1 * Q))


@pytest.mark.parametrize("shares", [SHARES, FILTERED])
def test_shares_rise_from_none_so_that_the_first_good_one_is_the_smallest(shares):
    assert shares[0] == 0.0
    assert list(shares) == sorted(set(shares))
