"""``python -m skfedcausal rca plant.csv --nominal 0.5``: incidents and where they began."""

import sys

import pandas as pd

from .. import inspection
from ..containers.arrays import listed
from ..estimators.detector import FederatedRCADetector
from ._shared import add_options
from .plant_file import FileError, changing, parser_for, row_at, run, write_csv

_MOST_PAGES = 20
_LEAST_SEEN = 0.5  # share of the nominal rows that have a value of a column


def main(arguments):
    """Fit to the nominal part, look at the rest, and write a table, pictures and a report per incident."""
    parser = parser_for("rca", "Find incidents in a record of your plant and the units they began in.")
    add_options(parser, "rca")
    return run(parser, arguments, _rca)


def _rca(plant, folder, options, notes):
    nominal, later = _split(plant, options.nominal)
    detector = FederatedRCADetector(false_alarm_rate=_budget(options.false_alarms))
    detector.fit(nominal.frame, lengths=nominal.lengths)
    incidents, levels = detector.asked_.incidents_and_levels(later.frame, lengths=later.lengths)
    write_csv(incidents, folder / "incidents.csv")
    if incidents.empty:
        return ["No incident."]
    blamed = _pages(detector, incidents.head(_MOST_PAGES), later, folder, {"levels": levels, "notes": notes()})
    shown = incidents[["start", "detected", "end", "root", "probability", "kind"]].join(blamed)
    lines = [shown.to_string(index=False, float_format=lambda x: f"{x:.2f}", na_rep="")]
    if len(incidents) > _MOST_PAGES:
        lines.append(f"Pages for the first {_MOST_PAGES} of {len(incidents)} incidents.")
    return lines


def _pages(detector, incidents, record, folder, known):
    """Write a picture, the tags of the unit and a page for each incident; the tag to blame first."""
    from ..reports import incident_page
    from ..reports.page import with_measures

    about = {"lengths": record.lengths, "check": record.check, **known}
    blamed = {}
    for k, (row, incident) in enumerate(incidents.iterrows(), start=1):
        tags = inspection.tags(detector, record.frame, incident, lengths=record.lengths)
        write_csv(tags, folder / f"incident_{k}_tags.csv")
        blamed[row] = with_measures(tags["tag"].iloc[0], record.measures)
        page = incident_page(detector, incident, record.frame, **about)
        page.write(folder / f"incident_{k}.html")
        for name, picture in zip(("", "_tag"), page.pictures, strict=False):  # drawn once; there may be more
            (folder / f"incident_{k}{name}.png").write_bytes(picture)
        if k == 1 and not page.pictures:
            print("Note: no pictures; the pages say what is missing.", file=sys.stderr)
    return pd.Series(blamed, name="tag to blame", dtype=object)


def _split(plant, nominal):
    """Nominal part and rest, without columns that do not move or are hardly there in the nominal part."""
    table = plant.frame
    try:
        share = float(nominal)
    except ValueError:
        if not isinstance(table.index, pd.DatetimeIndex):
            raise FileError(f"--nominal {nominal} is a time, but the file has no times; give a share.") from None
        rows = row_at(nominal, table.index)
    else:
        rows = int(share * len(table))
    if not 0 < rows < len(table):
        raise FileError(f"--nominal {nominal} leaves {rows} of {len(table)} rows as normal; both parts need some.")
    first, rest = plant.split(rows)
    kept = changing(first.frame)
    seen = [name for name in kept if first.frame[name].notna().mean() >= _LEAST_SEEN]
    if len(seen) < len(kept):
        sparse = listed([name for name in kept if name not in seen], 8, quoted=False)
        print(f"Left out because most nominal rows have no value of them: {sparse}")
    if not seen:
        raise FileError("No column has values in most of the nominal rows; give another --nominal.")
    return first.with_columns(seen), rest.with_columns(seen)


def _budget(text):
    try:
        return float(text)
    except ValueError:
        return text
