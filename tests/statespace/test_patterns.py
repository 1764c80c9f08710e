"""Rows of a record by which of their cells are there."""

import numpy as np

from skfedcausal.statespace.partial_covariance import expected_cells
from skfedcausal.statespace.patterns import patterns_of, rows_of_patterns


def test_every_row_has_the_pattern_of_the_row_that_shows_it_first():
    present = np.random.default_rng(0).random((200, 11)) < 0.8
    first, index = patterns_of(present)
    np.testing.assert_array_equal(present[first[index]], present)
    assert len(np.unique(present, axis=0)) == len(first)
    for k, rows in enumerate(rows_of_patterns(index, len(first))):
        np.testing.assert_array_equal(rows, np.flatnonzero(index == k))
        assert rows[0] == first[k]


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
