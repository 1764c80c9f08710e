"""A unit's own nonlinear model: extended Kalman filter with given maps or maps learned by the unit."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.neural_network import MLPRegressor
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from ..arguments import rows_of_numbers
from ..bases import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from ..callers import warn
from ..containers import check_lengths, episode_starts
from ..given import Lengths
from ..parameters import Checked
from ..seeding import seeded
from ..statespace.episodes import episodes, inner_rows
from ..versioned import Versioned
from .maps import GivenMap, ScaledOutput, check_derivative, fitted_map
from .records import active_columns
from .tuning import TUNING

_CHECKS = {"dtype": float, "ensure_all_finite": "allow-nan"}


@dataclass(repr=False, eq=False)
class ExtendedKalmanClient(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Versioned, Checked):
    """Extended Kalman filter of one unit: equations 1 and 2 of [1]_.

    The model is ``x[t] = f(x[t-1]) + w``, ``y[t] = h(x[t]) + v``. Give both maps as functions with the
    covariances, or none of them: then the unit learns f and h itself from nominal measurements, on the
    leading principal components.

    Parameters
    ----------
    f, h : callable or regressor, default=None
        Transition ``(n_states,) -> (n_states,)`` and measurement ``(n_states,) -> (n_features,)``. A
        regressor (MLPRegressor, :class:`~skfedcausal.papers.LSTMRegressor`,
        :class:`~skfedcausal.papers.SELURegressor`) is what to learn the map with; None stands for an MLPRegressor.
    f_jacobian, h_jacobian : callable, default=None
        ``(n_states,) -> (n_states, n_states)`` and ``(n_states,) -> (n_features, n_states)``; checked against
        central differences when fitted. None takes central differences.
    Q, R : array-like, default=None
        Covariances of w and v.
    n_states : int, default=2
        States to learn, at most as many as there are independent columns. Ignored with given maps.
    hidden : int, default=32
        Tanh units of the default networks, half as many as there are pairs of successive rows at most.
    random_state : int, RandomState instance or None, default=None

    Attributes
    ----------
    process_cov_ : ndarray of shape (n_states, n_states)
    measurement_cov_ : ndarray of shape (n_features, n_features)
    f_map_, h_map_ : object
        With ``value(X)`` and ``jacobian(X)`` for rows of states.

    Notes
    -----
    Used as a unit's client it is fitted there to the nominal record, or used as it is if it is fitted
    already. The covariances learned are those of the residuals of the maps on data, so they cover what the
    maps miss, the influence of other units included. NaN stands for a missing measurement.

    References
    ----------
    .. [1] Mohanty, Ramanan, Gebraeel, Learning Unknown Interdependencies for Decentralized Root Cause
           Analysis in Nonlinear Dynamical Systems.

    Examples
    --------
    >>> from skfedcausal import ExtendedKalmanClient
    >>> from skfedcausal.datasets import make_nonlinear_plant
    >>> Y = make_nonlinear_plant(n_samples=600, size=0, random_state=0).data["unit0"]
    >>> client = ExtendedKalmanClient(random_state=0).fit(Y)
    >>> prior, prior_cov, posterior, posterior_cov = client.filter_moments(Y)
    >>> posterior.shape, posterior_cov.shape
    ((600, 2), (600, 2, 2))
    >>> client.transform(Y).shape, client.predict(Y).shape
    ((600, 2), (600, 4))
    """

    f: Any = None
    h: Any = None
    _: KW_ONLY
    f_jacobian: Callable | None = None
    h_jacobian: Callable | None = None
    Q: Any = None
    R: Any = None
    n_states: int = 2
    hidden: int = 32
    random_state: Any = None

    _parameter_constraints = {
        "f": [callable, HasMethods(["fit", "predict"]), None],
        "h": [callable, HasMethods(["fit", "predict"]), None],
        "f_jacobian": [callable, None],
        "h_jacobian": [callable, None],
        "Q": ["array-like", None],
        "R": ["array-like", None],
        "n_states": [Interval(Integral, 1, None, closed="left")],
        "hidden": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @property
    def is_fitted(self) -> bool:
        """Whether the maps have been given or learned."""
        return hasattr(self, "f_map_")

    def fit(self, X: ArrayLike, y: Any = None, *, lengths: Lengths = None) -> Self:
        """Take the given maps, or learn them from nominal measurements.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Complete rows only are learned from.
        y : None
            Ignored.
        lengths : sequence of int, default=None
            Time steps of each episode.

        Returns
        -------
        self : ExtendedKalmanClient

        Raises
        ------
        ValueError
            If only some of the maps and covariances are given, they do not fit together, or a given Jacobian
            is not the derivative of its map.
        TypeError
            If a regressor gives no derivative.

        Warns
        -----
        UserWarning
            If so few rows are complete that the default networks get fewer than `hidden` units.
        """
        self._validate_params()
        parts = {name: getattr(self, name) for name in ("f", "h", "Q", "R")}
        given = [name for name, value in parts.items() if value is not None and not hasattr(value, "fit")]
        if given and len(given) < len(parts):
            lacking = sorted(set(parts) - set(given))
            raise ValueError(
                f"Got {', '.join(given)} without {', '.join(lacking)}. Give f and h as functions with Q and R, or "
                "none of the four to learn them."
            )
        with rows_of_numbers(X):
            Y = validate_data(self, X, ensure_min_samples=1 if given else 2, **_CHECKS)
        if given:
            return self._take(Y)
        return self._learn(Y, episode_starts(check_lengths(lengths, len(Y))))

    def _take(self, Y):
        """The given model, checked at the origin and one other state."""
        self.process_cov_ = np.atleast_2d(np.asarray(self.Q, dtype=float))
        self.measurement_cov_ = np.atleast_2d(np.asarray(self.R, dtype=float))
        n, self._active = len(self.process_cov_), np.ones(Y.shape[1], dtype=bool)
        if len(self.measurement_cov_) != Y.shape[1]:
            raise ValueError(f"`R` is about {len(self.measurement_cov_)} sensors, the record has {Y.shape[1]} columns.")
        self.f_map_: Any = GivenMap(self.f, self.f_jacobian)
        self.h_map_: Any = GivenMap(self.h, self.h_jacobian)
        for x in (np.full(n, 0.1), np.linspace(-0.7, 1.3, n)):
            check_derivative(self.f_map_, "f", x, n)
            check_derivative(self.h_map_, "h", x, Y.shape[1])
        return self

    def _learn(self, Y, starts):
        """Maps on the principal components of the standardised measurements."""
        active = active_columns(Y, "the unit", None)
        known = np.where(np.isnan(Y).all(axis=0), 0.0, Y)
        mean = np.nanmean(known, axis=0)
        scale = np.where(active, np.nanstd(known, axis=0), 1.0)
        inside = np.where(active, (Y - mean) / scale, 0.0)
        complete = np.all(np.isfinite(inside), axis=1)
        follows = inner_rows(len(Y), starts) - 1
        follows = follows[complete[follows] & complete[follows + 1]]
        if len(follows) < 2:
            raise ValueError(
                f"Only {len(follows)} pairs of successive rows are complete, from which the unit's maps cannot be "
                "learned. Give more nominal rows, or the maps."
            )
        _, values, axes = np.linalg.svd(inside[complete], full_matrices=False)
        n = min(self.n_states, int((values > 1e-8 * values[0]).sum()))
        states = inside @ (axes[:n].T / values[:n] * np.sqrt(complete.sum()))
        step = self._regressor(self.f, len(follows), len(follows)).fit(states[follows], states[follows + 1])
        show = self._regressor(self.h, len(follows), int(complete.sum())).fit(states[complete], inside[complete])
        w = states[follows + 1] - step.predict(states[follows]).reshape(-1, n)
        v = inside[complete] - show.predict(states[complete]).reshape(-1, len(scale))
        self.process_cov_ = w.T @ w / len(w)
        R = v.T @ v / len(v) + TUNING.extended_kalman_floor * np.eye(len(mean))
        self.measurement_cov_ = R * np.outer(scale, scale)
        self._active = active
        self.f_map_, self.h_map_ = fitted_map(step), ScaledOutput(fitted_map(show), mean, scale)
        return self

    def _regressor(self, template, n_pairs, n_rows):
        """What to learn a map with from `n_rows`, where there are `n_pairs` of successive ones."""
        if template is not None:
            return seeded(template, self.random_state)
        hidden = min(self.hidden, n_pairs // 2)
        if hidden < self.hidden:
            warn(
                f"Only {n_pairs} pairs of successive rows are complete: networks get {hidden} tanh units "
                f"in place of {self.hidden}. Give more nominal rows, or the maps.",
            )
        return MLPRegressor(
            hidden_layer_sizes=(hidden,),
            activation="tanh",
            alpha=1e-4,
            learning_rate_init=3e-3,
            batch_size=min(128, int((1 - TUNING.extended_kalman_validation) * n_rows)),
            early_stopping=hidden == self.hidden,
            validation_fraction=TUNING.extended_kalman_validation,
            n_iter_no_change=10,
            max_iter=300,
            random_state=self.random_state,
        )

    def filter_moments(
        self, Y: np.ndarray, after: tuple[np.ndarray, ...] | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Predicted and filtered states of one episode, with their covariances.

        Parameters
        ----------
        Y : ndarray of shape (n_samples, n_features)
            NaN where missing.
        after : tuple of ndarray, default=None
            Filtered state of the row before the first and its covariance, to continue where a stream stopped;
            None starts an episode.

        Returns
        -------
        prior : ndarray of shape (n_samples, n_states)
        prior_cov : ndarray of shape (n_samples, n_states, n_states)
        posterior : ndarray of shape (n_samples, n_states)
        posterior_cov : ndarray of shape (n_samples, n_states, n_states)
        """
        check_is_fitted(self)
        f, h = self.f_map_, self.h_map_
        Q, R, n = self.process_cov_, self.measurement_cov_, len(self.process_cov_)
        x, P = (np.zeros((1, n)), 10 * Q + np.eye(n)) if after is None else (np.array(after[0])[None], after[1])
        means, covariances = np.empty((2, len(Y), n)), np.empty((2, len(Y), n, n))
        Y = np.asarray(Y, dtype=float)
        seen = ~np.isnan(Y) & self._active
        identity = np.eye(n)
        for t, y in enumerate(Y):
            if t or after is not None:
                F = f.jacobian(x)[0]
                x, P = f.value(x), F @ P @ F.T + Q
            means[0, t], covariances[0, t] = x[0], P
            if seen[t].any():
                H, r, S = h.jacobian(x)[0], y - h.value(x)[0], R
                if not seen[t].all():
                    H, r, S = H[seen[t]], r[seen[t]], R[np.ix_(seen[t], seen[t])]
                gain = np.linalg.solve(H @ P @ H.T + S, H @ P).T
                x = x + gain @ r
                keep = identity - gain @ H
                P = keep @ P @ keep.T + gain @ S @ gain.T  # Joseph form
                P = (P + P.T) / 2
            means[1, t], covariances[1, t] = x[0], P
        return means[0], covariances[0], means[1], covariances[1]

    @property
    def _n_features_out(self):
        return len(self.process_cov_)

    def _record(self, X, lengths):
        """Checked measurements and the bounds of their episodes."""
        check_is_fitted(self)
        with rows_of_numbers(X):
            Y = validate_data(self, X, reset=False, **_CHECKS)
        return Y, list(episodes(episode_starts(check_lengths(lengths, len(Y))), len(Y)))

    def transform(self, X: ArrayLike, *, lengths: Lengths = None) -> np.ndarray:
        """Filtered states.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN where missing.
        lengths : sequence of int, default=None
            Time steps of each episode.

        Returns
        -------
        ndarray of shape (n_samples, n_states)
        """
        Y, bounds = self._record(X, lengths)
        return np.concatenate([self.filter_moments(Y[i:j])[2] for i, j in bounds])

    def fit_transform(  # type: ignore[override]
        self, X: ArrayLike, y: Any = None, *, lengths: Lengths = None
    ) -> np.ndarray:
        """Fit, then return the filtered states of the same record with the same episodes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN where missing.
        y : None
            Ignored.
        lengths : sequence of int, default=None
            Time steps of each episode.

        Returns
        -------
        ndarray of shape (n_samples, n_states)
        """
        return self.fit(X, lengths=lengths).transform(X, lengths=lengths)

    def predict(self, X: ArrayLike, *, lengths: Lengths = None) -> np.ndarray:
        """Measurements predicted one step ahead, ``h(f(E[x_(t-1)]))``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN where missing.
        lengths : sequence of int, default=None
            Time steps of each episode.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        Y, bounds = self._record(X, lengths)
        return np.concatenate([self.h_map_.value(self.filter_moments(Y[i:j])[0]) for i, j in bounds])

    def score_samples(self, X: ArrayLike, *, lengths: Lengths = None) -> np.ndarray:
        """Log-density of each row given the past rows of its episode, linearised where the filter is.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        lengths : sequence of int, default=None

        Returns
        -------
        ndarray of shape (n_samples,)
            In nats; zero for a row without measurements.
        """
        Y, bounds = self._record(X, lengths)
        return np.concatenate([self._log_densities(Y[i:j]) for i, j in bounds])

    def score(self, X: ArrayLike, y: Any = None, *, lengths: Lengths = None) -> float:
        """Mean of :meth:`score_samples`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN where missing.
        y : None
            Ignored.
        lengths : sequence of int, default=None
            Time steps of each episode.

        Returns
        -------
        float
            In nats per row.
        """
        return float(self.score_samples(X, lengths=lengths).mean())

    def _log_densities(self, Y):
        prior, prior_cov, _, _ = self.filter_moments(Y)
        rest, H = Y - self.h_map_.value(prior), self.h_map_.jacobian(prior)
        S = H @ prior_cov @ H.swapaxes(1, 2) + self.measurement_cov_
        found, seen = np.zeros(len(Y)), ~np.isnan(Y) & self._active
        for t in np.flatnonzero(seen.any(axis=1)):
            r, s = rest[t, seen[t]], S[t][np.ix_(seen[t], seen[t])]
            found[t] = -0.5 * (r @ np.linalg.solve(s, r) + np.linalg.slogdet(2 * np.pi * s)[1])
        return found
