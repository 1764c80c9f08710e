"""A plant that ran at another operating point before its record began: what is nominal there is learned from its rows.

No fault of one unit is seen in others in the row in which it begins, and its effects need time to settle. A plant that
is out of the ordinary in several units in the first row, and stays where it was there, was so before, and there is no
onset that would tell of a root. Where its surprises are as the nominal record has them, the plant that was learned goes
on at the other level. Where they are not, plant and thresholds are learned again, from the first rows there that are in
no alarm.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import chi2
from sklearn.base import clone

from ...callers import warn
from ..joint import JointRecord
from .inputs import states_of, without_response
from .operating import FOLLOWED, LOOK, SETTLING, Drifting, Followed
from .tuning import TUNING

_LEAST = 3 * FOLLOWED  # rows without an alarm that a plant is learned from: nine memories of the slowest average


def began_elsewhere(server, rows):
    """Whether what is unusual in an episode from its beginning on was there before it, in several units; says so."""
    units = _away_at_first(server, rows.scaled[0])
    if units.sum() < 2 or not _is_there_at_once(server, rows):
        return False
    where = ", ".join(name for name, out in zip(server.names, units, strict=True) if out)
    warn(
        f"A record begins at an operating point that the nominal record does not have, in {where}. Monitoring starts "
        "from there: a fault that began before its first row counts as part of it. Fit with nominal rows of that "
        "operating point too (levels='episode'), or ask `attribute` about such a fault.",
    )
    return True


def _away_at_first(server, scaled):
    """Units whose states in the first row of an episode, told by its scaled innovation, are not nominal."""
    n = server.model.n_states
    spread = server.model.first[:n, :n] + server.model.noise
    x = spread @ scaled
    squares = [x[b] @ np.linalg.solve(spread[b, b], x[b]) for b in server.slices]
    return np.array(squares) > chi2.isf(TUNING.elsewhere_away, server.state_dims)


def _is_there_at_once(server, rows):
    """Whether the first rows are at the level of the last ones already, as those of a fault that spreads are not."""
    first, last = rows.errors[1:LOOK].mean(axis=0), rows.errors[-SETTLING:].mean(axis=0)  # nothing predicts row 0
    apart, moved = server.monitor.energy.own(np.array([first - last, last])).sum(axis=1)
    return bool(apart <= TUNING.elsewhere_apart**2 * moved)


def gather(server, new, messages, state):
    """Take note of rows at an operating point that the nominal record does not have, and learn from them once enough.

    `messages` are about the rows of evidence `new`. Those up to the last one in alarm are not learned from.
    """
    loud = np.flatnonzero((server.levels.relative(new.levels) > 1).any(axis=1))
    quiet = 0 if not len(loud) else int(loud[-1]) + 1
    before = [] if quiet else state.to_learn
    part = {name: message.rows(quiet, len(new.scaled)) for name, message in messages.items()}
    state.to_learn = [*before, part] if quiet < len(new.scaled) else before
    if state.position % FOLLOWED:
        return
    n_rows = sum(len(one[server.names[0]].z) for one in state.to_learn)
    if n_rows >= max(_LEAST, TUNING.elsewhere_per_state * int(server.state_dims.sum())):
        together = {name: _joined([part[name] for part in state.to_learn]) for name in server.names}
        state.to_learn = None
        surprise = _surprise_there(server, together, state)
        if (np.maximum(surprise, 1 / surprise) > TUNING.elsewhere_otherwise).any():
            _go_on_with(_learned(server, together, surprise), together, state)


def _joined(parts):
    """Messages about rows that follow each other as one."""
    sizes = [len(one.patterns) for one in parts]
    of_part = [np.zeros(len(one.z), dtype=int) if one.index is None else one.index for one in parts]
    index = np.concatenate([k + first for k, first in zip(of_part, np.cumsum([0, *sizes[:-1]]), strict=True)])
    patterns, place = np.unique(np.concatenate([one.patterns for one in parts]), axis=0, return_inverse=True)
    there = ["z"] if parts[0].off_subspace is None else ["z", "off_subspace"]
    series = {name: np.concatenate([getattr(one, name) for one in parts]) for name in there}
    which = None if len(patterns) == 1 else place.reshape(-1)[index]
    return replace(parts[0], patterns=patterns, index=which, lengths=(len(series["z"]),), events=None, **series)


def _surprise_there(server, messages, state):
    """Surprises of all units at another operating point over those in the nominal record, (n_units,)."""
    rows = server.evidence(messages, type(state)(point=server.nominal_point))
    errors = rows.errors[1:] - rows.errors[1:].mean(axis=0)
    return np.maximum(
        server.monitor.energy.own(errors).mean(axis=0) / server.state_dims, TUNING.elsewhere_least_surprise
    )


def _learned(server, messages, surprise):
    """A server that takes these rows for the nominal record, beyond their mean; None if they do not tell enough.

    Units are as sure of their states as these surprise.
    """
    x, there = states_of(JointRecord.from_messages(messages, names=server.names))
    statistic = "both" if len(server.statistics) > 1 else server.statistics[0]
    learned = type(server)(statistic, server.run_length, server.prior, np.random.RandomState(0), server.is_long)
    learned.elsewhere = Elsewhere(x[there].mean(axis=0), 1 / surprise)
    centred = learned.elsewhere.beyond(messages, server.names, server.slices)
    try:
        return learned.fit(clone(server.learner).fit(centred), centred)
    except ValueError as error:
        warn(f"Rows at another operating point do not show what is nominal there: {error}")
        return None


@dataclass(frozen=True)
class Elsewhere:
    """Origin of the states, (n,), and how many times as much information units have on theirs, (n_units,)."""

    origin: np.ndarray
    information: np.ndarray

    def beyond(self, messages, names, slices):
        """Messages as of a plant that has its nominal level there."""
        n_rows = len(messages[names[0]].z)
        found = without_response(messages, names, slices, np.broadcast_to(self.origin, (n_rows, len(self.origin))))
        more = zip(found.items(), self.information.tolist(), strict=True)
        return {name: replace(one, z=k * one.z, patterns=k * one.patterns) for (name, one), k in more}


def _go_on_with(server, messages, state):
    """Watch from here on by what was learned from the last rows; with None as before."""
    if server is None:
        return
    alone = type(state)(point=server.nominal_point, position=state.position - len(messages[server.names[0]].z))
    rows = server.evidence(messages, alone)
    state.own, state.monitor, state.averages, state.slow = server, alone.monitor, alone.averages, alone.slow
    state.bends = alone.bends
    state.point, state.known, state.incidents, state.last = server.nominal_point, [], [], None
    state.rows = rows.between(max(rows.first + 1, rows.stop - len(state.rows.scaled)), rows.stop)
    state.followed, state.drift, state.drifting = Followed(), 0.0, Drifting()
    state.standing = []  # of evidence by the server before
