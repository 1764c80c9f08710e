"""Randomised response for pairs of flags."""

from numbers import Real

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from .accountant import Charge, PrivacyAccountant, Scope
from .base import PrivacyMechanism
from .sampling import generator
from .statement import response_statement
from .warn import warn_seeded, warn_weak_epsilon

N_CATEGORIES = 4  # values of a pair of flags


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
    The receiver knows the probabilities and has to undo them (:meth:`frequencies`): shares of received pairs
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

    _parameter_constraints = {
        "epsilon": [Interval(Real, 0, None, closed="neither"), None],
        "unit": [StrOptions({"flag pair", "event"})],
        "accountant": [PrivacyAccountant, None],
        "random_state": ["random_state"],
    }

    def __init__(self, *, epsilon=None, unit="flag pair", accountant=None, random_state=None):
        self.epsilon = epsilon
        self.unit = unit
        self.accountant = accountant
        self.random_state = random_state

    @property
    def scope(self):
        """What is protected, a :class:`~skfedcausal.privacy.Scope`."""
        return Scope(self.unit)

    @property
    def confusion(self):
        """Probability of each received pair (columns) given the true one (rows), shape (4, 4).

        Pairs in the order (0, 0), (0, 1), (1, 0), (1, 1).
        """
        self._check()
        kept = 1 / (1 + (N_CATEGORIES - 1) * np.exp(-self.epsilon))
        other = (1 - kept) / (N_CATEGORIES - 1)
        return np.full((N_CATEGORIES, N_CATEGORIES), other) + (kept - other) * np.eye(N_CATEGORIES)

    def release(self, flags, channel="flag", records=None, flagger=""):
        """Every unit's flags as the others see them, charged before they are drawn.

        Parameters
        ----------
        flags : dict of str to ndarray of bool of shape (n_samples, 2)
        channel : str
            For the ledger.
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
        self._check()
        account = self._account()
        flags = {name: _pairs(name, pairs) for name, pairs in flags.items()}
        keys = {
            name: account.key_of("flags", name, self.epsilon, flagger, Y)
            for name, Y in (records or {}).items()
        }
        answers = {name: account.recall(keys[name]) if name in keys else None for name in flags}
        new = [name for name, pairs in answers.items() if pairs is None]
        if new:
            if self.random_state is not None:
                warn_seeded()
            warn_weak_epsilon(self.epsilon, "pair of flags")
            account.charge([self._charge(name, len(flags[name]), channel) for name in new], self.scope)
            for name in new:
                rng = generator(self.random_state, name, len(account))
                answers[name] = self._drawn(flags[name], rng)
                if name in keys:
                    account.remember(keys[name], answers[name])
        return answers

    def frequencies(self, received):
        """Unbiased estimate of the shares of the four true pairs.

        Parameters
        ----------
        received : ndarray of bool of shape (n_samples, 2)

        Returns
        -------
        ndarray of shape (4,)
            In the order of `confusion`; sums to one, single shares may be negative.
        """
        codes = _codes(_pairs("received", received))
        shares = np.bincount(codes, minlength=N_CATEGORIES) / len(codes)
        return np.linalg.solve(self.confusion.T, shares)

    def posterior(self, received, prior):
        """Probability of each true pair given the received one, row by row.

        Parameters
        ----------
        received : ndarray of bool of shape (n_samples, 2)
        prior : array-like of shape (4,)
            Shares of the true pairs.

        Returns
        -------
        ndarray of shape (n_samples, 4)
        """
        joint = np.asarray(prior, dtype=float) * self.confusion[:, _codes(_pairs("received", received))].T
        return joint / joint.sum(axis=1, keepdims=True)

    def _drawn(self, pairs, rng):
        codes = _codes(pairs)
        lie = rng.random(len(codes)) >= self.confusion[0, 0]
        codes = np.where(lie, (codes + rng.integers(1, N_CATEGORIES, len(codes))) % N_CATEGORIES, codes)
        return np.column_stack([codes >= 2, codes % 2 == 1])

    def _charge(self, name, n_samples, channel):
        count = 1 if self.unit == "flag pair" else n_samples
        return Charge(
            name,
            channel,
            "randomized response",
            epsilon=self.epsilon,
            n_categories=N_CATEGORIES,
            count=count,
        )

    def _check(self):
        self._validate_params()
        if self.epsilon is None:
            raise ValueError("RandomizedResponse needs an `epsilon` per pair of flags. There is no default.")

    def statement(self, spent, names, n_samples):
        """The promise in words: unit, relation, bound, composition, what is not covered.

        Parameters
        ----------
        spent : PrivacySpent
        names : sequence of str
            The units.
        n_samples : int

        Returns
        -------
        str
        """
        return response_statement(self, spent)


def _pairs(name, flags):
    flags = np.asarray(flags)
    if flags.ndim != 2 or flags.shape[1] != 2 or flags.dtype != bool:
        raise ValueError(
            f"Flags of unit {name!r} have shape {flags.shape} and dtype {flags.dtype}; expected booleans of "
            "shape (n_samples, 2)."
        )
    return flags


def _codes(pairs):
    return 2 * pairs[:, 0].astype(int) + pairs[:, 1]
