"""From the client that the user gave to the fitted model of a unit."""

from collections.abc import Mapping
from copy import deepcopy

from sklearn.base import clone

from ..seeding import seeded
from .answers import along
from .black_box import BlackBoxClient, NonlinearClient
from .extended_kalman import ExtendedKalmanClient
from .kalman import KalmanClient
from .records import warn_few_rows


def client_templates(client, names, random_state=None):
    """Template of each unit's model; one that is still to be learned and draws gets the seed."""
    client = KalmanClient() if client is None else client
    if isinstance(client, Mapping):
        if set(client) != set(names):
            raise ValueError(
                f"`client` names {sorted(client)}, the data have the units {sorted(names)}; give one client per unit."
            )
        given = dict(client)
    elif isinstance(client, list | tuple):
        if len(client) != len(names):
            raise ValueError(
                f"Got {len(client)} clients for {len(names)} units ({', '.join(names)}); give one per unit."
            )
        given = dict(zip(names, client, strict=True))
    else:
        given = dict.fromkeys(names, client)
    for name, part in given.items():
        if isinstance(part, ExtendedKalmanClient) and not part.is_fitted:
            given[name] = seeded(part, random_state)
    return given


def check_takes_noise(template, name):
    """Refuse a client that could not take noise of a privacy mechanism into account."""
    extended = isinstance(template, ExtendedKalmanClient) and not template.is_fitted
    if not (extended or isinstance(template, KalmanClient)):
        raise TypeError(
            f"The client of unit {name!r} is a {type(template).__name__}. Only a KalmanClient, or an "
            "ExtendedKalmanClient that is not fitted yet, can be told how much noise a privacy mechanism "
            "added to its measurements; give it the model there."
        )


def watched_client(template):
    """The client without a profile by the clock: what a fault does hour by hour, or slowly, would go with it."""
    is_profiled = isinstance(template, KalmanClient) and template.profile is not None
    return clone(template).set_params(profile=None) if is_profiled else template


def fitted_client(template, Y, U, starts, name, columns, noise=None, index=None):
    """The unit's fitted model: a clone of a KalmanClient, or the unit's own object as it is.

    `Y` (n_samples, n_features), `U` (n_samples, n_inputs) or None; `noise` (n_features,) is the variance of noise that
    was added to `Y` on purpose, None where there is none.
    """
    who = f"unit {name!r}"
    if isinstance(template, KalmanClient):
        client = clone(template)
        client.fit_arrays(Y, U, starts, who, columns, noise, index)
        if client.C is None:
            warn_few_rows(len(Y), len(client.model.C), client.n_states_, who)
        return client
    if noise is not None:
        check_takes_noise(template, name)
        return NonlinearClient(template, who).fit(Y, U, starts, columns).fitted_on(noise)
    if hasattr(template, "filter_moments") and not hasattr(template, "message"):
        behind = NonlinearClient if isinstance(template, ExtendedKalmanClient) else BlackBoxClient
        return behind(template, who).fit(Y, U, starts, columns)
    _check_methods(template, f"The client of {who} is a {type(template).__name__}")
    if not hasattr(template, "fit"):
        return template  # a unit's own model, never fitted by us
    client = clone(template) if hasattr(template, "get_params") else deepcopy(template)
    client.fit(Y, **along(Y, U, starts))
    return client


def _check_methods(template, kind):
    """Refuse an object of the user's that lacks what the model of a unit is asked for."""
    if not hasattr(template, "message"):
        raise TypeError(f"{kind} with neither `message(Y)` nor `filter_moments(Y)`. Give it one, or a KalmanClient.")
    lacking = [method for method in ("filter", "predict", "measurements") if not hasattr(template, method)]
    if lacking:
        raise TypeError(
            f"{kind} with `message`, but without {', '.join(lacking)}. Give it these methods of a "
            "KalmanClient too, or `filter_moments(Y)` instead of all of them."
        )
