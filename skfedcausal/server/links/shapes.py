"""The shape of a curved link: what a state of the cause adds to the next state of the effect, beside its line."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtri

from ...arguments import check_confidence
from .intervals import pair_of
from .tuning import TUNING

_POINTS = np.linspace(0.01, 0.99, 99)  # quantiles of the cause's state at which a shape is told
COLUMNS = ("cause", "effect", "state", "other", "level", "adds", "error", "line")


class Shape(NamedTuple):
    """What a state adds, all in standard deviations of the states and less the mean over the record."""

    state: np.ndarray  # (q,)
    adds: np.ndarray  # (n_levels, q)
    error: np.ndarray  # (n_levels, q), standard errors
    line: np.ndarray  # (q,) by the line without curves
    other: int | None  # column of the state that it multiplies
    levels: np.ndarray  # (n_levels,) of that


class Terms(NamedTuple):
    """Coefficients of the terms of a cause in the regression of an effect: lags, bends, then products."""

    coefficients: np.ndarray  # (m, p)
    inverse: np.ndarray  # (m, m) of their moments, given all other terms
    news: np.ndarray  # (p, p) covariance
    n_lines: int  # of lags
    width: int  # states of the cause
    products: np.ndarray  # (n_products, 2) columns of the two factors, sizes of states behind all states


def shape_of(terms, first, states, held, bends):
    """The :class:`Shape` that moves the effect most, of all states of a cause and of an effect.

    Parameters
    ----------
    terms : Terms
    first : int
        Column of the first state of the cause.
    states : ndarray of shape (n_samples, n)
    held : ndarray of shape (n_samples, 2 n)
        The states within their ends and the sizes of these, less their means, of which products are made.
    bends : callable
        Values (q, n_bends) of the bends of a column at values (q,) of it.
    """
    found = [
        _added(terms, k, first + k, states, held, bends, effect)
        for k in range(terms.width)
        for effect in range(terms.coefficients.shape[1])
    ]
    return max(found, key=lambda shape: np.square(shape.adds).mean(axis=1).max())


def _added(terms, k, column, states, held, bends, effect):
    """What one state of the cause, the k-th, adds to one of the effect."""
    b, own = terms.coefficients[:, effect], np.quantile(states[:, column], _POINTS)
    n_products, n_states = len(terms.products), states.shape[1]
    is_own = terms.products % n_states == column
    size = np.where(is_own.any(axis=1), np.abs(b[len(b) - n_products :]), 0.0)
    other, levels = None, np.zeros(1)
    if size.any():
        other = int(terms.products[size.argmax()][~is_own[size.argmax()]][0])
        levels = np.quantile(held[:, other], (TUNING.shapes_low, TUNING.shapes_high))
    design = np.zeros((len(levels), len(own), len(b)))
    design[:, :, k] = own
    bent = bends(own, column)
    design[:, :, terms.n_lines + k : terms.n_lines + k + terms.width * bent.shape[1] : terms.width] = bent
    factor = np.quantile(held[:, column], _POINTS)
    for place, pair in enumerate(terms.products, len(b) - n_products):
        if other in pair and (pair % n_states == column).any():
            design[:, :, place] = levels[:, None] * (np.abs(factor) if pair.sum() - other >= n_states else factor)
    design -= design.mean(axis=1, keepdims=True)
    error = TUNING.shapes_wider * np.sqrt(
        np.einsum("lqi,ij,lqj->lq", design, terms.inverse, design) * terms.news[effect, effect]
    )
    return Shape(
        own,
        design @ b,
        error,
        (own - own.mean()) * _slope(terms, effect)[k],
        other % n_states if size.any() else None,
        levels,
    )


def _slope(terms, effect):
    """Coefficients of the lags where bends and products are left out."""
    n, b, M = terms.n_lines, terms.coefficients[:, effect], terms.inverse
    return b[:n] - M[:n, n:] @ np.linalg.solve(M[n:, n:], b[n:])


def shapes_table(shapes, names, unit_of):
    """Shapes by (effect, cause) as a table with the columns `COLUMNS`; `unit_of` are the units of the states."""
    tables = [
        pd.DataFrame(
            {
                "cause": names[cause],
                "effect": names[effect],
                "state": shape.state,
                "other": "" if shape.other is None else names[unit_of[shape.other]],
                "level": level,
                "adds": adds,
                "error": error,
                "line": shape.line,
            }
        )
        for (effect, cause), shape in sorted(shapes.items())
        for level, adds, error in zip(shape.levels, shape.adds, shape.error, strict=True)
    ]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(COLUMNS))


@dataclass(frozen=True, eq=False)
class LinkShapes:
    """Shapes of the links of a plant; `table` is that of :func:`shapes_table`, None where no curves were looked at."""

    table: pd.DataFrame | None
    names: tuple

    def of_pair(self, cause, effect, confidence):
        """The rows of a pair, with the ends of pointwise bands instead of standard errors."""
        check_confidence(confidence)
        pair_of(self.names, cause, effect)
        if self.table is None:
            raise ValueError(
                "Shapes of links need rows of the states without noise: fit at once, without privacy and secure sums."
            )
        shape = self.table[(self.table["cause"] == cause) & (self.table["effect"] == effect)]
        if shape.empty:
            known = [f"{a} to {b}" for a, b in self.table[["cause", "effect"]].drop_duplicates().to_numpy()]
            raise ValueError(
                f"Got cause={cause!r}, effect={effect!r}, from which to which no curve was found; curves were found "
                f"{'from ' + ', '.join(known) if known else 'of no pair'}."
            )
        half = ndtri((1 + confidence) / 2) * shape["error"]
        told = shape.assign(low=shape["adds"] - half, high=shape["adds"] + half)
        return told[["state", "other", "level", "adds", "low", "high", "line"]].reset_index(drop=True)
