"""The ledger of a site cannot be changed unnoticed, counts nothing twice and says what crossed in words."""

import hashlib
import json

import numpy as np
import pytest

from skfedcausal.federation.site_ledger import ByteLimitError, LedgerError, SiteLedger, verify_ledger
from skfedcausal.message.packet import Packet
from skfedcausal.message.schema import KINDS, RIDERS

STATES = Packet("states", 1, {"z": np.zeros((5, 2), "<f2")}, {"dtype": "float16"})


@pytest.fixture
def ledger(tmp_path):
    ledger = SiteLedger(tmp_path / "ledger.jsonl", noise="Gaussian, sigma 0.1")
    for sequence in range(1, 6):
        ledger.record("march", "mill", "down", Packet("fit", 1), b"asked" * sequence, sequence)
        ledger.record("march", "mill", "up", STATES, b"answered" * sequence, sequence)
    return ledger


def test_it_adds_up(ledger):
    assert ledger.verify() == {
        "entries": 10,
        "bytes_up": 8 * 15,
        "bytes_down": 5 * 15,
        "refused": 0,
        "head": ledger.head,
    }


def test_an_entry_says_what_left_without_holding_it(ledger):
    entry = ledger.entries()[1]
    assert entry["fields"]["z"] == {
        "meaning": "sufficient statistic of the states, one row per time step",
        "dtype": "float16",
        "shape": [5, 2],
        "bytes": 20,
        "rounding": "11 significant bits",
    }
    assert (entry["noise"], entry["round"], entry["packet_bytes"]) == (
        "Gaussian, sigma 0.1",
        1,
        STATES.nbytes,
    )


def changed(lines, k):
    entry = json.loads(lines[k])
    return [*lines[:k], json.dumps({**entry, "n_bytes": 1}), *lines[k + 1 :]]


TAMPERING = {
    "a line is changed": lambda lines: changed(lines, 4),
    "the last line is changed": lambda lines: changed(lines, 9),
    "a line is taken out": lambda lines: [*lines[:4], *lines[5:]],
    "the first line is taken out": lambda lines: lines[1:],
    "lines are exchanged": lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]],
    "a line is doubled": lambda lines: [*lines[:4], lines[4], *lines[4:]],
    "a line is no line": lambda lines: [*lines[:4], "{", *lines[5:]],
}


@pytest.mark.parametrize("tamper", TAMPERING.values(), ids=TAMPERING.keys())
def test_tampering_is_noticed(ledger, tamper):
    lines = ledger.path.read_text().splitlines()
    ledger.path.write_text("\n".join(tamper(lines)) + "\n")
    with pytest.raises(LedgerError, match="line"):
        verify_ledger(ledger.path)
    with pytest.raises(LedgerError, match="line"):
        SiteLedger(ledger.path)


def test_it_is_continued_and_the_same_bytes_count_once(ledger):
    again = SiteLedger(ledger.path)
    assert again.head == ledger.head
    again.record("march", "mill", "up", STATES, b"answered" * 5, 5)
    assert again.verify() == ledger.verify()
    again.record("march", "mill", "up", STATES, b"another answer", 5)
    assert again.verify()["bytes_up"] == 8 * 15 + 14


def test_verifying_says_that_the_last_line_was_broken_off(ledger):
    with open(ledger.path, "a") as file:
        file.write('{"number": 11, "ti')
    with pytest.raises(LedgerError, match=r"last line is not whole.*starting the site"):
        verify_ledger(ledger.path)
    assert SiteLedger(ledger.path).verify()["entries"] == 10


def test_a_line_that_was_not_written_to_its_end_is_dropped(ledger):
    whole = ledger.path.read_bytes()
    ledger.path.write_bytes(whole + b'{"number": 11, "ti')
    assert SiteLedger(ledger.path).verify() == ledger.verify()
    assert ledger.path.read_bytes() == whole


def test_nothing_leaves_beyond_the_limit_of_a_run(tmp_path):
    ledger = SiteLedger(tmp_path / "ledger.jsonl", max_bytes=100)
    ledger.record("march", "mill", "up", STATES, bytes(60), 1)
    with pytest.raises(ByteLimitError, match="max_bytes=100: 60 have left in this run, 41 more would"):
        ledger.record("march", "mill", "up", STATES, bytes(41), 2)
    with pytest.raises(ByteLimitError):
        SiteLedger(ledger.path, max_bytes=100).record("march", "mill", "up", STATES, bytes(41), 2)
    ledger = SiteLedger(ledger.path, max_bytes=100)
    ledger.record("march", "mill", "up", STATES, bytes(40), 2)
    ledger.record("april", "mill", "up", STATES, bytes(100), 1)
    assert ledger.verify()["bytes_up"] == 200


def test_the_page_tells_a_reader_everything_and_trusts_no_text(ledger, tmp_path):
    ledger.refuse("march", "mill", "<script>alert(1)</script>")
    ledger.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    for text in (
        "mill",
        "120",
        "sufficient statistic",
        "11 significant bits",
        "Gaussian, sigma 0.1",
        ledger.head,
    ):
        assert text in page
    assert "<script>" not in page


def test_every_kind_of_packet_and_field_has_a_purpose(fitted_ledgers):
    for entry in fitted_ledgers:
        assert entry.op in KINDS
        for name in entry.fields:
            assert name in KINDS[entry.op].PURPOSES | RIDERS, (entry.op, name)


@pytest.fixture(scope="module")
def fitted_ledgers():
    """Entries of fits with every server and wish."""
    from skfedcausal import (
        FederatedCounterfactualEstimator,
        FederatedGrangerEstimator,
        FederatedRCADetector,
        GradientServer,
        LikelihoodServer,
    )
    from skfedcausal.datasets import make_granger_plant

    X, truth = make_granger_plant(2, n_samples=600, links=[(0, 1)], n_inputs=1, input_links=[(0, 1)], random_state=0)
    X["unit0"][5:9, 2] = np.nan
    entries = []
    for server in (
        LikelihoodServer(n_rounds=2),
        LikelihoodServer(fix_local=True),
        GradientServer(max_iter=2, tol=0.0),
        GradientServer(exchange="moments", max_iter=2, tol=0.0),
        GradientServer(solve="stationary"),
    ):
        for dtype in ("float64", "float16"):
            entries += FederatedGrangerEstimator(server=server, wire_dtype=dtype).fit(X).ledger_.entries
    plant = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    plant.counterfactual("unit0", 0.0, 1.0)
    for exchange in ("series", "moments"):
        server = GradientServer(exchange=exchange, max_iter=3, tol=0.0)
        entries += FederatedCounterfactualEstimator(server=server).fit(X, inputs=truth.inputs).ledger_.entries
    detector = FederatedRCADetector(false_alarm_rate=0.02).fit(X)
    detector.incidents(X)
    return entries + plant.ledger_.entries + detector.ledger_.entries


# --- what a line says, and what counts ---------------------------------------------------------------------


def test_a_line_says_everything_about_its_packet(tmp_path):
    ledger = SiteLedger(tmp_path / "ledger.jsonl", noise="Gaussian")
    up = ledger.record("march", "mill", "up", STATES, b"sealed", 3)
    down = ledger.record("march", "mill", "down", Packet("fit", 2), b"asked")
    assert {key: up[key] for key in ("event", "run", "site", "direction", "sequence", "round", "op")} == {
        "event": "sent", "run": "march", "site": "mill", "direction": "up", "sequence": 3, "round": 1, "op": "states"
    }  # fmt: skip
    assert up["purpose"].startswith("sufficient statistic")
    assert (up["n_bytes"], up["sha256"]) == (6, hashlib.sha256(b"sealed").hexdigest())
    assert (up["settings"], up["noise"]) == ({"dtype": "float16"}, "Gaussian")
    assert (down["event"], down["sequence"], down["fields"], down["noise"]) == ("taken", 0, {}, "not ours")
    assert SiteLedger(tmp_path / "other.jsonl").noise == "none"


@pytest.mark.parametrize(
    "other",
    [{"run": "april"}, {"direction": "down"}, {"sequence": 2}, {"frame": b"other!"}],
    ids=str,
)
def test_the_same_bytes_count_again_in_another_place(tmp_path, other):
    ledger = SiteLedger(tmp_path / "ledger.jsonl")
    how = {"run": "march", "site": "mill", "direction": "up", "packet": STATES, "frame": b"sealed", "sequence": 1}
    first = ledger.record(**how)
    assert ledger.record(**how) == first
    assert len(ledger.entries()) == 1
    ledger.record(**how | other)
    assert len(ledger.entries()) == 2


def test_the_limit_is_reached_by_the_last_byte_of_a_run_and_counts_what_leaves_only(tmp_path):
    ledger = SiteLedger(tmp_path / "ledger.jsonl", max_bytes=10)
    ledger.record("march", "mill", "down", STATES, bytes(1000), 1)
    ledger.record("march", "mill", "up", STATES, bytes(4), 1)
    with pytest.raises(ByteLimitError, match="4 have left in this run, 7 more would"):
        ledger.record("march", "mill", "up", STATES, bytes(7), 2)
    with pytest.raises(ByteLimitError):  # it is no line that was sent before
        ledger.record("march", "mill", "up", STATES, bytes(7), 2)
    ledger.record("march", "mill", "up", STATES, bytes(6), 3)
    ledger.record("april", "mill", "up", STATES, bytes(10), 1)
    ledger.refuse("april", "mill", "astray")
    account = ledger.verify()
    assert (account["entries"], account["refused"]) == (7, 3)
    assert (account["bytes_up"], account["bytes_down"]) == (20, 1000)
