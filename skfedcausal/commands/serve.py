"""``python -m skfedcausal serve``: the server's side of a run over files."""

from ..federation.atomic import file_name, only_one
from ..sites.server import read_server_settings
from ._shared import answer, parser, report


def main(arguments):
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
