"""What travels: a flat set of named arrays and scalars with one canonical encoding.

No pickle and no objects: a header in JSON and the arrays as raw little-endian bytes. The size of a packet
is the length of that encoding, so byte counts are exact whatever carries it.
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

_MAGIC = b"SKFC"
_VERSION = 1
_PREFIX = struct.Struct("<4sHI")
_DTYPES = frozenset({"<f8", "<f4", "<f2", "|u1", "<u2", "<u4", "<i8"})


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
        Number of the round the packet belongs to.
    arrays : mapping of str to ndarray
        Real or unsigned-integer arrays.
    scalars : mapping of str to int, float, str or bool

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.federation.packet import Packet
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

    def _header(self):
        arrays = {}
        for name, value in self.arrays.items():
            dtype = _wire_dtype(value).str
            if dtype not in _DTYPES:
                raise PacketError(f"Array {name!r} has dtype {value.dtype}; packets carry {_DTYPES}.")
            arrays[name] = [dtype, list(value.shape)]
        header = {
            "op": self.op,
            "round": self.round,
            "arrays": arrays,
            "scalars": dict(self.scalars),
        }
        return json.dumps(header, separators=(",", ":"), allow_nan=False).encode()

    @property
    def nbytes(self):
        """Length of the encoding in bytes."""
        payload = sum(value.nbytes for value in self.arrays.values())
        return _PREFIX.size + len(self._header()) + payload

    def encode(self):
        """The packet as bytes."""
        header = self._header()
        parts = [_PREFIX.pack(_MAGIC, _VERSION, len(header)), header]
        for value in self.arrays.values():
            parts.append(np.ascontiguousarray(value, dtype=_wire_dtype(value)).tobytes())
        return b"".join(parts)

    @classmethod
    def decode(cls, data):
        """The packet that `data` encodes.

        Raises
        ------
        PacketError
            If the bytes are not one whole packet of a known version.
        """
        header, offset = _read_header(data)
        arrays = {}
        for name, (dtype, shape) in header["arrays"].items():
            size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
            if offset + size > len(data):
                raise PacketError(f"Packet ends inside array {name!r}.")
            flat = np.frombuffer(data, dtype=dtype, count=size // np.dtype(dtype).itemsize, offset=offset)
            arrays[name] = flat.reshape(shape)
            offset += size
        if offset != len(data):
            raise PacketError(f"Packet has {len(data) - offset} bytes after its last array.")
        return cls(header["op"], header["round"], arrays, header["scalars"])


def _wire_dtype(value):
    return value.dtype.newbyteorder("<")


def _read_header(data):
    if len(data) < _PREFIX.size:
        raise PacketError(f"Packet of {len(data)} bytes is shorter than its prefix.")
    magic, version, length = _PREFIX.unpack_from(data)
    if magic != _MAGIC:
        raise PacketError("These bytes are not a packet (wrong magic number).")
    if version != _VERSION:
        raise PacketError(f"Packet version {version} is not known; this library reads {_VERSION}.")
    end = _PREFIX.size + length
    if end > len(data):
        raise PacketError("Packet ends inside its header.")
    try:
        header = json.loads(bytes(data[_PREFIX.size : end]).decode("utf-8"))
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise PacketError(f"Packet header is not valid JSON: {error}.") from None
    _check_header(header)
    return header, end


def _check_header(header):
    keys = {"op": str, "round": int, "arrays": dict, "scalars": dict}
    if not isinstance(header, dict) or set(header) != set(keys):
        raise PacketError(f"Packet header must hold exactly {sorted(keys)}.")
    for key, kind in keys.items():
        if not isinstance(header[key], kind) or isinstance(header[key], bool):
            raise PacketError(f"Packet header field {key!r} must be of type {kind.__name__}.")
    for name, spec in header["arrays"].items():
        if not _is_array_spec(spec):
            raise PacketError(f"Array {name!r} has no valid dtype and shape in the header: {spec!r}.")
    for name, value in header["scalars"].items():
        if not isinstance(value, int | float | str | bool):
            raise PacketError(f"Scalar {name!r} must be a number, string or bool.")


def _is_array_spec(spec):
    if not (isinstance(spec, list) and len(spec) == 2 and isinstance(spec[1], list)):
        return False
    dtype, shape = spec
    whole = all(isinstance(k, int) and not isinstance(k, bool) and 0 <= k < 2**40 for k in shape)
    return isinstance(dtype, str) and dtype in _DTYPES and len(shape) <= 4 and whole


@dataclass(frozen=True)
class Failure:
    """Why a client gave no answer. Never carries the text of an exception at the client's site."""

    kind: Literal["timeout", "offline", "client-error", "crashed", "refused"]
    detail: str = ""
