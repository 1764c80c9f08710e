"""Verdicts as tables: incidents, roots per time step, false-alarm budgets."""

import re

import numpy as np
import pandas as pd

UNDECIDED = "undecided"
DECIDED = 0.5  # probability from which a root is named
COLUMNS = ("start", "detected", "end", "root", "probability", "undecided", "path", "ranking", "kind")
_INDEX = pd.Index(COLUMNS)
_NO_ROWS = pd.DataFrame([], columns=_INDEX)
_SECONDS = {
    "second": 1,
    "minute": 60,
    "hour": 3600,
    "day": 86400,
    "week": 604800,
    "month": 2629746,
    "year": 31556952,
}


def steps_between_alarms(rate, index=None):
    """Steps between false alarms that a budget allows.

    Parameters
    ----------
    rate : float or str
        Alarms per time step, or for instance "1 per day", "2/week", "1 per 500 steps".
    index : pandas.Index, default=None
        Time index of the nominal record, for rates per unit of time.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the budget cannot be read, is per unit of time and the record has no times, or allows one alarm
        per step or more.
    """
    if not isinstance(rate, str):
        return 1.0 / rate
    found = re.fullmatch(r"\s*([\d.]+)(?:\s+per\s+|\s*/\s*)(?:([\d.]+)\s+)?([a-z]+?)s?\s*", rate)
    if found is None or found[3] not in {*_SECONDS, "step"} or float(found[1]) <= 0:
        raise ValueError(
            f"false_alarm_rate={rate!r} cannot be read; give a number per time step or for instance "
            f"'1 per day' (units: step, {', '.join(_SECONDS)})."
        )
    count, every = float(found[1]), float(found[2] or 1)
    if found[3] == "step":
        return _at_least_one(every / count, rate)
    if not isinstance(index, pd.DatetimeIndex) or len(index) < 2:
        raise ValueError(
            f"false_alarm_rate={rate!r} needs to know the sampling period: give frames with a DatetimeIndex, "
            "or the rate as a number per time step."
        )
    period = np.median(np.diff(index.to_numpy())) / np.timedelta64(1, "s")
    return _at_least_one(float(every * _SECONDS[found[3]] / period / count), rate)


def _at_least_one(steps, rate):
    if steps <= 1:
        raise ValueError(
            f"false_alarm_rate={rate!r} allows {1 / steps:.3g} alarms per time step; give less than one."
        )
    return steps


def root_of(verdict, names):
    """Name of the root, or "undecided" where no unit has at least half of the probability."""
    best = int(verdict.probability.argmax())
    return names[best] if verdict.probability[best] >= DECIDED else UNDECIDED


def incident_row(verdict, names, offset=0, index=None):
    """One row of the table of incidents."""
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
    if not rows:
        return _NO_ROWS.copy()
    return pd.DataFrame([tuple(row.values()) for row in rows], columns=_INDEX)


def roots_per_step(verdicts, names, n_samples):
    """Root at every step: a name, "" without an incident, "undecided"."""
    roots = np.full(n_samples, "", dtype=object)
    for verdict in verdicts:
        roots[verdict.start : verdict.last + 1] = root_of(verdict, names)
    return roots
