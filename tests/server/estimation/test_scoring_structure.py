"""Masks over the plant matrices and positions in the parameter vector."""

import numpy as np
import pytest

from skfedcausal.server.estimation.scoring import Structure
from skfedcausal.statespace.matrices import Partition

from .._reference import block_elements, structure_of

PARTITION = Partition((2, 1, 3))


def test_uncoupled_frees_the_diagonal_blocks_only():
    dynamics, noise = np.array([True, False, True]), np.array([True, True, False])
    structure = Structure(PARTITION, free_dynamics=dynamics, free_noise=noise)
    expected = np.zeros((6, 6), dtype=bool)
    expected[:2, :2] = expected[3:, 3:] = True
    np.testing.assert_array_equal(structure.transition_mask, expected)
    expected[:] = False
    expected[:2, :2] = expected[2, 2] = True
    np.testing.assert_array_equal(structure.covariance_mask, expected)


def test_links_free_the_rows_of_the_effect_and_the_columns_of_the_cause():
    structure = structure_of(PARTITION, linked=[(2, 0)], free_dynamics=False)
    expected = np.zeros((6, 6), dtype=bool)
    expected[3:, :2] = True
    np.testing.assert_array_equal(structure.transition_mask, expected)


def test_correlated_units_free_both_blocks_of_the_noise():
    structure = structure_of(PARTITION, correlated=[(1, 2)], free_noise=False)
    expected = np.zeros((6, 6), dtype=bool)
    expected[2, 3:] = expected[3:, 2] = True
    np.testing.assert_array_equal(structure.covariance_mask, expected)


@pytest.mark.parametrize("matrix", ["transition", "covariance"])
def test_positions_name_the_place_in_the_parameter_vector(matrix):
    structure = structure_of(PARTITION, linked=[(0, 1), (2, 1)], correlated=[(0, 2)])
    free = structure.free
    size = free.n_transition + len(free.first)
    tagged = free.scatter(np.arange(1.0, size + 1), (6, 6))[matrix == "covariance"]
    positions = free.positions((6, 6))[matrix == "covariance"]
    assert positions[-1] == -1
    np.testing.assert_array_equal(positions[:-1].reshape(6, 6), tagged - 1)


def test_every_element_is_free_once():
    structure = structure_of(PARTITION, linked=[(0, 1)], correlated=[(0, 1)])
    free = structure.free
    assert free.n_transition == 4 + 1 + 9 + 2
    assert len(free.first) == 3 + 1 + 6 + 2
    linked = {(int(i), int(j)) for i, j in zip(free.rows, free.cols, strict=True)}
    assert linked >= set(block_elements(PARTITION, 0, 1))


def test_key_tells_structures_apart():
    keys = {
        structure_of(PARTITION).key,
        structure_of(PARTITION, linked=[(0, 1)]).key,
        structure_of(PARTITION, linked=[(1, 0)]).key,
        structure_of(PARTITION, correlated=[(0, 1)]).key,
        structure_of(PARTITION, linked=[(0, 1)], correlated=[(0, 1)]).key,
    }
    assert len(keys) == 5
    assert structure_of(PARTITION, linked=[(0, 1)]).key == structure_of(PARTITION, linked=[(0, 1)]).key


def test_changed_structures_leave_the_first_alone():
    first = structure_of(PARTITION)
    every = np.ones(len(PARTITION.pairs), dtype=bool)
    assert first.with_masks(linked=every).transition_mask.all()
    assert first.with_masks(correlated=every).covariance_mask.all()
    assert not first.linked.any()
    assert not first.correlated.any()
