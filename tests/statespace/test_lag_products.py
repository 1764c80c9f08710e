"""Lagged products of batches against those of all rows at once."""

from itertools import accumulate

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skfedcausal.statespace.episodes import TransitionMoments, lag_covariances, remove_episode_means
from skfedcausal.statespace.lag_products import RunningProducts, lag_products
from skfedcausal.statespace.lagged.likelihood import WINDOW, LagSums, averaged_periodogram

PARTS = ("late", "cross", "early", "back", "n_transitions")


def series(n_samples, c=3):
    rng = np.random.default_rng(n_samples)
    return rng.standard_normal((n_samples, c)) @ rng.standard_normal((c, c)) + 4.0


@pytest.mark.parametrize("n_samples", [1, 5, 700, 6000])
def test_products_through_windows_are_those_of_the_rows(n_samples):
    x = series(n_samples)
    want = [x[lag:].T @ x[: max(n_samples - lag, 0)] for lag in range(20)]
    assert_allclose(lag_products(x, 20), want, rtol=1e-12, atol=1e-10 * n_samples)


@pytest.mark.parametrize("goes_on", [(0, 0, 0, 0, 0), (0, 1, 1, 1, 1), (0, 1, 0, 0, 1)])
def test_batches_have_the_moments_of_the_whole_record(goes_on):
    lengths = (50, 300, 7, 1, 40)
    x, bounds = series(sum(lengths)), [0, *accumulate(lengths)]
    running = RunningProducts(20, np.full(3, 3.5))
    for k, (a, b) in enumerate(zip(bounds[:-1], bounds[1:], strict=True)):
        running.add(x[a:b], (0,), continues=bool(goes_on[k]))
    starts = tuple(a for a, same in zip(bounds, goes_on, strict=False) if not same)
    centred, found = remove_episode_means(x, starts), running.products()
    want = TransitionMoments.from_sums(lag_covariances(centred, range(22), starts), centred, starts)
    for part in PARTS:
        assert_allclose(getattr(found.moments(20), part), getattr(want, part), atol=1e-12)
    assert_allclose(found.mean(), x.mean(axis=0))


def test_plants_of_several_lags_get_the_sums_and_the_spectrum_of_all_episodes():
    x, starts = series(900), (0, 200, 600)
    running = RunningProducts(60, np.zeros(3))
    running.add(x[:200], (0,))
    running.add(x[200:], (0, 400))
    centred, found = remove_episode_means(x, starts), running.products()
    want, sums = LagSums.of(centred, starts, 5, 40), found.lag_sums(5, 40)
    for part in ("sums", "heads", "tails", "n_rows"):
        assert_allclose(getattr(sums, part), getattr(want, part), atol=1e-9)
    assert_allclose(found.spectrum / 900, averaged_periodogram(centred, starts), atol=1e-10)
    assert found.lag_sums(5, 1000).memory == 56  # no more than there are
    assert found.lag_sums(55, 60) is None


@pytest.mark.parametrize("border", [20_000, WINDOW, 70_001])
def test_an_episode_that_goes_on_has_the_spectrum_of_the_whole(border):
    x, running = series(80_000), RunningProducts(9, np.full(3, 3.0))
    running.add(x[:border], (0,))
    running.add(x[border:], (0,), continues=True)
    want = averaged_periodogram(x - x.mean(axis=0), (0,))
    assert_allclose(running.products().spectrum / len(x), want, atol=1e-12 * np.abs(want).max())


def test_windows_of_a_long_episode_say_of_its_spectrum_what_its_whole_does():
    """White noise: both are means over some 300 frequencies, whose relative standard error is a twentieth."""
    x = np.random.default_rng(0).standard_normal((2 * WINDOW, 1))
    in_windows, parts = averaged_periodogram(x, (0,)), [averaged_periodogram(y, (0,)) for y in np.split(x, 2)]
    assert_allclose(in_windows, np.mean(parts, axis=0), rtol=1e-12)
    assert np.abs(in_windows[1:-1, 0, 0].real - 1).max() < 5 / np.sqrt(2 * WINDOW / 256)


def test_what_is_forgotten_counts_less():
    """Two episodes with weights 1/4 and 1 have the moments of the same with their rows multiplied by 1/2 and 1."""
    x, starts = series(400), (0, 150)
    running = RunningProducts(9, np.zeros(3))
    running.add(x[:150], (0,))
    running.add(x[150:], (0,), continues=True, forget=0.75)
    centred, found = remove_episode_means(x, starts), running.products()
    centred[:150] /= 2
    want = TransitionMoments.from_sums(lag_covariances(centred, range(11), starts), centred, starts)
    n_transitions = 0.25 * 149 + 249
    for part in PARTS[:-1]:
        assert_allclose(getattr(found.moments(9), part) * n_transitions, getattr(want, part) * 398, atol=1e-10)
    running.add(x[:30], (0,), forget=1.0)
    assert running.products().lengths.tolist() == [30]


def test_pairs_are_weighed_by_the_rows_in_which_both_were_there():
    x, running = series(300), RunningProducts(4, np.zeros(3))
    running.add(x[:100], (0,))
    running.add(x[100:], (0,), present=np.array([True, True, False]))
    found, first = running.products().balanced(), remove_episode_means(x[:100])
    assert_allclose(found.sums[1][2] / 300, first[1:].T[2] @ first[:-1] / 100, atol=1e-12)
    assert_allclose(running.products().mean()[2], x[:100, 2].mean())


def test_ends_of_very_many_episodes_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr("skfedcausal.statespace.lag_products._MOST_ENDS", 10 * 6 * 3)
    x, running = series(2000), RunningProducts(4, np.zeros(3))
    for first in range(0, 2000, 50):
        running.add(x[first : first + 50], (0,))
    found, starts = running.products(), tuple(range(0, 2000, 50))
    centred = remove_episode_means(x, starts)
    want = TransitionMoments.from_sums(lag_covariances(centred, range(6), starts), centred, starts)
    assert len(found.heads) <= 11
    assert_allclose(found.mean(), x.mean(axis=0))
    assert_allclose(found.moments(4).late, want.late, rtol=0.05, atol=0.15)  # 30 ends among 2000 rows
