"""Which states belong to which unit, and where each block of the plant matrices lies."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class Partition:
    """Division of the plant's states into units.

    Parameters
    ----------
    sizes : tuple of int
        Number of states of each unit, in the order of the plant matrices.
    """

    sizes: tuple[int, ...]

    @property
    def n_units(self):
        """Number of units."""
        return len(self.sizes)

    @cached_property
    def n_states(self):
        """Number of states of the plant."""
        return int(sum(self.sizes))

    @cached_property
    def slices(self):
        """Slice of each unit's states."""
        edges = np.concatenate([[0], np.cumsum(self.sizes)])
        return tuple(slice(int(a), int(b)) for a, b in zip(edges[:-1], edges[1:], strict=True))

    @cached_property
    def unit_of_state(self):
        """Unit of each state, shape (n_states,)."""
        return np.repeat(np.arange(self.n_units), self.sizes)

    @cached_property
    def block_diagonal(self):
        """Boolean mask of the diagonal blocks, shape (n_states, n_states)."""
        unit = self.unit_of_state
        return unit[:, None] == unit[None, :]

    @cached_property
    def pairs(self):
        """Ordered pairs of different units as columns (effect, cause), shape (n_pairs, 2)."""
        effect, cause = np.nonzero(~np.eye(self.n_units, dtype=bool))
        return np.column_stack([effect, cause])

    @cached_property
    def groups(self):
        """Units of equal size: dict size -> array of unit numbers."""
        sizes = np.asarray(self.sizes)
        return {int(p): np.flatnonzero(sizes == p) for p in np.unique(sizes)}

    @cached_property
    def padded(self):
        """States of each unit, padded with ``n_states`` to the size of the largest unit.

        Shape (n_units, max size). Arrays that get a zero row and column appended can be indexed with it,
        so that blocks of unequal size are handled in one batch.
        """
        width = max(self.sizes)
        states = np.full((self.n_units, width), self.n_states)
        for m, rows in enumerate(self.slices):
            states[m, : self.sizes[m]] = np.arange(rows.start, rows.stop)
        return states

    @cached_property
    def pair_elements(self):
        """Flat index into A of each element of each off-diagonal block, ``n_states**2`` where padded.

        Shape (n_pairs, p * p), p the size of the largest unit, blocks row by row.
        """
        n = self.n_states
        effect, cause = self.pairs.T
        rows, cols = self.padded[effect][:, :, None], self.padded[cause][:, None, :]
        index = np.where((rows < n) & (cols < n), rows * n + cols, n * n)
        return index.reshape(len(effect), self.padded.shape[1] ** 2)

    @cached_property
    def pair_dof(self):
        """Number of elements of each off-diagonal block, shape (n_pairs,)."""
        sizes = np.asarray(self.sizes)
        effect, cause = self.pairs.T
        return sizes[effect] * sizes[cause]

    @cached_property
    def reverse_pairs(self):
        """Number of the opposite pair (n, m) of each ordered pair (m, n), shape (n_pairs,)."""
        effect, cause = self.pairs.T
        number = np.empty((self.n_units, self.n_units), dtype=int)
        number[effect, cause] = np.arange(len(effect))
        return number[cause, effect]

    def unit_mask(self, chosen):
        """Boolean mask over a plant matrix of the diagonal blocks of chosen units.

        Parameters
        ----------
        chosen : ndarray of bool, shape (n_units,)
        """
        return self.block_diagonal & np.asarray(chosen)[self.unit_of_state][:, None]

    def pair_mask(self, chosen):
        """Boolean mask over a plant matrix of the off-diagonal blocks of chosen pairs.

        Parameters
        ----------
        chosen : ndarray of bool, shape (n_pairs,)
        """
        blocks = np.zeros((self.n_units, self.n_units), dtype=bool)
        effect, cause = self.pairs[chosen].T
        blocks[effect, cause] = True
        unit = self.unit_of_state
        return blocks[unit[:, None], unit[None, :]]
