"""Messages of monitoring for faults."""

from typing import Any

import numpy as np

from .packet import PacketError
from .requests import FITS
from .schema import Message, wire
from .states import Acknowledgement, StateMessage


class FlagMessage(Message, op="flags"):
    """Two bits per time step: whether the unit's own models call it unusual.

    Attributes
    ----------
    pairs : ndarray of bool of shape (n_samples, 2)
        Flags of the proprietary and of the augmented model.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message.watching import FlagMessage
    >>> message = FlagMessage(np.zeros((1000, 2), dtype=bool))
    >>> message.to_packet().arrays["bits"].nbytes
    250
    >>> FlagMessage.from_packet(message.to_packet()).pairs.shape
    (1000, 2)
    """

    pairs: np.ndarray = wire("bits T 2", "flags, four time steps to a byte", array="bits")


class WatchRequest(Message, op="watch", answer=StateMessage, first="dtype"):
    """Asks for a message about the next batch of the record that is monitored for faults.

    Attributes
    ----------
    batch : int
        Number of the batch, counted from 1.
    flags : bool or None
        Whether to send flags in place of states; None, like False, for states.
    fits : bool or None
        Whether to say if the model explains these rows clearly worse than those that it was learned from; None, like
        False, for no.

    Examples
    --------
    >>> from skfedcausal.message.watching import WatchRequest
    >>> WatchRequest(3).to_packet().scalars
    {'dtype': 'float64', 'batch': 3}
    """

    batch: int = wire("count", "number of the batch", default=1)
    flags: bool | None = wire("flag", "whether to send flags in place of states", default=None)
    fits: bool | None = wire("flag", FITS, default=None)


class FlagsRequest(Message, op="flag"):
    """Asks for flags about the unit's record, or to learn from it what is nominal.

    Attributes
    ----------
    percentile : float or None
        Percentile of the nominal record above which time steps are flagged: learn it. None: raise flags.

    Examples
    --------
    >>> from skfedcausal.message.watching import FlagsRequest
    >>> FlagsRequest(99.0).answer.__name__, FlagsRequest().answer.__name__
    ('Acknowledgement', 'FlagMessage')
    """

    percentile: float | None = wire("number", "percentile of the nominal record", default=None)

    @property
    def answer(self) -> Any:
        """Kind of message that answers this request."""
        return FlagMessage if self.percentile is None else Acknowledgement

    def _check(self, packet):
        if self.percentile is not None and self.percentile > 100:
            raise PacketError(f"Scalar 'percentile' of packet 'flag' is {self.percentile}, expected at most 100.")


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
    >>> from skfedcausal.message.watching import VerdictReply
    >>> reply = VerdictReply(np.array([[10, 12, 40]]), np.array([2]))
    >>> VerdictReply.from_packet(reply.to_packet()).rows.tolist()
    [[10, 12, 40]]
    """

    rows: np.ndarray = wire("whole k 3", "onset, first and last row in alarm")
    roots: np.ndarray = wire("whole k", "which unit is the root")
