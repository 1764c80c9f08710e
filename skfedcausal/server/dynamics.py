"""The plant that was learned, whatever learned it: it runs over a record and its gaps, smooths, responds to inputs."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse import issparse

from ..message.states import StateReply
from ..statespace import kalman
from ..statespace.episodes import PIECE, episode_lengths, episodes, lagged_rows, side_by_side
from ..statespace.geweke import geweke_measures
from ..statespace.inputs import input_response, input_term
from ..statespace.kalman import Covariances, FilteredRows, filtered_covariance, stationary_covariance
from ..statespace.matrices import are_heavy, companion
from ..statespace.segments import Change
from ..statespace.timedomain import Tails, smooth
from .tuning import TUNING

# Running the learned plant over a record, around its operating point: filter, smoother, inputs.

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
        return kalman.filtered_states(self._schedule, z, out=z, **self._driven)

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

    def joint_log_density(self, states):
        """The mean over rows of the same for units together, at positions (k,) of their states."""
        return float(self._log_densities([states]).mean())

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


# Kalman filter of states with their lags, row by row, where measurements are missing.
#
# Only the newest states are measured and only they have noise: a step costs n (n p)^2, and nothing once the
# covariances of a stretch with the same sensors have settled.

_SETTLED = 1e-12  # relative change of the predicted covariance that is rounding
_ROWS = 256


def filtered_with_gaps(dynamics, P0, record, *, starts, exogenous):
    """Filter the episodes of a record, in pieces of rows."""
    n, size = dynamics.n_states, len(P0)
    for start, stop in episodes(starts, record.n_samples):
        run = RowFilter(dynamics, np.zeros(size) if exogenous is None else exogenous[start], P0)
        for first in range(start, stop, _ROWS):
            rows = slice(first, min(first + _ROWS, stop))
            z, J = record.z[rows], record.matrices(rows)
            predicted, filtered = np.empty((2, len(z), size))
            terms, own = np.empty(len(z)), np.empty((len(z), n, n))
            for k, t in enumerate(range(first, rows.stop)):
                predicted[k] = run.mean
                step, residual, filtered[k] = run.row(z[k], J[k])
                own[k], before = step.own, predicted[k, :n]
                terms[k] = -0.5 * (step.logdet - before @ (z[k] + residual) - residual @ (step.gain[:n] @ residual))
                if exogenous is not None and t + 1 < stop:
                    run.mean = run.mean + exogenous[t + 1]
            yield FilteredRows(rows, predicted, filtered, terms, Covariances(J, own, own, None, None))


class RowFilter:
    """The filter row by row: mean and covariance of the states and their lags before the next one."""

    def __init__(self, dynamics, mean, P):
        self._dynamics, self._step = dynamics, None
        self.mean, self.P = mean, P

    def row(self, z, J):
        """The :class:`RowStep` of one row, what the mean misses of it, and the filtered states; on to the next."""
        dynamics, n = self._dynamics, self._dynamics.n_states
        if self._step is None or not self._step.holds(J):
            self._step = RowStep(dynamics, self.P, J)
        step, mean = self._step, self.mean
        residual = z - J @ mean[:n]
        filtered = mean + step.gain @ residual
        self.mean = np.concatenate([dynamics.top @ filtered, filtered[:-n]])
        self.P, self._step = step.following(dynamics), step.settled()
        return step, residual, filtered


class RowStep:
    """Covariances of one row."""

    def __init__(self, dynamics, P, J):
        n = dynamics.n_states
        self.P, self.own, self._J, self._is_settled = P, P[:n, :n], J, False
        right = P[:, :n]
        inner = np.eye(n) + J @ self.own
        # P_f = P - P_1 (I + J P_11)^-1 J P_1', whose first columns are the gain
        self.filtered = P - right @ np.linalg.solve(inner, J @ right.T)
        self.gain = self.filtered[:, :n]
        self.logdet = np.linalg.slogdet(inner)[1]
        self._next = None

    def holds(self, J):
        """Whether a row of these sensors, next to this one, has the same covariances."""
        return self._is_settled and np.array_equal(J, self._J)

    def following(self, dynamics):
        """Predicted covariance of the next row."""
        if self._next is None:
            n = dynamics.n_states
            carried = dynamics.top @ self.filtered
            P = np.empty_like(self.P)
            P[:n, :n] = carried @ dynamics.top.T + dynamics.Q
            P[:n, n:] = carried[:, :-n]
            P[n:, :n] = carried[:, :-n].T
            P[n:, n:] = self.filtered[:-n, :-n]
            P = (P + P.T) / 2
            self._is_settled = bool(np.abs(P - self.P).max() <= _SETTLED * np.abs(P).max())
            self._next = P
        return self._next

    def settled(self):
        """This step if it may serve the next row."""
        return self if self._is_settled else None


# The plant that was learned, whatever learned it: it runs over a record, smooths it and responds to inputs.
#
# Filter, smoother and responses are written for one lag. The state ``[h[t]; ...; h[t-p+1]]`` and the inputs
# ``[u[t+1]; u[t]; ...]`` make a plant of several lags one of those; this is the only place that knows how.

_SMALL = 260  # states with their lags, of which a Riccati equation takes a hundredth of a second


@dataclass(frozen=True, eq=False)
class Plant:
    """``h[t] = sum_k A_k h[t-k] + sum_k B_k u[t-k] + w[t]`` in the units' own states and inputs."""

    A: np.ndarray  # (p, n, n), lags 1 to p
    B: np.ndarray  # (q + 1, n, k), lags 0 to q
    Q: np.ndarray  # (n, n)
    point: Any = None  # the `OperatingPoint` that it moves around
    scale: np.ndarray | None = None  # (n, n), a root of the covariance of every unit's states

    @classmethod
    def of_one_lag(cls, A, B, Q, **about):
        """``h[t] = A h[t-1] + B u[t-1] + w[t]``."""
        return cls(A[None], np.stack([np.zeros_like(B), B]), Q, **about)

    def with_first_lag(self, A, B):
        """The same plant with other coefficients (n, n) and (n, k) of the first lag."""
        lags = A[None] if self.n_lags == 1 else np.stack([A, *self.A[1:]])
        return replace(self, A=lags, B=np.stack([self.B[0], B, *self.B[2:]]))

    @property
    def n_states(self):
        """States without their lags."""
        return self.A.shape[1]

    @property
    def n_lags(self):
        """Lags of the states."""
        return len(self.A)

    @property
    def acts_at_once(self):
        """Whether some input acts in the row it is recorded in."""
        return bool(self.B[0].any())

    @cached_property
    def top(self):
        """``[A_1 | A_2 | ...]``, shape (n, n p)."""
        return _side_by_side(self.A)

    @cached_property
    def transition(self):
        """Of the states with their lags, shape (n p, n p)."""
        return self.A[0] if self.n_lags == 1 else companion(self.top, self.n_lags)

    @cached_property
    def process_cov(self):
        """The same for the noise, zero but for the first lag."""
        return self.padded_matrix(self.Q)

    def padded_matrix(self, x):
        """Matrices (..., n, n) as those of the states with their lags."""
        if self.n_lags == 1:
            return x
        return np.pad(x, [(0, 0)] * (x.ndim - 2) + [(0, self.n_states * (self.n_lags - 1))] * 2)

    def padded_rows(self, x):
        """Matrices (n, ...) with rows of zeros for the lags."""
        return np.concatenate([x, np.zeros((self.n_states * (self.n_lags - 1), *x.shape[1:]))])

    @property
    def driven_by(self):
        """Coefficients (m, n, k) of inputs from the row itself on, or from the row before where none acts at once."""
        return self.B if self.acts_at_once else self.B[1:]

    def foreign_inputs(self, partition):
        """Those of other units' inputs, side by side as the inputs of :meth:`stacked`, (n, k m)."""
        own = partition.mask(partition.pairs[:0], True, of_inputs=True)
        return _side_by_side([np.where(own, 0.0, B) for B in self.driven_by])

    def stacked(self, u, starts=(0,)):
        """Inputs ``[u[t+1]; u[t]; ...; u[t-q+1]]`` of each row, zero (their level) beyond an episode.

        Without the first ones where no input acts at once.
        """
        if len(self.driven_by) == 1 and not self.acts_at_once:
            return u
        parts = [u, lagged_rows(u, len(self.B) - 2, starts)]
        if self.acts_at_once:
            ahead = np.vstack([u[1:], np.zeros_like(u[:1])])
            ahead[[stop - 1 for _, stop in episodes(starts, len(u))]] = 0.0
            parts.insert(0, ahead)
        return np.hstack(parts)

    # -- over a record ---------------------------------------------------------------------------

    def run(self, record):
        """Filter over a record, a `PlantFilter` or what answers as one."""
        if self.n_lags == 1:
            return PlantFilter(self.A[0], self.Q, record, self.drive())
        return LaggedFilter(self, record, self.drive())

    def drive(self, foreign=None):
        """How inputs and shifts act, a `LaggedDrive`, or None; through a matrix as of `foreign_inputs` if given."""
        point = self.point
        if not (self.B.shape[2] or point.steps):
            return None
        B = _side_by_side(self.driven_by) if foreign is None else foreign
        held = self.top.reshape(self.n_states, self.n_lags, self.n_states).sum(axis=1)
        steps = point.new_levels - held @ point.new_levels
        first = np.hstack([np.zeros_like(B), point.new_levels])
        spread = np.kron(np.ones((self.n_lags, self.n_lags)), point.spread)
        matrix, first = self.padded_rows(np.hstack([B, steps])), np.tile(first, (self.n_lags, 1))
        return LaggedDrive(matrix, point.known_level, spread, first, plant=self)

    def smooth(self, record, **settings):
        """States given a whole record (n_samples, n), and covariances of each unit's states."""
        padded = record if self.n_lags == 1 else PaddedRecord(self, record)
        states, covariances, _ = smooth_record(self.transition, self.process_cov, padded, self.drive(), **settings)
        return states[:, : self.n_states], covariances

    def hindsight(self, record):
        """States (n_samples, n) of a record with gaps as they are filled in for sums over its rows."""
        return self.smooth(record)[0] if self.n_lags == 1 else self.run(record).hindsight()

    def cross_terms(self, record, run):
        """What other units do to each unit's states over all lags, by unit, (n_samples, p) each, from a filter."""
        others = np.where(record.partition.block_diagonal, 0.0, self.A)
        drive = self.drive(self.foreign_inputs(record.partition))
        return run.carried_to_units(_side_by_side(others), drive)

    def replies(self, record, run):
        """The `StateReply` to each unit of a record, in their order: its own part of the plant, what others do."""
        partition, is_plain = record.partition, self.n_lags == 1 and len(self.driven_by) == 1
        B = self.B[1:] if is_plain else self.B
        level = self.foreign_inputs(partition) @ np.tile(self.point.known_level[: B.shape[2]], len(self.driven_by))
        units = zip(self.cross_terms(record, run), partition.slices, partition.input_slices, strict=True)
        return [
            StateReply(
                terms,
                _side_by_side(self.A[:, rows, rows]),
                self.Q[rows, rows],
                input_matrix=_side_by_side(B[:, rows, inputs]) if inputs.stop > inputs.start else None,
                input_level=level[rows] if partition.n_inputs else None,
            )
            for terms, rows, inputs in units
        ]

    @property
    def is_small(self):
        """Whether Geweke's measures, a Riccati equation of all lags for every unit, are had at once."""
        return self.n_states * self.n_lags <= _SMALL

    def geweke(self, J, partition):
        """Geweke's measure of every pair of units, (n_units, n_units), for measurements of information J."""
        matrices = self.transition, self.process_cov, self.padded_matrix(J)
        return geweke_measures(*matrices, partition.without_inputs)

    # -- answers ---------------------------------------------------------------------------------

    def response(self, change, gains=None):
        """Effect on the states one step later of a change (n_steps, k) of inputs, shape (n_steps, n).

        With `gains` the controllers respond: past inputs are then states too.
        """
        change = np.vstack([change, np.zeros((1, change.shape[1]))])  # what follows the last row is not known
        if gains is None:
            B = self.padded_rows(_side_by_side(self.driven_by))
            return input_response(self.transition, B, self.stacked(change)).effect[:-1, : self.n_states]
        return self._with_loops(change, gains)[:-1]

    def _with_loops(self, change, gains):
        """The same step by step: ``du[t] = change[t] + K0 dh[t] + K1 dh[t-1] + F du[t-1]``."""
        if self.acts_at_once:
            raise ValueError(
                "An input that acts in the row it is measured in cannot follow the measurements of that row. "
                "Ask with loops='hold', or say sampled='after' for the inputs of controllers."
            )
        n_steps, n = len(change), self.n_states
        h, u = np.zeros((n_steps + 1, n)), np.zeros_like(change)
        for t in range(n_steps):  # h[t] is the effect at the row of change[t]
            before = h[t - 1] if t else np.zeros(n)
            u[t] = change[t] + gains.present @ h[t] + gains.previous @ before
            if t:
                u[t] += gains.persistence @ u[t - 1]
            for k in range(1, min(self.n_lags, t + 1) + 1):
                h[t + 1] += self.A[k - 1] @ h[t + 1 - k]
            for k in range(1, min(len(self.B) - 1, t + 1) + 1):
                h[t + 1] += self.B[k] @ u[t + 1 - k]
        return h[1:]


def _side_by_side(matrices):
    """Matrices of all lags as one; that of a single lag is not copied."""
    return matrices[0] if len(matrices) == 1 else np.hstack(list(matrices))


@dataclass(frozen=True)
class LaggedDrive(InputDrive):
    """How the inputs of several lags and the steps of a record act on the states with their lags."""

    plant: Plant = field(kw_only=True)

    def inputs(self, record):
        """Inputs of all lags and steps less their level."""
        known = record.known - self.level
        k = self.plant.B.shape[2]
        return np.hstack([self.plant.stacked(known[:, :k], record.starts), known[:, k:]])


class PaddedRecord:
    """A record of the states with their lags, which are not measured."""

    def __init__(self, dynamics, record):
        self._dynamics, self.bare = dynamics, record

    def __getattr__(self, name):
        return getattr(self.bare, name)

    def mean_information(self):
        """Mean information of a row."""
        return self._dynamics.padded_matrix(self.bare.mean_information())

    def matrices(self, rows=slice(None)):
        """Information matrices of a slice of rows."""
        return self._dynamics.padded_matrix(self.bare.matrices(rows))

    def stacked(self):
        """Information vectors, formed anew."""
        z = np.zeros((self.bare.n_samples, len(self._dynamics.transition)))
        z[:, : self._dynamics.n_states] = self.bare.z
        return z

    @cached_property
    def z(self):
        """Information vectors."""
        return self.stacked()


class LaggedFilter:
    """Kalman filter of a plant of several lags: the answers of a :class:`PlantFilter` about its states."""

    def __init__(self, dynamics, record, drive):
        self._n, self.record = dynamics.n_states, record
        self.plain = _Whole(dynamics, record, drive)  # the filter of the states with their lags

    def __getattr__(self, name):
        return getattr(self.plain, name)

    @property
    def filtered(self):
        """``E[h_t | messages up to t]``, shape (n_samples, n)."""
        return np.ascontiguousarray(self.plain.filtered[:, : self._n])

    @property
    def predicted(self):
        """``E[h_t | messages up to t - 1]``, shape (n_samples, n)."""
        return np.ascontiguousarray(self.plain.predicted[:, : self._n])

    def hindsight(self):
        """States given the messages of as many rows after theirs as the plant has lags, less one."""
        whole, n = self.plain.filtered, self._n
        blocks = whole.reshape(len(whole), -1, n)
        n_lags, states = blocks.shape[1], np.empty((len(whole), n))
        for start, stop in episodes(self.record.starts, len(whole)):
            late = np.minimum(np.arange(start, stop) + n_lags - 1, stop - 1)
            states[start:stop] = blocks[late, late - np.arange(start, stop)]
        return states

    def updates(self, start, stop):
        """Filtered less predicted states of rows of one episode."""
        return self.plain.updates(start, stop)[:, : self._n]

    def carried_to_units(self, matrix, drive=None):
        """What earlier rows make of the states, by unit, through a matrix (n, n p)."""
        own = None if drive is None else replace(drive, B=drive.B[: self._n])
        return self.plain.carried_to_units(matrix, own)

    def told(self, alone, tails):
        """The same filter; states of units that are predicted on their own, and the tails of the others'."""
        self.plain.told(alone, tails)
        return self


class _Whole(PlantFilter):
    """The filter of the states with their lags."""

    def __init__(self, dynamics, record, drive):
        self._dynamics = dynamics
        super().__init__(dynamics.transition, dynamics.process_cov, PaddedRecord(dynamics, record), drive)

    def _parts_with_gaps(self):
        settings = {"starts": self.record.starts, "exogenous": self._exogenous}
        return filtered_with_gaps(self._dynamics, self._P0, self.record.bare, **settings)
