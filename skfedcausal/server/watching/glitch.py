"""Single rows that only a sensor can have made: a measurement that jumps away and is back in the next row."""

import numpy as np

_LOUD = 6.0  # times the usual surprise that the row has at least
_REST = 0.2  # of its surprise that all other rows may have above the usual, together
_SCATTER = 1.5  # of the sum of the usual surprise of so many rows, over their square root
_APART = 8.0  # times the usual distance of what a unit's sensors show beside its states


def is_glitch(surprise, outside):
    """Whether what is unusual about a unit is one row of a wrong measurement.

    `surprise`, over the usual one of nominal rows, and `outside`, the same of what sensors show beside the states, are
    those of the rows from the onset on, (n_rows,). A disturbance of the process stays in the unit's states; a wrong
    value is gone in the next row, which is a second surprise, and the other sensors of its row contradict it.
    """
    above = np.maximum(surprise - 1.0, 0.0)
    top = int(above.argmax())
    event = above[top : top + 2].sum()
    rest = surprise.sum() - len(surprise) - event
    if surprise[top] < _LOUD or rest > max(_REST * event, _SCATTER * np.sqrt(len(surprise))):
        return False
    back = above[top + 1] if top + 1 < len(above) else 0.0
    return bool(outside[top] > _APART or back > _LOUD)
