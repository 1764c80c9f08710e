"""Which links and units of a learned plant have changed in a record: tests, attribution, date, size."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy import stats

from ...statespace.episodes import lagged_rows
from ..joint import JointRecord
from .hypotheses import (
    FURTHER_LAGS,
    LESS,
    LEVEL,
    NEW,
    USUAL_LAGS,
    LearnedPlant,
    UnitResponses,
    changed_run,
    unit_hypotheses,
    unit_innovations,
)
from .hypotheses import OWN as OWN_BLOCK
from .tests import (
    VARIANCE,
    Change,
    UnitTests,
    change_of_unit,
    dated_fit,
    effective_tests,
    link_change,
    log_p_of_minimum,
    weighted_holm,
    window_starts,
)
from .tuning import TUNING

_TESTED = ("cause", "effect", "changed", "verdict", "p_value", "p_adjusted")
_NUMBERS = ("gain_before", "gain_after", "delay_before", "delay_after", "since")  # of a Change
COLUMNS = (*_TESTED, *_NUMBERS)
LINK, GAP, OWN = "link", "gap", "own"
_LEVELS = {LINK: 0.6, GAP: 0.3, OWN: 0.1}  # shares of the chance of a false report
_CLEAR = np.log(1e-5)  # likelihood ratio that a change of coefficients has over one of the variance
_OWN_SHOWS = np.log(0.05)  # p-value of a unit's own changes from which on new links are told beyond them
_DRAWS, _DRAWS_OF_A_UNIT = 1000, (50, 200)  # of records under no change; rows of a family share them


@dataclass
class UnitComparison:
    """One unit in a record: its tests, what they say, and what was found."""

    unit: int
    tests: UnitTests
    responses: UnitResponses
    changes: dict = field(default_factory=dict)  # by cause: a Change
    explained: np.ndarray | float = 0.0  # (n_rows,), by changes of the unit itself
    log_p: dict = field(default_factory=dict)  # by cause

    @property
    def white(self):
        """Innovations that nothing explains yet, (n_rows,)."""
        return self.tests.innovations.white.ravel() - self.explained

    @property
    def sources(self):
        """Cause of each hypothesis, the unit itself for its own changes."""
        return np.concatenate([*(group.sources for group in self.tests.groups), [self.unit]])

    def minima_of_new_links(self):
        """The same of links that the plant does not have, beyond other dynamics and levels of the unit itself.

        Near a random walk a level that shifts, or a small error of the unit's own dynamics, shows in everything that
        follows the unit.
        """
        starts = self.tests.starts
        levels = self.responses.pushed(np.greater_equal.outer(np.arange(len(self.responses)), starts).astype(float))
        own = [group.one(k).regressors for group in self.tests.groups for k in group.numbers(OWN_BLOCK)]
        slow = np.linalg.qr(np.hstack([levels, *own]))[0]
        tests = self.tests.beyond(slow, NEW)
        if not tests.groups:
            return {}
        white = self.white - slow @ (slow.T @ self.white)
        log_p = np.concatenate(tests.log_p_values(white)[:-1], axis=1).min(axis=0)
        sources = np.concatenate([group.sources for group in tests.groups])
        return {int(n): log_p[sources == n].min() for n in np.unique(sources)}

    def minima(self, white, *, exact=False):
        """By cause: log of the smallest p-value over hypotheses and starts, of each series."""
        log_p = np.concatenate(self.tests.log_p_values(white, exact=exact), axis=1).min(axis=0)
        return {int(n): log_p[self.sources == n].min(axis=0) for n in np.unique(self.sources)}

    def likeliest(self, causes):
        """The likeliest hypothesis about some causes: whose, which one, and the row from which it shows most.

        By the likelihood that each gains together with another level of the unit, for a change moves it too, less a
        price for its coefficients. Another variance, which anything unexplained brings with it, only where nothing
        else gains.
        """
        log_p = np.concatenate(self.tests.log_p_values(self.white), axis=1)
        shown, cause_of = self.tests.starts[np.argmin(log_p, axis=0)], self.sources
        best = -_CLEAR, self.unit, self.tests.hypothesis(len(shown) - 1), int(shown[-1])
        for number in np.flatnonzero(np.isin(cause_of[:-1], causes)):
            hypothesis, p = self.tests.hypothesis(int(number)), self.tests.n_states
            Z = hypothesis.regressors
            n_coefficients = Z.shape[1]
            if hypothesis.kind != LEVEL:
                Z, n_coefficients = np.hstack([Z, self.responses.level]), n_coefficients + p
            found = dated_fit(Z, self.white, int(shown[number]), p)
            gain = found.gain - 0.5 * n_coefficients * np.log(len(Z) / p)
            if cause_of[number] != self.unit:  # one of many that there might be
                gain -= np.log(len(cause_of))
            if gain > best[0] or (self.unit not in causes and best[2].kind == VARIANCE):
                best = gain, int(cause_of[number]), hypothesis, int(shown[number])
        return best[1:]


@dataclass
class Comparison:
    """A record beside a plant; the units know the changes that were found."""

    plant: LearnedPlant
    record: JointRecord
    filter_of: Callable  # filter of the record by a plant with given coefficients (q, n, n)
    units: list = field(default_factory=list)
    n_tests: dict = field(default_factory=dict)  # by family: how many independent tests a minimum is of

    @classmethod
    def of(cls, plant, record, filter_of):
        """Of a record in which nothing is known to have changed."""
        self = cls(plant, record, filter_of)
        self.units = [UnitComparison(m, tests, responses) for m, (tests, responses) in enumerate(self._tests())]
        rng, n_draws = np.random.default_rng(0), int(np.clip(_DRAWS // len(self.units), *_DRAWS_OF_A_UNIT))
        drawn: dict[str, list] = {LINK: [], GAP: [], OWN: []}
        for unit in self.units:
            for cause, minima in unit.minima(unit.tests.null_draws(rng, n_draws), exact=True).items():
                drawn[_family(plant, unit.unit, cause)].append(minima)
        self.n_tests = {family: effective_tests(found) for family, found in drawn.items() if found}
        self._judge()
        return self

    def _tests(self):
        """Tests and responses of every unit, given the changes of links that were found."""
        plant, record = self.plant, self.record
        run = changed_run(plant, self.changed_links, self.filter_of)
        u, starts = record.known[:, : record.partition.n_inputs], window_starts(record.n_samples)
        inputs = lagged_rows(u - u.mean(axis=0), 1, record.starts)
        for unit, innovations in enumerate(unit_innovations(run, record, plant.A)):
            responses = UnitResponses(innovations, run.filtered, plant.n_lags + FURTHER_LAGS)
            groups = unit_hypotheses(unit, responses, plant, inputs)
            yield UnitTests(innovations, groups, starts, plant.n_samples), responses

    @property
    def changed_links(self):
        """Coefficients and dates of changed links by (effect, cause)."""
        return {
            (unit.unit, cause): change
            for unit in self.units
            for cause, change in unit.changes.items()
            if change.kernel is not None
        }

    def _judge(self):
        """P-values of everything that is not yet found to be changed, given what is."""
        for unit in self.units:
            self._note(unit, unit.minima(unit.white))
            if unit.log_p[unit.unit] <= _OWN_SHOWS:
                self._note(unit, unit.minima_of_new_links())

    def _note(self, unit, minima):
        """Keep p-values of a unit by minima of its tests."""
        for cause, minimum in minima.items():
            if cause not in unit.changes:
                n_tests = self.n_tests[_family(self.plant, unit.unit, cause)]
                unit.log_p[cause] = float(log_p_of_minimum(minimum, n_tests))

    def explain(self, p_adjusted, alpha):
        """Explain the surest change, which may show in other units too; whether there was any."""
        left = {
            unit.unit: [n for n in unit.log_p if n not in unit.changes and p_adjusted[unit.unit, n] <= alpha]
            for unit in self.units
            if len(unit.changes) < TUNING.compared_explained
        }
        left = {m: causes for m, causes in left.items() if causes}
        if not left:
            return False
        surest = min(left, key=lambda m: min(self.units[m].log_p[n] for n in left[m]))
        self._explain(self.units[surest], left[surest])
        self._anew()
        self._judge()
        return True

    def _explain(self, unit, causes):
        """Explain the likeliest change of a unit."""
        cause, hypothesis, row = unit.likeliest(causes)
        if cause == unit.unit:
            unit.changes[cause], explained = change_of_unit(unit, hypothesis.regressors, row)
            unit.explained = unit.explained + explained
            return
        unit.changes[cause] = link_change(self.plant, unit, cause, hypothesis, row)
        for _ in range(TUNING.compared_refits):
            self._anew(only=unit)
            unit.changes[cause], explained = unit.changes[cause].refitted(self.plant, unit, cause)
            unit.explained = unit.explained + explained

    def _anew(self, only=None):
        """Tests given all changes of links, of one unit or of all."""
        for unit, (tests, responses) in zip(self.units, self._tests(), strict=True):
            if only is None or unit is only:
                unit.tests, unit.responses = tests, responses


def changed_table(names, plant, record, filter_of, alpha):
    """The table of :func:`skfedcausal.inspection.changed_links`; dates are rows of the record."""
    comparison = Comparison.of(plant, record, filter_of)
    while True:
        p_adjusted = _adjusted(plant, comparison.units)
        if not comparison.explain(p_adjusted, alpha):
            return _table(names, comparison, p_adjusted, alpha)


def _family(plant, unit, cause):
    if unit == cause:
        return OWN
    return LINK if plant.is_linked(unit, cause) else GAP


def _adjusted(plant, units):
    """Adjusted p-values by (effect, cause)."""
    keys = [(unit.unit, cause) for unit in units for cause in unit.log_p]
    families = np.array([_family(plant, effect, cause) for effect, cause in keys])
    shares = {family: _LEVELS[family] / np.count_nonzero(families == family) for family in np.unique(families)}
    weights = np.array([shares[family] for family in families])
    log_p = np.array([units[effect].log_p[cause] for effect, cause in keys])
    return dict(zip(keys, weighted_holm(log_p, weights / weights.sum()), strict=True))


def _table(names, comparison, p_adjusted, alpha):
    rows, units = [], comparison.units
    for unit in units:
        for cause in comparison.plant.known_not_to_act(unit.unit):
            rows.append(_row(names[cause], names[unit.unit], False, Change("unchanged", 0.0, 0.0), 1.0, 1.0))
        for cause in sorted(unit.log_p):
            adjusted = p_adjusted[unit.unit, cause]
            is_changed, p_value = cause in unit.changes, float(np.exp(unit.log_p[cause]))
            change = unit.changes[cause] if is_changed else _unchanged(comparison, unit, cause, alpha)
            rows.append(_row(names[cause], names[unit.unit], is_changed, change, p_value, adjusted))
    table = pd.DataFrame(rows, columns=COLUMNS)
    explained = {names[unit.unit] for unit in units if set(unit.changes) - {unit.unit}}
    own = table["cause"] == table["effect"]
    behind = own & table["effect"].isin(explained)
    order = pd.DataFrame({"changed": ~table["changed"], "behind": behind, "p": table["p_adjusted"], "own": own})
    return table.loc[order.sort_values(["changed", "behind", "p", "own"], kind="stable").index].reset_index(drop=True)


def _row(cause, effect, is_changed, change, p_value, p_adjusted):
    """One row of the table, in the order of its columns."""
    numbers = [getattr(change, name) for name in _NUMBERS]
    return [cause, effect, is_changed, change.verdict, p_value, p_adjusted, *numbers]


def _unchanged(comparison, unit, cause, alpha):
    """What is said of a row without a change: whether the record would have shown one."""
    plant, effect, white = comparison.plant, unit.unit, unit.white
    family, left = _family(plant, effect, cause), float(white @ white)
    n_rows = sum(_family(plant, m.unit, n) == family for m in comparison.units for n in m.log_p)
    level = _LEVELS[family] * alpha / n_rows / comparison.n_tests[family]
    if family == OWN:
        n_known = int(unit.tests.innovations.ranks.sum())
        if not n_known:
            return Change("cannot tell", 1.0, np.nan)
        sure = stats.chi2.isf(stats.norm.cdf(TUNING.compared_sure), n_known)
        is_shown = stats.chi2.isf(level, n_known) <= TUNING.compared_own_change * sure
        return Change("unchanged" if is_shown else "cannot tell", 1.0, float(np.sqrt(left / n_known)))
    if family == LINK:
        kernel = plant.kernel(effect, cause)
        z = unit.responses.kernel(kernel, plant.partition.slices[cause])
        is_shown = unit.tests.shown(z @ z, left) >= (stats.norm.isf(level * LESS) + TUNING.compared_sure) ** 2
        before, lag = plant.strength(effect, cause, kernel), float(plant.first_lag(effect, cause))
        after = before * abs(1 + z @ white / (z @ z)) if z @ z > 0 else np.nan
        return Change("unchanged" if is_shown else "cannot tell", before, after, lag, lag)
    block = unit.responses.block(1, plant.partition.slices[cause])
    usual = plant.of_strength(effect, cause, plant.usual_strength(TUNING.compared_visible))
    added = float(np.sum(np.einsum("rij,rij->ij", block, block) * usual**2))
    root = np.sqrt(stats.chi2.isf(USUAL_LAGS / plant.n_lags * level, usual.size))
    is_shown = unit.tests.shown(added, left) >= (root + TUNING.compared_sure) ** 2
    return Change("unchanged" if is_shown else "cannot tell", 0.0, 0.0)
