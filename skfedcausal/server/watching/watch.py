"""The server's view of a watched plant: innovations of the joint model, step by step, from the messages.

Two models of the same states run side by side. The Kalman filter of the learned plant gives the scaled
innovations that the coherent shift statistic needs; a ridge regression of all units' states on their last
values gives the surprises of the energy statistic. Both go on exactly where the last rows left them, so a
stream in pieces gives what one call on the whole gives.
"""

from dataclasses import dataclass

import numpy as np
from sklearn.base import clone

from ...statespace.detection.energy import (
    ConditionalEnergy,
    LinearMap,
    ScaledMap,
    held_out_errors,
    held_out_innovations,
    ridge_transition,
)
from ...statespace.detection.energy_gaps import RowBelief, RowPattern, surprises_with_gaps
from ...statespace.kalman import covariance_rows, predicted_means
from ...statespace.matrices import floor_eigenvalues
from ...statespace.observation import is_regular
from ...statespace.recurrence import Recurrence

_SETTLED = 1e-10


@dataclass(frozen=True)
class WatchState:
    """Where the filters stand after the last row of an episode so far.

    Attributes
    ----------
    mean : ndarray of shape (n,) or None
        Kalman prediction of the next states; None before the first row.
    covariance : ndarray of shape (n, n) or None
        Of that prediction; None once settled.
    row : RowBelief or None
        States of the last row as measured, or what is known of them.
    """

    mean: np.ndarray | None = None
    covariance: np.ndarray | None = None
    row: RowBelief | None = None


@dataclass(frozen=True)
class Innovations:
    """What the two models make of some rows.

    Attributes
    ----------
    scaled, predicted : ndarray of shape (n_samples, n)
        Scaled Kalman innovations u and predicted states.
    own : ndarray of shape (n_samples, n_units)
        Surprise a of each unit by its own innovation and off-subspace number.
    given_others : ndarray of shape (n_samples, n_units)
        Surprise q given the other units' innovations of the same step.
    states : ndarray of shape (n_samples, n)
        As measured, zero for absent units.
    present : ndarray of bool, shape (n_samples, n_units) or None
        Which units were there; None for all of them.
    """

    scaled: np.ndarray
    predicted: np.ndarray
    own: np.ndarray
    given_others: np.ndarray
    states: np.ndarray
    present: np.ndarray | None = None


class PlantWatch:
    """Innovations of a record under the learned plant.

    Parameters
    ----------
    model : InnovationModel
        The learned plant with every sensor there.
    regression : LinearMap or object with ``predict``
        Predicts the states of a row from those of the last.
    energy : ConditionalEnergy
    usual : RowBelief
        States of a nominal row nothing is known of.
    slices : tuple of slice
        States of each unit.
    """

    def __init__(self, model, regression, energy, usual, slices):
        self.model, self.regression, self.energy, self.slices = model, regression, energy, slices
        self.usual = usual
        self._noise = np.linalg.pinv(model.J, hermitian=True)
        self._blocks = [model.J[b, b] for b in slices]
        settled = model.schedule.filtered[-1]
        self._filter = Recurrence(model.A - settled @ model.J @ model.A)
        before = model.schedule.predicted[:-1]
        self._early_scaling = np.linalg.inv(np.eye(len(model.A)) + model.J @ before)
        self._early_gain = model.A @ model.schedule.filtered[:-1]
        self._early_step = model.A - self._early_gain @ model.J

    def rows(self, record, off_subspace, state):
        """Innovations of consecutive rows of one episode.

        Parameters
        ----------
        record : JointRecord
            One episode or a part of one.
        off_subspace : ndarray of shape (n_samples, n_units)
        state : WatchState

        Returns
        -------
        Innovations
        WatchState
        """
        nominal = self._is_nominal(record)
        scaled, predicted, mean, covariance = self._kalman(record, nominal, state)
        if nominal and (state.row is None or state.row.covariance is None):
            x = record.z @ self._noise
            e = self._regression_innovations(x, state.row)
            own, given = self.energy.own(e) + off_subspace, self.energy.given_others(e) + off_subspace
            found, row = Innovations(scaled, predicted, own, given, x), RowBelief(x[-1])
        else:
            found, row = self._surprises(record, off_subspace, scaled, predicted, state.row)
        return found, WatchState(mean, covariance, row)

    def _is_nominal(self, record):
        """Whether every sensor is there in every row, with its nominal noise."""
        return record.is_constant and all(
            _same(part.patterns[0], J) for part, J in zip(record.parts, self._blocks, strict=True)
        )

    def _kalman(self, record, nominal, state):
        """Scaled innovations, predicted states, and mean and covariance of the states after the last row."""
        z, model = record.z, self.model
        fresh = state.mean is None
        if nominal and state.covariance is None:
            return self._first_rows(z) if fresh else self._settled_rows(z, state.mean)
        n = len(model.A)
        mean = np.zeros(n) if fresh else state.mean
        P = state.covariance
        if P is None:
            P = model.schedule.predicted[0] if fresh else model.schedule.predicted[-1]
        J = record.matrices()
        covariances, P = covariance_rows(model.A, model.Q, J, P)
        means, mean = predicted_means(covariances, z[:, :, None], mean[:, None])
        predicted, mean = means[:, :, 0], mean[:, 0]
        r = z - np.einsum("tij,tj->ti", J, predicted)
        scaled = np.linalg.solve(np.eye(n) + J @ covariances.predicted, r[:, :, None])[:, :, 0]
        settled = model.schedule.predicted[-1]
        near = np.abs(P - settled).max() <= _SETTLED * np.abs(settled).max()
        return scaled, predicted, mean, None if near else P

    def _first_rows(self, z):
        """The first rows of an episode, with the covariances of its start until they settle."""
        head = min(len(z), self.model.schedule.n_transient)
        scaled, predicted = np.empty_like(z), np.empty_like(z)
        mean, push = np.zeros(z.shape[1]), (self._early_gain[:head] @ z[:head, :, None])[:, :, 0]
        for t in range(head):
            predicted[t] = mean
            mean = self._early_step[t] @ mean + push[t]
        r = z[:head] - predicted[:head] @ self.model.J
        scaled[:head] = (self._early_scaling[:head] @ r[:, :, None])[:, :, 0]
        if head == len(z):
            schedule = self.model.schedule
            P = schedule.at(head)[0] if head < schedule.n_transient else None
            return scaled, predicted, mean, P
        scaled[head:], predicted[head:], mean, P = self._settled_rows(z[head:], mean)
        return scaled, predicted, mean, P

    def _settled_rows(self, z, mean):
        model = self.model
        gain = model.schedule.filtered[-1]
        first = mean + gain @ (z[0] - model.J @ mean)
        filtered = np.empty_like(z)
        filtered[0] = first
        if len(z) > 1:
            self._filter.run((z[1:], gain), x0=first, out=filtered[1:])
        predicted = np.empty_like(z)
        predicted[0] = mean
        np.dot(filtered[:-1], model.A.T, out=predicted[1:])
        return model.scaled(z, predicted), predicted, model.A @ filtered[-1], None

    def _regression_innovations(self, x, last):
        """Innovations of complete rows; the first row of an episode has none."""
        before = np.concatenate([x[:1] if last is None else last.mean[None], x[:-1]])
        e = x - self.regression.predict(before)
        if last is None:
            e[0] = 0.0
        return e

    def _surprises(self, record, off_subspace, scaled, predicted, row):
        """Energy side of rows in which sensors are missing or noisier than nominally."""
        x, present, pattern_of = self._states(record)
        patterns, index = np.unique(pattern_of, axis=0, return_inverse=True)
        own, given, belief = surprises_with_gaps(
            self.regression,
            self.energy,
            self.usual,
            x,
            [self._row_pattern(record, pattern) for pattern in patterns],
            index.reshape(-1),
            row,
        )
        here = np.where(present, off_subspace, 0.0)
        return Innovations(scaled, predicted, own + here, given + here, x, present), belief

    def _row_pattern(self, record, pattern):
        """What rows show in which every unit is in a given pattern of its message, -1 for an absent unit.

        Where the nominal information is an average over patterns some rows have more; they are judged by
        the average, because innovations were never seen without its noise.
        """
        extra = np.zeros_like(self._noise)
        for part, b, J, k in zip(record.parts, self.slices, self._blocks, pattern, strict=True):
            if k >= 0 and not _same(part.patterns[k], J):
                extra[b, b] = floor_eigenvalues(np.linalg.inv(part.patterns[k]) - self._noise[b, b], 0.0)
        return RowPattern(pattern >= 0, extra)

    def _states(self, record):
        """States as measured, which units determine theirs, and which pattern each unit is in."""
        x = np.zeros_like(record.z)
        present = np.empty((len(x), len(record.parts)), dtype=bool)
        pattern = np.empty((len(x), len(record.parts)), dtype=np.intp)
        for m, (part, b, nominal) in enumerate(zip(record.parts, self.slices, self._blocks, strict=True)):
            index = part.pattern_of
            regular = np.array([is_regular(J) and _informative(J, nominal) for J in part.patterns])
            inverse = np.zeros_like(part.patterns)
            inverse[regular] = np.linalg.inv(part.patterns[regular])
            x[:, b] = np.einsum("tij,tj->ti", inverse[index], part.z)
            present[:, m], pattern[:, m] = regular[index], np.where(regular[index], index, -1)
        return x, present, pattern


def _same(J, nominal):
    """Whether an information matrix is the nominal one, rounding aside."""
    return bool((nominal == J).all() or np.abs(J - nominal).max() <= 1e-9 * np.abs(nominal).max())


def _informative(J, nominal, least=1e-3):
    """Whether measurements say a fair share of what they nominally do about every state."""
    root = np.linalg.cholesky(np.linalg.pinv(nominal, hermitian=True) + 1e-12 * np.eye(len(J)))
    return bool(np.linalg.eigvalsh(root.T @ J @ root)[0] > least)


def learn_watch(model, x, off_subspace, folds, slices, regressor=None, floor=0.01):
    """Watch of a plant whose regression is learned from nominal states.

    Parameters
    ----------
    model : InnovationModel
    x : ndarray of shape (n_samples, n)
        States as measured, gaps filled.
    off_subspace : ndarray of shape (n_samples, n_units)
    folds : sequence of tuple (start, stop)
        Stretches that are held out in turn.
    slices : tuple of slice
    regressor : scikit-learn regressor, default=None
        Predicts all states from the last ones; None for ridge regression.
    floor : float
        Share of each state's variance added to the innovation covariance.

    Returns
    -------
    watch : PlantWatch
    own, given : list of ndarray of shape (n_rows, n_units)
        Held-out surprises of every fold without its first row.
    """
    mean, scale = x.mean(axis=0), x.std(axis=0)
    inside = (x - mean) / scale
    past = np.concatenate([inside[start : stop - 1] for start, stop in folds])
    present = np.concatenate([inside[start + 1 : stop] for start, stop in folds])
    if regressor is None:
        innovations, penalty = held_out_innovations(inside, folds)
        B = scale[:, None] ** -1 * ridge_transition(past, present, penalty) * scale
        learned = LinearMap(B, mean - mean @ B)
    else:
        innovations = held_out_errors(inside, folds, lambda a, b: clone(regressor).fit(a, b))
        learned = ScaledMap(clone(regressor).fit(past, present), mean, scale)
    innovations = [e * scale for e in innovations]
    e = np.concatenate(innovations)
    energy = ConditionalEnergy(e.T @ e / len(e) + floor * np.diag(scale**2), slices)
    rest = [off_subspace[start + 1 : stop] for start, stop in folds]
    own = [energy.own(e) + g for e, g in zip(innovations, rest, strict=True)]
    given = [energy.given_others(e) + g for e, g in zip(innovations, rest, strict=True)]
    usual = RowBelief(mean, np.cov(x.T, bias=True).reshape(len(mean), -1))
    return PlantWatch(model, learned, energy, usual, slices), own, given
