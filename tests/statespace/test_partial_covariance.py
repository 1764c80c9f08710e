"""Covariance of rows with missing cells, against its likelihood and a complete record."""

import numpy as np
import pytest
from scipy import stats

from skfedcausal.statespace import em
from skfedcausal.statespace.em import expected_cells, partial_covariance


def pairwise(Y):
    present = ~np.isnan(Y)
    filled = np.where(present, Y, 0.0)
    return filled.T @ filled / np.maximum(present.T.astype(float) @ present, 1.0)


def nearly_dependent(n_samples=300, missing=0.2, seed=0):
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((n_samples, 2)) @ rng.standard_normal((2, 6))
    Y += 0.01 * rng.standard_normal(Y.shape)
    return np.where(rng.random(Y.shape) < missing, np.nan, Y)


def log_likelihood(Y, covariance):
    total = 0.0
    for y in Y:
        seen = ~np.isnan(y)
        if seen.any():
            total += stats.multivariate_normal.logpdf(y[seen], cov=covariance[np.ix_(seen, seen)])
    return total


def test_complete_rows_give_their_second_moments():
    Y = np.random.default_rng(0).standard_normal((50, 4))
    np.testing.assert_allclose(partial_covariance(Y, np.eye(4)), Y.T @ Y / 50, rtol=1e-12)


def test_it_maximises_the_likelihood():
    Y = nearly_dependent(120)
    found = partial_covariance(Y, pairwise(Y), max_iter=5000, tol=1e-10)
    best, rng = log_likelihood(Y, found), np.random.default_rng(1)
    root = np.linalg.cholesky(found)
    for size in (1e-2, 1e-3):
        for _ in range(10):
            change = np.eye(6) + size * rng.standard_normal((6, 6))
            assert log_likelihood(Y, root @ change @ change.T @ root.T) < best


def test_nearly_dependent_sensors_still_have_a_covariance():
    """Products of the cells that are there do not give one."""
    Y = nearly_dependent()
    assert np.linalg.eigvalsh(pairwise(Y))[0] < 0
    smallest = np.linalg.eigvalsh(partial_covariance(Y, pairwise(Y)))[:4]
    np.testing.assert_allclose(smallest, 1e-4, rtol=0.5)  # the noise of the sensors


def test_rows_without_any_cell_tell_nothing():
    Y = nearly_dependent()
    more = np.concatenate([np.full((40, 6), np.nan), Y])
    np.testing.assert_allclose(partial_covariance(more, pairwise(Y)), partial_covariance(Y, pairwise(Y)), rtol=1e-10)


def test_units_do_not_matter():
    Y, scale = nearly_dependent(), 10.0 ** np.arange(-3, 3)
    start = np.diag(np.nanvar(Y, axis=0))
    found = partial_covariance(Y, start, max_iter=2000, tol=1e-9)
    other = partial_covariance(Y * scale, start * np.outer(scale, scale), max_iter=2000, tol=1e-9)
    assert other == pytest.approx(found * np.outer(scale, scale), rel=1e-4)


def test_missing_cells_get_their_conditional_mean():
    rng = np.random.default_rng(1)
    root = rng.standard_normal((4, 4))
    covariance, Y = root @ root.T, rng.standard_normal((30, 4))
    Y[rng.random(Y.shape) < 0.4] = np.nan
    filled = expected_cells(Y, covariance)
    for y, row in zip(Y, filled, strict=True):
        seen = ~np.isnan(y)
        gain = np.linalg.solve(covariance[np.ix_(seen, seen)], covariance[np.ix_(seen, ~seen)])
        np.testing.assert_allclose(row[~seen], y[seen] @ gain, rtol=1e-12)
        np.testing.assert_array_equal(row[seen], y[seen])


def test_the_iteration_ends_where_it_stands_still(monkeypatch):
    """Complete rows give their moments in the first step, and the same again in the second."""
    rounds, step = [], em._expected_products

    def counted(*arguments):
        rounds.append(1)
        return step(*arguments)

    monkeypatch.setattr(em, "_expected_products", counted)
    partial_covariance(np.random.default_rng(0).standard_normal((50, 4)), np.eye(4))
    assert len(rounds) == 2
    rounds.clear()
    partial_covariance(nearly_dependent(), np.eye(6), tol=0.0)
    assert len(rounds) == 50 * len(np.unique(np.isnan(nearly_dependent()), axis=0))


def test_the_start_has_eigenvalues_of_a_thousandth_of_the_largest_at_least():
    """Without a single cell of one column its variance stays that of the start."""
    Y = np.random.default_rng(0).standard_normal((200, 2)) * [1.0, np.nan]
    assert partial_covariance(Y, np.diag([2.0, -1.0]))[1, 1] == pytest.approx(2e-3)
