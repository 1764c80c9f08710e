"""The filter of a large plant: a stationary gain that is as sparse as the links."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import block_diag
from scipy.sparse import csr_array

from ...statespace.episodes import episodes
from ...statespace.kalman import CovarianceSchedule
from ...statespace.partition import positions_of
from ...statespace.riccati import predicted_covariance
from ..prediction import PlantFilter
from .cover import assembled, neighbours, with_halo
from .tuning import TUNING

_PIECE = 128  # rows


@dataclass(frozen=True, eq=False)
class LargePlantMatrices:
    """Sparse matrices of a large plant in the units' own states."""

    A: Any  # (n, n)
    Q: Any
    gain: Any  # of a score on the filtered states
    predicted: Any  # covariance of the predicted states
    back: Any  # gain on the filtered states of what the row after tells, for records with gaps
    information: Any  # of the usual measurements of a row


def stationary_gain(plant, A, Q, cores, linked, correlated, strength):
    """:class:`LargePlantMatrices` of a plant in standardised states, block by block of units so joined."""
    near = neighbours(len(linked), np.argwhere(linked), strength[linked], np.argwhere(np.tril(correlated)))
    causes = [np.flatnonzero(row).tolist() for row in linked | correlated]
    gains: list = []
    backs: list = []
    covariances, n = [], plant.partition.n_states
    for core in cores:
        members = with_halo(core, near, causes, TUNING.filter_most)
        states, k = positions_of(members, plant.partition.slices), sum(plant.partition.sizes[m] for m in core)
        N = block_diag(*(plant.noise[m] for m in members))
        own = A[states][:, states].toarray()
        P = predicted_covariance(own, np.linalg.inv(N), Q[states][:, states].toarray())
        gain = np.linalg.solve(P + N, P).T
        back = np.linalg.solve(P, own @ (P - gain @ P)).T[:k]  # P_f A' P^-1
        for parts, rows in ((gains, gain[:k]), (backs, back)):
            parts.append((states[:k], states, np.where(np.abs(rows) > TUNING.filter_least_gain, rows, 0.0)))
        covariances.append((states[:k], states, P[:k]))
    P = assembled(covariances, n)
    gain, back, J = assembled(gains, n), assembled(backs, n), plant.sparse([np.linalg.inv(N) for N in plant.noise])
    return LargePlantMatrices(A, Q, gain, _covariance((P + P.T) / 2, plant), back, J)


def _covariance(P, plant):
    """What blocks say of covariances between units, weaker until it is the covariance of predicted scores.

    Blocks know each other's units in part, and what they say of them need not go together in short records.
    """
    N, unit, coo = block_diag(*plant.noise), plant.partition.unit_of_state, P.tocoo()
    across, share = unit[coo.row] != unit[coo.col], 1.0
    while not _is_definite(P.toarray() + N):
        share = share / 2 if share > TUNING.filter_least_share else 0.0
        P = csr_array((np.where(across, share * coo.data, coo.data), (coo.row, coo.col)), shape=P.shape)
        if share == 0.0:
            break
    return P


def _is_definite(matrix):
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def _step(A, gain):
    """What a filtered state makes of the next one: the product of large matrices has several times their numbers."""
    if A.shape[0] <= TUNING.filter_dense:
        return (A - gain @ A).toarray().__matmul__
    A, gain = csr_array(A), csr_array(gain)

    def step(state):
        moved = A @ state
        return moved - gain @ moved

    return step


def _times(matrix, series):
    """``series @ matrix.T`` with a sparse matrix, in pieces that stay in cache."""
    out = np.empty((len(series), matrix.shape[0]))
    for first in range(0, len(series), _PIECE):
        rows = slice(first, first + _PIECE)
        out[rows] = (matrix @ np.ascontiguousarray(series[rows].T)).T
    return out


class LargeFilter(PlantFilter):
    """Filter of a large plant over complete messages, with its stationary gain from the first row on.

    The gain of a unit is that of the block it was fitted in, so that a row costs as much as there are links.
    """

    def __init__(self, matrices, record, drive=None):
        self._matrices, self.record, self._drive = matrices, record, drive
        self.A, self.Q = matrices.A, matrices.Q
        self.inputs = np.zeros((record.n_samples, 0)) if drive is None else drive.inputs(record)
        self._alone, self._tails = np.zeros(0, dtype=int), None

    @cached_property
    def filtered(self):
        """``E[h_t | messages up to t]``, shape (n_samples, n)."""
        record, gain, A = self.record, self._matrices.gain, self.A
        noise = [np.linalg.inv(part.patterns[0]) for part in record.parts]
        out = np.empty((record.n_samples, A.shape[0]))
        for part, N, own in zip(record.parts, noise, record.partition.slices, strict=True):
            np.matmul(part.z, N, out=out[:, own])
        out = _times(gain, out)
        step = _step(A, gain)
        if self._drive is not None:
            added = self._exogenous
            out += added - _times(gain, added)
        for start, stop in episodes(record.starts, len(out)):
            for t in range(start + 1, stop):
                out[t] += step(out[t - 1])
        return out

    @cached_property
    def predicted(self):
        """``E[h_t | messages up to t - 1]``, shape (n_samples, n)."""
        predicted = np.empty_like(self.filtered)
        predicted[1:] = _times(self.A, self.filtered[:-1])
        predicted[list(self.record.starts)] = 0.0
        if self._drive is not None:
            predicted += self._exogenous
        return predicted

    def carried_to_units(self, matrix, drive=None):
        """What the row before makes of the states through a matrix, one array per unit."""
        return super().carried_to_units(csr_array(matrix), drive)

    @property
    def _information(self):
        """That of a row, on average."""
        return csr_array(self.record.mean_information())

    @cached_property
    def _schedule(self):
        J, P = self.record.mean_information(), self._matrices.predicted.toarray()
        filtered = P - (self._matrices.gain @ P)
        return CovarianceSchedule(self.A, J, P[None], (filtered + filtered.T)[None] / 2)
