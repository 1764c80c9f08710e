"""Checks of what a fitted plant assumes: series that give a statistic and a p value, and levels that shift."""

from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy.special import chdtrc, fdtrc, ndtr, ndtri
from scipy.stats import rankdata

from ...statespace.episodes import (
    column_mean,
    episodes,
    inner_rows,
    lag_covariances,
    lagged_rows,
    mean_with_error,
    side_by_side,
)
from ...statespace.kalman import driven_recurrence
from ...statespace.matrices import companion, slices_of
from .tuning import TUNING

# Checks of what a fitted plant assumes: each a function of series that gives a statistic and a p value.
#
# Innovations come as one array (n_samples, p) by unit, of unit covariance. What fat tails move is judged by ranks.


def unit_series(series):
    """Columns of a series turned and scaled to unit covariance; without those that are none."""
    centred = series - column_mean(series)
    values, axes = np.linalg.eigh(centred.T @ centred / len(centred))
    kept = values > 1e-10 * max(values[-1], 1e-300)
    return centred @ (axes[:, kept] / np.sqrt(values[kept]))


# -- innovations -----------------------------------------------------------------------------------


def squares_of_lags(units, n_lags, *, any_variance=False):
    """Squared correlations of every unit (effect) with the rows before of every unit, summed, (n_lags, m, m).

    About chi-squares, with the degrees of freedom (m, m), where innovations are white. They are cut off far out, so
    that a few rows of far tails do not make products of their own. With `any_variance` products are judged by their own
    scatter.
    """
    n_samples, E = len(units[0]), np.clip(side_by_side(units), -TUNING.checks_far_out, TUNING.checks_far_out)
    E -= column_mean(E)
    E /= np.sqrt(np.einsum("ti,ti->i", E, E) / len(E))
    sizes = np.array([series.shape[1] for series in units])
    owner = np.repeat(np.eye(len(units)), sizes, axis=1)
    lags = np.arange(1, n_lags + 1)
    scatter = lag_covariances(np.square(E), lags) if any_variance else (n_samples - lags)[:, None, None]
    return owner @ (np.square(lag_covariances(E, lags)) / scatter) @ owner.T, np.outer(sizes, sizes)


def portmanteau(squares_by_lag, dof, n_lags):
    """P values (m, m) of all of the first lags together, from :func:`squares_of_lags`."""
    return chdtrc(n_lags * dof, squares_by_lag[:n_lags].sum(axis=0))


def late_lags(squares_by_lag, dof, first):
    """The lag from the `first` on that shows most, and its p value times their number, (m, m)."""
    late = squares_by_lag[first - 1 :]
    return first + late.argmax(axis=0), np.minimum(len(late) * chdtrc(dof, late.max(axis=0)), 1.0)


def rank_squares(series):
    """How far innovations are from zero, row by row, as normal scores of the ranks."""
    return ndtri(rankdata(np.square(series).sum(axis=1)) / (len(series) + 1))


def squares(units, n_lags=10):
    """Whether calm and rough rows of a unit follow each other: statistics and p values (m,)."""
    found = []
    for series in units:
        q, n = rank_squares(series), len(series)
        found.append(sum(float(q[lag:] @ q[:-lag]) ** 2 / n for lag in range(1, n_lags + 1)))
    return np.array(found), chdtrc(n_lags, np.array(found))


def roughness(units):
    """Whether two units are rough in the same rows, apart from what they share: {(m, n): (statistic, p value)}."""
    n, together = len(units[0]), {}
    rows = [np.ascontiguousarray(series.T) for series in units]  # sums of few columns go row by row
    scores = [_log_squares(_squared_norms(series), len(series)) for series in rows]
    for m in range(len(units)):
        for k in range(m):
            size = _squared_norms(rows[m] - (rows[m] @ units[k] / n) @ rows[k])
            if size.max() <= TUNING.checks_copied:  # it has nothing apart from what they share, in no row
                together[k, m] = 0.0, 1.0
                continue
            z = float(_log_squares(size, len(rows[m])) @ scores[k]) / np.sqrt(n)
            together[k, m] = z, 2 * float(ndtr(-abs(z)))
    return together


def _squared_norms(rows):
    return np.einsum("pt,pt->t", rows, rows)


def _log_squares(size, p):
    """Logarithms of how far rows are from zero, standardised: fat tails weigh little, as do rows near zero.

    All zero where rows are as far as each other: none of them is a rough one.
    """
    size = np.log(size / p + TUNING.checks_least_square)
    size -= size.mean()
    spread = np.sqrt(size @ size / len(size))
    return size / spread if spread > TUNING.checks_rounded else np.zeros_like(size)


def correlation(units):
    """Largest canonical correlation of innovations of two units in the same row, (m, m)."""
    slices, E = slices_of(series.shape[1] for series in units), side_by_side(units)
    products, size = E.T @ E / len(E), np.empty((len(units),) * 2)
    for first, second in np.ndindex(size.shape):
        size[first, second] = np.linalg.svd(products[slices[first], slices[second]], compute_uv=False)[0]
    return size


def together(first, second):
    """Whether two units' innovations of a row go together, whatever their variance is: statistic and p value."""
    products = (first[:, :, None] * second[:, None]).reshape(len(first), -1)
    mean = products.mean(axis=0)
    statistic = float(mean @ np.linalg.pinv(np.cov(products.T).reshape((len(mean),) * 2), hermitian=True) @ mean)
    return len(first) * statistic, float(chdtrc(len(mean), len(first) * statistic))


def halves(units, states, starts, pairs):
    """Chow's test: whether innovations follow earlier states otherwise in one half than in the other.

    `states` are one array by unit. The moments are compared as means, whatever the variance of the noise is. Statistics
    and p values, one of each for every pair (effect, cause).
    """
    n_samples = len(units[0])
    later = inner_rows(n_samples, starts)
    parts = np.split(later, [np.searchsorted(later, n_samples // 2)])
    statistic, p_values = np.zeros(len(pairs)), np.ones(len(pairs))
    if min(map(len, parts)) < 2:
        return statistic, p_values
    late = [np.ascontiguousarray(e.T) for e in units]  # products of few columns go row by row
    early = [np.ascontiguousarray((h - column_mean(h)).T) for h in states]
    moments = [_moments(pairs, [e.take(t, 1) for e in late], [h.take(t - 1, 1) for h in early]) for t in parts]
    for k, ((a, V), (b, W)) in enumerate(zip(*moments, strict=True)):
        statistic[k] = (a - b) @ np.linalg.pinv(V + W, hermitian=True) @ (a - b)
        p_values[k] = chdtrc(len(a), statistic[k])
    return statistic, p_values


def _moments(pairs, units, states):
    """Means of products of innovations and states (p, n), flat, and their covariances, of pairs (effect, cause)."""
    n = units[0].shape[1]
    own, others = ([(x[:, None] * x).reshape(len(x) ** 2, n) for x in series] for series in (units, states))
    for effect, cause in pairs:
        mean, p, q = units[effect] @ states[cause].T / n, len(units[effect]), len(states[cause])
        fourth = (own[effect] @ others[cause].T / n).reshape(p, p, q, q)
        flat = mean.ravel()
        yield flat, (fourth.transpose(0, 2, 1, 3).reshape(p * q, p * q) - np.outer(flat, flat)) / n


def own_way(row, cause):
    """Whether what a cause adds to an effect (n, p) is more than what comes by another unit in the same row.

    `row` (n, p) is what is new of the effect less that of the other unit; the p value is that of nothing left.
    """
    n, p = row.shape
    X = cause - cause.mean(axis=0)
    Y = row - row.mean(axis=0)
    coefficients, *_ = np.linalg.lstsq(X, Y, rcond=None)
    rest = Y - X @ coefficients
    explained = float(np.trace(np.linalg.pinv(rest.T @ rest / n, hermitian=True) @ (coefficients.T @ X.T @ Y)))
    return explained, float(chdtrc(p * np.linalg.matrix_rank(X), max(explained, 0.0)))


def held_out_gain(target, cause, share=0.3):
    """What a cause helps to predict a target (n, p) in the last rows, learned in those before: nats a row, error."""
    n = len(target)
    cut = n - round(share * n)
    X, Y = cause - column_mean(cause[:cut]), target - column_mean(target[:cut])
    coefficients = _regression(X[:cut], Y[:cut])
    least = TUNING.checks_least_left * float(np.square(Y[:cut]).sum()) / cut
    if not least > 0:  # a target that never moved: nothing helps to predict it
        return 0.0, 0.0
    with_cause, without = (_log_densities(rest, cut, least) for rest in (Y - X @ coefficients, Y))
    return mean_with_error(with_cause - without)


def _regression(X, Y):
    """Coefficients of least squares, the smallest where columns of X say the same."""
    values, axes = np.linalg.eigh(X.T @ X)
    if values[0] > TUNING.checks_told_apart * values[-1]:  # sums of products lose no digit, and take a third
        return axes @ ((axes.T @ (X.T @ Y)) / values[:, None])
    return np.linalg.lstsq(X, Y, rcond=None)[0]


def _log_densities(rest, cut, least):
    """Of the rows behind `cut`, without constants, of tails that single rows do not decide about.

    Those of t with few degrees of freedom, whose scale is the covariance of the rows before, with variances of at least
    `least`.
    """
    n, p = rest[:cut].shape
    values, axes = np.linalg.eigh(rest[:cut].T @ rest[:cut] / n)
    values = np.maximum(values, max(1e-10 * values[-1], least)) * (TUNING.checks_tail - 2) / TUNING.checks_tail
    size = np.square(rest[cut:] @ axes) @ (1 / values)
    return -0.5 * (TUNING.checks_tail + p) * np.log1p(size / TUNING.checks_tail) - 0.5 * np.log(values).sum()


# -- seasons and trends ---------------------------------------------------------------------------------------


@lru_cache(4)
def _beside(n):
    """Of frequencies of a record of n rows that may be lines: where sums over those below and above begin and end.

    With a taper, and by how many frequencies there are beside them those that are alike.
    """
    n_frequencies = n // 2  # without the highest
    k = np.arange(TUNING.checks_least_bin, n_frequencies - 1)
    near, far = TUNING.checks_guard, TUNING.checks_guard + TUNING.checks_beside
    below = np.maximum([k - far, k - near], 1)
    above = np.minimum([k + near + 1, k + far + 1], n_frequencies)
    n_left = below[1] - below[0]
    count = n_left + (above[1] - above[0])
    alike = [np.flatnonzero(count == each) for each in np.unique(count)]
    return np.hanning(n), (below, above), np.maximum(n_left, 1), np.maximum(count, 1), alike


def line(series):
    """The most marked line of a spectrum against frequencies beside it: ratio, p value for all of them, period."""
    n, p = series.shape
    if n < 4 * (TUNING.checks_guard + TUNING.checks_beside):
        return 1.0, 1.0, np.nan
    taper, sides, n_left, n_both, alike = _beside(n)
    spectrum = np.fft.rfft(np.ascontiguousarray(series.T) * taper)[:, :-1]
    power = np.square(spectrum.real) + np.square(spectrum.imag)
    sums = np.zeros((p, power.shape[1] + 1))
    np.cumsum(power, axis=1, out=sums[:, 1:])
    left, right = (sums.take(stop, axis=1) - sums.take(start, axis=1) for start, stop in sides)
    level = (left + right) / n_both
    # a spectrum that falls has more on one side; few frequencies tell nothing of it
    np.maximum(level, left / n_left, out=level, where=n_left >= 3)
    # a difference of sums of all lower frequencies, which beside a line or a trend alone is rounding of these
    np.maximum(level, 4 * np.finfo(float).eps * sums[:, -1:] + np.finfo(float).tiny, out=level)
    ratio = (power[:, TUNING.checks_least_bin : -1] / level).mean(axis=0)
    # of frequencies with as many beside them the largest ratio is the least likely
    first = np.sort([same[ratio[same].argmax()] for same in alike])
    # tapered neighbours are not independent: about half as many are
    found = fdtrc(2 * p, p * n_both[first], ratio[first])
    best = int(first[found.argmin()])
    peak = _peak(power.sum(axis=0), TUNING.checks_least_bin + best)
    return float(ratio[best]), min(1.0, float(found.min()) * len(ratio)), n / peak


def _peak(power, k):
    """Place of a peak between frequencies: that of the parabola through the logarithms of three, where it has one."""
    k = k - 1 + int(power[k - 1 : k + 2].argmax())
    if not 0 < k < len(power) - 1:
        return float(k)
    left, top, right = np.log(np.maximum(power[k - 1 : k + 2], 1e-300))
    bend = left - 2 * top + right
    is_peak = top >= max(left, right) and bend < 0  # a spectrum that falls steeply may have none there
    return k + 0.5 * (left - right) / bend if is_peak else float(k)


def trend(series, path=None):
    """A straight line in time against autoregressive noise: statistic and p value, for all columns together.

    `path` (n, k) is what known shifts lead to, beside which the line has to be there: shifts that a plant
    was given for a trend leave a sawtooth, which has no slope of its own.
    """
    if len(series):
        series = series[:, np.ptp(series, axis=0) > 0]  # what never moves has none
    n, p = series.shape
    if n < 20 * TUNING.checks_ar or not p:  # too short, or a unit without states
        return 0.0, 1.0
    t = np.arange(n) - (n - 1) / 2
    if path is not None:
        basis, size, _ = np.linalg.svd(path - path.mean(axis=0), full_matrices=False)
        basis = basis[:, size > TUNING.checks_same * max(size[0], np.finfo(float).tiny)]
        columns = np.column_stack([t, series])
        beside = columns - basis @ (basis.T @ columns)
        left = np.linalg.norm(beside, axis=0) > TUNING.checks_same * np.linalg.norm(columns, axis=0)
        t, series = beside[:, 0], beside[:, 1:][:, left[1:]]
        p = series.shape[1]
        if not left[0] or not p:  # the path goes along the line, or is all that there is
            return 0.0, 1.0
    t /= np.sqrt(t @ t)
    slope = t @ series
    variance, error = np.transpose([_long_run_variance(x - b * t, b) for x, b in zip(series.T, slope, strict=True)])
    each = np.square(slope) / variance
    total = float(each.sum())
    # degrees of freedom that slow units leave of their variances, by what these have to do with the statistic
    dof = 1 / (1 / (5 * TUNING.checks_ar) + 0.5 * float(each @ error) / max(total, np.finfo(float).tiny))
    return total / p, float(fdtrc(p, dof, total / p))


def _long_run_variance(x, slope=0.0):
    """Of an autoregression around a line of that slope, by Burg's recursion, and its squared relative error.

    Both are those of its distance from a unit root, which a line that is taken off makes larger than it is [1]_. The
    squared error of that is the sum over orders below, ``variance sum_k A_k(1)^2 / (n P_k)`` with filters A and
    variances P: sums of the inverse covariance of as many rows, by its Cholesky factors.

    References
    ----------
    .. [1] Kendall (1954), Note on bias in the estimation of autocorrelation, Biometrika 41.
    """
    n, forward, backward = len(x), x, x
    # rounding, which is what a line alone leaves, and an autoregression of what it says exactly
    least = np.finfo(float).eps ** 2 * max(slope**2, float(x @ x)) + np.finfo(float).tiny
    gap, variance, information = 1.0, float(x @ x) / len(x), 0.0  # of the coefficients only the sum is asked for
    for _ in range(TUNING.checks_ar):
        variance = max(variance, least)
        information += gap**2 / variance
        f, b = forward[1:], backward[:-1]
        k = -2 * float(f @ b) / max(float(f @ f + b @ b), least)
        gap, variance = gap * (1 + k), variance * (1 - k**2)
        forward, backward = f + k * b, b + k * f
    gap = max(abs(gap) - TUNING.checks_bias / n, TUNING.checks_least_gap)
    variance = max(variance, least)
    return variance / gap**2, 4 * variance * information / (n * gap**2)


def response(lags, starts, states):
    """What earlier states of a unit (n, q) add to others through matrices of its lags (l, p, q)."""
    return lagged_rows(states, len(lags), starts) @ np.hstack(list(lags)).T


def settled_path(lags, new_levels, steps, starts):
    """States (n_samples, n) that shifts alone move, rows `steps` (n_samples, k), to `new_levels` (n, k) in the end."""
    n_lags, n, _ = lags.shape
    step, pull = companion(np.hstack(list(lags)), n_lags), np.zeros((len(steps), n * n_lags))
    pull[:, :n] = steps @ (new_levels - lags.sum(axis=0) @ new_levels).T
    path = np.empty((len(steps), n))
    for start, stop in episodes(starts, len(steps)):
        path[start] = new_levels @ steps[start]  # as before the episode
        held = np.tile(path[start], n_lags)
        path[start + 1 : stop] = driven_recurrence(step, (pull[start : stop - 1], None), x0=held)[:, :n]
    return path


# Rows in which the levels of a plant shift, again and again: set points that units follow.
#
# Scores of all units together are cut where the mean before differs from that behind, against the long-run covariance
# of autoregressions around levels of their own. A level that drifts has shifts wherever one looks, and means that
# differ between the halves of every stretch between them: of such scores nothing is said.

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
