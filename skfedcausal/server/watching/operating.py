"""Operating points: where a plant runs after a change that stays, and how it is found out.

An incident that settles is a new operating point: what the innovations there are beyond the nominal ones is taken
off from then on, so that the next fault is seen (Willsky & Jones 1976, A generalized likelihood ratio approach to
the detection and estimation of jumps in linear systems, IEEE Transactions on Automatic Control 21). Slow drift is
followed in the same way before it is an alarm, and a plant that goes back where it was is known again.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.stats import chi2, f

from .posterior import log_scale_factor
from .thresholds import no_chance
from .tuning import TUNING

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
        return np.sqrt(1 + TUNING.operating_averaged / self.n_rows)

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

    of_modes = False  # whether inputs tell modes, whose levels are learned by themselves

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
        return self._moves and not self.of_modes

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
