"""Records whose episodes have levels of their own."""

from dataclasses import replace

import numpy as np

from ..statespace.episodes import episodes


def at_one_level(plant, levels=None):
    """A record whose episodes all have the level of the first one.

    `levels` are the numbers of their levels, from 0 on in the order in which they come, None for one of each its own.
    """
    bounds = episodes(plant.starts, plant.n_samples)
    levels = range(len(bounds)) if levels is None else levels
    rows = np.concatenate([np.full(stop - start, k) for (start, stop), k in zip(bounds, levels, strict=True)])
    return replace(plant, outputs=tuple(_at_first_level(Y, rows) for Y in plant.outputs))


def _at_first_level(Y, levels):
    """Measurements of a unit with the mean of each sensor at the first level at which it is there."""
    moved, first = np.array(Y, dtype=float), np.full(Y.shape[1], np.nan)
    for k in range(levels.max() + 1):
        here = levels == k
        there = np.isfinite(Y[here])
        level = np.where(there, Y[here], 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
        first = np.where(np.isnan(first) & there.any(axis=0), level, first)
        moved[here] += np.nan_to_num(first) - level
    return moved
