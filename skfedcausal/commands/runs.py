"""``python -m skfedcausal run`` and ``serve``: the two sides of a run over files."""

import time

from ..federation.atomic import file_name, only_one
from ..federation.files import FileSite
from ..sites.server import read_server_settings
from ..sites.settings import SettingsError
from ..sites.site import read_site_settings
from . import plan
from ._shared import add_options, answer, parser, report

_TEXT = "{site} sent {bytes_up:,} bytes and received {bytes_down:,}; {refused} refused. Ledger: {ledger}"
_TURN = 60.0  # seconds that a one-way site, which a timer may start too early, waits for the one before
_PAUSE = 1.0  # seconds between two looks for a further batch


def run(arguments):
    """Answer the server's questions until the run is over, or send once over a one-way link."""
    reader = parser("run", "Take part in a run as a site, over a folder of files.")
    add_options(reader, "run")
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


def serve(arguments):
    """Learn the plant from the sites of a settings file and write the results."""
    reader = parser("serve", "Run a fit over sites that are reached through a folder of files.")
    return answer(reader, arguments, _serve, _text)


def _serve(options):
    settings = read_server_settings(options.settings)
    lock = settings.out / "journal" / f"{file_name(settings.run)}.lock"
    with only_one(lock, f"the server of run {settings.run!r}", settings.timeout):
        return _learned(settings, options)


def _learned(settings, options):
    """Learn over files and tell of every packet; what was learned."""
    transport = settings.file_transport()
    exchange = transport.exchange

    def reporting_exchange(out, *, timeout=None):
        answers = exchange(out, timeout=timeout)
        number, seconds = len(transport.seconds), transport.seconds[-1]
        report(options, f"{settings.run}: packet {number} to {len(out)} sites, {seconds:.2f} s")
        return answers

    transport.exchange = reporting_exchange
    # closes the transport; when it fails the sites wait for the run to be resumed
    return settings.learn(transport, lambda line: report(options, line))


def _text(summary):
    lines = [
        f"Run {summary['run']}: {len(summary['units'])} units, {summary['rounds']} rounds, "
        f"{summary['wire_bytes_up']:,} bytes up, {summary['wire_bytes_down']:,} bytes down.",
        *(f"  {link['cause']} -> {link['effect']}  {link['norm']:.3g}" for link in summary["links"]),
        *(f"  row {one['start']}: {one['root']} ({one['probability']:.2f})" for one in summary.get("incidents", ())),
        f"Results: {summary['results']}",
    ]
    if summary["lost"]:
        lines.insert(1, f"Without some answers of: {', '.join(summary['lost'])}; see lost_units.csv.")
    return "\n".join(lines)
