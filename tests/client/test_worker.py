"""A unit's worker answers packets from its private data; what it learned is state that goes in and out."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skfedcausal import KalmanClient, LinearAugmenter, RegressorAugmenter
from skfedcausal.client.worker import UnitWorker
from skfedcausal.message import StateMessage
from skfedcausal.message.packet import Packet, PacketError
from skfedcausal.message.states import SmoothedReply, StateReply

from ._reference import random_unit

N, D, P = 80, 5, 2
STARTS, LENGTHS = (0, 30), (30, 50)
UNIT = random_unit(np.random.default_rng(0))
Y, U = UNIT.simulate(N, np.random.default_rng(1), missing=0.05)
GIVEN = KalmanClient(**{**UNIT.matrices, "R": np.diag(UNIT.R)})
FIT = Packet("fit", 1, scalars={"dtype": "float64", "const": False, "local_model": False})


def make_worker(client=GIVEN, augmenter=None):
    columns = tuple(f"mill__s{k}" for k in range(D))
    return UnitWorker("mill", Y, U, STARTS, columns, client, augmenter)


def fitted_state(worker):
    return worker.handle(FIT, {})[1]


def smoothed(round=2):
    return SmoothedReply(np.random.default_rng(2).normal(size=(N, P)), np.eye(P)[None]).to_packet(round)


def reply(round=1, n_samples=N, n_states=P):
    cross = np.random.default_rng(3).normal(size=(n_samples, n_states))
    return StateReply(cross, 0.5 * np.eye(n_states), np.eye(n_states)).to_packet(round)


# --- answers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("template", [GIVEN, KalmanClient(n_states=2)], ids=["given", "identified"])
def test_the_answer_is_the_message_of_the_unit_fitted_at_home(template):
    answer, state = make_worker(template).handle(FIT, {})
    client = KalmanClient(**template.get_params(deep=False)).fit(Y, inputs=U, lengths=LENGTHS)
    expected = client.message(Y, lengths=LENGTHS)
    came = StateMessage.from_packet(answer)
    assert_array_equal(came.z, expected.z)
    assert_allclose(came.J, expected.J, rtol=1e-13)  # of each matrix one triangle travels
    assert came.lengths == LENGTHS
    assert_array_equal(state["client"].transform(Y), client.transform(Y))


@pytest.mark.parametrize("wish", ["const", "local_model"])
def test_wishes_are_granted_and_nothing_else_is_sent(wish):
    plain, _ = make_worker().handle(FIT, {})
    more, _ = make_worker().handle(Packet("fit", 1, scalars={wish: True}), {})
    additional = {"const": {"const"}, "local_model": {"transition", "process_cov", "input_matrix"}}[wish]
    assert set(plain.arrays) == {"z", "patterns", "index", "lengths", "inputs"}
    assert set(more.arrays) - set(plain.arrays) == additional


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_the_series_travels_in_the_precision_asked_for(dtype):
    answer, _ = make_worker().handle(Packet("fit", 1, scalars={"dtype": dtype}), {})
    assert answer.arrays["z"].dtype == dtype
    assert answer.arrays["z"].shape == (N, P)


def test_a_reply_is_acknowledged_without_data_and_teaches_the_augmenter():
    worker = make_worker(augmenter=RegressorAugmenter(n_lags=2))
    answer, state = worker.handle(reply(), fitted_state(worker))
    assert (answer.op, dict(answer.arrays), dict(answer.scalars)) == ("done", {}, {})
    assert isinstance(state["augmenter"], RegressorAugmenter)
    assert_array_equal(state["transition"], 0.5 * np.eye(P))


def test_without_an_augmenter_the_linear_one_learns():
    worker = make_worker()
    _, state = worker.handle(reply(), fitted_state(worker))
    assert isinstance(state["augmenter"], LinearAugmenter)


def test_smoothed_states_refine_the_sensors_and_bring_a_new_message():
    worker = make_worker()
    before = fitted_state(worker)
    answer, after = worker.handle(smoothed(), before)
    assert answer.round == 2
    assert np.abs(after["client"].observation_ - before["client"].observation_).max() > 0
    expected = after["client"].message(Y, lengths=LENGTHS)
    assert_array_equal(StateMessage.from_packet(answer).z, expected.z)


@pytest.mark.parametrize("packet", [FIT, smoothed(7), reply(7)], ids=lambda p: p.op)
def test_an_answer_belongs_to_the_round_of_its_question(packet):
    worker = make_worker()
    assert worker.handle(packet, fitted_state(worker))[0].round == packet.round


# --- state ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packet", [FIT, smoothed(), reply()], ids=lambda p: p.op)
def test_the_same_packet_and_state_give_the_same_answer(packet):
    worker = make_worker()
    state = fitted_state(worker)
    kept = pickle.dumps(state)
    first, _ = worker.handle(packet, state)
    second, _ = worker.handle(packet, state)
    assert first.encode() == second.encode()
    assert pickle.dumps(state) == kept


@pytest.mark.parametrize("packets", [(FIT,), (FIT, smoothed(2)), (FIT, smoothed(2), reply(2))], ids=len)
def test_a_packet_that_comes_twice_in_a_row_counts_once(packets):
    worker, state = make_worker(), {}
    for packet in packets:
        answer, state = worker.handle(packet, state)
    again, after = worker.handle(packets[-1], state)
    assert again.encode() == answer.encode()
    assert pickle.dumps(after["client"]) == pickle.dumps(state["client"])
    assert set(after) == set(state)
    for packet in (smoothed(3), reply(3)):  # and the run goes on as if it had come once
        expected, state = worker.handle(packet, state)
        came, after = worker.handle(packet, after)
        assert came.encode() == expected.encode()


@pytest.mark.parametrize("packets", [(FIT, reply(1)), (FIT, smoothed(2), reply(2))], ids=len)
def test_a_question_repeated_after_its_reply_takes_nothing_away(packets):
    worker, state, answers = make_worker(), {}, []
    for packet in packets:
        answer, state = worker.handle(packet, state)
        answers.append(answer)
    again, after = worker.handle(packets[-2], state)
    assert again.encode() == answers[-2].encode()
    assert set(after) == set(state)
    assert after["augmenter"] is state["augmenter"]


@pytest.mark.parametrize("old", [FIT, smoothed(2), reply(1)], ids=lambda p: p.op)
def test_a_packet_of_an_earlier_round_is_refused(old):
    worker, state = make_worker(), {}
    for packet in (FIT, smoothed(2), smoothed(3)):
        _, state = worker.handle(packet, state)
    with pytest.raises(PacketError, match=f"Unit 'mill' got '{old.op}' of round {old.round}, but is in round 3"):
        worker.handle(old, state)


def test_a_new_fit_forgets_the_one_before():
    worker = make_worker()
    _, state = worker.handle(reply(), fitted_state(worker))
    _, state = worker.handle(smoothed(2), state)
    _, fresh = worker.handle(Packet("fit", 5), state)
    assert set(fresh) == set(fitted_state(worker))
    assert_array_equal(fresh["client"].observation_, fitted_state(worker)["client"].observation_)


def test_state_survives_a_store_between_packets():
    worker, state, stored = make_worker(), {}, pickle.dumps({})
    for packet in (FIT, smoothed(2), reply(2)):
        answer, state = worker.handle(packet, state)
        came, after = pickle.loads(pickle.dumps(make_worker())).handle(packet, pickle.loads(stored))
        stored = pickle.dumps(after)
        assert came.encode() == answer.encode()


def test_the_template_is_not_fitted():
    template, augmenter = KalmanClient(n_states=2), LinearAugmenter()
    worker = make_worker(template, augmenter)
    worker.handle(reply(), fitted_state(worker))
    assert set(vars(template)) == set(template.get_params(deep=False))
    assert set(vars(augmenter)) == set(augmenter.get_params())


def test_a_worker_travels_to_another_process():
    worker = pickle.loads(pickle.dumps(make_worker()))
    assert worker.handle(FIT, {})[0].encode() == make_worker().handle(FIT, {})[0].encode()


def test_state_holds_no_series():
    worker = make_worker()
    _, state = worker.handle(reply(), fitted_state(worker))
    for value in (*vars(state["client"]).values(), *vars(state["augmenter"]).values()):
        assert N not in np.shape(value)


# --- what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["states", "done", "send raw data", ""])
def test_an_unknown_operation_is_refused_by_name(op):
    with pytest.raises(PacketError, match=f"Unit 'mill' does not know the operation '{op}'"):
        make_worker().handle(Packet(op), {})


@pytest.mark.parametrize("client", [object(), 3, "filter", np.eye(2)], ids=lambda c: type(c).__name__)
def test_a_client_without_the_contract_is_refused_by_name(client):
    message = rf"client of unit 'mill' is a {type(client).__name__} with neither `message\(Y\)` nor"
    with pytest.raises(TypeError, match=message):
        make_worker(client).handle(FIT, {})


@pytest.mark.parametrize("packet", [smoothed(), reply()], ids=lambda p: p.op)
def test_a_reply_before_the_first_message_is_refused(packet):
    with pytest.raises(PacketError, match="mill"):
        make_worker().handle(packet, {})


@pytest.mark.parametrize("shape", [(N - 1, P), (N + 1, P), (N, P + 1)], ids=str)
def test_a_reply_of_another_shape_than_the_record_is_refused(shape):
    worker = make_worker()
    state = fitted_state(worker)
    with pytest.raises(PacketError, match="mill"):
        worker.handle(reply(1, *shape), state)


@pytest.mark.parametrize("shape", [(N - 1, P), (N, P + 1)], ids=str)
def test_smoothed_states_of_another_shape_than_the_record_are_refused(shape):
    worker = make_worker()
    packet = SmoothedReply(np.zeros(shape), np.eye(shape[1])[None]).to_packet(2)
    with pytest.raises(PacketError, match=rf"Unit 'mill' got a series of shape \({shape[0]}, {shape[1]}\)"):
        worker.handle(packet, fitted_state(worker))


def test_smoothed_states_in_the_round_of_the_first_message_are_refused():
    worker = make_worker()
    with pytest.raises(PacketError, match="'mill' got 'refine' in the round of its first message, 1"):
        worker.handle(smoothed(1), fitted_state(worker))


@pytest.mark.parametrize("dtype", ["int8", "complex128", "float128", "", 3, True])
def test_a_precision_that_is_not_sent_is_refused(dtype):
    with pytest.raises(PacketError, match=f"Unit 'mill' .*Scalar 'dtype' of packet 'fit' is {dtype!r}, .*float64"):
        make_worker().handle(Packet("fit", 1, scalars={"dtype": dtype}), {})


@pytest.mark.parametrize("wish", ["const", "local_model"])
@pytest.mark.parametrize("value", ["False", 0, 1.0])
def test_a_wish_is_true_or_false(wish, value):
    with pytest.raises(PacketError, match=f"Unit 'mill' .*Scalar '{wish}' .* is {value!r}, expected true or false"):
        make_worker().handle(Packet("fit", 1, scalars={wish: value}), {})


class BlackBox:
    """Sends whatever it was made with."""

    def __init__(self, answer):
        self.answer = answer

    def message(self, Y, **wishes):
        return self.answer

    filter = predict = measurements = message


J = np.eye(P)[None]
NO_MESSAGES = {
    "measurements": (Y, TypeError, "gave a ndarray as its message"),
    "nothing": (None, TypeError, "gave a NoneType as its message"),
    "NaN": (StateMessage(np.full((N, P), np.nan), J, None, LENGTHS), ValueError, "'z'.*not finite"),
    "indefinite": (StateMessage(np.ones((N, P)), -J, None, LENGTHS), ValueError, "'patterns'.*semidefinite"),
    "one matrix": (StateMessage(np.ones((N, P)), J[0], None, LENGTHS), ValueError, "cannot be used"),
    "lists": (StateMessage([[1.0] * P] * N, J, None, LENGTHS), ValueError, "'z'.*is a list"),
    "other lengths": (StateMessage(np.ones((N, P)), J, None, (N + 1,)), ValueError, "'lengths'"),
    "other rows": (StateMessage(np.ones((9, P)), J, None, (9,)), ValueError, f"9 rows for a record of {N}"),
}


@pytest.mark.parametrize("dtype", ["float64", "float16"])
@pytest.mark.parametrize(("answer", "kind", "problem"), NO_MESSAGES.values(), ids=NO_MESSAGES.keys())
def test_a_black_box_that_sends_no_message_is_refused_by_name(answer, kind, problem, dtype):
    with pytest.raises(kind, match=f"client of unit 'mill' .*{problem}"):
        make_worker(BlackBox(answer)).handle(Packet("fit", 1, scalars={"dtype": dtype}), {})
