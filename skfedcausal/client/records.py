"""Checks of a unit's record and of what is given for the unit: inputs, columns that vary, habits, matrices."""

import mmap
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from operator import eq
from typing import NamedTuple

import numpy as np
import pandas as pd

from ..arguments import as_floats, warn
from ..beside import beside
from ..containers import constant_columns
from ..containers.arrays import column_texts
from ..statespace.episodes import column_mean, episodes
from .tuning import TUNING

# Checks of a unit's record: inputs, columns that vary, rows enough to identify a model.

MAX_LAGS = 5  # of the past that identification looks at
ROWS_PER_LOADING = 6  # a rule of thumb: rows for each number of C
_EXPLAINED, _ROUNDED = 1e-10, 16 * np.finfo(float).eps  # of a column's range, of its values: what is left by rounding


class UnitRows(NamedTuple):
    """A unit's own rows, checked before, for a `KalmanClient` to learn from; `name` and `columns` are for messages.

    `Y` (n_samples, n_features), inputs `U` (n_samples, n_inputs), first rows of episodes, the known variance `noise`
    (n_features,) of what was added to the columns on purpose, which becomes part of R, and the index of the rows.
    Shifts of level are taken off before sensors are identified if they take more than `least_shift` of the variance of
    a column.
    """

    Y: np.ndarray
    U: np.ndarray | None = None
    starts: tuple = (0,)
    name: str = "the unit"
    columns: tuple | None = None
    noise: np.ndarray | None = None
    row_index: pd.Index | None = None
    least_shift: float = 0.0


def in_use(client, Y):
    """Columns of `Y` (n_samples, n_features) that the model of a client uses."""
    return Y if client.used_columns.all() else Y[:, client.used_columns]


def as_inputs(inputs, n_samples):
    """Inputs as a checked array of shape (n_samples, n_inputs), or None."""
    if inputs is None:
        return None
    U = as_floats(inputs, "`inputs`")
    if U.ndim == 1:
        U = U[:, None]
    if U.ndim != 2 or len(U) != n_samples:
        raise ValueError(f"`inputs` has shape {np.shape(inputs)}; give one row for each of the {n_samples} rows of X.")
    if not np.isfinite(U).all():
        raise ValueError("`inputs` has missing or infinite values; fill them in or drop those rows.")
    return U


def check_inputs_fit(U, B, name="the unit"):
    """Refuse inputs of another number than the model has."""
    if U is not None and B is not None and U.shape[1] != B.shape[1]:
        raise ValueError(
            f"`inputs` has {U.shape[1]} columns for {name}, but its B has {B.shape[1]}; give one for each of B's."
        )


def warn_inputs_ignored():
    """Say that a model without B takes up no inputs."""
    warn(
        "The unit's model has no matrix B, so its `inputs` are ignored. Give B with the other matrices, or "
        "pass the inputs to `fit` and let it identify B."
    )


def column_means(Y):
    """Mean of the cells that are there in each column."""
    means = column_mean(Y)
    return means if np.isfinite(means).all() else np.nanmean(Y, axis=0)


def active_columns(Y, name, columns):
    """Mask of the columns that vary; a warning names those that do not."""
    constant = constant_columns(Y)
    if not constant.any():
        return ~constant
    which = np.flatnonzero(constant)
    labels = [str(i) if columns is None else str(columns[i]) for i in which]
    if constant.all():
        raise ValueError(
            f"Every column of {name} is constant or missing ({', '.join(labels)}): there is nothing to "
            "model. Leave the unit out or give other columns."
        )
    warn(f"Columns {', '.join(labels)} of {name} are constant or missing throughout and are ignored.")
    return ~constant


def left_columns(Y, rest, active, name, columns):
    """Mask of those active columns whose seasons, trend, modes and levels leave more of them than rounding."""
    at = np.flatnonzero(active)
    ranges = [(np.nanmin(part[:, at], axis=0), np.nanmax(part[:, at], axis=0)) for part in (Y, rest)]
    (low, high), (left_low, left_high) = ranges
    gone = at[left_high - left_low <= np.maximum(_EXPLAINED * (high - low), _ROUNDED * np.maximum(-low, high))]
    if not len(gone):
        return active
    labels = ", ".join(str(i) if columns is None else str(columns[i]) for i in gone)
    if len(gone) == len(at):
        raise ValueError(
            f"Nothing is left in any column of {name} ({labels}) beside its seasons, trend, modes and levels: there is "
            "nothing to model. Leave the unit out, or remove fewer of them."
        )
    warn(f"Columns {labels} of {name} are fully explained by their seasons, trend, modes and levels, and are ignored.")
    left = active.copy()
    left[gone] = False
    return left


def warn_held_rows(Y, starts, name):
    """Say that a unit reports at a slower clock and its last report is repeated until the next.

    Only where all of two columns or more repeat together, and as regularly as a clock.
    """
    if Y.shape[1] < 2:
        return
    head = Y[: TUNING.records_head]  # a clock shows there too
    if not repeated_rows(head).any() and not np.isnan(head).all(axis=1).any():
        return
    count = repeated_rows(Y, starts)
    reports = np.flatnonzero(count == 0)
    apart = np.diff(reports)
    if len(apart) < TUNING.records_fewest_reports:
        return
    period = int(np.median(apart))
    if period >= 2 and np.mean(apart == period) >= TUNING.records_regular_holds:
        warn(
            f"All columns of {name} repeat their values and change in only one row of {period}: it seems to report "
            "more slowly. Held values are not measurements and can look like links with units of "
            "another clock. Leave the rows between reports empty (NaN)."
        )


def warn_of_damage(Y, starts, name, labels):
    """Warn of fill values, of sensors that froze and of sensors that are there twice, by name and with a remedy.

    A first look, at numbers that come again and again, finds nothing in ordinary records.
    """
    suspects = _repeating(Y)
    if not suspects.any():
        return
    for text in beside("damage")(Y, np.flatnonzero(suspects), starts, labels):
        warn(f"{name}: {text}")


def _repeating(Y):
    """Columns with a repeated extreme value, with a long run of one value, or that begin like another."""
    series = np.ascontiguousarray(Y.T)  # along columns all this takes several times as long
    ends = [extreme.reduce(series, axis=1, keepdims=True) for extreme in (np.fmin, np.fmax)]
    often = np.any([np.count_nonzero(series == end, axis=1) >= TUNING.records_often for end in ends], axis=0)
    probes = Y[:: TUNING.records_long_run]  # a run holds two of them
    return often | (probes[1:] == probes[:-1]).any(axis=0) | _alike(Y[: TUNING.records_probes])


def _alike(Y):
    """Columns that are there more than once, those with missing values aside."""
    texts, whole = column_texts(Y), ~np.isnan(Y.sum(axis=0))
    count = Counter(texts)
    return whole & [count[text] > 1 for text in texts]


def warn_few_rows(n_samples, n_columns, n_states, name):
    """Say that a record is short for the model that was identified from it."""
    needed = ROWS_PER_LOADING * n_columns * n_states
    if n_samples < needed:
        enough = max(n_samples // (ROWS_PER_LOADING * n_columns), 1)
        fewer = f"n_states={enough}, " if n_states > 1 else ""
        warn(
            f"Need about {needed} rows of {name} for {n_states} state{'s' * (n_states > 1)} of {n_columns} "
            f"columns; have {n_samples}. Options: fewer columns, {fewer}a longer record."
        )


def check_identifiable(Y, n_states, starts, name):
    """Refuse a record that is too short to tell anything about the states."""
    n_samples, d = Y.shape
    p = min(d, 2) if n_states == "auto" else n_states
    if not np.isfinite(Y.sum()) and (n_seen := int((~np.isnan(Y)).any(axis=1).sum())) < p + 3:
        raise ValueError(
            f"{name} has values in {n_seen} of {len(Y)} rows; identifying {p} states needs at least {p + 3}. Leave the "
            "unit out, or give rows in which it was seen."
        )
    if n_states != "auto" and n_states > MAX_LAGS * d:
        raise ValueError(
            f"n_states={n_states} for {name}, which has {d} columns that vary. Use at most {MAX_LAGS * d}: "
            f"{MAX_LAGS} lags of each."
        )
    if n_samples < p + 3:
        raise ValueError(
            f"{name} has {n_samples} rows; identifying {p} states needs at least {p + 3}. Give more rows or "
            "fewer states."
        )
    n_transitions = n_samples - len(starts)
    if n_transitions < p + 2:
        raise ValueError(
            f"The {n_samples} rows of {name} are cut by `lengths` into {len(starts)} episodes, which leaves "
            f"{n_transitions} transitions from one row to the next; identifying {p} states needs at least "
            f"{p + 2}. Give longer episodes."
        )


def repeated_rows(Y, starts=(0,), before=None, columns=None):
    """How many rows back each row has been the same, shape (n_samples,)."""
    columns = range(Y.shape[1]) if columns is None else columns
    same = np.zeros(len(Y), dtype=bool)
    if len(columns) and len(Y):
        first = np.ascontiguousarray(Y[:, columns[0]])  # most rows are seen to move by one pass over one column
        rows = 1 + np.flatnonzero((first[1:] == first[:-1]) | (np.isnan(first[1:]) & np.isnan(first[:-1])))
        now, then = Y[np.ix_(rows, columns)], Y[np.ix_(rows - 1, columns)]
        alike = ((now == then) | (np.isnan(now) & np.isnan(then))).all(axis=1)
        same[rows[alike & ~np.isnan(now).all(axis=1)]] = True
    if before is not None and len(Y):
        first = Y[0, columns]
        same[0] = not np.isnan(first).all() and np.array_equal(before.row, first, equal_nan=True)
    same[[start for start in starts if start > 0 or before is None]] = False
    if not same.any():
        return np.zeros(len(Y), dtype=int)
    steps = np.arange(len(Y))
    last_change = np.maximum.accumulate(np.where(same, -1, steps))
    count = 0 if before is None else before.repeats
    return np.where(last_change < 0, count + 1 + steps, steps - last_change)


class Passed(NamedTuple):
    """Where a unit stands in a stream: its last row, how often that came before, and rows so far."""

    row: np.ndarray
    repeats: int
    n_rows: int


@dataclass(frozen=True)
class Silence:
    """Which rows of a unit are repetitions of the last row by somebody who reports no more."""

    columns: np.ndarray  # positions of those that move, the liveliest first
    allowed: int  # rows that may be repeated: several times as many as ever were in `fit`

    @classmethod
    def learn(cls, Y, starts):
        """What a unit's record shows; None where fewer than two columns move."""
        moving = np.flatnonzero(~constant_columns(Y))
        if len(moving) < 2:
            return None
        head = Y[: TUNING.records_head, moving]
        moving = moving[np.argsort((np.diff(head, axis=0) == 0).sum(axis=0), kind="stable")]
        longest = int(repeated_rows(Y, starts, columns=moving).max())
        release_pages(Y)
        return cls(moving, max(TUNING.records_always_allowed, TUNING.records_margin * longest))

    def masked(self, name, Y, starts, index=None, before=None):
        """Rows with repetitions as missing and a warning that names the unit, and where a stream stands."""
        if before is not None and len(Y) == 1:  # most rows of a stream that comes row by row
            row = Y[0].take(self.columns)
            if _moves(row.item(0), before.row.item(0)):
                return Y, Passed(row, 0, before.n_rows + 1)
        count = repeated_rows(Y, starts, before, self.columns)
        n_before = 0 if before is None else before.n_rows
        after = Passed(Y[-1, self.columns], int(count[-1]), n_before + len(Y))
        if count.max() <= self.allowed:
            return Y, after
        silent = count > self.allowed
        noticed = np.flatnonzero(count == self.allowed + 1)
        if len(noticed):
            _warn_of_silence(name, noticed[0], silent, count, (starts, index, n_before))
        return np.where(silent[:, None], np.nan, Y), after


def _moves(now, then):
    """Whether a value is another one than that before it, both missing aside."""
    return now != then and (now == now or then == then)


def _warn_of_silence(name, first, silent, count, where):
    starts, index, passed = where
    first = int(first)
    begin = first - int(count[first])
    end = first + int(np.argmin(np.append(silent[first:], False)))
    stop = next((start for start in [*starts[1:], len(silent)] if start >= end), end)
    until = "" if end == stop else f" until {_when(index, end, passed)}"
    warn(
        f"{name} is silent since {_when(index, begin, passed)}{until}; treated as missing, certainty "
        "lowered. All its tags repeat their values, for longer than they ever did in `fit`."
    )


def _when(index, row, passed):
    if not isinstance(index, pd.DatetimeIndex) or row < 0:
        return f"row {row + passed}"
    return f"{index[row]:%H:%M}" if index[row].date() == index[-1].date() else f"{index[row]:%Y-%m-%d %H:%M}"


def release_pages(x):
    """Give back the memory of the pages of a file that were read through an array.

    They are read again when needed. Nothing happens to arrays that are not mapped or could have been changed
    in memory.
    """
    while x is not None and not isinstance(x, np.memmap):
        x = getattr(x, "base", None)
    pages = getattr(x, "_mmap", None)
    if pages is not None and getattr(x, "mode", None) == "r" and hasattr(mmap, "MADV_DONTNEED"):
        pages.madvise(mmap.MADV_DONTNEED)


# Habits of a unit's columns: values that never change, how long others repeat theirs, and stops at which they rest.
#
# Stops are those of valves, full and empty tanks: the end of a sensor's range at which it comes to rest again and
# again.

_TOGETHER = 8  # repetitions of all columns at once that coarser logs hardly have
CHANGED, HELD, ALL_HELD = range(3)  # what the three bits of a row say
N_BITS = 3
_VISITS, _ROWS, _APART = 3, 3, 10  # visits, rows of each at least, and rows from one to the next


@dataclass(frozen=True)
class Habits:
    """What the columns of a unit do in nominal operation, to notice what Gaussian models of them cannot.

    constant, values : columns that had one value, and these values
    moving : the other columns; allowed : repetitions of a value that each may have
    step : decimals that matter in each moving column that never repeated, zero for the others
    coarse : repetitions allowed where such a column has just one decimal more
    """

    constant: np.ndarray
    values: np.ndarray
    moving: np.ndarray
    allowed: np.ndarray
    step: np.ndarray
    coarse: np.ndarray

    @classmethod
    def learn(cls, Y, starts, known=()):
        """Habits of nominal measurements, shape (n_samples, n_columns), columns that are `known` left out."""
        looked_at = ~np.isnan(Y).all(axis=0)
        looked_at[list(known)] = False
        same = constant_columns(Y)
        constant, moving = np.flatnonzero(same & looked_at), np.flatnonzero(~same & looked_at)
        values = np.nanmax(Y[:, constant], axis=0) if len(constant) else np.zeros(0)
        longest = _longest(Y[:, moving], starts)
        allowed = TUNING.habits_least + TUNING.habits_margin * longest
        spread = np.array([np.abs(np.diff(y[~np.isnan(y)])).mean() for y in Y[:, moving].T])
        step = np.zeros(len(moving))
        never = (longest < TUNING.habits_least) & (spread > 0)
        step[never] = 10.0 ** np.ceil(np.log10(TUNING.habits_fine * spread[never]))
        rounded = np.round(10 * Y[:, moving[never]] / step[never])
        coarse = allowed.copy()
        coarse[never] += TUNING.habits_margin * _longest(rounded, starts)
        return cls(constant, values, moving, allowed, step, coarse)

    def events(self, Y, starts, before=None):
        """Bits of every row, (n_samples, N_BITS), None where none is set, and where a stream stands after them."""
        if before is not None and len(Y) == 1 and self._is_usual(Y[0], before[0]):
            return None, (Y[0].take(self.moving), self._no_repetition)
        bits = np.zeros((len(Y), N_BITS), dtype=bool)
        if len(self.constant):
            shown = Y[:, self.constant]
            bits[:, CHANGED] = ((shown != self.values) & ~np.isnan(shown)).any(axis=1)
        moving = Y[:, self.moving]
        count = np.zeros(moving.shape, dtype=int)
        for start, stop in episodes(starts, len(Y)):
            last = before if start == 0 and before is not None else ()
            count[start:stop] = _repetitions(moving[start:stop], *last)
        held = count >= self.allowed
        if held.any():
            together = (held & (count >= _TOGETHER)).all(axis=1)
            held &= self._is_fine(moving, self.step) & (self._is_fine(moving, self.step / 10) | (count >= self.coarse))
            bits[:, HELD] = held.any(axis=1)
            bits[:, ALL_HELD] = (held.all(axis=1) | together) & (held.shape[1] > 1)
        after = None if not len(Y) else (moving[-1], count[-1])
        return (bits if bits.any() else None), after

    def _is_usual(self, row, last):
        """Whether no constant has another value and no value is that of the row before."""
        if len(self.constant) and row.take(self.constant).tolist() != self._values:
            return False
        return not any(map(eq, row.take(self.moving).tolist(), last.tolist()))  # of few numbers faster than arrays

    @cached_property
    def _values(self):
        return self.values.tolist()

    @cached_property
    def _no_repetition(self):
        return np.zeros(len(self.moving), dtype=int)

    @staticmethod
    def _is_fine(Y, step):
        """Whether values have decimals beyond these: a record that is logged more coarsely repeats more values."""
        scaled = Y / np.where(step > 0, step, 1.0)
        return (step == 0) | (np.abs(scaled - np.round(scaled)) > 1e-6 * np.maximum(np.abs(scaled), 1.0))


def _longest(Y, starts):
    """Longest repetition in each column of a record. `Y` is (n_samples, n_columns), the result (n_columns,)."""
    longest = np.zeros(Y.shape[1], dtype=int)
    for start, stop in episodes(starts, len(Y)):
        longest = np.maximum(longest, _repetitions(Y[start:stop]).max(axis=0))
    return longest


def _repetitions(Y, last=None, repeated=0):
    """How often the value of each cell came right before it, shape of `Y`, from the row before and its counts."""
    first = np.full((1, Y.shape[1]), np.nan) if last is None else last[None]
    same, rows = np.vstack([first, Y[:-1]])[: len(Y)] == Y, np.arange(1, len(Y) + 1)[:, None]
    begun = np.maximum.accumulate(np.where(same, 0, rows), axis=0)
    return np.where(same, rows - begun + np.where(begun == 0, repeated, 0), 0)


def stops_of(Y):
    """Stops that a record shows.

    Strict, since an answer that is cut off where there is no stop is worse than one that is not: an extreme value is a
    stop where the sensor rests three times, and where values are the denser the nearer they are to it.

    Parameters
    ----------
    Y : ndarray of shape (n_samples, n_sensors)
        Measurements, NaN where missing.

    Returns
    -------
    ndarray of shape (3, n_stops)
        Position of the sensor, -1 for its lowest value and 1 for its highest, value of the stop.
    """
    found = [
        (k, side, side * stop)
        for k in np.flatnonzero(np.isfinite(Y).any(axis=0))
        for side in (TUNING.habits_low, TUNING.habits_high)
        if (stop := _highest(side * Y[:, k])) is not None
    ]
    return np.array(found, dtype=float).reshape(-1, 3).T


def _highest(y):
    """Where the highest values of a series pile up, or None. `y` is (n_samples,)."""
    top, width = np.nanmax(y), TUNING.habits_width * np.nanstd(y)
    at = np.flatnonzero(y >= top - width)
    visits = np.split(at, np.flatnonzero(np.diff(at) > _APART) + 1)
    outer = (y >= top - width / 2).sum()
    below = ((y < top - width) & (y >= top - 2 * width)).sum()
    is_pile = len(at) >= max(TUNING.habits_pile * below, TUNING.habits_share * len(y)) and outer > len(at) - outer
    is_fine = len(np.unique(y[(y < top - width) & (y >= top - TUNING.habits_near * width)])) >= TUNING.habits_values
    is_stop = is_pile and is_fine and sum(len(rows) >= _ROWS for rows in visits) >= _VISITS
    return np.median(y[at]) if is_stop else None


def ends_of(stops, n_sensors):
    """Lowest and highest value of every sensor, (2, n_sensors), infinite where there is no stop."""
    ends = np.repeat([[-np.inf], [np.inf]], n_sensors, axis=1)
    sensors, sides, values = stops
    ends[(sides == TUNING.habits_high).astype(int), sensors.astype(int)] = values
    return ends


# Checks of matrices, and of a constant gain, that are given for a unit.

GIVEN = ("A", "B", "C", "Q", "R")
COMPLETE = frozenset("ACQR")  # with these there is nothing left to identify


def with_diagonal(R, added):
    """Noise covariance (or the diagonal of one) with independent noise of variances `added` on top.

    R is (d,) or (d, d), `added` (d,).
    """
    return R + (added if R.ndim == 1 else np.diag(added))


def given_matrices(client, n_features=None):
    """The matrices the user gave as checked arrays."""
    return check_matrices({name: getattr(client, name) for name in GIVEN}, n_features)


def check_matrices(values, n_features=None):
    """Matrices by name as checked arrays, without those that are None."""
    given = {name: as_floats(value, name) for name, value in values.items() if value is not None}
    if not given:
        return given
    if "C" not in given:
        raise ValueError(f"Matrices {sorted(given)} were given without C. Give C too (it defines the states), or none.")
    if given["C"].ndim != 2 or given["C"].shape[1] == 0:
        raise ValueError(f"C has shape {given['C'].shape}, expected (n_features, n_states).")
    _check_shapes(given, len(given["C"]) if n_features is None else n_features)
    if "A" in given and "Q" not in given:
        raise ValueError("A was given without Q. Give Q too, or leave A to be identified.")
    for name in given.keys() & {"A", "B", "C", "Q"}:
        if not np.isfinite(given[name]).all():
            raise ValueError(f"{name} has values that are not finite.")
    for name in ("Q", "R"):
        if name in given:
            _check_covariance(given[name], name)
    return given


def _check_shapes(given, n_features):
    d, p = n_features, given["C"].shape[1]
    n_inputs = given["B"].shape[-1:] if "B" in given else ()
    shapes = {"A": [(p, p)], "B": [(p, *n_inputs)], "C": [(d, p)], "Q": [(p, p)], "R": [(d,), (d, d)]}
    for name, matrix in given.items():
        if matrix.shape not in shapes[name]:
            expected = f"({p}, n_inputs)" if name == "B" else " or ".join(map(str, shapes[name]))
            raise ValueError(f"{name} has shape {matrix.shape}, expected {expected} for {d} columns and {p} states.")


def _check_symmetric(S, name):
    off = np.abs(S - S.T)
    if off.max() > TUNING.given_asymmetry * np.abs(S).max():
        i, j = np.unravel_index(off.argmax(), off.shape)
        raise ValueError(
            f"{name} must be symmetric; elements ({i}, {j}) and ({j}, {i}) are {S[i, j]:.3g} and "
            f"{S[j, i]:.3g}. For a small asymmetry give ({name} + {name}') / 2."
        )


def _check_covariance(S, name):
    """Refuse process noise Q that is no covariance, and sensor noise R that is none or singular."""
    if not np.isfinite(S).all():
        raise ValueError("R must be positive definite, but has values that are not finite.")
    if S.ndim == 2:
        _check_symmetric(S, name)
    values = np.sort(S) if S.ndim == 1 else np.linalg.eigvalsh(S)
    if name == "Q" and values[0] < -TUNING.given_negative * np.abs(values).max():
        raise ValueError(
            f"Q must be positive semidefinite; its smallest eigenvalue is {values[0]:.3g}. Give a covariance."
        )
    if name == "R" and not values[0] > 0:
        raise ValueError(
            f"R must be positive definite; its smallest eigenvalue is {values[0]:.3g}. A sensor without "
            "noise still has a resolution: give its square over 12."
        )


def restricted(given, active):
    """Given matrices for the active columns only."""
    if active.all() or not given:
        return given
    given = {**given, "C": given["C"][active]}
    if "R" in given:
        R = given["R"]
        given["R"] = R[active] if R.ndim == 1 else R[np.ix_(active, active)]
    return given


def checked_gain(gain, model, active):
    """A gain over the model's columns, which has to keep its filter stable.

    `gain` is (n_states, n_features), `active` (n_features,).
    """
    gain = as_floats(gain, "gain")
    if gain.shape != (model.n_states, len(active)) or not np.isfinite(gain).all():
        raise ValueError(
            f"gain has shape {gain.shape} or is not finite; give ({model.n_states}, {len(active)}) numbers, "
            "one row per state and one column per sensor."
        )
    gain = gain[:, active]
    radius = np.abs(np.linalg.eigvals(model.A - gain @ model.C @ model.A)).max()
    if radius >= 1:
        raise ValueError(
            f"With this gain errors of the filter grow: (I - K C) A has spectral radius {radius:.3g}. "
            "Give one below 1, or none for the Kalman gain."
        )
    return gain
