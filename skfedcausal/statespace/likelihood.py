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
    grad_A : ndarray of shape (..., n, c)
        Derivatives with respect to the elements of the coefficients ``[A | B]``; c = n without inputs.
    grad_Q : ndarray of shape (..., n, n)
        Derivatives with respect to the elements of (symmetric) Q.
    """

    value: np.ndarray
    grad_A: np.ndarray
    grad_Q: np.ndarray


@dataclass(frozen=True)
class SpectralInformation:
    """Fisher information of the elements of ``[A | B]`` and Q per time step, kept in factored form.

    With ``U = Phi^-1``, ``H = Z^-1 Q``, ``W = H U`` and ``V = W H^H`` the information of elements (i, j)
    and (k, l) of A is ``mean Re [W_jk W_li + V_jl U_ki]``, that of (i, j) of A and (a, b) of Q is ``mean
    Re W_ja U_bi`` and that of (a, b) and (c, d) of Q is ``1/2 mean Re U_da U_bc``. Inputs are known: their
    rows of H are zero, and the spectrum S of states and inputs as far as they follow from the inputs is
    added to V.

    Attributes
    ----------
    U, H : complex ndarray of shape (..., n_frequencies, n, n)
    S : complex ndarray of shape (..., n_frequencies, c, c) or None
        Spectrum of the regressors ``[h; u]`` that the inputs determine; None without inputs.
    """

    U: np.ndarray
    H: np.ndarray
    S: np.ndarray | None = None

    @cached_property
    def W(self):
        """``H U``, zero in the rows of the inputs: shape (..., n_frequencies, c, n)."""
        W = self.H @ self.U
        if self.S is None:
            return W
        rest = np.zeros((*W.shape[:-2], self.S.shape[-1] - W.shape[-1], W.shape[-1]), dtype=W.dtype)
        return np.concatenate([W, rest], axis=-2)

    @cached_property
    def V(self):
        """``W H^H + S``: spectrum of the regressors as far as measurements and inputs tell it."""
        if self.S is None:
            return self.W @ hermitian(self.H)
        V, n = self.S.copy(), self.H.shape[-1]
        V[..., :n, :n] += self.H @ self.U @ hermitian(self.H)
        return V
