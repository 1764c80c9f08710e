"""Held-out gains: what the past of some columns predicts of innovations of others, on segments the fit did not see.

Everything is algebra on second moments of lagged and present rows, one set per segment: each regression is fitted on
the other segments and judged on the one left out. No residual has to be white for that; a misfit that changes the gain
makes it vary between segments instead.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from .episodes import episodes
from .matrices import positions_of, slices_of
from .tuning import TUNING

N_LAGS = 2  # of every unit that grades look at: one or three tell less of the development networks
LOCAL = 25  # rows of a piece with a level and slope of its own, which takes out moves slower than about ten rows
_RIDGE = 1e-6  # of a column's own sum of squares: copies of a column share what both tell


@dataclass(frozen=True)
class LaggedRows:
    """Lagged and present rows of all units, (n_rows, n_past + n_now): the past of one unit after the other, then now.

    `past` and `now` are the columns of each unit, `starts` the first rows of episodes, `at` where the rows are in
    the record.
    """

    values: np.ndarray
    past: tuple
    now: tuple
    starts: tuple
    at: np.ndarray

    @classmethod
    def of(cls, series, slices, starts, n_lags):
        """Rows of a record (n_samples, n) whose units have the columns `slices`; no lag reaches over a start."""
        kept = [np.arange(start + n_lags, stop) for start, stop in episodes(starts, len(series))]
        kept = [rows for rows in kept if len(rows)]
        at = np.concatenate(kept) if kept else np.zeros(0, dtype=int)
        columns = [series[at - lag, own] for own in slices for lag in range(1, n_lags + 1)]
        past = slices_of(n_lags * (own.stop - own.start) for own in slices)
        now = tuple(slice(past[-1].stop + own.start, past[-1].stop + own.stop) for own in slices)
        values = np.hstack([*columns, series[at]])
        return cls(values, past, now, (0, *np.cumsum([len(rows) for rows in kept][:-1]).tolist()), at)

    def around_lines(self, n_local, first=0):
        """The same rows less a level and a slope of their own for every `n_local` rows, lags and present alike.

        The first piece of an episode ends after `first` rows where that is not zero.
        """
        values = self.values.copy()
        for start, stop in episodes(self.starts, len(values)):
            first = first if 2 < first < stop - start - n_local else 0
            n_pieces = max(1, (stop - start - first) // n_local)
            edges = start + first + np.linspace(0, stop - start - first, n_pieces + 1).astype(int)
            edges = edges if not first else np.concatenate([[start], edges])
            lengths = np.diff(edges)
            for length in np.unique(lengths):
                rows = edges[:-1][lengths == length, None] + np.arange(length)
                basis = np.linalg.qr(np.vander(np.linspace(-1, 1, length), min(2, length)))[0]
                pieces = values[rows]
                values[rows] = pieces - basis @ (basis.T @ pieces)
        return replace(self, values=values)

    def less(self, known, n_lags):
        """The same rows less what inputs (n_samples, k), in the row itself and those before, tell of all of them."""
        K = np.hstack([known[self.at - lag] for lag in range(n_lags + 1)])
        return replace(self, values=self.values - K @ np.linalg.lstsq(K, self.values, rcond=1e-8)[0])

    def moments(self, n_blocks):
        """Second moments of every segment."""
        edges = np.linspace(0, len(self.values), n_blocks + 1).astype(int)
        blocks = [self.values[a:b] for a, b in zip(edges[:-1], edges[1:], strict=True)]
        sums = np.stack([rows.T @ rows for rows in blocks])
        return BlockMoments(sums, np.diff(edges).astype(float), self.past, self.now)

    def reweighted(self, moments, weight, n_blocks):
        """The moments with rows that weigh less than one: only these are gone through again."""
        edges = np.linspace(0, len(self.values), n_blocks + 1).astype(int)
        less = np.flatnonzero(weight < 1)
        sums, ones = moments.sums.copy(), moments.n_rows.copy()
        for k, (first, stop) in enumerate(zip(edges[:-1], edges[1:], strict=True)):
            rows = less[np.searchsorted(less, first) : np.searchsorted(less, stop)]
            if len(rows):
                gone, values = 1 - weight[rows], self.values[rows]
                sums[k] -= values.T @ (values * gone[:, None])
                ones[k] -= gone.sum()
        return BlockMoments(sums, ones, self.past, self.now)


@dataclass(frozen=True)
class BlockMoments:
    """Second moments (n_blocks, k, k) of the segments of a :class:`LaggedRows`, and how many rows each has."""

    sums: np.ndarray
    n_rows: np.ndarray
    past: tuple
    now: tuple

    @classmethod
    def of_lags(cls, sums, n_rows, slices):
        """Of lagged products (n_blocks, n_lags + 1, n, n) of units with columns `slices`, zero outside of a segment."""
        n_lags, n = sums.shape[1] - 1, sums.shape[2]
        places = [(lag, k) for own in slices for lag in range(1, n_lags + 1) for k in range(own.start, own.stop)]
        lag, at = np.array([*places, *((0, k) for k in range(n))]).T
        later = lag - lag[:, None]  # rows by which the first of two columns comes later than the second
        first, second = np.where(later < 0, at, at[:, None]), np.where(later < 0, at[:, None], at)
        past = slices_of(n_lags * (own.stop - own.start) for own in slices)
        now = tuple(slice(len(places) + own.start, len(places) + own.stop) for own in slices)
        return cls(sums[:, np.abs(later), first, second], n_rows, past, now)

    @cached_property
    def whole(self):
        """Moments of all segments together, with a ridge on the past."""
        whole = self.sums.sum(axis=0)
        whole[np.diag_indices_from(whole)] += self._ridge
        return whole

    @cached_property
    def _ridge(self):
        ridge = _RIDGE * np.einsum("bii->i", self.sums) + TUNING.held_out_least
        ridge[self.now[0].start :] = 0.0
        return ridge

    @cached_property
    def others(self):
        """Moments of all segments but one, for every one, with the ridge: what is fitted on, (n_blocks, k, k)."""
        return self.whole - self.sums

    @property
    def n_all(self):
        """Rows of all segments."""
        return float(self.n_rows.sum())

    def fit(self, base, now):
        """Coefficients (k_base, p) of present columns on some of the past, and the covariance of what is left."""
        cross = self.whole[np.ix_(base, now)]
        coefficients = np.linalg.solve(self.whole[np.ix_(base, base)], cross)
        return coefficients, _floored((self.whole[np.ix_(now, now)] - cross.T @ coefficients) / self.n_all)

    def chosen(self, effect, price=None):
        """Other units whose past matters for a unit: forward selection, in the order in which they came.

        `price` says what twice the log likelihood has to rise by for so many coefficients (an array); None is BIC.
        """
        now, base = positions_of([effect], self.now), positions_of([effect], self.past)
        price = np.log(self.n_all).__mul__ if price is None else price
        left = [unit for unit in range(len(self.past)) if unit != effect]
        found: list[int] = []
        while left and len(found) < TUNING.held_out_most_others:
            gains = self._gains_beyond(base, now, left)
            costs = price(len(now) * np.array([self.past[unit].stop - self.past[unit].start for unit in left]))
            worth = self.n_all * gains - costs
            best = int(worth.argmax())
            if worth[best] <= 0:
                break
            found.append(left.pop(best))
            base = np.concatenate([base, positions_of(found[-1:], self.past)])
        return found

    def _gains_beyond(self, base, now, units):
        """By how much the log determinant of what is left of `now` falls with the past of each unit beside `base`."""
        G = self.whole
        H = np.linalg.solve(G[np.ix_(base, base)], G[base])
        rest = G - G[:, base] @ H  # of all columns, less what the base tells of them
        before = np.linalg.slogdet(rest[np.ix_(now, now)] + TUNING.held_out_least * np.eye(len(now)))[1]
        gains = np.zeros(len(units))
        for chosen, cols in _by_width([self.past[unit] for unit in units]):
            own, width = cols[:, :, None], cols.shape[1]
            cross = rest[own, now]
            size = rest[own, cols[:, None, :]] + self._ridge[cols][:, :, None] * np.eye(width)  # copies: nothing left
            after = rest[np.ix_(now, now)] - cross.transpose(0, 2, 1) @ np.linalg.solve(size, cross)
            gains[chosen] = before - np.linalg.slogdet(after + TUNING.held_out_least * np.eye(len(now)))[1]
        return gains

    def gains(self, effect, others, causes):
        """Share of the news of a unit that the past of each cause tells beyond its own and that of `others`.

        In every segment, fitted on the other ones: loss without the cause less loss with it, whitened by the news and
        summed over directions, per row. A cause among the others is judged against the others without it.

        Returns
        -------
        gains : ndarray of shape (n_causes, n_blocks)
        carried : list of ndarray of shape (n_past_of_cause, p)
            Coefficients of the past of each cause, mean over the fits.
        """
        now = positions_of([effect], self.now)
        base = positions_of([effect, *others], self.past)
        white = np.linalg.pinv(self.fit(base, now)[1], rcond=1e-10, hermitian=True)
        out, carried = np.empty((len(causes), len(self.sums))), [None] * len(causes)
        outside = [k for k, cause in enumerate(causes) if cause not in others]
        if outside:
            added = [self.past[causes[k]] for k in outside]
            out[outside], found = self._gains_of_added(base, added, now, white)
            for k, coefficients in zip(outside, found, strict=True):
                carried[k] = coefficients
        for k in set(range(len(causes))) - set(outside):
            rest = [unit for unit in others if unit != causes[k]]
            without = positions_of([effect, *rest], self.past)
            (out[k],), (carried[k],) = self._gains_of_added(without, [self.past[causes[k]]], now, white)
        return out / self.n_rows, carried

    def _gains_of_added(self, base, added, now, white):
        """Whitened losses that each of some further slices of the past saves in every segment, and its coefficients.

        With X what the base leaves of the further past and e of the present, in the other segments, u = (X'X)^-1 X'e
        and the loss saved on a segment is 2 u'X'e - u'X'X u of its own moments.
        """
        G, g = self.others, self.sums
        both = np.concatenate([positions_of(range(len(added)), added), now])
        H = np.linalg.solve(G[:, base[:, None], base], G[:, base[:, None], both])
        of_present, inside = g[:, base[:, None], now], g[:, base[:, None], base]
        He = H[:, :, len(both) - len(now) :]
        firsts = np.cumsum([0, *(own.stop - own.start for own in added)])
        out, carried = np.empty((len(added), len(g))), [np.empty(0)] * len(added)
        for chosen, cols in _by_width(added):
            width = cols.shape[1]
            ht = H[:, :, firsts[chosen][:, None] + np.arange(width)].transpose(0, 2, 3, 1)
            own, beside = (cols[:, :, None], cols[:, None, :]), (base[:, None, None], cols)
            size = G[:, own[0], own[1]] - ht @ G[:, beside[0], beside[1]].transpose(0, 2, 1, 3)
            size += self._ridge[cols][:, :, None] * np.eye(width)
            u = np.linalg.solve(size, G[:, own[0], now] - ht @ G[:, None, base[:, None], now])
            half = g[:, own[0], base] - ht @ inside[:, None]  # X' of the base's columns, in the segment
            cross = g[:, own[0], now] - ht @ of_present[:, None] - half @ He[:, None]
            h = ht.transpose(0, 1, 3, 2)
            square = g[:, own[0], own[1]] - ht @ g[:, beside[0], beside[1]].transpose(0, 2, 1, 3) - half @ h
            out[chosen] = np.einsum("ij,bkwi,bkwj->kb", white, u, 2 * cross - square @ u)
            for j, coefficients in zip(chosen, u.mean(axis=0), strict=True):
                carried[j] = coefficients
        return out, carried


class FullRegression:
    """Regression of the only present unit on the first `k` columns of the past, in the whole and less every segment.

    What any of its columns or further ones tell comes from one inverse for each, not from a regression of its own.
    """

    def __init__(self, moments, k):
        self._moments, self._k, self._p, whole = moments, k, moments.now[0].start, moments.whole
        self._of_whole = np.linalg.inv(whole[:k, :k])
        self._in_whole = self._of_whole @ whole[:k, self._p :]
        self._news = whole[self._p :, self._p :] - whole[self._p :, :k] @ self._in_whole

    @cached_property
    def _inverse(self):
        return np.linalg.inv(self._moments.others[:, : self._k, : self._k])

    @cached_property
    def _coefficients(self):
        return self._inverse @ self._moments.others[:, : self._k, self._p :]

    @cached_property
    def _left(self):
        """Products of all columns of a segment with what is left of it."""
        g = self._moments.sums
        return g[:, :, self._p :] - g[:, :, : self._k] @ self._coefficients

    def log_gain(self, columns):
        """By how much the log determinant of the news in the whole falls with some columns."""
        without, left = (np.linalg.slogdet(_floored(news))[1] for news in (self._without(columns), self._news))
        return without - left

    def terms_of(self, columns):
        """Coefficients (m, p) of some columns in the whole, and the covariance of the news."""
        return self._in_whole[columns], self._news / self._moments.n_all

    def gains_of(self, columns):
        """Share of the news that some of the columns tell beyond the other ones, in every segment."""
        M, at = self._inverse, columns[:, None]
        change = M[:, :, columns] @ np.linalg.solve(M[:, at, columns], self._coefficients[:, columns])
        saved = 2 * self._left[:, : self._k] + self._moments.sums[:, : self._k, : self._k] @ change
        return self._shares(change, saved, self._without(columns))

    def gains_beyond(self, columns):
        """The same of some further columns beyond all of them."""
        G, g, k, p, at = self._moments.others, self._moments.sums, self._k, self._p, columns[:, None]
        H = self._inverse @ G[:, :k, columns]
        of_rest, ht = G[:, at, columns] - G[:, columns, :k] @ H, H.transpose(0, 2, 1)
        u = np.linalg.solve(of_rest, G[:, columns, p:] - ht @ G[:, :k, p:])
        change = np.concatenate([-H @ u, u], axis=1)
        both = np.concatenate([np.arange(k), columns])
        saved = 2 * self._left[:, both] - g[:, both[:, None], both] @ change
        return self._shares(change, saved, self._news)

    def _without(self, columns):
        of_columns = self._in_whole[columns]
        return self._news + of_columns.T @ np.linalg.solve(self._of_whole[columns[:, None], columns], of_columns)

    def _shares(self, change, saved, news):
        white = np.linalg.pinv(_floored(news / self._moments.n_all), rcond=1e-10, hermitian=True)
        return np.einsum("ij,bki,bkj->b", white, change, saved) / self._moments.n_rows


def _floored(covariance):
    """A covariance, symmetric and not singular."""
    floor = 1e-14 + 1e-10 * np.trace(covariance) / len(covariance)
    return (covariance + covariance.T) / 2 + floor * np.eye(len(covariance))


def _by_width(slices):
    """Slices of the same width together: their places in the list, and their columns (n_slices, width)."""
    widths = np.array([own.stop - own.start for own in slices])
    for width in np.unique(widths):
        chosen = np.flatnonzero(widths == width)
        yield chosen, np.array([np.arange(slices[j].start, slices[j].stop) for j in chosen])


def huber_weights(news, limit):
    """Weights of rows (n,) by the size of their news (n, p) in robust standard deviations: one up to `limit`.

    In plain ones of a column that stands still in most rows: each of its moves is unusual, and counts.
    """
    scale, spread = 1.4826 * np.median(np.abs(news), axis=0) + 1e-9, news.std(axis=0)
    scale = np.where(scale > TUNING.held_out_still * spread, scale, spread)
    size = np.sqrt(np.square(news / scale).mean(axis=1))
    return np.minimum(1.0, limit / np.maximum(size, 1e-9)) ** 2


def same_row_shares(news, weights):
    """Sums of squared canonical correlations of the news of all pairs of units in the same row, less what chance gives.

    `news` are (n, p) arrays by unit, `weights` (n,) theirs: a pair's rows count by the geometric mean of both.
    """
    m, n = len(news), len(news[0])
    if all((weight == 1).all() for weight in weights):  # one product of all
        joined = np.hstack(news)
        return shares_of_products(joined.T @ joined, slices_of(e.shape[1] for e in news), n)
    out = np.zeros((m, m))
    roots = [np.sqrt(np.sqrt(weight))[:, None] for weight in weights]
    weighted = [e * root for e, root in zip(news, roots, strict=True)]
    for a, b in zip(*np.tril_indices(m, -1), strict=True):
        x, y = weighted[a] * roots[b], weighted[b] * roots[a]
        out[a, b] = out[b, a] = _share(x.T @ y, _inverse(x.T @ x), _inverse(y.T @ y), n)
    return out


def shares_of_products(products, slices, n_rows):
    """The same from products of the news of all units, (n, n), where every row counts alike."""
    inverses = [_inverse(products[own, own]) for own in slices]
    out = np.zeros((len(slices),) * 2)
    for a, b in zip(*np.tril_indices(len(slices), -1), strict=True):
        out[a, b] = out[b, a] = _share(products[slices[a], slices[b]], inverses[a], inverses[b], n_rows)
    return out


def _share(S, first, second, n):
    return max(float(np.trace(first @ S @ second @ S.T)) - len(first) * len(second) / n, 0.0)


def _inverse(S):
    return np.linalg.pinv(S, rcond=1e-10, hermitian=True)
