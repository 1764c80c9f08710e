"""Watching a plant of many units: everything costs as much as there are links.

The plant's filter is that of its blocks (:mod:`..sparse.filter`), whose innovations serve both statistics. Which unit
an incident began in is asked of the units around its alarms alone, under the plant that these make up.
"""

from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.stats import chi2

from ...statespace.detection.energy import block_sums
from ...statespace.detection.shift import InnovationModel
from ...statespace.episodes import episodes
from ...statespace.matrices import sparse_diagonal
from ...statespace.partition import slices_of
from ..sparse.cover import neighbours, with_halo
from .detector import RootCauseServer
from .evidence import FLOOR, Innovations, MonitorState, PlantMonitor
from .incidents import HORIZON, LOOKBACK
from .nominal import OffSubspace, inverse_root, usual_windows
from .operating import Level
from .posterior import Nominal, RootPosterior
from .thresholds import AlarmLevels

_CORE, _MOST = 6, 16  # units in alarm that are asked, and with their neighbours
_PROBED = 12  # places of the plant whose nominal windows show how far these stray
_LEAST = 1e-4  # share of a column's largest element below which a response is none
_CHUNK = 100  # rows that stay in cache
_NUMBERS = 250_000  # of a series of all units, in a piece of a batch
_ALIKE = 1e-3  # tail beyond which the mean of some rows is not of an operating point
_MOVED = 1e-3  # of a unit's level that is taken to have moved


# -- model and filter ------------------------------------------------------------------------------------


class LargeModel:
    """Stationary filter of a large plant through its innovations, in sparse matrices.

    A, gain : of the states, (n, n)
    J, noise : information of a row's measurements and its inverse, one block for each unit
    """

    def __init__(self, matrices, J, slices):
        self.slices = slices
        self.A, self.Q, self.gain = csr_array(matrices.A), csr_array(matrices.Q), csr_array(matrices.gain)
        self.J = _blocks([J[b, b] for b in slices])
        self.noise = _blocks([np.linalg.inv(J[b, b]) for b in slices])
        identity = sparse_diagonal(np.ones(self.A.shape[0]))
        self.weight = csr_array(self.J @ (identity - self.gain))  # (P + N)^-1
        self.carry = csr_array(self.A @ (identity - self.gain))
        self._step = csr_array(self.carry)
        self.held = _without_small(np.linalg.inv((identity - self.carry).toarray()))

    def follow(self, scores, mean):
        """Predicted states of rows, (n_rows, n), and of the row after them, from that of the first one.

        Scores of absent states are NaN: nothing is learned of these.
        """
        absent = np.isnan(scores)
        gaps = absent.any(axis=1)
        pushed = (scores if not gaps.any() else np.where(absent, 0.0, scores)) @ csr_array((self.A @ self.gain).T)
        predicted = np.empty_like(scores)
        for t in range(len(scores)):
            predicted[t] = mean
            if gaps[t]:
                score = np.where(absent[t], mean, scores[t])
                mean = self.A @ (mean + self.gain @ (score - mean))
            else:
                mean = self._step @ mean + pushed[t]
        return predicted, mean

    def filtered(self, z, starts=(0,)):
        """Scaled innovations and predicted states of complete rows, (n_samples, n)."""
        scores, predicted = z @ self.noise, np.empty_like(z)
        for start, stop in episodes(starts, len(z)):
            predicted[start:stop], _ = self.follow(scores[start:stop], np.zeros(z.shape[1]))
        return (scores - predicted) @ self.weight.T, predicted

    def part(self, units):
        """The model of some units alone, and their states."""
        states = np.concatenate([np.arange(self.slices[m].start, self.slices[m].stop) for m in units])
        A, Q, J = (matrix[states][:, states].toarray() for matrix in (self.A, self.Q, self.J))
        return InnovationModel(A, Q, J), states


def _blocks(blocks):
    """Sparse matrix with these on its diagonal."""
    sizes = np.array([len(block) for block in blocks])
    first = np.cumsum(sizes) - sizes
    rows = np.concatenate([(k + np.arange(p)).repeat(p) for k, p in zip(first, sizes, strict=True)])
    cols = np.concatenate([np.tile(k + np.arange(p), p) for k, p in zip(first, sizes, strict=True)])
    n = int(sizes.sum())
    return csr_array((np.concatenate([block.ravel() for block in blocks]), (rows, cols)), shape=(n, n))


def _without_small(matrix):
    """A matrix as a sparse one of the elements that are some share of the largest of their column."""
    return csr_array(np.where(np.abs(matrix) > _LEAST * np.abs(matrix).max(axis=0), matrix, 0.0))


# -- statistics ------------------------------------------------------------------------------------------


class LargeEnergy:
    """Surprise of every unit by its own innovations: those of the others hardly tell of them in a large plant."""

    def __init__(self, errors, slices):
        floor = FLOOR * errors.var(axis=0)
        covariances = [errors[:, b].T @ errors[:, b] / len(errors) + np.diag(floor[b]) for b in slices]
        self.precision = _blocks([np.linalg.inv(C) for C in covariances])
        self.given_root = _blocks([np.linalg.cholesky(np.linalg.inv(C)) for C in covariances])
        self._sums = csr_array(block_sums(slices))

    def own(self, e):
        """``e_m' C_mm^-1 e_m``, shape (n_samples, n_units)."""
        return (e @ self.given_root) ** 2 @ self._sums

    given_others = own

    def shared(self):
        """Share of each unit's innovations that those of the others explain: none is looked for."""
        return np.zeros(self._sums.shape[1])


class LargeLevels(AlarmLevels):
    """Alarm levels of many units, some rows after the other."""

    def __init__(self, statistics, model, slices):
        super().__init__(statistics, model, slices)
        self._sums = csr_array(self._sums)

    def _held_covariance(self):
        return super()._held_covariance().toarray()

    def _whitening(self, held, rate, starts):
        return csr_array(super()._whitening(held, rate, starts))

    def rows(self, surprise, held, averages=None, doubt=None):
        parts = []
        for first in range(0, len(surprise), _CHUNK):
            rows = slice(first, first + _CHUNK)
            some = None if doubt is None else doubt[rows]
            levels, averages = super().rows(surprise[rows], held[rows], averages, some)
            parts.append(levels)
        return np.concatenate(parts), averages


class LargeLevel(Level):
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
        return bool((square <= self._slow * chi2.isf(_ALIKE / len(square), self.dims)).all())

    def ahead(self, rows, level, most=np.inf):
        """Log likelihood of rows at a level over that at zero, of the units whose level has moved."""
        moved = len(rows) * self._energy.own(level[None])[0] > chi2.isf(_MOVED, self.dims)
        return super().ahead(rows, np.where(moved.repeat(self.dims), level, 0.0), most)


class LargeMonitor(PlantMonitor):
    """Innovations of a record under a large plant, whose filter serves both statistics."""

    def __init__(self, model, energy, slices):
        self.model, self.energy, self.slices = model, energy, slices
        self._blocks = [model.J[b][:, b].toarray() for b in slices]

    @classmethod
    def learned(cls, model, rows, slices):
        """Monitor with the covariance of the innovations of nominal rows; the innovations and their surprises by fold.

        A plant of few links fits the rows that it was learned from hardly better than others.
        """
        scaled, predicted = model.filtered((rows.x - rows.x.mean(axis=0)) @ model.J, rows.starts)
        errors = rows.held_out(rows.x - rows.x.mean(axis=0) - predicted)
        energy = LargeEnergy(np.concatenate(errors), slices)
        own = [energy.own(e) + g for e, g in zip(errors, rows.held_out(rows.distance), strict=True)]
        return cls(model, energy, slices), own, rows.held_out(scaled), errors

    def rows(self, record, off_subspace, state, level=0.0):
        """Innovations of consecutive rows of one episode, and the state after them, see :class:`PlantMonitor`."""
        if self.is_nominal(record):
            x, present = record.z @ self.model.noise, np.ones(off_subspace.shape, dtype=bool)
            scores = x
        else:
            x, present, _, _ = self.measured(record)
            off_subspace = np.where(present, off_subspace, 0.0)
            there = present.repeat([b.stop - b.start for b in self.slices], axis=1)
            scores = np.where(there, x, np.nan)
        first = state.mean is None
        predicted, mean = self.model.follow(scores, np.zeros(x.shape[1]) if first else state.mean)
        r = np.nan_to_num(scores - predicted)
        e = np.where(np.isnan(scores), 0.0, r - level)
        if first:
            e[0] = 0.0  # the first row of an episode has no innovation
        surprise = self.energy.own(e) + off_subspace
        scaled = r @ self.model.weight.T
        return Innovations(scaled, predicted, surprise, surprise, x, present, e), MonitorState(mean)

    def _row_pattern(self, record, key):
        return None  # rows with gaps are judged by the units that they show


# -- naming the root -------------------------------------------------------------------------------------


class Neighbourhood(NamedTuple):
    """Some units with the posterior over these alone."""

    units: np.ndarray
    states: np.ndarray
    posterior: RootPosterior


class LargePosterior:
    """Posterior over the units around the alarms of a window; all others have no probability.

    Leverage of its `nominal` is the covariance of the predicted states of the whole plant.
    """

    def __init__(self, model, slices, prior, nominal, limits):
        self.model, self.slices, self.prior, self.nominal, self.limits = model, slices, prior, nominal, limits
        unit = np.repeat(np.arange(len(slices)), [b.stop - b.start for b in slices])
        A = model.A.tocoo()
        effect, cause = unit[A.row], unit[A.col]
        strength = np.zeros((len(slices),) * 2)
        np.add.at(strength, (effect, cause), A.data**2)
        pairs = np.argwhere(strength * ~np.eye(len(slices), dtype=bool))
        self._near = neighbours(len(slices), pairs, strength[tuple(pairs.T)], [])
        self._causes = [np.flatnonzero(row).tolist() for row in strength]
        self.around = lru_cache(32)(self._around)

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name != "around"}

    def __setstate__(self, state):
        vars(self).update(state)
        self.around = lru_cache(32)(self._around)

    def members(self, core):
        """Units with all that act on them and the strongest of their other neighbours, in their order."""
        return tuple(sorted(with_halo(list(core), self._near, self._causes, _MOST)))

    def _around(self, units):
        """The neighbourhood that some units make up."""
        model, states = self.model.part(units)
        slices = slices_of(self.slices[m].stop - self.slices[m].start for m in units)
        at, whole = np.array(units), self.nominal
        leverage = inverse_root(whole.leverage[np.ix_(states, states)])
        nominal = replace(whole, dims=whole.dims[at], outside_dims=whole.outside_dims[at], leverage=leverage)
        prior = self.prior[at] / self.prior[at].sum()
        posterior = RootPosterior(model, slices, prior, LOOKBACK + HORIZON + 1, HORIZON, nominal)
        return Neighbourhood(at, states, posterior)

    def of(self, rows):
        """The neighbourhood of the alarms in some rows, and their evidence about it."""
        highest = np.maximum.reduce([rows.levels[:, k].max(axis=0) / limit for k, limit in enumerate(self.limits)])
        core = np.argsort(-highest, kind="stable")[:_CORE]
        core = core[highest[core] > min(1.0, highest.max())] if highest.max() > 1 else core[:1]
        place = self.around(self.members(sorted(core.tolist())))
        return place, self._evidence(rows, place)

    @staticmethod
    def _evidence(rows, place):
        units, states = place.units, place.states
        told = {name: getattr(rows, name)[..., units] for name in _BY_UNIT}
        errors = rows.errors[:, states]
        told |= {"errors": errors, "predicted": rows.predicted[:, states]}
        told["scaled"] = errors @ place.posterior.model.weight
        return rows._replace(**told)

    def _whole(self, answer, place):
        probability = np.zeros(len(self.slices))
        probability[place.units] = answer.probability
        return answer._replace(probability=probability)

    def from_energy(self, rows):
        """Answer of the energy statistic to a window of evidence."""
        place, inside = self.of(rows)
        return self._whole(place.posterior.from_energy(inside), place)

    def from_changes(self, rows):
        """Answer that the dynamics of a unit are others in a window."""
        place, inside = self.of(rows)
        return self._whole(place.posterior.from_changes(inside), place)

    def of_any_size(self, rows, statistics, at_once, level_rows=np.inf):
        """Answer to a window in which no fault is to be seen, its size integrated out as well."""
        place, inside = self.of(rows)
        return self._whole(place.posterior.of_any_size(inside, statistics, at_once, level_rows), place)

    def is_far(self, rows):
        """Whether states around the alarms of a window are so far from nominal that errors of the model count."""
        place, inside = self.of(rows)
        return place.posterior.is_far(inside)

    def from_shift(self, windows, n_onsets, at_once=0.0, may_grow=False, level_rows=np.inf):
        """Answers of the coherent shift statistic to windows of evidence, the onset of the fault free."""
        answers = []
        for rows in windows:
            place, inside = self.of(rows)
            asked = {"may_grow": may_grow, "level_rows": level_rows}
            answer = place.posterior.from_shift([inside], n_onsets, at_once, **asked)[0]
            answers.append(self._whole(answer, place))
        return answers


_BY_UNIT = ("surprise", "given_others", "surplus", "outside", "absent", "levels", "events", "distance")


class LargeRootCauseServer(RootCauseServer):
    """Alarms and roots of a plant that was learned in blocks, see :class:`RootCauseServer`."""

    _levels_of = LargeLevels
    posterior: Any

    def _taken(self, messages, state):
        n_rows = len(next(iter(messages.values())).z)
        piece = max(_CHUNK, _NUMBERS // len(self.names))  # arrays of a piece stay in memory that is there
        for first in range(0, n_rows, piece):
            stop = min(first + piece, n_rows)
            part = messages if stop - first == n_rows else {k: one.rows(first, stop) for k, one in messages.items()}
            yield from super()._taken(part, state)

    def _learn_models(self, plant, rows):
        self.model = LargeModel(plant.plant_.matrices, rows.J, self.slices)
        self.monitor, own, scaled, errors = LargeMonitor.learned(self.model, rows, self.slices)
        self.level = LargeLevel.of(self.monitor.energy, errors, self.slices)
        self._errors = errors
        return own, own, [(self.model, u) for u in scaled], self._direct_causes(rows.x)

    def _direct_causes(self, x, least=0.02):
        """Whether a unit's states enter the next states of another, (n_units, n_units), by the links alone."""
        shares, variance = np.zeros((len(self.slices),) * 2), x.var(axis=0)
        unit = np.repeat(np.arange(len(self.slices)), self.state_dims)
        A = self.model.A.tocoo()
        np.add.at(shares, (unit[A.row], unit[A.col]), A.data**2 * variance[A.col] / variance[A.row])
        np.fill_diagonal(shares, 0.0)
        return shares > least * self.state_dims[:, None]

    def _learn_posterior(self, rows, given, held_out, predicted):
        errors = self.__dict__.pop("_errors")
        self._off_subspace = OffSubspace(rows.x, rows.distance, self.slices).sparse()
        excess, *dispersions = self._nominal_spread(rows, given)
        limits = [self.levels.thresholds[name] for name in self.statistics]
        known = self.dims, self._outside_dims, np.cov(predicted.T), len(rows.x)
        nominal = Nominal(*known, 1.0, excess, *dispersions)
        self.posterior = LargePosterior(self.model, self.slices, self.prior, nominal, limits)
        rest, shift = np.mean([self._usual_windows(place, errors, excess) for place in self._probed()], axis=0)
        nominal = Nominal(*known, float(rest), float(shift), *dispersions)
        self.posterior = LargePosterior(self.model, self.slices, self.prior, nominal, limits)

    def _probed(self):
        """Neighbourhoods all over the plant."""
        units = np.unique(np.linspace(0, len(self.slices) - 1, _PROBED).astype(int))
        return [self.posterior.around(self.posterior.members([int(unit)])) for unit in units]

    @staticmethod
    def _usual_windows(place, errors, excess):
        model = place.posterior.model
        folds = [(model, part[:, place.states] @ model.weight) for part in errors]
        return usual_windows(folds, place.posterior.slices, HORIZON, excess)
