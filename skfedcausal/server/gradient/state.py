"""What the server holds during gradient training: sizes, messages as series, blocks and losses so far."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.linalg import block_diag

from ...message.training import PredictedMessage
from ...statespace.partition import Partition
from ...statespace.training.descent import divergence_limit


@dataclass(frozen=True)
class Plant:
    """Sizes and own blocks of the units, from their local models.

    Attributes
    ----------
    names : tuple of str
    models : tuple of LocalModel
    """

    names: tuple
    models: tuple

    @classmethod
    def of(cls, models):
        """Plant of local models by unit name.

        Raises
        ------
        ValueError
            If the units' records differ in their episodes, or none has two time steps.
        """
        lengths = {name: tuple(model.lengths.tolist()) for name, model in models.items()}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"The units' records have different episodes: {lengths}.")
        plant = cls(tuple(models), tuple(models.values()))
        if plant.n_pairs == 0:
            raise ValueError("Training needs an episode of at least two time steps.")
        return plant

    @cached_property
    def states(self):
        """Partition of the states into units."""
        return Partition(tuple(model.n_states for model in self.models))

    @cached_property
    def first_states(self):
        """Position of each unit's first state."""
        return [rows.start for rows in self.states.slices]

    @cached_property
    def input_slices(self):
        """Slice of each unit's inputs among all inputs."""
        edges = np.cumsum([0, *(model.n_inputs for model in self.models)])
        return [slice(int(a), int(b)) for a, b in zip(edges[:-1], edges[1:], strict=True)]

    @cached_property
    def n_inputs(self):
        """Number of inputs of all units."""
        return sum(model.n_inputs for model in self.models)

    @cached_property
    def has_constant(self):
        """Whether corrections have a constant: where inputs are, phi stands for their mean influence."""
        return self.n_inputs > 0

    @cached_property
    def own_input(self):
        """The units' own input blocks, shape (n, n_inputs)."""
        own = [np.zeros((m.n_states, 0)) if m.input_matrix is None else m.input_matrix for m in self.models]
        return block_diag(*own)

    @cached_property
    def starts(self):
        """First row of each episode."""
        return (0, *np.cumsum(self.models[0].lengths)[:-1].tolist())

    @cached_property
    def n_samples(self):
        """Time steps of all episodes."""
        return int(np.sum(self.models[0].lengths))

    @cached_property
    def n_pairs(self):
        """Pairs of successive time steps."""
        return self.n_samples - len(self.starts)

    def state_shapes(self, n_rows):
        """Shape of each unit's series of states over a number of rows."""
        return [(n_rows, model.n_states) for model in self.models]

    @cached_property
    def block_shapes(self):
        """Shape of each unit's block row."""
        return [(m.n_states, len(d)) for m, d in zip(self.models, self.drivers, strict=True)]

    @cached_property
    def free(self):
        """Which elements of ``[A, B]`` are learned: everything but the units' own blocks."""
        n = self.states.n_states
        free = np.ones((n, n + self.n_inputs), dtype=bool)
        for rows, inputs in zip(self.states.slices, self.input_slices, strict=True):
            free[rows, rows] = False
            free[rows, n + inputs.start : n + inputs.stop] = False
        return free

    @cached_property
    def inputs(self):
        """Rows of the units' `input_table`, columns of all inputs: shape (3, n_inputs)."""
        tables = [np.zeros((3, 0)) if m.input_table is None else m.input_table for m in self.models]
        return np.hstack(tables)

    @cached_property
    def drivers(self):
        """Columns of ``[h, u]`` that drive each unit from outside."""
        return [np.flatnonzero(self.free[rows.start]) for rows in self.states.slices]

    @cached_property
    def relayed(self):
        """All units' states, then all inputs, of every time step."""
        inputs = [model.inputs for model in self.models if model.inputs is not None]
        return np.hstack([*(model.filtered for model in self.models), *inputs])

    def n_driving_inputs(self, m):
        """How many of unit m's drivers are inputs."""
        return self.n_inputs - self.models[m].n_inputs


@dataclass
class Training:
    """What the server has learned so far, and how it went.

    Attributes
    ----------
    plant : Plant
    blocks : ndarray of shape (n, n + n_inputs)
        ``[A, B]`` with the units' own blocks zero.
    client, server, penalty, gap : list of ndarray of shape (n_units,)
        Losses at which every round (or pass) began, and ``delta_d``.
    """

    plant: Plant
    blocks: np.ndarray
    client: list = field(default_factory=list)
    server: list = field(default_factory=list)
    penalty: list = field(default_factory=list)
    gap: list = field(default_factory=list)
    converged: bool = False
    diverged: bool = False

    @classmethod
    def start(cls, plant, scale=0.0, rng=None):
        """Nothing learned yet: blocks zero, or normal with standard deviation `scale`."""
        blocks = np.zeros(plant.free.shape)
        if scale:
            blocks[plant.free] = scale * rng.standard_normal(int(plant.free.sum()))
        return cls(plant, blocks)

    def record(self, client, server, penalty, messages):
        """Add the losses of a round; notes whether training has diverged."""
        self.client.append(np.asarray(client, dtype=float))
        self.server.append(server)
        self.penalty.append(penalty)
        if self.plant.has_constant:
            self.gap.append(self._gap([message.constant for message in messages]))
        self.diverged = self.is_beyond(np.sum(client) + np.sum(server))

    def _gap(self, constants):
        """``delta_d``, the distance of each unit's phi to the mean of ``sum_n B_mn u_n``."""
        n = self.plant.states.n_states
        difference = np.concatenate(constants) - self.blocks[:, n:] @ self.plant.inputs[1]
        return np.sqrt(self.by_unit(difference**2))

    def add_pass(self, one):
        """Add the means over a pass, and what it learned."""
        for part in ("client", "server", "penalty", "gap"):
            rounds = getattr(one, part)
            if rounds:
                getattr(self, part).append(np.mean(rounds, axis=0))
        self.blocks, self.diverged = one.blocks, one.diverged

    def is_beyond(self, loss):
        """Whether a loss is larger than any that training which converges shows."""
        return not loss <= self._limit

    @cached_property
    def _limit(self):
        return divergence_limit(sum(model.loss for model in self.plant.models))

    def by_unit(self, squares):
        """Sums over each unit's states."""
        return np.add.reduceat(squares, self.plant.first_states)


@dataclass(frozen=True)
class Series:
    """What the units' messages say of a number of pairs of time steps, columns of all units side by side.

    Attributes
    ----------
    V : ndarray of shape (n_rows, n + n_inputs)
        Filtered states and inputs at the first steps.
    own : ndarray of shape (n_rows, n)
        ``A_mm h_c + B_mm u``.
    corrections : ndarray of shape (n_rows, n)
        ``h_a`` less `own`.
    turned : ndarray of shape (n_rows, n)
        Their part ``A_mm theta y``.
    later : tuple
        Array that later messages bring and its shapes.
    """

    V: np.ndarray
    own: np.ndarray
    corrections: np.ndarray
    turned: np.ndarray
    later: tuple

    @classmethod
    def of(cls, plant, told):
        """Series of complete messages."""
        inputs = [message.inputs for message in told if message.inputs is not None]
        own, turned, corrections = [], [], []
        for model, message in zip(plant.models, told, strict=True):
            part = (message.augmented - message.filtered) @ model.transition.T
            predicted = message.filtered @ model.transition.T
            if message.inputs is not None:
                predicted = predicted + message.inputs @ model.input_matrix.T
            own.append(predicted)
            turned.append(part)
            corrections.append(part if message.predicted is None else message.predicted - predicted)
        later = "predicted" if plant.has_constant else "filtered", [one.shape for one in own]
        V = np.hstack([message.filtered for message in told] + inputs)
        return cls(V, np.hstack(own), np.hstack(corrections), np.hstack(turned), later)

    def with_corrections(self, plant, told):
        """The same of a later round: states and inputs as they were, other corrections."""
        if not isinstance(told[0], PredictedMessage):
            return Series.of(plant, told)
        corrections = np.hstack([message.predicted for message in told]) - self.own
        turned = corrections - np.concatenate([message.constant for message in told])
        return Series(self.V, self.own, corrections, turned, self.later)

    def residuals(self, blocks):
        """The server's residual and the constraint D, shape (n_rows, n)."""
        n = self.own.shape[1]
        return self.V @ blocks.T - self.corrections, self.turned - self.V[:, :n] @ blocks[:, :n].T


def relayed_plans(models, sizes):
    """Plan of every unit after the states of all have been relayed, a dict of TrainingPlan."""
    plant = Plant.of(models)
    V = plant.relayed
    return {
        name: sizes.plan(m, "moments", drivers=V[:, plant.drivers[m]], n_inputs=plant.n_driving_inputs(m))
        for m, name in enumerate(plant.names)
    }
