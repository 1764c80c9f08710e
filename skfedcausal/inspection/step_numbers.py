"""What an engineer reads off a step response: gain, dead time, time constant, settling time."""

import numpy as np

_DEAD, _RISEN, _SETTLED = 0.02, 1 - np.exp(-1), 0.02  # shares of the way


def step_numbers(steps):
    """Gain, dead time, time constant, settling time of step responses (n_sensors, n_rows, k), each (n_sensors, k)."""
    gain = steps[:, -1]
    share = np.divide(steps, gain[:, None], out=np.full_like(steps, np.nan), where=gain[:, None] != 0)
    known = np.isfinite(share[:, -1])
    dead = _first(np.abs(share) > _DEAD).astype(float)
    risen = _crossing(share, _RISEN)
    unsettled = np.abs(share - 1) > _SETTLED
    settled = steps.shape[1] - np.argmax(unsettled[:, ::-1], axis=1).astype(float)
    settled[~unsettled.any(axis=1)] = 0.0
    times = (dead, np.maximum(risen - dead + 1, 0.0), settled)  # it rises from the row before the first that shows it
    return np.array([gain, *(np.where(known, time, np.nan) for time in times)])


def _first(there):
    """First row of each series (n_sensors, n_rows, k) in which something is true, (n_sensors, k)."""
    return np.argmax(there, axis=1)


def _crossing(share, level):
    """Row, by interpolation, in which series (n_sensors, n_rows, k) first reach a level, (n_sensors, k)."""
    at = _first(share >= level)
    now = np.take_along_axis(share, at[:, None], axis=1)[:, 0]
    before = np.where(at > 0, np.take_along_axis(share, np.maximum(at - 1, 0)[:, None], axis=1)[:, 0], 0.0)
    part = np.divide(now - level, now - before, out=np.zeros_like(now), where=now != before)
    return at - part.clip(0, 1)
