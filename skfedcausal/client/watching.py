"""What a watched unit learns of nominal rows, and what it answers about batches, flags and incidents.

Units of nothing but status bits are watched with a little noise on their values, so that models of normal noise bear
them. A column that is constant in nominal operation, or has two values, has no noise that says how unusual a change is,
and copies of it determine each other. Dither, noise of known size that is added before a signal of few values is
processed, gives it one (Widrow & Kollar 2008, Quantization noise). A flip is then as many standard deviations as the
dither is smaller than a step. Rows that are watched get half of the noise that the model was learned with: what is
added by us has no news, and its large values would be false alarms, the same ones in every record.
"""

import hashlib
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri
from sklearn.base import clone

from ..message import requests
from ..message.packet import PacketError
from ..message.states import Acknowledgement
from ..message.watching import FlagMessage, FlagsRequest, VerdictReply, WatchRequest
from . import answers
from .batches import next_message
from .blame import TagModel
from .fitting import with_fit
from .habits import Habits
from .handlers import handles
from .kalman import KalmanClient
from .monitor import monitored
from .templates import watched_client

_SHARE = 0.1  # of a step
_WATCHED = 0.5  # of that, in rows that are watched
_FEW = 2  # values that a column of a status has at most
_MOST_STATES = 4
_FEWEST = 20  # rows in which a unit of status bits was there
_LOOKED_AT = 1000  # rows that mostly show that a unit is none


def learn_watched(unit, first):
    """The unit off its baseline, its client as it is watched, and its first state with all it knows of nominal rows."""
    unit = replace(unit, client=watched_client(unit.client))
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
    for rows in (Y[:_LOOKED_AT], Y):
        if any(len(np.unique(y[~np.isnan(y)])) > _FEW for y in rows.T):
            return False
    return np.count_nonzero(~np.isnan(Y).all(axis=1)) > _FEWEST


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
        return cls(int.from_bytes(digest[:16], "big"), _SHARE * step)

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
        spread = _WATCHED * self.spread if self.is_watched else self.spread
        return spread * ndtri(uniform).reshape(len(Y), d), first + len(Y) - 1


def dithered_client(unit):
    """Model of a unit of status bits, None where the unit is none."""
    template, Y = unit.client, unit.with_baseline
    if not isinstance(template, KalmanClient) or unit.noise is not None or template.C is not None or not is_status(Y):
        return None
    if any(getattr(template, option) is not None for option in ("harmonics", "trend", "mode", "levels")):
        return None
    dither = Dither.learn(unit.name, Y)
    states = min(Y.shape[1], _MOST_STATES) if template.n_states == "auto" else template.n_states
    client = unit.fitted(clone(template).set_params(n_states=states), outputs=Y - dither.of(Y)[0])
    client.baseline_ = dither
    return client
