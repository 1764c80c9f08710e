"""Shifts of levels found in scores: where they are, not where nothing shifts, and the record cut there."""

from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks._situations import draw
from skfedcausal import Baseline, FederatedGrangerEstimator, KalmanClient
from skfedcausal.server.validity.checks import movers, shifts
from skfedcausal.server.validity.report import _shifts

ROWS = [200, 480, 700, 1000, 1350, 1600, 1800]


def autoregressions(seed, phi, n=2000, k=8):
    rng = np.random.default_rng(seed)
    x = np.zeros((n, k))
    for t in range(1, n):
        x[t] = phi * x[t - 1] + rng.standard_normal(k)
    return x


def stepped(n, rows, ramp=1, seed=0):
    """Levels, one number by row, that move by one or two at `rows`."""
    rng, path = np.random.default_rng(seed), np.zeros(n)
    for row in rows:
        size = rng.choice([-1, 1]) * rng.uniform(1, 2)
        path += size * ((np.arange(n) - row + 1) / ramp).clip(0, 1)
    return path


@pytest.mark.parametrize("ramp", [1, 20])
def test_shifts_are_found_and_rows_in_which_levels_move_are_in_them(ramp):
    x = autoregressions(0, 0.5) + 1.5 * stepped(2000, ROWS, ramp)[:, None]
    found = shifts(x, (0,))
    assert len(found) == len(ROWS)
    for shift, row in zip(found, ROWS, strict=True):
        assert shift[0] <= row + 3  # of steps of four rows
        assert shift[1] >= row + ramp - 3
        assert shift[1] - shift[0] < ramp + 40


@pytest.mark.parametrize("every", [200, 400])
@pytest.mark.parametrize("phi", [0.5, 0.8])
def test_large_shifts_are_found_as_small_ones_are(phi, every):
    """Whatever their size, in standard deviations: blocks with a shift inside are no scatter."""
    rows = list(range(every, 2000 - every // 2, every))
    for size in (2, 5, 12, 100):
        for seed in range(3):
            x = autoregressions(seed, phi)
            found = shifts(x + size * x.std() * stepped(2000, rows, seed=seed)[:, None], (0,))
            assert len(found) == len(rows)
            assert all(shift[0] <= row < shift[1] for shift, row in zip(found, rows, strict=True))


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9, 0.95])
def test_none_in_stationary_series(phi):
    assert all(shifts(autoregressions(seed, phi), (0,)) == [] for seed in range(10))


def test_none_in_what_wanders_or_has_a_trend():
    for seed in range(5):
        x = autoregressions(seed, 0.5)
        walk = 0.1 * np.cumsum(np.random.default_rng(seed).standard_normal(x.shape), axis=0)
        assert shifts(x + walk, (0,)) == []
        assert shifts(x + np.linspace(0, 5, len(x))[:, None], (0,)) == []


def test_units_that_move_are_told_from_those_that_do_not():
    for seed in range(10):
        x, path = autoregressions(seed, 0.8), stepped(2000, ROWS, seed=seed)
        own, few = 5.0 * path[:, None], 20.0 * (np.arange(2000) >= ROWS[2])[:, None]
        units = [x[:, :3] + own, x[:, 3:5], x[:, 5:] + few]
        found = shifts(np.hstack(units), (0,))
        assert len(found) == len(ROWS)
        moved = movers(units, found, (0,))
        assert moved.sum(axis=0).tolist() == [7, 0, 1]
        assert moved[2].tolist() == [True, False, True]


def test_the_report_names_units_that_move_alone():
    x, path = autoregressions(0, 0.8, k=6), 5.0 * stepped(2000, ROWS)[:, None]
    scores = [x[:, :2] + path, x[:, 2:4], x[:, 4:] + path]
    found = SimpleNamespace(scores=scores, path=None, starts=(0,))
    moves, counts = _shifts(found)
    assert counts == [7, 0, 7]
    assert len(moves) == 7
    assert _shifts(found.__class__(scores=[x[:, :2], x[:, 2:]], path=None, starts=(0,))) == ([], [0, 0])


def test_none_in_seasons_and_in_states_that_switch_by_themselves():
    for seed in range(5):
        x, rng = autoregressions(seed, 0.5), np.random.default_rng(seed)
        for period in (24, 100, 500):
            assert shifts(x + 5 * np.sin(2 * np.pi * np.arange(len(x)) / period)[:, None], (0,)) == []
        sides = np.cumsum(rng.random(x.shape) < 0.02, axis=0) % 2
        assert shifts(x + 10 * sides, (0,)) == []


def test_none_in_short_series_and_in_series_without_columns():
    assert shifts(np.random.default_rng(0).standard_normal((100, 2)), (0,)) == []
    assert shifts(np.zeros((1000, 0)), (0,)) == []


def test_a_start_of_an_episode_is_no_shift():
    x = autoregressions(1, 0.5)
    x[1000:] += 5.0
    assert shifts(x, (0, 1000)) == []


@pytest.fixture(scope="module")
def moved():
    return draw("ten common set-point changes", 100).X


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore::UserWarning")  # of drift, as long as nothing is done about it
def test_a_remedy_cuts_the_record_where_set_points_move(moved):
    est = FederatedGrangerEstimator(remedy="auto").fit(moved)
    assert est.remedies_ == ('levels="episode"',)
    links = est.links_.query("verdict == 'influence'")
    assert set(zip(links["cause"], links["effect"], strict=True)) == {("u0", "u1")}
    assert 1500 < est.server_.n_samples_ < 2000
    assert est.client is None
    assert est.remedy == "auto"


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_second_fit_that_fails_leaves_the_first_one(moved, monkeypatch):
    fit_units, fits = FederatedGrangerEstimator._fit_units, []

    def fails_twice(self, plant, home=None):
        fit_units(self, plant, home)
        fits.append(plant.n_samples)
        if len(fits) == 2:
            raise MemoryError("of the second")

    monkeypatch.setattr(FederatedGrangerEstimator, "_fit_units", fails_twice)
    est = FederatedGrangerEstimator(remedy="auto")
    with pytest.raises(MemoryError, match="of the second"):
        est.fit(moved)
    assert fits[1] < fits[0]  # cut
    assert est.server_.n_samples_ == fits[0] == 2000
    assert est.remedies_ == ()
    assert est.client is None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_report_names_the_rows_and_levels_that_are_taken_off_stay_as_asked_for(moved):
    est = FederatedGrangerEstimator(KalmanClient(baseline=Baseline(trend="smooth")), remedy="auto").fit(moved)
    assert 'levels="episode"' not in est.remedies_
    told = FederatedGrangerEstimator().fit(moved).validity_.query("check == 'steady levels'")
    if told.empty:
        pytest.xfail("levels are steady for the check since units take shifts off before sensors are identified")
    assert set(told["effect"]) == {"u0", "u1", "u2", "u3"}
    assert not told["passed"].any()
    assert told["remedy"].str.contains('levels="episode" in this unit, without rows').all()
    assert (told["statistic"] >= 7).all()


@pytest.mark.parametrize("still", [0.0, 7.3, 1e-9], ids=str)
def test_what_stands_still_in_most_rows_is_judged_by_the_others(still):
    """A record that stands still has no scatter to judge levels by; constant ones none at all."""
    x = autoregressions(2, 0.3, k=3)
    x[700:] = still
    found = shifts(x, (0,))
    assert all(0 < shift[0] < shift[1] <= len(x) for shift in found)
    assert shifts(np.full((2000, 2), still), (0,)) == []
    x = autoregressions(3, 0.3, k=3)
    x[:, 1] = still
    assert shifts(x, (0,)) == []


def test_steps_alone_are_found():
    found = shifts(np.column_stack([stepped(2000, ROWS), stepped(2000, ROWS, seed=1)]), (0,))
    assert len(found) == len(ROWS)
    assert all(shift[0] <= row <= shift[1] for shift, row in zip(found, ROWS, strict=True))
