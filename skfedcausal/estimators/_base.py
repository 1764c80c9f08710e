"""What the three estimators share: parameters, containers in, units asked over an exchange, tables out."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import KW_ONLY, dataclass
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import numpy as np
import pandas as pd
from joblib import parallel_config
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted

from ..arguments import Client, Columns, Dialogue, Fitted, Inputs, Lengths, Record, Seed, checked, warn
from ..bases import N_JOBS, BaseEstimator, Grouped, TransformerMixin, Versioned, place_of
from ..beside import beside
from ..client.units import (
    client_templates,
    kept_states,
    known_units,
    new_units,
    released,
    units_alone,
    warn_of_exact_states,
    without_silent,
)
from ..client.worker import check_takes_noise
from ..containers import PlantLayout, episode_starts, read_plant
from ..containers.arrays import listed, warn_of_copies
from ..containers.rows import warn_of_gaps
from ..federation.exchange import Communication, Exchange, InProcessTransport, LostUnitWarning, Transport
from ..federation.ledger import Ledger
from ..message.requests import Measurements, RecordRequest, SensorsAsStates
from ..message.states import EffectReply, PredictionReply, StateMessage
from ..privacy.mechanism import PrivacyMechanism
from ..seeding import seeded
from ._parts import (
    MOVED,
    NAMED_SENSORS,
    NO_PROMISE,
    Asked,
    CallbackSupportMixin,
    DefaultParts,
    LearnedPlant,
    followed,
    moved,
    promise,
    told_promise,
    unaccounted,
    written_out,
)

# Units that can be queried about a record, and their answers side by side.


@dataclass(frozen=True)
class QueriedUnits:
    """Units that can be queried, and what is known of the record that they are about.

    Times of its rows and rows of each episode (none for questions about models alone), inputs if given; units and
    their columns, and which states of the plant are whose.
    """

    exchange: Exchange
    layout: PlantLayout
    state_slices: dict
    lengths: tuple = ()
    index: pd.Index | None = None
    inputs: tuple | None = None

    @property
    def n_samples(self):
        """Rows of the record."""
        return sum(self.lengths)

    @property
    def starts(self):
        """First row of each episode."""
        return episode_starts(self.lengths)

    def messages(self, **wishes):
        """Messages of all units about the record."""
        return self.exchange.ask_all(RecordRequest(**wishes), StateMessage)

    def messages_there(self, silent, **wishes):
        """Messages of all units; `silent(name, lengths)` stands in for late ones where `lost_units` allows it."""
        names, came = self.exchange.names, self.exchange.ask_those_there(RecordRequest(**wishes), StateMessage)
        lost = [name for name in names if name not in came]
        if lost:
            warn(
                f"Units {listed(lost)} did not answer in time: the answer is given what the others measured.",
                LostUnitWarning,
            )
        return {name: came[name] if name in came else silent(name, self.lengths) for name in names}

    # -- states and measurements -------------------------------------------------------------------

    def by_unit(self, states):
        """Pairs of every unit's name and its own among the states of all, (n_samples, n)."""
        return [(name, np.ascontiguousarray(states[:, rows])) for name, rows in self.state_slices.items()]

    def mapped(self, states, covariances=None):
        """Answers with the measurements to expect of states, (n_samples, n), as every unit maps its own.

        `covariances` has those of each unit's states, (n_samples, n_m, n_m), for variances of measurements.
        """
        of_units = [None] * len(self.state_slices) if covariances is None else covariances
        own = zip(self.by_unit(states), of_units, strict=True)
        return self.exchange.ask({name: PredictionReply(part, V) for (name, part), V in own}, Measurements)

    def places(self, answers):
        """Positions of each unit's sensors in a table of all, and the names of its columns."""
        if self.layout.has_columns:
            return self.layout.output_places()
        sizes = [len(answer.columns) for answer in answers.values()]
        ends = np.cumsum(sizes)
        positions = [list(range(end - size, end)) for end, size in zip(ends, sizes, strict=True)]
        return positions, [name for answer in answers.values() for name in answer.columns]

    def measured(self, answers, field="values"):
        """Measurements in the answers of all units side by side, (n_samples, n_sensors), and names of the columns."""
        positions, columns = self.places(answers)
        table = np.empty((len(next(iter(answers.values())).values), len(columns)))
        for where, answer in zip(positions, answers.values(), strict=True):
            table[:, where] = getattr(answer, field)
        return table, columns

    def with_variance(self, answers, unknown=np.nan):
        """The same with the variance of the measurements, `unknown` where some unit has none, before the names."""
        values, columns = self.measured(answers)
        if any(answer.variance is None for answer in answers.values()):
            return values, np.full_like(values, unknown), columns
        return values, self.measured(answers, "variance")[0], columns

    def loadings(self):
        """How all sensors follow the states of their units, as these say, (n_sensors, n), and their names."""
        slices = self.state_slices
        unit_states = {name: EffectReply(np.eye(rows.stop - rows.start)) for name, rows in slices.items()}
        answers = self.exchange.ask(unit_states, Measurements)
        positions, columns = self.places(answers)
        C = np.zeros((len(columns), sum(rows.stop - rows.start for rows in slices.values())))
        for unit, (name, states) in zip(positions, slices.items(), strict=True):
            C[unit, states] = answers[name].values.T
        return C, columns


# What the three estimators share: parameters, containers in, units asked over an exchange, tables out.

_Question = TypeVar("_Question", bound=Callable[..., Any])


class where_server:
    """A question for estimators whose server has `name`; elsewhere the error says which fit could answer."""

    def __init__(self, name, example="LikelihoodServer"):
        self._name, self._example = name, example

    def __call__(self, question: _Question) -> _Question:
        self._function = checked(question)
        return self  # type: ignore[return-value]  # who asks finds the question

    def __get__(self, estimator, cls=None):
        if estimator is None:
            return self._function
        server = cls._default_parts()["server"] if estimator.server is None else estimator.server
        if not getattr(server, self._name, False):
            raise AttributeError(
                f"{cls.__name__}.{self._function.__name__} is not answered by a fit with "
                f"{type(server).__name__}; fit with server={self._example}(...)."
            )
        return MethodType(self._function, estimator)


@dataclass(repr=False, eq=False)
class FederatedEstimator(
    LearnedPlant, Grouped, DefaultParts, CallbackSupportMixin, TransformerMixin, Versioned, BaseEstimator
):
    """Base of the federated estimators; use a subclass."""

    client: Client | Sequence[Client] | Mapping[Any, Client] | None = None
    _: KW_ONLY
    client_labels: Columns | str = "from_columns"
    augmenter: Fitted | None = None
    server: Dialogue | None = None
    privacy: PrivacyMechanism | None = None
    communication: Communication | None = None
    n_jobs: int | None = None
    random_state: Seed = None
    verbose: bool = False

    _parameter_constraints = {
        "client": [HasMethods("message"), HasMethods("filter_moments"), list, tuple, dict, None],
        "client_labels": ["array-like", callable, StrOptions({"from_columns"})],
        "augmenter": [HasMethods(["fit", "predict"]), None],
        "server": [HasMethods("dialogue"), None],
        "privacy": [PrivacyMechanism, None],
        "communication": [Communication, None],
        "n_jobs": N_JOBS,
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }
    _groups = {"communication": Communication}
    _monitors = False  # whether units tell also what their states do not show
    _has_inputs = False  # whether units may have inputs
    _needs_rows = True  # whether a fit is more than what sums of products over rows tell
    _asked_kind = cast(Any, Asked)
    _leaves_out_still_units = False  # a unit that never moved is news when it does, or has inputs that others follow
    _place = cast(Any, None)  # where a plant that is learned batch by batch stands
    _channel = cast(Any, None)  # to the sites that a plant was learned from
    _row_time = cast(Any, None)  # from row to row of the record of the fit

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    if not TYPE_CHECKING:  # which would take every name for one that is there

        def __new__(cls, *args, **settings):
            """Say of a parameter that an estimator does not have where it belongs."""
            made = super().__new__(cls, *args, **settings)
            for name in settings.keys() - set(cls._get_param_names()):
                places = {part: place_of(type(own), name) for part, own in cls._default_parts().items()}
                parts = [f"it is one of its {part}: {part}={place}" for part, place in places.items() if place]
                known = f"it has {listed(cls._get_param_names(), 20)}"
                raise TypeError(f"{cls.__name__} has no parameter {name!r}: {'; '.join(parts) or known}.")
            return made

        def __getattr__(self, name):
            """Say of what `fit` learns that it is not there before."""
            if hasattr(type(self), name):  # a property or method that has words of its own
                return super().__getattribute__(name)
            who, now = type(self).__name__, moved(type(self), name) if name in MOVED else None
            if now is None and name.endswith("_") and not name.startswith("_") and "layout_" not in vars(self):
                raise NotFittedError(f"{who}.{name} is not known before a fit: call fit(X) first.")
            raise AttributeError(now or f"{who!r} object has no attribute {name!r}")

    def _validate_params(self):
        super()._validate_params()
        for mechanism in self.privacy if isinstance(self.privacy, (list, tuple)) else [self.privacy]:
            if isinstance(mechanism, PrivacyMechanism):
                mechanism.check()

    # -- learning --------------------------------------------------------------------------------

    def fit_sites(self, transport: Transport) -> Self:
        """Learn the plant from units that are reached over a transport and hold their records themselves.

        The models of the units are what the sites say they are, and so is differential privacy: `client`,
        `augmenter` and `privacy` belong to the settings of a site, which tells its promise with its first
        message; `privacy_spent_`, `privacy_statement_` and `noise_covariance_` are what the sites say. Every
        question can be asked afterwards, with None in place of the record: the sites answer about theirs.

        Parameters
        ----------
        transport : Transport
            Stays open, for questions; close it to tell the sites that the run is over.

        Returns
        -------
        self : estimator

        Raises
        ------
        ClientError
            If a unit that is needed gave no usable message.
        ValueError
            If a parameter that belongs to the sites is given, or the link is one-way and the server needs
            more than one message.

        Warns
        -----
        LostUnitWarning
            If the fit went on without some answers.

        See Also
        --------
        skfedcausal.federation.FileTransport : Files between the machines.
        """
        self._validate_params()
        return self._fit_sites(transport, self._new_server())

    def _fit_sites(self, transport, server, dialogue=None):
        """Learn from sites, by the rounds of the server or by another `dialogue`."""
        owned = ("client", "augmenter", "privacy", "max_bytes", "remedy", "mode")
        given = [name for name in owned if getattr(self, name, None) is not None]
        if given:
            raise ValueError(
                f"{', '.join(given)} cannot be given to `fit_sites`: units at sites have their own settings."
            )
        how = {"lost_units": self.lost_units, "dealer": getattr(server, "dealer", None)}
        exchange = self._exchange(transport, Ledger(), **how)
        if exchange.one_way and server.needs_replies:
            raise ValueError(
                f"{type(server).__name__} needs several rounds here, and nothing can be sent over a one-way link. Use "
                "a LikelihoodServer with n_rounds=1."
            )
        if dialogue is None:
            self._learn(exchange, server, self._has_inputs)
        else:
            exchange.learn(dialogue, self._has_inputs)
            self._store_learned(exchange, server)
        sites = exchange.names
        exchange.settle(name for name in sites if name in server.names_)
        self._units, self._channel = {}, exchange
        self.clients_, self.augmenters_ = {}, {}
        self.layout_ = self._layout_of_sites(exchange)
        told = {name: promise.noise for name, promise in exchange.promises.items() if name in exchange.names}
        self.noise_covariance_ = {name: np.diag(variance) for name, variance in told.items()}
        self.communication_ = self.ledger_.communication(dict.fromkeys(sites, np.nan))
        self._store_told_promises()
        self._store_fit(server, exchange)
        exchange.messages = {}
        return self

    def _fit_units(self, plant, home=None):
        """Learn from units in this process; `home` is their raw record where they need it beside `plant`."""
        server, templates = self._new_server(), client_templates(self.client, plant.names, self.random_state)
        mechanism, layout = self._message_mechanism, plant.layout
        if mechanism is None and self._leaves_out_still_units:
            plant = plant.moving()
        raw_bytes = plant.unit_bytes
        if mechanism is not None:
            for name, template in templates.items():
                check_takes_noise(template, name)
        if hasattr(server, "_check_room"):
            server._check_room(templates, plant.n_samples, sum(plant.input_sizes.values()))
        plant, self._noise = released(mechanism, plant, learning=True)
        self._row_time = plant.row_time
        noise_of_units, guard = {}, None  # of training; on the record it is there already
        if mechanism is not None and mechanism.place != "record":
            noise_of_units, guard = beside("training_noise")(
                mechanism, server, plant, templates, self.wire_dtype, self.augmenter
            )
        augmenter = None if self.augmenter is None else seeded(self.augmenter, self.random_state)
        units = new_units(plant, templates, augmenter, self._noise, training=noise_of_units, home=home)
        with self._reaching(units, server, guard) as exchange:
            exchange.expect(n_inputs=plant.input_sizes)
            self._learn(exchange, server, any(U is not None for U in plant.inputs))
        self._store_units(kept_states(units, quiet=mechanism is not None), server.names_)
        self.layout_ = layout
        known = {name: noise for name, noise in self._noise.items() if name in server.names_}
        self.noise_covariance_ = {name: np.diag(noise.variance) for name, noise in known.items()}
        self.communication_ = self.ledger_.communication(raw_bytes)
        told = mechanism is None and getattr(server, "dealer", None) is None
        self._exact_units = warn_of_exact_states(plant, self.state_slices_) if told else []
        self._store_promise(plant.n_samples)
        self._store_fit(server, exchange)
        return self

    @contextmanager
    def _reaching(self, units, server, guard):
        """An exchange with units in this process that are to learn; its progress is told whoever asked for it."""
        dealer, how = getattr(server, "dealer", None), {"lost_units": self.lost_units, "guard": guard}
        if dealer is not None:
            units = beside("with_dealer")(units, dealer)
        with ExitStack() as stack:
            if self.verbose:
                stack.enter_context(written_out())
            if hasattr(self, "_skl_callbacks"):
                how["follow"] = stack.enter_context(followed(self, self._init_callback_context(max_subtasks=None)))
            exchange = self._exchange(self._transport(units), Ledger(self.max_bytes), dealer=dealer, **how)
            stack.callback(exchange.close)
            self._account = exchange.ledger  # also of a fit that fails
            yield exchange

    def _store_units(self, kept, names):
        """What the units of the plant keep, in this process."""
        self._units, self._channel = {name: kept[name] for name in names if name in kept}, None
        self.clients_ = {name: unit["client"] for name, unit in self._units.items()}
        self.augmenters_ = {name: unit["augmenter"] for name, unit in self._units.items() if "augmenter" in unit}

    def _learn(self, exchange, server, inputs):
        """The rounds of a fit, whoever is at the other end."""
        with ExitStack() as stack:
            if self.n_jobs is not None:
                stack.enter_context(parallel_config(n_jobs=self.n_jobs))
            if hasattr(server, "_processes"):  # that start while the units begin
                stack.enter_context(server._processes(len(exchange.names)))
            exchange.learn(server, inputs)
        self._place = None
        self._store_learned(exchange, server)

    def _store_learned(self, exchange, server):
        """What the rounds have left, whoever was at the other end."""
        if exchange.timed:
            beside("warn_of_clocks")(exchange.timed)
            exchange.timed = {}
        self.server_, self.ledger_, self.client_names_ = server, exchange.ledger, server.names_
        self.transition_, self.process_cov_ = server.transition_, server.process_cov_
        self.state_slices_ = server.state_slices_
        self.lag_transitions_ = getattr(server, "lag_transitions_", self.transition_[None])
        lost = exchange.attendance.lost
        self.lost_units_ = pd.DataFrame(lost, columns=["unit", "round", "operation", "reason"])
        if lost:
            units = listed(dict.fromkeys(self.lost_units_["unit"]))
            warn(f"The fit went on without some answers of {units}; `lost_units_` says which and why.", LostUnitWarning)

    def _new_server(self):
        server = self._parts()["server"] if self.server is None else seeded(self.server, self.random_state)
        if self._needs_rows and getattr(server, "dealer", None) is not None:
            raise ValueError(
                f"{type(server).__name__} learns from sums over rows, and {type(self).__name__} needs every row; use "
                "it in a FederatedGrangerEstimator, or a LikelihoodServer here."
            )
        return server

    def _transport(self, sites):
        return InProcessTransport(sites, n_jobs=self.n_jobs) if self.transport is None else self.transport(sites)

    def _exchange(self, transport, ledger, *, dealer=None, **settings):
        if dealer is not None:
            there = tuple(transport.clients())
            if dealer not in there:
                raise ValueError(
                    f"The transport reaches {list(there)} and no dealer {dealer!r}, without whom there are no secure "
                    "sums. Name it among the sites of the transport, or give the server its name: dealer=."
                )
            settings["names"] = tuple(name for name in there if name != dealer)
        return Exchange(transport, ledger, dtype=self.wire_dtype, monitor=self._monitors, **settings)

    def connect(self, transport: Transport) -> Self:
        """Reach the sites of :meth:`fit_sites` again: pickles and copies hold no transport.

        Parameters
        ----------
        transport : Transport
            To the same sites.

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            If the estimator did not learn from sites.
        """
        check_is_fitted(self)
        if self._channel is None:
            raise ValueError("There are no sites to reach: `connect` is for an estimator after `fit_sites`.")
        self._channel.connect(transport)
        return self

    def _layout_of_sites(self, exchange):
        """Units without columns: sensors at sites are named where an answer is about them."""
        nothing = ((),) * len(exchange.names)
        return PlantLayout(exchange.names, nothing, nothing, nothing, nothing, named=True)

    def plan(self, X: Record, *, inputs: Inputs = None, lengths: Lengths = None) -> pd.DataFrame:
        """Everything that would leave the units in `fit`, and come to them; nothing is sent or charged.

        The whole fit runs in this process, where the records are, and is thrown away; noise is, too. Sites
        of their own have the command ``plan``.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
        inputs, lengths
            As in `fit`.

        Returns
        -------
        DataFrame
            One row per unit and kind of packet: ``client, direction`` ("up": it would leave the unit), ``op,
            purpose, packets, bytes, fields``. ``attrs`` holds ``bytes_up, bytes_down, raw_bytes, rounds`` and
            ``privacy``, the promise that would be made about this fit, and ``exact``, the units whose states are as
            many as their sensors that move, so that these follow from what is sent.

        Examples
        --------
        >>> from skfedcausal import FederatedGrangerEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, _ = make_granger_plant(2, random_state=0)
        >>> plan = FederatedGrangerEstimator().plan(X)
        >>> plan.groupby(["direction", "op"])["packets"].sum().to_dict()
        {('down', 'fit'): 2, ('down', 'reply'): 2, ('up', 'done'): 2, ('up', 'states'): 2}
        """
        self._validate_params()
        trial = clone(self).set_params(communication__transport=None, privacy=unaccounted(self.privacy))
        trial.fit(X, inputs=inputs, lengths=lengths)
        plan, sums = trial.ledger_.table, trial.communication_
        plan.attrs |= {name: sums[name] for name in ("bytes_up", "bytes_down", "raw_bytes", "rounds")}
        plan.attrs["privacy"] = trial.privacy_statement_
        plan.attrs["exact"] = trial._exact_units
        return plan

    # -- privacy ---------------------------------------------------------------------------------

    @property
    def _message_mechanism(self):
        """What adds noise to the records that messages are about, or None."""
        return self.privacy

    def _store_promise(self, n_samples):
        """What has been spent on the units' records by the mechanism of the estimator."""
        self._keep_promise(*(NO_PROMISE if self.privacy is None else self._promise(self.layout_.names, n_samples)))

    def _promise(self, names, n_samples):
        return promise(self._message_mechanism, names, n_samples)

    def _store_told_promises(self):
        """What the sites say their records have cost so far."""
        self._keep_promise(*told_promise(self._channel.promises, self._channel.names))

    def _keep_promise(self, spent, table, words):
        """What has been spent, the ledger behind it, and the promise in words."""
        names = any(entry.op == SensorsAsStates.OP for entry in self.ledger_.entries)
        self.privacy_spent_, self.privacy_ledger_ = spent, table.copy()
        self.privacy_statement_ = words + NAMED_SENSORS if names else words

    def _checked_mechanism(self):
        """The mechanism for messages, which must not be missing where the fit had one."""
        if self._message_mechanism is None and self.noise_covariance_:
            raise ValueError(
                "This estimator was fitted under differential privacy and has no mechanism any more to release new "
                "measurements with. Give it one: set_params(privacy=...)."
            )
        return self._message_mechanism

    def _released(self, plant, noise=None):
        """A new record as everything outside the units sees it, and the noise on it."""
        plant, noise = released(self._checked_mechanism(), plant, noise)
        if noise:
            self._store_promise(plant.n_samples)
        return plant, noise

    def _sites(self, plant, watched):
        """Units about a record, for questions or to be `watched` for incidents."""
        plant, noise = self._released(plant)
        return known_units(plant, noise, self._units)

    # -- asking ----------------------------------------------------------------------------------

    @property
    def asked_(self):
        """What functions of :mod:`skfedcausal.inspection` reach of the estimator."""
        return self._asked_kind(**self._ways_in())

    def _ways_in(self):
        at_sites = self._channel is not None
        return {"about": self._asking, "models": self._asking_models, "read": self._read, "at_sites": at_sites}

    def _read_new(self, X, inputs, lengths, *, labels=None, **settings):
        """Plant data to learn from; `labels` in place of the user's."""
        if inputs is not None and not self._has_inputs:
            raise ValueError(
                f"{type(self).__name__} has no inputs: make them sensors, or use FederatedCounterfactualEstimator."
            )
        labels = self.client_labels if labels is None else labels
        plant = read_plant(X, client_labels=labels, inputs=inputs, lengths=lengths, estimator=self, **settings)
        if plant.index is not None:
            warn_of_gaps(plant.index, plant.starts)
        warn_of_copies(plant)
        return plant

    def _read(self, X, inputs=None, lengths=None):
        """Plant data in the layout learned by `fit`, without units that it left out."""
        plant = read_plant(X, inputs=inputs, lengths=lengths, layout=self.layout_, min_samples=1, estimator=self)
        return plant.only(self.client_names_)

    @property
    def _plant_layout(self):
        """The layout without units that `fit` left out."""
        return self.layout_.only(self.client_names_)

    def _seen_by_units(self, plant):
        """The part of a record that units use."""
        return plant

    @contextmanager
    def _asking(self, X, inputs=None, lengths=None, *, watched=False):
        """The units about the record in X, or with None about that of the sites; `watched` for incidents."""
        if not hasattr(self, "layout_"):
            check_is_fitted(self)  # takes as long as to read a short record
        self._check_rows()
        if X is None:
            yield self._sites_asked(inputs, lengths)
            return
        if self._channel is not None:
            raise ValueError(
                f"This {type(self).__name__} learned from sites, which hold their records and models: ask with None in "
                "place of X about those, or `fit` to records in this process."
            )
        with self._asking_about(self._read(X, inputs, lengths), watched) as asked:
            yield asked

    @contextmanager
    def _asking_about(self, plant, watched=False):
        """The units about a record that was read."""
        self._check_units(plant.names)
        known = without_silent(self._seen_by_units(plant), self._units)
        sites = self._sites(known, watched)
        about = {"names": plant.names, "lost_units": self.lost_units}
        with closing(self._exchange(self._transport(sites), self.ledger_, **about)) as exchange:
            exchange.settle(plant.names)
            exchange.expect(self._state_sizes, known.input_sizes, plant.lengths)
            yield self._queried(exchange, plant.lengths, plant.index, plant.inputs)

    @contextmanager
    def _asking_models(self):
        """The units about what they learned, whatever record that was."""
        check_is_fitted(self)
        if self._channel is not None:
            yield self._sites_asked(None, None)
            return
        self._check_units(self.client_names_)
        sites = units_alone(self._units, self._plant_layout)
        with closing(self._exchange(self._transport(sites), self.ledger_)) as exchange:
            yield self._queried(exchange)

    def _queried(self, exchange, *record):
        return QueriedUnits(exchange, self._plant_layout, self.state_slices_, *record)

    def _check_rows(self):
        """Refuse what is about rows after a fit from sums."""
        if getattr(getattr(self, "server_", None), "dealer", None) is not None:
            raise ValueError(
                f"This {type(self).__name__} learned from secure sums, and units send nothing else: ask for `links_`, "
                "`inspection.link_intervals` or `inspection.spectrum`. What is about rows needs a fit with a "
                "LikelihoodServer."
            )

    def _sites_asked(self, inputs, lengths):
        if self._channel is None:
            raise ValueError(
                f"{type(self).__name__}.fit keeps no record: give X. Only after `fit_sites` does None stand for the "
                "record that the sites hold."
            )
        if inputs is not None or lengths is not None:
            raise ValueError("`inputs` and `lengths` belong to a record X; sites have their own.")
        if self._channel.one_way:
            raise ValueError("Nothing can be asked over a one-way link; fit over one with a way back.")
        return self._queried(self._channel, self._channel.lengths)

    @property
    def _state_sizes(self):
        """States of each unit."""
        return {name: rows.stop - rows.start for name, rows in self.state_slices_.items()}

    def _check_units(self, names):
        missing = [name for name in names if name not in self._units]
        if missing:
            raise NotFittedError(
                f"The model of unit {missing[0]!r} was fitted at its site and is kept there: this estimator has the "
                "plant, but cannot read that unit's measurements."
            )

    def score_samples(self, X: Record | None = None, *, inputs: Inputs = None, lengths: Lengths = None) -> np.ndarray:
        """Log-density of all measurements at each time step given the past.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
        inputs : list or dict, default=None
            As in `fit`.
        lengths : sequence of int, default=None

        Returns
        -------
        ndarray of shape (n_samples,)
            In nats; it depends on the units of the sensors. Exact for missing measurements; of what the others
            measured where a rule for lost units (`lost_units`) lets a late unit be left out, which a warning names.
        """
        with self._asking(X, inputs, lengths) as units:
            messages = units.messages_there(partial(self._silent, const=True), const=True)
            return self.server_.filter(messages).log_likelihood()

    def _silent(self, name, lengths, const=False):
        """What stands in for a late unit, whose inputs are taken to be at their level."""
        own = getattr(self.server_, "input_slices_", {}).get(name, slice(0, 0))
        U = np.tile(self.server_.input_level_[own], (sum(lengths), 1)) if own.stop > own.start else None
        return StateMessage.silent(self._state_sizes[name], lengths, U, const)

    # -- tables ----------------------------------------------------------------------------------

    @property
    def get_feature_names_out(self) -> Callable[..., np.ndarray]:
        """Function by which scikit-learn names the columns of `transform`."""
        return self._names_out

    def _predicted(self, units, answers):
        """Measurements of all units as an array, or a frame when `set_output` asks for one."""
        table, columns = units.measured(answers)
        return self._framed(table, columns, units.index)

    def _framed(self, table, columns, index):
        """Numbers of all units' sensors as an array, or a frame when `set_output` asks for one."""
        container = _get_output_config("transform", self)["dense"]
        if container == "default":
            return table
        frame = pd.DataFrame(table, columns=list(columns), index=index)
        if container == "polars":
            import polars

            return polars.DataFrame({name: frame[name].to_numpy() for name in frame})
        return frame
