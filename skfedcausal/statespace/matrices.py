"""Small linear algebra: covariances kept positive, transitions stable, threads few, memory kept, time bounded."""

import os
import time
from collections import OrderedDict
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache, wraps

import numpy as np
from scipy.linalg.lapack import zpotrf, zpotri
from scipy.sparse import csr_array
from threadpoolctl import ThreadpoolController

from .tuning import TUNING

_MANY = 256  # columns of matrices from which more than one thread pays
_SAID = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")  # the first one to all
_END: ContextVar[float | None] = ContextVar("end", default=None)  # of what may take a limited time
_controller = cache(ThreadpoolController)  # looking for libraries takes as long as a small fit


def _has_one_thread():
    """Whether the environment gives BLAS one thread, as that of processes that joblib starts."""
    return os.environ.get(_SAID[0]) == "1" and all(os.environ.get(name, "1") == "1" for name in _SAID)


def few_threads(n_columns):
    """One thread while matrices of few columns are worked on, as a context manager.

    Several threads gain next to nothing there, and where other work keeps the cores busy they wait for each
    other many times as long as the work takes.
    """
    if n_columns >= _MANY or _has_one_thread():
        return nullcontext()
    return _controller().limit(limits=1, user_api="blas")


@cache
def keep_freed_memory():
    """Let the allocator keep the memory of arrays for the next ones, as after any fit of a larger plant.

    glibc gives what is freed back to the system from a size on that it learns from the arrays it has seen, and every
    page that comes again is filled with zeros first: up to a tenth of a small fit. An array of the largest size that
    it learns from, which is never written to, costs nothing.
    """
    np.empty(TUNING.matrices_largest_kept, dtype=np.uint8)


class TimeUpError(RuntimeError):
    """A computation took longer than it was given."""


@contextmanager
def time_limit(seconds):
    """Let what is computed meanwhile end with a :class:`TimeUpError` after so many seconds; None for no limit."""
    token = _END.set(None if seconds is None else time.monotonic() + seconds)
    try:
        yield
    finally:
        _END.reset(token)


def check_time():
    """End the computation if its time is up; called where a long one comes by again and again."""
    end = _END.get()
    if end is not None and time.monotonic() > end:
        raise TimeUpError("the time that it was given is up")


def remembered(function, n_kept=32, most=16):
    """The function, which knows what it answered about small matrices last: a filter is called with the same again.

    What it gives must not be written to. Matrices count as the same if they have the same bits in the same order.
    """
    known: OrderedDict = OrderedDict()

    @wraps(function)
    def answered(*arguments, **settings):
        values = *arguments, *settings.values()
        arrays = [x for x in values if isinstance(x, np.ndarray)]
        if any(x.ndim != 2 or x.shape[1] > most for x in arrays):
            return function(*arguments, **settings)
        key = *settings, *((x.tobytes(), x.shape, x.strides) if isinstance(x, np.ndarray) else x for x in values)
        found = known.get(key)
        if found is None:
            found = known[key] = function(*arguments, **settings)
            while len(known) > n_kept:
                known.popitem(last=False)
        return found

    return answered


def hermitian(x):
    """Conjugate transpose of a matrix or of each matrix in a stack. `x` is (..., n, m)."""
    return np.conj(np.swapaxes(x, -1, -2))


def definite_inverses(matrices):
    """Inverses and log-determinants of complex Hermitian matrices (..., n, n) that should be positive definite."""
    n = matrices.shape[-1]
    if n < TUNING.matrices_wide or not matrices.size:
        return np.linalg.inv(matrices), np.linalg.slogdet(matrices)[1]
    inverses, logs = np.empty_like(matrices).reshape(-1, n, n), []
    for matrix, out in zip(matrices.reshape(-1, n, n), inverses, strict=True):
        root, is_indefinite = zpotrf(matrix.T)  # a row of C is a column of Fortran
        if is_indefinite:
            return np.linalg.inv(matrices), np.linalg.slogdet(matrices)[1]
        logs.append(2 * np.log(root.diagonal().real).sum())
        out[:] = zpotri(root, overwrite_c=True)[0].T
    whole = np.where(np.tri(n, dtype=bool), inverses, hermitian(inverses))
    return whole.reshape(matrices.shape), np.reshape(logs, matrices.shape[:-2])


def sparse_diagonal(x):
    """Sparse matrix with these numbers on its diagonal (scipy has one from 1.12 on)."""
    place = np.arange(len(x))
    return csr_array((x, (place, place)), shape=(len(x), len(x)))


def spectral_radius(A):
    """Largest absolute eigenvalue of a matrix, or of each matrix in a stack."""
    return np.abs(np.linalg.eigvals(A)).max(axis=-1)


def cap_radius(A, radius):
    """Transition matrices scaled down to at most the given spectral radius. A is (..., n, n)."""
    scale = np.minimum(1.0, radius / np.maximum(spectral_radius(A), 1e-300))
    return A * scale[..., None, None]


def companion(A, n_lags):
    """Transition matrix of the states of several lags side by side, from ``[A_1 | A_2 | ...]``.

    A is (n, n * n_lags).
    """
    n = len(A)
    return np.vstack([A, np.eye(n * (n_lags - 1), n * n_lags)])


def floor_eigenvalues(S, floor):
    """Symmetric matrices with eigenvalues raised to at least `floor` (scalar or one per matrix). S is (..., n, n)."""
    values, vectors = np.linalg.eigh((S + np.swapaxes(S, -1, -2)) / 2)
    values = np.maximum(values, np.asarray(floor)[..., None])
    return (vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2)


def absolute_values(matrices, floor=1e-9):
    """Symmetric matrices with the absolute values of their eigenvalues, at least `floor` times the largest.

    A matrix whose eigenvalues stay as they are comes back untouched: where a factor exists of what is left when the
    floor is taken off, with a trace that no eigenvalue is above, nobody has to know them.
    """
    least = 2 * floor * np.trace(matrices, axis1=-2, axis2=-1)[..., None, None]  # twice: for rounding
    try:
        np.linalg.cholesky(matrices - least * np.eye(matrices.shape[-1]))
    except np.linalg.LinAlgError:
        pass
    else:
        return matrices
    values, vectors = np.linalg.eigh(matrices)
    absolute = np.maximum(np.abs(values), floor * np.abs(values).max(axis=-1, keepdims=True))
    changed = (absolute != values).any(axis=-1)[..., None, None]
    return np.where(changed, (vectors * absolute[..., None, :]) @ np.swapaxes(vectors, -1, -2), matrices)


def covariance_root(S):
    """L with ``L L' = S``: the Cholesky factor, :func:`eigen_root` where a covariance is singular. S is (n, n)."""
    try:
        return np.linalg.cholesky(S)
    except np.linalg.LinAlgError:
        return eigen_root(S)


def eigen_root(S):
    """L with ``L L' = S`` of symmetric matrices: eigenvectors, each as long as the deviation along it.

    S is (..., n, n).
    """
    values, vectors = np.linalg.eigh(S)
    return vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]


def symmetric_root(S):
    """The symmetric square root of a covariance: the same whichever signs and axes a library gives eigenvectors."""
    values, vectors = np.linalg.eigh(S)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def symmetric_basis(p):
    """Basis of the symmetric p x p matrices, shape (p (p + 1) / 2, p, p)."""
    rows, cols = np.tril_indices(p)
    basis = np.zeros((len(rows), p, p))
    basis[np.arange(len(rows)), rows, cols] = 1.0
    basis[np.arange(len(rows)), cols, rows] = 1.0
    return basis


_SMALLEST = np.finfo(float).tiny
_LARGEST = 4 * (1 + TUNING.matrices_rounding)  # variance in units between half and one standard deviation


def power_of_two(values):
    """Largest powers of two not above positive values; 1 in place of zeros."""
    values = np.asarray(values, dtype=float)
    return np.ldexp(1.0, np.frexp(np.where(values > 0, values, 1.0))[1] - 1)


def without_last_bits(S, scale):
    """Covariances without their last bits, which depend on the order in which machines add.

    S is (..., n, n), `scale` (n,).
    """
    unit = power_of_two(np.outer(scale, scale)) * TUNING.matrices_last_bit
    return np.rint(S / unit) * unit


def scaled_columns(series, dtype):
    """Series in the given precision, and the scale of each column that gives back its size.

    `series` is (n_samples, n), the scale (n,).
    """
    top = np.abs(series).max(axis=0, initial=0.0)
    scale = np.maximum(power_of_two(top) / TUNING.matrices_top, _SMALLEST)
    return np.ascontiguousarray((series / scale).astype(dtype)), scale


def whitened_columns(z, J, dtype):
    """Information vectors in the given precision as ``J^-1/2 z``, and the matrix that undoes it.

    In this form the measurement noise is one in every direction, whatever the units of the states, so that
    rounding costs every direction the same share of its noise. Directions that `J` does not see are dropped.

    `z` is (n_samples, n), J (n, n).
    """
    units = state_units(J[None])
    values, vectors = np.linalg.eigh(J / units[:, None] / units)
    seen = values > TUNING.matrices_unseen * max(values[-1], 0.0)
    root = np.sqrt(np.where(seen, values, 1.0))
    rounded, scale = scaled_columns((z / units) @ vectors / root * seen, dtype)
    return rounded, (vectors * (root * scale * seen)).T * units


def state_units(matrices):
    """Power of two near the largest standard deviation of each variable over a stack of matrices.

    `matrices` is (k, n, n), the powers (n,).
    """
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
    """Whether all matrices of a stack are symmetric and positive semidefinite, but for rounding.

    `matrices` is (k, n, n).
    """
    units = state_units(matrices)
    with np.errstate(over="ignore"):
        scaled = matrices / units[:, None] / units
        largest = np.abs(scaled).max(initial=0.0)
    if largest > _LARGEST or np.abs(scaled - scaled.swapaxes(1, 2)).max(initial=0.0) > TUNING.matrices_rounding:
        return False
    try:
        np.linalg.cholesky(scaled + len(units) * TUNING.matrices_rounding * np.eye(len(units)))
    except np.linalg.LinAlgError:
        return False
    return True


def are_heavy(white):
    """Whether the kurtosis of a column of independent rows is far beyond that of Gaussian ones.

    `white` is (n_samples, n).
    """
    if len(white) < TUNING.matrices_few_rows:
        return False
    squares = white**2
    limit = 3 + TUNING.matrices_kurtosis * np.sqrt(24 / len(white))
    return bool(((squares**2).mean(axis=0) > limit * squares.mean(axis=0) ** 2).any())
