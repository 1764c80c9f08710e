"""A packet on its way between two machines: addressed, numbered, signed.

The envelope says whose packet it is, in which run and which number it has; the signature covers all of it.
A packet that was changed, sent to another unit, taken from another run or sent again is told from a good one
without looking inside. Files that others write have one reader, :func:`read_signed`: regular, bounded, and signed
before a byte of them is used.
"""

import errno
import hashlib
import hmac
import json
import os
import re
import secrets
import stat
import struct
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..message.packet import PacketError
from .signatures import (
    NOT_SIGNED,
    KeyPair,
    SharedKey,
    check_terms,
    key_and_terms,
    refuse_open_to_others,
    signed_message,
    until_line,
    write_key_file,
)
from .tuning import TUNING

_MAGIC = b"SKFE"
_SIGNATURE_BYTES = {TUNING.envelope_shared: 32, TUNING.envelope_pair: 64}
_PREFIX = struct.Struct("<4sHIQ")
PREFIX_BYTES = _PREFIX.size
_ADDRESS = {"run": str, "site": str, "direction": str, "sequence": int}
_HEADS = {"head", "seen"}
MAX_FRAME = 2**30  # bytes; more is refused unread


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
        version = TUNING.envelope_pair if isinstance(key, KeyPair) else TUNING.envelope_shared
        parts = (_PREFIX.pack(_MAGIC, version, len(header), len(payload)), header, payload)
        signing = Signing(key)
        for part in parts:
            signing.update(part)
        return b"".join((*parts, signing.signature()))

    def open(self, frame, key=None, max_bytes=MAX_FRAME):
        """Content of an envelope that is expected to be this one."""
        found, payload = read_envelope(frame, key, max_bytes)
        for name in _ADDRESS:
            if getattr(found, name) != (value := getattr(self, name)):
                raise PacketError(f"Packet is of {name} {getattr(found, name)!r}, not {value!r}: late or misrouted.")
        return payload


def read_envelope(frame, key=None, max_bytes=MAX_FRAME):
    """Outside and content of an envelope."""
    end, signed = _header_end(frame, max_bytes), len(frame) - signature_bytes(frame)
    signing = Signing(key)
    signing.update(memoryview(frame)[:signed])
    signing.check(bytes(frame[signed:]))
    return _header(bytes(frame[PREFIX_BYTES:end])), bytes(frame[end:signed])


def signature_bytes(frame):
    """Length of the signature at the end of an envelope of a known version."""
    return _SIGNATURE_BYTES[_PREFIX.unpack_from(frame)[1]]


def outside(frame):
    """Address on a whole envelope, unproven."""
    return _header(bytes(frame[PREFIX_BYTES : _header_end(frame)]))


class Signing:
    """A signature over bytes that come part by part, with a shared key or a :class:`KeyPair`."""

    def __init__(self, key=None):
        check_terms(key)  # it may end while a site runs
        self._pair = key if isinstance(key, KeyPair) else None
        self._outside, self._end = b"", PREFIX_BYTES  # for a pair: where prefix and header end
        self._digest = hashlib.sha256() if self._pair is not None else hmac.new(key or b"", digestmod="sha256")

    def update(self, part):
        """Go on with the next part."""
        if self._pair is not None:
            part = self._after_outside(part)
        self._digest.update(part)

    def _after_outside(self, part):
        """What of a part belongs to the content; the rest is kept."""
        for _ in range(2):  # the prefix says how long the header is
            missing = self._end - len(self._outside)
            self._outside, part = self._outside + bytes(part[:missing]), part[missing:]
            if len(self._outside) == PREFIX_BYTES:
                self._end = PREFIX_BYTES + _PREFIX.unpack(self._outside)[2]
        return part

    def signature(self):
        """Signature over all parts so far."""
        return self._digest.digest() if self._pair is None else self._pair.sign(self._signed)

    def check(self, signature):
        """Refuse another signature."""
        if self._pair is not None:
            self._pair.check(signature, self._signed)
        elif not hmac.compare_digest(self.signature(), signature):
            raise PacketError(NOT_SIGNED)

    @property
    def _signed(self):
        """What a pair signs of the parts so far."""
        return signed_message(self._outside, self._digest.digest())


def countersignature(frame):
    """What a ledger keeps of a packet as evidence: its signature, and of a pair's what else was signed."""
    if bytes(frame[:6]) != _PREFIX.pack(_MAGIC, TUNING.envelope_pair, 0, 0)[:6]:
        return {"signature": bytes(frame[-_SIGNATURE_BYTES[TUNING.envelope_shared] :]).hex()}
    end, signed = _header_end(frame), len(frame) - _SIGNATURE_BYTES[TUNING.envelope_pair]
    content = hashlib.sha256(memoryview(frame)[end:signed]).hexdigest()
    return {"signature": bytes(frame[signed:]).hex(), "outside": bytes(frame[:end]).hex(), "content": content}


def check_countersignature(entry, pair):
    """Refuse a line of a ledger that the other side has not signed: what it took, and the head that was seen."""
    outside = bytes.fromhex(entry["outside"])
    header = _header(outside[PREFIX_BYTES:])
    said = header.run, header.site, header.direction, header.sequence, header.seen
    if said != (*(entry[name] for name in _ADDRESS), entry.get("countersigned", "")):
        raise PacketError("What was signed is another packet.")
    pair.check(bytes.fromhex(entry["signature"]), signed_message(outside, bytes.fromhex(entry["content"])))


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
    if version not in _SIGNATURE_BYTES:
        raise PacketError(f"Signed packet version {version} is not known; this library reads {[*_SIGNATURE_BYTES]}.")
    size = PREFIX_BYTES + n_header + n_payload + _SIGNATURE_BYTES[version]
    if n_header > TUNING.envelope_max_header or size > max_bytes:
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


def write_key(path: str | PathLike[str], until: Any = None) -> Path:
    """Make a key for a unit and its server, readable by its owner only.

    Parameters
    ----------
    path : str or Path
        Must not exist yet, or be revoked. Take a copy to the other side over a channel that you trust.
    until : str or date, default=None
        Last day on which either side takes the key, in UTC, as ``"2027-12-31"``. None for no end.

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
        If the file exists already: a key in use is not overwritten.
    ValueError
        If `until` is no day, or one that is over.
    """
    path = Path(path)
    write_key_file(path, f"{secrets.token_hex(32)}\n{until_line(until)}")
    return path


def read_key(path: str | PathLike[str]) -> bytes:
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
        If the file holds no key, or one that has ended or was revoked, or others than its owner may read or write it.

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
    digits, terms = key_and_terms(path)
    try:
        key = SharedKey.fromhex(digits)
    except ValueError:
        key = SharedKey()
    key.terms = terms
    if len(key) < TUNING.envelope_min_key:
        raise ValueError(
            f"{path} holds no key: expected at least {TUNING.envelope_min_key} bytes in hexadecimal digits."
        )
    refuse_open_to_others(path)
    check_terms(key)
    return key


_NO_FILE = (errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.ENODEV, errno.EACCES, errno.EPERM, errno.EISDIR)
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_FLAGS |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class Identity(NamedTuple):
    """What tells a file from the one that was there under its name before."""

    modified: int
    size: int
    inode: int


def identity(status):
    """Identity of a file of that status."""
    return Identity(status.st_mtime_ns, status.st_size, status.st_ino)


def read_signed(path, key=None, max_bytes=MAX_FRAME):
    """Whole envelope in a file, its signature checked; and the identity of the file.

    FileNotFoundError if it is not there, PartialFrameError while the rest may still come, PacketError for
    whatever else it is: a folder, a queue, a device, a link, too large, or signed by somebody else. It is
    never waited for, and before its signature was found to be good at most 8 MiB of it are in memory.
    """
    with _opened(path) as file:
        status = os.fstat(file.fileno())
        start = file.read(PREFIX_BYTES)
        size = claimed_size(start, status.st_size, max_bytes)
        file.seek(0)
        if size > TUNING.envelope_at_once:
            _check_in_parts(file, size, signature_bytes(start), key)
            file.seek(0)
        frame = file.read(size)  # no more, though the file may have grown
    read_envelope(frame, key, max_bytes)  # again where it is large: it may have changed meanwhile
    return frame, identity(status)


def _opened(path):
    """The file, open for reading; only if it is a regular one."""
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            raise FileNotFoundError(error.errno, f"There is no file {path}.") from None
        if error.errno not in _NO_FILE:  # too many open files, a share that is gone: no fault of the file
            raise
        raise PacketError("This is a link or a file that cannot be opened, not a regular file.") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise PacketError("This is a folder, a queue or a device, not a regular file.")
    return open(descriptor, "rb")


def _check_in_parts(file, size, n_signature, key):
    """Check the signature of a large file without holding it."""
    signing, left = Signing(key), size - n_signature
    while left:
        part = file.read(min(TUNING.envelope_part, left))
        if not part:
            raise PartialFrameError("The file became shorter while it was read.")
        signing.update(part)
        left -= len(part)
    signing.check(file.read(n_signature))
