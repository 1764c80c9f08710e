"""A unit's number of states and its sensors once more, with what other units know of them."""

import warnings
from copy import copy
from dataclasses import replace

import numpy as np

from ..message.packet import PacketError
from .identification import EDGE_SHARE, dynamics, noise_floor, unit_states
from .moments import Moments
from .shifts import without_shifts
from .worker import fitted_client


def client_told_inputs(template, client, about, others):
    """The unit's model identified with inputs of others, without these; None if they tell it nothing.

    They do where it has more states for them, none too faint for a record of this length, or as many and
    measurements that follow them: what inputs move is then not taken for noise of the states when loadings and
    sensor noise are found.
    """
    Y, U, starts, name, columns, noise, index = about
    own = 0 if U is None else U.shape[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # all of it was said of the first model
        known = fitted_client(
            template, Y, others if U is None else np.hstack([U, others]), starts, name, columns, noise, index
        )
    model, before = known.model, client.model
    if model.n_states == before.n_states:
        tells = model.own_past.evidence() > before.own_past.evidence()
    else:
        tells = model.n_states > before.n_states and _noise_of_states(model) < np.sqrt(len(Y)) / EDGE_SHARE
    if not tells:
        return None
    B, level = (model.B[:, :own], model.input_mean[:own]) if own else (None, None)
    known._keep(replace(model, B=B, input_mean=level, own_past=before.own_past), known._active, Y)
    return known


def _noise_of_states(model):
    """Largest variance of the states as one row shows them, over their own."""
    J = model.C.T @ (model.C / model.R[:, None])
    return 1 / max(np.linalg.eigvalsh(J)[0], np.finfo(float).tiny)


def unexplained(client, Y, starts):
    """What the states in a row and the unit's own rows before leave of every sensor, of unit variance."""
    model = client.model
    left, at = model.remainder.left(client.active_columns(Y), starts)
    found = np.zeros((len(Y), left.shape[1]))
    found[at] = left / np.sqrt(np.maximum((left**2).mean(axis=0), np.finfo(float).tiny))
    return found


def client_with_sensors(client, Y, starts, sensors):
    """The unit's model with some sensors as states of their own, without noise to speak of."""
    model, kept, sensors = client.model, client.active_columns(Y), np.unique(sensors)
    d, p = model.C.shape
    if not (len(sensors) and sensors[0] >= 0 and sensors[-1] < d and p + len(sensors) < d):
        raise PacketError(
            f"It was told to make its sensors {sensors.tolist()} states of their own; of {d} sensors {d - p - 1} at "
            "most may be."
        )
    level = None if client.center else model.mean
    moments = Moments(without_shifts(kept, starts) if level is None else kept, level, starts)
    C = np.hstack([model.C / moments.scale[:, None], np.eye(d)[:, sensors]])
    R = model.R / moments.scale**2
    R[sensors] = noise_floor(moments)[sensors]
    C = unit_states(moments, C, R)
    A, Q, _ = dynamics(moments, C, R)
    other = copy(client)
    other._keep(replace(model, A=A, C=C * moments.scale[:, None], Q=Q, R=R * moments.scale**2), client._active, Y)
    return other
