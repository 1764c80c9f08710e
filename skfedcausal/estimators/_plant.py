"""What the estimators of plants share once fitted: predictions, states, likelihoods, links, the oracle."""

from functools import wraps
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import pandas as pd
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from ..arguments import check_choice, check_confidence, weighted_mean
from ..beside import beside
from ..callers import warn
from ..given import Inputs, Lengths, Record
from ..message.clock import Clock
from ..message.requests import Measurements, PredictRequest
from ..server.forecasts import begin_of, counted_steps, forecast_covariances
from ..server.straight import expected_states
from ._asked import AskedPlant
from ._batches import BatchLearning
from ._interventions import two_sided
from ._link_questions import LinkQuestions, undecidable_units, undecided, warn_undecidable


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
