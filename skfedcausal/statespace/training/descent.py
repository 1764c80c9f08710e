"""Training of the augmented models and the server's blocks by gradient descent, per round or per step."""

from dataclasses import dataclass

import numpy as np

from .augmented import Losses, Products, gradients, losses

SAFETY = 0.95  # part of the largest step size that is sure to converge
DIVERGED = 1e8  # growth of a loss over its largest value at the start that no convergent run shows


@dataclass(frozen=True)
class Rates:
    """Step sizes, one per column of the parameters they move.

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


@dataclass(frozen=True)
class Descent:
    """Where training ended.

    Attributes
    ----------
    parameters : ndarray of shape (..., p, q)
    blocks : ndarray of shape (..., p, k)
    history : Losses
        Arrays of shape (n_iter, ...): the losses at which every round began.
    n_iter : int
    converged, diverged : bool
    """

    parameters: np.ndarray
    blocks: np.ndarray
    history: Losses
    n_iter: int
    converged: bool
    diverged: bool


def correction_curvature(A, gram, top):
    """Largest second derivatives of client and server loss in theta.

    Parameters
    ----------
    A, gram : ndarray of shape (p, p)
        A_mm and ``C' C``.
    top : float
        Largest eigenvalue of the measurements' second moments; for steps on single rows the largest
        squared norm of a row.
    """
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


def descend(problem, rates, parameters, blocks, *, max_iter, tol=0.0, warm_up=None):
    """Batch rounds on second moments: no pass over the data.

    Parameters
    ----------
    problem : AugmentedProblem
        One or a stack.
    rates : Rates
    parameters, blocks : ndarray
        Starting point.
    max_iter : int
    tol : float, default=0.0
        Stop when no element moved by more than `tol` times the largest element in a round.
    warm_up : WarmUp, default=None
        First rounds by the augmented Lagrangian, see
        :class:`~skfedcausal.statespace.training.lagrangian.LagrangianSteps`.

    Returns
    -------
    Descent
    """
    history, limit, converged, diverged = [], np.inf, False, False
    plain = GradientSteps(problem, rates)
    warm = None if warm_up is None else warm_up.steps(problem)
    while len(history) < max_iter and not (converged or diverged):
        at = Products.at(problem, parameters, blocks)
        now = losses(problem, at)
        history.append(now)
        size = now.client.sum() + now.server.sum()
        if len(history) == 1:
            limit = divergence_limit(size)
        diverged = not size <= limit
        if not diverged:
            is_warm = warm is not None and len(history) <= warm_up.n_rounds
            step, turn = (warm if is_warm else plain).at(at, parameters, blocks)
            parameters, blocks = parameters - step, blocks - turn
            may_end = tol > 0 and not (is_warm and warm_up.n_rounds < max_iter)
            converged = may_end and is_still(step, parameters, tol) and is_still(turn, blocks, tol)
    return Descent(parameters, blocks, _stacked(history), len(history), converged, diverged)


class GradientSteps:
    """What a round of gradient descent takes off parameters and blocks."""

    def __init__(self, problem, rates):
        self._problem, self._rates = problem, rates

    def at(self, products, parameters, blocks):
        """Steps of ``[theta, phi]`` and of the blocks at a point given with its :class:`Products`."""
        return self._steps(gradients(self._problem, products), parameters, blocks)

    def _steps(self, slope, parameters, blocks):
        step = parameter_update(self._rates, slope.client, slope.server, parameters)
        return step, block_update(self._rates, slope.blocks, blocks)


def parameter_update(rates, client, server, parameters):
    """What a round takes off ``[theta, phi]``, given the derivatives of both losses."""
    step = rates.client * client + rates.server * server
    return step + rates.client * (2 * rates.ridge * parameters) if rates.ridge else step


def block_update(rates, slope, blocks):
    """What a round takes off the server's blocks."""
    turn = rates.blocks * slope
    return turn + rates.blocks * (2 * rates.ridge * blocks) if rates.ridge else turn


def is_still(step, value, tol):
    """Whether no element moved by more than `tol` times the largest element."""
    return bool(np.abs(step).max(initial=0.0) <= tol * np.abs(value).max(initial=0.0))


def divergence_limit(first):
    """Loss beyond which training has diverged, from the loss it started with."""
    return DIVERGED * first + np.finfo(float).tiny


def _stacked(history):
    parts = ("client", "server", "penalty")
    return Losses(*[np.array([getattr(one, part) for one in history]) for part in parts])


def correction_step(A, C, rates, parameters, *, y, c, pull, pull_past=None, constant=False):
    """A unit's parameters after one step of the per-step algorithm.

    Parameters
    ----------
    A : ndarray of shape (p, p)
    C : ndarray of shape (d, p)
    rates : Rates
    parameters : ndarray of shape (p, q)
    y, c : ndarray of shape (d,)
        Measurements at t - 1, error of the unit's own prediction at t.
    pull : ndarray of shape (p,)
        Derivative of the server's objective in ``h_a[t]``.
    pull_past : ndarray of shape (p,), default=None
        Derivative of its penalty in ``h_hat_a[t-1]``.
    constant : bool

    Returns
    -------
    ndarray of shape (p, q)
    """
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


def descend_step(A, C, rates, parameters, blocks, *, y, v, c, constant=False):
    """One step of the per-step algorithm of both sides, without penalty.

    Parameters
    ----------
    A, C, rates, parameters, y, c, constant
        As in :func:`correction_step`.
    blocks : ndarray of shape (p, k)
    v : ndarray of shape (k,)
        Driving variables at t - 1.

    Returns
    -------
    parameters, blocks : ndarray
    client_loss, server_loss : float
        Before the step.
    """
    d = len(y)
    e = A @ (parameters[:, :d] @ y)
    if constant:
        e = e + parameters[:, d]
    own, server = c - C @ e, blocks @ v - e
    moved = correction_step(A, C, rates, parameters, y=y, c=c, pull=-2 * server, constant=constant)
    turned = blocks - block_update(rates, 2 * np.outer(server, v), blocks)
    return moved, turned, float(own @ own), float(server @ server)


def descend_online(A, C, rates, parameters, blocks, *, measurements, drivers, residuals, constant=False):
    """One pass of the per-step algorithm over a record; see `descend_step`.

    Returns
    -------
    parameters, blocks : ndarray
    client_loss, server_loss : float
        Means over the pass, each step's before its update.
    """
    total = np.zeros(2)
    for y, v, c in zip(measurements, drivers, residuals, strict=True):
        parameters, blocks, *loss = descend_step(
            A, C, rates, parameters, blocks, y=y, v=v, c=c, constant=constant
        )
        total += loss
    return parameters, blocks, *(total / len(measurements)).tolist()
