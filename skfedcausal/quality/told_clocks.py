"""Whether the times that units tell of their rows fit what their states say about their clocks."""

import warnings

import numpy as np

from ..message.clock import Clock
from .offsets import clock_offsets

_MOST_LAGS = 720
_REGULAR = 1e8  # condition up to which a row determines the states


def warn_of_clocks(messages):
    """Warn where what the states say about the units' clocks contradicts the times that were told."""
    told = {name: Clock.of_message(message) for name, message in messages.items()}
    if len(messages) < 2 or any(clock is None for clock in told.values()):
        return
    scores = {name: _scores(message) for name, message in messages.items()}
    n_lags = min(_MOST_LAGS, min(len(message.z) for message in messages.values()) // 4)
    for name, offset in clock_offsets(scores, n_lags).items():
        if offset is not None and offset.rows:
            seconds = offset.rows * told[name].period
            warnings.warn(
                f"The clock of unit {name!r} seems to be about {seconds:+g} s off against that of "
                f"{offset.against!r}, by when their states move: its times were told as {told[name].in_words()}. "
                "Unless there is a dead time of that length between the two, links of this unit are lost: put its "
                "clock or its zone right.",
                stacklevel=2,
            )


def _scores(message):
    """Least-squares estimates of a unit's states, NaN where a row does not determine them."""
    J, z = message.J, message.z
    if J.ndim == 2:
        return np.linalg.solve(J, z.T).T if np.linalg.cond(J) < _REGULAR else np.full_like(z, np.nan)
    scores, regular = np.full_like(z, np.nan), np.linalg.cond(J) < _REGULAR
    scores[regular] = np.linalg.solve(J[regular], z[regular][..., None])[..., 0]
    return scores
