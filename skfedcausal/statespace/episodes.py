"""Episodes: several records of one plant, one below the other."""

import numpy as np


def episodes(starts, n_samples):
    """Pairs (first row, row after the last) of each episode.

    Parameters
    ----------
    starts : sequence of int
        First row of each episode.
    n_samples : int
        Rows of all episodes together.

    Returns
    -------
    list of tuple of int
    """
    return list(zip(starts, [*starts[1:], n_samples], strict=True))


def inner_rows(n_samples, starts):
    """Rows that are not the first of an episode, as positions.

    Parameters
    ----------
    n_samples : int
    starts : sequence of int

    Returns
    -------
    ndarray of int
    """
    first = np.zeros(n_samples, dtype=bool)
    first[list(starts)] = True
    return np.flatnonzero(~first)
