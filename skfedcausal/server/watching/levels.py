"""Alarm levels of the units by both statistics, and the thresholds that spend a false-alarm budget."""

from functools import reduce

import numpy as np
from scipy.stats import norm

from ...statespace.detection.alarms import (
    RATES,
    alarm_runs,
    block_starts,
    ewma,
    extrapolated_thresholds,
    known_from,
    rate_interval,
)
from ...statespace.detection.energy import block_sums
from ...statespace.episodes import episodes

GAP = 20  # steps without an alarm after which an incident is over: the memory of the slowest average
STATISTICS = {"both": ("energy", "shift"), "energy": ("energy",), "shift": ("shift",)}
_N_DRAWS = 200
_DRAWN_FROM = 4  # times as many rows as the longest stretch that is drawn from them
_BLOCK = 60
_PRIOR_ROWS = 20.0  # weight of the model beside the data in the variance of a smoothed score


class AlarmLevels:
    """Smoothed surprises and shift scores of every unit, in units that make units comparable.

    Parameters
    ----------
    statistics : tuple of {"energy", "shift"}
    model : InnovationModel
    slices : sequence of slice
        States of each unit.

    Attributes
    ----------
    thresholds : dict of str to float
    false_alarms : dict
    """

    def __init__(self, statistics, model, slices):
        self.statistics, self.model, self.slices = statistics, model, slices
        self._sums = block_sums(slices)
        size = np.array([b.stop - b.start for b in slices])
        self._size, self._centre, self._spread = size, 1 - 2 / (9 * size), np.sqrt(2 / (9 * size))

    def learn(self, scaled, starts, surprise, held, run_length, rng):
        """Scales from nominal series and thresholds from the held-out ones.

        Parameters
        ----------
        scaled : ndarray of shape (n_samples, n)
            Nominal innovations.
        starts : sequence of int
        surprise, held : list of ndarray
            Held-out surprises (n_rows, n_units) and shift scores (n_rows, n) of every stretch.
        run_length : float
            Wanted steps between false alarms.
        rng : numpy.random.RandomState
        """
        self._roots = [self._whitening(scaled @ self.model.held, rate, starts) for rate in RATES[1:]]
        self._scales = [np.concatenate([ewma(s, rate) for s in surprise]).std(axis=0) for rate in RATES]
        self.thresholds = self._thresholds(np.concatenate(surprise), np.concatenate(held), run_length, rng)
        self._allow_for_estimation(sum(len(s) for s in surprise), run_length)
        n_alarms = 0
        for s, h in zip(surprise, held, strict=True):
            n_alarms += len(alarm_runs(self.relative(self.rows(s, h)[0]).max(axis=1) > 1, GAP))
        n_rows = sum(len(s) for s in surprise)
        low, high = rate_interval(n_alarms, n_rows)
        self.false_alarms = {
            "asked": 1 / run_length,
            "achieved": n_alarms / n_rows,
            "low": float(low),
            "high": float(high),
            "n_alarms": n_alarms,
            "n_steps": n_rows,
        }
        return self

    def _thresholds(self, surprise, held, run_length, rng):
        """Levels of stretches drawn in blocks that spend the budget: one alarm in a run length.

        Largest levels of draws as long as the record are mostly its own largest, so stretches are shorter
        than that, and the rest of the way to the run length is extrapolated.
        """
        length = int(np.ceil(min(run_length, len(surprise) / _DRAWN_FROM)))
        block = min(_BLOCK, length)
        maxima = np.empty((_N_DRAWS, len(self.statistics)))
        for k, starts in enumerate(block_starts(len(surprise), length, block, _N_DRAWS, rng)):
            rows = (starts[:, None] + np.arange(block)).reshape(-1)[:length]
            levels = self.rows(surprise[rows], held[rows])[0]
            maxima[k] = [levels[name].max() for name in self.statistics]
        limits = extrapolated_thresholds(maxima, np.exp(-length / run_length))
        return {name: float(limit) for name, limit in zip(self.statistics, limits, strict=True)}

    def _allow_for_estimation(self, n_rows, run_length):
        """Scale all averages by how well the standard deviation of the slowest is known.

        The faster ones are known better in simulated records; recorded ones are less alike from one part to
        the next than that.
        """
        factor = known_from(n_rows, run_length * len(self.slices), RATES[-1])
        self._scales = [factor * scale for scale in self._scales]
        self._roots = [root / factor for root in self._roots]

    def _whitening(self, held, rate, starts):
        """Per unit: matrix that whitens the averaged scores, from the data and the model together."""
        n_rows = len(held)
        averaged = np.concatenate([ewma(held[i:j], rate) for i, j in episodes(starts, n_rows)])
        factor = rate / (2 - rate)
        expected = factor * self.model.held.T @ self.model.weight @ self.model.held
        weight = n_rows * rate / 2
        covariance = (weight * (averaged.T @ averaged / n_rows) + _PRIOR_ROWS * expected) / (
            weight + _PRIOR_ROWS
        )
        root = np.zeros_like(expected)
        for b in self.slices:
            root[b, b] = np.linalg.cholesky(np.linalg.inv(covariance[b, b]))
        return root

    def rows(self, surprise, held, averages=None):
        """Alarm level of every unit by every statistic in use.

        Parameters
        ----------
        surprise : ndarray of shape (n_rows, n_units)
        held : ndarray of shape (n_rows, n)
        averages : list of ndarray, default=None
            Averages before the first row.

        Returns
        -------
        levels : dict of str to ndarray of shape (n_rows, n_units)
        averages : list of ndarray
            After the last row.
        """
        n_units = surprise.shape[1]
        both = np.concatenate([surprise, held], axis=1)
        averages = averages or [None] * len(RATES)
        smooth = [ewma(both, rate, average) for rate, average in zip(RATES, averages, strict=True)]
        levels = {}
        if "energy" in self.statistics:
            scaled = [x[:, :n_units] / scale for x, scale in zip(smooth, self._scales, strict=True)]
            levels["energy"] = np.maximum(np.maximum(scaled[0], scaled[1]), scaled[2])
        if "shift" in self.statistics:
            squares = [(x[:, n_units:] @ root) ** 2 for x, root in zip(smooth[1:], self._roots, strict=True)]
            ratios = [x @ self._sums for x in squares]
            # Wilson & Hilferty's normal score of a chi-square variable makes units of any size comparable
            largest = np.maximum(*ratios)
            levels["shift"] = (np.cbrt(largest / self._size) - self._centre) / self._spread
        return levels, [x[-1] for x in smooth]

    def shift_excess(self, run_length):
        """Ratio at the shift threshold over that of normal innovations at the same budget, at least one.

        Plants with rare modes of operation have heavy tails, which thresholds know and ratios do not.
        """
        if "shift" not in self.statistics:
            return 1.0
        normal = norm.isf(1 / (run_length * len(self.slices)))
        levels = np.array([[max(self.thresholds["shift"], normal)], [normal]])
        ratios = (self._centre + self._spread * levels) ** 3
        return float((ratios[0] / ratios[1]).max())

    def relative(self, levels):
        """Level over threshold of every unit, the larger of the statistics, shape (n_rows, n_units)."""
        return reduce(np.maximum, [levels[name] / self.thresholds[name] for name in self.statistics])
