"""What stands in cells and messages, rows put together from parts, and batches as records of a journal."""

import math
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from ..containers.rows import unit_since_1970

# What stands in cells and messages, as times on one clock and numbers: what is none is missing, never an error.

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_CENTURIES = (datetime(1900, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC))  # beyond them is no time of a plant
_LONGEST = 64  # letters of a number or a time


class Stamps:
    """Times of a source as UTC.

    Times that tell no zone are of `tz`, or where that is None of UTC; the answer has no zone then, if the first time of
    the source has none. The hour that occurs twice in autumn is told apart by the order of the rows.

    Parameters
    ----------
    tz : str, default=None
        Zone of local times.
    dayfirst : bool, default=None
        Whether 03/04/2026 is the third of April; None: only where the parts are divided by points.

    Examples
    --------
    >>> from skfedcausal.streams.cells import Stamps
    >>> Stamps("Europe/Berlin").read(["2025-10-26 02:59", "2025-10-26 02:00", "soon", "2025-10-26T01:01Z"]).tolist()[1:]
    [Timestamp('2025-10-26 01:00:00+0000', tz='UTC'), NaT, Timestamp('2025-10-26 01:01:00+0000', tz='UTC')]
    """

    def __init__(self, tz=None, dayfirst=None):
        self._zone = None if tz is None else ZoneInfo(tz)
        self._dayfirst = dayfirst
        self._last = _CENTURIES[0]
        self.zoned = None if tz is None else True  # whether answers have a zone; None: not known yet

    def read(self, cells):
        """Times of cells, NaT where there is none."""
        since = [None if at is None else (at - _EPOCH) // _MICROSECOND for at in map(self._moment, cells)]
        index = pd.DatetimeIndex(np.array(since, dtype="datetime64[us]"))
        return index.tz_localize("UTC") if self.zoned else index

    def _moment(self, cell):
        try:
            at = self._stamp(cell)
            if at is None:
                return None
            if self.zoned is None:
                self.zoned = at.tzinfo is not None
            at = self._in_utc(at)
        except (ValueError, OverflowError, TypeError, OSError):
            return None
        if not _CENTURIES[0] < at < _CENTURIES[1]:
            return None
        self._last = at
        return at

    def _stamp(self, cell):
        """A time as it is written, None where there is none."""
        if isinstance(cell, bool) or cell is None:
            return None
        if isinstance(cell, datetime):
            return None if cell is pd.NaT else cell
        if isinstance(cell, (int, float)):
            return _since_1970(float(cell))
        text = cell.strip() if isinstance(cell, str) else ""
        if not 4 <= len(text) <= _LONGEST:
            return None
        try:
            return datetime.fromisoformat(text) if "-" in text else self._other(text)
        except ValueError:
            return self._other(text)

    def _other(self, text):
        """A time in another form than that of ISO 8601."""
        number = number_of(text)
        if not math.isnan(number):
            return _since_1970(number)
        first = self._dayfirst if self._dayfirst is not None else "." in text[:3]
        at = pd.to_datetime(text, dayfirst=first, errors="coerce")
        return None if pd.isna(at) else at.to_pydatetime(warn=False)

    def _in_utc(self, at):
        if at.tzinfo is None and self._zone is not None:
            first = at.replace(tzinfo=self._zone).astimezone(UTC)
            second = at.replace(tzinfo=self._zone, fold=1).astimezone(UTC)
            return second if first <= self._last < second else first
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _since_1970(number):
    """The time that a number of seconds, milli-, micro- or nanoseconds since 1970 is, by its size."""
    if not math.isfinite(number):
        return None
    size = pd.Timedelta(1, unit=unit_since_1970(abs(number))) / pd.Timedelta(1, unit="us")
    return _EPOCH + timedelta(microseconds=round(number * size))


def number_of(cell, comma=False):
    """The number that a cell holds, NaN where it holds none, or none that is finite."""
    try:
        if isinstance(cell, str):
            if len(cell) > _LONGEST or "_" in cell:
                return math.nan
            if comma and "," in cell:  # points between thousands, or the other way round
                thousands = "." if cell.rfind(",") > cell.rfind(".") else ","
                cell = cell.replace(thousands, "").replace(",", ".")
        value = float(cell)
    except (ValueError, TypeError, OverflowError):
        return math.nan
    return value if math.isfinite(value) else math.nan


# Parts of rows that come one by one, put together by their times.


class Parts:
    """Parts of rows by their times; a row is whole when all that is needed has come, or it has waited long enough.

    Parameters
    ----------
    needed : collection of str or None
        Who has a part in every row; None: every part is a whole row.
    patience : float
        Seconds that a row waits for the rest of it.
    held : bool, default=False
        Whether what is missing from a row is as it was in the row before, as of sources that tell changes only.

    Examples
    --------
    >>> import pandas as pd
    >>> from skfedcausal.streams.cells import Parts
    >>> parts, now = Parts(["mill", "kiln"], 60.0), pd.Timestamp("2026-01-01")
    >>> parts.add(now, {"mill"}, {"mill__power": 1.5})
    >>> parts.ready() is None
    True
    >>> parts.add(now, {"kiln"}, {"kiln__heat": 7.0})
    >>> parts.ready().to_dict("records")
    [{'mill__power': 1.5, 'kiln__heat': 7.0}]
    """

    def __init__(self, needed, patience, held=False):
        self._needed, self._patience = None if needed is None else frozenset(needed), patience
        self._last: dict | None = {} if held else None
        self._names: pd.Index | None = None  # of the columns of the last table
        self._rows: list[list] = []  # as they began: moment, columns, who told them, and when the first came
        self._at: dict[pd.Timestamp, list] = {}  # the last row of each moment

    def __len__(self):
        return len(self._rows)

    def add(self, moment, who, columns):
        """Take in a part of the row of a moment; where that is whole and has the part, another row begins.

        A source whose clock was set back tells moments again.
        """
        row = self._at.get(moment)
        if row is None or (self._last is None and self._is_whole(row[2]) and not row[2].isdisjoint(who)):
            self._at[moment] = row = [moment, {}, frozenset(), time.monotonic()]
            self._rows.append(row)
        row[1], row[2] = row[1] | columns, row[2] | frozenset(who)

    def ready(self, everything=False):
        """Rows that are whole, or have waited long enough, up to the first that is not; None if there are none."""
        now, n_ready = time.monotonic(), 0
        for _, _, who, since in self._rows:
            if not (everything or self._is_whole(who) or now - since >= self._patience):
                break
            n_ready += 1
        if not n_ready:
            return None
        given, self._rows = self._rows[:n_ready], self._rows[n_ready:]
        for row in given:
            if self._at.get(row[0]) is row:
                del self._at[row[0]]
        rows = [row[1] for row in given]
        if self._last is not None:
            for k, row in enumerate(rows):
                self._last = rows[k] = self._last | row
        return self._table(rows, pd.DatetimeIndex([row[0] for row in given]))

    def _is_whole(self, who):
        return self._needed is None or self._needed <= who

    def _table(self, rows, index):
        """Rows as a table; of numbers under the same names it is made sooner."""
        names = list(rows[0])
        if any(list(row) != names for row in rows):
            return pd.DataFrame(rows, index=index)
        if self._names is None or self._names.tolist() != names:
            self._names = pd.Index(names)
        values: Any = [list(row.values()) for row in rows]
        if all(type(value) is float for row in values for value in row):
            values = np.array(values)
        return pd.DataFrame(values, index=index, columns=self._names)


# Batches as records of a journal, which JSON has, and back.


def microseconds(index):
    """Times as microseconds since 1970."""
    return index.asi8 if index.unit == "us" else index.as_unit("us").asi8


def as_record(frame):
    """A table without the names of its columns as JSON has it."""
    record = {"values": frame.to_numpy().tolist()}
    if isinstance(frame.index, pd.DatetimeIndex):
        record |= {"times": microseconds(frame.index).tolist(), "zoned": frame.index.tz is not None}
    return record


def as_frame(record, columns):
    """The table of a record, which has these columns."""
    index = None
    if "times" in record:
        index = pd.DatetimeIndex(np.array(record["times"], dtype=np.int64).view("datetime64[us]"))
        index = index.tz_localize("UTC") if record["zoned"] else index
    return pd.DataFrame(record["values"], columns=columns, index=index)
