"""A packet survives its encoding, weighs what its encoding weighs, and nothing else is taken for one."""

import json
import struct

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skfedcausal.federation.packet import Packet, PacketError

PREFIX = struct.Struct("<4sHI")
DTYPES = ["<f8", "<f4", "<f2", "|u1", "<u2", "<u4", "<i8"]
SHAPES = [(), (0,), (1,), (5,), (0, 3), (3, 0), (3, 4), (2, 0, 2), (2, 3, 4), (1, 2, 3, 2)]


def some_array(shape, dtype):
    values = np.random.default_rng(0).uniform(0, 200, shape)
    return np.asarray(values, dtype=dtype)


def round_trip(packet):
    return Packet.decode(packet.encode())


def assert_same_packet(packet, other):
    assert (packet.op, packet.round, dict(packet.scalars)) == (other.op, other.round, dict(other.scalars))
    assert list(packet.arrays) == list(other.arrays)
    for name, value in packet.arrays.items():
        assert value.shape == other.arrays[name].shape
        assert_array_equal(value, other.arrays[name])


def raw_bytes(header, payload=b""):
    """Bytes of a packet whose header was written by somebody else."""
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return PREFIX.pack(b"SKFC", 1, len(header)) + header + payload


def header(**changed):
    return {"op": "x", "round": 0, "arrays": {}, "scalars": {}} | changed


WHOLE = Packet(
    "states",
    3,
    {"z": some_array((4, 2), "<f2"), "index": some_array((4,), "|u1"), "scale": some_array((), "<f8")},
    {"dtype": "float16", "const": False, "tol": 1e-3, "seed": 7},
).encode()


# --- what comes back ------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_round_trip_keeps_values_shape_and_dtype(dtype, shape):
    packet = Packet("x", 1, {"a": some_array(shape, dtype), "b": some_array((2,), "<f8")})
    came = round_trip(packet)
    assert_same_packet(packet, came)
    assert came.arrays["a"].dtype == np.dtype(dtype)


@pytest.mark.parametrize(
    "value",
    [
        np.arange(6.0).reshape(2, 3).T,
        np.arange(10.0)[::2],
        np.arange(10.0)[::-1],
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.arange(3, dtype=">f8"),
        np.arange(3, dtype=">u2"),
        np.broadcast_to(np.float32(2.5), (3, 2)),
    ],
    ids=["transposed", "strided", "reversed", "fortran", "big-endian", "big-endian uint", "broadcast"],
)
def test_memory_layout_and_byte_order_do_not_matter(value):
    packet = Packet("x", 0, {"a": value})
    assert_same_packet(packet, round_trip(packet))
    assert packet.nbytes == len(packet.encode())


def test_round_trip_keeps_values_that_are_not_finite_and_signed_zero():
    value = np.array([np.nan, np.inf, -np.inf, -0.0, 5e-324])
    assert round_trip(Packet("x", 0, {"a": value})).arrays["a"].tobytes() == value.tobytes()


@pytest.mark.parametrize("scalar", [0, -3, 10**15, 1.5, -0.1, 1e-300, "text", "µ∂", "", True, False])
def test_round_trip_keeps_scalars_and_their_type(scalar):
    came = round_trip(Packet("x", 0, scalars={"s": scalar})).scalars["s"]
    assert came == scalar
    assert type(came) is type(scalar)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_can_be_decoded(kind):
    assert_same_packet(Packet.decode(WHOLE), Packet.decode(kind(WHOLE)))


def test_a_decoded_array_cannot_be_written_into_the_buffer_it_came_from():
    value = Packet.decode(WHOLE).arrays["z"]
    with pytest.raises(ValueError, match="read-only"):
        value[:] = 0


def test_encoding_is_canonical():
    assert round_trip(Packet.decode(WHOLE)).encode() == WHOLE


# --- what it weighs -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_nbytes_is_the_length_of_the_encoding(dtype, shape):
    packet = Packet("x", 12, {"a": some_array(shape, dtype)}, {"word": "µ", "x": 0.1})
    assert packet.nbytes == len(packet.encode())


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int32, complex, object, "U3", "M8[s]"])
def test_arrays_of_other_kinds_do_not_travel(dtype):
    packet = Packet("x", 0, {"sensor": np.zeros(2, dtype=dtype)})
    with pytest.raises(PacketError, match=r"Array 'sensor' has dtype .*; packets carry"):
        packet.encode()
    with pytest.raises(PacketError, match="sensor"):
        packet.nbytes


HEADERS = {
    "not a dict": [],
    "missing field": {"op": "x", "round": 0, "arrays": {}},
    "additional field": header(extra=1),
    "op of another type": header(op=3),
    "round of another type": header(round=1.5),
    "round as bool": header(round=True),
    "arrays of another type": header(arrays=[]),
    "scalar of another type": header(scalars={"a": [1]}),
    "scalar without value": header(scalars={"a": None}),
    "unknown dtype": header(arrays={"a": ["|O", [1]]}),
    "dtype that is not a string": header(arrays={"a": [["<f8"], [1]]}),
    "shape that is not a list": header(arrays={"a": ["<f8", 1]}),
    "negative dimension": header(arrays={"a": ["<f8", [-1]]}),
    "fractional dimension": header(arrays={"a": ["<f8", [1.5]]}),
    "bool as dimension": header(arrays={"a": ["<f8", [True]]}),
    "too many dimensions": header(arrays={"a": ["<f8", [1] * 5]}),
    "dimension beyond every memory": header(arrays={"a": ["<f8", [2**40]]}),
    "more elements than bytes": header(arrays={"a": ["<f8", [2**39]]}),
    "no JSON": b"{",
    "no text": b"\xff\xfe{}",
    "nested beyond every stack": b"[" * 100_000,
    "number of 5000 digits": b'{"op":"x","round":' + b"9" * 5000 + b',"arrays":{},"scalars":{}}',
}


@pytest.mark.parametrize("content", HEADERS.values(), ids=HEADERS.keys())
def test_a_header_that_makes_no_sense_is_refused(content):
    with pytest.raises(PacketError):
        Packet.decode(raw_bytes(content))


WRONG_BYTES = {
    "empty": (b"", "shorter than its prefix"),
    "only a prefix": (WHOLE[: PREFIX.size - 1], "shorter than its prefix"),
    "other magic number": (b"PK\x03\x04" + WHOLE[4:], "not a packet"),
    "later version": (PREFIX.pack(b"SKFC", 2, 2) + b"{}", "version 2 is not known.*reads 1"),
    "header cut": (WHOLE[: PREFIX.size + 5], "ends inside its header"),
    "array cut": (WHOLE[:-1], "ends inside array 'scale'"),
    "bytes left over": (WHOLE + b"\0", "1 bytes after its last array"),
}


@pytest.mark.parametrize(("data", "message"), WRONG_BYTES.values(), ids=WRONG_BYTES.keys())
def test_the_error_says_what_is_wrong_with_the_bytes(data, message):
    with pytest.raises(PacketError, match=message):
        Packet.decode(data)


@pytest.mark.parametrize("shape", [[2**32, 2**32], [2**31, 2**32], [2**39] * 4], ids=str)
@pytest.mark.xfail(strict=True, reason="the number of elements is multiplied in 64 bits and wraps around")
def test_a_shape_whose_number_of_elements_overflows_is_refused(shape):
    with pytest.raises(PacketError):
        Packet.decode(raw_bytes(header(arrays={"a": ["<f8", shape]})))


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.xfail(strict=True, reason="json.loads takes NaN and Infinity, which json.dumps refuses to write")
def test_scalars_that_are_not_finite_are_refused_on_arrival(word):
    text = json.dumps(header(scalars={"tol": float(word)}))
    assert word in text
    with pytest.raises(PacketError):
        Packet.decode(raw_bytes(text.encode()))


NOT_ENCODED = {
    "array of five dimensions": Packet("x", 0, {"a": np.zeros((1,) * 5)}),
    "op that is not a string": Packet(3),
    "scalar without value": Packet("x", scalars={"a": None}),
    "scalar that is not finite": Packet("x", scalars={"a": float("nan")}),
    "integer of numpy": Packet("x", scalars={"a": np.int64(3)}),
    "list instead of an array": Packet("x", arrays={"a": [1.0, 2.0]}),
}


@pytest.mark.parametrize("packet", NOT_ENCODED.values(), ids=NOT_ENCODED.keys())
@pytest.mark.xfail(
    strict=True, reason="encode checks dtypes only: it writes what decode refuses, or fails otherwise"
)
def test_what_decode_would_refuse_is_not_encoded(packet):
    with pytest.raises(PacketError):
        packet.encode()


# --- fuzzing --------------------------------------------------------------------------------------


def decodes_or_refuses(data):
    """Whether the bytes are a packet; anything but a PacketError fails the test."""
    try:
        packet = Packet.decode(data)
    except PacketError:
        return False
    assert isinstance(packet, Packet)
    return True


def test_every_truncation_is_refused():
    assert not any(decodes_or_refuses(WHOLE[:length]) for length in range(len(WHOLE)))


def test_random_bytes_are_refused():
    rng = np.random.default_rng(0)
    buffers = (rng.bytes(int(rng.integers(0, 200))) for _ in range(1000))
    assert not any(decodes_or_refuses(buffer) for buffer in buffers)


def test_random_bytes_behind_a_right_prefix_are_refused():
    rng = np.random.default_rng(1)
    for _ in range(1000):
        content = rng.bytes(int(rng.integers(0, 100)))
        assert not decodes_or_refuses(PREFIX.pack(b"SKFC", 1, len(content)) + content)


def test_mutated_packets_are_refused_or_are_packets():
    rng = np.random.default_rng(2)
    for _ in range(2000):
        data = bytearray(WHOLE)
        for position in rng.integers(0, len(data), rng.integers(1, 4)):
            data[position] = rng.integers(0, 256)
        decodes_or_refuses(bytes(data))


def test_headers_of_random_json_are_refused_or_are_packets():
    rng = np.random.default_rng(3)
    pieces = json.loads(
        '[0, 1, -1, 2.5, true, null, "x", "<f8", "|u1", [], [2], [0], [2, 2], {}, ["<f8", [2]]]'
    )

    def pick():
        return pieces[rng.integers(len(pieces))]

    for _ in range(1000):
        content = header(arrays={"a": [pick(), pick()], "b": pick()}, scalars={"s": pick()})
        if rng.random() < 0.5:
            content[str(rng.choice(["op", "round", "arrays", "scalars"]))] = pick()
        decodes_or_refuses(raw_bytes(content, rng.bytes(int(rng.integers(0, 40)))))
