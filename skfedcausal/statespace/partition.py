"""Which states and inputs belong to which unit; blocks of the plant matrices and their information by pairs.

The matrix of coefficients is ``[A | B]``: the transition matrix of the plant with the input matrix appended,
shape (n_states, n_regressors). Without inputs it is A. Steps (shifts of a level at known times) have columns
behind those of the inputs. Elements of a block (effect m, cause n) are ordered row by row; blocks of unequal
size are padded to the size of the largest.
"""

from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

_PAIRS = 64  # whose spectra are multiplied at a time


class PairFamily(NamedTuple):
    """Blocks of ``[A | B]`` by pairs: of a unit and one that has inputs, or of a unit and a step."""

    pairs: np.ndarray  # (n_pairs, 2): (effect, cause) or (unit, step)
    pair_elements: np.ndarray  # (n_pairs, e): flat index into ``[A | B]``, ``n_elements`` where padded
    pair_dof: np.ndarray  # (n_pairs,)
    n_elements: int  # of ``[A | B]``


class Partition:
    """Division of the plant's states and inputs into units; itself the family of off-diagonal blocks of A.

    `sizes` and `input_sizes` are the numbers of states and of inputs of each unit, in the order of the plant
    matrices.
    """

    def __init__(self, sizes, input_sizes=(), n_steps=0):
        self.sizes, self.input_sizes = tuple(sizes), tuple(input_sizes) or (0,) * len(sizes)
        self.n_steps = n_steps
        self.n_units, self.n_states, self.n_inputs = len(sizes), int(sum(sizes)), int(sum(input_sizes))
        self.n_known = self.n_inputs + n_steps  # regressors that are no states
        self.n_regressors = self.n_states + self.n_known
        self.n_elements = self.n_states * self.n_regressors  # of ``[A | B]``
        self.slices = slices_of(sizes)
        self.input_slices = slices_of(self.input_sizes)
        n, sizes, units = self.n_states, np.asarray(sizes), np.arange(self.n_units)
        self.unit_of_state = np.repeat(units, sizes)
        self.unit_of_input = np.repeat(units, self.input_sizes)
        self.groups = {int(p): np.flatnonzero(sizes == p) for p in np.unique(sizes)}  # units by size
        place = np.arange(max(sizes))
        first = np.array([rows.start for rows in self.slices])[:, None]
        self.padded = np.where(place < sizes[:, None], first + place, n)  # states of each unit, (n_units, p)
        self.without_inputs = self if self.n_regressors == n else Partition(self.sizes)

    @cached_property
    def block_diagonal(self):
        """Elements of the plant matrix of units with themselves."""
        return self.unit_of_state[:, None] == self.unit_of_state

    @cached_property
    def pairs(self):
        """All ordered pairs (effect, cause), shape (n_pairs, 2): as many as the square of the plant."""
        return np.argwhere(~np.eye(self.n_units, dtype=bool))

    @cached_property
    def reverse_pairs(self):
        """Number of the pair (n, m) of each pair (m, n)."""
        effect, cause = self.pairs.T
        number = np.empty((self.n_units, self.n_units), dtype=int)
        number[effect, cause] = np.arange(len(effect))
        return number[cause, effect]

    @cached_property
    def pair_dof(self):
        """Elements of each block, (n_pairs,)."""
        return np.asarray(self.sizes)[self.pairs].prod(axis=1)

    @cached_property
    def n_input_pairs(self):
        """Pairs of units of which the second one has inputs."""
        return int(np.count_nonzero(self.input_sizes)) * (self.n_units - 1)

    @cached_property
    def pair_elements(self):
        """Flat indices of the elements of each block in ``[A | B]``, ``n_elements`` where padded, (n_pairs, e)."""
        n, (effect, cause) = self.n_states, self.pairs.T
        rows, cols = self.padded[effect][:, :, None], self.padded[cause][:, None, :]
        index = np.where((rows < n) & (cols < n), rows * self.n_regressors + cols, self.n_elements)
        return index.reshape(len(effect), self.padded.shape[1] ** 2)

    @cached_property
    def input_pairs(self):
        """Pairs of units whose inputs may act on each other's states, a :class:`PairFamily`."""
        k = np.asarray(self.input_sizes)
        pairs = self.pairs[k[self.pairs[:, 1]] > 0]
        effect, cause = pairs.T
        place = np.arange(max(k.max(), 1))
        starts = np.array([inputs.start for inputs in self.input_slices])
        cols = np.where(place < k[cause][:, None], self.n_states + starts[cause][:, None] + place, -1)
        rows, cols = self.padded[effect][:, :, None], cols[:, None, :]
        real = (rows < self.n_states) & (cols >= 0)
        index = np.where(real, rows * self.n_regressors + cols, self.n_elements)
        index = index.reshape(len(pairs), self.padded.shape[1] * len(place))
        return PairFamily(pairs, index, np.asarray(self.sizes)[effect] * k[cause], self.n_elements)

    @cached_property
    def step_pairs(self):
        """Pairs (unit, step), step by step, with the unit's elements of that column."""
        step, unit = np.divmod(np.arange(self.n_steps * self.n_units), self.n_units)
        rows = self.padded[unit]
        index = rows * self.n_regressors + (self.n_states + self.n_inputs + step)[:, None]
        index = np.where(rows < self.n_states, index, self.n_elements)
        return PairFamily(np.column_stack([unit, step]), index, np.asarray(self.sizes)[unit], self.n_elements)

    def mask(self, pairs, units=False, *, of_inputs=False):
        """Mask over a plant matrix, or over B, of blocks of pairs (effect, cause) and of units' own ones."""
        blocks = np.zeros((self.n_units, self.n_units), dtype=bool)
        blocks[pairs[:, 0], pairs[:, 1]] = True
        np.fill_diagonal(blocks, units)
        return blocks[self.unit_of_state[:, None], self.unit_of_input if of_inputs else self.unit_of_state]

    def step_mask(self, chosen):
        """Boolean mask over the columns of the steps of chosen `step_pairs`."""
        return np.asarray(chosen).reshape(self.n_steps, self.n_units).T[self.unit_of_state]


def slices_of(sizes):
    """Consecutive slices of given sizes."""
    return tuple(slice(*ends) for ends in pairwise(np.cumsum([0, *sizes]).tolist()))


def positions_of(units, slices):
    """Positions within the slices of units, one unit after the other."""
    return np.concatenate([np.zeros(0, dtype=int), *(np.arange(slices[m].start, slices[m].stop) for m in units)])


def padded_blocks(x, partition):
    """Blocks of a square matrix (or stack), zero-padded: shape (..., n_units, p, n_units, p)."""
    states = partition.padded
    if len(partition.groups) > 1:
        widths = [(0, 0)] * (x.ndim - 2) + [(0, 1), (0, 1)]
        x = np.pad(x, widths)[..., states.ravel()[:, None], states.ravel()[None, :]]
    m, p = states.shape
    return x.reshape(*x.shape[:-2], m, p, m, p)


def diagonal_blocks(x, partition):
    """Blocks of every unit with itself, zero-padded: a stack of shape (f, n, n) as (n_units, f, p, p)."""
    units = np.arange(partition.n_units)
    return _blocks_of_pairs(x, partition, units, units)


def _blocks_of_pairs(x, partition, rows, cols):
    """Blocks of some pairs of units, zero-padded: a stack of shape (f, n, n) as (n_pairs, f, p, p)."""
    states = partition.padded
    is_there = states < x.shape[-1]
    at = np.where(is_there, states, 0)
    blocks = x[:, at[rows][:, :, None], at[cols][:, None, :]]
    blocks[:, ~(is_there[rows][:, :, None] & is_there[cols][:, None, :])] = 0.0
    return np.ascontiguousarray(np.moveaxis(blocks, 1, 0))


def pair_blocks(matrix, partition):
    """Off-diagonal blocks as rows, shape (n_pairs, p * p), zero where padded."""
    blocks = padded_blocks(matrix, partition)
    effect, cause = partition.pairs.T
    p = blocks.shape[-1]
    return np.moveaxis(blocks, -2, -3)[effect, cause].reshape(len(effect), p * p)


def coefficient_pair_information(info, partition, family):
    """Information of each block of a family of ``[A | B]`` with itself, shape (n_pairs, e, e).

    `family` is the partition, its `input_pairs` or its `step_pairs`. Padded elements get a unit on the
    diagonal, so that they change no solve and no statistic.
    """
    if family is not partition:
        return _elementwise_information(info, partition, family)
    n = partition.n_states
    U, V = (diagonal_blocks(x, partition) for x in (info.U, info.V[..., :n, :n]))
    own = _unit_products(U, V, partition.pairs)  # (pairs, k, i, j, l)
    return _with_cross(np.transpose(own, (0, 2, 3, 1, 4)), info.W[..., :n, :], "xfjk,xfli->xijkl", partition)


def _elementwise_information(info, partition, family):
    """Information of blocks of known regressors, whose rows of W are zero, given by their elements."""
    padded = family.pair_elements == family.n_elements
    rows, cols = np.divmod(np.where(padded, 0, family.pair_elements), partition.n_regressors)
    matrices = np.empty((*padded.shape, padded.shape[1]))
    for x, (i, j) in enumerate(zip(rows, cols, strict=True)):
        matrices[x] = (info.V[:, j[:, None], j] * info.U[:, i, i[:, None]]).real.mean(axis=0)
    matrices[padded[:, :, None] | padded[:, None, :]] = 0.0
    pair, element = np.nonzero(padded)
    matrices[pair, element, element] = 1.0
    return matrices


def covariance_pair_information(info, partition):
    """Information of each off-diagonal block of Q with itself, shape (n_pairs, e, e).

    A block and its transpose are one parameter.
    """
    own = diagonal_blocks(info.U, partition)
    own = _unit_products(own, own, partition.pairs)  # (pairs, c, c', d', d)
    return _with_cross(np.transpose(own, (0, 1, 4, 2, 3)), info.U, "xfda,xfbc->xcdab", partition)


def _with_cross(own, x, products, partition):
    """Information of blocks from products of units with themselves, and of x between units of each pair."""
    effect, cause = partition.pairs.T
    cross = np.empty(own.shape)
    for start in range(0, len(own), _PAIRS):  # the spectra of all pairs are many times what is kept of them
        some = slice(start, start + _PAIRS)
        blocks = _blocks_of_pairs(x, partition, cause[some], effect[some])
        cross[some] = np.einsum(products, blocks, blocks).real / len(x)
    e = own.shape[1] ** 2
    matrices = (own + cross).reshape(len(own), e, e)
    pair, element = np.nonzero(partition.pair_elements == partition.n_elements)
    matrices[pair, element, element] += 1.0
    return matrices


def uncoupled_pair_information(pairs, spectra, sizes, with_noise=True, products=None):
    """Information of the blocks A_mn, A_nm and Q_mn of pairs of units that nothing couples, (n_pairs, 3e, 3e).

    Of the links alone without noise, (n_pairs, 2e, 2e). `products` takes those of the columns of two units,
    (n_pairs, p * p, p * p), from what they have by frequency, where pairs are few of all.
    """
    terms = (  # of which two blocks, and axes (a, b, c, d) of x_m[a, b] y_n[c, d]
        (0, 0, "U", "V", (2, 3, 1, 4)),  # V_n[j, l] U_m[k, i]
        (1, 1, "V", "U", (4, 1, 3, 2)),  # V_m[j, l] U_n[k, i] for rows i of n
        (0, 1, "W", "W", (2, 3, 4, 1)),  # W_n[j, k] W_m[l, i], (k, l) of A_nm
        (2, 2, "U", "U", (1, 4, 2, 3)),  # U_m[c, c'] U_n[d', d]
        (0, 2, "U", "W", (2, 3, 1, 4)),  # W_n[j, d] U_m[c, i]
        (1, 2, "W", "U", (4, 1, 2, 3)),  # W_m[j, c] U_n[d, i]
    )
    k, p = len(pairs), spectra.U.shape[-1]
    e, of = p * p, 3 if with_noise else 2
    joint = np.empty((k, of, e, of, e))
    for first, second, x, y, axes in terms:
        if second >= of:
            continue
        product = _unit_products(getattr(spectra, x), getattr(spectra, y), pairs, products)
        block = np.transpose(product, (0, *axes)).reshape(k, e, e)
        joint[:, first, :, second, :] = block
        if first != second:
            joint[:, second, :, first, :] = np.swapaxes(block, 1, 2)
    joint = joint.reshape(k, of * e, of * e)
    real = np.arange(p) < np.asarray(sizes)[pairs][:, :, None]  # (pairs, 2, p)
    padded = ~(real[:, 0, :, None] & real[:, 1, None, :]).reshape(k, e)
    turned = ~(real[:, 1, :, None] & real[:, 0, None, :]).reshape(k, e)
    element = np.arange(of * e)
    joint[:, element, element] += np.hstack([padded, turned, padded][:of])
    return joint


def _unit_products(x, y, pairs, products=None):
    """``mean_w Re x_m[a, b] y_n[c, d]`` of pairs (m, n), shape (n_pairs, p, p, p, p).

    As one product of all units, unless `products` takes those of the pairs.
    """
    m, n_frequencies, p, _ = x.shape
    left = np.concatenate([x.real, -x.imag], axis=1).reshape(m, 2 * n_frequencies, p * p)
    right = np.concatenate([y.real, y.imag], axis=1).reshape(m, 2 * n_frequencies, p * p)
    if products is None:
        of_left = np.swapaxes(left, 1, 2).reshape(m * p * p, -1)
        of_right = np.swapaxes(right, 0, 1).reshape(-1, m * p * p)
        effect, cause = pairs.T
        found = (of_left @ of_right).reshape(m, p * p, m, p * p)[effect, :, cause]
    else:
        found = products(left, right, pairs)
    return (found / n_frequencies).reshape(len(pairs), p, p, p, p)
