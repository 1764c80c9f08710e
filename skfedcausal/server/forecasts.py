"""How far a forecast of many rows may miss: what forecasts of the rows just before it have missed.

A plant that was learned says itself how far, and is too sure: it does not know of what it got wrong, or of what
has changed since. So its forecasts are run from every one of the last rows that are known, and what they missed of
the scores ``J^-1 z`` of rows that they had not seen gives the covariance of what this one will.
"""

import numpy as np
from scipy.special import ndtri, stdtrit

from ..statespace.episodes import episodes
from ..statespace.riccati import filtered_covariance, predicted_covariance

_WINDOW = 120  # rows from which forecasts are run, the last ones that are known
_OWN = 2.0  # rows that the plant's own covariance counts for
_FEWEST = 3.0  # effective number of rows at least, so that a band is finite
_OVERLAP = 3.0  # share of k that forecasts of k rows have in common with their neighbours, inverse
_AGEING = 0.25  # how what comes after k rows differs more from the past the shorter that is
_MOST_STEPS = 200  # ahead that misses are counted for; later ones are as far as the plant says from there on
_CLOSE = 1e-6  # relative change below which covariances have settled
_JITTER, _TINY = 1e-12, 1e-300


def forecast_covariances(run, start, n_steps, confidence=None):
    """Covariances of what a forecast from row `start` on misses of each unit's scores, (n_steps, p, p) each.

    With a confidence they are those of a Gaussian whose band is that of a Student t with as many degrees of
    freedom as the misses are worth.
    """
    plain, record = run.plain, run.record
    own = _own_covariances(plain, record, n_steps)
    missed = _misses(plain, record, start, n_steps)
    found = []
    for k, rows in enumerate(record.partition.slices):
        found.append(_calibrated(own[k], [part[:, rows] for part in missed], confidence))
    return found


def _own_covariances(plain, record, n_steps):
    """What the plant itself says of misses, by unit: of its states in that row, and of what a row shows of them."""
    n, J = record.partition.n_states, np.zeros_like(plain.A)
    J[:n, :n] = record.typical_information()
    P = filtered_covariance(predicted_covariance(plain.A, J, plain.Q), J)
    noise = np.linalg.pinv(J[:n, :n], hermitian=True)
    found = [np.empty((n_steps, rows.stop - rows.start, rows.stop - rows.start)) for rows in record.partition.slices]
    settled = False
    for k in range(n_steps):
        if not settled:
            new = plain.A @ P @ plain.A.T + plain.Q
            settled = k > 0 and np.abs(new - P).max() <= _CLOSE * np.abs(new).max()
            P = (new + new.T) / 2
        for own, rows in zip(found, record.partition.slices, strict=True):
            own[k] = P[rows, rows] + noise[rows, rows]
    return found


def _misses(plain, record, start, n_steps):
    """What forecasts of 1, 2, ... rows missed of the scores before `start`, (n_origins, n) each; NaN where none is."""
    first = max(row for row, _ in episodes(record.starts, record.n_samples) if row < start)
    scores = record.scores_of(slice(first, start))
    n_steps = min(n_steps, (start - first) // 3, _MOST_STEPS)
    missed, n = [], record.partition.n_states
    origins = np.arange(max(start - _WINDOW - n_steps, first), start - 1)
    for k, states in enumerate(plain.ahead(origins, n_steps, start), start=1):
        known = origins + k < start
        known &= origins >= start - k - _WINDOW
        missed.append(scores[origins[known] + k - first] - states[known, :n])
    return missed


def _calibrated(own, missed, confidence):
    """Covariances of one unit, from those that the plant says and from misses."""
    found, p = np.empty_like(own), own.shape[1]
    ratio, worth = np.eye(p), _FEWEST
    for k, said in enumerate(own):
        root = _root(said)
        if k < len(missed):
            errors = missed[k][np.isfinite(missed[k]).all(axis=1)]
            n_rows = len(errors)
            shown = (errors.T @ errors + _OWN * said) / (n_rows + _OWN)
            shown *= 1 + _AGEING * (k + 1) / (n_rows + k + 1)
            ratio = np.linalg.solve(root, np.linalg.solve(root, shown).T)  # later rows: as much more than is said
            worth = _effective_rows(np.linalg.solve(root, errors.T), k + 1)
        found[k] = _widening(worth, confidence) ** 2 * root @ ratio @ root.T
    return (found + np.swapaxes(found, 1, 2)) / 2


def _root(matrix):
    return np.linalg.cholesky(matrix + _JITTER * np.trace(matrix) / len(matrix) * np.eye(len(matrix)))


def _widening(worth, confidence):
    """A band of a Student t beside that of a Gaussian."""
    if confidence is None:
        return 1.0
    level = (1 + confidence) / 2
    return float(stdtrit(worth, level) / ndtri(level))


def _effective_rows(white, k):
    """How many independent rows the misses of k rows (p, n_rows) are worth: neighbours resemble each other."""
    if white.shape[1] < 2:
        return _FEWEST
    r = np.clip((white[:, 1:] * white[:, :-1]).sum() / max((white**2).sum(), _TINY), 0.0, 0.999)
    alike = max((1 + r * r) / (1 - r * r), k / _OVERLAP)
    return max(white.shape[1] / alike, _FEWEST)
