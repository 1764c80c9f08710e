"""A unit's side of the federation: the only code that holds raw measurements while packets travel."""

from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.base import clone

from ..containers.layout import listed
from ..containers.rows import episode_starts
from ..message import requests, states
from ..message.clock import Clock
from ..message.packet import PacketError
from ..message.schema import KINDS
from ..message.watching import FlagMessage, FlagsRequest, VerdictReply, WatchRequest
from . import answers, unit_model
from .augmenter import LinearAugmenter, as_augmenter
from .batches import next_message
from .black_box import BlackBoxClient, NonlinearClient
from .extended_kalman import ExtendedKalmanClient
from .feedback_law import identify_law, warn_of_determined_inputs
from .handlers import handler_of, handles
from .kalman import KalmanClient
from .monitor import monitored
from .records import Silence, column_means, release_pages, warn_few_rows
from .stops import stops_of
from .unit_model import UnitClient

KEPT = (  # what a unit keeps of a fit for other records
    "client",
    "augmenter",
    "transition",
    "input_matrix",
    "input_mean",
    "phi",
    "loading_error",
    "n_states",
    "silence",
    "flags",
    "monitor",
    "fit",
    "tags",
    "habits",
    "stops",
    "dtype",
)


@dataclass(eq=False, repr=False)
class UnitWorker:
    """Answers the server's packets from one unit's private data.

    What it learns is state that goes in and out and stays at the site. A packet that comes again in its round
    is answered from ``previous``, the model before that round, so that nothing counts twice; a packet of an
    earlier round is refused, and a new fit starts with an empty state.
    """

    name: str
    outputs: np.ndarray  # (n_samples, n_sensors)
    inputs: np.ndarray | None  # (n_samples, n_inputs)
    starts: tuple[int, ...]  # first row of each episode
    columns: tuple[str, ...] | None  # names of the sensors
    client: Any  # template of the unit's model, cloned and fitted here
    augmenter: Any = None
    noise: np.ndarray | None = None  # variance of the noise that a privacy mechanism added to `outputs`
    training_noise: Any = None  # PaperNoise for the messages of training
    monitored: Any = None  # another record, whose ``batch(number)`` is a Batch, None where there is none yet
    _: KW_ONLY
    monitor: bool = True  # whether the server may ask for what the unit's states do not show
    home: np.ndarray | None = None  # the record without noise, for flags that are randomised before they leave
    flags: np.ndarray | None = None  # answer when flags are asked for; None: the unit looks
    index: Any = None  # of the rows, where they have one
    taken_off: np.ndarray | None = None  # seasons and the like
    measured: np.ndarray | None = None  # the record, where `outputs` are what seasons and the like leave of it
    clock: Any = None  # Clock of the rows, None where they have no times

    @property
    def n_columns(self):
        """Measurements and inputs of a row."""
        return self.outputs.shape[1] + (0 if self.inputs is None else self.inputs.shape[1])

    @property
    def is_quick(self):
        """Whether it is asked about so few rows that no other thread or process is worth its while."""
        return self.monitored is not None and getattr(self.monitored, "is_short", False)

    @property
    def n_bytes(self):
        """Of the record, in all forms of it."""
        parts = self.outputs, self.inputs, self.home, self.measured, self.taken_off
        return sum(part.nbytes for part in parts if part is not None)

    @property
    def may_go_elsewhere(self):
        """Whether all of it can be sent to another process and does the same there: no classes of the user's own."""
        return type(self.client) is KalmanClient and self.augmenter is None

    def handle(self, packet, state):
        """The answer to a packet and the state after it; PacketError if it is unknown or out of turn."""
        op = packet.op
        handler = handler_of(op)
        if handler is None:
            raise PacketError(f"Unit {self.name!r} does not know the operation {op!r}.")
        kind = KINDS[op]
        if not kind.OPENS and "client" not in state:
            raise PacketError(f"Unit {self.name!r} got {op!r} before it was asked for a message.")
        if packet.round < state.get("round", 0):
            raise PacketError(
                f"Unit {self.name!r} got {op!r} of round {packet.round}, but is in round {state['round']} already."
            )
        dtype = packet.scalars.get("dtype", "float64" if kind.OPENS else state.get("dtype", "float64"))
        if handler.sets_precision:
            state = {**state, "dtype": dtype}
        whole = kind.OPENS or kind is requests.CommonRows  # rows that are left out are named by those of the record
        unit = self if whole or "rows" not in state else self._at(*state["rows"])
        try:
            message, state = handler.answer(unit.off_baseline(state), kind.from_packet(packet), state, packet.round)
        except PacketError as error:
            if repr(self.name) in str(error):
                raise
            raise PacketError(f"Unit {self.name!r} cannot answer {op!r}. {error}") from error
        release_pages(self.outputs)
        return message.to_packet(packet.round, dtype), state

    def off_baseline(self, state):
        """The worker about what seasons, trend, modes and levels leave of the record; itself where there are none."""
        baseline = getattr(state.get("client"), "baseline_", None)
        if baseline is None or self.measured is not None:
            return self
        off = baseline.of(self.outputs, self.index, self.starts)[0]
        home = None if self.home is None else self.home - baseline.of(self.home, self.index, self.starts)[0]
        return replace(self, outputs=self.outputs - off, home=home, measured=self.outputs, taken_off=off)

    # -- messages about the record ---------------------------------------------------------------

    def _fit(self, wishes, state, round):
        """Identify the unit's model and send what the measurements say about the states."""
        if state.get("round") == round and state["previous"] is None:
            message, state = self._message(state["client"], None, state, round)
            return self.with_clock(message), state
        self._check_memory(wishes)
        first = {**self.first_state(), "wishes": wishes, "dtype": state["dtype"]}
        if wishes.sharp is False and self.noise is None:  # of a plant with inputs
            stops = stops_of(self.outputs)
            first["stops"] = stops if stops.size else None
        unit = replace(self, client=watched_client(self.client)) if wishes.monitor else self
        client = unit._status_client() if wishes.monitor else None
        client = unit.fitted() if client is None else client
        return unit.off_baseline({"client": client})._first_message(client, wishes, first, round)

    def _check_memory(self, wishes):
        """Refuse at a site what noise with a memory is of no use for."""
        has_inputs = wishes.orders or wishes.sharp is False
        asked = {"to be monitored": wishes.monitor, "for batches": wishes.fits, "beside inputs": has_inputs}
        named = [what for what, is_asked in asked.items() if is_asked]
        if named and getattr(self.client, "noise_memory", None):
            raise PacketError(
                f"Unit {self.name!r} was asked {' and '.join(named)}, and its client has `noise_memory`, which only "
                "helps a FederatedGrangerEstimator to learn links from whole records. Leave noise_memory out there."
            )

    def _status_client(self):
        """Model of a watched unit of nothing but status bits, None of any other."""
        from .dither import dithered_client  # of units that are watched

        return dithered_client(self.client, self._about, fitted_client)

    def _first_message(self, client, wishes, first, round):
        """What a unit sends about its record once its model is learned."""
        if wishes.monitor:
            if not self.monitor:
                raise PacketError(f"Unit {self.name!r} is not to be monitored: its settings do not say `watch = true`.")
            client = self._learn_nominal(client, first)
        if (wishes.own_past or wishes.refine) and self.noise is None and isinstance(client, UnitClient):
            first["alone"] = unit_model.is_likelier_alone(client, self.outputs, self.inputs, self.starts)
            first["refines"] = bool(wishes.refine) and first["alone"] and client.model.n_states < len(client.model.C)
        if (wishes.sharp or wishes.refine) and not wishes.orders and not wishes.monitor and self.inputs is None:
            first["wanders"] = self._wanders(client)
        if self._is_sharp(wishes, first):
            client = self._noiseless(client)
        if wishes.fits:
            first["fit"] = self._fit_of(client)
        message, state = self._message(client, None, first, round)
        if wishes.orders and self._may_grow(client):
            message = replace(message, open_order=True)
        return self.with_clock(self._with_sketch(message, wishes, client, first)), state

    def _is_sharp(self, wishes, state):
        """Whether the unit is asked for states without noise, its own past knows better and nothing is watched."""
        return bool(wishes.sharp) and not wishes.monitor and bool(state.get("alone"))

    def _noiseless(self, client):
        """The client without noise of its states, where its loadings and noise were learned at home."""
        own, (d, p) = self.client, client.model.C.shape
        is_learned = isinstance(own, KalmanClient) and own.R is None and own.C is None and p <= d
        is_moved = client.model.variance is not None  # its own past follows levels that shift; the server finds them
        if not is_learned or is_moved or client.noise_memory_:
            return client
        if p < d and client.model.remainder is None:
            return client
        from .orders import noiseless  # of units that a model with noise of sensors is none of

        return noiseless(client, self.outputs, self.starts, self.inputs)

    def _with_sketch(self, message, wishes, client, state):
        """A message with a sketch of what the states leave of sensors, of a unit that may make some states."""
        if not self._may_share(wishes, client, state):
            return message
        from .orders import sketch

        return replace(message, sketch=sketch(client, self.outputs, self.starts))

    def _learn_nominal(self, client, first):
        """The client with a monitor; `first` gets all that a watched unit knows of nominal rows."""
        from .blame import TagModel  # of units that are watched

        client, first["monitor"] = monitored(client, self.outputs, self.starts, self._resized)
        first["tags"] = TagModel.learn(self.outputs, self.starts)
        if self.noise is None:  # which leaves no value as it was
            from .habits import Habits  # of units that are watched

            known = () if getattr(client, "baseline_", None) is None else client.baseline_.known
            first["habits"] = Habits.learn(self._as_measured, self.starts, known)
        return client

    def _fit_of(self, client):
        """How well the model of the unit explains its record; None where that would tell of values, or is not known."""
        if self.noise is not None or not isinstance(client, UnitClient):
            return None
        from .lasting import fit_of  # of units that learn batch by batch

        return fit_of(client, self.outputs, self.inputs, self.starts)

    def _with_fit(self, message, state):
        """A message that says whether the model of the unit fits no longer."""
        from .lasting import is_outdated

        return replace(message, outdated=is_outdated(state.get("fit"), self._fit_of(state["client"])))

    def with_clock(self, message):
        """A first message with the times of its rows, where they are known."""
        return message if self.clock is None else replace(message, clock=self.clock.numbers, grid=self.clock.digest)

    def _keep_common(self, told, state, round):
        """Leave out rows that not all units have: from here on every question is about the others."""
        grid = Clock.of_message(told)
        rows = () if self.clock is None else self.clock.rows(grid)
        if len(rows) != sum(grid.lengths):
            raise PacketError(f"Unit {self.name!r} was asked for rows that it does not have: {grid.in_words()}.")
        return states.Acknowledgement(), {**state, "rows": (rows, grid)}

    def _at(self, rows, grid):
        """The unit with some of its rows."""
        by_row = ("outputs", "inputs", "home", "flags", "index", "taken_off", "measured")
        parts = {name: getattr(self, name) for name in by_row}
        parts = {name: None if part is None else part[rows] for name, part in parts.items()}
        return replace(self, starts=episode_starts(grid.lengths), clock=grid, **parts)

    def _may_grow(self, client):
        """Whether the unit may have more states than it found from its own record."""
        own = self.client
        if not isinstance(own, KalmanClient) or own.n_states != "auto" or own.C is not None or self.noise is not None:
            return False
        model = client.model
        # own_past: of a complete record; with gaps the test of more states is not sharp enough
        return model.n_states < len(model.C) and model.own_past is not None

    def _hear_inputs(self, told, state, round):
        """Look for more states, and better loadings, with the inputs of other units."""
        from .orders import client_told_inputs  # of plants with inputs

        if len(told.inputs) != len(self.outputs):
            raise PacketError(f"Unit {self.name!r} was told inputs of {len(told.inputs)} rows, not of its own.")
        client = client_told_inputs(self.client, state["client"], self._about, told.inputs)
        if client is None:
            return requests.OrderAnswer(False), state
        return requests.OrderAnswer(True), self._message(client, None, state, round)[1]

    def _may_share(self, wishes, client, state):
        """Whether the unit may make sensors states that others know of; one at least has to tell its noise."""
        if not (wishes.sketch and self._is_sharp(wishes, state) and self._may_grow(client) and client.model.has_room):
            return False
        from .orders import n_sketched

        return n_sketched(len(self.outputs)) > 0

    def _wanders(self, client):
        """Period from which on the unit's sensors wander, None where they stay or it is taken off or not known."""
        if not isinstance(client, KalmanClient) or self.noise is not None or client.noise_memory_:
            return None
        if getattr(client.baseline_, "moves", False):
            return None
        from .baseline import wander_period  # of units whose server asks

        period = wander_period(self.outputs, self.starts)
        return period if np.isfinite(period) else None

    def _take_sensors(self, told, state, round):
        """Make sensors states of their own, and send what the message before does not tell of these."""
        from .orders import client_with_sensors, sensor_states  # of units whose states leave more than noise

        previous = self._before(told, state, round)
        if not self._may_share(state["wishes"], previous, state):
            raise PacketError(f"Unit {self.name!r} sent no sketch of what its states leave of its sensors.")
        client = client_with_sensors(previous, self.outputs, self.starts, self.inputs, told.sensors)
        message, state = self._message(client, previous, state, round)
        return sensor_states(message, previous, client, self.outputs, told.sensors), state

    @property
    def _as_measured(self):
        """The record with its seasons and the like."""
        return self.outputs if self.measured is None else self.measured

    @property
    def _about(self):
        """What a unit's model is fitted with."""
        return self._as_measured, self.inputs, self.starts, self.name, self.columns, self.noise, self.index

    def fitted(self, client=None):
        """The unit's model learned from its record, by another template than its own if one is given."""
        return fitted_client(self.client if client is None else client, *self._about)

    def _resized(self, n_states):
        """The unit's model with another number of states."""
        return self.fitted(clone(self.client).set_params(n_states=n_states))

    def first_state(self):
        """What a unit notices of its own record; under privacy nothing, for it would tell of values."""
        return {} if self.noise is not None else {"silence": Silence.learn(self.outputs, self.starts)}

    def _refine(self, reply, state, round):
        """Re-estimate the unit's sensors from smoothed states and send the message again."""
        self._check_shape(reply.states, state)
        client = previous = self._before(reply, state, round)
        if isinstance(client, UnitClient) and state["wishes"].refine:
            state = {**state, "refines": unit_model.may_refine(client)}
            if state["refines"]:
                client = unit_model.refined(client, self.outputs, reply.states, reply.covariances)
        elif isinstance(client, UnitClient):
            client = unit_model.refined(client, self.outputs, reply.states, reply.covariances)
        return self._message(client, previous, state, round)

    def _before(self, told, state, round):
        """The unit's model before a round, which is the same where what is told comes again."""
        previous = state["previous"] if round == state["round"] else state["client"]
        if previous is None:
            raise PacketError(
                f"Unit {self.name!r} got {told.OP!r} in the round of its first message, {round}; it belongs to a "
                "later one."
            )
        return previous

    def _message(self, client, previous, kept, round):
        """Message of the unit's model about its record, and the state after it: `kept` brought up to date."""
        wishes, monitor = kept["wishes"], kept.get("monitor")
        refines = bool(kept.get("refines"))
        settings = {"inputs": self.inputs, "const": wishes.const or refines, "local_model": wishes.local_model}
        state = {**kept, "client": client, "previous": previous, "round": round}
        if monitor is None and isinstance(client, UnitClient):  # what every fit runs, without the other kinds
            message = client.message_about(self.outputs, self.starts, **settings)
        else:
            message = answers.unit_message(client, self.outputs, self.starts, monitor=monitor, **settings)
        if isinstance(client, UnitClient):
            state["loading_error"] = unit_model.loading_error(client, message)
        else:
            self._check_message(message)
        if kept.get("alone"):
            message = replace(message, gain_alone=unit_model.gain_alone(client, self.outputs, self.inputs, self.starts))
        if refines:
            kept_const = message.const if wishes.const else None
            message = replace(message, const=kept_const, rest=float(message.const.mean()))
        if kept.get("wanders"):
            message = replace(message, wanders=kept["wanders"])
        return message, {**state, "n_states": message.z.shape[1]}

    def _tell_of_record(self, wishes, state, round):
        """Message about the record by the model that the unit has."""
        Y = self.outputs
        if wishes.until is not None:
            Y = np.where(np.arange(len(Y))[:, None] >= wishes.until, np.nan, Y)
        settings = {"const": wishes.const, "local_model": wishes.local_model, "monitor": state.get("monitor")}
        message = answers.unit_message(state["client"], Y, self.starts, inputs=self.inputs, **settings)
        message = answers.with_events(message, state.get("habits"), self._as_measured, self.starts)[0]
        return self._with_fit(message, state) if wishes.fits else message, state

    def _tell_law(self, request, state, round):
        """Identify how the unit's inputs follow its measurements."""
        if self.inputs is None:
            raise PacketError(f"Unit {self.name!r} was asked for the law of its inputs, but has none.")
        loads = answers.loadings(state["client"], state["n_states"])
        varying = np.abs(loads).max(axis=1) > 0
        Y = self.outputs[:, varying]
        warn_of_determined_inputs(self.name, Y, self.inputs)
        return identify_law(Y, self.inputs, loads[varying], self.starts), state

    def _learn_from(self, reply, state, round):
        """Fit the augmenter to the influence the server reports."""
        self._check_shape(reply.cross_term, state)
        augmenter = as_augmenter(self.augmenter)
        self._fit_augmenter(augmenter, state["client"], reply)
        learned = {"augmenter": augmenter, "transition": reply.transition}
        if reply.input_matrix is not None:
            learned |= {"input_matrix": reply.input_matrix, "input_mean": column_means(self.inputs)}
        if reply.input_level is not None:  # phi in absolute inputs, as the second paper has it
            centred = getattr(state["client"], "center", True)  # else the constant holds the level of states too
            learned["phi"] = reply.input_level + (getattr(augmenter, "phi_", 0.0) if centred else 0.0)
        client = state["client"]
        if isinstance(client, UnitClient) and self.noise is None:
            client = unit_model.with_tails(client, self.outputs, self.inputs, self.starts, alone=bool(reply.alone))
        if reply.noise_share is not None:
            client = unit_model.with_noise_share(client, float(reply.noise_share[0]))
        learned["client"] = client
        return states.Acknowledgement(), {**state, **learned}

    def _fit_augmenter(self, augmenter, client, reply):
        n_states = len(reply.transition)
        told = reply.cross_term, reply.transition[:, :n_states], self.starts
        if isinstance(augmenter, LinearAugmenter) and isinstance(client, UnitClient):
            Y = client.active_columns(self.outputs)
            products = client.model.products
            if products is not None or answers.is_complete(Y):  # without a centred copy
                with config_context(assume_finite=True):
                    augmenter.fit(Y, *told, level=client.model.mean, products=products)
                return
        augmenter.fit(answers.local_features(client, self.outputs, self.inputs, self.starts, n_states), *told)

    # -- measurements that somebody asks for -----------------------------------------------------

    def _predict(self, request, state, round):
        """The unit's own one-step predictions of its sensors."""
        augmented = request.model == "augmented"
        if augmented and "augmenter" not in state:
            raise PacketError(f"Unit {self.name!r} has no augmenter: no reply of a server came to it.")
        values = answers.local_prediction(state, self.outputs, self.inputs, self.starts, augmented=augmented)
        return self._measured(self._put_back(values, state["client"])), state

    def _map_prediction(self, reply, state, round):
        """Expected measurements of states that the server predicts."""
        variance = None if reply.covariances is None else answers.forecast_variance(state["client"], reply)
        values = self._put_back(state["client"].measurements(reply.states), state["client"])
        return self._measured(values, variance), state

    def _map_effect(self, reply, state, round):
        """Map the effect of a change of inputs through the unit's own sensors."""
        n_states = state["n_states"] if "n_states" in state else state["client"].model.n_states
        self._check_effects(state["client"])
        if reply.states.shape[1] != n_states:
            raise PacketError(
                f"Unit {self.name!r} got an effect on {reply.states.shape[1]} states, but has {n_states}."
            )
        effect, variance = answers.mapped_effect(state, reply)
        state = {**state, "effect": effect, "effect_std": np.sqrt(variance)}
        if reply.keep:
            return states.Acknowledgement(), state
        return self._measured(effect, None if reply.covariances is None else variance), state

    def _replay(self, reply, state, round):
        """The record itself, with what is missing as expected given all messages."""
        self._check_effects(state["client"])
        values, variance = answers.factual(state["client"], self.outputs, reply)
        answer = self._measured(self._put_back(values, state["client"]), variance)
        return replace(answer, stops=state.get("stops")), state

    def _check_effects(self, client):
        """Refuse questions about measurements that quasi-differences do not answer."""
        if getattr(client, "noise_memory_", 0.0):
            raise PacketError(
                f"Forecasts, effects and replays need measurements, and the client of unit {self.name!r} has "
                "`noise_memory`: its states tell of differences of rows. Leave noise_memory out for these questions."
            )

    def _aggregate(self, request, state, round):
        """Effect of scaling the inputs of all other units together."""
        if "phi" not in state:
            raise PacketError(f"Unit {self.name!r} was told of no inputs of other units that moved in `fit`.")
        change = state["phi"] * (request.scale - 1)
        return self._measured((answers.loadings(state["client"], len(change)) @ change)[None]), state

    def _put_back(self, values, client):
        """Measurements of the last rows of the record, of all mostly, with seasons, trend, modes and levels."""
        if getattr(client, "noise_memory_", 0.0):
            if len(values) != len(self.outputs):  # the rows before those that are forecast are not to be looked at
                self._check_effects(client)
            return client.baseline_.put_back(values, self.measured, self.index, self.starts)
        return values if self.taken_off is None else values + self.taken_off[len(self.taken_off) - len(values) :]

    def _measured(self, values, variance=None):
        """Measurements by the names of the sensors, made from positions where they have none."""
        columns = self.columns
        if columns is None:
            columns = tuple(f"{self.name}__x{k}" for k in range(self.outputs.shape[1]))
        unknown = np.isnan(values).all(axis=0)
        if unknown.any():
            raise PacketError(
                f"Sensors {listed(np.array(columns)[unknown].tolist())} never reported in `fit`, so that nothing is "
                "known of them. Leave them out there."
            )
        return states.Measurements(values, variance, tuple(columns))

    # -- monitoring ------------------------------------------------------------------------------

    def _flag(self, request, state, round):
        """Learn what is nominal for the flags, or raise them."""
        if request.percentile is not None:
            about = (state, self.outputs) if self.home is None else (answers.own_record(state), self.home)
            flags = answers.learned_flags(*about, self.starts, request.percentile)
            return states.Acknowledgement(), {**state, "flags": flags}
        if "flags" not in state:
            raise PacketError(f"Unit {self.name!r} was asked for flags before it learned what is nominal.")
        flags = answers.flags_of(state, self.outputs, self.starts) if self.flags is None else self.flags
        return FlagMessage(flags), state

    def _monitor(self, wishes, state, round):
        """Message of the fitted model about the next batch of the record that is to be monitored."""
        if self.monitored is None:
            raise PacketError(f"Unit {self.name!r} has no record to be monitored.")
        try:
            message, place = next_message(self.name, state, self.monitored, wishes.batch, flags=wishes.flags)
        except ValueError as error:
            raise PacketError(f"Unit {self.name!r} cannot answer about a batch. {error}") from error
        if message is None:
            return requests.NothingYet(), state
        if wishes.fits:
            batch = self.monitored.batch(wishes.batch)
            unit = replace(
                self, outputs=batch.outputs, starts=batch.starts, index=batch.index, inputs=None, measured=None
            )
            message = unit.off_baseline(state)._with_fit(message, state)
        return message, {**state, "place": place, "record": place.record}

    def _hear_verdict(self, verdict, state, round):
        """Take note of incidents."""
        return states.Acknowledgement(), {**state, "verdict": verdict}

    # -- checks ----------------------------------------------------------------------------------

    def _check_message(self, message):
        """What a client of the user's own gave must be a message and survive its way."""
        about = f"The client of unit {self.name!r} gave a"
        if not isinstance(message, states.StateMessage):
            raise TypeError(f"{about} {type(message).__name__} as its message instead of a StateMessage.")
        try:
            came = states.StateMessage.from_packet(message.to_packet())
        except (TypeError, ValueError, IndexError, AttributeError) as error:
            raise ValueError(f"{about} message that cannot be used. {error}") from error
        if len(came.z) != len(self.outputs):
            raise ValueError(f"{about} message about {len(came.z)} rows for a record of {len(self.outputs)}.")

    def _check_shape(self, series, state):
        expected = (len(self.outputs), state["n_states"])
        if series.shape != expected:
            raise PacketError(
                f"Unit {self.name!r} got a series of shape {series.shape} back, but sent a message of shape {expected}."
            )


def watched_client(template):
    """The client without a profile by the clock: what a fault does hour by hour, or slowly, would go with it."""
    is_profiled = isinstance(template, KalmanClient) and template.profile is not None
    return clone(template).set_params(profile=None) if is_profiled else template


def fitted_client(template, Y, U, starts, name, columns, noise=None, index=None):
    """The unit's fitted model: a clone of a KalmanClient, or the unit's own object as it is."""
    if isinstance(template, KalmanClient):
        client = clone(template)
        client._validate_params()
        client.fit_arrays(Y, U, starts, f"unit {name!r}", columns, noise, index)
        if client.C is None:
            warn_few_rows(len(Y), len(client.model.C), client.n_states_, f"unit {name!r}")
        return client
    kind = f"The client of unit {name!r} is a {type(template).__name__}"
    if noise is not None:
        if not isinstance(template, ExtendedKalmanClient) or template.is_fitted:
            raise TypeError(
                f"{kind}. Only a KalmanClient, or an ExtendedKalmanClient that is not fitted yet, can be told how "
                "much noise a privacy mechanism added to its measurements; give it the model there."
            )
        return NonlinearClient(template, f"unit {name!r}").fit(Y, U, starts, columns).fitted_on(noise)
    if hasattr(template, "filter_moments") and not hasattr(template, "message"):
        behind = NonlinearClient if isinstance(template, ExtendedKalmanClient) else BlackBoxClient
        return behind(template, f"unit {name!r}").fit(Y, U, starts, columns)
    if not hasattr(template, "message"):
        raise TypeError(f"{kind} with neither `message(Y)` nor `filter_moments(Y)`. Give it one, or a KalmanClient.")
    lacking = [method for method in ("filter", "predict", "measurements") if not hasattr(template, method)]
    if lacking:
        raise TypeError(
            f"{kind} with `message`, but without {', '.join(lacking)}. Give it these methods of a "
            "KalmanClient too, or `filter_moments(Y)` instead of all of them."
        )
    if not hasattr(template, "fit"):
        return template  # a unit's own model, never fitted by us
    client = clone(template) if hasattr(template, "get_params") else deepcopy(template)
    client.fit(Y, **answers.along(Y, U, starts))
    return client


handles(requests.FitRequest, sets_precision=True)(UnitWorker._fit)
for _kind, _answer in {
    states.SmoothedReply: UnitWorker._refine,
    requests.RecordRequest: UnitWorker._tell_of_record,
    requests.CommonRows: UnitWorker._keep_common,
    requests.LawRequest: UnitWorker._tell_law,
    requests.InputsOfOthers: UnitWorker._hear_inputs,
    requests.SensorsAsStates: UnitWorker._take_sensors,
    states.StateReply: UnitWorker._learn_from,
    requests.PredictRequest: UnitWorker._predict,
    states.PredictionReply: UnitWorker._map_prediction,
    states.EffectReply: UnitWorker._map_effect,
    requests.FactualRequest: UnitWorker._replay,
    requests.AggregateRequest: UnitWorker._aggregate,
    FlagsRequest: UnitWorker._flag,
    WatchRequest: UnitWorker._monitor,
    VerdictReply: UnitWorker._hear_verdict,
}.items():
    handles(_kind)(_answer)
