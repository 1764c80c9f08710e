"""Where levels of series move: sums against dense regressions, changes where they are, none where there are none."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skfedcausal.statespace import segments
from skfedcausal.statespace.segments import Change, LevelRegression, find_changes

CHANGES = [(40, 41), (100, 160), (130, 131), (150, 170), (450, 480), (600, 601), (700, 800), (720, 820)]


def autoregression(seed, n=3000, pole=0.8, k=2):
    rng, x = np.random.default_rng(seed), np.zeros((n, k))
    for t in range(1, n):
        x[t] = pole * x[t - 1] + np.sqrt(1 - pole**2) * rng.standard_normal(k)
    return x


def moves(n, rows, duration=1):
    """Zero and one in turn, from each of some rows on."""
    t, path = np.arange(n), np.zeros(n)
    for k, row in enumerate(rows):
        path += (-1) ** k * Change(row, row + duration).path(t)
    return path[:, None]


@pytest.fixture(params=["complete", "gaps"])
def regression(request):
    present = None if request.param == "complete" else np.random.default_rng(1).random(1500) > 0.03
    return LevelRegression.of(autoregression(0, 1500), (0, 500), present=present)


def test_sums_are_those_of_the_columns_themselves(regression):
    """Sudden ones, ramps, ramps in ramps, ramps that an episode cuts off."""
    changes = sorted(Change(*rows) for rows in CHANGES)
    columns = np.zeros((len(regression.rows), len(changes)))
    for column, change in zip(columns.T, changes, strict=True):
        same = (regression.rows >= 500) == (change.start >= 500)
        column[:] = np.where(same, change.path(regression.rows), 0.0)
    beside = columns - regression.past @ (regression.past.T @ columns)
    sums = regression._sums(changes)
    assert_allclose(sums.squares, beside.T @ beside, rtol=0, atol=1e-9)
    assert_allclose(sums.products, columns.T @ regression.errors, rtol=0, atol=1e-9)
    assert_allclose(sums.with_past, columns.T @ regression.past, rtol=0, atol=1e-9)


def test_the_best_change_is_that_of_all_regressions(regression, monkeypatch):
    monkeypatch.setattr(segments, "_DURATIONS", (1, 6, 48))
    others = [Change(*rows) for rows in (CHANGES[0], CHANGES[1], CHANGES[6])]
    n, (low, high), gains = len(regression.rows), (520, 640), {}
    for duration in (1, 6, 48):
        for start in range(low, high - duration + 1):
            trial = Change(start, start + duration)
            columns = regression._beside(regression._paths([*others, trial], regression.rows))
            basis = np.linalg.qr(columns)[0]
            left = regression.errors - basis @ (basis.T @ regression.errors)
            gains[trial] = -n * np.linalg.slogdet(left.T @ left)[1] - (np.log(n) if duration > 1 else 0.0)
    assert regression._best(others, low, high, 1500) == max(gains, key=gains.get)


def test_a_ratio_is_that_of_the_regressions_with_and_without_the_change():
    x = autoregression(2, k=6) + 3.0 * moves(3000, [1000, 2000])
    regression = LevelRegression.of(x, (0,))
    found = regression.changes()
    assert len(found) == 2
    with_both = regression._beside(regression._paths(found, regression.rows))
    values = []
    for columns in (with_both, with_both[:, 1:]):
        basis = np.linalg.qr(columns)[0]
        left = regression.errors - basis @ (basis.T @ regression.errors)
        values.append(-3000 * np.linalg.slogdet(left.T @ left)[1])
    # the first is a score at the covariance with both, the others are likelihoods: alike to the share that it explains
    assert found[0].ratio == pytest.approx(values[0] - values[1], rel=3 / 3000 + 1e-6)


@pytest.mark.parametrize("n_changes", [1, 4, 9])
@pytest.mark.parametrize("duration", [1, 60])
def test_changes_are_found_where_they_are(n_changes, duration):
    """A sudden one at its row, a ramp as one change, give or take five rows where it bends."""
    rows = [3000 * k // (n_changes + 1) for k in range(1, n_changes + 1)]
    off = 1 if duration == 1 else 5
    for seed in range(3):
        found = find_changes(autoregression(seed, pole=0.5) + 6.0 * moves(3000, rows, duration), (0,))
        assert len(found) == n_changes
        for change, row in zip(found, rows, strict=True):
            assert row - off <= change.start
            assert change.stop <= row + duration + off


@pytest.mark.parametrize("pole", [0.0, 0.9, 0.99, 0.995, 0.999, 1.0])
def test_what_comes_back_to_one_level_or_to_none_has_no_changes(pole):
    for seed in range(10):
        noise = np.random.default_rng(100 + seed).standard_normal((3000, 2))
        slow = np.cumsum(noise, axis=0) if pole == 1.0 else autoregression(seed, pole=pole)
        assert find_changes(slow + 0.3 * noise[::-1], (0,)) == []


def test_drifts_seasons_and_swings_of_the_variance_are_no_changes():
    t = np.arange(3000)
    for seed in range(5):
        rng, x = np.random.default_rng(seed), autoregression(seed)
        assert find_changes(x + 2.0 * t[:, None] / 3000, (0,)) == []
        assert find_changes(x + np.sin(2 * np.pi * t[:, None] / 500), (0,)) == []
        size = np.exp(np.repeat(rng.standard_normal(60), 50))
        assert find_changes(size[:, None] * rng.standard_normal((3000, 2)), (0,)) == []
        assert find_changes(rng.standard_t(2.5, size=(3000, 2)), (0,)) == []


def test_what_known_series_do_is_no_change():
    switch = moves(3000, [500, 1500])
    x = autoregression(0)
    for t in range(1, 3000):
        x[t] += 2.0 * switch[t - 1]
    assert len(find_changes(x, (0,))) == 2
    assert find_changes(x, (0,), known=switch) == []


def test_episodes_have_levels_of_their_own():
    x = autoregression(0, 2000, pole=0.3, k=6) + 3.0 * (np.arange(2000) >= 1000)[:, None]
    assert find_changes(x, (0, 1000)) == []
    (change,) = find_changes(x, (0,))
    assert (change.start, change.stop) == (1000, 1001)


def test_rows_that_are_missing_count_for_nothing():
    x = autoregression(0, pole=0.3)
    x = x - x.mean(axis=0) + 6.0 * (moves(3000, [1000]) - 2 / 3)
    present = np.random.default_rng(0).random(3000) > 0.05
    (change,) = find_changes(np.where(present[:, None], x, 0.0), (0,), present=present)
    assert abs(change.start - 1000) <= 3  # the rows that lags take, where one of them is missing


def test_short_records_and_constants_say_nothing():
    assert find_changes(np.zeros((0, 2)), (0,)) == []
    assert find_changes(autoregression(0, 99), (0,)) == []
    for value in (0.0, 0.1, 1e6):
        assert find_changes(np.full((1500, 3), value), (0,)) == []
