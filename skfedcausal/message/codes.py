"""Codes of arrays in packets: all bytes without repetition, and series in four bits a number.

*Exactly.* The first byte of a real number holds its sign and the upper part of its exponent. A series takes
few values there, so that these bytes travel as a table of the values and, for each number, its place in the
table, in at most six bits. An array has exactly one code: the table is sorted, every value in it occurs, and
it is used if, and only if, that is shorter.

*In four bits.* Whole steps of a fraction of each column's standard deviation. Before it is rounded every
number is moved by a part of a step that sender and receiver know, and moved back afterwards. The error is
then at most half a step and spread evenly over it whatever the series is, a slow or a two-valued one too
(subtractive dither, Schuchman 1964): in a regression it acts as white noise of ``1 / 48`` of the column's
variance, and its effect on the coefficients is that of so much more residual. The mean of each column is kept
as it is, over the rows that are not all zero, as the first of an episode are.
"""

from functools import lru_cache

import numpy as np

from .tuning import TUNING

MOST = 64  # values in a table
STEPS = 2  # in a standard deviation

_FEW = 64  # numbers that a set counts faster
_GOLDEN = (5**0.5 - 1) / 2
_SMALLEST = np.finfo(float).tiny


# --- exactly -----------------------------------------------------------------------------------------------


class CodeError(ValueError):
    """Bytes that are not the code of an array."""


def n_leading(array):
    """Number of values of the leading byte if they are written as a table, otherwise 0."""
    n = array.size
    if n < TUNING.codes_fewest:
        return 0
    dtype = array.dtype
    if dtype.kind != "f" or dtype.itemsize < 4:
        return 0
    if n <= _FEW:
        data = array.astype(dtype.newbyteorder("<"), copy=False).tobytes()
        used = len(set(data[dtype.itemsize - 1 :: dtype.itemsize]))
    else:
        used = len(_occurring(_bytes_of(array)[:, -1]))
    return used if _is_shorter(n, used) else 0


def code_size(n, itemsize, leading):
    """Bytes of the code of an array of n numbers."""
    if leading == 0:
        return n * itemsize
    bits = (leading - 1).bit_length()  # inlined: the ledger asks for the size of every array
    return leading + bits * -(-n // 8) + n * (itemsize - 1)


def encoded(array, leading):
    """Code of an array whose :func:`n_leading` is known."""
    numbers = _bytes_of(array)
    if leading == 0:
        return numbers.tobytes()
    first = numbers[:, -1]
    table = _occurring(first)
    place = np.zeros(256, dtype=np.uint8)
    place[table] = np.arange(len(table))
    places = place[first]
    planes = [np.packbits((places >> bit) & 1).tobytes() for bit in range((leading - 1).bit_length())]
    return b"".join([table.tobytes(), *planes, numbers[:, :-1].tobytes()])


def decoded(data, dtype, n, leading):
    """Array of n little-endian numbers, one-dimensional; CodeError if this is not the code that it has."""
    out = np.empty(n, dtype)
    numbers = out.view(np.uint8).reshape(n, out.dtype.itemsize)
    data = np.frombuffer(data, dtype=np.uint8)
    if leading == 0:
        numbers[:] = data.reshape(numbers.shape)
        if n_leading(out):
            raise CodeError("is not written in the shortest way")
        return out
    table, rest = data[:leading], data[leading:]
    if not (_is_shorter(n, leading) and (table[1:] > table[:-1]).all()):
        raise CodeError("has a table that no array has")
    places = np.zeros(n, dtype=np.uint8)
    length = -(-n // 8)
    for bit in range((leading - 1).bit_length()):
        bits, rest = np.unpackbits(rest[:length]), rest[length:]
        if bits[n:].any():
            raise CodeError("has bits behind its end")
        places |= bits[:n] << bit
    if not np.array_equal(_occurring(places), np.arange(leading)):
        raise CodeError("does not use its table")
    numbers[:, -1] = table[places]
    numbers[:, :-1] = rest.reshape(n, -1)
    return out


def _bytes_of(array):
    """Bytes of each number, the leading one last, shape (n, itemsize)."""
    array = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
    return array.reshape(-1, 1).view(np.uint8)


def _occurring(values):
    """The bytes that occur, in order."""
    return np.flatnonzero(np.bincount(values)).astype(np.uint8)


def _is_shorter(n, leading):
    return leading <= MOST and code_size(n, 1, leading) < n


# --- in four bits ------------------------------------------------------------------------------------------


def stepped(series):
    """A series in four bits a number and what gives back its numbers, shape (n_columns,)."""
    columns = np.ascontiguousarray(series.T, dtype=float)  # along rows all this takes several times as long
    unit = np.maximum(np.abs(columns).mean(axis=1), _SMALLEST)
    scaled = columns / unit[:, None]
    level, step, counted = scaled.mean(axis=1), scaled.std(axis=1) / STEPS, scaled.any(axis=0)
    scaled = (scaled - level[:, None]) / np.where(step > 0, step, 1.0)[:, None] + _parts_of(len(series))
    whole = np.rint(scaled).T
    if counted.any():
        level = level + (scaled - whole.T)[:, counted].mean(axis=1) * step
    outside = np.abs(whole) >= TUNING.codes_middle
    beyond = whole[outside].astype(np.int64)
    whole[outside] = -TUNING.codes_middle
    codes = (whole + TUNING.codes_middle).astype(np.uint8).reshape(-1)
    codes = np.append(codes, np.zeros(len(codes) % 2, dtype=np.uint8))
    return codes[::2] | codes[1::2] << 4, beyond, level * unit, step * unit


def unstepped(codes, beyond, level, step, n_samples):
    """Series behind the results of :func:`stepped`; ValueError if they do not go together."""
    p = len(level)
    size = n_samples * p
    if codes.shape != (-(-size // 2),):
        raise ValueError(f"has shape {codes.shape} for {n_samples} rows of {p} columns")
    each, rest = np.split(np.column_stack([codes & 15, codes >> 4]).reshape(-1), [size])
    if rest.any():
        raise ValueError("has bits behind its end")
    if size - np.count_nonzero(each) != len(beyond) or (np.abs(beyond) < TUNING.codes_middle).any():
        raise ValueError("does not go with the numbers beyond it")
    whole = each.astype(float) - TUNING.codes_middle
    whole[each == 0] = beyond
    return (whole.reshape(n_samples, p) - _parts_of(n_samples)[:, None]) * step + level


@lru_cache(maxsize=1)  # units of a plant have the same rows
def _parts_of(n_samples):
    """Fractional parts of multiples of the golden ratio, about zero."""
    parts = np.arange(n_samples) * _GOLDEN
    return parts - np.floor(parts) - 0.5
