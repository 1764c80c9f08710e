"""Statistics of faults: how a unit surprises the plant, coherent shifts and changed dynamics on innovations."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import linalg, sparse

from ..kalman import (
    Recurrence,
    covariance_schedule,
    filtered_covariance,
    filtered_states,
    predicted_covariance,
    predicted_states,
    stationary_covariance,
)
from ..matrices import companion, slices_of
from .tuning import TUNING

# Coherent shift statistic: likelihood ratio of a fault that stays, on the innovations of a Kalman filter.
#
# A fault at unit m adds a constant f to the unit's rows of the state equation from onset tau on. Through the
# plant and the filter it moves the mean of every later innovation in a known way, so the likelihood ratio
# against "no fault" is that of a linear regression of innovations on signatures (Willsky & Jones 1976). With
# the scaled innovations ``u = S^-1 (s - predicted)`` (S their covariance before scaling) the regression needs
# only the smoothing scores r of the record (de Jong & Penzer 1998):
#
#     r_t = u_t + F' r_(t+1),   b_tau = r_tau + ... + r_end,   ratio_m = b_m' M_mm^-1 b_m,
#
# for every unit and every onset in one pass backwards. ``F = A (I - Pf J)`` carries a prediction error to the
# next step. The ratio is twice the gain in log-likelihood, chi-square with P_m degrees of freedom without a
# fault.
#
# References
# ----------
# .. [1] Willsky, Jones (1976), A generalized likelihood ratio approach to the detection and estimation of
#        jumps in linear systems, IEEE Transactions on Automatic Control 21(1).
# .. [2] de Jong, Penzer (1998), Diagnosing shocks in time series, Journal of the American Statistical
#        Association 93(442).

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
    def forwards(self):
        """Steps of prediction errors."""
        return Recurrence(self.carry)

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
        filtered = filtered_states(self.schedule, self._padded(z, 1), starts=starts)
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


# Changed dynamics: likelihood of other dynamics of a unit, on the innovations of a Kalman filter.
#
# Where the transition matrix becomes ``A + D`` the filter, which goes on with A, errs by ``D x`` more in every row. The
# error of its prediction is ``d_(t+1) = F d_t + D x_t``, with x the filtered states and ``F = A (I - Pf J)``, and moves
# the mean of the scaled innovations by ``W d``, W their covariance: a linear regression on D, to first order. A change
# of the dynamics of a unit's own states is any D in its diagonal block. A change of gain of a link is D in proportion
# to the block of A that the link is, minus one where the link is lost. Where a unit tells its states with the other
# sign D is ``S A S - A``, S the identity but for the states of the unit, where it is minus one.

_TOGETHER = 1 << 20  # numbers of all errors of a piece of rows that are held at once


def own_change_ratios(model, u, filtered, blocks, seen=None):
    """Likelihood ratios of other dynamics of the states of each block among themselves, (n_blocks,).

    From the scaled innovations of a window and its filtered states, both (n_samples, n), under the
    :class:`~.shift.InnovationModel` of the plant. Chi-square with ``p^2`` degrees of freedom where nothing has changed.
    Rows in which a block is not `seen`, (n_samples, n_blocks), tell nothing of it; None if all are.
    """
    before, ratios = _row_before(filtered), []
    for m, b in enumerate(blocks):
        i, j = np.divmod(np.arange((b.stop - b.start) ** 2), b.stop - b.start)
        changes = np.zeros((len(i), *model.J.shape))
        changes[np.arange(len(i)), b.start + i, b.start + j] = 1.0
        score, information = _regression(model, changes, _where_seen(before, seen, m), u)
        ratios.append(score @ np.linalg.lstsq(information, score, rcond=None)[0])
    return np.array(ratios)


def gain_changes(model, u, filtered, blocks, seen=None):
    """Scores and information of the gain of every link, (n_blocks, n_blocks), row: effect, column: cause.

    The gain that is most likely is one more than the score over the information; both are zero where there is no link.
    Rows in which the effect is not `seen` tell nothing of it.
    """
    before, scores = _row_before(filtered), np.zeros((len(blocks),) * 2)
    information = np.zeros_like(scores)
    for m, effect in enumerate(blocks):
        causes = [k for k, cause in enumerate(blocks) if k != m and model.top[effect, cause].any()]
        if not causes:
            continue
        changes = np.zeros((len(causes), *model.J.shape))
        for change, k in zip(changes, causes, strict=True):
            change[effect, blocks[k]] = model.top[effect, blocks[k]]
        score, products = _regression(model, changes, _where_seen(before, seen, m), u)
        scores[m, causes], information[m, causes] = score, np.diag(products)
    return scores, information


def reversal_ratios(model, u, filtered, blocks, seen):
    """Log likelihood ratios that each block tells its states with the other sign, (n_samples, n_blocks).

    From each row on to the last one. Nothing is estimated, so that they fall with the number of nominal rows.
    """
    signs = np.ones((len(blocks), u.shape[1]))
    for own, b in zip(signs, blocks, strict=True):
        own[b] = -1.0
    A = model.top[:, : u.shape[1]]
    changes, there = (signs[:, :, None] * signs[:, None] - 1) * A, seen.repeat([b.stop - b.start for b in blocks], 1)
    gained = []
    for rows, errors in _errors(model, changes, _row_before(filtered)):
        errors = errors * there[rows]
        gained.append((errors * (u[rows] - errors @ model.weight / 2)).sum(axis=2))
    return np.concatenate(gained, axis=1)[:, ::-1].cumsum(axis=1)[:, ::-1].T


def _row_before(series):
    """The series one row later, nothing in the first row."""
    return np.concatenate([np.zeros((1, series.shape[1])), series[:-1]])


def _where_seen(before, seen, effect):
    """States of the row before where a block is seen in the row, zero elsewhere."""
    return before if seen is None else np.where(seen[:, [effect]], before, 0.0)


def _regression(model, changes, before, u):
    """Scores and information of innovations u on what changes of the dynamics do to them, (k, n, n).

    `before` are the filtered states of the row before each.
    """
    size = len(changes)
    score, information = np.zeros(size), np.zeros((size, size))
    for rows, errors in _errors(model, changes, before):
        flat = errors.reshape(size, -1)
        score += flat @ u[rows].ravel()
        information += flat @ (errors @ model.weight).reshape(size, -1).T
    return score, information


def _errors(model, changes, before):
    """By how much changes of the dynamics, (k, n, n), move predictions, (k, n_rows, n), of pieces of a window."""
    n, size = before.shape[1], len(changes)
    at_once, last = max(1, _TOGETHER // (size * len(model.carry))), None
    for first in range(0, len(before), at_once):
        rows = slice(first, first + at_once)
        pushes = np.zeros((size, len(before[rows]), len(model.carry)))
        np.matmul(before[rows], changes.swapaxes(1, 2), out=pushes[..., :n])
        errors = model.forwards.run((pushes, None), x0=last)
        last = errors[:, -1].copy()
        yield rows, errors[..., :n]


# Energy statistic: by how much, and in how many steps, a unit surprises a model of the whole plant.
#
# The unit's states are predicted from all units' last states by a ridge regression. The unit's own surprise is
# the part of it that the others' innovations of the same step do not explain: with innovation covariance C and
# ``L = C^-1`` the conditional innovation of block m is ``e_m - E[e_m | others] = L_mm^-1 (L e)_m``, and
#
#     a_m = e_m' C_mm^-1 e_m + g_m            (own innovation)
#     q_m = (L e)_m' L_mm^-1 (L e)_m + g_m    (given the other units of the same step)
#
# where g_m is the unit's off-subspace number: the distance of its measurements from those its states can
# show. Sums of ``log(1 + q / mean q)`` are log-likelihood ratios of a Cauchy-like tail: it counts for how long
# and in how many steps a unit surprises, not how far its victims are pushed.
#
# The regression is meant for rows as they are measured nominally. Where the last row was seen worse, or not at
# all, the uncertainty about it goes on into the prediction: the rows are the states of a Kalman filter whose
# noise is that of a row beyond its nominal noise, and an innovation is judged by the covariance that this
# filter gives it.

PENALTIES = (1e-5, 1e-4, 0.001, 0.01, 0.03, 0.1, 0.3)
_ENERGY_SETTLED = 1e-10
_ENERGY_TOGETHER = 256  # rows whose covariances are inverted together
_MANY = 200  # rows of a block-diagonal matrix beyond which it is sparse

# -- prediction of a row from the last one ---------------------------------------------------------------


class Predictor(Protocol):
    """Predicts rows from the rows before them; `slopes` is the derivative, shape (n, n), at one row."""

    def predict(self, past: np.ndarray, /) -> np.ndarray: ...

    def slopes(self, past: np.ndarray, /) -> np.ndarray: ...


@dataclass(frozen=True)
class LinearMap:
    """Prediction of a row from the last: ``x_(t-1) @ matrix + level``."""

    matrix: np.ndarray
    level: np.ndarray | float = 0.0

    def predict(self, past):
        """Predicted rows."""
        return past @ self.matrix + self.level

    def slopes(self, past):
        """Derivatives of the predicted row by the last, shape (n, n)."""
        return self.matrix.T


@dataclass(frozen=True)
class ScaledMap:
    """A regressor of standardised rows, in the units of the rows."""

    model: Any
    mean: np.ndarray
    scale: np.ndarray

    def predict(self, past):
        """Predicted rows."""
        inside = (past - self.mean) / self.scale
        return self.model.predict(inside) * self.scale + self.mean

    def slopes(self, past):
        """Derivatives of the predicted row by the last, shape (n, n), over a tenth of each state's spread."""
        steps = 0.1 * np.diag(self.scale)
        ahead, behind = np.split(self.predict(np.concatenate([past + steps, past - steps])), 2)
        return ((ahead - behind) / (0.2 * self.scale[:, None])).T


def ridge_transition(past, present, penalty):
    """``argmin |present - past B|^2 + penalty T |B|^2`` over T rows, shape (n, n)."""
    n = past.shape[1]
    gram = past.T @ past + penalty * len(past) * np.eye(n)
    return np.linalg.solve(gram, past.T @ present)


def held_out_errors(x: np.ndarray, folds: Sequence[tuple[int, int]], fit: Callable) -> list[np.ndarray]:
    """Errors of every fold (start, stop) without its first row under ``fit(past, present)`` to the others."""
    pairs = [(x[start : stop - 1], x[start + 1 : stop]) for start, stop in folds]
    errors = []
    for k, (past, present) in enumerate(pairs):
        others = pairs[:k] + pairs[k + 1 :]
        model = fit(np.concatenate([p for p, _ in others]), np.concatenate([q for _, q in others]))
        errors.append(present - model.predict(past))
    return errors


def held_out_innovations(x, folds, penalties=PENALTIES):
    """Errors of every fold under the ridge regression fitted to the others, and the best penalty.

    Its held-out errors are smallest in the geometric mean over the states: slow ones count as much.
    """

    def ridge(past, present, penalty):
        return LinearMap(ridge_transition(past, present, penalty))

    def error(found):
        return np.log(sum((e**2).sum(axis=0) for e in found[0])).sum()

    return min(((held_out_errors(x, folds, partial(ridge, penalty=p)), p) for p in penalties), key=error)


# -- surprises -------------------------------------------------------------------------------------------


def block_diagonal(blocks):
    """Matrix of blocks (rows, columns) on its diagonal, sparse where it has many rows."""
    if sum(map(len, blocks)) <= _MANY:
        return linalg.block_diag(*blocks)
    return sparse.csr_array(sparse.block_diag(blocks, format="csr"))


def block_sums(slices):
    """Matrix that sums the columns of each block, shape (n, n_blocks)."""
    return block_diagonal([np.ones((b.stop - b.start, 1)) for b in slices])


class Surprises(NamedTuple):
    """What rows say beyond their prediction.

    errors : of the prediction, zero for absent units, (n_samples, n)
    own, given : surprise of each unit on its own and given the others, (n_samples, n_units)
    row : the :class:`RowBelief` about the last row, None where none is kept
    """

    errors: np.ndarray
    own: np.ndarray
    given: np.ndarray
    row: Any = None


@dataclass(frozen=True)
class ConditionalEnergy:
    """Surprise of every unit, on its own and given the other units' innovations of the same step.

    From the covariance C of the innovations, shape (n, n), and the states of each unit.
    """

    covariance: np.ndarray
    blocks: tuple[slice, ...]

    @cached_property
    def _precision(self):
        return np.linalg.inv(self.covariance)

    @cached_property
    def _sums(self):
        return block_sums(self.blocks)

    @cached_property
    def _own_root(self):
        return block_diagonal([np.linalg.cholesky(np.linalg.inv(self.covariance[b, b])) for b in self.blocks])

    @cached_property
    def given_root(self):
        """Whitens the errors of each unit given those of the others: ``e @ given_root``, (n, n)."""
        L = self._precision
        return np.hstack([L[:, b] @ np.linalg.cholesky(np.linalg.inv(L[b, b])) for b in self.blocks])

    def own(self, e):
        """``e_m' C_mm^-1 e_m``, shape (n_samples, n_units)."""
        return (e @ self._own_root) ** 2 @ self._sums

    def given_others(self, e):
        """``(L e)_m' L_mm^-1 (L e)_m``, shape (n_samples, n_units)."""
        return (e @ self.given_root) ** 2 @ self._sums

    def with_covariance(self, covariance):
        """The same for innovations of another covariance."""
        return self if covariance is self.covariance else ConditionalEnergy(covariance, self.blocks)

    def without(self, absent):
        """The same without the units marked absent, shape (n_units,), and the states it is about."""
        kept = tuple(b for b, gone in zip(self.blocks, absent, strict=True) if not gone)
        columns = np.r_[kept]
        blocks = slices_of(b.stop - b.start for b in kept)
        return ConditionalEnergy(self.covariance[np.ix_(columns, columns)], blocks), columns


class OwnEnergy:
    """Surprise of every unit by its own innovations: those of the others hardly tell of them in a large plant.

    From the covariance of each unit's innovations, (p, p).
    """

    def __init__(self, covariances):
        precisions = [np.linalg.inv(C) for C in covariances]
        self.precision = block_diagonal(precisions)
        self.given_root = block_diagonal([np.linalg.cholesky(L) for L in precisions])
        self._sums = block_sums(slices_of(map(len, covariances)))

    def own(self, e):
        """``e_m' C_mm^-1 e_m``, shape (n_samples, n_units)."""
        return (e @ self.given_root) ** 2 @ self._sums

    given_others = own


# -- rows with gaps --------------------------------------------------------------------------------------


class RowBelief(NamedTuple):
    """Knowledge of a row as it would have been measured nominally: mean (n,) and covariance (n, n).

    The covariance is None where the row was measured in full, with its nominal noise.
    """

    mean: np.ndarray
    covariance: np.ndarray | None = None


@dataclass(frozen=True)
class RowPattern:
    """Which units a row shows, shape (n_units,), and its noise covariance beyond the nominal, (n, n)."""

    seen: np.ndarray
    extra: np.ndarray

    @cached_property
    def is_nominal(self):
        """Whether nothing is missing from the row."""
        return bool(self.seen.all()) and not self.extra.any()


class _Step(NamedTuple):
    """Effect of a row of one pattern on a prediction of known covariance."""

    before: np.ndarray
    columns: np.ndarray
    gain: np.ndarray
    after: np.ndarray | None
    judged: np.ndarray  # covariance of the errors of the units that were seen

    @classmethod
    def make(cls, before, pattern, sizes):
        columns = np.flatnonzero(pattern.seen.repeat(sizes))
        if pattern.is_nominal:
            return cls(before, columns, np.eye(len(before)), None, before)
        if not len(columns):
            return cls(before, columns, np.zeros((len(before), 0)), before, np.zeros((0, 0)))
        judged = (before + pattern.extra)[np.ix_(columns, columns)]
        gain = np.linalg.solve(judged, before[columns]).T
        after = before - gain @ before[columns]
        return cls(before, columns, gain, (after + after.T) / 2, judged)


class _Judged:
    """Errors of rows and the covariances that they are judged by, gathered to be judged together.

    Rows of a plant with gaps mostly have covariances of their own, all of the same size while the same units are seen.
    """

    def __init__(self, energy, n_rows):
        self._energy, self._complete = energy, []
        self._groups: dict[bytes, tuple] = {}
        self.own = np.zeros((n_rows, len(energy.blocks)))
        self.given = np.zeros_like(self.own)
        self.errors = np.zeros((n_rows, len(energy.covariance)))

    def add(self, t, e, step, seen):
        """Take note of the errors of row t, those of the units that are `seen`."""
        self.errors[t, step.columns] = e
        if step.judged is self._energy.covariance:
            self._complete.append(t)
        elif len(step.columns):
            group = self._groups.setdefault(seen.tobytes(), (seen, step.columns, [], []))
            group[2].append(t)
            group[3].append(step.judged)

    def judge(self):
        """Surprises own and given of all rows, and their errors as far as the rows tell them.

        What a row with gaps is expected to say of the errors had nothing been missing: its own are noisier, and levels
        learned from these would be of noise.
        """
        e = self.errors[self._complete]
        self.own[self._complete], self.given[self._complete] = self._energy.own(e), self._energy.given_others(e)
        for seen, columns, rows, steps in self._groups.values():
            blocks, units = self._energy.without(~seen)[0].blocks, np.flatnonzero(seen)
            for k in range(0, len(rows), _ENERGY_TOGETHER):
                some, covariances = rows[k : k + _ENERGY_TOGETHER], np.array(steps[k : k + _ENERGY_TOGETHER])
                own, given, weighted = own_and_given(self.errors[np.ix_(some, columns)], covariances, blocks)
                self.own[np.ix_(some, units)], self.given[np.ix_(some, units)] = own, given
                expected = self._energy.covariance[np.ix_(columns, columns)] @ weighted[:, :, None]  # row by row
                self.errors[np.ix_(some, columns)] = expected[:, :, 0]
        return self.own, self.given, self.errors


def own_and_given(e, covariances, blocks):
    """Surprises of every unit in rows that have a covariance each, (n_rows, n, n): on its own, given the others.

    And the errors over these covariances.
    """
    precision, e = np.linalg.inv(covariances), e[:, :, None]
    weighted = precision @ e
    own, given = np.empty((2, len(e), len(blocks)))
    for m, b in enumerate(blocks):
        own[:, m] = (e[:, b] * np.linalg.solve(covariances[:, b, b], e[:, b])).sum(axis=(1, 2))
        given[:, m] = (weighted[:, b] * np.linalg.solve(precision[:, b, b], weighted[:, b])).sum(axis=(1, 2))
    return own, given, weighted[:, :, 0]


def surprises_with_gaps(regression: Predictor, energy, first, x, patterns, pattern_of, belief, level=0.0):
    """:class:`Surprises` of consecutive rows of one episode.

    `energy` is that of nominal rows after nominal rows, `first` the RowBelief about the first row of an
    episode, which is not judged, `belief` that about the row before (None: there is none). Row t of
    `x`, shape (n_samples, n), has ``patterns[pattern_of[t]]``; its numbers for absent units are not used. `level`,
    (n,), is the mean of errors that is taken off; absent units are believed to follow it too, while the belief about
    the others stays theirs. Errors are those that rows in full are expected to have, which the noise of rows with gaps
    does not make larger.
    """
    judged, steps = _Judged(energy, len(x)), dict[int, _Step]()
    sizes = [b.stop - b.start for b in energy.blocks]
    levels = np.zeros(x.shape[1]) + level
    for t, k in enumerate(pattern_of.tolist()):
        mean, covariance = _predicted(regression, energy, belief, first)
        off = levels if belief is not None else np.zeros_like(levels)
        step = steps.get(k)
        if step is None or np.abs(step.before - covariance).max() > _ENERGY_SETTLED * np.abs(covariance).max():
            step = steps[k] = _Step.make(covariance, patterns[k], sizes)
        beyond = x[t, step.columns] - mean[step.columns]
        e = beyond - off[step.columns]
        if belief is not None:
            judged.add(t, e, step, patterns[k].seen)
        updated = mean + off + step.gain @ e
        updated[step.columns] = mean[step.columns] + step.gain[step.columns] @ beyond
        belief = RowBelief(x[t] if step.after is None else updated, step.after)
    own, given, errors = judged.judge()
    return Surprises(errors, own, given, belief)


def _predicted(regression, energy, belief, first):
    """Mean and covariance of a row before it is looked at."""
    if belief is None:
        return first.mean, first.covariance
    mean = regression.predict(belief.mean[None])[0]
    if belief.covariance is None:
        return mean, energy.covariance
    slopes = regression.slopes(belief.mean)
    return mean, slopes @ belief.covariance @ slopes.T + energy.covariance
