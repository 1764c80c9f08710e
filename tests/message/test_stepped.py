"""Series in few bits: bounded errors that do not depend on the series, and every number once."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skfedcausal.message.packet import stepped, unstepped

T = 20_000


def series_of(kind):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(T)
    return {
        "noise": x,
        "heavy tails": rng.standard_t(1.5, T),
        "two values": np.where(x > 1.0, 1.0, 0.0),
        "slow": 1e3 + np.cumsum(x) / 50,
        "one spike": np.eye(1, T, 7)[0],
    }[kind][:, None]


KINDS = ["noise", "heavy tails", "two values", "slow", "one spike"]


@pytest.mark.parametrize("kind", KINDS)
def test_no_number_is_off_by_more_than_half_a_step_and_what_keeps_the_mean(kind):
    series = series_of(kind)
    codes, beyond, level, step = stepped(series)
    error = unstepped(codes, beyond, level, step, T) - series
    assert_allclose(step, series.std(axis=0) / 2)
    counted = series.any(axis=1)
    mean_error = min(1 / 2, 4 / np.sqrt(12 * counted.sum()))  # in steps, before the mean was put right
    assert (np.abs(error) <= (1 / 2 + mean_error) * step).all()
    assert_allclose(error[counted].mean(axis=0), 0, atol=1e-10 * step[0])


@pytest.mark.parametrize("kind", KINDS)
def test_the_error_is_spread_evenly_whatever_the_series(kind):
    # a uniform error: variance 1/12 of a squared step, uncorrelated with the series
    series = series_of(kind)
    codes, beyond, level, step = stepped(series)
    error = ((unstepped(codes, beyond, level, step, T) - series) / step)[:, 0]
    assert_allclose(error.var(), 1 / 12, rtol=4 * np.sqrt(0.8 / T))  # kurtosis 1.8
    assert abs(np.corrcoef(error, series[:, 0])[0, 1]) < 4 / np.sqrt(T)


def test_columns_are_rounded_each_on_its_own():
    series = np.hstack([series_of("noise"), 1e200 * series_of("slow")])
    codes, beyond, level, step = stepped(series)
    both = unstepped(codes, beyond, level, step, T)
    for k in (0, 1):
        alone = unstepped(*stepped(series[:, k : k + 1]), T)  # sums along columns differ in their last bits
        assert_allclose(both[:, k : k + 1], alone, rtol=0, atol=1e-9 * step[k])


@pytest.mark.parametrize("value", [0.0, -3.0, 1e-320, 1e300])
def test_a_constant_column_stays_what_it_is(value):
    series = np.full((9, 1), value)
    assert_allclose(unstepped(*stepped(series), 9), series, rtol=1e-15, atol=1e-307)


@pytest.mark.parametrize("sign", [1, -1])
def test_numbers_that_just_do_not_fit_into_four_bits_travel_on_their_own(sign):
    # 3.4 to 4.6 standard deviations off the mean: 7 to 9 steps, of which 8 are one too many
    outside = set()
    for size in np.linspace(3.4, 4.6, 49):
        series = np.tile([1.0, -1.0], 200)[:, None]
        series[150] = sign * size
        codes, beyond, level, step = stepped(series)
        error = unstepped(codes, beyond, level, step, 400) - series
        assert (np.abs(error) <= (1 / 2 + 4 / np.sqrt(12 * 400)) * step).all()
        outside |= set(beyond.tolist())
    assert {8 * sign, 9 * sign} <= outside <= {8 * sign, 9 * sign, 10 * sign}


@pytest.mark.parametrize(
    ("beyond", "problem"),
    [([7], "beyond it"), ([-7], "beyond it"), ([], "beyond it"), ([8, 8], "beyond it"), ([8], None), ([-8], None)],
)
def test_as_many_numbers_are_beyond_as_the_codes_say_and_all_of_them_are(beyond, problem):
    codes, beyond = np.array([0x80, 0x88], dtype=np.uint8), np.array(beyond, dtype=np.int64)  # the first of four
    if problem is None:
        assert abs(unstepped(codes, beyond, np.zeros(1), np.ones(1), 4)[0, 0] - beyond[0]) <= 1 / 2
    else:
        with pytest.raises(ValueError, match=problem):
            unstepped(codes, beyond, np.zeros(1), np.ones(1), 4)


def test_one_number_that_is_not_beyond_is_one_too_many():
    codes = np.array([0x80, 0x08], dtype=np.uint8)  # the first and the last of four
    with pytest.raises(ValueError, match="does not go with the numbers beyond it"):
        unstepped(codes, np.array([9, 7]), np.zeros(1), np.ones(1), 4)


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 1)])
def test_codes_are_half_a_byte_for_every_number(shape):
    with pytest.raises(ValueError, match=r"for 3 rows of 1 columns"):
        unstepped(np.full(shape, 0x88, dtype=np.uint8), np.zeros(0), np.zeros(1), np.ones(1), 3)


def test_an_odd_number_of_numbers_leaves_half_a_byte_empty():
    series = np.random.default_rng(0).standard_normal((5, 3))
    codes, *rest = stepped(series)
    assert codes.shape == (8,)
    assert codes[-1] >> 4 == 0
    unstepped(codes, *rest, 5)
    codes[-1] |= 0x10
    with pytest.raises(ValueError, match="bits behind its end"):
        unstepped(codes, *rest, 5)


def test_rows_of_zeros_are_rounded_like_others_and_do_not_count_for_the_mean():
    series = np.vstack([np.zeros((50, 2)), np.random.default_rng(0).normal([5.0, 0.0], size=(51, 2))])
    series[70, 0] = series[80, 1] = 0.0  # one zero makes no row of zeros
    error = unstepped(*stepped(series), 101) - series
    assert_allclose(error[50:].mean(axis=0), 0.0, atol=1e-12)
    assert (np.abs(error[:50].mean(axis=0)) > 1e-6).all()


@pytest.mark.parametrize("size", [2.0**-996, 2.0**996])
def test_long_series_of_any_size_have_the_codes_of_their_shape(size):
    # powers of two, by which every number of the way is multiplied exactly; squares would leave the range
    series = series_of("noise")
    codes, beyond, level, step = stepped(series)
    for one, expected in zip(stepped(size * series), (codes, beyond, size * level, size * step), strict=True):
        assert_array_equal(one, expected)
