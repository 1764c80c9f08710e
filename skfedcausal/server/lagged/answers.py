"""What a plant of several lags answers: what other units do to one, and what a change of inputs does."""

import numpy as np

from ...message.states import EffectReply
from .dynamics import LaggedDynamics


def foreign_inputs(dynamics, partition):
    """Inputs of all lags as they act, but for what a unit's own do one row later, (n, k (q + 1))."""
    B = dynamics.B.copy()
    if len(B) > 1 and B.shape[2]:
        own = partition.mask(partition.pairs[:0], True, of_inputs=True)
        B[1] = np.where(own, 0.0, B[1])
    return np.hstack(list(B))


def cross_terms(dynamics, partition, run, point):
    """What a unit's states follow but its own last ones and inputs, by unit, (n_samples, p) each.

    A unit keeps the lag-one block of its own dynamics: what its own earlier states do is told to it with what
    the others do.
    """
    others = dynamics.A.copy()
    others[0] = np.where(partition.block_diagonal, 0.0, others[0])
    drive = dynamics.drive(point, foreign=foreign_inputs(dynamics, partition))
    return run.carried_to_units(np.hstack(list(others)), drive)


def effects(lagged, slices, change, gains=None):
    """An `EffectReply` for every unit; covariances from draws of the posterior."""
    dynamics = lagged.dynamics
    effect = dynamics.response(change, gains)
    drawn = []
    for A, B in lagged.draws:
        found = LaggedDynamics(A, B, dynamics.Q).response(change, gains)
        if np.isfinite(found).all():
            drawn.append(found)
    spread = np.array(drawn) - effect
    replies = {}
    for name, rows in slices.items():
        own = spread[:, :, rows]
        V = np.einsum("dti,dtj->tij", own, own) / max(len(own), 1)
        replies[name] = EffectReply(np.ascontiguousarray(effect[:, rows]), V)
    return replies
