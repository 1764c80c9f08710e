"""A plant whose rows come in batches: where the watch stands, and the verdicts that units are told."""

from typing import Any

import numpy as np
import pandas as pd

from ..containers import episode_starts
from ..containers.rows import StreamTimes, comes_after
from ..message.states import StateMessage
from ..message.watching import FlagMessage, VerdictReply, WatchRequest
from ..server.watching.flags import FlagWatch
from ..server.watching.incidents import (
    LASTS,
    NO_FAULT,
    SWITCH,
    KnownFaults,
    fault_row,
    incident_table,
    label_rows,
    same_faults,
)
from ..statespace.episodes import episodes
from .tuning import TUNING


class PlantStream:
    """The rows of a plant so far and the incidents that a RootCauseServer or FlagWatch finds in them."""

    def __init__(self, watch, names):
        self._watch, self._names = watch, names
        self._flags = isinstance(watch, FlagWatch)
        self.state, self._first, self.n_rows = watch.new_state(), 0, 0
        self._known: dict[int, KnownFaults] = {}  # by the first row of their episode
        self._recent: dict[int, tuple] = {}  # verdicts that may have to do with the last rows, by first alarm
        self._told: dict[int, dict] = {}
        self._seen: frozenset = frozenset()  # first alarms in this episode that an operator acknowledged
        self._labels, self._n_labelled = np.zeros(0, dtype=object), 0  # told of the last rows, and up to where
        self._starts: dict[int, int] = {}  # of the incidents changed last, as they were told
        self.n_batches, self._usual = 0, None
        self.units: Any = None  # of a stream in this process, as the next two
        self.exchange: Any = None
        self.noised = None
        self.last_time: Any = None
        self.last_inputs: tuple | None = None  # of each unit in the last row, held where later ones are missing
        self.beyond: frozenset = frozenset()  # names of inputs that were beyond their ranges in the last row
        self._times: StreamTimes | None = StreamTimes(TUNING.streams_remembered)

    def __reduce__(self):
        """A copy starts another stream: the last rows of this one stay with its units."""
        return PlantStream, (self._watch, self._names)

    def __getstate__(self):
        """All that a model file holds of it: the exchange with the units is made anew."""
        return vars(self) | {"exchange": None}

    def usual_row(self, batch):
        """A row that came in the container of those before it, as PlantData; None of what has to be looked at."""
        plant = None if self._usual is None else self._usual.read(batch)
        is_next = plant is not None and (self.last_time is None or comes_after(plant.index, self.last_time))
        return plant if is_next else None

    def learn_columns(self, batch, layout):
        """Take note of what a batch that was read looked like."""
        if layout.names == tuple(self._names):
            from ..containers.usual import UsualRows  # of streams

            self._usual = UsualRows(layout) if self._usual is None else self._usual
            self._usual.learn(batch)

    @property
    def question(self):
        """What units are asked for the next batch, and the type of their answers."""
        answer = FlagMessage if self._flags else StateMessage
        return WatchRequest(self.n_batches + 1, flags=self._flags), answer

    def push(self, answers, lengths=None):
        """Incidents that the next rows start or may change, as (first row of their episode, verdict).

        `lengths` are those of the episodes in the rows, None for flags of one episode. The first of them goes
        on where the last rows ended.
        """
        if self._flags:
            rows = flag_array(answers, self._names)
            lengths = (len(rows),) if lengths is None else lengths
        else:
            lengths = self._same_lengths(answers)
        changed = []
        for k, (i, j) in enumerate(episodes(episode_starts(lengths), sum(lengths))):
            if k:
                self.state, self._first, self._seen = self._watch.new_state(), self.n_rows, frozenset()
            if self._flags:
                part = rows[i:j]
            else:
                part = answers if len(lengths) == 1 else {name: one.rows(i, j) for name, one in answers.items()}
            changed += [(self._first, verdict) for verdict in self._watch.push(part, self.state)]
            self.n_rows += j - i
        self._note(changed)
        self.n_batches += 1
        return changed

    def _note(self, changed):
        """Take note of incidents that are new or have changed, as (first row of their episode, verdict)."""
        for first in {first for first, _ in changed}:
            self._known.setdefault(first, KnownFaults()).take([v for start, v in changed if start == first])
        if changed:
            recent = self._recent | {start + verdict.detected: (start, verdict) for start, verdict in changed}
            begin = self.n_rows - TUNING.streams_remembered
            self._recent = {row: one for row, one in sorted(recent.items()) if _reaches(one, begin)}

    def _same_lengths(self, messages):
        lengths = {name: message.lengths for name, message in messages.items()}
        if len(set(lengths.values())) > 1:
            sent = ", ".join(f"{name} sent {sum(rows)}" for name, rows in lengths.items())
            raise ValueError(
                f"Batch {self.n_batches + 1} has not the same rows at all units: {sent}. Cut records at the same times."
            )
        return next(iter(lengths.values()))

    @property
    def found(self):
        """All incidents as they are known now, as (first row of their episode, verdict) in the order of alarms."""
        return [(first, verdict) for first in sorted(self._known) for verdict in self._known[first].verdicts.values()]

    def table(self):
        """All incidents as they are known now."""
        return fault_table(self.found, self._names, seen=self._seen)

    def pause(self):
        """Begin anew after rows of which nothing is known, at the same operating point."""
        self._watch.pause(self.state)

    def acknowledge(self, detected):
        """Take note that an incident, told as detected at a row or time, was seen."""
        if self._flags:
            raise ValueError("Incidents from flags have no operating point that could be acknowledged.")
        for first, fault in self._faults(self.found):
            row = fault_row(fault, self._names, first, self._times) if self._times else None
            if detected in (first + fault[0].detected, row and row["detected"]):
                self._seen |= {one.detected for one in fault}
                now = self._watch.acknowledge(self.state, self._seen)
                self._changed_by_hand(now)
                return
        raise ValueError(f"There is no incident that was detected at {detected} in this stream.")

    def rebaseline(self, units):
        """Take the level of the last rows of some units, a mask, for their operating point."""
        if self._flags:
            raise ValueError("Flags have no operating point; fit with evidence='innovations'.")
        now = self._watch.rebaseline(self.state, units)
        self._changed_by_hand(now)

    def _changed_by_hand(self, verdicts):
        changed = [(self._first, verdict) for verdict in verdicts]
        self._note(changed)
        self._hold_times(changed)

    @property
    def alarms(self):
        """Rows so far, alarms in them, and the share of the rows in alarm."""
        spans = [(start + v.detected, start + v.stop) for start, v in self.found if v.kind not in NO_FAULT]
        rows = sum(max(stop - begin, 1) for begin, stop in spans)
        share = rows / self.n_rows if self.n_rows else 0.0
        return {"n_steps": self.n_rows, "n_alarms": len(spans), "in_alarm": min(share, 1.0)}

    def take_times(self, index):
        """Take note of the times of the next rows, if they have any."""
        if not isinstance(index, pd.DatetimeIndex):
            self._times = None
        elif self._times is not None:
            self._times.extend(index)

    def _hold_times(self, changed):
        if self._times is not None:
            self._times.hold({first + row for first, v in changed for row in (v.start, v.detected, v.stop - 1)})

    def dated(self, changed):
        """Table of the faults among changed incidents that are new or revised, places as times if all rows had them.

        Revised is one of another root, kind, end, status or number of repeats, or of a probability that is another by
        more than 0.01.
        """
        rows = []
        if changed:
            self._hold_times(changed)
        for first, fault in self._faults(changed):
            over = self._known[first].over | self._seen
            row = fault_row(fault, self._names, first, over=over)
            if row["kind"] == SWITCH and row["detected"] not in self._told:
                continue  # it has been no incident for those who are told
            if _is_news(row, self._told.get(row["detected"])):
                self._told[row["detected"]] = row
                rows.append(row if self._times is None else fault_row(fault, self._names, first, self._times, over))
        return incident_table(rows, None if self._times is None else self._times.dtype)

    def _faults(self, changed):
        """Faults that hold some of the changed verdicts, or were told to, as (first row of the episode, verdicts)."""
        for first in sorted({first for first, _ in changed}):
            rows = {first + row for at, v in changed if at == first for row in (v.detected, *v.ends)}
            lost = {row for row, told in self._told.items() if rows & {place for place, _ in told["repeats"]}}
            of = {row - first for row in rows | lost} & self._known[first].verdicts.keys()
            yield from ((first, fault) for fault in self._known[first].of(of))

    def labels(self, changed):
        """The slice of rows whose roots are new or revised with the last batch, and the roots, an array of str.

        Rows before the last thousand are as they were told.
        """
        told, self._n_labelled = self._n_labelled, self.n_rows
        starts = {first + verdict.detected: first + verdict.start for first, verdict in changed}
        begin = min([told, *starts.values(), *(self._starts[row] for row in starts if row in self._starts)])
        begin, self._starts = max(begin, told - len(self._labels)), starts
        roots = self.roots(begin)
        before = self._labels[len(self._labels) - (told - begin) :]
        same = np.append(before == roots[: told - begin], False).argmin()
        labels = np.concatenate([self._labels[: len(self._labels) - (told - begin)], roots])
        self._labels = labels[-TUNING.streams_remembered :]
        return slice(int(begin + same), self.n_rows), roots[same:].astype(str)

    def roots(self, begin=0):
        """Root at every step from a row on, names, "" or "undecided"."""
        roots = np.full(self.n_rows - begin, "", dtype=object)
        here = self._recent.values() if begin >= self.n_rows - TUNING.streams_remembered else self.found
        recent = [one for one in here if _reaches(one, begin)]
        for first in sorted({start for start, _ in recent}):
            label_rows(roots, [v for start, v in recent if start == first], self._names, begin - first)
        return roots


def _reaches(one, row):
    """Whether an incident, (first row of its episode, verdict), may be told in rows after one."""
    return one[0] + one[1].stop + LASTS > row


def _is_news(row, told):
    """Whether a row of the table says something else than was told of it."""
    if told is None:
        return True
    same = ("root", "kind", "repeats", "end", "status")
    differs = any(repr(row[name]) != repr(told[name]) for name in same)  # repr: NaN are alike
    return differs or abs(row["probability"] - told["probability"]) > TUNING.streams_revised


def flag_array(answers, names):
    """Flags in the answers of these units, integers of shape (n_samples, n_units, 2)."""
    return np.stack([answers[name].pairs for name in names], axis=1).astype(np.uint8)


def verdict_reply(found):
    """Verdict on incidents given as (first row of their episode, verdict)."""
    rows = [(v.start + first, v.detected + first, v.last + first) for first, v in found]
    roots = [v.probability.argmax() for _, v in found]
    return VerdictReply(np.array(rows, dtype=int).reshape(-1, 3), np.array(roots, dtype=int))


def flag_verdict(roots, n_units):
    """Verdict with an incident for every run of rows with the same root, an array of shape (n_samples,)."""
    begins = np.flatnonzero(np.diff(roots, prepend=-3))  # no root, so that the first row begins a run
    ends = np.append(begins[1:], len(roots)) - 1
    named = roots[begins] != -1
    root = np.where(roots[begins] < 0, n_units, roots[begins])
    return VerdictReply(np.column_stack([begins, begins, ends])[named], root[named])


def fault_table(found, names, index=None, seen=frozenset()):
    """Table of incidents given as (first row of their episode, verdict), with one row for each fault.

    Of what lasts the operator has `seen` those with these first alarms.
    """
    rows = []
    for first in sorted({first for first, _ in found}):
        here = sorted((v for start, v in found if start == first and v.kind != SWITCH), key=lambda v: v.detected)
        over = seen.union(*(verdict.ends for verdict in here))
        rows += [fault_row(fault, names, first, index, over) for fault in same_faults(here)]
    return incident_table(rows)
