"""A packet on its way between two machines: addressed, numbered, signed with keys that cannot sign for each other."""

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
from datetime import UTC, date, datetime
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..message.packet import PacketError
from ..optional import import_optional
from .tuning import TUNING

# Keys of two parties that cannot sign for each other: Ed25519, where shared keys prove nothing to a third one.

_PRIVATE, _PUBLIC = "ed25519 private", "ed25519 public"
_UNTIL, _REVOKED = "until", "revoked"
NOT_SIGNED = "Signature does not fit: changed on the way, or signed with another key, perhaps one that was revoked."


@dataclass(frozen=True)
class Term:
    """A line below a key in its file: the last day on which it is taken, or that it was revoked."""

    path: str
    word: str
    day: date

    def check(self):
        """Refuse the key where it has ended; PacketError."""
        if self.word == _UNTIL and _today() <= self.day:
            return
        how = "ended after" if self.word == _UNTIL else "was revoked on"
        raise PacketError(
            f"The key in {self.path} {how} {self.day}. `python -m skfedcausal key` makes another one, of which the "
            "other side needs a copy."
        )


class SharedKey(bytes):
    """A key from a file, with the terms that are written there."""

    terms: tuple = ()


def check_terms(key):
    """Refuse a key that has ended or was revoked; PacketError with the name of its file."""
    for term in getattr(key, "terms", ()):
        term.check()


def _today():
    return datetime.now(UTC).date()


@dataclass(frozen=True)
class KeyPair:
    """A party's own private key, and the public key of the other side; takes the place of a shared key.

    Needs the optional package ``cryptography``.

    Attributes
    ----------
    private : bytes or None
        Signs what is sent. None where packets are only checked.
    public : bytes
        Of the other side; checks what comes.
    terms : tuple, default=()
        When the two end, as their files say.

    See Also
    --------
    write_key_pair : Makes the keys of a party.
    read_key_pair : Reads them from files.

    Examples
    --------
    >>> from skfedcausal.federation import KeyPair
    >>> KeyPair(None, bytes(32))
    KeyPair(public='0000000000000000...')
    """

    private: bytes | None = field(repr=False)
    public: bytes
    terms: tuple = field(default=(), repr=False, compare=False)

    def __repr__(self):
        return f"KeyPair(public='{self.public.hex()[:16]}...')"

    def sign(self, message: bytes) -> bytes:
        """Signature over a message with the private key.

        Parameters
        ----------
        message : bytes

        Returns
        -------
        bytes

        Raises
        ------
        ValueError
            Without a private key.
        """
        if self.private is None:
            raise ValueError("This pair has no private key: it checks packets and signs none.")
        return _ed25519().Ed25519PrivateKey.from_private_bytes(self.private).sign(message)

    def check(self, signature: bytes, message: bytes) -> None:
        """Refuse what the other side has not signed.

        Parameters
        ----------
        signature, message : bytes

        Raises
        ------
        PacketError
        """
        wrong = import_optional("cryptography.exceptions", **_WHY).InvalidSignature
        try:
            _ed25519().Ed25519PublicKey.from_public_bytes(self.public).verify(signature, message)
        except (wrong, ValueError):
            raise PacketError(NOT_SIGNED) from None


_WHY = {"extra": "signatures", "purpose": "A key pair (Ed25519)"}


def _ed25519():
    return import_optional("cryptography.hazmat.primitives.asymmetric.ed25519", **_WHY)


def signed_message(outside, content_sha256):
    """What a key pair signs of a packet: prefix and header as they are, the content by its hash."""
    return hashlib.sha256(outside).digest() + content_sha256


def write_key_pair(path: str | PathLike[str], until: Any = None) -> Path:
    """Make the key pair of a party: ``<path>``, readable by its owner only, and ``.pub`` beside it.

    Parameters
    ----------
    path : str or Path
        Of the private key, which never leaves its machine. Must not exist yet, or be revoked.
    until : str or date, default=None
        Last day on which the two are taken, in UTC, as ``"2027-12-31"``. None for no end.

    Returns
    -------
    Path
        Of the public key: bring a copy to the other side by a way that nobody can change.

    Raises
    ------
    FileExistsError
        If a key exists already.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skfedcausal.federation import write_key_pair
    >>> write_key_pair(Path(tempfile.mkdtemp()) / "boiler.key").name  # doctest: +SKIP
    'boiler.pub'
    """
    path = Path(path)
    private = _ed25519().Ed25519PrivateKey.generate()
    public = path.with_suffix(".pub")
    term = until_line(until)
    for target in (path, public):
        put_away(target)  # neither of the two is written without the other
    write_key_file(path, f"{_PRIVATE} {private.private_bytes_raw().hex()}\n{term}")
    write_key_file(public, f"{_PUBLIC} {private.public_key().public_bytes_raw().hex()}\n{term}", mode=0o644)
    return public


def until_line(until):
    """The line of a key's file that says when it ends; empty for no end."""
    if until is None:
        return ""
    day = _day(until)
    if day is None or day < _today():
        raise ValueError(f"until={str(until)!r}; give the last day of the key as 2027-12-31, today or later.")
    return f"{_UNTIL} {day}\n"


def revoke_key(path: str | PathLike[str]) -> Path:
    """Take a key out of use where its file lies; the file stays, and is refused by its name.

    Parameters
    ----------
    path : str or Path
        Of any key: shared, private or public. The other side has to revoke its copy, too.

    Returns
    -------
    Path

    Raises
    ------
    ValueError
        If the file is none of a key, or says that it was revoked.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skfedcausal.federation import read_key, revoke_key, write_key
    >>> path = write_key(Path(tempfile.mkdtemp()) / "boiler.key")
    >>> revoke_key(path).name
    'boiler.key'
    >>> read_key(path)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    skfedcausal.message.packet.PacketError: The key in ...boiler.key was revoked on ...
    """
    digits, terms = key_and_terms(path)
    if not digits or any(term.word == _REVOKED for term in terms):
        raise ValueError(f"{path} holds no key to revoke, or one that is revoked already.")
    with open(path, "a", encoding="ascii") as file:
        file.write(f"{_REVOKED} {_today()}\n")
    return Path(path)


def put_away(path):
    """Move the file of a revoked key out of the way of a new one; refused where a key is in use."""
    if not os.path.lexists(path):
        return
    revoked = [term for term in key_and_terms(path)[1] if term.word == _REVOKED]
    if not revoked:
        raise FileExistsError(f"{path} already exists; a key in use is not overwritten (--revoke ends its use).")
    os.rename(path, f"{path}.revoked-{revoked[0].day}-{os.urandom(4).hex()}")


def key_and_terms(path):
    """First line of a file with a key, and the `Term` of every other line."""
    first, *lines = Path(path).read_bytes().decode("ascii", "replace").strip().splitlines() or [""]
    terms = []
    for line in lines:
        word, _, text = line.strip().partition(" ")
        day = _day(text)
        if word not in (_UNTIL, _REVOKED) or day is None:
            raise ValueError(f"{path}: below the key there is {line!r}; expected a line like '{_UNTIL} 2027-12-31'.")
        terms.append(Term(str(path), word, day))
    return first, tuple(terms)


def _day(text):
    try:
        return date.fromisoformat(str(text))
    except ValueError:
        return None


def read_key_pair(private: str | PathLike[str] | None, public: str | PathLike[str]) -> KeyPair:
    """Own private key and the other side's public key, from files of :func:`write_key_pair`.

    Parameters
    ----------
    private : str or Path or None
        None where packets are only checked.
    public : str or Path

    Returns
    -------
    KeyPair

    Raises
    ------
    ValueError
        If a file holds no such key, or one that has ended or was revoked, or others than its owner may read the private
        one. Where packets are only checked, as those of an old ledger, a key may have ended.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skfedcausal.federation import read_key_pair
    >>> path = Path(tempfile.mkdtemp()) / "server.pub"
    >>> _ = path.write_text("ed25519 public " + 32 * "ab")
    >>> read_key_pair(None, path)
    KeyPair(public='abababababababab...')
    """
    theirs, terms = _read(public, _PUBLIC)
    if private is None:
        return KeyPair(None, theirs, terms)
    refuse_open_to_others(private)
    own, more = _read(private, _PRIVATE)
    pair = KeyPair(own, theirs, (*more, *terms))
    check_terms(pair)
    return pair


def write_key_file(path, text, *, mode=0o600):
    """Write a file that is not there yet, for its owner only unless `mode` says otherwise."""
    put_away(path)
    made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(made, "w") as file:
        file.write(text)


def refuse_open_to_others(path):
    """Refuse a secret that others than its owner may read or write."""
    if os.name == "posix" and (mode := Path(path).stat().st_mode & 0o777) & 0o077:
        raise ValueError(
            f"{path} can be read or written by others (mode {mode:o}): `chmod 600` it, and make a new key if "
            "somebody else may have read it."
        )


def _read(path, kind):
    line, terms = key_and_terms(path)
    found, _, digits = line.rpartition(" ")
    try:
        key = bytes.fromhex(digits)
    except ValueError:
        key = b""
    if found != kind or len(key) != TUNING.signatures_bytes:
        raise ValueError(f"{path} holds no key of the kind {kind!r}: `python -m skfedcausal key --pair` makes both.")
    return key, terms


# A packet on its way between two machines: addressed, numbered, signed.
#
# The envelope says whose packet it is, in which run and which number it has; the signature covers all of it.
# A packet that was changed, sent to another unit, taken from another run or sent again is told from a good one
# without looking inside. Files that others write have one reader, :func:`read_signed`: regular, bounded, and signed
# before a byte of them is used.

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
