"""Locks of files: one process at a time writes what several could start to write."""

import os
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from .atomic import make_folder

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
