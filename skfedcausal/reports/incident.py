"""Report on an incident: events, root, reasons and doubts."""

import pandas as pd

from ..displays import IncidentDisplay
from .page import Page, add_departures, listed_in_words

_KIND = {
    "process": "a fault of the process",
    "sensor": "a fault of a sensor",
    "sensor held": "a sensor repeats its value",
    "unit held": "the whole unit repeats its values",
    "status": "a value that never changed is another one",
    "undecided": "of undecided kind",
}
_CAPTION = "Alarm level of every unit (dotted: threshold), the incident shaded, arrows in the order units were reached"


def incident_page(detector, incident, X=None, title=None):
    """Page on an incident: a row of ``detector.incidents(X)`` or the first of them; X is for the picture."""
    if isinstance(incident, pd.DataFrame):
        if incident.empty:
            raise ValueError("Got a table without incidents; give one row of `incidents(X)`.")
        incident = incident.iloc[0]
    absent = [key for key in ("start", "detected", "root", "ranking", "path") if key not in incident]
    if absent:
        raise ValueError(f"Got an incident without {', '.join(absent)}; give one row of `incidents(X)`.")
    page = Page(title or f"Incident of {_when(incident['start'])}").lead(_answer(incident))
    page.heading("What happened").text(*_events(incident))
    if X is not None:
        page.picture(IncidentDisplay.from_detector(detector, X, incident).figure_, _CAPTION)
    ranking = [(name, f"{p:.1%}") for name, p in incident["ranking"][:20]]
    page.heading("Where it began").table(pd.DataFrame(ranking, columns=["unit", "probability"]))
    page.heading("Why we think so").text(*_reasons(incident, detector))
    page.heading("What we do not know").items(_doubts(incident, detector))
    return add_departures(page, detector)


def _when(time):
    return f"{time:%Y-%m-%d %H:%M:%S}" if isinstance(time, pd.Timestamp) else f"row {time}"


def _answer(incident):
    best = [name for name, _ in incident["ranking"][:2]]
    if incident["root"] == "undecided":
        return f"Something began at {_when(incident['start'])}; it cannot be told where: {' or '.join(best)}."
    kind = _KIND.get(incident.get("kind"))
    text = f"It began in {incident['root']} at {_when(incident['start'])} (probability {incident['probability']:.0%})"
    return f"{text}, {kind}." if kind else f"{text}."


def _events(incident):
    end = incident.get("end")
    yield f"It began at {_when(incident['start'])} and was noticed at {_when(incident['detected'])}."
    yield "It was still going on at the end of the record." if pd.isna(end) else f"It lasted until {_when(end)}."
    reached = [f"{name} after {delay} step{'s' * (delay != 1)}" for name, delay in incident["path"]]
    if len(reached) > 1:
        yield f"Units reached, in order: {listed_in_words(reached)}."


def _reasons(incident, detector):
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


def _doubts(incident, detector):
    others = [(name, p) for name, p in incident["ranking"][1:] if p >= 0.05]
    yield from (f"It may instead have begun in {name} ({p:.0%})." for name, p in others[:4])
    if len(incident["path"]) > 1 and all(delay == incident["path"][0][1] for _, delay in incident["path"]):
        yield "All units were reached in the same step: a finer time step would tell their order."
    yield "A disturbance that its own unit does not measure is attributed to the first unit that does."
    yield (
        f"What is normal was learned from a record of {detector.false_alarms_['n_steps']:,} held-out steps "
        "and those before them; a change of the operating point looks like an incident."
    )
