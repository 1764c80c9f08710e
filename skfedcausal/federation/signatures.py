"""Keys of two parties that cannot sign for each other: Ed25519, where shared keys prove nothing to a third one."""

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path

from ..message.packet import PacketError
from ..optional import import_optional

_PRIVATE, _PUBLIC = "ed25519 private", "ed25519 public"
_BYTES = 32
NOT_SIGNED = "Signature does not fit: changed on the way, or signed with another key."


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

    def __repr__(self):
        return f"KeyPair(public='{self.public.hex()[:16]}...')"

    def sign(self, message):
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

    def check(self, signature, message):
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


def write_key_pair(path):
    """Make the key pair of a party: ``<path>``, readable by its owner only, and ``.pub`` beside it.

    Parameters
    ----------
    path : str or Path
        Of the private key, which never leaves its machine. Must not exist yet.

    Returns
    -------
    Path
        Of the public key: bring a copy to the other side by a way that nobody can change.

    Raises
    ------
    FileExistsError
        If a key is there already.

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
    for target in (path, public):
        if os.path.lexists(target):  # neither of the two is written without the other
            raise _in_use(target)
    write_key_file(path, f"{_PRIVATE} {private.private_bytes_raw().hex()}\n")
    write_key_file(public, f"{_PUBLIC} {private.public_key().public_bytes_raw().hex()}\n", mode=0o644)
    return public


def read_key_pair(private, public):
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
        If a file holds no such key, or others than its owner may read the private one.

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
    if private is not None:
        refuse_open_to_others(private)
    return KeyPair(None if private is None else _read(private, _PRIVATE), _read(public, _PUBLIC))


def write_key_file(path, text, *, mode=0o600):
    """Write a file that is not there yet, for its owner only unless `mode` says otherwise."""
    try:
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise _in_use(path) from None
    with os.fdopen(made, "w") as file:
        file.write(text)


def _in_use(path):
    return FileExistsError(f"{path} is there already; a key in use is not overwritten.")


def refuse_open_to_others(path):
    """Refuse a secret that others than its owner may read or write."""
    if os.name == "posix" and (mode := Path(path).stat().st_mode & 0o777) & 0o077:
        raise ValueError(
            f"{path} can be read or written by others (mode {mode:o}): `chmod 600` it, and make a new key if "
            "somebody else may have read it."
        )


def _read(path, kind):
    try:
        found, _, digits = Path(path).read_text(encoding="ascii").strip().rpartition(" ")
        key = bytes.fromhex(digits)
    except (ValueError, UnicodeDecodeError):
        found, key = "", b""
    if found != kind or len(key) != _BYTES:
        raise ValueError(f"{path} holds no key of the kind {kind!r}: `python -m skfedcausal key --pair` makes both.")
    return key
