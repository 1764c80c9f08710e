"""A watch from row to row: incidents that begin and end, and operating points that change under it."""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from .incidents import HORIZON, LOOKBACK, SWITCH, Evidence, Incident, Verdict, follow
from .inputs import FORESEEN, LEARNED
from .monitor import MonitorState
from .operating import (
    CLIPPED,
    FOLLOWED,
    LARGE,
    LOOK,
    MOST_KNOWN,
    SETTLING,
    Drifting,
    Followed,
    OperatingPoint,
    began_elsewhere,
    gather,
)
from .slow import SLOW, USUAL, strongest
from .thresholds import ABSENT, GAP
from .tuning import TUNING

KEPT = LOOKBACK + HORIZON + GAP + 2  # rows that are kept to judge incidents by
_PAUSE = 2 * HORIZON  # rows after an incident within which an alarm may be of the same fault
_EVIDENCE = "monitor", "averages", "position", "inputs", "bends", "noticing", "slow"  # what forming evidence moves
_TOGETHER = 20  # pieces of as few rows that are put to the rows before at once where nothing happens in them


@dataclass
class StreamState:
    """Everything a stream needs to go on: constant size whatever has passed."""

    monitor: MonitorState = field(default_factory=MonitorState)
    averages: list | None = None
    position: int = 0
    rows: Evidence | None = None  # the last rows, but for those in `later`
    later: list = field(default_factory=list)  # what came since without anything to be looked at
    incidents: list = field(default_factory=list)  # those that may still change
    point: OperatingPoint | None = None
    known: list = field(default_factory=list)  # other operating points the plant was at
    followed: Followed = field(default_factory=Followed)
    slow: Any = None  # SlowState of a plant that is watched for what lasts
    standing: list = field(default_factory=list)  # Standing of what lasts after its alarm
    last: Incident | None = None  # the one that began last
    inputs: Any = None  # InputState of a plant with inputs
    bends: Any = None  # BentState of a plant whose states act along curves
    learning: range | None = None  # rows without alarms, from which an operating point is learned
    noticing: np.ndarray | int = 0  # for how many rows each unit has been noticing something
    drift: np.ndarray | float = 0.0  # of the level, followed since it was last told
    drifting: Drifting = field(default_factory=Drifting)  # what is followed so far, for what lasts
    to_learn: list | None = None  # messages about rows at another operating point, to learn from
    own: Any = None  # the server that learned from them, which goes on

    def gathered(self):
        """The last rows in one piece; None before the first."""
        if self.later:
            first, *others = self.later if self.rows is None else (self.rows, *self.later)
            rows = first.followed_by(*others) if others else first
            self.rows, self.later = rows.between(max(rows.stop - KEPT, rows.first), rows.stop), []
        return self.rows

    def forget_rows(self):
        """Start afresh with the rows that come."""
        self.rows, self.later = None, []


def taken(server, messages, state):
    """Evidence of the next rows of an episode, piece by piece, and the incidents that each piece touches.

    Pieces end where the level is looked at, which may change the operating point: what follows is seen from there.
    """
    n_rows, done = len(next(iter(messages.values())).z), 0
    while done < n_rows:
        point, drifting = state.point, state.drifting
        stop = min(n_rows, done + FOLLOWED - state.position % FOLLOWED)
        whole = stop - done == n_rows
        part = messages if whole else {name: one.rows(done, stop) for name, one in messages.items()}
        rows, incidents = take(state.own or server, part, state)
        if state.slow is not None and (state.point is not point or state.drifting is not drifting):
            level, now = _level(point, drifting), _level(state.point, state.drifting)
            state.slow = (state.own or server).slow.beside(state.slow, now.states - level.states, now.off / level.off)
        done += len(rows.scaled)
        yield rows, incidents


def _level(point, drifting):
    """What what lasts is told beside: the operating point and what was followed beyond it, as :class:`Drifting`."""
    return Drifting(point.states + drifting.states, point.whole * drifting.off)


def take(server, messages, state):
    """Evidence of the next rows, up to the first at which the operating point changes, and incidents they touch."""
    before = {name: getattr(state, name) for name in _EVIDENCE}
    new = server.evidence(messages, state)
    turn = _followed(server, new, state)
    if turn.row < new.stop:
        for name, value in before.items():
            setattr(state, name, value)
        messages = {name: message.rows(0, turn.row - new.first) for name, message in messages.items()}
        new = server.evidence(messages, state)
    touched, learns = list(state.incidents), state.to_learn is not None
    if (
        not (touched or learns or state.standing)
        and turn.point is None
        and max(len(new.scaled), len(state.later)) < _TOGETHER
    ):
        state.later.append(new)
        return new, touched
    before_them = state.gathered()
    rows = new if before_them is None else before_them.followed_by(new)
    for incident in touched:
        if incident.verdict is None:
            if any(one is state.last for one in touched):  # as it was known when this one began, however rows come
                server.judge(rows.between(rows.first, incident.detected + 1), [state.last], new.first)
            _compare_with_last(server, incident, rows, state)
    for incident in touched:  # in their order: where one ends the next may begin
        server.judge(rows, [incident], new.first)
    closed = [i for i in touched if not i.open and i.end is None and i.detected + HORIZON < rows.stop]
    touched += _standing(rows, new, closed, state)
    state.incidents = [i for i in state.incidents if i.open or i.detected + HORIZON >= rows.stop]
    _forget_before(i for i in touched if not i.open and i.detected + HORIZON < rows.stop)
    state.rows = rows.between(max(rows.stop - KEPT, rows.first), rows.stop)
    if turn.drifts:
        touched += _after_drift(server, turn.point, state)
    elif turn.learned:
        touched += [i for i in state.incidents if i.open]
        _end_open(state)
        _move(_with_inputs(turn.point, state), state)
        state.learning = None
    elif turn.point is not None:
        touched += _turn(server, turn.point, rows, state)
    if learns:
        gather(server, new, messages, state)
    return new, touched


class Standing(NamedTuple):
    """An incident of what lasts that stands when its alarm is over: by one kind of evidence at one unit."""

    incident: Incident
    kind: int
    unit: int

    def usual_rows(self, rows):
        """Whether its evidence was as usual in each row and in those of a pause before it."""
        rare = rows.rare[:, self.kind, self.unit]
        usual = (rare < USUAL) & (rare > ABSENT)
        return np.convolve(usual, np.ones(GAP), mode="full")[: len(usual)] >= GAP


def _standing(rows, new, closed, state):
    """Incidents that stand from now on, those of some that are `closed` and no longer judged, or that end."""
    changed, standing, began = [], [], []
    for incident in closed:
        if incident.verdict.statistic == SLOW and incident.detected >= rows.first:
            unit = int(incident.verdict.probability.argmax())
            one = Standing(incident, strongest(rows.rare[incident.detected - rows.first, :, unit]), unit)
            judged = max(incident.detected + HORIZON, incident.last + GAP) + 1  # as far as any stream has come by now
            if not one.usual_rows(rows)[incident.detected - rows.first : judged - rows.first].any():
                incident.verdict = replace(incident.verdict, settled=True)
                began.append((one, judged))
    for one, first in [*((one, new.first) for one in state.standing), *began]:
        ends = np.flatnonzero(one.usual_rows(rows)[first - rows.first :])
        if not len(ends):
            standing.append(one)
            continue
        incident, end = one.incident, first + int(ends[0])
        end = max(end - GAP + 1, incident.verdict.last) if incident.after is None else incident.verdict.end
        incident.verdict = replace(incident.verdict, settled=False, end=end)
        changed.append(incident)
    state.standing = standing
    return changed


class Turn(NamedTuple):
    """Row from which on rows are at another operating point, and that point; None where it stays the same."""

    row: int
    point: OperatingPoint | None = None
    drifts: bool = False
    learned: bool = False


# -- the operating point ---------------------------------------------------------------------------------


def _followed(server, new, state):
    """Follow incidents and the level by new rows to the first row at which the operating point changes."""
    above = np.ascontiguousarray(server.levels.relative(new.levels).T).max(axis=0)
    starts = None  # an alarm that is open goes on at the usual threshold
    if new.beyond.any():
        starts = server.levels.relative(new.levels, new.beyond).max(axis=1) > 1
    if new.unknown.any() and state.learning is None:
        row = new.first + int(new.unknown.argmax())
        state.learning = range(row, row + LEARNED - (row + LEARNED) % -LOOK)
    learning = state.learning or range(0)
    above[max(learning.start - new.first, 0) : max(learning.stop - new.first, 0)] = 0.0
    quiet = above <= 1
    row, turn = new.first, Turn(new.stop)
    while row < new.stop:
        unjudged = learning.start <= row < learning.stop
        stop = min(new.stop, row + FOLLOWED - row % FOLLOWED)
        if row < learning.start:
            stop = min(stop, learning.start)
        here = slice(row - new.first, stop - new.first)
        if row < learning.stop or not quiet[here].all() or any(i.open for i in state.incidents):
            stop = min(stop, row + LOOK - row % LOOK)
            here = slice(row - new.first, stop - new.first)
            follow(state.incidents, above[here], row, None if starts is None else starts[here])
            for incident in (one.incident for one in state.standing if one.incident.after is None):
                incident.after = next((i.detected for i in state.incidents if i.detected > incident.detected), None)
            if stop % LOOK == 0 and state.incidents and state.incidents[-1].open:
                turn = Turn(stop, _point_after(server, state.incidents[-1], _recent(new, state, stop), state))
        is_learned = learning and stop % LOOK == 0 and stop >= min(learning.stop, learning.start + FORESEEN)
        if turn.point is None and is_learned:
            turn = Turn(stop, _learned(server, learning, _recent(new, state, stop), state.point), learned=True)
        if turn.point is not None:
            return turn
        if unjudged:
            state.followed = Followed()
        else:
            part = new if (row, stop) == (new.first, new.stop) else new.between(row, stop)
            state.followed.add(part, quiet[here])
        if stop % FOLLOWED == 0:
            point = _drifted(server, state)
            if point is not None:
                return Turn(stop, point, drifts=True)
        row = stop
    return Turn(new.stop)


def _recent(new, state, stop):
    """The last rows before a position."""
    part = new.between(new.first, stop)
    before = state.gathered()
    rows = part if before is None else before.followed_by(part)
    return rows.between(max(rows.first, stop - HORIZON), stop)


def _learned(server, learning, rows, point):
    """The operating point after a move of the inputs to where the plant is unknown, None if it is not found yet.

    It is the present one where the rows are those that the response to the inputs lets expect.
    """
    since = rows.between(max(rows.first, learning.start), rows.stop)
    foreseen = since.unknown.max() < 2 and server.levels.relative(since.levels[-LOOK:]).max() <= 1
    if foreseen and server.level.is_at(since.errors.mean(axis=0), len(since.errors)):
        return point
    return settled(server, rows, point) if rows.stop >= learning.stop else None


def _with_inputs(point, state):
    """The operating point, known at the present inputs now; it goes on at others where these changed nothing."""
    if point is not state.point:
        return replace(point, inputs=(state.inputs,))
    first, *later = point.inputs
    return replace(point, inputs=(first, *later[1 - TUNING.stream_most_inputs :], state.inputs))


def _point_after(server, incident, rows, state):
    """The operating point that an open incident has led to by the end of some rows, None if it is the present one."""
    begin = max(rows.first, incident.detected)
    for n_rows in (LOOK, 2 * LOOK):  # a small move back takes more rows to tell
        since = rows.between(max(begin, rows.stop - n_rows), rows.stop)
        known = server.level.known_again(since.errors, state.point, state.known)
        if known is not None:
            return known
    if rows.stop <= incident.detected + HORIZON:
        return None
    late = rows.stop > incident.detected + 2 * HORIZON
    if not late and not server.level.stays(rows.errors, rows.surplus, server.state_dims):
        return None
    return settled(server, rows, state.point)


def settled(server, rows, point, n_rows=SETTLING):
    """The operating point of the last rows, which were judged by the present one."""
    rows = rows.between(max(rows.first, rows.stop - n_rows), rows.stop)
    errors, scaled = rows.errors.mean(axis=0), rows.scaled.mean(axis=0)
    moved = rows.errors - errors
    seen = {
        "own": server.monitor.energy.own(moved).mean(axis=0) / server.state_dims,
        "given": server.monitor.energy.given_others(moved).mean(axis=0) / server.usual_inside,
        "outside": point.outside * rows.outside.mean(axis=0),
        "whole": point.whole * rows.distance.mean(axis=0) / server.usual_distance,
    }
    factors = {name: np.maximum(1.0, value) for name, value in seen.items()}
    factors["predicted"] = point.predicted + rows.predicted.mean(axis=0)
    known = {"n_rows": len(rows.errors), "followed_rows": np.inf}
    return point.moved(errors, scaled, rows.states.mean(axis=0), **factors, **known, campaign=False)


def _end_open(state):
    for incident in state.incidents:
        incident.open, incident.verdict = False, replace(incident.verdict, open=False)


def pause(state):
    """Begin anew after rows of which nothing is known, at the same operating point."""
    _end_open(state)
    state.forget_rows()
    _forget_before(state.incidents)
    state.monitor, state.bends, state.averages = MonitorState(), None, None
    state.incidents, state.followed = [], Followed()
    state.slow = None
    state.to_learn = None if state.to_learn is None else []


def acknowledge(server, state, detected):
    """Take note that incidents with these first alarms were seen; verdicts on those that are over by that."""
    closed = []
    if any(i.open and i.detected in detected for i in state.incidents):
        closed = rebaseline(server, state, np.ones(len(server.slices), dtype=bool))
    state.point = replace(state.point, lasting=state.point.lasting - detected)
    return closed


def rebaseline(server, state, units):
    """Take the level of the last rows of some units, a mask, for their operating point; verdicts that are over."""
    rows = state.gathered()
    n_rows = 0 if rows is None else len(rows.scaled)
    if n_rows < LOOK:
        raise ValueError(f"Only {n_rows} rows came since the operating point changed; wait for {LOOK}.")
    row, open_ones = rows.stop - 1, [i for i in state.incidents if i.open]
    _move(settled(server, rows, state.point).only(units, server.slices, state.point), state)
    state.slow = None  # what lasts is told from the level that was taken
    return [replace(i.verdict, last=row, open=False, end=row) for i in open_ones]


def _turn(server, point, rows, state):
    """Go on at another operating point; the incident that led there is over."""
    incident, back = state.incidents[-1], point in state.known
    elsewhere = not back and _began_elsewhere(server, rows, incident, state)
    incident.open, incident.last = False, rows.stop - 1
    lasting = point.lasting if back else state.point.lasting | (frozenset() if elsewhere else {incident.detected})
    ends, before = state.point.lasting - lasting, state.incidents
    ends |= {one.incident.detected for one in state.standing if one.incident.lasting & ends}  # what stood there only
    state.standing = [one for one in state.standing if one.incident.detected not in ends]
    _move(replace(point, lasting=lasting), state)
    incident.end = incident.detected if back else rows.stop - 1  # known again: the change is all there was
    now = {"last": incident.last, "open": False, "end": incident.end, "settled": not (back or elsewhere), "ends": ends}
    incident.verdict = replace(incident.verdict, **now)
    if back or elsewhere:
        state.last = None  # nothing goes on where the plant is back at what it was
    if point is server.nominal_point:
        state.to_learn = None
    return _of_switch(before) if elsewhere or (back and point.campaign) else [incident]


def _began_elsewhere(server, rows, incident, state):
    """Whether an incident led to the operating point that the plant was at before the episode began."""
    if rows.first > 0 or incident.detected >= LOOK or server.learner is None:
        return False
    was_there = began_elsewhere(server, rows)
    if was_there and not server.campaigns:
        state.to_learn = []
    return was_there


def _of_switch(incidents):
    """The alarms in a row up to the last one, which were no incidents but a switch to another campaign."""
    alarms = [incidents[-1]]
    for incident in reversed(incidents[:-1]):
        if alarms[-1].detected - incident.last > GAP:
            break
        alarms.append(incident)
    for incident in alarms:
        incident.verdict = replace(incident.verdict, kind=SWITCH, resumes=None, lasting=frozenset())
    return alarms


def _move(point, state):
    """Go on at another operating point."""
    state.known = [p for p in state.known if p.errors is not point.errors] + [state.point]
    forgettable = [k for k, p in enumerate(state.known) if k and not p.campaign]  # the first one is nominal
    if len(forgettable) >= MOST_KNOWN:
        del state.known[forgettable[0]]
    state.forget_rows()
    _forget_before(state.incidents)
    state.slow = None  # its means are of rows at the other level
    state.point, state.averages, state.incidents = point, None, []
    state.followed, state.drift, state.drifting = Followed(), 0.0, Drifting()


def _drifted(server, state):
    """The operating point after a block of rows whose level has moved, or by which it is better known; else None."""
    followed, point = state.followed, state.point
    if followed.count < FOLLOWED // 2:
        state.followed = Followed()
        return None
    *means, distance, outside = followed.means()
    if server.slow is not None and not state.standing:
        off = np.where(distance > 0, distance / server.usual_distance, 1.0)
        state.drifting = server.level.drifting(means, off, followed.n_rows, server.state_dims, server.outside_dims)
    if point.is_new:
        better = point.better_known(*means)
        left = (1 - FOLLOWED / better.n_rows) * state.drifting.states
        state.drifting = state.drifting._replace(states=left)
        return better
    if not server.level.drifted(means[0], followed.n_rows, server.state_dims):
        state.followed = followed.next()
        return None
    whole = distance / server.usual_distance
    if state.standing:  # what lasts is a fault that was told, and no drift
        means = *means[:2], np.zeros_like(means[2])
    return point.followed(means, whole, outside, followed.n_rows, server.level.moves)


def _after_drift(server, point, state):
    """Go on at the level that was followed; the incident by which a drift is told."""
    known = state.point.is_new and np.ndim(state.drift) == 0  # a settled level that is better known has not moved
    moved = 0.0 if known else point.errors - state.point.errors
    state.drifting = state.drifting if state.point.is_new else Drifting()
    state.point, state.followed, state.drift = point, Followed(), state.drift + moved
    if np.ndim(state.drift) == 0:
        return []
    size = server.level.size(state.drift)
    if size.max() < 1:
        return []
    state.drift = np.zeros_like(state.drift)
    return [_drift_incident(server, size, state.rows, state)]


def _drift_incident(server, size, rows, state):
    """What is told of a drift: the unit that moved most, where it was found."""
    row = rows.stop - 1
    odds = np.exp(TUNING.stream_sharp * (size - size.max()))
    probability = server.tempered(odds / odds.sum(), rows.absent)
    first_rows = np.where(size > 0.5, row, -1)
    resumes = None if state.last is None or row - state.last.last > TUNING.stream_remembered else size > 0
    verdict = Verdict(row, row, row, False, "shift", probability, first_rows, "drift")
    verdict = replace(verdict, resumes=resumes, lasting=state.point.lasting)
    return Incident(row, row, 0.0, open=False, verdict=verdict)


# -- incidents that go on --------------------------------------------------------------------------------


def _compare_with_last(server, incident, rows, state):
    """Take note of what lasts when an incident begins, and of units whose fault before may go on."""
    incident.lasting = state.point.lasting
    last, state.last = state.last, incident
    if last is None or last.detected in state.point.lasting:
        return
    incident.before = last
    begin = max(last.verdict.stop + TUNING.stream_after, rows.first)
    if incident.detected - last.verdict.last > _PAUSE or begin + TUNING.stream_after + 2 > incident.detected:
        return  # no row for each half
    pause = rows.between(begin, incident.detected - TUNING.stream_after)
    middle = (pause.first + pause.stop) // 2
    halves = [pause.between(pause.first, middle), pause.between(middle, pause.stop)]
    incident.resumes = np.logical_and(*(_goes_on(server, half, last) for half in halves))


def _forget_before(incidents):
    """Let go of what was before incidents that are judged no more, so that a stream holds no chain of all of them."""
    for incident in incidents:
        incident.before = None


def _goes_on(server, rows, last):
    """Units whose fault goes on in some rows without an alarm: that have its level, or surprise nearly as much.

    Its alarm is its loudest part, so that the scale looked for is half as far from the nominal one.
    """
    if last.level is None:
        return np.zeros(len(server.slices), dtype=bool)
    if server.level.ahead(rows.errors, last.level, CLIPPED) > 0:
        return np.ones(len(server.slices), dtype=bool)
    scale = np.sqrt(np.maximum(last.excess, 1.0))
    return np.minimum(rows.surplus, LARGE).mean(axis=0) * (1 - 1 / scale) > np.log(scale)  # likelier than nominal
