"""Mechanisms: how much noise, on measurements or flags, what it costs, and the promise in words."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, cast

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from ..arguments import ByUnit, Lengths, Seed, as_numbers
from ..bases import Checked, Grouped
from .accountant import Charge, PrivacyAccountant, PrivacySpent, Scope, check_scope
from .calibration import (
    Bounds,
    NoiseOptions,
    UnitNoise,
    clipped,
    generator,
    grid_of,
    mu_from_epsilon,
    normal_noise,
    norms,
    on_grid,
    pieces,
    warn_release,
    warn_seeded,
    warn_weak_epsilon,
)
from .promise import (
    chosen_sampler,
    identity,
    note,
    record_statement,
    response_statement,
    sampled,
    together,
    voids,
    with_voids,
)

# The contract of a mechanism: how much noise, what it costs, and the promise in words.


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
        "bounds": "skfedcausal.privacy.mechanism.bounds_of(mechanism, ...)",
        "frequencies": "skfedcausal.privacy.mechanism.pair_frequencies(mechanism, ...)",
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


# Noise on the measurements, once, at the unit that owns them.


@dataclass(kw_only=True, eq=False, repr=False)
class GaussianMechanism(Grouped, PrivacyMechanism):
    """Gaussian noise on every unit's measurements: clipped, noised once, remembered.

    A unit clips its measurements to a ball around a center (of `noise`) whose radius is public and adds white Gaussian
    noise, before anything is computed from them. Models, messages, training, replies, flags and
    counterfactuals are post-processing of the noised record: they cost nothing more, however many rounds they
    take. The noise covariance is part of the units' measurement noise, so that filters, likelihoods and
    tests account for it.

    Parameters
    ----------
    epsilon : float, default=None
        Of one release, with `delta`. Give this or `mu`; there is no default.
    delta : float, default=None
        Well below one over the number of protected units.
    mu : float, default=None
        Gaussian-DP parameter of one release instead of `epsilon`; `delta` is only for reporting then.
    clip_norm : float or dict of str to float, default=None
        Radius of the ball, in units of the scale of `noise`. Has to be public: known without looking at the data, from
        the ranges of the sensors say. None takes it from the data, which is a leak: a warning says so and
        every statement says "not private".
    event_radius : float or dict of str to float, default=None
        Largest change that is protected, per time step, in the same units; None for any change inside the
        ball, ``2 * clip_norm`` for the relation "replace". Less than that is a weaker promise.
    protects : {"event", "client"} or Scope, default="event"
        What is protected: all measurements of a unit at one time step, or at all of them. A
        :class:`~skfedcausal.privacy.Scope` also names so many consecutive time steps, ``Scope("window", window=60)``,
        and how neighbouring records differ: they have other values at the protected time steps ("replace"), or the
        center of the ball in place of them, ``Scope("event", "zero_out")``.
    noise : NoiseOptions, default=None
        Middle and axes of the ball, and what draws the noise, see :class:`~skfedcausal.privacy.NoiseOptions`.
    accountant : PrivacyAccountant, default=None
        Shared by all estimators that learn from the same data. None: one of this mechanism and its clones.
    random_state : int, RandomState or None, default=None
        Anything but None makes the noise reproducible by whoever knows it: it warns, the statement begins with NOT
        PRIVATE, and the epsilon that is spent is infinite. The estimator's own `random_state` is never used.

    Raises
    ------
    PrivacyBudgetError
        When used: if a release would exceed the accountant's budget. Nothing is released then.

    Warns
    -----
    PrivacyLeakWarning
        If a bound comes from the data.
    SeededNoiseWarning
        If the noise is reproducible.
    WeakPrivacyWarning
        If epsilon is above 10, or delta above one over the number of protected units.
    UtilityWarning
        If the noise leaves nothing to be learned, or much of the record is clipped. Computed from the raw
        record at the unit, before anything is spent; not part of a release.

    See Also
    --------
    PrivacyAccountant : Budget and ledger.
    RandomizedResponse : For flags.

    Notes
    -----
    One time step's measurements move the noised record by at most the event radius r, a window's by
    ``r sqrt(window)``, a client's by ``r sqrt(n_samples)``, whatever is computed from it afterwards; the
    noise is that over mu. Noise on a linear summary ``G y`` is best if it is the image of noise on y, and
    noise on a filtered trajectory is never better for the same mu [1]_.

    Public, not protected: names, number of columns, number of rows, which values are missing, inputs,
    matrices given to the units' clients.

    References
    ----------
    .. [1] Le Ny, Pappas (2014), Differentially private filtering, IEEE Transactions on Automatic Control
           59(2).
    .. [2] Balle, Wang (2018), Improving the Gaussian mechanism for differential privacy, ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal import GaussianMechanism
    >>> Y = np.sin(np.arange(8000.0).reshape(4000, 2))  # never further than sqrt(2) from zero
    >>> mechanism = GaussianMechanism(epsilon=8.0, delta=1e-6, clip_norm=1.5)
    >>> release = mechanism.release({"boiler": Y}, lengths=(4000,))["boiler"]
    >>> release.values.shape
    (4000, 2)
    >>> np.sqrt(release.variance).round(2)  # 2 * 1.5 / mu
    array([1.96, 1.96])
    """

    _parameter_constraints = {
        "epsilon": [Interval(Real, 0, None, closed="neither"), None],
        "delta": [Interval(Real, 0, 1, closed="neither"), None],
        "mu": [Interval(Real, 0, None, closed="neither"), None],
        "clip_norm": [Interval(Real, 0, None, closed="neither"), dict, None],
        "event_radius": [Interval(Real, 0, None, closed="neither"), dict, None],
        "protects": [StrOptions({"event", "client"}), Scope],
        "noise": [NoiseOptions, None],
        "accountant": [PrivacyAccountant, None],
        "random_state": ["random_state"],
    }

    _groups = {"noise": NoiseOptions}
    _renamed = {
        **dict.fromkeys(("unit", "window", "relation"), "GaussianMechanism(protects=Scope(unit, relation, window))"),
        **dict.fromkeys(("protocol", "trust", "gradient_clip"), "skfedcausal.papers.TrainingMechanism has it"),
    }

    epsilon: float | None = None
    delta: float | None = None
    mu: float | None = None
    clip_norm: ByUnit = None
    event_radius: ByUnit = None
    protects: str | Scope = "event"
    noise: NoiseOptions | None = None
    accountant: PrivacyAccountant | None = None
    random_state: Seed = None

    @property
    def scope(self) -> Scope:
        """Protected unit, a :class:`~skfedcausal.privacy.Scope`."""
        return self.protects if isinstance(self.protects, Scope) else Scope(self.protects)

    def mu_of_release(self) -> float:
        """Gaussian-DP parameter of one release.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If the promise is not stated completely.
        """
        self._validate_params()
        if (self.epsilon is None) == (self.mu is None):
            raise ValueError(f"epsilon={self.epsilon}, mu={self.mu}: give exactly one of them. There is no default.")
        if self.epsilon is not None and self.delta is None:
            raise ValueError("epsilon needs a `delta`, well below one over the number of protected units.")
        check_scope(self.scope)
        return self.mu if self.mu is not None else mu_from_epsilon(cast(float, self.epsilon), cast(float, self.delta))

    def noise_of(self, name, Y):
        """Ball and noise of a release of a unit's record, as much as one release asks for."""
        return self.noise_for(bounds_of(self, name, Y), len(Y), self.mu_of_release())

    def check(self) -> None:
        """Refuse parameters that do not state a promise completely."""
        self.mu_of_release()

    def _plan(self, name, Y, lengths, noise=None):
        plan = super()._plan(name, Y, lengths, noise)
        if noise is not None:
            return plan
        # the quotient of sensitivity and noise is off by a rounding
        return replace(plan, charge=replace(plan.charge, mu=self.mu_of_release()))


def bounds_of(mechanism, name, Y):
    """Public ball and protected change of a unit's measurements, by a :class:`GaussianMechanism`.

    Parameters
    ----------
    mechanism : GaussianMechanism
    name : str
    Y : ndarray of shape (n_samples, n_features)
        Looked at only if `clip_norm` is None.

    Returns
    -------
    Bounds
    """
    center = _columns(_of(mechanism.center, name, "center"), Y.shape[1], name, "center")
    scale = _columns(_of(mechanism.scale, name, "scale"), Y.shape[1], name, "scale")
    public = mechanism.clip_norm is not None
    if public:
        clip = _norm(mechanism.clip_norm, name, "clip_norm")
    else:
        clip = max(float(norms(Y, center, scale).max(initial=0.0)), np.finfo(float).tiny)
    widest = 2.0 * clip if mechanism.scope.relation == "replace" else clip
    radius = widest if mechanism.event_radius is None else _norm(mechanism.event_radius, name, "event_radius")
    return Bounds(center, scale, clip, min(radius, widest), public)


def _of(value, name, parameter):
    """A parameter's value for a unit."""
    if not isinstance(value, Mapping):
        return value
    if name not in value:
        raise ValueError(f"`{parameter}` names {sorted(value)} but not the unit {name!r}; give one value per unit.")
    return value[name]


def _norm(value, name, parameter):
    """A length in the space of a unit's measurements."""
    value = _of(value, name, parameter)
    if not isinstance(value, Real) or not 0 < float(value) < np.inf:
        raise ValueError(f"Got `{parameter}` {value!r} for unit {name!r}; give a number above zero.")
    return float(value)


def _columns(value, n_columns, name, parameter):
    numbers = as_numbers(value, f"`{parameter}` of unit {name!r}")
    if np.ndim(value) > 1 or numbers.size not in (1, n_columns):
        raise ValueError(
            f"`{parameter}` has shape {np.shape(value)} for unit {name!r}, which has {n_columns} columns; give "
            "one number or one per column."
        )
    if parameter == "scale" and (numbers <= 0).any():
        raise ValueError(f"`scale` of unit {name!r} has values that are not above zero.")
    return np.broadcast_to(numbers, n_columns)


# Randomised response for pairs of flags.

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
