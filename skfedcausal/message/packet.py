"""Packets: a flat set of named arrays and scalars with one canonical encoding."""

import json
import math
import reprlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Literal, Self

import numpy as np

from .tuning import TUNING

# Codes of arrays in packets: all bytes without repetition, and series in four bits a number.
#
# *Exactly.* The first byte of a real number holds its sign and the upper part of its exponent. A series takes
# few values there, so that these bytes travel as a table of the values and, for each number, its place in the
# table, in at most six bits. An array has exactly one code: the table is sorted, every value in it occurs, and
# it is used if, and only if, that is shorter.
#
# *In four bits.* Whole steps of a fraction of each column's standard deviation. Before it is rounded every
# number is moved by a part of a step that sender and receiver know, and moved back afterwards. The error is
# then at most half a step and spread evenly over it whatever the series is, a slow or a two-valued one too
# (subtractive dither, Schuchman 1964): in a regression it acts as white noise of ``1 / 48`` of the column's
# variance, and its effect on the coefficients is that of so much more residual. The mean of each column is kept
# as it is, over the rows that are not all zero, as the first of an episode are.

MOST = 64  # values in a table
STEPS = 2  # in a standard deviation

_FEW = 64  # numbers that a set counts faster
_GOLDEN = (5**0.5 - 1) / 2
_SMALLEST = np.finfo(float).tiny


# --- exactly -----------------------------------------------------------------------------------------------


class CodeError(ValueError):
    """Bytes that are not the code of an array."""


def n_leading(array):
    """Number of values of the leading byte if they are written as a table, otherwise 0."""
    n = array.size
    if n < TUNING.codes_fewest:
        return 0
    dtype = array.dtype
    if dtype.kind != "f" or dtype.itemsize < 4:
        return 0
    if n <= _FEW:
        data = array.astype(dtype.newbyteorder("<"), copy=False).tobytes()
        used = len(set(data[dtype.itemsize - 1 :: dtype.itemsize]))
    else:
        used = len(_occurring(_bytes_of(array)[:, -1]))
    return used if _is_shorter(n, used) else 0


def code_size(n, itemsize, leading):
    """Bytes of the code of an array of n numbers."""
    if leading == 0:
        return n * itemsize
    bits = (leading - 1).bit_length()  # inlined: the ledger asks for the size of every array
    return leading + bits * -(-n // 8) + n * (itemsize - 1)


def encoded(array, leading):
    """Code of an array whose :func:`n_leading` is known."""
    numbers = _bytes_of(array)
    if leading == 0:
        return numbers.tobytes()
    first = numbers[:, -1]
    table = _occurring(first)
    place = np.zeros(256, dtype=np.uint8)
    place[table] = np.arange(len(table))
    places = place[first]
    planes = [np.packbits((places >> bit) & 1).tobytes() for bit in range((leading - 1).bit_length())]
    return b"".join([table.tobytes(), *planes, numbers[:, :-1].tobytes()])


def decoded(data, dtype, n, leading):
    """Array of n little-endian numbers, one-dimensional; CodeError if this is not the code that it has."""
    out = np.empty(n, dtype)
    numbers = out.view(np.uint8).reshape(n, out.dtype.itemsize)
    data = np.frombuffer(data, dtype=np.uint8)
    if leading == 0:
        numbers[:] = data.reshape(numbers.shape)
        if n_leading(out):
            raise CodeError("is not written in the shortest way")
        return out
    table, rest = data[:leading], data[leading:]
    if not (_is_shorter(n, leading) and (table[1:] > table[:-1]).all()):
        raise CodeError("has a table that no array has")
    places = np.zeros(n, dtype=np.uint8)
    length = -(-n // 8)
    for bit in range((leading - 1).bit_length()):
        bits, rest = np.unpackbits(rest[:length]), rest[length:]
        if bits[n:].any():
            raise CodeError("has bits behind its end")
        places |= bits[:n] << bit
    if not np.array_equal(_occurring(places), np.arange(leading)):
        raise CodeError("does not use its table")
    numbers[:, -1] = table[places]
    numbers[:, :-1] = rest.reshape(n, -1)
    return out


def _bytes_of(array):
    """Bytes of each number, the leading one last, shape (n, itemsize)."""
    array = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
    return array.reshape(-1, 1).view(np.uint8)


def _occurring(values):
    """The bytes that occur, in order."""
    return np.flatnonzero(np.bincount(values)).astype(np.uint8)


def _is_shorter(n, leading):
    return leading <= MOST and code_size(n, 1, leading) < n


# --- in four bits ------------------------------------------------------------------------------------------


def stepped(series):
    """A series in four bits a number and what gives back its numbers, shape (n_columns,)."""
    columns = np.ascontiguousarray(series.T, dtype=float)  # along rows all this takes several times as long
    unit = np.maximum(np.abs(columns).mean(axis=1), _SMALLEST)
    scaled = columns / unit[:, None]
    level, step, counted = scaled.mean(axis=1), scaled.std(axis=1) / STEPS, scaled.any(axis=0)
    scaled = (scaled - level[:, None]) / np.where(step > 0, step, 1.0)[:, None] + _parts_of(len(series))
    whole = np.rint(scaled).T
    if counted.any():
        level = level + (scaled - whole.T)[:, counted].mean(axis=1) * step
    outside = np.abs(whole) >= TUNING.codes_middle
    beyond = whole[outside].astype(np.int64)
    whole[outside] = -TUNING.codes_middle
    codes = (whole + TUNING.codes_middle).astype(np.uint8).reshape(-1)
    codes = np.append(codes, np.zeros(len(codes) % 2, dtype=np.uint8))
    return codes[::2] | codes[1::2] << 4, beyond, level * unit, step * unit


def unstepped(codes, beyond, level, step, n_samples):
    """Series behind the results of :func:`stepped`; ValueError if they do not go together."""
    p = len(level)
    size = n_samples * p
    if codes.shape != (-(-size // 2),):
        raise ValueError(f"has shape {codes.shape} for {n_samples} rows of {p} columns")
    each, rest = np.split(np.column_stack([codes & 15, codes >> 4]).reshape(-1), [size])
    if rest.any():
        raise ValueError("has bits behind its end")
    if size - np.count_nonzero(each) != len(beyond) or (np.abs(beyond) < TUNING.codes_middle).any():
        raise ValueError("does not go with the numbers beyond it")
    whole = each.astype(float) - TUNING.codes_middle
    whole[each == 0] = beyond
    return (whole.reshape(n_samples, p) - _parts_of(n_samples)[:, None]) * step + level


@lru_cache(maxsize=1)  # units of a plant have the same rows
def _parts_of(n_samples):
    """Fractional parts of multiples of the golden ratio, about zero."""
    parts = np.arange(n_samples) * _GOLDEN
    return parts - np.floor(parts) - 0.5


# Packets: a flat set of named arrays and scalars with one canonical encoding.
#
# No pickle and no objects: a header in JSON and the arrays as little-endian bytes, of which those that hardly
# vary are written once (:mod:`~skfedcausal.message.packet`). Every packet has
# exactly one encoding and every encoding is of one packet, so that the size of a packet is the length of its
# bytes whatever carries it, and nothing can hide in how it is written. What `decode` refuses, `encode` refuses.

NOTHING = "nothing yet"  # operation of the answer of a client that may have one to the same question later

_MAGIC = b"SKFC"
_PREFIX = struct.Struct("<4sHI")
_DTYPES = ("<f8", "<f4", "<f2", "|u1", "<u2", "<u4", "<i8")
_FIELDS = {"op": str, "round": int, "arrays": dict, "scalars": dict}


class PacketError(ValueError):
    """A packet that is not what it should be: unknown version, wrong shape, dtype or content."""


@dataclass(frozen=True)
class Packet:
    """A message between the server and one client.

    Attributes
    ----------
    op : str
        What is asked or answered.
    round : int
        Number of the round the packet belongs to, not negative.
    arrays : mapping of str to ndarray
        Real or unsigned-integer arrays of at most four dimensions.
    scalars : mapping of str to int, float, str or bool
        Finite numbers, integers of at most 64 bits.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message.packet import Packet
    >>> packet = Packet("states", 1, {"z": np.zeros((3, 2))})
    >>> data = packet.encode()
    >>> len(data) == packet.nbytes
    True
    >>> Packet.decode(data).arrays["z"].shape
    (3, 2)
    """

    op: str
    round: int = 0
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    scalars: Mapping[str, int | float | str | bool] = field(default_factory=dict)

    def __getstate__(self):
        return {name: getattr(self, name) for name in ("op", "round", "arrays", "scalars")}  # not what was found of it

    @cached_property
    def _header(self):
        """The header, and the size of the table of every array: finding it takes a look at all numbers."""
        for value in (self.arrays, self.scalars):
            if type(value) is not dict and not isinstance(value, Mapping):
                raise PacketError(f"Arrays and scalars of a packet are dicts, not a {type(value).__name__}.")
        specs = [_array_spec(name, value) for name, value in self.arrays.items()]
        arrays = {name: [dtype, list(shape), leading][: 3 if leading else 2] for name, dtype, shape, leading in specs}
        header = {"op": self.op, "round": self.round, "arrays": arrays, "scalars": dict(self.scalars)}
        _check_header(header)
        text = _dumped(header)
        _check_header_size(len(text))
        return text, [leading for _, _, _, leading in specs]

    @cached_property
    def nbytes(self) -> int:
        """Length of the encoding in bytes."""
        header, tables = self._header
        each = zip(self.arrays.values(), tables, strict=True)
        sizes = [code_size(value.size, value.dtype.itemsize, leading) for value, leading in each]
        return _PREFIX.size + len(header) + sum(sizes)

    def is_of_size(self, nbytes: int) -> None:
        """Take note of the length of the encoding, where it is known to be that of another packet.

        Parameters
        ----------
        nbytes : int
        """
        vars(self)["nbytes"] = nbytes

    def encode(self) -> bytes:
        """The packet as bytes.

        Returns
        -------
        bytes

        Raises
        ------
        PacketError
            If it holds anything that does not travel.
        """
        header, tables = self._header
        arrays = zip(self.arrays.values(), tables, strict=True)
        bodies = [encoded(np.asarray(value), leading) for value, leading in arrays]
        return b"".join([_PREFIX.pack(_MAGIC, TUNING.packet_version, len(header)), header, *bodies])

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The packet that `data` encodes.

        Its arrays are copies, aligned in memory and read-only.

        Parameters
        ----------
        data : bytes

        Returns
        -------
        Packet

        Raises
        ------
        PacketError
            If the bytes are not one whole packet of a known version.
        """
        view: Any = memoryview(data).cast("B")
        header, offset = _read_header(view)
        arrays = {}
        for name, (dtype, shape, *leading) in header["arrays"].items():
            dtype, count, leading = np.dtype(dtype), math.prod(shape), leading[0] if leading else 0
            size = code_size(count, dtype.itemsize, leading)
            if offset + size > len(view):
                raise PacketError(f"Packet ends inside array {name!r}.")
            try:
                flat = decoded(view[offset : offset + size], dtype, count, leading)
            except CodeError as error:
                raise PacketError(f"Array {name!r} {error}.") from None
            flat.setflags(write=False)
            arrays[name] = flat.reshape(shape)
            offset += size
        if offset != len(view):
            raise PacketError(f"Packet has {len(view) - offset} bytes after its last array.")
        return cls(header["op"], header["round"], arrays, header["scalars"])


def _array_spec(name, value):
    """Name, dtype, shape and size of the table of an array, zero if it has none."""
    if type(value) is not np.ndarray and (
        not isinstance(value, (np.ndarray, np.generic)) or isinstance(value, np.ma.MaskedArray)
    ):
        raise PacketError(f"Packets carry plain arrays; {name!r} is a {type(value).__name__}.")
    dtype = value.dtype.newbyteorder("<").str
    if dtype not in _DTYPES:
        raise PacketError(f"Array {name!r} has dtype {value.dtype}; packets carry {', '.join(_DTYPES)}.")
    return name, dtype, value.shape, n_leading(value)


def _dumped(header):
    header = {key: header[key] for key in _FIELDS}
    return json.dumps(header, separators=(",", ":")).encode("ascii")


def _read_header(data):
    if len(data) < _PREFIX.size:
        raise PacketError(f"Packet of {len(data)} bytes is shorter than its prefix.")
    magic, version, length = _PREFIX.unpack_from(data)
    if magic != _MAGIC:
        raise PacketError("These bytes are not a packet (wrong magic number).")
    if version != TUNING.packet_version:
        raise PacketError(f"Packet version {version} is not known; this library reads {TUNING.packet_version}.")
    _check_header_size(length)
    end = _PREFIX.size + length
    if end > len(data):
        raise PacketError("Packet ends inside its header.")
    text = bytes(data[_PREFIX.size : end])
    try:
        header = json.loads(text.decode("ascii"))
    except (ValueError, RecursionError) as error:
        raise PacketError(f"Packet header is not valid JSON: {error}.") from None
    _check_header(header)
    if _dumped(header) != text:
        raise PacketError("Packet header is not in its canonical form.")
    return header, end


def _check_header_size(size):
    if size > TUNING.packet_max_header:
        raise PacketError(f"Packet header of {size} bytes is larger than {TUNING.packet_max_header}.")


def _check_header(header):
    if not isinstance(header, dict) or set(header) != set(_FIELDS):
        raise PacketError(f"Packet header must hold exactly {list(_FIELDS)}.")
    for key, kind in _FIELDS.items():
        if not isinstance(header[key], kind) or isinstance(header[key], bool):
            raise PacketError(f"Packet field {key!r} must be of type {kind.__name__}.")
    if not 0 <= header["round"] < TUNING.packet_max_integer:
        raise PacketError("Packet field 'round' must be a 64-bit number that is not negative.")
    for name in (*header["arrays"], *header["scalars"]):
        if not isinstance(name, str):
            raise PacketError(f"Names of arrays and scalars must be strings, not {name!r}.")
    for name, spec in header["arrays"].items():
        if not _is_array_spec(spec):
            raise PacketError(f"Array {name!r} has no valid dtype and shape: {reprlib.repr(spec)}.")
    for name, value in header["scalars"].items():
        if not _is_scalar(value):
            raise PacketError(f"Scalar {name!r} must be a finite number, a string or a bool.")


def _is_scalar(value):
    if isinstance(value, int):
        return -TUNING.packet_max_integer <= value < TUNING.packet_max_integer
    return isinstance(value, str) or (isinstance(value, float) and math.isfinite(value))


def _is_array_spec(spec):
    if not (isinstance(spec, list) and len(spec) in (2, 3) and isinstance(spec[1], list)):
        return False
    dtype, shape, *leading = spec
    if leading and not (type(leading[0]) is int and 0 < leading[0] <= MOST and dtype in ("<f8", "<f4")):
        return False
    whole = all(isinstance(k, int) and not isinstance(k, bool) and k >= 0 for k in shape)
    if not (isinstance(dtype, str) and dtype in _DTYPES and len(shape) <= TUNING.packet_max_dimensions and whole):
        return False
    return math.prod(max(k, 1) for k in shape) < TUNING.packet_max_elements


@dataclass(frozen=True)
class Failure:
    """Why a client gave no answer. Never carries the text of an exception at the client's site.

    Parameters
    ----------
    kind : {"timeout", "offline", "client-error", "crashed", "refused"}
    detail : str, default=""
        What may be said about it outside the site.

    Examples
    --------
    >>> from skfedcausal.federation import Failure
    >>> Failure("timeout").kind
    'timeout'
    """

    kind: Literal["timeout", "offline", "client-error", "crashed", "refused"]
    detail: str = ""
