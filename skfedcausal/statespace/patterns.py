"""Rows of a record by which of their cells are there."""

import numpy as np


def patterns_of(present):
    """Different patterns of rows.

    Parameters
    ----------
    present : ndarray of bool, shape (n_samples, n)

    Returns
    -------
    first : ndarray of int, shape (n_patterns,)
        Row in which each pattern occurs first.
    index : ndarray of int, shape (n_samples,)
        Pattern of each row.
    """
    packed = np.packbits(present, axis=1)
    _, first, index = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    return first, index.reshape(-1)


def rows_of_patterns(index, n_patterns):
    """Rows of each pattern, a list of arrays."""
    order = np.argsort(index, kind="stable")
    return np.split(order, np.searchsorted(index[order], np.arange(1, n_patterns)))
