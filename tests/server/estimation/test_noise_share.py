"""How much is sensor noise in units with as many states as sensors: forecasts choose, units are told."""

from dataclasses import replace

import numpy as np
import pytest

from skfedcausal import FederatedCounterfactualEstimator, KalmanClient, LikelihoodOptions, LikelihoodServer, inspection
from skfedcausal.client.unit_model import with_noise_share
from skfedcausal.datasets import make_granger_plant
from skfedcausal.message.states import PacketError, StateMessage, StateReply
from skfedcausal.server.dynamics import InputDrive, PlantFilter
from skfedcausal.server.estimation import noise_share
from skfedcausal.server.estimation.estimate import Settings, estimate_plant
from skfedcausal.server.estimation.noise_share import FILTERED, SHARES, _best_of, forecast_error, process_covariance
from skfedcausal.server.estimation.scoring import ascend
from skfedcausal.server.joint import JointRecord

SQUARE = {"n_inputs": 1, "links": [(0, 1)], "input_links": [(0, 1)], "n_states": 1, "n_sensors": 1}


# plants whose noise is not as the units say, on purpose: the default warns of what one lag cannot explain
pytestmark = [
    pytest.mark.medium,
    pytest.mark.filterwarnings("ignore:The plant does not explain all that earlier:UserWarning"),
]


def noisy_plant(**settings):
    defaults = {"n_samples": 3000, "measurement_noise": 1.0, "random_state": 0}
    return make_granger_plant(2, **SQUARE | defaults | settings)


@pytest.fixture(scope="module", autouse=True)
def one_lag():
    """How the noise that is left open is chosen for plants of one lag; those of several choose anew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skfedcausal.server.fitting.lag_tests", lambda plant, scoring: None)
        patch.setattr("skfedcausal.server.fitting._acts_at_once", lambda estimate, words: False)
        yield


@pytest.fixture(scope="module")
def fitted(one_lag):
    X, truth = noisy_plant()
    return FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs), X, truth


@pytest.mark.parametrize("share", [0.5, -0.9])
def test_with_other_noise_the_record_is_that_of_units_with_that_noise(share):
    X, truth = noisy_plant()
    messages, expected = {}, {}
    for (name, Y), U in zip(X.items(), truth.inputs, strict=True):
        client = KalmanClient().fit(Y, inputs=U)
        messages[name] = client.message(Y, inputs=U)
        expected[name] = with_noise_share(client, share).message(Y, inputs=U)
        assert expected[name].unpredicted is None
    record = JointRecord.from_messages(messages).with_noise_share(share)
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
    floor = FederatedCounterfactualEstimator(server=LikelihoodServer(options=LikelihoodOptions(horizon=1))).fit(
        X, inputs=truth.inputs
    )
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
    assert inspection.oracle(est, X, inputs=truth.inputs).server_.noise_share_ == est.server_.noise_share_
    assert inspection.oracle_gap(est, X, inputs=truth.inputs) < 1e-8


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
    for share in (FILTERED[-1], -0.5):
        reply = StateReply(np.zeros((4, 1)), np.eye(1) / 2, np.eye(1), noise_share=np.array([share]))
        assert StateReply.from_packet(reply.to_packet()).noise_share == share
    for share in (1.5, -1.0):
        reply = StateReply(np.zeros((4, 1)), np.eye(1), np.eye(1), noise_share=np.array([share]))
        with pytest.raises(PacketError, match="no share"):
            StateReply.from_packet(reply.to_packet())
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
        FederatedCounterfactualEstimator(server=LikelihoodServer(options=LikelihoodOptions(horizon=horizon))).fit(
            X, inputs=inputs
        )
        for horizon in (50, 1)
    )
    assert est.server_.noise_share_ > 1 > est.server_.filter_noise_share_
    assert abs(est.transition_[0, 0] - pole) < abs(single.transition_[0, 0] - pole) / 10
    errors = [(e.predict(X, inputs=inputs, model="server") - X["unit0"]).std() for e in (est, single)]
    assert errors[0] < errors[1]


@pytest.mark.parametrize(
    ("lengths", "horizon", "ahead", "thin"),
    [([120, 80], 3, 3, 1), ([120, 80], 50, 12, 1), ([4003], 3, 3, 2), ([4002], 3, 3, 1)],
)
def test_errors_of_forecasts_are_those_of_a_loop_over_rows_and_steps_ahead(lengths, horizon, ahead, thin):
    """A tenth of the longest episode at most; scores of unit variance, of the units that have a choice.

    From every row, or every second one of 4000.
    """
    X, truth = noisy_plant(n_samples=sum(lengths))
    messages = {
        name: KalmanClient().fit(Y, inputs=U, lengths=lengths).message(Y, inputs=U, lengths=lengths)
        for (name, Y), U in zip(X.items(), truth.inputs, strict=True)
    }
    messages["unit1"] = replace(messages["unit1"], unpredicted=None)
    record = JointRecord.from_messages(messages)
    plant = estimate_plant(record, Settings(max_iter=300, tol=1e-10))
    S = plant.parameters.state_scale
    run = PlantFilter(plant.shrunk_A, plant.Q, record, InputDrive(plant.shrunk_B, record.input_level, S @ S.T))
    scores = messages["unit0"].z[:, 0] / messages["unit0"].patterns[0, 0, 0]
    errors = []
    borders = np.cumsum([0, *lengths])
    for start, stop in zip(borders[:-1], borders[1:], strict=True):
        for t in range(start, stop - ahead, thin):
            h = run.filtered[t]
            for k in range(1, ahead + 1):
                h = plant.shrunk_A @ h + plant.shrunk_B @ run.inputs[t + k - 1]
                errors.append(scores[t + k] - h[0])
    expected = np.sqrt(np.mean(np.square(errors)) / np.var(scores, ddof=1))
    assert forecast_error(record, plant, horizon) == pytest.approx(expected, rel=1e-9)


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


@pytest.mark.parametrize(
    ("errors", "tried", "best"),
    [
        ([3.0, 2.0, 1.0, 2.0, 0.9, 0.8], 6, 5),
        ([3.0, 1.0, 1.0, 2.0, 2.0, 2.0], 5, 1),  # beyond one, shares are tried as long as they forecast better
        ([3.0, 1.0, 1.0, 2.0, 0.9, 1.0], 6, 4),
        ([1.001, 1.0, 2.0, 2.0, 2.0, 2.0], 5, 0),  # a thousandth is worth a smaller share
        ([1.0011, 1.0, 2.0, 2.0, 2.0, 2.0], 5, 1),
    ],
)
def test_the_smallest_share_within_a_thousandth_of_the_best_forecasts_is_chosen(errors, tried, best, monkeypatch):
    shares, plants = (0.0, 0.5, 0.9, 1.0, 2.0, 5.0), []

    class Record:
        def with_noise_share(self, share):
            return share

    def learn(share):
        plants.append(f"plant of {share}")
        return plants[-1]

    def forecast_error(share, plant, horizon):
        assert (plant, horizon) == (f"plant of {share}", 7)
        return errors[shares.index(share)]

    monkeypatch.setattr(noise_share, "forecast_error", forecast_error)
    assert _best_of(shares, Record(), learn, 7, None) == (shares[best], f"plant of {shares[best]}")
    assert len(plants) == tried


def test_shares_are_parts_of_what_the_past_leaves_and_multiples_of_it():
    parts = [0, 1 / 10, 1 / 4, 1 / 2, 3 / 4, 9 / 10]
    assert list(SHARES) == [*parts, 2, 5, 20]
    assert list(FILTERED) == [*parts, 1]


def test_process_noise_is_climbed_to_until_the_gradient_of_a_row_is_as_short_as_tol(monkeypatch):
    X, truth = noisy_plant(n_samples=300)
    units = zip(X.items(), truth.inputs, strict=True)
    record = JointRecord.from_messages(
        {name: KalmanClient().fit(Y, inputs=U).message(Y, inputs=U) for (name, Y), U in units}
    )
    estimate, goals = estimate_plant(record, Settings()), []

    def climb(objective, scoring, *, gain_tol, max_iter):
        goals.append((gain_tol, max_iter))
        return ascend(objective, scoring, gain_tol=gain_tol, max_iter=max_iter)

    monkeypatch.setattr(noise_share, "ascend", climb)
    process_covariance(record.with_noise_share(0.5), estimate, Settings(tol=1e-3, max_iter=70))
    assert goals == [(pytest.approx(300 * 1e-3**2), 70)]  # its square, over all rows
