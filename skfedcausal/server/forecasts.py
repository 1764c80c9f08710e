"""How far a forecast of many rows may miss: what forecasts of the rows just before it have missed.

A plant that was learned says itself how far, and is too sure: it does not know of what it got wrong, or of what
has changed since. So its forecasts are run from every one of the last rows that are known. What they missed of the
scores ``J^-1 z`` of rows that they had not seen gives covariances, the last rows first, since misses come in spells;
and how often bands that were made in this way have held, row after row, says by how much the next one has to be
wider or narrower (split conformal, by the quantile of what was missed in shares of the band of its time). Forecasts
from the first rows of a record do not count: the filter has not yet forgotten what it began with, and one large miss
would make the bands of a hundred rows after it look too wide.
"""

import numpy as np
from scipy.signal import lfilter
from scipy.special import ndtri, stdtrit

from ..statespace.episodes import episodes
from ..statespace.kalman import filtered_covariance, predicted_covariance
from .tuning import TUNING

_WINDOW = 120  # rows whose bands are judged, the last ones that are known
_FORGOTTEN = 0.01  # share of what a filter began with that no longer matters
_JITTER, _TINY = 1e-12, 1e-300


def forecast_covariances(run, start, n_steps, confidence=None):
    """Covariances of what a forecast from row `start` on misses of each unit's scores, (n_steps, p, p) each.

    With a confidence they are those of a Gaussian whose band holds as often as such bands should have.
    """
    plain, record = run.plain, run.record
    J, P = _settled_filter(plain, record)
    own = _own_covariances(plain, record, n_steps, J, P)
    missed = _misses(plain, record, start, n_steps, _memory(plain.A, J, P))
    units = zip(own, record.partition.slices, strict=True)
    return [_calibrated(said, missed[..., rows], confidence) for said, rows in units]


def begin_of(record, start):
    """First row of the episode that the row before `start` is in."""
    return max(row for row, _ in episodes(record.starts, record.n_samples) if row < start)


def counted_steps(record, start):
    """Rows ahead of which enough forecasts end before `start` for their misses to be counted."""
    return (start - begin_of(record, start)) // TUNING.forecasts_times


def _settled_filter(plain, record):
    """Information of a row about states and lags, and the covariance of filtered ones long after the beginning."""
    n, J = record.partition.n_states, np.zeros_like(plain.A)
    J[:n, :n] = record.typical_information()
    return J, filtered_covariance(predicted_covariance(plain.A, J, plain.Q), J)


def _memory(A, J, P):
    """Rows after which a filter has forgotten what it began with, TUNING.forecasts_starts ways on average."""
    error = np.random.default_rng(0).standard_normal((len(A), TUNING.forecasts_starts))
    first, rows = np.linalg.norm(error), 0
    while np.linalg.norm(error) > _FORGOTTEN * first and rows < _WINDOW:
        error, rows = A @ (error - P @ (J @ error)), rows + 1
    return rows


def _own_covariances(plain, record, n_steps, J, P):
    """What the plant itself says of misses, by unit: of its states in that row, and of what a row shows of them."""
    n = record.partition.n_states
    noise = np.linalg.pinv(J[:n, :n], hermitian=True)
    found = [np.empty((n_steps, rows.stop - rows.start, rows.stop - rows.start)) for rows in record.partition.slices]
    settled = False
    for k in range(n_steps):
        if not settled:
            new = plain.A @ P @ plain.A.T + plain.Q
            settled = k > 0 and np.abs(new - P).max() <= TUNING.forecasts_close * np.abs(new).max()
            P = (new + new.T) / 2
        for own, rows in zip(found, record.partition.slices, strict=True):
            own[k] = P[rows, rows] + noise[rows, rows]
    return found


def _misses(plain, record, start, n_steps, memory):
    """What forecasts of 1, 2, ... rows missed of the scores of rows before `start`, (n_ahead, n_rows, n).

    NaN for rows that were not measured, or are too near the beginning for a forecast of so many rows by a filter
    with so long a memory.
    """
    begin = begin_of(record, start)
    settled = begin + min(memory, (start - begin) // TUNING.forecasts_beginning)
    n_steps = min(n_steps, counted_steps(record, start), TUNING.forecasts_most_steps)
    first = max(start - _WINDOW - TUNING.forecasts_earlier - 2 * n_steps, begin)
    scores, n = record.scores_of(slice(first, start)), record.partition.n_states
    missed, early = np.full((n_steps, len(scores), n), np.nan), max(settled - first, 0)
    for k, states in enumerate(plain.ahead(np.arange(first, start - 1), n_steps, start), start=1):
        missed[k - 1, early + k :] = scores[early + k :] - states[early : len(scores) - k, :n]
    return missed


def _calibrated(own, missed, confidence):
    """Covariances of one unit (n_steps, p, p), from those that the plant says and from misses (n_ahead, n_rows, p)."""
    there = np.isfinite(missed).all(axis=2)
    errors = np.where(there[..., None], missed, 0.0)
    found, ratio = np.empty_like(own), np.eye(own.shape[1])
    weights = 0.5 ** (np.arange(errors.shape[1])[::-1] / TUNING.forecasts_half_life) * there
    factors = _factors(own[: len(errors)], errors, there, confidence)
    factor = _widening(TUNING.forecasts_fewest, confidence)
    for k, said in enumerate(own):
        root = _root(said)
        if k < len(errors):
            n_rows = _worth(weights[k].sum(), np.square(weights[k]).sum())
            seen = errors[k].T @ (weights[k][:, None] * errors[k]) * n_rows / max(weights[k].sum(), _TINY)
            shown = (seen + TUNING.forecasts_own * said) / (n_rows + TUNING.forecasts_own)
            ratio = np.linalg.solve(root, np.linalg.solve(root, shown).T)  # later rows: as much more than is said
            factor = factors[k]
        found[k] = factor**2 * root @ ratio @ root.T
    return (found + np.swapaxes(found, 1, 2)) / 2


def _factors(own, errors, there, confidence):
    """By how much bands of 1, 2, ... rows have to be wider, from how those of earlier rows have held."""
    decay = 0.5 ** (1 / TUNING.forecasts_half_life)
    sums = lfilter([1.0], [1.0, -decay], there.astype(float), axis=1)
    squares = lfilter([1.0], [1.0, -(decay**2)], there.astype(float), axis=1)
    n_rows = _worth(sums, squares)[..., None]
    seen = lfilter([1.0], [1.0, -decay], errors**2, axis=1) / np.maximum(sums, _TINY)[..., None]
    said = np.einsum("kii->ki", own)[:, None]
    band = np.sqrt((n_rows * seen + TUNING.forecasts_own * said) / (n_rows + TUNING.forecasts_own))
    found = []
    for k in range(1, len(errors) + 1):
        judged = there[k - 1, k:]
        shares = (np.abs(errors[k - 1, k:]) / np.maximum(band[k - 1, :-k], _TINY))[judged][-_WINDOW:]
        found.append(_factor(shares, len(shares) / max(k / TUNING.forecasts_overlap, 1.0), confidence))
    return found


def _factor(shares, worth, confidence):
    """The same from misses in shares of standard deviations (n_rows, p), worth so many independent rows."""
    size = 1.0
    if len(shares) and confidence is None:
        size = np.sqrt(np.square(shares).mean())
    elif len(shares):
        level = min(confidence * (1 + 1 / worth), 1 - (1 - confidence) / TUNING.forecasts_rarest)
        size = np.quantile(shares, level) / ndtri((1 + confidence) / 2)
    trusted = worth / (worth + TUNING.forecasts_trusted)
    return max(size, _TINY) ** trusted * _widening(max(worth, TUNING.forecasts_fewest), confidence)


def _worth(sums, squares):
    """Rows of equal weight that rows of these sums of weights and of their squares are worth."""
    return sums**2 / np.maximum(squares, _TINY)


def _root(matrix):
    return np.linalg.cholesky(matrix + _JITTER * np.trace(matrix) / len(matrix) * np.eye(len(matrix)))


def _widening(worth, confidence):
    """A band of a Student t beside that of a Gaussian."""
    if confidence is None:
        return 1.0
    level = (1 + confidence) / 2
    return float(stdtrit(worth, level) / ndtri(level))
