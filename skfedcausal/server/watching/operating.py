"""Operating points: where a plant runs after a change that stays, before its record began, or within it."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.stats import chi2, f
from sklearn.base import clone

from ...arguments import warn
from ...statespace.episodes import episodes
from ...statespace.segments import LevelRegression
from ..joint import JointRecord
from .inputs import states_of, without_response
from .posterior import log_scale_factor
from .thresholds import no_chance
from .tuning import TUNING

# Operating points: where a plant runs after a change that stays, and how it is found out.
#
# An incident that settles is a new operating point: what the innovations there are beyond the nominal ones is taken
# off from then on, so that the next fault is seen (Willsky & Jones 1976, A generalized likelihood ratio approach to
# the detection and estimation of jumps in linear systems, IEEE Transactions on Automatic Control 21). Slow drift is
# followed in the same way before it is an alarm, and a plant that goes back where it was is known again.

LOOK = 20  # rows between two looks at an open incident
SETTLING = 60  # last rows of an incident from which its operating point is learned
FOLLOWED = 120  # rows of which the mean is compared with that of the operating point
MOST_KNOWN = 4  # operating points that are remembered
LARGE = 6.0  # surplus of a single row that counts for whether a fault goes on
CLIPPED = 2.0  # the same of its log likelihood
_GAIN = 0.5  # of a block's mean in the mean that is followed
_MEANS = "errors", "scaled", "predicted", "states"
_FAR = 6.0  # times the median of blocks, beyond which the mean of one is that of an alarm: four deviations


@dataclass(frozen=True, eq=False)
class OperatingPoint:
    """What the plant shows beyond the nominal operating point.

    errors, scaled, predicted, states : means of the errors of prediction, the scaled innovations, the predicted states
        and the states as measured, (n,)
    own, given, outside, whole : factors, at least one, of the surprises on its own and given the others, of what
        states do not explain of the off-subspace numbers, and of these themselves, (n_units,)
    lasting : first alarms of the incidents that last there
    n_rows : from which it is known
    followed_rows : from which the level is known where it is followed as it moves, whatever `n_rows` says of it
    inputs : InputStates at which it is the one, None for the nominal mean of the inputs
    campaign : whether it is one of several nominal ones, between which to switch is no incident
    """

    errors: np.ndarray
    scaled: np.ndarray
    predicted: np.ndarray
    states: np.ndarray
    own: np.ndarray
    given: np.ndarray
    outside: np.ndarray
    whole: np.ndarray
    lasting: frozenset = frozenset()
    n_rows: float = np.inf
    followed_rows: float = np.inf
    inputs: tuple = (None,)
    campaign: bool = False

    @classmethod
    def nominal(cls, n_states, n_units):
        """The operating point of the nominal record."""
        zeros, ones = np.zeros(n_states), np.ones(n_units)
        return cls(zeros, zeros, zeros, zeros, ones, ones, ones, ones)

    def moved(self, errors, scaled, states=0.0, **changes):
        """The operating point with other means, by what they moved."""
        means = {"errors": self.errors + errors, "scaled": self.scaled + scaled, "states": self.states + states}
        return replace(self, **means, **changes)

    @property
    def spread(self):
        """Standard deviation of a slow average of rows there over that at a point known exactly."""
        return (1 + TUNING.operating_averaged / self.n_rows) ** 0.5

    @property
    def level_rows(self):
        """Rows from which its level is known, infinite for that of the nominal record."""
        return min(self.n_rows, self.followed_rows)

    @property
    def is_new(self):
        """Whether more rows would make it much better known."""
        return self.n_rows < TUNING.operating_enough

    def better_known(self, *means):
        """The operating point with the means of a block of further rows beyond it taken in."""
        share = FOLLOWED / (self.n_rows + FOLLOWED)
        return self.moved(*(share * mean for mean in means), n_rows=self.n_rows + FOLLOWED)

    def followed(self, means, whole, outside, n_rows, moves):
        """The operating point after a drift, from what was followed beyond it, which is worth so many rows.

        Where the level `moves` by itself it is not better known by later rows, and nominal states move as far.
        """
        errors, scaled, states = means
        factors = {"whole": np.maximum(1.0, self.whole * whole), "outside": np.maximum(1.0, self.outside * outside)}
        known = (np.inf, n_rows) if moves else (n_rows, np.inf)
        states = 0.0 if moves else states
        return self.moved(errors, scaled, states, **factors, n_rows=known[0], followed_rows=known[1])

    def only(self, units, slices, other):
        """This operating point in some units (bool), another one in the rest."""
        states = np.repeat(units, [b.stop - b.start for b in slices])
        parts = {name: (getattr(self, name), getattr(other, name)) for name in ("own", "given", "outside", "whole")}
        factors = {name: np.where(units, mine, theirs) for name, (mine, theirs) in parts.items()}
        means = {name: np.where(states, getattr(self, name), getattr(other, name)) for name in _MEANS}
        return replace(self, **factors, **means)


class Level:
    """Whether rows have the level of an operating point, by the covariance of nominal errors and its blocks.

    `slow` is by how much squares of nominal means over many rows exceed those of independent errors, found in
    `n_blocks` blocks, `dims` are the states of each unit.
    """

    def __init__(self, energy, slow, n_rows, n_blocks, dims):
        self._energy, self._slow = energy, slow
        by_chance = dims / FOLLOWED * f.isf(TUNING.operating_chance, dims, max(n_blocks - 1, 1))
        self._told = np.sqrt(np.maximum(TUNING.operating_told**2, by_chance))
        alone = (
            chi2.isf(TUNING.operating_chance / max(n_blocks, 1), dims.sum()) / dims.sum()
        )  # the largest of blocks that do not move
        self._moves = slow > max(TUNING.operating_moves, alone)
        self._precision = self._precision_of(energy)
        self._known = 1 / n_rows  # variance of the nominal level

    @staticmethod
    def _precision_of(energy):
        return np.linalg.inv(energy.covariance)

    @classmethod
    def learned(cls, energy, errors, slices):
        """From errors of nominal rows that were held out, (n_rows, n) by segment."""
        dims = np.array([b.stop - b.start for b in slices])
        size = min(FOLLOWED, max(map(len, errors)))
        means = [part[k : k + size].mean(axis=0) for part in errors for k in range(0, len(part) - size + 1, size)]
        slow = max(1.0, float((size * energy.own(np.array(means)) / dims).mean(axis=1).max()))
        return cls(energy, slow, sum(map(len, errors)), len(means), dims)

    @property
    def moves(self):
        """Whether the level of the nominal record itself moves."""
        return self._moves

    def drifted(self, mean, n_rows, dims):
        """Whether a followed mean, worth so many rows, is beyond what chance makes of it."""
        return self.moves or bool((self._squares(mean, n_rows) > chi2.isf(TUNING.operating_drifted, dims)).any())

    def drifting(self, means, off, n_rows, dims, outside_dims):
        """:class:`Drifting` by followed means, worth so many rows, and off-subspace numbers over usual ones.

        Of these what is no chance, by James and Stein's shrinkage. Nothing where the level moves by itself: that is
        what nominal means over long windows are like.
        """
        if self.moves:
            return Drifting()
        errors, _, states = means
        share = no_chance(self._squares(errors, n_rows), dims)
        return Drifting(
            share.repeat(dims) * states, 1 + no_chance(n_rows * outside_dims / 2 * (off - 1) ** 2) * (off - 1)
        )

    def _squares(self, mean, n_rows):
        """Squared length of each unit's followed mean, (n_units,), nominally chi-square."""
        return self._energy.own(mean[None])[0] / (1 / n_rows + self._known)

    def size(self, moved):
        """How far the level of each unit has moved in all, over what is told, (n_units,)."""
        return np.sqrt(self._energy.own(moved[None])[0] / self._slow) / self._told

    def is_at(self, mean, n_rows):
        """Whether the mean of some rows is that of an operating point of mean zero."""
        return float(n_rows * mean @ self._precision @ mean) <= self._slow * chi2.isf(TUNING.operating_alike, len(mean))

    def ahead(self, rows, level, most=np.inf):
        """Log likelihood of rows at a level, (n,), over that at zero; no row counts for more than `most`."""
        ratios = rows @ self._precision @ level - level @ self._precision @ level / 2
        return float(np.clip(ratios, -most, most).sum())

    def stays(self, errors, surplus, dims):
        """Whether the last rows of an incident are as those before them, not as nominal ones."""
        rows = errors[-SETTLING:]
        moved = not self.is_at(rows.mean(axis=0), len(rows))
        if moved and self.ahead(rows[-LOOK:], rows[:-LOOK].mean(axis=0), CLIPPED) > TUNING.operating_stays:
            return True
        excess = np.minimum(surplus[-LOOK:], LARGE).mean(axis=0)
        return bool(log_scale_factor(excess, dims, LOOK).max() > 2 * TUNING.operating_stays)

    def known_again(self, errors, present, known):
        """The operating point among those known that the last rows are of, None if of none or the present one."""
        if len(errors) < TUNING.operating_least_rows or not known:
            return None
        mean = errors.mean(axis=0)
        found: list[tuple] = []
        for point in known:
            away = point.errors - present.errors
            if self.is_at(mean - away, len(errors)) and self.ahead(errors, away) > TUNING.operating_nats:
                found.append((self.ahead(errors, away), len(found), point))
        return max(found, key=lambda one: one[:2])[-1] if found else None


class Drifting(NamedTuple):
    """How far states (n,) are beyond the operating point, and off-subspace numbers over those there, (n_units,)."""

    states: np.ndarray | float = 0.0
    off: np.ndarray | float = 1.0


@dataclass
class Followed:
    """Sums over the rows since the last look for drift, and the means of the looks before it.

    Of errors, scaled innovations, states, off-subspace numbers and these over what states let expect.
    """

    count: int = 0
    sums: tuple = (0.0,) * 5
    before: tuple | None = None
    worth: float = np.inf  # rows that the means before are worth

    def add(self, rows, quiet):
        """Take note of rows of evidence that are not in alarm."""
        n_quiet = int(quiet.sum())
        if n_quiet == 0:
            return
        self.count += n_quiet
        series = rows.errors, rows.scaled, rows.states, rows.distance, rows.outside
        sums = [values[0] if len(values) == 1 else quiet @ values for values in series]
        self.sums = tuple([total + more for total, more in zip(self.sums, sums, strict=True)])

    def means(self):
        """Means that are followed, after a whole block."""
        means = tuple(total / self.count for total in self.sums)
        if self.before is not None:
            means = tuple((1 - _GAIN) * old + _GAIN * new for old, new in zip(self.before, means, strict=True))
        return means

    @property
    def n_rows(self):
        """Rows that the means are worth."""
        if self.before is None:
            return self.count
        return 1 / ((1 - _GAIN) ** 2 / self.worth + _GAIN**2 / self.count)

    def next(self):
        """What is followed from here on, where the operating point stays."""
        return Followed(before=self.means(), worth=self.n_rows)


def beyond_followed(series):
    """A series, (n_rows, n), beyond the mean of the block before, which is followed where the level moves by itself.

    Blocks far from all others are left out, as those with alarms are: a start-up is not followed.
    """
    means = [series[k : k + FOLLOWED].mean(axis=0) for k in range(0, len(series) - FOLLOWED + 1, FOLLOWED)]
    levels = np.array([np.zeros(series.shape[1]), *means])
    levels[(np.abs(levels) > _FAR * np.median(np.abs(levels[1:]), axis=0)).any(axis=1)] = 0.0
    return series - levels.repeat(FOLLOWED, axis=0)[: len(series)]


def fault_end(errors, surplus, outside, dims, outside_dims):
    """Last row of a fault that begins with the first of some rows: where it is likeliest to have gone on until.

    From the whitened errors of the unit given the others, (n_rows, p), its surplus and its off-subspace numbers over
    their expectation, (n_rows,). The fault moved the mean of the errors, or the scale of one of the others.
    """
    n_rows = np.arange(1, len(errors) + 1)
    sums = errors.cumsum(axis=0)
    gains = [(sums**2).sum(axis=1) / (2 * n_rows) - errors.shape[1] / 2 * np.log(n_rows + 1.0)]
    for series, size in ((surplus, dims - outside_dims), (outside, outside_dims)):
        if size > 0:
            gains.append(log_scale_factor(series.cumsum() / n_rows, size, n_rows))
    end = int(np.max(gains, axis=0).argmax())
    goes_back = end > 0 and errors[end] @ sums[end - 1] < 0  # as the row after a bias of sensors does
    return end - 1 if goes_back else end


# A plant that ran at another operating point before its record began: what is nominal there is learned from its rows.
#
# No fault of one unit is seen in others in the row in which it begins, and its effects need time to settle. A plant
# that is out of the ordinary in several units in the first row, and stays where it was there, was so before, and there
# is no onset that would tell of a root. Where its surprises are as the nominal record has them, the plant that was
# learned goes on at the other level. Where they are not, plant and thresholds are learned again, from the first rows
# there that are in no alarm.

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


# Levels that a nominal record visits and nobody told of: modes, recipes, set-points that are no inputs.
#
# A plant that is switched between modes is driven by a step. What a finder of changes finds in all states together are
# the switches, and levels between them that may be the same are one.


class Stretch(NamedTuple):
    """Rows from `start` to before `stop` at one of the levels, numbered as they come."""

    start: int
    stop: int
    level: int


def visited(x, starts):
    """Stretches at the levels of states (n_samples, n), without the rows in which they settle; none if it is one."""
    record = LevelRegression.of(x, starts)
    changes = [] if record is None else record.changes(sudden=True)
    if not 0 < len(changes) <= TUNING.visited_most_switches:
        return []
    begins, ends = [0, *(c.stop - 1 for c in changes)], [*(c.start for c in changes), len(x)]
    levels = record.levels(changes)
    found = []
    for a, b, level in zip(begins, ends, levels, strict=True):
        for start, stop in episodes(sorted({a, *(s for s in starts if a < s < b)}), b):
            first = start + (min(TUNING.visited_settling, (stop - start) // 4) if start == a and a > 0 else 0)
            if stop - first >= TUNING.visited_least:
                found.append(Stretch(first, stop, level))
    sizes = np.bincount(levels, np.subtract(ends, begins))
    is_switched = 1 < len(sizes) <= TUNING.visited_most_levels and sizes.min() >= TUNING.visited_visited
    return found if is_switched and not _is_at_an_end(levels, sizes / len(x)) else []


def _is_at_an_end(levels, shares):
    """Whether all levels but one are a start-up, or something that only begins: short, once, where a record ends."""
    ends = {end for end in (levels[0], levels[-1]) if levels.count(end) == 1 and shares[end] < TUNING.visited_at_an_end}
    return len(shares) - len(ends) <= 1
