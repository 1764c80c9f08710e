"""Return periods: one scale for statistics of any kind, on which a budget of false alarms can be spent.

A statistic counts by how rarely it gets as large as it is, learned from its largest values in nominal blocks: up to
their 85 % point by these themselves, above it by an exponential tail (peaks over a threshold [1]_). Few blocks say
little of a tail, so that each is drawn towards those of all statistics of its kind.

References
----------
.. [1] Davison, Smith (1990), Models for exceedances over high thresholds, Journal of the Royal Statistical Society
       B 52.
"""

from dataclasses import dataclass

import numpy as np

from .tuning import TUNING

NOTHING, ABSENT = -99.0, -1.0  # statistic of nothing, and its return period
_TOP, _MIDDLE = -np.log10(1 - TUNING.rarity_body), -np.log10(0.5)


@dataclass(frozen=True, eq=False)
class ReturnPeriods:
    """How rarely statistics get as large as they are.

    begin : where the tails begin, (n_statistics,)
    body : distance from there to the median of the largest values, (n_statistics,)
    tail : mean excess of the tails, (n_statistics,)
    """

    begin: np.ndarray
    body: np.ndarray
    tail: np.ndarray

    @classmethod
    def learn(cls, maxima, kinds):
        """From largest values in nominal blocks, (n_blocks, n_statistics); `kinds` numbers that of each statistic."""
        maxima = np.sort(maxima, axis=0)
        first = int(TUNING.rarity_body * len(maxima))
        begin, middle = maxima[first], maxima[len(maxima) // 2]
        body = np.maximum(begin - middle, 0.05 * np.abs(begin) + 1e-6)
        excess = (maxima[first + 1 :] - begin) / body
        mean, median, n = excess.mean(axis=0), np.median(excess, axis=0), len(excess)
        tail = np.where((median > 0) & (median < 0.2 * mean), np.minimum(mean, TUNING.rarity_outlier * median), mean)
        tail = np.where(mean > 0, tail, 1.0)
        usual = np.array([np.median(tail[kinds == kind]) for kind in range(kinds.max() + 1)])[kinds]
        drawn = (n * tail + TUNING.rarity_prior_blocks * usual) / (n + TUNING.rarity_prior_blocks)
        return cls(begin, body, body * np.maximum(drawn, TUNING.rarity_least_tail))

    def of(self, values):
        """log10 of the blocks in which each statistic gets so large once, (n_rows, n_statistics): 0 for the usual.

        ABSENT where there is nothing to be told.
        """
        beyond = values - self.begin
        tail = _TOP + beyond / (self.tail * np.log(10))
        inside = _TOP + beyond / self.body * (_TOP - _MIDDLE)
        return np.where(values > NOTHING, np.maximum(np.where(beyond > 0, tail, inside), 0.0), ABSENT)
