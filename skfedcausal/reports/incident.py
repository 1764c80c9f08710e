"""Reports on an incident: events, root, reasons and doubts; and which tag to blame, as the unit found it at home."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from .. import inspection
from ..containers.rows import position
from ..displays import IncidentDisplay, TagDisplay
from .page import Page, add_departures, begun_page, listed_in_words, when_in_words
from .record import add_check, add_trends, check_of

_KIND = {
    "process": "a fault of the process",
    "sensor": "a fault of a sensor",
    "sensor held": "a sensor repeats its value",
    "unit held": "the whole unit repeats its values",
    "status": "a value that never changed is another one",
    "undecided": "of undecided kind",
}
_AROUND = 120  # rows of the measurements before and after an incident
_SHOWN = 2  # units whose measurements are shown beside those of the first
_ELSEWHERE = "Tags of other units that left what was usual before the incident (green) the furthest"
_CHANCE = 0.1  # false alarms as strong as this one, from which it is said that it may be one of them
_CAUTION = "It may be one of the false alarms that the budget allows: it is no stronger than they are."
_CAPTION = "Alarm level of every unit (dotted: threshold), the incident shaded, arrows in the order units were reached"
_MOST_TAGS, _MOST_TRENDS, _MOST_INCIDENTS = 10, 3, 20
_FAIR_SHARE = 0.1  # of what is unusual, from which a tag's trend is shown beside the first
_MOSTLY, _CLEARLY = 0.6, 0.9  # share that one tag explains, and that of the next beside it at most
_AT_HOME = "The unit found this at home, from its own rows."


def incident_page(detector, incident, X=None, title=None, check=None, *, lengths=None, levels=None):
    """Page on an incident: a row of ``detector.incidents(X)`` or the first of them.

    X is for pictures, tags and checks; `levels` are ``detector.transform(X)`` where they are known.
    """
    if isinstance(incident, pd.DataFrame):
        if incident.empty:
            raise ValueError("Got a table without incidents; give one row of `incidents(X)`.")
        incident = incident.iloc[0]
    absent = [key for key in ("start", "detected", "root", "ranking", "path") if key not in incident]
    if absent:
        raise ValueError(f"Got an incident without {', '.join(absent)}; give one row of `incidents(X)`.")
    seen = None if X is None else _Seen.of(detector, X, incident, lengths, levels)
    title = title or f"Incident of {when_in_words(incident['start'])}"
    page, X, check = begun_page(title, detector, X, check)
    page.lead(_answer(incident, seen))
    page.heading("What happened").text(*_events(incident))
    if seen is not None:
        page.picture(seen.display.plot, _CAPTION)
    ranking = [(name, f"{p:.1%}") for name, p in incident["ranking"][:20]]
    page.heading("Where it began").table(pd.DataFrame(ranking, columns=["unit", "probability"]))
    if seen is not None and X is not None:
        add_tags(page, detector, incident, X, lengths)
        X = detector.asked_.coded(X)[0]  # modes in words are no numbers
        add_trends(page, X, _ELSEWHERE, units=_others(detector, incident), window=seen.window, around=_AROUND)
    page.heading("Why we think so").text(*_reasons(incident, detector, seen))
    add_check(page, check_of(X, check))
    page.heading("What we do not know").items(_doubts(incident, detector))
    return add_departures(page, detector)


@dataclass(frozen=True)
class _Seen:
    """An incident in its record: its rows, how high it rose over the threshold, and the rows that were watched."""

    display: IncidentDisplay
    window: tuple
    peak: float
    n_rows: int
    rate: float  # false alarms allowed per row

    @classmethod
    def of(cls, detector, X, incident, lengths, levels):
        levels, times = detector.asked_.levels_and_times(X, lengths, levels)
        start, end = position(_plain(incident["start"]), times), incident.get("end")
        stop = len(levels) if pd.isna(end) else min(max(position(_plain(end), times), start) + 1, len(levels))
        display = IncidentDisplay(levels, detector.client_names_, incident, times)
        peak = float(np.nanmax(levels[start:stop]))
        return cls(display, (start, stop), peak, len(levels), detector.false_alarms_["asked"])

    @property
    def chance(self):
        """False alarms at least as strong to be expected in the record, at most about.

        Statistics are in the scale of log-likelihoods, whose false alarms become rarer as the power of the level.
        """
        return self.n_rows * self.rate ** max(self.peak, 1.0)


def _plain(row):
    """A row number as such; tables with an open end keep them as fractions."""
    return int(row) if isinstance(row, (float, np.floating)) else row


def _others(detector, incident):
    """Units whose tags are shown beside those of the likeliest one: the next likely, then those that were reached."""
    (first, _), *others = incident["ranking"]
    undecided = incident["root"] not in detector.client_names_
    names = [name for name, _ in others[:1] if undecided] + [name for name, _ in incident["path"]]
    names += [name for name, _ in others]  # of an incident that reached none
    return [name for name in dict.fromkeys(names) if name in detector.client_names_ and name != first][:_SHOWN]


def _answer(incident, seen):
    return f"{_where(incident)} {_CAUTION}" if seen is not None and seen.chance >= _CHANCE else _where(incident)


def _where(incident):
    best = [name for name, _ in incident["ranking"][:2]]
    if incident["root"] == "undecided":
        return f"Something began at {when_in_words(incident['start'])}; it cannot be told where: {' or '.join(best)}."
    kind = _KIND.get(incident.get("kind"))
    place = f"{incident['root']} at {when_in_words(incident['start'])}"
    text = f"It began in {place} (probability {incident['probability']:.0%})"
    return f"{text}, {kind}." if kind else f"{text}."


def _events(incident):
    end = incident.get("end")
    yield f"It began at {when_in_words(incident['start'])} and was noticed at {when_in_words(incident['detected'])}."
    yield (
        "It was still going on at the end of the record." if pd.isna(end) else f"It lasted until {when_in_words(end)}."
    )
    reached = [f"{name} after {delay} step{'s' * (delay != 1)}" for name, delay in incident["path"]]
    if len(reached) > 1:
        yield f"Units reached, in order: {listed_in_words(reached)}."


def _reasons(incident, detector, seen):
    if incident["root"] == "undecided":
        yield "Several units explain the alarm about equally well."
    else:
        yield f"{incident['root']} cannot be explained by its own past and by what the other units did;"
        yield "the others can be explained by it."
    rates = detector.false_alarms_
    yield (
        f"Thresholds allow {rates['asked']:.2g} false alarms per time step; on nominal data that was held out there "
        f"were {rates['n_alarms']} in {rates['n_steps']} steps ({rates['low']:.2g} to {rates['high']:.2g} per step, "
        "95 % interval)."
    )
    if seen is not None:
        yield (
            f"In the {seen.n_rows:,} rows watched that is {seen.n_rows * seen.rate:.2g} in all. This one rose to "
            f"{seen.peak:.3g} times the threshold, as {_count(seen.chance)} of them would."
        )


def _count(number):
    return f"at most about {number:.2g}" if number >= 0.001 else "less than one in a thousand"


def _doubts(incident, detector):
    others = [(name, p) for name, p in incident["ranking"][1:] if p >= 0.05]
    yield from (f"It may instead have begun in {name} ({p:.0%})." for name, p in others[:4])
    if len(incident["path"]) > 1 and all(delay == incident["path"][0][1] for _, delay in incident["path"]):
        yield "All units were reached in the same step: a finer time step would tell their order."
    yield "A disturbance that its own unit does not measure is attributed to the first unit that does."
    n_levels = detector.asked_.n_levels()
    if n_levels > 1:
        yield (
            f"The nominal record ran at {n_levels} levels, all taken for normal: a "
            "fault that looks like a switch between them is not told."
        )
    yield (
        f"What is normal was learned from a record of {detector.false_alarms_['n_steps']:,} held-out steps "
        "and those before them; a change of the operating point looks like an incident."
    )


# -- tags ------------------------------------------------------------------------------------------


def add_tags(page, detector, incident, X, lengths):
    """Tags of the unit where it began as it ranked them, and the trends of the first ones."""
    found = inspection.tags(detector, X, incident, lengths=lengths)
    tags = trends_of(found)
    draw = partial(TagDisplay.from_detector, detector, X, incident, tags, lengths=lengths, measures=page.measures)
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
