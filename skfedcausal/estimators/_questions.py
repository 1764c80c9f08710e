"""Questions about a plant that has learned what its inputs do; what answers them is imported when it is asked."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, cast, overload

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ..given import Inputs, Lengths, Record, Setting, Unit
from ..message.requests import AggregateRequest, Measurements
from ..transfer import TransferFunction
from ._input_effects import InputEffects, counterfactual_tables, sensitivity_table
from ._interventions import LOOPS, SAY_WHEN, check_choice, check_confidence, one_lag_realisation, unit_name
from ._learned import LearnedInputs
from ._plant import PlantEstimator

if TYPE_CHECKING:
    from .impact import Impact

_LEVELS = "measurement", "state"


class InputQuestions(LearnedInputs, PlantEstimator):
    """Base of the estimator of plants with inputs: what is asked about these once they are learned."""

    relays: Any
    _spec: Any = None  # InputSpec, None before anything is known of the inputs
    _engine: Any  # that answers, chosen at the end of a fit

    @property
    def _effects(self) -> InputEffects:
        """What was learned of the inputs."""
        return InputEffects(
            self.server_,
            self._spec,
            self._engine,
            self.relays or {},
            self.excitation_,
            cast(np.ndarray, self.input_at_once_.any(axis=0)),
            len(self.lag_transitions_),
        )

    @overload
    def counterfactual(
        self,
        n: Unit | Sequence[Unit],
        u0: Setting,
        u1: Setting,
        *,
        horizon: int = 1,
        level: str = "measurement",
        return_std: Literal[False] = False,
        loops: str = "hold",
        split: bool = False,
    ) -> pd.DataFrame: ...
    @overload
    def counterfactual(
        self,
        n: Unit | Sequence[Unit],
        u0: Setting,
        u1: Setting,
        *,
        horizon: int = 1,
        level: str = "measurement",
        return_std: Literal[True],
        loops: str = "hold",
        split: bool = False,
    ) -> tuple[pd.DataFrame, pd.DataFrame]: ...
    def counterfactual(
        self,
        n: Unit | Sequence[Unit],
        u0: Setting,
        u1: Setting,
        *,
        horizon: int = 1,
        level: str = "measurement",
        return_std: bool = False,
        loops: str = "hold",
        split: bool = False,
    ) -> pd.DataFrame | tuple[pd.DataFrame, pd.DataFrame]:
        """Effect on every unit of operating unit `n` with the inputs `u1` instead of `u0`.

        Parameters
        ----------
        n : str, int or list of these
            Unit, by name or position, or several that are operated together.
        u0, u1 : float or array-like of shape (n_inputs,) or (horizon, n_inputs), or dict by unit of several
            Inputs of the unit from time t on, its own first and then those that it shares: constants that are held,
            or trajectories (ramps, pulses), which may have the shape (horizon,) where the unit has one input. Names
            of levels for inputs that have any.
        horizon : int, default=1
            Steps ahead.
        level : {"measurement", "state"}, default="measurement"
            Effect on the sensors, or on the states.
        return_std : bool, default=False
            Also return standard errors.
        loops : {"hold", "react"}, default="hold"
            "hold": inputs of other units stay as they were. "react": the controllers that were identified
            (``server_.laws_``) respond to what they measure.
        split : bool, default=False
            One block of columns per input of the unit, which add up to the whole effect.

        Returns
        -------
        effect : DataFrame
            Row k is the effect at time t + k of inputs switched at time t, k = 1, ..., horizon; one column
            ``unit__sensor`` per sensor (``unit__state0`` per state), or (input, column) with `split`. Its
            ``attrs["engine"]`` says what answered.
        std : DataFrame
            Of the same shape, with `return_std`. From the estimate before shrinkage, given the selected
            links.

        Raises
        ------
        ValueError
            If the unit is unknown or has no inputs, a shape does not fit, the horizon is below one, an
            input is asked to move that never moved in `fit`, the server has no standard errors, or controllers hold a
            plant that nobody knows without them, and `loops` is "hold" for more rows than that means something for.

        Warns
        -----
        UserWarning
            If an input leaves the range seen in `fit`.
        """
        check_is_fitted(self)
        check_choice("level", level, _LEVELS)
        check_choice("loops", loops, LOOPS)
        if return_std and not getattr(self.server_, "has_covariances", True):
            raise ValueError(
                f"{type(self.server_).__name__} learns a point without a sampling covariance: there are no standard "
                "errors to return. Use LikelihoodServer for them."
            )
        if isinstance(horizon, bool) or not isinstance(horizon, Integral) or horizon < 1:
            raise ValueError(f"Got horizon={horizon!r}; give a number of steps ahead of at least 1.")
        answer = self._on_states if level == "state" else self._on_measurements
        tables = counterfactual_tables(self._effects, answer, n, u0, u1, int(horizon), loops, split)
        return tables if return_std else tables[0]

    def _on_measurements(self, replies):
        """What units measure of answers about their states: effect, its variance, names of columns."""
        with self._asking_models() as units:
            return units.with_variance(units.exchange.ask(replies, Measurements))

    def _on_states(self, replies):
        """The same of the states themselves, NaN where the server has no variance."""
        if self._channel is not None:  # each site maps the effect on its own sensors, for itself
            self._channel.tell({name: replace(reply, keep=True) for name, reply in replies.items()})
        known = [replies[name] for name in self.client_names_]
        effect = np.hstack([reply.states for reply in known])
        variance = np.full_like(effect, np.nan)
        if all(reply.covariances is not None for reply in known):
            own = [np.diagonal(reply.covariances, axis1=1, axis2=2) for reply in known]
            variance = np.hstack(own).clip(0)
        return effect, variance, self.get_feature_names_out()

    def whatif(
        self,
        X: Record,
        do: Mapping[str, Setting | Callable[..., Any]],
        *,
        inputs: Inputs = None,
        lengths: Lengths = None,
        confidence: float = 0.9,
        loops: str = "hold",
        split: bool = False,
        sensors: str = "controller",
        limits: Mapping[str, Any] | None = None,
    ) -> pd.DataFrame:
        """Replay a record under other inputs, or with sensors that are held.

        Abduction, action, prediction: the record determines states and noise, the inputs are replaced, the
        same noise drives the plant again. For a linear plant the difference is the response to the change of
        the inputs, whatever the noise was; inputs as they were give back the record. Where the record shows that
        the plant is bent, the response also depends on the inputs as they were.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
            Record, in a container as in `fit`.
        do : dict of str to (float, array-like or callable)
            What replaces an input ``unit__input``: a number held throughout, one value per row, or a
            function of the recorded series; names of levels for an input that has any. An instrument moves the input
            that follows it. A sensor ``unit__sensor`` is held: at a number, or by force at one value per row, NaN
            where it is not. The name of a unit has a dict of its inputs and sensors.
        inputs, lengths
            As in `fit`.
        confidence : float, default=0.9
            Of the band from `low` to `high`.
        loops : {"hold", "react"}, default="hold"
            As in :meth:`counterfactual`.
        split : bool, default=False
            One set of rows per replaced input, named in a column ``source``; their effects add up.
        sensors : {"controller", "force"}, default="controller"
            How sensors are held. "controller": the set point of the controller that is known for their unit
            (``server_.laws_``) moves so that they end there, in the mean, and its law does what it does on the way.
            "force": whatever it takes, a hard intervention: the states of the unit are moved in every row as its
            disturbances would most likely have moved them, and the others follow.
        limits : dict of str to (float, float), default=None
            Lowest and highest value of a sensor by its name, ``unit__sensor``: stops of valves, full and empty tanks.
            Counterfactuals and bands stay between them, or where the record was. For other sensors these are the stops
            that the record of `fit` shows, if it shows any.

        Returns
        -------
        DataFrame
            One row per time and column: ``time, column, factual, counterfactual, effect, low, high``, and of the
            column ``trust`` and ``verdict`` ("effect", "no effect to be seen", "not yet", "there was no move",
            "cannot tell: say when it acts", "cannot tell"; :doc:`/counterfactual`). A measurement that is missing is
            replaced by its expectation given the whole record. The band is that of the counterfactual: uncertainty of
            the effect and, where the measurement is missing, of what it was; NaN where the server has no standard
            errors. Its ``attrs["engine"]`` says what answered, ``attrs["relays"]`` what relays do that react.

        Raises
        ------
        ValueError
            If an input or sensor is unknown, a series does not fit, an input is asked to move that never moved in
            `fit`, no controller is known that could hold a sensor, or relays react and effects are to be split.

        Warns
        -----
        UserWarning
            If an input leaves the range seen in `fit`, a sensor of the record stands at a limit, or an answer hangs on
            whether an input acts in its own row, which `sampled` does not say.
        """
        check_is_fitted(self)
        from ._replay import replayed_record

        effects, asking = self._effects, self._asking(X, inputs, lengths)
        how = {"confidence": confidence, "loops": loops, "split": split, "sensors": sensors, "limits": limits}
        replay = replayed_record(effects, asking, do, **how)
        found = replay.table
        doubted = found.loc[found["verdict"] == SAY_WHEN, "column"].unique()
        for note in [*replay.notes, *([effects.timing_in_doubt(doubted)] if len(doubted) else [])]:
            warnings.warn(note, stacklevel=2)
        return found

    def aggregate_counterfactual(self, unit, scale):
        """What a unit can answer alone: the effect of scaling the others' inputs all together.

        The unit knows the mean influence ``phi = sum_n B_mn mean(u_n)`` of the other units' inputs on its
        states, not which input it came from (question Q3 of the second paper): this is an aggregate.

        Parameters
        ----------
        unit : str or int
            The unit that asks about its own sensors.
        scale : float
            Level of all other units' inputs, as a multiple of what it was.

        Returns
        -------
        Series
            Named "aggregate of all other units' inputs": change of the unit's sensors one step ahead,
            ``C_m phi (scale - 1)``.

        Raises
        ------
        ValueError
            If no unit has inputs that moved in `fit`.
        """
        check_is_fitted(self)
        name = unit_name(unit, self.client_names_)
        if not self._spec.written.active.any():
            raise ValueError("No unit of this plant has inputs that moved in `fit`.")
        with self._asking_models() as units:
            answer = units.exchange.ask({name: AggregateRequest(float(scale))}, Measurements)[name]
        return pd.Series(answer.values[0], index=list(answer.columns), name="aggregate of all other units' inputs")

    def transfer_function(self) -> TransferFunction:
        """The learned plant from inputs to expected measurements, ``G(z) = C (z I - A)^-1 B``.

        Returns
        -------
        TransferFunction
        """
        check_is_fitted(self)
        with self._asking_models() as units:
            C, columns = units.loadings()
        A, by_lag, at_once = self.lag_transitions_, self.lag_inputs_, self.input_at_once_
        if self._engine.responses is not None:
            A, acting = self._engine.responses.matrices()
            by_lag, at_once = self._spec.decode(acting[1:], acting[0])
        A, B, C, D = one_lag_realisation(A, by_lag, at_once, C)
        return TransferFunction(A, B, C, self.input_names_, tuple(columns), D)

    def impact(
        self,
        X: Record,
        do: Mapping[str, Setting | Callable[..., Any]],
        window: tuple[Any, ...],
        *,
        inputs: Inputs = None,
        lengths: Lengths = None,
        confidence: float = 0.9,
        loops: str = "hold",
        margin: float = 0.1,
        limits: Mapping[str, Any] | None = None,
        question: str = "did",
    ) -> "Impact":
        """What a move of inputs did within a window of rows, or what other inputs would have done.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
            Record with the move, in a container as in `fit`; None after `fit_sites`.
        do : dict of str to (float, array-like or callable)
            What an input ``unit__input`` would have been in the window: a number, one value for
            each row of the window, or a function of the recorded series there; names of levels for an input
            that has any.
        window : tuple
            ``(start, stop)``: positions of the first row of the window and of the one after its last, or times of
            a record with a time index.
        inputs, lengths
            As in `fit`.
        confidence : float, default=0.9
            Of all bands.
        loops : {"hold", "react"}, default="hold"
            As in :meth:`counterfactual`.
        margin : float, default=0.1
            Mean effect, in standard deviations of a column in the record, within which there is none to speak of. Bands
            of effects leave out half of that to either side of zero.
        limits : dict of str to (float, float), default=None
            As in :meth:`whatif`.
        question : {"did", "would"}, default="did"
            "did": what the move in the record did, what was recorded less what would have been. "would": what the
            values in `do` would have done, what would have been less what was recorded.

        Returns
        -------
        Impact
            Table by row, totals with a verdict for every column, and the sentence.

        Raises
        ------
        ValueError
            If the window leaves the record or holds no row, and as :meth:`whatif`.

        Examples
        --------
        >>> from skfedcausal import FederatedCounterfactualEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
        >>> est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
        >>> found = est.impact(X, {"unit0__u0": 0.0}, (1000, 1030), inputs=truth.inputs)
        >>> found.table.columns.tolist()[:5]
        ['time', 'column', 'factual', 'counterfactual', 'effect']
        """
        check_is_fitted(self)
        from .impact import found_impact

        asking, how = self._asking(X, inputs, lengths), {"loops": loops, "limits": limits, "question": question}
        return found_impact(self._effects, asking, do, window, confidence=confidence, margin=margin, **how)

    def dose_response(self, X, input, doses, window, *, inputs=None, lengths=None, confidence=0.9, loops="hold"):
        """Mean effect over a window of holding an input at each of several values there.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
        input : str
            Its flat name, ``unit__input``.
        doses : sequence
            Values, or names of levels.
        window : tuple
            As in :meth:`impact`.
        inputs, lengths
            As in `fit`.
        confidence : float, default=0.9
        loops : {"hold", "react"}, default="hold"

        Returns
        -------
        DataFrame
            One row per dose and column: ``dose, column, effect, low, high``, the effect a mean over the window
            and against the record as it is.
        """
        from .impact import dose_table

        record = {"X": X, "window": window, "inputs": inputs, "lengths": lengths}
        how = {"loops": loops, "confidence": confidence, "margin": 0.0, "question": "would"}
        return dose_table(lambda do: self.impact(do=do, **record, **how), input, doses)

    def reach(
        self,
        target,
        *,
        inputs,
        bounds,
        by,
        rates=None,
        hold=None,
        X=None,
        confidence=0.9,
        record_inputs=None,
        lengths=None,
    ):
        """A schedule of inputs that brings sensors to targets, with what it promises.

        Parameters
        ----------
        target : dict of str to float
            Value by sensor, ``unit__sensor``, of any units.
        inputs : list of str
            Inputs that may move, ``unit__input``; all others stay as they are in the last row of X.
        bounds : dict of str to (float, float)
            Low and high end of every one of them, which hold its present value.
        by : int
            Rows from now, 1 for the next one, until the targets are reached.
        rates : dict of str to float, default=None
            Most that an input may change from row to row; None for any change.
        hold : int, default=None
            Rows that the targets are held after that. None: 5.
        X : list, dict, DataFrame or ndarray, default=None
            The rows up to now, in a container as in `fit`; None after `fit_sites`, for the record of the sites.
        confidence : float, default=0.9
            Of the band of what is promised.
        record_inputs : list or dict, default=None
            Inputs beside X, as `inputs` of `fit`.
        lengths : sequence of int, default=None
            Rows of each episode of X; the last of them goes on.

        Returns
        -------
        Reach
            Verdict, schedule, promised trajectory.

        Raises
        ------
        ValueError
            If an input or sensor is unknown, an input never moved in `fit` or has levels, bounds are missing or
            leave out the present value.

        Warns
        -----
        UserWarning
            If the schedule leaves the range of an input that was seen in `fit`.

        Notes
        -----
        The schedule has the least expected squared miss over the rows where the targets have to be reached, the
        error of the estimated plant included, with a small price on moves that makes it unique. "Not reachable" is
        said where even so the promise stays away from a target by more than the plant may be wrong, "cannot tell"
        where it stays away by less, where the effect of the inputs is hardly known, or where the target lies
        outside what was seen or the schedule leaves the range of an input by a tenth of it. It leaves that range only
        where no schedule within it is enough. The band is that of a forecast, see :meth:`forecast`, and of the effect.

        Examples
        --------
        >>> from skfedcausal import FederatedCounterfactualEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
        >>> est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
        >>> limits = {"unit0__u0": (-3, 3)}
        >>> est.reach({"unit0__x0": 1e6}, inputs=list(limits), bounds=limits, by=10, X=X,
        ...     record_inputs=truth.inputs).verdict
        'not reachable'
        """
        check_is_fitted(self)
        check_confidence(confidence)
        effects = self._effects
        effects.check_covariances("a plan")
        from .reach import Situation, wished

        wish = wished(effects.spec, target, inputs, bounds, by, rates, hold)
        with self._asking(X, record_inputs, lengths) as units:
            return Situation(effects, units, wish, confidence).answer()

    def experiment(self, cause, effect, *, inputs, bounds, rows, kind="state", rates=None, now=None):
        """The moves of inputs within bounds that would best decide whether one unit acts on another.

        Parameters
        ----------
        cause, effect : str
            Units of the link that is to be decided.
        inputs : list of str
            Inputs that may move, ``unit__input``.
        bounds : dict of str to (float, float)
            Low and high end of every one of them.
        rows : int
            Rows of the experiment, at least 10.
        kind : {"state", "input"}, default="state"
            Whether the states of `cause` act on `effect`, or its inputs do.
        rates : dict of str to float, default=None
            Most that an input may change from row to row; None for any change.
        now : dict of str to float, default=None
            Present values of inputs, from which rates count; None for any.

        Returns
        -------
        Experiment
            Schedule, and the rows that it and a random excitation need for a decision.

        Raises
        ------
        ValueError
            If a unit or input is unknown, bounds are missing or leave out the present value, or the inputs do nothing
            to the cause.

        Notes
        -----
        The schedule has the largest determinant of the information about the coefficients of the link, given all others
        that act on the effect, in the plant that was learned (D-optimality for a part of the coefficients). It asks no
        unit and sends nothing. Put the rows of the experiment behind those of the record (`lengths`) and fit again.

        Examples
        --------
        >>> from skfedcausal import FederatedCounterfactualEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
        >>> est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
        >>> plan = est.experiment("unit0", "unit1", inputs=["unit0__u0"], bounds={"unit0__u0": (-3, 3)}, rows=100)
        >>> plan.rows_needed <= plan.random_rows_needed
        True
        """
        check_is_fitted(self)
        effects = self._effects
        effects.check_covariances("an experiment")
        from .experiment import designed_experiment

        return designed_experiment(effects, self.links_, cause, effect, inputs, bounds, rows, kind, rates, now)

    def sensitivity(self, n, u0, u1, *, horizon=1, strength=0.5, confidence=0.9):
        r"""How wrong an effect may be if something that nobody measures moves the input and the plant at once.

        Parameters
        ----------
        n, u0, u1, horizon
            As in :meth:`counterfactual`.
        strength : float, default=0.5
            Share of the variance of the inputs that a hidden cause explains, at least 0 and below 1. It may be all of
            what disturbs the plant.
        confidence : float, default=0.9
            Of the band of the effect without a hidden cause, to which that of the cause is added.

        Returns
        -------
        DataFrame
            One row per step and sensor: ``step, column, effect, low, high``, and ``voided_at``, the strength from which
            on the band holds zero: how strong a hidden cause has to be to void the sign of the effect.

        Raises
        ------
        ValueError
            As :meth:`counterfactual`, or if the server has no standard errors.

        Notes
        -----
        A cause that explains a share s of the variance of an input and moves the sensor in k rows by as much as all
        disturbances do, :math:`\sigma_k`, looks like an effect of :math:`\sqrt{s / (1 - s)}\, \sigma_k` for every
        standard deviation that the input moves (omitted-variable bias [1]_). `hidden_causes_` says whether a record
        shows a hidden cause; a record that does not is no proof that there is none.

        References
        ----------
        .. [1] Cinelli, Hazlett (2020), Making sense of sensitivity: extending omitted variable bias, Journal of the
               Royal Statistical Society B 82(1).

        Examples
        --------
        >>> from skfedcausal import FederatedCounterfactualEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
        >>> est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
        >>> table = est.sensitivity("unit0", 0.0, 1.0, horizon=3)
        >>> table.columns.tolist()
        ['step', 'column', 'effect', 'low', 'high', 'voided_at']
        """
        check_is_fitted(self)
        effects = self._effects
        effects.check_covariances("a band against hidden causes")
        for name, value in (("strength", strength), ("confidence", confidence)):
            if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < 1:
                raise ValueError(f"Got {name}={value!r}; give a number from 0 on and below 1.")
        effect, std = self.counterfactual(n, u0, u1, horizon=horizon, return_std=True)
        with self._asking_models() as units:
            return sensitivity_table(effects, units, (n, u0, u1, horizon), effect, std, strength, confidence)

    def gain_table(self, *, confidence=0.9, times="rows"):
        """Gain, dead time, time constant and settling time of every input and sensor, with intervals.

        Parameters
        ----------
        confidence : float, default=0.9
            Of every interval.
        times : {"rows", "seconds"}, default="rows"
            What dead time, time constant and settling time are counted in; seconds for a record whose rows have times.

        Returns
        -------
        DataFrame
            One row per pair of an input (column of `input_`) and a sensor: ``input, output``, and of each of the
            following a value and the ends ``_low`` and ``_high`` of its interval. ``gain``: where the sensor ends
            after the input has moved by one and stayed there, in the units of both. In `times`: ``dead_time``, in
            which less than 2 % of the way is done; ``time_constant``, from the last of these until 63 % of it are;
            ``settling_time``, from the move until the sensor stays within 2 % of its end. NaN for times of
            pairs whose gain is zero, and for intervals where the server has no sampling covariance.

        Raises
        ------
        ValueError
            If no input moved in `fit`, `confidence` is no probability, or rows have no times.

        Examples
        --------
        >>> from skfedcausal import FederatedCounterfactualEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
        >>> table = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs).gain_table()
        >>> table.shape
        (32, 14)
        """
        check_is_fitted(self)
        from .dynamics import gains, row_length

        check_confidence(confidence)
        return gains(self._effects, self._asking_models(), confidence, row_length(self._row_time, times))

    def step_response(self, input, output, *, n_steps=None, confidence=0.9):
        """What a sensor does after an input has moved by one and stayed there.

        Parameters
        ----------
        input, output : str
            Column of `input_` by its name, and sensor, ``unit__sensor``.
        n_steps : int, default=None
            Rows from the move on. None: until it has come to its end.
        confidence : float, default=0.9

        Returns
        -------
        DataFrame
            One row per row from that of the move, 0, on: ``step, response, response_low, response_high``.

        Examples
        --------
        >>> from skfedcausal import FederatedCounterfactualEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
        >>> est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
        >>> est.step_response("unit0__u0", "unit1__x0", n_steps=10).shape
        (10, 4)
        """
        check_is_fitted(self)
        from .dynamics import step_table

        return step_table(self._effects, self._asking_models(), input, output, n_steps, confidence)

    def frequency_response(self, input, output, *, frequencies=None, confidence=0.9):
        """Gain and phase of a sensor beside an input over frequency: the numbers of a Bode plot.

        Parameters
        ----------
        input, output : str
            As in :meth:`step_response`.
        frequencies : sequence of float, default=None
            Radians per row, from 0 to pi; None for 200 of them.
        confidence : float, default=0.9

        Returns
        -------
        DataFrame
            One row per frequency: ``frequency, gain, gain_low, gain_high, phase, phase_low, phase_high``, the phase in
            radians.

        Examples
        --------
        >>> from skfedcausal import FederatedCounterfactualEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
        >>> est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
        >>> est.frequency_response("unit0__u0", "unit1__x0", frequencies=[0.0, 0.1]).shape
        (2, 7)
        """
        check_is_fitted(self)
        from .dynamics import frequency_table

        return frequency_table(self._effects, self._asking_models(), input, output, frequencies, confidence)
