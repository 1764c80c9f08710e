"""Level shifts nobody announced: where they happened, before anything else is estimated.

A shift of the operating point in mid-record is shared by all units it reaches and looks like links in both
directions. A unit that shifted, fitted without the shift, is driven to a unit root instead, so that its
innovations show a spike where they should show a step. Hence the order of things: (1) where would one step
split the unit's scores best, (2) does the likelihood of the unit's own model rise enough when the step is a
term of it, (3) where exactly, by the likelihood ratio of a step in the innovations of *that* model [1]_,
left in, and (4) is there another one. Units move their onsets together where these lie close. Which
units a step acts on is the business of the search for the structure.

References
----------
.. [1] Willsky, Jones (1976), A generalized likelihood ratio approach to the detection and estimation of
       jumps in linear systems, IEEE Transactions on Automatic Control 21(1).
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special

from ...statespace.episodes import episodes
from ...statespace.matrices import spectral_radius
from .blocktests import step_estimates
from .unit_record import SHORTEST

SHIFT_LEVEL = 1e-3  # probability of finding a shift anywhere in a record without one
_MOST = 5  # shifts of one unit
_TOGETHER = 25  # rows within which units shift together
_CLEAR = 0.5  # share of the strongest likelihood ratio whose onset counts as well
_MOVES = 3  # times that an onset is moved
_PROMISING = 0.5  # share of the threshold that a split has to promise to be looked at
# T (1 - radius) below which a unit with a step may be a random walk: 98 of 100 walks with their best step
# are; half as much more for each further one
_DRIFT = 40.0


def unit_onsets(unit, threshold):
    """Rows at which the level of a unit shifts."""
    found, fit = [], None
    while len(found) < _MOST:
        more, fit, ratio = _next_onsets(unit, [onset for onset, _ in found], fit, threshold)
        if not more:
            break
        found += [(onset, ratio / len(more)) for onset in more]
    return [] if found and _drifts(fit, len(unit.scores), len(found)) else found


def _next_onsets(unit, known, fit, threshold):
    """One more onset, or two (there and back) where one says too little, with the model and the ratio.

    `fit` is the model with the known ones, None if that is not known yet.
    """
    onsets, promising = [], False
    for n_more in (1, 2):
        onset, expected = unit.best_split([*known, *onsets])
        if onset is None:
            break
        promising = promising or expected >= _PROMISING * threshold
        onsets.append(onset)
        if not promising:
            continue
        fit = unit.fit(known) if fit is None else fit
        trial = unit.fit([*known, *onsets])
        refine = _by_innovations if unit.present is None else _by_likelihood
        for k in range(n_more):
            others = onsets[:k] + onsets[k + 1 :]
            onsets[k], trial = refine(unit, onsets[k], [*known, *others], trial)
        ratio = 2 * len(unit.scores) * float(trial.value[0] - fit.value[0])
        if ratio >= n_more * threshold:
            ratio /= unit.misfit([*known, *onsets], trial)
        if ratio >= n_more * threshold:
            return onsets, trial, ratio
    return [], fit, 0.0


def _by_innovations(unit, onset, others, fit):
    """The onset moved to where the innovations of the model with it want it, and the model there."""
    for _ in range(_MOVES):
        moved = unit.moved(onset, others, fit)
        if moved == onset or any(abs(moved - other) < SHORTEST for other in others):
            break
        again = unit.fit([*others, moved])
        if again.value[0] <= fit.value[0]:
            break
        onset, fit = moved, again
    return onset, fit


def _by_likelihood(unit, onset, others, fit):
    """The same by trying: innovations of records with gaps have no common scale."""
    pieces = episodes(sorted({*unit.starts, *others}), len(unit.scores))
    start, stop = next((start, stop) for start, stop in pieces if start <= onset < stop)
    for jump in (4, 2, 1):
        moving = True
        while moving:
            moving = False
            for trial in (onset - jump, onset + jump):
                if not start + SHORTEST <= trial <= stop - SHORTEST:
                    continue
                again = unit.fit([*others, trial])
                if again.value[0] > fit.value[0]:
                    onset, fit, moving = trial, again, True
                    break
    return onset, fit


def _drifts(fit, n_rows, n_steps):
    """Whether a unit is a random walk still: a walk cut into pieces looks a little less like one."""
    slowness = n_rows * (1 - spectral_radius(fit.A[0][:, : len(fit.Q[0])]))
    return bool(slowness < _DRIFT * (1 + n_steps) / 2)


def shift_threshold(n_rows, n_units, dof):
    """Likelihood ratio that no step at any row of any unit reaches by chance (Bonferroni)."""
    return float(special.chdtri(dof, SHIFT_LEVEL / (n_rows * n_units)))


def find_level_shifts(units, n_units):
    """Rows at which the level of some unit shifts."""
    found = []
    for unit in units:
        found += unit_onsets(unit, shift_threshold(len(unit.scores), n_units, len(unit.N)))
    kept = []
    for onset, ratio in sorted(found, key=lambda shift: -shift[1]):
        if all(abs(onset - other) > _TOGETHER for other in kept):
            # a shift travels from the unit where it happened to others: later, and maybe clearer there
            clear = [
                other for other, its in found if abs(other - onset) <= _TOGETHER and its >= _CLEAR * ratio
            ]
            kept.append(min(clear))
    return tuple(sorted(kept))


@dataclass(frozen=True)
class LevelShifts:
    """Shifts of levels in a fitted plant."""

    steps: tuple[int, ...]
    levels: np.ndarray  # (n, n_steps)
    units: np.ndarray  # (n_shifts,)
    onsets: np.ndarray  # (n_shifts,)
    statistic: np.ndarray  # (n_shifts,)
    p_value: np.ndarray  # (n_shifts,)
    size: np.ndarray  # (n_shifts,)
    certain: tuple[int, ...]

    @classmethod
    def of(cls, steps, levels, Q, scoring):
        """Shifts of a plant at its maximum."""
        if not steps:
            return cls.none(len(levels))
        partition = scoring.structure.partition
        blocks = step_estimates(scoring)
        inside = scoring.structure.shifted
        units, step = partition.step_pairs.pairs[inside].T
        onsets = np.array(steps)[step]
        statistic, p_value = blocks.statistic[inside], blocks.p_value[inside]
        bound = SHIFT_LEVEL / (scoring.n_samples * partition.n_units)
        size = [
            _length(levels[rows, k], Q[rows, rows])
            for rows, k in zip([partition.slices[m] for m in units], step, strict=True)
        ]
        certain = tuple(onset for onset in steps if (p_value[onsets == onset] <= bound).any())
        return cls(steps, levels, units, onsets, statistic, p_value, np.array(size), certain)

    @classmethod
    def none(cls, n_states):
        """A plant without shifts."""
        integers, numbers = np.zeros(0, dtype=int), np.zeros(0)
        return cls((), np.zeros((n_states, 0)), integers, integers, numbers, numbers, numbers, ())

    def table(self, names):
        """One row per shift: ``unit, start, size, statistic, p_value``, in order of time."""
        table = pd.DataFrame(
            {
                "unit": np.asarray(names, dtype=object)[self.units],
                "start": self.onsets,
                "size": self.size,
                "statistic": self.statistic,
                "p_value": self.p_value,
            }
        )
        return table.sort_values("start", kind="stable", ignore_index=True)


def _length(b, Q):
    """Length of a vector in standard deviations of noise with covariance Q."""
    return float(np.sqrt(b @ np.linalg.solve(Q, b)))
