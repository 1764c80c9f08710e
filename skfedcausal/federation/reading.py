"""The one reader of files that others write: regular, bounded, and signed before a byte of them is used."""

import errno
import os
import stat
from typing import NamedTuple

from ..message.packet import PacketError
from .envelope import MAX_FRAME, PREFIX_BYTES, PartialFrameError, Signing, claimed_size, read_envelope, signature_bytes

_AT_ONCE = 2**23  # bytes of a file that is read before its signature was looked at
_PART = 2**20
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
        if size > _AT_ONCE:
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
        part = file.read(min(_PART, left))
        if not part:
            raise PartialFrameError("The file became shorter while it was read.")
        signing.update(part)
        left -= len(part)
    signing.check(file.read(n_signature))
