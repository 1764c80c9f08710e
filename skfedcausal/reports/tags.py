"""Which tag of a unit is to blame, as the unit found it at home: a section of a page, and a site's own page."""

from functools import partial

from ..displays import TagDisplay
from .page import Page, listed_in_words

_MOST_TAGS, _MOST_TRENDS, _MOST_INCIDENTS = 10, 3, 20
_FAIR_SHARE = 0.1  # of what is unusual, from which a tag's trend is shown beside the first
_MOSTLY, _CLEARLY = 0.6, 0.9  # share that one tag explains, and that of the next beside it at most
_AT_HOME = "The unit found this at home, from its own rows."


def add_tags(page, detector, incident, X, lengths):
    """Tags of the unit where it began as it ranked them, and the trends of the first ones."""
    found = detector.tags(X, incident, lengths=lengths)
    tags = trends_of(found)
    draw = partial(TagDisplay.from_detector, detector, X, incident, tags, lengths=lengths)
    add_ranking(page, found["unit"].iloc[0], found.drop(columns="unit"), draw)


def home_page(unit, blamed):
    """Page that a site writes for itself: its tags about each incident, as (incident, ranking, trends of the first)."""
    page = Page(f"Tags of {unit}")
    page.lead(f"What {unit} found in its own rows about {len(blamed)} incident{'s' * (len(blamed) != 1)} of the plant.")
    page.text(
        "Which unit an incident began in is in the table of incidents: if it was another, tags show what came in."
    )
    for incident, found, trends in blamed[:_MOST_INCIDENTS]:
        page.heading(f"Incident from row {incident['start']:,} on")
        add_ranking(page, unit, found.drop(columns="onset"), TagDisplay(trends, incident).plot)
    if len(blamed) > _MOST_INCIDENTS:
        page.text(f"Of {len(blamed) - _MOST_INCIDENTS} further incidents only the table has the ranking.")
    return page


def add_ranking(page, unit, found, draw):
    """A unit's ranking of its tags (``tag, explained, why``) and the picture of the first ones that `draw` makes."""
    page.heading(f"Which tag of {unit}").text(_blame(found))
    shown = found.head(_MOST_TAGS)
    if not shown["why"].any():
        shown = shown.drop(columns="why")
    page.table(shown.assign(explained=shown["explained"].map("{:.0%}".format)))
    what = f"{listed_in_words(trends_of(found))} as measured, first what is to blame first"
    page.picture(draw, f"{what}; the band is where the other tags of {unit} expect it (two deviations)")


def trends_of(found):
    """Tags of a ranking whose trends are shown: the first, and others that explain a fair share."""
    more = found["explained"].iloc[1:_MOST_TRENDS] >= _FAIR_SHARE
    return [found["tag"].iloc[0], *found["tag"].iloc[1:_MOST_TRENDS][more]]


def _blame(found):
    """What the ranking of a unit's tags says, in a sentence."""
    first, why = found.iloc[0], found["why"].iloc[0]
    if why and not found["why"].ne("").all():
        return f"{first['tag']} {why}. {_AT_HOME}"
    second = found["explained"].iloc[1] if len(found) > 1 else 0.0
    if first["explained"] >= _MOSTLY and second <= _CLEARLY * first["explained"]:
        share = f"{first['explained']:.0%} of what is unusual about the unit's rows is gone"
        return f"Without {first['tag']}, {share}: look at it first. {_AT_HOME}"
    return f"No single tag explains what is unusual, as when the process is at fault and not a tag. {_AT_HOME}"
