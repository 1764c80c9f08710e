"""A unit's side of the federation: the only code that holds raw measurements while packets travel."""

import numpy as np
from sklearn.base import clone

from ..federation.packet import Packet, PacketError
from ..message import SmoothedReply, StateMessage, StateReply
from ..statespace.observation import information_from_filter
from . import training
from .augmenter import LinearAugmenter
from .kalman import KalmanClient, message_of


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
        Names of the sensors, for messages to the user.
    client : KalmanClient or object
        Template of the unit's model, cloned and fitted here. Any other object with ``message(Y)`` or
        ``filter_moments(Y)`` is the unit's own and used as it is.
    augmenter : LinearAugmenter or similar, default=None

    Notes
    -----
    State between packets: ``client``, the fitted model, and ``augmenter``. It stays at the site.
    """

    def __init__(self, name, outputs, inputs, starts, columns, client, augmenter=None):
        self.name = name
        self._Y, self._U, self._starts = outputs, inputs, starts
        self._columns = columns
        self._client = client
        self._augmenter = augmenter

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
        """
        if packet.op == "fit":
            return self._fit(packet, state)
        if packet.op == SmoothedReply.OP:
            return self._refine(packet, state)
        if packet.op == StateReply.OP:
            return self._learn_from(packet, state)
        if packet.op in training.OPERATIONS:
            return self._train(packet, state)
        raise PacketError(f"Unit {self.name!r} does not know the operation {packet.op!r}.")

    def _fit(self, packet, state):
        """Identify the unit's model and send what the measurements say about the states."""
        client = fitted_client(self._client, self._Y, self._U, self._starts, self.name, self._columns)
        message = unit_message(client, self._Y, self._starts, **_wishes(packet))
        answer = message.to_packet(packet.round, packet.scalars.get("dtype", "float64"))
        return answer, {**state, "client": client}

    def _refine(self, packet, state):
        """Re-estimate the unit's sensors from smoothed states and send the message again."""
        reply = SmoothedReply.from_packet(packet)
        client = state["client"]
        if isinstance(client, KalmanClient):
            client = client.refined(self._Y, reply.states, reply.covariances)
        message = unit_message(client, self._Y, self._starts, **_wishes(packet))
        answer = message.to_packet(packet.round, packet.scalars.get("dtype", "float64"))
        return answer, {**state, "client": client}

    def _train(self, packet, state):
        """Answer a packet of gradient training; the first one identifies the unit's model."""
        if packet.op == training.REQUEST:
            client = fitted_client(self._client, self._Y, self._U, self._starts, self.name, self._columns)
            if not isinstance(client, KalmanClient):
                raise TypeError(
                    f"The client of unit {self.name!r} is a {type(client).__name__}. GradientServer needs "
                    "the unit's A and C: give a KalmanClient, or use LikelihoodServer."
                )
            state = {**state, "client": client}

        def series():
            local = local_features(state["client"], self._Y, self._U, self._starts)
            return training.unit_series(state["client"], self._Y, self._U, self._starts, local)

        return training.answer(packet, state, series)

    def _learn_from(self, packet, state):
        """Fit the augmenter to the influence the server reports."""
        reply = StateReply.from_packet(packet)
        augmenter = clone(LinearAugmenter() if self._augmenter is None else self._augmenter)
        local = local_features(state["client"], self._Y, self._U, self._starts)
        augmenter.fit(local, reply.cross_term, reply.transition, self._starts)
        state = {**state, "augmenter": augmenter, "transition": reply.transition}
        return Packet("done", packet.round), state


def _wishes(packet):
    """What the server wants besides the sufficient statistic."""
    return {name: bool(packet.scalars.get(name, False)) for name in ("const", "local_model")}


def fitted_client(template, Y, U, starts, name, columns):
    """The unit's fitted model: a clone of a KalmanClient, or the unit's own object as it is."""
    if isinstance(template, KalmanClient):
        client = clone(template)
        client._validate_params()
        return client.fit_arrays(Y, U, starts, f"unit {name!r}", columns)
    if not (hasattr(template, "message") or hasattr(template, "filter_moments")):
        raise TypeError(
            f"The client of unit {name!r} is a {type(template).__name__} with neither `message(Y)` nor "
            "`filter_moments(Y)`. Give a KalmanClient or an object with one of them."
        )
    return template


def unit_message(client, Y, starts, *, const=False, local_model=False):
    """Message of a fitted client about measurements, whatever kind of client it is."""
    if isinstance(client, KalmanClient):
        return message_of(
            client.model, client.active_columns(Y), starts, const=const, local_model=local_model
        )
    lengths = tuple(int(k) for k in np.diff([*starts, len(Y)]))
    if hasattr(client, "message"):
        return client.message(Y, lengths=lengths, const=const, local_model=local_model)
    info = information_from_filter(*client.filter_moments(Y))
    return StateMessage(info.z, info.patterns, info.index, lengths)


def local_features(client, Y, U, starts):
    """Centred measurements with the missing ones replaced by their filtered expectation."""
    if not isinstance(client, KalmanClient):
        return np.nan_to_num(Y - np.nanmean(Y, axis=0))
    Y = client.active_columns(Y)
    model = client.model
    centred = Y - model.mean
    missing = np.isnan(centred)
    if missing.any():
        expected = model.filter(Y, U, starts) @ model.C.T
        centred[missing] = expected[missing]
    return centred


def local_prediction(site, Y, U, starts, *, augmented):
    """Measurements predicted one step ahead by what a unit has at home.

    Parameters
    ----------
    site : dict
        The unit's state: ``client`` and, for the augmented model, ``augmenter`` and ``transition``.
    Y : ndarray of shape (n_samples, n_sensors)
    U : ndarray of shape (n_samples, n_inputs) or None
    starts : tuple of int
    augmented : bool
        Add the augmenter's guess of the other units' influence to the unit's own prediction.

    Returns
    -------
    ndarray of shape (n_samples, n_sensors)
    """
    client = site["client"]
    if not augmented:
        return (
            client.predict(Y)
            if not isinstance(client, KalmanClient)
            else client.measurements(client.model.predict(client.active_columns(Y), U, starts))
        )
    filtered = (
        client.filter(Y)
        if not isinstance(client, KalmanClient)
        else client.model.filter(client.active_columns(Y), U, starts)
    )
    states = np.empty_like(filtered)
    np.dot(filtered[:-1], site["transition"].T, out=states[1:])
    states[list(starts)] = 0.0
    states += site["augmenter"].predict(local_features(client, Y, U, starts), starts)
    return client.measurements(states)
