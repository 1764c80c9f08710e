"""Gradient training as the server sees it: dialogues that take the units' messages and give replies.

A dialogue is a generator. It yields one message per unit and is sent the units' answers, so that it reads
like the algorithm and knows nothing of transports.
"""

import numpy as np

from ...message.training import BlockRow, GradientReply
from ...statespace.episodes import inner_rows
from ...statespace.training.descent import is_still
from ..estimation.input_checks import check_independent
from .block_steps import BlockSteps
from .state import Series, Training
from .step_sizes import block_curvature, reach_curvature


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
    told = _told(plant, messages, "filtered", plant.state_shapes(plant.n_pairs))
    first = series = Series.of(plant, told)
    S = first.V.T @ first.V / len(first.V)
    _check_inputs(plant, S)
    steps, dual = BlockSteps(plant, choose(block_curvature(plant, S)), S), 0.0
    for k in range(max_iter):
        if k:
            told = _told(plant, messages, *first.later)
            series = first.with_corrections(plant, told)
        residual, constraint = series.residuals(training.blocks)
        _record(training, told, residual, constraint, 1 / len(residual))
        pulled = None
        if steps.xi:
            pulled = 2 * steps.xi * constraint
            if steps.is_warm(k):
                dual = dual + pulled if k else np.zeros_like(pulled)
                pulled = pulled + dual
        replies, slope = _pull(plant, series.V, residual, pulled, 1 / len(residual))
        turn = steps.turn(k, slope, training.blocks)
        if _is_over(training, messages, tol, watch, turn, steps.is_last_phase(k, max_iter)):
            return
        training.blocks = training.blocks - _moving(plant, messages, turn)
        messages = yield replies
    return


def _moving(plant, messages, turn):
    """A step of the blocks, zero in the rows of units that are skipped in this round."""
    skipped = getattr(messages, "skipped", ())
    if skipped:
        turn = turn.copy()
        for name, rows in zip(plant.names, plant.states.slices, strict=True):
            if name in skipped:
                turn[rows] = 0.0
    return turn


def _record(training, told, residual, constraint, weight):
    """Note the losses of a round given as series."""
    losses = [weight * training.by_unit((part**2).sum(axis=0)) for part in (residual, constraint)]
    training.record([message.loss for message in told], *losses, told)


def _pull(plant, V, residual, pulled, weight):
    """Derivatives of the server's objective: replies to the units, and in its own blocks."""
    n = plant.states.n_states
    pull, slope = -2 * weight * residual, 2 * weight * residual.T @ V
    if pulled is not None:
        slope[:, :n] -= weight * pulled.T @ V[:, :n]
    replies = {}
    for name, model, rows in zip(plant.names, plant.models, plant.states.slices, strict=True):
        past = None if pulled is None else weight * pulled[:, rows] @ model.transition
        replies[name] = GradientReply(np.ascontiguousarray(pull[:, rows]), past)
    return replies, slope


def online_dialogue(plant, choose, training, *, max_iter, tol, watch):
    """The per-step algorithm: one message and one reply per unit and time step."""
    steps = BlockSteps(plant, choose(reach_curvature(plant)))
    messages = yield {name: steps.sizes.plan(m, "steps") for m, name in enumerate(plant.names)}
    for _ in range(max_iter):
        before, one_pass = training.blocks, Training(plant, training.blocks)
        for _ in range(plant.n_pairs):
            told = _told(plant, messages, "filtered", plant.state_shapes(1))
            series = Series.of(plant, told)
            residual, constraint = series.residuals(one_pass.blocks)
            _record(one_pass, told, residual, constraint, 1.0)
            pulled = 2 * steps.xi * constraint if steps.xi else None
            replies, slope = _pull(plant, series.V, residual, pulled, 1.0)
            if one_pass.diverged:
                break
            one_pass.blocks = one_pass.blocks - steps.turn(0, slope, one_pass.blocks)
            messages = yield replies
        training.add_pass(one_pass)
        training.diverged |= training.is_beyond(training.client[-1].sum() + training.server[-1].sum())
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
    steps = BlockSteps(plant, choose(block_curvature(plant, S)), S)
    drivers = plant.drivers
    messages = yield _relay(plant, steps.sizes, V, drivers, "moments")
    cross, turned = np.zeros_like(training.blocks), np.zeros_like(training.blocks)
    slices, dual = plant.states.slices, np.zeros((n, n))
    for k in range(max_iter):
        told = _told(plant, messages, "cross", plant.block_shapes)
        for message, own, columns in zip(told, slices, drivers, strict=True):
            cross[own, columns], turned[own, columns] = message.cross, message.cross_states
        product = training.blocks @ S
        energy, energy_states = np.array([[m.energy, m.energy_states] for m in told]).T
        inner = training.by_unit(((product - 2 * cross) * training.blocks).sum(axis=1))
        states = training.blocks[:, :n]
        own = states @ S[:n, :n]
        states_inner = training.by_unit(((own - 2 * turned[:, :n]) * states).sum(axis=1))
        training.record([m.loss for m in told], inner + energy, states_inner + energy_states, told)
        slope = 2 * (product - cross)
        if steps.xi:
            pulled = 2 * steps.xi * (own - turned[:, :n])
            if steps.is_warm(k):
                dual = dual + pulled if k else dual
                pulled = pulled + dual
            slope[:, :n] += pulled
        turn = steps.turn(k, slope, training.blocks)
        if _is_over(training, messages, tol, watch, turn, steps.is_last_phase(k, max_iter)):
            return
        replies = {
            name: BlockRow(training.blocks[own][:, columns])
            for name, own, columns in zip(plant.names, slices, drivers, strict=True)
        }
        training.blocks = training.blocks - _moving(plant, messages, turn)
        messages = yield replies
    return


def stationary_dialogue(plant, choose, training):
    """The fixed point by one linear solve per unit, after the same relay."""
    drivers = plant.drivers
    V, S = _relayed(plant)
    messages = yield _relay(plant, choose(block_curvature(plant, S)), V, drivers, "stationary")
    rows = _told(plant, messages, "blocks", plant.block_shapes)
    for row, own, columns in zip(rows, plant.states.slices, drivers, strict=True):
        training.blocks[own, columns] = row.blocks
    training.record(*np.array([row.losses for row in rows]).T, rows)
    training.converged = not training.diverged


def _relayed(plant):
    """All units' states, then all inputs, of every time step, and their second moments."""
    V = plant.relayed
    before = V[inner_rows(plant.n_samples, plant.starts) - 1]
    S = before.T @ before / len(before)
    _check_inputs(plant, S)
    return V, S


def _check_inputs(plant, S):
    """Refuse inputs that are linear combinations of each other."""
    if plant.n_inputs:
        n, mean = plant.states.n_states, plant.inputs[1]
        covariance = S[n:, n:] - np.outer(mean, mean)
        scale = np.sqrt(np.diag(covariance).clip(np.finfo(float).tiny))
        check_independent(covariance / np.outer(scale, scale))


def _relay(plant, sizes, V, drivers, mode):
    """Plans with the other units' series."""
    return {
        name: sizes.plan(
            m, mode, drivers=np.ascontiguousarray(V[:, drivers[m]]), n_inputs=plant.n_driving_inputs(m)
        )
        for m, name in enumerate(plant.names)
    }


def _is_over(training, messages, tol, watch, turn, is_last_phase):
    """Whether to stop before this round."""
    changes = max(message.change for message in messages.values())
    still = is_last_phase and len(training.server) > 1 and changes <= tol
    return _stops(training, still and is_still(turn, training.blocks, tol), watch)


def _stops(training, still, watch):
    training.converged = bool(still) and not training.diverged
    told = watch(training)
    return training.converged or training.diverged or bool(told)
