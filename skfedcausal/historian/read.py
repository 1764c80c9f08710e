"""Exports of a historian, one or more per unit or a folder of them, as the table that estimators take."""

import logging
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pandas as pd

from ..arguments import check_choice
from ..containers.arrays import SEPARATOR, check_unit_names, listed, refuse_unknown
from ..containers.rows import is_numbering
from .forms import bad_marks, ordered, tag_series
from .grid import held_at, table_of
from .times import WORDS
from .written import Dialect

# Exports of a historian, one or more per unit, as the table that estimators take.

_EXPORTS = "{'P1': 'boiler.csv', ...}"
_log = logging.getLogger(__name__)


def read_historian(
    exports: Any,
    *,
    tz: str | Mapping[str, str] | None = None,
    every: str | pd.Timedelta | None = None,
    how: str = "last",
    hold: str | pd.Timedelta | None = None,
    clock: Mapping[str, str | pd.Timedelta] | None = None,
    bad_values: Collection[str] | float = (),
    good: Any = None,
    keep_uncertain: bool = False,
    dayfirst: bool | None = None,
) -> pd.DataFrame:
    """Read exports of plant historians into one table on one clock.

    Wide exports have a time column and one column per tag, ``FIT101.quality`` (or ``_status``, ...) beside
    it where there are quality codes. Long exports have the columns time, tag, value and perhaps quality.
    Separators, decimal commas, the form and the format of the times are recognised.

    Parameters
    ----------
    exports : dict of str to (path, file object, DataFrame or list of those)
        Exports of each unit. Frames may be of pandas or polars, times in a column or in the index.
    tz : str or dict of str to str, default=None
        Zone of local times, for all units or by unit, for example ``"Europe/Berlin"``. Times that carry an
        offset or are seconds since 1970 need none. The hour that occurs twice in autumn is told apart by the
        order of the rows.
    every : str or Timedelta, default=None
        Step of the table, for example ``"10s"``. None takes the step of the exports where all have the same.
    how : {"last", "mean"}, default="last"
        Value of a time step: the last good value, or the mean of the good values, after the step before and
        not after it. The future is never used.
    hold : str or Timedelta, default=None
        How long a value holds where nothing new came, for exports that store changes only. None: a step
        without a new good value is missing.
    clock : dict of str to (str or Timedelta), default=None
        What to add to the times of a unit whose clock is off, for example ``{"P2": "-58s"}``; see
        :func:`~skfedcausal.check_plant`.
    bad_values : collection of str or float, default=()
        Texts and numbers that stand for a bad value besides the usual ones ("Bad", "I/O Timeout", "No Data",
        ...), for example ``[-999.25]``.
    good : collection or callable, default=None
        Quality codes that are good. None recognises OPC DA (192), OPC UA (0 among large codes), per cent,
        0 or 1, and words.
    keep_uncertain : bool, default=False
        Whether values of uncertain quality are kept.
    dayfirst : bool, default=None
        Whether 03/04/2026 is the third of April; None where the exports themselves tell.

    Returns
    -------
    DataFrame
        Columns ``unit__tag``, one row per time step, NaN where there is no good value. Times in UTC, or in
        `tz` where it is one zone for all, or without a zone where none is known.

    Raises
    ------
    TypeError
        If `exports` is no dict.
    ValueError
        If a time column, a zone, the step or the meaning of a text or quality code cannot be told; the
        message says what to pass. Nothing is dropped silently.

    Warns
    -----
    UserWarning
        If the hour that occurs twice in autumn is there once only.

    See Also
    --------
    skfedcausal.check_plant : What is wrong with the table, before anything is fitted.

    Notes
    -----
    Zones and their changes are those of the IANA time zone database. OPC quality codes follow the OPC Data
    Access specification (two highest of eight bits) and IEC 62541-4 (two highest of 32 bits).

    Examples
    --------
    >>> import io
    >>> from skfedcausal import read_historian
    >>> boiler = io.StringIO('''Timestamp;TIC101;TIC101.quality
    ... 26.10.2025 02:59:50;71,2;192
    ... 26.10.2025 02:00:00;71,4;192
    ... 26.10.2025 02:00:10;Bad;0''')
    >>> turbine = io.StringIO('''time,tag,value,quality
    ... 2025-10-26T00:59:50Z,SI201,3000,Good
    ... 2025-10-26T01:00:00Z,SI201,2998,Bad
    ... 2025-10-26T01:00:10Z,SI201,2999,Good''')
    >>> X = read_historian({"boiler": boiler, "turbine": turbine}, tz="Europe/Berlin", every="10s")
    >>> print(X)
                               boiler__TIC101  turbine__SI201
    2025-10-26 02:59:50+02:00            71.2          3000.0
    2025-10-26 02:00:00+01:00            71.4             NaN
    2025-10-26 02:00:10+01:00             NaN          2999.0
    """
    if not isinstance(exports, Mapping):
        one = "One file with all units: PlantTable.read(file, units=...)."
        raise TypeError(f"Got exports of type {type(exports).__name__}; give a dict: {_EXPORTS}. {one}")
    if not exports:
        raise ValueError(f"Got no exports; give at least one unit: {_EXPORTS}.")
    check_choice("how", how, ("last", "mean"))
    units = [str(unit) for unit in exports]
    check_unit_names(units)
    for option, value in (("tz", tz), ("clock", clock)):
        if isinstance(value, Mapping):
            refuse_unknown(value, units, f"`{option}` names", "the units are")
    marks = bad_marks(bad_values)
    series: dict[str, pd.Series] = {}
    for unit, export in zip(units, exports.values(), strict=True):
        zone = tz.get(unit) if isinstance(tz, Mapping) else tz
        dialect = Dialect(zone, dayfirst, marks, good, keep_uncertain)
        shift = _span((clock or {}).get(unit, 0), "clock")
        for tag, values in _unit_series(export, dialect, unit).items():
            series[f"{unit}{SEPARATOR}{tag}"] = values.set_axis(values.index + shift)
    local = [name for name, values in series.items() if pd.DatetimeIndex(values.index).tz is None]
    if 0 < len(local) < len(series):
        raise ValueError(f"The times of {local[0]!r} have no zone and others do; pass their zone as tz=....")
    step = _step(series) if every is None else _span(every, "every")
    table = _on_grid(series, step, how, None if hold is None else _span(hold, "hold"))
    if isinstance(tz, str) and table.index.tz is not None:
        table.index = table.index.tz_convert(tz)
    return table


def _span(value, option):
    """Length of time that an option gives."""
    try:
        span: Any = pd.Timedelta(value)
    except (TypeError, ValueError):
        span = pd.NaT
    if span is pd.NaT:
        raise ValueError(f"{option}={value!r} is no length of time; give '10s' or '5min'.")
    return span


def _unit_series(export, dialect, unit):
    """Series of a unit's tags, its exports one after the other."""
    parts: dict[str, list[pd.Series]] = {}
    several = isinstance(export, (list, tuple))
    for k, one in enumerate(export if several else [export]):
        where = f"export {k} of unit {unit!r}" if several else f"unit {unit!r}"
        for tag, values in tag_series(one, dialect, where).items():
            parts.setdefault(tag, []).append(values)
    joined = {}
    for tag, own in parts.items():
        joined[tag] = values = ordered(pd.concat(own))
        _log.info("%s, %s: %d values, %d of them not good", unit, tag, len(values), int(values.isna().sum()))
    return joined


def _step(series):
    """The step that all exports share."""
    indices = [values.index for values in series.values() if len(values) > 1]
    steps = {pd.Timedelta(np.median(np.diff(index.asi8)), unit=index.unit) for index in indices}
    if len(steps) != 1:
        seen = listed(sorted(map(str, steps)), 4, quoted=False)
        raise ValueError(f"The exports have different steps ({seen}); choose the table's: every='10s'.")
    return steps.pop()


def _on_grid(series, step, how, hold):
    """All series on one grid of multiples of the step."""
    if step <= pd.Timedelta(0):
        raise ValueError(f"Got every={step}; give a positive step, for example every='10s'.")
    first = min(values.index[0] for values in series.values()).ceil(step)
    last = max(values.index[-1] for values in series.values()).ceil(step)
    grid = pd.date_range(first, last, freq=step)
    columns = {}
    for name, values in series.items():
        there = values.dropna()
        binned = there.groupby(there.index.ceil(step))
        column = (binned.last() if how == "last" else binned.mean()).reindex(grid)
        # empty steps take the last stored value unless it was bad or is older than `hold`
        columns[name] = column if hold is None else column.where(column.notna(), held_at(values, grid, hold))
    table = pd.DataFrame(columns)
    table.index.name = None
    return table


# Several files of one record: a folder with one for each tag, for each stretch of time, or for some tags each.


def is_folder(source):
    """Whether a source is a folder of files."""
    return isinstance(source, (str, Path)) and Path(source).is_dir()


def files_of(folder):
    """Files of a folder and the folders in it, in order of their names, without hidden ones."""
    files = [one for one in Path(folder).rglob("*") if one.is_file() and not one.name.startswith((".", "_"))]
    if not files:
        raise ValueError(f"The folder {folder} has no files.")
    in_turns = {path: enumerate(re.split(r"(\d+)", str(path))) for path in files}  # month=2 comes before month=10
    return sorted(files, key=lambda path: [int(part) if k % 2 else part for k, part in in_turns[path]])


def tag_of_folder(path):
    """Tag that a folder of a partitioned table tells, as in ``tag=FT101/part-0.parquet``; None without."""
    keys = (folder.partition("=") for folder in Path(path).parts[:-1])
    return next((unquote(value) for key, _, value in keys if value and key.lower() in WORDS["columns"]["tag"]), None)


def named_by_file(table, texts, measures, path):
    """A table, its columns of texts and measures, in which one called "value" has the name of its file or folder."""
    name = tag_of_folder(path) or (Path(path).stem if Path(path).suffix else Path(path).name)
    new = {column: name for column in (*table.columns, *texts) if column.lower() in WORDS["columns"]["value"]}
    named = {new.get(column, column): measure for column, measure in measures.items()}
    return table.rename(columns=new), tuple(new.get(column, column) for column in texts), named


def together(tables, where, dialect):
    """Tables side by side where each has columns of its own, else below each other; and what was done in words."""
    tables = [table for table in tables if table.shape[1]]
    if not tables:
        raise ValueError(f"No file of {where} holds numbers.")
    columns = set().union(*(table.columns for table in tables))
    if len(tables) == 1 or len(columns) < sum(table.shape[1] for table in tables):
        return pd.concat(tables), ()
    if any(is_numbering(table.index) for table in tables) and len({len(table) for table in tables}) > 1:
        raise ValueError(f"The files of {where} have no times and different numbers of rows; give them times.")
    series = {tag: ordered(table[tag]) for table in tables for tag in table}
    return table_of(series, dialect.hold, dialect.every)
