"""A block of a large plant: some units and what acts on them, fitted as a plant of its own.

A block is self-contained, so that blocks may be fitted in other processes, on any backend of joblib, to the same bits.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ...statespace.episodes import TransitionMoments, episodes, lag_covariances
from ...statespace.geweke import geweke_measures
from ...statespace.inputs import DrivenSpectrum
from ...statespace.lagged.likelihood import LagSums
from ...statespace.matrices import few_threads, hermitian
from ...statespace.partition import Partition, diagonal_blocks, positions_of
from ...statespace.whittle import WhittleLikelihood, midpoints, transfer
from ..estimation.block_tests import correlation_estimates, link_estimates
from ..estimation.prior import Prior, WithPrior
from ..estimation.scoring import Point, Scoring, Structure, ascend, is_valid, made_valid
from ..lagged.misfit import lag_tests
from .tuning import TUNING


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
        core_spectra(point, task, partition, task.n_core),
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


def core_spectra(point, task, partition, n_core):
    """Inverse spectra of the residuals of the first units, of their states as they are smoothed, and both across."""
    frequencies, n = midpoints(task.n_frequencies), len(point.Q)
    Z = transfer(point.A, np.exp(1j * frequencies)[:, None, None])
    Q = np.broadcast_to(point.Q, Z.shape)
    U, H = np.linalg.inv(Q + Z @ task.noise @ hermitian(Z)), np.linalg.solve(Z, Q)
    W = H @ U
    V = W @ hermitian(H)
    if point.A.shape[1] > n:
        A, B = point.A[:, :n], point.A[:, n:]
        sums = task.sums
        if sums is None:
            sums = lag_covariances(task.series, range(task.n_lags + 2), task.starts)
        early = TransitionMoments.from_sums(sums, task.series, task.starts).early
        V = V + DrivenSpectrum(early, n, frequencies).at(A, B)[:, :n, :n]
    return tuple(diagonal_blocks(x, partition)[:n_core].copy() for x in (U, V, W))


def pushes(task, point, core):
    """Residuals ``x = Phi^-1 r`` of the first states, row t of what came between t and t + 1."""
    frequencies = midpoints(TUNING.blocks_finer * task.n_lags)
    Z = transfer(point.A, np.exp(1j * frequencies)[:, None, None])
    X = np.linalg.inv(point.Q + Z @ task.noise @ hermitian(Z))[:, :core]
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
