"""Messages of monitoring for faults, beside the states."""

import numpy as np

from .schema import Message, wire
from .states import Acknowledgement


class FlagMessage(Message, op="flags"):
    """Two bits per time step: whether the unit's own models call it unusual.

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

    pairs: np.ndarray = wire("bits T 2", "flags, four time steps to a byte", array="bits")


class VerdictReply(Message, op="verdict", answer=Acknowledgement):
    """Incidents of the plant.

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

    rows: np.ndarray = wire("whole k 3", "onset, first and last row in alarm")
    roots: np.ndarray = wire("whole k", "which unit is the root")
