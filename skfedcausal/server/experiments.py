"""Moves of inputs that tell most about one link: optimal design on the information matrix.

The coefficients of a link have the information ``sum_t z[t] z[t]'`` over the noise of the rows they act on, z what the
cause shows that the other regressors of these rows do not explain. Inputs drive z linearly, so the determinant of the
information grows along its gradient until bounds stop it, and the best moves go from one bound to the other [1]_. When
they do is found by going to the corner of the bounds that the gradient points to (Frank and Wolfe's method), from
square waves that are held for longer and longer.

.. [1] Mehra (1974), Optimal input signals for parameter estimation in dynamic systems, IEEE Transactions on Automatic
       Control 19(6).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .links.intervals import rows_to_decide
from .tuning import TUNING

_HOLDS = (1, 2, 4, 8, 16, 32)  # rows that square waves stay on one side at least
_SHARES = (1.0, 0.5, 0.25, 0.1, 0.03)  # of the way to a corner


@dataclass(frozen=True, eq=False)
class LinkDesign:
    """How inputs (n_rows, m), from -1 to 1 between their bounds, move the regressors of a link's effect.

    `responses` (n, n_rows, m) are those of standardised states, `noise` (n, n) their covariance under disturbances
    alone. Regressors are states by `states`, those of the cause first, and inputs by `direct`, each of the row before,
    or of the row itself for inputs that are `early`; the first `n_causes` of all are those of the link, of which
    `of_input` says that they are inputs. The rest of the link's rows has the covariance `rest`.
    """

    responses: np.ndarray
    noise: np.ndarray
    states: np.ndarray
    direct: np.ndarray
    early: np.ndarray
    n_causes: int
    of_input: bool
    rest: np.ndarray

    @cached_property
    def _spectra(self):
        return np.fft.rfft(self.responses, 2 * self.responses.shape[1], axis=1)

    def regressors(self, u):
        """Shape (n_rows, r), those of the link first, less their means."""
        n_rows = len(u)
        driven = np.einsum("nfm,fm->fn", self._spectra, np.fft.rfft(u, 2 * n_rows, axis=0), optimize=True)
        states = np.fft.irfft(driven, 2 * n_rows, axis=0)[:n_rows]
        parts = [_late(states)[:, self.states], np.where(self.early, u, _late(u))[:, self.direct]]
        found = np.hstack(parts[::-1] if self.of_input else parts)
        return found - found.mean(axis=0)

    def _pulled_back(self, slopes):
        """Gradient in the inputs from that in the regressors."""
        n_rows = len(slopes)
        slopes = slopes - slopes.mean(axis=0)
        first = len(self.direct) if self.of_input else len(self.states)
        of_states, of_inputs = (slopes[:, :first], slopes[:, first:])[:: -1 if self.of_input else 1]
        states = np.zeros((n_rows, len(self.responses)))
        states[:-1, self.states] = of_states[1:]
        spectra = np.fft.rfft(states, 2 * n_rows, axis=0)
        found = np.einsum("nfm,fn->fm", self._spectra.conj(), spectra, optimize=True)
        found = np.fft.irfft(found, 2 * n_rows, axis=0)[:n_rows]
        acting = np.zeros_like(found)
        acting[:, self.direct] = of_inputs
        late = np.vstack([acting[1:], np.zeros_like(acting[:1])])
        return found + np.where(self.early, acting, late)

    def information(self, u):
        """Of the link's coefficients given the others (d, d), what is left of the cause, and how others explain it."""
        found, d = self.regressors(u), self.n_causes
        M = found.T @ found + len(u) * self._noise
        M[np.diag_indices_from(M)] += TUNING.experiments_jitter * len(u)
        explained = np.linalg.solve(M[d:, d:], M[d:, :d])
        return M[:d, :d] - M[:d, d:] @ explained, found[:, :d] - found[:, d:] @ explained, explained

    @cached_property
    def _noise(self):
        r = len(self.states) + len(self.direct)
        found = np.zeros((r, r))
        rows = slice(len(self.direct), None) if self.of_input else slice(0, len(self.states))
        found[rows, rows] = self.noise[np.ix_(self.states, self.states)]
        return found

    def value(self, u):
        """Log-determinant of the information."""
        return float(np.linalg.slogdet(self.information(u)[0])[1])

    def gradient(self, u):
        """Its gradient, (n_rows, m)."""
        information, left, explained = self.information(u)
        pull = 2 * np.linalg.solve(information, left.T).T
        return self._pulled_back(np.hstack([pull, -pull @ explained.T]))

    def rows_needed(self, u, alpha, margin):
        """Rows of moves like these after which a link of strength `margin` is separated from none four times in five.

        Of a link whose direction is not known: any one is as likely as any other.
        """
        information = self.information(u)[0]
        n_free = len(information) * len(self.rest)
        known = max(np.trace(information) * np.trace(np.linalg.inv(self.rest)) / n_free, TUNING.experiments_jitter)
        return int(rows_to_decide(np.array([1 / known]), [n_free], len(u), alpha, margin)[0])


def _late(x):
    """Of the row before."""
    return np.vstack([np.zeros_like(x[:1]), x[:-1]])


def square_waves(n_rows, m, hold, rng):
    """Inputs at one of their bounds or the other, each for a multiple of so many rows, shape (n_rows, m)."""
    return np.repeat(rng.integers(0, 2, (n_rows // hold + 1, m)) * 2.0 - 1.0, hold, axis=0)[:n_rows]


def best_moves(design, n_rows, keep):
    """Inputs from -1 to 1 that tell most about a link, (n_rows, m); `keep` makes any moves such as are allowed."""
    m, rng = design.responses.shape[2], np.random.default_rng(0)
    starts = [keep(square_waves(n_rows, m, hold, rng)) for hold in _HOLDS if hold < n_rows]
    starts = sorted(starts, key=design.value)[-TUNING.experiments_best :]
    return max((_climbed(design, u, keep) for u in starts), key=design.value)


def _climbed(design, u, keep):
    best = design.value(u)
    for _ in range(TUNING.experiments_climbs):
        corner = np.sign(design.gradient(u))
        corner = np.where(corner == 0, u, corner)
        others = [keep(u + share * (corner - u)) for share in _SHARES]
        values = [design.value(other) for other in others]
        k = int(np.argmax(values))
        if values[k] < best + TUNING.experiments_enough:
            break
        u, best = others[k], values[k]
    return u


def random_rows_needed(design, n_rows, keep, alpha, margin):
    """Rows that random moves from bound to bound in every row need, in the median."""
    m, rng = design.responses.shape[2], np.random.default_rng(1)
    found = [
        design.rows_needed(keep(square_waves(n_rows, m, 1, rng)), alpha, margin)
        for _ in range(TUNING.experiments_random)
    ]
    return int(np.median(found))
