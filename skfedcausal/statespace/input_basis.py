"""Columns that stand for an input: bases of its values, and the row ahead in which it is sent."""

from dataclasses import dataclass

import numpy as np

from .episodes import episodes

BASES = ("linear", "spline")
_KNOTS = (0.25, 0.5, 0.75)  # quantiles at which a spline may bend
_INDEPENDENT = 1e-6  # share of a column's variance that the columns before it have to leave


@dataclass(frozen=True)
class Spline:
    """A piecewise linear curve that may bend at some values: columns u, (u - k_1)+, (u - k_2)+, ..."""

    knots: tuple[float, ...]

    def __call__(self, u):
        return np.column_stack([u, *(np.maximum(u - knot, 0.0) for knot in self.knots)])


def quartile_spline(u):
    """The spline that bends at the quartiles of a series."""
    return Spline(tuple(float(k) for k in np.unique(np.quantile(u, _KNOTS))))


def basis_columns(function, u, name):
    """Columns of a basis, checked."""
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused
            columns = np.asarray(function(u), dtype=float)
    except Exception as error:
        error.add_note(f"This came from the basis of input {name!r}, which is called with an array of its values.")
        raise
    columns = columns[:, None] if columns.ndim == 1 else columns
    if columns.ndim != 2 or len(columns) != len(u) or not np.isfinite(columns).all():
        raise ValueError(
            f"The basis of input {name!r} gave an array of shape {columns.shape} for {len(u)} values, or "
            "numbers that are not finite; give one row per value."
        )
    return columns


def independent_columns(columns, name):
    """Positions of columns that those before them do not determine."""
    centred = columns - columns.mean(axis=0)
    kept: list[int] = []
    for k, column in enumerate(centred.T):
        known = centred[:, kept]
        rest = column - known @ np.linalg.lstsq(known, column, rcond=None)[0] if kept else column
        if rest @ rest > _INDEPENDENT * (column @ column):
            kept.append(k)
    if not kept:
        raise ValueError(
            f"The basis of input {name!r} gave columns that never move, though the input does. Give functions that "
            "change over its values."
        )
    return kept


def a_row_ahead(columns, early, starts):
    """Columns of a record, those that are `early` a row ahead; the last value of an episode has no row to act on."""
    columns = columns.copy()
    for start, stop in episodes(starts, len(columns)):
        rows = columns[start:stop]
        rows[:-1, early] = rows[1:, early]
    return columns
