"""Levels that a nominal record visits and nobody told of: modes, recipes, set-points that are no inputs.

A plant that is switched between modes is driven by a step. What a finder of changes finds in all states together are
the switches, and levels between them that may be the same are one.
"""

from typing import NamedTuple

import numpy as np

from ...statespace.episodes import episodes
from ...statespace.segments import LevelRegression
from .tuning import TUNING


class Stretch(NamedTuple):
    """Rows from `start` to before `stop` at one of the levels, numbered as they come."""

    start: int
    stop: int
    level: int


def visited(x, starts):
    """Stretches at the levels of states (n_samples, n), without the rows in which they settle; none if it is one."""
    record = LevelRegression.of(x, starts)
    changes = [] if record is None else record.changes(sudden=True)
    if not 0 < len(changes) <= TUNING.visited_most_switches:
        return []
    begins, ends = [0, *(c.stop - 1 for c in changes)], [*(c.start for c in changes), len(x)]
    levels = record.levels(changes)
    found = []
    for a, b, level in zip(begins, ends, levels, strict=True):
        for start, stop in episodes(sorted({a, *(s for s in starts if a < s < b)}), b):
            first = start + (min(TUNING.visited_settling, (stop - start) // 4) if start == a and a > 0 else 0)
            if stop - first >= TUNING.visited_least:
                found.append(Stretch(first, stop, level))
    sizes = np.bincount(levels, np.subtract(ends, begins))
    is_switched = 1 < len(sizes) <= TUNING.visited_most_levels and sizes.min() >= TUNING.visited_visited
    return found if is_switched and not _is_at_an_end(levels, sizes / len(x)) else []


def _is_at_an_end(levels, shares):
    """Whether all levels but one are a start-up, or something that only begins: short, once, where a record ends."""
    ends = {end for end in (levels[0], levels[-1]) if levels.count(end) == 1 and shares[end] < TUNING.visited_at_an_end}
    return len(shares) - len(ends) <= 1
