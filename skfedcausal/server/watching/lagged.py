"""Watching by a plant of several lags: its innovations, what a fault makes of them, and plants that are held out.

A fault that stays moves later innovations through all lags, and a plant of one lag takes what arrives late for
further faults. The filter runs on the states with their lags beside them; what it says is about the newest.
"""

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from sklearn.base import clone

from ...message.states import StateMessage
from ...statespace.detection.energy import ConditionalEnergy
from ...statespace.detection.shift import InnovationModel
from ...statespace.episodes import episodes
from ...statespace.kalman import Recurrence
from ...statespace.riccati import predicted_covariance, stationary_covariance
from ..dynamics import Plant
from ..lagged.gaps import RowFilter, RowStep
from .evidence import FLOOR, Innovations, MonitorState, PlantMonitor

_SETTLED = 1e-10  # relative change of the predicted covariance from which on it is the steady one
_LEAST_WORK = 0.04  # share of the work of a fit that a plant without a part of the record may take in any case


def dynamics_of(plant):
    """Dynamics of a plant without inputs."""
    A = plant.lag_transitions_
    return Plant(A, np.zeros((2, A.shape[1], 0)), plant.process_cov_)


class FilteredRows(NamedTuple):
    """Scaled innovations and predicted states of rows, (n_rows, n), and covariances of these, None once steady.

    With mean and covariance of the states and their lags after the last row.
    """

    scaled: np.ndarray
    predicted: np.ndarray
    covariances: list
    mean: np.ndarray
    covariance: np.ndarray | None


@dataclass(frozen=True)
class LaggedModel(InnovationModel):
    """Steady Kalman filter of a plant of several lags seen through its innovations.

    A is the transition matrix of the first lag, `dynamics` has all.
    """

    dynamics: Plant

    def __getstate__(self):
        """Without what is computed again when it is asked for, which is large."""
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @classmethod
    def of(cls, dynamics, J):
        """From the dynamics and the information of a row's measurements."""
        return cls(dynamics.A[0], dynamics.Q, J, dynamics)

    @cached_property
    def settled(self):
        """Covariance of the predicted states and their lags, (n p, n p)."""
        dynamics = self.dynamics
        return predicted_covariance(dynamics.transition, dynamics.padded_matrix(self.J), dynamics.process_cov)

    @cached_property
    def _steady(self):
        return RowStep(self.dynamics, self.settled, self.J)

    @cached_property
    def scaling(self):
        """``(I + J P)^-1`` of the newest states."""
        n = len(self.J)
        return np.linalg.inv(np.eye(n) + self.J @ self.settled[:n, :n])

    @cached_property
    def gain(self):
        """Takes measured states into the next prediction, (n p, n)."""
        return self.dynamics.transition @ self._steady.gain @ self.J

    @cached_property
    def carry(self):
        """Takes a prediction error of states and lags to the next step, (n p, n p)."""
        carry = self.dynamics.transition.copy()
        carry[:, : len(self.J)] -= self.gain
        return carry

    @cached_property
    def held(self):
        """Shift of the mean innovation, once settled, per unit of a fault that stays, (n, n)."""
        n = len(self.J)
        return np.linalg.solve(np.eye(len(self.carry)) - self.carry, np.eye(len(self.carry), n))[:n]

    def smoothing_scores(self, u):
        """``r_t = u_t + F' r_(t+1)`` of states and lags, shape (..., n_samples, n p)."""
        padded = np.zeros((*u.shape[:-1], len(self.carry)))
        padded[..., : u.shape[-1]] = u
        return super().smoothing_scores(padded)

    @cached_property
    def _recurrence(self):
        dynamics, n = self.dynamics, len(self.J)
        step = dynamics.transition - self._steady.gain @ self.J @ dynamics.transition[:n]
        return Recurrence(step)

    def filtered(self, z, **settings):
        """Scaled innovations and predicted states of complete rows, (n_samples, n), of episodes from `starts` on."""
        found = [self.follow(z[start:stop]) for start, stop in episodes(settings.get("starts", (0,)), len(z))]
        return np.concatenate([f.scaled for f in found]), np.concatenate([f.predicted for f in found])

    def follow(self, z, J=None, mean=None, P=None):
        """The :class:`FilteredRows` of consecutive rows of an episode, with information matrices J (n_rows, n, n).

        None for J stands for the usual ones, None for the mean for the first row of an episode, and None for P
        for the steady covariance.
        """
        if mean is None:
            mean = np.zeros(len(self.carry))
            P = stationary_covariance(self.dynamics.transition, self.dynamics.process_cov)
        if J is None:
            return self._usual_rows(z, mean, P)
        P = self.settled if P is None else P
        scaled, predicted, covariances, mean, P = self._rows(z, J, mean, P, len(z))
        return FilteredRows(scaled, predicted, covariances, mean, None if self._is_settled(P) else P)

    def _usual_rows(self, z, mean, P):
        """Row by row until the covariance is steady, all others at once."""
        n, head = len(self.J), 0
        scaled, predicted, covariances = np.empty_like(z), np.empty_like(z), [None] * len(z)
        while head < len(z) and P is not None:
            piece = slice(head, head + 1)
            scaled[piece], predicted[piece], covariances[piece], mean, P = self._rows(z[piece], [self.J], mean, P, 1)
            P, head = None if self._is_settled(P) else P, head + 1
        if head < len(z):
            gain = self._steady.gain
            filtered = np.empty((len(z) - head, len(mean)))
            filtered[0], predicted[head] = mean + gain @ (z[head] - self.J @ mean[:n]), mean[:n]
            self._recurrence.run((z[head + 1 :], gain), x0=filtered[0], out=filtered[1:])
            np.dot(filtered[:-1], self.dynamics.top.T, out=predicted[head + 1 :])
            scaled[head:] = self.scaled(z[head:], predicted[head:])
            mean = self.dynamics.transition @ filtered[-1]
        return FilteredRows(scaled, predicted, covariances, mean, P)

    def _rows(self, z, J, mean, P, n_rows):
        n, run = len(self.J), RowFilter(self.dynamics, mean, P)
        scaled, predicted, covariances = np.empty((n_rows, n)), np.empty((n_rows, n)), []
        for t in range(n_rows):
            predicted[t] = run.mean[:n]
            step, residual, _ = run.row(z[t], J[t])
            scaled[t] = np.linalg.solve(np.eye(n) + J[t] @ step.own, residual)
            covariances.append(step.own)
        return scaled, predicted, covariances, run.mean, run.P

    def _is_settled(self, P):
        return bool(np.abs(P - self.settled).max() <= _SETTLED * np.abs(self.settled).max())


class LaggedMonitor(PlantMonitor):
    """Innovations of a record under a plant of several lags, whose filter serves both statistics."""

    def __init__(self, model, energy, slices):
        self.model, self.energy, self.slices = model, energy, slices
        self._noise = np.linalg.pinv(model.J, hermitian=True)
        self._blocks = [model.J[b, b] for b in slices]

    @classmethod
    def learned(cls, model, rows, slices, held_out):
        """Monitor with the covariance of innovations that were held out, and their surprises own and given.

        By fold, (n_rows, n_units), without the first row of each.
        """
        errors = [fold.errors for fold in held_out]
        e = np.concatenate(errors)
        energy = ConditionalEnergy(e.T @ e / len(e) + FLOOR * np.diag(rows.x.var(axis=0)), slices)
        pairs = list(zip(errors, rows.held_out(rows.distance), strict=True))
        own, given = ([judged(e) + g for e, g in pairs] for judged in (energy.own, energy.given_others))
        return cls(model, energy, slices), own, given

    def rows(self, record, off_subspace, state, level=0.0):
        """Innovations of consecutive rows of one episode, and the state after them, see :class:`PlantMonitor`."""
        if self.is_nominal(record):
            x, J, patterns = record.z @ self._noise, None, None
            present, pattern_of = np.ones(off_subspace.shape, dtype=bool), np.zeros(len(x), dtype=int)
        else:
            x, present, patterns, pattern_of = self.measured(record)
            J = record.matrices()
        found = self.model.follow(record.z, J, state.mean, state.covariance)
        e = x - found.predicted - level
        own, given = self._surprises_of(e, found.covariances, patterns, pattern_of)
        if state.mean is None:
            own[0] = given[0] = e[0] = 0.0  # the first row of an episode has no innovation
        e = np.where(present.repeat([b.stop - b.start for b in self.slices], axis=1), e, 0.0)
        off_subspace = np.where(present, off_subspace, 0.0)
        rows = Innovations(found.scaled, found.predicted, own + off_subspace, given + off_subspace, x, present, e)
        return rows, MonitorState(found.mean, found.covariance)

    def _surprises_of(self, e, covariances, patterns, pattern_of):
        """Surprises own and given of errors of prediction, by what is known of every row."""
        own, given = self.energy.own(e), self.energy.given_others(e)
        n, judges = e.shape[1], {}
        for t, (P, k) in enumerate(zip(covariances, pattern_of.tolist(), strict=True)):
            pattern = None if patterns is None else patterns[k]
            if P is None and (pattern is None or pattern.is_nominal):
                continue
            if (id(P), k) not in judges:
                judges[id(P), k] = self._judge(P, pattern, n)
            judged, columns, seen = judges[id(P), k]
            own[t] = given[t] = 0.0
            if judged is not None:
                own[t, seen] = judged.own(e[t : t + 1, columns])[0]
                given[t, seen] = judged.given_others(e[t : t + 1, columns])[0]
        return own, given

    def _judge(self, P, pattern, n):
        covariance = self.energy.covariance
        if P is not None:
            covariance = covariance + P - self.model.settled[:n, :n]
        if pattern is None:
            return self.energy.with_covariance(covariance), np.arange(n), np.ones(len(self.slices), dtype=bool)
        if not pattern.seen.any():
            return None, None, pattern.seen
        judged, columns = self.energy.with_covariance(covariance + pattern.extra).without(~pattern.seen)
        return judged, columns, pattern.seen


# -- plants that are held out ----------------------------------------------------------------------------


class HeldOut(NamedTuple):
    """A plant learned without a fold, the fold's scaled innovations and errors without its first row."""

    model: LaggedModel
    scaled: np.ndarray
    errors: np.ndarray


def held_out_plants(plant, rows, slices):
    """Each fold under the plant that its server learns from all others."""
    max_time = max(plant.work_left / len(rows.folds), _LEAST_WORK * plant.max_time)
    for k, (start, stop) in enumerate(rows.folds):
        parts = [rows.x[i:j] for m, (i, j) in enumerate(rows.folds) if m != k]
        lengths = tuple(len(part) for part in parts)
        series = np.concatenate(parts)
        level = series.mean(axis=0)
        z = (series - level) @ rows.J
        messages = {
            name: StateMessage(np.ascontiguousarray(z[:, b]), rows.J[b, b][None], None, lengths)
            for name, b in zip(plant.names_, slices, strict=True)
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # said of the whole record already
            learned = clone(plant).set_params(held_out=None, max_time=max_time).fit(messages)
        model = LaggedModel.of(dynamics_of(learned), rows.J)
        fold = rows.x[start:stop] - level
        scaled, predicted = model.filtered(fold @ rows.J)
        yield HeldOut(model, scaled[1:], (fold - predicted)[1:])
