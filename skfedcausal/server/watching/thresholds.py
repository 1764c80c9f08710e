"""When to raise an alarm: smoothing at several rates, and thresholds that spend a false-alarm budget.

A threshold is set on nominal data, over all units and rates together: largest levels of nominal blocks have
exponential tails (peaks over a threshold [1]_). A record holds few levels as rare as an alarm, and these few say less
of a tail than what is known of tails beforehand: that of a statistic departs from that of smoothed normal innovations
by as much as its excesses are no chance (James and Stein's shrinkage).

References
----------
.. [1] Davison, Smith (1990), Models for exceedances over high thresholds, Journal of the Royal Statistical Society
       B 52.
"""

import re
from functools import reduce
from itertools import pairwise

import numpy as np
from scipy.signal import lfilter
from scipy.stats import chi2, norm

from ...callers import warn
from ...statespace.detection.energy import block_diagonal, block_sums
from ...statespace.episodes import episodes
from .tuning import TUNING

GAP = 20  # steps without an alarm after which an incident is over: the memory of the slowest average
STATISTICS = {"both": ("energy", "shift"), "energy": ("energy",), "shift": ("shift",)}
RATES = (1.0, 0.2, 0.05)  # of the averages that are followed
_BLOCK = 2 * GAP  # rows of which the largest level is taken, so that an alarm is mostly in one of them
_USUAL_TAILS = {"energy": 1.5, "shift": 0.9}  # mean excess of nominal levels beyond where tails begin, times this place
_CLEARLY = 2.0  # times its expectation that the square of a mean is at least for a share of it to be no chance
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
_SECONDS |= {"month": 2629746, "year": 31556952}  # a twelfth of a Gregorian year, and the year

# -- budgets ---------------------------------------------------------------------------------------------


def steps_between_alarms(rate, period=None):
    """Steps between false alarms that a budget allows.

    `rate` is a number of alarms per time step, or for instance "1 per day", "2/week", "1 per 500 steps";
    rates per unit of time need the time between rows of the nominal record, a Timedelta.
    """
    if not isinstance(rate, str):
        return 1.0 / rate
    given = f"false_alarm_rate={rate!r}"
    found = re.fullmatch(r"\s*([\d.]+)(?:\s+per\s+|\s*/\s*)(?:([\d.]+)\s+)?([a-z]+?)s?\s*", rate)
    if found is None or found[3] not in {*_SECONDS, "step"} or float(found[1]) <= 0:
        units = f"units: step, {', '.join(_SECONDS)}"
        raise ValueError(f"{given} cannot be read; give a number per time step or for instance '1 per day' ({units}).")
    steps = float(found[2] or 1) / float(found[1])
    if found[3] != "step":
        if period is None:
            remedy = "give frames with a DatetimeIndex, or the rate as a number per time step"
            raise ValueError(f"{given} needs to know the sampling period: {remedy}.")
        steps = float(found[2] or 1) * _SECONDS[found[3]] / period.total_seconds() / float(found[1])
    if steps <= 1:
        raise ValueError(f"{given} allows {1 / steps:.3g} alarms per time step; give less than one.")
    return steps


def watch_budget(run_length, n_samples):
    """Warn of a run length that the nominal record cannot support.

    A record shows nothing about events rarer than about two of its lengths.
    """
    if run_length > n_samples / 2:
        warn(
            f"One false alarm per {run_length:.0f} steps is asked for, but there are only {n_samples} nominal steps to "
            "set thresholds on; the rate achieved will be uncertain. Give more nominal data, or ask for a higher rate.",
        )


# -- alarms on plain series ------------------------------------------------------------------------------


def ewma(series, rate, state=None):
    """Moving average ``v_t = v_(t-1) + rate (x_t - v_(t-1))`` over rows, shape (n_samples, k).

    `state`, shape (k,), is the average before the first row; None stands for zero.
    """
    if rate == 1.0:
        return series
    start = np.zeros(series.shape[1]) if state is None else (1 - rate) * state
    if len(series) == 1:
        return rate * series + start
    return lfilter([rate], [1.0, rate - 1.0], series, axis=0, zi=start[None])[0]


def alarm_runs(alarm, gap):
    """(first, last) row of every run of alarms, rows of alarm at most `gap` apart being of one run."""
    rows = np.flatnonzero(alarm)
    if len(rows) == 0:
        return []
    cuts = np.flatnonzero(rows[1:] - rows[:-1] > gap).tolist()
    places = rows.tolist()
    return [(places[i + 1], places[j]) for i, j in pairwise([-1, *cuts, len(places) - 1])]


def no_chance(squares, expected=1):
    """Share of means that is no chance, from their squares and what these are expected to be by chance."""
    return np.maximum(1 - _CLEARLY * expected / np.maximum(squares, 1e-300), 0.0)


def rarely_passed(maxima, usual, n_blocks):
    """Levels that one of several statistics passes once in `n_blocks` blocks, and the mean excesses of their tails.

    From their largest levels in nominal blocks, (n_known, n_statistics). Tails begin as far out as some of these are
    beyond, and their mean excess is `usual` over that level where theirs may be so by chance. How often is known from
    few excesses, and the promise is that it is not more often.
    """
    ordered = np.sort(maxima, axis=0)
    asked = -np.expm1(-1 / n_blocks)  # share of blocks in which a Poisson process has any
    share = max(asked, np.clip(TUNING.thresholds_excesses / len(maxima), *TUNING.thresholds_tail))
    first = min(max(int((1 - share) * len(ordered)), 1), len(ordered) - 1)
    begin = ordered[max(first - 1, 0)]
    excess = ordered[first:] - begin
    expected = usual / np.maximum(begin, 1.0)
    found = np.minimum(excess.mean(axis=0), TUNING.thresholds_outlier * np.median(excess, axis=0))  # of a start-up
    tail = expected + no_chance((found - expected) ** 2, expected**2 / len(excess)) * (found - expected)
    passed = max((maxima > begin).any(axis=1).mean(), 1 / len(maxima))
    return begin + tail * (np.log(passed / asked) + TUNING.thresholds_promise / np.sqrt(len(excess))), tail


def rate_interval(n_alarms, n_steps, confidence=0.95):
    """Exact interval of a Poisson rate per step (Garwood 1936, Biometrika 28)."""
    tail = (1 - confidence) / 2
    low = chi2.ppf(tail, 2 * n_alarms) / 2 if n_alarms else 0.0
    return float(low / n_steps), float(chi2.isf(tail, 2 * n_alarms + 2) / 2 / n_steps)


# -- levels of the units ---------------------------------------------------------------------------------


class AlarmLevels:
    """Smoothed surprises and shift scores of every unit, on scales that make units comparable.

    `statistics` are one or two of "energy" and "shift", `model` the InnovationModel of the plant, `slices`
    the states of each unit. Learning sets `thresholds`, by statistic, and `false_alarms`, the rate asked for
    and the one achieved on the rows held out. Tails of levels are exponential, so that the threshold of an alarm that
    is e times as rare is higher by their mean excess.
    """

    def __init__(self, statistics, model, slices):
        self.statistics, self.model, self.slices = statistics, model, slices
        self._rises = np.zeros(0)
        self._sums = block_sums(slices)
        # Wilson & Hilferty's normal score of a chi-square variable makes units of any size comparable
        self._size = np.array([b.stop - b.start for b in slices])
        self._centre, self._spread = 1 - 2 / (9 * self._size), np.sqrt(2 / (9 * self._size))

    def learn(self, scaled, starts, surprise, held, run_length):
        """Scales from nominal innovations, shape (n_samples, n), and thresholds from rows held out.

        `surprise`, (n_rows, n_units), and `held`, shift scores (n_rows, n), are lists by held-out segment.
        """
        self._roots = [self._whitening(scaled @ self.model.held, rate, starts) for rate in RATES[1:]]
        self._scales = [np.concatenate([ewma(s, rate) for s in surprise]).std(axis=0) for rate in RATES]
        levels = [self.rows(s, h)[0] for s, h in zip(surprise, held, strict=True)]
        size = min(_BLOCK, max(map(len, levels)))
        blocks = [part[: len(part) // size * size].reshape(-1, size, *part.shape[1:]) for part in levels]
        maxima = np.concatenate([part.max(axis=(1, 3)) for part in blocks])
        usual = np.array([_USUAL_TAILS[name] for name in self.statistics])
        limits, self._rises = rarely_passed(maxima, usual, run_length / size)
        self.thresholds = dict(zip(self.statistics, limits.tolist(), strict=True))
        n_alarms = sum(len(alarm_runs(self.relative(rows).max(axis=1) > 1, GAP)) for rows in levels)
        self._tell(1 / run_length, n_alarms, sum(map(len, levels)))
        return self

    def take_in(self, name, threshold, n_alarms, asked):
        """Take in a statistic learned by itself, with its alarms in the nominal record; `asked` is the rate in all."""
        self.thresholds[name] = threshold
        self._rises = np.append(self._rises, 1 / np.log(10))  # of log10 return periods
        told = self.false_alarms
        self._tell(asked, told["n_alarms"] + n_alarms, told["n_steps"])

    def _tell(self, asked, n_alarms, n_rows):
        """Store the rates asked for and achieved."""
        low, high = rate_interval(n_alarms, n_rows)
        rates = {"asked": asked, "achieved": n_alarms / n_rows, "low": low, "high": high}
        self.false_alarms = rates | {"n_alarms": n_alarms, "n_steps": n_rows}

    def _whitening(self, held, rate, starts):
        """Per unit: matrix that whitens the averaged scores, from the data and the model together."""
        n_rows = len(held)
        averaged = np.concatenate([ewma(held[i:j], rate) for i, j in episodes(starts, n_rows)])
        expected = rate / (2 - rate) * self.model.held_covariance
        weight = n_rows * rate / 2
        covariance = (weight * (averaged.T @ averaged / n_rows) + TUNING.thresholds_prior_rows * expected) / (
            weight + TUNING.thresholds_prior_rows
        )
        return block_diagonal([np.linalg.cholesky(np.linalg.inv(covariance[b, b])) for b in self.slices])

    def rows(self, surprise, held, averages=None, doubt=None):
        """Alarm level of every unit by every statistic, shape (n_rows, n_statistics, n_units).

        Also gives the averages after the last row; `averages` are those before the first. `doubt`,
        (n_rows, n_rates - 1), is the variance of averaged scores over the usual one.
        """
        n_units = surprise.shape[1]
        both = np.concatenate([surprise, held], axis=1)
        averages = averages or [None] * len(RATES)
        smooth = [ewma(both, rate, average) for rate, average in zip(RATES, averages, strict=True)]
        levels = np.empty((len(both), len(self.statistics), n_units))
        for k, name in enumerate(self.statistics):
            if name == "energy":
                scaled = [x[:, :n_units] / scale for x, scale in zip(smooth, self._scales, strict=True)]
                levels[:, k] = reduce(np.maximum, scaled)
            else:
                squares = [(x[:, n_units:] @ R) ** 2 @ self._sums for x, R in zip(smooth[1:], self._roots, strict=True)]
                if doubt is not None:
                    squares = [x / v[:, None] for x, v in zip(squares, doubt.T, strict=True)]
                largest = reduce(np.maximum, squares)
                levels[:, k] = (np.cbrt(largest / self._size) - self._centre) / self._spread
        return levels, [x[-1] for x in smooth]

    def shift_excess(self, run_length):
        """Ratio at the shift threshold over that of normal innovations at the same budget, at least one.

        Plants with rare modes of operation have heavy tails, which show in thresholds but not in ratios.
        """
        if "shift" not in self.statistics:
            return 1.0
        normal = norm.isf(1 / (run_length * len(self.slices)))
        levels = np.array([[max(self.thresholds["shift"], normal)], [normal]])
        ratios = (self._centre + self._spread * levels) ** 3
        return float((ratios[0] / ratios[1]).max())

    def relative(self, levels, beyond=None):
        """Level over threshold of every unit, the larger of the statistics, shape (n_rows, n_units).

        Where inputs are `beyond` their ranges in the nominal record, (n_rows,), thresholds are those of rarer alarms.
        """
        limits = list(self.thresholds.values())
        if beyond is not None and beyond.any():
            rarer = TUNING.thresholds_falls * np.log1p(beyond)[:, None]
            limits = [limit + rise * rarer for limit, rise in zip(limits, self._rises, strict=True)]
        return reduce(np.maximum, [levels[:, k] / limit for k, limit in enumerate(limits)])
