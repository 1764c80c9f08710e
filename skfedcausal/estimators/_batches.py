"""A plant that is learned batch by batch: units keep their models, the server adds sums."""

from contextlib import closing, contextmanager
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd

from ..callers import warn
from ..client.units import client_templates, further_units, kept_states, new_units, without_silent
from ..containers.layout import as_names, listed, refuse_unknown
from ..containers.rows import check_sampling, sampling_period, warn_of_gaps
from ..federation.ledger import Ledger
from ..given import Inputs, Lengths, Record
from ..message.states import StateMessage
from ..message.watching import WatchRequest
from ..seeding import seeded
from ..server.running import BatchDialogue, check_batches, check_forget
from ._base import FederatedEstimator, where_server
from .tuning import TUNING


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
            warn(
                f"The batch begins at {index[0]}, and rows up to {self.last} were learned from already. It is learned "
                "as an episode of its own; rows that come twice count twice."
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
            return bool(abs((index[0] - self.last) / step - 1) <= TUNING.batches_near)
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


class BatchLearning(FederatedEstimator):
    """Base of the estimators that learn a plant batch by batch."""

    _renewed: tuple[str, ...] = ()  # units that are to identify another model in the next batch

    @where_server("partial_fit")
    def partial_fit(
        self, X: Record, y: None = None, *, inputs: Inputs = None, lengths: Lengths = None, forget: float | None = None
    ) -> Self:
        """Learn the plant from one more batch of rows, whose sums are added to those of the batches before.

        The plant is the one that a fit to all rows together would find with the same models of the units and
        ``level_shifts=None``, up to rounding; the time that a batch takes does not depend on how many came before.
        Units identify their models in the first batch and keep them. Each says in every later one whether its model
        still fits: a warning names those that do not (`outdated_units_`), and
        :func:`~skfedcausal.inspection.renew` lets them identify another.
        `n_batches_` counts the batches since the sums began.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
            Rows that no batch had before. If their index continues where that of the last batch ended, one sampling
            period or number later, so does the episode; otherwise, and always without an index, the batch begins one.
        y : None
            Ignored.
        inputs : list or dict, default=None
            As in :meth:`fit`.
        lengths : sequence of int, default=None
            Time steps of each episode of the batch; None for one.
        forget : float, default=None
            Share of their weight that all earlier rows lose before these are added: 0.1, say, or 1 to start afresh with
            the same models of the units. The batch then begins an episode.

        Returns
        -------
        self : FederatedEstimator

        Warns
        -----
        UserWarning
            Of units whose model no longer fits; after :meth:`fit`, whose rows are not counted.

        Notes
        -----
        Gaps in a batch are filled as the plant before expects, which fits of whole records do otherwise. `validity_`,
        feedback and the units' augmenters are about the last batch. The server keeps sums of products of the units'
        scores, and of each episode its first and last rows.

        Examples
        --------
        >>> from skfedcausal import FederatedGrangerEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, _ = make_granger_plant(3, n_samples=3000, random_state=0)
        >>> estimator = FederatedGrangerEstimator()
        >>> for month in range(3):
        ...     batch = {unit: rows[1000 * month : 1000 * (month + 1)] for unit, rows in X.items()}
        ...     estimator = estimator.partial_fit(batch)
        >>> estimator.n_batches_, estimator.server_.n_samples_
        (3, 3000)
        """
        self._validate_params()
        forget = check_forget(forget)
        self._check_batches()
        place = self._place
        if place is None and hasattr(self, "layout_"):
            place = self._place_after_fit()
        is_first = place is None
        if is_first:
            plant, place, renewed = self._read_first(X, inputs, lengths), Place(), None
            server = self._new_server()
            check_batches(server)
        else:
            plant, server, renewed = self._read_batch(X, inputs, lengths, place), self.server_, self._renewed
        if renewed:  # their states are others: sums begin anew
            server.batches_ = None
        place.warn_if_back(plant.index)
        continues = not renewed and place.goes_on(plant.index)
        dialogue = BatchDialogue(server, renewed, continues=continues, forget=forget)
        with self._naming_inputs():
            self._learn_batch(plant, server, dialogue, plant.names if is_first else renewed, is_first)
        self._place, self._renewed = place.after(plant.index, plant.unit_bytes), ()
        self.communication_ = self.ledger_.communication(self._place.raw_bytes)
        self._store_promise(plant.n_samples)
        self._store_number(dialogue.outdated)
        self._warn_of_inputs()
        return self

    # -- what is asked for in `skfedcausal.inspection` ---------------------------------------------

    def _next_batches(self, transport, wait, forget):
        """Learn from the batches that all sites have, the first time over a `transport`."""
        forget = check_forget(forget)
        if transport is not None:
            self._begin_at_sites(transport)
        if self._place is None or self._channel is None:
            raise ValueError(
                "There are no sites to be asked yet: give `partial_fit_sites` a transport at the first call."
            )
        server, exchange = self.server_, self._channel
        while True:
            question = WatchRequest(self.server_.batches_.n_batches, fits=True)
            messages = exchange.ask_when_there(question, StateMessage, wait)
            if messages is None:
                return self
            server.partial_fit(dict(messages), forget=forget)
            self._store_learned(exchange, server)
            self._store_fit(server, exchange)
            self._store_number(tuple(name for name, message in messages.items() if message.outdated))

    def _renew(self, units):
        """Let units identify their models anew in the next batch."""
        if self._place is None:
            raise ValueError("There are no batches yet: `renew` is for units of a plant learned with `partial_fit`.")
        if self._channel is not None:
            raise ValueError("The models of units at sites are theirs: a site identifies another one in a new run.")
        units = as_names(units, "units")
        refuse_unknown(units, self.client_names_, "There are no units", "the plant has")
        self._renewed = tuple(units)
        return self

    # -- one batch -------------------------------------------------------------------------------

    def _check_batches(self):
        """Refuse what cannot be learned from sums."""
        who = type(self).__name__
        if self.privacy is not None:
            raise ValueError(
                f"{who}.partial_fit does not account for privacy: every batch would be a release of its own. Fit "
                "whole records, or leave `privacy` out."
            )
        if getattr(self, "_channel", None) is not None:
            raise ValueError(
                f"This {who} learned from sites, which hold their records: ask them for their next batches with "
                "`inspection.partial_fit_sites`."
            )
        if getattr(self, "remedy", None) is not None:
            raise ValueError("remedy='auto' fits a whole record twice; leave it out for `partial_fit`.")

    def _place_after_fit(self):
        """Begin after `fit`: with its units' models, and without its rows, of which nothing was kept."""
        warn(
            "The rows of `fit` are not counted: no sums of them were kept. Units continue with the models that they "
            "have. Begin with `partial_fit` for all rows to count."
        )
        check_batches(self.server_)
        return Place()

    def _read_batch(self, X, inputs, lengths, place):
        """The next batch in the layout of the first, as units see it."""
        plant = self._read_next(X, inputs, lengths)
        if isinstance(place.step, pd.Timedelta):
            check_sampling(plant.index, place.step)
        if plant.index is not None:
            warn_of_gaps(plant.index, plant.starts)
        return without_silent(plant, self._units)

    def _learn_batch(self, plant, server, dialogue, to_identify, is_first):
        """The round of a batch with units in this process, of which some are `to_identify` their models."""
        augmenter = None if self.augmenter is None else seeded(self.augmenter, self.random_state)
        sites = {}
        if to_identify:
            part = plant if is_first else plant.only(to_identify)
            names = plant.names if is_first else self.layout_.names
            sites = new_units(part, client_templates(self.client, names, self.random_state), augmenter, {})
        others = [name for name in plant.names if name not in sites]
        if others:
            sites |= further_units(plant.only(others), augmenter, self._units)
        sites = {name: sites[name] for name in plant.names}
        ledger = Ledger(self.max_bytes) if is_first else self.ledger_
        with closing(self._exchange(self._transport(sites), ledger, lost_units=self.lost_units)) as exchange:
            exchange.expect(n_inputs=plant.input_sizes)
            exchange.learn(dialogue, any(U is not None for U in plant.inputs))
            self._store_learned(exchange, server)
            before, kept = {} if is_first else self._units, kept_states(sites)
            there = {name: {**before.get(name, {}), **kept.get(name, {})} for name in server.names_}
            self._store_units(there, server.names_)
            if is_first:
                self.layout_, self._noise, self.noise_covariance_ = plant.layout, {}, {}
                self._row_time = plant.row_time
            self._store_fit(server, exchange)

    def _begin_at_sites(self, transport):
        """Learn from the sites' own records as the first batch."""
        self._validate_params()
        if self._has_inputs:
            raise ValueError(
                f"Batches at sites have no inputs, which {type(self).__name__} is about; use a "
                "FederatedGrangerEstimator, or `fit_sites` with whole records."
            )
        self._channel = None
        self._check_batches()
        server = self._new_server()
        check_batches(server)
        self._fit_sites(transport, server, BatchDialogue(server))
        self._place = Place()
        self._store_number(())

    def _store_number(self, outdated):
        """How many batches there were, and which units say that their models no longer fit."""
        self.n_batches_, self.outdated_units_ = self.server_.batches_.n_batches, outdated
        if outdated:
            warn(
                f"Units {listed(outdated)} say that their models no longer fit: they explain the rows of this batch "
                "clearly worse than those that they were learned from. `inspection.renew` lets them identify others in "
                "the next batch, and a new run those at sites."
            )

    # -- what estimators add -----------------------------------------------------------------------

    def _read_first(self, X, inputs, lengths):
        """The record to learn from, as units see it."""
        return self._read_new(X, inputs, lengths)

    def _read_next(self, X, inputs, lengths):
        """Further rows as units see them."""
        return self._seen_by_units(self._read(X, inputs, lengths))

    @contextmanager
    def _naming_inputs(self):
        """Name what an error knows by number only."""
        yield

    def _warn_of_inputs(self):
        """Say what makes answers about inputs doubtful."""
