"""Promises in words."""

import numpy as np

from .calibration import epsilon_from_mu

NOT_PRIVATE = (
    "Not differentially private: no noise was added. The messages are data-minimising, they hold states and "
    "no raw measurements, but what can be concluded from them has no bound."
)

_NOT_COVERED = (
    "Not covered: names, number of columns and rows, which values are missing, inputs, matrices given to the "
    "units' clients, settings chosen by looking at the data, and what a unit computes from its raw record "
    "for itself (predictions with model='client' or 'augmented', warnings, timing)."
)


def gaussian_statement(mechanism, spent, account, names, n_samples, left="everything"):
    """Unit, relation, bound, composition, what is not covered."""
    charges = account.table
    leaks = charges[charges["client"].isin(names) & (charges["bound"] != "public")]
    if len(leaks):
        where = ", ".join(dict.fromkeys(leaks["client"]))
        return (
            f"NOT PRIVATE: clip_norm was taken from the data of {where}, so the noise bounds nothing. Give "
            "a public clip_norm."
        )
    what = {
        "event": "all measurements of one unit at one time step",
        "window": f"all measurements of one unit at {mechanism.window} consecutive time steps",
        "client": "all measurements of one unit at all time steps",
    }[mechanism.unit]
    changed = "having other values" if mechanism.relation == "replace" else "being replaced by `center`"
    mine = charges[charges["client"].isin(names)]
    promise = f"mu = {spent.mu:.4g} (Gaussian differential privacy)"
    if np.isfinite(spent.epsilon):
        promise = f"epsilon = {spent.epsilon:.4g}, delta = {spent.delta:.3g} (mu = {spent.mu:.4g})"
    return (
        f"Differentially private per {mechanism.scope}: {what} {changed}, {_bound(mechanism)}, changes the "
        f"distribution of {left} that left the units and of everything computed from it by at most "
        f"{promise}. Exact composition of {_releases(mine)} per unit. Protects against the server and the "
        f"other units together.{_whole_series(mechanism, spent, n_samples)} {_NOT_COVERED}"
    )


def _bound(mechanism):
    ball = f"clipped to the public radius {_shown(mechanism.clip_norm)}"
    if mechanism.event_radius is None:
        return f"each {ball}"
    return f"each by at most {_shown(mechanism.event_radius)} (larger changes are protected less) and {ball}"


def _shown(value):
    return f"{value:.4g}" if np.isscalar(value) else ", ".join(f"{v:.4g} ({k})" for k, v in value.items())


def _releases(charges):
    most = int(charges.groupby("client")["count"].sum().max())
    return "one release" if most == 1 else f"{most} releases"


def _whole_series(mechanism, spent, n_samples):
    """What the promise means for a unit's whole record: seldom anything."""
    if mechanism.unit == "client" or spent.delta == 0:
        return ""
    steps = n_samples if mechanism.unit == "event" else int(np.ceil(n_samples / mechanism.window))
    epsilon = epsilon_from_mu(spent.mu * np.sqrt(steps), spent.delta)
    return f" A unit's whole record of {n_samples} time steps is protected only to epsilon = {epsilon:.3g}."


def response_statement(mechanism, spent):
    """Unit, bound, composition, what is not covered."""
    what = {
        "flag pair": "The pair of flags of one unit at one time step",
        "event": "All measurements of one unit at one time step (through every flag they can move)",
    }[mechanism.unit]
    return (
        f"Differentially private per {mechanism.scope}: {what}, having other values, changes the "
        f"distribution of the flags that left the units by at most epsilon = {spent.epsilon:.4g}, delta = "
        f"{spent.delta:.3g}. Exact composition of 4-ary randomised responses. Not covered: training "
        "messages, and thresholds, means and covariances behind the flags unless they are public."
    )
