"""Lines of JSON in a file, each sealed with the one before it."""

import hashlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path

from .atomic import in_turn, make_folder

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
