"""Process noise that units of a plant of several lags share."""

import numpy as np
from scipy.stats import chi2

from ..estimation.evidence import benjamini_hochberg
from .problem import Fitted

_N_STEPS = 12
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
    for _ in range(_N_STEPS):
        change = np.where(mask, 2 * Q @ point.grad_Q @ Q, 0.0)  # of expectation maximisation, where all is free
        step = 1.0
        while step > 0.01:
            trial = Q + step * (change + change.T) / 2
            problem.spent()
            if np.linalg.eigvalsh(trial)[0] > 0:
                found = likelihood.evaluate(fitted.coefficients, trial)
                if found.value >= point.value:
                    break
            step /= 2
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
    mask = partition.block_diagonal.copy()
    for (m, k), is_kept in zip(pairs, benjamini_hochberg(p_values, alpha), strict=True):
        if is_kept:
            mask[partition.slices[m], partition.slices[k]] = True
            mask[partition.slices[k], partition.slices[m]] = True
    return mask
