"""A plant whose rows come in batches: where the watch stands, and the verdicts that units are told."""

from typing import Any

import numpy as np
import pandas as pd

from ..containers import episode_starts
from ..containers.rows import StreamTimes
from ..message.requests import WatchRequest
from ..message.states import StateMessage
from ..message.watching import FlagMessage, VerdictReply
from ..server.watching.flags import FlagWatch
from ..server.watching.incidents import fault_row, incident_row, incident_table, same_faults
from ..statespace.episodes import episodes

_REMEMBERED = 300  # rows whose times are kept


class PlantStream:
    """The rows of a plant so far and the incidents that a RootCauseServer or FlagWatch finds in them."""

    def __init__(self, watch, names):
        self._watch, self._names = watch, names
        self._flags = isinstance(watch, FlagWatch)
        self._state, self._first, self._n_rows = watch.new_state(), 0, 0
        self._verdicts = {}
        self.n_batches = 0
        self.units: Any = None  # of a stream in this process, as the next two
        self.exchange: Any = None
        self.noised = None
        self.last_time = None
        self._times: StreamTimes | None = StreamTimes(_REMEMBERED)

    def __reduce__(self):
        """A copy starts another stream: the last rows of this one stay with its units."""
        return PlantStream, (self._watch, self._names)

    @property
    def question(self):
        """What units are asked for the next batch, and the type of their answers."""
        answer = FlagMessage if self._flags else StateMessage
        return WatchRequest(self.n_batches + 1, flags=self._flags), answer

    def push(self, answers, lengths=None):
        """Incidents that the next rows start or change, as (first row of their episode, verdict).

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
                self._state, self._first = self._watch.new_state(), self._n_rows
            part = rows[i:j] if self._flags else {name: one.rows(i, j) for name, one in answers.items()}
            changed += [(self._first, verdict) for verdict in self._watch.push(part, self._state)]
            self._n_rows += j - i
        self._verdicts |= {start + verdict.detected: (start, verdict) for start, verdict in changed}
        self.n_batches += 1
        return changed

    def _same_lengths(self, messages):
        lengths = {name: message.lengths for name, message in messages.items()}
        if len(set(lengths.values())) > 1:
            sent = ", ".join(f"{name} sent {sum(rows)}" for name, rows in lengths.items())
            raise ValueError(
                f"Batch {self.n_batches + 1} has not the same rows at all units: {sent}. Cut records at the same times."
            )
        return next(iter(lengths.values()))

    def table(self):
        """All incidents as they are known now."""
        found = [self._verdicts[detected] for detected in sorted(self._verdicts)]
        return incident_table([incident_row(verdict, self._names, start) for start, verdict in found])

    def dated(self, changed, index=None):
        """Table of changed incidents, places as times if all rows so far had them."""
        if not isinstance(index, pd.DatetimeIndex):
            self._times = None
        if self._times is None:
            return incident_table([incident_row(verdict, self._names, first) for first, verdict in changed])
        self._times.extend(index)
        rows = [incident_row(verdict, self._names, index=self._times) for _, verdict in changed]
        self._times.keep([row for _, v in changed if v.open for row in (v.start, v.detected)])
        return incident_table(rows)


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


def fault_table(found, names, index=None):
    """Table of incidents given as (first row of their episode, verdict), with one row for each fault."""
    rows = []
    for first in sorted({first for first, _ in found}):
        here = sorted((v for start, v in found if start == first), key=lambda v: v.detected)
        rows += [fault_row(fault, names, first, index) for fault in same_faults(here)]
    return incident_table(rows)
