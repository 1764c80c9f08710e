"""A text as it was written, as a table of cells: how it is to be read, how large it is, and how far the reading is."""

import csv
import io
import re
import warnings
from collections import Counter
from fnmatch import fnmatchcase
from itertools import islice
from mmap import mmap
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..containers.arrays import listed
from .times import (
    BAD_TEXTS,
    DECIMAL_COMMA,
    TIME_NAMES,
    WORDS,
    are_times,
    is_measure,
    is_told,
    measures_below,
    of_plain_stamps,
)
from .tuning import TUNING

# How an export is to be read, where it does not tell itself.


class Dialect(NamedTuple):
    """How an export is to be read; see :func:`read_historian` and :meth:`PlantTable.read`."""

    tz: str | None = None
    dayfirst: bool | None = None
    bad_values: frozenset = frozenset()  # texts in lower case, and numbers
    good: Any = None
    keep_uncertain: bool = False
    drop: tuple = ()  # patterns of columns that are left out of tables
    time: str | None = None  # column of the times of tables, where its name is none of the usual ones
    names: tuple[str, ...] | None = None  # of the columns of a file without a header
    query: str | None = None  # of a database
    hold: Any = None  # how long stored values of an archive hold
    every: Any = None  # step of the table
    columns: tuple | None = None  # patterns of the columns that are read; None for all

    def wants(self, name):
        """Whether a column or tag is read: one of `columns`, where they are given, and none of `drop`; None is."""
        return name is None or ((self.columns is None or _fits(name, self.columns)) and not _fits(name, self.drop))

    def unknown(self, names):
        """Those of `columns` that fit none of the names that there are."""
        return [pattern for pattern in self.columns or () if not any(_fits(name, [pattern]) for name in names)]


def _fits(name, patterns):
    return any(fnmatchcase(str(name).lower(), str(pattern).lower()) for pattern in patterns)


# How far the reading of a large file is, and whether it fits into memory, which is said before it is read.


class Reading:
    """Share of the file that is being read, None where none is: what a terminal shows."""

    share: float | None = None


def check_size(where, n_rows, n_columns):
    """Refuse what memory cannot hold before it is read."""
    free, needed = free_memory(), TUNING.reading_copies * 8 * n_rows * n_columns
    if free is not None and needed > free:
        raise ValueError(
            f"{where} has about {n_rows} rows of {n_columns} columns, which take {needed / 1e9:.3g} GB of memory, and "
            f"{free / 1e9:.3g} GB are free. Read fewer columns: columns=['FT101', 'boiler.*'] (--columns), or a part "
            "of its rows."
        )


def free_memory():
    """Bytes of memory that are free, of the machine and of what this process may take; None where nothing tells."""
    told = [_number_in("/proc/meminfo", "MemAvailable:", 1024), _left_of_group("/sys/fs/cgroup")]
    return min((size for size in told if size is not None), default=None)


def _left_of_group(folder):
    """Bytes that a container leaves, None without a limit."""
    most, used = (_number_in(f"{folder}/memory.{name}", "", 1) for name in ("max", "current"))
    return None if most is None or used is None else max(most - used, 0)


def _number_in(path, word, size):
    """Number behind a word in a file of the system, times a size; None where there is none."""
    try:
        behind = Path(path).read_text().partition(word)[2] if word else Path(path).read_text()
        return int(behind.split()[0]) * size
    except (OSError, ValueError, IndexError):
        return None


# A text as it was written, as a table of cells: separators, lines around the header, names of the columns.

_SPELLINGS = [form(text) for text in BAD_TEXTS for form in (str, str.upper, str.title, str.capitalize)] + [""]
_SEPARATORS = ";\t|,"  # decimal commas look like the last
_THOUSANDS = re.compile(r"\.\d{3}(?:\.\d{3})*,\d")  # points between thousands beside a decimal comma
_COMMA_THOUSANDS = r"\d{1,3}(?:,\d{3})+\.\d"  # commas between thousands beside a decimal point
_GROUPS = re.compile("[ '’\u00a0\u2009\u202f]")  # between thousands
_GROUPED = re.compile(rf"""(?<=[;,\t|"])[+-]?\d{{1,3}}(?:{_GROUPS.pattern}\d{{3}})+(?=[.,;\t|"\r\n])""")
_BLANKS = re.compile(r" {2,}")
_NUMBER = re.compile(r"[+-]?[\d.,]*\d[\d.,]*(?:[eE][+-]?\d+)?")
_VALUE = re.compile(rf"{_NUMBER.pattern}|\d+[-./:]\d+[-./:]\d.*")  # a number or a time
_DATASET = re.compile(r'^\s*"?#NAMES"?[^\n]*\n([^\n]*?)\r?\n"?#TYPES[^\n]*\n[^\n]*\n"?#ROWS[^\n]*\n')  # of Ignition
_CELLS, _FEWEST = 500_000, 250  # of a large file that are read at a time, and rows at least


class Written(NamedTuple):
    """Cells of a file, numbers where all cells of a column are, and what was made of its lines, in words."""

    table: pd.DataFrame
    said: tuple[str, ...] = ()
    measures: dict[str, str] = {}  # unit of measurement by column or tag, where the file tells it


# -- lines ----------------------------------------------------------------------------------------------


class _Form(NamedTuple):
    """Separator of a file, names of its columns and its text from the first line of values on."""

    separator: str
    names: list[str]
    rows: list[list[str]]
    body: str
    said: tuple[str, ...]
    measures: dict[str, str]


def parsed(text, where, dialect):
    """Table that a text holds."""
    text = _plain(text.removeprefix("\ufeff"))
    blocks = _annotated(text)
    if len(blocks) > 1:
        tables = [parsed(block, where, dialect).table for block in blocks]
        return Written(pd.concat(tables, ignore_index=True))
    text = _DATASET.sub(r"\1\n", blocks[0])
    form, marks = _form(text, where, dialect.names), dialect.bad_values
    how, body = _how(form, form.body, marks), form.body
    if how["decimal"] == "," and how.pop("points"):
        # numbers with points are read several times as fast, and those written with points are none with commas
        body, how["decimal"] = body.replace(",", "."), "."
    how.pop("points", None)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            table = pd.read_csv(io.StringIO(_head(form) + body), **how)
    except pd.errors.ParserWarning:
        table = _without_ends(_head(form), body, how, where)
    except pd.errors.ParserError as error:
        raise ValueError(f"Rows of {where} have different numbers of columns: {str(error).strip()}.") from None
    return Written(table, form.said, form.measures)


def parsed_file(path, where, dialect):
    """As :func:`parsed` for a large file of UTF-8, of which only the table is ever in memory; None of other files."""
    n_lines = _count_lines(path)
    with open(path, "rb") as file:
        early = file.read(TUNING.written_beginning)
        text = _whole_lines(early)
        if text is None or len(_annotated(text)) > 1 or _DATASET.match(text) or text.lstrip()[:1] in "[{<#":
            return None
        if _plain(text) != text:
            return None
        form = _form(text, where, dialect.names)
        how = _how(form, form.body, dialect.bad_values)
        how.pop("points")
        file.seek(len(text.encode()) - len(form.body.encode()) + (len(_MARK) if early.startswith(_MARK) else 0))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", pd.errors.ParserWarning)
                warnings.simplefilter("ignore", pd.errors.DtypeWarning)  # words among numbers are looked at later
                source: Any = _Behind(_head(form), file)
                if dialect.columns is not None:
                    how["usecols"] = read_columns(form.names, dialect)
                check_size(where, n_lines, len(how.get("usecols", form.names)))
                return Written(_in_pieces(source, form.names, n_lines, how), form.said, form.measures)
        except (pd.errors.ParserError, pd.errors.ParserWarning, UnicodeDecodeError):
            return None  # told or repaired where the whole text is at hand


def read_columns(names, dialect, times=()):
    """Names of the columns of a file that have to be read: those asked for, times, names of tags, qualities, values.

    Parameters
    ----------
    names : list of str
    dialect : Dialect
    times : collection of str, default=()
        Columns of times, whatever they are called; where none is known, the first two may be.

    Returns
    -------
    list of str
    """
    if not times and dialect.time is None and not any(name.strip().lower() in TIME_NAMES for name in names):
        times = names[:2]
    told = {*times, *WORDS["columns"]["value"], *WORDS["columns"]["measure"], str(dialect.time).lower()}
    return [name for name in names if dialect.wants(name) or is_told(name) or {name, name.strip().lower()} & told]


def _count_lines(path):
    """Number of lines of a file."""
    with open(path, "rb") as file:
        return 1 + sum(block.count(b"\n") for block in iter(lambda: file.read(TUNING.written_beginning), b""))


def _in_pieces(source, names, most, how):
    """Table of `most` rows at most, read a few at a time, so that its numbers are in memory once."""
    columns: dict[str, _Column] = {}
    n_read = 0
    for piece in pd.read_csv(source, chunksize=max(_CELLS // len(names), _FEWEST), **how):
        for name, column in piece.items():
            is_time = str(name).strip().lower() in TIME_NAMES and column.dtype.kind not in "if"
            times = of_plain_stamps(column) if is_time else None
            columns.setdefault(str(name), _Column(most)).add(column if times is None else pd.Series(times))
        n_read += len(piece)
        Reading.share = n_read / most
    Reading.share = None
    return pd.DataFrame({name: column.whole() for name, column in columns.items()}, copy=False)


def _own_memory(n_rows, dtype):
    """An array whose memory, if it is much, goes back to the system as soon as nobody has it."""
    size = n_rows * dtype.itemsize
    return np.empty(n_rows, dtype) if size < TUNING.written_beginning else np.frombuffer(mmap(-1, size), dtype)


class _Column:
    """A column that comes in pieces: numbers or times lie in one array of `most` rows until words come, behind them
    pieces."""

    def __init__(self, most):
        self._most, self._filled = most, 0
        self._numbers: Any = None
        self._pieces: list[pd.Series] = []

    def add(self, piece):
        """Take the next piece."""
        if self._numbers is None and not self._pieces and piece.dtype.kind in "ifM":
            self._numbers = _own_memory(self._most, piece.dtype)
        own = None if self._numbers is None else self._numbers.dtype
        fits = own is not None and (piece.dtype == own or {piece.dtype.kind, own.kind} <= {"i", "f"})
        if self._pieces or not fits:
            self._pieces.append(piece)
            return
        if self._numbers.dtype.kind == "i" and piece.dtype.kind == "f":
            self._numbers = self._numbers.astype(float)
        self._numbers[self._filled : self._filled + len(piece)] = piece
        self._filled += len(piece)

    def whole(self):
        """Values of the column."""
        numbers = None if self._numbers is None else self._numbers[: self._filled]
        if not self._pieces:
            return numbers
        first = [] if numbers is None else [pd.Series(numbers)]
        return pd.concat([*first, *self._pieces]).array


_MARK = b"\xef\xbb\xbf"  # of UTF-8


class _Behind:
    """A file from where it stands behind a first line."""

    def __init__(self, head, file):
        self._head, self._file = head.encode(), file

    def read(self, size=-1):
        head, self._head = self._head, b""
        return head or self._file.read(size)

    def __iter__(self):
        return iter(self._file)


def _whole_lines(early):
    """Text of the whole lines at the beginning of a file of UTF-8, None of another."""
    lines = early[: early.rfind(b"\n") + 1]
    try:
        return lines.decode("utf-8-sig") if lines and b"\0" not in early else None
    except UnicodeDecodeError:
        return None


def _head(form):
    """First line with the names of the columns."""
    head = io.StringIO()
    csv.writer(head, delimiter=form.separator, lineterminator="\n").writerow(form.names)
    return head.getvalue()


def _how(form, body, marks):
    """How pandas is to read the lines below the header; `points`: whether points may stand for decimal commas."""
    as_text = {name: str for name in form.names if is_told(name)}
    cells = [cell.strip() for row in form.rows[: TUNING.written_sure - 1] for cell in row]
    has_commas = form.separator != "," and any(map(DECIMAL_COMMA.match, cells))
    decimal = "," if has_commas else "."
    is_more = any(name.strip().lower() not in TIME_NAMES for name in as_text)  # names of tags or qualities
    written_so = is_more or any("," in mark for mark in marks if isinstance(mark, str))
    return {
        "sep": form.separator,
        "decimal": decimal,
        "dtype": as_text,
        "thousands": _thousands(body, form.separator, decimal),
        "na_values": _SPELLINGS,
        "keep_default_na": False,
        "low_memory": False,
        "index_col": False,
        "points": decimal == "," and not written_so and not _THOUSANDS.search(body),
    }


def _plain(text):
    """A text without marks between thousands but points and commas, and with tabs where columns are set with blanks."""
    if _GROUPED.search(text[: TUNING.written_beginning]):
        text = _GROUPED.sub(lambda found: _GROUPS.sub("", found[0]), text)
    lines = [line.strip() for line in _first_lines(text)]
    apart = {len(_BLANKS.split(line)) for line in lines}
    if len(apart) == 1 and apart != {1} and not re.search(r"[;\t|]|, ", "".join(lines)):
        text = "\n".join(_BLANKS.sub("\t", line.strip()) for line in text.splitlines())
    return text


def _annotated(text):
    """Tables of a text of InfluxDB without the lines that annotate them; one of any other text."""
    if not re.match(r"\s*#(?:group|datatype|default)\b", text):
        return [text]
    blocks = re.split(r"(?:^|\n)(?:#[^\n]*\n)+", text.replace("\r", ""))
    return [block.strip("\n") for block in blocks if block.strip()]


def _without_ends(head, body, how, where):
    """Table of lines that have more fields than the header, where these hold nothing."""
    separator = how["sep"]
    wide = body.splitlines()[: TUNING.written_looked_at]
    ends = min((len(line) - len(line.rstrip(separator)) for line in wide if line.strip()), default=0)
    names = head.rstrip("\n") + "".join(f"{separator}Unnamed: {k}" for k in range(ends))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(io.StringIO(f"{names}\n{body}"), **how)
    except (pd.errors.ParserWarning, pd.errors.ParserError):
        remedy = "Are these decimal commas between commas? Export with semicolons or decimal points"
        raise ValueError(f"Rows of {where} have more fields than its header has names. {remedy}.") from None


def _form(text, where, given=None):
    """Form of a text: what stands above its header, in it, and below it before the first values."""
    told = re.match(r'\s*"?sep=(.)"?[ \t]*\r?\n', text, re.IGNORECASE)  # as Excel writes it
    text = text[told.end() :] if told else text
    separator = told[1] if told else _separator(_first_lines(text))
    rows, ends = _first_rows(text, separator)
    above, said = _lines_above(rows), []
    above -= above > 0 and _stands_over(rows[above - 1], rows[above])
    if above:
        shown = listed([" ".join(cell for cell in row if cell) for row in rows[:above]], 2)
        said.append(f"left out: {above} line{'s' * (above > 1)} above the header ({shown})")
    if given is not None:
        names = _given_names(given, rows[above], where)
        return _Form(separator, names, rows[above:], text[[0, *ends][above] :], (), {})
    if not _are_words(rows[above]) and not _stands_over(rows[above], rows[above]) and _are_values(rows[above]):
        shown = ", ".join(rows[above][:4])
        raise ValueError(
            f"{where} has no header: its first line is {shown}{', ...' if len(rows[above]) > 4 else ''}. Write a line "
            "of names above, or give them: names=['time', 'unit.tag', ...] (--names time,unit.tag,...)."
        )
    names, below = [" ".join(name.split()) for name in rows[above]], above + 1
    measures: dict[str, str] = {}
    for words in rows[above + 1 : above + 1 + TUNING.written_most_words]:
        second = [cell.strip() for cell in words]
        found = measures_below(names, second)
        if not _are_words(words) and not (found and all(map(is_measure, filter(None, second)))):
            break
        below += 1
        if _is_upper(names) and len(second) == len(names):
            names = _of_two_lines(names, second)
            said.append("names: of two lines of the header together")
        else:
            measures |= found
            what = "units of measurement: those of" if found else "left out:"
            shown = listed([word for word in second if word], 4)
            said.append(f"{what} a line of words below the header ({shown})")
    if len(rows) <= below:
        raise ValueError(f"The export has a header and no rows below it: found in {where}.")
    for name, count in Counter(name for name in names if name).items():
        if count > 1:
            said.append(f"names: {name!r} stands over {count} columns; the later ones are {name}.1, ...")
    return _Form(separator, names, rows[below:], text[ends[below - 1] :], tuple(said), measures)


def _are_values(row):
    """Whether most cells of a line, and the first of them, are numbers or times, which are no names."""
    there = [cell.strip() for cell in row if cell.strip()]
    if any(are_times(pd.Series([cell])) for cell in there[:2]) and any(map(_NUMBER.fullmatch, there)):
        return True
    if not there or not _VALUE.fullmatch(there[0]):
        return False
    values = [cell for cell in there if _VALUE.fullmatch(cell)]
    return 2 * len(values) > len(there) and not are_times(pd.Series(there[1:]))


def _given_names(given, row, where):
    if len(given) != len(row):
        raise ValueError(f"Got {len(given)} names for {len(row)} columns of {where}; give one for each.")
    return list(given)


def _first_lines(text):
    """The first lines of a text that hold something, without the rest being looked at."""
    lines = io.StringIO(text[: TUNING.written_beginning], newline="")
    return list(islice((line for line in lines if line.strip()), TUNING.written_looked_at))


def _first_rows(text, separator):
    """Cells of the first lines that hold something, and where each ends in the text; a cell may go over lines."""
    places = [0]

    def lines():
        for line in io.StringIO(text[: TUNING.written_beginning], newline=""):
            places.append(places[-1] + len(line))
            yield line

    rows, ends = [], []
    for row in csv.reader(lines(), delimiter=separator):
        if any(cell.strip() for cell in row):
            rows.append(row)
            ends.append(places[-1])
        if len(rows) == TUNING.written_looked_at:
            break
    return rows, ends


def _separator(lines):
    """What stands between the columns: the character that all lines have equally often, or the later ones."""
    for some in (lines[: TUNING.written_sure], lines[len(lines) // 2 :]):
        for one in _SEPARATORS:
            if some[0].count(one) and len({line.count(one) for line in some}) == 1:
                return one
    most, blanks = max(_SEPARATORS, key=lines[0].count), {line.count(" ") for line in lines[: TUNING.written_sure]}
    return " " if not lines[0].count(most) and " " in lines[0] and len(blanks) == 1 else most


def _lines_above(rows):
    """How many lines stand above the header: those with few fields beside the later ones."""
    filled = [sum(bool(cell.strip()) for cell in row) for row in rows]
    usual, width = median(filled[len(rows) // 2 :]), len(rows[-1])
    first = next((k for k, count in enumerate(filled) if 2 * count > usual), 0)
    # lines about the file may be as long as the header, which is as wide as the rows, and no line of values
    wide = (k for k in range(first, len(rows)) if len(rows[k]) == width)
    better = next(wide, first) if len(rows[first]) > width else first
    return better if _are_words(rows[better]) else first


def _stands_over(row, following):
    """Whether a line that is partly empty holds names that stand over several columns, as merged cells do."""
    filled = [cell for cell in row if cell.strip()]
    return len(row) == len(following) and not row[0].strip() and len(filled) > 1 and _are_words([*filled, ""])


def _are_words(row):
    """Whether a line holds words and no value: units of measurement, descriptions, a second line of names."""
    cells = [cell.strip() for cell in row]
    words = [cell for cell in cells if cell and cell.lower() not in BAD_TEXTS]
    return len(words) > 0 and not any(map(_VALUE.fullmatch, words)) and 2 * len(words) > len(cells)


def _is_upper(names):
    """Whether names are those of the upper of two lines: one stands over several columns."""
    there = [name for name in names if name]
    return len(set(there)) < len(there) or sum(not name for name in names[1:-1]) > 0


def _of_two_lines(upper, lower):
    """Names of two lines; an upper one holds for the columns on its right that have none."""
    names, last = [], ""
    for k, (above, below) in enumerate(zip(upper, lower, strict=True)):
        last = above or (last if k > 1 else "")
        times = [name for name in (above, below) if name.lower() in TIME_NAMES]
        names.append(times[0] if times else f"{last}__{below}" if last and below else below or above)
    return names


def _thousands(body, separator, decimal):
    """The comma where it stands between thousands."""
    if decimal == ",":
        return None
    quote = '"' if separator == "," else ""
    return "," if re.search(quote + _COMMA_THOUSANDS, body[: TUNING.written_beginning]) else None
