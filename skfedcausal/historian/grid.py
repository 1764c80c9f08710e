"""Rows of an export in order of time and on a grid, cut into episodes where it has gaps."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from ..containers.rows import episodes_text, repeated_text, times_back
from ..quality.report import Finding, finding

MOST_MISSING = 100  # rows that may be missing inside an episode; they stay as rows without values
_LEAST_ROWS = 10  # of an episode; shorter ones are left out
_ON_GRID = 0.9  # share of the steps that are multiples of the usual one
_JITTER = 0.1  # of a step


class Gridded(NamedTuple):
    """Rows on a grid, the rows of each episode, what was done in words, and findings about the rows."""

    frame: pd.DataFrame
    lengths: tuple[int, ...]
    said: tuple[str, ...]
    findings: tuple[Finding, ...]


def on_grid(table, every=None):
    """A table in order of time on a grid; missing rows are empty, and longer gaps end an episode."""
    table, episodes, findings = _in_order(table)
    step = usual_step(table.index) if every is None else pd.Timedelta(every)
    if step is None or step <= pd.Timedelta(0):
        return Gridded(table, (len(table),), (), findings)
    parts = [part for rows in episodes for part in _cut(table.iloc[rows], step)]
    kept = [part for part in parts if len(part) >= _LEAST_ROWS] or parts
    gridded = [_gridded(part, step, every is not None) for part in kept]
    said = _said(table, parts, kept, gridded, step)
    frame = pd.concat(gridded) if len(gridded) > 1 else gridded[0]
    frame.index.name = None
    return Gridded(frame, tuple(map(len, gridded)), said, findings)


def usual_step(index):
    """Median distance of successive rows, None where there is no telling."""
    steps = np.diff(index.asi8)
    steps = steps[steps > 0]
    return pd.Timedelta(np.median(steps), unit=index.unit) if len(steps) else None


def _in_order(table):
    """The table in order of time, the rows of each record in it, and findings about the order it came in."""
    times = table.index
    if len(times) > 1 and np.median(np.sign(np.diff(times.asi8))) < 0:
        table = table.iloc[::-1]
        times = table.index
    kind, back = times_back(times)
    findings = []
    if kind == "episodes":
        findings.append(finding(kind, float(len(back)), _ends(times), sentence=episodes_text(times, back)))
        bounds = [0, *back, len(times)]
        return table, [slice(a, b) for a, b in zip(bounds[:-1], bounds[1:], strict=True)], findings
    if kind is not None:
        name = "rows in no order" if kind == "no order" else "repeated hour"
        findings.append(finding(name, float(len(back)), _ends(times), sentence=repeated_text(times)))
        table = table.sort_index(kind="stable")
    twice = table.index.duplicated(keep="last")
    if twice.any():
        if kind != "hour":
            findings.append(finding("duplicate rows", float(twice.sum()), _ends(table.index[twice])))
        table = table[~twice]
    return table, [slice(0, len(table))], findings


def _ends(times):
    return times.min(), times.max()


def _cut(table, step):
    """Parts of a record between its long gaps."""
    far = np.flatnonzero(np.asarray((table.index[1:] - table.index[:-1]) / step) > MOST_MISSING + 1.5) + 1
    bounds = [0, *far, len(table)]
    return [table.iloc[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True)]


def _gridded(table, step, resample):
    """One episode on a grid; on that of its own first row where its rows are on one already."""
    places = (table.index - table.index[0]) / step
    regular = (abs(places - places.to_numpy().round()) < _JITTER).mean() >= _ON_GRID
    if resample or not regular:
        binned = table.groupby(table.index.ceil(step)).last()
        return binned.reindex(pd.date_range(binned.index[0], binned.index[-1], freq=step))
    places = places.to_numpy().round().astype(int)
    if len(places) == places[-1] + 1 and (np.diff(places) == 1).all():
        return table
    values = np.full((places[-1] + 1, table.shape[1]), np.nan)
    values[places] = table.to_numpy()
    index = pd.date_range(table.index[0], periods=len(values), freq=step)
    return pd.DataFrame(values, index=index, columns=table.columns)


def _said(table, parts, kept, gridded, step):
    """What was done, in words."""
    said = []
    added = sum(map(len, gridded)) - sum(map(len, kept))
    if added > 0:
        said.append(f"grid: {added} missing rows are there without values, one row every {_short(step)}")
    if len(parts) > 1:
        gaps = [(a.index[-1], b.index[0]) for a, b in zip(parts[:-1], parts[1:], strict=True)]
        shown = "; ".join(f"{_time(a)} to {_time(b)}" for a, b in gaps[:3]) + ("; ..." if len(gaps) > 3 else "")
        said.append(f"episodes: cut into {len(kept)} where rows are further apart ({shown})")
    if len(kept) < len(parts):
        rows = sum(map(len, parts)) - sum(map(len, kept))
        said.append(f"episodes: {len(parts) - len(kept)} of fewer than {_LEAST_ROWS} rows are left out, {rows} rows")
    return tuple(said)


def _short(step):
    return f"{step.total_seconds():g} s"


def _time(time):
    return f"{time:%Y-%m-%d %H:%M:%S}"
