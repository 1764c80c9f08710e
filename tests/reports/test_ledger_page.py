"""The page of a ledger shows sums over all packets, and every refusal with its reason."""

import re

import numpy as np
import pytest

from skfedcausal.federation.ledger import ByteLimitError, SiteLedger
from skfedcausal.message.packet import Packet
from skfedcausal.reports.page import ledger_page


def rows_of(page):
    """Texts of the cells of every row of every table."""
    return [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in re.findall(r"<tr>(.*?)</tr>", page)]


def items_of(page):
    return [text.split(": ", 1) for text in re.findall(r"<li>(.*?)</li>", page)]


@pytest.fixture
def ledger(tmp_path):
    return SiteLedger(tmp_path / "ledger.jsonl", max_bytes=5000, noise="none")


def test_each_kind_of_packet_has_a_row_and_each_field_one_with_its_bytes_added_up(ledger):
    for k, n in enumerate((3, 4), start=1):
        arrays = {"z": np.full((n, 2), 0.1, "<f2"), "k": np.zeros(())}
        ledger.record("march", "mill", "up", Packet("states", k, arrays), bytes(1000 * k), k)
    ledger.record("march", "mill", "down", Packet("fit", 1), bytes(70), 1)
    entries = [{**entry, "time": f"{entry['number']} o'clock"} for entry in ledger.entries()]
    page = ledger_page(entries, ledger.verify()).html()
    header = ["packet", "purpose, or field", "meaning", "bytes", "rounding", "noise"]
    purpose = "sufficient statistic of a unit's measurements, to learn the plant".replace("'", "&#x27;")
    z = "sufficient statistic of the states, one row per time step"
    assert items_of(page)[:9] == [
        ["Site", "mill"],
        ["From", "1 o&#x27;clock"],
        ["To", "3 o&#x27;clock"],
        ["Packets in the ledger", "3"],
        ["Bytes sent", "3,000"],
        ["Bytes received", "70"],
        ["Refused, or not sent", "0"],
        ["Chain of hashes", "intact"],
        ["Last hash (keep it elsewhere)", ledger.head],
    ]
    assert rows_of(page) == [
        header,
        ["states", purpose, "2 packets", "3,000", "", "none"],
        # two bytes for each of 6 and 8 numbers; the shape is that of the last packet
        ["", "z", f"{z} (float16, 4 × 2)", "28", "11 significant bits", ""],
        ["", "k", "unknown to this version of the library (float64, one number)", "16", "none", ""],
        header,
        ["fit", "asks for the first message: the unit identifies its model", "1 packet", "70", "", "not ours"],
    ]


def test_what_was_refused_and_what_was_not_sent_have_a_table_of_their_own(ledger):
    ledger.refuse("march", "mill", "Signature does not fit")
    with pytest.raises(ByteLimitError):
        ledger.record("march", "mill", "up", Packet("states"), bytes(5001), 1)
    page = ledger_page(ledger.entries(), ledger.verify()).html()
    assert "<h2>Refused</h2>" in page
    table = rows_of(page)[-3:]
    assert table[0] == ["line", "time", "event", "reason"]
    assert [(row[0], row[2], row[3]) for row in table[1:]] == [
        ("1", "refused", "Signature does not fit"),
        ("2", "not sent", "max_bytes=5000: 0 have left in this run, 5001 more would"),
    ]
    assert ["Refused, or not sent", "2"] in items_of(page)


def test_an_account_of_nothing_has_a_page(ledger):
    ledger.path.write_text("")
    page = ledger_page(ledger.entries(), ledger.verify()).html()
    assert page.count("<p>Nothing.</p>") == 2
    assert "Refused</h2>" not in page
    assert ["From", "-"] in items_of(page)
    assert ["To", "-"] in items_of(page)
