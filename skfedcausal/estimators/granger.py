"""Federated Granger causality: which unit of a plant drives which."""

from copy import copy
from dataclasses import dataclass
from typing import Any, Self

from sklearn.base import clone
from sklearn.utils._param_validation import StrOptions

from ..arguments import Inputs, Lengths, Record, warn
from ..bases import group_of
from ..client.kalman import KalmanClient
from ..server.validity.report import SHIFTS
from ._parts import with_callbacks
from ._plant import PlantEstimator
from .tuning import TUNING

_OWN_MODEL = ("harmonics", "trend", "mode", "levels")


@dataclass(repr=False, eq=False, kw_only=True)
class FederatedGrangerEstimator(PlantEstimator):
    """Learns which unit of a plant drives which, from low-dimensional messages.

    The plant is ``h[t] = A h[t-1] + w[t-1]``, ``y_m[t] = C_m h_m[t] + v_m[t]``: units own their sensors,
    their states influence each other. Every unit sends once what its measurements say about its own
    states, ``n_states`` numbers per time step; the server learns A. A non-zero block ``A_mn`` is Granger
    causality from unit n to unit m. Raw measurements never leave a unit.

    Parameters
    ----------
    client : KalmanClient, object, list or dict, default=None
        Model of the units: one template for all (cloned), or one per unit as a list or as a dict by name.
        None lets every unit identify itself. Objects other than a KalmanClient are used as they are.
    client_labels : "from_columns", array-like or callable, default="from_columns"
        Which unit a column of a table belongs to: read from ``unit__sensor`` names, or one label per
        column, or a function of the column.
    augmenter : LinearAugmenter or RegressorAugmenter, default=None
        How a unit guesses the influence of the others when the server cannot be reached. None stands for
        :class:`LinearAugmenter`.
    server : LikelihoodServer, GradientServer, RegressorServer or SecureSumsServer, default=None
        How the plant is learned. None stands for a :class:`LikelihoodServer` with ``max_time=10``. More time gives
        better forecasts of some plants; units that report at different rates may need it to settle, and a warning
        says so.
    privacy : GaussianMechanism, default=None
        Noise on every unit's measurements before anything is computed from them. None: no differential
        privacy, messages are data-minimising, not private.
    communication : Communication, default=None
        What carries the messages (``transport=``), how precisely (``wire_dtype=``), at most how many bytes
        (``max_bytes=``), and what is done about units that do not answer (``lost_units=``), see
        :class:`~skfedcausal.Communication`. None: everything stays in this process, and every unit has to answer.
    n_jobs : int, default=None
        Units handled at the same time.
    random_state : int, RandomState instance or None, default=None
        For components that draw random numbers (the start of a GradientServer); the default ones draw none.
    verbose : bool, default=False
        Write what is logged during a `fit` to standard error: every exchange with the units.
    remedy : {"auto"}, default=None
        "auto" fits once more where `validity_` names a setting that would help: `covariance` of the server,
        `harmonics`, `trend` and `levels` (of sensors that wander) of the units, or `levels` of the segments between
        shifts that it finds, without the rows of these, and `remedies_` says which were set. Not for units at sites of
        their own, and not under privacy, which a second fit would spend again. None leaves it to you.

    Attributes
    ----------
    client_names_ : tuple of str
        Units in the order of the plant matrices.
    transition_ : ndarray of shape (n, n)
        Transition matrix of the plant; off-diagonal blocks are shrunk unless the server says otherwise.
    lag_transitions_ : ndarray of shape (p, n, n)
        Those of lags 1 to p, the first of which is `transition_`; of one lag where that is enough.
    process_cov_ : ndarray of shape (n, n)
        Process covariance, block diagonal.
    state_slices_ : dict of str to slice
        States of each unit.
    links_ : DataFrame
        One row per ordered pair of units: ``cause, effect, kind, verdict, basis``, the grade (``strength, low, high,
        total, same_row, driver_needed, evidence, lag``), the likelihood's tests (``norm, stderr, statistic, p_value,
        p_adjusted, geweke``), ``because`` and when it acts; see :class:`LikelihoodServer`. `verdict` is "influence",
        "coupled", "no influence", "negligible" or "cannot tell"; under privacy noise, which hides gains, the
        likelihood's alone, with "shared driver". `strength` is a share of the effect's unpredicted variation, summed
        over the directions of its states, `norm` the Frobenius norm of the block in standardised states. `because` is
        what speaks most against the verdict. ``delay`` and its interval are in rows; for rows with times,
        ``delay_time`` and its interval are in seconds.
    validity_ : DataFrame
        What was checked of the assumptions behind the verdicts: ``check, cause, effect, statistic, p_value,
        passed, remedy``; where cause is effect, a check of a unit.
    remedies_ : tuple of str
        Settings that ``remedy="auto"`` has chosen.
    clients_, augmenters_ : dict of str to object
        Fitted copies at the units; empty if the transport let other workers answer than those it was given.
    server_ : LikelihoodServer
        Fitted copy.
    communication_ : dict
        Ints ``rounds, bytes_up, bytes_down, raw_bytes`` and ``per_client``.
    ledger_ : Ledger
        Every packet that crossed a border.
    lost_units_ : DataFrame
        Answers that the fit went without: ``unit, round, operation, reason``.
    privacy_spent_ : PrivacySpent
        Floats ``epsilon, delta, mu`` of the unit with the largest epsilon and what is protected, as of this
        estimator's last release. Infinite without a mechanism.
    privacy_ledger_ : DataFrame
        Every charge of the accountant.
    privacy_statement_ : str
        The promise in words: who is protected, from whom, bound, composition, what is not covered.
    noise_covariance_ : dict of str to ndarray of shape (n_features_m, n_features_m)
        Of the noise on each unit's measurements, part of its measurement noise; empty without a mechanism.
    layout_ : PlantLayout
        Units and columns.
    n_features_in_ : int
    feature_names_in_ : ndarray of str of shape (n_features,)

    See Also
    --------
    KalmanClient : A unit's own model.
    LikelihoodServer : How the plant is learned and what the tests condition on.

    Notes
    -----
    The messages are sufficient statistics, so `transition_` equals the estimate of a central machine with
    all raw data and the same unit models up to rounding (:func:`~skfedcausal.inspection.oracle`).

    References
    ----------
    .. [1] Mohanty, Mohamed, Ramanan, Gebraeel, Federated Granger Causality Learning for Interdependent
           Clients with State Space Representation.

    Examples
    --------
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> X, truth = make_granger_plant(n_units=3, links=[("unit0", "unit2")], random_state=0)
    >>> est = FederatedGrangerEstimator().fit(X)
    >>> est.links_.query("p_adjusted < 0.05")[["cause", "effect", "verdict"]].to_string(index=False)
    'cause effect   verdict\\nunit0  unit2 influence'
    """

    remedy: str | None = None

    _parameter_constraints = {**PlantEstimator._parameter_constraints, "remedy": [StrOptions({"auto"}), None]}
    _server_settings = {"max_time": 10.0}  # seconds: on networks of other plants more told no other link
    _needs_rows = False
    _leaves_out_still_units = True

    @with_callbacks
    def fit(self, X: Record, y: Any = None, *, inputs: Inputs = None, lengths: Lengths = None) -> Self:
        """Learn the plant.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
            Measurements of all units, NaN where missing; see the user guide for the containers.
        y : None
            Ignored.
        inputs : list or dict, default=None
            Must be None here: inputs belong to the counterfactual estimator.
        lengths : sequence of int, default=None
            Time steps of each episode; None for one episode.

        Returns
        -------
        self : FederatedGrangerEstimator

        Raises
        ------
        TypeError, ValueError
            If X is none of the containers or its content cannot be used (names, lengths, infinities,
            objects, too few rows), or `inputs` are given.
        ClientError
            If a unit gave no usable message.

        Warns
        -----
        UserWarning
            For columns that never change, units of nothing but these, which are left out, and a frame that names no
            units.
        ConvergenceWarning
            If the likelihood did not converge.
        """
        self._validate_params()
        if self.remedy is not None and self.privacy is not None:
            raise ValueError(
                "remedy='auto' may fit twice, and privacy would be spent twice; fit without a remedy, read `validity_` "
                "and choose the settings yourself."
            )
        plant = self._read_new(X, inputs, lengths)
        if plant.n_units == 1:
            warn(
                f"X has one unit, {plant.names[0]!r}: there are no pairs, and links_ stays empty. Name columns "
                "'client__sensor', or give `client_labels`."
            )
        self._fit_units(plant)
        self.remedies_: tuple[str, ...] = ()
        return self if self.remedy is None else self._remedied(plant)

    def _remedied(self, plant):
        """Fit again with what `validity_` asks for; the estimator itself, with the settings it had."""
        settings, done, segments = remedies(self)
        if segments is not None:
            cut = self._fitted_with(settings, plant.stretches(segments), done)
            if not is_driven(cut.validity_):
                self.__dict__.update(cut.__dict__)
                return self
            settings, done, _ = remedies(self, cut=False)  # what moves the units goes on between the shifts
        if done:
            self.__dict__.update(self._fitted_with(settings, plant, done).__dict__)
        return self

    def _fitted_with(self, settings, plant, done):
        """A copy that learned with other settings and has its own again; a fit that fails leaves nothing."""
        other, before = copy(self), self.get_params(deep=False)
        other.set_params(**settings)
        self._taught(other, plant)
        other.set_params(**before)
        other.remedies_ = done
        return other


# -- what an estimator does by itself about assumptions that do not hold ---------------------------


def is_driven(table):
    """Whether something that nobody measures seems to move units."""
    return bool((table["check"].eq("no shared driver") & ~table["passed"]).any())


def remedies(estimator, cut=True):
    """Settings to fit with again, what they are in words, and the segments of rows to keep (None: all).

    The record may be cut where `cut`.
    """
    table = estimator.validity_
    failed = set(table.loc[~table["passed"], "check"])
    settings: dict[str, Any] = {}
    done: list[str] = []
    server = clone(estimator.server_)
    if "common variance" in failed and server.covariance == "information":
        settings["server"] = server.set_params(covariance="sandwich")
        done.append('covariance="sandwich"')
    client = KalmanClient() if estimator.client is None else estimator.client
    segments = None
    if isinstance(client, KalmanClient):  # others stay
        cut = cut and "steady sensors" not in failed  # levels that wander shift everywhere
        segments = _segments(table, client, estimator.server_.n_samples_) if cut else None
        wanted = {"levels": "episode"} if segments else _asked(client, failed)
        if wanted:
            settings["client"] = clone(client).set_params(**{f"baseline__{name}": one for name, one in wanted.items()})
        done += [f'{option}="{value}"' for option, value in wanted.items()]
    return settings, tuple(done), segments


def _asked(client, failed):
    """Have every unit take off what some have; settings that were given stay. Levels that move are trends as well."""
    options = group_of(client, "baseline").taken_off()
    drifts = "steady sensors" in failed and options["levels"] is None
    slow = {"steady sensors": ("levels", "wander")} if drifts else {"no trend": ("trend", "smooth")}
    wanted = {"no season": ("harmonics", "auto"), **slow}
    asked = {option: value for check, (option, value) in wanted.items() if check in failed}
    return {option: value for option, value in asked.items() if options[option] is None}


def _segments(table, client, n_samples):
    """Rows (start, stop) between shifts of levels, None where none were found or levels are taken off already."""
    shifts = table.attrs.get(SHIFTS)
    options = group_of(client, "baseline").taken_off()
    if not shifts or any(options[option] is not None for option in _OWN_MODEL):
        return None
    edges = [0, *(row for shift in shifts for row in shift), n_samples]
    return [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if b - a >= TUNING.granger_shortest]
