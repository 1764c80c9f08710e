"""What a plant of several lags answers: what other units do to one, and what a change of inputs does."""

from dataclasses import replace

import numpy as np

from ...message.states import EffectReply
from ...statespace.episodes import episodes
from ...statespace.riccati import stationary_covariance
from .dynamics import LaggedDynamics

_MOST_STATES = 400  # with their lags, of which the variance is worked out
_SETTLES = 0.25  # share of an episode after which its unknown past is forgotten, at most
_FORGETS = 200  # rows


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


def effects(lagged, slices, change, gains=None):
    """An `EffectReply` for every unit; covariances from draws of the posterior.

    And from what a run of the record under its inputs alone is further off than the plant's noise explains,
    as a share of what the inputs do: curvature, for one, which no posterior of a linear plant knows of.
    """
    dynamics = lagged.dynamics
    effect = dynamics.response(change, gains)
    drawn = []
    for A, B in lagged.draws:
        found = LaggedDynamics(A, B, dynamics.Q).response(change, gains)
        if np.isfinite(found).all():
            drawn.append(found)
    spread = np.array(drawn) - effect
    square = effect**2
    lasting = np.cumsum(square, axis=0) / np.arange(1, len(square) + 1)[:, None]
    further = lagged.run_errors * np.maximum(square, lasting)
    replies = {}
    for name, rows in slices.items():
        own = spread[:, :, rows]
        V = np.einsum("dti,dtj->tij", own, own) / max(len(own), 1)
        V[:, *np.diag_indices(V.shape[1])] += further[:, rows]
        replies[name] = EffectReply(np.ascontiguousarray(effect[:, rows]), V)
    return replies


def run_errors(dynamics, scores, u, noise, starts):
    """Variance of a run under the inputs alone that noise does not explain, over that of the run, by state.

    `scores` (n_samples, n) and inputs `u` are less their levels; `noise` is the covariance of the scores.
    """
    n = dynamics.n_states
    if not u.shape[1] or len(dynamics.transition) > _MOST_STATES:
        return np.zeros(n)
    runs, errors = [], []
    for start, stop in episodes(starts, len(scores)):
        run = dynamics.response(u[start : stop - 1])
        late = min(int(_SETTLES * len(run)), _FORGETS)
        runs.append(run[late:])
        errors.append((scores[start + 1 : stop] - run)[late:])
    explained = stationary_covariance(dynamics.transition, dynamics.process_cov)[:n, :n] + noise
    further = np.concatenate(errors).var(axis=0) - np.diag(explained)
    size = np.concatenate(runs).var(axis=0)
    share = np.divide(further, size, out=np.zeros(n), where=size > 0)
    return np.clip(share, 0.0, 1.0)
