"""Blocks pair by pair, and their information, against the dense matrix."""

import numpy as np
import pytest

from skfedcausal.statespace.matrices import (
    Partition,
    coefficient_pair_information,
    covariance_pair_information,
    diagonal_blocks,
    padded_blocks,
    pair_blocks,
    uncoupled_pair_information,
)
from skfedcausal.statespace.whittle import FreeElements, InformationColumns, WhittleLikelihood

from ._reference import (
    EndlessRecord,
    assert_within,
    random_covariance,
    random_transition,
    rounding,
    unit_directions,
    whittle_information,
)

N_FREQUENCIES = 7
SIZES = pytest.mark.parametrize("sizes", [(2, 2, 2), (1, 3, 2), (3, 1), (1, 1), (2,)], ids=str)


def matrices(partition, coupled=True):
    """A, Q and the block-diagonal N; A and Q block diagonal as well unless coupled."""
    n = partition.n_states
    rng = np.random.default_rng(n)
    keep = partition.block_diagonal
    A = random_transition(rng, n) * (1.0 if coupled else keep)
    Q = random_covariance(rng, n) * (1.0 if coupled else keep)
    return A, Q, random_covariance(rng, n) * keep


def spectral_information(A, Q, N):
    return WhittleLikelihood(EndlessRecord(A, Q, N, N_FREQUENCIES), N).information(A, Q)


def unit_information(A, Q, N, partition):
    return WhittleLikelihood(EndlessRecord(A, Q, N, N_FREQUENCIES), N).unit_information(A, Q, partition)


def block_elements(partition, effect, cause):
    """(row, column) of each element of a block row by row, and its place in the padded block."""
    width = max(partition.sizes)
    rows, cols = partition.slices[effect], partition.slices[cause]
    places = [(i, j) for i in range(rows.stop - rows.start) for j in range(cols.stop - cols.start)]
    elements = [(rows.start + i, cols.start + j) for i, j in places]
    return elements, np.array([i * width + j for i, j in places])


def padded(matrix, places, size):
    """A matrix of information with units on the diagonal where there is no element."""
    result = np.eye(size)
    result[np.ix_(places, places)] = matrix
    return result


@SIZES
def test_padded_blocks_hold_the_matrix_and_zeros(sizes):
    partition = Partition(sizes)
    n, width = partition.n_states, max(sizes)
    x = np.random.default_rng(0).normal(size=(4, n, n))
    blocks = padded_blocks(x, partition)
    assert blocks.shape == (4, len(sizes), width, len(sizes), width)
    assert np.count_nonzero(blocks) == np.count_nonzero(x)
    for m, rows in enumerate(partition.slices):
        for k, cols in enumerate(partition.slices):
            np.testing.assert_array_equal(blocks[:, m, : sizes[m], k, : sizes[k]], x[:, rows, cols])


@SIZES
def test_rows_of_pair_blocks_are_the_blocks(sizes):
    partition = Partition(sizes)
    x = np.random.default_rng(0).normal(size=(partition.n_states,) * 2)
    result = pair_blocks(x, partition)
    assert result.shape == (len(partition.pairs), max(sizes) ** 2)
    for row, (effect, cause) in zip(result, partition.pairs, strict=True):
        elements, places = block_elements(partition, effect, cause)
        np.testing.assert_array_equal(row[places], [x[e] for e in elements])
        assert np.count_nonzero(row) == len(places)


@SIZES
@pytest.mark.parametrize("of", ["transitions", "covariances"])
def test_information_of_each_pair_is_its_part_of_the_dense_matrix(of, sizes):
    partition = Partition(sizes)
    A, Q, N = matrices(partition)
    n, size = partition.n_states, max(sizes) ** 2
    info = spectral_information(A, Q, N)
    if of == "transitions":
        result = coefficient_pair_information(info, partition, partition)
    else:
        result = covariance_pair_information(info, partition)
    assert result.shape == (len(partition.pairs), size, size)
    for matrix, (effect, cause) in zip(result, partition.pairs, strict=True):
        elements, places = block_elements(partition, effect, cause)
        directions = unit_directions(n, elements, symmetric=of == "covariances")
        none = np.zeros((0, n, n))
        chosen = (directions, none) if of == "transitions" else (none, directions)
        expected, error = whittle_information(A, Q, N, N_FREQUENCIES, *chosen)
        assert_within(matrix, padded(expected, places, size), error)


@SIZES
def test_joint_information_of_an_uncoupled_pair_is_its_part_of_the_dense_matrix(sizes):
    partition = Partition(sizes)
    A, Q, N = matrices(partition, coupled=False)
    n, size = partition.n_states, max(sizes) ** 2
    result = uncoupled_pair_information(partition.pairs, unit_information(A, Q, N, partition), partition.sizes)
    assert result.shape == (len(partition.pairs), 3 * size, 3 * size)
    for matrix, (effect, cause) in zip(result, partition.pairs, strict=True):
        there, there_places = block_elements(partition, effect, cause)
        back, back_places = block_elements(partition, cause, effect)
        of_A, of_Q = unit_directions(n, there + back), unit_directions(n, there, symmetric=True)
        expected, error = whittle_information(A, Q, N, N_FREQUENCIES, of_A, of_Q)
        places = np.concatenate([there_places, size + back_places, 2 * size + there_places])
        assert_within(matrix, padded(expected, places, 3 * size), error)


@pytest.mark.parametrize("sizes", [(2, 2, 2), (1, 3, 2)], ids=str)
def test_without_coupling_a_pair_is_told_apart_from_everything_else(sizes):
    """The cross terms that the joint information of a pair leaves out vanish."""
    partition = Partition(sizes)
    A, Q, N = matrices(partition, coupled=False)
    n = partition.n_states
    free = FreeElements.from_masks(np.ones((n, n)), np.ones((n, n)))
    matrix = InformationColumns(spectral_information(A, Q, N), free).square()
    pair = partition.mask(partition.pairs[(np.sort(partition.pairs, axis=1) == (0, 1)).all(axis=1)])
    inside = np.concatenate([pair[free.rows, free.cols], pair[free.first, free.second]])
    condition = np.linalg.cond(Q) * np.linalg.cond(N)
    error = rounding(n, condition) * np.abs(matrix).max()
    assert_within(matrix[np.ix_(inside, ~inside)], 0, error)


@SIZES
def test_units_of_an_uncoupled_plant_have_the_diagonal_blocks_of_its_information(sizes):
    partition = Partition(sizes)
    A, Q, N = matrices(partition, coupled=False)
    whole, units = spectral_information(A, Q, N), unit_information(A, Q, N, partition)
    for of_whole, of_units in ((whole.U, units.U), (whole.W, units.W), (whole.V, units.V)):
        expected = diagonal_blocks(of_whole, partition)
        np.testing.assert_allclose(of_units, expected, atol=rounding(N_FREQUENCIES) * np.abs(expected).max())
