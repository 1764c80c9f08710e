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


def lagged_rows(Y, n_lags, starts=(0,)):
    """Rows ``[y[t-1], ..., y[t-n_lags]]``, zero before the start of an episode.

    Parameters
    ----------
    Y : ndarray of shape (n_samples, d)
    n_lags : int
    starts : sequence of int

    Returns
    -------
    Z : ndarray of shape (n_samples, n_lags * d)
    """
    n_samples, d = Y.shape
    Z = np.zeros((n_samples, n_lags * d))
    for start, stop in episodes(starts, n_samples):
        for lag in range(1, min(n_lags, stop - start - 1) + 1):
            Z[start + lag : stop, (lag - 1) * d : lag * d] = Y[start : stop - lag]
    return Z
