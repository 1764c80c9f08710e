"""``python -m skfedcausal verify``, ``repair`` and ``key``: what a site needs to trust an account and a server."""

from ..federation.atomic import only_one
from ..federation.envelope import read_key_pair, revoke_key, write_key, write_key_pair
from ..federation.ledger import SiteLedger, read_ledger, repair_ledger, verify_ledger
from ..sites.site import read_site_settings
from ._shared import add_options, answer, parser

_VERIFIED = (
    "{ledger}: chain of hashes intact, {entries} packets, {bytes_up:,} bytes sent, {bytes_down:,} bytes received, "
    "{refused} refused.\nLast hash: {head}"
)
_REPAIRED = (
    "{ledger}: {kept} lines are intact and kept. Lost as evidence, from line {first_bad} on: {lost} lines "
    "({reason}), which recorded {lost_bytes:,} bytes sent in {lost_packets} packets; they still count against "
    "the limits. The broken ledger is kept as {broken}."
)
_REVOKED = "{revoked}: revoked here. The other side has to revoke its copy, too."
_MADE = "{key}: bring a copy to the server over a channel that you trust."


def verify(arguments):
    """Check the chain of a ledger, add up, and write the page for the security officer."""
    reader = parser("verify", "Check a site's ledger: its chain of hashes and its sums.")
    add_options(reader, "verify")
    return answer(reader, arguments, _verify, _verified)


def _verified(found):
    last = found.get("countersigned")
    signed = "" if last is None else f"\nThe server has countersigned {f'lines 1 to {last}' if last else 'none'}."
    return _VERIFIED.format_map(found) + signed


def _server_of(options):
    """The server's public key, given or named by the settings of the site; None for none."""
    path = options.server_key
    if path is None and options.settings.suffix != ".jsonl":
        path = read_site_settings(options.settings).server_key
    return None if path is None else read_key_pair(None, path)


def _ledger_of(options):
    path = options.settings
    return path if path.suffix == ".jsonl" else read_site_settings(path).home / "ledger.jsonl"


def _verify(options):
    path = _ledger_of(options)
    totals = verify_ledger(path, _server_of(options))
    if options.head and options.head not in {entry["hash"] for entry in read_ledger(path)}:
        raise ValueError(f"{path} does not contain the hash {options.head}: lines were cut off or rewritten.")
    if options.html:
        SiteLedger(path).to_html(options.html)
    return {"ledger": str(path), **totals}


def repair(arguments):
    """Put a new ledger in the place of a broken one, which is kept."""
    reader = parser("repair", "Continue from a site's broken ledger; intact lines are kept, lost ones reported.")
    return answer(reader, arguments, _repair, _REPAIRED.format_map)


def _repair(options):
    path = _ledger_of(options)
    with only_one(path.with_name("lock"), f"the site of {path}"):
        return repair_ledger(path)


def key(arguments):
    """Make a key, or revoke one."""
    reader = parser("key", "Make a key for a site, or revoke one.", settings=False)
    add_options(reader, "key")
    return answer(reader, arguments, _make, lambda made: (_MADE if "key" in made else _REVOKED).format_map(made))


def _make(options):
    if options.revoke:
        return {"revoked": revoke_key(options.path)}
    return {"key": (write_key_pair if options.pair else write_key)(options.path, options.until)}
