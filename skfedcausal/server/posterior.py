"""Posterior over the units that may be the root, from either statistic."""

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from ..statespace.roots import (
    inclusion,
    log_bayes_factor,
    log_prior_of_sets,
    log_scale_factor,
    root_sets,
    tempered,
)
from ..statespace.shift import Signatures, bias_information, step_and_bias_scores, step_information

_SHARPNESS = 8.0  # of the energy posterior, by log loss on simulated faults
_MAX_PAIRED = 20  # units up to which two roots at a time are candidates
_SECOND_ROOT = 0.2  # prior weight of a second root
_SENSOR = 0.5  # prior weight of a sensor fault beside a process fault of the same unit
_OUTSIDE = {"process": 0.1, "sensor": 0.9}  # prior probability that a fault shows off the subspace


@dataclass(frozen=True)
class Nominal:
    """What the two statistics are compared with.

    Attributes
    ----------
    dims : ndarray of shape (n_units,)
        Degrees of freedom of the units' surprises.
    outside_dims, outside : ndarray of shape (n_units,)
        Degrees of freedom and mean of the off-subspace numbers.
    leverage : ndarray of shape (n, n)
        Root of the inverse covariance of the predicted states.
    n_rows : int
        Rows that the plant was learned from.
    shift, energy, off_subspace : float
        By how much the likelihood ratios of nominal windows exceed what independent normal innovations
        would give, at least one.
    """

    dims: np.ndarray
    outside_dims: np.ndarray
    outside: np.ndarray
    leverage: np.ndarray
    n_rows: int
    shift: float = 1.0
    energy: float = 1.0
    off_subspace: float = 1.0


@dataclass(frozen=True)
class ShiftAnswer:
    """What the coherent shift statistic makes of a window.

    Attributes
    ----------
    probability : ndarray of shape (n_units,)
        That the unit is among the roots.
    onset : int
        Most likely first row.
    evidence : float
        Log evidence of all candidates together against no fault.
    sensor : float
        Probability that the best unit's sensors are at fault, not its states.
    """

    probability: np.ndarray
    onset: int
    evidence: float
    sensor: float


class RootPosterior:
    """Posterior over roots under a fitted plant.

    Candidates of the shift statistic are a fault in the states of one unit or of two, or in the sensors of
    one.

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
    nominal : Nominal
    """

    def __init__(self, model, slices, prior, n_rows, horizon, nominal):
        self.model, self.slices, self.prior = model, slices, prior
        self.horizon, self.nominal = horizon, nominal
        n_units = len(slices)
        self._sets = root_sets(n_units, 2 if n_units <= _MAX_PAIRED else 1)
        log_priors = log_prior_of_sets(self._sets, prior, _SECOND_ROOT)
        self._log_priors = np.concatenate([log_priors, log_priors[:n_units] + np.log(_SENSOR)])
        self._log_priors -= logsumexp(self._log_priors)
        self._members = np.zeros((len(self._log_priors), n_units))
        for k, roots in enumerate([*self._sets, *self._sets[:n_units]]):
            self._members[k, list(roots)] = 1.0
        self._prepare(n_rows)

    def from_energy(self, evidence):
        """Posterior over roots from the energy statistic over a window, shape (n_units,)."""
        return tempered(evidence.sum(axis=0), max(len(evidence), self.horizon), _SHARPNESS, self.prior)

    def energy_evidence(self, evidence):
        """Log evidence that whatever disturbs one of the units over a window, against no fault."""
        excess = np.expm1(evidence).mean(axis=0)
        factor = log_scale_factor(excess, self.nominal.dims / self.nominal.energy, len(evidence))
        return float(logsumexp(factor, b=self.prior))

    def from_shift(self, scaled, predicted, outside, at_once=0.0):
        """Posterior over roots from the coherent shift statistic, its onset free in the window.

        Parameters
        ----------
        scaled, predicted : ndarray of shape (n_rows, n)
            Scaled innovations and predicted states of the window.
        outside : ndarray of shape (n_rows, n_units)
            Off-subspace numbers.
        at_once : float
            Prior probability that the fault is there from the first row; the rest is spread evenly.

        Returns
        -------
        ShiftAnswer
        """
        n_rows, n_units = outside.shape
        if n_rows > self._process.n_rows:
            self._prepare(n_rows)
        steps = np.arange(n_rows, 0, -1.0)[:, None]
        step, bias = step_and_bias_scores(self.model, scaled)
        ratios = np.concatenate([self._process.ratios(step), self._sensor.ratios(bias)], axis=1)
        ratios /= self.nominal.shift * self._uncertainty(predicted, steps)
        logs = log_bayes_factor(ratios, self._n_params, steps) + self._outside_evidence(outside, steps)
        top = logs.max()
        onsets = np.full(n_rows, (1 - at_once) / n_rows)
        onsets[0] += at_once
        weights = np.exp(logs - top) * onsets[:, None]
        with np.errstate(divide="ignore"):
            total = np.log(weights.sum(axis=0)) + self._log_priors
        alone = np.maximum(total[:n_units], total[-n_units:])
        probability, posterior = inclusion(self._members, total, alone)
        best = int(probability.argmax())
        having = posterior * self._members[:, best]
        sensor = float(having[-n_units:].sum() / having.sum())
        return ShiftAnswer(probability, int(weights.sum(axis=1).argmax()), float(top + total.max()), sensor)

    def _uncertainty(self, predicted, steps):
        """Variance of the mean innovation of a window over what it would be with the plant known.

        An error of A moves the mean innovation by itself times the mean state; its variance is that of a
        regression on n rows, leverage included. Victims that are pushed far have the largest such errors.
        """
        level = np.cumsum(predicted[::-1], axis=0)[::-1] / steps
        leverage = ((level @ self.nominal.leverage) ** 2).sum(axis=1, keepdims=True)
        return 1.0 + steps * (1.0 + leverage) / self.nominal.n_rows

    def _outside_evidence(self, outside, steps):
        """Log evidence of every candidate in the off-subspace numbers: faults may show there or not."""
        excess = np.cumsum(outside[::-1], axis=0)[::-1] / (steps * self.nominal.outside)
        moved = log_scale_factor(excess, self.nominal.outside_dims / self.nominal.off_subspace, steps)
        either = {
            kind: np.logaddexp(np.log(1 - share), np.log(share) + moved) for kind, share in _OUTSIDE.items()
        }
        n_sets = len(self._sets)
        return np.concatenate([either["process"] @ self._members[:n_sets].T, either["sensor"]], axis=1)

    def _prepare(self, n_rows):
        """Signatures of all candidates for windows of up to `n_rows` rows."""
        states = [
            np.concatenate([np.arange(self.slices[m].start, self.slices[m].stop) for m in roots])
            for roots in self._sets
        ]
        information = step_information(self.model.carry, self.model.weight, n_rows)
        self._process = Signatures.prepare(information, states)
        bias = bias_information(self.model, n_rows)
        self._sensor = Signatures.prepare(bias, states[: len(self.slices)])
        self._n_params = np.concatenate([self._process.n_params, self._sensor.n_params])
