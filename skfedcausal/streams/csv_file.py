"""A CSV file that grows: its new rows as they are written."""

import codecs
import csv
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import lru_cache
from itertools import accumulate, islice
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..containers.arrays import listed
from ..estimators._watching import say_and_go_on
from ..historian.times import TIME_NAMES, WORDS
from .cells import Stamps, number_of
from .clock import on_clock
from .tuning import TUNING

_SEPARATORS = ";\t|,"
_LONGEST = 1 << 20  # bytes of a line
_PACKED = {".gz", ".bz2", ".xz", ".zst", ".zip"}


def follow_csv(
    path: str | PathLike[str],
    *,
    wait: float | None = None,
    poll: float = 0.1,
    batch_size: int | None = None,
    index_col: int | str | None = 0,
    words: Sequence[str] = (),
    tz: str | None = None,
    dayfirst: bool | None = None,
    clock: Any = None,
) -> Iterator[pd.DataFrame]:
    """Follow a CSV file that a program writes to, as ``tail -F`` does.

    Parameters
    ----------
    path : str or Path
        File with one line of names, ``unit__sensor``, and one line for each row after it, divided by commas,
        semicolons (then with decimal commas), tabs or bars. It need not be there yet. A file that was begun anew, or
        another file in its place, is read from its start, after the rest of the one before.
    wait : float, default=None
        Seconds without a new row after which the stream ends; None: never.
    poll : float, default=0.1
        Seconds between two looks at the file.
    batch_size : int, default=None
        Most rows of a batch; None for all that are there, up to 4 MB.
    index_col : int, str or None, default=0
        Column of the times; None where rows have none. Instead of the first column the one that is called a time, or a
        date and a time of day, where there are such.
    words : sequence of str, default=()
        Columns that may hold words, such as modes; of others words are missing values.
    tz : str, default=None
        Zone of times that tell none, for example ``"Europe/Berlin"``. The answers are in UTC then, as they are where
        the first time of the file tells a zone.
    dayfirst : bool, default=None
        Whether 03/04/2026 is the third of April; None: where the parts of a date are divided by points.
    clock : Clock, default=None
        What becomes of rows that are late, doubled or ahead; None for a new one.

    Yields
    ------
    DataFrame
        The next rows. A line that is not yet whole waits for its end; lines that cannot be read are named by a
        StreamWarning and left out. A line of names that comes again begins rows with its columns.

    Raises
    ------
    FileNotFoundError
        If the file was not there before the stream ended.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skfedcausal.streams import follow_csv
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "live.csv"
    ...     _ = path.write_text("time,mill__power\\n2026-01-01 00:00,1.5\\n2026-01-01 00:01,1.7\\n2026")
    ...     [batch.shape for batch in follow_csv(path, wait=0.0)]
    [(2, 1)]
    """
    stamps = Stamps(tz, dayfirst)
    yield from on_clock(
        csv_rows(path, stamps, wait=wait, poll=poll, index_col=index_col, words=words, most=batch_size), clock
    )


def csv_rows(path, stamps, *, wait=None, poll=0.1, index_col=0, words=(), place=None, most=None):
    """The rows of a file that grows as they are written, each with the place after them; None where nothing is new.

    `place` is one that was given before: the file is followed from there, through the names that it has had since.
    """
    path = Path(path)
    with closing(Tail(path, place)) as tail:
        last = time.monotonic()
        while True:
            came = False
            for head, lines, ends in tail.parts():
                step = most or len(lines)
                for k in range(0, len(lines), step):
                    frame, came = table_of(head, lines[k : k + step], path, stamps, index_col, words), True
                    if len(frame):
                        yield tail.place_after(ends[min(k + step, len(lines)) - 1], head), frame
            if came:
                last = time.monotonic()
                continue
            yield None, None
            if wait is not None and time.monotonic() - last >= wait:
                if tail.head is None and not path.exists():
                    raise FileNotFoundError(f"There was no file {path} within {wait:g} seconds.")
                return
            time.sleep(poll)


class Head(NamedTuple):
    """A line of names: its text, the names, and what divides them."""

    text: str
    names: list[str]
    separator: str

    @classmethod
    def of(cls, line):
        separator = max(_SEPARATORS, key=line.count)
        return cls(line, [name.strip() for name in _cells(line, separator)], separator)

    def is_meant_by(self, line):
        """Whether a line is one of names too: it begins as this one does, and no number follows."""
        if line == self.text or line.partition(self.separator)[0].strip(' "') != self.names[0]:
            return line == self.text
        names = [name.strip() for name in _cells(line, self.separator)]
        words = all(name.isprintable() and np.isnan(number_of(name, self.separator != ",")) for name in names)
        return words and len(names) > 1 and all(names) and len(set(names)) == len(names)

    def does_not_fit(self, line):
        """Whether a line has another number of cells."""
        return len(_cells(line, self.separator)) != len(self.names)


class Tail:
    """The whole lines of a file that were not read yet, also after it was rotated.

    A file that was renamed is read to its end before the one in its place; one that was cut, or holds something else
    than it did, is read from its start.
    """

    def __init__(self, path, place=None):
        self._path, self._at, self._mark = path, 0, b""
        self._looked = b""  # what was read last, after the mark before it
        self._file: Any = None
        self._number = 0  # of the file, whatever its name is
        self._skips = False  # a line that is too long
        self.head: Any = None
        self._formers: list[Head] = []  # that a row may still fit better
        if place is not None:
            self._go_to(place)

    def close(self):
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def place_after(self, end, head):
        """Where the line begins that comes after one of the last call, as JSON has it.

        `end` is what :meth:`parts` told of that line: how much of what was read last comes after it.
        """
        here = len(self._looked) - end
        mark = self._looked[max(here - TUNING.csv_file_mark, 0) : here]
        return {"file": self._number, "at": self._at - end, "mark": mark.hex(), "head": head.text}

    def parts(self):
        """Lines of names and lines of rows since the last call: a line of names may come again.

        They are told as (names, rows, number of bytes that came after each row).
        """
        parts, before = list[tuple[Head, list[str], list[int]]](), self.head
        for line, end in self._lines():
            if self.head is None:
                if not line.lower().startswith(("sep=", "#")):  # as Excel writes it, and remarks
                    head = Head.of(line)
                    self.head = head if len(head.names) > 1 else None  # a title is none
                continue
            if self.head.is_meant_by(line):
                if line != self.head.text:
                    self._formers = [*self._formers, self.head][-TUNING.csv_file_heads :]
                    self.head = Head.of(line)
                continue
            if self._formers and self.head.does_not_fit(line):  # that was no line of names, if one before fits
                fitting = [k for k, head in enumerate(self._formers) if not head.does_not_fit(line)]
                if fitting:
                    self.head = self._formers[fitting[-1]]
                    del self._formers[fitting[-1] :]
            if parts and parts[-1][0] is self.head:
                parts[-1][1].append(line)
                parts[-1][2].append(end)
            else:
                parts.append((self.head, [line], [end]))
        if before is not None and self.head is not None and self.head.text != before.text:
            say_and_go_on(f"{self._path} has a new line of names: rows after it have its columns")
        return parts

    def _lines(self):
        """Whole lines since the last call, each with the number of bytes after it; a file that cannot be read now may
        be later."""
        try:
            text = self._new()
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                say_and_go_on(f"{self._path} cannot be read now ({error.strerror or error})")
            return []
        if b"\n" not in text:
            if len(text) > _LONGEST:
                say_and_go_on(f"{self._path} has a line of more than {_LONGEST:,} bytes: left out")
                self._skips = True
                self._advance(text)
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._advance(whole)
        ends = (len(whole) - end for end in accumulate(len(line) + 1 for line in whole.split(b"\n")))
        lines = zip((line.rstrip("\r") for line in _decoded(whole).split("\n")), ends, strict=True)
        skipped, self._skips = int(self._skips), False
        return [(line, end) for line, end in islice(lines, skipped, None) if line.strip()]

    def _advance(self, text):
        self._at += len(text)
        self._looked = self._mark + text
        self._mark = self._looked[-TUNING.csv_file_mark :]

    def _new(self):
        """Bytes that were not read yet."""
        if self._file is None:
            self._open(self._path)
        if not self._goes_on():
            self._begin()
        text = self._read()
        if b"\n" not in text and self._is_another():
            if text.strip():
                say_and_go_on(f"The last line of {self._path} was not whole when another file took its place: left out")
            self._open(self._following())
            self._begin()
            text = self._read()
        return text

    def _following(self):
        """The file that was begun after the one that is read: one that was rotated meanwhile, too, or the last one."""
        here = os.fstat(self._file.fileno())
        later = []
        for path in self._path.parent.glob(f"{self._path.name}*"):
            about = path.stat()
            if about.st_ino != here.st_ino and about.st_mtime_ns >= here.st_mtime_ns and path.suffix not in _PACKED:
                later.append((path == self._path, about.st_mtime_ns, path))
        return min(later)[2] if later else self._path

    def _read(self):
        there = os.fstat(self._file.fileno()).st_size - self._at  # memory for no more than that
        self._file.seek(self._at)
        return self._file.read(max(min(there, TUNING.csv_file_at_once), 0))

    def _goes_on(self):
        """Whether what was read of the file is still there."""
        self._file.seek(max(self._at - len(self._mark), 0))
        return self._file.read(len(self._mark)) == self._mark

    def _begin(self):
        self._at, self._mark, self._skips, self.head, self._formers = 0, b"", False, None, []

    def _open(self, path):
        self.close()
        self._file = path.open("rb", buffering=0)
        self._number = os.fstat(self._file.fileno()).st_ino

    def _is_another(self):
        """Whether another file has taken the place of the one that is read."""
        try:
            return not os.path.samestat(os.stat(self._path), os.fstat(self._file.fileno()))
        except FileNotFoundError:
            return False

    def _go_to(self, place):
        """Open the file that a place is in, under whatever name it has now."""
        for path in [self._path, *sorted(self._path.parent.glob(f"{self._path.name}*"))]:
            try:
                if path.stat().st_ino != place["file"]:
                    continue
                self._open(path)
            except OSError:
                continue
            self._at, self._mark = place["at"], bytes.fromhex(place["mark"])
            self.head = None if place["head"] is None else Head.of(place["head"])
            if self._goes_on():
                return
        self.close()
        self._begin()


def table_of(head, lines, path, stamps, index_col=0, words=()):
    """Lines as a table of numbers by their times, and of words in some columns; what is wrong is named."""
    width, comma = len(head.names), head.separator != ","
    rows = [cells for cells in (_cells(line, head.separator) for line in lines) if len(cells) == width]
    if len(rows) < len(lines):
        say_and_go_on(
            f"{len(lines) - len(rows)} lines of {path} do not have the {width} columns of its first line: left out"
        )
    index, at = None, _times_at(tuple(head.names), index_col)
    if at:
        index = stamps.read([" ".join([row[k] for k in at]) for row in rows])
        if index.hasnans:
            say_and_go_on(f"{int(index.isna().sum())} lines of {path} begin with no time: left out")
            rows = [row for row, missing in zip(rows, index.isna(), strict=True) if not missing]
            index = index[index.notna()]
        index.name = head.names[at[0]]
        others = [k for k in range(width) if k not in at]
        rows = [[row[k] for k in others] for row in rows]
    names = _names(tuple(head.names), at)
    if not words and (values := _only_numbers(rows)) is not None:
        return pd.DataFrame(values, index=index, columns=names, copy=False)
    columns, wrong = {}, []
    for k, name in enumerate(names):
        cells = [row[k] for row in rows]
        columns[k] = [_word(cell) for cell in cells] if name in words else [number_of(cell, comma) for cell in cells]
        if name not in words and any(map(_is_no_number, cells, columns[k])):
            wrong.append(name)
    if wrong:
        say_and_go_on(f"{path} has something other than numbers in {listed(wrong)}: taken as missing")
    return pd.DataFrame(columns, index=index).set_axis(names, axis=1)


@lru_cache(maxsize=8)
def _times_at(names, index_col):
    """Places of the columns that are the time of a row together: one, or a date and a time of day."""
    if index_col is None:
        return ()
    if isinstance(index_col, str):
        return (names.index(index_col),)
    asked, plain = range(len(names))[index_col], [name.lower() for name in names]
    date, clock, time = (
        next((k for k, name in enumerate(plain) if name in words), None)
        for words in (WORDS["dates"]["date"], WORDS["dates"]["time"], TIME_NAMES)
    )
    if asked in (date, clock) and None not in (date, clock) and date != clock:
        return date, clock
    return (asked if time is None or index_col or plain[asked] in TIME_NAMES else time,)


@lru_cache(maxsize=8)
def _names(names, at):
    """Names of columns but for those of the times, made once."""
    return pd.Index([name for k, name in enumerate(names) if k not in at])


def _only_numbers(rows):
    """Cells as a table of finite numbers, None where one is none, which takes a look at each column."""
    try:
        values = np.array([list(map(float, row)) for row in rows], dtype=float)
    except ValueError:
        return None
    return values if values.size and np.isfinite(values).all() else None


_MISSING = {"", "nan", "null", "none", "na", "n/a"}


def _is_no_number(cell, value):
    return value != value and cell.strip().lower() not in _MISSING


def _word(cell):
    """A mode as it is written: a number or a word, None where it is missing."""
    value = number_of(cell)
    if np.isnan(value):
        return None if cell.strip().lower() in _MISSING else cell.strip()
    return int(value) if value.is_integer() else value


def _cells(line, separator):
    """Cells of one line."""
    if '"' not in line:
        return line.split(separator)
    try:
        return next(csv.reader([line], delimiter=separator))
    except (csv.Error, StopIteration):
        return []


def _decoded(text):
    """Text in UTF-8, or as Windows of western Europe writes it, which has a zero beside each letter in UTF-16."""
    if 3 * text.count(b"\0") > len(text):
        text = text.replace(b"\0", b"")
        text = text.removeprefix(codecs.BOM_UTF16_LE).removeprefix(codecs.BOM_UTF16_BE)
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError:
        return text.decode("cp1252", errors="replace")
