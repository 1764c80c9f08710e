"""Gradient training as the server sees it: its state, step sizes, and rounds that yield replies and take messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag

from ...bases import AT_LEAST_ONE, FROM_ZERO, POSITIVE, Grouped, ParameterGroup
from ...message.training import BlockRow, GradientReply, LocalModel, PredictedMessage, TrainingPlan
from ...server.estimation.input_checks import check_independent
from ...statespace.episodes import inner_rows
from ...statespace.matrices import Partition, slices_of
from ..numerics.descent import block_divisor, divergence_limit, is_still, safe_step

# The server's state during gradient training: sizes, messages as series, blocks and losses so far.


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


# Step sizes of gradient training, as the user gave them or as curvature allows, and the steps they make.

ONLINE_SHARE = 0.05  # of the largest safe step, so that single rows do not shake the per-step iterates
VARIANTS = {  # which of the client's step, the server's pull and the server's step are taken
    "joint": (1, 1, 1),
    "no_augmentation": (0, 0, 1),
    "no_server": (1, 0, 0),
    "pretrained": (1, 0, 1),
}


@dataclass(frozen=True)
class StepSizes:
    """Step sizes of all units, arrays of shape (n_units, 2), and the weights that go with them."""

    client: np.ndarray  # eta1 and gamma1
    server: np.ndarray  # eta2 and gamma2
    blocks: np.ndarray  # gamma (alpha_A) and alpha_B
    xi: float = 0.0  # weight of the penalty
    ridge: float = 0.0
    warm_up: int = 0  # rounds by the augmented Lagrangian at the start
    warm: StepSizes | None = None  # step sizes meanwhile

    def plan(self, m, mode, **relayed):
        """Message of unit m's step sizes."""
        warm = None if self.warm is None else self.warm.rates_of(m)
        how = {"warm_up": self.warm_up, "warm_rates": warm, **relayed}
        return TrainingPlan(mode, self.rates_of(m), self.xi, self.ridge, **how)

    def rates_of(self, m):
        """eta1, eta2, gamma1, gamma2 of unit m and the step size of its ``A_mn``."""
        pairs = self.client[m, 0], self.server[m, 0], self.client[m, 1], self.server[m, 1]
        return np.array([*pairs, self.blocks[m, 0]])

    def of_blocks(self, plant):
        """Step size of each element of ``[A, B]``, zero where it is not learned."""
        n = plant.states.n_states
        unit = plant.states.unit_of_state
        table = np.where(np.arange(n + plant.n_inputs) < n, self.blocks[unit, :1], self.blocks[unit, 1:])
        return table * plant.free


def choose_sizes(settings, plant, blocks=None):
    """Step sizes of all units for a GradientServer, given the `block_curvature` once it is known."""
    if not settings.warm_up_rounds:
        return _phase_sizes(settings, plant, blocks, settings.xi)
    warm = _phase_sizes(settings, plant, blocks, 0.0)
    is_all = settings.constraint == "augmented_lagrangian"
    sizes = warm if is_all else _phase_sizes(settings, plant, blocks, settings.xi)
    return replace(sizes, xi=settings.xi, warm_up=settings.warm_up_rounds, warm=warm)


def _phase_sizes(settings, plant, blocks, xi):
    """Step sizes in one phase of training, `xi` being the penalty as far as steps are explicit in it."""
    share = ONLINE_SHARE if settings.update == "online" and settings.solve == "iterate" else 1.0
    groups = 2 + plant.has_constant + (plant.n_inputs > 0)
    own, pulled, moved = VARIANTS[settings.variant]
    pairs = np.array([_unit_rates(settings, model, groups, share, xi) for model in plant.models])
    table = np.zeros((len(plant.names), 2))
    if blocks is not None:
        given = (settings.gamma if settings.alpha_A is None else settings.alpha_A, settings.alpha_B)
        for k, rate in enumerate(given):
            weight = 1 + xi * (k == 0)
            table[:, k] = [share * safe_step(weight * c, groups) if rate is None else rate for c in blocks[:, k]]
    return StepSizes(own * pairs[:, :, 0], pulled * pairs[:, :, 1], moved * table, xi, settings.ridge)


def _unit_rates(settings, model, n_groups, share, xi):
    """Pairs eta1, eta2 and gamma1, gamma2 of one unit."""
    weight = settings.client_weight
    safe = [
        share * safe_step(weight * own + (1 + xi * (k == 0)) * pulled, n_groups)
        for k, (own, pulled) in enumerate(model.curvature.reshape(-1, 2))
    ]
    given = [(settings.eta1, settings.eta2), (settings.gamma1, settings.gamma2)]
    rates = []
    for (own, pulled), step in zip(given, [*safe, 0.0], strict=False):
        if pulled is None:
            pulled = step if own is None or weight == 0 else own / weight
        rates.append((weight * pulled if own is None else own, pulled))
    return rates


def block_curvature(plant, S):
    """Largest second derivatives in each unit's blocks, (n_units, 2), from second moments S (n + k, n + k)."""
    n = plant.states.n_states
    table = np.zeros((len(plant.names), 2))
    for m, columns in enumerate(plant.drivers):
        for k, part in enumerate((columns[columns < n], columns[columns >= n])):
            if len(part):
                table[m, k] = 2 * np.linalg.eigvalsh(S[np.ix_(part, part)])[-1]
    return table


def reach_curvature(plant):
    """The same of a single row, (n_units, 2), from the largest norms of the units' rows."""
    reach = np.array([model.reach for model in plant.models])
    return np.repeat(2 * (reach.sum() - reach)[:, None], 2, axis=1)


def load(plant, sizes, blocks):
    """Step size times curvature summed over all that moves, (n_units,); below two training converges."""
    if sizes.warm is not None:
        warm = load(plant, sizes.warm, blocks)
        if sizes.warm.client is sizes.client:  # no other phase follows
            return warm
        return np.maximum(warm, load(plant, replace(sizes, warm=None), blocks))
    curvature = np.array([model.curvature.reshape(-1, 2) for model in plant.models])
    k = curvature.shape[1]
    weight = 1 + sizes.xi * (np.arange(k) == 0)
    own = (sizes.client[:, :k] * curvature[:, :, 0]).sum(axis=1)
    pulled = (weight * sizes.server[:, :k] * curvature[:, :, 1]).sum(axis=1)
    return own + pulled + (sizes.blocks * blocks * np.array([1 + sizes.xi, 1.0])).sum(axis=1)


class BlockSteps:
    """Steps of all block rows, explicit or implicit in the constraint; a warm-up needs S, the second moments."""

    def __init__(self, plant, sizes, S=None):
        self.sizes, self._dual = sizes, np.zeros(())
        self._rates, self._divide = sizes.of_blocks(plant), []
        if sizes.warm is None:
            return
        n = plant.states.n_states
        self._warm_rates = sizes.warm.of_blocks(plant)
        for m, (rows, columns) in enumerate(zip(plant.states.slices, plant.drivers, strict=True)):
            others = columns[columns < n]
            if len(others):
                moments, rate = S[np.ix_(others, others)], sizes.warm.blocks[m, 0]
                divide = block_divisor(moments, rate, sizes.xi, rows.stop - rows.start)
                self._divide.append((np.ix_(np.arange(rows.start, rows.stop), others), divide))

    def is_warm(self, k):
        """Whether the augmented Lagrangian leads round k."""
        return k < self.sizes.warm_up

    def pulled(self, k, constraint):
        """Penalty and multipliers times the constraint (n_rows, n) in round k, or None; xi is half of rho."""
        if not self.sizes.xi:
            return None
        penalty = 2 * self.sizes.xi * constraint
        if not self.is_warm(k):
            return penalty
        self._dual = self._dual + penalty if k else np.zeros_like(penalty)
        return penalty + self._dual

    def is_last_phase(self, k, max_iter):
        """Whether nothing but rounds of the same kind can follow round k."""
        return not self.is_warm(k) or self.sizes.warm_up >= max_iter

    def turn(self, k, slope, blocks):
        """Part that round k takes off the blocks, given the objective's derivative in them; all (n, n + k)."""
        rates = self._warm_rates if self.is_warm(k) else self._rates
        turn = rates * (slope + 2 * self.sizes.ridge * blocks)
        if self.is_warm(k):
            for place, divide in self._divide:
                turn[place] = divide(turn[place])
        return turn


# Gradient training as the server sees it: generators that yield replies and are sent the units' messages.
#
# They read like the algorithm and know nothing of transports or of lost units.


class Received(NamedTuple):
    """Messages of all units in a round, and whose block rows rest in it."""

    messages: Mapping[str, Any]
    skipped: frozenset = frozenset()


class Limits(NamedTuple):
    """When training ends: after so many rounds, at so small steps, or when ``watch(training)`` is true."""

    max_iter: int
    tol: float
    watch: Callable[[Training], Any]

    def stops(self, training, still):
        """Whether to stop; notes whether training has converged."""
        training.converged = bool(still) and not training.diverged
        return bool(self.watch(training)) or training.converged or training.diverged

    def is_over(self, training, received, turn, is_last_phase):
        """Whether to stop before a round that would take `turn` off the blocks."""
        changes = max(message.change for message in received.messages.values())
        still = is_last_phase and len(training.server) > 1 and changes <= self.tol
        return self.stops(training, still and is_still(turn, training.blocks, self.tol))


def batch_rounds(plant, choose, training, limits):
    """Batch rounds in which the states of all time steps cross."""
    plan, n_pairs = choose(None), plant.n_pairs
    received = yield {name: plan.plan(m, "series") for m, name in enumerate(plant.names)}
    messages = plant.in_order(received.messages, "filtered", n_rows=n_pairs)
    first = series = Series.of(plant, messages)
    S = first.V.T @ first.V / len(first.V)
    _check_inputs(plant, S)
    steps = BlockSteps(plant, choose(block_curvature(plant, S)), S)
    later = "predicted" if plant.has_constant else "filtered"
    for k in range(limits.max_iter):
        if k:
            messages = plant.in_order(received.messages, later, n_rows=n_pairs)
            series = first.with_corrections(plant, messages)
        residual, constraint = _recorded(training, series, messages, 1 / n_pairs)
        replies, slope = _pull(plant, series.V, residual, steps.pulled(k, constraint), 1 / n_pairs)
        turn = steps.turn(k, slope, training.blocks)
        if limits.is_over(training, received, turn, steps.is_last_phase(k, limits.max_iter)):
            return
        training.blocks = training.blocks - moving(plant, received.skipped, turn)
        received = yield replies


def online_rounds(plant, choose, training, limits):
    """The per-step algorithm: one message and one reply per unit and time step."""
    steps = BlockSteps(plant, choose(reach_curvature(plant)))
    received = yield {name: steps.sizes.plan(m, "steps") for m, name in enumerate(plant.names)}
    for _ in range(limits.max_iter):
        before, one_pass = training.blocks, Training(plant, training.blocks)
        for _ in range(plant.n_pairs):
            messages = plant.in_order(received.messages, "filtered", n_rows=1)
            series = Series.of(plant, messages)
            residual, constraint = _recorded(one_pass, series, messages, 1.0)
            replies, slope = _pull(plant, series.V, residual, steps.pulled(0, constraint), 1.0)
            if one_pass.diverged:
                break
            one_pass.blocks = one_pass.blocks - steps.turn(0, slope, one_pass.blocks)
            received = yield replies
        training.add_pass(one_pass)
        training.diverged |= training.is_beyond(training.client[-1].sum() + training.server[-1].sum())
        still = is_still(training.blocks - before, before, limits.tol) and _is_flat(training.client, limits.tol)
        if limits.stops(training, still):
            return


def moments_rounds(plant, choose, training, limits):
    """Batch rounds on moments, after the states have been relayed once."""
    S = _relayed_moments(plant)
    n, drivers, slices = plant.states.n_states, plant.drivers, plant.states.slices
    steps = BlockSteps(plant, choose(block_curvature(plant, S)), S)
    received = yield plant.plans(steps.sizes, "moments")
    cross, turned = np.zeros_like(training.blocks), np.zeros_like(training.blocks)
    for k in range(limits.max_iter):
        messages = plant.in_order(received.messages, "cross", plant.block_shapes)
        for message, own, columns in zip(messages, slices, drivers, strict=True):
            cross[own, columns], turned[own, columns] = message.cross, message.cross_states
        product = training.blocks @ S
        energy, energy_states = np.array([[m.energy, m.energy_states] for m in messages]).T
        inner = plant.by_unit(((product - 2 * cross) * training.blocks).sum(axis=1))
        states = training.blocks[:, :n]
        own = states @ S[:n, :n]
        states_inner = plant.by_unit(((own - 2 * turned[:, :n]) * states).sum(axis=1))
        training.record([m.loss for m in messages], inner + energy, states_inner + energy_states, messages)
        slope = 2 * (product - cross)
        pulled = steps.pulled(k, own - turned[:, :n])
        if pulled is not None:
            slope[:, :n] += pulled
        turn = steps.turn(k, slope, training.blocks)
        if limits.is_over(training, received, turn, steps.is_last_phase(k, limits.max_iter)):
            return
        units = zip(plant.names, slices, drivers, strict=True)
        replies = {name: BlockRow(training.blocks[own][:, columns]) for name, own, columns in units}
        training.blocks = training.blocks - moving(plant, received.skipped, turn)
        training.moves.append(not received.skipped)
        received = yield replies


def stationary_round(plant, choose, training, limits):
    """The fixed point by one linear solve per unit, after the same relay."""
    S = _relayed_moments(plant)
    received = yield plant.plans(choose(block_curvature(plant, S)), "stationary")
    rows = plant.in_order(received.messages, "blocks", plant.block_shapes)
    for row, own, columns in zip(rows, plant.states.slices, plant.drivers, strict=True):
        training.blocks[own, columns] = row.blocks
    training.influences = {name: row.influences for name, row in received.messages.items()}
    training.record(*np.array([row.losses for row in rows]).T, rows)
    training.converged = not training.diverged


def moving(plant, skipped, turn):
    """A step of the blocks (n, n + k), zero in the rows of units that are skipped in this round."""
    if skipped:
        turn = turn.copy()
        for name, rows in zip(plant.names, plant.states.slices, strict=True):
            if name in skipped:
                turn[rows] = 0.0
    return turn


def _recorded(training, series, messages, weight):
    """Residual and constraint (n_rows, n) of a round given as series; notes its losses."""
    parts = series.residuals(training.blocks)
    losses = [weight * training.plant.by_unit((part**2).sum(axis=0)) for part in parts]
    training.record([message.loss for message in messages], *losses, messages)
    return parts


def _pull(plant, V, residual, pulled, weight):
    """Derivatives of the server's objective: replies to the units, and in its own blocks, (n, n + k).

    `V` are states and inputs, (n_rows, n + k), `residual` and `pulled` (n_rows, n).
    """
    n = plant.states.n_states
    pull, slope = -2 * weight * residual, 2 * weight * residual.T @ V
    if pulled is not None:
        slope[:, :n] -= weight * pulled.T @ V[:, :n]
    replies = {}
    for name, model, rows in zip(plant.names, plant.models, plant.states.slices, strict=True):
        past = None if pulled is None else weight * pulled[:, rows] @ model.transition
        replies[name] = GradientReply(np.ascontiguousarray(pull[:, rows]), past)
    return replies, slope


def _is_flat(losses, tol):
    """Whether no unit's loss changed by more than `tol` of its size in the last pass."""
    return len(losses) > 1 and bool((np.abs(losses[-1] - losses[-2]) <= tol * losses[-2]).all())


def _relayed_moments(plant):
    """Second moments (n + k, n + k) of all units' states and inputs at the first steps of pairs."""
    before = plant.relayed[inner_rows(plant.n_samples, plant.starts) - 1]
    S = before.T @ before / len(before)
    _check_inputs(plant, S)
    return S


def _check_inputs(plant, S):
    """Refuse inputs that are linear combinations of each other, by the second moments S (n + k, n + k)."""
    if plant.n_inputs:
        n, mean = plant.states.n_states, plant.inputs[1]
        covariance = S[n:, n:] - np.outer(mean, mean)
        scale = np.sqrt(np.diag(covariance).clip(np.finfo(float).tiny))
        check_independent(covariance / np.outer(scale, scale))


# Step sizes of gradient training and when it ends.


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class Rates(ParameterGroup):
    """Weight and step sizes of the losses of a :class:`~skfedcausal.papers.GradientServer`, named as in the papers.

    Parameters
    ----------
    client_weight : float, default=1.0
        Weight of the client loss against the server's, eta1 / eta2, unless both are given.
    eta1, eta2 : float, default=None
        Step sizes of ``theta`` along the client loss and along the server loss. None takes the largest that
        are sure to converge given the curvature (a twentieth of it step by step).
    gamma : float, default=None
        Step size of the blocks ``A_mn``. None as above.
    gamma1, gamma2 : float, default=None
        Step sizes of the constant ``phi_m`` of [2]_, for plants with inputs.
    alpha_A, alpha_B : float, default=None
        Step sizes of ``A_mn`` (in place of `gamma`) and ``B_mn`` of [2]_, for plants with inputs.

    References
    ----------
    .. [2] Mohamed, Mohanty, Gebraeel, Federated Causal Representation Learning in State-Space Systems for
           Decentralized Counterfactual Reasoning.

    Examples
    --------
    >>> from skfedcausal import GradientServer
    >>> from skfedcausal.papers.server.rounds import Rates
    >>> GradientServer(rates=Rates(eta1=0.1)).set_params(rates__eta2=0.2).rates
    Rates(eta1=0.1, eta2=0.2)
    """

    client_weight: float = 1.0
    eta1: float | None = None
    eta2: float | None = None
    gamma: float | None = None
    gamma1: float | None = None
    gamma2: float | None = None
    alpha_A: float | None = None
    alpha_B: float | None = None

    _parameter_constraints = {
        "client_weight": [FROM_ZERO],
        **{name: [FROM_ZERO, None] for name in ("eta1", "eta2", "gamma1", "gamma2")},
        **{name: [POSITIVE, None] for name in ("gamma", "alpha_A", "alpha_B")},
    }


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class StopRule(ParameterGroup):
    """When the training of a :class:`~skfedcausal.papers.GradientServer` ends.

    Parameters
    ----------
    max_iter : int, default=None
        Rounds, or passes over the record for ``update="online"``. None stands for 3000 rounds, 2 passes.
    tol : float, default=1e-9
        Stop when no parameter moves by more than this share of the largest in a round; step by step, when
        blocks and losses change by less than this from one pass to the next.
    loss_tol : float, default=None
        Stop once ``L_s``, penalty included, is at or below this number, in the scale of the states: the stop
        rule that the papers print. None: only by `tol`, `max_iter` and `callback`.
    callback : callable, default=None
        Called after every round with its number and a dict of the losses by unit, ``client`` and ``server``;
        training stops when it returns True.

    Examples
    --------
    >>> from skfedcausal import GradientServer
    >>> from skfedcausal.papers.server.rounds import StopRule
    >>> GradientServer(stop=StopRule(max_iter=100)).max_iter
    100
    """

    max_iter: int | None = None
    tol: float = 1e-9
    loss_tol: float | None = None
    callback: Callable | None = None

    _parameter_constraints = {
        "max_iter": [AT_LEAST_ONE, None],
        "tol": [FROM_ZERO],
        "loss_tol": [FROM_ZERO, None],
        "callback": [callable, None],
    }


class Trained(Grouped):
    """Mixin of who takes :class:`Rates` and a :class:`StopRule`, with these as attributes."""

    client_weight: float
    max_iter: int | None
    tol: float
    loss_tol: float | None
    callback: Callable | None
