"""Small linear algebra, and blocks of matrices by the units that states and inputs belong to."""

import os
import time
from collections import OrderedDict
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache, cached_property, wraps
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import zpotrf, zpotri
from scipy.sparse import csr_array
from threadpoolctl import ThreadpoolController

from .tuning import TUNING

# Small linear algebra: covariances kept positive, transitions stable, threads few, memory kept, time bounded.

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
    inverses = np.empty_like(matrices).reshape(-1, n, n)
    diagonals = np.empty(inverses.shape[:2])
    for matrix, out, diagonal in zip(matrices.reshape(-1, n, n), inverses, diagonals, strict=True):
        root, is_indefinite = zpotrf(matrix.T)  # a row of C is a column of Fortran
        if is_indefinite:
            return np.linalg.inv(matrices), np.linalg.slogdet(matrices)[1]
        diagonal[:] = root.diagonal().real
        out[:] = zpotri(root, overwrite_c=True)[0].T
    whole = np.where(np.tri(n, dtype=bool), inverses, hermitian(inverses))
    return whole.reshape(matrices.shape), 2 * np.log(diagonals).sum(axis=1).reshape(matrices.shape[:-2])


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


# Which states and inputs belong to which unit; blocks of the plant matrices and their information by pairs.
#
# The matrix of coefficients is ``[A | B]``: the transition matrix of the plant with the input matrix appended,
# shape (n_states, n_regressors). Without inputs it is A. Steps (shifts of a level at known times) have columns
# behind those of the inputs. Elements of a block (effect m, cause n) are ordered row by row; blocks of unequal
# size are padded to the size of the largest.

_PAIRS = 64  # whose spectra are multiplied at a time


class PairFamily(NamedTuple):
    """Blocks of ``[A | B]`` by pairs: of a unit and one that has inputs, or of a unit and a step."""

    pairs: np.ndarray  # (n_pairs, 2): (effect, cause) or (unit, step)
    pair_elements: np.ndarray  # (n_pairs, e): flat index into ``[A | B]``, ``n_elements`` where padded
    pair_dof: np.ndarray  # (n_pairs,)
    n_elements: int  # of ``[A | B]``


class Partition:
    """Division of the plant's states and inputs into units; itself the family of off-diagonal blocks of A.

    `sizes` and `input_sizes` are the numbers of states and of inputs of each unit, in the order of the plant
    matrices.
    """

    def __init__(self, sizes, input_sizes=(), n_steps=0):
        self.sizes, self.input_sizes = tuple(sizes), tuple(input_sizes) or (0,) * len(sizes)
        self.n_steps = n_steps
        self.n_units, self.n_states, self.n_inputs = len(sizes), int(sum(sizes)), int(sum(input_sizes))
        self.n_known = self.n_inputs + n_steps  # regressors that are no states
        self.n_regressors = self.n_states + self.n_known
        self.n_elements = self.n_states * self.n_regressors  # of ``[A | B]``
        self.slices = slices_of(sizes)
        self.input_slices = slices_of(self.input_sizes)
        n, sizes, units = self.n_states, np.asarray(sizes), np.arange(self.n_units)
        self.unit_of_state = np.repeat(units, sizes)
        self.unit_of_input = np.repeat(units, self.input_sizes)
        self.groups = {int(p): np.flatnonzero(sizes == p) for p in np.unique(sizes)}  # units by size
        place = np.arange(max(sizes))
        first = np.array([rows.start for rows in self.slices])[:, None]
        self.padded = np.where(place < sizes[:, None], first + place, n)  # states of each unit, (n_units, p)
        self.without_inputs = self if self.n_regressors == n else Partition(self.sizes)

    @cached_property
    def block_diagonal(self):
        """Elements of the plant matrix of units with themselves."""
        return self.unit_of_state[:, None] == self.unit_of_state

    @cached_property
    def pairs(self):
        """All ordered pairs (effect, cause), shape (n_pairs, 2): as many as the square of the plant."""
        return np.argwhere(~np.eye(self.n_units, dtype=bool))

    @cached_property
    def reverse_pairs(self):
        """Number of the pair (n, m) of each pair (m, n)."""
        effect, cause = self.pairs.T
        number = np.empty((self.n_units, self.n_units), dtype=int)
        number[effect, cause] = np.arange(len(effect))
        return number[cause, effect]

    @cached_property
    def pair_dof(self):
        """Elements of each block, (n_pairs,)."""
        return np.asarray(self.sizes)[self.pairs].prod(axis=1)

    @cached_property
    def n_input_pairs(self):
        """Pairs of units of which the second one has inputs."""
        return int(np.count_nonzero(self.input_sizes)) * (self.n_units - 1)

    @cached_property
    def pair_elements(self):
        """Flat indices of the elements of each block in ``[A | B]``, ``n_elements`` where padded, (n_pairs, e)."""
        n, (effect, cause) = self.n_states, self.pairs.T
        rows, cols = self.padded[effect][:, :, None], self.padded[cause][:, None, :]
        index = np.where((rows < n) & (cols < n), rows * self.n_regressors + cols, self.n_elements)
        return index.reshape(len(effect), self.padded.shape[1] ** 2)

    @cached_property
    def input_pairs(self):
        """Pairs of units whose inputs may act on each other's states, a :class:`PairFamily`."""
        k = np.asarray(self.input_sizes)
        pairs = self.pairs[k[self.pairs[:, 1]] > 0]
        effect, cause = pairs.T
        place = np.arange(max(k.max(), 1))
        starts = np.array([inputs.start for inputs in self.input_slices])
        cols = np.where(place < k[cause][:, None], self.n_states + starts[cause][:, None] + place, -1)
        rows, cols = self.padded[effect][:, :, None], cols[:, None, :]
        real = (rows < self.n_states) & (cols >= 0)
        index = np.where(real, rows * self.n_regressors + cols, self.n_elements)
        index = index.reshape(len(pairs), self.padded.shape[1] * len(place))
        return PairFamily(pairs, index, np.asarray(self.sizes)[effect] * k[cause], self.n_elements)

    @cached_property
    def step_pairs(self):
        """Pairs (unit, step), step by step, with the unit's elements of that column."""
        step, unit = np.divmod(np.arange(self.n_steps * self.n_units), self.n_units)
        rows = self.padded[unit]
        index = rows * self.n_regressors + (self.n_states + self.n_inputs + step)[:, None]
        index = np.where(rows < self.n_states, index, self.n_elements)
        return PairFamily(np.column_stack([unit, step]), index, np.asarray(self.sizes)[unit], self.n_elements)

    def mask(self, pairs, units=False, *, of_inputs=False):
        """Mask over a plant matrix, or over B, of blocks of pairs (effect, cause) and of units' own ones."""
        blocks = np.zeros((self.n_units, self.n_units), dtype=bool)
        blocks[pairs[:, 0], pairs[:, 1]] = True
        np.fill_diagonal(blocks, units)
        return blocks[self.unit_of_state[:, None], self.unit_of_input if of_inputs else self.unit_of_state]

    def step_mask(self, chosen):
        """Boolean mask over the columns of the steps of chosen `step_pairs`."""
        return np.asarray(chosen).reshape(self.n_steps, self.n_units).T[self.unit_of_state]


def slices_of(sizes):
    """Consecutive slices of given sizes."""
    return tuple(slice(*ends) for ends in pairwise(np.cumsum([0, *sizes]).tolist()))


def positions_of(units, slices):
    """Positions within the slices of units, one unit after the other."""
    return np.concatenate([np.zeros(0, dtype=int), *(np.arange(slices[m].start, slices[m].stop) for m in units)])


def padded_blocks(x, partition):
    """Blocks of a square matrix (or stack), zero-padded: shape (..., n_units, p, n_units, p)."""
    states = partition.padded
    if len(partition.groups) > 1:
        widths = [(0, 0)] * (x.ndim - 2) + [(0, 1), (0, 1)]
        x = np.pad(x, widths)[..., states.ravel()[:, None], states.ravel()[None, :]]
    m, p = states.shape
    return x.reshape(*x.shape[:-2], m, p, m, p)


def diagonal_blocks(x, partition):
    """Blocks of every unit with itself, zero-padded: a stack of shape (f, n, n) as (n_units, f, p, p)."""
    units = np.arange(partition.n_units)
    return _blocks_of_pairs(x, partition, units, units)


def _blocks_of_pairs(x, partition, rows, cols):
    """Blocks of some pairs of units, zero-padded: a stack of shape (f, n, n) as (n_pairs, f, p, p)."""
    states = partition.padded
    is_there = states < x.shape[-1]
    at = np.where(is_there, states, 0)
    blocks = x[:, at[rows][:, :, None], at[cols][:, None, :]]
    blocks[:, ~(is_there[rows][:, :, None] & is_there[cols][:, None, :])] = 0.0
    return np.ascontiguousarray(np.moveaxis(blocks, 1, 0))


def pair_blocks(matrix, partition):
    """Off-diagonal blocks as rows, shape (n_pairs, p * p), zero where padded."""
    blocks = padded_blocks(matrix, partition)
    effect, cause = partition.pairs.T
    p = blocks.shape[-1]
    return np.moveaxis(blocks, -2, -3)[effect, cause].reshape(len(effect), p * p)


def coefficient_pair_information(info, partition, family):
    """Information of each block of a family of ``[A | B]`` with itself, shape (n_pairs, e, e).

    `family` is the partition, its `input_pairs` or its `step_pairs`. Padded elements get a unit on the
    diagonal, so that they change no solve and no statistic.
    """
    if family is not partition:
        return _elementwise_information(info, partition, family)
    n = partition.n_states
    U, V = (diagonal_blocks(x, partition) for x in (info.U, info.V[..., :n, :n]))
    own = _unit_products(U, V, partition.pairs)  # (pairs, k, i, j, l)
    return _with_cross(np.transpose(own, (0, 2, 3, 1, 4)), info.W[..., :n, :], "xfjk,xfli->xijkl", partition)


def _elementwise_information(info, partition, family):
    """Information of blocks of known regressors, whose rows of W are zero, given by their elements."""
    padded = family.pair_elements == family.n_elements
    rows, cols = np.divmod(np.where(padded, 0, family.pair_elements), partition.n_regressors)
    matrices = np.empty((*padded.shape, padded.shape[1]))
    for x, (i, j) in enumerate(zip(rows, cols, strict=True)):
        matrices[x] = (info.V[:, j[:, None], j] * info.U[:, i, i[:, None]]).real.mean(axis=0)
    matrices[padded[:, :, None] | padded[:, None, :]] = 0.0
    pair, element = np.nonzero(padded)
    matrices[pair, element, element] = 1.0
    return matrices


def covariance_pair_information(info, partition):
    """Information of each off-diagonal block of Q with itself, shape (n_pairs, e, e).

    A block and its transpose are one parameter.
    """
    own = diagonal_blocks(info.U, partition)
    own = _unit_products(own, own, partition.pairs)  # (pairs, c, c', d', d)
    return _with_cross(np.transpose(own, (0, 1, 4, 2, 3)), info.U, "xfda,xfbc->xcdab", partition)


def _with_cross(own, x, products, partition):
    """Information of blocks from products of units with themselves, and of x between units of each pair."""
    effect, cause = partition.pairs.T
    cross = np.empty(own.shape)
    for start in range(0, len(own), _PAIRS):  # the spectra of all pairs are many times what is kept of them
        some = slice(start, start + _PAIRS)
        blocks = _blocks_of_pairs(x, partition, cause[some], effect[some])
        cross[some] = np.einsum(products, blocks, blocks).real / len(x)
    e = own.shape[1] ** 2
    matrices = (own + cross).reshape(len(own), e, e)
    pair, element = np.nonzero(partition.pair_elements == partition.n_elements)
    matrices[pair, element, element] += 1.0
    return matrices


def uncoupled_pair_information(pairs, spectra, sizes, with_noise=True, products=None):
    """Information of the blocks A_mn, A_nm and Q_mn of pairs of units that nothing couples, (n_pairs, 3e, 3e).

    Of the links alone without noise, (n_pairs, 2e, 2e). `products` takes those of the columns of two units,
    (n_pairs, p * p, p * p), from what they have by frequency, where pairs are few of all.
    """
    terms = (  # of which two blocks, and axes (a, b, c, d) of x_m[a, b] y_n[c, d]
        (0, 0, "U", "V", (2, 3, 1, 4)),  # V_n[j, l] U_m[k, i]
        (1, 1, "V", "U", (4, 1, 3, 2)),  # V_m[j, l] U_n[k, i] for rows i of n
        (0, 1, "W", "W", (2, 3, 4, 1)),  # W_n[j, k] W_m[l, i], (k, l) of A_nm
        (2, 2, "U", "U", (1, 4, 2, 3)),  # U_m[c, c'] U_n[d', d]
        (0, 2, "U", "W", (2, 3, 1, 4)),  # W_n[j, d] U_m[c, i]
        (1, 2, "W", "U", (4, 1, 2, 3)),  # W_m[j, c] U_n[d, i]
    )
    k, p = len(pairs), spectra.U.shape[-1]
    e, of = p * p, 3 if with_noise else 2
    joint = np.empty((k, of, e, of, e))
    for first, second, x, y, axes in terms:
        if second >= of:
            continue
        product = _unit_products(getattr(spectra, x), getattr(spectra, y), pairs, products)
        block = np.transpose(product, (0, *axes)).reshape(k, e, e)
        joint[:, first, :, second, :] = block
        if first != second:
            joint[:, second, :, first, :] = np.swapaxes(block, 1, 2)
    joint = joint.reshape(k, of * e, of * e)
    real = np.arange(p) < np.asarray(sizes)[pairs][:, :, None]  # (pairs, 2, p)
    padded = ~(real[:, 0, :, None] & real[:, 1, None, :]).reshape(k, e)
    turned = ~(real[:, 1, :, None] & real[:, 0, None, :]).reshape(k, e)
    element = np.arange(of * e)
    joint[:, element, element] += np.hstack([padded, turned, padded][:of])
    return joint


def _unit_products(x, y, pairs, products=None):
    """``mean_w Re x_m[a, b] y_n[c, d]`` of pairs (m, n), shape (n_pairs, p, p, p, p).

    As one product of all units, unless `products` takes those of the pairs.
    """
    m, n_frequencies, p, _ = x.shape
    left = np.concatenate([x.real, -x.imag], axis=1).reshape(m, 2 * n_frequencies, p * p)
    right = np.concatenate([y.real, y.imag], axis=1).reshape(m, 2 * n_frequencies, p * p)
    if products is None:
        of_left = np.swapaxes(left, 1, 2).reshape(m * p * p, -1)
        of_right = np.swapaxes(right, 0, 1).reshape(-1, m * p * p)
        effect, cause = pairs.T
        found = (of_left @ of_right).reshape(m, p * p, m, p * p)[effect, :, cause]
    else:
        found = products(left, right, pairs)
    return (found / n_frequencies).reshape(len(pairs), p, p, p, p)
