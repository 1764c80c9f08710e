"""A unit's own state-space model from its own measurements.

Every method finds the column space of C first and shares the rest: the split of the variance into states
and sensor noise, states by generalised least squares, and a first-order vector autoregression of the
states (statsmodels) corrected for the noise that is left in them. All columns are scaled to unit variance
first and the model is scaled back at the end.
"""

import numpy as np
from scipy import stats
from statsmodels.tsa.api import VAR

from ..statespace.lagcov import lag_covariances
from ..statespace.positive import cap_radius, floor_eigenvalues
from .unit_model import UnitModel

_N_LAGS = 5
NOISE_FLOOR = 1e-3  # share of a column's variance that counts as sensor noise at least
_STATE_FLOOR = 1e-2  # share of a state's variance that is signal at least
_FACTOR_ITERATIONS = 30
_RIDGE = 1e-3  # added to scaled covariances before they are inverted
_MAX_RADIUS = 0.995
_MAX_STATES = 8
_ORDER_LEVEL = 0.005  # level of the tests that choose the number of states
_ROWS_PER_STATE = 125  # time steps that a state chosen automatically needs at least


class Moments:
    """Lag covariances of a unit's scaled measurements, NaN standing for missing ones.

    Parameters
    ----------
    Y : ndarray of shape (n_samples, n_sensors)
    mean : ndarray of shape (n_sensors,)
    starts : sequence of int
        First row of each episode.
    """

    def __init__(self, Y, mean, starts):
        present = ~np.isnan(Y)
        self.complete = bool(present.all())
        self.n_samples = len(Y)
        self.mean = mean
        centred = Y - mean
        self.scale = np.sqrt(np.nanmean(centred**2, axis=0))
        centred /= self.scale
        if not self.complete:
            centred[~present] = 0.0
        self.series, self.starts = centred, starts
        n_lags = min(_N_LAGS, max(len(Y) // 4, 1))
        mask = None if self.complete else present.astype(float)
        self.G = lag_covariances(centred, range(n_lags + 1), starts, mask) / len(Y)

    @property
    def n_sensors(self):
        """Number of columns."""
        return self.G.shape[1]

    def past(self):
        """Covariance of the present with the past lags, and of the past lags with each other."""
        d, n_lags = self.n_sensors, len(self.G) - 1
        cross = np.hstack(list(self.G[1:]))
        block = np.empty((n_lags, d, n_lags, d))
        for i in range(n_lags):
            for j in range(n_lags):
                block[i, :, j] = self.G[j - i] if j >= i else self.G[i - j].T
        return cross, block.reshape(n_lags * d, n_lags * d)

    def canonical(self):
        """Squared canonical correlations of the present with the past, and the directions of the present.

        Returns
        -------
        squared : ndarray of shape (n_sensors,)
            Largest first.
        weights : ndarray of shape (n_sensors, n_sensors)
            Canonical variates of the present are ``y @ weights``.
        """
        cross, past = self.past()
        explained = cross @ np.linalg.solve(past + _RIDGE * np.eye(len(past)), cross.T)
        L = np.linalg.cholesky(self.G[0] + _RIDGE * np.eye(self.n_sensors))
        half = np.linalg.solve(L, explained)
        squared, axes = np.linalg.eigh(np.linalg.solve(L, half.T))
        return squared[::-1].clip(0, 1 - 1e-12), np.linalg.solve(L.T, axes[:, ::-1])


def pca_basis(moments):
    """Directions of largest variance."""
    return np.linalg.eigh(moments.G[0])[1][:, ::-1]


def lag_basis(moments):
    """Directions of largest lagged covariance: eigenvectors of ``sum_(k >= 1) G_k G_k'`` [1]_.

    White sensor noise, however unequal, does not enter the lag covariances.

    References
    ----------
    .. [1] Lam, Yao (2012), Factor modeling for high-dimensional time series: inference for the number of
           factors, Annals of Statistics 40(2).
    """
    lagged = moments.G[1:]
    return np.linalg.eigh((lagged @ np.swapaxes(lagged, 1, 2)).sum(axis=0))[1][:, ::-1]


def canonical_basis(moments):
    """Loadings of the variates best predicted by the past (canonical variate analysis) [1]_.

    References
    ----------
    .. [1] Larimore (1990), Canonical variate analysis in identification, filtering and adaptive control,
           Proceedings of the 29th IEEE Conference on Decision and Control.
    """
    return moments.G[0] @ moments.canonical()[1]


def hankel_basis(moments, n_future=3):
    """Loadings of the states behind the Hankel matrix of a long autoregression's coefficients [1]_.

    References
    ----------
    .. [1] Jansson (2003), Subspace identification and ARX modeling, IFAC Proceedings 36(16).
    """
    predictor = _autoregressive_coefficients(moments)
    n_lags, d, _ = predictor.shape
    _, past = moments.past()
    hankel = np.zeros((n_future, d, n_lags, d))
    for i in range(n_future):
        for j in range(n_lags - i):
            hankel[i, :, j] = predictor[i + j]
    future = np.linalg.cholesky(moments.G[0] + _RIDGE * np.eye(d))
    weighted = np.linalg.solve(future, hankel.reshape(n_future, d, -1)).reshape(n_future * d, -1)
    weighted = weighted @ np.linalg.cholesky(past + _RIDGE * np.eye(len(past)))
    observability = np.linalg.svd(weighted, full_matrices=False)[0]
    return future @ observability[:d, :d]


def _autoregressive_coefficients(moments):
    """Coefficients of the lags in a long autoregression of the measurements, shape (n_lags, d, d)."""
    n_lags, d = len(moments.G) - 1, moments.n_sensors
    long_enough = moments.n_samples > 2 * n_lags * d + n_lags + 1
    if moments.complete and len(moments.starts) == 1 and d > 1 and long_enough:
        return VAR(moments.series).fit(n_lags, trend="c").coefs
    cross, past = moments.past()
    flat = np.linalg.solve(past + _RIDGE * np.eye(len(past)), cross.T).T
    return np.swapaxes(flat.reshape(d, n_lags, d), 0, 1)


METHODS = {
    "pca-var": pca_basis,
    "lag-var": lag_basis,
    "cva-var": canonical_basis,
    "subspace": hankel_basis,
}


def choose_order(moments):
    """Number of states by Bartlett's sequential test of the canonical correlations [1]_.

    The part of the measurements that the past predicts has as many dimensions as the unit has states,
    also when other units act on it; beyond them all canonical correlations with the past are zero.

    References
    ----------
    .. [1] Bartlett (1941), The statistical significance of canonical correlations, Biometrika 32(1).
    """
    squared, _ = moments.canonical()
    d, n_past = moments.n_sensors, moments.n_sensors * (len(moments.G) - 1)
    weight = max(moments.n_samples - (d + n_past + 1) / 2, 1.0)
    most = min(d, _MAX_STATES, max(moments.n_samples // _ROWS_PER_STATE, 1))
    for order in range(1, most):
        statistic = -weight * np.log1p(-squared[order:]).sum()
        if stats.chi2.sf(statistic, (d - order) * (n_past - order)) > _ORDER_LEVEL:
            return order
    return most


def identify(moments, method, n_states):
    """Local model of a unit.

    Parameters
    ----------
    moments : Moments
    method : {"pca-var", "lag-var", "cva-var", "subspace"}
    n_states : int or "auto"

    Returns
    -------
    UnitModel
    """
    order = choose_order(moments) if n_states == "auto" else n_states
    C = METHODS[method](moments)[:, :order]
    S, R = split_variance(moments.G[0], C)
    C = C @ np.linalg.cholesky(S)  # states of unit covariance
    A, Q = dynamics(moments, C, R)
    return UnitModel(A, C * moments.scale[:, None], Q, R * moments.scale**2, moments.mean)


def split_variance(G0, C):
    """State covariance and sensor-noise variances with ``G0 = C S C' + diag(R)``.

    Maximum likelihood of the factor model with known loadings, by EM from the noise that the projection
    on C leaves over. With as many states as sensors the two cannot be told apart and the noise is put at
    its floor.

    Returns
    -------
    S : ndarray of shape (n_states, n_states)
    R : ndarray of shape (n_sensors,)
    """
    d, p = C.shape
    floor = NOISE_FLOOR * np.diag(G0)
    if d == p:
        return _state_covariances(G0, C, floor)[1], floor
    basis = np.linalg.qr(C)[0]
    rest = np.eye(d) - basis @ basis.T
    R = np.maximum(np.diag(rest @ G0 @ rest) * d / (d - p), floor)
    S = _state_covariances(G0, C, R)[1]
    for _ in range(_FACTOR_ITERATIONS):
        W = C / R[:, None]
        posterior = np.linalg.inv(np.linalg.inv(S) + C.T @ W)
        gain = posterior @ W.T  # E[h | y] = gain y
        cross = gain @ G0
        S = posterior + cross @ gain.T
        R = np.diag(G0) - 2 * np.einsum("di,id->d", C, cross) + np.einsum("di,ij,dj->d", C, S, C)
        R = np.maximum(R, floor)
    return (S + S.T) / 2, R


def _state_covariances(G, C, R):
    """Covariance of the least-squares states at each lag, the true states' covariance, the weights."""
    N = np.linalg.inv(C.T @ (C / R[:, None]))
    weights = (C / R[:, None]) @ N
    raw = weights.T @ G @ weights
    first = raw if raw.ndim == 2 else raw[0]
    floor = _STATE_FLOOR * np.trace(first) / len(first)
    return raw, floor_eigenvalues(first - N, floor), weights


def dynamics(moments, C, R):
    """Transition matrix and process covariance of scaled states with known loadings and noise.

    Returns
    -------
    A, Q : ndarray of shape (n_states, n_states)
    """
    raw, state, weights = _state_covariances(moments.G, C, R)
    A = _autoregression(moments, weights, raw)
    A = cap_radius(np.linalg.solve(state, raw[0] @ A.T).T, _MAX_RADIUS)
    floor = _STATE_FLOOR * np.trace(state) / len(state)
    return A, floor_eigenvalues(state - A @ state @ A.T, floor)


def _autoregression(moments, weights, raw):
    """Least-squares transition of the noisy states, by statsmodels where the record allows it."""
    if moments.complete and len(moments.starts) == 1 and weights.shape[1] > 1:
        return VAR(moments.series @ weights).fit(1, trend="c").coefs[0]
    return np.linalg.solve(raw[0], raw[1].T).T
