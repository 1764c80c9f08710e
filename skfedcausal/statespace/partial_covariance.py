"""Rows of which some cells are missing: their covariance by maximum likelihood, and what they leave out.

Products of the cells that happen to be there give a matrix that need not be a covariance: with sensors that
are nearly linear combinations of each other it has negative variances. Expectation maximisation of a Gaussian
covariance always gives one, and uses what the cells that are there tell about the others.
"""

import numpy as np

from .matrices import floor_eigenvalues
from .observation import patterns_of, rows_of_patterns

_FLOOR = 1e-3  # of the largest eigenvalue: start of the expectation maximisation


def partial_covariance(Y, start, *, max_iter=50, tol=1e-3):
    """Covariance of centred rows, NaN standing for a missing cell, shape (n, n).

    Equations of section 11.3 of Little, Rubin, Statistical Analysis with Missing Data, for a known mean.
    """
    patterns = _patterns(Y)
    n_rows = sum(count for _, count, _ in patterns)
    covariance = floor_eigenvalues(start, _FLOOR * np.linalg.eigvalsh(start)[-1])
    for _ in range(max_iter):
        root = np.linalg.cholesky(covariance)
        updated = sum(_expected_products(covariance, *pattern) for pattern in patterns) / n_rows
        inside = np.linalg.solve(root, np.linalg.solve(root, updated).T)
        covariance = (updated + updated.T) / 2
        if np.abs(inside - np.eye(len(inside))).max() <= tol:
            break
    return covariance


def expected_cells(Y, covariance):
    """Centred rows with missing cells at their expectation given the cells that are there."""
    filled = Y.copy()
    for seen, rows in _rows_by_pattern(~np.isnan(Y)):
        if not seen.all():
            weights = _expectation_weights(covariance, seen)[~seen]
            filled[np.ix_(rows, ~seen)] = Y[np.ix_(rows, seen)] @ weights.T
    return filled


def _rows_by_pattern(present):
    """Pairs of a pattern and its rows."""
    first, index = patterns_of(present)
    return zip(present[first], rows_of_patterns(index, len(first)), strict=True)


def _patterns(Y):
    """For every pattern of cells that are there: where, in how many rows, and the sum of their products."""
    found = []
    for seen, rows in _rows_by_pattern(~np.isnan(Y)):
        if seen.any():
            y = Y[np.ix_(rows, seen)]
            found.append((seen, len(rows), y.T @ y))
    return found


def _expectation_weights(covariance, seen):
    """Weights of the cells that are there in the expectation of all, shape (n, n_seen)."""
    weights = np.zeros((len(seen), seen.sum()))
    weights[seen] = np.eye(seen.sum())
    across = covariance[np.ix_(seen, ~seen)]
    weights[~seen] = np.linalg.solve(covariance[np.ix_(seen, seen)], across).T
    return weights


def _expected_products(covariance, seen, n_rows, products):
    """Expected sum of products of all cells in the rows of one pattern, given the cells that are there."""
    weights, gone = _expectation_weights(covariance, seen), ~seen
    expected = weights @ products @ weights.T
    left = covariance[np.ix_(gone, gone)] - weights[gone] @ covariance[np.ix_(seen, gone)]
    expected[np.ix_(gone, gone)] += n_rows * left
    return expected
