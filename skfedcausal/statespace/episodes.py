"""Series of several episodes, one below the other: their rows, means, lag covariances and transitions."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from .matrices import hermitian, without_last_bits
from .tuning import TUNING

PIECE = 512  # rows of a series that stay in the second-level cache while all lags are formed
_PIECE_COLUMNS = 32  # of a series with fewer columns more rows do


def episodes(starts, n_samples):
    """Pairs (first row, row after the last) of each episode."""
    return list(zip(starts, [*starts[1:], n_samples], strict=True))


def episode_lengths(starts, n_samples):
    """Rows of each episode, a tuple of int."""
    return tuple(int(stop - start) for start, stop in episodes(starts, n_samples))


def first_part(lengths):
    """Which rows to learn from, to judge by the others: the first three quarters of every episode."""
    return np.concatenate([np.arange(length) < TUNING.episodes_learned * length for length in lengths])


def inner_rows(n_samples, starts):
    """Rows that are not the first of an episode, as positions."""
    first = np.zeros(n_samples, dtype=bool)
    first[list(starts)] = True
    return np.flatnonzero(~first)


def lagged_rows(Y, n_lags, starts=(0,)):
    """Rows ``[y[t-1], ..., y[t-n_lags]]``, zero before the start of an episode."""
    n_samples, d = Y.shape
    Z = np.zeros((n_samples, n_lags * d))
    for start, stop in episodes(starts, n_samples):
        for lag in range(1, min(n_lags, stop - start - 1) + 1):
            Z[start + lag : stop, (lag - 1) * d : lag * d] = Y[start : stop - lag]
    return Z


def side_by_side(parts):
    """The columns of several series in one, piece by piece: twice as fast as all rows at once."""
    joined = np.empty((len(parts[0]), sum(part.shape[1] for part in parts)))
    for first in range(0, len(joined), PIECE):
        rows = slice(first, first + PIECE)
        np.concatenate([part[rows] for part in parts], axis=1, out=joined[rows])
    return joined


def block_toeplitz(G):
    """Covariance of as many successive rows as there are lag covariances G (n_lags, n, n)."""
    n_lags, n, _ = G.shape
    block = np.empty((n_lags, n, n_lags, n))
    for i in range(n_lags):
        for j in range(n_lags):
            block[i, :, j] = G[j - i] if j >= i else G[i - j].T
    return block.reshape(n_lags * n, n_lags * n)


def remove_episode_means(series, starts=(0,), copy=True):
    """Series less its mean in each episode, in place unless it is to be copied."""
    centred = np.array(series) if copy else series
    for start, stop in episodes(starts, len(series)):
        rows = centred[start:stop]
        rows -= column_mean(rows)
    return centred


def column_mean(rows):
    """Mean of each column as one product, several times faster than a sum along columns.

    The same to the last bit wherever the rows lie in memory.
    """
    if rows.shape[1] < TUNING.episodes_narrow:  # few columns of a wider table are added up in another order
        rows = np.ascontiguousarray(rows)
    return np.ones(len(rows)) @ rows / len(rows)


def mean_with_error(values):
    """Mean of a stationary series and its standard error by Newey and West.

    .. [1] Newey, West (1987), A simple, positive semi-definite, heteroskedasticity and autocorrelation
           consistent covariance matrix, Econometrica 55(3).
    """
    n = len(values)
    if not n:
        return np.nan, np.nan
    centred = values - values.mean()
    n_lags = int(np.cbrt(n))
    total = centred @ centred
    for k in range(1, n_lags + 1):
        total += 2 * (1 - k / (n_lags + 1)) * (centred[k:] @ centred[:-k])
    return float(values.mean()), float(np.sqrt(max(total, 0.0))) / n  # below zero by rounding alone


def lag_covariances(series, lags, starts=(0,), present=None):
    """``sum_t s[t+l] s[t]'``, products never crossing an episode border, shape (n_lags, n, n)."""
    n_samples, n = series.shape
    sums = np.zeros((len(lags), n, n))
    n_products = len(lags) * min(n, TUNING.episodes_most_columns)
    is_large = n >= TUNING.episodes_many_columns and n_products >= TUNING.episodes_many_products
    for start, stop in episodes(starts, n_samples):
        if is_large:
            start += _add_fourier_products(sums, series[start:stop], lags)
        add_lag_products(sums, series[start:stop], lags)
    for k in np.flatnonzero(np.asarray(lags) == 0):
        sums[k] = symmetric(sums[k])
    if present is None:
        return sums
    counts, n_all = np.zeros_like(sums), np.zeros(len(lags))
    for start, stop in episodes(starts, n_samples):
        add_lag_products(counts, present[start:stop], lags)
        n_all += np.maximum(stop - start - np.asarray(lags), 0)
    return sums * (n_all[:, None, None] / np.maximum(counts, 1.0))


def rows_in_cache(n_columns):
    """Rows of a series of so many columns that stay in cache while their products are formed."""
    return max(PIECE * _PIECE_COLUMNS // max(n_columns, 1), PIECE)


def add_lag_products(sums, series, lags, n_early=None):
    """Add ``sum_t s[t+l] s[t]'`` of one segment of rows, in pieces that stay in cache."""
    n_rows, n = series.shape
    n_early = n_rows if n_early is None else n_early
    piece = rows_in_cache(n)
    for first in range(0, n_early, piece):
        last = min(first + piece, n_early)
        for k, lag in enumerate(lags):
            stop = min(last, n_rows - lag)
            if first < stop:
                early = series[first:stop]
                add_product(sums[k], series[first + lag : stop + lag] if lag else early, early)


def recentre_lag_sums(sums, shift, total, n_rows, head, tail):
    """Turn the sums of one segment of rows at lags from zero on into those of the rows less a shift, in place.

    `total` is the sum of the rows, `head` and `tail` are the first and the last of them, one for every lag at least.
    """
    lags = np.arange(min(len(sums), int(n_rows)))
    of_head, of_tail = (np.cumsum(rows[: lags[-1]], axis=0) for rows in (head, tail[::-1]))
    late, early = (total - np.vstack([np.zeros_like(total), ends])[lags] for ends in (of_head, of_tail))
    known = sums[: len(lags)]
    known += (n_rows - lags)[:, None, None] * np.outer(shift, shift)
    known -= late[:, :, None] * shift + shift[:, None] * early[:, None]


def add_product(total, left, right):
    """Add ``left.T @ right`` in place, in a way that lets other threads run.

    A matrix times itself comes out symmetric but for rounding.
    """
    if left is right:  # for pieces in cache a general product takes half the time of a symmetric one
        right = right.copy()
    total += left.T @ right


def symmetric(total):
    """A sum of products of matrices with themselves, without what rounding has left of asymmetry."""
    return (total + total.T) / 2


def _add_fourier_products(sums, series, lags):
    """Add the products of as many early rows as fill windows, half the price for a dozen lags or more.

    A window of early rows is correlated with itself and the rows after it as a product of their Fourier
    transforms; the windows' products at one frequency are one matrix product.
    """
    most, n = max(lags), series.shape[1]
    window = max(-(-2 * most // TUNING.episodes_in_steps) * TUNING.episodes_in_steps, TUNING.episodes_least_window)
    width = window - most  # early rows of a window; circular products are those of the series up to `most`
    n_windows = max(len(series) - most, 0) // width
    if n_windows == 0:
        return 0
    frequencies = 2 * np.pi / window * np.arange(window // 2 + 1)
    angles = np.outer(frequencies, np.arange(window))
    transform = np.concatenate([np.cos(angles), -np.sin(angles)])
    k = len(frequencies)
    real, imaginary = np.zeros((k, n, n)), np.zeros((k, n, n))
    windows = sliding_window_view(series, window, axis=0)[: n_windows * width : width]
    n_at_once = max(TUNING.episodes_at_once // window, 1)
    for first in range(0, n_windows, n_at_once):
        rows = np.swapaxes(windows[first : first + n_at_once], 1, 2)  # (windows, rows, n)
        late = (transform @ rows).reshape(-1, 2, k, n)
        early = (transform[:, :width] @ rows[:, :width]).reshape(-1, 2, k, n)
        late = np.transpose(late, (2, 3, 1, 0)).reshape(k, n, -1)
        early = np.transpose(early, (2, 1, 0, 3)).reshape(k, -1, n)
        turned = np.concatenate([-early[:, len(rows) :], early[:, : len(rows)]], axis=1)
        real += late @ early
        imaginary += late @ turned
    weights = np.where((np.arange(k) == 0) | (2 * np.arange(k) == window), 1.0, 2.0) / window
    angles = np.outer(lags, frequencies)
    sums += np.tensordot(weights * np.cos(angles), real, 1)
    sums -= np.tensordot(weights * np.sin(angles), imaginary, 1)
    return n_windows * width


@dataclass(frozen=True)
class TransitionMoments:
    """Lag covariances of the transitions ``(s[t-1] -> s[t])`` of a record.

    The residuals ``r[t] = s[t] - A s[t-1]`` have lag covariances ``late - A back - cross A' + A early A'``
    exactly, whatever A; for states that move slowly this is far more accurate than what a truncated
    spectrum of s would give.
    """

    late: np.ndarray  # (n_lags + 1, ..., n, n)
    cross: np.ndarray  # (n_lags + 1, ..., n, n)
    early: np.ndarray  # (n_lags + 1, ..., n, n)
    back: np.ndarray  # (n_lags + 1, ..., n, n)
    n_transitions: float  # or the sum of their weights

    @classmethod
    def from_sums(cls, sums, series, starts):
        """Moments from the lag sums 0..n_lags+1 of a series and its rows at the ends of episodes."""
        late, early = sums[:-1].copy(), sums[:-1].copy()
        cross, back = sums[1:].copy(), np.empty_like(late)
        back[0] = sums[1].T
        back[1:] = sums[:-2]
        n_lags = len(late) - 1
        n_transitions = 0
        for start, stop in episodes(starts, len(series)):
            length = stop - start
            n_transitions += length - 1
            most = min(n_lags, length - 1)
            head, tail = series[start : start + most + 1], series[stop - most - 1 : stop][::-1]
            first, last = head[:, :, None] * head[0], tail[0][:, None] * tail[:, None]  # by lag
            late[: most + 1] -= first
            early[: most + 1] -= last
            back[1 : most + 2] -= first[:n_lags]
            back[1 : most + 1] -= last[:-1]
        n = max(n_transitions, 1)
        return cls(late / n, cross / n, early / n, back / n, n_transitions)

    @classmethod
    def weighted(cls, series, weights, n_lags, starts):
        """Moments in which a transition has a weight, and with it its products with later ones."""
        late, cross, early, back = sums = np.zeros((4, n_lags + 1, *[series.shape[1]] * 2))
        total = 0.0
        for start, stop in episodes(starts, len(series)):
            now, before = series[start + 1 : stop], series[start : stop - 1]
            w = weights[start + 1 : stop, None]
            total += w.sum()
            weighted_now, weighted_before = w * now, w * before
            for lag in range(min(n_lags, len(now) - 1) + 1):
                kept = slice(0, len(now) - lag)
                late[lag] += now[lag:].T @ weighted_now[kept]
                cross[lag] += now[lag:].T @ weighted_before[kept]
                early[lag] += before[lag:].T @ weighted_before[kept]
                back[lag] += before[lag:].T @ weighted_now[kept]
        sums /= max(total, 1.0)
        return cls(late, cross, early, back, total)

    def transformed(self, left):
        """Moments of ``left @ s``."""
        right = np.swapaxes(left, -1, -2)
        return self._each(lambda part: left @ part @ right)

    def without_last_bits(self, scale):
        """The same moments, rounded as :func:`~skfedcausal.statespace.matrices.without_last_bits` says."""
        return self._each(partial(without_last_bits, scale=scale))

    def blocks(self, slices, common=slice(0, 0)):
        """Moments of parts of the series, stacked along a new axis: shape (n_lags + 1, k, p, p).

        Columns `common` to all parts are appended to each.
        """
        column = np.arange(self.late.shape[-1])
        chosen = [np.concatenate([column[rows], column[common]]) for rows in slices]
        return self._each(lambda part: np.stack([part[:, own[:, None], own] for own in chosen], axis=1))

    def _each(self, change):
        late, cross, early, back = map(change, (self.late, self.cross, self.early, self.back))
        return TransitionMoments(late, cross, early, back, self.n_transitions)

    def spectra(self, frequencies):
        """Fourier sums over positive and negative lags."""
        phase = np.exp(-1j * np.outer(frequencies, np.arange(1, len(self.late))))
        return (
            fourier_sums(self.late, self.late, phase),
            fourier_sums(self.cross, self.back, phase),
            fourier_sums(self.early, self.early, phase),
        )


def fourier_sums(positive, negative, phase):
    """Sums over lags, of `positive` at lags from zero on with the transposes of `negative` at negative ones.

    `phase` holds ``exp(-i w l)`` of frequencies w and lags l from one on; frequencies come before the last
    two axes.
    """
    forward = backward = _turned(phase, positive[1:])
    if negative is not positive:
        backward = _turned(phase, negative[1:])
    return positive[0][..., None, :, :] + forward + hermitian(backward)


def _turned(phase, lags):
    """Sums over lags (l, ..., n, n), frequencies before the last two axes."""
    sums = phase @ lags.reshape(len(lags), -1)
    return np.moveaxis(sums.reshape(len(phase), *lags.shape[1:]), 0, -3)
