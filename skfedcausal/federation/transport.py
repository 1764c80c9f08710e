"""The seam between the estimators and whatever carries packets to the clients."""

import math
import time
import warnings
from collections.abc import Mapping
from threading import Lock
from typing import Any, Protocol, runtime_checkable

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import ThreadingBackend, get_active_backend

from ..callers import warn
from ..message.packet import Failure, Packet
from ..statespace.matrices import few_threads
from .tuning import TUNING

_WORTH = 0.3  # seconds of work from which on it is handed over to threads
_WORTH_PROCESSES = 5.0  # to processes, which take seconds to start and to be sent what is measured
_TRIED = 8  # workers whose answers say what those of others take, where a fit has processes at hand
_listening = Lock()


class Worker(Protocol):
    """A client's side. It owns its private data and knows no engine.

    State goes in and comes out as a flat dict whose values pickle. It never leaves the site: whatever runs
    the worker there keeps it between packets (in memory, or in a store of the run for engines that start a
    process per message), and nothing else survives in the worker. The same packet with the state from
    before it gives the same answer, and so does a packet that comes twice in a row.

    Examples
    --------
    A worker that counts what it was asked:

    >>> from skfedcausal.federation import Packet
    >>> class Counter:
    ...     def handle(self, packet, state):
    ...         n = state.get("n", 0) + 1
    ...         return Packet("count", scalars={"n": n}), {"n": n}
    >>> answer, state = Counter().handle(Packet("hello"), {})
    >>> Counter().handle(Packet("hello"), state)[0].scalars["n"]
    2
    """

    def handle(self, packet: Packet, state: dict[str, Any]) -> tuple[Packet, dict[str, Any]]:
        """Answer one packet.

        Parameters
        ----------
        packet : Packet
        state : dict
            What an earlier answer left.

        Returns
        -------
        answer : Packet
        state : dict
            To be given with the next packet.
        """


class Site:
    """A worker together with what it keeps between packets, where one process holds both.

    A site is a worker itself: whoever lets it handle a packet leaves the new state here, where the one who
    made the site finds it. A transport that lets a copy answer in another process sets `state` itself.
    """

    def __init__(self, worker, state=None):
        self.worker = worker
        self.state = self._first = {} if state is None else state

    def handle(self, packet, state):
        """Let the worker answer one packet and remember the state it is in then."""
        answer, self.state = self.worker.handle(packet, state or self._first)
        return answer, self.state


@runtime_checkable
class Transport(Protocol):
    """The server's side: all that estimators see of the clients.

    See Also
    --------
    skfedcausal.testing.check_transport : Whether a callable makes transports.

    Examples
    --------
    Any object with these three methods is one, such as :class:`InProcessTransport`:

    >>> from skfedcausal.federation import InProcessTransport
    >>> InProcessTransport({}).clients()
    ()
    """

    def clients(self) -> tuple[str, ...]:
        """Names of the clients, always in the same order.

        Returns
        -------
        tuple of str
        """

    def exchange(self, out: Mapping[str, Packet], *, timeout: float | None = None) -> dict[str, Packet | Failure]:
        """Send one packet to each named client and collect the answers.

        A client that does not answer within `timeout` seconds (None: the transport's own limit) is a
        :class:`~skfedcausal.federation.Failure` in the result, never an exception.

        Parameters
        ----------
        out : dict of str to Packet
        timeout : float, default=None
            Seconds.

        Returns
        -------
        dict of str to Packet or Failure
        """

    def close(self) -> None:
        """Let go of whatever the transport holds."""


class InProcessTransport:
    """Clients living in the server's process.

    Parameters
    ----------
    workers : dict of str to Worker
        Where all of them have an attribute ``n_columns`` that is small, linear algebra keeps to one thread.
    n_jobs : int, default=None
        Clients handled at the same time, as in joblib; None handles one after the other, unless a
        ``joblib.parallel_config`` says otherwise.
    backend : str, default=None
        Joblib backend. None takes that of ``joblib.parallel_config`` ("loky", "dask", "ray"), and threads
        without one. With a process backend workers and state travel by joblib's own means, which is meant
        for one machine or one cluster under one administration.

    Notes
    -----
    Programming errors in a worker are raised, not turned into a :class:`~skfedcausal.federation.Failure`:
    there is no border here that an exception's text could leak across.

    Examples
    --------
    >>> from skfedcausal.federation import InProcessTransport, Packet
    >>> class Echo:
    ...     def handle(self, packet, state):
    ...         return Packet("echo", scalars={"heard": packet.op}), state
    >>> transport = InProcessTransport({"boiler": Echo()})
    >>> transport.exchange({"boiler": Packet("hello")})["boiler"].scalars["heard"]
    'hello'
    """

    def __init__(self, workers, n_jobs=None, backend=None):
        self._sites = {name: worker if isinstance(worker, Site) else Site(worker) for name, worker in workers.items()}
        self._n_jobs = n_jobs
        self._backend = backend

    def clients(self) -> tuple[str, ...]:
        """Names of the clients, in the order they were given.

        Returns
        -------
        tuple of str
        """
        return tuple(self._sites)

    def state(self, name: str) -> dict[str, Any]:
        """State that a client keeps between packets.

        Parameters
        ----------
        name : str

        Returns
        -------
        dict
        """
        return self._sites[name].state

    def exchange(self, out: Mapping[str, Packet], *, timeout: Any = None) -> dict[str, Packet]:
        """Let every named worker answer its packet.

        Parameters
        ----------
        out : dict of str to Packet
        timeout : ignored
            Nothing is waited for in one process.

        Returns
        -------
        dict of str to Packet
        """
        del timeout  # nothing can be late inside one process
        sites = [self._sites[name] for name in out]
        quick = bool(sites) and all(getattr(site.worker, "is_quick", False) for site in sites)
        pairs = list(zip(sites, out.values(), strict=True))
        results = [one.worker.handle(packet, one.state) for one, packet in pairs] if quick else self._with_care(pairs)
        for site, (_, state) in zip(sites, results, strict=True):  # once all of them have answered
            site.state = state
        return {name: answer for name, (answer, _) in zip(out, results, strict=True)}

    def _with_care(self, pairs):
        """Results of workers on their packets, with as many threads and processes as are of use."""
        widest = max((getattr(site.worker, "n_columns", np.inf) for site, _ in pairs), default=0)
        with few_threads(widest):
            n_jobs = effective_n_jobs(self._n_jobs)
            processes = self._processes([site for site, _ in pairs]) if n_jobs > 1 else None
            results: list = []
            began = time.monotonic()
            for site, packet in pairs:
                if n_jobs > 1 and self._are_worth_help(len(results), len(pairs), began, processes):
                    break
                results.append(site.worker.handle(packet, site.state))
            left = pairs[len(results) :]
            if not left:
                return results
            return results + (self._by_several(left, n_jobs) if processes is None else _by(processes, left, widest))

    def _processes(self, sites):
        """Processes on this machine that a fit of many units has at hand anyway, for workers that may go there."""
        if self._backend is not None:
            return None
        from ..parallel import open_workers  # of plants of many units

        processes = open_workers()
        if processes is None or not processes.sender.is_here:
            return None
        return processes if all(getattr(site.worker, "may_go_elsewhere", False) for site in sites) else None

    def _are_worth_help(self, n_done, n_workers, began, processes):
        """Whether those that are left take so long that handing them over pays, which costs as much as many answers."""
        if self._backend is not None:
            return True  # the user has said who is to help
        is_near = isinstance(get_active_backend(prefer="threads")[0], ThreadingBackend)
        worth = _WORTH if is_near or processes is not None else _WORTH_PROCESSES
        least = 1 if processes is None else _TRIED
        return n_done >= least and (time.monotonic() - began) / n_done * (n_workers - n_done) > worth

    def _by_several(self, pairs, n_jobs):
        """Results of workers on their packets, as many at a time as there are jobs."""
        # what a batch costs to hand over hardly depends on the clients in it
        share = math.ceil(len(pairs) / (2 * n_jobs))
        how = {"prefer": "threads"} if self._backend is None else {"backend": self._backend}
        run = Parallel(self._n_jobs, **how, batch_size=share, pre_dispatch="all")
        return run(delayed(site.worker.handle)(packet, site.state) for site, packet in pairs)

    def close(self) -> None:
        """Drop the workers."""
        self._sites = {}


def _by(processes, pairs, widest):
    """Results of workers on their packets, in processes that are there, a little of their records at a time."""
    from ..parallel import run

    largest = max(site.worker.n_bytes for site, _ in pairs)
    tasks = [(widest, site.worker, packet, site.state) for site, packet in pairs]
    results = run(handled, tasks, processes, most=max(1, TUNING.transport_bytes // largest))
    for message, category in (said for _, _, caught in results for said in caught):
        warn(message, category)
    return [(answer, state) for answer, state, _ in results]


def handled(widest, worker, packet, state):
    """A worker's answer, its state after it, and what it warns of, wherever that is to be heard."""
    with few_threads(widest), _listening, warnings.catch_warnings(record=True) as caught:  # which all threads share
        warnings.simplefilter("always")
        answer, state = worker.handle(packet, state)
    return answer, state, [(each.message, each.category) for each in caught]
