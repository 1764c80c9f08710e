"""What a check found, put right: fill values, frozen tags, tags that are there twice."""

from collections.abc import Sequence, Set

import numpy as np
import pandas as pd

from ..arguments import check_kind
from ..containers.layout import listed
from ..quality.tags import Tag, filled
from .tuning import TUNING

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
