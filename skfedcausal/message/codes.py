"""Series in few bits: whole steps of a fraction of each column's standard deviation.

Before it is rounded every number is moved by a part of a step that sender and receiver know, and moved back
afterwards. The error is then at most half a step and spread evenly over it whatever the series is, a slow or
a two-valued one too (subtractive dither, Schuchman 1964): in a regression it acts as white noise of
``1 / 48`` of the column's variance, and its effect on the coefficients is that of so much more residual. The
mean of each column is kept as it is, over the rows that are not all zero, as the first of an episode are.
"""

from functools import lru_cache

import numpy as np

STEPS = 2  # in a standard deviation
_MIDDLE = 8  # of the codes of four bits: numbers within 3.5 standard deviations; others travel on their own
_GOLDEN = (5**0.5 - 1) / 2
_SMALLEST = np.finfo(float).tiny
_PIECE = 1 << 15  # numbers that stay in the second-level cache


def stepped(series):
    """A series in four bits a number and what gives back its numbers.

    Parameters
    ----------
    series : ndarray of shape (n_samples, n_columns)

    Returns
    -------
    codes : ndarray of uint8
        Two numbers in each, zero standing for one of `beyond`.
    beyond : ndarray of int64
        Steps of the numbers that have no code, in their order.
    level, step : ndarray of shape (n_columns,)

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message.codes import stepped, unstepped
    >>> series = np.random.default_rng(0).standard_normal((1000, 2))
    >>> codes, beyond, level, step = stepped(series)
    >>> codes.nbytes / series.nbytes
    0.0625
    >>> error = unstepped(codes, beyond, level, step, 1000) - series
    >>> bool((np.abs(error) <= 0.51 * step).all())
    True
    """
    series = np.ascontiguousarray(series, dtype=float)
    n_samples, p = series.shape
    beside = _Beside(n_samples, p)
    unit, level, step = _unit_level_step(series, beside)
    size, centre, inverse = (beside(x) for x in (unit, level, 1.0 / np.where(step > 0, step, 1.0)))
    codes, beyond = np.zeros(n_samples * p + n_samples * p % 2, dtype=np.uint8), []
    excess, n_counted = np.zeros(p), 0
    flat = series.reshape(-1)
    for own in beside.pieces:
        scaled = flat[own] / size[: own.stop - own.start]
        counted = np.abs(scaled).reshape(-1, p) @ np.ones(p) > 0.0
        scaled -= centre[: len(scaled)]
        scaled *= inverse[: len(scaled)]
        scaled += beside.dither(own)
        whole = np.rint(scaled)
        scaled -= whole
        excess += counted @ scaled.reshape(-1, p)
        n_counted += np.count_nonzero(counted)
        if max(whole.max(), -whole.min()) >= _MIDDLE:
            outside = np.abs(whole) >= _MIDDLE
            beyond.append(whole[outside].astype(np.int64))
            whole[outside] = -_MIDDLE
        whole += _MIDDLE
        codes[own] = whole
    if n_counted:
        level = level + excess / n_counted * step
    beyond = np.concatenate(beyond) if beyond else np.zeros(0, dtype=np.int64)
    return codes[::2] | codes[1::2] << 4, beyond, level * unit, step * unit


def unstepped(codes, beyond, level, step, n_samples):
    """The series behind :func:`stepped`.

    Parameters
    ----------
    codes, beyond, level, step
        As :func:`stepped` gave them.
    n_samples : int

    Returns
    -------
    ndarray of shape (n_samples, n_columns)

    Raises
    ------
    ValueError
        If they do not belong together.
    """
    p = len(level)
    size = n_samples * p
    if codes.shape != (-(-size // 2),):
        raise ValueError(f"has shape {codes.shape} for {n_samples} rows of {p} columns")
    each = np.empty((len(codes), 2), dtype=np.uint8)
    np.bitwise_and(codes, 15, out=each[:, 0])
    np.right_shift(codes, 4, out=each[:, 1])
    if each.reshape(-1)[size:].any():
        raise ValueError("has bits behind its end")
    each = each.reshape(-1)[:size]
    if size - np.count_nonzero(each) != len(beyond) or (np.abs(beyond) < _MIDDLE).any():
        raise ValueError("does not go with the numbers beyond it")
    series = np.empty(size)
    beside = _Beside(n_samples, p)
    steps, levels = beside(step), beside(level)
    for own in beside.pieces:
        piece = series[own]
        np.subtract(each[own], beside.dither(own), out=piece)
        piece -= _MIDDLE
        piece *= steps[: len(piece)]
        piece += levels[: len(piece)]
    at = np.flatnonzero(each == 0)
    row, column = np.divmod(at, p)
    series[at] = (beyond - _parts(row)) * step[column] + level[column]
    return series.reshape(n_samples, p)


class _Beside:
    """Pieces of a series of several columns, row by row in one line, that fit into the cache."""

    def __init__(self, n_samples, n_columns):
        self._rows, self._columns = min(max(_PIECE // max(n_columns, 1), 1), n_samples), n_columns
        self._parts = _parts_of(n_samples)
        length, size = self._rows * n_columns, n_samples * n_columns
        self.pieces = [slice(first, min(first + length, size)) for first in range(0, size, length or 1)]

    def __call__(self, numbers):
        """One number for each column, repeated for the rows of a piece."""
        return np.tile(numbers, self._rows)

    def dither(self, own):
        """Parts of a step for each row of a piece, evenly spread over any stretch of rows."""
        rows = slice(own.start // self._columns, own.stop // self._columns)
        return np.repeat(self._parts[rows], self._columns)


def _unit_level_step(series, beside):
    """Size of each column, and in units of it, which keep squares numbers, its mean and its step."""
    (n_samples, p), flat = series.shape, series.reshape(-1)
    sums, sizes, squares = np.zeros((3, p))
    ones = np.ones(n_samples)
    for own in beside.pieces:
        piece = flat[own].reshape(-1, p)
        sums += ones[: len(piece)] @ piece
        sizes += ones[: len(piece)] @ np.abs(piece)
    unit = np.maximum(sizes / n_samples, _SMALLEST)
    level = sums / n_samples / unit
    size, centre = beside(unit), beside(level)
    for own in beside.pieces:
        scaled = flat[own] / size[: own.stop - own.start]
        scaled -= centre[: len(scaled)]
        scaled *= scaled
        squares += ones[: len(scaled) // p] @ scaled.reshape(-1, p)
    return unit, level, np.sqrt(squares / n_samples) / STEPS


@lru_cache(maxsize=1)  # units of a plant have the same rows
def _parts_of(n_samples):
    return _parts(np.arange(n_samples))


def _parts(rows):
    """Fractional parts of multiples of the golden ratio, about zero."""
    parts = rows * _GOLDEN
    parts -= np.floor(parts)
    parts -= 0.5
    return parts
