"""Gradient training as the server sees it: dialogues that take the units' messages and give replies.

A dialogue is a generator. It yields one message per unit and is sent the units' answers, so that it reads
like the algorithm and knows nothing of transports.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..statespace.descent import divergence_limit, is_still
from ..statespace.episodes import inner_rows
from ..statespace.partition import Partition
from ..training_message import BlockRow, GradientReply
from .step_sizes import block_curvature, reach_curvature


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
    client, server, penalty : list of ndarray of shape (n_units,)
        Losses at which every round (or pass) began.
    """

    plant: Plant
    blocks: np.ndarray
    client: list = field(default_factory=list)
    server: list = field(default_factory=list)
    penalty: list = field(default_factory=list)
    converged: bool = False
    diverged: bool = False

    @classmethod
    def start(cls, plant):
        """Nothing learned yet."""
        n = plant.states.n_states
        return cls(plant, np.zeros((n, n + plant.n_inputs)))

    def record(self, client, server, penalty):
        """Add the losses of a round; notes whether training has diverged."""
        self.client.append(np.asarray(client, dtype=float))
        self.server.append(server)
        self.penalty.append(penalty)
        self.diverged = self.is_beyond(np.sum(client) + np.sum(server))

    def means(self):
        """Means of the losses over the rounds."""
        return [np.mean(part, axis=0) for part in (self.client, self.server, self.penalty)]

    def is_beyond(self, loss):
        """Whether a loss is larger than any that training which converges shows."""
        return not loss <= self._limit

    @cached_property
    def _limit(self):
        return divergence_limit(sum(model.loss for model in self.plant.models))

    def by_unit(self, squares):
        """Sums over each unit's states."""
        return np.add.reduceat(squares, self.plant.first_states)


def _told(plant, messages, array, shapes):
    """The units' messages in the order of the plant, their arrays of the expected shapes.

    Raises
    ------
    ValueError
        If a message does not fit the unit's local model.
    """
    for name, shape in zip(plant.names, shapes, strict=True):
        came = getattr(messages[name], array).shape
        if came != shape:
            raise ValueError(f"Unit {name!r} sent {array!r} of shape {came}, expected {shape}.")
    return [messages[name] for name in plant.names]


def batch_dialogue(plant, choose, training, *, max_iter, tol, watch):
    """Batch rounds in which the states of all time steps cross."""
    plan = choose(None)
    messages = yield {name: plan.plan(m, "series") for m, name in enumerate(plant.names)}
    V, *_ = _series(plant, _told(plant, messages, "filtered", plant.state_shapes(plant.n_pairs)))
    sizes = choose(block_curvature(plant, V.T @ V / len(V)))
    rates = sizes.of_blocks(plant)
    for _ in range(max_iter):
        replies, slope = _pull(plant, sizes, training, messages)
        if _is_over(training, messages, tol, watch, rates * slope):
            return
        training.blocks = training.blocks - _moving(plant, messages, rates) * (
            slope + 2 * sizes.ridge * training.blocks
        )
        messages = yield replies
    return


def _moving(plant, messages, rates):
    """Step sizes of the blocks, zero in the rows of units that were skipped in this round."""
    skipped = getattr(messages, "skipped", ())
    if not skipped:
        return rates
    rates = rates.copy()
    for name, rows in zip(plant.names, plant.states.slices, strict=True):
        if name in skipped:
            rates[rows] = 0.0
    return rates


def _pull(plant, sizes, training, messages, mean=True):
    """Replies to messages with states of some pairs of steps, and the derivative in the blocks."""
    told = _told(plant, messages, "filtered", plant.state_shapes(plant.n_pairs if mean else 1))
    V, E, turned = _series(plant, told)
    n = plant.states.n_states
    weight = 1 / len(V) if mean else 1.0
    residual = V @ training.blocks.T - E
    constraint = turned - V[:, :n] @ training.blocks[:, :n].T
    training.record(
        [message.loss for message in told],
        weight * training.by_unit((residual**2).sum(axis=0)),
        weight * training.by_unit((constraint**2).sum(axis=0)),
    )
    pull, slope = -2 * weight * residual, 2 * weight * residual.T @ V
    pulled = None
    if sizes.xi:
        slope[:, :n] -= 2 * weight * sizes.xi * constraint.T @ V[:, :n]
        pulled = 2 * weight * sizes.xi * constraint
    replies = {}
    for name, model, rows in zip(plant.names, plant.models, plant.states.slices, strict=True):
        past = None if pulled is None else pulled[:, rows] @ model.transition
        replies[name] = GradientReply(np.ascontiguousarray(pull[:, rows]), past)
    return replies, slope


def _series(plant, told):
    """Driving variables, corrections ``h_a - A_mm h_c - B_mm u`` and their part ``A_mm theta y``."""
    states = [message.filtered for message in told]
    inputs = [message.inputs for message in told if message.inputs is not None]
    turned, corrections = [], []
    for model, message in zip(plant.models, told, strict=True):
        part = (message.augmented - message.filtered) @ model.transition.T
        turned.append(part)
        if message.predicted is None:
            corrections.append(part)
            continue
        own = message.filtered @ model.transition.T
        if message.inputs is not None:
            own = own + message.inputs @ model.input_matrix.T
        corrections.append(message.predicted - own)
    return np.hstack(states + inputs), np.hstack(corrections), np.hstack(turned)


def online_dialogue(plant, choose, training, *, max_iter, tol, watch):
    """The per-step algorithm: one message and one reply per unit and time step."""
    sizes = choose(reach_curvature(plant))
    rates = sizes.of_blocks(plant)
    messages = yield {name: sizes.plan(m, "steps") for m, name in enumerate(plant.names)}
    for _ in range(max_iter):
        before, one_pass = training.blocks, Training(plant, training.blocks)
        for _ in range(plant.n_pairs):
            replies, slope = _pull(plant, sizes, one_pass, messages, mean=False)
            if one_pass.diverged:
                break
            one_pass.blocks = one_pass.blocks - rates * (slope + 2 * sizes.ridge * one_pass.blocks)
            messages = yield replies
        training.record(
            *(np.mean(part, axis=0) for part in (one_pass.client, one_pass.server, one_pass.penalty))
        )
        training.diverged |= one_pass.diverged
        training.blocks = one_pass.blocks
        still = is_still(training.blocks - before, before, tol) and _is_flat(training.client, tol)
        if _stops(training, still, watch):
            return


def _is_flat(losses, tol):
    """Whether no unit's loss changed by more than `tol` of its size in the last pass."""
    return len(losses) > 1 and bool((np.abs(losses[-1] - losses[-2]) <= tol * losses[-2]).all())


def moments_dialogue(plant, choose, training, *, max_iter, tol, watch):
    """Batch rounds on moments, after the states have been relayed once."""
    V, S = _relayed(plant)
    n = plant.states.n_states
    sizes = choose(block_curvature(plant, S))
    rates = sizes.of_blocks(plant)
    drivers = plant.drivers
    messages = yield _relay(plant, sizes, V, drivers, "moments")
    cross, turned = np.zeros_like(training.blocks), np.zeros_like(training.blocks)
    slices = plant.states.slices
    for _ in range(max_iter):
        told = _told(plant, messages, "cross", plant.block_shapes)
        for message, own, columns in zip(told, slices, drivers, strict=True):
            cross[own, columns], turned[own, columns] = message.cross, message.cross_states
        product = training.blocks @ S
        energy, energy_states = np.array([[m.energy, m.energy_states] for m in told]).T
        inner = training.by_unit(((product - 2 * cross) * training.blocks).sum(axis=1))
        states = training.blocks[:, :n]
        own = states @ S[:n, :n]
        states_inner = training.by_unit(((own - 2 * turned[:, :n]) * states).sum(axis=1))
        training.record([m.loss for m in told], inner + energy, states_inner + energy_states)
        slope = 2 * (product - cross)
        if sizes.xi:
            slope[:, :n] += 2 * sizes.xi * (own - turned[:, :n])
        if _is_over(training, messages, tol, watch, rates * slope):
            return
        replies = {
            name: BlockRow(training.blocks[own][:, columns])
            for name, own, columns in zip(plant.names, slices, drivers, strict=True)
        }
        training.blocks = training.blocks - _moving(plant, messages, rates) * (
            slope + 2 * sizes.ridge * training.blocks
        )
        messages = yield replies
    return


def stationary_dialogue(plant, choose, training):
    """The fixed point by one linear solve per unit, after the states have been relayed once."""
    drivers = plant.drivers
    V, S = _relayed(plant)
    messages = yield _relay(plant, choose(block_curvature(plant, S)), V, drivers, "stationary")
    rows = _told(plant, messages, "blocks", plant.block_shapes)
    for row, own, columns in zip(rows, plant.states.slices, drivers, strict=True):
        training.blocks[own, columns] = row.blocks
    training.record(*np.array([row.losses for row in rows]).T)
    training.converged = not training.diverged


def _relayed(plant):
    """All units' states, then all inputs, of every time step, and their second moments."""
    V = plant.relayed
    before = V[inner_rows(plant.n_samples, plant.starts) - 1]
    return V, before.T @ before / len(before)


def _relay(plant, sizes, V, drivers, mode):
    """Plans with the other units' series."""
    return {
        name: sizes.plan(
            m, mode, drivers=np.ascontiguousarray(V[:, drivers[m]]), n_inputs=plant.n_driving_inputs(m)
        )
        for m, name in enumerate(plant.names)
    }


def _is_over(training, messages, tol, watch, turn):
    """Whether to stop before this round."""
    changes = max(message.change for message in messages.values())
    still = len(training.server) > 1 and changes <= tol and is_still(turn, training.blocks, tol)
    return _stops(training, still, watch)


def _stops(training, still, watch):
    training.converged = bool(still) and not training.diverged
    told = watch(training)
    return training.converged or training.diverged or bool(told)
