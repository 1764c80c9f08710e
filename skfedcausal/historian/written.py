"""A file as it was written, as a table of cells: its form and letters, separators, lines around the header."""

import csv
import gzip
import io
import re
import warnings
import zipfile
from collections import Counter
from itertools import islice
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pandas as pd

from ..containers.arrays import as_native
from ..containers.layout import listed
from ..optional import import_optional
from .times import BAD_TEXTS, DECIMAL_COMMA, TIME_NAMES, is_told

_SPELLINGS = [form(text) for text in BAD_TEXTS for form in (str, str.upper, str.title, str.capitalize)] + [""]
_SEPARATORS = ";\t|,"  # decimal commas look like the last
_THOUSANDS = re.compile(r"\.\d{3}(?:\.\d{3})*,\d")  # points between thousands beside a decimal comma
_COMMA_THOUSANDS = r"\d{1,3}(?:,\d{3})+\.\d"  # commas between thousands beside a decimal point
_VALUE = re.compile(r"[+-]?[\d.,]*\d[\d.,]*(?:[eE][+-]?\d+)?|\d+[-./:]\d+[-./:]\d.*")  # a number or a time
_BEGINNING = 1_000_000  # letters of a text in which its form is told
_LOOKED_AT = 60  # lines by which it is told
_SURE = 6  # of these, those that alone tell the separator where they agree
_MOST_WORDS = 3  # lines of words below a header
_CSV = "export it as CSV (UTF-8) or Parquet"


class Written(NamedTuple):
    """Cells of a file, numbers where all cells of a column are, and what was made of its lines, in words."""

    table: pd.DataFrame
    said: tuple[str, ...] = ()


def written(export, where, marks=()):
    """Table as it is written in a file, or the frame that was given; `marks` are texts of bad values."""
    native = as_native(export) if not isinstance(export, (str, Path)) else export
    if isinstance(native, pd.DataFrame):
        return Written(native)
    if hasattr(export, "read"):
        content = export.read()
    else:
        path = Path(export)
        if path.is_dir():
            files = sorted(one.name for one in path.iterdir() if one.is_file())
            inside = f"; in it are {listed(files, 6)}" if files else ""
            raise ValueError(f"{where} is a folder. Give a file of all units, or one for each: UNIT=FILE{inside}.")
        if path.suffix.lower() in (".parquet", ".pq"):
            return Written(_parquet(export, where))
        content = path.read_bytes()
    if isinstance(content, bytes):
        content = _unpacked(content, where)
        if content[:4] == b"PAR1":
            return Written(_parquet(io.BytesIO(content), where))
        content = _decoded(content, where)
    if not content.strip():
        raise ValueError(f"The export is empty: found in {where}.")
    if content.lstrip()[:1] in "[{<":
        raise ValueError(f"{where} holds JSON, XML or a page of a browser, and no table: {_CSV}.")
    return _parsed(content, where, marks)


# -- letters --------------------------------------------------------------------------------------------


def _parquet(source, where):
    import_optional("pyarrow", "parquet", f"Reading {where}")
    return pd.read_parquet(source)


def _unpacked(raw, where):
    """What a packed file holds, where it holds one."""
    if raw[:2] == b"\x1f\x8b":
        return gzip.decompress(raw)
    if raw[:8] == b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1":
        raise ValueError(f"{where} is a workbook of Excel: save the sheet as CSV (UTF-8).")
    if raw[:4] != b"PK\x03\x04":
        return raw
    try:
        archive = zipfile.ZipFile(io.BytesIO(raw))
    except zipfile.BadZipFile:
        raise ValueError(f"{where} is an archive that cannot be unpacked: {_CSV}.") from None
    names = [name for name in archive.namelist() if not name.endswith("/")]
    if "xl/workbook.xml" in names:
        raise ValueError(f"{where} is a workbook of Excel: save the sheet as CSV (UTF-8).")
    if len(names) != 1:
        remedy = "unpack it, and give the one of all units or one for each: UNIT=FILE"
        raise ValueError(f"{where} is an archive of {len(names)} files ({listed(names, 6)}): {remedy}.")
    return archive.read(names[0])


def _decoded(raw, where):
    """Text of a file in UTF-8 or UTF-16, or as Windows of western Europe writes it."""
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return raw.decode("utf-16")
    early = raw[:1000]
    if b"\0" in early:  # letters of two bytes without a mark, or no letters
        for code, other in (("utf-16-le", early[1::2]), ("utf-16-be", early[0::2])):
            if other.count(0) > 0.9 * len(other):
                return raw.decode(code)
        raise ValueError(f"{where} holds no text: {_CSV}.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        pass
    try:
        return raw.decode("cp1252")
    except UnicodeDecodeError:
        raise ValueError(f"{where} holds no text: {_CSV}.") from None


# -- lines ----------------------------------------------------------------------------------------------


class _Form(NamedTuple):
    """Separator of a file, names of its columns and its text from the first line of values on."""

    separator: str
    names: list[str]
    rows: list[list[str]]
    body: str
    said: tuple[str, ...]


def _parsed(text, where, marks):
    """Table that a text holds."""
    form = _form(text.removeprefix("\ufeff"), where)
    as_text = {name: str for name in form.names if is_told(name)}
    separator, body = form.separator, form.body
    decimal = "," if _has_commas(form.rows, separator) else "."
    written_so = any("," in mark for mark in marks if isinstance(mark, str)) or not _only_times(as_text)
    if decimal == "," and not written_so and not _THOUSANDS.search(body):
        # numbers with points are read several times as fast, and those written with points are none with commas
        body, decimal = body.replace(",", "."), "."
    how = {"sep": separator, "decimal": decimal, "dtype": as_text, "thousands": _thousands(body, separator, decimal)}
    head = io.StringIO()
    csv.writer(head, delimiter=separator, lineterminator="\n").writerow(form.names)
    how |= {"na_values": _SPELLINGS, "keep_default_na": False, "low_memory": False, "index_col": False}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            table = pd.read_csv(io.StringIO(head.getvalue() + body), **how)
    except pd.errors.ParserWarning:
        table = _without_ends(head.getvalue(), body, how, where)
    except pd.errors.ParserError as error:
        raise ValueError(f"Rows of {where} have different numbers of columns: {str(error).strip()}.") from None
    return Written(table, form.said)


def _without_ends(head, body, how, where):
    """Table of lines that have more fields than the header, where these hold nothing."""
    separator = how["sep"]
    wide = body.splitlines()[:_LOOKED_AT]
    ends = min((len(line) - len(line.rstrip(separator)) for line in wide if line.strip()), default=0)
    names = head.rstrip("\n") + "".join(f"{separator}Unnamed: {k}" for k in range(ends))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(io.StringIO(f"{names}\n{body}"), **how)
    except (pd.errors.ParserWarning, pd.errors.ParserError):
        remedy = "Are these decimal commas between commas? Export with semicolons or decimal points"
        raise ValueError(f"Rows of {where} have more fields than its header has names. {remedy}.") from None


def _form(text, where):
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
    names, below = [" ".join(name.split()) for name in rows[above]], above + 1
    for words in rows[above + 1 : above + 1 + _MOST_WORDS]:
        if not _are_words(words):
            break
        below += 1
        second = [cell.strip() for cell in words]
        if _is_upper(names) and len(second) == len(names):
            names = _of_two_lines(names, second)
            said.append("names: of two lines of the header together")
        else:
            shown = listed([word for word in second if word], 4)
            said.append(f"left out: a line of words below the header ({shown})")
    if len(rows) <= below:
        raise ValueError(f"The export has a header and no rows below it: found in {where}.")
    for name, count in Counter(name for name in names if name).items():
        if count > 1:
            said.append(f"names: {name!r} stands over {count} columns; the later ones are {name}.1, ...")
    return _Form(separator, names, rows[below:], text[ends[below - 1] :], tuple(said))


def _first_lines(text):
    """The first lines of a text that hold something, without the rest being looked at."""
    lines = io.StringIO(text[:_BEGINNING], newline="")
    return list(islice((line for line in lines if line.strip()), _LOOKED_AT))


def _first_rows(text, separator):
    """Cells of the first lines that hold something, and where each ends in the text; a cell may go over lines."""
    places = [0]

    def lines():
        for line in io.StringIO(text[:_BEGINNING], newline=""):
            places.append(places[-1] + len(line))
            yield line

    rows, ends = [], []
    for row in csv.reader(lines(), delimiter=separator):
        if any(cell.strip() for cell in row):
            rows.append(row)
            ends.append(places[-1])
        if len(rows) == _LOOKED_AT:
            break
    return rows, ends


def _separator(lines):
    """What stands between the columns: the character that all lines have equally often, or the later ones."""
    for some in (lines[:_SURE], lines[len(lines) // 2 :]):
        for one in _SEPARATORS:
            if some[0].count(one) and len({line.count(one) for line in some}) == 1:
                return one
    most = max(_SEPARATORS, key=lines[0].count)
    if not lines[0].count(most) and " " in lines[0] and len({line.count(" ") for line in lines[:_SURE]}) == 1:
        return " "
    return most


def _lines_above(rows):
    """How many lines stand above the header: those with few fields beside the later ones."""
    filled = [sum(bool(cell.strip()) for cell in row) for row in rows]
    usual = median(filled[len(rows) // 2 :])
    return next((k for k, count in enumerate(filled) if 2 * count > usual), 0)


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


def _has_commas(rows, separator):
    """Whether numbers are written with decimal commas."""
    cells = [cell.strip() for row in rows[: _SURE - 1] for cell in row]
    return separator != "," and any(map(DECIMAL_COMMA.match, cells))


def _thousands(body, separator, decimal):
    """The comma where it stands between thousands."""
    if decimal == ",":
        return None
    quote = '"' if separator == "," else ""
    return "," if re.search(quote + _COMMA_THOUSANDS, body[:_BEGINNING]) else None


def _only_times(names):
    """Whether of columns that are read as they are written none holds names of tags or qualities."""
    return all(name.strip().lower() in TIME_NAMES for name in names)
