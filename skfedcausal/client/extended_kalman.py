"""Units with a nonlinear model of their own: extended Kalman filters, and filters that are black boxes."""

import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import KW_ONLY, dataclass
from inspect import signature
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.neural_network import MLPRegressor
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from ..arguments import Lengths, rows_of_numbers, warn
from ..bases import Checked, ClassNamePrefixFeaturesOutMixin, TransformerMixin, Versioned
from ..containers import check_lengths, episode_starts
from ..message.states import StateMessage
from ..seeding import seeded
from ..statespace.em import observation_step
from ..statespace.episodes import episode_lengths, episodes, inner_rows
from ..statespace.matrices import floor_eigenvalues
from ..statespace.networks import FeedForward, numeric_jacobian
from ..statespace.observation import information, information_from_filter
from .kalman import NOISE_FLOOR
from .records import active_columns, column_means
from .tuning import TUNING

# Differentiable maps of states: given as functions, or read off a fitted regressor.


@dataclass(frozen=True)
class GivenMap:
    """A map of one state given as functions; the Jacobian by central differences if there is none."""

    function: Callable
    derivative: Callable | None = None

    def value(self, X):
        """Values of every row."""
        return np.array([self.function(x) for x in X], dtype=float).reshape(len(X), -1)

    def jacobian(self, X):
        """Jacobians of every row."""
        return np.array([self.slope(x) for x in X], dtype=float)

    def slope(self, x):
        """Jacobian of one state, as given."""
        if self.derivative is None:
            return numeric_jacobian(lambda z: np.atleast_1d(self.function(z)), x)
        return np.atleast_2d(np.asarray(self.derivative(x), dtype=float))


@dataclass(frozen=True)
class LinearMap:
    """``x -> matrix x + level``."""

    matrix: np.ndarray
    level: np.ndarray

    def value(self, X):
        """Values of every row."""
        return X @ self.matrix.T + self.level

    def jacobian(self, X):
        """The matrix for every row."""
        return np.broadcast_to(self.matrix, (len(X), *self.matrix.shape))


@dataclass(frozen=True)
class ScaledOutput:
    """A map whose outputs are stretched and moved: ``level + scale * inner(x)``."""

    inner: Any  # another map
    level: np.ndarray
    scale: np.ndarray

    def value(self, X):
        """Values of every row."""
        return self.level + self.scale * self.inner.value(X)

    def jacobian(self, X):
        """Jacobians of every row."""
        return self.scale[:, None] * self.inner.jacobian(X)


def fitted_map(estimator):
    """A fitted regressor as a differentiable map."""
    if hasattr(estimator, "network_"):
        return estimator.network_
    if isinstance(estimator, MLPRegressor):
        return FeedForward(tuple(estimator.coefs_), tuple(estimator.intercepts_), estimator.activation)
    raise TypeError(
        f"An extended Kalman filter needs the derivative of its maps, which a {type(estimator).__name__} "
        "does not give. Use an MLPRegressor, LSTMRegressor or SELURegressor, or give functions."
    )


def check_derivative(given, name, x, n_outputs=None):
    """Refuse a given map whose shapes are wrong or whose Jacobian is not its derivative at a state."""
    value = np.atleast_1d(np.asarray(given.function(x), dtype=float))
    if value.ndim != 1 or not np.isfinite(value).all() or n_outputs not in (None, len(value)):
        wanted = "a vector" if n_outputs is None else f"{n_outputs} numbers"
        raise ValueError(f"`{name}` takes a state {x} to {value}; it must be {wanted}, all finite.")
    slope, shape = given.slope(x), (len(value), len(x))
    if slope.shape != shape:
        raise ValueError(f"`{name}_jacobian` gives shape {slope.shape}, expected {shape}.")
    numeric = numeric_jacobian(lambda z: np.atleast_1d(given.function(z)), x)
    gap = np.abs(slope - numeric).max()
    if not gap <= 1e-3 * max(np.abs(numeric).max(), np.abs(slope).max(), 1e-6):
        raise ValueError(
            f"`{name}_jacobian` is not the derivative of `{name}`: at the state {x} it is {slope.tolist()}, central "
            f"differences give {numeric.tolist()}. Correct it, or leave it out: None takes central differences."
        )


# A unit's own nonlinear model: extended Kalman filter with given maps or maps learned by the unit.

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


# A unit whose own filter is a black box: what it reports before and after each measurement is enough.


class BlackBoxClient:
    """Proprietary filter of one unit behind the methods of a KalmanClient; never refitted.

    The message is exact whatever the box is made of: a measurement adds ``J = P+^-1 - P-^-1`` to the
    information about the states and ``z = P+^-1 h+ - P-^-1 h-`` to their information vector. The fitted
    attributes serve predictions only. By the law of total expectation ``E[y h'] = E[y h+']`` and
    ``E[h h'] = E[h+ h+'] + P+``, so the regression of y on the filtered states with these moments is
    consistent for a box that filters the unit's true model.
    """

    def __init__(self, box, name="the unit"):
        self.box = box
        self.name = name

    def fit(self, Y, U=None, starts=(0,), columns=None):
        """Learn the map from the box's states to the sensors; the box itself stays as it is."""
        active = active_columns(Y, self.name, columns)
        prior, prior_cov, posterior, posterior_cov = self._moments(Y, U, starts)
        kept = Y[:, active]
        self._active = active
        self.observation_ = np.zeros((Y.shape[1], posterior.shape[1]))
        self.measurement_cov_ = np.full(Y.shape[1], np.inf)
        self.mean_ = np.full(Y.shape[1], np.nan)
        seen = ~np.isnan(Y).all(axis=0)
        self.mean_[seen] = column_means(Y[:, seen])
        floor = NOISE_FLOOR * np.nanvar(kept, axis=0)
        self.observation_[active], self.measurement_cov_[active], self.mean_[active] = observation_step(
            kept, posterior, posterior_cov, floor
        )
        self.transition_, self.process_cov_ = _linear_step(prior, prior_cov, posterior, posterior_cov, U, starts)
        return self

    @property
    def used_columns(self):
        """Which columns the model is about, (n_features,); the others never moved."""
        return self._active

    def _moments(self, Y, U, starts):
        """What the box says about every row, one episode at a time."""
        parts = [self._episode(Y[a:b], None if U is None else U[a:b]) for a, b in episodes(starts, len(Y))]
        prior, prior_cov, posterior, posterior_cov = zip(*parts, strict=True)
        before, after = _joined(prior_cov, prior), _joined(posterior_cov, posterior)
        return np.concatenate(prior), before, np.concatenate(posterior), after

    def _episode(self, Y, U):
        takes_inputs = U is not None and "inputs" in signature(self.box.filter_moments).parameters
        answer = self.box.filter_moments(Y, inputs=U) if takes_inputs else self.box.filter_moments(Y)
        who = f"`filter_moments` of the client of {self.name}"
        try:
            prior, prior_cov, posterior, posterior_cov = (np.asarray(part, dtype=float) for part in answer)
        except (TypeError, ValueError):
            raise ValueError(
                f"{who} must return four arrays: predicted states, covariances, filtered states, covariances."
            ) from None
        n_states = prior.shape[-1] if prior.ndim else 0
        covariances = {(n_states, n_states), (len(Y), n_states, n_states)}
        for what, value, shapes in (
            ("predicted states", prior, {(len(Y), n_states)}),
            ("predicted covariances", prior_cov, covariances),
            ("filtered states", posterior, {(len(Y), n_states)}),
            ("filtered covariances", posterior_cov, covariances),
        ):
            if value.shape not in shapes:
                wanted = " or ".join(str(shape) for shape in sorted(shapes))
                raise ValueError(f"{who} gave {what} of shape {value.shape}, expected {wanted}.")
            if not np.isfinite(value).all():
                raise ValueError(f"{who} gave {what} that are not finite.")
        return prior, prior_cov, posterior, posterior_cov

    def message(self, X, *, inputs=None, lengths=None, const=False, local_model=False):
        """Sufficient statistic of the measurements, see :meth:`KalmanClient.message`.

        The constant of the log-density rests on the fitted map to the sensors, the rest on the box alone.
        """
        lengths = check_lengths(lengths, len(X))
        moments = self._moments(X, inputs, episode_starts(lengths))
        constant = None
        if const:
            on = self._active
            sensors = self.observation_[on], self.measurement_cov_[on]
            constant = information(X[:, on] - self.mean_[on], *sensors, with_const=True).const
        return self._told(moments, lengths, constant, local_model)

    def _told(self, moments, lengths, constant=None, local_model=False):
        """Message that tells what the moments do, with the linear model where they leave states open."""
        info = information_from_filter(*moments)
        local_model = local_model or not info.determines_states
        model = (self.transition_, self.process_cov_) if local_model else ()
        return StateMessage(info.z, info.patterns, info.index, lengths, constant, *model)

    def filter(self, X, *, inputs=None, lengths=None):
        """The box's filtered states, shape (n_samples, n_states)."""
        return self._moments(X, inputs, episode_starts(check_lengths(lengths, len(X))))[2]

    def predict(self, X, *, inputs=None, lengths=None):
        """Measurements expected from the box's predicted states, shape (n_samples, n_features)."""
        prior = self._moments(X, inputs, episode_starts(check_lengths(lengths, len(X))))[0]
        return self.measurements(prior)

    def measurements(self, states):
        """Expected measurements of given states, shape (n_samples, n_features)."""
        return states @ self.observation_.T + self.mean_


def _joined(covariances, states):
    """One covariance if it is the same at all time steps of all episodes, else one per step.

    A list of (p, p) or (n_rows, p, p) by episode, and of states (n_rows, p).
    """
    first = covariances[0]
    if first.ndim == 2 and all(part.shape == first.shape and (part == first).all() for part in covariances):
        return first
    shapes = [(len(part), *first.shape[-2:]) for part in states]
    return np.concatenate([np.broadcast_to(*pair) for pair in zip(covariances, shapes, strict=True)])


def _linear_step(prior, prior_cov, posterior, posterior_cov, U, starts):
    """Transition and process covariance by regression of predicted states on the filtered ones before.

    States are (n_samples, p), covariances (p, p) or (n_samples, p, p).
    """
    rows = inner_rows(len(prior), starts)
    known = [posterior[rows - 1], np.ones((len(rows), 1))]
    if U is not None:
        known.append(U[rows - 1])
    p = prior.shape[1]
    A = np.linalg.lstsq(np.hstack(known), prior[rows], rcond=None)[0][:p].T
    before = prior_cov if prior_cov.ndim == 2 else prior_cov[rows].mean(axis=0)
    after = posterior_cov if posterior_cov.ndim == 2 else posterior_cov[rows - 1].mean(axis=0)
    return A, floor_eigenvalues(before - A @ after @ A.T, np.finfo(float).tiny)


class NonlinearClient(BlackBoxClient):
    """An :class:`~skfedcausal.ExtendedKalmanClient` as the model of a unit.

    Beside what a black box can do it predicts measurements by the maps themselves, with or without a
    correction of the filtered states (eq. 3 and 8 of the paper): ``x_a[t] = f(x_hat[t-1] + phi[t-1])``.
    """

    _added_noise = 0.0  # of a record without noise

    def fit(self, Y, U=None, starts=(0,), columns=None):
        """Fit the filter if it is not, and describe it linearly; see :class:`BlackBoxClient`."""
        if not self.box.is_fitted:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # constant columns are named below
                self.box = clone(self.box).fit(Y, lengths=episode_lengths(starts, len(Y)))
        self.f, self.h = self.box.f_map_, self.box.h_map_  # transition and measurements of states
        return super().fit(Y, U, starts, columns)

    def fitted_on(self, noise):
        """The client after a fit on a record with noise of known variances added to its columns.

        Maps that were learned cover it by their residuals; R of given maps does not, and gets it.
        """
        learned = self.box.R is None
        self._added_noise = noise if learned else np.zeros_like(noise)
        return self if learned else self.with_noise(noise)

    def with_noise(self, noise):
        """Copy for a record with noise of other known variances added to its columns."""
        change = noise - self._added_noise
        if not change.any():
            return self
        box = copy(self.box)
        R = self.box.measurement_cov_ + np.diag(change)
        lowest = NOISE_FLOOR * np.diag(self.box.measurement_cov_)  # of columns that had little but noise
        short = np.maximum(lowest - np.diag(R), 0.0)
        box.measurement_cov_ = R + np.diag(short)
        other = copy(self)
        vars(other).update(box=box, _added_noise=noise)
        return other

    def measurements(self, states):
        """Expected measurements of given states, shape (n_samples, n_features)."""
        return self.h.value(np.asarray(states, dtype=float))

    def predict_corrected(self, Y, correction, starts):
        """Measurements predicted from corrected states, shape (n_samples, n_features)."""
        prior, _, filtered, _ = self._moments(Y, None, starts)
        rows = inner_rows(len(Y), starts)
        prior[rows] = self.f.value((filtered + correction)[rows - 1])
        return self.measurements(prior)

    def message_after(self, Y, starts, known=None):
        """Message about measurements that follow those before, and where the filter stands after it."""
        moments = self._moments(Y, None, starts) if known is None else self.box.filter_moments(Y, after=known)
        lengths = episode_lengths(starts, len(Y))
        return self._told(moments, lengths), (moments[2][-1], moments[3][-1])
