"""The contract of a server: what the base makes of a plant, and the rounds in which a server asks units."""

import numpy as np
import pytest
from scipy.linalg import block_diag
from sklearn.linear_model import Ridge
from sklearn.neural_network import MLPRegressor

from skfedcausal import (
    ExtendedKalmanClient,
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    KalmanClient,
    LikelihoodOptions,
    LikelihoodServer,
    RegressorAugmenter,
    RegressorServer,
)
from skfedcausal.client.worker import UnitWorker
from skfedcausal.datasets import make_granger_plant, make_nonlinear_plant
from skfedcausal.federation.exchange import InProcessTransport, Site
from skfedcausal.message import StateMessage
from skfedcausal.message.states import FeedbackLaw, StateReply
from skfedcausal.server.moments import MomentServer
from skfedcausal.server.plant import Acknowledgement, FitRequest, LawRequest, ServerLearner

from ..test_counterfactual import controlled_plant

LINK_QUESTIONS = (
    "test_links", "link_intervals", "spectrum", "effects",
)  # fmt: skip


class Known(ServerLearner):
    """A stranger's server, which knows the plant from elsewhere."""

    def __init__(self, A, Q):
        self.A, self.Q = A, Q

    def fit(self, messages):
        ends = np.cumsum([0, *(m.z.shape[1] for m in messages.values())])
        self.names_ = tuple(messages)
        self.state_slices_ = dict(zip(messages, map(slice, ends[:-1], ends[1:]), strict=True))
        self.transition_, self.process_cov_ = self.A, self.Q
        return self


def run(server, workers, inputs=False):
    """A fit by `server.dialogue` with workers in this process; the types of all requests and answers."""
    transport = InProcessTransport({name: Site(worker) for name, worker in workers.items()})
    dialogue, asked, round = server.dialogue(tuple(workers), inputs=inputs), [], 0
    ask = next(dialogue)
    while ask is not None:
        round += 1
        asked.append({(name, type(request), ask.answer) for name, request in ask.requests.items()})
        packets = {name: request.to_packet(round, "float64") for name, request in ask.requests.items()}
        answers = transport.exchange(packets)
        try:
            ask = dialogue.send({name: ask.answer.from_packet(p) for name, p in answers.items()})
        except StopIteration:
            ask = None
    return asked


def workers_of(X, inputs=None, client=None, augmenter=None):
    client = KalmanClient() if client is None else client
    inputs = dict.fromkeys(X) if inputs is None else inputs
    return {name: UnitWorker(name, Y, inputs[name], (0,), (), client, augmenter) for name, Y in X.items()}


def messages_of(X, inputs=None, **settings):
    inputs = [None] * len(X) if inputs is None else inputs
    return {
        name: KalmanClient().fit(Y, inputs=U).message(Y, inputs=U, **settings)
        for (name, Y), U in zip(X.items(), inputs, strict=True)
    }


@pytest.fixture(scope="module")
def learned():
    X, _ = make_granger_plant(3, n_samples=600, n_states=[2, 1, 2], links=[(0, 1)], random_state=0)
    messages = messages_of(X)
    # a server that neither shrinks nor knows of shifts answers as the base does
    return messages, LikelihoodServer(shrink=False, options=LikelihoodOptions(level_shifts=None)).fit(messages)


def test_of_any_plant_the_base_makes_filter_smoother_and_replies(learned):
    messages, server = learned
    known = Known(server.transition_, server.process_cov_).fit(messages)
    np.testing.assert_array_equal(known.filter(messages).predicted, server.filter(messages).predicted)
    for name, expected in server.replies(messages).items():
        reply = known.replies(messages)[name]
        np.testing.assert_array_equal(reply.cross_term, expected.cross_term)
        np.testing.assert_array_equal(reply.transition, expected.transition)
        np.testing.assert_array_equal(reply.process_cov, expected.process_cov)
    for question in ("smoothed", "abducted"):
        expected, found = (getattr(s, question)(messages) for s in (server, known))
        for name in messages:
            np.testing.assert_array_equal(found[name].states, expected[name].states)
            np.testing.assert_array_equal(found[name].covariances, expected[name].covariances)


def test_inputs_count_where_a_plant_has_an_input_matrix():
    X, truth = make_granger_plant(2, n_samples=500, n_inputs=1, input_links=[(0, 1)], random_state=0)
    messages = messages_of(X, truth.inputs)
    server = LikelihoodServer(shrink=False, options=LikelihoodOptions(level_shifts=None)).fit(messages)
    known = Known(server.transition_, server.process_cov_).fit(messages)
    known.input_, known.input_slices_ = server.input_, server.input_slices_
    known.input_level_ = server.input_level_
    # the spread of inputs before the record is only known to the other server
    late = slice(100, None)
    predicted = [s.filter(messages).predicted[late] for s in (known, server)]
    np.testing.assert_allclose(*predicted, atol=1e-8)
    reply, expected = (s.replies(messages)["unit1"] for s in (known, server))
    np.testing.assert_array_equal(reply.input_matrix, expected.input_matrix)
    np.testing.assert_allclose(reply.cross_term[late], expected.cross_term[late], atol=1e-8)
    with pytest.raises(ValueError, match=r"\(0, 0\) inputs, in `fit` they had \(1, 1\)"):
        known.filter(messages_of(X))


def test_a_strangers_server_has_a_round_of_messages_and_its_replies():
    X, _ = make_granger_plant(2, n_samples=400, random_state=0)
    messages = messages_of(X, local_model=True)
    A, Q = (block_diag(*(getattr(m, of) for m in messages.values())) for of in ("transition", "process_cov"))
    asked = run(Known(A, Q), workers_of(X))
    assert asked == [
        {(name, FitRequest, StateMessage) for name in X},
        {(name, StateReply, Acknowledgement) for name in X},
    ]


def test_one_round_ends_with_the_replies():
    X, _ = make_granger_plant(2, n_samples=600, links=[(0, 1)], random_state=0)
    server, expected = LikelihoodServer(), FederatedGrangerEstimator().fit(X)
    asked = run(server, workers_of(X))
    assert [len(requests) for requests in asked] == [2, 2]
    np.testing.assert_array_equal(server.transition_, expected.transition_)


def test_rounds_smooth_and_ask_again():
    X, _ = make_granger_plant(2, n_samples=600, links=[(0, 1)], random_state=0)
    server = LikelihoodServer(options=LikelihoodOptions(n_rounds=3))
    expected = FederatedGrangerEstimator(server=LikelihoodServer(options=LikelihoodOptions(n_rounds=3))).fit(X)
    asked = run(server, workers_of(X))
    kinds = [{kind.__name__ for _, kind, _ in requests} for requests in asked]
    assert kinds == [{"FitRequest"}, {"SmoothedReply"}, {"SmoothedReply"}, {"StateReply"}]
    np.testing.assert_array_equal(server.transition_, expected.transition_)
    assert server.needs_replies
    assert not LikelihoodServer().needs_replies


@pytest.mark.medium
def test_controlled_units_are_asked_for_their_laws():
    X, inputs, _ = controlled_plant(2000, 0)
    client, server = KalmanClient(n_states=1), LikelihoodServer()
    with pytest.warns(UserWarning, match="Inputs of 'b' depend on measurements"):
        expected = FederatedCounterfactualEstimator(client).fit(X, inputs=inputs).server_
    asked = run(server, workers_of(X, inputs, client), inputs=True)
    assert server.controlled_units_ == expected.controlled_units_ == ("b",)
    assert asked[1] == {("b", LawRequest, FeedbackLaw)}
    np.testing.assert_array_equal(server.laws_["b"].present, expected.laws_["b"].present)
    np.testing.assert_array_equal(server.input_, expected.input_)


def test_units_are_asked_for_their_own_models_where_these_are_needed(learned):
    messages, _ = learned
    for server in (
        LikelihoodServer(options=LikelihoodOptions(n_rounds=1)),
        LikelihoodServer(options=LikelihoodOptions(n_rounds=1, fix_local=True)),
    ):
        ask = next(server.dialogue(tuple(messages)))
        assert ask.answer is StateMessage
        wishes = {"own_past": True, "sharp": True, "sketch": None if server.fix_local else True}
        expected = FitRequest(local_model=server.needs_local_model, **wishes)
        assert ask.requests == dict.fromkeys(messages, expected)


def test_those_who_did_not_answer_are_not_part_of_the_plant(learned):
    messages, _ = learned
    server = LikelihoodServer()
    dialogue = server.dialogue(tuple(messages))
    next(dialogue)
    there = {name: messages[name] for name in list(messages)[:2]}
    last = dialogue.send(there)
    assert server.names_ == tuple(last.requests) == tuple(there)
    assert last.needed == 0


@pytest.mark.medium
def test_corrections_are_trained_in_rounds_as_by_the_detector():
    nominal = make_nonlinear_plant(n_samples=400, size=0, random_state=1).data
    network = MLPRegressor(hidden_layer_sizes=(6,), activation="tanh", random_state=0)
    parts = ExtendedKalmanClient(random_state=0), RegressorAugmenter(network, n_lags=3)
    server = RegressorServer(network, labels="augmented", n_epochs=3)
    detector = FederatedRCADetector(
        parts[0], augmenter=parts[1], server=server, evidence="flags", false_alarm_rate=0.01
    )
    expected = detector.fit(nominal).server_.loss_history_
    asked = run(server, workers_of(nominal, None, *parts))
    kinds = [{kind.__name__ for _, kind, _ in requests} for requests in asked]
    assert kinds[:2] == [{"FitRequest"}, {"NetworkPlan"}]
    assert kinds[-1] == {"NetworksTrained"}
    np.testing.assert_array_equal(server.loss_history_, expected)
    assert server.needs_replies
    assert not RegressorServer(Ridge()).needs_replies


@pytest.mark.parametrize("server", [MomentServer(), RegressorServer(Ridge()), Known(None, None)], ids=repr)
def test_servers_have_no_question_that_they_cannot_answer(server):
    assert not [name for name in LINK_QUESTIONS if hasattr(server, name)]
    assert not isinstance(server, LikelihoodServer)


def test_a_server_has_to_say_how_it_learns():
    class Idle(ServerLearner):
        pass

    with pytest.raises(TypeError, match="fit"):
        Idle()
