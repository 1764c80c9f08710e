"""A unit's own nonlinear model: extended Kalman filter with given maps or maps learned at home."""

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.neural_network import MLPRegressor
from sklearn.utils.validation import check_is_fitted

from ..statespace.episodes import episodes

_FLOOR = 0.01  # of the measurement noise, in standardised units


class ExtendedKalmanClient(BaseEstimator):
    """Extended Kalman filter of one unit (eq. 1 and 2 of [1]_).

    The model is ``x[t] = f(x[t-1]) + w``, ``y[t] = h(x[t]) + v``. Give both maps with their Jacobians and the
    covariances, or none of them: then the unit learns f and h at home from nominal measurements, as networks
    on the leading principal components.

    Parameters
    ----------
    f, h : callable, default=None
        Transition ``(n_states,) -> (n_states,)`` and measurement ``(n_states,) -> (n_features,)``.
    f_jacobian, h_jacobian : callable, default=None
        ``(n_states,) -> (n_states, n_states)`` and ``(n_states,) -> (n_features, n_states)``.
    Q, R : array-like, default=None
        Covariances of w and v.
    n_states : int, default=2
        States to learn; with given maps their number.
    hidden : int, default=32
        Tanh units of each learned network.
    random_state : int, RandomState instance or None, default=None

    Attributes
    ----------
    process_cov_, measurement_cov_ : ndarray

    Notes
    -----
    Used as a unit's client it is handed over fitted: ``client={"unit": ExtendedKalmanClient().fit(Y)}``. The
    covariances learned are those of the residuals of the maps on data, so they cover what the maps miss, the
    influence of other units included. NaN stands for a missing measurement.

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
    """

    def __init__(
        self,
        f=None,
        h=None,
        *,
        f_jacobian=None,
        h_jacobian=None,
        Q=None,
        R=None,
        n_states=2,
        hidden=32,
        random_state=None,
    ):
        self.f = f
        self.h = h
        self.f_jacobian = f_jacobian
        self.h_jacobian = h_jacobian
        self.Q = Q
        self.R = R
        self.n_states = n_states
        self.hidden = hidden
        self.random_state = random_state

    def fit(self, X, y=None, *, lengths=None):
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
            If only some of the maps, Jacobians and covariances are given.
        """
        parts = {name: getattr(self, name) for name in ("f", "h", "f_jacobian", "h_jacobian", "Q", "R")}
        given = [name for name, value in parts.items() if value is not None]
        if given and len(given) < len(parts):
            lacking = sorted(set(parts) - set(given))
            raise ValueError(f"Got {', '.join(given)} without {', '.join(lacking)}. Give all six, or none.")
        if given:
            self._maps = (self.f, self.f_jacobian, self.h, self.h_jacobian)
            self.process_cov_ = np.atleast_2d(np.asarray(self.Q, dtype=float))
            self.measurement_cov_ = np.atleast_2d(np.asarray(self.R, dtype=float))
            return self
        Y = np.asarray(X, dtype=float)
        starts = (0,) if lengths is None else (0, *np.cumsum(lengths)[:-1].tolist())
        return self._learn(Y, starts)

    def _learn(self, Y, starts):
        """Networks on the principal components of the standardised measurements."""
        mean, scale = np.nanmean(Y, axis=0), np.nanstd(Y, axis=0)
        if not (scale > 0).all():
            raise ValueError("Some columns are constant; leave them out or give the maps.")
        inside = (Y - mean) / scale
        complete = ~np.isnan(inside).any(axis=1)
        _, values, axes = np.linalg.svd(inside[complete], full_matrices=False)
        weights = axes[: self.n_states].T / values[: self.n_states] * np.sqrt(complete.sum())
        states = inside @ weights
        follows = np.concatenate([np.arange(i, j - 1) for i, j in episodes(starts, len(Y))])
        follows = follows[complete[follows] & complete[follows + 1]]
        step = self._network().fit(states[follows], states[follows + 1])
        show = self._network().fit(states[complete], inside[complete])
        f, f_jacobian = network_map(step)
        h, h_jacobian = network_map(show)
        w = states[follows + 1] - step.predict(states[follows])
        v = inside[complete] - show.predict(states[complete])
        self.process_cov_ = np.atleast_2d(w.T @ w / len(w))
        R = v.T @ v / len(v) + _FLOOR * np.eye(len(mean))
        self.measurement_cov_ = R * np.outer(scale, scale)
        self._maps = (
            f,
            f_jacobian,
            lambda x: mean + scale * h(x),
            lambda x: scale[:, None] * h_jacobian(x),
        )
        return self

    def _network(self):
        return MLPRegressor(
            hidden_layer_sizes=(self.hidden,),
            activation="tanh",
            alpha=1e-4,
            learning_rate_init=3e-3,
            batch_size=128,
            early_stopping=True,
            n_iter_no_change=10,
            max_iter=300,
            random_state=self.random_state,
        )

    def filter_moments(self, Y):
        """Predicted and filtered states with their covariances, one episode.

        Parameters
        ----------
        Y : ndarray of shape (n_samples, n_features)
            NaN where missing.

        Returns
        -------
        prior : ndarray of shape (n_samples, n_states)
        prior_cov : ndarray of shape (n_samples, n_states, n_states)
        posterior : ndarray of shape (n_samples, n_states)
        posterior_cov : ndarray of shape (n_samples, n_states, n_states)
        """
        check_is_fitted(self)
        f, f_jacobian, h, h_jacobian = self._maps
        Q, R, n = self.process_cov_, self.measurement_cov_, len(self.process_cov_)
        x, P = np.zeros(n), 10 * Q + np.eye(n)
        means, covariances = np.empty((2, len(Y), n)), np.empty((2, len(Y), n, n))
        for t, y in enumerate(np.asarray(Y, dtype=float)):
            if t:
                F = f_jacobian(x)
                x, P = f(x), F @ P @ F.T + Q
            means[0, t], covariances[0, t] = x, P
            seen = ~np.isnan(y)
            if seen.any():
                H, S = h_jacobian(x)[seen], R[np.ix_(seen, seen)]
                gain = np.linalg.solve(H @ P @ H.T + S, H @ P).T
                x = x + gain @ (y - h(x))[seen]
                keep = np.eye(n) - gain @ H
                P = keep @ P @ keep.T + gain @ S @ gain.T  # Joseph form
                P = (P + P.T) / 2
            means[1, t], covariances[1, t] = x, P
        return means[0], covariances[0], means[1], covariances[1]


def network_map(network):
    """A fitted one-hidden-layer tanh MLPRegressor as a map of one state, and its Jacobian.

    Parameters
    ----------
    network : MLPRegressor
        With ``activation="tanh"``; its weights are public (``coefs_``, ``intercepts_``).

    Returns
    -------
    map, jacobian : callable
    """
    if network.activation != "tanh" or len(network.coefs_) != 2:
        raise ValueError(
            f"Got a network with activation {network.activation!r} and {len(network.coefs_) - 1} hidden "
            "layers; one layer of tanh is expected."
        )
    (W1, W2), (b1, b2) = network.coefs_, network.intercepts_

    def value(x):
        return np.tanh(x @ W1 + b1) @ W2 + b2

    def jacobian(x):
        slope = 1 - np.tanh(x @ W1 + b1) ** 2
        return (W1 * slope @ W2).T

    return value, jacobian
