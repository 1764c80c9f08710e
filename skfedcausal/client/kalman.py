"""A unit's own linear model: identified from its own measurements or given, usable alone or in a federation."""

import warnings
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.linalg import eigh
from scipy.special import chdtrc, chdtri
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import validate_data

from ..arguments import Lengths, rows_of_numbers, warn
from ..bases import group_of
from ..containers import check_lengths, episode_starts
from ..statespace.episodes import block_toeplitz
from ..statespace.matrices import are_covariances, cap_radius, floor_eigenvalues
from ..statespace.observation import NoiseFit, degrees_of_freedom, factor_analysis, sensor_noise
from ..statespace.observation import weights as information_weights
from . import records
from .baseline import Baseline, HasBaseline, learned_baseline
from .moments import RIDGE, Moments, without_shifts
from .records import COMPLETE, GIVEN, check_matrices, checked_gain, given_matrices, restricted
from .tuning import TUNING
from .unit_model import NOISE_FLOOR, UnitClient, UnitModel, check_initial, with_diagonal

# A unit's own state-space model from its own measurements.
#
# Every method finds the column space of C first and shares the rest: the split of the variance into states
# and sensor noise, states by generalised least squares, and a first-order vector autoregression of the
# states (on the inputs too, where there are any) corrected for the noise that is left in them. All columns
# are scaled to unit variance first and the model is scaled back at the end.
#
# With more states than sensors the dynamics are of higher order, in observer form: the measured quantities x follow an
# autoregression of p lags with inputs and are the first states; every further lag has states of its own,
#
#     x[t] = A_1 x[t-1] + h_2[t-1] + B_1 u[t-1] + w,   h_k[t] = A_k x[t-1] + h_(k+1)[t-1] + B_k u[t-1],
#
# so that ``y = x + v`` has ``C = [I 0]``. A server re-estimates A, B and Q; C and R it takes from here.

_MAX_RADIUS = 0.995
EDGE_SHARE = 3.0  # a state's noise in a row, over its variance, is at most the root of the rows over this
_SHARES = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)  # of what the past leaves unpredicted, as noise


def pca_basis(moments):
    """Directions of largest variance. The columns of (d, d), the best first."""
    return np.linalg.eigh(moments.G[0])[1][:, ::-1]


def lag_basis(moments):
    """Directions of largest lagged covariance: eigenvectors of ``sum_(k >= 1) G_k G_k'`` [1]_.

    White sensor noise, however unequal, does not enter the lag covariances.
    """
    lagged = moments.G[1:]
    return np.linalg.eigh((lagged @ np.swapaxes(lagged, 1, 2)).sum(axis=0))[1][:, ::-1]


def canonical_basis(moments):
    """Loadings of the variates best predicted by the past (canonical variate analysis) [1]_.

    The columns of (d, d), the best first.
    """
    return moments.V[0] @ moments.canonical[1]


def hankel_basis(moments, n_future=3):
    """Loadings of the states behind the Hankel matrix of a long autoregression with the inputs [1]_."""
    predictor = _long_autoregression(moments)
    n_lags, d, c = predictor.shape
    past = moments.past[1]
    n_future = min(n_future, n_lags)
    hankel = np.zeros((n_future, d, n_lags, c))
    for i in range(n_future):
        for j in range(n_lags - i):
            hankel[i, :, j] = predictor[i + j]
    future = np.linalg.cholesky(moments.V[0] + RIDGE * np.eye(d))
    weighted = np.linalg.solve(future, hankel.reshape(n_future, d, -1)).reshape(n_future * d, -1)
    weighted = weighted @ np.linalg.cholesky(past + RIDGE * np.eye(len(past)))
    observability = np.linalg.svd(weighted, full_matrices=False)[0]
    return future @ observability[:d, :d]


def _long_autoregression(moments):
    """Coefficients of the lags of measurements and inputs, by statsmodels where the record allows it."""
    n_lags = moments.n_lags
    if not _one_complete_series(moments) or moments.n_samples <= 2 * moments.n_past + n_lags + 1:
        return moments.autoregression()
    return _statsmodels_lags(moments.series, n_lags, moments.input_series)


def _one_complete_series(moments):
    return moments.complete and len(moments.starts) == 1 and moments.n_sensors > 1


def _statsmodels_lags(series, n_lags, inputs=None):
    """Coefficients of the lags of series and inputs by statsmodels, shape (n_lags, d, d + n_inputs).

    Inputs that never move get the coefficient zero.
    """
    from statsmodels.tsa.api import VAR  # slow to import, and most units never need it

    if inputs is None:
        return VAR(series).fit(n_lags, trend="c").coefs
    moving = inputs.std(axis=0) > 0
    exog = None
    if moving.any():
        exog = np.hstack([np.roll(inputs[:, moving], lag, axis=0) for lag in range(1, n_lags + 1)])
    fit = VAR(series, exog=exog).fit(n_lags, trend="c")
    d, k = series.shape[1], int(moving.sum())
    driven = np.zeros((n_lags, d, len(moving)))
    rows = np.asarray(fit.params)[1 : 1 + n_lags * k]  # after the constant
    driven[:, :, moving] = np.swapaxes(rows.reshape(n_lags, k, d), 1, 2)
    return np.concatenate([fit.coefs, driven], axis=2)


METHODS = {"pca-var": pca_basis, "lag-var": lag_basis, "cva-var": canonical_basis, "subspace": hankel_basis}
_BY_STATSMODELS = ("pca-var", "subspace")  # as their authors do; the others need lag covariances only


def _most_states(moments):
    told = max(moments.n_samples // TUNING.identification_rows_per_state, 1)
    return min(moments.n_sensors, TUNING.identification_max_states, told)


def _predicted_states(moments, most):
    """Number of states by Bartlett's sequential test of the canonical correlations [1]_.

    The part of the measurements that the past predicts has as many dimensions as the unit has states,
    also when other units act on it; beyond them all canonical correlations with the past are zero. With
    missing cells the statistic is scaled to the mean it would have without [2]_.
    """
    squared, _ = moments.canonical
    d, n_past = moments.n_sensors, moments.n_past
    weight = max(moments.n_samples - (d + n_past + 1) / 2, 1.0)
    for order in range(1, most):
        statistic = -weight * np.log1p(-squared[order:]).sum() / moments.inflation[order:].mean()
        if chdtrc((d - order) * (n_past - order), statistic) > TUNING.identification_order_level:
            return order
    return most


def _common_factors(moments, order, most):
    """Number of states from `order` on that explains by BIC how sensors vary together in a row.

    What the past leaves unpredicted of the measurements has the loadings of the states in it and else only
    noise of single sensors, so a state that the unit's own past hardly predicts (one that forgets within a
    row, or that another unit or its inputs drive) shows there as a common factor.
    """
    n, unpredicted, floor = moments.n_samples - moments.n_past, _unpredicted(moments), noise_floor(moments)
    while order < most:
        freedom = degrees_of_freedom(moments.n_sensors, order)
        if freedom == 0 or n * factor_analysis(unpredicted, order, floor).misfit < freedom * np.log(n):
            break
        order += 1
    return order


def _lacks_a_state(moments, order):
    """Whether one state more explains what `order` of them leave, by its statistics of past and present."""
    d, n = moments.n_sensors, moments.n_samples - moments.n_past
    statistic, freedom, _ = _near_past(moments, order)
    if statistic <= chdtri(freedom, TUNING.identification_memory_level):
        return False
    factors, fewer = (degrees_of_freedom(d, k) for k in (order, order + 1))
    limit = chdtri(freedom + factors - fewer, TUNING.identification_order_level)
    if not factors:
        return statistic > limit
    unpredicted, floor = _unpredicted(moments), noise_floor(moments)
    statistic += n * factor_analysis(unpredicted, order, floor).misfit
    if statistic <= limit or not fewer:
        return statistic > limit
    return statistic - n * factor_analysis(unpredicted, order + 1, floor).misfit > limit


def _near_past(moments, order):
    """Bartlett's statistic and its degrees of freedom, the past being the last rows of the first variates.

    Also the loadings of what these predict, the best first.
    """
    d, weights = moments.n_sensors, moments.canonical[1][:, : order + 1]
    n_lags = min(TUNING.identification_near_lags, moments.n_lags)
    cross = np.hstack([lagged @ weights for lagged in moments.G[1 : n_lags + 1]])
    past = block_toeplitz(weights.T @ moments.G[:n_lags] @ weights)
    n_past = len(past)
    explained = cross @ np.linalg.solve(past + RIDGE * np.eye(n_past), cross.T)
    present = moments.G[0] + RIDGE * np.eye(d)
    squared, axes = eigh(explained, present)
    weight = max(moments.n_samples - (d + n_past + 1) / 2, 1.0)
    statistic = -weight * np.log1p(-squared[: d - order].clip(0, 1 - 1e-12)).sum()
    return statistic, (d - order) * max(n_past - order, 0), present @ axes[:, ::-1]


def _unpredicted(moments):
    """Covariance of what the past leaves unpredicted, no smaller in any direction than noise is."""
    return floor_eigenvalues(moments.unexplained, noise_floor(moments).min())


def noise_floor(moments):
    """Least noise of each sensor: a small share of its variance, on top of noise that is known to have been added."""
    return NOISE_FLOOR * np.diag(moments.G[0]) + moments.added


def _loadings(moments, predicted, order):
    """Column space of C: states that the past predicts, the others by factor analysis.

    `predicted` is (d, k), C (d, order).
    """
    n_predicted = predicted.shape[1]
    if n_predicted == order:
        return predicted
    factors = factor_analysis(_unpredicted(moments), order, noise_floor(moments))
    root = np.sqrt(factors.R)[:, None]
    basis = np.linalg.qr(predicted / root)[0]
    rest = factors.C / root
    rest = rest - basis @ (basis.T @ rest)
    return np.hstack([predicted, root * np.linalg.svd(rest, full_matrices=False)[0][:, : order - n_predicted]])


def identify(moments, method, n_states):
    """Local model of a unit."""
    order = n_predicted = n_states
    if n_states == "auto":
        most = _most_states(moments)
        n_predicted = _predicted_states(moments, most)
        order = _common_factors(moments, n_predicted, most) if moments.complete else n_predicted
    elif n_states > moments.n_sensors:
        return identify_hidden(moments, n_states)
    found = _with_faint_states(moments, order, n_predicted) if n_states == "auto" and moments.complete else None
    if found is None:
        C = _loadings(moments, METHODS[method](moments)[:, :n_predicted], order)
        S, R = split_variance(moments, C)
        C = C @ np.linalg.cholesky(S)  # states of unit covariance
    else:
        C, R = found
        order = C.shape[1]
    A, Q, B = dynamics(moments, C, R, by_statsmodels=method in _BY_STATSMODELS)
    model = UnitModel(A, C * moments.scale[:, None], Q, R * moments.scale**2, moments.mean, B)
    if order < moments.n_sensors:
        return model
    return replace(model, unpredicted=np.maximum(np.diag(moments.unexplained), R) * moments.scale**2)


def _with_faint_states(moments, order, n_predicted):
    """Loadings of states of unit covariance and sensor noise, with the faint states; None where there are none.

    A state that neither the long past nor the sensors of a row show for sure makes the others remember more than a
    row. Two statistics tell of one state more. They are independent without it, and their sum is compared with a
    chi-squared variate: what one factor more explains of what the past leaves unpredicted, and Bartlett's statistic
    with a past of few numbers, the last rows of the states and of the direction that may be another. As many states
    are taken as leave nothing that tells of still another one. A record that no number of states explains, as most
    recorded ones, keeps the first. A state that rows show so little of that the edges of the record count is left out.
    """
    states, most = order, min(_most_states(moments), moments.n_sensors - 1)
    while states <= most and _lacks_a_state(moments, states):
        states += 1
    if not order < states <= most:
        return None
    predicted = _near_past(moments, states - 1)[2][:, : n_predicted + states - order]
    C = _loadings(moments, predicted, states)
    S, fit = _split(moments, C)
    C = C @ np.linalg.cholesky(S)
    noise = 1 / np.linalg.eigvalsh(C.T @ (C / fit.R[:, None]))[0]
    return (C, fit.R) if noise < np.sqrt(moments.n_samples) / EDGE_SHARE else None


def split_variance(moments, C):
    """State covariance and sensor-noise variances with ``G_0 = C S C' + diag(R)``.

    Maximum likelihood of the factor model with known loadings, fitted to what the past leaves unpredicted.
    Where that makes the noise in some state larger than all that is unpredicted of it (a Heywood case), the
    noise of all sensors is scaled down until it is not. With as many states as sensors the noise is put at its
    floor, see :func:`noise_floor`.
    """
    S, fit = _split(moments, C)
    if not fit.converged:
        warn(
            f"The noise variances of {len(C)} sensors with {C.shape[1]} states were still moving after {fit.n_steps} "
            "steps. The sensors hardly tell noise from states: use fewer states, or give C and R.",
            ConvergenceWarning,
        )
    return S, fit.R


def _split(moments, C):
    """The state covariance and the :class:`NoiseFit` of :func:`split_variance`."""
    d, p = C.shape
    floor = noise_floor(moments)
    fit = NoiseFit(floor, True, 0)
    if d > p:
        unpredicted = _unpredicted(moments)
        fit = sensor_noise(unpredicted, C, floor)
        R = np.maximum(fit.R / max(_noise_share(unpredicted, C, fit.R), 1.0), floor)
        fit = NoiseFit(R, fit.converged, fit.n_steps)
    return _state_covariances(moments.G[0], C, fit.R)[1], fit


def unit_states(moments, C, R):
    """Loadings of states of unit covariance in the space of C, given the noise of the sensors.

    C is (d, p), R (d,) or (d, d).
    """
    return C @ np.linalg.cholesky(_state_covariances(moments.G[0], C, R)[1])


def _noise_share(G, C, R):
    """Largest share, over all combinations of states, that noise has in their variance.

    G is (d, d), C (d, p), R (d,).
    """
    scaled = C / R[:, None]
    N = np.linalg.inv(C.T @ scaled)
    weights = scaled @ N
    root = np.linalg.cholesky(weights.T @ G @ weights)
    return np.linalg.eigvalsh(np.linalg.solve(root, np.linalg.solve(root, N).T))[-1]


def _state_covariances(G, C, R):
    """Covariance of the least-squares states at each lag, the true states' covariance, the weights.

    G is (d, d) or (n_lags, d, d), C (d, p), R (d,) or (d, d).
    """
    W = information_weights(C, R)
    N = np.linalg.inv(C.T @ W)
    weights = W @ N
    raw = weights.T @ G @ weights
    first = raw if raw.ndim == 2 else raw[0]
    floor = TUNING.identification_state_floor * np.trace(first) / len(first)
    return raw, floor_eigenvalues(first - N, floor), weights


def dynamics(moments, C, R, *, B=None, by_statsmodels=False):
    """Transition, process covariance and input matrix of scaled states with known loadings and noise.

    C is (d, p), R (d,) or (d, d), B (p, k) or None.
    """
    raw, state, weights = _state_covariances(moments.G[:2], C, R)
    floor = TUNING.identification_state_floor * np.trace(state) / len(state)
    if moments.inputs is not None:
        return _driven_dynamics(moments.inputs, raw[1], state, weights, floor, B)
    lagged = raw[1]
    if by_statsmodels and _one_complete_series(moments) and weights.shape[1] > 1:
        lagged = _statsmodels_lags(moments.series @ weights, 1)[0] @ raw[0]
    A = cap_radius(np.linalg.solve(state, lagged.T).T, _MAX_RADIUS)
    return A, floor_eigenvalues(state - A @ state @ A.T, floor), B


def _driven_dynamics(inputs, lagged, state, weights, floor, B=None):
    """Regression of the states on the states and inputs before them, ``[A B] M = [lagged, E h u_-1']``."""
    p = len(state)
    same = weights.T @ inputs.same
    M = np.block([[state, same], [same.T, inputs.covariance]])
    if B is None:
        cross = np.hstack([lagged, weights.T @ inputs.previous])
        inverse = np.linalg.pinv(M, rcond=TUNING.identification_regular, hermitian=True)
        A, scaled = np.split(cross @ inverse, [p], axis=1)
    else:
        scaled = B * inputs.scale
        A = np.linalg.solve(state, (lagged - scaled @ same.T).T).T
    A = cap_radius(A, _MAX_RADIUS)
    AB = np.hstack([A, scaled])
    return A, floor_eigenvalues(state - AB @ M @ AB.T, floor), scaled / inputs.scale


def identify_hidden(moments, n_states):
    """Model with more states than sensors; of several shares of noise the one with the best likelihood."""
    unpredicted, floor = np.diag(moments.unexplained), noise_floor(moments)
    models = [_observer_form(moments, n_states, np.maximum(share * unpredicted, floor)) for share in _SHARES]
    Y, U = moments.series, moments.input_series
    best = max(models, key=lambda model: model.log_likelihood(Y, U, moments.starts).sum())
    scale = moments.scale
    B = None if best.B is None else best.B / moments.inputs.scale
    return replace(best, C=best.C * scale[:, None], R=best.R * scale**2, mean=moments.mean, B=B)


def _observer_form(moments, n_states, R):
    """Model of scaled columns with given noise: the autoregression corrected for it, last lag of low rank.

    R is (d,).
    """
    d, c = moments.n_sensors, moments.n_past // moments.n_lags
    p = -(-n_states // d)
    cross, past = (part[..., : p * c] for part in moments.past)
    past = past[: p * c].copy()
    noisy = np.concatenate([lag * c + np.arange(d) for lag in range(p)])
    past[noisy, noisy] -= np.tile(R, p)
    past = floor_eigenvalues(past, TUNING.identification_floor * np.trace(past) / len(past))
    weights = np.linalg.solve(past, cross.T).T
    blocks = np.moveaxis(weights.reshape(d, p, c), 1, 0)  # (lag, d, measurements and inputs)
    driven = np.zeros((n_states, c))  # by x and u; the further states hand on to those before them
    A, rank = np.zeros((n_states, n_states)), n_states - (p - 1) * d
    for k in range(p - 1):
        driven[k * d : (k + 1) * d] = blocks[k]
        n_next = d if k < p - 2 else rank
        A[k * d : (k + 1) * d, (k + 1) * d : (k + 1) * d + n_next] = np.eye(d, n_next)
    noise = floor_eigenvalues(moments.G[0] - np.diag(R) - weights @ cross.T, TUNING.identification_floor)
    # of the last lag what counts most: in units of the noise, and as its regressors move
    left, right = np.linalg.cholesky(noise), np.linalg.cholesky(past[-c:, -c:])
    U, size, V = np.linalg.svd(np.linalg.solve(left, blocks[-1] @ right), full_matrices=False)
    driven[(p - 1) * d :] = np.linalg.solve(right.T, (size[:rank, None] * V[:rank]).T).T
    A[(p - 2) * d : (p - 1) * d, (p - 1) * d :] = left @ U[:, :rank]
    A[:, :d] += driven[:, :d]
    Q = TUNING.identification_quiet * np.trace(noise) / d * np.eye(n_states)
    Q[:d, :d] = noise
    B = driven[:, d:] if c > d else None
    return UnitModel(cap_radius(A, _MAX_RADIUS), np.eye(d, n_states), Q, R, np.zeros(d), B)


# A unit's own linear model: identified locally or given, usable alone or as part of a federation.

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
            model = replace(model, variance=steady.var(axis=0))
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
        if "C" in given:
            model = _with_given(given, moments, name)
        else:
            model = identify(moments, client.identify, client.n_states)
        if are_covariances(model.Q[None]):
            return model
    except np.linalg.LinAlgError:
        pass
    raise ValueError(
        f"The {len(moments.scale)} columns of {name} that vary do not let its states be told apart: they determine "
        "each other exactly, or a few values exceed all others by far. Give fewer states (n_states), leave out "
        "copies of columns, or take such values out."
    )


def _with_given(given, moments, name):
    """Model with a given C, and with the matrices that were not given identified from the data."""
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
