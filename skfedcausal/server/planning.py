"""What planned inputs do to a few sensors: impulse responses of a learned plant, and how sure they are."""

from dataclasses import dataclass

import numpy as np

from ..statespace.inputs import BlockCovariance
from ..statespace.matrices import companion, symmetric_root
from .straight import straight_run

_MANY = 1500  # free coefficients above which errors of a plant of one lag are taken to be independent


@dataclass(frozen=True, eq=False)
class Impulses:
    """Answers of sensors to one unit of every input for one row, (n_sensors, n_steps, k): step 0 is that row."""

    mean: np.ndarray
    draws: np.ndarray  # (n_draws, n_sensors, n_steps, k), of the estimate's error


def impulses(server, loadings, n_steps, early, n_draws):
    """:class:`Impulses` of sensors ``loadings`` (n_sensors, n); inputs `early` (k,) were sent a row ahead."""
    A, B = plant_matrices(server)
    mean = _responses(A, B, loadings, n_steps, early)
    drawn = [_responses(own, driven, loadings, n_steps, early) for own, driven in drawn_plants(server, n_draws)]
    usable = [one - mean for one in drawn if np.isfinite(one).all()]
    return Impulses(mean, np.array(usable).reshape(len(usable), *mean.shape))


def state_responses(server, n_steps, early):
    """Answers of all states to one unit of every input for one row, (n, n_steps, k)."""
    A, B = plant_matrices(server)
    return _responses(A, B, np.eye(len(A[0])), n_steps, early)


def drawn_plants(server, n_draws):
    """Pairs of matrices (p, n, n), (q + 1, n, k) from the sampling distribution: the same ones at every call."""
    lagged = getattr(server, "_lagged", None)
    return _draws_of_one_lag(server, n_draws) if lagged is None else lagged.draws[:n_draws]


def plant_matrices(server):
    """Of all lags of the states from the first on, and of the inputs from the row itself on."""
    lagged = getattr(server, "_lagged", None)
    if lagged is None:
        return server.transition_[None], np.stack([np.zeros_like(server.input_), server.input_])
    return lagged.dynamics.A, lagged.dynamics.B


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


def _draws_of_one_lag(server, n_draws):
    """Plants of one lag drawn from the sampling distribution of the estimate: the same ones at every call."""
    c = getattr(server, "coefficients_", None)
    if c is None or not len(c.rows):
        return []
    rng = np.random.default_rng(0)
    if isinstance(c.covariance, BlockCovariance):
        noise = c.covariance.root() @ rng.standard_normal((len(c.rows), n_draws))
    elif len(c.rows) > _MANY:
        noise = np.sqrt(c.covariance.diagonal())[:, None] * rng.standard_normal((len(c.rows), n_draws))
    else:
        noise = symmetric_root(c.covariance) @ rng.standard_normal((len(c.rows), n_draws))
    n, back = len(c.matrix), np.linalg.inv(c.state_scale)
    A, B, found = server.transition_, server.input_, []
    # small posterior means of links that were not selected may as well be nothing, or twice what they are
    faint = [np.where(x == 0, now, 0.0) for x, now in ((server.unshrunk_transition_, A), (server.unshrunk_input_, B))]
    for values, share in zip(noise.T, rng.standard_normal(n_draws), strict=True):
        change = np.zeros_like(c.matrix)
        change[c.rows, c.cols] = values
        driven = B + c.state_scale @ change[:, n:] / c.input_scale + share * faint[1]
        moved = A + c.state_scale @ change[:, :n] @ back + share * faint[0]
        found.append((moved[None], np.stack([np.zeros_like(B), driven])))
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
    scale = server._parameters.state_scale
    return scale @ scale.T
