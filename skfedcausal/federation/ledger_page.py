"""A site's ledger as a page to read, print and sign."""

from html import escape

_STYLE = """body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:64em;padding:0 1em}
table{border-collapse:collapse;width:100%;margin:.6em 0 1.6em}td,th{border-bottom:1px solid #ccc;padding:.3em
.5em; text-align:left;vertical-align:top}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
.bad{color:#a00;font-weight:600}code{word-break:break-all}"""


def ledger_page(entries, totals):
    """HTML page of a checked ledger."""
    sites = sorted({str(entry.get("site", "")) for entry in entries})
    summary = [
        ("Site", ", ".join(sites)),
        ("From", entries[0]["time"] if entries else "-"),
        ("To", entries[-1]["time"] if entries else "-"),
        ("Packets in the account", f"{totals['entries']:,}"),
        ("Bytes that left", f"{totals['bytes_up']:,}"),
        ("Bytes that came", f"{totals['bytes_down']:,}"),
        ("Refused, or not sent", f"{totals['refused']:,}"),
        ("Chain of hashes", "intact"),
        ("Last hash (keep it elsewhere)", totals["head"]),
    ]
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>What left the site</title>",
        f"<style>{_STYLE}</style></head><body><h1>What left the site, and what came</h1>",
        _table((), summary),
        "<p>Raw rows of measurements and names of tags are in no kind of packet. Unless the column “noise” "
        "says otherwise the packets are data-minimising, not differentially private.</p>",
        "<h2>What left</h2>",
        _kinds(entries, "sent"),
        "<h2>What came</h2>",
        _kinds(entries, "taken"),
    ]
    refused = [entry for entry in entries if entry["event"] in ("refused", "not sent")]
    if refused:
        rows = [(e["number"], e["time"], e["event"], e["reason"]) for e in refused]
        parts += ["<h2 class='bad'>Refused</h2>", _table(("line", "time", "event", "reason"), rows)]
    parts.append("<p>Read and agreed: ______________________  Date: ____________</p></body></html>")
    return "\n".join(parts)


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
        rows.append((op, packets[0]["purpose"], f"{len(packets):,} packets", f"{total:,}", "", noise))
        fields: dict[str, dict] = {}  # their bytes added up, the last shape shown
        for name, field in (pair for entry in packets for pair in entry["fields"].items()):
            fields[name] = {**field, "bytes": field["bytes"] + fields.get(name, {"bytes": 0})["bytes"]}
        for name, field in fields.items():
            shape = " × ".join(map(str, field["shape"])) or "one number"
            what = f"{field['meaning']} ({field['dtype']}, {shape})"
            rows.append(("", name, what, f"{field['bytes']:,}", field["rounding"], ""))
    header = ("packet", "purpose, or field", "meaning", "bytes", "rounding", "noise")
    return _table(header, rows) if rows else "<p>Nothing.</p>"


def _table(header, rows):
    head = "".join(f"<th>{escape(str(cell))}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>{f'<tr>{head}</tr>' if head else ''}{body}</table>"
