"""Which unit started it: alarms from a false-alarm budget and a posterior over roots, from messages alone."""

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import expit

from ...statespace.detection.alarms import alarm_runs, onset
from ...statespace.detection.shift import InnovationModel
from ...statespace.kalman import filtered_states, predicted_states
from ..joint import JointRecord
from .complete import complete_distance, complete_states
from .jumps import Jumps
from .levels import GAP, STATISTICS, AlarmLevels
from .nominal import (
    check_enough_rows,
    direct_causes,
    held_out_folds,
    inverse_root,
    learned_plant,
    mean_dims,
    off_subspace,
    rows_to_learn_from,
    scale_dispersion,
    usual_pattern,
    usual_windows,
)
from .posterior import Nominal, RootPosterior
from .root_answers import SURE, Answer, Look, deciding, explained, shift_answer, shift_answers
from .shown import ShownOutside
from .watch import WatchState, learn_watch

LOOKBACK = 100  # steps before the alarm in which the onset is looked for
HORIZON = 80  # steps after the alarm until which an answer is revised
_DRIFT = 0.2  # of the cumulative sum that finds the onset
_HELD_OUT_STEPS = 10  # of expectation maximisation, for plants that see only a part of the record
_STEP = 0.1  # of the threshold: an alarm after a pause must begin that much higher to be another incident
NAMED_FROM_START = 0.99  # prior probability that a fault is there from the first row of a named window on
_ABSENT = 0.4  # probability that a surprise comes from a unit that acts on it and is absent throughout


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
    kind : {"process", "sensor", "undecided"}
        What is at fault at the root.
    """

    start: int
    detected: int
    last: int
    open: bool
    statistic: str
    probability: np.ndarray
    first_rows: np.ndarray
    kind: str


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
    averages: list | None = None
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

        Raises
        ------
        ValueError
            If there are not more rows than states.
        """
        record = JointRecord.from_messages(messages, names=plant.names_)
        self.names = record.names
        self.slices = record.partition.slices
        J = record.block_diagonal([usual_pattern(part) for part in record.parts])
        self.model = InnovationModel(plant.transition_, plant.process_cov_, J)
        rows, starts = rows_to_learn_from(record)
        check_enough_rows(len(rows), len(self.model.A))
        folds = held_out_folds(starts, len(rows))
        distance = complete_distance(off_subspace(messages, record), record, self._rng)[rows]
        outside_dims = mean_dims(distance)
        self.dims = np.array([b.stop - b.start for b in self.slices]) + outside_dims
        x = complete_states(plant, messages, record, self._rng)[rows]
        self.watch, own, given = learn_watch(
            self.model, x, distance, folds, self.slices, getattr(plant, "regressor", None)
        )
        self.usual = np.concatenate(given).mean(axis=0)
        self._jumps = Jumps.learn(given, self.usual, self.prior, self.watch.energy.shared())
        surprise = [np.log1p(a / self.dims) for a in own]
        self.level = np.concatenate(surprise).mean(axis=0)
        z = x @ self.model.J
        filtered = filtered_states(self.model.schedule, (z, None), starts=starts)
        predicted = predicted_states(self.model.A, filtered, starts=starts)
        held_out = list(self._held_out_innovations(x, folds, getattr(plant, "support_", None)))
        self.levels = AlarmLevels(self.statistics, self.model, self.slices).learn(
            self.model.scaled(z, predicted),
            starts,
            [s - self.level for s in surprise],
            [scaled @ self.model.held for _, scaled in held_out],
            self.run_length,
            self._rng,
        )
        self._shown = ShownOutside(x, distance, self.slices)
        outside = [self._shown.relative(x[i + 1 : j], distance[i + 1 : j]) for i, j in folds]
        inside = [q - distance[i + 1 : j] for q, (i, j) in zip(given, folds, strict=True)]
        self._usual_inside = np.concatenate(inside).mean(axis=0)
        share = outside_dims / self.dims
        whole = [
            (1 - share) * q / self._usual_inside + share * g for q, g in zip(inside, outside, strict=True)
        ]
        nominal = Nominal(
            self.dims,
            outside_dims,
            inverse_root(np.cov(predicted.T)),
            len(x),
            *usual_windows(held_out, self.slices, HORIZON, self.levels.shift_excess(self.run_length)),
            energy=max(scale_dispersion(whole, self.dims, HORIZON), 1.0),
            off_subspace=max(scale_dispersion(outside, outside_dims, HORIZON), 1.0),
        )
        self._causes = direct_causes(self.model.A, np.atleast_2d(np.cov(x.T)), self.slices)
        self.posterior = RootPosterior(
            self.model, self.slices, self.prior, LOOKBACK + HORIZON + 1, HORIZON, nominal
        )
        return self

    def _held_out_innovations(self, x, folds, support):
        """Plant learned from the other folds and scaled innovations of every fold without its first row.

        In-sample innovations are whiter and better centred than those of new data, and thresholds set on
        them too low.
        """
        N = np.linalg.pinv(self.model.J, hermitian=True)
        for k, (start, stop) in enumerate(folds):
            parts = [x[i:j] for m, (i, j) in enumerate(folds) if m != k]
            series, starts = np.concatenate(parts), (0, *np.cumsum([len(p) for p in parts])[:-1].tolist())
            level = series.mean(axis=0)
            A, Q = learned_plant(series - level, starts, N, _HELD_OUT_STEPS, support)
            model = InnovationModel(A, Q, self.model.J)
            z = (x[start:stop] - level) @ model.J
            filtered = filtered_states(model.schedule, (z, None))
            yield model, model.scaled(z, predicted_states(A, filtered))[1:]

    # -- following -------------------------------------------------------------------------------

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
            surprise, distance = (np.where(found.present, series, 0.0) for series in (surprise, distance))
        levels, state.averages = self.levels.rows(surprise, found.scaled @ self.model.held, state.averages)
        return {
            "surprise": surprise,
            "evidence": np.log1p(found.given_others / self.usual),
            "scaled": found.scaled,
            "predicted": found.predicted,
            "surplus": (found.given_others - distance) / self._usual_inside,
            "outside": self._shown.relative(found.states, distance),
            "absent": np.zeros(distance.shape, dtype=bool) if found.present is None else ~found.present,
            **levels,
        }

    def relative_levels(self, messages):
        """Alarm level over threshold of every unit in an episode, shape (n_samples, n_units)."""
        record = JointRecord.from_messages(messages, names=self.names)
        rows = self.series(record, off_subspace(messages, record), StreamState())
        return self.levels.relative(rows)

    def _incidents(self, rows, first, begin, state):
        """Verdicts on the incidents that the rows from `begin` on start, continue or end."""
        new = {name: rows[name][begin - first :] for name in self.statistics}
        above = np.ascontiguousarray(self.levels.relative(new).T).max(axis=0)
        for i, j in alarm_runs(above > 1, 1):
            run = Incident(begin + i, begin + j, float(above[i : j + 1].max()))
            before = state.incidents[-1] if state.incidents else None
            if before is not None and before.open:
                apart = run.detected - before.last
                if apart == 1 or (apart <= GAP and above[i] <= before.peak + _STEP):
                    before.last, before.peak = run.last, max(before.peak, run.peak)
                    continue
                before.open = False
            state.incidents.append(run)
        for incident in state.incidents:
            incident.open = incident.open and state.position - 1 - incident.last <= GAP
        self._locate(
            rows,
            first,
            [i for i in state.incidents if i.verdict is None or i.detected + HORIZON >= begin],
            state.position,
        )
        for incident in state.incidents:
            incident.verdict = replace(incident.verdict, last=incident.last, open=incident.open)
        changed = [incident.verdict for incident in state.incidents]
        state.incidents = [
            incident
            for incident in state.incidents
            if incident.open or incident.detected + HORIZON >= state.position
        ]
        return changed

    # -- naming the root -------------------------------------------------------------------------

    def _locate(self, rows, first, incidents, position):
        """Verdicts on incidents from the rows kept, the first of them `first`, up to the horizon."""
        looks = [self._look(incident, first, position) for incident in incidents]
        answers = [[] for _ in looks]
        if "shift" in self.statistics:
            answers = shift_answers(
                self.posterior,
                lambda begin, end: [rows[name][begin - first : end - first] for name in _SHIFT_SERIES],
                looks,
            )
        for incident, look, found in zip(incidents, looks, answers, strict=True):
            incident.verdict = self._verdict(rows, first, incident, look, found)

    @staticmethod
    def _look(incident, first, position):
        """Rows by which an incident is judged: the fault may have ended with a short alarm, or not."""
        detected = incident.detected
        stop = min(detected + HORIZON + 1, position)
        ended = min(stop, incident.last + 1)
        ends = (stop, ended) if ended < stop and ended - detected < HORIZON // 2 else (stop,)
        return Look(max(detected - LOOKBACK, first), detected, ends)

    def _verdict(self, rows, first, incident, look, answers):
        """Verdict on an incident from the answers of the shift statistic and that of the energy one."""
        stop, kind = look.ends[0], "undecided"
        if "energy" in self.statistics and not explained(answers):
            answers = [*answers, self._by_energy(rows, first, look.begin, stop, look.detected)]
        answer = deciding(answers)
        if not explained([answer]):
            answer = self._jumps.revised(answer, rows, first, look.detected, stop)
        probability = answer.probability * expit(answer.evidence)  # nothing happened is a candidate too
        root = int(probability.argmax())
        probability *= self._unseen(root, rows["absent"][answer.start - first : stop - first])
        if probability[root] >= SURE and self._causes[:, root].any():  # others tell what is at fault
            kind = next((a.kind for a in answers if a.kind and a.probability.argmax() == root), kind)
        above = rows[answer.statistic][answer.start - first : stop - first]
        above = above > self.levels.thresholds[answer.statistic]
        reached = np.where(above.any(axis=0), answer.start + above.argmax(axis=0), -1)
        where, named = (answer.start, look.detected, incident.last, incident.open), answer.statistic
        return Verdict(*where, named, probability, reached, kind)

    def _by_energy(self, rows, first, begin, stop, detected):
        """Answer of the energy statistic from the onset its cumulative sum finds on."""
        unit = int(rows["energy"][detected - first].argmax())
        start = begin + onset(rows["surprise"][begin - first : detected - first + 1, unit], _DRIFT)
        strength, probability = self._energy_of(rows, slice(start - first, stop - first))
        return Answer("energy", strength - np.log(stop - begin), probability, start)  # of any onset

    def _energy_of(self, rows, window):
        """Log evidence and posterior of the energy statistic over a window."""
        strength = self.posterior.energy_evidence(rows["surplus"][window], rows["outside"][window])
        return strength, self.posterior.from_energy(rows["evidence"][window])

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
        record = JointRecord.from_messages(messages, names=self.names)
        rows = self.series(record, off_subspace(messages, record), StreamState())
        window = slice(start, stop)
        answers = []
        if "shift" in self.statistics:
            series = [rows[name][window] for name in _SHIFT_SERIES]
            found = self.posterior.from_shift([series], stop - start, at_once=NAMED_FROM_START)
            answers.append(shift_answer(found[0], start))
        if "energy" in self.statistics and not explained(answers):
            answers.append(Answer("energy", *self._energy_of(rows, window), start))
        answer = deciding(answers)
        if answer.evidence < 0:  # nothing stands out: the statistic that sees the smaller faults
            answer = answers[0]
        name, probability = answer.statistic, answer.probability
        unseen = self._unseen(int(probability.argmax()), rows["absent"][window])
        return name, probability * unseen, rows[name][window].max(axis=0)

    def _unseen(self, root, absent):
        """Factor of certainty in a root while units that act on it are absent: the cause may be theirs."""
        if not absent.any():
            return 1.0
        return 1 - _ABSENT * absent[:, self._causes[root]].mean(axis=0).max(initial=0.0)


_SHIFT_SERIES = ("scaled", "predicted", "outside")
