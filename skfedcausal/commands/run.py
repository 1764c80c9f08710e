"""``python -m skfedcausal run``: a site's side of a run over files."""

import time

from ..federation.atomic import only_one
from ..federation.files import FileSite
from ..sites.settings import SettingsError
from ..sites.site import read_site_settings
from . import plan
from ._shared import answer, parser, report

_TEXT = "{site}: {bytes_up:,} bytes left, {bytes_down:,} bytes came, {refused} refused. Account: {ledger}"
_TURN = 60.0  # seconds that a one-way site, which a timer may start too early, waits for the one before
_PAUSE = 1.0  # seconds between two looks for a further batch


def main(arguments):
    """Answer the server's questions until the run is over, or send once over a one-way link."""
    reader = parser("run", "Take part in a run as a site, over a folder of files.")
    reader.add_argument("--dry-run", action="store_true", help="only show what would leave, as `plan` does")
    reader.add_argument("--out", help="folder of the exchange, instead of the one in the settings")
    reader.add_argument("--timeout", type=float, help="seconds without a question after which to give up")
    if reader.parse_args(arguments).dry_run:
        return answer(reader, arguments, plan.plan, plan.in_words)
    return answer(reader, arguments, _run, _TEXT.format_map)


def _run(options):
    settings = read_site_settings(options.settings)
    folder = options.out or settings.folder
    if folder is None:
        raise SettingsError("[site] names no `folder` of the exchange, and there is no --out.")
    if settings.one_way and settings.run is None:
        raise SettingsError("[site] with one_way = true needs `run`, the name of the run.")
    wait = _TURN if settings.one_way else 0.0
    with only_one(settings.home / "lock", f"site {settings.name!r}", wait):
        return _answering(settings, folder, options)


def _answering(settings, folder, options):
    """Answer, or send, and say what left."""
    gate, more = settings.gate(key=settings.read_key()), {}
    site = FileSite(gate, folder)
    if settings.one_way:
        sent = _send_all(site, settings, lambda path: report(options, f"{settings.name}: wrote {path.name}"))
        closed, more = True, {"sent": sent}
    else:
        report(options, f"{settings.name}: waiting for questions in {site.folder / 'inbox'}")
        timeout = options.timeout or settings.timeout
        closed = site.serve(timeout, watch=lambda path: report(options, f"{settings.name}: wrote {path.name}"))
    if not closed:
        raise RuntimeError(f"No question came for {timeout:g} seconds and the run is not over.")
    gate.ledger.to_html(settings.home / "ledger.html")
    return {"site": settings.name, "ledger": str(gate.ledger.path), **gate.ledger.verify(), **more}


def _send_all(site, settings, watch):
    """Send all that a one-way site has to say, and what comes within `wait` seconds; gives the number."""
    watch(site.send(settings.run, settings.request))
    sent, last = 1, time.monotonic()
    while settings.watched is not None:
        path = site.send(settings.run, settings.watch_request(sent))
        if path is not None:
            watch(path)
            sent, last = sent + 1, time.monotonic()
        elif time.monotonic() - last < settings.wait:
            time.sleep(min(_PAUSE, settings.wait))
        else:
            break
    return sent
