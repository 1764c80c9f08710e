"""What every transport between machines does with numbers, journals and answers, whatever carries the bytes."""

import hashlib
import inspect

import numpy as np
import pytest

from skfedcausal.federation import files as module
from skfedcausal.federation.envelope import Envelope
from skfedcausal.federation.files import FramedTransport
from skfedcausal.message.packet import Failure, Packet
from skfedcausal.message.requests import Failed, NothingYet
from skfedcausal.message.states import Acknowledgement

KEY = b"k" * 32
DONE = Acknowledgement().to_packet()
QUESTION = Packet("fit", 1)


class Carrier(FramedTransport):
    """Carries to sites that give the packets, bytes or failures that were written for them."""

    def __init__(self, answers, run="march", **settings):
        super().__init__(list(answers), run, dict.fromkeys(answers, KEY), **settings)
        self.answers, self.carried, self.left = answers, [], 0

    def _carry(self, frames, timeout):
        self.carried.append((self._sequence, dict(frames), timeout))
        return {name: self.of_site(name, self.answers[name]) for name in frames}

    def of_site(self, name, answer):
        if not isinstance(answer, Packet):
            return answer
        return Envelope(self.run, name, "up", self._sequence).seal(answer.encode(), KEY)

    def leave(self):
        self.left += 1

    @property
    def numbers(self):
        """Number and sites of every exchange that was carried."""
        return [(sequence, sorted(frames)) for sequence, frames, _ in self.carried if frames]


def test_packets_travel_in_envelopes_that_are_numbered_from_one():
    transport = Carrier({"mill": DONE, "kiln": DONE})
    for number in (1, 2):
        assert transport.exchange({"mill": QUESTION}) == {"mill": DONE}
        sequence, frames, timeout = transport.carried[-1]
        assert frames == {"mill": Envelope("march", "mill", "down", number).seal(QUESTION.encode(), KEY)}
        assert (sequence, timeout) == (number, 600.0)
    assert transport.clients() == ("mill", "kiln")


def test_the_time_of_every_exchange_is_noted(monkeypatch):
    now = iter([10.0, 12.5, 20.0, 21.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(now))
    transport = Carrier({"mill": DONE})
    for _ in range(2):
        transport.exchange({"mill": QUESTION})
    assert transport.seconds == [2.5, 1.0]


def test_the_bytes_of_whole_envelopes_are_counted_both_ways():
    transport = Carrier({"mill": DONE, "kiln": Failure("timeout")})
    for _ in range(2):
        transport.exchange(dict.fromkeys(("mill", "kiln"), QUESTION))
    down = sum(len(frame) for _, frames, _ in transport.carried for frame in frames.values())
    up = sum(len(Envelope("march", "mill", "up", k).seal(DONE.encode(), KEY)) for k in (1, 2))
    assert (transport.bytes_down, transport.bytes_up) == (down, up)


def test_nothing_is_counted_before_anything_went_and_nothing_down_a_one_way_link():
    transport = Carrier({"mill": DONE})
    assert (transport.bytes_down, transport.bytes_up, transport.one_way) == (0, 0, False)
    transport.one_way = True
    transport.exchange({"mill": QUESTION})
    assert transport.bytes_down == 0 < transport.bytes_up
    transport.close()
    assert len(transport.carried) == transport.left == 1


@pytest.mark.parametrize(("timeout", "waited"), [(None, 7.0), (3.0, 3.0), (0.0, 0.0)])
def test_the_limit_of_an_exchange_stands_in_for_that_of_the_transport(timeout, waited):
    transport = Carrier({"mill": DONE}, timeout=7.0)
    transport.exchange({"mill": QUESTION}, timeout=timeout)
    assert transport.carried[0][2] == waited


def test_ten_minutes_and_a_gibibyte_are_the_limits_where_none_are_given():
    defaults = {name: one.default for name, one in inspect.signature(FramedTransport).parameters.items()}
    assert (defaults["timeout"], defaults["max_frame"]) == (600.0, 2**30)


def test_all_sites_are_told_once_that_the_run_is_over():
    transport = Carrier({"mill": DONE, "kiln": DONE})
    transport.close()
    assert transport.numbers == [(1, ["kiln", "mill"])]
    assert transport.left == 1


def test_sites_without_a_key_are_named_and_no_keys_at_all_are_for_channels_that_prove_who_sends():
    with pytest.raises(ValueError, match=r"No key for the sites \['kiln'\]"):
        FramedTransport(["mill", "kiln"], "march", {"mill": KEY})
    assert FramedTransport(["mill", "kiln"], "march").clients() == ("mill", "kiln")


# --- questions that stay open -----------------------------------------------------------------------------


def test_a_question_that_had_no_answer_yet_keeps_its_number():
    transport = Carrier({"mill": NothingYet().to_packet(), "kiln": DONE})
    transport.exchange(dict.fromkeys(("mill", "kiln"), QUESTION))
    transport.exchange({"mill": QUESTION})
    transport.answers["mill"] = DONE
    assert transport.exchange({"mill": QUESTION}) == {"mill": DONE}
    transport.exchange({"mill": QUESTION})
    assert transport.numbers == [(1, ["kiln", "mill"]), (1, ["mill"]), (1, ["mill"]), (2, ["mill"])]


@pytest.mark.parametrize(
    "next_", [{"mill": Packet("fit", 2)}, {"mill": QUESTION, "kiln": QUESTION}], ids=["another question", "and others"]
)
def test_what_was_not_open_takes_the_next_number(next_):
    transport = Carrier({"mill": NothingYet().to_packet(), "kiln": DONE})
    transport.exchange(dict.fromkeys(("mill", "kiln"), QUESTION))
    transport.exchange(next_)
    assert [number for number, _ in transport.numbers] == [1, 2]


# --- what is not taken ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (Failed("client-error", "ValueError").to_packet(), Failure("client-error", "ValueError")),
        (Failed("refused", "max_bytes").to_packet(), Failure("refused", "max_bytes")),
        (Failed("refused", "a" * 64).to_packet(), Failure("refused", "a" * 64)),
        (Failed("refused", "a" * 65).to_packet(), Failure("client-error")),
        (Failed("refused", "").to_packet(), Failure("client-error")),
        (Failed("refused", "the text of it").to_packet(), Failure("client-error")),
        (Failed("refused", "Füllstand").to_packet(), Failure("client-error")),
        (Failed("timeout", "ValueError").to_packet(), Failure("client-error")),
        (Packet("error", scalars={"kind": "refused", "detail": 7}), Failure("client-error")),
        (Packet("error", scalars={"kind": "refused"}), Failure("client-error")),
        (Packet("error", scalars={"detail": "ValueError"}), Failure("client-error")),
        (Failure("offline", "as it is"), Failure("offline", "as it is")),
    ],
    ids=str,
)
def test_a_site_that_fails_may_say_a_kind_and_one_name(answer, failure):
    transport = Carrier({"mill": answer})
    assert transport.exchange({"mill": QUESTION}) == {"mill": failure}
    assert transport.refusals == []


def test_what_is_not_the_answer_of_the_site_is_refused_and_noted():
    transport = Carrier({"mill": Envelope("march", "kiln", "up", 1).seal(DONE.encode(), KEY), "kiln": DONE})
    answers = transport.exchange(dict.fromkeys(("mill", "kiln"), QUESTION))
    assert answers["kiln"] == DONE
    assert answers["mill"].kind == "refused"
    assert transport.refusals == [("mill", answers["mill"].detail)]


def test_more_bytes_than_are_taken_are_refused():
    size = len(Envelope("march", "mill", "up", 1).seal(DONE.encode(), KEY))
    for limit, taken in ((size, True), (size - 1, False)):
        answer = Carrier({"mill": DONE}, max_frame=limit).exchange({"mill": QUESTION})["mill"]
        assert (answer == DONE) is taken


# --- the journal ------------------------------------------------------------------------------------------


def test_the_journal_keeps_a_file_for_every_answer_with_the_question_it_is_to(tmp_path):
    transport = Carrier({"mill": DONE, "raw mix/2": Failure("timeout", "no file")}, run="run 7", journal=tmp_path)
    transport.exchange(dict.fromkeys(("mill", "raw mix/2"), QUESTION))
    start = hashlib.sha256(QUESTION.encode()).digest()
    assert {path.name: path.read_bytes() for path in (tmp_path / "run 7").iterdir()} == {
        "00000001-mill": start + b"A" + transport.of_site("mill", DONE),
        "00000001-raw mix%2F2": start + b"Ftimeout no file",
    }
    transport.close()
    assert len(list((tmp_path / "run 7").iterdir())) == 2  # a run that was closed may be asked more


def test_a_run_that_was_broken_off_asks_nothing_again_but_what_it_was_broken_off_for(tmp_path):
    answers = {"mill": DONE, "kiln": Failure("timeout", "no file came"), "dryer": b"garbage"}
    answers["silo"] = NothingYet().to_packet()
    before = Carrier(answers, journal=tmp_path)
    for k in (1, 2):
        came = before.exchange(dict.fromkeys(answers, Packet("fit", k)))
    again = Carrier(dict.fromkeys(answers, Packet("new")), journal=tmp_path)
    first = again.exchange(dict.fromkeys(answers, Packet("fit", 1)))
    assert first | {"silo": None} == came | {"silo": None}  # also that there was none
    assert again.carried[-1][1].keys() == {"silo"}  # it had nothing to say yet
    second = again.exchange(dict.fromkeys(answers, Packet("fit", 2)))
    assert again.carried[-1][1].keys() == {"silo", "kiln", "dryer"}
    assert second == {"mill": DONE, "kiln": Packet("new"), "dryer": Packet("new"), "silo": Packet("new")}
    again.exchange({"mill": Packet("fit", 3)})
    third = Envelope("march", "mill", "down", 3).seal(Packet("fit", 3).encode(), KEY)
    assert again.carried[-1][:2] == (3, {"mill": third})


def test_a_failure_that_a_site_reported_is_remembered_as_it_came(tmp_path):
    failed = Failed("client-error", "ValueError").to_packet()
    for _ in range(2):
        transport = Carrier({"mill": failed}, journal=tmp_path)
        assert transport.exchange({"mill": QUESTION}) == {"mill": Failure("client-error", "ValueError")}
    assert transport.carried[-1][1] == {}


def test_a_run_of_other_settings_is_not_resumed(tmp_path):
    arrays = {"z": np.ones(2)}
    Carrier({"mill": DONE}, journal=tmp_path).exchange({"mill": Packet("fit", 1, arrays)})
    with pytest.raises(ValueError, match=r"Run 'march' was begun with other settings: packet 1 for 'mill'"):
        Carrier({"mill": DONE}, journal=tmp_path).exchange({"mill": Packet("fit", 2, arrays)})
    other = Carrier({"mill": DONE}, run="april", journal=tmp_path)
    assert other.exchange({"mill": Packet("fit", 2, arrays)}) == {"mill": DONE}
