"""The learned plant as the tests of changes see it, and its filter over a record in which it changes."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...statespace.matrices import companion, spectral_radius
from ...statespace.partition import Partition

FURTHER_LAGS = 5  # beyond those of the plant that a link may move to


@dataclass(frozen=True)
class LearnedPlant:
    """Coefficients that a record is compared with; blocks of units have the strength they have in ``links_``."""

    A: np.ndarray  # (q, n, n), in the units' own states
    partition: Partition
    scale: np.ndarray  # (n, n), S with ``h = S h_standardised``
    n_samples: int  # rows it was learned from
    estimates: Any = None  # `BlockEstimates`, standardised; None of a plant of several lags
    known: Any = None  # a :class:`~..knowledge.LinkKnowledge`, or None
    pairs: Any = None  # (n_pairs, 2), of which there are estimates, and links may be new; None for all

    @property
    def n_lags(self):
        """Lags of the plant."""
        return len(self.A)

    def causes(self, unit):
        """The other units that may act on one."""
        kept_out = self.known_not_to_act(unit)
        return [n for n in np.flatnonzero(self._number[unit] >= 0).tolist() if n not in kept_out]

    def known_not_to_act(self, unit):
        """The other units that may not."""
        if self.known is None:
            return []
        return [n for n in np.flatnonzero(self.known.forbidden[unit]).tolist() if n != unit]

    def lags(self, effect, cause, n_lags):
        """Lags up to `n_lags` that a link may act at."""
        every = np.arange(1, n_lags + 1)
        return [int(lag) for lag in (every if self.known is None else self.known.lags(effect, cause, every))]

    def is_linked(self, effect, cause):
        """Whether the plant has the link."""
        return bool(self.kernel(effect, cause).any())

    def kernel(self, effect, cause):
        """Coefficients of a link, (q, p, p_cause)."""
        rows, cols = self.partition.slices[effect], self.partition.slices[cause]
        return self.A[:, rows, cols]

    def first_lag(self, effect, cause):
        """The lag at which a link is strongest."""
        sizes = [self.strength(effect, cause, block) for block in self.kernel(effect, cause)]
        return 1 + int(np.argmax(sizes))

    def shifts(self, effect, cause):
        """Rows by which a link may move."""
        active = 1 + np.flatnonzero(self.kernel(effect, cause).any(axis=(1, 2)))
        allowed = self.lags(effect, cause, self.n_lags + FURTHER_LAGS)
        moves = [*range(1 - int(active[0]), 0), *range(1, FURTHER_LAGS + 1)]
        return [move for move in moves if set(active + move) <= set(allowed)]

    def strength(self, effect, cause, blocks):
        """Norm of blocks (..., p, p_cause) in standardised states."""
        rows, cols = self.partition.slices[effect], self.partition.slices[cause]
        standard = np.linalg.solve(self.scale[rows, rows], blocks) @ self.scale[cols, cols]
        return float(np.linalg.norm(standard))

    def usual_strength(self, default):
        """The median strength of the plant's links."""
        linked = [(m, n) for m, n in self.partition.pairs if self.is_linked(m, n)]
        found = [self.strength(m, n, self.kernel(m, n)) for m, n in linked]
        return float(np.median(found)) if found else default

    def of_strength(self, effect, cause, strength):
        """Size of each element, (p, p_cause), of a block whose elements share a strength evenly."""
        rows, cols = self.partition.slices[effect], self.partition.slices[cause]
        sizes = np.outer(np.diag(self.scale)[rows], 1 / np.diag(self.scale)[cols])
        return strength * sizes / np.sqrt(sizes.size)

    def left_out(self, effect, cause):
        """What the record of the plant says of a block outside of it, flat, in the units' own states: and how surely.

        Estimate and covariance; None where there is no estimate.
        """
        if self.estimates is None:
            return None
        sizes = [self.partition.slices[m].stop - self.partition.slices[m].start for m in (effect, cause)]
        width, number = self.partition.padded.shape[1], self._number[effect, cause]
        kept = (np.arange(sizes[0])[:, None] * width + np.arange(sizes[1])).ravel()
        rows, cols = self.partition.slices[effect], self.partition.slices[cause]
        own = np.kron(self.scale[rows, rows], np.linalg.inv(self.scale[cols, cols]).T)
        covariance = self.estimates.covariance[number][np.ix_(kept, kept)]
        return own @ self.estimates.estimate[number, kept], own @ covariance @ own.T

    @cached_property
    def _number(self):
        pairs = self.partition.pairs if self.pairs is None else self.pairs
        number = np.full((self.partition.n_units, self.partition.n_units), -1)
        number[tuple(pairs.T)] = np.arange(len(pairs))
        return number


# -- filters of a plant that changes ---------------------------------------------------------------------


class ChangingRun:
    """Filters of the same record, each from some row on to where the next one begins."""

    def __init__(self, rows, runs, n_samples):
        self._slices = [slice(a, b) for a, b in zip(rows, [*rows[1:], n_samples], strict=True)]
        self._runs = runs

    def _joined(self, series):
        return np.concatenate([x[rows] for x, rows in zip(series, self._slices, strict=True)])

    @property
    def filtered(self):
        """``E[h_t | messages up to t]``, (n_samples, n)."""
        return self._joined([run.filtered for run in self._runs])

    @property
    def predicted(self):
        """``E[h_t | messages up to t - 1]``, (n_samples, n)."""
        return self._joined([run.predicted for run in self._runs])

    def unit_covariances(self, slices):
        """Covariance of each unit's predicted states at every row."""
        by_run = [run.unit_covariances(slices) for run in self._runs]
        return [self._joined([found[k] for found in by_run]) for k in range(len(slices))]


def changed_run(plant, changes, filter_of):
    """The filter that knows of changes of links by (effect, cause), from their dates on.

    A change that leaves no stable plant is left out: a filter begins with the states' stationary spread.
    """
    lags_from, lags = {0: plant.A}, plant.A  # by row
    for (effect, cause), change in sorted(changes.items(), key=lambda item: item[1].since):
        changed = with_kernel(lags, plant.partition, effect, cause, change.kernel)
        if spectral_radius(companion(np.hstack(list(changed)), len(changed))) < 1 - 1e-6:
            lags = lags_from[int(change.since)] = changed
    runs = [filter_of(lags) for lags in lags_from.values()]
    return runs[0] if len(runs) == 1 else ChangingRun([*lags_from], runs, len(runs[0].filtered))


def with_kernel(lags, partition, effect, cause, kernel):
    """Coefficients (q, n, n) with others for one link."""
    n_lags = max(len(lags), 1 + max(np.flatnonzero(kernel.any(axis=(1, 2))), default=0))
    changed = np.zeros((n_lags, *lags.shape[1:]))
    changed[: len(lags)] = lags
    rows, cols = partition.slices[effect], partition.slices[cause]
    changed[:, rows, cols] = 0.0
    changed[: len(kernel), rows, cols] = kernel[:n_lags]
    return changed
