"""Work in other processes, on any backend of joblib, to the same bits: units of a plant, and blocks of a large one."""

import gc
import importlib
import os
import sys
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from functools import cache
from multiprocessing import current_process
from threading import Lock
from typing import NamedTuple

import numpy as np
from joblib import Parallel, cpu_count, delayed, effective_n_jobs
from joblib.parallel import LokyBackend, get_active_backend

from .arguments import warn
from .statespace.matrices import keep_freed_memory

_WORTH = 128  # units, from which on processes are started
_ROUNDS = 3  # times that everybody is given half of what is left, or less
_IMPORTED = (  # what tasks need, a second of work
    "client.worker",
    *(f"server.sparse.{name}" for name in ("blocks", "screening")),
)
_TRIM, _MAP = (-1, 2**26), (-3, 2**25)  # `mallopt`: bytes given back late, and mapped apart


class Sender:
    """Calls to so many processes or workers of the backend that joblib is told to use, which are kept between them."""

    def __init__(self, n_jobs):
        backend = copy(get_active_backend()[0])  # which nobody else starts and ends
        self._parallel = Parallel(n_jobs=n_jobs, backend=backend, batch_size=1)
        self.is_over = False

    @property
    def is_here(self):
        """Whether calls go to processes of loky: within one of them joblib has none to give."""
        return isinstance(self._parallel._backend, LokyBackend)

    def start(self):
        """Be ready for calls."""
        self._parallel.__enter__()

    def end(self):
        """Send nothing more."""
        self.is_over = True

    def stop(self):
        """Let go of the processes."""
        self._parallel.__exit__(None, None, None)

    def results(self, calls):
        """Results of calls (function, *arguments), which are asked for as processes become free.

        Of those before the end where nothing is to be sent any more. Where a process was killed, as for want of
        memory, all that was asked for is done here.
        """
        sent_calls, calls = [], iter(calls)

        def sent():
            while not self.is_over and (call := next(calls, None)) is not None:
                sent_calls.append(call)
                yield delayed(call[0])(*call[1:])

        try:
            return self._parallel(sent())
        except BrokenExecutor:
            warn(
                "A process that learned a part of the plant was killed, by the system for want of memory perhaps; its "
                "part is learned in this process. The result is the same. Give fewer processes (n_jobs)."
            )
            return [function(*arguments) for function, *arguments in [*sent_calls, *calls]]


class Workers(NamedTuple):
    """Processes that tasks are sent to, how many they are, and the thread that sends them."""

    sender: Sender
    number: int
    thread: ThreadPoolExecutor
    started: Future  # done once they can be sent tasks


_open: ContextVar[Workers | None] = ContextVar("_open", default=None)


@contextmanager
def workers(n_units, n_jobs):
    """Processes for the whole of a large plant, None for one that is not worth any: they take a second to start.

    Where there are some already, for what is around this, it is those.
    """
    if (known := _open.get()) is not None:
        yield known
        return
    number = effective_n_jobs(n_jobs)
    if n_units < _WORTH or number == 1:
        yield None
        return
    sender, thread = Sender(n_jobs), ThreadPoolExecutor(1)
    started = thread.submit(sender.start)  # there, as their end, while this process goes on
    thread.submit(_import, sender, number)
    token = _open.set(Workers(sender, number, thread, started))
    try:
        yield _open.get()
    finally:
        _open.reset(token)
        sender.end()
        thread.submit(sender.stop)
        # loky sleeps until files that were mapped are deleted; who ends a cluster next must not find it at work
        thread.shutdown(wait=not sender.is_here)


def _import(sender, number):
    sender.results((import_what_tasks_need,) for _ in range(number))


def import_what_tasks_need():
    """Import the modules whose functions are sent."""
    for name in _IMPORTED:
        importlib.import_module(f".{name}", __package__)


def open_workers():
    """What :func:`workers` gave for what is around this, or None."""
    return _open.get()


def run(function, tasks, processes, shared=(), most=None):
    """Results of a function of some tasks, here or by what :func:`workers` gave, the same to the last bit.

    The function is called with the `shared` arrays before what a task holds. Large ones go to a worker once for many
    tasks, as they were when they went first: what they hold must not change while there are workers. At `most` so
    many tasks go to a worker together, None for no such bound.
    """
    return started(function, tasks, processes, shared, most)()


def started(function, tasks, processes, shared=(), most=None):
    """A function that waits for the results of :func:`run`; with processes this one goes on until it is called.

    Who waits takes part: while there are tasks that no worker has, this process does them.
    """
    tasks = list(tasks)
    if processes is None or len(tasks) < 2:
        found = [laid_out(result) for result in called(function, tasks, *shared)]
        return lambda: found
    line = Line(len(tasks), processes.number, most)
    sent = processes.thread.submit(_sent, function, tasks, processes, shared, line)

    @cache
    def waited():
        here = {k: called(function, [tasks[k]], *shared)[0] for k in line.last_ones()}
        found = here if sent.cancel() else here | sent.result()  # workers may not even have started
        return [laid_out(found[k]) for k in range(len(tasks))]

    return waited


def in_threads(function, tasks, processes):
    """Results of a function of some tasks, in threads of this process where it has workers, which wait for it.

    For what lets other threads run: products of the series of the plant, which are too large to be sent.
    """
    if processes is None:
        return [function(*task) for task in tasks]
    with ThreadPoolExecutor(min(processes.number, cpu_count())) as pool:
        return [each.result() for each in [pool.submit(function, *task) for task in tasks]]


def _sent(function, tasks, processes, shared, line):
    """Results of the tasks that workers took, by their places."""
    taken: list = []
    processes.started.result()

    def shares():
        for part in line.shares():
            taken.extend(part)
            yield called_elsewhere, function, tasks[part.start : part.stop], *shared

    parts = processes.sender.results(shares())
    return dict(zip(taken, (result for part in parts for result in part), strict=True))


class Line:
    """Places of tasks in a line: workers take shares from its front, this process one after the other from its end.

    Shares get smaller and smaller, so that few are sent and all end at the same time.
    """

    def __init__(self, n, n_workers, most=None):
        self._first, self._stop, self._n_shares, self._lock = 0, n, _ROUNDS * (n_workers + 1), Lock()
        self._most = n if most is None else most

    def shares(self):
        """Ranges of places from the front."""
        while self._first < self._stop:
            with self._lock:
                size = min(-((self._first - self._stop) // self._n_shares), self._most)
                part = range(self._first, self._first + size)
                self._first = part.stop
            if part:
                yield part

    def last_ones(self):
        """Places from the end."""
        while True:
            with self._lock:
                if self._first >= self._stop:
                    return
                self._stop -= 1
                place = self._stop
            yield place


def called_elsewhere(function, tasks, *shared):
    """The same as :func:`called` in a process that joblib may have started."""
    leave_out_what_is_imported()
    keep_memory()
    keep_freed_memory()
    return called(function, tasks, *shared)


@cache
def leave_out_what_is_imported():
    """Spare processes of loky, once each, a tenth of a second for every one of the garbage collections it asks for."""
    if current_process().name.startswith("LokyProcess"):
        gc.freeze()


@cache
def keep_memory():
    """Let a process told to give back memory at once keep some: blocks take twice as long in workers of Dask else."""
    if "MALLOC_TRIM_THRESHOLD_" in os.environ and sys.platform == "linux":
        import ctypes

        library = ctypes.CDLL(None)
        for how in (_TRIM, _MAP) if hasattr(library, "mallopt") else ():  # of the GNU library
            library.mallopt(*how)


def called(function, tasks, *shared):
    """Results of a function of tasks whose arrays lie in memory as they would anywhere else."""
    shared = laid_out(shared)
    return [function(*shared, *laid_out(task)) for task in tasks]


def laid_out(x):
    """Arrays of nested tuples and lists row by row in aligned memory: sums depend on how numbers lie there."""
    if isinstance(x, np.ndarray):
        x = np.asarray(x)  # parts of a memory map take longer to make
        if x.flags.c_contiguous and x.flags.aligned:
            return x
        return np.require(x, requirements=["C_CONTIGUOUS", "ALIGNED"])
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*map(laid_out, x))
    return type(x)(map(laid_out, x)) if isinstance(x, tuple | list) else x


def chunks(n, size):
    """Ranges of at most so many numbers."""
    return [range(first, min(first + size, n)) for first in range(0, n, size)]
