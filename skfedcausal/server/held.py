"""Sensors that are held at values, whatever it takes: hard interventions on the states of their units."""

import numpy as np

from .tuning import TUNING


def held_effects(server, C, targets, n_draws=60):
    """Effect (n_samples, n) on all states of sensors ``C h`` moved by `targets` (n_samples, m), and draws of it.

    NaN where a sensor is not held. The states of a unit are moved as disturbances would most likely have moved them,
    by as little as it takes; those of other units follow. Draws (n_draws, n_samples, n) are those of plants from the
    sampling distribution, without those that run away.
    """
    Q = np.zeros_like(server.process_cov_)
    for rows in server.state_slices_.values():
        Q[rows, rows] = server.process_cov_[rows, rows]
    effect = _run(server.plant_.A, Q, C, targets)
    drawn = [_run(other, Q, C, targets) for other, _ in server.errors_.drawn(server, n_draws)]
    draws = [one for one in drawn if one is not None]
    if effect is None or 2 * len(draws) < len(drawn):
        raise ValueError(
            "With these sensors held other states run away: the plant as learned is not stable then, as where units "
            "or sensors say the same and their links are shared out at will. Leave out copies, or hold the sensors in "
            "fewer rows."
        )
    return effect, np.array(draws).reshape(-1, *effect.shape)


def _run(A, Q, C, targets):
    """The same in one plant with transition matrices A (p, n, n); None where it runs away."""
    n_samples, n = len(targets), A.shape[1]
    effect, ways, most = np.zeros((n_samples, n)), {}, 0.0
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
            most = max(most, TUNING.held_runs_away * np.abs(ways[key] @ targets[t, held[t]]).max())
        if np.abs(effect[t]).max(initial=0.0) > most:
            return None
    return effect
