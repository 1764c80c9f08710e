"""Sensors that are held at values, whatever it takes: hard interventions on the states of their units."""

import numpy as np

from .planning import drawn_plants


def held_effects(server, C, targets, n_draws=60):
    """Effect (n_samples, n) on all states of sensors ``C h`` moved by `targets` (n_samples, m), and draws of it.

    NaN where a sensor is not held. The states of a unit are moved as disturbances would most likely have moved them,
    by as little as it takes; those of other units follow. Draws (n_draws, n_samples, n) are those of plants from the
    sampling distribution.
    """
    Q = np.zeros_like(server.process_cov_)
    for rows in server.state_slices_.values():
        Q[rows, rows] = server.process_cov_[rows, rows]
    lagged = getattr(server, "_lagged", None)
    A = server.transition_[None] if lagged is None else lagged.dynamics.A
    effect = _run(A, Q, C, targets)
    draws = [_run(other, Q, C, targets) for other, _ in drawn_plants(server, n_draws)]
    return effect, np.array([one for one in draws if np.isfinite(one).all()]).reshape(-1, *effect.shape)


def _run(A, Q, C, targets):
    """The same in one plant with transition matrices A (p, n, n)."""
    n_samples, n = len(targets), A.shape[1]
    effect, ways = np.zeros((n_samples, n)), {}
    held = ~np.isnan(targets)
    for t in range(n_samples):
        for k in range(1, min(len(A), t) + 1):
            effect[t] += A[k - 1] @ effect[t - k]
        if held[t].any():
            key = held[t].tobytes()
            if key not in ways:
                rows = C[held[t]]
                ways[key] = Q @ rows.T @ np.linalg.pinv(rows @ Q @ rows.T, hermitian=True)
            effect[t] += ways[key] @ (targets[t, held[t]] - C[held[t]] @ effect[t])
    return effect
