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
_MOST_TURNS = 6  # of coordinates
_MOST_STEPS, _MOST_SWEEPS = 40, 8
_WORTHWHILE = 1.0  # log-likelihood that another turn has to add
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

    def in_standard_states(self):
        """Coefficients and covariance of the noise in the standardised states."""
        n, back = len(self.W), np.linalg.inv(self.W)
        coefficients = back @ self.fitted.coefficients
        coefficients[..., :n] = coefficients[..., :n] @ self.W
        return coefficients, back @ self.fitted.Q @ back.T


def unchanged(problem, fitted):
    """The plant as it was learned."""
    return Coordinates(problem, fitted, np.eye(problem.likelihood.n), fitted.value)


def whitened(problem, sums, fitted):
    """The plant learned anew in coordinates that whiten its noise, as often as that makes it likelier.

    None where that costs too much or leads nowhere.
    """
    n_coefficients = problem.likelihood.n * len(problem.state_lags) + sum(map(len, problem.input_lags))
    if problem.likelihood.n == 1 or n_coefficients > _MOST_COEFFICIENTS:
        return None
    best, point = None, (fitted.coefficients, fitted.Q)
    for _ in range(_MOST_TURNS):
        found = None if problem.budget.is_spent else _learned_in(problem, sums, *point)
        if found is None or (best is not None and found.criterion < best.criterion + _WORTHWHILE):
            break
        best, point = found, found.in_standard_states()
    return best


def _learned_in(problem, sums, coefficients, Q):
    """The plant learned in the coordinates that whiten a noise, from a point on."""
    n, k = problem.likelihood.n, problem.partition.n_inputs
    values, axes = np.linalg.eigh(floor_eigenvalues(Q, _FLOOR * np.linalg.norm(Q, 2)))
    W = (axes / np.sqrt(values)).T
    W /= np.sqrt(np.diag(W @ sums.sums[0][:n, :n] @ W.T) / sums.n_rows)[:, None]
    there, back = np.eye(n + k), np.eye(n + k)
    there[:n, :n], back[:n, :n] = W, np.linalg.inv(W)
    likelihood = LaggedLikelihood(sums.transformed(there), W @ problem.likelihood.N @ W.T)
    partition = Partition((1,) * n, (k, *(0,) * (n - 1)))
    spectrum = there @ problem.periodogram @ there.T
    white = LaggedProblem(likelihood, spectrum, partition, problem.state_lags, problem.input_lags, problem.budget)
    start = Fitted(W @ coefficients @ back, np.diag(np.diag(W @ Q @ W.T)))
    everything = np.ones((n, n), dtype=bool), np.ones((n, k), dtype=bool)
    found = climb(white, start, everything, n_steps=_MOST_STEPS, n_sweeps=_MOST_SWEEPS)
    if not found.posteriors:
        return None
    found = with_shared_noise(white, found, 1.0)
    value = found.value + likelihood.n_rows * float(np.linalg.slogdet(W)[1])
    return Coordinates(white, found, W, value)
