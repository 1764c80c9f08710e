"""A unit's own linear model: identified locally or given, usable alone or as part of a federation."""

import warnings
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import validate_data

from ..arguments import rows_of_numbers
from ..callers import warn
from ..containers import check_lengths, episode_starts
from ..given import Lengths
from ..parameters import group_of
from ..statespace.matrices import are_covariances
from . import records
from .baseline_options import Baseline, HasBaseline
from .filtering import check_initial
from .given import COMPLETE, GIVEN, check_matrices, checked_gain, given_matrices, restricted
from .identification import METHODS, dynamics, identify, split_variance
from .moments import Moments
from .shifts import without_shifts
from .tuning import TUNING
from .unit_model import UnitClient, UnitModel, with_diagonal

_TINY = 1e-153  # standard deviation whose square can still be computed with


@dataclass(repr=False, eq=False)
class KalmanClient(HasBaseline, UnitClient):
    """Kalman filter of one unit, with matrices given or identified from the unit's own data.

    The model is ``h[t] = A h[t-1] + B u[t-1] + w[t-1]``, ``y[t] = mean + C h[t] + v[t]`` with white Gaussian
    noise of covariances Q and R. NaN stands for a measurement that is missing; filter and likelihood are
    exact for any pattern of missing measurements.

    Parameters
    ----------
    A : array-like of shape (n_states, n_states), default=None
        Transition matrix. Given matrices are used as they are; the others are identified (A and Q only
        once C is given, and A with Q).
    B : array-like of shape (n_states, n_inputs), default=None
        Input matrix.
    C : array-like of shape (n_features, n_states), default=None
        Observation matrix.
    Q : array-like of shape (n_states, n_states), default=None
        Process noise covariance.
    R : array-like of shape (n_features, n_features) or (n_features,), default=None
        Measurement noise covariance, or its diagonal.
    identify : {"cva-var", "lag-var", "pca-var", "subspace"}, default="cva-var"
        How matrices that are not given are found, see Notes.
    n_states : int or "auto", default="auto"
        Number of states to identify. "auto" chooses at most one per sensor: those that the past predicts by
        sequential tests of canonical correlations, or more where they do not explain how sensors vary
        together within a row, or where both indicate a further one. A larger number, at most five per
        sensor, gives dynamics of higher order; a server then has less to go by, and may refuse.
    gain : array-like of shape (n_states, n_features), default=None
        A chosen constant gain K: the filter is then ``h[t] = A h[t-1] + B u[t-1]`` plus ``K (y[t] - mean - C
        h[t])``, as Algorithm 1 of the first paper has it. None is the Kalman gain, from the stationary
        covariance on. Likelihoods and messages still use Q and R.
    baseline : Baseline, default=None
        What the unit removes from its own record because row numbers alone predict it,
        ``Baseline(harmonics=24, trend="linear")``: the operating point, seasons, a trend, modes and levels of episodes,
        see :class:`Baseline`. None removes the operating point and, of rows with times, what the times predict.
    initial : {"stationary", "diffuse"} or tuple (mean, covariance), default="stationary"
        State h in the first row of every episode, for the unit's own filter, predictions, likelihood and
        smoother: of the stationary distribution (where A has none, of the steady errors of prediction around zero),
        of which nothing is known (exactly), or of a normal distribution with that mean and covariance. A server has
        its own.

    Attributes
    ----------
    transition_, process_cov_ : ndarray of shape (n_states, n_states)
    input_ : ndarray of shape (n_states, n_inputs) or None
    observation_ : ndarray of shape (n_features, n_states)
        Zero in the rows of constant columns.
    measurement_cov_ : ndarray of shape (n_features,) or (n_features, n_features)
        Infinite variance stands for a constant column.
    mean_ : ndarray of shape (n_features,)
    input_mean_ : ndarray of shape (n_inputs,) or None
        Inputs act through their difference to it; None stands for zero, or for a model without inputs.
    n_states_ : int
    baseline_ : object or None
        What was removed, as it was learned.
    n_features_in_ : int
    feature_names_in_ : ndarray of str of shape (n_features,)

    See Also
    --------
    skfedcausal.FederatedGrangerEstimator : Learns how units influence each other from their messages.

    Notes
    -----
    "pca-var" takes the directions of largest variance for the column space of C (the method of [1]_,
    section 9). It mistakes unequal sensor noise for signal; "lag-var" takes the directions of largest
    lagged covariance [2]_, "cva-var" the canonical variates of the present given the past [3]_ and
    "subspace" the observability space in the Hankel matrix of a long autoregression, all of which white
    sensor noise does not disturb. In all of them the states follow a first-order vector autoregression,
    driven by the inputs where `fit` is given any, and corrected for the measurement noise left in the
    states; "pca-var" and "subspace" leave the autoregressions of complete records to statsmodels, the others
    need lag covariances only. Missing cells are exact in the filter; in identification they are taken to be
    missing at random, and a pair of sensors that is never there at the same time tells nothing. A transition
    matrix identified alone is biased by the influence of other units; a server that sees all units
    re-estimates it.

    With more states than sensors, `identify` is not used: the measured quantities follow an autoregression
    of as many lags as it takes, in observer form, with the share of sensor noise of the best likelihood.

    With C given and the rest not, the noise and the dynamics are identified; with C and R, the dynamics.

    Seasons, trend, modes and levels are one regression of the record on columns that the number, the mode and
    the episode of a row determine; the model is that of its residuals, and predictions have them added again.
    Rows are numbered by the index of a table (times, or whole numbers) from the first row of the record of `fit`
    on. Without an index, a record that begins with the first row of that record is numbered like it, and
    any other is taken to come after it.

    References
    ----------
    .. [1] Mohanty, Mohamed, Ramanan, Gebraeel, Federated Granger Causality Learning for Interdependent
           Clients with State Space Representation.
    .. [2] Lam, Yao (2012), Factor modeling for high-dimensional time series, Annals of Statistics 40(2).
    .. [3] Larimore (1990), Canonical variate analysis in identification, filtering and adaptive control.

    Examples
    --------
    >>> from skfedcausal import KalmanClient
    >>> from skfedcausal.datasets import make_granger_plant
    >>> X, truth = make_granger_plant(n_units=1, random_state=0)
    >>> client = KalmanClient().fit(X["unit0"])
    >>> client.n_states_
    2
    >>> client.transform(X["unit0"]).shape
    (2000, 2)
    """

    A: Any = None
    B: Any = None
    C: Any = None
    Q: Any = None
    R: Any = None
    _: KW_ONLY
    identify: str = "cva-var"
    n_states: int | Literal["auto"] = "auto"
    gain: Any = None
    baseline: Baseline | None = None
    initial: Any = "stationary"

    _parameter_constraints = {
        **{name: ["array-like", None] for name in GIVEN},
        "identify": [StrOptions(set(METHODS))],
        "n_states": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "gain": ["array-like", None],
        "baseline": [Baseline, None],
        "initial": [StrOptions({"stationary", "diffuse"}), tuple],
    }
    _groups = {"baseline": Baseline}
    _renamed = {
        "noise_memory": "no table showed what models of noise with a memory buy, leave it out; for sensors that wander "
        "give baseline=Baseline(levels='wander')"
    }

    def fit(self, X: ArrayLike, y: Any = None, *, inputs: ArrayLike | None = None, lengths: Lengths = None) -> Self:
        """Estimate the level of the measurements and identify every matrix that was not given.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Measurements, NaN where missing.
        y : None
            Ignored.
        inputs : array-like of shape (n_samples, n_inputs), default=None
        lengths : sequence of int, default=None
            Time steps of each episode; None for one episode.

        Returns
        -------
        self : KalmanClient

        Raises
        ------
        ValueError
            If shapes do not fit, a given matrix is invalid, the record is too short or every column is
            constant.

        Warns
        -----
        UserWarning
            If a column is constant, or inputs are given but no matrix takes them up.
        ConvergenceWarning
            If sensor noise and states can hardly be told apart.
        """
        if isinstance(X, records.UnitRows):  # as a worker gives them, which has checked them
            return self._learn(X)
        with rows_of_numbers(X):
            Y = validate_data(self, X, dtype=float, ensure_all_finite="allow-nan", ensure_min_samples=2)
        U = records.as_inputs(inputs, len(Y))
        columns, index = getattr(self, "feature_names_in_", None), getattr(X, "index", None)
        starts = episode_starts(check_lengths(lengths, len(Y)))
        self._learn(records.UnitRows(Y, U, starts, columns=columns, row_index=index))
        if U is not None and self.input_ is None:
            records.warn_inputs_ignored()
        return self

    def _learn(self, rows):
        """Learn from rows that were checked, :class:`UnitRows`."""
        Y, U, starts, name, columns, noise, index, least_shift = rows
        self._validate_params()
        given = {name: getattr(self, name) for name in GIVEN if getattr(self, name) is not None}
        if given:
            given = check_matrices(given, Y.shape[1])
        records.check_inputs_fit(U, given.get("B"), name)
        active = records.active_columns(Y, name, columns)
        Y, active, baseline = self._off_baseline(Y, active, index, starts, name, columns, is_noised=noise is not None)
        given = restricted(given, active) if given else given
        kept = Y if active.all() else Y[:, active]
        records.warn_held_rows(kept, starts, name)
        if noise is None:
            labels = range(len(active)) if columns is None or not len(columns) else columns
            records.warn_of_damage(kept, starts, name, np.array(labels)[active])
        added = np.zeros(kept.shape[1]) if noise is None else noise[active]
        # nothing is stored before all has been checked, for a fit that fails leaves the client as it was
        level, input_level = None, None  # those of the record
        if not self.center:
            level, input_level = np.zeros(kept.shape[1]), None if U is None else np.zeros(U.shape[1])
        if set(given) >= COMPLETE:
            level = records.column_means(kept) if level is None else level
            model = UnitModel(mean=level, **given | {"R": with_diagonal(given["R"], added)})
        else:
            records.check_identifiable(kept, self.n_states, starts, name)
            model, input_level = self._completed(kept, given, U, starts, name, added, level, input_level, least_shift)
        if self.gain is not None:
            model = replace(model, gain=checked_gain(self.gain, model, active))
        if model.B is not None:
            if U is not None and input_level is None:
                input_level = records.column_means(U)
            model = replace(model, input_mean=input_level)
        model = self._from_initial(model)
        self.baseline_, self._added_noise = baseline, added
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # columns that were never seen
            self._keep(model, active, np.nanmean(Y[:, ~active], axis=0))
        return self

    def _completed(self, kept, given, U, starts, name, added, level, input_level, least_shift):
        """The model with what is not given identified, and the level of the inputs.

        `kept` (n_samples, n_used) and `U` (n_samples, n_inputs) or None have the levels `level` and `input_level`, None
        for those of the record; `added` (n_used,) is the variance of noise that was added on purpose, `least_shift` see
        `UnitRows`.
        """
        unknown = "A" not in given  # with A and Q given, inputs are of no use here
        try:
            steady = kept if level is not None or U is not None else without_shifts(kept, starts, least_shift)
            moments = Moments(steady, level, starts, U if unknown else None, input_level, added)
        except np.linalg.LinAlgError:
            raise _beyond_squares(name) from None
        model = _checked_identification(self, given, moments, name)
        if steady is not kept:  # what is sent has the shifts
            moments = Moments(kept, level, starts, noise=added)
            model = replace(model, products=moments.products, variance=steady.var(axis=0))
        if not given and moments.complete:
            model = replace(model, own_past=moments.own_past())
        return model, moments.input_mean

    def _off_baseline(self, Y, active, index, starts, name, columns, *, is_noised):
        """Measurements (n_samples, n_features) less their baseline, which columns that leaves, and the baseline."""
        options = group_of(self, "baseline").taken_off()
        if is_noised or not isinstance(index, pd.DatetimeIndex):
            options["profile"] = None  # noise would hide whether it pays; rows of other records have no place in it
        if all(wanted is None for wanted in options.values()):
            return Y, active, None
        from .baseline import learned_baseline  # of clients that were asked for one

        baseline = learned_baseline(
            Y, options, index=index, starts=starts, name=name, columns=columns, noised=is_noised
        )
        if baseline is None:
            return Y, active, None
        active, rest = active.copy(), Y - baseline.of(Y, index, starts)[0]
        active[baseline.known] = False
        return rest, records.left_columns(Y, rest, active, name, columns), baseline

    @property
    def model(self) -> UnitModel:
        """The unit's model over its active columns, a `UnitModel`.

        Before `fit`, given matrices with a level of zero.
        """
        if hasattr(self, "_model"):
            return self._model
        if any(getattr(self, name) is None for name in COMPLETE):
            raise NotFittedError("This KalmanClient has no model yet: call fit, or give the matrices A, C, Q and R.")
        given = given_matrices(self)
        model = self._from_initial(UnitModel(mean=np.zeros(len(given["C"])), **given))
        if self.gain is None:
            return model
        return replace(model, gain=checked_gain(self.gain, model, np.ones(len(model.C), dtype=bool)))

    def _from_initial(self, model):
        """The model with the initial state that was asked for."""
        if isinstance(self.initial, str) and self.initial == "stationary":
            return model
        if not (isinstance(self.initial, str) and self.initial == "diffuse"):
            check_initial(self.initial, model.n_states)
        return replace(model, initial=self.initial)


def _beyond_squares(name):
    return ValueError(
        f"Measurements of {name} are so large or small that their squares cannot be computed. Give them in other "
        "units, and take out values that no sensor can have reported."
    )


def _checked_identification(client, given, moments, name):
    """The identified model, or what is the matter with the measurements that no model could be."""
    if not (np.isfinite(moments.scale).all() and moments.scale.min() > _TINY):
        raise _beyond_squares(name)
    if len(moments.scale) > 1 and np.linalg.eigvalsh(moments.G[0])[-2] < TUNING.kalman_one_and_all:
        warn(
            f"The {len(moments.scale)} columns of {name} are multiples of one of them: they are one measurement, and "
            f"count as {len(moments.scale)} with hardly any noise. Keep one column.",
        )
    try:
        model = _identified(client, given, moments, name)
        if are_covariances(model.Q[None]):
            return replace(model, products=moments.products)
    except np.linalg.LinAlgError:
        pass
    raise ValueError(
        f"The {len(moments.scale)} columns of {name} that vary do not let its states be told apart: they determine "
        "each other exactly, or a few values exceed all others by far. Give fewer states (n_states), leave out "
        "copies of columns, or take such values out."
    )


def _identified(client, given, moments, name):
    """Model with the matrices that were not given identified from the data."""
    if "C" not in given:
        return identify(moments, client.identify, client.n_states)
    C = given["C"] / moments.scale[:, None]
    p = C.shape[1]
    if np.linalg.matrix_rank(C) < p:
        raise ValueError(
            f"The {len(C)} columns of {name} that vary do not tell the {p} states of the given C apart, so "
            "nothing about them can be identified. Give A, Q and R too, or a C of full column rank."
        )
    if "R" in given:
        R = with_diagonal(given["R"], moments.added * moments.scale**2)
    else:
        R = split_variance(moments, C)[1] * moments.scale**2
    if "A" in given:
        return UnitModel(given["A"], given["C"], given["Q"], R, moments.mean, given.get("B"))
    diagonal = R if R.ndim == 1 else np.diag(R)
    A, Q, B = dynamics(moments, C, diagonal / moments.scale**2, B=given.get("B"))
    return UnitModel(A, given["C"], given.get("Q", Q), R, moments.mean, B)
