"""What a plant of several lags answers: what other units do to one, and what a change of inputs does."""

from dataclasses import replace

import numpy as np

from ...message.states import EffectReply
from ..responses.runs import run_plants
from .dynamics import LaggedDynamics


def foreign_inputs(dynamics, partition):
    """Inputs of all lags as they act on other units than their own, (n, k (q + 1))."""
    own = partition.mask(partition.pairs[:0], True, of_inputs=True)
    return np.hstack([np.where(own, 0.0, B) for B in dynamics.B])


def cross_terms(dynamics, partition, run, point):
    """What other units do to a unit's states over all lags, by unit, (n_samples, p) each."""
    others = np.where(partition.block_diagonal, 0.0, dynamics.A)
    drive = dynamics.drive(point, foreign=foreign_inputs(dynamics, partition))
    return run.carried_to_units(np.hstack(list(others)), drive)


def with_all_lags(dynamics, partition, replies, input_level):
    """Replies that tell every unit the blocks of all lags of its own states and inputs."""
    foreign = foreign_inputs(dynamics, partition) @ np.tile(input_level, len(dynamics.B))
    found = {}
    for (name, reply), rows, inputs in zip(replies.items(), partition.slices, partition.input_slices, strict=True):
        told = {"transition": np.hstack(list(dynamics.A[:, rows, rows]))}
        if reply.input_matrix is not None:
            told["input_matrix"] = np.hstack(list(dynamics.B[:, rows, inputs]))
        if reply.input_level is not None:
            told["input_level"] = foreign[rows]
        found[name] = replace(reply, **told)
    return found


def effects(lagged, slices, change, gains=None, before=None):
    """An `EffectReply` for every unit; covariances from draws of the posterior.

    And what curvature adds to a change of the inputs `before`, less their level, which no posterior of a linear
    plant knows of.
    """
    dynamics = lagged.dynamics
    plants = [(dynamics.A, dynamics.B), *lagged.draws]
    if gains is None:
        effect, *drawn = run_plants(plants, change)
    else:
        effect, *drawn = (LaggedDynamics(A, B, dynamics.Q).response(change, gains) for A, B in plants)
    drawn = [found for found in drawn if np.isfinite(found).all()]
    spread = np.array(drawn) - effect
    replies = {}
    for name, rows in slices.items():
        own = spread[:, :, rows]
        V = np.einsum("dti,dtj->tij", own, own) / max(len(own), 1)
        replies[name] = EffectReply(np.ascontiguousarray(effect[:, rows]), V)
    return with_curvature(replies, lagged.curvature, slices, change, before)


def with_curvature(replies, curvature, slices, change, before=None):
    """Replies with what curvature adds to effects of a change of inputs, and to their covariances."""
    if curvature is None:
        return replies
    effect = np.hstack([replies[name].states for name in slices])
    shift, variance = curvature.moments(change, effect, before)
    found = {}
    for name, rows in slices.items():
        V = replies[name].covariances.copy()
        V[:, *np.diag_indices(V.shape[1])] += variance[:, rows]
        found[name] = EffectReply(np.ascontiguousarray((effect + shift)[:, rows]), V)
    return found
