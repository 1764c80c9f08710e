"""Answers of a plant that was learned by gradient training: predictions, and a table of untested links."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.linalg import block_diag

from ...server.links.tables import COLUMNS
from ...server.prediction import PlantFilter
from ...statespace.geweke import geweke_measures
from ...statespace.riccati import NotStationaryError, predicted_covariance, stationary_covariance


class _AnyPlantFilter(PlantFilter):
    """Filter that starts a plant without stationary covariance at its steady prediction error, as units do.

    Units that nothing joins start each on its own.
    """

    def _first_covariance(self):
        slices = self.record.partition.slices
        joined = self.A[~self.record.partition.block_diagonal].any()
        groups = [slice(None)] if joined else slices
        information = self.record.block_diagonal([part.patterns[0] for part in self.record.parts])
        parts = [(self.A[rows, rows], self.Q[rows, rows], information[rows, rows]) for rows in groups]
        return block_diag(*[_stationary(A, Q, partial(predicted_covariance, A, J, Q)) for A, Q, J in parts])


def _stationary(A, Q, otherwise):
    """Stationary covariance of the states, (n, n), or what is taken otherwise."""
    try:
        return stationary_covariance(A, Q)
    except NotStationaryError:
        return otherwise()


class ServerPrediction(_AnyPlantFilter):
    """States that the units filter alone, predicted by the server from all units' states.

    The log-likelihood is that of the Kalman filter of the learned plant: a prediction from states that were
    filtered apart has no density of its own. `own` holds the diagonal blocks, as the units' models do.
    """

    def __init__(self, A, own, Q, record, drive=None, own_drive=None):
        super().__init__(A, Q, record, drive)
        self._units = _AnyPlantFilter(own, Q, record, own_drive)

    @property
    def filtered(self):
        """``h_hat_c[t]`` of all units, shape (n_samples, n)."""
        return self._units.filtered

    @property
    def predicted(self):
        """``h_s[t] = A h_hat_c[t-1] + B u[t-1]``, zero in an episode's first row; shape (n_samples, n)."""
        carried, exogenous = self.carried(self.A), self._exogenous
        return carried if exogenous is None else carried + exogenous


def unit_scales(plant, A, B, Q):
    """Matrices (n, n) and (n + k, n + k) that take ``[A, B]`` to states and inputs of unit variance, by both sides."""
    scaled = B * plant.inputs[2]
    roots = _state_scales(plant.states, A, Q + scaled @ scaled.T)
    left = block_diag(*(np.linalg.inv(root) for root in roots))
    return left, block_diag(*roots, np.diag(plant.inputs[2]))


def untested_links(plant, A, B, Q, information):
    """Table of all ordered pairs without evidence, of a plant A (n, n), B (n, k), Q (n, n).

    Geweke's measure is NaN for inputs and unstable plants.
    """
    partition, n_units = plant.states, len(plant.names)
    geweke = np.full((n_units, n_units), np.nan)
    if np.abs(np.linalg.eigvals(A)).max() < 1:
        geweke = geweke_measures(A, Q, information, partition)
    scaled = B * plant.inputs[2]
    roots = _state_scales(partition, A, Q + scaled @ scaled.T)
    slices, names = partition.slices, plant.names
    rows = []
    for effect, cause in partition.pairs:
        block = A[slices[effect], slices[cause]] @ roots[cause]
        rows.append((names[cause], names[effect], "state", _size(roots[effect], block), geweke[effect, cause]))
    for effect, cause in partition.pairs:
        block = scaled[slices[effect], plant.input_slices[cause]]
        if block.size:
            rows.append((names[cause], names[effect], "input", _size(roots[effect], block), np.nan))
    table = pd.DataFrame(rows, columns=["cause", "effect", "kind", "norm", "geweke"])
    table = table.astype({"cause": object, "effect": object, "kind": object, "norm": float, "geweke": float})
    nothing: dict[str, Any] = dict.fromkeys(("delay", "delay_low", "delay_high"), np.nan)
    nothing |= {"stderr": np.inf, "statistic": 0.0, "p_value": 1.0, "p_adjusted": 1.0}
    nothing |= {"verdict": "cannot tell", "because": "training by gradients tests no links"}
    return table.assign(**nothing)[list(COLUMNS)]


def _state_scales(partition, A, Q):
    """Roots (n_m, n_m) of each unit's state covariance in the learned plant or, where that is not stable, of Q."""
    cov = _stationary(A, Q, lambda: Q)
    return [np.linalg.cholesky(cov[rows, rows]) for rows in partition.slices]


def _size(root, block):
    """Frobenius norm of a block (n_m, k) in states standardised by their root (n_m, n_m)."""
    return float(np.linalg.norm(np.linalg.solve(root, block)))
