"""Errors about promises, and warnings before a unit spends."""

import numpy as np

from ..callers import warn
from .calibration import composed_epsilon, epsilon_from_mu
from .noise import clipped, norms, pieces
from .tuning import TUNING

_WEAK_EPSILON = 10 * (1 + 1e-9)  # rounding aside


class PrivacyBudgetError(ValueError):
    """A release would cost more than the accountant allows; nothing was released."""


class SensitivityUnboundedError(ValueError):
    """One person's or one event's share in a release has no bound, so no noise can hide it."""


class PrivacyLeakWarning(UserWarning):
    """Something was taken from private data that had to be public: the promise does not hold."""


class SeededNoiseWarning(UserWarning):
    """Noise that anybody who knows the seed can subtract."""


class WeakPrivacyWarning(UserWarning):
    """A promise that holds but says little."""


class UtilityWarning(UserWarning):
    """The noise will leave nothing to be learned."""


def warn_release(mechanism, records, plans, learning):
    """Warn about a release that is going to happen: leaks, weak promises, noise that drowns everything.

    `records` are the raw records by unit, `plans` what will be done to them; `learning` tells whether
    something is to be learned from them, which noise may prevent.
    """
    leaking = [name for name, plan in plans.items() if plan.leaks]
    if leaking:
        warn(
            f"clip_norm was taken from the data of {', '.join(leaking)}: it reveals the largest value and "
            "bounds no other record. The result is NOT private. Give a public clip_norm.",
            PrivacyLeakWarning,
        )
    if mechanism.random_state is not None:
        warn_seeded()
    if mechanism.delta is not None:
        _warn_weak(mechanism, plans, [len(Y) for Y in records.values()])
    if learning:
        for name, plan in plans.items():
            _warn_useless(mechanism, name, records[name], plan)


def warn_seeded():
    """Warn about noise that is reproducible."""
    warn("The noise is seeded: whoever knows random_state can subtract it. Use None outside tests.", SeededNoiseWarning)


def warn_weak_epsilon(epsilon, unit):
    """Warn about a promise that says little."""
    if epsilon > _WEAK_EPSILON:
        warn(
            f"epsilon = {epsilon:.3g} lets the odds of any conclusion about one protected {unit} change by a "
            f"factor of {np.exp(min(epsilon, 700.0)):.2g}.",
            WeakPrivacyWarning,
        )


def _warn_weak(mechanism, plans, n_samples):
    unit = mechanism.scope.unit
    warn_weak_epsilon(max(_epsilon(plan.charge, mechanism.delta) for plan in plans.values()), unit)
    n_units = len(n_samples) if unit == "client" else sum(n_samples)
    if mechanism.delta * n_units > 1:
        warn(
            f"delta = {mechanism.delta:.3g} is above one over the {n_units} protected units: publishing one "
            f"of them at random would pass. Use less than {1 / n_units:.1g}.",
            WeakPrivacyWarning,
        )


def _epsilon(charge, delta):
    responses = ((charge.epsilon, charge.n_categories, charge.count),) if charge.epsilon else ()
    return composed_epsilon(charge.mu, responses, delta)


def _warn_useless(mechanism, name, Y, plan):
    """Noise that will drown everything, or a ball that most of the record lies outside of."""
    noise, bounds = plan.noise, plan.noise.bounds
    outside = sum(int((norms(part, bounds.center, bounds.scale) > bounds.clip).sum()) for part in _parts(Y))
    share = outside / len(Y)
    if share > TUNING.errors_many_clipped:
        warn(
            f"{share:.0%} of the rows of unit {name!r} lie outside the ball of radius {bounds.clip:.3g} and "
            "are clipped: give `center`, `scale` and `clip_norm` from the ranges of the sensors.",
            UtilityWarning,
        )
    signal = largest_deviation(Y, bounds)
    ratio = noise.std / signal if signal > 0 else np.inf
    needed = ratio**4 / TUNING.errors_correlation**2
    if needed > len(Y):
        epsilon = mechanism.epsilon
        promise = f"mu {plan.charge.mu:.2g}" if epsilon is None else f"epsilon {epsilon:.2g}"
        warn(
            f"The noise on unit {name!r} is {ratio:.2g} times its strongest signal: a link that shows as a correlation "
            f"of {TUNING.errors_correlation} needs about {needed:.1g} time steps, the record has {len(Y)}. At "
            f"{promise} no link of that size can be told from noise; "
            f"{_smallest_useful(plan.charge, mechanism.delta, ratio, len(Y))}. Use more, a smaller event_radius or a "
            "longer record.",
            UtilityWarning,
        )


def _smallest_useful(charge, delta, ratio, n_samples):
    """By the same rule of thumb; noise shrinks as mu or epsilon grows."""
    if not np.isfinite(ratio):
        return "the record does not move, so no budget is enough"
    more = ratio / (n_samples * TUNING.errors_correlation**2) ** 0.25
    if charge.mu == 0:
        return f"smallest useful epsilon: about {charge.epsilon * more:.1g}"
    if delta is None:
        return f"smallest useful mu: about {charge.mu * more:.1g}"
    return f"smallest useful epsilon: about {epsilon_from_mu(charge.mu * more, delta):.1g}"


def largest_deviation(Y, bounds=None):
    """Standard deviation along the direction in which a record varies most, some rows at a time.

    Of the scaled and clipped record, if there are bounds.
    """
    counts, sums, products = np.zeros(Y.shape[1]), np.zeros(Y.shape[1]), np.zeros((Y.shape[1],) * 2)
    for part in _parts(Y, bounds):
        present = ~np.isnan(part)
        counts = counts + present.sum(axis=0)
        sums = sums + np.where(present, part, 0.0).sum(axis=0)
    level = sums / np.maximum(counts, 1)
    for part in _parts(Y, bounds):
        deviation = np.where(np.isnan(part), 0.0, part - level)
        products = products + deviation.T @ deviation
    return float(np.sqrt(max(np.linalg.eigvalsh(products / len(Y))[-1], 0.0)))


def _parts(Y, bounds=None):
    """Rows of a record, some at a time: it may lie in a file."""
    for rows in pieces(len(Y)):
        yield Y[rows] if bounds is None else clipped(Y[rows], bounds)
