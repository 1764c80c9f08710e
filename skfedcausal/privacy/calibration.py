"""Noise and what it buys: exact trade-offs, clipping, noise on a grid, and errors before a unit spends."""

import secrets
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, logsumexp
from sklearn.utils._param_validation import Interval, StrOptions

from ..arguments import check_not_negative, check_number, checked, warn
from ..bases import ParameterGroup
from ..optional import import_optional
from .tuning import TUNING

# Exact trade-off between noise and (epsilon, delta): the Gaussian mechanism and randomised response.
#
# A release is mu-GDP if telling two neighbouring records apart from it is at least as hard as telling N(0, 1)
# from N(mu, 1) [1]_. A Gaussian release with sensitivity Delta and noise sigma has ``mu = Delta / sigma``;
# releases compose to ``mu^2 = sum_i mu_i^2``, chosen adaptively or not; and mu is equivalent to the curve
#
#     delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)            [2]_
#
# All of it is exact: no tail bound enters.
#
# References
# ----------
# .. [1] Dong, Roth, Su (2022), Gaussian differential privacy, Journal of the Royal Statistical Society B 84(1).
# .. [2] Balle, Wang (2018), Improving the Gaussian mechanism for differential privacy, ICML.

_TINY = 1e-60  # probabilities below are counted as certain failure instead of being carried along


def gaussian_log_delta(epsilon, mu):
    """Logarithm of the smallest delta at which a mu-GDP release is (epsilon, delta)-private, -inf for zero.

    `epsilon`, a number or an array, may have any sign: negative values occur in mixtures.
    """
    epsilon = np.asarray(epsilon, dtype=float)
    if mu == 0:
        with np.errstate(divide="ignore"):
            return np.log(-np.expm1(np.minimum(epsilon, 0.0)))
    first = log_ndtr(mu / 2 - epsilon / mu)
    second = epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_delta = first + np.log1p(-np.exp(np.minimum(second - first, 0.0)))
    return np.where(second >= first, -np.inf, log_delta)[()]


@checked
def mu_from_epsilon(epsilon: float, delta: float) -> float:
    """Largest mu whose release is (epsilon, delta)-private.

    Parameters
    ----------
    epsilon, delta : float

    Returns
    -------
    float

    Notes
    -----
    Solves ``delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)`` [1]_.

    References
    ----------
    .. [1] Balle, Wang (2018), Improving the Gaussian mechanism for differential privacy, ICML.

    Examples
    --------
    >>> from skfedcausal.privacy import mu_from_epsilon
    >>> round(1 / mu_from_epsilon(1.0, 1e-5), 3)  # noise over sensitivity
    3.731
    """
    check_promise(epsilon, delta)

    def excess(mu):
        return float(gaussian_log_delta(epsilon, mu)) - np.log(delta)

    low, high = 1e-8, 1.0
    while excess(high) < 0:
        high *= 2
    while excess(low) > 0:
        low /= 2
    return brentq(excess, low, high, xtol=1e-300, rtol=1e-14)


@checked
def epsilon_from_mu(mu: float, delta: float) -> float:
    """Smallest epsilon at which a mu-GDP release is (epsilon, delta)-private.

    Parameters
    ----------
    mu : float
    delta : float

    Returns
    -------
    float

    Notes
    -----
    Solves ``delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)`` [1]_.

    References
    ----------
    .. [1] Balle, Wang (2018), Improving the Gaussian mechanism for differential privacy, ICML.

    Examples
    --------
    >>> from skfedcausal.privacy import epsilon_from_mu
    >>> round(epsilon_from_mu(1.0, 1e-5), 2)
    4.38
    """
    check_not_negative(mu=mu, delta=delta)
    return composed_epsilon(mu, (), delta)


@checked
def gaussian_noise_multiplier(epsilon: float, delta: float, n_releases: int = 1) -> float:
    """Noise standard deviation over sensitivity of each of `n_releases` releases.

    Parameters
    ----------
    epsilon : float
        Of all releases together.
    delta : float
    n_releases : int, default=1

    Returns
    -------
    float

    Notes
    -----
    Releases compose to ``mu = sqrt(n_releases) / noise_multiplier`` [1]_.

    References
    ----------
    .. [1] Dong, Roth, Su (2022), Gaussian differential privacy, Journal of the Royal Statistical Society B
           84(1).

    Examples
    --------
    >>> from skfedcausal.privacy import gaussian_noise_multiplier
    >>> round(gaussian_noise_multiplier(1.0, 1e-5, n_releases=400), 1)
    74.6
    """
    check_number(n_releases, "n_releases", 0)
    return float(np.sqrt(n_releases) / mu_from_epsilon(epsilon, delta))


@checked
def epsilon_of(noise_multiplier: float, delta: float, n_releases: int = 1) -> float:
    """Epsilon of `n_releases` Gaussian releases, each with this noise over sensitivity.

    Parameters
    ----------
    noise_multiplier : float
        Noise standard deviation over sensitivity.
    delta : float
    n_releases : int, default=1

    Returns
    -------
    float

    Notes
    -----
    Releases compose to ``mu = sqrt(n_releases) / noise_multiplier`` [1]_.

    References
    ----------
    .. [1] Dong, Roth, Su (2022), Gaussian differential privacy, Journal of the Royal Statistical Society B
           84(1).

    Examples
    --------
    >>> from skfedcausal.privacy import epsilon_of
    >>> round(epsilon_of(74.6, 1e-5, n_releases=400), 2)
    1.0
    """
    check_number(n_releases, "n_releases", 0)
    check_not_negative(noise_multiplier=noise_multiplier)
    return epsilon_from_mu(np.sqrt(n_releases) / float(noise_multiplier), delta)


@checked
def randomized_response_composition(
    epsilon: float, n_releases: int, delta: float, *, n_categories: int = 2, mu: float = 0.0
) -> float:
    """Epsilon of randomised responses and Gaussian releases about the same secret, composed exactly.

    Parameters
    ----------
    epsilon : float
        Of one response.
    n_releases : int
        Responses.
    delta : float
    n_categories : int, default=2
    mu : float, default=0.0
        Of all Gaussian releases together.

    Returns
    -------
    float

    Notes
    -----
    The privacy loss of a response is epsilon, 0 or -epsilon: a multiple of epsilon after any number of them,
    with the probabilities of `response_losses`. Given that loss L the Gaussian releases have to cover
    ``epsilon_total - L``, hence ``delta(epsilon_total) = sum_L P(L) delta_mu(epsilon_total - L)``.

    References
    ----------
    .. [1] Kairouz, Oh, Viswanath (2017), The composition theorem for differential privacy, IEEE Transactions
           on Information Theory 63(6).

    Examples
    --------
    >>> from skfedcausal.privacy import randomized_response_composition
    >>> round(randomized_response_composition(0.1, 100, 1e-5), 2)
    4.31
    """
    check_promise(epsilon, None)
    check_number(n_releases, "n_releases", 0)
    check_number(n_categories, "n_categories", 2)
    check_not_negative(mu=mu, delta=delta)
    return composed_epsilon(mu, ((epsilon, n_categories, n_releases),), delta)


def composed_epsilon(mu, responses, delta):
    """Epsilon of Gaussian releases and of groups (epsilon, n_categories, count) of randomised responses.

    `mu` is the root of the sum of squares over the Gaussian releases, infinite if something left without
    noise.
    """
    return _composed_epsilon(float(mu), tuple(responses), float(delta))


@lru_cache(maxsize=256)  # units mostly spend the same
def _composed_epsilon(mu, responses, delta):
    if not np.isfinite(mu):
        return np.inf
    losses, log_weights, lost = _joint_losses(responses)
    if delta <= lost:
        pure = sum(epsilon * count for epsilon, _, count in responses)
        return np.inf if mu > 0 else float(pure)

    def excess(epsilon):
        terms = log_weights + gaussian_log_delta(epsilon - losses, mu)
        return float(np.logaddexp(logsumexp(terms), np.log(lost) if lost else -np.inf)) - np.log(delta)

    if excess(0.0) <= 0:
        return 0.0
    high = 1.0
    while excess(high) > 0:
        high *= 2
    return brentq(excess, 0.0, high, xtol=1e-300, rtol=1e-14)


def response_losses(epsilon, n_categories, count):
    """Privacy losses of `count` randomised responses, their probabilities and a bound on what is left out.

    Tails below 1e-60 are left out.
    """
    if epsilon > np.log(np.finfo(float).max):
        raise ValueError(f"epsilon={epsilon:g} of each response promises nothing; leave the mechanism off instead.")
    whole = np.exp(float(epsilon)) + n_categories - 1
    single = np.array([1.0, n_categories - 2, np.exp(epsilon)]) / whole  # loss -1, 0 and 1 times epsilon
    offset, weights = _convolution_power(single, count)
    losses = (np.arange(len(weights)) + offset) * epsilon
    trimmed = len(weights) < 2 * count + 1
    return losses, weights, 100 * _TINY * count**2 if trimmed else 0.0


def _convolution_power(single, count):
    """Distribution of a sum of `count` draws from {-1, 0, 1}: smallest value, probabilities."""
    total, square = (0, np.ones(1)), (-1, single)
    while count:
        if count & 1:
            total = _convolved(total, square)
        square = _convolved(square, square)
        count >>= 1
    return total


def _convolved(first, second):
    offset, weights = first[0] + second[0], np.convolve(first[1], second[1])
    kept = np.flatnonzero(weights >= _TINY)
    return offset + kept[0], weights[kept[0] : kept[-1] + 1]


def _joint_losses(responses):
    losses, log_weights, lost = np.zeros(1), np.zeros(1), 0.0
    for epsilon, n_categories, count in responses:
        more, weights, missing = response_losses(epsilon, n_categories, count)
        with np.errstate(divide="ignore"):
            log_more = np.log(weights)
        losses = np.add.outer(losses, more).ravel()
        log_weights = np.add.outer(log_weights, log_more).ravel()
        lost += missing
    return losses, log_weights, lost


def check_promise(epsilon, delta):
    """Refuse pairs that no Gaussian noise can keep; None promises nothing."""
    if epsilon is not None and not (isinstance(epsilon, Real) and float(epsilon) > 0):
        raise ValueError(f"epsilon={epsilon!r} must be a positive number.")
    if delta is not None and not (isinstance(delta, Real) and 0 < float(delta) < 1):
        raise ValueError(f"delta={delta!r} must lie strictly between 0 and 1.")


# The ball that measurements are clipped to, and noise on a grid.
#
# The doubles near a value depend on the value, so that adding noise to it can leave its last bits in the
# result [1]_. Both the value and the result are therefore rounded to a grid much finer than the noise. This
# removes what is known of the attack; it is no proof for the doubles behind a normal generator, which the
# exact sampler of the optional package OpenDP has.
#
# References
# ----------
# .. [1] Mironov (2012), On significance of the least significant bits for differential privacy, ACM CCS.

_CHUNK = 2**14  # rows
SAMPLERS = ("float-grid", "opendp")


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class NoiseOptions(ParameterGroup):
    """Middle and axes of the ball that measurements are clipped to, and what draws the noise.

    Parameters
    ----------
    center : float, array-like or dict, default=0.0
        Middle of the ball: one number, one per column, or a dict of these by unit. Public, as `clip_norm`.
    scale : float, array-like or dict, default=1.0
        Units in which columns are measured against each other; the noise of a column is proportional.
        Public.
    sampler : {"auto", "float-grid", "opendp"}, default="auto"
        "opendp" draws exact discrete Gaussians with the optional package of that name, "float-grid" in floating
        point, rounded to a grid. "auto" takes the first where it is installed (66 times slower) and no
        `random_state` is given. The statement says which was used.

    Examples
    --------
    >>> from skfedcausal import GaussianMechanism
    >>> from skfedcausal.privacy import NoiseOptions
    >>> GaussianMechanism(noise=NoiseOptions(scale=[1.0, 100.0])).set_params(noise__sampler="opendp").noise
    NoiseOptions(sampler='opendp', scale=[1.0, 100.0])
    """

    center: Any = 0.0
    scale: Any = 1.0
    sampler: str = "auto"

    _parameter_constraints = {
        "center": [Real, "array-like", dict],
        "scale": [Interval(Real, 0, None, closed="neither"), "array-like", dict],
        "sampler": [StrOptions({"auto", *SAMPLERS})],
    }


@dataclass(frozen=True)
class Bounds:
    """Ball in scaled measurements, and the largest change that is protected.

    Attributes
    ----------
    center, scale : ndarray of shape (n_features,)
    clip : float
        Radius of the ball ``||(y - center) / scale||``.
    radius : float
        Largest protected change of one time step, in the same units.
    public : bool
        Whether `clip` was given; otherwise it comes from the data.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.privacy import Bounds
    >>> Bounds(np.zeros(2), np.array([1.0, 100.0]), clip=3.0, radius=6.0).public
    True
    """

    center: np.ndarray
    scale: np.ndarray
    clip: float
    radius: float
    public: bool = True


@dataclass(frozen=True)
class UnitNoise:
    """Ball that a unit's measurements are clipped to, and the noise added to them there.

    Attributes
    ----------
    bounds : Bounds
    std : float
        Standard deviation in units of the scale of the bounds.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal import GaussianMechanism
    >>> mechanism = GaussianMechanism(epsilon=6, delta=1e-6, clip_norm=25, event_radius=3)
    >>> noise = mechanism.noise_of("boiler", np.zeros((500, 2)))
    >>> noise.bounds.clip, noise.variance.shape
    (25.0, (2,))
    """

    bounds: Bounds
    std: float

    @property
    def variance(self) -> np.ndarray:
        """Of the noise in each column, shape (n_features,)."""
        return (self.std * self.bounds.scale) ** 2


def norms(Y, center, scale):
    """Euclidean norm of each row's scaled measurements, missing ones left out."""
    scaled = np.nan_to_num((Y - center) / scale, nan=0.0)
    return np.sqrt(np.einsum("ti,ti->t", scaled, scaled))


def clipped(Y, bounds):
    """Scaled measurements, rows outside the ball moved to its nearest point; NaN stays.

    The nearest-point map brings no two rows further apart: a change inside the protected radius stays inside.
    """
    scaled = (Y - bounds.center) / bounds.scale
    length = norms(Y, bounds.center, bounds.scale)
    factor = bounds.clip / np.maximum(length, bounds.clip)
    return scaled * factor[:, None]


def into_ball(Y, bounds):
    """Measurements in their own units, rows outside the ball moved to its nearest point."""
    return bounds.center + bounds.scale * clipped(Y, bounds)


def pieces(n_samples):
    """Slices of a record that are worked on one after the other: it may lie in a file."""
    return [slice(start, start + _CHUNK) for start in range(0, n_samples, _CHUNK)]


def grid_of(std):
    """Spacing of the grid for noise of standard deviation `std`: a power of two of about a millionth."""
    return np.ldexp(1.0, int(np.floor(np.log2(std))) - TUNING.noise_grid_bits)


def on_grid(values, grid):
    """Values rounded to multiples of the grid."""
    return np.round(values / grid) * grid


def generator(random_state, *names):
    """Source of noise: the operating system's entropy if `random_state` is None, else a stream per names."""
    if random_state is None:
        return np.random.default_rng(secrets.randbits(256))
    if not isinstance(random_state, int | np.integer):
        random_state = random_state.randint(2**31 - 1)
    words = [int.from_bytes(str(name).encode(), "little") for name in names]
    return np.random.default_rng([int(random_state), *words])


def normal_noise(shape, std, rng, sampler="float-grid"):
    """White Gaussian noise on the grid; "opendp" has the operating system's entropy and ignores `rng`."""
    grid = grid_of(std)
    if sampler == "float-grid":
        return on_grid(std * rng.standard_normal(shape), grid)
    dp = import_optional("opendp.prelude", extra="privacy-secure", purpose="The exact discrete Gaussian sampler")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    measure = space >> dp.m.then_gaussian(std / grid)
    zeros = np.zeros(int(np.prod(shape)), dtype=int)
    return grid * np.asarray(measure(zeros.tolist()), dtype=float).reshape(shape)


# Errors about promises, and warnings before a unit spends.

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
