"""Posterior over the units that may be the root, from either statistic."""

from dataclasses import dataclass

import numpy as np

from ...statespace.detection.roots import (
    inclusion,
    log_bayes_factor,
    log_prior_of_sets,
    log_scale_factor,
    log_sum,
    root_sets,
    tempered,
)
from ...statespace.detection.shift import (
    Signatures,
    bias_information,
    step_and_bias_scores,
    step_information,
    sums_to_end,
)

_SHARPNESS = 8.0  # of the energy posterior, by log loss on simulated faults
_MAX_PAIRED = 20  # units up to which two roots at a time are candidates
_SECOND_ROOT = 0.2  # prior weight of a second root
_SENSOR = 0.5  # prior weight of a sensor fault beside a process fault of the same unit
_OUTSIDE = {"sensor": 0.9, "process": 0.1}  # prior probability that a fault shows off the subspace
_WHATEVER = 0.1  # prior weight of a disturbance that is no steady fault


@dataclass(frozen=True)
class Nominal:
    """What the two statistics are compared with.

    Attributes
    ----------
    dims, outside_dims : ndarray of shape (n_units,)
        Degrees of freedom of the units' surprises, and of the off-subspace numbers in them.
    leverage : ndarray of shape (n, n)
        Root of the inverse covariance of the predicted states.
    n_rows : int
        Rows that the plant was learned from.
    rest : float
        Mean square of the whitened innovations that nominal windows hardly pass.
    shift, energy, off_subspace : float
        By how much the likelihood ratios of nominal windows exceed what independent normal innovations
        would give, at least one.
    """

    dims: np.ndarray
    outside_dims: np.ndarray
    leverage: np.ndarray
    n_rows: int
    rest: float
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
    explains : bool
        Whether what the best candidate leaves unexplained is nominal, the other units' off-subspace numbers
        included.
    """

    probability: np.ndarray
    onset: int
    evidence: float
    sensor: float
    explains: bool


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
        self._log_priors -= log_sum(self._log_priors)
        self._members = np.zeros((len(self._log_priors), n_units))
        for k, roots in enumerate([*self._sets, *self._sets[:n_units]]):
            self._members[k, list(roots)] = 1.0
        self._prepare(n_rows)

    def from_energy(self, evidence):
        """Posterior over roots from the energy statistic over a window, shape (n_units,)."""
        return tempered(evidence.sum(axis=0), max(len(evidence), self.horizon), _SHARPNESS, self.prior)

    def energy_evidence(self, surplus, outside):
        """Log evidence that whatever disturbs one of the units over a window, against no fault.

        Parameters
        ----------
        surplus : ndarray of shape (n_rows, n_units)
            Surprises of the states given the other units, over their nominal mean.
        outside : ndarray of shape (n_rows, n_units)
            Off-subspace numbers over what the states let expect.
        """
        nominal, n_rows = self.nominal, len(surplus)
        states, rest = surplus.mean(axis=0), outside.mean(axis=0)
        beside = nominal.outside_dims / nominal.dims
        factors = (
            log_scale_factor(states, nominal.dims - nominal.outside_dims, n_rows),
            log_scale_factor((1 - beside) * states + beside * rest, nominal.dims, n_rows),
        )
        with np.errstate(divide="ignore"):
            factor = np.maximum(*factors) / nominal.energy + np.log(self.prior)
        return log_sum(factor) + float(np.log(_WHATEVER))

    def from_shift(self, windows, n_onsets, at_once=0.0):
        """Posterior over roots in every window from the coherent shift statistic, its onset free.

        Parameters
        ----------
        windows : sequence of tuple (scaled, predicted, outside)
            Of each window the scaled innovations and predicted states, shape (n_rows, n), and the
            off-subspace numbers over what the states let expect, shape (n_rows, n_units).
        n_onsets : int
            Rows from the first one on in which the fault may have started.
        at_once : float
            Prior probability that the fault is there from the first row; the rest is spread evenly.

        Returns
        -------
        list of ShiftAnswer
        """
        longest = max(len(scaled) for scaled, _, _ in windows)
        if longest > self._process.n_rows:
            self._prepare(longest)
        scores = step_and_bias_scores(self.model, _stacked([scaled for scaled, _, _ in windows]))
        onsets = np.full(n_onsets, (1 - at_once) / n_onsets)
        onsets[0] += at_once
        return [
            self._answer(window, step[:n_onsets], bias[:n_onsets], onsets)
            for window, step, bias in zip(windows, *scores, strict=True)
        ]

    def _answer(self, window, step, bias, onsets):
        """Answer to one window from the scores of both kinds of fault and the prior of their onsets."""
        scaled, predicted, outside = window
        n_rows, n_units = outside.shape
        at = slice(len(self._steps) - n_rows, len(self._steps) - n_rows + len(onsets))
        steps, after = self._steps[at], n_rows - len(onsets)
        ratios = np.concatenate([self._process.ratios(step, after), self._sensor.ratios(bias, after)])
        tempering = self.nominal.shift * self._uncertainty(predicted, steps)
        logs = ratios * (self._gain[at] / tempering)
        logs += self._penalty[:, at]
        logs[-n_units:] += self._outside_evidence(outside, steps)
        top = logs.max()
        logs -= top
        weights = np.exp(logs, out=logs)
        with np.errstate(divide="ignore"):
            total = np.log(weights @ onsets) + self._log_priors
        alone = np.maximum(total[:n_units], total[-n_units:])
        probability, posterior = inclusion(self._members, total, alone)
        best = int(probability.argmax())
        sensor = float(posterior[best - n_units] / (posterior @ self._members[:, best]))
        onset = int((weights.sum(axis=0) * onsets).argmax())
        white = (scaled[onset:] @ self.model.whitening).ravel()
        rest = float(white @ white - ratios[total.argmax(), onset])
        rest /= self.nominal.rest * steps[onset] * scaled.shape[1]
        explains = rest <= 1 and self._nothing_else_outside(outside[onset:], best)
        evidence = float(top) + log_sum(total)
        return ShiftAnswer(probability, onset, evidence, sensor, explains)

    def _nothing_else_outside(self, outside, root):
        """Whether the off-subspace numbers of all units but the root are nominal."""
        dims = self.nominal.outside_dims / self.nominal.off_subspace
        moved = log_scale_factor(outside.sum(axis=0) / len(outside), dims, len(outside))
        moved[root] = 0.0
        return bool(moved.max() <= 0)

    def _uncertainty(self, predicted, steps):
        """Variance of the mean innovation of a window over what it would be with the plant known.

        An error of A moves the mean innovation by itself times the mean state; its variance is that of a
        regression on n rows, leverage included. Victims that are pushed far have the largest such errors.
        """
        level = sums_to_end(predicted @ self.nominal.leverage)[: len(steps)]
        leverage = np.einsum("ti,ti->t", level, level) / steps
        return 1.0 + (steps + leverage) / self.nominal.n_rows

    def _outside_evidence(self, outside, steps):
        """Log evidence for a sensor fault against a process fault in the off-subspace numbers."""
        excess = sums_to_end(outside)[: len(steps)].T / steps
        dims = self.nominal.outside_dims / self.nominal.off_subspace
        moved = log_scale_factor(excess, dims[:, None], steps)
        still = np.exp(-moved)  # relative likelihood that nothing moved, at most the root of n_rows + 1
        sensor, process = (p + (1 - p) * still for p in _OUTSIDE.values())
        return np.log(sensor / process)

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
        n_params = np.concatenate([self._process.n_params, self._sensor.n_params])
        self._steps = np.arange(n_rows, 0, -1.0)  # rows from each onset to the end
        self._gain = log_bayes_factor(1.0, 0, self._steps)  # log Bayes factors are linear in the ratio
        self._penalty = log_bayes_factor(0.0, n_params[:, None], self._steps)
        self._penalty[np.isneginf(self._log_priors)] = -np.inf  # not to set the scale of those that may be


def _stacked(series):
    """Series of several windows side by side, zero after the end of the shorter ones."""
    if len(series) == 1:
        return series[0][None]
    stack = np.zeros((len(series), max(map(len, series)), series[0].shape[1]))
    for rows, window in zip(stack, series, strict=True):
        rows[: len(window)] = window
    return stack
