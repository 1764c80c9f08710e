"""Posterior over the units that may be the root, from either statistic."""

import numpy as np

from ..statespace.roots import inclusion, log_bayes_factor, log_prior_of_sets, root_sets, tempered
from ..statespace.shift import step_information, step_scores

_SHARPNESS = 8.0  # of the energy posterior, by log loss on simulated faults
_MAX_PAIRED = 20  # units up to which two roots at a time are candidates
_SECOND_ROOT = 0.2  # prior weight of a second root


class RootPosterior:
    """Posterior over roots under a fitted plant.

    Parameters
    ----------
    model : InnovationModel
    slices : sequence of slice
        States of each unit.
    prior : ndarray of shape (n_units,)
    n_rows : int
        Longest usual window; longer ones are prepared when they come.
    horizon : int
        Rows of a full energy window.
    dispersion : float, default=1.0
        By how much likelihood ratios of nominal windows exceed chi-square.
    """

    def __init__(self, model, slices, prior, n_rows, horizon, dispersion=1.0):
        self.model, self.slices, self.prior = model, slices, prior
        self.horizon, self.dispersion = horizon, dispersion
        self._sets = root_sets(len(slices), 2 if len(slices) <= _MAX_PAIRED else 1)
        self._set_priors = log_prior_of_sets(self._sets, prior, _SECOND_ROOT)
        self._prepare(n_rows)

    def from_energy(self, evidence):
        """Posterior over roots from the energy statistic over a window, shape (n_units,)."""
        return tempered(evidence.sum(axis=0), max(len(evidence), self.horizon), _SHARPNESS, self.prior)

    def from_shift(self, scaled, at_once=0.0):
        """Posterior over roots from the coherent shift statistic, its onset free in the window.

        Parameters
        ----------
        scaled : ndarray of shape (n_rows, n)
            Scaled innovations of the window.
        at_once : float
            Prior probability that the fault is there from the first row; the rest is spread evenly.

        Returns
        -------
        probability : ndarray of shape (n_units,)
            That the unit is among the roots.
        onset : int
            Most likely first row.
        evidence : float
            Log evidence of the best set of roots against no fault.
        """
        n_rows = len(scaled)
        if n_rows > self._table_rows:
            self._prepare(n_rows)
        scores = step_scores(self.model.carry, scaled)
        steps = np.arange(n_rows, 0, -1)
        logs = np.empty((len(self._sets), n_rows))
        for group, columns, inverse in self._candidates:
            b = scores[:, columns].swapaxes(0, 1)  # (n_sets, n_rows, size)
            weighted = np.matmul(inverse[:, n_rows - 1 :: -1], b[..., None])[..., 0]
            ratio = (b * weighted).sum(axis=2)
            logs[group] = log_bayes_factor(ratio / self.dispersion, columns.shape[1], steps)
        top = logs.max()
        onsets = np.full(n_rows, (1 - at_once) / n_rows)
        onsets[0] += at_once
        weights = np.exp(logs - top) * onsets
        with np.errstate(divide="ignore"):
            total = np.log(weights.sum(axis=1)) + self._set_priors
        probability, _ = inclusion(self._sets, total, len(self.slices))
        return probability, int(weights.sum(axis=0).argmax()), float(top + total.max())

    def _prepare(self, n_rows):
        """Inverse information of every candidate set for windows of 1, ..., n_rows rows.

        Sets of the same number of states are handled together: their positions, states and inverses.
        """
        self._table_rows = n_rows
        table = step_information(self.model.carry, self.model.weight, n_rows)
        states = [
            np.concatenate([np.arange(self.slices[m].start, self.slices[m].stop) for m in roots])
            for roots in self._sets
        ]
        sizes = np.array([len(k) for k in states])
        self._candidates = []
        for size in np.unique(sizes):
            group = np.flatnonzero(sizes == size)
            columns = np.array([states[k] for k in group])
            inverse = np.array([np.linalg.inv(table[:, c[:, None], c]) for c in columns])
            self._candidates.append((group, columns, inverse))
