"""A gate answers its server in turn and once, keeps what it answered, and goes on where it was."""

import json
import logging

import pytest

from skfedcausal.federation.atomic import LedgerError
from skfedcausal.federation.envelope import Envelope, read_envelope
from skfedcausal.federation.files import FramedTransport
from skfedcausal.federation.gate import Gate
from skfedcausal.federation.ledger import ByteLimitError
from skfedcausal.message.packet import Failure, Packet, PacketError
from skfedcausal.message.requests import Close, NothingYet
from skfedcausal.message.states import Acknowledgement

KEY = b"k" * 32
NOTHING = NothingYet().to_packet()


class Counter:
    """Says how often it was asked in a run; its state also names the record that it counts on."""

    def __init__(self, record=None):
        self.record, self.asked = record, 0

    def handle(self, packet, state):
        self.asked += 1
        if packet.op == "wait":
            return NOTHING, {"n": 100}
        if packet.op == "break":
            raise KeyError("text that must not leave")
        if packet.op == "garbage":
            return Packet("count", scalars={"n": None}), state
        n = state.get("n", 0) + 1
        state = {"n": n} if self.record is None else {"n": n, "record": self.record}
        return Packet("count", packet.round, scalars={"n": n}), state


def gate(tmp_path, worker=None, **settings):
    return Gate("mill", worker or Counter(), tmp_path / "home", key=KEY, **settings)


def question(sequence, op="ask", run="march", site="mill", way="down"):
    return Envelope(run, site, way, sequence).seal(Packet(op, 1).encode(), KEY)


def answered(gate, sequence, op="ask", run="march"):
    """What the gate answers to a question, as its server reads it; None if it does not answer."""
    frame = gate.answer(question(sequence, op, run))
    if frame is None:
        return None
    return Packet.decode(Envelope(run, "mill", "up", sequence).open(frame, KEY))


def events(gate):
    return [(entry["event"], entry.get("op")) for entry in gate.ledger.entries()]


# --- in turn and once -------------------------------------------------------------------------------------


def test_questions_are_answered_in_turn_and_both_ways_are_in_the_ledger(tmp_path):
    site = gate(tmp_path, noise="none at all")
    assert [answered(site, k).scalars["n"] for k in (1, 2, 5)] == [1, 2, 3]
    assert site.state == {"n": 3}
    entries = site.ledger.entries()
    assert events(site) == 3 * [("taken", "ask"), ("sent", "count")]
    assert [entry["sequence"] for entry in entries] == [1, 1, 2, 2, 5, 5]
    assert [entry["noise"] for entry in entries[:2]] == ["not ours", "none at all"]


def test_the_same_question_gets_the_same_bytes_and_counts_once(tmp_path):
    site = gate(tmp_path)
    first = [site.answer(question(k)) for k in (1, 2)]
    assert [site.answer(question(k)) for k in (1, 2)] == first
    assert site.worker.asked == 2
    assert len(events(site)) == 4


@pytest.mark.parametrize("sequence", [1, 2])
def test_another_question_under_a_number_that_is_past_is_refused(tmp_path, sequence):
    site = gate(tmp_path)
    answered(site, 1), answered(site, 2)
    assert answered(site, sequence, "another") is None
    entry = site.ledger.entries()[-1]
    assert entry["reason"] == f"Packet 'another' has number {sequence}, but the run is at 2: sent again, or late."
    assert (entry["event"], entry["run"], entry["site"]) == ("refused", "march", "mill")


@pytest.mark.parametrize("wrong", [{"site": "kiln"}, {"way": "up"}], ids=str)
def test_what_is_for_somebody_else_is_refused(tmp_path, wrong, caplog):
    site = gate(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert site.answer(question(1, **wrong)) is None
    assert "not for 'mill': misrouted" in site.ledger.entries()[0]["reason"]
    assert (site.worker.asked, site.run, site.closed) == (0, None, False)


@pytest.mark.parametrize(("more", "taken"), [(0, True), (-1, False)])
def test_questions_have_at_most_so_many_bytes(tmp_path, more, taken):
    site = gate(tmp_path, max_frame=len(question(1)) + more)
    assert (answered(site, 1) is not None) is taken


def test_who_wants_to_know_is_told_of_every_answer_that_is_kept(tmp_path):
    told = []
    site = gate(tmp_path, after=lambda packet, state: told.append((packet.op, state)))
    for k, op in enumerate(("ask", "wait", "ask", "close"), start=1):
        answered(site, k, op)
    assert told == [("ask", {"n": 1}), ("ask", {"n": 2})]


# --- what is not kept -------------------------------------------------------------------------------------


def test_nothing_yet_changes_nothing_and_leaves_the_number_free(tmp_path):
    site = gate(tmp_path)
    assert answered(site, 1, "wait").op == NOTHING.op
    assert site.state == {}
    assert not site.closed
    assert answered(site, 1).scalars["n"] == 1
    assert [path.suffix for path in sorted((site.home / "runs/march").glob("0*"))] == [".answer", ".question"]


def test_the_end_of_a_run_is_acknowledged_and_not_kept(tmp_path):
    site = gate(tmp_path)
    answered(site, 1)
    assert not site.closed
    assert answered(site, 2, Close.OP) == Acknowledgement().to_packet(1)
    assert site.closed
    assert site.worker.asked == 1
    assert answered(site, 2).scalars["n"] == 2  # a run that goes on after all
    assert not site.closed


@pytest.mark.parametrize(("op", "kind"), [("break", "KeyError"), ("garbage", "PacketError")])
def test_an_exception_says_its_kind_only_and_leaves_all_as_it_was(tmp_path, op, kind):
    site = gate(tmp_path)
    answered(site, 1)
    failed = answered(site, 2, op)
    assert (failed.op, failed.round, failed.scalars) == ("error", 1, {"kind": "client-error", "detail": kind})
    assert kind in (site.home / "errors.log").read_text()
    assert site.state == {"n": 1}
    assert answered(site, 2).scalars["n"] == 2


# --- a limit of bytes -------------------------------------------------------------------------------------


def size_of(packet, sequence=1):
    return len(Envelope("march", "mill", "up", sequence, head="0" * 64).seal(packet.encode(), KEY))


def test_an_answer_beyond_the_limit_is_refused_by_its_name_if_that_may_leave(tmp_path):
    refusal = Packet("error", 1, scalars={"kind": "refused", "detail": "max_bytes"})
    answer = Packet("count", 1, scalars={"n": 1})
    assert size_of(answer) < size_of(refusal)
    site = gate(tmp_path, max_bytes=size_of(answer) + size_of(refusal))
    assert answered(site, 1).op == "count"
    large = Counter()
    large.handle = lambda packet, state: (Packet("count", 1, scalars={"text": "x" * 500}), {"n": 7})
    site.worker = large
    assert answered(site, 2) == refusal
    assert answered(site, 3) is None  # not even that
    assert site.state == {"n": 1}
    assert [event for event, _ in events(site)[3:5]] == ["not sent", "sent"]
    assert [event for event, _ in events(site)[5:]] == ["taken", "not sent", "not sent"]


def test_a_site_that_speaks_first_is_told_of_its_limit(tmp_path):
    site = gate(tmp_path, max_bytes=10)
    with pytest.raises(ByteLimitError, match="max_bytes=10"):
        site.volunteer("march", Packet("ask"))


# --- without being asked ----------------------------------------------------------------------------------


def test_what_a_site_sends_on_its_own_is_numbered_and_sent_once(tmp_path):
    site = gate(tmp_path)
    sent = [site.volunteer("march", Packet(op)) for op in ("one", "two", "one", "wait", "three", "two")]
    assert [number for number, _ in sent] == [1, 2, 1, 3, 3, 2]
    assert sent[0] == sent[2]
    assert sent[1] == sent[5]
    assert sent[3][1] is None
    for number, frame in (sent[0], sent[1], sent[4]):
        outside, payload = read_envelope(frame, KEY)
        assert outside == Envelope("march", "mill", "up", number)
        assert Packet.decode(payload).scalars == {"n": number}
    assert events(site) == 3 * [("sent", "count")]
    assert site.state == {"n": 3}


# --- going on ---------------------------------------------------------------------------------------------


def test_a_gate_that_starts_again_goes_on_where_it_was(tmp_path):
    before = gate(tmp_path)
    frames = [before.answer(question(k)) for k in range(1, 13)]
    again = gate(tmp_path)
    assert answered(again, 13).scalars["n"] == 13
    assert again.worker.asked == 13  # twelve of them to come to the state that it was in
    assert [again.answer(question(k)) for k in range(1, 13)] == frames
    assert answered(again, 11, "another") is None


def test_every_run_has_a_state_of_its_own(tmp_path):
    site = gate(tmp_path)
    counts = [answered(site, k, run=run).scalars["n"] for k, run in ((1, "march"), (2, "march"), (1, "april"))]
    assert counts == [1, 2, 1]
    assert answered(site, 3, run="march").scalars["n"] == 3
    assert json.loads((site.home / "runs/april/run.json").read_text()) == {"run": "april", "site": "mill", "record": ""}


def test_a_run_is_about_one_record(tmp_path):
    answered(gate(tmp_path, fingerprint="a"), 1)
    assert answered(gate(tmp_path, fingerprint="a"), 2).scalars["n"] == 2
    other = gate(tmp_path, fingerprint="b")
    assert answered(other, 3) is None
    assert "begun on another record of 'mill'" in other.ledger.entries()[-1]["reason"]


def test_a_record_that_was_put_right_is_answered_about_once_more_if_the_server_asks_anew(tmp_path):
    answered(gate(tmp_path, fingerprint="a"), 1)
    repaired = gate(tmp_path, fingerprint="b")
    assert answered(repaired, 1, "another") is None  # the first question is asked anew, or none
    assert answered(repaired, 1).scalars["n"] == 1
    assert answered(repaired, 2).scalars["n"] == 2
    lines = [entry["event"] for entry in repaired.ledger.entries()][2:]
    assert lines == ["refused", "begun again", "taken", "sent"]  # the same bytes are counted once
    assert answered(gate(tmp_path, fingerprint="b"), 3).scalars["n"] == 3
    assert answered(gate(tmp_path, fingerprint="c"), 1) is None


def test_a_record_is_put_right_once_in_a_run(tmp_path):
    """Else whoever holds the key gets a further projection with every restart on a record that grows."""
    for fingerprint, expected in (("a", 1), ("b", 1), ("b", 1)):
        assert answered(gate(tmp_path, fingerprint=fingerprint), 1).scalars["n"] == expected
    assert answered(gate(tmp_path, fingerprint="c"), 1) is None


@pytest.mark.parametrize("record", ["second", None])
def test_a_run_goes_on_only_with_what_its_answers_were_about(tmp_path, record):
    site = gate(tmp_path, Counter("first"))
    site.volunteer("march", Packet("one"))
    assert (site.home / "runs/march/00000001.record").read_text() == "first"
    same = gate(tmp_path, Counter("first"))
    assert same.volunteer("march", Packet("two"))[0] == 2
    with pytest.raises(PacketError, match="sent as packet 1 of run 'march' was about another record"):
        gate(tmp_path, Counter(record)).volunteer("march", Packet("three"))


def test_a_transport_and_a_gate_understand_each_other(tmp_path):
    class Direct(FramedTransport):
        def _carry(self, frames, timeout):
            return {name: site.answer(frame) for name, frame in frames.items()}

    site = gate(tmp_path)
    transport = Direct(["mill"], "march", {"mill": KEY})
    ops = ["ask", "wait", "ask"]
    assert [transport.exchange({"mill": Packet(op, 1)})["mill"].scalars.get("n") for op in ops] == [1, None, 2]
    transport.close()
    assert site.closed
    account = site.ledger.verify()
    assert (account["bytes_up"], account["bytes_down"]) == (transport.bytes_up, transport.bytes_down)


# --- heads of ledgers ---------------------------------------------------------------------------------------


class Direct(FramedTransport):
    """Envelopes handed to one gate in this process."""

    def _carry(self, frames, timeout):
        came = {name: self.site.answer(frame) for name, frame in frames.items()}
        return {name: Failure("timeout") if frame is None else frame for name, frame in came.items()}


def test_heads_ride_on_every_answer_and_come_back_countersigned(tmp_path):
    transport = Direct(["mill"], "march", {"mill": KEY})
    transport.site, seen = gate(tmp_path), []
    for _ in range(3):
        transport.exchange({"mill": Packet("ask", 1)})
        seen.append(transport.heads["mill"])
    taken = [entry for entry in transport.site.ledger.entries() if entry["event"] == "taken"]
    assert seen == [entry["hash"] for entry in taken]
    assert [entry.get("countersigned") for entry in taken] == [None, *seen[:2]]
    assert all(len(entry["signature"]) == 64 for entry in taken[1:])


def test_a_ledger_that_was_put_back_from_a_copy_is_noticed(tmp_path):
    transport = Direct(["mill"], "march", {"mill": KEY})
    transport.site = gate(tmp_path)
    transport.exchange({"mill": Packet("ask", 1)})
    copy = transport.site.ledger.path.read_bytes()
    transport.exchange({"mill": Packet("ask", 1)})
    transport.site.ledger.path.write_bytes(copy)
    transport.site = gate(tmp_path)
    assert transport.exchange({"mill": Packet("ask", 1)})["mill"] == Failure("timeout")
    assert "lines were cut off" in transport.site.ledger.entries()[-1]["reason"]


def test_a_name_that_no_file_can_have_is_refused(tmp_path):
    site = gate(tmp_path)
    assert answered(site, 1, run=300 * "m") is None
    assert "A name of 300 bytes" in site.ledger.entries()[-1]["reason"]
    assert answered(site, 1).scalars["n"] == 1


def test_nothing_yet_counts_as_often_as_it_leaves_and_against_the_limit(tmp_path):
    transport = Direct(["mill"], "march", {"mill": KEY})
    transport.site = gate(tmp_path, max_bytes=2000)
    for _ in range(5):
        transport.exchange({"mill": Packet("wait", 1)})
    account = transport.site.ledger.verify()
    assert (account["bytes_up"], account["bytes_down"]) == (transport.bytes_up, transport.bytes_down)
    for _ in range(20):
        transport.exchange({"mill": Packet("wait", 1)})
    assert transport.site.ledger.verify()["bytes_up"] <= 2000


def test_a_ledger_of_another_home_is_refused_by_name_and_left_as_it_was(tmp_path):
    answered(gate(tmp_path), 1)
    path = tmp_path / "home" / "ledger.jsonl"
    before = path.read_bytes()
    with pytest.raises(LedgerError, match=r"ledger.jsonl is the ledger of mill, and this is the home of 'kiln'"):
        Gate("kiln", Counter(), tmp_path / "home", key=KEY)
    assert path.read_bytes() == before
