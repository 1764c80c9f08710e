"""Exact trade-off between noise and (epsilon, delta): the Gaussian mechanism and randomised response.

A release is mu-GDP if telling two neighbouring records apart from it is at least as hard as telling N(0, 1)
from N(mu, 1) [1]_. A Gaussian release with sensitivity Delta and noise sigma has ``mu = Delta / sigma``;
releases compose to ``mu^2 = sum_i mu_i^2``, chosen adaptively or not; and mu is equivalent to the curve

    delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)            [2]_

All of it is exact: no tail bound enters.

References
----------
.. [1] Dong, Roth, Su (2022), Gaussian differential privacy, Journal of the Royal Statistical Society B 84(1).
.. [2] Balle, Wang (2018), Improving the Gaussian mechanism for differential privacy, ICML.
"""

from functools import lru_cache
from numbers import Real

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, logsumexp

from ..arguments import check_not_negative, check_number, checked

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
