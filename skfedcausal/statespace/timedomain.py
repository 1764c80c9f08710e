"""Exact Gaussian likelihood of a plant from information series, missing data included, and what each row adds to it.

The log-density of a measurement given its past depends on the plant through the predicted state x and its
covariance P alone. Its derivatives there are ``u = C' S^-1 (y - C x)`` with S the covariance of the
innovation (as information: ``(I - J Pf)(z - J x)``) and ``(u u' - U) / 2`` with ``U = J - J Pf J``; from
there on derivatives go back in time through the filter, ``P <- A (P - P U P) A' + Q``, as long as it
remembers. At the true plant the contributions of a well-specified model are martingale differences: a step's
expectation given the past is zero.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .fisher import Evaluation, SpectralInformation
from .inputs import DrivenSpectrum, input_term
from .kalman import filter_rows
from .matrices import check_time, hermitian
from .partition import diagonal_blocks
from .riccati import adjoint_lyapunov, filter_radius, stationary_covariance
from .smoother import smooth
from .tuning import TUNING
from .whittle import frequencies_of_states, midpoints, transfer

_FORGOTTEN = 1e-3  # what a filter may still remember where derivatives stop going back
_PIECE = 2**21  # numbers in the matrices of the rows that are taken together


class KnownInputs(NamedTuple):
    """Inputs of a record and what the likelihood needs to know about them."""

    series: np.ndarray | None = None  # (n_samples, k) or None
    moments: np.ndarray | None = None  # (n_lags + 1, c, c) or None
    spread: np.ndarray | None = None  # (n, n) or None


def row_by_row(n_samples, n_states, n_steps=None):
    """Operations of an evaluation that goes through so many steps, of all rows unless said otherwise."""
    n_steps = n_samples if n_steps is None else n_steps
    return n_steps * (1e5 + 12 * n_states**3) + n_samples * 300 * n_states


class TimeDomainLikelihood:
    """Exact likelihood as a function of (A, Q), given the information series of all units.

    Every episode starts from the stationary distribution; a constant level of the states in each episode
    is profiled out. Inputs may depend on measurements up to their own time step: each factor of the
    likelihood is a density given the past, inputs included.
    """

    budget = None  # of the search that evaluates it

    def __init__(self, z, matrices, regimes, starts, n_frequencies, *, is_constant=False, inputs=None, levels=True):
        self.n_samples = len(z)
        self._z, self._matrices, self._regimes = z, matrices, regimes
        self._n_frequencies, self._n_steps = n_frequencies, len(z)
        self._inputs = KnownInputs() if inputs is None else inputs
        J = regimes[0][1] if is_constant else None
        self._settings = {"J": J, "starts": starts, "intercept": levels}
        self._settings |= {"inputs": self._inputs.series, "spread": self._inputs.spread}

    @property
    def work(self):
        """Operations of the last evaluation, about: of rows one after the other it is calls that count."""
        return row_by_row(self.n_samples, self._z.shape[1], self._n_steps)

    def evaluate(self, A, Q):
        """Value and gradients per time step at (A, Q), A with the columns of B appended. A is (n, n + k), Q (n, n)."""
        check_time()
        P0, found = smooth(A, Q, self._z, self._matrices, **self._settings)
        self._n_steps = found.n_steps
        own = A[:, : len(Q)]
        through_start = adjoint_lyapunov(own, found.grad_P0)
        grad_A = np.hstack([found.grad_A + 2 * through_start @ own @ P0, found.grad_B])
        grad_Q = found.grad_Q + through_start
        T = self.n_samples
        return Evaluation(found.value / T, grad_A / T, (grad_Q + grad_Q.T) / (2 * T))

    def smoothed(self, A, Q, blocks):
        """States given the whole record and covariances of chosen blocks of them.

        States are (n_samples, n), covariances (n_samples, p, p) each.
        """
        _, found = smooth(A, Q, self._z, self._matrices, keep=blocks, **self._settings)
        return found.states, found.covariances

    def information(self, A, Q):
        """Expected information, each regime taken as if it lasted for ever."""
        return SpectralInformation(*self._factors(A, Q))

    def unit_information(self, A, Q, partition):
        """The diagonal blocks of :meth:`information`, (n_units, n_frequencies, p, p)."""
        n = len(Q)
        U, H, S = self._factors(A, Q)
        S = None if S is None else diagonal_blocks(S[..., :n, :n], partition)
        U, H = diagonal_blocks(U, partition), diagonal_blocks(H[..., :n, :], partition)
        return SpectralInformation(U, H, S)

    def _factors(self, A, Q):
        """U, H and S of the information, regimes one after the other."""
        n = len(Q)
        A, B = A[:, :n], A[:, n:]
        frequencies = midpoints(frequencies_of_states(A, self._n_frequencies))
        inverse = np.linalg.inv(transfer(A, np.exp(1j * frequencies)[:, None, None]))
        H = inverse @ Q
        states = H @ hermitian(inverse)
        driven = DrivenSpectrum(self._inputs.moments, n, frequencies).at(A, B) if B.shape[1] else None
        U, spectra = [], []
        for share, J in self._regimes:
            middle = np.linalg.solve(np.eye(n) + J @ states, np.broadcast_to(J, states.shape))
            weight = np.sqrt(share * len(self._regimes))
            U.append(weight * hermitian(inverse) @ middle @ inverse)
            if driven is not None:
                spectra.append(weight * driven)  # its products with U have the weight once more
        return np.concatenate(U), np.concatenate([H] * len(U)), np.concatenate(spectra) if spectra else None


@dataclass(frozen=True)
class Contributions:
    """Gradients of the log-densities of consecutive rows given their past."""

    rows: slice
    grad_A: np.ndarray  # (n_rows, n, c)
    grad_Q: np.ndarray  # (n_rows, n, n)


def score_contributions(A, Q, z, matrices, *, J, starts=(0,), known=None, spread=None, memory=None):
    """Contributions of every row, some rows at a time and in their order.

    How the stationary distribution of an episode's first state depends on the plant is left out.
    """
    n = len(Q)
    A, B = A[:, :n], A[:, n:]
    P0 = stationary_covariance(A, Q)
    P0 = P0 if spread is None else P0 + spread
    exogenous = None if known is None else input_term(B, known, starts)
    memory = steps_remembered(A, Q, J) if memory is None else memory
    past = None
    for part in filter_rows(A, Q, P0, z, matrices, starts=starts, exogenous=exogenous):
        first, last = part.rows.start, part.rows.stop
        own = _Past.of(part, z, known)
        past = own if first in starts else own.after(past, memory)
        at_once = max(_PIECE // n**2, 1)
        for start in range(first, last, at_once):
            rows = slice(start, min(start + at_once, last))
            yield Contributions(rows, *past.contributions(A, rows, memory))


def steps_remembered(A, Q, J):
    """Rows over which derivatives go back: as long as the filter remembers."""
    n_steps = np.log(_FORGOTTEN) / np.log(max(filter_radius(A, J, Q), 1e-6))
    return min(int(np.ceil(n_steps)), TUNING.timedomain_most_steps)


@dataclass(frozen=True)
class _Past:
    """Rows of an episode and as many before them as the filter remembers."""

    first: int
    u: np.ndarray
    U: np.ndarray
    regressors: np.ndarray
    filtered: np.ndarray
    step: np.ndarray

    @classmethod
    def of(cls, part, z, known):
        """That of filtered rows alone; `z` (n_samples, n), `known` (n_samples, k) or None."""
        J, Pf = part.covariances.J, part.covariances.filtered
        weighed = J @ Pf
        residual = z[part.rows] - np.einsum("tij,tj->ti", J, part.predicted)
        u = residual - np.einsum("tij,tj->ti", weighed, residual)
        regressors = part.filtered if known is None else np.hstack([part.filtered, known[part.rows]])
        return cls(part.rows.start, u, J - weighed @ J, regressors, Pf, part.covariances.step)

    def after(self, before, memory):
        """With the last rows of what came before them."""
        fields = ("u", "U", "regressors", "filtered", "step")
        kept = {name: getattr(before, name)[-memory:] for name in fields}
        joined = {name: np.concatenate([kept[name], getattr(self, name)]) for name in fields}
        return _Past(self.first - len(kept["u"]), **joined)

    def contributions(self, A, rows, memory):
        """Derivatives of the log-densities of a slice of rows with respect to ``[A | B]`` and Q."""
        n = len(A)
        at = np.arange(rows.start, rows.stop) - self.first
        v, W = self.u[at], self.u[at, :, None] * self.u[at, None, :]
        W = (W - self.U[at]) / 2
        grad_A = np.zeros((len(at), n, self.regressors.shape[1]))
        grad_Q = np.zeros_like(W)
        for back in range(1, memory + 1):
            there = at >= back
            if not there.all():  # rows near the start of the episode have no more past
                if not there.any():
                    break
                v, W = np.where(there[:, None], v, 0.0), np.where(there[:, None, None], W, 0.0)
            row = np.maximum(at - back, 0)
            grad_A += v[:, :, None] * self.regressors[row, None, :]
            grad_A[:, :, :n] += 2 * (W @ A) @ self.filtered[row]
            grad_Q += W
            step = self.step[row]
            turned = np.swapaxes(step, 1, 2)
            v = (turned @ v[:, :, None])[:, :, 0]
            mixed = v[:, :, None] * self.u[row, None, :]
            W = turned @ W @ step + (mixed + np.swapaxes(mixed, 1, 2)) / 2
        return grad_A, grad_Q
