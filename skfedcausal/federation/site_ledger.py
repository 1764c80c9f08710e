"""The site's own account of what left and what came: lines of JSON, each sealed with the one before it."""

import hashlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path

from .atomic import write_whole
from .purposes import described, purpose

_START = "0" * 64  # what stands for the line before the first


class LedgerError(ValueError):
    """A ledger whose chain is broken: a line was changed, taken out or put in."""


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
    >>> from skfedcausal.federation.packet import Packet
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
        _drop_torn_line(self.path)
        entries = self.entries()
        check_chain(entries, self.path)
        self.head = entries[-1]["hash"] if entries else _START
        self._number = len(entries)
        self._sent, self._seen = {}, {}
        for entry in entries:
            self._count(entry)

    def entries(self):
        """All lines, as dicts.

        Returns
        -------
        list of dict
        """
        return read_ledger(self.path) if self.path.exists() else []

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
        about = self._about(run, site, direction, packet, frame, sequence)
        known = self._seen.get((run, direction, sequence, about["sha256"]))
        if known is not None:
            return known
        content = {"event": "sent" if direction == "up" else "taken", **about}
        n_bytes = len(frame)
        sent = self._sent.get(run, 0)
        if direction == "up" and self.max_bytes is not None and sent + n_bytes > self.max_bytes:
            reason = f"max_bytes={self.max_bytes}: {sent} have left in this run, {n_bytes} more would"
            self._append({**content, "event": "not sent", "reason": reason})
            raise ByteLimitError(f"Packet {packet.op!r} of {site!r} was not sent: {reason}.")
        return self._append(content)

    def _about(self, run, site, direction, packet, frame, sequence):
        return {
            "run": run,
            "site": site,
            "direction": direction,
            "sequence": sequence,
            "round": packet.round,
            "op": packet.op,
            "purpose": purpose(packet.op),
            "packet_bytes": packet.nbytes,
            "n_bytes": len(frame),
            "sha256": hashlib.sha256(frame).hexdigest(),
            "fields": {name: described(packet.op, name, value) for name, value in packet.arrays.items()},
            "settings": dict(packet.scalars),
            "noise": self.noise if direction == "up" else "not ours",
        }

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
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        entry = {"number": self._number + 1, "time": time, **content, "previous": self.head}
        entry["hash"] = _hash(entry)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.head, self._number = entry["hash"], self._number + 1
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


def _drop_torn_line(path):
    """Cut off a last line that was not written to its end: what it is about had not left by then."""
    if not path.exists():
        return
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if whole != data:
        write_whole(path, whole)


def _hash(entry):
    text = json.dumps({k: v for k, v in entry.items() if k != "hash"}, sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def read_ledger(path):
    """Lines of a ledger, not yet checked.

    Raises
    ------
    LedgerError
        If a line is not a line of a ledger.
    """
    entries = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        if not isinstance(entry, dict):
            raise LedgerError(f"{path}, line {number}: not a line of a ledger.")
        entries.append(entry)
    return entries


def check_chain(entries, path="ledger"):
    """Refuse lines that do not form a chain.

    Raises
    ------
    LedgerError
        Naming the first line that does not fit.
    """
    previous = _START
    for number, entry in enumerate(entries, start=1):
        if entry.get("previous") != previous or entry.get("number") != number:
            raise LedgerError(f"{path}, line {number}: does not follow the line before it.")
        if entry.get("hash") != _hash(entry):
            raise LedgerError(f"{path}, line {number}: was changed after it was written.")
        previous = entry["hash"]


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
        "head": entries[-1]["hash"] if entries else _START,
    }
