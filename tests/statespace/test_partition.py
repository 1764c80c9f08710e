"""Every element of the plant matrices lies in exactly one block, where the partition says."""

import numpy as np
import pytest

from skfedcausal.statespace.matrices import Partition

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


# --- inputs, steps and lags -------------------------------------------------------------------------


def numbered(partition):
    """A plant matrix ``[A_1 | ... | B | steps]`` whose elements are their own flat numbers."""
    return np.arange(partition.n_elements).reshape(partition.n_states, partition.n_regressors)


def assert_family(family, pairs, blocks):
    """Elements of a family row by row, padded with one number that no element has."""
    width = family.pair_elements.shape[1]
    np.testing.assert_array_equal(family.pairs, np.reshape(pairs, (-1, 2)))
    assert family.pair_dof.tolist() == [block.size for block in blocks]
    for elements, block in zip(family.pair_elements, blocks, strict=True):
        assert elements[elements < family.n_elements].tolist() == block.ravel().tolist()
        assert np.count_nonzero(elements == family.n_elements) == width - block.size


@pytest.mark.parametrize("input_sizes", [(1, 0, 3), (2, 2, 2), (0, 1, 0)], ids=str)
def test_elements_of_inputs_and_steps_lie_behind_those_of_states(input_sizes):
    sizes, n_steps = (2, 1, 3), 2
    partition = Partition(sizes, input_sizes, n_steps=n_steps)
    n, n_inputs, numbers = 6, sum(input_sizes), numbered(partition)
    assert numbers.shape == (n, n + n_inputs + n_steps)
    assert (partition.n_inputs, partition.n_known) == (n_inputs, n_inputs + n_steps)
    B = numbers[:, n : n + n_inputs]
    pairs = [(m, k) for m in range(3) for k in range(3) if m != k and input_sizes[k]]
    blocks = [B[partition.slices[m], partition.input_slices[k]] for m, k in pairs]
    assert_family(partition.input_pairs, pairs, blocks)
    assert partition.n_input_pairs == len(pairs)
    pairs = [(m, step) for step in range(n_steps) for m in range(3)]
    blocks = [numbers[partition.slices[m], n + n_inputs + step] for m, step in pairs]
    assert_family(partition.step_pairs, pairs, blocks)
    for k, (m, cause) in enumerate(partition.pairs):
        own = partition.pair_elements[k]
        expected = numbers[partition.slices[m], partition.slices[cause]].ravel()
        assert own[own < partition.n_elements].tolist() == expected.tolist()
        assert partition.pair_dof[k] == sizes[m] * sizes[cause]


def test_masks_of_inputs_and_steps_are_those_of_their_units():
    partition = Partition((2, 1), (1, 2), n_steps=2)
    driven = partition.mask(np.array([[0, 1]]), np.array([True, False]), of_inputs=True)
    np.testing.assert_array_equal(driven, [[True, True, True], [True, True, True], [False, False, False]])
    of_unit_0, of_unit_1 = [True, False], [False, True]  # the first step of one, the second of the other
    mask = partition.step_mask([*of_unit_0, *of_unit_1])
    np.testing.assert_array_equal(mask, [[True, False], [True, False], [False, True]])


def test_without_inputs_a_partition_has_states_only():
    plain = Partition((2, 1))
    assert plain.without_inputs is plain
    for other in (Partition((2, 1), (1, 0)), Partition((2, 1), n_steps=1)):
        assert other.without_inputs.n_regressors == 3
        np.testing.assert_array_equal(other.without_inputs.pair_elements, plain.pair_elements)
