"""The clock of a stream: times of a source that is late, doubled, ahead or set back, as one clock that goes forward."""

import time
import zlib
from bisect import bisect_left
from collections import deque
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pandas as pd

from ..arguments import warn
from ..estimators._watching import StreamWarning
from .cells import as_frame, as_record, microseconds
from .tuning import TUNING


class Clock:
    """Times of a source that only go forward, whatever its clocks do.

    A row that is further from the one before it than three periods is held until the next one agrees with it: then
    rows were missing, or the clock was set; else it is left out. After a clock was set back the times that are given go
    on where they were, and :meth:`told` says what the source called them. Rows that come twice, or after later ones,
    are left out. All is named by a :class:`~skfedcausal.streams.StreamWarning` and counted.

    Parameters
    ----------
    period : Timedelta, default=None
        Between two rows; None learns it from the first.
    now : callable, default=time.time
        Seconds since 1970; the first row may be a day ahead of them.

    Attributes
    ----------
    counts : dict of str to int
        Rows that were ``"doubled"``, ``"late"`` or ``"alone"`` with their clock, and how often it was ``"set"``.

    Examples
    --------
    >>> import warnings
    >>> import pandas as pd
    >>> from skfedcausal.streams.clock import Clock
    >>> times = pd.date_range("2026-01-01", periods=5, freq="min").insert(3, pd.Timestamp("2099-01-01"))
    >>> clock = Clock()
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     rows = clock.take(pd.DataFrame({"mill__power": range(6)}, index=times))
    >>> rows["mill__power"].tolist(), clock.counts["alone"]
    ([0, 1, 2, 4, 5], 1)
    """

    def __init__(self, period=None, now=time.time):
        self._now = now
        known = [] if period is None else [int(pd.Timedelta(period) / pd.Timedelta("1us"))] * TUNING.clock_believed
        self._steps: deque[int] = deque(known, maxlen=TUNING.clock_steps)
        self._usual: float | None = None  # the median of the steps, where it is known
        self._last: int | None = None  # as it was given
        self._offset = 0  # what is added to times of the source
        self._jumps: deque[tuple[int, int]] = deque(
            [(0, 0)], maxlen=TUNING.clock_jumps
        )  # first time given with an offset, and it
        self._held: pd.DataFrame | None = None  # a row that no other agrees with yet
        self._seen: dict[int, int] = {}  # checksums of the last rows by their times
        self.counts = {"doubled": 0, "late": 0, "alone": 0, "set": 0}

    def take(self, frame: pd.DataFrame) -> Any:
        """The rows of a table that may go on, on a clock that goes forward.

        Parameters
        ----------
        frame : DataFrame
            Rows by their times, none of them missing; rows without times are given back as they are.

        Returns
        -------
        DataFrame or None
            None if no row may go on yet.
        """
        if not len(frame) or not isinstance(frame.index, pd.DatetimeIndex):
            return frame if len(frame) else None
        if self._held is None and self._is_usual(times := microseconds(frame.index)):
            self._learn(times)
            self._remember(times, frame)
            self._last = int(times[-1]) + self._offset
            return frame if not self._offset else _at(frame, times + self._offset)
        if self._held is not None:
            frame = pd.concat([self._held, frame])
        return self._sorted_out(frame, microseconds(frame.index))

    def told(self, moment: Any) -> Any:
        """What the source called a time that was given.

        Parameters
        ----------
        moment : Timestamp
            Of a row, as :meth:`take` gave it.

        Returns
        -------
        Timestamp
            The same but where the source's clock was set back before.
        """
        if not isinstance(moment, pd.Timestamp) or moment is pd.NaT:
            return moment
        at = int(microseconds(pd.DatetimeIndex([moment]))[0])
        offset = next((offset for first, offset in reversed(self._jumps) if first <= at), 0)
        return moment - pd.Timedelta(offset, unit="us")

    @property
    def state(self) -> dict[str, Any]:
        """Where the clock stands, in words and numbers that JSON has, with the row that is held."""
        kept = {"last": self._last, "offset": self._offset, "jumps": [list(one) for one in self._jumps]}
        seen = [list(one) for one in self._seen.items()]
        held = None if self._held is None else as_record(self._held) | {"columns": list(self._held)}
        return {**kept, "held": held, "seen": seen, "steps": list(self._steps), "counts": dict(self.counts)}

    @state.setter
    def state(self, kept):
        self._last, self._offset = kept["last"], kept["offset"]
        self._jumps = deque(map(tuple, kept["jumps"]), maxlen=TUNING.clock_jumps)
        self._held = None if kept["held"] is None else as_frame(kept["held"], kept["held"]["columns"])
        self._seen, self.counts = dict(kept["seen"]), dict(kept["counts"])
        self._steps, self._usual = deque(kept["steps"], maxlen=TUNING.clock_steps), None

    # -- rows as they should be ----------------------------------------------------------------------

    def _is_usual(self, times):
        """Whether rows follow the last one and each other."""
        if self._last is None:
            steps = np.diff(times)
            if times[0] - TUNING.clock_ahead > self._now() * 1e6:
                return False
        elif len(times) == 1:
            return 0 < int(times[0]) + self._offset - self._last <= self._far()
        else:
            steps = np.diff(times, prepend=self._last - self._offset)
        return bool(((steps > 0) & (steps <= self._far(steps))).all())

    def _far(self, steps=()):
        return TUNING.clock_far * self._usual_step(steps)

    def _usual_step(self, steps=()):
        """Microseconds between two rows, of new ones where there are none yet."""
        if self._usual is not None:
            return self._usual
        known = self._steps or [step for step in islice(steps, TUNING.clock_steps) if step > 0]
        usual = float(np.median(known)) if len(known) else np.inf
        self._usual = usual if self._steps else None
        return usual

    def _add_step(self, step):
        if step != self._usual:  # which is known
            self._steps.append(max(int(step), 1))
            self._usual = None
        elif len(self._steps) < TUNING.clock_steps or self._steps[0] != step:
            self._steps.append(int(step))

    def _learn(self, times):
        """Take note of the steps between rows."""
        before = [] if self._last is None else [self._last - self._offset]
        for one, other in pairwise([*before, *times[-TUNING.clock_steps - 1 :].tolist()]):
            self._add_step(other - one)

    def _remember(self, times, frame):
        checks = _checksums(frame if len(frame) <= TUNING.clock_remembered else frame[-TUNING.clock_remembered :])
        self._seen.update(zip(times[-TUNING.clock_remembered :].tolist(), checks, strict=True))
        self._forget()

    def _forget(self):
        while len(self._seen) > TUNING.clock_remembered:
            del self._seen[next(iter(self._seen))]

    # -- rows that are not ---------------------------------------------------------------------------

    def _sorted_out(self, frame, times):
        frame, times = self._in_order(frame, times)
        checks, given, rows = _checksums(frame), list[int](), list[int]()
        held: Any = None
        doubled, late, alone, jumps = list[int](), list[int](), list[int](), list[int]()

        def accept(k):
            if self._last is not None:
                self._add_step(int(times[k]) + self._offset - self._last)
            self._last = int(times[k]) + self._offset
            self._seen[int(times[k])] = checks[k]
            rows.append(k)
            given.append(self._last)

        for k, at in enumerate(times.tolist()):
            follows = held is not None and 0 < at - times[held] <= self._far()
            if self._fits(at):
                alone += [] if held is None else [held]
                held = None
                accept(k)
            elif follows:
                jumps.append(held)
                self._set_to(int(times[held]))
                accept(held)
                accept(k)
                held = None
            elif self._step(at) <= 0 and self._seen.get(at) == checks[k]:
                doubled.append(k)
            elif self._step(at) <= 0 and self._fills_a_hole(at):
                late.append(k)
            else:
                if held is not None:
                    alone.append(held)
                    self._add_step(at - int(times[held]))  # if none agrees for long, rows are further apart
                held = k
        self._held = None if held is None else frame.iloc[held : held + 1]
        for kind, found in (("doubled", doubled), ("late", late), ("alone", alone), ("set", jumps)):
            self.counts[kind] += len(found)
            if found:
                warn(_SAID[kind].format(len(found), frame.index[found[0]]), StreamWarning)
        self._forget()
        return _at(frame.iloc[rows], np.array(given, dtype=np.int64)) if rows else None

    def _step(self, at):
        """Microseconds from the last row to one."""
        return at + self._offset - (self._last if self._last is not None else at + self._offset - 1)

    def _fits(self, at):
        if self._last is None:
            return at - TUNING.clock_ahead <= self._now() * 1e6
        return 0 < self._step(at) <= self._far()

    def _set_to(self, at):
        """The source's clock was set, forward as far as it had been set back before, or back."""
        if self._last is None:
            return
        step = self._usual_step()
        offset = max(0, self._last + (1 if step == np.inf else int(step)) - at)
        if offset != self._offset:
            self._offset = offset
            self._jumps.append((at + offset, offset))

    def _fills_a_hole(self, at):
        """Whether a time lies where some rows are missing among those that came."""
        known = sorted(self._seen)
        place = bisect_left(known, at)
        if not 0 < place < len(known) or at in self._seen:
            return False
        return 1.5 < (known[place] - known[place - 1]) / self._usual_step() <= TUNING.clock_hole

    def _in_order(self, frame, times):
        """Rows sorted by time between places where the clock jumps."""
        steps = np.diff(times)
        usual = self._usual_step(np.abs(steps))
        cuts = np.flatnonzero(np.abs(steps) > TUNING.clock_reordered * usual) + 1
        parts = np.split(np.arange(len(times)), cuts)
        order = np.concatenate([part[np.argsort(times[part], kind="stable")] for part in parts])
        return frame.iloc[order], times[order]


def on_clock(rows, clock=None):
    """Tables of a source, which come with the places after them, as a clock gives them; None for a new one."""
    clock = Clock() if clock is None else clock
    for _, frame in rows:
        if frame is not None and (given := clock.take(frame)) is not None:
            yield given


_SAID = {
    "doubled": "{} rows came twice, those from {} on: they are left out. Monitoring continues.",
    "late": "{} rows go back to {}, after later ones: they are left out. Monitoring continues.",
    "alone": "{} rows, the first of {}, have a clock of their own: no row after them agrees, and they are left out. "
    "Monitoring continues.",
    "set": "Rows are missing, or the clock of the source was reset: {} times, first to {}. Monitoring continues.",
}  # fmt: skip


def _at(frame, times):
    """A table at other times, microseconds since 1970."""
    index = pd.DatetimeIndex(times.view("datetime64[us]"), name=frame.index.name)
    zone = frame.index.tz
    return frame.set_axis(index if zone is None else index.tz_localize("UTC").tz_convert(zone), axis=0)


def _checksums(frame):
    """A number for each row by which it is known again."""
    values = frame.to_numpy()
    if values.dtype == object:
        return [zlib.crc32(repr(row.tolist()).encode()) for row in values]
    return [zlib.crc32(row.tobytes()) for row in np.ascontiguousarray(values)]
