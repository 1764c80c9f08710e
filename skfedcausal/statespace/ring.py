"""Fixed-point numbers in the ring of whole numbers modulo 2^64, and sums of their products over rows.

A series of unit mean square over T rows, rounded to f binary places, has a sum of squares below ``T (2^f +
1/2)^2``, and so, by Cauchy and Schwarz, has every sum of products of two of them. Below 2^63 it is known from what
is left of it modulo 2^64. Rounding changes each number by ``e = 2^-(f+1)`` at most, and a mean of products by
``2 e + e^2`` at most.
"""

import math
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from .episodes import episodes
from .held_out import N_LAGS
from .tuning import TUNING

N_SEGMENTS = 14  # of sums that grades rest on: more are more equations, fewer less sure of gains
_LARGEST = 2**63  # of a number with a sign
_PIECE = 512  # rows whose products of digits are exact in double precision: 2 * 22 + 9 bits


def fraction_bits(n_rows):
    """Most binary places with which no sum of products over so many rows overflows."""
    bits = (math.isqrt((_LARGEST - 1) // n_rows) - 1).bit_length() - 1
    if bits < TUNING.ring_least_bits:
        raise ValueError(f"Secure sums over {n_rows} rows would have only {bits} binary places; give fewer rows.")
    return bits


def rounding_error(n_rows):
    """Largest difference that rounding makes to a mean of products of series of unit mean square."""
    step = 2.0 ** -(fraction_bits(n_rows) + 1)
    return 2 * step + step**2


def to_ring(series, bits):
    """Numbers with so many binary places as elements of the ring; ValueError if their sums could overflow."""
    rounded = np.rint(np.ldexp(series, bits))
    largest = np.square(rounded).sum(axis=0).max(initial=0.0)
    if not largest < _LARGEST * (1 - 1e-9):  # more than rounding in double precision
        raise ValueError("A series is too large for secure sums; give series of unit mean square.")
    return rounded.astype(np.int64).view(np.uint64)


def from_ring(elements, bits):
    """Sums of products of numbers with so many binary places each."""
    return np.ldexp(elements.view(np.int64).astype(float), -2 * bits)


def lagged_products(late, early, lags, starts=(0,)):
    """``sum_t late[t+l] early[t]'`` for l = 0..lags in the ring, never across episodes, shape (lags + 1, p, q)."""
    sums = np.zeros((lags + 1, late.shape[1], early.shape[1]), dtype=np.uint64)
    ahead, behind = _limbs(late), _limbs(early)
    for start, stop in episodes(starts, len(late)):
        for lag in range(min(lags, stop - start - 1) + 1):
            for first in range(start, stop - lag, _PIECE):
                last = min(first + _PIECE, stop - lag)
                sums[lag] += _product(ahead[:, first + lag : last + lag], behind[:, first:last])
    return sums


def _limbs(series):
    """Digits of 22 bits of ring elements as real numbers, lowest first, shape (3, n_rows, p)."""
    mask = np.uint64(2**TUNING.ring_limb - 1)
    return np.stack([((series >> np.uint64(TUNING.ring_limb * k)) & mask).astype(float) for k in range(3)])


def _product(left, right):
    """``left' right`` modulo 2^64 from the digits of few enough rows: exact products of real matrices."""
    total = np.zeros((left.shape[2], right.shape[2]), dtype=np.uint64)
    for place in range(3):
        for k in range(place + 1):
            total += (left[k].T @ right[place - k]).astype(np.uint64) << np.uint64(TUNING.ring_limb * place)
    return total


def segments(n_rows):
    """Rows of the segments of both graded series, behind those of the record."""
    edges = np.linspace(0, n_rows, N_SEGMENTS + 1).astype(int)
    pairs = list(zip(edges[:-1], edges[1:], strict=True))
    return [slice(first + behind, last + behind) for behind in (n_rows, 2 * n_rows) for first, last in pairs]


@dataclass(frozen=True)
class Sums:
    """What is summed of series in the ring: products up to `lags` rows apart, never across episodes.

    With `graded` series there are twice as many further rows, and of each segment of these the products up to
    ``N_LAGS`` rows apart.
    """

    lags: int
    lengths: tuple
    graded: bool = False

    @property
    def n_rows(self):
        """Rows of the series."""
        return sum(self.lengths) * (TUNING.ring_parts if self.graded else 1)

    @property
    def n_sums(self):
        """Matrices of sums."""
        return self.lags + 1 + (2 * N_SEGMENTS * (N_LAGS + 1) if self.graded else 0)

    def products(self, late, early):
        """The sums ``late[t+l] early[t]'``, one matrix behind the other."""
        n, starts = sum(self.lengths), (0, *accumulate(self.lengths[:-1]))
        found = [lagged_products(late[:n], early[:n], self.lags, starts)]
        if self.graded:
            found += [lagged_products(late[rows], early[rows], N_LAGS) for rows in segments(n)]
        return np.concatenate(found)

    def in_segments(self, sums):
        """Sums of the graded series by series, segment and lag."""
        return sums[self.lags + 1 :].reshape(2, N_SEGMENTS, N_LAGS + 1, *sums.shape[1:])

    def equations(self, n_states, n_others):
        """Numbers that tell of each series of a unit: linear with those of others, quadratic among its own."""
        alone = 2 * N_SEGMENTS if self.graded else 0
        linear = (2 * self.lags + 1) + alone * (2 * N_LAGS + 1)
        return linear * n_others + (self.lags + 1 + alone * (N_LAGS + 1)) * n_states
