"""Filter of one unit with missing measurements, through statsmodels' compiled Kalman filter.

Each time step is first reduced to at most ``n_states`` pseudo-measurements ``L' h + e``, ``e ~ N(0, I)``,
with ``L L' = J`` of that step, so the cost does not depend on the number of sensors and an absent unit simply
has no pseudo-measurements. Long records are filtered in chunks.
"""

from dataclasses import dataclass

import numpy as np

from .episodes import episodes

_CHUNK = 20_000
_RANK = 1e-12


@dataclass(frozen=True)
class Filtered:
    """Filter output.

    Attributes
    ----------
    filtered, predicted : ndarray of shape (n_samples, n)
    log_likelihood : ndarray of shape (n_samples,)
        Less the terms free of the states.
    """

    filtered: np.ndarray
    predicted: np.ndarray
    log_likelihood: np.ndarray


def pseudo_measurements(info):
    """Designs ``L'`` per pattern and whitened measurements per time step.

    Parameters
    ----------
    info : Information

    Returns
    -------
    designs : ndarray of shape (n_patterns, n, n)
    series : ndarray of shape (n_samples, n)
        Zero in directions that are not measured (their design row is zero too).
    """
    values, vectors = np.linalg.eigh(info.patterns)
    kept = values > _RANK * np.maximum(values[:, -1:], 1e-300)
    root = np.sqrt(np.where(kept, values, 0.0))
    inverse = np.where(kept, 1 / np.where(kept, root, 1.0), 0.0)
    designs = root[:, :, None] * np.swapaxes(vectors, 1, 2)
    whiten = inverse[:, :, None] * np.swapaxes(vectors, 1, 2)
    index = np.zeros(len(info.z), dtype=int) if info.index is None else info.index
    return designs, np.einsum("tij,tj->ti", whiten[index], info.z)


def filter_missing(A, Q, P0, info, *, exogenous=None, starts=(0,)):
    """Filtered and predicted states of one unit, exact for any pattern of missing measurements.

    Parameters
    ----------
    A, Q, P0 : ndarray of shape (n, n)
    info : Information
    exogenous : ndarray of shape (n_samples, n), default=None
        Known term of the state equation at each row; the first row of an episode is its initial mean.
    starts : sequence of int

    Returns
    -------
    Filtered
    """
    designs, series = pseudo_measurements(info)
    index = np.zeros(len(series), dtype=int) if info.index is None else info.index
    n_samples, n = series.shape
    filtered, predicted = np.empty((n_samples, n)), np.empty((n_samples, n))
    loglik = np.empty(n_samples)
    for start, stop in episodes(starts, n_samples):
        mean = np.zeros(n) if exogenous is None else exogenous[start]
        cov = P0
        for first in range(start, stop, _CHUNK):
            rows = slice(first, min(stop, first + _CHUNK))
            result, mean, cov = _filter_chunk(
                A, Q, mean, cov, designs[index[rows]], series[rows], exogenous, rows, stop
            )
            filtered[rows] = result.filtered_state.T
            predicted[rows] = result.predicted_state.T[:-1]
            loglik[rows] = result.llf_obs
    # the likelihood of the pseudo-measurements, less the part of it that is free of the states
    loglik += 0.5 * (n * np.log(2 * np.pi) + np.einsum("ti,ti->t", series, series))
    return Filtered(filtered, predicted, loglik)


def _filter_chunk(A, Q, mean, cov, designs, series, exogenous, rows, stop):
    from statsmodels.tsa.statespace.kalman_filter import KalmanFilter  # slow to import, for gaps only

    n = len(A)
    model = KalmanFilter(k_endog=n, k_states=n, tolerance=0.0)
    model.bind(np.ascontiguousarray(series))
    model["design"] = np.asfortranarray(np.transpose(designs, (1, 2, 0)))
    model["transition"], model["selection"], model["state_cov"] = A, np.eye(n), Q
    model["obs_cov"] = np.eye(n)
    if exogenous is not None:
        drive = np.zeros((n, len(series)))
        following = exogenous[rows.start + 1 : min(stop, rows.stop + 1)]
        drive[:, : len(following)] = following.T
        model["state_intercept"] = drive
    model.initialize_known(mean, cov)
    model.memory_no_gain = model.memory_no_smoothing = model.memory_no_std_forecast = True
    model.memory_no_forecast_cov = True
    result = model.filter()
    return result, result.predicted_state[:, -1], result.predicted_state_cov[:, :, -1]
