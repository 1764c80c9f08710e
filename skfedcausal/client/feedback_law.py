"""How a unit's controllers compute its inputs from its measurements, identified at home."""

import numpy as np

from ..message import FeedbackLaw
from ..statespace.episodes import episodes

_RIDGE = 1e-8  # share of each regressor's variance, for sensors that repeat each other


def identify_law(Y, U, loadings, starts=(0,)):
    """Linear law ``u[t] = L0 y[t] + L1 y[t-1] + F u[t-1] + constant``, in terms of the unit's states.

    Proportional and integral controllers are of this form. The law looks at measurements, not states, so
    least squares is consistent whatever the noise of the sensors; rows with missing measurements are left
    out.

    Parameters
    ----------
    Y : ndarray of shape (n_samples, n_sensors)
    U : ndarray of shape (n_samples, n_inputs)
    loadings : ndarray of shape (n_sensors, n_states)
        How the measurements follow the states.
    starts : sequence of int

    Returns
    -------
    FeedbackLaw
    """
    late = np.concatenate([np.arange(a + 1, b) for a, b in episodes(starts, len(Y))])
    late = late[np.isfinite(Y[late]).all(axis=1) & np.isfinite(Y[late - 1]).all(axis=1)]
    d = Y.shape[1]
    regressors = np.hstack([Y[late], Y[late - 1], U[late - 1]])
    regressors = regressors - regressors.mean(axis=0)
    target = U[late] - U[late].mean(axis=0)
    gram = regressors.T @ regressors
    scale = np.sqrt(np.maximum(np.diag(gram), np.finfo(float).tiny))
    gram = gram / np.outer(scale, scale) + _RIDGE * np.eye(len(gram))
    gains = (np.linalg.solve(gram, (regressors / scale).T @ target) / scale[:, None]).T
    present, previous, persistence = gains[:, :d], gains[:, d : 2 * d], gains[:, 2 * d :]
    return FeedbackLaw(present @ loadings, previous @ loadings, persistence)
