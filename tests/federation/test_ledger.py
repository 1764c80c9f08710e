"""The server's account: sums by client, direction and kind, in the order in which packets passed."""

import numpy as np
import pytest

from skfedcausal.federation.ledger import ByteLimitError, Ledger, StreamLedger
from skfedcausal.message.packet import Packet

SMALL, LARGE = Packet("done"), Packet("states", 1, {"z": np.ones((5, 2), "<f2"), "k": np.zeros(())})


def test_streams_are_counted_by_client_direction_and_kind():
    ledger = StreamLedger()
    for client, direction, packet in (
        ("mill", "up", SMALL), ("mill", "up", SMALL), ("kiln", "up", LARGE), ("mill", "down", SMALL)
    ):  # fmt: skip
        ledger.record(client, direction, packet)
    assert ledger.table.to_numpy().tolist() == [
        ["mill", "up", "done", 2, 2 * SMALL.nbytes],
        ["kiln", "up", "states", 1, LARGE.nbytes],
        ["mill", "down", "done", 1, SMALL.nbytes],
    ]
    assert list(ledger.table.columns) == ["client", "direction", "op", "packets", "bytes"]
    assert ledger.total("up") == 2 * SMALL.nbytes + LARGE.nbytes
    assert ledger.total("up", "mill") == 2 * SMALL.nbytes
    assert ledger.total("down", "kiln") == 0


def test_the_table_says_what_was_in_the_first_packet_of_a_kind():
    ledger = Ledger()
    ledger.record("mill", "up", LARGE)
    ledger.record("mill", "up", Packet("states", 2, {"z": np.ones((9, 2))}))
    ledger.record("mill", "down", SMALL)
    assert list(ledger.table.columns) == ["client", "direction", "op", "purpose", "packets", "bytes", "fields"]
    assert ledger.table["fields"].tolist() == ["z (float16, 5 x 2), k (float64, 1)", ""]
    assert ledger.table["purpose"].tolist()[1] == "says that a reply was taken"


def test_all_units_together_may_send_as_many_bytes_as_the_limit_and_none_beyond():
    ledger = Ledger(max_bytes=2 * SMALL.nbytes)
    for client in ("mill", "kiln"):
        ledger.record(client, "up", SMALL)
        ledger.record(client, "down", LARGE)
    with pytest.raises(ByteLimitError, match=f"{2 * SMALL.nbytes} have left, {SMALL.nbytes} more would"):
        ledger.record("mill", "up", SMALL)
    assert ledger.total("up") == 2 * SMALL.nbytes
    assert len(ledger.entries) == 4
    with pytest.raises(ByteLimitError):
        Ledger(max_bytes=0).record("mill", "up", SMALL)


def test_entries_of_packets_of_the_same_kind_share_what_they_say_of_it():
    ledger = Ledger()
    for n in (5, 5, 6):
        ledger.record("mill", "up", Packet("states", 1, {"z": np.ones(n)}))
    first, second, third = (entry.fields for entry in ledger.entries)
    assert first is second
    assert third == {"z": ("float64", (6,))}


def test_rounds_are_those_in_which_something_came():
    ledger = Ledger()
    for direction, number in (("down", 1), ("up", 1), ("up", 1), ("up", 3), ("down", 4), ("down", 5)):
        ledger.record("mill", direction, Packet("done", number))
    summary = ledger.communication({"mill": 100})
    assert summary == {
        "rounds": 2, "bytes_up": 3 * SMALL.nbytes, "bytes_down": 3 * SMALL.nbytes, "raw_bytes": 100,
        "per_client": {"mill": {"bytes_up": 3 * SMALL.nbytes, "bytes_down": 3 * SMALL.nbytes, "raw_bytes": 100}},
    }  # fmt: skip
