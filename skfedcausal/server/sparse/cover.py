"""Which units are fitted together: small groups of linked units, each with the neighbours that act on them."""

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import eigs

from ...statespace.matrices import sparse_diagonal
from ..estimation.scoring import MAX_RADIUS
from .tuning import TUNING

CORE = 6  # units whose rows a block estimates
MOST = 14  # units of a block, unless more act on its core


def neighbours(n_units, links, strengths, correlated):
    """Neighbours of every unit with the strength of what joins them: dicts by unit."""
    found: list[dict] = [{} for _ in range(n_units)]
    for (effect, cause), strength in zip(links, strengths, strict=True):
        for a, b in ((effect, cause), (cause, effect)):
            found[a][b] = max(found[a].get(b, 0.0), float(strength))
    for a, b in correlated:
        found[a][b] = found[b][a] = np.inf
    return found


def cores(near, size=CORE):
    """Units in groups of linked ones, every unit in one group."""
    left, groups = dict.fromkeys(range(len(near))), []
    while left:
        group: list[int] = []
        edge: dict[int, float] = {}
        while left and len(group) < size:
            joined = {unit: weight for unit, weight in edge.items() if unit in left}
            unit = max(joined, key=lambda u: (joined[u], -u)) if joined else next(iter(left))
            del left[unit]
            group.append(unit)
            for other, weight in near[unit].items():
                edge[other] = edge.get(other, 0.0) + weight
        groups.append(sorted(group))
    return groups


def with_halo(core, near, causes, most=MOST):
    """A group with all that acts on it, and the strongest other neighbours, first those of the first kind."""
    members = dict.fromkeys(core)
    for unit in core:
        members.update(dict.fromkeys(sorted(causes[unit])))
    for _ in range(2):
        around: dict = {}
        for unit in members:
            for other, weight in near[unit].items():
                if other not in members:
                    around[other] = max(around.get(other, 0.0), weight)
        for other in sorted(around, key=lambda u: (-around[u], u)):
            if len(members) >= most:
                return list(members)
            members[other] = None
    return list(members)


# -- matrices of a plant from those of its parts --------------------------------------------------------


def assembled(parts, n):
    """A sparse matrix from rows of blocks ``(rows, columns, values)``."""
    rows = np.concatenate([np.repeat(r, len(c)) for r, c, _ in parts])
    cols = np.concatenate([np.tile(c, len(r)) for r, c, _ in parts])
    values = np.concatenate([x.ravel() for _, _, x in parts])
    whole = csr_array((values, (rows, cols)), shape=(n, n))
    whole.eliminate_zeros()
    return whole


# -- stability: blocks that are stable need not make up a whole that is ------------------------------------


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
    if A.shape[0] <= TUNING.cover_dense:
        return float(np.abs(np.linalg.eigvals(A.toarray())).max())
    start = np.ones(A.shape[0])  # so that the same comes every time
    settings = {"ncv": TUNING.cover_arnoldi, "return_eigenvectors": False, "tol": 1e-6}
    values = eigs(A + 1e-12 * sparse_diagonal(start), k=6, v0=start, **settings)
    return float(np.abs(values).max())
