"""The record in states of unit variance, and what the estimation starts from."""

from functools import cached_property

import numpy as np

from ..statespace.positive import floor_eigenvalues, spectral_radius
from ..statespace.riccati import predicted_covariance, stationary_covariance
from ..statespace.timedomain import TimeDomainLikelihood
from ..statespace.units import fit_units
from ..statespace.whittle import WhittleLikelihood
from .joint import Scores
from .structure import Structure

_MIN_LAGS, _MAX_LAGS = 12, 400
_ROWS_PER_LAG = 8  # time steps per lag at least
_TRUNCATION = 2e-3  # what the filter may still remember at the last lag
_VARIANCE_FLOOR = 0.01  # share of a score's variance its state has at least
_EDGE_SHARE = 3.0  # standard deviations of a score test to one edge effect at least


class StandardisedPlant:
    """A joint record in states ``S_m^-1 h_m`` of unit variance.

    Parameters
    ----------
    record : JointRecord
    local : list of (tuple (A, Q) or None), default=None
        The units' own models, as far as they sent them. Units whose measurements do not determine their
        states need one.
    fix_local : bool
        Keep the diagonal blocks of the transition matrix at the units' own.

    Attributes
    ----------
    partition : Partition
    is_complete : bool
        Whether the record has the same regular information matrix at every step, so that the Whittle
        likelihood of its scores is all there is.
    """

    def __init__(self, record, local=None, fix_local=False):
        self.partition = record.partition
        self.n_samples = record.n_samples
        self.is_complete = record.is_constant and all(record.determined)
        self._record, self._scores = record, Scores(record)
        local = [None] * len(record.names) if local is None else local
        self._scale = _state_scales(record, self._scores, local)
        self._local = [_rescaled(model, S) for model, S in zip(local, self._scale, strict=True)]
        self._fix_local = fix_local
        self._S = record.block_diagonal(self._scale)
        self._Sinv = record.block_diagonal([np.linalg.inv(S) for S in self._scale])
        self._noise = self._Sinv @ record.block_diagonal(self._scores.noise) @ self._Sinv.T
        self._n_lags = _MIN_LAGS

    @property
    def has_scores(self):
        """Whether every unit's measurements determine its states at some time steps."""
        return all(self._record.determined)

    @property
    def has_clear_scores(self):
        """Whether the Whittle likelihood of the scores can stand for the exact one.

        It neglects the edges of the record, which are of the size of the scores over T. A state in noise of
        N times its variance moves its score's gradient by about ``1 / (N sqrt(T))`` of that size, so that
        the edges count when N is of the order of sqrt(T): a unit whose sensors see next to nothing.
        """
        if not self.has_scores:
            return False
        return bool(np.linalg.eigvalsh(self._noise)[-1] < np.sqrt(self.n_samples) / _EDGE_SHARE)

    def unscaled(self, A):
        """Transition matrix in the units' own states."""
        return self._S @ A @ self._Sinv

    def unscaled_covariance(self, Q):
        """Process covariance in the units' own states."""
        Q = self._S @ Q @ self._S.T
        return (Q + Q.T) / 2

    def structure(self):
        """No links, independent noise."""
        determined = np.array(self._record.determined)
        return Structure.uncoupled(self.partition, determined & (not self._fix_local), determined)

    @cached_property
    def uncoupled(self):
        """Every unit's own model by maximum likelihood: block-diagonal (A, Q).

        Along the way the number of lags is set to what the units' filters remember.
        """
        while True:
            A, Q, memory = self._fit_units()
            needed = int(np.ceil(np.log(_TRUNCATION) / np.log(max(memory, 1e-6))))
            needed = min(needed, _MAX_LAGS, max(self.n_samples // _ROWS_PER_LAG, 1))
            if needed <= self._n_lags:
                return A, Q
            self._n_lags = needed

    def _fit_units(self):
        moments = self._moments()
        A, Q = np.zeros_like(self._noise), np.zeros_like(self._noise)
        memory = 0.0
        determined = np.array(self._record.determined)
        for k in np.flatnonzero(~determined):
            rows = self.partition.slices[k]
            A[rows, rows], Q[rows, rows] = self._local[k]
        for units in self.partition.groups.values():
            units = units[determined[units]]
            if len(units) == 0:
                continue
            blocks = [self.partition.slices[m] for m in units]
            N = np.stack([self._noise[b, b] for b in blocks])
            fixed = np.stack([self._local[m][0] for m in units]) if self._fix_local else None
            fit = fit_units(moments.blocks(blocks), N, fixed_A=fixed)
            memory = max(memory, _filter_memory(fit, N))
            for b, a, q in zip(blocks, fit.A, fit.Q, strict=True):
                A[b, b], Q[b, b] = a, q
        return A, Q, memory

    def _moments(self):
        return self._scores.moments(self._n_lags).transformed(self._Sinv)

    def first_likelihood(self):
        """Likelihood to start with: of the scores where they are clear, of the series otherwise.

        Needs :attr:`uncoupled`, which sets the number of lags.
        """
        return self.whittle() if self.has_clear_scores else self.time_domain()

    def whittle(self):
        """Whittle likelihood of the scores, with the lags that :attr:`uncoupled` found necessary."""
        return WhittleLikelihood(self._moments(), self._noise)

    def time_domain(self):
        """Exact likelihood of the information series."""
        record = self._record.rescaled(self._scale)
        return TimeDomainLikelihood(
            record.z,
            record.matrices,
            record.regimes(),
            record.starts,
            self._n_lags,
            is_constant=record.is_constant,
        )


def _state_scales(record, scores, local):
    """Symmetric square root of each unit's state covariance.

    Estimated from its scores, or taken from its own model where the scores do not determine its states.
    """
    G0 = scores.covariance()
    scales = []
    for k, (rows, N) in enumerate(zip(record.partition.slices, scores.noise, strict=True)):
        S = G0[rows, rows]
        if record.determined[k]:
            state = floor_eigenvalues(S - N, _VARIANCE_FLOOR * np.trace(S) / len(S))
        elif local[k] is None:
            raise ValueError(
                f"The sensors of unit {record.names[k]!r} do not determine its {len(S)} states, and it sent "
                "no model of its own to start from. Give its KalmanClient the matrices A and Q, fewer states "
                "or more sensors."
            )
        else:
            state = stationary_covariance(*local[k])
        values, vectors = np.linalg.eigh(state)
        scales.append((vectors * np.sqrt(values)) @ vectors.T)
    return scales


def _rescaled(model, S):
    """A unit's own model in standardised states, as far as it is known."""
    if model is None:
        return None
    A, Q = model
    inverse = np.linalg.inv(S)
    return inverse @ A @ S, inverse @ Q @ inverse.T


def _filter_memory(fit, N):
    """Largest spectral radius of the units' filters."""
    J = np.linalg.inv(N)
    P = predicted_covariance(fit.A, J, fit.Q)
    return float(spectral_radius(fit.A @ np.linalg.inv(np.eye(N.shape[-1]) + P @ J)).max())
