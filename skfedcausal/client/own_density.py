"""A unit's own autoregression as the density of its measurements, where no plant knows better."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from ..statespace.matrices import floor_eigenvalues
from ..statespace.tails import heavy_tails
from .own_past import FLOOR, OwnPast, bic_penalty, rows_before

_LOG_2PI = np.log(2 * np.pi)


@dataclass(frozen=True)
class OwnDensity:
    """``y[t] = B [y[t-1], u[t-1], ..., y[t-k], u[t-k]] + e[t]`` in scaled columns, of as many rows as there are."""

    orders: tuple  # (B, Cholesky factor of the covariance of e) of 0, 1, ..., p rows before
    own_past: OwnPast
    mean: np.ndarray
    tails: Any = None  # of e given p rows

    @classmethod
    def learned(cls, own_past, mean):
        """The number of lags that BIC prefers."""
        best = int(np.argmax(own_past.evidences())) + 1
        return cls(tuple(_order(own_past, k) for k in range(best + 1)), own_past, mean)

    @property
    def penalty(self):
        """Log-likelihood per row that its coefficients have to gain by BIC."""
        B, L = self.orders[-1]
        return bic_penalty(B.size + len(L) * (len(L) + 1) / 2, self.own_past.n_rows)

    def with_tails(self, Y, U, starts):
        """The same with the tails of a record."""
        errors = self._errors(Y, U, starts)[-1][1]
        complete = errors[np.isfinite(errors).all(axis=1)]
        return replace(self, tails=heavy_tails(solve_triangular(self.orders[-1][1], complete.T, lower=True).T))

    def log_density(self, Y, U, starts):
        """Log-density of each row given the unit's own rows before, shape (n_samples,)."""
        found = np.zeros(len(Y))
        for at, errors, L in self._errors(Y, U, starts):
            seen = np.isfinite(errors)
            for pattern in np.unique(seen, axis=0):
                rows = (seen == pattern).all(axis=1)
                tails = self.tails if pattern.all() and L is self.orders[-1][1] else None
                found[at[rows]] = self._density(errors[np.ix_(rows, pattern)], pattern, L, tails)
        return found

    def _density(self, errors, pattern, L, tails):
        """Log-density of the errors of some columns."""
        if not pattern.all():
            L = np.linalg.cholesky((L @ L.T)[np.ix_(pattern, pattern)])
        white = solve_triangular(L, errors.T, lower=True).T
        size = np.log(np.diag(L)).sum() + np.log(self.own_past.scale[pattern]).sum()
        value = -0.5 * ((white**2).sum(axis=1) + len(L) * _LOG_2PI) - size
        return value if tails is None else value + tails.gain(white)

    def _errors(self, Y, U, starts):
        """Rows, their errors and the factor of those, by the number of complete rows before them."""
        x = self.own_past.scaled(Y, U, self.mean)
        before, most = _complete_before(x, starts), len(self.orders) - 1
        found = []
        for k, (B, L) in enumerate(self.orders):
            at = np.flatnonzero(np.minimum(before, most) == k)
            found.append((at, x[at, : len(B)] - rows_before(x, at, k) @ B.T, L))
        return found


def _complete_before(x, starts):
    """How many rows of its episode right before each row are complete."""
    complete = np.isfinite(x).all(axis=1)
    begins = np.zeros(len(x), dtype=int)
    begins[1:] = np.where(complete[:-1], 0, np.arange(1, len(x)))
    begins[list(starts)] = starts
    return np.arange(len(x)) - np.maximum.accumulate(begins)


def _order(own_past, k):
    """Coefficients of k rows before, and the Cholesky factor of what they leave."""
    if k == 0:
        d = len(own_past.scale)
        S = floor_eigenvalues(own_past.products[:d, :d] / own_past.n_rows, FLOOR)
        return np.zeros((d, 0)), np.linalg.cholesky(S)
    B, S = own_past.autoregression(k)
    return B, np.linalg.cholesky(S)
