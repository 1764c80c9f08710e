"""Running a random plant: inputs, states, measurements, level shifts and missing cells."""

import numpy as np
from scipy.linalg import solve_discrete_lyapunov

from ..statespace.kalman import driven_recurrence
from ..statespace.matrices import eigen_root
from ._truth import LevelShift
from ._validation import check_count, check_share, per_unit, row_range, unit_position

_SHIFT_KEYS = {"unit", "size", "at", "until"}


def episode_lengths(n_samples, episodes):
    """Rows of each episode, as equal as possible."""
    episodes = check_count(episodes, "episodes", 1)
    if episodes > n_samples:
        raise ValueError(f"Got {episodes} episodes for {n_samples} rows; each needs one.")
    rows, left_over = divmod(n_samples, episodes)
    return [rows + (k < left_over) for k in range(episodes)]


def read_level_shifts(level_shift, plant, n_samples):
    """The user's dicts as LevelShift objects."""
    given = [level_shift] if isinstance(level_shift, dict) else list(level_shift or ())
    shifts = []
    for shift in given:
        if not isinstance(shift, dict) or not {"unit", "size"} <= set(shift) <= _SHIFT_KEYS:
            wanted = "with the keys 'unit' and 'size', optionally 'at' and 'until'"
            raise ValueError(f"level_shift must be a dict (or a list of them) {wanted}. Got {shift!r}.")
        name = plant.layout.names[unit_position(shift["unit"], plant.layout.names)]
        ends = shift.get("at", 0.5), shift.get("until", n_samples)
        scale = plant.process_scale[plant.layout.states_of(name)]
        size = np.asarray(per_unit(shift["size"], len(scale), "size of a level shift"), dtype=float)
        start, stop = row_range(*ends, n_samples, "a level shift")
        shifts.append(LevelShift(name, start, stop, size * scale))
    return tuple(shifts)


def simulate(rng, plant, lengths, shifts):
    """Inputs, states and measurements of all episodes."""
    n_samples, n = sum(lengths), plant.layout.states.n_states
    u = rng.standard_normal((n_samples, plant.layout.inputs.n_states))
    w = rng.standard_normal((n_samples, n))
    active = np.zeros((n_samples, len(shifts)))  # level shifts as columns that are 1 while active
    offsets = np.zeros((n, len(shifts)))  # what each adds to the states
    for k, shift in enumerate(shifts):
        active[shift.start : shift.stop, k] = 1.0
        offsets[plant.layout.states_of(shift.unit), k] = shift.offset
    drive = np.diag(plant.process_scale**2) + plant.B @ plant.B.T
    spread = eigen_root(solve_discrete_lyapunov(plant.A, drive))
    h = np.empty((n_samples, n))
    ends = np.cumsum(lengths)
    for start, stop in zip(ends - lengths, ends, strict=True):
        mean = np.linalg.solve(np.eye(n) - plant.A, offsets @ active[start])
        h[start] = mean + spread @ w[start]
        if stop - start > 1:
            later, noise = slice(start + 1, stop), (w[start + 1 : stop] * plant.process_scale, None)
            drives = noise, (u[start : stop - 1], plant.B), (active[later], offsets)
            driven_recurrence(plant.A, *drives, x0=h[start].copy(), out=h[later])
    units = zip(plant.layout.states.slices, plant.C, plant.measurement_scale, strict=True)
    Y = [h[:, own] @ C.T + scale * rng.standard_normal((n_samples, len(C))) for own, C, scale in units]
    return u, h, Y


def missing_masks(rng, layout, n_samples, missing, blocks):
    """Cells of each unit's measurements to set to NaN."""
    missing = check_share(missing, "missing")
    masks = [rng.random((n_samples, d)) < missing for d in layout.sensors]
    for block in blocks:
        if len(block) != 3:
            raise ValueError(f"missing_blocks must hold (unit, start, stop). Got {block!r}.")
        start, stop = row_range(block[1], block[2], n_samples, "a missing block")
        masks[unit_position(block[0], layout.names)][start:stop] = True
    return masks
