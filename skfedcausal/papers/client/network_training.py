"""A unit's side of Algorithm 1, and what a unit answers in the training of the papers' servers."""

import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.neural_network import MLPRegressor

from ...client import worker
from ...client.augmenter import RegressorAugmenter, as_augmenter
from ...client.extended_kalman import LinearMap, NonlinearClient
from ...client.records import in_use
from ...client.unit_model import UnitClient
from ...client.worker import handles
from ...message.packet import PacketError
from ...message.states import Acknowledgement
from ...message.training import (
    BlockRow,
    GradientReply,
    Influences,
    InfluencesRequest,
    LossAnswer,
    LossRequest,
    NetworkPlan,
    NetworksTrained,
    NoGradient,
    PredictedStates,
    TrainingEnd,
    TrainingPlan,
    TrainRequest,
)
from ...statespace.episodes import episode_lengths, inner_rows, lagged_rows
from . import training
from .training import UnitTraining, check_shape

# A unit's side of Algorithm 1: a correction of its filtered states moved by its own and the server's loss.
#
# The correction is any regressor with ``partial_fit`` on half the squared error. Its step on the loss of the
# paper is one ``partial_fit`` towards ``output - gradient``: there the gradient of the squared error in the
# output is the gradient asked for, and the regressor's own backpropagation does the rest. This needs the
# derivatives of the maps f and h, which the unit has, and ``d L_s / d x_a``, which the server sends.


@dataclass(frozen=True)
class StateCorrection:
    """A trained ``phi_m``: what to add to the filtered states, from the unit's last measurements (eq. 3)."""

    estimator: Any
    n_lags: int
    mean: np.ndarray
    scale: np.ndarray
    unit: np.ndarray

    def features(self, Y, starts):
        """What the regressor sees at every row: it and those before, standardised, (n_samples, n_lags n_sensors)."""
        inside = (Y - self.mean) / self.scale
        return np.hstack([inside, lagged_rows(inside, self.n_lags - 1, starts)])

    def predict(self, Y, starts=(0,)):
        """Correction of the filtered states of every row of complete measurements, (n_samples, n_states)."""
        return self.unit * self.outputs(self.features(Y, starts))

    def outputs(self, features):
        """Outputs of the regressor in units of the states' standard deviation, (n_rows, n_states)."""
        return self.estimator.predict(features).reshape(len(features), -1)

    def corrected_measurements(self, client, Y, starts):
        """Measurements predicted from corrected states (eq. 3 and 8), all columns, (n_samples, n_sensors)."""
        filtered = unit_states(client, Y, starts)
        f, h, active = unit_maps(client, Y)
        added = self.predict(completed(h, active, filtered), starts)
        if isinstance(client, NonlinearClient):
            return client.predict_corrected(Y, added, starts)
        states = np.zeros_like(filtered)
        rows = inner_rows(len(Y), starts)
        states[rows] = f.value((filtered + added)[rows - 1])
        return client.measurements(states)


@dataclass(frozen=True)
class UnitRecord:
    """A unit's series as training needs them; they stay at the site."""

    f: object
    h: object
    filtered: np.ndarray
    features: np.ndarray
    measurements: np.ndarray


def batch_loss(record, rows, correction, outputs):
    """States predicted with given outputs of the correction, and the unit's residuals.

    `outputs` has the shape (n_rows, n_states). Gives corrected and predicted states, (n_rows, n_states), and residuals
    in standard deviations of the sensors, (n_rows, n_sensors), zero where a measurement is missing.
    """
    corrected = record.filtered[rows] + correction.unit * outputs
    predicted = record.f.value(corrected)
    rest = np.nan_to_num((record.measurements[rows] - record.h.value(predicted)) / correction.scale)
    return corrected, predicted, rest


def output_gradient(record, correction, corrected, predicted, rest, weight, pull):
    """Gradient of ``weight * |rest|^2 + L_s`` in the correction's outputs, row by row (eq. 4), (n_rows, n_states).

    `pull` is the server's derivative in the predicted states, (n_rows, n_states); the others come from `batch_loss`.
    """
    slope = record.h.jacobian(predicted) / correction.scale[:, None]
    in_states = pull - 2 * weight * np.einsum("td,tdp->tp", rest, slope)
    return np.einsum("tq,tqp->tp", in_states, record.f.jacobian(corrected)) * correction.unit


@dataclass(frozen=True)
class NetworkTraining:
    """State of a unit between two packets of training; every step makes a new one."""

    record: UnitRecord
    correction: StateCorrection
    plan: NetworkPlan
    spread: np.ndarray
    batch: int = 0

    @cached_property
    def _outputs(self):
        """What the correction gives on the present batch."""
        return self.correction.outputs(self.record.features[self._rows])

    @property
    def n_batches(self):
        """Batches of an epoch."""
        return -(-len(self.record.filtered) // self.plan.batch_size)

    @property
    def _rows(self):
        first = (self.batch % self.n_batches) * self.plan.batch_size
        return slice(first, min(first + self.plan.batch_size, len(self.record.filtered)))

    def message(self):
        """What the unit sends about the present batch."""
        rows = self._rows
        _, predicted, rest = batch_loss(self.record, rows, self.correction, self._outputs)
        filtered = self.record.filtered[rows] if self.batch < self.n_batches else None
        loss = float((rest**2).sum() / len(rest))
        return PredictedStates(predicted, loss, filtered, self.spread if self.batch == 0 else None)

    def advanced(self, received):
        """Training after a message of the server, and what the unit answers."""
        if not isinstance(received, GradientReply | NoGradient):
            raise PacketError(f"A unit that trains a network cannot take a {type(received).__name__} now.")
        training = self.moved(None if isinstance(received, NoGradient) else received.predicted)
        return training, training.message()

    def moved(self, pull):
        """Training after one step on the present batch; `pull` is None where the server tells nothing."""
        rows, record = self._rows, self.record
        features = record.features[rows]
        expected = len(features), len(self.correction.unit)
        pull = np.zeros(expected) if pull is None else pull
        check_shape("predicted", pull, expected)
        corrected, predicted, rest = batch_loss(record, rows, self.correction, self._outputs)
        weight = self.plan.client_weight
        slope = output_gradient(record, self.correction, corrected, predicted, rest, weight, pull)
        estimator = copy.deepcopy(self.correction.estimator)
        estimator.partial_fit(features, _one_column(self._outputs - slope))
        return replace(self, correction=replace(self.correction, estimator=estimator), batch=self.batch + 1)


def _one_column(targets):
    """Targets (n_rows, n_states) as scikit-learn wants them: of one state, (n_rows,)."""
    return targets[:, 0] if targets.shape[1] == 1 else targets


def unit_maps(client, Y):
    """Differentiable maps of a fitted client, and its active measurements."""
    if isinstance(client, UnitClient):
        model = client.model
        f = LinearMap(model.A, np.zeros(model.n_states))
        return f, LinearMap(model.C, model.mean), in_use(client, Y)
    if isinstance(client, NonlinearClient):
        return client.f, client.h, Y
    raise TypeError(
        f"Training a correction needs the unit's maps; a {type(client).__name__} has none. Give an "
        "ExtendedKalmanClient or a KalmanClient."
    )


def completed(h, Y, filtered):
    """Measurements (n_samples, n_sensors) with the missing ones as the filtered states show them."""
    missing = np.isnan(Y)
    return np.where(missing, h.value(filtered), Y) if missing.any() else Y


def unit_states(client, Y, starts):
    """Filtered states of checked measurements, (n_samples, n_states)."""
    return client.filter(Y, lengths=episode_lengths(starts, len(Y)))


def start(client, augmenter, Y, starts, plan):
    """Training that has not begun."""
    f, h, active = unit_maps(client, Y)
    filtered = unit_states(client, Y, starts)
    whole = completed(h, active, filtered)
    estimator, n_lags = correction_regressor(augmenter)
    scale, unit = (np.where(spread > 0, spread, 1.0) for spread in (whole.std(axis=0), filtered.std(axis=0)))
    correction = StateCorrection(estimator, n_lags, whole.mean(axis=0), scale, unit)
    rows = inner_rows(len(Y), starts)
    features = correction.features(whole, starts)[rows - 1]
    _begin_at_zero(estimator, features[: plan.batch_size], filtered.shape[1])
    record = UnitRecord(f, h, filtered[rows - 1], features, active[rows])
    return NetworkTraining(record, correction, plan, np.array([filtered.mean(axis=0), correction.unit]))


def correction_regressor(augmenter):
    """Regressor to train as a correction and the rows it sees; a small network where none is given."""
    augmenter = None if augmenter is None else as_augmenter(augmenter)
    if augmenter is None or (isinstance(augmenter, RegressorAugmenter) and augmenter.estimator is None):
        network = MLPRegressor(hidden_layer_sizes=(16,), activation="tanh", learning_rate_init=1e-3, random_state=0)
        augmenter = RegressorAugmenter(network, n_lags=1 if augmenter is None else augmenter.n_lags)
    estimator = getattr(augmenter, "estimator", None)
    if not isinstance(augmenter, RegressorAugmenter) or not hasattr(estimator, "partial_fit"):
        raise TypeError(
            "Training a correction step by step needs a RegressorAugmenter of a regressor with "
            f"`partial_fit`, such as MLPRegressor or LSTMRegressor; got {augmenter!r}."
        )
    return clone(estimator), augmenter.n_lags


def _begin_at_zero(estimator, features, n_states):
    """Let the regressor draw its weights; the augmented model begins as the unit's own where it can."""
    estimator.partial_fit(features, _one_column(np.zeros((len(features), n_states))))
    if isinstance(estimator, MLPRegressor):
        for layer in (estimator.coefs_[-1], estimator.intercepts_[-1]):
            layer[:] = 0.0


# What a unit answers in the training of the papers' servers.


@handles(TrainRequest, sets_precision=True)
def begin_training(unit, request, state, round):
    """Identify the unit's model and tell of it before gradient training."""
    augmenter = _trained_features(unit)
    client = unit.fitted()
    if not isinstance(client, UnitClient):
        raise TypeError(
            f"The client of unit {unit.name!r} is a {type(unit.client).__name__}. GradientServer needs "
            "the unit's A and C: give a KalmanClient, or use LikelihoodServer."
        )
    if client.baseline_ is not None and unit.training_noise is not None:
        raise TypeError(
            f"Noise on the messages of training does not hide what `harmonics`, `trend`, `mode` and `levels` of unit "
            f"{unit.name!r} learn from all rows at once. Leave them out, or add the noise to measurements."
        )
    unit = unit.off_baseline({"client": client})
    if augmenter is not None:
        augmenter.learn_features(worker.local_features(client, unit.outputs, unit.inputs, unit.starts))
    begun, message = training.begun(request, client.model, _series(unit, client, augmenter), unit.name, augmenter)
    of_round = {"round": round, "training": begun, "before": begun, "previous": begun}
    state = {"client": client, "dtype": state["dtype"], **of_round}
    return _noised(unit, unit.with_clock(message), state), {**unit.first_state(), **state}


def _trained_features(unit):
    """The augmenter whose features gradient training is to use, None if there are none."""
    if unit.augmenter is None:
        return None
    augmenter = as_augmenter(unit.augmenter)
    if getattr(augmenter, "features", None) is None:
        raise TypeError(
            f"GradientServer trains the correction theta y + phi of unit {unit.name!r} itself and has no "
            f"use for augmenter={unit.augmenter!r}. Leave it out, give LinearAugmenter(features=...) for another "
            "function of the measurements, or use RegressorServer(labels='augmented') to train a network."
        )
    return augmenter


def _series(unit, client, augmenter=None):
    """The unit's series as gradient training needs them."""
    local = worker.local_features(client, unit.outputs, unit.inputs, unit.starts)
    return training.unit_series(client, unit.outputs, unit.inputs, unit.starts, local, augmenter)


def _noised(unit, message, state):
    """A message of gradient training with noise, where the protocol adds it here."""
    noise = unit.training_noise
    return message if noise is None else noise.noised(message, state["training"], state["round"])


@handles(NetworkPlan, sets_precision=True)
def begin_network(unit, plan, state, round):
    """Begin to train a nonlinear correction."""
    begun = start(state["client"], unit.augmenter, unit.outputs, unit.starts, plan)
    return begun.message(), {**state, "training": begun, "before": begun, "round": round}


@handles(TrainingPlan, BlockRow, GradientReply, NoGradient)
def train(unit, received, state, round):
    """Take part in training.

    What comes again in a round goes on from where training was before, so that it counts once.
    """
    present = _training(state, received, object)
    before = state["before"] if round == state["round"] else present
    advanced, message = before.advanced(received)
    state = {**state, "training": advanced, "before": before, "round": round}
    return _noised(unit, message, state), state


@handles(InfluencesRequest)
def influences(unit, request, state, round):
    """How far stretches of the record move what training ended at."""
    training = _training(state, request, UnitTraining).with_influences(request.n_rounds or None)
    return Influences(training.of_blocks), {**state, "training": training, "before": training, "round": round}


@handles(TrainingEnd)
def end_training(unit, received, state, round):
    """Keep what gradient training has learned."""
    return Acknowledgement(), {**state, **_training(state, received, UnitTraining).learned(received)}


@handles(NetworksTrained)
def end_network(unit, received, state, round):
    """Keep the trained correction as the augmenter; called a second time, nothing changes."""
    if isinstance(state.get("augmenter"), StateCorrection):
        return Acknowledgement(), state
    correction = _training(state, received, NetworkTraining).correction
    kept = {key: value for key, value in state.items() if key not in ("training", "before")}
    return Acknowledgement(), {**kept, "augmenter": correction, "round": round}


def _training(state, received, kind):
    """The training of this kind that a unit is in."""
    present = state.get("training")
    if present is None or not isinstance(present, kind):
        raise PacketError(f"A unit that is not in training got {received.OP!r}.")
    return present


@handles(LossRequest)
def losses(unit, reply, state, round):
    """Losses of gradient training on the record."""
    series = _series(unit, state["client"], state["augmenter"])
    predicted, loss = training.augmented_losses(state, series, series.rows)
    distance = reply.states[series.rows] - predicted
    return LossAnswer(float(loss), float(np.mean((distance**2).sum(axis=1)))), state
