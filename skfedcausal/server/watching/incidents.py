"""Incidents: when one starts, goes on and ends, and how verdicts on them look as tables."""

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import takewhile
from typing import Any

import numpy as np
import pandas as pd

from .posterior import SURE
from .thresholds import GAP, alarm_runs
from .tuning import TUNING

LOOKBACK = 100  # steps before the alarm in which the onset is looked for
HORIZON = 80  # steps after the alarm until which an answer is revised
LASTS = 2 * HORIZON  # steps at a new operating point that are still told as steps of the fault that led there
UNDECIDED = "undecided"
SWITCH = "switch"  # kind of what was an alarm until it was found to lead to another nominal operating point
OUTSIDE = "outside what was learned"  # kind of what states did where curves of the nominal record do not reach
NO_FAULT = ("drift", SWITCH)  # kinds whose rows are none of a fault
DECIDED = 0.5  # probability from which a root is named
_COLUMNS = ["start", "detected", "end", "root", "probability", "undecided", "path", "ranking", "kind"]
_COLUMNS += ["repeats", "status"]
_EMPTY = pd.DataFrame([(0, 0, np.nan, "", 0.0, 0.0, [], [], "", [], "")], columns=pd.Index(_COLUMNS))[:0]  # typed


@dataclass(frozen=True)
class Verdict:
    """Knowledge of one incident.

    start, detected, last : onset, first and last row in alarm
    open : whether it may still go on
    statistic : which statistic named the root, "energy", "shift" or "flags"
    probability : that each unit is the root, (n_units,)
    first_rows : row in which each unit's own surprise was first out of bounds, -1 if never, (n_units,)
    kind : of fault at the root, "process", "sensor" or "undecided", what the unit notices itself, or "drift" of what
        was followed without an alarm, "switch" to another nominal operating point, or `OUTSIDE`
    end : last row of the fault, None where it is not known beside the last alarm
    resumes : whether a fault of each unit may be that of the incident before, (n_units,), None if of none
    lasting : first alarms of the incidents before it that last
    settled : whether it became the operating point, so that the fault lasts
    ends : first alarms of the incidents that last no longer from this one on
    doubted : whether its beginning is against its root, which later alarms of the same fault do not make surer
    """

    start: int
    detected: int
    last: int
    open: bool
    statistic: str
    probability: np.ndarray
    first_rows: np.ndarray
    kind: str
    end: int | None = None
    resumes: np.ndarray | None = None
    lasting: frozenset = frozenset()
    settled: bool = False
    ends: frozenset = frozenset()
    doubted: bool = False

    @property
    def stop(self):
        """Row after the last one of the fault."""
        return (self.last if self.end is None else self.end) + 1


@dataclass
class Incident:
    """An incident that is followed: rows of its first and last alarm, highest level, verdict so far.

    With what was known when it began: whether a fault of each unit went on since the incident before, and the first
    alarms of the incidents that last. `level` is the mean of its errors of prediction, `excess` that of the surprises
    of the units over their nominal mean, (n_units,); `end` is there where a change of the operating point ended it.
    """

    detected: int
    last: int
    peak: float
    open: bool = True
    verdict: Verdict | None = None
    resumes: np.ndarray | None = None
    lasting: frozenset = frozenset()
    level: np.ndarray | None = None
    excess: np.ndarray | None = None
    end: int | None = None
    after: int | None = None  # first alarm of the incident after it
    before: Any = None  # the Incident before it, in whose fault it did not begin; kept while its own verdict may change

    @property
    def is_slight(self):
        """Whether it is as the false alarms of a budget mostly are: of a single row, hardly above its threshold."""
        return self.last == self.detected and self.peak < TUNING.incidents_hardly


def follow(incidents, above, begin, starts=None):
    """Start, continue and end incidents by the next rows, the first of them row `begin`.

    `above` is the largest level over its threshold in each row, and `starts` the rows in which one may start, None for
    all. Incidents are changed in place.
    """
    for i, j in alarm_runs(above > 1, 1):
        if incidents and incidents[-1].open:
            before = incidents[-1]
            apart = begin + i - before.last
            is_new = above[i] > before.peak + TUNING.incidents_step and (starts is None or starts[i])
            if apart == 1 or (apart <= GAP and not is_new):
                before.last, before.peak = begin + j, max(before.peak, float(above[i : j + 1].max()))
                continue
            before.open = False
        if starts is not None:
            if not starts[i : j + 1].any():
                continue
            i += int(starts[i : j + 1].argmax())
        if incidents:
            incidents[-1].after = begin + i
        incidents.append(Incident(begin + i, begin + j, float(above[i : j + 1].max())))
    for incident in incidents:
        incident.open = incident.open and begin + len(above) - 1 - incident.last <= GAP


# -- tables ----------------------------------------------------------------------------------------------


def root_of(verdict, names):
    """Name of the root, or "undecided" where no unit has at least half of the probability."""
    best = int(np.argmax(verdict.probability))
    return names[best] if verdict.probability[best] >= DECIDED else UNDECIDED


class KnownFaults:
    """Verdicts on the incidents of an episode as they come and change, those on the same fault together.

    An alarm is of a fault before it if that one lasts as an operating point, or the rows between show that it went
    on, and it names the same root, or none. What is of which fault depends on the alarms before only, so that a verdict
    that is revised concerns those from it on and no earlier ones.
    """

    def __init__(self):
        self.verdicts = {}  # by first alarm, in the order of these
        self._faults: list[list[Verdict]] = []
        self._number: dict[int, int] = {}  # of the fault of each first alarm

    def take(self, verdicts):
        """Take new or revised verdicts."""
        new = {verdict.detected: verdict for verdict in verdicts}
        begin = min(new)
        for detected in list(takewhile(lambda row: row >= begin, reversed(self.verdicts))):
            verdict = self.verdicts.pop(detected)
            new.setdefault(detected, verdict)
            number = self._number.pop(detected)
            self._faults[number].pop()
            if not self._faults[number]:
                self._faults.pop()
        for detected in sorted(new):
            self._add(new[detected])

    def _add(self, verdict):
        near = {self._number[detected] for detected in verdict.lasting if detected in self._number}
        near |= {len(self._faults) - 1} if self._faults else set()
        of = [number for number in near if _is_of(self._faults[number], verdict, self._faults[-1])]
        number = max(of, default=len(self._faults))
        if not of:
            self._faults.append([])
        self._faults[number].append(verdict)
        self.verdicts[verdict.detected], self._number[verdict.detected] = verdict, number

    @property
    def over(self):
        """First alarms of what lasts no longer."""
        return frozenset().union(*(verdict.ends for verdict in self.verdicts.values()))

    def of(self, detected):
        """Faults that hold some of these first alarms, lists of verdicts in the order of their alarms."""
        return [self._faults[number] for number in sorted({self._number[row] for row in detected})]


def same_faults(verdicts):
    """Verdicts on incidents of one episode in the order of their alarms, those of the same fault together."""
    known = KnownFaults()
    if verdicts:
        known.take(verdicts)
    return known.of(known.verdicts)


def _is_of(fault, verdict, latest):
    """Whether an alarm is of a fault before it."""
    root, named = int(fault[0].probability.argmax()), int(verdict.probability.argmax())
    if named != root and (verdict.kind == "drift" or verdict.probability[named] >= DECIDED):
        return False
    if any(one.detected in verdict.lasting for one in fault):
        return True
    return fault is latest and verdict.resumes is not None and bool(verdict.resumes[root])


def incident_row(verdict, names, offset=0, index=None, repeats=(), over=frozenset()):
    """One row of the table of incidents, by column; `repeats` are later verdicts on the same fault.

    Of faults that became the operating point those with first alarms in `over` are over.
    """
    order = np.argsort(-verdict.probability, kind="stable")
    first = verdict.first_rows
    moved = [k for k in np.argsort(first, kind="stable") if first[k] >= 0]

    def place(row):
        return row + offset if index is None else index[row + offset]

    def end(one):
        return np.nan if one.open else place(one.stop - 1)

    def status():
        if any(one.open for one in (verdict, *repeats)):
            return "active"
        lasts = any(one.settled and one.detected not in over for one in (verdict, *repeats))
        return f"running at a new level since {place(verdict.start)}" if lasts else "ended"

    best = float(verdict.probability[order[0]])
    return {
        "start": place(verdict.start),
        "detected": place(verdict.detected),
        "end": end([verdict, *repeats][-1]),
        "root": root_of(verdict, names),
        "probability": best,
        "undecided": 1.0 - best,
        "path": [(names[k], int(first[k] - verdict.start)) for k in moved],
        "ranking": [(names[k], float(verdict.probability[k])) for k in order],
        "kind": verdict.kind,
        "repeats": [(place(one.detected), end(one)) for one in repeats],
        "status": status(),
    }


def fault_row(fault, names, offset=0, index=None, over=frozenset()):
    """One row of the table for all verdicts on the same fault: the surest names it, the first says when it began."""
    first, *later = fault
    named = first.doubted and first.probability.max() >= DECIDED
    surest = max(one.probability.max() for one in fault) - TUNING.incidents_as_sure
    best = first if named else next(one for one in fault if one.probability.max() >= surest)
    if best is not first:
        where = {name: getattr(first, name) for name in ("start", "detected", "last", "open", "end", "settled")}
        kind = first.kind if best.kind == "drift" else best.kind  # what was an alarm is no drift for going on as one
        reached = np.where(first.first_rows >= 0, first.first_rows, best.first_rows)
        best = replace(best, **where, kind=kind, first_rows=reached)
    return incident_row(best, names, offset, index, later, over)


def incident_table(rows, time=None):
    """Rows of incidents as a frame, with columns of the same types when there is none; places may be of type `time`."""
    if not rows:
        return _empty(time)[:0]
    return pd.DataFrame([tuple(row.values()) for row in rows], columns=pd.Index(_COLUMNS))


@lru_cache(8)  # a row of a stream that comes alone has such a table
def _empty(time):
    return _EMPTY if time is None else _EMPTY.astype(dict.fromkeys(("start", "detected", "end"), time))


def label_rows(roots, verdicts, names, offset=0):
    """Write the roots of incidents of one episode into an array of roots, whose first row is row `offset` of it.

    Where nothing was at fault before the alarm that can be named, an incident begins with it. A fault that lasts goes
    on at its operating point, which is how the plant runs after a while; at once where no unit is surely at fault.
    """

    def write(begin, stop, root):
        roots[max(begin - offset, 0) : max(stop - offset, 0)] = root

    named = [(verdict, root_of(verdict, names)) for verdict in verdicts if verdict.kind not in NO_FAULT]
    for verdict, root in named:
        if verdict.settled and verdict.probability.max() >= SURE:
            over = [other.detected for other in verdicts if verdict.detected in other.ends]
            write(verdict.stop, min([verdict.stop + LASTS, *over]), root)
    for verdict, root in named:
        write(verdict.detected if root == UNDECIDED else verdict.start, verdict.stop, root)


def roots_per_step(verdicts, names, n_samples):
    """Root at every step: a name, "" without an incident, "undecided"."""
    roots = np.full(n_samples, "", dtype=object)
    label_rows(roots, verdicts, names)
    return roots
