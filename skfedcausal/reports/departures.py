"""What left the units and what is promised about it: the end of every report."""

import pandas as pd


def add_departures(page, estimator):
    """Section on the messages of a fitted estimator.

    Parameters
    ----------
    page : Page
    estimator : FederatedEstimator
    """
    sent, ledger = estimator.communication_, estimator.ledger_
    share = sent["bytes_up"] / sent["raw_bytes"] if sent["raw_bytes"] else 0.0
    page.heading("What data left the units")
    rounds = f"{sent['rounds']} round{'s' * (sent['rounds'] != 1)}"
    page.text(
        f"For the fit {sent['bytes_up']:,} bytes went up in {rounds}, "
        f"{share:.0%} of the {sent['raw_bytes']:,} bytes of raw measurements. So far it has been "
        f"{ledger.total('up'):,} bytes up and {ledger.total('down'):,} bytes down, every packet on the list "
        "below. Rows of raw measurements and names of sensors are not among them."
    )
    page.table(pd.DataFrame(_operations(ledger)))
    page.text(estimator.privacy_statement_)


def _operations(ledger):
    """Packets by direction and operation."""
    rows = {}
    for entry in ledger.entries:
        row = rows.setdefault((entry.direction, entry.op), {"packets": 0, "bytes": 0, "fields": set()})
        row["packets"] += 1
        row["bytes"] += entry.n_bytes
        row["fields"] |= set(entry.fields)
    return [
        {"direction": direction, "what": op, **row, "fields": ", ".join(sorted(row["fields"])) or "-"}
        for (direction, op), row in rows.items()
    ]
