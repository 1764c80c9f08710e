"""The table of links of a server that learns blocks but tests none."""

import numpy as np
import pandas as pd

from ..statespace.geweke import geweke_measures
from ..statespace.riccati import NotStationaryError, stationary_covariance
from .links import COLUMNS


def untested_links(names, partition, A, Q, information):
    """Table of all ordered pairs with their strength and no evidence.

    Parameters
    ----------
    names : sequence of str
    partition : Partition
    A, Q, information : ndarray of shape (n, n)

    Returns
    -------
    DataFrame
        With the columns of `COLUMNS`: standard errors are infinite, p-values 1 and verdicts "cannot tell".
        Geweke's measure is missing (NaN) where the learned plant is not stable.
    """
    effect, cause = partition.pairs.T
    strength, geweke = block_strengths(partition, A, Q), np.full((len(names),) * 2, np.nan)
    if np.abs(np.linalg.eigvals(A)).max() < 1:
        geweke = geweke_measures(A, Q, information, partition)
    return pd.DataFrame(
        {
            "cause": np.asarray(names, dtype=object)[cause],
            "effect": np.asarray(names, dtype=object)[effect],
            "kind": "state",
            "strength": strength,
            "stderr": np.inf,
            "statistic": 0.0,
            "p_value": 1.0,
            "p_adjusted": 1.0,
            "geweke": geweke[effect, cause],
            "verdict": "cannot tell",
        },
        columns=list(COLUMNS),
    )


def block_strengths(partition, A, Q):
    """Frobenius norm of each off-diagonal block in standardised states.

    States have unit covariance in the learned plant or, where that is not stable, unit process noise.
    """
    try:
        cov = stationary_covariance(A, Q)
    except NotStationaryError:
        cov = Q
    roots = [np.linalg.cholesky(cov[rows, rows]) for rows in partition.slices]
    norms = []
    for m, n in partition.pairs:
        block = A[partition.slices[m], partition.slices[n]]
        norms.append(np.linalg.norm(np.linalg.solve(roots[m], block @ roots[n])))
    return np.array(norms)
