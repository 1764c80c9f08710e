"""The part of expectation maximisation that a unit does at home: its own sensors, given smoothed states."""

import numpy as np


def observation_step(Y, states, covariances, noise_floor):
    """Maximise the expected log-density of measurements over loadings, noise variances and level.

    Each sensor is a regression of its own on the states, with moments ``E[h h'] = h h' + V`` instead of
    products of the states alone [1]_. Time steps at which a sensor is missing do not enter.

    Parameters
    ----------
    Y : ndarray of shape (n_samples, n_sensors)
        Measurements, NaN where missing.
    states : ndarray of shape (n_samples, n_states)
        Smoothed states.
    covariances : ndarray of shape (n_states, n_states) or (n_samples, n_states, n_states)
        Their covariances, one for all time steps or one each.
    noise_floor : ndarray of shape (n_sensors,)
        Smallest noise variance allowed.

    Returns
    -------
    C : ndarray of shape (n_sensors, n_states)
    R : ndarray of shape (n_sensors,)
    mean : ndarray of shape (n_sensors,)

    References
    ----------
    .. [1] Shumway, Stoffer (1982), An approach to time series smoothing and forecasting using the EM
           algorithm, Journal of Time Series Analysis 3(4).
    """
    present = (~np.isnan(Y)).astype(float)
    counts = present.sum(axis=0)
    level = np.where(present > 0, Y, 0.0).sum(axis=0) / counts  # centred, or large levels cancel digits
    state_levels = present.T @ states / counts[:, None]
    centred = np.where(present > 0, Y - level, 0.0)
    products = np.einsum("td,ti,tj->dij", present, states, states, optimize=True)
    products -= counts[:, None, None] * state_levels[:, :, None] * state_levels[:, None, :]
    if covariances.ndim == 2:
        spread = counts[:, None, None] * covariances
    else:
        spread = np.einsum("td,tij->dij", present, covariances, optimize=True)
    C = np.linalg.solve(products + spread, (centred.T @ states)[..., None])[..., 0]
    residuals = (centred - (states @ C.T - np.einsum("di,di->d", C, state_levels))) * present
    squares = (residuals**2).sum(axis=0) + np.einsum("di,dij,dj->d", C, spread, C)
    mean = level - np.einsum("di,di->d", C, state_levels)
    return C, np.maximum(squares / counts, noise_floor), mean
