"""A unit's side of Algorithm 1: a correction of its filtered states moved by its own and the server's loss.

The correction is any regressor with ``partial_fit`` on half the squared error. Its step on the loss of the
paper is one ``partial_fit`` towards ``output - gradient``: there the gradient of the squared error in the
output is the gradient asked for, and the regressor's own backpropagation does the rest. This needs the
derivatives of the maps f and h, which the unit has, and ``d L_s / d x_a``, which the server sends.
"""

import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.neural_network import MLPRegressor

from ...client.augmenter import RegressorAugmenter, as_augmenter
from ...client.black_box import NonlinearClient
from ...client.maps import LinearMap
from ...client.records import in_use
from ...client.unit_model import UnitClient
from ...message.packet import PacketError
from ...message.training import GradientReply, NetworkPlan, NoGradient, PredictedStates
from ...statespace.episodes import episode_lengths, inner_rows, lagged_rows
from .training import check_shape


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
