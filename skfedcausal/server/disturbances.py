"""What disturbances do to the units of a plant."""

import numpy as np

from ..statespace.riccati import stationary_covariance


def lasting_covariances(server, n_steps):
    """Covariances (n_steps, p, p) of each unit's states of what noise that stays for 1, 2, ... rows does to them.

    Of a disturbance that is drawn once, as those of a row are, and lasts: ``G Q G'``, G the sum of the first powers
    of A.
    """
    A, Q = server.plant_.transition, server.plant_.process_cov
    slices = list(server.state_slices_.values())
    found = [np.empty((n_steps, rows.stop - rows.start, rows.stop - rows.start)) for rows in slices]
    step, G = np.eye(len(A)), np.zeros_like(A)
    for k in range(n_steps):
        G, step = G + step, step @ A
        V = G @ Q @ G.T
        for own, rows in zip(found, slices, strict=True):
            own[k] = V[rows, rows]
    return found


def settled_covariance(server):
    """Covariance (n, n) of the states under disturbances alone."""
    n = len(server.transition_)
    return stationary_covariance(server.plant_.transition, server.plant_.process_cov)[:n, :n]
