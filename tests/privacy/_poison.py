"""Transports and a mechanism for tests of what is left of a raw record once it is released."""

import secrets
import tempfile
from pathlib import Path

import numpy as np
import pytest

from skfedcausal import GaussianMechanism
from skfedcausal.federation import FileLoopback
from skfedcausal.federation.exchange import InProcessTransport
from skfedcausal.message.packet import Packet


class ByBytes:
    """Packets travel as bytes and are kept."""

    last = None

    def __init__(self, workers):
        self._behind = InProcessTransport(workers)
        self.clients, self.close = self._behind.clients, lambda: None
        self.up, ByBytes.last = [], self

    def exchange(self, out, *, timeout=None):
        out = {name: Packet.decode(packet.encode()) for name, packet in out.items()}
        answers = {n: Packet.decode(a.encode()) for n, a in self._behind.exchange(out).items()}
        self.up += answers.items()
        return answers


class OtherProcesses(ByBytes):
    """The same with every worker in a process of joblib's."""

    def __init__(self, workers):
        super().__init__(workers)
        self._behind = InProcessTransport(workers, n_jobs=2, backend="multiprocessing")
        self.clients = self._behind.clients


class Threads(ByBytes):
    """The same with workers in threads."""

    def __init__(self, workers):
        super().__init__(workers)
        self._behind = InProcessTransport(workers, n_jobs=2)
        self.clients = self._behind.clients


_FOLDER = tempfile.TemporaryDirectory(prefix="skfedcausal-")


def by_files(sites):
    """Packets travel as files between the sites' ledgers."""
    return FileLoopback(Path(_FOLDER.name) / secrets.token_hex(8))(sites)


# every transport of the library belongs here: what follows a release must not need the raw record on any
TRANSPORTS = [
    pytest.param(None, id="in process"),
    pytest.param(ByBytes, id="bytes"),
    pytest.param(Threads, id="threads"),
    pytest.param(OtherProcesses, id="processes", marks=pytest.mark.slow),
    pytest.param(by_files, id="files"),
]


class Poisoning(GaussianMechanism):
    """Overwrites the raw record with NaN as soon as its noised copy exists."""

    def release(self, records, lengths, *, noise=None):
        releases = super().release(records, lengths, noise=noise)
        for Y in records.values():
            Y[:] = np.nan
        return releases
