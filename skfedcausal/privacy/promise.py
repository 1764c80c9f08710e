"""Promises in words."""

from collections import Counter
from collections.abc import Mapping

import numpy as np

from .voids import reasons

NOT_PRIVATE = (
    "Not differentially private: no noise was added. The messages are data-minimising, they hold states and "
    "no raw measurements, but what can be concluded from them has no bound."
)

_PUBLIC = (
    "names, number of columns and rows, which values are missing, inputs, matrices given to the units' "
    "clients, settings chosen by looking at the data"
)
_SAMPLED = {
    "opendp": "The noise is an exact discrete Gaussian (sampler 'opendp').",
    "float-grid": (
        "The noise was drawn in floating point by the generator PCG64 and rounded to a grid (sampler 'float-grid'), "
        "which is no proof against whoever knows nearly all rows; sampler='opendp' is exact."
    ),
}
_ACCOUNTS = "Releases of the same data by other accounts add to it."
_NOT_COVERED = f"Not covered: {_PUBLIC}, and what shows of a unit's raw record without a message (warnings, timing)."


def record_statement(scope, spent, whole, charges, n_samples, clip_norm=None, event_radius=None, left="everything"):
    """Promise about units whose records got noise: unit, relation, bound, composition, what is not covered.

    `whole_epsilon` is that of all protected units of a record together at ``spent.delta``, `charges` are
    those behind `spent`, `left` says what of all that left the units the promise is about.
    """
    if void := void_statement(charges):
        return void
    steps = {"event": "one time step", "window": f"{scope.window} consecutive time steps"}
    changed = "having other values" if scope.relation == "replace" else "being replaced by `center`"
    most = n_releases(charges)
    releases = "one release" if most == 1 else f"{most} releases"
    more = ""
    if scope.unit != "client" and spent.delta > 0:  # seldom anything
        more = f" A unit's whole record of {n_samples} time steps is protected only to epsilon = {whole:.3g}."
    return (
        f"Differentially private per {scope}: all measurements of one unit at "
        f"{steps.get(scope.unit, 'all time steps')} {changed}, {_bound(clip_norm, event_radius)}, changes "
        f"the distribution of {left} that left the units and of everything computed from it by at most "
        f"{_loss(spent)}. Exact composition of {releases} per unit. Protects against the server and the "
        f"other units together.{more} {_ACCOUNTS} {_NOT_COVERED}"
    )


def void_statement(charges):
    """Why releases promise nothing; empty where they do."""
    why = reasons(charges)
    return f"NOT PRIVATE: {why}" if why else ""


def with_voids(charges, promise):
    """A promise, or why it does not hold and what it would be."""
    void = void_statement(charges)
    return f"{void} Without that it would be: {promise}" if void else promise


def sampled(charges):
    """How the noise was drawn, as far as that is known."""
    samplers = dict.fromkeys(charge.sampler for charge in charges if charge.sampler)
    return "".join(f" {_SAMPLED[sampler]}" for sampler in samplers if sampler in _SAMPLED)


def _bound(clip_norm, event_radius):
    ball = "clipped to a public ball"
    if clip_norm is not None:
        ball = f"clipped to the public radius {_shown(clip_norm)}"
    if event_radius is None:
        return f"each {ball}"
    return f"each by at most {_shown(event_radius)} (larger changes are protected less) and {ball}"


def n_releases(charges):
    """Releases of the unit that has most."""
    counts: Counter = Counter()
    for charge in charges:
        counts[charge.client] += charge.count
    return max(counts.values(), default=0)


def paper_statement(mechanism, spent, names):
    """Statement of the papers about their protocol, and what is known of it."""
    charges = mechanism.account.charges_of(names)
    why, rounds = reasons(charges), n_releases(charges)
    return (
        "NO GUARANTEE (protocol='paper', for comparison): every state that left a unit has the papers' "
        f"noise for epsilon = {mechanism.epsilon:.4g}, delta = {mechanism.delta:.3g}, calibrated for one "
        f"message of one time step. Added up as the papers do, {rounds} rounds of two messages make epsilon "
        f"= {2 * rounds * mechanism.epsilon:.4g}. A measurement moves all later states: composed exactly, "
        f"having other values at one time step changes the distribution of all messages by at most epsilon = "
        f"{spent.epsilon:.4g} at delta = {spent.delta:.3g} (mu = {spent.mu:.4g}) if the corrections theta "
        "were public. They are trained on the raw record, and what they reveal has no known bound."
        + (f" Besides, {why}" if why else "")
    )


def gradient_statement(mechanism, spent):
    """Promise of noise on a trusted server's gradients, and to whom."""
    return (
        f"Differentially private per {mechanism.scope} against the other units: whatever changes in one unit's record, "
        f"the distribution of all gradients that the units were sent in training changes by at most {_loss(spent)}. "
        f"Every gradient about one time step is clipped to norm {mechanism.gradient_clip:.4g}. Nothing is hidden from "
        "the server, which gets the units' states without noise, nor from whoever sees what it learned (transition_, "
        f"links_, its losses) or its answers about other records. Not covered either: {_PUBLIC}, and in which round "
        "training diverged, should it."
    )


def response_statement(mechanism, spent):
    """Promise of randomised response: unit, bound, composition, what is not covered."""
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


def _loss(spent):
    if not np.isfinite(spent.epsilon):
        return f"mu = {spent.mu:.4g} (Gaussian differential privacy)"
    gaussian = f" (mu = {spent.mu:.4g})" if spent.mu > 0 else ""
    return f"epsilon = {spent.epsilon:.4g}, delta = {spent.delta:.3g}{gaussian}"


def _shown(value):
    if isinstance(value, Mapping):
        return ", ".join(f"{v:.4g} ({k})" for k, v in value.items())
    return f"{value:.4g}"
