"""Timing of several functions side by side, so that a noisy machine disturbs all of them alike."""

import tracemalloc
from time import perf_counter


def side_by_side(functions, *, repeats=7, budget=60.0):
    """Best time of each function in seconds, measured in turns.

    Parameters
    ----------
    functions : dict of str to callable
    repeats : int
        Turns. Functions that take long get fewer: those that used up their share of `budget` sit out.
    budget : float
        Seconds for the slowest function, all turns together.

    Returns
    -------
    dict of str to float
        Infinite for a function that asked for more memory than there is.
    """
    best = dict.fromkeys(functions, float("inf"))
    spent = dict.fromkeys(functions, 0.0)
    for turn in range(repeats):
        for name, function in functions.items():
            if turn > 0 and spent[name] + best[name] > budget:
                continue
            start = perf_counter()
            try:
                function()
            except MemoryError:
                spent[name] = float("inf")
                continue
            seconds = perf_counter() - start
            best[name], spent[name] = min(best[name], seconds), spent[name] + seconds
    return best


def peak_bytes(function):
    """Largest amount of memory that a call has allocated at one time, its result included."""
    tracemalloc.start()
    try:
        result = function()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    del result
    return peak
