"""The check of a plant's record, unit by unit on the clock that each came with."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..arguments import Lengths, Record
from ..containers.arrays import as_native, copied_tags
from ..containers.plant import read_plant
from ..containers.rows import is_numbering, read_clock, repeated_stretch, repeated_text, ticks, times_back
from .clocks import clock_offsets, most_rows
from .moves import common_spikes, moves_of
from .report import Finding, PlantCheck, finding, sketch, unit_table
from .tags import Tag, at_limit, filled, fingerprint, frozen, gaps, same_columns, straight, update_period
from .tuning import TUNING

# A plant's record unit by unit, each on the clock it came with.


@dataclass(frozen=True, eq=False)
class UnitRecord:
    """Tags of one unit, `values` of shape (n_samples, n_columns); a gap or an episode ends at `breaks`.

    `times` are the clock that its rows came with, of any kind, and `index` is that without rows that have a time twice.
    """

    name: str
    columns: tuple[str, ...]
    values: np.ndarray
    index: pd.DatetimeIndex | None
    times: pd.Index | None
    breaks: np.ndarray

    @cached_property
    def step(self):
        """Median distance of two rows, None where rows have no times."""
        if self.index is None or len(self.index) < 2:
            return None
        return pd.Timedelta(np.median(np.diff(self.index.asi8)), unit=self.index.unit)

    def time(self, row):
        """Time of a row, or its number."""
        return int(row) if self.index is None else self.index[int(row)]

    def span(self, n_rows):
        """Length of a segment of rows, in words."""
        return f"{n_rows:.0f} row{'s' * (round(n_rows) != 1)}" if self.step is None else duration(n_rows * self.step)


def duration(delta, digits=".3g"):
    """A time difference as a person would say it: ``58 s``, ``2.5 h``."""
    seconds = abs(delta.total_seconds())
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:{digits}} {name}"
    return f"{seconds:{digits}} s"


def read_units(X, client_labels, lengths):
    """List of UnitRecord, of a dict each on its own clock, and whether all units have the same rows."""
    X = as_native(X)
    tables = _tables_with_clocks(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what they say is found below
        if tables is None:
            plants = [read_plant(X, client_labels=client_labels, lengths=lengths, by_rows=False)]
        else:
            plants = [read_plant({name: table}, by_rows=False) for name, table in tables.items()]
    return [_unit(unit, data) for data in plants for unit in data.units()], tables is None


def _tables_with_clocks(X):
    """Frames by unit where each has times of its own, else None."""
    if not isinstance(X, Mapping) or not X:
        return None
    tables = {str(name): as_native(table) for name, table in X.items()}
    if not all(isinstance(table, (pd.DataFrame, pd.Series)) for table in tables.values()):
        return None
    times: list[Any] = [read_clock(table.index).times for table in tables.values()]
    if not all(isinstance(index, pd.DatetimeIndex) for index in times):
        return None
    return None if all(index.equals(times[0]) for index in times) else tables


def _unit(unit, data):
    name, columns, values = unit
    breaks = set(data.starts)
    times = None if ticks(data.index) is None or is_numbering(data.index) else data.index
    index = times if isinstance(times, pd.DatetimeIndex) else None
    if index is not None and index.is_monotonic_increasing and not index.is_unique:
        first = ~index.duplicated()  # two series in turns
        values, index = values[first], index[first]
    clock = times if index is None else index
    if clock is not None and len(clock) > 2:
        steps = np.diff(ticks(clock))
        breaks |= set(np.flatnonzero((steps > TUNING.record_gap * np.median(steps)) | (steps < 0)) + 1)
    return UnitRecord(name, tuple(columns), values, index, times, np.array(sorted(breaks)))


# The check of a plant's record.


def check_plant(
    X: Record,
    *,
    client_labels: Any = "from_columns",
    lengths: Lengths = None,
    max_offset: int | str | pd.Timedelta | None = None,
) -> PlantCheck:
    """Find out what is wrong with a record before anything is fitted to it.

    Looks for outages and gaps, tags that froze, sit at a limit, carry a fill value, were interpolated or
    held by the historian or are slower than the table; for hours that occur twice or are left out; and for
    units whose clock is off. Binary tags, setpoints and integers are told from frozen tags by how they
    usually behave. Nothing is changed.

    Parameters
    ----------
    X : list, dict, DataFrame or ndarray
        Record of a plant in any container; frames of a dict may have different clocks.
    client_labels : "from_columns", array-like or callable, default="from_columns"
        Which unit a column of a table belongs to.
    lengths : sequence of int, default=None
        Rows of each episode of a table.
    max_offset : int, str or Timedelta, default=None
        Largest clock offset that is looked for, in rows or as time. None: 720 rows, a quarter of the record
        at most.

    Returns
    -------
    PlantCheck
        Tables `units` (verdict of each and what to do), `findings` and `tags`.

    Raises
    ------
    TypeError, ValueError
        If X is none of the containers.

    See Also
    --------
    read_historian : Reads exports and resolves zones and quality codes.

    Notes
    -----
    A frozen segment is one whose length the tail of the tag's other segments does not explain at 0.1 %.
    Straight lines are rows with a zero second difference, which measured values have by chance only where
    they are coarsely rounded; that share is taken off. Swinging-door compression [1]_ leaves such lines, and
    they make two units seem to move at the same time. Clocks are compared by the cross-correlation of the
    innovations of units' states [2]_: couplings and common disturbances show within two steps, so the check
    cannot tell the clock of a unit that nothing ties to the others, and takes a dead time of three steps or more
    between two units for an offset (the advice says so). Ties that no single lag shows are looked for by a score
    test of one unit's innovations against the other's states, and in means over eight steps. What units share splits
    over the lags between them [3]_: an offset is told where its unit shares twice as much with the others without it,
    and one of a step or two where the others share most within a step and its partners agree. Where two units differ
    and no third is tied to them, both are named.

    References
    ----------
    .. [1] Bristol (1990), Swinging door trending: adaptive trend recording?, ISA National Conference.
    .. [2] Haugh (1976), Checking the independence of two covariance-stationary time series: a univariate
           residual cross-correlation approach, Journal of the American Statistical Association 71.
    .. [3] Geweke (1982), Measurement of linear dependence and feedback between multiple time series, Journal of the
           American Statistical Association 77.

    Examples
    --------
    >>> import pandas as pd
    >>> from skfedcausal import check_plant
    >>> from skfedcausal.datasets import make_granger_plant
    >>> X, _ = make_granger_plant(
    ...     2, names=["boiler", "turbine"], n_links=1, link_strength=0.4, container="frame", random_state=0)
    >>> X.index = pd.date_range("2026-03-01", periods=len(X), freq="10s")
    >>> X.loc["2026-03-01 03:00":, "boiler__s1"] = 7.2
    >>> report = check_plant(X)
    >>> report
       unit  tags usable gaps clock   verdict    findings
     boiler     8   10 s   0%    ok fix first 1 stuck tag
    turbine     8   10 s   0%    ok        ok        none
    >>> report.findings[["column", "kind", "start"]].to_string(index=False)
    '    column  kind               start\\nboiler__s1 stuck 2026-03-01 03:00:00'
    """
    return checked(X, client_labels, lengths, max_offset)


def checked(X, client_labels="from_columns", lengths=None, max_offset=None, whole=True, known=None):
    """The check, or only what can be put right: without clocks and moves, which take most of the time.

    `known`, a dict, keeps what was found in each unit's tags, for another check in which some are as they were.
    """
    units, shared = read_units(X, client_labels, lengths)
    found: list[tuple] = []
    tables: list[pd.DataFrame] = []
    sketches: dict = {}
    for k, unit in enumerate(units):
        if not shared or k == 0:
            _check_order(unit, "all units" if shared else unit.name, found, lengths)
            _check_times(unit, "all units" if shared else unit.name, found)
        tables.append(_checked_once(unit, found, known))
        sketches |= {column: sketch(series) for column, series in zip(unit.columns, unit.values.T, strict=True)}
    tags = pd.concat(tables, ignore_index=True)
    if whole:
        _check_moves(units, tags, found)
    _check_known_fills(units, found)
    _check_sensors(units, tags, found)
    if shared:
        _check_copies(units, found)
    offsets = _check_clocks(units, shared, tags, found, max_offset) if whole else {}
    findings = pd.DataFrame(found, columns=list(Finding._fields))
    return PlantCheck(unit_table(units, findings, tags, offsets), findings, tags, sketches)


def _add(found, unit, what, value, *, label=None, column="", rows=None, ends=None, **words):
    """Add a finding in the whole record, in rows ``(start, stop)`` or at times `ends`; `words` fill its texts."""
    start, stop = (0, len(unit.values)) if rows is None else rows
    ends = (unit.time(start), unit.time(stop - 1)) if ends is None else ends
    words = {"span": unit.span(stop - start)} | words
    found.append(finding(what, value, ends, unit=label or unit.name, column=column, **words))


# -- times ----------------------------------------------------------------------------------------


def _check_order(unit, label, found, lengths):
    """Rows of an episode that go back in time or have that of another."""
    if unit.times is None:
        return
    starts = () if lengths is None else np.cumsum(np.asarray(lengths)[:-1])
    for rows in np.split(np.arange(len(unit.times)), starts):
        times = unit.times[rows]
        segment = repeated_stretch(times)
        if segment is not None:
            span = segment[1] - segment[0]
            is_time = isinstance(span, pd.Timedelta)
            seconds = (span + (unit.step or 0 * span)).total_seconds() if is_time else float(span)
            kind = {"no order": "rows in no order", "episodes": "episodes"}.get(times_back(times)[0], "repeated hour")
            _add(found, unit, kind, seconds, label=label, ends=segment, sentence=repeated_text(times))


def _check_times(unit, label, found):
    """Hours that are left out, rows that are not there."""
    if unit.index is None:
        return
    lost = "gap: no rows" if label == "all units" else "outage: no rows"
    for row in unit.breaks[1:]:
        ends = unit.index[row - 1 : row + 1]
        missing = ends[1] - ends[0] - unit.step
        is_night = ends[1].day_name() == "Sunday" and ends[1].hour in (1, 2, 3)
        skipped = unit.index.tz is None and missing == pd.Timedelta("1h") and is_night
        if missing > pd.Timedelta(0):
            what, seconds = "skipped hour" if skipped else lost, missing.total_seconds()
            _add(found, unit, what, seconds, label=label, ends=ends, span=duration(missing))


# -- tags -----------------------------------------------------------------------------------------


def _checked_once(unit, found, known):
    """As `_check_unit`, or as it was found before in the same values."""
    values, own, table = (known or {}).get(unit.name, (None, None, None))
    if values is None or not np.array_equal(values, unit.values, equal_nan=True):
        own = []
        table = _check_unit(unit, own)
        if known is not None:
            known[unit.name] = unit.values, own, table
    found += own
    return table


def _check_unit(unit, found):
    """Outages of a unit and everything about its tags; returns the table of tags."""
    present = np.zeros(len(unit.values), dtype=bool)
    facts = []
    for series in unit.values.T:  # a tag at a time: what is known of one takes more memory than itself
        facts.append(_facts(series, unit.breaks))
        present |= ~np.isnan(series)
    outages, silent = gaps(present, unit.breaks), _common_segments(facts)
    for what, segments in (("outage", outages), ("outage: last values", silent)):
        for start, stop in segments:
            _add(found, unit, what, stop - start, rows=(start, stop))
    known, table = outages + silent, []
    for column, tag in zip(unit.columns, facts, strict=True):
        _check_tag(unit, column, tag, known, found)
        for start, stop in tag.empty:
            if not _within((start, stop), known):
                _add(found, unit, "gap", stop - start, column=column, rows=(start, stop))
        if tag.line > 0 or tag.period > 1:
            _add(found, unit, tag.pace, tag.line or tag.period, column=column, span=unit.span(tag.period))
        table.append((unit.name, column, tag.kind, tag.resolution, tag.period, tag.gaps))
    return pd.DataFrame(table, columns=["unit", "column", "kind", "resolution", "period", "gaps"])


class _Facts(NamedTuple):
    """What is known of a tag: its kind, segments of rows, values with their shares, and how it is updated."""

    kind: str
    resolution: float
    held: list  # frozen segments of rows; that from the first to the last value of a tag that never moves
    fills: list  # value, share, rows
    limits: list  # value, share
    empty: list  # segments of rows without a value
    pace: str  # "slow", "held" or "interpolated" ...
    period: float  # ... over so many rows
    line: float  # share of rows on straight lines
    gaps: float  # share of rows without a value


def _facts(series, breaks):
    """The facts about a series."""
    tag = Tag(series, breaks)
    fills, limits = [(value, share, tag.rows[tag.values == value]) for value, share in filled(tag)], at_limit(tag)
    held = [(tag.rows[a], tag.rows[b - 1] + 1) for a, b in frozen(tag)]
    if tag.kind == "constant" and not _is_round(tag.values[0]):
        held = [(int(tag.rows[0]), int(tag.rows[-1]) + 1)]
    (period, regular), here = update_period(tag), ~np.isnan(series)
    sparse = regular and period > 1 and here.mean() < 0.75
    pace, (line, spacing) = "slow" if regular else "held", straight(tag)
    if line > 0:
        pace, period = "interpolated", float(spacing)
    empty = [] if sparse or tag.kind == "empty" else gaps(here, breaks)
    resolution = tag.resolution if tag.kind != "empty" else 0.0
    return _Facts(tag.kind, resolution, held, fills, limits, empty, pace, period, line, 1 - here.mean())


def _common_segments(facts):
    """Segments in which all measured tags of a unit, two at least, are frozen together."""
    stuck = [tag.held for tag in facts if tag.kind == "measured"]
    if len(stuck) < 2:
        return []
    common = []
    for segment in stuck[0]:
        others = [[s for s in own if _overlap(s, segment) >= TUNING.check_same] for own in stuck[1:]]
        if all(others):
            starts, stops = zip(segment, *(own[0] for own in others), strict=True)
            common.append((min(starts), max(stops)))
    return common


def _overlap(first, second):
    """Length of the common part over that of the longer segment."""
    both = min(first[1], second[1]) - max(first[0], second[0])
    return both / max(first[1] - first[0], second[1] - second[0])


def _within(segment, others):
    length = segment[1] - segment[0]
    return any(min(segment[1], b) - max(segment[0], a) >= TUNING.check_same * length for a, b in others)


def _check_tag(unit, column, tag, known, found):
    """Empty tags, frozen segments, fill values and limits."""
    add = partial(_add, found, unit, column=column)
    if tag.kind == "empty":
        add("no data", 0.0)
    for rows in tag.held:
        if tag.kind == "constant" or not _within(rows, known):
            add("stuck", float(unit.values[rows[0], unit.columns.index(column)]), rows=rows)
    for value, share, rows in tag.fills:
        if np.mean([any(a <= row < b for a, b in known) for row in rows]) < TUNING.check_same:
            add("fill value", value, share=share)
    for value, share in tag.limits:
        add("clipped", value, share=share)


def _check_known_fills(units, found):
    """Fill values of some tags that others have, too: an export writes the same in all its columns."""
    values = {one.value for one in found if one.kind == "fill value"}
    told = {(one.column, one.value) for one in found if one.kind == "fill value"}
    for unit in units if values else ():
        for column, series in zip(unit.columns, unit.values.T, strict=True):
            for value, share in filled(Tag(series, unit.breaks), values):
                if (column, value) not in told:
                    _add(found, unit, "fill value", value, column=column, share=share)


def _is_round(value):
    """Whether a number has at most five digits, as people set it."""
    return np.isclose(value, float(f"{value:.5g}"), rtol=1e-12, atol=0)


# -- units as a whole -----------------------------------------------------------------------------


def _check_moves(units, tags, found):
    """Seasons, trends, shifts, modes, wandering of units, and spikes that they share."""
    spikes = {}
    for unit in units:
        gaps = tags.loc[tags["unit"] == unit.name, "gaps"].to_numpy()
        often = (1 - gaps) * len(unit.values) >= TUNING.moves_fewest_rows
        moves, spikes[unit.name] = moves_of(unit.values, np.flatnonzero(_measured(unit, tags, found) & often))
        for move in moves:
            _add(found, unit, move.kind, move.value, **move.words)
    by_name = {unit.name: unit for unit in units}
    for first, second, count in common_spikes(spikes, min(len(unit.values) for unit in units)):
        _add(found, by_name[second], "common spikes", float(count), count=count, other=first)


def _measured(unit, tags, found):
    """Mask of a unit's columns that measure and were never stuck."""
    stuck = [column for label, column, kind, *_ in found if label == unit.name and kind.startswith("stuck")]
    own = tags[tags["unit"] == unit.name]
    return ((own["kind"] == "measured") & ~own["column"].isin(stuck)).to_numpy()


def _check_sensors(units, tags, found):
    """Sensors that are there twice in a unit."""
    for unit in units:
        for first, second in same_columns(unit.values, np.flatnonzero(_measured(unit, tags, found))):
            _add(found, unit, "same sensor", 1.0, column=unit.columns[second], other=unit.columns[first])


def _check_copies(units, found):
    """Units whose columns are those of another, whatever they are called, and tags of one unit that are of another."""
    seen: dict[tuple, str] = {}
    copies = set()
    for unit in units:
        first = seen.setdefault(tuple(fingerprint(series) for series in unit.values.T), unit.name)
        if first != unit.name:
            copies.add(unit.name)
            _add(found, unit, "same unit", 1.0, other=first)
    by_name = {unit.name: unit for unit in units if unit.name not in copies}
    for first, second, column, copy in copied_tags([(u.name, u.columns, u.values) for u in by_name.values()]):
        _add(found, by_name[second], "same tag", 1.0, column=copy, other=column, owner=first)


# -- clocks ---------------------------------------------------------------------------------------


def _check_clocks(units, shared, tags, found, max_offset):
    """Offsets between the units' clocks, by unit."""
    aligned, step = _aligned(units, shared)
    n_rows = len(next(iter(aligned.values())))
    if len(units) < 2 or n_rows < TUNING.check_least_rows:
        return {}
    wanted = TUNING.check_most_lags if max_offset is None else max_offset
    if not isinstance(wanted, (int, np.integer)):
        if step is None:
            raise ValueError(f"Got max_offset={max_offset!r} for rows without times; give a number of rows.")
        wanted = int(np.ceil(pd.Timedelta(wanted) / step))
    n_lags = min(wanted, n_rows // 4)
    is_measured = tags["kind"] == "measured"
    columns = {name: is_measured[tags["unit"] == name].to_numpy() for name in aligned}
    recent = slice(-most_rows(n_lags), None)
    offsets = clock_offsets({name: values[recent, columns[name]] for name, values in aligned.items()}, n_lags)
    for unit in units:
        offset = offsets[unit.name]
        if offset is not None and offset.rows:
            _add_offset(unit, offset, step, found)
    return offsets


def _add_offset(unit, offset, step, found):
    """Finding about a clock that is off."""
    rows, against = offset.rows, offset.against
    size = f"{abs(rows)} rows" if step is None else duration(abs(rows) * step)
    sign, back = ("+", "-") if rows > 0 else ("-", "+")
    words = {"by": sign + size, "against": against, "clock": {unit.name: back + size.replace(" ", "")}}
    what = "clock" if offset.sure else "clock: or the other"
    _add(found, unit, what, float(rows) if step is None else rows * step.total_seconds(), **words)


def _aligned(units, shared):
    """Values of all units on the same rows, and their step."""
    if shared or any(unit.index is None for unit in units):
        rows = min(len(unit.values) for unit in units)
        return {unit.name: unit.values[:rows] for unit in units}, units[0].step
    step = max(unit.step for unit in units)
    first, last = max(u.index.min() for u in units), min(u.index.max() for u in units)
    grid = pd.date_range(first, last, freq=step) if last > first else units[0].index[:0]
    values = {}
    for unit in units:
        frame = pd.DataFrame(unit.values, index=unit.index).sort_index()
        frame = frame[~frame.index.duplicated()]
        values[unit.name] = frame.reindex(grid, method="nearest", tolerance=step / 2).to_numpy()
    return values, step
