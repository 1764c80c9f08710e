"""Every element of the plant matrices lies in exactly one block, where the partition says."""

import numpy as np
import pytest

from skfedcausal.statespace.partition import Partition

SIZES = pytest.mark.parametrize("sizes", [(2, 3, 1), (2, 2, 2), (1,), (4,), (1, 1)], ids=str)


@SIZES
def test_slices_cover_the_states_in_order(sizes):
    partition = Partition(sizes)
    states = np.arange(sum(sizes))
    assert partition.n_units == len(sizes)
    assert partition.n_states == len(states)
    np.testing.assert_array_equal(np.concatenate([states[rows] for rows in partition.slices]), states)
    for m, rows in enumerate(partition.slices):
        np.testing.assert_array_equal(partition.unit_of_state[rows], m)
        np.testing.assert_array_equal(partition.padded[m, : sizes[m]], states[rows])
        np.testing.assert_array_equal(partition.padded[m, sizes[m] :], partition.n_states)


@SIZES
def test_blocks_divide_the_matrix(sizes):
    partition = Partition(sizes)
    n, n_pairs = partition.n_states, len(sizes) * (len(sizes) - 1)
    assert partition.pairs.shape == (n_pairs, 2)
    counts = partition.block_diagonal.astype(int)
    for k, (effect, cause) in enumerate(partition.pairs):
        assert effect != cause
        mask = partition.mask(partition.pairs[np.arange(n_pairs) == k])
        expected = np.zeros((n, n), dtype=bool)
        expected[partition.slices[effect], partition.slices[cause]] = True
        np.testing.assert_array_equal(mask, expected)
        assert partition.pair_dof[k] == expected.sum()
        elements = partition.pair_elements[k]
        np.testing.assert_array_equal(elements[elements < n * n], np.flatnonzero(expected))
        counts += mask
    np.testing.assert_array_equal(counts, 1)


@SIZES
def test_masks_of_several_pairs_are_unions(sizes):
    partition = Partition(sizes)
    chosen = np.arange(len(partition.pairs)) % 2 == 0
    union = np.zeros((partition.n_states, partition.n_states), dtype=bool)
    for k in np.flatnonzero(chosen):
        union |= partition.mask(partition.pairs[np.arange(len(chosen)) == k])
    np.testing.assert_array_equal(partition.mask(partition.pairs[chosen]), union)
    everything = partition.mask(partition.pairs)
    np.testing.assert_array_equal(everything, ~partition.block_diagonal)


@SIZES
def test_masks_of_units_are_their_diagonal_blocks(sizes):
    partition = Partition(sizes)
    for m, rows in enumerate(partition.slices):
        expected = np.zeros((partition.n_states, partition.n_states), dtype=bool)
        expected[rows, rows] = True
        np.testing.assert_array_equal(partition.mask(partition.pairs[:0], np.arange(len(sizes)) == m), expected)
    np.testing.assert_array_equal(partition.mask(partition.pairs[:0], True), partition.block_diagonal)


@SIZES
def test_reversing_a_pair_twice_gives_it_back(sizes):
    partition = Partition(sizes)
    reverse = partition.reverse_pairs
    np.testing.assert_array_equal(partition.pairs[reverse], partition.pairs[:, ::-1])
    np.testing.assert_array_equal(reverse[reverse], np.arange(len(reverse)))


@SIZES
def test_groups_hold_every_unit_once_with_its_size(sizes):
    groups = Partition(sizes).groups
    np.testing.assert_array_equal(np.sort(np.concatenate(list(groups.values()))), np.arange(len(sizes)))
    for size, units in groups.items():
        assert all(sizes[m] == size for m in units)
