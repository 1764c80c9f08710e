"""The central machine that federation is measured against: all raw measurements in one place."""

import numpy as np
from scipy.linalg import block_diag

from ..client.answers import local_features
from ..client.kalman import KalmanClient
from ..client.training import UnitTraining, advanced, unit_series
from ..message.states import StateMessage
from ..server.gradient.state import Plant
from ..statespace.observation import information


def pooled_messages(clients, data):
    """The units' statistics computed from one pooled table with one pooled observation model."""
    for name, client in clients.items():
        if not isinstance(client, KalmanClient):
            raise TypeError(
                f"The client of unit {name!r} is a black box: without its C and R its raw measurements "
                "cannot be pooled, so there is no oracle to compare with."
            )
    models = [clients[name].message_model for name in data.names]
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
            unpredicted=model.unpredicted_states() if info.is_constant else None,
        ).with_inputs(data.inputs[k], model.B)
        first = rows.stop
    return messages


class PooledTraining:
    """Gradient training by somebody who holds all raw measurements: no message is sent."""

    def __init__(self, sites):
        self._sites = sites

    def __call__(self, replies):
        """What the units would have answered to the server's replies."""
        messages = {}
        for name, reply in replies.items():
            state = self._sites[name].state
            state["training"], messages[name] = advanced(state["training"], reply)
        return messages


def training_problems(clients, data, sizes):
    """Every unit's training problem, as it is after the states of all units have been relayed."""
    constant = any(U is not None for U in data.inputs)
    units, told = {}, {}
    for name, Y, U in zip(data.names, data.outputs, data.inputs, strict=True):
        local = local_features(clients[name], Y, U, data.starts)
        series = unit_series(clients[name], Y, U, data.starts, local)
        units[name] = UnitTraining.start(clients[name].model, series, constant)
        told[name] = units[name].local_model(relay=True, stepwise=False)
    plant = Plant.of(told)
    V = plant.relayed
    problems = {}
    for m, name in enumerate(data.names):
        relayed = {"drivers": V[:, plant.drivers[m]], "n_inputs": plant.n_driving_inputs(m)}
        unit = units[name].planned(sizes.plan(m, "moments", **relayed))
        problems[name] = unit.problem, unit.rates
    return problems
