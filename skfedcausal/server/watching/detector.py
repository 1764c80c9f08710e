"""Which unit started it: alarms from a false-alarm budget and a posterior over roots, from messages alone."""

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit

from ...statespace.episodes import episodes
from ..joint import JointRecord
from . import stream
from .incidents import (
    DECIDED,
    HOLDING,
    HORIZON,
    LOOKBACK,
    LOUD,
    OUTSIDE,
    Evidence,
    Incident,
    Verdict,
    event_ages,
    event_codes,
    is_glitch,
    revised,
)
from .inputs import CurvedResponse, Followed, bare_nominal, shown, states_of, without_response
from .learning import learned_plant
from .operating import LARGE, OperatingPoint, beyond_followed, fault_end, visited
from .posterior import (
    SURE,
    Answer,
    Look,
    Nominal,
    deciding,
    doubted,
    explained,
    in_turn_of_alarms,
    log_scale_factor,
    shift_answers,
    together,
    upstream,
)
from .slow import DAY, KINDS, SLOW, SPREADS, WAIT, SlowWatch, root_of, share_of_budget
from .stream import StreamState, taken
from .thresholds import (
    GAP,
    STATISTICS,
    AlarmLevels,
    NominalRows,
    OffSubspace,
    by_way_of_others,
    curved_causes,
    off_subspace,
    rows_to_learn_from,
    scale_dispersion,
)
from .tuning import TUNING

NAMED_FROM_START = 0.99  # prior probability that a fault is there from the first row of a named window on


class RootCauseServer:
    """Alarms and roots from messages, learned from nominal messages and the fitted plant.

    `statistic` is "both", "energy" or "shift", `run_length` the wanted number of steps between false alarms,
    all units and statistics together, `prior`, (n_units,), the prior probability of each unit being the root,
    `rng` a RandomState, and `is_long` says whether windows of what lasts span a shift.
    """

    new_state = StreamState
    campaigns: Any = ()  # nominal operating points besides the one a stream begins at
    visited: Any = ()  # segments of the nominal record at levels of their own
    learner: Any = None  # what learns the plant, where it may be learned again from the rows of a stream
    _curved: Any = None  # which units act on which by their size
    _acting: Any = None  # the same in any way, None where the plant knows of all
    _bends: Any = None  # CurvedResponse of a plant whose states act along curves
    slow: Any = None  # SlowWatch of a plant whose nominal record is long enough to tell what is rare in it
    elsewhere: Any = None  # how messages are read where the plant was learned at another operating point

    def __init__(self, statistic, run_length, prior, rng, is_long=False):
        self.statistics = STATISTICS[statistic]
        self.run_length, self.prior, self._rng, self.is_long = run_length, prior, rng, is_long

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
        self._response: Any = None
        if record.u is not None:
            self._response, self._outside_inputs, messages = bare_nominal(record, messages)
            record = JointRecord.from_messages(messages, names=plant.names_)
        elif (found := CurvedResponse.learned(plant, record, messages)) is not None:
            self._bends, plant, messages, moved = found
            record = JointRecord.from_messages(messages, names=plant.names_)
        self.state_dims = np.array([b.stop - b.start for b in self.slices])
        self.nominal_point = OperatingPoint.nominal(sum(self.state_dims), len(self.names))
        rows = NominalRows.of(plant, messages, record, self._rng)
        self._n_known, self.campaigns, self.visited = len(rows.x), (), ()
        if self._response is None and len(rows.x) == record.n_samples:
            self.visited = visited(rows.x, rows.starts)
        self.outside_dims = np.round(rows.distance.mean(axis=0))
        self.dims = self.state_dims + self.outside_dims
        self.usual_distance = np.maximum(rows.distance.mean(axis=0), 1e-12)
        learned = learned_plant(plant, rows, self.slices, in_blocks=self._response is None)
        whole = rows  # with what curves do to the states
        if self._bends is not None:
            moved = moved[rows_to_learn_from(record)[0]]
            learned, whole = replace(learned, predicted=learned.predicted + moved), rows._replace(x=rows.x + moved)
        self.is_whole = learned.is_whole
        self.monitor, self.model = learned.monitor, learned.monitor.model
        self.level, self._causes = learned.level, learned.causes
        self._curved = curved_causes(whole.x, rows.starts, self.slices) if self.is_whole else None
        if self._curved is not None and getattr(plant, "regressor", None) is None:  # which knows curves by itself
            self._acting = by_way_of_others(self._causes | self._curved)
        self._usual = np.concatenate(learned.given).mean(axis=0)
        surprise = [np.log1p(a / self.dims) for a in learned.own]
        self._level = np.concatenate(surprise).mean(axis=0)
        surprise = [s - self._level for s in surprise]
        held = [fold.scaled @ self.model.held for fold in learned.held_out]
        if self.level.moves:
            held = list(map(beyond_followed, held))
        told = KINDS if self._response is None and (self.is_long or self.level.moves) else SPREADS
        share = share_of_budget(told, self.is_long)
        self.slow = SlowWatch.learn(rows, self.slices, self.run_length / share, told) if self.is_whole else None
        run_length = self.run_length if self.slow is None else self.run_length / (1 - share)
        self.levels = AlarmLevels(self.statistics, self.model, self.slices)
        self.levels.learn(learned.scaled, rows.starts, surprise, held, run_length)
        if self.slow is not None:
            self.levels.take_in(SLOW, self.slow.threshold, self.slow.n_alarms, 1 / self.run_length)
        self._learn_posterior(learned, rows)
        return self

    def _learn_posterior(self, learned, rows):
        """Set the posterior by how far nominal windows stray."""
        distance = rows.held_out(rows.distance)
        inside = [q - g for q, g in zip(learned.given, distance, strict=True)]
        self.usual_inside = np.concatenate(inside).mean(axis=0)
        self._off_subspace = OffSubspace(rows.x, rows.distance, self.slices)
        outside = list(map(self._off_subspace.relative, rows.held_out(rows.x), distance))
        share = self.outside_dims / self.dims
        whole = [(1 - share) * q / self.usual_inside + share * g for q, g in zip(inside, outside, strict=True)]
        rest, shift = learned.usual_windows(self.slices, self.levels.shift_excess(self.run_length))
        nominal = Nominal(
            self.dims,
            self.outside_dims,
            leverage=None,
            n_rows=len(rows.x),
            rest=rest,
            shift=shift,
            energy=scale_dispersion(whole, self.dims, HORIZON),
            off_subspace=scale_dispersion(outside, self.outside_dims, HORIZON),
        )
        limits = [self.levels.thresholds[name] for name in self.statistics]
        self.posterior = learned.posterior(self.slices, self.prior, nominal, limits)

    # -- following -------------------------------------------------------------------------------

    def push(self, messages, state):
        """Verdicts on the incidents that are new or that may have changed with the next rows of an episode.

        The StreamState is changed in place.
        """
        touched: dict[int, Incident] = {}
        for _, incidents in self._taken(messages, state):
            touched |= {incident.detected: incident for incident in incidents}
        return [incident.verdict for incident in touched.values()]

    def followed(self, messages):
        """Verdicts on the incidents of an episode, and what :meth:`relative_levels` gives."""
        touched: dict[int, Incident] = {}
        state, server, levels = StreamState(), self, []
        for rows, incidents in self._taken(messages, state):
            touched |= {incident.detected: incident for incident in incidents}
            levels.append(server.levels.relative(rows.levels, rows.beyond))
            server = state.own or self
        return [incident.verdict for incident in touched.values()], np.concatenate(levels)

    def take_in(self, messages, kept):
        """Bring the nominal level and spread up to date by nominal rows of whole episodes.

        What was known counts `kept` times as much as it did.
        """
        parts = list(self._nominal_episodes(messages))
        errors, scaled, distance, absent = (
            np.concatenate([getattr(part, name)[1:] for part in parts])
            for name in ("errors", "scaled", "distance", "absent")
        )
        n_seen = np.count_nonzero(~absent, axis=0)
        if not n_seen.any():
            raise ValueError(
                "A nominal record of single rows, or without measurements, tells nothing of what follows a row. Give "
                "longer episodes."
            )
        known, point, n = kept * self._n_known, self.nominal_point, np.maximum(n_seen, 1)
        share, n_of_state = n_seen / (known + n), n.repeat(self.state_dims)
        there, full = ~absent.repeat(self.state_dims, axis=1), ~absent.any(axis=1)
        n_full = np.count_nonzero(full)
        level = np.where(there, errors, 0.0).sum(axis=0) / n_of_state
        moved = np.where(there, errors - level, 0.0)
        ratios = {
            "own": self.monitor.energy.own(moved).sum(axis=0) / n / self.state_dims,
            "given": self.monitor.energy.given_others(moved[full]).sum(axis=0) / max(n_full, 1) / self.usual_inside,
            "whole": np.where(distance.any(axis=0), distance.sum(axis=0) / n / self.usual_distance, 1.0),
        }
        shares = dict.fromkeys(ratios, share) | {"given": n_full / (known + max(n_full, 1))}  # of rows with all others
        factors = {name: getattr(point, name) * (1 + shares[name] * (ratio - 1)) for name, ratio in ratios.items()}
        share = share.repeat(self.state_dims)
        off = np.where(there, scaled, 0.0).sum(axis=0) / n_of_state
        self.nominal_point = point.moved(share * level, share * off, **factors)
        self._n_known = known + int(n_seen.max())

    def acknowledge(self, state, detected):
        """Take note that the incidents with these first alarms were seen; verdicts on those that are over by that."""
        return stream.acknowledge(state.own or self, state, detected)

    def rebaseline(self, state, units):
        """Take the level of the last rows of some units, a mask, for their operating point; verdicts that are over."""
        return stream.rebaseline(state.own or self, state, units)

    def know(self, messages, levels=None):
        """Take the episodes of a nominal record, in messages with their levels, for operating points of their own.

        `levels` are the numbers of their levels, from 0 on as they come, None where each has its own.
        """
        parts: dict[int, Evidence] = {}
        for k, rows in enumerate(self._nominal_episodes(messages)):
            rows = rows.between(rows.first + 1, rows.stop)  # nothing predicts the first one
            level = k if levels is None else levels[k]
            parts[level] = parts[level].followed_by(rows) if level in parts else rows
        points = [stream.settled(self, rows, self.nominal_point, len(rows.errors)) for rows in parts.values()]
        self.nominal_point, *self.campaigns = [replace(point, campaign=True) for point in points]

    def _nominal_episodes(self, messages):
        """Evidence of each episode of a nominal record, all at the nominal operating point."""
        record = JointRecord.from_messages(messages, names=self.names)
        for start, stop in episodes(record.starts, record.n_samples):
            here = {name: one.rows(start, stop) for name, one in messages.items()}
            yield self.evidence(here, StreamState(point=self.nominal_point))

    @staticmethod
    def pause(state):
        """Begin anew after rows of which nothing is known."""
        stream.pause(state)

    def relative_levels(self, messages):
        """Alarm level over threshold of every unit in an episode, shape (n_samples, n_units)."""
        return self.followed(messages)[1]

    def _taken(self, messages, state):
        return taken(self, messages, self._begun(state))

    def _begun(self, state):
        """A stream at its beginning is at the nominal operating point."""
        if state.point is None:
            state.point, state.known = self.nominal_point, list(self.campaigns)
        return state

    def evidence(self, messages, state):
        """Evidence of the next rows of an episode; the state goes on behind them."""
        if self.elsewhere is not None:
            messages = self.elsewhere.beyond(messages, self.names, self.slices)
        record, point = JointRecord.from_messages(messages, names=self.names), state.point
        away = Followed.without_inputs(record.n_samples)
        if self._response is not None:
            away = self._input_response(record, state)
            messages = self._without_inputs(record, messages, away.response)
            record = JointRecord.from_messages(messages, names=self.names)
        moved, unsure = 0.0, np.zeros((record.n_samples, len(self.names)))
        if self._bends is not None:
            moved, unsure, state.bends = self._bends.follow(*shown(record), state.bends)
            messages = self._bends.without(record, messages, moved)
            record = JointRecord.from_messages(messages, names=self.names)
        spread = wider = 1.0
        if self._response is not None or self._bends is not None:
            spread = 1 + away.leverage[:, None] + np.minimum(unsure, TUNING.detector_most_unsure)
            wider = np.sqrt(spread).repeat(self.state_dims, axis=1)
        distance = off_subspace(messages, record) / point.whole
        found, state.monitor = self.monitor.rows(record, distance, state.monitor, point.errors)
        present, of_states = found.present, found.present.repeat(self.state_dims, axis=1)
        distance = np.where(present, distance, 0.0)
        surprise = np.where(present, np.log1p(found.own / point.own / spread / self.dims) - self._level, 0.0)
        scaled = (found.scaled - of_states * point.scaled) / wider
        levels, state.averages = self.levels.rows(surprise, scaled @ self.model.held, state.averages, away.doubt)
        levels /= point.spread
        rare = np.zeros((record.n_samples, 0, len(self.names)))
        states = np.where(of_states, found.states + moved - point.states, 0.0)
        if self.slow is not None:
            there = present & self.monitor.sensors.as_usual(record)  # fewer sensors vary otherwise
            # what curves of others do lasts as long as those: it is no news of the unit
            seen = states - moved - state.drifting.states, distance / state.drifting.off, there
            slow, rare, state.slow = self.slow.rows(*seen, state.slow, point.n_rows)
            levels = np.concatenate([levels, slow[:, None]], axis=1)
        first, state.position = state.position, state.position + record.n_samples
        events = event_codes(messages, self.names, record.n_samples)
        ages = event_ages(events, state.noticing)
        if events.any():
            self._raise(levels, ages)
        state.noticing = ages[-1]
        return Evidence(
            first,
            scaled=scaled,
            predicted=found.predicted + moved - point.predicted,
            states=states,
            surprise=surprise,
            given_others=np.log1p(found.given_others / point.given / spread / self._usual),
            surplus=(found.given_others - distance) / point.given / spread / self.usual_inside,
            outside=self._off_subspace.relative(found.states, distance * point.whole) / point.outside,
            absent=~present,
            levels=levels,
            events=events,
            errors=found.errors / wider,
            distance=distance,
            unknown=away.unknown,
            beyond=away.beyond,
            unsure=unsure,
            rare=rare,
        )

    def _raise(self, levels, ages):
        """Alarm while units notice something, until it is nothing new any more."""
        limits = np.array(list(self.levels.thresholds.values()))
        new = (ages > 0) & (ages <= HORIZON)
        np.copyto(levels, np.maximum(levels, LOUD * limits[:, None]), where=new[:, None])

    def _input_response(self, record, state):
        """What the inputs of the next rows do, see :class:`.inputs.Followed`."""
        found, state.inputs = self._response.follow(record.u, state.inputs, state.point.inputs)
        return found

    def _without_inputs(self, record, messages, response):
        """Messages without what inputs do."""
        bare = without_response(messages, self.names, self.slices, response)
        return self._outside_inputs.without(bare, states_of(record)[0])

    # -- naming the root -------------------------------------------------------------------------

    def judge(self, rows, incidents, first):
        """Verdicts on incidents from the rows kept, up to the horizon; `first` is the first of the new rows."""
        judged = [i for i in incidents if i.verdict is None or i.detected + HORIZON >= first]
        looks = [self._look(incident, rows) for incident in judged]
        answers: list[list[Answer]] = [[] for _ in looks]
        if "shift" in self.statistics:
            answers = shift_answers(self.posterior, rows, looks)
        for incident, first_look, first_found in zip(judged, looks, answers, strict=True):
            look, found = self._apart(incident, first_look, first_found, rows)
            lasting = self._lasting(rows, incident.detected, min(look.ends[0], incident.detected + WAIT + 1))
            incident.verdict = self._verdict(incident, rows.between(look.begin, look.ends[0]), found, lasting)
        for incident in incidents:
            end = self._end(incident, rows) if incident.end is None else incident.end
            now = {name: getattr(incident, name) for name in ("last", "open", "resumes", "lasting")}
            incident.verdict = replace(incident.verdict, end=end, **now)

    def _end(self, incident, rows):
        """Last row of the fault, from the rows of its root up to the last alarm."""
        verdict = incident.verdict
        begin = max(verdict.start, incident.last - LOOKBACK - GAP, rows.first)
        since = rows.between(begin, incident.last + 1)
        root = int(verdict.probability.argmax())
        white = since.errors @ self.monitor.energy.given_root[:, self.slices[root]]
        surplus, outside = since.surplus[:, root], since.outside[:, root]
        last = begin + fault_end(white, surplus, outside, self.dims[root], self.outside_dims[root])
        noticed = begin + np.flatnonzero(since.events[:, root])
        if verdict.statistic == SLOW:
            last = incident.last
        elif len(noticed) and verdict.kind in HOLDING:  # for as long as its unit notices it
            last = int(noticed[-1])
        fault = rows.between(begin, last + 1)
        incident.level, incident.excess = fault.errors.mean(axis=0), np.minimum(fault.surplus, LARGE).mean(axis=0)
        return last

    def _look(self, incident, rows):
        """Rows by which an incident is judged: the fault may have ended with the loudest row of a short alarm, or not.

        Levels are averages, which rise for as long as a fault is there, and stay above their thresholds after it.
        """
        detected, ended = incident.detected, incident.last + 1
        stop = min(detected + HORIZON + 1, rows.stop)
        ends: tuple[int, ...] = (stop,)
        if ended < stop and ended - detected < HORIZON // 2:
            alarm = rows.between(max(detected, rows.first), ended)
            ends += (alarm.first + int(self.levels.relative(alarm.levels).max(axis=1).argmax()) + 1,)
        begin = max(detected - LOOKBACK, rows.first)
        if incident.before is not None:
            begin = max(begin, min(incident.before.verdict.stop, detected))
        return Look(begin, detected, ends)

    def _apart(self, incident, look, answers, rows):
        """The look at an incident and the answers to it, up to the next alarm where that is of another fault.

        That is so where the incident was over before, and nothing or a fault until then, and one that begins later, are
        likelier than one fault.
        """
        after, stop = incident.after, look.ends[0]
        if after is None or not incident.last + GAP < after < stop:
            return look, answers
        here, ended = Look(look.begin, look.detected, (after, *look.ends[1:])), answers[1:]
        later = Look(max(incident.last + 1, after - LOOKBACK), after, (stop,))
        found: list[list[Answer]] = [[], []]
        if "shift" in self.statistics:
            until, since = shift_answers(self.posterior, rows, [Look(look.begin, look.detected, (after,)), later])
            found = [until + ended, since]
        both, first, second = (
            deciding(self._with_energy(one, rows.between(at.begin, at.ends[0]), at.detected)).evidence
            for at, one in ((look, answers), (here, found[0]), (later, found[1]))
        )
        return (
            (here, found[0]) if np.logaddexp(0.0, first + TUNING.detector_alarmed) + second > both else (look, answers)
        )

    def _with_energy(self, answers, rows, detected):
        """Answers of the shift statistic to some rows, and that of the energy where these explain not everything.

        That of a unit whose readings have the other sign takes their place where it explains everything and is likelier
        than all of these.
        """
        if "energy" not in self.statistics:
            return answers
        if not explained(answers):
            answers = [*answers, self._by_energy(rows, detected)]
        turned = self.posterior.from_reversal(rows, detected + 1 - rows.first)
        if turned.explains and turned.evidence > max(answer.evidence for answer in answers):
            return [turned]
        return answers

    def _lasting(self, rows, at, stop):
        """What lasts from a row on, a :class:`.slow.SlowRoot` by rows until `stop`; None where that is not watched."""
        is_told = self.slow is not None and at >= rows.first
        return root_of(rows.rare[: stop - rows.first], at - rows.first, stop - at, self.prior) if is_told else None

    def _verdict(self, incident, rows, answers, lasting=None):
        """Verdict on an incident from the rows to judge it by and the answers of the shift statistic.

        Where it is no alarm of surprises, or these tell no root, what lasts tells one.
        """
        answers = self._with_energy(answers, rows, incident.detected)
        answer = deciding(answers)
        answer, noticed = revised(answer, rows, incident.detected, self.prior)
        since, begin = rows.between(answer.start, rows.stop), answer.start
        if incident.before is not None:  # its alarm says nothing of who was first in this one
            begin = max(begin, incident.before.last + 1)
        levels = rows.between(begin, rows.stop).levels[:, self.statistics.index(answer.statistic)]
        reached = first_rows(levels > self.levels.thresholds[answer.statistic], begin)
        probability, in_doubt = answer.probability.copy(), False
        if not noticed:
            slight = incident.is_slight and rows.stop > incident.last + TUNING.detector_awaited
            probability *= expit(
                answer.evidence + (TUNING.detector_slight if slight else TUNING.detector_alarmed)
            )  # nothing happened is a candidate
            disturbed = self._disturbed(since)
            if not explained([answer]):
                probability, in_doubt = doubted(probability, reached, disturbed)
            if self._curved is not None:  # alarms of a shift are of others' news, too
                probability = upstream(probability, np.where(disturbed, reached, -1), self._curved, self._acting)
        if lasting is not None and not noticed:
            levels = rows.levels[max(incident.detected - rows.first, 0)].max(axis=1)
            surprised = any(levels[k] > self.levels.thresholds[name] for k, name in enumerate(self.statistics))
            if not surprised or probability.max() < DECIDED:
                return self._of_lasting(incident, rows, lasting)
        root = int(probability.argmax())
        probability = self.tempered(probability, since.absent, noticed)
        kind = noticed or "undecided"
        if not noticed and (known := since.between(answer.start, incident.last + 1).known(root)) < 1:
            probability *= known
            kind = OUTSIDE if known < TUNING.detector_known else kind
        if not noticed and probability[root] >= SURE and self._causes[:, root].any():  # others show what is at fault
            kind = next((a.kind for a in answers if a.kind and a.probability.argmax() == root), kind)
        surprise = np.expm1(since.surprise[:, root] + self._level[root])
        if kind == "undecided" and is_glitch(surprise, since.outside[:, root]):
            kind = "sensor"
        where = answer.start, incident.detected, incident.last, incident.open
        return Verdict(*where, answer.statistic, probability, reached, kind, doubted=in_doubt)

    def _of_lasting(self, incident, rows, lasting):
        """Verdict on an incident by what lasts."""
        start = max(incident.detected - lasting.age, rows.first)
        since = rows.between(start, rows.stop)
        reached = first_rows(since.levels[:, len(self.statistics)] > self.slow.threshold, start)
        # nothing happened is a candidate
        probability = lasting.probability * expit(
            TUNING.detector_slight + np.log(10) * (lasting.largest - self.slow.threshold)
        )
        probability = self.tempered(probability, since.absent)
        kind = lasting.kind if probability.max() >= DECIDED else "undecided"
        return Verdict(start, incident.detected, incident.last, incident.open, SLOW, probability, reached, kind)

    def _by_energy(self, rows, detected):
        """Answer of the energy statistic from the onset its cumulative sum finds on."""
        until = rows.between(rows.first, detected + 1)
        unit = int(until.levels[-1, self.statistics.index("energy")].argmax())
        start = rows.first + onset(until.surprise[:, unit], TUNING.detector_drift)
        answer = self.posterior.from_energy(rows.between(start, rows.stop))
        return replace(answer, evidence=answer.evidence - np.log(rows.stop - rows.first))  # of any onset

    def attribute(self, messages, start, stop):
        """Posterior over roots in a window that the user names, of an episode up to its end at least.

        Gives the statistic that decides, the probability of each unit, (n_units,), and the largest alarm
        level of each in the window, (n_units,).
        """
        state = self._begun(StreamState())
        if start > 0:
            for _ in self._taken({name: one.rows(0, start) for name, one in messages.items()}, state):
                pass
        here = {name: one.rows(start, stop) for name, one in messages.items()}
        return (state.own or self)._attributed_from(here, state)

    def _attributed_from(self, here, state):
        """Posterior over roots in the rows that are next in a stream."""
        since = replace(state)
        stood, level_rows = self._stood_before(state), state.point.level_rows
        rows = self.evidence(here, since).over(*stood)
        lasting = None if self.slow is None else self.slow.root(state.slow, rows.rare, self.prior)
        moved = not (state.point is self.nominal_point or state.point.campaign or self.level.moves)
        if moved and max(answer.evidence for answer in self._answers_in(rows, level_rows)) < 0:
            rows = self.evidence(here, replace(state, point=self.nominal_point))  # a fault that lasts, nothing else
            level_rows = np.inf
        return self._attributed(rows, level_rows, lasting)

    def _stood_before(self, state):
        """Surprises of each unit's states, and its off-subspace numbers, on the day before the next row, (n_units,).

        Over nominal ones, one where they are not beyond chance. What stood so while nothing was the matter is no
        sign of what happens next; rows of an incident are left out.
        """
        rows, usual = state.gathered(), np.ones(len(self.names))
        if rows is None:
            return usual, usual
        over = rows.first if state.last is None else state.last.last + GAP
        begin, end = max(rows.first, rows.stop - DAY, over), rows.stop - TUNING.slow_own_rows
        if end - begin < TUNING.slow_least_day:
            return usual, usual
        day, dims = rows.between(begin, end), (self.dims - self.outside_dims, self.outside_dims)
        means = [series.mean(axis=0) for series in (day.surplus, day.outside)]
        chance = [log_scale_factor(mean, dim, end - begin) <= 0 for mean, dim in zip(means, dims, strict=True)]
        return [np.where(few, 1.0, mean) for mean, few in zip(means, chance, strict=True)]

    def _answers_in(self, rows, level_rows):
        """Answers to a named window: that of the statistic that decides, and that of changed dynamics.

        The level of its operating point was learned from `level_rows` besides the nominal ones.
        """
        answers: list[Answer] = []
        if "shift" in self.statistics:
            sizes = {"may_grow": True, "level_rows": level_rows}
            answers += self.posterior.from_shift([rows], len(rows.scaled), NAMED_FROM_START, **sizes)
        if "energy" not in self.statistics:
            return answers
        if not explained(answers):
            answers.append(self.posterior.from_energy(rows))
        return [deciding(answers), self.posterior.from_changes(rows)]

    def _attributed(self, rows, level_rows=np.inf, lasting=None):
        answer, *changes = self._answers_in(rows, level_rows)
        unseen = answer.evidence < 0
        if unseen:
            answer = self.posterior.of_any_size(rows, self.statistics, NAMED_FROM_START, level_rows)
        unforeseen = not explained([answer])
        if changes and (unforeseen or answer.evidence <= changes[0].evidence):
            answer = together([answer, *changes])
        if unforeseen and self.posterior.is_far(rows):
            reached = first_rows(self.levels.relative(rows.levels) > 1, rows.first)
            turned = in_turn_of_alarms(answer.probability, reached, self._disturbed(rows))
            answer = replace(answer, probability=turned)
        answer, noticed = revised(answer, rows, rows.first, self.prior)
        probability = answer.probability * (1.0 if noticed else expit(answer.evidence + TUNING.detector_named))
        probability, statistic = self.tempered(probability, rows.absent, noticed), answer.statistic
        if lasting is not None and not noticed:
            seldom = self.tempered(lasting.probability, rows.absent)
            if lasting.is_surer_than(probability) or (unseen and seldom.max() > probability.max()):
                statistic, probability = SLOW, seldom
        levels = rows.levels[:, list(self.levels.thresholds).index(statistic)]
        return statistic, probability, levels.max(axis=0)

    def _disturbed(self, rows):
        """Units that may be a root and surprise beyond chance in some rows, all of these together."""
        surplus, dims = rows.surplus.mean(axis=0), self.dims - self.outside_dims
        return (log_scale_factor(surplus, dims, len(rows.surplus)) > 0) & (self.prior > 0)

    def tempered(self, probability, absent, noticed=""):
        """Probabilities of roots where causes may be elsewhere, at units that are absent or where nobody measures.

        What a unit notices of its own columns did not come from there.
        """
        at_absent = absent[:, self._causes[int(probability.argmax())]].mean(axis=0).max(initial=0.0)
        probability = probability * (1 - TUNING.detector_absent * at_absent)
        from_outside = not noticed and self.posterior.nominal.is_moved_from_outside
        surest = TUNING.slow_surest if from_outside else 1.0
        return probability * (surest / max(probability.max(), surest))  # roots keep their order


def first_rows(above, begin):
    """First row in which each unit is in alarm, the first of all being row `begin`; -1 where it never is."""
    return np.where(above.any(axis=0), begin + above.argmax(axis=0), -1)


def onset(evidence, drift):
    """Row at which a cumulative sum of ``evidence - drift`` was lowest, the last row being the alarm.

    It is the start of a change (Page 1954, Continuous inspection schemes, Biometrika 41).
    """
    sums = np.concatenate([[0.0], np.cumsum(evidence - drift)[:-1]])
    return int(sums.argmin())
