"""Rows in which the levels of a plant shift, again and again: set points that units follow.

Scores of all units together are cut where the mean before differs from that behind, against the long-run covariance of
autoregressions around levels of their own. A level that drifts has shifts wherever one looks, and means that differ
between the halves of every stretch between them: of such scores nothing is said.
"""

from itertools import pairwise

import numpy as np
from scipy.special import chdtrc

from ...statespace.episodes import episodes
from .tuning import TUNING

_LAGS = 6  # of the autoregression of a score
_ROUNDED = (10 * np.finfo(float).eps) ** 2  # share of a square up to which scatter around a level is rounding


def shifts(series, starts):
    """Rows (start, stop) in which levels of series (n_samples, k) move that do not wander, a list."""
    n = len(series)
    if n < 2 * TUNING.levels_block or not series.shape[1]:
        return []
    ends = [*starts, n]
    edges = np.concatenate([_even(*pair, TUNING.levels_block) for pair in pairwise(ends)])
    cuts: list[int] = []
    calm = _calm(series, edges)  # blocks with a shift inside would have it taken for scatter, the more the larger it is
    for _ in range(TUNING.levels_passes):  # each with the scatter around levels that the one before has found
        white, before = series @ _long_run_root(series, edges, calm), cuts
        cuts = [cut for first, stop in episodes(starts, n) for cut in _cuts(white, first, stop)]
        edges = np.array(sorted({*starts, *cuts}))
        calm = np.ones(len(edges), dtype=bool)
        if cuts == before:
            break
    ends = [*edges.tolist(), n]
    is_often = TUNING.levels_fewest <= len(cuts) <= n / TUNING.levels_block
    if not is_often or _gain(white, ends) < _wave_gain(white, 2 * len(cuts)):
        return []
    return [_ramp(white, *around) for around in zip(ends, ends[1:], ends[2:], strict=False) if around[1] in cuts]


def movers(units, found, starts):
    """Units, of scores (n_samples, k) each, that move in each of the shifts found, (n_shifts, n_units) bool.

    Those whose own scores have means beside a shift that differ, and the one where they differ most clearly.
    """
    middles = [(start + stop) // 2 for start, stop in found]
    edges = np.array(sorted({*starts, *middles}))
    places, counts = np.searchsorted(edges, middles), np.diff([*edges, len(units[0])])
    variance = 1 / counts[places] + 1 / counts[places - 1]
    p = np.empty((len(found), len(units)))
    for unit, x in enumerate(units):
        white = x @ _long_run_root(x, edges, np.ones(len(edges), dtype=bool))
        means = np.add.reduceat(white, edges) / counts[:, None]
        p[:, unit] = chdtrc(x.shape[1], np.square(means[places] - means[places - 1]).sum(axis=1) / variance)
    return (p < TUNING.levels_level / len(found)) | (p == p.min(axis=1, keepdims=True))


def _gain(white, ends):
    """What levels between cuts explain."""
    around = white - white.mean(axis=0)
    return sum(float(np.square(around[a:b].sum(axis=0)).sum()) / (b - a) for a, b in pairwise(ends))


def _wave_gain(white, k):
    """What the k slowest cosines explain, as they do of what drifts."""
    n = len(white)
    waves = np.cos(np.pi * np.outer(np.arange(1, k + 1), (np.arange(n) + 0.5) / n)) * np.sqrt(2 / n)
    return float(np.square(waves @ white).sum())


def _even(first, stop, length):
    return np.linspace(first, stop, max((stop - first) // length, 1), endpoint=False).astype(int)


def _calm(series, edges):
    """Blocks between `edges` with about the scatter of the calm ones, (n_blocks,) bool."""
    counts = np.diff([*edges, len(series)])
    square = np.add.reduceat(np.square(_around_levels(series, edges)), edges) / counts[:, None]
    usual = np.quantile(square, TUNING.levels_calm, axis=0)
    moves = usual > _ROUNDED * np.square(series).max(axis=0)  # the others stand still in many blocks
    scatter = (square / np.where(moves, usual, 1.0)).mean(axis=1)
    return scatter <= TUNING.levels_as_calm * np.quantile(scatter, TUNING.levels_calm)


def _around_levels(series, edges):
    """Series around a level between any two of `edges`."""
    counts = np.diff([*edges, len(series)])
    return series - np.repeat(np.add.reduceat(series, edges) / counts[:, None], counts, axis=0)


def _long_run_root(series, edges, kept):
    """Square root of the inverse long-run covariance of series around levels between `edges`, from blocks `kept`."""
    k, ends = series.shape[1], [*edges, len(series)]
    around = _around_levels(series, edges)
    inside = np.concatenate(
        [np.arange(a + _LAGS, b) for (a, b), keep in zip(pairwise(ends), kept, strict=True) if keep]
    )
    news, gain = np.empty((len(inside), k)), np.empty(k)
    for j, x in enumerate(around.T):
        past = np.column_stack([x[inside - lag] for lag in range(1, _LAGS + 1)])
        a = np.linalg.lstsq(past, x[inside], rcond=None)[0]
        news[:, j], gain[j] = x[inside] - past @ a, max(1 - a.sum(), 1e-3)
    values, axes = np.linalg.eigh(news.T @ news / len(inside) / np.outer(gain, gain))
    # where all stands still in the blocks that were kept, that of the other rows, and of the levels, counts
    largest = max(values[-1], float(series.var(axis=0).max()))
    if largest <= _ROUNDED * np.square(series).max():
        return np.zeros_like(axes)
    return axes / np.sqrt(np.maximum(values, TUNING.levels_least * largest))


def _cuts(white, first, stop):
    """Rows at which to cut a stretch, and its parts again."""
    statistic, row = _best(white[first:stop])
    if not chdtrc(white.shape[1], statistic) * (stop - first) < TUNING.levels_level:
        return []
    row += first
    return [*_cuts(white, first, row), row, *_cuts(white, row, stop)]


def _best(white):
    """Largest statistic of two means for one, of unit long-run covariance, and its row."""
    n = len(white)
    if n < 2 * TUNING.levels_shortest:
        return 0.0, 0
    rows = np.arange(TUNING.levels_shortest, n - TUNING.levels_shortest + 1)
    total = np.cumsum(white - white.mean(axis=0), axis=0)[rows - 1]
    statistic = np.square(total).sum(axis=1) * n / (rows * (n - rows))
    best = int(statistic.argmax())
    return float(statistic[best]), int(rows[best])


def _ramp(white, first, cut, stop):
    """Where a level begins and ends to move: the ramp of least squares in the direction of the shift."""
    first, stop = max(first, cut - 2 * TUNING.levels_near), min(stop, cut + 2 * TUNING.levels_near)
    near = TUNING.levels_near // 2
    low = white[first : max(cut - near, first + 1)].mean(axis=0)
    size = white[min(cut + near, stop - 1) : stop].mean(axis=0) - low
    x = (white[first:stop] - low) @ size / max(size @ size, 1e-300)
    t, best = np.arange(first, stop), (np.inf, cut, cut)
    for start in range(max(cut - TUNING.levels_near, first), cut + 1, TUNING.levels_grid):
        for end in range(cut, min(cut + TUNING.levels_near, stop) + 1, TUNING.levels_grid):
            path = ((t - start + 1) / (end - start + 1)).clip(0, 1)
            best = min(best, (float(np.square(x - path).sum()), start, end))
    settled = best[2] + TUNING.levels_grid + TUNING.levels_settle
    return max(best[1] - TUNING.levels_grid, first), min(settled, stop)
