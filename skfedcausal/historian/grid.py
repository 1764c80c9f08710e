"""Rows of an export in order of time and on a grid: steps, archives by exception, gaps, what is put right."""

from collections.abc import Sequence, Set
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..arguments import check_kind
from ..containers.arrays import listed
from ..containers.rows import episode_starts, episodes_text, repeated_text, ticks, times_back
from ..quality.report import Finding, finding
from ..quality.tags import Tag, filled
from .tuning import TUNING

# The step from row to row of a record: a span, a number, or months of the calendar.

ON_GRID = 0.9  # share of the rows that are on a grid where it is that of the record
JITTER = 0.1  # of a step, by which a row that is on a grid may be off it
_SECONDS = 1, 2, 5, 10, 15, 20, 30
_ROUND_SECONDS = np.array(
    [tick * size for size in (0.001, 0.01, 0.1) for tick in (1, 2, 5)]
    + [tick * size for size in (1, 60) for tick in _SECONDS]
    + [3600 * hours for hours in (1, 2, 3, 4, 6, 8, 12, 24)]
)


@dataclass(frozen=True)
class EvenStep:
    """Rows at even distances of `size`, a Timedelta or a number."""

    size: Any

    def places(self, index, first=None):
        """Distance of each row from the first one, or another time, in steps."""
        return np.asarray((index - (index[0] if first is None else first)) / self.size, dtype=float)

    def grid(self, index, places):
        """Clock of a row at every place, for rows at some of them."""
        first, n_rows = index[0], places[-1] + 1
        if isinstance(first, pd.Timestamp):
            return pd.date_range(first, periods=n_rows, freq=self.size)
        if isinstance(first, pd.Timedelta):
            return pd.timedelta_range(first, periods=n_rows, freq=self.size)
        return pd.Index(first + self.size * np.arange(n_rows))

    def ends(self, index):
        """End of the step that each row is in."""
        if isinstance(index, (pd.DatetimeIndex, pd.TimedeltaIndex)):
            return index.ceil(self.size)
        return pd.Index(np.ceil(index.to_numpy() / self.size) * self.size)

    def __str__(self):
        return f"{self.size.total_seconds():g} s" if isinstance(self.size, pd.Timedelta) else f"{self.size:g}"


@dataclass(frozen=True)
class CalendarStep:
    """Rows of every month, quarter (3 months) or year (12), which are not equally long."""

    months: int

    def places(self, index, first=None):
        """Distance of each row from the first one, or another time, in steps."""
        number, start = index.year * 12 + index.month, index[0] if first is None else first
        return np.asarray((number - (start.year * 12 + start.month)) / self.months, dtype=float)

    def grid(self, index, places):
        """Times of a row at every place; rows that are there keep their own."""
        known = dict(zip(places.tolist(), index, strict=True))
        months = (pd.DateOffset(months=self.months * place) for place in range(places[-1] + 1))
        return pd.DatetimeIndex([known.get(place, index[0] + month) for place, month in enumerate(months)])

    def __str__(self):
        return {1: "month", 3: "quarter", 12: "year"}.get(self.months, f"{self.months} months")


def usual_step(index):
    """Step of a record's rows, a round one where they come within a tenth of it; None where there is no telling."""
    steps = np.diff(ticks(index))
    if (steps <= 0).any():
        steps = steps[steps > 0]
    if not len(steps):
        return None
    usual = np.median(steps, overwrite_input=True)  # of a long record the steps are as large as a tag
    if not isinstance(index, (pd.DatetimeIndex, pd.TimedeltaIndex)):
        return EvenStep(usual.item())
    step = EvenStep(pd.Timedelta(usual, unit=index.unit))
    seconds = step.size.total_seconds()
    is_long = isinstance(index, pd.DatetimeIndex) and seconds > TUNING.steps_month
    if is_long and (calendar := _of_calendar(index)) is not None:
        return calendar
    rounded = EvenStep(pd.Timedelta(_ROUND_SECONDS[np.argmin(np.abs(_ROUND_SECONDS - seconds))], unit="s"))
    is_near = rounded.size != step.size and abs(rounded.size / step.size - 1) < TUNING.steps_round
    return rounded if is_near and _keeps_pace(rounded, index) and not _keeps_pace(step, index) else step


def _keeps_pace(step, index):
    """Whether rows stay where they are within a step, which they drift through if it is another one."""
    turns = (np.exp(2j * np.pi * places).sum() for places in places_by_blocks(step, index))
    return bool(abs(sum(turns)) > TUNING.steps_pace * len(index))


def places_by_blocks(step, index):
    """Distance of each row from the first one in steps, a block of rows after the other."""
    starts = range(0, len(index), TUNING.times_block)
    return (step.places(index[start : start + TUNING.times_block], index[0]) for start in starts)


def _of_calendar(index):
    """Step of months where rows come one in each so many, and not at even distances; else None."""
    days = np.diff(index.asi8) / (pd.Timedelta("1D") // pd.Timedelta(1, unit=index.unit))
    if not 27 < np.median(days) < 370 or (days == days[0]).all():
        return None
    number = np.asarray(index.year * 12 + index.month)
    months = int(np.median(np.diff(number)))
    is_end, day = np.asarray(index.is_month_end), np.asarray(index.day)
    same_day = (is_end | (day >= day.max())).all() or np.ptp(day) == 0
    return CalendarStep(months) if months and same_day and not (np.diff(number) % months).any() else None


# Rows of an export in order of time and on a grid, cut into episodes where it has gaps.

MOST_MISSING = 100  # rows that may be missing inside an episode; they stay as rows without values


class Gridded(NamedTuple):
    """Rows on a grid, the rows of each episode, what was done in words, and findings about the rows."""

    frame: pd.DataFrame
    lengths: tuple[int, ...]
    said: tuple[str, ...]
    findings: tuple[Finding, ...]


class _Part(NamedTuple):
    """Rows of a table in order of time: their times, and their numbers as range or array."""

    times: pd.Index
    rows: Any

    def cut(self, bounds):
        """Parts between some of its rows."""
        return [_Part(self.times[a:b], self.rows[a:b]) for a, b in zip(bounds[:-1], bounds[1:], strict=True)]


class _Placed(NamedTuple):
    """Rows of a part, the clock of its episode, the row of each in it, and whether rows of one step are merged."""

    rows: Any
    clock: pd.Index | None
    places: np.ndarray | None = None  # None: in turn
    merged: bool = False

    def fill(self, values, column):
        """Put a column of the table where it is in the episode."""
        own = column[_as_slice(self.rows) if isinstance(self.rows, range) else self.rows]
        if self.places is None:
            values[:] = own
            return
        values[:] = np.nan
        there = ~np.isnan(own) if self.merged else slice(None)
        values[self.places[there]] = own[there]  # the last of those at one place


def _as_slice(rows):
    """The slice of a range of rows."""
    return slice(rows.start, rows.stop if rows.stop >= 0 else None, rows.step)


def on_grid(table, every=None, runs=None):
    """A table in order of time on a grid; missing rows are empty, and longer gaps end an episode.

    `runs` are the rows of each run that the table names, each of which is an episode. A table that nobody else has is
    let go of column by column: it and what is made of it are in memory once.
    """
    placed, findings, said = _placed(_Part(table.index, range(len(table))), every, runs)
    names, columns = table.columns, _columns(table)
    del table
    clock = placed[0].clock.append([part.clock for part in placed[1:]]) if len(placed) > 1 else placed[0].clock
    lengths = tuple(len(part.clock) for part in placed)
    placed = [_Placed(part.rows, None, part.places, part.merged) for part in placed]
    frame = pd.DataFrame(_in_one_block(columns, placed, lengths).T, clock.rename(None), names, copy=False)
    return Gridded(frame, lengths, tuple(said), tuple(findings))


def _placed(whole, every, runs):
    """Where the rows of a table go, findings about the order they came in, and what was done in words."""
    records, findings, said = _in_order(whole) if runs is None else _runs_in_order(whole, runs)
    longest = max(records, key=lambda record: len(record.times))
    step = usual_step(longest.times) if every is None else EvenStep(pd.Timedelta(every))
    if step is None or (every is not None and step.size <= pd.Timedelta(0)):
        return [_Placed(record.rows, record.times) for record in records], findings, said
    parts = [part for record in records for part in _cut(record, step)]
    kept = [part for part in parts if len(part.times) >= TUNING.grid_least_rows] or parts
    placed = [_gridded(part, step, every is not None) for part in kept]
    return placed, findings, [*said, *_said(parts, kept, placed, step, len(records))]


def _columns(table):
    """Columns of a table as arrays, those that are large one by one, as they lie in memory."""
    if table.shape[0] < TUNING.grid_long:
        return list(table.to_numpy(dtype=float).T)
    return [table.iloc[:, k].to_numpy(dtype=float) for k in range(table.shape[1])]


def _in_one_block(columns, placed, lengths):
    """Rows of the episodes, shape (n_columns, n_rows); each of the columns is let go once it is there."""
    block = np.empty((len(columns), sum(lengths)))
    for k in range(len(columns)):
        for part, start, rows in zip(placed, episode_starts(lengths), lengths, strict=True):
            part.fill(block[k, start : start + rows], columns[k])
        columns[k] = None
    return block


def _runs_in_order(whole, runs):
    """As :func:`_in_order` for a table that names runs of rows."""
    own = [_in_order(part) for part in whole.cut([*episode_starts(runs), len(whole.times)])]
    records, findings, said = (list(chain.from_iterable(parts)) for parts in zip(*own, strict=True))
    return records, findings, [f"episodes: the index names {len(runs)} runs", *said]


def _in_order(part):
    """Records in order of time, findings about the order they came in, and what was done in words."""
    said: list[str] = []
    findings: list[Finding] = []
    times, rows = part
    if times.is_monotonic_increasing and times.is_unique:
        return [part], findings, said
    steps = np.sign(np.diff(ticks(times)))
    if len(steps) and np.median(steps) < 0:
        times, rows = times[::-1], rows[::-1]
        said += ["order: rows came newest first and were reversed"] * bool((steps < 0).mean() > TUNING.grid_turned)
    kind, back = times_back(times)
    if kind == "episodes":
        text = episodes_text(times, back)
        records = _Part(times, rows).cut([0, *back, len(times)])
        return records, [finding(kind, float(len(back)), _ends(times), sentence=text)], said
    if kind is not None:
        hour = "repeated hour" if getattr(times, "tz", None) is None else "repeated hour: in its zone"
        name = "rows in no order" if kind == "no order" else hour
        findings = [finding(name, float(len(back)), _ends(times), sentence=repeated_text(times))]
        if kind == "hour" and getattr(times, "tz", None) is None:
            said.append(
                f"clock: put back by an hour at {time_text(times[back[0]])}; rows after it are counted an hour later"
            )
            times = times + pd.to_timedelta(np.cumsum(np.isin(np.arange(len(times)), back)), unit="h")
        else:
            order = np.argsort(ticks(times), kind="stable")
            times, rows = times[order], np.asarray(rows)[order]
            said.append("order: rows were sorted by time")
    twice = times.duplicated(keep="last")
    if twice.any():
        if kind != "hour":
            findings.append(finding("duplicate rows", float(twice.sum()), _ends(times[twice])))
        times, rows = times[~twice], np.asarray(rows)[~twice]
    return [_Part(times, rows)], findings, said


def _ends(times):
    return times.min(), times.max()


def _cut(record, step):
    """Parts of a record between its long gaps."""
    far, before = [], 0.0
    for k, places in enumerate(places_by_blocks(step, record.times)):
        far += (np.flatnonzero(np.diff(places, prepend=before) > MOST_MISSING + 1.5) + k * TUNING.times_block).tolist()
        before = places[-1]
    return record.cut([0, *far, len(record.times)])


def _gridded(part, step, resample):
    """One episode on a grid; on that of its own first row where its rows are on one already."""
    times, zone = part.times, getattr(part.times, "tz", None)
    if zone is not None and isinstance(step, EvenStep):  # days of a zone are not equally long
        plain = _gridded(_Part(times.tz_convert("UTC").tz_localize(None), part.rows), step, resample)
        return _Placed(plain.rows, plain.clock.tz_localize("UTC").tz_convert(zone), plain.places, plain.merged)
    places, n_near, n_in_turn = np.empty(len(times), dtype=int), 0, 0
    for k, own in enumerate(places_by_blocks(step, times)):
        whole, start = own.round(), k * TUNING.times_block
        places[start : start + len(own)] = whole
        n_near += int((abs(own - whole) < JITTER).sum())
        n_in_turn += int((whole == np.arange(start, start + len(own))).sum())
    if resample or n_near < ON_GRID * len(times):
        times = step.ends(times)
        places = step.places(times).round().astype(int)
        return _Placed(part.rows, step.grid(times, places), places, merged=True)
    if n_in_turn == len(times):
        return _Placed(part.rows, times)
    return _Placed(part.rows, step.grid(times, places), places)


def _said(parts, kept, placed, step, n_records):
    """What was done, in words."""
    said = []
    n_rows = sum(len(part.times) for part in kept)
    added = sum(len(part.clock) for part in placed) - n_rows
    if added > 0:
        said.append(f"grid: {added} missing rows are there without values, one row every {step}")
    elif added < 0:
        said.append(f"grid: of {n_rows} rows {-added} were merged, one row every {step}")
    if len(parts) > 1:
        gaps = [(a.times[-1], b.times[0]) for a, b in zip(parts[:-1], parts[1:], strict=True)]
        shown = "; ".join(f"{time_text(a)} to {time_text(b)}" for a, b in gaps[:3]) + ("; ..." if len(gaps) > 3 else "")
        where = "where rows are further apart" if len(parts) > n_records else "where times go back"
        said.append(f"episodes: cut into {len(kept)} {where} ({shown})")
    if len(kept) < len(parts):
        rows = sum(len(part.times) for part in parts) - n_rows
        said.append(
            f"episodes: {len(parts) - len(kept)} of fewer than {TUNING.grid_least_rows} rows are left out, {rows} rows"
        )
    return said


def time_text(time):
    """A time to the second, other places of rows as they are."""
    return f"{time:%Y-%m-%d %H:%M:%S}" if isinstance(time, pd.Timestamp) else str(time)


# Archives that store a value when it has moved: between its events a tag still has its last value.

_MOST_ROWS = 4  # times the rows that are there: what a grid may add


def table_of(series, hold, every=None):
    """Table of tags that have times of their own, and what was done in words.

    Parameters
    ----------
    series : dict of str to Series
        Values by time in order, NaN where they are bad.
    hold : str, Timedelta or None
        How long a good value holds after it was stored; "auto" for the longest usual silence of its tag.
    every : str or Timedelta, default=None
        Step of the rows; None for the usual one.

    Returns
    -------
    tuple of (DataFrame, tuple of str)
    """
    table = pd.DataFrame(series)
    if not len(table) or not isinstance(table.index, (pd.DatetimeIndex, pd.TimedeltaIndex)):
        return table, ()
    empty = 1 - sum(map(len, series.values())) / table.size
    if hold is None or empty < TUNING.archive_empty:
        said = f"archive: {empty:.0%} of the cells have no event; hold='auto' holds the values between (--hold auto)"
        return table, (said,) if empty >= TUNING.archive_empty else ()
    moments = _with_grid(table.index, every)
    limits = {tag: _longest(own.index) if hold == "auto" else pd.Timedelta(hold) for tag, own in series.items()}
    held = pd.DataFrame({tag: held_at(own, moments, limits[tag]) for tag, own in series.items()})
    kept = held.notna().any(axis=1).to_numpy() | moments.isin(table.index)
    longest = max(limits.values())
    said = f"archive: values hold until the next, up to {longest.total_seconds():g} s ({listed(list(series), 3)})"
    return held[kept], (said,)


def _with_grid(index, every):
    """Times of all events and of the grid between them."""
    step = usual_step(index) if every is None else EvenStep(pd.Timedelta(every))
    if not isinstance(step, EvenStep):
        return index
    n_rows = int(step.places(index[[0, -1]])[-1]) + 1
    return index if n_rows > _MOST_ROWS * len(index) else index.union(step.grid(index, np.array([n_rows - 1])))


def _longest(index):
    """Longest silence of a tag that is no outage."""
    silences = (index[1:] - index[:-1]).sort_values()
    if not len(silences):
        return pd.Timedelta(0)
    usual = silences[int(TUNING.archive_usual * (len(silences) - 1))]
    return silences[silences <= TUNING.archive_longer * usual].max()


def held_at(series, moments, limit):
    """Last value of a tag at some times, NaN where that was bad or is too long ago."""
    place = series.index.searchsorted(moments, side="right") - 1
    last = np.maximum(place, 0)
    usable = (place >= 0) & np.asarray(moments - series.index[last] <= limit)
    return pd.Series(np.where(usable, series.to_numpy()[last], np.nan), index=moments)


# What a check found, put right: fill values, frozen tags, tags that are there twice.

_RIGHTED = {  # by a fix: the kinds of findings that it puts right
    "fill values": ("fill value",),
    "stuck": ("stuck", "outage"),
    "duplicates": ("same tag", "same sensor", "duplicate rows"),
    "grid": ("rows in no order", "repeated hour"),
    "episodes": ("episodes",),
}
NAMES = tuple(_RIGHTED)
FIXES = {kind: name for name, kinds in _RIGHTED.items() for kind in kinds}


def read_fixes(fix):
    """Names of fixes from what the user gave."""
    check_kind(() if fix is None else fix, "`fix`", (str, Sequence, Set), f"'all' or some of {listed(NAMES)}")
    given = [part.strip() for part in fix.split(",")] if isinstance(fix, str) else list(fix or ())
    if given == ["all"]:
        return NAMES
    unknown = [name for name in given if name and name not in NAMES]
    if unknown:
        raise ValueError(f"Got fix={listed(unknown)}; choose of {listed(NAMES)}, or 'all'.")
    return tuple(name for name in given if name)


def apply_fixes(frame, findings, fixes):
    """The frame with findings put right, and what was done in words."""
    said: list[str] = []
    for name, put_right in (("fill values", _without_fills), ("stuck", _without_frozen), ("duplicates", _once)):
        if name in fixes:
            frame, told = put_right(frame, findings[findings["kind"].map(FIXES.get) == name])
            said += [f"{name}: {told}"] if told else []
    return frame.dropna(axis=1, how="all") if said else frame, said


def _without_fills(frame, findings):
    """NaN for values that stand for none, until there are no more."""
    fixed: dict[str, np.ndarray] = {}
    cells, values = 0, set[float]()
    known = set(findings.loc[findings["kind"] == "fill value", "value"])
    for column in dict.fromkeys(findings.loc[findings["kind"] == "fill value", "column"]):
        series = frame[column].to_numpy(copy=True)
        for _ in range(TUNING.fixes_most_fills):
            fills = [value for value, _ in filled(Tag(series, np.zeros(1, dtype=int)), known)]
            if not fills:
                break
            there = np.isin(series, fills)
            series[there], cells, values = np.nan, cells + int(there.sum()), values | set(fills)
        fixed[column] = series
    if not cells:
        return frame, ""
    marks, names = listed([f"{value:g}" for value in sorted(values)], 6, quoted=False), listed(list(fixed), 4)
    tags = f"{len(fixed)} tag" + "s" * (len(fixed) != 1)
    return frame.assign(**fixed), f"{marks} in {cells} cells of {tags} set to missing ({names})"


def _without_frozen(frame, findings):
    """NaN where a tag or a whole unit repeats a value that it no longer measures."""
    fixed = frame.copy()
    told = []
    for found in findings.itertuples():
        rows = _rows(frame.index, found.start, found.end)
        if found.kind == "stuck":
            there = rows & (frame[found.column].to_numpy() == found.value)
            fixed.loc[there, found.column] = np.nan
            told.append(f"{found.column} from {found.start} to {found.end}")
        elif "last values" in found.detail:
            own = [column for column in frame if column.startswith(f"{found.unit}__")]
            same = frame[own].to_numpy() == frame[own].to_numpy()[np.argmax(rows)]
            fixed[own] = fixed[own].mask(rows[:, None] & same)
            told.append(f"{found.unit} from {found.start} to {found.end}")
    return fixed, f"set to missing: {listed(told, 6, quoted=False)}" if told else ""


def _rows(index, start, end):
    """Mask of the rows from one to another, times or positions."""
    places = index if isinstance(index, pd.DatetimeIndex) else np.arange(len(index))
    return np.asarray((places >= start) & (places <= end))


def _once(frame, findings):
    """Without the tags that are there before, in the same unit or another."""
    copies = findings[findings["kind"].isin(["same tag", "same sensor"])].drop_duplicates("column")
    if copies.empty:
        return frame, ""
    told = [f"{one.column} ({one.detail})" for one in copies.itertuples()]
    return frame.drop(columns=list(copies["column"])), f"left out {listed(told, 4, quoted=False)}"
