"""When the rows of a record were taken: what units tell with their first message, so that they can be aligned."""

import hashlib
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from .packet import PacketError
from .tuning import TUNING

_SHORTEST, _LONGEST = 1e-6, 1e9  # seconds from row to row


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
        numbers = getattr(message, "clock", None)
        if numbers is None:
            return None
        return cls.of_numbers(numbers, tuple(int(k) for k in message.lengths))

    @classmethod
    def of_numbers(cls, numbers, lengths):
        """Clock of episodes of these lengths by its numbers in a message, shape (2 + n_episodes,)."""
        return cls(float(numbers[0]), bool(numbers[1]), tuple(numbers[2:].tolist()), lengths)

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
        return abs(self.period / other.period - 1) < TUNING.clock_same_period

    def beside(self, other):
        """Seconds by which rows lie beside the grid of another clock, 0 where they are on it."""
        off = (np.asarray(self.starts) - other.starts[0]) / self.period
        worst = np.abs(off - np.round(off)).max()
        return 0.0 if worst <= TUNING.clock_beside else float(worst * self.period)

    def common(self, other):
        """What both have, a Clock; None where that is nothing."""
        pieces, a, b = [], 0, 0
        ends, others = self.ends, other.ends
        while a < len(ends) and b < len(others):
            first = max(self.starts[a], other.starts[b])
            rows = int(np.floor((min(ends[a], others[b]) - first) / self.period + 1 + TUNING.clock_beside))
            if rows >= 2:
                pieces.append((first, rows))
            a, b = (a + 1, b) if ends[a] <= others[b] else (a, b + 1)
        if not pieces:
            return None
        starts, lengths = zip(*pieces, strict=True)
        return self._replace(starts=starts, lengths=lengths)

    def rows(self, grid):
        """Positions of the rows that are on a common grid; none where not all of them are there."""
        offsets, ends = np.cumsum([0, *self.lengths]), np.asarray(self.ends)
        first = np.asarray(grid.starts)
        episode = np.searchsorted(np.asarray(self.starts) - TUNING.clock_beside * self.period, first, side="right") - 1
        known = (episode >= 0) & (np.asarray(grid.ends) <= ends[episode] + TUNING.clock_beside * self.period)
        if not known.all() or not self.same_period(grid):
            return np.empty(0, dtype=int)
        places = offsets[episode] + np.round((first - np.asarray(self.starts)[episode]) / self.period).astype(int)
        return np.concatenate([np.arange(k, k + n) for k, n in zip(places, grid.lengths, strict=True)])

    def is_same(self, other):
        """Whether rows were taken at the same times."""
        near = self.lengths == other.lengths and len(self.starts) == len(other.starts)
        return near and bool(
            (np.abs(np.subtract(self.starts, other.starts)) <= TUNING.clock_beside * self.period).all()
        )


def check_clock(numbers, grid, lengths, op):
    """Refuse times of rows that cannot be meant, as they came in a packet."""
    problem = _problem(numbers, grid, tuple(int(k) for k in lengths))
    if problem:
        raise PacketError(f"Arrays 'clock' and 'grid' of packet {op!r} make no sense: {problem}.")


def _problem(numbers, grid, lengths):
    """What is wrong with the times of rows, empty where nothing is."""
    if numbers is None:
        return "a digest came without times"
    if len(numbers) != 2 + len(lengths):
        return f"they tell {len(numbers) - 2} episodes and the message has {len(lengths)}"
    clock = Clock.of_numbers(numbers, lengths)
    if not _SHORTEST <= clock.period <= _LONGEST:
        return f"{clock.period:g} s from row to row"
    if numbers[1] not in (0, 1):
        return f"{numbers[1]:g} where 1 says that the zone is known and 0 that it is not"
    starts, ends = np.asarray(clock.starts), np.asarray(clock.ends)
    if not (starts[0] >= TUNING.clock_earliest and ends[-1] <= TUNING.clock_latest and (starts[1:] > ends[:-1]).all()):
        return "episodes follow each other, between the years 1 and 9999"
    return "" if grid is None or grid[0] == clock.digest[0] else "the digest is that of other times"
