"""Packets: a flat set of named arrays and scalars with one canonical encoding.

No pickle and no objects: a header in JSON and the arrays as little-endian bytes, of which those that hardly
vary are written once (:mod:`~skfedcausal.message.codes`). Every packet has
exactly one encoding and every encoding is of one packet, so that the size of a packet is the length of its
bytes whatever carries it, and nothing can hide in how it is written. What `decode` refuses, `encode` refuses.
"""

import json
import math
import reprlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np

from .codes import MOST, CodeError, code_size, decoded, encoded, n_leading
from .tuning import TUNING

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
