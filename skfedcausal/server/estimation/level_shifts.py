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
from functools import cached_property

import numpy as np
import pandas as pd
from scipy import special

from ...statespace.episodes import episodes
from ...statespace.filter import filtered_states, predicted_states
from ...statespace.inputs import input_term
from ...statespace.lagcov import TransitionMoments, lag_covariances, remove_episode_means
from ...statespace.positive import floor_eigenvalues, spectral_radius
from ...statespace.shift import InnovationModel, best_onset
from ...statespace.units import fit_units, moment_start
from ..joint import step_series
from .blocktests import step_estimates

SHIFT_LEVEL = 1e-3  # probability of finding a shift anywhere in a record without one
_SHORTEST = 20  # rows between two shifts, and between a shift and the end of an episode
_MOST = 5  # shifts of one unit
_TOGETHER = 25  # rows within which units shift together
_CLEAR = 0.5  # share of the strongest likelihood ratio whose onset counts as well
_MOVES = 3  # times that an onset is moved
_PROMISING = 0.5  # share of the threshold that a split has to promise to be looked at
_FLOOR = 1e-9
_SUMS = 3  # lagged products, from lag zero, of which the covariance in the long run is made
# T (1 - radius) below which a unit with a step may be a random walk: 98 of 100 walks with their best step
# are; half as much more for each further one
_DRIFT = 40.0
_LOW = 16  # frequencies that count as low: steps are slower than the fastest of them
_MOST_LAGS = 60  # a shift makes a unit without it look like a random walk, which asks for many


@dataclass(frozen=True)
class UnitRecord:
    """What is known about one unit.

    Attributes
    ----------
    scores : ndarray of shape (n_samples, p)
        Less their mean in each episode, zero where missing.
    present : ndarray of shape (n_samples, p) or None
        One where a score is there; None where all are.
    N : ndarray of shape (p, p)
        Covariance of the scores around the states.
    inputs : ndarray of shape (n_samples, k)
        Inputs of all units, less their mean in each episode.
    starts : tuple of int
    n_lags : int
    sums : ndarray of shape (n, p, p), default=None
        Sums of lagged products of the scores, as far as they are known.
    """

    scores: np.ndarray
    present: np.ndarray | None
    N: np.ndarray
    inputs: np.ndarray
    starts: tuple[int, ...]
    n_lags: int
    sums: np.ndarray | None = None

    def steps(self, onsets):
        """Centred steps, shape (n_samples, n_onsets)."""
        return remove_episode_means(step_series(sorted(onsets), self.starts, len(self.scores)), self.starts)

    def fit(self, onsets):
        """Maximum likelihood of the unit alone, its level shifting at the onsets."""
        columns = np.hstack([self.scores, self.inputs, self.steps(onsets)])
        present = self.present
        if present is not None:
            known = columns.shape[1] - present.shape[1]
            present = np.hstack([present, np.ones((len(present), known))])
        sums = lag_covariances(columns, range(min(self.n_lags, _MOST_LAGS) + 2), self.starts, present)
        moments = TransitionMoments.from_sums(sums, columns, self.starts)
        return fit_units(moments.blocks([slice(0, columns.shape[1])]), self.N[None])

    def best_split(self, onsets):
        """Row that splits a stretch of constant level best, and about what likelihood ratio to expect of it.

        The split is the best for white scores; the ratio is that of a step in scores as correlated in time
        as they are around both levels, by a moment estimate.

        Parameters
        ----------
        onsets : sequence of int
            Known ones.
        """
        best = (None, 0.0)
        for start, stop in episodes(sorted({*self.starts, *onsets}), len(self.scores)):
            if stop - start < 2 * _SHORTEST:
                continue
            counts = np.arange(1.0, stop - start + 1)
            if self.present is not None:
                counts = np.cumsum(self.present[start:stop, 0])
            total = counts[-1]
            if total < 2 * _SHORTEST:
                continue
            inside = slice(_SHORTEST - 1, stop - start - _SHORTEST)
            n, before = counts[inside], self._walk[:, start]
            walk = self._walk[:, start + 1 : stop + 1][:, inside] - before[:, None]
            walk -= ((self._walk[:, stop] - before) / total)[:, None] * n
            spread = np.maximum(n * (total - n), total) / total
            statistic = np.einsum("pt,pt->t", walk, walk) / spread
            k = int(statistic.argmax())
            if statistic[k] > best[1]:
                best = (start + _SHORTEST + k, float(statistic[k]))
        if best[0] is None:
            return best
        long_run = self._long_run_covariance([*onsets, best[0]])
        whitened = self._root.T @ long_run @ self._root
        return best[0], best[1] / float(np.linalg.eigvalsh(whitened)[-1])

    @cached_property
    def _root(self):
        """Matrix whose transpose whitens the scores."""
        sample = self._lag_sums[0] / len(self.scores)
        floor = np.trace(sample) * _FLOOR
        return np.linalg.cholesky(np.linalg.inv(floor_eigenvalues(sample, floor)))

    @cached_property
    def _walk(self):
        """Sums of the whitened scores before each row, shape (p, n_samples + 1)."""
        walk = np.zeros((len(self.N), len(self.scores) + 1))
        np.cumsum(self._root.T @ self.scores.T, axis=1, out=walk[:, 1:])
        return walk

    @cached_property
    def _lag_sums(self):
        """Sums of lagged products of the scores for the first few lags."""
        if self.sums is not None and len(self.sums) >= _SUMS:
            return self.sums[:_SUMS]
        return lag_covariances(self.scores, range(_SUMS), self.starts)

    def _long_run_covariance(self, onsets):
        """Of the scores around the levels between the onsets."""
        starts = sorted({*self.starts, *onsets})
        if self.present is None:
            borders = sorted({*onsets} - {*self.starts})
            sums = _centred_lag_sums(self.scores, self._lag_sums, borders, starts)
        else:
            sums = lag_covariances(remove_episode_means(self.scores, starts), range(3), starts, self.present)
        moments = TransitionMoments.from_sums(sums, np.zeros_like(self.scores), starts)
        A, Q = moment_start(moments, self.N)
        gain = np.linalg.inv(np.eye(len(A)) - A)
        return gain @ Q @ gain.T + self.N

    def moved(self, onset, others, fit):
        """The onset that the innovations of the unit's filter ask for, the other steps given.

        `fit` has the onset and the other steps in order of time.
        """
        place = len(self.N) + self.inputs.shape[1] + sorted([*others, onset]).index(onset)
        model, u = self._innovations(np.delete(fit.A[0], place, axis=1), fit.Q[0], others)
        for start, stop in episodes(self.starts, len(u)):
            if start < onset < stop:
                return start + best_onset(model, u[start:stop], _SHORTEST)
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

        Parameters
        ----------
        onsets : sequence of int
            All steps of the model.
        fit : UnitFit
        """
        if self.present is not None:
            return 1.0
        u = remove_episode_means(self._innovations(fit.A[0], fit.Q[0], onsets)[1], self.starts)
        power = np.abs(np.fft.rfft(u, axis=0)[1 : _LOW + 1]) ** 2
        p = u.shape[1]
        ordinates = (power / np.einsum("ti,ti->i", u, u)).mean(axis=1)
        return max(float(np.exp(np.log(ordinates).mean() + np.log(p) - special.digamma(p))), 1.0)


def _centred_lag_sums(series, sums, borders, starts):
    """Lag sums of a series less its mean between the starts, from those within its episodes.

    Parameters
    ----------
    series : ndarray of shape (n_samples, p)
    sums : ndarray of shape (n_lags, p, p)
    borders : sequence of int
        Starts that are not the first row of an episode; more rows than lags lie between two of them.
    starts : sequence of int
    """
    sums = sums.copy()
    n_lags = len(sums)
    for border in borders:
        for lag in range(1, n_lags):
            sums[lag] -= series[border : border + lag].T @ series[border - lag : border]
    for start, stop in episodes(starts, len(series)):
        rows = series[start:stop]
        total = np.ones(len(rows)) @ rows
        mean = total / len(rows)
        for lag in range(n_lags):
            early, late = total - rows[len(rows) - lag :].sum(axis=0), total - rows[:lag].sum(axis=0)
            sums[lag] += (
                (len(rows) - lag) * np.outer(mean, mean) - np.outer(late, mean) - np.outer(mean, early)
            )
    return sums


def unit_onsets(unit, threshold):
    """Rows at which the level of a unit shifts.

    Parameters
    ----------
    unit : UnitRecord
    threshold : float
        Likelihood ratio (twice the gain in log-likelihood) that a step has to reach.

    Returns
    -------
    list of tuple (onset, likelihood ratio)
    """
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
        if moved == onset or any(abs(moved - other) < _SHORTEST for other in others):
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
                if not start + _SHORTEST <= trial <= stop - _SHORTEST:
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
    """Rows at which the level of some unit shifts.

    Parameters
    ----------
    units : iterable of UnitRecord
    n_units : int

    Returns
    -------
    tuple of int
        In order of time.
    """
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
    """Shifts of levels in a fitted plant.

    Attributes
    ----------
    steps : tuple of int
        Onsets that were looked at.
    levels : ndarray of shape (n, n_steps)
        What each step adds to the state equation from its onset on; zero for units it does not act on.
    units, onsets : ndarray of int, shape (n_shifts,)
        Position of the unit and row of the onset of every shift that was found.
    statistic, p_value : ndarray of shape (n_shifts,)
        Wald test of the shift, everything else given.
    size : ndarray of shape (n_shifts,)
        Length of what is added, in standard deviations of the process noise.
    certain : tuple of int
        Onsets whose strongest shift is beyond what chance gives anywhere in the record.
    """

    steps: tuple[int, ...]
    levels: np.ndarray
    units: np.ndarray
    onsets: np.ndarray
    statistic: np.ndarray
    p_value: np.ndarray
    size: np.ndarray
    certain: tuple[int, ...]

    @classmethod
    def of(cls, steps, levels, Q, scoring):
        """Shifts of a plant at its maximum.

        Parameters
        ----------
        steps : tuple of int
        levels : ndarray of shape (n, n_steps)
            In the units' own states.
        Q : ndarray of shape (n, n)
            Process covariance in the same states.
        scoring : Scoring
        """
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
