"""Federated counterfactuals: what if a unit of a plant had been operated differently?"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.validation import check_is_fitted

from ..message.requests import AggregateRequest, FactualRequest, Measurements
from ..message.states import EffectReply
from ..server.estimation.input_checks import InputsNotSeparableError
from ..statespace.episodes import episodes
from ..transfer import TransferFunction
from ._base import explained
from ._inputs import PlantInputs, filled_inputs, warn_of_excitation, warn_of_feedback
from ._interventions import replaced_input, trajectory, unit_name, whatif_table
from ._plant import PlantEstimator
from ._progress import with_callbacks

_LEVELS, _LOOPS = ("measurement", "state"), ("hold", "react")


@explained
@dataclass(repr=False, eq=False, kw_only=True)
class FederatedCounterfactualEstimator(PlantEstimator):
    """Learns how the inputs of every unit act on every other, and answers what-if questions.

    The plant is ``h[t] = A h[t-1] + B u[t-1] + w[t-1]``, ``y_m[t] = C_m h_m[t] + v_m[t]``: the inputs of row
    t act on the states and measurements of row t + 1. Every unit sends once what its measurements say about
    its own states, and its inputs; the server learns A and B. Raw measurements never leave a unit, inputs do.

    Parameters
    ----------
    client : KalmanClient, object, list or dict, default=None
        Model of the units, see :class:`FederatedGrangerEstimator`.
    client_labels : "from_columns", array-like or callable, default="from_columns"
        Which unit a column of a table belongs to.
    augmenter : LinearAugmenter or RegressorAugmenter, default=None
        How a unit guesses the influence of the others when the server cannot be reached.
    server : LikelihoodServer or GradientServer, default=None
        How the plant is learned. None stands for :class:`LikelihoodServer`. With a GradientServer, the
        paper's training, effects have no standard errors.
    privacy : GaussianMechanism, default=None
        Noise on every unit's measurements before anything is computed from them; inputs count as public.
        None: no differential privacy, messages are data-minimising, not private.
    transport : callable, default=None
        Called with the units' workers, returns the transport that carries the packets. None keeps
        everything in this process.
    wire_dtype : {"float64", "float32", "float16"}, default="float64"
        Precision of the series in the messages; inputs travel in single precision at least.
    n_jobs : int, default=None
        Units handled at the same time.
    random_state : int, RandomState instance or None, default=None
        For components that draw random numbers (the start of a GradientServer); the default ones draw none.
    input_columns : list of str or int, or callable, default=None
        Columns of a table that are inputs of the unit they belong to. Inputs beside the table are given to
        `fit` instead.
    missing_inputs : {"error", "hold"}, default="error"
        What to do about inputs that are not known at some time steps: refuse, naming them, or let the last
        value of the episode hold.
    lost_units : LostUnits, default=None
        What the fit does about units that do not answer, see
        :class:`~skfedcausal.federation.LostUnits`. None: every unit has to answer.
    max_bytes : int, default=None
        Most bytes that may leave all units together, in `fit` and when the estimator is asked about records
        afterwards (streams aside): what would exceed it is not sent, and a
        :class:`~skfedcausal.federation.ByteLimitError` says so. Sites of their own have limits of their own.
    verbose : bool, default=False
        Write what is logged during a `fit` to standard error: every exchange with the units.

    Attributes
    ----------
    client_names_ : tuple of str
        Units in the order of the plant matrices.
    transition_ : ndarray of shape (n, n)
    input_ : ndarray of shape (n, k)
        Input matrix; off-diagonal blocks are shrunk unless the server says otherwise, columns of inputs that
        never moved are zero.
    process_cov_ : ndarray of shape (n, n)
    state_slices_, input_slices_ : dict of str to slice
        States of each unit, and its inputs among the columns of `input_`.
    input_names_ : tuple of str
        Flat name of each column of `input_`.
    links_ : DataFrame
        One row per ordered pair of units and kind ("state", "input"): ``cause, effect, kind, strength,
        stderr, statistic, p_value, p_adjusted, geweke, verdict``.
    excitation_ : DataFrame
        One row per input: range seen, standard deviation, order of persistent excitation, share of its
        variance that other inputs and the states do not explain.
    feedback_ : DataFrame or None
        Tests whether inputs depend on measurements. The likelihood given the inputs stays valid then; where a
        test rejects, the standard errors of effects come from its observed curvature (those in `links_` do
        not) and the law of the controllers is identified at home.
    clients_, augmenters_, server_, communication_, ledger_, layout_
        See :class:`FederatedGrangerEstimator`.

    See Also
    --------
    FederatedGrangerEstimator : The same without inputs.

    Notes
    -----
    One step ahead the effect of ``u1`` instead of ``u0`` at unit n on the measurements of unit m is ``C_m
    B_mn (u1 - u0)`` (equation 3 of [1]_), k steps ahead that of a held change ``C_m sum_(j<k) [A^j B]_mn (u1
    - u0)``. The server answers on states; every unit maps the answer through its own C_m.

    References
    ----------
    .. [1] Mohanty et al., Federated causal representation learning in state-space systems for decentralized
           counterfactual reasoning.

    Examples
    --------
    >>> from skfedcausal import FederatedCounterfactualEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> X, truth = make_granger_plant(2, links=[(0, 1)], n_inputs=1, input_links=[(0, 1)], random_state=0)
    >>> est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    >>> est.input_.shape
    (4, 2)
    >>> est.counterfactual("unit0", 0.0, 1.0, horizon=5).shape
    (5, 16)
    """

    input_columns: Any = None
    missing_inputs: str = "error"

    _parameter_constraints = {
        **PlantEstimator._parameter_constraints,
        "server": [HasMethods("effects"), None],
        "input_columns": ["array-like", callable, None],
        "missing_inputs": [StrOptions({"error", "hold"})],
    }

    _has_inputs = True

    # -- fitting ---------------------------------------------------------------------------------

    @with_callbacks
    def fit(self, X, y=None, *, inputs=None, lengths=None, dry_run=False):
        """Learn the plant.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
            Measurements of all units, NaN where missing; inputs too where `input_columns` names them.
        y : None
            Ignored.
        inputs : list or dict, default=None
            Inputs of each unit beside X, arrays of shape (n_samples, n_inputs_m), None for a unit without.
        lengths : sequence of int, default=None
            Time steps of each episode; None for one episode.
        dry_run : bool, default=False
            Send nothing, learn nothing, and return what would be sent: the table of :meth:`plan`.

        Returns
        -------
        self : FederatedCounterfactualEstimator
            A DataFrame in its place with `dry_run`.

        Raises
        ------
        ValueError
            If inputs are missing at some time steps (unless ``missing_inputs="hold"``) or are linear
            combinations of each other.

        Warns
        -----
        UserWarning
            Of inputs that never move, that hardly differ from what other inputs and states explain, or that
            depend on measurements.
        """
        self._validate_params()
        if dry_run:
            return self.plan(X, inputs=inputs, lengths=lengths)
        plant = self._read_new(X, inputs, lengths, input_columns=self.input_columns)
        plant = filled_inputs(plant, self.missing_inputs)
        self._plant_inputs = PlantInputs.learn(plant)
        try:
            self._fit_units(self._plant_inputs.restrict(plant))
        except InputsNotSeparableError as error:
            names = [repr(self._plant_inputs.active_names[k]) for k in error.inputs]
            raise InputsNotSeparableError(error.inputs, names) from None
        warn_of_excitation(self.excitation_)
        warn_of_feedback(self.server_)
        return self

    def _read(self, X, inputs=None, lengths=None):
        return filled_inputs(super()._read(X, inputs, lengths), self.missing_inputs)

    def _seen_by_units(self, plant):
        return self._plant_inputs.restrict(plant)

    def _layout_of_sites(self, exchange):
        """Units with inputs that have numbers: sites leave out those that never move, and name none."""
        known = self._plant_inputs = PlantInputs.told(exchange.messages)
        inputs = tuple(tuple(known.names[k] for k in known.of(name)) for name in exchange.names)
        return replace(super()._layout_of_sites(exchange), inputs=inputs)

    def _taught(self, other, plant):
        other._plant_inputs = self._plant_inputs
        return super()._taught(other, self._seen_by_units(plant))

    def _store_fit(self, server, exchange):
        super()._store_fit(server, exchange)
        known = self._plant_inputs
        self.input_ = known.expand(server.input_)
        self.input_names_ = known.names
        ends = np.cumsum([0, *(len(known.of(name)) for name in server.names_)]).tolist()
        self.input_slices_ = dict(zip(server.names_, map(slice, ends[:-1], ends[1:]), strict=True))
        self.excitation_ = known.table({} if server.excitation_ is None else server.excitation_)
        self.feedback_ = server.feedback_

    def _plant_matrix(self):
        return np.hstack([self.transition_, self.input_])

    # -- questions -------------------------------------------------------------------------------

    def counterfactual(self, n, u0, u1, *, horizon=1, level="measurement", return_std=False, loops="hold", split=False):
        """Effect on every unit of operating unit `n` with the inputs `u1` instead of `u0`.

        Parameters
        ----------
        n : str or int
            Unit, by name or position.
        u0, u1 : float or array-like of shape (n_inputs,) or (horizon, n_inputs)
            Inputs of the unit from time t on: constants that are held, or trajectories (ramps, pulses), which
            may have the shape (horizon,) where the unit has one input.
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
            ``unit__sensor`` per sensor (``unit__state0`` per state), or (input, column) with `split`.
        std : DataFrame
            Of the same shape, with `return_std`. From the estimate before shrinkage, given the selected
            links.

        Raises
        ------
        ValueError
            If the unit is unknown or has no inputs, a shape does not fit, the horizon is below one, an
            input is asked to move that never moved in `fit`, or the server has no standard errors.

        Warns
        -----
        UserWarning
            If an input leaves the range seen in `fit`.
        """
        check_is_fitted(self)
        name = unit_name(n, self.client_names_)
        _check_choice("level", level, _LEVELS)
        _check_choice("loops", loops, _LOOPS)
        if return_std and not getattr(self.server_, "has_covariances", True):
            raise ValueError(
                f"{type(self.server_).__name__} learns a point without a sampling covariance: there are no standard "
                "errors to return. Use LikelihoodServer for them."
            )
        if isinstance(horizon, bool) or not isinstance(horizon, Integral) or horizon < 1:
            raise ValueError(f"Got horizon={horizon!r}; give a number of steps ahead of at least 1.")
        known, own = self._plant_inputs, self._plant_inputs.of(name)
        if not own:
            with_inputs = [unit for unit in self.client_names_ if known.of(unit)]
            raise ValueError(f"Unit {name!r} has no inputs; units with inputs are {', '.join(with_inputs) or 'none'}.")
        names = [known.names[k] for k in own]
        before, after = (trajectory(u, f"u{k}", horizon, names) for k, u in enumerate((u0, u1)))
        for values in (before, after):
            known.warn_outside(values, own)
        change = np.zeros((horizon, len(known.names)))
        change[:, own] = after - before
        held = np.isin(np.arange(len(known.names)), own)
        steps = pd.RangeIndex(1, horizon + 1, name="step")
        parts = {known.names[k]: _only(change, k) for k in own} if split else {None: change}
        frames = [self._effect_frames(part, held, loops, level, steps) for part in parts.values()]
        tables = [
            pd.concat(dict(zip(parts, some, strict=True)), axis=1, names=["input", "column"]) if split else some[0]
            for some in zip(*frames, strict=True)
        ]
        return tuple(tables) if return_std else tables[0]

    def whatif(self, X, do, *, inputs=None, lengths=None, confidence=0.9, loops="hold", split=False):
        """Replay a record under other inputs.

        Abduction, action, prediction: the record determines states and noise, the inputs are replaced, the
        same noise drives the plant again. For a linear plant the difference is the response to the change of
        the inputs, whatever the noise was; inputs as they were give back the record.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
            Record, in a container as in `fit`.
        do : dict of str to (float, array-like or callable)
            What replaces an input ``unit__input``: a number held throughout, one value per row, or a
            function of the recorded series.
        inputs, lengths
            As in `fit`.
        confidence : float, default=0.9
            Of the band from `low` to `high`.
        loops : {"hold", "react"}, default="hold"
            As in :meth:`counterfactual`.
        split : bool, default=False
            One set of rows per replaced input, named in a column ``source``; their effects add up.

        Returns
        -------
        DataFrame
            One row per time and column: ``time, column, factual, counterfactual, effect, low, high``. A
            measurement that is missing is replaced by its expectation given the whole record. The band is
            that of the counterfactual: uncertainty of the effect and, where the measurement is missing, of
            what it was; NaN where the server has no standard errors.

        Raises
        ------
        ValueError
            If an input is unknown, a series does not fit, or an input is asked to move that never moved in
            `fit`.

        Warns
        -----
        UserWarning
            If an input leaves the range seen in `fit`.
        """
        check_is_fitted(self)
        _check_choice("loops", loops, _LOOPS)
        if not 0 < confidence < 1:
            raise ValueError(f"Got confidence={confidence!r}; give a number between 0 and 1.")
        if not isinstance(do, Mapping):
            raise ValueError(
                f"Got do={do!r}; give a dict from the name of an input, 'unit__input', to what replaces it."
            )
        known = self._plant_inputs
        with self._asking(X, inputs, lengths) as units:
            messages = units.messages()
            known_series = units.inputs or [message.inputs for message in messages.values()]
            recorded = np.hstack([np.zeros((units.n_samples, 0)), *(U for U in known_series if U is not None)])
            change = np.zeros_like(recorded)
            for name, value in do.items():
                k = known.position(name)
                series = replaced_input(value, recorded[:, k], units.index, name)
                known.warn_outside(series[:, None], [k])
                change[:, k] = series - recorded[:, k]
            factual, spread, columns = self._factual(units, messages)
            held = np.isin(np.array(known.names, dtype=object), list(do))
            times = np.arange(units.n_samples) if units.index is None else units.index
            parts = {name: _only(change, known.position(name)) for name in do} if split else {None: change}
            tables = {}
            for source, part in parts.items():
                effect, variance = self._replayed(units, part, held, loops, factual.shape)
                std = np.sqrt(variance + spread)
                tables[source] = whatif_table(times, columns, factual, effect, std, confidence)
        if not split:
            return tables[None]
        return pd.concat(tables, names=["source", None]).reset_index("source").reset_index(drop=True)

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
        if not self._plant_inputs.active.any():
            raise ValueError("No unit of this plant has inputs that moved in `fit`.")
        with self._asking_models() as exchange:
            answer = exchange.ask({name: AggregateRequest(float(scale))}, Measurements)[name]
        return pd.Series(answer.values[0], index=list(answer.columns), name="aggregate of all other units' inputs")

    def transfer_function(self):
        """The learned plant from inputs to expected measurements, ``G(z) = C (z I - A)^-1 B``.

        Returns
        -------
        TransferFunction
        """
        check_is_fitted(self)
        unit_states = {name: EffectReply(np.eye(rows.stop - rows.start)) for name, rows in self.state_slices_.items()}
        with self._asking_models() as exchange:
            answers = exchange.ask(unit_states, Measurements)
        positions, columns = self._places(answers)
        C = np.zeros((len(columns), len(self.transition_)))
        for unit, (name, states) in zip(positions, self.state_slices_.items(), strict=True):
            C[unit, states] = answers[name].values.T
        return TransferFunction(self.transition_, self.input_, C, self.input_names_, tuple(columns))

    # -- units' answers ------------------------------------------------------------------------------

    def _effects(self, change, held, loops):
        """What a change of inputs does to every unit's states."""
        known = self._plant_inputs
        known.check_known(change)
        if not known.active.any():
            raise ValueError("No input of this plant moved in `fit`: there is nothing to ask about.")
        held = held[known.active] if loops == "react" else None
        return self.server_.effects(change[:, known.active], held=held)

    def _effect_frames(self, change, held, loops, level, steps):
        """Effect and standard error (NaN where the server has none) as labelled tables."""
        replies = self._effects(change, held, loops)
        if level == "state":
            if self._channel is not None:  # each site maps the effect on its own sensors, for itself
                self._channel.tell({name: replace(reply, keep=True) for name, reply in replies.items()})
            known = [replies[name] for name in self.client_names_]
            effect, columns = np.hstack([reply.states for reply in known]), self.get_feature_names_out()
            variance = np.full_like(effect, np.nan)
            if all(reply.covariances is not None for reply in known):
                own = [np.diagonal(reply.covariances, axis1=1, axis2=2) for reply in known]
                variance = np.hstack(own).clip(0)
        else:
            with self._asking_models() as exchange:
                effect, variance, columns = self._with_variance(exchange.ask(replies, Measurements), np.nan)
        blocks = effect, np.sqrt(variance)
        return tuple(pd.DataFrame(block, index=steps, columns=list(columns)) for block in blocks)

    def _with_variance(self, answers, unknown):
        """Measurements in answers, their variance (`unknown` where some unit has none), names of columns."""
        values, columns = self._measured(answers)
        if any(answer.variance is None for answer in answers.values()):
            return values, np.full_like(values, unknown), columns
        return values, self._measured(answers, "variance")[0], columns

    def _replayed(self, units, change, held, loops, shape):
        """Effect and its variance over the rows of a record, every episode from its own start."""
        effect, variance = np.zeros(shape), np.zeros(shape)
        for start, stop in episodes(units.starts, len(change)):
            moved = np.flatnonzero(change[start:stop].any(axis=1))
            if not len(moved) or start + moved[0] + 1 >= stop:
                continue
            first = start + moved[0]
            replies = self._effects(change[first : stop - 1], held, loops)
            rows = slice(first + 1, stop)
            answers = units.exchange.ask(replies, Measurements)
            effect[rows], variance[rows], _ = self._with_variance(answers, np.nan)
        return effect, variance

    def _factual(self, units, messages):
        """Measurements of the record, expected ones where they are missing, the variance of those, names."""
        request = dict.fromkeys(messages, FactualRequest())
        if not all(message.information.is_constant for message in messages.values()):
            states = self.server_.abducted(messages)
            request = {name: FactualRequest(one.states, one.covariances) for name, one in states.items()}
        return self._with_variance(units.exchange.ask(request, Measurements), 0.0)


def _check_choice(name, value, choices):
    if value not in choices:
        raise ValueError(f"Got {name}={value!r}; choose {' or '.join(repr(c) for c in choices)}.")


def _only(change, k):
    """The change of one input, the others as they were."""
    return np.where(np.arange(change.shape[1]) == k, change, 0.0)
