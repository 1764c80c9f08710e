"""A CSV file that grows: its new rows as they are written."""

import csv
import io
import time
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from ..callers import warn
from ..containers.layout import listed
from ..estimators._stream_batches import StreamWarning


def follow_csv(
    path: str | PathLike[str],
    *,
    wait: float | None = None,
    poll: float = 0.1,
    batch_size: int | None = None,
    index_col: int | str | None = 0,
    words: Sequence[str] = (),
) -> Iterator[pd.DataFrame]:
    """Follow a CSV file that a program writes to, as ``tail -f`` does.

    Parameters
    ----------
    path : str or Path
        File with one line of names, ``unit__sensor``, and one line for each row after it. It need not be there yet. A
        file that became shorter was begun anew and is read from its start.
    wait : float, default=None
        Seconds without a new row after which the stream ends; None: never.
    poll : float, default=0.1
        Seconds between two looks at the file.
    batch_size : int, default=None
        Most rows of a batch; None for all that are there.
    index_col : int, str or None, default=0
        Column of the times; None where rows have none.
    words : sequence of str, default=()
        Columns that may hold words, such as modes; of others words are missing values.

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
    path, tail, last = Path(path), _Tail(Path(path)), time.monotonic()
    while True:
        parts = tail.parts()
        for head, lines in parts:
            step = batch_size or max(len(lines), 1)
            for k in range(0, len(lines), step):
                batch = _frame(head, lines[k : k + step], index_col, path, words)
                if len(batch):
                    yield batch
        if parts:
            last = time.monotonic()
            continue
        if wait is not None and time.monotonic() - last >= wait:
            if tail.head is None and not path.exists():
                raise FileNotFoundError(f"There was no file {path} within {wait:g} seconds.")
            return
        time.sleep(poll)


class _Tail:
    """The whole lines of a file that were not read yet."""

    def __init__(self, path):
        self._path, self._at = path, 0
        self.head: Any = None  # the line of names

    def parts(self):
        """Lines of names and lines of rows since the last call, as (names, rows): a line of names may come again."""
        before, parts = self.head, list[tuple[str, list[str]]]()
        for line in self._lines():
            if self.head is None or self._names(line):
                self.head = line
            elif parts and parts[-1][0] is self.head:
                parts[-1][1].append(line)
            else:
                parts.append((self.head, [line]))
        if before is not None and self.head != before:
            _warn(f"{self._path} has a new line of names: rows after it have its columns")
        return parts

    def _names(self, line):
        """Whether a line is one of names: it begins as the first one does, and no number follows."""
        first, _, rest = line.partition(",")
        return first == self.head.partition(",")[0] and not _is_number(rest.partition(",")[0])

    def _lines(self):
        """Whole lines since the last call."""
        try:
            with self._path.open("rb") as file:
                if file.seek(0, io.SEEK_END) < self._at:
                    self._at, self.head = 0, None
                file.seek(self._at)
                text = file.read()
        except FileNotFoundError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._at += len(whole)
        lines = whole.decode("utf-8-sig" if self.head is None else "utf-8", errors="replace").splitlines()
        return [line for line in lines if line.strip()]


def _is_number(text):
    try:
        float(text or "nan")
    except ValueError:
        return False
    return True


def _timed(frame, path):
    """A table without rows whose time cannot be read."""
    times = pd.to_datetime(frame.index, errors="coerce")
    if not times.isna().any() or times.isna().all():
        return frame
    _warn(f"{int(times.isna().sum())} lines of {path} begin with no time: left out")
    return frame.set_axis(times, axis=0)[times.notna()]


def _frame(head, lines, index_col, path, allowed):
    """Lines as a table of numbers, but for columns of which words are allowed."""
    width = len(next(csv.reader([head])))
    right = [line for line, cells in zip(lines, csv.reader(lines), strict=False) if len(cells) == width]
    if len(right) < len(lines):
        _warn(f"{len(lines) - len(right)} lines of {path} do not have the {width} columns of its first line: left out")
    frame = pd.read_csv(io.StringIO("\n".join([head, *right])), index_col=index_col, parse_dates=index_col is not None)
    if index_col is not None and not isinstance(frame.index, pd.DatetimeIndex):
        frame = _timed(frame, path)
    words = frame.select_dtypes(exclude="number").columns.difference(allowed)
    if len(words) and len(frame):
        frame[words] = frame[words].apply(pd.to_numeric, errors="coerce")
        _warn(f"{path} has something else than numbers in {listed(words)}: taken as missing")
    return frame


def _warn(text):
    warn(f"{text}. The watch goes on.", StreamWarning)
