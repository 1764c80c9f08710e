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
    """Second moments over the pairs ``(t - 1, t)`` of a record, of one unit or of several stacked.

    Attributes
    ----------
    transition : ndarray of shape (..., p, p)
        The unit's own block A_mm.
    gram : ndarray of shape (..., p, p)
        ``C' C``.
    moments : ndarray of shape (..., q + k, q + k)
        ``mean s s'`` of ``s = [y; 1; h_others; u_others]`` at t - 1.
    target : ndarray of shape (..., p, q)
        ``C' mean c[t] [y; 1]'``.
    energy : ndarray of shape (...)
        ``mean |c|^2``.
    n_outputs : int
        Length of y.
    n_local : int
        Length q of the unit's own regressors: `n_outputs`, one more with the constant phi.
    n_states : int
        Number of other units' states; the rest of the k driving variables are inputs.
    xi : float or ndarray of shape (...)
        Weight of the penalty.
    """

    transition: np.ndarray
    gram: np.ndarray
    moments: np.ndarray
    target: np.ndarray
    energy: np.ndarray
    n_outputs: int
    n_local: int
    n_states: int
    xi: float | np.ndarray = 0.0

    @property
    def n_drivers(self):
        """Number k of driving variables."""
        return self.moments.shape[-1] - self.n_local

    @property
    def has_plain_penalty(self):
        """Whether D is the server's residual: neither a constant nor inputs."""
        return self.n_local == self.n_outputs and self.n_drivers == self.n_states

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
    """Derivatives of the losses.

    Attributes
    ----------
    client : ndarray of shape (..., p, q)
        Of the client loss in ``[theta, phi]``.
    server : ndarray of shape (..., p, q)
        Of the server's objective in ``[theta, phi]``.
    blocks : ndarray of shape (..., p, k)
        Of the server's objective in W.
    """

    client: np.ndarray
    server: np.ndarray
    blocks: np.ndarray


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


def stack_problems(problems):
    """Problems of several units as one stack, padded with zeros where their sizes differ.

    Padded parameters that start at zero stay there: no loss depends on them.
    """
    p = max(one.transition.shape[0] for one in problems)
    d = max(one.n_outputs for one in problems)
    constant = problems[0].n_local - problems[0].n_outputs
    k_states = max(one.n_states for one in problems)
    k_inputs = max(one.n_drivers - one.n_states for one in problems)
    q = d + constant
    size = (len(problems), p, p)
    transition, gram = np.zeros(size), np.zeros(size)
    moments = np.zeros((len(problems), q + k_states + k_inputs, q + k_states + k_inputs))
    target = np.zeros((len(problems), p, q))
    for m, one in enumerate(problems):
        own, rows, cols = padded_places(one, d, k_states)
        transition[m, own, own] = one.transition
        gram[m, own, own] = one.gram
        moments[m][np.ix_(cols, cols)] = one.moments
        target[m][np.ix_(rows, cols[: one.n_local])] = one.target
    return AugmentedProblem(
        transition,
        gram,
        moments,
        target,
        np.array([one.energy for one in problems]),
        d,
        q,
        k_states,
        np.array([one.xi for one in problems], dtype=float),
    )


def padded_places(problem, n_outputs, n_states):
    """Where a problem's rows and columns lie in a stack padded to the given sizes."""
    p, q, k = len(problem.transition), problem.n_local, problem.n_drivers
    constant = q - problem.n_outputs
    cols = np.concatenate(
        [
            np.arange(problem.n_outputs),
            n_outputs + np.arange(constant),
            n_outputs + constant + np.arange(problem.n_states),
            n_outputs + constant + n_states + np.arange(k - problem.n_states),
        ]
    )
    return slice(0, p), np.arange(p), cols


def correction(problem, parameters):
    """``[A_mm theta, phi]`` of the parameters ``[theta, phi]``, shape (..., p, q)."""
    return _times_transition(problem, problem.transition, parameters)


def _times_transition(problem, matrix, parameters):
    """The given matrix times the columns of theta, the column of phi as it is."""
    product = matrix @ parameters
    d = problem.n_outputs
    if problem.n_local > d:
        product[..., d:] = parameters[..., d:]
    return product


def joint_matrix(problem, parameters, blocks):
    """``E = [A_mm theta, phi, -W]``, shape (..., p, q + k)."""
    return np.concatenate([correction(problem, parameters), -blocks], axis=-1)


@dataclass(frozen=True)
class Products:
    """What losses and derivatives are made of, at one point.

    Attributes
    ----------
    E : ndarray of shape (..., p, q + k)
        ``[A_mm theta, phi, -W]``.
    server : ndarray of shape (..., p, q + k)
        ``E moments``.
    client : ndarray of shape (..., p, q)
        ``C' C [A_mm theta, phi] mean [y; 1] [y; 1]'``.
    """

    E: np.ndarray
    server: np.ndarray
    client: np.ndarray

    @classmethod
    def at(cls, problem, parameters, blocks):
        """Products at given parameters ``[theta, phi]`` and blocks W."""
        E = joint_matrix(problem, parameters, blocks)
        q = problem.n_local
        return cls(E, E @ problem.moments, problem.gram @ (E[..., :q] @ problem.moments[..., :q, :q]))


def losses(problem, at):
    """Losses at a point given by its :class:`Products`."""
    client = problem.energy + ((at.client - 2 * problem.target) * at.E[..., : problem.n_local]).sum((-2, -1))
    server = (at.server * at.E).sum((-2, -1))
    if problem.has_plain_penalty:
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
    q = problem.n_local
    return Gradients(
        lowered(problem, 2 * (at.client - problem.target)), lowered(problem, pull[..., :q]), -pull[..., q:]
    )


def lowered(problem, pull):
    """Derivative in ``[theta, phi]`` of something with derivative `pull` in ``[A_mm theta, phi]``."""
    return _times_transition(problem, np.swapaxes(problem.transition, -1, -2), pull)
