"""Statistics of what lasts: means and spreads of a unit's states over windows of rows.

A small step of a slow signal is a surprise in one row and usual in the next, so that no average of surprises keeps it.
What keeps it are means over hours and days: of the states, of these given the same means of the other units, and of the
news in the states, on their own past and given the other units' pasts. Spreads of the news tell who is louder, and who
is quieter: a unit that tells less than it used to makes everybody surprised who hears of it, and itself least.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ...statespace.detection.energy import block_diagonal, block_sums
from .rarity import ABSENT, NOTHING
from .tuning import TUNING

CLOCKS = (16, 48, 96)  # rows of the windows
LAGS = 4  # of a unit's own past in its news
_RIDGES = 1e-3, 1e-2  # of the news on the own past, and given the others
_TAILS = 0.02, 0.98  # quantiles at which nominal values are cut off: a start-up must not widen every scale
SAMPLED = 5000  # rows that quantiles are found from
_RIDGE = 0.02  # of variances of means
N_SERIES = 5  # that are summed: states, two kinds of news, squares of these

#: Of each unit: means of states and of news on its own past, its spread up and down, means of states given the others'
#: means, news given the others, its spread up and down.
KINDS = SHIFT, LOUDER, QUIETER, GIVEN, NEWS, LOUDER_GIVEN, QUIETER_GIVEN = range(7)
N_KINDS = len(CLOCKS) * len(KINDS)
SPREADS = LOUDER, QUIETER, LOUDER_GIVEN, QUIETER_GIVEN
_OF_STATISTIC = SHIFT, SHIFT, GIVEN, NEWS, LOUDER, QUIETER, LOUDER_GIVEN, QUIETER_GIVEN


class Means(NamedTuple):
    """Means over one window of the series that are summed, each (n_pieces, n), NaN where it has too few rows."""

    states: np.ndarray
    own: np.ndarray
    given: np.ndarray
    own_squares: np.ndarray
    given_squares: np.ndarray


def _clipped(series):
    """A series with values cut off at quantiles of some of its rows."""
    some = np.sort(series[:: -(-len(series) // SAMPLED)], axis=0)
    low, high = some[np.round(np.multiply(_TAILS, len(some) - 1)).astype(int)]
    return np.clip(series, low, high)


@dataclass(frozen=True, eq=False)
class Coordinates:
    """What is followed of each unit: its states, and how far its sensors are from these, in standard deviations.

    `outside` are the units whose sensors show more than states, `usual` is their mean distance, and `order` puts the
    distances beside the states of their units, which are in `slices`.
    """

    outside: np.ndarray
    usual: np.ndarray
    order: np.ndarray
    slices: list
    centre: np.ndarray
    scale: np.ndarray

    @classmethod
    def learn(cls, x, distance, slices):
        """From nominal states (n_rows, n) and off-subspace numbers (n_rows, n_units)."""
        outside = np.flatnonzero(distance.any(axis=0))
        sizes = np.array([b.stop - b.start for b in slices])
        order = np.argsort(np.concatenate([np.repeat(np.arange(len(slices)), sizes), outside]), kind="stable")
        stops = np.cumsum(sizes + np.isin(np.arange(len(slices)), outside))
        places = [slice(int(j - k), int(j)) for j, k in zip(stops, np.diff(stops, prepend=0), strict=True)]
        usual = np.maximum(distance[:, outside].mean(axis=0), 1e-12)
        bare = cls(outside, usual, order, places, np.zeros(len(order)), np.ones(len(order)))
        values = bare.of(x, distance)
        scale = np.maximum(_clipped(values).std(axis=0), 1e-3 * values.std(axis=0)) + 1e-12
        return cls(outside, usual, order, places, np.median(values, axis=0), scale)

    def of(self, x, distance):
        """Values of rows, (n_rows, n)."""
        off = np.log(distance[:, self.outside] / self.usual + TUNING.lasting_nearest)
        values = np.hstack([x, off])[:, self.order]
        return np.clip((values - self.centre) / self.scale, -TUNING.lasting_far, TUNING.lasting_far)

    def moved(self, states, off):
        """By how much values are less beside states that are (n,) more and distances (n_units,) times as large."""
        return np.concatenate([states, np.log(off[self.outside])])[self.order] / self.scale

    def there(self, present):
        """Which values are there, (n_rows, n), of units that are, (n_rows, n_units)."""
        return present.repeat([b.stop - b.start for b in self.slices], axis=1)


# -- from rows to pieces -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class News:
    """News in the states of units: what their own past, and the pasts of all units, leave of them.

    coefficients : two matrices (LAGS * n, n); size : standard deviations of the two kinds of news, (2, n)
    """

    coefficients: tuple
    size: np.ndarray

    @classmethod
    def learn(cls, moments, slices, n_rows, lagged, states):
        """From moments of `n_rows` rows, of lagged states with themselves and with the states, and from some rows."""
        squares, products = moments
        n = products.shape[1]
        place = np.arange(LAGS * n).reshape(LAGS, n)
        found = []
        for ridge, others in zip(_RIDGES, (0, TUNING.lasting_lags_of_others), strict=True):
            B = np.zeros((LAGS * n, n))
            for b in slices:
                used = np.union1d(place[:, b], place[:others])
                G = squares[np.ix_(used, used)]
                damped = G + np.diag(ridge * (np.diag(G) + 1e-9 * n_rows))
                B[used, b] = np.linalg.solve(damped, products[used, b])
            found.append(B)
        size = [_clipped(states - lagged @ B).std(axis=0) + 1e-6 for B in found]
        return cls(tuple(found), np.array(size))

    def series(self, lagged, states):
        """What is summed of each row, (n_rows, N_SERIES, n)."""
        news = [(states - lagged @ B) / size for B, size in zip(self.coefficients, self.size, strict=True)]
        squares = [np.clip(e, -TUNING.lasting_loudest, TUNING.lasting_loudest) ** 2 for e in news]
        return np.stack([states, *news, *squares], axis=1)


def lagged_states(states, rows):
    """States of the rows before each of `rows`, (n_rows, LAGS * n), the last one first."""
    return np.hstack([states[rows - k] for k in range(1, LAGS + 1)])


def piece_sums(series, n_rows):
    """Sums over pieces of series (n_rows, N_SERIES, n), NaN where they are not there, and how many rows are there."""
    parts = series.reshape(-1, n_rows, *series.shape[1:])
    return np.nansum(parts, axis=1), np.count_nonzero(np.isfinite(parts[:, :, 0]), axis=1)


def window_means(pieces, counts, n_before, n_rows):
    """:class:`Means` of each clock from sums over pieces of `n_rows` rows.

    `pieces` is (n_pieces, N_SERIES, n), `counts` the rows of each in which the states were there, (n_pieces, n); the
    first `n_before` of them are there for windows of later ones only.
    """
    for clock in CLOCKS:
        k = clock // n_rows
        lacking = max(k - 1 - n_before, 0)
        since = slice(n_before + lacking - k + 1, None)
        means = np.full((len(pieces) - n_before, *pieces.shape[1:]), np.nan)
        if len(pieces) - n_before > lacking:
            total = sliding_window_view(pieces[since], k, axis=0).sum(axis=-1)
            there = sliding_window_view(counts[since], k, axis=0).sum(axis=-1)[:, None]
            np.divide(total, there, out=means[lacking:], where=2 * there >= clock)
        yield Means(*np.moveaxis(means, 1, 0))


# -- from pieces to statistics -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Spread:
    """Nominal mean of some means, (n,), their standard deviations, and what whitens those of each unit, (n, n)."""

    mean: np.ndarray
    size: np.ndarray
    root: np.ndarray

    @classmethod
    def learn(cls, means, rows, slices):
        """From means (n_pieces, n) at `rows`."""
        known = _clipped(means[rows])
        covariance = np.cov(known.T).reshape(known.shape[1], -1)
        covariance = covariance + np.diag(_RIDGE * np.diag(covariance) + 1e-9)
        root = block_diagonal([np.linalg.cholesky(np.linalg.inv(covariance[b, b])) for b in slices])
        return cls(known.mean(axis=0), np.sqrt(np.diag(covariance)), root)

    def squares(self, means, sums):
        """Squared lengths of each state's and each unit's means, (n_pieces, n + n_units)."""
        off = means - self.mean
        return np.hstack([(off / self.size) ** 2, (off @ self.root) ** 2 @ sums])


@dataclass(frozen=True, eq=False)
class Window:
    """What nominal means over one window are like.

    `others`, (n, n), gives the means of states from those of other units; `spreads` are those of news, states, states
    given others, and news given others, `loudness` mean and spread of the logarithms of the two mean squares.
    """

    others: np.ndarray
    spreads: tuple
    loudness: tuple

    @classmethod
    def learn(cls, means, rows, slices, sums, clock):
        """From the :class:`Means` of a clock at those of `rows` at which there are any."""
        rows = rows & np.isfinite(means.states).all(axis=1) & np.isfinite(means.given).all(axis=1)
        others = _given_others(means.states[rows], slices, np.count_nonzero(rows) / clock)
        kinds = means.own, means.states, means.states - means.states @ others, means.given
        spreads = tuple(Spread.learn(series, rows, slices) for series in kinds)
        known = [_clipped(_loudness(squares, sums)[rows]) for squares in (means.own_squares, means.given_squares)]
        return cls(others, spreads, tuple((loud.mean(axis=0), loud.std(axis=0) + 1e-3) for loud in known))

    def statistics(self, means, sums, doubt=1.0):
        """Statistics of each piece, (n_pieces, 8, n + n_units), NaN where there is no mean.

        Means vary by `doubt` times the nominal variance where what they are beyond is known from few rows.
        """
        kinds = means.own, means.states, means.states - means.states @ self.others, means.given
        found = [spread.squares(series, sums) / doubt for spread, series in zip(self.spreads, kinds, strict=True)]
        for (mean, size), squares in zip(self.loudness, (means.own_squares, means.given_squares), strict=True):
            louder = (_loudness(squares, sums) - mean) / size
            found += [louder, -louder]
        return np.stack(found, axis=1)


def _loudness(squares, sums):
    """Logarithm of mean squares of each state, and its mean over those of each unit, (n_pieces, n + n_units)."""
    log = np.log(squares + TUNING.lasting_quietest)
    return np.hstack([log, log @ (sums / sums.sum(axis=0))])


def _given_others(means, slices, n_windows):
    """Coefficients of each unit's means on leading scores of those of the others, (n, n)."""
    G, n = means.T @ means, means.shape[1]
    found = np.zeros((n, n))
    for b in slices:
        other = np.setdiff1d(np.arange(n), np.arange(n)[b])
        if not len(other):
            continue
        n_scores = int(np.clip(n_windows / TUNING.lasting_windows_each, 1, min(TUNING.lasting_scores, len(other))))
        values, vectors = np.linalg.eigh(G[np.ix_(other, other)])
        P, values = vectors[:, -n_scores:], values[-n_scores:]
        found[other, b] = P @ (P.T @ G[other, b] / ((1 + _RIDGES[1]) * values + 1e-9)[:, None])
    return found


@dataclass(frozen=True, eq=False)
class LastingModel:
    """Statistics of what lasts, by what nominal rows taught of the news of states and of means over windows."""

    news: News
    windows: tuple
    slices: list
    n_rows: int  # of a piece
    told: range | tuple = KINDS  # the kinds that it tells

    @property
    def sums(self):
        """Sums over the states of each unit, (n, n_units)."""
        return block_sums(self.slices)

    @property
    def kinds(self):
        """A number for the kind of each statistic, those of states apart from those of units, and its clock."""
        size, n_units = self.slices[-1].stop, len(self.slices)
        pair = np.repeat([0, 1], [size, n_units])
        blocks = len(self.windows) * len(_OF_STATISTIC)
        return (2 * np.arange(blocks)[:, None] + pair).reshape(-1)

    def statistics(self, pieces, counts, n_before, n_known=np.inf):
        """Statistics of the pieces after the first `n_before`, (n_pieces, n_statistics), far down without rows.

        Of states beyond a mean that is known from `n_known` rows.
        """
        sums, means = self.sums, window_means(pieces, counts, n_before, self.n_rows)
        doubts = [1 + clock / n_known for clock in CLOCKS]
        found = [
            window.statistics(one, sums, doubt) for window, one, doubt in zip(self.windows, means, doubts, strict=True)
        ]
        return np.nan_to_num(np.concatenate(found, axis=1), nan=NOTHING).reshape(len(pieces) - n_before, -1)

    def by_kind(self, rare):
        """Largest return periods of each clock, kind and unit, (n_pieces, N_KINDS, n_units), of all statistics.

        ABSENT for kinds that are not told.
        """
        size, n_units = self.slices[-1].stop, len(self.slices)
        table = rare.reshape(len(rare), len(self.windows), len(_OF_STATISTIC), size + n_units)
        first = [b.start for b in self.slices]
        best = np.maximum(np.maximum.reduceat(table[..., :size], first, axis=-1), table[..., size:])
        found = np.full((len(rare), len(self.windows), len(KINDS), n_units), ABSENT)
        for k, kind in enumerate(_OF_STATISTIC):
            if kind in self.told:
                np.maximum(found[:, :, kind], best[:, :, k], out=found[:, :, kind])
        return found.reshape(len(rare), N_KINDS, n_units)
