"""Which clocks of a plant are off, judged from the ties of all pairs of units.

Where ties to single units are too weak to tell, the evidence summed over all other units shows a clock that
is off: it moves all ties of its unit by the same number of steps.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.stats import gamma

from ..callers import warn
from ..message.clock import Clock
from .clocks import NEAR, UnitSeries, pair_tie, score_by_lag, unit_series
from .rows_apart import REACH, RowsApart, is_off, near_offsets, settled
from .tuning import TUNING

_MOST_ROWS = 30_000  # of long records: clocks tell themselves apart within hours


class Offset(NamedTuple):
    """Steps by which a unit's clock is ahead of that of `against`; not `sure` where the other may be off."""

    rows: int
    against: str
    sure: bool = True


def most_rows(n_lags):
    """Number of the last rows by which clocks are told apart."""
    return max(_MOST_ROWS, 8 * n_lags)


def clock_offsets(values, n_lags):
    """Clock offset of every unit from its values (n_samples, d), None for units of which nothing tells it.

    Offsets of pairs of units are taken where the whole plant does not contradict them, those of single units by a few
    rows where they put right what is shared in the same row; then the same for means over several rows.
    """
    offsets = dict.fromkeys(values)
    values = {name: Y[-most_rows(n_lags) :] for name, Y in values.items()}
    series = {name: unit_series(Y) for name, Y in values.items()}
    open_units = _put_right(offsets, series, set(values), n_lags, 1)
    if open_units:
        late = {name: -offset.rows if offset else 0 for name, offset in offsets.items()}
        series = {name: unit_series(_later(Y, late[name]), TUNING.offsets_coarse) for name, Y in values.items()}
        _put_right(offsets, series, open_units, n_lags // TUNING.offsets_coarse, TUNING.offsets_coarse)
    return offsets


def _put_right(offsets, series, movable, n_lags, rows):
    """Complete offsets by what series of means over so many rows say; the units of which nothing is known yet."""
    series = {name: own for name, own in series.items() if own is not None}
    if len(series) < 2 or not n_lags:
        return movable
    n_lags = min(n_lags, min(len(own.innovations) for own in series.values()) // 4)
    far = pooled_offsets(series, unit_offsets(series, n_lags), n_lags)
    far = {name: offset for name, offset in far.items() if offset is not None and name in movable}
    white = {name: own.innovations for name, own in series.items()}
    white, found = _confirmed(white, {name: offset for name, offset in far.items() if offset.rows})
    if len(white) > 2:
        least = 1 if rows == 1 else NEAR  # means over rows are next to each other after a few of them
        late = near_offsets(white, movable - set(found), min(REACH, n_lags), least)
        found |= {name: Offset(*offset) for name, offset in late.items()}
    for name, offset in found.items():
        offsets[name] = Offset(offset.rows * rows, offset.against, offset.sure)
    known = settled(RowsApart(white)) if len(white) > 1 else set()
    for name in movable - set(found):
        if name in known or (name in far and not far[name].rows):
            offsets[name] = Offset(0, "")
    return movable - set(found) - known


def _confirmed(white, far):
    """Innovations moved by offsets that the plant does not contradict, and these offsets."""
    found: dict[str, Offset] = {}
    for group in _alike(far):
        if far[group[0]].against in found and not far[group[0]].sure:  # one of two was moved
            found |= {name: far[name] for name in group}
            continue
        moved = white | {name: _later(white[name], -far[name].rows) for name in group}
        if len(group) < len(white) and is_off(RowsApart(white), RowsApart(moved), group):
            white = moved
            found |= {name: far[name] for name in group}
    return white, found


def _alike(far):
    """Units in groups of about the same offset."""
    groups: list[list[str]] = []
    for name in sorted(far, key=lambda name: far[name].rows):
        if groups and far[name].rows - far[groups[-1][0]].rows <= 2 * NEAR and far[name].sure:
            groups[-1].append(name)
        else:
            groups.append([name])
    return groups


# -- from pairs of units ---------------------------------------------------------------------------


def unit_offsets(series, n_lags):
    """Clock offset of every unit against the largest group that agrees; None for units that nothing ties."""
    names = [name for name, own in series.items() if own is not None]
    pairs = ((pair, pair_tie(series[pair[0]], series[pair[1]], n_lags)) for pair in combinations(names, 2))
    ties = {pair: tie for pair, tie in pairs if tie is not None}
    tree = _strongest_tree(names, ties)
    offsets = dict.fromkeys(series)
    for root in names:
        if offsets[root] is None and tree[root]:
            offsets |= _agreement(root, tree, ties)
    return offsets


def _strongest_tree(names, ties):
    """Neighbours of each unit with offset and slack, along the strongest ties without circles."""
    group = {name: name for name in names}
    tree: dict[str, list[tuple[str, int, int]]] = {name: [] for name in names}
    sharp_first = sorted(ties.items(), key=lambda item: (item[1].slack > 2 * NEAR, -item[1].strength))
    for (first, second), tie in sharp_first:
        if group[first] == group[second]:
            continue
        old, new = group[second], group[first]
        group = {name: new if own == old else own for name, own in group.items()}
        tree[first].append((second, -tie.offset, tie.slack))
        tree[second].append((first, tie.offset, tie.slack))
    return tree


def _agreement(root, tree, ties):
    """Offsets of all units tied to one, such that as many as possible are zero."""
    relative = {name: offset for name, (offset, _) in _seen_from(root, tree).items()}
    groups = [
        [other for other, (offset, slack) in _seen_from(name, tree).items() if abs(offset) <= slack]
        for name in relative
    ]
    right = max(groups, key=len)  # the first of equals
    level = int(np.median([relative[name] for name in right]))
    offsets = {}
    for name, value in relative.items():
        # a coupling adds a step to one side or the other: ties to several units average that out
        direct = {other: offset for other, offset in _clear_ties(name, ties) if other in right}
        against = next(iter(direct), right[0])
        shift = round(np.mean(list(direct.values()))) if direct else value - level
        offsets[name] = Offset(0 if name in right or abs(shift) <= NEAR else int(shift), against)
    if len(offsets) == 2 and len(right) == 1:  # nothing tells whose clock is off
        (one,) = right
        (other,) = set(offsets) - {one}
        offsets[other] = offsets[other]._replace(sure=False)
        offsets[one] = Offset(-offsets[other].rows, other, sure=False)
    return offsets


def _clear_ties(name, ties):
    """Units that a unit is clearly ahead of or behind, with its offset against them."""
    for (first, second), tie in ties.items():
        if name in (first, second) and abs(tie.offset) > tie.slack:
            yield (second, tie.offset) if name == first else (first, -tie.offset)


def _seen_from(root, tree):
    """Offset of every unit tied to one against it, and how much of that may be error."""
    seen, queue = {root: (0, 0.0)}, [root]
    for unit in queue:
        for other, offset, slack in tree[unit]:
            if other not in seen:
                seen[other] = seen[unit][0] + offset, float(np.hypot(seen[unit][1], slack))
                queue.append(other)
    return seen


# -- from all other units together ------------------------------------------------------------------


def pooled_offsets(series, known, n_lags):
    """Known offsets, completed where they are None by those against all units together."""
    offsets = dict(known)
    there = {name: own for name, own in series.items() if own is not None and own.states is not None}
    evidence = PairEvidence(there, n_lags)
    for name in there:
        evidence.move(name, -offsets[name].rows if offsets[name] else 0)
    while left := [name for name in there if offsets[name] is None]:
        found = ((name, _pooled_tie(evidence.of(name), n_lags, TUNING.offsets_level / len(series))) for name in left)
        ties = {name: tie for name, tie in found if tie is not None}
        if not ties:
            break
        name = max(ties, key=lambda name: ties[name].excess)
        tie = ties[name]
        back = ties.get(tie.against)
        mutual = tie.lag and back is not None and back.lag and back.excess >= TUNING.offsets_mutual * tie.excess
        offsets[name] = Offset(tie.lag, tie.against, sure=not mutual)
        if mutual:
            offsets[tie.against] = Offset(-tie.lag, name, sure=False)
        evidence.move(name, -tie.lag)
    return offsets


class PairEvidence:
    """Evidence of ties between pairs of units at every lag, kept until one of the two is moved."""

    def __init__(self, series, n_lags):
        self._series, self._n_lags = dict(series), n_lags
        self._known: dict[tuple[str, str], np.ndarray] = {}

    def move(self, name, rows):
        """Take a unit's series some rows later."""
        if rows:
            self._series[name] = UnitSeries(*(_later(x, rows) for x in self._series[name]))
            self._known = {pair: S for pair, S in self._known.items() if name not in pair}

    def of(self, name):
        """Evidence that ties a unit to each other, shape (2 n_lags + 1,); at positive lags `name` follows."""
        others, own = [other for other in self._series if other != name], self._series[name]
        for other in others:
            if (name, other) not in self._known:
                back = score_by_lag(self._series[other], own, self._n_lags)[::-1]
                self._known[name, other] = score_by_lag(own, self._series[other], self._n_lags) + back
                self._known[other, name] = self._known[name, other][::-1]
        return {other: self._known[name, other] for other in others}


def _later(x, rows):
    """A series some rows later, zero where there is nothing."""
    moved = np.roll(x, rows, axis=0)
    if rows:
        moved[slice(rows) if rows > 0 else slice(rows, None)] = 0.0
    return moved


class _PooledTie(NamedTuple):
    """At which lag a unit is tied to all others together, how clearly, and to which of them most."""

    lag: int
    excess: float
    against: str


def _pooled_tie(pairs, n_lags, level):
    """Tie of one unit to all others, whose clocks agree; None where nothing clear ties it at this level."""
    if not pairs:
        return None
    S = sum(pairs.values())
    lags = np.arange(-n_lags, n_lags + 1)
    shape, scale = _usual_gamma(S)
    least = gamma.isf(level / len(S), shape, scale=scale)
    near, excess = np.abs(lags) <= NEAR, S - shape * scale
    top = int(np.argmax(S))

    def tie(lag, position):
        return _PooledTie(lag, float(excess[position]), max(pairs, key=lambda other: pairs[other][position]))

    closest = int(np.argmax(np.where(near, S, 0.0)))
    clear_near = S[closest] > gamma.isf(level / near.sum(), shape, scale=scale)
    if clear_near and excess[closest] >= TUNING.offsets_keeps * excess[top]:
        return tie(0, closest)
    if S[top] <= least or abs(lags[top]) == n_lags:  # the peak may lie beyond
        return None
    elsewhere = S[np.abs(lags - lags[top]) > TUNING.offsets_width].max()
    return None if elsewhere > max(least, 0.5 * S[top]) else tie(int(lags[top]), top)


def _usual_gamma(S):
    """Shape and scale of the gamma distribution that has the quartiles of a sum of dependent terms."""
    low, middle, high = np.quantile(S, [0.25, 0.5, 0.75])
    shapes = np.geomspace(0.5, 500, 200)
    quartiles = gamma.ppf([[0.25], [0.5], [0.75]], shapes)
    spread = (quartiles[2] - quartiles[0]) / quartiles[1]  # falls with the shape
    shape = float(np.interp((low - high) / middle, -spread, shapes))
    return shape, middle / float(gamma.median(shape))


# -- times that units tell -------------------------------------------------------------------------


def warn_of_clocks(messages):
    """Warn where what the states say about the units' clocks contradicts the times that were told."""
    told = {name: Clock.of_message(message) for name, message in messages.items()}
    if len(messages) < 2 or any(clock is None for clock in told.values()):
        return
    scores = {name: _scores(message) for name, message in messages.items()}
    n_lags = min(TUNING.offsets_most_lags, min(len(message.z) for message in messages.values()) // 4)
    for name, offset in clock_offsets(scores, n_lags).items():
        if offset is not None and offset.rows:
            seconds = offset.rows * told[name].period
            warn(
                f"The clock of unit {name!r} seems to be about {seconds:+g} s off relative to that of "
                f"{offset.against!r}, by when their states move: it reports its times as {told[name].in_words()}. "
                "Unless there is a dead time of that length between the two, links of this unit are lost: correct its "
                "clock or its zone.",
            )


def _scores(message):
    """Least-squares estimates of a unit's states, NaN where a row does not determine them."""
    J, z = message.J, message.z
    if J.ndim == 2:
        return np.linalg.solve(J, z.T).T if np.linalg.cond(J) < TUNING.offsets_regular else np.full_like(z, np.nan)
    scores, regular = np.full_like(z, np.nan), np.linalg.cond(J) < TUNING.offsets_regular
    scores[regular] = np.linalg.solve(J[regular], z[regular][..., None])[..., 0]
    return scores
