"""Tests of what may have changed in the rows of one unit, from every start; how large it is, and since when."""

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import special

from .hypotheses import BLOCK, NEW, Hypothesis, UnitInnovations, shifted
from .tuning import TUNING

# Tests of what may have changed in the rows of one unit, from every start, and their size under no change.

_RIDGE = 1e-9
VARIANCE = "variance"


def window_starts(n_samples):
    """Rows from which a change is supposed to hold, to the end."""
    last = max(n_samples - TUNING.tests_fewest_rows, 0)
    n_windows = min(TUNING.tests_n_windows, 1 + last // (TUNING.tests_fewest_rows // 2))
    return np.unique(np.linspace(0, last, n_windows).astype(int))


@dataclass(frozen=True)
class UnitTests:
    """White innovations of one unit, the hypotheses about its rows, and how much the plant's record weighs."""

    innovations: UnitInnovations
    groups: list
    starts: np.ndarray  # rows of the record
    n_learned: int

    @property
    def n_states(self):
        """States of the unit."""
        return self.innovations.white.shape[1]

    def hypothesis(self, number):
        """A hypothesis by its number among all, a :class:`~.hypotheses.Hypothesis`."""
        for group in self.groups:
            if number < len(group.kinds):
                return group.one(number)
            number -= len(group.kinds)
        return Hypothesis(VARIANCE, 0, None)

    def beyond(self, basis, kind):
        """Tests of one sort alone, of what a basis (n_rows, k) of orthonormal series leaves of their regressors."""
        groups = [group.beyond(basis, kind) for group in self.groups if group.numbers(kind)]
        return replace(self, groups=groups)

    def log_p_values(self, white, *, exact=False):
        """Log p-value, over its share, of every hypothesis from every start, and of the unit's variance.

        A list of arrays (n_starts, n_hypotheses, ...) with the trailing axes of `white` (n_rows, ...); `exact` where
        they are draws, in which the learned plant has no errors.
        """
        one = white.reshape(len(white), -1)
        counts = np.cumsum(np.add.reduceat(self.innovations.ranks, self.starts)[::-1])[::-1].astype(float)
        squares = np.add.reduceat(one**2, self.starts * self.n_states, axis=0)
        squares = np.cumsum(squares[::-1], axis=0)[::-1]  # like numbers of innovations from every start
        learned = np.inf if exact else float(self.n_learned * self.n_states)
        found = [self._of_group(group, one, counts, squares, learned) for group in self.groups]
        found.append(self._of_variance(one, counts, squares, learned)[:, None])
        return [x.reshape(*x.shape[:2], *white.shape[1:]) for x in found]

    def shown(self, squares_of_change, left):
        """Noncentrality of the test of a change that adds so much to the squares, all along the record."""
        counts, learned = self.innovations.ranks.sum(), self.n_learned * self.n_states
        return squares_of_change * counts / max(left, 1e-300) * learned / (learned + counts)

    def _of_group(self, group, white, counts, squares, learned):
        Z, c = group.regressors, group.regressors.shape[2]
        G = self._gram(Z)
        s = np.stack([self._suffix_of(Z[:, h], white) for h in range(Z.shape[1])], axis=1)
        if np.isfinite(learned):
            s -= np.stack([self._suffix_of(Z[:, h], group.known[:, h, None]) for h in range(Z.shape[1])], axis=1)
        explained = np.maximum(np.einsum("shcb,shcb->shb", s, np.linalg.solve(G, s)), 0.0)
        free = np.maximum(counts - c, 1.0)[:, None, None]
        left = np.maximum(squares[:, None] - explained, TUNING.tests_rounded * squares[:, None] + 1e-300) / free
        # of the variance of a difference between two records, the share that is the new one's
        share = 1 / (1 + counts / learned)
        ratio = share[:, None, None] * explained / c / left
        log_p = _log_tail(ratio, c, free)
        if c == 1:
            log_p = _one_sided(log_p, s[:, :, 0] * group.sides[:, None])
        enough = counts >= TUNING.tests_rows_per_coefficient * c
        weighed = np.minimum(log_p - np.log(group.shares)[:, None], 0.0)
        return np.where(enough[:, None, None], weighed, 0.0)

    def _gram(self, Z):
        pieces = pairwise([*(self.starts * self.n_states), len(Z)])
        own = np.array([np.einsum("rhc,rhd->hcd", Z[a:b], Z[a:b], optimize=True) for a, b in pieces])
        G = np.cumsum(own[::-1], axis=0)[::-1]
        size = np.trace(G, axis1=-2, axis2=-1)[..., None, None] / Z.shape[2]
        return G + (_RIDGE * size + np.finfo(float).tiny) * np.eye(Z.shape[2])

    def _suffix_of(self, z, white):
        """``z' white`` over the rows from every start, (n_starts, c, n_series)."""
        pieces = pairwise([*(self.starts * self.n_states), len(z)])
        own = np.array([z[a:b].T @ white[a:b] for a, b in pieces])
        return np.cumsum(own[::-1], axis=0)[::-1]

    def _of_variance(self, white, counts, squares, learned):
        """Whether the innovations have another variance, whatever their tails."""
        counts = np.maximum(counts, 1.0)[:, None]
        mean = squares / counts
        # of the squares, relative to their mean; two where innovations are Gaussian
        spread = np.sum(white**4, axis=0) / counts[0] / np.maximum(mean[0], 1e-150) ** 2 - 1
        error = np.maximum(spread, 0.1) * (1 / counts + 1 / learned)
        z = (np.cbrt(mean) - 1 + error / 9) / np.sqrt(error / 9)  # Wilson and Hilferty
        return np.where(counts >= TUNING.tests_fewest_rows, np.log(2) + special.log_ndtr(-np.abs(z)), 0.0)

    def null_draws(self, rng, n_draws):
        """White innovations under no change: rows of the record drawn anew, of unit variance, (n_rows, n_draws)."""
        rows = np.flatnonzero(self.innovations.ranks > 0)
        drawn = np.zeros((*self.innovations.white.shape, n_draws))
        if not len(rows):  # the record does not show the unit
            return drawn.reshape(self.innovations.white.size, n_draws)
        white = self.innovations.white - self.innovations.white[rows].mean(axis=0)
        size = np.sqrt(np.square(white[rows]).sum() / max(self.innovations.ranks.sum(), 1))
        picked = rng.choice(rows, size=(len(rows), n_draws))
        drawn[rows] = np.moveaxis(white[picked] / max(size, 1e-300), 1, 2)
        return drawn.reshape(white.size, n_draws)


def _log_tail(ratio, c, d):
    """Log of the upper tail of an F distribution, also where it is too small for a number."""
    p = special.fdtrc(c, d, ratio)
    with np.errstate(divide="ignore"):
        return np.where(p > 1e-290, np.log(p), -0.5 * d * np.log1p(c * ratio / d))


def _one_sided(log_p, signs):
    """Log p-values of the side that scores have the sign of, from those of both; zero signs are of either."""
    other = np.log1p(-0.5 * np.exp(log_p))
    return np.where(signs > 0, log_p - np.log(2), np.where(signs < 0, other, log_p))


def effective_tests(log_minima):
    """How many independent tests the minimum of p-values is of, from draws of its logarithm under no change.

    From the lower tail, where it matters: correlated tests are fewer in the middle of the distribution.
    """
    drawn = np.sort(np.ravel(log_minima))
    k = min(max(int(TUNING.tests_tail * len(drawn)), TUNING.tests_fewest_draws), len(drawn)) - 1
    p = np.exp(np.clip(drawn[k], TUNING.tests_least_log_p, -1e-12))
    return max(float(np.log1p(-(k + 1) / (len(drawn) + 1)) / np.log1p(-p)), 1.0)


def log_p_of_minimum(log_p, n_tests):
    """Log p-value of the minimum of so many independent p-values."""
    p = np.exp(log_p)
    with np.errstate(divide="ignore"):
        exact = np.log(-np.expm1(n_tests * np.log1p(-np.minimum(p, 1 - 1e-12))))
    return np.where(log_p < -20, np.minimum(log_p + np.log(n_tests), 0.0), exact)


def weighted_holm(log_p, weights):
    """Holm's adjustment of p-values whose hypotheses have shares of the level that sum to one."""
    order = np.argsort(log_p - np.log(weights), kind="stable")
    left = np.cumsum(weights[order][::-1])[::-1]
    stepped = np.exp(np.minimum(log_p[order] + np.log(left / weights[order]), 0.0))
    adjusted = np.empty_like(stepped)
    adjusted[order] = np.maximum.accumulate(stepped)
    return adjusted


# How large a change is, of which sort, and since when.


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
