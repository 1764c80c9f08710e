"""Accounts of all that crossed a border: the server's, a site's own, and a new one in the place of a broken one."""

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from ..beside import beside
from ..message.packet import Packet, PacketError
from ..message.schema import described, purpose
from .atomic import START, Chain, LedgerError, check_chain, fault_of, read_ledger, write_whole
from .envelope import Envelope, KeyPair, check_countersignature, countersignature

# The site's own account of what left and what came: lines of JSON, each sealed with the one before it.

_SAYS_NOTHING = ("error", "done", "nothing yet")

__all__ = ["ByteLimitError", "LedgerError", "SiteLedger", "read_ledger", "verify_ledger"]


class ByteLimitError(RuntimeError):
    """A packet that would take a run, or all of them, over its limit of bytes; it was not sent."""

    def __init__(self, text, rule="max_bytes"):
        super().__init__(text)
        self.rule, self.kind = rule, "refused" if rule == "max_bytes" else "policy"


class SiteLedger:
    """Account of a site in a file of JSON lines.

    Every line holds the hash of the line before it, so that one that is changed, taken out or moved breaks
    the chain from there on. Lines cut off the end leave a valid chain: keep the last hash (``head``)
    elsewhere to notice that too.

    Parameters
    ----------
    path : str or Path
        Made with the first line; a file that is there is checked and continued.
    max_bytes : int, default=None
        Most bytes that may leave in one run, envelopes included. None sets no limit.
    noise : str, default="none"
        What noise was added to the measurements before anything was computed from them.
    total_bytes : int, default=None
        Most bytes that may leave in all runs together.
    policy : str, default="none"
        What the site lets be asked, in words.
    account : callable, default=None
        Gives the head of the site's account of privacy, which every line holds.

    Raises
    ------
    LedgerError
        If there is a ledger whose chain is broken.

    Examples
    --------
    >>> import tempfile
    >>> from skfedcausal.federation import SiteLedger
    >>> from skfedcausal.message.packet import Packet
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = SiteLedger(f"{folder.name}/ledger.jsonl")
    >>> _ = ledger.record("march", "boiler", "up", Packet("done", 1), b"sealed bytes")
    >>> ledger.verify()["bytes_up"]
    12
    >>> folder.cleanup()
    """

    def __init__(self, path, max_bytes=None, noise="none", *, total_bytes=None, policy="none", account=None):
        self.path = Path(path)
        self.max_bytes, self.total_bytes = max_bytes, total_bytes
        self.noise, self.policy, self.account = noise, policy, account
        self.sites: set[str] = set()  # that lines are about
        self.first_run = None  # that the site answered with more than an acknowledgement
        self._chain = Chain(self.path)
        self._sent, self._seen, self._refused, self._hashes = {}, {}, set(), {START}
        for entry in self.entries():
            self._count(entry)

    def entries(self) -> list[dict[str, Any]]:
        """All lines, as dicts.

        Returns
        -------
        list of dict
        """
        return self._chain.entries()

    @property
    def head(self) -> Any:
        """Hash of the last line."""
        return self._chain.head

    def record(
        self,
        run: str,
        site: str,
        direction: str,
        packet: Packet,
        frame: bytes,
        sequence: int = 0,
        *,
        again: bool = False,
        seen: str = "",
    ) -> dict[str, Any]:
        """Account for a packet before it leaves, or when it came.

        The same bytes under the same number of a run are counted once: they are sent again only where the
        first time was broken off. `again` says that they were not, as where there was nothing to say yet.

        Parameters
        ----------
        run, site : str
        direction : {"up", "down"}
        packet : Packet
        frame : bytes
            What is on the wire, the envelope included.
        sequence : int
        again : bool, default=False
        seen : str, default=""
            Head of this ledger that the other side says it has seen, by the signature on the packet.

        Returns
        -------
        dict
            The line.

        Raises
        ------
        ByteLimitError
            If it would take what left in this run over `max_bytes`, or in all runs over `total_bytes`; nothing
            must be sent then. The refusal is a line of the account.
        """
        sha256, n_bytes = hashlib.sha256(frame).hexdigest(), len(frame)
        known = self._seen.get((run, direction, sequence, sha256))
        if known is not None and not again:
            return known
        content = {
            "event": "sent" if direction == "up" else "taken",
            "run": run,
            "site": site,
            "direction": direction,
            "sequence": sequence,
            "round": packet.round,
            "op": packet.op,
            "purpose": purpose(packet.op),
            "packet_bytes": packet.nbytes,
            "n_bytes": n_bytes,
            "sha256": sha256,
            "fields": {name: described(packet.op, name, value) for name, value in packet.arrays.items()},
            "settings": dict(packet.scalars),
            "noise": self.noise if direction == "up" else "not ours",
            "policy": self.policy,
        }
        if seen:
            content |= {"countersigned": seen, **countersignature(frame)}
        if self.account is not None:
            content["account"] = self.account()
        if direction == "up":
            self._check_limits(content)
        return self._append(content)

    def _check_limits(self, content):
        """Refuse to send more bytes than the limits allow."""
        n_bytes, ran, total = content["n_bytes"], self._sent.get(content["run"], 0), sum(self._sent.values())
        for rule, sent, where in (("max_bytes", ran, "in this run"), ("total_bytes", total, "in all runs")):
            most = getattr(self, rule)
            if most is not None and sent + n_bytes > most:
                reason = f"{rule}={most}: {sent} have left {where}, {n_bytes} more would"
                self._append({**content, "event": "not sent", "reason": reason})
                text = f"Packet {content['op']!r} of {content['site']!r} was not sent: {reason}."
                raise ByteLimitError(text, rule)

    def check_seen(self, head: str) -> None:
        """Refuse a packet of somebody who has seen a line that is not here.

        Parameters
        ----------
        head : str
            Hash of the line; nothing is checked if empty.

        Raises
        ------
        PacketError
        """
        if head and head not in self._hashes:
            raise PacketError(
                f"The server has seen the line {head} of this ledger, which is not in it: lines were cut off, "
                "or an older copy was put in its place. Put the whole ledger back."
            )

    def questions(self) -> set[tuple[Any, ...]]:
        """Runs and numbers of all questions in the account.

        Returns
        -------
        set of tuple
        """
        return {(run, sequence) for run, direction, sequence, _ in self._seen if direction == "down"}

    def has_taken(self, address: Envelope, frame: bytes) -> bool:
        """Whether a question is in the account.

        Parameters
        ----------
        address : Envelope
            What is on its outside.
        frame : bytes

        Returns
        -------
        bool
        """
        return (address.run, "down", address.sequence, hashlib.sha256(frame).hexdigest()) in self._seen

    def head_before(self, run: str, sequence: int) -> str:
        """Last line before a packet that was sent unasked, or is about to be.

        Parameters
        ----------
        run : str
        sequence : int

        Returns
        -------
        str
        """
        sent = [one for key, one in self._seen.items() if key[:3] == (run, "up", sequence)]
        return sent[0]["previous"] if sent else self.head

    def refuse(
        self, run: str, site: str, reason: str, source: str | bytes | None = None, **more
    ) -> dict[str, Any] | None:
        """Account for something that came and was not taken; one line for every source of refused things.

        Parameters
        ----------
        run : str
        site : str
        reason : str
        source : str or bytes, default=None
            Name of the file that it came in, or what came. None: it is always a line of its own.
        **more
            Further fields of the line.

        Returns
        -------
        dict or None
            The line that was written; None where the source has its line.
        """
        if isinstance(source, bytes):
            source = hashlib.sha256(source).hexdigest()
        if source is not None and source in self._refused:
            return None
        named = {} if source is None else {"source": source}
        return self._append({"event": "refused", "run": run, "site": site, "reason": reason, **named, **more})

    def begun_again(self, run: str, site: str) -> None:
        """Note that a run goes on from its beginning, about another record than the one that answers were about.

        Parameters
        ----------
        run, site : str
        """
        self._append({"event": "begun again", "run": run, "site": site, "reason": "the record was changed"})

    def repaired(self, reason: str, **what) -> None:
        """Begin again after lines that were lost; what they say that left still counts.

        Parameters
        ----------
        reason : str
            What was wrong with the first of them.
        **what
            What they said: the ``first_run``, bytes that were ``sent`` in every run, their ``hashes``; and about
            the file that is kept.
        """
        self._append({"event": "repaired", "reason": reason, **what})

    def _append(self, content):
        entry = self._chain.append(content)
        self._count(entry)
        return entry

    def _count(self, entry):
        self._hashes.add(entry["hash"])
        self.sites |= {entry["site"]} if "site" in entry else set()
        if entry["event"] in ("sent", "taken"):
            self._seen[tuple(entry[k] for k in ("run", "direction", "sequence", "sha256"))] = entry
        if entry["event"] == "sent":
            self._sent[entry["run"]] = self._sent.get(entry["run"], 0) + entry["n_bytes"]
            if self.first_run is None and entry["op"] not in _SAYS_NOTHING:
                self.first_run = entry["run"]
        elif entry["event"] == "repaired":  # what the lines that were lost said had left
            self.first_run = self.first_run or entry["first_run"]
            self._hashes |= set(entry["hashes"])
            for run, n_bytes in entry["sent"].items():
                self._sent[run] = max(self._sent.get(run, 0), n_bytes)
        elif entry["event"] == "refused" and "source" in entry:
            self._refused.add(entry["source"])

    def verify(self) -> dict[str, Any]:
        """Check the whole chain and add up.

        Returns
        -------
        dict
            ``entries, bytes_up, bytes_down, refused, head``.

        Raises
        ------
        LedgerError
            Naming the first line that does not fit.
        """
        return verify_ledger(self.path)

    def to_html(self, path: str | PathLike[str]) -> None:
        """Write the page for whoever has to agree to what leaves.

        Parameters
        ----------
        path : str or Path
        """
        write_whole(path, beside("ledger_page")(self.entries(), self.verify()).html().encode("utf-8"))


def verify_ledger(path: str | PathLike[str], server: KeyPair | None = None) -> dict[str, Any]:
    """Check a ledger's chain and add up, see :meth:`SiteLedger.verify`.

    Parameters
    ----------
    path : str or Path
    server : KeyPair, default=None
        With the public key of the server, where it signs with a key of its own: its countersignatures are checked,
        which anybody can do who has that key.

    Returns
    -------
    dict
        Numbers of ``entries`` and ``refused``, ``bytes_up``, ``bytes_down``, the ``head``; with `server` the number of
        the last line that it has ``countersigned``, 0 for none.

    Raises
    ------
    LedgerError
        If a line was changed, left out or put in, or countersigned by somebody else.

    Examples
    --------
    >>> import tempfile
    >>> from skfedcausal.federation import Packet, SiteLedger, verify_ledger
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = SiteLedger(f"{folder.name}/ledger.jsonl")
    >>> _ = ledger.record("march", "boiler", "up", Packet("done", 1), b"sealed bytes")
    >>> verify_ledger(f"{folder.name}/ledger.jsonl")["bytes_up"]
    12
    >>> folder.cleanup()
    """
    entries = read_ledger(path) if Path(path).exists() else []  # made with its first line
    check_chain(entries, path)
    last = _check_countersigned(entries, path)
    for entry in entries if server is not None else ():
        _check_signed(entry, server, path)

    def total(event):
        return sum(entry["n_bytes"] for entry in entries if entry["event"] == event)

    return {
        "entries": len(entries),
        "bytes_up": total("sent"),
        "bytes_down": total("taken"),
        "refused": sum(entry["event"] in ("refused", "not sent") for entry in entries),
        "head": entries[-1]["hash"] if entries else START,
        **({} if server is None else {"countersigned": last}),
    }


def _check_countersigned(entries, path):
    """Number of the last line that the server has seen; a ledger without one of them was written anew."""
    known, last = {START: 0}, 0
    for entry in entries:
        if entry["event"] == "repaired":  # what was lost is said there
            known |= dict.fromkeys(entry["hashes"], entry["number"])
        seen = entry.get("countersigned", START)
        if seen not in known:
            raise LedgerError(
                f"{path}, line {entry['number']}: the server countersigned a line before it that is not there; "
                "lines were taken out and the rest written anew."
            )
        known[entry["hash"]], last = entry["number"], max(last, known[seen])
    return last


def _check_signed(entry, server, path):
    """Refuse a countersignature that is not the server's."""
    if "countersigned" not in entry:
        return
    try:
        check_countersignature(entry, server)
    except (PacketError, KeyError, ValueError) as error:
        raise LedgerError(f"{path}, line {entry['number']}: not countersigned by this server. {error}") from None


# The account of everything that crossed a border.


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


# A new ledger in the place of a broken one: what is intact goes on, what is lost is said.


def repair_ledger(path):
    """Keep the intact lines of a broken ledger and go on after them; what is lost, as a dict.

    The broken file is kept beside it. What its other lines say that left still counts against the site's
    limits, and the first line of the new part says so.
    """
    path = Path(path)
    if not path.exists():
        raise LedgerError(f"There is no ledger {path} to repair.")
    data = path.read_bytes()
    lines = data.splitlines(keepends=True)
    kept, reason = _intact(lines)
    if len(kept) == len(lines):
        raise LedgerError(f"{path} is intact: there is nothing to repair.")
    lost = [entry for entry in map(_parsed, lines[len(kept) :]) if entry is not None]
    broken = path.with_name(f"{path.stem}.broken-{datetime.now(UTC):%Y%m%dT%H%M%S%f}{path.suffix}")
    write_whole(broken, data)
    write_whole(path, b"".join(kept))
    ledger = SiteLedger(path)
    sent = _sums([*(entry for entry in map(_parsed, kept) if entry is not None), *lost])
    gone = [entry for entry in lost if _says_sent(entry)]
    first = next(iter(sent), None) if ledger.first_run is None else ledger.first_run
    what = {"broken": broken.name, "sha256": hashlib.sha256(data).hexdigest(), "lost": len(lines) - len(kept)}
    hashes = [entry["hash"] for entry in lost if isinstance(entry.get("hash"), str)]  # that servers may have seen
    ledger.repaired(reason, first_run=first, sent=sent, hashes=hashes, **what)
    return {
        "ledger": str(path),
        "kept": len(kept),
        "first_bad": len(kept) + 1,
        "lost": len(lines) - len(kept),
        "reason": reason,
        "lost_packets": len(gone),
        "lost_bytes": sum(entry["n_bytes"] for entry in gone),
        "broken": str(broken),
    }


def _intact(lines):
    """Lines from the first on that form a chain, and what is wrong with the one after them."""
    previous = START
    for number, line in enumerate(lines, start=1):
        entry = _parsed(line) if line.endswith(b"\n") else None
        if entry is None:
            return lines[: number - 1], f"line {number}: not a whole line of a ledger"
        if wrong := fault_of(entry, number, previous):
            return lines[: number - 1], f"line {number}: {wrong}"
        previous = entry["hash"]
    return lines, "nothing"


def _parsed(line):
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


def _says_sent(entry):
    n_bytes, run = entry.get("n_bytes"), entry.get("run")
    return entry.get("event") == "sent" and type(n_bytes) is int and n_bytes >= 0 and isinstance(run, str)


def _sums(entries):
    """Bytes that left in every run, as the lines say."""
    sums: dict[str, int] = {}
    for entry in filter(_says_sent, entries):
        sums[entry["run"]] = sums.get(entry["run"], 0) + entry["n_bytes"]
    return sums
