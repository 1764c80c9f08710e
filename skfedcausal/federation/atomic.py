"""Files that are whole or not there, named like their unit, and lines of JSON each sealed with the one before it."""

import hashlib
import json
import os
import sys
import threading
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from .tuning import TUNING

# Files that are whole or not there, written by one process at a time, read by their owner, named like their units.

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


# Lines of JSON in a file, each sealed with the one before it.

START = "0" * 64  # what stands for the line before the first


class LedgerError(ValueError):
    """A ledger whose chain is broken: a line was changed, taken out or put in."""


class Chain:
    """A file of lines that hold the hash of the line before them.

    Several processes may append to it: what another one wrote is read before a line is added.
    """

    def __init__(self, path):
        self.path = Path(path)
        if not self.path.exists():
            self._know(b"")
            return
        with open(self.path, "rb") as file, in_turn(file):  # another process may be writing a line
            file.seek(0)
            data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            if len(whole) < len(data):  # writing the last line was broken off
                os.truncate(self.path, len(whole))
        self._know(whole)

    def _know(self, data):
        """Take up the chain where these bytes, all that is in the file, end."""
        entries = _entries_of(data, self.path)
        check_chain(entries, self.path)
        self.head = entries[-1]["hash"] if entries else START
        self._number, self._size = len(entries), len(data)

    def entries(self):
        """All lines, as dicts."""
        return read_ledger(self.path) if self.path.exists() else []

    def append(self, content):
        """Write a line that is on the disk when this returns."""
        make_folder(self.path.parent)
        made = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with open(made, "ab", buffering=0) as file, in_turn(file):
            if os.fstat(made).st_size != self._size:
                self._know(self.path.read_bytes())  # another process wrote
            time = datetime.now(UTC).isoformat(timespec="milliseconds")
            entry = {"number": self._number + 1, "time": time, **content, "previous": self.head}
            entry["hash"] = _hash(entry)
            line = left = json.dumps(entry).encode("ascii") + b"\n"
            try:
                while left:
                    left = left[file.write(left) :]
                os.fsync(made)
            except OSError:  # a full disk: half a line would break the chain
                os.truncate(self.path, self._size)
                raise
        self.head, self._number, self._size = entry["hash"], self._number + 1, self._size + len(line)
        return entry


def _hash(entry):
    text = json.dumps({k: v for k, v in entry.items() if k != "hash"}, sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def read_ledger(path):
    """Lines of a ledger, not yet checked."""
    return _entries_of(Path(path).read_bytes(), path)


def _entries_of(data, path):
    entries, text = [], data.decode("utf-8")
    if text and not text.endswith("\n"):
        raise LedgerError(
            f"{path}: its last line is not whole. Either writing it was broken off, then starting the site "
            "cuts it off, for what it is about had not happened; or the file was changed."
        )
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        if not isinstance(entry, dict):
            raise LedgerError(f"{path}, line {number}: not a line of a ledger.")
        entries.append(entry)
    return entries


def check_chain(entries, path="ledger"):
    """Refuse lines that do not form a chain."""
    previous = START
    for number, entry in enumerate(entries, start=1):
        if wrong := fault_of(entry, number, previous):
            raise LedgerError(
                f"{path}, line {number}: {wrong}; `python -m skfedcausal repair` continues and says what is lost."
            )
        previous = entry["hash"]


def fault_of(entry, number, previous):
    """What is wrong with a line that should follow the one with the hash `previous`, None if nothing is."""
    if entry.get("previous") != previous or entry.get("number") != number:
        return "does not follow the line before it"
    return None if entry.get("hash") == _hash(entry) else "was changed after it was written"
