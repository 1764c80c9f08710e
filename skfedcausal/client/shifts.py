"""Level shifts that outweigh all else in a unit's record, taken off before its sensors are identified.

What counts as noise of a sensor is judged against its variance. A unit that is pushed to another level and stays
there has a variance that is mostly the push, beside which its real noise vanishes; C and R must be learned from
the rest. Messages keep the shift: which units it acts on is the business of the server.
"""

import numpy as np

from ..statespace.episodes import episodes, lagged_rows
from .tuning import TUNING

_RATES = (0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995)  # at which a unit may settle at its new level
_LAGS = 8


def without_shifts(Y, starts):
    """Measurements less the level shifts that take most of the variance of a column; `Y` itself without any."""
    if not _may_have_shifted(Y, starts):
        return Y
    onsets: list[int] = []
    rest = Y - Y.mean(axis=0)
    variance = np.einsum("ti,ti->i", rest, rest)
    while len(onsets) < TUNING.shifts_most:
        axis = np.linalg.eigh(rest.T @ rest)[1][:, -1]
        found = _onset(rest @ axis, starts, onsets)
        if found is None:
            break
        onsets.append(found)
        X = _settling(onsets, starts, len(Y))
        rest = Y - X @ np.linalg.lstsq(X, Y, rcond=1e-9)[0]
    taken = 1 - np.einsum("ti,ti->i", rest, rest) / np.maximum(variance, np.finfo(float).tiny)
    return rest + Y.mean(axis=0) if onsets and taken.max() > TUNING.shifts_share else Y


def _may_have_shifted(Y, starts):
    """Whether a sudden step between two blocks of rows takes much of the variance of a column."""
    n = len(Y)
    if n < 2 * TUNING.shifts_blocks:
        return False
    first = np.linspace(0, n, TUNING.shifts_blocks, endpoint=False).astype(int)
    sums = np.add.reduceat(Y, first, axis=0)
    total = sums.sum(axis=0)
    if not np.isfinite(total.sum()):
        return False  # of records with gaps shifts are not looked for
    before = np.cumsum(sums, axis=0)[:-1]
    m = first[1:, None]
    between = (before - m * total / n) ** 2 * n / (m * (n - m))
    centred = np.einsum("ti,ti->i", Y, Y) - total**2 / n
    return bool((between > TUNING.shifts_step_share * centred).any())


def _onset(series, starts, known):
    """Row at which the level of a series shifts, None without a shift that is clear beside its past."""
    n, best = len(series), (0.0, 0)
    for start, stop in episodes(sorted({*starts, *known}), n):
        best = max(best, best_split(series, start, stop))
    if best[0] == 0:
        return None
    before = np.unique(np.linspace(best[1] - 200, best[1], 21).astype(int)).tolist()  # it settles after the onset
    near = [row for row in before if all(row - other >= _LAGS for other in (*starts, *known) if other <= best[1])]
    if not near:
        return None
    onset = max(near, key=lambda row: _clearness(series, row, starts, known))
    fine = [row for row in range(onset - 10, onset + 11) if row > 0]
    onset = max(fine, key=lambda row: _clearness(series, row, starts, known))
    return onset if _clearness(series, onset, starts, known) > TUNING.shifts_clear else None


def best_split(series, start, stop):
    """Sum of squares between two levels of a stretch of a series at the best row, and that row; zeros if too short."""
    rows = series[start:stop] - series[start:stop].mean()
    if len(rows) <= 2 * _LAGS + 1:
        return 0.0, 0
    m = np.arange(1, len(rows))
    between = (np.cumsum(rows)[:-1] ** 2 * len(rows) / (m * (len(rows) - m)))[_LAGS:-_LAGS]
    k = int(between.argmax())
    return float(between[k]), start + _LAGS + k + 1


def _clearness(series, onset, starts, known):
    """Square of the t value of a step beside an autoregression and the steps before."""
    n = len(series)
    steps = _steps([*known, onset], starts, n)
    X = np.column_stack([np.ones(n), lagged_rows(series[:, None], _LAGS, starts), steps])
    inside = np.ones(n, dtype=bool)
    for start in starts:
        inside[start : start + _LAGS] = False
    X, y = X[inside], series[inside]
    G = X.T @ X
    inverse = np.linalg.pinv(G, hermitian=True)
    b = inverse @ (X.T @ y)
    noise = (y @ y - b @ (X.T @ y)) / len(y)
    return b[-1] ** 2 / max(noise * inverse[-1, -1], np.finfo(float).tiny)


def _steps(onsets, starts, n):
    """One from an onset to the end of its episode, shape (n_samples, n_onsets)."""
    steps = np.zeros((n, len(onsets)))
    for k, onset in enumerate(onsets):
        steps[onset : min([*(start for start in starts if start > onset), n]), k] = 1.0
    return steps


def _settling(onsets, starts, n):
    """A constant, and steps as units of several rates follow them."""
    steps, columns = _steps(onsets, starts, n), [np.ones(n)]
    for onset, step in zip(onsets, steps.T, strict=True):
        since = (np.arange(n) - onset + 1).clip(0)
        columns += [step * (1 - rate**since) for rate in _RATES]
    return np.column_stack(columns)
