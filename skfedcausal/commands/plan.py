"""``python -m skfedcausal plan``: what a site would send and accept, before anything is sent."""

from ..message.packet import NOTHING
from ..message.schema import described, purpose
from ..sites.server_settings import read_server_settings
from ..sites.settings import SiteRecord, read_site_settings
from ._shared import answer, parser, section_of


def main(arguments):
    """Rehearse a run: nothing is sent, nothing is written."""
    options = parser(
        "plan", "Show what would leave a site and what it would accept; nothing is sent."
    ).parse_args(arguments)
    if section_of(options.settings) == "server":
        return answer(options, lambda: _server(options.settings), _server_text)
    return answer(options, lambda: _site(options.settings), _site_text)


def _site(path):
    settings = read_site_settings(path)
    record = SiteRecord.read(settings)
    worker = settings.worker(record, watched=settings.batches(record.columns))
    packet, state = worker.handle(settings.request, {})
    privacy = {"noise": "none"}
    if settings.privacy is not None:
        promise, privacy = settings.privacy.rehearsal(settings.name, record, settings.home)
        packet = promise.put_on(packet)
    fields = {name: described(packet.op, name, value) for name, value in packet.arrays.items()}
    return {
        "site": settings.name,
        "rows": len(record.outputs),
        "sensors": record.outputs.shape[1],
        "raw_bytes": record.nbytes,
        "packet": packet.op,
        "purpose": purpose(packet.op),
        "bytes": packet.nbytes,
        "max_bytes": settings.max_bytes,
        "fields": fields,
        "watched": _batch_sizes(worker, state, settings),
        "accepts": [] if settings.one_way else ["questions signed with the site's key, in turn and once"],
        **privacy,
    }


def _batch_sizes(worker, state, settings):
    """Bytes of what would be sent about every batch of the watched record that is there."""
    sizes = []
    while settings.watched is not None:
        answer, state = worker.handle(settings.watch_request(len(sizes) + 1), state)
        if answer.op == NOTHING:
            break
        sizes.append(answer.nbytes)
    return sizes


def _site_text(plan):
    lines = [
        f"Site {plan['site']}: {plan['rows']:,} rows of {plan['sensors']} sensors, {plan['raw_bytes']:,} "
        "bytes.",
        f"Would send, once per fit: {plan['bytes']:,} bytes ({plan['bytes'] / plan['raw_bytes']:.1%} of the "
        f"raw data), {plan['purpose']}:",
    ]
    for name, field in plan["fields"].items():
        shape = " x ".join(map(str, field["shape"])) or "one number"
        lines.append(
            f"  {name:12} {field['dtype']:8} {shape:>14}  {field['bytes']:>12,} bytes  {field['meaning']}"
        )
    if plan["watched"]:
        lines.append(
            f"Would send about the record to be watched: {len(plan['watched'])} batches, "
            f"{sum(plan['watched']):,} bytes."
        )
    lines += [
        "Never: rows of measurements, names of sensors.",
        f"Would accept: {', '.join(plan['accepts']) or 'nothing (one-way)'}.",
        f"Limit of bytes in a run: {plan['max_bytes'] or 'none'}.",
        _noise_text(plan),
        "Nothing was sent, nothing was charged.",
    ]
    return "\n".join(lines)


def _noise_text(plan):
    if plan["noise"] == "none":
        return "Noise: none (data-minimising, not differentially private)."
    return (
        f"Noise: {plan['noise']}. Spent so far: epsilon = {plan['epsilon_spent']:.4g}; after this run: "
        f"{plan['epsilon_after']:.4g} of {plan['epsilon_budget']:.4g}."
    )


def _server(path):
    settings = read_server_settings(path)
    settings.new_estimator()._validate_params()
    return {
        "run": settings.run,
        "units": list(settings.units),
        "estimator": settings.estimator,
        "learner": settings.learner.get("kind", "likelihood"),
        "quorum": settings.quorum or len(settings.units),
        "timeout": settings.timeout,
        "one_way": settings.one_way,
        "watch": settings.watch,
        "wait": settings.wait,
        "questions": list(settings.questions),
    }


def _server_text(plan):
    return "\n".join(f"{name:10} {value}" for name, value in plan.items())
