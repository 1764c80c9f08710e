"""Exact Gaussian likelihood of a plant from information series: smoother, gradient, missing data, heavy tails."""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from . import kalman
from .episodes import episodes
from .inputs import DrivenSpectrum, input_term
from .kalman import adjoint_lyapunov, filter_radius, filter_rows, stationary_covariance
from .matrices import are_heavy, check_time, diagonal_blocks, hermitian
from .tuning import TUNING
from .whittle import Evaluation, SpectralInformation, frequencies_of_states, midpoints, transfer

# Exact smoother of information series: log-likelihood, its gradient, and states given a whole record.
#
# With smoothing scores r and their covariances N of the rows after a step (de Jong 1989) the derivatives of the
# log-likelihood are sums over transitions: ``r h'`` less what N carries for A, ``(r r' - N) / 2`` for Q.
#
# With a constant information matrix N settles as well, and the scores are a recurrence from the end of an
# episode to where covariances had settled, without a loop over time. Otherwise rows are worked through one by
# one, long episodes in chunks: the way back filters a chunk again from its stored start, so that memory does
# not grow with ``n_samples * n**2``.
#
# Notation: P, Pf predicted and filtered covariance, ``L = A (I - Pf J)`` the matrix that carries a prediction
# error to the next step. A level of the states in each episode is estimated by maximum likelihood where an
# intercept is asked for.

_SETTLED = 1e-14


class Smoothed:
    """Log-likelihood, its derivatives, levels of the episodes, and states if they are kept.

    `covariances` are those of chosen blocks of the states, (n_samples, p, p) each; `n_steps` is the number of
    rows whose covariances had to be computed.
    """

    def __init__(self, n_samples, n, inputs, keep):
        self.value, self.levels, self.n_steps = 0.0, [], n_samples
        self.grad_A, self.grad_Q, self.grad_P0 = np.zeros((3, n, n))
        self.grad_B = np.zeros((n, 0 if inputs is None else inputs.shape[1]))
        self.keeps, self._blocks = keep is not None, tuple(keep or ())
        self.keeps_states_alone = self.keeps and not self._blocks
        self.states = np.empty((n_samples if self.keeps else 0, n))
        self.covariances = [np.empty((n_samples, b.stop - b.start, b.stop - b.start)) for b in self._blocks]

    def add(self, after, before, N_carried, N_sum, inputs):
        """Add the derivatives of transitions: scores after them, smoothed states and inputs before them."""
        self.grad_A += after.T @ before - N_carried
        self.grad_Q += (after.T @ after - N_sum) / 2
        if inputs is not None:
            self.grad_B += after.T @ inputs

    def store(self, rows, states, spread):
        """Keep the states of some rows, and the covariances that are wanted of those that ``spread()`` gives."""
        self.states[rows] = states
        if not self._blocks:
            return
        spread = spread()
        for covariance, block in zip(self.covariances, self._blocks, strict=True):
            covariance[rows] = spread[..., block, block]


def smooth(
    A, Q, z, matrices, *, J=None, starts=(0,), keep=None, inputs=None, spread=None, intercept=True, n_bytes=None
):
    """Smoother with every episode from the stationary distribution; that distribution and a `Smoothed`.

    A may have the columns of B appended; `matrices` gives information matrices of rows, J the one of all rows
    if it is constant; `keep` says of which blocks of the states covariances are wanted, of none with ``()``: states
    alone, without derivatives; `spread` is what unknown inputs before an episode add to the covariance of its first
    state; `n_bytes` as in `smooth_varying`.
    """
    n = len(Q)
    A, B = A[:, :n], A[:, n:]
    P0 = stationary_covariance(A, Q)
    start = P0 if spread is None else P0 + spread
    settings = {"starts": starts, "intercept": intercept, "keep": keep}
    if inputs is not None:
        settings |= {"exogenous": input_term(B, inputs, starts), "inputs": inputs}
    if J is None:
        return P0, smooth_varying(A, Q, start, z, matrices, n_bytes=n_bytes, **settings)
    return P0, smooth_constant(A, Q, start, z, J, **settings)


def smooth_constant(A, Q, P0, z, J, *, starts=(0,), exogenous=None, inputs=None, intercept=False, keep=None):
    """A :class:`Smoothed` of one or several episodes with the same information matrix in every row.

    `z`, `exogenous` (n_samples, n) and `inputs` (n_samples, k); A, Q, P0 and J are (n, n).
    """
    longest = max(stop - start for start, stop in episodes(starts, len(z)))
    schedule = kalman.covariance_schedule(A, Q, J, P0, max_steps=longest)
    found = Smoothed(len(z), len(A), inputs, keep)
    levels, steps = None, _transient_steps(schedule, longest)
    found.n_steps = len(steps)
    if intercept:
        levels = _Levels(schedule, longest)
        found.n_steps += len(levels.response)
    for start, stop in episodes(starts, len(z)):
        rows = slice(start, stop)
        known = None if exogenous is None else exogenous[rows]
        filtered = kalman.filtered_states(schedule, z[rows], exogenous=known)
        predicted = kalman.predicted_states(A, filtered, exogenous=known)
        level = np.zeros(len(A))
        if levels is not None:
            response = levels.response[: stop - start]
            level = levels.of(z[rows] - predicted @ J)
            settled = np.minimum(np.arange(stop - start), len(response) - 1)
            predicted += (response @ level)[settled]
        total = predicted + level
        found.value += float(kalman.log_likelihood_terms(schedule, z[rows], 0.0, total).sum())
        found.n_steps += min(schedule.n_transient, stop - start)
        back = _backward(schedule, z[rows] - total @ J, steps)
        found.n_steps += len(back.before) // TUNING.smoother_light
        smoothed = predicted + back.pushed
        own_inputs = None if inputs is None else inputs[rows][:-1]
        found.add(back.scores[1:], smoothed[:-1], back.N_carried, back.N_sum, own_inputs)
        found.grad_P0 += (np.outer(back.scores[0], back.scores[0]) - back.N) / 2
        if found.keeps:
            found.store(rows, smoothed, partial(_spread, schedule, back.before, stop - start))
        found.levels.append(level)
    return found


def _level_response(schedule, n_samples):
    """Response of the predicted states to a unit level of each state until it settles, (k, n, n)."""
    A, J = schedule.A, schedule.J
    n = len(A)
    response = [np.zeros((n, n))]
    while len(response) < n_samples:
        t, H = len(response) - 1, response[-1]
        new = A @ (H - schedule.at(t)[1] @ J @ (H + np.eye(n)))
        if t >= schedule.n_transient and np.abs(new - H).max() <= _SETTLED * (1 + np.abs(new).max()):
            break
        response.append(new)
    return np.array(response)


class _Levels:
    """Levels of episodes: what the rows of one say is the same in all of them, as far as they go."""

    def __init__(self, schedule, longest):
        self._schedule, self.response = schedule, _level_response(schedule, longest)

    @cached_property
    def _of_rows(self):
        """Weights of every row's innovation, (k, n, n), and sums of the normal matrices up to each row."""
        J, k = self._schedule.J, len(self.response)
        JPf = J @ np.array([self._schedule.at(t)[1] for t in range(k)])
        H = self.response + np.eye(len(J))
        weights = np.swapaxes(H, 1, 2) @ (np.eye(len(J)) - JPf)
        return weights, np.cumsum(weights @ J @ H, axis=0)

    def of(self, residual):
        """Maximum-likelihood level from the information innovations of an episode without one."""
        weights, sums = self._of_rows
        k, n_samples = min(len(weights), len(residual)), len(residual)
        normal, right = sums[k - 1], np.einsum("tij,tj->i", weights[:k], residual[:k])
        if k < n_samples:  # from where all rows are alike
            normal = normal + (n_samples - k) * (sums[k - 1] - sums[k - 2] if k > 1 else sums[0])
            right = right + weights[-1] @ residual[k:].sum(axis=0)
        return _solved(normal, right)


def _solved(normal, right):
    """Least-squares solution of normal equations; NaN, as the likelihood is then, where they overflowed.

    `normal` is (n, n), `right` (n,).
    """
    if not np.isfinite(normal).all():
        return np.full(len(right), np.nan)
    return np.linalg.lstsq(normal, right, rcond=1e-12)[0]


class _Back(NamedTuple):
    """Smoothing scores of an episode."""

    scores: np.ndarray  # r before each row, (n_samples, n)
    pushed: np.ndarray  # P r, what they add to the predicted states
    before: list  # N before the rows: of settled ones from the end until it settles, then of each earlier one
    N: np.ndarray  # before the first row
    N_sum: np.ndarray  # over all transitions
    N_carried: np.ndarray  # the same of ``N A Pf``


def _transient_steps(schedule, longest):
    """What a step back through each row needs before covariances settle: P, Pf, A Pf, A - A Pf J, J - J Pf J."""
    A, J, steps = schedule.A, schedule.J, []
    for t in range(min(schedule.n_transient, longest)):
        P, Pf = schedule.at(t)
        steps.append((P, Pf, A @ Pf, A - A @ Pf @ J, J - J @ Pf @ J))
    return steps


def _backward(schedule, residual, steps):
    """Scores by a recurrence from the end of an episode to where covariances had settled, then row by row.

    `residual` is (n_samples, n).
    """
    A, J = schedule.A, schedule.J
    n_samples, n = residual.shape
    first = min(schedule.n_transient, n_samples)
    Pf = schedule.filtered[-1]
    step, gain = A - A @ Pf @ J, J - J @ Pf @ J
    scores, pushed = np.empty((n_samples, n)), np.empty((n_samples, n))
    r, N, N_sum, before = np.zeros(n), np.zeros((n, n)), np.zeros((n, n)), []
    if first < n_samples:
        drive = (residual[first:][::-1], np.eye(n) - J @ Pf)
        scores[first:] = kalman.driven_recurrence(step.T, drive)[::-1]
        np.dot(scores[first:], schedule.predicted[-1], out=pushed[first:])
        r = scores[first]
    for t in range(n_samples - first):
        if t > 0:  # the last row starts no transition
            N_sum = N_sum + N
        new = gain + step.T @ N @ step
        change = np.abs(new - N).max()
        N = (new + new.T) / 2
        before.append(N)
        if change <= _SETTLED * np.abs(N).max():
            N_sum = N_sum + (n_samples - first - t - 1) * N
            break
    N_carried = N_sum @ (A @ Pf)
    for t in range(first - 1, -1, -1):
        P, Pf, APf, L, gain = steps[t]
        if t < n_samples - 1:
            N_sum = N_sum + N
            N_carried = N_carried + N @ APf
        r = residual[t] - J @ (Pf @ residual[t]) + L.T @ r
        N = gain + L.T @ N @ L
        scores[t], pushed[t] = r, P @ r
        before.append((N + N.T) / 2)
    return _Back(scores, pushed, before, N, N_sum, N_carried)


def _spread(schedule, before, n_samples):
    """Smoothed covariances of all rows, (n_samples, n, n)."""
    first = min(schedule.n_transient, n_samples)
    tail = len(before) - first  # distinct N of the settled rows, from the end
    covariances = np.empty((n_samples, *before[0].shape))
    for t in range(n_samples):
        if first < t <= n_samples - tail:  # N and P are those of the row before
            covariances[t] = covariances[t - 1]
            continue
        N = before[tail + first - 1 - t] if t < first else before[min(n_samples - 1 - t, tail - 1)]
        P, _ = schedule.at(t)
        covariances[t] = P - P @ N @ P
    return covariances


def smooth_varying(
    A, Q, P0, z, matrices, *, starts=(0,), exogenous=None, inputs=None, intercept=False, keep=None, n_bytes=None
):
    """The same with information matrices that change from row to row, by one pass forth and back.

    `n_bytes` is the memory that matrices of rows may take; sums over all rows depend on it in their last digits.
    """
    found = Smoothed(len(z), len(A), inputs, keep)
    for start, stop in episodes(starts, len(z)):
        rows = kalman.chunks(start, stop, len(A), n_bytes)
        episode = _Episode(A, Q, P0, z, matrices, exogenous, intercept, rows)
        if found.keeps_states_alone:
            episode.smooth(found)
        else:
            episode.backward(found, inputs)
        found.levels.append(episode.level)
    return found


class _Episode:
    """Forward pass over one episode: chunk starts, the last chunk and the level."""

    def __init__(self, A, Q, P0, z, matrices, exogenous, intercept, pieces):
        self._A, self._Q, self._z, self._matrices = A, Q, z, matrices
        self._exogenous, self._intercept, self._stop = exogenous, intercept, pieces[-1].stop
        n = len(A)
        self._chunks = pieces
        mean, cov = kalman.initial_mean(exogenous, pieces[0].start, n), P0
        if intercept:
            mean = np.concatenate([mean, np.zeros((n, n))], axis=1)
        self._starts = []
        normal, right = np.zeros((n, n)), np.zeros(n)
        for rows in self._chunks:
            self._starts.append((mean, cov))
            self._last = self._filter(rows, mean, cov)
            covariances, means, mean, cov = self._last
            if intercept:  # normal equations: ``sum H' (J - J Pf J) H`` and ``sum H' (I - J Pf) r``
                J, Pf = covariances.J, covariances.filtered
                response = np.eye(n) + means[:, :, 1:]
                residual = z[rows][..., None] - J @ means[:, :, :1]
                plain = residual - J @ (Pf @ residual)
                normal += np.einsum("tji,tjk->ik", response, (J - J @ Pf @ J) @ response)
                right += np.einsum("tji,tj->i", response, plain[:, :, 0])
        self.level = np.linalg.lstsq(normal, right, rcond=1e-12)[0] if intercept else np.zeros(n)

    def _filter(self, rows, mean, cov):
        """Covariances and predicted means (n_rows, n, k) of rows that a mean (n, k) and covariance (n, n) come before.

        The means are of the record, and where wanted of a unit level of each state. The mean and covariance before
        the next row follow.
        """
        covariances, following = kalman.covariance_rows(self._A, self._Q, self._matrices(rows), cov)
        z, drive = self._z[rows][..., None], kalman.step_drive(self._exogenous, rows, self._stop)
        if self._intercept:
            z = np.concatenate([z, -covariances.J], axis=2)
            if drive is not None:
                drive = np.concatenate([drive, np.zeros_like(covariances.J)], axis=2)
        means, mean = kalman.predicted_means(covariances, z, mean, drive)
        return covariances, means, mean, following

    def backward(self, found, inputs):
        """Accumulate value and gradients from the last row to the first."""
        n = len(self._A)
        r, N = np.zeros(n), np.zeros((n, n))
        for rows, covariances, deviation, total in self._pieces_backwards():
            is_last = rows is self._chunks[-1]
            found.value += float(kalman.log_density_terms(covariances, self._z[rows], total).sum())
            residual = self._z[rows] - np.einsum("tij,tj->ti", covariances.J, total)
            scores = _scores(covariances, residual, r, N)
            r, N = scores.before[0], scores.before_N[0]
            smoothed = deviation + np.einsum("tij,tj->ti", covariances.predicted, scores.before)
            last = len(smoothed) - is_last  # the last row of all starts no transition
            left = scores.after_N[:last].transpose(1, 0, 2).reshape(n, -1)
            N_carried = left @ covariances.carried[:last].reshape(-1, n)
            own_inputs = None if inputs is None else inputs[rows][:last]
            found.add(scores.after[:last], smoothed[:last], N_carried, scores.after_N[:last].sum(axis=0), own_inputs)
            if found.keeps:
                found.store(rows, smoothed, partial(_smoothed_spread, covariances.predicted, scores.before_N))
        found.grad_P0 += (np.outer(r, r) - N) / 2

    def smooth(self, found):
        """States alone, from the last row to the first: scores without their covariances."""
        r = np.zeros(len(self._A))
        for rows, covariances, deviation, total in self._pieces_backwards():
            J, Pf = covariances.J, covariances.filtered
            residual = (self._z[rows] - np.einsum("tij,tj->ti", J, total))[..., None]
            push = (residual - J @ (Pf @ residual))[..., 0]
            scores = np.empty_like(push)
            for t in range(len(push) - 1, -1, -1):
                scores[t] = r = push[t] + r @ covariances.step[t]
            found.store(rows, deviation + np.einsum("tij,tj->ti", covariances.predicted, scores), None)

    def _pieces_backwards(self):
        """Rows of each chunk from the last one on, covariances, means less the level and with it."""
        for k in range(len(self._chunks) - 1, -1, -1):
            rows, is_last = self._chunks[k], k == len(self._chunks) - 1
            covariances, means, *_ = self._last if is_last else self._filter(rows, *self._starts[k])
            deviation = means[..., 0] + means[..., 1:] @ self.level if self._intercept else means[..., 0]
            yield rows, covariances, deviation, deviation + self.level


def _smoothed_spread(P, N):
    """Smoothed covariances of rows, from the predicted ones and those of the scores before them.

    Both are (n_rows, n, n).
    """
    return P - P @ N @ P


class _Scores(NamedTuple):
    """Smoothing scores after and before each row, and their covariances."""

    after: np.ndarray  # (n_rows, n)
    after_N: np.ndarray  # (n_rows, n, n)
    before: np.ndarray  # (n_rows, n)
    before_N: np.ndarray  # (n_rows, n, n)


def _scores(covariances, residual, r, N):
    """The `_Scores` of rows from the residuals (n_rows, n), backwards from (r, N) behind the last."""
    n_rows, n = residual.shape
    J = covariances.J
    JPf = J @ covariances.filtered
    push = residual - np.einsum("tij,tj->ti", JPf, residual)
    gain = J - JPf @ J
    after_r, before_r = np.empty((2, n_rows, n))
    after_N, before_N = np.empty((2, n_rows, n, n))
    for t in range(n_rows - 1, -1, -1):
        after_r[t], after_N[t] = r, N
        L = covariances.step[t]
        r = push[t] + L.T @ r
        N = gain[t] + L.T @ N @ L
        before_r[t], before_N[t] = r, N
    return _Scores(after_r, after_N, before_r, before_N)


# Exact Gaussian likelihood of a plant from information series, missing data included, and what each row adds to it.
#
# The log-density of a measurement given its past depends on the plant through the predicted state x and its
# covariance P alone. Its derivatives there are ``u = C' S^-1 (y - C x)`` with S the covariance of the
# innovation (as information: ``(I - J Pf)(z - J x)``) and ``(u u' - U) / 2`` with ``U = J - J Pf J``; from
# there on derivatives go back in time through the filter, ``P <- A (P - P U P) A' + Q``, as long as it
# remembers. At the true plant the contributions of a well-specified model are martingale differences: a step's
# expectation given the past is zero.

_FORGOTTEN = 1e-3  # what a filter may still remember where derivatives stop going back
_PIECE = 2**21  # numbers in the matrices of the rows that are taken together


class KnownInputs(NamedTuple):
    """Inputs of a record and what the likelihood needs to know about them."""

    series: np.ndarray | None = None  # (n_samples, k) or None
    moments: np.ndarray | None = None  # (n_lags + 1, c, c) or None
    spread: np.ndarray | None = None  # (n, n) or None


def row_by_row(n_samples, n_states, n_steps=None):
    """Operations of an evaluation that goes through so many steps, of all rows unless said otherwise."""
    n_steps = n_samples if n_steps is None else n_steps
    return n_steps * (1e5 + 12 * n_states**3) + n_samples * 300 * n_states


class TimeDomainLikelihood:
    """Exact likelihood as a function of (A, Q), given the information series of all units.

    Every episode starts from the stationary distribution; a constant level of the states in each episode
    is profiled out. Inputs may depend on measurements up to their own time step: each factor of the
    likelihood is a density given the past, inputs included.
    """

    budget = None  # of the search that evaluates it

    def __init__(self, z, matrices, regimes, starts, n_frequencies, *, is_constant=False, inputs=None, levels=True):
        self.n_samples = len(z)
        self._z, self._matrices, self._regimes = z, matrices, regimes
        self._n_frequencies, self._n_steps = n_frequencies, len(z)
        self._inputs = KnownInputs() if inputs is None else inputs
        J = regimes[0][1] if is_constant else None
        self._settings = {"J": J, "starts": starts, "intercept": levels}
        self._settings |= {"inputs": self._inputs.series, "spread": self._inputs.spread}

    @property
    def work(self):
        """Operations of the last evaluation, about: of rows one after the other it is calls that count."""
        return row_by_row(self.n_samples, self._z.shape[1], self._n_steps)

    def evaluate(self, A, Q):
        """Value and gradients per time step at (A, Q), A with the columns of B appended. A is (n, n + k), Q (n, n)."""
        check_time()
        P0, found = smooth(A, Q, self._z, self._matrices, **self._settings)
        self._n_steps = found.n_steps
        own = A[:, : len(Q)]
        through_start = adjoint_lyapunov(own, found.grad_P0)
        grad_A = np.hstack([found.grad_A + 2 * through_start @ own @ P0, found.grad_B])
        grad_Q = found.grad_Q + through_start
        T = self.n_samples
        return Evaluation(found.value / T, grad_A / T, (grad_Q + grad_Q.T) / (2 * T))

    def smoothed(self, A, Q, blocks):
        """States given the whole record and covariances of chosen blocks of them.

        States are (n_samples, n), covariances (n_samples, p, p) each.
        """
        _, found = smooth(A, Q, self._z, self._matrices, keep=blocks, **self._settings)
        return found.states, found.covariances

    def information(self, A, Q):
        """Expected information, each regime taken as if it lasted for ever."""
        return SpectralInformation(*self._factors(A, Q))

    def unit_information(self, A, Q, partition):
        """The diagonal blocks of :meth:`information`, (n_units, n_frequencies, p, p)."""
        n = len(Q)
        U, H, S = self._factors(A, Q)
        S = None if S is None else diagonal_blocks(S[..., :n, :n], partition)
        U, H = diagonal_blocks(U, partition), diagonal_blocks(H[..., :n, :], partition)
        return SpectralInformation(U, H, S)

    def _factors(self, A, Q):
        """U, H and S of the information, regimes one after the other."""
        n = len(Q)
        A, B = A[:, :n], A[:, n:]
        frequencies = midpoints(frequencies_of_states(A, self._n_frequencies))
        inverse = np.linalg.inv(transfer(A, np.exp(1j * frequencies)[:, None, None]))
        H = inverse @ Q
        states = H @ hermitian(inverse)
        driven = DrivenSpectrum(self._inputs.moments, n, frequencies).at(A, B) if B.shape[1] else None
        U, spectra = [], []
        for share, J in self._regimes:
            middle = np.linalg.solve(np.eye(n) + J @ states, np.broadcast_to(J, states.shape))
            weight = np.sqrt(share * len(self._regimes))
            U.append(weight * hermitian(inverse) @ middle @ inverse)
            if driven is not None:
                spectra.append(weight * driven)  # its products with U have the weight once more
        return np.concatenate(U), np.concatenate([H] * len(U)), np.concatenate(spectra) if spectra else None


@dataclass(frozen=True)
class Contributions:
    """Gradients of the log-densities of consecutive rows given their past."""

    rows: slice
    grad_A: np.ndarray  # (n_rows, n, c)
    grad_Q: np.ndarray  # (n_rows, n, n)


def score_contributions(A, Q, z, matrices, *, J, starts=(0,), known=None, spread=None, memory=None):
    """Contributions of every row, some rows at a time and in their order.

    How the stationary distribution of an episode's first state depends on the plant is left out.
    """
    n = len(Q)
    A, B = A[:, :n], A[:, n:]
    P0 = stationary_covariance(A, Q)
    P0 = P0 if spread is None else P0 + spread
    exogenous = None if known is None else input_term(B, known, starts)
    memory = steps_remembered(A, Q, J) if memory is None else memory
    past = None
    for part in filter_rows(A, Q, P0, z, matrices, starts=starts, exogenous=exogenous):
        first, last = part.rows.start, part.rows.stop
        own = _Past.of(part, z, known)
        past = own if first in starts else own.after(past, memory)
        at_once = max(_PIECE // n**2, 1)
        for start in range(first, last, at_once):
            rows = slice(start, min(start + at_once, last))
            yield Contributions(rows, *past.contributions(A, rows, memory))


def steps_remembered(A, Q, J):
    """Rows over which derivatives go back: as long as the filter remembers."""
    n_steps = np.log(_FORGOTTEN) / np.log(max(filter_radius(A, J, Q), 1e-6))
    return min(int(np.ceil(n_steps)), TUNING.timedomain_most_steps)


@dataclass(frozen=True)
class _Past:
    """Rows of an episode and as many before them as the filter remembers."""

    first: int
    u: np.ndarray
    U: np.ndarray
    regressors: np.ndarray
    filtered: np.ndarray
    step: np.ndarray

    @classmethod
    def of(cls, part, z, known):
        """That of filtered rows alone; `z` (n_samples, n), `known` (n_samples, k) or None."""
        J, Pf = part.covariances.J, part.covariances.filtered
        weighed = J @ Pf
        residual = z[part.rows] - np.einsum("tij,tj->ti", J, part.predicted)
        u = residual - np.einsum("tij,tj->ti", weighed, residual)
        regressors = part.filtered if known is None else np.hstack([part.filtered, known[part.rows]])
        return cls(part.rows.start, u, J - weighed @ J, regressors, Pf, part.covariances.step)

    def after(self, before, memory):
        """With the last rows of what came before them."""
        fields = ("u", "U", "regressors", "filtered", "step")
        kept = {name: getattr(before, name)[-memory:] for name in fields}
        joined = {name: np.concatenate([kept[name], getattr(self, name)]) for name in fields}
        return _Past(self.first - len(kept["u"]), **joined)

    def contributions(self, A, rows, memory):
        """Derivatives of the log-densities of a slice of rows with respect to ``[A | B]`` and Q."""
        n = len(A)
        at = np.arange(rows.start, rows.stop) - self.first
        v, W = self.u[at], self.u[at, :, None] * self.u[at, None, :]
        W = (W - self.U[at]) / 2
        grad_A = np.zeros((len(at), n, self.regressors.shape[1]))
        grad_Q = np.zeros_like(W)
        for back in range(1, memory + 1):
            there = at >= back
            if not there.all():  # rows near the start of the episode have no more past
                if not there.any():
                    break
                v, W = np.where(there[:, None], v, 0.0), np.where(there[:, None, None], W, 0.0)
            row = np.maximum(at - back, 0)
            grad_A += v[:, :, None] * self.regressors[row, None, :]
            grad_A[:, :, :n] += 2 * (W @ A) @ self.filtered[row]
            grad_Q += W
            step = self.step[row]
            turned = np.swapaxes(step, 1, 2)
            v = (turned @ v[:, :, None])[:, :, 0]
            mixed = v[:, :, None] * self.u[row, None, :]
            W = turned @ W @ step + (mixed + np.swapaxes(mixed, 1, 2)) / 2
        return grad_A, grad_Q


# Noise with heavier tails than a Gaussian's: components of Student's t in its place.

_FREEDOMS = np.array([1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0, 20.0, 50.0])
_MOST_ROWS = 5000  # that tails are learned from


def heavy_tails(white):
    """:class:`Tails` of rows with unit covariance, None where all of their components may be Gaussian.

    `white` is (n_samples, n).
    """
    return Tails.learned(white) if are_heavy(white) else None


@dataclass(frozen=True)
class Tails:
    """Independent components of Student's t in place of standard Gaussian ones."""

    freedom: np.ndarray  # (n,), infinite where a component is Gaussian
    size: np.ndarray  # (n,)

    @classmethod
    def learned(cls, white):
        """Of the most likely components, by BIC; None where all of them are Gaussian."""
        rows = white[:: max(len(white) // _MOST_ROWS, 1)]
        freedom, size = np.array([_component(x) for x in rows.T]).T
        return cls(freedom, size) if np.isfinite(freedom).any() else None

    def gain(self, white):
        """What they add to the Gaussian log-density of rows (n_samples, n), shape (n_samples,)."""
        at = np.flatnonzero(np.isfinite(self.freedom))
        x = white[:, at]
        return (_log_t(x, self.freedom[at], self.size[at]) + 0.5 * (x**2 + np.log(2 * np.pi))).sum(axis=1)


def _log_t(x, freedom, size):
    """Log-density of Student's t."""
    constant = gammaln((freedom + 1) / 2) - gammaln(freedom / 2) - 0.5 * np.log(freedom * np.pi) - np.log(size)
    return constant - (freedom + 1) / 2 * np.log1p((x / size) ** 2 / freedom)


def _component(x):
    """Degrees of freedom and scale of the most likely t, infinite and one where a Gaussian is as good.

    `x` is (n_samples,).
    """
    squares = x[:, None] ** 2
    variance = np.full(len(_FREEDOMS), max(np.median(squares), TUNING.tails_least_size**2))
    for _ in range(TUNING.tails_steps):
        variance = np.mean((_FREEDOMS + 1) / (_FREEDOMS + squares / variance) * squares, axis=0)
        variance = np.maximum(variance, TUNING.tails_least_size**2)
    found = _log_t(x[:, None], _FREEDOMS, np.sqrt(variance)).sum(axis=0)
    best = int(found.argmax())
    gain = found[best] + 0.5 * (x @ x + len(x) * np.log(2 * np.pi))
    if gain < TUNING.tails_least_gain + np.log(len(x)):
        return np.inf, 1.0
    return _FREEDOMS[best], np.sqrt(variance[best])
