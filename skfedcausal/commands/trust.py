"""``python -m skfedcausal verify`` and ``key``: what a site needs to trust an account and a server."""

from pathlib import Path

from ..federation.envelope import write_key
from ..federation.site_ledger import SiteLedger, read_ledger, verify_ledger
from ..sites.site import read_site_settings
from ._shared import answer, parser

_VERIFIED = (
    "{ledger}: chain of hashes intact, {entries} packets, {bytes_up:,} bytes left, {bytes_down:,} bytes came, "
    "{refused} refused.\nLast hash: {head}"
)
_MADE = "{key}: bring a copy to the server by a way that you trust."


def verify(arguments):
    """Check the chain of a ledger, add up, and write the page for the security officer."""
    reader = parser("verify", "Check a site's ledger: its chain of hashes and its sums.")
    reader.add_argument("--html", type=Path, help="also write the ledger as a page to read and sign")
    reader.add_argument("--head", help="last hash as it was noted elsewhere: the ledger has to contain it")
    return answer(reader, arguments, _verify, _VERIFIED.format_map)


def _verify(options):
    path = options.settings
    if path.suffix != ".jsonl":
        path = read_site_settings(path).home / "ledger.jsonl"
    totals = verify_ledger(path)
    if options.head and options.head not in {entry["hash"] for entry in read_ledger(path)}:
        raise ValueError(f"{path} does not contain the hash {options.head}: lines were cut off or rewritten.")
    if options.html:
        SiteLedger(path).to_html(options.html)
    return {"ledger": str(path), **totals}


def key(arguments):
    """Make a key."""
    reader = parser("key", "Make a key for a site.", settings=False)
    reader.add_argument("path", type=Path, help="file to write; must not exist")
    return answer(reader, arguments, lambda options: {"key": write_key(options.path)}, _MADE.format_map)
