"""Sections of a page about the record itself: what a check found in it, and how its tags went."""

from functools import partial

from ..displays import TrendDisplay
from ..quality import check_plant

_MOST_FINDINGS = 12
_UNITS = ["unit", "tags", "usable", "gaps", "clock", "verdict"]
_FINDINGS = ["unit", "column", "kind", "start", "end", "detail", "advice"]


def check_of(X, check):
    """The check of a record: the one given, that of a table that has one, or one made now; None without a record."""
    if check is not None or X is None:
        return check
    known = getattr(X, "check", None)
    return check_plant(X) if known is None else known


def add_check(page, check):
    """Section on what was found in the data; nothing without a check."""
    if check is None:
        return
    first = check.fix_first
    page.heading("The data")
    if first:
        page.text("Found in the record, and to be put right first: what follows from it can be wrong.").items(first)
    elif check.ok:
        page.text("The check of the record found nothing wrong.")
    else:
        page.text("The check of the record found nothing that has to be put right first.")
    page.table(check.units[_UNITS])
    if len(check.findings):
        page.table(check.findings[_FINDINGS].head(_MOST_FINDINGS))
        if len(check.findings) > _MOST_FINDINGS:
            page.text(f"{len(check.findings) - _MOST_FINDINGS} further findings are left out.")


def add_trends(page, X, caption, **which):
    """Picture of tags of the record; nothing without a record, or without units to show."""
    if X is not None and which.get("units") != []:
        draw = partial(TrendDisplay.from_record, X, measures=page.measures, **which)
        page.heading("Measurements").picture(draw, caption)
