"""Federated counterfactuals: what if a unit of a plant had been operated differently?"""

from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from ..arguments import Columns, Inputs, Lengths, Record
from ..bases import ParameterGroup
from ..containers.arrays import SEPARATOR, listed
from ..containers.rows import opened
from ..server.estimation.input_checks import InputsNotSeparableError
from ..server.lagged.stage import SAMPLED
from ..statespace.inputs import BASES
from ._declared import Declared, coded_record, filled_inputs, learned_levels, merged_inputs, warn_of_inputs
from ._input_spec import InputSpec
from ._interventions import learned_engine
from ._parts import with_callbacks
from ._questions import InputQuestions
from .relays import check_relays

# How inputs are read and through what they act, as one object.


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class InputModel(ParameterGroup):
    """What is known of the inputs of a plant: gaps, curves through which they act, instruments and relays.

    Parameters
    ----------
    missing : {"error", "hold"}, default="error"
        What to do about inputs that are not known at some time steps: refuse, naming them, or let the last
        value of the episode hold.
    basis : {"linear", "spline"}, callable or dict, default="linear"
        Through which curve inputs act on the plant. "spline": piecewise linear, bent at the quartiles of the
        record (valves that saturate, dead bands, switches). A function maps the values of an input, shape
        (n_samples,), to columns of shape (n_samples, k) of which a sum acts. A dict chooses by input or unit.
        The plant has a column of `input_` for each, questions are about the input itself. Not for sites.
    instruments : dict of str to str, default=None
        What moves an input and acts on the plant through this input alone: ``{"valve": "setpoint"}``, both columns
        that are declared as inputs of one unit. The effect of the input is then learned from what its instrument, now
        and in up to 20 rows before, explains of it, so that a hidden cause of the rest of its moves does no harm. The
        instrument is no input of the plant. Sites say so in their own settings.
    relays : dict of str to Relay, default=None
        Inputs that are the status, 0 or 1, of what a level switches on and off, and when:
        ``{"tank__pump": Relay("tank__level", 3.1, 4.4)}`` (:class:`~skfedcausal.estimators.relays.Relay`).
        Questions what if and impacts let them answer what other inputs do, unless the question is about them;
        everything else holds them as they were. Status and level belong to one unit.

    Examples
    --------
    >>> from skfedcausal import FederatedCounterfactualEstimator, InputModel
    >>> FederatedCounterfactualEstimator(input_model=InputModel(basis="spline")).set_params(input_model__missing="hold")
    FederatedCounterfactualEstimator(input_model=InputModel(basis='spline',
                                                            missing='hold'))
    """

    missing: str = "error"
    basis: Any = "linear"
    instruments: Mapping | None = None
    relays: Mapping | None = None

    _parameter_constraints = {
        "missing": [StrOptions({"error", "hold"})],
        "basis": [StrOptions(set(BASES)), callable, Mapping],
        "instruments": [Mapping, None],
        "relays": [Mapping, None],
    }


# Federated counterfactuals: what if a unit of a plant had been operated differently?


@dataclass(repr=False, eq=False, kw_only=True)
class FederatedCounterfactualEstimator(InputQuestions):
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
    communication : Communication, default=None
        What carries the messages (``transport=``), how precisely (``wire_dtype=``), at most how many bytes
        (``max_bytes=``), and what is done about units that do not answer (``lost_units=``), see
        :class:`~skfedcausal.Communication`. None: everything stays in this process, and every unit has to answer.
    n_jobs : int, default=None
        Units handled at the same time.
    random_state : int, RandomState instance or None, default=None
        For components that draw random numbers (the start of a GradientServer); the default ones draw none.
    input_columns : list of str or int, callable or dict, default=None
        Columns of a table that are inputs of the unit they belong to. A dict says of a column which units it acts on,
        where these are several: ``{"a__steam": ["a", "b"]}``. Inputs beside the table are given to `fit` instead.
        Inputs of words (text, a pandas Categorical) have a level for each: the plant has a column of `input_` for
        every level but the reference, and questions name levels.
    sampled : {"auto", "after", "before"} or dict, default="auto"
        When inputs were set: "after" the row that they stand in was measured, so that the next row is the
        first that they act on; "before" it, so that this row is. A dict has a word for an input
        (``unit__input``) or for all inputs of a unit, and "auto" for the others. "auto" is "after" for the plant unless
        the server decides, and "before" for responses (`engine_`) unless the input depends on measurements and its name
        is not that of a set point ("SP", "setpoint", "schedule"); in a closed loop no record can tell, and "before" is
        wrong for inputs of a controller that reads the row first. For sites a word, or one for each unit, which the
        server is told.
    input_model : InputModel, default=None
        What is known of the inputs: gaps, curves through which they act (``basis=``), instruments and relays, see
        :class:`InputModel`.
    verbose : bool, default=False
        Write what is logged during a `fit` to standard error: every exchange with the units.

    Attributes
    ----------
    client_names_ : tuple of str
        Units in the order of the plant matrices.
    transition_ : ndarray of shape (n, n)
    input_ : ndarray of shape (n, k)
        Input matrix, what inputs do one row later; off-diagonal blocks are shrunk unless the server says
        otherwise, columns of inputs that never moved are zero.
    lag_transitions_, lag_inputs_ : ndarray of shape (p, n, n) and (q, n, k)
        Those of all lags from the first on, which are `transition_` and `input_`; of one lag where that is
        enough.
    input_at_once_ : ndarray of shape (n, k)
        What inputs do in the row that they stand in: of those that were set before it was measured.
    process_cov_ : ndarray of shape (n, n)
    state_slices_, input_slices_ : dict of str to slice
        States of each unit, and its inputs among the columns of `input_`.
    input_names_ : tuple of str
        Flat name of each column of `input_`: ``unit__input``, or ``unit__input[k]`` for columns of a basis and
        ``unit__input[level]`` for levels.
    links_ : DataFrame
        One row per ordered pair of units and kind ("state", "input"): ``cause, effect, kind, norm,
        stderr, statistic, p_value, p_adjusted, geweke, verdict``. ``delay``
        and its interval are in rows; for rows with times, ``delay_time`` and its interval are in seconds.
    input_levels_ : dict of str to tuple of str
        Levels of the inputs that are words, the reference first: the first category of a Categorical, or the first in
        the alphabet. Effects of the other levels are relative to it.
    shared_inputs_ : dict of str to tuple of str
        Inputs that act on several units: the units beside the first one, which sends them.
    excitation_ : DataFrame
        One row per input: range seen, standard deviation, order of persistent excitation, share of its
        variance that other inputs and the states do not explain.
    feedback_ : DataFrame or None
        Tests whether inputs depend on measurements before them, whether both move together within a row
        (``same_row_p_value``), and whether earlier inputs did what the plant says (``misfit_p_value``). The
        likelihood given the inputs stays valid with feedback; where that is found, the standard errors of
        effects come from its observed curvature (those in `links_` do not) and the law of the controllers is
        identified locally.
    instruments_ : DataFrame
        One row per instrument: ``input, instrument, share``, of the input's variance that it explains, ``statistic``,
        the F statistic of that, which should be above 10.
    hidden_causes_ : DataFrame or None
        Tests whether inputs of a unit move with what other units measure and they cannot have caused, since it came
        before: ``input_of, measured, p_value, p_adjusted, suspect``. Either a cause that nobody measures moves both,
        and effects of these inputs are wrong, or the inputs are set by what the other unit shows. A warning names them.
    engine_ : {"plant", "responses"}
        What answers :meth:`counterfactual`, :meth:`whatif`, :meth:`impact`, :meth:`transfer_function` and, of
        :mod:`skfedcausal.inspection`, `dose_response`, `reach` and `sensitivity`: the plant, or regressions over lags
        where these miss clearly less of rows left out (:doc:`/counterfactual`). Everything else is about the plant.
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

    input_columns: Columns | None = None
    sampled: str | Mapping = "auto"
    input_model: InputModel | None = None

    _parameter_constraints = {
        **InputQuestions._parameter_constraints,
        "input_columns": ["array-like", callable, Mapping, None],
        "sampled": [StrOptions(set(SAMPLED)), Mapping],
        "input_model": [InputModel, None],
    }
    _groups = {"input_model": InputModel}
    _renamed = {"missing_inputs": "FederatedCounterfactualEstimator(input_model=InputModel(missing=...))"}

    _has_inputs = True
    _needed = {"tests_links": True, "answers_effects": True, "effects": False}
    _acting = ("lag_transitions_", "lag_inputs_", "input_at_once_")

    # -- fitting ---------------------------------------------------------------------------------

    def fit_sites(self, transport: Any) -> Self:
        """Learn the plant from units that are reached over a transport and hold their records themselves.

        Parameters
        ----------
        transport : object
            As in :meth:`FederatedGrangerEstimator.fit_sites`.

        Returns
        -------
        self : FederatedCounterfactualEstimator

        Raises
        ------
        ValueError
            If `basis` or `instruments` are given, or `sampled` by names of inputs, which sites do not tell.
        """
        if self.basis != "linear":
            raise ValueError(
                '`basis` is about values of inputs, which sites keep. Leave it out and say `basis = "spline"` in the '
                "section [site] of their settings, or give the sites columns that are made of the inputs."
            )
        if self.instruments:
            raise ValueError(
                "`instruments` are about values of inputs, which sites keep. Leave it out and say "
                '`instruments = {valve = "setpoint"}` in the section [site] of their settings, which then send the '
                "part of the input that the instrument explains."
            )
        if not isinstance(self.sampled, str):
            inputs = [name for name in self.sampled if SEPARATOR in name]
            if inputs:
                raise ValueError(
                    f"`sampled` names inputs {listed(inputs)}, which sites do not tell. Give a word for each unit, "
                    "or say `sampled` in the section [site] of their settings."
                )
        self._spec = None  # before anything is sent there is nothing to name
        return super().fit_sites(transport)

    @with_callbacks
    def fit(self, X: Record, y: Any = None, *, inputs: Inputs = None, lengths: Lengths = None) -> Self:
        """Learn the plant.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
            Measurements of all units, NaN where missing; inputs too where `input_columns` names them.
        y : None
            Ignored.
        inputs : list or dict, default=None
            Inputs of each unit beside X, arrays of shape (n_samples, n_inputs_m), None for a unit without. In a dict
            those that act on several units have these for a key: ``{("a", "b"): U}``.
        lengths : sequence of int, default=None
            Time steps of each episode; None for one episode.

        Returns
        -------
        self : FederatedCounterfactualEstimator

        Raises
        ------
        ValueError
            If inputs are missing at some time steps (unless ``InputModel(missing="hold")``) or are linear
            combinations of each other.

        Warns
        -----
        UserWarning
            Of inputs that never move, that hardly differ from what other inputs and states explain, that
            depend on measurements, that act within a row, or otherwise than the plant says.
        """
        self._validate_params()
        plant = self._read_first(X, inputs, lengths)
        with self._naming_inputs():
            self._fit_units(plant)
        self._warn_of_inputs()
        return self

    def _read_first(self, X, inputs, lengths):
        """The record to learn from as units see it, and what is to be known of its inputs."""
        X, inputs, lengths = opened(X, inputs, lengths)
        inputs, moved = merged_inputs(inputs)
        declared = Declared(self.input_columns, moved)
        levels = learned_levels(X, inputs, declared.names)
        X, inputs = coded_record(X, inputs, levels)
        labels = declared.labels(X, self.client_labels)
        plant = self._read_new(X, inputs, lengths, labels=labels, input_columns=declared.names)
        shared = declared.units(plant.layout)
        plant = filled_inputs(plant, self.missing)
        how = {"basis": self.basis, "sampled": self.sampled, "instruments": self.instruments}
        self._spec = InputSpec.learn(plant, levels, shared, **how)
        return self._seen_by_units(plant)

    def _read_next(self, X, inputs, lengths):
        """Further rows as units see them, whose inputs may go beyond the range of those before."""
        plant = self._read(X, inputs, lengths)
        self._spec = replace(self._spec, written=self._spec.written.widened(plant))
        return self._seen_by_units(plant)

    @contextmanager
    def _naming_inputs(self):
        """Name the inputs in an error that knows their numbers only."""
        try:
            yield
        except InputsNotSeparableError as error:
            names = [repr(self._spec.sent.active_names[k]) for k in error.inputs]
            raise InputsNotSeparableError(error.inputs, names) from None

    def _warn_of_inputs(self):
        """Say what was found of the inputs that makes answers doubtful."""
        spec = self._spec  # without inputs of units that were lost
        warn_of_inputs(self.server_, self.excitation_, spec.written, spec.map.words)

    @property
    def instruments_(self) -> pd.DataFrame:
        """The instruments of `fit` and how much they explain; no rows where none were given."""
        check_is_fitted(self)
        columns = ["input", "instrument", "share", "statistic"]
        return pd.DataFrame(columns=columns) if self._spec.instruments is None else self._spec.instruments.table

    def _read(self, X, inputs=None, lengths=None):
        X, inputs, lengths = opened(X, inputs, lengths)
        inputs, _ = merged_inputs(inputs)
        X, inputs = self._spec.coded(X, inputs, self.layout_.names)
        return filled_inputs(super()._read(X, inputs, lengths), self.missing)

    def _seen_by_units(self, plant):
        return self._spec.encode(plant)

    def _server_knows_timing(self):
        return "sampled" in self._parts()["server"].get_params(deep=False)

    def _new_server(self):
        """The server, told when inputs act where it can be told; those sent a row ahead act on the next."""
        server = super()._new_server()
        server.yields_to_responses = True
        if self.sampled != "auto" and self._spec is None:
            if not self._server_knows_timing():
                raise ValueError(
                    f"{type(server).__name__} knows of no inputs that act at once. Leave `sampled` out and let the "
                    "sites give such inputs a row ahead."
                )
            return server.set_params(sampled=self.sampled)
        if self.sampled != "auto" and self._server_knows_timing():
            known, owners = self._spec.sent, self._spec.owners
            words: dict[str, list[str]] = {name: [] for name in dict.fromkeys(known.units)}
            for unit, moves, k in zip(known.units, known.active, owners, strict=True):
                if moves:
                    word = self._spec.map.words[k]
                    words[unit].append("after" if word == "before" else word)
            server.set_params(sampled={unit: own for unit, own in words.items() if own})
        return server

    def _layout_of_sites(self, exchange):
        """Units with inputs that have numbers: sites leave out those that never move, and name none."""
        self._spec = InputSpec.at_sites(exchange.messages)
        known = self._spec.written
        inputs = tuple(tuple(known.names[k] for k in known.of(name)) for name in exchange.names)
        return replace(super()._layout_of_sites(exchange), inputs=inputs)

    def _taught(self, other, plant):
        vars(other)["_spec"] = self._spec
        return super()._taught(other, self._seen_by_units(plant))

    def _store_fit(self, server, exchange):
        super()._store_fit(server, exchange)
        self._spec = self._spec.only(server.names_)
        known = self._spec.sent
        self.input_levels_ = {name: levels.names for name, levels in self._spec.levels.items()}
        self.shared_inputs_ = dict(self._spec.shared)
        by_lag = getattr(server, "lag_inputs_", server.input_[None])
        at_once = getattr(server, "input_at_once_", np.zeros_like(server.input_))
        self.lag_inputs_, self.input_at_once_ = self._spec.decode(by_lag, at_once)
        self.input_ = self.lag_inputs_[0]
        self.input_names_ = known.names
        ends = np.cumsum([0, *(len(known.of(name)) for name in server.names_)]).tolist()
        self.input_slices_ = dict(zip(server.names_, map(slice, ends[:-1], ends[1:]), strict=True))
        self.excitation_ = known.table({} if server.excitation_ is None else server.excitation_)
        self.feedback_, self.hidden_causes_ = server.feedback_, getattr(server, "hidden_causes_", None)
        check_relays(self.relays or {}, self._spec.written.names)
        self._engine = learned_engine(self._spec, self.relays or {}, server, exchange.messages)
        self.engine_ = self._engine.name
