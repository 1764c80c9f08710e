"""How large a change is, of which sort, and since when."""

from typing import NamedTuple

import numpy as np

from .hypotheses import BLOCK, shifted

_LOST = 0.25  # share of its gain below which a link is gone: between half of it and nothing
_PASSES = 3  # of date and size in turn
_FEWEST_ROWS = 20


class Change(NamedTuple):
    """What is said of one row of the table; the date is a row of the record."""

    verdict: str
    gain_before: float
    gain_after: float
    delay_before: float
    delay_after: float
    since: float

    @property
    def numbers(self):
        """All but the verdict."""
        return self[1:]


class Fit(NamedTuple):
    """Least squares of innovations on regressors from a row on: coefficients, half the drop of squares, date."""

    coefficients: np.ndarray
    gain: float
    since: int
    explained: np.ndarray  # (n_rows,)


def dated_fit(Z, white, since, p):
    """Size and date of a change in turn, from a first guess of the date; regressors Z (n_rows, c)."""
    n_rows, last = len(white), None
    for _ in range(_PASSES):
        late = slice(since * p, None)
        coefficients = np.linalg.lstsq(Z[late], white[late], rcond=None)[0]
        expected = Z @ coefficients
        # log-likelihood ratio of every row, and its sum from every row on
        gained = (expected * white - 0.5 * expected**2).reshape(-1, p).sum(axis=1)
        tail = np.cumsum(gained[::-1])[::-1]
        latest = max(n_rows // p - _FEWEST_ROWS, 1)
        last, since = since, int(np.argmax(tail[:latest]))
        if since == last:
            break
    late = slice(since * p, None)
    coefficients = np.linalg.lstsq(Z[late], white[late], rcond=None)[0]
    explained = np.zeros(n_rows)
    explained[late] = Z[late] @ coefficients
    return Fit(coefficients, float(explained @ white - 0.5 * explained @ explained), since, explained)


def change_of_link(plant, unit, cause, kind, shift, row):
    """A link that the plant has: scaled, moved, or otherwise another; its :class:`Change` and what explains it."""
    effect, p = unit.unit, unit.tests.n_states
    cols, kernel = plant.partition.slices[cause], plant.kernel(effect, cause)
    before, lag = plant.strength(effect, cause, kernel), plant.first_lag(effect, cause)
    base = unit.responses.kernel(kernel, cols)
    scaled = dated_fit(base[:, None], unit.white, row, p)
    moved, by = _moved(plant, unit, cause, base, row)
    price = 0.5 * np.log(max(len(base) / p, 2.0)) + np.log(len(plant.shifts(effect, cause)))
    if moved.gain - scaled.gain > price and abs(moved.coefficients[1]) > abs(1 + moved.coefficients[0]):
        after = before * abs(moved.coefficients[1])
        return Change("delayed", before, after, float(lag), float(lag + by), float(moved.since)), moved.explained
    found, after = scaled, before * abs(1 + scaled.coefficients[0])
    if kind == BLOCK:
        first = plant.first_lag(effect, cause)
        block = unit.responses.block(first, cols)
        found = dated_fit(block.reshape(len(block), -1), unit.white, row, p)
        changed = kernel.copy()
        changed[first - 1] += found.coefficients.reshape(kernel.shape[1:])
        after = plant.strength(effect, cause, changed)
    share = after / before
    verdict = "lost" if share < _LOST else "weaker" if share < 1 else "stronger"
    delay = np.nan if verdict == "lost" else float(lag)
    return Change(verdict, before, after, float(lag), delay, float(found.since)), found.explained


def _moved(plant, unit, cause, base, row):
    """The likeliest move of a link together with its own scale, and by how many rows."""
    cols, kernel, best = plant.partition.slices[cause], plant.kernel(unit.unit, cause), None
    for shift in plant.shifts(unit.unit, cause):
        later = unit.responses.kernel(shifted(kernel, shift, unit.responses.n_lags), cols)
        found = dated_fit(np.column_stack([base, later]), unit.white, row, unit.tests.n_states)
        if best is None or found.gain > best[0].gain:
            best = found, shift
    return best


def new_link(plant, unit, cause, lag, row):
    """A link that the plant has not: its :class:`Change` and what explains it."""
    block = unit.responses.block(lag, plant.partition.slices[cause])
    found = dated_fit(block.reshape(len(block), -1), unit.white, row, unit.tests.n_states)
    after = plant.strength(unit.unit, cause, found.coefficients.reshape(block.shape[1:]))
    return Change("new", 0.0, after, np.nan, float(lag), float(found.since)), found.explained


def change_of_unit(unit, Z, row):
    """A unit that moves otherwise than was learned: how much by itself, against 1 in the record it was learned from."""
    p, told = unit.tests.n_states, unit.tests.innovations.n_told
    squares = np.square(unit.white).reshape(-1, p).sum(axis=1)
    explained, since = np.zeros(len(unit.white)), row
    if Z is None:
        since = _variance_since(squares, told, row)
    else:
        found = dated_fit(Z, unit.white, row, p)
        explained, since = found.explained, found.since
    after = float(np.sqrt(squares[since:].sum() / max(told[since:].sum(), 1)))
    verdict = "stronger" if after > 1 else "weaker"
    if Z is None and after > 0:  # the rest is judged by what it is now
        late = slice(since * p, None)
        explained[late] = unit.white[late] * (1 - 1 / after)
    return Change(verdict, 1.0, after, np.nan, np.nan, float(since)), explained


def _variance_since(squares, told, row):
    """The row from which another variance makes the squares likeliest."""
    mean = squares[row:].sum() / max(told[row:].sum(), 1)
    gained = 0.5 * (squares * (1 - 1 / mean) - told * np.log(mean))
    return int(np.argmax(np.cumsum(gained[::-1])[::-1]))
