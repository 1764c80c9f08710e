"""When to raise an alarm: smoothing at several rates, thresholds from a false-alarm budget, onsets.

A threshold is set on nominal data, over all units and rates together: alarms that come once per `run_length`
steps are a Poisson process nearly, so a stretch of that length is silent with probability exp(-1), and the
threshold is the exp(-1) quantile of the maximum over such stretches. The stretches are drawn by a block
bootstrap, which keeps the dependence within a block.

References
----------
.. [1] Kuensch (1989), The jackknife and the bootstrap for general stationary observations, Annals of
       Statistics 17(3).
.. [2] Page (1954), Continuous inspection schemes, Biometrika 41(1/2).
"""

from itertools import pairwise

import numpy as np
from scipy import stats
from scipy.signal import lfilter

RATES = (1.0, 0.2, 0.05)
_GUMBEL_FROM = 0.1, 0.5  # shares of silent draws from which rarer alarms are extrapolated
SILENT = float(np.exp(-1))


def ewma(series, rate, state=None):
    """Exponentially weighted moving average over rows, ``v_t = v_(t-1) + rate (x_t - v_(t-1))``.

    Parameters
    ----------
    series : ndarray of shape (n_samples, k)
    rate : float
        In (0, 1].
    state : ndarray of shape (k,), default=None
        Average before the first row; None stands for zero.

    Returns
    -------
    ndarray of shape (n_samples, k)
    """
    if rate == 1.0:
        return series
    start = np.zeros(series.shape[1]) if state is None else (1 - rate) * state
    return lfilter([rate], [1.0, rate - 1.0], series, axis=0, zi=start[None])[0]


def block_starts(n_rows, n_needed, block, n_draws, rng):
    """First rows of the blocks of each bootstrap stretch, shape (n_draws, n_blocks)."""
    n_blocks = -(-n_needed // block)
    return rng.randint(0, max(n_rows - block, 0) + 1, size=(n_draws, n_blocks))


def budget_thresholds(maxima, silent=SILENT):
    """Thresholds of several statistics that share one false-alarm budget equally.

    Parameters
    ----------
    maxima : ndarray of shape (n_draws, n_statistics)
        Largest value of each statistic over stretches as long as the wanted run length.
    silent : float
        Probability that no statistic passes its threshold over a stretch.

    Returns
    -------
    ndarray of shape (n_statistics,)
        Every statistic at the same quantile of its maxima.
    """
    maxima = np.sort(maxima, axis=0), maxima
    n_draws = len(maxima[1])
    for k in range(n_draws):
        if (maxima[1] <= maxima[0][k]).all(axis=1).mean() >= silent:
            return maxima[0][k]
    return maxima[0][-1]


def extrapolated_thresholds(maxima, silent):
    """The same, beyond the quantiles that the draws tell by Gumbel's law of largest values.

    Parameters
    ----------
    maxima : ndarray of shape (n_draws, n_statistics)
    silent : float
        As in :func:`budget_thresholds`.

    Returns
    -------
    ndarray of shape (n_statistics,)
    """
    low, high = _GUMBEL_FROM
    if silent <= high:
        return budget_thresholds(maxima, silent)
    lower, upper = budget_thresholds(maxima, low), budget_thresholds(maxima, high)
    position, start, end = (-np.log(-np.log(p)) for p in (silent, low, high))
    return upper + (upper - lower) * (position - end) / (end - start)


def known_from(n_rows, run_length, rate):
    """Factor of a threshold whose unit, a standard deviation, is known from a record of `n_rows` rows only.

    Averages over ``(2 - rate) / rate`` rows are nearly independent, so the record has ``v = n_rows rate /
    (2 - rate)`` of them, and a new average over the estimated standard deviation is nearly a Student variable
    with v degrees of freedom. The factor is its quantile over the normal one at the tail ``1 / run_length``.

    Parameters
    ----------
    n_rows : int
    run_length : float
        Wanted averages between those that pass the threshold.
    rate : float
        Of the average.

    Returns
    -------
    float
    """
    tail = min(1 / run_length, 0.1)
    return float(stats.t.isf(tail, max(n_rows * rate / (2 - rate), 2.0)) / stats.norm.isf(tail))


def rate_interval(n_alarms, n_steps, level=0.95):
    """Exact interval of a Poisson rate per step [1]_.

    References
    ----------
    .. [1] Garwood (1936), Fiducial limits for the Poisson distribution, Biometrika 28(3/4).
    """
    tail = (1 - level) / 2
    low = stats.chi2.ppf(tail, 2 * n_alarms) / 2 if n_alarms else 0.0
    return low / n_steps, stats.chi2.isf(tail, 2 * n_alarms + 2) / 2 / n_steps


def alarm_runs(alarm, gap):
    """Stretches of alarm, those closer than `gap` rows joined.

    Parameters
    ----------
    alarm : ndarray of bool, shape (n_samples,)
    gap : int
        Rows without an alarm after which a stretch is over.

    Returns
    -------
    list of tuple (first, last)
    """
    rows = np.flatnonzero(alarm)
    if len(rows) == 0:
        return []
    cuts = np.flatnonzero(rows[1:] - rows[:-1] > gap).tolist()
    rows = rows.tolist()
    return [(rows[i + 1], rows[j]) for i, j in pairwise([-1, *cuts, len(rows) - 1])]


def onset(evidence, drift):
    """Row at which a cumulative sum of ``evidence - drift`` was lowest: the start of a change [2]_.

    Parameters
    ----------
    evidence : ndarray of shape (k,)
        Last row: the alarm.
    drift : float

    Returns
    -------
    int
    """
    sums = np.concatenate([[0.0], np.cumsum(evidence - drift)[:-1]])
    return int(sums.argmin())
