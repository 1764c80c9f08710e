"""What planned inputs do to a few sensors: impulse responses of a learned plant, and how sure they are."""

from dataclasses import dataclass

import numpy as np

from ..statespace.matrices import companion
from .straight import straight_run


@dataclass(frozen=True, eq=False)
class Impulses:
    """Answers of sensors to one unit of every input for one row, (n_sensors, n_steps, k): step 0 is that row."""

    mean: np.ndarray
    draws: np.ndarray  # (n_draws, n_sensors, n_steps, k), of the estimate's error


def impulses(server, loadings, n_steps, early, n_draws):
    """:class:`Impulses` of sensors ``loadings`` (n_sensors, n); inputs `early` (k,) were sent a row ahead."""
    A, B = server.plant_.A, server.plant_.B
    mean = _responses(A, B, loadings, n_steps, early)
    drawn = [_responses(own, driven, loadings, n_steps, early) for own, driven in server.errors_.drawn(server, n_draws)]
    usable = [one - mean for one in drawn if np.isfinite(one).all()]
    return Impulses(mean, np.array(usable).reshape(len(usable), *mean.shape))


def state_responses(server, n_steps, early):
    """Answers of all states to one unit of every input for one row, (n, n_steps, k)."""
    A, B = server.plant_.A, server.plant_.B
    return _responses(A, B, np.eye(len(A[0])), n_steps, early)


def _responses(A, B, loadings, n_steps, early):
    """Impulse responses of sensors by the adjoint recursion, inputs in the rows that users write them in."""
    if early.any():
        B = B.copy()
        B[:-1, :, early], B[-1, :, early] = B[1:, :, early], 0.0
    n = A.shape[1]
    step = companion(np.hstack(list(A)), len(A))
    adjoint = np.hstack([loadings, np.zeros((len(loadings), len(step) - n))])
    found = np.zeros((len(loadings), n_steps, B.shape[2]))
    for k in range(n_steps):
        for lag in range(min(len(B), n_steps - k)):
            found[:, k + lag] += adjoint[:, :n] @ B[lag]
        adjoint = adjoint @ step
    return found


def held_run(server, messages, n_steps):
    """Filter over a record and expected states of the rows after it, (n_steps, n), if inputs stay as they are.

    What inputs do beyond what is linear goes on as long as they do, wherever it moves effects: what a plan adds to
    this run is an effect, and a plan starts from the plant that it moves. The filter is the one that forecasts may
    count on: what was fitted to a record beyond that makes misses of this record small, and no others.
    """
    run, added = straight_run(server, messages, n_steps, share=1.0)
    states = held_forecast(run, n_steps)
    if added is None:
        return run, states
    return straight_run(server, messages)[0], states + added[-n_steps:]


def held_forecast(run, n_steps):
    """Expected states of the rows after a record if its inputs stay as they are, shape (n_steps, n)."""
    plain, record = run.plain, run.record
    state, found = plain.filtered[-1], np.empty((n_steps, record.partition.n_states))
    exogenous = plain.goes_on(n_steps)
    for k in range(n_steps):
        state = plain.A @ state + exogenous[k]
        found[k] = state[: found.shape[1]]
    return found


def spread_of(server):
    """Standard deviations and correlations of states in the record of `fit`, as a covariance (n, n)."""
    scale = server.plant_.scale
    return scale @ scale.T
