"""Pipes to processes that a cluster has on this machine, through which calls go without its scheduler."""

import os
import socket
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.pool import ExceptionWithTraceback  # type: ignore[attr-defined]
from typing import Any

from .parcels import done_there, packed
from .senders import AHEAD, OnThisMachine

_PATIENCE = 0.2  # seconds between looks at whether the cluster has given up


class ByPipes(OnThisMachine):
    """Processes of a cluster that are at hand for the whole of a fit, beside whatever else it is asked.

    Whoever may open the folder of the fit, the user alone, may connect.
    """

    def __init__(self, cluster):
        super().__init__(cluster.number)
        self._cluster = cluster
        self._door: Any = None
        self._ways: dict = {}  # calls under way by pipe
        self._begun: list = []
        self._results: dict = {}

    def start(self):
        """Be ready for calls: one process has come."""
        super().start()
        door = os.path.join(self.folder.path, "door")
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(door)
        self._door.listen(self.number)
        self._begun = self._cluster.begun(serve, door, self.folder.path)
        while not self._ways and not self.is_over:
            self._cluster.failed(self._begun)
            self._let_in(wait([self._door], _PATIENCE))

    def stop(self):
        """Send the processes back to the cluster."""
        for way in self._ways:
            way.close()
        if self._door is not None:
            self._door.close()
        super().stop()

    @property
    def room(self):
        """How many calls may be under way."""
        return AHEAD * len(self._ways)

    def sent(self, function, *arguments):
        """Something that stands for the result of a call."""
        way = min(self._ways, key=lambda way: len(self._ways[way]))
        way.send(self.parcel(function, *arguments))
        call = object()
        self._ways[way].append(call)
        return call

    def first_done(self, under_way):
        """Those that are done of what was sent, at least one."""
        self._results = {}
        while not self._results:
            ready = wait([self._door, *(way for way, calls in self._ways.items() if calls)])
            for way in ready:
                if way is not self._door:
                    self._results[self._ways[way].pop(0)] = self._heard(way)
            self._let_in(ready)
        return list(self._results)

    def brought(self, done):
        """Results of what is done."""
        return [self._results[call] for call in done]

    def _let_in(self, ready):
        if self._door in ready:
            self._ways[Connection(self._door.accept()[0].detach())] = []

    def _heard(self, way):
        try:
            result = way.recv().opened()
        except (EOFError, ConnectionResetError) as error:
            self._cluster.failed(self._begun)
            raise RuntimeError(
                "A process of the cluster ended in the middle of a fit; its log says why. Where memory ran out, give "
                "it more, or fewer workers."
            ) from error
        if isinstance(result, BaseException):
            raise result
        return result


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
        return packed(ExceptionWithTraceback(error, error.__traceback__), folder)
