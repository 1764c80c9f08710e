"""Which unit started it: alarms from a false-alarm budget and a posterior over roots, from messages alone."""

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
from ..statespace.shift import InnovationModel, likelihood_ratios, step_information, step_scores
from ..statespace.units import moment_start
from .joint import JointRecord
from .nominal import filled_states, held_out_folds, mean_dims, off_subspace, part_of, usual_pattern
from .posterior import RootPosterior
from .watch import WatchState, learn_watch

LOOKBACK = 100  # steps before the alarm in which the onset is looked for
HORIZON = 80  # steps after the alarm until which an answer is revised
GAP = 10  # steps without an alarm after which an incident is over
_DRIFT = 0.2  # of the cumulative sum that finds the onset
_N_DRAWS = 200
_BLOCK = 60
_SURE = 2.0  # multiple of its threshold at which the energy statistic answers for a window nobody alarmed
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
        J = record.block_diagonal([usual_pattern(part) for part in record.parts])
        self.model = InnovationModel(plant.transition_, plant.process_cov_, J)
        distance = off_subspace(messages, record)
        self.dims = np.array([b.stop - b.start for b in self.slices]) + mean_dims(distance)
        run = plant.filter(messages)
        x = filled_states(record, run.predicted)
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
        self.posterior = RootPosterior(
            self.model,
            self.slices,
            self.prior,
            LOOKBACK + HORIZON + 1,
            HORIZON,
            self._dispersion(record, distance),
        )
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
            scores.append((scaled @ self.model.held)[1:])
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
            probability = self.posterior.from_energy(rows["evidence"][start - first : window.stop])
        else:
            answers = [
                self.posterior.from_shift(rows["scaled"][begin - first : stop])
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
            probability = self.posterior.from_energy(rows["evidence"][window])
        else:
            probability = self.posterior.from_shift(rows["scaled"][window], at_once=0.9)[0]
        return name, probability, rows[name][window].max(axis=0)

    def _dispersion(self, record, distance):
        """How much larger than chi-square the ratios of nominal windows are, at least one, per unit.

        Slow drifts that the plant's model does not have make innovations coherent without any fault.
        """
        information = step_information(self.model.carry, self.model.weight, HORIZON)[-1:]
        ratios = []
        for start, stop in episodes(record.starts, record.n_samples):
            scaled = self.watch.rows(part_of(record, start, stop), distance[start:stop], WatchState())[
                0
            ].scaled
            for first in range(0, stop - start - HORIZON + 1, HORIZON // 2):
                b = step_scores(self.model.carry, scaled[first : first + HORIZON])[:1]
                ratios += [likelihood_ratios(b, information, s)[0] / (s.stop - s.start) for s in self.slices]
        return max(float(np.mean(ratios)), 1.0) if ratios else 1.0
