"""What a watched unit learns of nominal rows, and what it answers about batches, flags and incidents.

Its record comes batch by batch, and a `Place` says where the unit stands between two of them.

Units of nothing but status bits are watched with a little noise on their values, so that models of normal noise bear
them. A column that is constant in nominal operation, or has two values, has no noise that says how unusual a change is,
and copies of it determine each other. Dither, noise of known size that is added before a signal of few values is
processed, gives it one (Widrow & Kollar 2008, Quantization noise). A flip is then as many standard deviations as the
dither is smaller than a step. Rows that are watched get half of the noise that the model was learned with: what is
added by us has no news, and its large values would be false alarms, the same ones in every record.
"""

import hashlib
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtri
from sklearn.base import clone

from ..message import requests
from ..message.packet import PacketError
from ..message.states import Acknowledgement
from ..message.watching import FlagMessage, FlagsRequest, VerdictReply, WatchRequest
from ..parameters import group_of
from . import answers
from .blame import TagModel
from .fitting import with_fit
from .habits import Habits
from .handlers import handles
from .kalman import KalmanClient
from .monitor import monitored
from .records import Passed, release_pages
from .tuning import TUNING


def learn_watched(unit, first):
    """The unit off its baseline, its client as it is watched, and its first state with all it knows of nominal rows."""
    template = unit.client
    if isinstance(template, KalmanClient) and template.profile == "auto":  # a fault's own period would go with it
        template = clone(template).set_params(baseline__profile="calendar")
    unit = replace(unit, client=template, least_shift=TUNING.watching_least_shift)
    client = dithered_client(unit)
    client = unit.fitted() if client is None else client
    unit = unit.off_baseline({"client": client})
    if not unit.monitor:
        raise PacketError(f"Unit {unit.name!r} is not to be monitored: its settings do not say `watch = true`.")

    def resized(n_states):
        return unit.fitted(clone(unit.client).set_params(n_states=n_states))

    client, monitor = monitored(client, unit.outputs, unit.starts, resized)
    first = {**first, "monitor": monitor, "tags": TagModel.learn(unit.outputs, unit.starts)}
    if unit.noise is None:  # which leaves no value as it was
        known = () if getattr(client, "baseline_", None) is None else client.baseline_.known
        first["habits"] = Habits.learn(unit.with_baseline, unit.starts, known)
    return unit, client, first


@handles(FlagsRequest)
def flag(unit, request, state, round):
    """Learn what is nominal for the flags, or raise them."""
    if request.percentile is not None:
        own, Y = (state, unit.outputs) if unit.home is None else (answers.own_record(state), unit.home)
        return Acknowledgement(), {**state, "flags": answers.learned_flags(own, Y, unit.starts, request.percentile)}
    if "flags" not in state:
        raise PacketError(f"Unit {unit.name!r} was asked for flags before it learned what is nominal.")
    flags = answers.flags_of(state, unit.outputs, unit.starts) if unit.flags is None else unit.flags
    return FlagMessage(flags), state


@handles(WatchRequest)
def describe_batch(unit, wishes, state, round):
    """Message of the fitted model about the next batch of the record that is to be monitored."""
    if unit.monitored is None:
        raise PacketError(f"Unit {unit.name!r} has no record to be monitored.")
    try:
        message, place = next_message(unit.name, state, unit.monitored, wishes.batch, flags=wishes.flags)
    except ValueError as error:
        raise PacketError(f"Unit {unit.name!r} cannot answer about a batch. {error}") from error
    if message is None:
        return requests.NothingYet(), state
    if wishes.fits:
        batch = unit.monitored.batch(wishes.batch)
        about = replace(unit, outputs=batch.outputs, starts=batch.starts, index=batch.index, inputs=None, measured=None)
        message = with_fit(about.off_baseline(state), message, state)
    return message, {**state, "place": place, "record": place.record}


@handles(VerdictReply)
def note_verdict(unit, verdict, state, round):
    """Take note of incidents."""
    return Acknowledgement(), {**state, "verdict": verdict}


def is_status(Y):
    """Whether no column of a record, (n_samples, n_columns), has more than two values."""
    for rows in (Y[: TUNING.watching_looked_at], Y):
        if any(len(np.unique(y[~np.isnan(y)])) > TUNING.watching_few_values for y in rows.T):
            return False
    return np.count_nonzero(~np.isnan(Y).all(axis=1)) > TUNING.watching_fewest


@dataclass(frozen=True)
class Dither:
    """What is taken off the record of a unit of status bits: noise drawn from the number of the row.

    `key` seeds it, `spread` is its standard deviation by column in rows that models are learned from.
    """

    key: int
    spread: np.ndarray
    is_watched: bool = False
    known = ()  # columns that tell what is taken off

    @classmethod
    def learn(cls, name, Y):
        """Dither of a tenth of each column's step, or of its size where it never moved."""
        low, high = np.nanmin(Y, axis=0, initial=np.inf), np.nanmax(Y, axis=0, initial=-np.inf)
        size = np.where(np.isfinite(low), np.abs(low), 1.0)
        step = np.where(high > low, high - low, np.where(size > 0, size, 1.0))
        digest = hashlib.sha256(name.encode()).digest()
        return cls(int.from_bytes(digest[:16], "big"), TUNING.watching_share * step)

    @property
    def watched(self):
        """What is taken off rows that the model was not learned from."""
        return replace(self, is_watched=True)

    def of(self, Y, index=None, starts=(0,), after=None):
        """What is taken off rows that follow row number `after`, and the number of the last one."""
        first, d = 0 if after is None else int(after) + 1, len(self.spread)
        source = np.random.Philox(key=self.key)
        source.advance((first * d) // 4)  # of four numbers each
        raw = source.random_raw(len(Y) * d + first * d % 4)[first * d % 4 :]
        uniform = ((raw >> np.uint64(11)).astype(float) + 0.5) * 2.0**-53
        spread = TUNING.watching_watched * self.spread if self.is_watched else self.spread
        return spread * ndtri(uniform).reshape(len(Y), d), first + len(Y) - 1


def dithered_client(unit):
    """Model of a unit of status bits, None where the unit is none."""
    template, Y = unit.client, unit.with_baseline
    if not isinstance(template, KalmanClient) or unit.noise is not None or template.C is not None or not is_status(Y):
        return None
    asked = group_of(template, "baseline").taken_off() | {"profile": None}
    if any(wanted is not None for wanted in asked.values()):
        return None
    dither = Dither.learn(unit.name, Y)
    states = min(Y.shape[1], TUNING.watching_most_states) if template.n_states == "auto" else template.n_states
    client = unit.fitted(clone(template).set_params(n_states=states), outputs=Y - dither.of(Y)[0])
    client.baseline_ = dither
    return client


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

    def __getstate__(self):
        return {"number": self.number, "_last": None}  # rows stay where they came

    def put(self, batch):
        """Take the next batch."""
        self.number, self._last = self.number + 1, batch

    @property
    def is_short(self):
        """Whether the last batch has few rows."""
        return self._last is not None and len(self._last.outputs) < TUNING.watching_few_rows

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
    Y, row = answers.off_baseline(state["client"], measured, batch.index, batch.starts, place.row)
    if flags:
        before: Any = Y[:0] if place.known is None else place.known
        joined, starts = np.concatenate([before, Y]), (start + len(before) for start in batch.starts if start > 0)
        message = FlagMessage(answers.flags_of(state, joined, (0, *starts))[len(before) :])
        known = joined[-TUNING.watching_remembered :]  # rows that the filter goes on from
    else:
        message, known = answers.stream_message(state, Y, batch.starts, place.known, measured)
        message = message.with_inputs(batch.inputs)
    if len(batch.outputs) >= TUNING.watching_few_rows:  # a few rows hold no page worth the look
        release_pages(batch.outputs)
    record = place.record
    if batch.fingerprint or record:  # rows that came as a file
        record = hashlib.sha256(f"{record} {batch.fingerprint}".encode()).hexdigest()
    before = Place(place.number, place.known, place.record, place.passed, None, place.row)
    return message, Place(number, known, record, passed, before, row)
