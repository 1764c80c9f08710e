"""The seam between the estimators and whatever carries packets to the clients."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np
from joblib import Parallel, delayed

from .packet import Failure, Packet


class Worker(Protocol):
    """A client's side. It owns its private data and knows no engine.

    State goes in and comes out as a flat dict of arrays: engines that start a process per message keep it
    between messages, and nothing else survives in the worker.
    """

    def handle(self, packet: Packet, state: dict[str, np.ndarray]) -> tuple[Packet, dict[str, np.ndarray]]:
        """Answer one packet."""


@runtime_checkable
class Transport(Protocol):
    """The server's side: all that estimators see of the clients."""

    def clients(self) -> tuple[str, ...]:
        """Names of the clients, always in the same order."""

    def exchange(
        self, out: Mapping[str, Packet], *, timeout: float | None = None
    ) -> dict[str, Packet | Failure]:
        """Send one packet to each named client and collect the answers.

        A client that does not answer is a :class:`Failure` in the result, never an exception.
        """

    def close(self) -> None:
        """Let go of whatever the transport holds."""


class InProcessTransport:
    """Clients living in the server's process.

    Parameters
    ----------
    workers : dict of str to Worker
    n_jobs : int, default=None
        Clients handled at the same time, as in joblib; None handles one after the other.
    backend : str, default="threading"
        Joblib backend. With a process backend workers and state travel by joblib's own means, which is
        meant for one machine or one cluster under one administration.

    Notes
    -----
    Programming errors in a worker are raised, not turned into a :class:`Failure`: there is no border here
    that an exception's text could leak across.
    """

    def __init__(self, workers, n_jobs=None, backend="threading"):
        self._workers = dict(workers)
        self._states = {name: {} for name in self._workers}
        self._n_jobs = n_jobs
        self._backend = backend

    def clients(self):
        """Names of the clients, in the order they were given."""
        return tuple(self._workers)

    def state(self, name):
        """What a client keeps between packets."""
        return self._states[name]

    def exchange(self, out, *, timeout=None):
        """Let every named worker answer its packet."""
        del timeout  # nothing can be late inside one process
        calls = [(self._workers[name].handle, packet, self._states[name]) for name, packet in out.items()]
        if self._n_jobs in (None, 1):
            answers = [handle(packet, state) for handle, packet, state in calls]
        else:
            run = Parallel(n_jobs=self._n_jobs, backend=self._backend)
            answers = run(delayed(handle)(packet, state) for handle, packet, state in calls)
        for name, (_, state) in zip(out, answers, strict=True):
            self._states[name] = state
        return {name: answer for name, (answer, _) in zip(out, answers, strict=True)}

    def close(self):
        """Drop the workers."""
        self._workers, self._states = {}, {}
