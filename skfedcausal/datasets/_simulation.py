"""Running a plant: inputs, states, measurements, level shifts and missing cells."""

import numpy as np
from scipy.linalg import solve_discrete_lyapunov

from ..statespace.matrices import eigen_root
from ..statespace.recurrence import driven_recurrence
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
    shifts = [level_shift] if isinstance(level_shift, dict) else list(level_shift or ())
    return tuple(_level_shift(shift, plant, n_samples) for shift in shifts)


def _level_shift(shift, plant, n_samples):
    if not isinstance(shift, dict) or not {"unit", "size"} <= set(shift) <= _SHIFT_KEYS:
        raise ValueError(
            "level_shift must be a dict (or a list of them) with the keys 'unit' and 'size', and "
            f"optionally 'at' and 'until'. Got {shift!r}."
        )
    name = plant.layout.names[unit_position(shift["unit"], plant.layout.names)]
    start, stop = row_range(shift.get("at", 0.5), shift.get("until", n_samples), n_samples, "a level shift")
    scale = plant.process_scale[plant.layout.states_of(name)]
    size = np.asarray(per_unit(shift["size"], len(scale), "size of a level shift"), dtype=float)
    return LevelShift(name, start, stop, size * scale)


def simulate(rng, plant, lengths, shifts):
    """Inputs, states and measurements of all episodes."""
    n_samples, n = sum(lengths), plant.layout.states.n_states
    u = rng.standard_normal((n_samples, plant.layout.inputs.n_states))
    w = rng.standard_normal((n_samples, n))
    active, offsets = _shift_drive(plant, shifts, n_samples)
    drive = np.diag(plant.process_scale**2) + plant.B @ plant.B.T
    spread = eigen_root(solve_discrete_lyapunov(plant.A, drive))
    h = np.empty((n_samples, n))
    ends = np.cumsum(lengths)
    for start, stop in zip(ends - lengths, ends, strict=True):
        rows = slice(start, stop)
        mean = np.linalg.solve(np.eye(n) - plant.A, offsets @ active[start])
        h[start] = mean + spread @ w[start]
        _run(plant, u[rows], w[rows], active[rows], offsets, h[rows])
    return u, h, _measure(rng, plant, h)


def _measure(rng, plant, h):
    """Noisy measurements of each unit's states."""
    units = zip(plant.layout.states.slices, plant.C, plant.measurement_scale, strict=True)
    return [h[:, own] @ C.T + scale * rng.standard_normal((len(h), len(C))) for own, C, scale in units]


def _run(plant, u, w, active, offsets, h):
    """Continue the states of one episode, in place, from its first row."""
    if len(h) > 1:
        noise = w[1:] * plant.process_scale
        drives = (noise, None), (u[:-1], plant.B), (active[1:], offsets)
        driven_recurrence(plant.A, *drives, x0=h[0].copy(), out=h[1:])


def _shift_drive(plant, shifts, n_samples):
    """Level shifts as columns that are 1 while active, and what each adds to the states."""
    active = np.zeros((n_samples, len(shifts)))
    offsets = np.zeros((plant.layout.states.n_states, len(shifts)))
    for k, shift in enumerate(shifts):
        active[shift.start : shift.stop, k] = 1.0
        offsets[plant.layout.states_of(shift.unit), k] = shift.offset
    return active, offsets


def missing_masks(rng, layout, n_samples, missing, blocks):
    """Cells of each unit's measurements to set to NaN."""
    missing = check_share(missing, "missing")
    masks = [rng.random((n_samples, d)) < missing for d in layout.sensors]
    for block in blocks:
        if len(block) != 3:
            raise ValueError(f"missing_blocks must hold (unit, start, stop). Got {block!r}.")
        unit, start, stop = block
        start, stop = row_range(start, stop, n_samples, "a missing block")
        masks[unit_position(unit, layout.names)][start:stop] = True
    return masks
