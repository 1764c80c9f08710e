"""Levels that a nominal record visits and nobody told of: modes, recipes, set-points that are no inputs.

A plant that is switched between modes is driven by a step of all states together, found as any change of level is
(:mod:`skfedcausal.statespace.segments`).
"""

from typing import NamedTuple

import numpy as np

from ...statespace.episodes import episodes
from ...statespace.segments import LevelRegression

_VISITED = 120  # rows of a level at least
_SETTLING = 40  # rows after a switch that are not of the level yet, at most a quarter of those until the next one
_LEAST = 20  # rows of a segment, where an episode begins or ends beside a switch
_MOST_LEVELS = 4


class Segment(NamedTuple):
    """Rows from `start` to before `stop` at one of the levels, numbered as they come."""

    start: int
    stop: int
    level: int


def visited(x, starts):
    """Segments at the levels of states (n_samples, n), without the rows in which they settle; none if it is one."""
    record = LevelRegression.of(x, starts, sections=(0,))
    changes = [] if record is None else record.changes()
    if not changes:
        return []
    levels = record.levels(changes)
    begins, ends = [0, *(change.stop - 1 for change in changes)], [*(change.start for change in changes), len(x)]
    found = []
    for a, b, level in zip(begins, ends, levels, strict=True):
        for start, stop in episodes(sorted({a, *(s for s in starts if a < s < b)}), b):
            first = start + (min(_SETTLING, (stop - start) // 4) if start == a and a > 0 else 0)
            if stop - first >= _LEAST:
                found.append(Segment(first, stop, level))
    sizes = np.bincount(levels, np.subtract(ends, begins))
    return found if 1 < len(sizes) <= _MOST_LEVELS and sizes.min() >= _VISITED else []
