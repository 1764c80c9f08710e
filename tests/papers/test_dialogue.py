"""The server's side of training by gradients: what it asks, whom it needs, and what it does without them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skfedcausal import GradientServer, KalmanClient
from skfedcausal.bases import configured
from skfedcausal.client.worker import UnitWorker
from skfedcausal.datasets import make_granger_plant
from skfedcausal.federation.exchange import Answers, InProcessTransport
from skfedcausal.message.requests import Acknowledgement
from skfedcausal.message.training import (
    AugmentedMessage,
    BlockRow,
    CorrectionMoments,
    GradientReply,
    LocalModel,
    PredictedMessage,
    TrainingEnd,
    TrainingPlan,
)
from skfedcausal.papers import StopRule

UNITS = ("unit0", "unit1", "unit2")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class Plant:
    """Units that answer what a server asks, unless they are lost, and a record of what was asked."""

    def __init__(self, n_inputs=0, names=UNITS):
        X, truth = make_granger_plant(
            3, n_states=[2, 1, 2], n_sensors=3, n_inputs=n_inputs, n_samples=60, random_state=3
        )
        columns, workers = tuple(f"s{k}" for k in range(3)), {}
        inputs = [U + 2.0 for U in truth.inputs] if n_inputs else [None] * 3
        for name, Y, U, model in zip(X, X.values(), inputs, truth.clients().values(), strict=True):
            if name in names:
                workers[name] = UnitWorker(name, Y, U, (0,), columns, KalmanClient(**model))
        self._units, self.names, self.inputs = InProcessTransport(workers), names, n_inputs > 0
        self.asked = []

    def train(self, server, lost=(), stale="hold", repeated=False):
        """Train, units being lost in some questions: (number of the question, name).

        Their last answer stands in if `repeated`.
        """
        dialogue, last = server.dialogue(self.names, self.inputs), {}
        ask, answers = next(dialogue), None
        while True:
            number = len(self.asked)
            self.asked.append(ask)
            if ask.answer is Acknowledgement:
                break
            packets = {name: one.to_packet(number) for name, one in ask.requests.items()}
            sent = {name: packet for name, packet in packets.items() if (number, name) not in lost}
            came = {name: ask.answer.from_packet(p) for name, p in self._units.exchange(sent).items()}
            answers = Answers(came)
            if stale == "skip":
                answers.skipped = frozenset(packets) - frozenset(came)
            if repeated:
                answers = Answers({name: came.get(name, last.get(name)) for name in packets})
            last |= answers
            ask = dialogue.send(answers)
        with pytest.raises(StopIteration):
            next(dialogue)
        return server


def kinds(asked):
    return [type(next(iter(ask.requests.values()))).__name__ for ask in asked]


@pytest.mark.parametrize(
    ("settings", "first", "later"),
    [
        ({}, AugmentedMessage, AugmentedMessage),
        ({"exchange": "moments"}, CorrectionMoments, CorrectionMoments),
        ({"solve": "stationary"}, BlockRow, None),
        ({"update": "online", "max_iter": 1}, AugmentedMessage, AugmentedMessage),
    ],
)
def test_local_models_plans_rounds_and_an_end_are_asked_for(settings, first, later):
    """Everybody each time; the quorum decides who is needed but step by step, and nobody is for the end."""
    plant = Plant()
    server = plant.train(configured(GradientServer, {"max_iter": 3, "tol": 0.0} | settings))
    request, plan, *rounds, end = plant.asked
    assert all(set(ask.requests) == set(UNITS) for ask in plant.asked)
    assert (request.answer, request.needed) == (LocalModel, None)
    assert (plan.answer, plan.needed) == (first, None)
    assert {type(one) for one in plan.requests.values()} == {TrainingPlan}
    everybody = 3 if settings.get("update") == "online" else None
    assert {(ask.answer, ask.needed) for ask in rounds} == ({(later, everybody)} if later else set())
    n_rounds = 59 if settings.get("update") == "online" else 3 if later else 0
    assert len(rounds) == n_rounds
    assert (end.answer, end.needed) == (Acknowledgement, 0)
    assert {type(one) for one in end.requests.values()} == {TrainingEnd}
    assert server.names_ == UNITS


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, {"relay": False, "stepwise": False, "start_scale": 0.0, "seed": 0}),
        ({"exchange": "moments"}, {"relay": True, "stepwise": False, "start_scale": 0.0, "seed": 0}),
        ({"update": "online"}, {"relay": False, "stepwise": True, "start_scale": 0.0, "seed": 0}),
        (
            {"solve": "stationary", "update": "online", "start_scale": 0.1},
            {"relay": True, "stepwise": False, "start_scale": 0.0, "seed": 0},
        ),
        (
            {"start_scale": 0.1, "random_state": 4},
            {"relay": False, "stepwise": False, "start_scale": 0.1, "seed": 720507151},
        ),
    ],
)
@pytest.mark.parametrize("inputs", [False, True])
def test_the_first_request_says_how_training_will_go(settings, told, inputs):
    told = {**told, "seed": int(np.random.RandomState(4).randint(2**31)) if told["seed"] else 0}
    ask = next(configured(GradientServer, settings).dialogue(UNITS, inputs))
    packets = [one.to_packet(7, "float32") for one in ask.requests.values()]
    for packet in packets:
        assert (packet.op, packet.round) == ("train", 7)
        assert dict(packet.scalars) == {**told, "constant": inputs, "dtype": "float32"}
        assert not packet.arrays
    assert next(iter(ask.requests.values())).OPENS


def test_settings_that_contradict_each_other_are_refused_before_anything_is_asked():
    with pytest.raises(ValueError, match="exchange='moments' does not"):
        next(GradientServer(update="online", exchange="moments").dialogue(UNITS))


def test_plants_with_inputs_send_the_rest_only_once():
    plant = Plant(n_inputs=1)
    server = plant.train(GradientServer(stop=StopRule(max_iter=4, tol=0.0)))
    assert [ask.answer for ask in plant.asked[:5]] == [
        LocalModel,
        AugmentedMessage,
        *[PredictedMessage] * 3,
    ]
    for name, end in plant.asked[-1].requests.items():
        rows = server.state_slices_[name]
        others = server.input_[rows].copy()
        others[:, server.input_slices_[name]] = 0.0
        assert_allclose(end.input_level, others @ server.input_level_)
        assert np.abs(end.input_level).min() > 0


@pytest.mark.parametrize("settings", [{}, {"exchange": "moments"}, {"solve": "stationary"}])
@pytest.mark.parametrize("lost", [[(0, "unit1")], [(1, "unit1")]])
def test_a_unit_lost_before_training_is_left_out(settings, lost):
    """In the first question the others go on; in the second they start again."""
    plant = Plant()
    settings = {"max_iter": 4, "tol": 0.0} | settings
    server = plant.train(configured(GradientServer, settings), lost)
    assert kinds(plant.asked)[:4] == (
        ["TrainRequest", "TrainingPlan", "TrainRequest", "TrainingPlan"]
        if lost[0][0]
        else ["TrainRequest", "TrainingPlan", *kinds(plant.asked)[2:4]]
    )
    assert set(plant.asked[-1].requests) == {"unit0", "unit2"}
    alone = Plant(names=("unit0", "unit2")).train(configured(GradientServer, settings))
    assert server.names_ == ("unit0", "unit2")
    assert_array_equal(server.transition_, alone.transition_)
    assert_array_equal(server.loss_history_, alone.loss_history_)


def test_several_may_be_lost_one_after_the_other():
    plant = Plant()
    server = plant.train(GradientServer(stop=StopRule(max_iter=3, tol=0.0)), [(1, "unit1"), (3, "unit0")])
    assert kinds(plant.asked) == ["TrainRequest", "TrainingPlan"] * 3 + ["GradientReply"] * 3 + ["TrainingEnd"]
    assert server.names_ == ("unit2",)


@pytest.mark.parametrize("exchange", ["series", "moments"])
def test_a_unit_lost_later_is_held_at_its_last_message(exchange):
    """As if it had sent that again; the others never start again."""
    lost = [(3, "unit1"), (4, "unit1"), (5, "unit2")]
    held, repeated = Plant(), Plant()
    settings = {"max_iter": 8, "tol": 0.0, "exchange": exchange}
    server = held.train(configured(GradientServer, settings), lost)
    other = repeated.train(configured(GradientServer, settings), lost, repeated=True)
    assert kinds(held.asked) == kinds(repeated.asked)
    assert kinds(held.asked).count("TrainRequest") == 1
    assert all(set(ask.requests) == set(UNITS) for ask in held.asked)
    assert_array_equal(server.transition_, other.transition_)
    assert_array_equal(server.loss_history_, other.loss_history_)
    assert not np.array_equal(server.transition_, Plant().train(configured(GradientServer, settings)).transition_)


@pytest.mark.parametrize("exchange", ["series", "moments"])
def test_the_block_row_of_a_skipped_unit_rests(exchange):
    """From the round in which it is lost to the one before it is back."""
    history = []
    server = GradientServer(exchange=exchange, start_scale=0.1, random_state=0, stop=StopRule(max_iter=6, tol=0.0))
    _blocks_after_rounds(server, history)
    Plant().train(server, [(3, "unit1"), (4, "unit1")], stale="skip")
    rows = server.state_slices_["unit1"]
    moved = [not np.array_equal(a[rows], b[rows]) for a, b in zip(history[:-1], history[1:], strict=True)]
    others = [not np.array_equal(a[3:], b[3:]) for a, b in zip(history[:-1], history[1:], strict=True)]
    assert moved == [True, True, False, False, True]
    assert all(others)


def _blocks_after_rounds(server, history):
    """Let the callback of a server note the blocks at the beginning of every round."""
    watch = server._watch

    def noted(training):
        history.append(training.blocks)
        return watch(training)

    server._watch = noted


def test_a_message_of_another_kind_is_not_held():
    """With inputs the second message lacks what the first had: a unit lost between them is left out."""
    plant = Plant(n_inputs=1)
    server = plant.train(GradientServer(stop=StopRule(max_iter=4, tol=0.0)), [(2, "unit0")])
    assert kinds(plant.asked)[:5] == [
        "TrainRequest",
        "TrainingPlan",
        "GradientReply",
        "TrainRequest",
        "TrainingPlan",
    ]
    assert server.names_ == ("unit1", "unit2")


def test_replies_are_made_anew_in_every_round():
    """So that noise added to one before it leaves changes none of the others."""
    plant = Plant()
    plant.train(GradientServer(stop=StopRule(max_iter=3, tol=0.0)))
    first, second = plant.asked[2].requests, plant.asked[3].requests
    for name in UNITS:
        assert isinstance(first[name], GradientReply)
        assert not np.shares_memory(first[name].predicted, second[name].predicted)
