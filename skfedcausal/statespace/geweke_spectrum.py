"""Geweke's measure frequency by frequency, from the innovations form of a state-space model.

In the innovations form ``y[t] = sum_k H_k e[t-k]`` of all measurements with Cov e = S, and that of the
measurements without the cause's with innovations ``r`` of covariance S^R, the innovations of the effect m
are filtered ones of the whole, ``r_m = G_m(w) e``. The share of their (white) spectrum S^R_mm that the
effect's own innovations account for, those of others counted as far as they come at the same time, is
``T S_mm T^H`` with ``T = G_m S_.m S_mm^-1``, and the measure [1]_ [2]_ [3]_

    f(w) = log |S^R_mm| - log |T(w) S_mm T(w)^H|.

It averages over frequency to the measure of the time domain, ``log |S^R_mm| / |S_mm|``, if and only if det
T has no zero outside the unit circle (Geweke's root condition); otherwise to less.

References
----------
.. [1] Geweke (1982), Measurement of linear dependence and feedback between multiple time series, Journal of
       the American Statistical Association 77(378).
.. [2] Geweke (1984), Measures of conditional linear dependence and feedback between time series, Journal of
       the American Statistical Association 79(388).
.. [3] Barnett, Seth (2015), Granger causality for state-space models, Physical Review E 91(4).
"""

from dataclasses import dataclass

import numpy as np

from .lagcov import midpoints
from .likelihood import hermitian
from .riccati import predicted_covariance

_CONVERGED = 1e-10
_MAX_FREQUENCIES = 1 << 15
_ROOTS = 1e-7  # mean of log |det T| that is rounding


@dataclass(frozen=True)
class GewekeSpectrum:
    """Measure of one unit's influence on another over frequency.

    Attributes
    ----------
    frequency : ndarray of shape (n_frequencies,)
        In radians per time step, midpoints of the half circle.
    measure : ndarray of shape (n_frequencies,)
    total : float
        Measure of the time domain.
    has_roots_inside : bool
        Geweke's root condition: whether `measure` averages to `total`.
    """

    frequency: np.ndarray
    measure: np.ndarray
    total: float
    has_roots_inside: bool


class Innovations:
    """Innovations form of the measurements of some units.

    Parameters
    ----------
    A, Q : ndarray of shape (n, n)
    loadings : list of ndarray of shape (d_m, n)
        Of the units' measurements, in noise of unit variance.
    """

    def __init__(self, A, Q, loadings):
        self.A, self.C = A, np.vstack(loadings)
        P = predicted_covariance(A, self.C.T @ self.C, Q)
        self.covariance = self.C @ P @ self.C.T + np.eye(len(self.C))
        self._K = A @ np.linalg.solve(self.covariance, self.C @ P.T).T

    def response(self, z):
        """``H(w) = I + C (z I - A)^-1 K``."""
        return np.eye(len(self.C)) + self._through(self.A, z)

    def whitening(self, z):
        """``H(w)^-1``."""
        return np.eye(len(self.C)) - self._through(self.A - self._K @ self.C, z)

    def _through(self, A, z):
        states = z[:, None, None] * np.eye(len(A)) - A
        return self.C @ np.linalg.solve(
            states, np.broadcast_to(self._K.astype(complex), (len(z), *self._K.shape))
        )


def loadings_of(J, partition):
    """Loadings of measurements with unit noise that carry the information J, unit by unit."""
    loadings = []
    for rows in partition.slices:
        values, vectors = np.linalg.eigh(J[rows, rows])
        kept = values > 1e-13 * max(values[-1], np.finfo(float).tiny)
        own = np.zeros((int(kept.sum()), len(J)))
        own[:, rows] = np.sqrt(values[kept])[:, None] * vectors[:, kept].T
        loadings.append(own)
    return loadings


def geweke_spectrum(A, Q, J, partition, effect, cause, *, conditional=True, n_frequencies=None):
    """Spectrum of Geweke's measure from `cause` to `effect`.

    Parameters
    ----------
    A, Q, J : ndarray of shape (n, n)
        Transition matrix, process covariance, block-diagonal information matrix of the measurements.
    partition : Partition
    effect, cause : int
        Units.
    conditional : bool
        Given the measurements of all other units; otherwise the two units alone are looked at.
    n_frequencies : int, default=None
        None takes as many as the average over frequency needs to converge.

    Returns
    -------
    GewekeSpectrum

    Raises
    ------
    NotStationaryError
        If a mode does not decay that nobody left sees.
    """
    loadings = loadings_of(J, partition)
    others = [k for k in range(partition.n_units) if k not in (effect, cause)] if conditional else []
    whole = Innovations(A, Q, [loadings[k] for k in (effect, *others, cause)])
    rest = Innovations(A, Q, [loadings[k] for k in (effect, *others)])
    own, left = slice(0, len(loadings[effect])), slice(0, len(rest.C))
    S = whole.covariance
    total = np.linalg.slogdet(rest.covariance[own, own])[1] - np.linalg.slogdet(S[own, own])[1]
    weights = S[:, own] @ np.linalg.inv(S[own, own])

    def at(n):
        z = np.exp(1j * midpoints(n))
        T = rest.whitening(z)[:, own, :] @ (whole.response(z)[:, left, :] @ weights)
        intrinsic = T @ S[own, own] @ hermitian(T)
        logs = np.linalg.slogdet(rest.covariance[own, own])[1] - np.linalg.slogdet(intrinsic)[1]
        return logs, 2 * np.linalg.slogdet(T)[1].mean()

    n = n_frequencies or 64
    logs, roots = at(n)
    while n_frequencies is None and n < _MAX_FREQUENCIES:
        finer, finer_roots = at(2 * n)
        settled = abs(finer.mean() - logs.mean()) < _CONVERGED and abs(finer_roots - roots) < _CONVERGED
        n, logs, roots = 2 * n, finer, finer_roots
        if settled:
            break
    return GewekeSpectrum(
        midpoints(n), np.maximum(logs, 0.0), max(float(total), 0.0), bool(abs(roots) < _ROOTS)
    )


def unconditional_measures(A, Q, J, partition):
    """Geweke's measure between two units looked at on their own, for every ordered pair.

    Returns
    -------
    measures : ndarray of shape (n_units, n_units)
        ``measures[m, n]`` is the measure from cause n to effect m; the diagonal is zero.
    """
    loadings = loadings_of(J, partition)
    alone = [np.linalg.slogdet(Innovations(A, Q, [C]).covariance)[1] for C in loadings]
    measures = np.zeros((partition.n_units, partition.n_units))
    for m in range(partition.n_units):
        for n in range(m):
            S, d = Innovations(A, Q, [loadings[m], loadings[n]]).covariance, len(loadings[m])
            measures[m, n] = max(alone[m] - np.linalg.slogdet(S[:d, :d])[1], 0.0)
            measures[n, m] = max(alone[n] - np.linalg.slogdet(S[d:, d:])[1], 0.0)
    return measures
