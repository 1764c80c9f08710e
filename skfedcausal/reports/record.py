"""Sections of a page about the record itself: what a check found in it, and how its tags went."""

from functools import partial

from ..displays import TrendDisplay
from ..quality import check_plant
from .page import counted
from .tuning import TUNING

_UNITS = ["unit", "tags", "usable", "gaps", "clock", "verdict"]
_FINDINGS = ["unit", "column", "kind", "start", "end", "detail", "advice"]


def check_of(X, check):
    """The check of a record: the one given, that of a table that has one, or one made now; None without a record."""
    if check is not None or X is None:
        return check
    known = getattr(X, "check", None)
    return check_plant(X) if known is None else known


def defects(check):
    """What has to be fixed in the data before anything else, as steps; nothing without a check."""
    first = () if check is None else check.fix_first
    yield from (f"Data: {text}" for text in first[: TUNING.record_most_steps])
    if len(first) > TUNING.record_most_steps:
        yield f'Data: {len(first) - TUNING.record_most_steps} further defects, see "The data" below.'


def add_check(page, check):
    """Section on what was found in the data; nothing without a check."""
    if check is None:
        return
    first = check.fix_first
    page.heading("The data")
    if first:
        page.text(f"{counted(len(first), 'defect')} of the record should be fixed first: conclusions may be wrong.")
        page.items(first[TUNING.record_most_steps :])
    elif check.ok:
        page.text("The check of the record found no defects.")
    else:
        page.text("The check of the record found nothing that has to be fixed first.")
    page.table(check.units[_UNITS])
    shown = check.findings[_FINDINGS].head(TUNING.record_most_findings)
    if len(check.findings) > TUNING.record_most_findings:
        page.table(shown, folded=f"The first {TUNING.record_most_findings} of {len(check.findings)} findings")
    elif len(shown):
        page.table(shown, folded=counted(len(shown), "finding"))


def add_trends(page, X, caption, **which):
    """Picture of tags of the record; nothing without a record, or without units to show."""
    if X is not None and which.get("units") != []:
        draw = partial(TrendDisplay.from_record, X, measures=page.measures, **which)
        page.heading("Measurements").picture(draw, caption)
