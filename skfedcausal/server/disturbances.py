"""What disturbances do to the units of a plant in so many rows."""

import numpy as np


def disturbance_covariances(server, n_steps):
    """Covariances of what the noise of 1, ..., n_steps rows does to each unit's states, (n_steps, p, p) each."""
    lagged = getattr(server, "_lagged", None)
    A, Q = server.transition_, server.process_cov_
    if lagged is not None:
        A, Q = lagged.dynamics.transition, lagged.dynamics.process_cov
    slices = list(server.state_slices_.values())
    found = [np.empty((n_steps, rows.stop - rows.start, rows.stop - rows.start)) for rows in slices]
    P = np.zeros_like(Q)
    for k in range(n_steps):
        P = A @ P @ A.T + Q
        for own, rows in zip(found, slices, strict=True):
            own[k] = P[rows, rows]
    return found
