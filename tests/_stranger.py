"""Somebody else's method, an example: ``python -m benchmarks field --with tests/_stranger.py``."""

import numpy as np

from benchmarks.field.methods import first_components, method


@method("links", "stranger: lagged correlation")
def lagged_correlation(case):
    """Absolute correlation of a unit's component with another's one step before."""
    Z, _ = first_components(case.X)
    n = Z.shape[1]
    return np.abs(np.corrcoef(Z[1:].T, Z[:-1].T)[:n, n:])
