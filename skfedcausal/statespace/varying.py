"""Exact Kalman filter and smoother when the information matrix changes from step to step.

Sensors that are missing now and then, units that are absent and episodes of their own all arrive here as
a sequence of information matrices (zero for an absent unit). Covariances are followed step by step in
information form: a step costs a few products of n x n matrices whatever the number of sensors, and
singular information matrices need no special care. Long episodes are cut in chunks; the way back filters
a chunk again from its stored start, so memory does not grow with ``n_samples * n**2``.

Notation of the code: P, Pf predicted and filtered covariance, ``L = A (I - Pf J)`` the matrix that carries
a prediction error to the next step, r and N the smoothing score and its covariance (de Jong 1989).
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dgesv

from .episodes import episodes
from .smoothed import SmoothedSums

_CHUNK_BYTES = 1 << 28


@dataclass(frozen=True)
class Covariances:
    """Covariances of consecutive rows of an episode.

    Attributes
    ----------
    J : ndarray of shape (n_rows, n, n)
        Information matrices.
    predicted, filtered : ndarray of shape (n_rows, n, n)
        Covariances of the states before and after their measurement.
    carried : ndarray of shape (n_rows, n, n)
        ``A Pf``.
    step : ndarray of shape (n_rows, n, n)
        ``L = A (I - Pf J)``.
    """

    J: np.ndarray
    predicted: np.ndarray
    filtered: np.ndarray
    carried: np.ndarray
    step: np.ndarray


def covariance_rows(A, Q, J, start):
    """Follow the covariances over consecutive rows of one episode.

    Parameters
    ----------
    A, Q : ndarray of shape (n, n)
    J : ndarray of shape (n_rows, n, n)
    start : ndarray of shape (n, n)
        Covariance of the state before the first row.

    Returns
    -------
    covariances : Covariances
    following : ndarray of shape (n, n)
        Covariance of the state before the row after the last.
    """
    n_rows, n, _ = J.shape
    predicted, filtered, carried = (np.empty((n_rows, n, n)) for _ in range(3))
    eye, AT, P = np.eye(n), np.ascontiguousarray(A.T), start
    for t in range(n_rows):
        predicted[t] = P
        Pf = dgesv(eye + P @ J[t], P)[2]
        filtered[t] = Pf = (Pf + Pf.T) / 2
        carried[t] = APf = A @ Pf
        P = APf @ AT + Q
    return Covariances(J, predicted, filtered, carried, A - carried @ J), P


def predicted_means(covariances, z, start, drive=None):
    """Predicted means of one or several series that share the covariances.

    Parameters
    ----------
    covariances : Covariances
    z : ndarray of shape (n_rows, n, k)
        Information vectors of k series.
    start : ndarray of shape (n, k)
        Means before the first row.
    drive : ndarray of shape (n_rows, n, k), default=None
        Known term of the step that leaves each row.

    Returns
    -------
    means : ndarray of shape (n_rows, n, k)
    following : ndarray of shape (n, k)
    """
    push = covariances.carried @ z
    if drive is not None:
        push += drive
    means, h = np.empty(z.shape), start
    for t in range(len(z)):
        means[t] = h
        h = covariances.step[t] @ h + push[t]
    return means, h


def log_density_terms(covariances, z, means):
    """Log-density of each row given the past, less the term free of the states.

    Parameters
    ----------
    covariances : Covariances
    z, means : ndarray of shape (n_rows, n)
        Information vectors and predicted states.
    """
    n = z.shape[1]
    logdet = np.linalg.slogdet(np.eye(n) + covariances.predicted @ covariances.J)[1]
    r = z - np.einsum("tij,tj->ti", covariances.J, means)
    quadratic = -np.einsum("ti,ti->t", means, z + r)
    gained = np.einsum("ti,tij,tj->t", r, covariances.filtered, r)
    return -0.5 * (logdet + quadratic - gained)


def _chunks(start, stop, n):
    """Rows of an episode in chunks whose arrays take a bounded amount of memory."""
    length = max(64, _CHUNK_BYTES // (8 * 6 * n * n))
    return [slice(a, min(stop, a + length)) for a in range(start, stop, length)]


@dataclass(frozen=True)
class FilteredRows:
    """Predicted and filtered states of consecutive rows, their log-density terms and covariances."""

    rows: slice
    predicted: np.ndarray
    filtered: np.ndarray
    terms: np.ndarray
    covariances: Covariances


def filter_rows(A, Q, P0, z, matrices, *, starts=(0,), exogenous=None):
    """Filter one or several episodes, chunk by chunk.

    Parameters
    ----------
    A, Q, P0 : ndarray of shape (n, n)
        Every episode starts from covariance `P0`.
    z : ndarray of shape (n_samples, n)
    matrices : callable
        ``matrices(rows)`` gives the information matrices of a slice of rows.
    starts : sequence of int
    exogenous : ndarray of shape (n_samples, n), default=None
        Known term of the state equation at each row; the first row of an episode is its initial mean.

    Yields
    ------
    FilteredRows
    """
    for start, stop in episodes(starts, len(z)):
        mean, cov = _initial_mean(exogenous, start, len(A)), P0
        for rows in _chunks(start, stop, len(A)):
            covariances, cov = covariance_rows(A, Q, matrices(rows), cov)
            drive = _drive(exogenous, rows, stop)
            means, mean = predicted_means(covariances, z[rows][..., None], mean, drive)
            means = means[..., 0]
            residual = z[rows] - np.einsum("tij,tj->ti", covariances.J, means)
            filtered = means + np.einsum("tij,tj->ti", covariances.filtered, residual)
            terms = log_density_terms(covariances, z[rows], means)
            yield FilteredRows(rows, means, filtered, terms, covariances)


def _initial_mean(exogenous, start, n):
    return np.zeros((n, 1)) if exogenous is None else exogenous[start][:, None]


def _drive(exogenous, rows, stop):
    """Known term of the step that leaves each row, zero at the last row of an episode."""
    if exogenous is None:
        return None
    drive = np.zeros((rows.stop - rows.start, exogenous.shape[1], 1))
    following = exogenous[rows.start + 1 : min(stop, rows.stop + 1)]
    drive[: len(following), :, 0] = following
    return drive


def smooth(A, Q, P0, z, matrices, *, starts=(0,), exogenous=None, inputs=None, intercept=False, keep=None):
    """Log-likelihood and its gradient over one or several episodes, by one pass forth and back.

    Parameters
    ----------
    A, Q, P0 : ndarray of shape (n, n)
        Every episode starts from covariance `P0`.
    z : ndarray of shape (n_samples, n)
    matrices : callable
        ``matrices(rows)`` gives the information matrices of a slice of rows.
    starts : sequence of int
        First row of each episode.
    exogenous : ndarray of shape (n_samples, n), default=None
        Known term ``B u[t-1]`` of the state equation at each row.
    inputs : ndarray of shape (n_samples, k), default=None
        The inputs u themselves, for the derivative with respect to B.
    intercept : bool, default=False
        Profile a constant level of the states out of each episode.
    keep : SmoothedStates, default=None
        Where to store smoothed states and covariances.

    Returns
    -------
    SmoothedSums
    """
    sums = SmoothedSums(len(A), 0 if inputs is None else inputs.shape[1])
    for start, stop in episodes(starts, len(z)):
        episode = _Episode(A, Q, P0, z, matrices, exogenous, intercept, start, stop)
        episode.backward(sums, inputs, keep)
        sums.levels.append(episode.level)
    return sums


class _Episode:
    """Forward pass over one episode: chunk starts, the last chunk and the level."""

    def __init__(self, A, Q, P0, z, matrices, exogenous, intercept, start, stop):
        self._A, self._Q, self._z, self._matrices = A, Q, z, matrices
        self._exogenous, self._intercept, self._stop = exogenous, intercept, stop
        n = len(A)
        self._chunks = _chunks(start, stop, n)
        mean, cov = _initial_mean(exogenous, start, n), P0
        if intercept:
            mean = np.concatenate([mean, np.zeros((n, n))], axis=1)
        self._starts, self._last = [], None
        normal, right = np.zeros((n, n)), np.zeros(n)
        for rows in self._chunks:
            self._starts.append((mean, cov))
            covariances, means, mean, cov = self._filter(rows, mean, cov)
            if intercept:
                weighted, plain = self._level_equations(rows, covariances, means)
                normal += weighted
                right += plain
        self._last = (rows, covariances, means)
        self.level = np.linalg.lstsq(normal, right, rcond=1e-12)[0] if intercept else np.zeros(n)

    def _filter(self, rows, mean, cov):
        """Covariances, and the means of the record and of the responses to a unit level of each state."""
        covariances, following = covariance_rows(self._A, self._Q, self._matrices(rows), cov)
        z, drive = self._z[rows][..., None], _drive(self._exogenous, rows, self._stop)
        if self._intercept:
            z = np.concatenate([z, -covariances.J], axis=2)
            if drive is not None:
                drive = np.concatenate([drive, np.zeros_like(covariances.J)], axis=2)
        means, mean = predicted_means(covariances, z, mean, drive)
        return covariances, means, mean, following

    def _level_equations(self, rows, covariances, means):
        """Normal equations of the level: ``sum H' (J - J Pf J) H`` and ``sum H' (I - J Pf) r``."""
        J, Pf = covariances.J, covariances.filtered
        response = np.eye(J.shape[1]) + means[:, :, 1:]
        residual = self._z[rows][..., None] - J @ means[:, :, :1]
        plain = residual - J @ (Pf @ residual)
        normal = np.einsum("tji,tjk->ik", response, (J - J @ Pf @ J) @ response)
        return normal, np.einsum("tji,tj->i", response, plain[:, :, 0])

    def backward(self, sums, inputs, keep):
        """Accumulate value and gradients from the last row to the first."""
        n = len(self._A)
        r, N = np.zeros(n), np.zeros((n, n))
        for k in range(len(self._chunks) - 1, -1, -1):
            rows = self._chunks[k]
            covariances, means = self._at(k)
            deviation = means[..., 0] + means[..., 1:] @ self.level if self._intercept else means[..., 0]
            total = deviation + self.level
            sums.value += float(log_density_terms(covariances, self._z[rows], total).sum())
            residual = self._z[rows] - np.einsum("tij,tj->ti", covariances.J, total)
            after_r, after_N, before_r, before_N = _scores(covariances, residual, r, N)
            r, N = before_r[0], before_N[0]
            smoothed = deviation + np.einsum("tij,tj->ti", covariances.predicted, before_r)
            last = len(smoothed) - (rows.stop == self._stop)  # the last row of all starts no transition
            left = after_N[:last].transpose(1, 0, 2).reshape(n, -1)
            carried = covariances.carried[:last].reshape(-1, n)
            sums.grad_A += after_r[:last].T @ smoothed[:last] - left @ carried
            sums.grad_Q += (after_r[:last].T @ after_r[:last] - after_N[:last].sum(axis=0)) / 2
            if inputs is not None:
                sums.grad_B += after_r[:last].T @ inputs[rows][:last]
            if keep is not None:
                P = covariances.predicted
                keep.store(rows, smoothed, P - P @ before_N @ P)
        sums.grad_P0 += (np.outer(r, r) - N) / 2

    def _at(self, k):
        """Covariances and means of a chunk: the last one was kept, the others are filtered again."""
        rows, covariances, means = self._last
        if rows != self._chunks[k]:
            covariances, means, _, _ = self._filter(self._chunks[k], *self._starts[k])
        return covariances, means


def _scores(covariances, residual, r, N):
    """Smoothing scores and their covariances after and before each row, backwards from (r, N)."""
    n_rows, n = residual.shape
    J = covariances.J
    JPf = J @ covariances.filtered
    push = residual - np.einsum("tij,tj->ti", JPf, residual)
    gain = J - JPf @ J
    after_r, before_r = np.empty((n_rows, n)), np.empty((n_rows, n))
    after_N, before_N = np.empty((n_rows, n, n)), np.empty((n_rows, n, n))
    for t in range(n_rows - 1, -1, -1):
        after_r[t], after_N[t] = r, N
        L = covariances.step[t]
        r = push[t] + L.T @ r
        N = gain[t] + L.T @ N @ L
        before_r[t], before_N[t] = r, N
    return after_r, after_N, before_r, before_N
