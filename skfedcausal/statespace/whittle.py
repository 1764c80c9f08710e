"""Whittle likelihood of plants and of units on their own, and the Fisher information of chosen elements."""

from copy import copy
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import fractional_matrix_power

from .episodes import TransitionMoments, episodes, lag_covariances
from .inputs import DrivenSpectrum
from .kalman import stationary_covariance
from .matrices import (
    absolute_values,
    cap_radius,
    check_time,
    definite_inverses,
    diagonal_blocks,
    floor_eigenvalues,
    hermitian,
    spectral_radius,
    symmetric_basis,
)
from .tuning import TUNING

# Fisher information of chosen elements of (A, Q), assembled by products over frequencies.

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


# Whittle likelihood of a plant seen through unit scores, in its MA(1) form.
#
# The scores ``s = J^-1 z = h + e`` of a plant ``h[t] = A h[t-1] + w[t]`` satisfy ``r[t] = s[t] - A s[t-1] =
# w[t] + e[t] - A e[t-1]``, a moving average of order one with spectrum ``Phi = Q + Z N Z^H``, where ``Z =
# exp(i w) I - A`` and ``N = Cov e = J^-1``. With the Fourier sum I_r(w) of a dozen lag covariances of r
#
#     log-likelihood / T = -1/2 mean_w [ log det Phi + tr Phi^-1 I_r ],
#
# because ``log |det Z|`` integrates to zero for a stable A. Its only poles are those of the *filter*, never
# those of A, so few lags and frequencies are enough and an evaluation does not depend on the length of the
# record [1]_. With known inputs ``r[t] = s[t] - A s[t-1] - B u[t-1]`` has the same spectrum; A and B are then
# one matrix of coefficients ``[A | B]`` of the regressors ``[s; u]``. The residuals enter through their own
# sample covariances, so the value is the sum of squares of the one-step prediction errors whatever u
# depends on: like the prediction error method it stays consistent under feedback, ``u[t]`` a function of
# measurements up to t. The *expected* information does suppose inputs without feedback. All functions take
# stacks of problems of equal size (leading axes).
#
# References
# ----------
# .. [1] Whittle (1953), Estimation and information in stationary time series, Arkiv för Matematik 2.

_PIECE = 2**18  # complex numbers in the matrices of the frequencies that are taken together


def midpoints(n_frequencies):
    """Midpoints ``(k + 1/2) pi / n`` of a half circle."""
    return (np.arange(n_frequencies) + 0.5) * np.pi / n_frequencies


def frequencies_of_states(A, least, most=400, aliased=0.01):
    """How many midpoints integrate the spectrum of the states of a plant.

    What such a spectrum has at lag l comes back at a distance of ``2 n`` lags on n midpoints, and falls as
    ``A^l``.

    A is (..., n, n).
    """
    n_frequencies = least
    while n_frequencies < most:
        left = np.linalg.matrix_power(A, 2 * n_frequencies)
        if np.square(left).sum(axis=-2).max(initial=0.0) <= aliased**2:
            return n_frequencies
        n_frequencies = min(3 * n_frequencies // 2 + 1, most)
    return most


def transfer(A, rotation):
    """``Z = exp(i w) I - A`` at some frequencies.

    A is (..., n, c), `rotation` (n_frequencies, 1, 1), Z (..., n_frequencies, n, n).
    """
    n = A.shape[-2]
    return rotation * np.eye(n) - A[..., None, :, :n]


class WhittleLikelihood:
    """Whittle likelihood as a function of (A, Q), given lag covariances of the scores.

    `moments` are those of the centred scores' transitions, with inputs beside them if there are any; `N`
    (..., n, n) is the covariance of the scores around the states.
    """

    budget = None  # of the search that evaluates it

    def __init__(self, moments, N):
        self.N, self.n_samples = N, moments.n_transitions
        n = N.shape[-1]
        self.n_covariances = len(moments.late) - 1
        self._n_frequencies = max(self.n_covariances, 1)
        frequencies = midpoints(self._n_frequencies)
        self._rotation = np.exp(1j * frequencies)[:, None, None]
        late, cross, early = moments.spectra(frequencies)
        self._late, self._cross, self._early = late[..., :n, :n], cross[..., :n, :], early
        self._back = np.ascontiguousarray(hermitian(self._cross))
        self._inputs = moments.early if early.shape[-1] > n else None
        self._driven = {}  # by number of frequencies

    @property
    def work(self):
        """Operations of an evaluation, about, and what its calls cost."""
        return 2e5 + 6 * self._n_frequencies * self.N.shape[-1] ** 3

    def evaluate(self, A, Q):
        """Value and gradients at (A, Q), A with the columns of B appended where there are inputs."""
        n = Q.shape[-1]
        value = grad_A = grad_E = np.zeros(())
        at_once = max(_PIECE // n**2, 1) if self.N.ndim == 2 else self._n_frequencies
        for first in range(0, self._n_frequencies, at_once):
            check_time()
            of_piece = self._sums(A, Q, slice(first, first + at_once))
            value, grad_A, grad_E = value + of_piece[0], grad_A + of_piece[1], grad_E + of_piece[2]
        grad_Q = 0.5 * (grad_E / self._n_frequencies)
        value, grad_A = -0.5 * (value / self._n_frequencies), grad_A / self._n_frequencies
        return Evaluation(value, grad_A, (grad_Q + np.swapaxes(grad_Q, -1, -2)) / 2)

    def _sums(self, A, Q, chosen):
        """Sums over a slice of frequencies of log-determinant and trace, their gradient in A, and of E."""
        n = Q.shape[-1]
        late, cross, back, early = (x[..., chosen, :, :] for x in (self._late, self._cross, self._back, self._early))
        Z, ZN = _filters(A, self.N, self._rotation[chosen])
        X, logdet = definite_inverses(Q[..., None, :, :] + ZN @ hermitian(Z))
        A = A[..., None, :, :]
        early = cross - _real_times(A, early)  # residuals with the regressors
        residual = late - hermitian(_real_times(A, back)) - _real_times(A, hermitian(early))
        XM = X @ residual
        trace = np.einsum("...ii->...", XM).real
        E = XM @ X - X
        grad_A = (X @ early).real.sum(axis=-3)
        grad_A[..., :n] -= (E @ ZN).real.sum(axis=-3)
        return (logdet + trace).sum(axis=-1), grad_A, E.real.sum(axis=-3)

    def of(self, chosen):
        """Values and gradients of some problems of a stack."""
        some = copy(self)
        some.N, some._late, some._cross, some._back, some._early = (
            x[chosen] for x in (self.N, self._late, self._cross, self._back, self._early)
        )
        return some

    def information(self, A, Q, n_later=0):
        """Expected information at (A, Q), a :class:`SpectralInformation`, fine enough for more lags."""
        rotation, S = self._of_states(A, Q.shape[-1], n_later)
        U, H = self._inverse_and_filter(A, Q, self.N, rotation)
        return SpectralInformation(U, H, S)

    def unit_information(self, A, Q, partition):
        """The diagonal blocks of :meth:`information` at a plant whose units are not coupled."""
        n, p = Q.shape[-1], partition.padded.shape[1]
        rotation, S = self._of_states(A, n)
        U, H = np.zeros((2, partition.n_units, len(rotation), p, p), dtype=complex)
        for size, units in partition.groups.items():
            rows = partition.padded[units, :size]
            own = rows[:, :, None], rows[:, None, :]
            at = units, slice(None), slice(size), slice(size)
            U[at], H[at] = self._inverse_and_filter(A[own], Q[own], self.N[own], rotation)
        return SpectralInformation(U, H, None if S is None else diagonal_blocks(S[..., :n, :n], partition))

    def _of_states(self, A, n, n_later=0):
        """``exp(i w)`` at as many frequencies as the states need, and what inputs make of the regressors."""
        A, B = A[..., :n], A[..., n:]
        frequencies = midpoints(frequencies_of_states(A, self._n_frequencies) + n_later)
        rotation = np.exp(1j * frequencies)[:, None, None]
        if self._inputs is None:
            return rotation, None
        if len(frequencies) not in self._driven:
            self._driven[len(frequencies)] = DrivenSpectrum(self._inputs, n, frequencies)
        return rotation, self._driven[len(frequencies)].at(A, B)

    def _inverse_and_filter(self, A, Q, N, rotation):
        """``Phi^-1`` and ``Z^-1 Q``, shape (..., n_frequencies, n, n)."""
        (Z, ZN), Q = _filters(A, N, rotation), Q[..., None, :, :]
        return definite_inverses(Q + ZN @ hermitian(Z))[0], np.linalg.solve(Z, np.broadcast_to(Q, Z.shape))


def _filters(A, N, rotation):
    """``Z`` and ``Z N``, the second with a real product only.

    A is (..., n, c), N (..., n, n), the two (..., n_frequencies, n, n).
    """
    return transfer(A, rotation), rotation * N[..., None, :, :] - (A[..., : A.shape[-2]] @ N)[..., None, :, :]


def _real_times(A, x):
    """``A @ x`` of real and complex matrices as one real product. A is (..., n, k), `x` (..., k, m)."""
    x = np.ascontiguousarray(x)
    return (A @ x.view(float)).view(complex)


# Maximum likelihood of every unit on its own, all units of one size in one batch.

_MAX_RADIUS = 0.999


def moment_start(moments, N):
    """Errors-in-variables estimate ``A = G1 (G0 - N)^-1`` and its residual covariance.

    N is (n_units, p, p); A (n_units, p, c) with the columns of inputs, Q (n_units, p, p).
    """
    return errors_in_variables(moments.early[0].copy(), moments.cross[0][..., : N.shape[-1], :], N)


def errors_in_variables(G0, G1, N):
    """The same from the covariances of regressors (..., c, c), overwritten, and of the next scores with them."""
    p = N.shape[-1]
    scale = np.trace(G0[..., :p, :p], axis1=-2, axis2=-1) / p
    explained = 0.0
    if G0.shape[-1] > p:  # what inputs do not explain of the states must stay positive, also under feedback
        with_inputs = G0[..., :p, p:]
        explained = with_inputs @ np.linalg.solve(G0[..., p:, p:], np.swapaxes(with_inputs, -1, -2))
    rest = floor_eigenvalues(G0[..., :p, :p] - N - explained, TUNING.units_start_floor * scale)
    G0[..., :p, :p] = rest + explained
    A = np.swapaxes(np.linalg.solve(G0, np.swapaxes(G1, -1, -2)), -1, -2)
    A[..., :p] = cap_radius(A[..., :p], TUNING.units_start_radius)
    carried = A @ G0 @ np.swapaxes(A, -1, -2)
    return A, floor_eigenvalues(G0[..., :p, :p] - carried, 0.1 * TUNING.units_start_floor * scale)


def unit_information(info, basis):
    """Information matrix of (vec A, q) per time step, shape (..., p*c + len(basis), ...)."""
    U, W, V = info.U, info.W, info.V
    p, c = U.shape[-1], V.shape[-1]
    batch = U.shape[:-3]
    VU, WW = _element_products(V, U), _element_products(W, W)
    WU, UU = _element_products(W, U), _element_products(U, U)
    # element (j, k) of the first factor by (l, i) of the second, or (j, l) by (k, i)
    AA = np.einsum("...jkli->...ijkl", WW) + np.einsum("...jlki->...ijkl", VU)
    AA = AA.reshape(*batch, p * c, p * c)
    AQ = np.einsum("...jabi,kab->...ijk", WU, basis).reshape(*batch, p * c, len(basis))
    half = np.einsum("...cabd,kab->...kcd", UU, basis)
    QQ = 0.5 * np.einsum("...kcd,ldc->...kl", half, basis)
    top = np.concatenate([AA, AQ], axis=-1)
    return np.concatenate([top, np.concatenate([np.swapaxes(AQ, -1, -2), QQ], axis=-1)], axis=-2)


def _element_products(x, y):
    """``mean_w Re x[a, b] y[c, d]`` of every two elements, shape (..., a, b, c, d)."""
    shape = x.shape[:-3]
    left = np.concatenate([x.real, -x.imag], axis=-3).reshape(*shape, 2 * x.shape[-3], -1)
    right = np.concatenate([y.real, y.imag], axis=-3).reshape(*shape, 2 * y.shape[-3], -1)
    products = np.swapaxes(left, -1, -2) @ right / x.shape[-3]
    return products.reshape(*shape, *x.shape[-2:], *y.shape[-2:])


class UnitFit(NamedTuple):
    """Maximum-likelihood models of units on their own."""

    A: np.ndarray  # (n_units, p, c)
    Q: np.ndarray  # (n_units, p, p)
    converged: np.ndarray  # (n_units,)
    value: np.ndarray  # (n_units,)
    n_iter: int


def fit_units(moments, N, *, fixed_A=None, max_iter=30, tol=1e-3):
    """Fisher scoring on the Whittle likelihood of each unit.

    It ends where no unit can rise, as at the border of stability: every further step would be the same again.

    N is (n_units, p, p), `fixed_A` likewise.
    """
    likelihood = WhittleLikelihood(moments, N)
    A, Q = moment_start(moments, N)
    p = N.shape[-1]
    free = np.ones(A.shape[-2:], dtype=bool)
    if fixed_A is not None:
        A[..., :p], free[:, :p] = fixed_A, False
    basis = symmetric_basis(p)
    current = likelihood.evaluate(A, Q)
    converged, moving, n_iter = np.zeros(len(A), dtype=bool), np.arange(len(A)), 0
    while n_iter < max_iter:
        step_A, step_Q, gain = _scoring_step(likelihood, current, A, Q, basis, free)
        converged = likelihood.n_samples * gain < tol
        if converged.all():
            break
        n_iter += 1
        A, Q, current, moving = _line_search(likelihood, current, A, Q, step_A, step_Q, moving)
        if not len(moving):  # from where it is each would try the same again
            break
    return UnitFit(A, Q, converged, current.value, n_iter)


def _scoring_step(likelihood, current, A, Q, basis, free):
    n_coefficients = free.size
    information = unit_information(likelihood.information(A, Q), basis)
    gradient = np.concatenate(
        [current.grad_A.reshape(*A.shape[:-2], n_coefficients), np.einsum("...ab,kab->...k", current.grad_Q, basis)],
        axis=-1,
    )
    chosen = np.flatnonzero(np.concatenate([free.ravel(), np.ones(len(basis), dtype=bool)]))
    if free.shape[1] > free.shape[0]:  # inputs under feedback can make the expected information indefinite
        information = absolute_values(information)
    ridge = 1e-12 * np.trace(information, axis1=-2, axis2=-1)[..., None, None]
    information = information + ridge * np.eye(information.shape[-1])
    step = np.zeros_like(gradient)
    square = information[..., chosen[:, None], chosen]
    step[..., chosen] = np.linalg.solve(square, gradient[..., chosen, None])[..., 0]
    gain = (step * gradient).sum(axis=-1)
    step_A = step[..., :n_coefficients].reshape(A.shape)
    return step_A, np.einsum("...k,kab->...ab", step[..., n_coefficients:], basis), gain


def _line_search(likelihood, current, A, Q, step_A, step_Q, moving, n_halvings=12):
    """Halve the step of each unit among `moving` until its likelihood rises; also, which units rose.

    A and `step_A` are (n_units, p, c), Q and `step_Q` (n_units, p, p).
    """
    floor = TUNING.units_covariance_floor * np.trace(Q, axis1=-2, axis2=-1) / Q.shape[-1]
    A, Q, found, left = A.copy(), Q.copy(), Evaluation(*(x.copy() for x in current)), moving
    rose = np.zeros(len(A), dtype=bool)
    for length in 0.5 ** np.arange(n_halvings):
        new_A = A[left] + length * step_A[left]
        stable = spectral_radius(new_A[..., : Q.shape[-1]]) < _MAX_RADIUS
        tried, new_A = left[stable], new_A[stable]
        if len(tried):
            new_Q = floor_eigenvalues(Q[tried] + length * step_Q[tried], floor[tried])
            trial = likelihood.of(tried).evaluate(new_A, new_Q)
            rises = trial.value >= current.value[tried]
            for whole, part in zip((A, Q, *found), (new_A, new_Q, *trial), strict=True):
                whole[tried[rises]] = part[rises]
            rose[tried[rises]] = True
            left = left[~rose[left]]
        if not len(left):
            break
    return A, Q, found, moving[rose[moving]]


def lag_shares(present, n_lags):
    """Share of products ``s_m[t+l] s_n[t]`` that are there, shape (n_lags + 1, n_units, n_units)."""
    T = len(present)
    shares = np.ones((n_lags + 1, *present.shape[1:] * 2))
    for lag in range(min(n_lags, T - 1) + 1):
        shares[lag] = present[lag:].T @ present[: T - lag] / (T - lag)
    return shares


def slow_start(scores, present, N, starts, period, n_lags):
    """Model (A, Q) at the rate of the record of a unit that reports in every `period`-th row.

    Its scores have no products at lags that are not multiples of the period, so nothing follows from their
    lag covariances at the rate of the record. At its own rate it is an ordinary unit with ``A^period`` for A.
    Of the roots of that, which the unit alone cannot tell apart, the principal one is taken, which turns
    least from row to row.

    `scores` is (n_samples, p), `present` (n_samples,), N (p, p).
    """
    chosen = []
    for start, stop in episodes(starts, len(scores)):
        offset = np.argmax([present[start + k : stop : period].sum() for k in range(period)])
        chosen.append(np.arange(start + offset, stop, period))
    first = np.cumsum([0, *(len(rows) for rows in chosen[:-1])])
    rows = np.concatenate(chosen)
    own = scores[rows]
    mask = np.repeat(present[rows, None], own.shape[1], axis=1)
    moments = TransitionMoments.from_sums(lag_covariances(own, range(n_lags + 2), first, mask), own, first)
    fit = fit_units(moments.blocks([slice(0, own.shape[1])]), N[None])
    A = cap_radius(fractional_matrix_power(fit.A[0], 1 / period).real, _MAX_RADIUS)
    states = stationary_covariance(fit.A[0], fit.Q[0])
    Q = floor_eigenvalues(states - A @ states @ A.T, TUNING.units_noise_floor * np.trace(states) / len(states))
    return A, Q
