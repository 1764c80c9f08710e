"""What a unit answers in the training of the papers' servers."""

import numpy as np

from ...client import answers
from ...client.augmenter import as_augmenter
from ...client.handlers import handles
from ...client.unit_model import UnitClient
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
    TrainingEnd,
    TrainingPlan,
    TrainRequest,
)
from . import network_training, training
from .network_training import NetworkTraining, StateCorrection
from .training import UnitTraining


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
        augmenter.learn_features(answers.local_features(client, unit.outputs, unit.inputs, unit.starts))
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
    local = answers.local_features(client, unit.outputs, unit.inputs, unit.starts)
    return training.unit_series(client, unit.outputs, unit.inputs, unit.starts, local, augmenter)


def _noised(unit, message, state):
    """A message of gradient training with noise, where the protocol adds it here."""
    noise = unit.training_noise
    return message if noise is None else noise.noised(message, state["training"], state["round"])


@handles(NetworkPlan, sets_precision=True)
def begin_network(unit, plan, state, round):
    """Begin to train a nonlinear correction."""
    begun = network_training.start(state["client"], unit.augmenter, unit.outputs, unit.starts, plan)
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
