"""The frozen types that cross the border while a plant is watched, beside the states.

Like those of :mod:`skfedcausal.message`: nothing else crosses, and each type knows its packet form.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .fields import Fields
from .packet import Packet, PacketError

WATCH = "watch"  # operation of a packet that asks for a message about a batch of the record to be watched


@dataclass(frozen=True)
class FlagMessage:
    """A unit's anomaly flags: two bits per time step.

    Attributes
    ----------
    pairs : ndarray of bool of shape (n_samples, 2)
        Flags of the proprietary and of the augmented model.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message import FlagMessage
    >>> message = FlagMessage(np.zeros((1000, 2), dtype=bool))
    >>> message.to_packet().arrays["bits"].nbytes
    250
    >>> FlagMessage.from_packet(message.to_packet()).pairs.shape
    (1000, 2)
    """

    pairs: np.ndarray

    OP: ClassVar[str] = "flags"

    def to_packet(self, round=0, dtype="float64"):
        """Packet form, four time steps to a byte."""
        arrays = {"bits": np.packbits(self.pairs), "length": np.array([len(self.pairs)])}
        return Packet(self.OP, round, arrays)

    @classmethod
    def from_packet(cls, packet):
        """Message in a packet.

        Raises
        ------
        PacketError
            If the bits are not those of so many time steps.
        """
        fields = Fields(packet, cls.OP)
        n_samples = int(fields.whole("length", (1,))[0])
        bits = fields.whole("bits", (None,)).astype(np.uint8)
        fields.check_all_read()
        if n_samples < 1 or len(bits) != -(-2 * n_samples // 8):
            raise PacketError(f"Packet 'flags' has {len(bits)} bytes of bits for {n_samples} time steps.")
        return cls(np.unpackbits(bits, count=2 * n_samples).astype(bool).reshape(n_samples, 2))


@dataclass(frozen=True)
class VerdictReply:
    """Incidents as every unit is told of them.

    Attributes
    ----------
    rows : ndarray of int of shape (n_incidents, 3)
        Onset, first and last row in alarm.
    roots : ndarray of int of shape (n_incidents,)
        Position of the most probable root among the units; their number where nobody can tell.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message import VerdictReply
    >>> reply = VerdictReply(np.array([[10, 12, 40]]), np.array([2]))
    >>> VerdictReply.from_packet(reply.to_packet()).rows.tolist()
    [[10, 12, 40]]
    """

    rows: np.ndarray
    roots: np.ndarray

    OP: ClassVar[str] = "verdict"

    def to_packet(self, round=0, dtype="float64"):
        """Packet form."""
        rows = np.asarray(self.rows, dtype=np.int64).reshape(-1, 3)
        return Packet(self.OP, round, {"rows": rows, "roots": np.asarray(self.roots, dtype=np.int64)})

    @classmethod
    def from_packet(cls, packet):
        """Reply in a packet.

        Raises
        ------
        PacketError
            If the arrays do not fit together.
        """
        fields = Fields(packet, cls.OP)
        rows = fields.whole("rows", (None, 3))
        roots = fields.whole("roots", (len(rows),))
        fields.check_all_read()
        return cls(rows, roots)
