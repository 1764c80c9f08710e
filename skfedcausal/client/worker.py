"""A unit's side of the federation: the only code that holds raw measurements while packets travel."""

from copy import deepcopy

import numpy as np
from sklearn import config_context
from sklearn.base import clone

from ..message.packet import PacketError
from ..message.requests import (
    Acknowledgement,
    AggregateRequest,
    FactualRequest,
    FitRequest,
    FlagsRequest,
    LawRequest,
    LossAnswer,
    LossRequest,
    Measurements,
    NothingYet,
    PredictRequest,
    RecordRequest,
    WatchRequest,
)
from ..message.states import (
    EffectReply,
    PredictionReply,
    SmoothedReply,
    StateMessage,
    StateReply,
)
from ..message.watching import FlagMessage, VerdictReply
from . import network_training, training
from .answers import (
    along,
    factual,
    flags_of,
    is_complete,
    learned_flags,
    loadings,
    local_features,
    local_prediction,
    mapped_effect,
    own_record,
    unit_message,
)
from .augmenter import LinearAugmenter, as_augmenter
from .batches import next_message
from .black_box import BlackBoxClient, NonlinearClient
from .extended_kalman import ExtendedKalmanClient
from .feedback_law import identify_law, warn_of_determined_inputs
from .kalman import KalmanClient
from .monitor import monitored
from .records import Silence, column_means, release_pages, warn_few_rows
from .unit_model import UnitClient, loading_error

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
    "dtype",
)


class UnitWorker:
    """Answers the server's packets from one unit's private data.

    Parameters
    ----------
    name : str
    outputs : ndarray of shape (n_samples, n_sensors)
    inputs : ndarray of shape (n_samples, n_inputs) or None
    starts : tuple of int
        First row of each episode.
    columns : tuple of str
        Names of the sensors.
    client : KalmanClient or object
        Template of the unit's model, cloned and fitted here, see :class:`~skfedcausal.UnitClient`.
    augmenter : Augmenter or regressor, default=None
    noise : ndarray of shape (n_sensors,), default=None
        Variance of the noise that a privacy mechanism added to `outputs`; None if there is none.
    training_noise : PaperNoise, default=None
        Noise that the unit adds to its messages of training.
    monitored : Batches or similar, default=None
        Another record to be monitored for faults: an object whose ``batch(number)``, counted from 1, is a
        :class:`~skfedcausal.client.batches.Batch`, None where there is none yet.
    monitor : bool, default=True
        Whether the server may ask for what the unit's states do not show.
    home : ndarray of shape (n_samples, n_sensors), default=None
        The record without noise, for flags that are randomised before they leave; None: `outputs`.
    flags : ndarray of bool of shape (n_samples, 2), default=None
        What is answered when flags are asked for; None: the unit looks.

    Notes
    -----
    State between packets, all of it kept at the site: ``client``, the fitted model, ``n_states`` and
    ``round`` of its last message and ``previous``, the model before that round; ``silence``; ``augmenter``
    and what the server says about the unit's own blocks (``transition``, ``input_matrix`` and ``input_mean``,
    ``phi``) once a reply came; ``effect`` and ``effect_std``, the last answer about a change of inputs;
    ``flags``, what is nominal for them. A packet that comes again in its round is answered from `previous`,
    so that nothing counts twice, and a packet of an earlier round is refused. A new fit starts with an empty
    state. Where the unit stands in a monitored record is ``place``, and which record that was ``record``.
    """

    def __init__(
        self,
        name,
        outputs,
        inputs,
        starts,
        columns,
        client,
        augmenter=None,
        noise=None,
        training_noise=None,
        monitored=None,
        *,
        monitor=True,
        home=None,
        flags=None,
    ):
        self.name = name
        self._Y, self._U, self._starts = outputs, inputs, starts
        self._columns = columns
        self._client = client
        self._augmenter = augmenter
        self._noise = noise
        self._about = outputs, inputs, starts, name, columns, noise
        self._training_noise = training_noise
        self._monitored = monitored
        self._may_monitor, self._home, self._flags = monitor, home, flags

    @property
    def n_columns(self):
        """Measurements and inputs of a row."""
        return self._Y.shape[1] + (0 if self._U is None else self._U.shape[1])

    @property
    def record(self):
        """Measurements, inputs and first rows of episodes, for a machine that may pool them."""
        return self._Y, self._U, self._starts

    def handle(self, packet, state):
        """Answer one packet.

        Parameters
        ----------
        packet : Packet
        state : dict

        Returns
        -------
        answer : Packet
        state : dict

        Raises
        ------
        PacketError
            If the packet is of an unknown kind, out of turn or not about this unit's record.
        """
        op = packet.op
        answer = _ANSWERS.get(op)
        if op in training.OPERATIONS:
            answer = UnitWorker._train
        if op in network_training.OUTSIDE or ("networks" in state and op in network_training.OPERATIONS):
            answer = UnitWorker._train_network
        if answer is None:
            raise PacketError(f"Unit {self.name!r} does not know the operation {op!r}.")
        if op not in (FitRequest.OP, training.REQUEST) and "client" not in state:
            raise PacketError(f"Unit {self.name!r} got {op!r} before it was asked for a message.")
        if packet.round < state.get("round", 0):
            raise PacketError(
                f"Unit {self.name!r} got {op!r} of round {packet.round}, but is in round "
                f"{state['round']} already."
            )
        try:
            answered = answer(self, packet, state)
        except PacketError as error:
            if repr(self.name) in str(error):
                raise
            raise PacketError(f"Unit {self.name!r} cannot answer {op!r}. {error}") from error
        release_pages(self._Y)
        return answered

    # -- messages about the record ---------------------------------------------------------------

    def _fit(self, packet, state):
        """Identify the unit's model and send what the measurements say about the states."""
        if state.get("round") == packet.round and state["previous"] is None:
            return self._message(packet, state["client"], None, state)
        wishes = FitRequest.from_packet(packet)
        first = {**self._first_state(), "wishes": wishes, "dtype": packet.scalars.get("dtype", "float64")}
        client = fitted_client(self._client, *self._about)
        if wishes.monitor:
            if not self._may_monitor:
                raise PacketError(
                    f"Unit {self.name!r} is not to be monitored: its settings do not say `watch = true`."
                )
            client, first["monitor"] = monitored(client, self._Y, self._starts, self._resized)
        return self._message(packet, client, None, first)

    def _resized(self, n_states):
        """The unit's model with another number of states."""
        return fitted_client(clone(self._client).set_params(n_states=n_states), *self._about)

    def _first_state(self):
        """What a unit notices of its own record; under privacy nothing, for it would tell of values."""
        return {} if self._noise is not None else {"silence": Silence.learn(self._Y, self._starts)}

    def _refine(self, packet, state):
        """Re-estimate the unit's sensors from smoothed states and send the message again."""
        reply = SmoothedReply.from_packet(packet)
        self._check_shape(reply.states, state)
        repeated = packet.round == state["round"]
        previous = state["previous"] if repeated else state["client"]
        if previous is None:
            raise PacketError(
                f"Unit {self.name!r} got {packet.op!r} in the round of its first message, {packet.round}; "
                "it belongs to a later one."
            )
        client = previous
        if isinstance(client, UnitClient):
            client = client.refined(self._Y, reply.states, reply.covariances)
        return self._message(packet, client, previous, state)

    def _message(self, packet, client, previous, kept):
        """Message of the unit's model about its record, and the state after it: `kept` brought up to date."""
        wishes, monitor = kept["wishes"], kept.get("monitor")
        settings = {"inputs": self._U, "const": wishes.const, "local_model": wishes.local_model}
        state = {"client": client, "previous": previous, "round": packet.round}
        if monitor is None and isinstance(client, UnitClient):
            message = client.message_about(self._Y, self._starts, **settings)
        else:
            message = unit_message(client, self._Y, self._starts, monitor=monitor, **settings)
        if isinstance(client, UnitClient):
            state["loading_error"] = loading_error(client, message)
        else:
            self._check_message(message)
        state["n_states"] = message.z.shape[1]
        return message.to_packet(packet.round, kept["dtype"]), {**kept, **state}

    def _tell_of_record(self, packet, state):
        """Message about the record by the model that the unit has."""
        wishes, Y = RecordRequest.from_packet(packet), self._Y
        if wishes.until is not None:
            Y = np.where(np.arange(len(Y))[:, None] >= wishes.until, np.nan, Y)
        settings = {"const": wishes.const, "local_model": wishes.local_model, "monitor": state.get("monitor")}
        message = unit_message(state["client"], Y, self._starts, inputs=self._U, **settings)
        return message.to_packet(packet.round, packet.scalars.get("dtype", "float64")), state

    def _tell_law(self, packet, state):
        """Identify how the unit's inputs follow its measurements."""
        if self._U is None:
            raise PacketError(f"Unit {self.name!r} was asked for the law of its inputs, but has none.")
        loads = loadings(state["client"], state["n_states"])
        varying = np.abs(loads).max(axis=1) > 0
        warn_of_determined_inputs(self.name, self._Y[:, varying], self._U)
        law = identify_law(self._Y[:, varying], self._U, loads[varying], self._starts)
        return law.to_packet(packet.round), state

    # -- training --------------------------------------------------------------------------------

    def _train(self, packet, state):
        """Answer a packet of gradient training, with noise where the protocol adds it here."""
        if packet.op == training.REQUEST:
            answer, state = self._first_of_training(packet)
        else:
            answer, state = training.answer(packet, state)
        if self._training_noise is not None:
            answer = self._training_noise.noised(answer, state["training"])
        return answer, state

    def _first_of_training(self, packet):
        """Identify the unit's model and tell of it."""
        if self._augmenter is not None:
            raise TypeError(
                f"GradientServer trains the correction theta y + phi of unit {self.name!r} itself and has no "
                f"use for augmenter={self._augmenter!r}. Leave it out, or use LikelihoodServer."
            )
        client = fitted_client(self._client, *self._about)
        if not isinstance(client, UnitClient):
            raise TypeError(
                f"The client of unit {self.name!r} is a {type(self._client).__name__}. GradientServer needs "
                "the unit's A and C: give a KalmanClient, or use LikelihoodServer."
            )
        local = local_features(client, self._Y, self._U, self._starts)
        series = training.unit_series(client, self._Y, self._U, self._starts, local)
        answer, state = training.first_answer(packet, client, series, self.name)
        return answer, {**self._first_state(), **state}

    def _train_network(self, packet, state):
        """Answer a packet of the training of a nonlinear correction."""
        return network_training.answer(packet, state, self._augmenter, self._Y, self._starts)

    def _learn_from(self, packet, state):
        """Fit the augmenter to the influence the server reports."""
        reply = StateReply.from_packet(packet)
        self._check_shape(reply.cross_term, state)
        augmenter = as_augmenter(self._augmenter)
        self._fit_augmenter(augmenter, state["client"], reply)
        learned = {"augmenter": augmenter, "transition": reply.transition}
        if reply.input_matrix is not None:
            learned |= {"input_matrix": reply.input_matrix, "input_mean": column_means(self._U)}
        if reply.input_level is not None:  # E sum_n B_mn u_n; the augmenter's constant holds states too
            learned["phi"] = reply.input_level
        if reply.noise_share is not None:
            learned["client"] = state["client"].with_noise_share(float(reply.noise_share[0]))
        return Acknowledgement().to_packet(packet.round), {**state, **learned}

    def _fit_augmenter(self, augmenter, client, reply):
        told = reply.cross_term, reply.transition, self._starts
        if isinstance(augmenter, LinearAugmenter) and isinstance(client, UnitClient):
            Y = client.active_columns(self._Y)
            products = client.model.products
            if products is not None or is_complete(Y):  # without a centred copy
                with config_context(assume_finite=True):
                    augmenter.fit(Y, *told, level=client.model.mean, products=products)
                return
        n_states = len(reply.transition)
        augmenter.fit(local_features(client, self._Y, self._U, self._starts, n_states), *told)

    # -- measurements that somebody asks for -----------------------------------------------------

    def _predict(self, packet, state):
        """The unit's own one-step predictions of its sensors."""
        model = PredictRequest.from_packet(packet).model
        if model == "augmented" and "augmenter" not in state:
            raise PacketError(f"Unit {self.name!r} has no augmenter: no reply of a server came to it.")
        values = local_prediction(state, self._Y, self._U, self._starts, augmented=model == "augmented")
        return self._measured(packet, state, values), state

    def _map_prediction(self, packet, state):
        """Expected measurements of states that the server predicts."""
        reply = PredictionReply.from_packet(packet)
        return self._measured(packet, state, state["client"].measurements(reply.states)), state

    def _map_effect(self, packet, state):
        """Map the effect of a change of inputs through the unit's own sensors."""
        reply = EffectReply.from_packet(packet)
        n_states = state["n_states"] if "n_states" in state else state["client"].model.n_states
        if reply.states.shape[1] != n_states:
            raise PacketError(
                f"Unit {self.name!r} got an effect on {reply.states.shape[1]} states, but has {n_states}."
            )
        effect, variance = mapped_effect(state, reply)
        answer = self._measured(packet, state, effect, None if reply.covariances is None else variance)
        return answer, {**state, "effect": effect, "effect_std": np.sqrt(variance)}

    def _replay(self, packet, state):
        """The record itself, with what is missing as expected given all messages."""
        reply = FactualRequest.from_packet(packet)
        return self._measured(packet, state, *factual(state["client"], self._Y, reply)), state

    def _aggregate(self, packet, state):
        """Effect of scaling the inputs of all other units together."""
        if "phi" not in state:
            raise PacketError(f"Unit {self.name!r} was told of no inputs of other units that moved in `fit`.")
        change = state["phi"] * (AggregateRequest.from_packet(packet).scale - 1)
        return self._measured(packet, state, (loadings(state["client"], len(change)) @ change)[None]), state

    def _measured(self, packet, state, values, variance=None):
        dtype = packet.scalars.get("dtype", state.get("dtype", "float64"))
        return Measurements(values, variance, self._names).to_packet(packet.round, dtype)

    @property
    def _names(self):
        """Names of the sensors, made from positions where they have none."""
        if self._columns is None:
            return tuple(f"{self.name}__x{k}" for k in range(self._Y.shape[1]))
        return tuple(self._columns)

    def _tell_losses(self, packet, state):
        """Losses of gradient training on the record."""
        reply = LossRequest.from_packet(packet)
        client = state["client"]
        local = local_features(client, self._Y, self._U, self._starts)
        series = training.unit_series(client, self._Y, self._U, self._starts, local)
        states, loss = training.augmented_losses(state, series, series.rows)
        distance = reply.states[series.rows] - states
        answer = LossAnswer(float(loss), float(np.mean((distance**2).sum(axis=1))))
        return answer.to_packet(packet.round), state

    # -- monitoring ------------------------------------------------------------------------------

    def _flag(self, packet, state):
        """Learn what is nominal for the flags, or raise them."""
        percentile = FlagsRequest.from_packet(packet).percentile
        if percentile is not None:
            about = (state, self._Y) if self._home is None else (own_record(state), self._home)
            flags = learned_flags(*about, self._starts, percentile)
            return Acknowledgement().to_packet(packet.round), {**state, "flags": flags}
        if "flags" not in state:
            raise PacketError(f"Unit {self.name!r} was asked for flags before it learned what is nominal.")
        pairs = flags_of(state, self._Y, self._starts) if self._flags is None else self._flags
        return FlagMessage(pairs).to_packet(packet.round), state

    def _monitor(self, packet, state):
        """Message of the fitted model about the next batch of the record that is to be monitored."""
        if self._monitored is None:
            raise PacketError(f"Unit {self.name!r} has no record to be monitored.")
        wishes = WatchRequest.from_packet(packet)
        try:
            message, place = next_message(self.name, state, self._monitored, wishes.batch, flags=wishes.flags)
        except ValueError as error:
            raise PacketError(f"Unit {self.name!r} cannot answer about a batch. {error}") from error
        if message is None:
            return NothingYet().to_packet(packet.round), state
        kept = {**state, "place": place, "record": place.record}
        return message.to_packet(packet.round, packet.scalars.get("dtype", "float64")), kept

    def _hear_verdict(self, packet, state):
        """Take note of incidents."""
        state = {**state, "verdict": VerdictReply.from_packet(packet)}
        return Acknowledgement().to_packet(packet.round), state

    # -- checks ----------------------------------------------------------------------------------

    def _check_message(self, message):
        """What a client of the user's own gave must be a message and survive its way."""
        if not isinstance(message, StateMessage):
            raise TypeError(
                f"The client of unit {self.name!r} gave a {type(message).__name__} as its message instead of "
                "a StateMessage."
            )
        try:
            came = StateMessage.from_packet(message.to_packet())
        except (TypeError, ValueError, IndexError, AttributeError) as error:
            raise ValueError(
                f"The client of unit {self.name!r} gave a message that cannot be used. {error}"
            ) from error
        if len(came.z) != len(self._Y):
            raise ValueError(
                f"The client of unit {self.name!r} gave a message about {len(came.z)} rows for a record of "
                f"{len(self._Y)}."
            )

    def _check_shape(self, series, state):
        expected = (len(self._Y), state["n_states"])
        if series.shape != expected:
            raise PacketError(
                f"Unit {self.name!r} got a series of shape {series.shape} back, but sent a message of shape "
                f"{expected}."
            )


def fitted_client(template, Y, U, starts, name, columns, noise=None):
    """The unit's fitted model: a clone of a KalmanClient, or the unit's own object as it is."""
    if isinstance(template, KalmanClient):
        client = clone(template)
        client._validate_params()
        client.fit_arrays(Y, U, starts, f"unit {name!r}", columns, noise)
        if client.C is None:
            warn_few_rows(len(Y), len(client.model.C), client.n_states_, f"unit {name!r}")
        return client
    if noise is not None:
        if not isinstance(template, ExtendedKalmanClient) or template.is_fitted:
            raise TypeError(
                f"The client of unit {name!r} is a {type(template).__name__}. Only a KalmanClient, or an "
                "ExtendedKalmanClient that is not fitted yet, can be told how much noise a privacy mechanism "
                "added to its measurements; give it the model there."
            )
        return NonlinearClient(template, f"unit {name!r}").fit(Y, U, starts, columns).fitted_on(noise)
    if isinstance(template, ExtendedKalmanClient):
        template = NonlinearClient(template)
    if isinstance(template, NonlinearClient):
        return type(template)(template.box, f"unit {name!r}").fit(Y, U, starts, columns)
    if hasattr(template, "filter_moments") and not hasattr(template, "message"):
        return BlackBoxClient(template, f"unit {name!r}").fit(Y, U, starts, columns)
    kind = f"The client of unit {name!r} is a {type(template).__name__}"
    if not hasattr(template, "message"):
        raise TypeError(
            f"{kind} with neither `message(Y)` nor `filter_moments(Y)`. Give a KalmanClient or an object "
            "with one of them."
        )
    lacking = [method for method in ("filter", "predict", "measurements") if not hasattr(template, method)]
    if lacking:
        raise TypeError(
            f"{kind} with `message`, but without {', '.join(lacking)}. Give it these methods of a "
            "KalmanClient too, or `filter_moments(Y)` instead of all of them."
        )
    if not hasattr(template, "fit"):
        return template  # a unit's own model, never fitted by us
    client = clone(template) if hasattr(template, "get_params") else deepcopy(template)
    client.fit(Y, **along(Y, U, starts))
    return client


_ANSWERS = {
    FitRequest.OP: UnitWorker._fit,
    SmoothedReply.OP: UnitWorker._refine,
    RecordRequest.OP: UnitWorker._tell_of_record,
    LawRequest.OP: UnitWorker._tell_law,
    StateReply.OP: UnitWorker._learn_from,
    PredictRequest.OP: UnitWorker._predict,
    PredictionReply.OP: UnitWorker._map_prediction,
    EffectReply.OP: UnitWorker._map_effect,
    FactualRequest.OP: UnitWorker._replay,
    AggregateRequest.OP: UnitWorker._aggregate,
    LossRequest.OP: UnitWorker._tell_losses,
    FlagsRequest.OP: UnitWorker._flag,
    WatchRequest.OP: UnitWorker._monitor,
    VerdictReply.OP: UnitWorker._hear_verdict,
}
