"""What crosses the border while a plant is watched, beside states: flags up, verdicts down."""

import numpy as np
import pandas as pd

from ..message.packet import Packet
from ..message.watching import WATCH, FlagMessage, VerdictReply


def watch_request(batch, round=1, dtype="float64"):
    """Packet that asks for a message about one batch, counted from 1, of the record to be watched."""
    return Packet(WATCH, round, scalars={"dtype": dtype, "batch": batch})


def send_flags(pairs, ledger):
    """Flags of every unit as the server gets them, dict of str to ndarray of bool of shape (n_samples, 2)."""
    arrived = {}
    for name, flags in pairs.items():
        packet = FlagMessage(flags).to_packet()
        ledger.record(name, "up", packet)
        arrived[name] = FlagMessage.from_packet(packet).pairs
    return arrived


def verdict_reply(found):
    """Verdict on incidents given as (first row of their episode, verdict)."""
    rows = [(v.start + first, v.detected + first, v.last + first) for first, v in found]
    return VerdictReply(rows, [int(v.probability.argmax()) for _, v in found])


def flag_verdict(roots, n_units):
    """Verdict with an incident for every run of rows with the same root."""
    begins = np.flatnonzero(np.diff(roots, prepend=-3))  # no root, so that the first row begins a run
    ends = np.append(begins[1:], len(roots)) - 1
    named = roots[begins] != -1
    root = np.where(roots[begins] < 0, n_units, roots[begins])
    return VerdictReply(np.column_stack([begins, begins, ends])[named], root[named])


def tell_verdict(reply, names, ledger):
    """Send one verdict to all units."""
    packet = reply.to_packet()
    for name in names:
        ledger.record(name, "down", packet)


class StreamLedger:
    """The account of streams: how many packets of which size, since their number has no end.

    A batch of a stream holds one packet up of every unit, and one down to every unit if the batch started or
    changed an incident.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.federation.watching import StreamLedger
    >>> from skfedcausal.message import StateMessage
    >>> ledger, message = StreamLedger(), StateMessage(np.zeros((1, 2)), np.eye(2)[None], None, (1,))
    >>> for _ in range(1000):
    ...     ledger.count_states({"mill": message})
    >>> ledger.table[["client", "direction", "op", "packets"]].to_string(index=False, header=False)
    'mill up states 1000'
    >>> ledger.total("up") == 1000 * message.to_packet().nbytes
    True
    """

    def __init__(self, dtype="float64"):
        self._dtype = dtype
        self._sums = {}

    def count_states(self, messages):
        """One batch of messages went up."""
        for name, message in messages.items():
            self._count(name, "up", message.to_packet(0, self._dtype))

    def count_flags(self, pairs):
        """One batch of flags went up, two bits per unit and row."""
        for name, flags in pairs.items():
            self._count(name, "up", FlagMessage(flags).to_packet())

    def count_verdict(self, n_incidents, names):
        """One verdict went down to all units."""
        packet = VerdictReply(np.zeros((n_incidents, 3)), np.zeros(n_incidents)).to_packet()
        for name in names:
            self._count(name, "down", packet)

    def _count(self, name, direction, packet):
        packets, n_bytes = self._sums.get((name, direction, packet.op), (0, 0))
        self._sums[name, direction, packet.op] = packets + 1, n_bytes + packet.nbytes

    @property
    def table(self):
        """Packets so far, a DataFrame ``client, direction, op, packets, bytes``."""
        rows = [(*kind, *sums) for kind, sums in self._sums.items()]
        return pd.DataFrame(rows, columns=["client", "direction", "op", "packets", "bytes"])

    def total(self, direction, client=None):
        """Bytes that went in one direction, of one client or of all."""
        table = self.table
        chosen = table[(table["direction"] == direction) & (table["client"].eq(client) | (client is None))]
        return int(chosen["bytes"].sum())
