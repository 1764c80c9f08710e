"""Lag sums and their spectra are those of explicit loops over time, and nothing crosses an episode border."""

import numpy as np
import pytest

from skfedcausal.statespace.episodes import (
    PIECE,
    TransitionMoments,
    add_product,
    column_mean,
    episodes,
    lag_covariances,
    lagged_rows,
    mean_with_error,
    recentre_lag_sums,
    remove_episode_means,
    side_by_side,
)
from skfedcausal.statespace.whittle import midpoints

from ._reference import EPS, assert_within, episode_slices

N_LAGS = 4
T = 23
STARTS = {
    "one episode": (0,),
    "episodes of one row": (0, 1, 2, 12, 22),
    "of two rows": (0, 2, 4, 14, 21),
    "shorter than the lags": (0, 3, 7, 12, 17),
    "as long as the lags": (0, 4, 9, 15),
    "all of one row": tuple(range(T)),
}
EPISODES = pytest.mark.parametrize("starts", STARTS.values(), ids=STARTS)


def series(n=2, n_samples=T, seed=0):
    return np.random.default_rng(seed).normal(size=(n_samples, n))


def rounding(s):
    """Sums of at most n_samples products, formed in different orders."""
    return 4 * len(s) ** 2 * EPS * np.abs(s).max() ** 2


def products(left, right, pairs):
    """Sum of ``left[t] right[s]'`` over pairs (t, s)."""
    return sum((np.outer(left[t], right[s]) for t, s in pairs), np.zeros((left.shape[1], right.shape[1])))


def lagged(starts, n_samples, lag):
    """Pairs (t + lag, t) of rows in one episode."""
    return [(t + lag, t) for e in episode_slices(starts, n_samples) for t in range(e.start, e.stop - lag)]


def transition_pairs(starts, n_samples, lag):
    """Pairs of transitions, named by the row they enter, `lag` steps apart in one episode."""
    return [(t + lag, t) for e in episode_slices(starts, n_samples) for t in range(e.start + 1, e.stop - lag)]


def moments(s, starts, n_lags=N_LAGS):
    sums = lag_covariances(s, range(n_lags + 2), starts)
    return TransitionMoments.from_sums(sums, s, starts)


@EPISODES
def test_lag_sums_are_those_of_a_loop(starts):
    s = series()
    lags = (0, 1, 3, T - 1, T + 5)
    expected = [products(s, s, lagged(starts, T, lag)) for lag in lags]
    assert_within(lag_covariances(s, lags, starts), expected, rounding(s))


@pytest.mark.parametrize("starts", [(0,), (0, 1, 60, 400)])
@pytest.mark.parametrize("lags", [range(1, 14), range(33), range(40), range(100)])
def test_many_lags_of_many_columns_are_those_of_plain_products(starts, lags):
    S = series(n=33, n_samples=1000)
    expected = [
        sum(S[a + lag : b].T @ S[a : b - lag] for a, b in episodes(starts, len(S)) if a < b - lag) for lag in lags
    ]
    assert_within(lag_covariances(S, lags, starts), expected, 100 * len(S) * EPS * (S**2).max())


@pytest.mark.parametrize("n_rows", [1, 3, 4, 5, 40])
def test_sums_around_a_level_are_those_of_rows_less_it(n_rows):
    s, level, n_lags = series(n_samples=n_rows), np.array([0.3, -2.0]), 5
    sums = lag_covariances(s, range(n_lags))
    recentre_lag_sums(sums, level, s.sum(axis=0), n_rows, s[:n_lags], s[-n_lags:])
    assert_within(sums, lag_covariances(s - level, range(n_lags)), rounding(s) + rounding(s - level))


@EPISODES
def test_missing_values_scale_the_sums_up(starts):
    present = (np.random.default_rng(1).random((T, 2)) < 0.6).astype(float)
    s = series() * present
    lags = range(N_LAGS)
    for lag, result in zip(lags, lag_covariances(s, lags, starts, present), strict=True):
        pairs = lagged(starts, T, lag)
        total, counts = products(s, s, pairs), products(present, present, pairs)
        expected = np.where(counts > 0, total / np.maximum(counts, 1) * len(pairs), 0.0)
        assert_within(result, expected, len(pairs) * rounding(s))


@EPISODES
def test_presence_of_everything_changes_nothing(starts):
    s = series()
    with_mask, without = (lag_covariances(s, range(5), starts, p) for p in (np.ones_like(s), None))
    np.testing.assert_allclose(with_mask, without, rtol=4 * EPS)


@EPISODES
def test_moments_are_those_of_the_pairs_of_transitions(starts):
    s = series()
    result = moments(s, starts)
    entered, left = s, np.vstack([np.full((1, 2), np.nan), s[:-1]])  # of the transition into each row
    n = len(transition_pairs(starts, T, 0))
    assert result.n_transitions == n
    for lag in range(N_LAGS + 1):
        pairs = transition_pairs(starts, T, lag)
        for name, late, early in (
            ("late", entered, entered),
            ("cross", entered, left),
            ("early", left, left),
            ("back", left, entered),
        ):
            expected = products(late, early, pairs) / max(n, 1)
            assert_within(getattr(result, name)[lag], expected, rounding(s))


@EPISODES
def test_residuals_have_the_covariances_their_moments_say(starts):
    s, A = series(), np.array([[0.9, 0.3], [-0.5, 1.4]])  # need not be stable
    m = moments(s, starts)
    r = np.vstack([np.full((1, 2), np.nan), s[1:] - s[:-1] @ A.T])
    implied = m.late - A @ m.back - m.cross @ A.T + A @ m.early @ A.T
    for lag in range(N_LAGS + 1):
        expected = products(r, r, transition_pairs(starts, T, lag)) / max(m.n_transitions, 1)
        assert_within(implied[lag], expected, 10 * rounding(s))


def test_sums_of_parts_add_up_to_moments_of_the_whole():
    s = series(n_samples=60)
    sums = lag_covariances(s[:25], range(N_LAGS + 2)) + lag_covariances(s[25:], range(N_LAGS + 2), (0, 10))
    joined, whole = TransitionMoments.from_sums(sums, s, (0, 25, 35)), moments(s, (0, 25, 35))
    for name in ("late", "cross", "early", "back"):
        assert_within(getattr(joined, name), getattr(whole, name), rounding(s))


@pytest.mark.parametrize("starts", [(0,), (0, 3, 7, 12, 17)], ids=str)
def test_spectra_are_fourier_sums_over_both_signs_of_the_lag(starts):
    s = series()
    m = moments(s, starts)
    left = np.vstack([np.full((1, 2), np.nan), s[:-1]])
    frequencies = np.array([0.0, 0.4, 2.0, np.pi])
    sides = {"late": (s, s), "cross": (s, left), "early": (left, left)}
    for (late, early), result in zip(sides.values(), m.spectra(frequencies), strict=True):
        expected = np.zeros((len(frequencies), 2, 2), dtype=complex)
        for lag in range(-N_LAGS, N_LAGS + 1):
            pairs = transition_pairs(starts, T, abs(lag))
            if lag < 0:
                pairs = [(t, s_) for s_, t in pairs]
            phase = np.exp(-1j * frequencies * lag)[:, None, None]
            expected += phase * products(late, early, pairs) / m.n_transitions
        assert_within(result, expected, (2 * N_LAGS + 1) * rounding(s))


def test_spectrum_averages_to_the_covariance():
    # cosines and sines of 1..n_lags average to zero in the real part over the midpoints of a half circle
    s = series()
    m = moments(s, (0,))
    late, cross, early = m.spectra(midpoints(N_LAGS))
    for spectrum, covariance in ((late, m.late[0]), (early, m.early[0])):
        assert_within(spectrum.mean(axis=0).real, covariance, rounding(s))
    assert cross.shape == late.shape


def test_transformed_moments_are_those_of_the_transformed_series():
    s, left = series(3), np.random.default_rng(1).normal(size=(2, 3))
    result, expected = moments(s, (0, 9)).transformed(left), moments(s @ left.T, (0, 9))
    assert result.n_transitions == expected.n_transitions
    for name in ("late", "cross", "early", "back"):
        assert_within(getattr(result, name), getattr(expected, name), 100 * rounding(s))


def test_blocks_are_the_moments_of_parts_of_the_series():
    s = series(6)
    parts = [slice(0, 2), slice(2, 4), slice(4, 6)]
    stacked = moments(s, (0, 9)).blocks(parts)
    late, cross, early = stacked.spectra(midpoints(3))
    for k, part in enumerate(parts):
        alone = moments(s[:, part], (0, 9))
        for name in ("late", "cross", "early", "back"):
            expected = getattr(alone, name)
            assert_within(getattr(stacked, name)[:, k], expected, rounding(s))
        for spectra, expected in zip((late, cross, early), alone.spectra(midpoints(3)), strict=True):
            assert_within(spectra[k], expected, (2 * N_LAGS + 1) * rounding(s))


def test_episode_means_are_removed_from_a_copy():
    s = series()
    kept = s.copy()
    centred = remove_episode_means(s, (0, 1, 10))
    np.testing.assert_array_equal(s, kept)
    np.testing.assert_array_equal(centred[0], 0)
    for e in episode_slices((0, 1, 10), T):
        assert_within(centred[e].mean(axis=0), 0, rounding(s))
        assert_within(np.ptp(s[e] - centred[e], axis=0), 0, rounding(s))


def test_episodes_run_from_start_to_start():
    assert episodes((0, 1, 7), 10) == [(0, 1), (1, 7), (7, 10)]


@pytest.mark.parametrize("n", [1, 4, 7])
def test_midpoints_divide_a_half_circle(n):
    w = midpoints(n)
    np.testing.assert_allclose(np.diff(np.concatenate([[-w[0]], w])), np.pi / n, rtol=8 * n * EPS)
    assert w[-1] == pytest.approx(np.pi - w[0], rel=4 * EPS)


@pytest.mark.parametrize("n_left", [0, 1, 3])
def test_products_are_added_in_place_whatever_the_layout(n_left):
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(50, 2 * n_left))[:, ::2], rng.normal(size=(4, 50)).T
    totals = np.ones((2, n_left, 4))
    add_product(totals[1], left, right)
    np.testing.assert_allclose(totals[1], 1 + left.T @ right, rtol=1e-12, atol=1e-12)
    assert (totals[0] == 1).all()


def test_series_side_by_side():
    parts = [series(n, PIECE + 7, n) for n in (2, 1, 3)]
    np.testing.assert_array_equal(side_by_side(parts), np.hstack(parts))


def test_sums_without_a_lag_are_symmetric():
    sums = lag_covariances(series(5, 700), [1, 0], (0, 300))
    np.testing.assert_array_equal(sums[1], sums[1].T)


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 9, 32])
def test_means_do_not_depend_on_where_the_rows_lie(width):
    table = np.random.default_rng(0).standard_normal((501, width + 3))
    part = table[:, 2 : 2 + width]
    np.testing.assert_array_equal(column_mean(part), column_mean(np.ascontiguousarray(part)))


@EPISODES
def test_weighted_moments_are_those_of_transitions_each_with_the_weight_of_the_earlier_one(starts):
    s, weights = series(), np.random.default_rng(1).random(T) + 0.5
    found = TransitionMoments.weighted(s, weights, N_LAGS, starts)
    first = transition_pairs(starts, T, 0)
    total = sum(weights[t] for t, _ in first)
    assert found.n_transitions == pytest.approx(total)
    before = np.vstack([np.zeros((1, 2)), s[:-1]])
    w, w_before = weights[:, None] * s, weights[:, None] * before
    for lag in range(N_LAGS + 1):
        pairs = transition_pairs(starts, T, lag)
        for part, late, early in (
            ("late", s, w),
            ("cross", s, w_before),
            ("early", before, w_before),
            ("back", before, w),
        ):
            expected = products(late, early, pairs) / max(total, 1.0)
            assert_within(getattr(found, part)[lag], expected, rounding(s))


@pytest.mark.parametrize("starts", [(0,), (0, 2, 3, 9)])
def test_lagged_rows_are_those_of_the_same_episode(starts):
    Y, n_lags = series(n_samples=12), 4
    Z = lagged_rows(Y, n_lags, starts)
    for rows in episode_slices(starts, 12):
        for t in range(rows.start, rows.stop):
            before = [Y[t - lag] if t - lag >= rows.start else np.zeros(2) for lag in range(1, n_lags + 1)]
            np.testing.assert_array_equal(Z[t], np.concatenate(before))


def test_the_error_of_a_mean_is_at_least_zero():
    """A sum that is zero but for rounding, which may be below it."""
    for n in range(5, 60):
        mean, error = mean_with_error(np.full(n, 0.1))
        assert mean == pytest.approx(0.1)
        assert 0 <= error < 1e-15
        _, error = mean_with_error(np.resize([0.1, -0.1], n))
        assert 0 <= error <= 0.1
