"""A packet on its way between two machines: addressed, numbered, signed.

The envelope says whose packet it is, in which run and which number it has; the signature covers all of it.
A packet that was changed, sent to another unit, taken from another run or sent again is told from a good one
without looking inside.
"""

import hashlib
import hmac
import json
import os
import secrets
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..message.packet import PacketError

_MAGIC = b"SKFE"
_VERSION = 1
_PREFIX = struct.Struct("<4sHIQ")
_SIGNATURE = hashlib.sha256().digest_size
_MAX_HEADER = 4096  # bytes
MAX_FRAME = 2**30  # bytes; more is refused unread
_MIN_KEY = 16  # bytes


class PartialFrameError(PacketError):
    """The beginning of an envelope: the rest may still come."""


@dataclass(frozen=True)
class Envelope:
    """Address of a packet, written on its outside."""

    run: str
    site: str
    direction: Literal["up", "down"]
    sequence: int

    def seal(self, payload, key=None):
        """Bytes of the envelope with its content."""
        header = json.dumps(vars(self), separators=(",", ":")).encode("ascii")
        parts = (_PREFIX.pack(_MAGIC, _VERSION, len(header), len(payload)), header, payload)
        return b"".join((*parts, _signed(parts, key)))

    def open(self, frame, key=None, max_bytes=MAX_FRAME):
        """Content of an envelope that is expected to be this one."""
        found, payload = read_envelope(frame, key, max_bytes)
        for name, value in vars(self).items():
            if getattr(found, name) != value:
                raise PacketError(f"Packet is of {name} {getattr(found, name)!r}, not {value!r}: sent again or astray.")
        return payload


def read_envelope(frame, key=None, max_bytes=MAX_FRAME):
    """Outside and content of an envelope."""
    end, size = _header_end(frame, max_bytes), len(frame)
    signed, signature = memoryview(frame)[: size - _SIGNATURE], bytes(frame[size - _SIGNATURE :])
    if not hmac.compare_digest(_signed((signed,), key), signature):
        raise PacketError("Signature does not fit: changed on the way, or signed with another key.")
    return _header(bytes(frame[_PREFIX.size : end])), bytes(frame[end : size - _SIGNATURE])


def outside(frame):
    """Address on a whole envelope, unproven."""
    return _header(bytes(frame[_PREFIX.size : _header_end(frame)]))


def _signed(parts, key):
    digest = hmac.new(key or b"", digestmod="sha256")
    for part in parts:
        digest.update(part)
    return digest.digest()


def _header_end(frame, max_bytes=MAX_FRAME):
    """Where the header ends in the bytes of one whole envelope of a known version; others are refused."""
    if len(frame) > max_bytes:
        raise PacketError(f"Packet of {len(frame)} bytes is larger than the {max_bytes} that are taken.")
    if not _MAGIC.startswith(bytes(frame[: len(_MAGIC)])):
        raise PacketError("These bytes are not a signed packet (wrong magic number).")
    if len(frame) < _PREFIX.size:
        raise PartialFrameError(f"Packet of {len(frame)} bytes is shorter than its prefix.")
    _, version, n_header, n_payload = _PREFIX.unpack_from(frame)
    if version != _VERSION:
        raise PacketError(f"Signed packet version {version} is not known; this library reads {_VERSION}.")
    size = _PREFIX.size + n_header + n_payload + _SIGNATURE
    if n_header > _MAX_HEADER or size > max_bytes:
        raise PacketError(f"Packet says it has {size} bytes, more than the {max_bytes} that are taken.")
    if len(frame) < size:
        raise PartialFrameError(f"Packet has {len(frame)} of {size} bytes.")
    if len(frame) > size:
        raise PacketError(f"Packet has {len(frame) - size} bytes after its signature.")
    return _PREFIX.size + n_header


def _header(text):
    try:
        header = json.loads(text.decode("ascii"))
        kinds = {"run": str, "site": str, "direction": str, "sequence": int}
        good = set(header) == set(kinds) and all(type(header[k]) is kind for k, kind in kinds.items())
    except (ValueError, TypeError, RecursionError):
        good = False
    if not good or header["direction"] not in ("up", "down"):
        raise PacketError("The outside of the packet cannot be read.")
    return Envelope(**header)


def write_key(path):
    """Make a key for a unit and its server, readable by its owner only.

    Parameters
    ----------
    path : str or Path
        Must not exist yet. Bring a copy to the other side by a way that you trust.

    Returns
    -------
    Path

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skfedcausal.federation import read_key, write_key
    >>> path = write_key(Path(tempfile.mkdtemp()) / "boiler.key")
    >>> len(read_key(path))
    32

    Raises
    ------
    FileExistsError
        If the file is there already: a key in use is not overwritten.
    """
    path = Path(path)
    try:
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise FileExistsError(f"{path} is there already; a key in use is not overwritten.") from None
    with os.fdopen(made, "w") as file:
        file.write(secrets.token_hex(32) + "\n")
    return path


def read_key(path):
    """Key in a file, as :func:`write_key` writes it.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    bytes

    Raises
    ------
    ValueError
        If the file holds no key.

    See Also
    --------
    write_key : Makes one, with an example.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skfedcausal.federation import read_key, write_key
    >>> len(read_key(write_key(Path(tempfile.mkdtemp()) / "turbine.key")))
    32
    """
    try:
        key = bytes.fromhex(Path(path).read_text(encoding="ascii").strip())
    except (ValueError, UnicodeDecodeError):
        key = b""
    if len(key) < _MIN_KEY:
        raise ValueError(f"{path} holds no key: expected at least {_MIN_KEY} bytes in hexadecimal digits.")
    return key
