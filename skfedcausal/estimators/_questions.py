"""Questions about a plant that has learned what its inputs do; what answers them is imported when it is asked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ..arguments import Inputs, Lengths, Record, Setting, Unit, check_choice, check_number, warn
from ..containers.arrays import listed
from ..message.requests import Measurements
from ..transfer import TransferFunction
from ._interventions import LOOPS, SAY_WHEN, InputEffects, counterfactual_tables, one_lag_realisation
from ._parts import AskedInputs, LearnedInputs
from ._plant import PlantEstimator

_ANSWERS = "measurement", "state"

if TYPE_CHECKING:
    from .impact import Impact


class InputQuestions(LearnedInputs, PlantEstimator):
    """Base of the estimator of plants with inputs: what is asked about these once they are learned."""

    relays: Any
    _asked_kind = AskedInputs
    _spec: Any = None  # InputSpec, None before anything is known of the inputs
    _engine: Any  # that answers, chosen at the end of a fit

    def _ways_in(self):
        return super()._ways_in() | {"effects": lambda: self._effects}

    @property
    def _effects(self) -> InputEffects:
        """What was learned of the inputs."""
        lags: dict[str, Any] = {"at_once": self.input_at_once_.any(axis=0), "n_lags": len(self.lag_transitions_)}
        return InputEffects(self.server_, self._spec, self._engine, self.relays or {}, self.excitation_, **lags)

    @overload
    def counterfactual(
        self,
        n: Unit | Sequence[Unit],
        u0: Setting,
        u1: Setting,
        *,
        horizon: int = 1,
        of: str = "measurement",
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
        of: str = "measurement",
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
        of: str = "measurement",
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
        of : {"measurement", "state"}, default="measurement"
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
        check_choice("of", of, _ANSWERS)
        check_choice("loops", loops, LOOPS)
        if return_std and not getattr(self.server_, "has_covariances", True):
            raise ValueError(
                f"{type(self.server_).__name__} learns a point without a sampling covariance: there are no standard "
                "errors to return. Use LikelihoodServer for them."
            )
        check_number(horizon, "horizon")
        answer = self._on_states if of == "state" else self._on_measurements
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
        return effect, variance, self._names_out()

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
            If an input leaves the range seen in `fit`, a sensor of the record stands at a limit, or an answer depends
            on whether an input acts in its own row, which `sampled` does not say.
        """
        check_is_fitted(self)
        from .impact import replayed_record

        effects, asking = self._effects, self._asking(X, inputs, lengths)
        how = {"confidence": confidence, "loops": loops, "split": split, "sensors": sensors, "limits": limits}
        replay = replayed_record(effects, asking, do, **how)
        found = replay.table
        doubted = found.loc[found["verdict"] == SAY_WHEN, "column"].unique()
        for note in [*replay.notes, *([effects.timing_in_doubt(doubted)] if len(doubted) else [])]:
            warn(note)
        return found

    def transfer_function(self, at: Mapping[str, float] | None = None) -> TransferFunction:
        """The learned plant from inputs to expected measurements, ``G(z) = C (z I - A)^-1 B``.

        Parameters
        ----------
        at : dict of str to float, default=None
            Inputs by name and the values at which they stand, the others at their mean in `fit`: the operating point of
            a plant whose states act along curves, whose mean slopes there are A and B. They are rough where few rows of
            the record were; :meth:`whatif` has bands. None: the line through the record.

        Returns
        -------
        TransferFunction

        Raises
        ------
        ValueError
            If `at` names no input that moved, a value beyond those seen, or one under which states stand where hardly
            any row was, or if curves of states do not answer.
        """
        check_is_fitted(self)
        with self._asking_models() as units:
            C, columns = units.loadings()
        A, by_lag, at_once = self.lag_transitions_, self.lag_inputs_, self.input_at_once_
        if self._engine.responses is not None:
            A, acting = self._engine.responses.matrices()
            by_lag, at_once = self._spec.decode(acting[1:], acting[0])
        if at is not None:
            A, B = self._slopes_at(at)
            by_lag, at_once = self._spec.decode(B[None], np.zeros_like(B))
        A, B, C, D = one_lag_realisation(A, by_lag, at_once, C)
        return TransferFunction(A, B, C, self.input_names_, tuple(columns), D)

    def _slopes_at(self, at):
        """Matrices (1, n, n) and (n, k) of a curved plant where inputs stand at some values."""
        curved, known = getattr(self.server_, "curved_", None), list(self._spec.sent.active_names)
        if curved is None or self._engine.responses is not None:
            raise ValueError(
                f"Got at={at!r}, and no curves of states answer: the plant is the same at all operating points that it "
                "knows. Ask without `at`."
            )
        if not set(at) <= set(known):
            raise ValueError(f"Got at={at!r}; give values of {listed(known)}.")
        inputs = np.zeros(len(known))
        for name, value in at.items():
            inputs[known.index(name)] = value - self.server_.input_level_[known.index(name)]
        A, B = curved.matrices_at(inputs)
        return A[None], B

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
            Mean effect, in standard deviations of a column in the record, up to which it counts as none. Bands
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
