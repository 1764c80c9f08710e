"""Section of a page: which tag of a unit is to blame, as the unit found it at home."""

from functools import partial

from ..displays import TagDisplay

_MOST_TAGS = 10
_MOSTLY, _CLEARLY = 0.6, 0.9  # share that one tag explains, and that of the next beside it at most
_AT_HOME = "The unit found this at home, from its own rows."


def add_tags(page, detector, incident, X, lengths):
    """Which tag of the unit is to blame, and its trend."""
    found = detector.tags(X, incident, lengths=lengths)
    unit = found["unit"].iloc[0]
    page.heading(f"Which tag of {unit}").text(_blame(found))
    shown = found.drop(columns="unit").head(_MOST_TAGS)
    page.table(shown.assign(explained=shown["explained"].map("{:.0%}".format)))
    draw = partial(TagDisplay.from_detector, detector, X, incident, lengths=lengths)
    tag = found["tag"].iloc[0]
    page.picture(draw, f"{tag} as measured, and where the other tags of {unit} expect it (two deviations)")


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
