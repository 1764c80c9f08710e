"""Exact smoother for a constant information matrix, without a loop over time.

The same quantities as :func:`~skfedcausal.statespace.varying.smooth`. Covariances settle a few steps after
the start of an episode and, on the way back, a few steps before its end; in between filter and smoother are
linear recurrences with constant matrices.
"""

import numpy as np

from .episodes import episodes
from .filter import covariance_schedule, filtered_states, log_likelihood_terms, predicted_states
from .recurrence import driven_recurrence
from .smoothed import SmoothedSums

_SETTLED = 1e-14


def smooth_constant(A, Q, P0, z, J, *, starts=(0,), exogenous=None, inputs=None, intercept=False, keep=None):
    """Log-likelihood and its gradient over one or several episodes.

    Parameters
    ----------
    A, Q, P0, J : ndarray of shape (n, n)
        Every episode starts from covariance `P0`; the information matrix J holds at every step.
    z : ndarray of shape (n_samples, n)
    starts, exogenous, inputs, intercept, keep
        See :func:`~skfedcausal.statespace.varying.smooth`.

    Returns
    -------
    SmoothedSums
    """
    longest = max(stop - start for start, stop in episodes(starts, len(z)))
    schedule = covariance_schedule(A, Q, J, P0, max_steps=longest)
    sums = SmoothedSums(len(A), 0 if inputs is None else inputs.shape[1])
    for start, stop in episodes(starts, len(z)):
        rows = slice(start, stop)
        known = None if exogenous is None else exogenous[rows]
        filtered = filtered_states(schedule, (z[rows], None), exogenous=known)
        predicted = predicted_states(A, filtered, exogenous=known)
        level = np.zeros(len(A))
        if intercept:
            response = _level_response(schedule, stop - start)
            level = _level(schedule, z[rows] - predicted @ J, response)
            predicted += _constant_after(response @ level, stop - start)
        total = predicted + level
        sums.value += float(log_likelihood_terms(schedule, z[rows], 0.0, total).sum())
        back = _Backward(schedule, z[rows] - total @ J)
        back.add_gradients(sums, predicted, None if inputs is None else inputs[rows])
        if keep is not None:
            keep.store(rows, predicted + back.pushed, back.spread())
        sums.levels.append(level)
    return sums


def _level_response(schedule, n_samples):
    """Response of the predicted states to a unit level of each state until it settles, (k, n, n)."""
    A, J = schedule.A, schedule.J
    n = len(A)
    H, response = np.zeros((n, n)), []
    while len(response) < n_samples:
        response.append(H)
        _, Pf = schedule.at(len(response) - 1)
        new = A @ (H - Pf @ J @ (H + np.eye(n)))
        change = np.abs(new - H).max()
        H = new
        if len(response) > schedule.n_transient and change <= _SETTLED * (1 + np.abs(H).max()):
            break
    return np.array(response)


def _constant_after(rows, n_samples):
    """Rows, the last one repeated up to `n_samples`."""
    return rows[np.minimum(np.arange(n_samples), len(rows) - 1)]


def _level(schedule, residual, response):
    """Maximum-likelihood level from the information innovations of the record without one."""
    J, (n_samples, n) = schedule.J, residual.shape
    k = min(len(response), n_samples)
    normal, right = np.zeros((n, n)), np.zeros(n)
    for t in range(k):
        _, Pf = schedule.at(t)
        H = response[t] + np.eye(n)
        normal += H.T @ (J - J @ Pf @ J) @ H
        right += H.T @ (residual[t] - J @ (Pf @ residual[t]))
    if k < n_samples:
        Pf, H = schedule.filtered[-1], response[-1] + np.eye(n)
        normal += (n_samples - k) * (H.T @ (J - J @ Pf @ J) @ H)
        rest = residual[k:].sum(axis=0)
        right += H.T @ (rest - J @ (Pf @ rest))
    return np.linalg.lstsq(normal, right, rcond=1e-12)[0]


class _Backward:
    """Smoothing scores of one episode, by a recurrence from its end to where covariances had settled.

    Attributes
    ----------
    scores : ndarray of shape (n_samples, n)
        Score before each row.
    pushed : ndarray of shape (n_samples, n)
        Smoothed less predicted states.
    """

    def __init__(self, schedule, residual):
        self._schedule = schedule
        A, J = schedule.A, schedule.J
        n_samples, n = residual.shape
        self._first = first = min(schedule.n_transient, n_samples)
        Pf = schedule.filtered[-1]
        step = A - A @ Pf @ J
        self.scores, self.pushed = np.empty((n_samples, n)), np.empty((n_samples, n))
        if first < n_samples:
            drive = (residual[first:][::-1], np.eye(n) - J @ Pf)
            self.scores[first:] = driven_recurrence(step.T, drive)[::-1]
            np.dot(self.scores[first:], schedule.predicted[-1], out=self.pushed[first:])
        self._settled_spread(step, n_samples - first)
        r = self.scores[first] if first < n_samples else np.zeros(n)
        N = self._N
        for t in range(first - 1, -1, -1):
            P, Pf = schedule.at(t)
            if t < n_samples - 1:
                self._N_sum = self._N_sum + N
                self._N_carried = self._N_carried + N @ (A @ Pf)
            L = A - A @ Pf @ J
            r = residual[t] - J @ (Pf @ residual[t]) + L.T @ r
            N = J - J @ Pf @ J + L.T @ N @ L
            self.scores[t], self.pushed[t] = r, P @ r
            self._before.append((N + N.T) / 2)
        self._N = N

    def _settled_spread(self, step, n_rows):
        """N before the first of the settled rows, and its sums over the transitions they start."""
        schedule = self._schedule
        J, Pf, n = schedule.J, schedule.filtered[-1], len(step)
        gain = J - J @ Pf @ J
        N, total, self._before = np.zeros((n, n)), np.zeros((n, n)), []
        for t in range(n_rows):
            if t > 0:  # the last row starts no transition
                total = total + N
            new = gain + step.T @ N @ step
            change = np.abs(new - N).max()
            N = (new + new.T) / 2
            self._before.append(N)
            if change <= _SETTLED * np.abs(N).max():
                total = total + (n_rows - t - 1) * N
                break
        self._N, self._N_sum = N, total
        self._N_carried = total @ (schedule.A @ Pf)

    def add_gradients(self, sums, predicted, inputs):
        """Add the derivatives of this episode."""
        after = self.scores[1:]
        sums.grad_A += after.T @ (predicted + self.pushed)[:-1] - self._N_carried
        sums.grad_Q += (after.T @ after - self._N_sum) / 2
        if inputs is not None:
            sums.grad_B += after.T @ inputs[:-1]
        sums.grad_P0 += (np.outer(self.scores[0], self.scores[0]) - self._N) / 2

    def spread(self):
        """Smoothed covariances of all rows, (n_samples, n, n)."""
        tail = len(self._before) - self._first  # distinct N of the settled rows, from the end
        n_samples, n = self.scores.shape
        covariances = np.empty((n_samples, n, n))
        for t in range(n_samples):
            if t < self._first:
                N = self._before[tail + self._first - 1 - t]
            else:
                N = self._before[min(n_samples - 1 - t, tail - 1)]
            P, _ = self._schedule.at(t)
            covariances[t] = P - P @ N @ P
        return covariances
