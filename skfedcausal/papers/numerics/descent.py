"""Steps of gradient training: their sizes, what they take off, when to stop.

The augmented Lagrangian of the constraint ``D = 0`` has a step that is implicit in it. The constraint says of every
time step that what a unit corrects, ``A_mm theta y``, is what the server gives to the other units' states, ``sum_n
A_mn h_n``. The augmented Lagrangian adds ``lambda[t]' D[t] + rho / 2 |D[t]|^2`` with multipliers that rise by ``rho
D[t]`` each round. Its curvature, large where rho is, is what makes explicit steps unstable; so each side divides its
step by one plus step size times the curvature of the constraint (an implicit-explicit scheme). Both sides move at
once: each counts that curvature twice, which is the proximal weight that makes simultaneous moves of two blocks
converge [1]_. A round sends the same messages as one of the penalty method. Multipliers that start at zero are linear
functions of ``[y; h]``, so that on moments they are one matrix.

References
----------
.. [1] Deng, Lai, Peng, Yin (2017), Parallel multi-block ADMM with o(1/k) convergence, J. Sci. Comput. 71.
"""

from dataclasses import dataclass

import numpy as np

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
