"""What the measurements of all rows say of the states, least squares row by row, and its lag covariances."""

import numpy as np

from ..statespace.episodes import PIECE, TransitionMoments, episodes, lag_covariances, remove_episode_means
from ..statespace.observation import is_regular
from ..statespace.rounding import without_last_bits
from ..statespace.units import lag_shares


class Scores:
    """Centred scores ``s = J^-1 z`` of a record with its inputs and steps, and their lag covariances.

    Inputs and steps are scaled to unit variance.

    Time steps at which a unit's measurements do not determine its states are left out of every product
    they enter; the covariance of the scores around the states is their average over the steps used.

    Covariances come without their last bits: where a plant is nearly degenerate its likelihood has several
    maxima, and which one is reached must not depend on rounding errors of sums.
    """

    def __init__(self, record):
        self._record = record
        partition = record.partition
        joined = np.empty((record.n_samples, partition.n_regressors))
        present, noise = [], []
        if record.is_constant and all(is_regular(part.patterns[0]) for part in record.parts):
            noise = [np.linalg.inv(part.patterns[0]) for part in record.parts]
            _write_scores(record.parts, noise, partition.slices, joined)
        else:
            for part, rows in zip(record.parts, partition.slices, strict=True):
                there, N = _unit_scores(part, joined[:, rows])
                present.append(there)
                noise.append(N)
        self.noise = [without_last_bits(N, np.sqrt(np.diag(N))) for N in noise]
        self._present = None
        known = joined[:, partition.n_states :]
        if record.u is not None:
            known[:, : partition.n_inputs] = record.standard_inputs
        if record.steps:
            known[:, partition.n_inputs :] = record.standard_steps
        if all(p is None for p in present):
            self._series = remove_episode_means(joined, record.starts, copy=False)
        else:
            full = np.ones(record.n_samples, dtype=bool)
            masks = [full if p is None else p for p in present]
            owner = np.concatenate([partition.unit_of_state, np.full(partition.n_known, len(masks))])
            self._present = np.column_stack([*masks, full])[:, owner].astype(float)
            self._series = _remove_present_means(joined, self._present, record.starts)
        self._sums = np.empty((0, partition.n_regressors, partition.n_regressors))

    @property
    def known(self):
        """Centred inputs and steps of unit variance, shape (n_samples, n_inputs + n_steps)."""
        return self._series[:, self._record.partition.n_states :]

    @property
    def series(self):
        """Centred scores, inputs and steps, zero where missing, shape (n_samples, c)."""
        return self._series

    def of_unit(self, unit):
        """Centred scores of one unit and where they are there (None: everywhere)."""
        rows = self._record.partition.slices[unit]
        return self._series[:, rows], None if self._present is None else self._present[:, rows]

    def lag_shares(self, n_lags):
        """Share of products of two units' scores that are there, shape (n_lags + 1, n_units, n_units)."""
        partition = self._record.partition
        if self._present is None:
            return np.ones((n_lags + 1, partition.n_units, partition.n_units))
        return lag_shares(self._present[:, [rows.start for rows in partition.slices]], n_lags)

    @property
    def known_sums(self):
        """Sums of lagged products for the first lags, as many as were needed so far."""
        return self._sums

    def covariance(self):
        """Sample covariance of the scores, inputs and steps, shape (c, c)."""
        return without_last_bits(self._lag_sums(1)[0] / self._record.n_samples, self._scale)

    def level_covariance(self):
        """Sample covariance of the scores around their levels before and after the steps, shape (n, n)."""
        G, n = self.covariance(), self._record.partition.n_states
        steps = slice(n + self._record.partition.n_inputs, None)
        if not self._record.steps:
            return G[:n, :n]
        with_steps = G[:n, steps]
        return G[:n, :n] - with_steps @ np.linalg.solve(G[steps, steps], with_steps.T)

    def moments(self, n_lags):
        """Lag covariances of the transitions, a :class:`TransitionMoments`."""
        moments = TransitionMoments.from_sums(self._lag_sums(n_lags + 2), self._series, self._record.starts)
        return moments.without_last_bits(self._scale)

    def lagged_moments(self, n_lags, n_plant_lags, n_dropped):
        """The same of rows ``[s[t]; s[t-1]; ...]`` of complete records, for plants of several lags."""
        pieces, starts = [], [0]
        for start, stop in episodes(self._record.starts, self._record.n_samples):
            rows = [self._series[start + n_dropped - lag : stop - lag] for lag in range(n_plant_lags)]
            pieces.append(np.hstack(rows))
            starts.append(starts[-1] + len(pieces[-1]))
        series, starts = np.concatenate(pieces), tuple(starts[:-1])
        sums = lag_covariances(series, range(n_lags + 2), starts)
        moments = TransitionMoments.from_sums(sums, series, starts)
        return moments.without_last_bits(np.tile(self._scale, n_plant_lags))

    @property
    def _scale(self):
        """Standard deviations of scores and inputs."""
        return np.sqrt(np.diag(self._lag_sums(1)[0]) / self._record.n_samples)

    def _lag_sums(self, n_lags):
        known = len(self._sums)
        if n_lags > known:
            new = lag_covariances(self._series, range(known, n_lags), self._record.starts, self._present)
            self._sums = np.concatenate([self._sums, new])
        return self._sums[:n_lags]


def _write_scores(parts, noise, slices, out):
    """Write the scores of units whose sensors are always there, a few rows of all of them at a time."""
    for first in range(0, len(out), PIECE):
        rows = slice(first, first + PIECE)
        for part, N, own in zip(parts, noise, slices, strict=True):
            np.matmul(part.z[rows], N, out=out[rows, own])


def _unit_scores(part, out):
    """Write the scores of one unit; mask of the steps that determine them (None: all), their covariance."""
    if part.is_constant and is_regular(part.patterns[0]):
        N = np.linalg.inv(part.patterns[0])
        out[:] = part.z @ N
        return None, N
    index, definite = part.pattern_of, part.regular_patterns
    inverse = np.zeros_like(part.patterns)
    inverse[definite] = np.linalg.inv(part.patterns[definite])
    counts = np.bincount(index, minlength=len(part.patterns)) * definite
    noise = np.tensordot(counts / max(counts.sum(), 1), inverse, 1)
    np.einsum("tij,tj->ti", inverse[index], part.z, out=out)
    return definite[index], noise


def _remove_present_means(series, present, starts):
    """Series less the mean of what is there in each episode, zero where nothing is."""
    centred = series * present
    for start, stop in episodes(starts, len(series)):
        weight = np.maximum(present[start:stop].sum(axis=0), 1.0)
        mean = centred[start:stop].sum(axis=0) / weight
        centred[start:stop] -= mean * present[start:stop]
    return centred
