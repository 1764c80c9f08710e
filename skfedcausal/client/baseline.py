"""What row numbers and the clock alone tell of a unit's record, which it removes before anything else."""

import hashlib
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils._param_validation import Interval, StrOptions

from ..arguments import warn
from ..bases import Grouped, ParameterGroup
from ..containers import constant_columns
from ..containers.arrays import SEPARATOR, listed
from ..statespace.episodes import episodes
from ..statespace.lines import Line, found_periods, overtones, pays, season_columns, sharp_lines
from ..statespace.observation import cut_of, moving_level, walk_step
from .tuning import TUNING

# What the clock alone tells of a unit: a profile by time of day and kind of day, the year, and seasons nobody named.
#
# Each is kept only where it pays on segments that it was not learned from: the innovations that the unit's own past
# leaves are predicted better with it than without.

_DAY = pd.Timedelta(days=1)
_YEAR = pd.Timedelta(days=365.25)
_BIN = pd.Timedelta(minutes=15)  # of a profile, where rows come faster
_CLOSE = pd.Timedelta("30min")  # between rows: two of three windows over which a detector looks are at most a day


@dataclass(frozen=True, eq=False)
class DayProfile:
    """Level of each sensor by time of day, apart on weekends where there were enough of them."""

    origin: pd.Timestamp
    step: pd.Timedelta
    n_bins: int
    has_weekends: bool
    levels: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # (n_groups, n_sensors)

    @property
    def name(self):
        """What it is in words."""
        return "profile by time of day" + (" and weekend" if self.has_weekends else "")

    def groups(self, rows):
        """Group of each row, by its number."""
        since = np.round(np.asarray(rows, dtype=float) * (self.step / pd.Timedelta(1, "ns")))
        times = self.origin + pd.to_timedelta(since.astype("int64"), unit="ns")
        share = (times - times.normalize()) / _DAY
        groups = np.minimum((np.asarray(share) * self.n_bins + 1e-6).astype(int), self.n_bins - 1)
        return groups + self.n_bins * (self.has_weekends * (np.asarray(times.day_of_week) >= 5))

    def learned(self, Y, rows):
        """The profile of a record, NaN where missing; a group without rows keeps the mean."""
        return replace(self, levels=_group_means(Y, self.groups(rows), self.n_bins * (1 + self.has_weekends)))

    def of(self, rows):
        """Level of each sensor in each row, (n_rows, n_sensors)."""
        return self.levels[self.groups(rows)]

    def predicted(self, innovations, rows, kept):
        """What it predicts of innovations (n_rows, n_sensors) in all rows, learned from those that are kept."""
        groups = self.groups(rows)
        return _group_means(innovations[kept], groups[kept], self.n_bins * (1 + self.has_weekends))[groups]


def learned_profile(Y, clock, rows, starts, active, *, lines=True):
    """Terms of a record that pay, in the order in which they are taken off; `active` are the columns that vary.

    Without `lines` only those that the calendar tells, a fault may repeat itself at any other period; and these only of
    rows that are close: means over some rows average a day out where they are not, and what is left of a tag that
    follows the clock and little else is so small that every error of the model is a surprise.
    """
    found = []
    rest = Y
    for term in _of_the_calendar(clock, rows, None if lines else _CLOSE):
        if pays(term, rest[:, active], rows, starts):
            found.append(term.learned(rest, rows))
            rest = rest - found[-1].of(rows)
    return (*found, *sharp_lines(rest, rows, starts, active)) if lines else tuple(found)


def _of_the_calendar(clock, rows, most=None):
    """What the times of the rows, `most` apart, may tell: nothing without times."""
    if not isinstance(clock.origin, pd.Timestamp) or clock.step <= pd.Timedelta(0):
        return
    if most is not None and clock.step > most:
        return
    length = (rows.max() - rows.min() + 1) * clock.step
    if clock.step < _DAY and length >= TUNING.profile_fewest_days * _DAY:
        n_bins = max(2, int(_DAY / max(clock.step, _BIN)))
        yield DayProfile(clock.origin, clock.step, n_bins, bool(length >= 7 * TUNING.profile_fewest_weeks * _DAY))
    if clock.step >= _DAY and length >= TUNING.profile_fewest_years * _YEAR:
        yield Line(_YEAR / clock.step)


def _group_means(Y, groups, n_groups):
    """Mean of each column by group less the mean of all rows, zero where a group has none, (n_groups, k)."""
    frame = pd.DataFrame(Y)
    means = frame.groupby(groups).mean().reindex(range(n_groups))
    return (means - frame.mean()).fillna(0.0).to_numpy()


# What a unit removes from its own record as row numbers alone predict it: seasons, trends, modes, levels of episodes.
#
# All of it is one regression of the measurements on columns that the number of a row, its mode and its episode
# determine. A linear model with such columns in every equation is the model of the residuals of that regression
# (Frisch and Waugh), so nothing after it needs to know; what was taken off is added to predictions again.


@dataclass(frozen=True)
class Season:
    """A period in rows and its overtones."""

    period: float
    overtones: int

    def columns(self, record):
        """Cosines and sines."""
        return season_columns(record.rows, self.period, self.overtones)


@dataclass(frozen=True)
class Trend:
    """A natural cubic spline with a knot at each of `knots`; a line of two."""

    knots: tuple

    def columns(self, record):
        """The line, and truncated cubes that are lines beyond the outer knots."""
        first, last = self.knots[0], self.knots[-1]
        t = (record.rows - first) / (last - first)
        knots = (np.array(self.knots) - first) / (last - first)
        cubes = np.maximum(t[:, None] - knots, 0) ** 3
        slopes = (cubes[:, :-1] - cubes[:, -1:]) / (1 - knots[:-1])
        return np.column_stack([t, slopes[:, :-1] - slopes[:, -1:]])


@dataclass(frozen=True)
class Modes:
    """Levels of the modes in a column of the record, or in an array over the rows; the first is the reference."""

    where: Any  # position of the column, or labels by row
    labels: tuple
    name: str

    def of(self, record):
        """Mode of each row as its place among the labels."""
        if isinstance(self.where, int):
            came = record.values[:, self.where]
        else:
            rows = np.round(record.rows).astype(int)
            if len(rows) and (rows.min() < 0 or rows.max() >= len(self.where)):
                raise ValueError(
                    f"`mode` has labels of rows 0 to {len(self.where) - 1}, and rows {rows.min()} to {rows.max()} came "
                    f"for {self.name}. Give labels of later rows in it too, or name a column of the record."
                )
            came = self.where[rows]
        return places_of(came, self.labels, self.name)

    def columns(self, record):
        """Which mode it is, and was in each of the rows before."""
        now, rows = self.of(record), np.arange(len(record.rows))
        begun = np.array(record.starts)[np.searchsorted(record.starts, rows, side="right") - 1]
        lagged = [now[np.maximum(rows - lag, begun)] for lag in range(TUNING.baseline_settle + 1)]
        return np.hstack([then[:, None] == np.arange(1, len(self.labels)) for then in lagged]).astype(float)


@dataclass(frozen=True)
class Levels:
    """A level of each episode and sensor, which moves where a period is given: with all that is slower."""

    period: float = np.inf

    def of(self, rest, starts):
        """Level in each row, zero where a sensor was not there in an episode."""
        levels = np.zeros(rest.shape)
        for start, stop in episodes(starts, len(rest)):
            part = rest[start:stop]
            there = np.isfinite(part)
            mean = np.where(there, part, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
            levels[start:stop] = mean
            if self.period <= len(part):
                levels[start:stop] += moving_level(_filled(part - mean, there), self.period)
        return levels


@dataclass(frozen=True)
class Record:
    """Measurements with the numbers of their rows, counted from the first of the record that was learned from."""

    values: np.ndarray
    rows: np.ndarray
    starts: tuple


@dataclass(frozen=True)
class Clock:
    """How the number of a row is known: from the index, or counted on from the record of `fit`."""

    n_rows: int
    first: str  # digest of its first row
    origin: Any = 0
    step: Any = 1

    @classmethod
    def of(cls, Y, index):
        """Clock of the record that is learned from."""
        if not _is_counted(index) or len(index) < 2:
            return cls(len(Y), _digest(Y))
        step = pd.Series(index[1:] - index[:-1]).median() if isinstance(index, pd.DatetimeIndex) else 1
        return cls(len(Y), _digest(Y), index[0], step)

    def rows(self, Y, index, after=None):
        """Numbers of rows; those of a stream come after row `after` where nothing else tells."""
        timed = isinstance(self.origin, pd.Timestamp)
        if _is_counted(index) and timed == isinstance(index, pd.DatetimeIndex) and (timed or index[0] != 0):
            return np.asarray((index - self.origin) / self.step, dtype=float)
        if after is None:
            after = -1 if len(Y) and _digest(Y) == self.first else self.n_rows - 1
        return after + 1.0 + np.arange(len(Y))


@dataclass(frozen=True, eq=False)
class LearnedBaseline:
    """Seasons, trend and modes of a unit with what each adds to each sensor, and the levels of episodes."""

    clock: Clock
    terms: tuple
    centre: np.ndarray  # of the columns of the terms, so that the mean of the sensors stays what it is
    effects: np.ndarray  # (n_columns, n_sensors)
    levels: Levels | None = None
    level: np.ndarray | None = None  # mean of the sensors
    last: np.ndarray | None = None  # level of the last episode: a stream goes on there
    profile: tuple = ()  # what the clock tells beside the terms

    def __setstate__(self, state):
        by_episode = state.pop("by_episode", False)  # what version 0.1.0 said of levels
        self.__dict__.update({"levels": Levels()} if by_episode else {}, **state)

    @property
    def moves(self):
        """Whether levels that move are taken off."""
        return self.levels is not None and np.isfinite(self.levels.period)

    @property
    def known(self):
        """Positions of columns that are modes and no measurements."""
        return _known_columns(self.terms)

    def of(self, Y, index=None, starts=(0,), after=None):
        """What is to be taken off measurements, of their shape, and the number of the last row."""
        rows = self.clock.rows(Y, index, after)
        record = Record(Y, rows, tuple(starts))
        off = (_columns(self.terms, record) - self.centre) @ self.effects
        for term in self.profile:
            off += term.of(rows)
        if self.levels is not None:
            off += self.last if after is not None else self.levels.of(Y - self.level - off, starts)
        for k in self.known:
            off[:, k] = Y[:, k]
        return off, (rows[-1] if len(rows) else after)

    def in_known_modes(self, Y):
        """Measurements of a stream, missing in rows whose mode did not occur in the fit; a warning names it."""
        for term in self.terms:
            if isinstance(term, Modes) and isinstance(term.where, int):
                came = Y[:, term.where]
                new = ~np.isin(came, term.labels)
                if new.any():
                    warn(
                        f"{int(new.sum())} rows of {term.name} are in mode(s) "
                        f"{listed(np.unique(came[new]).tolist())}, which did not occur in `fit`: they are taken as "
                        "missing. Monitoring continues.",
                    )
                    Y = np.where(new[:, None], np.nan, Y)
                    Y[new, term.where] = term.labels[0]
        return Y


def learned_baseline(Y, options, *, index=None, starts=(0,), name="the unit", columns=None, noised=False):
    """What the options of a client's :class:`~skfedcausal.Baseline` by name take off a record.

    None where nothing but a profile was asked for, and none pays.
    """
    if noised:
        _check_noised(options, index, name)
    clock = Clock.of(Y, index)
    record = Record(Y, clock.rows(Y, index, after=-1), tuple(starts))
    terms = []
    if options["trend"] is not None:
        terms.append(_trend(options["trend"], record, name))
    if options["mode"] is not None:
        terms.append(_modes(options["mode"], record, name, columns))
    known = _known_columns(terms)
    harmonics, levels = options["harmonics"], None
    if harmonics is not None and not isinstance(harmonics, str):
        terms += _given_seasons(harmonics, record, name)
    if options["levels"] is not None:
        levels = _episode_levels(options["levels"], record, terms, known, name)
    if isinstance(harmonics, str):
        rest = np.delete(_rest(record, terms, levels, name), known, axis=1)
        terms += [Season(period, overtones(period)) for period in found_periods(rest, record.rows)]
    centre, effects = _regression(record, terms, levels, name)
    found = LearnedBaseline(clock, tuple(terms), centre, effects)
    if options["profile"] is not None:
        rest = _around(Y - found.of(Y, index, starts, after=-1)[0], levels, starts)
        varies = ~constant_columns(rest)
        varies[known] = False
        lines = options["profile"] == "auto"
        found = replace(found, profile=learned_profile(rest, clock, record.rows, starts, varies, lines=lines))
    if not found.profile and all(wanted is None for name, wanted in options.items() if name != "profile"):
        return None
    if levels is not None:
        rest = Y - found.of(Y, index, starts, after=-1)[0]
        level = np.nanmean(rest, axis=0)
        last = levels.of(rest - level, starts)[-1]
        found = replace(found, levels=levels, level=level, last=last)
    return found


def _known_columns(terms):
    """Positions of the columns that tell modes."""
    return [term.where for term in terms if isinstance(term, Modes) and isinstance(term.where, int)]


def _check_noised(options, index, name):
    """Refuse what noise on the measurements hides; the rest is learned from them after the noise was added."""
    if isinstance(options["mode"], (str, Integral)):
        raise ValueError(
            f"mode={options['mode']!r}: noise for privacy is added to every column of {name}, so that modes cannot be "
            "read from one. Give the labels as an array, if they are no secret."
        )
    if not _is_counted(index):
        raise ValueError(
            f"Under privacy rows of {name} cannot be known again by their values, and seasons, trends and modes need "
            "their numbers. Give tables with an index of times or whole numbers."
        )


# -- terms of options ------------------------------------------------------------------------------


def _trend(wanted, record, name):
    """A line, or a spline that spends the degrees of freedom asked for."""
    freedom = {"linear": 1, "smooth": TUNING.baseline_smooth}.get(wanted, wanted)
    n = len(record.rows)
    if n < TUNING.baseline_fewest_rows * (freedom + 1):
        raise ValueError(
            f"trend={wanted!r} spends {freedom} degrees of freedom, and {name} has {n} rows; give a smaller number or "
            "at least five rows for each."
        )
    return Trend(tuple(np.linspace(record.rows.min(), record.rows.max(), freedom + 1).tolist()))


def _episode_levels(wanted, record, others, known, name):
    """Levels of episodes, and the period from which on they move: the one given, or found."""
    if wanted == "episode":
        return Levels()
    if wanted == "wander":
        return Levels(wander_period(np.delete(_rest(record, others, None, name), known, axis=1), record.starts))
    longest = max(stop - start for start, stop in episodes(record.starts, len(record.rows)))
    if not TUNING.baseline_shortest_cut <= wanted <= longest:
        raise ValueError(
            f"levels={wanted!r}: levels that move are what is slower than so many rows, from "
            f"{TUNING.baseline_shortest_cut} to the "
            f"{longest} of the longest episode of {name}. Give such a number, or 'episode' for levels that stay."
        )
    return Levels(float(wanted))


def wander_period(Y, starts):
    """Period in rows from which on sensors wander more than their noise moves; infinite where they stay."""
    start, stop = max(episodes(starts, len(Y)), key=lambda episode: episode[1] - episode[0])
    part, there = Y[start:stop], np.isfinite(Y[start:stop])
    kept = (there.mean(axis=0) > TUNING.baseline_least_there) & ~constant_columns(part)
    series = _filled(part[:, kept], there[:, kept])
    period = cut_of(walk_step(series / series.std(axis=0))) if kept.any() else np.inf
    return max(period, TUNING.baseline_shortest_cut) if period <= len(part) else np.inf


def _filled(part, there):
    """An episode with missing cells on the line between means of some cells before and behind.

    A line between two cells would put their noise into as many rows as are missing.
    """
    if there.all():
        return part
    part = part.copy()
    for column, seen in zip(part.T, there.T, strict=True):
        at, missing = np.flatnonzero(seen), np.flatnonzero(~seen)
        if not len(at):
            column[:] = 0.0
            continue
        sides = column[at], column[at][::-1]
        means = [pd.Series(cells).rolling(TUNING.baseline_shortest_cut, 1).mean().to_numpy() for cells in sides]
        behind = np.searchsorted(at, missing)  # places of the first cells behind, and of those before
        left, right = np.maximum(behind - 1, 0), np.minimum(behind, len(at) - 1)
        share = np.clip((missing - at[left]) / np.maximum(at[right] - at[left], 1), 0, 1)
        share = np.where(behind == 0, 1.0, np.where(behind == len(at), 0.0, share))
        column[missing] = (1 - share) * means[0][left] + share * means[1][::-1][right]
    return part


def _given_seasons(wanted, record, name):
    """Seasons of the periods that were given."""
    given: dict[Any, Any] = (
        _numbered(wanted) if isinstance(wanted, dict) else dict.fromkeys(np.atleast_1d(wanted).tolist())
    )
    length = np.ptp(record.rows) + 1
    for period, n_overtones in given.items():
        if not isinstance(period, (int, float)) or not period >= 2:
            raise ValueError(f"harmonics={wanted!r}: a period is a number of rows, at least 2; got {period!r}.")
        if period > length:
            raise ValueError(
                f"harmonics: the period of {period:g} rows is longer than the record of {name}, {length:.0f} rows. "
                "Give a longer record, or trend='smooth' instead."
            )
        if n_overtones is not None and not (isinstance(n_overtones, int) and 1 <= n_overtones <= period / 2):
            raise ValueError(
                f"harmonics: got {n_overtones!r} harmonics for the period of {period:g} rows; give a whole number from "
                f"1 to {int(period / 2)}."
            )
    return [Season(float(p), overtones(p) if k is None else int(k)) for p, k in given.items()]


def _numbered(wanted):
    """Periods of a dict as numbers, which are words in a settings file."""
    words = {period: period.replace(".", "", 1).isdigit() for period in wanted if isinstance(period, str)}
    return {float(period) if words.get(period) else period: count for period, count in wanted.items()}


def _modes(wanted, record, name, columns):
    """Modes by the column or the array that was given."""
    where: Any
    if isinstance(wanted, (str, Integral)):
        where = _position(wanted, record.values.shape[1], name, columns)
        came = record.values[:, where]
    else:
        where = np.asarray(wanted)
        n = len(record.rows)
        if where.ndim != 1 or len(where) < n:
            raise ValueError(
                f"`mode` has shape {where.shape}; give one label for each of the {n} rows of {name}, or the name of a "
                "column."
            )
        came = where[np.round(record.rows).astype(int)] if record.rows.max() < len(where) else where[:n]
    _check_present(came, name)
    labels, counts = np.unique(came, return_counts=True)
    if len(labels) > len(came) // (2 * TUNING.baseline_fewest_in_mode):
        raise ValueError(f"`mode` has {len(labels)} labels in {len(came)} rows of {name}: it is no mode.")
    rare = labels[counts < TUNING.baseline_fewest_in_mode].tolist()
    if rare:
        raise ValueError(
            f"Mode(s) {listed(rare)} of {name} have fewer than {TUNING.baseline_fewest_in_mode} rows, too few to learn "
            "a level from. Join them with another mode, or leave those rows out."
        )
    return Modes(where, tuple(labels.tolist()), name)


def _position(wanted, n_columns, name, columns):
    """Position of the column with the modes."""
    if isinstance(wanted, Integral):
        if not 0 <= int(wanted) < n_columns:
            raise ValueError(f"mode={wanted}: {name} has columns 0 to {n_columns - 1}.")
        return int(wanted)
    named = [] if columns is None else [str(column) for column in columns]
    fits = [k for k, column in enumerate(named) if column == wanted or column.partition(SEPARATOR)[2] == wanted]
    if len(fits) != 1:
        raise ValueError(f"mode={wanted!r} is no column of {name}; it has {listed(named)}.")
    return fits[0]


def _check_present(came, name):
    """Refuse rows without a mode."""
    missing = pd.isna(came)
    if missing.any():
        raise ValueError(
            f"{int(missing.sum())} rows of {name} have no mode, row {int(np.argmax(missing))} first; fill them in."
        )


def places_of(came, labels, name):
    """Places of modes among those of `fit`."""
    _check_present(came, name)
    known = np.array(labels)
    places = np.searchsorted(known, came).clip(0, len(known) - 1)
    new = known[places] != came
    if new.any():
        raise ValueError(
            f"{name} is in mode(s) {listed(np.unique(came[new]).tolist())}, which did not occur in `fit`: nothing is "
            f"known of their levels. Known are {listed(list(labels))}; fit a record with all of them."
        )
    return places


# -- the regression --------------------------------------------------------------------------------


def _columns(terms, record):
    return np.hstack([np.zeros((len(record.rows), 0)), *(term.columns(record) for term in terms)])


def _regression(record, terms, levels, name):
    """Means of the terms' columns and their effects on each sensor, by least squares of the cells that are there."""
    X = _columns(terms, record)
    n, k = X.shape
    if n < TUNING.baseline_fewest_rows * k:
        raise ValueError(
            f"Seasons, trend and modes of {name} have {k} numbers for each sensor, and it has {n} rows; give at least "
            f"{TUNING.baseline_fewest_rows * k} rows, fewer periods, or harmonics={{period: 1}}."
        )
    centre, Y = X.mean(axis=0), record.values
    X = X - centre
    effects = np.zeros((k, Y.shape[1]))
    present = np.isfinite(Y)
    patterns, which = np.unique(present, axis=1, return_inverse=True)
    for j, pattern in enumerate(patterns.T):
        rows, own = np.flatnonzero(pattern), np.flatnonzero(which.ravel() == j)
        if len(rows) > k:
            sides = np.where(pattern[:, None], X, np.nan), Y[:, own]
            x, y = (_around(side, levels, record.starts)[rows] for side in sides)
            effects[:, own] = np.linalg.lstsq(x, y, rcond=1e-10)[0]
    return centre, effects


def _rest(record, terms, levels, name):
    """The record less what some terms and levels of episodes tell of it."""
    centre, effects = _regression(record, terms, levels, name)
    rest = record.values - (_columns(terms, record) - centre) @ effects
    return rest if levels is None else _around(rest, levels, record.starts)


def _around(side, levels, starts):
    """One side of a regression less its levels, of all rows where episodes have none of their own."""
    return side - (Levels().of(side, (0,)) if levels is None else levels.of(side, starts))


def _is_counted(index):
    """Whether an index tells the number of a row."""
    if index is None or not len(index) or not index.is_unique:
        return False
    return isinstance(index, pd.DatetimeIndex) or (index.dtype.kind in "iu" and index.is_monotonic_increasing)


def _digest(Y):
    """Digest of the first row, by which the record of `fit` is known again."""
    return hashlib.sha256(np.ascontiguousarray(Y[:1], dtype=float).tobytes()).hexdigest()


# Seasons, trends, modes and levels of a record that are nominal, as one object for units and detectors.


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class Baseline(ParameterGroup):
    """What in a record is expected: its operating point, seasons, trend, modes and levels.

    A :class:`~skfedcausal.KalmanClient` removes it from its own record before anything is learned, and adds it to
    predictions again. A :class:`~skfedcausal.FederatedRCADetector` has `levels` and `mode`, of the whole plant, for
    nominal; give the others to its `client`.

    Parameters
    ----------
    center : bool, default=True
        Take the means of the columns (and of the inputs) in `fit` as the operating point around which the
        model holds; otherwise it is zero.
    harmonics : float, sequence of float, dict or "auto", default=None
        Periods in rows of seasons that the unit removes from its record, each with its overtones (twelve at
        most; a dict gives their number by period). "auto" finds the periods by a test for lines.
    trend : {"linear", "smooth"} or int, default=None
        Trend removed by the unit: a line, or a natural cubic spline of as many degrees of freedom ("smooth": 8).
        It continues as a line after the record.
    mode : str, int or array-like of shape (n_samples,), default=None
        Column of the record that says in which mode the unit or the plant is (an operating mode, a holiday),
        or the labels themselves. Each mode has a level of its own; the column is no measurement any more. What names
        of columns a detector takes, and what it does about modes that are new, its own page says.
    levels : {"auto", "episode", "wander"} or float, default="auto"
        "episode": each episode has a level of its own. A number of rows has the level of a sensor move as well: what is
        slower than such a period is removed. "wander" finds the period of sensors that are random walks beside
        their noise, and none where they stay. None: one level for all rows. "auto" is None for a unit; a detector
        then looks for a few levels between which the nominal record shifts. It knows neither "wander" nor periods.
    profile : {"auto", "calendar"} or None, default="auto"
        Removes what the times of rows predict, where that pays on held-out segments of the record: the level by
        time of day (and weekend, of two weeks or more) or the year, and up to three seasons that nobody named, which
        show as sharp lines of the spectrum. "calendar" is the first alone, of rows up to half an hour apart, and what
        "auto" means to a detector: a fault may have a period. Nothing without times, or under privacy.

    Examples
    --------
    >>> from skfedcausal import Baseline, KalmanClient
    >>> KalmanClient(baseline=Baseline(harmonics=24)).set_params(baseline__trend="linear").baseline
    Baseline(harmonics=24, trend='linear')
    """

    center: bool = True
    harmonics: Any = None
    trend: str | int | None = None
    mode: Any = None
    levels: str | float | None = "auto"
    profile: str | None = "auto"

    _parameter_constraints = {
        "center": ["boolean"],
        "harmonics": [StrOptions({"auto"}), Interval(Real, 2, None, closed="left"), "array-like", dict, None],
        "trend": [StrOptions({"linear", "smooth"}), Interval(Integral, 1, None, closed="left"), None],
        "mode": [str, Integral, "array-like", None],
        "levels": [StrOptions({"auto", "episode", "wander"}), Interval(Real, 0, None, closed="neither"), None],
        "profile": [StrOptions({"auto", "calendar"}), None],
    }

    def check_watched(self) -> None:
        """Refuse what only a unit can take off.

        Raises
        ------
        ValueError
            Of such settings.
        """
        self.check()
        plain = Baseline().get_params(deep=False)
        own = [name for name in ("center", "harmonics", "trend", "profile") if getattr(self, name) != plain[name]]
        if own or self.levels not in ("auto", "episode", None):
            raise ValueError(
                f"The baseline of a detector has `levels` ('auto', 'episode' or None) and `mode`, got {self}; the rest "
                "belongs to its units: client=KalmanClient(baseline=Baseline(...))."
            )
        if not (self.mode is None or isinstance(self.mode, str)):
            raise ValueError(f"mode={self.mode!r}: a detector takes the name of a column that tells the mode.")

    def taken_off(self) -> dict[str, Any]:
        """Options by name of what a unit removes from its own record, None for what it leaves.

        Returns
        -------
        dict
        """
        options = {name: getattr(self, name) for name in ("harmonics", "trend", "mode", "levels", "profile")}
        return options | {"levels": None if options["levels"] == "auto" else options["levels"]}


class HasBaseline(Grouped):
    """Mixin of who takes a :class:`Baseline`, with its options as attributes."""

    center: bool
    profile: Any
