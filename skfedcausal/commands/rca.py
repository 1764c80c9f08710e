"""``python -m skfedcausal rca plant.csv --nominal 0.5``: incidents and where they began."""

import numpy as np
import pandas as pd

from ..estimators.detector import FederatedRCADetector
from .plant_file import FileError, changing, parser_for, run, save_picture

_MOST_PAGES = 20


def main(arguments):
    """Fit to the nominal part, look at the rest, and write a table, pictures and a report per incident."""
    parser = parser_for("rca", "Find incidents in a record of your plant and the units they began in.")
    parser.add_argument(
        "--nominal", default="0.5", help="normal operation: share of the rows, or the time at which it ended"
    )
    parser.add_argument("--false-alarms", default="0.001", help="budget: per time step, or for instance '1 per day'")
    return run(parser, arguments, _rca)


def _rca(plant, folder, options):
    from ..displays import IncidentDisplay  # matplotlib is optional
    from ..reports import incident_page

    nominal, later = _split(plant, options.nominal)
    detector = FederatedRCADetector(false_alarm_rate=_budget(options.false_alarms))
    detector.fit(nominal.frame, lengths=nominal.lengths)
    rest = later.frame
    incidents = detector.incidents(rest, lengths=later.lengths)
    incidents.to_csv(folder / "incidents.csv", index=False)
    record = {"check": plant.check, "lengths": later.lengths}
    if len(incidents):
        record["levels"] = np.asarray(detector.transform(rest, lengths=later.lengths))
    for k, (_, incident) in enumerate(incidents.head(_MOST_PAGES).iterrows(), start=1):
        display = IncidentDisplay(record["levels"], detector.client_names_, incident, rest.index)
        save_picture(folder / f"incident_{k}.png", display.plot)
        incident_page(detector, incident, rest, **record).write(folder / f"incident_{k}.html")
    if incidents.empty:
        return ["No incident."]
    shown = incidents[["start", "detected", "end", "root", "probability"]]
    lines = [shown.to_string(index=False, float_format=lambda x: f"{x:.2f}")]
    if len(incidents) > _MOST_PAGES:
        lines.append(f"Pages for the first {_MOST_PAGES} of {len(incidents)} incidents.")
    return lines


def _split(plant, nominal):
    """Nominal part and rest; columns that do not move in the nominal part are left out."""
    table = plant.frame
    try:
        share = float(nominal)
    except ValueError:
        if not isinstance(table.index, pd.DatetimeIndex):
            raise FileError(f"--nominal {nominal} is a time and the file has none; give a share.") from None
        until = pd.Timestamp(nominal)
        if until.tz is None:
            until = until.tz_localize(table.index.tz)
        rows = int(table.index.searchsorted(until))
    else:
        rows = int(share * len(table))
    if not 0 < rows < len(table):
        raise FileError(f"--nominal {nominal} leaves {rows} of {len(table)} rows as normal; both parts need some.")
    first, rest = plant.split(rows)
    kept = changing(first.frame)
    return first.with_columns(kept), rest.with_columns(kept)


def _budget(text):
    try:
        return float(text)
    except ValueError:
        return text
