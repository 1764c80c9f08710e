"""The site's own account of what left and what came: lines of JSON, each sealed with the one before it."""

import hashlib
from os import PathLike
from pathlib import Path
from typing import Any

from ..beside import beside
from ..message.packet import Packet, PacketError
from ..message.schema import described, purpose
from .atomic import write_whole
from .chain import START, Chain, LedgerError, check_chain, read_ledger
from .envelope import Envelope, check_countersignature, countersignature
from .signatures import KeyPair

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
