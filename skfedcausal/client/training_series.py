"""The series of a unit that training needs, and what a trained unit makes of them."""

from dataclasses import dataclass

import numpy as np

from ..statespace.episodes import inner_rows


@dataclass(frozen=True)
class UnitSeries:
    """A unit's series as training needs them; they stay at the site.

    Attributes
    ----------
    filtered : ndarray of shape (n_samples, n_states)
    measurements : ndarray of shape (n_samples, n_sensors)
        Centred, complete.
    inputs : ndarray of shape (n_samples, n_inputs) or None
        Less the level that belongs to that of the measurements.
    rows : ndarray of int
        The time steps t of the pairs ``(t - 1, t)``.
    lengths : ndarray of int
    """

    filtered: np.ndarray
    measurements: np.ndarray
    inputs: np.ndarray | None
    rows: np.ndarray
    lengths: np.ndarray


def unit_series(client, Y, U, starts, local_features):
    """Series of a fitted KalmanClient about a record.

    Raises
    ------
    ValueError
        If no episode has two time steps, or the unit has inputs whose effect on it is not known.
    """
    rows = inner_rows(len(Y), starts)
    if len(rows) == 0:
        raise ValueError("Training needs an episode of at least two time steps.")
    model = client.model
    if U is not None and model.B is None:
        raise ValueError(
            "Gradient training takes a unit's own blocks as known, but a unit with inputs was given matrices "
            "without B. Give its KalmanClient a B (zeros where its inputs do not act on itself), or leave A "
            "out and both are identified."
        )
    filtered = model.filter(client.active_columns(Y), U, starts)
    inputs = U if U is None or model.input_mean is None else U - model.input_mean
    return UnitSeries(filtered, local_features, inputs, rows, np.diff([*starts, len(Y)]))


def augmented_losses(site, data, rows):
    """States that a trained unit predicts with its correction, and its loss.

    Parameters
    ----------
    site : dict
        The unit's ``client`` and ``augmenter``.
    data : UnitSeries
    rows : ndarray of int
        The time steps to predict.

    Returns
    -------
    states : ndarray of shape (n_rows, n_states)
        ``h_a``.
    loss : float
        Mean squared error of the measurements.
    """
    model, augmenter = site["client"].model, site["augmenter"]
    before = rows - 1
    states = data.filtered[before] @ model.A.T + augmenter.phi_
    states += data.measurements[before] @ augmenter.coef_.T
    if data.inputs is not None:
        states += data.inputs[before] @ model.B.T
    own = data.measurements[rows] - states @ model.C.T
    return states, float(np.einsum("ti,ti->", own, own) / len(rows))
