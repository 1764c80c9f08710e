"""Structure of a random plant: which units act on which, and the matrices."""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag

from ..statespace.matrices import cap_radius, spectral_radius
from ..statespace.partition import Partition
from ._validation import (
    check_count,
    check_interval,
    check_names,
    check_share,
    per_unit_counts,
    per_unit_scales,
    unit_position,
)

_MAX_RADIUS = 0.95  # of the coupled plant: a drawn transition above it is scaled down as a whole


class Layout(NamedTuple):
    """Units of a plant: which states and inputs belong to which, and how many sensors each has."""

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


class Plant(NamedTuple):
    """Matrices of ``h^t = A h^(t-1) + B u^(t-1) + w^(t-1)``, ``y_m^t = C_m h_m^t + v_m^t``.

    `process_scale` of shape (n,) and `measurement_scale` of shape (n_units,) are the standard deviations of
    ``w`` and of each unit's ``v_m``; B has no columns when there are no inputs.
    """

    layout: Layout
    A: np.ndarray
    B: np.ndarray
    C: list[np.ndarray]
    process_scale: np.ndarray
    measurement_scale: np.ndarray


def choose_pairs(rng, names, causes, *, links=None, n_links=None, density=None, prefix=""):
    """Positions (cause, effect) of linked units, those the user gave or random ones among `causes`."""
    if sum(given is not None for given in (links, n_links, density)) > 1:
        ways = [f"{prefix}links", f"n_{prefix}links"] + ([] if prefix else ["link_density"])
        raise ValueError(f"Give at most one of {', '.join(ways)}.")
    possible = [(c, e) for c in causes for e in range(len(names)) if c != e]
    if links is not None:
        return _given_pairs(links, names, possible, prefix)
    if density is not None:
        n_links = round(check_share(density, "link_density") * len(possible))
    elif n_links is None:
        n_links = min(round(1.5 * len(names)) if len(names) > 2 else len(names) - 1, len(possible))
    elif check_count(n_links, f"n_{prefix}links", 0) > len(possible):
        raise ValueError(f"n_{prefix}links is {n_links}, for only {len(possible)} ordered pairs of units.")
    chosen = rng.choice(len(possible), n_links, replace=False) if n_links else []
    return [possible[k] for k in sorted(chosen)]


def _given_pairs(links: Any, names, possible, prefix):
    """Pairs of names or positions, or a matrix ``[effect, cause]``, as pairs of positions, each once."""
    if isinstance(links, np.ndarray) and links.dtype == bool:
        if links.shape != (len(names), len(names)):
            wanted = f"shape ({len(names)}, {len(names)}), [effect, cause]"
            raise ValueError(f"{prefix}links as a boolean matrix must have {wanted}. Got {links.shape}.")
        links = np.argwhere(links.T).tolist()
    pairs: dict[tuple[int, int], None] = {}
    for pair in links:
        if isinstance(pair, str) or not hasattr(pair, "__len__") or len(pair) != 2:
            wanted = "pairs (cause, effect) or be a boolean matrix [effect, cause]"
            raise ValueError(f"{prefix}links must hold {wanted}. Got the entry {pair!r}.")
        cause, effect = (unit_position(end, names) for end in pair)
        if (cause, effect) not in possible:
            what = f"{prefix}links cannot hold {(names[cause], names[effect])}"
            raise ValueError(f"{what}: give different units; the cause of an input link needs inputs.")
        pairs[cause, effect] = None
    return list(pairs)


def local_dynamics(rng, n_states, radius):
    """Random stable transition matrix of one unit: pairs of states rotate and shrink into `radius`."""
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


def draw_transition(rng, layout, pairs, radius, strength):
    """Transition matrix with influences at `pairs` (cause, effect), scaled to a radius <= 0.95."""
    radius, strength = check_interval(radius, "radius", 1), check_interval(strength, "link_strength")
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
    measurement = per_unit_scales(measurement_noise, n_units, "measurement_noise", positive=False)
    C = [rng.standard_normal(shape) for shape in zip(layout.sensors, layout.states.sizes, strict=True)]
    return Plant(layout, A, B, C, np.repeat(process, layout.states.sizes), measurement)


def _fill(rng, matrix, states, sources, pairs, strength):
    """Draw the blocks at `pairs`, Gaussian with a Frobenius norm from the interval `strength`."""
    for cause, effect in pairs:
        block = rng.standard_normal((states.sizes[effect], sources.sizes[cause]))
        scale = rng.uniform(*strength) / np.linalg.norm(block)
        matrix[states.slices[effect], sources.slices[cause]] = block * scale


def check_transition(transition, partition, links):
    """An explicit transition matrix, square and stable, beside which all of `links` must be None."""
    if any(choice is not None for choice in links.values()):
        raise ValueError("transition fixes the links; give either transition or links, not both.")
    A = np.array(transition, dtype=float)
    n = partition.n_states
    if A.shape != (n, n):
        what = f"transition has shape {A.shape} for {n} states {partition.sizes}"
        raise ValueError(f"{what}; give one row and column per state, or set n_states of each unit.")
    if not np.isfinite(A).all():
        raise ValueError("transition must be finite.")
    radius = spectral_radius(A)
    if radius >= 1:
        raise ValueError(f"transition has spectral radius {radius:.4g}; give one with a radius below 1.")
    return A
