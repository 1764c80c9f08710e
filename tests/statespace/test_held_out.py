"""Held-out gains are those of least squares fitted stretch by stretch on the other ones."""

from dataclasses import replace

import numpy as np
import pytest

from skfedcausal.statespace.episodes import lag_covariances
from skfedcausal.statespace.held_out import (
    BlockMoments,
    FullRegression,
    LaggedRows,
    huber_weights,
    same_row_shares,
)

SLICES = (slice(0, 2), slice(2, 3), slice(3, 5))


def series(n=400, seed=0):
    """Three units, the second driven by the first."""
    rng = np.random.default_rng(seed)
    x = np.zeros((n, 5))
    for t in range(1, n):
        x[t] = 0.6 * x[t - 1] + rng.normal(size=5)
        x[t, 2] += 0.4 * x[t - 1, 0]
    return x - x.mean(axis=0)


def brute(rows, effect, others, cause, n_blocks, weight=None):
    """The gain of a cause by two regressions for every stretch."""
    w = np.ones(len(rows.values)) if weight is None else weight
    root = np.sqrt(w)[:, None]
    now = rows.values[:, rows.now[effect]]
    own = np.hstack([rows.values[:, rows.past[unit]] for unit in [effect, *others]])
    given = np.hstack([rows.values[:, rows.past[unit]] for unit in [effect, *(o for o in others if o != cause)]])
    both = np.hstack([given, rows.values[:, rows.past[cause]]])
    left = root * (now - own @ np.linalg.lstsq(root * own, root * now, rcond=None)[0])
    white = np.linalg.inv(left.T @ left / w.sum())
    out = []
    for block in np.array_split(np.arange(len(now)), n_blocks):
        kept = np.setdiff1d(np.arange(len(now)), block)
        loss = []
        for X in (given, both):
            B = np.linalg.lstsq(root[kept] * X[kept], root[kept] * now[kept], rcond=None)[0]
            rest = now[block] - X[block] @ B
            loss.append((w[block] * np.einsum("ti,ij,tj->t", rest, white, rest)).sum())
        out.append((loss[0] - loss[1]) / w[block].sum())
    return np.array(out)


@pytest.mark.parametrize("others", [[], [0], [2], [0, 2]])
@pytest.mark.parametrize("weighted", [False, True])
def test_gains_are_those_of_regressions_on_the_other_stretches(others, weighted):
    rows = LaggedRows.of(series(402), SLICES, (0,), 2)
    weight = None
    moments = rows.moments(8)
    if weighted:
        weight = huber_weights(rows.values[:, rows.now[1]], 1.0)
        moments = rows.reweighted(moments, weight, 8)
    found, _ = moments.gains(1, others, [0, 2])
    for k, cause in enumerate([0, 2]):
        # the ridge is a millionth of a column's sum of squares
        np.testing.assert_allclose(found[k], brute(rows, 1, others, cause, 8, weight), rtol=1e-4, atol=1e-6)


def test_what_columns_of_one_regression_tell_is_that_of_two_fits_in_every_stretch():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 8))
    now = X[:, :6] @ rng.normal(size=(6, 2)) + rng.normal(size=(400, 2))
    rows = LaggedRows(
        np.hstack([X, now]), (slice(0, 2), slice(2, 5), slice(5, 8)), (slice(8, 10),), (0,), np.arange(400)
    )
    regression = FullRegression(rows.moments(8), 5)
    without, beyond = replace(rows, past=rows.past[:2]), replace(rows, past=(slice(0, 5), slice(5, 8)))
    # the ridge is a millionth of a column's sum of squares
    close = {"rtol": 1e-5, "atol": 1e-6}
    np.testing.assert_allclose(regression.gains_of(np.arange(2, 5)), brute(without, 0, [], 1, 8), **close)
    np.testing.assert_allclose(regression.gains_beyond(np.arange(5, 8)), brute(beyond, 0, [], 1, 8), **close)
    left = [now - base @ np.linalg.lstsq(base, now, rcond=None)[0] for base in (X[:, :2], X[:, :5])]
    both, alone = (np.linalg.slogdet(of.T @ of)[1] for of in left[::-1])
    assert regression.log_gain(np.arange(2, 5)) == pytest.approx(alone - both, rel=1e-5)


def test_rows_less_inputs_are_residuals_of_a_regression_on_them():
    rows, known = LaggedRows.of(series(), SLICES, (0, 150), 2), np.random.default_rng(3).normal(size=(len(series()), 2))
    X = np.hstack([known[rows.at], known[rows.at - 1], known[rows.at - 2]])
    expected = rows.values - X @ np.linalg.solve(X.T @ X, X.T @ rows.values)
    np.testing.assert_allclose(rows.less(known, 2).values, expected, atol=1e-10)


def test_moments_of_weighted_rows_are_those_of_all_rows_weighted():
    rows = LaggedRows.of(series(), SLICES, (0, 150), 2)
    weight = huber_weights(rows.values[:, rows.now[0]], 1.5)
    assert 0.5 < (weight == 1).mean() < 1
    changed = rows.reweighted(rows.moments(7), weight, 7)
    weighted = replace(rows, values=rows.values * np.sqrt(weight)[:, None]).moments(7)
    np.testing.assert_allclose(changed.sums, weighted.sums, atol=1e-9)
    edges = np.linspace(0, len(weight), 8).astype(int)
    np.testing.assert_allclose(changed.n_rows, np.add.reduceat(weight, edges[:-1]))


def test_no_lag_reaches_over_the_start_of_an_episode():
    x = series(60)
    rows = LaggedRows.of(x, SLICES, (0, 20, 21), 2)
    assert rows.at.tolist() == [*range(2, 20), *range(23, 60)]
    np.testing.assert_array_equal(rows.values[18, rows.past[0]], [*x[22, :2], *x[21, :2]])
    assert rows.starts == (0, 18)


def test_pieces_lose_their_level_and_slope_and_nothing_else():
    x = series(201)
    t = np.arange(201)[:, None]
    moved = x + np.where(t < 102, 3.0, -2.0 + 0.1 * t)  # row 101 of those with a lag, in the sixth piece
    plain, shifted = (LaggedRows.of(each, SLICES, (0,), 1).around_lines(20) for each in (x, moved))
    inside = np.r_[0:100, 120:200]  # no piece that holds the change
    np.testing.assert_allclose(plain.values[inside], shifted.values[inside], atol=1e-9)
    again = plain.around_lines(20)
    np.testing.assert_allclose(again.values, plain.values, atol=1e-9)


def test_the_first_piece_of_another_phase_is_shorter():
    rows = LaggedRows.of(series(188), SLICES, (0,), 1).around_lines(25, 12)
    for piece in (slice(0, 12), slice(12, 37), slice(162, 187)):
        np.testing.assert_allclose(rows.values[piece].sum(axis=0), 0, atol=1e-9)


def test_others_are_chosen_by_bic_in_order_of_what_they_tell():
    x = series(3000)
    x[1:, 3] += 0.1 * x[:-1, 2]
    moments = LaggedRows.of(x, SLICES, (0,), 2).moments(4)
    assert moments.chosen(0) == []
    assert moments.chosen(1) == [0]


def test_shares_of_the_same_row_are_squared_canonical_correlations():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 2))
    y = x @ rng.normal(size=(2, 3)) + rng.normal(size=(500, 3))
    ones = np.ones(500)
    left, right = (np.linalg.qr(each)[0] for each in (x, y))
    expected = np.square(np.linalg.svd(left.T @ right, compute_uv=False)).sum() - 6 / 500
    found = same_row_shares([x, y], [ones, ones])
    assert found[0, 1] == found[1, 0] == pytest.approx(expected, rel=1e-9)
    less = 1 - 1e-12 * np.arange(500)  # takes the other way
    assert same_row_shares([x, y], [less, ones])[0, 1] == pytest.approx(expected, rel=1e-6)


def test_lagged_products_of_stretches_that_end_with_zeros_are_their_moments():
    """No row of a stretch is then lost for want of a past: moments of shifted rows are products of one lag."""
    x, rows = series(), 50
    x.reshape(-1, rows, 5)[:, [0, 1, -2, -1]] = 0.0
    sums = np.stack([lag_covariances(x[first : first + rows], range(3)) for first in range(0, len(x), rows)])
    found = BlockMoments.of_lags(sums, np.full(len(sums), float(rows)), SLICES)
    for k, first in enumerate(range(0, len(x), rows)):
        expected = LaggedRows.of(x[first : first + rows], SLICES, (0,), 2).moments(1)
        assert (found.past, found.now) == (expected.past, expected.now)
        np.testing.assert_allclose(found.sums[k], expected.sums[0], rtol=0, atol=rows * 1e-13)


def test_rows_count_where_a_column_stands_still_in_most():
    news = np.zeros((100, 1))
    news[::10] = 1.0
    assert huber_weights(news, 5.0).min() > 0.9
