"""The units' messages put side by side, and the scores of their rows: what the server knows of a record."""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from ..statespace.episodes import (
    PIECE,
    TransitionMoments,
    column_mean,
    episode_lengths,
    episodes,
    lag_covariances,
    remove_episode_means,
    side_by_side,
)
from ..statespace.matrices import Partition, floor_eigenvalues, without_last_bits
from ..statespace.observation import Information, is_regular, patterns_of
from ..statespace.segments import Change
from .tuning import TUNING

_partition = lru_cache(4)(Partition)  # of records that come in batches


class Standardised(NamedTuple):
    """Series less their mean in each episode and of unit variance, with their standard deviations."""

    series: np.ndarray  # (n_samples, k)
    scale: np.ndarray  # (k,)


@dataclass(eq=False)
class JointRecord:
    """Information series of all units over the same time steps, with their inputs.

    `unpredicted` is the covariance of scores whose noise units leave open; `steps` are changes
    of level, each a known series like the inputs. `has_choice` says whether some unit leaves open how much of
    its measurements is noise and the record is complete and long enough for forecasts to tell.
    """

    names: tuple[str, ...]
    parts: tuple[Information, ...]
    starts: tuple[int, ...]
    inputs: tuple[np.ndarray | None, ...] = ()
    unpredicted: tuple[np.ndarray | None, ...] = ()
    steps: tuple[Change, ...] = ()
    known_links: Any = None  # a :class:`~.knowledge.LinkKnowledge` of its plant, or None

    def __post_init__(self):
        self.n_samples = len(self.parts[0].z)
        self.is_constant = all(part.is_constant for part in self.parts)
        sizes = [part.z.shape[1] for part in self.parts]
        input_sizes = [0 if u is None else u.shape[1] for u in self.inputs]
        self.partition = _partition(tuple(sizes), tuple(input_sizes), len(self.steps))
        self.u = None  # inputs of the plant, (n_samples, n_inputs)
        if self.partition.n_inputs:
            self.u = np.concatenate([u for u in self.inputs if u is not None], axis=1)
        self.input_level = np.zeros(0) if self.u is None else column_mean(self.u)
        is_open = any(choice is not None for choice in self.unpredicted)
        longest = max(episode_lengths(self.starts, self.n_samples))
        self.has_choice = bool(is_open and self.is_constant and longest >= TUNING.joint_forecasts)

    @classmethod
    def from_messages(cls, messages, names=None, known_links=None):
        """Record of messages by unit name, of `names` and in their order if they are given."""
        names = tuple(messages) if names is None else tuple(names)
        if set(names) != messages.keys():
            raise ValueError(f"Messages came from {sorted(messages)}, expected one from each of {sorted(names)}.")
        if not names:
            raise ValueError("Got no messages; give one of each unit.")
        found = [messages[name] for name in names]
        lengths = found[0].lengths
        if any(one.lengths != lengths for one in found):
            told = {name: messages[name].lengths for name in names}
            raise ValueError(f"The units' messages cover different episodes: {told}.")
        starts = (0, *accumulate(lengths[:-1]))
        parts, inputs = tuple([one.information for one in found]), tuple([one.inputs for one in found])
        unpredicted = tuple([one.unpredicted for one in found])
        return cls(names, parts, starts, inputs, unpredicted, known_links=known_links)

    has_rows = True  # whether there are series to look at
    tells_lags = True  # whether it tells plants of several lags from those of one

    @property
    def most_lags(self):
        """Lags that moments can be had for; None for as many as there are rows."""
        return None

    @property
    def at_hand(self):
        """The record as far as there are rows of it."""
        return self

    def adapted(self, settings):
        """Settings of an estimate as they suit the record."""
        return settings

    def copies(self):
        """Pairs of units whose messages say the same of their states: one unit under two names."""
        rows = np.unique(np.linspace(0, self.n_samples - 1, TUNING.joint_copy_rows).astype(int))
        bases: list[np.ndarray | None] = []
        for part in self.parts:
            z = part.z[rows] - part.z[rows].mean(axis=0)
            scale = np.sqrt(np.einsum("ti,ti->i", z, z))
            varies = len(rows) > 2 * z.shape[1] and (scale > 0).all() and np.isfinite(scale).all()
            if not varies:
                bases.append(None)
                continue
            even = z / scale if z.shape[1] > 1 else z  # of one state only the sign would be left
            bases.append(np.linalg.qr(even)[0])
        found = []
        for p in sorted({basis.shape[1] for basis in bases if basis is not None}):
            units = [k for k, basis in enumerate(bases) if basis is not None and basis.shape[1] == p]
            found += [(units[a], units[b]) for a, b in _alike([bases[k] for k in units])]
        return [(self.names[a], self.names[b]) for a, b in sorted(found)]

    # -- inputs and steps ------------------------------------------------------------------------

    @cached_property
    def known(self):
        """Inputs and steps, shape (n_samples, n_inputs + n_steps)."""
        steps = step_series(self.steps, self.starts, self.n_samples)
        return steps if self.u is None else np.hstack([self.u, steps])

    @property
    def known_level(self):
        """Mean of every input and step."""
        return column_mean(self.known) if self.partition.n_known else np.zeros(0)

    @cached_property
    def standard_known(self):
        """Inputs and steps as they are when `Standardised`, of a plant that has any."""
        found = []
        for series in (self.u, step_series(self.steps, self.starts, self.n_samples) if self.steps else None):
            if series is not None:
                centred = remove_episode_means(series, self.starts)
                scale = np.sqrt(np.einsum("ti,ti->i", centred, centred) / len(centred))
                centred /= scale
                found.append((centred, scale))
        return Standardised(*(np.concatenate(each, axis=-1) for each in zip(*found, strict=True)))

    def at_steps(self, steps):
        """The same record with other changes of level."""
        return self if tuple(steps) == self.steps else replace(self, steps=tuple(steps))

    # -- measurements ----------------------------------------------------------------------------

    @cached_property
    def scores(self):
        """The :class:`Scores` of the record."""
        return Scores(self)

    def forget_scores(self):
        """Give back the memory of the scores, which can be computed again."""
        self.__dict__.pop("scores", None)

    @cached_property
    def z(self):
        """Information vectors of the plant, shape (n_samples, n_states)."""
        return self.stacked()

    def stacked(self):
        """The same, formed anew: a filter may write its states over them."""
        return side_by_side([part.z for part in self.parts])

    @cached_property
    def determined(self):
        """Per unit: whether its measurements determine all its states, shape (n_units,)."""
        return np.array([part.determines_states for part in self.parts])

    def block_diagonal(self, matrices):
        """Plant matrix (or stack) with the units' matrices on its diagonal."""
        n = self.partition.n_states
        plant = np.zeros((*np.broadcast_shapes(*(np.shape(x)[:-2] for x in matrices)), n, n))
        for rows, block in zip(self.partition.slices, matrices, strict=True):
            plant[..., rows, rows] = block
        return plant

    def matrices(self, rows=slice(None)):
        """Information matrices of the plant for a slice of rows, shape (n_rows, n, n)."""
        return self.block_diagonal([part.matrices(rows) for part in self.parts])

    def mean_information(self):
        """Information matrix of the plant, averaged over time, shape (n, n)."""
        return self.block_diagonal([part.mean_information for part in self.parts])

    def typical_information(self):
        """Information matrix of the rows in which each unit is seen best, shape (n, n)."""
        return self.block_diagonal([usual_information(part) for part in self.parts])

    def scores_of(self, rows):
        """Scores ``J^-1 z`` of a slice of rows, NaN where measurements do not determine a unit's states."""
        return np.hstack([part_scores(part, rows) for part in self.parts])

    def const(self):
        """Sum over units of the log-density terms free of the states; None if any unit kept it."""
        if any(part.const is None for part in self.parts):
            return None
        return sum(part.const for part in self.parts)

    def fingerprint(self):
        """A few weighted sums of the information vectors, relative to their size, shape (2, n)."""
        t = np.arange(self.n_samples, dtype=float)
        weights = np.array([np.cos(t**2), np.sin(t**2)])
        size = np.sqrt(np.einsum("ti,ti->i", self.z, self.z))
        return weights @ self.z / np.maximum(size, np.finfo(float).tiny)

    def rescaled(self, scale):
        """The same record in states ``S_m^-1 h_m``; inputs are not touched."""
        parts = tuple(
            Information(part.z @ S, S.T @ part.patterns @ S, part.index, part.const)
            for part, S in zip(self.parts, scale, strict=True)
        )
        return replace(self, parts=parts)

    def centred(self):
        """The same record without :meth:`levels`."""
        units = zip(self.parts, self.partition.slices, strict=True)
        levels = self.levels()
        left = [part.z - np.einsum("tij,tj->ti", part.matrices(), levels[:, own]) for part, own in units]
        return replace(self, parts=tuple(replace(part, z=z) for part, z in zip(self.parts, left, strict=True)))

    def levels(self):
        """Level of each unit's states in each episode, at every row, (n_samples, n)."""
        levels = np.empty((self.n_samples, self.partition.n_states))
        for part, own in zip(self.parts, self.partition.slices, strict=True):
            for start, stop in episodes(self.starts, self.n_samples):
                J = part.patterns[part.pattern_of[start:stop]].sum(axis=0)
                levels[start:stop, own] = np.linalg.pinv(J, hermitian=True) @ part.z[start:stop].sum(axis=0)
        return levels

    def part(self, rows):
        """The rows of a slice, without constants of their densities."""
        parts = tuple(
            replace(part, z=part.z[rows], index=None if part.index is None else part.index[rows], const=None)
            for part in self.parts
        )
        first, stop, _ = rows.indices(self.n_samples)
        starts = (0, *(start - first for start in self.starts if first < start < stop))
        inputs = tuple(None if u is None else u[rows] for u in self.inputs)
        return replace(self, parts=parts, starts=starts, inputs=inputs)

    def with_noise_share(self, share):
        """The same record with more sensor noise in units that leave its share open, with less below zero.

        The share goes from what a unit supposes to all that its past leaves unpredicted, to nothing at -1.
        """
        if share == 0.0 or not self.has_choice:
            return self
        parts = list(self.parts)
        for k, (part, unpredicted) in enumerate(zip(self.parts, self.unpredicted, strict=True)):
            if unpredicted is not None:
                N = np.linalg.inv(part.patterns[0])
                J = np.linalg.inv((1 - abs(share)) * N + max(share, 0.0) * unpredicted)
                J = (J + J.T) / 2
                parts[k] = Information(part.z @ (N @ J), J[None])
        return replace(self, parts=tuple(parts))

    def regimes(self, predicted=None):
        """Average information matrices of stretches in which the same units are present, with their shares.

        What a filter gains from a measurement is concave in its information, so that a constant one worth
        the same is less than the mean: the one that leaves the average filtered covariance, for units whose
        states have the covariances `predicted` before a measurement.
        """
        if self.is_constant:
            return [(1.0, self.mean_information())]
        _, key = patterns_of(np.column_stack([_presence(part, self.n_samples) for part in self.parts]))
        counts = np.bincount(key)
        kept = np.argsort(-counts, kind="stable")[: TUNING.joint_max_regimes]
        total = counts[kept].sum()
        before = [None] * len(self.parts) if predicted is None else predicted
        regimes = []
        for k in kept:
            rows = np.flatnonzero(key == k)
            worth = [_worth(part, rows, P) for part, P in zip(self.parts, before, strict=True)]
            regimes.append((counts[k] / total, self.block_diagonal(worth)))
        return regimes


def _alike(bases):
    """Pairs of orthonormal bases (n_rows, p) of the same space, by one product of all of them."""
    p, m = bases[0].shape[1], len(bases)
    side = np.hstack(bases)
    products = (side.T @ side).reshape(m, p, m, p)
    shared = np.triu(np.einsum("aibj,aibj->ab", products, products), 1)  # p if they are the same
    for a, b in np.argwhere(shared > p * TUNING.joint_copy**2 - 1e-12):
        if np.linalg.svd(bases[a].T @ bases[b], compute_uv=False)[-1] > TUNING.joint_copy:
            yield int(a), int(b)


def usual_information(part):
    """The information matrix of the rows in which a unit is seen best."""
    return part.patterns[np.trace(part.patterns, axis1=1, axis2=2).argmax()]


def part_scores(part, rows):
    """Scores of one unit's rows."""
    z, at = part.z[rows], part.pattern_of[rows]
    scores = np.full(z.shape, np.nan)
    for k in np.flatnonzero(part.regular_patterns):
        scores[at == k] = np.linalg.solve(part.patterns[k], z[at == k].T).T
    return scores


def step_series(changes, starts, n_samples):
    """Path of each change of level from zero to one, a row early, to the end of its episode, (n_samples, n_changes)."""
    series = np.zeros((n_samples, len(changes)))
    for k, change in enumerate(changes):
        stop = min((start for start in starts if start > change.start), default=n_samples)
        rows = np.arange(max(change.start - 1, 0), stop)
        series[rows, k] = change.path(rows + 1)
    return series


def _worth(part, rows, P):
    """The constant information that leaves the same filtered covariance of states with covariance P.

    The mean information if P is None.
    """
    if part.is_constant:
        return part.patterns[0]
    counts = np.bincount(part.index[rows], minlength=len(part.patterns))
    if P is None:
        return np.tensordot(counts / len(rows), part.patterns, 1)
    seen = np.flatnonzero(counts)
    before = np.linalg.inv(P)
    left = np.tensordot(counts[seen] / len(rows), np.linalg.inv(before + part.patterns[seen]), 1)
    J = np.linalg.inv(left) - before
    return floor_eigenvalues((J + J.T) / 2, 0.0)


def _presence(part, n_samples):
    """Whether a unit is there, judged over a short window."""
    if part.is_constant:
        return np.ones(n_samples, dtype=bool)
    trace = np.trace(part.patterns, axis1=1, axis2=2)
    level = (trace / max(trace.max(), 1e-300))[part.index]
    window = min(TUNING.joint_presence_window, n_samples)
    sums = np.convolve(level, np.ones(window), mode="same")
    return sums / np.convolve(np.ones(n_samples), np.ones(window), mode="same") > TUNING.joint_presence_level


class Scores:
    """Centred scores ``s = J^-1 z`` of a record with its inputs and steps, and their lag covariances.

    A score is the least-squares estimate of a unit's states from one row, with noise of covariance J^-1; rows
    whose measurements do not determine the states have none. `series` is zero there, (n_samples, c), and
    `present` zero too (None: all are there); `known` are the inputs and steps among them, of unit variance;
    `noise` is the average covariance of each unit's scores, and `sums` are those of lagged products for the
    first lags, as many as were needed so far.
    """

    def __init__(self, record):
        self._record = record
        partition = record.partition
        joined = np.empty((record.n_samples, partition.n_regressors))
        present, noise = [None] * len(record.parts), []
        if record.is_constant and all(is_regular(part.patterns[0]) for part in record.parts):
            noise = [np.linalg.inv(part.patterns[0]) for part in record.parts]
            for first in range(0, len(joined), PIECE):
                rows = slice(first, first + PIECE)
                for part, N, own in zip(record.parts, noise, partition.slices, strict=True):
                    np.matmul(part.z[rows], N, out=joined[rows, own])
        else:
            for k, (part, own) in enumerate(zip(record.parts, partition.slices, strict=True)):
                present[k], N = unit_scores(part, record.starts, joined[:, own])
                noise.append(N)
        self.noise = [without_last_bits(N, np.sqrt(np.diag(N))) for N in noise]
        if partition.n_known:
            joined[:, partition.n_states :] = record.standard_known.series
        self.present = None
        if all(p is None for p in present):
            self.series = remove_episode_means(joined, record.starts, copy=False)
        else:
            full = np.ones(record.n_samples, dtype=bool)
            masks = [full if p is None else p for p in present]
            owner = np.concatenate([partition.unit_of_state, np.full(partition.n_known, len(masks))])
            self.present = np.column_stack([*masks, full])[:, owner].astype(float)
            self.series = _without_present_means(joined, self.present, record.starts)
        self.known = self.series[:, partition.n_states :]

    @cached_property
    def sums(self):
        return lag_covariances(self.series, range(1), self._record.starts, self.present)

    @cached_property
    def _scale(self):
        return np.sqrt(np.diag(self.sums[0]) / self._record.n_samples)

    def of_unit(self, unit):
        """Centred scores of one unit and where they are there (None: everywhere)."""
        rows = self._record.partition.slices[unit]
        present = None if self.present is None else self.present[:, rows]
        return self.series[:, rows], None if present is None or present.all() else present

    def covariance(self):
        """Sample covariance of the scores, inputs and steps, shape (c, c)."""
        return without_last_bits(self.sums[0] / self._record.n_samples, self._scale)

    def level_covariance(self):
        """Sample covariance of the scores around their levels before and after the steps, shape (n, n)."""
        G, n = self.covariance(), self._record.partition.n_states
        steps = slice(n + self._record.partition.n_inputs, None)
        if not self._record.steps:
            return G[:n, :n]
        with_steps = G[:n, steps]
        return G[:n, :n] - with_steps @ np.linalg.solve(G[steps, steps], with_steps.T)

    def unit_covariances(self, together=None):
        """Blocks of every unit on the diagonal of :meth:`level_covariance`.

        From the products of so many units at a time where they are given, and not of all pairs of a large plant.
        """
        record, slices, n = self._record, self._record.partition.slices, self._record.n_samples
        if together is None or record.steps:
            whole = self.level_covariance()
            return [whole[own, own] for own in slices]
        found = []
        for units in (slices[first : first + together] for first in range(0, len(slices), together)):
            first, stop = units[0].start, units[-1].stop
            present = None if self.present is None else self.present[:, first:stop]
            G = lag_covariances(self.series[:, first:stop], range(1), record.starts, present)[0] / n
            G = without_last_bits(G, np.sqrt(np.diag(G)))
            found += [G[own.start - first : own.stop - first, own.start - first : own.stop - first] for own in units]
        return found

    def moments(self, n_lags):
        """Lag covariances of the transitions, a :class:`TransitionMoments`."""
        moments = TransitionMoments.from_sums(self.lag_sums(n_lags + 2), self.series, self._record.starts)
        return moments.without_last_bits(self._scale)

    def lag_sums(self, needed):
        """Sums of products of rows at the first `needed` lags, (needed, c, c)."""
        known = len(self.sums)
        if needed > known:
            new = lag_covariances(self.series, range(known, needed), self._record.starts, self.present)
            self.sums = np.concatenate([self.sums, new])
        return self.sums[:needed]


def unit_scores(part, starts, out):
    """Write the scores of one unit; mask of the steps that determine them (None: all), their covariance."""
    if part.is_constant and is_regular(part.patterns[0]):
        N = np.linalg.inv(part.patterns[0])
        out[:] = part.z @ N
        return None, N
    index, definite = part.pattern_of, part.regular_patterns
    inverse = np.zeros_like(part.patterns)
    inverse[definite] = np.linalg.inv(part.patterns[definite])
    np.einsum("tij,tj->ti", inverse[index], part.z, out=out)
    definite = definite & ~_drowned(part, inverse, definite, out, starts)
    counts = np.bincount(index, minlength=len(part.patterns)) * definite
    noise = np.tensordot(counts / max(counts.sum(), 1), inverse, 1)
    return None if definite.all() else definite[index], noise


def _drowned(part, inverse, definite, scores, starts):
    """Patterns that leave so few sensors that the noise of the scores is more than all that they are in other rows.

    One such row would weigh more in sums of products than many others together.
    """
    usual = usual_information(part)
    size = np.where(definite, np.trace(usual @ inverse, axis1=1, axis2=2), np.inf)[part.pattern_of]
    clear = size <= np.median(size[np.isfinite(size)]) if definite.any() else np.zeros(len(size), dtype=bool)
    if not is_regular(usual) or clear.sum() <= len(usual):
        return np.zeros_like(definite)
    pieces = [scores[start:stop][clear[start:stop]] for start, stop in episodes(starts, len(scores))]
    around = np.concatenate([rows - rows.mean(axis=0) for rows in pieces if len(rows)])
    best = np.linalg.inv(usual)
    whiten = np.linalg.inv(np.linalg.cholesky(around.T @ around / len(around) + best))
    return np.linalg.eigvalsh(whiten @ (inverse - best) @ whiten.T)[:, -1] > TUNING.joint_drowned


def _without_present_means(series, present, starts):
    """Series less the mean of what is there in each episode, zero where nothing is."""
    centred = series * present
    for start, stop in episodes(starts, len(series)):
        weight = np.maximum(present[start:stop].sum(axis=0), 1.0)
        mean = centred[start:stop].sum(axis=0) / weight
        centred[start:stop] -= mean * present[start:stop]
    return centred
