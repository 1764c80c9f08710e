"""What a watched unit learns of nominal rows, and what it answers about batches, flags and incidents."""

from dataclasses import replace

from sklearn.base import clone

from ..message import requests
from ..message.packet import PacketError
from ..message.states import Acknowledgement
from ..message.watching import FlagMessage, FlagsRequest, VerdictReply, WatchRequest
from . import answers
from .batches import next_message
from .blame import TagModel
from .dither import dithered_client
from .fitting import with_fit
from .habits import Habits
from .handlers import handles
from .monitor import monitored
from .templates import watched_client


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
        about = (state, unit.outputs) if unit.home is None else (answers.own_record(state), unit.home)
        flags = answers.learned_flags(*about, unit.starts, request.percentile)
        return Acknowledgement(), {**state, "flags": flags}
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
