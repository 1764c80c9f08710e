"""Randomised response for pairs of flags."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from ..given import Seed
from .accountant import Charge, PrivacyAccountant, Scope
from .errors import warn_seeded, warn_weak_epsilon
from .mechanism import Plan, PrivacyMechanism
from .promise import response_statement, with_voids
from .voids import voids

N_CATEGORIES = 4  # values of a pair of flags
_CONSTRAINTS = {
    "epsilon": [Interval(Real, 0, None, closed="neither"), None],
    "unit": [StrOptions({"flag pair", "event"})],
    "accountant": [PrivacyAccountant, None],
    "random_state": ["random_state"],
}


@dataclass(kw_only=True, eq=False, repr=False)
class RandomizedResponse(PrivacyMechanism):
    """Randomised response with four answers: a pair of flags is sent as it is, or as one of the other three.

    A pair ``(Z_c, Z_a)`` is kept with probability ``e^epsilon / (e^epsilon + 3)`` and replaced by each other
    pair with probability ``1 / (e^epsilon + 3)``. For the same epsilon more pairs survive than if the two
    flags were flipped independently with half of it each [1]_.

    Parameters
    ----------
    epsilon : float, default=None
        Of one pair of flags. There is no default.
    unit : {"flag pair", "event"}, default="flag pair"
        What is protected. "flag pair": the flags of one unit at one time step. "event": all measurements of
        one unit at one time step, which can move every later pair of a unit's filter, so that the pairs of
        a whole record count together.
    accountant : PrivacyAccountant, default=None
        Shared by all estimators that learn from the same data. None: one of this mechanism and its clones.
    random_state : int, RandomState or None, default=None
        Anything but None makes the answers reproducible by whoever knows it, and warns.

    See Also
    --------
    GaussianMechanism : Flags of a noised record cost nothing more, however many there are.

    Notes
    -----
    The receiver knows the probabilities and has to undo them (``pair_frequencies``): shares of received pairs
    are not shares of true pairs, and a received pair taken for a true one is wrong as often as not at small
    epsilon.

    References
    ----------
    .. [1] Kairouz, Oh, Viswanath (2016), Extremal mechanisms for local differential privacy, Journal of
           Machine Learning Research 17.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal import RandomizedResponse
    >>> mechanism = RandomizedResponse(epsilon=2.0)
    >>> mechanism.confusion.round(3)[0]
    array([0.711, 0.096, 0.096, 0.096])
    >>> received = mechanism.release({"boiler": np.zeros((100, 2), dtype=bool)})["boiler"]
    >>> received.shape
    (100, 2)
    """

    _parameter_constraints = _CONSTRAINTS

    epsilon: float | None = None
    unit: str = "flag pair"
    accountant: PrivacyAccountant | None = None
    random_state: Seed = None

    place, channel, law, _per_row = "flags", "flag", "randomized response", "event"
    responses = "4-ary randomised responses"

    @property
    def scope(self) -> Scope:
        """Protected unit, a :class:`~skfedcausal.privacy.Scope`."""
        return Scope(self.unit)

    @property
    def confusion(self) -> np.ndarray:
        """Probability of each received pair (columns) given the true one (rows), shape (4, 4).

        Pairs in the order (0, 0), (0, 1), (1, 0), (1, 1).
        """
        self.check()
        kept, other = _chances(self.epsilon)
        return np.full((N_CATEGORIES, N_CATEGORIES), other) + (kept - other) * np.eye(N_CATEGORIES)

    def release(
        self,
        flags: Mapping[str, np.ndarray],
        /,
        lengths: Any = (),
        *,
        noise: Mapping[str, float] | None = None,
        records: Mapping[str, np.ndarray] | None = None,
        flagger: str = "",
    ) -> dict[str, np.ndarray]:
        """Every unit's flags as the others see them, charged before they are drawn.

        Parameters
        ----------
        flags : dict of str to ndarray of bool of shape (n_samples, 2)
        lengths : tuple of int
            Time steps of each episode; not needed.
        noise : dict of str to float, default=None
            Epsilon of an earlier release, in place of the one that was given.
        records : dict of str to ndarray, default=None
            What the flags are about. Asking about a record again gives the same answers and costs nothing.
            None: flags nobody asked about before. That two sets of flags are equal does not make it the same
            question: answers that agree to the last would show that the flags do.
        flagger : str, default=""
            What made flags of the records, if several things do.

        Returns
        -------
        dict of str to ndarray of bool of shape (n_samples, 2)
        """
        self.check()
        flags = {name: _pairs(name, pairs) for name, pairs in flags.items()}
        with self.account.turn():
            plans = {}
            for name, pairs in flags.items():
                plan = self._plan(name, pairs, lengths, None if noise is None else noise[name])
                if records is not None and name in records:
                    key = self.account.key_of("flags", name, plan.noise, flagger, records[name])
                    plan = replace(plan, key=key)
                plans[name] = plan
            releases = self._released(flags, plans, False)
        return {name: release.values for name, release in releases.items()}

    def noise_of(self, name, flags):
        """Epsilon of the answers, the same for every unit."""
        self.check()
        return self.epsilon

    def charge_of(self, name, noise, n_samples):
        """One response, or one for every pair that an event can move."""
        count = n_samples if self.pays_per_row else 1
        return Charge(name, self.channel, self.law, epsilon=noise, n_categories=N_CATEGORIES, count=count)

    def noised(self, flags, noise, rng, out=None):
        """Answers to a unit's pairs of flags, bool of shape (n_samples, 2)."""
        codes = _codes(flags)
        lie = rng.random(len(codes)) >= _chances(noise)[0]
        codes = np.where(lie, (codes + rng.integers(1, N_CATEGORIES, len(codes))) % N_CATEGORIES, codes)
        return np.column_stack([codes >= 2, codes % 2 == 1])

    def _plan(self, name, flags, lengths, noise=None):
        epsilon = self.noise_of(name, flags) if noise is None else noise
        return Plan(epsilon, self.charge_of(name, epsilon, len(flags)), void=voids(self, epsilon, len(flags)))

    def _warn(self, records, plans, learning):
        if self.random_state is not None:
            warn_seeded()
        warn_weak_epsilon(self.epsilon, "pair of flags")

    def check(self) -> None:
        """Refuse to answer without an epsilon."""
        super().check()
        if self.epsilon is None:
            raise ValueError("RandomizedResponse needs an `epsilon` per pair of flags. There is no default.")

    def statement(self, spent, names, n_samples, left="everything", *, drawn=True):
        """The promise in words: unit, bound, composition, what is not covered."""
        return with_voids(self.account.charges_of(names), response_statement(self, spent))


@dataclass(kw_only=True, eq=False, repr=False)
class IndependentFlips(RandomizedResponse):
    """Randomised response of each flag on its own, as the third paper prints it (its Theorem 7.3).

    ``Z_c`` is kept with probability ``p_c = e^epsilon_c / (1 + e^epsilon_c)`` and turned around otherwise,
    ``Z_a`` likewise with ``epsilon_a``, and ``epsilon = epsilon_c + epsilon_a`` [1]_.

    Parameters
    ----------
    epsilon : float, default=None
        Of one pair of flags, the sum of both. There is no default.
    unit : {"flag pair", "event"}, default="flag pair"
        As of :class:`RandomizedResponse`.
    accountant : PrivacyAccountant, default=None
        Shared by all estimators that learn from the same data. None: one of this mechanism and its clones.
    random_state : int, RandomState or None, default=None
        Anything but None makes the answers reproducible by whoever knows it, and warns.
    share : float, default=0.5
        Part of `epsilon` that is ``epsilon_c``.

    See Also
    --------
    RandomizedResponse : Keeps more pairs at the same epsilon.

    Notes
    -----
    Charged as one binary response of `epsilon`, of which any mechanism of that epsilon is a post-processing;
    the composition of many pairs is then a bound, where that of :class:`RandomizedResponse` is exact.

    References
    ----------
    .. [1] Mohanty, Ramanan, Gebraeel, Learning Unknown Interdependencies for Decentralized Root Cause
           Analysis in Nonlinear Dynamical Systems, Theorem 7.3.

    Examples
    --------
    >>> from skfedcausal import IndependentFlips, RandomizedResponse
    >>> IndependentFlips(epsilon=2.0).confusion[0].round(3)
    array([0.534, 0.197, 0.197, 0.072])
    >>> RandomizedResponse(epsilon=2.0).confusion[0].round(3)
    array([0.711, 0.096, 0.096, 0.096])
    """

    _parameter_constraints = {
        **_CONSTRAINTS,
        "share": [Interval(Real, 0, 1, closed="neither")],
    }

    share: float = 0.5

    responses = "two independent responses, bounded by one binary response"

    @property
    def kept(self) -> Any:
        """Probabilities ``p_c`` and ``p_a``."""
        self.check()
        return self._kept(self.epsilon)

    @property
    def confusion(self) -> np.ndarray:
        """Probability of each received pair (columns) given the true one (rows), shape (4, 4)."""
        flag = [np.array([[p, 1 - p], [1 - p, p]]) for p in self.kept]
        return np.kron(*flag)

    def charge_of(self, name, noise, n_samples):
        """One binary response, or one for every pair that an event can move."""
        return replace(super().charge_of(name, noise, n_samples), n_categories=2)

    def noised(self, flags, noise, rng, out=None):
        """Answers to a unit's pairs of flags, bool of shape (n_samples, 2)."""
        return flags ^ (rng.random(flags.shape) >= self._kept(noise))

    def _kept(self, epsilon):
        return 1 / (1 + np.exp(-np.array([self.share, 1 - self.share]) * epsilon))


def pair_frequencies(mechanism, received):
    """Unbiased estimate of the shares of the four true pairs.

    Parameters
    ----------
    mechanism : RandomizedResponse
    received : ndarray of bool of shape (n_samples, 2)

    Returns
    -------
    ndarray of shape (4,)
        In the order of `confusion`; sums to one, single shares may be negative.
    """
    codes = _codes(_pairs("received", received))
    shares = np.bincount(codes, minlength=N_CATEGORIES) / len(codes)
    return np.linalg.solve(mechanism.confusion.T, shares)


def _pairs(name, flags):
    flags = np.asarray(flags)
    if flags.ndim != 2 or flags.shape[1] != 2 or flags.dtype != bool:
        raise ValueError(
            f"Flags of unit {name!r}: {flags.dtype} of shape {flags.shape}; expected booleans of shape (n_samples, 2)."
        )
    return flags


def _codes(pairs):
    return 2 * pairs[:, 0].astype(int) + pairs[:, 1]


def _chances(epsilon):
    """Probability that a pair is kept, and that it is replaced by a certain other one."""
    kept = 1 / (1 + (N_CATEGORIES - 1) * np.exp(-epsilon))
    return kept, (1 - kept) / (N_CATEGORIES - 1)
