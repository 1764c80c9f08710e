"""Rows of an export in order of time and on a grid, cut into episodes where it has gaps."""

from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..containers.clock import ticks
from ..containers.rows import episode_starts, episodes_text, repeated_text, times_back
from ..quality.report import Finding, finding
from .steps import JITTER, ON_GRID, EvenStep, places_by_blocks, usual_step
from .tuning import TUNING

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
