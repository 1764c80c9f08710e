"""A unit's own state-space model from its own measurements.

Every method finds the column space of C first and shares the rest: the split of the variance into states
and sensor noise, states by generalised least squares, and a first-order vector autoregression of the
states (on the inputs too, where there are any) corrected for the noise that is left in them. All columns
are scaled to unit variance first and the model is scaled back at the end.

With more states than sensors the dynamics are of higher order, in observer form: the measured quantities x follow an
autoregression of p lags with inputs and are the first states; every further lag has states of its own,

    x[t] = A_1 x[t-1] + h_2[t-1] + B_1 u[t-1] + w,   h_k[t] = A_k x[t-1] + h_(k+1)[t-1] + B_k u[t-1],

so that ``y = x + v`` has ``C = [I 0]``. A server re-estimates A, B and Q; C and R it takes from here.
"""

from dataclasses import replace

import numpy as np
from scipy.linalg import eigh
from scipy.special import chdtrc, chdtri
from sklearn.exceptions import ConvergenceWarning

from ..callers import warn
from ..statespace.episodes import block_toeplitz
from ..statespace.matrices import cap_radius, floor_eigenvalues
from ..statespace.observation import NoiseFit, degrees_of_freedom, factor_analysis, sensor_noise
from ..statespace.observation import weights as information_weights
from .moments import RIDGE
from .tuning import TUNING
from .unit_model import NOISE_FLOOR, UnitModel

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
    n = moments.n_samples - moments.n_past
    while order < most:
        freedom = degrees_of_freedom(moments.n_sensors, order)
        if freedom == 0 or n * _factors(moments, order).misfit < freedom * np.log(n):
            break
        order += 1
    return order


def _faint_states(moments, order):
    """Number of further states with which nothing tells of still another one; none where something always does.

    A state that neither the long past nor the sensors of a row show for sure makes the others remember more than a
    row. Two statistics tell of one state more. They are independent without it, and their sum is compared with a
    chi-squared variate: what one factor more explains of what the past leaves unpredicted, and Bartlett's statistic
    with a past of few numbers, the last rows of the states and of the direction that may be another. A record that
    no number of states explains, as most recorded ones, keeps the first.
    """
    for states in range(order, min(_most_states(moments), moments.n_sensors - 1) + 1):
        if not _lacks_a_state(moments, states):
            return states - order
    return 0


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
    statistic += n * _factors(moments, order).misfit
    if statistic <= limit or not fewer:
        return statistic > limit
    return statistic - n * _factors(moments, order + 1).misfit > limit


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


def _factors(moments, n_factors):
    """Factor analysis of what the past leaves unpredicted."""
    floor = noise_floor(moments)
    return factor_analysis(floor_eigenvalues(moments.unexplained, floor.min()), n_factors, floor)


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
    factors = _factors(moments, order)
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

    A state that rows show so little of that the edges of the record count is left out.
    """
    more = _faint_states(moments, order)
    if not more:
        return None
    predicted = _near_past(moments, order + more - 1)[2][:, : n_predicted + more]
    C = _loadings(moments, predicted, order + more)
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
        unexplained = floor_eigenvalues(moments.unexplained, floor.min())
        fit = sensor_noise(unexplained, C, floor)
        R = np.maximum(fit.R / max(_noise_share(unexplained, C, fit.R), 1.0), floor)
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
