"""Stops of valves, full and empty tanks: where a sensor comes to rest at the end of its range, again and again."""

import numpy as np

_WIDTH = 0.1  # standard deviations from the extreme value that are at the stop
_VISITS, _ROWS, _APART = 3, 3, 10  # visits, rows of each at least, and rows from one to the next
_PILE, _SHARE = 2.5, 0.005  # times the rows in the next such stretch of values (2.4 of a sine), and of all rows
_NEAR, _VALUES = 5, 8  # such stretches that have to hold as many values, or rounding is too coarse to tell
_LOW, _HIGH = -1, 1


def stops_of(Y):
    """Stops that a record shows.

    Strict, since an answer that is cut off where there is no stop is worse than one that is not: an extreme value is a
    stop where the sensor rests three times, and where values are the denser the nearer they are to it.

    Parameters
    ----------
    Y : ndarray of shape (n_samples, n_sensors)
        Measurements, NaN where missing.

    Returns
    -------
    ndarray of shape (3, n_stops)
        Position of the sensor, -1 for its lowest value and 1 for its highest, value of the stop.
    """
    found = [
        (k, side, side * stop)
        for k in np.flatnonzero(np.isfinite(Y).any(axis=0))
        for side in (_LOW, _HIGH)
        if (stop := _highest(side * Y[:, k])) is not None
    ]
    return np.array(found, dtype=float).reshape(-1, 3).T


def _highest(y):
    """Where the highest values of a series pile up, or None."""
    top, width = np.nanmax(y), _WIDTH * np.nanstd(y)
    at = np.flatnonzero(y >= top - width)
    visits = np.split(at, np.flatnonzero(np.diff(at) > _APART) + 1)
    outer = (y >= top - width / 2).sum()
    below = ((y < top - width) & (y >= top - 2 * width)).sum()
    is_pile = len(at) >= max(_PILE * below, _SHARE * len(y)) and outer > len(at) - outer
    is_fine = len(np.unique(y[(y < top - width) & (y >= top - _NEAR * width)])) >= _VALUES
    is_stop = is_pile and is_fine and sum(len(rows) >= _ROWS for rows in visits) >= _VISITS
    return np.median(y[at]) if is_stop else None


def ends_of(stops, n_sensors):
    """Lowest and highest value of every sensor, (2, n_sensors), infinite where there is no stop."""
    ends = np.repeat([[-np.inf], [np.inf]], n_sensors, axis=1)
    sensors, sides, values = stops
    ends[(sides == _HIGH).astype(int), sensors.astype(int)] = values
    return ends
