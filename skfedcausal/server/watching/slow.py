"""Faults that are small and last: statistics of windows, an alarm of their own, the unit they began in."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ...statespace.detection.shift import block_diagonal, block_sums
from ...statespace.episodes import episodes
from .thresholds import ABSENT, GAP, NOTHING, ReturnPeriods, alarm_runs
from .tuning import TUNING

# Statistics of what lasts: means and spreads of a unit's states over windows of rows.
#
# A small step of a slow signal is a surprise in one row and usual in the next, so that no average of surprises keeps
# it. What keeps it are means over hours and days: of the states, of these given the same means of the other units, and
# of the news in the states, on their own past and given the other units' pasts. Spreads of the news tell who is louder,
# and who is quieter: a unit that tells less than it used to makes everybody surprised who hears of it, and itself
# least.

CLOCKS = (16, 48, 96)  # rows of the windows
LAGS = 4  # of a unit's own past in its news
_RIDGES = 1e-3, 1e-2  # of the news on the own past, and given the others
_TAILS = 0.02, 0.98  # quantiles at which nominal values are cut off: a start-up must not widen every scale
SAMPLED = 5000  # rows that quantiles are found from
_RIDGE = 0.02  # of variances of means
N_SERIES = 5  # that are summed: states, two kinds of news, squares of these

#: Of each unit: means of states and of news on its own past, its spread up and down, means of states given the others'
#: means, news given the others, its spread up and down.
KINDS = SHIFT, LOUDER, QUIETER, GIVEN, NEWS, LOUDER_GIVEN, QUIETER_GIVEN = range(7)
N_KINDS = len(CLOCKS) * len(KINDS)
SPREADS = LOUDER, QUIETER, LOUDER_GIVEN, QUIETER_GIVEN
_OF_STATISTIC = SHIFT, SHIFT, GIVEN, NEWS, LOUDER, QUIETER, LOUDER_GIVEN, QUIETER_GIVEN


class Means(NamedTuple):
    """Means over one window of the series that are summed, each (n_pieces, n), NaN where it has too few rows."""

    states: np.ndarray
    own: np.ndarray
    given: np.ndarray
    own_squares: np.ndarray
    given_squares: np.ndarray


def _clipped(series):
    """A series with values cut off at quantiles of some of its rows."""
    some = np.sort(series[:: -(-len(series) // SAMPLED)], axis=0)
    low, high = some[np.round(np.multiply(_TAILS, len(some) - 1)).astype(int)]
    return np.clip(series, low, high)


@dataclass(frozen=True, eq=False)
class Coordinates:
    """What is followed of each unit: its states, and how far its sensors are from these, in standard deviations.

    `outside` are the units whose sensors show more than states, `usual` is their mean distance, and `order` puts the
    distances beside the states of their units, which are in `slices`.
    """

    outside: np.ndarray
    usual: np.ndarray
    order: np.ndarray
    slices: list
    centre: np.ndarray
    scale: np.ndarray

    @classmethod
    def learn(cls, x, distance, slices):
        """From nominal states (n_rows, n) and off-subspace numbers (n_rows, n_units)."""
        outside = np.flatnonzero(distance.any(axis=0))
        sizes = np.array([b.stop - b.start for b in slices])
        order = np.argsort(np.concatenate([np.repeat(np.arange(len(slices)), sizes), outside]), kind="stable")
        stops = np.cumsum(sizes + np.isin(np.arange(len(slices)), outside))
        places = [slice(int(j - k), int(j)) for j, k in zip(stops, np.diff(stops, prepend=0), strict=True)]
        usual = np.maximum(distance[:, outside].mean(axis=0), 1e-12)
        bare = cls(outside, usual, order, places, np.zeros(len(order)), np.ones(len(order)))
        values = bare.of(x, distance)
        scale = np.maximum(_clipped(values).std(axis=0), 1e-3 * values.std(axis=0)) + 1e-12
        return cls(outside, usual, order, places, np.median(values, axis=0), scale)

    def of(self, x, distance):
        """Values of rows, (n_rows, n)."""
        off = np.log(distance[:, self.outside] / self.usual + TUNING.lasting_nearest)
        values = (np.concatenate([x, off], axis=1)[:, self.order] - self.centre) / self.scale
        return values.clip(-TUNING.lasting_far, TUNING.lasting_far, out=values)

    def moved(self, states, off):
        """By how much values are less beside states that are (n,) more and distances (n_units,) times as large."""
        return np.concatenate([states, np.log(off[self.outside])])[self.order] / self.scale

    def there(self, present):
        """Which values are there, (n_rows, n), of units that are, (n_rows, n_units)."""
        return present.repeat([b.stop - b.start for b in self.slices], axis=1)


# -- from rows to pieces -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class News:
    """News in the states of units: what their own past, and the pasts of all units, leave of them.

    coefficients : two matrices (LAGS * n, n); size : standard deviations of the two kinds of news, (2, n)
    """

    coefficients: tuple
    size: np.ndarray

    @classmethod
    def learn(cls, moments, slices, n_rows, lagged, states):
        """From moments of `n_rows` rows, of lagged states with themselves and with the states, and from some rows."""
        squares, products = moments
        n = products.shape[1]
        place = np.arange(LAGS * n).reshape(LAGS, n)
        found = []
        for ridge, others in zip(_RIDGES, (0, TUNING.lasting_lags_of_others), strict=True):
            B = np.zeros((LAGS * n, n))
            for b in slices:
                used = np.union1d(place[:, b], place[:others])
                G = squares[np.ix_(used, used)]
                damped = G + np.diag(ridge * (np.diag(G) + 1e-9 * n_rows))
                B[used, b] = np.linalg.solve(damped, products[used, b])
            found.append(B)
        size = [_clipped(states - lagged @ B).std(axis=0) + 1e-6 for B in found]
        return cls(tuple(found), np.array(size))

    def series(self, lagged, states):
        """What is summed of each row, (n_rows, N_SERIES, n)."""
        news = [(states - lagged @ B) / size for B, size in zip(self.coefficients, self.size, strict=True)]
        squares = [np.clip(e, -TUNING.lasting_loudest, TUNING.lasting_loudest) ** 2 for e in news]
        return np.stack([states, *news, *squares], axis=1)


def lagged_states(states, rows):
    """States of the rows before each of `rows`, (n_rows, LAGS * n), the last one first."""
    return np.concatenate([states[rows - k] for k in range(1, LAGS + 1)], axis=1)


def piece_sums(series, n_rows):
    """Sums over pieces of series (n_rows, N_SERIES, n), NaN where they are not there, and how many rows are there."""
    parts = series.reshape(-1, n_rows, *series.shape[1:])
    return np.nansum(parts, axis=1), np.count_nonzero(np.isfinite(parts[:, :, 0]), axis=1)


def window_means(pieces, counts, n_before, n_rows):
    """:class:`Means` of each clock from sums over pieces of `n_rows` rows.

    `pieces` is (n_pieces, N_SERIES, n), `counts` the rows of each in which the states were there, (n_pieces, n); the
    first `n_before` of them are there for windows of later ones only.
    """
    for clock in CLOCKS:
        k = clock // n_rows
        lacking = max(k - 1 - n_before, 0)
        since = slice(n_before + lacking - k + 1, None)
        means = np.full((len(pieces) - n_before, *pieces.shape[1:]), np.nan)
        if len(pieces) - n_before > lacking:
            total, there = (  # of a single window, as a row that comes alone has it, without views
                x.sum(axis=0)[None] if len(x) == k else sliding_window_view(x, k, axis=0).sum(axis=-1)
                for x in (pieces[since], counts[since, None])
            )
            np.divide(total, there, out=means[lacking:], where=2 * there >= clock)
        yield Means(*np.moveaxis(means, 1, 0))


# -- from pieces to statistics -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Spread:
    """Nominal mean of some means, (n,), their standard deviations, and what whitens those of each unit, (n, n)."""

    mean: np.ndarray
    size: np.ndarray
    root: np.ndarray

    @classmethod
    def learn(cls, means, rows, slices):
        """From means (n_pieces, n) at `rows`."""
        known = _clipped(means[rows])
        covariance = np.cov(known.T).reshape(known.shape[1], -1)
        covariance = covariance + np.diag(_RIDGE * np.diag(covariance) + 1e-9)
        root = block_diagonal([np.linalg.cholesky(np.linalg.inv(covariance[b, b])) for b in slices])
        return cls(known.mean(axis=0), np.sqrt(np.diag(covariance)), root)

    def squares(self, means, sums):
        """Squared lengths of each state's and each unit's means, (n_pieces, n + n_units)."""
        off = means - self.mean
        return np.concatenate([(off / self.size) ** 2, (off @ self.root) ** 2 @ sums], axis=1)


@dataclass(frozen=True, eq=False)
class Window:
    """What nominal means over one window are like.

    `others`, (n, n), gives the means of states from those of other units; `spreads` are those of news, states, states
    given others, and news given others, `loudness` mean and spread of the logarithms of the two mean squares.
    """

    others: np.ndarray
    spreads: tuple
    loudness: tuple

    @classmethod
    def learn(cls, means, rows, slices, sums, clock):
        """From the :class:`Means` of a clock at those of `rows` at which there are any."""
        rows = rows & np.isfinite(means.states).all(axis=1) & np.isfinite(means.given).all(axis=1)
        others = _given_others(means.states[rows], slices, np.count_nonzero(rows) / clock)
        kinds = means.own, means.states, means.states - means.states @ others, means.given
        spreads = tuple(Spread.learn(series, rows, slices) for series in kinds)
        known = [_clipped(_loudness(squares, sums)[rows]) for squares in (means.own_squares, means.given_squares)]
        return cls(others, spreads, tuple((loud.mean(axis=0), loud.std(axis=0) + 1e-3) for loud in known))

    def statistics(self, means, sums, doubt=1.0):
        """Statistics of each piece, (n_pieces, 8, n + n_units), NaN where there is no mean.

        Means vary by `doubt` times the nominal variance where what they are beyond is known from few rows.
        """
        kinds = means.own, means.states, means.states - means.states @ self.others, means.given
        found = [spread.squares(series, sums) / doubt for spread, series in zip(self.spreads, kinds, strict=True)]
        for (mean, size), squares in zip(self.loudness, (means.own_squares, means.given_squares), strict=True):
            louder = (_loudness(squares, sums) - mean) / size
            found += [louder, -louder]
        return np.stack(found, axis=1)


def _loudness(squares, sums):
    """Logarithm of mean squares of each state, and its mean over those of each unit, (n_pieces, n + n_units)."""
    log = np.log(squares + TUNING.lasting_quietest)
    return np.concatenate([log, log @ sums / sums.sum(axis=0)], axis=1)


def _given_others(means, slices, n_windows):
    """Coefficients of each unit's means on leading scores of those of the others, (n, n)."""
    G, n = means.T @ means, means.shape[1]
    found = np.zeros((n, n))
    for b in slices:
        other = np.setdiff1d(np.arange(n), np.arange(n)[b])
        if not len(other):
            continue
        n_scores = int(np.clip(n_windows / TUNING.lasting_windows_each, 1, min(TUNING.lasting_scores, len(other))))
        values, vectors = np.linalg.eigh(G[np.ix_(other, other)])
        P, values = vectors[:, -n_scores:], values[-n_scores:]
        found[other, b] = P @ (P.T @ G[other, b] / ((1 + _RIDGES[1]) * values + 1e-9)[:, None])
    return found


@dataclass(frozen=True, eq=False)
class LastingModel:
    """Statistics of what lasts, by what nominal rows taught of the news of states and of means over windows."""

    news: News
    windows: tuple
    slices: list
    n_rows: int  # of a piece
    told: range | tuple = KINDS  # the kinds that it tells

    @cached_property
    def sums(self):
        """Sums over the states of each unit, (n, n_units)."""
        return block_sums(self.slices)

    @property
    def kinds(self):
        """A number for the kind of each statistic, those of states apart from those of units, and its clock."""
        size, n_units = self.slices[-1].stop, len(self.slices)
        pair = np.repeat([0, 1], [size, n_units])
        blocks = len(self.windows) * len(_OF_STATISTIC)
        return (2 * np.arange(blocks)[:, None] + pair).reshape(-1)

    def statistics(self, pieces, counts, n_before, n_known=np.inf):
        """Statistics of the pieces after the first `n_before`, (n_pieces, n_statistics), far down without rows.

        Of states beyond a mean that is known from `n_known` rows.
        """
        sums, means = self.sums, window_means(pieces, counts, n_before, self.n_rows)
        doubts = [1 + clock / n_known for clock in CLOCKS]
        found = [
            window.statistics(one, sums, doubt) for window, one, doubt in zip(self.windows, means, doubts, strict=True)
        ]
        return np.nan_to_num(np.concatenate(found, axis=1), nan=NOTHING).reshape(len(pieces) - n_before, -1)

    def by_kind(self, rare):
        """Largest return periods of each clock, kind and unit, (n_pieces, N_KINDS, n_units), of all statistics.

        ABSENT for kinds that are not told.
        """
        size, n_units = self.slices[-1].stop, len(self.slices)
        table = rare.reshape(len(rare), len(self.windows), len(_OF_STATISTIC), size + n_units)
        first = [b.start for b in self.slices]
        best = np.maximum(np.maximum.reduceat(table[..., :size], first, axis=-1), table[..., size:])
        found = np.full((len(rare), len(self.windows), len(KINDS), n_units), ABSENT)
        for k, kind in enumerate(_OF_STATISTIC):
            if kind in self.told:
                np.maximum(found[:, :, kind], best[:, :, k], out=found[:, :, kind])
        return found.reshape(len(rare), N_KINDS, n_units)


# Faults that are small and last: an alarm beside that of surprises, and the unit without which all is as usual.
#
# Whether what lasts is rare is told by return periods, learned from rows held out twice: a stretch of the nominal
# record is judged by a model that was learned without it, and by return periods that were, too. With one of the two the
# largest of hundreds of statistics would be judged by the very rows that made it the largest.
#
# Only what is new counts. What stood high for a day, be it a fault that goes on or another way of running, counts from
# where it stood, so that it swallows no later fault.
#
# Levels are told where surprises forget them: where the longest window is a shift, or the nominal level moves by
# itself. Elsewhere surprises find what they find, and spreads alone are told: who is louder, and who is quieter.


def _places(*kinds):
    """Places of these kinds among those of all clocks."""
    return [len(KINDS) * clock + kind for clock in range(len(CLOCKS)) for kind in kinds]


SLOW = "slow"  # name of the statistic
DAY = max(CLOCKS)  # rows that are looked back at for what stood high before
_ALARMING = _places(SHIFT, LOUDER, QUIETER, GIVEN)  # news given others say who it is, not that there is something

_BY_ITSELF = _places(SHIFT, LOUDER, QUIETER)  # readings of a fault: sensors of its unit lie, and others saw nothing
_QUIETER, _CLEARLY = _places(QUIETER), 4.0  # and the return period from which it is that, whatever else is shown
# Or its process moved, and others follow.
_BY_OTHERS = _places(GIVEN, NEWS, LOUDER_GIVEN, QUIETER_GIVEN)
_PER_LEFT, _PER_OWN = 0.5 * np.log(10), 0.5  # of log probability lost by what is left, gained by what the unit shows
USUAL = 2.0  # return period of what a unit shows on any day
WAIT = 32  # rows after an alarm by which its root is told
QUIET = "quieter"
_NAMES = {SHIFT: "level", GIVEN: "level", NEWS: "level", LOUDER: "louder", LOUDER_GIVEN: "louder"}
_NAMES |= {QUIETER: QUIET, QUIETER_GIVEN: QUIET}


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

    coordinates: Coordinates
    model: LastingModel
    rarity: ReturnPeriods
    threshold: float = np.inf
    n_alarms: int = 0

    @classmethod
    def learn(cls, rows, slices, run_length, told=KINDS):
        """From :class:`.nominal.NominalRows`, the kinds `told`; None where rows are too few to tell what is rare."""
        if sum((stop - start) // DAY for start, stop in episodes(rows.starts, len(rows.x))) < TUNING.slow_least_days:
            return None
        coordinates = Coordinates.learn(rows.x, rows.distance, slices)
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
            held = (a[None].repeat(len(x), axis=0) for a in (state.alarms.level, self._last(state)))
            return *held, SlowState(joined, known, *state[2:])
        done = LAGS + stop
        series = model.news.series(lagged_states(joined, np.arange(LAGS, done)), joined[LAGS:done])
        if not known[:done].all():
            whole_past = np.logical_and.reduce([known[k : done - LAGS + k] for k in range(LAGS + 1)])
            series = np.where(whole_past[:, None], series, np.nan)
        sums, counts = piece_sums(series, n_rows)
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
        n_units, sums = len(self.model.slices), np.zeros((0, N_SERIES, n))
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
    best = int(shown.argmax())
    others = np.full(len(shown), max(shown[best], 0.0))
    others[best] = np.delete(shown, best).max(initial=0.0)
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
            lagged = lagged_states(self.states, here)
            squares += lagged.T @ lagged
            products += lagged.T @ self.states[here]
        return squares, products

    def _news(self, left_out=None):
        """lasting.News by what all rows teach but those of a stretch."""
        kept = (moments for k, moments in enumerate(self._by_fold) if k != left_out)
        moments = [sum(parts) for parts in zip(*kept, strict=True)]
        rows = np.flatnonzero((self.of_row >= 0) & (self.of_row != left_out))
        some = rows[:: -(-len(rows) // SAMPLED)]
        lagged = lagged_states(self.states, some)
        return News.learn(moments, self.slices, len(rows), lagged, self.states[some])

    def _windows(self, means, left_out=None):
        """What nominal means are like in all pieces but those of a stretch."""
        given, pairs = (self.fold != left_out, self.slices, block_sums(self.slices)), zip(CLOCKS, means, strict=True)
        return tuple(Window.learn(one, *given, clock) for clock, one in pairs)

    def _means(self, pieces):
        """:class:`Means` of each clock, of episodes one below the other."""
        found = [list(window_means(sums, counts, 0, self.n_rows)) for sums, counts in pieces]
        by_clock = (zip(*parts, strict=True) for parts in zip(*found, strict=True))
        return [Means(*map(np.concatenate, series)) for series in by_clock]

    def _sums(self, news, start, n, piece=0):
        """Sums over `n` pieces of an episode from one on, and rows in them, some at a time."""
        found, begin, stop = [], start + piece * self.n_rows, start + (piece + n) * self.n_rows
        for first in range(begin, stop, TUNING.slow_at_once):
            rows = np.arange(first, min(first + TUNING.slow_at_once, stop))
            series = news.series(lagged_states(self.states, rows), self.states[rows])
            series[rows < start + LAGS] = np.nan
            found.append(piece_sums(series, self.n_rows))
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
