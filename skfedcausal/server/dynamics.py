"""The plant that was learned, whatever learned it: it runs over a record, smooths it and responds to inputs.

Filter, smoother and responses are written for one lag. The state ``[h[t]; ...; h[t-p+1]]`` and the inputs
``[u[t+1]; u[t]; ...]`` make a plant of several lags one of those; this is the only place that knows how.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..message.states import StateReply
from ..statespace.episodes import episodes, lagged_rows
from ..statespace.geweke import geweke_measures
from ..statespace.inputs import input_response
from ..statespace.matrices import companion
from .lagged.gaps import filtered_with_gaps
from .prediction import InputDrive, PlantFilter, smooth_record

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
