"""Messages of the papers' training: augmented models by gradients, nonlinear corrections by Algorithm 1.

Weights of networks never cross.
"""

from typing import Any

import numpy as np

from .clock import check_clock
from .packet import PacketError
from .schema import ArrayOrNone, Message, wire
from .states import Acknowledgement

_PREDICTED = "states predicted with the present correction"
_FILTERED = "states by the unit's own filter"
_CONSTANT = "constant of the correction"
_INFLUENCES = "what stretches of the record add to the blocks"
_LOSS, _CHANGE = "loss", "largest change of a parameter"


class LocalModel(Message, op="local-model"):
    """The unit's own model, before training by gradients.

    Attributes
    ----------
    transition, process_cov, information : ndarray of shape (n_states, n_states)
        A_mm, Q_m and ``C' R^-1 C``.
    lengths : ndarray of int of shape (n_episodes,)
        Time steps of each episode.
    curvature : ndarray of shape (2,) or (4,)
        Largest second derivatives of client and server loss in theta (and in phi).
    loss : float
        Mean squared error of the unit's own one-step prediction.
    reach : float
        Largest squared norm of the filtered states (and inputs) of a row; one number that per-step training
        needs for its step size.
    input_matrix : ndarray of shape (n_states, n_inputs) or None
        B_mm.
    input_table : ndarray of shape (3, n_inputs) or None
        Of each input: the level taken off it, the mean of what is left at the first steps of the pairs, its
        standard deviation.
    filtered : ndarray of shape (n_samples, n_states) or None
        Filtered states, when they are to be relayed.
    inputs : ndarray of shape (n_samples, n_inputs) or None
        Likewise.
    clock : ndarray of shape (2 + n_episodes,) or None
        When its rows were taken, as of :class:`StateMessage`.
    grid : ndarray of int of shape (1,) or None
        Digest of it.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message.training import LocalModel
    >>> model = LocalModel(
    ...     transition=0.5 * np.eye(2), process_cov=np.eye(2), information=np.eye(2), lengths=np.array([100]),
    ...     curvature=np.ones(2), loss=0.1, reach=1.0)
    >>> model.n_states, model.n_inputs
    (2, 0)
    >>> sorted(model.to_packet().arrays)
    ['curvature', 'information', 'lengths', 'process_cov', 'sizes', 'transition']
    """

    transition: np.ndarray = wire("numbers p p", "dynamics of the unit's own states")
    process_cov: np.ndarray = wire("covariance p p", "process noise of the unit's own states")
    information: np.ndarray = wire("covariance p p", "how precisely the sensors see the states")
    lengths: np.ndarray = wire("whole e", "number of time steps of each episode")
    curvature: np.ndarray = wire("numbers c", "largest second derivatives of the losses")
    loss: float = wire("shared 1", _LOSS, array="sizes")
    reach: float = wire("shared 1", "largest state", array="sizes")
    input_matrix: ArrayOrNone = wire("numbers p q", "how the inputs act on the unit's states", default=None)
    input_table: ArrayOrNone = wire("numbers 3 q", "level, mean and spread of each input", default=None)
    filtered: ArrayOrNone = wire("series T p", "filtered states to be relayed to others", default=None)
    inputs: ArrayOrNone = wire("series t r", "inputs to be relayed to others", default=None)
    clock: ArrayOrNone = wire(
        "numbers k", "seconds from row to row, 1 for a known zone, start of each episode", default=None
    )
    grid: ArrayOrNone = wire("whole 1", "digest of the times of all rows", default=None)

    OF_RECORD = True

    @property
    def n_states(self) -> int:
        """Number of states of the unit."""
        return len(self.transition)

    @property
    def n_inputs(self) -> int:
        """Number of inputs of the unit."""
        return 0 if self.input_matrix is None else self.input_matrix.shape[1]

    @property
    def input_range(self) -> np.ndarray | None:
        """Least and largest value of each input, as far as it is told, shape (2, n_inputs)."""
        return np.array([[-np.inf], [np.inf]]).repeat(self.n_inputs, axis=1)

    def _check(self, packet):
        if (self.input_matrix is None) != (self.input_table is None):
            raise PacketError(f"Packet {self.OP!r} lacks one of the arrays 'input_matrix' and 'input_table'.")
        if self.clock is not None or self.grid is not None:
            check_clock(self.clock, self.grid, self.lengths, self.OP)


class TrainRequest(Message, op="train", answer=LocalModel, first="relay stepwise start_scale seed constant dtype"):
    """Asks for the unit's own model before training by gradients.

    Attributes
    ----------
    relay : bool
        Whether its filtered states and inputs are to be relayed to the other units.
    stepwise : bool
        Whether training goes step by step.
    start_scale : float
        Standard deviation of the random start.
    seed : int
        Of the random start.
    constant : bool
        Whether corrections have a constant.

    Examples
    --------
    >>> from skfedcausal.message.training import TrainRequest
    >>> request = TrainRequest(False, False, start_scale=0.1, seed=7, constant=False)
    >>> TrainRequest.from_packet(request.to_packet()).seed
    7
    """

    relay: bool = wire("flag", "whether to send states and inputs, to be relayed to the other units")
    stepwise: bool = wire("flag", "whether to train step by step")
    start_scale: float = wire("number", "standard deviation of the random start")
    seed: int = wire("count", "seed of the random start", least=0)
    constant: bool = wire("flag", "whether corrections have a constant")
    OPENS = True


class AugmentedMessage(Message, op="augmented", first="filtered augmented predicted inputs constant"):
    """The unit's states in a round of training by gradients, of all time steps or of one.

    Attributes
    ----------
    filtered, augmented : ndarray of shape (n_rows, n_states)
        ``h_hat_c`` and ``h_hat_a``.
    loss : float
        Client loss with the present parameters.
    change : float
        Largest relative change of a parameter in the last round.
    predicted : ndarray of shape (n_rows, n_states) or None
        ``h_a`` one step later, where it is not ``A_mm h_hat_a`` (constant or inputs).
    inputs : ndarray of shape (n_rows, n_inputs) or None
        Less their level.
    constant : ndarray of shape (n_states,) or None
        phi.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message.training import AugmentedMessage
    >>> message = AugmentedMessage(np.zeros((100, 2)), np.ones((100, 2)), loss=0.3, change=0.01)
    >>> packet = message.to_packet(dtype="float32")
    >>> packet.nbytes < 2 * 100 * 2 * 4 + 400
    True
    >>> AugmentedMessage.from_packet(packet).augmented.shape
    (100, 2)
    """

    filtered: np.ndarray = wire("series T p", _FILTERED)
    augmented: np.ndarray = wire("series T p", "states with the present correction")
    loss: float = wire("shared 1", _LOSS, array="progress")
    change: float = wire("shared 1", _CHANGE, array="progress")
    predicted: ArrayOrNone = wire("series T p", _PREDICTED, default=None)
    inputs: ArrayOrNone = wire("series T q", "the unit's inputs", default=None)
    constant: ArrayOrNone = wire("numbers p", _CONSTANT, default=None)


class PredictedMessage(Message, op="predicted"):
    """The unit's predicted states in a later round of training by gradients.

    Sent by units of a plant with inputs after their first round: the rest has not changed.

    Attributes
    ----------
    predicted : ndarray of shape (n_rows, n_states)
        ``h_a``, one row per pair of time steps.
    constant : ndarray of shape (n_states,)
        phi: without it ``A_mm h_hat_a``, which the penalty needs, cannot be told from `predicted`.
    loss, change : float
        As in :class:`AugmentedMessage`.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message.training import PredictedMessage
    >>> message = PredictedMessage(np.zeros((100, 2)), np.zeros(2), loss=0.3, change=0.01)
    >>> sorted(message.to_packet().arrays)
    ['constant', 'predicted', 'progress']
    """

    predicted: np.ndarray = wire("series T p", _PREDICTED)
    constant: np.ndarray = wire("numbers p", _CONSTANT)
    loss: float = wire("shared 1", _LOSS, array="progress")
    change: float = wire("shared 1", _CHANGE, array="progress")


class GradientReply(Message, op="gradient"):
    """Derivatives of the server's loss in this unit's states.

    Attributes
    ----------
    predicted : ndarray of shape (n_rows, n_states)
        In ``h_a^t``, one row per pair ``(t - 1, t)``.
    augmented : ndarray of shape (n_rows, n_states) or None
        What the penalty adds, in ``h_hat_a^(t-1)``.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message.training import GradientReply
    >>> reply = GradientReply(np.zeros((100, 2)))
    >>> GradientReply.from_packet(reply.to_packet()).predicted.shape
    (100, 2)
    """

    predicted: np.ndarray = wire("series T p", "in the predicted states")
    augmented: ArrayOrNone = wire("series T p", "in the augmented states", default=None)


class CorrectionMoments(Message, op="correction", first="cross cross_states constant"):
    """Moments of the unit's correction with the other units' states and inputs.

    Attributes
    ----------
    cross : ndarray of shape (n_states, k)
        ``mean e v'`` of the correction ``e = A_mm theta y + phi``.
    cross_states : ndarray of shape (n_states, k)
        ``mean (A_mm theta y) v'``: what the penalty looks at.
    energy, energy_states : float
        ``mean |e|^2`` and ``mean |A_mm theta y|^2``.
    loss, change : float
    constant : ndarray of shape (n_states,) or None
        As in :class:`AugmentedMessage`.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message.training import CorrectionMoments
    >>> moments = CorrectionMoments(np.zeros((2, 3)), np.zeros((2, 3)), 1.0, 1.0, loss=0.3, change=0.01)
    >>> CorrectionMoments.from_packet(moments.to_packet()).cross.shape
    (2, 3)
    """

    cross: np.ndarray = wire("numbers p k", "moments of the correction with the other units' states")
    cross_states: np.ndarray = wire("repeated p k", "the same of its part through the dynamics", of="cross")
    energy: float = wire("shared 1", "mean square of the correction", array="progress")
    energy_states: float = wire("shared 1", "mean square of its part through the dynamics", array="progress")
    loss: float = wire("shared 1", _LOSS, array="progress")
    change: float = wire("shared 1", _CHANGE, array="progress")
    constant: ArrayOrNone = wire("numbers p", _CONSTANT, default=None)


class BlockRow(Message, op="blocks", answer=CorrectionMoments):
    """Blocks of the plant that belong to this unit: the influence of the others on it.

    These are ``[A_mn, B_mn]``, n other than m, as the server has them or as solved by the unit.

    Attributes
    ----------
    blocks : ndarray of shape (n_states, k)
    losses : ndarray of shape (3,) or None
        Client loss, server loss and penalty at the solution.
    constant : ndarray of shape (n_states,) or None
        phi at the solution.
    influences : ndarray of shape (n_stretches, n_states * k) or None
        What every stretch of the record adds to the blocks, column by column.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message.training import BlockRow
    >>> row = BlockRow(np.zeros((2, 3)))
    >>> BlockRow.from_packet(row.to_packet()).blocks.shape
    (2, 3)
    """

    blocks: np.ndarray = wire("numbers p k", "influence of the other units")
    losses: ArrayOrNone = wire("numbers 3", "losses at the solution", default=None)
    constant: ArrayOrNone = wire("numbers p", _CONSTANT, default=None)
    influences: ArrayOrNone = wire("numbers b r", _INFLUENCES, default=None)


class Influences(Message, op="influences"):
    """What stretches of the unit's record add to its blocks.

    Attributes
    ----------
    influences : ndarray of shape (n_stretches, n_states * k) or None
        Of every stretch on the blocks, column by column; None if the record is too short.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message.training import Influences
    >>> Influences.from_packet(Influences(np.zeros((20, 6))).to_packet()).influences.shape
    (20, 6)
    """

    influences: ArrayOrNone = wire("numbers b r", _INFLUENCES, default=None)


class InfluencesRequest(Message, op="ask influences", answer=Influences):
    """Asks, after training on moments, how far stretches of the record move the blocks of this unit.

    Attributes
    ----------
    n_rounds : int
        After so many rounds that started from zero; 0 stands for the limit.

    Examples
    --------
    >>> from skfedcausal.message.training import InfluencesRequest
    >>> InfluencesRequest.from_packet(InfluencesRequest(200).to_packet()).n_rounds
    200
    """

    n_rounds: int = wire("count", "rounds that training took, 0 for its limit", least=0)


ANSWERS: dict[str, type[Message]] = {  # messages of a unit in each mode
    "series": AugmentedMessage,
    "steps": AugmentedMessage,
    "moments": CorrectionMoments,
    "stationary": BlockRow,
}


class TrainingPlan(Message, op="plan"):
    """How to train by gradients.

    Attributes
    ----------
    mode : {"series", "steps", "moments", "stationary"}
        What the unit sends: states of all time steps, states of one step after the other, moments of its
        correction with the other units' states, or the solution of its own block row.
    rates : ndarray of shape (5,)
        Step sizes eta1, eta2, gamma1, gamma2 of the unit and of its block row at the server.
    xi, ridge : float
        Weights of penalty and regularisation.
    drivers : ndarray of shape (n_samples, k) or None
        The other units' filtered states, then their inputs; relayed once where moments are wanted.
    n_inputs : int
        How many of the drivers are inputs.
    warm_up : int
        Rounds by the augmented Lagrangian at the start.
    warm_rates : ndarray of shape (5,) or None
        Step sizes meanwhile.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message.training import TrainingPlan
    >>> plan = TrainingPlan("series", rates=np.full(5, 0.01))
    >>> TrainingPlan.from_packet(plan.to_packet()).mode
    'series'
    """

    mode: str = wire("word", "how to train", of=" ".join(ANSWERS))
    rates: np.ndarray = wire("numbers 5", "step sizes")
    xi: float = wire("number", "weight of the penalty", default=0.0)
    ridge: float = wire("number", "weight of the regularisation", default=0.0)
    drivers: ArrayOrNone = wire("series T k", "states and inputs of the other units", default=None, least=0)
    n_inputs: int = wire("count", "how many of these are inputs", default=0, least=0)
    warm_up: int = wire("count", "rounds of the first phase", default=0, least=0)
    warm_rates: ArrayOrNone = wire("numbers 5", "step sizes of the first phase", default=None)

    @property
    def answer(self) -> Any:
        """Kind of message that the unit sends in its first round of this mode."""
        return ANSWERS[self.mode]

    def _check(self, packet):
        if (self.warm_rates is None) == bool(self.warm_up):
            raise PacketError(f"Packet {self.OP!r} does not say how to train: {dict(packet.scalars)}.")


class TrainingEnd(Message, op="finish", answer=Acknowledgement):
    """Says that training by gradients has ended.

    Attributes
    ----------
    input_level : ndarray of shape (n_states,) or None
        ``sum_n B_mn`` times the levels that units n took off their inputs, which phi lacks.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message.training import TrainingEnd
    >>> TrainingEnd.from_packet(TrainingEnd(np.array([0.5, -1.0])).to_packet()).input_level.tolist()
    [0.5, -1.0]
    """

    NEW_ROUND = False

    input_level: ArrayOrNone = wire("numbers p", "mean influence of the other units' inputs", default=None)


class PredictedStates(Message, op="predicted-states"):
    """The unit's states over a batch of training of networks.

    Filtered by its own model, and predicted with its correction.

    Attributes
    ----------
    predicted : ndarray of shape (n_rows, n_states)
        ``x_a^t``.
    loss : float
        Mean squared error of the measurements over the batch, in standard deviations of the sensors.
    filtered : ndarray of shape (n_rows, n_states) or None
        ``x_hat_c^(t-1)``; they do not change, so they are sent once and left out from the second epoch on.
    spread : ndarray of shape (2, n_states) or None
        Mean and standard deviation of the filtered states, sent with the first batch.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message.training import PredictedStates
    >>> states = PredictedStates(np.zeros((32, 2)), loss=0.3)
    >>> PredictedStates.from_packet(states.to_packet()).predicted.shape
    (32, 2)
    """

    predicted: np.ndarray = wire("series T p", f"{_PREDICTED} of the batch")
    loss: float = wire("number", "mean squared error of the measurements over the batch")
    filtered: ArrayOrNone = wire("series T p", f"{_FILTERED} of the batch", default=None)
    spread: ArrayOrNone = wire("numbers 2 p", "mean and standard deviation of the states", default=None)


class NetworkPlan(Message, op="network-plan", answer=PredictedStates, first="batch_size client_weight dtype"):
    """How to train the unit's network.

    Attributes
    ----------
    batch_size : int
        Successive pairs of time steps ``(t - 1, t)`` that one message is about.
    client_weight : float
        Weight of the unit's own loss beside the server's.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message.training import NetworkPlan
    >>> plan = NetworkPlan(batch_size=32, client_weight=1.0)
    >>> NetworkPlan.from_packet(plan.to_packet()).batch_size
    32
    """

    batch_size: int = wire("count", "pairs of time steps in a batch")
    client_weight: float = wire("number", "weight of the unit's own loss beside the server's")


class NoGradient(Message, op="no-gradient", answer=PredictedStates):
    """Asks for the next batch of training of networks and tells nothing.

    The server's reply to a unit that trains on its own loss alone.

    Examples
    --------
    >>> from skfedcausal.message.training import NoGradient
    >>> NoGradient().to_packet().op
    'no-gradient'
    """


def later_answer(mode, constant):
    """Message of a unit in a mode from its second round on."""
    return PredictedMessage if mode == "series" and constant else ANSWERS[mode]


class NetworksTrained(Message, op="networks trained", answer=Acknowledgement):
    """Says that training of networks has ended.

    Examples
    --------
    >>> from skfedcausal.message.training import NetworksTrained
    >>> NetworksTrained().to_packet().op
    'networks trained'
    """


class LossAnswer(Message, op="losses"):
    """The unit's client and server loss.

    Attributes
    ----------
    client, server : float

    Examples
    --------
    >>> from skfedcausal.message.training import LossAnswer
    >>> LossAnswer.from_packet(LossAnswer(0.3, 0.1).to_packet()).server
    0.1
    """

    client: float = wire("number", "loss of the unit's own prediction of its measurements")
    server: float = wire("number", "loss of the server's prediction of its states")


class LossRequest(Message, op="loss", answer=LossAnswer):
    """Prediction of this unit's states, to compute its losses.

    Attributes
    ----------
    states : ndarray of shape (n_samples, n_states)
        One step ahead.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message.training import LossRequest
    >>> LossRequest.from_packet(LossRequest(np.zeros((4, 2))).to_packet()).states.shape
    (4, 2)
    """

    states: np.ndarray = wire("series T p", "the unit's own states one step ahead")
