"""Gradient training of units and server together, on second moments or over a pooled record."""

from dataclasses import dataclass

import numpy as np

from ..papers.numerics.descent import (
    Losses,
    Products,
    block_divisor,
    correction_divisor,
    correction_step,
    divergence_limit,
    gradients,
    is_still,
    losses,
    parameter_update,
    risen,
)


@dataclass(frozen=True)
class Descent:
    """Where training ended."""

    parameters: np.ndarray  # (..., p, q)
    blocks: np.ndarray  # (..., p, k)
    history: Losses
    n_iter: int
    converged: bool
    diverged: bool


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
        :class:`LagrangianSteps`.

    Returns
    -------
    Descent
    """
    history: list[Losses] = []
    limit, converged, diverged = np.inf, False, False
    plain = GradientSteps(problem, rates)
    warm, n_warm = plain, 0
    if warm_up is not None:
        warm, n_warm = LagrangianSteps(problem, warm_up.rates), warm_up.n_rounds
    while len(history) < max_iter and not (converged or diverged):
        at = Products.at(problem, parameters, blocks)
        now = losses(problem, at)
        history.append(now)
        size = now.client.sum() + now.server.sum()
        if len(history) == 1:
            limit = divergence_limit(size)
        diverged = not size <= limit
        if not diverged:
            is_warm = len(history) <= n_warm
            step, turn = (warm if is_warm else plain).at(at, parameters, blocks)
            parameters, blocks = parameters - step, blocks - turn
            may_end = tol > 0 and not (is_warm and n_warm < max_iter)
            converged = may_end and is_still(step, parameters, tol) and is_still(turn, blocks, tol)
    stacked = (np.array([getattr(one, part) for one in history]) for part in ("client", "server", "penalty"))
    return Descent(parameters, blocks, Losses(*stacked), len(history), converged, diverged)


class GradientSteps:
    """What a round of gradient descent takes off parameters and blocks."""

    dual = None  # multipliers, which other ways of training have

    def __init__(self, problem, rates):
        self._problem, self._rates = problem, rates

    def at(self, products, parameters, blocks):
        """Steps of ``[theta, phi]`` and of the blocks at a point given with its :class:`Products`."""
        slope = gradients(self._problem, products, self.dual)
        step = parameter_update(self._rates, slope.client, slope.server, parameters)
        return step, block_update(self._rates, slope.blocks, blocks)


def block_update(rates, slope, blocks):
    """What a round takes off the server's blocks."""
    turn = rates.blocks * slope
    return turn + rates.blocks * (2 * rates.ridge * blocks) if rates.ridge else turn


class LagrangianSteps(GradientSteps):
    """What a round of the augmented Lagrangian takes off parameters and blocks of a problem or a stack.

    Attributes
    ----------
    dual : ndarray of shape (..., p, q + k) or None
        Multipliers as a matrix on ``[y; 1; v]``; None before the first round.
    """

    def __init__(self, problem, rates):
        super().__init__(problem, rates)
        d, q, k = problem.n_outputs, problem.n_local, problem.n_states
        xi = np.asarray(problem.xi, dtype=float)[..., None, None]
        self._theta, self._states = slice(0, d), slice(0, k)
        y, h = problem.moments[..., :d, :d], problem.moments[..., q : q + k, q : q + k]
        self._divide_theta = correction_divisor(problem.transition, y, rates.server[..., :1], xi)
        self._divide_blocks = block_divisor(h, rates.blocks[..., :1], xi, problem.transition.shape[-1])

    def at(self, products, parameters, blocks):
        """Steps at a point; raises the multipliers first, but for the first point."""
        first = self.dual is None
        self.dual = np.zeros_like(products.E) if first else self.dual + risen(self._problem, products.E)
        step, turn = super().at(products, parameters, blocks)
        step[..., self._theta] = self._divide_theta(step[..., self._theta])
        turn[..., self._states] = self._divide_blocks(turn[..., self._states])
        return step, turn


def descend_step(A, C, rates, parameters, blocks, *, y, v, c, constant=False):
    """One step of the per-step algorithm of both sides, without penalty."""
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
    point, total = (parameters, blocks), np.zeros(2)
    for y, v, c in zip(measurements, drivers, residuals, strict=True):
        *point, own, server = descend_step(A, C, rates, *point, y=y, v=v, c=c, constant=constant)
        total += own, server
    return *point, *(total / len(measurements)).tolist()
