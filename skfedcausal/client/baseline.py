"""What a unit removes from its own record as row numbers alone predict it: seasons, trends, modes, levels of episodes.

All of it is one regression of the measurements on columns that the number of a row, its mode and its episode
determine. A linear model with such columns in every equation is the model of the residuals of that regression
(Frisch and Waugh), so nothing after it needs to know; what was taken off is added to predictions again.
"""

import hashlib
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd

from ..callers import warn
from ..containers import constant_columns
from ..containers.layout import SEPARATOR, listed
from ..statespace.episodes import episodes
from ..statespace.lines import found_periods, overtones, season_columns
from ..statespace.wander import cut_of, moving_level, walk_step
from .profile import learned_profile
from .tuning import TUNING


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
