"""Which unit started it: alarms from a false-alarm budget and a posterior over roots, from messages alone."""

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import expit

from ...statespace.detection.shift import InnovationModel
from ..joint import JointRecord
from .evidence import Evidence, MonitorState, OnsetRule, PlantMonitor
from .incidents import HORIZON, LOOKBACK, Verdict, follow
from .nominal import (
    NominalRows,
    OffSubspace,
    direct_causes,
    held_out_models,
    inverse_root,
    off_subspace,
    scale_dispersion,
    usual_windows,
)
from .noticed import LOUD, event_ages, event_codes, revised
from .posterior import SURE, Answer, Look, Nominal, RootPosterior, deciding, explained, shift_answers
from .thresholds import GAP, STATISTICS, AlarmLevels

NAMED_FROM_START = 0.99  # prior probability that a fault is there from the first row of a named window on
_DRIFT = 0.2  # of the cumulative sum that finds the onset
_ALARMED = 2.0  # log prior odds that an alarm is of a fault
_ABSENT = 0.4  # probability that a surprise comes from a unit that acts on it and is absent throughout


@dataclass
class StreamState:
    """Everything a stream needs to go on: constant size whatever has passed."""

    monitor: MonitorState = field(default_factory=MonitorState)
    averages: list | None = None
    position: int = 0
    rows: Evidence | None = None  # the last rows
    incidents: list = field(default_factory=list)  # those that may still change
    noticing: np.ndarray | int = 0  # for how many rows each unit has been noticing something


class RootCauseServer:
    """Alarms and roots from messages, learned from nominal messages and the fitted plant.

    `statistic` is "both", "energy" or "shift", `run_length` the wanted number of steps between false alarms,
    all units and statistics together, `prior`, (n_units,), the prior probability of each unit being the root,
    and `rng` a RandomState.
    """

    new_state = StreamState

    def __init__(self, statistic, run_length, prior, rng):
        self.statistics = STATISTICS[statistic]
        self.run_length, self.prior, self._rng = run_length, prior, rng

    # -- learning --------------------------------------------------------------------------------

    def fit(self, plant, messages):
        """Learn from the messages that a plant was fitted to; ValueError if there are not enough rows."""
        record = JointRecord.from_messages(messages, names=plant.names_)
        same = record.copies()
        if same:
            raise ValueError(
                f"Units {same[0][0]!r} and {same[0][1]!r} send the same states, so that no fault could be told to be "
                "in one of them. Leave one out."
            )
        self.names, self.slices = record.names, record.partition.slices
        rows = NominalRows.of(plant, messages, record, self._rng)
        self._outside_dims = np.round(rows.distance.mean(axis=0))
        self._dims = np.array([b.stop - b.start for b in self.slices]) + self._outside_dims
        own, given, held_out, causes = self._learn_models(plant, rows)
        self._usual = np.concatenate(given).mean(axis=0)
        self._onset_rule = OnsetRule.learn(given, self._usual, self.prior, self._monitor.energy.shared())
        surprise = [np.log1p(a / self._dims) for a in own]
        self._level = np.concatenate(surprise).mean(axis=0)
        scaled, predicted = self.model.filtered(rows.x @ self.model.J, starts=rows.starts)
        surprise = [s - self._level for s in surprise]
        held = [u @ self.model.held for _, u in held_out]
        self.levels = AlarmLevels(self.statistics, self.model, self.slices)
        self.levels.learn(scaled, rows.starts, surprise, held, self.run_length, self._rng)
        self._learn_posterior(rows, given, held_out, predicted)
        self._causes = causes
        return self

    def _learn_models(self, plant, rows):
        """Set the models that innovations are of; held-out surprises, held-out models and direct causes."""
        if len(getattr(plant, "lag_transitions_", ())) > 1:
            from .lagged import LaggedModel, LaggedMonitor, dynamics_of, held_out_plants  # for such plants only

            self.model = LaggedModel.of(dynamics_of(plant), rows.J)
            folds = list(held_out_plants(plant, rows, self.slices))
            self._monitor, own, given = LaggedMonitor.learned(self.model, rows, self.slices, folds)
            return own, given, [(fold.model, fold.scaled) for fold in folds], self.model.causes(self.slices)
        self.model = InnovationModel(plant.transition_, plant.process_cov_, rows.J)
        regressor = getattr(plant, "regressor", None)
        self._monitor, own, given = PlantMonitor.learn(self.model, rows, self.slices, regressor)
        held_out = list(held_out_models(rows, getattr(plant, "support_", None)))
        return own, given, held_out, direct_causes(self.model.A, np.atleast_2d(np.cov(rows.x.T)), self.slices)

    def _learn_posterior(self, rows, given, held_out, predicted):
        """Set the posterior by how far nominal windows stray."""
        distance = rows.held_out(rows.distance)
        self._off_subspace = OffSubspace(rows.x, rows.distance, self.slices)
        inside = [q - g for q, g in zip(given, distance, strict=True)]
        self._usual_inside = np.concatenate(inside).mean(axis=0)
        outside = list(map(self._off_subspace.relative, rows.held_out(rows.x), distance))
        share = self._outside_dims / self._dims
        whole = [(1 - share) * q / self._usual_inside + share * g for q, g in zip(inside, outside, strict=True)]
        excess = self.levels.shift_excess(self.run_length)
        rest, shift = usual_windows(held_out, self.slices, HORIZON, excess)
        energy = scale_dispersion(whole, self._dims, HORIZON)
        beside = scale_dispersion(outside, self._outside_dims, HORIZON)
        place = self._dims, self._outside_dims, inverse_root(np.cov(predicted.T)), len(rows.x)
        nominal = Nominal(*place, rest, shift, energy, beside)
        longest = LOOKBACK + HORIZON + 1
        self.posterior = RootPosterior(self.model, self.slices, self.prior, longest, HORIZON, nominal)

    # -- following -------------------------------------------------------------------------------

    def push(self, messages, state):
        """Verdicts on the incidents that are new or that changed with the next rows of an episode.

        The StreamState is changed in place.
        """
        new = self._evidence(messages, state)
        rows = new if state.rows is None else state.rows.followed_by(new)
        above = np.ascontiguousarray(self.levels.relative(new.levels).T).max(axis=0)
        follow(state.incidents, above, new.first)
        self._judge(rows, [i for i in state.incidents if i.verdict is None or i.detected + HORIZON >= new.first])
        for incident in state.incidents:
            incident.verdict = replace(incident.verdict, last=incident.last, open=incident.open)
        verdicts = [incident.verdict for incident in state.incidents]
        state.incidents = [i for i in state.incidents if i.open or i.detected + HORIZON >= rows.stop]
        keep = LOOKBACK + HORIZON + GAP + 2
        state.rows = rows.between(max(rows.stop - keep, rows.first), rows.stop)
        return verdicts

    def relative_levels(self, messages):
        """Alarm level over threshold of every unit in an episode, shape (n_samples, n_units)."""
        return self.levels.relative(self._evidence(messages, StreamState()).levels)

    def _evidence(self, messages, state):
        """Evidence of the next rows of an episode; the state goes on behind them."""
        record = JointRecord.from_messages(messages, names=self.names)
        distance = off_subspace(messages, record)
        found, state.monitor = self._monitor.rows(record, distance, state.monitor)
        surprise = np.where(found.present, np.log1p(found.own / self._dims) - self._level, 0.0)
        distance = np.where(found.present, distance, 0.0)
        given = np.log1p(found.given_others / self._usual)
        surplus = (found.given_others - distance) / self._usual_inside
        outside = self._off_subspace.relative(found.states, distance)
        held = found.scaled @ self.model.held
        levels, state.averages = self.levels.rows(surprise, held, state.averages)
        first, state.position = state.position, state.position + record.n_samples
        events = event_codes(messages, self.names, record.n_samples)
        ages = event_ages(events, state.noticing)
        if events.any():
            self._raise(levels, ages)
        state.noticing = ages[-1]
        absent = ~found.present
        return Evidence(first, found.scaled, found.predicted, surprise, given, surplus, outside, absent, levels, events)

    def _raise(self, levels, ages):
        """Alarm while units notice something, until it is nothing new any more."""
        limits = np.array([self.levels.thresholds[name] for name in self.statistics])
        new = (ages > 0) & (ages <= HORIZON)
        np.copyto(levels, np.maximum(levels, LOUD * limits[:, None]), where=new[:, None])

    # -- naming the root -------------------------------------------------------------------------

    def _judge(self, rows, incidents):
        """Verdicts on incidents from the rows kept, up to the horizon."""
        looks = [self._look(incident, rows) for incident in incidents]
        answers: list[list[Answer]] = [[] for _ in looks]
        if "shift" in self.statistics:
            answers = shift_answers(self.posterior, rows, looks)
        for incident, look, found in zip(incidents, looks, answers, strict=True):
            incident.verdict = self._verdict(incident, rows.between(look.begin, look.ends[0]), found)

    @staticmethod
    def _look(incident, rows):
        """Rows by which an incident is judged: the fault may have ended with a short alarm, or not."""
        detected = incident.detected
        stop = min(detected + HORIZON + 1, rows.stop)
        ended = min(stop, incident.last + 1)
        ends = (stop, ended) if ended < stop and ended - detected < HORIZON // 2 else (stop,)
        return Look(max(detected - LOOKBACK, rows.first), detected, ends)

    def _verdict(self, incident, rows, answers):
        """Verdict on an incident from the rows to judge it by and the answers of the shift statistic."""
        if "energy" in self.statistics and not explained(answers):
            answers = [*answers, self._by_energy(rows, incident.detected)]
        answer = deciding(answers)
        if not explained([answer]):
            answer = self._onset_rule.revised(answer, rows, incident.detected)
        answer, noticed = revised(answer, rows, incident.detected, self.prior)
        since = rows.between(answer.start, rows.stop)
        probability = answer.probability.copy()
        if not noticed:
            probability *= expit(answer.evidence + _ALARMED)  # nothing happened is a candidate too
        root = int(probability.argmax())
        probability *= self._certainty(root, since.absent)
        kind = noticed or "undecided"
        if not noticed and probability[root] >= SURE and self._causes[:, root].any():  # others show what is at fault
            kind = next((a.kind for a in answers if a.kind and a.probability.argmax() == root), kind)
        levels = since.levels[:, self.statistics.index(answer.statistic)]
        above = levels > self.levels.thresholds[answer.statistic]
        reached = np.where(above.any(axis=0), answer.start + above.argmax(axis=0), -1)
        where = answer.start, incident.detected, incident.last, incident.open
        return Verdict(*where, answer.statistic, probability, reached, kind)

    def _by_energy(self, rows, detected):
        """Answer of the energy statistic from the onset its cumulative sum finds on."""
        until = rows.between(rows.first, detected + 1)
        unit = int(until.levels[-1, self.statistics.index("energy")].argmax())
        start = rows.first + onset(until.surprise[:, unit], _DRIFT)
        answer = self.posterior.from_energy(rows.between(start, rows.stop))
        return answer._replace(evidence=answer.evidence - np.log(rows.stop - rows.first))  # of any onset

    def attribute(self, messages, start, stop):
        """Posterior over roots in a window that the user names, of an episode up to its end at least.

        Gives the statistic that decides, the probability of each unit, (n_units,), and the largest alarm
        level of each in the window, (n_units,).
        """
        rows = self._evidence(messages, StreamState()).between(start, stop)
        answers: list[Answer] = []
        if "shift" in self.statistics:
            answers += self.posterior.from_shift([rows], stop - start, at_once=NAMED_FROM_START)
        if "energy" in self.statistics and not explained(answers):
            answers.append(self.posterior.from_energy(rows))
        answer = deciding(answers)
        if answer.evidence < 0:  # nothing stands out: the statistic that sees the smaller faults
            answer = answers[0]
        answer, _ = revised(answer, rows, rows.first, self.prior)
        certainty = self._certainty(int(answer.probability.argmax()), rows.absent)
        levels = rows.levels[:, self.statistics.index(answer.statistic)]
        return answer.statistic, answer.probability * certainty, levels.max(axis=0)

    def _certainty(self, root, absent):
        """Factor of certainty in a root while units that act on it are absent: the cause may be theirs."""
        return 1 - _ABSENT * absent[:, self._causes[root]].mean(axis=0).max(initial=0.0)


def onset(evidence, drift):
    """Row at which a cumulative sum of ``evidence - drift`` was lowest, the last row being the alarm.

    It is the start of a change (Page 1954, Continuous inspection schemes, Biometrika 41).
    """
    sums = np.concatenate([[0.0], np.cumsum(evidence - drift)[:-1]])
    return int(sums.argmin())
