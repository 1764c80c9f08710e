"""Which elements of the plant matrices are estimated: links, correlated units, local blocks."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ...statespace.fisher import FreeElements
from ...statespace.partition import Partition


@dataclass(frozen=True, eq=False)
class Structure:
    """Structure of the plant."""

    partition: Partition
    linked: np.ndarray  # (n_pairs,)
    correlated: np.ndarray  # (n_pairs,)
    free_dynamics: np.ndarray  # (n_units,)
    free_noise: np.ndarray  # (n_units,)
    driven: np.ndarray | None = None  # (n_input_pairs,) or None
    own_inputs: np.ndarray | None = None  # (n_units,) or None
    shifted: np.ndarray | None = None  # (n_steps * n_units,) or None

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
        transition = partition.state_mask(self.linked, self.free_dynamics)
        transition = np.tile(transition, partition.n_lags)
        if not partition.n_known:
            return transition
        inputs = partition.input_mask(self.driven, self.own_inputs)
        return np.hstack([transition, inputs, partition.step_mask(self.shifted)])

    @cached_property
    def covariance_mask(self):
        """Free elements of the process covariance."""
        return self.partition.state_mask(self.correlated, self.free_noise)

    @cached_property
    def transition_positions(self):
        """Position in the parameter vector of each element of ``[A | B]`` (flat), -1 if not free; one
        more -1.
        """
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
