"""A plant of several lags learned in coordinates in which the noise of all its units is white.

A prior shrinks every row of the coefficients by itself. Where some combination of the states is all but
determined by the past, as temperatures in one furnace are, rows that are shrunk differently predict it badly.
The rows of ``W s``, W an inverse root of the process noise, are regressions of their own, which no
other row has to make good for. They mix the units: every unit and input may act on every row.
"""

from typing import NamedTuple

import numpy as np

from ...statespace.lagged.likelihood import LaggedLikelihood
from ...statespace.matrices import floor_eigenvalues
from ...statespace.partition import Partition
from .noise import with_shared_noise
from .problem import Fitted, LaggedProblem, climb

_MOST_COEFFICIENTS = 600  # of one row: the algebra grows with their cube
_FLOOR = 1e-10  # share of the largest variance of the noise that is left in any direction


class Coordinates(NamedTuple):
    """A plant in coordinates ``W s`` of the standardised states."""

    problem: LaggedProblem
    fitted: Fitted
    W: np.ndarray  # (n, n)
    value: float  # log-likelihood of s, not of W s

    @property
    def criterion(self):
        """Log-likelihood less the effective number of coefficients and the correlations of the noise."""
        n = len(self.W)
        return self.value - self.fitted.n_effective - np.count_nonzero(self.fitted.Q[np.tril_indices(n, -1)])


def unchanged(problem, fitted):
    """The plant as it was learned."""
    return Coordinates(problem, fitted, np.eye(problem.likelihood.n), fitted.value)


def whitened(problem, sums, fitted):
    """The plant learned anew in the coordinates that whiten its noise; None where that costs too much."""
    n, k = problem.likelihood.n, problem.partition.n_inputs
    n_coefficients = n * len(problem.state_lags) + sum(len(lags) for lags in problem.input_lags)
    if n == 1 or n_coefficients > _MOST_COEFFICIENTS or problem.budget.is_spent:
        return None
    values, axes = np.linalg.eigh(floor_eigenvalues(fitted.Q, _FLOOR * np.linalg.norm(fitted.Q, 2)))
    W = (axes / np.sqrt(values)).T
    W /= np.sqrt(np.diag(W @ sums.sums[0][:n, :n] @ W.T) / sums.n_rows)[:, None]
    there, back = np.eye(n + k), np.eye(n + k)
    there[:n, :n], back[:n, :n] = W, np.linalg.inv(W)
    likelihood = LaggedLikelihood(sums.transformed(there), W @ problem.likelihood.N @ W.T)
    partition = Partition((1,) * n, (k, *(0,) * (n - 1)))
    periodogram = there @ problem.periodogram @ there.T
    white = LaggedProblem(likelihood, periodogram, partition, problem.state_lags, problem.input_lags, problem.budget)
    start = Fitted(W @ fitted.coefficients @ back, np.diag(np.diag(W @ fitted.Q @ W.T)))
    everything = np.ones((n, n), dtype=bool), np.ones((n, k), dtype=bool)
    found = climb(white, start, everything)
    if not found.posteriors:
        return None
    found = with_shared_noise(white, found, 1.0)
    value = found.value + likelihood.n_rows * float(np.linalg.slogdet(W)[1])
    return Coordinates(white, found, W, value)
