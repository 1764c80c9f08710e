"""Coherent shift statistic: likelihood ratio of a fault that stays, on the innovations of a Kalman filter.

A fault at unit m adds a constant f to the unit's rows of the state equation from onset tau on. Through the
plant and the filter it moves the mean of every later innovation in a known way, so the likelihood ratio
against "no fault" is that of a linear regression of innovations on signatures (Willsky & Jones 1976). With
the scaled innovations ``u = S^-1 (s - predicted)`` (S their covariance before scaling) the regression needs
only the smoothing scores r of the record (de Jong & Penzer 1998):

    r_t = u_t + F' r_(t+1),   b_tau = r_tau + ... + r_end,   ratio_m = b_m' M_mm^-1 b_m,

for every unit and every onset in one pass backwards. ``F = A (I - Pf J)`` carries a prediction error to the
next step. The ratio is twice the gain in log-likelihood, chi-square with P_m degrees of freedom without a
fault.

References
----------
.. [1] Willsky, Jones (1976), A generalized likelihood ratio approach to the detection and estimation of
       jumps in linear systems, IEEE Transactions on Automatic Control 21(1).
.. [2] de Jong, Penzer (1998), Diagnosing shocks in time series, Journal of the American Statistical
       Association 93(442).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..kalman import Recurrence, covariance_schedule, filtered_states, predicted_states
from ..matrices import companion
from ..riccati import filtered_covariance, predicted_covariance, stationary_covariance
from .tuning import TUNING

_SETTLED = 1e-6  # share of a step's signature that is left when it is taken to stay
_RIDGE = 1e-9


@dataclass(frozen=True)
class InnovationModel:
    """Steady Kalman filter of a plant of any number of lags seen through its innovations.

    A : transition matrix, (n, n), or those of p lags, (p, n, n)
    Q, J : process covariance and information of a row's measurements, (n, n)

    The filter runs on the p n states with their lags; what it says is about the newest n.
    """

    A: np.ndarray
    Q: np.ndarray
    J: np.ndarray

    def __getstate__(self):
        """Without what is computed again when it is asked for, which is large."""
        return {name: vars(self)[name] for name in self.__dataclass_fields__}

    @property
    def n_states(self):
        """States without their lags."""
        return len(self.Q)

    @cached_property
    def transition(self):
        """Transition matrix of the states with their lags, (p n, p n)."""
        lags = self.A.reshape(-1, *self.Q.shape)
        return companion(np.hstack(list(lags)), len(lags))

    @property
    def top(self):
        """``[A_1 | A_2 | ...]``, (n, p n)."""
        return self.transition[: len(self.Q)]

    def _padded(self, x, n_axes):
        """Vectors (..., n) or matrices (..., n, n) of the newest states with zeros for their lags."""
        padded = np.zeros((*x.shape[:-n_axes], *self.transition.shape[:n_axes]))
        padded[(..., *(slice(len(self.Q)),) * n_axes)] = x
        return padded

    @cached_property
    def process_cov(self):
        """Process covariance of the states with their lags, (p n, p n)."""
        return self._padded(self.Q, 2)

    @cached_property
    def schedule(self):
        """Covariances of the filter, see :func:`~skfedcausal.statespace.kalman.covariance_schedule`."""
        return covariance_schedule(self.transition, self.process_cov, self._padded(self.J, 2))

    @cached_property
    def first(self):
        """Covariance of the states and their lags before the first row of an episode, (p n, p n)."""
        return stationary_covariance(self.transition, self.process_cov)

    @cached_property
    def settled(self):
        """Covariance of the predicted states and their lags once it is steady, (p n, p n)."""
        return predicted_covariance(self.transition, self._padded(self.J, 2), self.process_cov)

    @cached_property
    def update(self):
        """Takes ``z - J predicted`` into the filtered states and lags, once steady, (p n, n)."""
        return filtered_covariance(self.settled, self._padded(self.J, 2))[:, : len(self.Q)]

    @cached_property
    def scaling(self):
        """``(I + J P)^-1``, which turns ``z - J predicted`` into scaled innovations."""
        n = len(self.Q)
        return np.linalg.inv(np.eye(n) + self.J @ self.settled[:n, :n])

    @cached_property
    def weight(self):
        """Covariance of the scaled innovations, shape (n, n)."""
        W = self.scaling @ self.J
        return (W + W.T) / 2

    @cached_property
    def whitening(self):
        """Matrix that whitens the scaled innovations: ``u @ whitening`` has unit covariance."""
        values, vectors = np.linalg.eigh(self.weight)
        seen = values > 1e-12 * values[-1]
        return vectors[:, seen] / np.sqrt(values[seen])

    @cached_property
    def carry(self):
        """``F = A (I - Pf J)``, which takes a prediction error to the next step, (p n, p n)."""
        carry = self.transition.copy()
        carry[:, : len(self.Q)] -= self.gain
        return carry

    @cached_property
    def gain(self):
        """``A Pf J``, which takes a measured state into the next prediction, (p n, n)."""
        return self.transition @ self.update @ self.J

    @cached_property
    def _backwards(self):
        return Recurrence(self.carry.T)

    def smoothing_scores(self, u):
        """``r_t = u_t + F' r_(t+1)`` with nothing after the last row, shape (..., n_samples, p n)."""
        return self._backwards.run((self._padded(u[..., ::-1, :], 1), None))[..., ::-1, :]

    def step_information(self, n_steps):
        """Covariance of the step scores for windows of 1, ..., n_steps rows, shape (n_steps, n, n)."""
        return _information(responses(self.carry, n_steps, len(self.weight)), self.weight)

    @cached_property
    def held(self):
        """Shift of the mean innovation, once settled, per unit of a fault that stays, (n, n): ``(I - F)^-1``."""
        size, n = len(self.carry), len(self.Q)
        return np.linalg.solve(np.eye(size) - self.carry, np.eye(size, n))[:n]

    @property
    def held_covariance(self):
        """Covariance of ``u @ held``, (n, n)."""
        return self.held.T @ self.weight @ self.held

    def scaled(self, z, predicted):
        """Scaled innovations of rows of information matrix J, from information vectors and predictions."""
        return (z - predicted @ self.J) @ self.scaling.T

    def corrected(self, predicted, u):
        """Filtered states of rows from the predicted ones and the scaled innovations."""
        n = len(self.Q)
        return predicted + u @ self.settled[:n, :n]

    def filtered(self, z, starts=(0,)):
        """Innovations and predicted states of complete rows, (n_samples, n), all scaled as by the steady filter."""
        filtered = filtered_states(self.schedule, (self._padded(z, 1), None), starts=starts)
        predicted = predicted_states(self.transition, filtered, starts=starts)[:, : len(self.Q)]
        return self.scaled(z, predicted), predicted


def step_scores(model, u):
    """Score of a fault that starts in each row and lasts to the end, shape (..., n_samples, n).

    Row tau is ``sum_(t >= tau) G_(t - tau)' u_t`` with ``G_k = I + F + ... + F^k``.
    """
    return sums_to_end(model.smoothing_scores(u))[..., : u.shape[-1]]


def sums_to_end(series):
    """Sum of each row and all after it, shape (..., n_samples, k)."""
    return series[..., ::-1, :].cumsum(axis=-2)[..., ::-1, :]


def _information(responses, W):
    """Sums of ``G' W G`` over the first responses, shape (n_steps, n, n)."""
    table, total = np.empty(responses.shape), np.zeros_like(W)
    for k, G in enumerate(responses):
        total = table[k] = total + G.T @ W @ G
    return table


def step_and_bias_scores(model, u):
    """:func:`step_scores`, and the scores of a constant added to the states as the unit's sensors show them.

    A sensor fault moves the innovation at once and is then taken back as far as the filter follows the
    sensor: ``b_tau = sum_(t >= tau) u_t - (A Pf J)' sum_(t > tau) r_t``.
    """
    r = model.smoothing_scores(u)
    step = sums_to_end(r)
    return step[..., : u.shape[-1]], sums_to_end(u) - (step - r) @ model.gain


def bias_information(model, n_steps):
    """Covariance of the bias scores for windows of 1, ..., n_steps rows, shape (n_steps, n, n)."""
    return _information(_bias_responses(model, n_steps), model.weight)


def _bias_responses(model, n_steps):
    """Shifts of the mean innovation in the rows since the unit's sensors show a constant more, (n_steps, n, n)."""
    n, error = len(model.weight), np.zeros_like(model.gain)
    responses = np.empty((n_steps, n, n))
    for k in range(n_steps):
        responses[k] = np.eye(n) + error[:n]
        error = model.carry @ error - model.gain
    return responses


def ramp_ratios(model, step, bias, blocks):
    """Likelihood ratios of ramps from the first row of a window on, in the states of each block, then in its sensors.

    A ramp is one more step in every row: signatures and scores, (n_samples, n), of steps from every row on add up.
    """
    n_steps, found = len(step), []
    of_steps = responses(model.carry, n_steps, len(model.weight))
    for scores, signatures in ((step, of_steps), (bias, _bias_responses(model, n_steps))):
        ramp, b = signatures.cumsum(axis=0), scores.sum(axis=0)
        for at in blocks:
            G = ramp[:, :, at]
            M = np.tensordot(G, model.weight @ G, axes=([0, 1], [0, 1]))
            found.append(b[at] @ np.linalg.solve(M, b[at]))
    return np.array(found)


@dataclass(frozen=True)
class Signatures:
    """Likelihood ratios of candidate faults for every onset in a window at once.

    `pairs` are those (i, j) of states of which some candidate has both. `groups` hold the candidates of the
    same number of states: their positions, which `pairs` are theirs, shape (n_sets, q), and the inverse
    information of each pair, off-diagonal ones counted twice, shape (n_sets, q, n_rows), whose last entry is
    about one row, the first about `n_rows`. `n_params` counts the states of each candidate.
    """

    pairs: tuple
    groups: tuple
    n_params: np.ndarray

    @classmethod
    def prepare(cls, information, candidates):
        """From the covariance of the scores for windows of 1, ..., n_rows rows and the candidates' states."""
        sizes = np.array([len(columns) for columns in candidates])
        number = np.zeros(information.shape[1:], dtype=np.intp)
        for columns in candidates:
            i, j = np.triu_indices(len(columns))
            number[columns[i], columns[j]] = 1
        pairs = np.nonzero(number)
        number[pairs] = np.arange(len(pairs[0]))
        groups = []
        for size in np.unique(sizes):
            positions = np.flatnonzero(sizes == size)
            columns = np.array([candidates[k] for k in positions])
            inverse = np.stack([np.linalg.inv(information[::-1, c[:, None], c]) for c in columns])
            i, j = np.triu_indices(size)
            packed = np.where(i == j, 1.0, 2.0) * inverse[:, :, i, j]
            along_rows = np.ascontiguousarray(packed.swapaxes(1, 2))
            groups.append((positions, number[columns[:, i], columns[:, j]], along_rows))
        return cls(pairs, tuple(groups), sizes)

    @property
    def n_rows(self):
        """Longest window."""
        return self.groups[0][2].shape[2]

    def ratios(self, scores, n_after=0):
        """Likelihood ratio of every candidate for every onset, shape (n_candidates, n_rows).

        `scores`, shape (n_rows, n), are of a fault that starts in each row and lasts to the end of the
        window, which has `n_after` more rows in which no fault starts.
        """
        series = np.ascontiguousarray(scores.T)
        products = np.multiply(*series.take(self.pairs, axis=0))
        ratios = np.empty((len(self.n_params), len(scores)))
        rows = slice(self.n_rows - n_after - len(scores), self.n_rows - n_after)
        for positions, chosen, inverse in self.groups:
            ratios[positions] = np.einsum("cqt,cqt->ct", products.take(chosen, axis=0), inverse[:, :, rows])
        return ratios


def likelihood_ratios(scores, information, columns=slice(None)):
    """Likelihood ratios, shape (k,), of a fault in some columns of scores (k, n) of covariance (k, n, n)."""
    b, M = scores[:, columns], information[:, columns][:, :, columns]
    return np.einsum("ki,ki->k", b, np.linalg.solve(M, b[..., None])[..., 0])


def responses(F, n_steps, n=None):
    """``G_k = I + F + ... + F^k`` for k = 0, ..., n_steps - 1, of the first n states to themselves."""
    n = len(F) if n is None else n
    at_once = np.eye(len(F), n)
    G, responses = np.zeros_like(at_once), np.empty((n_steps, n, n))
    for k in range(n_steps):
        G = at_once + F @ G
        responses[k] = G[:n]
    return responses


def steps_in_turn(model, slices, scaled, units):
    """Likelihood ratio of steps at two units in a window of scaled innovations, their likeliest onsets, and the gain.

    The gain is that in the ratio over the likeliest onset of both at once.
    """
    n_rows = len(scaled)
    onsets = np.unique(np.linspace(0, n_rows - 1, TUNING.shift_onsets, endpoint=False).astype(int))
    white = scaled @ model.whitening
    steps = np.swapaxes(model.whitening.T @ model.weight @ responses(model.carry, n_rows, len(model.weight)), 0, 1)
    first, second = (_signatures(steps[:, :, slices[m]], onsets, n_rows) for m in units)
    b1, b2 = (np.einsum("ktnp,tn->kp", part, white) for part in (first, second))
    flat1, flat2 = (part.transpose(0, 3, 1, 2).reshape(len(onsets), part.shape[3], -1) for part in (first, second))
    J1, J2 = flat1 @ flat1.swapaxes(1, 2), flat2 @ flat2.swapaxes(1, 2)
    cross = np.einsum("ipx,jqx->ijpq", flat1, flat2)
    k, p, q = len(onsets), J1.shape[1], J2.shape[1]
    J = np.empty((k, k, p + q, p + q))
    J[..., :p, :p], J[..., p:, p:] = J1[:, None], J2[None]
    J[..., :p, p:], J[..., p:, :p] = cross, cross.swapaxes(2, 3)
    J += _RIDGE * np.trace(J[0, 0]) * np.eye(p + q)
    b = np.concatenate([np.broadcast_to(b1[:, None], (k, k, p)), np.broadcast_to(b2[None], (k, k, q))], axis=2)
    ratios = (b * np.linalg.solve(J, b[..., None])[..., 0]).sum(axis=2)
    i, j = np.unravel_index(ratios.argmax(), ratios.shape)
    gain = ratios[i, j] - np.diag(ratios).max()
    return float(ratios[i, j]), (int(onsets[i]), int(onsets[j])), float(gain)


def _signatures(steps, onsets, n_rows):
    """Mean of the whitened innovations per unit of a step from each onset on, (n_onsets, n_rows, n, p)."""
    n, _, p = steps.shape
    found = np.zeros((len(onsets), n_rows, n, p))
    for row, onset in zip(found, onsets.tolist(), strict=True):
        row[onset:] = steps.transpose(1, 0, 2)[: n_rows - onset]
    return found
