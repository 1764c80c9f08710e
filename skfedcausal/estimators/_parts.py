"""What every estimator has around its fit: parts by name, attributes, a way to be asked, progress, promises."""

import logging
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from inspect import isfunction
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import joblib
import numpy as np
import pandas as pd

from ..arguments import Server, checked
from ..bases import BaseEstimator, settings_by_name
from ..client.augmenter import LinearAugmenter
from ..client.kalman import KalmanClient
from ..containers import PlantLayout
from ..containers.arrays import listed
from ..federation.ledger import Ledger, StreamLedger
from ..privacy import Charge, GaussianMechanism, PrivacyAccountant, PrivacyMechanism, PrivacySpent, Scope
from ..privacy.promise import NOT_PRIVATE
from ..server.likelihood import LikelihoodServer

# Parts of an estimator that answer before anybody gave them: parameters by name, and a picture that shows them.


class DefaultParts(BaseEstimator):
    """Lets an estimator whose parts are None list and set the parameters of what None stands for.

    The part itself is put in by the first ``set_params(part__name=...)``, so that an estimator of which nothing was set
    stays the one that it was.
    """

    _default_server: Any = LikelihoodServer
    _server_settings: dict = {}  # of the default server

    def __init_subclass__(cls, **settings):
        super().__init_subclass__(**settings)
        for name, question in list(vars(cls).items()):
            if isfunction(question) and not name.startswith("_"):
                setattr(cls, name, checked(question))

    @classmethod
    def _default_parts(cls):
        """What None stands for, by the name of the parameter."""
        server = cls._default_server(**cls._server_settings)
        return {"client": KalmanClient(), "augmenter": LinearAugmenter(), "server": server}

    def _parts(self):
        """The parts as they are, or those that None stands for."""
        own = {name: getattr(self, name) for name in ("client", "augmenter", "server", "privacy")}
        return own | {name: part for name, part in self._default_parts().items() if own[name] is None}

    def get_params(self, deep=True):
        """Parameters by name, and with `deep` those of the parts, ``part__name``.

        Parameters
        ----------
        deep : bool, default=True
            Also of parts that None stands for: client, augmenter and server.

        Returns
        -------
        dict
        """
        params = super().get_params(deep=deep)
        if deep:
            for name, part in self._default_parts().items():
                if params[name] is None:
                    params |= {f"{name}__{key}": value for key, value in part.get_params().items()}
        return params

    def set_params(self, **params):
        """Set parameters by name, those of a part by ``part__name``.

        Parameters
        ----------
        **params : dict
            A part that is None is put in first, as what None stands for.

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            If there is no such parameter, or it is one of `privacy`, which is off.

        Examples
        --------
        >>> from skfedcausal import FederatedGrangerEstimator
        >>> FederatedGrangerEstimator().set_params(client__n_states=2).client
        KalmanClient(n_states=2)
        """
        nested: dict[str, dict] = {}
        for name in [name for name in params if "__" in name]:
            owner, _, own = name.partition("__")
            nested.setdefault(owner, {})[own] = params.pop(name)
        super().set_params(**params)
        defaults = self._default_parts()
        for owner, settings in nested.items():
            if getattr(self, owner, "") is not None:
                super().set_params(**{f"{owner}__{name}": value for name, value in settings.items()})
            elif owner in defaults:
                super().set_params(**{owner: defaults[owner].set_params(**settings)})
            else:
                example = "GaussianMechanism(...)" if owner == "privacy" else "..."
                raise ValueError(
                    f"{type(self).__name__} has no `{owner}` to set {listed(settings)} of: it is off by default, "
                    f"switch it on with {owner}={example}."
                )
        return self

    def _sk_visual_block_(self):
        """The parts side by side, where scikit-learn draws the estimator."""
        parts = {name: part for name, part in self._parts().items() if hasattr(part, "get_params")}
        return SimpleNamespace(
            kind="parallel",
            estimators=list(parts.values()),
            names=[f"{name}: {type(part).__name__}" for name, part in parts.items()],
            name_details=[str(part) for part in parts.values()],
            dash_wrapped=True,
        )


# What estimators have after a fit, for who reads them and for type checkers; their docstrings say what it is.


class LearnedPlant:
    """Attributes of every fitted estimator."""

    transport: Any  # as set in `communication`, as the next three
    wire_dtype: str
    lost_units: Any
    max_bytes: int | None
    _names_out: Any
    client_names_: tuple[str, ...]
    transition_: np.ndarray
    lag_transitions_: np.ndarray
    process_cov_: np.ndarray
    state_slices_: dict[str, slice]
    clients_: dict[str, Any]
    augmenters_: dict[str, Any]
    server_: Server
    communication_: dict[str, Any]
    ledger_: Ledger
    lost_units_: pd.DataFrame
    privacy_spent_: PrivacySpent
    privacy_ledger_: pd.DataFrame
    privacy_statement_: str
    noise_covariance_: dict[str, np.ndarray]
    layout_: PlantLayout
    n_features_in_: int
    feature_names_in_: np.ndarray
    _store_fit: Any  # what a subclass keeps of a fit
    _init_callback_context: Any  # of scikit-learn


class LearnedInputs:
    """Attributes of a fitted estimator with inputs."""

    missing: str  # as set in `input_model`, as the next three
    basis: Any
    instruments: Any
    input_: np.ndarray
    lag_inputs_: np.ndarray
    input_at_once_: np.ndarray
    input_slices_: dict[str, slice]
    input_names_: tuple[str, ...]
    input_levels_: dict[str, tuple[str, ...]]
    shared_inputs_: dict[str, tuple[str, ...]]
    excitation_: pd.DataFrame
    feedback_: pd.DataFrame | None
    hidden_causes_: pd.DataFrame | None
    engine_: Literal["plant", "responses"]


class LearnedWatch:
    """Attributes of a fitted detector."""

    signs: str  # as set in `evidence`, as the next four
    statistic: str
    prior: Any
    percentile: float
    n_steps: int
    mode: Any  # as set in `baseline`, as the next one
    levels: Any
    _root_cause: Any  # `RootCauseServer` of the plant
    _watch: Any  # this one, or a `FlagWatch`
    _period: Any
    fit: Any
    transform: Any
    thresholds_: dict[str, float]
    false_alarms_: dict[str, Any]
    input_ranges_: dict[str, tuple[float, float]]
    stream_ledger_: StreamLedger


# What to call in place of methods that the estimators had in 0.1.

_ROOMS = {
    ("PlantEstimator", "inspection"): (
        "benefit", "bootstrap_links", "changed_links", "link_effects", "link_intervals", "links_over_time", "oracle",
        "oracle_gap", "partial_fit_sites", "privacy_curve", "renew", "spectrum", "stable_links", "to_networkx",
        "validity_display",
    ),
    ("PlantEstimator", "papers"): ("losses", "training_problems"),
    ("InputQuestions", "inspection"): (
        "aggregate_counterfactual", "dose_response", "experiment", "frequency_response", "gain_table", "reach",
        "sensitivity", "step_response",
    ),
    ("WatchingDetector", "inspection"): (
        "acknowledge", "flags", "follow_sites", "rebaseline", "tag_trend", "tags", "watch_sites",
    ),
}  # fmt: skip
MOVED = {
    name: (owner, f"skfedcausal.{room}.{name}(est, ...)") for (owner, room), names in _ROOMS.items() for name in names
}
MOVED["fit_predict"] = "WatchingDetector", "fit(X).predict(X)"
MOVED["reader_"] = "WatchingDetector", "asked_"


def moved(cls, name):
    """Where a method of a class went, None of others."""
    owner, call = MOVED.get(name, (None, None))
    if owner in (base.__name__ for base in cls.__mro__):
        return f"{cls.__name__}.{name} moved in 0.2: {call}"
    return None


# What an estimator hands out to functions that ask it, so that they reach nothing else of it.


class Asked(SimpleNamespace):
    """What functions of `skfedcausal.inspection` reach of any estimator.

    `about` a record, or with None that of the sites, and `models`, what units learned, are context managers of
    :class:`~skfedcausal.estimators._base.QueriedUnits`; `read` gives a record in the layout of `fit`; `at_sites`
    says whether the plant was learned from sites.
    """


class AskedPlant(Asked):
    """The same of an estimator of a plant.

    `check_rows` refuses what is about rows after a fit from sums. `learned_from` fits another estimator to a record
    that was read, `next_batches` and `renew` go on with a plant that is learned batch by batch, and `keep_benefit`
    takes a table that the estimator is to show. `row_time` is the time from row to row, None where nobody told it,
    `undecidable` names units of which added noise may hide states, and `acting` the attributes that hold what acts on
    the states.
    """


class AskedInputs(AskedPlant):
    """The same where inputs were learned, whose `effects` are asked for."""


class AskedWatch(Asked):
    """The same of a detector.

    `stream` and `follow` are about the stream it follows, `evidence` about what units send, `kept` and `layout` about
    what units in this process keep. `coded` gives a record, and inputs beside it, with codes in place of modes;
    `levels_and_times` and `incidents_and_levels` are what pages show, and `n_levels` counts the nominal levels.
    """


# Progress of a fit: scikit-learn's callbacks where there are any, and the log.

_Method = TypeVar("_Method", bound=Callable[..., Any])


class _NoCallbacks:
    """Estimators have no callbacks in versions of scikit-learn before 1.9."""


def _as_it_is(method: _Method) -> _Method:
    """The method as it is."""
    return method


if TYPE_CHECKING:
    from typing import TypeAlias

    CallbackSupportMixin: TypeAlias = _NoCallbacks
    with_callbacks = _as_it_is
else:
    try:
        from sklearn.callback import CallbackSupportMixin, with_callbacks
    except ImportError:
        CallbackSupportMixin, with_callbacks = _NoCallbacks, _as_it_is

__all__ = ["CallbackSupportMixin", "followed", "with_callbacks", "written_out"]


@contextmanager
def written_out():
    """Send the package's log to standard error for a while."""
    log, handler = logging.getLogger("skfedcausal"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
    level = log.level
    log.addHandler(handler)
    log.setLevel(min(log.getEffectiveLevel(), logging.INFO))
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


@contextmanager
def followed(estimator, root):
    """Tell an estimator's callbacks of its fit, whose context is `root`; gives what tells them of an exchange."""
    root.call_on_fit_task_begin(estimator=estimator)

    @contextmanager
    def follow(operation):
        task = root.subcontext(task_name=operation)
        task.call_on_fit_task_begin(estimator=estimator)
        yield
        task.call_on_fit_task_end(estimator=estimator)

    yield follow
    root.call_on_fit_task_end(estimator=estimator)


# Differential privacy of an estimator: its promise, or those that sites tell of.

NAMED_SENSORS = (
    " Sensors that units share were sent as measured, at most two per unit (the packets 'sensor states' of `ledger_`)."
)
# spent, ledger and statement where nothing is promised
NO_PROMISE = (PrivacySpent(np.inf, 0.0, np.inf, "none"), PrivacyAccountant().table, NOT_PRIVATE)

_TOLD = ("mu", "delta", "clip_norm", "event_radius")  # settings that sites tell
_NOT_OF_THE_PROMISE = {"accountant", "random_state", "sampler"}


def mechanisms(privacy):
    """The mechanism for messages and the one for flags among those given, None where there is none."""
    given = privacy if isinstance(privacy, list | tuple) else [privacy]
    given = [mechanism for mechanism in given if mechanism is not None]
    for mechanism in given:
        if not isinstance(mechanism, PrivacyMechanism):
            raise ValueError(
                f"privacy holds a {type(mechanism).__name__}, which is not a PrivacyMechanism. Give a "
                "GaussianMechanism, or derive the class from PrivacyMechanism."
            )
    flags = [mechanism for mechanism in given if mechanism.place == "flags"]
    messages = [mechanism for mechanism in given if mechanism.place != "flags"]
    if len(flags) > 1 or len(messages) > 1:
        names = ", ".join(type(mechanism).__name__ for mechanism in given)
        raise ValueError(
            f"Got privacy=[{names}]; a list may hold one mechanism for the messages, such as a "
            "GaussianMechanism, and one for the flags, such as a RandomizedResponse."
        )
    return messages[0] if messages else None, flags[0] if flags else None


def promise(mechanism, names, n_samples):
    """What has been spent on a record's units, the ledger behind it, the promise in words."""
    if mechanism is None:
        return NO_PROMISE
    spent = mechanism.account.spent(getattr(mechanism, "delta", None), names)
    spent = replace(spent, unit=mechanism.scope.unit)  # also before anything was charged
    return spent, mechanism.account.table, mechanism.statement(spent, names, n_samples)


def checked_watch(privacy, evidence, server):
    """The mechanism for messages of a watch; what would protect nothing is refused before anything is spent."""
    messages, flags = mechanisms(privacy)
    if flags is not None and evidence != "flags":
        raise ValueError(
            f"RandomizedResponse answers with flags, but evidence={evidence!r} sends states. Give "
            'evidence="flags", or a GaussianMechanism.'
        )
    trains = messages is not None and getattr(server, "trains_corrections", False)
    if messages is not None and messages.place != "record" and not (trains and messages.place == "gradients"):
        raise ValueError(
            f"This mechanism adds its noise to the {messages.place} of gradient training, which this "
            "detector does not have. Give one with protocol='one-shot' and trust='none'; trust='server' goes with "
            "server=RegressorServer(labels='augmented')."
        )
    return messages


def watch_promise(privacy, names, n_samples):
    """As :func:`promise`, of what may protect messages, flags or both."""
    messages, flags = mechanisms(privacy)
    spent, table, words = promise(flags if messages is None else messages, names, n_samples)
    if flags is not None:
        of_flags = flags.statement(flags.account.spent(clients=names), names, n_samples)
        of_messages = "Not differentially private as to the nominal record, which was sent without noise."
        if messages is not None:
            of_messages = messages.statement(spent, names, n_samples, "all but flags")
        words = f"{of_messages} Flags of watched records: {of_flags}"
        if of_flags.startswith("NOT PRIVATE"):
            words, spent = f"{of_flags} {of_messages}", replace(spent, epsilon=np.inf)
    return spent, table, words


def promise_key(mechanism):
    """What a mechanism promises, as one word; None without one."""
    if mechanism is None:
        return None
    settings = settings_by_name(mechanism)
    return joblib.hash({k: v for k, v in settings.items() if k not in _NOT_OF_THE_PROMISE})


def told_promise(promises, names):
    """What the sites say has been spent, and what they promise."""
    known = {name: _account(name, promises[name]) for name in names if name in promises}
    spent = {name: account.spent(promises[name].delta) for name, account in known.items()}
    every = {name: spent.get(name, NO_PROMISE[0]) for name in names}
    worst = max(every.values(), key=lambda one: (one.epsilon, one.mu))
    units = {one.unit for one in every.values()}
    per_client = {name: {"epsilon": one.epsilon, "mu": one.mu} for name, one in every.items()}
    worst = replace(worst, unit=units.pop() if len(units) == 1 else "mixed", per_client=per_client)
    if not known:
        return worst, *NO_PROMISE[1:]
    table = pd.concat([account.table for account in known.values()], ignore_index=True)
    statements: dict[str, list[str]] = {}
    for name in names:
        words = NOT_PRIVATE
        if name in known:
            told = promises[name]
            own = {setting: getattr(told, setting) for setting in _TOLD}
            mechanism = GaussianMechanism(**own, protects=_scope(told), accountant=known[name])
            words = mechanism.statement(spent[name], [name], told.rows, drawn=False)
        statements.setdefault(words, []).append(name)
    words = " ".join(f"{', '.join(units)}: {text}" for text, units in statements.items())
    return worst, table, f"According to the accounts of the sites. {words}"


def _account(name, promise):
    """An account with the releases that a site says it made."""
    account = PrivacyAccountant()
    mu = promise.mu / promise.releases**0.5  # as if all had been alike: their sum is what was told
    account.charge([Charge(name, "measurement", mu=mu, count=promise.releases)], _scope(promise))
    return account


def _scope(promise):
    """What a site promises to protect."""
    return Scope(promise.unit, promise.relation, promise.window)


def unaccounted(privacy):
    """The same mechanisms with accounts of their own, for what is tried out and thrown away."""
    if isinstance(privacy, list | tuple):
        return [unaccounted(one) for one in privacy]
    if privacy is None:
        return None
    own = privacy.get_params(deep=False)  # one that takes no accountant has an account of its own
    return type(privacy)(**own | ({"accountant": PrivacyAccountant()} if "accountant" in own else {}))
