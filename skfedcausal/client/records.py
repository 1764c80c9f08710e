"""Checks of a unit's record: inputs, columns that vary, rows enough to identify a model."""

import warnings

import numpy as np

from ..containers import constant_columns
from ..statespace.episodes import column_mean
from .silence import repeated_rows

ROWS_PER_LOADING = 6  # a rule of thumb: rows for each number of C
_REGULAR_HOLDS = 0.9  # share of reports that come after the usual number of rows
_HEAD = 1000  # rows that show whether it is worth looking at all
_FEWEST_REPORTS = 20


def as_inputs(inputs, n_samples):
    """Inputs as a checked array of shape (n_samples, n_inputs), or None."""
    if inputs is None:
        return None
    U = np.asarray(inputs, dtype=float)
    if U.ndim == 1:
        U = U[:, None]
    if U.ndim != 2 or len(U) != n_samples:
        raise ValueError(
            f"`inputs` has shape {np.shape(inputs)}; give one row for each of the {n_samples} rows of X."
        )
    if not np.isfinite(U).all():
        raise ValueError("`inputs` has missing or infinite values; fill them in or drop those rows.")
    return U


def check_inputs_fit(U, B, name="the unit"):
    """Refuse inputs of another number than the model has."""
    if U is not None and B is not None and U.shape[1] != B.shape[1]:
        raise ValueError(
            f"`inputs` has {U.shape[1]} columns for {name}, but its matrix B has {B.shape[1]}: give one "
            "column of inputs for each column of B."
        )


def warn_inputs_ignored(stacklevel=3):
    """Say that a model without B takes up no inputs."""
    warnings.warn(
        "The unit's model has no matrix B, so its `inputs` are ignored. Give B with the other matrices, or "
        "pass the inputs to `fit` and let it identify B.",
        UserWarning,
        stacklevel=stacklevel + 1,
    )


def column_means(Y):
    """Mean of the cells that are there in each column."""
    means = column_mean(Y)
    return means if np.isfinite(means).all() else np.nanmean(Y, axis=0)


def active_columns(Y, name, columns):
    """Mask of the columns that vary; a warning names those that do not."""
    constant = constant_columns(Y)
    if not constant.any():
        return ~constant
    which = np.flatnonzero(constant)
    labels = [str(i) if columns is None else str(columns[i]) for i in which]
    if constant.all():
        raise ValueError(
            f"Every column of {name} is constant or missing ({', '.join(labels)}): there is nothing to "
            "model. Leave the unit out or give other columns."
        )
    warnings.warn(
        f"Columns {', '.join(labels)} of {name} are constant or missing throughout and are ignored.",
        UserWarning,
        stacklevel=4,
    )
    return ~constant


def warn_held_rows(Y, starts, name):
    """Say that a unit reports at a slower clock and its last report is repeated until the next.

    Only where all of two columns or more repeat together, and as regularly as a clock.
    """
    if Y.shape[1] < 2:
        return
    head = Y[:_HEAD]  # a clock shows there too
    if not repeated_rows(head).any() and not np.isnan(head).all(axis=1).any():
        return
    count = repeated_rows(Y, starts)
    reports = np.flatnonzero(count == 0)
    apart = np.diff(reports)
    if len(apart) < _FEWEST_REPORTS:
        return
    period = int(np.median(apart))
    if period >= 2 and np.mean(apart == period) >= _REGULAR_HOLDS:
        warnings.warn(
            f"All columns of {name} repeat their values and are new in one row of {period} only: it seems to "
            "report at a slower clock. Held values are no measurements and can look like links with units of "
            "another clock. Leave the rows between reports empty (NaN).",
            UserWarning,
            stacklevel=4,
        )


def warn_few_rows(n_samples, n_columns, n_states, name):
    """Say that a record is short for the model that was identified from it."""
    needed = ROWS_PER_LOADING * n_columns * n_states
    if n_samples < needed:
        fewer = f"n_states={n_states - 1}, " if n_states > 1 else ""
        warnings.warn(
            f"Need about {needed} rows of {name} for {n_states} state{'s' * (n_states > 1)} of {n_columns} "
            f"columns; have {n_samples}. Options: fewer columns, {fewer}a longer record.",
            UserWarning,
            stacklevel=4,
        )


def check_identifiable(Y, n_states, starts, name):
    """Refuse a record that is too short to tell anything about the states."""
    n_samples, d = Y.shape
    p = min(d, 2) if n_states == "auto" else n_states
    if n_states != "auto" and n_states > d:
        raise ValueError(f"n_states={n_states} for {name}, which has {d} columns that vary. Use at most {d}.")
    if n_samples < p + 3:
        raise ValueError(
            f"{name} has {n_samples} rows; identifying {p} states needs at least {p + 3}. Give more rows or "
            "fewer states."
        )
    n_transitions = n_samples - len(starts)
    if n_transitions < p + 2:
        raise ValueError(
            f"The {n_samples} rows of {name} are cut by `lengths` into {len(starts)} episodes, which leaves "
            f"{n_transitions} transitions from one row to the next; identifying {p} states needs at least "
            f"{p + 2}. Give longer episodes."
        )
