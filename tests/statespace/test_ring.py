"""Fixed-point numbers modulo 2^64 and sums of their products, against Python's whole numbers."""

import numpy as np
import pytest

from skfedcausal.statespace.held_out import N_LAGS
from skfedcausal.statespace.lag_products import (
    N_SEGMENTS,
    Sums,
    fraction_bits,
    from_ring,
    lagged_products,
    rounding_error,
    segments,
    to_ring,
)

MODULUS = 2**64


def exact(late, early, lag, starts):
    """The same sums with numbers that cannot overflow."""
    late, early = late.astype(object), early.astype(object)
    total = np.zeros((late.shape[1], early.shape[1]), dtype=object)
    for start, stop in zip(starts, [*starts[1:], len(late)], strict=True):
        for t in range(start, stop - lag):
            total += np.outer(late[t + lag], early[t])
    return total % MODULUS


@pytest.mark.parametrize("starts", [(0,), (0, 3, 7)])
def test_products_of_any_elements_are_those_of_whole_numbers(starts):
    rng = np.random.default_rng(0)
    late = rng.integers(0, MODULUS, (1100, 2), dtype=np.uint64)  # more than two pieces of rows
    early = rng.integers(0, MODULUS, (1100, 3), dtype=np.uint64)
    late[:5], early[:5] = MODULUS - 1, MODULUS - 1
    sums = lagged_products(late, early, 4, starts)
    for lag in range(5):
        assert (sums[lag].astype(object) == exact(late, early, lag, starts)).all()


def test_the_largest_digits_do_not_round():
    largest = np.full((512, 1), MODULUS - 1, dtype=np.uint64)
    assert lagged_products(largest, largest, 0)[0, 0, 0] == 512


@pytest.mark.parametrize("n_rows", [2, 100, 5000, 2**20, 10**7])
def test_as_many_binary_places_as_cannot_overflow(n_rows):
    bits = fraction_bits(n_rows)
    assert 4 * n_rows * (2**bits) ** 2 < 4 * 2**63 <= 4 * n_rows * (2 ** (bits + 1) + 1) ** 2
    assert n_rows * (2 * 2**bits + 1) ** 2 < 4 * 2**63  # T (2^f + 1/2)^2 in whole numbers


def test_mean_products_are_within_the_derived_error():
    rng, n_rows = np.random.default_rng(1), 300
    series = rng.standard_t(2, (n_rows, 4))  # of heavy tails
    series /= np.sqrt((series**2).mean(axis=0))
    bits = fraction_bits(n_rows)
    ring = to_ring(series, bits)
    sums = from_ring(lagged_products(ring, ring, 3), bits)
    for lag in range(4):
        open_sums = series[lag:].T @ series[: n_rows - lag]
        assert np.abs(sums[lag] - open_sums).max() / n_rows <= rounding_error(n_rows)


def test_one_spike_still_fits_and_more_is_refused():
    spike = np.zeros((100, 1))
    spike[50] = 10.0  # unit mean square in one row
    bits = fraction_bits(100)
    ring = to_ring(spike, bits)
    assert from_ring(lagged_products(ring, ring, 0), bits)[0, 0, 0] == 100.0
    with pytest.raises(ValueError, match="unit mean square"):
        to_ring(2 * spike, bits)


def test_so_many_rows_leave_no_places():
    with pytest.raises(ValueError, match="binary places"):
        fraction_bits(2**41)


def test_sums_in_segments_are_those_of_the_rows_of_each_behind_those_of_the_record():
    n, sums = 600, Sums(2, (250, 350), graded=True)
    rng = np.random.default_rng(1)
    late, early = (rng.integers(0, MODULUS, (sums.n_rows, k), dtype=np.uint64) for k in (1, 2))
    found = sums.products(late, early)
    assert (len(late), found.shape) == (3 * n, (sums.n_sums, 1, 2))
    assert (found[:3] == Sums(2, (250, 350)).products(late[:n], early[:n])).all()
    rows = segments(n)
    assert [(r.start, r.stop) for r in (rows[0], rows[N_SEGMENTS - 1])] == [(n, n + 42), (2 * n - 43, 2 * n)]
    assert sum(r.stop - r.start for r in rows) == 2 * n
    for k, each in enumerate(rows):
        expected = lagged_products(late[each], early[each], N_LAGS)
        assert (sums.in_segments(found)[divmod(k, N_SEGMENTS)] == expected).all()


@pytest.mark.parametrize("graded", [False, True])
def test_equations_are_counted_as_numbers_that_are_told(graded):
    """Both ways round at every lag, but once where no row lies between; and a unit's own."""
    sums = Sums(4, (600,), graded)
    n_series = 1 + 2 * N_SEGMENTS * graded
    assert sums.equations(0, 3) == 3 * (2 * sums.n_sums - n_series)
    assert sums.equations(2, 0) == 2 * sums.n_sums
