"""The step from row to row of a record: a span, a number, or months of the calendar."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..containers.clock import ticks
from .tuning import TUNING

ON_GRID = 0.9  # share of the rows that are on a grid where it is that of the record
JITTER = 0.1  # of a step, by which a row that is on a grid may be off it
_SECONDS = 1, 2, 5, 10, 15, 20, 30
_ROUND_SECONDS = np.array(
    [tick * size for size in (0.001, 0.01, 0.1) for tick in (1, 2, 5)]
    + [tick * size for size in (1, 60) for tick in _SECONDS]
    + [3600 * hours for hours in (1, 2, 3, 4, 6, 8, 12, 24)]
)


@dataclass(frozen=True)
class EvenStep:
    """Rows at even distances of `size`, a Timedelta or a number."""

    size: Any

    def places(self, index, first=None):
        """Distance of each row from the first one, or another time, in steps."""
        return np.asarray((index - (index[0] if first is None else first)) / self.size, dtype=float)

    def grid(self, index, places):
        """Clock of a row at every place, for rows at some of them."""
        first, n_rows = index[0], places[-1] + 1
        if isinstance(first, pd.Timestamp):
            return pd.date_range(first, periods=n_rows, freq=self.size)
        if isinstance(first, pd.Timedelta):
            return pd.timedelta_range(first, periods=n_rows, freq=self.size)
        return pd.Index(first + self.size * np.arange(n_rows))

    def ends(self, index):
        """End of the step that each row is in."""
        if isinstance(index, (pd.DatetimeIndex, pd.TimedeltaIndex)):
            return index.ceil(self.size)
        return pd.Index(np.ceil(index.to_numpy() / self.size) * self.size)

    def __str__(self):
        return f"{self.size.total_seconds():g} s" if isinstance(self.size, pd.Timedelta) else f"{self.size:g}"


@dataclass(frozen=True)
class CalendarStep:
    """Rows of every month, quarter (3 months) or year (12), which are not equally long."""

    months: int

    def places(self, index, first=None):
        """Distance of each row from the first one, or another time, in steps."""
        number, start = index.year * 12 + index.month, index[0] if first is None else first
        return np.asarray((number - (start.year * 12 + start.month)) / self.months, dtype=float)

    def grid(self, index, places):
        """Times of a row at every place; rows that are there keep their own."""
        known = dict(zip(places.tolist(), index, strict=True))
        months = (pd.DateOffset(months=self.months * place) for place in range(places[-1] + 1))
        return pd.DatetimeIndex([known.get(place, index[0] + month) for place, month in enumerate(months)])

    def __str__(self):
        return {1: "month", 3: "quarter", 12: "year"}.get(self.months, f"{self.months} months")


def usual_step(index):
    """Step of a record's rows, a round one where they come within a tenth of it; None where there is no telling."""
    steps = np.diff(ticks(index))
    if (steps <= 0).any():
        steps = steps[steps > 0]
    if not len(steps):
        return None
    usual = np.median(steps, overwrite_input=True)  # of a long record the steps are as large as a tag
    if not isinstance(index, (pd.DatetimeIndex, pd.TimedeltaIndex)):
        return EvenStep(usual.item())
    step = EvenStep(pd.Timedelta(usual, unit=index.unit))
    seconds = step.size.total_seconds()
    is_long = isinstance(index, pd.DatetimeIndex) and seconds > TUNING.steps_month
    if is_long and (calendar := _of_calendar(index)) is not None:
        return calendar
    rounded = EvenStep(pd.Timedelta(_ROUND_SECONDS[np.argmin(np.abs(_ROUND_SECONDS - seconds))], unit="s"))
    is_near = rounded.size != step.size and abs(rounded.size / step.size - 1) < TUNING.steps_round
    return rounded if is_near and _keeps_pace(rounded, index) and not _keeps_pace(step, index) else step


def _keeps_pace(step, index):
    """Whether rows stay where they are within a step, which they drift through if it is another one."""
    turns = (np.exp(2j * np.pi * places).sum() for places in places_by_blocks(step, index))
    return bool(abs(sum(turns)) > TUNING.steps_pace * len(index))


def places_by_blocks(step, index):
    """Distance of each row from the first one in steps, a block of rows after the other."""
    starts = range(0, len(index), TUNING.times_block)
    return (step.places(index[start : start + TUNING.times_block], index[0]) for start in starts)


def _of_calendar(index):
    """Step of months where rows come one in each so many, and not at even distances; else None."""
    days = np.diff(index.asi8) / (pd.Timedelta("1D") // pd.Timedelta(1, unit=index.unit))
    if not 27 < np.median(days) < 370 or (days == days[0]).all():
        return None
    number = np.asarray(index.year * 12 + index.month)
    months = int(np.median(np.diff(number)))
    is_end, day = np.asarray(index.is_month_end), np.asarray(index.day)
    same_day = (is_end | (day >= day.max())).all() or np.ptp(day) == 0
    return CalendarStep(months) if months and same_day and not (np.diff(number) % months).any() else None
