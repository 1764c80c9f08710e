"""What a unit computes at home, from its own record and from what it was told, whatever its client is."""

import numpy as np

from .kalman import KalmanClient
from .messages import along
from .network_training import StateCorrection, corrected_prediction


def loadings(client, n_states):
    """How a unit's measurements follow its states, shape (n_sensors, n_states), whatever its client is."""
    level = client.measurements(np.zeros((1, n_states)))
    return (client.measurements(np.eye(n_states)) - level).T


def mapped_effect(site, reply):
    """Effect of a change of inputs on a unit's measurements, and its variance.

    Parameters
    ----------
    site : dict
        The unit's state.
    reply : EffectReply

    Returns
    -------
    effect, variance : ndarray of shape (n_steps, n_sensors)
    """
    C = loadings(site["client"], reply.states.shape[1])
    variance = effect_variances(reply, C)
    error = site.get("loading_error")
    if error is not None:
        variance += error.variance(reply.states)
    return reply.states @ C.T, variance


def effect_variances(reply, C):
    """Variances of ``C`` times the states of an effect, NaN where it came without covariances."""
    if reply.covariances is None:
        return np.full((len(reply.states), len(C)), np.nan)
    return np.einsum("di,tij,dj->td", C, reply.covariances, C).clip(0)


def local_features(client, Y, U, starts):
    """Centred measurements with the missing ones replaced by their filtered expectation."""
    if not isinstance(client, KalmanClient):
        states = _filtered(client, Y, U, starts)
        level = client.measurements(np.zeros((1, states.shape[1])))
        centred = np.where(np.isnan(Y), client.measurements(states), Y) - level
        return np.nan_to_num(centred)  # a sensor that was never seen has no level
    Y = client.active_columns(Y)
    model = client.model
    centred = Y - model.mean
    if not is_complete(Y):
        missing = np.isnan(centred)
        expected = model.filter(Y, U, starts) @ model.C.T
        centred[missing] = expected[missing]
    return centred


def is_complete(Y):
    """Whether no measurement is missing."""
    return bool(np.isfinite(Y.sum()))  # a missing value anywhere reaches the sum


def _filtered(client, Y, U, starts):
    """States by the unit's own filter."""
    if isinstance(client, KalmanClient):
        return client.model.filter(client.active_columns(Y), U, starts)
    return client.filter(Y, **along(Y, U, starts))


def _predicted(client, Y, U, starts):
    """Measurements predicted one step ahead by the unit's own filter."""
    if isinstance(client, KalmanClient):
        return client.measurements(client.model.predict(client.active_columns(Y), U, starts))
    return client.predict(Y, **along(Y, U, starts))


def local_prediction(site, Y, U, starts, *, augmented):
    """Measurements predicted one step ahead by what a unit has at home.

    Parameters
    ----------
    site : dict
        The unit's state: ``client`` and, for the augmented model, ``augmenter``, ``transition`` and, for a
        unit with inputs, ``input_matrix`` and ``input_mean``.
    Y : ndarray of shape (n_samples, n_sensors)
    U : ndarray of shape (n_samples, n_inputs) or None
    starts : tuple of int
    augmented : bool
        Add the augmenter's guess of the other units' influence to the unit's own prediction.

    Returns
    -------
    ndarray of shape (n_samples, n_sensors)
    """
    client = site["client"]
    if not augmented:
        return _predicted(client, Y, U, starts)
    if isinstance(site["augmenter"], StateCorrection):
        return corrected_prediction(site, Y, starts)
    filtered = _filtered(client, Y, U, starts)
    states = np.empty_like(filtered)
    np.dot(filtered[:-1], site["transition"].T, out=states[1:])
    if "input_matrix" in site:
        states[1:] += (U[:-1] - site["input_mean"]) @ site["input_matrix"].T
    states[list(starts)] = 0.0
    states += site["augmenter"].predict(local_features(client, Y, U, starts), starts)
    return client.measurements(states)
