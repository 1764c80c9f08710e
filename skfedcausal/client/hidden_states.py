"""More states than sensors: dynamics of higher order behind few measurements, in observer form.

The measured quantities x follow an autoregression of p lags with inputs and are the first states; every
further lag has states of its own,

    x[t] = A_1 x[t-1] + h_2[t-1] + B_1 u[t-1] + w,   h_k[t] = A_k x[t-1] + h_(k+1)[t-1] + B_k u[t-1],

so that ``y = x + v`` has ``C = [I 0]``. A server re-estimates A, B and Q; C and R it takes from here.
"""

from dataclasses import replace

import numpy as np

from ..statespace.matrices import cap_radius, floor_eigenvalues
from .identification import noise_floor
from .unit_model import UnitModel

_MAX_RADIUS = 0.995
_SHARES = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)  # of what the past leaves unpredicted, as noise
_FLOOR = 1e-3  # share of a regressor's variance that is signal at least
_QUIET = 0.03  # noise of the further states, as a share of that of the measured ones


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
    """Model of scaled columns with given noise: the autoregression corrected for it, last lag of low rank."""
    d, c = moments.n_sensors, moments.n_past // moments.n_lags
    p = -(-n_states // d)
    cross, past = (part[..., : p * c] for part in moments.past)
    past = past[: p * c].copy()
    noisy = np.concatenate([lag * c + np.arange(d) for lag in range(p)])
    past[noisy, noisy] -= np.tile(R, p)
    past = floor_eigenvalues(past, _FLOOR * np.trace(past) / len(past))
    weights = np.linalg.solve(past, cross.T).T
    blocks = np.moveaxis(weights.reshape(d, p, c), 1, 0)  # (lag, d, measurements and inputs)
    driven = np.zeros((n_states, c))  # by x and u; the further states hand on to those before them
    A, rank = np.zeros((n_states, n_states)), n_states - (p - 1) * d
    for k in range(p - 1):
        driven[k * d : (k + 1) * d] = blocks[k]
        n_next = d if k < p - 2 else rank
        A[k * d : (k + 1) * d, (k + 1) * d : (k + 1) * d + n_next] = np.eye(d, n_next)
    noise = floor_eigenvalues(moments.G[0] - np.diag(R) - weights @ cross.T, _FLOOR)
    # of the last lag what counts most: in units of the noise, and as its regressors move
    left, right = np.linalg.cholesky(noise), np.linalg.cholesky(past[-c:, -c:])
    U, size, V = np.linalg.svd(np.linalg.solve(left, blocks[-1] @ right), full_matrices=False)
    driven[(p - 1) * d :] = np.linalg.solve(right.T, (size[:rank, None] * V[:rank]).T).T
    A[(p - 2) * d : (p - 1) * d, (p - 1) * d :] = left @ U[:, :rank]
    A[:, :d] += driven[:, :d]
    Q = _QUIET * np.trace(noise) / d * np.eye(n_states)
    Q[:d, :d] = noise
    B = driven[:, d:] if c > d else None
    return UnitModel(cap_radius(A, _MAX_RADIUS), np.eye(d, n_states), Q, R, np.zeros(d), B)
