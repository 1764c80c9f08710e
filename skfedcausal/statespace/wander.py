"""Sensors whose levels wander: how far from row to row, and what is slower than a period.

A sensor that drifts shows ``C h[t] + v[t] + s[t]`` with white v and a random walk s. Directions of the sensors that
no state moves have v and s alone, so that their spectrum in the cosines of a record is ``1 + step^2 / (4 sin(w/2)^2)``
in units of v. States that are slow leave these directions flat.
"""

from functools import lru_cache

import numpy as np
from scipy.fft import dct, idct

from .tuning import TUNING

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
