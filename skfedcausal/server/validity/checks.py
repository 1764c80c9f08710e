"""Checks of what a fitted plant assumes: each a function of series that gives a statistic and a p value.

Innovations come as one array (n_samples, p) by unit, of unit covariance. What fat tails move is judged by ranks.
"""

import numpy as np
from scipy.special import bdtrc, chdtrc, fdtrc, ndtr, ndtri
from scipy.stats import rankdata

from ...statespace.episodes import episodes
from ..links.benefit import mean_with_error

_GUARD, _BESIDE = 2, 12  # frequencies next to a line that belong to it, and those behind them on either side
_LEAST_BIN = 3  # what is slower is a trend
_FAR_OUT = 4.0  # deviations beyond which innovations count as that far
_TAIL = 5.0  # degrees of freedom of densities that are compared on rows held out
_AR = 6  # lags of the noise that a trend is judged against
_LEAST_SQUARE = 0.1  # of a row's mean square, below which rows are alike
_SAME = 1e-6  # of the largest singular value of paths, below which one says what another does
_LEAST_GAP = 1e-3  # of that autoregression from a unit root


def unit_series(series):
    """Columns of a series turned and scaled to unit covariance; without those that are none."""
    centred = series - series.mean(axis=0)
    values, axes = np.linalg.eigh(centred.T @ centred / len(centred))
    kept = values > 1e-10 * max(values[-1], 1e-300)
    return centred @ axes[:, kept] / np.sqrt(values[kept])


# -- innovations -----------------------------------------------------------------------------------


def whiteness(units, *n_lags, any_variance=False):
    """Portmanteau tests of every unit (effect) against the past of every unit, up to each of `n_lags`.

    Pairs of statistics and p values (m, m), one for each. Innovations are cut off far out, so that a few rows of far
    tails do not make products of their own. With `any_variance` products are judged by their own scatter.
    """
    (slices, E), n_samples = _side_by_side(units), len(units[0])
    E = np.clip(E, -_FAR_OUT, _FAR_OUT)
    E = (E - E.mean(axis=0)) / E.std(axis=0)
    total, found = np.zeros((E.shape[1],) * 2), {}
    sizes = np.array([series.shape[1] for series in units])
    squares = np.square(E) if any_variance else None
    for lag in range(1, max(n_lags) + 1):
        scatter = n_samples - lag if squares is None else squares[lag:].T @ squares[:-lag]
        total += np.square(E[lag:].T @ E[:-lag]) / scatter
        if lag in n_lags:
            statistic = np.array([[total[rows, cols].sum() for cols in slices] for rows in slices])
            found[lag] = statistic, chdtrc(lag * np.outer(sizes, sizes), statistic)
    return [found[lag] for lag in n_lags]


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


def common_squares(units):
    """Whether two units are rough in the same rows, apart from what they share: {(m, n): (statistic, p value)}."""
    n, found = len(units[0]), {}
    scores = [_log_squares(series) for series in units]
    for m in range(len(units)):
        for k in range(m):
            rest = units[m] - units[k] @ (units[k].T @ units[m] / n)
            z = float(_log_squares(rest) @ scores[k]) / np.sqrt(n)
            found[k, m] = z, 2 * float(ndtr(-abs(z)))
    return found


def common_bursts(units):
    """Whether the roughest hundredth of two units' rows coincide: {(m, n): (how many, p value)}."""
    n, found = len(units[0]), {}
    n_top = max(n // 100, 3)
    for m in range(len(units)):
        for k in range(m):
            rest = units[m] - units[k] @ (units[k].T @ units[m] / n)
            top, other = (np.argpartition(np.einsum("tp,tp->t", x, x), -n_top)[-n_top:] for x in (rest, units[k]))
            count = len(np.intersect1d(top, other))
            found[k, m] = float(count), float(bdtrc(count - 1, n_top, n_top / n)) if count else 1.0
    return found


def _log_squares(series):
    """Logarithms of how far rows are from zero, standardised: fat tails weigh little, as do rows near zero."""
    size = np.log(np.einsum("tp,tp->t", series, series) / series.shape[1] + _LEAST_SQUARE)
    size -= size.mean()
    return size / np.sqrt(size @ size / len(size))


def correlation(units):
    """Largest canonical correlation of innovations of two units in the same row, (m, m)."""
    n = len(units[0])
    return np.array([[np.linalg.svd(a.T @ b / n, compute_uv=False)[0] for b in units] for a in units])


def together(first, second):
    """Whether two units' innovations of a row go together, whatever their variance is: statistic and p value."""
    products = (first[:, :, None] * second[:, None]).reshape(len(first), -1)
    mean = products.mean(axis=0)
    statistic = float(mean @ np.linalg.pinv(np.cov(products.T).reshape((len(mean),) * 2), hermitian=True) @ mean)
    return len(first) * statistic, float(chdtrc(len(mean), len(first) * statistic))


def halves(units, states, starts):
    """Chow's test: whether innovations follow earlier states otherwise in one half than in the other, (m, m).

    `states` are one array by unit. The moments are compared as means, whatever the variance of the noise is.
    """
    n_samples, m = len(units[0]), len(units)
    later = np.setdiff1d(np.arange(1, n_samples), starts)
    centred = [h - h.mean(axis=0) for h in states]
    parts = later[later < n_samples // 2], later[later >= n_samples // 2]
    statistic, p_values = np.zeros((m, m)), np.ones((m, m))
    if min(map(len, parts)) < 2:
        return statistic, p_values
    moments = [_moments([e[rows] for e in units], [h[rows - 1] for h in centred]) for rows in parts]
    for effect in range(m):
        for cause in range(m):
            (a, V), (b, W) = (of(effect, cause) for of in moments)
            d = a - b
            statistic[effect, cause] = d @ np.linalg.pinv(V + W, hermitian=True) @ d
            p_values[effect, cause] = chdtrc(len(d), statistic[effect, cause])
    return statistic, p_values


def _moments(units, states):
    """Means of products of innovations and states, and their covariances, by pair of units; all in two products."""
    n = len(units[0])
    e_places, E = _side_by_side(units)
    h_places, H = _side_by_side(states)
    ee_places, EE = _side_by_side([_squares_of(e) for e in units])
    hh_places, HH = _side_by_side([_squares_of(h) for h in states])
    first, second = E.T @ H / n, EE.T @ HH / n

    def of(effect, cause):
        mean = first[e_places[effect], h_places[cause]]
        p, q = mean.shape
        fourth = second[ee_places[effect], hh_places[cause]].reshape(p, p, q, q).transpose(0, 2, 1, 3)
        flat = mean.ravel()
        return flat, (fourth.reshape(p * q, p * q) - np.outer(flat, flat)) / n

    return of


def _squares_of(series):
    """Products of all pairs of columns, (n, p * p)."""
    return (series[:, :, None] * series[:, None]).reshape(len(series), -1)


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
    X, Y = cause - cause[:cut].mean(axis=0), target - target[:cut].mean(axis=0)
    coefficients, *_ = np.linalg.lstsq(X[:cut], Y[:cut], rcond=None)
    with_cause, without = (_log_densities(rest, cut) for rest in (Y - X @ coefficients, Y))
    return mean_with_error(with_cause - without)


def _log_densities(rest, cut):
    """Of the rows behind `cut`, without constants, of tails that single rows do not decide about.

    Those of t with few degrees of freedom, whose scale is the covariance of the rows before.
    """
    n, p = rest[:cut].shape
    values, axes = np.linalg.eigh(rest[:cut].T @ rest[:cut] / n)
    values = np.maximum(values, 1e-10 * values[-1]) * (_TAIL - 2) / _TAIL
    size = (np.square(rest[cut:] @ axes) / values).sum(axis=1)
    return -0.5 * (_TAIL + p) * np.log1p(size / _TAIL) - 0.5 * np.log(values).sum()


def _side_by_side(units):
    ends = np.cumsum([0] + [series.shape[1] for series in units])
    return [slice(*pair) for pair in zip(ends[:-1], ends[1:], strict=True)], np.hstack(units)


# -- seasons and trends ----------------------------------------------------------------------------


def line(series):
    """The most marked line of a spectrum against frequencies beside it: ratio, p value for all of them, period."""
    n, p = series.shape
    if n < 4 * (_GUARD + _BESIDE):
        return 1.0, 1.0, np.nan
    taper = np.hanning(n)
    power = np.square(np.abs(np.fft.rfft(series * taper[:, None], axis=0)))[:-1]
    sums = np.vstack([np.zeros(p), np.cumsum(power, axis=0)])
    k = np.arange(_LEAST_BIN, len(power) - 1)
    below = np.maximum(k - _GUARD - _BESIDE, 1), np.maximum(k - _GUARD, 1)
    above = np.minimum(k + _GUARD + 1, len(power)), np.minimum(k + _GUARD + 1 + _BESIDE, len(power))
    left, right = (sums[stop] - sums[start] for start, stop in (below, above))
    n_left, n_right = (stop - start for start, stop in (below, above))
    level = (left + right) / (n_left + n_right)[:, None]
    # a spectrum that falls has more on one side; few frequencies tell nothing of it
    level = np.where((n_left >= 3)[:, None], np.maximum(level, left / np.maximum(n_left, 1)[:, None]), level)
    ratio = (power[k] / level).mean(axis=1)
    # tapered neighbours are not independent: about half as many are
    found = fdtrc(2 * p, p * np.maximum(n_left + n_right, 1), ratio)
    best = int(found.argmin())
    return float(ratio[best]), min(1.0, float(found[best]) * len(k)), n / _peak(power.sum(axis=1), int(k[best]))


def _peak(power, k):
    """Place of a peak between frequencies: that of the parabola through the logarithms of three."""
    k = k - 1 + int(power[k - 1 : k + 2].argmax())
    if not 0 < k < len(power) - 1:
        return float(k)
    left, top, right = np.log(np.maximum(power[k - 1 : k + 2], 1e-300))
    return k + 0.5 * (left - right) / min(left - 2 * top + right, -1e-12)


def trend(series, path=None):
    """A straight line in time against autoregressive noise: statistic and p value, for all columns together.

    `path` (n, k) is what known shifts lead to, beside which the line has to be there: shifts that a plant
    was given for a trend leave a sawtooth, which has no slope of its own.
    """
    n, p = series.shape
    if n < 20 * _AR:
        return 0.0, 1.0
    t = np.arange(n) - (n - 1) / 2
    if path is not None:
        around = path - path.mean(axis=0)
        basis, size, _ = np.linalg.svd(around, full_matrices=False)
        basis = basis[:, size > _SAME * max(size[0], np.finfo(float).tiny)]
        t, series = t - basis @ (basis.T @ t), series - basis @ (basis.T @ series)
    t /= np.sqrt(t @ t)
    total = 0.0
    for x in series.T:
        slope = t @ x
        total += slope**2 / _long_run_variance(x - slope * t)
    return total / p, float(fdtrc(p, 5 * _AR, total / p))


def _long_run_variance(x):
    """Of an autoregression by Burg's recursion."""
    forward = backward = x
    a, variance = np.ones(1), x @ x / len(x)
    for _ in range(_AR):
        f, b = forward[1:], backward[:-1]
        k = -2 * (f @ b) / (f @ f + b @ b)
        a = np.append(a, 0.0) + k * np.append(a, 0.0)[::-1]
        forward, backward = f + k * b, b + k * f
        variance *= 1 - k**2
    return variance / max(abs(a.sum()), _LEAST_GAP) ** 2


def response(lags, starts, states):
    """What earlier states of a unit (n, q) add to others through matrices of its lags (l, p, q)."""
    out = np.zeros((len(states), lags.shape[1]))
    for start, stop in episodes(starts, len(states)):
        for lag, matrix in enumerate(lags, 1):
            out[start + lag : stop] += states[start : stop - lag] @ matrix.T
    return out


def settled_path(lags, new_levels, steps, starts):
    """States (n_samples, n) that shifts alone move, rows `steps` (n_samples, k), to `new_levels` (n, k) in the end."""
    n_lags, n, _ = lags.shape
    rows = np.hstack(list(lags)).T
    pull = steps @ (new_levels - lags.sum(axis=0) @ new_levels).T
    path = np.empty((len(steps), n))
    for start, stop in episodes(starts, len(steps)):
        states = np.tile(new_levels @ steps[start], (n_lags + stop - start, 1))  # held before the episode
        for t in range(n_lags + 1, len(states)):
            before = states[t - n_lags : t][::-1]
            states[t] = before.ravel() @ rows + pull[start + t - n_lags - 1]
        path[start:stop] = states[n_lags:]
    return path
