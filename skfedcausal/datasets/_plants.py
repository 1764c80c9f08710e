"""Random plants of coupled units with known Granger causality."""

from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.linalg import solve_discrete_lyapunov

from ..statespace.kalman import driven_recurrence
from ..statespace.matrices import eigen_root
from ._structure import Layout, check_transition, choose_pairs, draw_input, draw_plant, draw_transition
from ._truth import LevelShift, PlantTruth
from ._validation import as_generator, check_count, check_known, check_share, per_unit, row_range, unit_position

_SHIFT_KEYS = {"unit", "size", "at", "until"}


@overload
def make_granger_plant(n_units: int = 4, *, return_truth: Literal[False], **settings: Any) -> Any: ...
@overload
def make_granger_plant(
    n_units: int = 4, *, container: Literal["list", "frame"], return_truth: Literal[True] = True, **settings: Any
) -> tuple[Any, PlantTruth]: ...
@overload
def make_granger_plant(
    n_units: int = 4, *, container: Literal["dict"] = "dict", return_truth: Literal[True] = True, **settings: Any
) -> tuple[dict[str, np.ndarray], PlantTruth]: ...
def make_granger_plant(  # type: ignore[misc]  # of overloads that leave most of it unsaid
    n_units: int = 4,
    *,
    n_states: int | Sequence[int] = 2,
    n_sensors: int | Sequence[int] = 8,
    n_samples: int = 2000,
    n_links: int | None = None,
    link_density: float | None = None,
    link_strength: Any = (0.04, 0.2),
    links: Any = None,
    radius: Any = (0.5, 0.85),
    transition: ArrayLike | None = None,
    process_noise: float | Sequence[float] = 1.0,
    measurement_noise: float | Sequence[float] = 1.0,
    n_inputs: int | Sequence[int] = 0,
    input_strength: Any = (0.2, 1.0),
    n_input_links: Any = None,
    input_links: Any = None,
    level_shift: dict[str, Any] | Sequence[dict[str, Any]] | None = None,
    missing: float = 0.0,
    missing_blocks: Any = (),
    episodes: int = 1,
    names: Sequence[str] | None = None,
    container: str = "dict",
    return_truth: bool = True,
    random_state: int | np.random.RandomState | np.random.Generator | None = None,
) -> Any:
    """Simulate a plant of units whose states influence each other.

    Every unit has hidden states and its own sensors; a link lets the states (or the inputs) of one
    unit act on the states of another one time step later. See Notes for the equations.

    Parameters
    ----------
    n_units : int, default=4
        Number of units.
    n_states : int or sequence of int, default=2
        Hidden states of all units, or of each unit.
    n_sensors : int or sequence of int, default=8
        Sensors of all units, or of each unit.
    n_samples : int, default=2000
        Rows, all episodes together.
    n_links : int, default=None
        Number of ordered pairs (cause, effect) of different units whose states are linked, chosen
        at random. None stands for about ``1.5 * n_units``, one for two units.
    link_density : float, default=None
        Share of all ordered pairs to link, instead of `n_links`.
    link_strength : float or tuple of float, default=(0.04, 0.2)
        Interval from which the Frobenius norm of each linked block is drawn, before the plant is
        scaled to a spectral radius of at most 0.95.
    links : sequence of (cause, effect) or ndarray of bool of shape (n_units, n_units), default=None
        The links themselves, by name or position, or a matrix ``[effect, cause]`` laid out like A.
    radius : float or tuple of float, default=(0.5, 0.85)
        Interval in (0, 1) from which the spectral radius of each pair of states is drawn.
    transition : array-like of shape (n, n), default=None
        The whole matrix A, stable and used as it is; then no links are drawn.
    process_noise : float or sequence of float, default=1.0
        Standard deviation of each element of w, for all units or for each unit.
    measurement_noise : float or sequence of float, default=1.0
        Standard deviation of each sensor's noise, for all units or for each unit. Zero is allowed.
    n_inputs : int or sequence of int, default=0
        Inputs of all units, or of each unit: independent standard normal series.
    input_strength : float or tuple of float, default=(0.2, 1.0)
        Interval from which the Frobenius norm of each block of B is drawn.
    n_input_links, input_links : default=None
        Like `n_links` and `links`, for inputs that act on other units (an input always acts on its
        own unit). Chosen independently of the links between states.
    level_shift : dict or list of dict, default=None
        Constants added to state equations: ``{"unit": 0, "size": 5.0, "at": 0.5, "until": 1.0}``.
        ``unit`` is a name or position; ``size`` is added to each state of the unit, in standard
        deviations of its process noise (a number, or one per state); ``at`` (default 0.5) is the
        first affected row and ``until`` (default: the end) the first row no longer affected, as
        a row number (int) or a share of the rows (float).
    missing : float, default=0.0
        Probability of each measurement to be NaN, independently of all others.
    missing_blocks : sequence of (unit, start, stop), default=()
        Segments of rows in which no sensor of a unit reports; ends as in `level_shift`.
    episodes : int, default=1
        Number of independent realisations of nearly equal length, one below the other.
    names : sequence of str, default=None
        Names of the units, ``"unit0"``, ``"unit1"``, ... by default.
    container : {"dict", "list", "frame"}, default="dict"
        ``"dict"``: name to array, ``"list"``: arrays, ``"frame"``: one DataFrame with columns
        ``unit__s0``, ``unit__s1``, ..., each unit's sensors followed by its inputs ``unit__u0``,
        ... The numbers are the same.
    return_truth : bool, default=True
        If False, return only X.
    random_state : int, RandomState, Generator or None, default=None
        Source of all randomness.

    Returns
    -------
    X : dict, list or DataFrame
        Measurements, an array of shape (n_samples, n_sensors_m) for each unit.
    truth : PlantTruth
        Matrices, states, links, inputs, episode lengths: everything that generated X.

    Raises
    ------
    ValueError
        If an argument has a wrong size or range, or two arguments contradict each other.

    Notes
    -----
    With ``h`` the states of all units one below the other,

    ``h^t = A h^(t-1) + B u^(t-1) + d^t + w^(t-1)``, ``w ~ N(0, Q)``,

    ``y_m^t = C_m h_m^t + v_m^t``, ``v_m ~ N(0, R_m)``.

    The diagonal blocks of A rotate pairs of states, an odd last state only decays, and from three
    states on a random orthogonal basis mixes them. Linked blocks are Gaussian matrices of a drawn
    Frobenius norm. Elements of ``C_m`` are standard normal. ``d`` is zero except in level shifts.
    Each episode starts in the stationary distribution; where a level shift is active in the first
    row of an episode, in the one around the shifted steady state.

    For one `random_state` the plant and all noise are the same with and without level shifts and
    missing values, so that two calls give a factual and a counterfactual record. Two episodes of
    one call are training and test data of one plant.

    References
    ----------
    .. [1] L. Barnett and A. K. Seth, "Granger causality for state-space models", Physical Review E
           91, 040101 (2015).

    Examples
    --------
    >>> from skfedcausal.datasets import make_granger_plant
    >>> X, truth = make_granger_plant(3, links=[("unit0", 1), (1, 2)], random_state=0)
    >>> {name: Y.shape for name, Y in X.items()}
    {'unit0': (2000, 8), 'unit1': (2000, 8), 'unit2': (2000, 8)}
    >>> truth.links[["cause", "effect", "kind"]]
       cause effect   kind
    0  unit0  unit1  state
    1  unit1  unit2  state
    """
    check_known(container, ("dict", "list", "frame"), "container")
    n_samples = check_count(n_samples, "n_samples", 1)
    lengths = episode_lengths(n_samples, episodes)
    layout = Layout.read(n_units, n_states, n_inputs, n_sensors, names)
    rng = as_generator(random_state)
    wanted = {"links": links, "n_links": n_links, "density": link_density}
    if transition is None:
        pairs = choose_pairs(rng, layout.names, range(len(layout.names)), **wanted)
        A = draw_transition(rng, layout, pairs, radius, link_strength)
    else:
        A = check_transition(transition, layout.states, wanted)
    wanted = {"links": input_links, "n_links": n_input_links, "prefix": "input_"}
    pairs = choose_pairs(rng, layout.names, np.flatnonzero(layout.inputs.sizes).tolist(), **wanted)
    B = draw_input(rng, layout, pairs, input_strength)
    plant = draw_plant(rng, layout, A, B, process_noise, measurement_noise)
    shifts = read_level_shifts(level_shift, plant, n_samples)
    u, h, Y = simulate(rng, plant, lengths, shifts)
    masks = missing_masks(rng, layout, n_samples, missing, missing_blocks)
    Y = [np.where(mask, np.nan, y) for y, mask in zip(Y, masks, strict=True)]
    truth = _truth(plant, u, h, lengths, shifts, masks)
    X = _contain(Y, truth, container)
    return (X, truth) if return_truth else X


def _truth(plant, u, h, lengths, shifts, masks):
    """The public record of a simulated plant."""
    names, states, inputs = plant.layout.names, plant.layout.states, plant.layout.inputs
    series = [u[:, own] if size else None for own, size in zip(inputs.slices, inputs.sizes, strict=True)]
    R = [scale**2 * np.eye(len(C)) for C, scale in zip(plant.C, plant.measurement_scale, strict=True)]
    return PlantTruth(
        names=names,
        transition=plant.A,
        input=plant.B if u.shape[1] else None,
        process_cov=np.diag(plant.process_scale**2),
        observation=plant.C,
        measurement_cov=R,
        states=h,
        state_slices=dict(zip(names, states.slices, strict=True)),
        input_slices=dict(zip(names, inputs.slices, strict=True)),
        inputs=series if u.shape[1] else None,
        lengths=lengths,
        level_shift=shifts,
        missing=masks,
    )


def _contain(Y, truth, container):
    """The measurements in the container the user asked for."""
    if container == "list":
        return Y
    if container == "dict":
        return dict(zip(truth.names, Y, strict=True))
    columns: dict[str, np.ndarray] = {}
    for name, y, u in zip(truth.names, Y, truth.inputs or [None] * len(Y), strict=True):
        columns |= {f"{name}__s{j}": series for j, series in enumerate(y.T)}
        columns |= {f"{name}__u{j}": series for j, series in enumerate([] if u is None else u.T)}
    return pd.DataFrame(columns)


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
