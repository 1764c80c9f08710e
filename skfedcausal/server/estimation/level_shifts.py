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

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import special

from ...statespace.detection.shift import InnovationModel, best_onset
from ...statespace.episodes import TransitionMoments, episodes, lag_covariances, remove_episode_means
from ...statespace.inputs import input_term
from ...statespace.kalman import filtered_states, predicted_states
from ...statespace.matrices import floor_eigenvalues, spectral_radius
from ...statespace.units import errors_in_variables, fit_units
from ..joint import step_series
from .block_tests import link_estimates
from .scoring import is_spent, spend

SHIFT_LEVEL = 1e-3  # probability of finding a shift anywhere in a record without one
_DOUBT_LEVEL = 1e-2  # probability of being in doubt about one
_SPLITS = 20  # places of a step that differ: the largest of as many ratios has about the law that Andrews (1993) found
SHORTEST = 20  # rows between two shifts, and between a shift and the end of an episode
_MOST = 5  # shifts of one unit
_TOGETHER = 25  # rows within which units shift together
_CLEAR = 0.5  # share of the strongest likelihood ratio whose onset counts as well
_MOVES = 3  # times that an onset is moved
_PROMISING = 0.5  # share of the threshold that a split has to promise to be looked at
_WITHIN_REACH = 0.5  # share of it that two splits have to reach for their onsets to be moved, but for slow units
# T (1 - radius) below which a unit with a step may be a random walk: 98 of 100 walks with their best step
# are; half as much more for each further one
_DRIFT = 40.0
_LATE = (10, 20, 30, 40, 60, 80, 100, 130, 160, 200)  # rows after an onset at which a slow unit seems to shift
_HARD_PUSH = 0.8  # that no best step of 180 walks of 1000 to 5000 rows reached; of those none was above 17 rows
_FLOOR = 1e-9
_PIECE = 1 << 13  # rows of a stretch of which each is looked at as the first of another level
_SUMS = 2  # lagged products, from lag zero, of which the covariance in the long run is made
_LOW = 16  # frequencies that count as low: steps are slower than the fastest of them
_MOST_LAGS = 60  # a shift makes a unit without it look like a random walk, which asks for many
_TOL = 0.02  # log-likelihood that a unit's climb may leave: what decides is a few hundred times as much
_STEP = 2e6  # operations of a step of it, about, where coefficients are few


def shift_threshold(n_rows, n_units, dof):
    """Likelihood ratio that no step at any row of any unit reaches by chance (Bonferroni)."""
    return float(special.chdtri(dof, SHIFT_LEVEL / (n_rows * n_units)))


def find_level_shifts(units, n_units):
    """Rows at which the level of some unit shifts, and rows at which it may as well not."""
    return joined_shifts(*shifts_of(units, n_units))


def shifts_of(units, n_units, with_doubts=True):
    """Shifts of some of `n_units` units, pairs of an onset and its likelihood ratio, and onsets in doubt."""
    found: list[tuple[int, float]] = []
    doubtful: list[int] = []
    for unit in units:
        if is_spent(unit):
            break
        dof = len(unit.N)
        onsets = unit_onsets(unit, shift_threshold(len(unit.scores), n_units, dof))
        found += onsets
        if with_doubts and not onsets:
            doubtful += _next_onsets(unit, [], None, special.chdtri(dof, _DOUBT_LEVEL / (n_units * _SPLITS)))[0]
    return found, doubtful


def joined_shifts(found, doubtful=()):
    """Rows of shifts and of those in doubt, one for all units that shift together."""
    kept: list[int] = []
    for onset, ratio in sorted(found, key=lambda shift: -shift[1]):
        if all(abs(onset - other) > _TOGETHER for other in kept):
            # a shift travels from the unit where it happened to others: later, and maybe clearer there
            clear = [other for other, its in found if abs(other - onset) <= _TOGETHER and its >= _CLEAR * ratio]
            kept.append(min(clear))
    apart = sorted(onset for onset in doubtful if all(abs(onset - other) > _TOGETHER for other in kept))
    return tuple(sorted(kept)), tuple(o for k, o in enumerate(apart) if not k or o - apart[k - 1] > _TOGETHER)


def unit_onsets(unit, threshold):
    """Rows at which the level of a unit shifts."""
    found: list[tuple[int, float]] = []
    fit = None
    while len(found) < _MOST and not is_spent(unit):
        more, fit, ratio = _next_onsets(unit, [onset for onset, _ in found], fit, threshold)
        if not more:
            break
        found += [(onset, ratio / len(more)) for onset in more]
    if fit is not None and found:  # a random walk cut into pieces looks a little less like one
        slowness = _slowness(unit, fit)
        least = _DRIFT / 2 if _push(fit, len(found)) >= _HARD_PUSH else _DRIFT
        if slowness < least * (1 + len(found)) / 2:
            return []
    return found


def _slowness(unit, fit):
    """Rows of a record over the rows that a unit remembers."""
    return len(unit.scores) * (1 - spectral_radius(fit.A[0][:, : len(fit.Q[0])]))


def _earlier(unit, onset, others, fit):
    """The likeliest of some onsets up to one, with what a refinement takes beside it."""
    start = max((first for first in (*unit.starts, *others) if first <= onset), default=0)
    best = onset, fit
    for rows in _LATE:
        if onset - rows >= start + SHORTEST and not is_spent(unit):
            trial = unit.fit([*others, onset - rows])
            best = max(best, (onset - rows, trial), key=lambda each: each[1].value[0])
    return best[0], others, best[1]


def _push(fit, n_steps):
    """Largest push of the last columns of a unit's model, in standard deviations of its process noise."""
    Q = fit.Q[0]
    B = fit.A[0][:, len(Q) :][:, -n_steps:]
    return float(np.sqrt(np.einsum("ik,ik->k", B, np.linalg.solve(Q, B)).max(initial=0.0)))


def _next_onsets(unit, known, fit, threshold):
    """One more onset, or two (there and back) where one says too little, with the model and the ratio.

    `fit` is the model with the known ones, None if that is not known yet.
    """
    onsets: list[int] = []
    promising = False
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
        ratio, is_slow = _ratio(unit, fit, trial), _slowness(unit, trial) < _DRIFT
        if n_more == 1 or is_slow or ratio >= _WITHIN_REACH * n_more * threshold:
            trial = _moved(unit, onsets, known, trial)
            ratio = _ratio(unit, fit, trial)
        if ratio >= n_more * threshold:
            ratio /= unit.misfit([*known, *onsets], trial)
        if ratio >= n_more * threshold:
            return onsets, trial, ratio
    return [], fit, 0.0


def _ratio(unit, fit, trial):
    """Likelihood ratio of a model with more onsets."""
    return 2 * len(unit.scores) * float(trial.value[0] - fit.value[0])


def _moved(unit, onsets, known, trial):
    """The model with the onsets, one after the other, moved to where they are likeliest; the list changes."""
    refine = _by_innovations if unit.present is None else _by_likelihood
    for k in range(len(onsets)):
        others = onsets[:k] + onsets[k + 1 :]
        onsets[k], trial = refine(unit, onsets[k], [*known, *others], trial)
        if _slowness(unit, trial) < _DRIFT:  # it settles for so long that the best split comes late
            onsets[k], trial = refine(unit, *_earlier(unit, onsets[k], [*known, *others], trial))
    return trial


def _by_innovations(unit, onset, others, fit):
    """The onset moved to where the innovations of the model with it want it, and the model there."""
    for _ in range(_MOVES):
        moved = unit.moved(onset, others)
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
        while moving and not is_spent(unit):
            moving = False
            for trial in (onset - jump, onset + jump):
                if not start + SHORTEST <= trial <= stop - SHORTEST:
                    continue
                again = unit.fit([*others, trial])
                if again.value[0] > fit.value[0]:
                    onset, fit, moving = trial, again, True
                    break
    return onset, fit


class UnitRecord:
    """One unit on its own: where a step would split its scores best, and what its own model gains by it.

    `scores` (n_samples, p) are less their mean in each episode and zero where missing, `present` is one where
    one is there (None: everywhere); N is the covariance of scores around the states, `inputs` (n_samples, k)
    are those of all units, less their mean in each episode, and `sums` those of lagged products of the
    scores, as far as they are known. The work is counted in a `budget`, if there is one.
    """

    def __init__(self, scores, present, N, inputs, starts, n_lags, sums=None, budget=None):
        self.scores, self.present, self.N, self.inputs = scores, present, N, inputs
        self.starts, self.n_lags, self.budget = starts, n_lags, budget
        known = sums is not None and len(sums) >= _SUMS
        self._sums = sums[:_SUMS] if known else lag_covariances(scores, range(_SUMS), starts)
        sample = self._sums[0] / len(scores)
        floor = np.trace(sample) * _FLOOR
        # its transpose whitens the scores
        self._root = np.linalg.cholesky(np.linalg.inv(floor_eigenvalues(sample, floor)))
        self._step = step = -(-len(scores) // _PIECE)  # rows of a block whose sum is kept
        whole, p = len(scores) // step, len(N)
        add = np.tile(np.eye(p), (step, 1))  # one product is several times faster than sums of few rows
        self._before = np.zeros((whole + 1, p))  # sums of the scores before every block
        np.cumsum(scores[: whole * step].reshape(whole, -1) @ add, axis=0, out=self._before[1:])
        self._known: dict = {}  # what was asked before: doubts begin with the same questions as shifts

    def _once(self, what, find, *asked):
        """The answer to a question about onsets, found at the first time it is asked."""
        key = what, *asked
        if key not in self._known:
            self._known[key] = find(*asked)
        return self._known[key]

    def steps(self, onsets):
        """Centred steps, shape (n_samples, n_onsets)."""
        return remove_episode_means(step_series(sorted(onsets), self.starts, len(self.scores)), self.starts)

    def fit(self, onsets):
        """Maximum likelihood of the unit alone, its level shifting at the onsets."""
        return self._once("fit", self._fitted, tuple(sorted(onsets)))

    def _fitted(self, onsets):
        columns = np.hstack([self.scores, self.inputs, self.steps(onsets)])
        present = self.present
        if present is not None:
            known = columns.shape[1] - present.shape[1]
            present = np.hstack([present, np.ones((len(present), known))])
        sums = lag_covariances(columns, range(min(self.n_lags, _MOST_LAGS) + 2), self.starts, present)
        moments = TransitionMoments.from_sums(sums, columns, self.starts)
        fit = fit_units(moments.blocks([slice(0, columns.shape[1])]), self.N[None], tol=_TOL)
        products = 0.5 * columns.size * columns.shape[1] * len(sums)
        spend(self, products + (fit.n_iter + 1) * (_STEP + 2.0 * fit.A.size**3))
        return fit

    def best_split(self, onsets):
        """Row that splits a stretch of constant level best, and about what likelihood ratio to expect of it.

        The split is the best for white scores; the ratio is that of a step in scores as correlated in time
        as they are around both levels, by a moment estimate.
        """
        return self._once("split", self._best_split, tuple(sorted(onsets)))

    def _best_split(self, onsets):
        best = (None, 0.0)
        for start, stop in episodes(sorted({*self.starts, *onsets}), len(self.scores)):
            best = max(best, self._split(start, stop), key=lambda split: split[1])
        if best[0] is None:
            return best
        long_run = self._long_run_covariance([*onsets, best[0]])
        whitened = self._root.T @ long_run @ self._root
        return best[0], best[1] / float(np.linalg.eigvalsh(whitened)[-1])

    def _split(self, start, stop):
        """Best row to split a stretch, with its statistic: of every few rows in long records, and of all
        around the best of them.
        """
        counts, total = None, stop - start
        if self.present is not None:
            counts = np.cumsum(self.present[start:stop, 0])
            total = counts[-1]
        if total < 2 * SHORTEST:
            return None, 0.0
        before, after = (self._walk(row, row, 1)[1] for row in (start, stop))

        def best_of(first, last, step):
            rows, walk = self._walk(first, last, step)
            n = (rows - start).astype(float) if counts is None else counts[rows - start - 1]
            walk -= before
            walk -= np.multiply.outer(n, (after - before)[0] / total)
            walk = walk @ self._root
            statistic = np.einsum("tp,tp->t", walk, walk)
            statistic /= np.maximum(n * (total - n), total) / total
            k = int(statistic.argmax())
            return int(rows[k]), float(statistic[k])

        first, last = start + SHORTEST, stop - SHORTEST
        if stop - start <= _PIECE:
            return best_of(first, last, 1)
        row, _ = best_of(first, last, self._step)
        return best_of(max(row - self._step, first), min(row + self._step, last), 1)

    def _walk(self, first, last, step):
        """Rows from `first` to `last`, and sums of the scores before each of them.

        Every row, or where `step` is the size of a block the first rows of blocks.
        """
        blocks = self._before
        if step > 1:
            chosen = np.arange(-(-first // step), last // step + 1)
            return chosen * step, blocks[chosen]
        block = min(first // self._step, len(blocks) - 1)
        sums = blocks[block] + np.cumsum(self.scores[block * self._step : last], axis=0)
        sums = np.concatenate([blocks[block : block + 1], sums])
        return np.arange(first, last + 1), sums[first - block * self._step :]

    def _long_run_covariance(self, onsets):
        """Of the scores around the levels between the onsets."""
        starts = sorted({*self.starts, *onsets})
        if self.present is None:
            sums = self._sums.copy()
            for border in sorted({*onsets} - {*self.starts}):
                sums[1] -= self.scores[border][:, None] * self.scores[border - 1]
            for start, stop in episodes(starts, len(self.scores)):
                rows = self.scores[start:stop]
                total = np.ones(len(rows)) @ rows
                level = total / len(rows)
                late, early = total - rows[0], total - rows[-1] - (len(rows) - 1) * level
                sums[0] -= total[:, None] * level
                sums[1] -= late[:, None] * level + level[:, None] * early
        else:
            sums = lag_covariances(remove_episode_means(self.scores, starts), range(_SUMS), starts, self.present)
        G0, G1 = sums[:_SUMS] / max(len(self.scores) - len(starts), 1)
        A, Q = errors_in_variables(G0, G1, self.N)
        gain = np.linalg.inv(np.eye(len(A)) - A)
        return gain @ Q @ gain.T + self.N

    def moved(self, onset, others):
        """The onset that the innovations of the unit's filter ask for, the other steps given."""
        return self._once("move", self._moved, onset, tuple(sorted(others)))

    def _moved(self, onset, others):
        fit = self.fit([*others, onset])
        place = len(self.N) + self.inputs.shape[1] + sorted([*others, onset]).index(onset)
        model, u = self._innovations(np.delete(fit.A[0], place, axis=1), fit.Q[0], others)
        for start, stop in episodes(self.starts, len(u)):
            if start < onset < stop:
                return start + best_onset(model, u[start:stop], SHORTEST)
        raise ValueError(f"Row {onset} is the first of an episode.")

    def _innovations(self, A, Q, onsets):
        """The filter of the unit's model ``[A | B]`` and its scaled innovations."""
        p, known = len(self.N), np.hstack([self.inputs, self.steps(onsets)])
        model = InnovationModel(A[:, :p], Q, np.linalg.inv(self.N))
        term = input_term(A[:, p:], known, self.starts) if known.shape[1] else None
        z = self.scores @ model.J
        settings = {"starts": self.starts, "exogenous": term}
        filtered = filtered_states(model.schedule, (z, None), **settings)
        return model, model.scaled(z, predicted_states(model.A, filtered, **settings))

    def misfit(self, onsets, fit):
        """What chance makes of a likelihood ratio of steps where the model does not fit, at least one.

        Twice the log-likelihood that a step gains is chi-square if innovations are white. If they are not, as
        where a unit has slow states that its model lacks, sums of them over long stretches vary by their
        power at low frequencies instead. That is the geometric mean of the lowest ordinates of their
        periodogram, corrected for its bias: steps that are still to be found fill few ordinates and hardly
        move it. Where measurements are missing innovations have no common scale; the model is trusted then.
        """
        if self.present is not None:
            return 1.0
        u = remove_episode_means(self._innovations(fit.A[0], fit.Q[0], onsets)[1], self.starts)
        power = np.abs(np.fft.rfft(u, axis=0)[1 : _LOW + 1]) ** 2
        p = u.shape[1]
        ordinates = (power / np.einsum("ti,ti->i", u, u)).mean(axis=1)
        return max(float(np.exp(np.log(ordinates).mean() + np.log(p) - special.digamma(p))), 1.0)


class LevelShifts(NamedTuple):
    """Shifts of levels in a fitted plant, and the onsets `kept` of them: those that are certain.

    Of several that are not, the clearest stays for another look: two onsets of one shift take each other's place.
    """

    table: pd.DataFrame  # unit, start, size in standard deviations of the process noise, statistic, p_value
    kept: tuple[int, ...]

    @classmethod
    def of(cls, names, steps, levels, Q, scoring):
        """Shifts of a plant at its maximum, whose states are driven to `levels` (n, n_steps) by the steps."""
        partition, inside = scoring.structure.partition, scoring.structure.shifted
        units, step = partition.step_pairs.pairs[inside].T
        statistic = p_value = np.zeros(0)
        if steps:
            blocks = link_estimates(scoring, "step")
            statistic, p_value = blocks.statistic[inside], blocks.p_value[inside]
        size, onsets = np.empty(len(units)), np.array(steps, dtype=int)[step]
        for k, (unit, column) in enumerate(zip(units, step, strict=True)):
            rows = partition.slices[unit]
            b = levels[rows, column]
            size[k] = np.sqrt(b @ np.linalg.solve(Q[rows, rows], b))
        bound = SHIFT_LEVEL / (scoring.n_samples * partition.n_units)
        clearest = {onset: p_value[onsets == onset].min(initial=1.0) for onset in steps}
        open_ones = [onset for onset in steps if clearest[onset] > bound]
        again = min(open_ones, key=clearest.__getitem__) if len(open_ones) > 1 else None
        kept = tuple(onset for onset in steps if onset not in open_ones or onset == again)
        columns = {"unit": np.asarray(names, dtype=object)[units], "start": onsets, "size": size}
        table = pd.DataFrame(columns | {"statistic": statistic, "p_value": p_value})
        return cls(table.sort_values("start", kind="stable", ignore_index=True) if len(table) else table, kept)
