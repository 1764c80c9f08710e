"""Lag covariances of a series and of its transitions, in one or several episodes."""

from dataclasses import dataclass

import numpy as np

from .episodes import episodes
from .positive import spectral_radius
from .rounding import without_last_bits

_UNRESOLVED = 2e-3  # relative error of averages over frequency
_MAX_FREQUENCIES = 400


def lag_covariances(series, lags, starts=(0,), present=None):
    """``sum_t s[t+l] s[t]'``, products never crossing an episode border.

    Parameters
    ----------
    series : ndarray of shape (n_samples, n)
        Centred series, zero where missing.
    lags : sequence of int
        Non-negative lags.
    starts : sequence of int
        First row of each episode.
    present : ndarray of shape (n_samples, n), default=None
        One where the series is there, zero where it is missing. The sums are then scaled up as if every
        product were there.

    Returns
    -------
    sums : ndarray of shape (n_lags, n, n)
    """
    n_samples, n = series.shape
    sums = np.zeros((len(lags), n, n))
    for k, lag in enumerate(lags):
        counts, n_products = np.zeros((n, n)), 0
        for start, stop in episodes(starts, n_samples):
            if start + lag >= stop:
                continue
            late, early = slice(start + lag, stop), slice(start, stop - lag)
            sums[k] += series[late].T @ series[early]
            n_products += stop - start - lag
            if present is not None:
                counts += present[late].T @ present[early]
        if present is not None:
            sums[k] *= n_products / np.maximum(counts, 1.0)
    return sums


@dataclass(frozen=True)
class TransitionMoments:
    """Lag covariances of the transitions ``(s[t-1] -> s[t])`` of a record.

    Attributes
    ----------
    late, cross, early : ndarray of shape (n_lags + 1, ..., n, n)
        Per transition, for lags l = 0..n_lags: mean of ``s[t+l] s[t]'``, of ``s[t+l] s[t-1]'`` and of
        ``s[t+l-1] s[t-1]'``, over transitions that lie l steps apart in one episode.
    back : ndarray of shape (n_lags + 1, ..., n, n)
        Mean of ``s[t+l-1] s[t]'``.
    n_transitions : int

    Notes
    -----
    The residuals ``r[t] = s[t] - A s[t-1]`` have lag covariances ``late - A back - cross A' + A early A'``
    exactly, whatever A; for states that move slowly this is far more accurate than what a truncated
    spectrum of s would give.
    """

    late: np.ndarray
    cross: np.ndarray
    early: np.ndarray
    back: np.ndarray
    n_transitions: int

    @classmethod
    def from_sums(cls, sums, series, starts):
        """Moments from the lag sums 0..n_lags+1 of a series and its rows at the ends of episodes."""
        late, early = sums[:-1].copy(), sums[:-1].copy()
        cross, back = sums[1:].copy(), np.empty_like(late)
        back[0] = sums[1].T
        back[1:] = sums[:-2]
        n_lags = len(late) - 1
        n_transitions = 0
        for start, stop in episodes(starts, len(series)):
            length = stop - start
            n_transitions += length - 1
            for lag in range(min(n_lags, length - 1) + 1):
                late[lag] -= np.outer(series[start + lag], series[start])
                early[lag] -= np.outer(series[stop - 1], series[stop - 1 - lag])
            for lag in range(1, min(n_lags, length) + 1):
                back[lag] -= np.outer(series[start + lag - 1], series[start])
                if lag < length:
                    back[lag] -= np.outer(series[stop - 1], series[stop - lag])
        n = max(n_transitions, 1)
        return cls(late / n, cross / n, early / n, back / n, n_transitions)

    def transformed(self, left):
        """Moments of ``left @ s``."""
        right = np.swapaxes(left, -1, -2)
        parts = (left @ part @ right for part in (self.late, self.cross, self.early, self.back))
        return TransitionMoments(*parts, self.n_transitions)

    def without_last_bits(self, scale):
        """The same moments, rounded as :func:`~skfedcausal.statespace.rounding.without_last_bits` says."""
        parts = (without_last_bits(part, scale) for part in (self.late, self.cross, self.early, self.back))
        return TransitionMoments(*parts, self.n_transitions)

    def blocks(self, slices, common=slice(0, 0)):
        """Moments of parts of the series, stacked along a new axis: shape (n_lags + 1, k, p, p).

        Columns `common` to all parts are appended to each.
        """
        column = np.arange(self.late.shape[-1])
        chosen = [np.concatenate([column[rows], column[common]]) for rows in slices]
        parts = (
            np.stack([part[:, own[:, None], own] for own in chosen], axis=1)
            for part in (self.late, self.cross, self.early, self.back)
        )
        return TransitionMoments(*parts, self.n_transitions)

    def spectra(self, frequencies):
        """Fourier sums over positive and negative lags.

        Returns
        -------
        late, cross, early : complex ndarray of shape (..., n_frequencies, n, n)
        """
        lags = np.arange(1, len(self.late))
        phase = np.exp(-1j * np.outer(frequencies, lags))

        def fourier(positive, negative):
            """Sum with the transposes of `negative` at negative lags."""
            forward = np.moveaxis(np.tensordot(phase, positive[1:], 1), 0, -3)
            backward = np.moveaxis(np.tensordot(phase, negative[1:], 1), 0, -3)
            zero = positive[0][..., None, :, :]
            return zero + forward + np.conj(np.swapaxes(backward, -1, -2))

        return (
            fourier(self.late, self.late),
            fourier(self.cross, self.back),
            fourier(self.early, self.early),
        )


def midpoints(n_frequencies):
    """Midpoints ``(k + 1/2) pi / n`` of a half circle."""
    return (np.arange(n_frequencies) + 0.5) * np.pi / n_frequencies


def resolving(A, at_least):
    """Midpoints fine enough to average what has the poles of A, twice.

    The error of a mean over n midpoints is of the order of the spectral radius to the power 2 n. The
    likelihood has only the poles of the filter and its lags set its frequencies, but the expected information
    has the spectrum of the states in it.

    Parameters
    ----------
    A : ndarray of shape (..., n, n)
    at_least : int
        Number of midpoints.
    """
    radius = min(float(np.max(spectral_radius(A))), 1 - 1e-12)
    needed = int(np.ceil(np.log(_UNRESOLVED) / (2 * np.log(max(radius, 1e-6)))))
    return midpoints(max(at_least, min(needed, _MAX_FREQUENCIES)))


def remove_episode_means(series, starts=(0,)):
    """Series less its mean in each episode (a copy)."""
    centred = np.array(series)
    for start, stop in episodes(starts, len(series)):
        centred[start:stop] -= centred[start:stop].mean(axis=0)
    return centred
