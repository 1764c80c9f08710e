"""Records of large plants in which measurements are missing: filter, smoother, and complete records drawn from them.

What couples units stays stationary, as in the filter of complete rows. What a unit's own measurements tell goes by
covariances of its own, which know what was missing when: a row costs what the links cost and a few small matrices for
the units that miss something or did so a moment ago. With nothing missing the filter is that of complete rows.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ...statespace.episodes import episodes
from ...statespace.kalman import Covariances, log_density_terms
from ...statespace.matrices import covariance_root, floor_eigenvalues, spectral_radius
from ...statespace.observation import Information, is_regular
from ...statespace.simulation import simulated_information
from ..dynamics import Plant
from ..estimation.scoring import MAX_RADIUS
from ..joint import usual_information
from ..prediction import _block, as_measured
from .filter import LargeFilter
from .tuning import TUNING

WORTH_WAITING = 64  # units of the largest of these
_SETTLED = 1e-9  # relative difference of covariances from stationary ones


class _Units(NamedTuple):
    """Units of one size: their states, stationary covariances, and what they measure row by row."""

    states: np.ndarray  # (k, p)
    A: np.ndarray  # (k, p, p), of the unit itself
    J: np.ndarray  # usual information
    predicted: np.ndarray  # stationary covariance given the past
    filtered: np.ndarray  # and given the unit's own measurement, too
    to_score: np.ndarray  # what a score innovation is that moves a unit as an update does
    patterns: np.ndarray  # of all these units
    pattern_of: np.ndarray  # (n_samples, k)
    unusual: np.ndarray  # (n_samples, k), rows that miss something


class _Steps(NamedTuple):
    """Covariances of units at rows where they are not the stationary ones, by row."""

    first: np.ndarray  # (n_samples + 1,) where those of a row begin
    unit: np.ndarray
    predicted: np.ndarray
    filtered: np.ndarray
    following: np.ndarray  # predicted ones of the row after


def units_of(matrices, record):
    """All units by size, a list of `_Units`."""
    found, P, A, usual = [], matrices.predicted, matrices.A, matrices.information
    for size, units in record.partition.groups.items():
        slices = [record.partition.slices[m] for m in units]
        parts = [record.parts[m] for m in units]
        own, before, J = (np.stack([_block(x, rows) for rows in slices]) for x in (A, P, usual))
        after = _updated(before, J)
        first = np.cumsum([0, *(len(part.patterns) for part in parts)])
        of = np.column_stack([start + part.pattern_of for start, part in zip(first[:-1], parts, strict=True)])
        patterns = np.concatenate([part.patterns for part in parts])
        is_usual = np.concatenate([
            np.abs(part.patterns - whole).max(axis=(1, 2)) <= TUNING.gaps_same * np.abs(whole).max()
            for part, whole in zip(parts, J, strict=True)
        ])  # fmt: skip
        states = np.array([np.arange(rows.start, rows.stop) for rows in slices]).reshape(-1, size)
        found.append(_Units(states, own, J, before, after, np.linalg.inv(after @ J), patterns, of, ~is_usual[of]))
    return found


def _updated(P, J):
    """Covariances of states once they are measured with information J."""
    found = np.linalg.solve(np.eye(P.shape[-1]) + P @ J, P)
    return (found + np.swapaxes(found, -1, -2)) / 2


def _times(matrices, vectors):
    return np.matmul(matrices, vectors[..., None])[..., 0]


class GapRun:
    """Filter of a large plant over a record with gaps, and the smoother that follows it.

    `exogenous` is what inputs and steps add to the state equation at each row, in the first row of an episode the
    mean of its first state; None for neither.
    """

    def __init__(self, matrices, record, exogenous=None):
        self._matrices = replace(matrices, A=csr_array(matrices.A), gain=csr_array(matrices.gain))
        self.record, self._exogenous = record, exogenous
        self.units = units_of(self._matrices, record)
        self._run(record.z)

    def _run(self, z):
        scores = np.empty_like(z)
        for group in self.units:
            for own, J in zip(group.states, group.J, strict=True):
                scores[:, own] = np.linalg.solve(J, z[:, own].T).T
        self.predicted, self.filtered = np.empty((2, *z.shape))
        kept: list[list] = [[] for _ in self.units]
        for start, stop in episodes(self.record.starts, len(z)):
            self._episode(start, stop, z, scores, kept)
        self.steps = [_together(rows, group, len(z)) for rows, group in zip(kept, self.units, strict=True)]

    def _episode(self, start, stop, z, scores, kept):
        A, gain, added = self._matrices.A, self._matrices.gain, self._exogenous
        mean = np.zeros(z.shape[1]) if added is None else added[start].copy()
        P = [group.predicted.copy() for group in self.units]
        moved = [np.zeros(len(group.states), dtype=bool) for group in self.units]
        for t in range(start, stop):
            self.predicted[t] = mean
            news = scores[t] - mean
            for group, before, off, rows in zip(self.units, P, moved, kept, strict=True):
                chosen = np.flatnonzero(off | group.unusual[t])
                if len(chosen):
                    rows.append((t, chosen, *_step(group, chosen, before, off, z[t], mean, news, t)))
            self.filtered[t] = mean + gain @ news
            mean = A @ self.filtered[t]
            if added is not None and t + 1 < stop:
                mean = mean + added[t + 1]

    def smoothed(self):
        """States given the whole record, (n_samples, n)."""
        back, out, turns = csr_array(self._matrices.back), self.filtered.copy(), []
        for steps, group in zip(self.steps, self.units, strict=True):  # what they differ by from stationary gains
            usual, own = _gains_back(steps, group)
            turns.append(own - usual[steps.unit])
        for start, stop in episodes(self.record.starts, len(out)):
            for t in range(stop - 2, start - 1, -1):
                miss = out[t + 1] - self.predicted[t + 1]
                out[t] += back @ miss
                for group, steps, turn in zip(self.units, self.steps, turns, strict=True):
                    first, last = steps.first[t], steps.first[t + 1]
                    if last > first:
                        own = group.states[steps.unit[first:last]]
                        out[t, own] += _times(turn[first:last], miss[own])
        return out

    def unit_covariances(self, smoothed=False):
        """Covariances of every unit's states by themselves, (n_samples, p, p) each, predicted or smoothed ones."""
        found: list = [None] * len(self.record.parts)
        for (_, units), group, steps in zip(self.record.partition.groups.items(), self.units, self.steps, strict=True):
            usual, unusual = (group.filtered, steps.filtered) if smoothed else (group.predicted, steps.predicted)
            whole = np.tile(usual, (len(self.filtered), 1, 1, 1))
            whole[np.repeat(np.arange(len(whole)), np.diff(steps.first)), steps.unit] = unusual
            if smoothed:
                self._smooth_covariances(whole, group, steps)
            for k, m in enumerate(units):
                found[m] = whole[:, k]
        return found

    def _smooth_covariances(self, V, group, steps):
        """Write smoothed covariances of units (n_samples, k, p, p) over filtered ones."""
        usual, own = _gains_back(steps, group)
        for start, stop in episodes(self.record.starts, len(V)):
            for t in range(stop - 2, start - 1, -1):
                C, before, here = usual, group.predicted, slice(steps.first[t], steps.first[t + 1])
                if here.stop > here.start:
                    C, before = C.copy(), before.copy()
                    C[steps.unit[here]], before[steps.unit[here]] = own[here], steps.following[here]
                V[t] += C @ (V[t + 1] - before) @ np.swapaxes(C, 1, 2)


def _step(group, chosen, before, off, z, mean, news, t):
    """Update of units that miss something or did so: news in terms of scores, and their covariances."""
    P, own = before[chosen], group.states[chosen]
    J = group.patterns[group.pattern_of[t, chosen]]
    after = _updated(P, J)
    news[own] = _times(group.to_score[chosen] @ after, z[own] - _times(J, mean[own]))
    A, usual = group.A[chosen], group.predicted[chosen]
    following = usual + A @ (after - group.filtered[chosen]) @ np.swapaxes(A, 1, 2)
    before[chosen] = following
    size = np.trace(usual, axis1=1, axis2=2)
    off[chosen] = np.abs(following - usual).max(axis=(1, 2)) > _SETTLED * size
    return P, after, following


def _together(rows, group, n_samples):
    """What rows kept of the covariances of units, one after the other."""
    p = group.states.shape[1]
    if not rows:
        none = np.zeros((0, p, p))
        return _Steps(np.zeros(n_samples + 1, dtype=int), np.zeros(0, dtype=int), none, none, none)
    t, units, *matrices = zip(*rows, strict=True)
    first = np.zeros(n_samples + 1, dtype=int)
    first[np.asarray(t) + 1] = [len(chosen) for chosen in units]
    return _Steps(np.cumsum(first), np.concatenate(units), *map(np.concatenate, matrices))


def _gains_back(steps, group):
    """Backward gains of units on themselves: stationary ones, and those of rows with covariances of their own."""
    usual = np.linalg.solve(group.predicted, group.A @ group.filtered)
    own = np.linalg.solve(steps.following, group.A[steps.unit] @ steps.filtered)
    return np.swapaxes(usual, 1, 2), np.swapaxes(own, 1, 2)


class LargeFilterWithGaps(LargeFilter):
    """Filter of a large plant over a record in which measurements are missing, see `GapRun`."""

    @cached_property
    def _gaps(self):
        return GapRun(self._matrices, self.record, self._exogenous)

    @property
    def filtered(self):
        """``E[h_t | messages up to t]``, shape (n_samples, n)."""
        return self._gaps.filtered

    @property
    def predicted(self):
        """``E[h_t | messages up to t - 1]``, shape (n_samples, n)."""
        return self._gaps.predicted

    def smoothed(self, intercept=True, spread=True):
        """States given the whole record, (n_samples, n), and covariances of each unit's as of `smooth_record`.

        With an `intercept` the levels of episodes are those that the measurements have by themselves.
        """
        if intercept and self._drive is None:
            run, levels = GapRun(self._matrices, self.record.centred()), self.record.levels()
        else:
            run, levels = self._gaps, 0.0
        states = run.smoothed() + levels
        return states, as_measured(run.unit_covariances(smoothed=True), self.record.parts) if spread else []

    def unit_covariances(self, slices):
        """Covariance of each unit's predicted states at every row, a list of arrays (n_samples, p, p)."""
        return self._gaps.unit_covariances()

    def unit_log_densities(self):
        """Log-density of each unit's own measurements at each step given the past, less terms free of the states."""
        record, terms = self.record, np.empty((self.record.n_samples, len(self.record.parts)))
        found = zip(record.parts, record.partition.slices, self._gaps.unit_covariances(), strict=True)
        for m, (part, rows, P) in enumerate(found):
            J = part.patterns[part.pattern_of]
            covariances = Covariances(J, P, _updated(P, J), None, None)
            terms[:, m] = log_density_terms(covariances, part.z, self.predicted[:, rows])
        return terms

    def log_likelihood(self):
        """Log-density of all measurements at each step given the past, what units have in common in a row left out."""
        const = self.record.const()
        if const is None:
            raise ValueError("Likelihood values need messages with their constants (const=True).")
        densities = self.unit_log_densities()
        own = np.setdiff1d(np.arange(densities.shape[1]), self.record.partition.unit_of_state[self._alone])
        return const + densities[:, own].sum(axis=1)


# -- complete records ----------------------------------------------------------------------------------


def are_stable_alone(A, partition):
    """Whether every unit is stable without what others make of it.

    Others that keep a unit stable do so by what they know of it. In a gap the exact filter learns that from them,
    while here their gains stay those of rows in which it is measured itself: errors and covariances would grow.
    """
    A = csr_array(A)
    own = (np.stack([_block(A, partition.slices[m]) for m in units]) for units in partition.groups.values())
    return all(spectral_radius(blocks).max() < MAX_RADIUS for blocks in own)


def share_there(record):
    """Share of what each unit's usual measurements tell that is there, shape (n_units,)."""
    return np.array([
        np.trace(np.linalg.solve(usual_information(part), part.mean_information)) / part.z.shape[1]
        for part in record.parts
    ])  # fmt: skip


def least_there(n_units):
    """Share of its usual measurements that every unit of a plant has to have to be learned in blocks.

    Many and long gaps cost links: with a fifth of the rows missing F1 was 0.29, that of the exact likelihood 0.65.
    """
    return TUNING.gaps_nearly_always if n_units <= WORTH_WAITING else TUNING.gaps_least_there


def are_mostly_there(record):
    """Whether every unit has that share in rows that determine its states."""
    return min(map(_share_determined, record.parts)) >= least_there(len(record.parts))


def _share_determined(part):
    """Share of what a unit's usual measurements tell that rows bring by which its states are determined."""
    usual = usual_information(part)
    if not is_regular(usual):
        return 0.0
    worth = np.trace(np.linalg.solve(usual, part.patterns), axis1=1, axis2=2) / len(usual)
    return np.where(part.regular_patterns, np.minimum(worth, 1.0), 0.0)[part.pattern_of].mean()


def n_fillings(record):
    """How often a record is filled by a plant with links, after it was filled by units on their own; 0 for None."""
    if record is None:
        return 0
    lacking = 1 - max(share_there(record).min(), TUNING.gaps_least_there) ** 2  # of what two units measured
    return max(int(np.ceil(np.log(TUNING.gaps_left) / np.log(max(lacking, 1e-9)))) - 1, 1)


def drawn_record(record, matrices, exogenous=None):
    """The record with what is missing drawn from its distribution given the rest, under a plant of its states.

    ``z + (J - J_t) h + e`` with a draw h of the states given the record and e of covariance ``J - J_t``. The draw is a
    simulated plant plus what smoothing makes of the difference of records (Durbin & Koopman 2002, A simple and
    efficient simulation smoother). Expectations would make the plant look calmer than it is. What inputs add to the
    states at each row, `exogenous`, is added by the smoothing, so that nothing of it is drawn.
    """
    rng = np.random.default_rng(0)  # the same record gives the same plant
    states = _simulated(matrices, record, rng)
    parts = [
        replace(part, z=part.z - simulated_information(part.patterns, part.pattern_of, states[:, rows], rng))
        for part, rows in zip(record.parts, record.partition.slices, strict=True)
    ]
    states = states + GapRun(matrices, replace(record, parts=tuple(parts)), exogenous).smoothed()
    full = []
    for part, rows in zip(record.parts, record.partition.slices, strict=True):
        usual = usual_information(part)
        z = part.z
        if not part.is_constant:
            lacking = floor_eigenvalues(usual - part.patterns, 0.0)
            z = z + simulated_information(lacking, part.pattern_of, states[:, rows], rng)
        full.append(Information(z, usual[None]))
    return replace(record, parts=tuple(full))


def _simulated(matrices, record, rng):
    """States of a plant over a record."""
    A, root = csr_array(matrices.A), csr_array(covariance_root(matrices.Q.toarray()))
    states = (root @ rng.normal(size=(A.shape[0], TUNING.gaps_burn_in + record.n_samples))).T
    for t in range(1, len(states)):
        states[t] += A @ states[t - 1]
    return np.ascontiguousarray(states[TUNING.gaps_burn_in :])


# -- the plant ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SparsePlant(Plant):
    """A plant of one lag whose matrices are zero but along its links."""

    matrices: Any = field(kw_only=True)  # the `LargePlantMatrices` of its filter

    def with_first_lag(self, A, B):
        """The same plant with other coefficients (n, n) and (n, k)."""
        return replace(super().with_first_lag(A, B), matrices=replace(self.matrices, A=csr_array(A)))

    def run(self, record):
        """Filter over a record, a `LargeFilter` where each unit can be followed on its own."""
        if record.is_constant and record.determined.all():
            return LargeFilter(self.matrices, record, self.drive())
        if self._follows(record):
            return LargeFilterWithGaps(self.matrices, record, self.drive())
        return super().run(record)

    def smooth(self, record, **settings):
        """States given a whole record (n_samples, n), and covariances of each unit's states."""
        if not self._follows(record):
            return super().smooth(record, **settings)
        return LargeFilterWithGaps(self.matrices, record, self.drive()).smoothed(**settings)

    def _follows(self, record):
        """Whether a record has gaps, and the units can be followed through them."""
        return not record.is_constant and are_stable_alone(self.matrices.A, record.partition)
