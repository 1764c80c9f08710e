"""Fisher information of chosen elements of (A, Q), assembled by products over frequencies.

Formulas: :class:`~skfedcausal.statespace.whittle.SpectralInformation`. Elements of a block (effect m,
cause n) are ordered row by row; blocks of unequal size are padded to the size of the largest.
"""

from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np

_COLUMNS = 32  # columns of the information matrix formed at a time
_ROWS = 4  # rows of it formed at a time from the free elements alone
_KEPT = 2**27  # bytes of columns against all elements that are kept; larger ones are formed row by row


@dataclass(frozen=True)
class FreeElements:
    """The free elements of a transition matrix and of a symmetric process covariance.

    Attributes
    ----------
    rows, cols : ndarray of int, shape (n_transition,)
        Free elements of A.
    first, second : ndarray of int, shape (n_covariance,)
        Free elements of Q, ``first >= second``.
    """

    rows: np.ndarray
    cols: np.ndarray
    first: np.ndarray
    second: np.ndarray

    @classmethod
    def from_masks(cls, transition, covariance):
        """The elements at which boolean masks over A and over Q are set."""
        return cls(*np.nonzero(transition), *np.nonzero(np.tril(covariance)))

    @property
    def n_transition(self):
        """Number of free elements of A."""
        return len(self.rows)

    @property
    def n_elements(self):
        """Number of free elements."""
        return len(self.rows) + len(self.first)

    @cached_property
    def half_on_diagonal(self):
        """One half for the diagonal elements of Q, one for the others, which stand for two."""
        return np.where(self.first == self.second, 0.5, 1.0)

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


def _by_column(x, sign=1.0):
    """Real and imaginary parts stacked over frequencies, one column first: (n_cols, 2 n_freq, n_rows)."""
    return np.ascontiguousarray(np.moveaxis(np.concatenate([x.real, sign * x.imag]), -1, 0))


class InformationColumns:
    """Columns of the information matrix of one plant, one per free element.

    Parameters
    ----------
    info : SpectralInformation
    free : FreeElements
    """

    def __init__(self, info, free):
        self._free = free
        self._n_lagged = info.H.shape[-2]
        # a product Re(x y) over frequencies is one real product if one factor has its sign flipped
        self._W_left, self._V_left = _by_column(info.W, -1.0), _by_column(info.V, -1.0)
        self._U_left = _by_column(info.U, -1.0)
        # the right factors carry the mean over frequencies
        self._W_right = _by_column(np.swapaxes(info.W, -1, -2)) / len(info.U)
        self._U_right = _by_column(np.swapaxes(info.U, -1, -2)) / len(info.U)

    @cached_property
    def is_large(self):
        """Whether columns against all elements are too large to be kept."""
        n, c = self._U_right.shape[0], self._W_left.shape[2]
        return self._free.n_elements * n * c * 8 > _KEPT

    @property
    def rows_at_once(self):
        """Rows of the plant matrices whose columns are formed in one go."""
        n, c = self._U_right.shape[0], self._W_left.shape[2]
        return max(_KEPT // (2 * self._free.n_elements * c * 8), 1) if self.is_large else n

    @cached_property
    def transition(self):
        """Against all elements (i, j) of A, shape (n_free, n_rows, n_cols)."""
        return self._transition(slice(None))

    def transition_rows(self, rows):
        """Against the elements in a slice of rows of A, shape (n_free, len(rows), n_cols)."""
        return self._transition(rows) if self.is_large else self.transition[:, rows]

    def _transition(self, rows):
        free = self._free
        split = free.n_transition
        W_right, U_right = self._W_right[..., rows], self._U_right[..., rows]
        n_lagged = self._n_lagged
        columns = np.empty((free.n_elements, W_right.shape[2], self._W_left.shape[2]))
        of_states = free.cols < n_lagged
        for chosen, terms in ((of_states, 2), (~of_states, 1)):  # W is zero in the rows of the inputs
            rows, cols = free.rows[chosen], free.cols[chosen]
            self._products(
                ((U_right, rows), (W_right, cols))[:terms],
                ((self._V_left, cols), (self._W_left, rows))[:terms],
                columns[:split],
                np.flatnonzero(chosen),
            )
        columns[split:, :, n_lagged:] = 0.0
        W_left = self._W_left[..., :n_lagged]
        self._products(
            ((U_right, free.second), (U_right, free.first)),
            ((W_left, free.first), (W_left, free.second)),
            columns[split:, :, :n_lagged],
        )
        columns[split:] *= free.half_on_diagonal[:, None, None]
        return columns

    @cached_property
    def covariance(self):
        """Against all symmetric elements (a, b) of Q, shape (n_free, n, n)."""
        free = self._free
        of_transitions = self._symmetric(((self._W_right, free.cols),), ((self._U_left, free.rows),))
        return np.concatenate([of_transitions, self._of_covariances])

    def covariance_rows(self, rows):
        """Against the elements in a slice of rows of Q, shape (n_free, len(rows), n)."""
        if not self.is_large:
            return self.covariance[:, rows]
        free = self._free
        split = free.n_transition
        n = self._U_left.shape[0]
        columns = np.empty((free.n_elements, len(range(n)[rows]), n))
        for right, left, out in (
            ((self._W_right, free.cols), (self._U_left, free.rows), columns[:split]),
            ((self._U_right, free.first), (self._U_left, free.second), columns[split:]),
        ):
            transposed = [(source[..., rows], index) for source, index in (right, left)]
            self._products(transposed, (left, right), out)
        columns[split:] *= free.half_on_diagonal[:, None, None]
        own = np.arange(n)[rows]
        columns[:, np.arange(len(own)), own] /= 2
        return columns

    @cached_property
    def _of_covariances(self):
        """Free elements of Q against all symmetric elements of Q."""
        free = self._free
        columns = self._symmetric(((self._U_right, free.first),), ((self._U_left, free.second),))
        columns *= free.half_on_diagonal[:, None, None]
        return columns

    def _symmetric(self, right, left):
        n = self._U_left.shape[0]
        half = np.empty((len(right[0][1]), n, n))
        self._products(right, left, half)
        columns = half + np.swapaxes(half, 1, 2)
        diagonal = np.arange(n)
        columns[:, diagonal, diagonal] /= 2
        return columns

    def _products(self, right, left, out, places=None):
        """``Re sum_wk right_k' left_k`` for every column, in chunks that stay in cache.

        Columns go to the `places` in `out`, one after the other by default.
        """
        n_columns = len(right[0][1])
        width = min(_COLUMNS, n_columns)
        rights, lefts = (_workspace(factors, width) for factors in (right, left))
        for start in range(0, n_columns, _COLUMNS):
            stop = min(n_columns, start + _COLUMNS)
            for buffer, factors in ((rights, right), (lefts, left)):
                _take(factors, start, stop, buffer)
            size = stop - start
            turned = np.swapaxes(rights[:size], 1, 2)
            if places is None:
                np.matmul(turned, lefts[:size], out=out[start:stop])
            else:
                out[places[start:stop]] = turned @ lefts[:size]

    def square(self):
        """Information matrix of the free elements, shape (n_free, n_free)."""
        free = self._free
        split = free.n_transition
        matrix = np.empty((free.n_elements, free.n_elements))
        if self.is_large:
            matrix[:, :split] = self.transition_at(free.rows, free.cols)
            matrix[split:, split:] = self.covariance_at(free.first, free.second)[split:]
        else:
            matrix[:, :split] = chosen_elements(self.transition, free.rows, free.cols)
            matrix[split:, split:] = chosen_elements(self._of_covariances, free.first, free.second)
        matrix[:split, split:] = matrix[split:, :split].T
        return matrix

    def transition_at(self, rows, cols):
        """Against chosen elements of A alone, shape (n_free, n_chosen)."""
        free, W, U = self._free, self._W_right, self._U_right
        split = free.n_transition
        columns = np.empty((free.n_elements, len(rows)))
        self._pairwise(
            (
                (W, free.cols, rows, self._W_left, free.rows, cols),
                (U, free.rows, rows, self._V_left, free.cols, cols),
            ),
            columns[:split],
        )
        self._pairwise(
            (
                (U, free.second, rows, self._W_left, free.first, cols),
                (U, free.first, rows, self._W_left, free.second, cols),
            ),
            columns[split:],
        )
        columns[split:] *= free.half_on_diagonal[:, None]
        return columns

    def covariance_at(self, first, second):
        """Against chosen symmetric elements of Q alone, shape (n_free, n_chosen)."""
        free, U = self._free, self._U_left
        split = free.n_transition
        columns = np.empty((free.n_elements, len(first)))
        for x, r, s, out in (
            (self._W_right, free.cols, free.rows, columns[:split]),
            (self._U_right, free.first, free.second, columns[split:]),
        ):
            self._pairwise(((x, r, first, U, s, second), (x, r, second, U, s, first)), out)
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
                piece = copy(self)
                piece.__dict__.pop("is_large", None)
                piece._free = FreeElements(
                    free.rows[of_A], free.cols[of_A], free.first[of_Q], free.second[of_Q]
                )
                yield chosen, piece

    def _pairwise(self, terms, out):
        """Terms ``Re sum_w x[r, w, k] y[s, w, m]`` of every row (r, s) of `out` and column (k, m), summed."""
        out[:] = 0.0
        for start in range(0, len(out), _ROWS):
            rows = slice(start, start + _ROWS)
            for x, r, k, y, s, m in terms:
                left, right = np.take(x[r[rows]], k, axis=2), np.take(y[s[rows]], m, axis=2)
                out[rows] += np.einsum("fwg,fwg->fg", left, right)


def chosen_elements(matrices, rows, cols):
    """``matrices[:, rows, cols]``, several times faster."""
    n_rows, width = matrices.shape[1:]
    return np.take(matrices.reshape(len(matrices), n_rows * width), rows * width + cols, axis=1, mode="clip")


def _workspace(factors, width):
    depth, n = factors[0][0].shape[1:]
    return np.empty((width, len(factors) * depth, n))


def _take(factors, start, stop, buffer):
    """Write the factors of columns `start` to `stop` into `buffer`, terms below each other."""
    for term, (source, index) in enumerate(factors):
        depth = source.shape[1]
        rows = buffer[: stop - start, term * depth : (term + 1) * depth]
        np.take(source, index[start:stop], axis=0, out=rows, mode="clip")
