"""Noise on the measurements, once, at the unit that owns them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, cast

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from .accountant import PrivacyAccountant, Scope
from .calibration import mu_from_epsilon
from .errors import warn_seeded
from .mechanism import PrivacyMechanism
from .noise import SAMPLERS, Bounds, norms
from .promise import gradient_statement, paper_statement, with_voids


@dataclass(kw_only=True, eq=False, repr=False)
class GaussianMechanism(PrivacyMechanism):
    """Gaussian noise on every unit's measurements: clipped, noised once, remembered.

    A unit clips its measurements to a ball around `center` whose radius is public and adds white Gaussian
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
        Radius of the ball, in units of `scale`. Has to be public: known without looking at the data, from
        the ranges of the sensors say. None takes it from the data, which is a leak: a warning says so and
        every statement says "not private".
    event_radius : float or dict of str to float, default=None
        Largest change that is protected, per time step, in units of `scale`; None for any change inside the
        ball, ``2 * clip_norm`` for the relation "replace". Less than that is a weaker promise.
    unit : {"event", "window", "client"}, default="event"
        What is protected: all measurements of a unit at one time step, at any `window` consecutive ones, or
        at all of them.
    window : int, default=None
        For ``unit="window"``.
    relation : {"replace", "zero_out"}, default="replace"
        Neighbouring records have other values at the protected time steps, or `center` in place of them.
    center : float, array-like or dict, default=0.0
        Middle of the ball: one number, one per column, or a dict of these by unit. Public, as `clip_norm`.
    scale : float, array-like or dict, default=1.0
        Units in which columns are measured against each other; the noise of a column is proportional.
        Public.
    accountant : PrivacyAccountant, default=None
        Shared by all estimators that learn from the same data. None: one of this mechanism and its clones.
    protocol : {"one-shot", "paper"}, default="one-shot"
        "paper", for comparison: measurements are clipped, and a unit adds noise to the states of every time
        step and round of gradient training by the papers' formulas, `epsilon` and `delta` being those of
        each message. That is no promise about a run. The statement says so, and gives the total that the
        papers state beside the exact one for a correction theta that does not depend on the record.
    trust : {"none", "server"}, default="none"
        "server": the server of gradient training (:class:`GradientServer`, or ``RegressorServer(labels=
        "augmented")``) may see the units' states, units must not see each other's. Measurements stay as they
        are, and the gradients that the server sends are clipped and get noise; `epsilon` and `delta` are those of
        the whole training.
    gradient_clip : float, default=None
        For ``trust="server"``: largest norm of the gradient about one time step that a unit is sent. Public.
    sampler : {"auto", "float-grid", "opendp"}, default="auto"
        "opendp" draws exact discrete Gaussians with the optional package of that name, "float-grid" in floating
        point, rounded to a grid. "auto" takes the first where it is installed (66 times slower) and no
        `random_state` is given. The statement says which was used.
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
        "unit": [StrOptions({"event", "window", "client"})],
        "window": [Interval(Integral, 1, None, closed="left"), None],
        "relation": [StrOptions({"replace", "zero_out"})],
        "center": [Real, "array-like", dict],
        "scale": [Interval(Real, 0, None, closed="neither"), "array-like", dict],
        "accountant": [PrivacyAccountant, None],
        "protocol": [StrOptions({"one-shot", "paper"})],
        "trust": [StrOptions({"none", "server"})],
        "gradient_clip": [Interval(Real, 0, None, closed="neither"), None],
        "sampler": [StrOptions({"auto", *SAMPLERS})],
        "random_state": ["random_state"],
    }

    epsilon: float | None = None
    delta: float | None = None
    mu: float | None = None
    clip_norm: Any = None
    event_radius: Any = None
    unit: str = "event"
    window: int | None = None
    relation: str = "replace"
    center: Any = 0.0
    scale: Any = 1.0
    accountant: PrivacyAccountant | None = None
    protocol: str = "one-shot"
    trust: str = "none"
    gradient_clip: float | None = None
    sampler: str = "auto"
    random_state: Any = None

    @property
    def scope(self) -> Scope:
        """Protected unit, a :class:`~skfedcausal.privacy.Scope`."""
        return Scope(self.unit, self.relation, self.window)

    @property
    def place(self) -> str:
        """Place of the noise: added to the "record", to the "messages" of training or to its "gradients"."""
        return "messages" if self.protocol == "paper" else "gradients" if self.trust == "server" else "record"

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
        if (self.unit == "window") != (self.window is not None):
            raise ValueError(f"unit={self.unit!r}, window={self.window}: a window belongs to unit='window' only.")
        return self.mu if self.mu is not None else mu_from_epsilon(cast(float, self.epsilon), cast(float, self.delta))

    def bounds(self, name: str, Y: np.ndarray) -> Bounds:
        """Public ball and protected change of a unit's measurements.

        Parameters
        ----------
        name : str
        Y : ndarray of shape (n_samples, n_features)
            Looked at only if `clip_norm` is None.

        Returns
        -------
        Bounds
        """
        center = _columns(_of(self.center, name, "center"), Y.shape[1], name, "center")
        scale = _columns(_of(self.scale, name, "scale"), Y.shape[1], name, "scale")
        public = self.clip_norm is not None
        clip = _of(self.clip_norm, name, "clip_norm")
        if not public:
            clip = max(float(norms(Y, center, scale).max(initial=0.0)), np.finfo(float).tiny)
        widest = 2.0 * clip if self.relation == "replace" else clip
        radius = widest if self.event_radius is None else _of(self.event_radius, name, "event_radius")
        return Bounds(center, scale, clip, min(radius, widest), public)

    def noise_std(self, bounds: Bounds, n_samples: int) -> tuple[float, float]:
        """Noise standard deviation in units of `scale`, and the sensitivity behind it.

        Parameters
        ----------
        bounds : Bounds
        n_samples : int

        Returns
        -------
        std, sensitivity : float
        """
        noise = self.noise_for(bounds, n_samples, self.mu_of_release())
        return noise.std, self.sensitivity(noise, n_samples)

    def noise_of(self, name, Y):
        """Ball and noise of a release of a unit's record, as much as one release asks for."""
        return self.noise_for(self.bounds(name, Y), len(Y), self.mu_of_release())

    def check(self) -> None:
        """Refuse parameters that do not state a promise completely."""
        self.mu_of_release()

    def _plan(self, name, Y, lengths, noise=None):
        plan = super()._plan(name, Y, lengths, noise)
        if noise is not None:
            return plan
        # the quotient of sensitivity and noise is off by a rounding
        return replace(plan, charge=replace(plan.charge, mu=self.mu_of_release()))

    def check_training(self) -> None:
        """Refuse settings that belong to noise on the record, or lack what noise inside training needs.

        Raises
        ------
        ValueError
            If such a setting is there, or one is missing.
        """
        self.mu_of_release()
        if self.random_state is not None:
            warn_seeded()
        if self.trust == "server" and (self.protocol == "paper" or self.gradient_clip is None):
            raise ValueError(
                f"Got trust='server' with protocol={self.protocol!r} and gradient_clip={self.gradient_clip}; "
                "give protocol='one-shot' and the largest norm of a gradient that is sent."
            )
        if self.place == "gradients":
            return
        events = self.unit == "event" and self.event_radius is None
        if self.clip_norm is None or self.epsilon is None or not events:
            raise ValueError(
                "protocol='paper' needs epsilon and delta of each message and a public clip_norm, and knows "
                f"no unit but the event; got epsilon={self.epsilon}, clip_norm={self.clip_norm}, "
                f"unit={self.unit!r}, event_radius={self.event_radius}."
            )

    def statement(self, spent, names, n_samples, left="everything"):
        """The promise in words: unit, relation, bound, composition, what is not covered."""
        if self.place == "messages":
            return paper_statement(self, spent, names)
        if self.place == "gradients":
            return with_voids(self.account.charges_of(names), gradient_statement(self, spent))
        return super().statement(spent, names, n_samples, left)


def _of(value, name, parameter):
    """A parameter's value for a unit."""
    if not isinstance(value, Mapping):
        return value
    if name not in value:
        raise ValueError(f"`{parameter}` names {sorted(value)} but not the unit {name!r}; give one value per unit.")
    return value[name]


def _columns(value, n_columns, name, parameter):
    value = np.asarray(value, dtype=float)
    if value.ndim > 1 or value.size not in (1, n_columns):
        raise ValueError(
            f"`{parameter}` has shape {value.shape} for unit {name!r}, which has {n_columns} columns; give "
            "one number or one per column."
        )
    if not np.isfinite(value).all() or (parameter == "scale" and (value <= 0).any()):
        raise ValueError(f"`{parameter}` of unit {name!r} has values that are not finite or not allowed.")
    return np.broadcast_to(value, n_columns)
