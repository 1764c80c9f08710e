"""The record of a large plant in states of unit variance, and every unit's own model."""

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from ...parallel import chunks, run
from ...statespace.episodes import TransitionMoments, lag_covariances
from ...statespace.inputs import input_term
from ...statespace.matrices import few_threads, floor_eigenvalues
from ...statespace.riccati import filter_radius
from ...statespace.units import fit_units
from ...statespace.whittle import frequencies_of_states
from ..estimation import standardised
from ..estimation.level_shifts import UnitRecord, shifts_of
from ..joint import usual_information
from .filter import stationary_gain
from .gaps import drawn_record, share_there

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
