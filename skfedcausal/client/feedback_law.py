"""How a unit's controllers compute its inputs from its measurements, identified at home."""

import warnings

import numpy as np

from ..message.states import FeedbackLaw
from ..statespace.episodes import inner_rows

_RIDGE = 1e-8  # share of each regressor's variance, for sensors that repeat each other
_DETERMINED = 1e-3  # share of an input's variance below which the measurements of its row determine it


def identify_law(Y, U, loadings, starts=(0,)):
    """Linear law ``u[t] = L0 y[t] + L1 y[t-1] + F u[t-1] + constant``, in terms of the unit's states.

    Proportional and integral controllers are of this form. The law looks at measurements, not states, so
    least squares is consistent whatever the noise of the sensors; rows with missing measurements are left
    out.
    """
    late = inner_rows(len(Y), starts)
    late = late[np.isfinite(Y[late]).all(axis=1) & np.isfinite(Y[late - 1]).all(axis=1)]
    d = Y.shape[1]
    gains, _ = _regression(np.hstack([Y[late], Y[late - 1], U[late - 1]]), U[late])
    present, previous, persistence = gains[:, :d], gains[:, d : 2 * d], gains[:, 2 * d :]
    return FeedbackLaw(present @ loadings, previous @ loadings, persistence)


def warn_of_determined_inputs(name, Y, U):
    """Warn of inputs that are a linear function of the measurements of the same row.

    A proportional controller whose set point never moves: with or without the input, the next measurements
    follow the same regression on these, so no record of this kind shows the input's effect.
    """
    known = np.isfinite(Y).all(axis=1)
    if known.sum() <= 2 * Y.shape[1]:
        return
    _, left = _regression(Y[known], U[known])
    determined = np.flatnonzero(left < _DETERMINED)
    if len(determined):
        warnings.warn(
            f"Measurements of unit {name!r} determine its inputs number {', '.join(map(str, determined))} (from 0) "
            "of the same row: only a controller moves them. Their effects cannot be told from the unit's own dynamics, "
            "no estimate or standard error can be trusted. Move the set points, or leave these inputs out.",
            UserWarning,
            stacklevel=2,
        )


def _regression(X, Z):
    """Coefficients of Z on X, shape (columns of Z, columns of X), and the share of variance they leave."""
    X, Z = X - X.mean(axis=0), Z - Z.mean(axis=0)
    gram = X.T @ X
    scale = np.sqrt(np.maximum(np.diag(gram), np.finfo(float).tiny))
    gram = gram / np.outer(scale, scale) + _RIDGE * np.eye(len(gram))
    coefficients = np.linalg.solve(gram, (X / scale).T @ Z) / scale[:, None]
    left = ((Z - X @ coefficients) ** 2).sum(axis=0) / np.maximum((Z**2).sum(axis=0), np.finfo(float).tiny)
    return coefficients.T, left
