"""Records drawn from a plant and seen through the information matrices of another record."""

from dataclasses import replace

import numpy as np

from ...statespace.episodes import episodes
from ...statespace.inputs import input_term
from ...statespace.recurrence import driven_recurrence
from ...statespace.riccati import stationary_covariance


def simulated_record(record, A, Q, rng, *, known=None, spread=None):
    """A record drawn from a plant, with the information matrices of another.

    Parameters
    ----------
    record : JointRecord
    A : ndarray of shape (n, n + k)
        Transition matrix, with the columns of B appended where there are inputs.
    Q : ndarray of shape (n, n)
    rng : numpy.random.Generator
    known : ndarray of shape (n_samples, k), default=None
        Inputs.
    spread : ndarray of shape (n, n), default=None
        Covariance added to the first state of an episode.

    Returns
    -------
    JointRecord
    """
    n, T = len(Q), record.n_samples
    own = np.ascontiguousarray(A[:, :n])
    first = stationary_covariance(own, Q)
    first = np.linalg.cholesky(first if spread is None else first + spread)
    shocks = rng.normal(size=(T, n)) @ np.linalg.cholesky(Q).T
    if known is not None:
        shocks += input_term(A[:, n:], known, record.starts)
    h = np.empty((T, n))
    for start, stop in episodes(record.starts, T):
        shocks[start] = first @ rng.normal(size=n)
        h[start:stop] = driven_recurrence(own, (shocks[start:stop], np.eye(n)))
    parts = []
    for part, rows in zip(record.parts, record.partition.slices, strict=True):
        index = np.zeros(T, dtype=int) if part.is_constant else part.index
        values, vectors = np.linalg.eigh(part.patterns)
        roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        z = np.einsum("tij,tj->ti", part.patterns[index], h[:, rows])
        z += np.einsum("tij,tj->ti", roots[index], rng.normal(size=z.shape))
        parts.append(replace(part, z=z, const=None))
    return replace(record, parts=tuple(parts))
