"""Watching a plant: records and streams as a detector reads them, sites, tags to blame, what operators say."""

from collections.abc import AsyncIterator
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ..beside import beside
from ..callers import warn
from ..client.units import UnitStreams
from ..containers.clients import opened
from ..containers.rows import check_following, check_sampling, check_zone, has_stopped, warn_of_gaps
from ..federation.ledger import StreamLedger
from ..given import Lengths, Record
from ..message.watching import FlagMessage, FlagsRequest
from ..server.running import check_forget
from ..statespace.episodes import episodes
from ._asked import AskedWatch
from ._base import FederatedEstimator
from ._declared import a_row_later, filled_inputs, merged_inputs, warn_beyond
from ._learned import LearnedWatch
from ._promises import mechanisms
from ._stream_batches import StreamWarning, batch_of, fitting, left_out, n_rows_of, rows_of, stops
from ._streams import PlantStream, fault_table, verdict_reply


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
