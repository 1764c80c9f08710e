"""Gradient training as the server sees it: generators that yield replies and are sent the units' messages.

They read like the algorithm and know nothing of transports or of lost units.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ...message.training import BlockRow, GradientReply
from ...server.estimation.input_checks import check_independent
from ...statespace.episodes import inner_rows
from ..numerics.descent import is_still
from .state import Series, Training
from .step_sizes import BlockSteps, block_curvature, reach_curvature


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
