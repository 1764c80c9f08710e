"""Exact Kalman filters in information form, the covariances they settle on, and records simulated from a plant."""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dgesv

from .episodes import episodes
from .matrices import covariance_root, eigen_root, remembered, spectral_radius
from .tuning import TUNING

# Covariances a linear filter settles on: Riccati and Lyapunov equations by structured doubling.
#
# The measurements enter only through the information matrix ``J = C' R^-1 C``, so the cost does not
# depend on the number of sensors. The solvers of both equations take one matrix or a stack of them.

_MAX_DOUBLINGS = 60
_RICCATI_SETTLED = 1e-9  # convergence is quadratic: an update of this size leaves an error of its square


class NotStationaryError(ValueError):
    """The model has no steady state: an unstable or undetectable mode."""


_RICCATI_MESSAGE = (
    "The filter has no steady state: the transition matrix has an unstable or marginal mode that the "
    "sensors do not see or that no noise excites. Check A, C and R, or detrend the data."
)


def predicted_covariance(A, J, Q):
    """Steady-state covariance of the one-step-ahead state prediction.

    Solves ``P = A (P^-1 + J)^-1 A' + Q`` by the structure-preserving doubling algorithm [1]_.

    .. [1] Chu, Fan, Lin, Wang (2004), Structure-preserving algorithms for periodic discrete-time
           algebraic Riccati equations, International Journal of Control 77(8).
    """
    _require_finite(A=A, J=J, Q=Q)
    with np.errstate(over="ignore", invalid="ignore"):
        P, F = _doubled(A, J, Q)
    # F is a power of the filter's transition matrix: it has vanished unless the filter is not stable
    if np.abs(F).max(initial=0.0) >= 1:
        step = A - A @ filtered_covariance(P, J) @ J  # which carries a prediction error to the next step
        if spectral_radius(step).max() >= 1:
            raise NotStationaryError(_RICCATI_MESSAGE)
    return P


def _doubled(A, J, Q):
    """Solution of the Riccati equation, and a high power of the transition matrix of its filter.

    All are (..., n, n).
    """
    n = A.shape[-1]
    eye, right = np.eye(n), np.empty((n, 2 * n), order="F")
    F, G, P = np.swapaxes(A, -1, -2), J, Q
    for _ in range(_MAX_DOUBLINGS):
        if A.ndim == 2:  # of small matrices, for which the way to LAPACK is what counts
            right[:, :n], right[:, n:] = F, G
            _, _, solved, info = dgesv(eye + G @ P, right)
        else:
            solved, info = np.linalg.solve(eye + G @ P, np.concatenate([F, G], axis=-1)), 0
        WF, WG, FT = solved[..., :n], solved[..., n:], np.swapaxes(F, -1, -2)
        update = FT @ P @ WF
        P = P + update
        growth = np.diagonal(update, axis1=-2, axis2=-1)
        if info or not growth.max(initial=0.0) < np.inf:
            break
        settled = (growth <= _RICCATI_SETTLED * np.diagonal(P, axis1=-2, axis2=-1)).all()
        G = G + F @ WG @ FT
        F = F @ WF
        if settled:
            return (P + np.swapaxes(P, -1, -2)) / 2, F
    raise NotStationaryError(_RICCATI_MESSAGE)


def stationary_covariance(A, Q):
    """Covariance of the stationary states, ``S = A S A' + Q``, by doubling. All are (..., n, n)."""
    _require_finite(A=A, Q=Q)
    F, S = A, Q
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(_MAX_DOUBLINGS):
            update = F @ S @ np.swapaxes(F, -1, -2)
            S = S + update
            growth = np.diagonal(update, axis1=-2, axis2=-1)
            if not growth.max(initial=0.0) < np.inf:
                break
            F = F @ F
            if (growth <= _RICCATI_SETTLED * np.diagonal(S, axis1=-2, axis2=-1)).all():
                if np.abs(F).max(initial=0.0) >= 1 and spectral_radius(A).max() >= 1:
                    break  # an unstable mode that no noise excites
                return (S + np.swapaxes(S, -1, -2)) / 2
    raise NotStationaryError(
        f"The plant is not stationary: the spectral radius of the transition matrix is "
        f"{np.max(spectral_radius(A)):.4g}, it must be below 1."
    )


def adjoint_lyapunov(A, G):
    """Solve ``X = A' X A + G`` for a stable A and a symmetric G that need not be definite, by doubling.

    If G is the derivative of a function of the stationary covariance S, X is its derivative with respect
    to Q and ``2 X A S`` that with respect to A.
    """
    F, X = A, (G + np.swapaxes(G, -1, -2)) / 2
    for _ in range(_MAX_DOUBLINGS):
        update = np.swapaxes(F, -1, -2) @ X @ F
        X = X + update
        if not np.abs(update).max() > _RICCATI_SETTLED * np.abs(X).max():
            break
        F = F @ F
    return X


def filtered_covariance(P, J):
    """Covariance after the measurement, ``(P^-1 + J)^-1``, without inverting `P` or `J`. Both are (..., n, n)."""
    Pf = np.linalg.solve(np.eye(P.shape[-1]) + P @ J, P)
    return (Pf + np.swapaxes(Pf, -1, -2)) / 2


def filter_radius(A, J, Q):
    """Spectral radius of a filter that has settled, by which it forgets from row to row; of several the largest."""
    n = J.shape[-1]
    P = predicted_covariance(A[..., :n], J, Q)
    return float(spectral_radius(A[..., :n] @ np.linalg.inv(np.eye(n) + P @ J)).max())


def _require_finite(**matrices):
    for name, matrix in matrices.items():
        if not np.isfinite(matrix).all():
            raise ValueError(f"{name} has values that are not finite; there is no steady state to find.")


# Exact Kalman filters in information form, and through statsmodels where a unit's measurements are missing.
#
# With a constant information matrix the covariances do not depend on the data and settle after a few steps.
# They are computed step by step until they have settled; from there on the filter is a linear recurrence with
# constant matrices, solved without a loop over time (:mod:`~skfedcausal.statespace.kalman`).
#
# Where the information matrix changes from step to step (sensors that are missing now and then, zero for an
# absent unit) covariances are followed row by row: a step costs a few products of n x n matrices whatever the
# number of sensors, and singular information matrices need no special care.

_SETTLED = 1e-13  # relative distance to the steady covariance that is rounding
_CACHE_BYTES = 1 << 19  # a chunk of a recurrence and its buffer stay in the second-level cache
_CHUNK_BYTES = 1 << 28  # of the matrices of rows that are smoothed together
_CHUNK = 20_000  # rows that statsmodels filters together
FILTERED_BYTES = 1 << 24  # that are filtered together: few enough for their memory to be used again


class CovarianceSchedule(NamedTuple):
    """Predicted and filtered covariances of the first steps; the last entry holds ever after."""

    A: np.ndarray  # (n, n)
    J: np.ndarray  # (n, n)
    predicted: np.ndarray  # (n_steps, n, n)
    filtered: np.ndarray  # (n_steps, n, n)

    @property
    def n_transient(self):
        """Number of leading steps whose covariances have not settled."""
        return len(self.predicted) - 1

    def at(self, t):
        """Predicted and filtered covariance at step `t` of an episode."""
        k = min(t, self.n_transient)
        return self.predicted[k], self.filtered[k]


@remembered
def covariance_schedule(A, Q, J, P0=None, max_steps=100_000):
    """Covariances of the filter from the first step until they settle.

    A, Q, J and P0 are (n, n); P0 None for the stationary covariance.
    """
    settled = predicted_covariance(A, J, Q)
    P = stationary_covariance(A, Q) if P0 is None else P0
    eye = np.eye(len(A))
    scale = np.sqrt(np.maximum(settled.diagonal(), np.finfo(float).tiny))
    scale = np.outer(scale, scale)
    # later ones are as good as settled
    max_steps = min(max_steps, max(TUNING.kalman_least_steps, TUNING.kalman_schedule_bytes // (16 * len(A) ** 2)))
    predicted: list[np.ndarray] = []
    filtered: list[np.ndarray] = []
    distance, previous = np.abs((P - settled) / scale).max(), np.inf
    while distance > _SETTLED and len(predicted) < max_steps:
        if distance < TUNING.kalman_nearly_settled and distance >= previous:
            break
        _, _, Pf, _ = dgesv(eye + P @ J, P)
        predicted.append(P)
        filtered.append(Pf)
        P = A @ Pf @ A.T + Q
        P = (P + P.T) / 2
        previous, distance = distance, np.abs((P - settled) / scale).max()
    predicted.append(settled)
    filtered.append(filtered_covariance(settled, J))
    return CovarianceSchedule(A, J, np.array(predicted), np.array(filtered))


def filtered_states(schedule, z, *, exogenous=None, starts=(0,), out=None):
    """Filtered states ``E[h_t | z_1..z_t]`` of one or several episodes from information vectors, (n_samples, n)."""
    A, J = schedule.A, schedule.J
    n_samples, n = len(z), len(A)
    H = np.empty((n_samples, n)) if out is None else out
    settled, n_transient = schedule.filtered[-1], len(schedule.filtered) - 1
    F = A - settled @ J @ A
    keep = None if exogenous is None else np.eye(n) - settled @ J
    for start, stop in episodes(starts, n_samples):
        first, h = min(stop, start + n_transient), None
        for k, t in enumerate(range(start, first)):  # rows with covariances of their own
            prediction = np.zeros(n) if h is None else A @ h
            if exogenous is not None:
                prediction = prediction + exogenous[t]
            h = H[t] = prediction + schedule.filtered[k] @ (z[t] - J @ prediction)
        if first < stop:
            drives = [(z[first:stop], settled)]
            if exogenous is not None:
                drives.append((exogenous[first:stop], keep))
            driven_recurrence(F, *drives, x0=h, out=H[first:stop])
    return H


def predicted_states(A, H, *, exogenous=None, starts=(0,)):
    """One-step-ahead predicted states from filtered ones; zero mean at the start of an episode.

    `H` and `exogenous` are (n_samples, n).
    """
    predicted = np.empty_like(H)
    np.dot(H[:-1], A.T, out=predicted[1:])
    predicted[list(starts)] = 0.0
    if exogenous is not None:
        predicted += exogenous
    return predicted


def log_likelihood_terms(schedule, z, const, predicted, starts=(0,)):
    """Log-density of each measurement given its past, shape (n_samples,).

    With innovation ``r = z - J h`` of the predicted state h, predicted covariance P and filtered
    covariance Pf: ``const - 1/2 (log|I + P J| - 2 h' z + h' J h - r' Pf r)``.
    """
    n_samples, n = z.shape
    J = schedule.J
    logdet = np.linalg.slogdet(np.eye(n) + schedule.predicted @ J)[1]
    Jh = predicted @ J
    r = z - Jh
    quadratic = np.einsum("ti,ti->t", predicted, Jh - 2 * z)
    gained = np.einsum("ti,ti->t", r @ schedule.filtered[-1], r)
    logdets = np.full(n_samples, logdet[-1])
    for start, stop in episodes(starts, n_samples):
        k = min(stop - start, schedule.n_transient)
        rows = slice(start, start + k)
        logdets[rows] = logdet[:k]
        gained[rows] = np.einsum("ti,tij,tj->t", r[rows], schedule.filtered[:k], r[rows])
    return const - 0.5 * (logdets + quadratic - gained)


class Covariances(NamedTuple):
    """Covariances of consecutive rows of an episode."""

    J: np.ndarray  # (n_rows, n, n)
    predicted: np.ndarray  # (n_rows, n, n)
    filtered: np.ndarray  # (n_rows, n, n)
    carried: Any  # (n_rows, n, n), None of plants of several lags
    step: Any  # likewise
    logdet: Any = None  # (n_rows,) of ``I + P J``, None where nobody computed it


def covariance_rows(A, Q, J, start):
    """Follow the covariances over consecutive rows of one episode.

    A, Q and `start` are (n, n), `J` (n_rows, n, n); also the covariance predicted behind the last row.
    """
    n_rows, n, _ = J.shape
    predicted, filtered, carried = (np.empty((n_rows, n, n)) for _ in range(3))
    pivots = np.empty((n_rows, n))
    eye, AT, P = np.eye(n), np.ascontiguousarray(A.T), start
    for t in range(n_rows):
        predicted[t] = P
        factors, _, Pf, _ = dgesv(eye + P @ J[t], P)
        pivots[t] = factors.diagonal()
        filtered[t] = Pf = (Pf + Pf.T) / 2
        carried[t] = APf = A @ Pf
        P = APf @ AT + Q
    return Covariances(J, predicted, filtered, carried, A - carried @ J, np.log(np.abs(pivots)).sum(axis=1)), P


def predicted_means(covariances, z, start, drive=None):
    """Predicted means of one or several series that share the covariances.

    `z` and `drive` are (n_rows, n, k), `start` (n, k); also the mean predicted behind the last row.
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

    `z` and `means` are (n_rows, n), the terms (n_rows,).
    """
    logdet = covariances.logdet
    if logdet is None:
        logdet = np.linalg.slogdet(np.eye(z.shape[1]) + covariances.predicted @ covariances.J)[1]
    r = z - np.einsum("tij,tj->ti", covariances.J, means)
    quadratic = -np.einsum("ti,ti->t", means, z + r)
    gained = np.einsum("ti,tij,tj->t", r, covariances.filtered, r)
    return -0.5 * (logdet + quadratic - gained)


def chunks(start, stop, n, n_bytes=None):
    """Rows of an episode in chunks whose arrays take a bounded amount of memory."""
    length = max(64, (n_bytes or _CHUNK_BYTES) // (8 * 6 * n * n))
    return [slice(a, min(stop, a + length)) for a in range(start, stop, length)]


class FilteredRows(NamedTuple):
    """Predicted and filtered states of consecutive rows, their log-density terms and covariances."""

    rows: slice
    predicted: np.ndarray
    filtered: np.ndarray
    terms: np.ndarray
    covariances: Covariances


def filter_rows(A, Q, P0, z, matrices, *, starts=(0,), exogenous=None):
    """Filter one or several episodes, chunk by chunk.

    `z` and `exogenous` are (n_samples, n); ``matrices(rows)`` gives information matrices (n_rows, n, n).
    """
    for start, stop in episodes(starts, len(z)):
        mean, cov = initial_mean(exogenous, start, len(A)), P0
        for rows in chunks(start, stop, len(A), FILTERED_BYTES):
            covariances, cov = covariance_rows(A, Q, matrices(rows), cov)
            drive = step_drive(exogenous, rows, stop)
            means, mean = predicted_means(covariances, z[rows][..., None], mean, drive)
            means = means[..., 0]
            residual = z[rows] - np.einsum("tij,tj->ti", covariances.J, means)
            filtered = means + np.einsum("tij,tj->ti", covariances.filtered, residual)
            terms = log_density_terms(covariances, z[rows], means)
            yield FilteredRows(rows, means, filtered, terms, covariances)


def initial_mean(exogenous, start, n):
    """Expectation of the first state of an episode, shape (n, 1)."""
    return np.zeros((n, 1)) if exogenous is None else exogenous[start][:, None]


def step_drive(exogenous, rows, stop):
    """Known term of the step that leaves each row, zero at the last row of an episode."""
    if exogenous is None:
        return None
    drive = np.zeros((rows.stop - rows.start, exogenous.shape[1], 1))
    following = exogenous[rows.start + 1 : min(stop, rows.stop + 1)]
    drive[: len(following), :, 0] = following
    return drive


class Filtered(NamedTuple):
    """Filter output."""

    filtered: np.ndarray  # (n_samples, n)
    predicted: np.ndarray  # (n_samples, n)
    log_likelihood: np.ndarray  # (n_samples,)


def all_rows(parts, shape):
    """The :class:`Filtered` of a record (n_samples, n) from the :class:`FilteredRows` of its parts."""
    filtered, predicted = np.empty((2, *shape))
    terms = np.empty(shape[0])
    for part in parts:
        predicted[part.rows], filtered[part.rows], terms[part.rows] = part.predicted, part.filtered, part.terms
    return Filtered(filtered, predicted, terms)


def pseudo_measurements(info):
    """Designs ``L'`` per pattern and whitened measurements per time step.

    The designs are (n_patterns, n, n), the measurements (n_samples, n).
    """
    values, vectors = np.linalg.eigh(info.patterns)
    kept = values > TUNING.kalman_rank * np.maximum(values[:, -1:], 1e-300)
    root = np.sqrt(np.where(kept, values, 0.0))
    inverse = np.where(kept, 1 / np.where(kept, root, 1.0), 0.0)
    designs = root[:, :, None] * np.swapaxes(vectors, 1, 2)
    whiten = inverse[:, :, None] * np.swapaxes(vectors, 1, 2)
    return designs, np.einsum("tij,tj->ti", whiten[info.pattern_of], info.z)


def filter_missing(A, Q, P0, info, *, exogenous=None, starts=(0,)):
    """Filtered and predicted states of one unit, exact for any pattern of missing measurements.

    Each time step is first reduced to at most ``n_states`` pseudo-measurements ``L' h + e``, ``e ~ N(0, I)``,
    with ``L L' = J`` of that step, so the cost does not depend on the number of sensors.
    """
    from statsmodels.tsa.statespace.kalman_filter import KalmanFilter  # slow to import, for gaps only

    designs, series = pseudo_measurements(info)
    n_samples, n = series.shape
    filtered, predicted = np.empty((n_samples, n)), np.empty((n_samples, n))
    loglik = np.empty(n_samples)
    for start, stop in episodes(starts, n_samples):
        mean, cov = np.zeros(n) if exogenous is None else exogenous[start], P0
        for first in range(start, stop, _CHUNK):
            rows = slice(first, min(stop, first + _CHUNK))
            model = KalmanFilter(k_endog=n, k_states=n, tolerance=0.0)
            model.bind(np.ascontiguousarray(series[rows]))
            model["design"] = np.asfortranarray(np.transpose(designs[info.pattern_of[rows]], (1, 2, 0)))
            model["transition"], model["selection"], model["state_cov"] = A, np.eye(n), Q
            model["obs_cov"] = np.eye(n)
            if exogenous is not None:
                model["state_intercept"] = step_drive(exogenous, rows, stop)[:, :, 0].T
            model.initialize_known(mean, cov)
            model.filter_univariate = True  # pseudo-measurements have noise of their own each: no matrix is inverted
            model.memory_no_gain = model.memory_no_smoothing = model.memory_no_std_forecast = True
            model.memory_no_forecast_cov = True
            result = model.filter()
            mean, cov = result.predicted_state[:, -1], result.predicted_state_cov[:, :, -1]
            filtered[rows], predicted[rows] = result.filtered_state.T, result.predicted_state.T[:-1]
            loglik[rows] = result.llf_obs
    # the likelihood of the pseudo-measurements, less the part of it that is free of the states
    loglik += 0.5 * (n * np.log(2 * np.pi) + np.einsum("ti,ti->t", series, series))
    return Filtered(filtered, predicted, loglik)


class _Level(NamedTuple):
    """Matrices that solve the recurrence inside blocks of one level."""

    block: int
    toeplitz: np.ndarray  # (block * p, block * p): row of inputs -> row of states
    last: np.ndarray  # (block * p, p): row of inputs -> state at the end of the block
    step: np.ndarray  # F, transposed


@remembered
def _levels(F, rows):
    """Levels for up to `rows` rows and the matrix that steps from block end to block end. F is (p, p)."""
    p, levels = len(F), []
    block = 8 if p <= 8 else 4 if p <= 32 else 2
    while rows >= 2 * block:
        powers = [np.eye(p)]
        for _ in range(block - 1):
            powers.append(powers[-1] @ F)
        toeplitz = np.zeros((block * p, block * p))
        for out in range(block):
            for source in range(out + 1):
                at = slice(source * p, (source + 1) * p), slice(out * p, (out + 1) * p)
                toeplitz[at] = powers[out - source].T
        last = np.ascontiguousarray(toeplitz[:, -p:])
        levels.append(_Level(block, toeplitz, last, np.ascontiguousarray(F.T)))
        F = powers[-1] @ F
        rows //= block
    return levels, F


def _solve(g, out, levels, F_last):
    """Write the states driven by `g` (overwritten) from a zero start into `out`.

    `g` and `out` are (..., n_rows, p), F_last (p, p).
    """
    *batch, n_rows, p = g.shape
    if not levels:
        x = out[..., 0, :] = g[..., 0, :]
        for t in range(1, n_rows):
            x = out[..., t, :] = x @ F_last.T + g[..., t, :]
        return
    level = levels[0]
    n_blocks = n_rows // level.block
    rows = n_blocks * level.block
    if n_blocks:
        in_blocks = (*batch, n_blocks, level.block * p)
        blocks = g[..., :rows, :].reshape(in_blocks)
        if n_blocks > 1:
            ends = blocks[..., :-1, :] @ level.last
            _solve(ends, ends, levels[1:], F_last)
            blocks[..., 1:, :p] += ends @ level.step  # the state before a block acts like an input to it
        np.matmul(blocks, level.toeplitz, out=out[..., :rows, :].reshape(in_blocks))
    if rows < n_rows:
        rest = g[..., rows:, :].reshape(*batch, -1)
        if rows:
            rest[..., :p] += out[..., rows - 1, :] @ level.step
        k = rest.shape[-1]
        np.matmul(rest, level.toeplitz[:k, :k], out=out[..., rows:, :].reshape(*batch, k))


class Recurrence:
    """A recurrence whose powers of ``F`` are prepared once, for use on many records."""

    def __init__(self, F, n_rows=1 << 62):
        self._F = np.ascontiguousarray(F, dtype=float)
        self._chunk = min(n_rows, max(256, _CACHE_BYTES // (8 * len(self._F))))
        self._levels, self._F_last = _levels(self._F, self._chunk)

    def run(self, *drives, x0=None, out=None):
        """States of the recurrence, see :func:`driven_recurrence`."""
        *batch, n_samples, _ = drives[0][0].shape
        p = len(self._F)
        X = np.empty((*batch, n_samples, p)) if out is None else out
        if n_samples == 0:
            return X
        turned = [(Y, None if K is None else np.ascontiguousarray(K.T)) for Y, K in drives]
        buffer = np.empty((*batch, min(n_samples, self._chunk), p))
        x = x0
        for start in range(0, n_samples, self._chunk):
            stop = min(n_samples, start + self._chunk)
            g = buffer[..., : stop - start, :]
            for k, (Y, KT) in enumerate(turned):
                rows = Y[..., start:stop, :]
                if k > 0:
                    g += rows if KT is None else rows @ KT
                elif KT is None:
                    np.copyto(g, rows)
                else:
                    np.matmul(rows, KT, out=g)
            if x is not None:
                g[..., 0, :] += x @ self._F.T
            _solve(g, X[..., start:stop, :], self._levels, self._F_last)
            x = X[..., stop - 1, :]
        return X


def driven_recurrence(F, *drives, x0=None, out=None):
    """States of ``x[t] = F x[t-1] + sum_i K_i y_i[t]``, shape (..., n_samples, p).

    A value that is not finite spoils the block of rows it lies in, not only the later ones. Costs one
    product ``Y K'`` per drive plus about ``2 * block * p**2`` flops per row; beyond the output, memory is a
    fixed buffer of about half a megabyte.
    """
    return Recurrence(F, drives[0][0].shape[-2]).run(*drives, x0=x0, out=out)


# Records simulated from a plant: its states, and what measurements of given information say of them.


def simulated_states(A, Q, starts, n_samples, rng, *, exogenous=None, spread=None):
    """States of a plant, every episode from the stationary distribution, shape (n_samples, n)."""
    n = len(Q)
    first = stationary_covariance(A, Q)
    first = covariance_root(first if spread is None else first + spread)
    states = rng.normal(size=(n_samples, n)) @ covariance_root(Q).T
    if exogenous is not None:
        states += exogenous
    for start, stop in episodes(starts, n_samples):
        own = states[start:stop]
        own[0] = first @ rng.normal(size=n)
        driven_recurrence(A, (own, None), out=own)
    return states


def simulated_information(patterns, index, states, rng):
    """What measurements with information matrices J say of known states: ``J h + e``, e of covariance J.

    `patterns` is (n_patterns, n, n), `index` (n_samples,), `states` (n_samples, n).
    """
    z = np.einsum("tij,tj->ti", patterns[index], states)
    z += np.einsum("tij,tj->ti", eigen_root(patterns)[index], rng.normal(size=z.shape))
    return z
