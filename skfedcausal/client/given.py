"""Checks of matrices, and of a constant gain, that are given for a unit."""

import numpy as np

from ..arguments import as_floats
from .tuning import TUNING

GIVEN = ("A", "B", "C", "Q", "R")
COMPLETE = frozenset("ACQR")  # with these there is nothing left to identify


def with_diagonal(R, added):
    """Noise covariance (or the diagonal of one) with independent noise of variances `added` on top.

    R is (d,) or (d, d), `added` (d,).
    """
    return R + (added if R.ndim == 1 else np.diag(added))


def given_matrices(client, n_features=None):
    """The matrices the user gave as checked arrays."""
    return check_matrices({name: getattr(client, name) for name in GIVEN}, n_features)


def check_matrices(values, n_features=None):
    """Matrices by name as checked arrays, without those that are None."""
    given = {name: as_floats(value, name) for name, value in values.items() if value is not None}
    if not given:
        return given
    if "C" not in given:
        raise ValueError(f"Matrices {sorted(given)} were given without C. Give C too (it defines the states), or none.")
    if given["C"].ndim != 2 or given["C"].shape[1] == 0:
        raise ValueError(f"C has shape {given['C'].shape}, expected (n_features, n_states).")
    _check_shapes(given, len(given["C"]) if n_features is None else n_features)
    if "A" in given and "Q" not in given:
        raise ValueError("A was given without Q. Give Q too, or leave A to be identified.")
    for name in given.keys() & {"A", "B", "C", "Q"}:
        if not np.isfinite(given[name]).all():
            raise ValueError(f"{name} has values that are not finite.")
    for name in ("Q", "R"):
        if name in given:
            _check_covariance(given[name], name)
    return given


def _check_shapes(given, n_features):
    d, p = n_features, given["C"].shape[1]
    n_inputs = given["B"].shape[-1:] if "B" in given else ()
    shapes = {"A": [(p, p)], "B": [(p, *n_inputs)], "C": [(d, p)], "Q": [(p, p)], "R": [(d,), (d, d)]}
    for name, matrix in given.items():
        if matrix.shape not in shapes[name]:
            expected = f"({p}, n_inputs)" if name == "B" else " or ".join(map(str, shapes[name]))
            raise ValueError(f"{name} has shape {matrix.shape}, expected {expected} for {d} columns and {p} states.")


def _check_symmetric(S, name):
    off = np.abs(S - S.T)
    if off.max() > TUNING.given_asymmetry * np.abs(S).max():
        i, j = np.unravel_index(off.argmax(), off.shape)
        raise ValueError(
            f"{name} must be symmetric; elements ({i}, {j}) and ({j}, {i}) are {S[i, j]:.3g} and "
            f"{S[j, i]:.3g}. For a small asymmetry give ({name} + {name}') / 2."
        )


def _check_covariance(S, name):
    """Refuse process noise Q that is no covariance, and sensor noise R that is none or singular."""
    if not np.isfinite(S).all():
        raise ValueError("R must be positive definite, but has values that are not finite.")
    if S.ndim == 2:
        _check_symmetric(S, name)
    values = np.sort(S) if S.ndim == 1 else np.linalg.eigvalsh(S)
    if name == "Q" and values[0] < -TUNING.given_negative * np.abs(values).max():
        raise ValueError(
            f"Q must be positive semidefinite; its smallest eigenvalue is {values[0]:.3g}. Give a covariance."
        )
    if name == "R" and not values[0] > 0:
        raise ValueError(
            f"R must be positive definite; its smallest eigenvalue is {values[0]:.3g}. A sensor without "
            "noise still has a resolution: give its square over 12."
        )


def restricted(given, active):
    """Given matrices for the active columns only."""
    if active.all() or not given:
        return given
    given = {**given, "C": given["C"][active]}
    if "R" in given:
        R = given["R"]
        given["R"] = R[active] if R.ndim == 1 else R[np.ix_(active, active)]
    return given


def checked_gain(gain, model, active):
    """A gain over the model's columns, which has to keep its filter stable.

    `gain` is (n_states, n_features), `active` (n_features,).
    """
    gain = as_floats(gain, "gain")
    if gain.shape != (model.n_states, len(active)) or not np.isfinite(gain).all():
        raise ValueError(
            f"gain has shape {gain.shape} or is not finite; give ({model.n_states}, {len(active)}) numbers, "
            "one row per state and one column per sensor."
        )
    gain = gain[:, active]
    radius = np.abs(np.linalg.eigvals(model.A - gain @ model.C @ model.A)).max()
    if radius >= 1:
        raise ValueError(
            f"With this gain errors of the filter grow: (I - K C) A has spectral radius {radius:.3g}. "
            "Give one below 1, or none for the Kalman gain."
        )
    return gain
