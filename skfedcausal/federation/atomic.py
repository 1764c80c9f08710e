"""Files that are whole or not there, written by one process at a time, read by their owner, named like their units."""

import os
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from .tuning import TUNING

_LONGEST = 200  # bytes of a name, which leaves room for numbers and endings
_DEVICES = {"con", "prn", "aux", "nul", *(f"{kind}{k}" for kind in ("com", "lpt") for k in range(1, 10))}  # on Windows
_PAUSES = (0.01, 0.03, 0.1, 0.3, 1.0)  # seconds until a reader has closed its file


def write_whole(path, data, *, shared=False):
    """Write a file that nobody ever reads by half; only its owner reads it at all, unless it is `shared`."""
    path = Path(path)
    make_folder(path.parent, shared=shared)
    draft = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.part")
    mode = 0o666 if shared else TUNING.atomic_private_file  # less what the process's umask takes away
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        _put(draft, path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise


def _put(draft, path):
    """Put a draft in the place of a file; on Windows that fails as long as somebody reads the file."""
    for pause in _PAUSES if os.name == "nt" else ():
        try:
            return os.replace(draft, path)
        except PermissionError:
            time.sleep(pause)
    return os.replace(draft, path)


def make_folder(path, *, shared=False):
    """Make a folder and those above it, where they are missing; the owner's alone unless it is `shared`."""
    missing = [path, *path.parents]
    missing = missing[: next((k for k, one in enumerate(missing) if one.is_dir()), len(missing))]
    for folder in reversed(missing):
        folder.mkdir(mode=0o777 if shared else TUNING.atomic_private_folder, exist_ok=True)
    if not path.is_dir():
        path.mkdir()  # says what is in the way


def keep_private(folder):
    """Take what is in a folder, and itself, from everybody but its owner."""
    if os.name != "posix" or not Path(folder).is_dir():
        return
    for parent, _, files in os.walk(folder):
        os.chmod(parent, TUNING.atomic_private_folder)
        for name in files:
            path = os.path.join(parent, name)
            with suppress(FileNotFoundError):  # a draft that another process has put in its place meanwhile
                if os.lstat(path).st_mode & 0o177 and not os.path.islink(path):
                    os.chmod(path, TUNING.atomic_private_file)


def file_name(name):
    """Name of a unit or a run as the name of a file or folder."""
    quoted = quote(name, safe=" ")
    if quoted.partition(".")[0].rstrip().lower() in _DEVICES:
        raise ValueError(
            f"{name!r} cannot name a unit or a run whose packets travel: to Windows a file of that name is a device. "
            f"Choose another name, for instance {name + ' unit'!r}."
        )
    if not quoted or quoted.startswith("."):
        raise ValueError(f"{name!r} cannot name a unit or a run whose packets travel: give letters or digits.")
    if len(quoted) > _LONGEST:
        raise ValueError(
            f"A name of {len(quoted)} bytes cannot name a unit or a run whose packets travel: give at most {_LONGEST}."
        )
    if quoted[-1] in ". ":  # Windows drops these at the end
        quoted = f"{quoted[:-1]}%{ord(quoted[-1]):02X}"
    return quoted


_POLL = 0.05  # seconds between two tries


class BusyError(RuntimeError):
    """Another process holds what only one may have."""


@contextmanager
def only_one(path, what, wait=0.0):
    """Hold a lock for as long as the block runs; BusyError where another process has it after `wait` seconds.

    A process that dies lets go of its lock, however it dies.
    """
    path = Path(path)
    make_folder(path.parent)
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "rb+") as file:
        end = time.monotonic() + wait
        while not _locked(file):
            if time.monotonic() >= end:
                raise BusyError(f"Another process is running {what}: only one may. Wait for it, or end it.")
            time.sleep(_POLL)
        yield


@contextmanager
def in_turn(file):
    """Let no other process write an open file meanwhile; waits."""
    while not _locked(file):
        time.sleep(_POLL / 10)
    try:
        yield
    finally:
        _unlock(file)


if sys.platform == "win32":
    import msvcrt

    def _locked(file):
        file.seek(0)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(file):
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _locked(file):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(file):
        fcntl.flock(file, fcntl.LOCK_UN)
