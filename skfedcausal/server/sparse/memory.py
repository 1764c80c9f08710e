"""What a large plant needs of memory, said before it is learned."""

import math
import os

import numpy as np

from .tuning import TUNING


def needed_memory(n_samples, n_states, n_units, has_gaps=False, n_inputs=0):
    """Bytes that learning a large plant takes at its peak, about."""
    n_series = TUNING.memory_series + has_gaps * (TUNING.memory_drawn + TUNING.memory_of_gaps * n_states / n_units)
    numbers = TUNING.memory_matrices * n_states**2 + n_series * n_samples * n_states + 20 * n_units**2
    if n_inputs:  # regressors beside the states, and the products of both
        n_regressors = n_states + n_inputs
        numbers += TUNING.memory_regressors * (n_samples + n_regressors) * n_regressors
    return round(TUNING.memory_base + 8 * numbers)


def allowed_memory():
    """Bytes that this process may have: of the machine, of its group of processes, of its own limit."""
    return min(of_machine(), _of_group(), _of_process())


def check_memory(n_units, n_states, n_samples, has_gaps=False, n_inputs=0):
    """Refuse a plant that does not fit into memory, with what would; n_states may be the fewest that there can be."""
    allowed, needed = allowed_memory(), needed_memory(n_samples, n_states, n_units, has_gaps, n_inputs)
    if needed <= allowed:
        return
    share, each = n_states / n_units, n_inputs / n_units
    sizes = ((m, (round(share * m), m, has_gaps, round(each * m))) for m in range(1, n_units))
    fits = [m for m, size in sizes if needed_memory(n_samples, *size) <= allowed]
    n_rows = np.geomspace(500, n_samples, 50).astype(int)
    rows = [t for t in n_rows if needed_memory(t, n_states, n_units, has_gaps, n_inputs) <= allowed]
    ways = [f"{most} {what}" for most, what in ((max(fits, default=0), "units of this size"),
                                                (max(rows, default=0), "rows of all units")) if most]  # fmt: skip
    raise MemoryError(
        f"A plant of {n_units} units with {n_states} states and {n_samples} rows{' with gaps' * has_gaps} needs about "
        f"{needed / 2**30:.3g} GiB of memory, and {allowed / 2**30:.3g} GiB are allowed here. "
        f"What would fit: {' or '.join(ways) or 'nothing'}. "
        "Give units fewer states, fit parts of the plant, or allow more memory."
    )


def whole_elements(n_units, n_states, n_inputs):
    """Elements that a plant with inputs is learned from as a whole, before any link: every input acts on every unit."""
    p = n_states / n_units
    return round(n_states * (p + (p + 1) / 2 + n_inputs))


def check_inputs(n_units, n_states, n_inputs):
    """Refuse a plant of many units whose inputs ask for more memory than there is, where it is learned as a whole."""
    allowed, elements = allowed_memory(), whole_elements(n_units, n_states, n_inputs)
    if not n_inputs or (needed := _of_elements(elements)) <= allowed:
        return
    share, each = n_states / n_units, n_inputs / n_units
    fits = [m for m in range(1, n_units)
            if _of_elements(whole_elements(m, round(share * m), round(each * m))) <= allowed]  # fmt: skip
    raise MemoryError(
        f"A plant of {n_units} units with {n_states} states and {n_inputs} inputs is learned as a whole, from "
        f"{elements} elements at least, whose information needs about {needed / 2**30:.3g} GiB of memory; "
        f"{allowed / 2**30:.3g} GiB are allowed here. "
        f"What would fit: {max(fits, default=0)} units with their inputs, or all units with fewer inputs."
    )


def _of_elements(n_elements):
    return 4 * 8 * n_elements**2  # the matrix, its factor, its inverse and a copy


def fewest_states(client):
    """States that a unit has at least, as far as its client is told them."""
    for given in (getattr(client, name, None) for name in ("A", "C")):
        if given is not None:
            return np.shape(given)[-1]
    n_states = getattr(client, "n_states", None)
    return n_states if isinstance(n_states, int) else 1


def of_machine():
    """Bytes of memory of this machine, infinite where it does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return math.inf


def _of_group():
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(path) as file:
                told = file.read().strip()
        except OSError:
            continue
        if told.isdigit():
            return int(told)
    return math.inf


def _of_process():
    try:
        import resource  # not on every system
    except ImportError:
        return math.inf
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY:
        return math.inf
    mapped, resident = _pages()
    return max(soft - mapped + resident, 0)


def _pages():
    """Bytes of address space that this process has already, and of memory; a limit is on the first."""
    try:
        with open("/proc/self/statm") as file:
            mapped, resident = map(int, file.read().split()[:2])
    except OSError:
        return 0, 0
    return mapped * os.sysconf("SC_PAGE_SIZE"), resident * os.sysconf("SC_PAGE_SIZE")
