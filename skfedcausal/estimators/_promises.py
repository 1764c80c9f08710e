"""Differential privacy of an estimator: its promise, or those that sites tell of, and what a budget buys."""

import warnings
from dataclasses import replace
from typing import NamedTuple

import joblib
import numpy as np
import pandas as pd
from sklearn import config_context
from sklearn.base import clone
from sklearn.utils import check_random_state

from ..callers import warn
from ..privacy import (
    Charge,
    GaussianMechanism,
    PrivacyAccountant,
    PrivacyMechanism,
    PrivacySpent,
    Scope,
    UtilityWarning,
)
from ..privacy.errors import largest_deviation
from ..privacy.promise import NOT_PRIVATE

NAMED_SENSORS = (
    " Sensors that units share were told as they are, two of a unit at most (the packets 'sensor states' of `ledger_`)."
)
# spent, ledger and statement where nothing is promised
NO_PROMISE = (PrivacySpent(np.inf, 0.0, np.inf, "none"), PrivacyAccountant().table, NOT_PRIVATE)

_TOLD = ("mu", "delta", "clip_norm", "event_radius", "unit", "relation", "window")  # settings that sites tell
_NOT_OF_THE_PROMISE = {"accountant", "random_state", "sampler"}
_KEPT = 0.5  # share of the links that a useful budget keeps, and of its own links that are right
LEVEL = 0.05


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
    settings = mechanism.get_params(deep=False)
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
            mechanism = GaussianMechanism(**{k: getattr(told, k) for k in _TOLD}, accountant=known[name])
            words = mechanism.promised(spent[name], [name], told.rows)
        statements.setdefault(words, []).append(name)
    words = " ".join(f"{', '.join(units)}: {text}" for text, units in statements.items())
    return worst, table, f"According to the accounts of the sites. {words}"


def _account(name, promise):
    """An account with the releases that a site says it made."""
    account = PrivacyAccountant()
    mu = promise.mu / promise.releases**0.5  # as if all had been alike: their sum is what was told
    account.charge(
        [Charge(name, "measurement", mu=mu, count=promise.releases)],
        Scope(promise.unit, promise.relation, promise.window),
    )
    return account


def unaccounted(privacy):
    """The same mechanisms with accounts of their own, for what is tried out and thrown away."""
    if isinstance(privacy, list | tuple):
        return [unaccounted(one) for one in privacy]
    if privacy is None:
        return None
    own = privacy.get_params(deep=False)  # one that takes no accountant has an account of its own
    return type(privacy)(**own | ({"accountant": PrivacyAccountant()} if "accountant" in own else {}))


# -- what a budget buys ----------------------------------------------------------------------------


def privacy_curve(estimator, record, epsilons, n_draws, random_state):
    """Table of what is left at each epsilon."""
    mechanism = estimator.privacy
    stated = isinstance(mechanism, PrivacyMechanism) and mechanism.place == "record"
    if not stated or mechanism.delta is None or mechanism.clip_norm is None:
        raise ValueError(
            "privacy_curve varies the epsilon of noise on the record: give a GaussianMechanism with its delta, "
            "clip_norm and event_radius as `privacy`."
        )
    epsilons = np.sort(np.asarray(epsilons, dtype=float).ravel())
    if len(epsilons) == 0 or not (epsilons > 0).all():
        raise ValueError(f"epsilons={epsilons.tolist()}; give at least one, all positive.")
    seeds = check_random_state(random_state).randint(2**31 - 1, size=(len(epsilons), n_draws))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what noise does to a fit is what the table is for
        clear = _outcome(estimator, record, None)
        rows = []
        for epsilon, draws in zip(epsilons, seeds, strict=True):
            twins = [mechanism.trial(epsilon, int(seed)) for seed in draws]
            trials = [_beside(clear, _outcome(estimator, record, twin)) for twin in twins]
            rows.append({"epsilon": epsilon, **pd.DataFrame(trials).mean().to_dict()})
    table = pd.DataFrame(rows)
    table["useful"] = table["forecast_error"] < 1
    if clear.links:
        kept = table["links_kept"] * len(clear.links)
        table["useful"] &= (table["links_kept"] >= _KEPT) & (table["links_added"] <= kept)
    useless = np.flatnonzero(~table["useful"])
    enough = table["epsilon"].iloc[useless.max(initial=-1) + 1 :]  # from the smallest on all are useful
    table.attrs["smallest_useful_epsilon"] = float(enough.min())
    if enough.empty:
        warn(
            f"No epsilon up to {epsilons[-1]:.3g} leaves anything to be learned from this record: fewer than half of "
            "the links would be found, or measurements predicted no better than by their level. Use a longer record, "
            "a smaller event_radius, a tighter clip_norm, or no sharing at all.",
            UtilityWarning,
        )
    return table


class _Outcome(NamedTuple):
    """Links of a fit, its largest noise, and its forecast errors in standard deviations, judged at home."""

    links: set
    noise_to_signal: float
    forecast_error: float


def _outcome(estimator, record, mechanism):
    """Of a copy fitted in this process under a mechanism of its own, judged against the raw record."""
    trial = clone(estimator).set_params(privacy=mechanism, transport=None).fit(**record)
    with config_context(transform_output="default"):
        predicted = trial.set_output(transform="default").predict(**record, model="server")
    measured = type(trial)._read(trial, **record).table()
    found = trial.links_[trial.links_["p_adjusted"] < LEVEL]
    errors, ratios = [], [0.0]
    for name, where in zip(trial.layout_.names, trial.layout_.output_places()[0], strict=True):
        Y, scale = measured[:, where], np.nanstd(measured[:, where], axis=0)
        moving = scale > 0
        errors.append(np.nanmean(((Y - predicted[:, where])[:, moving] / scale[moving]) ** 2))
        if name in trial.noise_covariance_:
            noise = np.diag(trial.noise_covariance_[name]).max()
            ratios.append(np.sqrt(noise) / largest_deviation(Y))
    links = set(zip(found["cause"], found["effect"], found["kind"], strict=True))
    return _Outcome(links, max(ratios), float(np.sqrt(np.mean(errors))))


def _beside(clear, noised):
    """What noise leaves of a fit."""
    return {
        "noise_to_signal": noised.noise_to_signal,
        "links_kept": len(noised.links & clear.links) / len(clear.links) if clear.links else np.nan,
        "links_added": len(noised.links - clear.links),
        "forecast_error": noised.forecast_error,
        "forecast_ratio": noised.forecast_error / clear.forecast_error,
    }
