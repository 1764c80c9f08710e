"""Which elements of the plant matrices are estimated: links, correlated units, local blocks."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..statespace.fisher import FreeElements
from ..statespace.partition import Partition


@dataclass(frozen=True, eq=False)
class Structure:
    """Structure of the plant.

    Attributes
    ----------
    partition : Partition
    linked : ndarray of bool, shape (n_pairs,)
        Ordered pairs of units whose block of the transition matrix is free.
    correlated : ndarray of bool, shape (n_pairs,)
        Pairs of units whose process noise is correlated, entered at both of their ordered pairs.
    free_dynamics, free_noise : ndarray of bool, shape (n_units,)
        Units whose diagonal block of the transition matrix, or of the process covariance, is re-estimated.
        Where the sensors of a unit do not determine its states, its own model only fixes their basis and
        neither could be.
    """

    partition: Partition
    linked: np.ndarray
    correlated: np.ndarray
    free_dynamics: np.ndarray
    free_noise: np.ndarray

    @classmethod
    def uncoupled(cls, partition, free_dynamics, free_noise):
        """No links, independent noise."""
        none = np.zeros(len(partition.pairs), dtype=bool)
        return cls(partition, none, none, free_dynamics, free_noise)

    def with_links(self, linked):
        """The same structure with other links."""
        return replace(self, linked=linked)

    def with_correlated(self, correlated):
        """The same structure with other pairs of correlated units."""
        return replace(self, correlated=correlated)

    @property
    def key(self):
        """Hashable identity of the structure."""
        return self.linked.tobytes() + self.correlated.tobytes()

    @cached_property
    def transition_mask(self):
        """Free elements of the transition matrix."""
        return self.partition.pair_mask(self.linked) | self.partition.unit_mask(self.free_dynamics)

    @cached_property
    def covariance_mask(self):
        """Free elements of the process covariance."""
        return self.partition.pair_mask(self.correlated) | self.partition.unit_mask(self.free_noise)

    @cached_property
    def transition_positions(self):
        """Position in the parameter vector of each element of A (flat), -1 if not free; one more -1."""
        return _positions(self.free.rows, self.free.cols, 0, self.partition.n_states)

    @cached_property
    def covariance_positions(self):
        """The same for the elements of Q."""
        free = self.free
        n = self.partition.n_states
        lower = _positions(free.first, free.second, free.n_transition, n)
        return np.maximum(lower, _positions(free.second, free.first, free.n_transition, n))

    @cached_property
    def free(self):
        """The free elements in the order of the parameter vector."""
        return FreeElements.from_masks(self.transition_mask, self.covariance_mask)


def _positions(rows, cols, offset, n):
    position = np.full(n * n + 1, -1)
    position[rows * n + cols] = offset + np.arange(len(rows))
    return position
