"""Incidents from the paper's flags: runs of steps with a root, and who it was in most of them."""

from dataclasses import dataclass

import numpy as np

from .flags import roots_of_flags
from .root_cause import HORIZON, Verdict

GAP = 10  # steps without a root after which an incident is over


@dataclass
class FlagIncident:
    """An incident that is followed: its first and last step, and how often each unit was the root."""

    detected: int
    last: int
    votes: np.ndarray
    first_rows: np.ndarray
    n_votes: int = 0
    open: bool = True

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

    def verdict(self):
        """What is known: a unit's probability is its share of the steps from the first to the horizon."""
        share = self.votes / self.n_votes
        place = self.detected, self.detected, self.last, self.open
        return Verdict(*place, "flags", share, self.first_rows.copy(), "undecided")


@dataclass
class FlagState:
    """Where a stream of flags stands."""

    position: int = 0
    tail: np.ndarray | None = None
    incident: FlagIncident | None = None


@dataclass(frozen=True)
class FlagWatch:
    """Incidents from flags as they come.

    Attributes
    ----------
    horizon, needed : int
        Of :func:`~skfedcausal.server.watching.flags.roots_of_flags`.
    """

    horizon: int
    needed: int

    def push(self, flags, state):
        """Follow more steps.

        Parameters
        ----------
        flags : ndarray of int of shape (n_samples, n_units, 2)
        state : FlagState
            Changed in place.

        Returns
        -------
        list of Verdict
            Incidents that are new or that changed.
        """
        known = flags if state.tail is None else np.concatenate([state.tail, flags])
        roots = roots_of_flags(known, self.horizon, self.needed)[len(known) - len(flags) :]
        state.tail = known[len(known) - min(self.horizon - 1, len(known)) :]
        begin, state.position = state.position, state.position + len(flags)
        changed = [] if state.incident is None else [state.incident]
        for k in np.flatnonzero(roots != -1):
            row, incident = begin + int(k), state.incident
            if incident is None or row - incident.last > GAP:
                if incident is not None:
                    incident.open = False
                n_units = flags.shape[1]
                incident = FlagIncident(row, row, np.zeros(n_units), np.full(n_units, -1))
                state.incident = incident
                changed.append(incident)
            incident.vote(row, int(roots[k]))
        if state.incident is not None and state.position - 1 - state.incident.last > GAP:
            state.incident.open, state.incident = False, None
        return [incident.verdict() for incident in changed]
