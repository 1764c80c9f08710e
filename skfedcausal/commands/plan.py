"""``python -m skfedcausal plan``: what a site would send and accept, before anything is sent."""

from ..federation.gate import SitePolicy, tells_exactly
from ..federation.ledger import read_ledger
from ..message.packet import NOTHING
from ..message.requests import FitRequest
from ..message.schema import described, purpose
from ..sites.server import read_server_settings
from ..sites.settings import DealerSettings, read_settings_file
from ..sites.site import read_site_settings
from ._shared import answer, parser


def main(arguments):
    """Make a dry run: nothing is sent, nothing is written."""
    reader = parser("plan", "Show what would leave a site and what it would accept; nothing is sent.")
    return answer(reader, arguments, plan, in_words)


def plan(options):
    """The plan of a site or of a server, by the section that its settings file has."""
    path = options.settings
    return _server(path) if "server" in read_settings_file(path) else _site(path)


def _site(path):
    settings = read_site_settings(path)
    if isinstance(settings, DealerSettings):
        return {"dealer": settings.name, "units": settings.units, "accepts": "questions about masks, signed in turn"}
    record = settings.record()
    worker = settings.worker(record, batches=settings.batches(record))
    if settings.secure_sums is not None:
        worker = settings.secure_sums.around(worker)
    packet, state = worker.handle(settings.request, {})
    privacy = {"noise": "none"}
    if settings.privacy is not None:
        promise, privacy = settings.privacy.dry_run(settings.name, record, settings.home)
        packet = promise.put_on(packet)
    return {
        "site": settings.name,
        **dict(zip(("rows", "sensors"), record.shape, strict=True)),
        "raw_bytes": record.nbytes,
        "packet": packet.op,
        "purpose": purpose(packet.op),
        "bytes": packet.nbytes,
        "max_bytes": settings.max_bytes,
        "fields": {name: described(packet.op, name, value) for name, value in packet.arrays.items()},
        "watched": _batch_sizes(worker, state, settings),
        "accepts": [] if settings.one_way else ["questions signed with the site's key, in turn and once"],
        "policy": settings.door.in_words(),
        "total_bytes": settings.policy.total_bytes,
        "worst_case": _worst_case(worker, packet, record.n_moving, settings),
        **privacy,
    }


def _worst_case(worker, packet, n_sensors, settings):
    """The most that the holder of the key could learn of the record, whatever it asks."""
    if settings.secure_sums is not None:
        words = (
            f"sums of products over rows: linear equations in each state for {settings.secure_sums.most:.0%} of its "
            "rows at most, as long as the dealer works together with nobody"
        )
        return {"rank": 0, "n_sensors": n_sensors, "exact": False, "words": words, "inputs": False, "refused": False}
    states = packet.arrays["z"].shape[1]
    policy = SitePolicy(states=states) if settings.one_way else settings.door
    if settings.is_monitored:  # who holds the key may ask for a message without what monitoring needs
        plain, _ = worker.handle(FitRequest(own_past=True, sharp=True).to_packet(1), {})
        states = max(states, plain.arrays["z"].shape[1])
    ledger = settings.home / "ledger.jsonl"
    lines = read_ledger(ledger) if ledger.exists() else []
    n_records = 1 + sum(entry["event"] == "begun again" for entry in lines)
    inputs = packet.arrays.get("inputs")
    n_inputs = 0 if inputs is None or settings.one_way else inputs.shape[1]  # nobody asks for their law one-way
    about = {"monitored": settings.is_monitored, "n_records": n_records, "n_inputs": n_inputs}
    worst = policy.worst_case(states, n_sensors, **about)
    refused = settings.privacy is None and tells_exactly(states, n_sensors) and not settings.policy.allow_exact
    return {**vars(worst), "words": worst.in_words(), "inputs": inputs is not None, "refused": refused}


def _batch_sizes(worker, state, settings):
    """Bytes of what would be sent about every batch of the monitored record that is there."""
    sizes: list[int] = []
    while settings.watched is not None:
        answer, state = worker.handle(settings.watch_request(len(sizes) + 1), state)
        if answer.op == NOTHING:
            break
        sizes.append(answer.nbytes)
    return sizes


def in_words(plan):
    """A plan as text."""
    if "site" not in plan:
        return "\n".join(f"{name:10} {plan[name]}" for name in plan)
    lines = [
        f"Site {plan['site']}: {plan['rows']:,} rows of {plan['sensors']} sensors, {plan['raw_bytes']:,} bytes.",
        f"Would send, once per fit: {plan['bytes']:,} bytes ({plan['bytes'] / plan['raw_bytes']:.1%} of the "
        f"raw data), {plan['purpose']}:",
    ]
    for name, field in plan["fields"].items():
        shape = " x ".join(map(str, field["shape"])) or "one number"
        size = f"{field['bytes']:>12,}"
        lines.append(f"  {name:12} {field['dtype']:8} {shape:>14}  {size} bytes  {field['meaning']}")
    if plan["watched"]:
        n, size = len(plan["watched"]), sum(plan["watched"])
        lines.append(f"Would send about the record to be monitored: {n} batches, {size:,} bytes.")
    noise = "Noise: none (data-minimising, not differentially private)."
    if plan["noise"] != "none":
        noise = (
            f"Noise: {plan['noise']}. Spent so far: epsilon = {plan['epsilon_spent']:.4g}; after this run: "
            f"{plan['epsilon_after']:.4g} of {plan['epsilon_budget']:.4g}."
        )
    lines += [
        _never(plan),
        f"Would accept: {', '.join(plan['accepts']) or 'nothing (one-way)'}.",
        f"Policy: {plan['policy']}.",
        f"Worst case, {_of_what(plan)}: {plan['worst_case']['words']}",
        f"Limit of bytes in a run: {plan['max_bytes'] or 'none'}; in all runs: {plan['total_bytes'] or 'none'}.",
        noise,
        "Nothing was sent, nothing was charged.",
    ]
    return "\n".join(lines)


def _of_what(plan):
    noised = "of the noised copy, " if plan["noise"] != "none" else ""
    inputs = "; inputs leave as they are" if plan["worst_case"]["inputs"] else ""
    return f"{noised}whatever the holder of the key asks and in whatever order{inputs}"


def _never(plan):
    if plan["worst_case"]["refused"]:
        return (
            "The policy refuses to send it: the states are as many as the sensors that move, which follow from them "
            "exactly. Give the unit fewer states (`n_states` in [client]), noise ([privacy]) or secure sums, or "
            "`allow_exact = true` in [policy] if the server may know its record."
        )
    if plan["worst_case"]["exact"]:
        return "This policy does not keep rows of measurements at the site: see the worst case."
    return "Never: rows of measurements, names of sensors."


def _server(path):
    settings = read_server_settings(path)
    settings.new_estimator()._validate_params()
    names = ("run", "units", "estimator", "timeout", "one_way", "watch", "wait", "questions")
    return {
        **{name: getattr(settings, name) for name in names},
        "learner": settings.learner.get("kind", "likelihood"),
        "quorum": settings.quorum or len(settings.units),
    }
