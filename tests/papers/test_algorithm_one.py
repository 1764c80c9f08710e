"""Algorithm 1 of the third paper with scikit-learn networks: gradients, messages, what is learned."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge
from sklearn.neural_network import MLPRegressor

from skfedcausal import (
    Communication,
    ExtendedKalmanClient,
    FederatedRCADetector,
    KalmanClient,
    LinearAugmenter,
    RegressorAugmenter,
    RegressorServer,
    inspection,
)
from skfedcausal.client.extended_kalman import NonlinearClient
from skfedcausal.client.worker import UnitWorker, local_prediction
from skfedcausal.datasets import make_nonlinear_plant
from skfedcausal.federation.exchange import InProcessTransport
from skfedcausal.message.packet import Packet, PacketError
from skfedcausal.message.requests import FitRequest
from skfedcausal.message.training import (
    BlockRow,
    GradientReply,
    NetworkPlan,
    NetworksTrained,
    NoGradient,
    PredictedStates,
    TrainingEnd,
    TrainRequest,
)
from skfedcausal.papers.client import network_training
from skfedcausal.papers.client.network_training import batch_loss, output_gradient

N = 400


def network(**settings):
    settings = {"solver": "sgd", "momentum": 0.0, "alpha": 0.0, "learning_rate_init": 1e-4} | settings
    return MLPRegressor(hidden_layer_sizes=(6,), activation="tanh", random_state=0, **settings)


@pytest.fixture(scope="module")
def nominal():
    return make_nonlinear_plant(n_samples=N, size=0, random_state=1).data


@pytest.fixture(scope="module")
def training(nominal):
    """Training of one unit after ten steps, when its correction is no longer zero."""
    client = NonlinearClient(ExtendedKalmanClient(random_state=0)).fit(nominal["unit1"])
    augmenter = RegressorAugmenter(network(learning_rate_init=0.05), n_lags=3)
    state = network_training.start(client, augmenter, nominal["unit1"], (0,), NetworkPlan(20, 0.7))
    rng = np.random.default_rng(0)
    for _ in range(10):
        state = state.moved(0.1 * rng.standard_normal((20, 2)))
    return state


def objective(state, outputs, target):
    """Both losses of a batch summed over its rows, the server's prediction held fixed."""
    rows = state._rows
    _, predicted, rest = batch_loss(state.record, rows, state.correction, outputs)
    return state.plan.client_weight * (rest**2).sum() + ((predicted - target) ** 2).sum()


def test_gradient_in_the_outputs_is_the_derivative_of_both_losses(training):
    rows, rng = training._rows, np.random.default_rng(1)
    outputs = training._outputs
    at = batch_loss(training.record, rows, training.correction, outputs)
    target = at[1] + 0.3 * rng.standard_normal(at[1].shape)
    slope = output_gradient(training.record, training.correction, *at, 0.7, 2 * (at[1] - target))
    for t, p in [(0, 0), (3, 1), (11, 0), (19, 1)]:
        step = np.zeros_like(outputs)
        step[t, p] = 1e-5
        ends = [objective(training, outputs + sign * step, target) for sign in (1, -1)]
        assert_allclose(slope[t, p], (ends[0] - ends[1]) / 2e-5, rtol=1e-5, atol=1e-7)


def test_a_step_is_gradient_descent_in_the_weights(training):
    """One partial_fit of plain gradient descent moves every weight by rate times the numerical gradient."""
    rng = np.random.default_rng(2)
    at = batch_loss(training.record, training._rows, training.correction, training._outputs)
    target = at[1] + 0.3 * rng.standard_normal(at[1].shape)
    features = training.record.features[training._rows]
    estimator = copy.deepcopy(training.correction.estimator)
    moved = training.moved(2 * (at[1] - target)).correction.estimator
    for layer in range(2):
        for k in (0, 1, 5):
            weights = estimator.coefs_[layer]
            was, step, ends = weights.flat[k], 1e-5, []
            for sign in (1, -1):
                weights.flat[k] = was + sign * step
                ends.append(objective(training, estimator.predict(features), target) / len(features))
            weights.flat[k] = was
            numeric = (ends[0] - ends[1]) / (2 * step)
            assert_allclose(was - moved.coefs_[layer].flat[k], 0.05 * numeric, rtol=1e-4, atol=1e-8)


def test_correction_begins_at_zero(nominal):
    client = NonlinearClient(ExtendedKalmanClient(random_state=0)).fit(nominal["unit1"])
    state = network_training.start(
        client, RegressorAugmenter(network(), n_lags=2), nominal["unit1"], (0,), NetworkPlan(20, 1.0)
    )
    site = {"client": client, "augmenter": state.correction}
    own, augmented = (local_prediction(site, nominal["unit1"], None, (0,), augmented=a) for a in (False, True))
    assert_allclose(augmented, own, rtol=1e-10)


class Spy(InProcessTransport):
    """Keeps every packet that passes."""

    def __init__(self, workers):
        super().__init__(workers)
        self.down, self.up = [], []

    def exchange(self, out, *, timeout=None):
        answers = super().exchange(out)
        self.down += [Packet.decode(p.encode()) for p in out.values()]
        self.up += [Packet.decode(p.encode()) for p in answers.values()]
        return answers


def fitted(X, spies=None, client=None, **server):
    def transport(workers):
        spy = Spy(workers)
        if spies is not None:
            spies.append(spy)
        return spy

    estimator = network(solver="adam", learning_rate_init=1e-3)
    server = RegressorServer(estimator, labels="augmented", **{"n_epochs": 3, "batch_size": 64} | server)
    return FederatedRCADetector(
        ExtendedKalmanClient(random_state=0) if client is None else client,
        augmenter=RegressorAugmenter(network(solver="adam", learning_rate_init=1e-3), n_lags=3),
        server=server,
        false_alarm_rate=0.01,
        evidence="flags",
        communication=Communication(transport=transport),
    ).fit(X)


@pytest.fixture(scope="module")
def detector_and_spy(nominal):
    spies = []
    return fitted(nominal, spies), spies[0]


@pytest.mark.medium
def test_only_states_losses_and_gradients_cross(detector_and_spy):
    detector, spy = detector_and_spy
    spies = [spy]
    batches = [p for p in spies[0].up if p.op == PredictedStates.OP]
    n_batches = -(-(N - 1) // 64)
    assert len(batches) == 2 * (3 * n_batches + 1)
    for packet in batches:
        assert set(packet.arrays) <= {"predicted", "filtered", "spread"}
        assert all(a.shape[1] == 2 for a in packet.arrays.values())  # states; there are four sensors
        assert set(packet.scalars) == {"loss"}
    assert sum("filtered" in p.arrays for p in batches) == 2 * n_batches  # once, however many epochs
    gradients = [p for p in spies[0].down if p.op == GradientReply.OP]
    assert {tuple(p.arrays) for p in gradients} == {("predicted",)}
    sent = sum(p.nbytes for p in spies[0].up) + sum(p.nbytes for p in spies[0].down)
    assert detector.communication_["bytes_up"] + detector.communication_["bytes_down"] == sent


@pytest.mark.medium
def test_the_sum_of_the_losses_falls(nominal):
    history = fitted(nominal, n_epochs=15).server_.loss_history_
    assert list(history.columns[:2]) == [("client", "unit0"), ("client", "unit1")]
    total = history.sum(axis=1)
    assert total.iloc[-1] < 0.8 * total.iloc[0]


@pytest.mark.medium
def test_a_unit_on_its_own_loss_alone_predicts_better(nominal):
    detector = fitted(nominal, n_epochs=15, feedback=False)
    history = detector.server_.loss_history_.client
    assert (history.iloc[-1] < history.iloc[0]).all()
    site, Y = detector._units["unit1"], nominal["unit1"]
    own, augmented = (local_prediction(site, Y, None, (0,), augmented=a) for a in (False, True))
    scale = Y.std(axis=0)
    assert (((Y - augmented) / scale)[1:] ** 2).mean() < (((Y - own) / scale)[1:] ** 2).mean()


@pytest.mark.medium
def test_a_batch_of_one_is_the_algorithm_as_printed():
    X = {name: Y[:220] for name, Y in make_nonlinear_plant(n_samples=220, size=0, random_state=1).data.items()}
    spies = []
    fitted(X, spies, batch_size=1, n_epochs=1)
    sizes = {p.arrays["predicted"].shape for p in spies[0].up if p.op == PredictedStates.OP}
    assert sizes == {(1, 2)}
    assert sum(p.op == GradientReply.OP for p in spies[0].down) == 2 * 219


@pytest.mark.medium
def test_without_feedback_units_are_told_nothing(nominal):
    spies = []
    fitted(nominal, spies, feedback=False)
    assert not any(p.op == GradientReply.OP for p in spies[0].down)
    assert sum(p.op == NoGradient.OP for p in spies[0].down) > 0


def test_linear_units_take_part(nominal):
    detector = fitted(nominal, client=KalmanClient(n_states=2))
    assert inspection.flags(detector, nominal).shape == (N, 4)


@pytest.mark.medium
def test_same_numbers_from_the_same_seed_and_after_pickling(nominal, detector_and_spy):
    first, second = fitted(nominal), detector_and_spy[0]
    assert_array_equal(first.server_.loss_history_, second.server_.loss_history_)
    first.set_params(communication__transport=None)
    again = pickle.loads(pickle.dumps(first))
    assert_array_equal(inspection.flags(again, nominal), inspection.flags(second, nominal))


@pytest.mark.medium
def test_missing_sensors_take_no_part(nominal):
    X = {name: Y.copy() for name, Y in nominal.items()}
    X["unit1"][50:60, 1] = np.nan
    X["unit0"][80:83] = np.nan
    detector = fitted(X)
    assert np.isfinite(detector.server_.loss_history_.to_numpy()).all()
    assert set(np.unique(inspection.flags(detector, X))) <= {0, 1}


@pytest.mark.medium
def test_a_packet_that_comes_twice_counts_once(nominal):
    worker = UnitWorker(
        "unit0",
        nominal["unit0"],
        None,
        (0,),
        tuple("abcd"),
        ExtendedKalmanClient(random_state=0),
        RegressorAugmenter(network()),
    )
    _, state = worker.handle(Packet("fit", 1, scalars={"dtype": "float64", "const": False, "local_model": False}), {})
    _, state = worker.handle(NetworkPlan(64, 1.0).to_packet(2), state)
    reply = GradientReply(np.ones((64, 2))).to_packet(3)
    answer, after = worker.handle(reply, state)
    assert worker.handle(reply, after)[0].encode() == answer.encode()
    assert worker.handle(reply, state)[0].encode() == answer.encode()  # nor was the old state changed
    end = NetworksTrained().to_packet(4)
    done, last = worker.handle(end, after)
    again, still = worker.handle(end, last)
    assert done.op == again.op == "done"
    assert still is last
    with pytest.raises(PacketError, match="shape"):
        worker.handle(GradientReply(np.ones((3, 2))).to_packet(4), after)


def test_packets_of_training_come_in_their_order(nominal):
    worker = UnitWorker("unit0", nominal["unit0"], None, (0,), tuple("abcd"), KalmanClient(n_states=2))
    _, state = worker.handle(Packet("fit", 1, scalars={"dtype": "float64", "const": False, "local_model": False}), {})
    for packet in (NetworksTrained().to_packet(2), NoGradient().to_packet(2)):
        with pytest.raises(PacketError):
            worker.handle(packet, state)


def test_a_unit_takes_only_what_moves_the_training_that_it_is_in(nominal):
    worker = UnitWorker("unit0", nominal["unit0"], None, (0,), tuple("abcd"), KalmanClient(n_states=2))
    _, blocks = worker.handle(TrainRequest(False, False, 0.0, 0, False).to_packet(1), {})
    _, fitted = worker.handle(FitRequest().to_packet(1), {})
    _, networks = worker.handle(NetworkPlan(64, 1.0).to_packet(2), fitted)
    for state, wrong in (
        (blocks, (NoGradient(), NetworksTrained(), GradientReply(np.ones((64, 2))))),  # which comes before the plan
        (networks, (TrainingEnd(), BlockRow(np.ones((2, 2))))),
    ):
        for message in wrong:
            with pytest.raises(PacketError, match=r"not in training|cannot take a"):
                worker.handle(message.to_packet(3), state)


@pytest.mark.parametrize("augmenter", [LinearAugmenter(), RegressorAugmenter(Ridge())])
def test_augmenters_that_cannot_be_trained_stepwise_are_refused(nominal, augmenter):
    detector = FederatedRCADetector(
        augmenter=augmenter, server=RegressorServer(labels="augmented"), false_alarm_rate=0.01
    )
    with pytest.raises(TypeError, match="partial_fit"):
        detector.fit(nominal)


def test_augmenter_without_a_regressor_is_trained_with_a_small_network():
    network, n_lags = network_training.correction_regressor(RegressorAugmenter(n_lags=3))
    assert hasattr(network, "partial_fit")
    assert n_lags == 3


def test_servers_that_cannot_be_trained_stepwise_are_refused(nominal):
    server = RegressorServer(Ridge(), labels="augmented")
    with pytest.raises(TypeError, match="labels='next'"):
        FederatedRCADetector(server=server, false_alarm_rate=0.01).fit(nominal)


@pytest.mark.parametrize("told", [{"batch_size": 0}, {"client_weight": -1.0}, {"more": 1}])
def test_plans_that_cannot_be_meant_are_refused(told):
    good = {"batch_size": 4, "client_weight": 1.0, "dtype": "float64"}
    with pytest.raises(PacketError):
        NetworkPlan.from_packet(Packet(NetworkPlan.OP, 1, scalars=good | told))


@pytest.mark.medium
def test_one_random_state_reaches_every_network(nominal):
    """Nothing else was given a seed: the same one gives the same plant, another one another."""

    def losses(random_state):
        detector = FederatedRCADetector(
            ExtendedKalmanClient(),
            augmenter=RegressorAugmenter(MLPRegressor(hidden_layer_sizes=(4,)), n_lags=2),
            server=RegressorServer(
                MLPRegressor(hidden_layer_sizes=(4,)), labels="augmented", n_epochs=1, batch_size=200
            ),
            false_alarm_rate=0.01,
            random_state=random_state,
        )
        return detector.fit(nominal).server_.loss_history_.to_numpy()

    assert_array_equal(losses(None), losses(None))
    first, second = losses(1), losses(2)
    assert (first != second).any(axis=0).all()


def test_no_pair_crosses_the_border_of_two_episodes(nominal):
    spies = []
    FederatedRCADetector(
        augmenter=RegressorAugmenter(network(solver="adam")),
        server=RegressorServer(network(solver="adam"), labels="augmented", n_epochs=1),
        false_alarm_rate=0.01,
        communication=Communication(transport=lambda workers: spies.append(Spy(workers)) or spies[0]),
    ).fit(nominal, lengths=[250, 150])
    told = [len(p.arrays["predicted"]) for p in spies[0].up if p.op == PredictedStates.OP]
    assert sum(told[:-2]) == 2 * (249 + 149)  # the last message of each unit is about the next epoch
