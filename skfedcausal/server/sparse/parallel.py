"""Work of a large plant in other processes, on any backend of joblib, to the same bits."""

from contextlib import contextmanager

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

_WORTH = 128  # units, from which on processes are started


@contextmanager
def workers(n_units, n_jobs):
    """Processes for the whole of a large plant, None for one that is not worth any: they take a second to start."""
    if n_units < _WORTH or effective_n_jobs(n_jobs) == 1:
        yield None
        return
    with Parallel(n_jobs=n_jobs) as parallel:
        yield parallel


def run(function, tasks, parallel):
    """Results of a function of some tasks, here or by what :func:`workers` gave, the same to the last bit."""
    tasks = list(tasks)
    if parallel is None or len(tasks) < 2:
        found = [called(function, task) for task in tasks]
    else:
        found = parallel(delayed(called)(function, task) for task in tasks)
    return [laid_out(result) for result in found]


def called(function, task):
    """Result of a function of a task whose arrays lie in memory as they would anywhere else."""
    return function(*laid_out(task))


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
