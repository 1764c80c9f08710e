"""Incidents: when one starts, goes on and ends, the evidence that revises it, flags, tables."""

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import binom

from ...arguments import warn
from .posterior import SURE
from .thresholds import GAP, alarm_runs
from .tuning import TUNING

# Incidents: when one starts, goes on and ends, and how verdicts on them look as tables.

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


# The paper's inference: two anomaly flags per unit, a look-up table of pairs, consistency over a horizon.
#
# Incidents are runs of steps with a root in the flags.

FLAG_GAP = 10  # steps without a root after which an incident is over
_LONGEST = 100_000  # steps: no horizon

_AUGMENTED_ONLY = 0, 1  # flags of a unit that only its augmented model is surprised by


def needed_answers(horizon, kept, other, nominal, rate):
    """How many of a unit's randomised answers must be (1, 1) for it to count as the root.

    As many as are expected when more than half of the true pairs in the `horizon` steps looked at together
    are (1, 1), and so many that a unit in nominal operation gives them at most at the wanted `rate`, in
    false alarms per step of one unit. `kept` and `other` are the probabilities of an answer given that pair
    or another one, `nominal` bounds the share of true (1, 1) in nominal operation. Warns if it is more than
    `horizon`: then no alarm is possible.

    Examples
    --------
    >>> from skfedcausal.server.watching.incidents import needed_answers
    >>> needed_answers(10, 1.0, 0.0, 0.0, 1e-3), needed_answers(10, 0.71, 0.1, 0.05, 1e-3)
    (6, 6)
    """
    needed = _needed(horizon, kept, other, nominal, rate)
    if needed > horizon:
        enough = (k for k in range(horizon, _LONGEST) if _needed(k, kept, other, nominal, rate) <= k)
        warn(
            f"Randomised flags cannot tell a root from chance within horizon={horizon} steps at the "
            "false-alarm rate asked for, so that there will never be an alarm. Give a horizon of at least "
            f"{next(enough, _LONGEST)}, a larger epsilon or a higher rate.",
        )
    return needed


def _needed(horizon, kept, other, nominal, rate):
    majority = horizon // 2 + 1
    expected = majority * kept + (horizon - majority) * other
    by_chance = binom.isf(rate, horizon, nominal * kept + (1 - nominal) * other) + 1
    return int(max(np.ceil(expected), by_chance))


def roots_of_flags(flags, horizon=1, needed=1):
    """Root unit at every step from the flags of all units.

    A unit is the root when its flags are (1, 1), as in every pair of Table 1 that has a root, and no other
    unit's are; two such units violate the paper's assumptions (Proposition 5.2), and beside a unit with
    (0, 1) the table answers "imperfect training": both are undecided. With a horizon the unit must have been
    (1, 1) in at least `needed` of the last `horizon` steps and more often than any other (Remark 5.1); single
    steps with other pairs then do not matter.

    `flags` are integers of shape (n_samples, n_units, 2). Gives the unit at every step, -1 for no incident
    and -2 for undecided.
    """
    is_root = (flags == 1).all(axis=2)
    imperfect = np.zeros(len(flags), dtype=bool)
    if horizon > 1 or needed > 1:
        sums = np.cumsum(np.concatenate([np.zeros((1, is_root.shape[1])), is_root]), axis=0)
        ends = np.arange(1, len(is_root) + 1)
        count = sums[ends] - sums[np.maximum(ends - horizon, 0)]
        is_root = (count >= needed) & (count == count.max(axis=1, keepdims=True))
    else:
        imperfect = (flags == _AUGMENTED_ONLY).all(axis=2).any(axis=1)
    total = is_root.sum(axis=1)
    clear = (total == 1) & ~imperfect
    return np.where(clear, is_root.argmax(axis=1), np.where(total > 0, -2, -1))


# -- incidents -------------------------------------------------------------------------------------------


@dataclass
class FlagIncident:
    """An incident that is followed: its first and last step, and how often each unit was the root."""

    detected: int
    last: int
    votes: np.ndarray
    first_rows: np.ndarray
    n_votes: int = 0

    def vote(self, row, root):
        """Take note of the root in one step, -2 for undecided."""
        self.last = row
        if row > self.detected + HORIZON:
            return
        self.n_votes += 1
        if root >= 0:
            self.votes[root] += 1
            if self.first_rows[root] < 0:
                self.first_rows[root] = row

    def verdict(self, is_open):
        """A unit's probability is its share of the steps from the first to the horizon."""
        probability, first_rows = self.votes / self.n_votes, self.first_rows.copy()
        return Verdict(self.detected, self.detected, self.last, is_open, "flags", probability, first_rows, "undecided")


@dataclass
class FlagState:
    """Where a stream of flags stands: steps so far, the flags of the last ones, the open incident."""

    position: int = 0
    tail: np.ndarray | None = None
    incident: FlagIncident | None = None


@dataclass(frozen=True)
class FlagWatch:
    """Incidents from flags as they come; `horizon` and `needed` as in :func:`roots_of_flags`."""

    horizon: int
    needed: int
    new_state = FlagState

    @staticmethod
    def pause(state):
        """Begin anew after rows of which nothing is known."""
        state.tail, state.incident = None, None

    def push(self, flags, state):
        """Verdicts on the incidents that are new or that changed with more flags, (n_samples, n_units, 2).

        The FlagState is changed in place.
        """
        known = flags if state.tail is None else np.concatenate([state.tail, flags])
        roots = roots_of_flags(known, self.horizon, self.needed)[len(known) - len(flags) :]
        state.tail = known[len(known) - min(self.horizon - 1, len(known)) :]
        begin, state.position = state.position, state.position + len(flags)
        changed = [] if state.incident is None else [state.incident]
        for k in np.flatnonzero(roots != -1).tolist():
            row, n_units = begin + k, flags.shape[1]
            if state.incident is None or row - state.incident.last > FLAG_GAP:
                state.incident = FlagIncident(row, row, np.zeros(n_units), np.full(n_units, -1))
                changed.append(state.incident)
            state.incident.vote(row, int(roots[k]))
        if state.incident is not None and state.position - 1 - state.incident.last > FLAG_GAP:
            state.incident = None
        return [incident.verdict(is_open=incident is state.incident) for incident in changed]


# Rows of evidence, and what revises the answer to an incident from them.
#
# Beside the statistics these are what units notice of their own columns, and single rows that only a sensor can have
# made.

CHANGED, HELD, ALL_HELD = 1, 2, 4  # bits of an event
HOLDING = ("sensor held", "unit held")  # kinds of faults that are there while their unit notices them
LOUD = 2.0  # alarm level over threshold while something is noticed


# -- rows ------------------------------------------------------------------------------------------------


class Evidence(NamedTuple):
    """Consecutive rows of an episode as incidents are judged by them.

    first : position of the first row
    scaled, predicted, states : scaled Kalman innovations, predicted states and states as measured, (n_rows, n)
    surprise : log surprise of each unit on its own over its nominal mean, (n_rows, n_units), like the rest
    given_others : log surprise given the other units' innovations of the same step
    surplus : surprise of the states given the other units, over its nominal mean
    outside : off-subspace numbers over their expectation from the states
    absent : whether the unit is absent
    levels : alarm levels by statistic, (n_rows, n_statistics, n_units)
    events : what the units notice of their own columns, see :mod:`.noticed`
    errors : of the prediction from the last row, beyond those of the operating point, (n_rows, n)
    distance : off-subspace numbers
    unknown : whether inputs are where the plant is not known, (n_rows,), 2 where it has to be learned
    beyond : how far inputs are beyond their ranges in the nominal record, (n_rows,)
    unsure : variance of what curves of the states are wrong by, over that of the news of each unit, (n_rows, n_units)
    rare : return periods of what lasts, (n_rows, n_kinds, n_units), see :mod:`.slow`; of no kind where none is learned
    """

    first: int
    scaled: np.ndarray
    predicted: np.ndarray
    states: np.ndarray
    surprise: np.ndarray
    given_others: np.ndarray
    surplus: np.ndarray
    outside: np.ndarray
    absent: np.ndarray
    levels: np.ndarray
    events: np.ndarray
    errors: np.ndarray
    distance: np.ndarray
    unknown: np.ndarray
    beyond: np.ndarray
    unsure: np.ndarray
    rare: np.ndarray

    @property
    def stop(self):
        """Position after the last row."""
        return self.first + len(self.scaled)

    def between(self, start, stop):
        """The rows of these positions."""
        rows = slice(start - self.first, stop - self.first)
        return Evidence(start, *(series[rows] for series in self[1:]))

    def followed_by(self, *later):
        """These rows and later ones together."""
        parts = [part[1:] for part in (self, *later)]
        return Evidence(self.first, *map(np.concatenate, zip(*parts, strict=True)))

    def over(self, surplus, outside):
        """The rows where surprises and off-subspace numbers, (n_units,), so many times the nominal ones are usual."""
        return self._replace(
            given_others=np.log1p(np.expm1(self.given_others) / surplus),
            surplus=self.surplus / surplus,
            outside=self.outside / outside,
        )

    def known(self, unit):
        """Share of the variance of a unit's news in these rows that is no error of curves beyond what was seen."""
        return float((1 / (1 + self.unsure[:, unit])).mean())

    def of_units(self, units, states, weight):
        """The rows of some units and their states alone, scaled by what errors of these weigh, (n, n)."""
        by_state, by_unit = ("errors", "predicted", "states", "scaled"), dict.fromkeys(_BY_UNIT, units)
        series = zip(self._fields[1:], self[1:], strict=True)
        places = by_unit | dict.fromkeys(by_state, states)
        part = {name: rows[..., places[name]] if name in places else rows for name, rows in series}
        return Evidence(self.first, **part | {"scaled": part["errors"] @ weight})


_BY_UNIT = (
    "surprise",
    "given_others",
    "surplus",
    "outside",
    "absent",
    "levels",
    "events",
    "distance",
    "unsure",
    "rare",
)


# -- what units notice -----------------------------------------------------------------------------------


def event_codes(messages, names, n_samples):
    """What every unit notices in every row as a sum of bits, shape (n_samples, n_units)."""
    codes = np.zeros((n_samples, len(names)), dtype=np.uint8)
    for m, name in enumerate(names):
        events = messages[name].events
        if events is not None:
            codes[:, m] = events @ np.array([CHANGED, HELD, ALL_HELD], dtype=np.uint8)
    return codes


def event_ages(codes, before):
    """For how many rows each unit has been noticing something, shape of `codes`; `before`: (n_units,)."""
    if not codes.any():
        return np.zeros(codes.shape, dtype=int)
    rows = np.arange(1, len(codes) + 1)[:, None]
    quiet = np.maximum.accumulate(np.where(codes > 0, 0, rows), axis=0)
    return np.where(codes > 0, rows - quiet + np.where(quiet == 0, before, 0), 0)


def revised(answer, rows, detected, prior):
    """The answer to an incident given what units notice, and the kind that follows.

    Those that notice something first are likely roots, the earlier the more.
    """
    there = rows.events > 0
    if not there.any():
        return answer, ""
    first = np.where(there.any(axis=0), there.argmax(axis=0), len(there))
    begins = int(first.min())
    weights = prior * np.exp(-TUNING.evidence_fades * np.minimum(first - begins, 50)) * (first < len(there))
    if not weights.any():
        return answer, ""
    codes = np.bitwise_or.reduce(rows.events[:, first == begins].ravel())
    late = rows.first + begins > detected + TUNING.evidence_soon and not codes & (HELD | ALL_HELD)
    sure = TUNING.evidence_late if late else TUNING.evidence_sure
    probability = (1 - sure) * answer.probability + sure * weights / weights.sum()
    start = min(answer.start, rows.first + begins) if late else min(rows.first + begins, detected)
    return replace(answer, probability=probability, start=start), "" if late else kind_of(int(codes))


def kind_of(code):
    """Kind of fault that an event tells of."""
    if code & ALL_HELD:
        return "unit held"
    return "sensor held" if code & HELD else "status"


# -- single rows that only a sensor can have made --------------------------------------------------------


def is_glitch(surprise, outside):
    """Whether what is unusual about a unit is one row of a wrong measurement.

    `surprise`, over the usual one of nominal rows, and `outside`, the same of what sensors show beside the states, are
    those of the rows from the onset on, (n_rows,). A disturbance of the process stays in the unit's states; a wrong
    value is gone in the next row, which is a second surprise, and the other sensors of its row contradict it.
    """
    above = np.maximum(surprise - 1.0, 0.0)
    top = int(above.argmax())
    event = above[top : top + 2].sum()
    rest = surprise.sum() - len(surprise) - event
    if surprise[top] < TUNING.evidence_loud or rest > max(
        TUNING.evidence_rest * event, TUNING.evidence_scatter * np.sqrt(len(surprise))
    ):
        return False
    back = above[top + 1] if top + 1 < len(above) else 0.0
    return bool(outside[top] > TUNING.evidence_apart or back > TUNING.evidence_loud)
