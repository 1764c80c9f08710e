"""Random plants of coupled units with known Granger causality: structure, truth, records."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Literal, NamedTuple, overload

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.linalg import block_diag, solve_discrete_lyapunov

from ..statespace.kalman import driven_recurrence
from ..statespace.matrices import Partition, cap_radius, eigen_root, spectral_radius
from ._records import (
    as_generator,
    check_count,
    check_interval,
    check_known,
    check_names,
    check_share,
    per_unit,
    per_unit_counts,
    per_unit_scales,
    row_range,
    unit_position,
)

# Structure of a random plant: which units act on which, and the matrices.

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


# The truth about a simulated plant.


@dataclass(frozen=True, eq=False)
class LevelShift:
    """Constant added to the state equation of one unit.

    Attributes
    ----------
    unit : str
        Name of the unit.
    start, stop : int
        The constant is in the equation of the states of rows ``start`` to ``stop - 1``.
    offset : ndarray of shape (n_states_of_the_unit,)
        Constant, in units of the states.

    Examples
    --------
    >>> from skfedcausal.datasets import make_granger_plant
    >>> _, truth = make_granger_plant(2, level_shift={"unit": 0, "size": 5.0, "at": 0.5}, random_state=0)
    >>> shift = truth.level_shift[0]
    >>> shift.unit, shift.start, shift.stop, shift.offset.tolist()
    ('unit0', 1000, 2000, [5.0, 5.0])
    """

    unit: str
    start: int
    stop: int
    offset: np.ndarray


@dataclass(frozen=True, eq=False)
class PlantTruth:
    """Everything that generated a plant's data.

    Blocks follow the order of `names`. Row t of every series belongs to the same time step; the
    inputs of row t act on the states of row t + 1.

    Attributes
    ----------
    names : list of str
        Units.
    transition : ndarray of shape (n, n)
        ``A``; block ``[state_slices[effect], state_slices[cause]]`` is the direct influence of one
        unit's states on another's.
    input : ndarray of shape (n, n_inputs) or None
        ``B``; columns by `input_slices`.
    process_cov : ndarray of shape (n, n)
        ``Q``.
    observation : list of ndarray of shape (n_sensors_m, n_states_m)
        ``C_m`` of each unit.
    measurement_cov : list of ndarray of shape (n_sensors_m, n_sensors_m)
        ``R_m`` of each unit.
    states : ndarray of shape (n_samples, n)
        Hidden states ``h``.
    state_slices, input_slices : dict of str to slice
        States and inputs of each unit.
    links : DataFrame
        One row per ordered pair of different units with an influence, columns ``cause``,
        ``effect``, ``kind`` (``"state"``: a block of A, ``"input"``: a block of B) and
        ``strength`` (Frobenius norm of the block).
    inputs : list of (ndarray of shape (n_samples, n_inputs_m) or None) or None
        Inputs of each unit, None for a unit that has none; None for a plant without inputs.
    input_columns : list of str
        Flat names ``unit__input`` of the inputs.
    lengths : list of int
        Rows of each episode.
    level_shift : tuple of LevelShift
        Constants added to state equations.
    missing : list of ndarray of bool, shape (n_samples, n_sensors_m)
        Cells of each unit's measurements that were set to NaN.

    Examples
    --------
    >>> from skfedcausal.datasets import make_granger_plant
    >>> _, truth = make_granger_plant(3, links=[("unit0", "unit2")], random_state=0)
    >>> truth.links[["cause", "effect", "kind"]].to_string(index=False)
    'cause effect  kind\\nunit0  unit2 state'
    >>> rows, cols = truth.state_slices["unit2"], truth.state_slices["unit0"]
    >>> truth.transition[rows, cols].shape
    (2, 2)
    """

    names: list[str]
    transition: np.ndarray
    input: np.ndarray | None
    process_cov: np.ndarray
    observation: list[np.ndarray]
    measurement_cov: list[np.ndarray]
    states: np.ndarray
    state_slices: dict[str, slice]
    input_slices: dict[str, slice]
    inputs: list[np.ndarray | None] | None
    lengths: list[int]
    level_shift: tuple[LevelShift, ...]
    missing: list[np.ndarray]

    @cached_property
    def links(self) -> pd.DataFrame:
        """Influences between different units, see Attributes."""
        rows = []
        sources = ("state", self.transition, self.state_slices), ("input", self.input, self.input_slices)
        for kind, matrix, slices in sources:
            if matrix is None:
                continue
            for (cause, columns), (effect, states) in product(slices.items(), self.state_slices.items()):
                strength = float(np.linalg.norm(matrix[states, columns]))
                if cause != effect and strength > 0:
                    rows.append((cause, effect, kind, strength))
        return pd.DataFrame(rows, columns=["cause", "effect", "kind", "strength"])

    @cached_property
    def input_columns(self) -> Any:
        """Flat names of the inputs, see Attributes."""
        sizes = {name: columns.stop - columns.start for name, columns in self.input_slices.items()}
        return [f"{name}__u{j}" for name, size in sizes.items() for j in range(size)]

    def clients(self) -> dict[str, dict[str, Any]]:
        """True model of each unit on its own.

        Returns
        -------
        models : dict of str to dict
            For each unit the keywords ``A, B, C, Q, R`` of its local model: the diagonal blocks of
            the plant. ``B`` is None for a unit without inputs.

        Examples
        --------
        >>> from skfedcausal import KalmanClient
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, truth = make_granger_plant(2, random_state=0)
        >>> clients = {name: KalmanClient(**model) for name, model in truth.clients().items()}
        >>> clients["unit0"].fit(X["unit0"]).n_states_
        2
        """
        models = {}
        for name, C, R in zip(self.names, self.observation, self.measurement_cov, strict=True):
            own, columns = self.state_slices[name], self.input_slices[name]
            B = None if self.input is None or columns.start == columns.stop else self.input[own, columns]
            model = {"A": self.transition[own, own], "B": B, "C": C, "Q": self.process_cov[own, own], "R": R}
            models[name] = {key: None if M is None else M.copy() for key, M in model.items()}
        return models


# Random plants of coupled units with known Granger causality.

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
