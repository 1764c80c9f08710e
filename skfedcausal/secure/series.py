"""The series whose products are summed: a unit's scores, faded in and out at the ends of episodes.

Sums at neighbouring lags over a whole record differ by products of its first and last rows alone, which would tell
these rows. A record that begins and ends with zero has none of that, and the fade (a cosine bell [1]_) also takes
away most of the bias that such sums have for slow states.

References
----------
.. [1] Dahlhaus (1988), Small sample effects in time series analysis: a new asymptotic theory and a new estimate,
       Annals of Statistics 16(2).
"""

import numpy as np

from ..statespace.episodes import episode_lengths, remove_episode_means

_SHARE, _LEAST = 100, 8  # an episode fades over a hundredth of its rows at either end, over 8 rows at least


def fade(lengths):
    """Weights of the rows of episodes, zero in the first and last row of each, shape (n_rows,)."""
    return np.concatenate([_bell(length) for length in lengths])


def _bell(length):
    ramp = max(length // _SHARE, _LEAST)
    if length < 4 * ramp:
        raise ValueError(f"Secure sums need episodes of at least {4 * _LEAST} rows; one has {length}.")
    weights = np.ones(length)
    weights[:ramp] = (1 - np.cos(np.pi * np.arange(ramp) / ramp)) / 2
    weights[-ramp:] = weights[:ramp][::-1]
    return weights


def faded_scores(z, J, starts):
    """Scores ``J^-1 z`` less their mean in each episode, faded in and out, shape (n_rows, n_states)."""
    scores = remove_episode_means(z @ np.linalg.inv(J), starts, copy=False)
    return scores * fade(episode_lengths(starts, len(z)))[:, None]


def effective_rows(lengths):
    """Rows that sums of squares of faded series stand for, and rows that their scatter is that of."""
    squares = fade(lengths) ** 2
    return float(squares.sum()), float(squares.sum() ** 2 / np.square(squares).sum())
