"""What an export is told from its first bytes: text, a workbook, columns of Arrow, a database, JSON, a packed file."""

import csv
import gzip
import io
import json
import re
import sqlite3
import zipfile
from contextlib import closing, suppress
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from ..arguments import check_kind
from ..containers.arrays import as_native, listed
from ..optional import import_optional
from .databases import is_address, of_address, of_connection
from .times import WORDS, measures_below
from .written import Written, check_size, parsed, parsed_file, read_columns

# JSON of web services: streams of the PI Web API, and tables as lists of rows or of columns, or a row a line.


def of_json(text, where):
    """Table that a JSON text holds."""
    try:
        lines = text.strip().split("\n") if re.match(r"\s*\{.*\}\s*\n\s*\{", text) else ()  # a row in each
        content = json.loads(f"[{','.join(filter(str.strip, lines))}]" if lines else text)
    except ValueError as error:
        raise ValueError(f"{where} begins as JSON and is none: {error}.") from None
    streams = content.get("Items") if isinstance(content, dict) else None
    if streams and all("Timestamp" in one for one in streams):
        return Written(pd.DataFrame([_event(content.get("Name", "Value"), one) for one in streams]))
    if streams and all("Name" in one and "Items" in one for one in streams):
        return Written(pd.DataFrame([_event(one["Name"], one | event) for one in streams for event in one["Items"]]))
    try:
        is_split = isinstance(content, dict) and {"columns", "data"} <= set(content)
        table = pd.DataFrame(content["data"], columns=content["columns"]) if is_split else pd.DataFrame(content)
    except (ValueError, TypeError):
        table = pd.DataFrame()
    if len(table) < 2 or table.map(lambda cell: isinstance(cell, (dict, list))).to_numpy().any():
        raise ValueError(
            f"{where} holds JSON that is no table: give streams of the PI Web API (streamsets/.../recorded), a list of "
            "rows or lists by column; else export it as CSV (UTF-8) or Parquet."
        )
    return Written(table.reset_index(drop=True))


def _event(tag, event):
    """Row of an event; a state of the system in place of a value is written as an object."""
    value = event["Value"]
    is_state = isinstance(value, dict)
    good = event.get("Good", True) and not (is_state and value.get("IsSystem", False))
    return {
        "tag": tag,
        "timestamp": event["Timestamp"],
        "value": value.get("Value") if is_state else value,
        "quality": "Good" if good else "Bad",
        "uom": event.get("UnitsAbbreviation", ""),
    }


# What an export is told from its first bytes: text, a workbook, columns of Arrow, a database, JSON, a packed file.

_CSV = "export it as CSV (UTF-8) or Parquet"
_LARGE = 30_000_000  # bytes from which on a file is read without all of its text in memory
_OF_PARQUET = b"PAR1"
_FRAME = "read it by pandas, if you trust who wrote it, and give the frame"


class Place(NamedTuple):
    """Where an export is: its name in words, its path where it is a file, and how it is to be read."""

    where: str
    path: Path | None
    dialect: tuple


def written(export, where, dialect):
    """Table as it is written in a file or database, or the frame that was given."""
    native = as_native(export) if not isinstance(export, (str, Path)) else export
    if isinstance(native, pd.DataFrame):
        return Written(native)
    if is_address(export):
        return of_address(export, where, dialect.query)
    if not hasattr(export, "read"):
        check_kind(export, where, (str, PathLike), "a table, the path of a file, or an open one")
    path = None if hasattr(export, "read") else Path(export)
    early = b"" if path is None else _first_bytes(path)
    if early.startswith(_OF_PARQUET):
        return _parquet(path, Place(where, path, dialect))
    is_large_text = path is not None and path.stat().st_size > _LARGE and not early.startswith(tuple(_KINDS))
    if is_large_text and (found := parsed_file(path, where, dialect)) is not None:
        return found
    content = export.read() if path is None else path.read_bytes()
    return _of_content(content, Place(where, path, dialect))


def _first_bytes(path):
    with path.open("rb") as file:
        return file.read(16)


def _of_content(content, place):
    if isinstance(content, bytes):
        for mark, reader in _KINDS.items():
            if content.startswith(mark):
                return reader(content, place)
        content = _decoded(content, place.where)
    if not content.strip():
        raise ValueError(f"The export is empty: found in {place.where}.")
    if content.lstrip()[:1] in "[{":
        return of_json(content, place.where)
    if content.lstrip()[:1] == "<":
        raise ValueError(f"{place.where} holds XML or a page of a browser, and no table: {_CSV}.")
    return parsed(content, place.where, place.dialect)


# -- kinds of files, by their first bytes ------------------------------------------------------------


def _parquet(content, place):
    """Columns of a file of Parquet, given by its path or as bytes, of which only those asked for are read."""
    file = io.BytesIO(content) if isinstance(content, bytes) else content
    about = import_optional("pyarrow.parquet", "parquet", f"Reading {place.where}").ParquetFile(file)
    schema = about.schema_arrow
    times = [one.name for one in schema if str(one.type).startswith(("timestamp", "date"))]
    asked = None if place.dialect.columns is None else read_columns(schema.names, place.dialect, times)
    told = [(one.name, key.decode(), word) for one in schema for key, word in (one.metadata or {}).items()]
    words = {name: word.decode() for name, key, word in told if key.lower() in WORDS["columns"]["measure"]}
    check_size(place.where, about.metadata.num_rows, len(schema.names if asked is None else asked))
    return Written(pd.read_parquet(file, columns=asked), (), measures_below(words, words.values()))


def _feather(content, place):
    import_optional("pyarrow", "parquet", f"Reading {place.where}")
    return Written(pd.read_feather(io.BytesIO(content)))


def _sqlite(content, place):
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(content)
        return of_connection(connection, place.where, place.dialect.query)


def _gzipped(content, place):
    return _of_content(gzip.decompress(content), place)


def _zipped(content, place):
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
    except zipfile.BadZipFile:
        raise ValueError(f"{place.where} is an archive that cannot be unpacked: {_CSV}.") from None
    names = [name for name in archive.namelist() if not name.endswith("/")]
    if "xl/workbook.xml" in names:
        return _workbook(content, place)
    if len(names) != 1:
        remedy = "unpack it, and give the one of all units or one for each: UNIT=FILE"
        raise ValueError(f"{place.where} is an archive of {len(names)} files ({listed(names, 6)}): {remedy}.")
    return _of_content(archive.read(names[0]), place)


def _workbook(content, place):
    """The sheet of a workbook that has most cells, as the text that Excel would save of it."""
    engine = import_optional("python_calamine", "excel", f"Reading {place.where}")
    try:
        book = engine.CalamineWorkbook.from_filelike(io.BytesIO(content))
        sheets = {name: book.get_sheet_by_name(name).to_python(skip_empty_area=True) for name in book.sheet_names}
    except engine.CalamineError as error:
        raise ValueError(f"{place.where} is a workbook of Excel that cannot be read: {error}.") from None
    sheets = {name: [row for row in rows if any(cell != "" for cell in row)] for name, rows in sheets.items()}
    name = max(sheets, key=lambda name: sum(map(len, sheets[name])))
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([*map(_cell_text, row)] for row in sheets[name])
    others = [other for other in sheets if other != name and sheets[other]]
    said = (f"left out: sheets {listed(others, 4)}; read is {name!r}",) if others else ()
    found = parsed(text.getvalue(), place.where, place.dialect)
    return Written(found.table, (*said, *found.said), found.measures)


def _cell_text(cell):
    """A cell as it stands in a text; times to the millisecond, which days of a sheet do not blur."""
    return cell.isoformat(sep=" ", timespec="milliseconds") if hasattr(cell, "hour") and hasattr(cell, "year") else cell


def _pickle(content, place):
    raise ValueError(f"{place.where} is a pickle, which runs what is in it when it is read: {_FRAME}.")


def _hdf(content, place):
    raise ValueError(f"{place.where} is an HDF5 file, whose tables have many forms: {_FRAME} (pandas.read_hdf).")


_KINDS = {
    b"\x1f\x8b": _gzipped,
    b"PK\x03\x04": _zipped,
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": _workbook,
    _OF_PARQUET: _parquet,
    b"ARROW1": _feather,
    b"SQLite format 3\0": _sqlite,
    b"\x89HDF": _hdf,
    b"\x80\x03": _pickle,
    b"\x80\x04": _pickle,
    b"\x80\x05": _pickle,
}


# -- letters --------------------------------------------------------------------------------------------

_TWO_SIGNS = re.compile(rb"[\xa1-\xf7][\xa1-\xfe]{3}")  # of Chinese; in western Europe so many letters are plain ones


def _decoded(raw, where):
    """Text of a file in UTF-8 or UTF-16, or as Windows of China or of western Europe writes it."""
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return raw.decode("utf-16")
    early = raw[:1000]
    if b"\0" in early:  # letters of two bytes without a mark, or no letters
        for code, other in (("utf-16-le", early[1::2]), ("utf-16-be", early[0::2])):
            if other.count(0) > 0.9 * len(other):
                return raw.decode(code)
        raise ValueError(f"{where} holds no text: {_CSV}.")
    for code in ("utf-8-sig", "gb2312", "cp1252") if _TWO_SIGNS.search(raw) else ("utf-8-sig", "cp1252"):
        with suppress(UnicodeDecodeError):
            return raw.decode(code)
    raise ValueError(f"{where} holds no text: {_CSV}.")
