"""The frozen types that cross the border while augmented models are trained by gradients.

Like those of :mod:`skfedcausal.message`: nothing else crosses, and each type knows its packet form.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .fields import Fields, series_arrays
from .packet import Packet, PacketError

REQUEST = "train"  # the server asks for the local models


@dataclass(frozen=True)
class LocalModel:
    """What the server has to know of a unit before training: its own blocks and sizes.

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

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message import LocalModel
    >>> model = LocalModel(
    ...     transition=0.5 * np.eye(2), process_cov=np.eye(2), information=np.eye(2), lengths=np.array([100]),
    ...     curvature=np.ones(2), loss=0.1, reach=1.0)
    >>> model.n_states, model.n_inputs
    (2, 0)
    >>> sorted(model.to_packet().arrays)
    ['curvature', 'information', 'lengths', 'process_cov', 'sizes', 'transition']
    """

    transition: np.ndarray
    process_cov: np.ndarray
    information: np.ndarray
    lengths: np.ndarray
    curvature: np.ndarray
    loss: float
    reach: float
    input_matrix: np.ndarray | None = None
    input_table: np.ndarray | None = None
    filtered: np.ndarray | None = None
    inputs: np.ndarray | None = None

    OP: ClassVar[str] = "local-model"

    @property
    def n_states(self):
        """Number of states of the unit."""
        return len(self.transition)

    @property
    def n_inputs(self):
        """Number of inputs of the unit."""
        return 0 if self.input_matrix is None else self.input_matrix.shape[1]

    def to_packet(self, round=0, dtype="float64"):
        """Packet form, with series in the given precision."""
        arrays = {
            "transition": self.transition,
            "process_cov": self.process_cov,
            "information": self.information,
            "lengths": np.asarray(self.lengths, dtype=np.int64),
            "curvature": self.curvature,
            "sizes": np.array([self.loss, self.reach]),
        }
        if self.input_matrix is not None:
            arrays |= {"input_matrix": self.input_matrix, "input_table": self.input_table}
        for name in ("filtered", "inputs"):
            if getattr(self, name) is not None:
                arrays |= series_arrays(name, getattr(self, name), dtype)
        return Packet(self.OP, round, arrays)

    @classmethod
    def from_packet(cls, packet):
        """Model in a packet; raises PacketError if its arrays do not fit together."""
        fields = Fields(packet, cls.OP)
        transition = fields.numbers("transition", (None, None))
        p = len(transition)
        loss, reach = fields.numbers("sizes", (2,)).tolist()
        input_matrix = fields.numbers("input_matrix", (p, None), optional=True)
        table = None
        if input_matrix is not None:
            table = fields.numbers("input_table", (3, input_matrix.shape[1]))
        model = cls(
            fields.numbers("transition", (p, p)),
            fields.covariance("process_cov", p),
            fields.covariance("information", p),
            fields.whole("lengths", (None,)),
            fields.numbers("curvature", (None,)),
            loss,
            reach,
            input_matrix,
            table,
            fields.series("filtered", (None, p), optional=True),
            fields.series("inputs", optional=True),
        )
        fields.check_all_read()
        return model


@dataclass(frozen=True)
class TrainingPlan:
    """What a unit has to know before training.

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
    >>> from skfedcausal.message import TrainingPlan
    >>> plan = TrainingPlan("series", rates=np.full(5, 0.01))
    >>> TrainingPlan.from_packet(plan.to_packet()).mode
    'series'
    """

    mode: str
    rates: np.ndarray
    xi: float = 0.0
    ridge: float = 0.0
    drivers: np.ndarray | None = None
    n_inputs: int = 0
    warm_up: int = 0
    warm_rates: np.ndarray | None = None

    OP: ClassVar[str] = "plan"

    def to_packet(self, round=0, dtype="float64"):
        """Packet form; relayed series in the given precision."""
        arrays = {"rates": self.rates}
        if self.drivers is not None:
            wide = self.drivers.shape[1] > 0
            arrays |= series_arrays("drivers", self.drivers, dtype) if wide else {"drivers": self.drivers}
        if self.warm_rates is not None:
            arrays["warm_rates"] = self.warm_rates
        scalars = {"mode": self.mode, "xi": self.xi, "ridge": self.ridge}
        scalars |= {"n_inputs": self.n_inputs, "warm_up": self.warm_up}
        return Packet(self.OP, round, arrays, scalars)

    @classmethod
    def from_packet(cls, packet):
        """Plan in a packet.

        Raises
        ------
        PacketError
            If its arrays do not fit together or its numbers cannot be meant.
        """
        fields = Fields(packet, cls.OP)
        rates = fields.numbers("rates", (5,))
        drivers = fields.series("drivers", optional=True, least=0)
        warm_rates = fields.numbers("warm_rates", (5,), optional=True)
        fields.check_all_read()
        fields.check_scalars("mode", "xi", "ridge", "n_inputs", "warm_up")
        weights = fields.weight("xi"), fields.weight("ridge")
        n_inputs, warm_up, mode = fields.count("n_inputs"), fields.count("warm_up"), packet.scalars["mode"]
        if mode not in ANSWERS or (warm_rates is None) == bool(warm_up):
            raise PacketError(f"Packet {cls.OP!r} does not say how to train: {dict(packet.scalars)}.")
        return cls(mode, rates, *weights, drivers, n_inputs, warm_up, warm_rates)


@dataclass(frozen=True)
class AugmentedMessage:
    """A unit's states of all time steps or of one, by its own filter and augmented.

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
    >>> from skfedcausal.message import AugmentedMessage
    >>> message = AugmentedMessage(np.zeros((100, 2)), np.ones((100, 2)), loss=0.3, change=0.01)
    >>> packet = message.to_packet(dtype="float32")
    >>> packet.nbytes < 2 * 100 * 2 * 4 + 400
    True
    >>> AugmentedMessage.from_packet(packet).augmented.shape
    (100, 2)
    """

    filtered: np.ndarray
    augmented: np.ndarray
    loss: float
    change: float
    predicted: np.ndarray | None = None
    inputs: np.ndarray | None = None
    constant: np.ndarray | None = None

    OP: ClassVar[str] = "augmented"

    def to_packet(self, round=0, dtype="float64"):
        """Packet form, with series in the given precision."""
        arrays = {}
        for name in ("filtered", "augmented", "predicted", "inputs"):
            if getattr(self, name) is not None:
                arrays |= series_arrays(name, getattr(self, name), dtype)
        if self.constant is not None:
            arrays["constant"] = self.constant
        arrays["progress"] = np.array([self.loss, self.change])
        return Packet(self.OP, round, arrays)

    @classmethod
    def from_packet(cls, packet):
        """Message in a packet; raises PacketError if its arrays do not fit together."""
        fields = Fields(packet, cls.OP)
        filtered = fields.series("filtered")
        augmented = fields.series("augmented", filtered.shape)
        predicted = fields.series("predicted", filtered.shape, optional=True)
        inputs = fields.series("inputs", (len(filtered), None), optional=True)
        constant = fields.numbers("constant", filtered.shape[1:], optional=True)
        loss, change = fields.numbers("progress", (2,)).tolist()
        fields.check_all_read()
        return cls(filtered, augmented, loss, change, predicted, inputs, constant)


@dataclass(frozen=True)
class PredictedMessage:
    """What a unit of a plant with inputs sends after its first round: the rest has not changed.

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
    >>> from skfedcausal.message import PredictedMessage
    >>> message = PredictedMessage(np.zeros((100, 2)), np.zeros(2), loss=0.3, change=0.01)
    >>> sorted(message.to_packet().arrays)
    ['constant', 'predicted', 'progress']
    """

    predicted: np.ndarray
    constant: np.ndarray
    loss: float
    change: float

    OP: ClassVar[str] = "predicted"

    def to_packet(self, round=0, dtype="float64"):
        """Packet form, with the series in the given precision."""
        arrays = series_arrays("predicted", self.predicted, dtype) | {"constant": self.constant}
        arrays["progress"] = np.array([self.loss, self.change])
        return Packet(self.OP, round, arrays)

    @classmethod
    def from_packet(cls, packet):
        """Message in a packet; raises PacketError if its arrays do not fit together."""
        fields = Fields(packet, cls.OP)
        predicted = fields.series("predicted")
        constant = fields.numbers("constant", predicted.shape[1:])
        loss, change = fields.numbers("progress", (2,)).tolist()
        fields.check_all_read()
        return cls(predicted, constant, loss, change)


@dataclass(frozen=True)
class GradientReply:
    """Derivatives of the server's objective in a unit's augmented states.

    Attributes
    ----------
    predicted : ndarray of shape (n_rows, n_states)
        In ``h_a^t``, one row per pair ``(t - 1, t)``.
    augmented : ndarray of shape (n_rows, n_states) or None
        What the penalty adds, in ``h_hat_a^(t-1)``.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message import GradientReply
    >>> reply = GradientReply(np.zeros((100, 2)))
    >>> GradientReply.from_packet(reply.to_packet()).predicted.shape
    (100, 2)
    """

    predicted: np.ndarray
    augmented: np.ndarray | None = None

    OP: ClassVar[str] = "gradient"

    def to_packet(self, round=0, dtype="float64"):
        """Packet form, with series in the given precision."""
        arrays = series_arrays("predicted", self.predicted, dtype)
        if self.augmented is not None:
            arrays |= series_arrays("augmented", self.augmented, dtype)
        return Packet(self.OP, round, arrays)

    @classmethod
    def from_packet(cls, packet):
        """Reply in a packet; raises PacketError if its arrays do not fit together."""
        fields = Fields(packet, cls.OP)
        predicted = fields.series("predicted")
        augmented = fields.series("augmented", predicted.shape, optional=True)
        fields.check_all_read()
        return cls(predicted, augmented)


@dataclass(frozen=True)
class CorrectionMoments:
    """Second moments of a unit's correction with the other units' states and inputs.

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
    >>> from skfedcausal.message import CorrectionMoments
    >>> moments = CorrectionMoments(np.zeros((2, 3)), np.zeros((2, 3)), 1.0, 1.0, loss=0.3, change=0.01)
    >>> CorrectionMoments.from_packet(moments.to_packet()).cross.shape
    (2, 3)
    """

    cross: np.ndarray
    cross_states: np.ndarray
    energy: float
    energy_states: float
    loss: float
    change: float
    constant: np.ndarray | None = None

    OP: ClassVar[str] = "correction"

    def to_packet(self, round=0, dtype="float64"):
        """Packet form, always in double precision."""
        del dtype  # a few numbers
        arrays = {"cross": self.cross}
        if self.cross_states is not self.cross:
            arrays["cross_states"] = self.cross_states
        if self.constant is not None:
            arrays["constant"] = self.constant
        arrays["progress"] = np.array([self.energy, self.energy_states, self.loss, self.change])
        return Packet(self.OP, round, arrays)

    @classmethod
    def from_packet(cls, packet):
        """Moments in a packet; raises PacketError if its arrays do not fit together."""
        fields = Fields(packet, cls.OP)
        cross = fields.numbers("cross", (None, None))
        cross_states = fields.numbers("cross_states", cross.shape, optional=True)
        constant = fields.numbers("constant", cross.shape[:1], optional=True)
        progress = fields.numbers("progress", (4,)).tolist()
        fields.check_all_read()
        return cls(cross, cross if cross_states is None else cross_states, *progress, constant)


@dataclass(frozen=True)
class BlockRow:
    """The blocks ``[A_mn, B_mn]``, n other than m, of one unit: as the server has them, or as solved at home.

    Attributes
    ----------
    blocks : ndarray of shape (n_states, k)
    losses : ndarray of shape (3,) or None
        Client loss, server loss and penalty at the solution.
    constant : ndarray of shape (n_states,) or None
        phi at the solution.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message import BlockRow
    >>> row = BlockRow(np.zeros((2, 3)))
    >>> BlockRow.from_packet(row.to_packet()).blocks.shape
    (2, 3)
    """

    blocks: np.ndarray
    losses: np.ndarray | None = None
    constant: np.ndarray | None = None

    OP: ClassVar[str] = "blocks"

    def to_packet(self, round=0, dtype="float64"):
        """Packet form, always in double precision."""
        del dtype
        arrays = {"blocks": self.blocks}
        for name in ("losses", "constant"):
            if getattr(self, name) is not None:
                arrays[name] = getattr(self, name)
        return Packet(self.OP, round, arrays)

    @classmethod
    def from_packet(cls, packet):
        """Blocks in a packet; raises PacketError if its arrays do not fit together."""
        fields = Fields(packet, cls.OP)
        blocks = fields.numbers("blocks", (None, None))
        losses = fields.numbers("losses", (3,), optional=True)
        constant = fields.numbers("constant", blocks.shape[:1], optional=True)
        fields.check_all_read()
        return cls(blocks, losses, constant)


@dataclass(frozen=True)
class TrainingEnd:
    """The server says that training has ended.

    Attributes
    ----------
    input_level : ndarray of shape (n_states,) or None
        ``sum_n B_mn`` times the levels that units n took off their inputs, which phi lacks.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message import TrainingEnd
    >>> TrainingEnd.from_packet(TrainingEnd(np.array([0.5, -1.0])).to_packet()).input_level.tolist()
    [0.5, -1.0]
    """

    input_level: np.ndarray | None = None

    OP: ClassVar[str] = "finish"
    NEW_ROUND: ClassVar[bool] = False

    def to_packet(self, round=0, dtype="float64"):
        """Packet form, in double precision."""
        del dtype
        return Packet(self.OP, round, {} if self.input_level is None else {"input_level": self.input_level})

    @classmethod
    def from_packet(cls, packet):
        """Message in a packet; raises PacketError if its arrays do not fit together."""
        fields = Fields(packet, cls.OP)
        level = fields.numbers("input_level", (None,), optional=True)
        fields.check_all_read()
        return cls(level)


ANSWERS = {  # what a unit sends in each mode
    "series": AugmentedMessage,
    "steps": AugmentedMessage,
    "moments": CorrectionMoments,
    "stationary": BlockRow,
}
TO_SERVER = {
    kind.OP: kind for kind in (LocalModel, AugmentedMessage, PredictedMessage, CorrectionMoments, BlockRow)
}
TO_UNIT = {kind.OP: kind for kind in (TrainingPlan, GradientReply, BlockRow)}


def later_answer(mode, constant):
    """What a unit sends in a mode from its second round on.

    Parameters
    ----------
    mode : str
        Of the plan.
    constant : bool
        Whether phi is trained.

    Returns
    -------
    type

    Examples
    --------
    >>> from skfedcausal.message.training import later_answer
    >>> later_answer("series", True).__name__
    'PredictedMessage'
    """
    return PredictedMessage if mode == "series" and constant else ANSWERS[mode]
