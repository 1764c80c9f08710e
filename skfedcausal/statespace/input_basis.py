"""Columns that stand for an input: bases of its values, the row in which it is sent, and what its set point tells.

The part of an input that follows a set point, its instrument, has no hidden cause.
"""

from dataclasses import dataclass

import numpy as np

from .episodes import episodes
from .tuning import TUNING

BASES = ("linear", "spline")
_KNOTS = (0.25, 0.5, 0.75)  # quantiles at which a spline may bend
WEAK = 10.0  # F statistic below which an instrument says next to nothing (Staiger and Stock, 1997)
_MOST_LAGS, _ROWS_PER_LAG = 20, 20  # of an instrument that its input follows, and rows of the record for each


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
        if rest @ rest > TUNING.input_basis_independent * (column @ column):
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


def followed_law(u, instrument, starts):
    """How an input follows its instrument: coefficients of it now and in the rows before, and a level."""
    n_lags = int(np.clip(len(u) // _ROWS_PER_LAG, 0, _MOST_LAGS))
    return np.linalg.lstsq(_lagged(instrument, starts, n_lags), u, rcond=1e-10)[0]


def explained(law, instrument, starts):
    """What an instrument explains of its input, by the law that this follows."""
    return _lagged(instrument, starts, len(law) - 2) @ law


def explained_change(law, change, starts):
    """How an input changes when its instrument changes."""
    return _lagged(change, starts, len(law) - 2)[:, :-1] @ law[:-1]


def strength(u, part, n_coefficients):
    """Share of the variance of an input that is explained, and the F statistic of that."""
    total, rest = np.square(u - u.mean()).sum(), np.square(u - part).sum()
    share = 1 - rest / total if total else 0.0
    freedom = max(len(u) - n_coefficients, 1)
    if rest <= 0:
        return 1.0, np.inf
    statistic = (total - rest) / max(n_coefficients - 1, 1) / (rest / freedom)
    return float(np.clip(share, 0.0, 1.0)), float(statistic)


def _lagged(z, starts, n_lags):
    """An instrument now and in the rows before, its first value before an episode, and a level, (n_samples, .)."""
    found = np.ones((len(z), n_lags + 2))
    for start, stop in episodes(starts, len(z)):
        rows = np.arange(start, stop)
        for lag in range(n_lags + 1):
            found[rows, lag] = z[np.maximum(rows - lag, start)]
    return found
