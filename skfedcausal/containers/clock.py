"""The clock of a record: when its rows were taken, whatever kind of index tells it."""

import re
import warnings
from typing import NamedTuple

import numpy as np
import pandas as pd

_DATE = re.compile(r"\s*\d{1,4}[-./ ](?:\d{1,2}|[^\W\d]{3,9})[-./ ]\d{1,4}")
_OFFSET = r"(?:Z|[+-]\d{2}:?\d{2})$"


class Clock(NamedTuple):
    """Times or numbers of rows, and the rows of each run where the index names several, else None."""

    times: pd.Index | None
    runs: tuple[int, ...] | None = None


def read_clock(index):
    """Clock that the index of a frame tells.

    Parameters
    ----------
    index : Index
        Times, periods (which begin at their times), spans, numbers, or texts and objects of those. In a MultiIndex
        the last level that holds any of these is the clock, and the others name runs of rows.

    Returns
    -------
    Clock
        The index as DatetimeIndex, TimedeltaIndex or numbers; as it came where it tells none of them.

    Raises
    ------
    ValueError
        If rows of several runs are interleaved.

    Examples
    --------
    >>> import pandas as pd
    >>> from skfedcausal.containers.clock import read_clock
    >>> read_clock(pd.period_range("2026-03-01", periods=2, freq="M")).times.tolist()
    [Timestamp('2026-03-01 00:00:00'), Timestamp('2026-04-01 00:00:00')]
    >>> read_clock(pd.MultiIndex.from_product([["run 1", "run 2"], [0, 1, 2]]))
    Clock(times=Index([0, 1, 2, 0, 1, 2], dtype='int64'), runs=(3, 3))
    """
    if not isinstance(index, pd.MultiIndex):
        return Clock(_times(index))
    for level in reversed(range(index.nlevels)):
        times = _times(index.get_level_values(level))
        if ticks(times) is not None:
            return Clock(times, _runs(index.droplevel(level)))
    return Clock(index)


def ticks(index):
    """Whole or real numbers that tell the order of rows, None of an index that tells none.

    Examples
    --------
    >>> import pandas as pd
    >>> from skfedcausal.containers.clock import ticks
    >>> ticks(pd.to_timedelta([0, 2], unit="s").as_unit("s")), ticks(pd.Index(["a", "b"]))
    (array([0, 2]), None)
    """
    if isinstance(index, (pd.DatetimeIndex, pd.TimedeltaIndex)):
        return index.asi8
    is_numbers = index is not None and getattr(index.dtype, "kind", "O") in "iuf"
    return index.to_numpy(dtype=float if index.dtype.kind == "f" else np.int64) if is_numbers else None


def unit_since_1970(number):
    """Unit in which a number tells a time since 1970, by its size, of dates after 1973."""
    return next(unit for least, unit in ((1e17, "ns"), (1e14, "us"), (1e11, "ms"), (0, "s")) if number >= least)


def is_numbering(index):
    """Whether an index only counts rows from 0."""
    return isinstance(index, pd.RangeIndex) and index.start == 0 and index.step == 1


def same_times(index, other):
    """Whether two clocks tell the same, whatever zones they are of."""
    zones = getattr(index, "tz", None), getattr(other, "tz", None)
    if None not in zones and zones[0] != zones[1]:
        return index.tz_convert("UTC").equals(other.tz_convert("UTC"))
    return index.equals(other)


def _times(index):
    """An index as times, spans or numbers; as it came where it tells none."""
    if isinstance(index, (pd.DatetimeIndex, pd.TimedeltaIndex, pd.RangeIndex)):
        return index
    if isinstance(index, pd.PeriodIndex):
        return index.to_timestamp(how="start")
    if isinstance(index, pd.CategoricalIndex):
        return _times(pd.Index(index.to_numpy()))
    kind = pd.api.types.infer_dtype(index, skipna=True) if index.dtype.kind in "OTUmM" else ""  # of Arrow, too
    if kind in ("datetime", "date", "datetime64"):
        return pd.DatetimeIndex(pd.to_datetime(index, utc=len({getattr(t, "tzinfo", None) for t in index}) > 1))
    if kind in ("timedelta", "timedelta64"):
        return pd.TimedeltaIndex(index)
    if kind == "period":
        return pd.PeriodIndex(index).to_timestamp(how="start")
    if kind in ("integer", "floating", "mixed-integer-float"):
        return pd.Index(pd.to_numeric(index))
    return _of_texts(index) if kind == "string" else index


def _of_texts(index):
    """Texts as times or numbers, as they came where they are none."""
    if (numbers := pd.to_numeric(index, errors="coerce")).notna().all():
        return pd.Index(numbers)
    if not len(index) or not all(isinstance(text, str) and _DATE.match(text) for text in (index[0], index[-1])):
        return index
    texts = pd.Series(index.astype(str)).str.strip()
    mixed = texts.str.extract(f"({_OFFSET})", expand=False).nunique(dropna=False) > 1
    readings = []
    ways = (True, False) if "." in texts[0][:3] else (False, True)
    for dayfirst in ways[:1] if (texts.str.match(r"\d{4}")).all() else ways:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                readings.append(pd.DatetimeIndex(pd.to_datetime(texts, dayfirst=dayfirst, utc=bool(mixed))))
        except ValueError:  # of another order of day and month, or no times at all
            continue
    # of two ways to read day and month the right one has rows at even distances
    return min(readings, key=lambda times: len(np.unique(np.diff(times.asi8))), default=index)


def _runs(labels):
    """Rows of each run by their labels, None of one run."""
    codes = pd.factorize(labels)[0]
    cuts = np.flatnonzero(np.diff(codes)) + 1
    if not len(cuts):
        return None
    if len(cuts) + 1 > codes.max() + 1:
        raise ValueError(
            f"The index of X names {codes.max() + 1} runs, and their rows are interleaved. Sort them, "
            "X.sort_index(), or give each unit its own rows: {unit: frame, ...}."
        )
    return tuple(np.diff([0, *cuts.tolist(), len(codes)]).tolist())
