"""How tasks and what they share reach the processes of a backend of joblib: arrays once, processes that are kept."""

import sys
import weakref
from concurrent.futures import FIRST_COMPLETED, wait
from copy import copy
from functools import cache
from itertools import islice

import numpy as np
from joblib import Parallel, delayed
from joblib.parallel import LokyBackend, get_active_backend

from .parcels import Folder, Parcel, Placed, packed

_AHEAD = 2  # calls per process that are sent before one is back


def sender_of(n_jobs, number):
    """What sends calls to so many processes of the backend that joblib is told to use."""
    backend = get_active_backend()[0]
    if type(backend).__module__.partition(".")[0] == "ray":
        return ByRay(number, getattr(backend, "ray_remote_args", None) or {})
    if hasattr(backend, "client"):
        return ByDask(number, backend.client, backend.submit_kwargs)
    backend = copy(backend)  # which nobody else starts and ends
    kind = ByLoky if isinstance(backend, LokyBackend) else ByJoblib
    return kind(number, Parallel(n_jobs=n_jobs, backend=backend, batch_size=1))


class ByJoblib:
    """Joblib itself."""

    is_waited_for = False  # until it has stopped: it sleeps until files that were mapped are deleted

    def __init__(self, number, parallel):
        self._number, self._parallel = number, parallel

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


class _ByItself:
    """Calls that are sent one by one, a few ahead for every process, and results that are taken as they come.

    Joblib itself looks for them every hundredth of a second. On this machine all large arrays go through files in
    memory, which no scheduler has to carry; shared ones are mapped.
    """

    is_here = True  # whether all processes are on this machine
    is_waited_for = True  # who ends a cluster next must not find it at work

    def __init__(self, number):
        self._number, self._folder = number, None
        self._held: dict = {}

    def start(self):
        """Be ready for calls."""
        if self.is_here:
            self._folder = Folder()

    def stop(self):
        """Let go of the arrays: a fitted plant keeps some of what was sent, the cluster need not."""
        self._held.clear()
        if self._folder is not None:
            self._folder.remove()

    def handed_over(self, x):
        """What is sent for an array."""
        if id(x) not in self._held:
            self._held[id(x)] = self._reference(x) if self._folder is None else self._folder.place(x)
            weakref.finalize(x, self._held.pop, id(x), None).atexit = False
        return self._held[id(x)]

    def results(self, calls):
        """Results of calls (function, *arguments), which are asked for as processes become free."""
        found: dict = {}
        under_way: dict = {}
        places = enumerate(calls)
        while True:
            for place, call in islice(places, _AHEAD * self._number - len(under_way)):
                under_way[self._sent(*self._for_there(*call))] = place
            if not under_way:
                return [found[place] for place in sorted(found)]
            done = self._first_done(list(under_way))
            places_done = [under_way.pop(each) for each in done]
            found.update(zip(places_done, map(_opened, self._brought(done)), strict=True))

    def _for_there(self, function, *arguments):
        """A call with what it is about in a parcel, where it has one."""
        if self._folder is None:
            return function, *arguments
        return done_there, packed((function, arguments), self._folder.path), self._folder.path

    def _reference(self, x):
        """What stands for an array at processes elsewhere."""
        raise NotImplementedError

    def _sent(self, function, *arguments):
        """Something that stands for the result of a call."""
        raise NotImplementedError

    def _first_done(self, under_way):
        """Those that are done of what was sent, at least one."""
        raise NotImplementedError

    def _brought(self, done):
        """Results of what is done."""
        raise NotImplementedError


def done_there(parcel, folder):
    """A parcel with the result of the call that another one holds."""
    function, arguments = parcel.opened()
    arguments = [each.mapped() if isinstance(each, Placed) else each for each in arguments]
    return packed(function(*arguments), folder)


def _opened(x):
    return x.opened() if isinstance(x, Parcel) else x


class ByLoky(_ByItself):
    """Processes of loky."""

    is_waited_for = False  # they are joblib's to end

    def __init__(self, number, parallel):
        super().__init__(number)
        self._joblib = ByJoblib(number, parallel)

    def start(self):
        """Be ready for calls."""
        self._joblib.start()
        super().start()

    def stop(self):
        """Let go of the processes."""
        self._joblib.stop()
        super().stop()

    def handed_over(self, x):
        """What is sent for an array."""
        return super().handed_over(x) if self._has_processes else x

    def results(self, calls):
        """Results of calls, by joblib itself where it has none of its processes to give: within one of them."""
        return super().results(calls) if self._has_processes else self._joblib.results(calls)

    @property
    def _backend(self):
        return self._joblib._parallel._backend  # which is another one once joblib has started

    @property
    def _has_processes(self):
        return isinstance(self._backend, LokyBackend)

    def _sent(self, function, *arguments):
        return self._backend._workers.submit(function, *arguments)

    def _first_done(self, under_way):
        return list(wait(under_way, return_when=FIRST_COMPLETED).done)

    def _brought(self, done):
        return [each.result() for each in done]


class ByDask(_ByItself):
    """Tasks of Dask, without what joblib does around them; every worker has an array, so that none waits for it."""

    def __init__(self, number, client, settings):
        super().__init__(number)
        self._distributed, self._client, self._settings = sys.modules["distributed"], client, settings
        self.is_here = isinstance(client.cluster, self._distributed.LocalCluster)
        self._direct = True if self.is_here else None  # workers that can be reached for sure are asked themselves

    def _reference(self, x):
        return self._client.scatter(x, broadcast=True, hash=False, direct=self._direct)

    def _sent(self, function, *arguments):
        return self._client.submit(function, *arguments, pure=False, **self._settings)

    def _first_done(self, under_way):
        return list(self._distributed.wait(under_way, return_when="FIRST_COMPLETED").done)

    def _brought(self, done):
        return self._client.gather(done, direct=self._direct)


class ByRay(_ByItself):
    """Tasks of Ray, whose processes go on after a fit; those of joblib there start anew for every fit."""

    def __init__(self, number, settings):
        super().__init__(number)
        self._ray, self._settings = sys.modules["ray"], settings
        self._remote = cache(self._exported)

    def start(self):
        """Be ready for calls."""
        if not self._ray.is_initialized():
            self._ray.init()
        self.is_here = len(self._ray.nodes()) == 1
        super().start()

    def _reference(self, x):
        return self._ray.put(x)

    def _exported(self, function):
        """A function that the cluster knows, which is told it once."""
        remote = self._ray.remote(function)
        return remote.options(**self._settings) if self._settings else remote

    def _sent(self, function, *arguments):
        return self._remote(function).remote(*arguments)

    def _first_done(self, under_way):
        return self._ray.wait(under_way)[0]

    def _brought(self, done):
        return self._ray.get(done)
