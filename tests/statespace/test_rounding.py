"""Rounding for the wire: scales are exact, and only what rounding explains passes for a covariance."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skfedcausal.statespace.matrices import (
    are_covariances,
    packed_products,
    packed_triangles,
    power_of_two,
    scaled_columns,
    unpacked_triangles,
    whitened_columns,
    without_last_bits,
)

VALUES = np.array([5e-324, 1e-310, 2.0**-1022, 0.3, 0.5, 1.0, 1.5, 2.0, 1e300, np.finfo(float).max])


def test_powers_of_two_lie_at_most_a_factor_of_two_below():
    powers = power_of_two(VALUES)
    assert_array_equal(np.frexp(powers)[0], 0.5)
    assert (powers <= VALUES).all()
    assert (powers > VALUES / 2).all()
    assert_array_equal(power_of_two(np.zeros(2)), 1.0)


def test_scaling_rounds_nothing_in_double_precision():
    series = np.random.default_rng(0).normal(size=(50, 3)) * [1e-30, 1.0, 1e30]
    rounded, scale = scaled_columns(series, "float64")
    assert_array_equal(rounded * scale, series)
    top = np.abs(rounded).max(axis=0)
    assert (top >= 2.0**13).all()
    assert (top < 2.0**14).all()


def test_whitening_is_undone_and_drops_what_is_not_seen():
    rng = np.random.default_rng(0)
    C = np.column_stack([rng.normal(size=(5, 2)), np.zeros(5)])
    z = rng.normal(size=(50, 5)) @ C
    rounded, unscale = whitened_columns(z, C.T @ C, "float64")
    np.testing.assert_allclose(rounded @ unscale, z, rtol=0, atol=1e-13 * np.abs(z).max())
    assert (rounded == 0).all(axis=0).sum() == 1


def test_whitening_costs_every_direction_the_same_share_of_its_noise_in_any_units():
    """In half precision, of states of units a thousand million times apart."""
    rng = np.random.default_rng(0)
    units, C = np.array([2.0**30, 1.0, 2.0**-30]), rng.normal(size=(5, 3))
    z = rng.normal(size=(50, 5)) @ C
    plain = whitened_columns(z, C.T @ C, "float16")
    other = whitened_columns(z * units, C.T @ C * np.outer(units, units), "float16")
    assert_array_equal(plain[0], other[0])
    assert_array_equal(plain[1] * units, other[1])
    rounded, unscale = plain
    white = np.linalg.solve(np.linalg.cholesky(C.T @ C), (rounded @ unscale - z).T)
    # half precision has 11 bits; white numbers of five standard deviations at most
    assert np.abs(white).max() < 5 * 2.0**-11


def test_triangles_are_unpacked_as_they_were_packed():
    roots = np.random.default_rng(0).normal(size=(4, 3, 3))
    matrices = roots + roots.swapaxes(1, 2)
    assert_array_equal(unpacked_triangles(packed_triangles(matrices), 3), matrices)
    units = np.array([2.0, 3.0, 5.0])
    assert_array_equal(packed_products(units), packed_triangles(np.outer(units, units)[None])[0])


def test_numbers_beyond_those_of_doubles_are_no_covariances():
    assert not are_covariances(np.array([[[1e-300, 1e300], [1e300, 1e-300]]]))


@pytest.mark.parametrize("units", [np.ones(3), np.array([1e-100, 1.0, 1e100])], ids=["alike", "far apart"])
def test_covariances_are_told_by_their_signs_and_symmetry_in_any_units(units):
    rng = np.random.default_rng(0)
    roots = rng.normal(size=(6, 3, 2))
    good = roots @ roots.swapaxes(1, 2)  # of rank two
    scale = np.outer(units, units)
    assert are_covariances(good * scale)
    assert are_covariances((good * (1 + 1e-8 * np.eye(3)) - 1e-8 * np.eye(3)) * scale)
    assert are_covariances(np.zeros((2, 3, 3)))
    assert are_covariances(np.zeros((0, 3, 3)))
    assert not are_covariances((good - 1e-3 * np.eye(3)) * scale)
    asymmetric = good.copy()
    asymmetric[2, 0, 1] *= 1.01
    assert not are_covariances(asymmetric * scale)
    for k in range(3):
        wrong = good.copy()
        wrong[4, k, k] = -1e-3
        assert not are_covariances(wrong * scale)


def test_sums_that_differ_by_rounding_become_the_same_number():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 6)) * 10.0 ** rng.uniform(-6, 6, size=6)
    one, other = X.T @ X / 4000, np.sum(X[:, :, None] * X[:, None, :], axis=0) / 4000
    assert (one != other).any()
    scale = np.sqrt(np.diag(one))
    assert_array_equal(without_last_bits(one, scale), without_last_bits(other, scale))
    error = np.abs(without_last_bits(one, scale) - one) / np.outer(scale, scale)
    assert error.max() <= 2.0**-31


@pytest.mark.parametrize(("share", "is_rounding"), [(0.9e-6, True), (1.1e-6, False)])
def test_a_millionth_of_the_variances_may_be_rounding(share, is_rounding):
    indefinite = np.eye(2)
    indefinite[[0, 1], [1, 0]] = 1 + 2 * share  # two variances of one, an eigenvalue of minus two shares
    assert are_covariances(indefinite[None]) is is_rounding
    asymmetric = np.eye(2)
    asymmetric[0, 1] = share
    assert are_covariances(asymmetric[None]) is is_rounding


def test_covariances_keep_thirty_bits_below_the_product_of_their_scales():
    kept = 2.0**-30
    S = np.array([[3.4 * kept, 1 + 1.6 * kept], [4 + 6.4 * kept, 16 - 7.6 * kept]])
    expected = [[3 * kept, 1], [4 + 8 * kept, 16]]  # in units of 1, 4, 4 and 16 times 2^-30
    assert_array_equal(without_last_bits(S, np.array([1.0, 4.0])), expected)
