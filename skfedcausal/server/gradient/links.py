"""The table of links of a server that learns blocks but tests none."""

import numpy as np
import pandas as pd

from ...statespace.geweke import geweke_measures
from ...statespace.riccati import NotStationaryError, stationary_covariance
from ..links.tables import COLUMNS


def untested_links(plant, A, B, Q, information):
    """Table of all ordered pairs with their strength and no evidence.

    Parameters
    ----------
    plant : Plant
        Names and sizes of the units, and the scales of their inputs.
    A, Q, information : ndarray of shape (n, n)
    B : ndarray of shape (n, k)

    Returns
    -------
    DataFrame
        With the columns of `COLUMNS`: standard errors are infinite, p-values 1 and verdicts "cannot tell".
        Geweke's measure is missing (NaN) where the learned plant is not stable and for inputs.
    """
    partition, n_units = plant.states, len(plant.names)
    geweke = np.full((n_units, n_units), np.nan)
    if np.abs(np.linalg.eigvals(A)).max() < 1:
        geweke = geweke_measures(A, Q, information, partition)
    scaled = B * plant.inputs[2]
    roots = _state_scales(partition, A, Q + scaled @ scaled.T)
    slices = partition.slices
    rows = []
    for effect, cause in partition.pairs:
        block = A[slices[effect], slices[cause]] @ roots[cause]
        rows.append(("state", effect, cause, _size(roots[effect], block), geweke[effect, cause]))
    for effect, cause in partition.pairs:
        block = scaled[slices[effect], plant.input_slices[cause]]
        if block.size:
            rows.append(("input", effect, cause, _size(roots[effect], block), np.nan))
    kind, effect, cause, strength, measure = zip(*rows, strict=True) if rows else ((),) * 5
    names = np.asarray(plant.names, dtype=object)
    return pd.DataFrame(
        {
            "cause": names[list(cause)],
            "effect": names[list(effect)],
            "kind": np.array(kind, dtype=object),
            "strength": np.array(strength, dtype=float),
            "stderr": np.inf,
            "statistic": 0.0,
            "p_value": 1.0,
            "p_adjusted": 1.0,
            "geweke": np.array(measure, dtype=float),
            "verdict": "cannot tell",
        },
        columns=list(COLUMNS),
    )


def _state_scales(partition, A, Q):
    """Roots of each unit's state covariance in the learned plant or, where that is not stable, of Q."""
    try:
        cov = stationary_covariance(A, Q)
    except NotStationaryError:
        cov = Q
    return [np.linalg.cholesky(cov[rows, rows]) for rows in partition.slices]


def _size(root, block):
    """Frobenius norm in standardised states."""
    return float(np.linalg.norm(np.linalg.solve(root, block)))
