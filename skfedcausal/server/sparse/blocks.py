"""A large plant in pieces: its record in states of unit variance, units' models, and blocks fitted as plants."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ...parallel import chunks, run
from ...statespace.episodes import TransitionMoments, episodes, lag_covariances
from ...statespace.geweke import geweke_measures
from ...statespace.inputs import DrivenSpectrum, input_term
from ...statespace.kalman import filter_radius
from ...statespace.lagged.likelihood import LagSums
from ...statespace.matrices import Partition, diagonal_blocks, few_threads, floor_eigenvalues, hermitian, positions_of
from ...statespace.whittle import WhittleLikelihood, fit_units, frequencies_of_states, midpoints, transfer
from ..estimation import standardised
from ..estimation.evidence import correlation_estimates, link_estimates
from ..estimation.scoring import Point, Prior, Scoring, Structure, WithPrior, ascend, is_valid, made_valid
from ..estimation.standardised import UnitRecord, shifts_of
from ..joint import usual_information
from ..lagged.misfit import lag_tests
from .filter import drawn_record, share_there, stationary_gain
from .tuning import TUNING

# A block of a large plant: some units and what acts on them, fitted as a plant of its own.
#
# A block is self-contained, so that blocks may be fitted in other processes, on any backend of joblib, to the same
# bits.


@dataclass(frozen=True, eq=False)
class BlockTask:
    """What it takes to fit a block, its core units first; matrices in states of unit variance."""

    series: Any  # (n_samples, n + k) centred scores, and inputs behind them; None until they are taken from the plant's
    starts: tuple
    noise: np.ndarray  # (n, n) of the scores
    sizes: tuple  # states of every unit
    n_core: int
    A: np.ndarray  # (n, n + k) to start from
    Q: np.ndarray
    own: tuple  # the units' own models (A, Q)
    linked: np.ndarray  # (n_units, n_units) effect by cause
    correlated: np.ndarray  # symmetric
    n_lags: int
    n_frequencies: int
    has_prior: bool
    gain_tol: float
    max_iter: int
    sums: np.ndarray | None = None  # of products of the series at all lags, once they are known
    input_sizes: tuple = ()  # inputs of every unit, nothing for none at all
    driven: np.ndarray | None = None  # (n_units, n_units) whose states the inputs of whom act on
    with_elements: bool = False  # whether the covariance of the core's coefficients is asked for


class InputTests(NamedTuple):
    """What a block says of inputs of its units that act on its core."""

    pairs: np.ndarray  # (n_pairs, 2) positions (effect, cause), effects in the core
    estimate: np.ndarray  # (n_pairs, e)
    covariance: np.ndarray  # (n_pairs, e, e)


class Elements(NamedTuple):
    """Free coefficients of the rows of the core with their sampling covariance."""

    rows: np.ndarray
    cols: np.ndarray
    covariance: np.ndarray


@dataclass(frozen=True, eq=False)
class BlockFit:
    """A fitted block, and what it says of links to its core units from units in the block."""

    A: np.ndarray  # (n, n + k), the rows of the core first
    Q: np.ndarray
    pairs: np.ndarray  # (n_pairs, 2) positions (effect, cause), effects in the core
    estimate: np.ndarray  # (n_pairs, e)
    covariance: np.ndarray  # (n_pairs, e, e)
    noise_pairs: np.ndarray  # (n, 2) positions (first, second) of correlated units, the first in the core
    noise_statistic: np.ndarray
    noise_p_value: np.ndarray
    spectra: tuple  # (U, V, W) of the core units, (n_core, n_frequencies, p, p) each
    pushes: np.ndarray | None  # (n_samples, n_core_states) residuals over their spectrum; None once they are taken
    gain: float  # log-likelihood that a further step promises
    n_iter: int
    converged: bool
    sums: np.ndarray | None  # of products of the series, where the task did not know them
    inputs: InputTests | None = None  # of inputs, in plants that have any
    elements: Elements | None = None  # of the core, where the task asks for them


def fitted_block(regressors, columns, task):
    """Climb to the maximum of a block of some columns of a plant's regressors and test the links to its core units."""
    with few_threads(0):
        return _fitted(replace(task, series=regressors.take(columns, axis=1)))


def _fitted(task):
    partition = Partition(task.sizes, task.input_sizes)
    sums, is_new = task.sums, task.sums is None
    if is_new:
        sums = lag_covariances(task.series, range(task.n_lags + 2), task.starts)
    likelihood = WhittleLikelihood(TransitionMoments.from_sums(sums, task.series, task.starts), task.noise)
    objective: Any = likelihood
    if task.has_prior:
        objective = WithPrior(likelihood, Prior.for_units(task.own[0], task.own[1], partition, likelihood.n_samples))
    structure = _structure(task, partition)
    A, Q = _start(task, structure)
    ascent = ascend(
        objective,
        Scoring(objective, structure, Point.at(objective, A, Q)),
        gain_tol=task.gain_tol,
        max_iter=task.max_iter,
    )
    scoring = Scoring(objective, structure, ascent.point)
    task = replace(task, sums=sums)
    return replace(_described(task, partition, scoring, ascent), sums=sums if is_new else None)


def _structure(task, partition):
    pairs, masks = tuple(partition.pairs.T), {}
    if partition.n_inputs:
        masks["driven"] = task.driven[tuple(partition.input_pairs.pairs.T)]
    return Structure(partition, linked=task.linked[pairs], correlated=task.correlated[pairs], **masks)


def _start(task, structure):
    """The start without what the structure does not have, and with the units' own models where that is no plant."""
    A = np.where(structure.transition_mask, task.A, 0.0)
    Q = np.where(structure.covariance_mask, task.Q, 0.0)
    return (A, Q) if is_valid(A, Q) else made_valid(A, Q, structure.partition)


def _described(task, partition, scoring, ascent):
    point, core = scoring.point, sum(task.sizes[: task.n_core])
    blocks = link_estimates(scoring)
    chosen = partition.pairs[:, 0] < task.n_core
    noise = correlation_estimates(scoring, only_inside=True)
    both = scoring.structure.correlated & chosen & (partition.pairs[:, 0] != partition.pairs[:, 1])
    return BlockFit(
        point.A,
        point.Q,
        partition.pairs[chosen],
        blocks.estimate[chosen],
        blocks.covariance[chosen],
        partition.pairs[both],
        noise.statistic[both],
        noise.p_value[both],
        core_spectra(point, task, task.n_core),
        pushes(task, point, core),
        ascent.gain,
        ascent.n_iter,
        ascent.converged,
        None,
        input_tests(scoring, task.n_core) if partition.n_inputs else None,
        core_elements(scoring, core) if task.with_elements else None,
    )


def input_tests(scoring, n_core):
    """`InputTests` of the first units."""
    found, pairs = link_estimates(scoring, "input"), scoring.structure.partition.input_pairs.pairs
    chosen = pairs[:, 0] < n_core
    return InputTests(pairs[chosen], found.estimate[chosen], found.covariance[chosen])


def core_elements(scoring, core):
    """`Elements` of the first states."""
    free = scoring.structure.free
    own = np.flatnonzero(free.rows < core)
    return Elements(free.rows[own], free.cols[own], scoring.covariance[np.ix_(own, own)])


class BlockMeasures(NamedTuple):
    """What is said of a block beyond what the search for links needs."""

    geweke: np.ndarray  # measures of the pairs of its fit, (n_pairs,)
    misfit: np.ndarray | None  # p-values of later lags, (n_core, n_units of the block), then of their inputs


def measured_block(regressors, columns, task):
    """`BlockMeasures` of a block whose task starts from what was fitted."""
    with few_threads(0):
        task = replace(task, series=regressors.take(columns, axis=1))
        partition = Partition(task.sizes, task.input_sizes)
        A = task.A[:, : partition.n_states]
        measures = geweke_measures(A, task.Q, np.linalg.inv(task.noise), partition)
        chosen = partition.pairs[partition.pairs[:, 0] < task.n_core]
        return BlockMeasures(measures[tuple(chosen.T)], later_lags(task, partition))


def later_lags(task, partition):
    """P-values of later lags of the core units and of what acts on them, NaN where there is nothing to test."""
    acting = task.linked if task.driven is None else task.linked | task.driven
    units = np.union1d(np.arange(task.n_core), np.flatnonzero(acting[: task.n_core].any(axis=0)))
    part = Partition([task.sizes[unit] for unit in units], [partition.input_sizes[unit] for unit in units])
    states = positions_of(units, partition.slices)
    regressors = np.concatenate([states, partition.n_states + positions_of(units, partition.input_slices)])
    point = Point(task.A[np.ix_(states, regressors)], task.Q[np.ix_(states, states)], None)
    linked, masks = task.linked[tuple(units[part.pairs.T])], {}
    if part.n_inputs:
        masks["driven"] = task.driven[tuple(units[part.input_pairs.pairs.T])]
    plant = PartOfPlant(task, part, states, regressors)
    found = lag_tests(plant, PointOf(point, Structure(part, linked=linked, **masks)), range(task.n_core))
    if found is None:
        return None
    found = found.p_values
    whole = np.full((task.n_core, len(task.sizes)), np.nan)
    known = linked[part.pairs[:, 0] < task.n_core]
    tested = np.eye(task.n_core, len(units), dtype=bool)
    tested[tuple(part.pairs[part.pairs[:, 0] < task.n_core][known].T)] = True
    whole[:, units] = np.where(tested, found[: task.n_core, : len(units)], np.nan)
    if not part.n_inputs:
        return whole
    of_inputs = np.full_like(whole, np.nan)
    tested = task.driven[: task.n_core, units]
    of_inputs[:, units] = np.where(tested, found[: task.n_core, len(units) :], np.nan)
    return np.hstack([whole, of_inputs])


class PointOf(NamedTuple):
    """A plant and its structure, as far as tests of later lags ask for them."""

    point: Point
    structure: Structure


class PartOfPlant:
    """Some units of a large plant, as far as tests of later lags ask for them."""

    scores_suffice = has_clear_scores = True

    def __init__(self, task, partition, states, regressors):
        at = np.ix_(states, states)
        self._series = task.series.take(regressors, axis=1)
        self.partition, self.score_noise, self.n_samples = partition, task.noise[at], len(task.series)
        self.starts, self._n_lags = task.starts, task.n_lags
        self._sums = task.sums[:, regressors[:, None], regressors]

    def standard_series(self):
        """Scores, first rows of episodes, lags of their likelihood."""
        return self._series, self.starts, self._n_lags

    def lag_sums(self, n_lags):
        """``sum_t s[t+l] s[t]'`` for l from 0 to n_lags."""
        known = len(self._sums)
        if known <= n_lags:
            more = lag_covariances(self._series, range(known, n_lags + 1), self.starts)
            self._sums = np.concatenate([self._sums, more])
        return self._sums[: n_lags + 1]

    def products_of_lags(self, n_lags, memory):
        """`LagSums` of the scores."""
        return LagSums.of(self._series, self.starts, n_lags, memory, self.lag_sums(n_lags + memory))

    def whittle(self):
        """Whittle likelihood of the units."""
        sums = self.lag_sums(self._n_lags + 1)
        return WhittleLikelihood(TransitionMoments.from_sums(sums, self._series, self.starts), self.score_noise)


def core_spectra(point, task, n_core):
    """Inverse spectra of the residuals of the first units, of their states as they are smoothed, and both across."""
    frequencies, n, core = midpoints(task.n_frequencies), len(point.Q), Partition(task.sizes[:n_core])
    own = np.broadcast_to(np.eye(n, core.n_states), (len(frequencies), n, core.n_states))
    Z = transfer(point.A, np.exp(1j * frequencies)[:, None, None])
    H = point.Q @ np.linalg.solve(hermitian(Z), own)  # first rows of Z^-1 Q, turned
    solved = np.linalg.solve(point.Q + Z @ task.noise @ hermitian(Z), np.concatenate([own, H], axis=-1))
    U, W = solved[:, : core.n_states, : core.n_states], hermitian(solved[..., core.n_states :])
    V = W @ H
    if point.A.shape[1] > n:
        A, B = point.A[:, :n], point.A[:, n:]
        sums = task.sums
        if sums is None:
            sums = lag_covariances(task.series, range(task.n_lags + 2), task.starts)
        early = TransitionMoments.from_sums(sums, task.series, task.starts).early
        V = V + DrivenSpectrum(early, n, frequencies).at(A, B)[:, : core.n_states, : core.n_states]
    return tuple(diagonal_blocks(x, core) for x in (U, V, W[..., : core.n_states]))


def pushes(task, point, core):
    """Residuals ``x = Phi^-1 r`` of the first states, row t of what came between t and t + 1."""
    frequencies = midpoints(TUNING.blocks_finer * task.n_lags)
    Z = transfer(point.A, np.exp(1j * frequencies)[:, None, None])
    own = np.broadcast_to(np.eye(len(Z[0]), core), (*Z.shape[:2], core))
    X = hermitian(np.linalg.solve(point.Q + Z @ task.noise @ hermitian(Z), own))
    lags = np.arange(-task.n_lags, task.n_lags + 1)
    turn = np.exp(-1j * np.outer(lags, frequencies)) / len(frequencies)
    taps = np.tensordot(turn, X, 1).real  # x[t] = sum of taps[l] r[t + l]
    return filtered_by(taps, lags, residuals_of(task.series, point.A, task.starts), task.starts)


def residuals_of(series, A, starts):
    """``s[t + 1] - A [s[t]; u[t]]``, zero in the last row of an episode."""
    n = len(A)
    out = np.zeros((len(series), n))
    out[:-1] = series[1:, :n] - series[:-1] @ A.T
    out[[stop - 1 for _, stop in episodes(starts, len(series))]] = 0.0
    return out


def filtered_by(taps, lags, series, starts):
    """``sum_l taps[l] series[t + l]`` within episodes."""
    out = np.zeros((len(series), taps.shape[1]))
    for start, stop in episodes(starts, len(series)):
        for lag, tap in zip(lags, taps, strict=True):
            first, last = max(start, start - lag), min(stop, stop - lag)
            if first < last:
                out[first:last] += series[first + lag : last + lag] @ tap.T
    last = [stop - 1 for _, stop in episodes(starts, len(series))]
    out[last] = 0.0
    return out


# The record of a large plant in states of unit variance, and every unit's own model.

UNITS = 32  # that one task is about


class LargePlant:
    """A joint record in states ``S_m^-1 h_m`` of unit variance, without anything that takes all pairs of states.

    `A` and `Q` are lists of the units' own models, `noise` those of the covariances of their scores, `n_lags` what
    the slowest of their filters needs, `n_frequencies` what their spectra do. Of a record that was filled, `gapped`
    is the one with the gaps; `there`, (n_units,), is the share of every unit's measurements that it has. `known` are
    inputs of unit variance, `driven` (n_units, n_units) says on whom those of whom act, `B` (n, n_inputs) how;
    `regressors` are the states, `series`, with the inputs behind them. A `scale` is that of another record.
    """

    def __init__(self, record, parallel=None, gapped=None, driven=None, scale=None):
        self.gapped = None if gapped is None else replace(gapped, starts=record.starts).centred()
        self.there = None if gapped is None else share_there(gapped)
        self.record, self.partition, self.names = record, record.partition, record.names
        self.n_samples, self.starts = record.n_samples, record.starts
        scores = record.scores
        if scale is None:
            covariances = scores.unit_covariances(UNITS)
            scale = standardised._state_scales(record, scores, covariances, [None] * len(record.names))
        self.scale = scale
        self.back = [np.linalg.inv(S) for S in self.scale]
        self.noise = [B @ N @ B.T for B, N in zip(self.back, scores.noise, strict=True)]
        self._present = scores.present
        has_inputs = np.asarray(self.partition.input_sizes) > 0
        self.known = scores.known[:, : self.partition.n_inputs]
        self.known_scale = record.standard_known.scale if has_inputs.any() else np.ones(0)
        self.driven = np.diag(has_inputs) if driven is None else driven
        self.B = np.zeros((self.partition.n_states, self.partition.n_inputs))
        self._take(scores.series)
        self.n_lags = standardised._MIN_LAGS
        memory = self._fit(self.n_lags, parallel)
        while (needed := standardised.lags_for(memory, self.n_samples, standardised._MAX_LAGS)) > self.n_lags:
            self.n_lags = needed
            memory = self._fit(needed, parallel)
        self._count_frequencies()

    def _count_frequencies(self):
        self.n_frequencies = max(frequencies_of_states(A, self.n_lags) for A in self.A)

    def drive(self, driven, parallel=None):
        """Let inputs act on other units, and learn the models of these anew."""
        changed, self.driven = (driven != self.driven).any(axis=1), driven
        self._fit(self.n_lags, parallel, changed)
        self._count_frequencies()

    def _take(self, scores):
        self.series = np.empty((self.n_samples, self.partition.n_states))  # workers may have the one before
        for B, own in zip(self.back, self.partition.slices, strict=True):
            np.matmul(scores[:, own], B.T, out=self.series[:, own])
        self.regressors = np.hstack([self.series, self.known]) if self.partition.n_inputs else self.series

    def fill(self, matrices, B):
        """Fill the gaps of the record anew, as a plant with these matrices in standardised states would have."""
        self.record = drawn_record(self.gapped, self.in_own_states(matrices), self.exogenous(B))
        self._take(self.record.scores.series)

    def exogenous(self, B):
        """What inputs add to the units' own states at each row, None for none, from B in standardised ones."""
        if not self.partition.n_inputs:
            return None
        return input_term(self.sparse(self.scale) @ B, self.known, self.starts)

    def in_own_states(self, matrices):
        """Matrices of the filter of a plant in the units' own states."""
        A, gain, back = (self.unscaled(x) for x in (matrices.A, matrices.gain, matrices.back))
        Q, P = (self.unscaled_covariance(x) for x in (matrices.Q, matrices.predicted))
        B = self.sparse(self.back)
        return type(matrices)(A, Q, gain, P, back, (B.T @ matrices.information @ B).tocsr())

    def _fit(self, n_lags, parallel, changed=None):
        """Learn the units' own models from so many lags, all or those that changed; what their filters remember."""
        if changed is None:
            changed, self.A, self.Q = np.ones(len(self.names), dtype=bool), *([None] * len(self.names) for _ in "AQ")
        together = list(self._alike(changed))
        tasks = ((*self.units(units), self.starts, n_lags) for units in together)
        shared = (self.regressors,) if self._present is None else (self.regressors, self._present)
        fits = run(own_models, tasks, parallel, shared)
        for units, (models, _) in zip(together, fits, strict=True):
            for m, (A, Q) in zip(units, models, strict=True):
                rows = self.partition.slices[m]
                self.A[m], self.Q[m] = A[:, : len(Q)], Q
                self.B[rows] = 0.0
                self.B[rows, self.acting(m)] = A[:, len(Q) :]
        return max(memory for _, memory in fits)

    def _alike(self, chosen):
        """Chosen units of one size on which as many inputs act, as many together as one task is about."""
        n_inputs = self.driven.astype(int) @ np.asarray(self.partition.input_sizes)
        for group in self.partition.groups.values():
            for number in np.unique(n_inputs[group]):
                units = group[chosen[group] & (n_inputs[group] == number)]
                yield from (units[chunk.start : chunk.stop] for chunk in chunks(len(units), UNITS))

    def acting(self, unit):
        """Positions of the inputs that act on a unit."""
        return np.flatnonzero(self.driven[unit, self.partition.unit_of_input])

    def columns_of(self, unit):
        """Columns of a unit's states and of the inputs that act on it among the regressors."""
        own = self.partition.slices[unit]
        return np.concatenate([np.arange(own.start, own.stop), self.partition.n_states + self.acting(unit)])

    def own_coefficients(self, unit):
        """What a unit's own model multiplies these columns by."""
        return np.hstack([self.A[unit], self.B[self.partition.slices[unit], self.acting(unit)]])

    def units(self, chosen):
        """Columns among the regressors and noise of some units, two lists."""
        return [self.columns_of(m) for m in chosen], [self.noise[m] for m in chosen]

    def dense(self, blocks):
        """Plant matrix with blocks on its diagonal."""
        return self.record.block_diagonal(blocks)

    def sparse(self, blocks):
        """The same as a sparse matrix."""
        n, columns_of = self.partition.n_states, self.partition.padded[self.partition.unit_of_state]
        real = columns_of < n
        ends = np.cumsum([0, *real.sum(axis=1)])  # of rows
        return csr_array((np.concatenate([np.ravel(x) for x in blocks]), columns_of[real], ends), shape=(n, n))

    def unscaled(self, A):
        """A sparse transition matrix in the units' own states."""
        return (self.sparse(self.scale) @ A @ self.sparse(self.back)).tocsr()

    def unscaled_inputs(self, B):
        """How inputs act, a dense matrix, in the units' own states and inputs."""
        return self.sparse(self.scale) @ (B / self.known_scale)

    def unscaled_covariance(self, Q):
        """A sparse process covariance in the units' own states."""
        S = self.sparse(self.scale)
        Q = S @ Q @ S.T
        return ((Q + Q.T) / 2).tocsr()

    @property
    def n_transitions(self):
        """Rows with one before them."""
        return self.n_samples - len(self.starts)


def filled_by_units(record, parallel=None):
    """The record with its gaps filled as every unit on its own would have."""
    plant = LargePlant(record, parallel)
    m = len(plant.names)
    plant.noise = [
        B @ np.linalg.inv(usual_information(part)) @ B.T for B, part in zip(plant.back, record.parts, strict=True)
    ]
    none = np.zeros((m, m), dtype=bool)
    alone = [[k] for k in range(m)], none, none, none
    matrices = stationary_gain(plant, plant.sparse(plant.A), plant.sparse(plant.Q), *alone)
    return drawn_record(record.centred(), plant.in_own_states(matrices), plant.exogenous(plant.B))


def stretches(record, steps):
    """Rows before and after each step up to others or the end of an episode, two slices."""
    edges = sorted({*record.starts, record.n_samples, *steps})
    return [(slice(edges[k - 1], step), slice(step, edges[k + 1])) for step, k in ((s, edges.index(s)) for s in steps)]


def columns(series, chosen):
    """Some columns of a series at a time, each an array of its own."""
    return [np.ascontiguousarray(series[:, own]) for own in chosen]


def own_models(regressors, *told):
    """Models (A, Q) of units of one size, and what the slowest of their filters remembers.

    Told are, after the regressors of the plant and in records with gaps where its scores are there: the columns of the
    units, as many for each, their noise, first rows of episodes, lags. A has columns for inputs as well.
    """
    *there, own, noise, starts, n_lags = told
    with few_threads(0):
        lags, units = range(n_lags + 2), columns(regressors, own)
        present = columns(there[0], own) if there else [None] * len(units)
        moments = _stacked([
            TransitionMoments.from_sums(lag_covariances(series, lags, starts, seen), series, starts)
            for series, seen in zip(units, present, strict=True)
        ])  # fmt: skip
        N = np.stack(noise)
        fit = fit_units(moments, N)
        memory = filter_radius(fit.A, np.linalg.inv(N), fit.Q)
        least = standardised._OWN_NOISE
        return [(A, floor_eigenvalues(Q, least)) for A, Q in zip(fit.A, fit.Q, strict=True)], float(memory)


def shifts_of_units(regressors, own, noise, starts, n_units):
    """Shifts of the levels of some units of a plant, from its regressors, their columns and noise."""
    with few_threads(0):
        records = []
        for both, N in zip(columns(regressors, own), noise, strict=True):
            scores, inputs = columns(both, (slice(len(N)), slice(len(N), None)))
            records.append(UnitRecord(scores, None, inputs, starts))
        return shifts_of(records, n_units, with_doubts=False)[0]


def _stacked(moments):
    names = ("late", "cross", "early", "back")
    late, cross, early, back = (np.stack([getattr(each, name) for each in moments], axis=1) for name in names)
    return TransitionMoments(late, cross, early, back, moments[0].n_transitions)
