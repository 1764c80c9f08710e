"""Rows of an export in order of time and on a grid, cut into episodes where it has gaps."""

from itertools import chain
from typing import NamedTuple

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


def on_grid(table, every=None, runs=None):
    """A table in order of time on a grid; missing rows are empty, and longer gaps end an episode.

    `runs` are the rows of each run that the table names, each of which is an episode.
    """
    records, findings, said = _in_order(table) if runs is None else _runs_in_order(table, runs)
    step = usual_step(max(records, key=len).index) if every is None else EvenStep(pd.Timedelta(every))
    if step is None or (every is not None and step.size <= pd.Timedelta(0)):
        return Gridded(pd.concat(records), tuple(map(len, records)), tuple(said), tuple(findings))
    parts = [part for record in records for part in _cut(record, step)]
    kept = [part for part in parts if len(part) >= TUNING.grid_least_rows] or parts
    gridded = [_gridded(part, step, every is not None) for part in kept]
    said += _said(parts, kept, gridded, step, len(records))
    frame = pd.concat(gridded) if len(gridded) > 1 else gridded[0]
    frame.index.name = None
    return Gridded(frame, tuple(map(len, gridded)), tuple(said), tuple(findings))


def _runs_in_order(table, runs):
    """As :func:`_in_order` for a table that names runs of rows."""
    own = [_in_order(table.iloc[a : a + rows]) for a, rows in zip(episode_starts(runs), runs, strict=True)]
    records, findings, said = (list(chain.from_iterable(parts)) for parts in zip(*own, strict=True))
    return records, findings, [f"episodes: the index names {len(runs)} runs", *said]


def _in_order(table):
    """Records in order of time, findings about the order they came in, and what was done in words."""
    said, findings = [], []
    if table.index.is_monotonic_increasing and table.index.is_unique:
        return [table], findings, said
    steps = np.sign(np.diff(ticks(table.index)))
    if len(steps) and np.median(steps) < 0:
        table = table.iloc[::-1]
        said += ["order: rows came newest first and were reversed"] * bool((steps < 0).mean() > TUNING.grid_turned)
    times = table.index
    kind, back = times_back(times)
    if kind == "episodes":
        text = episodes_text(times, back)
        bounds = [0, *back, len(times)]
        records = [table.iloc[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
        return records, [finding(kind, float(len(back)), _ends(times), sentence=text)], said
    if kind is not None:
        hour = "repeated hour" if getattr(times, "tz", None) is None else "repeated hour: in its zone"
        name = "rows in no order" if kind == "no order" else hour
        findings = [finding(name, float(len(back)), _ends(times), sentence=repeated_text(times))]
        if kind == "hour" and getattr(times, "tz", None) is None:
            table = table.set_axis(times + pd.to_timedelta(np.cumsum(np.isin(np.arange(len(times)), back)), unit="h"))
            said.append(
                f"clock: put back by an hour at {time_text(times[back[0]])}; rows after it are counted an hour later"
            )
        else:
            table = table.sort_index(kind="stable")
            said.append("order: rows were sorted by time")
    twice = table.index.duplicated(keep="last")
    if twice.any():
        if kind != "hour":
            findings.append(finding("duplicate rows", float(twice.sum()), _ends(table.index[twice])))
        table = table[~twice]
    return [table], findings, said


def _ends(times):
    return times.min(), times.max()


def _cut(table, step):
    """Parts of a record between its long gaps."""
    far, before = [], 0.0
    for k, places in enumerate(places_by_blocks(step, table.index)):
        far += (np.flatnonzero(np.diff(places, prepend=before) > MOST_MISSING + 1.5) + k * TUNING.times_block).tolist()
        before = places[-1]
    bounds = [0, *far, len(table)]
    return [table.iloc[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True)]


def _gridded(table, step, resample):
    """One episode on a grid; on that of its own first row where its rows are on one already."""
    zone = getattr(table.index, "tz", None)
    if zone is not None and isinstance(step, EvenStep):  # days of a zone are not equally long
        return _gridded(table.tz_convert("UTC").tz_localize(None), step, resample).tz_localize("UTC").tz_convert(zone)
    places, n_near, n_in_turn = np.empty(len(table), dtype=int), 0, 0
    for k, part in enumerate(places_by_blocks(step, table.index)):
        whole, start = part.round(), k * TUNING.times_block
        places[start : start + len(part)] = whole
        n_near += np.count_nonzero(abs(part - whole) < JITTER)
        n_in_turn += np.count_nonzero(whole == np.arange(start, start + len(part)))
    if resample or n_near < ON_GRID * len(table):
        binned = table.groupby(step.ends(table.index)).last()
        whole = step.places(binned.index).round().astype(int)
        return _placed(binned, whole, step)
    if n_in_turn == len(table):
        return table
    return _placed(table, places, step)


def _placed(table, places, step):
    """Rows at their places of a grid from the first one on."""
    values = np.full((places[-1] + 1, table.shape[1]), np.nan)
    values[places] = table.to_numpy()
    return pd.DataFrame(values, index=step.grid(table.index, places), columns=table.columns)


def _said(parts, kept, gridded, step, n_records):
    """What was done, in words."""
    said = []
    added = sum(map(len, gridded)) - sum(map(len, kept))
    if added > 0:
        said.append(f"grid: {added} missing rows are there without values, one row every {step}")
    elif added < 0:
        said.append(f"grid: of {sum(map(len, kept))} rows {-added} were merged, one row every {step}")
    if len(parts) > 1:
        gaps = [(a.index[-1], b.index[0]) for a, b in zip(parts[:-1], parts[1:], strict=True)]
        shown = "; ".join(f"{time_text(a)} to {time_text(b)}" for a, b in gaps[:3]) + ("; ..." if len(gaps) > 3 else "")
        where = "where rows are further apart" if len(parts) > n_records else "where times go back"
        said.append(f"episodes: cut into {len(kept)} {where} ({shown})")
    if len(kept) < len(parts):
        rows = sum(map(len, parts)) - sum(map(len, kept))
        said.append(
            f"episodes: {len(parts) - len(kept)} of fewer than {TUNING.grid_least_rows} rows are left out, {rows} rows"
        )
    return said


def time_text(time):
    """A time to the second, other places of rows as they are."""
    return f"{time:%Y-%m-%d %H:%M:%S}" if isinstance(time, pd.Timestamp) else str(time)
