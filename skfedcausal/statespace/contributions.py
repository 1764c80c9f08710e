"""What every time step contributes to the gradient of the exact log-likelihood.

The log-density of a measurement given its past depends on the plant through the predicted state x and its
covariance P alone. Its derivatives there are ``u = C' S^-1 (y - C x)`` with S the covariance of the
innovation (as information: ``(I - J Pf)(z - J x)``) and ``(u u' - U) / 2`` with ``U = J - J Pf J``; from
there on derivatives go back in time through the filter, ``P <- A (P - P U P) A' + Q``, as long as it
remembers. At the true plant the contributions of a well-specified model are martingale differences: a step's
expectation given the past is zero.
"""

from dataclasses import dataclass

import numpy as np

from .inputs import input_term
from .kalman import filter_rows
from .matrices import spectral_radius
from .riccati import predicted_covariance, stationary_covariance

_FORGOTTEN = 1e-3  # what a filter may still remember where derivatives stop going back
_MOST_STEPS = 400
_PIECE = 2**21  # numbers in the matrices of the rows that are taken together


@dataclass(frozen=True)
class Contributions:
    """Gradients of the log-densities of consecutive rows given their past."""

    rows: slice
    grad_A: np.ndarray  # (n_rows, n, c)
    grad_Q: np.ndarray  # (n_rows, n, n)


def score_contributions(A, Q, z, matrices, *, J, starts=(0,), known=None, spread=None, memory=None):
    """Contributions of every row, some rows at a time and in their order.

    How the stationary distribution of an episode's first state depends on the plant is left out.
    """
    n = len(Q)
    A, B = A[:, :n], A[:, n:]
    P0 = stationary_covariance(A, Q)
    P0 = P0 if spread is None else P0 + spread
    exogenous = None if known is None else input_term(B, known, starts)
    memory = steps_remembered(A, Q, J) if memory is None else memory
    past = None
    for part in filter_rows(A, Q, P0, z, matrices, starts=starts, exogenous=exogenous):
        first, last = part.rows.start, part.rows.stop
        own = _Past.of(part, z, known)
        past = own if first in starts else own.after(past, memory)
        at_once = max(_PIECE // n**2, 1)
        for start in range(first, last, at_once):
            rows = slice(start, min(start + at_once, last))
            yield Contributions(rows, *past.contributions(A, rows, memory))


def steps_remembered(A, Q, J):
    """Rows over which derivatives go back: as long as the filter remembers."""
    P = predicted_covariance(A, J, Q)
    radius = float(spectral_radius(A @ np.linalg.inv(np.eye(len(Q)) + P @ J)))
    return min(int(np.ceil(np.log(_FORGOTTEN) / np.log(max(radius, 1e-6)))), _MOST_STEPS)


@dataclass(frozen=True)
class _Past:
    """Rows of an episode and as many before them as the filter remembers."""

    first: int
    u: np.ndarray
    U: np.ndarray
    regressors: np.ndarray
    filtered: np.ndarray
    step: np.ndarray

    @classmethod
    def of(cls, part, z, known):
        """That of filtered rows alone; `z` (n_samples, n), `known` (n_samples, k) or None."""
        J, Pf = part.covariances.J, part.covariances.filtered
        weighed = J @ Pf
        residual = z[part.rows] - np.einsum("tij,tj->ti", J, part.predicted)
        u = residual - np.einsum("tij,tj->ti", weighed, residual)
        regressors = part.filtered if known is None else np.hstack([part.filtered, known[part.rows]])
        return cls(part.rows.start, u, J - weighed @ J, regressors, Pf, part.covariances.step)

    def after(self, before, memory):
        """With the last rows of what came before them."""
        fields = ("u", "U", "regressors", "filtered", "step")
        kept = {name: getattr(before, name)[-memory:] for name in fields}
        joined = {name: np.concatenate([kept[name], getattr(self, name)]) for name in fields}
        return _Past(self.first - len(kept["u"]), **joined)

    def contributions(self, A, rows, memory):
        """Derivatives of the log-densities of a slice of rows with respect to ``[A | B]`` and Q."""
        n = len(A)
        at = np.arange(rows.start, rows.stop) - self.first
        v, W = self.u[at], self.u[at, :, None] * self.u[at, None, :]
        W = (W - self.U[at]) / 2
        grad_A = np.zeros((len(at), n, self.regressors.shape[1]))
        grad_Q = np.zeros_like(W)
        for back in range(1, memory + 1):
            there = at >= back
            if not there.all():  # rows near the start of the episode have no more past
                if not there.any():
                    break
                v, W = np.where(there[:, None], v, 0.0), np.where(there[:, None, None], W, 0.0)
            row = np.maximum(at - back, 0)
            grad_A += v[:, :, None] * self.regressors[row, None, :]
            grad_A[:, :, :n] += 2 * (W @ A) @ self.filtered[row]
            grad_Q += W
            step = self.step[row]
            turned = np.swapaxes(step, 1, 2)
            v = (turned @ v[:, :, None])[:, :, 0]
            mixed = v[:, :, None] * self.u[row, None, :]
            W = turned @ W @ step + (mixed + np.swapaxes(mixed, 1, 2)) / 2
        return grad_A, grad_Q
