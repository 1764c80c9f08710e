"""One export as a list of tag series: wide and long tables, words for numbers, quality codes."""

import csv
import io
import re
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..containers.arrays import as_native
from ..containers.layout import listed
from .times import on_one_clock, parse_times

_WORDS = tomllib.loads(files(__package__).joinpath("words.toml").read_text("utf-8"))
TIME_NAMES, _BAD_TEXTS = _WORDS["columns"]["time"], frozenset(_WORDS["values"]["bad"])
_JOINTS = ".", "_", " ", ":", "/", "-"  # between a tag and the word for its quality
_DECIMAL_COMMA = re.compile(r"^[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+),\d+(?:[eE][+-]?\d+)?$")
# least code, mask, good and uncertain: the two highest of the 32 bits of OPC UA, of the eight of OPC DA
_STANDARDS = (2**30, -(2**30), 0, 2**30), (192, 192, 192, 64)


class Dialect(NamedTuple):
    """How an export is to be read; see :func:`read_historian`."""

    tz: str | None = None
    dayfirst: bool | None = None
    bad_values: frozenset = frozenset()
    good: Any = None
    keep_uncertain: bool = False


def tag_series(export, dialect, where):
    """Series of an export by tag: floats by time, NaN where not good, the last of equal times."""
    table = _read_table(export, where)
    names = {str(column).strip().lower(): column for column in table.columns}
    times, table = _split_times(table, names, where)
    times = parse_times(times, dialect.dayfirst, where)
    roles = {role: _pick(names, words) for role, words in _WORDS["columns"].items()}
    roles = {role: str(name).strip() for role, name in roles.items() if name is not None}
    if {"tag", "value"} <= set(roles):
        return _long(table, times, roles, dialect, where)
    return _wide(table, times, dialect, where)


# -- tables -------------------------------------------------------------------------------------


def _read_table(export, where):
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
    head = "\n".join(text.splitlines()[:5])
    try:
        separator = csv.Sniffer().sniff(head, delimiters=",;\t|").delimiter
    except csv.Error:
        separator = max(",;\t|", key=head.count)
    return pd.read_csv(io.StringIO(text), sep=separator, dtype=str, keep_default_na=False)


def _pick(names, words):
    return next((names[word] for word in words if word in names), None)


def _split_times(table, names, where):
    """Times as they are written, and the table without them."""
    column = _pick(names, TIME_NAMES)
    if isinstance(table.index, pd.DatetimeIndex):
        times = pd.Series(table.index, index=table.index)
    elif "date" in names and "time" in names:
        times = table[names["date"]].astype(str) + " " + table[names["time"]].astype(str)
        table = table.drop(columns=[names["date"], names["time"]])
    elif column is not None:
        times, table = table[column], table.drop(columns=column)
    else:
        what = f"No time column in {where}: its columns are {listed(table.columns)}"
        raise ValueError(f"{what}. Call it 'time', or put times in the index of a frame.")
    return times, table.set_axis([str(column).strip() for column in table.columns], axis=1)


def _long(table, times, roles, dialect, where):
    tags = table[roles["tag"]].astype(str).str.strip().to_numpy()
    times = on_one_clock(times, tags, dialect.tz, where)
    values = _to_numbers(table[roles["value"]], dialect.bad_values, f"the values of {where}")
    if "quality" in roles:
        values = np.where(is_good(table[roles["quality"]], dialect, where), values, np.nan)
    codes, found = pd.factorize(tags)
    series = pd.Series(values, index=times)
    return {tag: ordered(series[codes == k]) for k, tag in enumerate(found)}


def _wide(table, times, dialect, where):
    times = on_one_clock(times, None, dialect.tz, where)
    columns = [column for column in table.columns if column and not column.startswith("Unnamed:")]
    quality, series = _quality_columns(columns), {}
    for tag in columns:
        if tag in quality.values():
            continue
        place = f"column {tag!r} of {where}"
        values = _to_numbers(table[tag], dialect.bad_values, place)
        if tag in quality:
            values = np.where(is_good(table[quality[tag]], dialect, place), values, np.nan)
        series[tag] = ordered(pd.Series(values, index=times))
    if not series:
        raise ValueError(f"No tags in {where}: there is a time column and nothing else.")
    return series


def _quality_columns(columns):
    """Column with the quality of each tag that has one: ``FIT101.quality`` beside ``FIT101``."""
    lower = {column.lower(): column for column in columns}
    ends = [joint + word for word in _WORDS["columns"]["quality"] for joint in _JOINTS]
    found = {tag: _pick(lower, [tag.lower() + end for end in ends]) for tag in columns}
    return {tag: column for tag, column in found.items() if column is not None}


def ordered(series):
    """The series in order of time, the last of equal times."""
    series = series.sort_index(kind="stable")
    return series[~series.index.duplicated(keep="last")]


# -- values and quality codes --------------------------------------------------------------------


def _to_numbers(values, bad_values, where):
    """Numbers or text as floats, NaN for texts that stand for no good value."""
    if pd.api.types.is_bool_dtype(values) or pd.api.types.is_numeric_dtype(values):
        numbers = values.to_numpy(dtype=float, na_value=np.nan)
        return np.where(np.isinf(numbers), np.nan, numbers)
    texts = values.astype("string").str.strip()
    numbers = pd.to_numeric(texts, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    left = np.isnan(numbers) & (texts.fillna("") != "").to_numpy(dtype=bool)
    commas = left & texts.str.match(_DECIMAL_COMMA).fillna(False).to_numpy(dtype=bool)
    plain = texts[commas].str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
    numbers[commas] = plain.to_numpy(dtype=float)
    bad = _BAD_TEXTS | bad_values
    unknown = [text for text in texts[left & ~commas].unique() if text.lower() not in bad]
    if unknown:
        raise ValueError(
            f"Got {unknown[0]!r} in {where}, which is neither a number nor a known mark of bad quality. Map "
            f"states to numbers, leave the column out, or name the marks: bad_values={unknown[:5]!r}."
        )
    return np.where(np.isinf(numbers), np.nan, numbers)


def is_good(quality, dialect, where):
    """Which rows are good by OPC DA (192), OPC UA (0), per cent (100), 0 or 1, words or the user's codes."""
    if callable(dialect.good):
        return np.array([bool(dialect.good(code)) for code in quality], dtype=bool)
    words = quality.astype("string").str.strip().str.lower()
    if dialect.good is not None:
        return words.isin({str(code).strip().lower() for code in dialect.good}).to_numpy(dtype=bool)
    numbers = pd.to_numeric(quality, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    if not np.isnan(numbers).all():
        return _good_codes(numbers, dialect.keep_uncertain, where)
    known = {*_WORDS["quality"]["good"], *(_WORDS["quality"]["uncertain"] if dialect.keep_uncertain else ())}
    first = words.str.split(r"[,;:\s]", n=1, regex=True).str[0]
    return first.isin(known).fillna(False).to_numpy(dtype=bool)


def _good_codes(codes, keep_uncertain, where):
    """Numeric codes, by the standard they can only belong to."""
    known = ~np.isnan(codes)
    largest = codes[known].max(initial=0.0)
    whole = np.where(known, codes, 0).astype(np.int64)
    for least, mask, good, uncertain in _STANDARDS:
        if largest >= least:
            return known & np.isin(whole & mask, [good, uncertain] if keep_uncertain else [good])
    if largest in (1.0, 100.0):
        return known & (codes == largest)
    raise ValueError(
        f"The quality codes of {where} are {listed(np.unique(codes[known]), 6)}: zero is good in OPC UA, bad "
        "in OPC DA. Say which codes are good: good=[...]."
    )
