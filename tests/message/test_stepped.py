"""Series in few bits: bounded errors that do not depend on the series, and every number once."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skfedcausal.message.codes import stepped, unstepped

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
