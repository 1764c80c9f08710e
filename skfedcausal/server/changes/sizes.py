"""How large a change is, of which sort, and since when."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from .hypotheses import BLOCK, NEW, shifted
from .tuning import TUNING


@dataclass(frozen=True)
class Change:
    """What is said of one row of the table; the date is a row of the record."""

    verdict: str
    gain_before: float
    gain_after: float
    delay_before: float = np.nan
    delay_after: float = np.nan
    since: float = np.nan
    kernel: np.ndarray | None = field(default=None, repr=False)  # of a link, (n_lags, p, p_cause), since then
    directions: tuple = field(default=(), repr=False)  # kernels along which it is free

    def refitted(self, plant, unit, cause):
        """The change with its size from innovations that know of it, at the same date; what its level explains."""
        late, directions = slice(int(self.since) * unit.tests.n_states, None), np.array(self.directions)
        Z = regressors(plant, unit, cause, directions)
        step = np.linalg.lstsq(Z[late], unit.white[late], rcond=None)[0]
        explained = np.zeros(len(Z))
        explained[late] = Z[late, len(directions) :] @ step[len(directions) :]
        kernel = self.kernel + np.tensordot(step[: len(directions)], directions, 1)
        return named(plant, unit.unit, cause, replace(self, kernel=kernel)), explained


class Fit(NamedTuple):
    """Least squares of innovations on regressors from a row on: coefficients, log-likelihood gained, date."""

    coefficients: np.ndarray
    gain: float
    since: int
    explained: np.ndarray  # (n_rows,)


def dated_fit(Z, white, since, p):
    """Size and date of a change in turn, from a first guess of the date; regressors Z (n_rows, c)."""
    n_rows, last = len(white), None
    for _ in range(TUNING.sizes_passes):
        late = slice(since * p, None)
        coefficients = np.linalg.lstsq(Z[late], white[late], rcond=None)[0]
        expected = Z @ coefficients
        # log-likelihood ratio of every row, and its sum from every row on
        gained = (expected * white - 0.5 * expected**2).reshape(-1, p).sum(axis=1)
        tail = np.cumsum(gained[::-1])[::-1]
        latest = max(n_rows // p - TUNING.sizes_fewest_rows, 1)
        last, since = since, int(np.argmax(tail[:latest]))
        if since == last:
            break
    late = slice(since * p, None)
    coefficients = np.linalg.lstsq(Z[late], white[late], rcond=None)[0]
    explained = np.zeros(n_rows)
    explained[late] = Z[late] @ coefficients
    return Fit(coefficients, float(explained @ white - 0.5 * explained @ explained), since, explained)


def link_change(plant, unit, cause, hypothesis, row):
    """The :class:`Change` of a link: scaled, moved, otherwise another, or new."""
    effect, n_lags = unit.unit, unit.responses.n_lags
    kernel = shifted(plant.kernel(effect, cause), 0, n_lags)
    if hypothesis.kind in (NEW, BLOCK):
        lag = hypothesis.shift if hypothesis.kind == NEW else plant.first_lag(effect, cause)
        directions = _block_at(lag, kernel.shape)
        found = _fitted(plant, unit, cause, directions, row)
    else:
        directions, found = (kernel,), _fitted(plant, unit, cause, (kernel,), row)
        shifts = plant.shifts(effect, cause)
        price = 0.5 * np.log(max(len(unit.white) / unit.tests.n_states, 2.0)) + np.log(max(len(shifts), 1))
        for moved, moved_along in _moved(plant, unit, cause, kernel, row, shifts):
            if moved.gain - found.gain > price and abs(moved.coefficients[1]) > abs(1 + moved.coefficients[0]):
                found, directions = moved, moved_along
    kernel = kernel + np.tensordot(found.coefficients[: len(directions)], np.array(directions), 1)
    change = Change("new", 0.0, 0.0, since=float(found.since), kernel=kernel, directions=directions)
    return named(plant, effect, cause, change)


def _block_at(lag, shape):
    """Directions of the elements of a block at a lag."""
    elements = np.zeros((shape[1] * shape[2], *shape))
    elements[:, lag - 1] = np.eye(shape[1] * shape[2]).reshape(-1, *shape[1:])
    return tuple(elements)


def regressors(plant, unit, cause, directions):
    """Regressors of changes of a link along some directions, and of a level: its operating point moves with it."""
    cols = plant.partition.slices[cause]
    return np.column_stack([*(unit.responses.kernel(x, cols) for x in directions), unit.responses.level])


def _fitted(plant, unit, cause, directions, row):
    return dated_fit(regressors(plant, unit, cause, directions), unit.white, row, unit.tests.n_states)


def _moved(plant, unit, cause, kernel, row, shifts):
    """The likeliest of some moves of a link together with its own scale, and their directions: one, or none."""
    ways = [(kernel, shifted(kernel, shift, len(kernel))) for shift in shifts]
    moves = [(_fitted(plant, unit, cause, directions, row), directions) for directions in ways]
    return sorted(moves, key=lambda move: -move[0].gain)[:1]


def named(plant, effect, cause, change):
    """The change of a link with gains, delays and the verdict that its coefficients give."""
    before, kernel = plant.kernel(effect, cause), change.kernel
    gain_after = plant.strength(effect, cause, kernel)
    lag_after = float(1 + np.argmax([plant.strength(effect, cause, block) for block in kernel]))
    if not before.any():
        return replace(change, verdict="new", gain_after=gain_after, delay_after=lag_after)
    gain_before, lag_before = plant.strength(effect, cause, before), float(plant.first_lag(effect, cause))
    share, moved = gain_after / gain_before, lag_after != lag_before and len(change.directions) == 2
    if moved and share >= TUNING.sizes_lost:  # what is left at the old lag is not its gain
        gain_after, verdict = plant.strength(effect, cause, kernel[int(lag_after) - 1]), "delayed"
    else:
        verdict = "lost" if share < TUNING.sizes_lost else "weaker" if share < 1 else "stronger"
    delays = {"delay_before": lag_before, "delay_after": np.nan if verdict == "lost" else lag_after}
    return replace(change, verdict=verdict, gain_before=gain_before, gain_after=gain_after, **delays)


def change_of_unit(unit, Z, row):
    """A unit that moves otherwise than was learned, by itself, against 1 in the record it was learned from.

    Returns the :class:`Change` and what it explains of the innovations; regressors `Z` are None of a variance.
    """
    p, ranks = unit.tests.n_states, unit.tests.innovations.ranks
    white, since = unit.white, row
    squares, explained = np.square(white).reshape(-1, p).sum(axis=1), np.zeros(len(white))
    if Z is None:
        since = _variance_since(squares, ranks, row)
    else:
        found = dated_fit(Z, white, row, p)
        explained, since = found.explained, found.since
    after = float(np.sqrt(squares[since:].sum() / max(ranks[since:].sum(), 1)))
    if Z is None and after > 0:  # the rest is judged by what it is now
        late = slice(since * p, None)
        explained[late] = white[late] * (1 - 1 / after)
    return Change("stronger" if after > 1 else "weaker", 1.0, after, since=float(since)), explained


def _variance_since(squares, ranks, row):
    """The row from which another variance makes the squares likeliest."""
    mean = max(squares[row:].sum() / max(ranks[row:].sum(), 1), TUNING.sizes_still)
    gained = 0.5 * (squares * (1 - 1 / mean) - ranks * np.log(mean))
    return int(np.argmax(np.cumsum(gained[::-1])[::-1]))
