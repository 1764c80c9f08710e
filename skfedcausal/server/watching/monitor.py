"""A learned plant as it is watched: the filter of its rows, and how much every unit surprises two models of the plant.

The filter of a plant of one or several lags keeps the covariance of its states until that is steady. That of a plant
learned in blocks (:mod:`..sparse.filter`) is steady from the first row on, in sparse matrices: everything costs as much
as there are links. Its scaled innovations are what the coherent shift statistic needs. The surprises of the energy
statistic are of the same filter, or of a regression of all units' states on their last values. All go on exactly where
the last rows left them, so a stream in pieces gives what one call on the whole gives.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ...statespace.detection.shift import (
    ConditionalEnergy,
    InnovationModel,
    Predictor,
    RowBelief,
    RowPattern,
    Surprises,
    block_diagonal,
    surprises_with_gaps,
)
from ...statespace.episodes import episodes
from ...statespace.kalman import Recurrence
from ...statespace.matrices import floor_eigenvalues, sparse_diagonal
from ...statespace.observation import is_regular
from ..dynamics import RowStep
from .tuning import TUNING

_SETTLED = 1e-10  # relative change of the predicted covariance from which on it is the steady one

# -- what rows show --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SeenRows:
    """Rows of a record beside nominal ones.

    record : JointRecord
    x : states as measured, zero for absent units, (n_rows, n)
    present : which units are there, (n_rows, n_units)
    is_usual : whether every row is measured as nominal ones are
    patterns_of_units : by pattern, the pattern of each unit's message, -1 for an absent unit, (n_patterns, n_units)
    pattern_of : pattern of each row, (n_rows,)
    sensors : the :class:`UsualSensors`
    """

    record: Any
    x: np.ndarray
    present: np.ndarray
    is_usual: bool
    patterns_of_units: np.ndarray
    pattern_of: np.ndarray
    sensors: Any

    @cached_property
    def patterns(self):
        """The :class:`RowPattern` of each pattern of rows."""
        return [self.sensors.row_pattern(self.record, units) for units in self.patterns_of_units]


class UsualSensors:
    """The sensors of nominal rows: information of each unit, (p, p), and noise of the states, (n, n), as measured."""

    _usual: tuple[Any, ...] = ()  # information matrices that were found to be usual last

    def __init__(self, J, noise, slices):
        self.slices, self.noise = slices, noise
        self._blocks = [J[b, b] for b in slices]

    def seen(self, record):
        """The :class:`SeenRows` of a record."""
        if self.is_usual(record):
            units = np.zeros((1, len(self.slices)), dtype=int)
            there = np.ones((record.n_samples, len(self.slices)), dtype=bool)
            pattern_of = np.zeros(record.n_samples, dtype=int)
            return SeenRows(record, record.z @ self.noise, there, True, units, pattern_of, self)
        x, patterns_of = np.zeros_like(record.z), []
        for part, b, nominal in zip(record.parts, self.slices, self._blocks, strict=True):
            index = part.pattern_of
            regular = np.zeros(len(part.patterns), dtype=bool)
            for k in np.unique(index):  # the other patterns are those of other rows
                regular[k] = is_regular(part.patterns[k]) and _informative(part.patterns[k], nominal)
            inverse = np.zeros_like(part.patterns)
            inverse[regular] = np.linalg.inv(part.patterns[regular])
            x[:, b] = np.einsum("tij,tj->ti", inverse[index], part.z)
            patterns_of.append(np.where(regular[index], index, -1))
        of_units = np.column_stack(patterns_of)
        units, index = np.unique(of_units, axis=0, return_inverse=True)
        return SeenRows(record, x, of_units >= 0, False, units, index.reshape(-1), self)

    def is_usual(self, record):
        """Whether every row is measured as nominal ones are."""
        if not record.is_constant:
            return False
        came = tuple(part.patterns for part in record.parts)
        if len(came) == len(self._usual) and all(a is b for a, b in zip(came, self._usual, strict=True)):
            return True  # read-only, of rows one by one
        same = all(_same(patterns[0], J) for patterns, J in zip(came, self._blocks, strict=True))
        if same and not any(patterns.flags.writeable for patterns in came):
            self._usual = came
        return same

    def as_usual(self, record):
        """Which units are measured as in nominal rows, (n_rows, n_units)."""
        if self.is_usual(record):
            return np.ones((record.n_samples, len(self._blocks)), dtype=bool)
        pairs = zip(record.parts, self._blocks, strict=True)
        same = [np.array([_same(J, nominal) for J in part.patterns])[part.pattern_of] for part, nominal in pairs]
        return np.column_stack(same)

    def row_pattern(self, record, units):
        """The :class:`RowPattern` of rows from the pattern of each unit's message, -1 for an absent unit.

        Rows with more than the average nominal information are judged by the average.
        """
        extra = np.zeros_like(self.noise)
        for part, b, J, k in zip(record.parts, self.slices, self._blocks, units, strict=True):
            if k >= 0 and not _same(part.patterns[k], J):
                extra[b, b] = floor_eigenvalues(np.linalg.inv(part.patterns[k]) - self.noise[b, b], 0.0)
        return RowPattern(units >= 0, extra)


def _same(J, nominal):
    """Whether an information matrix is the nominal one, rounding aside."""
    return bool((nominal == J).all() or np.abs(J - nominal).max() <= 1e-9 * np.abs(nominal).max())


def _informative(J, nominal):
    """Whether measurements say a fair share of their nominal information about every state."""
    root = np.linalg.cholesky(np.linalg.pinv(nominal, hermitian=True) + 1e-12 * np.eye(len(J)))
    return bool(np.linalg.eigvalsh(root.T @ J @ root)[0] > TUNING.monitor_least_information)


# -- models ----------------------------------------------------------------------------------------------


class FilteredRows(NamedTuple):
    """Rows of an episode by the filter of a plant.

    scaled, predicted : scaled innovations and predicted states, (n_rows, n)
    covariances : of the predicted states row by row, None for that of the steady filter; empty where all are that
    mean, covariance : of the states and their lags after the last row, the covariance None once it is steady
    """

    scaled: np.ndarray
    predicted: np.ndarray
    covariances: list
    mean: np.ndarray
    covariance: np.ndarray | None = None

    def followed_by(self, later):
        """These rows and later ones together."""
        scaled, predicted = (np.concatenate([self[k], later[k]]) for k in range(2))
        return FilteredRows(scaled, predicted, self.covariances + later.covariances, later.mean, later.covariance)


class PlantModel(InnovationModel):
    """A plant of one or several lags, whose rows the filter takes as they come."""

    @cached_property
    def noise(self):
        """Covariance of the states as measured beside the states, (n, n)."""
        return np.linalg.pinv(self.J, hermitian=True)

    def follow(self, seen, mean=None, P=None):
        """The :class:`FilteredRows` of consecutive :class:`SeenRows` of an episode.

        After a row with `mean` and covariance `P` of the states and their lags, None of a steady filter; a mean of None
        stands for the first row of an episode.
        """
        z = seen.record.z
        if seen.is_usual:
            return self.from_first(z) if mean is None else self._usual_rows(z, mean, P)
        if mean is None:
            mean, P = np.zeros(len(self.transition)), self.first
        return self._row_by_row(z, seen.record.matrices(), mean, self.settled if P is None else P)

    def from_first(self, z):
        """The same of an episode from its first row on, all measured as usual, from information vectors (n_rows, n)."""
        return self._usual_rows(z, np.zeros(len(self.transition)), self.first)

    def _usual_rows(self, z, mean, P):
        """Row by row until the covariance is steady, all others at once."""
        if P is None:
            return self._steady_rows(z, mean)
        head = self._row_by_row(z, repeat(self.J), mean, P, until_steady=True)
        n_rows = len(head.scaled)
        return head if n_rows == len(z) else head.followed_by(self._steady_rows(z[n_rows:], head.mean))

    def _steady_rows(self, z, mean):
        filtered, predicted = np.empty((len(z), len(mean))), np.empty_like(z)
        predicted[0] = mean[: self.n_states]
        filtered[0] = mean + self.update @ (z[0] - self.J @ predicted[0])
        if len(z) > 1:
            self._steps.run((z[1:], self.update), x0=filtered[0], out=filtered[1:])
            np.dot(filtered[:-1], self.top.T, out=predicted[1:])
        return FilteredRows(self.scaled(z, predicted), predicted, [None] * len(z), self.transition @ filtered[-1])

    @cached_property
    def _steps(self):
        """Steps of filtered states and lags by the steady filter."""
        return Recurrence(self.transition - self.update @ self.J @ self.top)

    def _row_by_row(self, z, matrices, mean, P, until_steady=False):
        n, step, is_steady = self.n_states, None, False
        scaled, predicted, covariances = [], [], []
        for row, J in zip(z, matrices, strict=False):
            if step is None or not step.holds(J):
                known = self._first_steps if J is self.J else ()
                step = next((known_step for known_step in known if known_step.P is P), None) or RowStep(self, P, J)
            residual = row - J @ mean[:n]
            filtered = mean + step.gain @ residual
            predicted.append(mean[:n])
            scaled.append(residual - J @ (step.gain[:n] @ residual))  # (I + J P)^-1 r
            covariances.append(step.own)
            mean, P = np.concatenate([self.top @ filtered, filtered[:-n]]), step.following(self)
            is_steady = self._is_steady(P)
            if until_steady and is_steady:
                break
        return FilteredRows(np.array(scaled), np.array(predicted), covariances, mean, None if is_steady else P)

    @cached_property
    def _first_steps(self):
        """Steps of the first rows of an episode, until the covariance is steady or too many to be kept."""
        steps: list[RowStep] = []
        P = self.first
        while not self._is_steady(P) and len(steps) < TUNING.monitor_step_bytes // (24 * P.size):
            steps.append(RowStep(self, P, self.J))
            P = steps[-1].following(self)
        return steps

    def _is_steady(self, P):
        return bool(np.abs(P - self.settled).max() <= _SETTLED * np.abs(self.settled).max())


class BlockModel:
    """Steady filter of a plant that was learned in blocks, through its innovations, in sparse matrices.

    From its `matrices` A, Q and gain, (n, n), and the information J of a row's measurements. Of absent units nothing is
    learned.
    """

    def __init__(self, matrices, J, slices):
        self.slices = slices
        self.A, self.Q, self.gain = csr_array(matrices.A), csr_array(matrices.Q), csr_array(matrices.gain)
        blocks = [J[b, b] for b in slices]
        self.J, self.noise = csr_array(block_diagonal(blocks)), block_diagonal([np.linalg.inv(x) for x in blocks])
        rest = sparse_diagonal(np.ones(self.A.shape[0])) - self.gain
        self.weight = csr_array(self.J @ rest)  # (P + N)^-1
        self.carry = csr_array(self.A @ rest)
        self._push = csr_array((self.A @ self.gain).T)
        self.held = _without_small(np.linalg.inv(np.eye(len(J)) - self.carry.toarray()))

    @property
    def held_covariance(self):
        """Covariance of ``u @ held``, (n, n)."""
        return (self.held.T @ self.weight @ self.held).toarray()

    def follow(self, seen, mean=None, P=None):
        """The :class:`FilteredRows` of consecutive rows of an episode, see :meth:`PlantModel.follow`."""
        absent = ~seen.present.repeat([b.stop - b.start for b in self.slices], axis=1)
        predicted, mean = self.predicted(seen.x, np.zeros(len(seen.x[0])) if mean is None else mean, absent)
        r = np.where(absent, 0.0, seen.x - predicted)
        return FilteredRows(r @ self.weight.T, predicted, [], mean)

    def predicted(self, x, mean, absent=None):
        """Predicted states of rows, (n_rows, n), from those of the first one, and of the row after them."""
        gaps = np.zeros(len(x), dtype=bool) if absent is None else absent.any(axis=1)
        predicted, pushed = np.empty_like(x), x @ self._push
        for t in range(len(x)):
            predicted[t] = mean
            if gaps[t]:
                mean = self.A @ (mean + self.gain @ np.where(absent[t], 0.0, x[t] - mean))
            else:
                mean = self.carry @ mean + pushed[t]
        return predicted, mean

    def filtered(self, z, starts=(0,)):
        """Scaled innovations and predicted states of complete rows, (n_samples, n)."""
        x, predicted = z @ self.noise, np.empty_like(z)
        for start, stop in episodes(starts, len(z)):
            predicted[start:stop], _ = self.predicted(x[start:stop], np.zeros(z.shape[1]))
        return (x - predicted) @ self.weight.T, predicted

    def part(self, units):
        """The model of some units alone, and their states."""
        states = np.concatenate([np.arange(self.slices[m].start, self.slices[m].stop) for m in units])
        A, Q, J = (matrix[states][:, states].toarray() for matrix in (self.A, self.Q, self.J))
        return InnovationModel(A, Q, J), states


def _without_small(matrix):
    """A matrix as a sparse one of the elements that are some share of the largest of their column."""
    return csr_array(np.where(np.abs(matrix) > TUNING.monitor_least * np.abs(matrix).max(axis=0), matrix, 0.0))


# -- surprises -------------------------------------------------------------------------------------------


class MonitorState(NamedTuple):
    """Where the models stand after the last row of an episode so far.

    mean, covariance : Kalman prediction of the next states; None before the first row, and once settled
    row : the last row as measured, or the belief about it
    """

    mean: np.ndarray | None = None
    covariance: np.ndarray | None = None
    row: RowBelief | None = None


class Innovations(NamedTuple):
    """Answers of the two models to some rows.

    scaled, predicted : scaled Kalman innovations and predicted states, (n_samples, n)
    own, given_others : surprise of each unit on its own and given the others, (n_samples, n_units)
    states : as measured, zero for absent units, (n_samples, n)
    present : which units were there, (n_samples, n_units)
    errors : of the prediction from the last row, zero for absent units, (n_samples, n)
    """

    scaled: np.ndarray
    predicted: np.ndarray
    own: np.ndarray
    given_others: np.ndarray
    states: np.ndarray
    present: np.ndarray
    errors: np.ndarray


@dataclass(frozen=True)
class ByRegression:
    """Surprises of a `regression` of rows on the rows before; `usual` is the belief about a nominal row."""

    regression: Predictor
    energy: ConditionalEnergy
    usual: RowBelief

    def of(self, seen, found, state, level):
        """:class:`Surprises` of consecutive :class:`SeenRows` after a :class:`MonitorState`."""
        before, x = state.row, seen.x
        if not seen.is_usual or (before is not None and before.covariance is not None):
            shown = x, seen.patterns, seen.pattern_of
            return surprises_with_gaps(self.regression, self.energy, self.usual, *shown, before, level)
        past = np.concatenate([x[:1] if before is None else before.mean[None], x[:-1]])
        e = x - self.regression.predict(past) - level
        if before is None:
            e[0] = 0.0  # the first row of an episode has no innovation
        return Surprises(e, self.energy.own(e), self.energy.given_others(e), RowBelief(x[-1]))


@dataclass(frozen=True)
class ByFilter:
    """Surprises of the plant's own filter, by an `energy` of its errors.

    `settled` is the steady covariance of the predicted states, (n, n), None of a filter that has no other.
    """

    energy: Any
    settled: np.ndarray | None = None

    def of(self, seen, found, state, level):
        """:class:`Surprises` of :class:`SeenRows`, which the filter `found` to be so, see ByRegression."""
        e = seen.x - found.predicted - level
        if state.mean is None:
            e[0] = 0.0  # the first row of an episode has no innovation
        there = seen.present.repeat([b.stop - b.start for b in seen.sensors.slices], axis=1)
        e = np.where(there, e, 0.0)
        own, given = self.energy.own(e), self.energy.given_others(e)
        judges: dict[tuple, tuple] = {}
        for t, (P, k) in enumerate(zip(found.covariances, seen.pattern_of.tolist(), strict=False)):
            if P is None and (seen.is_usual or seen.patterns[k].is_nominal):
                continue
            pattern = seen.patterns[k]
            if (id(P), k) not in judges:
                judges[id(P), k] = self._judge(P, pattern)
            judge, columns = judges[id(P), k]
            own[t] = given[t] = 0.0
            if judge is not None:
                known = e[t : t + 1, columns]
                own[t, pattern.seen], given[t, pattern.seen] = judge.own(known)[0], judge.given_others(known)[0]
        return Surprises(e, own, given)

    def _judge(self, P, pattern):
        """Energy of the units that a pattern shows, and their states, where the predicted covariance is P, (n, n)."""
        if not pattern.seen.any():
            return None, None
        covariance = self.energy.covariance + pattern.extra
        if P is not None:
            covariance = covariance + P - self.settled
        return self.energy.with_covariance(covariance).without(~pattern.seen)


class PlantMonitor:
    """Innovations of a record under the learned plant.

    `model` filters the rows that the `sensors` show, with every sensor there; `surprises` judges what they say beyond
    the prediction.
    """

    def __init__(self, model, sensors, surprises):
        self.model, self.sensors, self.surprises = model, sensors, surprises
        self.energy = surprises.energy

    def rows(self, record, off_subspace, state, level=0.0):
        """Innovations of consecutive rows of one episode, and the state after them.

        Errors of prediction are those beyond `level`, (n,), their mean at the present operating point.
        """
        seen = self.sensors.seen(record)
        rows = self.model.follow(seen, state.mean, state.covariance)
        found = self.surprises.of(seen, rows, state, level)
        off_subspace = np.where(seen.present, off_subspace, 0.0)
        judged = {"own": found.own + off_subspace, "given_others": found.given + off_subspace, "errors": found.errors}
        innovations = Innovations(rows.scaled, rows.predicted, states=seen.x, present=seen.present, **judged)
        return innovations, MonitorState(rows.mean, rows.covariance, found.row)
