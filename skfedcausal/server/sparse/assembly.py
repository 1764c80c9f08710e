"""Matrices of a plant put together from those of its parts."""

import numpy as np
from scipy.sparse import csr_array


def block_diagonal(blocks):
    """A matrix with these on its diagonal."""
    sizes = np.cumsum([0, *map(len, blocks)])
    whole = np.zeros((sizes[-1],) * 2)
    for block, start, stop in zip(blocks, sizes[:-1], sizes[1:], strict=True):
        whole[start:stop, start:stop] = block
    return whole


def assembled(parts, n):
    """A sparse matrix from rows of blocks ``(rows, columns, values)``."""
    rows = np.concatenate([np.repeat(r, len(c)) for r, c, _ in parts])
    cols = np.concatenate([np.tile(c, len(r)) for r, c, _ in parts])
    values = np.concatenate([x.ravel() for _, _, x in parts])
    whole = csr_array((values, (rows, cols)), shape=(n, n))
    whole.eliminate_zeros()
    return whole
