"""Running the learned plant over a record, around its operating point: filter, smoother, inputs."""

from dataclasses import dataclass, replace
from functools import cached_property
from types import SimpleNamespace

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse import issparse

from ..statespace import kalman
from ..statespace.episodes import PIECE, episode_lengths, episodes, side_by_side
from ..statespace.inputs import input_term
from ..statespace.matrices import are_heavy
from ..statespace.riccati import filtered_covariance, stationary_covariance
from ..statespace.segments import Change
from ..statespace.smoother import smooth
from .tuning import TUNING

_ALWAYS = Change(0, 1)  # of a level that is the new one from the first row on


class PlantFilter:
    """Kalman filter of the whole plant over the units' messages, exact for missing measurements.

    `drive`, an :class:`InputDrive`, says how inputs act; None for a plant without inputs or steps.
    """

    def __init__(self, A, Q, record, drive=None):
        self.A, self.Q, self.record = A, Q, record
        self.inputs = np.zeros((record.n_samples, 0)) if drive is None else drive.inputs(record)
        self._drive = drive
        self._alone, self._tails = np.zeros(0, dtype=int), None
        self._P0 = self._first_covariance()
        if drive is not None:
            self._P0 = self._P0 + drive.spread

    def _first_covariance(self):
        """Covariance of the first state of an episode, apart from what inputs before it add."""
        return stationary_covariance(self.A, self.Q)

    @property
    def plain(self):
        """The filter of all that the plant remembers, with `A` and `Q`."""
        return self

    def ahead(self, origins, n_steps, stop):
        """``E[h_(o+k) | messages up to o]`` for k = 1, ..., n_steps in turn, of those before row `stop`."""
        states, added = self.filtered[origins], self._exogenous
        for k in range(1, n_steps + 1):
            states = states @ self.A.T
            if added is not None:
                states += added[np.minimum(origins + k, stop - 1)]
            yield states

    def goes_on(self, n_steps):
        """What inputs and steps add to the rows after the record if they stay as they are, (n_steps, n)."""
        if self._drive is None:
            return np.zeros((n_steps, len(self.A)))
        known = np.vstack([self.record.known, np.repeat(self.record.known[-1:], n_steps, axis=0)])
        inputs = self._drive.inputs(SimpleNamespace(known=known, starts=self.record.starts))
        return inputs[-n_steps - 1 : -1] @ self._drive.B.T

    def is_about(self, record):
        """Whether it ran over the same messages."""
        return len(record.parts) == len(self.record.parts) and all(
            ours.z is theirs.z for ours, theirs in zip(self.record.parts, record.parts, strict=True)
        )

    @cached_property
    def filtered(self):
        """``E[h_t | messages up to t]``, shape (n_samples, n)."""
        if not self.record.is_constant:
            return self._with_gaps[0]
        z = self.record.stacked()
        return kalman.filtered_states(self._schedule, (z, None), out=z, **self._driven)

    @cached_property
    def predicted(self):
        """``E[h_t | messages up to t - 1]``, shape (n_samples, n)."""
        if not self.record.is_constant:
            return self._with_gaps[1]
        return kalman.predicted_states(self.A, self.filtered, **self._driven)

    def updates(self, start, stop):
        """Filtered minus predicted states of rows `start` to `stop` of one episode."""
        return self.filtered[start:stop] - self.predicted[start:stop]

    @property
    def _exogenous(self):
        """What inputs and steps add to the state equation at each row; as large as the states, not kept."""
        return None if self._drive is None else self._drive.exogenous(self.inputs, self.record.starts)

    @property
    def _driven(self):
        return {"starts": self.record.starts, "exogenous": self._exogenous}

    def _parts_with_gaps(self):
        return kalman.filter_rows(self.A, self.Q, self._P0, self.record.z, self.record.matrices, **self._driven)

    @cached_property
    def _with_gaps(self):
        """Filtered and predicted states, and the log-likelihood terms, where measurements are missing."""
        return kalman.all_rows(self._parts_with_gaps(), self.record.z.shape)

    @cached_property
    def _schedule(self):
        longest = max(episode_lengths(self.record.starts, self.record.n_samples))
        return kalman.covariance_schedule(self.A, self.Q, self.record.mean_information(), self._P0, max_steps=longest)

    def _steps(self):
        """Place of every row in the schedule, by its age in its episode, (n_samples,)."""
        rows, starts = np.arange(self.record.n_samples), np.asarray(self.record.starts)
        ages = rows - starts[np.searchsorted(starts, rows, side="right") - 1]
        return np.minimum(ages, self._schedule.n_transient)

    def carried(self, matrix, drive=None):
        """What the row before makes of the states, ``matrix @ E[h_(t-1) | messages up to t - 1]``.

        And ``drive.B`` times the inputs of the row before; zero in the first row of an episode.
        """
        return np.hstack(self.carried_to_units(matrix, drive))

    def carried_to_units(self, matrix, drive=None):
        """:meth:`carried` as one array per unit, shape (n_samples, p) each."""
        slices, n_samples = self.record.partition.slices, len(self.filtered)
        terms = [np.empty((n_samples, rows.stop - rows.start)) for rows in slices]
        for first in range(1, n_samples, PIECE):
            early = slice(first - 1, min(first - 1 + PIECE, n_samples - 1))
            piece = self.filtered[early] @ matrix.T
            if drive is not None:
                piece += self.inputs[early] @ drive.B.T
            for term, rows in zip(terms, slices, strict=True):
                term[first : first + PIECE] = piece[:, rows]
        for term in terms:
            term[list(self.record.starts)] = 0.0
        return terms

    def unit_covariances(self, slices):
        """Covariance of each unit's predicted states at every row, a list of arrays (n_samples, p, p)."""
        record = self.record
        if record.is_constant:
            return [_block(self._schedule.predicted, own).take(self._steps(), axis=0) for own in slices]
        found = [np.empty((record.n_samples, own.stop - own.start, own.stop - own.start)) for own in slices]
        for part in self._parts_with_gaps():
            for covariances, own in zip(found, slices, strict=True):
                covariances[part.rows] = _block(part.covariances.predicted, own)
        return found

    def unit_log_densities(self):
        """Log-density of each unit's own measurements at each step given the past of all units.

        Shape (n_samples, n_units), less the terms free of the states.
        """
        return self._log_densities(self.record.partition.slices)

    def _log_densities(self, slices):
        """The same for slices or arrays of states."""
        record = self.record
        terms = np.empty((len(record.z), len(slices)))
        if not record.is_constant:
            for part in self._parts_with_gaps():
                for m, own in enumerate(slices):
                    # before and after the unit's own measurement alone
                    J, P = (_block(x, own) for x in (part.covariances.J, part.covariances.predicted))
                    filtered = np.linalg.solve(np.eye(J.shape[1]) + P @ J, P)
                    covariances = part.covariances._replace(J=J, predicted=P, filtered=filtered, logdet=None)
                    z, means = record.z[part.rows, own], part.predicted[:, own]
                    terms[part.rows, m] = kalman.log_density_terms(covariances, z, means)
            return terms
        for m, own in enumerate(slices):
            P, J = _block(self._schedule.predicted, own), _block(record.mean_information(), own)
            filtered = np.array([filtered_covariance(step, J) for step in P])
            schedule = kalman.CovarianceSchedule(_block(self.A, own), J, P, filtered)
            own_series = record.z[:, own], 0.0, self.predicted[:, own]
            terms[:, m] = kalman.log_likelihood_terms(schedule, *own_series, record.starts)
        return terms

    def log_likelihood(self):
        """Log-density of all measurements at each step given the past, shape (n_samples,)."""
        record = self.record
        const = record.const()
        if const is None:
            raise ValueError("Likelihood values need messages with their constants (const=True).")
        if not record.is_constant:
            found = const + self._with_gaps[2]
        else:
            found = kalman.log_likelihood_terms(self._schedule, record.z, const, self.predicted, record.starts)
        if len(self._alone):  # their constants say it all
            found -= self._log_densities([self._alone])[:, 0]
        if self._tails is not None and record.is_constant:
            found += self._tails.gain(self._white(np.arange(record.n_samples), self.predicted, self._steps()))
        return found

    def told(self, alone, tails):
        """The same filter; states of units that are predicted on their own, and the tails of the others'."""
        if not np.array_equal(alone, self._alone):
            self.__dict__.pop("heavy_tails", None)
        self._alone, self._tails = alone, tails
        return self

    @cached_property
    def heavy_tails(self):
        """Tails of the innovations, None where they may be Gaussian or rows differ in what is measured."""
        record = self.record
        if not (record.is_constant and record.determined.all()):
            return None
        young = min(self._schedule.n_transient, TUNING.prediction_young)
        bounds = episodes(record.starts, record.n_samples)
        late = [np.arange(start + max(min(young, (stop - start) // 2), 1), stop) for start, stop in bounds]
        rows = np.concatenate(late)[-TUNING.prediction_tail_rows :]
        before = self.filtered[rows - 1] @ self.A.T
        if self._drive is not None:
            before += self._exogenous[rows]
        white = self._white(rows, before, np.full(len(rows), self._schedule.n_transient))
        if not are_heavy(white):
            return None
        from ..statespace.tails import Tails  # for noise that is not Gaussian

        return Tails.learned(white)

    @property
    def _information(self):
        """That of a row, on average."""
        return self.record.mean_information()

    def _white(self, rows, predicted, steps):
        """Innovations of rows given the past and units on their own, with unit covariance, (n_rows, n).

        `steps` are those of the schedule that have their covariances.
        """
        record, n = self.record, self.record.partition.n_states
        order = np.concatenate([self._alone, np.setdiff1d(np.arange(n), self._alone)])
        J, P = self._information[:n, :n], self._schedule.predicted[:, :n, :n]
        z = side_by_side([part.z[rows] for part in record.parts])
        innovations = (z - predicted[:, :n] @ J)[:, order]
        white = np.empty_like(innovations)
        for step in np.unique(steps):
            L = np.linalg.cholesky(_block(J @ P[step] @ J + J, order))
            white[steps == step] = solve_triangular(L, innovations[steps == step].T, lower=True).T
        return white[:, len(self._alone) :]


def _block(matrices, own):
    """Blocks of matrices (..., n, n), of a slice or an array of states; dense ones of a sparse matrix."""
    if issparse(matrices):
        return matrices[own][:, own].toarray()
    return matrices[..., own, own] if isinstance(own, slice) else matrices[..., own[:, None], own]


@dataclass(frozen=True)
class InputDrive:
    """How the inputs and steps of a record act on the states, steps behind inputs.

    `level` is that of inputs and steps at which the states have theirs, `spread` the covariance that unknown
    inputs before an episode add to its first state, `held` what an input or step makes of the states that has
    been there before an episode: the new level for a step, zero for inputs, which vary.
    """

    B: np.ndarray  # (n, k)
    level: np.ndarray  # (k,)
    spread: np.ndarray  # (n, n)
    held: np.ndarray | None = None  # (n, k) or None

    def inputs(self, record):
        """Inputs and steps less their level, shape (n_samples, k)."""
        return record.known - self.level

    def exogenous(self, inputs, starts):
        """What they add to the state equation at each row, from the row before.

        In the first row of an episode the mean of its first state.
        """
        term = input_term(self.B, inputs, starts)
        if self.held is not None:
            term[list(starts)] = inputs[list(starts)] @ self.held.T
        return term


@dataclass(frozen=True, eq=False)
class OperatingPoint:
    """Levels that a fitted plant moves around: of its inputs, and of its units before and after shifts."""

    known_level: np.ndarray  # (n_inputs + n_steps,)
    steps: tuple[Change, ...]
    new_levels: np.ndarray  # (n, n_steps)
    spread: np.ndarray  # (n, n)
    rows: tuple[int, ...]  # first ones of the episodes of the fit, and how many there are
    sums: np.ndarray | None  # (2, n) or None

    @classmethod
    def of(cls, record, A, steps, levels, state_scale):
        """Of a plant with transition matrix A, to whose states the steps add `levels` (n, n_steps)."""
        placed, n = record.at_steps(steps) if steps else record, record.partition.n_states
        return cls(
            placed.known_level,
            steps,
            np.linalg.solve(np.eye(n) - A, levels),
            # driven states of unknown past: the variance of the record
            state_scale @ state_scale.T if record.partition.n_inputs else np.zeros((n, n)),
            (*record.starts, record.n_samples),
            record.fingerprint() if steps else None,
        )

    @classmethod
    def at(cls, known_level, n):
        """Of a plant of n states whose inputs have this level (k,) and whose units never shift."""
        return cls(known_level, (), np.zeros((n, 0)), np.zeros((n, n)), (), None)

    def moved(self, record, steps, new_levels):
        """The operating point with other shifts of the record that was fitted."""
        placed = record.at_steps(steps)
        sums = record.fingerprint() if steps else None
        return replace(self, known_level=placed.known_level, steps=steps, new_levels=new_levels, sums=sums)

    def placed(self, record):
        """The record with the shifts where they were found, if it is the one of the fit.

        Any other is taken to have the level that the units had in the end.
        """
        if not self.steps:
            return record
        is_fitted = (*record.starts, record.n_samples) == self.rows
        is_fitted = is_fitted and np.abs(record.fingerprint() - self.sums).max() < TUNING.prediction_same_record
        return record.at_steps(self.steps if is_fitted else (_ALWAYS,) * len(self.steps))


def smooth_record(A, Q, record, drive=None, *, intercept=True, spread=True):
    """States of the plant given a whole record, (n_samples, n), and covariances of each unit's states.

    The covariance of a unit that has the same sensors in every row is one for all of them, averaged. Without
    `spread` there are no covariances, and rows that differ in what is measured take half the time. Behind them stands,
    with `spread`, the log-likelihood of the record without the constants of its measurements.
    """
    settings = {"starts": record.starts, "keep": record.partition.slices if spread else (), "intercept": intercept}
    settings["J"] = record.mean_information() if record.is_constant else None
    # without levels nothing is summed over all rows, and pieces that fit in memory are several times as fast
    settings["n_bytes"] = None if intercept else kalman.FILTERED_BYTES
    if drive is not None:
        A = np.hstack([A, drive.B])
        settings |= {"inputs": drive.inputs(record), "spread": drive.spread}
    _, smoothed = smooth(A, Q, record.z, record.matrices, **settings)
    return smoothed.states, as_measured(smoothed.covariances, record.parts), smoothed.value


def as_measured(covariances, parts):
    """Covariances of each unit's states, one for all rows of a unit that has the same sensors in each, averaged."""
    return [
        V.mean(axis=0, keepdims=True) if part.is_constant else V for V, part in zip(covariances, parts, strict=False)
    ]
