"""A filter whose constant gain was chosen, not derived: Algorithm 1 of the first paper."""

import numpy as np


def checked_gain(gain, model, active):
    """A gain over the model's columns, which has to keep its filter stable."""
    gain = np.asarray(gain, dtype=float)
    if gain.shape != (model.n_states, len(active)) or not np.isfinite(gain).all():
        raise ValueError(
            f"gain has shape {gain.shape} or is not finite; give ({model.n_states}, {len(active)}) numbers, "
            "one row per state and one column per sensor."
        )
    gain = gain[:, active]
    radius = np.abs(np.linalg.eigvals(model.A - gain @ model.C @ model.A)).max()
    if radius >= 1:
        raise ValueError(
            f"With this gain errors of the filter grow: (I - K C) A has spectral radius {radius:.3g}. "
            "Give one below 1, or none for the Kalman gain."
        )
    return gain


def filtered_with(gain, A, C, Y, exogenous, starts):
    """Filtered states with a constant gain, from zero, shape (n_samples, n_states).

    What is missing in a row of `Y` leaves its column out of the correction.
    """
    H, first = np.empty((len(Y), len(A))), set(starts)
    for t, y in enumerate(Y):
        h = np.zeros(len(A)) if t in first else A @ H[t - 1]
        if exogenous is not None:
            h = h + exogenous[t]
        H[t] = h + gain @ np.nan_to_num(y - C @ h)
    return H
