"""A site's ledger as a page to read, print and sign."""

import pandas as pd

from .page import Page, counted

_AS_MEASURED = "sensor states"  # packets of sensors that a policy lets a site share
_NONE = "No packet holds raw rows of measurements or tag names."
_HEADER = ["packet", "purpose, or field", "meaning", "bytes", "rounding", "noise"]


def ledger_page(entries, totals):
    """Page of a checked ledger."""
    sites = sorted({str(entry.get("site", "")) for entry in entries})
    first, last = (entries[0]["time"], entries[-1]["time"]) if entries else ("-", "-")
    name, refused = ", ".join(sites), [entry for entry in entries if entry["event"] in ("refused", "not sent")]
    page = Page("What the site sent and received").lead(
        f"{name or 'The site'} sent {totals['bytes_up']:,} bytes and received {totals['bytes_down']:,} in "
        f"{counted(totals['entries'], 'packet')}, {totals['refused']:,} of them refused or not sent. "
        f"{_measured(entries)} The chain of hashes is intact."
    )
    page.items(
        [
            f"Site: {name}",
            f"From: {first}",
            f"To: {last}",
            f"Packets in the ledger: {totals['entries']:,}",
            f"Bytes sent: {totals['bytes_up']:,}",
            f"Bytes received: {totals['bytes_down']:,}",
            f"Refused, or not sent: {totals['refused']:,}",
            "Chain of hashes: intact",
            f"Last hash (keep it elsewhere): {totals['head']}",
        ]
    )
    page.heading("Sent").table(_kinds(entries, "sent"), empty="Nothing.")
    page.heading("Received").table(_kinds(entries, "taken"), empty="Nothing.")
    if refused:
        rows = [(e["number"], e["time"], e["event"], e["reason"]) for e in refused]
        page.heading("Refused").table(pd.DataFrame(rows, columns=["line", "time", "event", "reason"]))
    page.against(
        [
            "Unless the column “noise” says otherwise, packets are data-minimising, not differentially private: "
            "statistics of the measurements can be inferred from them.",
            "The ledger shows what this program sent; it does not show other traffic of the machine.",
        ]
    )
    page.check_first(
        [
            "Does the last hash match the copy kept elsewhere?",
            *(["Is each refusal explained by the site's policy, or did someone ask for more?"] if refused else []),
            "Is every purpose in the tables covered by what was agreed for this site?",
        ]
    )
    return page.text("Read and agreed: ______________________  Date: ____________")


def _measured(entries):
    """Whether measurements as they are were sent, in a sentence."""
    shared = any(entry["event"] == "sent" and entry["op"] == _AS_MEASURED for entry in entries)
    return f"Readings of sensors that the site shares were sent as measured ({_AS_MEASURED})." if shared else _NONE


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
        rows.append((op, packets[0]["purpose"], counted(len(packets), "packet"), total, "", noise))
        fields: dict[str, dict] = {}  # their bytes added up, the last shape shown
        for name, field in (pair for entry in packets for pair in entry["fields"].items()):
            fields[name] = {**field, "bytes": field["bytes"] + fields.get(name, {"bytes": 0})["bytes"]}
        for name, field in fields.items():
            shape = " × ".join(map(str, field["shape"])) or "one number"
            what = f"{field['meaning']} ({field['dtype']}, {shape})"
            rows.append(("", name, what, field["bytes"], field["rounding"], ""))
    return pd.DataFrame(rows, columns=_HEADER)
