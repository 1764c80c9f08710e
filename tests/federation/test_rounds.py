"""Transports carry every packet, the ledger counts it, and a client that fails is named."""

import functools
import os
from dataclasses import replace

import joblib
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skfedcausal.federation import exchange as transport_module
from skfedcausal.federation.exchange import ClientError, Exchange, InProcessTransport, Site, Transport
from skfedcausal.federation.ledger import Ledger
from skfedcausal.message import StateMessage
from skfedcausal.message.packet import Failure, Packet, PacketError
from skfedcausal.message.requests import Acknowledgement, FitRequest
from skfedcausal.message.states import SmoothedReply, StateReply

N, P = 6, 2
MESSAGE = StateMessage(np.ones((N, P)), np.eye(P)[None], None, (N,))
REPLY = StateReply(np.zeros((N, P)), np.eye(P), np.eye(P))
SMOOTHED = SmoothedReply(np.zeros((N, P)), np.eye(P)[None])


class Sum:
    """An answer of a :class:`CountingWorker`, as it came."""

    OP = "sum"
    from_packet = staticmethod(lambda packet: packet)


class Wished:
    """A request that asks for exactly one packet."""

    def __init__(self, packet):
        self.packet = packet

    def to_packet(self, round=0, dtype="float64"):
        return self.packet


def exchange(transport, round=1, **how):
    found = Exchange(transport, Ledger(), **how)
    found.round = round
    return found


def collect(transport, names=None, dtype="float64", **wishes):
    asked = exchange(transport, dtype=dtype)
    return asked.ask(dict.fromkeys(names or transport.clients(), FitRequest(**wishes)), StateMessage)


class CountingWorker:
    """Adds what it is sent to what it has; its state is all it remembers."""

    def handle(self, packet, state):
        total = state.get("total", 0.0) + packet.arrays["x"]
        return Packet("sum", packet.round, {"total": total}), {"total": total}


class ScriptedTransport:
    """Gives every client the answer that was written for it and keeps what it was sent.

    An answer of round 0 is given as of the round of its question.
    """

    def __init__(self, **answers):
        self.answers, self.sent, self.closed = answers, [], False

    def clients(self):
        return tuple(self.answers)

    def exchange(self, out, *, timeout=None):
        self.sent.append(dict(out))
        return {name: self.as_of(out[name].round, self.answers[name]) for name in out if self.answers[name] is not None}

    @staticmethod
    def as_of(round, answer):
        return replace(answer, round=round) if getattr(answer, "round", None) == 0 else answer

    def close(self):
        self.closed = True


def numbers(**values):
    return {name: Packet("add", 1, {"x": np.asarray(value)}) for name, value in values.items()}


# --- transports -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "transport",
    [InProcessTransport({}), ScriptedTransport()],
    ids=lambda transport: type(transport).__name__,
)
def test_a_transport_has_three_methods(transport):
    assert isinstance(transport, Transport)


@pytest.mark.parametrize("method", ["clients", "exchange", "close"])
def test_an_object_that_lacks_one_of_them_is_no_transport(method):
    methods = {name: lambda self: None for name in ("clients", "exchange", "close") if name != method}
    assert not isinstance(type("Half", (), methods)(), Transport)


TRANSPORTS = {
    "one after the other": InProcessTransport,
    "threads": functools.partial(InProcessTransport, n_jobs=2),
    "processes": functools.partial(InProcessTransport, n_jobs=2, backend="multiprocessing"),
}


@pytest.mark.medium
@pytest.mark.parametrize("make", TRANSPORTS.values(), ids=TRANSPORTS.keys())
def test_state_goes_in_and_comes_out_with_every_packet(make):
    transport = make({name: CountingWorker() for name in "cab"})
    assert transport.clients() == ("c", "a", "b")
    transport.exchange(numbers(a=1.0, b=10.0, c=100.0))
    answers = transport.exchange(numbers(b=20.0, a=2.0))
    assert {name: float(answer.arrays["total"]) for name, answer in answers.items()} == {"a": 3.0, "b": 30.0}
    assert transport.state("c") == {"total": 100.0}
    transport.close()
    assert transport.clients() == ()


@pytest.mark.medium
@pytest.mark.parametrize("make", TRANSPORTS.values(), ids=TRANSPORTS.keys())
def test_who_made_a_site_finds_its_state_there(make):
    sites = {name: Site(CountingWorker()) for name in "ab"}
    transport = make(sites)
    transport.exchange(numbers(a=1.0))
    transport.exchange(numbers(a=2.0, b=10.0))
    transport.close()
    assert {name: site.state for name, site in sites.items()} == {"a": {"total": 3.0}, "b": {"total": 10.0}}


class PlacedWorker:
    """Says in which process it answers."""

    def handle(self, packet, state):
        return Packet("here", scalars={"process": os.getpid()}), state


@pytest.mark.parametrize(
    ("config", "n_jobs", "apart"),
    [
        ({"backend": "loky"}, 2, True),
        ({"backend": "loky", "n_jobs": 2}, None, True),
        ({"backend": "loky"}, None, False),
        ({}, 2, False),
    ],
)
def test_a_backend_of_joblib_is_the_user_s_choice(config, n_jobs, apart, monkeypatch):
    monkeypatch.setattr(transport_module, "_WORTH_PROCESSES", 1e-9)
    transport = InProcessTransport({name: PlacedWorker() for name in "abc"}, n_jobs=n_jobs)
    with joblib.parallel_config(**config):
        answers = transport.exchange(dict.fromkeys("abc", Packet("where")))
    # the first one says how long the others may take
    assert [answer.scalars["process"] != os.getpid() for answer in answers.values()] == [False, apart, apart]


def test_processes_are_not_started_for_units_that_answer_at_once():
    transport = InProcessTransport({name: PlacedWorker() for name in "abc"})
    with joblib.parallel_config("loky", n_jobs=2):
        answers = transport.exchange(dict.fromkeys("abc", Packet("where")))
    assert {answer.scalars["process"] for answer in answers.values()} == {os.getpid()}


def test_a_site_is_a_worker_that_remembers():
    site = Site(CountingWorker())
    answer, state = site.handle(numbers(a=1.0)["a"], {"total": 5.0})
    assert float(answer.arrays["total"]) == 6.0
    assert site.state is state


def test_a_programming_error_in_a_worker_of_this_process_is_raised():
    with pytest.raises(KeyError, match="x"):
        InProcessTransport({"a": CountingWorker()}).exchange({"a": Packet("add")})


# --- ledger ---------------------------------------------------------------------------------------


def test_the_ledger_adds_up_the_bytes_of_every_packet():
    ledger = Ledger()
    workers = InProcessTransport({name: CountingWorker() for name in "ab"})
    channel, sent, came = Exchange(workers, ledger), [], []
    for value in (1.0, np.arange(30.0), np.ones((2, 30), "f4")):
        out = numbers(a=value, b=np.zeros(1000))
        sent += out.items()
        came += channel.ask({name: Wished(packet) for name, packet in out.items()}, Sum).items()
    for name in ("a", "b", None):
        for direction, packets in (("down", sent), ("up", came)):
            expected = sum(len(packet.encode()) for client, packet in packets if name in (None, client))
            assert ledger.total(direction, name) == expected > 0
    assert len(ledger.entries) == len(sent) + len(came)


def test_an_entry_says_what_crossed_without_holding_it():
    ledger = Ledger()
    ledger.record("mill", "up", Packet("states", 4, {"z": np.ones((5, 2), "<f2"), "k": np.zeros(())}))
    (entry,) = ledger.entries
    assert (entry.client, entry.direction, entry.round, entry.op) == ("mill", "up", 4, "states")
    assert entry.fields == {"z": ("float16", (5, 2)), "k": ("float64", ())}
    assert not any(isinstance(value, np.ndarray) for value in entry)


@pytest.mark.parametrize("thing", [np.ones(3), {"z": 1}, None, Failure("timeout")], ids=repr)
def test_only_packets_enter_the_ledger(thing):
    with pytest.raises(TypeError, match=f"Only packets cross a border, got {type(thing).__name__}"):
        Ledger().record("mill", "up", thing)


def test_communication_sums_over_clients_and_rounds():
    ledger = Ledger()
    for round in (1, 2):
        for name, size in {"a": 10, "b": 20}.items():
            ledger.record(name, "down", Packet("fit", round))
            ledger.record(name, "up", Packet("states", round, {"z": np.zeros(size, dtype="f2")}))
    summary = ledger.communication({"a": 800, "b": 1600})
    assert set(summary) == {"rounds", "bytes_up", "bytes_down", "raw_bytes", "per_client"}
    assert (summary["rounds"], summary["raw_bytes"]) == (2, 2400)
    assert summary["per_client"]["b"]["bytes_up"] - summary["per_client"]["a"]["bytes_up"] == 2 * 10 * 2
    for key in ("bytes_up", "bytes_down", "raw_bytes"):
        assert summary[key] == sum(client[key] for client in summary["per_client"].values())
        assert type(summary[key]) is int


def test_a_failure_costs_what_was_sent_and_nothing_back():
    ledger = Ledger()
    behind = ScriptedTransport(a=Packet("done"), b=Failure("offline"))
    channel = Exchange(behind, ledger)
    with pytest.raises(ClientError, match="'b' gave no answer: offline"):
        channel.ask(dict.fromkeys("ab", Wished(Packet("fit"))), Acknowledgement)
    assert ledger.total("down", "b") == Packet("fit").nbytes
    assert ledger.total("up", "b") == 0
    channel.close()
    assert behind.closed


def test_an_answer_that_cannot_travel_is_a_failure_of_its_client():
    ledger = Ledger()
    good, bad = Packet("done"), Packet("done", arrays={"secret": np.array([object()])})
    channel = Exchange(ScriptedTransport(a=bad, b=good), ledger)
    with pytest.raises(ClientError, match=r"^Client 'a' gave no answer: client-error .*secret"):
        channel.ask(dict.fromkeys("ab", Wished(Packet("fit"))), Acknowledgement)
    assert ledger.total("up", "a") == 0


# --- rounds ---------------------------------------------------------------------------------------


def test_messages_come_back_by_name():
    packet = MESSAGE.to_packet(round=1)
    messages = collect(ScriptedTransport(b=packet, a=packet))
    assert list(messages) == ["b", "a"]
    assert_array_equal(messages["a"].z, MESSAGE.z)


@pytest.mark.parametrize("wishes", [{}, {"const": True}, {"local_model": True}, {"dtype": "float16"}], ids=str)
def test_a_request_holds_wishes_and_no_data(wishes):
    transport = ScriptedTransport(a=MESSAGE.to_packet())
    collect(transport, **wishes)
    request = transport.sent[0]["a"]
    assert request.scalars == {"dtype": "float64", "const": False, "local_model": False} | wishes
    assert (request.op, request.round, dict(request.arrays)) == ("fit", 1, {})


def test_replies_reach_the_client_they_are_for():
    others = StateReply(np.ones((N, P)), np.eye(P), np.eye(P))
    transport = ScriptedTransport(a=Packet("done"), b=Packet("done"))
    exchange(transport, round=3).tell({"a": REPLY, "b": others})
    assert {name: packet.round for name, packet in transport.sent[0].items()} == {"a": 3, "b": 3}
    assert_array_equal(transport.sent[0]["b"].arrays["cross_term_level"], 1)
    assert_array_equal(transport.sent[0]["a"].arrays["cross_term_level"], 0)


ROUNDS = {"collect": FitRequest(), "refine": SMOOTHED, "deliver": REPLY}


def run_round(name, answer):
    good = Packet("done") if name == "deliver" else MESSAGE.to_packet()
    transport = ScriptedTransport(**{"a": good, "pump 7": answer})
    kind = Acknowledgement if name == "deliver" else StateMessage
    return exchange(transport, round=2).ask(dict.fromkeys(["a", "pump 7"], ROUNDS[name]), kind)


@pytest.mark.parametrize("kind", ["timeout", "offline", "client-error", "crashed", "refused"])
@pytest.mark.parametrize("name", ROUNDS)
def test_a_failure_is_an_error_that_names_the_client_and_the_kind(name, kind):
    with pytest.raises(ClientError, match=f"^Client 'pump 7' .*: {kind} KeyError$"):
        run_round(name, Failure(kind, "KeyError"))


def corrupted(**changed):
    packet = MESSAGE.to_packet()
    return Packet(packet.op, packet.round, dict(packet.arrays) | changed)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Packet("done"), "answered with 'done' instead of a message"),
        (corrupted(z=np.full((N, P), np.nan)), r"message that cannot be used.*'z'.*not finite"),
        (corrupted(lengths=np.array([N + 1])), r"message that cannot be used.*'lengths'"),
    ],
    ids=["other operation", "NaN", "wrong lengths"],
)
@pytest.mark.parametrize("name", ["collect", "refine"])
def test_an_answer_that_is_no_message_is_an_error_that_names_the_client(name, answer, message):
    with pytest.raises(ClientError, match=f"^Client 'pump 7' .*{message}"):
        run_round(name, answer)


def test_a_reply_that_is_not_acknowledged_is_an_error_that_names_the_client():
    with pytest.raises(ClientError, match="pump 7"):
        run_round("deliver", MESSAGE.to_packet())


@pytest.mark.parametrize("name", ROUNDS)
def test_a_client_without_any_answer_is_an_error_that_names_it(name):
    with pytest.raises(ClientError, match="pump 7"):
        run_round(name, None)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Packet("done", 7), "answered to round 7 when asked in round "),
        (Packet("done", arrays={"raw": np.ones(3)}), "sent data with its acknowledgement"),
        (Packet("done", scalars={"raw": 3.0}), "sent data with its acknowledgement"),
        (MESSAGE.to_packet(), "answered with 'states' instead of an acknowledgement"),
        (MESSAGE, "answered with a StateMessage instead of a packet"),
    ],
    ids=["another round", "arrays", "scalars", "message", "no packet"],
)
def test_an_acknowledgement_is_of_its_round_and_says_nothing_else(answer, message):
    with pytest.raises(ClientError, match=f"^Client 'pump 7' {message}"):
        run_round("deliver", answer)


@pytest.mark.parametrize("name", ["collect", "refine"])
def test_a_message_of_another_round_is_refused(name):
    with pytest.raises(ClientError, match=r"^Client 'pump 7' answered to round 9 when asked in round"):
        run_round(name, MESSAGE.to_packet(round=9))


def test_every_client_that_failed_is_named():
    transport = ScriptedTransport(a=Failure("timeout"), b=MESSAGE.to_packet(), c=None)
    with pytest.raises(ClientError, match="Client 'a' gave no answer: timeout\nClient 'c' gave no answer"):
        collect(transport)


def test_a_client_that_the_transport_does_not_know_is_named():
    with pytest.raises(ClientError, match=r"does not know the clients \['mill'\]; it reaches \['a'\]"):
        collect(ScriptedTransport(a=MESSAGE.to_packet()), ["a", "mill"])


def test_only_the_clients_that_are_named_are_asked():
    transport = ScriptedTransport(a=MESSAGE.to_packet(), b=MESSAGE.to_packet())
    assert list(collect(transport, ["b"])) == ["b"]
    assert list(transport.sent[0]) == ["b"]


def test_an_answer_of_a_client_that_was_not_asked_is_an_error():
    class Chatty(ScriptedTransport):
        def exchange(self, out, *, timeout=None):
            return super().exchange(out) | {"stranger": Packet("done", 1)}

    with pytest.raises(ClientError, match=r"^Client 'stranger' answered without being asked"):
        collect(Chatty(a=MESSAGE.to_packet()))


def test_a_bad_packet_is_the_cause_of_the_error():
    with pytest.raises(ClientError) as caught:
        run_round("collect", corrupted(z=np.zeros(N)))
    assert isinstance(caught.value.__cause__, PacketError)
