"""Smoothing, thresholds and onsets against their definitions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from skfedcausal.statespace.detection.alarms import (
    alarm_runs,
    budget_thresholds,
    ewma,
    extrapolated_thresholds,
    known_from,
    onset,
    rate_interval,
)


@pytest.mark.parametrize("rate", [1.0, 0.2, 0.05])
def test_average_in_pieces_is_the_average_of_the_whole(rate):
    x = np.random.default_rng(0).standard_normal((40, 3))
    expected, v = np.empty_like(x), np.zeros(3)
    for t, row in enumerate(x):
        v = v + rate * (row - v)
        expected[t] = v
    whole = ewma(x, rate)
    assert_allclose(whole, expected, atol=1e-12)
    first = ewma(x[:17], rate)
    assert_allclose(ewma(x[17:], rate, first[-1]), whole[17:], atol=1e-12)


def test_thresholds_spend_one_budget_together():
    rng = np.random.default_rng(0)
    maxima = rng.gumbel(size=(4000, 3)) * [1, 5, 0.1]
    limits = budget_thresholds(maxima)
    assert abs((maxima <= limits).all(axis=1).mean() - np.exp(-1)) < 1e-3
    alone = (maxima <= limits).mean(axis=0)
    assert np.ptp(alone) < 1e-3  # every statistic gets the same share


def test_one_statistic_gets_the_whole_budget():
    maxima = np.random.default_rng(1).standard_normal((1000, 1))
    assert_allclose(budget_thresholds(maxima), np.quantile(maxima, np.exp(-1)), atol=5e-3)


def test_rate_interval_is_garwoods():
    low, high = rate_interval(3, 1000)  # tabulated exact limits for 3 events: 0.6187, 8.7673
    assert_allclose([low * 1000, high * 1000], [0.61867, 8.76727], atol=1e-4)
    assert rate_interval(0, 10)[0] == 0.0


def test_runs_closer_than_the_gap_are_one():
    alarm = np.zeros(20, dtype=bool)
    alarm[[2, 3, 6, 15]] = True
    assert alarm_runs(alarm, 1) == [(2, 3), (6, 6), (15, 15)]
    assert alarm_runs(alarm, 3) == [(2, 6), (15, 15)]
    assert alarm_runs(np.zeros(3, dtype=bool), 1) == []


def test_onset_is_where_evidence_turns():
    evidence = np.array([-1.0, 0.5, -2.0, 1.0, 2.0, 3.0])
    assert onset(evidence, 0.2) == 3


def test_thresholds_in_estimated_standard_deviations_keep_the_budget():
    """A variable over a scale estimated from v others passes the inflated quantile at the tail asked for."""
    rng, tail, n_others, n_draws = np.random.default_rng(0), 0.01, 12, 200_000
    scale = np.sqrt(rng.chisquare(n_others, n_draws) / n_others)
    rows, rate = n_others * 39, 0.05  # averages over 39 rows
    threshold = stats.norm.isf(tail) * known_from(rows, 1 / tail, rate)
    passed = (rng.standard_normal(n_draws) / scale > threshold).mean()
    assert_allclose(passed, tail, atol=4 * np.sqrt(tail / n_draws))


def test_long_records_need_no_inflation():
    factors = [known_from(n, 1000.0, 0.05) for n in (500, 2000, 10_000, 10**7)]
    assert factors == sorted(factors, reverse=True)
    assert factors[-1] == pytest.approx(1.0, abs=1e-3)


def test_thresholds_beyond_the_draws_follow_the_law_of_largest_values():
    """Largest of 100 exponential variables; the level that one in 1000 passes."""
    rng = np.random.default_rng(0)
    maxima = rng.exponential(size=(4000, 100)).max(axis=1)[:, None]
    threshold = extrapolated_thresholds(maxima, np.exp(-100 / 1000))
    # quantiles at 0.5 and 0.1 of a Gumbel law: errors 1.44, 1.30 over root 4000, weights 2.61, -1.61
    error = np.hypot(2.61 * 1.44, 1.61 * 1.30) / np.sqrt(4000)
    assert_allclose(threshold, np.log(1000), atol=4 * error)


def test_thresholds_within_the_draws_are_their_quantiles():
    maxima = np.random.default_rng(0).standard_normal((50, 2))
    silent = np.exp(-1)
    assert_allclose(extrapolated_thresholds(maxima, silent), budget_thresholds(maxima, silent), rtol=0)
