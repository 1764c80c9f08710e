"""Promises in words."""

import numpy as np

from .calibration import epsilon_from_mu

NOT_PRIVATE = (
    "Not differentially private: no noise was added. The messages are data-minimising, they hold states and "
    "no raw measurements, but what can be concluded from them has no bound."
)

_PUBLIC = (
    "names, number of columns and rows, which values are missing, inputs, matrices given to the units' "
    "clients, settings chosen by looking at the data"
)
_NOT_COVERED = (
    f"Not covered: {_PUBLIC}, and what a unit computes from its raw record for itself (predictions with "
    "model='client' or 'augmented', warnings, timing)."
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


def paper_statement(mechanism, spent, account, names):
    """What the papers state about their protocol, and what is known of it."""
    charges = account.table
    runs = charges[charges["client"].isin(names)].groupby("client")["count"].sum()
    rounds = int(runs.max()) if len(runs) else 0
    return (
        "NO GUARANTEE (protocol='paper', for comparison): every state that left a unit has the papers' "
        f"noise for epsilon = {mechanism.epsilon:.4g}, delta = {mechanism.delta:.3g}, calibrated for one "
        f"message of one time step. Added up as the papers do, {rounds} rounds of two messages make epsilon "
        f"= {2 * rounds * mechanism.epsilon:.4g}. A measurement moves all later states: composed exactly, "
        f"having other values at one time step changes the distribution of all messages by at most epsilon = "
        f"{spent.epsilon:.4g} at delta = {spent.delta:.3g} (mu = {spent.mu:.4g}) if the corrections theta "
        "were public. They are trained on the raw record, and what they reveal has no known bound."
    )


def gradient_statement(mechanism, spent):
    """What noise on a trusted server's gradients promises, and to whom."""
    promise = f"mu = {spent.mu:.4g} (Gaussian differential privacy)"
    if np.isfinite(spent.epsilon):
        promise = f"epsilon = {spent.epsilon:.4g}, delta = {spent.delta:.3g} (mu = {spent.mu:.4g})"
    return (
        f"Differentially private per {mechanism.scope} against the other units: whatever changes in one "
        "unit's record, the distribution of all gradients that the units were sent in training changes by "
        f"at most {promise}. Every gradient about one time step is clipped to norm "
        f"{mechanism.gradient_clip:.4g}. Nothing is hidden from the server, which gets the units' states "
        "without noise, nor from whoever sees what it learned (transition_, links_, its losses) or its "
        f"answers about other records. Not covered either: {_PUBLIC}, and in which round training diverged, "
        "should it."
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
