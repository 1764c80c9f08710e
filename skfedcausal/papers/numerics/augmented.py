"""The training problem of one unit's augmented model against the server's model, as a quadratic.

A unit corrects its own one-step prediction by ``e[t] = A_mm theta y[t-1] + phi``; the server explains that
correction by the other units' states and inputs, ``W v[t-1]``, ``W = [A_m1 ... A_mM, B_m1 ... B_mM]`` without
the unit's own blocks. With ``c[t]`` the error of the unit's own prediction of its measurements,

    client loss   L_m = mean |c - C e|^2
    server loss   L_s = mean |W v - e|^2
    penalty       D   = mean |A_mm theta y - sum_n A_mn h_n|^2        (weight xi in the server's objective)

All three are quadratics in the joint matrix ``E = [A_mm theta, phi, -W]`` acting on ``[y; 1; v]``, so one
matrix of second moments is all that training needs. The losses couple no two units: unit m's corrections and
the server's block row m are a problem of their own. Functions take one problem or a stack of them (leading
axes).
"""

from dataclasses import dataclass

import numpy as np


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
