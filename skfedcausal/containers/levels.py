"""Records whose episodes have levels of their own."""

from dataclasses import replace

import numpy as np

from ..statespace.episodes import episodes


def at_one_level(plant):
    """A record whose episodes all have the level of the first one."""
    return replace(plant, outputs=tuple(_at_first_level(Y, plant.starts) for Y in plant.outputs))


def _at_first_level(Y, starts):
    """Measurements of a unit with the mean of each sensor in the first episode in which it is there."""
    moved, first = np.array(Y, dtype=float), np.full(Y.shape[1], np.nan)
    for start, stop in episodes(starts, len(Y)):
        there = np.isfinite(Y[start:stop])
        level = np.where(there, Y[start:stop], 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
        first = np.where(np.isnan(first) & there.any(axis=0), level, first)
        moved[start:stop] += np.nan_to_num(first) - level
    return moved
