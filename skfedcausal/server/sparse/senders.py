"""How tasks and what they share reach the processes of a backend of joblib: arrays once, processes that are kept."""

import sys
import weakref
from collections import deque
from copy import copy

from joblib import Parallel, delayed
from joblib.parallel import get_active_backend

_AHEAD = 2  # calls per process that are sent before one is back


def sender_of(n_jobs, number):
    """What sends calls to so many processes of the backend that joblib is told to use."""
    backend = get_active_backend()[0]
    if type(backend).__module__.partition(".")[0] == "ray":
        return ByRay(getattr(backend, "ray_remote_args", None) or {}, number)
    kind = ByDask if hasattr(backend, "client") else ByJoblib
    return kind(Parallel(n_jobs=n_jobs, backend=copy(backend), batch_size=1))  # which nobody else starts and ends


class ByJoblib:
    """Joblib itself, which maps large arrays into its processes, each once."""

    def __init__(self, parallel):
        self._parallel = parallel

    def start(self):
        """Be ready for calls."""
        self._parallel.__enter__()

    def stop(self):
        """Let go of the processes."""
        self._parallel.__exit__(None, None, None)

    def handed_over(self, x):
        """What is sent for an array."""
        return x

    def results(self, calls):
        """Results of calls (function, *arguments), which are asked for as processes become free."""
        return self._parallel(delayed(function)(*arguments) for function, *arguments in calls)


class _WithReferences:
    """Clusters that are given an array once, and references to it."""

    def __init__(self):
        self._held: dict = {}

    def handed_over(self, x):
        """What is sent for an array."""
        if id(x) not in self._held:
            self._held[id(x)] = self._reference(x)
            weakref.finalize(x, self._held.pop, id(x), None).atexit = False
        return self._held[id(x)]

    def _reference(self, x):
        raise NotImplementedError


class ByDask(_WithReferences, ByJoblib):
    """Joblib on a cluster of Dask: every worker has an array, so that none waits for the one that has it."""

    def __init__(self, parallel):
        _WithReferences.__init__(self)
        ByJoblib.__init__(self, parallel)

    def stop(self):
        """Let go of the arrays and the processes: a fitted plant keeps some of what was sent, the cluster need not."""
        self._held.clear()
        super().stop()

    def _reference(self, x):
        return self._parallel._backend.client.scatter(x, broadcast=True, hash=False)


class ByRay(_WithReferences):
    """Tasks of Ray, whose processes go on after a fit; those of joblib there start anew for every fit."""

    def __init__(self, settings, number):
        super().__init__()
        self._ray, self._settings, self._number = sys.modules["ray"], settings, number

    def start(self):
        """Be ready for calls."""
        if not self._ray.is_initialized():
            self._ray.init()

    def stop(self):
        """Let go of the arrays."""
        self._held.clear()

    def _reference(self, x):
        return self._ray.put(x)

    def results(self, calls):
        """Results of calls (function, *arguments), which are asked for as processes become free."""
        found: list = []
        under_way: deque = deque()
        for function, *arguments in calls:
            under_way.append(self._remote(function).remote(*arguments))
            found.append(under_way[-1])
            while len(under_way) >= _AHEAD * self._number:
                _, left = self._ray.wait(list(under_way))
                under_way = deque(left)
        return self._ray.get(found)

    def _remote(self, function):
        remote = self._ray.remote(function)
        return remote.options(**self._settings) if self._settings else remote
