"""A unit's own linear model as plain arrays, however it was learned, and what it can say with it."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from ..arguments import Lengths, checked, rows_of_numbers, warn
from ..bases import Checked, ClassNamePrefixFeaturesOutMixin, TransformerMixin, Versioned
from ..containers import check_lengths, episode_starts
from ..containers.arrays import is_fine
from ..message.states import StateMessage
from ..statespace.em import observation_step
from ..statespace.episodes import column_mean, episode_lengths, episodes
from ..statespace.inputs import input_term
from ..statespace.kalman import (
    CovarianceSchedule,
    NotStationaryError,
    covariance_schedule,
    filter_missing,
    filtered_states,
    log_likelihood_terms,
    predicted_covariance,
    predicted_states,
    stationary_covariance,
)
from ..statespace.matrices import are_covariances, are_heavy, floor_eigenvalues, remembered
from ..statespace.observation import information, weights
from .moments import OwnDensity, OwnPast, ResidualModel, bic_penalty
from .records import as_inputs, check_inputs_fit, check_matrices, in_use, warn_inputs_ignored, with_diagonal
from .tuning import TUNING

# What a unit can say once it has a linear model: states, predictions, likelihoods and its message.
#
# Filter and smoother from a start of the user's choice go through statsmodels.


class CheckedRecord(NamedTuple):
    """A record that was checked, and the model that is to look at it."""

    model: Any
    Y: np.ndarray  # (n_samples, n_used), less what the unit's own model removes
    U: np.ndarray | None  # (n_samples, n_inputs)
    starts: tuple[int, ...]  # first rows of episodes
    off: np.ndarray | None  # (n_samples, n_features), what the unit's own model removes


class UnitFilter(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Versioned, Checked):
    """Methods of an estimator that has a `UnitModel` as `model`; base of :class:`~skfedcausal.UnitClient`."""

    baseline_: Any = None  # of a client that takes one off
    mean_: np.ndarray
    _active: np.ndarray
    fit: Callable[..., Any]
    model: Any

    def _read(self, X, inputs, lengths):
        """The model, and a record as it looks at it."""
        model, index = self.model, getattr(X, "index", None)
        checks = {"dtype": float, "ensure_all_finite": "allow-nan"}
        if type(X) is np.ndarray and not hasattr(self, "feature_names_in_") and X.shape[1:] == (len(model.C),):
            Y = X if is_fine(X, 1, 1) else check_array(X, estimator=self, input_name="X", **checks)
        elif hasattr(self, "_model"):
            with rows_of_numbers(X):
                Y = validate_data(self, X, reset=False, **checks)
        else:
            with rows_of_numbers(X):
                Y = check_array(X, estimator=self, input_name="X", **checks)
            if Y.shape[1] != len(model.C):
                raise ValueError(
                    f"X has {Y.shape[1]} features, but {type(self).__name__} is expecting {len(model.C)} "
                    "features as input, one per row of C."
                )
        U = as_inputs(inputs, len(Y))
        check_inputs_fit(U, model.B)
        if U is not None and model.B is None:
            warn_inputs_ignored()
        starts, off = episode_starts(check_lengths(lengths, len(Y))), None
        if self.baseline_ is not None:
            off = self.baseline_.of(Y, index, starts)[0]
            Y = Y - off
        return CheckedRecord(model, in_use(self, Y), U, starts, off)

    def transform(self, X: ArrayLike, *, inputs: ArrayLike | None = None, lengths: Lengths = None) -> np.ndarray:
        """Filtered states ``E[h_t | y_1, ..., y_t]``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        inputs : array-like of shape (n_samples, n_inputs), default=None
        lengths : sequence of int, default=None

        Returns
        -------
        H : ndarray of shape (n_samples, n_states)
        """
        return self.filter(X, inputs=inputs, lengths=lengths)

    def fit_transform(  # type: ignore[override]
        self, X: ArrayLike, y: Any = None, *, inputs: ArrayLike | None = None, lengths: Lengths = None
    ) -> np.ndarray:
        """Fit, then return the filtered states of the same record with the same inputs and episodes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : None
            Ignored.
        inputs : array-like of shape (n_samples, n_inputs), default=None
        lengths : sequence of int, default=None

        Returns
        -------
        H : ndarray of shape (n_samples, n_states)
        """
        return self.fit(X, inputs=inputs, lengths=lengths).transform(X, inputs=inputs, lengths=lengths)

    def filter(self, X: ArrayLike, *, inputs: ArrayLike | None = None, lengths: Lengths = None) -> np.ndarray:
        """Filtered states; another name for :meth:`transform` that ignores ``set_output``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        inputs : array-like of shape (n_samples, n_inputs), default=None
        lengths : sequence of int, default=None

        Returns
        -------
        H : ndarray of shape (n_samples, n_states)
        """
        read = self._read(X, inputs, lengths)
        return read.model.filter(read.Y, read.U, read.starts)

    def smooth(
        self, X: ArrayLike, *, inputs: ArrayLike | None = None, lengths: Lengths = None, return_cov: bool = False
    ) -> Any:
        """Smoothed states ``E[h_t | y_1, ..., y_T]`` by the unit's own model, of each episode alone.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Measurements, NaN where missing.
        inputs : array-like of shape (n_samples, n_inputs), default=None
        lengths : sequence of int, default=None
        return_cov : bool, default=False
            Return the covariances of the states too.

        Returns
        -------
        H : ndarray of shape (n_samples, n_states)
        covariances : ndarray of shape (n_samples, n_states, n_states)
            Only with `return_cov`.

        Examples
        --------
        >>> import numpy as np
        >>> from skfedcausal import KalmanClient
        >>> level = KalmanClient(A=[[1.0]], C=[[1.0]], Q=[[1.0]], R=[2.0], initial="diffuse")
        >>> level.smooth(np.array([[1.0], [np.nan], [4.0]])).round(3).ravel().tolist()
        [2.0, 2.5, 3.0]
        """
        read = self._read(X, inputs, lengths)
        run = own_run(read.model, read.Y, read.model.exogenous(read.U, read.starts), read.starts, smooth=True)
        return (run.smoothed, run.covariances) if return_cov else run.smoothed

    def predict(self, X: ArrayLike, *, inputs: ArrayLike | None = None, lengths: Lengths = None) -> np.ndarray:
        """Measurements predicted one step ahead, ``mean + C E[h_t | y_1, ..., y_(t-1)]``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        inputs : array-like of shape (n_samples, n_inputs), default=None
        lengths : sequence of int, default=None

        Returns
        -------
        Y : ndarray of shape (n_samples, n_features)
            Constant columns are predicted at their constant.
        """
        read = self._read(X, inputs, lengths)
        predicted = self.measurements(read.model.predict(read.Y, read.U, read.starts))
        return predicted if read.off is None else predicted + read.off

    def measurements(self, states: np.ndarray) -> np.ndarray:
        """Expected measurements of given states around the level; constant columns keep their constant.

        Parameters
        ----------
        states : ndarray of shape (n_samples, n_states)

        Returns
        -------
        ndarray of shape (n_samples, n_features)

        Raises
        ------
        ValueError
            If the states are no numbers, or not as many a row as the model has.
        """
        if np.shape(states)[1:] != self.model.C.shape[1:]:
            raise ValueError(f"Got `states` of shape {np.shape(states)}; give {self.model.C.shape[1]} numbers a row.")
        expected = self.model.measurements(states)
        if not hasattr(self, "_model") or self._active.all():
            return expected
        full = np.tile(self.mean_, (len(expected), 1))
        full[:, self._active] = expected
        return full

    def score_samples(self, X: ArrayLike, *, inputs: ArrayLike | None = None, lengths: Lengths = None) -> np.ndarray:
        """Log-density of each row given the past rows of its episode.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        inputs : array-like of shape (n_samples, n_inputs), default=None
        lengths : sequence of int, default=None

        Returns
        -------
        ndarray of shape (n_samples,)
            In nats.
        """
        read = self._read(X, inputs, lengths)
        return read.model.log_likelihood(read.Y, read.U, read.starts)

    def score(self, X: ArrayLike, y: Any = None, *, inputs: ArrayLike | None = None, lengths: Lengths = None) -> float:
        """Mean of :meth:`score_samples`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : None
            Ignored.
        inputs : array-like of shape (n_samples, n_inputs), default=None
        lengths : sequence of int, default=None

        Returns
        -------
        float
        """
        return float(self.score_samples(X, inputs=inputs, lengths=lengths).mean())

    @checked
    def message(
        self,
        X: ArrayLike,
        *,
        inputs: ArrayLike | None = None,
        lengths: Lengths = None,
        const: bool = False,
        local_model: bool = False,
    ) -> StateMessage:
        """Sufficient statistic of the measurements for the unit's states.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        inputs : array-like of shape (n_samples, n_inputs), default=None
        lengths : sequence of int, default=None
        const : bool, default=False
            Add the term of the log-density that likelihood *values* need.
        local_model : bool, default=False
            Add the unit's own transition matrix and process covariance.

        Returns
        -------
        StateMessage
            With ``z`` of shape (n_samples, n_states), the information matrix ``J`` and the inputs.
        """
        read = self._read(X, inputs, lengths)
        model = getattr(self, "message_model", read.model)
        return model.message(read.Y, read.starts, inputs=read.U, const=const, local_model=local_model)


class OwnRun(NamedTuple):
    """States of all rows: filtered, predicted and smoothed, covariances of the last, and log-densities."""

    filtered: np.ndarray
    predicted: np.ndarray
    smoothed: np.ndarray
    covariances: np.ndarray
    log_density: np.ndarray


def own_run(model, Y, exogenous=None, starts=(0,), *, smooth=False):
    """Filter, and smoother where it is wanted, of every episode from the model's initial state.

    Measurements may be missing. A diffuse start is exact: rows that only tell where the unit starts have the
    log-density that is left in the limit of an infinite prior variance.
    """
    from statsmodels.tsa.statespace.kalman_smoother import KalmanSmoother  # slow to import, and most units need none

    n, p = len(Y), model.n_states
    filtered, predicted, smoothed = np.zeros((3, n, p))
    run = OwnRun(filtered, predicted, smoothed, np.zeros((n if smooth else 0, p, p)), np.zeros(n))
    R = np.diag(model.R) if model.R.ndim == 1 else model.R
    for start, stop in episodes(starts, n):
        rows = slice(start, stop)
        machine = KalmanSmoother(len(model.C), p, p, design=model.C, obs_cov=R, transition=model.A, state_cov=model.Q)
        machine["selection"] = np.eye(p)
        machine.bind(np.ascontiguousarray(Y[rows] - model.mean))
        if exogenous is not None:
            following = np.zeros((p, stop - start))
            following[:, :-1] = exogenous[start + 1 : stop].T
            machine["state_intercept"] = following
        _start(machine, model)
        found = machine.smooth() if smooth else machine.filter()
        run.filtered[rows] = found.filtered_state.T
        run.predicted[rows] = found.predicted_state[:, :-1].T
        run.log_density[rows] = found.llf_obs
        if smooth:
            run.smoothed[rows] = found.smoothed_state.T
            run.covariances[rows] = np.moveaxis(found.smoothed_state_cov, -1, 0)
    return run


def _start(machine, model):
    """Say where an episode starts."""
    initial, p = model.initial, model.n_states
    if initial is None:
        machine.initialize_known(np.zeros(p), model.initial_covariance())
    elif isinstance(initial, str):
        machine.initialize_diffuse()
    else:
        machine.initialize_known(*check_initial(initial, p))


def check_initial(initial, n_states):
    """Mean and covariance of the state in the first row."""
    try:
        mean, cov = (np.asarray(part, dtype=float) for part in initial)
    except (TypeError, ValueError):
        raise ValueError(
            f"initial={initial!r}; give 'stationary', 'diffuse', or a mean and a covariance of the {n_states} states."
        ) from None
    if mean.shape != (n_states,) or cov.shape != (n_states, n_states):
        raise ValueError(
            f"initial: got a mean of shape {mean.shape} and a covariance of shape {cov.shape} for {n_states} states; "
            f"give ({n_states},) and ({n_states}, {n_states})."
        )
    if not (np.isfinite(mean).all() and np.allclose(cov, cov.T) and are_covariances(cov[None])):
        raise ValueError("initial: the mean is not finite, or the covariance is none (symmetric, not negative).")
    return mean, cov


# A unit's own linear model as plain arrays, and the estimator that has one, however it was learned.

NOISE_FLOOR = 1e-3  # share of a column's variance that counts as sensor noise at least


_at_rest = remembered(stationary_covariance)  # the same in every call of a unit's filter


@dataclass(frozen=True)
class UnitModel:
    """``h[t] = A h[t-1] + B u[t-1] + w[t-1]``, ``y[t] = mean + C h[t] + v[t]`` of one unit."""

    A: np.ndarray
    C: np.ndarray
    Q: np.ndarray
    R: np.ndarray
    mean: np.ndarray
    B: np.ndarray | None = None
    input_mean: np.ndarray | None = None
    unpredicted: np.ndarray | None = None
    gain: np.ndarray | None = None
    initial: Any = None  # of an episode: None for stationary, "diffuse", or mean and covariance
    variance: np.ndarray | None = None  # of each sensor around levels that shift, where they do
    own_past: OwnPast | None = None  # of a record that C and R were learned from
    tails: Any = None  # of what a message leaves given the unit's own past
    own_density: Any = None  # of a unit that its own past predicts better than a plant does
    is_sharp: bool = False  # whether the states were left without noise, which R as a whole says

    @cached_property
    def residual_model(self):
        """How the unit's own past predicts what a message leaves; None where it is sensor noise."""
        found = self.learned_residual_model()
        return found if found is None or self.tails is None else replace(found, tails=self.tails)

    def learned_residual_model(self):
        """The same of the sums of the record, whatever the tails; another full R is a model of that itself."""
        if self.own_past is None or self.n_states >= len(self.C) or (self.R.ndim == 2 and not self.is_sharp):
            return None
        return ResidualModel.learned(self.own_past, self.C, self.R, self.mean)

    @property
    def n_states(self):
        """Number of states."""
        return len(self.A)

    @property
    def weights(self):
        """``R^-1 C``, shape (n_sensors, n_states)."""
        return weights(self.C, self.R)

    def with_noise_share(self, share):
        """The model with R part of the way to `unpredicted`, or to nothing below zero; no choice any more."""
        R = self.R + share * (self.unpredicted - self.R) if share >= 0 else (1 + share) * self.R
        return replace(self, R=R, unpredicted=None)

    def unpredicted_states(self):
        """`unpredicted` as a covariance of states, shape (n_states, n_states); None where R is known."""
        if self.unpredicted is None:
            return None
        back = np.linalg.solve(self.C.T @ self.weights, self.weights.T)
        return (back * self.unpredicted) @ back.T

    def initial_covariance(self):
        """Covariance of the first state of an episode: stationary, or the steady prediction error
        covariance of a plant that has no stationary one."""
        try:
            return _at_rest(self.A, self.Q)
        except NotStationaryError:
            return predicted_covariance(self.A, self.C.T @ self.weights, self.Q)

    def schedule(self, J=None) -> CovarianceSchedule:
        """Filter covariances while the same sensors are there: all, or those with information `J`."""
        J = self.C.T @ self.weights if J is None else J
        return covariance_schedule(self.A, self.Q, J, self.initial_covariance())

    def information(self, Y, with_const=False):
        """Sufficient statistic of measurements."""
        return information(Y, self.C, self.R, mean=self.mean, with_const=with_const)

    def message(self, Y, starts, *, inputs=None, const=False, local_model=False):
        """Message about measurements, and the unit's inputs."""
        alone = const and self.own_density is not None
        info = self.information(Y, with_const=const and not alone)
        if alone:
            info = replace(info, const=self.own_density.log_density(Y, inputs, starts))
        elif const and self.residual_model is not None:
            info = replace(info, const=self.residual_model.const(Y, inputs, starts, info.const))
        local_model = local_model or not info.determines_states  # the server needs a start
        A, Q = (self.A, self.Q) if local_model else (None, None)
        lengths, left = episode_lengths(starts, len(Y)), self.unpredicted_states() if info.is_constant else None
        message = StateMessage(
            info.z, info.patterns, info.index, lengths, info.const, A, Q, unpredicted=left, alone=alone or None
        )
        return message.with_inputs(inputs, self.B)

    def exogenous(self, U, starts):
        """Known term ``B (u[t-1] - input_mean)`` of each row, zero in the first row of an episode.

        None without inputs.
        """
        if self.B is None or U is None:
            return None
        if self.input_mean is not None:
            U = U - self.input_mean
        return input_term(self.B, U, starts)

    def expected(self, states, Y, U=None, starts=(0,)):
        """Expected measurements of predicted states and, for what those leave, of the rows before."""
        expected = self.measurements(states)
        return expected if self.residual_model is None else self.residual_model.expected(states, Y, U, starts, expected)

    def filter(self, Y, U=None, starts=(0,)):
        """Filtered states, shape (n_samples, n_states); exact for missing measurements."""
        exogenous = self.exogenous(U, starts)
        if self.gain is not None:
            return filtered_with(self.gain, self.A, self.C, Y - self.mean, exogenous, starts)
        if self.initial is not None:
            return own_run(self, Y, exogenous, starts).filtered
        info = self.information(Y)
        if info.is_constant:
            return filtered_states(self.schedule(info.patterns[0]), info.z, exogenous=exogenous, starts=starts)
        start = self.initial_covariance()
        return filter_missing(self.A, self.Q, start, info, exogenous=exogenous, starts=starts).filtered

    def predict(self, Y, U=None, starts=(0,)):
        """States predicted one step ahead, shape (n_samples, n_states)."""
        if self.initial is not None:
            return own_run(self, Y, self.exogenous(U, starts), starts).predicted
        H = self.filter(Y, U, starts)
        return predicted_states(self.A, H, exogenous=self.exogenous(U, starts), starts=starts)

    def measurements(self, states):
        """Expected measurements of given states, shape (n_samples, n_sensors)."""
        return states @ self.C.T + self.mean

    def log_likelihood(self, Y, U=None, starts=(0,)):
        """Log-density of each row given the past, shape (n_samples,)."""
        exogenous = self.exogenous(U, starts)
        if self.initial is not None:
            return own_run(self, Y, exogenous, starts).log_density
        info = self.information(Y, with_const=True)
        if not info.is_constant:
            run = filter_missing(self.A, self.Q, self.initial_covariance(), info, exogenous=exogenous, starts=starts)
            return info.const + run.log_likelihood
        schedule = self.schedule(info.patterns[0])
        H = filtered_states(schedule, info.z, exogenous=exogenous, starts=starts)
        predicted = predicted_states(self.A, H, exogenous=exogenous, starts=starts)
        return log_likelihood_terms(schedule, info.z, info.const, predicted, starts)


def filtered_with(gain, A, C, Y, exogenous, starts):
    """Filtered states with a constant gain, from zero, shape (n_samples, n_states): Algorithm 1 of the first paper.

    What is missing in a row of `Y` leaves its column out of the correction.
    """
    H, first = np.empty((len(Y), len(A))), set(starts)
    for t, y in enumerate(Y):
        h = np.zeros(len(A)) if t in first else A @ H[t - 1]
        if exogenous is not None:
            h = h + exogenous[t]
        H[t] = h + gain @ np.nan_to_num(y - C @ h)
    return H


class UnitClient(UnitFilter):
    """Base of a unit's own model; a subclass defines only how it is learned.

    A subclass has ``fit(X, y=None, *, inputs=None, lengths=None)``, which ends with ``return
    self.learned(A, C, Q, R, ...)``: the unit is ``h[t] = A h[t-1] + B u[t-1] + w[t-1]``, ``y[t] = mean + C
    h[t] + v[t]`` with ``Cov w = Q`` and ``Cov v = R``. From these matrices come the message that the unit
    sends, its filter and its predictions.

    Attributes
    ----------
    transition_ : ndarray of shape (n_states, n_states)
    observation_ : ndarray of shape (n_features, n_states)
    process_cov_ : ndarray of shape (n_states, n_states)
    measurement_cov_ : ndarray of shape (n_features,) or (n_features, n_features)
    input_ : ndarray of shape (n_states, n_inputs) or None
    mean_ : ndarray of shape (n_features,)
    n_states_ : int

    See Also
    --------
    KalmanClient : Identifies the matrices, or takes given ones.
    skfedcausal.testing.check_client : Whether an object can be a unit's model.

    Notes
    -----
    An object that is no UnitClient can be a unit's model as well: with the methods ``message``, ``filter``,
    ``predict`` and ``measurements`` of one (and ``fit``, if it is to be learned), or with
    ``filter_moments(Y)`` alone, which gives prior and posterior means and covariances of its own filter.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal import FederatedGrangerEstimator, UnitClient
    >>> from skfedcausal.datasets import make_granger_plant
    >>> class MeanClient(UnitClient):
    ...     def fit(self, X, y=None, *, inputs=None, lengths=None):
    ...         h = X.mean(axis=1) - X.mean()
    ...         a = (h[1:] @ h[:-1]) / (h @ h)
    ...         C = ((X - X.mean(axis=0)).T @ h / (h @ h))[:, None]
    ...         rest = X - X.mean(axis=0) - h[:, None] @ C.T
    ...         q = h.var() * (1 - a**2)
    ...         return self.learned([[a]], C, [[q]], rest.var(axis=0), mean=X.mean(axis=0))
    >>> X, _ = make_granger_plant(2, n_samples=500, random_state=0)
    >>> FederatedGrangerEstimator(MeanClient()).fit(X).transition_.shape
    (2, 2)
    """

    transition_: np.ndarray
    observation_: np.ndarray
    process_cov_: np.ndarray
    measurement_cov_: np.ndarray
    input_: np.ndarray | None
    mean_: np.ndarray
    n_states_: int
    n_features_in_: int
    feature_names_in_: np.ndarray
    _added_noise: Any = 0.0  # variance of what was added on purpose to the columns that are used, (n_used,)
    _noise_share: float | None = None  # of sensor noise in messages, where a server chose one
    _model_before: UnitModel | None = None  # that of a monitor took its place

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    # -- the model -------------------------------------------------------------------------------

    def learned(
        self,
        A: ArrayLike,
        C: ArrayLike,
        Q: ArrayLike,
        R: ArrayLike,
        *,
        B: ArrayLike | None = None,
        mean: ArrayLike | None = None,
    ) -> Self:
        """Set the matrices of the unit's model, at the end of `fit`.

        Parameters
        ----------
        A, Q : array-like of shape (n_states, n_states)
        C : array-like of shape (n_features, n_states)
        R : array-like of shape (n_features,) or (n_features, n_features)
        B : array-like of shape (n_states, n_inputs), default=None
        mean : array-like of shape (n_features,), default=None
            Level of the measurements; None for zero.

        Returns
        -------
        self : UnitClient

        Raises
        ------
        ValueError
            If shapes do not fit or a matrix is invalid.
        """
        given = check_matrices({"A": A, "B": B, "C": C, "Q": Q, "R": R})
        d = len(given["C"])
        mean = np.zeros(d) if mean is None else np.asarray(mean, dtype=float)
        if mean.shape != (d,) or not np.isfinite(mean).all():
            raise ValueError(f"mean has shape {mean.shape} or is not finite; give {d} numbers, one per column.")
        self._keep(UnitModel(mean=mean, **given), np.ones(d, dtype=bool))
        return self

    @property
    def used_columns(self) -> np.ndarray:
        """Which columns the model is about, (n_features,); the others never moved."""
        return getattr(self, "_active", np.ones(len(self.model.C), dtype=bool))

    @property
    def model_before(self):
        """The model that the one of a monitor took the place of, or None."""
        return self._model_before

    @property
    def added_noise(self) -> Any:
        """Variance of noise that was added on purpose to the columns that are used, (n_used,) or zero."""
        return self._added_noise

    def _keep(self, model, active, constants=()):
        """Take over a model of some columns; the others have the levels `constants`, (n_features - n_used,)."""
        self._model, self._active, self._noise_share, self._model_before = model, active, None, None
        levels = np.zeros(len(active))
        levels[~active] = constants
        self.__dict__.update(_public_attributes(model, active, levels))

    def __replace__(self, **changes):
        """Copy of which some of `model`, `model_before`, `noise_share` and `added_noise` are others."""
        other = copy(self)
        other.__dict__.update({f"_{name}": value for name, value in changes.items()})
        used = self.used_columns
        other.__dict__.update(_public_attributes(other.model, used, getattr(self, "mean_", np.zeros(len(used)))))
        return other

    @property
    def model(self) -> UnitModel:
        """The unit's model over the columns that it uses, a `UnitModel`."""
        check_is_fitted(self, "_model")
        return self._model

    @property
    def message_model(self) -> UnitModel:
        """The model used for messages, with the fraction of sensor noise that a server chose, if any."""
        return self.model if self._noise_share is None else self.model.with_noise_share(self._noise_share)

    def message_about(
        self,
        Y: np.ndarray,
        starts: tuple[int, ...],
        *,
        inputs: np.ndarray | None = None,
        const: bool = False,
        local_model: bool = False,
    ) -> StateMessage:
        """Message about checked measurements.

        Parameters
        ----------
        Y : ndarray of shape (n_samples, n_features)
        starts : tuple of int
        inputs : ndarray of shape (n_samples, n_inputs), default=None
        const, local_model : bool

        Returns
        -------
        StateMessage
        """
        model = self.message_model
        return model.message(in_use(self, Y), starts, inputs=inputs, const=const, local_model=local_model)

    _moved = {
        "residuals": "Y - client.predict(Y)",
        "fit_arrays": "client.fit(UnitRows(Y, ...)) of skfedcausal.client.records",
    }

    if not TYPE_CHECKING:  # which would take every name for one that is there

        def __getattr__(self, name):
            """What workers alone have a use for and was a method once."""
            if name not in _ONCE_METHODS:
                return super().__getattr__(name)
            warn(
                f"`{name}` of a UnitClient is for the worker of its unit, and will no longer be a method. "
                "Leave it out.",
                FutureWarning,
            )
            function = _ONCE_METHODS[name]
            return function(self) if name == "may_refine" else partial(function, self)


def _public_attributes(model, used, levels):
    """A client's attributes that are matrices of its model, over all columns; `levels` (n_features,) of unused ones."""
    observation = np.zeros((len(used), model.n_states))
    observation[used] = model.C
    mean = levels.copy()
    mean[used] = model.mean
    return {
        "n_features_in_": len(used),
        "n_states_": model.n_states,
        "_n_features_out": model.n_states,
        "transition_": model.A,
        "input_": model.B,
        "process_cov_": model.Q,
        "input_mean_": model.input_mean,
        "observation_": observation,
        "measurement_cov_": _expanded(model.R, used),
        "mean_": mean,
    }


# -- what a unit does with its client once that is learned --------------------------------------------------


def under_noise(client, noise):
    """Copy of a client for a record with noise of other known variances (n_features,) added; zero for none."""
    if not isinstance(client, UnitClient):
        return client.with_noise(noise)
    added = noise[client.used_columns]
    change = added - client.added_noise
    if not change.any():
        return client
    model = client.model_before or client.model
    unpredicted = None if model.unpredicted is None else model.unpredicted + added - client.added_noise
    unknown = {"own_past": None, "tails": None, "own_density": None}
    model = replace(model, R=with_diagonal(model.R, change), unpredicted=unpredicted, **unknown)
    return client.__replace__(model=model, model_before=None, added_noise=added)


def with_noise_share(client, share):
    """Copy whose messages use another fraction of sensor noise; its own filter does not change.

    `share` is that of what the past leaves unpredicted, beyond R; below zero, of R itself that is no noise.
    """
    return client.__replace__(noise_share=share)


def monitored_by(client, model):
    """Copy whose messages and filter use the model of a monitor; under other noise it keeps its own."""
    return client.__replace__(model=model, model_before=client.model)


def expected_measurements(client, states, Y, U=None, starts=(0,)):
    """Measurements of predicted states, what those leave predicted from the unit's own rows before."""
    expected = client.model.expected(states, in_use(client, Y), U, starts)
    if client.used_columns.all():
        return expected
    full = client.measurements(states)
    full[:, client.used_columns] = expected
    return full


def may_refine(client):
    """Whether loadings and noise are the unit's own estimates, from a complete record."""
    return client.model.own_past is not None and client.model.R.ndim == 1


def refined(client, Y, states, covariances):
    """Copy with loadings, noise and level re-estimated from smoothed states (diagonal R only)."""
    model, kept = client.model, in_use(client, Y)
    if model.R.ndim == 2:
        raise ValueError("Only a diagonal R can be re-estimated; give the variances of the sensors.")
    variance = np.nanvar(kept, axis=0) if model.variance is None else model.variance
    cov = covariances[0] if len(covariances) == 1 else covariances
    C, R, mean = observation_step(kept, states, cov, NOISE_FLOOR * variance + client.added_noise)
    model = replace(model, C=C, R=R, mean=mean, unpredicted=None)
    return client.__replace__(model=model, noise_share=None)


def is_likelier_alone(client, Y, U=None, starts=(0,)):
    """Whether an autoregression of a complete record is likelier than the model identified from it, by BIC."""
    model = client.model
    if not may_refine(client):
        return False
    (d, p), q = model.C.shape, 0 if model.B is None else model.B.shape[1]
    n_free = d * p + d + p * q + p * (p + 1) / 2
    value = model.log_likelihood(in_use(client, Y), U, starts).mean()
    return bool(model.own_past.evidence() > value - bic_penalty(n_free, model.own_past.n_rows))


def gain_alone(client, Y, U, starts):
    """Mean log-density by which an autoregression of the unit's own exceeds what states leave, less its BIC."""
    own = OwnDensity.learned(client.model.own_past, client.model.mean)
    const = client.message_about(Y, starts, inputs=U, const=True).const
    value = own.log_density(in_use(client, Y), U, starts) - const
    return float(value.mean() - own.penalty)


def with_tails(client, Y, U=None, starts=(0,), *, alone=False):
    """Copy that knows the tails of what its messages leave of a record, of all of it if left `alone`."""
    model, kept, found = client.model, in_use(client, Y), {}
    if alone:
        found["own_density"] = OwnDensity.learned(model.own_past, model.mean).with_tails(kept, U, starts)
    elif (residual_model := model.learned_residual_model()) is not None:
        errors = residual_model.errors(kept, U, starts)
        if are_heavy(errors):
            from ..statespace.timedomain import Tails  # for noise that is not Gaussian

            found["tails"] = Tails.learned(errors)
    return client.__replace__(model=replace(model, **found)) if found else client


_ONCE_METHODS: dict[str, Callable] = {
    "active_columns": in_use,
    "expected": expected_measurements,
    "gain_alone": gain_alone,
    "is_likelier_alone": is_likelier_alone,
    "learned_from": with_tails,
    "may_refine": may_refine,
    "monitored_by": monitored_by,
    "refined": refined,
    "with_noise": under_noise,
    "with_noise_share": with_noise_share,
}


@dataclass(frozen=True)
class LoadingError:
    """Covariance of the error of C as far as it is not a change of basis.

    An error of C inside its column space only changes the basis of the states and leaves every effect as it
    is. The rest D, orthogonal to the columns in the metric of R, adds ``D h`` to an effect h on the states.
    C was found from what the past tells about the present, so row i of D has the covariance ``rest_i G^-1 /
    T`` of a regression of the remaining noise on the predicted states.
    """

    rest: np.ndarray
    spread: np.ndarray

    def variance(self, states):
        """Variance that it adds to the effect on each sensor, shape (n_steps, n_sensors)."""
        return np.einsum("ti,ij,tj->t", states, self.spread, states)[:, None] * self.rest


def loading_error(client, message):
    """Error of loadings identified locally; None where C was given."""
    model, info = client.model, message.information
    is_given = getattr(client, "C", None) is not None or (model.R.ndim == 2 and not model.is_sharp)
    if is_given or not info.determines_states:
        return None
    J = info.mean_information
    N = np.linalg.inv(J)
    mean = column_mean(message.z)
    states = N @ (message.z.T @ message.z / len(message.z) - np.outer(mean, mean)) @ N - N
    states = floor_eigenvalues(states, TUNING.unit_model_floor * np.trace(states) / len(states))
    past = states - predicted_covariance(model.A, J, model.Q)
    G = floor_eigenvalues(past, TUNING.unit_model_floor * np.trace(states) / len(states))
    active = client.observation_
    R = client.measurement_cov_
    rest = (R if R.ndim == 1 else np.diag(R)) - np.einsum("di,ij,dj->d", active, N, active)
    rest = np.where(np.isfinite(rest), np.maximum(rest, 0.0), 0.0)
    return LoadingError(rest, np.linalg.inv(G) / len(message.z))


def _expanded(R, active):
    """Noise covariance over all columns, with infinite variance for those that are ignored."""
    if active.all():
        return R
    full = np.where(active, 0.0, np.inf)
    full = full if R.ndim == 1 else np.diag(full)
    full[np.ix_(*[active] * R.ndim)] = R
    return full
