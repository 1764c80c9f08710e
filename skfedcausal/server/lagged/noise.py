"""Process noise that units of a plant of several lags share."""

from typing import NamedTuple

import numpy as np
from scipy.stats import chi2

from ...statespace.lagged.likelihood import LaggedLikelihood
from ...statespace.matrices import floor_eigenvalues
from ...statespace.partition import Partition
from ..estimation.evidence import benjamini_hochberg
from .problem import Fitted, LaggedProblem, climb
from .tuning import TUNING

_SETTLED = 0.01  # log-likelihood that a step gains


def with_shared_noise(problem, fitted, alpha):
    """The plant with the noise of units correlated where a test says that it is; nothing else changes.

    Everywhere if `alpha` is None.
    """
    partition = problem.partition
    mask = np.ones_like(partition.block_diagonal) if alpha is None else _correlated(problem, fitted, alpha)
    if (mask == partition.block_diagonal).all():
        return fitted
    likelihood, Q = problem.likelihood, fitted.Q
    point = likelihood.evaluate(fitted.coefficients, Q)
    for _ in range(TUNING.noise_n_steps):
        change = np.where(mask, 2 * Q @ point.grad_Q @ Q, 0.0)  # of expectation maximisation, where all is free
        for step in 0.5 ** np.arange(7):
            trial = Q + step * (change + change.T) / 2
            problem.spent()
            if np.linalg.eigvalsh(trial)[0] > 0:
                found = likelihood.evaluate(fitted.coefficients, trial)
                if found.value >= point.value:
                    break
        else:
            break
        gain = likelihood.n_rows * (found.value - point.value)
        Q, point = trial, found
        if gain < _SETTLED:
            break
    value = likelihood.n_rows * point.value
    return Fitted(fitted.coefficients, Q, fitted.priors, fitted.posteriors, value, fitted.converged)


def _correlated(problem, fitted, alpha):
    """Mask over Q of the blocks that score tests keep at a false discovery rate."""
    partition, likelihood = problem.partition, problem.likelihood
    point = likelihood.evaluate(fitted.coefficients, fitted.Q)
    problem.spent()
    score = 2 * point.grad_Q * likelihood.n_rows
    pairs = [(m, k) for m in range(partition.n_units) for k in range(m)]
    p_values = np.empty(len(pairs))
    own = [point.inverse[:, rows, rows] for rows in partition.slices]
    for number, (m, k) in enumerate(pairs):
        a, b = partition.slices[m], partition.slices[k]
        weighted = likelihood.weights[:, None, None] * own[m]
        info = np.einsum("fij,fkl->ikjl", weighted, np.conj(own[k])).real * likelihood.n_rows
        q = score[a, b].ravel()
        p_values[number] = chi2.sf(q @ np.linalg.solve(info.reshape(len(q), len(q)), q), len(q))
    kept = np.array(pairs, dtype=int).reshape(-1, 2)[benjamini_hochberg(p_values, alpha)]
    return partition.mask(np.vstack([kept, kept[:, ::-1]]), True)


# -- A plant of several lags learned in coordinates in which the noise of all its units is white ---


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
    if problem.likelihood.n == 1 or n_coefficients > TUNING.noise_most_coefficients:
        return None
    best, point = None, (fitted.coefficients, fitted.Q)
    for _ in range(TUNING.noise_most_turns):
        found = None if problem.budget.is_spent else _learned_in(problem, sums, *point)
        if found is None or (best is not None and found.criterion < best.criterion + TUNING.noise_worthwhile):
            break
        best, point = found, found.in_standard_states()
    return best


def _learned_in(problem, sums, coefficients, Q):
    """The plant learned in the coordinates that whiten a noise, from a point on."""
    n, k = problem.likelihood.n, problem.partition.n_inputs
    values, axes = np.linalg.eigh(floor_eigenvalues(Q, TUNING.noise_floor * np.linalg.norm(Q, 2)))
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
    found = climb(white, start, everything, n_steps=TUNING.noise_most_steps, n_sweeps=TUNING.noise_most_sweeps)
    if not found.posteriors:
        return None
    found = with_shared_noise(white, found, 1.0)
    return Coordinates(white, found, W, found.value + likelihood.n_rows * float(np.linalg.slogdet(W)[1]))
