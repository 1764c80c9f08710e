"""The server's state during gradient training: sizes, messages as series, blocks and losses so far."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag

from ...message.training import LocalModel, PredictedMessage
from ...statespace.partition import Partition, slices_of
from ..numerics.descent import divergence_limit


def arrays_of(messages, array, shapes):
    """One array of each unit's message; ValueError if it has not the shape that `shapes` gives by unit."""
    for name, shape in shapes.items():
        came = getattr(getattr(messages[name], array), "shape", None)
        if came != shape:
            raise ValueError(f"Unit {name!r} sent {array!r} of shape {came}, expected {shape}.")
    return [getattr(messages[name], array) for name in shapes]


class Plant:
    """Sizes and own blocks of the units of a plant, by columns of all units side by side.

    names, models : of the units, in order
    states : partition of the states into units
    n_inputs, input_slices : inputs of all units, and those of each
    own_input : the units' own input blocks, (n, n_inputs)
    inputs : rows of the units' `input_table`, (3, n_inputs)
    free : which elements of ``[A, B]`` are learned: everything but the units' own blocks
    drivers, block_shapes : by unit, columns of ``[h, u]`` that drive it from outside, shape of its block row
    starts, n_samples, n_pairs : first rows of episodes, time steps, pairs of successive ones
    """

    def __init__(self, names: tuple[str, ...], models: tuple[LocalModel, ...]):
        self.names, self.models = names, models
        self.states = Partition(tuple(model.n_states for model in models))
        self.n_inputs = sum(model.n_inputs for model in models)
        self.input_slices = list(slices_of(model.n_inputs for model in models))
        own = [np.zeros((m.n_states, 0)) if m.input_matrix is None else m.input_matrix for m in models]
        self.own_input = block_diag(*own)
        self.inputs = np.hstack([np.zeros((3, 0)) if m.input_table is None else m.input_table for m in models])
        n, slices = self.states.n_states, self.states.slices
        self.free = np.ones((n, n + self.n_inputs), dtype=bool)
        for rows, inputs in zip(slices, self.input_slices, strict=True):
            self.free[rows, rows] = False
            self.free[rows, n + inputs.start : n + inputs.stop] = False
        self.drivers = [np.flatnonzero(self.free[rows.start]) for rows in slices]
        self.block_shapes = [(m.n_states, len(d)) for m, d in zip(models, self.drivers, strict=True)]
        self.starts = (0, *np.cumsum(models[0].lengths)[:-1].tolist())
        self.n_samples = int(np.sum(models[0].lengths))
        self.n_pairs = self.n_samples - len(self.starts)

    @classmethod
    def of(cls, models):
        """Plant of local models by unit name.

        Raises ValueError if the units' records differ in their episodes, or none has two time steps.
        """
        lengths = {name: tuple(model.lengths.tolist()) for name, model in models.items()}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"The units' records have different episodes: {lengths}.")
        plant = cls(tuple(models), tuple(models.values()))
        if plant.n_pairs == 0:
            raise ValueError("Training needs an episode of at least two time steps.")
        return plant

    @property
    def has_constant(self):
        """Whether corrections have a constant: where inputs are, phi stands for their mean influence."""
        return self.n_inputs > 0

    @cached_property
    def relayed(self):
        """All units' states, then all inputs, of every time step."""
        series = [model.filtered for model in self.models] + [model.inputs for model in self.models]
        return np.hstack([one for one in series if one is not None])

    def plans(self, sizes, mode):
        """Plans with the other units' series."""
        plans = {}
        for m, (name, columns) in enumerate(zip(self.names, self.drivers, strict=True)):
            series, n_inputs = self.relayed[:, columns], self.n_inputs - self.models[m].n_inputs
            plans[name] = sizes.plan(m, mode, drivers=np.ascontiguousarray(series), n_inputs=n_inputs)
        return plans

    def in_order(self, messages, array, shapes=None, n_rows=0):
        """The units' messages, one of whose arrays has to have the given shapes, or `n_rows` rows of states.

        Raises ValueError if a message does not fit the unit's local model.
        """
        shapes = [(n_rows, model.n_states) for model in self.models] if shapes is None else shapes
        arrays_of(messages, array, dict(zip(self.names, shapes, strict=True)))
        return [messages[name] for name in self.names]

    def by_unit(self, squares):
        """Sums over each unit's states, (n_units,), of squares (n,)."""
        return np.add.reduceat(squares, [rows.start for rows in self.states.slices])


@dataclass
class Training:
    """The blocks ``[A, B]`` learned so far, (n, n + n_inputs), the units' own being zero, and how it went."""

    plant: Plant
    blocks: np.ndarray
    client: list = field(default_factory=list)  # losses (n_units,) at which every round (or pass) began
    server: list = field(default_factory=list)
    penalty: list = field(default_factory=list)
    gap: list = field(default_factory=list)  # delta_d
    moves: list = field(default_factory=list)  # of the blocks, whether all rows moved
    influences: dict = field(default_factory=dict)  # of stretches of the record on the units' blocks, by unit
    largest_rates: Any = None  # table of step sizes that are sure to converge, by unit
    converged: bool = False
    diverged: bool = False

    @classmethod
    def start(cls, plant, scale=0.0, seed=0):
        """Nothing learned yet: blocks zero, or normal with standard deviation `scale`."""
        blocks = np.zeros(plant.free.shape)
        if scale:
            blocks[plant.free] = scale * np.random.default_rng(seed).standard_normal(int(plant.free.sum()))
        return cls(plant, blocks)

    def record(self, client, server, penalty, messages):
        """Add the losses of a round; notes whether training has diverged."""
        self.client.append(np.asarray(client, dtype=float))
        self.server.append(server)
        self.penalty.append(penalty)
        if self.plant.has_constant:  # delta_d, the distance of phi to the mean of sum_n B_mn u_n
            constants = np.concatenate([message.constant for message in messages])
            difference = constants - self.blocks[:, self.plant.states.n_states :] @ self.plant.inputs[1]
            self.gap.append(np.sqrt(self.plant.by_unit(difference**2)))
        self.diverged = self.is_beyond(np.sum(client) + np.sum(server))

    def add_pass(self, one):
        """Add the means over a pass, and what it learned."""
        for part in ("client", "server", "penalty", "gap"):
            rounds = getattr(one, part)
            if rounds:
                getattr(self, part).append(np.mean(rounds, axis=0))
        self.blocks, self.diverged = one.blocks, one.diverged

    def is_beyond(self, loss):
        """Whether a loss is larger than any in training that converges."""
        return not loss <= self._limit

    @cached_property
    def _limit(self):
        return divergence_limit(sum(model.loss for model in self.plant.models))


class Series(NamedTuple):
    """Content of the units' messages on some pairs of time steps, columns of all units side by side."""

    V: np.ndarray  # filtered states and inputs at the first steps, (n_rows, n + n_inputs)
    own: np.ndarray  # ``A_mm h_c + B_mm u``, (n_rows, n)
    corrections: np.ndarray  # ``h_a`` less `own`, (n_rows, n)
    turned: np.ndarray  # their part ``A_mm theta y``, (n_rows, n)

    @classmethod
    def of(cls, plant, messages):
        """Series of complete messages in the order of the plant."""
        inputs = [message.inputs for message in messages if message.inputs is not None]
        own, turned, corrections = [], [], []
        for model, message in zip(plant.models, messages, strict=True):
            part = (message.augmented - message.filtered) @ model.transition.T
            predicted = message.filtered @ model.transition.T
            if message.inputs is not None:
                predicted = predicted + message.inputs @ model.input_matrix.T
            own.append(predicted)
            turned.append(part)
            corrections.append(part if message.predicted is None else message.predicted - predicted)
        V = np.hstack([message.filtered for message in messages] + inputs)
        return cls(V, np.hstack(own), np.hstack(corrections), np.hstack(turned))

    def with_corrections(self, plant, messages):
        """The same of a later round: states and inputs as they were, other corrections."""
        if not isinstance(messages[0], PredictedMessage):
            return Series.of(plant, messages)
        corrections = np.hstack([message.predicted for message in messages]) - self.own
        turned = corrections - np.concatenate([message.constant for message in messages])
        return Series(self.V, self.own, corrections, turned)

    def residuals(self, blocks):
        """The server's residual and the constraint D, shape (n_rows, n)."""
        n = self.own.shape[1]
        return self.V @ blocks.T - self.corrections, self.turned - self.V[:, :n] @ blocks[:, :n].T
