"""What stands in cells and messages, as times on one clock and numbers: what is none is missing, never an error."""

import math
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from ..containers.clock import unit_since_1970

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
