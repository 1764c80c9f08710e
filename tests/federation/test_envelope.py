"""What is signed cannot be changed, moved or sent again; whatever else comes is refused and never crashes."""

import hmac
import struct
from dataclasses import replace

import numpy as np
import pytest

from skfedcausal.federation.envelope import (
    Envelope,
    PartialFrameError,
    outside,
    read_envelope,
    read_key,
    write_key,
)
from skfedcausal.federation.exchange import ClientError, Exchange, LostUnits
from skfedcausal.federation.files import FramedTransport
from skfedcausal.federation.ledger import Ledger
from skfedcausal.message import StateMessage
from skfedcausal.message.packet import Failure, Packet, PacketError
from skfedcausal.message.requests import FitRequest

KEY = b"k" * 32


def collect(transport, **how):
    exchange = Exchange(transport, Ledger(), **how)
    exchange.round = 1
    return exchange.ask_all(FitRequest(), StateMessage)


OUTSIDE = Envelope("march", "mill", "up", 3)
FRAME = OUTSIDE.seal(b"content", KEY)
MESSAGE = StateMessage(np.ones((6, 2)), np.eye(2)[None], None, (6,))


def test_what_was_sealed_is_opened():
    assert OUTSIDE.open(FRAME, KEY) == b"content"
    assert read_envelope(FRAME, KEY) == (OUTSIDE, b"content")
    assert outside(FRAME) == OUTSIDE


def test_the_same_content_has_the_same_bytes():
    assert OUTSIDE.seal(b"content", KEY) == FRAME


@pytest.mark.parametrize("position", range(len(FRAME)))
def test_no_byte_can_be_changed(position):
    changed = bytearray(FRAME)
    changed[position] ^= 0x20
    with pytest.raises(PacketError):
        OUTSIDE.open(bytes(changed), KEY)


@pytest.mark.parametrize("size", range(len(FRAME)))
def test_the_beginning_of_an_envelope_is_told_from_a_bad_one(size):
    with pytest.raises(PartialFrameError):
        read_envelope(FRAME[:size], KEY)


@pytest.mark.parametrize(
    "changed", [{"run": "april"}, {"site": "kiln"}, {"direction": "down"}, {"sequence": 4}], ids=str
)
def test_an_envelope_counts_for_one_run_site_direction_and_number(changed):
    with pytest.raises(PacketError, match=f"of {next(iter(changed))} "):
        OUTSIDE.open(replace(OUTSIDE, **changed).seal(b"content", KEY), KEY)


@pytest.mark.parametrize("key", [b"other" * 8, None])
def test_another_key_does_not_open(key):
    with pytest.raises(PacketError, match="Signature"):
        OUTSIDE.open(FRAME, key)


def test_a_size_that_is_only_claimed_is_refused_before_it_comes():
    claim = struct.pack("<4sHIQ", b"SKFE", 1, 100, 2**62)
    with pytest.raises(PacketError, match="more than the"):
        read_envelope(claim, KEY)


def test_a_key_in_a_file_is_for_its_owner(tmp_path):
    path = write_key(tmp_path / "mill.key")
    assert path.stat().st_mode & 0o077 == 0
    assert len(read_key(path)) == 32
    with pytest.raises(FileExistsError):
        write_key(path)
    path.write_text("secret")
    with pytest.raises(ValueError, match="holds no key"):
        read_key(path)


# --- boundaries -----------------------------------------------------------------------------------


def framed(header, payload=b"", key=KEY):
    """A signed packet whose outside was written by somebody else."""
    start = struct.pack("<4sHIQ", b"SKFE", 1, len(header), len(payload)) + header + payload
    return start + hmac.digest(key, start, "sha256")


def test_an_envelope_is_prefix_header_content_and_signature():
    header = b'{"run":"march","site":"mill","direction":"up","sequence":3}'
    assert framed(header, b"content") == FRAME


def test_as_many_bytes_as_are_taken_are_taken():
    assert read_envelope(FRAME, KEY, len(FRAME)) == (OUTSIDE, b"content")
    with pytest.raises(PacketError, match=f"of {len(FRAME)} bytes is larger than the {len(FRAME) - 1}"):
        read_envelope(FRAME, KEY, len(FRAME) - 1)


@pytest.mark.parametrize(
    ("more", "error", "text"), [(0, PartialFrameError, "of 1073741824"), (1, PacketError, "more than")]
)
def test_a_packet_of_a_gibibyte_may_still_come_and_a_larger_one_not(more, error, text):
    claim = struct.pack("<4sHIQ", b"SKFE", 1, 100, 2**30 - 18 - 100 - 32 + more)
    with pytest.raises(PacketError, match=text) as caught:
        read_envelope(claim, KEY)
    assert type(caught.value) is error


@pytest.mark.parametrize(("size", "taken"), [(4096, True), (4097, False)])
def test_the_outside_of_an_envelope_has_at_most_four_kibibytes(size, taken):
    empty = len(Envelope("", "mill", "up", 3).seal(b"", KEY)) - 18 - 32
    envelope = Envelope("r" * (size - empty), "mill", "up", 3)
    if taken:
        assert read_envelope(envelope.seal(b"", KEY), KEY) == (envelope, b"")
    else:
        with pytest.raises(PacketError, match="more than the"):
            read_envelope(envelope.seal(b"", KEY), KEY)


@pytest.mark.parametrize(
    "header",
    [
        b"{",
        b"\xff",
        b"[1]",
        b'{"run":"march","site":"mill","direction":"up"}',
        b'{"run":"march","site":"mill","direction":"up","sequence":3,"more":1}',
        b'{"run":"march","site":"mill","direction":"up","sequence":"3"}',
        b'{"run":"march","site":"mill","direction":"up","sequence":true}',
        b'{"run":7,"site":"mill","direction":"up","sequence":3}',
        b'{"run":"march","site":"mill","direction":"across","sequence":3}',
    ],
)
def test_an_outside_that_is_no_address_is_refused_although_it_is_signed(header):
    with pytest.raises(PacketError, match="outside of the packet cannot be read"):
        read_envelope(framed(header), KEY)


@pytest.mark.parametrize(("n_bytes", "taken"), [(15, False), (16, True)])
def test_a_key_has_sixteen_bytes_or_more(tmp_path, n_bytes, taken):
    path = tmp_path / "mill.key"
    path.write_text("a5" * n_bytes)
    path.chmod(0o600)
    if taken:
        assert read_key(path) == b"\xa5" * n_bytes
    else:
        with pytest.raises(ValueError, match="expected at least 16 bytes"):
            read_key(path)


@pytest.mark.parametrize("mode", [0o666, 0o644, 0o640, 0o604])
def test_a_key_that_others_can_read_is_refused(tmp_path, mode):
    path = write_key(tmp_path / "mill.key")
    path.chmod(mode)
    with pytest.raises(ValueError, match=f"mode {mode:o}.*chmod 600"):
        read_key(path)
    path.chmod(0o400)
    assert len(read_key(path)) == 32


# --- fuzz -----------------------------------------------------------------------------------------


class Hostile(FramedTransport):
    """A transport whose one site sends whatever it is told to."""

    def __init__(self, key=KEY):
        super().__init__(["mill"], "march", {"mill": key})

    def _carry(self, frames, timeout):
        return {"mill": self.came}

    def sends(self, payload):
        """The site signs this: only its content is hostile."""
        self.came = Envelope("march", "mill", "up", self._sequence + 1).seal(payload, KEY)
        return self


class Patient(FramedTransport):
    """A transport that notes how long it would have waited for its sites."""

    def __init__(self, **settings):
        super().__init__(["mill"], "march", {"mill": KEY}, **settings)
        self.waited = []

    def _carry(self, frames, timeout):
        self.waited.append(timeout)
        return dict.fromkeys(frames, Failure("timeout"))


@pytest.mark.parametrize(("timeout", "waited"), [(60.0, 5.0), (2.0, 2.0)])
def test_nobody_is_waited_for_long_when_the_run_is_over(timeout, waited):
    transport = Patient(timeout=timeout)
    transport.close()
    assert transport.waited == [waited]


def damaged(data, rng):
    """Bytes with some of them changed, cut, doubled or made up."""
    data = bytearray(data)
    kind = rng.integers(5)
    at = int(rng.integers(len(data)))
    if kind == 0:
        for k in rng.integers(len(data), size=rng.integers(1, 8)):
            data[k] = rng.integers(256)
    elif kind == 1:
        del data[at:]
    elif kind == 2:
        data[at:at] = rng.bytes(int(rng.integers(1, 40)))
    elif kind == 3:
        data[at : at + 8] = struct.pack("<d", rng.choice([np.nan, np.inf, -1.0, 1e300, 2.0**60]))
    else:
        data = bytearray(rng.bytes(int(rng.integers(0, 300))))
    return bytes(data)


@pytest.mark.medium
def test_ten_thousand_fuzzed_packets_never_crash_the_server():
    rng = np.random.default_rng(0)
    good = {dtype: MESSAGE.to_packet(1, dtype).encode() for dtype in ("float64", "float32", "float16")}
    taken = refused = 0
    for k in range(10_000):
        transport = Hostile()
        payload = damaged(good[("float64", "float32", "float16")[k % 3]], rng)
        transport.sends(payload)
        if k % 4 == 0:  # every fourth is damaged on the way instead
            transport.came = damaged(transport.came, rng)
        try:
            (message,) = collect(transport, lost_units=LostUnits(quorum=1)).values()
            taken += 1
            assert np.isfinite(message.z).all()
        except ClientError:
            refused += 1
    assert taken + refused == 10_000
    assert refused > 8_000


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"z": np.ones(6)}, "has shape"),
        ({"z": np.ones((6, 2), dtype=np.int64)}, "has dtype int64"),
        ({"z": np.full((6, 2), np.nan)}, "not finite"),
        ({"lengths": np.array([5])}, "does not cut 6 rows"),
        ({"more": np.ones(3)}, "does not carry arrays"),
    ],
)
def test_signed_content_that_cannot_be_meant_is_refused_by_name(arrays, reason):
    packet = MESSAGE.to_packet(1)
    bad = Packet(packet.op, 1, {**packet.arrays, **arrays})
    with pytest.raises(ClientError, match=f"'mill' sent a message that cannot be used.*{reason}"):
        collect(Hostile().sends(bad.encode()))
