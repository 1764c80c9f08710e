"""What a unit answers while a plant is learned: its model, messages by it, and what replies change in it."""

from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np
from sklearn import config_context

from ..message import requests
from ..message.clock import Clock
from ..message.packet import PacketError
from ..message.states import Acknowledgement, SmoothedReply, StateMessage, StateReply
from ..statespace.episodes import episodes
from . import unit_model, worker
from .augmenter import as_augmenter
from .baseline import wander_period
from .kalman import KalmanClient
from .records import column_means, in_use, stops_of
from .tuning import TUNING
from .unit_model import UnitClient
from .worker import handles


@handles(requests.FitRequest, sets_precision=True)
def learn(unit, wishes, state, round):
    """Identify the unit's model and send what the measurements say about the states."""
    if state.get("round") == round and state["previous"] is None:
        message, state = message_and_state(unit, state["client"], None, state, round)
        return unit.with_clock(message), state
    first = {**unit.first_state(), "wishes": wishes, "dtype": state["dtype"]}
    if wishes.sharp is False and unit.noise is None:  # of a plant with inputs
        stops = stops_of(unit.outputs)
        first["stops"] = stops if stops.size else None
    if wishes.monitor:
        from .watching import learn_watched  # of units that are watched

        unit, client, first = learn_watched(unit, first)
    else:
        client = unit.fitted()
        unit = unit.off_baseline({"client": client})
    return _first_message(unit, client, wishes, first, round)


def _first_message(unit, client, wishes, first, round):
    """What a unit sends about its record once its model is learned, and the state after it."""
    if (wishes.own_past or wishes.refine) and unit.noise is None and isinstance(client, UnitClient):
        first["alone"] = unit_model.is_likelier_alone(client, unit.outputs, unit.inputs, unit.starts)
        first["refines"] = bool(wishes.refine) and first["alone"] and client.model.n_states < len(client.model.C)
    if (wishes.sharp or wishes.refine) and not wishes.orders and not wishes.monitor and unit.inputs is None:
        first["wanders"] = _wanders(unit, client)
    if _is_sharp(wishes, first):
        client = _noiseless(unit, client)
    if wishes.fits:
        first["fit"] = _own_fit(unit, client)
    message, state = message_and_state(unit, client, None, first, round)
    if wishes.orders and _may_grow(unit, client):
        message = replace(message, open_order=True)
    if _may_share(unit, wishes, client, first):
        from .orders import sketch

        message = replace(message, sketch=sketch(client, unit.outputs, unit.starts))
    return unit.with_clock(message), state


def message_and_state(unit, client, previous, kept, round):
    """Message of the unit's model about its record, and the state after it: `kept` brought up to date."""
    wishes, monitor = kept["wishes"], kept.get("monitor")
    refines = bool(kept.get("refines"))
    settings = {"inputs": unit.inputs, "const": wishes.const or refines, "local_model": wishes.local_model}
    state = {**kept, "client": client, "previous": previous, "round": round}
    message = worker.unit_message(client, unit.outputs, unit.starts, monitor=monitor, **settings)
    if isinstance(client, UnitClient):
        state["loading_error"] = unit_model.loading_error(client, message)
    else:
        _check_message(unit, message)
    if kept.get("alone"):
        message = replace(message, gain_alone=unit_model.gain_alone(client, unit.outputs, unit.inputs, unit.starts))
    if refines:
        kept_const = message.const if wishes.const else None
        message = replace(message, const=kept_const, rest=float(cast(Any, message.const).mean()))
    if kept.get("wanders"):
        message = replace(message, wanders=kept["wanders"])
    return message, {**state, "n_states": message.z.shape[1]}


# -- what may be said of a unit --------------------------------------------------------------------


def _is_sharp(wishes, state):
    """Whether the unit is asked for states without noise, its own past knows better and nothing is watched."""
    return bool(wishes.sharp) and not wishes.monitor and bool(state.get("alone"))


def _noiseless(unit, client):
    """The client without noise of its states, where its loadings and noise were learned by the unit."""
    own, (d, p) = unit.client, client.model.C.shape
    is_learned = isinstance(own, KalmanClient) and own.R is None and own.C is None and p <= d
    is_moved = client.model.variance is not None  # its own past follows levels that shift; the server finds them
    if not is_learned or is_moved or (p < d and client.model.residual_model is None):
        return client
    from .orders import noiseless  # of units that a model with noise of sensors is none of

    return noiseless(client, unit.outputs, unit.starts, unit.inputs)


def _may_grow(unit, client):
    """Whether the unit may have more states than it found from its own record."""
    own = unit.client
    if not isinstance(own, KalmanClient) or own.n_states != "auto" or own.C is not None or unit.noise is not None:
        return False
    model = client.model
    # own_past: of a complete record; with gaps the test of more states is not sharp enough
    return model.n_states < len(model.C) and model.own_past is not None


def _may_share(unit, wishes, client, state):
    """Whether the unit may make sensors states that others know of; one at least has to tell its noise."""
    if not (wishes.sketch and _is_sharp(wishes, state) and _may_grow(unit, client)):
        return False
    from .orders import n_sketched

    model = client.model
    has_room = model.n_states < len(model.C) - 1 and model.residual_model is not None
    return has_room and n_sketched(len(unit.outputs)) > 0


def _wanders(unit, client):
    """Period from which on the unit's sensors wander, None where they stay or it is taken off or not known."""
    if not isinstance(client, KalmanClient) or unit.noise is not None or getattr(client.baseline_, "moves", False):
        return None
    period = wander_period(unit.outputs, unit.starts)
    return period if np.isfinite(period) else None


def with_fit(unit, message, state):
    """A message that says whether the model of the unit fits no longer."""
    return replace(message, outdated=is_outdated(state.get("fit"), _own_fit(unit, state["client"])))


def _own_fit(unit, client):
    """How well the model of the unit explains its record; None where that would tell of values, or is not known."""
    if unit.noise is not None or not isinstance(client, UnitClient):
        return None
    return fit_of(client, unit.outputs, unit.inputs, unit.starts)


class Fit(NamedTuple):
    """Mean log-density of a measurement given the unit's past, and its variance."""

    mean: float
    variance: float


def fit_of(client, Y, U, starts):
    """How a unit's own model explains rows around their level in each episode, a `Fit`; None of too few rows."""
    Y = in_use(client, Y)
    levelled = np.array(Y, dtype=float)
    there = ~np.isnan(levelled)
    for start, stop in episodes(starts, len(Y)):
        counts = np.maximum(there[start:stop].sum(axis=0), 1)
        levelled[start:stop] += client.model.mean - np.nansum(levelled[start:stop], axis=0) / counts
    density, n_seen = client.model.log_likelihood(levelled, U, starts), there.sum(axis=1)
    size = max(len(Y) // TUNING.fitting_blocks, TUNING.fitting_least_rows)
    n_blocks = len(Y) // size
    if n_blocks < 2:
        return None
    shape, rows = (n_blocks, size), n_blocks * size
    n = n_seen[:rows].reshape(shape).sum(axis=1)
    means = density[:rows].reshape(shape).sum(axis=1)[n > 0] / n[n > 0]
    if len(means) < 2:
        return None
    return Fit(float(density.sum() / n_seen.sum()), float(means.var(ddof=1) / len(means)))


def is_outdated(before, now):
    """Whether a model explains later rows clearly worse than those that it was learned from."""
    if before is None or now is None:
        return False
    lost = before.mean - now.mean
    return bool(lost > TUNING.fitting_clear and lost > TUNING.fitting_sure * np.sqrt(before.variance + now.variance))


# -- later rounds of a fit -------------------------------------------------------------------------


@handles(requests.CommonRows)
def keep_common_rows(unit, request, state, round):
    """Leave out rows that not all units have: from here on every question is about the others."""
    grid = Clock.of_message(request)
    rows = () if unit.clock is None else unit.clock.rows(grid)
    if len(rows) != sum(grid.lengths):
        raise PacketError(f"Unit {unit.name!r} was asked for rows that it does not have: {grid.in_words()}.")
    return Acknowledgement(), {**state, "rows": (rows, grid)}


@handles(requests.InputsOfOthers)
def take_inputs_of_others(unit, message, state, round):
    """Look for more states, and better loadings, with the inputs of other units."""
    from .orders import client_with_inputs  # of plants with inputs

    if len(message.inputs) != len(unit.outputs):
        raise PacketError(f"Unit {unit.name!r} was told inputs of {len(message.inputs)} rows, not of its own.")
    client = client_with_inputs(unit, state["client"], message.inputs)
    if client is None:
        return requests.OrderAnswer(False), state
    return requests.OrderAnswer(True), message_and_state(unit, client, None, state, round)[1]


@handles(requests.SensorsAsStates)
def make_sensors_states(unit, request, state, round):
    """Make sensors states of their own, and send what the message before does not tell of these."""
    from .orders import client_with_sensors, sensor_states  # of units whose states leave more than noise

    previous = _before(unit, request, state, round)
    if not _may_share(unit, state["wishes"], previous, state):
        raise PacketError(f"Unit {unit.name!r} sent no sketch of what its states leave of its sensors.")
    client = client_with_sensors(previous, unit.outputs, unit.starts, unit.inputs, request.sensors)
    message, state = message_and_state(unit, client, previous, state, round)
    return sensor_states(message, previous, client, unit.outputs, request.sensors), state


@handles(SmoothedReply)
def refine(unit, reply, state, round):
    """Re-estimate the unit's sensors from smoothed states and send the message again."""
    _check_shape(unit, reply.states, state)
    client = previous = _before(unit, reply, state, round)
    if isinstance(client, UnitClient):
        refines = True
        if state["wishes"].refine:
            refines = unit_model.may_refine(client)
            state = {**state, "refines": refines}
        if refines:
            client = unit_model.refined(client, unit.outputs, reply.states, reply.covariances)
    return message_and_state(unit, client, previous, state, round)


@handles(StateReply)
def learn_from_reply(unit, reply, state, round):
    """Fit the augmenter to the influence the server reports, and keep what else it found of the unit."""
    _check_shape(unit, reply.cross_term, state)
    client, augmenter = state["client"], as_augmenter(unit.augmenter)
    n_states = len(reply.transition)
    features = worker.local_features(client, unit.outputs, unit.inputs, unit.starts, n_states)
    with config_context(assume_finite=True):
        augmenter.fit(features, reply.cross_term, reply.transition[:, :n_states], unit.starts)
    learned = {"augmenter": augmenter, "transition": reply.transition}
    if reply.input_matrix is not None:
        learned |= {"input_matrix": reply.input_matrix, "input_mean": column_means(unit.inputs)}
    if reply.input_level is not None:  # phi in absolute inputs, as the second paper has it
        centred = getattr(client, "center", True)  # else the constant holds the level of states too
        learned["phi"] = reply.input_level + (getattr(augmenter, "phi_", 0.0) if centred else 0.0)
    if isinstance(client, UnitClient) and unit.noise is None:
        client = unit_model.with_tails(client, unit.outputs, unit.inputs, unit.starts, alone=bool(reply.alone))
    if reply.noise_share is not None:
        client = unit_model.with_noise_share(client, float(reply.noise_share[0]))
    return Acknowledgement(), {**state, **learned, "client": client}


def _before(unit, message, state, round):
    """The unit's model before a round, which is the same where what was received comes again."""
    previous = state["previous"] if round == state["round"] else state["client"]
    if previous is None:
        raise PacketError(
            f"Unit {unit.name!r} got {message.OP!r} in the round of its first message, {round}; it belongs to a "
            "later one."
        )
    return previous


def _check_message(unit, message):
    """What a client of the user's own gave must be a message and survive its way."""
    about = f"The client of unit {unit.name!r} gave a"
    if not isinstance(message, StateMessage):
        raise TypeError(f"{about} {type(message).__name__} as its message instead of a StateMessage.")
    try:
        received = StateMessage.from_packet(message.to_packet())
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        raise ValueError(f"{about} message that cannot be used. {error}") from error
    if len(received.z) != len(unit.outputs):
        raise ValueError(f"{about} message about {len(received.z)} rows for a record of {len(unit.outputs)}.")


def _check_shape(unit, series, state):
    """Refuse a series of a reply that is not as long and wide as the unit's message was."""
    expected = (len(unit.outputs), state["n_states"])
    if series.shape != expected:
        raise PacketError(
            f"Unit {unit.name!r} got a series of shape {series.shape} back, but sent a message of shape {expected}."
        )
