"""The plant of several lags of a record, in its own units."""

from typing import NamedTuple

import numpy as np

from ...statespace.lagged.information import averaged_periodogram
from ...statespace.lagged.likelihood import LaggedLikelihood, LagSums
from .problem import Fitted, LaggedProblem
from .search import Sources, search, tested


def lagged_problem(series, starts, N, partition, n_lags, memory, input_lags, budget, periodogram=None):
    """The problem for a series of scores and inputs."""
    longest = max([n_lags, *(lags[-1] for lags in input_lags)])
    sums = LagSums.of(series, starts, longest, memory)
    likelihood = LaggedLikelihood(sums, N)
    if periodogram is None:
        periodogram = averaged_periodogram(series, starts)
    return LaggedProblem(likelihood, periodogram, partition, np.arange(1, n_lags + 1), input_lags, budget)


def started(problem, A, Q):
    """The plant of one lag (n, c) as a plant of several, to start from."""
    n = len(Q)
    coefficients = np.zeros((problem.likelihood.n_lags + 1, n, problem.likelihood.c))
    coefficients[1, :, :n] = np.where(problem.partition.block_diagonal, A[:, :n], 0.0)
    return Fitted(coefficients, np.where(problem.partition.block_diagonal, Q, 0.0))
