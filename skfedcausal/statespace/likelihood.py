"""What a likelihood of the plant gives: a value with gradients, and the expected information."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np


def hermitian(x):
    """Conjugate transpose of a matrix or of each matrix in a stack."""
    return np.conj(np.swapaxes(x, -1, -2))


@dataclass(frozen=True)
class Evaluation:
    """Value and gradients of a log-likelihood per time step.

    Attributes
    ----------
    value : float or ndarray
        Up to a constant free of the parameters.
    grad_A, grad_Q : ndarray of shape (..., n, n)
        Derivatives with respect to the elements of A and (symmetric) of Q.
    """

    value: np.ndarray
    grad_A: np.ndarray
    grad_Q: np.ndarray


@dataclass(frozen=True)
class SpectralInformation:
    """Fisher information of the elements of A and Q per time step, kept in factored form.

    With ``U = Phi^-1``, ``H = Z^-1 Q``, ``W = H U`` and ``V = W H^H`` the information of elements (i, j)
    and (k, l) of A is ``mean Re [W_jk W_li + V_jl U_ki]``, that of (i, j) of A and (a, b) of Q is ``mean
    Re W_ja U_bi`` and that of (a, b) and (c, d) of Q is ``1/2 mean Re U_da U_bc``.

    Attributes
    ----------
    U, H : complex ndarray of shape (..., n_frequencies, n, n)
    """

    U: np.ndarray
    H: np.ndarray

    @cached_property
    def W(self):
        """``H U``."""
        return self.H @ self.U

    @cached_property
    def V(self):
        """``W H^H``: spectrum of the states as far as the measurements tell it."""
        return self.W @ hermitian(self.H)
