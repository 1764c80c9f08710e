"""The ledger of a site cannot be changed unnoticed, counts nothing twice and says what crossed in words."""

import hashlib
import json
import subprocess
import sys

import numpy as np
import pytest

from skfedcausal.federation.atomic import Chain
from skfedcausal.federation.ledger import ByteLimitError, LedgerError, SiteLedger, repair_ledger, verify_ledger
from skfedcausal.message.packet import Packet, PacketError
from skfedcausal.message.schema import KINDS, RIDERS
from skfedcausal.papers import StopRule

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


@pytest.mark.medium
def test_every_kind_of_packet_and_field_has_a_purpose(fitted_ledgers):
    for entry in fitted_ledgers:
        assert entry.op in KINDS
        for name in entry.fields:
            assert name in KINDS[entry.op].PURPOSES | RIDERS, (entry.op, name)


@pytest.fixture(scope="module")
def fitted_ledgers():
    """Entries of fits with every server and wish."""
    from skfedcausal import (
        Communication,
        FederatedCounterfactualEstimator,
        FederatedGrangerEstimator,
        FederatedRCADetector,
        GradientServer,
        LikelihoodOptions,
        LikelihoodServer,
    )
    from skfedcausal.datasets import make_granger_plant

    X, truth = make_granger_plant(2, n_samples=600, links=[(0, 1)], n_inputs=1, input_links=[(0, 1)], random_state=0)
    X["unit0"][5:9, 2] = np.nan
    entries = []
    for server in (
        LikelihoodServer(options=LikelihoodOptions(n_rounds=2)),
        LikelihoodServer(options=LikelihoodOptions(fix_local=True)),
        GradientServer(stop=StopRule(max_iter=2, tol=0.0)),
        GradientServer(exchange="moments", stop=StopRule(max_iter=2, tol=0.0)),
        GradientServer(solve="stationary"),
    ):
        for dtype in ("float64", "float16"):
            entries += (
                FederatedGrangerEstimator(server=server, communication=Communication(wire_dtype=dtype))
                .fit(X)
                .ledger_.entries
            )
    plant = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    plant.counterfactual("unit0", 0.0, 1.0)
    for exchange in ("series", "moments"):
        server = GradientServer(exchange=exchange, stop=StopRule(max_iter=3, tol=0.0))
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
    ledger.refuse("april", "mill", "misdirected")
    account = ledger.verify()
    assert (account["entries"], account["refused"]) == (7, 3)
    assert (account["bytes_up"], account["bytes_down"]) == (20, 1000)


# --- before the first line, after the last ----------------------------------------------------------


def test_a_ledger_without_lines_is_verified_and_shown(tmp_path):
    ledger = SiteLedger(tmp_path / "ledger.jsonl")
    assert ledger.verify() == {"entries": 0, "bytes_up": 0, "bytes_down": 0, "refused": 0, "head": "0" * 64}
    ledger.to_html(tmp_path / "page.html")
    assert "Nothing." in (tmp_path / "page.html").read_text()


def test_a_ledger_that_was_written_anew_lacks_what_the_server_has_seen(tmp_path):
    """One packet taken out, the lines numbered and hashed again: the server's countersignature is about it."""
    ledger = SiteLedger(tmp_path / "ledger.jsonl")
    for sequence in range(1, 4):
        ledger.record("march", "mill", "down", Packet("fit", 1), b"asked" * sequence, sequence, seen=ledger.head)
        ledger.record("march", "mill", "up", STATES, b"answered" * sequence, sequence)
    left = [entry for entry in ledger.entries() if entry["number"] != 2]
    ledger.path.unlink()
    forged = Chain(ledger.path)
    for entry in left:
        forged.append({k: v for k, v in entry.items() if k not in ("number", "time", "previous", "hash")})
    with pytest.raises(LedgerError, match="countersigned a line before it that is not there"):
        verify_ledger(ledger.path)


def test_a_server_that_saw_more_than_there_is_gets_no_answer(ledger):
    head = ledger.head
    ledger.path.write_text("".join(line + "\n" for line in ledger.path.read_text().splitlines()[:6]))
    again = SiteLedger(ledger.path)
    again.check_seen(again.head)
    with pytest.raises(PacketError, match="lines were cut off"):
        again.check_seen(head)


@pytest.mark.parametrize("tamper", TAMPERING.values(), ids=TAMPERING.keys())
def test_a_broken_ledger_is_repaired_and_says_what_is_lost(ledger, tamper):
    lines, head = ledger.path.read_text().splitlines(), ledger.head
    ledger.path.write_text("\n".join(tamper(lines)) + "\n")
    data = ledger.path.read_bytes()
    told = repair_ledger(ledger.path)
    assert told["kept"] + told["lost"] == len(data.splitlines())
    assert (ledger.path.parent / told["broken"]).read_bytes() == data
    again = SiteLedger(ledger.path, max_bytes=8 * 15 - 1)
    assert again.verify()["entries"] == told["kept"] + 1
    again.check_seen(head)
    if "taken out" not in str(tamper):
        with pytest.raises(ByteLimitError):  # what had left still counts
            again.record("march", "mill", "up", STATES, b"x" * 60, 9)
    with pytest.raises(LedgerError, match="is intact"):
        repair_ledger(ledger.path)


@pytest.mark.slow
@pytest.mark.parametrize(("n_writers", "n_times", "n_lines", "size"), [(2, 1, 50, 1), (4, 25, 4, 3000)])
def test_processes_that_open_and_write_one_ledger_do_not_break_it(tmp_path, n_writers, n_times, n_lines, size):
    path = tmp_path / "ledger.jsonl"
    command = (
        "import sys; from skfedcausal.federation.atomic import Chain\n"
        f"for _ in range({n_times}):\n"
        "    chain = Chain(sys.argv[1])\n"
        f"    for k in range({n_lines}): chain.append({{'event': 'refused', 'n': k, 'why': 'x' * {size}}})"
    )
    writers = [subprocess.Popen([sys.executable, "-c", command, str(path)]) for _ in range(n_writers)]
    assert [writer.wait(60) for writer in writers] == [0] * n_writers
    assert verify_ledger(path)["entries"] == n_writers * n_times * n_lines


def test_a_line_that_finds_no_room_leaves_the_ledger_whole(ledger, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    before = ledger.path.read_bytes()
    monkeypatch.setattr("skfedcausal.federation.atomic.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        ledger.refuse("march", "mill", "junk")
    monkeypatch.undo()
    assert ledger.path.read_bytes() == before
    ledger.refuse("march", "mill", "junk")
    assert verify_ledger(ledger.path)["entries"] == 11
