"""Measurements reduced to what they say about the state, and sensors whose levels wander."""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import NamedTuple

import numpy as np
from scipy.fft import dct, idct

from .tuning import TUNING

# Measurements reduced to what they say about the state: ``z = C' R^-1 y`` and ``J = C' R^-1 C``.
#
# The log-density of a unit's measurements given its state is
#
#     log p(y | h) = const + h' z - 1/2 h' J h,    const = -1/2 (D log 2 pi + log|R| + y' R^-1 y),
#
# so the pair (z, J) is a sufficient statistic: every filter, smoother and likelihood downstream uses only
# these, and a sensor that is missing at time t changes only z and J at time t. Where only the loadings C are
# known, :func:`sensor_noise` gives the noise R of the sensors; where they are not, :func:`factor_analysis` both.

_PIECE = 1024  # rows of measurements that stay in cache
_LOG_2PI = np.log(2 * np.pi)
_TOLERANCE = 1e-6  # relative change of a noise variance, far below its standard error


@dataclass(frozen=True)
class Information:
    """Sufficient statistic of a series of measurements."""

    z: np.ndarray  # (n_samples, n_states)
    patterns: np.ndarray  # (n_patterns, n_states, n_states)
    index: np.ndarray | None = None  # (n_samples,) or None
    const: np.ndarray | None = None  # (n_samples,) or None

    @property
    def is_constant(self):
        """Whether the same information matrix holds at every time step."""
        return self.index is None

    @property
    def pattern_of(self):
        """Which pattern holds at each time step, shape (n_samples,)."""
        return np.zeros(len(self.z), dtype=np.intp) if self.index is None else self.index

    @cached_property
    def regular_patterns(self):
        """Whether the measurements of a pattern determine the states, shape (n_patterns,)."""
        return _are_regular(self.patterns)

    @property
    def determined_rows(self):
        """Whether the measurements of a time step determine the states, shape (n_samples,)."""
        return self.regular_patterns[self.pattern_of]

    @property
    def mean_information(self):
        """Average information matrix over time, shape (n_states, n_states)."""
        if self.index is None:
            return self.patterns[0]
        counts = np.bincount(self.index, minlength=len(self.patterns))
        return np.tensordot(counts / counts.sum(), self.patterns, 1)

    @property
    def determines_states(self):
        """Whether the average information matrix is regular: every state is seen by some sensor."""
        return is_regular(self.mean_information)

    def matrices(self, rows=slice(None)):
        """Information matrix of each time step in `rows`, shape (n_rows, n_states, n_states)."""
        if self.index is None:
            return np.broadcast_to(self.patterns[0], (len(self.z[rows]), *self.patterns[0].shape))
        return self.patterns[self.index[rows]]


def is_regular(J):
    """Whether an information matrix is safely positive definite. J is (n, n)."""
    return bool(_are_regular(J))


def _are_regular(J):
    values = np.linalg.eigvalsh(J)
    return (values[..., 0] > 0) & (values[..., 0] > values[..., -1] / TUNING.observation_max_condition)


def weights(C, R):
    """``R^-1 C``, shape (n_sensors, n_states), for a full `R` or the diagonal of one."""
    if R.ndim == 1:
        return C / R[:, None]
    return np.linalg.solve(R, C)


def information(Y, C, R, *, mean=None, with_const=False):
    """Sufficient statistic of measurements, NaN standing for a sensor that is missing."""
    W = weights(C, R)
    z = np.empty((len(Y), W.shape[1]))
    for first in range(0, len(Y), _PIECE):  # in cache, where a product with few columns is faster
        np.matmul(Y[first : first + _PIECE], W, out=z[first : first + _PIECE])
    if np.isfinite(z.sum()) and not with_const:  # a missing value anywhere reaches the sum
        if mean is not None and mean.any():
            z -= mean @ W
        return Information(z, (C.T @ W)[None])
    if mean is not None:
        Y = Y - mean
    present = ~np.isnan(Y)
    if present.all():
        return _complete(Y, C, R, with_const)
    first, index = patterns_of(present)
    missing = _missing_diagonal if R.ndim == 1 else _missing_full
    info = missing(Y, C, R, present, first, index, with_const)
    return info if len(first) > 1 else replace(info, index=None)


def _complete(Y, C, R, with_const):
    W = weights(C, R)
    const = None
    if with_const:
        logdet = np.log(R).sum() if R.ndim == 1 else np.linalg.slogdet(R)[1]
        scaled = Y / R if R.ndim == 1 else np.linalg.solve(R, Y.T).T
        const = -0.5 * (len(C) * _LOG_2PI + logdet + np.einsum("ti,ti->t", Y, scaled))
    return Information(Y @ W, (C.T @ W)[None], None, const)


def _missing_diagonal(Y, C, R, present, first, index, with_const):
    W = weights(C, R)
    filled = np.where(present, Y, 0.0)
    masks = present[first].astype(float)
    patterns = np.einsum("kd,di,dj->kij", masks, W, C, optimize=True)
    const = None
    if with_const:
        per_pattern = masks @ (_LOG_2PI + np.log(R))
        const = -0.5 * (per_pattern[index] + (filled**2 / R).sum(axis=1))
    return Information(filled @ W, patterns, index, const)


def _missing_full(Y, C, R, present, first, index, with_const):
    n_states = C.shape[1]
    z = np.zeros((len(Y), n_states))
    patterns = np.zeros((len(first), n_states, n_states))
    const = np.zeros(len(Y)) if with_const else None
    for k, rows in enumerate(rows_of_patterns(index, len(first))):
        seen = np.flatnonzero(present[first[k]])
        if len(seen) == 0:
            continue
        part = _complete(Y[np.ix_(rows, seen)], C[seen], R[np.ix_(seen, seen)], with_const)
        z[rows], patterns[k] = part.z, part.patterns[0]
        if const is not None:
            const[rows] = part.const
    return Information(z, patterns, index, const)


def patterns_of(present):
    """Different patterns of rows: the first row of each, and the pattern of every row.

    `present` is (n_samples, n_sensors), the others (n_patterns,) and (n_samples,).
    """
    packed = np.packbits(present, axis=1)
    if packed.shape[1] <= 8:  # numbers sort faster than rows of bytes
        packed = np.pad(packed, [(0, 0), (0, 8 - packed.shape[1])]).view(">u8")[:, 0].astype(np.uint64)
    _, first, index = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    return first, index.reshape(-1)


def rows_of_patterns(index, n_patterns):
    """Rows of each pattern, a list of arrays."""
    order = np.argsort(index, kind="stable")
    return np.split(order, np.searchsorted(index[order], np.arange(1, n_patterns)))


def information_from_filter(prior, prior_cov, posterior, posterior_cov):
    """Sufficient statistic recovered from what a Kalman filter made of the measurements.

    A unit whose model is a black box can still take part: its filter's means and covariances before and
    after each measurement determine ``J = P+^-1 - P-^-1`` and ``z = P+^-1 h+ - P-^-1 h-``.
    """
    before, after = _precision(prior_cov, "predicted"), _precision(posterior_cov, "filtered")
    z = (after @ posterior[..., None] - before @ prior[..., None])[..., 0]
    J = after - before
    z, J = _without_rounding(z, (J + np.swapaxes(J, -1, -2)) / 2, np.abs(after).max())
    if J.ndim == 2:
        return Information(z, J[None])
    grid = np.round(J / (TUNING.observation_same * max(np.abs(J).max(), np.finfo(float).tiny)))
    _, index, counts = np.unique(grid.reshape(len(J), -1), axis=0, return_inverse=True, return_counts=True)
    index = index.reshape(-1)
    patterns = np.zeros((len(counts), *J.shape[1:]))
    np.add.at(patterns, index, J)
    patterns /= counts[:, None, None]
    return Information(z, patterns, index if len(counts) > 1 else None)


def _precision(covariance, which):
    covariance = np.asarray(covariance, dtype=float)
    values = np.linalg.eigvalsh(covariance)
    if not (values[..., 0] > np.finfo(float).eps * values[..., -1]).all():
        raise ValueError(
            f"A covariance of the {which} states is not positive definite, so what the measurements say "
            "cannot be read from it. States without uncertainty have to be left out."
        )
    return np.linalg.inv(covariance)


def _without_rounding(z, J, scale):
    """Statistic with the directions removed in which the difference of two precisions is rounding.

    `z` is (n_samples, n), `J` (n_patterns, n, n).
    """
    values, vectors = np.linalg.eigh(J)
    if values.min() < -TUNING.observation_loss * scale:
        raise ValueError(
            "A measurement has made the states less certain: the filtered covariance is larger than the "
            "predicted one. Give the covariances before and after each measurement, in this order."
        )
    kept = (values > TUNING.observation_rounding * scale).astype(float)
    if kept.all():
        return z, J
    right = np.swapaxes(vectors, -1, -2)
    z = (vectors @ (kept[..., None] * (right @ z[..., None])))[..., 0]
    return z, (vectors * (kept * values)[..., None, :]) @ right


class NoiseFit(NamedTuple):
    """Noise variances and whether the search for them ended at a maximum."""

    R: np.ndarray  # (n_sensors,)
    converged: bool
    n_steps: int


def sensor_noise(G, C, floor, max_steps=TUNING.observation_max_steps):
    """Noise variances of maximum likelihood when the loadings are known and the states' covariance is not.

    The states' covariance is concentrated out: with ``W = R^-1 C (C' R^-1 C)^-1`` its maximum, given R, is
    ``M - (C' R^-1 C)^-1`` with ``M = W' G W``. What is left of -2 log-likelihood per row is

        log|R| + log|C' R^-1 C| + log|M| + tr(P G),    P = R^-1 - W C' R^-1,

    whose Fisher information for R is ``1/2 P * (P + 2 W M^-1 W')`` (elementwise). Scoring in log R with
    Levenberg's damping reaches the maximum in a few steps, however strong the signal; EM takes about as
    many steps as the signal is times stronger than the noise [1]_.

    .. [1] Rubin, Thayer (1982), EM algorithms for ML factor analysis, Psychometrika 47(1).
    """
    low, high = np.log(floor), np.log(np.maximum(np.diag(G), floor))
    # to start with, what the projection on the space of C leaves over, scaled to all dimensions
    d, p = C.shape
    basis = np.linalg.qr(C)[0]
    rest = np.eye(d) - basis @ basis.T
    left_over = np.einsum("ij,jk,ki->i", rest, G, rest) * d / (d - p)
    theta = np.clip(np.log(np.maximum(left_over, np.finfo(float).tiny)), low, high)
    found = _least(theta, partial(_profile, G=G, C=C), (low, high), max_steps, _TOLERANCE)
    return NoiseFit(np.exp(found.theta), found.converged, found.n_steps)


class FactorFit(NamedTuple):
    """Loadings, noise variances, and how far S is from what they give: a likelihood ratio per row."""

    C: np.ndarray  # (n_sensors, n_factors), S^-1 orthogonal
    R: np.ndarray  # (n_sensors,)
    misfit: float  # 2 (max. log-likelihood of any covariance - that of this one) / n_rows


def factor_analysis(S, n_factors, floor):
    """Maximum likelihood over C and R >= floor of a covariance ``S = C C' + diag(R)`` of Gaussian rows.

    Given R the best C is made of the leading eigenvectors of ``R^-1/2 S R^-1/2``; what the others leave is
    minimised over log R with an approximate second derivative [1]_.

    .. [1] Joreskog (1967), Some contributions to maximum likelihood factor analysis, Psychometrika 32(4);
           Clarke (1970), British Journal of Mathematical and Statistical Psychology 23(1).
    """
    low, high = np.log(floor), np.log(np.maximum(np.diag(S), floor))
    theta = np.clip(-np.log(np.diag(np.linalg.pinv(S, hermitian=True))), low, high)
    found = _least(theta, partial(_left_by_factors, S=S, n_factors=n_factors), (low, high), 50, 1e-4)
    root = np.exp(found.theta / 2)
    vectors = np.linalg.eigh(S / np.outer(root, root))[1][:, ::-1]
    return FactorFit(vectors[:, :n_factors] * root[:, None], np.exp(found.theta), float(found.value))


def degrees_of_freedom(n_sensors, n_factors):
    """Of the likelihood ratio between any covariance and a factor model, zero where that fits any."""
    return max(((n_sensors - n_factors) ** 2 - n_sensors - n_factors) // 2, 0)


class _Least(NamedTuple):
    theta: np.ndarray
    value: float
    converged: bool
    n_steps: int


def _least(theta, profile, bounds, max_steps, tolerance):
    """Minimum over log variances of a function that comes with its score (uphill) and information."""
    value, score, fisher = profile(theta)
    damping = 1e-3
    for n_steps in range(1, max_steps + 1):
        step = _scoring_step(theta, score, fisher, damping, *bounds)
        if np.abs(step).max(initial=0.0) < tolerance:
            return _Least(theta, value, True, n_steps)
        trial = profile(theta + step)
        if trial[0] <= value:
            theta, (value, score, fisher) = theta + step, trial
            damping = max(damping / 10, 1e-12)
        elif damping < TUNING.observation_max_damping:
            damping *= 10
        else:  # no step of any length lowers the value any more: rounding is in the way
            return _Least(theta, value, True, n_steps)
    return _Least(theta, value, False, max_steps)


def _left_by_factors(theta, S, n_factors):
    """The misfit with the best loadings, its derivative downhill by log R and a positive second one.

    `theta` are log variances (d,), `S` is (d, d); a number, (d,) and (d, d) come back.
    """
    root = np.exp(theta / 2)
    values, vectors = np.linalg.eigh(S / np.outer(root, root))
    n_rest = len(S) - n_factors
    rest, left = np.maximum(values[:n_rest], np.finfo(float).tiny), vectors[:, :n_rest]
    return (rest - np.log(rest) - 1).sum(), left**2 @ (rest - 1), (left @ left.T) ** 2


def _profile(theta, G, C):
    """-2 log-likelihood per row, and score and information of the log-likelihood in log R.

    `theta` are log variances (d,), G is (d, d), C (d, p); a number, (d,) and (d, d) come back.
    """
    R = np.exp(theta)
    scaled = C / R[:, None]
    J = C.T @ scaled
    W = np.linalg.solve(J, scaled.T).T
    P = -(W @ scaled.T)
    P[np.diag_indices_from(P)] += 1 / R
    M = W.T @ (G @ W)
    with_states = P + 2 * (W @ np.linalg.solve(M, W.T))
    PG = P @ G
    of_J, of_M = np.linalg.slogdet(np.array([J, M]))[1]
    value = theta.sum() + of_J + of_M + PG.trace()
    score = np.einsum("ij,ji->i", PG, with_states) - P.diagonal()
    fisher = P * with_states * (R[:, None] * R)
    return value, 0.5 * R * score, 0.25 * (fisher + fisher.T)


def _scoring_step(theta, score, fisher, damping, low, high):
    """Damped step over the variances that are not held at a bound.

    `theta`, `score`, `low` and `high` are (d,), `fisher` is (d, d).
    """
    free = ~(((theta <= low) & (score < 0)) | ((theta >= high) & (score > 0)))
    step = np.zeros_like(theta)
    if free.any():
        H = fisher[np.ix_(free, free)]
        H[np.diag_indices_from(H)] += damping * (H.diagonal() + 1e-12 * max(H.trace(), np.finfo(float).tiny))
        step[free] = np.linalg.solve(H, score[free])
    step = np.minimum(np.maximum(step, -TUNING.observation_max_log_step), TUNING.observation_max_log_step)
    return np.minimum(np.maximum(theta + step, low), high) - theta


# Sensors whose levels wander: how far from row to row, and what is slower than a period.
#
# A sensor that drifts shows ``C h[t] + v[t] + s[t]`` with white v and a random walk s. Directions of the sensors that
# no state moves have v and s alone, so that their spectrum in the cosines of a record is ``1 + step^2 / (4
# sin(w/2)^2)`` in units of v. States that are slow leave these directions flat.

_FAST = 30.0  # rows: what is faster tells directions that no state moves
_FEWEST_ROWS, _MOST_ROWS = 300, 10_000  # that are looked at
_STEPS = np.geomspace(1e-3, 1, 46)  # of walks, in deviations of the white noise


def walk_step(series):
    """Step from row to row of the random walks in series (n_samples, d), in deviations of their white noise.

    Zero where fewer than two directions are white from row to row, or only one of them drifts: a state that is slow
    and hardly shows otherwise looks like that.
    """
    n = min(len(series), _MOST_ROWS)
    if n < _FEWEST_ROWS:
        return 0.0
    slowest = int(2 * n / _FAST)
    waves = dct(series[:n] - series[:n].mean(axis=0), axis=0, norm="ortho")[1:]
    axes, n_white = _white_first(waves[slowest:])
    if n_white < 2:
        return 0.0
    white, moved = np.hsplit(waves[:slowest] @ axes, [n_white])
    rest = _without(white, moved, np.ones(slowest))
    step, gain = _likeliest(_but_the_largest(rest), n)
    if gain < TUNING.wander_clear / 2:
        return 0.0
    rest = _without(white, moved, 1 / np.sqrt(1 + step**2 * _walk(slowest, n)))
    if _likeliest(_but_the_largest(rest), n)[1] < TUNING.wander_clear:
        return 0.0
    return _likeliest(rest, n)[0]


def _walk(k, n):
    """Spectrum of a random walk of step one in the k slowest cosines of n rows."""
    return 1 / (4 * np.sin(np.pi * np.arange(1, k + 1) / n / 2) ** 2)


@lru_cache(4)
def _walks(k, n):
    """One over the spectra of walks of all steps beside white noise, and sums of the logarithms of these."""
    spectra = 1 + np.square(_STEPS)[:, None] * _walk(k, n)
    return 1 / spectra, np.log(spectra).sum(axis=1)


def _white_first(fast):
    """Directions of unit variance in fast frequencies, those as large in all bands of them first, and their number.

    `fast` is (n_frequencies, d), the directions (d, k).
    """
    n, (sizes, axes) = len(fast), np.linalg.eigh(fast.T @ fast / len(fast))
    kept = sizes > TUNING.wander_alike * max(sizes[-1], np.finfo(float).tiny)
    axes = axes[:, kept] / np.sqrt(sizes[kept])
    bands = np.array([band.T @ band / len(band) for band in np.array_split(fast @ axes, TUNING.wander_bands)])
    unlike = bands - np.eye(axes.shape[1])
    values, turn = np.linalg.eigh((unlike @ unlike).mean(axis=0))
    return axes @ turn, int((values < TUNING.wander_as_white * len(values) * TUNING.wander_bands / n).sum())


def _without(white, moved, weights):
    """White directions, which are a little off, less what states show in them: a multiple of what they do.

    `white` and `moved` are (n_frequencies, k), `weights` (n_frequencies,).
    """
    weights = weights[:, None]
    return white - moved @ np.linalg.lstsq(weights * moved, weights * white, rcond=1e-10)[0]


def _but_the_largest(waves):
    """All directions but the largest. `waves` is (n_frequencies, k)."""
    return waves @ np.linalg.eigh(waves.T @ waves)[1][:, :-1]


def _likeliest(waves, n):
    """Step of a walk beside white noise of unit variance by Whittle's likelihood, and twice what it gains.

    `waves` are the slowest cosines of n rows.
    """
    size = np.square(waves).sum(axis=1)
    inverse, logarithms = _walks(len(waves), n)
    gains = size.sum() - waves.shape[1] * logarithms - inverse @ size
    k = min(max(int(gains.argmax()), 1), len(gains) - 2)
    left, top, right = gains[k - 1 : k + 2]
    bend = left - 2 * top + right
    beside = np.clip(0.5 * (left - right) / bend, -1, 1) if bend < 0 else 0.0  # of the parabola through the three
    return float(_STEPS[k] * (_STEPS[1] / _STEPS[0]) ** beside), float(gains.max())


def cut_of(step):
    """Period in rows from which on a walk of that step is taken off; infinite without one."""
    return 2 * np.pi / (TUNING.wander_cut * step) if step > 0 else np.inf


def moving_level(series, period):
    """What in series (n_samples, d) is slower than a period in rows, less what is as far beyond it.

    Taking off the former alone leaves a gap in the spectrum, which makes white noise look like dynamics. The slow
    cosines are given what their mirror images beyond the period have, so that there is none.
    """
    n = len(series)
    k = min(round(2 * n / period), (n - 1) // 2)
    waves = dct(series, axis=0, norm="ortho")
    waves[1 : k + 1] -= waves[2 * k : k : -1]
    waves[k + 1 :] = 0.0
    return idct(waves, axis=0, norm="ortho")
