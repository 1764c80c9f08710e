"""One export as a list of tag series: wide tables, long tables, quality columns."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ..containers.arrays import as_native
from ..containers.layout import listed
from .times import on_one_clock, parse_times
from .values import BAD_TEXTS, is_good, to_numbers

TIME_NAMES = (
    "timestamp",
    "time",
    "datetime",
    "date_time",
    "date time",
    "time stamp",
    "t_stamp",
    "ts",
    "zeit",
    "zeitstempel",
)
_TAG = ("tag", "tagname", "tag_name", "tag name", "point", "pointname", "variable", "sensor", "name")
_VALUE = ("value", "val", "pv", "wert")
_QUALITY = ("quality", "status", "qual", "q", "opcquality", "quality code", "qualitycode")
_ROLES = {"tag": _TAG, "value": _VALUE, "quality": _QUALITY}
_JOINTS = (".", "_", " ", ":", "/", "-")


@dataclass(frozen=True)
class Dialect:
    """How an export is to be read; see :func:`read_historian`."""

    tz: str | None = None
    dayfirst: bool | None = None
    bad_values: frozenset = frozenset()
    good: object = None
    keep_uncertain: bool = False


def tag_series(export, dialect, where):
    """Series of the tags of an export.

    Parameters
    ----------
    export : str, Path, file object or DataFrame
    dialect : Dialect
    where : str
        For messages.

    Returns
    -------
    dict of str to Series
        Floats by time, NaN where not good, ascending, the last of equal times.
    """
    table = _table(export, where)
    names = {str(column).strip().lower(): column for column in table.columns}
    table = _time_first(table, names, where)
    roles = {role: _pick(names, words) for role, words in _ROLES.items()}
    if roles["tag"] is not None and roles["value"] is not None:
        return _long(table, roles, dialect, where)
    return _wide(table, dialect, where)


def _table(export, where):
    """Table of text, or the frame that was given."""
    native = as_native(export) if not isinstance(export, (str, Path)) else export
    if isinstance(native, pd.DataFrame):
        return native
    if hasattr(export, "read"):
        text = export.read()
    else:
        raw = Path(export).read_bytes()
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = raw.decode("cp1252")
    if not text.strip():
        raise ValueError(f"The export is empty: found in {where}.")
    return pd.read_csv(io.StringIO(text), sep=_separator(text), dtype=str, keep_default_na=False)


def _separator(text):
    head = "\n".join(text.splitlines()[:5])
    try:
        return csv.Sniffer().sniff(head, delimiters=",;\t|").delimiter
    except csv.Error:
        return max(",;\t|", key=head.count)


def _pick(names, words):
    return next((names[word] for word in words if word in names), None)


def _time_first(table, names, where):
    """The table with its times in a column called None, before all others."""
    if isinstance(table.index, pd.DatetimeIndex):
        times = pd.Series(table.index, index=table.index)
        return _with_times(table, times)
    if "date" in names and "time" in names:
        both = table[names["date"]].astype(str) + " " + table[names["time"]].astype(str)
        return _with_times(table.drop(columns=[names["date"], names["time"]]), both)
    column = _pick(names, TIME_NAMES)
    if column is None:
        raise ValueError(
            f"No time column in {where}: its columns are {listed(table.columns)}. Call it 'time', or put "
            "times in the index of a frame."
        )
    return _with_times(table.drop(columns=column), table[column])


def _with_times(table, times):
    table = table.set_axis([str(column).strip() for column in table.columns], axis=1)
    table.insert(0, None, times.to_numpy() if times.dtype.kind == "O" else times.array)
    return table


def _long(table, roles, dialect, where):
    roles = {role: None if column is None else str(column).strip() for role, column in roles.items()}
    tags = table[roles["tag"]].astype(str).str.strip().to_numpy()
    times = on_one_clock(parse_times(table[None], dialect.dayfirst, where), tags, dialect.tz, where)
    values = to_numbers(table[roles["value"]], BAD_TEXTS | dialect.bad_values, f"the values of {where}")
    if roles["quality"] is not None:
        values = np.where(
            is_good(table[roles["quality"]], dialect.good, dialect.keep_uncertain, where), values, np.nan
        )
    codes, found = pd.factorize(tags)
    return {tag: _ordered(values[codes == k], times[codes == k]) for k, tag in enumerate(found)}


def _wide(table, dialect, where):
    times = on_one_clock(parse_times(table[None], dialect.dayfirst, where), None, dialect.tz, where)
    columns = [column for column in table.columns[1:] if column and not column.startswith("Unnamed:")]
    quality = _quality_columns(columns)
    series = {}
    for tag in columns:
        if tag in quality.values():
            continue
        place = f"column {tag!r} of {where}"
        values = to_numbers(table[tag], BAD_TEXTS | dialect.bad_values, place)
        if tag in quality:
            good = is_good(table[quality[tag]], dialect.good, dialect.keep_uncertain, place)
            values = np.where(good, values, np.nan)
        series[tag] = _ordered(values, times)
    if not series:
        raise ValueError(f"No tags in {where}: there is a time column and nothing else.")
    return series


def _quality_columns(columns):
    """Column with the quality of each tag that has one: ``FIT101.quality`` beside ``FIT101``."""
    lower = {column.lower(): column for column in columns}
    found = {}
    for tag in columns:
        for word in _QUALITY:
            joined = [tag.lower() + joint + word for joint in _JOINTS]
            for name in set(joined) & set(lower):
                found.setdefault(tag, lower[name])
    return found


def _ordered(values, times):
    series = pd.Series(values, index=times).sort_index(kind="stable")
    return series[~series.index.duplicated(keep="last")]
