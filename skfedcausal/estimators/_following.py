"""Following a plant: streams batch by batch, sites, what operators say of incidents, pages about them.

Methods of the detector beside `fit` and what else scikit-learn knows of detectors.
"""

import warnings
from collections.abc import AsyncIterator
from dataclasses import replace

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ..beside import beside
from ..client.units import UnitStreams
from ..containers.layout import listed
from ..containers.rows import check_following, has_stopped
from ..federation.ledger import StreamLedger
from ..statespace.episodes import episodes
from ._promises import mechanisms
from ._stream_batches import StreamWarning, batch_of, fitting, left_out, n_rows_of, rows_of, stops
from ._streams import PlantStream, flag_array, verdict_reply


def update(self, batch):
    """Follow a stream: the next rows of all units.

    Parameters
    ----------
    batch : list, dict, DataFrame or ndarray, or tuple
        In the containers and columns of `fit`; one row or more, a single one also as flat numbers, of each unit, of all
        in the order of the columns, or by flat name. A pair of these for a plant with inputs beside the measurements:
        ``(X, inputs)``.

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
    _check_stream(self)
    plant = self._stream.usual_row(batch)
    if plant is None:
        X, inputs = self._with_codes(*batch_of(batch))
        plant = self._read_coded(X, inputs, stops(X, self._period), self._stream.last_inputs)
        self._stream.learn_columns(batch, self.layout_)
    changed = _advance(self, plant)
    return self._stream.dated(changed)


def _check_stream(self):
    if not hasattr(self, "_stream"):
        check_is_fitted(self)  # takes as long as to look at a row
    if mechanisms(self.privacy)[1] is not None:
        raise ValueError("A stream of randomised flags is not offered: ask whole records for `flags` or `incidents`.")
    if self._channel is not None:
        raise ValueError("The rows of units at sites come to the sites: follow them with `follow_sites`.")


def _advance(self, plant):
    """Incidents that the next rows start or may change, part by part where the plant stood for long."""
    return [one for part in plant.episodes() for one in _advanced(self, part)]


def _advanced(self, plant):
    stream = self._stream
    plant = _timed(plant, stream.last_time, self._period)
    beyond = self._warn_beyond(plant, stream.beyond, StreamWarning)
    if has_stopped(plant.index, stream.last_time, self._period):
        warnings.warn(
            f"There are no rows between {stream.last_time} and {plant.index[0]}: the watch begins anew after that, at "
            "the operating point where it was.",
            StreamWarning,
            stacklevel=3,
        )
        stream.pause()
        stream.last_time = plant.index[-1]
    else:
        stream.last_time = check_following(plant.index, stream.last_time, self._period)
    if stream.units is None:
        self._check_units(self.client_names_)
        stream.units = UnitStreams(self._units, self._plant_layout)
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


def _timed(plant, last, period):
    """Rows with times, where those before them had some: rows without count as the next ones."""
    if last is None or period is None or isinstance(plant.index, pd.DatetimeIndex) or not plant.n_samples:
        return plant
    warnings.warn(
        f"{plant.n_samples} rows came without times: they are taken to follow {last}, one sampling period apart. The "
        "watch goes on.",
        StreamWarning,
        stacklevel=4,
    )
    return replace(plant, index=pd.date_range(last + period, periods=plant.n_samples, freq=period))


def reset(self):
    """Forget the stream followed so far; the next :meth:`update` starts an episode."""
    self._stream, self.stream_ledger_ = PlantStream(self._watch, self.client_names_), StreamLedger()


def followed(self, batches, answer):
    """Answers to batches one by one, a generator or for an asynchronous iterator an asynchronous one.

    `answer` takes the stream and the incidents that may have changed.
    """
    _check_stream(self)
    self.reset()
    return (_each_later if isinstance(batches, AsyncIterator) else _each)(self, batches, answer)


def _each(self, batches, answer):
    for batch in batches:
        yield answer(self._stream, _next(self, batch))


async def _each_later(self, batches, answer):
    async for batch in batches:
        yield answer(self._stream, _next(self, batch))


def _next(self, batch):
    """Incidents that a batch of a stream changes; what does not fit the plant is named and left out."""
    plant = self._stream.usual_row(batch)
    if plant is None:
        try:
            plant = _read_fitting(self, batch)
        except (TypeError, ValueError) as error:
            if self._stream.n_rows == 0:
                raise  # nothing of it has been right so far
            left_out(error)
    return [] if plant is None else _advance(self, plant)


def _read_fitting(self, batch):
    """What fits the plant of a batch, None if no row does."""
    X, inputs = self._with_codes(*batch_of(batch))
    kept, rows = fitting(X, self.layout_, self._stream.last_time)
    if kept is None:
        return None
    if inputs is not None and rows is not None:
        inputs = rows_of(inputs, rows, n_rows_of(X))
    plant = self._read_coded(kept, inputs, stops(kept, self._period), self._stream.last_inputs)
    self._stream.learn_columns(batch, self.layout_)
    return plant


def partial_fit(self, X, y=None, *, inputs=None, lengths=None, forget=None):
    """Bring what is nominal up to date by a further nominal record: level and spread of every unit.

    The plant, the units' models and the thresholds stay as they were fitted. Streams that begin afterwards begin at the
    new level. Without a fit before, this is :meth:`fit`.

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
    if self.evidence == "flags":
        raise ValueError("`partial_fit` brings innovations up to date; fit with evidence='innovations', or fit again.")
    if self._root_cause.campaigns:
        raise ValueError("`partial_fit` knows of one nominal level; fit again to all levels, or with levels=None.")
    from ..server.running import check_forget  # of plants that are brought up to date

    kept = 1.0 - (check_forget(forget) or 0.0)
    with self._asking(X, inputs, lengths) as units:
        self._root_cause.take_in(units.messages(), kept)
    return self


# -- what operators say --------------------------------------------------------------------------------------


def acknowledge(self, incident):
    """Take note that somebody has seen an incident of the stream: what lasts of it is how the plant runs now.

    An incident that is still open is over, and its level is the operating point; alarms of the same root from now on
    are new incidents, not repeats of this one.

    Parameters
    ----------
    incident : Series, DataFrame or place
        Row of what :meth:`update` gave, of a table its first, or the row's ``detected``.

    Raises
    ------
    ValueError
        If there is no such incident in the stream.
    """
    check_is_fitted(self)
    row = incident.iloc[0] if isinstance(incident, pd.DataFrame) else incident
    self._stream.acknowledge(row["detected"] if isinstance(row, pd.Series) else row)


def rebaseline(self, units=None):
    """Take the level of the stream's last rows for the operating point, after a repair or another recipe, say.

    Parameters
    ----------
    units : sequence of str, default=None
        Only of these units; None for all.

    Raises
    ------
    ValueError
        If a unit is unknown, or too few rows came.
    """
    check_is_fitted(self)
    names = self.client_names_ if units is None else [units] if isinstance(units, str) else list(units)
    unknown = [name for name in names if name not in self.client_names_]
    if unknown:
        raise ValueError(f"Got unknown units {listed(unknown)}; known are {listed(self.client_names_)}.")
    self._stream.rebaseline(np.isin(self.client_names_, names))


def alarms_(self):
    """Rows of the stream so far (``n_steps``), alarms in them (``n_alarms``) and the share of time ``in_alarm``."""
    check_is_fitted(self)
    return self._stream.alarms


# -- sites ---------------------------------------------------------------------------------------------------


def watch_sites(self, *, wait=0.0):
    """Incidents in the records that the sites have to be watched, after :meth:`fit_sites`.

    Every unit sends messages about that record, batch by batch as it comes, by the model it has from the
    fit, and is told the verdicts where there is a way back. Units and server keep where they stand
    between batches, so that the answers are those to one record; the next call goes on.

    Parameters
    ----------
    wait : float, default=0.0
        Seconds to wait for a further batch of every unit before the record is taken to end here.

    Returns
    -------
    DataFrame
        As :meth:`incidents`, in positions from 0 at the first batch; those of all batches so far.

    Raises
    ------
    ClientError
        If a unit gave no usable message, for it has no such record, say.
    ValueError
        If this estimator has no sites, or the batches of the units do not have the same rows.

    See Also
    --------
    follow_sites : The same, batch by batch.
    """
    for _ in self.follow_sites(wait=wait):
        pass
    return self.site_incidents_


def site_incidents_(self):
    """Incidents in the records of the sites as far as they were watched, a DataFrame."""
    check_is_fitted(self)
    if self._channel is None:
        raise AttributeError("`site_incidents_` is there after `fit_sites` only.")
    return self._stream.table()


def follow_sites(self, *, wait=0.0):
    """Follow the records that the sites have to be watched, as :meth:`watch_sites` does.

    Parameters
    ----------
    wait : float, default=0.0
        Seconds to wait for a further batch of every unit.

    Yields
    ------
    DataFrame
        For every batch the incidents that are new or revised, as :meth:`update` gives them.

    Raises
    ------
    ValueError
        If there are no sites to be asked.
    """
    check_is_fitted(self)
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


def flags(self, X=None, *, inputs=None, lengths=None):
    """The paper's flags of every unit as the server gets them: two bits per step (eq. 9).

    Parameters
    ----------
    X : list, dict, DataFrame or ndarray
    inputs, lengths
        As in `fit`.

    Returns
    -------
    DataFrame
        Columns ``unit__Z_c`` (proprietary model) and ``unit__Z_a`` (augmented model), 0 or 1.

    Raises
    ------
    ValueError
        If the detector was not fitted with ``evidence="flags"``.
    """
    check_is_fitted(self)
    if self.evidence != "flags":
        raise ValueError('Flags belong to the paper\'s inference; fit with evidence="flags".')
    columns = [f"{name}__{z}" for name in self.client_names_ for z in ("Z_c", "Z_a")]
    with self._asking(X, inputs, lengths, watched=True) as units:
        flags = flag_array(self._evidence_of(units), self.client_names_)
        return pd.DataFrame(flags.reshape(len(flags), -1), columns=columns, index=units.index)


def report(self, incident, path, *, X=None, title=None, check=None, lengths=None):
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
    >>> "Where it began" in page
    True
    """
    check_is_fitted(self)
    return beside("incident_page")(self, incident, X, title, check, lengths=lengths).write(path)


def incidents_and_levels(self, X, lengths=None):
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
