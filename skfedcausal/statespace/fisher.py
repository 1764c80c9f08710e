"""Fisher information of chosen elements of (A, Q), assembled by products over frequencies.

Formulas: :class:`~skfedcausal.statespace.whittle.SpectralInformation`. Elements of a block (effect m,
cause n) are ordered row by row; blocks of unequal size are padded to the size of the largest.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

_COLUMNS = 32  # columns of the information matrix formed at a time


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
        self._n_frequencies = info.U.shape[0]
        # a product Re(x y) over frequencies is one real product if one factor has its sign flipped
        self._W_left, self._V_left = _by_column(info.W, -1.0), _by_column(info.V, -1.0)
        self._U_left = _by_column(info.U, -1.0)
        self._W_right = _by_column(np.swapaxes(info.W, -1, -2))
        self._U_right = _by_column(np.swapaxes(info.U, -1, -2))

    @cached_property
    def transition(self):
        """Against all elements (i, j) of A, shape (n_free, n_rows, n_cols)."""
        free = self._free
        split = free.n_transition
        n, c = self._U_right.shape[0], self._W_left.shape[2]
        columns = np.empty((split + len(free.first), n, c))
        self._products(
            ((self._W_right, free.cols), (self._U_right, free.rows)),
            ((self._W_left, free.rows), (self._V_left, free.cols)),
            columns[:split],
        )
        self._products(
            ((self._U_right, free.second), (self._U_right, free.first)),
            ((self._W_left, free.first), (self._W_left, free.second)),
            columns[split:],
        )
        columns[split:] *= free.half_on_diagonal[:, None, None]
        return columns

    @cached_property
    def covariance(self):
        """Against all symmetric elements (a, b) of Q, shape (n_free, n, n)."""
        free = self._free
        of_transitions = self._symmetric(((self._W_right, free.cols),), ((self._U_left, free.rows),))
        return np.concatenate([of_transitions, self._of_covariances])

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

    def _products(self, right, left, out):
        """``mean_w Re sum_k right_k' left_k`` for every column, in chunks that stay in cache."""
        width = min(_COLUMNS, len(out))
        rights, lefts = (_workspace(factors, width) for factors in (right, left))
        for start in range(0, len(out), _COLUMNS):
            stop = min(len(out), start + _COLUMNS)
            for buffer, factors in ((rights, right), (lefts, left)):
                _take(factors, start, stop, buffer)
            size = stop - start
            np.matmul(np.swapaxes(rights[:size], 1, 2), lefts[:size], out=out[start:stop])
        out /= self._n_frequencies

    def square(self):
        """Information matrix of the free elements, shape (n_free, n_free)."""
        free = self._free
        split = free.n_transition
        matrix = np.empty((len(self.transition), len(self.transition)))
        matrix[:, :split] = self.transition[:, free.rows, free.cols]
        matrix[:split, split:] = matrix[split:, :split].T
        matrix[split:, split:] = self._of_covariances[:, free.first, free.second]
        return matrix


def _workspace(factors, width):
    depth, n = factors[0][0].shape[1:]
    return np.empty((width, len(factors) * depth, n))


def _take(factors, start, stop, buffer):
    """Write the factors of columns `start` to `stop` into `buffer`, terms below each other."""
    for term, (source, index) in enumerate(factors):
        depth = source.shape[1]
        rows = buffer[: stop - start, term * depth : (term + 1) * depth]
        np.take(source, index[start:stop], axis=0, out=rows, mode="clip")
