"""What the estimators of plants share once fitted: predictions, states, likelihoods, links, the oracle."""

from contextlib import contextmanager
from functools import wraps
from numbers import Integral
from types import MethodType

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..client.pooled import PooledTransport, unit_trainings
from ..message.requests import LossAnswer, LossRequest, Measurements, PredictRequest
from ..message.states import PredictionReply
from ..optional import import_optional
from ..server.gradient.state import relayed_plans
from ..server.likelihood import LikelihoodServer
from ._base import FederatedEstimator
from ._changes import dated, level_of, settled
from ._link_effects import link_effects
from ._link_times import in_plant_time, row_time
from ._privacy_curve import privacy_curve
from ._undecidable import undecidable_units, undecided, warn_undecidable


class where_server:
    """A question for estimators whose server has `name`; elsewhere the error says which fit could answer."""

    def __init__(self, name, example="LikelihoodServer"):
        self._name, self._example = name, example

    def __call__(self, question):
        self._function = question
        return self

    def __get__(self, estimator, owner=None):
        if estimator is None:
            return self._function
        server = LikelihoodServer() if estimator.server is None else estimator.server
        if not getattr(server, self._name, False):
            raise AttributeError(
                f"{owner.__name__}.{self._function.__name__} is not answered by a fit with "
                f"{type(server).__name__}; fit with server={self._example}(...)."
            )
        return MethodType(self._function, estimator)


class PlantEstimator(FederatedEstimator):
    """Base of the estimators whose server learns a linear plant; use a subclass."""

    link_effects = link_effects

    def _new_server(self):
        server = super()._new_server()
        if not getattr(server, "tests_links", True):
            raise ValueError(
                f"{type(server).__name__} learns a plant for FederatedRCADetector, with no tests of links or "
                f"effects of inputs; {type(self).__name__} needs a LikelihoodServer or a GradientServer."
            )
        return server

    def _store_fit(self, server, exchange):
        if self._channel is not None:  # sites tell their clocks
            self._row_time = next((row_time(message) for message in exchange.messages.values()), None)
        self.links_, self._undecidable = in_plant_time(server.links_, self._row_time), ()
        if self.noise_covariance_:
            self._undecidable = undecidable_units(server, self.noise_covariance_, self.clients_)
            warn_undecidable(self._undecidable)
            self.links_ = undecided(self.links_, self._undecidable)

    # -- batch by batch --------------------------------------------------------------------------

    @where_server("partial_fit")
    def partial_fit(self, X, y=None, *, inputs=None, lengths=None, forget=None):
        """Learn the plant from one more batch of rows, whose sums are added to those of the batches before.

        The plant is the one that a fit to all rows together would find with the same models of the units and
        ``level_shifts=None``, up to rounding; the time that a batch takes does not depend on how many came before.
        Units identify their models in the first batch and keep them. Each says in every later one whether its model
        still fits: a warning names those that do not (`outdated_units_`), and :meth:`renew` lets them identify another.
        `n_batches_` counts the batches since the sums began.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
            Rows that no batch had before. If their index goes on where that of the last batch ended, one sampling
            period or number later, so does the episode; otherwise, and always without an index, the batch begins one.
        y : None
            Ignored.
        inputs : list or dict, default=None
            As in :meth:`fit`.
        lengths : sequence of int, default=None
            Time steps of each episode of the batch; None for one.
        forget : float, default=None
            Share of their weight that all earlier rows lose before these are added: 0.1, say, or 1 to begin anew with
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
        from ._batches import learn_batch  # of records that go on

        return learn_batch(self, X, inputs, lengths, forget)

    @where_server("partial_fit")
    def partial_fit_sites(self, transport=None, *, wait=0.0, forget=None):
        """Learn the plant from units at sites, batch by batch.

        The first batch is the record that each site names as `data`, from which it identifies its model. The next
        ones are files that come in the folder it names as `watched`, in the order of their names (see
        :doc:`/federation`); every file is an episode. Units send states of the new rows only, and are told what the
        plant does to them after the first batch only.

        Parameters
        ----------
        transport : Transport, default=None
            To the sites, at the first call. It stays open; later calls go on over it.
        wait : float, default=0.0
            Seconds to wait for a batch that not all sites have yet. When they are over, it is left for the next call.
        forget : float, default=None
            As in :meth:`partial_fit`, before every batch.

        Returns
        -------
        self : FederatedEstimator
            After all batches that all sites have.
        """
        from ._batches import learn_site_batches  # of records that go on

        return learn_site_batches(self, transport, wait, forget)

    def renew(self, units):
        """Let units identify their models anew in the next batch of :meth:`partial_fit`.

        A new model has other states, about which earlier batches say nothing: the sums begin anew with that batch. The
        other units keep their models.

        Parameters
        ----------
        units : str or list of str
            Names, of `outdated_units_` for example.

        Returns
        -------
        self : FederatedEstimator
        """
        from ._batches import renew

        return renew(self, units)

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

    # -- predictions and states ------------------------------------------------------------------

    def predict(self, X=None, *, inputs=None, lengths=None, model="augmented"):
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
        if model not in ("augmented", "client", "server"):
            raise ValueError(f"model={model!r}; choose 'augmented', 'client' or 'server'.")
        with self._asking(X, inputs, lengths) as units:
            if model == "server":
                answers = self._mapped(units, self.server_.filter(units.messages()).predicted)
            else:
                answers = units.exchange.ask_all(PredictRequest(model), Measurements)
            return self._table(answers, units.index)

    def forecast(self, X, start, *, inputs=None, confidence=None, return_std=False):
        """Measurements from a row on, given those before it and the inputs of all rows: a free run.

        The server's filter goes on without measurements: many steps ahead, under inputs that are known.

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

        Notes
        -----
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
            if confidence is not None or return_std:
                from ._bands import banded_forecast  # most ask for the mean alone

                return banded_forecast(self, units, int(start), index, confidence, return_std)
            predicted = self.server_.filter(units.messages(until=int(start))).predicted
            return self._table(self._mapped(units, predicted[start:]), index)

    def _by_unit(self, states):
        """Pairs of every unit's name and its own among the states of all."""
        return [(name, np.ascontiguousarray(states[:, rows])) for name, rows in self.state_slices_.items()]

    def _mapped(self, units, states, covariances=None):
        """Expected measurements of states: every unit maps its own through its sensors."""
        of_units = [None] * len(self.state_slices_) if covariances is None else covariances
        own = zip(self._by_unit(states), of_units, strict=True)
        return units.exchange.ask({name: PredictionReply(part, V) for (name, part), V in own}, Measurements)

    def transform(self, X=None, *, inputs=None, lengths=None):
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

    def get_feature_names_out(self, input_features=None):
        """Names of the states, ``unit__state0, unit__state1, ...``.

        Parameters
        ----------
        input_features : ignored
            Part of scikit-learn's interface.

        Returns
        -------
        ndarray of str of shape (n,)
        """
        check_is_fitted(self)
        sizes = {name: rows.stop - rows.start for name, rows in self.state_slices_.items()}
        return np.array([f"{name}__state{k}" for name, size in sizes.items() for k in range(size)], dtype=object)

    def score(self, X=None, y=None, *, inputs=None, lengths=None):
        """Mean of :meth:`score_samples`.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
        y : None
            Ignored.
        inputs : list or dict, default=None
            As in `fit`.
        lengths : sequence of int, default=None

        Returns
        -------
        float
        """
        return float(self.score_samples(X, inputs=inputs, lengths=lengths).mean())

    def oracle(self, X, *, inputs=None, lengths=None):
        """The same estimator fitted by a central machine that holds all raw measurements.

        Only for data that may be pooled: a check of what the federation costs.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
            The record of `fit`.
        inputs : list or dict, default=None
        lengths : sequence of int, default=None

        Returns
        -------
        estimator
            Of the same class, fitted with the same settings and unit models.

        Raises
        ------
        ValueError
            If the estimator learned from sites, or with noise inside training.
        """
        check_is_fitted(self)
        self._check_rows()
        if self._channel is not None:
            raise ValueError(
                "The oracle pools raw measurements, which sites keep: it exists only for records in one process. "
                "Compare with `fit(X)` where X may be pooled."
            )
        if self._message_mechanism is not None and self._message_mechanism.place != "record":
            raise ValueError(
                "The oracle pools what the units sent; noise inside training has no counterpart there. Use noise on "
                "the record, or none, to compare with it."
            )
        other = clone(self).set_params(transport=PooledTransport, wire_dtype="float64", lost_units=None)
        return self._taught(other, self._read(X, inputs, lengths))

    def oracle_gap(self, X, *, inputs=None, lengths=None):
        """Relative distance of the plant matrices to the oracle's, in Frobenius norm.

        Rounding error. On a nearly degenerate plant (``server_.has_prior_``) messages in single or half
        precision can lead to other links.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
            The record of `fit`.
        inputs : list or dict, default=None
        lengths : sequence of int, default=None

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If the oracle learns another number of states, of a record that is not that of `fit`.

        Examples
        --------
        >>> from skfedcausal import FederatedGrangerEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, _ = make_granger_plant(2, random_state=0)
        >>> FederatedGrangerEstimator().fit(X).oracle_gap(X) < 1e-8
        True
        """
        oracle = self.oracle(X, inputs=inputs, lengths=lengths)
        pairs = list(zip(self._plant_matrices(), oracle._plant_matrices(), strict=True))
        (own, central), *_ = pairs
        if len(own[0]) != len(central[0]):
            raise ValueError(
                f"Got a record from which the oracle learns {len(central[0])} states, and this estimator has "
                f"{len(own[0])}: the oracle is fitted to the record of `fit`. Give that one."
            )
        own, central = (
            np.hstack(matrices) for matrices in zip(*(_of_equal_lags(*pair) for pair in pairs), strict=True)
        )
        return float(np.linalg.norm(own - central) / np.linalg.norm(central))

    def report(self, path, *, title="Which unit drives which", X=None, check=None):
        """Write a page for people who were not there: links, doubts, what data left the units.

        Its first sentence says what speaks against the fit or the data as a whole, if anything does. Without
        matplotlib (extra ``plot``) a page has no pictures, and says so in their places.

        Parameters
        ----------
        path : str or Path
            HTML file. The page holds everything it shows and loads nothing.
        title : str, default="Which unit drives which"
        X : list, dict, DataFrame or ndarray, default=None
            The record, for a check of it and a picture of measurements.
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
        from ..reports import plant_page  # matplotlib is optional

        return plant_page(self, title, X, check).write(path)

    # -- links -----------------------------------------------------------------------------------

    @property
    def validity_(self):
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

    def validity_display(self):
        """Picture of `validity_` (extra ``plot``).

        Returns
        -------
        ValidityDisplay

        Examples
        --------
        >>> from skfedcausal import FederatedGrangerEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, _ = make_granger_plant(2, random_state=0)
        >>> FederatedGrangerEstimator().fit(X).validity_display().failed.sum()
        np.int64(0)
        """
        from ..displays import ValidityDisplay  # matplotlib is optional

        return ValidityDisplay.from_estimator(self)

    @where_server("spectrum")
    def spectrum(self, cause, effect, *, conditional=True, n_frequencies=None, level=None):
        """Geweke's measure of the influence of one unit on another over frequency.

        Parameters
        ----------
        cause, effect : str
            Names of units.
        conditional : bool, default=True
            Given the measurements of all other units; False looks at the two units alone.
        n_frequencies : int, default=None
            None takes as many as the average over frequency needs to converge.
        level : float, default=None
            Coverage of intervals at each frequency by the delta method, columns ``low, high``; None gives
            none.

        Returns
        -------
        DataFrame
            Columns ``frequency``, in radians per time step up to pi, and ``measure``. ``attrs["total"]`` is
            the measure of the time domain, and ``attrs["averages_to_total"]`` says whether Geweke's root
            condition holds, so that the mean over frequency is the total.

        Examples
        --------
        >>> from skfedcausal import FederatedGrangerEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, _ = make_granger_plant(2, links=[("unit0", "unit1")], random_state=0)
        >>> spectrum = FederatedGrangerEstimator().fit(X).spectrum("unit0", "unit1")
        >>> bool(abs(spectrum["measure"].mean() - spectrum.attrs["total"]) < 1e-6)
        True
        """
        check_is_fitted(self)
        settings = {"conditional": conditional, "n_frequencies": n_frequencies, "level": level}
        return self.server_.spectrum(cause, effect, **settings)

    @where_server("link_intervals")
    def link_intervals(self, level=0.95, *, geweke=False):
        """Intervals of the strength of every link between states, and what would decide them.

        Parameters
        ----------
        level : float, default=0.95
            Coverage of each interval, not of all together.
        geweke : bool, default=False
            Also intervals of Geweke's measure: by the delta method on the scale of its root, and like the
            measure given the links in the model. Takes a few seconds for 30 units.

        Returns
        -------
        DataFrame
            One row per ordered pair: ``cause, effect, strength``; ``low, high``, the interval, `low` zero
            where no influence is compatible with the record; ``deciding_rows``, length of a record of this
            kind in which an influence of strength `margin` is told from none four times in five; with
            `geweke` also ``geweke, geweke_low, geweke_high``, the ends NaN where the plant has no way from
            cause to effect, so that the measure is exactly zero.
        """
        check_is_fitted(self)
        return self.server_.link_intervals(level, geweke=geweke)

    @where_server("benefit")
    def benefit(self, X=None, *, inputs=None, lengths=None, held_out=0.3, by="unit"):
        """What every unit gains from joining, on rows that nothing was learned from.

        The server learns the plant, and every unit's model from its own message alone, from the first part of
        every episode, and predicts the last part one step ahead.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
            Record to learn from and to predict, such as that of `fit`, of which an estimator keeps no series.
        inputs, lengths
            As in `fit`.
        held_out : float, default=0.3
            Share of every episode to predict.
        by : {"unit", "pair"}, default="unit"

        Returns
        -------
        DataFrame
            By unit: ``gain``, log-density of the unit's own measurements given the past of all units less
            that given its own past, in nats per row, and ``stderr``; ``rows`` with measurements of the unit
            that were predicted; ``neighbour``, whose messages it would miss most, with ``neighbour_gain``
            and ``neighbour_stderr``, or ``""`` where no such gain is significant (one-sided, 5 %);
            ``bytes_up, bytes_down``, what joining took in `fit`. By pair: ``cause, effect, gain, stderr``.

        Raises
        ------
        ValueError
            For a plant with inputs, or a share that episodes cannot be split at.

        Notes
        -----
        All from messages, which a privacy mechanism releases as everywhere, at its cost. The table stays
        behind as `benefit_`. Gains from a neighbour are what the learned plant predicts worse without
        that unit's messages; they need not add up. A unit without any connection in the plant is its own
        model and gains exactly zero. Otherwise the mean of the differences, given the two fitted models, has
        the standard error of Newey and West, so that a unit can test its gain [1]_ whatever the distribution
        of the noise. The units' sensor models (loadings and noise) were identified from all rows, by each
        alone, and are the same on both sides.

        References
        ----------
        .. [1] Giacomini, White (2006), Tests of conditional predictive ability, Econometrica 74(6).

        Examples
        --------
        >>> from skfedcausal import FederatedGrangerEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, _ = make_granger_plant(3, n_samples=5000, links=[("unit0", "unit2")], random_state=0)
        >>> est = FederatedGrangerEstimator().fit(X)
        >>> est.benefit(X).loc["unit2", "neighbour"]
        'unit0'
        """
        if by not in ("unit", "pair"):
            raise ValueError(f"by={by!r}; choose 'unit' or 'pair'.")
        check_is_fitted(self)
        with self._asking(X, inputs, lengths) as units:
            found = self.server_.benefit(units.messages(), held_out=held_out)
        if by == "pair":
            return found.by_pair()
        table = self._with_bytes(found.by_unit())
        self._known_benefit = (self.transition_, table)
        return table

    def _with_bytes(self, table):
        """The table with what joining took in `fit`."""
        paid = self.communication_["per_client"]
        sent = {way: [paid[name][way] for name in table.index] for way in ("bytes_up", "bytes_down")}
        return table.assign(**sent)

    @property
    def benefit_(self):
        """Table by unit of the last call of :meth:`benefit` since `fit`, or of `fit` itself.

        `fit` makes it where the server holds rows out: ``LikelihoodServer(held_out=0.2)``.
        """
        check_is_fitted(self)
        transition, table = self.__dict__.get("_known_benefit", (None, None))
        if transition is self.transition_:
            return table
        table = getattr(self.server_, "benefit_", None)
        if table is None:
            raise AttributeError(
                "Nothing held-out was predicted: call benefit(X), or fit with server=LikelihoodServer(held_out=0.2)."
            )
        return self._with_bytes(table)

    @where_server("test_links")
    def test_links(self, X=None, method="lr", *, inputs=None, lengths=None):
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

    @where_server("changed_links")
    def changed_links(self, X=None, *, inputs=None, lengths=None, alpha=0.05, false_alarm_rate=None):
        """Which links and units have changed since the fit: tested, dated, with gain and delay before and after.

        Every row is a test of "this has changed" against everything else being as it was learned. Both the noise of
        the new record and that of what was learned count. A change is supposed to hold from some row on to the end;
        what one change explains is not reported of other rows.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
            New record of the units of `fit`, of 50 rows at least; a change shows after some hundred.
        inputs, lengths
            As in `fit`.
        alpha : float, default=0.05
            Chance of any false report in one call, over all rows of the table.
        false_alarm_rate : float or str, optional
            Of a watch, instead of `alpha`: false reports per row, or for instance ``"1 per week"`` for frames with a
            DatetimeIndex. A call about ``n`` rows is given as much of the budget as they take.

        Returns
        -------
        DataFrame
            One row per ordered pair of units, and one per unit (cause and effect are the same), those that changed
            first; a unit's own row comes behind the rows of pairs that explain it.

            ``changed`` is whether ``p_adjusted`` (family-wise) is at most the level. ``verdict`` is "lost" (less than
            a quarter of its gain is left), "weaker", "stronger", "delayed" (acts at another lag), "new", "unchanged",
            or "cannot tell" where nothing was found and the record is too short or too noisy to have shown the loss
            of the link, or a new one as strong as the plant's usual ones.
            ``gain_before`` and ``gain_after`` are strengths as in
            `links_`, ``delay_before`` and ``delay_after`` lags in rows. Of a unit's own row, gains are the size of
            what it does by itself, 1 in the record of the fit. ``since`` is the row the change dates from, by its
            label where X has an index.

        Notes
        -----
        The innovations ``w[t]`` of a unit, given the past of all and whitened, are regressed on what a change of its
        coefficients would add to them: of a link's gain, of its lag, of a block that the plant has not, of the unit's
        own dynamics, level and variance. With the information ``G`` of the new record and ``r G`` of that of the fit,
        ``r / (1 + r) s' G^-1 s`` of the score ``s`` is chi-squared where nothing has changed. The smallest p-value over
        hypotheses and starts is calibrated by innovations drawn anew from the record's own; rows share the level by
        Holm's rule: half of it for links of the plant, 0.3 for other pairs, 0.2 for units.

        A plant that misses something steady (a season, a nonlinearity) shows it here as a change.

        Examples
        --------
        >>> from skfedcausal import FederatedGrangerEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> import numpy as np
        >>> A = np.kron([[0.6, 0.0], [0.4, 0.6]], np.eye(2))
        >>> X, _ = make_granger_plant(2, transition=A, random_state=0)
        >>> est = FederatedGrangerEstimator().fit(X)
        >>> A[2:, :2] = 0.0
        >>> Y, _ = make_granger_plant(2, transition=A, n_samples=400, random_state=0)
        >>> table = est.changed_links(Y)
        >>> table.loc[table["changed"], ["cause", "effect", "verdict"]].to_string(index=False)
        'cause effect verdict\\nunit0  unit1    lost'
        """
        with self._asking(X, inputs, lengths) as units:
            level = level_of(alpha, false_alarm_rate, units.n_samples, units.index)
            table = self.server_.changed_links(units.messages(), level)
            return dated(settled(table, self._undecidable), units.index)

    def to_networkx(self, *, undecided=False):
        """The links as a graph of networkx (extra ``graph``).

        Parameters
        ----------
        undecided : bool, default=False
            Also the pairs with the verdicts "cannot tell" and "shared driver".

        Returns
        -------
        networkx.MultiDiGraph
            One node per unit. One edge from cause to effect per influence, its key the `kind` and its
            attributes the other columns of `links_`; ``weight`` is the strength.

        Raises
        ------
        ImportError
            Without networkx.
        """
        check_is_fitted(self)
        networkx = import_optional("networkx", "graph", "A graph of the links")
        graph = networkx.MultiDiGraph()
        graph.add_nodes_from(self.client_names_)
        kept = ["influence", "cannot tell", "shared driver"] if undecided else ["influence"]
        for link in self.links_.to_dict("records"):
            if link["verdict"] in kept:
                cause, effect, kind = (link.pop(key) for key in ("cause", "effect", "kind"))
                graph.add_edge(cause, effect, key=kind, weight=link["strength"], **link)
        return graph

    @where_server("bootstrap_links")
    def bootstrap_links(
        self,
        X=None,
        *,
        inputs=None,
        lengths=None,
        n_resamples=200,
        method="blocks",
        block_length=None,
        level=0.95,
        random_state=None,
        n_jobs=None,
    ):
        """How the estimates of links scatter over resampled records, as a check of their standard errors.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
            Record to learn the plant from, such as that of `fit`, NaN where missing.
        inputs, lengths
            As in `fit`.
        n_resamples : int, default=200
        method : {"blocks", "parametric"}, default="blocks"
            "blocks" draws blocks of the record with replacement, whatever its noise is like; "parametric"
            simulates records of the fitted plant with Gaussian noise.
        block_length : int or "episodes", default=None
            Rows of a block, or whole episodes. None takes four times the memory of the slowest state, at
            least the cube root of the number of rows.
        level : float, default=0.95
            Coverage of the intervals of Geweke's measure.
        random_state : int, RandomState instance or None, default=None
            None takes that of the estimator. The same numbers come for any `n_jobs`.
        n_jobs : int, default=None
            Resampled records that are fitted at the same time.

        Returns
        -------
        DataFrame
            One row per link: ``cause, effect, kind, strength``; ``stderr`` and ``p_value`` as in `links_`;
            ``bootstrap_stderr``, scatter of the estimates along the estimate; ``bootstrap_p_value``, share of
            records whose estimate is as far from what they were drawn from as the estimate is from zero;
            ``geweke, geweke_low, geweke_high``. ``attrs["not_converged"]`` counts refits that did not.

        Raises
        ------
        ValueError
            If the sensors of a unit do not determine its states, the record has fewer than ten blocks, or for
            an unknown method.

        Notes
        -----
        The server draws from messages, nothing else crosses. A block of a complete record enters by its
        lagged products [1]_, so that no transition is made up at its ends; one of a record with gaps becomes
        an episode of the exact likelihood. The plant is fitted again with the links it has; like all tests
        the results are conditional on them. p-values cannot be below ``1 / (n_resamples + 1)``.

        References
        ----------
        .. [1] Künsch (1989), The jackknife and the bootstrap for general stationary observations, Annals of
               Statistics 17(3).

        Examples
        --------
        >>> from skfedcausal import FederatedGrangerEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, _ = make_granger_plant(3, links=[("unit0", "unit2")], random_state=2)
        >>> est = FederatedGrangerEstimator().fit(X)
        >>> table = est.bootstrap_links(X, n_resamples=50, random_state=0)
        >>> table.query("bootstrap_p_value < 0.05")[["cause", "effect"]].to_string(index=False)
        'cause effect\\nunit0  unit2'
        """
        drawing = {"n_resamples": n_resamples, "block_length": block_length, "n_jobs": n_jobs}
        return self._resampled(
            "bootstrap_links", (X, inputs, lengths), random_state, method=method, level=level, **drawing
        )

    @where_server("stable_links")
    def stable_links(
        self,
        X=None,
        *,
        inputs=None,
        lengths=None,
        n_resamples=50,
        threshold=0.75,
        block_length=None,
        random_state=None,
        n_jobs=None,
    ):
        """Links that the search finds in most halves of a record: stability selection.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
            Record to learn the plant from, such as that of `fit`, NaN where missing.
        inputs, lengths
            As in `fit`.
        n_resamples : int, default=50
            Random divisions of the record's blocks into two halves.
        threshold : float, default=0.75
            Share of the halves from which on a link counts as stable, above 0.5.
        block_length, random_state, n_jobs
            As in :meth:`bootstrap_links`.

        Returns
        -------
        DataFrame
            ``cause, effect, kind``; ``share`` of the halves in which the search finds the link;
            ``stable``, whether that is at least the threshold. ``attrs["mean_selected"]`` is the number q of
            links found in a half on average, ``attrs["expected_false"]`` the bound ``q**2 / ((2 threshold -
            1) n_pairs)`` of Meinshausen and Bühlmann [1]_ on the expected number of stable links that are
            none.

        Raises
        ------
        ValueError
            If the sensors of a unit do not determine its states, the record has fewer than ten blocks, or the
            threshold is not above 0.5.

        Notes
        -----
        Both halves of a division are searched, as complementary pairs [2]_. The bound supposes that pairs
        without a link are exchangeable and found no more often than by guessing. Half a record finds weak
        links less often than the whole.

        References
        ----------
        .. [1] Meinshausen, Bühlmann (2010), Stability selection, Journal of the Royal Statistical Society B
               72(4).
        .. [2] Shah, Samworth (2013), Variable selection with error control: another look at stability
               selection, Journal of the Royal Statistical Society B 75(1).

        Examples
        --------
        >>> from skfedcausal import FederatedGrangerEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, _ = make_granger_plant(3, links=[("unit0", "unit2")], random_state=2)
        >>> table = FederatedGrangerEstimator().fit(X).stable_links(X, n_resamples=10, random_state=0)
        >>> table.query("stable")[["cause", "effect"]].to_string(index=False)
        'cause effect\\nunit0  unit2'
        """
        drawing = {"n_resamples": n_resamples, "block_length": block_length, "n_jobs": n_jobs}
        return self._resampled("stable_links", (X, inputs, lengths), random_state, threshold=threshold, **drawing)

    def _resampled(self, question, record, random_state, **settings):
        """Ask the server with a seed, from the estimator's own random state where none is given."""
        chosen = self.random_state if random_state is None else random_state
        seed = int(check_random_state(chosen).randint(2**31 - 1))
        with self._asking(*record) as units:
            return getattr(self.server_, question)(units.messages(), random_state=seed, **settings)

    # -- training by gradients -------------------------------------------------------------------

    @where_server("trains_units", "GradientServer")
    def losses(self, X=None, *, inputs=None, lengths=None):
        """Client and server losses of gradient training on a record, for estimators with a GradientServer.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
        inputs : list or dict, default=None
            As in `fit`.
        lengths : sequence of int, default=None

        Returns
        -------
        DataFrame
            One row per unit, columns ``client`` (mean squared error of the augmented prediction of the
            measurements) and ``server`` (mean squared distance of server's and augmented states).
        """
        with self._asking(X, inputs, lengths) as units:
            predicted = self.server_.filter(units.messages()).predicted
            told = {name: LossRequest(own) for name, own in self._by_unit(predicted)}
            answers = units.exchange.ask(told, LossAnswer)
        rows = [{"client": answer.client, "server": answer.server} for answer in answers.values()]
        return pd.DataFrame(rows, index=pd.Index(list(answers), name="unit"))

    @where_server("trains_units", "GradientServer")
    def training_problems(self, X, *, inputs=None, lengths=None):
        """Every unit's problem of gradient training on a record, for ``skfedcausal.theory.unified``.

        Only for data that may be pooled: a problem holds moments of a unit's measurements with the other
        units' states.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
        inputs : list or dict, default=None
            As in `fit`.
        lengths : sequence of int, default=None

        Returns
        -------
        dict of str to tuple (AugmentedProblem, Rates)

        Examples
        --------
        >>> from skfedcausal import FederatedGrangerEstimator, GradientServer
        >>> from skfedcausal.datasets import make_granger_plant
        >>> from skfedcausal.statespace.training.fixed_point import recurrence
        >>> from skfedcausal.theory.unified import spectral_radius
        >>> X, _ = make_granger_plant(2, random_state=0)
        >>> est = FederatedGrangerEstimator(server=GradientServer(solve="stationary")).fit(X)
        >>> bool(spectral_radius(recurrence(*est.training_problems(X)["unit0"]).H) < 1)
        True
        """
        units = unit_trainings(self.clients_, self.augmenters_, self._read(X, inputs, lengths))
        told = {name: unit.local_model(relay=True, stepwise=False) for name, unit in units.items()}
        plans = relayed_plans(told, self.server_.step_sizes_)
        planned = {name: unit.planned(plans[name]) for name, unit in units.items()}
        return {name: (unit.problem, unit.rates) for name, unit in planned.items()}

    def privacy_curve(self, X, epsilons, *, inputs=None, lengths=None, n_draws=1, random_state=None):
        """What a privacy budget buys, tried out where the raw record is, before anything is sent.

        Fits in this process at every epsilon, with noise that is thrown away and an account of its own.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
            Choosing epsilon by the record that it is to protect reveals something about that record, which
            no statement covers: use a simulated, public or old one.
        epsilons : sequence of float
            To try in place of the epsilon of `privacy`, whose other settings are kept.
        inputs, lengths
            As in `fit`.
        n_draws : int, default=1
            Draws of the noise to average over at each epsilon.
        random_state : int, RandomState or None, default=None

        Returns
        -------
        DataFrame
            One row per epsilon: ``epsilon``; ``noise_to_signal``, noise over the strongest signal of the unit
            where that is largest; ``links_kept``, share of the links found without noise; ``links_added``,
            number of others; ``forecast_error``, root mean square error of one-step-ahead predictions from
            the noised record, in standard deviations of the raw measurements; ``forecast_ratio``, that over
            the same without noise; ``useful``, whether half of the links are kept, not more are added, and
            forecasts beat the level. ``attrs["smallest_useful_epsilon"]`` is the smallest from which on
            all are, or NaN.

        Warns
        -----
        UtilityWarning
            If not even the largest epsilon is useful.
        """
        self._validate_params()
        return privacy_curve(self, {"X": X, "inputs": inputs, "lengths": lengths}, epsilons, n_draws, random_state)

    def _taught(self, other, plant):
        """A copy of this estimator fitted to a record in the layout of this one's."""
        return other._fit_units(plant)

    def _plant_matrices(self):
        """Everything that acts on the states, in stacks of lags."""
        return (self.lag_transitions_,)


def _of_equal_lags(own, other):
    """Two stacks of matrices side by side, with zeros for lags that one of them has not."""
    n_lags = max(len(own), len(other))
    return [np.hstack([*stack, *np.zeros((n_lags - len(stack), *stack.shape[1:]))]) for stack in (own, other)]


def _record_optional(method):
    """The method without the X that scikit-learn's wrapper of `transform` asks for; sites have a record."""

    @wraps(method)
    def asked(self, X=None, **settings):
        return method(self, X, **settings)

    return asked


PlantEstimator.transform = _record_optional(PlantEstimator.transform)  # type: ignore[method-assign]
