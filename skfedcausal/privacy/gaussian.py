"""Noise on the measurements, once, at the unit that owns them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import cast

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from ..arguments import as_numbers
from ..given import ByUnit, Seed
from ..parameters import Grouped
from .accountant import PrivacyAccountant, Scope, check_scope
from .calibration import mu_from_epsilon
from .mechanism import PrivacyMechanism
from .noise import Bounds, NoiseOptions, norms


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
