"""Small linear algebra: covariances kept positive definite, transitions stable, threads few."""

from contextlib import nullcontext
from functools import cache

import numpy as np
from threadpoolctl import ThreadpoolController

_MANY = 256  # columns of matrices from which more than one thread pays
_controller = cache(ThreadpoolController)  # looking for libraries takes as long as a small fit


def few_threads(n_columns):
    """One thread while matrices of few columns are worked on, as a context manager.

    Several threads gain next to nothing there, and where other work keeps the cores busy they wait for each
    other many times as long as the work takes.
    """
    return nullcontext() if n_columns >= _MANY else _controller().limit(limits=1, user_api="blas")


def hermitian(x):
    """Conjugate transpose of a matrix or of each matrix in a stack."""
    return np.conj(np.swapaxes(x, -1, -2))


def spectral_radius(A):
    """Largest absolute eigenvalue of a matrix, or of each matrix in a stack."""
    return np.abs(np.linalg.eigvals(A)).max(axis=-1)


def cap_radius(A, radius):
    """Transition matrices scaled down to at most the given spectral radius."""
    scale = np.minimum(1.0, radius / np.maximum(spectral_radius(A), 1e-300))
    return A * scale[..., None, None]


def companion(A, n_lags=1):
    """Transition matrix of the states of several lags side by side, from ``[A_1 | A_2 | ...]``."""
    n = len(A)
    own = A[:, : n * n_lags]
    if n_lags == 1:
        return own
    return np.vstack([own, np.eye(n * (n_lags - 1), n * n_lags)])


def floor_eigenvalues(S, floor):
    """Symmetric matrices with eigenvalues raised to at least `floor` (scalar or one per matrix)."""
    values, vectors = np.linalg.eigh((S + np.swapaxes(S, -1, -2)) / 2)
    values = np.maximum(values, np.asarray(floor)[..., None])
    return (vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2)


def absolute_values(matrices, floor=1e-9):
    """Symmetric matrices with the absolute values of their eigenvalues, at least `floor` times the largest.

    A matrix whose eigenvalues stay as they are comes back untouched.
    """
    values, vectors = np.linalg.eigh(matrices)
    absolute = np.maximum(np.abs(values), floor * np.abs(values).max(axis=-1, keepdims=True))
    changed = (absolute != values).any(axis=-1)[..., None, None]
    return np.where(changed, (vectors * absolute[..., None, :]) @ np.swapaxes(vectors, -1, -2), matrices)


def covariance_root(S):
    """L with ``L L' = S``: the Cholesky factor, :func:`eigen_root` where a covariance is singular."""
    try:
        return np.linalg.cholesky(S)
    except np.linalg.LinAlgError:
        return eigen_root(S)


def eigen_root(S):
    """L with ``L L' = S`` of symmetric matrices: eigenvectors, each as long as the deviation along it."""
    values, vectors = np.linalg.eigh(S)
    return vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]


def symmetric_root(S):
    """The symmetric square root of a positive definite matrix."""
    values, vectors = np.linalg.eigh(S)
    return (vectors * np.sqrt(values)) @ vectors.T


def symmetric_basis(p):
    """Basis of the symmetric p x p matrices, shape (p (p + 1) / 2, p, p)."""
    rows, cols = np.tril_indices(p)
    basis = np.zeros((len(rows), p, p))
    basis[np.arange(len(rows)), rows, cols] = 1.0
    basis[np.arange(len(rows)), cols, rows] = 1.0
    return basis
