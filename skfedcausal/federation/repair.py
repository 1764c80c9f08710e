"""A new ledger in the place of a broken one: what is intact goes on, what is lost is said."""

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path

from .atomic import write_whole
from .chain import START, LedgerError, fault_of
from .site_ledger import SiteLedger


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
