"""What users write down about other inputs, as arrays, and the tables they get back."""

from numbers import Integral
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from ..containers.layout import listed, refuse_unknown
from .tuning import TUNING

EFFECT, NOTHING, CANNOT_TELL, NOT_YET = "effect", "no effect to be seen", "cannot tell", "not yet"
NO_MOVE, SAY_WHEN = "there was no move", "cannot tell: say when it acts"
LOOPS = "hold", "react"
_SPEAK, _SMALL = 0.1, 0.2  # standard deviations that there is an effect to speak of, and up to which there is none


def unit_name(n, names):
    """Name of a unit given by name or position."""
    if isinstance(n, str):
        if n in names:
            return n
    elif isinstance(n, int | np.integer) and not isinstance(n, bool) and 0 <= n < len(names):
        return names[n]
    raise ValueError(
        f"Got unknown unit {n!r}; give a name or a position from 0 to {len(names) - 1}. Known are {listed(names)}."
    )


def two_sided(confidence):
    """Standard deviations to either side that hold a Gaussian number with this probability."""
    return stats.norm.ppf((1 + confidence) / 2)


def window_rows(window, n_samples, index=None):
    """Rows of a window ``(start, stop)`` of positions, or of times or other labels of the index, as a slice."""
    try:
        start, stop = window
    except (TypeError, ValueError):
        raise ValueError(
            f"Got window={window!r}; give (start, stop), the first row and the one after the last."
        ) from None
    by_position = all(isinstance(edge, Integral) and not isinstance(edge, bool) for edge in (start, stop))
    by_label = not isinstance(index, pd.DatetimeIndex) and index is not None and {start, stop} <= {*index}
    if by_label and not (by_position and 0 <= start < stop <= n_samples):
        first, last = index.get_loc(start), index.get_loc(stop)
    elif by_position:
        first, last = int(start), int(stop)
    elif isinstance(index, pd.DatetimeIndex):
        first, last = (_place_of(edge, index) for edge in (start, stop))
    else:
        raise ValueError(f"Got window={window!r}; give positions of rows, or times for a record with a time index.")
    if not 0 <= first < last <= n_samples:
        raise ValueError(
            f"Got window={window!r}, which are the rows from {first} to {last} of {n_samples}: it holds none, or "
            "leaves the record. Give the first row of the window and the one after the last."
        )
    return slice(first, last)


def _place_of(edge, index):
    """Position of the first row from a time on."""
    try:
        return int(index.searchsorted(pd.Timestamp(edge)))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Got {edge!r} in `window`, which is no time like those of the record: {error}. Give times with the "
            "same time zone, or positions of rows."
        ) from error


def trajectory(value, what, horizon, names):
    """Inputs of one unit at each step from a constant or a trajectory, shape (horizon, n_inputs)."""
    array = _as_numbers(value, f"{what} of input {listed(names)}")
    k = len(names)
    if array.ndim < 2 and array.size == k:
        array = np.broadcast_to(array, (horizon, k))
    elif array.shape == (horizon,) and k == 1:
        array = array[:, None]
    if array.shape != (horizon, k):
        raise ValueError(
            f"{what} has shape {np.shape(value)}; give {k} constant(s), one for each of the inputs "
            f"{listed(names)}, or a trajectory of shape ({horizon}, {k})."
        )
    return array


def replaced_input(value, recorded, index, name, levels=None):
    """Series that stands for a recorded input in a counterfactual, shape (n_samples,); codes of its `levels`."""
    if callable(value):
        came = recorded.copy() if levels is None else levels.words(recorded)
        value = value(pd.Series(came, index=index, name=name))
    if isinstance(value, pd.Series) and index is not None and not value.index.equals(index):
        raise ValueError(f"The series for input {name!r} has another time index than the record.")
    if levels is not None:
        value = levels.code(value, name) if np.ndim(value) == 0 else levels.codes(value, name)
    series = _as_numbers(value, f"Input {name!r}")
    if not series.ndim:
        series = np.full(len(recorded), float(series))
    if series.shape != recorded.shape:
        raise ValueError(f"Got {np.shape(value)} values for input {name!r}, expected a number or {len(recorded)} rows.")
    return series


def whatif_table(times, columns, factual, effect, std, told, confidence, ends):
    """Long table of an episode replayed, one row per time and column.

    `told` is trust and verdict by column, `ends` what no measurement goes below or above.
    """
    half, other = two_sided(confidence) * std, factual + effect
    blocks = {"factual": factual, "counterfactual": other, "effect": effect}
    blocks |= {"low": np.clip(other - half, *ends), "high": np.clip(other + half, *ends)}
    kinds = {"verdict": object}
    blocks |= {name: np.tile(np.array(own, kinds.get(name, float)), len(times)) for name, own in told}
    return long_table("time", times, columns, blocks)


def long_table(name, rows, columns, blocks):
    """One row per row, of this name, and column; `blocks` are columns of the table, (n_rows, n_columns) or flat."""
    places = {name: np.repeat(np.asarray(rows), len(columns))}
    places["column"] = np.tile(np.array(columns, dtype=object), len(rows))
    return pd.DataFrame(places | {name: np.ravel(block) for name, block in blocks.items()})


def limits_of(limits, columns, factual, stops):
    """Lowest and highest values of all measurements, (n_samples, d) each, widened where the record was beyond.

    Those that are named, and stops (2, d) that the record of `fit` shows of other columns. Behind them sentences about
    columns that stand at one, where an effect may be that of a valve that is not at its stop.
    """
    limits, (low, high) = limits or {}, stops
    refuse_unknown(limits, columns, "`limits` names", "columns are")
    for name, pair in limits.items():
        edges = _as_numbers(pair, f"The limits of {name!r}")
        if edges.shape != (2,) or not edges[0] < edges[1]:
            raise ValueError(f"Got limits {pair!r} for {name!r}; give (low, high), the low one below the high one.")
        k = list(columns).index(name)
        low[k], high[k] = edges
    notes = []
    for k, at in enumerate(np.mean((factual <= low) | (factual >= high), axis=0)):
        if at > 0:
            shown = "" if columns[k] in limits else f" ({low[k]:.4g} to {high[k]:.4g}, as the record of `fit` shows)"
            notes.append(
                f"{columns[k]!r} stands at a limit in {at:.0%} of the rows of this record{shown}: what it does to "
                "others there is not what a plant learned elsewhere says."
            )
    return np.minimum(low, factual), np.maximum(high, factual), notes


def verdicts(effect, std, spread, confidence, doubted):
    """How far an effect on each column is to be trusted, from 0 to 1, and whether there is one.

    Parameters
    ----------
    effect, std : ndarray of shape (n_rows, d)
        Of the rows from a move on.
    spread : ndarray of shape (d,)
        Standard deviation of each column; NaN where it is not known.
    confidence : float
    doubted : ndarray of bool of shape (d,)
        Columns of which effects with another timing of inputs are others, and nobody knows which one is right.

    Returns
    -------
    trust : ndarray of shape (d,)
        Share of the squares of effect and error that is effect; NaN without errors.
    verdict : list of str
        "effect" where the band leaves out zero in a tenth of the rows, the trust is above a half and there is more
        than a tenth of a standard deviation, "no effect to be seen" where the band stays within a fifth of one, "not
        yet" where it is zero and nothing else could be seen, "cannot tell: say when it acts" of columns in doubt,
        "cannot tell" else.
    """
    half = two_sided(confidence) * std
    squares = np.square(effect).sum(axis=0)
    total = squares + np.square(std).sum(axis=0)
    trust = np.where(total == 0, 0.0, squares / np.where(total == 0, 1.0, total))
    clear = (np.abs(effect) > half).sum(axis=0) > TUNING.interventions_clear * len(effect)
    most = (np.abs(effect) + half).max(axis=0, initial=0.0)
    real = clear & (trust > TUNING.interventions_real)
    cases = [most == 0, most < _SPEAK * spread, real, most < _SMALL * spread, doubted]
    return trust, np.select(cases, [NOT_YET, NOTHING, EFFECT, NOTHING, SAY_WHEN], CANNOT_TELL).tolist()


def in_doubt(apart, std, confidence):
    """Columns whose effects with two timings of inputs lie further apart than the band in a tenth of the rows, (d,)."""
    return (np.abs(apart) > two_sided(confidence) * std).mean(axis=0) > TUNING.interventions_clear


def _said(value):
    """A value that was asked for, in an error; of a series, which may be one of a record, the kind alone."""
    if isinstance(value, str | bytes) or not hasattr(value, "__len__"):
        return repr(value)
    return f"a {type(value).__name__} of length {len(value)}"


def _as_numbers(value, what):
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(
            f"{what} was given {_said(value)}, which is no number and no table of numbers in the units of the input."
        ) from None
    if not np.isfinite(array).all():
        raise ValueError(f"{what} has values that are missing or infinite; give a finite number for every row.")
    if np.abs(array).max(initial=0.0) > TUNING.interventions_absurd:
        raise ValueError(f"{what} was given {np.abs(array).max():.3g}, which no input can be set to.")
    return array


class Realisation(NamedTuple):
    """Matrices of ``h[t] = A h[t-1] + B u[t-1]``, ``y[t] = C h[t] + D u[t]``; D is None where nothing acts at once."""

    A: np.ndarray
    B: np.ndarray
    C: np.ndarray
    D: np.ndarray | None


def one_lag_realisation(A, B, at_once, C):
    """The :class:`Realisation` with the response of a plant of lags (p, n, n) and (q, n, k) and same-row (n, k).

    The observer form: state k holds what rows from k - 1 before on still do to a row. States that nothing
    reaches are left out.
    """
    n_lags, n, k = max(len(A), len(B)), A.shape[1], B.shape[2]
    lags, driven = np.zeros((n_lags, n, n)), np.zeros((n_lags, n, k))
    lags[: len(A)], driven[: len(B)] = A, B
    shift = np.eye(n * n_lags, k=n)
    shift[:, :n] += lags.reshape(-1, n)
    reached = np.any(lags, axis=2) | np.any(driven, axis=2)
    kept = np.logical_or.accumulate(reached[::-1])[::-1]
    kept[0] = True
    at = np.flatnonzero(kept)
    inputs = np.vstack(driven + lags @ at_once)
    seen = np.hstack([C, np.zeros((len(C), n * (n_lags - 1)))])
    return Realisation(shift[np.ix_(at, at)], inputs[at], seen[:, at], C @ at_once if at_once.any() else None)
