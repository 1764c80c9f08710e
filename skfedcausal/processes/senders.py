"""How tasks and what they share reach the processes of a backend of joblib: arrays once, processes that are kept."""

import os
import pickle
import socket
import sys
import warnings
import weakref
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, wait
from copy import copy
from functools import cache
from itertools import islice
from typing import Any

from joblib import Parallel, delayed
from joblib.parallel import LokyBackend, get_active_backend

from .parcels import Folder, Placed, done_there, packed

AHEAD = 2  # calls per process that are sent before one is back
PATIENCE = 0.2  # seconds between looks at whether anybody waits still


def sender_of(n_jobs, number):
    """What sends calls to so many processes of the backend that joblib is told to use."""
    backend = get_active_backend()[0]
    if type(backend).__module__.partition(".")[0] == "ray":
        return _here_or_elsewhere(ByRay(number, getattr(backend, "ray_remote_args", None) or {}))
    if hasattr(backend, "client"):
        return _here_or_elsewhere(ByDask(number, backend.client, backend.submit_kwargs))
    backend = copy(backend)  # which nobody else starts and ends
    by_joblib = ByJoblib(Parallel(n_jobs=n_jobs, backend=backend, batch_size=1))
    return ByLoky(number, by_joblib) if isinstance(backend, LokyBackend) else by_joblib


def _here_or_elsewhere(cluster):
    """Pipes to a cluster that is on this machine, tasks of one that is not."""
    if not (cluster.is_near() and hasattr(socket, "AF_UNIX")):
        return cluster
    from .pipes import ByPipes

    return ByPipes(cluster)


class ByJoblib:
    """Joblib itself."""

    is_here = False  # whether what is sent goes through files of this machine
    is_waited_for = False  # until it has stopped: it sleeps until files that were mapped are deleted

    def __init__(self, parallel):
        self._parallel = parallel

    @property
    def backend(self):
        """The backend, which is another one once joblib has started."""
        return self._parallel._backend

    def start(self):
        """Be ready for calls."""
        self._parallel.__enter__()

    def end(self):
        """Send nothing more."""

    def stop(self):
        """Let go of the processes."""
        self._parallel.__exit__(None, None, None)

    def handed_over(self, x):
        """What is sent for an array."""
        return x

    def results(self, calls):
        """Results of calls (function, *arguments), which are asked for as processes become free."""
        return self._parallel(delayed(function)(*arguments) for function, *arguments in calls)


class Sender:
    """Calls that are sent one by one, a few ahead for every process, and results that are taken as they come.

    Joblib itself looks for them every hundredth of a second.
    """

    is_waited_for = True  # who ends a cluster next must not find it at work

    def __init__(self, number):
        self.number, self.is_over = number, False
        self._held: dict = {}

    def start(self):
        """Be ready for calls."""

    def end(self):
        """Send nothing more."""
        self.is_over = True

    def stop(self):
        """Let go of the arrays: a fitted plant keeps some of what was sent, the cluster need not."""
        self._held.clear()

    @property
    def is_here(self):
        """Whether what is sent goes through files of this machine."""
        return False

    def handed_over(self, x):
        """What is sent for an array."""
        if id(x) not in self._held:
            self._held[id(x)] = self.reference(x)
            weakref.finalize(x, _let_go, self._held, id(x)).atexit = False
        return self._held[id(x)]

    def results(self, calls):
        """Results of calls (function, *arguments), which are asked for as processes become free.

        Of those before the end where nothing is to be sent any more.
        """
        found: dict = {}
        under_way: dict = {}
        places = enumerate(calls)
        while not self.is_over:
            for place, call in islice(places, max(0, self.room - len(under_way))):
                under_way[self.sent(*call)] = place
            if not under_way:
                break
            found |= {under_way.pop(each): result for each, result in self.came(list(under_way))}
        return [found[place] for place in sorted(found)]

    @property
    def room(self):
        """How many calls may be under way."""
        return AHEAD * self.number

    def reference(self, x):
        """What stands for an array."""
        raise NotImplementedError

    def sent(self, function, *arguments):
        """Something that stands for the result of a call."""
        raise NotImplementedError

    def came(self, under_way):
        """Pairs of what is done of what was sent, and its result; sometimes none."""
        raise NotImplementedError


def _let_go(held, key):
    """Forget what stands for an array that nobody has any more, and delete its file."""
    found = held.pop(key, None)
    if isinstance(found, Placed):
        found.remove()


class OnThisMachine(Sender):
    """Calls to processes of this machine: arrays go through files in memory, shared ones are mapped."""

    folder: Any = None

    @property
    def is_here(self):
        """Whether what is sent goes through files of this machine."""
        return True

    def start(self):
        """Be ready for calls."""
        self.folder = Folder()

    def stop(self):
        """Let go of the files."""
        super().stop()
        if self.folder is not None:
            self.folder.remove()

    def reference(self, x):
        """What stands for an array."""
        return self.folder.place(x)

    def parcel(self, function, *arguments):
        """A call on its way."""
        return packed((function, arguments), self.folder.path)


class ByLoky(OnThisMachine):
    """Processes of loky."""

    is_waited_for = False  # they are joblib's to end

    @property
    def is_here(self):
        """Whether what is sent goes through files of this machine."""
        return isinstance(self._joblib.backend, LokyBackend)

    def __init__(self, number, by_joblib):
        super().__init__(number)
        self._joblib = by_joblib

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
        return super().handed_over(x) if self.is_here else x

    def results(self, calls):
        """Results of calls, by joblib itself where it has none of its processes to give: within one of them.

        Where a process was killed, as for want of memory, all that was asked for is done here.
        """
        if not self.is_here:
            return self._joblib.results(calls)
        calls = list(calls)
        try:
            return super().results(calls)
        except BrokenExecutor:
            warnings.warn(
                "A process that learned a part of the plant was killed, by the system for want of memory perhaps; its "
                "part is learned in this process. The result is the same. Give fewer processes (n_jobs).",
                stacklevel=2,
            )
            return [done_there(self.parcel(*call), self.folder.path).opened() for call in calls]

    def sent(self, function, *arguments):
        """Something that stands for the result of a call."""
        return self._joblib.backend._workers.submit(done_there, self.parcel(function, *arguments), self.folder.path)

    def came(self, under_way):
        """Pairs of what is done of what was sent, and its result; sometimes none."""
        done = wait(under_way, PATIENCE, return_when=FIRST_COMPLETED).done
        return [(each, each.result().opened()) for each in done]


class ByDask(Sender):
    """Tasks of Dask, without what joblib does around them; every worker has an array, so that none waits for it."""

    def __init__(self, number, client, settings):
        super().__init__(number)
        self._distributed, self._client, self._settings = sys.modules["distributed"], client, settings

    def is_near(self):
        """Whether its workers are processes of this machine of their own, any of which may be used."""
        if not isinstance(self._client.cluster, self._distributed.LocalCluster) or "workers" in self._settings:
            return False
        return os.getpid() not in self._client.run(os.getpid).values()

    def begin(self, function, *arguments):
        """Futures of a call that goes on in every process, beside which the cluster does what else it is asked."""
        settings = {**self._settings, "pure": False, "allow_other_workers": False}
        return [
            self._client.submit(_beside_others, function, *arguments, **settings, workers=[at])
            for at in list(self._client.nthreads())[: self.number]
        ]

    def have_ended(self, futures):
        """Whether all of them have; what ended one is raised."""
        done = [each for each in futures if each.done()]
        self._client.gather(done)
        return len(done) == len(futures)

    def reference(self, x):
        """What stands for an array."""
        return self._client.scatter(x, broadcast=True, hash=False)

    def sent(self, function, *arguments):
        """Something that stands for the result of a call."""
        references = [each for each in arguments if isinstance(each, self._distributed.Future)]
        call = pickle.dumps((function, arguments[: len(arguments) - len(references)]))
        return self._client.submit(_in_bytes, call, *references, pure=False, **self._settings)

    def came(self, under_way):
        """Pairs of what is done of what was sent, and its result; sometimes none."""
        done = list(self._distributed.wait(under_way, return_when="FIRST_COMPLETED").done)
        return zip(done, map(pickle.loads, self._client.gather(done)), strict=True)


def _in_bytes(call, *references):
    """Result of a call, which has its references last, both as bytes: Dask handles every array of a tuple apart."""
    function, told = pickle.loads(call)
    return pickle.dumps(function(*told, *references))


def _beside_others(function, *arguments):
    """A call that does not count as work of a worker of Dask."""
    from distributed import secede

    secede()
    return function(*arguments)


class ByRay(Sender):
    """Tasks of Ray, whose processes go on after a fit; those of joblib there start anew for every fit."""

    def __init__(self, number, settings):
        super().__init__(number)
        self._ray, self._settings = sys.modules["ray"], settings
        self._remote = cache(self._exported)

    def is_near(self):
        """Whether its processes are on this machine."""
        if not self._ray.is_initialized():
            self._ray.init()
        nodes = [each["NodeManagerAddress"] for each in self._ray.nodes() if each["Alive"]]
        return nodes == [self._ray.util.get_node_ip_address()]

    def begin(self, function, *arguments):
        """Futures of a call that goes on in every process, beside which the cluster does what else it is asked."""
        beside_others = self._ray.remote(function).options(**{"num_cpus": 0} | self._settings)
        return [beside_others.remote(*arguments) for _ in range(self.number)]

    def have_ended(self, futures):
        """Whether all of them have; what ended one is raised."""
        done, left = self._ray.wait(futures, num_returns=len(futures), timeout=0)
        self._ray.get(done)
        return not left

    def reference(self, x):
        """What stands for an array."""
        return self._ray.put(x)

    def _exported(self, function):
        """A function that the cluster knows, which is told it once."""
        remote = self._ray.remote(function)
        return remote.options(**self._settings) if self._settings else remote

    def sent(self, function, *arguments):
        """Something that stands for the result of a call."""
        return self._remote(function).remote(*arguments)

    def came(self, under_way):
        """Pairs of what is done of what was sent, and its result; sometimes none."""
        done = self._ray.wait(under_way)[0]
        return zip(done, self._ray.get(done), strict=True)
