"""Promises in words."""

from collections import Counter
from collections.abc import Mapping

import numpy as np

from .voids import WORDS, reasons

NOT_PRIVATE: str = WORDS["not_private"]


def record_statement(scope, spent, whole, charges, n_samples, clip_norm=None, event_radius=None, left="everything"):
    """Promise about units whose records got noise: unit, relation, bound, composition, what is not covered.

    `whole_epsilon` is that of all protected units of a record together at ``spent.delta``, `charges` are
    those behind `spent`, `left` says what of all that left the units the promise is about.
    """
    if void := void_statement(charges):
        return void
    steps = {"event": "one time step", "window": f"{scope.window} consecutive time steps"}
    most, more = n_releases(charges), ""
    if scope.unit != "client" and spent.delta > 0:  # seldom anything
        more = f" A unit's whole record of {n_samples} time steps is protected only to epsilon = {whole:.3g}."
    return WORDS["record"].format(
        scope=scope,
        steps=steps.get(scope.unit, "all time steps"),
        changed="having other values" if scope.relation == "replace" else "being replaced by `center`",
        bound=_bound(clip_norm, event_radius),
        left=left,
        loss=_loss(spent),
        releases="one release" if most == 1 else f"{most} releases",
        more=more,
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
    return "".join(f" {WORDS['samplers'][sampler]}" for sampler in samplers if sampler in WORDS["samplers"])


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
    added = 2 * rounds * mechanism.epsilon
    words = WORDS["paper"].format(mechanism=mechanism, spent=spent, rounds=rounds, added=added)
    return f"{words} Besides, {why}" if why else words


def gradient_statement(mechanism, spent):
    """Promise of noise on a trusted server's gradients, and to whom."""
    return WORDS["gradient"].format(mechanism=mechanism, loss=_loss(spent))


def response_statement(mechanism, spent):
    """Promise of randomised response: unit, bound, composition, what is not covered."""
    return WORDS["response"].format(mechanism=mechanism, spent=spent, what=WORDS["responses"][mechanism.unit])


def _loss(spent):
    if not np.isfinite(spent.epsilon):
        return f"mu = {spent.mu:.4g} (Gaussian differential privacy)"
    gaussian = f" (mu = {spent.mu:.4g})" if spent.mu > 0 else ""
    return f"epsilon = {spent.epsilon:.4g}, delta = {spent.delta:.3g}{gaussian}"


def _shown(value):
    by_unit = isinstance(value, Mapping)
    return ", ".join(f"{v:.4g} ({k})" for k, v in value.items()) if by_unit else f"{value:.4g}"
