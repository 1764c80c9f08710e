"""Faults that are small and last: an alarm beside that of surprises, and the unit without which all is as usual.

Whether what lasts is rare is told by return periods, learned from rows held out twice: a stretch of the nominal record
is judged by a model that was learned without it, and by return periods that were, too. With one of the two the largest
of hundreds of statistics would be judged by the very rows that made it the largest.

Only what is new counts. What stood high for a day, be it a fault that goes on or another way of running, counts from
where it stood, so that it swallows no later fault.

Levels are told where surprises forget them: where the longest window is a shift, or the nominal level moves by itself.
Elsewhere surprises find what they find, and spreads alone are told: who is louder, and who is quieter.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ...statespace.detection.energy import block_sums
from ...statespace.episodes import episodes
from . import lasting
from .lasting import CLOCKS, GIVEN, KINDS, LAGS, LOUDER, N_KINDS, NEWS, QUIETER, SHIFT, SPREADS, LastingModel, Means
from .rarity import ABSENT, ReturnPeriods
from .thresholds import GAP, alarm_runs
from .tuning import TUNING


def _places(*kinds):
    """Places of these kinds among those of all clocks."""
    return [len(KINDS) * clock + kind for clock in range(len(CLOCKS)) for kind in kinds]


SLOW = "slow"  # name of the statistic
DAY = max(CLOCKS)  # rows that are looked back at for what stood high before
_ALARMING = _places(SHIFT, LOUDER, QUIETER, GIVEN)  # news given others say who it is, not that there is something

_BY_ITSELF = _places(SHIFT, LOUDER, QUIETER)  # readings of a fault: sensors of its unit lie, and others saw nothing
_QUIETER, _CLEARLY = _places(QUIETER), 4.0  # and the return period from which it is that, whatever else is shown
# Or its process moved, and others follow.
_BY_OTHERS = _places(GIVEN, NEWS, lasting.LOUDER_GIVEN, lasting.QUIETER_GIVEN)
_PER_LEFT, _PER_OWN = 0.5 * np.log(10), 0.5  # of log probability lost by what is left, gained by what the unit shows
USUAL = 2.0  # return period of what a unit shows on any day
WAIT = 32  # rows after an alarm by which its root is told
QUIET = "quieter"
_NAMES = {SHIFT: "level", GIVEN: "level", NEWS: "level", LOUDER: "louder", lasting.LOUDER_GIVEN: "louder"}
_NAMES |= {QUIETER: QUIET, lasting.QUIETER_GIVEN: QUIET}


def spans_a_shift(period):
    """Whether the longest window does, of rows a `period` apart, a Timedelta or None."""
    return period is not None and DAY * period.total_seconds() >= TUNING.slow_shift_of_work


def share_of_budget(told, is_long):
    """Share of the false-alarm budget that is for the kinds `told` of what lasts.

    Half where the longest window is a shift: surprises of some rows forget what is slow there. Elsewhere these find
    nearly all, and what is quieter is beyond any threshold.
    """
    return 0.05 if told == SPREADS else 0.5 if is_long else 0.2


class SlowState(NamedTuple):
    """Where a stream stands.

    states, there : the last rows, from LAGS before the piece on that is not whole yet, and whether they were there
    pieces, counts : sums of the last pieces, see :mod:`.lasting`
    rare : return periods of the last pieces, (n_pieces, N_KINDS, n_units); alarms : the Pulses after them
    """

    states: np.ndarray
    there: np.ndarray
    pieces: np.ndarray
    counts: np.ndarray
    rare: np.ndarray
    alarms: "Pulses"


class Pulses(NamedTuple):
    """Alarms of what lasts, which would last as long: each unit raises one, in one row, and again once it was quiet.

    For how many pieces each unit has been quiet, (n_units,), and the levels after the last one, (n_units,).
    """

    quiet: np.ndarray
    level: np.ndarray

    def after(self, levels, threshold, n_rows):
        """Levels of further pieces of `n_rows` rows as they are told, (n_pieces, n_units), and pulses after them."""
        told, quiet, passed = np.minimum(levels, threshold), self.quiet, 0
        for k in np.flatnonzero((levels > threshold).any(axis=1)).tolist():
            over, quiet = levels[k] > threshold, quiet + (k - passed)
            begins = over & (quiet >= GAP // n_rows)
            told[k] = np.where(begins, np.minimum(levels[k], TUNING.slow_loudest * threshold), told[k])
            quiet, passed = np.where(over, 0, quiet + 1), k + 1
        return told, Pulses(quiet + len(levels) - passed, np.minimum(levels[-1], threshold))


@dataclass(frozen=True, eq=False)
class SlowWatch:
    """Alarm levels and evidence of what lasts; `n_alarms` are those in the nominal record."""

    coordinates: lasting.Coordinates
    model: LastingModel
    rarity: ReturnPeriods
    threshold: float = np.inf
    n_alarms: int = 0

    @classmethod
    def learn(cls, rows, slices, run_length, told=KINDS):
        """From :class:`.nominal.NominalRows`, the kinds `told`; None where rows are too few to tell what is rare."""
        if sum((stop - start) // DAY for start, stop in episodes(rows.starts, len(rows.x))) < TUNING.slow_least_days:
            return None
        coordinates = lasting.Coordinates.learn(rows.x, rows.distance, slices)
        learning = _Learning(coordinates.of(rows.x, rows.distance), rows.starts, coordinates.slices, told)
        rare, model, rarity = learning.held_out_twice()
        watch = cls(coordinates, model, rarity)
        news = np.concatenate([watch.news(rare[i:j]) for i, j in learning.parts])
        top = news[:, _ALARMING].max(axis=(1, 2))
        threshold = _threshold(top, model.n_rows, len(rows.x) / run_length)
        return replace(watch, threshold=threshold, n_alarms=len(alarm_runs(top > threshold, DAY // model.n_rows)))

    def news(self, rare, before=None):
        """What return periods (n_pieces, N_KINDS, n_units) are beyond what they were in the day before.

        ABSENT where nothing is known of these, or of that day.
        """
        last, first = TUNING.slow_before // self.model.n_rows, DAY // self.model.n_rows
        empty = np.full((first, *rare.shape[1:]), ABSENT)
        values = np.concatenate([empty if before is None else np.concatenate([empty, before])[-first:], rare])
        day = sliding_window_view(values[: len(values) - last], first - last, axis=0)[: len(rare)]
        there = day > ABSENT
        n_there = there.sum(axis=-1)
        stood = np.where(there, day, 0.0).sum(axis=-1) / np.maximum(n_there, 1)
        known = (rare > ABSENT) & (self.model.n_rows * n_there >= TUNING.slow_least_day)
        return np.where(known, rare - np.maximum(TUNING.slow_stood * stood - TUNING.slow_free, 0.0), ABSENT)

    def rows(self, x, distance, present, state, n_known=np.inf):
        """Alarm levels (n_rows, n_units) and return periods (n_rows, N_KINDS, n_units) of the next rows of an episode.

        From states (n_rows, n) beyond their mean, known from `n_known` rows, off-subspace numbers and whether units are
        there, (n_rows, n_units); with the state after them. Both are those after the last piece that is whole.
        """
        model, n_rows, kept = self.model, self.model.n_rows, DAY // self.model.n_rows
        there = self.coordinates.there(present)
        states = np.where(there, self.coordinates.of(x, distance), 0.0)
        state = self._begun(states.shape[1]) if state is None else state
        joined, known = np.concatenate([state.states, states]), np.concatenate([state.there, there])
        n_waiting = len(state.states) - LAGS
        stop = (n_waiting + len(x)) // n_rows * n_rows
        if not stop:
            held = (np.broadcast_to(a, (len(x), *a.shape)) for a in (state.alarms.level, self._last(state)))
            return *held, SlowState(joined, known, *state[2:])
        done = LAGS + stop
        series = model.news.series(lasting.lagged_states(joined, np.arange(LAGS, done)), joined[LAGS:done])
        if not known[:done].all():
            whole_past = np.logical_and.reduce([known[k : done - LAGS + k] for k in range(LAGS + 1)])
            series = np.where(whole_past[:, None], series, np.nan)
        sums, counts = lasting.piece_sums(series, n_rows)
        pieces, all_counts = np.concatenate([state.pieces, sums]), np.concatenate([state.counts, counts])
        rare = model.by_kind(self.rarity.of(model.statistics(pieces, all_counts, len(state.pieces), n_known)))
        level = self.news(rare, state.rare)[:, _ALARMING].max(axis=1)
        levels, alarms = state.alarms.after(level, self.threshold, n_rows)
        levels = np.concatenate([state.alarms.level[None], levels])
        shown = np.concatenate([self._last(state)[None], rare])
        place, waits = np.divmod(n_waiting + np.arange(1, len(x) + 1), n_rows)
        history = np.concatenate([state.rare, rare])
        last = joined[stop:], known[stop:], pieces[-kept:], all_counts[-kept:], history[-kept:]
        told = np.where(waits[:, None] > 0, np.minimum(levels[place], self.threshold), levels[place])
        return told, shown[place], SlowState(*last, alarms)

    def beside(self, state, moved, off):
        """A state whose last rows are told beside states that are `moved` by (n,), and `off` times the distances.

        What is followed of a level moves in a row, and its rows did not.
        """
        return SlowState(state.states - state.there * self.coordinates.moved(moved, off), *state[1:])

    @staticmethod
    def _last(state):
        """Return periods after the last piece, (N_KINDS, n_units)."""
        return state.rare[-1] if len(state.rare) else np.full(state.rare.shape[1:], ABSENT)

    def root(self, state, rare, prior):
        """:class:`SlowRoot` of rows with these return periods, which go on after a state."""
        before = rare[:0] if state is None else state.rare.repeat(self.model.n_rows, axis=0)
        return root_of(np.concatenate([before, rare]), len(before), len(rare), prior)

    def _begun(self, n):
        """Where an episode begins."""
        n_units, sums = len(self.model.slices), np.zeros((0, lasting.N_SERIES, n))
        rows, counts, rare = np.zeros((LAGS, n)), np.zeros((0, n), dtype=int), np.zeros((0, N_KINDS, n_units))
        return SlowState(rows, rows > 0, sums, counts, rare, Pulses(np.full(n_units, GAP), np.zeros(n_units)))


def strongest(rare):
    """Kind of alarming evidence that is rarest, of one unit and row, (N_KINDS,)."""
    return _ALARMING[int(rare[_ALARMING].argmax())]


class SlowRoot(NamedTuple):
    """Where what lasts began: probability of each unit, (n_units,), what is left to one that it came in from outside.

    `kind` is that of the fault at the likeliest unit, `age` for how many rows this had been unusual at the alarm,
    and `largest` the return period of what that unit shows.
    """

    probability: np.ndarray
    kind: str
    age: int
    largest: float

    def is_surer_than(self, probability):
        """Whether it names a root for sure and surprises, by which units have a `probability`, do not.

        Who is quieter surprises others, and is told by what lasts alone where these name another unit.
        """
        other = probability.argmax() != self.probability.argmax()
        return self.probability.max() >= TUNING.slow_sure and (
            (other and self.kind == QUIET) or probability.max() < TUNING.slow_named
        )


def root_of(rare, at, wait, prior):
    """:class:`SlowRoot` of what is new from row `at` of some on, from return periods (n_rows, N_KINDS, n_units).

    The root is the unit without which the others show least, read in two ways: by what units show of themselves (its
    sensors lie, and others saw nothing) or given the others (its process moved, and others follow).
    """
    news = rare[at : at + wait + 1].max(axis=0)
    before = rare[max(at - DAY, 0) : max(at - TUNING.slow_own_rows, 0)]
    if len(before) >= TUNING.slow_least_block:
        news = news - np.maximum(before.max(axis=0) - TUNING.slow_free, 0.0)
    left, own = _left_without(news[_BY_ITSELF], news.max()), news[_BY_ITSELF].max(axis=0)
    left_given, own_given = _left_without(news[_BY_OTHERS], news.max()), news[_BY_OTHERS].max(axis=0)
    given = (left_given < left) | ((left_given == left) & (own_given > own))
    left, own = np.where(given, left_given, left), np.where(given, own_given, own)
    gain = _PER_OWN * np.clip(own - USUAL, 0.0, TUNING.slow_most_own)
    weight = np.log(np.maximum(prior * len(prior), 1e-300)) - _PER_LEFT * np.minimum(left, TUNING.slow_most_left) + gain
    outside = _PER_OWN - _PER_LEFT * TUNING.slow_outside
    odds = np.exp(weight - max(weight.max(), outside))
    probability = odds / (odds.sum() + np.exp(outside - max(weight.max(), outside)))
    unit = int(probability.argmax())
    quiet, own_kinds = news[_QUIETER, unit].max() > _CLEARLY, news[_BY_ITSELF, unit].max() > TUNING.slow_left
    kinds = _QUIETER if quiet else _BY_ITSELF if own_kinds else _BY_OTHERS
    kind = kinds[int(news[kinds, unit].argmax())]
    usual = np.flatnonzero(rare[:at, kind, unit] < USUAL)
    age = at - 1 - int(usual[-1]) if len(usual) else 0
    return SlowRoot(
        np.minimum(probability, TUNING.slow_surest), _NAMES[kind % len(KINDS)], age, float(news[:, unit].max())
    )


def _left_without(news, most):
    """What the other units show without each unit, (n_units,), at least what is usual, from (n_kinds, n_units).

    A unit that shows nothing itself explains nothing: what is left is the `most` that anything shows.
    """
    shown = news.max(axis=0)
    others = np.array([np.delete(shown, unit).max(initial=0.0) for unit in range(len(shown))])
    return np.maximum(np.where(shown > TUNING.slow_left, others, most), TUNING.slow_left)


def _threshold(top, n_rows, wanted):
    """Least level that the largest levels of a nominal record, (n_pieces,), pass as often as is wanted.

    Fewer than one alarm is one that comes once in as many records.
    """
    beyond_usual = np.arange(
        max(top.max(), TUNING.slow_high_threshold), TUNING.slow_high_threshold, -1.0
    )  # of a record with upsets
    tried = np.concatenate([beyond_usual, np.arange(TUNING.slow_high_threshold, TUNING.slow_least_threshold, -0.02)])
    n_alarms = (len(alarm_runs(top > level, DAY // n_rows)) for level in tried)
    beyond = next((k for k, n in enumerate(n_alarms) if n > max(wanted, 1.0)), len(tried))
    return float(tried[max(beyond - 1, 0)] + max(0.0, -np.log10(wanted)))


class _Learning:
    """A nominal record, (n_samples, n), in pieces: what stretches of it are like by what the others teach."""

    def __init__(self, states, starts, slices, told):
        self.states, self.slices, self.told = states, slices, told
        self.n_rows = TUNING.slow_rows_each
        while len(states) > TUNING.slow_most_pieces * self.n_rows and self.n_rows < TUNING.slow_longest_piece:
            self.n_rows *= 2
        self.rows, self.parts, piece, n_pieces = [], [], np.full(len(states), -1), 0
        for start, stop in episodes(starts, len(states)):
            n = (stop - start) // self.n_rows
            piece[start : start + n * self.n_rows] = n_pieces + np.arange(n).repeat(self.n_rows)
            piece[start : min(start + LAGS, stop)] = -1  # no past
            if n:
                self.rows.append((start, n))
                self.parts.append((n_pieces, n_pieces + n))
            n_pieces += n
        self.fold = np.minimum(np.arange(n_pieces) * TUNING.slow_folds // n_pieces, TUNING.slow_folds - 1)
        self.of_row = np.append(self.fold, -1)[piece]

    @cached_property
    def _by_fold(self):
        return [self._moments(np.flatnonzero(self.of_row == k)) for k in range(TUNING.slow_folds)]

    def _moments(self, rows):
        """Moments of lagged states with themselves and with the states, some rows at a time."""
        n = self.states.shape[1]
        squares, products = np.zeros((LAGS * n, LAGS * n)), np.zeros((LAGS * n, n))
        for first in range(0, len(rows), TUNING.slow_at_once):
            here = rows[first : first + TUNING.slow_at_once]
            lagged = lasting.lagged_states(self.states, here)
            squares += lagged.T @ lagged
            products += lagged.T @ self.states[here]
        return squares, products

    def _news(self, left_out=None):
        """lasting.News by what all rows teach but those of a stretch."""
        kept = (moments for k, moments in enumerate(self._by_fold) if k != left_out)
        moments = [sum(parts) for parts in zip(*kept, strict=True)]
        rows = np.flatnonzero((self.of_row >= 0) & (self.of_row != left_out))
        some = rows[:: -(-len(rows) // lasting.SAMPLED)]
        lagged = lasting.lagged_states(self.states, some)
        return lasting.News.learn(moments, self.slices, len(rows), lagged, self.states[some])

    def _windows(self, means, left_out=None):
        """What nominal means are like in all pieces but those of a stretch."""
        given, pairs = (self.fold != left_out, self.slices, block_sums(self.slices)), zip(CLOCKS, means, strict=True)
        return tuple(lasting.Window.learn(one, *given, clock) for clock, one in pairs)

    def _means(self, pieces):
        """:class:`Means` of each clock, of episodes one below the other."""
        found = [list(lasting.window_means(sums, counts, 0, self.n_rows)) for sums, counts in pieces]
        by_clock = (zip(*parts, strict=True) for parts in zip(*found, strict=True))
        return [Means(*map(np.concatenate, series)) for series in by_clock]

    def _sums(self, news, start, n, piece=0):
        """Sums over `n` pieces of an episode from one on, and rows in them, some at a time."""
        found, begin, stop = [], start + piece * self.n_rows, start + (piece + n) * self.n_rows
        for first in range(begin, stop, TUNING.slow_at_once):
            rows = np.arange(first, min(first + TUNING.slow_at_once, stop))
            series = news.series(lasting.lagged_states(self.states, rows), self.states[rows])
            series[rows < start + LAGS] = np.nan
            found.append(lasting.piece_sums(series, self.n_rows))
        pieces, counts = zip(*found, strict=True)
        return np.concatenate(pieces), np.concatenate(counts)

    def held_out_twice(self):
        """Return periods of all pieces by models and tails of other stretches; and the model and tails of all."""
        news = self._news()
        means = self._means([self._sums(news, start, n) for start, n in self.rows])
        model = LastingModel(news, self._windows(means), self.slices, self.n_rows, self.told)
        found = np.empty((len(self.fold), len(model.kinds)), dtype=np.float32)
        for k in range(TUNING.slow_folds):
            alone = LastingModel(self._news(k), self._windows(means, k), self.slices, self.n_rows)
            for (start, _), (first, last) in zip(self.rows, self.parts, strict=True):
                here = np.flatnonzero(self.fold[first:last] == k)
                if len(here):
                    before = min(int(here[0]), DAY // self.n_rows)
                    sums, counts = self._sums(alone.news, start, len(here) + before, int(here[0]) - before)
                    found[first + here] = alone.statistics(sums, counts, before)
        block = max(TUNING.slow_least_block, min(DAY, len(self.states) // TUNING.slow_least_blocks)) // self.n_rows
        n_blocks = len(found) // block
        maxima = found[: n_blocks * block].reshape(n_blocks, block, -1).max(axis=1).astype(float)
        of_block, rare = self.fold[block * np.arange(n_blocks)], np.empty((len(found), N_KINDS, len(self.slices)))
        for k in range(TUNING.slow_folds):
            tails = ReturnPeriods.learn(maxima[of_block != k], model.kinds)
            rare[self.fold == k] = model.by_kind(tails.of(found[self.fold == k].astype(float)))
        return rare, model, ReturnPeriods.learn(maxima, model.kinds)
