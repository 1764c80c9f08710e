"""One export as a list of tag series: layouts of tools, wide and long tables, words for numbers, quality codes."""

import re
from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import pandas as pd

from ..arguments import check_kind, warn
from ..containers.arrays import listed
from ..containers.rows import read_clock, ticks
from .grid import table_of
from .sources import written
from .times import (
    BAD_TEXTS,
    DECIMAL_COMMA,
    JOINTS,
    TIME_NAMES,
    WORDS,
    are_times,
    compact_form,
    is_measure,
    measure_behind,
    measure_in,
    measures_by_tag,
    on_one_clock,
    parse_times,
    plain_name,
    without_measure,
)
from .tuning import TUNING
from .written import Dialect

# Tables of historians and tools brought into the two forms that are read: wide, and a row for every value.

_UNNAMED = re.compile(r"^(?:Unnamed: \d+|index|)$")
_TIME_ENDS = re.compile(r"[\s._-]*\(?(?:timestamp|time|date|datetime|zeit)\)?$", re.IGNORECASE)


def brought_into_form(table, said):
    """A table in one of the two forms, and what was done in words."""
    for layout in (_of_wincc, _of_ignition, _of_influx, _of_pairs, _transposed):
        changed = layout(table)
        if changed is not None:
            return changed[0], (*said, changed[1])
    return table, said


def time_column(table):
    """Name of the column of times that has none of the usual names, or one with its unit behind it; else None.

    It is the first or the second one, or the only one of the others.
    """
    for name in table.columns[:2]:
        if holds_times(table[name]) or without_measure(str(name)).strip().lower() in TIME_NAMES:
            return name
        if pd.api.types.is_integer_dtype(table[name]) and _are_compact(table[name].to_numpy()):
            return name
    others = [name for name in table.columns[2:] if table[name].dtype.kind not in "iufb" and holds_times(table[name])]
    return others[0] if len(others) == 1 else None


def _are_compact(numbers):
    """Whether whole numbers are times, as 2026030108, which go on from row to row."""
    some = numbers[:: max(1, len(numbers) // TUNING.layouts_sample)]
    form = compact_form(some)
    if form is None or len(some) < 2 or not (some[1:] >= some[:-1]).all() or some[0] == some[-1]:
        return False
    return bool(pd.to_datetime(pd.Series(some).astype(str), format=form, errors="coerce").notna().all())


def holds_times(column):
    """Whether the cells of a column are times: of a sample all, a line below the table aside."""
    if pd.api.types.is_datetime64_any_dtype(column):
        return True
    if pd.api.types.is_numeric_dtype(column):
        return False
    there = column.dropna()
    some = there.iloc[:: max(1, len(there) // TUNING.layouts_sample)].iloc[: TUNING.layouts_sample]
    return len(there) > 0 and are_times(some)


def _of_wincc(table):
    """Rows of WinCC without those that say that its archive was started or stopped."""
    if "VarName" not in table or not (events := table["VarName"].astype(str).str.startswith("$RT_")).any():
        return None
    return table[~events], f"left out: {int(events.sum())} rows about the archive of WinCC"


def _of_ignition(table):
    """Rows of Ignition's ``sqlt_data``, whose values stand in a column for each type of tag."""
    names = {str(name).lower(): name for name in table.columns}
    if not {"tagid", "floatvalue", "t_stamp"} <= set(names):
        return None
    values = pd.to_numeric(table[names["floatvalue"]], errors="coerce")
    if "intvalue" in names:
        values = values.fillna(pd.to_numeric(table[names["intvalue"]], errors="coerce"))
    long = pd.DataFrame({"time": table[names["t_stamp"]], "tag": table[names["tagid"]].astype(str), "value": values})
    if "dataintegrity" in names:
        long["quality"] = table[names["dataintegrity"]]
    return long, "layout: sqlt_data of Ignition; tags are called by their numbers (tagid)"


_OF_INFLUX = ("result", "table", "_start", "_stop", "_time", "_value", "_field", "_measurement")


def _of_influx(table):
    """Rows of a query of InfluxDB, whose series are told by the columns beside time and value."""
    if not {"_time", "_value", "_field"} <= set(table.columns):
        return None
    tags = [name for name in table.columns if name not in _OF_INFLUX and not _UNNAMED.match(str(name))]
    tags = [name for name in tags if table[name].notna().any()]
    if "_measurement" in table and (table["_measurement"].nunique() > 1 or not tags):
        tags.insert(0, "_measurement")
    parts = [table[name].fillna("").astype(str) for name in (*tags, "_field")]
    tag = parts[0].str.cat(parts[1:], sep=".") if len(parts) > 1 else parts[0]
    if {"table", "_start", "_stop"} <= set(table.columns):
        tag = _told_apart(tag, table)
    long = pd.DataFrame({"time": table["_time"], "tag": tag, "value": table["_value"]})
    return long, f"layout: a query of InfluxDB; tags are called by {listed([*tags, '_field'], quoted=False)}"


def _told_apart(tag, table):
    """Names of tags with a number where several series of one span of time have the same."""
    keys = pd.DataFrame({"tag": tag, "start": table["_start"], "stop": table["_stop"], "table": table["table"]})
    series = keys.drop_duplicates()
    number = series.groupby(["tag", "start", "stop"]).cumcount()
    numbers = keys.merge(series.assign(number=number), how="left")["number"].to_numpy()
    return tag.where(numbers == 0, tag + "." + pd.Series(numbers, index=tag.index).astype(str))


def _of_pairs(table):
    """Pairs of columns, times and values of a tag each, as sheets of DataLink have them."""
    columns = list(table.columns)
    if len(columns) < 4 or len(columns) % 2 or not all(holds_times(table[name]) for name in columns[::2]):
        return None
    if any(holds_times(table[name]) for name in columns[1::2]):
        return None
    parts = []
    for times, values in zip(columns[::2], columns[1::2], strict=True):
        plain = str(values).partition(".")[0].strip().lower()
        is_named = plain not in WORDS["columns"]["value"] and not _UNNAMED.match(str(values))
        tag = values if is_named else _TIME_ENDS.sub("", str(times))
        parts.append(pd.DataFrame({"time": table[times], "tag": tag, "value": table[values]}).dropna(subset=["time"]))
    return pd.concat(parts, ignore_index=True), f"layout: {len(parts)} pairs of columns, times and values of a tag each"


def _transposed(table):
    """Tags in rows and times in the head of the table."""
    heads = pd.Series([str(name) for name in table.columns[1:]])
    some = heads.iloc[:: max(1, len(heads) // TUNING.layouts_sample)]
    if len(heads) < 3 or not are_times(some) or holds_times(table.iloc[:, 0]):
        return None
    turned = table.set_index(table.columns[0]).T.rename_axis(columns=None)
    turned.insert(0, "time", turned.index)
    return turned.reset_index(drop=True), f"layout: turned, {len(table)} tags stood in rows"


# One export as a list of tag series: wide and long tables, words for numbers, quality codes.

_LARGEST = 3.4e38  # of single precision: what is written in place of a value, as 3.4028235E+38
_SECONDS = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "min": 60.0, "h": 3600.0, "hr": 3600.0, "d": 86400.0, "day": 86400.0}
_VALUE_END = re.compile(rf"(?:__|[._ :/-])(?:{'|'.join(WORDS['columns']['value'])})$")  # of the name of a tag
_OF_DATES = r"\d\D+\d|\d{8}"  # what stands in every time
# least code, mask, good and uncertain: the two highest of the 32 bits of OPC UA, of the eight of OPC DA
_STANDARDS = (2**30, -(2**30), 0, 2**30), (192, 192, 192, 64)


class ExportTable(NamedTuple):
    """An export as a table of floats in the order of its rows, its columns without numbers, what was done in words."""

    frame: pd.DataFrame
    texts: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    runs: tuple[int, ...] | None = None  # rows of each run that an index names
    measures: dict[str, str] = {}  # unit of measurement by column or tag, where the export tells it


def bad_marks(values):
    """Marks of bad values as they are compared: numbers as such, texts in lower case."""
    check_kind(values, "`bad_values`", (str, Collection), "a list of marks")
    texts = [str(value).strip() for value in ([values] if isinstance(values, str) else values)]
    return frozenset(text.lower() if np.isnan(number := _number(text)) else number for text in texts)


def _number(text):
    """The number that a text is, NaN where it is none."""
    plain = text.replace(".", "").replace(",", ".") if DECIMAL_COMMA.match(text) else text
    return float(pd.to_numeric(plain, errors="coerce"))


def cells_of(export, bad_values=()):
    """Table of the cells of an export as they are written."""
    return written(export, str(export), Dialect(bad_values=bad_marks(bad_values))).table


def tag_series(export, dialect, where):
    """Series of an export by tag: floats by time, NaN where not good, the last of equal times."""
    times, table, said, _ = _parts(export, dialect, where)
    if times is None:
        what = f"No time column in {where}: its columns are {listed(table.columns)}"
        raise ValueError(f"{what}. Call it 'time', or put times in the index of a frame.")
    if {"tag", "value"} <= set(roles := _roles(table)):
        found = _long(table, times, roles, dialect, where)
    else:
        found = _wide(dict(table.items()), on_one_clock(times, None, dialect.tz, where), dialect, where)
    for text in (*said, *found.said):
        warn(f"{where}: {text}.")
    if found.texts:
        raise ValueError(f"Tags {listed(found.texts)} of {where} hold words and no numbers; leave them out.")
    return {tag: ordered(own) for tag, own in found.series.items()}


def export_table(export, dialect, where, alone=True):
    """An export as a table in the order of its rows, whatever that is; rows have numbers where it has no times.

    Columns without numbers are left out, and named; an export that is `alone` has others.
    """
    times, table, said, measures = _parts(export, dialect, where)
    if {"tag", "value"} <= set(roles := _roles(table)) and times is not None:
        return _long_table(table, times, roles, dialect, where, alone, said, measures)
    if times is not None:
        times = on_one_clock(times, None, dialect.tz, where, strict=False)
    clock = read_clock(table.index)
    wanted = _wanted(list(table.columns), dialect, where, alone)
    columns = {name: column for name, column in table.items() if name in wanted}
    n_rows = len(table)
    del table  # a large file is in memory once: each column goes where its numbers are in the end
    for name, column in columns.items():
        columns[name], measure = measure_behind(column)
        measures = measures | {name: measure} if measure else measures
    found = _wide(columns, times, dialect, where, skip_texts=True, alone=alone)
    stamps = [column for column in found.texts if times is None and holds_times(columns[column])]
    if stamps:
        raise ValueError(
            f"Column {listed(stamps)} of {where} is no number. Is it the time? Name it: time=... (--time)."
        )
    if times is not None and found.texts and len(times) >= TUNING.forms_long * times.nunique():
        if (heads := _told_long(columns, found, times, roles)) is not None:
            told = f"layout: a row for every value; tags in {heads['tag']!r}, values in {heads['value']!r}"
            long = pd.DataFrame({**{name: columns[name] for name in found.texts}, heads["value"]: found.numbers(heads)})
            return _long_table(long, times, heads, dialect, where, alone, (*said, told), measures)
        heads = f"its tags in {listed(found.texts)} and its values in {listed(list(found.series))}"
        raise ValueError(
            f"{where} has {len(times)} rows of {times.nunique()} times, a row for every value: {heads}? Call these "
            "columns 'tag' and 'value'."
        )
    numbering = [name for name, own in found.series.items() if _numbers_rows(name, own) and len(found.series) > 1]
    for name in numbering:
        del found.series[name]
        said = (*said, f"left out: {name!r} numbers the rows")
    if times is None and ticks(clock.times) is not None:
        times = clock.times
    if times is not None and n_rows >= TUNING.grid_long:  # the grid lets its columns go one by one
        frame = pd.DataFrame({name: own.to_numpy() for name, own in found.series.items()}, times, copy=False)
    else:
        frame = _in_one_block(found.series, n_rows)
        frame = frame if times is None else frame.set_axis(times)
    return ExportTable(frame, found.texts, (*said, *found.said), clock.runs, measures)


def _numbers_rows(name, series):
    """Whether a column is called a number of rows, and is one."""
    if plain_name(name) not in WORDS["columns"]["number"]:
        return False
    steps = np.diff(series.to_numpy())
    return len(steps) > 0 and bool((steps >= 1).all() and (steps % 1 == 0).all())


def _long_table(table, times, roles, dialect, where, alone, said, measures):
    """The :class:`ExportTable` of a table of a row for every value."""
    found = _long(table, times, roles, dialect, where)
    check_known([*found.series, *found.texts], dialect, where, alone)
    series = {tag: ordered(own) for tag, own in found.series.items()}
    frame, held = table_of(series, dialect.hold, dialect.every)
    if "measure" in roles:
        words = measures_by_tag(table[roles["tag"]].astype(str).str.strip(), table[roles["measure"]])
        measures = measures | {tag: word for tag, word in words.items() if is_measure(word)}
    return ExportTable(frame, found.texts, (*said, *found.said, *held), None, measures)


def _told_long(columns, found, times, roles):
    """Columns of a table of a row for every value by what they hold, where only one reading is possible; else None.

    The tags are words that no time has twice, and the values are the only numbers.
    """
    pairs = {name: pd.DataFrame({"time": times, "tag": columns[name].to_numpy()}) for name in found.texts}
    tags = [name for name, pair in pairs.items() if not pair.duplicated().any()]
    values = [name for name, own in found.series.items() if own.notna().any()]
    tags = [roles["tag"]] if roles.get("tag") in tags else tags
    if len(tags) != 1 or len(values) != 1:
        return None
    others = {role: roles[role] for role in ("quality", "measure") if roles.get(role) in found.texts}
    for name in found.texts:
        words = set(_first_words(columns[name]).dropna().unique())
        if name not in tags and words & {*WORDS["quality"]["good"]} and len(words) <= TUNING.forms_most_qualities:
            others.setdefault("quality", name)
    return {"tag": tags[0], "value": values[0], **others}


def _in_one_block(series, n_rows):
    """Frame of series, each of which is let go of once it is in the frame."""
    names = list(series)
    values = np.empty((len(names), n_rows))
    for row, name in zip(values, names, strict=True):
        row[:] = series.pop(name).to_numpy()
    return pd.DataFrame(values.T, columns=names, copy=False)


def _wanted(names, dialect, where, alone):
    """Columns that are read, those of their qualities, too, and of files with one tag each that of the values."""
    check_known(names, dialect, where, alone)
    values = () if alone else WORDS["columns"]["value"]
    wanted = {name for name in names if dialect.wants(name) or name.lower() in values}
    return wanted | {quality for name, quality in _quality_columns(names).items() if name in wanted}


def check_known(names, dialect, where, alone=True):
    """Refuse columns that are asked for and are not there; those of one of several files may be in another."""
    if alone and (unknown := dialect.unknown(names)):
        raise ValueError(f"There is no column {listed(unknown)} in {where}: its columns are {listed(names, 8)}.")


def _parts(export, dialect, where):
    """Times of an export, None where it has none, the table without them, what was done in words, measures."""
    given = written(export, where, dialect)
    (table, said), measures = brought_into_form(given.table, given.said), given.measures
    del given
    names = _by_plain_name(table.columns)
    if dialect.time is not None and str(dialect.time).strip().lower() not in names:
        raise ValueError(f"There is no column {dialect.time!r} in {where}: its columns are {listed(table.columns)}.")
    named = dialect.time
    if named is None and _pick(names, TIME_NAMES) is None and not _tells_times(read_clock(table.index).times):
        named = time_column(table)
        said = said if named is None else (*said, f"times: those of column {named!r}")
    times, table = _split_times(table, names, named)
    if times is not None:
        table, times, more = _timed(table, times, dialect.dayfirst, where)
        said += more
    return times, table, said, measures


def _roles(table):
    """Columns of a table of one row for every value, by what they hold."""
    names = _by_plain_name(table.columns)
    roles = {role: _pick(names, words) for role, words in WORDS["columns"].items()}
    return {role: name for role, name in roles.items() if name is not None}


def _timed(table, stamps, dayfirst, where):
    """Rows that have a time, their times, and how many there are without, which nothing is known of."""
    seconds = _SECONDS.get(measure_in(str(stamps.name))) if pd.api.types.is_numeric_dtype(stamps) else None
    if seconds is not None:
        stamps = pd.to_datetime(stamps * seconds, unit="s", utc=True)
    there = stamps.notna().to_numpy(copy=True)
    if not (pd.api.types.is_numeric_dtype(stamps) or pd.api.types.is_datetime64_any_dtype(stamps)):
        there &= (stamps.astype(str).str.strip() != "").to_numpy(dtype=bool)
    if len(there) and not there.any():
        raise ValueError(f"No row of {where} has a time.")
    try:
        times = parse_times(stamps if there.all() else stamps[there], dayfirst, where)
    except ValueError:  # lines below the table say what they are, such as totals of its columns
        empty = there & table.isna().all(axis=1).to_numpy()
        told = pd.to_datetime(stamps[empty], format="mixed", errors="coerce", utc=True).isna().to_numpy()
        dated = stamps.astype(str).str.contains(_OF_DATES, regex=True).to_numpy()
        below = np.arange(len(dated)) > np.flatnonzero(dated)[-1] if dated.any() else ~there
        if not told.any() and not below.any():
            raise
        there[np.flatnonzero(empty)[told]] = there[below] = False
        times = parse_times(stamps[there], dayfirst, where)
    lost = np.flatnonzero(~there)
    if not len(lost):
        return table, times, ()
    rows = f"row {lost[0] + 1}" if len(lost) == 1 else f"{len(lost)} rows, the first is row {lost[0] + 1},"
    words = [text for text in stamps.iloc[lost].dropna().astype(str).str.strip() if text]
    return table[there], times, (f"left out: {rows} without a time{f' ({listed(words, 4)})' if words else ''}",)


# -- tables -------------------------------------------------------------------------------------


def _by_plain_name(columns):
    """Columns by their names in lower case, and without a first sign that they may have."""
    exact = {str(column).strip().lower(): column for column in columns}
    return {plain_name(name): column for name, column in exact.items()} | exact


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
        if (part := _pick(names, WORDS["dates"]["milliseconds"])) is not None:
            times, both = times + "." + table[part].astype(str).str.strip().str.zfill(3), [*both, part]
        table = table.drop(columns=both)
    elif column is not None:
        times, table = table[column], table.drop(columns=column)
    return times, table.set_axis([str(column).strip() for column in table.columns], axis=1)


def _tells_times(index):
    """Whether an index holds times, or numbers that can only be those since 1970."""
    if isinstance(index, pd.DatetimeIndex):
        return True
    return index.dtype.kind in "iuf" and len(index) > 0 and bool(index.min() >= TUNING.forms_since_1970)


class _Found(NamedTuple):
    """Numbers by tag, tags without numbers, what was done in words."""

    series: dict
    texts: tuple[str, ...]
    said: tuple[str, ...]

    def numbers(self, heads):
        """Values of the column that holds them."""
        return self.series[heads["value"]].to_numpy()


def _long(table, times, roles, dialect, where):
    tags = table[roles["tag"]].astype(str).str.strip().to_numpy()
    times = on_one_clock(times, tags, dialect.tz, where)
    cells = _cells(table[roles["value"]], dialect.bad_values)
    numbers = cells.numbers
    if "quality" in roles:
        numbers = np.where(is_good(table[roles["quality"]], dialect, where), numbers, np.nan)
    codes, found = pd.factorize(tags)
    n_words = np.bincount(codes, cells.words, len(found))
    shares = n_words / np.maximum(np.bincount(codes, cells.words | ~np.isnan(cells.numbers), len(found)), 1)
    kept = [k for k, tag in enumerate(found) if dialect.wants(tag)]
    texts = [found[k] for k in kept if shares[k] > TUNING.forms_most_words]
    bad: dict = {}
    for k in kept:
        if n_words[k] and found[k] not in texts:
            _note_words(table[roles["value"]][cells.words & (codes == k)], shares[k], f"{found[k]!r} of {where}", bad)
    series = pd.Series(numbers, index=times, copy=False)
    order = np.argsort(codes, kind="stable")
    rows = np.split(order, np.cumsum(np.bincount(codes, minlength=len(found)))[:-1])
    return _Found({found[k]: series.iloc[rows[k]] for k in kept if found[k] not in texts}, tuple(texts), _told(bad))


def _wide(columns, times, dialect, where, skip_texts=False, alone=True):
    """Numbers of each column, which is taken out of the dict `columns` of them but where it holds texts."""
    names = [name for name in columns if name and not name.startswith("Unnamed:")]
    quality, values, texts = _quality_columns(names), {}, []
    bad: dict = {}
    for tag in [name for name in names if name not in quality.values()]:
        place = f"column {tag!r} of {where}"
        if skip_texts and _is_text(columns[tag], dialect.bad_values):
            texts.append(tag)
            continue
        column = columns.pop(tag)
        cells = _cells(column, dialect.bad_values)
        if cells.words.any():
            share = cells.words.sum() / (cells.words | ~np.isnan(cells.numbers)).sum()
            _note_words(column[cells.words], share, place, bad)
        values[tag] = cells.numbers
        if tag in quality:
            values[tag] = np.where(is_good(columns[quality[tag]], dialect, place), values[tag], np.nan)
    if not values and texts and alone:
        shown = listed([f"{tag}: {columns[tag].dropna().iloc[0]}" for tag in texts], 3)
        raise ValueError(f"No column of {where} holds numbers: {shown}. Export one number per cell, without its unit.")
    if not values and alone:
        raise ValueError(f"No tags in {where}: there is a time column and nothing else.")
    series = {tag: pd.Series(own, index=times, copy=False) for tag, own in values.items()}
    return _Found(series, tuple(texts), _told(bad))


def _note_words(words, share, where, bad):
    """Count words in a column of numbers, which stand for bad values where they are few."""
    unknown = [str(word).strip() for word in words]
    if share >= TUNING.forms_few_words:
        first = list(dict.fromkeys(unknown))
        raise ValueError(
            f"Got {first[0]!r} in {where}, which is neither a number nor a known mark of bad quality. Map "
            f"states to numbers, leave the column out, or name the marks: bad_values={first[:5]!r}."
        )
    for word in unknown:
        bad[word] = bad.get(word, 0) + 1


def _told(bad):
    """Sentence about words that were taken as bad values."""
    if not bad:
        return ()
    shown = listed([f"{word!r} {count} times" for word, count in bad.items()], 6, quoted=False)
    return (f"bad values: {sum(bad.values())} cells hold a word in place of a number ({shown})",)


def _is_text(column, bad_values):
    """Whether most of what stands in a column are words, and no marks of bad values."""
    if pd.api.types.is_bool_dtype(column) or pd.api.types.is_numeric_dtype(column):
        return False
    there = column.dropna()
    texts = there.iloc[:: max(1, len(there) // TUNING.forms_looked_at)].astype("string").str.strip()
    texts = texts[~texts.str.lower().isin({"", *BAD_TEXTS, *(m for m in bad_values if isinstance(m, str))})]
    words = pd.to_numeric(texts, errors="coerce").isna() & ~texts.str.match(DECIMAL_COMMA)
    return bool(len(texts)) and bool(words.mean() > TUNING.forms_most_words)


def _quality_columns(columns):
    """Column with the quality of each tag that has one: ``FIT101.quality`` beside ``FIT101`` or ``FIT101.value``."""
    lower = {column.lower(): column for column in columns}
    ends = [joint + word for word in WORDS["columns"]["quality"] for joint in JOINTS]
    stems = {tag: (tag.lower(), _VALUE_END.sub("", tag.lower())) for tag in columns}
    found = {tag: _pick(lower, [stem + end for stem in own for end in ends]) for tag, own in stems.items()}
    return {tag: column for tag, column in found.items() if column is not None}


def ordered(series):
    """The series in order of time, the last of equal times."""
    series = series.sort_index(kind="stable")
    return series[~series.index.duplicated(keep="last")]


# -- values and quality codes --------------------------------------------------------------------


class _Cells(NamedTuple):
    """Numbers, NaN for what stands for no good value, and which cells hold words that nobody knows."""

    numbers: np.ndarray
    words: np.ndarray


def _cells(values, bad_values):
    """Numbers or text as floats."""
    fills = [mark for mark in bad_values if isinstance(mark, float)]
    if pd.api.types.is_bool_dtype(values) or pd.api.types.is_numeric_dtype(values):
        numbers = _without(values.to_numpy(dtype=float, na_value=np.nan), fills)
        return _Cells(numbers, np.zeros(len(numbers), dtype=bool))
    cells = values.tolist()
    numbers, words = _floats(cells)
    bad = BAD_TEXTS | bad_values
    unknown = {text for text in words if text.lower() not in bad}
    is_unknown = [bool(unknown) and isinstance(cell, str) and cell.strip() in unknown for cell in cells]
    there = np.array(is_unknown, dtype=bool)
    return _Cells(_without(numbers, fills), there)


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
    none = ~(np.abs(numbers) <= _LARGEST)  # the missing ones, too
    none |= np.isin(numbers, fills) if fills else False
    return np.where(none, np.nan, numbers) if none.any() else numbers


def is_good(quality, dialect, where):
    """Which rows are good by OPC DA (192), OPC UA (0), per cent (100), 0 or 1, words or the user's codes."""
    if callable(dialect.good):
        return np.array([bool(dialect.good(code)) for code in quality], dtype=bool)
    if dialect.good is not None:
        words = quality.astype("string").str.strip().str.lower()
        return words.isin({str(code).strip().lower() for code in dialect.good}).to_numpy(dtype=bool)
    numbers = pd.to_numeric(quality, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    if not np.isnan(numbers).all():
        return _good_codes(numbers, dialect.keep_uncertain, where)
    known = {*WORDS["quality"]["good"], *(WORDS["quality"]["uncertain"] if dialect.keep_uncertain else ())}
    first = _first_words(quality)
    found = first.isin(known).fillna(False).to_numpy(dtype=bool)
    strange = [] if found.any() else [word for word in first.dropna().unique() if not _NOT_GOOD.match(word)]
    if strange:
        raise ValueError(
            f"No quality of {where} is known to be good: they are {listed(strange, 6)}. Say which are good: good=[...]."
        )
    return found


def _first_words(texts):
    """First word of each text, in lower case."""
    return texts.astype("string").str.strip().str.lower().str.split(r"[,;:\s]", n=1, regex=True).str[0]


_NOT_GOOD = re.compile(f"$|{'|'.join(map(re.escape, (*WORDS['quality']['bad'], *WORDS['quality']['uncertain'])))}")


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
