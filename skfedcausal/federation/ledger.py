"""The account of everything that crossed a border."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd

from ..message.packet import Packet
from ..message.schema import purpose
from .site_ledger import ByteLimitError


class LedgerEntry(NamedTuple):
    """One packet.

    Attributes
    ----------
    client : str
    direction : {"up", "down"}
        From the client to the server, or back.
    round : int
    op : str
    n_bytes : int
    fields : dict of str to tuple (dtype, shape)

    Examples
    --------
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> X, _ = make_granger_plant(2, n_samples=500, random_state=0)
    >>> entry = FederatedGrangerEstimator().fit(X).ledger_.entries[0]
    >>> entry.client, entry.direction, entry.op
    ('unit0', 'down', 'fit')
    """

    client: str
    direction: str
    round: int
    op: str
    n_bytes: int
    fields: dict

    def later(self, n_rounds):
        """The packet some rounds later; one that belongs to no round stays as it is."""
        return self._replace(round=self.round + n_rounds) if self.round else self


class StreamLedger:
    """The account of streams: how many packets of which size, since their number has no end.

    Examples
    --------
    >>> from skfedcausal.federation import Packet
    >>> from skfedcausal.federation.ledger import StreamLedger
    >>> ledger = StreamLedger()
    >>> for _ in range(1000):
    ...     ledger.record("mill", "up", Packet("done"))
    >>> ledger.table[["client", "direction", "op", "packets"]].to_string(index=False, header=False)
    'mill up done 1000'
    >>> ledger.total("up") == 1000 * Packet("done").nbytes
    True
    """

    def __init__(self):
        self._sums = {}

    def record(self, client: str, direction: str, packet: Packet) -> None:
        """Count one packet.

        Parameters
        ----------
        client : str
        direction : {"up", "down"}
        packet : Packet
        """
        self._count(client, direction, packet.op, packet.nbytes)

    def _count(self, client, direction, op, n_bytes):
        packets, so_far = self._sums.get((client, direction, op), (0, 0))
        self._sums[client, direction, op] = packets + 1, so_far + n_bytes

    @property
    def table(self) -> pd.DataFrame:
        """Packets so far, a DataFrame ``client, direction, op, packets, bytes``."""
        rows = [(*kind, *sums) for kind, sums in self._sums.items()]
        return pd.DataFrame(rows, columns=["client", "direction", "op", "packets", "bytes"])

    def total(self, direction: str, client: str | None = None) -> int:
        """Bytes that went in one direction, of one client or of all.

        Parameters
        ----------
        direction : {"up", "down"}
        client : str, default=None

        Returns
        -------
        int
        """
        sums = self._sums.items()
        return sum(size for (name, way, _), (_, size) in sums if way == direction and client in (None, name))


class Ledger(StreamLedger):
    """Every packet in the order it passed, and the sums that users ask for.

    Parameters
    ----------
    max_bytes : int, default=None
        Most bytes that may leave all units together. None sets no limit.

    Attributes
    ----------
    entries : list of LedgerEntry

    Examples
    --------
    >>> from skfedcausal.federation.ledger import Ledger
    >>> from skfedcausal.message.packet import Packet
    >>> ledger = Ledger()
    >>> ledger.record("mill", "up", Packet("done"))
    >>> ledger.total("up") == ledger.entries[0].n_bytes == Packet("done").nbytes
    True
    """

    def __init__(self, max_bytes=None):
        super().__init__()
        self.entries = []
        self.max_bytes = max_bytes
        self._fields = {}  # one object for all packets of a kind: training sends many

    def record(self, client: str, direction: str, packet: Packet) -> None:
        """Add one packet, before it goes.

        Parameters
        ----------
        client : str
        direction : {"up", "down"}
        packet : Packet

        Raises
        ------
        TypeError
            If it is no Packet: nothing else crosses.
        ByteLimitError
            If it would take what left over `max_bytes`; it must not be sent then.
        """
        if not isinstance(packet, Packet):
            raise TypeError(f"Only packets cross a border, got {type(packet).__name__}.")
        n_bytes = packet.nbytes
        fields = tuple([(name, value.dtype, value.shape) for name, value in packet.arrays.items()])
        if fields not in self._fields:
            self._fields[fields] = {name: (str(dtype), shape) for name, dtype, shape in fields}
        if direction == "up" and self.max_bytes is not None:
            sent = self.total("up")
            if sent + n_bytes > self.max_bytes:
                raise ByteLimitError(
                    f"Packet {packet.op!r} of {client!r} was not sent: max_bytes={self.max_bytes}, {sent} have left, "
                    f"{n_bytes} more would."
                )
        super().record(client, direction, packet)
        entry = LedgerEntry(client, direction, packet.round, packet.op, n_bytes, self._fields[fields])
        self.entries.append(entry)

    @property
    def table(self) -> pd.DataFrame:
        """Packets so far, a DataFrame with one row per client and kind of packet.

        Columns ``client, direction, op, purpose, packets, bytes, fields``; `fields` says what is in the first
        packet of the kind, with dtype and shape.
        """
        first = {(entry.client, entry.direction, entry.op): entry.fields for entry in reversed(self.entries)}
        table = super().table.assign(fields=[_in_words(first[kind]) for kind in self._sums])
        table.insert(3, "purpose", [purpose(op) for op in table["op"]])
        return table

    def begin_with(self, other: "Ledger") -> None:
        """Put the packets of another account, which passed before, in front of these.

        Parameters
        ----------
        other : "Ledger"
        """
        last = max((entry.round for entry in other.entries), default=0)
        mine = [entry.later(last) for entry in self.entries]
        self.entries = other.entries + mine
        for entry in other.entries:
            self._count(entry.client, entry.direction, entry.op, entry.n_bytes)

    def communication(self, raw_bytes: Mapping[str, float]) -> dict[str, Any]:
        """Summary by client.

        Parameters
        ----------
        raw_bytes : dict of str to int
            Size of each client's raw data.

        Returns
        -------
        dict
            Ints ``rounds, bytes_up, bytes_down, raw_bytes`` and ``per_client``, a dict of the same sums.
        """
        rounds = len({entry.round for entry in self.entries if entry.direction == "up"})
        whole = {"bytes_up": self.total("up"), "bytes_down": self.total("down"), "raw_bytes": sum(raw_bytes.values())}
        each = {name: {"bytes_up": 0, "bytes_down": 0, "raw_bytes": size} for name, size in raw_bytes.items()}
        for (name, way, _), (_, size) in self._sums.items():
            if name in each:
                each[name][f"bytes_{way}"] += size
        return {"rounds": rounds, **whole, "per_client": each}


def _in_words(fields):
    """Names of arrays with dtype and shape."""
    return ", ".join(f"{name} ({kind}, {' x '.join(map(str, shape)) or '1'})" for name, (kind, shape) in fields.items())
