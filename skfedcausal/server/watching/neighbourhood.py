"""A plant of many units by its neighbourhoods: which unit an incident began in is judged among those around its alarms.

Each neighbourhood is judged under the plant that its units make up; whether the level has moved, unit by unit.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import chi2

from ...statespace.detection.shift import InnovationModel
from ...statespace.partition import slices_of
from ..sparse.cover import neighbours, with_halo
from .incidents import HORIZON, LOOKBACK
from .nominal import inverse_root
from .operating import Level
from .posterior import RootPosterior
from .tuning import TUNING


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
