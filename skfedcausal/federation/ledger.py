"""The account of everything that crossed a border."""

from dataclasses import dataclass
from functools import cache

from .packet import Failure, Packet, PacketError


@dataclass(frozen=True)
class LedgerEntry:
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
    """

    client: str
    direction: str
    round: int
    op: str
    n_bytes: int
    fields: dict


@cache
def _dtype_name(dtype):
    return str(dtype)


class Ledger:
    """Every packet in the order it passed, and the sums that users ask for.

    Attributes
    ----------
    entries : list of LedgerEntry

    Examples
    --------
    >>> from skfedcausal.federation.ledger import Ledger
    >>> from skfedcausal.federation.packet import Packet
    >>> ledger = Ledger()
    >>> ledger.record("mill", "up", Packet("done"))
    >>> ledger.total("up") == ledger.entries[0].n_bytes == Packet("done").nbytes
    True
    """

    def __init__(self):
        self.entries = []
        self._fields = {}  # one object for all packets of a kind: training sends many

    def record(self, client, direction, packet):
        """Add one packet.

        Parameters
        ----------
        client : str
        direction : {"up", "down"}
        packet : Packet

        Raises
        ------
        TypeError
            If it is no Packet: nothing else crosses.
        """
        if not isinstance(packet, Packet):
            raise TypeError(f"Only packets cross a border, got {type(packet).__name__}.")
        fields = {name: (_dtype_name(value.dtype), value.shape) for name, value in packet.arrays.items()}
        fields = self._fields.setdefault(tuple(fields.items()), fields)
        self.entries.append(LedgerEntry(client, direction, packet.round, packet.op, packet.nbytes, fields))

    def total(self, direction, client=None):
        """Bytes that went in one direction, of one client or of all.

        Parameters
        ----------
        direction : {"up", "down"}
        client : str, default=None

        Returns
        -------
        int
        """
        return sum(
            entry.n_bytes
            for entry in self.entries
            if entry.direction == direction and client in (None, entry.client)
        )

    def communication(self, raw_bytes):
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
        per_client = {
            name: {
                "bytes_up": self.total("up", name),
                "bytes_down": self.total("down", name),
                "raw_bytes": size,
            }
            for name, size in raw_bytes.items()
        }
        rounds = len({entry.round for entry in self.entries if entry.direction == "up"})
        return {
            "rounds": rounds,
            "bytes_up": self.total("up"),
            "bytes_down": self.total("down"),
            "raw_bytes": sum(raw_bytes.values()),
            "per_client": per_client,
        }


class LedgeredTransport:
    """A transport whose every packet passes a ledger.

    Parameters
    ----------
    transport : Transport
    ledger : Ledger
    """

    def __init__(self, transport, ledger):
        self._transport = transport
        self.ledger = ledger

    @property
    def one_way(self):
        """Whether nothing is sent to the clients: they volunteer what they send."""
        return getattr(self._transport, "one_way", False)

    def clients(self):
        """Names of the clients."""
        return self._transport.clients()

    def exchange(self, out, *, timeout=None):
        """Record, send, collect, record.

        An answer that could not have crossed a border is a failure of its client.
        """
        if not self.one_way:
            for name, packet in out.items():
                self.ledger.record(name, "down", packet)
        answers = dict(self._transport.exchange(out, timeout=timeout))
        for name, answer in answers.items():
            if isinstance(answer, Packet):
                try:
                    self.ledger.record(name, "up", answer)
                except PacketError as error:
                    answers[name] = Failure("client-error", str(error))
        return answers

    def close(self):
        """Close the transport behind."""
        self._transport.close()
