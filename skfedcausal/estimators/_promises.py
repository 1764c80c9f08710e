"""Differential privacy of an estimator: its promise, or those that sites tell of."""

from dataclasses import replace

import joblib
import numpy as np
import pandas as pd

from ..parameters import settings_by_name
from ..privacy import Charge, GaussianMechanism, PrivacyAccountant, PrivacyMechanism, PrivacySpent, Scope
from ..privacy.promise import NOT_PRIVATE

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
