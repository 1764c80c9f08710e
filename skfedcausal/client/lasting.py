"""Whether a unit's model, learned from some rows, still fits the rows of later batches."""

from typing import NamedTuple

import numpy as np

from ..statespace.episodes import episodes

_BLOCKS, _LEAST_ROWS = 40, 25  # stretches that a batch is cut into, rows of one
_SURE = 5.0  # standard errors
_CLEAR = 0.1  # nats per measurement: what is not predicted of all of them has a fifth more variance


class Fit(NamedTuple):
    """Mean log-density of a measurement given the unit's past, and its variance."""

    mean: float
    variance: float


def fit_of(client, Y, U, starts):
    """How a unit's own model explains rows around their level in each episode, a `Fit`; None of too few rows."""
    Y = client.active_columns(Y)
    levelled = np.array(Y, dtype=float)
    there = ~np.isnan(levelled)
    for start, stop in episodes(starts, len(Y)):
        counts = np.maximum(there[start:stop].sum(axis=0), 1)
        levelled[start:stop] += client.model.mean - np.nansum(levelled[start:stop], axis=0) / counts
    density, n_seen = client.model.log_likelihood(levelled, U, starts), there.sum(axis=1)
    size = max(len(Y) // _BLOCKS, _LEAST_ROWS)
    n_blocks = len(Y) // size
    if n_blocks < 2:
        return None
    shape, rows = (n_blocks, size), n_blocks * size
    n = n_seen[:rows].reshape(shape).sum(axis=1)
    means = density[:rows].reshape(shape).sum(axis=1)[n > 0] / n[n > 0]
    if len(means) < 2:
        return None
    return Fit(float(density.sum() / n_seen.sum()), float(means.var(ddof=1) / len(means)))


def is_outdated(before, now):
    """Whether a model explains later rows clearly worse than those that it was learned from."""
    if before is None or now is None:
        return False
    lost = before.mean - now.mean
    return bool(lost > _CLEAR and lost > _SURE * np.sqrt(before.variance + now.variance))
