"""Level shifts nobody announced: where they happened, before anything else is estimated.

A shift of the operating point in mid-record is shared by all units it reaches and looks like links in both
directions. So each unit's scores are searched for changes of level, sudden ones and ramps, beside its own past and
the inputs (:mod:`skfedcausal.statespace.segments`). Changes that begin close to each other are one for all units;
which units it acts on is the business of the search for the structure.
"""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ...statespace.segments import Change, LevelRegression
from .block_tests import link_estimates
from .scoring import is_spent, spend
from .tuning import TUNING

SHIFT_LEVEL = 1e-3  # probability that a step which says nothing stays in a plant
_TOGETHER = 25  # rows within which units shift together


class UnitRecord(NamedTuple):
    """One unit on its own, and the budget that its search is counted in.

    `scores` (n_samples, p) are less their mean in each episode, `present` (n_samples, p) is one where one is there
    (None: everywhere), `inputs` (n_samples, k) are those of all units.
    """

    scores: np.ndarray
    present: np.ndarray | None
    inputs: np.ndarray
    starts: tuple[int, ...]
    budget: Any = None

    def regression(self):
        """The `LevelRegression` of its scores, None where they are too short."""
        spend(self, TUNING.level_shifts_work * len(self.scores))
        seen = None if self.present is None else self.present.astype(bool).all(axis=1)
        return LevelRegression.of(self.scores, self.starts, known=self.inputs, present=seen)


def find_level_shifts(units, n_units):
    """Changes of the level of some unit, and those that may as well be none, tuples of `Change`."""
    return joined_shifts(*shifts_of(units, n_units))


def shifts_of(units, n_units, with_doubts=True):
    """Changes of some of `n_units` units, and changes in doubt of those that have none."""
    found: list[Change] = []
    doubtful: list[Change] = []
    for unit in units:
        if is_spent(unit):
            break
        regression = unit.regression()
        if regression is None:
            continue
        changes = regression.changes()
        found += changes
        if with_doubts and not changes:
            doubtful += regression.changes(TUNING.level_shifts_doubt_level / n_units)
    return found, doubtful


def joined_shifts(found, doubtful=()):
    """Changes, and those in doubt, one for all units that shift together."""
    kept: list[Change] = []
    for change in sorted(found, key=lambda change: -change.ratio):
        if _is_apart(change, kept):
            # a shift travels from the unit where it happened to others: later, and maybe clearer there
            together = [other for other in found if not _is_apart(other, [change])]
            kept.append(min(other for other in together if other.ratio >= TUNING.level_shifts_clear * change.ratio))
    apart: list[Change] = []
    for change in sorted(doubtful):
        if _is_apart(change, [*kept, *apart[-1:]]):
            apart.append(change)
    return tuple(sorted(kept)), tuple(apart)


def _is_apart(change, others):
    """Whether a change begins far from where others do."""
    return all(abs(change.start - other.start) > _TOGETHER for other in others)


class LevelShifts(NamedTuple):
    """Shifts of levels in a fitted plant, and those of them that are `kept`, as they are certain.

    Of several that are not, the clearest stays for another look: two that stand for one shift take each other's place.
    """

    table: pd.DataFrame  # unit, start, size in standard deviations of the process noise, statistic, p_value
    kept: tuple[Change, ...]

    @classmethod
    def of(cls, names, steps, levels, Q, scoring):
        """Shifts of a plant at its maximum, whose states are driven to `levels` (n, n_steps) by the steps."""
        partition, inside = scoring.structure.partition, scoring.structure.shifted
        units, step = partition.step_pairs.pairs[inside].T
        statistic = p_value = np.zeros(0)
        if steps:
            blocks = link_estimates(scoring, "step")
            statistic, p_value = blocks.statistic[inside], blocks.p_value[inside]
        size, onsets = np.empty(len(units)), np.array([change.start for change in steps], dtype=int)[step]
        for k, (unit, column) in enumerate(zip(units, step, strict=True)):
            rows = partition.slices[unit]
            b = levels[rows, column]
            size[k] = np.sqrt(b @ np.linalg.solve(Q[rows, rows], b))
        bound = SHIFT_LEVEL / (scoring.n_samples * partition.n_units)
        clearest = {change: p_value[step == k].min(initial=1.0) for k, change in enumerate(steps)}
        open_ones = [change for change in steps if clearest[change] > bound]
        again = min(open_ones, key=clearest.__getitem__) if len(open_ones) > 1 else None
        kept = tuple(change for change in steps if change not in open_ones or change == again)
        columns = {"unit": np.asarray(names, dtype=object)[units], "start": onsets, "size": size}
        table = pd.DataFrame(columns | {"statistic": statistic, "p_value": p_value})
        return cls(table.sort_values("start", kind="stable", ignore_index=True) if len(table) else table, kept)
