"""Which states and inputs belong to which unit, and where each block of the plant matrices lies.

The matrix of coefficients is ``[A | B]``: the transition matrix of the plant with the input matrix appended,
shape (n_states, n_regressors). Without inputs it is A. A plant of several lags has ``[A_1 | A_2 | ...]`` in
the place of A. Steps (shifts of a level at known times) have columns
behind those of the inputs.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class InputPairs:
    """Ordered pairs of different units (effect, cause) whose cause has inputs, with their blocks of B.

    Also the pairs (unit, step) of a plant with steps.

    Attributes
    ----------
    pairs : ndarray of int, shape (n_pairs, 2)
    pair_elements : ndarray of int, shape (n_pairs, e)
        Flat index into ``[A | B]`` of each element of each block, ``n_elements`` where padded.
    pair_dof : ndarray of int, shape (n_pairs,)
    n_elements : int
        Number of elements of ``[A | B]``.
    """

    pairs: np.ndarray
    pair_elements: np.ndarray
    pair_dof: np.ndarray
    n_elements: int


@dataclass(frozen=True)
class Partition:
    """Division of the plant's states and inputs into units.

    Parameters
    ----------
    sizes : tuple of int
        Number of states of each unit, in the order of the plant matrices.
    input_sizes : tuple of int, default=()
        Number of inputs of each unit; empty for a plant without inputs.
    n_steps : int, default=0
        Number of steps.
    n_lags : int, default=1
        Number of earlier states that act on a state.
    """

    sizes: tuple[int, ...]
    input_sizes: tuple[int, ...] = ()
    n_steps: int = 0
    n_lags: int = 1

    @property
    def n_units(self):
        """Number of units."""
        return len(self.sizes)

    @cached_property
    def n_states(self):
        """Number of states of the plant."""
        return int(sum(self.sizes))

    @cached_property
    def n_inputs(self):
        """Number of inputs of the plant."""
        return int(sum(self.input_sizes))

    @property
    def n_known(self):
        """Number of regressors that are no states: inputs and steps."""
        return self.n_inputs + self.n_steps

    @property
    def n_regressors(self):
        """Number of states, at every lag, inputs and steps."""
        return self.n_lagged + self.n_known

    @property
    def n_lagged(self):
        """Number of columns of the transition matrices of all lags."""
        return self.n_states * self.n_lags

    @cached_property
    def without_inputs(self):
        """The same division of the states of one lag alone."""
        return Partition(self.sizes) if self.n_known or self.n_lags > 1 else self

    @property
    def first_lag(self):
        """The states of one lag alone where there are more."""
        return self.without_inputs if self.n_lags > 1 else self

    @cached_property
    def without_steps(self):
        """The same division of states and inputs."""
        return replace(self, n_steps=0) if self.n_steps else self

    @property
    def n_elements(self):
        """Number of elements of ``[A | B]``."""
        return self.n_states * self.n_regressors

    @cached_property
    def slices(self):
        """Slice of each unit's states."""
        return _slices(self.sizes)

    @cached_property
    def input_slices(self):
        """Slice of each unit's inputs among the columns of B."""
        return _slices(self.input_sizes or (0,) * self.n_units)

    @cached_property
    def unit_of_input(self):
        """Unit of each input, shape (n_inputs,)."""
        return np.repeat(np.arange(len(self.input_sizes)), self.input_sizes)

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
        """Flat index into ``[A | B]`` of each element of each off-diagonal block of A.

        Shape (n_pairs, p * p * n_lags), p the size of the largest unit, blocks row by row and lag by lag,
        ``n_elements`` where padded.
        """
        n = self.n_states
        effect, cause = self.pairs.T
        rows, cols = self.padded[effect][:, :, None], self.padded[cause][:, None, :]
        real, first = (rows < n) & (cols < n), rows * self.n_regressors + cols
        lags = [np.where(real, first + lag * n, self.n_elements) for lag in range(self.n_lags)]
        return np.stack(lags, axis=1).reshape(len(effect), self.padded.shape[1] ** 2 * self.n_lags)

    @cached_property
    def input_pairs(self):
        """Pairs of units whose inputs may act on each other's states, an :class:`InputPairs`."""
        k = np.asarray(self.input_sizes or (0,) * self.n_units)
        pairs = self.pairs[k[self.pairs[:, 1]] > 0]
        effect, cause = pairs.T
        width = max(k.max(), 1)
        starts = np.array([s.start for s in self.input_slices])
        place = np.arange(width)[None, :]
        cols = np.where(place < k[cause][:, None], self.n_lagged + starts[cause][:, None] + place, -1)
        rows, cols = self.padded[effect][:, :, None], cols[:, None, :]
        real = (rows < self.n_states) & (cols >= 0)
        index = np.where(real, rows * self.n_regressors + cols, self.n_elements)
        dof = np.asarray(self.sizes)[effect] * k[cause]
        return InputPairs(
            pairs, index.reshape(len(pairs), self.padded.shape[1] * width), dof, self.n_elements
        )

    @cached_property
    def step_pairs(self):
        """Pairs (unit, step), step by step, with the unit's elements of that column."""
        step, unit = np.divmod(np.arange(self.n_steps * self.n_units), self.n_units)
        rows = self.padded[unit]
        index = rows * self.n_regressors + (self.n_lagged + self.n_inputs + step)[:, None]
        index = np.where(rows < self.n_states, index, self.n_elements)
        return InputPairs(np.column_stack([unit, step]), index, np.asarray(self.sizes)[unit], self.n_elements)

    @cached_property
    def pair_dof(self):
        """Number of elements of each off-diagonal block, shape (n_pairs,)."""
        sizes = np.asarray(self.sizes)
        effect, cause = self.pairs.T
        return sizes[effect] * sizes[cause] * self.n_lags

    @cached_property
    def reverse_pairs(self):
        """Number of the opposite pair (n, m) of each ordered pair (m, n), shape (n_pairs,)."""
        effect, cause = self.pairs.T
        number = np.empty((self.n_units, self.n_units), dtype=int)
        number[effect, cause] = np.arange(len(effect))
        return number[cause, effect]

    def input_mask(self, chosen):
        """Boolean mask over B of the blocks of chosen pairs.

        Parameters
        ----------
        chosen : ndarray of bool, shape (n_input_pairs,)
        """
        blocks = np.zeros((self.n_units, self.n_units), dtype=bool)
        effect, cause = self.input_pairs.pairs[chosen].T
        blocks[effect, cause] = True
        return blocks[self.unit_of_state[:, None], self.unit_of_input[None, :]]

    def step_mask(self, chosen):
        """Boolean mask over the columns of the steps.

        Parameters
        ----------
        chosen : ndarray of bool, shape (n_steps * n_units,)
            Pairs of :attr:`step_pairs`.
        """
        return np.asarray(chosen).reshape(self.n_steps, self.n_units).T[self.unit_of_state]

    def own_input_mask(self, chosen):
        """Boolean mask over B of the inputs of chosen units acting on their own states.

        Parameters
        ----------
        chosen : ndarray of bool, shape (n_units,)
        """
        own = self.unit_of_state[:, None] == self.unit_of_input[None, :]
        return own & np.asarray(chosen)[self.unit_of_state][:, None]

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


def _slices(sizes):
    """Consecutive slices of given sizes."""
    edges = np.concatenate([[0], np.cumsum(sizes)])
    return tuple(slice(int(a), int(b)) for a, b in zip(edges[:-1], edges[1:], strict=True))
