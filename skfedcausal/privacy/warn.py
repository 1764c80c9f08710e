"""What a unit is told before it spends: leaks, weak promises, noise that drowns everything."""

import warnings
from functools import partial

import numpy as np

from .bounds import clipped, norms
from .calibration import epsilon_from_mu
from .errors import PrivacyLeakWarning, SeededNoiseWarning, UtilityWarning, WeakPrivacyWarning

_WEAK_EPSILON = 10.0
_CORRELATION = 0.2  # what a link should show at least, in the rule of thumb for what noise leaves
_MANY_CLIPPED = 0.05
_CHUNK = 2**14  # rows
_LEVEL = 6  # up to the caller of `fit`


def warn_release(mechanism, plans, learning=True):
    """Warn about a release that is going to happen.

    Parameters
    ----------
    mechanism : GaussianMechanism
    plans : dict of str to tuple (ndarray of shape (n_samples, n_features), Plan)
        Raw record of each unit and what will be done to it.
    learning : bool
        Whether something is to be learned from the records, which noise may prevent.
    """
    leaking = [name for name, (_, plan) in plans.items() if not plan.noise.bounds.public]
    if leaking:
        _warn(
            f"clip_norm was taken from the data of {', '.join(leaking)}: it reveals the largest value and "
            "bounds no other record. The result is NOT private. Give a public clip_norm.",
            PrivacyLeakWarning,
        )
    if mechanism.random_state is not None:
        warn_seeded()
    if mechanism.delta is not None:
        _warn_weak(mechanism, [len(Y) for Y, _ in plans.values()])
    if learning:
        for name, (Y, plan) in plans.items():
            _warn_useless(mechanism, name, Y, plan.noise)


def warn_seeded():
    """Warn about noise that is reproducible."""
    _warn(
        "The noise is seeded: whoever knows random_state can subtract it. Use random_state=None outside "
        "tests.",
        SeededNoiseWarning,
    )


def warn_weak_epsilon(epsilon, unit):
    """Warn about a promise that says little."""
    if epsilon > _WEAK_EPSILON:
        _warn(
            f"epsilon = {epsilon:.3g} lets the odds of any conclusion about one protected {unit} change by a "
            f"factor of {np.exp(min(epsilon, 700.0)):.2g}.",
            WeakPrivacyWarning,
        )


def _warn(message, category):
    warnings.warn(message, category, stacklevel=_LEVEL)


def _warn_weak(mechanism, n_samples):
    warn_weak_epsilon(epsilon_from_mu(mechanism.mu_of_release(), mechanism.delta), mechanism.unit)
    n_units = len(n_samples) if mechanism.unit == "client" else sum(n_samples)
    if mechanism.delta > 1 / n_units:
        _warn(
            f"delta = {mechanism.delta:.3g} is above one over the {n_units} protected units: publishing one "
            f"of them at random would pass. Use less than {1 / n_units:.1g}.",
            WeakPrivacyWarning,
        )


def _warn_useless(mechanism, name, Y, noise):
    """Noise that will drown everything, or a ball that most of the record lies outside of."""
    bounds = noise.bounds
    outside = sum(int((norms(part, bounds.center, bounds.scale) > bounds.clip).sum()) for part in _parts(Y))
    share = outside / max(len(Y), 1)
    if share > _MANY_CLIPPED:
        _warn(
            f"{share:.0%} of the rows of unit {name!r} lie outside the ball of radius {bounds.clip:.3g} and "
            "are clipped: give `center`, `scale` and `clip_norm` from the ranges of the sensors.",
            UtilityWarning,
        )
    signal = largest_deviation(Y, partial(clipped, bounds=bounds))
    ratio = noise.std / signal if signal > 0 else np.inf
    needed = ratio**4 / _CORRELATION**2
    if needed > len(Y):
        _warn(
            f"The noise on unit {name!r} is {ratio:.2g} times its strongest signal: a link that shows as a "
            f"correlation of {_CORRELATION} needs about {needed:.1g} time steps, the record has {len(Y)}. "
            f"{_promise_in_words(mechanism)} no link of that size can be told from noise; "
            f"{_smallest_useful(mechanism, ratio, len(Y))}. Use more, a smaller event_radius or a "
            "longer record.",
            UtilityWarning,
        )


def _promise_in_words(mechanism):
    if mechanism.epsilon is None:
        return f"At mu {mechanism.mu:.2g}"
    return f"At epsilon {mechanism.epsilon:.2g}"


def _smallest_useful(mechanism, ratio, n_samples):
    """By the same rule of thumb; noise shrinks as mu grows."""
    if not np.isfinite(ratio):
        return "the record does not move, so no budget is enough"
    allowed = (n_samples * _CORRELATION**2) ** 0.25
    mu = mechanism.mu_of_release() * ratio / allowed
    if mechanism.delta is None:
        return f"smallest useful mu: about {mu:.1g}"
    return f"smallest useful epsilon: about {epsilon_from_mu(mu, mechanism.delta):.1g}"


def largest_deviation(Y, seen=np.asarray):
    """Standard deviation along the direction in which a record varies most, some rows at a time.

    `seen` is what is done to rows before.
    """
    counts, sums, products = 0, 0.0, 0.0
    for part in map(seen, _parts(Y)):
        present = ~np.isnan(part)
        counts = counts + present.sum(axis=0)
        sums = sums + np.where(present, part, 0.0).sum(axis=0)
    level = sums / np.maximum(counts, 1)
    for part in map(seen, _parts(Y)):
        deviation = np.where(np.isnan(part), 0.0, part - level)
        products = products + deviation.T @ deviation
    return float(np.sqrt(max(np.linalg.eigvalsh(products / max(len(Y), 1))[-1], 0.0)))


def _parts(Y):
    """Rows of a record, some at a time: it may lie in a file."""
    return (Y[start : start + _CHUNK] for start in range(0, max(len(Y), 1), _CHUNK))
