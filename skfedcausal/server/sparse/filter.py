"""Running a large plant: groups of linked units, a gain as sparse as the links, records with gaps."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag
from scipy.sparse import csr_array
from scipy.sparse.linalg import eigs

from ...statespace.episodes import episodes
from ...statespace.kalman import (
    Covariances,
    CovarianceSchedule,
    log_density_terms,
    predicted_covariance,
    simulated_information,
)
from ...statespace.matrices import covariance_root, floor_eigenvalues, positions_of, sparse_diagonal, spectral_radius
from ...statespace.observation import Information, is_regular
from ..dynamics import Plant, PlantFilter, _block, as_measured
from ..estimation.scoring import MAX_RADIUS
from ..joint import usual_information
from .tuning import TUNING

# Which units are fitted together: small groups of linked units, each with the neighbours that act on them.

CORE = 6  # units whose rows a block estimates
MOST = 14  # units of a block, unless more act on its core


def neighbours(n_units, links, strengths, correlated):
    """Neighbours of every unit with the strength of what joins them: dicts by unit."""
    found: list[dict] = [{} for _ in range(n_units)]
    for (effect, cause), strength in zip(links, strengths, strict=True):
        for a, b in ((effect, cause), (cause, effect)):
            found[a][b] = max(found[a].get(b, 0.0), float(strength))
    for a, b in correlated:
        found[a][b] = found[b][a] = np.inf
    return found


def cores(near, size=CORE):
    """Units in groups of linked ones, every unit in one group."""
    left, groups = dict.fromkeys(range(len(near))), []
    while left:
        group: list[int] = []
        edge: dict[int, float] = {}
        while left and len(group) < size:
            joined = {unit: weight for unit, weight in edge.items() if unit in left}
            unit = max(joined, key=lambda u: (joined[u], -u)) if joined else next(iter(left))
            del left[unit]
            group.append(unit)
            for other, weight in near[unit].items():
                edge[other] = edge.get(other, 0.0) + weight
        groups.append(sorted(group))
    return groups


def with_halo(core, near, causes, most=MOST):
    """A group with all that acts on it, and the strongest other neighbours, first those of the first kind."""
    members = dict.fromkeys(core)
    for unit in core:
        members.update(dict.fromkeys(sorted(causes[unit])))
    for _ in range(2):
        around: dict = {}
        for unit in members:
            for other, weight in near[unit].items():
                if other not in members:
                    around[other] = max(around.get(other, 0.0), weight)
        for other in sorted(around, key=lambda u: (-around[u], u)):
            if len(members) >= most:
                return list(members)
            members[other] = None
    return list(members)


# -- matrices of a plant from those of its parts --------------------------------------------------------


def assembled(parts, n):
    """A sparse matrix from rows of blocks ``(rows, columns, values)``."""
    rows = np.concatenate([np.repeat(r, len(c)) for r, c, _ in parts])
    cols = np.concatenate([np.tile(c, len(r)) for r, c, _ in parts])
    values = np.concatenate([x.ravel() for _, _, x in parts])
    whole = csr_array((values, (rows, cols)), shape=(n, n))
    whole.eliminate_zeros()
    return whole


# -- stability: blocks that are stable need not make up a whole that is ------------------------------------


def stable(A, partition):
    """The plant with its links made weaker until it is stable, and by which factor: 1 for most."""
    unit, coo = partition.unit_of_state, A.tocoo()
    own = unit[coo.row] == unit[coo.col]
    share = 1.0
    while radius(A) >= MAX_RADIUS and share > 0:
        share = share / 2 if share > 1e-3 else 0.0
        A = csr_array((np.where(own, coo.data, share * coo.data), (coo.row, coo.col)), shape=A.shape)
    return A, share


def radius(A):
    """Spectral radius of a sparse matrix."""
    if A.shape[0] <= TUNING.cover_dense:
        return float(np.abs(np.linalg.eigvals(A.toarray())).max())
    start = np.ones(A.shape[0])  # so that the same comes every time
    settings = {"ncv": TUNING.cover_arnoldi, "return_eigenvectors": False, "tol": 1e-6}
    values = eigs(A + 1e-12 * sparse_diagonal(start), k=6, v0=start, **settings)
    return float(np.abs(values).max())


# The filter of a large plant: a stationary gain that is as sparse as the links.

_PIECE = 128  # rows


@dataclass(frozen=True, eq=False)
class LargePlantMatrices:
    """Sparse matrices of a large plant in the units' own states."""

    A: Any  # (n, n)
    Q: Any
    gain: Any  # of a score on the filtered states
    predicted: Any  # covariance of the predicted states
    back: Any  # gain on the filtered states of what the row after tells, for records with gaps
    information: Any  # of the usual measurements of a row


def stationary_gain(plant, A, Q, cores, linked, correlated, strength):
    """:class:`LargePlantMatrices` of a plant in standardised states, block by block of units so joined."""
    near = neighbours(len(linked), np.argwhere(linked), strength[linked], np.argwhere(np.tril(correlated)))
    causes = [np.flatnonzero(row).tolist() for row in linked | correlated]
    gains: list = []
    backs: list = []
    covariances, n = [], plant.partition.n_states
    for core in cores:
        members = with_halo(core, near, causes, TUNING.filter_most)
        states, k = positions_of(members, plant.partition.slices), sum(plant.partition.sizes[m] for m in core)
        N = block_diag(*(plant.noise[m] for m in members))
        own = A[states][:, states].toarray()
        P = predicted_covariance(own, np.linalg.inv(N), Q[states][:, states].toarray())
        gain = np.linalg.solve(P + N, P).T
        back = np.linalg.solve(P, own @ (P - gain @ P)).T[:k]  # P_f A' P^-1
        for parts, rows in ((gains, gain[:k]), (backs, back)):
            parts.append((states[:k], states, np.where(np.abs(rows) > TUNING.filter_least_gain, rows, 0.0)))
        covariances.append((states[:k], states, P[:k]))
    P = assembled(covariances, n)
    gain, back, J = assembled(gains, n), assembled(backs, n), plant.sparse([np.linalg.inv(N) for N in plant.noise])
    return LargePlantMatrices(A, Q, gain, _covariance((P + P.T) / 2, plant), back, J)


def _covariance(P, plant):
    """What blocks say of covariances between units, weaker until it is the covariance of predicted scores.

    Blocks know each other's units in part, and what they say of them need not go together in short records.
    """
    N, unit, coo = block_diag(*plant.noise), plant.partition.unit_of_state, P.tocoo()
    across, share = unit[coo.row] != unit[coo.col], 1.0
    while not _is_definite(P.toarray() + N):
        share = share / 2 if share > TUNING.filter_least_share else 0.0
        P = csr_array((np.where(across, share * coo.data, coo.data), (coo.row, coo.col)), shape=P.shape)
        if share == 0.0:
            break
    return P


def _is_definite(matrix):
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def _step(A, gain):
    """What a filtered state makes of the next one: the product of large matrices has several times their numbers."""
    if A.shape[0] <= TUNING.filter_dense:
        return (A - gain @ A).toarray().__matmul__
    A, gain = csr_array(A), csr_array(gain)

    def step(state):
        moved = A @ state
        return moved - gain @ moved

    return step


def _times(matrix, series):
    """``series @ matrix.T`` with a sparse matrix, in pieces that stay in cache."""
    out = np.empty((len(series), matrix.shape[0]))
    for first in range(0, len(series), _PIECE):
        rows = slice(first, first + _PIECE)
        out[rows] = (matrix @ np.ascontiguousarray(series[rows].T)).T
    return out


class LargeFilter(PlantFilter):
    """Filter of a large plant over complete messages, with its stationary gain from the first row on.

    The gain of a unit is that of the block it was fitted in, so that a row costs as much as there are links.
    """

    def __init__(self, matrices, record, drive=None):
        self._matrices, self.record, self._drive = matrices, record, drive
        self.A, self.Q = matrices.A, matrices.Q
        self.inputs = np.zeros((record.n_samples, 0)) if drive is None else drive.inputs(record)
        self._alone, self._tails = np.zeros(0, dtype=int), None

    @cached_property
    def filtered(self):
        """``E[h_t | messages up to t]``, shape (n_samples, n)."""
        record, gain, A = self.record, self._matrices.gain, self.A
        noise = [np.linalg.inv(part.patterns[0]) for part in record.parts]
        out = np.empty((record.n_samples, A.shape[0]))
        for part, N, own in zip(record.parts, noise, record.partition.slices, strict=True):
            np.matmul(part.z, N, out=out[:, own])
        out = _times(gain, out)
        step = _step(A, gain)
        if self._drive is not None:
            added = self._exogenous
            out += added - _times(gain, added)
        for start, stop in episodes(record.starts, len(out)):
            for t in range(start + 1, stop):
                out[t] += step(out[t - 1])
        return out

    @cached_property
    def predicted(self):
        """``E[h_t | messages up to t - 1]``, shape (n_samples, n)."""
        predicted = np.empty_like(self.filtered)
        predicted[1:] = _times(self.A, self.filtered[:-1])
        predicted[list(self.record.starts)] = 0.0
        if self._drive is not None:
            predicted += self._exogenous
        return predicted

    def carried_to_units(self, matrix, drive=None):
        """What the row before makes of the states through a matrix, one array per unit."""
        return super().carried_to_units(csr_array(matrix), drive)

    @property
    def _information(self):
        """That of a row, on average."""
        return csr_array(self.record.mean_information())

    @cached_property
    def _schedule(self):
        J, P = self.record.mean_information(), self._matrices.predicted.toarray()
        filtered = P - (self._matrices.gain @ P)
        return CovarianceSchedule(self.A, J, P[None], (filtered + filtered.T)[None] / 2)


# Records of large plants in which measurements are missing: filter, smoother, and complete records drawn from them.
#
# What couples units stays stationary, as in the filter of complete rows. What a unit's own measurements tell goes by
# covariances of its own, which know what was missing when: a row costs what the links cost and a few small matrices for
# the units that miss something or did so a moment ago. With nothing missing the filter is that of complete rows.

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


def _products(matrices, vectors):
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
                    rows.append((t, chosen, *_row_of_group(group, chosen, before, off, z[t], mean, news, t)))
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
                        out[t, own] += _products(turn[first:last], miss[own])
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


def _row_of_group(group, chosen, before, off, z, mean, news, t):
    """Update of units that miss something or did so: news in terms of scores, and their covariances."""
    P, own = before[chosen], group.states[chosen]
    J = group.patterns[group.pattern_of[t, chosen]]
    after = _updated(P, J)
    news[own] = _products(group.to_score[chosen] @ after, z[own] - _products(J, mean[own]))
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

    def joint_log_density(self, states):
        """The mean over rows of the same for units together, at positions (k,) of their states."""
        units = np.unique(self.record.partition.unit_of_state[states])
        return float(self.unit_log_densities()[:, units].sum(axis=1).mean())

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
