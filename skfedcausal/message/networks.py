"""The frozen types that cross the border while nonlinear corrections are trained (Algorithm 1 of the paper).

Like those of :mod:`skfedcausal.message`: nothing else crosses, weights of networks least of all. The server's
replies are :class:`~skfedcausal.message.GradientReply`.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .fields import Fields, series_arrays
from .packet import Packet, PacketError

FINISH = "networks trained"  # the server says that training has ended


@dataclass(frozen=True)
class NetworkPlan:
    """What a unit has to know before its correction is trained.

    Attributes
    ----------
    batch_size : int
        Successive pairs of time steps ``(t - 1, t)`` that one message is about.
    client_weight : float
        Weight of the unit's own loss beside the server's.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message import NetworkPlan
    >>> plan = NetworkPlan(batch_size=32, client_weight=1.0)
    >>> NetworkPlan.from_packet(plan.to_packet()).batch_size
    32
    """

    batch_size: int
    client_weight: float

    OP: ClassVar[str] = "network-plan"

    def to_packet(self, round=0, dtype="float64"):
        """Packet form; tells the unit in which precision to answer."""
        told = {"batch_size": self.batch_size, "client_weight": self.client_weight, "dtype": dtype}
        return Packet(self.OP, round, scalars=told)

    @classmethod
    def from_packet(cls, packet):
        """Plan in a packet.

        Raises
        ------
        PacketError
            If its numbers cannot be meant.
        """
        fields = Fields(packet, cls.OP)
        fields.check_all_read()
        fields.check_scalars("batch_size", "client_weight", "dtype")
        return cls(fields.count("batch_size", 1), fields.weight("client_weight"))


@dataclass(frozen=True)
class PredictedStates:
    """A unit's states over a batch: filtered by its own model, and predicted with its correction.

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
    >>> from skfedcausal.message import PredictedStates
    >>> states = PredictedStates(np.zeros((32, 2)), loss=0.3)
    >>> PredictedStates.from_packet(states.to_packet()).predicted.shape
    (32, 2)
    """

    predicted: np.ndarray
    loss: float
    filtered: np.ndarray | None = None
    spread: np.ndarray | None = None

    OP: ClassVar[str] = "predicted-states"

    def to_packet(self, round=0, dtype="float64"):
        """Packet form, with series in the given precision."""
        arrays = series_arrays("predicted", self.predicted, dtype)
        if self.filtered is not None:
            arrays |= series_arrays("filtered", self.filtered, dtype)
        if self.spread is not None:
            arrays["spread"] = self.spread
        return Packet(self.OP, round, arrays, {"loss": self.loss})

    @classmethod
    def from_packet(cls, packet):
        """Message in a packet.

        Raises
        ------
        PacketError
            If its arrays do not fit together.
        """
        fields = Fields(packet, cls.OP)
        predicted = fields.series("predicted")
        filtered = fields.series("filtered", predicted.shape, optional=True)
        spread = fields.numbers("spread", (2, predicted.shape[1]), optional=True)
        fields.check_all_read()
        loss = packet.scalars.get("loss")
        if set(packet.scalars) != {"loss"} or not isinstance(loss, float):
            raise PacketError(f"Packet {cls.OP!r} needs the unit's loss; it brings {dict(packet.scalars)}.")
        return cls(predicted, loss, filtered, spread)


@dataclass(frozen=True)
class NoGradient:
    """The server's reply to a unit that trains on its own loss alone.

    The next batch is asked for; nothing is told.

    Examples
    --------
    >>> from skfedcausal.message import NoGradient
    >>> NoGradient().to_packet().op
    'no-gradient'
    """

    OP: ClassVar[str] = "no-gradient"

    def to_packet(self, round=0, dtype="float64"):
        """Packet form."""
        del dtype
        return Packet(self.OP, round)

    @classmethod
    def from_packet(cls, packet):
        """Reply in a packet."""
        Fields(packet, cls.OP).check_all_read()
        return cls()
