"""What a unit answers about measurements once a plant is learned: messages, predictions, effects, replays, laws."""

from dataclasses import replace

import numpy as np

from ..arguments import warn
from ..containers.arrays import listed
from ..message import requests
from ..message.packet import PacketError
from ..message.states import Acknowledgement, EffectReply, FeedbackLaw, Measurements, PredictionReply
from ..statespace.episodes import inner_rows
from . import worker
from .fitting import with_fit
from .tuning import TUNING
from .worker import handles

_RIDGE = 1e-8  # share of each regressor's variance, for sensors that repeat each other


@handles(requests.RecordRequest)
def describe_record(unit, wishes, state, round):
    """Message about the record by the model that the unit has."""
    Y = unit.outputs
    if wishes.until is not None:
        Y = np.where(np.arange(len(Y))[:, None] >= wishes.until, np.nan, Y)
    settings = {"const": wishes.const, "local_model": wishes.local_model, "monitor": state.get("monitor")}
    message = worker.unit_message(state["client"], Y, unit.starts, inputs=unit.inputs, **settings)
    message = worker.with_events(message, state.get("habits"), unit.with_baseline, unit.starts)[0]
    return with_fit(unit, message, state) if wishes.fits else message, state


@handles(requests.LawRequest)
def identify_inputs_law(unit, request, state, round):
    """Identify how the unit's inputs follow its measurements."""
    if unit.inputs is None:
        raise PacketError(f"Unit {unit.name!r} was asked for the law of its inputs, but has none.")
    loads = worker.loadings(state["client"], state["n_states"])
    varying = np.abs(loads).max(axis=1) > 0
    Y = unit.outputs[:, varying]
    warn_of_determined_inputs(unit.name, Y, unit.inputs)
    return identify_law(Y, unit.inputs, loads[varying], unit.starts), state


@handles(requests.PredictRequest)
def predict(unit, request, state, round):
    """The unit's own one-step predictions of its sensors."""
    augmented = request.model == "augmented"
    if augmented and "augmenter" not in state:
        raise PacketError(f"Unit {unit.name!r} has no augmenter: no reply of a server came to it.")
    values = worker.local_prediction(state, unit.outputs, unit.inputs, unit.starts, augmented=augmented)
    return _measurements(unit, _put_back(unit, values)), state


@handles(PredictionReply)
def measure_states(unit, reply, state, round):
    """Expected measurements of states that the server predicts."""
    variance = None if reply.covariances is None else worker.forecast_variance(state["client"], reply)
    return _measurements(unit, _put_back(unit, state["client"].measurements(reply.states)), variance), state


@handles(EffectReply)
def measure_effect(unit, reply, state, round):
    """Map the effect of a change of inputs through the unit's own sensors."""
    n_states = state["n_states"] if "n_states" in state else state["client"].model.n_states
    if reply.states.shape[1] != n_states:
        raise PacketError(f"Unit {unit.name!r} got an effect on {reply.states.shape[1]} states, but has {n_states}.")
    effect, variance = worker.mapped_effect(state, reply)
    state = {**state, "effect": effect, "effect_std": np.sqrt(variance)}
    if reply.keep:
        return Acknowledgement(), state
    return _measurements(unit, effect, None if reply.covariances is None else variance), state


@handles(requests.FactualRequest)
def replay(unit, reply, state, round):
    """The record itself, with what is missing as expected given all messages."""
    values, variance = worker.factual(state["client"], unit.outputs, reply)
    return replace(_measurements(unit, _put_back(unit, values), variance), stops=state.get("stops")), state


@handles(requests.AggregateRequest)
def aggregate_effect(unit, request, state, round):
    """Effect of scaling the inputs of all other units together."""
    if "phi" not in state:
        raise PacketError(f"Unit {unit.name!r} was told of no inputs of other units that moved in `fit`.")
    change = state["phi"] * (request.scale - 1)
    return _measurements(unit, (worker.loadings(state["client"], len(change)) @ change)[None]), state


def _put_back(unit, values):
    """Measurements of the last rows of the record, of all mostly, with seasons, trend, modes and levels."""
    return values if unit.taken_off is None else values + unit.taken_off[len(unit.taken_off) - len(values) :]


def _measurements(unit, values, variance=None):
    """Measurements (n_steps, n_sensors) by the names of the sensors, made from positions where they have none."""
    columns = unit.columns
    if columns is None:
        columns = tuple(f"{unit.name}__x{k}" for k in range(unit.outputs.shape[1]))
    unknown = np.isnan(values).all(axis=0)
    if unknown.any():
        raise PacketError(
            f"Sensors {listed(np.array(columns)[unknown].tolist())} never reported in `fit`, so that nothing is "
            "known of them. Leave them out there."
        )
    return Measurements(values, variance, tuple(columns))


def identify_law(Y, U, loadings, starts=(0,)):
    """Linear law ``u[t] = L0 y[t] + L1 y[t-1] + F u[t-1] + constant``, in terms of the unit's states.

    Proportional and integral controllers are of this form. The law looks at measurements, not states, so
    least squares is consistent whatever the noise of the sensors; rows with missing measurements are left
    out.
    """
    late = inner_rows(len(Y), starts)
    late = late[np.isfinite(Y[late]).all(axis=1) & np.isfinite(Y[late - 1]).all(axis=1)]
    d = Y.shape[1]
    gains, _ = _regression(np.hstack([Y[late], Y[late - 1], U[late - 1]]), U[late])
    present, previous, persistence = gains[:, :d], gains[:, d : 2 * d], gains[:, 2 * d :]
    return FeedbackLaw(present @ loadings, previous @ loadings, persistence)


def warn_of_determined_inputs(name, Y, U):
    """Warn of inputs that are a linear function of the measurements of the same row.

    A proportional controller whose set point never moves: with or without the input, the next measurements
    follow the same regression on these, so no record of this kind shows the input's effect.
    """
    known = np.isfinite(Y).all(axis=1)
    if known.sum() <= 2 * Y.shape[1]:
        return
    _, left = _regression(Y[known], U[known])
    determined = np.flatnonzero(left < TUNING.questions_determined)
    if len(determined):
        warn(
            f"Measurements of unit {name!r} determine its inputs number {', '.join(map(str, determined))} (from 0) "
            "of the same row: only a controller moves them. Their effects cannot be separated from the unit's own "
            "dynamics, no estimate or standard error can be trusted. Move the set points, or leave these inputs out.",
        )


def _regression(X, Z):
    """Coefficients of Z on X, shape (columns of Z, columns of X), and the share of variance they leave."""
    X, Z = X - X.mean(axis=0), Z - Z.mean(axis=0)
    gram = X.T @ X
    scale = np.sqrt(np.maximum(np.diag(gram), np.finfo(float).tiny))
    gram = gram / np.outer(scale, scale) + _RIDGE * np.eye(len(gram))
    coefficients = np.linalg.solve(gram, (X / scale).T @ Z) / scale[:, None]
    left = ((Z - X @ coefficients) ** 2).sum(axis=0) / np.maximum((Z**2).sum(axis=0), np.finfo(float).tiny)
    return coefficients.T, left
