"""A packet survives its encoding, weighs what its encoding weighs, and nothing else is taken for one."""

import json
import struct
from collections import OrderedDict
from types import MappingProxyType

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skfedcausal.message.packet import Packet, PacketError

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
    header = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    return PREFIX.pack(b"SKFC", 2, len(header)) + header + payload


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


def test_a_header_seen_before_lets_no_other_kind_through():
    assert Packet("states", 1).nbytes == len(Packet("states", 1).encode())
    for op, number in (("states", True), ("states", 1.0), (b"states", 1)):
        with pytest.raises(PacketError):
            Packet(op, number).encode()


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
    "later version": (PREFIX.pack(b"SKFC", 3, 2) + b"{}", "version 3 is not known.*reads 2"),
    "nothing behind the prefix": (WHOLE[: PREFIX.size], "ends inside its header"),
    "header cut": (WHOLE[: PREFIX.size + 5], "ends inside its header"),
    "array cut": (WHOLE[:-1], "ends inside array 'scale'"),
    "bytes left over": (WHOLE + b"\0", "1 bytes after its last array"),
}


@pytest.mark.parametrize(("data", "message"), WRONG_BYTES.values(), ids=WRONG_BYTES.keys())
def test_the_error_says_what_is_wrong_with_the_bytes(data, message):
    with pytest.raises(PacketError, match=message):
        Packet.decode(data)


@pytest.mark.parametrize("shape", [[2**32, 2**32], [2**31, 2**32], [2**39] * 4, [2**59, 2**59, 0]], ids=str)
def test_a_shape_whose_number_of_elements_overflows_is_refused(shape):
    with pytest.raises(PacketError, match="'a'"):
        Packet.decode(raw_bytes(header(arrays={"a": ["<f8", shape]})))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_scalars_that_are_not_finite_are_refused_on_arrival(number):
    text = json.dumps(header(scalars={"tol": 0}), separators=(",", ":")).replace("0}", number + "}")
    assert number in text
    with pytest.raises(PacketError, match="Scalar 'tol' must be a finite number"):
        Packet.decode(raw_bytes(text.encode()))


NOT_ENCODED = {  # packet, what the error must say
    "array of five dimensions": (Packet("x", 0, {"a": np.zeros((1,) * 5)}), "'a'.*shape"),
    "op that is not a string": (Packet(3), "'op' must be of type str"),
    "round that is negative": (Packet("x", -1), "'round'"),
    "round beyond 64 bits": (Packet("x", 2**63), "'round'"),
    "round that is a bool": (Packet("x", True), "'round' must be of type int"),
    "round that is a fraction": (Packet("x", 1.5), "'round' must be of type int"),
    "scalar without value": (Packet("x", scalars={"a": None}), "Scalar 'a'"),
    "scalar that is not finite": (Packet("x", scalars={"a": float("nan")}), "Scalar 'a'"),
    "scalar beyond 64 bits": (Packet("x", scalars={"a": 2**63}), "Scalar 'a'"),
    "scalar of 5000 digits": (Packet("x", scalars={"a": 10**5000}), "Scalar 'a'"),
    "scalar that is a list": (Packet("x", scalars={"a": [1.0]}), "Scalar 'a'"),
    "integer of numpy": (Packet("x", scalars={"a": np.int64(3)}), "Scalar 'a'"),
    "list instead of an array": (Packet("x", arrays={"a": [1.0, 2.0]}), "'a' is a list"),
    "number instead of an array": (Packet("x", arrays={"a": 1.0}), "'a' is a float"),
    "array with a mask": (Packet("x", arrays={"a": np.ma.masked_array([1.0], [True])}), "'a' is a Masked"),
    "name that is no string": (Packet("x", arrays={3: np.zeros(2)}), "must be strings, not 3"),
    "name of a scalar that is no string": (Packet("x", scalars={None: 2}), "must be strings, not None"),
    "list of arrays": (Packet("x", arrays=[np.zeros(2)]), "dicts, not a list"),
    "header of megabytes": (Packet("x", scalars={"a": "b" * 2**20}), "header of .* bytes is larger"),
}


@pytest.mark.parametrize(("packet", "message"), NOT_ENCODED.values(), ids=NOT_ENCODED.keys())
def test_what_decode_would_refuse_is_not_encoded(packet, message):
    with pytest.raises(PacketError, match=message):
        packet.encode()
    with pytest.raises(PacketError, match=message):
        packet.nbytes


NOT_CANONICAL = {
    "spaces": b'{"op": "x","round":0,"arrays":{},"scalars":{}}',
    "other order": b'{"round":0,"op":"x","arrays":{},"scalars":{}}',
    "a name twice": b'{"op":"x","round":0,"arrays":{},"scalars":{"a":1,"a":2}}',
    "a field twice": b'{"op":"y","op":"x","round":0,"arrays":{},"scalars":{}}',
    "an escape": rb'{"op":"\u0078","round":0,"arrays":{},"scalars":{}}',
    "another form of a number": b'{"op":"x","round":0,"arrays":{},"scalars":{"a":1.50}}',
}


@pytest.mark.parametrize("content", NOT_CANONICAL.values(), ids=NOT_CANONICAL.keys())
def test_a_packet_has_one_encoding_and_no_room_for_anything_else(content):
    with pytest.raises(PacketError, match="canonical"):
        Packet.decode(raw_bytes(content))


def test_a_header_is_as_long_as_it_says_or_refused_before_it_is_read():
    with pytest.raises(PacketError, match="header of 4294967295 bytes is larger"):
        Packet.decode(PREFIX.pack(b"SKFC", 2, 2**32 - 1) + b"{}")


@pytest.mark.parametrize("length", range(8))
def test_decoded_arrays_are_aligned_so_that_sums_do_not_depend_on_the_way_they_came(length):
    value = np.random.default_rng(0).normal(size=1001)
    packet = Packet("x" * length, 0, {"a": np.ones(3, "<f2"), "b": value})
    came = round_trip(packet).arrays["b"]
    assert came.flags.aligned
    assert came.flags.c_contiguous
    assert came.sum() == value.sum()


def test_a_decoded_array_does_not_keep_the_rest_of_its_packet():
    packet = round_trip(Packet("x", 0, {"small": np.ones(2), "large": np.ones(10_000)}))
    small = packet.arrays["small"]
    assert (small if small.base is None else small.base).nbytes == small.nbytes


# --- boundaries -----------------------------------------------------------------------------------


def test_a_header_has_at_most_a_mebibyte():
    empty = len(json.dumps(header(scalars={"a": ""}), separators=(",", ":")))
    largest = Packet("x", scalars={"a": "b" * (2**20 - empty)})
    assert_same_packet(largest, round_trip(largest))
    with pytest.raises(PacketError, match="header of 1048577 bytes is larger than 1048576"):
        Packet("x", scalars={"a": "b" * (2**20 - empty + 1)}).encode()
    longer = json.dumps(header(scalars={"a": "b" * (2**20 - empty + 1)}), separators=(",", ":"))
    with pytest.raises(PacketError, match="header of 1048577 bytes"):
        Packet.decode(raw_bytes(longer.encode()))


@pytest.mark.parametrize("number", [0, 1, 2**63 - 1])
def test_rounds_of_64_bits_travel(number):
    assert round_trip(Packet("x", number)).round == number


@pytest.mark.parametrize("number", [-(2**63), 2**63 - 1])
def test_whole_numbers_of_64_bits_travel_and_larger_ones_do_not(number):
    assert round_trip(Packet("x", scalars={"a": number})).scalars == {"a": number}
    with pytest.raises(PacketError, match="Scalar 'a'"):
        Packet("x", scalars={"a": number + (1 if number > 0 else -1)}).encode()


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ([2**30, 2**29], "ends inside array 'a'"),
        ([2**59, 1], "ends inside array 'a'"),
        ([2**30, 2**30], "no valid dtype and shape"),
        ([2**60], "no valid dtype and shape"),
        ([2**60, 0], "no valid dtype and shape"),
    ],
    ids=str,
)
def test_shapes_of_fewer_than_an_exbi_elements_can_be_meant(shape, reason):
    with pytest.raises(PacketError, match=reason):
        Packet.decode(raw_bytes(header(arrays={"a": ["|u1", shape]})))


def test_a_table_of_one_and_one_of_64_values_travel():
    for used in (1, 64):
        value = np.repeat(np.arange(used, dtype="<u8") << 56, 512 // used).view("<f8")
        packet = Packet("x", 0, {"a": value})
        head = packet.encode()[PREFIX.size :].partition(b"}")[0]
        assert f'["<f8",[512],{used}]'.encode() in head
        assert round_trip(packet).arrays["a"].tobytes() == value.tobytes()


@pytest.mark.parametrize("spec", [[0], [-1], [65], [True], [1.0], ["1"], [None], [1, 1]], ids=str)
@pytest.mark.parametrize("dtype", ["<f8", "<f4"])
def test_a_table_has_one_to_64_values(dtype, spec):
    with pytest.raises(PacketError, match="'a' has no valid dtype and shape"):
        Packet.decode(raw_bytes(header(arrays={"a": [dtype, [4], *spec]}), bytes(40)))


@pytest.mark.parametrize("dtype", ["<f2", "|u1", "<u2", "<u4", "<i8"])
def test_other_numbers_have_no_table(dtype):
    with pytest.raises(PacketError, match="'a' has no valid dtype and shape"):
        Packet.decode(raw_bytes(header(arrays={"a": [dtype, [16], 1]}), bytes(200)))


def test_any_mapping_and_numbers_of_numpy_travel():
    arrays = {"a": np.float64(2.5), "b": np.ones(3)}
    for kind in (MappingProxyType, OrderedDict):
        packet = Packet("x", 0, kind(arrays), kind({"s": 1}))
        assert_same_packet(packet, round_trip(packet))
        assert packet.nbytes == len(packet.encode())


def test_packets_with_equal_arrays_and_other_scalars_have_headers_of_their_own():
    plain, told = Packet("x", 1, {"a": np.ones(3)}), Packet("x", 1, {"a": np.ones(3)}, {"s": 1})
    for packet in (plain, told, plain):
        assert round_trip(Packet("x", 1, packet.arrays, packet.scalars)).scalars == packet.scalars


def test_a_packet_is_of_round_0_unless_it_says_otherwise():
    assert Packet("x").round == 0
    assert round_trip(Packet("x")) == Packet("x")


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
        assert not decodes_or_refuses(PREFIX.pack(b"SKFC", 2, len(content)) + content)


def test_mutated_packets_are_refused_or_are_packets():
    rng = np.random.default_rng(2)
    for _ in range(2000):
        data = bytearray(WHOLE)
        for position in rng.integers(0, len(data), rng.integers(1, 4)):
            data[position] = rng.integers(0, 256)
        decodes_or_refuses(bytes(data))


def test_headers_of_random_json_are_refused_or_are_packets():
    rng = np.random.default_rng(3)
    pieces = json.loads('[0, 1, -1, 2.5, true, null, "x", "<f8", "|u1", [], [2], [0], [2, 2], {}, ["<f8", [2]]]')

    def pick():
        return pieces[rng.integers(len(pieces))]

    for _ in range(1000):
        content = header(arrays={"a": [pick(), pick()], "b": pick()}, scalars={"s": pick()})
        if rng.random() < 0.5:
            content[str(rng.choice(["op", "round", "arrays", "scalars"]))] = pick()
        decodes_or_refuses(raw_bytes(content, rng.bytes(int(rng.integers(0, 40)))))


def test_what_decodes_is_written_back_byte_for_byte():
    rng = np.random.default_rng(4)
    survived = 0
    for _ in range(2000):
        data = bytearray(WHOLE)
        data[rng.integers(PREFIX.size, len(data))] = rng.integers(0, 256)
        if decodes_or_refuses(bytes(data)):
            assert Packet.decode(data).encode() == data
            survived += 1
    assert survived > 100  # changes inside arrays, strings and numbers
