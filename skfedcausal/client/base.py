"""A unit's own linear model, however it was learned: states, predictions, likelihoods and its message."""

import warnings
from copy import copy
from dataclasses import replace

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from ..containers import check_lengths, episode_starts
from ..statespace.em import observation_step
from .records import as_inputs, check_inputs_fit, warn_inputs_ignored
from .unit_model import UnitModel, check_matrices, with_diagonal

NOISE_FLOOR = 1e-3  # share of a column's variance that counts as sensor noise at least


class UnitClient(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base of a unit's own model: a subclass says how it is learned, the rest follows.

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

    _own_model = None  # of a monitored unit

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    # -- the model -------------------------------------------------------------------------------

    def learned(self, A, C, Q, R, *, B=None, mean=None):
        """Take matrices for the unit's model, at the end of `fit`.

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
            If shapes do not fit or a matrix cannot be meant.
        """
        given = check_matrices({"A": A, "B": B, "C": C, "Q": Q, "R": R})
        d = len(given["C"])
        mean = np.zeros(d) if mean is None else np.asarray(mean, dtype=float)
        if mean.shape != (d,) or not np.isfinite(mean).all():
            raise ValueError(
                f"mean has shape {mean.shape} or is not finite; give {d} numbers, one per column."
            )
        self._keep(UnitModel(mean=mean, **given), np.ones(d, dtype=bool), None)
        return self

    def active_columns(self, Y):
        """Columns of `Y` that the model uses.

        Parameters
        ----------
        Y : ndarray of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_active)
        """
        return Y if not hasattr(self, "_active") or self._active.all() else Y[:, self._active]

    def _keep(self, model, active, Y):
        d = len(active)
        self._model, self._active, self._noise_share = model, active, None
        self.n_features_in_ = d
        self.n_states_ = self._n_features_out = model.n_states
        self.transition_, self.input_, self.process_cov_ = model.A, model.B, model.Q
        self.input_mean_ = model.input_mean
        self.observation_ = np.zeros((d, model.n_states))
        self.observation_[active] = model.C
        self.measurement_cov_ = _expanded(model.R, active)
        self.mean_ = np.zeros(d)
        self.mean_[active] = model.mean
        if not active.all():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # columns that were never seen
                self.mean_[~active] = np.nanmean(Y[:, ~active], axis=0)

    @property
    def model(self):
        """The unit's model over its active columns, a `UnitModel`."""
        check_is_fitted(self, "_model")
        return self._model

    @property
    def message_model(self):
        """The model that messages follow: with the share of sensor noise that a server chose, if it did."""
        model, share = self.model, getattr(self, "_noise_share", None)
        return model if share is None else model.with_noise_share(share)

    def with_noise_share(self, share):
        """Copy whose messages take another share of the measurements for noise; its own filter stays.

        Parameters
        ----------
        share : float
            Of what the past leaves unpredicted, beyond R. Only for models with as many states as sensors.

        Returns
        -------
        UnitClient
        """
        other = copy(self)
        other._noise_share = share
        return other

    def monitored_by(self, model):
        """Copy whose messages and filter follow the model of a monitor; under other noise it has its own.

        Parameters
        ----------
        model : UnitModel

        Returns
        -------
        UnitClient
        """
        other = copy(self)
        other._own_model, other._model = self._model, model
        other.measurement_cov_ = _expanded(model.R, self._active)
        return other

    def with_noise(self, noise):
        """Copy for a record to whose columns noise of other known variances was added.

        Parameters
        ----------
        noise : ndarray of shape (n_features,)
            Zero for raw measurements.

        Returns
        -------
        UnitClient
        """
        added = noise[self._active]
        if np.array_equal(added, self._added_noise):
            return self
        other, model = copy(self), self._own_model or self._model
        R = with_diagonal(model.R, added - self._added_noise)
        unpredicted = model.unpredicted
        if unpredicted is not None:
            unpredicted = unpredicted + added - self._added_noise
        other._model, other._own_model = replace(model, R=R, unpredicted=unpredicted), None
        other._added_noise = added
        other.measurement_cov_ = _expanded(R, self._active)
        return other

    def refined(self, Y, states, covariances):
        """Copy with loadings, noise and level re-estimated from smoothed states (diagonal R only).

        Parameters
        ----------
        Y : ndarray of shape (n_samples, n_features)
        states : ndarray of shape (n_samples, n_states)
        covariances : ndarray of shape (n_samples or 1, n_states, n_states)

        Returns
        -------
        UnitClient

        Raises
        ------
        ValueError
            If R is not diagonal.
        """
        model, kept = self.model, self.active_columns(Y)
        if model.R.ndim == 2:
            raise ValueError("Only a diagonal R can be re-estimated; give the variances of the sensors.")
        added = getattr(self, "_added_noise", np.zeros(kept.shape[1]))
        floor = NOISE_FLOOR * np.nanvar(kept, axis=0) + added
        cov = covariances[0] if len(covariances) == 1 else covariances
        C, R, mean = observation_step(kept, states, cov, floor)
        active = getattr(self, "_active", np.ones(Y.shape[1], dtype=bool))
        refined = copy(self)
        refined._keep(replace(model, C=C, R=R, mean=mean, unpredicted=None, products=None), active, Y)
        return refined

    # -- what it answers -------------------------------------------------------------------------

    def _read(self, X, inputs, lengths):
        """The model and checked arrays: measurements of its columns, inputs, first rows of episodes."""
        model = self.model
        checks = {"dtype": float, "ensure_all_finite": "allow-nan"}
        if hasattr(self, "_model"):
            Y = self.active_columns(validate_data(self, X, reset=False, **checks))
        else:
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
        return model, Y, U, episode_starts(check_lengths(lengths, len(Y)))

    def transform(self, X, *, inputs=None, lengths=None):
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
        model, Y, U, starts = self._read(X, inputs, lengths)
        return model.filter(Y, U, starts)

    def fit_transform(self, X, y=None, *, inputs=None, lengths=None):
        """`fit`, and the filtered states of the same record with the same inputs and episodes.

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

    def filter(self, X, *, inputs=None, lengths=None):
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
        model, Y, U, starts = self._read(X, inputs, lengths)
        return model.filter(Y, U, starts)

    def predict(self, X, *, inputs=None, lengths=None):
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
        model, Y, U, starts = self._read(X, inputs, lengths)
        return self.measurements(model.predict(Y, U, starts))

    def measurements(self, states):
        """Expected measurements of given states, constant columns at their constant.

        Parameters
        ----------
        states : ndarray of shape (n_samples, n_states)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        expected = self.model.measurements(states)
        if not hasattr(self, "_model") or self._active.all():
            return expected
        full = np.tile(self.mean_, (len(states), 1))
        full[:, self._active] = expected
        return full

    def residuals(self, X, *, inputs=None, lengths=None):
        """Measurements less their one-step-ahead predictions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        inputs : array-like of shape (n_samples, n_inputs), default=None
        lengths : sequence of int, default=None

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            NaN where a measurement is missing.
        """
        predicted = self.predict(X, inputs=inputs, lengths=lengths)
        return np.asarray(X, dtype=float) - predicted

    def score_samples(self, X, *, inputs=None, lengths=None):
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
        model, Y, U, starts = self._read(X, inputs, lengths)
        return model.log_likelihood(Y, U, starts)

    def score(self, X, y=None, *, inputs=None, lengths=None):
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

    def message(self, X, *, inputs=None, lengths=None, const=False, local_model=False):
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
        model, Y, U, starts = self._read(X, inputs, lengths)
        model = getattr(self, "message_model", model)
        return model.message(Y, starts, inputs=U, const=const, local_model=local_model)


def _expanded(R, active):
    """Noise covariance over all columns, with infinite variance for those that are ignored."""
    if active.all():
        return R
    if R.ndim == 1:
        full = np.full(len(active), np.inf)
        full[active] = R
        return full
    full = np.diag(np.where(active, 0.0, np.inf))
    full[np.ix_(active, active)] = R
    return full
