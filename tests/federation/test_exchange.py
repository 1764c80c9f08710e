"""The server's exchange: who is asked again and when, what a quorum means, and what rides on an answer."""

import copy
import logging
import pickle

import numpy as np
import pytest

from skfedcausal.federation import exchange as module
from skfedcausal.federation.exchange import ClientError, Exchange, LostUnits
from skfedcausal.federation.ledger import Ledger
from skfedcausal.message import StateMessage
from skfedcausal.message.packet import Failure, Packet
from skfedcausal.message.requests import (
    Ask,
    FitRequest,
    LawRequest,
    NothingYet,
    PrivacyPromise,
    RecordRequest,
    WatchRequest,
)
from skfedcausal.message.training import LossAnswer

N = 6
STATES = StateMessage(np.ones((N, 2)), np.eye(2)[None], None, (2, 4))
LATE = Failure("timeout")
NOTHING = NothingYet()


class Scripted:
    """Gives each unit's answers in turn, the last of them for ever, as of the round of the question."""

    def __init__(self, one_way=False, **answers):
        self.one_way, self.answers, self.asked = one_way, {k: list(v) for k, v in answers.items()}, []

    def clients(self):
        return tuple(self.answers)

    def exchange(self, out, *, timeout=None):
        self.asked.append((dict(out), timeout))
        return {name: self._next(name, packet) for name, packet in out.items()}

    def _next(self, name, packet):
        turn = self.answers[name]
        answer = turn.pop(0) if len(turn) > 1 else turn[0]
        return answer if isinstance(answer, (Failure, Packet)) else answer.to_packet(packet.round)

    def close(self):
        self.closed = True

    @property
    def names(self):
        return [sorted(out) for out, _ in self.asked]


class Dialogue:
    """A server that asks what it is told to, and keeps the answers."""

    def __init__(self, *questions):
        self.questions, self.answers = questions, []

    def dialogue(self, names, inputs=False):
        self.names, self.inputs = names, inputs
        for question in self.questions:
            self.answers.append((yield question))


def ask(request, *names, answer=StateMessage, **how):
    return Ask(dict.fromkeys(names, request), answer, **how)


def learned(transport, *questions, **how):
    found, server = Exchange(transport, Ledger(), **how), Dialogue(*questions)
    found.learn(server)
    return found, server


# --- learning ---------------------------------------------------------------------------------------------


def test_rounds_are_counted_from_one_and_some_requests_belong_to_the_round_before():
    transport = Scripted(a=[STATES])
    questions = [ask(FitRequest(), "a"), ask(LawRequest(), "a"), ask(RecordRequest(), "a"), ask(RecordRequest(), "a")]
    found, server = learned(transport, *questions)
    assert [out["a"].round for out, _ in transport.asked] == [1, 1, 2, 3]
    assert (found.round, found.lengths) == (3, (2, 4))
    assert (server.names, server.inputs) == (("a",), False)
    assert [type(length) for length in found.lengths] == [int, int]


def test_a_later_message_takes_the_place_of_the_earlier_one_of_its_unit():
    short = StateMessage(np.ones((3, 2)), np.eye(2)[None], None, (3,))
    transport = Scripted(a=[STATES, short], b=[STATES])
    found, _ = learned(transport, ask(FitRequest(), "a", "b"), ask(RecordRequest(), "a"))
    assert {name: len(message.z) for name, message in found.messages.items()} == {"a": 3, "b": N}
    assert found.lengths == (3,)


def test_a_new_fit_forgets_the_messages_of_the_one_before():
    transport = Scripted(a=[STATES], b=[STATES, LATE])
    first, again = ask(FitRequest(), "a", "b"), ask(FitRequest(), "a", "b")
    found, _ = learned(transport, first, again, lost_units=LostUnits(quorum=1))
    assert list(found.messages) == ["a"]
    assert found.attendance.dropped == {"b"}


def test_answers_that_are_no_messages_about_states_are_not_kept():
    transport = Scripted(a=[LossAnswer(0.5, 0.25)])
    found, server = learned(transport, ask(RecordRequest(), "a", answer=LossAnswer))
    assert (found.messages, found.lengths) == ({}, ())
    assert server.answers == [{"a": LossAnswer(0.5, 0.25)}]


@pytest.mark.parametrize(("how", "monitor"), [({}, None), ({"monitor": False}, None), ({"monitor": True}, True)])
def test_units_that_are_to_be_watched_are_told_so_when_a_fit_begins(how, monitor):
    transport = Scripted(a=[STATES])
    learned(transport, ask(FitRequest(const=True), "a"), ask(RecordRequest(), "a"), **how)
    first, second = (out["a"].scalars for out, _ in transport.asked)
    assert (first["const"], first.get("monitor")) == (True, monitor)
    assert "monitor" not in second


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("fit", "asked with a str; yield an Ask"),
        (Ask({"a": "fit"}, StateMessage), "has a str for unit 'a'; give a message"),
    ],
    ids=["no question", "no message"],
)
def test_a_server_that_asks_with_something_else_is_told(question, text):
    with pytest.raises(TypeError, match=f"`dialogue` of Dialogue {text}"):
        learned(Scripted(a=[STATES]), question)


def test_over_a_one_way_link_there_is_one_question_and_no_reply():
    transport = Scripted(one_way=True, a=[STATES])
    found, server = learned(transport, ask(FitRequest(), "a"), ask(RecordRequest(), "a", needed=0))
    assert (len(transport.asked), len(server.answers), found.round) == (1, 1, 1)
    assert found.ledger.total("down") == 0 < found.ledger.total("up")
    found.tell({"a": STATES})
    assert len(transport.asked) == 1
    for needed in (None, 1):
        with pytest.raises(ValueError, match="Dialogue needs several rounds here"):
            learned(Scripted(one_way=True, a=[STATES]), ask(FitRequest(), "a"), ask(FitRequest(), "a", needed=needed))


# --- attendance -------------------------------------------------------------------------------------------


def test_a_unit_that_is_lost_is_noted_with_round_and_reason(caplog):
    transport = Scripted(a=[STATES], b=[Failure("offline", "no route")], c=[STATES])
    with caplog.at_level(logging.WARNING, module.__name__):
        found, _ = learned(transport, ask(FitRequest(), *"abc"), lost_units=LostUnits(quorum=2))
    assert found.attendance.lost == [("b", 1, "fit", "gave no answer: offline no route")]
    assert "Without unit 'b' in round 1 (fit)" in caplog.text


@pytest.mark.parametrize(("quorum", "enough"), [(1, True), (2, False), (0.3, True), (0.4, False)])
def test_units_that_were_dropped_at_the_start_do_not_count_for_the_quorum(quorum, enough):
    # one of three is dropped when the fit begins, another does not answer later: one is there
    transport = Scripted(a=[STATES], b=[STATES, LATE], c=[LATE])
    found = Exchange(transport, Ledger(), lost_units=LostUnits(quorum=quorum))
    found.learn(Dialogue(ask(FitRequest(), *"abc", needed=1)))
    if enough:
        assert list(found.ask(dict.fromkeys("abc", RecordRequest()), StateMessage)) == ["a"]
    else:
        with pytest.raises(ClientError, match="1 of 3 units are there; the quorum is 2"):
            found.ask(dict.fromkeys("abc", RecordRequest()), StateMessage)


def test_what_a_question_needs_stands_in_for_the_quorum():
    transport = Scripted(a=[LATE], b=[STATES])
    found = Exchange(transport, Ledger(), lost_units=LostUnits(quorum=2))
    assert list(found.ask(dict.fromkeys("ab", FitRequest()), StateMessage, needed=1)) == ["b"]
    with pytest.raises(ClientError, match="1 of 2 units are there; the quorum is 2"):
        found.ask(dict.fromkeys("ab", FitRequest()), StateMessage, needed=2)


def test_replies_may_reach_nobody():
    found = Exchange(Scripted(a=[LATE]), Ledger(), lost_units=LostUnits(quorum=1))
    found.tell({"a": STATES})
    assert [name for name, *_ in found.attendance.lost] == ["a"]


@pytest.mark.parametrize(("stale", "skipped"), [("hold", set()), ("skip", {"b"})])
def test_blocks_rest_where_the_rule_says_so(stale, skipped):
    found = Exchange(Scripted(a=[STATES], b=[LATE]), Ledger(), lost_units=LostUnits(quorum=1, stale=stale))
    assert found.ask(dict.fromkeys("ab", FitRequest()), StateMessage).skipped == skipped
    assert not Exchange(Scripted(), Ledger()).attendance.skips


@pytest.mark.parametrize(("rule", "waited"), [(None, None), (LostUnits(timeout=2.5), 2.5)])
def test_the_rule_says_how_long_answers_are_waited_for(rule, waited):
    transport = Scripted(a=[STATES])
    Exchange(transport, Ledger(), lost_units=rule).ask({"a": FitRequest()}, StateMessage)
    assert transport.asked[0][1] == waited


# --- asking again -----------------------------------------------------------------------------------------


class Clock:
    """Time that passes while the exchange sleeps."""

    def __init__(self):
        self.now, self.slept = 1000.0, []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def when_there(transport, wait, **how):
    return Exchange(transport, Ledger(), **how).ask_when_there(WatchRequest(1), StateMessage, wait)


def test_pauses_double_up_to_half_a_minute_and_end_with_the_time(clock):
    transport = Scripted(a=[NOTHING])
    assert when_there(transport, 100.0) is None
    doubling = [0.1 * 2**k for k in range(9)]  # 25.6 at last, 51.1 in all
    assert clock.slept == pytest.approx([*doubling, 30.0, 100 - sum(doubling) - 30])
    assert len(transport.asked) == len(clock.slept) + 1
    assert {timeout for _, timeout in transport.asked} == {None}


def test_the_last_pause_ends_with_the_time(clock):
    assert when_there(Scripted(a=[NOTHING]), 0.25) is None
    assert clock.slept == pytest.approx([0.1, 0.15])


def test_who_has_answered_is_not_asked_again(clock):
    transport = Scripted(a=[NOTHING, NOTHING, STATES], b=[STATES])
    messages = when_there(transport, 10.0)
    assert transport.names == [["a", "b"], ["a"], ["a"]]
    assert {name: len(message.z) for name, message in messages.items()} == {"a": N, "b": N}
    assert clock.slept == pytest.approx([0.1, 0.2])


def test_without_time_to_wait_units_are_asked_once(clock):
    transport = Scripted(a=[NOTHING, STATES])
    assert when_there(transport, 0.0) is None
    assert (len(transport.asked), clock.slept) == (1, [])


def test_a_unit_that_is_late_for_its_batch_is_lost_at_once(clock):
    with pytest.raises(ClientError, match="'a' gave no answer: timeout"):
        when_there(Scripted(a=[LATE], b=[STATES]), 10.0)
    assert clock.slept == []


def test_all_that_are_there_have_to_answer_whatever_the_quorum(clock):
    with pytest.raises(ClientError, match="1 of 2 units are there; the quorum is 2"):
        when_there(Scripted(a=[LATE], b=[STATES]), 10.0, lost_units=LostUnits(quorum=1))


@pytest.mark.parametrize(("answer", "there"), [(LATE, False), (STATES, True)])
def test_over_a_one_way_link_the_transport_waits(clock, answer, there):
    transport = Scripted(one_way=True, a=[answer], b=[STATES])
    assert (when_there(transport, 10.0) is not None) is there
    assert [timeout for _, timeout in transport.asked] == [10.0]
    with pytest.raises(ClientError, match="'a' gave no answer: offline"):
        when_there(Scripted(one_way=True, a=[Failure("offline")]), 10.0)


# --- what rides -------------------------------------------------------------------------------------------

PROMISE = PrivacyPromise(np.array([0.5]), 0.5, 1e-6, 6.0, 100, 1, "event", "replace")


def heard(packet):
    found = Exchange(Scripted(a=[packet]), Ledger())
    return found, found.ask({"a": FitRequest()}, StateMessage)


def test_a_promise_is_taken_off_the_message_that_it_rides_on():
    found, messages = heard(PROMISE.put_on(STATES.to_packet()))
    assert found.promises["a"].rows == 100
    assert len(messages["a"].z) == N
    assert heard(STATES.to_packet())[0].promises == {}


@pytest.mark.parametrize("part", ["arrays", "scalars"])
def test_half_a_promise_is_refused(part):
    whole, plain = PROMISE.put_on(STATES.to_packet()), STATES.to_packet()
    kept = {"arrays": plain.arrays, "scalars": plain.scalars} | {part: getattr(whole, part)}
    with pytest.raises(ClientError, match="'a' gave no answer: refused Packet 'promise'"):
        heard(Packet(plain.op, 0, **kept))


# --- what holds the units ---------------------------------------------------------------------------------


def test_a_copy_holds_no_transport_until_it_is_connected():
    found = Exchange(Scripted(a=[STATES]), Ledger())
    for other in (copy.copy(found), pickle.loads(pickle.dumps(found))):
        with pytest.raises(ClientError, match=r"Call `connect\(transport\)`"):
            other.ask_all(FitRequest(), StateMessage)
        other.connect(Scripted(a=[STATES]))
        assert list(other.ask_all(FitRequest(), StateMessage)) == ["a"]


def test_the_names_are_those_of_the_transport_unless_others_are_given():
    transport = Scripted(a=[STATES], b=[STATES])
    assert Exchange(transport, Ledger()).names == ("a", "b")
    found = Exchange(transport, Ledger(), names=["b"])
    assert list(found.ask_all(FitRequest(), StateMessage)) == ["b"]


def test_every_question_passes_the_guard():
    transport = Scripted(a=[STATES])
    guard = lambda requests: {name: FitRequest(const=True) for name in requests}  # noqa: E731
    Exchange(transport, Ledger(), guard=guard).ask_all(FitRequest(), StateMessage)
    assert transport.asked[0][0]["a"].scalars["const"] is True


def test_a_transport_that_gives_something_else_is_told():
    transport = Scripted(a=[STATES])
    transport.exchange = lambda out, timeout=None: list(out)
    with pytest.raises(ClientError, match=r"`exchange` of the Scripted gave a list.*asked 'fit'"):
        Exchange(transport, Ledger()).ask_all(FitRequest(), StateMessage)
    for name in ("clients", "exchange", "close"):
        methods = {other: None for other in ("clients", "exchange", "close") if other != name}
        with pytest.raises(TypeError, match=f"Half without `{name}`"):
            Exchange(type("Half", (), methods)(), Ledger())
