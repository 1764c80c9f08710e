"""When to raise an alarm: nominal rows, smoothing, return periods, thresholds that spend a budget."""

import re
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise, permutations
from typing import NamedTuple

import numpy as np
from scipy.signal import lfilter
from scipy.stats import chi2, norm

from ...arguments import warn
from ...statespace.detection.shift import InnovationModel, block_diagonal, block_sums, likelihood_ratios, step_scores
from ...statespace.episodes import episodes, inner_rows
from ...statespace.kalman import simulated_information, simulated_states
from ...statespace.matrices import eigen_root, floor_eigenvalues
from .tuning import TUNING

# When to raise an alarm: smoothing at several rates, and thresholds that spend a false-alarm budget.
#
# A threshold is set on nominal data, over all units and rates together: largest levels of nominal blocks have
# exponential tails (peaks over a threshold [1]_). A record holds few levels as rare as an alarm, and these few say less
# of a tail than what is known of tails beforehand: that of a statistic departs from that of smoothed normal innovations
# by as much as its excesses are no chance (James and Stein's shrinkage).
#
# References
# ----------
# .. [1] Davison, Smith (1990), Models for exceedances over high thresholds, Journal of the Royal Statistical Society
#        B 52.

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


# The nominal record: complete rows of it to learn from, and how far nominal windows stray.
#
# Imputed measurements have to vary as the missing ones would have. Their expectations do not: a record filled
# with these looks calmer than the plant is, and thresholds set on it are too low. So the server draws them
# from their distribution given the rest of the record.

LEAST_ATTENDED = 0.2  # share of the rows with all units for these to be learned from alone


class NominalRows(NamedTuple):
    """Complete nominal rows: usual information matrix (n, n), states (n_rows, n), off-subspace numbers
    (n_rows, n_units), first rows of segments, and (start, stop) of the folds that are held out in turn.
    """

    J: np.ndarray
    x: np.ndarray
    distance: np.ndarray
    starts: tuple[int, ...]
    folds: list[tuple[int, int]]

    @classmethod
    def of(cls, plant, messages, record, rng):
        """Rows of the messages that a plant was fitted to; raises ValueError if these are too few."""
        rows, starts = rows_to_learn_from(record)
        n_states = record.partition.n_states
        if len(rows) <= n_states:
            known = f"{len(rows)} nominal rows are too few to learn what is usual of {n_states} states of all units"
            raise ValueError(f"{known} together. Give several times as many rows as states, or fewer states.")
        folds = held_out_folds(starts, len(rows))
        distance = complete_distance(off_subspace(messages, record), record, rng)[rows]
        x = complete_states(plant, messages, record, rng)[rows]
        J = record.block_diagonal([usual_pattern(part) for part in record.parts])
        return cls(J, x, distance, starts, folds)

    def held_out(self, series):
        """A series of these rows by fold, without the first row of each."""
        return [series[start + 1 : stop] for start, stop in self.folds]


# -- rows to learn from ----------------------------------------------------------------------------------


def attended_rows(record):
    """Rows with every unit there, a few in a row at least: their positions, starts of segments."""
    there = np.ones(record.n_samples, dtype=bool)
    for part in record.parts:
        if not part.is_constant:
            there &= part.determined_rows
    rows, starts, n_rows = [np.arange(0)], [], 0
    for start, stop in episodes(record.starts, record.n_samples):
        for first, last in alarm_runs(there[start:stop], 1):
            if last - first >= TUNING.nominal_least_run:
                starts.append(n_rows)
                rows.append(np.arange(start + first, start + last + 1))
                n_rows += last + 1 - first
    return np.concatenate(rows), tuple(starts)


def rows_to_learn_from(record):
    """Rows from which the nominal spread is learned, and the first of each segment of them.

    Those with all units; all rows where these are few or scattered. ValueError if a unit was absent in most of them.
    """
    for name, part in zip(record.names, record.parts, strict=True):
        share = 0.0 if part.is_constant else 1 - np.mean(part.determined_rows)
        if share > TUNING.nominal_most_absent:
            found = (
                f"Unit {name!r} is absent in {100 * share:.0f} % of the nominal rows, too many to tell what is usual"
            )
            raise ValueError(f"{found} there. Give rows in which its sensors are there, or leave the unit out.")
    rows, starts = attended_rows(record)
    scattered = len(starts) > len(record.starts) + TUNING.nominal_most_gaps
    if scattered or len(rows) < LEAST_ATTENDED * record.n_samples:
        return np.arange(record.n_samples), record.starts
    return rows, starts


def held_out_folds(starts, n_samples):
    """(start, stop) of segments of similar length, two at least, that no episode border crosses."""
    if n_samples < TUNING.nominal_min_rows:
        needs = f"setting thresholds on rows held out needs at least {TUNING.nominal_min_rows}"
        raise ValueError(f"Got {n_samples} rows of nominal operation; {needs}.")
    wanted = n_samples / TUNING.nominal_n_folds
    folds = []
    for start, stop in episodes(starts, n_samples):
        bounds = np.linspace(start, stop, max(1, round((stop - start) / wanted)) + 1).astype(int).tolist()
        folds += [(i, j) for i, j in zip(bounds[:-1], bounds[1:], strict=True) if j - i > 1]
    if len(folds) < 2:
        found = f"The {len(starts)} segments of rows in which every unit is there are too short to hold one out"
        raise ValueError(f"{found}; give longer episodes, or rows with fewer gaps.")
    return folds


def off_subspace(messages, record):
    """The units' off-subspace numbers, shape (n_samples, n_units), zero for units that send none."""
    table = np.zeros((record.n_samples, len(record.names)))
    for m, name in enumerate(record.names):
        if messages[name].off_subspace is not None:
            table[:, m] = messages[name].off_subspace
    return table


# -- imputation ------------------------------------------------------------------------------------------


def usual_pattern(part):
    """Information matrix that a unit mostly has, the average one if sensors come and go most of the time."""
    if part.is_constant:
        return part.patterns[0]
    counts = np.bincount(part.index, minlength=len(part.patterns))
    counts *= part.regular_patterns  # of the rows in which the unit was there
    if not counts.any():
        return part.mean_information
    most, full = counts.argmax(), np.trace(part.patterns, axis1=1, axis2=2).argmax()
    if most == full and 2 * counts[most] > counts.sum():
        return part.patterns[most]
    return np.tensordot(counts / counts.sum(), part.patterns, 1)


def filled_states(record, predicted):
    """States as measured, missing sensors at the plant's prediction of them.

    Where the information matrix is ``J_t`` instead of the usual J, ``J^-1 (z + (J - J_t) predicted)``.
    """
    x = np.empty_like(record.z)
    for part, b in zip(record.parts, record.partition.slices, strict=True):
        usual = usual_pattern(part)
        lacking = np.einsum("tij,tj->ti", (usual - part.patterns)[part.pattern_of], predicted[:, b])
        x[:, b] = np.linalg.solve(usual, (part.z + lacking).T).T
    return x


def complete_states(plant, messages, record, rng):
    """States as measured, shape (n_samples, n), had every unit's usual sensors been there.

    ``J^-1 (z + (J - J_t) h + e)`` with a draw h of the states given the record and one e of covariance ``J - J_t``.
    """
    states = None if record.is_constant else draw_states(plant, messages, record, rng)
    x = np.empty_like(record.z)
    for part, b in zip(record.parts, record.partition.slices, strict=True):
        usual, z = usual_pattern(part), part.z
        if states is not None and not part.is_constant:
            lacking = floor_eigenvalues(usual - part.patterns, 0.0)
            z = z + simulated_information(lacking, part.index, states[:, b], rng)
        x[:, b] = np.linalg.solve(usual, z.T).T
    return x


def complete_distance(distance, record, rng):
    """Off-subspace numbers, (n_samples, n_units), those of rows without a unit drawn from its others."""
    distance = distance.copy()
    for m, part in enumerate(record.parts):
        if not part.is_constant:
            there = part.determined_rows
            distance[~there, m] = rng.choice(distance[there, m], np.count_nonzero(~there))
    return distance


def draw_states(plant, messages, record, rng):
    """States of the plant, shape (n_samples, n), drawn from their distribution given the whole record.

    A simulated plant shows by how much smoothed states miss the true ones (Durbin & Koopman 2002, A simple
    and efficient simulation smoother for state space time series analysis).
    """
    A, Q = getattr(plant, "lag_transitions_", plant.transition_), plant.process_cov_
    model = InnovationModel(A, Q, record.mean_information())
    states = simulated_states(model.transition, model.process_cov, record.starts, record.n_samples, rng)
    simulated = states[:, : model.n_states]
    rest = {}
    for name, part, b in zip(record.names, record.parts, record.partition.slices, strict=True):
        seen = simulated_information(part.patterns, part.pattern_of, simulated[:, b], rng)
        rest[name] = replace(messages[name], z=part.z - seen)
    return simulated + plant._abducted_states(rest)


# -- nominal spread --------------------------------------------------------------------------------------


def inverse_root(covariance, ridge=1e-9):
    """L with ``L L' = covariance^-1``, a share of the mean variance added as a ridge."""
    C = np.atleast_2d(covariance)
    try:
        return np.linalg.cholesky(np.linalg.inv(C + ridge * np.trace(C) / len(C) * np.eye(len(C))))
    except np.linalg.LinAlgError:
        raise ValueError(
            "States of units determine each other, or hardly vary beside others: a detector cannot tell them "
            "apart. Leave out units seen in few rows, copies of units, and sensors that are computed from others."
        ) from None


def direct_causes(A, covariance, slices, least=0.02):
    """Whether a unit's states enter the next states of another, by its share of their variance.

    A, (n, n p), has all lags side by side, and `covariance` is that of the states with them. Shape (n_units, n_units),
    row: effect, column: cause; a unit is not its own.
    """
    causes, lags = np.zeros((len(slices),) * 2, dtype=bool), np.arange(A.shape[1] // len(A))[:, None] * len(A)
    for m, k in permutations(range(len(slices)), 2):
        effect, cause = slices[m], (lags + np.arange(slices[k].start, slices[k].stop)).ravel()
        carried = A[effect, cause] @ covariance[np.ix_(cause, cause)] @ A[effect, cause].T
        shares = np.linalg.solve(covariance[effect, effect], carried)
        causes[m, k] = np.trace(shares) > least * len(shares)
    return causes


def curved_causes(x, starts, slices, least=0.02):
    """Whether the size of a unit's states, not their sign, moves those of another, (n_units, n_units).

    If only by way of others; by the squared correlation of what a linear model of rows x leaves of either. Row: effect,
    column: cause.
    """
    rows, z = inner_rows(len(x), starts), (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-12)
    past = np.column_stack([np.ones(len(rows)), z[rows - 1]])
    both = np.hstack([z[rows], np.abs(z[rows - 1])])
    left = both - past @ np.linalg.lstsq(past, both, rcond=None)[0]
    n = x.shape[1]
    shares = np.nan_to_num(np.corrcoef(left.T)[:n, n:] ** 2)
    shares = np.array([[shares[a, b].max() for b in slices] for a in slices])
    return by_way_of_others(shares > least + TUNING.nominal_curved_rows / len(rows))


def by_way_of_others(causes):
    """Which units act on which, if only by way of others, (n_units, n_units), from which do so directly."""
    itself = np.eye(len(causes), dtype=bool)
    return np.linalg.matrix_power(causes | itself, len(causes)) & ~itself


def usual_windows(held_out, slices, horizon, least):
    """Mean square of whitened innovations that nominal windows of `horizon` rows hardly pass, and by how much
    their likelihood ratios exceed chi-square, at least `least`.

    `held_out` are pairs of a model learned without a segment and the scaled innovations of the segment.
    """
    squares, ratios = [], []
    for model, scaled in held_out:
        information = model.step_information(horizon)[-1:]
        for first in range(0, len(scaled) - horizon + 1, horizon // 2):
            window = scaled[first : first + horizon]
            squares.append(((window @ model.whitening) ** 2).mean())
            b = step_scores(model, window)[:1]
            ratios += [
                likelihood_ratios(b, information, s)[0] / chi2.isf(TUNING.nominal_tail, s.stop - s.start)
                for s in slices
            ]
    if not squares:
        return 1.0, least
    return float(np.quantile(squares, 1 - TUNING.nominal_tail)), max(
        float(np.quantile(ratios, 1 - TUNING.nominal_tail)), least
    )


def scale_dispersion(series, dof, horizon):
    """By how much log-likelihood ratios of a scale in nominal windows exceed chi-square, at least one.

    From squares over their expectations, (n_rows, n_units) by segment, and their degrees of freedom, (n_units,).
    """
    found = []
    for rows in series:
        for first in range(0, len(rows) - horizon + 1, horizon // 2):
            excess = np.maximum(rows[first : first + horizon].mean(axis=0), 1e-300)
            found += (horizon * dof * (excess - 1 - np.log(excess)))[dof > 0].tolist()
    return (
        max(float(np.quantile(found, 1 - TUNING.nominal_tail)) / chi2.isf(TUNING.nominal_tail, 1), 1.0)
        if found
        else 1.0
    )


class OffSubspace:
    """Expected off-subspace numbers given the states, ``a_m + x_m' B_m x_m`` with B_m positive semidefinite.

    A victim whose states are pushed far shows it off its subspace as well; divided by the expectation, what the
    states do not explain has mean one. Learned from nominal states, (n_samples, n), and numbers, (n_samples, n_units),
    zero for units that send none: least squares weighted by the inverse squared expectation, which is maximum
    likelihood for gamma-distributed numbers.
    """

    def __init__(self, x, distance, slices):
        self._sums = block_sums(slices)
        self._least, roots = np.ones(len(slices)), [np.zeros((b.stop - b.start,) * 2) for b in slices]
        for m, b in enumerate(slices):
            if distance[:, m].any():
                self._least[m], roots[m] = quadratic_scale(x[:, b], distance[:, m])
        self._roots = block_diagonal(roots)

    def relative(self, x, distance):
        """Off-subspace numbers over their expectation from the states of the same rows."""
        return distance / (self._least + (x @ self._roots) ** 2 @ self._sums)


def quadratic_scale(x, g):
    """a and R of the expectation ``a + |x R|^2`` of g."""
    white = inverse_root(x.T @ x / len(x))
    x = x @ white
    i, j = np.triu_indices(x.shape[1])
    terms = np.column_stack([np.ones(len(x)), x[:, i] * x[:, j]])
    expected = np.full(len(x), g.mean())
    for _ in range(TUNING.nominal_reweightings):
        coefficients = np.linalg.lstsq(terms / expected[:, None], g / expected, rcond=None)[0]
        B = np.zeros((x.shape[1],) * 2)
        B[i, j] = coefficients[1:] / 2
        root = eigen_root(B + B.T)
        least = max(coefficients[0], 0.01 * g.mean())
        expected = least + ((x @ root) ** 2).sum(axis=1)
        scale = (g / expected).mean()
        expected *= scale
    return scale * least, np.sqrt(scale) * white @ root


# Return periods: one scale for statistics of any kind, on which a budget of false alarms can be spent.
#
# A statistic counts by how rarely it gets as large as it is, learned from its largest values in nominal blocks: up to
# their 85 % point by these themselves, above it by an exponential tail (peaks over a threshold [1]_). Few blocks say
# little of a tail, so that each is drawn towards those of all statistics of its kind.
#
# References
# ----------
# .. [1] Davison, Smith (1990), Models for exceedances over high thresholds, Journal of the Royal Statistical Society
#        B 52.

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
