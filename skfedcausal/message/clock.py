"""When the rows of a record were taken: what units tell with their first message, so that they can be aligned."""

import hashlib
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

_SAME_PERIOD = 1e-3  # relative difference of two periods that is rounding
_BESIDE = 0.1  # of a period: how far rows of two units may lie apart


class Clock(NamedTuple):
    """Seconds from row to row, whether the zone is known, and first time of each episode since 1970."""

    period: float
    zoned: bool
    starts: tuple[float, ...]
    lengths: tuple[int, ...]

    @classmethod
    def of_index(cls, index, lengths):
        """Clock of the rows of a frame with times; None where there is no telling."""
        seconds = index.as_unit("ns").asi8 / 1e9
        first = np.cumsum([0, *lengths[:-1]])
        steps = np.delete(np.diff(seconds), first[1:] - 1)
        if not len(steps):
            return None
        return cls(float(np.median(steps)), index.tz is not None, tuple(seconds[first].tolist()), tuple(lengths))

    @classmethod
    def of_message(cls, message):
        """Clock that a message tells, None where it tells none."""
        told = getattr(message, "clock", None)
        if told is None:
            return None
        return cls(float(told[0]), bool(told[1]), tuple(told[2:].tolist()), tuple(int(k) for k in message.lengths))

    @property
    def numbers(self):
        """The clock as it travels: period, whether the zone is known, starts."""
        return np.array([self.period, float(self.zoned), *self.starts])

    @property
    def digest(self):
        """Digest of the grid, one whole number."""
        text = f"{self.period:.6f} {self.zoned} {[f'{s:.3f}' for s in self.starts]} {list(self.lengths)}"
        return np.array([int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "little")])

    @property
    def ends(self):
        """Time of the last row of each episode."""
        return tuple(start + (n - 1) * self.period for start, n in zip(self.starts, self.lengths, strict=True))

    def in_words(self):
        """The clock as a person would say it."""
        zone = " UTC" if self.zoned else ", no zone known"
        first, last = (f"{datetime.fromtimestamp(t, UTC):%Y-%m-%d %H:%M:%S}" for t in (self.starts[0], self.ends[-1]))
        return f"{sum(self.lengths)} rows every {self.period:g} s from {first} to {last}{zone}"

    def same_period(self, other):
        """Whether rows come as often."""
        return abs(self.period / other.period - 1) < _SAME_PERIOD

    def beside(self, other):
        """Seconds by which rows lie beside the grid of another clock, 0 where they are on it."""
        off = (np.asarray(self.starts) - other.starts[0]) / self.period
        worst = np.abs(off - np.round(off)).max()
        return 0.0 if worst <= _BESIDE else float(worst * self.period)

    def common(self, other):
        """What both have, a Clock; None where that is nothing."""
        pieces = []
        for a, end_a in zip(self.starts, self.ends, strict=True):
            for b, end_b in zip(other.starts, other.ends, strict=True):
                first, last = max(a, b), min(end_a, end_b)
                rows = int(np.floor((last - first) / self.period + 1 + _BESIDE))
                if rows >= 2:
                    pieces.append((first, rows))
        if not pieces:
            return None
        starts, lengths = zip(*sorted(pieces), strict=True)
        return self._replace(starts=starts, lengths=lengths)

    def rows(self, grid):
        """Positions of the rows that are on a common grid."""
        offsets, found = np.cumsum([0, *self.lengths[:-1]]), []
        for start, n in zip(grid.starts, grid.lengths, strict=True):
            for own, end, offset in zip(self.starts, self.ends, offsets, strict=True):
                if own - _BESIDE * self.period <= start <= end:
                    place = offset + round((start - own) / self.period)
                    found.append(np.arange(place, place + n))
                    break
        return np.concatenate(found)

    def is_same(self, other):
        """Whether rows were taken at the same times."""
        near = self.lengths == other.lengths and len(self.starts) == len(other.starts)
        return near and bool((np.abs(np.subtract(self.starts, other.starts)) <= _BESIDE * self.period).all())
