"""The record in states of unit variance, level shifts found first, and what the estimation starts from."""

from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ...statespace.episodes import TransitionMoments, lag_covariances
from ...statespace.inputs import input_term
from ...statespace.kalman import (
    filter_radius,
    predicted_covariance,
    simulated_information,
    simulated_states,
    stationary_covariance,
)
from ...statespace.lagged.likelihood import LagSums
from ...statespace.matrices import floor_eigenvalues, symmetric_root
from ...statespace.segments import Change, LevelRegression
from ...statespace.timedomain import KnownInputs, TimeDomainLikelihood, score_contributions, steps_remembered
from ...statespace.whittle import WhittleLikelihood, fit_units, lag_shares, slow_start
from .evidence import link_estimates
from .scoring import Structure, is_spent, spend
from .tuning import TUNING

# Level shifts nobody announced: where they happened, before anything else is estimated.
#
# A shift of the operating point in mid-record is shared by all units it reaches and looks like links in both
# directions. So each unit's scores are searched for changes of level, sudden ones and ramps, beside its own past and
# the inputs (:mod:`skfedcausal.statespace.segments`). Changes that begin close to each other are one for all units;
# which units it acts on is the business of the search for the structure.

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


# The record in states and inputs of unit variance, and what the estimation starts from.

_MIN_LAGS, _MAX_LAGS = 12, 400
_ROWS_PER_LAG = 8  # time steps per lag at least
_TRUNCATION = 2e-3  # what the filter may still remember at the last lag
_OWN_NOISE = 1e-6  # smallest process noise to start from; inputs can seem to explain a unit in full


class StandardisedPlant:
    """A joint record in states ``S_m^-1 h_m`` and inputs of unit variance.

    `local` are the units' own models (A, Q, B or None), or None, in the order of the units; with `fix_local`
    they stay as they are. A stands for the coefficients ``[A | B]``, shape (n_states, n_regressors).

    `state_scale` is the matrix S with ``h = S h_standardised``, `known_scale` the standard deviations of
    inputs and steps, `score_noise` the covariance of the standardised scores around the states.
    `has_all_lags` says whether all units report often enough in neighbouring rows to know all lags, and
    `has_clear_scores` whether the Whittle likelihood of the scores can stand for the exact one: it needs all
    lags, and neglects the edges of the record, which count where a state's noise is about sqrt(T) times its
    variance, unless `edges` says that they do not.
    """

    budget = None  # of the searches for a plant
    may_stand_in = False  # whether Whittle's likelihood of scores may stand for the exact one for want of time
    stands_in = False  # whether it does
    is_whole = False  # whether all links are learned, without a search for those that are there

    def __init__(self, record, local=None, fix_local=False, edges=True):
        self.partition, self.n_samples, self.steps = record.partition, record.n_samples, record.steps
        self.names = record.names
        self.has_constant_information, self.determined = record.is_constant, record.determined
        self.is_complete = bool(record.is_constant and record.determined.all())
        self.starts, self.record, self.scores, self._fix_local = record.starts, record, record.scores, fix_local
        self.known_scale = record.standard_known.scale if self.partition.n_known else np.ones(0)
        local = [None] * len(record.names) if local is None else local
        self._scale = _state_scales(record, self.scores, self.scores.unit_covariances(), local)
        self._local = []
        for model, S, own in zip(local, self._scale, self.partition.input_slices, strict=True):
            if model is not None:
                (A, Q, B), inverse = (*model, None)[:3], np.linalg.inv(S)
                B = None if B is None else inverse @ B * self.known_scale[own]
                model = inverse @ A @ S, inverse @ Q @ inverse.T, B
            self._local.append(model)
        n = self.partition.n_states
        self.state_scale = record.block_diagonal(self._scale)
        self.unscale = record.block_diagonal([np.linalg.inv(S) for S in self._scale])
        self.standardise = np.eye(self.partition.n_regressors)  # standardises scores; inputs are of unit variance
        self.standardise[:n, :n] = self.unscale
        self.score_noise = self.unscale @ record.block_diagonal(self.scores.noise) @ self.unscale.T
        # of products of two units' scores that are there, (n_lags + 1, n_units, n_units)
        self._shares, present = np.ones((_MIN_LAGS + 1, *[self.partition.n_units] * 2)), self.scores.present
        if present is not None:
            self._shares = lag_shares(present[:, [rows.start for rows in self.partition.slices]], _MIN_LAGS)
        self.has_all_lags = bool(self._shares.min() >= TUNING.standardised_least_share)
        # units that report at some lags only, such as every other row
        self._is_slow = np.diagonal(self._shares, axis1=1, axis2=2).min(axis=0) < TUNING.standardised_least_share
        is_clear = np.linalg.eigvalsh(self.score_noise)[-1] < np.sqrt(self.n_samples) / TUNING.standardised_edge_share
        self.has_clear_scores = bool(self.determined.all() and self.has_all_lags and (is_clear or not edges))
        self._most_lags = _MAX_LAGS if record.most_lags is None else record.most_lags
        self._n_lags, self._units, self._moments = min(_MIN_LAGS, self._most_lags), {}, None
        self.n_remembered = 0  # most lags that a filter was found to need

    @cached_property
    def loss_by_gaps(self):
        """Share of a unit's information that Whittle's likelihood of scores lacks because of gaps, of all the largest.

        Scores whose noise differs from row to row have the spectrum of its mean, so that what is learned is right, but
        every row weighs the same: of a share ``tr (F D)^2 / p`` of what they tell nothing is made, with the precision
        F of innovations and D what the noise of a row is more than the mean. Rows without a score are lost.
        """
        A, Q = self.uncoupled
        present, losses = self.scores.present, [0.0]
        for k, (part, rows) in enumerate(zip(self.standard_record.parts, self.partition.slices, strict=True)):
            if part.is_constant or not self.determined[k]:
                continue
            there = slice(None) if present is None else present[:, rows.start] > 0
            counts = np.bincount(part.pattern_of[there], minlength=len(part.patterns))
            seen, N = np.flatnonzero(counts), self.score_noise[rows, rows]
            P = predicted_covariance(A[rows, rows], np.linalg.inv(N), Q[rows, rows])
            excess = np.linalg.solve(P + N, np.linalg.inv(part.patterns[seen]) - N)
            uneven = np.einsum("kij,kji->k", excess, excess) @ counts[seen] / (counts.sum() * len(N))
            losses.append(float(uneven + 2 * (1 - counts.sum() / len(part.z))))
        return max(losses)

    @property
    def scores_suffice(self):
        """Whether Whittle's likelihood of the scores is as good as the exact one, or stands for it."""
        return self.is_complete or self.stands_in

    @property
    def loses_little(self):
        """Whether Whittle's likelihood of the scores is nearly as good as the exact one: errors are 2.5 % larger."""
        return self.loss_by_gaps <= TUNING.standardised_loss_by_gaps

    @property
    def pair_shares(self):
        """Share of the rows in which the effect of every pair has a score and its cause has one in the row before."""
        effect, cause = self.partition.pairs.T
        return self._shares[1][effect, cause]

    # -- scales ----------------------------------------------------------------------------------

    def unscaled(self, A):
        """Coefficients in the units' own states and inputs."""
        n = self.partition.n_states
        return self.state_scale @ np.hstack([A[:, :n] @ self.unscale, A[:, n:] / self.known_scale])

    def scaled(self, A):
        """Coefficients in standardised states and inputs."""
        n = self.partition.n_states
        return self.unscale @ np.hstack([A[:, :n] @ self.state_scale, A[:, n:] * self.known_scale])

    def unscaled_covariance(self, Q):
        """Process covariance in the units' own states."""
        Q = self.state_scale @ Q @ self.state_scale.T
        return (Q + Q.T) / 2

    def regressor_covariance(self):
        """Covariance of states, inputs and steps, shape (c, c)."""
        covariance = self.standardise @ self.scores.covariance() @ self.standardise.T
        n = self.partition.n_states
        covariance[:n, :n] -= self.score_noise
        return covariance

    def structure(self):
        """No links between states, every input acting on every unit, independent noise."""
        own_inputs = np.ones(self.partition.n_units, dtype=bool)
        if self._fix_local:  # what a unit does not know of its own inputs is learned, not fixed
            own_inputs = np.array([B is None for _, _, B in self._local])
        free = self.determined & (not self._fix_local)
        known = self.record.known_links
        masks = {} if known is None else known.masks(self.partition)
        free = {"free_dynamics": free, "free_noise": self.determined, "own_inputs": own_inputs}
        return Structure(self.partition, **free, **masks)

    # -- units on their own ----------------------------------------------------------------------

    @cached_property
    def uncoupled(self):
        """Every unit's own model by maximum likelihood, given the inputs of all: block-diagonal (A, Q).

        Along the way the number of lags is set to what the units' filters remember.
        """
        A, Q, memory = self._fit_units(self._n_lags)
        while (needed := self._lags_for(memory)) > self._n_lags:
            self._n_lags = needed
            A, Q, memory = self._fit_units(self._n_lags)
        return A, Q

    def lengthen(self, A, Q):
        """Take as many lags as the filter of the plant (A, Q) needs; whether that is more than before."""
        if not self.determined.all():  # there are no scores of all states
            return False
        needed = self._lags_for(filter_radius(A, np.linalg.inv(self.score_noise), Q))
        if needed <= self._n_lags:
            return False
        self._n_lags = needed
        self.uncoupled = self._fit_units(needed)[:2]
        return True

    def _lags_for(self, memory):
        self.n_remembered = max(self.n_remembered, lags_for(memory))
        return lags_for(memory, self.n_samples, self._most_lags)

    def _fit_units(self, n_lags):
        """The units' own models from so many lags, (A, Q), and what their filters remember."""
        if n_lags in self._units:
            return self._units[n_lags]
        n, slices, memory = self.partition.n_states, self.partition.slices, 0.0
        moments = self.moments(n_lags)
        A, Q = np.zeros((n, self.partition.n_regressors)), np.zeros((n, n))
        inputs, learned = slice(n, None), self.determined.copy()
        for k in np.flatnonzero(~self.determined):
            rows = slices[k]
            A[rows, rows], Q[rows, rows], _ = self._local[k]
        if not self._fix_local:
            for k in np.flatnonzero(self.determined & self._is_slow):
                at = slices[k], slices[k]
                A[at], Q[at] = self._slow_start(k, n_lags)
                memory = max(memory, filter_radius(A[at], np.linalg.inv(self.score_noise[at]), Q[at]))
            learned &= ~self._is_slow
        for units in self.partition.groups.values():
            units = units[learned[units]]
            if len(units) == 0:
                continue
            blocks = [slices[m] for m in units]
            N = np.stack([self.score_noise[b, b] for b in blocks])
            fixed = np.stack([self._local[m][0] for m in units]) if self._fix_local else None
            fit = fit_units(moments.blocks(blocks, inputs), N, fixed_A=fixed)
            memory = max(memory, filter_radius(fit.A, np.linalg.inv(N), fit.Q))
            for b, a, q in zip(blocks, fit.A, fit.Q, strict=True):
                p = len(q)
                A[b, b], A[b, inputs], Q[b, b] = a[:, :p], a[:, p:], q
        for m, b in enumerate(slices):
            Q[b, b] = floor_eigenvalues(Q[b, b], _OWN_NOISE)
            if self._fix_local or not self.determined[m]:
                own, B = self.partition.input_slices[m], self._local[m][2]
                if B is not None:
                    A[b, n + own.start : n + own.stop] = B
        self._units[n_lags] = A, Q, memory
        return A, Q, memory

    def _slow_start(self, unit, n_lags):
        """Where a unit starts that reports at some lags only."""
        rows, (scores, present) = self.partition.slices[unit], self.scores.of_unit(unit)
        counts = np.bincount(np.diff(np.flatnonzero(present[:, 0])), minlength=2)  # of distances between reports
        counts = counts[1 : max(self.n_samples // _MIN_LAGS, 2)]  # with a dozen reports at least
        period = 1 + int(np.argmax(counts >= TUNING.standardised_least_share * counts.sum()))
        scores, N = scores @ self.unscale[rows, rows].T, self.score_noise[rows, rows]
        return slow_start(scores, present[:, 0], N, self.record.starts, period, n_lags)

    def unit_records(self):
        """Every unit on its own, one after the other, a `UnitRecord` each.

        But for those that measurements do not determine, or that do not report in neighbouring rows.
        """
        for m in np.flatnonzero(self.determined & ~self._is_slow):
            rows = self.partition.slices[m]
            scores, present = self.scores.of_unit(m)
            scores = scores @ self.unscale[rows, rows].T
            yield UnitRecord(scores, present, self.scores.known, self.record.starts, self.budget)

    # -- likelihoods -----------------------------------------------------------------------------

    def moments(self, n_lags):
        """Lag covariances of the standardised scores' transitions."""
        if self._moments is None or self._moments[0] != n_lags:
            self._moments = n_lags, self.scores.moments(n_lags).transformed(self.standardise)
        return self._moments[1]

    def first_likelihood(self):
        """The likelihood to start with: that of the scores where it can stand for the exact one."""
        return self.budgeted(self.whittle() if self.has_clear_scores else self.time_domain())

    def budgeted(self, likelihood):
        """A likelihood whose evaluations are counted."""
        likelihood.budget = self.budget
        return likelihood

    def whittle(self, rows=None):
        """Whittle likelihood of the scores, with the lags that :attr:`uncoupled` found necessary.

        Of the rows of a slice of a complete record, where one is given.
        """
        if rows is None:
            return WhittleLikelihood(self.moments(self._n_lags), self.score_noise)
        series, starts = self.standard_series()[0][rows], self.standard_record.part(rows).starts
        sums = lag_covariances(series, range(self._n_lags + 2), starts)
        return WhittleLikelihood(TransitionMoments.from_sums(sums, series, starts), self.score_noise)

    def lag_sums(self, n_lags):
        """``sum_t x[t+l] x[t]'`` of :meth:`standard_series` for l from 0 to n_lags."""
        return self.standardise @ self.scores.lag_sums(n_lags + 1) @ self.standardise.T

    def standard_series(self):
        """Scores, inputs and steps of unit variance, first rows of episodes, lags of their likelihood."""
        return self.scores.series @ self.standardise.T, self.record.at_hand.starts, self._n_lags

    def products_of_lags(self, n_lags, memory):
        """`LagSums` of :meth:`standard_series`, or of all rows that it was the last part of; None if too short."""
        if self.record.has_rows:
            series, starts, _ = self.standard_series()
            return LagSums.of(series, starts, n_lags, memory, self.lag_sums(n_lags + memory))
        found = self.scores.products_of_lags(n_lags, memory)
        return None if found is None else found.transformed(self.standardise)

    @cached_property
    def standard_record(self):
        """The record in standardised states, which nobody changes in place."""
        return self.record.rescaled(self._scale)

    def time_domain(self, record=None, *, rows=None, levels=True):
        """Exact likelihood of the information series given the inputs.

        Of another record if one is given; `rows` are those of its inputs in this one.
        """
        record, inputs = self.standard_record if record is None else record, self._known_inputs
        if inputs.series is not None:
            known = inputs.series if rows is None else inputs.series[rows]
            inputs = inputs._replace(series=known, moments=self.moments(self._n_lags).early)
        series = record.z, record.matrices, self._regimes, record.starts, self._n_lags
        return TimeDomainLikelihood(*series, is_constant=record.is_constant, inputs=inputs, levels=levels)

    @cached_property
    def _regimes(self):
        """Regimes of the record, units predicting their states by their own models."""
        (A, Q), record = self.uncoupled, self.standard_record
        predicted = [
            predicted_covariance(A[rows, rows], part.mean_information, Q[rows, rows])
            for rows, part in zip(self.partition.slices, record.parts, strict=True)
        ]
        return record.regimes(predicted)

    # -- at a point ------------------------------------------------------------------------------

    def contributions(self, point, record=None):
        """Contributions of time steps to the gradient at a point, see :func:`score_contributions`."""
        record = (self.standard_record if record is None else record).centred()
        known, _, spread = self._known_inputs
        J = record.mean_information()
        settings = {"J": J, "starts": record.starts, "known": known, "spread": spread}
        return score_contributions(point.A, point.Q, record.z, record.matrices, **settings)

    def steps_remembered(self, point):
        """Rows over which contributions at a point go back, each at the price of some products of matrices."""
        return steps_remembered(point.A[:, : len(point.Q)], point.Q, self.standard_record.mean_information())

    def simulated(self, point, rng):
        """A record of the plant at a point with the information of this one, in standardised states."""
        record, n = self.standard_record, len(point.Q)
        known, _, spread = self._known_inputs
        exogenous = None if known is None else input_term(point.A[:, n:], known, record.starts)
        settings = {"exogenous": exogenous, "spread": spread}
        A = np.ascontiguousarray(point.A[:, :n])
        h = simulated_states(A, point.Q, record.starts, record.n_samples, rng, **settings)
        parts = []
        for part, rows in zip(record.parts, record.partition.slices, strict=True):
            z = simulated_information(part.patterns, part.pattern_of, h[:, rows], rng)
            parts.append(replace(part, z=z, const=None))
        return replace(record, parts=tuple(parts))

    @property
    def _known_inputs(self):
        """Inputs of unit variance, and what unknown ones before an episode add to its first state."""
        if not self.partition.n_known:
            return KnownInputs()
        # a driven state of unknown past has at most the variance of the record, which is one
        return KnownInputs(self.scores.known, spread=np.eye(self.partition.n_states))

    def state_covariances(self, point):
        """Covariance of each unit's states around their levels, as a fitted plant sees them in the record."""
        partition = self.partition
        states, covariances = self.time_domain().smoothed(point.A, point.Q, partition.slices)
        if partition.n_steps:
            steps = self.scores.known[:, partition.n_inputs :]
            states = states - steps @ np.linalg.lstsq(steps, states, rcond=None)[0]
        return [
            states[:, own].T @ states[:, own] / len(states) + covariance.mean(axis=0)
            for own, covariance in zip(partition.slices, covariances, strict=True)
        ]


def _state_scales(record, scores, covariances, local):
    """Symmetric square root of each unit's state covariance."""
    scales = []
    for k, (S, N) in enumerate(zip(covariances, scores.noise, strict=True)):
        if record.determined[k]:
            if not np.trace(S) > 0:
                raise ValueError(f"Unit {record.names[k]!r} tells of its states in none of these rows. Leave it out.")
            state = floor_eigenvalues(S - N, TUNING.standardised_variance_floor * np.trace(S) / len(S))
        elif local[k] is None:
            raise ValueError(
                f"The sensors of unit {record.names[k]!r} do not determine its {len(S)} states, and it sent no model "
                "of its own to start from. Give its KalmanClient the matrices A and Q, fewer states or more sensors."
            )
        else:
            state = stationary_covariance(*local[k][:2])
        scales.append(symmetric_root(state))
    return scales


def lags_for(memory, n_samples=np.inf, most=np.inf):
    """Lags after which a filter with a memory has forgotten, as far as so many rows can tell of them."""
    needed = int(np.ceil(np.log(_TRUNCATION) / np.log(max(memory, 1e-6))))
    return int(min(needed, most, max(n_samples // _ROWS_PER_LAG, 1)))
