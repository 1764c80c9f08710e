"""Whatever lies in the share: the run goes on with the sites that answer, within its timeout."""

import os
import threading
import time
import tracemalloc
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skfedcausal import Communication, FederatedGrangerEstimator, KalmanClient
from skfedcausal.client.worker import UnitWorker
from skfedcausal.datasets import make_granger_plant
from skfedcausal.federation import FileSite, FileTransport, Gate, LostUnits, LostUnitWarning, PacketError, SitePolicy
from skfedcausal.federation.envelope import Envelope, PartialFrameError, Signing, read_signed
from skfedcausal.message.requests import NothingYet, WatchRequest
from skfedcausal.message.states import Acknowledgement

pytestmark = pytest.mark.medium

UNITS = ("mill", "kiln", "silo")
X, _ = make_granger_plant(3, names=UNITS, n_samples=300, random_state=3)
KEYS = {name: bytes([k + 1]) * 32 for k, name in enumerate(UNITS)}
HERE = FederatedGrangerEstimator().fit(X).transition_


def sparse(path, size, start=b""):
    with open(path, "wb") as file:
        file.write(start)
        file.truncate(size)


def junk(path):
    """Bytes that replace no packet that came meanwhile: who may do that can take packets away as well."""
    with open(path, "xb") as file:
        file.write(b"junk" * 100)


def claiming(path):
    """A large file that begins like a packet of that size."""
    begin = Envelope("march", "kiln", "down", 1).seal(b"", KEYS["kiln"])
    head = bytearray(begin[: 18 + int.from_bytes(begin[6:10], "little")])
    head[10:18] = (2**26 - len(head) - 32).to_bytes(8, "little")
    sparse(path, 2**26, bytes(head))


HOSTILE = {
    "a queue": os.mkfifo,
    "a folder": lambda path: path.mkdir(),
    "a folder that is not empty": lambda path: (path / "more").mkdir(parents=True),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to a queue": lambda path: (os.mkfifo(f"{path}.q"), path.symlink_to(f"{path.name}.q")),
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to a secret": lambda path: path.symlink_to("/etc/passwd"),
    "5 GiB": lambda path: sparse(path, 5 * 2**30),
    "64 MiB that begin well": claiming,
    "nothing in it": lambda path: path.write_bytes(b""),
    "junk": junk,
    "the packet of another": lambda path: path.write_bytes(Envelope("march", "mill", "up", 1).seal(b"x", KEYS["mill"])),
}
NAMES = ("march-00000001.packet", "march-00000002.packet", "march-00000003.packet", "zzz.packet")


class Running:
    """Sites in threads."""

    def __init__(self, folder):
        self.folder, self.stop, self.threads, self.gates = folder, False, [], {}

    def __enter__(self):
        for name in UNITS:
            worker = UnitWorker(name, X[name], None, (0,), None, KalmanClient())
            self.gates[name] = Gate(name, worker, self.folder / "home" / name, key=KEYS[name])
            serve = FileSite(self.gates[name], self.folder / "exchange").serve
            self.threads.append(threading.Thread(target=serve, kwargs={"stop": lambda: self.stop}, daemon=True))
            self.threads[-1].start()
        return self

    def __exit__(self, *_):
        self.stop = True
        for thread in self.threads:
            thread.join(10)
            assert not thread.is_alive()

    def refused(self, name):
        return [entry for entry in self.gates[name].ledger.entries() if entry["event"] == "refused"]


def fitted(folder, **how):
    transport = FileTransport(folder / "exchange", UNITS, "march", KEYS, timeout=5.0)
    estimator = FederatedGrangerEstimator(**how).fit_sites(transport)
    transport.close()
    return estimator.transition_


@pytest.mark.parametrize("put", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_run_ends_right_whatever_lay_in_its_folders_before(tmp_path, put):
    for box in ("inbox", "outbox"):
        folder = tmp_path / "exchange" / "kiln" / box
        folder.mkdir(parents=True)
        for name in NAMES:
            put(folder / name)
    started = time.monotonic()
    with Running(tmp_path) as running:
        assert_array_equal(fitted(tmp_path), HERE)
        assert time.monotonic() - started < 5.0
        lines = running.refused("kiln")
    assert len({line["source"] for line in lines}) == len(lines) <= len(NAMES)


@pytest.mark.parametrize("kind", ["a queue", "a folder", "junk"])
def test_a_run_ends_right_whatever_comes_while_it_runs(tmp_path, kind):
    stop = threading.Event()

    def attacking():
        while not stop.wait(0.01):
            for box in ("inbox", "outbox"):
                for name in NAMES:
                    path = tmp_path / "exchange" / "kiln" / box / name
                    if path.parent.is_dir() and not os.path.lexists(path):
                        try:
                            HOSTILE[kind](path)
                        except OSError:
                            continue

    with Running(tmp_path):
        attacker = threading.Thread(target=attacking, daemon=True)
        attacker.start()
        assert_array_equal(fitted(tmp_path), HERE)
        stop.set()
        attacker.join()


def test_a_site_whose_answer_is_no_file_is_lost_by_name_and_nobody_else(tmp_path):
    """Somebody keeps putting a queue in the place of its answers; an answer that is read before counts."""
    stop = threading.Event()
    path, queue = tmp_path / "exchange" / "kiln" / "outbox" / NAMES[0], tmp_path / "queue"

    def attacking():  # one step of the file system, so that no answer comes between
        while not stop.wait(0.001):
            if path.parent.is_dir() and not path.is_fifo():
                os.mkfifo(queue)
                os.replace(queue, path)

    (tmp_path / "exchange" / "kiln" / "outbox").mkdir(parents=True)
    attacker = threading.Thread(target=attacking, daemon=True)
    attacker.start()
    with Running(tmp_path), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", LostUnitWarning)
        there = fitted(tmp_path, communication=Communication(lost_units=LostUnits(quorum=2, timeout=1.5)))
        assert attacker.is_alive()
    stop.set()
    assert all("kiln" in str(one.message) for one in told)
    alone = FederatedGrangerEstimator().fit({name: X[name] for name in ("mill", "silo")})
    assert_array_equal(there, alone.transition_ if told else HERE)


def test_an_inbox_that_cannot_be_written_loses_its_site_only(tmp_path):
    (tmp_path / "exchange" / "kiln").mkdir(parents=True)
    (tmp_path / "exchange" / "kiln" / "inbox").write_text("in the way")
    with Running(tmp_path), pytest.warns(LostUnitWarning, match="kiln"):
        there = fitted(tmp_path, communication=Communication(lost_units=LostUnits(quorum=2, timeout=3.0)))
    alone = FederatedGrangerEstimator().fit({name: X[name] for name in ("mill", "silo")})
    assert_array_equal(there, alone.transition_)


def test_junk_is_counted_once_by_its_name_even_after_a_restart(tmp_path):
    inbox = tmp_path / "exchange" / "kiln" / "inbox"
    inbox.mkdir(parents=True)
    for k in range(50):
        (inbox / f"junk{k}.packet").write_bytes(b"junk" * 4)
    for _ in range(3):
        gate = Gate("kiln", None, tmp_path / "home", key=KEYS["kiln"])
        site = FileSite(gate, tmp_path / "exchange")
        for k in range(3):
            assert site.step() == []
            (inbox / "junk0.packet").write_bytes(b"other" * (5 + k))
    assert len(gate.ledger.entries()) == 50


def test_a_question_is_not_taken_for_answered_because_of_what_lies_in_the_outbox(tmp_path):
    """Somebody puts a file under the name of the answer before the site starts."""
    outbox = tmp_path / "exchange" / "kiln" / "outbox"
    transport = FileTransport(tmp_path / "exchange", ["kiln"], "march", KEYS, timeout=5.0)
    asking = threading.Thread(target=transport.exchange, args=({"kiln": WatchRequest(1).to_packet(1)},), daemon=True)
    asking.start()
    while not (tmp_path / "exchange" / "kiln" / "inbox" / NAMES[0]).exists():
        time.sleep(0.01)
    outbox.mkdir(parents=True, exist_ok=True)
    (outbox / NAMES[0]).write_bytes(b"junk")
    gate = Gate("kiln", Waiting(), tmp_path / "home", key=KEYS["kiln"], policy=SitePolicy.unlimited())
    assert FileSite(gate, tmp_path / "exchange").step() == [outbox / NAMES[0]]
    asking.join(5.0)
    assert not asking.is_alive()
    assert not transport.refusals


class Waiting:
    """Has nothing to say yet, a few times."""

    def __init__(self):
        self.left = 3

    def handle(self, packet, state):
        self.left -= 1
        return (NothingYet() if self.left >= 0 else Acknowledgement()).to_packet(packet.round), state


def test_a_question_is_seen_again_on_a_share_that_notes_whole_seconds(tmp_path, monkeypatch):
    """The server asks again under the same name within a tick, and every time is counted on both sides."""

    def coarse(status):
        return (status.st_mtime_ns // 2_000_000_000, status.st_size, 7)

    monkeypatch.setattr("skfedcausal.federation.files.identity", coarse)
    gate = Gate("kiln", Waiting(), tmp_path / "home", key=KEYS["kiln"], policy=SitePolicy.unlimited())
    site, stop = FileSite(gate, tmp_path / "exchange"), []
    thread = threading.Thread(target=site.serve, kwargs={"stop": lambda: stop}, daemon=True)
    thread.start()
    transport = FileTransport(tmp_path / "exchange", ["kiln"], "march", KEYS, timeout=5.0)
    ops = [transport.exchange({"kiln": WatchRequest(1).to_packet(1)})["kiln"].op for _ in range(4)]
    stop.append(True)
    thread.join()
    assert ops == ["nothing yet"] * 3 + ["done"]
    account = gate.ledger.verify()
    assert (account["bytes_up"], account["bytes_down"]) == (transport.bytes_up, transport.bytes_down)


# --- the reader -----------------------------------------------------------------------------------


def test_a_large_file_is_read_only_once_its_signature_is_good(tmp_path):
    """A packet of 20 MB is checked in parts and comes whole; with one byte changed nothing of it is kept."""
    content = np.random.default_rng(0).bytes(20_000_000)
    path = tmp_path / "large.packet"
    frame = Envelope("march", "kiln", "up", 1).seal(content, KEYS["kiln"])
    path.write_bytes(frame)
    assert read_signed(path, KEYS["kiln"])[0] == frame
    changed = bytearray(frame)
    changed[10_000_000] ^= 1
    path.write_bytes(changed)
    with pytest.raises(PacketError, match="Signature"):
        read_signed(path, KEYS["kiln"])
    path.write_bytes(frame[:-1])
    with pytest.raises(PartialFrameError):
        read_signed(path, KEYS["kiln"])


@pytest.mark.parametrize("put", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_file_takes_memory_or_time(tmp_path, put):
    path = tmp_path / "x.packet"
    put(path)
    tracemalloc.start()
    started = time.monotonic()
    with pytest.raises((PacketError, FileNotFoundError)):
        read_signed(path, KEYS["kiln"])
    assert time.monotonic() - started < 10.0
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()


def test_signing_in_parts_is_signing_the_whole():
    signing = Signing(b"k" * 32)
    for part in (b"so", b"me", b"thing"):
        signing.update(part)
    whole = Signing(b"k" * 32)
    whole.update(b"something")
    assert signing.signature() == whole.signature()
