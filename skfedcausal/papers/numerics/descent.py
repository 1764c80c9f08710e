"""Gradient training on plain arrays: its quadratic problem, steps, fixed point, and errors of where it ends."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag

# Steps of gradient training: their sizes, what they take off, when to stop.
#
# The augmented Lagrangian of the constraint ``D = 0`` has a step that is implicit in it. The constraint says of every
# time step that what a unit corrects, ``A_mm theta y``, is what the server gives to the other units' states, ``sum_n
# A_mn h_n``. The augmented Lagrangian adds ``lambda[t]' D[t] + rho / 2 |D[t]|^2`` with multipliers that rise by ``rho
# D[t]`` each round. Its curvature, large where rho is, is what makes explicit steps unstable; so each side divides its
# step by one plus step size times the curvature of the constraint (an implicit-explicit scheme). Both sides move at
# once: each counts that curvature twice, which is the proximal weight that makes simultaneous moves of two blocks
# converge [1]_. A round sends the same messages as one of the penalty method. Multipliers that start at zero are linear
# functions of ``[y; h]``, so that on moments they are one matrix.
#
# References
# ----------
# .. [1] Deng, Lai, Peng, Yin (2017), Parallel multi-block ADMM with o(1/k) convergence, J. Sci. Comput. 71.

SAFETY = 0.95  # part of the largest step size that is sure to converge
DIVERGED = 1e8  # growth of a loss over its largest value at the start that no convergent run shows


@dataclass(frozen=True)
class Rates:
    """Step sizes, one per column of the parameters they update.

    Attributes
    ----------
    client : ndarray of shape (..., 1, q)
        Of the client loss: eta1 for theta, gamma1 for phi.
    server : ndarray of shape (..., 1, q)
        Of the server's objective in ``[theta, phi]``: eta2 and gamma2.
    blocks : ndarray of shape (..., 1, k)
        Of the server's objective in W: gamma of the first paper, alpha_A and alpha_B of the second.
    ridge : float
        Weight of ``|[theta, phi]|^2`` in the client loss and of ``|W|^2`` in the server's objective.
    """

    client: np.ndarray
    server: np.ndarray
    blocks: np.ndarray
    ridge: float = 0.0

    @classmethod
    def constant(cls, problem, client, server, blocks, ridge=0.0):
        """The same step size for all columns."""
        q, k = problem.n_local, problem.n_drivers
        return cls(np.full((1, q), client), np.full((1, q), server), np.full((1, k), blocks), ridge)


def correction_curvature(A, gram, top):
    """Largest second derivatives of client and server loss in theta, from A and ``C' C``, both (p, p)."""
    client = np.linalg.eigvalsh(A.T @ gram @ A)[-1]
    server = np.linalg.eigvalsh(A.T @ A)[-1]
    return 2 * top * client, 2 * top * server


def safe_step(curvature, n_blocks=2):
    """Step size of one of `n_blocks` groups of parameters with which joint descent is sure to converge.

    The joint second derivative in the metric of the step sizes is at most the sum over groups of step size
    times curvature of the group (the norm of a positive semidefinite matrix is at most the sum of those of
    its diagonal blocks); descent converges while it is below two.
    """
    return SAFETY * 2 / (n_blocks * curvature) if curvature > 0 else 1.0


def parameter_update(rates, client, server, parameters):
    """What a round takes off ``[theta, phi]``, given the derivatives of both losses; all (..., p, q)."""
    step = rates.client * client + rates.server * server
    return step + rates.client * (2 * rates.ridge * parameters) if rates.ridge else step


def is_still(step, value, tol):
    """Whether no element moved by more than `tol` times the largest element."""
    return bool(np.abs(step).max(initial=0.0) <= tol * np.abs(value).max(initial=0.0))


def divergence_limit(first):
    """Loss beyond which training has diverged, from the loss it started with."""
    return DIVERGED * first + np.finfo(float).tiny


def correction_step(A, C, rates, parameters, *, y, c, pull, pull_past=None, constant=False):
    """A unit's parameters after one step of the per-step algorithm, shape (p, q)."""
    d = len(y)
    e = A @ (parameters[:, :d] @ y)
    if constant:
        e = e + parameters[:, d]
    own = -2 * (C.T @ (c - C @ e))
    past = A.T @ pull if pull_past is None else A.T @ pull + pull_past
    client, server = np.empty_like(parameters), np.empty_like(parameters)
    np.outer(A.T @ own, y, out=client[:, :d])
    np.outer(past, y, out=server[:, :d])
    if constant:
        client[:, d], server[:, d] = own, pull
    return parameters - parameter_update(rates, client, server, parameters)


N_SIDES = 2  # groups of parameters that the constraint joins: theta and the server's blocks


class ImplicitStep:
    """Solves ``x + weight left x right = step`` for x."""

    def __init__(self, left, right, weight):
        rows, self._U = np.linalg.eigh(left)
        columns, self._V = np.linalg.eigh(right)
        self._divisor = 1 + weight * rows.clip(0)[..., :, None] * columns.clip(0)[..., None, :]

    def __call__(self, step):
        """The step divided, shape (..., p, d)."""
        inner = np.swapaxes(self._U, -1, -2) @ step @ self._V
        return self._U @ (inner / self._divisor) @ np.swapaxes(self._V, -1, -2)


def correction_divisor(transition, moments, rate, xi):
    """Division of steps in theta, (..., p, d), by one plus the curvature of the constraint."""
    gram = np.swapaxes(transition, -1, -2) @ transition
    return ImplicitStep(gram, moments, 2 * N_SIDES * rate * xi)


def block_divisor(moments, rate, xi, n_rows):
    """The same of steps in ``A_mn``, (..., p, k); `moments` (..., k, k) are those of the other units' states."""
    return ImplicitStep(np.eye(n_rows), moments, 2 * N_SIDES * rate * xi)


@dataclass(frozen=True)
class WarmUp:
    """First rounds of training, by the augmented Lagrangian.

    Attributes
    ----------
    n_rounds : int
    rates : Rates
        Step sizes meanwhile, those of a problem without penalty; one for all columns of theta and one for
        all ``A_mn``.
    """

    n_rounds: int
    rates: Rates


def risen(problem, E):
    """What a round adds to the multipliers, as a matrix (..., p, q + k) on ``[y; 1; v]``: rho D."""
    return 2 * np.asarray(problem.xi, dtype=float)[..., None, None] * E * problem.in_penalty


# The training problem of one unit's augmented model against the server's model, as a quadratic.
#
# A unit corrects its own one-step prediction by ``e[t] = A_mm theta y[t-1] + phi``; the server explains that
# correction by the other units' states and inputs, ``W v[t-1]``, ``W = [A_m1 ... A_mM, B_m1 ... B_mM]`` without
# the unit's own blocks. With ``c[t]`` the error of the unit's own prediction of its measurements,
#
#     client loss   L_m = mean |c - C e|^2
#     server loss   L_s = mean |W v - e|^2
#     penalty       D   = mean |A_mm theta y - sum_n A_mn h_n|^2        (weight xi in the server's objective)
#
# All three are quadratics in the joint matrix ``E = [A_mm theta, phi, -W]`` acting on ``[y; 1; v]``, so one
# matrix of second moments is all that training needs. The losses couple no two units: unit m's corrections and
# the server's block row m are a problem of their own. Functions take one problem or a stack of them (leading
# axes).


@dataclass(frozen=True)
class AugmentedProblem:
    """Second moments over the pairs ``(t - 1, t)`` of a record, of one unit or of several stacked."""

    transition: np.ndarray  # (..., p, p)
    gram: np.ndarray  # (..., p, p)
    moments: np.ndarray  # (..., q + k, q + k)
    target: np.ndarray  # (..., p, q)
    energy: np.ndarray  # (...)
    n_outputs: int
    n_local: int
    n_states: int
    xi: float | np.ndarray = 0.0  # (...)

    @property
    def n_drivers(self):
        """Number k of driving variables."""
        return self.moments.shape[-1] - self.n_local

    @property
    def in_penalty(self):
        """Which columns of E the penalty looks at: not phi, not the input blocks. Shape (q + k,)."""
        columns = np.zeros(self.moments.shape[-1], dtype=bool)
        columns[: self.n_outputs] = True
        columns[self.n_local : self.n_local + self.n_states] = True
        return columns


@dataclass(frozen=True)
class Losses:
    """Client loss, server loss (without penalty) and penalty, of one problem or of each of a stack."""

    client: np.ndarray
    server: np.ndarray
    penalty: np.ndarray


@dataclass(frozen=True)
class Gradients:
    """Derivatives of the losses."""

    client: np.ndarray  # (..., p, q)
    server: np.ndarray  # (..., p, q)
    blocks: np.ndarray  # (..., p, k)


def augmented_problem(A, C, measurements, drivers, residuals, *, n_inputs=0, constant=False, xi=0.0):
    """Problem of one unit from its series over pairs of successive rows.

    Parameters
    ----------
    A : ndarray of shape (p, p)
    C : ndarray of shape (d, p)
    measurements : ndarray of shape (n_pairs, d)
        y[t-1].
    drivers : ndarray of shape (n_pairs, k)
        Other units' filtered states, then their inputs, at t - 1.
    residuals : ndarray of shape (n_pairs, d)
        ``y[t] - C (A h[t-1] + B u[t-1])``.
    n_inputs : int, default=0
        How many of the drivers are inputs.
    constant : bool, default=False
        Whether the correction has a constant phi.
    xi : float, default=0.0

    Returns
    -------
    AugmentedProblem
    """
    n, d = measurements.shape
    parts = [measurements, np.ones((n, 1)), drivers] if constant else [measurements, drivers]
    S = np.hstack(parts)
    q = d + constant
    return AugmentedProblem(
        transition=A,
        gram=C.T @ C,
        moments=S.T @ S / n,
        target=C.T @ (residuals.T @ S[:, :q]) / n,
        energy=np.asarray(np.einsum("ti,ti->", residuals, residuals) / n),
        n_outputs=d,
        n_local=q,
        n_states=drivers.shape[1] - n_inputs,
        xi=xi,
    )


def correction(problem, parameters):
    """``[A_mm theta, phi]`` of the parameters ``[theta, phi]``, shape (..., p, q)."""
    return _times_transition(problem, problem.transition, parameters)


def _times_transition(problem, matrix, parameters):
    """The given matrix (..., p, p) times the columns of theta, the column of phi as it is, (..., p, q)."""
    product = matrix @ parameters
    d = problem.n_outputs
    if problem.n_local > d:
        product[..., d:] = parameters[..., d:]
    return product


@dataclass(frozen=True)
class Products:
    """What losses and derivatives are made of, at one point."""

    E: np.ndarray  # (..., p, q + k)
    server: np.ndarray  # (..., p, q + k)
    client: np.ndarray  # (..., p, q)

    @classmethod
    def at(cls, problem, parameters, blocks):
        """Products at given parameters ``[theta, phi]``, (..., p, q), and blocks W, (..., p, k)."""
        E = np.concatenate([correction(problem, parameters), -blocks], axis=-1)  # [A_mm theta, phi, -W]
        q = problem.n_local
        return cls(E, E @ problem.moments, problem.gram @ (E[..., :q] @ problem.moments[..., :q, :q]))


def losses(problem, at):
    """Losses (...) at a point given by its :class:`Products`."""
    client = problem.energy + ((at.client - 2 * problem.target) * at.E[..., : problem.n_local]).sum((-2, -1))
    server = (at.server * at.E).sum((-2, -1))
    if problem.n_local == problem.n_outputs and problem.n_drivers == problem.n_states:  # D is the residual
        return Losses(client, server, server)
    masked = at.E * problem.in_penalty
    return Losses(client, server, ((masked @ problem.moments) * masked).sum((-2, -1)))


def gradients(problem, at, dual=None):
    """Derivatives of the losses at a point.

    Parameters
    ----------
    problem : AugmentedProblem
    at : Products
    dual : ndarray of shape (..., p, q + k), default=None
        Multipliers of the constraint D = 0 as a matrix acting on ``[y; 1; v]``; multipliers that start at
        zero and move along D are always of that form. They add ``<dual, E>`` in the moments' metric to the
        server's objective (the augmented Lagrangian with weight xi = rho / 2).

    Returns
    -------
    Gradients
    """
    pull = 2 * at.server
    if dual is not None or np.any(problem.xi):
        masked = 2 * np.asarray(problem.xi, dtype=float)[..., None, None] * at.E
        masked = masked if dual is None else masked + dual
        inside = problem.in_penalty
        pull += ((masked * inside) @ problem.moments) * inside
    q, client = problem.n_local, lowered(problem, 2 * (at.client - problem.target))
    return Gradients(client, lowered(problem, pull[..., :q]), -pull[..., q:])


def lowered(problem, pull):
    """Derivative in ``[theta, phi]`` of something with derivative `pull` in ``[A_mm theta, phi]``, (..., p, q)."""
    return _times_transition(problem, np.swapaxes(problem.transition, -1, -2), pull)


# Training of one unit as a linear recurrence ``Delta <- H Delta + J``, and where it ends.
#
# Theorem 5.4 of the first paper, rebuilt from the update equations (its eq. 17 and 24), since the printed
# matrices have slips: F swaps eta1 and eta2, J lacks the factor ``2 eta1`` and pairs a residual at t - 1 with a
# measurement at t - 1 where the loss pairs t with t - 1, ``P_mm`` lacks ``(x) I``, and eq. 31 and 32 have signs
# reversed. ``Delta`` holds the blocks of one row of the server's matrix, column by column, then ``theta`` (and
# ``phi``) of the same unit; different units' recurrences do not touch each other.

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


# How far the outcome of training is moved by what a record happens to hold: the recurrence, differentiated.
#
# After k rounds ``Delta^k = H Delta^(k-1) + J`` is a function of the second moments of the record. Those of a stretch
# of it, beside those of the whole, change H and J by ``dH`` and ``dJ``, and the outcome to first order by
#
#     d^k = H d^(k-1) + dH Delta^(k-1) + dJ,       at the limit  (I - H) d = dH Delta + dJ,
#
# in which ``dH Delta + dJ`` is the step that the stretch alone would take less that of the whole. Stretches that are
# longer than the memory of the plant are nearly independent, so that the sum of products ``d d'`` over them estimates
# the covariance of Delta whatever the noise is like: a delta method through the exact map, by batch means [1]_.
#
# References
# ----------
# .. [1] Carlstein (1986), The use of subseries values for estimating the variance of a general statistic from a
#        stationary sequence, Annals of Statistics 14.

_FEWEST, _MOST = 20, 100  # stretches
ENOUGH_ROWS = 10 * _FEWEST  # for stretches longer than the memory of a plant


class Stretches(NamedTuple):
    """Problems of successive stretches of a record, stacked, and the share of its rows that each has, (B,)."""

    problems: AugmentedProblem
    shares: np.ndarray


def stretches(problem_of, n_rows):
    """:class:`Stretches` of a record, given its problem as a function of rows; None if it is too short for any.

    Parameters
    ----------
    problem_of : callable
        ``problem_of(rows)`` is the :class:`AugmentedProblem` of a slice of rows.
    n_rows : int

    Returns
    -------
    Stretches or None
    """
    if n_rows < ENOUGH_ROWS:
        return None
    number = int(np.clip(np.sqrt(n_rows), _FEWEST, _MOST))
    ends = np.linspace(0, n_rows, number + 1).astype(int)
    problems = [problem_of(slice(a, b)) for a, b in zip(ends[:-1], ends[1:], strict=True)]
    stacked = {name: np.stack([getattr(one, name) for one in problems]) for name in ("moments", "target", "energy")}
    return Stretches(replace(problems[0], **stacked), np.diff(ends) / n_rows)


def step(problem, rates, delta):
    """What a round adds to a vector Delta (s,), of each problem of a stack: (B, s)."""
    parameters, blocks = from_delta(problem, delta)
    slope = gradients(problem, Products.at(problem, parameters, blocks))
    turn = rates.blocks * (slope.blocks + 2 * rates.ridge * blocks)
    parts = turn, parameter_update(rates, slope.client, slope.server, parameters)
    return -np.concatenate([np.swapaxes(part, -1, -2).reshape(len(part), -1) for part in parts], axis=1)


def influences(parts, problem, rates, n_rounds=None):
    """What every stretch of a record adds to the outcome of training that starts from zero.

    Parameters
    ----------
    parts : Stretches
    problem : AugmentedProblem
        Of the whole record.
    rates : Rates
    n_rounds : int, default=None
        None stands for the limit.

    Returns
    -------
    ndarray of shape (B, s)
        To first order; sums to zero. NaN where training has directions that no whole record moves.
    """
    rounds = recurrence(problem, rates)

    def pushed(delta):
        own = step(parts.problems, rates, delta)
        return parts.shares[:, None] * (own - parts.shares @ own)

    if n_rounds is None:
        moved, has_limit = group_solution(np.eye(len(rounds.H)) - rounds.H, pushed(fixed_point(rounds)).T)
        return moved.T if has_limit else np.full_like(moved.T, np.nan)
    delta = np.zeros_like(rounds.J)
    moved = np.zeros((len(parts.shares), len(delta)))
    for _ in range(n_rounds):
        moved = moved @ rounds.H.T + pushed(delta)
        delta = rounds.H @ delta + rounds.J
    return moved


def covariance(moved):
    """Covariance (..., s, s) of what has influences (B, ..., s)."""
    return np.einsum("b...i,b...j->...ij", moved, moved) * len(moved) / (len(moved) - 1)
