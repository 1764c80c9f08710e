"""Geweke's measure between two units looked at on their own."""

import numpy as np

from ..statespace.geweke import Innovations, loadings_of


def unconditional_measures(A, Q, J, partition):
    """Geweke's measure between two units looked at on their own, for every ordered pair."""
    loadings = loadings_of(J, partition)
    alone = [np.linalg.slogdet(Innovations(A, Q, [C]).covariance)[1] for C in loadings]
    measures = np.zeros((partition.n_units, partition.n_units))
    for m in range(partition.n_units):
        for n in range(m):
            S, d = Innovations(A, Q, [loadings[m], loadings[n]]).covariance, len(loadings[m])
            measures[m, n] = max(alone[m] - np.linalg.slogdet(S[:d, :d])[1], 0.0)
            measures[n, m] = max(alone[n] - np.linalg.slogdet(S[d:, d:])[1], 0.0)
    return measures
