"""The record in states and inputs of unit variance, and what the estimation starts from."""

from functools import cached_property

import numpy as np

from ...statespace.contributions import score_contributions
from ...statespace.matrices import companion, floor_eigenvalues, spectral_radius, symmetric_root
from ...statespace.riccati import predicted_covariance, stationary_covariance
from ...statespace.timedomain import KnownInputs, TimeDomainLikelihood
from ...statespace.units import fit_units, slow_start
from ...statespace.whittle import WhittleLikelihood
from .simulated import simulated_record
from .structure import Structure
from .unit_record import UnitRecord

_MIN_LAGS, _MAX_LAGS = 12, 400
_ROWS_PER_LAG = 8  # time steps per lag at least
_TRUNCATION = 2e-3  # what the filter may still remember at the last lag
_OWN_NOISE = 1e-6  # smallest process noise to start from; inputs can seem to explain a unit in full
_VARIANCE_FLOOR = 0.01  # share of a score's variance its state has at least
_LEAST_SHARE = 0.01  # of the products at a lag, with fewer of which nothing is known of it
_EDGE_SHARE = 3.0  # standard deviations of a score test to one edge effect at least


class StandardisedPlant:
    """A joint record in states ``S_m^-1 h_m`` and inputs of unit variance.

    A stands for the coefficients ``[A | B]``, shape (n_states, n_regressors).
    """

    def __init__(self, record, local=None, fix_local=False):
        self.partition = record.partition
        self.n_samples = record.n_samples
        self.is_complete = record.is_constant and all(record.determined)
        self._record, self._scores = record, record.scores
        local = [None] * len(record.names) if local is None else local
        self._scale = _state_scales(record, self._scores, local)
        D = [record.known_scale[own] for own in self.partition.input_slices]
        self._local = [_rescaled(*unit) for unit in zip(local, self._scale, D, strict=True)]
        self._fix_local = fix_local
        self._S = record.block_diagonal(self._scale)
        self._Sinv = record.block_diagonal([np.linalg.inv(S) for S in self._scale])
        self._noise = self._Sinv @ record.block_diagonal(self._scores.noise) @ self._Sinv.T
        self._n_lags, self._whittle, self._moments_of = _MIN_LAGS, None, {}

    @property
    def state_scale(self):
        """Matrix S with ``h = S h_standardised``, shape (n, n)."""
        return self._S

    @property
    def known_scale(self):
        """Standard deviations of the inputs and steps, shape (k + n_steps,)."""
        return self._record.known_scale

    @property
    def steps(self):
        """Rows at which levels shift."""
        return self._record.steps

    def _predicted(self, record):
        """Covariance of each unit's states before a measurement, by its own model."""
        A, Q = self.uncoupled
        return [
            predicted_covariance(A[rows, rows], part.mean_information, Q[rows, rows])
            for rows, part in zip(self.partition.slices, record.parts, strict=True)
        ]

    @property
    def has_constant_information(self):
        """Whether every unit's information matrix is the same at every step."""
        return self._record.is_constant

    @property
    def average_information(self):
        """Information matrix of the plant, averaged over time, shape (n, n)."""
        record = self.standard_record
        return record.block_diagonal([part.mean_information for part in record.parts])

    @property
    def determined(self):
        """Per unit: whether its measurements determine all its states."""
        return self._record.determined

    @property
    def has_scores(self):
        """Whether every unit's measurements determine its states at some time steps."""
        return all(self._record.determined)

    @property
    def regressor_covariance(self):
        """Covariance of states, inputs and steps, shape (c, c)."""
        covariance = self._left @ self._scores.covariance() @ self._left.T
        n = self.partition.n_states
        covariance[:n, :n] -= self._noise
        return covariance

    @cached_property
    def _shares(self):
        return self._scores.lag_shares(_MIN_LAGS)

    @property
    def has_all_lags(self):
        """Whether all units report often enough in the same and in neighbouring rows to know all lags."""
        return bool(self._shares.min() >= _LEAST_SHARE)

    @property
    def _is_slow(self):
        """Units that report at some lags only, such as every other row; shape (n_units,)."""
        own = np.diagonal(self._shares, axis1=1, axis2=2)
        return own.min(axis=0) < _LEAST_SHARE

    @property
    def has_clear_scores(self):
        """Whether the Whittle likelihood of the scores can stand for the exact one.

        It needs their covariances at all lags, which units that report in different rows do not give.
        It neglects the edges of the record, which are of the size of the scores over T. A state in noise of
        N times its variance moves its score's gradient by about ``1 / (N sqrt(T))`` of that size, so that
        the edges count when N is of the order of sqrt(T): a unit whose sensors see next to nothing.
        """
        if not (self.has_scores and self.has_all_lags):
            return False
        return bool(np.linalg.eigvalsh(self._noise)[-1] < np.sqrt(self.n_samples) / _EDGE_SHARE)

    def unscaled(self, A):
        """Coefficients in the units' own states and inputs."""
        n = self.partition.n_states
        return self._S @ np.hstack([A[:, :n] @ self._Sinv, A[:, n:] / self.known_scale])

    def scaled(self, A):
        """Coefficients in standardised states and inputs."""
        n = self.partition.n_states
        return self._Sinv @ np.hstack([A[:, :n] @ self._S, A[:, n:] * self.known_scale])

    def unscaled_covariance(self, Q):
        """Process covariance in the units' own states."""
        Q = self._S @ Q @ self._S.T
        return (Q + Q.T) / 2

    def structure(self):
        """No links between states, every input acting on every unit, independent noise."""
        determined = np.array(self._record.determined)
        free = determined & (not self._fix_local)
        own_inputs = np.ones(self.partition.n_units, dtype=bool)
        if self._fix_local:  # what a unit does not know of its own inputs is learned, not fixed
            own_inputs = np.array([B is None for _, _, B in self._local])
        return Structure.uncoupled(self.partition, free, determined, own_inputs)

    @cached_property
    def uncoupled(self):
        """Every unit's own model by maximum likelihood, given the inputs of all: block-diagonal (A, Q).

        Along the way the number of lags is set to what the units' filters remember.
        """
        A, Q, memory = self._first_models
        while (needed := self._lags_for(memory)) > self._n_lags:
            self._n_lags = needed
            A, Q, memory = self._fit_units()
        return A, Q

    def lengthen(self, A, Q):
        """Take as many lags as the filter of the plant (A, Q) needs; whether that is more than before.

        With fewer the Whittle likelihood has maxima there that the exact one does not have.
        """
        needed = self._lags_for(_filter_memory(A, Q, self._noise))
        if needed <= self._n_lags:
            return False
        self._n_lags = needed
        self.uncoupled = self._fit_units()[:2]
        return True

    @cached_property
    def _first_models(self):
        """The units' own models from few lags, and what their filters remember."""
        return self._fit_units()

    def _lags_for(self, memory):
        needed = int(np.ceil(np.log(_TRUNCATION) / np.log(max(memory, 1e-6))))
        return min(needed, _MAX_LAGS, max(self.n_samples // _ROWS_PER_LAG, 1))

    def _fit_units(self):
        moments = self._moments()
        n = self.partition.n_states
        A, Q = np.zeros((n, self.partition.n_regressors)), np.zeros_like(self._noise)
        memory = 0.0
        determined = np.array(self._record.determined)
        inputs = slice(n, None)
        for k in np.flatnonzero(~determined):
            rows = self.partition.slices[k]
            A[rows, rows], Q[rows, rows], own = self._local[k]
            self._set_own_inputs(A, k, own)
        if not self._fix_local:
            for k in np.flatnonzero(determined & self._is_slow):
                rows = self.partition.slices[k]
                A[rows, rows], Q[rows, rows] = self._slow_start(k)
                memory = max(memory, _filter_memory(A[rows, rows], Q[rows, rows], self._noise[rows, rows]))
            determined &= ~self._is_slow
        for units in self.partition.groups.values():
            units = units[determined[units]]
            if len(units) == 0:
                continue
            blocks = [self.partition.slices[m] for m in units]
            N = np.stack([self._noise[b, b] for b in blocks])
            fixed = np.stack([self._local[m][0] for m in units]) if self._fix_local else None
            fit = fit_units(moments.blocks(blocks, inputs), N, fixed_A=fixed)
            memory = max(memory, _filter_memory(fit.A, fit.Q, N))
            for b, a, q in zip(blocks, fit.A, fit.Q, strict=True):
                p = len(q)
                A[b, b], A[b, inputs], Q[b, b] = a[:, :p], a[:, p:], q
        if self._fix_local:
            for k in range(self.partition.n_units):
                self._set_own_inputs(A, k, self._local[k][2])
        for b in self.partition.slices:
            Q[b, b] = floor_eigenvalues(Q[b, b], _OWN_NOISE)
        return A, Q, memory

    def _slow_start(self, unit):
        """Where a unit starts that reports at some lags only."""
        rows = self.partition.slices[unit]
        scores, present = self._scores.of_unit(unit)
        period = 1 + np.argmax(self._shares[1:, unit, unit] >= _LEAST_SHARE)
        scores = scores @ self._Sinv[rows, rows].T
        N = self._noise[rows, rows]
        return slow_start(scores, present[:, 0], N, self._record.starts, int(period), self._n_lags)

    def _set_own_inputs(self, A, unit, B):
        """Fill in a unit's own input matrix as far as it is known."""
        if B is not None:
            own = self.partition.input_slices[unit]
            n = self.partition.n_states
            A[self.partition.slices[unit], n + own.start : n + own.stop] = B

    def unit_records(self):
        """Every unit on its own, one after the other.

        But for those that measurements do not determine, or that do not report in neighbouring rows.
        """
        n_lags = max(self._lags_for(self._first_models[2]), _MIN_LAGS)
        for m in np.flatnonzero(self._record.determined & ~self._is_slow):
            rows = self.partition.slices[m]
            scores, present = self._scores.of_unit(m)
            scores = scores @ self._Sinv[rows, rows].T
            N = self._noise[rows, rows]
            known, starts = self._scores.known, self._record.starts
            sums = self._Sinv[rows, rows] @ self._scores.known_sums[:, rows, rows] @ self._Sinv[rows, rows].T
            yield UnitRecord(scores, present, N, known, starts, n_lags, None if present is not None else sums)

    def _moments(self):
        if self._n_lags not in self._moments_of:
            self._moments_of = {self._n_lags: self._scores.moments(self._n_lags).transformed(self._left)}
        return self._moments_of[self._n_lags]

    @cached_property
    def _left(self):
        """Matrix that standardises scores; inputs are of unit variance already."""
        left = np.eye(self.partition.n_regressors)
        left[: len(self._Sinv), : len(self._Sinv)] = self._Sinv
        return left

    def first_likelihood(self):
        """Likelihood to start with: of the scores where they are clear, of the series otherwise.

        Needs :attr:`uncoupled`, which sets the number of lags.
        """
        return self.whittle() if self.has_clear_scores else self.time_domain()

    def whittle(self):
        """Whittle likelihood of the scores, with the lags that :attr:`uncoupled` found necessary."""
        if self._whittle is None or self._whittle[0] != self._n_lags:
            self._whittle = self._n_lags, WhittleLikelihood(self._moments(), self._noise)
        return self._whittle[1]

    @property
    def score_noise(self):
        """Covariance of the standardised scores around the states, shape (n, n)."""
        return self._noise

    def standard_series(self):
        """Scores, inputs and steps of unit variance, first rows of episodes, lags of their likelihood."""
        return self._scores.series @ self._left.T, self._record.starts, self._n_lags

    def lagged_whittle(self, n_plant_lags, n_dropped, n_lags=None):
        """Whittle likelihood of the scores for a plant of several lags, see :meth:`Scores.lagged_moments`."""
        n_lags = self._n_lags + n_plant_lags - 1 if n_lags is None else n_lags
        moments = self._scores.lagged_moments(n_lags, n_plant_lags, n_dropped)
        left = np.kron(np.eye(n_plant_lags), self._Sinv)
        return WhittleLikelihood(moments.transformed(left), self._noise, n_plant_lags)

    def lagged_time_domain(self, n_plant_lags):
        """Exact likelihood of the information series for a plant of several lags, without inputs."""
        record, n_frequencies = self.standard_record, self._n_lags + n_plant_lags - 1
        series = record.z, record.matrices, self._regimes, record.starts
        return TimeDomainLikelihood(*series, n_frequencies, n_lags=n_plant_lags)

    def lags_of_filter(self, A, Q, n_plant_lags):
        """Lags that the filter of a plant of several lags remembers."""
        n = len(Q)
        J = np.zeros((n * n_plant_lags,) * 2)
        J[:n, :n] = np.linalg.inv(self._noise)
        noise = np.zeros_like(J)
        noise[:n, :n] = Q
        A = companion(A, n_plant_lags)
        P = predicted_covariance(A, J, noise)
        return self._lags_for(float(spectral_radius(A @ np.linalg.inv(np.eye(len(J)) + P @ J))))

    def contributions(self, point, record=None):
        """What every time step contributes to the gradient at a point, see :func:`score_contributions`."""
        record = (self.standard_record if record is None else record).centred()
        J = record.block_diagonal([part.mean_information for part in record.parts])
        settings = {"J": J, "starts": record.starts} | self._known_inputs
        return score_contributions(point.A, point.Q, record.z, record.matrices, **settings)

    def simulated(self, point, rng):
        """A record of the plant at a point with the information of this one, in standardised states."""
        return simulated_record(self.standard_record, point.A, point.Q, rng, **self._known_inputs)

    @property
    def _known_inputs(self):
        """Inputs of unit variance, and what unknown ones before an episode add to its first state."""
        if not self.partition.n_known:
            return {"known": None, "spread": None}
        return {"known": self._scores.known, "spread": np.eye(self.partition.n_states)}

    def state_covariances(self, point, likelihood=None):
        """Covariance of each unit's states around their levels, as a fitted plant sees them in the record."""
        partition = self.partition
        likelihood = self.time_domain() if likelihood is None else likelihood
        states, covariances = likelihood.smoothed(point.A, point.Q, partition.slices)
        if partition.n_steps:
            steps = self._scores.known[:, partition.n_inputs :]
            states = states - steps @ np.linalg.lstsq(steps, states, rcond=None)[0]
        return [
            states[:, own].T @ states[:, own] / len(states) + covariance.mean(axis=0)
            for own, covariance in zip(partition.slices, covariances, strict=True)
        ]

    @cached_property
    def standard_record(self):
        """The record in standardised states, which nobody changes in place."""
        return self._record.rescaled(self._scale)

    def time_domain(self, record=None, *, rows=None, levels=True):
        """Exact likelihood of the information series given the inputs."""
        record = self.standard_record if record is None else record
        inputs = None
        if self.partition.n_known:
            # a driven state of unknown past has at most the variance of the record, which is one
            known = self._scores.known if rows is None else self._scores.known[rows]
            inputs = KnownInputs(known, self._moments().early, np.eye(self.partition.n_states))
        return TimeDomainLikelihood(
            record.z,
            record.matrices,
            self._regimes,
            record.starts,
            self._n_lags,
            is_constant=record.is_constant,
            inputs=inputs,
            levels=levels,
        )

    @cached_property
    def _regimes(self):
        record = self.standard_record
        return record.regimes(self._predicted(record))


def _state_scales(record, scores, local):
    """Symmetric square root of each unit's state covariance.

    Estimated from its scores, or taken from its own model where the scores do not determine its states.
    """
    G0 = scores.level_covariance()
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
            state = stationary_covariance(*local[k][:2])
        scales.append(symmetric_root(state))
    return scales


def _rescaled(model, S, D):
    """A unit's own model in standardised states and inputs, as far as it is known."""
    if model is None:
        return None
    A, Q, B = (*model, None)[:3]
    inverse = np.linalg.inv(S)
    return inverse @ A @ S, inverse @ Q @ inverse.T, None if B is None else inverse @ B * D


def _filter_memory(A, Q, N):
    """Largest spectral radius of the filters of plants."""
    J = np.linalg.inv(N)
    A = A[..., : N.shape[-1]]
    P = predicted_covariance(A, J, Q)
    return float(spectral_radius(A @ np.linalg.inv(np.eye(N.shape[-1]) + P @ J)).max())
