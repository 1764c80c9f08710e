"""Where a linear iteration ends: where it exists from any start, else from the one it has."""

import numpy as np
import pytest

from skfedcausal.papers.numerics.descent import Recurrence, fixed_point


def limit(H, J, start=None):
    return fixed_point(Recurrence(np.array(H), np.array(J), np.ones(len(J))), start)


def test_a_contraction_ends_in_one_point_from_anywhere():
    H, J = np.array([[0.5, 0.2], [0.0, 0.9]]), np.array([1.0, 2.0])
    expected = np.linalg.solve(np.eye(2) - H, J)
    for start in (None, np.array([7.0, -3.0])):
        np.testing.assert_allclose(limit(H, J, start), expected)


def test_directions_that_do_not_move_stay_where_they_started():
    """The first number stays, the second one halves its distance to the first plus two."""
    H, J = [[1.0, 0.0], [0.5, 0.5]], [0.0, 1.0]
    np.testing.assert_allclose(limit(H, J), [0.0, 2.0], atol=1e-12)
    np.testing.assert_allclose(limit(H, J, np.array([3.0, 9.0])), [3.0, 5.0])


def test_where_nothing_moves_the_end_is_the_start():
    np.testing.assert_array_equal(limit(np.eye(2), np.zeros(2), np.array([1.0, 2.0])), [1.0, 2.0])


def test_a_direction_that_does_not_move_must_not_be_driven():
    with pytest.raises(ValueError, match="driven without end"):
        limit([[1.0, 0.0], [0.0, 0.5]], [1e-3, 1.0])
