"""The record that a unit has monitored, batch by batch, and where the unit stands between two of them."""

import hashlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..message.watching import FlagMessage
from .answers import flags_of, off_baseline, stream_message
from .records import Passed, release_pages

_FEW = 10  # rows that are looked at in less time than threads need to start
_REMEMBERED = 300  # rows that a unit's filter goes on from where it sends flags only


@dataclass(slots=True)
class Batch:
    """Rows of a monitored record."""

    outputs: np.ndarray
    starts: tuple = (0,)
    fingerprint: str = ""
    index: pd.Index | None = None
    inputs: np.ndarray | None = None


class Feed:
    """Batches that come one after the other; only the last one is kept."""

    def __init__(self):
        self.number, self._last = 0, None

    def put(self, batch):
        """Take the next batch."""
        self.number, self._last = self.number + 1, batch

    @property
    def is_short(self):
        """Whether the last batch has few rows."""
        return self._last is not None and len(self._last.outputs) < _FEW

    def batch(self, number):
        """Batch of a number from 1, None where there is none yet."""
        return self._last if number == self.number else None


class Place(NamedTuple):
    """Where a unit stands in its monitored record."""

    number: int = 0
    known: object = None
    record: str = ""
    passed: Passed | None = None
    before: Any = None
    row: float | None = None  # number of the last one, where seasons need it


def next_message(name, state, monitored, number, *, flags=False):
    """Message about the next batch, or about the last one again, and where the unit stands after it."""
    place = state.get("place") or Place()
    if number == place.number and place.before is not None:
        place = place.before
    if type(number) is not int or number != place.number + 1:
        raise ValueError(f"Batch {number!r} was asked for, and {place.number + 1} is the next one.")
    batch = monitored.batch(number)
    if batch is None:
        return None, place
    Y, silence, passed = batch.outputs, state.get("silence"), None
    if silence is not None:
        Y, passed = silence.masked(name, Y, batch.starts, batch.index, place.passed)
    baseline: Any = getattr(state["client"], "baseline_", None)
    measured = Y = baseline.in_known_modes(Y) if getattr(baseline, "known", ()) else Y
    Y, row = off_baseline(state["client"], measured, batch.index, batch.starts, place.row)
    if flags:
        message, known = _next_flags(state, Y, batch.starts, place.known)
    else:
        message, known = stream_message(state, Y, batch.starts, place.known, measured)
    if batch.inputs is not None and not flags:
        message = message.with_inputs(batch.inputs)
    if len(batch.outputs) >= _FEW:  # a few rows hold no page worth the look
        release_pages(batch.outputs)
    record = place.record
    if batch.fingerprint or record:  # rows that came as a file
        record = hashlib.sha256(f"{record} {batch.fingerprint}".encode()).hexdigest()
    before = place
    if place.before is not None:
        before = Place(place.number, place.known, place.record, place.passed, None, place.row)
    return message, Place(number, known, record, passed, before, row)


def _next_flags(state, Y, starts, known):
    """Two bits of every row, and the rows that the filter goes on from."""
    before = Y[:0] if known is None else known
    joined = np.concatenate([before, Y])
    flags = flags_of(state, joined, (0, *(start + len(before) for start in starts if start > 0)))
    return FlagMessage(flags[len(before) :]), joined[-_REMEMBERED:]
