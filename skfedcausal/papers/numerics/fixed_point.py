"""Training of one unit as a linear recurrence ``Delta <- H Delta + J``, and where it ends.

Theorem 5.4 of the first paper, rebuilt from the update equations (its eq. 17 and 24), since the printed
matrices have slips: F swaps eta1 and eta2, J lacks the factor ``2 eta1`` and pairs a residual at t - 1 with a
measurement at t - 1 where the loss pairs t with t - 1, ``P_mm`` lacks ``(x) I``, and eq. 31 and 32 have signs
reversed. ``Delta`` holds the blocks of one row of the server's matrix, column by column, then ``theta`` (and
``phi``) of the same unit; different units' recurrences do not touch each other.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import block_diag

_RANK = 1e-12  # relative size of singular values that count as zero
_WELL_POSED = 1e10  # condition number up to which a plain solve is used


@dataclass(frozen=True)
class Recurrence:
    """``Delta <- H Delta + J`` of one unit."""

    H: np.ndarray  # (s, s)
    J: np.ndarray  # (s,)
    steps: np.ndarray  # (s,)


def recurrence(problem, rates):
    """Recurrence of one unit's problem.

    Parameters
    ----------
    problem : AugmentedProblem
        Of one unit, not a stack.
    rates : Rates

    Returns
    -------
    Recurrence
    """
    p, q, d = len(problem.transition), problem.n_local, problem.n_outputs
    lift = block_diag(np.kron(np.eye(d), problem.transition), np.eye(p * (q - d)))
    client = np.kron(problem.moments[:q, :q], problem.gram)
    inside = problem.in_penalty
    weights = problem.moments + float(problem.xi) * problem.moments * np.outer(inside, inside)
    joint = np.kron(weights, np.eye(p))
    # Delta = [vec W; vec T], E = [lift T, -W]
    n_T, n_W = p * q, p * problem.n_drivers
    to_E = np.zeros((n_T + n_W, n_W + n_T))
    to_E[:n_T, n_W:] = lift
    to_E[n_T:, :n_W] = -np.eye(n_W)
    server = 2 * to_E.T @ joint @ to_E
    own = np.zeros_like(server)
    own[n_W:, n_W:] = 2 * lift.T @ client @ lift
    client_step = np.concatenate([np.zeros(n_W), np.repeat(rates.client.ravel(), p)])
    server_step = np.concatenate([np.repeat(rates.blocks.ravel(), p), np.repeat(rates.server.ravel(), p)])
    ridge = 2 * rates.ridge * np.concatenate([server_step[:n_W], client_step[n_W:]])
    H = np.eye(n_W + n_T) - server_step[:, None] * server - client_step[:, None] * own - np.diag(ridge)
    pull = np.concatenate([np.zeros(n_W), 2 * lift.T @ problem.target.ravel(order="F")])
    return Recurrence(H, client_step * pull, server_step)


def from_delta(problem, delta):
    """``[theta, phi]``, (p, q), and W, (p, k), of a vector Delta, (s,)."""
    p, k = len(problem.transition), problem.n_drivers
    blocks = delta[: p * k].reshape((p, k), order="F")
    return delta[p * k :].reshape((p, problem.n_local), order="F"), blocks


def fixed_point(recurrence, start=None):
    """Limit of the iteration from a starting point, ``(I - H)^-1 J`` where that exists.

    Where ``I - H`` is singular the limit depends on the start: ``start + (I - H)^# (J - (I - H) start)`` with
    the group inverse ``#``. For descent on one objective it is the solution closest to the start in the
    metric of the step sizes.

    Parameters
    ----------
    recurrence : Recurrence
    start : ndarray of shape (s,), default=None
        None stands for zero.

    Returns
    -------
    ndarray of shape (s,)

    Raises
    ------
    ValueError
        If the iteration has no limit because a direction that does not move is driven.
    """
    B = np.eye(len(recurrence.H)) - recurrence.H
    start = np.zeros(len(B)) if start is None else start
    step, has_limit = group_solution(B, recurrence.J - B @ start)
    if not has_limit:
        raise ValueError("Training has no fixed point: a direction in which the losses are flat is driven without end.")
    return start + step


def group_solution(B, drive):
    """``B^# drive`` with the group inverse, of a vector or columns (s, ...), and whether it solves ``B x = drive``."""
    if np.linalg.cond(B, 1) < _WELL_POSED:
        return np.linalg.solve(B, drive), True
    left, values, right = np.linalg.svd(B)
    rank = int(np.count_nonzero(values > _RANK * values[0]))
    F, G = left[:, :rank] * values[:rank], right[:rank]
    core = G @ F
    step = F @ np.linalg.solve(core, np.linalg.lstsq(core, G @ drive, rcond=None)[0])
    return step, bool(np.linalg.norm(B @ step - drive) <= 1e-6 * np.linalg.norm(drive))
