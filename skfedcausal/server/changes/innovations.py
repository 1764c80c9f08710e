"""What a unit's messages say beyond the learned plant, and how changes of its coefficients would show there."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...statespace.episodes import episodes
from .tuning import TUNING


@dataclass(frozen=True)
class UnitInnovations:
    """Innovations of one unit given the past of all, white with unit covariance under the plant.

    A push ``d_t`` into the unit's states that the plant does not know of moves their prediction by
    ``e_t = F_1 G e_(t-1) + F_2 G e_(t-2) + ... + d_t``, where `G` is what the unit's own measurements leave of
    an error, and the mean of the innovations by ``maps_t @ e_t``.
    """

    white: np.ndarray  # (n_samples, p)
    maps: np.ndarray  # (n_samples, p, p), zero where nothing was measured
    left: np.ndarray  # (n_samples, p, p)
    ranks: np.ndarray  # (n_samples,), directions that have any variance
    own: np.ndarray  # (n_lags, p, p), F
    starts: tuple[int, ...]

    def responses(self, series):
        """Errors of the prediction for a push of each series into each state, (n_samples, p, p, k).

        The axes are rows of the record, states with an error, the state pushed, and columns of `series`
        (n_samples, k): the push of a row.
        """
        n_samples, p = self.white.shape
        k = series.shape[1]
        out = np.zeros((n_samples, p, p * k))
        out.reshape(n_samples, p, p, k)[:, np.arange(p), np.arange(p)] = series[:, None]
        for start, stop in episodes(self.starts, n_samples):
            after: list[np.ndarray] = []
            for t in range(start, stop):
                for F, error in zip(self.own, after, strict=False):
                    out[t] += F @ error
                after = [self.left[t] @ out[t], *after[: len(self.own) - 1]]
        return out.reshape(n_samples, p, p, k)


def unit_innovations(run, record, A):
    """:class:`UnitInnovations` of every unit, from a filter over a record and the plant's lags (q, n, n)."""
    slices, predicted = record.partition.slices, run.predicted
    found = []
    for part, own, P in zip(record.parts, slices, run.unit_covariances(slices), strict=True):
        J = part.matrices(slice(None))
        residual = part.z - np.einsum("tij,tj->ti", J, predicted[:, own])
        # residuals in information form have the covariance J + J P J; rows without measurements have none
        kinds, index = _kinds(J, P)
        root, rank = _inverse_roots(kinds[0] + kinds[0] @ kinds[1] @ kinds[0])
        left = np.linalg.inv(np.eye(J.shape[1]) + kinds[1] @ kinds[0])
        white = np.einsum("tij,tj->ti", root[index], residual)
        maps = (root @ kinds[0])[index]
        found.append(UnitInnovations(white, maps, left[index], rank[index], A[:, own, own], record.starts))
    return found


def _kinds(J, P):
    """Distinct pairs of matrices of rows, and which one every row has."""
    flat = np.hstack([np.broadcast_to(J, P.shape).reshape(len(P), -1), P.reshape(len(P), -1)])
    unlike = np.flatnonzero(np.append(True, (flat[1:] != flat[:-1]).any(axis=1)))
    lengths = np.diff(np.append(unlike, len(flat)))
    kinds = flat[unlike].reshape(len(unlike), 2, *P.shape[1:])
    return (kinds[:, 0], kinds[:, 1]), np.repeat(np.arange(len(unlike)), lengths)


def _inverse_roots(matrices):
    """``V^-1/2`` of every matrix on the directions that have any variance, and their number."""
    values, vectors = np.linalg.eigh(matrices)
    kept = values > TUNING.innovations_rank * np.maximum(values[:, -1:], 1e-300)
    scale = np.where(kept, 1 / np.sqrt(np.where(kept, values, 1.0)), 0.0)
    return (vectors * scale[:, None, :]) @ np.swapaxes(vectors, 1, 2), kept.sum(axis=1)


# -- responses -------------------------------------------------------------------------------------------


class UnitResponses:
    """How changes of one unit's coefficients would show in its white innovations."""

    def __init__(self, innovations, states, n_lags):
        self._innovations, self.n_lags = innovations, n_lags
        self._errors = innovations.responses(_before(states, innovations.starts, 1))

    def __len__(self):
        return len(self._innovations.white)

    @property
    def n_rows(self):
        """Rows of the record times states of the unit."""
        return self._innovations.white.size

    def block(self, lag, cols):
        """Regressors of the elements of a block at a lag, (n_rows, p, n_cols)."""
        return self._seen(_before(self._errors[..., cols], self._innovations.starts, lag - 1))

    def kernel(self, lags, cols):
        """Regressor of coefficients ``lags[k]`` (n_lags, p, n_cols) at the lags from one on, (n_rows,)."""
        found = np.zeros(self.n_rows)
        for lag, values in enumerate(lags, 1):
            if values.any():
                found += np.einsum("rij,ij->r", self.block(lag, cols), values)
        return found

    @cached_property
    def level(self):
        """Regressors of another level of each state, (n_rows, p)."""
        return self.pushed(np.ones((len(self._innovations.white), 1)))

    def pushed(self, series):
        """Regressors of pushes of each series into each state, (n_rows, p * k)."""
        return self._seen(self._innovations.responses(series)).reshape(self.n_rows, -1)

    def _seen(self, errors):
        seen = np.einsum("tab,tbij->taij", self._innovations.maps, errors)
        return seen.reshape(self.n_rows, *errors.shape[2:])


def _before(series, starts, n_rows):
    """The series of so many rows before, zero where an episode begins."""
    if not n_rows:
        return series
    late = np.zeros_like(series)
    for start, stop in episodes(starts, len(series)):
        late[start + n_rows : stop] = series[start : max(stop - n_rows, start)]
    return late
