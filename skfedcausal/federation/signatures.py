"""Keys of two parties that cannot sign for each other: Ed25519, where shared keys prove nothing to a third one."""

import hashlib
import os
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from os import PathLike
from pathlib import Path
from typing import Any

from ..message.packet import PacketError
from ..optional import import_optional
from .tuning import TUNING

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
