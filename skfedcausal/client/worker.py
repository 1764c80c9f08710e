"""A unit's side of the federation: the only code that holds raw measurements while packets travel."""

import numpy as np
from sklearn import config_context
from sklearn.base import clone

from ..message.packet import NOTHING, Packet, PacketError
from ..message.states import (
    ACKNOWLEDGEMENT,
    LAW_REQUEST,
    REQUEST,
    WIRE_DTYPES,
    EffectReply,
    SmoothedReply,
    StateMessage,
    StateReply,
)
from ..message.watching import WATCH, VerdictReply
from . import network_training
from . import training as training
from .answers import is_complete, loading_error, loadings, local_features, mapped_effect, unit_message
from .augmenter import LinearAugmenter
from .batches import next_message
from .black_box import BlackBoxClient, NonlinearClient
from .extended_kalman import ExtendedKalmanClient
from .feedback_law import identify_law, warn_of_determined_inputs
from .kalman import KalmanClient
from .records import column_means, release_pages, warn_few_rows
from .training import unit_series


class UnitWorker:
    """Answers the server's packets from one unit's private data.

    State between packets, all of it kept at the site: ``client``, the fitted model, ``n_states`` and
    ``round`` of its last message and ``previous``, the model before that round; ``augmenter`` and
    what the server says about the unit's own blocks (``transition``, ``input_matrix`` and ``input_mean``,
    ``phi``) once a reply came; ``effect`` and ``effect_std``, the last answer about a change of inputs. A
    packet that comes again in its round is answered from `previous`, so that nothing counts twice, and a
    packet of an earlier round is refused. A new fit starts with an empty state. Where the unit stands in a
    watched record is ``place``, and which record that was so far ``record``.
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
        watched=None,
    ):
        self.name = name
        self._Y, self._U, self._starts = outputs, inputs, starts
        self._columns = columns
        self._client = client
        self._augmenter = augmenter
        self._noise = noise
        self._training_noise = training_noise
        self._watched = watched

    @property
    def n_columns(self):
        """Measurements and inputs of a row."""
        return self._Y.shape[1] + (0 if self._U is None else self._U.shape[1])

    def handle(self, packet, state):
        """Answer one packet."""
        operations = {
            REQUEST: self._fit,
            SmoothedReply.OP: self._refine,
            LAW_REQUEST: self._tell_law,
            WATCH: self._watch,
            VerdictReply.OP: self._hear_verdict,
            StateReply.OP: self._learn_from,
            EffectReply.OP: self._map_effect,
        }
        operations |= dict.fromkeys(training.OPERATIONS, self._train)
        if "networks" in state or packet.op in network_training.OUTSIDE:
            operations |= dict.fromkeys(network_training.OPERATIONS, self._train_network)
        if packet.op not in operations:
            raise PacketError(f"Unit {self.name!r} does not know the operation {packet.op!r}.")
        if packet.op not in (REQUEST, training.REQUEST) and "client" not in state:
            raise PacketError(f"Unit {self.name!r} got {packet.op!r} before it was asked for a message.")
        if packet.round < state.get("round", 0):
            raise PacketError(
                f"Unit {self.name!r} got {packet.op!r} of round {packet.round}, but is in round "
                f"{state['round']} already."
            )
        answer = operations[packet.op](packet, state)
        release_pages(self._Y)
        return answer

    def _fit(self, packet, state):
        """Identify the unit's model and send what the measurements say about the states."""
        if state.get("round") == packet.round and state["previous"] is None:
            return self._message(packet, state["client"], None, state)
        return self._message(packet, self._fitted_client(), None, {})

    def _fitted_client(self):
        return fitted_client(
            self._client, self._Y, self._U, self._starts, self.name, self._columns, self._noise
        )

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
        if isinstance(client, KalmanClient):
            client = client.refined(self._Y, reply.states, reply.covariances)
        return self._message(packet, client, previous, state if repeated else {})

    def _message(self, packet, client, previous, kept):
        """Message of the unit's model about its record, and the state after it: `kept` brought up to date."""
        dtype, wishes = self._wishes(packet)
        message = unit_message(client, self._Y, self._starts, inputs=self._U, **wishes)
        if not isinstance(client, KalmanClient):
            self._check_message(message)
        state = {"client": client, "previous": previous, "round": packet.round}
        if isinstance(client, KalmanClient):
            state["loading_error"] = loading_error(client, message)
        return message.to_packet(packet.round, dtype), {**kept, **state, "n_states": message.z.shape[1]}

    def _tell_law(self, packet, state):
        """Identify how the unit's inputs follow its measurements."""
        if self._U is None:
            raise PacketError(f"Unit {self.name!r} was asked for the law of its inputs, but has none.")
        loads = loadings(state["client"], state["n_states"])
        varying = np.abs(loads).max(axis=1) > 0
        warn_of_determined_inputs(self.name, self._Y[:, varying], self._U)
        law = identify_law(self._Y[:, varying], self._U, loads[varying], self._starts)
        return law.to_packet(packet.round), state

    def _watch(self, packet, state):
        """Message of the fitted model about the next batch of the record that is to be watched."""
        if self._watched is None:
            raise PacketError(f"Unit {self.name!r} has no record to be watched.")
        dtype, _ = self._wishes(packet)
        number = packet.scalars.get("batch", 1)
        try:
            message, place = next_message(state["client"], self._watched, number, state.get("place"))
        except ValueError as error:
            raise PacketError(f"Unit {self.name!r} cannot answer about a batch. {error}") from error
        if message is None:
            return Packet(NOTHING, packet.round), state
        kept = {**state, "place": place, "record": place.record}
        return message.to_packet(packet.round, dtype), kept

    def _hear_verdict(self, packet, state):
        """Take note of incidents."""
        return Packet(ACKNOWLEDGEMENT, packet.round), {**state, "verdict": VerdictReply.from_packet(packet)}

    def _train(self, packet, state):
        """Answer a packet of gradient training, with noise where the protocol adds it here."""
        answer, state = self._trained(packet, state)
        if self._training_noise is not None:
            answer = self._training_noise.noised(answer, state["training"])
        return answer, state

    def _trained(self, packet, state):
        """Answer as it stays at home; the first packet identifies the unit's model."""
        if packet.op != training.REQUEST:
            return training.answer(packet, state)
        client = self._fitted_client()
        if not isinstance(client, KalmanClient):
            raise TypeError(
                f"The client of unit {self.name!r} is a {type(self._client).__name__}. GradientServer needs "
                "the unit's A and C: give a KalmanClient, or use LikelihoodServer."
            )
        local = local_features(client, self._Y, self._U, self._starts)
        series = unit_series(client, self._Y, self._U, self._starts, local)
        return training.first_answer(packet, client, series, self.name)

    def _train_network(self, packet, state):
        """Answer a packet of the training of a nonlinear correction."""
        return network_training.answer(packet, state, self._augmenter, self._Y, self._starts)

    def _learn_from(self, packet, state):
        """Fit the augmenter to the influence the server reports."""
        reply = StateReply.from_packet(packet)
        self._check_shape(reply.cross_term, state)
        augmenter = clone(LinearAugmenter() if self._augmenter is None else self._augmenter)
        self._fit_augmenter(augmenter, state["client"], reply)
        learned = {"augmenter": augmenter, "transition": reply.transition}
        if reply.input_matrix is not None:
            learned |= {"input_matrix": reply.input_matrix, "input_mean": column_means(self._U)}
        if reply.input_level is not None:  # phi in absolute inputs, as the second paper has it
            learned["phi"] = reply.input_level + getattr(augmenter, "phi_", 0.0)
        if reply.noise_share is not None:
            learned["client"] = state["client"].with_noise_share(float(reply.noise_share[0]))
        return Packet(ACKNOWLEDGEMENT, packet.round), {**state, **learned}

    def _fit_augmenter(self, augmenter, client, reply):
        told = reply.cross_term, reply.transition, self._starts
        if isinstance(augmenter, LinearAugmenter) and isinstance(client, KalmanClient):
            Y = client.active_columns(self._Y)
            products = client.model.products
            if products is not None or is_complete(Y):  # without a centred copy
                with config_context(assume_finite=True):
                    augmenter.fit(Y, *told, level=client.model.mean, products=products)
                return
        augmenter.fit(local_features(client, self._Y, self._U, self._starts), *told)

    def _map_effect(self, packet, state):
        """Map the effect of a change of inputs through the unit's own sensors; the answer stays here."""
        reply = EffectReply.from_packet(packet)
        n_states = state["n_states"] if "n_states" in state else state["client"].model.n_states
        if reply.states.shape[1] != n_states:
            raise PacketError(
                f"Unit {self.name!r} got an effect on {reply.states.shape[1]} states, but has {n_states}."
            )
        effect, variance = mapped_effect(state, reply)
        state = {**state, "effect": effect, "effect_std": np.sqrt(variance)}
        return Packet(ACKNOWLEDGEMENT, packet.round), state

    def _wishes(self, packet):
        """Precision of the series and what the server wants besides the sufficient statistic."""
        dtype = packet.scalars.get("dtype", "float64")
        if dtype not in WIRE_DTYPES:
            raise PacketError(
                f"Unit {self.name!r} was asked for {dtype!r} numbers; it sends {', '.join(WIRE_DTYPES)}."
            )
        wishes = {name: packet.scalars.get(name, False) for name in ("const", "local_model")}
        for name, value in wishes.items():
            if not isinstance(value, bool):
                raise PacketError(
                    f"Unit {self.name!r} was asked for {name}={value!r}; it must be true or false."
                )
        return dtype, wishes

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
        raise TypeError(
            f"The client of unit {name!r} is a {type(template).__name__}. Only a KalmanClient can be told "
            "how much noise a privacy mechanism added to its measurements; give it C and R there."
        )
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
    return template
