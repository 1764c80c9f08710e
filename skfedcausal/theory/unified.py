"""Training as one linear recurrence ``Delta <- H Delta + J``, its fixed point and its rate of convergence.

Theorem 5.4 of the first paper, rebuilt from the update equations (its eq. 17 and 24), since the printed
matrices have slips: F swaps eta1 and eta2, J lacks the factor ``2 eta1`` and pairs a residual at t - 1 with a
measurement at t - 1 where the loss pairs t with t - 1, ``P_mm`` lacks ``(x) I``, and eq. 31 and 32 have signs
reversed. ``Delta`` holds the blocks of one row of the server's matrix, column by column, then ``theta`` (and
``phi``) of the same unit; different units' recurrences do not touch each other.

With the moments of a single pair of time steps the matrices are those of one step of the per-step algorithm:
these moments have rank one, so most eigenvalues of that H are exactly one. Convergence is a property of H
averaged over time, which is what the moments of a whole record give.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import block_diag

from ..statespace.training.augmented import Products

_RANK = 1e-12  # relative size of singular values that count as zero
_WELL_POSED = 1e10  # condition number up to which a plain solve is used


@dataclass(frozen=True)
class Recurrence:
    """``Delta <- H Delta + J`` of one unit.

    Attributes
    ----------
    H : ndarray of shape (s, s)
    J : ndarray of shape (s,)
    steps : ndarray of shape (s,)
        Step size of each element of Delta, those of the server's objective; zero where it does not move.
    """

    H: np.ndarray
    J: np.ndarray
    steps: np.ndarray


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


def to_delta(parameters, blocks):
    """``Delta = [vec W; vec [theta, phi]]``, columns below each other."""
    return np.concatenate([blocks.ravel(order="F"), parameters.ravel(order="F")])


def from_delta(problem, delta):
    """``[theta, phi]`` and W of a vector Delta."""
    p, k = len(problem.transition), problem.n_drivers
    blocks = delta[: p * k].reshape((p, k), order="F")
    return delta[p * k :].reshape((p, problem.n_local), order="F"), blocks


def spectral_radius(H):
    """Largest absolute eigenvalue; training converges from every start if and only if it is below one."""
    return float(np.abs(np.linalg.eigvals(H)).max())


def after_rounds(recurrence, delta, n_rounds):
    """Delta after a number of rounds, by repeated squaring of H."""
    H, J = recurrence.H, recurrence.J
    size = len(H)
    power = np.eye(size + 1)
    step = np.zeros((size + 1, size + 1))
    step[:size, :size], step[:size, size], step[size, size] = H, J, 1.0
    n = int(n_rounds)
    while n:
        if n & 1:
            power = step @ power
        step = step @ step
        n >>= 1
    return power[:size, :size] @ delta + power[:size, size]


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
    drive = recurrence.J - B @ start
    if np.linalg.cond(B, 1) < _WELL_POSED:
        return start + np.linalg.solve(B, drive)
    left, values, right = np.linalg.svd(B)
    rank = int(np.count_nonzero(values > _RANK * values[0]))
    F, G = left[:, :rank] * values[:rank], right[:rank]
    core = G @ F
    middle = np.linalg.solve(core, np.linalg.lstsq(core, G @ drive, rcond=None)[0])
    step = F @ middle
    if np.linalg.norm(B @ step - drive) > 1e-6 * np.linalg.norm(drive):
        raise ValueError(
            "Training has no fixed point: a direction in which the losses are flat is driven without end."
        )
    return start + step


def rate_conditions(recurrence):
    """Conditions of Theorems 5.6 and 5.7 on ``I - H``.

    Norms are taken in the metric of the step sizes, in which descent on one objective has a symmetric
    ``I - H`` whose eigenvalues lie between mu and L times the step.

    Returns
    -------
    dict
        ``spectral_radius``; ``norm`` of ``I - H``; ``strong_convexity`` mu and ``smoothness`` L, smallest and
        largest eigenvalue; ``sublinear``, whether ``norm <= 1`` (Theorem 5.6); ``linear``, whether mu > 0 and
        ``norm <= 2 L / (mu + L)`` (Theorem 5.7); ``rounds``, number
        of rounds for one more decimal digit; ``largest_factor``, by which all step sizes may be multiplied
        before training stops converging.
    """
    B = np.eye(len(recurrence.H)) - recurrence.H
    root = np.sqrt(np.where(recurrence.steps > 0, recurrence.steps, 1.0))
    scaled = B / root[:, None] * root[None, :]
    norm = float(np.linalg.norm(scaled, 2))
    values = np.linalg.eigvals(scaled)
    mu, top = float(values.real.min()), float(values.real.max())
    radius = spectral_radius(recurrence.H)
    convex = mu > _RANK * top
    return {
        "spectral_radius": radius,
        "norm": norm,
        "strong_convexity": mu,
        "smoothness": top,
        "sublinear": norm <= 1.0,
        "linear": bool(convex and norm <= 2 * top / (mu + top)),
        "rounds": float(np.log(10) / -np.log(radius)) if 0 < radius < 1 else np.inf,
        "largest_factor": _largest_factor(values),
    }


def _largest_factor(values):
    """Largest factor of all step sizes with which ``|1 - factor * value| <= 1`` for all eigenvalues."""
    moving = values[np.abs(values) > _RANK * np.abs(values).max()]
    return float((2 * moving.real / np.abs(moving) ** 2).min())


def codependence(recurrence, problem):
    """How much one round of each side depends on the other's last value (Theorem 5.1).

    Returns
    -------
    dict
        ``client_on_server`` and ``server_on_client``: norms of the off-diagonal blocks of H.
    """
    n_W = len(problem.transition) * problem.n_drivers
    return {
        "client_on_server": float(np.linalg.norm(recurrence.H[n_W:, :n_W], 2)),
        "server_on_client": float(np.linalg.norm(recurrence.H[:n_W, n_W:], 2)),
    }


def normal_equations(problem, parameters, blocks):
    """What is left of the stationarity conditions, largest absolute elements relative to their terms.

    Returns
    -------
    dict
        ``server``: ``mean (W v - e) v'``, which every fixed point makes zero; ``client``: ``mean C' r_a [y;
        1]'`` of the client's own residual, zero only where the server does not pull (the paper's eq. 25 and
        Lemma 8.2 of the second paper claim it of every fixed point).
    """
    at = Products.at(problem, parameters, blocks)
    q = problem.n_local
    server, client = at.server[:, q:], problem.target - at.client
    scale = np.abs(blocks @ problem.moments[q:, q:]).max() + np.finfo(float).tiny
    return {
        "server": float(np.abs(server).max() / scale),
        "client": float(np.abs(client).max() / np.abs(problem.target).max()),
    }
