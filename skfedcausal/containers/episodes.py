"""Episodes: several records of one plant, one below the other in a table."""

from itertools import accumulate

import numpy as np


def check_lengths(lengths, n_samples):
    """Check the lengths of episodes.

    Parameters
    ----------
    lengths : array-like of int of shape (n_episodes,) or None
        Number of rows of each episode; None for a single episode.
    n_samples : int
        Number of rows of the record.

    Returns
    -------
    tuple of int

    Raises
    ------
    ValueError
        If lengths are not positive integers that sum to `n_samples`.

    Examples
    --------
    >>> from skfedcausal.containers import check_lengths
    >>> check_lengths([2, 3], 5), check_lengths(None, 5)
    ((2, 3), (5,))
    """
    if lengths is None:
        return (n_samples,)
    array = np.asarray(lengths)
    if array.ndim != 1 or array.dtype.kind not in "iu" or array.size == 0 or array.min() < 1:
        raise ValueError(
            f"Got lengths={lengths!r}; give one positive integer per episode, for example "
            f"lengths=[{n_samples}]."
        )
    if array.sum() != n_samples:
        raise ValueError(
            f"Got `lengths` that sum to {array.sum()} for {n_samples} rows; give the number of "
            "rows of every episode, in order."
        )
    return tuple(int(length) for length in array)


def episode_starts(lengths):
    """First row of each episode.

    Parameters
    ----------
    lengths : sequence of int

    Returns
    -------
    tuple of int

    Examples
    --------
    >>> from skfedcausal.containers import episode_starts
    >>> episode_starts((2, 3))
    (0, 2)
    """
    return tuple(accumulate((int(length) for length in lengths[:-1]), initial=0))
