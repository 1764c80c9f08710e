"""A packet on its way between two machines: addressed, numbered, signed.

The envelope says whose packet it is, in which run and which number it has; the signature covers all of it.
A packet that was changed, sent to another unit, taken from another run or sent again is told from a good one
without looking inside.
"""

import hashlib
import hmac
import json
import os
import re
import secrets
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ..message.packet import PacketError

_MAGIC = b"SKFE"
_VERSION = 1
_PREFIX = struct.Struct("<4sHIQ")
PREFIX_BYTES, SIGNATURE_BYTES = _PREFIX.size, hashlib.sha256().digest_size
_ADDRESS = {"run": str, "site": str, "direction": str, "sequence": int}
_HEADS = {"head", "seen"}
_MAX_HEADER = 4096  # bytes
MAX_FRAME = 2**30  # bytes; more is refused unread
_MIN_KEY = 16  # bytes


class PartialFrameError(PacketError):
    """The beginning of an envelope: the rest may still come."""


@dataclass(frozen=True)
class Envelope:
    """Address of a packet, written on its outside; with it travel the heads of ledgers.

    `head` is the last line of the sender's ledger, `seen` the head that it last had from the other side: the
    signature over the envelope countersigns it.
    """

    run: str
    site: str
    direction: Literal["up", "down"]
    sequence: int
    head: str = field(default="", compare=False)
    seen: str = field(default="", compare=False)

    def seal(self, payload, key=None):
        """Bytes of the envelope with its content."""
        said = {name: value for name, value in vars(self).items() if name in _ADDRESS or value}
        header = json.dumps(said, separators=(",", ":")).encode("ascii")
        parts = (_PREFIX.pack(_MAGIC, _VERSION, len(header), len(payload)), header, payload)
        signing = Signing(key)
        for part in parts:
            signing.update(part)
        return b"".join((*parts, signing.signature()))

    def open(self, frame, key=None, max_bytes=MAX_FRAME):
        """Content of an envelope that is expected to be this one."""
        found, payload = read_envelope(frame, key, max_bytes)
        for name in _ADDRESS:
            if getattr(found, name) != (value := getattr(self, name)):
                raise PacketError(f"Packet is of {name} {getattr(found, name)!r}, not {value!r}: sent again or astray.")
        return payload


def read_envelope(frame, key=None, max_bytes=MAX_FRAME):
    """Outside and content of an envelope."""
    end, size = _header_end(frame, max_bytes), len(frame)
    signing = Signing(key)
    signing.update(memoryview(frame)[: size - SIGNATURE_BYTES])
    signing.check(bytes(frame[size - SIGNATURE_BYTES :]))
    return _header(bytes(frame[PREFIX_BYTES:end])), bytes(frame[end : size - SIGNATURE_BYTES])


def outside(frame):
    """Address on a whole envelope, unproven."""
    return _header(bytes(frame[PREFIX_BYTES : _header_end(frame)]))


class Signing:
    """A signature over bytes that come part by part."""

    def __init__(self, key=None):
        self._digest = hmac.new(key or b"", digestmod="sha256")
        self.update = self._digest.update

    def signature(self):
        """Signature over all parts so far."""
        return self._digest.digest()

    def check(self, signature):
        """Refuse another signature."""
        if not hmac.compare_digest(self.signature(), signature):
            raise PacketError("Signature does not fit: changed on the way, or signed with another key.")


def _header_end(frame, max_bytes=MAX_FRAME):
    """Where the header ends in the bytes of one whole envelope of a known version; others are refused."""
    claimed_size(frame, len(frame), max_bytes)
    return PREFIX_BYTES + _PREFIX.unpack_from(frame)[2]


def claimed_size(start, n_bytes, max_bytes=MAX_FRAME):
    """Size of an envelope that begins so, of which `n_bytes` are there; refused if it can be none."""
    if n_bytes > max_bytes:
        raise PacketError(f"Packet of {n_bytes} bytes is larger than the {max_bytes} that are taken.")
    if not _MAGIC.startswith(bytes(start[: len(_MAGIC)])):
        raise PacketError("These bytes are not a signed packet (wrong magic number).")
    if len(start) < PREFIX_BYTES:
        raise PartialFrameError(f"Packet of {n_bytes} bytes is shorter than its prefix.")
    _, version, n_header, n_payload = _PREFIX.unpack_from(start)
    if version != _VERSION:
        raise PacketError(f"Signed packet version {version} is not known; this library reads {_VERSION}.")
    size = PREFIX_BYTES + n_header + n_payload + SIGNATURE_BYTES
    if n_header > _MAX_HEADER or size > max_bytes:
        raise PacketError(f"Packet says it has {size} bytes, more than the {max_bytes} that are taken.")
    if n_bytes < size:
        raise PartialFrameError(f"Packet has {n_bytes} of {size} bytes.")
    if n_bytes > size:
        raise PacketError(f"Packet has {n_bytes - size} bytes after its signature.")
    return size


def _header(text):
    try:
        header = json.loads(text.decode("ascii"))
        good = _ADDRESS.keys() <= set(header) <= _ADDRESS.keys() | _HEADS
        good = good and all(type(header[k]) is kind for k, kind in _ADDRESS.items())
        good = good and all(re.fullmatch("[0-9a-f]{64}", header[k]) for k in _HEADS & set(header))
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
        If the file holds no key, or others than its owner may read or write it.

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
    if os.name == "posix" and (mode := Path(path).stat().st_mode & 0o777) & 0o077:
        raise ValueError(
            f"{path} can be read or written by others (mode {mode:o}): `chmod 600` it, and make a new key if "
            "somebody else may have read it."
        )
    return key
