"""A plant whose rows come in batches: where the watch stands, and the verdicts that units are told."""

import numpy as np
import pandas as pd

from ..containers.rows import StreamTimes
from ..message.requests import WatchRequest
from ..message.states import StateMessage
from ..message.watching import FlagMessage, VerdictReply
from ..server.watching.detector import StreamState
from ..server.watching.flags import FlagState
from ..server.watching.incidents import incident_row, incident_table

_REMEMBERED = 300  # rows whose times are kept


class PlantStream:
    """The batches of a stream so far, and the incidents in them.

    Parameters
    ----------
    root_cause : RootCauseServer
        Judges states.
    flag_watch : FlagWatch, default=None
        Judges flags, which units send in place of states.
    """

    def __init__(self, root_cause, flag_watch=None):
        self._root_cause, self._flag_watch = root_cause, flag_watch
        self._state, self._first, self._n_rows = self._new_state(), 0, 0
        self._verdicts = {}
        self.n_batches = 0
        self.units = self.exchange = self.noised = None  # of a stream in this process
        self.last_time, self._times = None, StreamTimes(_REMEMBERED)

    @property
    def request(self):
        """What units are asked for the next batch."""
        return WatchRequest(self.n_batches + 1, flags=self._flag_watch is not None)

    @property
    def answer(self):
        """Type of message that they answer with."""
        return StateMessage if self._flag_watch is None else FlagMessage

    def push(self, answers):
        """Incidents that the next batch starts or changes, as (first row of their episode, verdict)."""
        changed = self._flags_judged(answers) if self._flag_watch else self._states_judged(answers)
        self._verdicts |= {start + verdict.detected: (start, verdict) for start, verdict in changed}
        self.n_batches += 1
        return changed

    def table(self, names):
        """All incidents as they are known now."""
        found = [self._verdicts[detected] for detected in sorted(self._verdicts)]
        return incident_table([incident_row(verdict, names, start) for start, verdict in found])

    def dated(self, changed, names, index):
        """Rows of the table of changed incidents, places as times if all rows so far had them."""
        if not isinstance(index, pd.DatetimeIndex):
            self._times = None
        if self._times is None:
            return [incident_row(verdict, names, first) for first, verdict in changed]
        self._times.extend(index)
        table = [incident_row(verdict, names, index=self._times) for _, verdict in changed]
        self._times.keep([row for _, v in changed if v.open for row in (v.start, v.detected)])
        return table

    def _states_judged(self, messages):
        changed, row = [], 0
        lengths = {name: message.lengths for name, message in messages.items()}
        if len(set(lengths.values())) > 1:
            sent = ", ".join(f"{name} sent {sum(rows)}" for name, rows in lengths.items())
            raise ValueError(
                f"Batch {self.n_batches + 1} has not the same rows at all units: {sent}. Cut their records "
                "at the same times."
            )
        for k, length in enumerate(next(iter(lengths.values()))):
            if k > 0:  # the first episode goes on where the last batch ended
                self._state, self._first = self._new_state(), self._n_rows
            part = {name: message.rows(row, row + length) for name, message in messages.items()}
            changed += [(self._first, verdict) for verdict in self._root_cause.push(part, self._state)]
            row, self._n_rows = row + length, self._n_rows + length
        return changed

    def _flags_judged(self, answers):
        flags = np.stack([answer.pairs for answer in answers.values()], axis=1).astype(np.uint8)
        return [(0, verdict) for verdict in self._flag_watch.push(flags, self._state)]

    def _new_state(self):
        return StreamState() if self._flag_watch is None else FlagState()


def verdict_reply(found):
    """Verdict on incidents given as (first row of their episode, verdict)."""
    rows = [(v.start + first, v.detected + first, v.last + first) for first, v in found]
    return VerdictReply(rows, [int(v.probability.argmax()) for _, v in found])


def flag_verdict(roots, n_units):
    """Verdict with an incident for every run of rows with the same root, an array of shape (n_samples,)."""
    begins = np.flatnonzero(np.diff(roots, prepend=-3))  # no root, so that the first row begins a run
    ends = np.append(begins[1:], len(roots)) - 1
    named = roots[begins] != -1
    root = np.where(roots[begins] < 0, n_units, roots[begins])
    return VerdictReply(np.column_stack([begins, begins, ends])[named], root[named])
