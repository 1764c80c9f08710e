"""Incidents as they are told: strict JSON with times that have a zone, and what is known of each so far."""

import json
import math
from datetime import UTC
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from .tuning import TUNING

_TOLD = ("start", "detected", "end", "root", "probability", "kind", "status", "repeats")


class Incidents:
    """Incidents so far by the alarm that told them first, each as it was told last, and who has seen it.

    Parameters
    ----------
    clock : Clock
        It knows what the source called a time.
    tz : str, default=None
        Zone of the times that are told; None: UTC.
    zoned : bool, default=False
        Whether times of the stream have a zone.
    """

    def __init__(self, clock, tz=None, zoned=False):
        self._clock, self._zoned, self._zone = clock, zoned, UTC if tz is None else ZoneInfo(tz)
        self.known: dict[str, dict] = {}
        self.n_incidents = 0

    def take(self, table):
        """Events of the incidents that are new or revised in a table."""
        events = []
        for row in table.to_dict("records") if len(table) else ():
            name = self.name_of(row["detected"])
            before = self.known.pop(name, None)
            number = 1 if before is None else before["number"] + 1
            self.n_incidents += before is None
            about = {key: self._told(row[key]) for key in _TOLD if key in row}
            told = {"id": f"{name}/{number}", "incident": name, "number": number} | about
            for repeat, _ in row["repeats"]:
                self.n_incidents -= self.known.pop(self.name_of(repeat), None) is not None
            self.known[name] = told if before is None or "seen" not in before else told | {"seen": before["seen"]}
            events.append({key: value for key, value in told.items() if key != "number"})
        while len(self.known) > TUNING.events_most:
            del self.known[next(iter(self.known))]
        return events

    def see(self, name, by, comment, when):
        """Take note that somebody has seen an incident; KeyError if there is none of that name."""
        self.known[name]["seen"] = {"by": by, "comment": comment, "when": when}

    @property
    def open(self):
        """Incidents that nobody has seen and that have no end yet."""
        return [one for one in self.known.values() if one["end"] is None and "seen" not in one]

    @property
    def unseen(self):
        """Incidents that nobody has seen."""
        return [one for one in self.known.values() if "seen" not in one]

    def name_of(self, detected):
        """Name of an incident by the alarm that told it first."""
        return str(self.moment(detected, told=False))

    def detected(self, name):
        """The time or row of the alarm that told an incident first, as the stream has it."""
        if name.isdigit():
            return int(name)
        moment = pd.Timestamp(name)
        return moment if self._zoned else moment.tz_localize(None)

    def moment(self, value, told=True):
        """A time as it is told, with its zone, or as the stream has it; or the number of a row."""
        if isinstance(value, pd.Timestamp):
            value = self._clock.told(value) if told else value
            value = value.tz_localize(UTC) if value.tz is None else value
            return value.tz_convert(self._zone if told else UTC).isoformat().replace("+00:00", "Z")
        return int(value)

    def _told(self, value):
        if isinstance(value, pd.Timestamp):
            return None if value is pd.NaT else self.moment(value)
        if isinstance(value, (tuple, list)):
            return [self._told(one) for one in value]
        if isinstance(value, (int, float, np.number)):
            value = value.item() if isinstance(value, np.number) else value
            return value if math.isfinite(value) else None
        return None if value is None or value is pd.NaT or value is pd.NA else str(value)


def as_json(event):
    """An event as one line of JSON (RFC 8259)."""
    return json.dumps(event, allow_nan=False, ensure_ascii=True)
