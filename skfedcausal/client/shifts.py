"""Level shifts of a unit's record, taken off before its sensors are identified.

What counts as noise of a sensor is judged against its variance, and a level that shifts looks like one more state with
a pole near one: C and R must be learned from the rest. Messages keep the shift: which units it acts on is the business
of the server.
"""

import numpy as np
from scipy.signal import lfilter

from ..statespace.episodes import column_mean
from ..statespace.segments import find_changes
from .tuning import TUNING

_RATES = (0.0, 0.8, 0.95, 0.98, 0.99)  # at which a unit may settle at its new level


def without_shifts(Y, starts, least=0.0):
    """Measurements (n_samples, n_sensors) less their shifts of level; `Y` itself without any, or with gaps.

    With a `least` share they are left where they are as well if they take no more than that of the variance of any
    column, or if there are more than a few: these are modes, whose levels are usual.
    """
    if not (len(Y) and np.isfinite(Y.sum())):
        return Y
    changes = common_changes(Y, starts)
    if not changes or (least and len(changes) > TUNING.shifts_few):
        return Y
    level = column_mean(Y)
    followed = np.column_stack([np.ones(len(Y)), *(_followed(change, starts, len(Y)) for change in changes)])
    rest = Y - level - followed @ np.linalg.lstsq(followed, Y - level, rcond=TUNING.shifts_alike)[0]
    left = np.square(rest).sum(axis=0) / np.maximum(np.square(Y - level).sum(axis=0), np.finfo(float).tiny)
    return rest + level if 1 - left.min() > least else Y


def common_changes(Y, starts):
    """Changes of level of complete series (n_samples, k) in the directions in which they vary most together."""
    around = Y - column_mean(Y)
    squares = around.T @ around
    size = np.sqrt(np.maximum(squares.diagonal(), np.finfo(float).tiny))
    axes = np.linalg.eigh(squares / np.outer(size, size))[1][:, -TUNING.shifts_axes :]
    return find_changes(around @ (axes / size[:, None]), starts)


def _followed(change, starts, n_samples):
    """A change of level as units of several rates follow it, to the end of its episode, (n_samples, n_rates)."""
    columns = np.zeros((n_samples, len(_RATES)))
    stop = min((start for start in starts if start > change.start), default=n_samples)
    path = change.path(np.arange(change.start, stop))
    for column, rate in zip(columns.T, _RATES, strict=True):
        column[change.start : stop] = lfilter([1 - rate], [1, -rate], path)
    return columns
