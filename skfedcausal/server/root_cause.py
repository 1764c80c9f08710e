"""Which unit started it: alarms from a false-alarm budget and a posterior over roots, from messages alone."""

import warnings
from dataclasses import dataclass, field, replace

import numpy as np

from ..statespace.alarms import (
    RATES,
    alarm_runs,
    block_starts,
    budget_thresholds,
    ewma,
    onset,
    rate_interval,
)
from ..statespace.episodes import episodes
from ..statespace.filter import filtered_states, predicted_states
from ..statespace.lagcov import TransitionMoments, lag_covariances
from ..statespace.roots import inclusion, log_bayes_factor, log_prior_of_sets, root_sets, tempered
from ..statespace.shift import InnovationModel, likelihood_ratios, step_information, step_scores
from ..statespace.units import moment_start
from .joint import JointRecord
from .watch import WatchState, learn_watch

LOOKBACK = 100  # steps before the alarm in which the onset is looked for
HORIZON = 80  # steps after the alarm until which an answer is revised
GAP = 10  # steps without an alarm after which an incident is over
_DRIFT = 0.2  # of the cumulative sum that finds the onset
_SHARPNESS = 8.0  # of the energy posterior, by log loss on simulated faults
_N_FOLDS = 4
_N_DRAWS = 200
_BLOCK = 60
_SURE = 2.0  # multiple of its threshold at which the energy statistic answers for a window nobody alarmed
_SECOND_ROOT = 0.2  # prior weight of a second root
_PRIOR_ROWS = 20.0  # weight of the model beside the data in the variance of a smoothed score
STATISTICS = {"both": ("energy", "shift"), "energy": ("energy",), "shift": ("shift",)}


@dataclass(frozen=True)
class Verdict:
    """What is known of one incident.

    Attributes
    ----------
    start, detected, last : int
        Onset, first and last row in alarm.
    open : bool
        Whether it may still go on.
    statistic : {"energy", "shift"}
        Which statistic named the root.
    probability : ndarray of shape (n_units,)
    first_rows : ndarray of shape (n_units,)
        Row in which each unit's own surprise was first out of bounds, -1 if never.
    """

    start: int
    detected: int
    last: int
    open: bool
    statistic: str
    probability: np.ndarray
    first_rows: np.ndarray


@dataclass
class Incident:
    """An incident that is followed: rows of its first and last alarm, its highest level, what is known."""

    detected: int
    last: int
    peak: float
    open: bool = True
    verdict: Verdict | None = None


@dataclass
class StreamState:
    """Everything a stream needs to go on: constant size whatever has passed."""

    watch: WatchState = field(default_factory=WatchState)
    averages: tuple | None = None
    position: int = 0
    rows: dict | None = None  # the last rows of every series
    incidents: list = field(default_factory=list)  # those that may still change


class RootCauseServer:
    """Alarms and roots from messages, learned from nominal messages and the fitted plant.

    Parameters
    ----------
    statistic : {"both", "energy", "shift"}
    run_length : float
        Wanted steps between false alarms, all units and statistics together.
    prior : ndarray of shape (n_units,)
        Prior probability of each unit being the root.
    rng : numpy.random.RandomState
    """

    def __init__(self, statistic, run_length, prior, rng):
        self.statistics = STATISTICS[statistic]
        self.run_length, self.prior, self._rng = run_length, prior, rng

    # -- learning --------------------------------------------------------------------------------

    def fit(self, plant, messages):
        """Learn what is nominal.

        Parameters
        ----------
        plant : LikelihoodServer
            Fitted to the same messages.
        messages : dict of str to StateMessage
        """
        record = JointRecord.from_messages(messages, names=plant.names_)
        self.names = record.names
        self.slices = record.partition.slices
        self._starts_of_units = np.array([b.start for b in self.slices])
        J = record.block_diagonal([_usual_pattern(part) for part in record.parts])
        self.model = InnovationModel(plant.transition_, plant.process_cov_, J)
        distance = off_subspace(messages, record)
        self.dims = np.array([b.stop - b.start for b in self.slices]) + _mean_dims(distance)
        run = plant.filter(messages)
        x = _filled_states(record, run.predicted)
        folds = held_out_folds(record.starts, record.n_samples)
        self.watch, own, given = learn_watch(
            self.model, x, distance, folds, self.slices, getattr(plant, "regressor", None)
        )
        self.usual = np.concatenate(given).mean(axis=0)
        surprise = [np.log1p(a / self.dims) for a in own]
        self.level = np.concatenate(surprise).mean(axis=0)
        z = record.z if record.is_constant else x @ self.model.J
        filtered = filtered_states(self.model.schedule, (z, None), starts=record.starts)
        scaled = self.model.scaled(z, predicted_states(self.model.A, filtered, starts=record.starts))
        self.shift_roots = [
            self._shift_root(scaled @ self.model.held, rate, record.starts) for rate in RATES[1:]
        ]
        held = self._held_out_shift_scores(x, folds)
        self._calibrate([s - self.level for s in surprise], held)
        self._sets = root_sets(len(self.names))
        self._set_priors = log_prior_of_sets(self._sets, self.prior, _SECOND_ROOT)
        self._prepare_candidates(LOOKBACK + HORIZON + 1)
        self.dispersion = self._dispersion(record, distance)
        return self

    def _held_out_shift_scores(self, x, folds):
        """Scores of a held shift in every fold under a plant learned from the other folds.

        In-sample innovations are whiter and better centred than those of new data, and thresholds set on
        them too low.
        """
        N = np.linalg.pinv(self.model.J, hermitian=True)
        scores = []
        for k, (start, stop) in enumerate(folds):
            parts = [x[i:j] for m, (i, j) in enumerate(folds) if m != k]
            series, starts = np.concatenate(parts), (0, *np.cumsum([len(p) for p in parts])[:-1].tolist())
            level = series.mean(axis=0)
            series = series - level
            sums = lag_covariances(series, range(3), starts)
            A, Q = moment_start(TransitionMoments.from_sums(sums, series, starts), N)
            model = InnovationModel(A, (Q + Q.T) / 2, self.model.J)
            z = (x[start:stop] - level) @ model.J
            filtered = filtered_states(model.schedule, (z, None))
            scaled = model.scaled(z, predicted_states(A, filtered))
            scores.append((scaled @ model.held)[1:])
        return scores

    def _calibrate(self, surprise, held):
        """Scales of the averages and thresholds that spend the budget."""
        self.energy_scale = [np.concatenate([ewma(s, rate) for s in surprise]).std(axis=0) for rate in RATES]
        n_rows = sum(len(s) for s in surprise)
        energy, shift = np.concatenate(surprise), np.concatenate(held)
        length, block = int(np.ceil(self.run_length)), min(_BLOCK, len(energy))
        maxima = np.empty((_N_DRAWS, len(self.statistics)))
        for k, starts in enumerate(block_starts(len(energy), length, block, _N_DRAWS, self._rng)):
            rows = (starts[:, None] + np.arange(block)).reshape(-1)[:length]
            levels = self._levels(energy[rows], shift[rows], None)[0]
            maxima[k] = [levels[name].max() for name in self.statistics]
        limits = budget_thresholds(maxima)
        self.thresholds = dict(zip(self.statistics, limits, strict=True))
        n_alarms = 0
        for s, h in zip(surprise, held, strict=True):
            levels = self._levels(s, h, None)[0]
            n_alarms += len(alarm_runs(self._exceed(levels).any(axis=1), GAP))
        low, high = rate_interval(n_alarms, n_rows)
        self.false_alarms = {
            "asked": 1 / self.run_length,
            "achieved": n_alarms / n_rows,
            "low": low,
            "high": high,
            "n_alarms": n_alarms,
            "n_steps": n_rows,
        }

    def _shift_root(self, held, rate, starts):
        """Per unit: matrix that whitens the averaged scores, from the data and the model together."""
        n_rows = len(held)
        averaged = np.concatenate([ewma(held[i:j], rate) for i, j in episodes(starts, n_rows)])
        factor = rate / (2 - rate)
        expected = factor * self.model.held.T @ self.model.weight @ self.model.held
        weight = n_rows * rate / 2
        covariance = (weight * (averaged.T @ averaged / n_rows) + _PRIOR_ROWS * expected) / (
            weight + _PRIOR_ROWS
        )
        n = len(expected)
        root = np.zeros((n, n))
        for b in self.slices:
            root[b, b] = np.linalg.cholesky(np.linalg.inv(covariance[b, b]))
        return root

    # -- following -------------------------------------------------------------------------------

    def _levels(self, surprise, held, averages):
        """Alarm level of every unit by every statistic in use, and the averages after the last row."""
        levels, after = {}, []
        averages = averages or [None] * (2 * len(RATES))
        if "energy" in self.statistics:
            best = None
            for k, (rate, scale) in enumerate(zip(RATES, self.energy_scale, strict=True)):
                average = ewma(surprise, rate, averages[k])
                after.append(average[-1])
                best = average / scale if best is None else np.maximum(best, average / scale)
            levels["energy"] = best
        else:
            after += [None] * len(RATES)
        if "shift" in self.statistics:
            p = np.diff([*self._starts_of_units, held.shape[1]])
            centre, spread = 1 - 2 / (9 * p), np.sqrt(2 / (9 * p))
            largest = None
            for k, (rate, root) in enumerate(zip(RATES[1:], self.shift_roots, strict=True)):
                average = ewma(held, rate, averages[len(RATES) + k])
                after.append(average[-1])
                ratio = np.add.reduceat((average @ root) ** 2, self._starts_of_units, axis=1)
                largest = ratio if largest is None else np.maximum(largest, ratio)
            # Wilson & Hilferty's normal score of a chi-square variable makes units of any size comparable
            levels["shift"] = (np.cbrt(largest / p) - centre) / spread
        return levels, tuple(after)

    def _exceed(self, levels):
        return np.logical_or.reduce([levels[name] > self.thresholds[name] for name in self.statistics])

    def push(self, messages, state):
        """Follow the plant over more rows of an episode.

        Parameters
        ----------
        messages : dict of str to StateMessage
            About the next rows.
        state : StreamState
            Changed in place.

        Returns
        -------
        list of Verdict
            Incidents that are new or that changed.
        """
        record = JointRecord.from_messages(messages, names=self.names)
        rows = self.series(record, off_subspace(messages, record), state)
        n_new = record.n_samples
        first = state.position
        if state.rows is not None:
            first -= len(state.rows["surprise"])
            rows = {name: np.concatenate([state.rows[name], new]) for name, new in rows.items()}
        begin, state.position = state.position, state.position + n_new
        verdicts = self._incidents(rows, first, begin, state)
        keep = LOOKBACK + HORIZON + GAP + 2
        state.rows = {name: series[-keep:] for name, series in rows.items()}
        return verdicts

    def series(self, record, distance, state):
        """Evidence and alarm levels of the next rows, by name."""
        found, state.watch = self.watch.rows(record, distance, state.watch)
        surprise = np.log1p(found.own / self.dims) - self.level
        if found.present is not None:
            surprise = np.where(found.present, surprise, 0.0)
        levels, state.averages = self._levels(surprise, found.scaled @ self.model.held, state.averages)
        return {
            "surprise": surprise,
            "evidence": np.log1p(found.given_others / self.usual),
            "scaled": found.scaled,
            **levels,
        }

    def relative_levels(self, messages):
        """Alarm level over threshold of every unit in an episode, shape (n_samples, n_units)."""
        record = JointRecord.from_messages(messages, names=self.names)
        rows = self.series(record, off_subspace(messages, record), StreamState())
        return np.max([rows[name] / self.thresholds[name] for name in self.statistics], axis=0)

    def _incidents(self, rows, first, begin, state):
        """Verdicts on the incidents that the rows from `begin` on start, continue or end."""
        above = np.max(
            [rows[name][begin - first :].max(axis=1) / self.thresholds[name] for name in self.statistics],
            axis=0,
        )
        for i, j in alarm_runs(above > 1, 1):
            run = Incident(begin + i, begin + j, float(above[i : j + 1].max()))
            before = state.incidents[-1] if state.incidents else None
            if before is not None and before.open:
                apart = run.detected - before.last
                if apart == 1 or (apart <= GAP and above[i] <= before.peak):
                    before.last, before.peak = run.last, max(before.peak, run.peak)
                    continue
                before.open = False
            state.incidents.append(run)
        for incident in state.incidents:
            incident.open = incident.open and state.position - 1 - incident.last <= GAP
            if incident.verdict is None or incident.detected + HORIZON >= begin:
                incident.verdict = self._locate(rows, first, incident, state.position)
            incident.verdict = replace(incident.verdict, last=incident.last, open=incident.open)
        changed = [incident.verdict for incident in state.incidents]
        state.incidents = [
            incident
            for incident in state.incidents
            if incident.open or incident.detected + HORIZON >= state.position
        ]
        return changed

    # -- naming the root -------------------------------------------------------------------------

    def _locate(self, rows, first, incident, position):
        """Verdict on an incident from the rows kept, the first of them `first`, up to the horizon."""
        detected = incident.detected
        window = slice(detected - first, min(detected + HORIZON + 1, position) - first)
        name = self._stronger(rows, slice(window.start, min(incident.last + 1 - first, window.stop)))
        begin = max(detected - LOOKBACK, first)
        if name == "energy":
            unit = int(rows[name][window.start].argmax())
            start = begin + onset(rows["surprise"][begin - first : window.start + 1, unit], _DRIFT)
            probability = self.energy_posterior(rows["evidence"][start - first : window.stop])
        else:
            answers = [
                self.shift_posterior(rows["scaled"][begin - first : stop])
                for stop in {window.stop, min(window.stop, incident.last + 1 - first)}
            ]  # the fault may have ended with the alarm, or not
            probability, since, _ = max(answers, key=lambda answer: answer[2])
            start = begin + min(since, detected - begin)
        reached = self._first_rows(rows, first, start, window.stop + first, name)
        return Verdict(start, detected, incident.last, incident.open, name, probability, reached)

    def _stronger(self, rows, window, least=1.0):
        """Statistic that is furthest above its threshold; the shift, which sees more, if none is.

        `least` is the multiple of the threshold that counts as above.
        """
        excess = {name: rows[name][window].max() / self.thresholds[name] for name in self.statistics}
        name = max(excess, key=excess.get)
        return name if excess[name] > least else self.statistics[-1]

    def _first_rows(self, rows, first, start, stop, name):
        """Row in which each unit was first above the threshold, -1 if never."""
        above = rows[name][start - first : stop - first] > self.thresholds[name]
        return np.where(above.any(axis=0), start + above.argmax(axis=0), -1)

    def attribute(self, messages, start, stop):
        """Posterior over roots in a window of an episode that the user names.

        Parameters
        ----------
        messages : dict of str to StateMessage
            About the episode up to the end of the window at least.
        start, stop : int

        Returns
        -------
        statistic : {"energy", "shift"}
        probability : ndarray of shape (n_units,)
        score : ndarray of shape (n_units,)
            Largest alarm level of each unit in the window.
        """
        state = StreamState()
        record = JointRecord.from_messages(messages, names=self.names)
        rows = self.series(record, off_subspace(messages, record), state)
        window = slice(start, stop)
        name = self._stronger(rows, window, _SURE)
        if name == "energy":
            probability = self.energy_posterior(rows["evidence"][window])
        else:
            probability = self.shift_posterior(rows["scaled"][window], at_once=0.5)[0]
        return name, probability, rows[name][window].max(axis=0)

    def energy_posterior(self, evidence):
        """Posterior over roots from the energy statistic over a window, shape (n_units,)."""
        return tempered(evidence.sum(axis=0), max(len(evidence), HORIZON), _SHARPNESS, self.prior)

    def shift_posterior(self, scaled, at_once=0.0):
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
            self._prepare_candidates(n_rows)
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
        probability, _ = inclusion(self._sets, total, len(self.names))
        return probability, int(weights.sum(axis=0).argmax()), float(top + total.max())

    def _prepare_candidates(self, n_rows):
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

    def _dispersion(self, record, distance):
        """How much larger than chi-square the ratios of nominal windows are, at least one, per unit.

        Slow drifts that the plant's model does not have make innovations coherent without any fault.
        """
        information = step_information(self.model.carry, self.model.weight, HORIZON)[-1:]
        ratios = []
        for start, stop in episodes(record.starts, record.n_samples):
            scaled = self.watch.rows(_part(record, start, stop), distance[start:stop], WatchState())[0].scaled
            for first in range(0, stop - start - HORIZON + 1, HORIZON // 2):
                b = step_scores(self.model.carry, scaled[first : first + HORIZON])[:1]
                ratios += [likelihood_ratios(b, information, s)[0] / (s.stop - s.start) for s in self.slices]
        return max(float(np.mean(ratios)), 1.0) if ratios else 1.0


def watch_budget(run_length, n_samples):
    """Warn of a run length that the nominal record cannot support.

    A record shows nothing about events rarer than about two of its lengths.
    """
    if run_length > n_samples / 2:
        warnings.warn(
            f"One false alarm per {run_length:.0f} steps is asked for, but there are only {n_samples} "
            "nominal steps to set thresholds on; the rate achieved will be uncertain. Give more nominal "
            "data, or ask for a higher rate.",
            UserWarning,
            stacklevel=3,
        )


def _usual_pattern(part):
    """The information matrix that holds most often."""
    if part.is_constant:
        return part.patterns[0]
    return part.patterns[np.bincount(part.index, minlength=len(part.patterns)).argmax()]


def off_subspace(messages, record):
    """The units' off-subspace numbers side by side, zero for units that send none."""
    table = np.zeros((record.n_samples, len(record.names)))
    for m, name in enumerate(record.names):
        if messages[name].off_subspace is not None:
            table[:, m] = messages[name].off_subspace
    return table


def _mean_dims(distance):
    """Degrees of freedom of the off-subspace numbers: their nominal mean, to the next integer."""
    return np.round(distance.mean(axis=0))


def _filled_states(record, predicted):
    """States as measured, by the plant's prediction where a unit's sensors do not determine them."""
    x = np.empty_like(record.z)
    for part, b in zip(record.parts, record.partition.slices, strict=True):
        index = np.zeros(len(x), dtype=np.intp) if part.is_constant else part.index
        condition = np.linalg.cond(part.patterns)
        regular = condition < 1e8
        inverse = np.zeros_like(part.patterns)
        inverse[regular] = np.linalg.inv(part.patterns[regular])
        states = np.einsum("tij,tj->ti", inverse[index], part.z)
        x[:, b] = np.where(regular[index][:, None], states, predicted[:, b])
    return x


def held_out_folds(starts, n_samples):
    """Stretches of similar length that no episode border crosses, at least four.

    Returns
    -------
    list of tuple (start, stop)
    """
    wanted = n_samples / _N_FOLDS
    folds = []
    for start, stop in episodes(starts, n_samples):
        bounds = np.linspace(start, stop, max(1, round((stop - start) / wanted)) + 1).astype(int)
        folds += [(int(i), int(j)) for i, j in zip(bounds[:-1], bounds[1:], strict=True) if j - i > 1]
    return folds


def _part(record, start, stop):
    """Rows of one episode of a record."""
    parts = tuple(
        replace(
            part,
            z=part.z[start:stop],
            index=None if part.index is None else part.index[start:stop],
            const=None,
        )
        for part in record.parts
    )
    return JointRecord(record.names, parts, (0,))
