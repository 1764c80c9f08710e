"""Series in few bits: whole steps of a fraction of each column's standard deviation.

Before it is rounded every number is moved by a part of a step that sender and receiver know, and moved back
afterwards. The error is then at most half a step and spread evenly over it whatever the series is, a slow or
a two-valued one too (subtractive dither, Schuchman 1964): in a regression it acts as white noise of
``1 / 48`` of the column's variance, and its effect on the coefficients is that of so much more residual. The
mean of each column is kept as it is, over the rows that are not all zero, as the first of an episode are.
"""

import numpy as np

STEPS = 2  # in a standard deviation
PLANES = 4  # bits of a number
_MIDDLE = 2 ** (PLANES - 1)  # numbers within 3.5 standard deviations; others travel on their own
_GOLDEN = (5**0.5 - 1) / 2
_SMALLEST = np.finfo(float).tiny


def stepped(series):
    """A series as planes of bits and what gives back its numbers.

    Parameters
    ----------
    series : ndarray of shape (n_samples, n_columns)

    Returns
    -------
    planes : ndarray of uint8 of shape (4, n_bytes)
    beyond : ndarray of int64
        Steps of the numbers that have no place in the planes, in their order.
    level, step : ndarray of shape (n_columns,)

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.statespace.stepped import stepped, unstepped
    >>> series = np.random.default_rng(0).standard_normal((1000, 2))
    >>> planes, beyond, level, step = stepped(series)
    >>> planes.nbytes / series.nbytes
    0.0625
    >>> error = unstepped(planes, beyond, level, step, 1000) - series
    >>> bool((np.abs(error) <= 0.51 * step).all())
    True
    """
    unit = np.maximum(np.abs(series).max(axis=0, initial=0.0), _SMALLEST)  # so that squares stay numbers
    scaled = series / unit
    level = scaled.mean(axis=0)
    step = scaled.std(axis=0) / STEPS
    whole = np.rint((scaled - level) / np.where(step > 0, step, 1.0) + _dither(len(series))).astype(np.int64)
    error = (whole - _dither(len(series))) * step + level - scaled
    if (counted := scaled.any(axis=1)).any():
        level = level - error[counted].mean(axis=0)
    codes = (whole + _MIDDLE).reshape(-1)
    outside = (codes < 1) | (codes >= 2 * _MIDDLE)
    beyond = codes[outside] - _MIDDLE
    codes = np.where(outside, 0, codes).astype(np.uint8)
    planes = np.array([np.packbits((codes >> bit) & 1) for bit in range(PLANES)])
    return planes, beyond, level * unit, step * unit


def unstepped(planes, beyond, level, step, n_samples):
    """The series behind :func:`stepped`.

    Parameters
    ----------
    planes, beyond, level, step
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
    size = n_samples * len(level)
    if planes.shape != (PLANES, -(-size // 8)):
        raise ValueError(f"has shape {planes.shape} for {n_samples} rows of {len(level)} columns")
    bits = np.unpackbits(planes, axis=1)
    if bits[:, size:].any():
        raise ValueError("has bits behind its end")
    codes = np.zeros(size, dtype=np.int64)
    for bit, plane in enumerate(bits[:, :size]):
        codes |= plane.astype(np.int64) << bit
    whole, outside = codes - _MIDDLE, codes == 0
    if outside.sum() != len(beyond) or ((beyond > -_MIDDLE) & (beyond < _MIDDLE)).any():
        raise ValueError("does not go with the numbers beyond it")
    whole[outside] = beyond
    return (whole.reshape(n_samples, len(level)) - _dither(n_samples)) * step + level


def _dither(n_samples):
    """Parts of a step from -1/2 to 1/2, evenly spread over any stretch of rows."""
    return ((np.arange(n_samples) * _GOLDEN) % 1.0 - 0.5)[:, None]
