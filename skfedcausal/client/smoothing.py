"""A unit's own filter and smoother from a start of the user's choice, through statsmodels."""

from typing import NamedTuple

import numpy as np
from statsmodels.tsa.statespace.kalman_smoother import KalmanSmoother

from ..statespace.episodes import episodes
from ..statespace.matrices import are_covariances


class OwnRun(NamedTuple):
    """States of all rows: filtered, predicted and smoothed, covariances of the last, and log-densities."""

    filtered: np.ndarray
    predicted: np.ndarray
    smoothed: np.ndarray
    covariances: np.ndarray
    log_density: np.ndarray


def own_run(model, Y, exogenous=None, starts=(0,), *, smooth=False):
    """Filter, and smoother where it is wanted, of every episode from the model's initial state.

    Measurements may be missing. A diffuse start is exact: rows that only tell where the unit starts have the
    log-density that is left in the limit of an infinite prior variance.
    """
    n, p = len(Y), model.n_states
    run = OwnRun(
        np.zeros((n, p)), np.zeros((n, p)), np.zeros((n, p)), np.zeros((n if smooth else 0, p, p)), np.zeros(n)
    )
    R = np.diag(model.R) if model.R.ndim == 1 else model.R
    for start, stop in episodes(starts, n):
        rows = slice(start, stop)
        machine = KalmanSmoother(len(model.C), p, p, design=model.C, obs_cov=R, transition=model.A, state_cov=model.Q)
        machine["selection"] = np.eye(p)
        machine.bind(np.ascontiguousarray(Y[rows] - model.mean))
        if exogenous is not None:
            following = np.zeros((p, stop - start))
            following[:, :-1] = exogenous[start + 1 : stop].T
            machine["state_intercept"] = following
        _start(machine, model)
        found = machine.smooth() if smooth else machine.filter()
        run.filtered[rows] = found.filtered_state.T
        run.predicted[rows] = found.predicted_state[:, :-1].T
        run.log_density[rows] = found.llf_obs
        if smooth:
            run.smoothed[rows] = found.smoothed_state.T
            run.covariances[rows] = np.moveaxis(found.smoothed_state_cov, -1, 0)
    return run


def _start(machine, model):
    """Say where an episode starts."""
    initial, p = model.initial, model.n_states
    if initial is None:
        machine.initialize_known(np.zeros(p), model.initial_covariance())
    elif isinstance(initial, str):
        machine.initialize_diffuse()
    else:
        machine.initialize_known(*check_initial(initial, p))


def check_initial(initial, n_states):
    """Mean and covariance of the state in the first row."""
    try:
        mean, cov = (np.asarray(part, dtype=float) for part in initial)
    except (TypeError, ValueError):
        raise ValueError(
            f"initial={initial!r}; give 'stationary', 'diffuse', or a mean and a covariance of the {n_states} states."
        ) from None
    if mean.shape != (n_states,) or cov.shape != (n_states, n_states):
        raise ValueError(
            f"initial: got a mean of shape {mean.shape} and a covariance of shape {cov.shape} for {n_states} states; "
            f"give ({n_states},) and ({n_states}, {n_states})."
        )
    if not (np.isfinite(mean).all() and np.allclose(cov, cov.T) and are_covariances(cov[None])):
        raise ValueError("initial: the mean is not finite, or the covariance is none (symmetric, not negative).")
    return mean, cov
