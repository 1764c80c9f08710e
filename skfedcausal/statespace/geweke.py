"""Geweke's measure of linear feedback, in all and by frequency, from the innovations of a state-space model.

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

from typing import NamedTuple

import numpy as np

from .kalman import NotStationaryError, adjoint_lyapunov, filtered_covariance, predicted_covariance
from .matrices import hermitian
from .tuning import TUNING
from .whittle import midpoints


def geweke_measures(A, Q, J, partition):
    """Conditional Granger-Geweke measure between every ordered pair of units, in the time domain.

    How much better unit m's measurements are predicted from the past of all units than from the past of
    all but unit n, ``log |V_m without n| / |V_m|`` with V_m the one-step prediction error covariance of
    unit m's measurements [3]_. One Riccati equation for each unit left out.

    With noisy sensors the measure is above zero also for some pairs without a link: unit n's
    measurements then help to know the states of other units (indirect paths, the reverse direction) better
    than those units' own sensors do. Tests and verdicts are about the blocks of A.
    """
    full = _log_innovations(predicted_covariance(A, J, Q), J, partition)
    measures = np.zeros((partition.n_units, partition.n_units))
    for n, rows in enumerate(partition.slices):
        without = _log_innovations(_predicted_without(A, J, Q, rows), J, partition)
        measures[:, n] = np.maximum(without - full, 0.0)
    np.fill_diagonal(measures, 0.0)
    return measures


def _predicted_without(A, J, Q, rows):
    """Predicted covariance of states without what some of them tell of themselves.

    Next to nothing of it where nothing else shows one of them that hardly comes back: no filter has a steady state
    then.
    """
    reduced = J.copy()
    reduced[rows, rows] = 0.0
    try:
        return predicted_covariance(A, reduced, Q)
    except NotStationaryError:
        reduced[rows, rows] = TUNING.geweke_hardly * J[rows, rows]
        return predicted_covariance(A, reduced, Q)


def _log_innovations(P, J, partition):
    """``log |I + P_mm J_mm|``, the log-determinant of V_m less that of R_m, per unit."""
    product = P @ J
    logs = np.empty(partition.n_units)
    for p, units in partition.groups.items():
        states = partition.padded[units, :p]
        logs[units] = np.linalg.slogdet(np.eye(p) + product[states[:, :, None], states[:, None, :]])[1]
    return logs


def geweke_gradients(A, Q, J, partition, wanted):
    """Derivatives of the measures of :func:`geweke_measures` with respect to A and Q.

    A change of the plant moves the predicted covariance P by ``dP = F dP F' + dA Pf A' + A Pf dA' + dQ`` with
    the filtered covariance Pf and ``F = A (I - Pf J)``; derivatives go back through it by an adjoint Lyapunov
    equation.
    """
    if not wanted.any():
        return
    full = _innovation_gradients(A, Q, J, J, partition, wanted.any(axis=1))
    for cause, rows in enumerate(partition.slices):
        if wanted[:, cause].any():
            reduced = J.copy()
            reduced[rows, rows] = 0.0
            without = _innovation_gradients(A, Q, reduced, J, partition, wanted[:, cause])
            for effect, (grad_A, grad_Q) in without.items():
                yield effect, cause, grad_A - full[effect][0], grad_Q - full[effect][1]


def _innovation_gradients(A, Q, seen, J, partition, units):
    """Derivatives of ``log |I + P_mm J_mm|`` of units m with the covariance P that information
    `seen` leaves.
    """
    P = predicted_covariance(A, seen, Q)
    Pf = filtered_covariance(P, seen)
    units = np.flatnonzero(units)
    G = np.zeros((len(units), *A.shape))
    for of_P, m in zip(G, units, strict=True):
        rows = partition.slices[m]
        own = J[rows, rows]
        of_P[rows, rows] = np.linalg.solve(np.eye(len(own)) + own @ P[rows, rows], own)
    through = adjoint_lyapunov(A - A @ Pf @ seen, G)
    return {int(m): (2 * X @ A @ Pf, X) for m, X in zip(units, through, strict=True)}


class GewekeSpectrum(NamedTuple):
    """Measure of one unit's influence on another over frequency."""

    frequency: np.ndarray  # (n_frequencies,)
    measure: np.ndarray  # (n_frequencies,)
    total: float
    has_roots_inside: bool


class Innovations:
    """Innovations form of the measurements of some units."""

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
        return self.C @ np.linalg.solve(states, np.broadcast_to(self._K.astype(complex), (len(z), *self._K.shape)))


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
    """Spectrum of Geweke's measure from `cause` to `effect`."""
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
    while n_frequencies is None and n < TUNING.geweke_max_frequencies:
        finer, finer_roots = at(2 * n)
        settled = abs(finer_roots - roots) < TUNING.geweke_converged  # the mean of the measure follows its roots
        n, logs, roots = 2 * n, finer, finer_roots
        if settled:
            break
    return GewekeSpectrum(
        midpoints(n), np.maximum(logs, 0.0), max(float(total), 0.0), bool(abs(roots) < TUNING.geweke_roots)
    )
