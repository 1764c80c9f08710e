"""Pipes to processes that a cluster has on this machine, through which calls go without its scheduler."""

import os
import pickle
import socket
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.pool import ExceptionWithTraceback  # type: ignore[attr-defined]
from traceback import format_exception
from typing import Any, NamedTuple

from .parcels import Folder, done_there, packed
from .senders import AHEAD, PATIENCE, OnThisMachine

_LONGEST = 100  # bytes of the name of a pipe


class ByPipes(OnThisMachine):
    """Processes of a cluster that are at hand for the whole of a fit, beside whatever else it is asked.

    Whoever may open the folder of the fit, the user alone, may connect. What a process that ends was asked, others do.
    """

    def __init__(self, cluster):
        super().__init__(cluster.number)
        self._cluster = cluster
        self._door: Any = None
        self._near: Any = None  # Folder with a short name, where that of the fit has a long one
        self._ways: dict = {}  # calls under way by pipe, the oldest first
        self._begun: list = []
        self._n_came = 0

    def start(self):
        """Be ready for calls: one process has come."""
        super().start()
        folder = self.folder.path
        if len(os.fsencode(folder)) > _LONGEST:
            self._near = Folder("/tmp")
            folder = self._near.path
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(os.path.join(folder, "d"))
        self._door.listen(self.number)
        self._begun = self._cluster.begin(serve, self._door.getsockname(), self.folder.path)
        while not self._ways and not self.is_over:
            have_ended = self._cluster.have_ended(self._begun)
            self._let_in(wait([self._door], PATIENCE))
            if have_ended and not self._ways:
                raise RuntimeError(
                    f"Processes of the cluster came to an end without reaching {folder} of this machine. Name a folder "
                    "that they see by JOBLIB_TEMP_FOLDER, or fit with n_jobs=1."
                )

    def stop(self):
        """Send the processes back to the cluster."""
        for way in self._ways:
            way.close()
        if self._door is not None:
            self._door.close()
        if self._near is not None:
            self._near.remove()
        super().stop()

    @property
    def room(self):
        """How many calls may be under way."""
        return AHEAD * len(self._ways)

    def sent(self, function, *arguments):
        """Something that stands for the result of a call."""
        call = _Call(function, arguments)
        self._send(call)
        return call

    def _send(self, call):
        """Send a call to the process that has fewest."""
        while True:
            self._wait_for_one()
            way = min(self._ways, key=lambda way: len(self._ways[way]))
            self._ways[way].append(call)
            try:
                way.send(self.parcel(call.function, *call.arguments))
            except ConnectionError:
                self._ways[way].pop()
                self._lose(way)
            else:
                return

    def _wait_for_one(self):
        """Wait until a process is there, where one of those that are gone may not have been the last."""
        while not self._ways:
            if self._cluster.have_ended(self._begun) or self._n_came >= len(self._begun):
                raise RuntimeError(
                    "All processes of the cluster ended in the middle of a fit; its log says why. Where memory ran "
                    "out, give it more, or fewer workers."
                )
            self._let_in(wait([self._door], PATIENCE))

    def _lose(self, way):
        """Let others do what a process was asked that has gone."""
        way.close()
        for call in self._ways.pop(way):
            self._send(call)

    def came(self, under_way):
        """Pairs of what is done of what was sent, and its result; sometimes none."""
        ready = wait([self._door, *(way for way, calls in self._ways.items() if calls)], PATIENCE)
        done = [self._heard(way) for way in ready if way in self._ways]
        self._let_in(ready)
        done = [each for each in done if each is not None and each[0] in under_way]  # not those of calls given up
        for _, result in done:
            if isinstance(result, _Failed):
                raise result.error
        return done

    def _let_in(self, ready):
        if self._door in ready:
            self._ways[Connection(self._door.accept()[0].detach())] = []
            self._n_came += 1

    def _heard(self, way):
        """A call and its result, None of a process that has gone."""
        try:
            parcel = way.recv()
        except (EOFError, ConnectionError):
            self._lose(way)
            return None
        return self._ways[way].pop(0), parcel.opened()


class _Call:
    """A call that is under way; each is one of its own."""

    def __init__(self, function, arguments):
        self.function, self.arguments = function, arguments


class _Failed(NamedTuple):
    """What went wrong there."""

    error: Any


def serve(door, folder):
    """Do the calls that come through a pipe until the fit is over, which may be before this begins."""
    with suppress(EOFError, ConnectionError, FileNotFoundError), socket.socket(socket.AF_UNIX) as mine:
        mine.connect(door)
        with Connection(mine.detach()) as way:
            while True:
                way.send(_done_or_failed(way.recv(), folder))


def _done_or_failed(parcel, folder):
    try:
        return done_there(parcel, folder)
    except Exception as error:  # goes back to whoever called
        try:
            failed = _Failed(ExceptionWithTraceback(error, error.__traceback__))
            pickle.loads(pickle.dumps(failed))
        except Exception:  # it cannot travel, what it says can
            failed = _Failed(RuntimeError("".join(format_exception(error))))
        return packed(failed, folder)
