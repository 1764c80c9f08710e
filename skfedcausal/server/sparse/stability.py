"""Large plants are made stable: blocks that are need not make up a whole that is."""

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import eigs

from ...statespace.matrices import sparse_diagonal
from ..estimation.scoring import MAX_RADIUS

_DENSE = 400  # states, up to which eigenvalues are computed all at once
_ARNOLDI = 120  # vectors of others: moduli lie so close that fewer take several times as many products


def stable(A, partition):
    """The plant with its links made weaker until it is stable, and by which factor: 1 for most."""
    unit, coo = partition.unit_of_state, A.tocoo()
    own = unit[coo.row] == unit[coo.col]
    share = 1.0
    while radius(A) >= MAX_RADIUS and share > 0:
        share = share / 2 if share > 1e-3 else 0.0
        A = csr_array((np.where(own, coo.data, share * coo.data), (coo.row, coo.col)), shape=A.shape)
    return A, share


def radius(A):
    """Spectral radius of a sparse matrix."""
    if A.shape[0] <= _DENSE:
        return float(np.abs(np.linalg.eigvals(A.toarray())).max())
    start = np.ones(A.shape[0])  # so that the same comes every time
    settings = {"ncv": _ARNOLDI, "return_eigenvectors": False, "tol": 1e-6}
    values = eigs(A + 1e-12 * sparse_diagonal(start), k=6, v0=start, **settings)
    return float(np.abs(values).max())
