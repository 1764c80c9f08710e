"""What the nominal record teaches a watch, for a whole plant and for neighbourhoods of one of many units."""

import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import chi2
from sklearn.base import clone

from ...message.states import StateMessage
from ...statespace.detection.shift import (
    ConditionalEnergy,
    InnovationModel,
    LinearMap,
    OwnEnergy,
    Predictor,
    RowBelief,
    ScaledMap,
    held_out_errors,
    held_out_innovations,
    ridge_transition,
)
from ...statespace.em import expectation_maximisation
from ...statespace.episodes import TransitionMoments, episodes, lag_covariances
from ...statespace.matrices import slices_of
from ...statespace.whittle import moment_start
from ..sparse.filter import neighbours, with_halo
from .incidents import HORIZON, LOOKBACK
from .monitor import BlockModel, ByFilter, ByRegression, PlantModel, PlantMonitor, UsualSensors
from .operating import Level
from .posterior import RootPosterior
from .thresholds import direct_causes, inverse_root, usual_windows
from .tuning import TUNING

# A plant of many units by its neighbourhoods: which unit an incident began in is judged among those around its alarms.
#
# Each neighbourhood is judged under the plant that its units make up; whether the level has moved, unit by unit.


class Part(NamedTuple):
    """Some units of a plant, their states and their model; `slices` are the states of each among these."""

    units: np.ndarray
    states: np.ndarray
    model: InnovationModel
    slices: tuple


class Neighbourhoods:
    """The units of a plant learned in blocks, a :class:`.monitor.BlockModel`, that belong together."""

    def __init__(self, model, slices):
        self.model, self.slices = model, slices
        unit = np.repeat(np.arange(len(slices)), [b.stop - b.start for b in slices])
        A = model.A.tocoo()
        strength = np.zeros((len(slices),) * 2)
        np.add.at(strength, (unit[A.row], unit[A.col]), A.data**2)
        pairs = np.argwhere(strength * ~np.eye(len(slices), dtype=bool))
        self._near = neighbours(len(slices), pairs, strength[tuple(pairs.T)], [])
        self._causes = [np.flatnonzero(row).tolist() for row in strength]

    def around(self, core):
        """Units with all that act on them and the strongest of their other neighbours, in their order."""
        return tuple(sorted(with_halo(list(core), self._near, self._causes, TUNING.neighbourhood_most)))

    def all_over(self):
        """Neighbourhoods all over the plant."""
        units = np.unique(np.linspace(0, len(self.slices) - 1, TUNING.neighbourhood_probed).astype(int))
        return [self.around([unit]) for unit in units.tolist()]

    def part(self, units):
        """The :class:`Part` that some units make up."""
        model, states = self.model.part(units)
        slices = slices_of(self.slices[m].stop - self.slices[m].start for m in units)
        return Part(np.array(units), states, model, slices)


class LocalPosterior:
    """Posterior over the units around the alarms of a window; all others have no probability.

    `nominal` is that of the whole plant without its leverage, `spread` the covariance of its predicted states, (n, n),
    `limits` are the thresholds of the statistics.
    """

    def __init__(self, places, prior, nominal, spread, limits):
        self._places, self.prior, self.nominal, self._spread, self._limits = places, prior, nominal, spread, limits
        self._known: dict[tuple, Any] = {}

    def __getstate__(self):
        return vars(self) | {"_known": {}}

    def _posterior(self, units):
        """A :class:`Part` of the plant, and the posterior over its units alone."""
        if units not in self._known:
            if len(self._known) == TUNING.neighbourhood_known:
                del self._known[next(iter(self._known))]
            part, whole = self._places.part(units), self.nominal
            leverage = inverse_root(self._spread[np.ix_(part.states, part.states)])
            dims, outside = whole.dims[part.units], whole.outside_dims[part.units]
            nominal = replace(whole, dims=dims, outside_dims=outside, leverage=leverage)
            prior = self.prior[part.units] / self.prior[part.units].sum()
            posterior = RootPosterior(part.model, part.slices, prior, LOOKBACK + HORIZON + 1, HORIZON, nominal)
            self._known[units] = part, posterior
        return self._known[units]

    def _of(self, rows):
        """Part and posterior of the alarms in some rows, and their evidence about it."""
        highest = np.maximum.reduce([rows.levels[:, k].max(axis=0) / limit for k, limit in enumerate(self._limits)])
        core = np.argsort(-highest, kind="stable")[: TUNING.neighbourhood_core]
        core = core[highest[core] > min(1.0, highest.max())] if highest.max() > 1 else core[:1]
        part, posterior = self._posterior(self._places.around(sorted(core.tolist())))
        return part, posterior, rows.of_units(part.units, part.states, part.model.weight)

    def _judged(self, rows, question):
        """The answer of the posterior over the units around the alarms in some rows, as one of all units."""
        part, posterior, inside = self._of(rows)
        answer, probability = question(posterior, inside), np.zeros(len(self.prior))
        probability[part.units] = answer.probability
        return replace(answer, probability=probability)

    def from_energy(self, rows):
        """Answer of the energy statistic to a window of evidence."""
        return self._judged(rows, RootPosterior.from_energy)

    def from_changes(self, rows):
        """Answer that the dynamics of a unit are others in a window."""
        return self._judged(rows, RootPosterior.from_changes)

    def from_reversal(self, rows, n_onsets):
        """Answer that a unit tells its states with the other sign from one of the first rows on."""
        return self._judged(rows, lambda local, inside: local.from_reversal(inside, n_onsets))

    def of_any_size(self, rows, statistics, at_once, level_rows=np.inf):
        """Answer to a window in which no fault is to be seen, its size integrated out as well."""
        return self._judged(rows, lambda local, inside: local.of_any_size(inside, statistics, at_once, level_rows))

    def from_shift(self, windows, n_onsets, at_once=0.0, **settings):
        """Answers of the coherent shift statistic to windows of evidence, the onset of the fault free."""

        def question(posterior, inside):
            return posterior.from_shift([inside], n_onsets, at_once, **settings)[0]

        return [self._judged(rows, question) for rows in windows]

    def is_far(self, rows):
        """Whether states around the alarms of a window are so far from nominal that errors of the model count."""
        _, posterior, inside = self._of(rows)
        return posterior.is_far(inside)


class LocalLevel(Level):
    """Whether rows have the level of an operating point, unit by unit."""

    dims: np.ndarray  # states of each unit

    @staticmethod
    def _precision_of(energy):
        return energy.precision

    @classmethod
    def of(cls, energy, errors, slices):
        """From errors of nominal rows, (n_rows, n) by segment."""
        level = cls.learned(energy, errors, slices)
        level.dims = np.array([b.stop - b.start for b in slices])
        return level

    def is_at(self, mean, n_rows):
        """Whether the mean of some rows is that of an operating point of mean zero."""
        square = n_rows * self._energy.own(mean[None])[0]
        return bool((square <= self._slow * chi2.isf(TUNING.neighbourhood_alike / len(square), self.dims)).all())

    def ahead(self, rows, level, most=np.inf):
        """Log likelihood of rows at a level over that at zero, of the units whose level has moved."""
        moved = len(rows) * self._energy.own(level[None])[0] > chi2.isf(TUNING.neighbourhood_moved, self.dims)
        return super().ahead(rows, np.where(moved.repeat(self.dims), level, 0.0), most)


# What the nominal record teaches a watch: models of the plant, what rows held out are like under them, and causes.
#
# Rows held out are those of a plant that was learned without them: in-sample innovations are whiter and better centred
# than those of new data, and thresholds set on them too low. A plant of few links fits the rows that it was learned
# from hardly better than others, so that one learned in blocks does without.


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
