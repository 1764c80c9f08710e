"""What the clock tells is found where it is there, taken off, and added to predictions again."""

import numpy as np
import pandas as pd
import pytest

from skfedcausal import Baseline, FederatedRCADetector, KalmanClient
from skfedcausal.statespace.lines import sharp_period


def noise(n, seed=0, memory=0.8):
    """Three sensors of one slow state, (n, 3)."""
    rng = np.random.default_rng(seed)
    h = np.zeros(n)
    for t in range(1, n):
        h[t] = memory * h[t - 1] + rng.normal()
    return h[:, None] * [1.0, 0.5, -0.7] + 0.3 * rng.normal(size=(n, 3))


def by_the_day(index, size=3.0):
    """A schedule with kinks: on from six to nine, on Saturdays and Sundays from ten to twelve."""
    hours = index.hour + index.minute / 60
    weekend = index.day_of_week >= 5
    return size * np.where(weekend, (hours >= 10) & (hours < 12), (hours >= 6) & (hours < 9))[:, None]


def record(n_days=21, minutes=30, seed=0, size=3.0):
    index = pd.date_range("2024-01-01", periods=n_days * 24 * 60 // minutes, freq=f"{minutes}min")
    return pd.DataFrame(noise(len(index), seed) + by_the_day(index, size), index=index, columns=["a", "b", "c"])


def names(client):
    return [] if client.baseline_ is None else [term.name for term in client.baseline_.profile]


def test_a_profile_by_time_of_day_and_weekend_is_taken_off():
    X = record()
    client = KalmanClient(baseline=Baseline(profile="auto")).fit(X)
    assert names(client) == ["profile by time of day and weekend"]
    off = client.baseline_.of(X.to_numpy(), X.index)[0]
    true = by_the_day(X.index)
    rows = X.index.day_of_week < 5  # fifteen days each, of a state whose mean over them has a deviation of about 0.4
    assert np.abs((off - off.mean(axis=0)) - (true - true.mean()))[rows].mean() < 0.5
    assert np.corrcoef(off[rows, 0], true[rows, 0])[0, 1] > 0.8


def test_later_rows_have_the_same_profile_by_their_times():
    X = record(28)
    client = KalmanClient(baseline=Baseline(profile="auto")).fit(X.iloc[:1000])
    later = X.iloc[1000:]
    off = client.baseline_.of(later.to_numpy(), later.index)[0]
    whole = client.baseline_.of(X.to_numpy(), X.index)[0]
    np.testing.assert_allclose(off, whole[1000:])


def test_predictions_are_of_the_record_as_it_was():
    X = record()
    plain, client = (
        KalmanClient(baseline=Baseline(profile=None)).fit(X),
        KalmanClient(baseline=Baseline(profile="auto")).fit(X),
    )
    errors = [np.square(X.to_numpy() - one.predict(X)).mean() for one in (plain, client)]
    assert errors[1] < 0.8 * errors[0]


def test_twelve_days_have_no_weekend_of_their_own():
    index = pd.date_range("2024-01-01", periods=12 * 48, freq="30min")
    X = pd.DataFrame(noise(len(index)) + 3 * ((index.hour >= 6) & (index.hour < 9))[:, None], index=index)
    assert names(KalmanClient(baseline=Baseline(profile="auto")).fit(X)) == ["profile by time of day"]


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_found_where_there_is_nothing(seed):
    index = pd.date_range("2024-01-01", periods=1500, freq="30min")
    for X in (pd.DataFrame(noise(1500, seed), index=index), noise(1500, seed), noise(1500, seed, memory=0.99)):
        assert KalmanClient(baseline=Baseline(profile="auto")).fit(X).baseline_ is None


def test_the_year_is_taken_off_daily_rows():
    index = pd.date_range("2015-01-01", periods=1500, freq="D")
    year = 2 * np.sin(2 * np.pi * index.day_of_year / 365.25).to_numpy()[:, None]
    client = KalmanClient(baseline=Baseline(profile="auto")).fit(
        pd.DataFrame(noise(1500, memory=0.5) + year, index=index)
    )
    assert names(client) == ["season of 365.2 rows"]


def test_a_season_that_nobody_named_is_found_where_rows_have_times():
    t = np.arange(2000)[:, None]
    Y = noise(2000, memory=0.5) + 2 * np.sign(np.sin(2 * np.pi * t / 37))
    client = KalmanClient().fit(pd.DataFrame(Y, pd.date_range("2024-01-01", periods=2000, freq="s")))
    assert client.baseline_.profile[0].period == pytest.approx(37, rel=0.01)
    assert KalmanClient().fit(Y).baseline_ is None
    assert KalmanClient().fit(pd.DataFrame(Y)).baseline_ is None


def test_missing_cells_do_not_hide_a_profile():
    X = record()
    X = X.mask(np.random.default_rng(0).random(X.shape) < 0.1)
    assert names(KalmanClient(baseline=Baseline(profile="auto")).fit(X)) == ["profile by time of day and weekend"]


def test_a_slow_state_is_no_line():
    assert sharp_period(noise(4000, memory=0.98), np.arange(4000.0)) is None


def test_short_records_have_none():
    assert KalmanClient(baseline=Baseline(profile="auto")).fit(record(3)).baseline_ is None
    assert KalmanClient(baseline=Baseline(profile="auto")).fit(noise(30)).baseline_ is None


@pytest.mark.filterwarnings("ignore:One false alarm per")
def test_of_units_that_a_detector_watches_the_calendar_is_taken_off_and_no_other_season():
    X = {name: record(seed=seed) for name, seed in (("left", 1), ("right", 2))}
    detector = FederatedRCADetector(client=KalmanClient(baseline=Baseline(profile="auto"))).fit(X)
    assert all(names(client) == ["profile by time of day and weekend"] for client in detector.clients_.values())
