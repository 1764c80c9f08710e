"""Drawing the matrices of a random plant."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import block_diag

from ..statespace.matrices import cap_radius, spectral_radius
from ..statespace.partition import Partition
from ._validation import (
    check_count,
    check_interval,
    check_names,
    per_unit_counts,
    per_unit_scales,
)

_MAX_RADIUS = 0.95  # of the coupled plant: a drawn transition above it is scaled down as a whole


@dataclass(frozen=True)
class Layout:
    """Units of a plant and their sizes.

    Attributes
    ----------
    names : list of str
    states, inputs : Partition
        Which states and inputs belong to which unit.
    sensors : list of int
        Number of sensors of each unit.
    """

    names: list[str]
    states: Partition
    inputs: Partition
    sensors: list[int]

    @classmethod
    def read(cls, n_units, n_states, n_inputs, n_sensors, names):
        """Check the user's sizes: one for all units, or one per unit."""
        n_units = check_count(n_units, "n_units", 1)
        return cls(
            names=check_names(names, n_units),
            states=Partition(tuple(per_unit_counts(n_states, n_units, "n_states", 1))),
            inputs=Partition(tuple(per_unit_counts(n_inputs, n_units, "n_inputs", 0))),
            sensors=per_unit_counts(n_sensors, n_units, "n_sensors", 1),
        )

    def states_of(self, name):
        """Slice of a unit's states."""
        return self.states.slices[self.names.index(name)]


@dataclass(frozen=True)
class Plant:
    """Matrices of ``h^t = A h^(t-1) + B u^(t-1) + w^(t-1)``, ``y_m^t = C_m h_m^t + v_m^t``.

    Attributes
    ----------
    layout : Layout
    A : ndarray of shape (n, n)
    B : ndarray of shape (n, n_inputs)
        With no columns when there are no inputs.
    C : list of ndarray of shape (n_sensors_m, n_states_m)
    process_scale : ndarray of shape (n,)
        Standard deviation of ``w``.
    measurement_scale : ndarray of shape (n_units,)
        Standard deviation of each unit's ``v_m``.
    """

    layout: Layout
    A: np.ndarray
    B: np.ndarray
    C: list[np.ndarray]
    process_scale: np.ndarray
    measurement_scale: np.ndarray


def local_dynamics(rng, n_states, radius):
    """Random stable transition matrix of one unit.

    Pairs of states rotate by a random angle and shrink by a random factor from the interval
    `radius`; an odd last state only shrinks. From three states on, a random orthogonal change of
    basis mixes them.
    """
    blocks = []
    for p in [2] * (n_states // 2) + [1] * (n_states % 2):
        angle, shrink = rng.uniform(0, np.pi), rng.uniform(*radius)
        rotation = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        blocks.append(shrink * (np.array(rotation) if p == 2 else np.eye(1)))
    A = block_diag(*blocks)
    if n_states > 2:
        basis = np.linalg.qr(rng.standard_normal((n_states, n_states)))[0]
        A = basis @ A @ basis.T
    return A


def influence(rng, shape, strength):
    """Random block with a Frobenius norm drawn from the interval `strength`."""
    block = rng.standard_normal(shape)
    return block * (rng.uniform(*strength) / np.linalg.norm(block))


def draw_transition(rng, layout, pairs, radius, strength):
    """Transition matrix with influences at `pairs` (cause, effect), scaled to a radius <= 0.95."""
    radius, strength = (
        check_interval(radius, "radius", 1),
        check_interval(strength, "link_strength"),
    )
    states = layout.states
    A = block_diag(*(local_dynamics(rng, p, radius) for p in states.sizes))
    _fill(rng, A, states, states, pairs, strength)
    return cap_radius(A, _MAX_RADIUS)


def draw_input(rng, layout, pairs, strength):
    """Input matrix: every unit's inputs act on its own states, and on others' at `pairs`."""
    strength = check_interval(strength, "input_strength")
    B = np.zeros((layout.states.n_states, layout.inputs.n_states))
    own = [(m, m) for m, size in enumerate(layout.inputs.sizes) if size]
    _fill(rng, B, layout.states, layout.inputs, own + pairs, strength)
    return B


def draw_plant(rng, layout, A, B, process_noise, measurement_noise):
    """The plant with these dynamics: random observation matrices, noise of the given size."""
    n_units = len(layout.names)
    process = per_unit_scales(process_noise, n_units, "process_noise", positive=True)
    sizes = zip(layout.sensors, layout.states.sizes, strict=True)
    return Plant(
        layout=layout,
        A=A,
        B=B,
        C=[rng.standard_normal(shape) for shape in sizes],
        process_scale=np.repeat(process, layout.states.sizes),
        measurement_scale=per_unit_scales(measurement_noise, n_units, "measurement_noise", positive=False),
    )


def _fill(rng, matrix, states, sources, pairs, strength):
    for cause, effect in pairs:
        shape = states.sizes[effect], sources.sizes[cause]
        block = states.slices[effect], sources.slices[cause]
        matrix[block] = influence(rng, shape, strength)


def check_transition(transition, partition, links):
    """An explicit transition matrix: square, as large as the plant, stable.

    `links` holds the arguments that would choose links; all must be None.
    """
    if any(choice is not None for choice in links.values()):
        raise ValueError("transition fixes the links; give either transition or links, not both.")
    A = np.array(transition, dtype=float)
    n = partition.n_states
    if A.shape != (n, n):
        raise ValueError(
            f"transition has shape {A.shape} for {n} states {partition.sizes}; give one row and "
            "column per state, or set n_states to the states of each unit."
        )
    if not np.isfinite(A).all():
        raise ValueError("transition must be finite.")
    if spectral_radius(A) >= 1:
        raise ValueError(
            f"transition has spectral radius {spectral_radius(A):.4g}; a stationary plant needs one below 1."
        )
    return A
