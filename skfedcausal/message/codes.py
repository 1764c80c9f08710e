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

from functools import cache, lru_cache

import numpy as np

from .tuning import TUNING

MOST = 64  # values in a table
STEPS = 2  # in a standard deviation

_FEW = 64  # numbers that a set counts faster
_CHUNK = 2**13  # numbers whose bytes stay in the first-level cache
_GOLDEN = (5**0.5 - 1) / 2
_SMALLEST = np.finfo(float).tiny
_PIECE = 1 << 15  # numbers that stay in the second-level cache


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
        data = array.astype(_little_endian(dtype), copy=False).tobytes()
        used = len(set(data[dtype.itemsize - 1 :: dtype.itemsize]))
    else:
        first = _bytes_of(array)[:, -1]
        used = int(np.count_nonzero(np.bincount(first))) if n <= _CHUNK else len(_occurring(first))
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
    array = np.asarray(array, dtype=_little_endian(array.dtype), order="C")
    return array.reshape(-1, 1).view(np.uint8)


@cache
def _little_endian(dtype):
    return dtype.newbyteorder("<")


def _occurring(values):
    """The bytes that occur, in order."""
    known = b""
    for start in range(0, len(values), _CHUNK):
        new = values[start : start + _CHUNK].tobytes().translate(None, known)
        while new:
            known += new[:1]
            new = new.translate(None, new[:1])
    return np.array(sorted(known), dtype=np.uint8)


def _is_shorter(n, leading):
    return leading <= MOST and code_size(n, 1, leading) < n


# --- in four bits ------------------------------------------------------------------------------------------


def stepped(series):
    """A series in four bits a number and what gives back its numbers, shape (n_columns,)."""
    series = np.ascontiguousarray(series, dtype=float)
    n_samples, p = series.shape
    pieces, rows = _pieces(n_samples, p)
    unit, level, step = _unit_level_step(series, pieces, rows)
    size, centre, inverse = (np.tile(x, rows) for x in (unit, level, 1.0 / np.where(step > 0, step, 1.0)))
    codes = np.zeros(n_samples * p + n_samples * p % 2, dtype=np.uint8)
    beyond = [np.zeros(0, dtype=np.int64)]
    excess, n_counted = np.zeros(p), 0
    flat = series.reshape(-1)
    for own in pieces:
        scaled = flat[own] / size[: own.stop - own.start]
        counted = np.abs(scaled).reshape(-1, p) @ np.ones(p) > 0.0
        scaled -= centre[: len(scaled)]
        scaled *= inverse[: len(scaled)]
        scaled += np.repeat(_parts_of(n_samples)[own.start // p : own.stop // p], p)
        whole = np.rint(scaled)
        scaled -= whole
        excess += counted @ scaled.reshape(-1, p)
        n_counted += int(np.count_nonzero(counted))
        if max(whole.max(), -whole.min()) >= TUNING.codes_middle:
            outside = np.abs(whole) >= TUNING.codes_middle
            beyond.append(whole[outside].astype(np.int64))
            whole[outside] = -TUNING.codes_middle
        whole += TUNING.codes_middle
        codes[own] = whole
    if n_counted:
        level = level + excess / n_counted * step
    return codes[::2] | codes[1::2] << 4, np.concatenate(beyond), level * unit, step * unit


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
    series = each - np.repeat(_parts_of(n_samples), p)
    series -= TUNING.codes_middle
    series *= np.tile(step, n_samples)
    series += np.tile(level, n_samples)
    at = np.flatnonzero(each == 0)
    row, column = np.divmod(at, p)
    series[at] = (beyond - _parts_of(n_samples)[row]) * step[column] + level[column]
    return series.reshape(n_samples, p)


def _pieces(n_samples, p):
    """Pieces of a series of p columns, row by row in one line, that fit into the cache, and their rows."""
    rows = max(min(_PIECE // p, n_samples), 1)
    length, size = rows * p, n_samples * p
    return [slice(first, min(first + length, size)) for first in range(0, size, length)], rows


def _unit_level_step(series, pieces, rows):
    """Size of each column, and in units of it, which keep squares numbers, its mean and its step."""
    (n_samples, p), flat = series.shape, series.reshape(-1)
    sums, sizes, squares = np.zeros((3, p))
    ones = np.ones(n_samples)
    for own in pieces:
        piece = flat[own].reshape(-1, p)
        sums += ones[: len(piece)] @ piece
        sizes += ones[: len(piece)] @ np.abs(piece)
    unit = np.maximum(sizes / n_samples, _SMALLEST)
    level = sums / n_samples / unit
    size, centre = np.tile(unit, rows), np.tile(level, rows)
    for own in pieces:
        scaled = flat[own] / size[: own.stop - own.start]
        scaled -= centre[: len(scaled)]
        scaled *= scaled
        squares += ones[: len(scaled) // p] @ scaled.reshape(-1, p)
    return unit, level, np.sqrt(squares / n_samples) / STEPS


@lru_cache(maxsize=1)  # units of a plant have the same rows
def _parts_of(n_samples):
    """Fractional parts of multiples of the golden ratio, about zero."""
    parts = np.arange(n_samples) * _GOLDEN
    parts -= np.floor(parts)
    parts -= 0.5
    return parts
