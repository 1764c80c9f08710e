"""Sensors whose levels wander: how far from row to row, and what is slower than a period.

A sensor that wanders shows ``C h[t] + v[t] + s[t]`` with white v and a random walk s. Directions of the sensors that no
state moves have v and s alone, so that their spectrum in the cosines of a record is ``1 + step^2 / (4 sin(w / 2)^2)`` in
units of v. States that are slow leave these directions flat.
"""

import numpy as np
from scipy.fft import dct, idct
from scipy.optimize import minimize_scalar

_FAST = 30.0  # rows: what is faster tells directions that no state moves
_BANDS = 6  # of the faster frequencies, in which noise is equally large
_AS_WHITE = 1.5  # of the scatter that white noise has between these bands
_FEWEST_ROWS, _MOST_ROWS = 300, 10_000  # that are looked at
_CLEAR = 15.0  # twice the log-likelihood of a walk beside none: a chance below 1e-4
_STEPS = 1e-4, 1.0  # of a walk, in deviations of the white noise
_ALIKE = 1e-8  # of the largest variance, below which a direction says what others do
_CUT = 1.5  # times the frequency at which a walk is as large as the noise


def walk_step(series):
    """Step from row to row of the random walks in series (n_samples, d), in deviations of their white noise.

    Zero where fewer than two directions are white from row to row, or only one of them wanders: a state that is slow
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
    walk = 1 / (4 * np.sin(np.pi * np.arange(1, slowest + 1) / n / 2) ** 2)
    step, rest = 0.0, white
    for _ in range(2):  # white directions are a little off, and then show a multiple of what states do
        weights = 1 / np.sqrt(1 + step**2 * walk)[:, None]
        rest = white - moved @ np.linalg.lstsq(weights * moved, weights * white, rcond=1e-10)[0]
        step = _likeliest(rest, walk)[0]
    others = rest @ np.linalg.svd(rest, full_matrices=False)[2][1:].T
    return step if _likeliest(others, walk)[1] > _CLEAR else 0.0


def _white_first(fast):
    """Directions of unit variance in fast frequencies, those as large in all bands of them first, and their number."""
    n, (sizes, axes) = len(fast), np.linalg.eigh(fast.T @ fast / len(fast))
    kept = sizes > _ALIKE * max(sizes[-1], np.finfo(float).tiny)
    axes = axes[:, kept] / np.sqrt(sizes[kept])
    bands = np.array([band.T @ band / len(band) for band in np.array_split(fast @ axes, _BANDS)])
    unlike = bands - np.eye(axes.shape[1])
    values, turn = np.linalg.eigh((unlike @ unlike).mean(axis=0))
    return axes @ turn, int((values < _AS_WHITE * len(values) * _BANDS / n).sum())


def _likeliest(waves, walk):
    """Step of a walk beside white noise of unit variance by Whittle's likelihood, and twice what it gains."""
    q, size = waves.shape[1], np.square(waves).mean(axis=1)

    def cost(log_step):
        spectrum = 1 + np.exp(2 * log_step) * walk
        return q * float((np.log(spectrum) + size / spectrum).sum())

    found = minimize_scalar(cost, bounds=np.log(_STEPS), method="bounded")
    return float(np.exp(found.x)), q * float(size.sum()) - found.fun


def cut_of(step):
    """Period in rows from which on a walk of that step is taken off; infinite without one."""
    return 2 * np.pi / (_CUT * step) if step > 0 else np.inf


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
