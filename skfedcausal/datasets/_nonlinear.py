"""Nonlinear plants with sustained faults: the generator of the third paper."""

from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.utils import check_random_state

from ..bases import MadePlant
from ..papers.numerics.lstm import LSTM, uniform_lstm
from ..statespace.networks import FeedForward
from ._records import check_known
from .tuning import TUNING


def make_nonlinear_plant(
    n_units: int = 2,
    *,
    links: Any = ((0, 1),),
    n_samples: int = 1000,
    strength: float = 0.5,
    size: float = 2.0,
    fault_length: int = 10,
    fault_every: int = 100,
    roots: Any = "all",
    everywhere: bool = False,
    process_noise: float = 0.3,
    sensor_noise: float = 1.0,
    n_sensors: int = 4,
    kind: str = "lstm",
    dynamics: str = "cycle",
    plant_state: int = 0,
    random_state: Any = None,
) -> MadePlant:
    """Units on noisy limit cycles that push each other, with sustained faults at random units.

    Parameters
    ----------
    n_units : int, default=2
    links : sequence of tuple (cause, effect), default=((0, 1),)
        Positions of units; loops are allowed.
    n_samples : int, default=1000
    strength : float, default=0.5
        Largest push of one unit on another, `alpha` of the paper.
    size : float, default=2.0
        Added to both states of the root at every step of a fault; 0 gives nominal operation.
    fault_length, fault_every : int, default=10, 100
        Steps of a fault, and from one fault to the next (up to 20 steps later, drawn).
    roots : "all" or sequence of int, default="all"
        Units that a fault may start in; one is drawn for every fault.
    everywhere : bool, default=False
        Whether a fault pushes every unit alike (equations 15 to 17 of [1]_ as printed), `target` naming the
        one drawn; no answer that names a single root can then be right.
    process_noise, sensor_noise : float, default=0.3, 1.0
        Standard deviations.
    n_sensors : int, default=4
        Sensors per unit.
    kind : {"lstm", "smooth"}, default="lstm"
        Dependencies through a random two-layer LSTM called without carried state (the paper's), or through
        random Fourier features.
    dynamics : {"cycle", "lstm"}, default="cycle"
        A unit's own map: the smooth map below, or an LSTM of width 16 without carried state whose linear
        layer is fitted to it (the paper's).
    plant_state : int, default=0
        Draws the plant; records with the same one are of the same plant.
    random_state : int, RandomState instance or None, default=None
        Draws the record.

    Returns
    -------
    plant : Bunch
        With ``data``, a dict of unit name to array (n_samples, n_sensors); ``target``, per row the unit in
        which the running fault started, "" without a fault; ``faults``, tuples (first row, row after the
        last, unit); ``states``, an array (n_samples, n_units, 2); ``links``, pairs of names; and the true
        maps of every unit by name, each with ``value`` and ``jacobian`` for rows of states: ``h``, and ``f``
        (the unit alone) where ``dynamics="lstm"``.

    Raises
    ------
    ValueError
        If `kind`, `dynamics`, `roots` or a link is invalid.

    Notes
    -----
    The target of the paper, two sinusoids of period 20 whose amplitude steps slowly, shapes the dynamics: a
    unit's own map turns the state by one step of the cycle and pulls it towards the circle of radius 2. Two
    equal phases, as printed, leave a map of the state no way to know the direction, so the second lags by a
    quarter. `strength` multiplies the tanh of dependencies scaled to unit standard deviation on the cycle;
    with default initial weights of an LSTM they would be constant. Faults push the root's state equation.

    References
    ----------
    .. [1] Mohanty, Ramanan, Gebraeel, Learning Unknown Interdependencies for Decentralized Root Cause
           Analysis in Nonlinear Dynamical Systems, appendix A.1.

    Examples
    --------
    >>> from skfedcausal.datasets import make_nonlinear_plant
    >>> plant = make_nonlinear_plant(n_samples=500, random_state=0)
    >>> sorted(plant.data), plant.data["unit0"].shape, len(plant.faults)
    (['unit0', 'unit1'], (500, 4), 4)
    """
    check_known(kind, ("lstm", "smooth"), "kind")
    check_known(dynamics, ("cycle", "lstm"), "dynamics")
    for pair in links:
        if len(pair) != 2 or not all(0 <= k < n_units for k in pair) or pair[0] == pair[1]:
            raise ValueError(f"Link {pair!r} is no (cause, effect) of two different units below {n_units}.")
    allowed = list(range(n_units)) if isinstance(roots, str) else list(roots)
    if not allowed or not all(0 <= k < n_units for k in allowed):
        raise ValueError(f"roots={roots!r}; give 'all' or positions of units below {n_units}.")
    drawn, names = np.random.RandomState(plant_state), [f"unit{m}" for m in range(n_units)]
    pushes = {tuple(link): _dependency(drawn, kind) for link in links}
    h = [_measurement(drawn, n_sensors) for _ in names]
    f = [_cycle_lstm(drawn) for _ in names] if dynamics == "lstm" else []
    rng = check_random_state(random_state)
    push, target, faults = np.zeros((n_samples, n_units)), np.full(n_samples, "", dtype=object), []
    first = fault_every if size else n_samples
    while first + fault_length <= n_samples:
        stop, unit = first + fault_length, int(allowed[rng.randint(len(allowed))])
        push[first:stop, slice(None) if everywhere else unit] = size
        target[first:stop] = names[unit]
        faults.append((first, stop, names[unit]))
        first += fault_every + rng.randint(20)
    x = rng.standard_normal((n_units, 2)) + np.array([2.0, 0.0])
    states = np.empty((n_samples, n_units, 2))
    for t in range(-50, n_samples):
        new = np.vstack([own.value(row[None]) for own, row in zip(f, x, strict=True)]) if f else _cycle(x)
        for (cause, effect), g in pushes.items():
            new[effect] += strength * g(x[cause])
        x = new + process_noise * rng.standard_normal(new.shape) + (push[t, :, None] if t >= 0 else 0.0)
        if t >= 0:
            states[t] = x
    noise = [sensor_noise * rng.standard_normal((n_samples, n_sensors)) for _ in names]
    return MadePlant(
        data={name: h[m].value(states[:, m]) + noise[m] for m, name in enumerate(names)},
        target=target.astype(str),
        faults=faults,
        states=states,
        links=[(names[cause], names[effect]) for cause, effect in pushes],
        f=dict(zip(names, f, strict=False)),
        h=dict(zip(names, h, strict=True)),
    )


def _cycle(x):
    """One step of units on their own: a turn, and a pull towards the circle; rows of states."""
    angle = 2 * np.pi / TUNING.nonlinear_period
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    distance = np.maximum(np.hypot(x[:, 0], x[:, 1]), 1e-9)[:, None]
    return x @ turn.T * (0.4 + 0.6 * TUNING.nonlinear_radius * np.tanh(distance) / distance)


def _cycle_lstm(rng):
    """An LSTM called from zero state, its linear layer fitted to the cycle on states around it."""
    layers = tuple((3 * W, R, b) for W, R, b in uniform_lstm(rng, 2, TUNING.nonlinear_hidden))
    points = rng.uniform(-2 * TUNING.nonlinear_radius, 2 * TUNING.nonlinear_radius, (2000, 2))
    hidden = LSTM(layers, np.eye(TUNING.nonlinear_hidden), np.zeros(TUNING.nonlinear_hidden)).value(points)
    design = np.hstack([hidden, np.ones((len(points), 1))])
    gram = design.T @ design + 1e-6 * len(points) * np.eye(TUNING.nonlinear_hidden + 1)
    fitted = np.linalg.solve(gram, design.T @ _cycle(points)).T
    return LSTM(layers, fitted[:, :-1], fitted[:, -1])


def _circle():
    phase = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    return TUNING.nonlinear_radius * np.column_stack([np.cos(phase), np.sin(phase)])


def _dependency(rng, kind):
    """Bounded map of a state whose argument has unit standard deviation on the cycle."""
    inner = _lstm_map(rng) if kind == "lstm" else _smooth_map(rng)
    values = np.array([inner(x) for x in _circle()])
    mean, scale = values.mean(axis=0), values.std(axis=0)
    return lambda x: np.tanh((inner(x) - mean) / scale)


def _smooth_map(rng):
    frequencies = 0.5 * rng.standard_normal((TUNING.nonlinear_features, 2))
    phases = rng.uniform(0, 2 * np.pi, TUNING.nonlinear_features)
    weights = rng.standard_normal((2, TUNING.nonlinear_features))
    return lambda x: weights @ np.cos(frequencies @ x + phases)


def _lstm_map(rng):
    """Two LSTM layers from zero state and a linear layer: a map of the input alone."""
    first, second = _lstm_layer(rng, 2), _lstm_layer(rng, TUNING.nonlinear_features)
    out = rng.standard_normal((2, TUNING.nonlinear_features)) / np.sqrt(TUNING.nonlinear_features)
    return lambda x: out @ second(first(x))


def _lstm_layer(rng, n_inputs):
    """Layer of an LSTM from zero state, without the forget gate and recurrent weights, which never act."""
    bound = 1 / np.sqrt(TUNING.nonlinear_features)
    weights = rng.uniform(-bound, bound, (3, TUNING.nonlinear_features, n_inputs))
    bias = rng.uniform(-bound, bound, (3, TUNING.nonlinear_features))

    def forward(x):
        i, g, o = np.einsum("gfk,k->gf", weights, x) + bias
        return np.tanh(np.tanh(g) * expit(i)) * expit(o)

    return forward


def _measurement(rng, n_sensors):
    """Two-layer map with a SELU, columns of the same standard deviation on the cycle."""
    first, bias = rng.standard_normal((TUNING.nonlinear_width, 2)), rng.standard_normal(TUNING.nonlinear_width)
    second = rng.standard_normal((n_sensors, TUNING.nonlinear_width))
    raw = FeedForward((first.T, second.T), (bias, np.zeros(n_sensors)), "selu")
    factor = TUNING.nonlinear_spread / raw.value(_circle()).std(axis=0)
    return FeedForward((first.T, second.T * factor), raw.biases, "selu")
