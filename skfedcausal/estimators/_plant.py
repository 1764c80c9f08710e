"""What the estimators of plants share once fitted: predictions, states, links, batches, the oracle."""

from contextlib import closing, contextmanager
from functools import wraps
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, overload

import numpy as np
import pandas as pd
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from ..arguments import Inputs, Lengths, Record, check_choice, check_confidence, warn, weighted_mean
from ..beside import beside
from ..client.units import client_templates, further_units, kept_states, new_units, without_silent
from ..containers.arrays import as_names, listed, refuse_unknown
from ..containers.rows import check_sampling, sampling_period, warn_of_gaps
from ..federation.ledger import Ledger
from ..message.clock import Clock
from ..message.requests import Measurements, PredictRequest, WatchRequest
from ..message.states import StateMessage
from ..privacy.calibration import UtilityWarning
from ..seeding import seeded
from ..server.forecasts import begin_of, counted_steps, forecast_covariances
from ..server.planning import expected_states
from ..server.running import BatchDialogue, check_batches, check_forget
from ..statespace.kalman import stationary_covariance
from ..statespace.matrices import companion
from ._base import FederatedEstimator, where_server
from ._interventions import two_sided
from ._parts import AskedPlant
from .tuning import TUNING

# What is asked of the links of a fitted plant, and which of them added noise leaves undecided.

_TESTS = ("p_value", "p_adjusted", "p_holm", "p_fdr")


class LinkQuestions(FederatedEstimator):
    """Base of the estimators whose server learns links: what is asked of these."""

    links_: pd.DataFrame
    _undecidable: tuple = ()  # units of which added noise may hide states
    _known_benefit: Any = None, None  # plant that the last call of `benefit` was about, and its table

    @property
    def validity_(self) -> pd.DataFrame:
        """What was checked of the assumptions behind the verdicts of `links_`.

        A table of ``check, cause, effect, statistic, p_value, passed, remedy``, cause and effect the same for a
        check of a unit. Verdicts that rest on a check that failed are withheld in `links_`.
        """
        check_is_fitted(self)
        table = getattr(self.server_, "validity_", None)
        if table is None:
            raise AttributeError(
                f"{type(self.server_).__name__} does not check what its plant assumes; fit with a LikelihoodServer."
            )
        return table

    @where_server("test_links")
    def test_links(
        self, X: Record | None = None, method: str = "lr", *, inputs: Inputs = None, lengths: Lengths = None
    ) -> pd.DataFrame:
        """Test every link between states given the others, by one of the three classical tests.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
            Record to learn the plant from, such as that of `fit`, of which an estimator keeps no series.
        method : {"lr", "wald", "score"}, default="lr"
            Likelihood ratio of the plants with and without the link; Wald test in the plant with it; score
            test in the plant without it. Large samples make them agree. A plant of several lags has "score"
            only, over all of them.
        inputs, lengths
            As in `fit`.

        Returns
        -------
        DataFrame
            One row per ordered pair: ``cause, effect, in_model, statistic, dof, p_value``, ``p_holm``
            (family-wise, Holm) and ``p_fdr`` (false discovery rate, Benjamini and Hochberg). Chi-squared
            under the hypothesis of no link, given the other links in the model as everything in `links_`.

        Examples
        --------
        >>> from skfedcausal import FederatedGrangerEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, _ = make_granger_plant(3, links=[("unit0", "unit2")], random_state=0)
        >>> tests = FederatedGrangerEstimator().fit(X).test_links(X, "lr")
        >>> tests.query("p_holm < 0.05")[["cause", "effect"]].to_string(index=False)
        'cause effect\\nunit0  unit2'
        """
        with self._asking(X, inputs, lengths) as units:
            return undecided(self.server_.test_links(units.messages(), method), self._undecidable)

    @property
    def benefit_(self) -> pd.DataFrame | None:
        """Table by unit of the last call of :func:`~skfedcausal.inspection.benefit` since `fit`, or of `fit` itself.

        `fit` makes it where the server holds rows out: ``LikelihoodServer(options=LikelihoodOptions(held_out=0.2))``.
        """
        check_is_fitted(self)
        transition, table = self._known_benefit
        if transition is self.transition_:
            return table
        table = getattr(self.server_, "benefit_", None)
        if table is None:
            raise AttributeError(
                "Nothing held-out was predicted: call inspection.benefit(est, X), or fit with "
                "server=LikelihoodServer(options=LikelihoodOptions(held_out=0.2))."
            )
        return self._with_bytes(table)

    def _with_bytes(self, table):
        """The table with what joining took in `fit`."""
        paid = self.communication_["per_client"]
        sent = {way: [paid[name][way] for name in table.index] for way in ("bytes_up", "bytes_down")}
        return table.assign(**sent)

    def _keep_benefit(self, table):
        """The table with what joining took, which is the last one about this plant."""
        self._known_benefit = (self.transition_, self._with_bytes(table))
        return self._known_benefit[1]


# -- links that added noise leaves undecided -------------------------------------------------------


def undecidable_units(server, noise, clients):
    """Units of which added noise may hide a state that matters.

    A direction of the sensors' covariance rises above white noise of a record of T rows and D sensors only
    if its signal-to-noise ratio exceeds ``sqrt(D / T)`` [1]_. A unit is obscured if a state with a tenth of
    the variance of its strongest one would stay below that.
    """
    if not noise or not hasattr(server, "unshrunk_transition_"):
        return ()
    lags = getattr(server, "lag_transitions_", ())
    lags = lags if len(lags) > 1 else server.unshrunk_transition_[None]
    states = state_covariance(lags, server.process_cov_)
    hidden = []
    for name, rows in server.state_slices_.items():
        client = clients.get(name)
        searched = client is None or (client.n_states == "auto" and client.C is None)
        if name in noise and searched:
            strongest = np.linalg.eigvals(server.information_[rows, rows] @ states[rows, rows]).real.max()
            if TUNING.link_questions_share * strongest < np.sqrt(len(noise[name]) / server.n_samples_):
                hidden.append(name)
    return tuple(hidden)


def state_covariance(lags, Q):
    """Stationary covariance of the states of a plant, (n, n), from its lags (p, n, n) and process covariance."""
    n = len(Q)
    noise = np.zeros((n * len(lags),) * 2)
    noise[:n, :n] = Q
    return stationary_covariance(companion(np.hstack(list(lags)), len(lags)), noise)[:n, :n]


def undecided(table, units):
    """Table of links in which no test rejects, since noise may hide states of `units`."""
    if not units:
        return table
    tests = {column: 1.0 for column in _TESTS if column in table}
    verdict = {"verdict": "cannot tell"} if "verdict" in table else {}
    return table.assign(**tests, **verdict)


def warn_undecidable(units):
    """Say that no link can be told, and what would help."""
    if units:
        warn(
            f"The noise on {listed(units)} may hide a state with a tenth of the variance of the strongest. It could "
            "drive both ends of any link: no test is valid, and every link is undecided. Use a larger epsilon, a "
            "smaller event_radius or a longer record.",
            UtilityWarning,
        )


# A plant that is learned batch by batch: units keep their models, the server adds sums.


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


# What the estimators of plants share once fitted: predictions, states, likelihoods, links, the oracle.


class PlantEstimator(LinkQuestions, BatchLearning):
    """Base of the estimators whose server learns a linear plant; use a subclass."""

    _needed: dict[str, bool] = {"tests_links": True}  # of a server, and what a server means that says nothing of it
    _acting: tuple[str, ...] = ("lag_transitions_",)  # attributes that hold what acts on the states
    _asked_kind = AskedPlant

    def _new_server(self):
        server = super()._new_server()
        if not all(getattr(server, name, default) for name, default in self._needed.items()):
            raise ValueError(
                f"{type(server).__name__} learns a plant without tests of links or effects of inputs as it is here; "
                f"{type(self).__name__} needs a LikelihoodServer or a GradientServer."
            )
        if hasattr(server, "is_asked_for_links"):
            server.is_asked_for_links = True
        return server

    def _store_fit(self, server, exchange):
        if self._channel is not None:  # sites tell their clocks
            self._row_time = next((_row_time(message) for message in exchange.messages.values()), None)
        self._links, self._undecidable = None, ()
        if self.noise_covariance_:
            self._undecidable = undecidable_units(server, self.noise_covariance_, self.clients_)
            warn_undecidable(self._undecidable)

    @property
    def links_(self) -> pd.DataFrame:  # type: ignore[override]
        """The table of links, made when it is first asked for; see the attributes of the class."""
        if "layout_" not in vars(self):
            raise NotFittedError(f"{type(self).__name__}.links_ is not known before a fit: call fit(X) first.")
        if self._links is None:
            server, noisy = self.server_, self.noise_covariance_
            links = getattr(server, "likelihood_links_", server.links_) if noisy else server.links_
            self._links = undecided(_in_plant_time(links, self._row_time), self._undecidable)
        return self._links

    def _ways_in(self):
        names = "check_rows", "next_batches", "renew", "keep_benefit", "row_time", "undecidable", "acting"
        return super()._ways_in() | {name: getattr(self, f"_{name}") for name in names} | {"learned_from": self._taught}

    # -- predictions and states ------------------------------------------------------------------

    def predict(
        self, X: Record | None = None, *, inputs: Inputs = None, lengths: Lengths = None, model: str = "augmented"
    ) -> np.ndarray:
        """Measurements of all units predicted one step ahead.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
        inputs : list or dict, default=None
            As in `fit`.
        lengths : sequence of int, default=None
        model : {"augmented", "client", "server"}, default="augmented"
            "client": each unit's own filter. "augmented": the unit's own filter and its guess of the
            other units' influence. "server": the server's filter over all units' messages.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs)
            In the units of the sensors. Columns in the order of the table that came in, without those of
            inputs; a frame under ``set_output``.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If `model` is unknown, or X has other units or columns than in `fit`.

        Examples
        --------
        >>> from skfedcausal import FederatedGrangerEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, _ = make_granger_plant(2, random_state=0)
        >>> FederatedGrangerEstimator().fit(X).predict(X, model="server").shape
        (2000, 16)
        """
        check_choice("model", model, ("augmented", "client", "server"))
        with self._asking(X, inputs, lengths) as units:
            if model == "server":
                answers = units.mapped(self.server_.filter(units.messages()).predicted)
            else:
                answers = units.exchange.ask_all(PredictRequest(model), Measurements)
            return self._predicted(units, answers)

    @overload
    def forecast(
        self,
        X: Record,
        start: int,
        *,
        inputs: Inputs = None,
        confidence: None = None,
        return_std: Literal[False] = False,
    ) -> np.ndarray: ...
    @overload
    def forecast(
        self, X: Record, start: int, *, inputs: Inputs = None, confidence: float, return_std: Literal[False] = False
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]: ...
    @overload
    def forecast(
        self, X: Record, start: int, *, inputs: Inputs = None, confidence: None = None, return_std: Literal[True]
    ) -> tuple[np.ndarray, np.ndarray]: ...
    def forecast(
        self, X: Record, start: int, *, inputs: Inputs = None, confidence: float | None = None, return_std: bool = False
    ) -> Any:
        """Measurements from a row on, given those before it and the inputs of all rows: a free run.

        The server's filter continues without measurements: many steps ahead, under inputs that are known.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
            One episode. Measurements from row `start` on are not looked at and may be NaN.
        start : int
            Position of the first row that is forecast, at least 1.
        inputs : list or dict, default=None
            As in `fit`, for the rows before and after `start`.
        confidence : float, default=None
            Also return the ends of a band that holds a measurement of each row and sensor with this probability.
        return_std : bool, default=False
            Also return standard deviations of what the forecast misses, in place of a band.

        Returns
        -------
        mean : ndarray of shape (n_samples - start, n_outputs)
            Expected measurements, laid out as by :meth:`predict`.
        low, high : ndarray of the same shape
            With `confidence`.
        std : ndarray of the same shape
            With `return_std`.

        Raises
        ------
        ValueError
            If there are no rows before or after `start`, or `confidence` is no probability or given together
            with `return_std`.

        Warns
        -----
        UserWarning
            If there are less than three times as many rows before `start` as bands are asked for.

        Notes
        -----
        What inputs do beyond what is linear is part of a forecast as far as every fifth of the record of `fit`
        confirms it: with the least slope of what a linear run under the inputs missed of a fifth on what was foretold
        of it, learned from the others.

        Bands come from what forecasts of as many rows have missed just before `start`, in up to 120 rows that they
        had not seen: they are as honest as X has rows before `start`, best with more than twice as many as are
        forecast and another hundred, and rows that nothing was learned from. Without any they are the plant's own.

        Examples
        --------
        >>> from skfedcausal import FederatedCounterfactualEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, truth = make_granger_plant(2, n_inputs=1, random_state=0)
        >>> est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
        >>> est.forecast(X, 1900, inputs=truth.inputs).shape
        (100, 16)
        """
        with self._asking(X, inputs) as units:
            n_samples, whole = units.n_samples, isinstance(start, Integral) and not isinstance(start, bool)
            if not whole or not 0 < start < n_samples:
                raise ValueError(
                    f"Got start={start!r} for {n_samples} rows; give the position of the first row to be forecast, 1 "
                    f"to {n_samples - 1}."
                )
            index = None if units.index is None else units.index[start:]
            if confidence is None and not return_std:
                _, predicted = expected_states(self.server_, units.messages(until=int(start)))
                table, columns = units.measured(units.mapped(predicted[start:]))
                return self._framed(table, columns, index)
            blocks, columns = banded_forecast(self.server_, units, int(start), confidence, return_std)
            return tuple(self._framed(block, columns, index) for block in blocks)

    def transform(self, X: Record | None = None, *, inputs: Inputs = None, lengths: Lengths = None) -> np.ndarray:
        """Filtered states of the whole plant, given the messages up to each step.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
        inputs : list or dict, default=None
            As in `fit`.
        lengths : sequence of int, default=None

        Returns
        -------
        ndarray of shape (n_samples, n)
            In the states of the units' models, in the order of `state_slices_`.
        """
        with self._asking(X, inputs, lengths) as units:
            return self.server_.filter(units.messages_there(self._silent)).filtered

    def _names_out(self, input_features=None):
        """Names of the states, ``unit__state0, unit__state1, ...``; scikit-learn may name the columns of X."""
        check_is_fitted(self)
        sizes = self._state_sizes.items()
        return np.array([f"{name}__state{k}" for name, size in sizes for k in range(size)], dtype=object)

    def score(
        self,
        X: Record | None = None,
        y: Any = None,
        *,
        inputs: Inputs = None,
        lengths: Lengths = None,
        sample_weight=None,
    ) -> float:
        """Mean of :meth:`score_samples`.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
        y : None
            Ignored.
        inputs : list or dict, default=None
            As in `fit`.
        lengths : sequence of int, default=None
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows in the mean.

        Returns
        -------
        float
        """
        return weighted_mean(self.score_samples(X, inputs=inputs, lengths=lengths), sample_weight)

    def report(
        self,
        path: str | PathLike[str],
        *,
        title: str = "Which unit drives which",
        X: Record | None = None,
        check: Any | None = None,
    ) -> Path:
        """Write a page for people who were not there: links, doubts, what data left the units.

        Its first sentence says what speaks against the fit or the data as a whole, if anything does. Without
        matplotlib (extra ``plot``) a page has no pictures, and says so in their places.

        Parameters
        ----------
        path : str or Path
            HTML file. The page holds everything it shows and loads nothing.
        title : str, default="Which unit drives which"
        X : list, dict, DataFrame or ndarray, default=None
            The record, for a check of it and a picture of measurements. Where noise protects it neither
            is on the page, which says so.
        check : PlantCheck, default=None
            Of the record; None checks `X` if it is given.

        Returns
        -------
        Path

        Raises
        ------
        NotFittedError
            Before `fit`.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> from skfedcausal import FederatedGrangerEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, _ = make_granger_plant(2, random_state=0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = FederatedGrangerEstimator().fit(X).report(Path(folder) / "plant.html")
        ...     page.read_text().splitlines()[0]
        '<!DOCTYPE html>'
        """
        check_is_fitted(self)
        return beside("plant_page")(self, title, X, check).write(path)

    def _taught(self, other, plant):
        """Another estimator of this class, fitted to a record in the layout of this one's."""
        return type(self)._fit_units(other, plant)


def banded_forecast(server, units, start, confidence, return_std):
    """Mean, low and high of the rows from `start` on, or mean and standard deviation, and the names of columns."""
    if confidence is not None:
        check_confidence(confidence)
        if return_std:
            raise ValueError("Got `confidence` and `return_std`; ask for a band or for standard deviations.")
    run, predicted = expected_states(server, units.messages(until=start))
    n_steps = units.n_samples - start
    _warn_of_few_rows(run.plain.record, start, n_steps)
    covariances = forecast_covariances(run, start, n_steps, confidence)
    mean, variance, columns = units.with_variance(units.mapped(predicted[start:], covariances))
    std = np.sqrt(variance)
    if return_std:
        return [mean, std], columns
    half = two_sided(confidence) * std
    return [mean, mean - half, mean + half], columns


def _warn_of_few_rows(record, start, n_steps):
    """Say from where on no forecast of as many rows has shown what it misses."""
    counted = counted_steps(record, start)
    if n_steps > counted:
        warn(
            f"There are {start - begin_of(record, start)} rows before `start`, too few to see what forecasts of "
            f"{n_steps} rows miss: from {counted + 1} rows ahead on bands are what the plant says, which is often too "
            "sure. Give X three times as many rows before `start` as are forecast, or forecast fewer."
        )


def _record_optional(method):
    """The method without the X that scikit-learn's wrapper of `transform` asks for; sites have a record."""

    @wraps(method)
    def asked(self, X=None, **settings):
        return method(self, X, **settings)

    return asked


PlantEstimator.transform = _record_optional(PlantEstimator.transform)  # type: ignore[method-assign]


def _row_time(message):
    """Time from row to row that the clock in a message tells, None where it tells none."""
    clock = Clock.of_message(message)
    return None if clock is None else pd.Timedelta(seconds=clock.period)


def _in_plant_time(links, period):
    """The table of links with its delays in seconds, too, where rows have times: ``delay_time`` and its interval."""
    if period is None or "delay" not in links:
        return links
    delays = {name: links[name] * period.total_seconds() for name in ("delay", "delay_low", "delay_high")}
    return links.assign(**{name.replace("delay", "delay_time"): values for name, values in delays.items()})
