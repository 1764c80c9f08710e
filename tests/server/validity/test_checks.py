"""Checks on series of which the answer is known: their size where all is well, and what each of them sees."""

import numpy as np
import pytest
from scipy import stats
from scipy.signal import lfilter

from skfedcausal.server.validity import checks


def white(seed, n=1000, units=3, p=2):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((n, p)) for _ in range(units)]


def whiteness(units, n_lags, **settings):
    """P values (m, m) of the first lags together."""
    return checks.portmanteau(*checks.squares_of_lags(units, n_lags, **settings), n_lags)


def test_series_of_a_unit_have_unit_covariance_and_no_empty_directions():
    rng = np.random.default_rng(0)
    series = rng.standard_normal((500, 2)) @ rng.standard_normal((2, 3)) + 4
    turned = checks.unit_series(series)
    assert turned.shape == (500, 2)
    np.testing.assert_allclose(turned.T @ turned / 500, np.eye(2), atol=1e-10)


def test_p_values_of_white_innovations_are_uniform():
    p = {name: [] for name in ("white", "squares", "common", "halves")}
    for seed in range(60):
        units = [checks.unit_series(x) for x in white(seed)]
        p["white"] += whiteness(units, 5).ravel().tolist()
        p["squares"] += checks.squares(units)[1].tolist()
        p["common"] += [p_value for _, p_value in checks.roughness(units).values()]
        p["halves"] += checks.halves(units, white(seed + 1000), (0,), list(np.ndindex(len(units), len(units))))[
            1
        ].tolist()
    for name, values in p.items():
        # several hundred values: Kolmogorov's distance of uniform ones is above 0.12 in less than 1 of 1000
        assert stats.kstest(values, "uniform").statistic < 0.12, name


def test_whiteness_sees_what_follows_another_unit():
    units = white(1)
    units[2][3:] += 0.3 * units[0][:-3]
    p = whiteness([checks.unit_series(x) for x in units], 5)
    assert p[2, 0] < 1e-6
    assert np.delete(p.ravel(), 6).min() > 1e-4


def test_a_late_lag_is_seen_and_dated_and_others_keep_their_size():
    p_values = []
    for seed in range(40):
        units = white(seed)
        units[2][40:] += 0.3 * units[0][:-40]
        found = checks.squares_of_lags([checks.unit_series(x) for x in units], 60)
        lags, p = checks.late_lags(*found, 25)
        assert lags[2, 0] == 40
        assert p[2, 0] < 1e-6
        p_values += np.delete(p.ravel(), 6).tolist()
    # the least of 36 independent p values times their number: below a level at most as often as that
    for level in (0.1, 0.02):
        assert np.mean(np.array(p_values) < level) < level + 4 * np.sqrt(level / len(p_values))


def test_common_squares_see_shared_bursts_whatever_tails_there_are():
    units = [np.random.default_rng(k).standard_t(2.5, (1000, 2)) for k in range(3)]
    calm = checks.roughness([checks.unit_series(x) for x in units])
    rough = np.where(np.arange(1000) // 50 % 2, 3.0, 1.0)[:, None]
    loud = checks.roughness([checks.unit_series(x * rough) for x in units])
    assert min(p for _, p in calm.values()) > 1e-3
    assert max(p for _, p in loud.values()) < 1e-6


def test_halves_see_a_moment_that_changes_sign():
    units, states = white(2), white(3)
    units[1][1:501] += 0.2 * states[0][:500]
    units[1][501:] -= 0.2 * states[0][500:-1]
    changed, other = checks.halves(units, states, (0,), [(1, 0), (0, 1)])[1]
    assert changed < 1e-6
    assert other > 1e-3


@pytest.mark.parametrize("period", [24.0, 288.0, 7.3])
def test_a_line_is_found_with_its_period(period):
    x = white(4, n=2000)[0]
    x[:, 0] += np.sin(2 * np.pi * np.arange(2000) / period)
    _, p, found = checks.line(checks.unit_series(x))
    assert p < 1e-8
    assert found == pytest.approx(period, rel=0.02)


@pytest.mark.parametrize("n", [57, 200, 1001])
def test_the_line_that_is_told_is_the_least_likely_of_all_frequencies(n):
    for x in white(4, n=n):
        ratio, p, _ = checks.line(x)
        power = np.square(np.abs(np.fft.rfft(x * np.hanning(n)[:, None], axis=0)))[:-1]
        found = []
        for k in range(3, len(power) - 1):
            left, right = power[max(k - 14, 1) : max(k - 2, 1)], power[k + 3 : k + 15]
            level = np.vstack([left, right]).mean(axis=0)
            level = np.maximum(level, left.mean(axis=0)) if len(left) >= 3 else level
            here = (power[k] / level).mean()
            found.append((stats.f.sf(here, 2 * x.shape[1], x.shape[1] * (len(left) + len(right))), here))
        assert (p, ratio) == pytest.approx((min(1.0, min(found)[0] * len(found)), min(found)[1]))


def test_a_link_by_way_of_another_unit_is_told_from_one_of_its_own():
    rng = np.random.default_rng(7)
    cause, noise = rng.standard_normal((2, 1000, 2))
    assert checks.own_way(noise, cause)[1] > 1e-3
    assert checks.own_way(noise + 0.3 * cause, cause)[1] < 1e-8


def test_held_out_gain_is_that_of_the_rows_behind():
    rng = np.random.default_rng(8)
    cause, noise = rng.standard_normal((2, 4000, 2))
    gain, error = checks.held_out_gain(noise + 0.5 * cause, cause)
    assert gain == pytest.approx(2 * 0.5 * np.log(1.25), abs=4 * error)  # mutual information of two directions
    broken = noise + np.where(np.arange(4000) < 2800, 0.5, -0.5)[:, None] * cause
    assert checks.held_out_gain(broken, cause)[0] < 0


def test_responses_stop_at_the_ends_of_episodes():
    states, lags = np.ones((6, 1)), np.array([[[1.0]], [[10.0]]])
    assert checks.response(lags, (0, 3), states)[:, 0].tolist() == [0, 1, 11, 0, 1, 11]


def test_products_that_bursts_make_large_are_no_correlation():
    rng = np.random.default_rng(1)
    units = [checks.unit_series(rng.standard_normal((2000, 2))) for _ in range(2)]
    both = units[0] + rng.standard_normal((2000, 2))
    assert checks.together(*units)[1] > 0.01
    assert checks.together(units[0], checks.unit_series(both))[1] < 1e-9
    hit = rng.choice(2000, 15, replace=False)
    for unit in units:
        unit[hit] += 20 * rng.choice([-1.0, 1.0], (15, 2))
    assert checks.together(*units)[1] > 1e-3


def test_whiteness_under_swings_needs_the_scatter_of_products():
    """Swings by three for a hundred rows: sums of products are then no longer chi-squared."""
    rng = np.random.default_rng(2)
    size = np.where(np.arange(4000) // 100 % 2, 3.0, 1.0)[:, None]
    plain, robust = [], []
    for _ in range(40):
        units = [checks.unit_series(size * rng.standard_normal((4000, 2))) for _ in range(2)]
        plain.append(whiteness(units, 24).ravel())
        robust.append(whiteness(units, 24, any_variance=True).ravel())
    assert np.mean(np.concatenate(plain) < 0.05) > 0.2
    assert np.mean(np.concatenate(robust) < 0.05) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 160)


def test_few_rows_far_out_do_not_make_innovations_coloured():
    rng = np.random.default_rng(3)
    p_values = []
    for _ in range(20):
        units = [checks.unit_series(rng.standard_t(2.5, (2000, 2))) for _ in range(3)]
        p_values.append(whiteness(units, 24).ravel())
    assert np.mean(np.concatenate(p_values) < 0.01) < 0.01 + 3 * np.sqrt(0.01 * 0.99 / 180)


@pytest.mark.parametrize("tails", [np.inf, 2.5])
def test_rough_rows_are_those_of_what_two_units_do_not_share(tails):
    rng = np.random.default_rng(4)
    units = [checks.unit_series(rng.standard_normal((2000, p)) if np.isinf(tails) else rng.standard_t(tails, (2000, p)))
             for p in (2, 1, 3)]  # fmt: skip
    units[2][:, 0] += 0.4 * units[0][:, 0]
    together = checks.roughness(units)
    for cause, effect in together:
        rest = units[effect] - units[cause] @ (units[cause].T @ units[effect] / 2000)
        sizes = [np.square(x).sum(axis=1) for x in (units[cause], rest)]
        logs = [np.log(size / x.shape[1] + 0.1) for size, x in zip(sizes, (units[cause], rest), strict=True)]
        z = np.corrcoef(*logs)[0, 1] * np.sqrt(2000)
        np.testing.assert_allclose(together[cause, effect][0], z, rtol=1e-9)


@pytest.mark.parametrize("share", [1.0, 1e-9, 0.0])
def test_a_regression_is_that_of_least_squares_also_of_columns_that_say_the_same(share):
    rng = np.random.default_rng(5)
    first, other, Y = rng.standard_normal((300, 1)), rng.standard_normal((300, 1)), rng.standard_normal((300, 2))
    X = np.hstack([first, (1 - share) * first + share * other])
    expected = np.linalg.lstsq(X, Y, rcond=None)[0]
    np.testing.assert_allclose(X @ checks._regression(X, Y), X @ expected, atol=1e-12)


@pytest.mark.parametrize("noise", [0.0, 1e-15, 1e-9])
@pytest.mark.parametrize("sizes", [(2, 2), (3, 2), (1, 1)])
def test_a_copy_is_rough_in_no_row_of_its_own(noise, sizes):
    """What a unit has beside another it is a function of is rounding, which is largest where the other one is."""
    rng = np.random.default_rng(6)
    first = rng.standard_t(2.5, (2000, sizes[0]))
    copy = 5.0 * first @ rng.standard_normal(sizes) + 3.0
    copy *= 1 + noise * rng.standard_normal(copy.shape)
    assert checks.roughness([checks.unit_series(first), checks.unit_series(copy)])[0, 1] == (0.0, 1.0)


def test_rows_that_are_all_as_far_from_zero_are_rough_in_none():
    rng = np.random.default_rng(7)
    signs = np.sign(rng.standard_normal((1000, 2)))
    assert checks.roughness([signs, rng.standard_normal((1000, 2))])[0, 1] == (0.0, 1.0)


@pytest.mark.parametrize("series", [np.sin, np.sign, np.square], ids=lambda series: series.__name__)
@pytest.mark.parametrize("n", [1024, 1000])
def test_a_line_beside_nothing_is_a_line(series, n):
    wave = series(np.sin(2 * np.pi * (np.arange(n) + 0.5) / 32))[:, None]
    ratio, p, period = checks.line(checks.unit_series(wave))
    assert np.isfinite(ratio)
    assert p < 1e-30
    assert period == pytest.approx(16 if series is np.square else 32, rel=0.02)


@pytest.mark.parametrize("n", [500, 512, 1000])
def test_rounding_of_a_trend_or_of_nothing_is_no_line(n):
    for series in (np.arange(n, dtype=float), np.arange(n) ** 2.0, np.zeros(n)):
        ratio, p, period = checks.line(series[:, None])
        assert np.isfinite(ratio)
        assert p > 1e-3 or period > n / 5  # the slow end, which is steep


def test_what_moves_by_rounding_alone_gains_nothing_and_an_exact_function_gains_something_finite():
    cause = np.random.default_rng(10).standard_normal((1000, 2))
    assert checks.held_out_gain(np.zeros((1000, 2)), cause) == (0.0, 0.0)
    assert checks.held_out_gain(np.where(np.arange(1000)[:, None] < 800, 0.0, cause), cause) == (0.0, 0.0)
    for target in (cause, cause @ [[1.0, 2.0], [3.0, 4.0]], np.sign(cause)):
        gain, error = checks.held_out_gain(np.round(target, 3), target)
        assert np.isfinite([gain, error]).all()
        assert gain > 0
    gain, error = checks.held_out_gain(cause, cause)
    assert 20 < gain < 100  # nats of a row, from digits that a number has


# --- trends ----------------------------------------------------------------------------------------------


def test_neither_lines_nor_trends_are_seen_in_autoregressions():
    rng = np.random.default_rng(5)
    lines, trends = [], []
    for _ in range(60):
        x = np.zeros((1000, 2))
        w = rng.standard_normal(x.shape)
        for t in range(1, 1000):
            x[t] = [0.9, -0.7] * x[t - 1] + w[t]
        series = checks.unit_series(x)
        lines.append(checks.line(series)[1])
        trends.append(checks.trend(series)[1])
    assert min(lines) > 1e-5  # a hundredth of the level that is used, and a sixtieth of one in sixty
    assert np.mean(np.array(trends) < 0.05) < 0.2


def test_a_trend_is_seen():
    x = white(6)[0]
    assert checks.trend(checks.unit_series(x + np.linspace(0, 1, 1000)[:, None]))[1] < 1e-8


def slow(rng, phi, n_rows, n=2):
    """Autoregressions of unit variance."""
    steps = rng.standard_normal((n_rows + 1000, n)) * np.sqrt(1 - phi**2)
    return lfilter([1], [1, -phi], steps, axis=0)[1000:]


def test_what_never_moves_has_no_trend():
    moving = np.random.default_rng(11).standard_normal((500, 1))
    assert checks.trend(np.zeros((500, 2))) == (0.0, 1.0)
    assert checks.trend(np.hstack([np.ones((500, 1)), moving])) == checks.trend(moving)


@pytest.mark.parametrize("phi", [0.0, 0.9, 0.98])
def test_the_error_of_a_long_run_variance_is_what_records_show(phi):
    rng, t = np.random.default_rng(8), np.linspace(-1, 1, 4000)
    t /= np.sqrt(t @ t)
    around = (x - (t @ x) * t for x in slow(rng, phi, 4000, 300).T)
    variance, error = np.array([checks._long_run_variance(x) for x in around]).T
    expected = np.median(error) + 2 / 4000  # that of the variance of the innovations, which the dof have beside it
    # a variance of 300 values is known to 8 %; errors themselves scatter, the more the slower
    assert np.log(variance).var() == pytest.approx(expected, rel=0.25)
    assert np.median(variance) == pytest.approx((1 + phi) / (1 - phi), rel=0.1)


def test_a_line_and_nothing_else_is_a_trend():
    line = np.arange(2000.0)[:, None]
    assert checks.trend(line)[1] < 1e-8
    assert checks.trend(np.hstack([line, np.random.default_rng(0).standard_normal((2000, 1))]))[1] < 1e-8


def test_what_a_slow_unit_does_by_itself_is_no_trend():
    rng = np.random.default_rng(9)
    found = [
        checks.trend(checks.unit_series(x + 0.3 * rng.standard_normal(x.shape)))[1]
        for x in (slow(rng, 0.99, 1000) for _ in range(200))
    ]
    assert np.count_nonzero(np.array(found) < 1e-3) <= 2  # of 0.2 expected: more in 1 of 1000 such tests


def test_a_trend_of_units_with_a_memory_is_seen():
    rng = np.random.default_rng(10)
    line = np.linspace(0, 3, 2000)[:, None]
    assert max(checks.trend(checks.unit_series(slow(rng, 0.9, 2000) + line))[1] for _ in range(20)) < 1e-5


def test_a_trend_that_was_taken_for_shifts_is_found():
    rng = np.random.default_rng(0)
    rows = np.arange(2000)
    steps = (rows[:, None] >= [500, 1000, 1500]).astype(float)
    for slope, found in ((3.0, True), (0.0, False)):
        series = rng.standard_normal((2000, 1)) + slope * (rows / 2000)[:, None] + 0.1 * steps.sum(axis=1)[:, None]
        assert (checks.trend(checks.unit_series(series), steps)[1] < 1e-4) == found
    shifted = checks.unit_series(rng.standard_normal((2000, 1)) + 2 * steps[:, 1:2])
    assert checks.trend(shifted)[1] < 1e-4 < checks.trend(shifted, steps[:, 1:2])[1]


def test_a_path_along_a_line_or_all_that_there_is_leaves_no_trend():
    rng, rows = np.random.default_rng(9), np.linspace(0, 1, 1000)[:, None]
    series = checks.unit_series(rng.standard_normal((1000, 2)) + 3 * rows)
    assert checks.trend(series, 2.0 * rows) == checks.trend(series, series) == (0.0, 1.0)
    statistic, p = checks.trend(series, series[:, :1])
    assert np.isfinite(statistic)
    assert 0 <= p <= 1
