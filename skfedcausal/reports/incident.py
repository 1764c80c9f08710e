"""Reports on an incident: events, root, reasons and doubts; and which tag to blame, as its unit found it."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from .. import inspection
from ..containers.rows import position
from ..displays import IncidentDisplay, TagDisplay
from ..inspection.watching import one_incident
from .page import (
    Page,
    add_check,
    add_departures,
    add_trends,
    begun_page,
    check_of,
    counted,
    defects,
    listed_in_words,
    percent,
    when_in_words,
)

_KIND = {
    "process": "Process fault.",
    "sensor": "Sensor fault.",
    "sensor held": "A sensor is stuck at one value.",
    "unit held": "All values of the unit are stuck.",
    "status": "A value that never changed before has changed.",
    "outside what was learned": "The states went where the nominal record does not show how they act on each other.",
    "undecided": "Process fault or sensor fault: cannot be distinguished.",
}
_AROUND = 120  # rows of the measurements before and after an incident
_SHOWN = 2  # units whose measurements are shown beside those of the first
_ELSEWHERE = "Tags of other units that moved furthest from their usual range before the incident (green)"
_CHANCE = 0.1  # false alarms as strong as this one, from which it is said that it may be one of them
_CAUTION = "It may be one of the false alarms you allowed: it is no stronger than they are."
_CAPTION = "Alarm level of each unit (dotted: threshold). Shaded: the incident. Arrows: the order units were reached in"
_MOST_TAGS, _MOST_TRENDS, _MOST_INCIDENTS = 10, 3, 20
_FAIR_SHARE = 0.1  # of what is unusual, from which a tag's trend is shown beside the first
_POSSIBLE = 0.05  # probability of another unit, from which it is named as well
_MOSTLY, _CLEARLY = 0.6, 0.9  # share that one tag explains, and that of the next beside it at most
_OWN_ROWS = "The unit found this from its own rows."


def incident_page(detector, incident, X=None, title=None, check=None, *, lengths=None, levels=None, notes=()):
    """Page on an incident: a row of ``detector.incidents(X)`` or the first of them.

    X is for pictures, tags and checks; `levels` are ``detector.transform(X)`` where they are known. `notes` are what
    was said of the fit, such as warnings: each speaks against the answer.
    """
    incident = one_incident(incident, ("start", "detected", "root", "ranking", "path"))
    seen = None if X is None else _Seen.of(detector, X, incident, lengths, levels)
    title = title or f"Incident of {when_in_words(incident['start'])}"
    page, X, check = begun_page(title, detector, X, check)
    found = None if seen is None or X is None else inspection.tags(detector, X, incident, lengths=lengths)
    page.lead(_answer(incident, seen, found))
    if seen is not None:
        page.picture(seen.display.plot, _CAPTION)
    page.heading("What happened").text(*_events(incident))
    ranking = [(name, percent(p)) for name, p in incident["ranking"][:_MOST_TAGS]]
    page.table(pd.DataFrame(ranking, columns=["began in", "probability"]))
    if found is not None:
        tags = trends_of(found)
        draw = partial(TagDisplay.from_detector, detector, X, incident, tags, lengths=lengths, measures=page.measures)
        add_ranking(page, found["unit"].iloc[0], found.drop(columns="unit"), draw)
    page.against([*_doubts(incident, detector), *notes])
    plain = X if X is None else detector.asked_.coded(X)[0]  # modes in words are no numbers
    check = check_of(plain, getattr(X, "check", None) if check is None else check)
    page.check_first([*_steps(incident, found), *defects(check)])
    if seen is not None and found is not None:
        add_trends(page, plain, _ELSEWHERE, units=_others(detector, incident), window=seen.window, around=_AROUND)
    page.heading("Why we think so").text(*_reasons(incident, detector, seen))
    add_check(page, check)
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


def _answer(incident, seen, found):
    suspect = None if found is None else _suspect(found)
    check = f" Check {suspect} first." if suspect else ""
    return f"{_where(incident)}{check}{f' {_CAUTION}' if seen is not None and seen.chance >= _CHANCE else ''}"


def _where(incident):
    best = [name for name, _ in incident["ranking"][:2]]
    if incident["root"] == "undecided":
        return f"An incident began at {when_in_words(incident['start'])}; most likely origin: {' or '.join(best)}."
    kind = _KIND.get(incident.get("kind"), "")
    when, chance = when_in_words(incident["start"]), percent(incident["probability"])
    return f"Most likely origin: {incident['root']}, at {when} (probability {chance}). {kind}".rstrip()


def _events(incident):
    end = incident.get("end")
    yield f"It began at {when_in_words(incident['start'])} and was detected at {when_in_words(incident['detected'])}."
    yield "It was still active at the end of the record." if pd.isna(end) else f"It lasted until {when_in_words(end)}."
    reached = [f"{name} after {counted(delay, 'step')}" for name, delay in incident["path"]]
    if len(reached) > 1:
        yield f"Units reached, in order: {listed_in_words(reached)}."


def _reasons(incident, detector, seen):
    if incident["root"] == "undecided":
        yield "Several units explain the alarm about equally well."
    else:
        yield f"What {incident['root']} did follows neither from its own past nor from the other units;"
        yield f"what the others did follows from {incident['root']}."
    rates = detector.false_alarms_
    yield (
        f"Thresholds allow {rates['asked']:.2g} false alarms per time step; held-out normal operation had "
        f"{rates['n_alarms']} in {rates['n_steps']:,} steps ({rates['low']:.2g} to {rates['high']:.2g} per step, "
        "95% interval)."
    )
    if seen is not None:
        yield (
            f"In the {seen.n_rows:,} rows monitored that makes {seen.n_rows * seen.rate:.2g}. This alarm rose to "
            f"{seen.peak:.3g} times the threshold, which {_count(seen.chance)} of them would reach."
        )


def _count(number):
    return f"about {number:.2g} at most" if number >= 0.001 else "less than one in a thousand"


def _doubts(incident, detector):
    others = [(name, p) for name, p in incident["ranking"][1:] if p >= _POSSIBLE]
    yield from (f"It may have begun in {name} instead ({p:.0%})." for name, p in others[:4])
    if len(incident["path"]) > 1 and all(delay == incident["path"][0][1] for _, delay in incident["path"]):
        yield "All units were reached in the same step: a shorter time step would show their order."
    yield "A disturbance that no tag of its own unit measures is attributed to the first unit that shows it."
    n_levels = detector.asked_.n_levels()
    if n_levels > 1:
        yield (
            f"The nominal record ran at {n_levels} operating levels, all taken as normal: a "
            "fault that looks like a switch between them is not reported."
        )
    yield (
        f"Normal operation was learned from one record ({detector.false_alarms_['n_steps']:,} steps of it held out); "
        "a new operating point looks like an incident."
    )


def _steps(incident, found):
    """What to check on site, in order."""
    if found is not None:
        unit, tags = found["unit"].iloc[0], trends_of(found)
        yield f"In {unit}, compare {listed_in_words(tags)} with a local gauge or a redundant sensor."
    when = when_in_words(incident["start"])
    yield f"The logbook before {when}: maintenance, a set-point change, another mode or product?"
    others = [name for name, p in incident["ranking"] if p >= _POSSIBLE and name != incident["root"]]
    if others:
        yield f"If nothing is found there, look at {listed_in_words(others[:3])}."


# -- tags ------------------------------------------------------------------------------------------


def home_page(unit, blamed):
    """Page that a site writes for itself: its tags about each incident, as (incident, ranking, trends of the first)."""
    page = Page(f"Tags of {unit}")
    page.lead(f"What {unit} found in its own rows about {counted(len(blamed), 'incident')} of the plant.")
    page.text("If an incident began in another unit (see the table of incidents), these tags show what arrived here.")
    for incident, found, trends in blamed[:_MOST_INCIDENTS]:
        page.heading(f"Incident from row {incident['start']:,} on")
        add_ranking(page, unit, found.drop(columns="onset"), TagDisplay(trends, incident).plot)
    if len(blamed) > _MOST_INCIDENTS:
        page.text(f"{len(blamed) - _MOST_INCIDENTS} further incidents are ranked in the table only.")
    return page


def add_ranking(page, unit, found, draw):
    """A unit's ranking of its tags (``tag, explained, why``) and the picture of the first ones that `draw` makes."""
    page.heading(f"Which tag of {unit}").text(_blame(found))
    shown = found.head(_MOST_TAGS)
    if not shown["why"].any():
        shown = shown.drop(columns="why")
    page.table(shown.assign(explained=shown["explained"].map("{:.0%}".format)))
    what = f"{listed_in_words(trends_of(found))} as measured, the most suspicious first"
    page.picture(draw, f"{what}. Band: where the other tags of {unit} predict it (two standard deviations)")


def trends_of(found):
    """Tags of a ranking whose trends are shown: the first, and others that explain a fair share."""
    more = found["explained"].iloc[1:_MOST_TRENDS] >= _FAIR_SHARE
    return [found["tag"].iloc[0], *found["tag"].iloc[1:_MOST_TRENDS][more]]


def _has_reason(found):
    """Whether something else than its share speaks against the first tag of a ranking alone."""
    return bool(found["why"].iloc[0]) and not found["why"].ne("").all()


def _suspect(found):
    """The tag of a ranking that stands out from the others, None if none does."""
    first, second = found["explained"].iloc[0], found["explained"].iloc[1] if len(found) > 1 else 0.0
    stands_out = first >= _MOSTLY and second <= _CLEARLY * first
    return found["tag"].iloc[0] if stands_out or _has_reason(found) else None


def _blame(found):
    """What the ranking of a unit's tags says, in a sentence."""
    first, why = found.iloc[0], found["why"].iloc[0]
    if _has_reason(found):
        return f"{first['tag']} {why}. {_OWN_ROWS}"
    if _suspect(found):
        share = f"{first['explained']:.0%} of what is unusual in the unit"
        return f"{first['tag']} alone explains {share}: check it first. {_OWN_ROWS}"
    several = "the process is at fault, or several tags show one fault"
    return f"No single tag stands out: {several}. {_OWN_ROWS}"
