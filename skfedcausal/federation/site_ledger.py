"""The site's own account of what left and what came: lines of JSON, each sealed with the one before it."""

import hashlib
from pathlib import Path

from ..message.schema import described, purpose
from .atomic import write_whole
from .chain import START, Chain, LedgerError, check_chain, read_ledger

__all__ = ["ByteLimitError", "LedgerError", "SiteLedger", "read_ledger", "verify_ledger"]


class ByteLimitError(RuntimeError):
    """A packet that would take a run over its limit of bytes; it was not sent."""


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

    def __init__(self, path, max_bytes=None, noise="none"):
        self.path = Path(path)
        self.max_bytes = max_bytes
        self.noise = noise
        self._chain = Chain(self.path)
        self._sent, self._seen = {}, {}
        for entry in self.entries():
            self._count(entry)

    def entries(self):
        """All lines, as dicts.

        Returns
        -------
        list of dict
        """
        return self._chain.entries()

    @property
    def head(self):
        """Hash of the last line."""
        return self._chain.head

    def record(self, run, site, direction, packet, frame, sequence=0):
        """Account for a packet before it leaves, or when it came.

        The same bytes under the same number of a run are counted once: they are sent again only where the
        first time was broken off.

        Parameters
        ----------
        run, site : str
        direction : {"up", "down"}
        packet : Packet
        frame : bytes
            What is on the wire, the envelope included.
        sequence : int

        Returns
        -------
        dict
            The line.

        Raises
        ------
        ByteLimitError
            If it would take what left in this run over `max_bytes`; nothing must be sent then. The refusal is
            a line of the account.
        """
        sha256, n_bytes, sent = hashlib.sha256(frame).hexdigest(), len(frame), self._sent.get(run, 0)
        known = self._seen.get((run, direction, sequence, sha256))
        if known is not None:
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
        }
        if direction == "up" and self.max_bytes is not None and sent + n_bytes > self.max_bytes:
            reason = f"max_bytes={self.max_bytes}: {sent} have left in this run, {n_bytes} more would"
            self._append({**content, "event": "not sent", "reason": reason})
            raise ByteLimitError(f"Packet {packet.op!r} of {site!r} was not sent: {reason}.")
        return self._append(content)

    def refuse(self, run, site, reason):
        """Account for something that came and was not taken.

        Parameters
        ----------
        run : str
        site : str
        reason : str

        Returns
        -------
        dict
            The line that was written.
        """
        return self._append({"event": "refused", "run": run, "site": site, "reason": reason})

    def _append(self, content):
        entry = self._chain.append(content)
        self._count(entry)
        return entry

    def _count(self, entry):
        if entry["event"] in ("sent", "taken"):
            self._seen[tuple(entry[k] for k in ("run", "direction", "sequence", "sha256"))] = entry
        if entry["event"] == "sent":
            self._sent[entry["run"]] = self._sent.get(entry["run"], 0) + entry["n_bytes"]

    def verify(self):
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

    def to_html(self, path):
        """Write the page for whoever has to agree to what leaves.

        Parameters
        ----------
        path : str or Path
        """
        from .ledger_page import ledger_page

        write_whole(path, ledger_page(self.entries(), self.verify()).encode("utf-8"))


def verify_ledger(path):
    """Check a ledger's chain and add up, see :meth:`SiteLedger.verify`.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    dict
        Numbers of ``entries`` and ``refused``, ``bytes_up``, ``bytes_down``.

    Raises
    ------
    LedgerError
        If a line was changed, left out or put in.

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
    entries = read_ledger(path)
    check_chain(entries, path)

    def total(event):
        return sum(entry["n_bytes"] for entry in entries if entry["event"] == event)

    return {
        "entries": len(entries),
        "bytes_up": total("sent"),
        "bytes_down": total("taken"),
        "refused": sum(entry["event"] in ("refused", "not sent") for entry in entries),
        "head": entries[-1]["hash"] if entries else START,
    }
