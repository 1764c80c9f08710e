"""A plant that is learned batch by batch: units keep their models, the server adds sums."""

import warnings
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..client.units import client_templates, further_units, kept_states, new_units, without_silent
from ..containers.layout import listed
from ..containers.rows import check_sampling, sampling_period, warn_of_gaps
from ..federation.ledger import Ledger
from ..message.states import StateMessage
from ..message.watching import WatchRequest
from ..seeding import seeded
from ..server.running import BatchDialogue, check_batches, check_forget

_NEAR = 1e-3  # of a sampling period, within which a row comes where it is expected


class Place(NamedTuple):
    """Where the batches stand: last row, step from row to row, and bytes of each unit's rows so far."""

    last: Any = None
    step: Any = None
    raw_bytes: dict | None = None

    def after(self, index, raw_bytes):
        """The place after a batch."""
        before = self.raw_bytes or {}
        total = {name: before.get(name, 0) + number for name, number in raw_bytes.items()}
        if index is None or not len(index):
            return Place(raw_bytes=total)
        step = _step(index)
        return Place(index[-1], self.step if step is None else step, total)

    def warn_if_back(self, index):
        """Say that rows come again, or late: sums do not tell which rows they are of."""
        if not isinstance(index, pd.DatetimeIndex) or not isinstance(self.last, pd.Timestamp):
            return
        if len(index) and (index.tz is None) == (self.last.tz is None) and index[0] <= self.last:
            warnings.warn(
                f"The batch begins at {index[0]}, and rows up to {self.last} were learned from already. It is learned "
                "as an episode of its own; rows that come twice count twice.",
                UserWarning,
                stacklevel=5,
            )

    def goes_on(self, index):
        """Whether the first row of a batch comes one step after the last one."""
        if index is None or not len(index) or self.last is None:
            return False
        step = _step(index) if self.step is None else self.step
        kinds = isinstance(index[0], pd.Timestamp), isinstance(self.last, pd.Timestamp)
        if step is None or kinds[0] != kinds[1]:
            return False
        try:
            return bool(abs((index[0] - self.last) / step - 1) <= _NEAR)
        except TypeError:  # names of rows, or times of zones that cannot be compared
            return False


def _step(index):
    """Step from row to row of an index of times or numbers, None of others."""
    if isinstance(index, pd.DatetimeIndex):
        step = sampling_period(index)
        return step if step is None or step > pd.Timedelta(0) else None
    if index.dtype.kind not in "iuf" or len(index) < 2:
        return None
    step = float(np.median(np.diff(index.to_numpy())))
    return step if step > 0 else None


def learn_batch(estimator, X, inputs, lengths, forget):
    """`partial_fit` of an estimator of plants."""
    estimator._validate_params()
    forget = check_forget(forget)
    _check_able(estimator)
    place = estimator._batches
    if place is None and hasattr(estimator, "layout_"):
        place = _after_fit(estimator)
    is_first = place is None
    plant = estimator._read_first(X, inputs, lengths) if is_first else _read_next(estimator, X, inputs, lengths, place)
    server = estimator._new_server() if is_first else estimator.server_
    if is_first:
        check_batches(server)
    renewed = () if is_first else estimator._renewed
    if renewed:  # their states are others: sums begin anew
        server._batches = None
    place = Place() if is_first else place
    place.warn_if_back(plant.index)
    continues = not renewed and place.goes_on(plant.index)
    dialogue = BatchDialogue(server, None if is_first else renewed, continues=continues, forget=forget)
    with estimator._naming_inputs():
        _exchange(estimator, plant, server, dialogue, is_first, renewed)
    _keep(estimator, plant, server, dialogue, place)
    estimator._warn_of_inputs()
    return estimator


def _check_able(estimator):
    """Refuse estimators that cannot learn from sums."""
    who = type(estimator).__name__
    if estimator.privacy is not None:
        raise ValueError(
            f"{who}.partial_fit does not account for privacy: every batch would be a release of its own. Fit whole "
            "records, or leave `privacy` out."
        )
    if getattr(estimator, "_channel", None) is not None:
        raise ValueError(
            f"This {who} learned from sites, which hold their records: ask them for their next batches with "
            "`partial_fit_sites`."
        )
    if getattr(estimator, "remedy", None) is not None:
        raise ValueError("remedy='auto' fits a whole record twice; leave it out for `partial_fit`.")


def _after_fit(estimator):
    """Begin after `fit`: with its units' models, and without its rows, of which nothing was kept."""
    warnings.warn(
        "The rows of `fit` are not counted: no sums of them were kept. Units go on with the models that they have. "
        "Begin with `partial_fit` for all rows to count.",
        UserWarning,
        stacklevel=4,
    )
    check_batches(estimator.server_)
    return Place()


def _read_next(estimator, X, inputs, lengths, place):
    """The next batch in the layout of the first, as units see it."""
    plant = estimator._read_next(X, inputs, lengths)
    if isinstance(place.step, pd.Timedelta):
        check_sampling(plant.index, place.step)
    if plant.index is not None:
        warn_of_gaps(plant.index, plant.starts)
    return without_silent(plant, estimator._units)


def _exchange(estimator, plant, server, dialogue, is_first, renewed):
    """The round of a batch with units in this process."""
    augmenter = None if estimator.augmenter is None else seeded(estimator.augmenter, estimator.random_state)
    to_identify = plant.names if is_first else renewed
    sites = {}
    if to_identify:
        part = plant if is_first else plant.only(to_identify)
        names = plant.names if is_first else estimator.layout_.names
        templates = client_templates(estimator.client, names, estimator.random_state)
        sites = new_units(part, templates, augmenter, {})
    others = [name for name in plant.names if name not in sites]
    if others:
        sites |= further_units(plant.only(others), augmenter, estimator._units)
    sites = {name: sites[name] for name in plant.names}
    ledger = Ledger(estimator.max_bytes) if is_first else estimator.ledger_
    how = {"lost_units": estimator.lost_units}
    with closing(estimator._exchange(estimator._transport(sites), ledger, **how)) as exchange:
        exchange.expect(n_inputs=plant.input_sizes)
        exchange.learn(dialogue, any(U is not None for U in plant.inputs))
        estimator._store_learned(exchange, server)
        before = {} if is_first else estimator._units
        kept = kept_states(sites)
        there = {name: {**before.get(name, {}), **kept.get(name, {})} for name in server.names_}
        estimator._store_units(there, server.names_)
        if is_first:
            estimator.layout_, estimator._noise, estimator.noise_covariance_ = plant.layout, {}, {}
            estimator._row_time = plant.row_time
        estimator._store_fit(server, exchange)


def _keep(estimator, plant, server, dialogue, place):
    """What is known after a batch."""
    place = place.after(plant.index, plant.unit_bytes)
    estimator._batches, estimator._renewed = place, ()
    estimator.communication_ = estimator.ledger_.communication(place.raw_bytes)
    estimator._store_promise(plant.n_samples)
    _keep_number(estimator, dialogue.outdated)


def learn_site_batches(estimator, transport, wait, forget):
    """`partial_fit_sites` of an estimator of plants."""
    forget = check_forget(forget)
    if transport is not None:
        _begin_at_sites(estimator, transport)
    if estimator._batches is None or estimator._channel is None:
        raise ValueError("There are no sites to be asked yet: give `partial_fit_sites` a transport at the first call.")
    server, exchange = estimator.server_, estimator._channel
    while True:
        question = WatchRequest(server._batches.n_batches, fits=True)
        messages = exchange.ask_when_there(question, StateMessage, wait)
        if messages is None:
            return estimator
        server.partial_fit(dict(messages), forget=forget)
        estimator._store_learned(exchange, server)
        estimator._store_fit(server, exchange)
        outdated = tuple(name for name, message in messages.items() if message.outdated)
        _keep_number(estimator, outdated)


def _begin_at_sites(estimator, transport):
    """Learn from the sites' own records as the first batch."""
    estimator._validate_params()
    if estimator._has_inputs:
        raise ValueError(
            f"Batches at sites have no inputs, which {type(estimator).__name__} is about; use a "
            "FederatedGrangerEstimator, or `fit_sites` with whole records."
        )
    estimator._channel = None
    _check_able(estimator)
    server = estimator._new_server()
    check_batches(server)
    estimator._fit_sites(transport, server, BatchDialogue(server))
    estimator._batches = Place()
    _keep_number(estimator, ())


def _keep_number(estimator, outdated):
    """How many batches there were, and which units say that their models no longer fit."""
    estimator.n_batches_, estimator.outdated_units_ = estimator.server_._batches.n_batches, outdated
    if outdated:
        warnings.warn(
            f"Units {listed(outdated)} say that their models no longer fit: they explain the rows of this batch "
            "clearly worse than those that they were learned from. `renew(units)` lets them identify others in the "
            "next batch, and a new run those at sites.",
            UserWarning,
            stacklevel=5,
        )


def renew(estimator, units):
    """`renew` of an estimator of plants."""
    if estimator._batches is None:
        raise ValueError("There are no batches yet: `renew` is for units of a plant learned with `partial_fit`.")
    if estimator._channel is not None:
        raise ValueError("The models of units at sites are theirs: a site identifies another one in a new run.")
    units = [units] if isinstance(units, str) else list(units)
    unknown = [name for name in units if name not in estimator.client_names_]
    if unknown:
        raise ValueError(f"There are no units {listed(unknown)}; the plant has {listed(estimator.client_names_)}.")
    estimator._renewed = tuple(units)
    return estimator
