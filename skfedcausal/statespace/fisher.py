"""Fisher information of chosen elements of (A, Q), assembled by products over frequencies."""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from .matrices import hermitian
from .tuning import TUNING

_COLUMNS = 32  # columns of the information matrix formed at a time
_ROWS = 4  # rows of it formed at a time from the free elements alone
_KEPT = 2**27  # bytes of columns against all elements that are kept; larger ones are formed row by row


class Evaluation(NamedTuple):
    """Value, up to a constant, and gradients of a log-likelihood per time step."""

    value: np.ndarray | float
    grad_A: np.ndarray  # (..., n, c) with respect to the elements of ``[A | B]``
    grad_Q: np.ndarray  # (..., n, n) with respect to the elements of (symmetric) Q


class SpectralInformation:
    """Fisher information of the elements of ``[A | B]`` and Q per time step, kept in factors.

    With ``U = Phi^-1``, ``H = Z^-1 Q``, ``W = H U`` and ``V = W H^H`` the information of elements (i, j)
    and (k, l) of A is ``mean Re [W_jk W_li + V_jl U_ki]``, that of (i, j) of A and (a, b) of Q is ``mean
    Re W_ja U_bi`` and that of (a, b) and (c, d) of Q is ``1/2 mean Re U_da U_bc``. Inputs are known: their
    rows of W are zero, and the spectrum S (..., n_frequencies, c, c) of the regressors as far as they follow
    from the inputs is added to V; None without inputs.
    """

    def __init__(self, U, H, S=None):
        self.U, self.H, self.S = U, H, S

    @cached_property
    def W(self):
        """``H U``, zero in the rows of inputs."""
        W = self.H @ self.U
        if self.S is None:
            return W
        rest = np.zeros((*W.shape[:-2], self.S.shape[-1] - W.shape[-2], W.shape[-1]), dtype=W.dtype)
        return np.concatenate([W, rest], axis=-2)

    @cached_property
    def V(self):
        """``W H^H``, with what follows from the inputs."""
        n = self.H.shape[-2]
        W = self.W[..., :n, :]
        own = np.empty(W.shape, dtype=W.dtype)
        for k in range(0, W.shape[-3], TUNING.fisher_at_once):  # the conjugates of all frequencies are as much again
            some = (..., slice(k, k + TUNING.fisher_at_once), slice(None), slice(None))
            np.matmul(W[some], hermitian(self.H[some]), out=own[some])
        if self.S is None:
            return own
        V = self.S.copy()
        V[..., :n, :n] += own
        return V

    def forget_products(self):
        """Give back the memory of W and V, which are formed again when they are asked for."""
        self.__dict__.pop("W", None)
        self.__dict__.pop("V", None)


class FreeElements:
    """The free elements (rows, cols) of a transition matrix and (first, second) of a symmetric Q."""

    def __init__(self, rows, cols, first, second):
        self.rows, self.cols, self.first, self.second = rows, cols, first, second
        self.n_transition, self.n_elements = len(rows), len(rows) + len(first)
        self.half_on_diagonal = np.where(first == second, 0.5, 1.0)  # the others stand for two

    @classmethod
    def from_masks(cls, transition, covariance):
        """The elements at which boolean masks over A and over Q are set."""
        return cls(*np.nonzero(transition), *np.nonzero(np.tril(covariance)))

    def gather(self, A, Q):
        """The free elements of given matrices, A first."""
        return np.concatenate([A[self.rows, self.cols], Q[self.first, self.second]])

    def gradient(self, grad_A, grad_Q):
        """Derivatives with respect to the free elements, A first."""
        covariance = 2 * self.half_on_diagonal * grad_Q[self.first, self.second]
        return np.concatenate([grad_A[self.rows, self.cols], covariance])

    def scatter(self, vector, shape):
        """Matrices A (of the given shape) and Q that hold `vector` at the free elements, zero elsewhere."""
        A, Q = np.zeros(shape), np.zeros((shape[0], shape[0]))
        A[self.rows, self.cols] = vector[: self.n_transition]
        Q[self.first, self.second] = vector[self.n_transition :]
        Q[self.second, self.first] = vector[self.n_transition :]
        return A, Q

    def positions(self, shape):
        """Number among the free elements of each element of A (of the given shape) and of Q, flat.

        -1 for those that are not free, and for one more at the end.
        """
        n, width = shape
        transition, covariance = np.full(n * width + 1, -1), np.full(n * n + 1, -1)
        transition[self.rows * width + self.cols] = np.arange(self.n_transition)
        numbers = np.arange(self.n_transition, self.n_elements)
        covariance[self.first * n + self.second] = covariance[self.second * n + self.first] = numbers
        return transition, covariance


def _factors_of(info):
    """W, V and U of a :class:`SpectralInformation` by column, real, as products of a left and a right one need them.

    A product Re(x y) over frequencies is one real product if one factor has its sign flipped; the right factors carry
    the mean over frequencies. Each has the shape (n_columns, 2 n_frequencies, n_rows).
    """
    left = [_by_column(x, -1.0) for x in (info.W, info.V, info.U)]
    right = [_by_column(np.swapaxes(x, -1, -2)) for x in (info.W, info.U)]
    for factor in right:
        factor /= len(info.U)
    info.forget_products()
    return *left, *right


class InformationColumns:
    """Columns of the information matrix of one plant, one per free element.

    Columns against all elements are kept, or formed anew each time where they are large, unless `is_piece` says that
    the elements are a few of a plant's, whose `factors` are known.
    """

    def __init__(self, info, free, factors=None, *, is_piece=False):
        self.info, self._free = info, free
        self._factors = _factors_of(info) if factors is None else factors
        self._W_left, self._V_left, self._U_left, self._W_right, self._U_right = self._factors
        n, row_bytes = len(self._U_right), free.n_elements * self._W_left.shape[2] * 8
        self.n_bytes = n * row_bytes
        self.is_large = self.n_bytes > _KEPT and not is_piece
        most = _KEPT // 2 if self.is_large else TUNING.fisher_tested
        self.rows_at_once = min(max(most // max(row_bytes, 1), 1), n)
        self._all_transition = self._all_covariance = self._own_covariance = None

    def transition(self, rows=slice(None)):
        """Against the elements in a slice of rows of ``[A | B]``, shape (n_free, n_rows, c)."""
        if self._all_transition is not None:
            return self._all_transition[:, rows]
        kept = slice(None) if not self.is_large else rows
        free, split, n = self._free, self._free.n_transition, len(self._U_left)
        W_right, U_right = (np.ascontiguousarray(x[..., kept]) for x in (self._W_right, self._U_right))
        columns = np.empty((free.n_elements, W_right.shape[2], self._W_left.shape[2]))
        of_states = free.cols < n
        for chosen, terms in ((of_states, 2), (~of_states, 1)):  # W is zero in the rows of the inputs
            i, j = free.rows[chosen], free.cols[chosen]
            _products(
                ((U_right, i), (W_right, j))[:terms],
                ((self._V_left, j), (self._W_left, i))[:terms],
                columns[:split],
                np.flatnonzero(chosen),
            )
        columns[split:, :, n:] = 0.0
        W_left = np.ascontiguousarray(self._W_left[..., :n])
        _products(
            ((U_right, free.second), (U_right, free.first)),
            ((W_left, free.first), (W_left, free.second)),
            columns[split:, :, :n],
        )
        columns[split:] *= free.half_on_diagonal[:, None, None]
        if self.is_large:
            return columns
        self._all_transition = columns
        return columns[:, rows]

    def covariance(self, rows=slice(None)):
        """Against the symmetric elements in a slice of rows of Q, shape (n_free, n_rows, n)."""
        free, split, n = self._free, self._free.n_transition, len(self._U_left)
        of_A = (self._W_right, free.cols), (self._U_left, free.rows)
        if not self.is_large:
            if self._all_covariance is None:
                half = np.empty((split, n, n))
                _products((of_A[0],), (of_A[1],), half)
                self._all_covariance = np.concatenate([_with_mirrored(half), self._of_covariances()])
            return self._all_covariance[:, rows]
        columns = np.empty((free.n_elements, len(range(n)[rows]), n))
        of_Q = (self._U_right, free.first), (self._U_left, free.second)
        for (right, left), out in ((of_A, columns[:split]), (of_Q, columns[split:])):
            transposed = [(np.ascontiguousarray(source[..., rows]), index) for source, index in (right, left)]
            _products(transposed, (left, right), out)
        columns[split:] *= free.half_on_diagonal[:, None, None]
        own = np.arange(n)[rows]
        columns[:, np.arange(len(own)), own] /= 2
        return columns

    def _of_covariances(self):
        """Free elements of Q against all symmetric elements of Q."""
        if self._own_covariance is None:
            free, n = self._free, len(self._U_left)
            half = np.empty((len(free.first), n, n))
            _products(((self._U_right, free.first),), ((self._U_left, free.second),), half)
            self._own_covariance = _with_mirrored(half) * free.half_on_diagonal[:, None, None]
        return self._own_covariance

    def square(self):
        """Information matrix of the free elements, shape (n_free, n_free)."""
        free, split = self._free, self._free.n_transition
        matrix = np.empty((free.n_elements, free.n_elements))
        if self.is_large:
            matrix[:, :split] = self.transition_at(free.rows, free.cols)
            matrix[split:, split:] = self.covariance_at(free.first, free.second)[split:]
        else:  # several times faster than an index for every axis
            for x, i, j, out in (
                (self.transition(), free.rows, free.cols, matrix[:, :split]),
                (self._of_covariances(), free.first, free.second, matrix[split:, split:]),
            ):
                flat = x.reshape(len(x), x.shape[1] * x.shape[2])
                out[:] = np.take(flat, i * x.shape[2] + j, axis=1, mode="clip")
        matrix[:split, split:] = matrix[split:, :split].T
        return matrix

    def transition_at(self, rows, cols):
        """Against chosen elements of A alone, shape (n_free, n_chosen)."""
        free, W, U = self._free, self._W_right, self._U_right
        V_left, W_left, split = self._V_left, self._W_left, free.n_transition
        columns = np.empty((free.n_elements, len(rows)))
        of_A = (W, free.cols, rows, W_left, free.rows, cols), (U, free.rows, rows, V_left, free.cols, cols)
        _pairwise(of_A, columns[:split])
        first, second = free.first, free.second
        of_Q = (U, second, rows, W_left, first, cols), (U, first, rows, W_left, second, cols)
        _pairwise(of_Q, columns[split:])
        columns[split:] *= free.half_on_diagonal[:, None]
        return columns

    def covariance_at(self, first, second):
        """Against chosen symmetric elements of Q alone, shape (n_free, n_chosen)."""
        free, U, split = self._free, self._U_left, self._free.n_transition
        columns = np.empty((free.n_elements, len(first)))
        for x, r, s, out in (
            (self._W_right, free.cols, free.rows, columns[:split]),
            (self._U_right, free.first, free.second, columns[split:]),
        ):
            _pairwise(((x, r, first, U, s, second), (x, r, second, U, s, first)), out)
        columns[split:] *= free.half_on_diagonal[:, None]
        columns[:, first == second] /= 2
        return columns

    def pieces(self):
        """The columns of a few free elements at a time: pairs of a slice of them and their columns."""
        free, split = self._free, self._free.n_transition
        for begin, end in ((0, split), (split, free.n_elements)):
            for start in range(begin, end, _COLUMNS):
                chosen = slice(start, min(start + _COLUMNS, end))
                of_A = slice(chosen.start, min(chosen.stop, split))
                of_Q = slice(max(chosen.start - split, 0), max(chosen.stop - split, 0))
                few = FreeElements(free.rows[of_A], free.cols[of_A], free.first[of_Q], free.second[of_Q])
                yield chosen, InformationColumns(self.info, few, self._factors, is_piece=True)


def _by_column(x, sign=1.0):
    """Real and imaginary parts stacked over frequencies, one column first: (n_cols, 2 n_freq, n_rows)."""
    n_frequencies, n_rows, n_columns = x.shape
    out = np.empty((n_columns, 2 * n_frequencies, n_rows))
    out[:, :n_frequencies] = np.moveaxis(x.real, -1, 0)
    np.multiply(np.moveaxis(x.imag, -1, 0), sign, out=out[:, n_frequencies:])
    return out


def _products(right, left, out, places=None):
    """``Re sum_wk right_k' left_k`` for every column, in chunks that stay in cache.

    Factors are pairs (source, index): the terms k, of which column c takes ``source[index[c]]``. They are
    written to `places` of `out`, None for all.
    """
    n_columns = len(right[0][1])
    shapes = [(len(factors) * factors[0][0].shape[1], factors[0][0].shape[2]) for factors in (right, left)]
    at_once = min(_COLUMNS, n_columns, max(TUNING.fisher_cached // (8 * sum(depth * n for depth, n in shapes)), 1))
    buffers = [np.empty((at_once, *shape)) for shape in shapes]
    for start in range(0, n_columns, max(at_once, 1)):
        size = min(at_once, n_columns - start)
        for buffer, factors in zip(buffers, (right, left), strict=True):
            for term, (source, index) in enumerate(factors):
                depth = source.shape[1]
                rows = buffer[:size, term * depth : (term + 1) * depth]
                np.take(source, index[start : start + size], axis=0, out=rows, mode="clip")
        turned, lefts = np.swapaxes(buffers[0][:size], 1, 2), buffers[1][:size]
        if places is None:
            np.matmul(turned, lefts, out=out[start : start + size])
        else:
            out[places[start : start + size]] = turned @ lefts


def _with_mirrored(half):
    """Sums of square matrices and their transposes, but for the diagonals."""
    columns = half + np.swapaxes(half, 1, 2)
    diagonal = np.arange(half.shape[1])
    columns[:, diagonal, diagonal] /= 2
    return columns


def _pairwise(terms, out):
    """Terms ``Re sum_w x[r, w, k] y[s, w, m]`` of every row (r, s) of `out` and column (k, m), summed."""
    out[:] = 0.0
    for start in range(0, len(out), _ROWS):
        rows = slice(start, start + _ROWS)
        for x, r, k, y, s, m in terms:
            left, right = np.take(x[r[rows]], k, axis=2), np.take(y[s[rows]], m, axis=2)
            out[rows] += np.einsum("fwg,fwg->fg", left, right)
