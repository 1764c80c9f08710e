"""Which links and units of a learned plant have changed in a record: tests, attribution, date, size."""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy import stats

from .hypotheses import FURTHER_LAGS, UnitResponses, unit_hypotheses
from .innovations import unit_innovations
from .sizes import Change, change_of_link, change_of_unit, new_link
from .tests import VARIANCE, UnitTests, effective_tests, log_p_of_minimum, weighted_holm, window_starts

COLUMNS = ("cause", "effect", "changed", "verdict", "p_value", "p_adjusted")
COLUMNS += ("gain_before", "gain_after", "delay_before", "delay_after", "since")
LINK, GAP, OWN = "link", "gap", "own"
_LEVELS = {LINK: 0.5, GAP: 0.3, OWN: 0.2}  # shares of the chance of a false report
_EXPLAINED = 4  # changes of one unit's rows at most
_SURE = 1.2816  # standard errors beyond the bound: nine of ten such changes would have shown
_VISIBLE = 0.25  # strength of a new link that shows, of plants without links


@dataclass
class UnitComparison:
    """One unit in a record: its tests, the innovations that nothing explains yet, and what was found."""

    unit: int
    tests: UnitTests
    responses: UnitResponses
    white: np.ndarray  # (n_rows,)
    n_tests: dict = field(default_factory=dict)
    changes: dict = field(default_factory=dict)  # by cause: a Change
    log_p: dict = field(default_factory=dict)  # by cause

    @property
    def sources(self):
        """Cause of each hypothesis, the unit itself for its own changes."""
        return np.concatenate([*(group.sources for group in self.tests.groups), [self.unit]])

    @property
    def kinds(self):
        """What each hypothesis supposes."""
        return [kind for group in self.tests.groups for kind in group.kinds] + [VARIANCE]

    @property
    def shifts(self):
        """Lags of the hypotheses."""
        return np.concatenate([*(group.shifts for group in self.tests.groups), [0]])

    def minima(self, white):
        """By cause: log of the smallest p-value over hypotheses and starts, of each series."""
        log_p = np.concatenate(self.tests.log_p_values(white), axis=1).min(axis=0)
        return {int(n): log_p[self.sources == n].min(axis=0) for n in np.unique(self.sources)}

    def best(self, cause):
        """The likeliest hypothesis about a cause: its number, and the start that shows it most."""
        log_p = np.concatenate(self.tests.log_p_values(self.white), axis=1)
        log_p = np.where(self.sources == cause, log_p, np.inf)
        start, number = np.unravel_index(np.argmin(log_p), log_p.shape)
        return int(number), int(start)


def changed_table(names, plant, run, record, alpha):
    """The table of :meth:`FederatedGrangerEstimator.changed_links`; dates are rows of the record."""
    units = _compared_units(plant, run, record)
    _calibrate(plant, units, np.random.default_rng(0))
    for unit in units:
        _test(plant, unit)
    while True:
        p_adjusted = _adjusted(plant, units)
        if not _explain_next(plant, units, p_adjusted, alpha):
            return _table(names, plant, units, p_adjusted, alpha)


def _compared_units(plant, run, record):
    states, u = run.filtered, record.known[:, : record.partition.n_inputs]
    inputs = np.vstack([np.zeros((1, u.shape[1])), (u - u.mean(axis=0))[:-1]]) if u.shape[1] else u
    inputs[list(record.starts)] = 0.0
    found = []
    starts = window_starts(record.n_samples)
    for unit, innovations in enumerate(unit_innovations(run, record, plant.A)):
        responses = UnitResponses(innovations, states, plant.n_lags + FURTHER_LAGS)
        groups = unit_hypotheses(unit, responses, plant, inputs)
        tests = UnitTests(innovations, groups, starts, plant.n_samples)
        found.append(UnitComparison(unit, tests, responses, innovations.white.ravel()))
    return found


def _family(plant, unit, cause):
    if unit == cause:
        return OWN
    return LINK if plant.is_linked(unit, cause) else GAP


def _calibrate(plant, units, rng):
    """How many independent tests the smallest p-value of a row is of, by family, from draws under no change."""
    drawn: dict[str, list] = {LINK: [], GAP: [], OWN: []}
    for unit in units:
        for cause, minima in unit.minima(unit.tests.null_draws(rng)).items():
            drawn[_family(plant, unit.unit, cause)].append(minima)
    n_tests = {family: effective_tests(found) for family, found in drawn.items() if found}
    for unit in units:
        unit.n_tests = n_tests


def _test(plant, unit):
    """P-values of everything that is not yet found to be changed, given what is."""
    for cause, minimum in unit.minima(unit.white).items():
        if cause not in unit.changes:
            family = _family(plant, unit.unit, cause)
            unit.log_p[cause] = float(log_p_of_minimum(minimum, unit.n_tests[family]))


def _adjusted(plant, units):
    """Adjusted p-values by (effect, cause)."""
    keys = [(unit.unit, cause) for unit in units for cause in unit.log_p]
    families = np.array([_family(plant, *key) for key in keys])
    shares = {family: _LEVELS[family] / np.count_nonzero(families == family) for family in np.unique(families)}
    weights = np.array([shares[family] for family in families])
    log_p = np.array([units[effect].log_p[cause] for effect, cause in keys])
    return dict(zip(keys, weighted_holm(log_p, weights / weights.sum()), strict=True))


def _explain_next(plant, units, p_adjusted, alpha):
    """Take the surest change of every unit out of its innovations; whether there was any."""
    found = False
    for unit in units:
        left = [cause for cause in unit.log_p if cause not in unit.changes and p_adjusted[unit.unit, cause] <= alpha]
        if left and len(unit.changes) < _EXPLAINED:
            cause = min(left, key=lambda n: unit.log_p[n])
            unit.changes[cause], explained = _change(plant, unit, cause)
            unit.white = unit.white - explained
            _test(plant, unit)
            found = True
    return found


def _change(plant, unit, cause):
    """What a change is, and what it adds to the innovations."""
    number, start = unit.best(cause)
    row, kind, shift = int(unit.tests.starts[start]), unit.kinds[number], int(unit.shifts[number])
    if cause == unit.unit:
        Z = None if kind == VARIANCE else _regressors(unit.tests.groups, number)
        return change_of_unit(unit, Z, row)
    if plant.is_linked(unit.unit, cause):
        return change_of_link(plant, unit, cause, kind, shift, row)
    return new_link(plant, unit, cause, shift, row)


def _regressors(groups, number):
    """Regressors of a hypothesis by its number among all."""
    for group in groups:
        if number < len(group.kinds):
            return group.regressors[:, number]
        number -= len(group.kinds)
    raise IndexError(number)


def _table(names, plant, units, p_adjusted, alpha):
    rows = []
    for unit in units:
        for cause in sorted(unit.log_p):
            adjusted = p_adjusted[unit.unit, cause]
            change = unit.changes.get(cause)
            if change is None:
                change = _unchanged(plant, unit, cause, alpha)
            told = (names[cause], names[unit.unit], cause in unit.changes, change.verdict)
            rows.append((*told, float(np.exp(unit.log_p[cause])), adjusted, *change.numbers))
    table = pd.DataFrame(rows, columns=COLUMNS)
    explained = {names[unit.unit] for unit in units if set(unit.changes) - {unit.unit}}
    own = table["cause"] == table["effect"]
    behind = own & table["effect"].isin(explained)
    order = pd.DataFrame({"changed": ~table["changed"], "behind": behind, "p": table["p_adjusted"], "own": own})
    return table.loc[order.sort_values(["changed", "behind", "p", "own"], kind="stable").index].reset_index(drop=True)


def _unchanged(plant, unit, cause, alpha):
    """What is said of a row without a change: whether the record would have shown one."""
    family = _family(plant, unit.unit, cause)
    if family == OWN:
        spread = float(np.sqrt(np.square(unit.white).sum() / max(unit.tests.innovations.n_told.sum(), 1)))
        return Change("unchanged", 1.0, spread, np.nan, np.nan, np.nan)
    n_rows = sum(_family(plant, unit.unit, n) == family for n in unit.log_p) * plant.partition.n_units
    level = _LEVELS[family] * alpha / n_rows / unit.n_tests[family]
    counts = np.array([unit.tests.innovations.n_told.sum()], dtype=float)
    share = unit.tests._share(counts)[0] * counts[0] / max(np.square(unit.white).sum(), 1e-300)
    if family == LINK:
        z = unit.responses.kernel(plant.kernel(unit.unit, cause), plant.partition.slices[cause])
        shown, needed = share * (z @ z), stats.norm.isf(level / 2) + _SURE
        before, lag = plant.strength(unit.unit, cause, plant.kernel(unit.unit, cause)), plant.first_lag(unit.unit, cause)
        after = before * abs(1 + z @ unit.white / max(z @ z, 1e-300))
        verdict = "unchanged" if shown >= needed**2 else "cannot tell"
        return Change(verdict, before, after, float(lag), float(lag), np.nan)
    block = unit.responses.block(1, plant.partition.slices[cause])
    size = np.einsum("rij,rij->ij", block, block)
    unit_change = plant.of_strength(unit.unit, cause, plant.usual_strength(_VISIBLE))
    shown = share * float(np.sum(size * unit_change**2))
    needed = np.sqrt(stats.chi2.isf(level, size.size)) + _SURE
    return Change("unchanged" if shown >= needed**2 else "cannot tell", 0.0, 0.0, np.nan, np.nan, np.nan)
