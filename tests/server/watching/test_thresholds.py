"""Budgets, smoothing, thresholds and alarm levels against their definitions and simulations of known rate."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from skfedcausal.containers.rows import sampling_period
from skfedcausal.server.watching.thresholds import (
    GAP,
    RATES,
    AlarmLevels,
    alarm_runs,
    ewma,
    rarely_passed,
    rate_interval,
    steps_between_alarms,
    watch_budget,
)
from skfedcausal.statespace.detection.shift import InnovationModel

# --- budgets ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rate", "steps"),
    [
        (0.01, 100.0),
        ("1 per 500 steps", 500.0),
        ("2 / 500 step", 250.0),
        ("0.5 per step", 2.0),
        ("1 per 90 seconds", 3.0),
        ("1 per 2 minutes", 4.0),
        ("3 per hour", 40.0),
        ("2/day", 1440.0),
        ("1 per 2 weeks", 40320.0),
        ("1 per month", 365.2425 / 12 * 2880),
        ("1 per year", 365.2425 * 2880),
    ],
)
def test_budgets_are_read_as_steps_between_alarms(rate, steps):
    """Of a record in which a row comes every 30 seconds, but for a pause."""
    times = pd.date_range("2026-01-01", periods=50, freq="30s")
    times = times.append(pd.DatetimeIndex([times[-1] + pd.Timedelta(days=1)]))
    assert steps_between_alarms(rate, sampling_period(times)) == pytest.approx(steps, rel=1e-9)


@pytest.mark.parametrize(
    ("rate", "index", "message"),
    [
        ("0 per day", pd.date_range("2026", periods=5), "cannot be read"),
        ("1 per fortnight", pd.date_range("2026", periods=5), "cannot be read"),
        ("per day", pd.date_range("2026", periods=5), "cannot be read"),
        ("1 per day", None, "sampling period"),
        ("1 per day", pd.RangeIndex(5), "sampling period"),
        ("1 per day", pd.date_range("2026", periods=1), "sampling period"),
        ("1 per step", None, "allows 1 alarms per time step"),
        ("1 per hour", pd.date_range("2026", periods=2), "allows 24 alarms per time step"),
    ],
)
def test_budgets_that_cannot_be_meant_are_refused(rate, index, message):
    with pytest.raises(ValueError, match=message):
        steps_between_alarms(rate, sampling_period(index))


def test_a_budget_in_days_is_counted_in_rows():
    assert steps_between_alarms("1 per 3 days", pd.Timedelta(days=1)) == 3.0


def test_runs_longer_than_half_the_record_are_warned_about():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        watch_budget(500, 1000)
    with pytest.warns(UserWarning, match="One false alarm per 501 steps"):
        watch_budget(501, 1000)


# --- series -----------------------------------------------------------------------------------------


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
    """Tails of exponential variables are exponential: one of two passes its level in one of 200 blocks.

    Both are in their tails at once more often than they pass their levels at once, by a fifth of all.
    """
    rng = np.random.default_rng(0)
    maxima = 3.0 + rng.exponential(size=(20_000, 2)) * [0.5, 0.3]
    limits, tails = rarely_passed(maxima, np.array([1.6, 0.9]), 200.0)
    assert_allclose(tails, [0.5, 0.3], rtol=0.05)
    alone = (rng.exponential(size=(10**6, 2)) * [0.5, 0.3] > limits - 3.0).mean(axis=0)
    assert_allclose(alone.sum() * 200, 1.2, rtol=0.1)
    assert_allclose(alone[0], alone[1], rtol=0.2)  # every statistic gets the same share


def test_few_blocks_say_less_of_a_tail_than_what_is_usual():
    """Of 40 blocks 20 are the tail: a mean excess 1.2 times the usual one is by chance, one of 4 times hardly is."""
    at = np.log(20 / np.arange(0.5, 20))  # quantiles of an exponential variable
    for factor, expected in ((1.2, 0.3), (4.0, 1.2)):
        maxima = np.concatenate([np.full(20, 3.0), 3.0 + factor * 0.3 * at])[:, None]
        assert_allclose(rarely_passed(maxima, np.array([0.9]), 100.0)[1], expected, rtol=0.1)


def test_one_start_up_is_no_tail():
    maxima = 3.0 + np.random.default_rng(1).exponential(0.3, size=(120, 1))
    usual, before = np.array([0.9]), rarely_passed(maxima, np.array([0.9]), 100.0)[0]
    maxima[0] = 60.0
    assert rarely_passed(maxima, usual, 100.0)[0] < 1.3 * before


@pytest.mark.parametrize("n_blocks", [0.5, 1.0, 30.0, 1e4])
def test_a_record_of_one_block_has_a_threshold(n_blocks):
    limits, tails = rarely_passed(np.array([[3.0, 2.5]]), np.array([1.5, 0.9]), n_blocks)
    assert np.isfinite(limits).all()
    assert (tails > 0).all()


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


def test_rate_interval_without_alarms_has_an_upper_end():
    """exp(-3.69) = 0.025, and 0.05 for an interval of 90 %."""
    assert_allclose(rate_interval(0, 10), [0.0, -np.log(0.025) / 10])
    assert_allclose(rate_interval(0, 10, 0.9), [0.0, -np.log(0.05) / 10])


# --- levels of the units ----------------------------------------------------------------------------

SLICES = (slice(0, 2), slice(2, 3), slice(3, 6))


def plant_model():
    rng = np.random.default_rng(1)
    A = rng.standard_normal((6, 6))
    root = rng.standard_normal((6, 6))
    return InnovationModel(0.7 * A / np.abs(np.linalg.eigvals(A)).max(), root @ root.T / 6, 2 * np.eye(6))


def nominal_series(model, n_rows, seed):
    """Surprises of units of different size and scaled innovations under the model."""
    rng = np.random.default_rng(seed)
    surprise = np.log1p(rng.chisquare([2, 1, 3], (n_rows, 3)) / [2, 1, 3])
    scaled = rng.standard_normal((n_rows, 6)) @ np.linalg.cholesky(model.weight).T
    return surprise - np.log1p(rng.chisquare([2, 1, 3], (100_000, 3)) / [2, 1, 3]).mean(axis=0), scaled


def learned(statistics=("energy", "shift"), run_length=200.0, lengths=(1500, 700), seed=0):
    model = plant_model()
    parts = [nominal_series(model, n, seed + 10 * k) for k, n in enumerate(lengths)]
    starts = (0, *np.cumsum(lengths)[:-1].tolist())
    levels = AlarmLevels(statistics, model, SLICES).learn(
        np.concatenate([scaled for _, scaled in parts]),
        starts,
        [surprise for surprise, _ in parts],
        [scaled @ model.held for _, scaled in parts],
        run_length,
    )
    return levels, model, parts


def averaged(series, rate):
    """The moving average from zero, row by row."""
    v, rows = np.zeros(series.shape[1]), []
    for row in series:
        v = (1 - rate) * v + rate * row
        rows.append(v)
    return np.array(rows)


def test_levels_are_the_largest_of_the_scaled_averages():
    """Energy: over held-out standard deviations. Shift: as normal scores of their quadratic forms."""
    levels, model, parts = learned(run_length=300.0)
    surprise, scaled = nominal_series(model, 60, 5)
    held = scaled @ model.held
    found, _ = levels.rows(surprise, held)
    assert found.shape == (60, 2, 3)
    energy = []
    for rate in (1.0, 0.2, 0.05):
        spread = np.concatenate([averaged(s, rate) for s, _ in parts]).std(axis=0)
        energy.append(averaged(surprise, rate) / spread)
    assert_allclose(found[:, 0], np.max(energy, axis=0), rtol=1e-9)
    ratios = []
    for rate in (0.2, 0.05):
        nominal = np.concatenate([averaged(u @ model.held, rate) for _, u in parts])
        expected = rate / (2 - rate) * model.held.T @ model.weight @ model.held
        weight = 2200 * rate / 2  # of the data, against 20 of the model
        covariance = (weight * nominal.T @ nominal / 2200 + 20 * expected) / (weight + 20)
        now = averaged(held, rate)
        squares = [np.einsum("ti,ij,tj->t", now[:, b], np.linalg.inv(covariance[b, b]), now[:, b]) for b in SLICES]
        ratios.append(np.column_stack(squares))
    size = np.array([2, 1, 3])
    score = (np.cbrt(np.max(ratios, axis=0) / size) - 1 + 2 / (9 * size)) / np.sqrt(2 / (9 * size))
    assert_allclose(found[:, 1], score, rtol=1e-9)


@pytest.mark.parametrize("name", ["energy", "shift"])
def test_one_statistic_alone_has_the_levels_it_has_beside_the_other(name):
    both, model, _ = learned()
    alone, _, _ = learned((name,))
    surprise, scaled = nominal_series(model, 30, 5)
    k = both.statistics.index(name)
    expected = both.rows(surprise, scaled @ model.held)[0][:, k]
    assert_allclose(alone.rows(surprise, scaled @ model.held)[0][:, 0], expected, rtol=1e-12)
    assert list(alone.thresholds) == [name]
    assert alone.thresholds[name] < both.thresholds[name]  # it has the whole budget


def test_levels_in_pieces_are_those_of_the_whole():
    levels, model, _ = learned()
    surprise, scaled = nominal_series(model, 50, 5)
    held = scaled @ model.held
    whole, after = levels.rows(surprise, held)
    first, averages = levels.rows(surprise[:20], held[:20])
    second, last = levels.rows(surprise[20:], held[20:], averages)
    assert_allclose(np.concatenate([first, second]), whole, rtol=1e-12)
    assert_allclose(last, after, rtol=1e-12)


def test_relative_level_is_the_larger_over_its_threshold():
    levels, _, _ = learned()
    rows = np.random.default_rng(0).uniform(size=(4, 2, 3))
    limits = np.array([levels.thresholds["energy"], levels.thresholds["shift"]])
    assert_allclose(levels.relative(rows), (rows / limits[:, None]).max(axis=1), rtol=1e-12)


@pytest.mark.parametrize("statistics", [("energy", "shift"), ("energy",), ("shift",)])
def test_new_segments_of_a_run_length_are_silent_as_often_as_a_poisson_process(statistics):
    """With probability exp(-1) of 1 alarm; 500 blocks know it to 0.034, 1000 segments show it to 0.015."""
    run_length = 60.0
    levels, model, _ = learned(statistics, run_length, (12_000, 8000))
    surprise, scaled = nominal_series(model, 60_000, 5)
    segments = zip(np.split(surprise, 1000), np.split(scaled @ model.held, 1000), strict=True)
    silent = [levels.relative(levels.rows(*segment)[0]).max() <= 1 for segment in segments]
    assert np.mean(silent) == pytest.approx(np.exp(-1), abs=3 * np.hypot(0.034, 0.015))


@pytest.mark.medium
def test_thresholds_where_inputs_are_beyond_their_ranges_are_those_of_rarer_alarms():
    """Half a range out alarms are eight times as rare, by the cube of two."""
    run_length = 60.0
    levels, model, _ = learned(run_length=run_length, lengths=(12_000, 8000))
    surprise, scaled = nominal_series(model, 192_000, 5)
    seen = levels.rows(surprise, scaled @ model.held)[0]
    assert_array_equal(levels.relative(seen, np.zeros(len(seen))), levels.relative(seen))
    relative = levels.relative(seen, np.ones(len(seen))).max(axis=1)
    silent = np.mean(relative.reshape(400, 480).max(axis=1) <= 1)
    # 400 segments show it to 0.024, 500 blocks know the threshold to 0.034 and its rise, log 8, to a tenth
    assert silent == pytest.approx(np.exp(-1), abs=3 * np.hypot(0.041, np.exp(-1) * np.log(8) / 10))
    rows = np.ones((3, 2, 3))
    assert (np.diff(levels.relative(rows, np.array([0.0, 0.3, 1.0])), axis=0) < 0).all()


@pytest.mark.parametrize("run_length", [37.0, 200.0, 900.0])
def test_thresholds_are_rarely_passed_in_blocks_of_forty_rows(run_length):
    levels, model, parts = learned(run_length=run_length)
    seen = [levels.rows(surprise, scaled @ model.held)[0] for surprise, scaled in parts]
    maxima = [part[k : k + 40].max(axis=(0, 2)) for part in seen for k in range(0, len(part) - 39, 40)]
    limits, _ = rarely_passed(np.array(maxima), np.array([1.5, 0.9]), run_length / 40)
    assert_allclose([levels.thresholds["energy"], levels.thresholds["shift"]], limits, rtol=1e-12)


def test_longer_runs_have_higher_thresholds():
    """Also those beyond the record, by extrapolation: the normal score at half the tail."""
    limits = [learned(run_length=r)[0].thresholds["shift"] for r in (100.0, 400.0, 4000.0)]
    gains = np.diff(limits)
    assert (gains > 0).all()
    normal = stats.norm.isf(1 / (3 * np.array([100.0, 400.0, 4000.0])))
    assert_allclose(gains, np.diff(normal), rtol=0.6)


def test_rate_achieved_is_counted_on_the_rows_held_out():
    levels, model, parts = learned(run_length=50.0)
    n_alarms = 0
    for surprise, scaled in parts:
        above = (levels.relative(levels.rows(surprise, scaled @ model.held)[0]) > 1).any(axis=1)
        last = -np.inf
        for row in np.flatnonzero(above):
            n_alarms += row - last > 20
            last = row
    low, high = rate_interval(n_alarms, 2200)
    assert n_alarms > 5
    assert levels.false_alarms == {
        "asked": 1 / 50,
        "achieved": n_alarms / 2200,
        "low": low,
        "high": high,
        "n_alarms": n_alarms,
        "n_steps": 2200,
    }


def test_heavy_tails_show_in_the_ratio_at_the_threshold():
    """Of a unit of P states: ``P (1 - 2 / 9P + x sqrt(2 / 9P))^3`` is the ratio at level x."""
    levels, _, _ = learned()
    normal = stats.norm.isf(1 / (1000.0 * 3))
    levels.thresholds["shift"] = normal + 2.0
    size = np.array([1, 2, 3])

    def ratio(level):
        return (1 - 2 / (9 * size) + level * np.sqrt(2 / (9 * size))) ** 3

    assert levels.shift_excess(1000.0) == pytest.approx((ratio(normal + 2.0) / ratio(normal)).max())
    levels.thresholds["shift"] = normal - 2.0
    assert levels.shift_excess(1000.0) == 1.0
    assert learned(("energy",))[0].shift_excess(1000.0) == 1.0


def test_rates_followed():
    assert RATES == (1.0, 0.2, 0.05)
    assert GAP == 20
