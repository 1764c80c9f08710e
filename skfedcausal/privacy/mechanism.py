"""The contract of a mechanism: how much noise, what it costs, and the promise in words."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..given import Lengths
from ..parameters import Checked
from .accountant import Charge, PrivacyAccountant, PrivacySpent, Scope
from .errors import warn_release
from .noise import Bounds, UnitNoise, clipped, generator, grid_of, normal_noise, on_grid, pieces
from .promise import record_statement, sampled
from .voids import chosen_sampler, identity, note, together, voids


@dataclass(frozen=True)
class Release:
    """A unit's record as everything but the unit itself sees it.

    Attributes
    ----------
    values : ndarray of shape (n_samples, n_features)
        Clipped, with noise; NaN where missing.
    noise : UnitNoise

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal import GaussianMechanism
    >>> mechanism = GaussianMechanism(epsilon=6, delta=1e-6, clip_norm=5, event_radius=1)
    >>> record = np.sin(np.arange(8000.0).reshape(4000, 2))
    >>> release = mechanism.release({"boiler": record}, lengths=(4000,))["boiler"]
    >>> release.values.shape, bool((release.variance == release.noise.variance).all())
    ((4000, 2), True)
    """

    values: np.ndarray
    noise: UnitNoise

    @property
    def variance(self) -> np.ndarray:
        """Of the noise added to each column, shape (n_features,)."""
        return self.noise.variance


@dataclass(frozen=True)
class Plan:
    """Noise planned for a unit's record, and its cost."""

    noise: Any
    charge: Charge
    key: bytes = b""  # under which the account remembers the release; empty for one it does not
    void: str = ""  # what makes the promise void

    @property
    def leaks(self):
        """Whether a bound comes from the data, so that the noise hides nothing."""
        return isinstance(self.noise, UnitNoise) and not self.noise.bounds.public

    @property
    def paid(self):
        """The charge that the account takes."""
        charge = replace(self.charge, release=self.key.hex(), void=self.void)
        return replace(charge, mu=np.inf, bound="data") if self.leaks else charge


class PrivacyMechanism(Checked, ABC):
    """Contract of a mechanism: a unit's record gets noise before anything is computed from it.

    A subclass says what is protected (`scope`) and how much noise a record needs (:meth:`noise_of`). Noise is
    white and Gaussian, and paid for as such; a mechanism with other noise says how it is drawn (:meth:`draw`)
    and what it costs (:meth:`charge_of`). Everything else is here: each record is clipped and noised once and
    remembered, the account is charged before anything is drawn, all units or none, copies share the account,
    streams go on with the noise of an earlier release, and the promise is put in words.

    Attributes
    ----------
    scope : Scope
        What is protected. A subclass has to set it.
    place : {"record", "messages", "gradients", "flags"}
        What the noise is added to. A mechanism for "record" can be given to every estimator; "messages" and
        "gradients" are for noise inside gradient training, "flags" for randomised flags.
    law : str
        Distribution of the noise, for the ledger.
    accountant : PrivacyAccountant or None
        None: one of this mechanism and its clones.
    random_state : int, RandomState or None
        None is the only one that keeps the noise secret.
    epsilon, delta : float or None
        Of one release; `delta` also for reports.
    clip_norm, event_radius : float, dict of str to float or None
        Public radius and protected change, for the statement.

    See Also
    --------
    GaussianMechanism : The mechanism for measurements.
    RandomizedResponse : The mechanism for flags.
    skfedcausal.testing.check_mechanism : Whether an object can be a mechanism.

    Notes
    -----
    Noise has to be independent from row to row, and NaN stays NaN. A pure epsilon-DP release is a charge with
    ``epsilon`` and two categories: no such release tells more than a randomised response [1]_.

    References
    ----------
    .. [1] Kairouz, Oh, Viswanath (2017), The composition theorem for differential privacy, IEEE Transactions
           on Information Theory 63(6).

    Examples
    --------
    Laplace noise on rows clipped to a ball, epsilon-DP per event:

    >>> import numpy as np
    >>> from skfedcausal import PrivacyMechanism
    >>> from skfedcausal.privacy import Bounds, Charge, Scope, UnitNoise
    >>> class LaplaceMechanism(PrivacyMechanism):
    ...     scope, law = Scope("event"), "laplace"
    ...     def __init__(self, *, epsilon, clip_norm, delta=1e-6, accountant=None, random_state=None):
    ...         self.epsilon, self.clip_norm, self.delta = epsilon, clip_norm, delta
    ...         self.accountant, self.random_state = accountant, random_state
    ...     def noise_of(self, name, Y):
    ...         d = Y.shape[1]  # the l1 norm of a change is at most sqrt(d) times its Euclidean norm
    ...         bounds = Bounds(np.zeros(d), np.ones(d), self.clip_norm, 2 * self.clip_norm)
    ...         return self.noise_for(bounds, len(Y), self.epsilon / np.sqrt(2 * d))
    ...     def draw(self, shape, std, rng):
    ...         return rng.laplace(scale=std / np.sqrt(2), size=shape)
    ...     def charge_of(self, name, noise, n_samples):
    ...         ratio = self.sensitivity(noise, n_samples) / noise.std
    ...         epsilon = ratio * np.sqrt(2 * len(noise.bounds.scale))
    ...         return Charge(name, self.channel, self.law, epsilon=epsilon, noise_std=noise.std)
    >>> mechanism = LaplaceMechanism(epsilon=8.0, clip_norm=1.5)
    >>> Y = np.sin(np.arange(8000.0).reshape(4000, 2))
    >>> release = mechanism.release({"boiler": Y}, lengths=(4000,))["boiler"]
    >>> np.sqrt(release.variance).round(2)
    array([0.75, 0.75])
    >>> round(mechanism.account.spent(0.0).epsilon, 6)
    8.0
    """

    _parameter_constraints: dict = {}
    _moved = {
        "trial": "skfedcausal.privacy.mechanism.trial_of(mechanism, ...)",
        "bounds": "skfedcausal.privacy.gaussian.bounds_of(mechanism, ...)",
        "frequencies": "skfedcausal.privacy.randomized_response.pair_frequencies(mechanism, ...)",
        "promised": "statement(..., drawn=False)",
        "noise_std": "noise_for(...).std",
        "check_training": "skfedcausal.papers.client.noise.check_training(mechanism)",
    }
    channel = "measurement"  # in the ledger
    law = "gaussian"
    _per_row = "client"  # protected unit of which every row costs
    sampler = "float-grid"
    accountant: PrivacyAccountant | None = None
    random_state: Any = None
    epsilon: float | None = None
    delta: float | None = None
    clip_norm: float | Mapping | None = None
    event_radius: float | Mapping | None = None

    # -- what a mechanism is -----------------------------------------------------------------------

    @property
    def place(self) -> str:
        """Place of the noise: "record", "messages", "gradients" or "flags"."""
        return "record"

    @property
    @abstractmethod
    def scope(self) -> Scope:
        """Protected unit, a :class:`~skfedcausal.privacy.Scope`."""

    @abstractmethod
    def noise_of(self, name: str, Y: np.ndarray) -> UnitNoise:
        """Ball and noise of a release of a unit's record.

        Parameters
        ----------
        name : str
            The unit.
        Y : ndarray of shape (n_samples, n_features)

        Returns
        -------
        UnitNoise
        """

    def draw(self, shape: tuple[int, ...], std: float, rng: np.random.Generator) -> np.ndarray:
        """Noise for scaled measurements, independent from row to row; Gaussian here.

        Parameters
        ----------
        shape : tuple of int
        std : float
        rng : numpy.random.Generator

        Returns
        -------
        ndarray of that shape
        """
        return normal_noise(shape, std, rng, self.drawn_by)

    @property
    def drawn_by(self) -> str:
        """The sampler of its noise: "opendp" draws exactly, "float-grid" in floating point, rounded to a grid."""
        return chosen_sampler(self.sampler, self.random_state)

    def charge_of(self, name: str, noise: UnitNoise, n_samples: int) -> Charge:
        """Cost of releasing a record with this noise; exact for Gaussian noise.

        Parameters
        ----------
        name : str
            The unit.
        noise : UnitNoise
        n_samples : int

        Returns
        -------
        Charge
        """
        sensitivity = self.sensitivity(noise, n_samples)
        how: dict[str, Any] = {"mu": sensitivity / noise.std, "sensitivity": sensitivity, "noise_std": noise.std}
        return Charge(name, self.channel, self.law, **how)

    def sensitivity(self, noise: UnitNoise, n_samples: int) -> float:
        """Largest change of a record of `n_samples` rows before its noise is added, in units of `scale`.

        Parameters
        ----------
        noise : UnitNoise
        n_samples : int

        Returns
        -------
        float
        """
        rounding = np.sqrt(len(noise.bounds.scale)) * grid_of(noise.std)  # moves neighbours apart by as much
        return (noise.bounds.radius + rounding) * np.sqrt(self.scope.steps(n_samples))

    def noise_for(self, bounds: Bounds, n_samples: int, ratio: float) -> UnitNoise:
        """Noise for which the sensitivity is `ratio` times its standard deviation.

        Parameters
        ----------
        bounds : Bounds
        n_samples : int
        ratio : float
            Gaussian-DP parameter of a release if the noise is Gaussian.

        Returns
        -------
        UnitNoise
        """
        std = bounds.radius * np.sqrt(self.scope.steps(n_samples)) / ratio
        for _ in range(2):  # the grid follows the noise, which is larger for the rounding to the grid
            std = self.sensitivity(UnitNoise(bounds, std), n_samples) / ratio
        return UnitNoise(bounds, std)

    @property
    def pays_per_row(self) -> bool:
        """Whether every row costs, so that no batch of a stream is free."""
        return self.scope.unit == self._per_row

    # -- releases ----------------------------------------------------------------------------------

    def release(
        self, records: Mapping[str, np.ndarray], /, lengths: Any, *, noise: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Every unit's record clipped and with noise, charged before it is drawn.

        Parameters
        ----------
        records : dict of str to ndarray of shape (n_samples, n_features_m)
            Measurements of each unit, NaN where missing.
        lengths : tuple of int
            Time steps of each episode.
        noise : dict of str to UnitNoise, default=None
            Ball and noise of an earlier release to use again, whatever that costs for these records. None:
            as much noise as the promise about one release asks for.

        Returns
        -------
        dict of str to Release
            The same objects for records that were released before with the same noise; those are not
            charged again.

        Raises
        ------
        ValueError
            If the promise is not stated completely, or records and noise do not fit together.
        PrivacyBudgetError
            If the release would cost more than the account allows; nothing is drawn then.
        """
        self.check()
        if self.place not in ("record", "flags"):
            raise ValueError(
                f"This mechanism adds its noise to the {self.place} of gradient training and has none for a "
                "record. Give one with protocol='one-shot' and trust='none'."
            )
        with self.account.turn():
            given = dict.fromkeys(records) if noise is None else noise
            plans = {name: self._plan(name, Y, lengths, given[name]) for name, Y in records.items()}
            return self._released(records, plans, noise is None)

    def cost(self, records: Mapping[str, np.ndarray], lengths: Lengths) -> list[Charge]:
        """Charges that releasing records would take, as :meth:`release` does; nothing is released.

        Parameters
        ----------
        records : dict of str to ndarray of shape (n_samples, n_features_m)
        lengths : tuple of int

        Returns
        -------
        list of Charge
        """
        plans = [self._plan(name, Y, lengths) for name, Y in records.items()]
        return [plan.paid for plan in plans if self.account.recall(plan.key) is None]

    def stream(self, noise: Mapping[str, UnitNoise]) -> "NoisedStream":
        """One release of a record that comes in batches and has no end.

        Parameters
        ----------
        noise : dict of str to UnitNoise
            Ball and noise of an earlier release of each unit.

        Returns
        -------
        NoisedStream
            ``release(records)`` gives the next rows of every unit with noise, and whether they cost
            something.
        """
        return NoisedStream(self, noise, self._warn)

    def noised(
        self, Y: np.ndarray, noise: UnitNoise, rng: np.random.Generator, out: np.ndarray | None = None
    ) -> np.ndarray:
        """Copy of a record that is clipped and has noise; what comes after sees nothing else.

        Written some rows at a time, so that records and copies may be files.

        Parameters
        ----------
        Y : ndarray of shape (n_samples, n_features)
        noise : UnitNoise
        rng : numpy.random.Generator
        out : ndarray of shape (n_samples, n_features), default=None
            Where to; None for a new array.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Not writeable.

        Raises
        ------
        ValueError
            If `draw` gave noise of another shape.
        """
        values = np.empty(Y.shape) if out is None else out
        bounds, grid = noise.bounds, grid_of(noise.std)
        for rows in pieces(len(Y)):
            drawn = self.draw(Y[rows].shape, noise.std, rng)
            if np.shape(drawn) != Y[rows].shape:
                raise ValueError(
                    f"`draw` of {type(self).__name__} gave noise of shape {np.shape(drawn)}, expected {Y[rows].shape}."
                )
            added = on_grid(drawn, grid)
            values[rows] = bounds.center + bounds.scale * (on_grid(clipped(Y[rows], bounds), grid) + added)
        values = values.view()
        values.setflags(write=False)
        return values

    def _plan(self, name, Y, lengths, noise=None):
        self.check()
        noise = self.noise_of(name, Y) if noise is None else noise
        self._check_noise(name, noise, Y.shape[1])
        kind, bounds = type(self).__qualname__, noise.bounds
        ball = noise.std, bounds.clip, bounds.center, bounds.scale
        key = self.account.key_of(name, self.scope, kind, self.drawn_by, *ball, tuple(lengths), Y)
        charge = replace(self.charge_of(name, noise, len(Y)), record=identity(self.account, Y))
        if type(self).draw is PrivacyMechanism.draw:
            charge = replace(charge, sampler=self.drawn_by)
        return Plan(noise, charge, key, voids(self, noise, len(Y), Y))

    def _check_noise(self, name, noise, n_columns):
        """Refuse what `noise_of` of a subclass should not give."""
        what = f"`noise_of` of {type(self).__name__} gave unit {name!r}"
        if not isinstance(noise, UnitNoise):
            raise TypeError(f"{what} a {type(noise).__name__}; give a UnitNoise.")
        shapes = np.shape(noise.bounds.center), np.shape(noise.bounds.scale)
        if shapes != ((n_columns,),) * 2:
            raise ValueError(
                f"{what} a centre and a scale of shapes {shapes[0]} and {shapes[1]}, expected one number for "
                f"each of its {n_columns} columns."
            )

    def _released(self, records, plans, learning):
        account = self.account
        releases: dict[str, Any] = {name: account.recall(plan.key) for name, plan in plans.items()}
        new = {name: plan for name, plan in plans.items() if releases[name] is None}
        if new:
            self._warn({name: records[name] for name in new}, new, learning)
            account.charge([plan.paid for plan in new.values()], self.scope)
            serial = len(account)
        for name, plan in new.items():
            if plan.charge.record:
                note(account, name, records[name])
            rng = generator(self.random_state, name, serial)
            room = account.room(plan.key, records[name].shape) if plan.key else None
            releases[name] = Release(self.noised(records[name], plan.noise, rng, room), plan.noise)
            if plan.key:
                account.remember(plan.key, releases[name])
                releases[name] = account.recall(plan.key)
        return releases

    def _warn(self, records, plans, learning):
        warn_release(self, records, plans, learning)

    def check(self) -> None:
        """Refuse parameters that do not state a promise completely.

        Raises
        ------
        ValueError
            With what is missing.
        TypeError
            If the accountant is none.
        """
        given = getattr(self, "accountant", None)
        if given is not None and not isinstance(given, PrivacyAccountant):
            raise TypeError(
                f"Got `accountant` of type {type(given).__name__}; give a PrivacyAccountant, or leave it out."
            )
        self._validate_params()

    # -- the promise -------------------------------------------------------------------------------

    def statement(
        self, spent: PrivacySpent, names: Sequence[str], n_samples: int, left: str = "everything", *, drawn: bool = True
    ) -> str:
        """The promise in words: unit, relation, bound, composition, what is not covered.

        Parameters
        ----------
        spent : PrivacySpent
        names : sequence of str
            The units.
        n_samples : int
        left : str
            What of all that left the units it is about.
        drawn : bool, default=True
            Also how the noise was drawn, which sites do not tell.

        Returns
        -------
        str
        """
        whole = self.account.spent(spent.delta, names, times=self.scope.count(n_samples)).epsilon
        charges, bounds = self.account.charges_of(names), (self.clip_norm, self.event_radius)
        words = record_statement(self.scope, spent, whole, charges, n_samples, *bounds, left)
        return words + sampled(charges) + together(self.account, names, spent.delta, self.scope) if drawn else words

    # -- one account for this mechanism and its copies ---------------------------------------------

    @property
    def account(self) -> PrivacyAccountant:
        """The :class:`~skfedcausal.PrivacyAccountant` that is charged: one for this mechanism and its clones."""
        if self.accountant is None and not hasattr(self, "_own_accountant"):
            self._own_accountant = PrivacyAccountant()
        return self._own_accountant if self.accountant is None else self.accountant

    @account.setter
    def account(self, account):
        self._own_accountant = account

    def __sklearn_clone__(self):
        twin = type(self)(**self.get_params(deep=False))
        if self.accountant is None:
            twin.account = self.account
        return twin

    __copy__ = __sklearn_clone__

    def __deepcopy__(self, memo):
        return self.__sklearn_clone__()

    def __reduce__(self):
        return self.account.__reduce__()


class NoisedStream:
    """One release of a record whose rows come in batches, all with the noise of an earlier release.

    Batches hold different time steps. An event or a window is in the stream once, however many batches there
    are: the first batch of every period of the account pays for all of them, windows that reach over the
    border of two batches included. A client is in every batch, and every batch pays for its rows. Nothing is
    remembered: rows that come again in another stream are noised and paid for again.
    """

    def __init__(self, mechanism, noise, warn):
        self._mechanism, self._noise, self._warn = mechanism, noise, warn
        self._generators: dict | None = None
        self._period = None

    def release(self, records):
        """The next rows of every unit with noise, and whether they cost something.

        Charged before the noise is drawn: when the accountant does not allow it, the stream stands where it
        stood.
        """
        mechanism = self._mechanism
        account, first = mechanism.account, self._generators is None
        charged = mechanism.pays_per_row or account.period != self._period
        if charged:
            plans = {name: self._plan(name, len(Y)) for name, Y in records.items()}
            if first:
                self._warn(records, plans, False)
            account.charge([plan.paid for plan in plans.values()], mechanism.scope, repeated=not first)
            self._period = account.period
        if self._generators is None:
            names = "stream", len(account)
            self._generators = {name: generator(mechanism.random_state, name, *names) for name in records}
        drawn = {name: mechanism.noised(Y, self._noise[name], self._generators[name]) for name, Y in records.items()}
        return drawn, charged

    def _plan(self, name, n_rows):
        mechanism, noise = self._mechanism, self._noise[name]
        rows = mechanism.scope.window or n_rows  # a window may go on in the next batch
        charge = replace(mechanism.charge_of(name, noise, rows), channel="stream")
        return Plan(noise, charge, void=voids(mechanism, noise, n_rows))


def trial_of(mechanism, epsilon, seed):
    """Twin with another epsilon, seeded noise and an account of its own, to try out what a budget buys."""
    own = mechanism.get_params(deep=False)
    other = {"epsilon": epsilon, "mu": None, "accountant": PrivacyAccountant(), "random_state": seed}
    twin = type(mechanism)(**own | {key: value for key, value in other.items() if key in own})
    twin.account.is_trial = True
    return twin
