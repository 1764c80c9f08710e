"""Measurements reduced to what they say about the state: ``z = C' R^-1 y`` and ``J = C' R^-1 C``.

The log-density of a unit's measurements given its state is

    log p(y | h) = const + h' z - 1/2 h' J h,    const = -1/2 (D log 2 pi + log|R| + y' R^-1 y),

so the pair (z, J) is a sufficient statistic: every filter, smoother and likelihood downstream uses only
these, and a sensor that is missing at time t changes only z and J at time t.
"""

from dataclasses import dataclass, replace

import numpy as np

from .patterns import patterns_of, rows_of_patterns

_MAX_CONDITION = 1e12
_PIECE = 1024  # rows of measurements that stay in cache
_SAME = 1e-9  # relative difference of information matrices that is rounding
_ROUNDING = 1e-11  # part of a precision that is rounding in a difference of two
_LOSS = 1e-6  # part of a precision that a measurement cannot have taken away by rounding
_LOG_2PI = np.log(2 * np.pi)


@dataclass(frozen=True)
class Information:
    """Sufficient statistic of a series of measurements.

    Attributes
    ----------
    z : ndarray of shape (n_samples, n_states)
        ``C' R^-1 y`` over the sensors present.
    patterns : ndarray of shape (n_patterns, n_states, n_states)
        Distinct information matrices ``C' R^-1 C``; the first is that of complete rows when there is
        only one.
    index : ndarray of shape (n_samples,) or None
        Which pattern holds at each time step; None when there is one.
    const : ndarray of shape (n_samples,) or None
        The term of the log-density that does not depend on the state; only formed when asked for.
    """

    z: np.ndarray
    patterns: np.ndarray
    index: np.ndarray | None = None
    const: np.ndarray | None = None

    @property
    def is_constant(self):
        """Whether the same information matrix holds at every time step."""
        return self.index is None

    @property
    def pattern_of(self):
        """Which pattern holds at each time step, shape (n_samples,)."""
        return np.zeros(len(self.z), dtype=np.intp) if self.index is None else self.index

    @property
    def regular_patterns(self):
        """Whether the measurements of a pattern determine the states, shape (n_patterns,)."""
        return np.array([is_regular(J) for J in self.patterns])

    @property
    def determined_rows(self):
        """Whether the measurements of a time step determine the states, shape (n_samples,)."""
        return self.regular_patterns[self.pattern_of]

    @property
    def mean_information(self):
        """Average information matrix over time, shape (n_states, n_states)."""
        if self.index is None:
            return self.patterns[0]
        counts = np.bincount(self.index, minlength=len(self.patterns))
        return np.tensordot(counts / counts.sum(), self.patterns, 1)

    @property
    def determines_states(self):
        """Whether the average information matrix is regular: every state is seen by some sensor."""
        return is_regular(self.mean_information)

    def matrices(self, rows=slice(None)):
        """Information matrix of each time step in `rows`, shape (n_rows, n_states, n_states)."""
        if self.index is None:
            z = self.z[rows]
            return np.broadcast_to(self.patterns[0], (len(z), *self.patterns[0].shape))
        return self.patterns[self.index[rows]]


def is_regular(J):
    """Whether an information matrix is safely positive definite."""
    values = np.linalg.eigvalsh(J)
    return bool(values[0] > 0 and values[0] > values[-1] / _MAX_CONDITION)


def weights(C, R):
    """``R^-1 C``, shape (n_sensors, n_states), for a full `R` or the diagonal of one."""
    if R.ndim == 1:
        return C / R[:, None]
    return np.linalg.solve(R, C)


def information(Y, C, R, *, mean=None, with_const=False):
    """Sufficient statistic of measurements, NaN standing for a sensor that is missing.

    Parameters
    ----------
    Y : ndarray of shape (n_samples, n_sensors)
        Measurements.
    C : ndarray of shape (n_sensors, n_states)
    R : ndarray of shape (n_sensors,) or (n_sensors, n_sensors)
        Measurement noise covariance, or its diagonal.
    mean : ndarray of shape (n_sensors,), default=None
        Level of the measurements; None for centred ones.
    with_const : bool, default=False
        Also form the term of the log-density that is free of the state.

    Returns
    -------
    Information
    """
    W = weights(C, R)
    z = np.empty((len(Y), W.shape[1]))
    for first in range(0, len(Y), _PIECE):  # in cache, where a product with few columns is faster
        np.matmul(Y[first : first + _PIECE], W, out=z[first : first + _PIECE])
    if np.isfinite(z.sum()) and not with_const:  # a missing value anywhere reaches the sum
        if mean is not None and mean.any():
            z -= mean @ W
        return Information(z, (C.T @ W)[None])
    if mean is not None:
        Y = Y - mean
    present = ~np.isnan(Y)
    if present.all():
        return _complete(Y, C, R, with_const)
    first, index = patterns_of(present)
    missing = _missing_diagonal if R.ndim == 1 else _missing_full
    info = missing(Y, C, R, present, first, index, with_const)
    return info if len(first) > 1 else replace(info, index=None)


def _complete(Y, C, R, with_const):
    W = weights(C, R)
    const = None
    if with_const:
        logdet = np.log(R).sum() if R.ndim == 1 else np.linalg.slogdet(R)[1]
        scaled = Y / R if R.ndim == 1 else np.linalg.solve(R, Y.T).T
        const = -0.5 * (len(C) * _LOG_2PI + logdet + np.einsum("ti,ti->t", Y, scaled))
    return Information(Y @ W, (C.T @ W)[None], None, const)


def _missing_diagonal(Y, C, R, present, first, index, with_const):
    W = weights(C, R)
    filled = np.where(present, Y, 0.0)
    masks = present[first].astype(float)
    patterns = np.einsum("kd,di,dj->kij", masks, W, C, optimize=True)
    const = None
    if with_const:
        per_pattern = masks @ (_LOG_2PI + np.log(R))
        const = -0.5 * (per_pattern[index] + (filled**2 / R).sum(axis=1))
    return Information(filled @ W, patterns, index, const)


def _missing_full(Y, C, R, present, first, index, with_const):
    n_states = C.shape[1]
    z = np.zeros((len(Y), n_states))
    patterns = np.zeros((len(first), n_states, n_states))
    const = np.zeros(len(Y)) if with_const else None
    for k, rows in enumerate(rows_of_patterns(index, len(first))):
        seen = np.flatnonzero(present[first[k]])
        if len(seen) == 0:
            continue
        part = _complete(Y[np.ix_(rows, seen)], C[seen], R[np.ix_(seen, seen)], with_const)
        z[rows], patterns[k] = part.z, part.patterns[0]
        if with_const:
            const[rows] = part.const
    return Information(z, patterns, index, const)


def information_from_filter(prior, prior_cov, posterior, posterior_cov):
    """Sufficient statistic recovered from what a Kalman filter made of the measurements.

    A unit whose model is a black box can still take part: its filter's means and covariances before and
    after each measurement determine ``J = P+^-1 - P-^-1`` and ``z = P+^-1 h+ - P-^-1 h-``.

    Parameters
    ----------
    prior, posterior : ndarray of shape (n_samples, n_states)
        Predicted and filtered states.
    prior_cov, posterior_cov : ndarray of shape (n_states, n_states) or (n_samples, n_states, n_states)
        Their covariances, constant or per time step.

    Returns
    -------
    Information
        Matrices that differ by rounding only count as one.

    Raises
    ------
    ValueError
        If a covariance is singular, or a measurement seems to have taken information away.
    """
    before, after = _precision(prior_cov, "predicted"), _precision(posterior_cov, "filtered")
    z = (after @ posterior[..., None] - before @ prior[..., None])[..., 0]
    J = after - before
    z, J = _without_rounding(z, (J + np.swapaxes(J, -1, -2)) / 2, np.abs(after).max())
    if J.ndim == 2:
        return Information(z, J[None])
    grid = np.round(J / (_SAME * max(np.abs(J).max(), np.finfo(float).tiny)))
    _, index, counts = np.unique(grid.reshape(len(J), -1), axis=0, return_inverse=True, return_counts=True)
    index = index.reshape(-1)
    patterns = np.zeros((len(counts), *J.shape[1:]))
    np.add.at(patterns, index, J)
    patterns /= counts[:, None, None]
    return Information(z, patterns, index if len(counts) > 1 else None)


def _precision(covariance, which):
    covariance = np.asarray(covariance, dtype=float)
    values = np.linalg.eigvalsh(covariance)
    if not (values[..., 0] > np.finfo(float).eps * values[..., -1]).all():
        raise ValueError(
            f"A covariance of the {which} states is not positive definite, so what the measurements say "
            "cannot be read from it. States without uncertainty have to be left out."
        )
    return np.linalg.inv(covariance)


def _without_rounding(z, J, scale):
    """Statistic with the directions removed in which the difference of two precisions is rounding."""
    values, vectors = np.linalg.eigh(J)
    if values.min() < -_LOSS * scale:
        raise ValueError(
            "A measurement has made the states less certain: the filtered covariance is larger than the "
            "predicted one. Give the covariances before and after each measurement, in this order."
        )
    kept = (values > _ROUNDING * scale).astype(float)
    if kept.all():
        return z, J
    right = np.swapaxes(vectors, -1, -2)
    z = (vectors @ (kept[..., None] * (right @ z[..., None])))[..., 0]
    return z, (vectors * (kept * values)[..., None, :]) @ right
