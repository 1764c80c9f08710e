"""A site's ledger as a page to read, print and sign."""

import pandas as pd

from .page import Page

_HEADER = ["packet", "purpose, or field", "meaning", "bytes", "rounding", "noise"]


def ledger_page(entries, totals):
    """Page of a checked ledger."""
    sites = sorted({str(entry.get("site", "")) for entry in entries})
    first, last = (entries[0]["time"], entries[-1]["time"]) if entries else ("-", "-")
    page = Page("What left the site, and what came").items(
        [
            f"Site: {', '.join(sites)}",
            f"From: {first}",
            f"To: {last}",
            f"Packets in the account: {totals['entries']:,}",
            f"Bytes that left: {totals['bytes_up']:,}",
            f"Bytes that came: {totals['bytes_down']:,}",
            f"Refused, or not sent: {totals['refused']:,}",
            "Chain of hashes: intact",
            f"Last hash (keep it elsewhere): {totals['head']}",
        ]
    )
    page.text(
        "Raw rows of measurements and names of tags are in no kind of packet. Unless the column “noise” "
        "says otherwise the packets are data-minimising, not differentially private."
    )
    page.heading("What left").table(_kinds(entries, "sent"), empty="Nothing.")
    page.heading("What came").table(_kinds(entries, "taken"), empty="Nothing.")
    refused = [entry for entry in entries if entry["event"] in ("refused", "not sent")]
    if refused:
        rows = [(e["number"], e["time"], e["event"], e["reason"]) for e in refused]
        page.heading("Refused").table(pd.DataFrame(rows, columns=["line", "time", "event", "reason"]))
    return page.text("Read and agreed: ______________________  Date: ____________")


def _kinds(entries, event):
    """One table row per field of every kind of packet, with the sum over all packets of that kind."""
    kinds: dict[str, list] = {}
    for entry in entries:
        if entry["event"] == event:
            kinds.setdefault(entry["op"], []).append(entry)
    rows = []
    for op, packets in kinds.items():
        total = sum(entry["n_bytes"] for entry in packets)
        noise = ", ".join(sorted({entry["noise"] for entry in packets}))
        count = f"{len(packets):,} packet{'s' * (len(packets) != 1)}"
        rows.append((op, packets[0]["purpose"], count, total, "", noise))
        fields: dict[str, dict] = {}  # their bytes added up, the last shape shown
        for name, field in (pair for entry in packets for pair in entry["fields"].items()):
            fields[name] = {**field, "bytes": field["bytes"] + fields.get(name, {"bytes": 0})["bytes"]}
        for name, field in fields.items():
            shape = " × ".join(map(str, field["shape"])) or "one number"
            what = f"{field['meaning']} ({field['dtype']}, {shape})"
            rows.append(("", name, what, field["bytes"], field["rounding"], ""))
    return pd.DataFrame(rows, columns=_HEADER)
