"""Watching a plant: records, streams and their batches, sites, tags to blame, what operators say."""

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ..arguments import Lengths, Record, warn
from ..beside import beside
from ..client.units import UnitStreams
from ..containers import episode_starts
from ..containers.arrays import SEPARATOR, column_names, flat_name, listed
from ..containers.rows import (
    LONG,
    StreamTimes,
    check_following,
    check_sampling,
    check_zone,
    comes_after,
    has_stopped,
    opened,
    times_of,
    warn_of_gaps,
)
from ..federation.ledger import StreamLedger
from ..message.requests import FlagMessage, FlagsRequest, VerdictReply, WatchRequest
from ..message.states import StateMessage
from ..server.running import check_forget
from ..server.watching.incidents import (
    LASTS,
    NO_FAULT,
    SWITCH,
    FlagWatch,
    KnownFaults,
    fault_row,
    incident_table,
    label_rows,
    same_faults,
)
from ..statespace.episodes import episodes
from ._base import FederatedEstimator
from ._declared import a_row_later, filled_inputs, merged_inputs, warn_beyond
from ._parts import AskedWatch, LearnedWatch, mechanisms
from .tuning import TUNING

# Batches of a stream: what may come as one, and what is done with one that does not fit the plant.


class StreamWarning(UserWarning):
    """Something was wrong with a batch of a stream; the watch goes on with what is right."""


def is_stream(X):
    """Whether batches are to come one after the other."""
    return isinstance(X, (Iterator, AsyncIterator))


def batch_of(batch):
    """Measurements and inputs of a batch, which is a container or a pair of both; single rows are made tables."""
    X, inputs = batch if isinstance(batch, tuple) and len(batch) == 2 else (batch, None)
    return _as_table(X), None if inputs is None else _as_table(inputs)


def _as_table(X):
    if isinstance(X, pd.Series):
        return X.to_frame().T.infer_objects()
    if isinstance(X, Mapping) and X and all(SEPARATOR in str(name) for name in X):  # one row by flat names, or columns
        return pd.DataFrame({name: [value] if np.ndim(value) == 0 else value for name, value in X.items()})
    if isinstance(X, Mapping):
        return {name: _as_row(part) for name, part in X.items()}
    if isinstance(X, list) and X and all(map(np.isscalar, X)):
        return np.asarray(X)[None]
    if isinstance(X, list):
        return [_as_row(part) for part in X]
    return _as_row(X)


def _as_row(part):
    """Measurements of a unit as a table; a flat sequence of numbers is one row."""
    if part is None or isinstance(part, (pd.DataFrame, Mapping)):
        return part
    return np.asarray(part)[None] if np.ndim(part) == 1 else part


def fitting(X, layout, last):
    """A batch without what the plant does not have, NaN where something is missing, rows after a time only, in order.

    And the positions of its rows in what came, None if they are all there and in order. The batch is None if no row is
    left. What is wrong is named by a StreamWarning.
    """
    if isinstance(X, Mapping):
        X = _fitting_units(X, layout)
    elif isinstance(X, pd.DataFrame):
        X = _numbers(_fitting_columns(X, layout.columns, "the batch"), "the batch")
    if n_rows_of(X) == 0:
        return None, None
    times = times_of(X)
    if times is None:
        return X, None
    rows = np.flatnonzero(~times.isna())
    if len(rows) < len(times):
        say_and_go_on(f"{len(times) - len(rows)} rows of a batch have no time: they are left out")
        if not len(rows):
            return None, None
    if last is not None and (times.tz is None) != (last.tz is None):
        say_and_go_on(
            "Times of a batch have a zone and those before have none, or the reverse: they are taken as of one clock"
        )
        times = times.tz_localize(None if last.tz is None else last.tz)
        X = _each(X, lambda part: part.set_axis(times, axis=0))
    if not times[rows].is_monotonic_increasing:
        say_and_go_on(f"Rows of a batch from {times.min()} on are not in time order: they are sorted")
        rows = rows[np.argsort(times[rows].asi8, kind="stable")]
    if last is not None and times[rows[0]] <= last:
        late = times[rows] > last
        say_and_go_on(
            f"{int((~late).sum())} rows go back to {times[rows[0]]}, and the stream has been followed up to {last} "
            "already: they are left out"
        )
        rows = rows[late]
    if np.array_equal(rows, np.arange(len(times))):
        return X, None
    return (_each(X, lambda part: part.iloc[rows]), rows) if len(rows) else (None, None)


def n_rows_of(X):
    parts = list(X.values()) if isinstance(X, Mapping) else [X]
    return len(parts[0]) if parts and hasattr(parts[0], "__len__") else 1


def _each(X, change):
    """A container with a change made to the frames in it, and to arrays where it is one of rows."""
    return {name: change(part) for name, part in X.items()} if isinstance(X, Mapping) else change(X)


def left_out(error):
    """Name a batch that cannot be read."""
    say_and_go_on(f"A batch cannot be read and is left out. {error}".rstrip(". "))


def stops(X, period):
    """Lengths of the parts of a batch between which there are no rows for long; None for one part."""
    times = times_of(X)
    if times is None or period is None or len(times) < 2:
        return None
    cuts = np.flatnonzero(times[1:] - times[:-1] > LONG * period) + 1
    return np.diff([0, *cuts, len(times)]).tolist() if len(cuts) else None


def _fitting_units(X, layout):
    unknown = [name for name in X if str(name) not in layout.names]
    known = {str(name): part for name, part in X.items() if str(name) in layout.names and part is not None}
    missing = [name for name in layout.names if name not in known]
    if unknown:
        say_and_go_on(f"Units {listed(unknown)} are not known since the fit: their rows are left out")
    if not known:
        raise ValueError(f"A batch has none of the units {listed(layout.names)}: it is of another plant.")
    if missing:
        say_and_go_on(f"Units {listed(missing)} are missing from a batch: their rows are taken as missing measurements")
    found = next(iter(known.values()))
    parts: dict[str, Any] = {}
    for k, name in enumerate(layout.names):
        own = [layout.columns[position] for position in layout.unit_columns(k)]
        part: Any = known.get(name)
        if isinstance(part, pd.DataFrame) and column_names(part) is not None:
            named = part.set_axis([flat_name(name, str(column), own) for column in part.columns], axis=1)
            part = _fitting_columns(named, own, f"unit {name!r}")
        elif part is not None and len(part) != len(found):
            say_and_go_on(
                f"Unit {name!r} came with {len(part)} rows in place of {len(found)}: they are taken as missing"
            )
            part = None
        elif part is not None and part.shape[1] != len(own):
            came = f"Unit {name!r} came with {part.shape[1]} columns in place of {len(own)}"
            say_and_go_on(f"{came}: its rows are taken as missing")
            part = None
        if part is None:
            part = np.full((len(found), len(own)), np.nan)
            part = pd.DataFrame(part, columns=own, index=found.index) if isinstance(found, pd.DataFrame) else part
        parts[name] = _numbers(part, f"unit {name!r}")
    return parts


def _numbers(part, what):
    """A table without words and infinite numbers."""
    if isinstance(part, pd.DataFrame):
        words = [column for column, kind in part.dtypes.items() if kind.kind not in "fiub"]
        if words:
            numbers = part[words].apply(_as_numbers)
            lost = [column for column in words if numbers[column].isna().sum() > part[column].isna().sum()]
            if lost:
                say_and_go_on(f"Columns {listed(lost)} of {what} hold something other than numbers: taken as missing")
            part = part.assign(**{str(name): numbers[name].astype(float) for name in words})
        values = part.to_numpy()
    else:
        values = part if isinstance(part, np.ndarray) and part.dtype.kind == "f" else np.zeros(0)
    infinite = np.isinf(values)
    if not infinite.any():
        return part
    say_and_go_on(f"{int(infinite.sum())} values of {what} are infinite: taken as missing")
    return part.mask(infinite) if isinstance(part, pd.DataFrame) else np.where(infinite, np.nan, part)


def _as_numbers(column):
    """A column with NaN for what is no number; of times pandas would make nanoseconds."""
    if column.dtype.kind in "mM":
        return pd.Series(np.nan, column.index)
    return pd.to_numeric(column, errors="coerce")


def _fitting_columns(X, columns, what):
    came = [SEPARATOR.join(map(str, parts)) for parts in X.columns.to_frame().itertuples(index=False)]
    if came == list(columns):
        return X
    if len(set(came)) < len(came):
        again = sorted({name for name in came if came.count(name) > 1})
        say_and_go_on(f"Columns {listed(again)} of {what} came more than once: the first of each is taken")
        first = [came.index(name) == k for k, name in enumerate(came)]
        X, came = X.loc[:, first], list(dict.fromkeys(came))
    unknown = [name for name in came if name not in columns]
    missing = [name for name in columns if name not in came]
    if len(missing) == len(columns):
        raise ValueError(f"A batch has none of the columns of {what}, {listed(columns)}: it is of another plant.")
    if unknown:
        say_and_go_on(f"Columns {listed(unknown)} of {what} were not there in `fit`: they are left out")
    if missing:
        say_and_go_on(f"Columns {listed(missing)} are missing from {what}: their values are taken as missing")
    return X.set_axis(came, axis=1).reindex(columns=list(columns))


def rows_of(inputs, rows, n_rows):
    """The inputs of some rows of a batch of so many; what has another number of them is left for who reads it."""

    def chosen(part):
        if part is None or np.ndim(part) == 0 or len(part) != n_rows:
            return part
        return part.iloc[rows] if hasattr(part, "iloc") else np.asarray(part)[rows]

    if isinstance(inputs, Mapping):
        return {name: chosen(part) for name, part in inputs.items()}
    return [chosen(part) for part in inputs] if isinstance(inputs, (list, tuple)) else chosen(inputs)


def say_and_go_on(text):
    """Name what was wrong with rows of a stream that is followed all the same."""
    warn(f"{text}. Monitoring continues.", StreamWarning)


# A plant whose rows come in batches: where the watch stands, and the verdicts that units are told.


class PlantStream:
    """The rows of a plant so far and the incidents that a RootCauseServer or FlagWatch finds in them."""

    def __init__(self, watch, names):
        self._watch, self._names = watch, names
        self._flags = isinstance(watch, FlagWatch)
        self.state, self._first, self.n_rows = watch.new_state(), 0, 0
        self._known: dict[int, KnownFaults] = {}  # by the first row of their episode
        self._recent: dict[int, tuple] = {}  # verdicts that may have to do with the last rows, by first alarm
        self._told: dict[int, dict] = {}
        self._seen: frozenset = frozenset()  # first alarms in this episode that an operator acknowledged
        self._labels, self._n_labelled = np.zeros(0, dtype=object), 0  # told of the last rows, and up to where
        self._starts: dict[int, int] = {}  # of the incidents changed last, as they were told
        self.n_batches, self._usual = 0, None
        self.units: Any = None  # of a stream in this process, as the next two
        self.exchange: Any = None
        self.noised = None
        self.last_time: Any = None
        self.last_inputs: tuple | None = None  # of each unit in the last row, held where later ones are missing
        self.beyond: frozenset = frozenset()  # names of inputs that were beyond their ranges in the last row
        self._times: StreamTimes | None = StreamTimes(TUNING.streams_remembered)

    def __reduce__(self):
        """A copy starts another stream: the last rows of this one stay with its units."""
        return PlantStream, (self._watch, self._names)

    def __getstate__(self):
        """All that a model file holds of it: the exchange with the units is made anew."""
        return vars(self) | {"exchange": None}

    def usual_row(self, batch):
        """A row that came in the container of those before it, as PlantData; None of what has to be looked at."""
        plant = None if self._usual is None else self._usual.read(batch)
        is_next = plant is not None and (self.last_time is None or comes_after(plant.index, self.last_time))
        return plant if is_next else None

    def learn_columns(self, batch, layout):
        """Take note of what a batch that was read looked like."""
        if layout.names == tuple(self._names):
            from ..containers.plant import UsualRows  # of streams

            self._usual = UsualRows(layout) if self._usual is None else self._usual
            self._usual.learn(batch)

    @property
    def question(self):
        """What units are asked for the next batch, and the type of their answers."""
        answer = FlagMessage if self._flags else StateMessage
        return WatchRequest(self.n_batches + 1, flags=self._flags), answer

    def push(self, answers, lengths=None):
        """Incidents that the next rows start or may change, as (first row of their episode, verdict).

        `lengths` are those of the episodes in the rows, None for flags of one episode. The first of them goes
        on where the last rows ended.
        """
        if self._flags:
            rows = flag_array(answers, self._names)
            lengths = (len(rows),) if lengths is None else lengths
        else:
            lengths = self._same_lengths(answers)
        changed = []
        for k, (i, j) in enumerate(episodes(episode_starts(lengths), sum(lengths))):
            if k:
                self.state, self._first, self._seen = self._watch.new_state(), self.n_rows, frozenset()
            if self._flags:
                part = rows[i:j]
            else:
                part = answers if len(lengths) == 1 else {name: one.rows(i, j) for name, one in answers.items()}
            changed += [(self._first, verdict) for verdict in self._watch.push(part, self.state)]
            self.n_rows += j - i
        self._note(changed)
        self.n_batches += 1
        return changed

    def _note(self, changed):
        """Take note of incidents that are new or have changed, as (first row of their episode, verdict)."""
        for first in {first for first, _ in changed}:
            self._known.setdefault(first, KnownFaults()).take([v for start, v in changed if start == first])
        if changed:
            recent = self._recent | {start + verdict.detected: (start, verdict) for start, verdict in changed}
            begin = self.n_rows - TUNING.streams_remembered
            self._recent = {row: one for row, one in sorted(recent.items()) if _reaches(one, begin)}

    def _same_lengths(self, messages):
        lengths = {name: message.lengths for name, message in messages.items()}
        if len(set(lengths.values())) > 1:
            sent = ", ".join(f"{name} sent {sum(rows)}" for name, rows in lengths.items())
            raise ValueError(
                f"Batch {self.n_batches + 1} has not the same rows at all units: {sent}. Cut records at the same times."
            )
        return next(iter(lengths.values()))

    @property
    def found(self):
        """All incidents as they are known now, as (first row of their episode, verdict) in the order of alarms."""
        return [(first, verdict) for first in sorted(self._known) for verdict in self._known[first].verdicts.values()]

    def table(self):
        """All incidents as they are known now."""
        return fault_table(self.found, self._names, seen=self._seen)

    def pause(self):
        """Begin anew after rows of which nothing is known, at the same operating point."""
        self._watch.pause(self.state)

    def acknowledge(self, detected):
        """Take note that an incident, told as detected at a row or time, was seen."""
        if self._flags:
            raise ValueError("Incidents from flags have no operating point that could be acknowledged.")
        for first, fault in self._faults(self.found):
            row = fault_row(fault, self._names, first, self._times) if self._times else None
            if detected in (first + fault[0].detected, row and row["detected"]):
                self._seen |= {one.detected for one in fault}
                now = self._watch.acknowledge(self.state, self._seen)
                self._changed_by_hand(now)
                return
        raise ValueError(f"There is no incident that was detected at {detected} in this stream.")

    def rebaseline(self, units):
        """Take the level of the last rows of some units, a mask, for their operating point."""
        if self._flags:
            raise ValueError("Flags have no operating point; fit with evidence='innovations'.")
        now = self._watch.rebaseline(self.state, units)
        self._changed_by_hand(now)

    def _changed_by_hand(self, verdicts):
        changed = [(self._first, verdict) for verdict in verdicts]
        self._note(changed)
        self._hold_times(changed)

    @property
    def alarms(self):
        """Rows so far, alarms in them, and the share of the rows in alarm."""
        spans = [(start + v.detected, start + v.stop) for start, v in self.found if v.kind not in NO_FAULT]
        rows = sum(max(stop - begin, 1) for begin, stop in spans)
        share = rows / self.n_rows if self.n_rows else 0.0
        return {"n_steps": self.n_rows, "n_alarms": len(spans), "in_alarm": min(share, 1.0)}

    def take_times(self, index):
        """Take note of the times of the next rows, if they have any."""
        if not isinstance(index, pd.DatetimeIndex):
            self._times = None
        elif self._times is not None:
            self._times.extend(index)

    def _hold_times(self, changed):
        if self._times is not None:
            self._times.hold({first + row for first, v in changed for row in (v.start, v.detected, v.stop - 1)})

    def dated(self, changed):
        """Table of the faults among changed incidents that are new or revised, places as times if all rows had them.

        Revised is one of another root, kind, end, status or number of repeats, or of a probability that is another by
        more than 0.01.
        """
        rows = []
        if changed:
            self._hold_times(changed)
        for first, fault in self._faults(changed):
            over = self._known[first].over | self._seen
            row = fault_row(fault, self._names, first, over=over)
            if row["kind"] == SWITCH and row["detected"] not in self._told:
                continue  # it has been no incident for those who are told
            if _is_news(row, self._told.get(row["detected"])):
                self._told[row["detected"]] = row
                rows.append(row if self._times is None else fault_row(fault, self._names, first, self._times, over))
        return incident_table(rows, None if self._times is None else self._times.dtype)

    def _faults(self, changed):
        """Faults that hold some of the changed verdicts, or were told to, as (first row of the episode, verdicts)."""
        for first in sorted({first for first, _ in changed}):
            rows = {first + row for at, v in changed if at == first for row in (v.detected, *v.ends)}
            lost = {row for row, told in self._told.items() if rows & {place for place, _ in told["repeats"]}}
            of = {row - first for row in rows | lost} & self._known[first].verdicts.keys()
            yield from ((first, fault) for fault in self._known[first].of(of))

    def labels(self, changed):
        """The slice of rows whose roots are new or revised with the last batch, and the roots, an array of str.

        Rows before the last thousand are as they were told.
        """
        told, self._n_labelled = self._n_labelled, self.n_rows
        starts = {first + verdict.detected: first + verdict.start for first, verdict in changed}
        begin = min([told, *starts.values(), *(self._starts[row] for row in starts if row in self._starts)])
        begin, self._starts = max(begin, told - len(self._labels)), starts
        roots = self.roots(begin)
        before = self._labels[len(self._labels) - (told - begin) :]
        same = np.append(before == roots[: told - begin], False).argmin()
        labels = np.concatenate([self._labels[: len(self._labels) - (told - begin)], roots])
        self._labels = labels[-TUNING.streams_remembered :]
        return slice(int(begin + same), self.n_rows), roots[same:].astype(str)

    def roots(self, begin=0):
        """Root at every step from a row on, names, "" or "undecided"."""
        roots = np.full(self.n_rows - begin, "", dtype=object)
        here = self._recent.values() if begin >= self.n_rows - TUNING.streams_remembered else self.found
        recent = [one for one in here if _reaches(one, begin)]
        for first in sorted({start for start, _ in recent}):
            label_rows(roots, [v for start, v in recent if start == first], self._names, begin - first)
        return roots


def _reaches(one, row):
    """Whether an incident, (first row of its episode, verdict), may be told in rows after one."""
    return one[0] + one[1].stop + LASTS > row


def _is_news(row, told):
    """Whether a row of the table says something else than was told of it."""
    if told is None:
        return True
    same = ("root", "kind", "repeats", "end", "status")
    differs = any(repr(row[name]) != repr(told[name]) for name in same)  # repr: NaN are alike
    return differs or abs(row["probability"] - told["probability"]) > TUNING.streams_revised


def flag_array(answers, names):
    """Flags in the answers of these units, integers of shape (n_samples, n_units, 2)."""
    return np.stack([answers[name].pairs for name in names], axis=1).astype(np.uint8)


def verdict_reply(found):
    """Verdict on incidents given as (first row of their episode, verdict)."""
    rows = [(v.start + first, v.detected + first, v.last + first) for first, v in found]
    roots = [v.probability.argmax() for _, v in found]
    return VerdictReply(np.array(rows, dtype=int).reshape(-1, 3), np.array(roots, dtype=int))


def flag_verdict(roots, n_units):
    """Verdict with an incident for every run of rows with the same root, an array of shape (n_samples,)."""
    begins = np.flatnonzero(np.diff(roots, prepend=-3))  # no root, so that the first row begins a run
    ends = np.append(begins[1:], len(roots)) - 1
    named = roots[begins] != -1
    root = np.where(roots[begins] < 0, n_units, roots[begins])
    return VerdictReply(np.column_stack([begins, begins, ends])[named], root[named])


def fault_table(found, names, index=None, seen=frozenset()):
    """Table of incidents given as (first row of their episode, verdict), with one row for each fault.

    Of what lasts the operator has `seen` those with these first alarms.
    """
    rows = []
    for first in sorted({first for first, _ in found}):
        here = sorted((v for start, v in found if start == first and v.kind != SWITCH), key=lambda v: v.detected)
        over = seen.union(*(verdict.ends for verdict in here))
        rows += [fault_row(fault, names, first, index, over) for fault in same_faults(here)]
    return incident_table(rows)


# Watching a plant: records and streams as a detector reads them, sites, tags to blame, what operators say.


class WatchingDetector(LearnedWatch, FederatedEstimator):
    """Base of the detector: how it reads records once it is fitted, and how it follows a plant."""

    _asked_kind = AskedWatch
    _stream: Any  # PlantStream that is followed
    _modes: Any = None  # PlantModes where a column tells them
    _late: Any = None  # names of inputs that are sent a row later, if any

    # -- records -----------------------------------------------------------------------------------

    def _ways_in(self):
        ways = super()._ways_in() | {"follow": self._follow_sites, "evidence": self._evidence_of}
        ways |= {"kept": getattr(self, "_units", {}), "layout": lambda: self._plant_layout, "coded": self._with_codes}
        ways |= {"levels_and_times": self._levels_and_times, "incidents_and_levels": self._incidents_and_levels}
        ways["n_levels"] = lambda: len(self._root_cause.campaigns) + 1
        return ways | {"stream": getattr(self, "_stream", None)}

    def _with_codes(self, X, inputs=None):
        """A record and its inputs with codes in place of modes."""
        inputs, _ = merged_inputs(inputs)
        return (X, inputs) if self._modes is None else self._modes.coded(X, inputs, self.layout_.names)

    def _levels_and_times(self, X, lengths=None, levels=None):
        """Alarm levels of a record as :meth:`transform` gives them, unless known, and times or numbers of its rows."""
        levels = np.asarray(self.transform(X, lengths=lengths) if levels is None else levels)
        X, _, lengths = opened(X, None, lengths)
        index = super()._read(self._with_codes(X)[0], lengths=lengths).index
        return levels, np.arange(len(levels)) if index is None else index

    def _read(self, X, inputs=None, lengths=None):
        """Plant data in the layout and at the sampling period of `fit`."""
        X, inputs, lengths = opened(X, inputs, lengths)
        X, inputs = self._with_codes(X, inputs)
        plant = self._read_coded(X, inputs, lengths)
        self._warn_beyond(plant)
        return plant

    def _warn_beyond(self, plant, *told):
        """Warn of inputs beyond their ranges in `fit`, where that takes more evidence; those in the last row."""
        ranges = self.input_ranges_ if plant.layout.has_inputs and self.signs == "innovations" else {}
        return warn_beyond(plant, ranges, *told) if ranges else frozenset()

    def _read_coded(self, X, inputs, lengths, before=None):
        """The same of a record with codes in place of modes; `before` are the inputs of the row before it."""
        plant = super()._read(X, inputs, lengths)
        if self._modes is not None:
            plant = self._modes.without_unknown(plant, before)
        if plant.layout.has_inputs:
            plant = filled_inputs(plant, "hold", before)
        check_sampling(plant.index, self._period)
        warn_of_gaps(plant.index, plant.starts)
        return plant

    def _seen_by_units(self, plant, before=None):
        """A record with inputs in the row they explain, and indicators of modes; `before` as in `_read_coded`."""
        if self._late:
            plant = a_row_later(plant, self._late, before)
        return plant if self._modes is None else self._modes.indicators(plant)

    def _evidence_of(self, units):
        """Answers of the units about a record, of the kind that is watched."""
        if self.signs == "flags":
            return units.exchange.ask_all(FlagsRequest(), FlagMessage)
        return units.messages()

    def _verdicts(self, units):
        """Incidents of every episode, as (first row of the episode, verdict); the units are told."""
        found = PlantStream(self._watch, self.client_names_).push(self._evidence_of(units), units.lengths)
        self._tell(units.exchange, verdict_reply(found))
        return found

    def _tell(self, exchange, verdict):
        exchange.tell(dict.fromkeys(self.client_names_, verdict))

    def _table(self, found, index):
        """Incidents by row, or by time where the record has times."""
        return fault_table(found, self.client_names_, index if isinstance(index, pd.DatetimeIndex) else None)

    def _incidents_and_levels(self, X, lengths=None):
        """Incidents in a record and its levels as :meth:`transform` gives them, from one look at the rows."""
        with self._asking(X, None, lengths, watched=True) as units:
            messages, index, found, levels = units.messages(), units.index, [], []
            for start, stop in episodes(units.starts, units.n_samples):
                part = {name: message.rows(start, stop) for name, message in messages.items()}
                verdicts, seen = self._root_cause.followed(part)
                found += [(start, verdict) for verdict in verdicts]
                levels.append(seen)
            self._tell(units.exchange, verdict_reply(found))
        return self._table(found, index), np.concatenate(levels)

    # -- streams -----------------------------------------------------------------------------------

    def update(self, batch: Record, *, strict: bool = True) -> pd.DataFrame:
        """Follow a stream: the next rows of all units.

        Parameters
        ----------
        batch : list, dict, DataFrame or ndarray, or tuple
            In the containers and columns of `fit`; one row or more, a single one also as flat numbers, of each unit, of
            all in the order of the columns, or by flat name. A pair of these for a plant with inputs beside the
            measurements: ``(X, inputs)``.
        strict : bool, default=True
            Whether what does not fit the plant is an error. If not, it is named by a
            :class:`~skfedcausal.streams.StreamWarning` and left out, as in :meth:`incidents` of an iterator.

        Returns
        -------
        DataFrame
            Incidents that are new or revised (root, kind, end, repeats, or a probability by more than 0.01), as in
            :meth:`incidents`, positions counted from the first row of the stream, times where all batches have them. An
            incident is the same one as long as its ``detected`` is; one whose ``detected`` is among the ``repeats`` of
            another is part of that from then on.

        Raises
        ------
        ValueError
            If rows do not follow those before, or flags are randomised. The stream stays where it was.
        """
        self._check_stream()
        changed = self._advance(self._read_batch(batch)) if strict else self._next_batch(batch, first=True)
        return self._stream.dated(changed)

    def _read_batch(self, batch, fit=False):
        """The next rows of a stream; those that `fit` the plant, where others are left out, None if there are none."""
        plant, stream = self._stream.usual_row(batch), self._stream
        if plant is not None:
            return plant
        X, inputs = self._with_codes(*batch_of(batch))
        if fit:
            n_rows = n_rows_of(X)
            X, rows = fitting(X, self.layout_, stream.last_time)
            if X is None:
                return None
            if inputs is not None and rows is not None:
                inputs = rows_of(inputs, rows, n_rows)
        plant = self._read_coded(X, inputs, stops(X, self._period), stream.last_inputs)
        stream.learn_columns(batch, self.layout_)
        return plant

    def _check_stream(self):
        if not hasattr(self, "_stream"):
            check_is_fitted(self)  # takes as long as to look at a row
        if mechanisms(self.privacy)[1] is not None:
            raise ValueError(
                "A stream of randomised flags is not offered: ask whole records for `inspection.flags` or `incidents`."
            )
        if self._channel is not None:
            raise ValueError(
                "The rows of units at sites come to the sites: follow them with `inspection.follow_sites`."
            )

    def _advance(self, plant):
        """Incidents that the next rows start or may change, part by part where the plant stood for long."""
        return [one for part in plant.episodes() for one in self._advance_part(part)]

    def _advance_part(self, plant):
        stream = self._stream
        check_zone(plant.index, stream.last_time)
        plant = _timed(plant, stream.last_time, self._period)
        beyond = self._warn_beyond(plant, stream.beyond, StreamWarning)
        if has_stopped(plant.index, stream.last_time, self._period):
            warn(
                f"There are no rows between {stream.last_time} and {plant.index[0]}: monitoring restarts after the "
                "gap, at the same operating point.",
                StreamWarning,
            )
            stream.pause()
            stream.last_time = plant.index[-1]
        else:
            stream.last_time = check_following(plant.index, stream.last_time, self._period)
        if stream.units is None:
            self._check_units(self.client_names_)
            stream.units = UnitStreams(self._units, self._plant_layout)
        if stream.exchange is None:
            stream.exchange = self._exchange(self._transport(stream.units.sites), self.stream_ledger_)
        if stream.noised is None and (mechanism := self._checked_mechanism()) is not None:
            stream.noised = mechanism.stream(self._noise)
        if plant.layout.has_inputs:
            stream.beyond = beyond
            before, stream.last_inputs = stream.last_inputs, tuple(None if U is None else U[-1] for U in plant.inputs)
            plant = self._seen_by_units(plant, before)
        if stream.units.put(plant, stream.noised):
            self._store_promise(plant.n_samples)
        changed = stream.push(stream.exchange.ask_all(*stream.question))
        stream.take_times(plant.index)
        if changed:
            self._tell(stream.exchange, verdict_reply(changed))
        return changed

    def reset(self) -> None:
        """Forget the stream followed so far; the next :meth:`update` starts an episode."""
        self._stream, self.stream_ledger_ = PlantStream(self._watch, self.client_names_), StreamLedger()

    def _followed(self, batches, answer):
        """Answers to batches one by one, a generator or for an asynchronous iterator an asynchronous one.

        `answer` takes the stream and the incidents that may have changed.
        """
        self._check_stream()
        self.reset()
        return (self._each_batch_later if isinstance(batches, AsyncIterator) else self._each_batch)(batches, answer)

    def _each_batch(self, batches, answer):
        for batch in batches:
            yield answer(self._stream, self._next_batch(batch))

    async def _each_batch_later(self, batches, answer):
        async for batch in batches:
            yield answer(self._stream, self._next_batch(batch))

    def _next_batch(self, batch, first=False):
        """Incidents that a batch of a stream changes; what does not fit the plant is named and left out.

        An error where nothing has been right so far, unless the `first` batch may be wrong, too.
        """
        try:
            plant = self._read_batch(batch, fit=True)
        except (TypeError, ValueError) as error:
            if self._stream.n_rows == 0 and not first:
                raise  # nothing of it has been right so far
            left_out(error)
            return []
        return [] if plant is None else self._advance(plant)

    def partial_fit(
        self, X: Record, y: Any = None, *, inputs: Any = None, lengths: Lengths = None, forget: float | None = None
    ) -> Self:
        """Bring what is nominal up to date by a further nominal record: level and spread of every unit.

        The plant, the units' models and the thresholds stay as they were fitted. Streams that begin afterwards begin at
        the new level. Without a fit before, this is :meth:`fit`.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
            Measurements in nominal operation.
        y : None
            Ignored.
        inputs, lengths
            As in `fit`.
        forget : float, default=None
            Share of its weight, from 0 to 1, that what was learned before loses; None for none of it.

        Returns
        -------
        self : FederatedRCADetector

        Raises
        ------
        ValueError
            If `forget` is no share, or ``evidence="flags"``, of which nothing is kept but a threshold.
        """
        if not hasattr(self, "layout_"):
            return self.fit(X, inputs=inputs, lengths=lengths)
        if self.signs == "flags":
            raise ValueError(
                "`partial_fit` brings innovations up to date; fit with evidence='innovations', or fit again."
            )
        if self._root_cause.campaigns:
            raise ValueError("`partial_fit` knows of one nominal level; fit again to all levels, or with levels=None.")
        kept = 1.0 - (check_forget(forget) or 0.0)
        with self._asking(X, inputs, lengths) as units:
            self._root_cause.take_in(units.messages(), kept)
        return self

    @property
    def alarms_(self) -> dict[str, Any]:
        """Rows of the stream so far (``n_steps``), alarms in them (``n_alarms``) and the share of time ``in_alarm``."""
        check_is_fitted(self)
        return self._stream.alarms

    # -- sites -------------------------------------------------------------------------------------

    @property
    def site_incidents_(self) -> pd.DataFrame:
        """Incidents in the records of the sites as far as they were watched, a DataFrame."""
        check_is_fitted(self)
        if self._channel is None:
            raise AttributeError("`site_incidents_` is there after `fit_sites` only.")
        return self._stream.table()

    def _follow_sites(self, wait):
        """Incidents that are new or revised for every batch that all sites have."""
        if self._channel is None:
            raise ValueError("There are no sites to be asked: `fit_sites` first.")
        exchange, stream = self._channel, self._stream
        while True:
            answers = exchange.ask_when_there(*stream.question, wait)
            if answers is None:
                return
            changed = stream.push(answers)
            self._tell(exchange, verdict_reply(changed))
            self._store_told_promises()
            stream.take_times(None)
            yield stream.dated(changed)

    # -- pages -------------------------------------------------------------------------------------

    def report(
        self,
        incident: pd.Series | pd.DataFrame,
        path: str | PathLike[str],
        *,
        X: Record | None = None,
        title: str | None = None,
        check: Any | None = None,
        lengths: Lengths = None,
    ) -> Path:
        """Write a page on an incident that a shift lead can read.

        What happened, where it began, why we think so, what we do not know, what data left the units.

        Parameters
        ----------
        incident : Series or DataFrame
            Row of :meth:`incidents`; of a table its first row.
        path : str or Path
            HTML file. The page holds everything it shows and loads nothing.
        X : list, dict, DataFrame or ndarray, default=None
            The record of the incident, for pictures of it and of the tag to blame, for a check of the data, and to say
            whether it may be one of the false alarms that were allowed. Where noise protects it the page is made of the
            noised copy, without measurements and tags, and says so.
        title : str, default=None
        check : PlantCheck, default=None
            Of the record; None checks `X` if it is given.
        lengths : sequence of int, default=None
            Rows of each episode of `X`.

        Returns
        -------
        Path

        Raises
        ------
        ValueError
            If `incident` is no row of :meth:`incidents`.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> from skfedcausal import FederatedRCADetector
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, _ = make_granger_plant(n_units=3, n_samples=3000, random_state=0)
        >>> faulty = {name: Y[2600:].copy() for name, Y in X.items()}
        >>> faulty["unit2"][200:] += 2 * faulty["unit2"].std(axis=0)
        >>> detector = FederatedRCADetector().fit({name: Y[:2600] for name, Y in X.items()})
        >>> incidents = detector.incidents(faulty).query("detected >= 200")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = detector.report(incidents, Path(folder) / "trip.html", X=faulty).read_text()
        >>> "What speaks against it" in page
        True
        """
        check_is_fitted(self)
        return beside("incident_page")(self, incident, X, title, check, lengths=lengths).write(path)


def _timed(plant, last, period):
    """Rows with times, where those before them had some: rows without count as the next ones."""
    is_timed = isinstance(plant.index, (pd.DatetimeIndex, pd.TimedeltaIndex))
    if not isinstance(last, pd.Timestamp) or period is None or is_timed or not plant.n_samples:
        return plant
    warn(
        f"{plant.n_samples} rows came without times: they are taken to follow {last}, one sampling period apart. "
        "Monitoring continues.",
        StreamWarning,
    )
    return replace(plant, index=pd.date_range(last + period, periods=plant.n_samples, freq=period))
