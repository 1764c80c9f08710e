"""Keeping matrices what they have to be: covariances positive definite, transitions stable."""

import numpy as np


def spectral_radius(A):
    """Largest absolute eigenvalue of a matrix, or of each matrix in a stack."""
    return np.abs(np.linalg.eigvals(A)).max(axis=-1)


def floor_eigenvalues(S, floor):
    """Symmetric matrices with eigenvalues raised to at least `floor` (scalar or one per matrix)."""
    values, vectors = np.linalg.eigh((S + np.swapaxes(S, -1, -2)) / 2)
    values = np.maximum(values, np.asarray(floor)[..., None])
    return (vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2)


def covariance_root(S):
    """L with ``L L' = S``: the Cholesky factor, :func:`eigen_root` where a covariance is singular."""
    try:
        return np.linalg.cholesky(S)
    except np.linalg.LinAlgError:
        return eigen_root(S)


def eigen_root(S):
    """L with ``L L' = S`` of symmetric matrices: their eigenvectors, each as long as the deviation along it.

    Eigenvalues below zero count as zero.
    """
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


def cap_radius(A, radius):
    """Transition matrices scaled down to at most the given spectral radius."""
    scale = np.minimum(1.0, radius / np.maximum(spectral_radius(A), 1e-300))
    return A * scale[..., None, None]


def absolute_values(matrices, floor=1e-9):
    """Symmetric matrices with the absolute values of their eigenvalues.

    The same where they are positive definite. Eigenvalues below `floor` of the largest are raised to it.
    """
    values, vectors = np.linalg.eigh(matrices)
    absolute = np.maximum(np.abs(values), floor * np.abs(values).max(axis=-1, keepdims=True))
    changed = (absolute != values).any(axis=-1)[..., None, None]
    return np.where(changed, (vectors * absolute[..., None, :]) @ np.swapaxes(vectors, -1, -2), matrices)


def companion(A, n_lags=1):
    """Transition matrix of the states of several lags side by side.

    Parameters
    ----------
    A : ndarray of shape (n, c)
        ``[A_1 | A_2 | ... | A_L]`` with what else there is behind it.
    n_lags : int, default=1

    Returns
    -------
    ndarray of shape (n * n_lags, n * n_lags)
    """
    n = len(A)
    own = A[:, : n * n_lags]
    if n_lags == 1:
        return own
    return np.vstack([own, np.eye(n * (n_lags - 1), n * n_lags)])
