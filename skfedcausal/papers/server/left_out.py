"""Links by any regressor: what it loses on stretches it did not see when the past of a cause is left out.

A regressor that is fitted anew without a cause predicts as well where the cause tells nothing that others do not, and
better by what a useless column costs: the difference of the losses is an honest test whatever the regressor is, which
the change of one fitted regressor under a permuted column is not. How much the cause moves the effect is read from
differences of the fitted regressor's predictions, its Jacobian, on the same stretches.

A regressor that misses what a unit does may find part of it again in another one that follows the same cause: the test
says what helps this regressor, which is the link where it predicts about as well as can be.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtr
from sklearn.base import clone

from ...server.estimation.evidence import holm
from ...server.links.grades import (
    N_BLOCKS,
    NEGLIGIBLE,
    SURE,
    TRIMMED_DOF,
    VALUES,
    Gains,
    can_be_graded,
    driver_needed,
    exceeds_what_is_shared,
    in_order,
    percent,
    rows_of,
    standardised,
    trimmed,
    unless_driven,
)
from ...server.links.tables import COLUMNS, named_pairs
from ...statespace.held_out import N_LAGS, LaggedRows, same_row_shares

_FOLDS = 10  # in each of which two stretches are left out
_REACH = 0.5  # standard deviations by which a column is moved either way for the Jacobian
_TOO_FEW = "too few rows, or too many units, to leave stretches out"


@dataclass(frozen=True)
class LeftOut:
    """What regressors lose without a cause, arrays [effect, cause, stretch], and what they say it does.

    `gains` are shares of the news of the effect, `same_row` [effect, cause] what both have in common in the same row,
    `jacobian` (n_stretches, N_LAGS, n, n) mean derivatives of standardised states and `squares` those of their squares,
    `scale` (n,) the standard deviations of the states.
    """

    gains: np.ndarray
    same_row: np.ndarray
    jacobian: np.ndarray
    squares: np.ndarray
    scale: np.ndarray


def left_out(series, slices, starts, template, known=None):
    """Losses without each cause, cross-fitted.

    Parameters
    ----------
    series : ndarray of shape (n_samples, n)
        States of all units, gaps filled.
    slices : sequence of slice
        Columns of each unit.
    starts : sequence of int
        First rows of the episodes.
    template : scikit-learn regressor
        Of several outputs.
    known : ndarray of shape (n_samples, k), default=None
        Inputs: what they tell along lines is no news.

    Returns
    -------
    LeftOut
    """
    standard, scale = standardised(series, slices, starts)
    rows = LaggedRows.of(standard, slices, starts, N_LAGS)
    if known is not None:
        rows = rows.less(known, N_LAGS)
    n_units, first = len(slices), rows.now[0].start
    past, now = rows.values[:, :first], rows.values[:, first:]
    ends = np.linspace(0, len(now), N_BLOCKS + 1).astype(int)
    missed = np.empty((n_units + 1, *now.shape))  # without each cause, and with all
    jacobian, squares = np.zeros((2, N_BLOCKS, *now.shape[1:], first))
    kept = [np.delete(np.arange(first), np.r_[own]) for own in rows.past] + [np.arange(first)]
    for stretches in np.array_split(np.arange(N_BLOCKS), _FOLDS):
        test = np.arange(ends[stretches[0]], ends[stretches[-1] + 1])
        train = np.delete(np.arange(len(now)), test)
        for k, columns in enumerate(kept):
            fitted = clone(template).fit(past[train][:, columns], now[train])
            missed[k, test] = now[test] - _predicted(fitted, past[test][:, columns])
        for b in stretches:
            slopes = _slopes(fitted, past[ends[b] : ends[b + 1]])
            jacobian[b], squares[b] = slopes.mean(axis=0), np.square(slopes).mean(axis=0)
    news = [missed[-1][:, own] for own in slices]
    losses = np.array([_whitened(missed[:, :, own], of_own, ends) for own, of_own in zip(slices, news, strict=True)])
    gains = losses[:, :-1] - losses[:, -1:]
    by_lag = [
        np.concatenate([each[..., of.start : of.stop].reshape(*each.shape[:2], N_LAGS, -1) for of in rows.past], axis=3)
        for each in (jacobian, squares)
    ]
    same_row = same_row_shares(news, [np.ones(len(now))] * n_units)
    means, of_squares = (np.swapaxes(each, 1, 2) for each in by_lag)
    return LeftOut(gains, same_row, means, of_squares, scale)


def _predicted(fitted, X):
    """Predictions (n_rows, n) of a regressor, which gives those of one state without a second axis."""
    return np.reshape(fitted.predict(X), (len(X), -1))


def _whitened(missed, news, ends):
    """Mean squares (k, n_stretches) of what k fits miss of a unit, (k, n_rows, p), in units of its news."""
    white = np.linalg.pinv(news.T @ news / len(news), rcond=1e-10, hermitian=True)
    size = np.einsum("kti,ij,ktj->kt", missed, white, missed)
    return np.add.reduceat(size, ends[:-1], axis=1) / np.diff(ends)


def _slopes(fitted, X):
    """Differences of predictions over the moves of every column, (n_rows, n, n_columns)."""
    moves = _REACH * np.eye(X.shape[1])
    slopes = [(_predicted(fitted, X + move) - _predicted(fitted, X - move)) / (2 * _REACH) for move in moves]
    return np.stack(slopes, axis=2)


def left_out_links(record, names, template, alpha):
    """The table of links of a :class:`JointRecord`, and the mean Jacobian (N_LAGS, n, n) of the states, None without.

    `norm` is the root mean square of the Jacobian of standardised states, `stderr` its error over stretches;
    `statistic` and `p_value` are of the loss without the cause, one-sided, and adjusted by Holm's rule.
    """
    pairs = record.partition.pairs
    of_pairs = tuple(pairs.T)
    columns: dict[str, Any] = dict.fromkeys((*VALUES, *COLUMNS[3:]), np.nan)
    columns |= {"stderr": np.inf, "p_value": 1.0, "p_adjusted": 1.0}
    columns |= {"verdict": "cannot tell", "because": _TOO_FEW, "statistic": 0.0}
    jacobian = None
    if can_be_graded(record):
        series, slices, starts, known = rows_of(record)
        found = left_out(series, slices, starts, template, known)
        columns |= {name: value[of_pairs] for name, value in _judged(found, slices, alpha).items()}
        jacobian = found.scale[:, None] * found.jacobian.mean(axis=0) / found.scale
    table = pd.DataFrame(named_pairs(names, pairs) | {"kind": "state", "basis": "held-out gain"} | columns)
    return in_order(table), jacobian


def _judged(found, slices, alpha):
    """Columns of a table of links, arrays [effect, cause]."""
    gain, error = trimmed(found.gains)
    off = ~np.eye(len(slices), dtype=bool)
    p_value, p_adjusted = stdtr(TRIMMED_DOF, -gain / error), np.ones_like(gain)
    p_adjusted[off] = holm(p_value[off])
    gains = Gains(gain, error, same_row=found.same_row)
    low, high = gains.low(SURE), gains.up(SURE)
    is_told = p_adjusted <= alpha
    is_influence = (low > NEGLIGIBLE) & exceeds_what_is_shared((gains,), SURE)
    verdict = np.where(is_told, np.where(is_influence, "influence", "coupled"), "cannot tell").astype(object)
    squares = np.array([[found.squares[..., e, c].sum(axis=(-2, -1)) for c in slices] for e in slices])  # by lag
    size = np.sqrt(squares.sum(axis=3))
    return {
        "verdict": verdict,
        "because": np.vectorize(_reason, otypes=[object])(verdict, low, high, found.same_row),
        "strength": gain,
        "low": low,
        "high": high,
        "same_row": found.same_row,
        "driver_needed": driver_needed(low),
        "evidence": 2 * np.arcsinh(gain / error),
        "lag": 1.0 + squares.mean(axis=2).argmax(axis=2),
        "norm": size.mean(axis=2),
        "stderr": size.std(axis=2, ddof=1) / np.sqrt(size.shape[2]),
        "statistic": gain / error,
        "p_value": p_value,
        "p_adjusted": p_adjusted,
    }


def _reason(verdict, low, high, same_row):
    """What speaks most against a verdict."""
    if verdict == "influence":
        return unless_driven(driver_needed(low))
    if verdict == "coupled":
        return f"{percent(same_row)} of their unpredicted variation is common in the same row, or the gain is small"
    least, most = (percent(max(share, 0)) for share in (low, high))
    return f"without the cause the regressor loses between {least} and {most}"
