"""Checks of a unit's record: inputs, columns that vary, rows enough to identify a model."""

import mmap
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from ..arguments import as_floats
from ..beside import beside
from ..callers import warn
from ..containers import constant_columns
from ..containers.arrays import column_texts
from ..statespace.episodes import column_mean
from .tuning import TUNING

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
    return Y if client.uses_all_columns else Y[:, client.used_columns]


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
