"""The record of a large plant in states of unit variance, and every unit's own model."""

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from ...statespace.episodes import TransitionMoments, lag_covariances
from ...statespace.matrices import few_threads, floor_eigenvalues
from ...statespace.units import fit_units
from ...statespace.whittle import frequencies_of_states
from ..estimation.level_shifts import UnitRecord, shifts_of
from ..estimation.standardised import (
    _MAX_LAGS,
    _MIN_LAGS,
    _OWN_NOISE,
    _ROWS_PER_LAG,
    _TRUNCATION,
    _filter_memory,
    _state_scales,
)
from ..joint import usual_information
from .filter import stationary_gain
from .gaps import drawn_record, share_there
from .parallel import chunks, run

UNITS = 32  # that one task is about


class LargePlant:
    """A joint record in states ``S_m^-1 h_m`` of unit variance, without anything that takes all pairs of states.

    `A` and `Q` are lists of the units' own models, `noise` those of the covariances of their scores, `n_lags` what
    the slowest of their filters needs, `n_frequencies` what their spectra do. Of a record that was filled, `gapped`
    is the one with the gaps; `there`, (n_units,), is the share of every unit's measurements that it has.
    """

    def __init__(self, record, parallel=None, gapped=None):
        self.gapped = None if gapped is None else replace(gapped, starts=record.starts).centred()
        self.there = None if gapped is None else share_there(gapped)
        self.record, self.partition, self.names = record, record.partition, record.names
        self.n_samples, self.starts = record.n_samples, record.starts
        scores = record.scores
        self.scale = _state_scales(record, scores, [None] * len(record.names))
        self._back = [np.linalg.inv(S) for S in self.scale]
        self.noise = [B @ N @ B.T for B, N in zip(self._back, scores.noise, strict=True)]
        self.series = np.empty_like(scores.series)
        self._present = scores.present
        self._take(scores.series)
        self.n_lags = _MIN_LAGS
        memory = self._fit(self.n_lags, parallel)
        while (needed := self._lags_for(memory)) > self.n_lags:
            self.n_lags = needed
            memory = self._fit(needed, parallel)
        self.n_frequencies = max(frequencies_of_states(A, self.n_lags) for A in self.A)

    def _take(self, scores):
        for B, own in zip(self._back, self.partition.slices, strict=True):
            np.matmul(scores[:, own], B.T, out=self.series[:, own])

    def fill(self, matrices):
        """Fill the gaps of the record anew, as a plant with these matrices in standardised states would have."""
        self.record = drawn_record(self.gapped, self.in_own_states(matrices))
        self.series = np.empty_like(self.series)  # workers may have the one before
        self._take(self.record.scores.series)

    def in_own_states(self, matrices):
        """Matrices of the filter of a plant in the units' own states."""
        A, gain, back = (self.unscaled(x) for x in (matrices.A, matrices.gain, matrices.back))
        Q, P = (self.unscaled_covariance(x) for x in (matrices.Q, matrices.predicted))
        B = self.sparse(self._back)
        return type(matrices)(A, Q, gain, P, back, (B.T @ matrices.information @ B).tocsr())

    def _lags_for(self, memory):
        needed = int(np.ceil(np.log(_TRUNCATION) / np.log(max(memory, 1e-6))))
        return min(needed, _MAX_LAGS, max(self.n_samples // _ROWS_PER_LAG, 1))

    def _fit(self, n_lags, parallel):
        """Learn the units' own models from so many lags; what their filters remember."""
        self.A, self.Q = [None] * len(self.names), [None] * len(self.names)
        together = [units[chunk.start : chunk.stop] for units in self.partition.groups.values()
                    for chunk in chunks(len(units), UNITS)]  # fmt: skip
        tasks = ((*self.units(units), self.starts, n_lags) for units in together)
        shared = (self.series,) if self._present is None else (self.series, self._present)
        fits = run(own_models, tasks, parallel, shared)
        for units, (models, _) in zip(together, fits, strict=True):
            for m, (A, Q) in zip(units, models, strict=True):
                self.A[m], self.Q[m] = A, Q
        return max(memory for _, memory in fits)

    def units(self, chosen):
        """States and noise of some units, two lists."""
        return [self.partition.slices[m] for m in chosen], [self.noise[m] for m in chosen]

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
        return (self.sparse(self.scale) @ A @ self.sparse(self._back)).tocsr()

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
        B @ np.linalg.inv(usual_information(part)) @ B.T for B, part in zip(plant._back, record.parts, strict=True)
    ]
    none: tuple = ([{}] * m, [[]] * m)
    matrices = stationary_gain(plant, plant.sparse(plant.A), plant.sparse(plant.Q), [[k] for k in range(m)], *none)
    return drawn_record(record.centred(), plant.in_own_states(matrices))


def columns(series, slices):
    """Some columns of a series at a time, each an array of its own."""
    return [np.ascontiguousarray(series[:, own]) for own in slices]


def own_models(series, *told):
    """Models (A, Q) of units of one size, and what the slowest of their filters remembers.

    Told are, after the scores of the plant and in records with gaps where they are there: the states of the units,
    their noise, first rows of episodes, lags.
    """
    *there, slices, noise, starts, n_lags = told
    with few_threads(0):
        lags, units = range(n_lags + 2), columns(series, slices)
        present = columns(there[0], slices) if there else [None] * len(units)
        moments = _stacked([
            TransitionMoments.from_sums(lag_covariances(own, lags, starts, seen), own, starts)
            for own, seen in zip(units, present, strict=True)
        ])  # fmt: skip
        N = np.stack(noise)
        fit = fit_units(moments, N)
        memory = _filter_memory(fit.A, fit.Q, np.linalg.inv(N))
        return [(A, floor_eigenvalues(Q, _OWN_NOISE)) for A, Q in zip(fit.A, fit.Q, strict=True)], float(memory)


def shifts_of_units(series, slices, noise, starts, n_lags, n_units):
    """Shifts of the levels of some units of a plant, from its scores, their states and noise."""
    with few_threads(0):
        nothing, units = np.zeros((len(series), 0)), zip(columns(series, slices), noise, strict=True)
        records = (UnitRecord(own, None, N, nothing, starts, n_lags) for own, N in units)
        return shifts_of(records, n_units, with_doubts=False)[0]


def _stacked(moments):
    names = ("late", "cross", "early", "back")
    late, cross, early, back = (np.stack([getattr(each, name) for each in moments], axis=1) for name in names)
    return TransitionMoments(late, cross, early, back, moments[0].n_transitions)
