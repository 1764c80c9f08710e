"""One export as a list of tag series: wide and long tables, words for numbers, quality codes."""

import warnings
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..containers.clock import read_clock, ticks
from ..containers.layout import listed
from .times import BAD_TEXTS, DECIMAL_COMMA, JOINTS, TIME_NAMES, WORDS, on_one_clock, parse_times
from .written import written

_LOOKED_AT = 3000  # cells of a column, about, by which it is told whether it holds words
_MOST_WORDS = 0.5  # share of the cells of a column that may be words; with more it is a text column
_LONG = 2  # rows of one time, on average, from which on a table looks like one of a row for every value
_SINCE_1970 = 1e9  # seconds, of 2001
# least code, mask, good and uncertain: the two highest of the 32 bits of OPC UA, of the eight of OPC DA
_STANDARDS = (2**30, -(2**30), 0, 2**30), (192, 192, 192, 64)


class Dialect(NamedTuple):
    """How an export is to be read; see :func:`read_historian`."""

    tz: str | None = None
    dayfirst: bool | None = None
    bad_values: frozenset = frozenset()  # texts in lower case, and numbers
    good: Any = None
    keep_uncertain: bool = False
    drop: tuple = ()  # patterns of columns that are left out of tables
    time: str | None = None  # column of the times of tables, where its name is none of the usual ones


class ExportTable(NamedTuple):
    """An export as a table of floats in the order of its rows, its columns without numbers, what was done in words."""

    frame: pd.DataFrame
    texts: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    runs: tuple[int, ...] | None = None  # rows of each run that an index names


def bad_marks(values):
    """Marks of bad values as they are compared: numbers as such, texts in lower case."""
    texts = [str(value).strip() for value in ([values] if isinstance(values, str) else values)]
    return frozenset(text.lower() if np.isnan(number := _number(text)) else number for text in texts)


def _number(text):
    """The number that a text is, NaN where it is none."""
    plain = text.replace(".", "").replace(",", ".") if DECIMAL_COMMA.match(text) else text
    return float(pd.to_numeric(plain, errors="coerce"))


def tag_series(export, dialect, where):
    """Series of an export by tag: floats by time, NaN where not good, the last of equal times."""
    times, table, said = _parts(export, dialect, where)
    for text in said:
        warnings.warn(f"{where}: {text}.", stacklevel=4)
    if times is None:
        what = f"No time column in {where}: its columns are {listed(table.columns)}"
        raise ValueError(f"{what}. Call it 'time', or put times in the index of a frame.")
    if {"tag", "value"} <= set(roles := _roles(table)):
        return _long(table, times, roles, dialect, where)
    frame = _wide(table, on_one_clock(times, None, dialect.tz, where), dialect, where).frame
    return {tag: ordered(frame[tag]) for tag in frame}


def export_table(export, dialect, where):
    """An export as a table in the order of its rows, whatever that is; rows have numbers where it has no times.

    Columns without numbers are left out, and named.
    """
    times, table, said = _parts(export, dialect, where)
    if {"tag", "value"} <= set(roles := _roles(table)) and times is not None:
        series = _long(table, times, roles, dialect, where)
        kept = {tag: own for tag, own in series.items() if not _matches(tag, dialect.drop)}
        return ExportTable(pd.DataFrame(kept), said=said)
    if times is not None:
        times = on_one_clock(times, None, dialect.tz, where, strict=False)
    clock = read_clock(table.index)
    wanted = [column for column in table.columns if not _matches(column, dialect.drop)]
    found = _wide(table[wanted], times, dialect, where, skip_texts=True)
    stamps = [column for column in found.texts if times is None and _are_times(table[column])]
    if stamps:
        raise ValueError(
            f"Column {listed(stamps)} of {where} is no number. Is it the time? Name it: time=... (--time)."
        )
    if times is not None and found.texts and len(times) >= _LONG * times.nunique():
        heads = f"its tags in {listed(found.texts)} and its values in {listed(list(found.frame))}"
        raise ValueError(
            f"{where} has {len(times)} rows of {times.nunique()} times, a row for every value: {heads}? Call these "
            "columns 'tag' and 'value'."
        )
    if times is None and ticks(clock.times) is not None:
        return ExportTable(found.frame.set_axis(clock.times), found.texts, said, clock.runs)
    return ExportTable(found.frame, found.texts, said, clock.runs)


def _are_times(column):
    """Whether the first texts of a column are times."""
    try:
        pd.to_datetime(column.dropna().iloc[:3], format="mixed")
    except (ValueError, TypeError):
        return False
    return True


def _matches(name, patterns):
    return any(fnmatchcase(str(name).lower(), str(pattern).lower()) for pattern in patterns)


def _parts(export, dialect, where):
    """Times of an export, None where it has none, the table without them, what was done in words."""
    table, said = written(export, where, dialect.bad_values)
    names = {str(column).strip().lower(): column for column in table.columns}
    if dialect.time is not None and str(dialect.time).strip().lower() not in names:
        raise ValueError(f"There is no column {dialect.time!r} in {where}: its columns are {listed(table.columns)}.")
    times, table = _split_times(table, names, dialect.time)
    if times is not None:
        table, times, more = _timed(table, times, dialect.dayfirst, where)
        said += more
    return times, table, said


def _roles(table):
    """Columns of a table of one row for every value, by what they hold."""
    names = {column.lower(): column for column in table.columns}
    roles = {role: _pick(names, words) for role, words in WORDS["columns"].items()}
    return {role: name for role, name in roles.items() if name is not None}


def _timed(table, stamps, dayfirst, where):
    """Rows that have a time, their times, and how many there are without, which nothing is known of."""
    there = stamps.notna().to_numpy(copy=True)
    if not (pd.api.types.is_numeric_dtype(stamps) or pd.api.types.is_datetime64_any_dtype(stamps)):
        there &= stamps.astype(str).str.strip().to_numpy() != ""
    if len(there) and not there.any():
        raise ValueError(f"No row of {where} has a time.")
    try:
        times = parse_times(stamps[there], dayfirst, where)
    except ValueError:  # a line below the table says what it is
        empty = there & table.isna().all(axis=1).to_numpy()
        told = pd.to_datetime(stamps[empty], format="mixed", errors="coerce", utc=True).isna().to_numpy()
        if not told.any():
            raise
        there[np.flatnonzero(empty)[told]] = False
        times = parse_times(stamps[there], dayfirst, where)
    lost = np.flatnonzero(~there)
    if not len(lost):
        return table, times, ()
    rows = f"row {lost[0] + 1}" if len(lost) == 1 else f"{len(lost)} rows, the first is row {lost[0] + 1},"
    return table[there], times, (f"left out: {rows} without a time",)


# -- tables -------------------------------------------------------------------------------------


def _pick(names, words):
    return next((names[word] for word in words if word in names), None)


def _split_times(table, names, time=None):
    """Times as they are written, None where there are none, and the table without them."""
    column = _pick(names, TIME_NAMES) if time is None else names[str(time).strip().lower()]
    times = None
    if time is None and _tells_times(clock := read_clock(table.index).times):
        times = pd.Series(clock, index=table.index)
    elif time is None and None not in (both := [_pick(names, WORDS["dates"][part]) for part in ("date", "time")]):
        times = table[both[0]].astype(str) + " " + table[both[1]].astype(str)
        table = table.drop(columns=both)
    elif column is not None:
        times, table = table[column], table.drop(columns=column)
    return times, table.set_axis([str(column).strip() for column in table.columns], axis=1)


def _tells_times(index):
    """Whether an index holds times, or numbers that can only be those since 1970."""
    if isinstance(index, pd.DatetimeIndex):
        return True
    return index.dtype.kind in "iuf" and len(index) > 0 and bool(index.min() >= _SINCE_1970)


def _long(table, times, roles, dialect, where):
    tags = table[roles["tag"]].astype(str).str.strip().to_numpy()
    times = on_one_clock(times, tags, dialect.tz, where)
    values = _to_numbers(table[roles["value"]], dialect.bad_values, f"the values of {where}")
    if "quality" in roles:
        values = np.where(is_good(table[roles["quality"]], dialect, where), values, np.nan)
    codes, found = pd.factorize(tags)
    series = pd.Series(values, index=times)
    return {tag: ordered(series[codes == k]) for k, tag in enumerate(found)}


def _wide(table, times, dialect, where, skip_texts=False):
    columns = [column for column in table.columns if column and not column.startswith("Unnamed:")]
    quality, values, texts = _quality_columns(columns), {}, []
    for tag in columns:
        if tag in quality.values():
            continue
        place = f"column {tag!r} of {where}"
        if skip_texts and _is_text(table[tag], dialect.bad_values):
            texts.append(tag)
            continue
        values[tag] = _to_numbers(table[tag], dialect.bad_values, place)
        if tag in quality:
            values[tag] = np.where(is_good(table[quality[tag]], dialect, place), values[tag], np.nan)
    if not values and texts:
        shown = listed([f"{tag}: {table[tag].dropna().iloc[0]}" for tag in texts], 3)
        raise ValueError(f"No column of {where} holds numbers: {shown}. Export one number per cell, without its unit.")
    if not values:
        raise ValueError(f"No tags in {where}: there is a time column and nothing else.")
    return ExportTable(pd.DataFrame(values, index=times), tuple(texts))


def _is_text(column, bad_values):
    """Whether most of what stands in a column are words, and no marks of bad values."""
    if pd.api.types.is_bool_dtype(column) or pd.api.types.is_numeric_dtype(column):
        return False
    there = column.dropna()
    texts = there.iloc[:: max(1, len(there) // _LOOKED_AT)].astype("string").str.strip()
    texts = texts[~texts.str.lower().isin({"", *BAD_TEXTS, *(m for m in bad_values if isinstance(m, str))})]
    words = pd.to_numeric(texts, errors="coerce").isna() & ~texts.str.match(DECIMAL_COMMA)
    return bool(len(texts)) and bool(words.mean() > _MOST_WORDS)


def _quality_columns(columns):
    """Column with the quality of each tag that has one: ``FIT101.quality`` beside ``FIT101``."""
    lower = {column.lower(): column for column in columns}
    ends = [joint + word for word in WORDS["columns"]["quality"] for joint in JOINTS]
    found = {tag: _pick(lower, [tag.lower() + end for end in ends]) for tag in columns}
    return {tag: column for tag, column in found.items() if column is not None}


def ordered(series):
    """The series in order of time, the last of equal times."""
    series = series.sort_index(kind="stable")
    return series[~series.index.duplicated(keep="last")]


# -- values and quality codes --------------------------------------------------------------------


def _to_numbers(values, bad_values, where):
    """Numbers or text as floats, NaN for texts that stand for no good value."""
    fills = [mark for mark in bad_values if isinstance(mark, float)]
    if pd.api.types.is_bool_dtype(values) or pd.api.types.is_numeric_dtype(values):
        return _without(values.to_numpy(dtype=float, na_value=np.nan), fills)
    numbers, words = _floats(values.tolist())
    bad = BAD_TEXTS | bad_values
    unknown = [text for text in words if text.lower() not in bad]
    if unknown:
        raise ValueError(
            f"Got {unknown[0]!r} in {where}, which is neither a number nor a known mark of bad quality. Map "
            f"states to numbers, leave the column out, or name the marks: bad_values={unknown[:5]!r}."
        )
    return _without(numbers, fills)


def _floats(cells):
    """Cells as floats, NaN where there is none, and the texts that are none; much faster than column-wise."""
    words: dict[str, None] = {}
    numbers: list[float] = []
    for cell in cells:
        try:
            numbers.append(float(cell.replace(",", ".") if cell.__class__ is str else cell))
        except (TypeError, ValueError):
            text = cell.strip() if isinstance(cell, str) else ""
            numbers.append(np.nan if not text or text in words else _number_in(text, words))
    return np.array(numbers, dtype=float), list(words)


def _number_in(text, words):
    """Number of a text that is none as it stands, NaN and one word more where it is none at all."""
    if "," in text and DECIMAL_COMMA.match(text):
        return float(text.replace(".", "").replace(",", "."))
    words.setdefault(text)
    return np.nan


def _without(numbers, fills):
    """Numbers with NaN in place of infinite ones and of those that stand for no value."""
    return np.where(np.isinf(numbers) | np.isin(numbers, fills), np.nan, numbers)


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
    known = {*WORDS["quality"]["good"], *(WORDS["quality"]["uncertain"] if dialect.keep_uncertain else ())}
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
