"""The body of an array in a packet: its bytes, with what hardly varies among them written once.

The first byte of a real number holds its sign and the upper part of its exponent. A series takes few values
there, so that these bytes travel as a table of the values and, for each number, its place in the table, in
at most six bits. Nothing is lost. An array has exactly one code: the table is sorted, every value in it
occurs, and it is used if, and only if, that is shorter.
"""

from functools import cache

import numpy as np

MOST = 64  # values in a table
_FEWEST = 2  # numbers that a table of one value can make shorter
_FEW = 64  # numbers that a set counts faster
_CHUNK = 2**13  # numbers whose bytes stay in the first-level cache


class CodeError(ValueError):
    """Bytes that are not the code of an array."""


def n_leading(array):
    """Number of values of the leading byte if they are written as a table, otherwise 0.

    Parameters
    ----------
    array : ndarray

    Returns
    -------
    int
    """
    size, dtype = array.size, array.dtype
    if size < _FEWEST or dtype.kind != "f" or dtype.itemsize < 4:
        return 0
    first = _bytes_of(array)[:, -1]
    used = _n_occurring(first)
    return used if _is_shorter(size, used) else 0


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
    planes = [np.packbits((places >> bit) & 1).tobytes() for bit in range(_n_bits(leading))]
    return b"".join([table.tobytes(), *planes, numbers[:, :-1].tobytes()])


def decoded(data, dtype, n, leading):
    """Array of n numbers in a code, one-dimensional.

    Parameters
    ----------
    data : memoryview
        As long as :func:`code_size` says.
    dtype : dtype
        Little-endian.
    n, leading : int

    Raises
    ------
    CodeError
        If it is not the code that the array has.
    """
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
    for bit in range(_n_bits(leading)):
        plane, rest = rest[: _packed(n)], rest[_packed(n) :]
        bits = np.unpackbits(plane)
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


def _n_occurring(values):
    """How many bytes occur, the quickest way."""
    if len(values) <= _FEW:
        return len(set(values.tolist()))
    if len(values) <= _CHUNK:
        return int(np.count_nonzero(np.bincount(values)))
    return len(_occurring(values))


def _occurring(values):
    """The bytes that occur, in order."""
    known = b""
    for start in range(0, len(values), _CHUNK):
        new = values[start : start + _CHUNK].tobytes().translate(None, known)
        while new:
            known += new[:1]
            new = new.translate(None, new[:1])
    return np.array(sorted(known), dtype=np.uint8)


def _n_bits(leading):
    return (leading - 1).bit_length()


def _packed(n):
    return -(-n // 8)


def _is_shorter(n, leading):
    return 0 < leading <= MOST and code_size(n, 1, leading) < n
