"""What the nominal record teaches a watch: models of the plant, what rows held out are like under them, and causes.

Rows held out are those of a plant that was learned without them: in-sample innovations are whiter and better centred
than those of new data, and thresholds set on them too low. A plant of few links fits the rows that it was learned from
hardly better than others, so that one learned in blocks does without.
"""

import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from ...message.states import StateMessage
from ...statespace.detection.energy import (
    ConditionalEnergy,
    LinearMap,
    OwnEnergy,
    Predictor,
    RowBelief,
    ScaledMap,
    held_out_errors,
    held_out_innovations,
    ridge_transition,
)
from ...statespace.detection.shift import InnovationModel
from ...statespace.em import expectation_maximisation
from ...statespace.episodes import TransitionMoments, episodes, lag_covariances
from ...statespace.units import moment_start
from .incidents import HORIZON, LOOKBACK
from .monitor import BlockModel, ByFilter, ByRegression, PlantModel, PlantMonitor, UsualSensors
from .neighbourhood import LocalLevel, LocalPosterior, Neighbourhoods
from .nominal import direct_causes, inverse_root, usual_windows
from .operating import Level
from .posterior import RootPosterior
from .tuning import TUNING


class HeldOut(NamedTuple):
    """A model learned without a fold, and the fold's scaled innovations and errors without its first row."""

    model: Any
    scaled: np.ndarray
    errors: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Learned:
    """A plant as it is watched.

    monitor, level : a PlantMonitor and a Level
    own, given : surprises of rows held out, (n_rows, n_units) by fold
    held_out : the :class:`HeldOut` folds
    scaled, predicted : innovations and predicted states of all nominal rows, (n_rows, n)
    causes : whether the unit of a column acts on that of a row, (n_units, n_units)
    """

    monitor: PlantMonitor
    level: Level
    own: list
    given: list
    held_out: list
    scaled: np.ndarray
    predicted: np.ndarray
    causes: np.ndarray

    is_whole = True  # whether all units are judged together

    def usual_windows(self, slices, excess):
        """How far nominal windows stray, see :func:`.nominal.usual_windows`; `excess` is the least of ratios."""
        return usual_windows([(fold.model, fold.scaled) for fold in self.held_out], slices, HORIZON, excess)

    def posterior(self, slices, prior, nominal, limits):
        """Posterior over roots; `nominal` lacks its leverage, `limits` are the thresholds of all statistics."""
        nominal = replace(nominal, leverage=inverse_root(np.cov(self.predicted.T)))
        return RootPosterior(self.monitor.model, slices, prior, LOOKBACK + HORIZON + 1, HORIZON, nominal)


class LearnedInBlocks(Learned):
    """A plant of many units, of which those around the alarms are judged together."""

    is_whole = False

    def usual_windows(self, slices, excess):
        """The means over neighbourhoods all over the plant."""
        places = Neighbourhoods(self.monitor.model, slices)
        found = []
        for units in places.all_over():
            part = places.part(units)
            folds = [(part.model, fold.errors[:, part.states] @ part.model.weight) for fold in self.held_out]
            found.append(usual_windows(folds, part.slices, HORIZON, excess))
        rest, shift = np.mean(found, axis=0).tolist()
        return rest, shift

    def posterior(self, slices, prior, nominal, limits):
        """Posterior over the units around the alarms of a window."""
        return LocalPosterior(
            Neighbourhoods(self.monitor.model, slices), prior, nominal, np.cov(self.predicted.T), limits
        )


def learned_plant(plant, rows, slices, *, in_blocks=True):
    """What :class:`NominalRows` say of a fitted server's plant, which may be learned in blocks if it may be watched so.

    Gives a :class:`Learned`.
    """
    watched = plant.watched_plant_
    if in_blocks and hasattr(watched, "matrices"):
        return learned_in_blocks(watched.matrices, rows, slices)
    if watched.n_lags > 1:
        return learned_by_refits(plant, rows, slices)
    return learned_by_regression(plant, rows, slices)


def _energy(errors, rows, slices):
    """Energy of errors held out, (n_rows, n), whose covariance has a floor."""
    return ConditionalEnergy(
        errors.T @ errors / len(errors) + TUNING.learning_floor * np.diag(rows.x.var(axis=0)), slices
    )


def _surprises(energy, errors, rows):
    """Surprises own and given of errors by fold, with the off-subspace numbers of the same rows."""
    pairs = list(zip(errors, rows.held_out(rows.distance), strict=True))
    return [[judged(e) + g for e, g in pairs] for judged in (energy.own, energy.given_others)]


# -- plants of one lag -----------------------------------------------------------------------------------


def learned_by_regression(plant, rows, slices):
    """Of a plant of one lag: surprises are those of a regression, folds are held out of moments and a few steps."""
    model = PlantModel(plant.transition_, plant.process_cov_, rows.J)
    surprises, errors = learned_regression(rows, slices, getattr(plant, "regressor", None))
    own, given = _surprises(surprises.energy, errors, rows)
    parts = [rows.x[start:stop] for start, stop in rows.folds]
    errors = [part[1:] - surprises.regression.predict(part[:-1]) for part in parts]
    level = Level.learned(surprises.energy, errors, slices)
    held_out = list(held_out_models(rows, getattr(plant, "support_", None)))
    causes = direct_causes(model.A, np.atleast_2d(np.cov(rows.x.T)), slices)
    scaled, predicted = model.filtered(rows.x @ rows.J, starts=rows.starts)
    monitor = PlantMonitor(model, UsualSensors(rows.J, model.noise, slices), surprises)
    return Learned(monitor, level, own, given, held_out, scaled, predicted, causes)


def learned_regression(rows, slices, regressor=None):
    """:class:`.monitor.ByRegression` from nominal rows, and the errors of each fold under a regression on the others.

    `regressor` None stands for ridge regression.
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
    errors = [e * scale for e in errors]
    usual = RowBelief(mean, np.cov(rows.x.T, bias=True).reshape(len(mean), -1))
    return ByRegression(learned, _energy(np.concatenate(errors), rows, slices), usual), errors


def held_out_models(rows, support):
    """Each fold under the plant that moments and a few steps learn from all others, a :class:`HeldOut`."""
    N = _noise_of(rows.J)
    for k, (start, stop) in enumerate(rows.folds):
        parts = [rows.x[i:j] for m, (i, j) in enumerate(rows.folds) if m != k]
        series, starts = np.concatenate(parts), (0, *np.cumsum([len(p) for p in parts])[:-1].tolist())
        level = series.mean(axis=0)
        series = series - level
        moments = TransitionMoments.from_sums(lag_covariances(series, range(3), starts), series, starts)
        A, Q = moment_start(moments, N)
        A, Q = expectation_maximisation(series, N, A, (Q + Q.T) / 2, starts, TUNING.learning_held_out_steps, support)
        model = InnovationModel(A, Q, rows.J)
        yield HeldOut(model, model.filtered((rows.x[start:stop] - level) @ rows.J)[0][1:])


def _noise_of(J):
    """Noise of states that information J sees, of units of measurement however different."""
    scale = np.sqrt(np.diag(J))
    if scale.min() > TUNING.learning_alike * scale.max():
        return np.linalg.pinv(J, hermitian=True)
    return np.linalg.inv(J / np.outer(scale, scale)) / np.outer(scale, scale)


# -- plants of several lags ------------------------------------------------------------------------------


def learned_by_refits(plant, rows, slices):
    """Of a plant of several lags: its filter serves both statistics, folds are held out of its server's fit."""
    model = PlantModel(plant.lag_transitions_, plant.process_cov_, rows.J)
    held_out = list(refitted(plant, rows, slices))
    errors = [fold.errors for fold in held_out]
    energy = _energy(np.concatenate(errors), rows, slices)
    own, given = _surprises(energy, errors, rows)
    n = model.n_states
    monitor = PlantMonitor(model, UsualSensors(rows.J, model.noise, slices), ByFilter(energy, model.settled[:n, :n]))
    bounds = episodes(rows.starts, len(rows.x))
    found = [model.from_first(rows.x[start:stop] @ rows.J) for start, stop in bounds]
    scaled, predicted = (np.concatenate([getattr(one, name) for one in found]) for name in ("scaled", "predicted"))
    causes = direct_causes(model.top, model.first, slices)
    return Learned(monitor, Level.learned(energy, errors, slices), own, given, held_out, scaled, predicted, causes)


def refitted(plant, rows, slices):
    """Each fold under the plant that its server learns from all others, a :class:`HeldOut`."""
    max_time = max(plant.work_left / len(rows.folds), TUNING.learning_least_work * plant.max_time)
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
            learned = clone(plant).set_params(options__held_out=None, max_time=max_time).fit(messages)
        model = PlantModel(learned.lag_transitions_, learned.process_cov_, rows.J)
        fold = rows.x[start:stop] - level
        found = model.from_first(fold @ rows.J)
        yield HeldOut(model, found.scaled[1:], (fold - found.predicted)[1:])


# -- plants learned in blocks ----------------------------------------------------------------------------


def learned_in_blocks(matrices, rows, slices):
    """Of a plant learned in blocks, from its sparse `matrices`: the units' own innovations under its filter."""
    model, x = BlockModel(matrices, rows.J, slices), rows.x - rows.x.mean(axis=0)
    scaled, predicted = model.filtered(x @ model.J, rows.starts)
    errors = rows.held_out(x - predicted)
    e = np.concatenate(errors)
    energy = OwnEnergy(
        [e[:, b].T @ e[:, b] / len(e) + TUNING.learning_floor * np.diag(e[:, b].var(axis=0)) for b in slices]
    )
    own, given = _surprises(energy, errors, rows)
    held_out = [HeldOut(model, u, e) for u, e in zip(rows.held_out(scaled), errors, strict=True)]
    scaled, predicted = model.filtered(rows.x @ model.J, rows.starts)
    causes = _strong_links(model.A, rows.x.var(axis=0), slices)
    monitor, level = PlantMonitor(model, UsualSensors(rows.J, model.noise, slices), ByFilter(energy)), LocalLevel
    return LearnedInBlocks(monitor, level.of(energy, errors, slices), own, given, held_out, scaled, predicted, causes)


def _strong_links(A, variance, slices, least=0.02):
    """Whether a unit's states enter the next states of another by the links alone, see :func:`direct_causes`."""
    sizes, shares, A = np.array([b.stop - b.start for b in slices]), np.zeros((len(slices),) * 2), A.tocoo()
    unit = np.repeat(np.arange(len(slices)), sizes)
    np.add.at(shares, (unit[A.row], unit[A.col]), A.data**2 * variance[A.col] / variance[A.row])
    np.fill_diagonal(shares, 0.0)
    return shares > least * sizes[:, None]
