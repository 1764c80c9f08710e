"""Columns of a season: the period and its overtones."""

import numpy as np

_MOST_OVERTONES = 12


def overtones(period):
    """Overtones of a season, as many as its period in rows resolves."""
    return max(min(int(period / 2), _MOST_OVERTONES), 1)


def season_columns(rows, period, n_overtones):
    """Cosines and sines of a period and its overtones in rows, shape (n_rows, 2 n_overtones)."""
    angles = 2 * np.pi / period * rows[:, None] * np.arange(1, n_overtones + 1)
    return np.hstack([np.cos(angles), np.sin(angles)])
