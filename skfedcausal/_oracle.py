"""The central machine that federation is measured against: all raw measurements in one place."""

import numpy as np
from scipy.linalg import block_diag

from .client.kalman import KalmanClient
from .message import StateMessage
from .statespace.observation import information


def pooled_messages(clients, data):
    """The units' statistics computed from one pooled table with one pooled observation model.

    Parameters
    ----------
    clients : dict of str to KalmanClient
        Fitted unit models; they only provide C, R and the level.
    data : PlantData

    Returns
    -------
    dict of str to StateMessage
    """
    for name, client in clients.items():
        if not isinstance(client, KalmanClient):
            raise TypeError(
                f"The client of unit {name!r} is a black box: without its C and R its raw measurements "
                "cannot be pooled, so there is no oracle to compare with."
            )
    models = [clients[name].model for name in data.names]
    Y = np.concatenate(
        [clients[name].active_columns(Y) for name, Y in zip(data.names, data.outputs, strict=True)],
        axis=1,
    )
    C = block_diag(*[model.C for model in models])
    mean = np.concatenate([model.mean for model in models])
    if all(model.R.ndim == 1 for model in models):
        R = np.concatenate([model.R for model in models])
    else:
        R = block_diag(*[np.diag(m.R) if m.R.ndim == 1 else m.R for m in models])
    info = information(Y - mean, C, R, with_const=True)
    messages, first = {}, 0
    for k, (name, model) in enumerate(zip(data.names, models, strict=True)):
        rows = slice(first, first + model.n_states)
        messages[name] = StateMessage(
            np.ascontiguousarray(info.z[:, rows]),
            np.ascontiguousarray(info.patterns[:, rows, rows]),
            info.index,
            data.lengths,
            info.const if k == 0 else np.zeros(len(Y)),  # of the pooled table, counted once
            model.A,
            model.Q,
        ).with_inputs(data.inputs[k], model.B)
        first = rows.stop
    return messages
