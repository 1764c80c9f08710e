"""Augmented Lagrangian of the constraint ``D = 0`` with a step that is implicit in it.

The constraint says of every time step that what a unit corrects, ``A_mm theta y``, is what the server gives
to the other units' states, ``sum_n A_mn h_n``. The augmented Lagrangian adds ``lambda[t]' D[t] + rho / 2
|D[t]|^2`` with multipliers that rise by ``rho D[t]`` each round. Its curvature, large where rho is, is what
makes explicit steps unstable; so each side divides its step by one plus step size times the curvature of
the constraint (an implicit-explicit scheme). Both sides move at once: each counts that curvature twice, which
is the proximal weight that makes simultaneous moves of two blocks converge [1]_. A round sends the same
messages as one of the penalty method.

Multipliers that start at zero are linear functions of ``[y; h]``, so that on moments they are one matrix.

References
----------
.. [1] Deng, Lai, Peng, Yin (2017), Parallel multi-block ADMM with o(1/k) convergence, J. Sci. Comput. 71.
"""

from dataclasses import dataclass

import numpy as np

from .descent import Rates

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
    """Division of steps in theta by one plus the curvature of the constraint."""
    gram = np.swapaxes(transition, -1, -2) @ transition
    return ImplicitStep(gram, moments, 2 * N_SIDES * rate * xi)


def block_divisor(moments, rate, xi, n_rows):
    """The same of steps in ``A_mn``; `moments` are those of the other units' states."""
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
    """What a round adds to the multipliers, as a matrix on ``[y; 1; v]``: rho D."""
    return 2 * np.asarray(problem.xi, dtype=float)[..., None, None] * E * problem.in_penalty
