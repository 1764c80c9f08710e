"""Incidents: when one starts, goes on and ends, and how verdicts on them look as tables."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from .thresholds import GAP, alarm_runs

LOOKBACK = 100  # steps before the alarm in which the onset is looked for
HORIZON = 80  # steps after the alarm until which an answer is revised
UNDECIDED = "undecided"
DECIDED = 0.5  # probability from which a root is named
_STEP = 0.1  # of the threshold: an alarm after a pause must begin that much higher to be another incident
_COLUMNS = pd.Index(["start", "detected", "end", "root", "probability", "undecided", "path", "ranking", "kind"])


@dataclass(frozen=True)
class Verdict:
    """Knowledge of one incident.

    start, detected, last : onset, first and last row in alarm
    open : whether it may still go on
    statistic : which statistic named the root, "energy", "shift" or "flags"
    probability : that each unit is the root, (n_units,)
    first_rows : row in which each unit's own surprise was first out of bounds, -1 if never, (n_units,)
    kind : of fault at the root, "process", "sensor" or "undecided", or what the unit notices itself
    """

    start: int
    detected: int
    last: int
    open: bool
    statistic: str
    probability: np.ndarray
    first_rows: np.ndarray
    kind: str


@dataclass
class Incident:
    """An incident that is followed: rows of its first and last alarm, highest level, verdict so far."""

    detected: int
    last: int
    peak: float
    open: bool = True
    verdict: Verdict | None = None


def follow(incidents, above, begin):
    """Start, continue and end incidents by the next rows, the first of them row `begin`.

    `above` is the largest level over its threshold in each row. Incidents are changed in place.
    """
    for i, j in alarm_runs(above > 1, 1):
        run = Incident(begin + i, begin + j, float(above[i : j + 1].max()))
        if incidents and incidents[-1].open:
            before = incidents[-1]
            apart = run.detected - before.last
            if apart == 1 or (apart <= GAP and above[i] <= before.peak + _STEP):
                before.last, before.peak = run.last, max(before.peak, run.peak)
                continue
            before.open = False
        incidents.append(run)
    for incident in incidents:
        incident.open = incident.open and begin + len(above) - 1 - incident.last <= GAP


# -- tables ----------------------------------------------------------------------------------------------


def root_of(verdict, names):
    """Name of the root, or "undecided" where no unit has at least half of the probability."""
    best = int(np.argmax(verdict.probability))
    return names[best] if verdict.probability[best] >= DECIDED else UNDECIDED


def incident_row(verdict, names, offset=0, index=None):
    """One row of the table of incidents, by column."""
    order = np.argsort(-verdict.probability, kind="stable")
    first = verdict.first_rows
    moved = [k for k in np.argsort(first, kind="stable") if first[k] >= 0]

    def place(row):
        return row + offset if index is None else index[row + offset]

    best = float(verdict.probability[order[0]])
    return {
        "start": place(verdict.start),
        "detected": place(verdict.detected),
        "end": np.nan if verdict.open else place(verdict.last),
        "root": root_of(verdict, names),
        "probability": best,
        "undecided": 1.0 - best,
        "path": [(names[k], int(first[k] - verdict.start)) for k in moved],
        "ranking": [(names[k], float(verdict.probability[k])) for k in order],
        "kind": verdict.kind,
    }


def incident_table(rows):
    """Rows of incidents as a frame, with the columns also when there is none."""
    return pd.DataFrame([tuple(row.values()) for row in rows], columns=_COLUMNS)


def roots_per_step(verdicts, names, n_samples):
    """Root at every step: a name, "" without an incident, "undecided"."""
    roots = np.full(n_samples, "", dtype=object)
    for verdict in verdicts:
        roots[verdict.start : verdict.last + 1] = root_of(verdict, names)
    return roots
