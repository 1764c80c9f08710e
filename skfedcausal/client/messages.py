"""A fitted unit's message about a record, whatever kind of client the unit has."""

import numpy as np

from ..message.states import StateMessage
from .filtering import message_of
from .kalman import KalmanClient


def unit_message(client, Y, starts, *, inputs=None, const=False, local_model=False):
    """Message of a fitted client about measurements, whatever kind of client it is."""
    if hasattr(client, "watched_message") and not (const or local_model):
        return client.watched_message(Y, starts)[0]
    wishes = {"const": const, "local_model": local_model}
    if isinstance(client, KalmanClient):
        return message_of(client.message_model, client.active_columns(Y), starts, inputs=inputs, **wishes)
    message = client.message(Y, **wishes, **along(Y, inputs, starts))
    about_these_rows = isinstance(message, StateMessage) and len(message.z) == len(Y)
    return message.with_inputs(inputs) if about_these_rows and message.inputs is None else message


def along(Y, inputs, starts):
    """Keywords of the methods of a KalmanClient beside the record."""
    lengths = tuple(int(k) for k in np.diff([*starts, len(Y)]))
    return {"lengths": lengths} if inputs is None else {"lengths": lengths, "inputs": inputs}


def stream_message(client, Y, starts, known=None):
    """Message about the next rows of a stream, and what the unit has to know for those after them.

    Parameters
    ----------
    client : object
        A fitted client.
    Y : ndarray of shape (n_samples, n_sensors)
    starts : tuple of int
    known : object, default=None
        What the rows before left; None before the first.

    Returns
    -------
    message : StateMessage
    known : object
    """
    if hasattr(client, "watched_message"):
        return client.watched_message(Y, starts, known)
    return unit_message(client, Y, starts), None
