"""Which elements of the plant matrices are estimated: links, correlated units, local blocks."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ...statespace.fisher import FreeElements
from ...statespace.partition import Partition


@dataclass(frozen=True, eq=False)
class Structure:
    """Structure of the plant.

    Attributes
    ----------
    partition : Partition
    linked : ndarray of bool, shape (n_pairs,)
        Ordered pairs of units whose block of the transition matrix A is free.
    correlated : ndarray of bool, shape (n_pairs,)
        Pairs of units whose process noise is correlated, entered at both of their ordered pairs.
    free_dynamics, free_noise : ndarray of bool, shape (n_units,)
        Units whose diagonal block of the transition matrix, or of the process covariance, is re-estimated.
        Where the sensors of a unit do not determine its states, its own model only fixes their basis and
        neither could be.
    driven : ndarray of bool, shape (n_input_pairs,), default=None
        Pairs of ``partition.input_pairs`` whose block of the input matrix is free; None stands for all.
    own_inputs : ndarray of bool, shape (n_units,), default=None
        Units whose own input matrix B_mm is re-estimated; None stands for all.
    shifted : ndarray of bool, shape (n_steps * n_units,), default=None
        Pairs (unit, step) of ``partition.step_pairs`` for which the unit's level shifts at the step; None
        stands for all units whose dynamics the data can tell.
    """

    partition: Partition
    linked: np.ndarray
    correlated: np.ndarray
    free_dynamics: np.ndarray
    free_noise: np.ndarray
    driven: np.ndarray | None = None
    own_inputs: np.ndarray | None = None
    shifted: np.ndarray | None = None

    def __post_init__(self):
        if self.driven is None:
            object.__setattr__(self, "driven", np.ones(len(self.partition.input_pairs.pairs), dtype=bool))
        if self.own_inputs is None:
            object.__setattr__(self, "own_inputs", np.ones(self.partition.n_units, dtype=bool))
        if self.shifted is None:
            object.__setattr__(self, "shifted", np.tile(self.free_noise, self.partition.n_steps))

    @classmethod
    def uncoupled(cls, partition, free_dynamics, free_noise, own_inputs=None):
        """No links between states, every input acting on every unit, independent noise."""
        none = np.zeros(len(partition.pairs), dtype=bool)
        return cls(partition, none, none, free_dynamics, free_noise, own_inputs=own_inputs)

    def with_driven(self, driven):
        """The same structure with other units driven by the inputs of others."""
        return replace(self, driven=driven)

    def with_shifted(self, shifted):
        """The same structure with the levels of other units shifting at the steps."""
        return replace(self, shifted=shifted)

    def with_links(self, linked):
        """The same structure with other links."""
        return replace(self, linked=linked)

    def with_correlated(self, correlated):
        """The same structure with other pairs of correlated units."""
        return replace(self, correlated=correlated)

    def within(self, other):
        """The same structure without the blocks that another one does not have."""
        return replace(
            self,
            linked=self.linked & other.linked,
            correlated=self.correlated & other.correlated,
            driven=self.driven & other.driven,
            shifted=self.shifted & other.shifted,
        )

    def of_noise_alone(self):
        """The same structure with all coefficients known."""
        of_units = np.zeros_like(self.free_dynamics)
        return replace(
            self,
            linked=np.zeros_like(self.linked),
            driven=np.zeros_like(self.driven),
            shifted=np.zeros_like(self.shifted),
            free_dynamics=of_units,
            own_inputs=of_units,
        )

    @property
    def key(self):
        """Hashable identity of the structure."""
        masks = (self.linked, self.correlated, self.driven, self.shifted)
        return b"".join(mask.tobytes() for mask in masks)

    @cached_property
    def transition_mask(self):
        """Free elements of the coefficients ``[A | B]``."""
        partition = self.partition
        transition = partition.pair_mask(self.linked) | partition.unit_mask(self.free_dynamics)
        transition = np.tile(transition, partition.n_lags)
        if not partition.n_known:
            return transition
        inputs = partition.input_mask(self.driven) | partition.own_input_mask(self.own_inputs)
        return np.hstack([transition, inputs, partition.step_mask(self.shifted)])

    @cached_property
    def covariance_mask(self):
        """Free elements of the process covariance."""
        return self.partition.pair_mask(self.correlated) | self.partition.unit_mask(self.free_noise)

    @cached_property
    def transition_positions(self):
        """Position in the parameter vector of each element of ``[A | B]`` (flat), -1 if not free; one
        more -1."""
        return _positions(self.free.rows, self.free.cols, 0, self.transition_mask.shape)

    @cached_property
    def covariance_positions(self):
        """The same for the elements of Q."""
        free = self.free
        shape = self.covariance_mask.shape
        lower = _positions(free.first, free.second, free.n_transition, shape)
        return np.maximum(lower, _positions(free.second, free.first, free.n_transition, shape))

    @cached_property
    def free(self):
        """The free elements in the order of the parameter vector."""
        return FreeElements.from_masks(self.transition_mask, self.covariance_mask)


def _positions(rows, cols, offset, shape):
    position = np.full(shape[0] * shape[1] + 1, -1)
    position[rows * shape[1] + cols] = offset + np.arange(len(rows))
    return position
