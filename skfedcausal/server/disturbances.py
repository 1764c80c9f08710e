"""What disturbances do to the units of a plant in so many rows."""

import numpy as np

from ..statespace.riccati import stationary_covariance


def disturbance_covariances(server, n_steps):
    """Covariances of what the noise of 1, ..., n_steps rows does to each unit's states, (n_steps, p, p) each."""
    A, Q = _with_lags(server)
    slices = list(server.state_slices_.values())
    found = [np.empty((n_steps, rows.stop - rows.start, rows.stop - rows.start)) for rows in slices]
    P = np.zeros_like(Q)
    for k in range(n_steps):
        P = A @ P @ A.T + Q
        for own, rows in zip(found, slices, strict=True):
            own[k] = P[rows, rows]
    return found


def settled_covariance(server):
    """Covariance (n, n) of the states under disturbances alone."""
    n = len(server.transition_)
    return stationary_covariance(*_with_lags(server))[:n, :n]


def _with_lags(server):
    """Transition matrix and noise of the states, with their lags where the plant has several."""
    lagged = getattr(server, "_lagged", None)
    if lagged is None:
        return server.transition_, server.process_cov_
    return lagged.dynamics.transition, lagged.dynamics.process_cov
