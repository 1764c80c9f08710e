"""Series and small symmetric matrices in the form in which they travel, rounded without loss of scale.

All scales are powers of two, so that scaling itself rounds nothing.
"""

from functools import cache

import numpy as np

_LAST_BIT = 2.0**-30
_TOP = 2.0**13  # scaled series reach 2**13 to 2**14; the largest half-precision number is 65504
_SMALLEST = np.finfo(float).tiny
_UNSEEN = 1e-12  # share of the largest information below which a direction counts as unseen
_ROUNDING = 1e-6  # share of the variances by which rounding may make a matrix indefinite or asymmetric
_LARGEST = 4 * (1 + _ROUNDING)  # variance in units between half and one standard deviation


def power_of_two(values):
    """Largest powers of two not above positive values; 1 in place of zeros."""
    values = np.asarray(values, dtype=float)
    return np.ldexp(1.0, np.frexp(np.where(values > 0, values, 1.0))[1] - 1)


def without_last_bits(S, scale):
    """Covariances without their last bits, which depend on the order in which machines add."""
    unit = power_of_two(np.outer(scale, scale)) * _LAST_BIT
    return np.rint(S / unit) * unit


def scaled_columns(series, dtype):
    """Series in the given precision, and the scale of each column that gives back its size."""
    top = np.abs(series).max(axis=0, initial=0.0)
    scale = np.maximum(power_of_two(top) / _TOP, _SMALLEST)
    return np.ascontiguousarray((series / scale).astype(dtype)), scale


def whitened_columns(z, J, dtype):
    """Information vectors in the given precision as ``J^-1/2 z``, and the matrix that undoes it.

    In this form the measurement noise is one in every direction, whatever the units of the states, so that
    rounding costs every direction the same share of its noise. Directions that `J` does not see are dropped.
    """
    units = state_units(J[None])
    values, vectors = np.linalg.eigh(J / units[:, None] / units)
    seen = values > _UNSEEN * max(values[-1], 0.0)
    root = np.sqrt(np.where(seen, values, 1.0))
    rounded, scale = scaled_columns((z / units) @ vectors / root * seen, dtype)
    return rounded, (vectors * (root * scale * seen)).T * units


def state_units(matrices):
    """Power of two near the largest standard deviation of each variable over a stack of matrices."""
    return power_of_two(np.sqrt(np.abs(np.einsum("kii->ki", matrices)).max(axis=0, initial=0.0)))


@cache
def _triangle(p):
    """Positions (rows, columns) of the lower triangle of a p x p matrix, and in the matrix row by row."""
    rows, cols = np.tril_indices(p)
    return rows, cols, rows * p + cols


def packed_triangles(matrices):
    """Lower triangles of symmetric matrices, shape (n_matrices, p (p + 1) / 2)."""
    k, p = matrices.shape[:2]
    return matrices.reshape(k, p * p).take(_triangle(p)[2], axis=1)


def packed_products(units):
    """Products of the units of both variables of each packed element."""
    rows, cols, _ = _triangle(len(units))
    return units[rows] * units[cols]


def unpacked_triangles(packed, p):
    """Symmetric p x p matrices from their lower triangles."""
    rows, cols, _ = _triangle(p)
    matrices = np.empty((len(packed), p, p))
    matrices[:, rows, cols] = packed
    matrices[:, cols, rows] = packed
    return matrices


def are_covariances(matrices):
    """Whether all matrices of a stack are symmetric and positive semidefinite, but for rounding."""
    units = state_units(matrices)
    with np.errstate(over="ignore"):
        scaled = matrices / units[:, None] / units
        largest = np.abs(scaled).max(initial=0.0)
    if largest > _LARGEST or np.abs(scaled - scaled.swapaxes(1, 2)).max(initial=0.0) > _ROUNDING:
        return False
    try:
        np.linalg.cholesky(scaled + len(units) * _ROUNDING * np.eye(len(units)))
    except np.linalg.LinAlgError:
        return False
    return True
