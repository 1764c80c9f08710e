"""Rows of evidence: how much every unit surprises two models of the plant, step by step, from the messages.

Two models of the same states run side by side. The Kalman filter of the learned plant gives the scaled
innovations that the coherent shift statistic needs; a ridge regression of all units' states on their last
values gives the surprises of the energy statistic. Both go on exactly where the last rows left them, so a
stream in pieces gives what one call on the whole gives.
"""

import math
from dataclasses import dataclass
from operator import is_
from typing import NamedTuple

import numpy as np
from sklearn.base import clone

from ...statespace.detection.energy import (
    ConditionalEnergy,
    LinearMap,
    Predictor,
    RowBelief,
    RowPattern,
    ScaledMap,
    held_out_errors,
    held_out_innovations,
    ridge_transition,
    surprises_with_gaps,
)
from ...statespace.kalman import Recurrence, covariance_rows, predicted_means
from ...statespace.matrices import floor_eigenvalues
from ...statespace.observation import is_regular

_SETTLED = 1e-10
FLOOR = 0.01  # share of each state's variance added to the innovation covariance
_LEAST_INFORMATION = 1e-3  # share of the nominal one from which on a unit counts as there
_BEFORE, _AFTER = 2, 10  # rows around the alarm in which a jump may begin
_MARGIN = math.log(2)  # beyond the largest nominal surprise, and beyond all other units
_ROOT = 0.98  # share of jumps that begin in the root
_SHARED = 0.15  # of the innovations, from which on a fault may reach other units within a row


class Evidence(NamedTuple):
    """Consecutive rows of an episode as incidents are judged by them.

    first : position of the first row
    scaled, predicted : scaled Kalman innovations and predicted states, (n_rows, n)
    surprise : log surprise of each unit on its own over its nominal mean, (n_rows, n_units), like the rest
    given_others : log surprise given the other units' innovations of the same step
    surplus : surprise of the states given the other units, over its nominal mean
    outside : off-subspace numbers over their expectation from the states
    absent : whether the unit is absent
    levels : alarm levels by statistic, (n_rows, n_statistics, n_units)
    events : what the units notice of their own columns, see :mod:`.noticed`
    errors : of the prediction from the last row, beyond those of the operating point, (n_rows, n)
    distance : off-subspace numbers
    unknown : whether inputs are where the plant is not known, (n_rows,), 2 where it has to be learned
    mode : place of the mode that inputs tell, (n_rows,), -1 for none
    beyond : how far inputs are beyond their ranges in the nominal record, (n_rows,)
    """

    first: int
    scaled: np.ndarray
    predicted: np.ndarray
    surprise: np.ndarray
    given_others: np.ndarray
    surplus: np.ndarray
    outside: np.ndarray
    absent: np.ndarray
    levels: np.ndarray
    events: np.ndarray
    errors: np.ndarray
    distance: np.ndarray
    unknown: np.ndarray
    mode: np.ndarray
    beyond: np.ndarray

    @property
    def stop(self):
        """Position after the last row."""
        return self.first + len(self.scaled)

    def between(self, start, stop):
        """The rows of these positions."""
        rows = slice(start - self.first, stop - self.first)
        return Evidence(start, *(series[rows] for series in self[1:]))

    def followed_by(self, *later):
        """These rows and later ones together."""
        parts = [part[1:] for part in (self, *later)]
        return Evidence(self.first, *map(np.concatenate, zip(*parts, strict=True)))


# -- models of the plant ---------------------------------------------------------------------------------


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


class PlantMonitor:
    """Innovations of a record under the learned plant.

    `model` is the InnovationModel with every sensor there, `regression` predicts the states of a row from
    those of the last, `energy` judges its errors, `usual` is the belief about a nominal row, `slices` are the
    states of each unit.
    """

    _seen: tuple[np.ndarray, ...] = ()  # information matrices that were found nominal last

    def __init__(self, model, regression: Predictor, energy: ConditionalEnergy, usual: RowBelief, slices):
        self.model, self.regression, self.energy, self.usual, self.slices = model, regression, energy, usual, slices
        self._noise = np.linalg.pinv(model.J, hermitian=True)
        self._blocks = [model.J[b, b] for b in slices]
        settled = model.schedule.filtered[-1]
        self._filter = Recurrence(model.A - settled @ model.J @ model.A)
        before = model.schedule.predicted[:-1]
        self._early_scaling = np.linalg.inv(np.eye(len(model.A)) + model.J @ before)
        self._early_gain = model.A @ model.schedule.filtered[:-1]
        self._early_step = model.A - self._early_gain @ model.J

    @classmethod
    def learn(cls, model, rows, slices, regressor=None):
        """Monitor whose regression is learned from nominal rows, and their held-out surprises own and given.

        By fold, (n_rows, n_units), without the first row of each; `regressor` None stands for ridge regression.
        """
        mean, scale = rows.x.mean(axis=0), rows.x.std(axis=0)
        inside = (rows.x - mean) / scale
        past = np.concatenate([inside[start : stop - 1] for start, stop in rows.folds])
        present = np.concatenate(rows.held_out(inside))
        learned: Predictor
        if regressor is None:
            errors, penalty = held_out_innovations(inside, rows.folds)
            B = scale[:, None] ** -1 * ridge_transition(past, present, penalty) * scale
            learned = LinearMap(B, mean - mean @ B)
        else:
            errors = held_out_errors(inside, rows.folds, lambda a, b: clone(regressor).fit(a, b))
            learned = ScaledMap(clone(regressor).fit(past, present), mean, scale)
        innovations = [e * scale for e in errors]
        e = np.concatenate(innovations)
        energy = ConditionalEnergy(e.T @ e / len(e) + FLOOR * np.diag(scale**2), slices)
        pairs = list(zip(innovations, rows.held_out(rows.distance), strict=True))
        own, given = ([judged(e) + g for e, g in pairs] for judged in (energy.own, energy.given_others))
        usual = RowBelief(mean, np.cov(rows.x.T, bias=True).reshape(len(mean), -1))
        return cls(model, learned, energy, usual, slices), own, given

    def rows(self, record, off_subspace, state, level=0.0):
        """Innovations of consecutive rows of one episode, and the state after them.

        Errors of prediction are those beyond `level`, (n,), their mean at the present operating point.
        """
        nominal = self.is_nominal(record)
        scaled, predicted, mean, covariance = self._kalman(record, nominal, state)
        if nominal and (state.row is None or state.row.covariance is None):
            x, present = record.z @ self._noise, np.ones(off_subspace.shape, dtype=bool)
            before = x[:1] if state.row is None else state.row.mean[None]
            e = x - self.regression.predict(np.concatenate([before, x[:-1]])) - level
            if state.row is None:
                e[0] = 0.0  # the first row of an episode has no innovation
            own, given, row = self.energy.own(e), self.energy.given_others(e), RowBelief(x[-1])
        else:
            x, present, e, own, given, row = self._surprises(record, state.row, level)
            off_subspace = np.where(present, off_subspace, 0.0)
        found = Innovations(scaled, predicted, own + off_subspace, given + off_subspace, x, present, e)
        return found, MonitorState(mean, covariance, row)

    def is_nominal(self, record):
        """Whether every row is measured as nominal ones are."""
        if not record.is_constant:
            return False
        came = tuple(part.patterns for part in record.parts)
        if len(came) == len(self._seen) and all(map(is_, came, self._seen)):  # read-only, of rows one by one
            return True
        same = all(_same(patterns[0], J) for patterns, J in zip(came, self._blocks, strict=True))
        if same and not any(patterns.flags.writeable for patterns in came):
            self._seen = came
        return same

    def _kalman(self, record, nominal, state):
        """Scaled innovations, predicted states, and mean and covariance of the states after the last row."""
        z, model = record.z, self.model
        fresh = state.mean is None
        if nominal and state.covariance is None:
            return self._first_rows(z) if fresh else self._settled_rows(z, state.mean)
        n, J, settled = len(model.A), record.matrices(), model.schedule.predicted[-1]
        mean, P = (np.zeros(n), model.schedule.predicted[0]) if fresh else (state.mean, state.covariance)
        if P is None:
            P = settled
        covariances, P = covariance_rows(model.A, model.Q, J, P)
        means, mean = predicted_means(covariances, z[:, :, None], mean[:, None])
        predicted, mean = means[:, :, 0], mean[:, 0]
        r = z - np.einsum("tij,tj->ti", J, predicted)
        scaled = r - (J @ (covariances.filtered @ r[:, :, None]))[:, :, 0]  # (I + J P)^-1 r
        near = np.abs(P - settled).max() <= _SETTLED * np.abs(settled).max()
        return scaled, predicted, mean, None if near else P

    def _first_rows(self, z):
        """The first rows of an episode, with the covariances of its start until they settle."""
        schedule, scaled, predicted = self.model.schedule, np.empty_like(z), np.empty_like(z)
        head = min(len(z), schedule.n_transient)
        mean, push = np.zeros(z.shape[1]), (self._early_gain[:head] @ z[:head, :, None])[:, :, 0]
        for t in range(head):
            predicted[t] = mean
            mean = self._early_step[t] @ mean + push[t]
        r = z[:head] - predicted[:head] @ self.model.J
        scaled[:head] = (self._early_scaling[:head] @ r[:, :, None])[:, :, 0]
        P = schedule.at(head)[0] if head < schedule.n_transient else None
        if head < len(z):
            scaled[head:], predicted[head:], mean, P = self._settled_rows(z[head:], mean)
        return scaled, predicted, mean, P

    def _settled_rows(self, z, mean):
        model = self.model
        gain = model.schedule.filtered[-1]
        filtered, predicted = np.empty_like(z), np.empty_like(z)
        filtered[0], predicted[0] = mean + gain @ (z[0] - model.J @ mean), mean
        if len(z) > 1:
            self._filter.run((z[1:], gain), x0=filtered[0], out=filtered[1:])
            np.dot(filtered[:-1], model.A.T, out=predicted[1:])
        return model.scaled(z, predicted), predicted, model.A @ filtered[-1], None

    def _surprises(self, record, row, level):
        """States, which units determine theirs, errors, both surprises and the last row's belief, of rows with gaps."""
        x, present, patterns, pattern_of = self.measured(record)
        e, own, given, belief = surprises_with_gaps(
            self.regression, self.energy, self.usual, x, patterns, pattern_of, row, level
        )
        return x, present, e, own, given, belief

    def measured(self, record):
        """States as measured, zero for absent units, which units are there, and the patterns of rows with gaps."""
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
        pattern_of = np.column_stack(patterns_of)
        keys, index = np.unique(pattern_of, axis=0, return_inverse=True)
        patterns = [self._row_pattern(record, key) for key in keys]
        return x, pattern_of >= 0, patterns, index.reshape(-1)

    def _row_pattern(self, record, key):
        """Pattern of rows from the pattern of each unit's message, -1 for an absent unit.

        Rows with more than the average nominal information are judged by the average.
        """
        extra = np.zeros_like(self._noise)
        for part, b, J, k in zip(record.parts, self.slices, self._blocks, key, strict=True):
            if k >= 0 and not _same(part.patterns[k], J):
                extra[b, b] = floor_eigenvalues(np.linalg.inv(part.patterns[k]) - self._noise[b, b], 0.0)
        return RowPattern(key >= 0, extra)


def _same(J, nominal):
    """Whether an information matrix is the nominal one, rounding aside."""
    return bool((nominal == J).all() or np.abs(J - nominal).max() <= 1e-9 * np.abs(nominal).max())


def _informative(J, nominal):
    """Whether measurements say a fair share of their nominal information about every state."""
    root = np.linalg.cholesky(np.linalg.pinv(nominal, hermitian=True) + 1e-12 * np.eye(len(J)))
    return bool(np.linalg.eigvalsh(root.T @ J @ root)[0] > _LEAST_INFORMATION)


# -- onset rule ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OnsetRule:
    """Faults that begin with a jump: one unit is surprised beyond the nominal range before any other is.

    Nothing spreads faster than in one step, while the states a large fault drives the plant to surprise
    everywhere: the row in which a jump begins says more of its root than all that follow. Faults that grow are
    left to the windows, and so are jumps in several units at once where units share much of their innovations.

    largest : largest nominal log surprise of each unit given the others in one row, (n_units,)
    prior : prior probability of each unit being the root, (n_units,)
    alone : whether a jump is one only if no other unit passes its limit in the same row
    """

    largest: np.ndarray
    prior: np.ndarray
    alone: bool

    @classmethod
    def learn(cls, given, usual, prior, shared):
        """From nominal surprises given the other units, by segment, their mean, and shared innovations."""
        largest = np.max([part.max(axis=0) for part in given], axis=0)
        return cls(np.log1p(largest / usual), prior, bool(np.mean(shared) > _SHARED))

    def revised(self, answer, rows, detected):
        """The answer to an incident given the jump that it may begin with, from the rows around its alarm."""
        rows = rows.between(max(detected - _BEFORE, rows.first), min(detected + _AFTER, rows.stop))
        found = self._jump(rows.given_others)
        if found is None or self.prior[found[1]] == 0.0:
            return answer
        row, unit = found
        here, others = _ROOT * self.prior[unit], (1 - _ROOT) * (1 - self.prior[unit])
        share = here / (here + others / max(len(self.prior) - 1, 1))
        probability = (1 - share) * answer.probability
        probability[unit] += share
        return answer._replace(probability=probability, start=min(rows.first + row, detected))

    def _jump(self, surprise):
        """Row and unit of the jump in some rows, None if the first to pass its limits did not jump."""
        beyond = surprise - self.largest
        rows = np.flatnonzero((beyond > 0).any(axis=1))
        if not len(rows):
            return None
        there = beyond[rows[0]]
        unit = int(there.argmax())
        others = np.delete(there, unit).max(initial=0.0)
        jumped = there[unit] >= others + _MARGIN and not (self.alone and others > 0)
        return (int(rows[0]), unit) if jumped else None
